/* SPDX-License-Identifier: GPL-2.0-only */
/* Slots: what the members of a hub may send, and how they are granted it.
 *
 * hub.h says what for. Nothing here knows a qdisc or reads a clock; times are
 * of CLOCK_MONOTONIC. The first part is the member's side, below the lock of
 * its queue.
 */
#ifndef _BPSHAPER_SLOT_H
#define _BPSHAPER_SLOT_H

/* A hold of the lock looks at so many slots at most: in the order of the tree,
 * of those with granted bytes, fresh, and away.
 */
#define BPSHAPER_HUB_GRANTS	64
#define BPSHAPER_HUB_SETTLES	64
#define BPSHAPER_HUB_FRESH	4
#define BPSHAPER_HUB_AWAY	2
/* A member with more slots does not look at those that are to wait for long. */
#define BPSHAPER_HUB_LOOKS	16
/* Look at a lock that is taken so many times, then post and sleep. */
#define BPSHAPER_HUB_SPINS	100
#define BPSHAPER_HUB_BUSY_NS	(30 * NSEC_PER_USEC)
/* Sleep for so long; with more than 200 slots, for longer. */
#define BPSHAPER_HUB_LEAST_NS	(15 * NSEC_PER_USEC)
#define BPSHAPER_HUB_MOST_NS	(4 * NSEC_PER_MSEC)
/* More than timers are late, less than a burst takes by default */
#define BPSHAPER_HUB_REVOKE_NS	(200 * NSEC_PER_USEC)
/* A slot without a backlog keeps a few bytes for so long. */
#define BPSHAPER_HUB_SPARE_NS	(5 * NSEC_PER_MSEC)
#define BPSHAPER_HUB_FRESH_NS	(2 * NSEC_PER_MSEC)
#define BPSHAPER_HUB_RECENT_NS	BIT_ULL(18)
/* To be late counts for so many grants. Who is late often is served only while
 * awake, so many times.
 */
#define BPSHAPER_HUB_LATE_GRANTS 4
#define BPSHAPER_HUB_LATE_ROUNDS 16

/**
 * enum bpshaper_slot_state - where a slot is
 * @BPSHAPER_SLOT_IDLE: not in the tree: it has lacked nothing
 * @BPSHAPER_SLOT_AWAY: not in the tree until its member asks: it is late, or
 *	sleeps for long, or has enough
 * @BPSHAPER_SLOT_POSTED: in @news of the hub
 * @BPSHAPER_SLOT_INTREE: in the tree
 */
enum bpshaper_slot_state {
	BPSHAPER_SLOT_IDLE,
	BPSHAPER_SLOT_AWAY,
	BPSHAPER_SLOT_POSTED,
	BPSHAPER_SLOT_INTREE,
};

/**
 * struct bpshaper_slot - what a member may send of a class
 * @word: bytes on the wire that it may send, and above them a number
 * @used_ns: when the member took bytes last
 * @want: backlog, bytes as the qdisc counts them, written by the member like
 *	the next two
 * @head: bytes of the next packet on the wire, @want at most
 * @flows: that share it, its weight
 * @unpaid: bytes of others that the member has sent, in all (sched.h)
 * @was_empty: it had no backlog since the holder saw it last
 * @is_new: it asks for a packet of a new flow
 * @has_asked: it is new, or has been, since it took bytes
 * @granted_ns: when it was granted bytes last, written by the holder
 * @next_ns: when to ask again, written by both, like @state
 * @state: an enum bpshaper_slot_state
 * @member: whose it is
 * @backlog_node: in @slots or @waiting of the member, while it has a backlog
 * @news_node: in @news of the hub
 * @told_node: in @told of the member
 * @waits: it is in @waiting, and is to be told; under the lock of the hub
 * @node: in the tree of the hub; from here on under the lock of the hub
 * @out_node: in @out of the hub while some of the bytes granted are not settled
 * @hub_node: in @fresh or @away of the hub
 * @unsettled: bytes granted that are not known to be taken
 * @unpaid_seen: @unpaid when the slot was settled last
 * @fresh: bytes that it may get past the order of the tree
 * @joined_ns: when it became fresh last
 * @period_ns: time that the last grant is expected to do for
 * @recent: bytes that it gets in BPSHAPER_HUB_RECENT_NS, on average
 * @granted: bytes granted at @granted_ns
 * @due_levels: bits of the levels, from the slot up, whose floors were due then
 * @retries: times that it has asked since it was granted bytes
 * @late_rounds: times that it is next for which it is served only if awake
 * @late_grants: grants for which it still counts as late
 */
struct bpshaper_slot {
	atomic64_t		word ____cacheline_aligned_in_smp;
	atomic64_t		used_ns;
	u32			want;
	u32			head;
	u32			flows;
	u32			unpaid;
	bool			was_empty;
	bool			is_new;
	bool			has_asked;

	atomic64_t		granted_ns ____cacheline_aligned_in_smp;
	atomic64_t		next_ns;
	u32			state;
	struct bpshaper_member	*member;
	struct list_head	backlog_node;
	struct llist_node	news_node;
	struct llist_node	told_node;
	bool			waits;

	struct bpshaper_node	node ____cacheline_aligned_in_smp;
	struct list_head	out_node;
	struct list_head	hub_node;
	u32			unsettled;
	u32			unpaid_seen;
	u32			fresh;
	u64			joined_ns;
	u64			period_ns;
	u32			recent;
	u32			granted;
	u16			due_levels;
	u8			retries;
	u8			late_rounds;
	u8			late_grants;
};

/**
 * struct bpshaper_member - a queue that takes part in a hub
 * @hub: its hub, or NULL
 * @slots: that have a backlog, those in @waiting aside
 * @waiting: that lack bytes, and are expected to for longer than it sleeps
 * @slots_len: the number of both
 * @told: slots of @waiting that have bytes, or have left the tree
 * @waiting_ns: when to ask for those in @waiting
 * @most_ns: how long it sleeps at most, as of when it had the lock of the hub
 * @wake_ns: until when it sleeps for bytes; 0: it does not
 */
struct bpshaper_member {
	struct bpshaper_hub	*hub;
	struct list_head	slots;
	struct list_head	waiting;
	u32			slots_len;
	struct llist_head	told;
	u64			waiting_ns;
	u64			most_ns;
	atomic64_t		wake_ns;
};

/**
 * struct bpshaper_hub - a tree for several queues
 * @lock: tried, and taken under RTNL
 * @tokens_ns: before that there is nothing to grant (hint)
 * @lent: bytes of memory that members have borrowed (socket.h)
 * @news: slots whose members found the lock taken
 * @tree: whose root has the rate, and the burst, of all
 * @out: slots with unsettled bytes, from here on under @lock
 * @out_len: their number
 * @fresh: slots that are fresh
 * @away: slots that are away
 * @slots: number of slots in the tree
 * @now_ns: the last time; it does not go back
 * @mtu: bytes of a packet of the MTU on the wire
 * @burst: bytes
 * @window: bytes, of @burst, that grants in the order of the tree may use
 * @window_ns: time that @window takes
 * @turn_burst: bytes, of @burst, that turns and what slots may keep follow from
 * @batch_ns: time that a batch does for
 * @far_ns: half of the time that @window less a packet takes: who sleeps for
 *	longer is away
 * @least: bytes of a batch at least
 * @credit: bytes that a slot which comes back makes up for
 * @stat_locks: times that @lock was taken to ask for bytes
 * @stat_grants: grants
 * @stat_revokes: times that bytes were taken back
 */
struct bpshaper_hub {
	raw_spinlock_t		lock ____cacheline_aligned_in_smp;
	atomic64_t		tokens_ns;
	atomic64_t		lent ____cacheline_aligned_in_smp;
	struct llist_head	news ____cacheline_aligned_in_smp;

	struct bpshaper_tree	tree ____cacheline_aligned_in_smp;
	struct list_head	out;
	u32			out_len;
	struct list_head	fresh;
	struct list_head	away;
	u32			slots;
	u64			now_ns;
	u32			mtu;
	u32			burst;
	u32			window;
	u64			window_ns;
	u32			turn_burst;
	u64			batch_ns;
	u64			far_ns;
	u32			least;
	u32			credit;
	u64			stat_locks;
	u64			stat_grants;
	u64			stat_revokes;
};

/* The member's side */

static void bpshaper_member_init(struct bpshaper_member *m,
				 struct bpshaper_hub *hub)
{
	m->hub = hub;
	INIT_LIST_HEAD(&m->slots);
	INIT_LIST_HEAD(&m->waiting);
	init_llist_head(&m->told);
}

/* Look again at the slots that a holder has told of. */
static void bpshaper_member_hear(struct bpshaper_member *m)
{
	struct llist_node *node;
	struct bpshaper_slot *s;

	if (llist_empty(&m->told))
		return;
	for (node = llist_del_all(&m->told); node; ) {
		s = llist_entry(node, struct bpshaper_slot, told_node);
		node = node->next;
		if (!list_empty(&s->backlog_node))
			list_move_tail(&s->backlog_node, &m->slots);
	}
}

/* Bytes that the slot may send. */
static inline u32 bpshaper_slot_bytes(const struct bpshaper_slot *s)
{
	return lower_32_bits(atomic64_read_acquire(&s->word));
}

/* It asks for no packet of a new flow any more. */
static inline void bpshaper_slot_end_new(struct bpshaper_slot *s)
{
	s->is_new = false;
	s->has_asked = false;
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
	bpshaper_slot_end_new(s);
	return true;
}

/* The backlog of the slot is @want bytes of @flows, and the next packet has
 * @head bytes, as far as the member knows: not more than there are, or it would
 * wait for more than it gets.
 */
static void bpshaper_slot_set_want(struct bpshaper_slot *s, u32 want, u32 head,
				   u32 flows)
{
	bool has_backlog = !list_empty(&s->backlog_node);
	struct bpshaper_member *m = s->member;

	if (has_backlog != !!want) {
		if (want)
			list_add_tail(&s->backlog_node, &m->slots);
		else
			list_del_init(&s->backlog_node);
		m->slots_len += want ? 1 : -1;
		bpshaper_slot_end_new(s);
		WRITE_ONCE(s->was_empty, true);
	}
	WRITE_ONCE(s->head, min(head, want));
	WRITE_ONCE(s->flows, flows);
	WRITE_ONCE(s->want, want);
}

/* Does the slot lack bytes for its next packet? */
static inline bool bpshaper_slot_lacks(const struct bpshaper_slot *s)
{
	return s->want && bpshaper_slot_bytes(s) < s->head;
}

/* The slot lacks bytes for its next packet, of a new flow: it asks for them
 * before its turn.
 */
static void bpshaper_slot_set_new(struct bpshaper_slot *s)
{
	if (s->has_asked)
		return;
	s->is_new = true;
	s->has_asked = true;
	list_move(&s->backlog_node, &s->member->slots);
	atomic64_set(&s->next_ns, 0);
}

/* Is it still in the tree from its last backlog? */
static inline bool bpshaper_slot_is_back(const struct bpshaper_slot *s)
{
	return READ_ONCE(s->was_empty) &&
	       READ_ONCE(s->state) == BPSHAPER_SLOT_INTREE;
}

/* The lock of the hub is held from here on. */

static inline struct bpshaper_slot *
bpshaper_node_slot(struct bpshaper_node *n)
{
	return container_of(n, struct bpshaper_slot, node);
}

/* What may be granted below @n beside what is, bytes. */
static s64 bpshaper_node_room(const struct bpshaper_node *n, u64 now)
{
	return bpshaper_bucket_room(&n->bucket, &n->ceil, n->bucket.burst_ns,
				    now);
}

static s64 bpshaper_hub_room(const struct bpshaper_hub *hub)
{
	return bpshaper_node_room(&hub->tree.root, hub->now_ns);
}

/* What the order of the tree may use of it; more for a slot that @may_more. */
static s64 bpshaper_hub_window(const struct bpshaper_hub *hub, bool may_more)
{
	const struct bpshaper_node *root = &hub->tree.root;
	u64 kept_ns = root->bucket.burst_ns - hub->window_ns;

	return bpshaper_bucket_room(&root->bucket, &root->ceil,
				    hub->window_ns +
				    (may_more ? kept_ns / 4 * 3 : 0),
				    hub->now_ns);
}

static u64 bpshaper_hub_cost_ns(const struct bpshaper_hub *hub, u32 bytes)
{
	return bpshaper_rate_cost_ns(&hub->tree.root.ceil, bytes);
}

/* Time for which the bucket of all is taken. */
static u64 bpshaper_hub_taken_ns(const struct bpshaper_hub *hub)
{
	return max(hub->tree.root.bucket.tat_ns, hub->now_ns) - hub->now_ns;
}

/* Is it long until tokens are lost? */
static bool bpshaper_hub_has_time(const struct bpshaper_hub *hub)
{
	return bpshaper_hub_taken_ns(hub) > hub->window_ns / 2;
}

/* What the node is expected to get, bytes per second. */
static u64 bpshaper_hub_expected_Bps(const struct bpshaper_hub *hub,
				     const struct bpshaper_node *n)
{
	return max(bpshaper_node_expected_Bps(n, hub->tree.root.ceil.Bps),
		   1ULL);
}

/* Bytes that @Bps sends in @ns, and the time that it takes for @bytes. */
static u32 bpshaper_hub_bytes(u64 Bps, u64 ns)
{
	return min_t(u64, div64_u64(min_t(u64, Bps, 1ULL << 40) *
				    min_t(u64, ns, 1ULL << 23), NSEC_PER_SEC),
		     U32_MAX);
}

static u64 bpshaper_hub_ns(u64 Bps, u32 bytes)
{
	return div64_u64((u64)bytes * NSEC_PER_SEC, Bps);
}

static bool bpshaper_node_floor_is_due(const struct bpshaper_node *n, u64 now)
{
	return n->floor.Bps &&
	       n->due_ns + n->parent->stood_ns[n->overcommit] <= now;
}

/* Let the member know that the slot has bytes, or has left the tree. */
static void bpshaper_slot_tell(struct bpshaper_slot *s)
{
	if (!s->waits)
		return;
	s->waits = false;
	llist_add(&s->told_node, &s->member->told);
}

/* What a floor of @Bps makes up for, bytes. */
static u32 bpshaper_hub_floor_credit(const struct bpshaper_hub *hub, u64 Bps)
{
	return bpshaper_tree_scale(&hub->tree, Bps, hub->credit,
				   hub->tree.least);
}

/* How long members may sleep if there are many slots. */
static u64 bpshaper_hub_slots_ns(const struct bpshaper_hub *hub)
{
	return hub->slots * 20ULL * NSEC_PER_USEC;
}

/* In the tree and out of it */

static void bpshaper_slot_set_weight(struct bpshaper_slot *s, u32 flows)
{
	struct bpshaper_node *n = &s->node;

	flows = clamp_t(u32, flows, 1, BIT(20));	/* as of classes */
	if (flows == n->weight)
		return;
	if (n->is_offering) {
		n->parent->offering_weight += (u64)flows - n->weight;
		n->parent->prio_weight[n->prio] += (u64)flows - n->weight;
	}
	if (n->is_away)
		n->parent->away_weight[n->prio] += (u64)flows - n->weight;
	bpshaper_node_set_weight(n, flows);
}

/* The slot is away, or is not any more. Others keep its part for it if it wants
 * more than it has.
 */
static void bpshaper_slot_set_away(struct bpshaper_slot *s, bool is_away)
{
	struct bpshaper_node *n = &s->node;
	bool wants = is_away && bpshaper_slot_bytes(s) < READ_ONCE(s->want);
	int more = wants - (int)n->away;

	n->is_waiting = is_away;
	for (; more && n; n = n->parent)
		n->away += more;
}

static void bpshaper_slot_enter_tree(struct bpshaper_hub *hub,
				     struct bpshaper_slot *s)
{
	u32 head = READ_ONCE(s->head);
	struct bpshaper_node *n = &s->node;
	bool was_away = n->is_waiting;

	if (READ_ONCE(s->state) == BPSHAPER_SLOT_INTREE)
		return;
	/* after @next of @news_node, which the member writes when it posts */
	smp_store_release(&s->state, BPSHAPER_SLOT_INTREE);
	hub->slots++;
	bpshaper_slot_set_weight(s, READ_ONCE(s->flows));
	if (was_away) {
		list_del_init(&s->hub_node);
		bpshaper_slot_set_away(s, false);
	}
	if (READ_ONCE(s->was_empty)) {
		WRITE_ONCE(s->was_empty, false);
		bpshaper_node_set_backlog(&hub->tree, n, false, hub->credit,
					  hub->now_ns);
	}
	bpshaper_node_set_backlog(&hub->tree, n, true, hub->credit,
				  hub->now_ns);
	bpshaper_node_update(&hub->tree, n, hub->credit, hub->now_ns);
	if (!was_away &&
	    !bpshaper_tag_before(n->parent->vtime[n->prio] +
				 hub->mtu * n->weight_inverse, n->start)) {
		s->fresh = max(2 * hub->mtu, 2 * head);
		s->joined_ns = hub->now_ns;
	}
	if (s->fresh >= head &&
	    hub->now_ns - s->joined_ns <= BPSHAPER_HUB_FRESH_NS)
		list_add(&s->hub_node, &hub->fresh);	/* looked at first */
}

/* Let the slot offer no more, until it comes back: it is away, and has a
 * backlog all the same, or it has none.
 */
static void bpshaper_slot_leave_tree(struct bpshaper_hub *hub,
				     struct bpshaper_slot *s,
				     enum bpshaper_slot_state state)
{
	if (READ_ONCE(s->state) != BPSHAPER_SLOT_INTREE)
		return;
	hub->slots--;
	list_del_init(&s->hub_node);
	if (state == BPSHAPER_SLOT_AWAY) {
		bpshaper_slot_set_away(s, true);
		list_add_tail(&s->hub_node, &hub->away);
		bpshaper_node_update(&hub->tree, &s->node, hub->credit,
				     hub->now_ns);
	} else {
		bpshaper_node_set_backlog(&hub->tree, &s->node, false,
					  hub->credit, hub->now_ns);
	}
	WRITE_ONCE(s->state, state);
	bpshaper_slot_tell(s);
	smp_mb();	/* pairs with that of bpshaper_member_ask() */
	if (state == BPSHAPER_SLOT_IDLE && READ_ONCE(s->want) &&
	    cmpxchg(&s->state, BPSHAPER_SLOT_IDLE, BPSHAPER_SLOT_POSTED) ==
	    BPSHAPER_SLOT_IDLE)
		bpshaper_slot_enter_tree(hub, s);
}

/* Paying */

/* The node, which offers, sends @bytes before its turn. */
static void bpshaper_node_pay_early(struct bpshaper_node *n, u32 bytes)
{
	if (n->is_due) {
		bpshaper_node_pay_floor(n, bytes);
		return;
	}
	bpshaper_node_unlink_turn(n);
	n->start += (u64)bytes * n->weight_inverse;
	bpshaper_node_link_turn(n);
}

/* The node did not send @bytes that it has paid for, by its floor if @was_due.
 */
static void bpshaper_node_refund(struct bpshaper_node *n, u32 bytes,
				 bool was_due)
{
	if (n->is_offering) {
		bpshaper_node_unlink_floor(n);
		bpshaper_node_unlink_turn(n);
	}
	if (was_due)
		n->due_ns -= min(n->due_ns,
				 bpshaper_rate_cost_ns(&n->floor, bytes));
	else
		n->start -= (u64)bytes * n->weight_inverse;
	if (n->is_offering) {
		bpshaper_node_link_turn(n);
		bpshaper_node_link_floor(n);
	}
}

/* Settling */

/* Of the bytes granted to the slot @left are left. */
static void bpshaper_slot_settle(struct bpshaper_hub *hub,
				 struct bpshaper_slot *s, u32 left)
{
	u64 used_ns = atomic64_read(&s->used_ns);
	u32 used = s->unsettled - left, unpaid = READ_ONCE(s->unpaid);
	struct bpshaper_node *n;

	if (!used)
		return;
	hub->now_ns = max(hub->now_ns, used_ns);
	s->unsettled = left;
	if (unpaid != s->unpaid_seen)
		bpshaper_node_refund(&s->node, unpaid - s->unpaid_seen, false);
	s->unpaid_seen = unpaid;
	for (n = &s->node; n; n = n->parent)
		if (n->ceil.Bps)
			bpshaper_bucket_settle(&n->bucket, &n->ceil, used,
					       used_ns);
}

static void bpshaper_slot_settled(struct bpshaper_hub *hub,
				  struct bpshaper_slot *s)
{
	list_del_init(&s->out_node);
	hub->out_len--;
}

/* Take back what the slot has not taken. */
static void bpshaper_slot_revoke(struct bpshaper_hub *hub,
				 struct bpshaper_slot *s)
{
	u64 number = upper_32_bits(atomic64_read(&s->word)) + 1ULL;
	u32 left = lower_32_bits(atomic64_xchg(&s->word, number << 32));
	u16 levels = s->due_levels;
	struct bpshaper_node *n;

	bpshaper_slot_settle(hub, s, left);
	s->unsettled = 0;
	if (!left)
		return;
	hub->stat_revokes++;
	for (n = &s->node; n; n = n->parent, levels >>= 1) {
		if (n->ceil.Bps)
			n->bucket.out -= left;
		if (n->parent)
			bpshaper_node_refund(n, left, levels & 1);
	}
}

/* Look at @most slots, and take back the bytes of those below @top. Return how
 * many it has looked at.
 */
static u32 bpshaper_hub_take_back(struct bpshaper_hub *hub,
				  const struct bpshaper_node *top, u32 most)
{
	u32 len = min(most, hub->out_len), i;
	const struct bpshaper_node *n;
	struct bpshaper_slot *s;

	for (i = 0; i < len; i++) {
		s = list_first_entry(&hub->out, struct bpshaper_slot, out_node);
		list_move_tail(&s->out_node, &hub->out);
		for (n = &s->node; n && n != top; n = n->parent)
			;
		if (!n)
			continue;
		bpshaper_slot_revoke(hub, s);
		bpshaper_slot_settled(hub, s);
	}
	return len;
}

/* May a slot without a backlog, active last at @last_ns, keep @left bytes? */
static bool bpshaper_hub_may_spare(const struct bpshaper_hub *hub, u64 last_ns,
				   u32 left)
{
	bool is_much = left > min(4096U, hub->turn_burst / 32);

	return hub->now_ns <= last_ns + (is_much ? BPSHAPER_HUB_REVOKE_NS :
						   BPSHAPER_HUB_SPARE_NS);
}

/* Who sleeps for longer is granted nothing. A slot may sleep as its last grant
 * makes it, for twice as long as others: else it is away after each grant, and
 * would fall behind them.
 */
static u64 bpshaper_slot_far_ns(const struct bpshaper_hub *hub,
				const struct bpshaper_slot *s)
{
	return clamp_t(u64, s->period_ns, hub->far_ns, 2 * hub->far_ns);
}

/* Settle, and take back what has lain for too long: the member is late, or
 * sleeps, or it does not suffice for a packet. If tokens would be lost
 * meanwhile, it has half of the time.
 */
static void bpshaper_slot_look(struct bpshaper_hub *hub,
			       struct bpshaper_slot *s, bool loses_soon)
{
	u64 wake_ns = atomic64_read(&s->member->wake_ns), late_ns, last_ns;
	u32 left = bpshaper_slot_bytes(s);

	bpshaper_slot_settle(hub, s, left);
	if (!left)
		return;
	last_ns = max_t(u64, atomic64_read(&s->granted_ns),
			atomic64_read(&s->used_ns));
	late_ns = loses_soon ? BPSHAPER_HUB_REVOKE_NS / 2 :
			       BPSHAPER_HUB_REVOKE_NS;
	if (!READ_ONCE(s->want)) {
		if (bpshaper_hub_may_spare(hub, last_ns, left))
			return;
		bpshaper_slot_revoke(hub, s);
		bpshaper_slot_leave_tree(hub, s, BPSHAPER_SLOT_IDLE);
	} else if (hub->now_ns > max(last_ns, wake_ns) + late_ns) {
		bpshaper_slot_revoke(hub, s);
		bpshaper_slot_leave_tree(hub, s, BPSHAPER_SLOT_AWAY);
		s->late_grants += BPSHAPER_HUB_LATE_GRANTS;
		if (s->late_grants > 2 * BPSHAPER_HUB_LATE_GRANTS) {
			s->late_grants = 2 * BPSHAPER_HUB_LATE_GRANTS;
			s->late_rounds = BPSHAPER_HUB_LATE_ROUNDS;
		}
	} else if (wake_ns > hub->now_ns + bpshaper_slot_far_ns(hub, s) ||
		   (left < READ_ONCE(s->head) &&
		    hub->now_ns > last_ns + late_ns)) {
		bpshaper_slot_revoke(hub, s);
	}
}

/* Look at some of those that are away: one may have no backlog any more, since
 * that was dropped, or left with bytes that it had.
 */
static void bpshaper_hub_look_away(struct bpshaper_hub *hub)
{
	int looks = BPSHAPER_HUB_AWAY;
	struct bpshaper_slot *s;

	for (; looks && !list_empty(&hub->away); looks--) {
		s = list_first_entry(&hub->away, struct bpshaper_slot,
				     hub_node);
		list_move_tail(&s->hub_node, &hub->away);
		if (READ_ONCE(s->want) ||
		    cmpxchg(&s->state, BPSHAPER_SLOT_AWAY,
			    BPSHAPER_SLOT_IDLE) != BPSHAPER_SLOT_AWAY)
			continue;
		list_del_init(&s->hub_node);
		bpshaper_slot_set_away(s, false);
		bpshaper_node_set_backlog(&hub->tree, &s->node, false,
					  hub->credit, hub->now_ns);
	}
}

/* Is there less to grant than a packet of anybody may need? */
static bool bpshaper_hub_is_short(const struct bpshaper_hub *hub)
{
	return bpshaper_hub_window(hub, false) <
	       max(hub->mtu, hub->window / 4);
}

/* May others have to wait for the @left bytes that the slot has, which do not
 * suffice for a packet?
 */
static bool bpshaper_slot_has_rest(const struct bpshaper_hub *hub,
				   const struct bpshaper_slot *s, u32 left)
{
	const struct bpshaper_node *n;

	if (!left || left >= s->head)
		return false;
	for (n = &s->node; n->parent; n = n->parent)
		if (n->ceil.Bps && bpshaper_node_room(n, hub->now_ns) <
				   max(s->head, n->burst / 2))
			return true;
	return bpshaper_hub_is_short(hub);
}

/* Settle the slots of @m, which is the caller's, and take back what would lie
 * there until the next turn. Settle some others, and more if there is little to
 * grant.
 */
static void bpshaper_hub_settle(struct bpshaper_hub *hub,
				struct bpshaper_member *m)
{
	u64 taken_ns = bpshaper_hub_taken_ns(hub);
	bool loses_soon = taken_ns < hub->window_ns / 8;
	struct bpshaper_slot *s;
	u32 most = 4, len, left;

	list_for_each_entry(s, &m->slots, backlog_node) {
		if (!s->unsettled)
			continue;
		left = bpshaper_slot_bytes(s);
		bpshaper_slot_settle(hub, s, left);
		if (bpshaper_slot_has_rest(hub, s, left))
			bpshaper_slot_revoke(hub, s);
	}
	if (bpshaper_hub_is_short(hub))
		most = taken_ns < hub->window_ns / 2 ? BPSHAPER_HUB_SETTLES :
						       16;
	for (len = hub->out_len; len && most; len--) {
		s = list_first_entry(&hub->out, struct bpshaper_slot, out_node);
		if (s->member == m && s->want) {
			bpshaper_slot_settle(hub, s, bpshaper_slot_bytes(s));
		} else {
			bpshaper_slot_look(hub, s, loses_soon);
			most--;
		}
		if (s->unsettled)
			list_move_tail(&s->out_node, &hub->out);
		else
			bpshaper_slot_settled(hub, s);
	}
	bpshaper_hub_look_away(hub);
}

/* Granting */

/* For how long a grant lets the member sleep at most: below a ceil tokens would
 * be lost, and it may get more than is expected.
 */
static u64 bpshaper_slot_most_ns(const struct bpshaper_hub *hub,
				 const struct bpshaper_slot *s)
{
	const struct bpshaper_node *n;
	u64 ns = BPSHAPER_HUB_MOST_NS;

	for (n = &s->node; n->parent; n = n->parent)
		if (n->ceil.Bps)
			ns = min(ns, n->bucket.burst_ns / 2);
	ns = min_t(u64, ns, max_t(u64, 2 * hub->far_ns, 50 * NSEC_PER_USEC));
	return max(ns, bpshaper_hub_slots_ns(hub));
}

/* Grant @bytes, which are expected to do for @period_ns, to the slot, which is
 * next, or @is_early.
 */
static void bpshaper_slot_grant(struct bpshaper_hub *hub,
				struct bpshaper_slot *s, u32 bytes,
				u64 period_ns, bool is_early)
{
	u64 ns = hub->now_ns - atomic64_read(&s->granted_ns);
	s64 word = atomic64_read(&s->word), new;
	struct bpshaper_node *n;
	u64 next_ns, late_ns;
	u16 level = 1;

	if (ns >= BPSHAPER_HUB_RECENT_NS) {
		s->recent = div64_u64(s->granted * BPSHAPER_HUB_RECENT_NS, ns);
		s->granted = 0;
	} else if (ns) {
		s->recent -= (s->recent * ns) / BPSHAPER_HUB_RECENT_NS;
		s->recent += s->granted;
		s->granted = 0;
	}
	s->granted += bytes;
	WRITE_ONCE(s->retries, 0);
	s->late_grants -= !!s->late_grants;
	s->due_levels = 0;
	for (n = &s->node; n; n = n->parent, level <<= 1) {
		if (n->ceil.Bps)
			n->bucket.out += bytes;
		if (n->is_due)
			s->due_levels |= level;
		if (n->parent && is_early)
			bpshaper_node_pay_early(n, bytes);
		else if (n->parent)
			bpshaper_node_pay(&hub->tree, n, bytes);
	}
	if (list_empty(&s->out_node)) {
		list_add_tail(&s->out_node, &hub->out);
		hub->out_len++;
	}
	s->unsettled += bytes;
	atomic64_set(&s->granted_ns, hub->now_ns);
	do
		new = ((upper_32_bits(word) + 1ULL) << 32) +
		      lower_32_bits(word) + bytes;
	while (!atomic64_try_cmpxchg_release(&s->word, &word, new));
	WRITE_ONCE(s->period_ns, period_ns);
	late_ns = bpshaper_hub_has_time(hub) ? 0 : hub->window_ns;
	next_ns = max_t(u64, atomic64_read(&s->next_ns),
			hub->now_ns - min(hub->now_ns, late_ns));
	next_ns = min(next_ns + period_ns, hub->now_ns +
		      max(period_ns, hub->window_ns / 8 * 3));
	atomic64_set(&s->next_ns, min(next_ns, hub->now_ns +
				      bpshaper_slot_most_ns(hub, s)));
	bpshaper_slot_tell(s);
	hub->stat_grants++;
}

/* Is the slot's member asleep, and to be for long, or is the slot often late?
 * Then it asks when it wakes up.
 */
static bool bpshaper_slot_sleeps(const struct bpshaper_hub *hub,
				 const struct bpshaper_slot *s, u64 ns)
{
	u64 wake_ns = atomic64_read(&s->member->wake_ns);

	return wake_ns && (s->late_rounds || wake_ns > hub->now_ns + ns);
}

#endif /* _BPSHAPER_SLOT_H */
