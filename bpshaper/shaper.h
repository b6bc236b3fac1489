/* SPDX-License-Identifier: GPL-2.0-only */
/* The shaper: tokens, sleep and wake. */
#ifndef _BPSHAPER_SHAPER_H
#define _BPSHAPER_SHAPER_H

/* How late the timer may be for the time of a packet, as for fq */
#define BPSHAPER_TIMER_SLACK_NS	(10 * NSEC_PER_USEC)

/* The backstop */

#define BPSHAPER_BACKSTOP_NS	(100 * NSEC_PER_MSEC)

/* Wake up now and then while there is a backlog.
 *
 * The qdisc is scheduled by its timer, its device or its parent's timer. Since
 * 7.1 that can be in vain while the device's queues are out of use, because a
 * leaf of mq is replaced or the length of the queue is set; they keep their
 * packets. The next packet wakes other qdiscs, but here all senders may be
 * throttled.
 */
static enum hrtimer_restart bpshaper_backstop(struct hrtimer *timer)
{
	struct bpshaper_sched *q = container_of(timer, struct bpshaper_sched,
						backstop);
	struct Qdisc *sch = q->own.bp.sch;

	if (!READ_ONCE(sch->q.qlen))
		return HRTIMER_NORESTART;
	bpshaper_wake_here(q);
	/* Do not return HRTIMER_RESTART: another CPU may have started it. */
	hrtimer_start(timer, ns_to_ktime(BPSHAPER_BACKSTOP_NS),
		      HRTIMER_MODE_REL);
	return HRTIMER_NORESTART;
}

static void bpshaper_backstop_start(struct bpshaper_sched *q)
{
	if (unlikely(!hrtimer_is_queued(&q->backstop)))
		hrtimer_start(&q->backstop, ns_to_ktime(BPSHAPER_BACKSTOP_NS),
			      HRTIMER_MODE_REL);
}

/* Sleep and wake */

/* Sleep until @ready_ns at the latest: then there are tokens, or bytes of the
 * hub, or more flows can be looked at. A timer that fires earlier stays, unless
 * it has slack and tokens are waited for.
 */
static noinline void bpshaper_sleep(struct Qdisc *sch, u64 ready_ns,
				    bool for_tokens, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	ready_ns = min(ready_ns, bpshaper_table_departs_ns(&q->table));
	if (q->was_armed && for_tokens != q->is_armed_for_tokens)
		hrtimer_try_to_cancel(&q->watchdog.timer);
	if (ready_ns != U64_MAX &&
	    (ready_ns < q->wake_ns || !hrtimer_is_queued(&q->watchdog.timer))) {
		q->wake_ns = ready_ns;
		qdisc_watchdog_schedule_range_ns(&q->watchdog, ready_ns,
						 for_tokens ? 0 :
						 BPSHAPER_TIMER_SLACK_NS);
		q->was_armed = true;
	}
	q->is_armed_for_tokens = for_tokens;
	bpshaper_backstop_start(q);
	if (for_tokens)
		qdisc_qstats_overlimit(sch);
	bpshaper_throttle_overlimit(q, now);
}

/* There are no tokens for a packet of @len bytes. Wait for a batch, unless its
 * flow @is_early, or only the peak rate holds the packet.
 */
static noinline void bpshaper_wait_for_tokens(struct Qdisc *sch, u32 len,
					      bool is_early, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u64 cost_ns, ready_ns;
	u32 bytes = len;

	if (!is_early &&
	    !bpshaper_bucket_conforms(&q->bucket, &q->rate, len, now))
		bytes = max(len, min(sch->qstats.backlog, q->batch));
	cost_ns = bpshaper_rate_cost_ns(&q->rate, bytes);
	ready_ns = bpshaper_bucket_ready_ns(&q->bucket, cost_ns);
	if (q->peak_rate.Bps) {
		cost_ns = bpshaper_rate_cost_ns(&q->peak_rate, len);
		ready_ns = max(ready_ns,
			       bpshaper_bucket_ready_ns(&q->peak, cost_ns));
	}
	bpshaper_sleep(sch, ready_ns, true, now);
}

static noinline void bpshaper_watchdog_fired(struct Qdisc *sch, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u64 lateness = now - min(now, q->wake_ns);

	q->was_armed = false;
	q->stat_timer_wakeups++;
	bpshaper_hist_add(q->lateness_hist, lateness);
	trace_watchdog(sch, lateness);
}

/* Note that the watchdog has fired, if it has. */
static __always_inline void bpshaper_watchdog_note(struct Qdisc *sch, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	if (q->was_armed && !hrtimer_is_queued(&q->watchdog.timer))
		bpshaper_watchdog_fired(sch, now);
}

/* If it fires now it schedules the qdisc, which does no harm. Do not wait for
 * it: with PREEMPT_RT that waits for all timers of its CPU, and one of them may
 * wait for the root lock.
 */
static void bpshaper_watchdog_stop(struct bpshaper_sched *q)
{
	hrtimer_try_to_cancel(&q->watchdog.timer);
	q->was_armed = false;
	q->is_armed_for_tokens = false;
}

/* Tokens */

/* Both buckets must agree before either is charged. */
static bool bpshaper_take_both(struct bpshaper_sched *q, u32 len, u64 now)
{
	if (!bpshaper_bucket_conforms(&q->bucket, &q->rate, len, now) ||
	    !bpshaper_bucket_take(&q->peak, &q->peak_rate, len, now))
		return false;
	bpshaper_bucket_charge(&q->bucket, &q->rate, len, now);
	return true;
}

/* Take the tokens for @skb. Without enough of them sleep and return false. */
static inline bool bpshaper_admit(struct Qdisc *sch, const struct sk_buff *skb,
				  bool is_early, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u32 len = bpshaper_wire_len(&q->wire, skb);

	if (!q->rate.Bps)
		return true;
	if (unlikely(q->peak_rate.Bps) ?
	    bpshaper_take_both(q, len, now) :
	    bpshaper_bucket_take(&q->bucket, &q->rate, len, now))
		return true;
	bpshaper_wait_for_tokens(sch, len, is_early, now);
	return false;
}

#endif /* _BPSHAPER_SHAPER_H */
