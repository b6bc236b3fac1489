/* SPDX-License-Identifier: GPL-2.0-only */
/* The hub: one tree of classes for one queue or several, without a lock for
 * packets.
 *
 * A member is a queue. What it has of a class is a slot, which stands in the
 * tree below the class. Its place is the least virtual time of its flows, which
 * the member writes down (@key), and what it has of bytes counts as sent. So
 * flows are served as if all were in one queue, and nobody counts them. What
 * the first flow does not need is served in the place of the others (@rest):
 * otherwise a flow of few packets, which is always first, has them served.
 *
 * member, below the lock of its queue:
 *  - takes the bytes of a packet from its slot: one atomic operation on a cache
 *    line of its own;
 *  - posts a slot that lacks bytes in @news of the hub, if it is not in the
 *    order, or if its first flow has just come and is behind;
 *  - has all served if it has posted one, or there is something to grant. Then
 *    it sleeps. Who grants it bytes wakes it.
 *
 * holder of the lock of the hub, which may be any member, or the timer:
 *  - settles: bytes that are gone from slots have left, and buckets pay;
 *  - takes back what nobody uses;
 *  - lets slots join that were posted, and gives a packet to early ones, which
 *    have had less than their part;
 *  - grants the others a part each, in the order of the tree;
 *  - arms the timer for when there will be more, unlocks, and wakes members.
 *
 * Nobody waits for the lock: who finds it taken lets the holder serve again.
 * In each stage a hold looks at BPSHAPER_HUB_STEPS slots at most, or at fewer
 * below classes: as many levels.
 *
 * Granted bytes are in the slot's word, and in @out of the buckets above it.
 * Documentation/hub.rst has the proof that no more leaves than burst + rate * T
 * in any T, whenever members run, or not at all. It needs this order:
 *
 *	holder	granted_ns, then the word (release)
 *	member	the word (acquire), then granted_ns: a packet leaves at or after
 *		its grant
 *	member	used_ns, then the word (release)
 *	holder	the word (acquire), then used_ns: what was taken counts at or
 *		after its time
 *
 * A revocation changes the number of the word, so that a member which looked
 * before takes nothing after. Nobody sleeps for ever, because of these pairs of
 * a store and a load, with a full barrier between them on both sides:
 *
 *	the holder	the member
 *	told, asleep	asleep, told	who gets bytes, or is not in the order
 *					any more, hears
 *	is_posted, key	key, is_posted	a later post is a new entry of @news
 *	is_early, key	key, is_early	and a new entry of @early
 *	word, in_order,	is_told, word,	a later grant is a new entry of @told
 *	is_told		in_order
 *	lock, missed	missed, lock	who fails twice has the holder go on
 *
 * The timer is a member that posts that it has fired, in @timer_ns.
 *
 * Nothing here knows a qdisc or reads a clock, so that the host's unit test can
 * include this file: who does has bpshaper_hub_now(), bpshaper_hub_arm() and
 * bpshaper_member_wake().
 */
#ifndef _BPSHAPER_HUB_H
#define _BPSHAPER_HUB_H

/* A hold is bounded: 64 slots take some 10 us, or as many levels of fewer. So a
 * 64th of the turn is what one of them gets at least, and what it may keep to
 * spare.
 */
#define BPSHAPER_HUB_STEPS	64
/* A hold waits for a quarter of the turn: a timer that is late by three
 * quarters of the burst loses nothing.
 */
#define BPSHAPER_HUB_PARTS	4
#define BPSHAPER_ASK_STEPS	8	/* looks, as long as a ring */

/**
 * struct bpshaper_slot - what a member may send of a class
 * @word: bytes on the wire that it may send, and above them a number
 * @used_ns: when the member took bytes last
 * @key: place of the first flow with packets, bytes: the least of all
 * @rest: that of the known flow behind it, or @key
 * @want: backlog, bytes as the qdisc counts them
 * @head: bytes of the next packet on the wire, @want at most
 * @first: bytes that the first flow has
 * @flows: that share it (hint, for what it expects)
 * @has_come: the first flow has sent fewer than two packets since it had none
 * @least: flows with packets are as far as that at least: they have waited
 *	while the slot was not in the order; the member's
 * @granted_ns: when it was granted bytes last
 * @member: whose it is
 * @news_node: in @news of the hub
 * @told_node: in @told of the member
 * @ready_node: in @ready of the member; the member's
 * @is_posted: it is in @news; set by the member
 * @is_told: it is in @told; cleared by the member
 * @in_order: it offers, or waits for a ceil
 * @is_early: it is in @early of the hub
 * @e: its place below the class
 * @out_node: in @out of the hub while some of the bytes granted are not settled
 * @early_node: in @early of the hub
 * @unsettled: bytes granted that are not known to be taken
 * @due_levels: bits of the levels, from the class up, whose floors were due
 *	when it was granted bytes last
 * @lies_ns: since when nothing was taken
 */
struct bpshaper_slot {
	/* written by the member, for the holder */
	atomic64_t		word ____cacheline_aligned_in_smp;
	atomic64_t		used_ns;
	atomic64_t		key;
	atomic64_t		rest;
	u32			want;
	u32			head;
	u32			first;
	u32			flows;
	bool			has_come;
	u64			least;

	/* written by the holder, for the member */
	atomic64_t		granted_ns ____cacheline_aligned_in_smp;
	struct bpshaper_member	*member;
	struct llist_node	news_node;
	struct llist_node	told_node;
	struct list_head	ready_node;
	bool			is_posted;
	bool			is_told;
	bool			in_order;
	bool			is_early;

	/* under the lock of the hub */
	u16			due_levels;
	u32			unsettled;
	u64			lies_ns;
	struct bpshaper_entity	e;
	struct list_head	out_node;
	struct list_head	early_node;
};

/**
 * struct bpshaper_member - a queue that takes part in a hub
 * @hub: its hub
 * @ready: slots with a backlog that may have bytes. The others are told.
 * @slots: the number of slots with a backlog
 * @asleep: 1 while it waits for bytes; cleared by the holder
 * @told: slots that have got bytes, or have left the order, by the holder
 */
struct bpshaper_member {
	struct bpshaper_hub	*hub;
	struct list_head	ready;
	u32			slots;

	/* written by both */
	u32			asleep ____cacheline_aligned_in_smp;
	struct llist_head	told;
};

/**
 * struct bpshaper_hub - a tree for several queues
 * @lock: tried, and taken under RTNL
 * @missed: 1: somebody has found the lock taken
 * @tokens_ns: before that there is nothing to grant (hint); U64_MAX: who wants
 *	something has posted it
 * @timer_ns: when the timer fires; 0: it has
 * @in_order: slots that are in the order
 * @lent: bytes of memory that members have borrowed (socket.h)
 * @news: slots that are posted
 * @tree: whose root has the rate, and the burst, of all
 * @come: slots that are taken from @news, and not looked at
 * @out: slots with unsettled bytes
 * @early: early slots, which may go before their turn
 * @noted: members that it wakes when the lock is free, an array of the holder
 * @noted_len: their number
 * @lacked: bytes that the slot which was next has lacked in the last hold, or 0
 * @stat_locks: holds that served
 * @stat_grants: grants
 * @stat_revokes: times that bytes were taken back
 */
struct bpshaper_hub {
	raw_spinlock_t		lock ____cacheline_aligned_in_smp;
	u32			missed;

	/* written by the holder */
	atomic64_t		tokens_ns ____cacheline_aligned_in_smp;
	atomic64_t		timer_ns;
	u32			in_order;

	atomic64_t		lent ____cacheline_aligned_in_smp;
	struct llist_head	news ____cacheline_aligned_in_smp;

	/* under the lock */
	struct bpshaper_tree	tree ____cacheline_aligned_in_smp;
	struct llist_node	*come;
	struct list_head	out;
	struct list_head	early;
	struct bpshaper_member	**noted;
	int			noted_len;
	u32			lacked;
	u64			stat_locks;
	u64			stat_grants;
	u64			stat_revokes;
};

/* Whoever includes this file has these. */
static u64 bpshaper_hub_now(void);
static void bpshaper_hub_arm(struct bpshaper_hub *hub, u64 at);
static void bpshaper_member_wake(struct bpshaper_member *m);

/* The member's side */

static void bpshaper_hub_ring(struct bpshaper_hub *hub);

static void bpshaper_member_init(struct bpshaper_member *m,
				 struct bpshaper_hub *hub)
{
	memset(m, 0, sizeof(*m));
	m->hub = hub;
	INIT_LIST_HEAD(&m->ready);
	init_llist_head(&m->told);
}

/* The slot of @m is below @parent. */
static void bpshaper_slot_join(struct bpshaper_slot *s,
			       struct bpshaper_member *m,
			       struct bpshaper_node *parent)
{
	memset(s, 0, sizeof(*s));
	s->member = m;
	INIT_LIST_HEAD(&s->ready_node);
	INIT_LIST_HEAD(&s->out_node);
	INIT_LIST_HEAD(&s->early_node);
	bpshaper_entity_init(&s->e, parent, 1);
}

/* Bytes that the slot may send. */
static inline u32 bpshaper_slot_bytes(const struct bpshaper_slot *s)
{
	return lower_32_bits(atomic64_read_acquire(&s->word));
}

/* Does the slot lack bytes for its next packet? */
static inline bool bpshaper_slot_lacks(const struct bpshaper_slot *s)
{
	return bpshaper_slot_bytes(s) < READ_ONCE(s->head);
}

/* V of the class, bytes: flows that come are two packets behind it at most. */
static inline u64 bpshaper_slot_vtime(const struct bpshaper_slot *s)
{
	return bpshaper_entity_vtime(&s->e);
}

/* Has its first flow come, and had less than others of the class, also with its
 * next packet?
 */
static inline bool bpshaper_slot_is_behind(const struct bpshaper_slot *s)
{
	return READ_ONCE(s->has_come) &&
	       !bpshaper_tag_before(bpshaper_slot_vtime(s),
				    atomic64_read(&s->key) +
				    READ_ONCE(s->head));
}

/* Take @len bytes at @now, or later, if that was before they were granted: @now
 * is when they leave. Return false if there are too few.
 */
static bool bpshaper_slot_take(struct bpshaper_slot *s, u32 len, u64 *now)
{
	s64 word;

	do {
		word = atomic64_read_acquire(&s->word);
		if (lower_32_bits(word) < len)
			return false;
		*now = max_t(u64, *now, atomic64_read(&s->granted_ns));
		atomic64_set(&s->used_ns, *now);
	} while (!atomic64_try_cmpxchg_release(&s->word, &word, word - len));
	return true;
}

/* Look at the slot, which has a backlog: first if a flow has come. */
static void bpshaper_slot_be_ready(struct bpshaper_slot *s)
{
	if (s->has_come)
		list_move(&s->ready_node, &s->member->ready);
	else if (list_empty(&s->ready_node))
		list_add_tail(&s->ready_node, &s->member->ready);
}

/* The backlog of the slot is @want bytes, of which the first flow has @first.
 * The next packet has @head bytes, as far as the member knows: not more than
 * there are, or it would wait for more than it gets. @key and @rest: see struct
 * bpshaper_slot.
 */
static void bpshaper_slot_set(struct bpshaper_slot *s, u32 want, u32 first,
			      u32 head, u64 key, u64 rest)
{
	s->member->slots += !!want - !!s->want;
	WRITE_ONCE(s->head, min(head, want));
	WRITE_ONCE(s->first, first);
	if (want) {	/* else it stays where it was */
		atomic64_set(&s->key, key);
		atomic64_set(&s->rest, rest);
	}
	WRITE_ONCE(s->want, want);
	if (!want)
		list_del_init(&s->ready_node);
	else if (!bpshaper_slot_lacks(s) || !READ_ONCE(s->in_order) ||
		 bpshaper_slot_is_behind(s))	/* else wait to be told */
		bpshaper_slot_be_ready(s);
}

/* The slot lacks bytes: post it, unless the holder knows. If it was not in the
 * order, its flows have waited for nothing: it is new, or its member was late.
 * Return whether all were served.
 */
static bool bpshaper_slot_post(struct bpshaper_slot *s)
{
	struct bpshaper_hub *hub = s->member->hub;

	smp_mb();	/* @want and @key before what the holder writes */
	if (smp_load_acquire(&s->is_posted))
		return false;
	if (!READ_ONCE(s->in_order))
		s->least = bpshaper_slot_vtime(s) - READ_ONCE(hub->tree.credit);
	else if (!bpshaper_slot_is_behind(s) || READ_ONCE(s->is_early))
		return false;
	WRITE_ONCE(s->is_posted, true);
	llist_add(&s->news_node, &hub->news);
	if (!s->has_come)
		return false;
	bpshaper_hub_ring(hub);	/* do not wait until others have sent theirs */
	return true;
}

/* The member is awake, and looks at the slots that it was told of, in the order
 * in which they got bytes.
 */
static void bpshaper_member_hear(struct bpshaper_member *m)
{
	struct llist_node *node, *next;
	struct bpshaper_slot *s;

	if (READ_ONCE(m->asleep))
		WRITE_ONCE(m->asleep, 0);
	if (llist_empty(&m->told))
		return;
	node = llist_reverse_order(llist_del_all(&m->told));
	llist_for_each_safe(node, next, node) {
		s = llist_entry(node, struct bpshaper_slot, told_node);
		smp_store_release(&s->is_told, false);	/* after @next */
		if (s->want)
			bpshaper_slot_be_ready(s);
	}
	smp_mb();	/* @is_told before @word: bpshaper_slot_tell() */
}

/* The first slot that has bytes for its next packet. NULL if there is none, or
 * after @steps, one for each that lacks them.
 */
static struct bpshaper_slot *bpshaper_member_next(struct bpshaper_member *m,
						  int *steps)
{
	struct bpshaper_slot *s;

	for (; *steps > 0; --*steps) {
		bpshaper_member_hear(m);
		if (list_empty(&m->ready))
			break;
		s = list_first_entry(&m->ready, struct bpshaper_slot,
				     ready_node);
		if (!bpshaper_slot_lacks(s))
			return s;
		list_del_init(&s->ready_node);
		if (bpshaper_slot_post(s))
			*steps -= BPSHAPER_ASK_STEPS;
	}
	return NULL;
}

/* No slot of the member has bytes for its next packet: it asks for some. Return
 * true if it is to look again. Otherwise it sleeps until it is woken.
 */
static bool bpshaper_member_ask(struct bpshaper_member *m, u64 now)
{
	struct bpshaper_hub *hub = m->hub;

	if (!llist_empty(&hub->news) ||
	    now >= (u64)atomic64_read(&hub->tokens_ns))
		bpshaper_hub_ring(hub);
	WRITE_ONCE(m->asleep, 1);
	smp_mb();	/* @asleep before @told: bpshaper_slot_tell() */
	if (list_empty(&m->ready) && llist_empty(&m->told))
		return false;
	WRITE_ONCE(m->asleep, 0);
	return true;
}

/* If nobody has woken it by then, the hub's timer is late: it asks itself. */
static u64 bpshaper_member_backstop_ns(const struct bpshaper_member *m, u64 now)
{
	const struct bpshaper_hub *hub = m->hub;
	u64 tokens_ns = atomic64_read(&hub->tokens_ns);
	u64 each_ns = max_t(u64, READ_ONCE(hub->tree.credit_ns),
			    BPSHAPER_TIMER_LATE_NS);

	return max(now, tokens_ns == U64_MAX ? 0 : tokens_ns) +
	       READ_ONCE(hub->in_order) * each_ns;
}

/* The lock of the hub is held from here on. */

/* Let the member look at the slot, whose bytes or place have changed. */
static void bpshaper_slot_tell(struct bpshaper_slot *s)
{
	struct bpshaper_member *m = s->member;
	struct bpshaper_hub *hub = m->hub;

	smp_mb();	/* @word, @in_order before @is_told: hear() */
	if (!smp_load_acquire(&s->is_told)) {
		WRITE_ONCE(s->is_told, true);
		llist_add(&s->told_node, &m->told);
	}
	smp_mb();	/* @told before @asleep: bpshaper_member_ask() */
	if (!READ_ONCE(m->asleep))
		return;
	WRITE_ONCE(m->asleep, 0);
	if (hub->noted_len < BPSHAPER_HUB_STEPS)
		hub->noted[hub->noted_len++] = m;
	else
		bpshaper_member_wake(m);
}

/* Its flows say where it is, and their number what it expects. What it has of
 * bytes counts as sent, by the first of them, and what that does not need by
 * the others.
 */
static void bpshaper_slot_place(struct bpshaper_slot *s)
{
	u64 v = atomic64_read(&s->key) + s->unsettled, rest;
	u32 flows = clamp_t(u32, READ_ONCE(s->flows), 1, BIT(20));
	u32 first = READ_ONCE(s->first);

	if (s->e.is_offering)
		s->e.parent->weights[0] += (s64)flows - s->e.weight;
	WRITE_ONCE(s->e.weight, flows);
	rest = atomic64_read(&s->rest) + s->unsettled - first;
	if (s->unsettled >= first && bpshaper_tag_before(v, rest))
		v = rest;
	bpshaper_entity_place(&s->e, v, 0);
}

static void bpshaper_slot_enter(struct bpshaper_slot *s)
{
	struct bpshaper_hub *hub = s->member->hub;

	if (!s->in_order) {
		WRITE_ONCE(s->in_order, true);
		WRITE_ONCE(hub->in_order, hub->in_order + 1);
		s->e.has_backlog = true;
		bpshaper_entity_update(&hub->tree, &s->e);
	}
	bpshaper_slot_place(s);		/* its flows have joined */
}

static void bpshaper_slot_quit(struct bpshaper_slot *s)
{
	struct bpshaper_hub *hub = s->member->hub;

	if (!s->in_order)
		return;
	list_del_init(&s->early_node);
	WRITE_ONCE(s->is_early, false);
	s->e.has_backlog = false;
	bpshaper_entity_update(&hub->tree, &s->e);
	WRITE_ONCE(hub->in_order, hub->in_order - 1);
	WRITE_ONCE(s->in_order, false);
}

/* Settling */

/* Of the bytes granted to the slot @left are left. */
static void bpshaper_slot_settle(struct bpshaper_slot *s, u32 left)
{
	u64 used_ns = atomic64_read(&s->used_ns);
	struct bpshaper_tree *tree = &s->member->hub->tree;
	u32 used = s->unsettled - left;
	struct bpshaper_node *n;

	if (!used)
		return;
	tree->now_ns = max(tree->now_ns, used_ns);
	s->lies_ns = tree->now_ns;
	s->unsettled = left;
	for (n = s->e.parent; n; n = n->e.parent)
		bpshaper_bucket_settle(&n->bucket, &n->ceil, used, used_ns);
}

/* Take back what the slot has not taken, and what classes have paid for it. */
static void bpshaper_slot_revoke(struct bpshaper_slot *s)
{
	u64 number = upper_32_bits(atomic64_read(&s->word)) + 1ULL;
	u32 left = lower_32_bits(atomic64_xchg(&s->word, number << 32));
	u16 levels = s->due_levels;
	struct bpshaper_node *n;

	bpshaper_slot_settle(s, left);
	s->unsettled = 0;
	list_del_init(&s->out_node);
	s->member->hub->stat_revokes += !!left;
	for (n = s->e.parent; n && left; n = n->e.parent, levels >>= 1) {
		n->bucket.out -= left;
		n->e.is_due = levels & 1;
		if (n->e.parent)
			bpshaper_node_pay(n, -(s64)left, false);
	}
}

/* Settle. Take back what does not suffice for a packet, what is not wanted if
 * others may lack it, and what nobody has touched for long: the member is late,
 * and is not served until it asks.
 */
static void bpshaper_slot_look(struct bpshaper_slot *s, struct list_head *out)
{
	u32 left = bpshaper_slot_bytes(s), want = READ_ONCE(s->want);
	struct bpshaper_hub *hub = s->member->hub;
	struct bpshaper_tree *tree = &hub->tree;

	bpshaper_slot_settle(s, left);
	if (want ? left < READ_ONCE(s->head) :
		   bpshaper_node_room(tree, &tree->root) < hub->lacked ||
		   bpshaper_tree_ready_ns(tree) != U64_MAX) {
		bpshaper_slot_revoke(s);
	} else if (want &&
		   tree->now_ns > s->lies_ns + BPSHAPER_PATIENCE_NS) {
		bpshaper_slot_quit(s);
		bpshaper_slot_revoke(s);
		bpshaper_slot_tell(s);
	}
	bpshaper_slot_place(s);
	list_del_init(&s->out_node);
	if (s->unsettled)
		list_add_tail(&s->out_node, out);
}

static void bpshaper_hub_settle(struct bpshaper_hub *hub)
{
	struct bpshaper_slot *s, *next;
	int steps = BPSHAPER_HUB_STEPS;
	LIST_HEAD(out);

	list_for_each_entry_safe(s, next, &hub->out, out_node) {
		if (steps <= 0)
			break;
		steps -= s->e.level;
		bpshaper_slot_look(s, &out);
	}
	list_splice_tail(&out, &hub->out);
}

/* Granting */

/* Grant @bytes to the slot, which was chosen, or passes others. */
static void bpshaper_slot_grant(struct bpshaper_slot *s, u32 bytes,
				bool in_turn)
{
	u64 key = atomic64_read(&s->key), v = s->e.turn.at;
	struct bpshaper_hub *hub = s->member->hub;
	struct bpshaper_node *n;
	u16 level = 1;

	/* What it has, which is in its v, is its own affair. */
	bpshaper_entity_advance(&s->e, bpshaper_tag_before(key, v) ? key : v);
	s->due_levels = 0;
	for (n = s->e.parent; n; n = n->e.parent, level <<= 1) {
		n->bucket.out += bytes;
		if (!n->e.parent)
			break;
		s->due_levels |= n->e.is_due ? level : 0;
		if (!in_turn)
			n->ahead += bytes;
		else if (!n->e.is_due)
			n->ahead = 0;
		bpshaper_node_pay(n, bytes, in_turn);
	}
	if (!s->unsettled)
		s->lies_ns = hub->tree.now_ns;
	if (list_empty(&s->out_node))
		list_add_tail(&s->out_node, &hub->out);
	s->unsettled += bytes;
	bpshaper_slot_place(s);
	atomic64_set(&s->granted_ns, hub->tree.now_ns);
	atomic64_fetch_add_release(BIT_ULL(32) + bytes, &s->word);
	hub->stat_grants++;
	if (READ_ONCE(s->want) <= s->unsettled)
		bpshaper_slot_quit(s);
	bpshaper_slot_tell(s);
}

/* The first node above the slot that does not allow @bytes. */
static struct bpshaper_node *
bpshaper_slot_stopped_at(const struct bpshaper_slot *s, u32 bytes)
{
	const struct bpshaper_tree *tree = &s->member->hub->tree;
	struct bpshaper_node *n = s->e.parent;

	while (n && bpshaper_node_allows(tree, n, bytes))
		n = n->e.parent;
	return n;
}

/* Past slots
 *
 * A packet that is alone needs no order: it leaves past its slot if no slot is
 * in the order, or about to be, and all buckets above it have room. Return
 * whether it may, and at which @now. The hub has one member: as nobody waits,
 * who finds the lock taken misses nothing.
 */
static bool bpshaper_slot_pass(struct bpshaper_slot *s, u32 len, u64 *now)
{
	struct bpshaper_hub *hub = s->member->hub;
	struct bpshaper_node *n;
	unsigned long flags;
	bool may;

	if (READ_ONCE(hub->in_order) ||
	    !raw_spin_trylock_irqsave(&hub->lock, flags))
		return false;
	*now = max(*now, hub->tree.now_ns);
	hub->tree.now_ns = *now;
	may = !hub->in_order && !hub->come && llist_empty(&hub->news) &&
	      !bpshaper_slot_stopped_at(s, len);
	for (n = s->e.parent; n && may; n = n->e.parent)
		if (n->ceil.Bps)
			bpshaper_bucket_charge(&n->bucket, &n->ceil, len, *now);
	raw_spin_unlock_irqrestore(&hub->lock, flags);
	return may;
}

/* What the slot is granted, which lacks @least bytes for its next packet of
 * @head: its share of what there was in this hold, @all, by weights, or what it
 * wants, in whole packets; and some to spare if it wants little.
 */
static u32 bpshaper_slot_part(const struct bpshaper_slot *s, u32 least,
			      u32 head, u32 want, u32 all)
{
	const struct bpshaper_tree *tree = &s->member->hub->tree;
	u64 Bps = tree->root.ceil.Bps;	/* 2^43 at most */
	u32 few = tree->turn / BPSHAPER_HUB_STEPS, most, first;
	const struct bpshaper_node *n;
	s64 room = S64_MAX, spare;

	most = all * div64_u64(bpshaper_entity_expected_Bps(&s->e, Bps) << 20,
			       Bps) >> 20;
	most = min(most, tree->turn / BPSHAPER_HUB_PARTS);
	most = max3(most, few, tree->credit);
	for (n = s->e.parent; n; n = n->e.parent)
		if (n->ceil.Bps)
			room = min(room, bpshaper_node_room(tree, n));
	most = max_t(s64, min_t(s64, most, room), least);
	first = READ_ONCE(s->first);
	first -= min(first, s->unsettled);
	if (most > first && bpshaper_tag_before(s->e.turn.at + most,
						atomic64_read(&s->rest)))
		return max(first, least);	/* none to spare */
	most = min(most, want);
	if (want > most)
		return least + (most - least) / head * head;
	spare = min_t(s64, (room - want) / 4, few);
	return want + (u32)max_t(s64, spare, 0) / head * head;
}

/* Early slots
 *
 * A slot whose first flow has come with less than its part, or below a class
 * that has had less than its part, gets a packet at once: not with the next
 * hold, and not in the turns of classes. If it is ahead it must be the first of
 * its class, or it would get all that the class has. So V moves on with it too.
 * But smaller prios and late strict floors do not wait for that, and each class
 * gets two packets before its turn, or four if the slot has but one.
 */

static bool bpshaper_slot_is_early(const struct bpshaper_slot *s)
{
	const struct bpshaper_entity *e;

	if (bpshaper_slot_is_behind(s))
		return true;
	for (e = &s->e.parent->e; e->parent; e = &e->parent->e)
		if (!bpshaper_tag_before(bpshaper_entity_vtime(e), e->turn.at +
					 READ_ONCE(s->head) * e->inverse))
			return true;
	return false;
}

static bool bpshaper_slot_may_pass(const struct bpshaper_slot *s, u32 bytes)
{
	const struct bpshaper_tree *tree = &s->member->hub->tree;
	struct bpshaper_node *n, *parent, *late;
	u32 most = tree->credit;

	if (READ_ONCE(s->want) <= most / BPSHAPER_CREDIT_PKTS)
		most *= 2;
	for (n = s->e.parent; (parent = n->e.parent); n = parent) {
		if (bpshaper_tag_before(n->e.turn.at,
					bpshaper_entity_vtime(&n->e)))
			n->ahead = 0;
		if (!n->e.is_offering || n->ahead + bytes > most)
			return false;
		n->e.is_due = bpshaper_node_floor_is_due(tree, n);
		if (n->e.is_due)
			continue;
		late = bpshaper_node_first_due(parent, 0);
		if (late && late->due.at + BPSHAPER_PATIENCE_NS <
			    bpshaper_node_clock(tree, parent, 0))
			return false;
		if (n->e.prio != bpshaper_node_first_turn(parent)->prio)
			return false;
	}
	return true;
}

/* Return when there are tokens for the first that lacks them; U64_MAX: none. */
static u64 bpshaper_hub_serve_early(struct bpshaper_hub *hub)
{
	struct bpshaper_node *root = &hub->tree.root, *n;
	struct bpshaper_slot *s, *next;
	int steps = BPSHAPER_HUB_STEPS;
	u64 ready_ns = U64_MAX;
	bool may_pass;
	LIST_HEAD(early);
	u32 head;

	list_for_each_entry_safe(s, next, &hub->early, early_node) {
		if (steps <= 0 || ready_ns != U64_MAX)
			break;
		steps -= s->e.level;
		list_del_init(&s->early_node);
		WRITE_ONCE(s->is_early, false);
		smp_mb();	/* @is_early before @key: slot_post() */
		head = READ_ONCE(s->head);
		if (bpshaper_slot_bytes(s) >= head ||
		    !bpshaper_slot_is_early(s) ||
		    (bpshaper_tag_before(bpshaper_slot_vtime(s),
					 s->e.turn.at) &&
		     bpshaper_node_first_turn(s->e.parent) != &s->e))
			continue;
		n = bpshaper_slot_stopped_at(s, head);
		may_pass = (!n || n == root) && bpshaper_slot_may_pass(s, head);
		if (may_pass && !n) {
			/* If the packet is alone it may have some to spare. */
			if (hub->in_order == 1 && READ_ONCE(s->want) == head)
				head = bpshaper_slot_part(s, head, head, head,
							  0);
			bpshaper_slot_grant(s, head, false);
			continue;
		}
		if (may_pass)
			ready_ns = bpshaper_node_ready_ns(&hub->tree, n, head);
		WRITE_ONCE(s->is_early, true);
		list_add_tail(&s->early_node, &early);
	}
	list_splice_tail(&early, &hub->early);
	return ready_ns;
}

/* In order */

/* The smallest burst of ceils above the slot: while all wait for longer than a
 * quarter of it, tokens are lost.
 */
static u32 bpshaper_slot_least_burst(const struct bpshaper_slot *s)
{
	const struct bpshaper_node *n;
	u32 burst = U32_MAX;

	for (n = s->e.parent; n->e.parent; n = n->e.parent)
		if (n->ceil.Bps)
			burst = min(burst, n->e.burst);
	return burst;
}

/* Serve those that offer, until the tokens do not do for the next. Return when
 * they will; U64_MAX: nobody offers.
 */
static u64 bpshaper_hub_serve_order(struct bpshaper_hub *hub)
{
	struct bpshaper_tree *tree = &hub->tree;
	u32 all = max_t(s64, bpshaper_node_room(tree, &tree->root), 0);
	u32 held, head, want, least, most;
	int steps = BPSHAPER_HUB_STEPS;
	struct bpshaper_entity *e;
	struct bpshaper_node *n;
	struct bpshaper_slot *s;

	while ((e = bpshaper_tree_next(tree))) {
		if (steps <= 0)
			return tree->now_ns;
		steps -= e->level;
		s = container_of(e, struct bpshaper_slot, e);
		held = bpshaper_slot_bytes(s);
		head = max(READ_ONCE(s->head), 1U);
		want = READ_ONCE(s->want);
		if (want <= held) {
			bpshaper_slot_quit(s);
			bpshaper_slot_tell(s);
			continue;
		}
		want -= held;
		least = min(want, held < head ? head - held : head);
		n = bpshaper_slot_stopped_at(s, least);
		if (!n) {
			most = bpshaper_slot_part(s, least, head, want, all);
			bpshaper_slot_grant(s, most, true);
			continue;
		}
		most = n == &tree->root ? tree->turn : min(want, n->e.burst);
		most = min(most, bpshaper_slot_least_burst(s));
		most = max(least, most / BPSHAPER_HUB_PARTS);
		if (n == &tree->root) {
			hub->lacked = most;
			return bpshaper_node_ready_ns(tree, n, most);
		}
		bpshaper_node_wait(tree, n, most);
	}
	return U64_MAX;
}

/* Up to @most slots that were posted join. Return whether there are more. */
static bool bpshaper_hub_hear(struct bpshaper_hub *hub, int most)
{
	struct bpshaper_slot *s;

	while (most > 0) {
		if (!hub->come)
			hub->come = llist_del_all(&hub->news);
		if (!hub->come)
			return false;
		s = llist_entry(hub->come, struct bpshaper_slot, news_node);
		hub->come = s->news_node.next;
		most -= s->e.level;
		smp_store_release(&s->is_posted, false); /* after @come */
		smp_mb();	/* @is_posted before @key: slot_post() */
		bpshaper_slot_enter(s);
		if (s->is_early || !bpshaper_slot_is_early(s))
			continue;
		WRITE_ONCE(s->is_early, true);
		list_add_tail(&s->early_node, &hub->early);
	}
	return true;
}

static void bpshaper_hub_serve(struct bpshaper_hub *hub)
{
	u64 at, early_ns, ready_ns, timer_ns, now = bpshaper_hub_now();
	struct bpshaper_tree *tree = &hub->tree;
	bool has_more;

	hub->stat_locks++;
	now = max(tree->now_ns, now);
	tree->now_ns = now;
	bpshaper_hub_settle(hub);
	hub->lacked = 0;
	has_more = bpshaper_hub_hear(hub, BPSHAPER_HUB_STEPS);
	bpshaper_tree_wake(tree, BPSHAPER_HUB_STEPS);
	early_ns = bpshaper_hub_serve_early(hub);
	at = early_ns > now + BPSHAPER_PATIENCE_NS ?
	     bpshaper_hub_serve_order(hub) : early_ns;
	ready_ns = bpshaper_tree_ready_ns(tree);	/* for several */
	at = min(at, max(ready_ns, now + BPSHAPER_TIMER_LATE_NS));
	at = has_more ? now : at;
	/* Others have all that there may be: who asks may give some back. */
	atomic64_set(&hub->tokens_ns, hub->lacked &&
		     tree->root.bucket.tat_ns <= now ? now : at);
	timer_ns = atomic64_read(&hub->timer_ns);
	if (at == U64_MAX || (timer_ns > now && timer_ns <= at))
		return;
	atomic64_set(&hub->timer_ns, at);
	bpshaper_hub_arm(hub, at);
}

/* Serve, unless somebody does, who then does it again. The caller is in a
 * section of RCU, or has RTNL, so that members which are noted stay.
 */
static void bpshaper_hub_ring(struct bpshaper_hub *hub)
{
	struct bpshaper_member *noted[BPSHAPER_HUB_STEPS];
	u64 begun_ns = 0, now = 0;
	unsigned long flags;
	int len, i;

	while (now <= begun_ns + BPSHAPER_TIMER_LATE_NS) {
		if (!raw_spin_trylock_irqsave(&hub->lock, flags)) {
			WRITE_ONCE(hub->missed, 1);
			smp_mb();	/* @missed before @lock */
			if (!raw_spin_trylock_irqsave(&hub->lock, flags))
				return;
		}
		hub->noted = noted;
		hub->noted_len = 0;
		WRITE_ONCE(hub->missed, 0);
		smp_mb();	/* @missed before @news and @timer_ns */
		bpshaper_hub_serve(hub);
		len = hub->noted_len;
		now = hub->tree.now_ns;
		begun_ns = begun_ns ?: now;
		raw_spin_unlock_irqrestore(&hub->lock, flags);
		for (i = 0; i < len; i++)
			bpshaper_member_wake(noted[i]);
		smp_mb();	/* @lock before @missed */
		if (!READ_ONCE(hub->missed))
			return;
	}
	bpshaper_hub_arm(hub, now);	/* the timer goes on */
}

/* The timer has fired. */
static void bpshaper_hub_timer(struct bpshaper_hub *hub)
{
	atomic64_set(&hub->timer_ns, 0);
	smp_mb();	/* @timer_ns before @missed: the holder arms it again */
	bpshaper_hub_ring(hub);
}

/* Changing: under RTNL */

static void bpshaper_hub_init(struct bpshaper_hub *hub)
{
	memset(hub, 0, sizeof(*hub));
	raw_spin_lock_init(&hub->lock);
	init_llist_head(&hub->news);
	bpshaper_tree_init(&hub->tree);
	INIT_LIST_HEAD(&hub->out);
	INIT_LIST_HEAD(&hub->early);
}

/* Between these the tree may be changed, and buckets: nothing is granted. */
static void bpshaper_hub_lock(struct bpshaper_hub *hub, unsigned long *flags)
	__acquires(&hub->lock)
{
	struct bpshaper_slot *s, *next;

	raw_spin_lock_irqsave(&hub->lock, *flags);
	hub->tree.now_ns = max_t(u64, hub->tree.now_ns, bpshaper_hub_now());
	list_for_each_entry_safe(s, next, &hub->out, out_node)
		bpshaper_slot_revoke(s);
}

static void bpshaper_hub_unlock(struct bpshaper_hub *hub, unsigned long flags)
	__releases(&hub->lock)
{
	atomic64_set(&hub->timer_ns, 0);	/* it was armed as of before */
	raw_spin_unlock_irqrestore(&hub->lock, flags);
	bpshaper_hub_ring(hub);
}

/* The rate changes: take all bytes back, and start with an empty bucket. A
 * packet of the MTU has @mtu bytes on the wire.
 */
static void bpshaper_hub_set(struct bpshaper_hub *hub,
			     const struct bpshaper_rate *r, u32 burst, u32 mtu)
{
	struct bpshaper_tree *tree = &hub->tree;
	unsigned long flags;

	bpshaper_hub_lock(hub, &flags);
	bpshaper_node_set_ceil(tree, &tree->root, r, burst);
	/* A burst that is longer than the default makes turns no longer. */
	tree->turn = min(burst, max(bpshaper_Bps_bytes(r->Bps, NSEC_PER_MSEC),
				    4 * mtu));
	WRITE_ONCE(tree->credit, BPSHAPER_CREDIT_PKTS * mtu);
	WRITE_ONCE(tree->credit_ns, bpshaper_rate_cost_ns(r, tree->credit));
	bpshaper_hub_unlock(hub, flags);
}

/* The slot goes, or has lost its packets: nobody refers to it afterwards, nor
 * wakes its member because of it. The lock of the member's queue is held.
 */
static void bpshaper_slot_leave(struct bpshaper_slot *s)
{
	struct bpshaper_hub *hub = s->member->hub;
	unsigned long flags;

	bpshaper_slot_set(s, 0, 0, 0, 0, 0);
	raw_spin_lock_irqsave(&hub->lock, flags);
	while (s->is_posted)
		bpshaper_hub_hear(hub, BPSHAPER_HUB_STEPS);
	bpshaper_slot_quit(s);
	bpshaper_slot_revoke(s);
	bpshaper_member_hear(s->member);
	bpshaper_hub_unlock(hub, flags);
}

#endif /* _BPSHAPER_HUB_H */
