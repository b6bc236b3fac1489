// SPDX-License-Identifier: GPL-2.0-only
/* bpshaper: a shaper that throttles sockets instead of dropping their packets
 *
 * Principles
 *
 * - A token bucket limits the rate (bpshaper_bucket.h). The queue before it
 *   holds one flow per socket, served by deficit round robin (bpshaper_flow.h).
 * - A packet of a local socket is never dropped because the queue is long. A
 *   socket that holds more than its share of the queue while the shaper has to
 *   wait is throttled: it cannot send until it has drained to half its share
 *   (bpshaper_backpressure.h). Only memory_limit and failed allocations drop.
 * - Packets without such a socket (forwarded, or not throttleable) share the
 *   socketless pool: flows by packet hash, `limit` as the bound of them all, and
 *   the longest queue pays for a full pool. Sockets do not count in it.
 *
 * enqueue:
 * - a packet that finds the qdisc empty goes into the direct slot; no flow is
 *   looked up;
 * - a GSO packet larger than the burst is segmented;
 * - else the packet joins its flow, and the flow's socket is marked overlimit, or
 *   throttled at once if the shaper is asleep, the device is stopped, or nobody
 *   has called dequeue since the packet before.
 *
 * dequeue:
 * - the direct slot first, for order, then the flow whose turn it is;
 * - without tokens: arm the watchdog for the time when half a burst may leave
 *   (timers and context switches are what shaping costs, so they come once a
 *   batch, not once a packet), and throttle all sockets that are overlimit;
 * - while the watchdog is armed, only a packet of a new flow may leave earlier.
 *
 * Locking: everything here runs under the root lock of the qdisc; change() and
 * init() prepare under RTNL alone and swap under the lock.
 */

#include <linux/bitops.h>
#include <linux/errno.h>
#include <linux/hash.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rbtree.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>
#include <net/sock.h>
#include <net/tcp.h>

#include "sch_bpshaper.h"
#include "bpshaper_compat.h"
#include "bpshaper_bucket.h"
#include "bpshaper_flow.h"
#include "bpshaper_backpressure.h"

/* Reasons for the defaults: Documentation/bpshaper.rst, "Defaults". */
#define BPSHAPER_BURST_NS	NSEC_PER_MSEC
#define BPSHAPER_BATCH_NS	NSEC_PER_MSEC	/* longest sleep for a batch */
#define BPSHAPER_BURST_PKTS	2	/* one to send, one for a late timer */
#define BPSHAPER_LATENCY_NS	(10 * NSEC_PER_MSEC)
#define BPSHAPER_LIMIT_PKTS	8	/* a pool that TCP can recover in */
#define BPSHAPER_MEMORY_SHIFT	6	/* 1/64 of the machine */
#define BPSHAPER_MEMORY_FLOOR	(32UL << 20)
#define BPSHAPER_MEMORY_CEIL	BIT(30)
#define BPSHAPER_SHARE_PKTS	2	/* one on its way, one to follow it */
#define BPSHAPER_SHARE_MAX	65536	/* bytes */

#define BPSHAPER_DEFER_PKTS	1000
#define BPSHAPER_POOL_CLASSES	33	/* fls() of 32 bits */

/**
 * struct bpshaper_config - what the user asked for; 0 is "choose a default"
 * @rate_Bps: bytes per second, or TC_BPSHAPER_RATE_UNLIMITED
 * @latency_ns: sets the limit, unless @limit does
 * @burst: bytes
 * @limit: bytes
 * @memory_limit: bytes
 * @quantum: bytes
 */
struct bpshaper_config {
	u64	rate_Bps;
	u64	latency_ns;
	u32	burst;
	u32	limit;
	u32	memory_limit;
	u32	quantum;
};

/**
 * struct bpshaper_pool - the packets that have no throttleable socket
 * @backlog: bytes queued, the direct slot not counted
 * @memory: bytes of truesize queued, likewise
 * @classes: bit c is set while @class[c] has a flow
 * @class: flows by fls(backlog), so that one of the longest is found at once
 */
struct bpshaper_pool {
	u32			backlog;
	u64			memory;
	u64			classes;
	struct list_head	class[BPSHAPER_POOL_CLASSES];
};

/**
 * struct bpshaper_sched - private data of the qdisc
 * @rate: of the bucket; Bps is 0 when unlimited
 * @burst: bytes; larger GSO packets are segmented
 * @batch: bytes that may leave when the watchdog wakes us, if there are as many
 * @limit: bytes, of the pool and of all sockets' shares together
 * @share: of one socket, bytes; follows @limit and @share_sockets
 * @share_sockets: number of sockets that @share was computed for
 * @memory_limit: bytes of truesize
 * @direct: the packet that found the qdisc empty
 * @bucket: tokens
 * @undrained: packets enqueued since the last call of dequeue, or since the
 *	qdisc was empty
 * @was_armed: the watchdog was armed and has not been seen to have fired
 * @memory: bytes of truesize queued
 * @max_backlog: largest sch->qstats.backlog seen, bytes
 * @stat_direct_packets: packets that left by @direct
 * @flows: flow table and round robin
 * @bp: overlimit and throttled sockets
 * @watchdog: wakes the qdisc when a batch may leave
 * @stat_timer_wakeups: times that @watchdog fired
 * @stat_drops_pool: packets dropped because @pool was full
 * @stat_drops_memory: packets dropped because of @memory_limit
 * @stat_drops_alloc: packets dropped because an allocation failed
 * @stat_segments: packets made by segmentation
 * @config: the options as given, for change and dump
 * @pool: accounting of the socketless flows
 */
struct bpshaper_sched {
	struct bpshaper_rate	rate;
	u32			burst;
	u32			batch;
	u32			limit;
	u32			share;
	u32			share_sockets;
	u32			memory_limit;

	struct sk_buff		*direct ____cacheline_aligned_in_smp;
	struct bpshaper_bucket	bucket;
	u32			undrained;
	bool			was_armed;
	u64			memory;
	u64			max_backlog;
	u64			stat_direct_packets;

	struct bpshaper_flows	flows;
	struct bpshaper_backpressure bp;
	struct qdisc_watchdog	watchdog;
	u64			stat_timer_wakeups;

	u64			stat_drops_pool;
	u64			stat_drops_memory;
	u64			stat_drops_alloc;
	u64			stat_segments;
	struct bpshaper_config	config;
	struct bpshaper_pool	pool;
};

/* Accounting of the qdisc as a whole. The backlog of the flows, of the direct slot
 * and of a packet that a parent has peeked at add up to sch->qstats.backlog at
 * every return to the caller.
 */

static void bpshaper_account_in(struct Qdisc *sch, const struct sk_buff *skb)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	sch->q.qlen++;
	qdisc_qstats_backlog_inc(sch, skb);
	q->memory += skb->truesize;
	if (sch->qstats.backlog > q->max_backlog)
		q->max_backlog = sch->qstats.backlog;
}

static void bpshaper_account_out(struct Qdisc *sch, const struct sk_buff *skb)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	sch->q.qlen--;
	qdisc_qstats_backlog_dec(sch, skb);
	q->memory -= skb->truesize;
}

/* The laws, asserted where CONFIG_DEBUG_NET pays for it: cheap ones after every
 * packet, all of them (a walk over all flows) when statistics are read.
 */

static void bpshaper_assert_packet(struct Qdisc *sch)
{
	const struct bpshaper_sched *q = qdisc_priv(sch);

	DEBUG_NET_WARN_ON_ONCE(!sch->q.qlen &&
			       (q->flows.active || q->memory || q->direct ||
				sch->qstats.backlog ||
				q->bp.stat_throttles != q->bp.stat_unthrottles));
}

#ifdef CONFIG_DEBUG_NET
/**
 * struct bpshaper_sums - what the flows add up to
 * @packets: packets queued
 * @backlog: bytes queued
 * @memory: bytes of truesize queued
 * @flows: flows with a backlog
 * @throttled: flows in that state
 * @overlimit: flows in that state
 */
struct bpshaper_sums {
	u32	packets;
	u32	backlog;
	u64	memory;
	u32	flows;
	u64	throttled;
	u32	overlimit;
};

static void bpshaper_sums_packet(struct bpshaper_sums *sum,
				 const struct sk_buff *skb)
{
	sum->packets++;
	sum->backlog += qdisc_pkt_len(skb);
	sum->memory += skb->truesize;
}

static void bpshaper_sums_flow(struct bpshaper_sums *sum,
			       const struct bpshaper_flow *f)
{
	u32 before = sum->backlog;
	struct sk_buff *skb;

	for (skb = f->head; skb; skb = skb->next)
		bpshaper_sums_packet(sum, skb);
	sum->flows += !!f->head;
	sum->throttled += f->state == BPSHAPER_THROTTLED;
	sum->overlimit += f->state == BPSHAPER_OVERLIMIT;
	WARN_ON_ONCE(sum->backlog - before != f->backlog);		/* L5 */
	WARN_ON_ONCE(f->state != BPSHAPER_UNTHROTTLED && !f->head);	/* L3 */
	WARN_ON_ONCE((f->state == BPSHAPER_THROTTLED) != !!f->ballast);
	WARN_ON_ONCE(!bpshaper_flow_is_socket(f) &&
		     f->class != fls(f->backlog));
}

static void bpshaper_assert_all(struct Qdisc *sch)
{
	const struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_flow *f, *next;
	struct bpshaper_sums sum = {};
	struct sk_buff *skb;
	int i;

	for (i = 0; i < 1 << BPSHAPER_FLOW_TREES_LOG; i++)
		rbtree_postorder_for_each_entry_safe(f, next,
						     &q->flows.trees[i], node)
			bpshaper_sums_flow(&sum, f);
	if (q->direct)
		bpshaper_sums_packet(&sum, q->direct);
	WARN_ON_ONCE(sum.memory != q->memory);
	WARN_ON_ONCE(sum.flows != q->flows.active);
	WARN_ON_ONCE(sum.overlimit != q->bp.overlimit_len);
	WARN_ON_ONCE(sum.throttled !=
		     q->bp.stat_throttles - q->bp.stat_unthrottles);	/* L4 */
	/* What a parent peeked at, or the core requeued, counts as ours. */
	skb_queue_walk(&sch->gso_skb, skb)
		bpshaper_sums_packet(&sum, skb);
	WARN_ON_ONCE(sum.packets != sch->q.qlen);			/* L5 */
	WARN_ON_ONCE(sum.backlog != sch->qstats.backlog);
}
#else
static void bpshaper_assert_all(struct Qdisc *sch)
{
}
#endif

/* The socketless pool */

static void bpshaper_pool_init(struct bpshaper_pool *pool)
{
	int i;

	pool->backlog = 0;
	pool->memory = 0;
	pool->classes = 0;
	for (i = 0; i < BPSHAPER_POOL_CLASSES; i++)
		INIT_LIST_HEAD(&pool->class[i]);
}

/* The flow's backlog has changed: it may be in another class now. */
static void bpshaper_pool_reclass(struct bpshaper_pool *pool,
				  struct bpshaper_flow *f)
{
	u8 class = fls(f->backlog);

	if (class == f->class)
		return;

	list_del_init(&f->bp_node);
	if (f->class && list_empty(&pool->class[f->class]))
		pool->classes &= ~BIT_ULL(f->class);
	if (class) {
		list_add_tail(&f->bp_node, &pool->class[class]);
		pool->classes |= BIT_ULL(class);
	}
	f->class = class;
}

static void bpshaper_pool_added(struct bpshaper_pool *pool,
				struct bpshaper_flow *f,
				const struct sk_buff *skb)
{
	pool->backlog += qdisc_pkt_len(skb);
	pool->memory += skb->truesize;
	bpshaper_pool_reclass(pool, f);
}

static void bpshaper_pool_removed(struct bpshaper_pool *pool,
				  struct bpshaper_flow *f,
				  const struct sk_buff *skb)
{
	pool->backlog -= qdisc_pkt_len(skb);
	pool->memory -= skb->truesize;
	bpshaper_pool_reclass(pool, f);
}

/* Size class of the longest flows; 0 when the pool is empty. */
static u8 bpshaper_pool_longest(const struct bpshaper_pool *pool)
{
	return pool->classes ? fls64(pool->classes) - 1 : 0;
}

/* A quarter of memory_limit at most: small packets weigh ten times their length,
 * and the pool's must not shrink the shares of the sockets.
 */
static bool bpshaper_pool_is_full(const struct bpshaper_sched *q,
				  const struct sk_buff *skb)
{
	if (!q->pool.backlog)
		return false;
	return (u64)q->pool.backlog + qdisc_pkt_len(skb) > q->limit ||
	       q->pool.memory + skb->truesize > q->memory_limit / 4;
}

/* Make room for @new at the expense of the longest flows; returns how many
 * packets and, in @freed, how many bytes it took from them. A limit that was made
 * smaller is reached step by step, each packet that enters pushing out as much as
 * itself, in bytes and in memory.
 */
static u32 bpshaper_pool_evict(struct Qdisc *sch, const struct sk_buff *new,
			       u32 *freed, struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u64 memory = q->pool.memory;
	struct bpshaper_flow *f;
	struct sk_buff *skb;
	u32 pkts = 0;

	*freed = 0;
	while (bpshaper_pool_is_full(q, new) &&
	       (*freed < qdisc_pkt_len(new) ||
		memory - q->pool.memory < new->truesize)) {
		f = list_first_entry(&q->pool.class[bpshaper_pool_longest(&q->pool)],
				     struct bpshaper_flow, bp_node);
		skb = bpshaper_flow_pop(&q->flows, f);
		*freed += qdisc_pkt_len(skb);
		pkts++;
		bpshaper_pool_removed(&q->pool, f, skb);
		bpshaper_account_out(sch, skb);
		__qdisc_drop(skb, to_free);
	}
	q->stat_drops_pool += pkts;
	sch->qstats.drops += pkts;
	return pkts;
}

/* The share of one socket */

/* Some devices set no bound on their MTU, but what follows from it must be one. */
static u32 bpshaper_mtu(const struct net_device *dev)
{
	return clamp_t(u32, psched_mtu(dev), TC_BPSHAPER_QUANTUM_MIN,
		       TC_BPSHAPER_QUANTUM_MAX);
}

static u32 bpshaper_share(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u32 min_share;

	/* One packet each, before memory_limit makes us drop. */
	if (q->memory > q->memory_limit / 2)
		return 1;

	if (q->share_sockets != q->flows.sockets) {
		q->share_sockets = q->flows.sockets;
		min_share = BPSHAPER_SHARE_PKTS * bpshaper_mtu(qdisc_dev(sch));
		q->share = q->limit / max(q->share_sockets, 1U);
		q->share = clamp_t(u32, q->share, min_share,
				   max_t(u32, min_share, BPSHAPER_SHARE_MAX));
	}
	return q->share;
}

static bool bpshaper_is_asleep(struct bpshaper_sched *q)
{
	return hrtimer_is_queued(&q->watchdog.timer);
}

/* Will what is queued now stay for a while? The last condition is what a parent
 * that does not call us looks like, whatever its reason.
 */
static bool bpshaper_is_blocked(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	return bpshaper_is_asleep(q) ||
	       netif_xmit_frozen_or_stopped(sch->dev_queue) ||
	       q->undrained > 1;
}

/* A packet has joined a socket's flow. */
static void bpshaper_socket_enqueued(struct Qdisc *sch, struct bpshaper_flow *f,
				     bpshaper_destructor_t destructor)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	if (f->state == BPSHAPER_THROTTLED) {
		bpshaper_flow_top_up(f);
		return;
	}
	if (f->state == BPSHAPER_UNTHROTTLED) {
		if (f->backlog <= bpshaper_share(sch))
			return;
		bpshaper_flow_set_overlimit(&q->bp, f, destructor);
	}
	if (bpshaper_is_blocked(sch))
		bpshaper_flow_throttle(&q->bp, f);
}

/* A packet has left a socket's flow. */
static void bpshaper_socket_dequeued(struct Qdisc *sch, struct bpshaper_flow *f)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	if (f->state != BPSHAPER_UNTHROTTLED &&
	    f->backlog <= bpshaper_share(sch) / 2)
		bpshaper_flow_release(&q->bp, f);
}

/* Enqueue */

/* A pure ACK has no ballast, but goes in order with its socket's data. */
static unsigned long bpshaper_flow_key(struct sk_buff *skb,
				       bpshaper_destructor_t destructor)
{
	if (destructor || (bpshaper_sock_is_full(skb->sk) &&
			   skb_is_tcp_pure_ack(skb)))
		return bpshaper_flow_sock_key(skb->sk);
	return bpshaper_flow_hash_key(skb_get_hash(skb));
}

static int bpshaper_drop_alloc(struct Qdisc *sch, struct sk_buff *skb,
			       struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	q->stat_drops_alloc++;
	return qdisc_drop(skb, sch, to_free);
}

static int bpshaper_pool_enqueue(struct Qdisc *sch, struct bpshaper_flow *f,
				 struct sk_buff *skb, struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u32 pkts, freed;

	if (bpshaper_pool_is_full(q, skb) &&
	    fls(f->backlog) >= bpshaper_pool_longest(&q->pool)) {
		q->stat_drops_pool++;
		return qdisc_drop(skb, sch, to_free);
	}

	pkts = bpshaper_pool_evict(sch, skb, &freed, to_free);
	bpshaper_account_in(sch, skb);
	bpshaper_flow_push(&q->flows, f, skb);
	bpshaper_pool_added(&q->pool, f, skb);
	/* Only now: parents must never see us empty in the middle. */
	if (pkts)
		qdisc_tree_reduce_backlog(sch, pkts, freed);
	return NET_XMIT_SUCCESS;
}

static int bpshaper_flow_enqueue(struct Qdisc *sch, struct bpshaper_flow *f,
				 struct sk_buff *skb,
				 bpshaper_destructor_t destructor,
				 struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	if (!bpshaper_flow_is_socket(f))
		return bpshaper_pool_enqueue(sch, f, skb, to_free);

	bpshaper_account_in(sch, skb);
	bpshaper_flow_push(&q->flows, f, skb);
	if (destructor)
		bpshaper_socket_enqueued(sch, f, destructor);
	return NET_XMIT_SUCCESS;
}

/* The length of @bytes on the wire by the qdisc's size table (tc stab), which the
 * core has applied to the packet that a segment was made of. The table gives the
 * length for sizes in steps of 2^cell_log; beyond its end it repeats.
 */
static u32 bpshaper_stab_len(const struct Qdisc *sch, u32 bytes)
{
	const struct qdisc_size_table *stab = rcu_dereference_bh(sch->stab);
	const struct tc_sizespec *spec;
	u32 slots, slot;
	s64 len;

	if (!stab)
		return bytes;
	spec = &stab->szopts;
	len = (s64)bytes + spec->overhead;
	if (spec->tsize) {
		slots = spec->tsize;
		slot = max_t(s64, len + spec->cell_align, 0) >> spec->cell_log;
		len = (s64)stab->data[slots - 1] * (slot / slots) +
		      stab->data[slot % slots];
		len <<= spec->size_log;
	}
	return clamp_t(s64, len, 1, S32_MAX);
}

/* All segments go into the same flow, the one that the packet belonged to. */
static int bpshaper_segs_enqueue(struct Qdisc *sch, struct bpshaper_flow *f,
				 struct sk_buff *skb, struct sk_buff *segs,
				 bpshaper_destructor_t destructor,
				 struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u32 old_len = qdisc_pkt_len(skb), pkts = 0, bytes = 0, len;
	struct sk_buff *seg, *next;

	/* @skb may be one of its own segments from here on. */
	skb_list_walk_safe(segs, seg, next) {
		skb_mark_not_on_list(seg);
		len = bpshaper_stab_len(sch, seg->len);
		qdisc_skb_cb(seg)->pkt_len = len;
		q->stat_segments++;
		if (bpshaper_flow_enqueue(sch, f, seg, destructor, to_free) !=
		    NET_XMIT_SUCCESS)
			continue;
		pkts++;
		bytes += len;
	}
	if (!pkts) {
		kfree_skb(skb);
		return NET_XMIT_DROP;
	}
	/* The parents will count one packet of the old length. */
	qdisc_tree_reduce_backlog(sch, 1 - pkts, old_len - bytes);
	consume_skb(skb);
	return NET_XMIT_SUCCESS;
}

static bool bpshaper_must_segment(const struct bpshaper_sched *q,
				  const struct sk_buff *skb)
{
	return unlikely(qdisc_pkt_len(skb) > q->burst) && q->rate.Bps &&
	       skb_is_gso(skb);
}

/* The segments; NULL if the packet cannot be segmented and has to leave whole,
 * into debt; ERR_PTR(-ENOMEM).
 */
static struct sk_buff *bpshaper_segment(struct sk_buff *skb)
{
	struct sk_buff *segs;

	segs = skb_gso_segment(skb,
			       netif_skb_features(skb) & ~NETIF_F_GSO_MASK);
	return IS_ERR(segs) && PTR_ERR(segs) != -ENOMEM ? NULL : segs;
}

/* Will one of the segments hold the socket until all have left? TCP and UDP give it
 * to each, skb_segment() to the last if it is charged by sock_wfree(), and
 * skb_segment_list() to the first.
 */
static bool bpshaper_segs_pin(const struct sk_buff *skb)
{
	return (bpshaper_sock_is_tcp(skb->sk) ||
		skb->destructor == sock_wfree) &&
	       !(skb_shinfo(skb)->gso_type & SKB_GSO_FRAGLIST);
}

/* The qdisc is not empty, or the packet must be segmented. */
static int bpshaper_enqueue_slow(struct sk_buff *skb, struct Qdisc *sch,
				 struct sk_buff **to_free)
{
	bpshaper_destructor_t destructor = bpshaper_ballast_destructor(skb);
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_flow *f;
	struct sk_buff *segs;

	q->undrained++;
	if (unlikely(q->memory + skb->truesize > q->memory_limit)) {
		q->stat_drops_memory++;
		return qdisc_drop(skb, sch, to_free);
	}

	/* Choose the flow first: segmenting takes the socket from the packet. */
	if (bpshaper_must_segment(q, skb) && destructor &&
	    !bpshaper_segs_pin(skb))
		destructor = NULL;
	f = bpshaper_flow_get(&q->flows, bpshaper_flow_key(skb, destructor));
	if (unlikely(!f))
		return bpshaper_drop_alloc(sch, skb, to_free);

	if (bpshaper_must_segment(q, skb)) {
		segs = bpshaper_segment(skb);
		if (IS_ERR(segs))
			return bpshaper_drop_alloc(sch, skb, to_free);
		if (segs)
			return bpshaper_segs_enqueue(sch, f, skb, segs,
						     destructor, to_free);
	}
	return bpshaper_flow_enqueue(sch, f, skb, destructor, to_free);
}

static int bpshaper_enqueue(struct sk_buff *skb, struct Qdisc *sch,
			    struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	if (sch->q.qlen || bpshaper_must_segment(q, skb))
		return bpshaper_enqueue_slow(skb, sch, to_free);

	q->undrained = 1;
	q->direct = skb;
	bpshaper_account_in(sch, skb);
	return NET_XMIT_SUCCESS;
}

/* Dequeue */

/* No tokens for a packet of @bytes. If it is the first of a new flow, sleep until
 * it may leave, else until a batch may.
 */
static void bpshaper_sleep(struct Qdisc *sch, u32 bytes, bool is_new)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u64 cost_ns;

	if (!is_new)
		bytes = max(bytes, min(sch->qstats.backlog, q->batch));
	cost_ns = bpshaper_rate_cost_ns(&q->rate, bytes);
	qdisc_watchdog_schedule_ns(&q->watchdog,
				   bpshaper_bucket_ready_ns(&q->bucket, cost_ns));
	q->was_armed = true;
	qdisc_qstats_overlimit(sch);
	bpshaper_backpressure_apply(&q->bp);
}

/* Take the tokens for @skb; false, and the watchdog is armed, if there are too
 * few.
 */
static bool bpshaper_admit(struct Qdisc *sch, const struct sk_buff *skb,
			   bool is_new)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u32 len = qdisc_pkt_len(skb);

	if (!q->rate.Bps ||
	    bpshaper_bucket_take(&q->bucket, &q->rate, len, ktime_get_ns()))
		return true;
	bpshaper_sleep(sch, len, is_new);
	return false;
}

static struct sk_buff *bpshaper_dequeue_direct(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct sk_buff *skb = q->direct;

	if (!bpshaper_admit(sch, skb, true))
		return NULL;
	q->direct = NULL;
	q->stat_direct_packets++;
	return skb;
}

static struct sk_buff *bpshaper_dequeue_flow(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_flow *f;
	struct sk_buff *skb;

	if (list_empty(&q->flows.new_flows) && bpshaper_is_asleep(q))
		return NULL;
	f = bpshaper_flows_next(&q->flows);
	if (!f || !bpshaper_admit(sch, f->head, f->is_new))
		return NULL;

	skb = bpshaper_flow_pop(&q->flows, f);
	bpshaper_flow_charge(&q->flows, f, qdisc_pkt_len(skb));
	if (bpshaper_flow_is_socket(f))
		bpshaper_socket_dequeued(sch, f);
	else
		bpshaper_pool_removed(&q->pool, f, skb);
	return skb;
}

static struct sk_buff *bpshaper_dequeue(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct sk_buff *skb;

	if (!sch->q.qlen)
		return NULL;
	q->undrained = 0;
	if (q->was_armed && !bpshaper_is_asleep(q)) {
		q->was_armed = false;
		q->stat_timer_wakeups++;
	}

	skb = q->direct ? bpshaper_dequeue_direct(sch) :
			  bpshaper_dequeue_flow(sch);
	if (!skb)
		return NULL;
	bpshaper_account_out(sch, skb);
	qdisc_bstats_update(sch, skb);
	bpshaper_assert_packet(sch);
	return skb;
}

/* Life cycle and options */

static void bpshaper_reset(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_flow *f, *next;
	int i;

	qdisc_watchdog_cancel(&q->watchdog);
	q->was_armed = false;
	q->undrained = 0;
	if (q->direct)
		rtnl_kfree_skbs(q->direct, q->direct);
	q->direct = NULL;

	bpshaper_backpressure_release_all(&q->bp);
	for (i = 0; i < 1 << BPSHAPER_FLOW_TREES_LOG; i++)
		rbtree_postorder_for_each_entry_safe(f, next,
						     &q->flows.trees[i], node)
			if (f->head)
				rtnl_kfree_skbs(f->head, f->tail);
	bpshaper_flows_free(&q->flows);
	bpshaper_pool_init(&q->pool);
	bpshaper_bucket_fill(&q->bucket);
	q->memory = 0;
	sch->q.qlen = 0;
	sch->qstats.backlog = 0;
}

static const struct nla_policy bpshaper_policy[TCA_BPSHAPER_MAX + 1] = {
	[TCA_BPSHAPER_RATE64]		= { .type = NLA_U64 },
	[TCA_BPSHAPER_BURST]		= { .type = NLA_U32 },
	[TCA_BPSHAPER_LIMIT]		= { .type = NLA_U32 },
	[TCA_BPSHAPER_LATENCY]		= { .type = NLA_U64 },
	[TCA_BPSHAPER_MEMORY_LIMIT]	= { .type = NLA_U32 },
	[TCA_BPSHAPER_QUANTUM]		= { .type = NLA_U32 },
};

static int bpshaper_config_check(struct nlattr **tb,
				 const struct bpshaper_config *c,
				 struct netlink_ext_ack *extack)
{
	int attr = 0;

	if (tb[TCA_BPSHAPER_RATE64] &&
	    c->rate_Bps != TC_BPSHAPER_RATE_UNLIMITED &&
	    (c->rate_Bps < TC_BPSHAPER_RATE_MIN ||
	     c->rate_Bps > TC_BPSHAPER_RATE_MAX)) {
		attr = TCA_BPSHAPER_RATE64;
		NL_SET_ERR_MSG_MOD(extack, "rate must be 1 to 2^43 bytes/s, or unlimited");
	} else if (tb[TCA_BPSHAPER_BURST] && !c->burst) {
		attr = TCA_BPSHAPER_BURST;
		NL_SET_ERR_MSG_MOD(extack, "burst must be 1 byte or more");
	} else if (tb[TCA_BPSHAPER_LIMIT] && !c->limit) {
		attr = TCA_BPSHAPER_LIMIT;
		NL_SET_ERR_MSG_MOD(extack, "limit must be 1 byte or more");
	} else if (tb[TCA_BPSHAPER_LATENCY] &&
		   (!c->latency_ns ||
		    c->latency_ns > TC_BPSHAPER_LATENCY_MAX)) {
		attr = TCA_BPSHAPER_LATENCY;
		NL_SET_ERR_MSG_MOD(extack, "latency must be 1 ns to 60 s");
	} else if (tb[TCA_BPSHAPER_MEMORY_LIMIT] &&
		   c->memory_limit < TC_BPSHAPER_MEMORY_MIN) {
		attr = TCA_BPSHAPER_MEMORY_LIMIT;
		NL_SET_ERR_MSG_MOD(extack, "memory_limit must be 64 KiB or more");
	} else if (tb[TCA_BPSHAPER_QUANTUM] &&
		   (c->quantum < TC_BPSHAPER_QUANTUM_MIN ||
		    c->quantum > TC_BPSHAPER_QUANTUM_MAX)) {
		attr = TCA_BPSHAPER_QUANTUM;
		NL_SET_ERR_MSG_MOD(extack, "quantum must be 256 bytes to 1 MiB");
	}
	if (!attr)
		return 0;
	NL_SET_BAD_ATTR(extack, tb[attr]);
	return -ERANGE;
}

/* Merge the attributes into @c, which holds what is configured now. */
static int bpshaper_config_parse(struct bpshaper_config *c, struct nlattr *opt,
				 struct netlink_ext_ack *extack)
{
	struct nlattr *tb[TCA_BPSHAPER_MAX + 1];
	int err;

	err = nla_parse_nested(tb, TCA_BPSHAPER_MAX, opt, bpshaper_policy,
			       extack);
	if (err < 0)
		return err;

	if (tb[TCA_BPSHAPER_LIMIT] && tb[TCA_BPSHAPER_LATENCY]) {
		NL_SET_ERR_MSG_MOD(extack, "limit and latency exclude each other");
		return -EINVAL;
	}
	if (tb[TCA_BPSHAPER_RATE64])
		c->rate_Bps = nla_get_u64(tb[TCA_BPSHAPER_RATE64]);
	if (c->rate_Bps == TC_BPSHAPER_RATE_UNLIMITED)
		c->latency_ns = 0;	/* of the rate before */
	if (tb[TCA_BPSHAPER_BURST])
		c->burst = nla_get_u32(tb[TCA_BPSHAPER_BURST]);
	if (tb[TCA_BPSHAPER_LIMIT]) {
		c->limit = nla_get_u32(tb[TCA_BPSHAPER_LIMIT]);
		c->latency_ns = 0;
	}
	if (tb[TCA_BPSHAPER_LATENCY]) {
		c->latency_ns = nla_get_u64(tb[TCA_BPSHAPER_LATENCY]);
		c->limit = 0;
	}
	if (tb[TCA_BPSHAPER_MEMORY_LIMIT])
		c->memory_limit = nla_get_u32(tb[TCA_BPSHAPER_MEMORY_LIMIT]);
	if (tb[TCA_BPSHAPER_QUANTUM])
		c->quantum = nla_get_u32(tb[TCA_BPSHAPER_QUANTUM]);

	err = bpshaper_config_check(tb, c, extack);
	if (err)
		return err;
	if (c->latency_ns && c->rate_Bps == TC_BPSHAPER_RATE_UNLIMITED) {
		NL_SET_ERR_MSG_MOD(extack, "latency needs a rate");
		return -EINVAL;
	}
	return 0;
}

static u32 bpshaper_default_memory_limit(void)
{
	u64 bytes = (u64)totalram_pages() << PAGE_SHIFT;

	return clamp_t(u64, bytes >> BPSHAPER_MEMORY_SHIFT,
		       BPSHAPER_MEMORY_FLOOR, BPSHAPER_MEMORY_CEIL);
}

static u32 bpshaper_config_burst(const struct bpshaper_config *c,
				 const struct bpshaper_rate *r, u32 mtu)
{
	if (c->burst)
		return c->burst;
	return max(bpshaper_rate_bytes(r, BPSHAPER_BURST_NS),
		   BPSHAPER_BURST_PKTS * mtu);
}

static u32 bpshaper_config_limit(const struct bpshaper_config *c,
				 const struct bpshaper_rate *r, u32 burst,
				 const struct net_device *dev)
{
	u32 mtu = bpshaper_mtu(dev);
	u64 limit;

	if (c->limit)
		return c->limit;
	if (!r->Bps)	/* like bfifo: what the device was made to hold */
		limit = (u64)max(dev->tx_queue_len, 1U) * mtu;
	else if (c->latency_ns)
		limit = (u64)bpshaper_rate_bytes(r, c->latency_ns) + burst;
	else
		limit = max_t(u64, BPSHAPER_LIMIT_PKTS * mtu,
			      (u64)bpshaper_rate_bytes(r, BPSHAPER_LATENCY_NS) +
			      burst);
	return min_t(u64, limit, U32_MAX);
}

/* Everything that could fail has been done; cannot fail and drops nothing. */
static void bpshaper_config_apply(struct Qdisc *sch,
				  const struct bpshaper_config *c)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct net_device *dev = qdisc_dev(sch);
	u32 mtu = bpshaper_mtu(dev);
	u64 Bps = c->rate_Bps;

	bpshaper_rate_set(&q->rate,
			  Bps == TC_BPSHAPER_RATE_UNLIMITED ? 0 : Bps);
	q->burst = bpshaper_config_burst(c, &q->rate, mtu);
	q->batch = min(q->burst / 2,
		       bpshaper_rate_bytes(&q->rate, BPSHAPER_BATCH_NS));
	q->limit = bpshaper_config_limit(c, &q->rate, q->burst, dev);
	q->memory_limit = c->memory_limit ?: bpshaper_default_memory_limit();
	q->flows.quantum = c->quantum ?: mtu;
	q->share_sockets = U32_MAX;	/* no count: compute it anew */
	bpshaper_bucket_set(&q->bucket, &q->rate, q->burst, ktime_get_ns());
	q->config = *c;
}

static int bpshaper_change(struct Qdisc *sch, struct nlattr *opt,
			   struct netlink_ext_ack *extack)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_config config = q->config;
	int err;

	err = bpshaper_config_parse(&config, opt, extack);
	if (err)
		return err;

	sch_tree_lock(sch);
	bpshaper_config_apply(sch, &config);
	/* The watchdog sleeps for a batch at the old rate, and flows do not
	 * leave while it does.
	 */
	qdisc_watchdog_cancel(&q->watchdog);
	q->was_armed = false;
	sch_tree_unlock(sch);
	__netif_schedule(qdisc_root(sch));
	return 0;
}

static int bpshaper_init(struct Qdisc *sch, struct nlattr *opt,
			 struct netlink_ext_ack *extack)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_config config = {
		.rate_Bps = TC_BPSHAPER_RATE_UNLIMITED,
	};
	int err;

	qdisc_watchdog_init(&q->watchdog, sch);
	bpshaper_backpressure_init(&q->bp);
	bpshaper_pool_init(&q->pool);
	err = bpshaper_flows_init(&q->flows);
	if (err)
		return err;
	if (opt) {
		err = bpshaper_config_parse(&config, opt, extack);
		if (err)
			return err;
	}
	bpshaper_config_apply(sch, &config);
	bpshaper_bucket_fill(&q->bucket);
	/* Newer kernels bound by it what concurrent senders may defer. */
	sch->limit = BPSHAPER_DEFER_PKTS;
	return 0;
}

/* Also called after an init() that failed. */
static void bpshaper_destroy(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	qdisc_watchdog_cancel(&q->watchdog);
	if (q->flows.trees) {
		bpshaper_reset(sch);
		kvfree(q->flows.trees);
	}
}

/* One of the two, as they exclude each other; the limit that follows from a latency
 * is in the statistics.
 */
static int bpshaper_dump_limit(struct sk_buff *skb,
			       const struct bpshaper_sched *q)
{
	if (!q->config.latency_ns)
		return nla_put_u32(skb, TCA_BPSHAPER_LIMIT, q->limit);
	return nla_put_u64_64bit(skb, TCA_BPSHAPER_LATENCY,
				 q->config.latency_ns, TCA_BPSHAPER_PAD);
}

static int bpshaper_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct nlattr *nest;

	nest = nla_nest_start(skb, TCA_OPTIONS);
	if (!nest)
		return -EMSGSIZE;
	if (nla_put_u64_64bit(skb, TCA_BPSHAPER_RATE64, q->config.rate_Bps,
			      TCA_BPSHAPER_PAD) ||
	    nla_put_u32(skb, TCA_BPSHAPER_BURST, q->burst) ||
	    bpshaper_dump_limit(skb, q) ||
	    nla_put_u32(skb, TCA_BPSHAPER_MEMORY_LIMIT, q->memory_limit) ||
	    nla_put_u32(skb, TCA_BPSHAPER_QUANTUM, q->flows.quantum)) {
		nla_nest_cancel(skb, nest);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, nest);
}

static void bpshaper_stats_get(struct Qdisc *sch,
			       struct tc_bpshaper_xstats *st)
{
	const struct bpshaper_sched *q = qdisc_priv(sch);
	const struct bpshaper_backpressure *bp = &q->bp;

	*st = (struct tc_bpshaper_xstats) {
		.throttles		= bp->stat_throttles,
		.unthrottles		= bp->stat_unthrottles,
		.drops_pool		= q->stat_drops_pool,
		.drops_memory		= q->stat_drops_memory,
		.drops_alloc		= q->stat_drops_alloc,
		.segments		= q->stat_segments,
		.ballast_errors		= bp->stat_ballast_errors,
		.timer_wakeups		= q->stat_timer_wakeups,
		.direct_packets		= q->stat_direct_packets,
		.max_backlog		= q->max_backlog,
		.memory			= q->memory,
		.throttled_sockets	= bp->stat_throttles -
					  bp->stat_unthrottles,
		.overlimit_sockets	= bp->overlimit_len,
		.flows			= q->flows.active,
		.socket_flows		= q->flows.sockets,
		.share			= bpshaper_share(sch),
		.pool_backlog		= q->pool.backlog,
		.limit			= q->limit,
		.parked_flows		= q->flows.parked_len,
	};
}

static int bpshaper_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct tc_bpshaper_xstats st;

	sch_tree_lock(sch);
	bpshaper_assert_all(sch);
	bpshaper_stats_get(sch, &st);
	sch_tree_unlock(sch);
	return gnet_stats_copy_app(d, &st, sizeof(st));
}

static struct Qdisc_ops bpshaper_qdisc_ops __read_mostly = {
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
	int err;

	bpshaper_flow_cachep = KMEM_CACHE(bpshaper_flow, 0);
	if (!bpshaper_flow_cachep)
		return -ENOMEM;
	err = register_qdisc(&bpshaper_qdisc_ops);
	if (err)
		kmem_cache_destroy(bpshaper_flow_cachep);
	return err;
}

static void __exit bpshaper_module_exit(void)
{
	unregister_qdisc(&bpshaper_qdisc_ops);
	kmem_cache_destroy(bpshaper_flow_cachep);
}

module_init(bpshaper_module_init);
module_exit(bpshaper_module_exit);
MODULE_ALIAS_NET_SCH("bpshaper");
MODULE_AUTHOR("The bpshaper developers");
MODULE_DESCRIPTION("Shaper that throttles sockets instead of dropping packets");
MODULE_LICENSE("GPL");
