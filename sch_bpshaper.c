// SPDX-License-Identifier: GPL-2.0-only
/* bpshaper: a shaper that throttles sockets instead of dropping their packets
 *
 * Principles
 *
 * - A token bucket limits the rate. The queue before it has a flow for each
 *   socket, or for each peer of an unconnected socket, served by deficit round
 *   robin.
 * - Classes divide the rate by floor, weight and prio, and keep to their ceils.
 *   Each class without children is a leaf: it has flows, throttled sockets and
 *   a pool of its own, and a limit that follows from what it gets. The qdisc
 *   has a leaf for packets of no class, the only one without classes. What is
 *   said of the queue below is true of each leaf.
 * - A packet of a throttleable socket is never dropped because the queue is
 *   long. A socket whose flows hold more than its share of the limit while the
 *   queue does not drain is throttled: it cannot send until they have drained
 *   to a quarter of the share and, with many sockets, until its turn has come.
 *   A packet is dropped only because of memory_limit, a failed allocation or a
 *   filter, or if it is a GSO packet that cannot be segmented. Pure ACKs are
 *   not throttled: past 16 of them a later one replaces the last.
 * - Packets without a throttleable socket (forwarded ones, for instance) share
 *   the socketless pool: flows by packet hash, `limit` bounds them all
 *   together, and the longest queue loses packets when the pool is full.
 *   Sockets do not count in it.
 * - A packet leaves no earlier than its departure time (skb->tstamp). One
 *   without leaves no faster than the pacing rate of its socket. Only its own
 *   flow waits for that. One watchdog serves this, the bucket and the ceils.
 *
 * enqueue:
 * - filters may drop a packet; with classes its priority, filters or `default`
 *   choose its leaf;
 * - a GSO packet larger than the burst (see bpshaper_derive_segment_above()) or
 *   than that of a ceil above it is segmented, and the segments join their
 *   flow;
 * - a packet that finds the qdisc empty becomes the direct packet, unless
 *   pacing needs its flow or there are classes; no flow is looked up;
 * - any other packet joins its flow. A socket above its share becomes
 *   overlimit. It is throttled at once if the qdisc waits for tokens, its class
 *   for a ceil, the flow for its pacing rate, if the device is stopped, or if
 *   nobody has called dequeue since the packet before.
 *
 * dequeue:
 * - the direct packet first, for order, then the flow whose turn it is; with
 *   classes, of the leaf that the tree has chosen. A class whose ceil does not
 *   allow its packet waits, and another leaf is tried;
 * - without tokens: arm the watchdog for when a batch may leave, half a burst
 *   but at most 1 ms of the rate (timers and context switches are the cost of
 *   shaping, so wake up once for a batch, not once for a packet), and throttle
 *   up to 64 overlimit sockets of a leaf;
 * - until it fires, try only the direct packet, a new or fresh flow, a flow
 *   whose departure time comes before, or a leaf that had no backlog;
 * - a flow whose next packet is not due, or that is ahead of its pacing rate,
 *   waits aside.
 *
 * Documentation/design.rst says what is in which file below bpshaper/ and where
 * to change what, Documentation/glossary.rst what the words mean.
 *
 * Locking: packets and statistics, under the root lock of the qdisc. change()
 * prepares under RTNL and applies under both. Classes come, change and go
 * likewise. Filters are read under RCU. init() and destroy() need only RTNL for
 * their own qdisc: no packet reaches it. Groups come, go and change under RTNL;
 * members share a hub (hub.h), whose lock is inside the root lock. Backstop and
 * dump() take no root lock. The timer of turns takes the root lock in a
 * softirq, and a lock of its own against reset(). The transmit softirq frees
 * the ballast.
 */

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/capability.h>
#include <linux/errno.h>
#include <linux/hash.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/random.h>
#include <linux/rbtree_augmented.h>
#include <linux/rcupdate.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <net/inet_ecn.h>
#include <net/netlink.h>
#include <net/pkt_cls.h>
#include <net/pkt_sched.h>
#include <net/sock.h>
#include <net/tcp.h>

#include "sch_bpshaper.h"
#include "bpshaper/compat.h"
#define CREATE_TRACE_POINTS
#include "bpshaper/trace.h"
#include "bpshaper/config.h"
#include "bpshaper/rate.h"
#include "bpshaper/socket.h"
#include "bpshaper/turns.h"
#include "bpshaper/flow.h"
#include "bpshaper/table.h"
#include "bpshaper/backpressure.h"
#include "bpshaper/tree.h"
#include "bpshaper/slot.h"
#include "bpshaper/hub.h"
#include "bpshaper/sched.h"
#include "bpshaper/apply.h"
#include "bpshaper/throttle.h"
#include "bpshaper/enqueue.h"
#include "bpshaper/class.h"
#include "bpshaper/stats.h"

/* How late the timer may be for the time of a packet, as for fq */
#define BPSHAPER_TIMER_SLACK_NS	(10 * NSEC_PER_USEC)
/* Packets that wait while another one is enqueued: see bpshaper_init(). */
#define BPSHAPER_DEFER_PKTS	65536

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
	ready_ns = q->group ?
		max_t(u64, atomic64_read(&q->member.wake_ns), now) :
		bpshaper_bucket_wake_ns(sch, len, is_single, now);
	if (bpshaper_has_classes(q))
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

	if (q->group)
		bpshaper_group_idle(q);
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

static noinline bool bpshaper_take_peak_or_group(struct Qdisc *sch, u32 len,
						 u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	return q->group ? bpshaper_group_take(sch, len, now) :
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
	if (unlikely(q->has_peak_or_group) ?
	    bpshaper_take_peak_or_group(sch, len, now) :
	    bpshaper_bucket_take(&q->bucket, &q->rate, len, now))
		return true;
	bpshaper_wait_for_tokens(sch, len, is_new, now);
	return false;
}

/* @skb of @f leaves @delay_ns after it came, or after its time if that is
 * later.
 */
static inline void bpshaper_delayed(struct bpshaper_leaf *l,
				    const struct bpshaper_flow *f,
				    struct sk_buff *skb, u64 delay_ns, u64 now)
{
	bpshaper_hist_add(&l->delay_hist, delay_ns);
	if (f->socket && l->marks.target_ns)
		delay_ns += bpshaper_socket_waited_ns(&l->flows.turns,
						      f->socket, now);
	if (unlikely(!bpshaper_marks_pass(&l->marks, delay_ns)))
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
		if (q->group)	/* the holder may grant more */
			bpshaper_slot_set_want(&q->slot, sch->qstats.backlog -
					       l->flows.later, q->slot.head,
					       q->slot.flows);
		return NULL;
	}
	now = ktime_get_ns();
	bpshaper_watchdog_note(sch, now);
	bpshaper_flows_wake(&q->table, BPSHAPER_WAKE_STEPS, now);
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

/* No class may send: all wait for their ceils or for the times of their flows,
 * or more had to be looked at than one dequeue may.
 */
static noinline void bpshaper_wait_for_class(struct Qdisc *sch, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u64 departs_ns = bpshaper_table_departs_ns(&q->table);
	u64 ready_ns = bpshaper_tree_wake_ns(&q->tree);

	if (q->tree.root.offering)
		ready_ns = now;
	q->wake_ns = min(ready_ns, departs_ns);
	if (q->wake_ns == U64_MAX)
		return;
	if (q->was_armed)
		hrtimer_try_to_cancel(&q->watchdog.timer);
	qdisc_watchdog_schedule_ns(&q->watchdog, q->wake_ns);
	bpshaper_backstop_start(q);
	q->was_armed = true;
	q->is_armed_for_tokens = ready_ns <= departs_ns;
	q->is_armed_for_class = true;
	qdisc_qstats_overlimit(sch);
	bpshaper_throttle_overlimit(q, now);
}

/* A packet of @len bytes leaves the leaf. */
static void bpshaper_class_sent(struct bpshaper_leaf *l, u32 len, u64 now)
{
	struct bpshaper_leaf *up;
	struct bpshaper_node *n;

	for (n = &l->node; n->parent; n = n->parent) {
		up = bpshaper_node_leaf(n);
		up->stat_bytes += len;
		up->stat_packets++;
	}
	bpshaper_leaf_sent(l, len, now);
	bpshaper_leaf_update(l, now);
}

static noinline struct sk_buff *bpshaper_dequeue_class(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_leaf *l;
	struct bpshaper_flow *f;
	struct sk_buff *skb;
	bool is_new;
	u64 now;

	/* A class that waits for its ceil offers again when it gets a new
	 * packet. Look at it, so that it waits again and its sockets are
	 * throttled.
	 */
	if (!q->come && bpshaper_waits_for_tokens(q) &&
	    !(q->is_armed_for_class && q->tree.root.offering) &&
	    bpshaper_table_departs_ns(&q->table) >= q->wake_ns)
		return NULL;
	q->come = NULL;
	now = ktime_get_ns();
	bpshaper_watchdog_note(sch, now);
	bpshaper_flows_wake(&q->table, BPSHAPER_WAKE_STEPS, now);
	bpshaper_tree_wake(&q->tree, q->own.flows.quantum, BPSHAPER_FLOW_STEPS,
			   now);
	f = bpshaper_classes_due(q, &l, &is_new, now);
	if (!f) {
		bpshaper_wait_for_class(sch, now);
		return NULL;
	}
	if (!bpshaper_admit(sch, f->head, is_new, now))
		return NULL;
	bpshaper_node_charge(&q->tree, &l->node,
			     bpshaper_wire_len(&q->wire, f->head), now);
	skb = bpshaper_flow_send(sch, l, f, now);
	bpshaper_class_sent(l, qdisc_pkt_len(skb), now);
	return skb;
}

static inline struct sk_buff *bpshaper_dequeue_any(struct Qdisc *sch)
{
	const struct bpshaper_sched *q = qdisc_priv(sch);

	return unlikely(bpshaper_has_classes(q)) ? bpshaper_dequeue_class(sch) :
						   bpshaper_dequeue_flow(sch);
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
	skb = q->direct ? bpshaper_dequeue_direct(sch) :
			  bpshaper_dequeue_any(sch);
	if (!skb)
		return NULL;
	bpshaper_account_out(sch, skb);
	qdisc_bstats_update(sch, skb);
	bpshaper_assert_packet(sch);
	return skb;
}

/* Life cycle */

/* Free all packets and release all sockets: link down, removal. The buckets are
 * full afterwards. The core also calls this after an init() of a default qdisc
 * that failed.
 */
static void bpshaper_reset(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	if (!q->table.trees)
		return;
	bpshaper_watchdog_stop(q);
	spin_lock_bh(&q->turn_lock);
	hrtimer_try_to_cancel(&q->turn_timer);
	q->undrained = 0;
	if (q->direct)
		rtnl_kfree_skbs(q->direct, q->direct);
	q->direct = NULL;
	q->direct_ns = 0;

	q->stat_purged += sch->q.qlen;
	bpshaper_backpressure_release_all(&q->own.bp, ktime_get_ns());
	bpshaper_classes_release_all(q, ktime_get_ns());
	bpshaper_table_purge(&q->table);
	bpshaper_leaf_stop_ticking(&q->own);
	bpshaper_flows_clear(&q->own.flows);
	bpshaper_classes_clear(sch);
	bpshaper_bucket_fill(&q->bucket);
	bpshaper_bucket_fill(&q->peak);
	if (q->group) {
		bpshaper_slot_leave(&q->slot);
		atomic64_set(&q->member.wake_ns, 0);
	}
	WRITE_ONCE(sch->q.qlen, 0);
	WRITE_ONCE(sch->qstats.backlog, 0);
	spin_unlock_bh(&q->turn_lock);
}

static int bpshaper_change(struct Qdisc *sch, struct nlattr *opt,
			   struct netlink_ext_ack *extack)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_config config = q->config;
	struct bpshaper_group *group;

	group = bpshaper_prepare(sch, &config, opt, extack);
	if (IS_ERR(group))
		return PTR_ERR(group);
	bpshaper_configure(sch, &config, group);
	bpshaper_classes_inherit(sch);
	return 0;
}

static int bpshaper_init(struct Qdisc *sch, struct nlattr *opt,
			 struct netlink_ext_ack *extack)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_config config;
	struct bpshaper_group *group;
	int err;

	q->net = dev_net(qdisc_dev(sch));
	qdisc_watchdog_init(&q->watchdog, sch);
	hrtimer_setup(&q->backstop, bpshaper_backstop, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL);
	hrtimer_setup(&q->turn_timer, bpshaper_turn_timer, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_SOFT);
	spin_lock_init(&q->turn_lock);
	bpshaper_leaf_init(&q->own, q, sch, &q->table);
	q->ticking = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&q->overlimit);
	err = bpshaper_table_alloc(&q->table, qdisc_dev(sch));
	if (err)
		return err;
	err = bpshaper_filters_init(sch, extack);
	if (err)
		return err;
	err = qdisc_class_hash_init(&q->clhash);
	if (err)
		return err;
	bpshaper_config_set_defaults(&config);
	group = bpshaper_prepare(sch, &config, opt, extack);
	if (IS_ERR(group))
		return PTR_ERR(group);
	bpshaper_configure_first(sch, &config, group);
	/* Since 6.19 concurrent senders defer packets while one of them holds
	 * the queue. This bounds how many, or the sysctl
	 * net.core.qdisc_max_burst does.
	 */
	sch->limit = BPSHAPER_DEFER_PKTS;
	return 0;
}

/* The core also calls this after an init() that failed. */
static void bpshaper_destroy(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	qdisc_watchdog_cancel(&q->watchdog);
	hrtimer_cancel(&q->backstop);
	hrtimer_cancel(&q->turn_timer);
	bpshaper_reset(sch);
	bpshaper_classes_destroy(sch);
	bpshaper_table_free(&q->table);
	if (q->group)
		bpshaper_group_del(q->group, q);
}

static int bpshaper_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct nlattr *nest;

	nest = nla_nest_start(skb, TCA_OPTIONS);
	if (!nest)
		return -EMSGSIZE;
	if (bpshaper_config_dump(skb, &q->effective)) {
		nla_nest_cancel(skb, nest);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, nest);
}

static struct Qdisc_ops bpshaper_qdisc_ops __read_mostly = {
	.cl_ops		= &bpshaper_class_ops,
	.id		= "bpshaper",
	.priv_size	= sizeof(struct bpshaper_sched),
	.enqueue	= bpshaper_enqueue,
	.dequeue	= bpshaper_dequeue,
	.peek		= qdisc_peek_dequeued,
	.init		= bpshaper_init,
	.reset		= bpshaper_reset,
	.destroy	= bpshaper_destroy,
	.change		= bpshaper_change,
	.dump		= bpshaper_dump,
	.dump_stats	= bpshaper_dump_stats,
	.owner		= THIS_MODULE,
};

static int __init bpshaper_module_init(void)
{
	int err = -ENOMEM;

	bpshaper_policy_init();
	bpshaper_flow_cachep = KMEM_CACHE(bpshaper_flow, 0);
	if (!bpshaper_flow_cachep)
		return err;
	bpshaper_socket_cachep = KMEM_CACHE(bpshaper_socket, 0);
	if (!bpshaper_socket_cachep)
		goto err_flow;
	bpshaper_class_cachep = KMEM_CACHE(bpshaper_class, SLAB_ACCOUNT);
	if (!bpshaper_class_cachep)
		goto err_socket;
	err = register_qdisc(&bpshaper_qdisc_ops);
	if (err)
		goto err_class;
	return 0;

err_class:
	kmem_cache_destroy(bpshaper_class_cachep);
err_socket:
	kmem_cache_destroy(bpshaper_socket_cachep);
err_flow:
	kmem_cache_destroy(bpshaper_flow_cachep);
	return err;
}

static void __exit bpshaper_module_exit(void)
{
	unregister_qdisc(&bpshaper_qdisc_ops);
	kmem_cache_destroy(bpshaper_class_cachep);
	kmem_cache_destroy(bpshaper_socket_cachep);
	kmem_cache_destroy(bpshaper_flow_cachep);
}

module_init(bpshaper_module_init);
module_exit(bpshaper_module_exit);
MODULE_ALIAS_NET_SCH("bpshaper");
MODULE_AUTHOR("The bpshaper developers");
MODULE_DESCRIPTION("Shaper that throttles sockets instead of dropping packets");
MODULE_LICENSE("GPL");
