/* SPDX-License-Identifier: GPL-2.0-only */
/* How a packet leaves: tokens, turns of leaves, and sleep. */
#ifndef _BPSHAPER_DEQUEUE_H
#define _BPSHAPER_DEQUEUE_H

/* How late the timer may be for the time of a packet, as for fq */
#define BPSHAPER_TIMER_SLACK_NS	(10 * NSEC_PER_USEC)

/* Sleep and wake */

/* When there are tokens for a packet of @len bytes, or for a batch unless
 * @is_single or only the peak rate holds the packet.
 */
static u64 bpshaper_bucket_wake_ns(struct Qdisc *sch, u32 len, bool is_single,
				   u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u64 cost_ns, ready_ns;
	u32 bytes = len;

	if (!is_single &&
	    !bpshaper_bucket_conforms(&q->bucket, &q->rate, len, now))
		bytes = max(len, min(sch->qstats.backlog, q->batch));
	cost_ns = bpshaper_rate_cost_ns(&q->rate, bytes);
	ready_ns = bpshaper_bucket_ready_ns(&q->bucket, cost_ns);
	if (!q->peak_rate.Bps)
		return ready_ns;
	cost_ns = bpshaper_rate_cost_ns(&q->peak_rate, len);
	return max(ready_ns, bpshaper_bucket_ready_ns(&q->peak, cost_ns));
}

/* There are no tokens for a packet of @len bytes. */
static noinline void bpshaper_wait_for_tokens(struct Qdisc *sch, u32 len,
					      bool is_single, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u64 ready_ns;

	/* Do not wait for a batch while there is a new or fresh flow. With
	 * classes it may have to wait for them.
	 */
	is_single = is_single || (bpshaper_flows_have_new(&q->own.flows) &&
				  !bpshaper_has_classes(q));
	ready_ns = q->hub ?
		max_t(u64, atomic64_read(&q->member.wake_ns), now) :
		bpshaper_bucket_wake_ns(sch, len, is_single, now);
	if (bpshaper_has_classes(q) && !q->hub)
		ready_ns = max(min(ready_ns,
				   bpshaper_tree_sleep_ns(&q->tree, now)),
			       bpshaper_bucket_wake_ns(sch, len, true, now));
	q->wake_ns = min(ready_ns, bpshaper_table_departs_ns(&q->table));
	if (q->was_armed && !q->is_armed_for_tokens)	/* armed with slack */
		hrtimer_try_to_cancel(&q->watchdog.timer);
	qdisc_watchdog_schedule_ns(&q->watchdog, q->wake_ns);
	bpshaper_backstop_start(q);
	q->was_armed = true;
	q->is_armed_for_tokens = true;
	q->is_armed_for_class = false;
	qdisc_qstats_overlimit(sch);
	bpshaper_throttle_overlimit(q, now);
}

/* No flow is due: all wait for a departure time or for their pacing rate, or
 * more flows had to be looked at than one dequeue may. Nobody has asked for
 * tokens.
 */
static noinline void bpshaper_wait_for_time(struct Qdisc *sch, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	if (q->hub)
		bpshaper_queue_idle(q);
	q->wake_ns = q->own.flows.active > q->own.flows.waiting_len ? now :
		     bpshaper_table_departs_ns(&q->table);
	qdisc_watchdog_schedule_range_ns(&q->watchdog, q->wake_ns,
					 BPSHAPER_TIMER_SLACK_NS);
	bpshaper_backstop_start(q);
	q->was_armed = true;
	q->is_armed_for_tokens = false;
	bpshaper_throttle_overlimit(q, now);
}

static noinline void bpshaper_watchdog_fired(struct Qdisc *sch, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u64 lateness = now - min(now, q->wake_ns);

	q->was_armed = false;
	q->stat_timer_wakeups++;
	bpshaper_hist_add(&q->lateness_hist, lateness);
	trace_watchdog(sch, lateness);
}

/* Note that the watchdog has fired, if it has. */
static __always_inline void bpshaper_watchdog_note(struct Qdisc *sch, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	if (q->was_armed && !hrtimer_is_queued(&q->watchdog.timer))
		bpshaper_watchdog_fired(sch, now);
}

/* Dequeue
 *
 * What an idle qdisc does not need is noinline, so that the short path needs
 * few registers.
 */

/* Both buckets must agree before either is charged. */
static bool bpshaper_take_both(struct bpshaper_sched *q, u32 len, u64 now)
{
	if (!bpshaper_bucket_conforms(&q->bucket, &q->rate, len, now) ||
	    !bpshaper_bucket_take(&q->peak, &q->peak_rate, len, now))
		return false;
	bpshaper_bucket_charge(&q->bucket, &q->rate, len, now);
	return true;
}

static noinline bool bpshaper_take_peak_or_hub(struct Qdisc *sch, u32 len,
					       u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	return q->hub ? bpshaper_queue_take(sch, len, now) :
			bpshaper_take_both(q, len, now);
}

/* Take the tokens for @skb. Without enough of them sleep and return false. */
static inline bool bpshaper_admit(struct Qdisc *sch, const struct sk_buff *skb,
				  bool is_new, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u32 len = bpshaper_wire_len(&q->wire, skb);

	if (!q->rate.Bps)
		return true;
	if (unlikely(q->has_peak_or_hub) ?
	    bpshaper_take_peak_or_hub(sch, len, now) :
	    bpshaper_bucket_take(&q->bucket, &q->rate, len, now))
		return true;
	bpshaper_wait_for_tokens(sch, len, is_new, now);
	return false;
}

/* @skb of @f leaves @delay_ns after it came, or after its time if that is
 * later.
 */
static inline void bpshaper_delayed(struct bpshaper_leaf *l,
				    struct bpshaper_flow *f,
				    struct sk_buff *skb, u64 delay_ns, u64 now)
{
	bpshaper_hist_add(&l->delay_hist, delay_ns);
	if (f->socket && l->marks.target_ns)
		delay_ns += bpshaper_socket_waited_ns(&l->flows.turns,
						      f->socket, now);
	if (unlikely(!bpshaper_marks_pass(&l->marks, &f->pi2, delay_ns)))
		bpshaper_flow_mark(l, f, skb, delay_ns, now);
}

/* The next flow whose next packet may leave; NULL if there is none. Look at
 * @steps flows at most, and count them: strangers can make many flows with
 * times.
 */
static struct bpshaper_flow *bpshaper_flow_due(struct bpshaper_leaf *l,
					       int *steps, u64 now)
{
	struct bpshaper_pacing *pacing = &l->q->pacing;
	struct bpshaper_flow *f;
	u64 departs_ns;

	while ((f = bpshaper_flows_next(&l->flows))) {
		departs_ns = bpshaper_pacing_ready_ns(pacing, &f->paced,
						      f->head, now);
		if (likely(departs_ns <= now) || !pacing->is_on)
			return f;
		if (--*steps < 0)
			break;
		bpshaper_flow_wait(&l->flows, f, departs_ns);
		pacing->stat_waits++;
		if (f->socket)	/* what has a time no longer counts */
			bpshaper_socket_try_release(l, f->socket, now);
	}
	return NULL;
}

/* @skb has left a flow that is timed. The flow is behind if @skb was late by
 * more than the time until its next packet is due, or by BPSHAPER_BATCH_NS if
 * that is due already: something else than its times holds it back.
 */
static void bpshaper_flow_judge_behind(struct bpshaper_leaf *l,
				       struct bpshaper_flow *f,
				       const struct sk_buff *skb, u64 now)
{
	u64 next_ns, due_ns = bpshaper_skb_due_ns(skb);
	u64 ahead_ns = BPSHAPER_BATCH_NS;

	if (f->departs.at <= now)	/* else the wait was cut short */
		due_ns = max(due_ns, f->departs.at);
	next_ns = max(f->paced.paid_ns, bpshaper_skb_due_ns(f->head));
	if (next_ns > now)
		ahead_ns = next_ns - now;
	bpshaper_flow_set_behind(&l->flows, f,
				 now - min(now, due_ns) > ahead_ns);
	if (f->socket)
		bpshaper_socket_try_release(l, f->socket, now);
}

/* Take the next packet of @f, for which there are tokens, and charge for it. */
static inline struct sk_buff *bpshaper_flow_send(struct Qdisc *sch,
						 struct bpshaper_leaf *l,
						 struct bpshaper_flow *f,
						 u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct sk_buff *skb;
	u32 wire;

	bpshaper_table_trim(&q->table, 1);	/* while @f is not parked */
	skb = bpshaper_flow_take(l, f, now);
	wire = bpshaper_wire_len(&q->wire, skb);
	if (unlikely(bpshaper_flow_pays(l, f)))
		bpshaper_flow_pay_turns(l, f, wire);
	bpshaper_flow_charge(&l->flows, f, wire);
	bpshaper_pacing_charge(&q->pacing, &f->paced, skb, now);
	if (unlikely(f->is_timed))
		bpshaper_flow_judge_behind(l, f, skb, now);
	bpshaper_delayed(l, f, skb, now - min(now, bpshaper_skb_due_ns(skb)),
			 now);
	if (unlikely(bpshaper_turns_are_on(&l->flows.turns))) {
		bpshaper_turns_sent(l, wire);
		bpshaper_turns_serve(l, now);
	}
	return skb;
}

static noinline struct sk_buff *bpshaper_dequeue_flow(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_leaf *l = &q->own;
	int steps = BPSHAPER_FLOW_STEPS;
	struct bpshaper_flow *f;
	u64 now;

	/* While waiting for tokens try only new and fresh flows, and flows that
	 * are due earlier.
	 */
	if (!bpshaper_flows_have_new(&l->flows) &&
	    bpshaper_waits_for_tokens(q) &&
	    bpshaper_table_departs_ns(&q->table) >= q->wake_ns) {
		if (q->hub)	/* the holder may grant more */
			bpshaper_slot_set_want(&l->slot, bpshaper_leaf_due(l),
					       l->slot.head, l->slot.flows);
		return NULL;
	}
	now = ktime_get_ns();
	bpshaper_watchdog_note(sch, now);
	bpshaper_flows_wake(&q->table, BPSHAPER_WAKE_STEPS, now);
	if (unlikely(q->hub) && bpshaper_slot_lacks(&l->slot))
		bpshaper_flows_pass_greedy(&l->flows, now);
	f = bpshaper_flow_due(l, &steps, now);
	if (!f) {
		if (l->flows.waiting_len)
			bpshaper_wait_for_time(sch, now);
		return NULL;
	}
	if (!bpshaper_admit(sch, f->head, f->is_new, now))
		return NULL;

	return bpshaper_flow_send(sch, l, f, now);
}

/* Dequeue with classes */

/* The next flow whose next packet may leave by all ceils above it, and its
 * @leaf. Return NULL if there is none, or after too many steps. A leaf that may
 * not send takes a step for each level, because each may cease to offer: 64
 * leaves below eight ceils each took 85,000 instructions (selftests/in-vm --
 * adversaries_classes).
 */
static struct bpshaper_flow *bpshaper_classes_due(struct bpshaper_sched *q,
						  struct bpshaper_leaf **leaf,
						  bool *is_new, u64 now)
{
	int steps = BPSHAPER_FLOW_STEPS;
	struct bpshaper_node *node, *held;
	struct bpshaper_flow *f;
	struct bpshaper_leaf *l;
	u32 len;

	for (; steps > 0 && (node = bpshaper_tree_next(&q->tree, now));
	     steps -= bpshaper_node_levels(node)) {
		l = bpshaper_node_leaf(node);
		f = bpshaper_flow_due(l, &steps, now);
		if (!f) {
			bpshaper_leaf_update(l, now);
			continue;
		}
		*leaf = l;
		*is_new = bpshaper_class_is_new(l, f);
		len = bpshaper_wire_len(&q->wire, f->head);
		held = bpshaper_node_first_short(node, len, now);
		if (!held)
			return f;
		bpshaper_node_wait(&q->tree, held, len, l->flows.backlog,
				   *is_new, l->flows.quantum, now);
	}
	return NULL;
}

/* No class may send: all wait until @ready_ns, or for the times of their flows.
 */
static noinline void bpshaper_wait_for_class(struct Qdisc *sch, u64 ready_ns,
					     u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u64 departs_ns = bpshaper_table_departs_ns(&q->table);

	q->wake_ns = min(ready_ns, departs_ns);
	if (q->wake_ns == U64_MAX)
		return;
	if (q->was_armed)
		hrtimer_try_to_cancel(&q->watchdog.timer);
	qdisc_watchdog_schedule_ns(&q->watchdog, q->wake_ns);
	bpshaper_backstop_start(q);
	q->was_armed = true;
	q->is_armed_for_tokens = ready_ns <= departs_ns;
	q->is_armed_for_class = !q->hub;
	qdisc_qstats_overlimit(sch);
	bpshaper_throttle_overlimit(q, now);
}

#define BPSHAPER_LOOK_STEPS	(BPSHAPER_FLOW_STEPS / 2)	/* of a leaf */
#define BPSHAPER_ASK_STEPS	8	/* as long as so many flows take */

/* With several queues: which packet does the leaf send next, if one is due? It
 * gets bytes for that one: those for a packet that is not due would lie idle,
 * and a short one of a new flow would wait until there are enough for a long
 * one. Return how many flows were not due: past BPSHAPER_LOOK_STEPS the leaf
 * goes on with the next dequeue.
 */
static int bpshaper_leaf_look(struct bpshaper_leaf *l, u64 now)
{
	int left = BPSHAPER_LOOK_STEPS;
	struct bpshaper_flow *f;
	u32 len;

	if (bpshaper_slot_lacks(&l->slot))
		bpshaper_flows_pass_greedy(&l->flows, now);
	f = bpshaper_flow_due(l, &left, now);
	bpshaper_leaf_update(l, now);
	if (left < 0)
		list_move_tail(&l->come_node, &l->q->come);
	if (!f || !l->slot.want)
		return BPSHAPER_LOOK_STEPS - left;
	len = bpshaper_wire_len(&l->q->wire, f->head);
	bpshaper_leaf_want(l, max(l->slot.want, len), len, now);
	bpshaper_leaf_set_new(l, f, now);
	return BPSHAPER_LOOK_STEPS - left;
}

/* Packets on the wire: what the core counts a packet that is sent as. */
static u32 bpshaper_skb_segs(const struct sk_buff *skb)
{
	return skb_is_gso(skb) ? skb_shinfo(skb)->gso_segs : 1;
}

/* The packet leaves the leaf. */
static void bpshaper_class_sent(struct bpshaper_leaf *l,
				const struct sk_buff *skb, u64 now)
{
	u32 len = qdisc_pkt_len(skb), segs = bpshaper_skb_segs(skb);
	struct bpshaper_leaf *up;
	struct bpshaper_node *n;

	for (n = &l->slot.node; n->parent; n = n->parent) {
		up = bpshaper_node_leaf(n);
		up->stat_bytes += len;
		up->stat_packets += segs;
		if (l->q->hub)	/* the others are of all queues */
			break;
	}
	bpshaper_leaf_sent(l, len, now);
}

static noinline struct sk_buff *bpshaper_dequeue_class(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	int steps = BPSHAPER_FLOW_STEPS;
	struct bpshaper_leaf *l;
	struct bpshaper_flow *f;
	struct sk_buff *skb;
	bool is_new;
	u64 now;

	/* A class that waits for its ceil offers again when it gets a new
	 * packet. Look at it, so that it waits again and its sockets are
	 * throttled.
	 */
	if (list_empty(&q->come) && bpshaper_waits_for_tokens(q) &&
	    !(q->is_armed_for_class && q->tree.root.offering) &&
	    bpshaper_table_departs_ns(&q->table) >= q->wake_ns)
		return NULL;
	for (; steps && !list_empty(&q->come); steps--)
		list_del_init(q->come.next);
	now = ktime_get_ns();
	bpshaper_watchdog_note(sch, now);
	bpshaper_flows_wake(&q->table, BPSHAPER_WAKE_STEPS, now);
	bpshaper_tree_wake(&q->tree, q->own.flows.quantum, BPSHAPER_FLOW_STEPS,
			   now);
	f = bpshaper_classes_due(q, &l, &is_new, now);
	if (!f) {
		bpshaper_wait_for_class(sch, q->tree.root.offering ? now :
					bpshaper_tree_wake_ns(&q->tree), now);
		return NULL;
	}
	if (!bpshaper_admit(sch, f->head, is_new, now))
		return NULL;
	bpshaper_node_charge(&q->tree, &l->slot.node,
			     bpshaper_wire_len(&q->wire, f->head), now);
	skb = bpshaper_flow_send(sch, l, f, now);
	bpshaper_class_sent(l, skb, now);
	bpshaper_leaf_update(l, now);
	return skb;
}

/* Dequeue with classes on several queues: what may leave has been granted. */

/* Leaves in which a new flow has come ask, once they know for what; the first
 * of them asks for all. Return how long it took, in flows.
 */
static int bpshaper_slots_come(struct bpshaper_sched *q, u64 now)
{
	struct bpshaper_leaf *l;
	int steps = 0, looked;
	LIST_HEAD(asking);

	while (steps < BPSHAPER_LOOK_STEPS && !list_empty(&q->come)) {
		l = list_first_entry(&q->come, struct bpshaper_leaf, come_node);
		looked = bpshaper_leaf_look(l, now);
		steps += looked + BPSHAPER_ASK_STEPS;
		if (looked <= BPSHAPER_LOOK_STEPS)
			list_move_tail(&l->come_node, &asking);
	}
	while (!list_empty(&asking)) {
		l = list_first_entry(&asking, struct bpshaper_leaf, come_node);
		bpshaper_slot_ask(&l->slot, now);
		list_del_init(&l->come_node);
	}
	return steps;
}

/* The next flow whose next packet may leave, for which bytes are taken, and its
 * @leaf. Look at @steps flows at most. Otherwise NULL, and @ready_ns is when
 * there may be one.
 */
static struct bpshaper_flow *bpshaper_slots_due(struct Qdisc *sch,
						struct bpshaper_leaf **leaf,
						int steps, u64 *ready_ns,
						u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_slot *s;
	struct bpshaper_flow *f;
	struct bpshaper_leaf *l;

	*ready_ns = now;
	for (; steps > 0; steps--) {
		s = bpshaper_member_next(&q->member, &steps);
		if (!s && !q->member.slots_len) {
			*ready_ns = U64_MAX;
			break;
		}
		if (!s) {
			steps -= BPSHAPER_ASK_STEPS;
			*ready_ns = bpshaper_member_ask(&q->member, now);
			if (*ready_ns)
				break;
			continue;
		}
		l = container_of(s, struct bpshaper_leaf, slot);
		f = bpshaper_flow_due(l, &steps, now);
		if (!f) {
			bpshaper_leaf_update(l, now);
			continue;
		}
		if (!bpshaper_leaf_take(sch, l, bpshaper_wire_len(&q->wire,
								  f->head),
					now)) {
			bpshaper_leaf_set_new(l, f, now);
			continue;
		}
		*leaf = l;
		return f;
	}
	*ready_ns = list_empty(&q->come) ? max(*ready_ns, now) : now;
	return NULL;
}

static noinline struct sk_buff *bpshaper_dequeue_slot(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_leaf *l;
	struct bpshaper_flow *f;
	struct sk_buff *skb;
	u64 ready_ns, now;
	int steps;

	if (list_empty(&q->come) && bpshaper_waits_for_tokens(q) &&
	    bpshaper_table_departs_ns(&q->table) >= q->wake_ns)
		return NULL;
	now = ktime_get_ns();
	bpshaper_watchdog_note(sch, now);
	bpshaper_flows_wake(&q->table, BPSHAPER_WAKE_STEPS, now);
	steps = BPSHAPER_FLOW_STEPS - bpshaper_slots_come(q, now);
	f = bpshaper_slots_due(sch, &l, max(steps, 2 * BPSHAPER_ASK_STEPS),
			       &ready_ns, now);
	if (!f) {
		bpshaper_wait_for_class(sch, ready_ns, now);
		return NULL;
	}
	skb = bpshaper_flow_send(sch, l, f, now);
	bpshaper_class_sent(l, skb, now);
	bpshaper_leaf_look(l, now);
	if (!q->member.slots_len)
		atomic64_set(&q->member.wake_ns, 0);
	else if (unlikely(!q->rate.Bps) && l->slot.want) /* it has bytes */
		list_move_tail(&l->slot.backlog_node, &q->member.slots);
	return skb;
}

static inline struct sk_buff *bpshaper_dequeue_any(struct Qdisc *sch)
{
	const struct bpshaper_sched *q = qdisc_priv(sch);

	if (likely(!bpshaper_has_classes(q)))
		return bpshaper_dequeue_flow(sch);
	return q->hub ? bpshaper_dequeue_slot(sch) :
			bpshaper_dequeue_class(sch);
}

/* A direct packet usually leaves with the dequeue that follows. It has no stamp
 * until it is seen to wait, and its delay counts from there: an idle qdisc
 * without a rate needs no clock.
 */
static struct sk_buff *bpshaper_dequeue_direct(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct sk_buff *skb = q->direct;
	u64 now;

	if (q->rate.Bps || q->direct_ns || unlikely(skb->tstamp)) {
		now = ktime_get_ns();
		bpshaper_watchdog_note(sch, now);
		if (unlikely(ktime_to_ns(skb->tstamp) > now) &&
		    bpshaper_direct_wait(sch, now))
			return bpshaper_dequeue_any(sch);
		if (!bpshaper_admit(sch, skb, true, now)) {
			if (!q->direct_ns)
				q->direct_ns = now;
			/* no memory for a flow when the first class came */
			if (q->hub && bpshaper_has_classes(q))
				return bpshaper_dequeue_any(sch);
			return NULL;
		}
	}
	if (likely(!q->direct_ns))
		bpshaper_hist_add(&q->own.delay_hist, 0);
	else
		bpshaper_hist_add(&q->own.delay_hist, now - q->direct_ns);
	q->direct = NULL;
	q->direct_ns = 0;
	q->stat_direct_packets++;
	return skb;
}

static struct sk_buff *bpshaper_dequeue(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct sk_buff *skb;

	if (!sch->q.qlen)
		return NULL;
	q->undrained = 0;
	/* Unless mended (6.18.15 is not) red, sfb, multiq and taprio dequeue
	 * past what they have peeked at. No direct packet comes meanwhile.
	 */
	if (!q->direct && unlikely(!skb_queue_empty(&sch->gso_skb)))
		return qdisc_dequeue_peeked(sch);
	skb = q->direct ? bpshaper_dequeue_direct(sch) :
			  bpshaper_dequeue_any(sch);
	if (!skb)
		return NULL;
	bpshaper_account_out(sch, skb);
	qdisc_bstats_update(sch, skb);
	bpshaper_assert_packet(sch);
	return skb;
}

#endif /* _BPSHAPER_DEQUEUE_H */
