/* SPDX-License-Identifier: GPL-2.0-only */
/* The hub: one tree of classes for several queues, without a lock for packets.
 *
 * The leaves of the tree are slots, one for each member (a queue) and class
 * with packets. A member takes the bytes of a packet from its slot, which is
 * one atomic operation on a cache line of its own. When a slot lacks bytes, the
 * member tries the lock of the hub. If it gets it, it serves all slots in the
 * order of the tree, a batch each; otherwise the holder does. Nobody waits for
 * the lock, and nothing is sent under it.
 *
 * Granted bytes are in the slot's word, and in @out of the buckets above it.
 * When they are seen to have been taken, they are charged to the buckets, as of
 * the time of the last packet. Documentation/hub.rst has the proof that no more
 * leaves than burst + rate * T in any T, whenever members run, or not at all.
 * It needs this order:
 *
 *	holder	granted_ns, then the word (release)
 *	member	the word (acquire), then granted_ns: a packet leaves at or after
 *		its grant
 *	member	used_ns, then the word (release)
 *	holder	the word (acquire), then used_ns: what was taken counts at or
 *		after its time
 *
 * A revocation changes the number of the word, so that a member which looked
 * before takes nothing after. What else is read without the lock is a hint,
 * which may delay a member until it asks again.
 *
 * Nothing here knows a qdisc or reads a clock, so that the host's unit test can
 * include this file. The lock of the member's queue protects the member.
 */
#ifndef _BPSHAPER_HUB_H
#define _BPSHAPER_HUB_H

/* Fresh slots
 *
 * A slot that comes back gets a packet or two at once, and any slot the packet
 * of a new flow, past the order of the classes above it. No smaller prio may
 * wait then, and no class above may have had more than three packets in this
 * way since it was next: six if the slot has a backlog of one packet, and three
 * more if one on the way has had less than its part, so that greedy ones that
 * come back do not use them up.
 */

static bool bpshaper_slot_may_pass(struct bpshaper_hub *hub,
				   struct bpshaper_slot *s, u32 bytes)
{
	u32 packets = READ_ONCE(s->want) <= hub->mtu ? 6 : 3, more = 0;
	struct bpshaper_node *n;

	for (n = &s->node; n->parent; n = n->parent) {
		if (!n->is_offering)
			return false;
		n->is_due = bpshaper_node_floor_is_due(n, hub->now_ns);
		if (n->prio != __ffs(n->parent->prios) && !n->is_due)
			return false;
		if (bpshaper_node_is_behind(n)) {
			n->ahead = 0;
			if (n != &s->node)
				more = 3;
		}
		if (n->ahead + bytes > (packets + more) * hub->mtu)
			return false;
		if (n->ceil.Bps && bpshaper_node_room(n, hub->now_ns) < bytes)
			return false;
	}
	return bpshaper_hub_room(hub) >= bytes;
}

/* What a slot that wants little may keep for its next packets, beside @bytes
 * that it gets now: what it needs in 0.2 ms, half of what is left at most; or
 * an eighth of what there is, if that is more.
 */
static u32 bpshaper_slot_spare(const struct bpshaper_hub *hub,
			       const struct bpshaper_slot *s, s64 room,
			       u32 bytes)
{
	s64 most = hub->turn_burst / 32, full, mine;
	const struct bpshaper_node *n;

	mine = min_t(s64, s->recent / 4 * 3, (room - bytes) / 2);
	full = max((room - 2 * (s64)(hub->burst - hub->window)) / 8, mine);
	full = min3(full, most, room - bytes);
	for (n = &s->node; n->parent; n = n->parent)
		if (n->ceil.Bps)
			full = min(full,
				   bpshaper_node_room(n, hub->now_ns) / 4);
	return max_t(s64, full, 0);
}

/* Of @bytes those that make whole packets of @head bytes with the @held: a rest
 * would lie idle until the slot's next turn.
 */
static u32 bpshaper_hub_whole(u32 bytes, u32 held, u32 head)
{
	return bytes - min(bytes, (bytes + held) % head);
}

/* Give a fresh slot a packet; return whether it stays fresh. @m asks. */
static bool bpshaper_slot_serve_fresh(struct bpshaper_hub *hub,
				      struct bpshaper_slot *s,
				      const struct bpshaper_member *m)
{
	u32 held = bpshaper_slot_bytes(s), head = max(READ_ONCE(s->head), 1U);
	u32 want = READ_ONCE(s->want), bytes, spare;
	struct bpshaper_node *n;

	if (want <= held || s->fresh < head ||
	    hub->now_ns - s->joined_ns > BPSHAPER_HUB_FRESH_NS)
		return false;
	if (s->member != m &&
	    bpshaper_slot_sleeps(hub, s, 100 * NSEC_PER_USEC))
		return true;
	bytes = min3(want - held, s->fresh, hub->mtu);
	bytes = max(bytes, head - min(held, head));
	if (bytes < want - held)
		bytes = bpshaper_hub_whole(bytes, held, head);
	if (!bytes || !bpshaper_slot_may_pass(hub, s, bytes))
		return true;
	spare = bpshaper_slot_spare(hub, s, bpshaper_hub_room(hub), bytes);
	for (n = &s->node; n->parent; n = n->parent)
		n->ahead += bytes;
	s->fresh -= bytes;
	bytes = max(bytes, spare);
	bpshaper_slot_grant(hub, s, bytes,
			    bpshaper_hub_ns(bpshaper_hub_expected_Bps(hub,
								      &s->node),
					    bytes), true);
	return s->fresh >= head;
}

/* Who is next is looked at first, then the last that came. */
static void bpshaper_hub_serve_fresh(struct bpshaper_hub *hub,
				     const struct bpshaper_member *m)
{
	int looks = BPSHAPER_HUB_FRESH;
	struct bpshaper_node *n;
	struct bpshaper_slot *s;

	if (list_empty(&hub->fresh))
		return;
	n = bpshaper_tree_next(&hub->tree, hub->now_ns);
	s = n ? bpshaper_node_slot(n) : NULL;
	if (s && !list_empty(&s->hub_node)) {
		list_move(&s->hub_node, &hub->fresh);
		/* Smaller packets do not take the tokens for its packet. */
		if (bpshaper_hub_room(hub) < READ_ONCE(s->head))
			return;
	}
	for (; looks && !list_empty(&hub->fresh); looks--) {
		s = list_first_entry(&hub->fresh, struct bpshaper_slot,
				     hub_node);
		if (bpshaper_slot_serve_fresh(hub, s, m))
			list_move_tail(&s->hub_node, &hub->fresh);
		else
			list_del_init(&s->hub_node);
	}
}

/* In the order of the tree */

/* Less than @bytes may be granted below @n: wait for half the burst of its
 * ceil, or a batch at that rate if it is less, if the slot wants as much.
 */
static void bpshaper_hub_wait(struct bpshaper_hub *hub,
			      struct bpshaper_node *n, u32 bytes, u32 want)
{
	u32 most = min(n->burst / 2,
		       bpshaper_hub_bytes(n->ceil.Bps, hub->batch_ns));

	bpshaper_node_wait(&hub->tree, n, max(bytes, min(want, most)), 0, true,
			   hub->credit, hub->now_ns);
}

/* May @bytes be granted below @n, of which @room may? More than the burst may,
 * when all of it may be: the bucket owes the rest.
 */
static bool bpshaper_hub_allows(const struct bpshaper_hub *hub,
				const struct bpshaper_node *n, s64 room,
				u32 bytes)
{
	return room >= bytes || (!n->bucket.out &&
				 n->bucket.tat_ns <= hub->now_ns);
}

/* Two packets of @head bytes: a slot waits for so many, which halves timers,
 * unless the window is small, or turns get longer than members sleep.
 */
static u32 bpshaper_hub_pair(const struct bpshaper_hub *hub, u32 head)
{
	if (2 * head > hub->window / 5 ||
	    hub->slots * bpshaper_hub_cost_ns(hub, 2 * head) >
	    BPSHAPER_HUB_MOST_NS)
		return 0;
	return 2 * head;
}

/* @bytes are missing. While there is time wait for some more, or another pair,
 * so that fewer holders serve as many.
 */
static void bpshaper_hub_lacks(struct bpshaper_hub *hub, u32 bytes, u32 head)
{
	u64 ns = bpshaper_hub_cost_ns(hub, bytes);
	u32 pair = bpshaper_hub_pair(hub, head);

	if (bpshaper_hub_has_time(hub))
		ns += max(hub->batch_ns / 5 * 2,
			  bpshaper_hub_cost_ns(hub, pair));
	atomic64_set(&hub->tokens_ns, hub->now_ns + ns);
}

/* What the slot is to get, which is next: @least bytes to @most. Return 0 if
 * a ceil does not allow it; a node waits for that, then.
 */
static u32 bpshaper_slot_fit(struct bpshaper_hub *hub, struct bpshaper_slot *s,
			     u32 least, u32 most, u32 packet, u32 want)
{
	struct bpshaper_node *n;
	u32 some;
	s64 room;

	for (n = &s->node; n->parent; n = n->parent) {
		if (!n->ceil.Bps)
			continue;
		room = bpshaper_node_room(n, hub->now_ns);
		some = max(packet, min(least, n->burst / 2));
		if (!bpshaper_hub_allows(hub, n, room, some)) {
			bpshaper_hub_wait(hub, n, some, want);
			return 0;
		}
		most = min_t(s64, most, max_t(s64, room, packet));
	}
	return most;
}

/* Are tokens kept for children of @n? Not as of a rate that was smaller. */
static bool bpshaper_node_keeps(const struct bpshaper_hub *hub,
				const struct bpshaper_node *n)
{
	u64 most_ns = max3(hub->window_ns, 1ULL * BPSHAPER_HUB_MOST_NS,
			   bpshaper_hub_slots_ns(hub));

	return n->kept_ns > hub->now_ns &&
	       n->kept_ns <= hub->now_ns + most_ns + BPSHAPER_HUB_REVOKE_NS;
}

/* The slot has enough until it asks again. A larger prio is not to get what it
 * needs then.
 */
static void bpshaper_slot_has_enough(struct bpshaper_hub *hub,
				     struct bpshaper_slot *s)
{
	struct bpshaper_node *n;

	for (n = &s->node; n->parent; n = n->parent) {
		if (bpshaper_node_keeps(hub, n->parent) &&
		    n->parent->kept_prio < n->prio)
			continue;
		n->parent->kept_prio = n->prio;
		n->parent->kept_ns = atomic64_read(&s->next_ns) +
				     BPSHAPER_HUB_REVOKE_NS / 2;
	}
	bpshaper_slot_leave_tree(hub, s, BPSHAPER_SLOT_AWAY);
}

/* Are tokens kept for a smaller prio than that of the slot? */
static bool bpshaper_slot_must_yield(const struct bpshaper_hub *hub,
				     const struct bpshaper_slot *s)
{
	const struct bpshaper_node *n;

	for (n = &s->node; n->parent; n = n->parent)
		if (bpshaper_node_keeps(hub, n->parent) &&
		    n->prio > n->parent->kept_prio && !n->is_due)
			return true;
	return false;
}

/**
 * struct bpshaper_service - what a slot is to get, when it is next
 * @held: bytes that it has
 * @head: bytes of its next packet
 * @packet: bytes that it lacks for that packet
 * @want: bytes that it wants beside @held
 * @batch: bytes that it is to get
 * @least: bytes without which it gets nothing
 * @Bps: what it is expected to get, bytes per second
 * @room: bytes that may be granted
 * @is_plenty: more than @batch may be granted: its member asks, and others
 *	want little
 */
struct bpshaper_service {
	u32	held;
	u32	head;
	u32	packet;
	u32	want;
	u32	batch;
	u32	least;
	u64	Bps;
	s64	room;
	bool	is_plenty;
};

/* Has it come lately, and with less than its part? */
static bool bpshaper_slot_is_sparse(const struct bpshaper_hub *hub,
				    const struct bpshaper_slot *s)
{
	const struct bpshaper_node *n;

	if (hub->now_ns - s->joined_ns > BPSHAPER_HUB_FRESH_NS)
		return false;
	for (n = &s->node; n->parent; n = n->parent)
		if (!bpshaper_node_is_behind(n))
			return false;
	return true;
}

/* A slot of @m, which asks, or of another is next. Return false if it is not to
 * get anything: it leaves the tree.
 */
static bool bpshaper_service_begin(struct bpshaper_service *t,
				   struct bpshaper_hub *hub,
				   struct bpshaper_slot *s,
				   const struct bpshaper_member *m)
{
	u32 want = READ_ONCE(s->want);

	t->held = bpshaper_slot_bytes(s);
	t->head = max(READ_ONCE(s->head), 1U);
	t->packet = t->head - min(t->held, t->head);
	t->want = want - min(want, t->held);
	if (!t->want) {
		bpshaper_slot_leave_tree(hub, s, want ? BPSHAPER_SLOT_AWAY :
							BPSHAPER_SLOT_IDLE);
		return false;
	}
	if (s->member != m &&
	    bpshaper_slot_sleeps(hub, s, bpshaper_slot_far_ns(hub, s))) {
		bpshaper_slot_has_enough(hub, s);
		return false;
	}
	t->least = max(min(t->want, hub->window), t->packet);
	t->least = min(t->least, max3(hub->least,
				      t->head - t->held % t->head,
				      bpshaper_hub_pair(hub, t->head)));
	t->room = bpshaper_hub_window(hub, bpshaper_slot_is_sparse(hub, s) ||
				      (s->late_rounds &&
				       bpshaper_node_is_behind(&s->node)));
	s->late_rounds -= !!s->late_rounds;
	if (bpshaper_slot_must_yield(hub, s))
		t->room -= hub->window / 2;
	t->is_plenty = s->member == m &&
		       t->room > (hub->slots == 1 ? hub->window / 4 :
						    hub->window / 5 * 3);
	return true;
}

/* How many bytes are a batch of it? Return false if it has two of them: it
 * leaves the tree.
 */
static bool bpshaper_service_set_batch(struct bpshaper_service *t,
				       struct bpshaper_hub *hub,
				       struct bpshaper_slot *s)
{
	bpshaper_slot_set_weight(s, READ_ONCE(s->flows));
	t->Bps = bpshaper_hub_expected_Bps(hub, &s->node);
	t->batch = max3(bpshaper_hub_bytes(t->Bps, hub->batch_ns), hub->least,
			t->head);
	t->batch = max(t->batch, bpshaper_hub_pair(hub, t->head));
	t->batch = min(t->batch, hub->window);
	if (t->packet || t->held < 2 * t->batch)
		return true;
	bpshaper_slot_has_enough(hub, s);
	return false;
}

/* What the slot gets, bytes: whole packets, or all that it wants and some to
 * spare. 0: it has enough, or a ceil does not allow it.
 */
static u32 bpshaper_service_bytes(const struct bpshaper_service *t,
				  struct bpshaper_hub *hub,
				  struct bpshaper_slot *s)
{
	u32 bytes = max(min(t->batch, t->want), t->packet), spare = 0, fit;

	if (t->want < t->batch)
		spare = bpshaper_slot_spare(hub, s, t->room, t->want);
	if (t->is_plenty)
		bytes = max(bytes, min(t->want, (u32)t->room /
						(hub->slots == 1 ? 2 : 3)));
	bytes = min_t(s64, bytes, max_t(s64, t->room, t->packet));
	fit = bpshaper_slot_fit(hub, s, t->least, bytes + spare, t->packet,
				t->want);
	if (!fit)
		return 0;
	bytes = min(bytes, fit);
	spare = min(spare, fit - bytes);
	if (spare >= t->head)
		return bytes + spare;
	if (bytes >= t->want || bytes <= t->packet)
		return bytes;
	bytes = bpshaper_hub_whole(bytes, t->held, t->head);
	if (!bytes)
		bpshaper_slot_leave_tree(hub, s, BPSHAPER_SLOT_AWAY);
	return bytes;
}

/* Where do others have tokens that a packet of @bytes needs? It is larger than
 * those that are not segmented: older than the last change, or with tags.
 */
static struct bpshaper_node *
bpshaper_slot_stopped_at(const struct bpshaper_hub *hub,
			 struct bpshaper_slot *s, u32 bytes)
{
	struct bpshaper_node *n;

	for (n = &s->node; n && bytes > hub->mtu; n = n->parent)
		if (n->ceil.Bps && n->bucket.out &&
		    n->bucket.tat_ns <= hub->now_ns &&
		    bytes > (n->parent ? n->burst : hub->window) / 4)
			return n;
	return NULL;
}

/* Serve the slot that is next. @looks is how many may be looked at for bytes to
 * take back. Return false if there is nothing to grant.
 */
static bool bpshaper_slot_serve(struct bpshaper_hub *hub,
				struct bpshaper_slot *s,
				const struct bpshaper_member *m, u32 *looks)
{
	struct bpshaper_node *n;
	struct bpshaper_service t;
	u32 bytes;

	if (!bpshaper_service_begin(&t, hub, s, m))
		return true;
	n = bpshaper_slot_stopped_at(hub, s, t.packet);
	if (unlikely(n)) {
		*looks -= bpshaper_hub_take_back(hub, n, *looks);
		if (!bpshaper_service_begin(&t, hub, s, m))
			return true;
	}
	if (!bpshaper_hub_allows(hub, &hub->tree.root, t.room, t.least)) {
		bpshaper_hub_lacks(hub, t.least - t.room, t.head);
		return false;
	}
	if (!bpshaper_service_set_batch(&t, hub, s))
		return true;
	bytes = bpshaper_service_bytes(&t, hub, s);
	if (!bytes)
		return true;
	for (n = &s->node; n->parent; n = n->parent)
		if (!n->is_due)
			n->ahead = 0;
	bpshaper_slot_grant(hub, s, bytes, t.is_plenty && bytes > t.batch ?
			    hub->batch_ns : bpshaper_hub_ns(t.Bps, bytes),
			    false);
	return true;
}

static void bpshaper_hub_serve_order(struct bpshaper_hub *hub,
				     const struct bpshaper_member *m)
{
	u32 looks = BPSHAPER_HUB_SETTLES;
	int steps = BPSHAPER_HUB_GRANTS;
	struct bpshaper_node *n;

	while ((n = bpshaper_tree_next(&hub->tree, hub->now_ns))) {
		if (!steps--) {
			atomic64_set(&hub->tokens_ns, hub->now_ns);
			return;
		}
		if (!bpshaper_slot_serve(hub, bpshaper_node_slot(n), m, &looks))
			return;
	}
}

/* The slot lacks bytes. It comes anew, if it was empty while in the tree, and
 * is fresh for a packet of a new flow.
 */
static void bpshaper_slot_come(struct bpshaper_hub *hub,
			       struct bpshaper_slot *s)
{
	if (bpshaper_slot_is_back(s))
		bpshaper_slot_leave_tree(hub, s, BPSHAPER_SLOT_IDLE);
	else
		bpshaper_slot_enter_tree(hub, s);
	if (!s->is_new)
		return;
	s->is_new = false;
	if (hub->now_ns - s->joined_ns > BPSHAPER_HUB_FRESH_NS)
		s->fresh = 0;
	s->fresh = max(s->fresh, s->head);
	s->joined_ns = hub->now_ns;
	list_move(&s->hub_node, &hub->fresh);
}

/* Settle, the slots of @m first, which asks; then serve all. */
static void bpshaper_hub_serve(struct bpshaper_hub *hub,
			       struct bpshaper_member *m, u64 now)
{
	struct llist_node *node;
	struct bpshaper_slot *s;

	hub->stat_locks++;
	hub->now_ns = max(hub->now_ns, now);
	atomic64_set(&hub->tokens_ns, 0);
	bpshaper_hub_settle(hub, m);
	for (node = llist_del_all(&hub->news); node; ) {
		s = llist_entry(node, struct bpshaper_slot, news_node);
		node = node->next;
		bpshaper_slot_enter_tree(hub, s);
	}
	list_for_each_entry(s, &m->slots, backlog_node)
		if (bpshaper_slot_lacks(s))
			bpshaper_slot_come(hub, s);
	bpshaper_tree_wake(&hub->tree, hub->credit, BPSHAPER_HUB_SETTLES,
			   hub->now_ns);
	bpshaper_hub_serve_fresh(hub, m);
	bpshaper_hub_serve_order(hub, m);
}

/* Changing: under RTNL */

static void bpshaper_hub_init(struct bpshaper_hub *hub)
{
	memset(hub, 0, sizeof(*hub));
	raw_spin_lock_init(&hub->lock);
	init_llist_head(&hub->news);
	bpshaper_tree_init(&hub->tree);
	INIT_LIST_HEAD(&hub->out);
	INIT_LIST_HEAD(&hub->fresh);
	INIT_LIST_HEAD(&hub->away);
}

/* Between these the tree may be changed, and buckets: nothing is granted. */
static void bpshaper_hub_lock(struct bpshaper_hub *hub, u64 now,
			      unsigned long *flags)
	__acquires(&hub->lock)
{
	raw_spin_lock_irqsave(&hub->lock, *flags);
	bpshaper_hub_take_back(hub, &hub->tree.root, U32_MAX);
	atomic64_set(&hub->tokens_ns, 0);
	hub->now_ns = max(hub->now_ns, now);
}

static void bpshaper_hub_unlock(struct bpshaper_hub *hub, unsigned long flags)
	__releases(&hub->lock)
{
	raw_spin_unlock_irqrestore(&hub->lock, flags);
}

/* The rate changes: take all bytes back, and start with an empty bucket, as
 * bpshaper_bucket_set() does. A packet of the MTU has @mtu bytes on the wire.
 */
static void bpshaper_hub_set(struct bpshaper_hub *hub,
			     const struct bpshaper_rate *r, u32 burst, u32 mtu,
			     u64 now)
{
	struct bpshaper_node *root = &hub->tree.root;
	unsigned long flags;
	u32 kept;

	bpshaper_hub_lock(hub, now, &flags);
	root->ceil = *r;
	bpshaper_bucket_set(&root->bucket, r, burst, hub->now_ns);
	kept = max(burst / 20 * 3, min(burst / 4, 3 * mtu));
	hub->mtu = mtu;
	hub->burst = burst;
	hub->window = burst - kept;
	hub->window_ns = root->bucket.burst_ns -
			 min_t(u64, root->bucket.burst_ns,
			       bpshaper_rate_cost_ns(r, kept));
	/* A burst that is longer than the default makes turns no longer. */
	hub->turn_burst = min(burst,
			      max(bpshaper_rate_bytes(r, NSEC_PER_MSEC),
				  4 * mtu));
	hub->batch_ns = min(hub->window_ns,
			    bpshaper_rate_cost_ns(r, hub->turn_burst)) / 16 * 5;
	kept = hub->window - min(hub->window, mtu);
	hub->far_ns = bpshaper_rate_cost_ns(r, kept / 2);
	hub->least = max(hub->window / 64, 1U);
	hub->tree.least = 2 * mtu;
	hub->credit = max(2 * mtu, min(hub->window, hub->turn_burst) / 8);
	/* Tags wrap at twice as much. */
	hub->tree.lead = min_t(u64, 8ULL * hub->window, BIT(30));
	bpshaper_hub_unlock(hub, flags);
}

/* Start with a full bucket: nobody has sent. */
static void bpshaper_hub_fill(struct bpshaper_hub *hub)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&hub->lock, flags);
	bpshaper_bucket_fill(&hub->tree.root.bucket);
	raw_spin_unlock_irqrestore(&hub->lock, flags);
}

/* Bytes that may be granted; negative if fewer should be. */
static s64 bpshaper_hub_tokens(struct bpshaper_hub *hub, u64 now)
{
	unsigned long flags;
	s64 tokens;

	raw_spin_lock_irqsave(&hub->lock, flags);
	tokens = bpshaper_node_room(&hub->tree.root, now);
	raw_spin_unlock_irqrestore(&hub->lock, flags);
	return tokens;
}

/* The slot of @m is below @parent. */
static void bpshaper_slot_join(struct bpshaper_slot *s,
			       struct bpshaper_member *m,
			       struct bpshaper_node *parent)
{
	memset(s, 0, sizeof(*s));
	s->member = m;
	INIT_LIST_HEAD(&s->backlog_node);
	INIT_LIST_HEAD(&s->out_node);
	INIT_LIST_HEAD(&s->hub_node);
	bpshaper_node_init(&s->node, parent);
}

/* The slot goes, or has lost its packets. Others do not notice. */
static void bpshaper_slot_leave(struct bpshaper_slot *s)
{
	struct bpshaper_hub *hub = s->member->hub;
	struct llist_node *node;
	struct bpshaper_slot *other;
	unsigned long flags;

	bpshaper_slot_set_want(s, 0, 0, 0);
	raw_spin_lock_irqsave(&hub->lock, flags);
	for (node = llist_del_all(&hub->news); node; ) {
		other = llist_entry(node, struct bpshaper_slot, news_node);
		node = node->next;
		bpshaper_slot_enter_tree(hub, other);
	}
	bpshaper_slot_revoke(hub, s);
	if (!list_empty(&s->out_node))
		bpshaper_slot_settled(hub, s);
	bpshaper_slot_enter_tree(hub, s);	/* it may be away */
	s->waits = false;
	bpshaper_slot_leave_tree(hub, s, BPSHAPER_SLOT_IDLE);
	bpshaper_member_hear(s->member);
	raw_spin_unlock_irqrestore(&hub->lock, flags);
}

#endif /* _BPSHAPER_HUB_H */
