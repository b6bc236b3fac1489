/* SPDX-License-Identifier: GPL-2.0-only */
/* A member of a hub: when it asks for bytes, and which slots it looks at.
 *
 * hub.h says what for. Nothing here knows a qdisc or reads a clock. The lock of
 * the member's queue is held.
 */
#ifndef _BPSHAPER_MEMBER_H
#define _BPSHAPER_MEMBER_H

/* The first slot that has bytes for its next packet; those before it, which
 * lack them, go to the end. NULL if there is none, or after @steps.
 */
static struct bpshaper_slot *bpshaper_member_next(struct bpshaper_member *m,
						  int *steps)
{
	struct bpshaper_slot *s, *first = NULL;

	bpshaper_member_hear(m);
	while (*steps > 0 && !list_empty(&m->slots)) {
		s = list_first_entry(&m->slots, struct bpshaper_slot,
				     backlog_node);
		if (!bpshaper_slot_lacks(s))
			return s;
		if (s == first)
			break;
		first = first ?: s;
		list_move_tail(&s->backlog_node, &m->slots);
		--*steps;
	}
	return NULL;
}

/* How long a slot waits at least before its member asks again. */
static u64 bpshaper_slot_retry_ns(const struct bpshaper_slot *s)
{
	u64 period_ns = READ_ONCE(s->period_ns);
	u64 ns = max_t(u64, period_ns / 32, 20 * NSEC_PER_USEC);

	ns = min_t(u64, ns << min_t(u8, READ_ONCE(s->retries), 12),
		   max_t(u64, period_ns / 2, 50 * NSEC_PER_USEC));
	return min_t(u64, ns, BPSHAPER_HUB_MOST_NS);
}

/* The lock of the hub is held from here to bpshaper_member_next_ns(). */

/* How long until the node is the first of its prio, if all are greedy. */
static u64 bpshaper_node_ahead_ns(const struct bpshaper_hub *hub,
				  const struct bpshaper_node *n)
{
	const struct bpshaper_node *parent = n->parent;
	const struct bpshaper_tag *first;
	u64 Bps, bytes, ns, due_ns;
	s64 ahead;

	if (n->is_waiting)
		return n->ready.at - min(n->ready.at, hub->now_ns);
	if (!n->is_offering)
		return 0;
	ahead = n->start - parent->vtime[n->prio];
	if (parent->away_weight[n->prio]) {	/* it lags behind */
		first = bpshaper_tag_first(&parent->by_turn[n->prio]);
		ahead = n->turn.at - first->at;
	}
	Bps = max(bpshaper_node_expected_Bps(parent, hub->tree.root.ceil.Bps),
		  1ULL);
	bytes = upper_32_bits(max_t(s64, ahead, 0));
	bytes = min_t(u64, bytes * min_t(u64, parent->offering_weight,
					 U32_MAX), U32_MAX);
	ns = bpshaper_hub_ns(Bps, bytes);
	if (n->prio != __ffs(parent->prios))
		ns = max_t(u64, ns, BPSHAPER_HUB_REVOKE_NS);
	if (!n->floor.Bps)
		return ns;
	due_ns = n->due_ns + parent->stood_ns[n->overcommit];
	return min(ns, due_ns - min(due_ns, hub->now_ns));
}

/* Is the slot the next to be served, or has its turn come by floors? */
static bool bpshaper_slot_is_next(const struct bpshaper_hub *hub,
				  const struct bpshaper_slot *s)
{
	const struct bpshaper_node *n, *parent;

	for (n = &s->node; n->parent; n = parent) {
		parent = n->parent;
		if (!n->is_offering)
			return false;
		if (bpshaper_node_floor_is_due(n, hub->now_ns))
			continue;
		if (bpshaper_node_first_turn(parent) != n)
			return false;
	}
	return true;
}

/* A member sleeps for so long at most: if all of a few slept for longer, tokens
 * would be lost. Others are taken to have as many slots as it has.
 */
static u64 bpshaper_member_most_ns(const struct bpshaper_hub *hub,
				   const struct bpshaper_member *m)
{
	u64 members = hub->slots / max(m->slots_len, 1U);

	return clamp_t(u64, members * 10 * NSEC_PER_USEC,
		       min_t(u64, NSEC_PER_MSEC / 2, hub->far_ns),
		       BPSHAPER_HUB_MOST_NS);
}

/* When the slot, which lacks bytes, is likely to be served. */
static u64 bpshaper_slot_expect_ns(const struct bpshaper_hub *hub,
				   struct bpshaper_slot *s)
{
	u64 next_ns = atomic64_read(&s->next_ns), ns = 0, retry_ns, most_ns;
	s64 room = bpshaper_hub_window(hub, false);
	const struct bpshaper_node *n;
	u32 least;

	for (n = &s->node; n->parent; n = n->parent)
		ns = max(ns, bpshaper_node_ahead_ns(hub, n));
	if (bpshaper_slot_is_next(hub, s))	/* else it is passed over */
		ns = min(ns, hub->far_ns / 2);
	least = max(hub->least, s->head);
	if (room < s->head)
		ns = max(ns, bpshaper_hub_cost_ns(hub, least - room));
	retry_ns = bpshaper_slot_retry_ns(s);
	if (s->node.is_offering &&
	    !bpshaper_tag_before(s->node.parent->vtime[0], s->node.start))
		retry_ns = min(retry_ns, hub->far_ns);
	if (s->retries < U8_MAX)
		WRITE_ONCE(s->retries, s->retries + 1);
	ns = max(ns, next_ns > hub->now_ns ? next_ns - hub->now_ns : retry_ns);
	if (s->fresh >= s->head && s->retries < 4)
		ns = min_t(u64, ns, 40 * NSEC_PER_USEC);
	most_ns = bpshaper_member_most_ns(hub, s->member);
	return hub->now_ns + clamp_t(u64, ns, BPSHAPER_HUB_LEAST_NS, most_ns);
}

static bool bpshaper_hub_has_tokens(const struct bpshaper_hub *hub)
{
	u64 tokens_ns = atomic64_read(&hub->tokens_ns);

	return tokens_ns <= hub->now_ns;
}

/* Time that the link takes for what the slot has, for a batch at most. */
static u64 bpshaper_slot_rest_ns(const struct bpshaper_hub *hub,
				 const struct bpshaper_slot *s)
{
	u64 ns = min(bpshaper_hub_cost_ns(hub, s->unsettled),
		     hub->batch_ns / 4 * 3);

	return min_t(u64, ns, BPSHAPER_HUB_MOST_NS);
}

/* The slot, which is not fresh, lacks bytes until @next_ns at least: a member
 * with many slots does not look at it until it is told of it.
 */
static void bpshaper_slot_wait(const struct bpshaper_hub *hub,
			       struct bpshaper_slot *s, u64 next_ns)
{
	struct bpshaper_member *m = s->member;

	if (m->slots_len <= BPSHAPER_HUB_LOOKS || s->unsettled ||
	    next_ns < hub->now_ns + m->most_ns ||
	    hub->now_ns - s->joined_ns <= BPSHAPER_HUB_FRESH_NS ||
	    READ_ONCE(s->state) != BPSHAPER_SLOT_INTREE)
		return;
	s->waits = true;
	list_move_tail(&s->backlog_node, &m->waiting);
}

/* When the member is to ask again; 0 if it may send. */
static u64 bpshaper_member_next_ns(const struct bpshaper_hub *hub,
				   struct bpshaper_member *m)
{
	struct bpshaper_slot *s, *n;
	u64 at = U64_MAX, next_ns;
	bool may_send = false;

	bpshaper_member_hear(m);
	m->most_ns = bpshaper_member_most_ns(hub, m);
	/* Not as of a rate that was smaller. */
	m->waiting_ns = min(m->waiting_ns, hub->now_ns + m->most_ns);
	list_for_each_entry_safe(s, n, &m->slots, backlog_node) {
		next_ns = atomic64_read(&s->next_ns);
		if (!bpshaper_slot_lacks(s)) {
			may_send = true;
			if (!bpshaper_hub_has_tokens(hub))
				next_ns = max(next_ns, hub->now_ns +
					      bpshaper_slot_rest_ns(hub, s));
		} else if (!may_send && next_ns < at) {
			next_ns = bpshaper_slot_expect_ns(hub, s);
			at = min(at, next_ns);
			bpshaper_slot_wait(hub, s, next_ns);
		}
		atomic64_set(&s->next_ns, next_ns);
	}
	if (may_send)
		return 0;
	m->waiting_ns = hub->now_ns + m->most_ns;
	return list_empty(&m->waiting) ? at : min(at, m->waiting_ns);
}

/* It is not held from here on. */

/* When the slots that lack bytes may ask, after @since; 0 if one has got bytes
 * meanwhile, and may send. What each of many may wait is too long for all.
 */
static u64 bpshaper_member_retry_ns(struct bpshaper_member *m, u64 since,
				    u64 now)
{
	u64 most_ns = max_t(u64, m->most_ns, 50 * NSEC_PER_USEC);
	u64 at = U64_MAX, next_ns;
	struct bpshaper_slot *s;

	list_for_each_entry(s, &m->slots, backlog_node) {
		if (!bpshaper_slot_lacks(s))
			return 0;
		next_ns = now + min(bpshaper_slot_retry_ns(s), most_ns);
		next_ns = max(since, next_ns);
		atomic64_set(&s->next_ns, next_ns);
		at = min(at, next_ns);
	}
	if (list_empty(&m->waiting))
		return at;
	m->waiting_ns = max(since, now + most_ns);
	return min(at, m->waiting_ns);
}

/* Need the member ask? Otherwise set @at to when it may; 0 if one of its slots
 * has got bytes meanwhile, and may send.
 */
static bool bpshaper_member_must_ask(struct bpshaper_hub *hub,
				     struct bpshaper_member *m, u64 now,
				     u64 *at)
{
	u64 tokens_ns = atomic64_read(&hub->tokens_ns), next_ns;
	bool is_due = false, is_new = false;
	struct bpshaper_slot *s;

	list_for_each_entry(s, &m->slots, backlog_node) {
		if (!bpshaper_slot_lacks(s)) {
			*at = 0;
			return false;
		}
		next_ns = atomic64_read(&s->next_ns);
		is_new |= READ_ONCE(s->state) != BPSHAPER_SLOT_INTREE ||
			  bpshaper_slot_is_back(s) || s->is_new;
		is_due |= next_ns <= now ||
			  READ_ONCE(s->state) < BPSHAPER_SLOT_POSTED;
		*at = min(*at, next_ns);
	}
	if (!list_empty(&m->waiting)) {
		is_due |= m->waiting_ns <= now;
		*at = min(*at, m->waiting_ns);
	}
	if (!is_due || is_new)
		return is_due;
	if (tokens_ns <= now && !raw_spin_is_locked(&hub->lock))
		return true;
	*at = bpshaper_member_retry_ns(m, tokens_ns, now);
	return false;
}

/* The lock is taken: let the holder know of slots that it does not. */
static u64 bpshaper_member_post(struct bpshaper_hub *hub,
				struct bpshaper_member *m, u64 now)
{
	u64 at = now + BPSHAPER_HUB_BUSY_NS;
	struct bpshaper_slot *s;
	u32 state;

	list_for_each_entry(s, &m->slots, backlog_node) {
		if (!bpshaper_slot_lacks(s))
			continue;
		atomic64_set(&s->next_ns, at);
		state = READ_ONCE(s->state);
		if (state >= BPSHAPER_SLOT_POSTED ||
		    cmpxchg(&s->state, state, BPSHAPER_SLOT_POSTED) != state)
			continue;
		llist_add(&s->news_node, &hub->news);
	}
	return at;
}

/* The slot has come back, or is new. If it lacks bytes it does not wait until
 * others of the member have sent theirs, and goes first.
 */
static void bpshaper_slot_ask(struct bpshaper_slot *s, u64 now)
{
	struct bpshaper_member *m = s->member;
	struct bpshaper_hub *hub = m->hub;
	unsigned long flags;

	smp_mb();	/* as in bpshaper_member_ask() */
	if (!bpshaper_slot_lacks(s) || !(s->was_empty || s->is_new) ||
	    READ_ONCE(s->state) == BPSHAPER_SLOT_POSTED)
		return;
	if (raw_spin_trylock_irqsave(&hub->lock, flags)) {
		bpshaper_hub_serve(hub, m, now);
		bpshaper_member_next_ns(hub, m);
		raw_spin_unlock_irqrestore(&hub->lock, flags);
		list_move(&s->backlog_node, &m->slots);
	}
}

/* No slot of the member has bytes for its next packet. Return 0 if one has, at
 * last, or else when to ask again; the member sleeps until then, at most.
 */
static u64 bpshaper_member_ask(struct bpshaper_member *m, u64 now)
{
	struct bpshaper_hub *hub = m->hub;
	int spins = BPSHAPER_HUB_SPINS;
	unsigned long flags;
	u64 at = U64_MAX;

	smp_mb();	/* @want before @state: bpshaper_slot_leave_tree() */
	if (bpshaper_member_must_ask(hub, m, now, &at)) {
		while (raw_spin_is_locked(&hub->lock) && --spins)
			cpu_relax();
		if (raw_spin_trylock_irqsave(&hub->lock, flags)) {
			bpshaper_hub_serve(hub, m, now);
			at = bpshaper_member_next_ns(hub, m);
			raw_spin_unlock_irqrestore(&hub->lock, flags);
		} else {
			at = bpshaper_member_post(hub, m, now);
		}
	}
	atomic64_set(&m->wake_ns, at);
	return at;
}

/* What the member sleeps for has changed: it asks as soon as it lacks bytes,
 * and packets may not be as long any more: @mtu bytes as the qdisc counts them.
 */
static void bpshaper_member_look_again(struct bpshaper_member *m, u32 mtu)
{
	struct bpshaper_slot *s;

	while (!list_empty(&m->waiting))
		list_move_tail(m->waiting.next, &m->slots);
	list_for_each_entry(s, &m->slots, backlog_node) {
		WRITE_ONCE(s->head, min(s->head, mtu));
		atomic64_set(&s->next_ns, 0);
	}
}

#endif /* _BPSHAPER_MEMBER_H */
