/* SPDX-License-Identifier: GPL-2.0-only */
/* Throttling: when does a socket change its state?
 *
 * bpshaper_backpressure.h has the states and what moves a socket between them.
 * A socket that holds more than its share is overlimit; it is throttled once
 * the queue will not drain for a while, and released when a quarter of its
 * share is left.
 */
#ifndef _BPSHAPER_THROTTLE_H
#define _BPSHAPER_THROTTLE_H

#define BPSHAPER_REVIEW_BATCH	8	/* sockets, by one sleep */

/* Does the socket hold more than a @divisor-th of its share? While memory is
 * scarce all its data counts, and its share is that of one flow. When packets
 * take half of memory_limit any data exceeds it, so that sockets stop before
 * packets must be dropped.
 */
static inline bool bpshaper_socket_exceeds(struct bpshaper_sched *q,
					   const struct bpshaper_socket *s,
					   u32 divisor)
{
	u32 share = bpshaper_share_update(&q->bp, bpshaper_limit(q),
					  q->flows.sockets);

	if (likely(!bpshaper_flows_memory_is_scarce(&q->flows)))
		return bpshaper_socket_due(s) >
		       bpshaper_socket_share(&q->bp, s) / divisor;
	if (q->flows.memory > q->memory_limit / 2)
		share = 1;
	return s->data > share / divisor;
}

/* Does the qdisc wait for tokens? */
static bool bpshaper_waits_for_tokens(struct bpshaper_sched *q)
{
	return q->is_armed_for_tokens && hrtimer_is_queued(&q->watchdog.timer);
}

/* Will the backlog of @f stay for a while? It will if the qdisc waits for
 * tokens, if the flow waits and holds no timed packets (or any, while memory is
 * scarce), if the device has stopped, or if the parent has not called dequeue
 * since the packet before.
 */
static bool bpshaper_is_blocked(struct Qdisc *sch,
				const struct bpshaper_flow *f)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	return bpshaper_waits_for_tokens(q) ||
	       (f->is_waiting &&
		(!f->timed || bpshaper_flows_memory_is_scarce(&q->flows))) ||
	       netif_xmit_frozen_or_stopped(sch->dev_queue) ||
	       q->undrained > 1;
}

/* A packet has joined a socket's flow. */
static inline void bpshaper_socket_enqueued(struct Qdisc *sch,
					    const struct bpshaper_flow *f,
					    const struct sk_buff *skb,
					    bpshaper_destructor_t destructor,
					    u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_socket *s = f->socket;

	bpshaper_socket_note_largest(s, qdisc_pkt_len(skb));
	if (s->state == BPSHAPER_THROTTLED) {
		bpshaper_socket_top_up(s);
		return;
	}
	if (s->state == BPSHAPER_UNTHROTTLED) {
		if (!bpshaper_socket_exceeds(q, s, 1))
			return;
		bpshaper_socket_set_overlimit(&q->bp, s, destructor);
	}
	if (bpshaper_is_blocked(sch, f))
		bpshaper_socket_throttle(&q->bp, s, now);
	else
		bpshaper_socket_note_fragment(s, skb);
}

/* Release the socket if it holds no more than a quarter of its share, or if it
 * must retransmit. Call this when it has less queued that counts, or when its
 * share may have grown.
 */
static void bpshaper_socket_try_release(struct bpshaper_sched *q,
					struct bpshaper_socket *s, u64 now)
{
	if (s->state != BPSHAPER_UNTHROTTLED &&
	    (!bpshaper_socket_exceeds(q, s, BPSHAPER_RELEASE_DIVISOR) ||
	     (s->state == BPSHAPER_THROTTLED &&
	      bpshaper_sock_must_retransmit(s->sk))))
		bpshaper_socket_release(&q->bp, s, now);
}

/* Look at some throttled sockets again. All that such a socket holds may have a
 * time that is far, so no dequeue would release it, while its share has grown
 * or memory is no longer scarce.
 */
static noinline void bpshaper_sockets_review(struct bpshaper_sched *q, u64 now)
{
	int batch = BPSHAPER_REVIEW_BATCH;
	struct bpshaper_socket *s;

	while (batch-- &&
	       (s = bpshaper_backpressure_next_throttled(&q->bp)))
		bpshaper_socket_try_release(q, s, now);
}

/* The queue will not drain for a while: throttle overlimit sockets. */
static void bpshaper_throttle_overlimit(struct bpshaper_sched *q, u64 now)
{
	bpshaper_backpressure_throttle(&q->bp, now);
	if (unlikely(q->flows.exempt))
		bpshaper_sockets_review(q, now);
}

/* Take the next packet of a flow, to send it or to drop it. */
static inline struct sk_buff *bpshaper_flow_take(struct bpshaper_sched *q,
						 struct bpshaper_flow *f,
						 u64 now)
{
	struct sk_buff *skb = bpshaper_flow_pop(&q->flows, f);

	if (f->socket)
		bpshaper_socket_try_release(q, f->socket, now);
	else
		bpshaper_pool_account(&q->pool, &q->flows, f, skb, -1);
	return skb;
}

#endif /* _BPSHAPER_THROTTLE_H */
