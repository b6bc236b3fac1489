/* SPDX-License-Identifier: GPL-2.0-only */
/* How a packet leaves: tokens, slots, and sleep. */
#ifndef _BPSHAPER_DEQUEUE_H
#define _BPSHAPER_DEQUEUE_H

/* Dequeue
 *
 * What an idle qdisc does not need is noinline, so that the short path needs
 * few registers.
 */

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

/* @skb of @f, which leaves, waited @wait_ns, its socket outside included.
 *
 * The last packet is not marked: who has one in the queue could send no less.
 * Nor are then all packets of a flow that begins to be marked: QUIC would take
 * that for a path that mangles ECN (RFC 9000, A.4).
 *
 * What TCP has sent and what is forwarded is in the flow, so with the last
 * packet it has no queue. Another sender may have a queue of its own.
 *
 * A socket that asks for less than its part is not marked, nor a burst that
 * follows no other soon: that ends by itself.
 */
static noinline void bpshaper_flow_mark(struct bpshaper_leaf *l,
					struct bpshaper_flow *f,
					struct sk_buff *skb, u64 wait_ns,
					u64 now)
{
	const struct bpshaper_socket *s = f->socket;
	bool may_be_held = s && !bpshaper_sock_is_tcp(s->sk);

	if (!bpshaper_skb_has_ect(skb) || (!f->head && may_be_held))
		return;
	if (s && (bpshaper_socket_is_sparse(&l->flows, s, now) ||
		  (s->is_lone_burst && s->tokens_ns == s->idle_ns &&
		   now - s->idle_ns < BPSHAPER_IDLE_NS)))
		return;
	if (bpshaper_marks_decide(&l->marks, &f->pi2, may_be_held,
				  f->head ? wait_ns : 0, now) &&
	    INET_ECN_set_ce(skb))
		l->flows.stat.ce_marks++;
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

	if (f->departs_ns <= now)	/* else the wait was cut short */
		due_ns = max(due_ns, f->departs_ns);
	next_ns = max(f->paced.paid_ns, bpshaper_skb_due_ns(f->head));
	if (next_ns > now)
		ahead_ns = next_ns - now;
	f->is_behind = now - min(now, due_ns) > ahead_ns;
	bpshaper_flow_count_later(&l->flows, f);
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
	u64 delay_ns;
	u32 wire;

	bpshaper_table_trim(&q->table, 1);	/* while @f is not parked */
	/* Before it is charged: one whose first packet leaves nothing is parked
	 * as unknown.
	 */
	skb = bpshaper_flow_pop(&l->flows, f);
	wire = bpshaper_wire_len(&q->wire, skb);
	bpshaper_flow_charge(f, wire);
	if (f->socket)
		bpshaper_socket_try_release(l, f->socket, now);
	bpshaper_pacing_charge(&q->pacing, &f->paced, skb, now);
	if (unlikely(f->is_timed))
		bpshaper_flow_judge_behind(l, f, skb, now);
	delay_ns = now - min(now, bpshaper_skb_due_ns(skb));
	bpshaper_hist_add(l->flows.stat.delay_hist, delay_ns);
	if (f->socket && l->marks.target_ns)
		delay_ns += bpshaper_socket_waited_ns(&l->flows.turns,
						      f->socket, now);
	if (unlikely(!bpshaper_marks_pass(&l->marks, &f->pi2, delay_ns)))
		bpshaper_flow_mark(l, f, skb, delay_ns, now);
	if (unlikely(bpshaper_turns_are_on(&l->flows.turns))) {
		l->flows.turns.unserved += wire;
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

	/* While waiting for tokens try only flows that are behind, or due
	 * earlier.
	 */
	if (bpshaper_waits_for_tokens(q) &&
	    !bpshaper_flows_have_early(&l->flows) &&
	    bpshaper_table_departs_ns(&q->table) >= q->wake_ns)
		return NULL;
	now = ktime_get_ns();
	bpshaper_watchdog_note(sch, now);
	bpshaper_flows_wake(&q->table, BPSHAPER_WAKE_STEPS, now);
	f = bpshaper_flow_due(l, &steps, now);
	if (!f) {
		/* All wait for a time, or there were too many to look at. */
		if (l->flows.waiting_len)
			bpshaper_sleep(sch, l->flows.active >
				       l->flows.waiting_len ? now : U64_MAX,
				       false, now);
		return NULL;
	}
	if (!bpshaper_admit(sch, f->head, bpshaper_flow_is_early(f), now))
		return NULL;

	return bpshaper_flow_send(sch, l, f, now);
}

/* Dequeue with a hub: with classes, or as one of several queues */

/* The packet leaves the leaf. It counts in the classes above it, too, as the
 * core counts a packet that is sent: with its segments.
 */
static void bpshaper_class_sent(struct bpshaper_leaf *l,
				const struct sk_buff *skb, u64 now)
{
	u32 len = qdisc_pkt_len(skb), segs;
	struct bpshaper_class *cl;

	if (!bpshaper_has_classes(l->q))
		return;
	segs = skb_is_gso(skb) ? skb_shinfo(skb)->gso_segs : 1;
	cl = l == &l->q->own ? NULL :
			       container_of(l, struct bpshaper_class, own);
	for (; cl; cl = cl->parent) {
		cl->own.stat_bytes += len;
		cl->own.stat_packets += segs;
	}
	l->sent_ns = now;
	l->sample_bytes += len;
	if (now - l->sample_ns >= BPSHAPER_SAMPLE_NS)
		bpshaper_leaf_measure(l, now);
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
	u64 cost_ns;
	int before;
	u32 len;

	*ready_ns = now;
	while (steps > 0) {
		s = bpshaper_member_next(&q->member, &steps);
		if (!s && !q->member.slots) {
			*ready_ns = U64_MAX;
			return NULL;
		}
		if (!s && steps > 0) {
			steps -= BPSHAPER_ASK_STEPS;
			if (bpshaper_member_ask(&q->member, now))
				continue;
			*ready_ns = bpshaper_member_backstop_ns(&q->member,
								now);
			return NULL;
		}
		if (!s)
			break;
		l = container_of(s, struct bpshaper_leaf, slot);
		l->flows.least = s->least;
		before = steps;
		f = bpshaper_flow_due(l, &steps, now);
		if (steps-- < before)	/* some wait */
			bpshaper_leaf_update(l, now);
		if (!f)
			continue;
		len = bpshaper_wire_len(&q->wire, f->head);
		if (bpshaper_slot_bytes(s) < len)
			continue;
		if (unlikely(q->peak_rate.Bps) &&
		    !bpshaper_bucket_conforms(&q->peak, &q->peak_rate, len,
					      now)) {
			cost_ns = bpshaper_rate_cost_ns(&q->peak_rate, len);
			*ready_ns = bpshaper_bucket_ready_ns(&q->peak, cost_ns);
			return NULL;
		}
		if (!bpshaper_leaf_take(sch, l, len, now))
			continue;
		if (unlikely(q->peak_rate.Bps))
			bpshaper_bucket_charge(&q->peak, &q->peak_rate, len,
					       now);
		*leaf = l;
		return f;
	}
	return NULL;
}

static noinline struct sk_buff *bpshaper_dequeue_slot(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_leaf *l;
	struct bpshaper_flow *f;
	struct sk_buff *skb;
	u64 ready_ns, now;

	if (READ_ONCE(q->member.asleep) && bpshaper_waits_for_tokens(q) &&
	    list_empty(&q->member.ready) &&
	    bpshaper_table_departs_ns(&q->table) >= q->wake_ns)
		return NULL;
	now = ktime_get_ns();
	bpshaper_watchdog_note(sch, now);
	WRITE_ONCE(q->cpu, raw_smp_processor_id());
	bpshaper_flows_wake(&q->table, BPSHAPER_WAKE_STEPS, now);
	f = bpshaper_slots_due(sch, &l, BPSHAPER_FLOW_STEPS, &ready_ns, now);
	if (!f) {
		bpshaper_sleep(sch, ready_ns, ready_ns != U64_MAX, now);
		return NULL;
	}
	skb = bpshaper_flow_send(sch, l, f, now);
	bpshaper_class_sent(l, skb, now);
	bpshaper_leaf_update(l, now);
	return skb;
}

static inline struct sk_buff *bpshaper_dequeue_any(struct Qdisc *sch)
{
	const struct bpshaper_sched *q = qdisc_priv(sch);

	return likely(!q->hub) ? bpshaper_dequeue_flow(sch) :
				 bpshaper_dequeue_slot(sch);
}

/* The direct packet leaves. */
static inline struct sk_buff *bpshaper_direct_send(struct bpshaper_sched *q,
						   struct bpshaper_leaf *l,
						   u64 now)
{
	struct sk_buff *skb = q->direct;

	if (likely(!q->direct_ns))	/* a constant: 10 instructions less */
		bpshaper_hist_add(l->flows.stat.delay_hist, 0);
	else
		bpshaper_hist_add(l->flows.stat.delay_hist, now - q->direct_ns);
	q->direct = NULL;
	q->direct_ns = 0;
	q->stat_direct_packets++;
	return skb;
}

/* With a hub the direct packet leaves past its slot, or with the bytes of that.
 * Without any it goes to its flow. So it does if others wait in other queues:
 * no flow pays for a direct packet, and a socket with room for one would send
 * all of its packets so.
 */
static noinline struct sk_buff *bpshaper_dequeue_direct_slot(struct Qdisc *sch,
							     u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u32 len = bpshaper_wire_len(&q->wire, q->direct);
	struct bpshaper_leaf *l = q->direct_leaf;
	struct bpshaper_slot *s = &l->slot;
	struct sk_buff *skb;
	u64 key;

	if (bpshaper_is_queue(q) && READ_ONCE(q->hub->in_order) &&
	    bpshaper_direct_to_flow(sch, now))
		return bpshaper_dequeue_slot(sch);
	if (!bpshaper_is_queue(q) && bpshaper_slot_pass(s, len, &now)) {
		trace_hub_send(sch, bpshaper_leaf_classid(l), len, now);
	} else if (!bpshaper_leaf_take(sch, l, len, now)) {
		/* Ask: no flow of the leaf has packets. */
		key = bpshaper_slot_vtime(s);
		WRITE_ONCE(s->has_come, true);
		bpshaper_slot_set(s, len, len, len, key, key);
		bpshaper_slot_post(s);
		if (!bpshaper_leaf_take(sch, l, len, now)) {
			bpshaper_direct_to_flow(sch, now);
			return bpshaper_dequeue_slot(sch);
		}
		bpshaper_leaf_update(l, now);
	}
	skb = bpshaper_direct_send(q, l, now);
	l->ran_empty = true;	/* it had no backlog before */
	bpshaper_class_sent(l, skb, now);
	return skb;
}

/* A direct packet usually leaves with the dequeue that follows. It has no stamp
 * until it is seen to wait, and its delay counts from there: an idle qdisc
 * without a rate needs no clock.
 */
static struct sk_buff *bpshaper_dequeue_direct(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct sk_buff *skb = q->direct;
	u64 now = 0;

	if (q->rate.Bps || q->direct_ns || unlikely(skb->tstamp) ||
	    bpshaper_has_classes(q)) {
		now = ktime_get_ns();
		bpshaper_watchdog_note(sch, now);
		if (unlikely(ktime_to_ns(skb->tstamp) > now) &&
		    bpshaper_direct_wait(sch, now))
			return bpshaper_dequeue_any(sch);
		if (unlikely(q->hub))
			return bpshaper_dequeue_direct_slot(sch, now);
		if (!bpshaper_admit(sch, skb, true, now)) {
			if (!q->direct_ns)
				q->direct_ns = now;
			return NULL;
		}
	}
	return bpshaper_direct_send(q, &q->own, now);
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
