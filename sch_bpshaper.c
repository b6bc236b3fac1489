// SPDX-License-Identifier: GPL-2.0-only
/* bpshaper: a shaper that throttles sockets instead of dropping their packets
 *
 * Principles
 *
 * - A token bucket limits the rate (bpshaper_bucket.h). The queue before it
 *   holds a flow for each socket, or for each peer of a socket that is not connected,
 *   served by deficit round robin (bpshaper_flow.h).
 * - A packet of a local socket is never dropped because the queue is long. A
 *   socket (bpshaper_socket.h) whose flows hold more than its share of the queue
 *   while the shaper has to wait is throttled: it cannot send until they have drained to a
 *   quarter of it (bpshaper_backpressure.h). Only memory_limit and failed allocations drop.
 * - Packets without such a socket (forwarded, or not throttleable) share the
 *   socketless pool: flows by packet hash, `limit` as the bound of them all, and
 *   the longest queue pays for a full pool. Sockets do not count in it.
 * - A packet leaves no earlier than its time (skb->tstamp, as TCP, SO_TXTIME and BPF
 *   programs set it), and those without one no faster than their socket's pacing
 *   rate. Its flow waits for that, and nobody else; one watchdog serves this and the
 *   bucket.
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
 * - while the watchdog is armed for that, only a packet of a new flow may leave
 *   earlier;
 * - a flow whose next packet has a time in the future waits aside.
 *
 * Group: the qdiscs of a device that name the same group share one bucket, and each has
 * a queue, flows and a lock of its own.
 *
 * Locking: everything here runs under the root lock of the qdisc; change() and
 * init() prepare under RTNL alone and swap under the lock. Groups come, go and change
 * under RTNL; of what members share, packets touch two atomic words.
 */

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/capability.h>
#include <linux/errno.h>
#include <linux/hash.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rbtree.h>
#include <linux/rcupdate.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <net/inet_ecn.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>
#include <net/sock.h>
#include <net/tcp.h>

#include "sch_bpshaper.h"
#include "bpshaper_compat.h"
#define CREATE_TRACE_POINTS
#include "bpshaper_trace.h"
#include "bpshaper_bucket.h"
#include "bpshaper_rank.h"
#include "bpshaper_socket.h"
#include "bpshaper_flow.h"
#include "bpshaper_backpressure.h"

/* Reasons for the defaults: Documentation/bpshaper.rst, "Defaults". */
#define BPSHAPER_BURST_NS	NSEC_PER_MSEC
#define BPSHAPER_BATCH_NS	NSEC_PER_MSEC	/* longest sleep for a batch */
#define BPSHAPER_BACKSTOP_NS	(100 * NSEC_PER_MSEC)
#define BPSHAPER_BURST_PKTS	2	/* one to send, one for a late timer */
#define BPSHAPER_LATENCY_NS	(10 * NSEC_PER_MSEC)
#define BPSHAPER_LIMIT_PKTS	8	/* a pool that TCP can recover in */
#define BPSHAPER_MEMORY_SHIFT	4	/* 1/16 of the machine */
#define BPSHAPER_MEMORY_FLOOR	(32UL << 20)
#define BPSHAPER_MEMORY_CEIL	BIT(30)
#define BPSHAPER_SHARE_PKTS	2	/* one on its way, one to follow it */
#define BPSHAPER_SHARE_MAX	65536U	/* bytes */
#define BPSHAPER_RELEASE_PART	4	/* of the share; see bpshaper.rst */
#define BPSHAPER_PACE_PKTS	2	/* of a flow paced by rate, at a time */
#define BPSHAPER_LOW_RATE_BPS	(550000 / 8)	/* as sch_fq, these three */
#define BPSHAPER_HORIZON_NS	(10ULL * NSEC_PER_SEC)
#define BPSHAPER_TIMER_SLACK_NS	(10 * NSEC_PER_USEC)
#define BPSHAPER_RECEIVED_NS	(60ULL * NSEC_PER_SEC)	/* ago, at most */

#define BPSHAPER_MEMBERS_MAX	1024	/* queues of a device; each that goes is work for all */
#define BPSHAPER_DEFER_PKTS	65536	/* memory_limit is to be the bound */
#define BPSHAPER_RANK_PART	4	/* of memory_limit: below it flows are not ranked */
#define BPSHAPER_REVIEW_BATCH	8	/* throttled sockets in one dequeue */
#define BPSHAPER_ACKS_MAX	16	/* pure ACKs of a flow; see bpshaper.rst */
#define BPSHAPER_EVICT_PKTS	128	/* for one that enters: a 64 kB packet needs 85 */
/* More than TCP makes of 64 kB with the least MSS that the kernel takes: 1366. */
#define BPSHAPER_SEGS_MAX	2048

/**
 * struct bpshaper_config - what the user asked for; 0 is "choose a default"
 * @rate_Bps: bytes per second, or TC_BPSHAPER_RATE_UNLIMITED
 * @peak_Bps: likewise, of the peak rate
 * @latency_ns: sets the limit, unless @limit does
 * @burst: bytes
 * @limit: bytes
 * @memory_limit: bytes
 * @quantum: bytes
 * @mtu: bytes
 * @overhead: bytes
 * @mpu: bytes
 * @linklayer: TC_LINKLAYER_*
 * @share_min: bytes
 * @share_max: bytes
 * @backpressure: 0 or 1
 * @maxrate_Bps: as @rate_Bps, of one flow
 * @low_rate_Bps: bytes per second
 * @horizon_ns: from now
 * @ce_threshold_ns: or TC_BPSHAPER_CE_NEVER
 * @pacing: 0 or 1
 * @horizon_drop: 0 or 1
 * @timer_slack_ns: of a wait for a packet's time
 * @group: that shares the bucket, or 0
 * @given: bit a is set if attribute a was in the request
 */
struct bpshaper_config {
	u64	rate_Bps;
	u64	peak_Bps;
	u64	latency_ns;
	u64	maxrate_Bps;
	u64	low_rate_Bps;
	u64	horizon_ns;
	u64	ce_threshold_ns;
	u32	burst;
	u32	limit;
	u32	memory_limit;
	u32	quantum;
	u32	mtu;
	u32	overhead;
	u32	mpu;
	u32	linklayer;
	u32	share_min;
	u32	share_max;
	u32	backpressure;
	u32	pacing;
	u32	horizon_drop;
	u32	timer_slack_ns;
	u32	group;
	u32	given;
};

/**
 * struct bpshaper_line - what is sent on: the options that members of a group share
 * @rate_Bps: see struct bpshaper_config, these all
 * @burst: as asked for, or 0
 * @overhead: bytes
 * @mpu: bytes
 * @linklayer: TC_LINKLAYER_*
 * @mtu: bytes, of the device when the members' parts were computed
 */
struct bpshaper_line {
	u64	rate_Bps;
	u32	burst;
	u32	overhead;
	u32	mpu;
	u32	linklayer;
	u32	mtu;
};

/**
 * struct bpshaper_group - a bucket that several qdiscs of a device share
 * @tat_ns: theoretical arrival time of the bucket
 * @waiting: members that wait for tokens or have not run empty since
 * @node: in bpshaper_groups
 * @dev: whose queues the members are
 * @id: as the user names it
 * @line: options that are the same for all members
 * @members: qdiscs that share it
 * @members_len: number of @members
 * @rcu: for its release
 *
 * Members hold it, and the last one frees it. All but the first two is under RTNL.
 */
struct bpshaper_group {
	atomic64_t		tat_ns ____cacheline_aligned_in_smp;
	atomic_t		waiting ____cacheline_aligned_in_smp;
	struct list_head	node;
	struct net_device	*dev;
	u32			id;
	struct bpshaper_line	line;
	struct list_head	members;
	u32			members_len;
	struct rcu_head		rcu;
};

/**
 * struct bpshaper_pool - the packets that have no throttleable socket
 * @backlog: bytes queued, the direct slot not counted
 * @memory: bytes of memory that they take, likewise
 * @by_backlog: flows by the length of their queue
 */
struct bpshaper_pool {
	u32			backlog;
	u64			memory;
	struct bpshaper_rank	by_backlog;
};

/**
 * struct bpshaper_sched - private data of the qdisc
 * @rate: of the bucket; Bps is 0 when unlimited
 * @segment_above: bytes; larger GSO packets are segmented
 * @direct_max: bytes; larger packets may not take the direct slot, for their size or
 *	because of options that concern all
 * @is_framed: packets take other than their length on the wire
 * @is_special: there is a peak rate or a group
 * @is_waiting: counted in the group's @waiting
 * @has_backpressure: sockets are throttled
 * @has_pacing: packets wait for their time
 * @horizon_drop: what lies beyond the horizon is dropped
 * @overhead: bytes on the wire beside those of qdisc_pkt_len()
 * @mpu: least bytes on the wire
 * @is_atm: the wire carries cells
 * @burst: bytes
 * @batch: bytes that may leave when the watchdog wakes us, if there are as many
 * @batch_min: bytes, of a member of a group: a packet of the MTU
 * @limit: bytes, of the pool and of all sockets' shares together
 * @share_min: bytes
 * @share_max: bytes
 * @share_sockets: number of sockets that the share was computed for
 * @share_limit: limit that it was computed for
 * @memory_limit: bytes of memory that packets may take
 * @peak_rate: of the second bucket; Bps is 0 when there is none
 * @mtu: burst of the second bucket, bytes
 * @maxrate_Bps: of one flow, bytes per second or TC_BPSHAPER_RATE_UNLIMITED
 * @low_rate_Bps: flows paced by less send one packet at a time
 * @pace_bytes: what others may send at a time
 * @paced_by: number of the configuration that flows are paced by
 * @timer_slack_ns: of a wait for a packet's time
 * @horizon_ns: largest wait for a packet's time
 * @ce_threshold_ns: packets that waited longer are marked
 * @net: namespace of the device, which takes the qdisc away when it moves
 * @direct: the packet that found the qdisc empty
 * @direct_ns: since when @direct has been seen to wait, or 0
 * @bucket: tokens, if they are not a group's
 * @peak: tokens of the peak rate
 * @slot: what we hold of the group's tokens
 * @group: that shares its bucket with us, or NULL
 * @group_node: in its members
 * @undrained: packets enqueued since the last call of dequeue, or since the
 *	qdisc was empty
 * @uncounted: segments enqueued that the parents do not know of yet
 * @was_armed: the watchdog was armed and has not been seen to have fired
 * @is_out_of_tokens: it was armed because tokens are missing, and not only for the
 *	time of a packet
 * @max_backlog: largest sch->qstats.backlog seen, bytes
 * @stat_direct_packets: packets that left by @direct
 * @flows: flow table and round robin
 * @bp: overlimit and throttled sockets
 * @watchdog: wakes the qdisc when a batch may leave
 * @backstop: wakes it now and then while it has a backlog, whatever else does
 * @wake_ns: when it should, CLOCK_MONOTONIC
 * @stat_timer_wakeups: times that @watchdog fired
 * @stat_drops: packets dropped, by reason
 * @stat_purged: packets freed by reset
 * @stat_segments: packets made by segmentation
 * @stat_paced_waits: times that a flow waited for the time of its next packet
 * @stat_horizon_caps: packets whose time was set to the horizon
 * @stat_ce_marks: packets marked
 * @config: the options as given, for change and dump
 * @cursor: behind the flow that was listed last
 * @cursor_count: flows listed before it
 * @pool: accounting of the socketless flows
 * @delay_hist: packets by the time that they waited
 * @lateness_hist: firings of the watchdog by their lateness
 */
struct bpshaper_sched {
	struct bpshaper_rate	rate;
	u32			segment_above;
	u32			direct_max;
	bool			is_framed;
	bool			is_special;
	bool			is_waiting;
	bool			has_backpressure;
	bool			has_pacing;
	bool			horizon_drop;
	bool			is_atm;
	u32			overhead;
	u32			mpu;
	u32			burst;
	u32			batch;
	u32			batch_min;
	u32			limit;
	u32			share_min;
	u32			share_max;
	u32			share_sockets;
	u32			share_limit;
	u32			memory_limit;
	struct bpshaper_rate	peak_rate;
	u32			mtu;
	u64			maxrate_Bps;
	u64			low_rate_Bps;
	u32			pace_bytes;
	u32			paced_by;
	u32			timer_slack_ns;
	u64			horizon_ns;
	u64			ce_threshold_ns;
	const struct net	*net;

	struct sk_buff		*direct ____cacheline_aligned_in_smp;
	u64			direct_ns;
	struct bpshaper_bucket	bucket;
	struct bpshaper_bucket	peak;
	struct bpshaper_slot	slot;
	struct bpshaper_group	*group;
	struct list_head	group_node;
	u32			undrained;
	u32			uncounted;
	bool			was_armed;
	bool			is_out_of_tokens;
	u64			max_backlog;
	u64			stat_direct_packets;

	struct bpshaper_flows	flows;
	struct bpshaper_backpressure bp;
	struct qdisc_watchdog	watchdog;
	struct hrtimer		backstop;
	u64			wake_ns;
	u64			stat_timer_wakeups;

	u64			stat_drops[BPSHAPER_DROP_REASONS];
	u64			stat_purged;
	u64			stat_segments;
	u64			stat_paced_waits;
	u64			stat_horizon_caps;
	u64			stat_ce_marks;
	struct bpshaper_config	config;
	struct bpshaper_cursor	cursor;
	unsigned long		cursor_count;
	struct bpshaper_pool	pool;
	u64			delay_hist[TC_BPSHAPER_HIST_BUCKETS];
	u64			lateness_hist[TC_BPSHAPER_HIST_BUCKETS];
};

/* Accounting of the qdisc as a whole. The backlog of the flows, of the direct slot
 * and of a packet that a parent has peeked at add up to sch->qstats.backlog at
 * every return to the caller.
 */

static void bpshaper_account_in(struct Qdisc *sch, const struct sk_buff *skb)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	WRITE_ONCE(sch->q.qlen, sch->q.qlen + 1);
	qdisc_qstats_backlog_inc(sch, skb);
	if (sch->qstats.backlog > q->max_backlog)
		q->max_backlog = sch->qstats.backlog;
}

static void bpshaper_account_out(struct Qdisc *sch, const struct sk_buff *skb)
{
	WRITE_ONCE(sch->q.qlen, sch->q.qlen - 1);
	qdisc_qstats_backlog_dec(sch, skb);
}

/* The laws, asserted where CONFIG_DEBUG_NET pays for it: cheap ones after every
 * packet, all of them (a walk over all flows) when statistics are read.
 */

static void bpshaper_assert_packet(struct Qdisc *sch)
{
	const struct bpshaper_sched *q = qdisc_priv(sch);

	DEBUG_NET_WARN_ON_ONCE(!sch->q.qlen &&
			       (q->flows.active || q->flows.memory || q->direct ||
				sch->qstats.backlog ||
				q->bp.stat_throttles != q->bp.stat_unthrottles));
}

#ifdef CONFIG_DEBUG_NET
/**
 * struct bpshaper_sums - what the flows add up to
 * @packets: packets queued
 * @backlog: bytes queued
 * @memory: bytes of memory that the packets of flows take
 * @later: bytes of flows that are not due
 * @exempt: bytes that do not count in the share of a socket
 * @flows: flows with a backlog
 * @sockets: sockets with a backlog
 * @throttled: sockets in that state
 * @overlimit: sockets in that state
 * @socket: whose flows come just now
 * @socket_data: bytes of those that are no pure ACKs
 * @socket_exempt: of these those that do not count in its share
 * @socket_flows: those with a backlog
 * @socket_peers: those of a peer
 */
struct bpshaper_sums {
	u32	packets;
	u32	backlog;
	u64	memory;
	u32	later;
	u32	exempt;
	u32	flows;
	u32	sockets;
	u64	throttled;
	u32	overlimit;
	const struct bpshaper_socket *socket;
	u32	socket_data;
	u32	socket_exempt;
	u32	socket_flows;
	u32	socket_peers;
};

static void bpshaper_sums_packet(struct bpshaper_sums *sum,
				 const struct sk_buff *skb)
{
	sum->packets++;
	sum->backlog += qdisc_pkt_len(skb);
}

/* Each packet of a socket's flow holds the socket. */
static void bpshaper_sums_flow_packet(struct bpshaper_sums *sum,
				      const struct bpshaper_flow *f,
				      const struct sk_buff *skb)
{
	bpshaper_sums_packet(sum, skb);
	sum->memory += bpshaper_skb_memory(skb);
	if (!f->socket)
		return;
	WARN_ON_ONCE(skb->sk != f->socket->sk);
	if (!skb_is_tcp_pure_ack(skb))
		sum->socket_data += qdisc_pkt_len(skb);
}

/* All its flows have come, as they are neighbours. */
static void bpshaper_sums_end_socket(struct bpshaper_sums *sum)
{
	const struct bpshaper_socket *s = sum->socket;

	if (!s)
		return;
	sum->sockets += !!s->flows;
	sum->throttled += s->state == BPSHAPER_THROTTLED;
	sum->overlimit += s->state == BPSHAPER_OVERLIMIT;
	WARN_ON_ONCE(s->flows != sum->socket_flows);
	WARN_ON_ONCE(s->data != sum->socket_data);
	WARN_ON_ONCE(s->exempt != sum->socket_exempt || s->exempt > s->data);
	WARN_ON_ONCE(s->state != BPSHAPER_UNTHROTTLED && !s->data);	/* L3 */
	WARN_ON_ONCE((s->state == BPSHAPER_THROTTLED) != !!s->ballast);
	WARN_ON_ONCE(!s->refs || s->refs < s->flows);
	WARN_ON_ONCE(s->peers != sum->socket_peers);
	sum->socket = NULL;
	sum->socket_data = 0;
	sum->socket_exempt = 0;
	sum->socket_flows = 0;
	sum->socket_peers = 0;
}

static void bpshaper_sums_flow(struct bpshaper_sums *sum,
			       const struct bpshaper_flow *f)
{
	struct bpshaper_sums before;
	struct rb_node *node;
	struct sk_buff *skb;

	if (sum->socket != f->socket)
		bpshaper_sums_end_socket(sum);
	sum->socket = f->socket;
	before = *sum;
	for (skb = f->head; skb; skb = skb->next) {
		bpshaper_sums_flow_packet(sum, f, skb);
		WARN_ON_ONCE(skb->next &&
			     bpshaper_skb_due_ns(skb) > bpshaper_skb_due_ns(skb->next));
	}
	for (node = rb_first(&f->early); node; node = rb_next(node))
		bpshaper_sums_flow_packet(sum, f, rb_to_skb(node));
	sum->later += f->later;
	sum->exempt += f->socket ? f->exempt : 0;
	sum->flows += !!f->head;
	sum->socket_flows += f->socket && f->head;
	sum->socket_peers += bpshaper_flow_is_peer(f);
	sum->socket_exempt += f->socket ? f->exempt : 0;
	WARN_ON_ONCE(sum->backlog - before.backlog != f->backlog);	/* L5 */
	WARN_ON_ONCE(sum->packets - before.packets != f->qlen);
	WARN_ON_ONCE(sum->memory - before.memory != f->memory);
	WARN_ON_ONCE(f->memory_class && !f->head);
	WARN_ON_ONCE(f->later > f->backlog || f->timed > f->backlog ||
		     f->exempt > f->timed);
	WARN_ON_ONCE(f->is_waiting && !f->head);
	WARN_ON_ONCE(!f->socket && !f->pool_class != !f->head);
}

static void bpshaper_assert_all(struct Qdisc *sch)
{
	const struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_sums sum = {};
	struct rb_node *node;
	struct sk_buff *skb;
	int i;

	for (i = 0; i < 1 << BPSHAPER_FLOW_TREES_LOG; i++) {
		for (node = rb_first(&q->flows.trees[i]); node; node = rb_next(node))
			bpshaper_sums_flow(&sum, rb_entry(node, struct bpshaper_flow, node));
		bpshaper_sums_end_socket(&sum);
	}
	if (q->direct)
		bpshaper_sums_packet(&sum, q->direct);
	WARN_ON_ONCE(sum.memory != q->flows.memory);
	WARN_ON_ONCE(sum.later != q->flows.later);
	WARN_ON_ONCE(sum.exempt != q->flows.exempt);
	WARN_ON_ONCE(q->flows.parked_len > BPSHAPER_FLOW_PARKED_MOST + 1);
	WARN_ON_ONCE(sum.flows != q->flows.active);
	WARN_ON_ONCE(sum.sockets != q->flows.sockets);
	WARN_ON_ONCE(sum.overlimit != q->bp.overlimit_len);
	WARN_ON_ONCE(sum.throttled !=
		     q->bp.stat_throttles - q->bp.stat_unthrottles);	/* L4 */
	/* What a parent peeked at, or the core requeued or put aside for another queue
	 * of the device, counts as ours.
	 */
	skb_queue_walk(&sch->gso_skb, skb)
		bpshaper_sums_packet(&sum, skb);
	skb_queue_walk(&sch->skb_bad_txq, skb)
		bpshaper_sums_packet(&sum, skb);
	WARN_ON_ONCE(sum.packets != sch->q.qlen);			/* L5 */
	WARN_ON_ONCE(sum.backlog != sch->qstats.backlog);
}
#else
static void bpshaper_assert_all(struct Qdisc *sch)
{
}
#endif

static int bpshaper_drop(struct Qdisc *sch, struct sk_buff *skb,
			 struct sk_buff **to_free, enum bpshaper_drop reason)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	trace_drop(sch, skb, reason);
	q->stat_drops[reason]++;
	if (reason == BPSHAPER_DROP_ALLOC)
		bpshaper_set_drop_nomem(skb);
	return qdisc_drop(skb, sch, to_free);
}

/* What may wait here: members of a group that wait have an equal part each, and two packets
 * at least.
 */
static u32 bpshaper_limit(const struct bpshaper_sched *q)
{
	u32 waiting;

	if (likely(!q->group))
		return q->limit;
	waiting = atomic_read(&q->group->waiting);
	return max(q->limit / max(waiting, 1U),
		   min(q->limit, BPSHAPER_SHARE_PKTS * q->batch_min));
}

/* The socketless pool */

static void bpshaper_pool_init(struct bpshaper_pool *pool)
{
	pool->backlog = 0;
	pool->memory = 0;
	bpshaper_rank_init(&pool->by_backlog);
}

static void bpshaper_pool_rank(struct bpshaper_sched *q, struct bpshaper_flow *f)
{
	bpshaper_rank_move(&q->pool.by_backlog, &f->pool_node, &f->pool_class,
			   bpshaper_flow_class(&q->flows, f, f->qlen, f->backlog,
					       f->backlog));
}

static void bpshaper_pool_added(struct bpshaper_sched *q, struct bpshaper_flow *f,
				const struct sk_buff *skb)
{
	q->pool.backlog += qdisc_pkt_len(skb);
	q->pool.memory += bpshaper_skb_memory(skb);
	bpshaper_pool_rank(q, f);
}

static void bpshaper_pool_removed(struct bpshaper_sched *q, struct bpshaper_flow *f,
				  const struct sk_buff *skb)
{
	q->pool.backlog -= qdisc_pkt_len(skb);
	q->pool.memory -= bpshaper_skb_memory(skb);
	bpshaper_pool_rank(q, f);
}

/* A quarter of memory_limit at most: small packets weigh ten times their length,
 * and the pool's must not shrink the shares of the sockets.
 */
static bool bpshaper_pool_is_full(const struct bpshaper_sched *q,
				  const struct sk_buff *skb)
{
	if (!q->pool.backlog)
		return false;
	return (u64)q->pool.backlog + qdisc_pkt_len(skb) > bpshaper_limit(q) ||
	       q->pool.memory + bpshaper_skb_memory(skb) > q->memory_limit / 4;
}

/* What a packet occupies on a link that frames it, as tbf counts it. */
static u32 bpshaper_framed_len(u32 len, u32 overhead, u32 mpu, bool is_atm)
{
	len = max(len + overhead, mpu);
	return is_atm ? DIV_ROUND_UP(len, 48) * 53 : len;
}

/* The share of one socket */

/* Some devices set no bound on their MTU, but what follows from it must be one. */
static u32 bpshaper_mtu(const struct net_device *dev)
{
	return clamp_t(u32, psched_mtu(dev), TC_BPSHAPER_QUANTUM_MIN,
		       TC_BPSHAPER_QUANTUM_MAX);
}

/* The share of a socket with one flow, computed anew when the number of sockets, or the limit, is
 * another.
 */
static inline u32 bpshaper_share(struct bpshaper_sched *q)
{
	u32 limit = bpshaper_limit(q);

	if (q->share_sockets != q->flows.sockets || q->share_limit != limit) {
		q->share_sockets = q->flows.sockets;
		q->share_limit = limit;
		q->bp.share = clamp(limit / max(q->share_sockets, 1U),
				    q->share_min, q->share_max);
	}
	return q->bp.share;
}

/* Is memory scarce? Then nothing is exempt and peers do not raise the share: neither packets
 * for later nor a byte for each of many peers may use up the memory of all.
 */
static inline bool bpshaper_memory_is_scarce(const struct bpshaper_sched *q)
{
	return unlikely(q->flows.memory > q->flows.rank_above);
}

/* More than @part of its share? When half of the memory is in use a share is a packet (and a
 * quarter of it none), before memory_limit makes us drop.
 */
static inline bool bpshaper_socket_exceeds(struct bpshaper_sched *q,
					   const struct bpshaper_socket *s, u32 part)
{
	u32 share = bpshaper_share(q);

	if (likely(!bpshaper_memory_is_scarce(q)))
		return bpshaper_socket_due(s) > bpshaper_socket_share(&q->bp, s) / part;
	if (q->flows.memory > q->memory_limit / 2)
		share = 1;
	return s->data > share / part;
}

/* Waiting for tokens? */
static bool bpshaper_is_asleep(struct bpshaper_sched *q)
{
	return q->is_out_of_tokens && hrtimer_is_queued(&q->watchdog.timer);
}

/* Will what counts of the backlog stay for a while? A flow that waits for its rate is one reason.
 * The last condition is what a parent that does not call us looks like, whatever its reason.
 */
static bool bpshaper_is_blocked(struct Qdisc *sch, const struct bpshaper_flow *f)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	return bpshaper_is_asleep(q) ||
	       (f->is_waiting && (!f->timed || bpshaper_memory_is_scarce(q))) ||
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

	if (unlikely(s->is_by_peer))
		s->largest = max(s->largest, qdisc_pkt_len(skb));
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
		s->is_fragmenting = bpshaper_skb_is_fragment(skb);
}

/* Less of what the socket has queued counts in its share. */
static void bpshaper_socket_drained(struct bpshaper_sched *q,
				    struct bpshaper_socket *s, u64 now)
{
	if (s->state != BPSHAPER_UNTHROTTLED &&
	    (!bpshaper_socket_exceeds(q, s, BPSHAPER_RELEASE_PART) ||
	     (s->state == BPSHAPER_THROTTLED && bpshaper_sock_must_retransmit(s->sk))))
		bpshaper_socket_release(&q->bp, s, now);
}

/* What a throttled socket still holds may have a time that is far, and meanwhile its share has
 * grown, or memory is not scarce any more: look at some of them.
 */
static noinline void bpshaper_sockets_review(struct bpshaper_sched *q, u64 now)
{
	int batch = BPSHAPER_REVIEW_BATCH;
	struct bpshaper_socket *s;

	while (!list_empty(&q->bp.throttled) && batch--) {
		s = list_first_entry(&q->bp.throttled, struct bpshaper_socket, node);
		list_move_tail(&s->node, &q->bp.throttled);
		bpshaper_socket_drained(q, s, now);
	}
}

/* Pacing */

/* TCP leaves to us what it would else do with a timer for each socket. Only sockets
 * that pace: fq makes all others do so as well.
 */
static void bpshaper_take_pacing_over(struct sock *sk)
{
	if (READ_ONCE(sk->sk_pacing_status) == SK_PACING_NEEDED)
		cmpxchg(&sk->sk_pacing_status, SK_PACING_NEEDED, SK_PACING_FQ);
}

/* Must the packet be in a flow even if the qdisc is empty, because of its socket? A time
 * in the future is seen at dequeue, where the clock is read anyway.
 */
static bool bpshaper_sock_needs_flow(const struct bpshaper_sched *q,
				     const struct sk_buff *skb)
{
	const struct sock *sk = skb->sk;

	if (!bpshaper_sock_is_full(sk) || !q->has_pacing)
		return false;
	return skb->tstamp ?
		READ_ONCE(sk->sk_pacing_status) == SK_PACING_NEEDED :
		READ_ONCE(sk->sk_pacing_rate) != ~0UL;
}

/* The time at which the packet may leave, or 0. What lies beyond the horizon is in
 * another clock most likely, and set to the horizon. The time at which a packet was
 * received (CLOCK_REALTIME, just now), which some paths leave in it, does not concern
 * us.
 */
static u64 bpshaper_departs_ns(const struct bpshaper_sched *q,
			       const struct sk_buff *skb, u64 now)
{
	u64 tstamp = ktime_to_ns(skb->tstamp), real_ns;

	if (!q->has_pacing || tstamp <= now)
		return 0;
	if (likely(tstamp - now <= q->horizon_ns))
		return tstamp;
	real_ns = ktime_get_real_ns();
	if (tstamp <= real_ns && real_ns - tstamp < BPSHAPER_RECEIVED_NS)
		return 0;
	return now + q->horizon_ns;
}

/* Note when the packet came and may leave; false if it must be dropped. */
static bool bpshaper_skb_stamp(struct bpshaper_sched *q, struct sk_buff *skb,
			       u64 enqueued_ns, u64 now)
{
	u64 departs_ns = bpshaper_departs_ns(q, skb, now);

	bpshaper_skb_cb(skb)->enqueued_ns = enqueued_ns;
	bpshaper_skb_cb(skb)->due_ns = departs_ns ?: enqueued_ns;
	if (likely(!departs_ns || departs_ns >= ktime_to_ns(skb->tstamp)))
		return true;
	if (q->horizon_drop)
		return false;
	q->stat_horizon_caps++;
	return true;
}

/* The rate that the flow of @skb is paced at. A time in the packet says all there is to
 * say about the socket's rate.
 */
static u64 bpshaper_pacing_Bps(const struct bpshaper_sched *q, struct sk_buff *skb)
{
	unsigned long sk_Bps;

	if (!skb->tstamp && bpshaper_sock_is_full(skb->sk) &&
	    !skb_is_tcp_pure_ack(skb)) {
		sk_Bps = READ_ONCE(skb->sk->sk_pacing_rate);
		if (sk_Bps != ~0UL)
			return min_t(u64, q->maxrate_Bps, max(sk_Bps, 1UL));
	}
	return q->maxrate_Bps;
}

/* @skb has left the flow: when may the next one? What the timer was late is made up
 * for, but at most by half of the gap, so that gaps stay gaps.
 */
static void bpshaper_flow_pace(struct bpshaper_sched *q, struct bpshaper_flow *f,
			       struct sk_buff *skb, u64 now)
{
	u64 Bps, gap_ns;

	if (!q->has_pacing)
		return;
	Bps = bpshaper_pacing_Bps(q, skb);
	if (likely(Bps == TC_BPSHAPER_RATE_UNLIMITED))
		return;

	f->paced_by = q->paced_by;
	f->paced_bytes += qdisc_pkt_len(skb);
	gap_ns = min(div64_u64((u64)f->paced_bytes * NSEC_PER_SEC, Bps),
		     q->horizon_ns);
	f->paid_ns = max(f->next_ns, now - min(now, gap_ns / 2)) + gap_ns;
	/* The next one is as long as this one, most often. */
	if (Bps > q->low_rate_Bps &&
	    f->paced_bytes + qdisc_pkt_len(skb) <= q->pace_bytes)
		return;
	f->paced_bytes = 0;
	f->next_ns = f->paid_ns;
}

/* When the flow's next packet may leave. A rate that is no more, or a horizon that was
 * longer, does not hold it.
 */
static u64 bpshaper_flow_departs_ns(const struct bpshaper_sched *q,
				    struct bpshaper_flow *f, u64 now)
{
	const struct bpshaper_skb_cb *cb = bpshaper_skb_cb(f->head);

	if (unlikely(f->next_ns) && f->paced_by != q->paced_by) {
		f->paced_bytes = 0;
		f->next_ns = 0;
	}
	if (likely(cb->due_ns <= now))
		return f->next_ns;
	return max(min(cb->due_ns, cb->enqueued_ns + q->horizon_ns), f->next_ns);
}

/* @skb has left a flow that has waited for a time, or holds packets with one. The flow is behind if
 * @skb is later than the next packet is ahead: then it is not its times that hold it.
 */
static void bpshaper_flow_set_behind(struct bpshaper_sched *q, struct bpshaper_flow *f,
				     const struct sk_buff *skb, u64 now)
{
	u64 next_ns, due_ns = bpshaper_skb_due_ns(skb), ahead_ns = BPSHAPER_BATCH_NS;

	if (f->departs_ns <= now)	/* else it did not wait so long */
		due_ns = max(due_ns, f->departs_ns);
	next_ns = max(f->paid_ns, bpshaper_skb_due_ns(f->head));
	if (next_ns > now)
		ahead_ns = next_ns - now;
	f->is_behind = now - min(now, due_ns) > ahead_ns;
	bpshaper_flow_count_later(&q->flows, f);
	if (f->socket)
		bpshaper_socket_drained(q, f->socket, now);
}

/* The flow whose turn it is and whose next packet may leave; NULL if there is none, or none
 * among those that may be looked at: strangers make many flows with times.
 */
static struct bpshaper_flow *bpshaper_flow_due(struct bpshaper_sched *q, u64 now)
{
	int steps = BPSHAPER_FLOW_STEPS;
	struct bpshaper_flow *f;
	u64 departs_ns;

	bpshaper_flows_wake(&q->flows, now, steps);
	while ((f = bpshaper_flows_next(&q->flows))) {
		departs_ns = bpshaper_flow_departs_ns(q, f, now);
		if (likely(departs_ns <= now) || !q->has_pacing)
			return f;
		if (!steps--)
			break;
		bpshaper_flow_wait(&q->flows, f, departs_ns);
		q->stat_paced_waits++;
		if (f->socket)	/* what is not due counts no more */
			bpshaper_socket_drained(q, f->socket, now);
	}
	return NULL;
}

/* Enqueue. What every packet of a backlog runs through, here and at dequeue, says
 * inline: it has rare callers, too, and compilers keep out of line what has several. Without,
 * gcc 12 made enqueue 63 instructions longer, of 274, and dequeue 48, of 434.
 */

/* The socket that @skb is queued for, or NULL: then it is of the pool. A pure ACK has no ballast,
 * but goes in order with its socket's data.
 */
static inline struct sock *bpshaper_skb_owner(const struct bpshaper_sched *q,
					      const struct sk_buff *skb,
					      bpshaper_destructor_t destructor)
{
	if (destructor || (q->has_backpressure &&
			   bpshaper_sock_is_full(skb->sk) &&
			   skb_is_tcp_pure_ack(skb) &&
			   bpshaper_sock_is_ours(skb->sk, q->net)))
		return skb->sk;
	return NULL;
}

/* Of a packet of the pool; never 0. */
static inline u32 bpshaper_pool_hash(struct sk_buff *skb)
{
	return skb_get_hash(skb) ?: 1;
}

/* Of a socket's packet: to whom does it go? Never 0. A socket that has been connected gives all its
 * packets the hash that it had then, and IPv6 makes flow labels of that: so neither is asked.
 */
static u32 bpshaper_peer_hash(const struct sk_buff *skb)
{
	struct flow_keys keys;

	skb_flow_dissect_flow_keys(skb, &keys, 0);
	keys.tags.flow_label = 0;
	return flow_hash_from_keys(&keys) ?: 1;
}

/* The flow of @key, which is that of the socket which has this address now. */
static inline struct bpshaper_flow *bpshaper_key_flow(struct bpshaper_sched *q,
						      struct bpshaper_key key, u64 now)
{
	struct bpshaper_flow *f = bpshaper_flow_get(&q->flows, key, now);
	u64 cookie;

	if (unlikely(!f) || f->head || !f->socket)
		return f;
	cookie = bpshaper_sock_cookie(key.sk);
	if (unlikely(f->cookie != cookie))
		bpshaper_flow_set_owner(&q->flows, f, cookie);
	return f;
}

/* Does it send to several peers, each of which is to have a flow? A pacing rate is that of the
 * socket, and only one flow keeps to it.
 */
static inline bool bpshaper_sock_has_peers(const struct bpshaper_sched *q,
					   const struct sock *sk)
{
	return bpshaper_sock_is_unconnected(sk) &&
	       (!q->has_pacing || READ_ONCE(sk->sk_pacing_rate) == ~0UL);
}

/* Make the flow of a socket that is not connected any more that of its peer; false if it has more
 * than one, or too many packets to tell.
 */
static bool bpshaper_flow_set_peer(struct bpshaper_sched *q, struct bpshaper_flow *f)
{
	const struct sk_buff *skb;
	u32 hash;

	if (f->qlen > BPSHAPER_FLOW_STEPS || !RB_EMPTY_ROOT(&f->early))
		return false;
	hash = bpshaper_peer_hash(f->head);
	for (skb = f->head->next; skb; skb = skb->next)
		if (bpshaper_peer_hash(skb) != hash)
			return false;
	bpshaper_flow_rekey(&q->flows, f, hash);
	return true;
}

/* A socket that has been connected or got a rate, or is without these again, while it has a
 * backlog: its packets keep their order for each peer. Either each peer has a flow, and it stays
 * like that, or all is in one flow, which becomes that of its peer; if there are several, later.
 */
static noinline struct bpshaper_flow *bpshaper_socket_keep_order(struct bpshaper_sched *q,
								 struct bpshaper_flow *f,
								 struct sk_buff *skb,
								 u64 now)
{
	struct bpshaper_socket *s = f->socket;
	struct bpshaper_key key = { .sk = s->sk };
	struct bpshaper_flow *all;

	if (!s->flows) {
		s->is_by_peer = !s->is_by_peer;
		return f;
	}
	if (!s->is_by_peer) {
		all = bpshaper_key_flow(q, key, now);
		if (!all || s->is_mixed)
			return all;
		if (!bpshaper_flow_set_peer(q, all)) {
			s->is_mixed = true;
			return all;
		}
		s->is_by_peer = true;
	}
	key.hash = bpshaper_peer_hash(skb);
	return bpshaper_key_flow(q, key, now);
}

/* The flow of a packet; NULL when out of memory. */
static inline struct bpshaper_flow *bpshaper_skb_flow(struct bpshaper_sched *q,
						      struct sk_buff *skb,
						      bpshaper_destructor_t destructor,
						      u64 now)
{
	struct bpshaper_key key = { .sk = bpshaper_skb_owner(q, skb, destructor) };
	struct bpshaper_flow *f;
	bool is_by_peer = false;

	if (!key.sk) {
		key.hash = bpshaper_pool_hash(skb);
	} else if (bpshaper_sock_has_peers(q, key.sk)) {
		key.hash = bpshaper_peer_hash(skb);
		is_by_peer = true;
	}
	f = bpshaper_key_flow(q, key, now);
	if (likely(f) && f->socket && unlikely(f->socket->is_by_peer != is_by_peer))
		return bpshaper_socket_keep_order(q, f, skb, now);
	return f;
}

/**
 * struct bpshaper_evicted - what an enqueue took from flows to make room
 * @pkts: packets
 * @bytes: of them
 *
 * The parents are told afterwards: they must never see us empty in the middle.
 */
struct bpshaper_evicted {
	u32	pkts;
	u32	bytes;
};

/* Take the oldest packet from a flow, for whatever reason. */
static inline struct sk_buff *bpshaper_flow_take(struct bpshaper_sched *q,
						 struct bpshaper_flow *f, u64 now)
{
	struct sk_buff *skb = bpshaper_flow_pop(&q->flows, f);

	if (f->socket)
		bpshaper_socket_drained(q, f->socket, now);
	else
		bpshaper_pool_removed(q, f, skb);
	return skb;
}

/* No more, for the time that it takes, and because a parent that is told that all of its packets
 * are gone takes itself for empty.
 */
static bool bpshaper_evicted_is_enough(struct Qdisc *sch,
				       const struct bpshaper_evicted *out)
{
	const struct bpshaper_sched *q = qdisc_priv(sch);

	return out->pkts == BPSHAPER_EVICT_PKTS || sch->q.qlen <= q->uncounted + 1;
}

static void bpshaper_flow_evict(struct Qdisc *sch, struct bpshaper_flow *f,
				enum bpshaper_drop reason, u64 now,
				struct bpshaper_evicted *out,
				struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct sk_buff *skb = bpshaper_flow_take(q, f, now);

	if (f->is_waiting)	/* for the time of that packet */
		bpshaper_flow_wake(&q->flows, f);
	out->pkts++;
	out->bytes += qdisc_pkt_len(skb);
	bpshaper_account_out(sch, skb);
	bpshaper_drop(sch, skb, to_free, reason);
	if (!f->head && q->flows.parked_len > BPSHAPER_FLOW_PARKED_MOST)
		bpshaper_flow_forget(&q->flows, f);
}

/* May @f, which would be in class @class with one more packet, push out those of a flow in class
 * @top? Not if it would be one of them, but one that holds nothing counts as one with little.
 */
static bool bpshaper_flow_may_push(const struct bpshaper_sched *q,
				   const struct bpshaper_flow *f, u8 class, u8 top)
{
	if (!f->head)
		class = bpshaper_flow_class(&q->flows, f, 1, 0, 0);
	return class < top;
}

/* Would it be in vain? What may be evicted at once, packets like those of a flow with @amount in
 * @qlen packets, must be enough for @missing.
 */
static bool bpshaper_evicting_is_vain(u64 amount, u32 qlen, u64 missing)
{
	return div_u64(amount, qlen) * BPSHAPER_EVICT_PKTS < missing;
}

/* Make room for @skb of @f at the expense of the longest flows; false if @f would be one of
 * them, or that takes too long. A limit that was made smaller is reached step by step, each
 * packet that enters pushing out as much as itself, in bytes and in memory.
 */
static bool bpshaper_pool_make_room(struct Qdisc *sch, struct bpshaper_flow *f,
				    const struct sk_buff *skb, u64 now,
				    struct bpshaper_evicted *out,
				    struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u32 bytes = f->backlog + qdisc_pkt_len(skb);
	struct bpshaper_rank *rank = &q->pool.by_backlog;
	u64 memory = q->pool.memory;
	struct bpshaper_flow *victim;
	u8 class;

	if (likely(!bpshaper_pool_is_full(q, skb)))
		return true;
	class = bpshaper_flow_class(&q->flows, f, f->qlen + 1, bytes, bytes);
	while (bpshaper_pool_is_full(q, skb) &&
	       (out->bytes < qdisc_pkt_len(skb) ||
		memory - q->pool.memory < bpshaper_skb_memory(skb))) {
		if (bpshaper_evicted_is_enough(sch, out) ||
		    !bpshaper_flow_may_push(q, f, class, bpshaper_rank_top(rank)))
			return false;
		victim = list_entry(bpshaper_rank_first(rank), struct bpshaper_flow,
				    pool_node);
		if (!out->pkts && bpshaper_evicting_is_vain(victim->backlog, victim->qlen,
							    qdisc_pkt_len(skb)))
			return false;
		bpshaper_flow_evict(sch, victim, BPSHAPER_DROP_POOL, now, out,
				    to_free);
	}
	return true;
}

/* Memory of all that is queued, of the flows, and of the ballast that their sockets may need, in
 * bytes.
 */
static inline u64 bpshaper_memory(const struct bpshaper_sched *q)
{
	return q->flows.memory + (q->direct ? bpshaper_skb_memory(q->direct) : 0) +
	       (u64)q->flows.active * sizeof(struct bpshaper_flow) +
	       (u64)q->flows.sockets * BPSHAPER_SOCKET_MEMORY;
}

/* For @skb, whose flow may be new. */
static inline bool bpshaper_memory_is_full(const struct bpshaper_sched *q,
					   const struct sk_buff *skb)
{
	return unlikely(bpshaper_memory(q) + bpshaper_skb_memory(skb) +
			sizeof(struct bpshaper_flow) + BPSHAPER_SOCKET_MEMORY >
			q->memory_limit);
}

/* Who holds most memory pays. A flow that would be one of those with @skb does not get in. */
static noinline bool bpshaper_memory_make_room(struct Qdisc *sch,
					       struct bpshaper_flow *f,
					       const struct sk_buff *skb, u64 now,
					       struct bpshaper_evicted *out,
					       struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_rank *rank = &q->flows.by_memory;
	struct bpshaper_flow *victim;
	u8 class;

	class = bpshaper_flow_class(&q->flows, f, f->qlen + 1,
				    f->backlog + qdisc_pkt_len(skb),
				    f->memory + bpshaper_skb_memory(skb));
	while (bpshaper_memory_is_full(q, skb)) {
		if (bpshaper_evicted_is_enough(sch, out) ||
		    !bpshaper_flow_may_push(q, f, class, bpshaper_rank_top(rank)))
			return false;
		victim = list_entry(bpshaper_rank_first(rank), struct bpshaper_flow,
				    memory_node);
		if (!out->pkts && bpshaper_evicting_is_vain(victim->memory, victim->qlen,
							    bpshaper_skb_memory(skb)))
			return false;
		bpshaper_flow_evict(sch, victim, BPSHAPER_DROP_MEMORY, now, out,
				    to_free);
	}
	return true;
}

/* A pure ACK. Past a number of them the last one in the queue, which says less, makes room
 * for it: a peer can provoke any number. Behind data one is queued whatever the number, so
 * there are no more of them than that and packets of data.
 */
static void bpshaper_ack_make_room(struct Qdisc *sch, struct bpshaper_flow *f,
				   struct bpshaper_evicted *out,
				   struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct sk_buff *skb;

	if (likely(f->socket->acks < BPSHAPER_ACKS_MAX) ||
	    !skb_is_tcp_pure_ack(f->tail) || !RB_EMPTY_ROOT(&f->early))
		return;
	skb = bpshaper_flow_pop_last(&q->flows, f);
	out->pkts++;
	out->bytes += qdisc_pkt_len(skb);
	bpshaper_account_out(sch, skb);
	bpshaper_drop(sch, skb, to_free, BPSHAPER_DROP_ACK);
}

/* Put a stamped packet into its flow. Without a destructor that of a socket gets pure ACKs
 * only.
 */
static inline int bpshaper_flow_enqueue(struct Qdisc *sch,
					struct bpshaper_flow *f,
					struct sk_buff *skb,
					bpshaper_destructor_t destructor,
					u64 now, struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_evicted out = {};
	int drop = -1;

	DEBUG_NET_WARN_ON_ONCE(f->socket && skb->sk != f->socket->sk);
	if (!f->socket && !bpshaper_pool_make_room(sch, f, skb, now, &out, to_free))
		drop = BPSHAPER_DROP_POOL;
	else if (bpshaper_memory_is_full(q, skb) &&
		 !bpshaper_memory_make_room(sch, f, skb, now, &out, to_free))
		drop = BPSHAPER_DROP_MEMORY;
	else if (f->socket && !destructor)
		bpshaper_ack_make_room(sch, f, &out, to_free);

	if (likely(drop < 0)) {
		bpshaper_account_in(sch, skb);
		bpshaper_flow_push(&q->flows, f, skb);
		if (!f->socket)
			bpshaper_pool_added(q, f, skb);
		else if (destructor)
			bpshaper_socket_enqueued(sch, f, skb, destructor, now);
	}
	if (unlikely(out.pkts))
		qdisc_tree_reduce_backlog(sch, out.pkts, out.bytes);
	return likely(drop < 0) ? NET_XMIT_SUCCESS :
				  bpshaper_drop(sch, skb, to_free, drop);
}

/* Put a stamped packet into its flow, as it is. */
static inline int bpshaper_skb_enqueue(struct Qdisc *sch, struct sk_buff *skb,
				       bpshaper_destructor_t destructor, u64 now,
				       struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_flow *f;

	f = bpshaper_skb_flow(q, skb, destructor, now);
	if (unlikely(!f))
		return bpshaper_drop(sch, skb, to_free, BPSHAPER_DROP_ALLOC);
	return bpshaper_flow_enqueue(sch, f, skb, destructor, now, to_free);
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

static bool bpshaper_must_segment(const struct bpshaper_sched *q,
				  const struct sk_buff *skb)
{
	return unlikely(qdisc_pkt_len(skb) > q->segment_above) &&
	       skb_is_gso(skb);
}

/* Must the packet be in a flow even if the qdisc is empty, whoever sent it? Only packets
 * larger than direct_max can, so that the others are asked one question.
 */
static bool bpshaper_skb_needs_flow(const struct bpshaper_sched *q,
				    const struct sk_buff *skb)
{
	if (likely(qdisc_pkt_len(skb) <= q->direct_max))
		return false;
	if (bpshaper_must_segment(q, skb))
		return true;
	return q->has_pacing &&
	       (q->maxrate_Bps != TC_BPSHAPER_RATE_UNLIMITED ||
		(q->horizon_drop && skb->tstamp));
}

/* skb_segment() leaves the socket, and the charge of the whole packet, with the last segment,
 * if it is sock_wfree() that uncharges. Give each segment its own part, as those of TCP and
 * UDP have.
 */
static void bpshaper_segs_set_owner(struct sk_buff *segs, struct sk_buff *skb,
				    struct sock *sk)
{
	struct sk_buff *seg, *last = NULL;
	s64 charge = 0;

	for (seg = segs; seg; seg = seg->next)
		last = seg;
	if (segs->sk || last->sk != sk || last->destructor != sock_wfree)
		return;

	swap(last->truesize, skb->truesize);
	for (seg = segs; seg; seg = seg->next) {
		seg->sk = sk;
		seg->destructor = sock_wfree;
		charge += seg->truesize;
	}
	charge -= skb->truesize;
	if (charge > 0)
		refcount_add(charge, &sk->sk_wmem_alloc);
	else if (charge < 0)	/* never to zero, the segments are charged */
		WARN_ON_ONCE(refcount_sub_and_test(-charge, &sk->sk_wmem_alloc));
}

/* Does each segment hold the socket, so that they may be in its flow? Not those of fraglist
 * GSO, nor those of the transmit ring of packet sockets up to 6.1.
 */
static bool bpshaper_segs_own(const struct sk_buff *segs, const struct sock *sk)
{
	const struct sk_buff *seg;

	for (seg = segs; seg; seg = seg->next)
		if (seg->sk != sk || !seg->destructor)
			return false;
	return true;
}

/* A packet socket can make up the header, and with it the number. */
static bool bpshaper_skb_has_too_many_segs(const struct sk_buff *skb)
{
	u32 size = skb_shinfo(skb)->gso_size;

	if (size == GSO_BY_FRAGS)	/* as many as the packet has fragments */
		return false;
	return skb->len / size > BPSHAPER_SEGS_MAX;
}

/* Enqueue the segments, which all have the stamp @cb and the flow @f; the packet @skb that they
 * are made of may be one of them.
 */
static int bpshaper_segs_enqueue(struct Qdisc *sch, struct bpshaper_flow *f,
				 struct sk_buff *skb, struct sk_buff *segs,
				 const struct bpshaper_skb_cb *cb,
				 bpshaper_destructor_t destructor, u64 now,
				 struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u32 old_len = qdisc_pkt_len(skb), pkts = 0, bytes = 0, len;
	struct sk_buff *seg, *next;

	if (f->socket && f->socket->is_by_peer)	/* it is sent as a whole */
		f->socket->largest = max(f->socket->largest, old_len);
	skb_list_walk_safe(segs, seg, next) {
		skb_mark_not_on_list(seg);
		len = bpshaper_stab_len(sch, seg->len);
		qdisc_skb_cb(seg)->pkt_len = len;
		bpshaper_set_one_segment(seg);
		*bpshaper_skb_cb(seg) = *cb;
		q->stat_segments++;
		if (bpshaper_flow_enqueue(sch, f, seg, destructor, now,
					  to_free) != NET_XMIT_SUCCESS)
			continue;
		q->uncounted = ++pkts;
		bytes += len;
	}
	q->uncounted = 0;
	if (!pkts) {
		kfree_skb(skb);
		return NET_XMIT_DROP;
	}
	/* The parents will count one packet of the old length. */
	qdisc_tree_reduce_backlog(sch, 1 - pkts, old_len - bytes);
	consume_skb(skb);
	return NET_XMIT_SUCCESS;
}

/* Enqueue a stamped packet in segments. One that cannot be segmented is dropped, as with tbf:
 * the device would drop it as well, and its length may be any that its header says.
 */
static noinline int bpshaper_gso_enqueue(struct Qdisc *sch, struct sk_buff *skb,
					 bpshaper_destructor_t destructor, u64 now,
					 struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_skb_cb cb = *bpshaper_skb_cb(skb);
	struct sock *sk = skb->sk;
	struct bpshaper_flow *f;
	struct sk_buff *segs;

	if (bpshaper_skb_has_too_many_segs(skb))
		return bpshaper_drop(sch, skb, to_free, BPSHAPER_DROP_SEGMENTS);
	skb_get_hash(skb);	/* the segments inherit it */
	segs = skb_gso_segment(skb, netif_skb_features(skb) & ~NETIF_F_GSO_MASK);
	if (IS_ERR_OR_NULL(segs))
		return bpshaper_drop(sch, skb, to_free, PTR_ERR(segs) == -ENOMEM ?
				     BPSHAPER_DROP_ALLOC : BPSHAPER_DROP_SEGMENTS);

	if (destructor) {
		bpshaper_segs_set_owner(segs, skb, sk);
		if (!bpshaper_segs_own(segs, sk))
			destructor = NULL;
	}
	f = bpshaper_skb_flow(q, segs, destructor, now);
	if (unlikely(!f)) {
		kfree_skb_list(segs);
		return bpshaper_drop(sch, skb, to_free, BPSHAPER_DROP_ALLOC);
	}
	return bpshaper_segs_enqueue(sch, f, skb, segs, &cb, destructor, now,
				     to_free);
}

/* Somebody wakes a qdisc that has a backlog: its timer, its device, its parent's timer. Since
 * 7.1 that can be in vain, while the device's queues are out of use because a leaf of mq is
 * replaced, or the length of the queue is set; they keep what they hold. Others are
 * woken by the next packet, but here all who could send one may be throttled.
 */
static enum hrtimer_restart bpshaper_backstop(struct hrtimer *timer)
{
	struct bpshaper_sched *q = container_of(timer, struct bpshaper_sched, backstop);
	struct Qdisc *sch = q->bp.sch;

	if (!READ_ONCE(sch->q.qlen))
		return HRTIMER_NORESTART;
	rcu_read_lock();
	__netif_schedule(qdisc_root(sch));
	rcu_read_unlock();
	/* Not HRTIMER_RESTART: others may have started it. */
	hrtimer_start(timer, ns_to_ktime(BPSHAPER_BACKSTOP_NS), HRTIMER_MODE_REL);
	return HRTIMER_NORESTART;
}

static void bpshaper_backstop_start(struct bpshaper_sched *q)
{
	if (unlikely(!hrtimer_is_queued(&q->backstop)))
		hrtimer_start(&q->backstop, ns_to_ktime(BPSHAPER_BACKSTOP_NS),
			      HRTIMER_MODE_REL);
}

/* The direct packet has a time in the future: it goes where it would have gone had it not found the
 * qdisc empty, before any other packet does. Without memory for a flow it leaves early.
 */
static noinline bool bpshaper_direct_wait(struct Qdisc *sch, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	bpshaper_destructor_t destructor = NULL;
	struct sk_buff *skb = q->direct;
	struct bpshaper_flow *f;

	if (!bpshaper_departs_ns(q, skb, now))
		return false;
	if (q->has_backpressure)
		destructor = bpshaper_ballast_destructor(skb, q->net);
	f = bpshaper_skb_flow(q, skb, destructor, now);
	if (!f)
		return false;

	/* With horizon_drop it would have been dropped at once, had it not been set
	 * since: then it stays.
	 */
	bpshaper_skb_stamp(q, skb, q->direct_ns ?: now, now);
	bpshaper_flow_push(&q->flows, f, skb);
	if (!f->socket)
		bpshaper_pool_added(q, f, skb);
	q->direct = NULL;
	q->direct_ns = 0;
	return true;
}

/* Another packet comes while there is a direct one. */
static noinline void bpshaper_direct_followed(struct Qdisc *sch, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	if (!q->direct_ns)
		q->direct_ns = now;
	if (unlikely(ktime_to_ns(q->direct->tstamp) > now))
		bpshaper_direct_wait(sch, now);
}

/* The qdisc is not empty, or the packet must be segmented. */
static noinline int bpshaper_enqueue_slow(struct sk_buff *skb,
					  struct Qdisc *sch,
					  struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	bpshaper_destructor_t destructor = NULL;
	u64 now = ktime_get_ns();

	q->undrained = sch->q.qlen ? q->undrained + 1 : 1;
	bpshaper_backstop_start(q);
	if (q->direct)
		bpshaper_direct_followed(sch, now);
	/* Once for the packet: its segments are to share one fate. */
	if (unlikely(!bpshaper_skb_stamp(q, skb, now, now)))
		return bpshaper_drop(sch, skb, to_free, BPSHAPER_DROP_HORIZON);
	if (q->has_backpressure)
		destructor = bpshaper_ballast_destructor(skb, q->net);
	if (q->has_pacing && bpshaper_sock_is_full(skb->sk) &&
	    bpshaper_sock_is_ours(skb->sk, q->net))
		bpshaper_take_pacing_over(skb->sk);
	if (bpshaper_must_segment(q, skb))
		return bpshaper_gso_enqueue(sch, skb, destructor, now, to_free);
	return bpshaper_skb_enqueue(sch, skb, destructor, now, to_free);
}

static int bpshaper_enqueue(struct sk_buff *skb, struct Qdisc *sch,
			    struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	if (sch->q.qlen || bpshaper_skb_needs_flow(q, skb) ||
	    bpshaper_sock_needs_flow(q, skb))
		return bpshaper_enqueue_slow(skb, sch, to_free);

	q->undrained = 1;
	q->direct = skb;
	bpshaper_account_in(sch, skb);
	return NET_XMIT_SUCCESS;
}

/* Dequeue. What an idle qdisc does not need is kept out of line, so that the short
 * path needs few registers.
 */

/* What the packet occupies of the rate. */
static u32 bpshaper_wire_len(const struct bpshaper_sched *q,
			     const struct sk_buff *skb)
{
	u32 len = qdisc_pkt_len(skb);

	if (likely(!q->is_framed))
		return len;
	return bpshaper_framed_len(len, q->overhead, q->mpu, q->is_atm);
}

/* When there are tokens for a packet of @len bytes, or for a batch, unless @is_single or only
 * the peak rate holds it.
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

/* Likewise: a batch is what we hold of the group's tokens. While the group is being
 * changed nobody holds any.
 */
static u64 bpshaper_group_wake_ns(struct bpshaper_sched *q, u32 len, bool is_single,
				  u64 now)
{
	u64 held_ns = bpshaper_slot_held_ns(&q->slot);
	u64 cost_ns = is_single ? bpshaper_rate_cost_ns(&q->rate, len) : held_ns;
	u64 ready_ns = bpshaper_slot_ready_ns(&q->slot, min(cost_ns, held_ns));

	if (!q->is_waiting) {
		q->is_waiting = true;
		atomic_inc(&q->group->waiting);
	}
	return ready_ns > now ? ready_ns : now + BPSHAPER_BATCH_NS;
}

/* No tokens for a packet of @len bytes. */
static noinline void bpshaper_sleep(struct Qdisc *sch, u32 len, bool is_single,
				    u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u64 ready_ns;

	/* While a new flow waits, nobody sleeps for a batch. */
	is_single = is_single || bpshaper_flows_have_new(&q->flows);
	ready_ns = q->group ? bpshaper_group_wake_ns(q, len, is_single, now) :
			      bpshaper_bucket_wake_ns(sch, len, is_single, now);
	q->wake_ns = min(ready_ns, bpshaper_flows_departs_ns(&q->flows));
	if (q->was_armed && !q->is_out_of_tokens)	/* with slack */
		hrtimer_try_to_cancel(&q->watchdog.timer);
	qdisc_watchdog_schedule_ns(&q->watchdog, q->wake_ns);
	bpshaper_backstop_start(q);
	q->was_armed = true;
	q->is_out_of_tokens = true;
	qdisc_qstats_overlimit(sch);
	bpshaper_backpressure_apply(&q->bp, now);
	if (unlikely(q->flows.exempt))
		bpshaper_sockets_review(q, now);
}

/* The backlog has left or is not due: what we hold of the group's tokens is for the
 * others.
 */
static noinline void bpshaper_group_idle(struct bpshaper_sched *q)
{
	bpshaper_slot_return(&q->slot, &q->group->tat_ns);
	atomic_dec(&q->group->waiting);
	q->is_waiting = false;
}

/* There are tokens, but all flows wait for the time of their next packet, or too many to
 * look at all at once.
 */
static noinline void bpshaper_sleep_paced(struct Qdisc *sch, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	if (unlikely(q->is_waiting))
		bpshaper_group_idle(q);
	q->wake_ns = q->flows.active > q->flows.waiting_len ? now :
		     bpshaper_flows_departs_ns(&q->flows);
	qdisc_watchdog_schedule_range_ns(&q->watchdog, q->wake_ns,
					 q->timer_slack_ns);
	bpshaper_backstop_start(q);
	q->was_armed = true;
	q->is_out_of_tokens = false;
	bpshaper_backpressure_apply(&q->bp, now);
	if (unlikely(q->flows.exempt))
		bpshaper_sockets_review(q, now);
}

/* A batch is as much as all members that wait may send before the window is half
 * empty, but a packet at least.
 */
static bool bpshaper_group_take(struct Qdisc *sch, u32 len, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u32 waiting = atomic_read(&q->group->waiting);
	u32 batch = max(q->batch / max(waiting, 1U), q->batch_min);
	u32 due = sch->qstats.backlog - q->flows.later;

	if (!bpshaper_slot_take(&q->slot, &q->group->tat_ns, &q->rate, len,
				bpshaper_slot_turn(&q->slot, batch, due),
				now))
		return false;
	trace_group_send(sch, len, now);
	return true;
}

/* Both buckets must agree before either is touched. */
static bool bpshaper_take_both(struct bpshaper_sched *q, u32 len, u64 now)
{
	if (!bpshaper_bucket_conforms(&q->bucket, &q->rate, len, now) ||
	    !bpshaper_bucket_take(&q->peak, &q->peak_rate, len, now))
		return false;
	bpshaper_bucket_charge(&q->bucket, &q->rate, len, now);
	return true;
}

static noinline bool bpshaper_take_special(struct Qdisc *sch, u32 len, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	return q->group ? bpshaper_group_take(sch, len, now) :
			  bpshaper_take_both(q, len, now);
}

/* Take the tokens for @skb; false, and the watchdog is armed, if there are too
 * few.
 */
static inline bool bpshaper_admit(struct Qdisc *sch, const struct sk_buff *skb,
				  bool is_new, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u32 len = bpshaper_wire_len(q, skb);

	if (!q->rate.Bps)
		return true;
	if (unlikely(q->is_special) ?
	    bpshaper_take_special(sch, len, now) :
	    bpshaper_bucket_take(&q->bucket, &q->rate, len, now))
		return true;
	bpshaper_sleep(sch, len, is_new, now);
	return false;
}

static void bpshaper_watchdog_fired(struct Qdisc *sch, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u64 lateness = now - min(now, q->wake_ns);

	q->was_armed = false;
	q->stat_timer_wakeups++;
	bpshaper_hist_add(q->lateness_hist, lateness);
	trace_watchdog(sch, lateness);
}

static u64 bpshaper_now(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u64 now = ktime_get_ns();

	if (q->was_armed && !hrtimer_is_queued(&q->watchdog.timer))
		bpshaper_watchdog_fired(sch, now);
	return now;
}

/* Who waited for a group's tokens does not after the last packet, which leaves now. */
static inline void bpshaper_group_served(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	if (unlikely(q->is_waiting) && sch->q.qlen == 1)
		bpshaper_group_idle(q);
}

/* A packet leaves that has waited for @delay_ns, beyond the time that it was to leave at. */
static inline void bpshaper_delayed(struct Qdisc *sch, struct sk_buff *skb,
				    u64 delay_ns)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	bpshaper_hist_add(q->delay_hist, delay_ns);
	if (unlikely(delay_ns > q->ce_threshold_ns) && INET_ECN_set_ce(skb))
		q->stat_ce_marks++;
}

static noinline struct sk_buff *bpshaper_dequeue_flow(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_flow *f;
	struct sk_buff *skb;
	u64 now, due_ns;

	/* The time of a flow that came since may be earlier. */
	if (!bpshaper_flows_have_new(&q->flows) && bpshaper_is_asleep(q) &&
	    bpshaper_flows_departs_ns(&q->flows) >= q->wake_ns)
		return NULL;
	now = bpshaper_now(sch);
	f = bpshaper_flow_due(q, now);
	if (!f) {
		if (q->flows.waiting_len)
			bpshaper_sleep_paced(sch, now);
		return NULL;
	}
	if (!bpshaper_admit(sch, f->head, f->is_new, now))
		return NULL;

	bpshaper_flows_trim(&q->flows, 1);	/* while @f is none of them */
	skb = bpshaper_flow_take(q, f, now);
	bpshaper_flow_charge(&q->flows, f, bpshaper_wire_len(q, skb));
	bpshaper_flow_pace(q, f, skb, now);
	if (unlikely(f->is_timed))
		bpshaper_flow_set_behind(q, f, skb, now);
	bpshaper_group_served(sch);
	due_ns = bpshaper_skb_due_ns(skb);
	bpshaper_delayed(sch, skb, now - min(now, due_ns));
	return skb;
}

/* A direct packet leaves as it came, most often: it is stamped only when it does
 * not, and an idle qdisc without a rate has no use for a clock.
 */
static struct sk_buff *bpshaper_dequeue_direct(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct sk_buff *skb = q->direct;
	u64 now;

	if (q->rate.Bps || q->direct_ns || unlikely(skb->tstamp)) {
		now = bpshaper_now(sch);
		if (unlikely(ktime_to_ns(skb->tstamp) > now) &&
		    bpshaper_direct_wait(sch, now))
			return bpshaper_dequeue_flow(sch);
		if (!bpshaper_admit(sch, skb, true, now)) {
			if (!q->direct_ns)
				q->direct_ns = now;
			return NULL;
		}
	}
	if (likely(!q->direct_ns)) {
		q->delay_hist[0]++;
	} else {
		bpshaper_group_served(sch);
		bpshaper_delayed(sch, skb, now - q->direct_ns);
	}
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
			  bpshaper_dequeue_flow(sch);
	if (!skb)
		return NULL;
	bpshaper_account_out(sch, skb);
	qdisc_bstats_update(sch, skb);
	bpshaper_assert_packet(sch);
	return skb;
}

/* Life cycle and options */

/* If it runs just now it schedules the qdisc, which does no harm. Waiting for it would, with
 * PREEMPT_RT: for all timers of its CPU, and one of them may wait for the root lock.
 */
static void bpshaper_watchdog_stop(struct bpshaper_sched *q)
{
	hrtimer_try_to_cancel(&q->watchdog.timer);
	q->was_armed = false;
	q->is_out_of_tokens = false;
}

/* Also called after an init() that failed, of a default qdisc. */
static void bpshaper_reset(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_flow *f, *next;
	int i;

	if (!q->flows.trees)
		return;
	bpshaper_watchdog_stop(q);
	q->undrained = 0;
	if (q->direct)
		rtnl_kfree_skbs(q->direct, q->direct);
	q->direct = NULL;
	q->direct_ns = 0;

	q->stat_purged += sch->q.qlen;
	bpshaper_backpressure_release_all(&q->bp, ktime_get_ns());
	for (i = 0; i < 1 << BPSHAPER_FLOW_TREES_LOG; i++)
		rbtree_postorder_for_each_entry_safe(f, next,
						     &q->flows.trees[i], node)
			if (f->head) {
				bpshaper_flow_flatten(&q->flows, f);
				rtnl_kfree_skbs(f->head, f->tail);
			}
	bpshaper_flows_free(&q->flows);
	bpshaper_pool_init(&q->pool);
	bpshaper_bucket_fill(&q->bucket);
	bpshaper_bucket_fill(&q->peak);
	if (q->is_waiting)
		bpshaper_group_idle(q);
	WRITE_ONCE(sch->q.qlen, 0);
	WRITE_ONCE(sch->qstats.backlog, 0);
}

static const struct nla_policy bpshaper_policy[TCA_BPSHAPER_MAX + 1] = {
	[TCA_BPSHAPER_RATE64]		= { .type = NLA_U64 },
	[TCA_BPSHAPER_BURST]		= { .type = NLA_U32 },
	[TCA_BPSHAPER_LIMIT]		= { .type = NLA_U32 },
	[TCA_BPSHAPER_LATENCY]		= { .type = NLA_U64 },
	[TCA_BPSHAPER_MEMORY_LIMIT]	= { .type = NLA_U32 },
	[TCA_BPSHAPER_QUANTUM]		= { .type = NLA_U32 },
	[TCA_BPSHAPER_PEAKRATE64]	= { .type = NLA_U64 },
	[TCA_BPSHAPER_MTU]		= { .type = NLA_U32 },
	[TCA_BPSHAPER_OVERHEAD]		= { .type = NLA_U32 },
	[TCA_BPSHAPER_MPU]		= { .type = NLA_U32 },
	[TCA_BPSHAPER_LINKLAYER]	= { .type = NLA_U32 },
	[TCA_BPSHAPER_SHARE_MIN]	= { .type = NLA_U32 },
	[TCA_BPSHAPER_SHARE_MAX]	= { .type = NLA_U32 },
	[TCA_BPSHAPER_BACKPRESSURE]	= { .type = NLA_U32 },
	[TCA_BPSHAPER_PACING]		= { .type = NLA_U32 },
	[TCA_BPSHAPER_MAXRATE64]	= { .type = NLA_U64 },
	[TCA_BPSHAPER_LOW_RATE_THRESHOLD64] = { .type = NLA_U64 },
	[TCA_BPSHAPER_HORIZON]		= { .type = NLA_U64 },
	[TCA_BPSHAPER_HORIZON_DROP]	= { .type = NLA_U32 },
	[TCA_BPSHAPER_CE_THRESHOLD]	= { .type = NLA_U64 },
	[TCA_BPSHAPER_TIMER_SLACK]	= { .type = NLA_U32 },
	[TCA_BPSHAPER_GROUP]		= { .type = NLA_U32 },
};

/* The policy could check ranges, but its message would not name them. */
#define BPSHAPER_BOUNDS(attr, least, most, text)		\
	[TCA_BPSHAPER_##attr] = { .min = least, .max = most,	\
		.msg = KBUILD_MODNAME ": " text }

static const struct {
	u64		min;
	u64		max;
	const char	*msg;
} bpshaper_bounds[TCA_BPSHAPER_MAX + 1] = {
	BPSHAPER_BOUNDS(RATE64, TC_BPSHAPER_RATE_MIN, TC_BPSHAPER_RATE_MAX,
			"rate must be 1 to 2^43 bytes/s, or unlimited"),
	BPSHAPER_BOUNDS(BURST, 1, U32_MAX, "burst must be 1 byte or more"),
	BPSHAPER_BOUNDS(LIMIT, 1, U32_MAX, "limit must be 1 byte or more"),
	BPSHAPER_BOUNDS(LATENCY, 1, TC_BPSHAPER_LATENCY_MAX,
			"latency must be 1 ns to 60 s"),
	BPSHAPER_BOUNDS(MEMORY_LIMIT, TC_BPSHAPER_MEMORY_MIN, U32_MAX,
			"memory_limit must be 64 KiB or more"),
	BPSHAPER_BOUNDS(QUANTUM, TC_BPSHAPER_QUANTUM_MIN,
			TC_BPSHAPER_QUANTUM_MAX,
			"quantum must be 256 bytes to 1 MiB"),
	BPSHAPER_BOUNDS(PEAKRATE64, TC_BPSHAPER_RATE_MIN, TC_BPSHAPER_RATE_MAX,
			"peakrate must be 1 to 2^43 bytes/s, or unlimited"),
	BPSHAPER_BOUNDS(MTU, 1, U32_MAX, "mtu must be 1 byte or more"),
	BPSHAPER_BOUNDS(OVERHEAD, 0, TC_BPSHAPER_OVERHEAD_MAX,
			"overhead must be 0 to 65535 bytes"),
	BPSHAPER_BOUNDS(MPU, 0, TC_BPSHAPER_MPU_MAX,
			"mpu must be 0 to 65535 bytes"),
	BPSHAPER_BOUNDS(LINKLAYER, TC_LINKLAYER_ETHERNET, TC_LINKLAYER_ATM,
			"linklayer must be ethernet (1) or atm (2)"),
	BPSHAPER_BOUNDS(SHARE_MIN, 1, U32_MAX,
			"share_min must be 1 byte or more"),
	BPSHAPER_BOUNDS(SHARE_MAX, 1, U32_MAX,
			"share_max must be 1 byte or more"),
	BPSHAPER_BOUNDS(BACKPRESSURE, 0, 1, "backpressure must be 0 or 1"),
	BPSHAPER_BOUNDS(PACING, 0, 1, "pacing must be 0 or 1"),
	BPSHAPER_BOUNDS(MAXRATE64, TC_BPSHAPER_RATE_MIN, TC_BPSHAPER_RATE_MAX,
			"maxrate must be 1 to 2^43 bytes/s, or unlimited"),
	BPSHAPER_BOUNDS(LOW_RATE_THRESHOLD64, 0, TC_BPSHAPER_RATE_MAX,
			"low_rate_threshold must be 0 to 2^43 bytes/s"),
	BPSHAPER_BOUNDS(HORIZON, 1, TC_BPSHAPER_HORIZON_MAX,
			"horizon must be 1 ns to 1 h"),
	BPSHAPER_BOUNDS(HORIZON_DROP, 0, 1, "horizon_drop must be 0 or 1"),
	BPSHAPER_BOUNDS(CE_THRESHOLD, 0, TC_BPSHAPER_CE_THRESHOLD_MAX,
			"ce_threshold must be 0 to 60 s, or never"),
	BPSHAPER_BOUNDS(TIMER_SLACK, 0, U32_MAX, "timer_slack is any ns"),
	BPSHAPER_BOUNDS(GROUP, 0, U32_MAX, "group is any number"),
};

/* TC_BPSHAPER_RATE_UNLIMITED and TC_BPSHAPER_CE_NEVER are one value. */
static bool bpshaper_attr_is_unlimited(int attr, u64 value)
{
	return (attr == TCA_BPSHAPER_RATE64 ||
		attr == TCA_BPSHAPER_PEAKRATE64 ||
		attr == TCA_BPSHAPER_MAXRATE64 ||
		attr == TCA_BPSHAPER_CE_THRESHOLD) &&
	       value == U64_MAX;
}

static int bpshaper_attrs_check(struct nlattr **tb,
				struct netlink_ext_ack *extack)
{
	u64 value;
	int i;

	for (i = TCA_BPSHAPER_RATE64; i <= TCA_BPSHAPER_MAX; i++) {
		if (!tb[i])
			continue;
		value = bpshaper_policy[i].type == NLA_U64 ?
			nla_get_u64(tb[i]) : nla_get_u32(tb[i]);
		if ((value >= bpshaper_bounds[i].min &&
		     value <= bpshaper_bounds[i].max) ||
		    bpshaper_attr_is_unlimited(i, value))
			continue;
		if (extack)
			extack->_msg = bpshaper_bounds[i].msg;
		NL_SET_BAD_ATTR(extack, tb[i]);
		return -ERANGE;
	}
	return 0;
}

static void bpshaper_attr_u32(u32 *value, const struct nlattr *attr)
{
	if (attr)
		*value = nla_get_u32(attr);
}

static void bpshaper_attr_u64(u64 *value, const struct nlattr *attr)
{
	if (attr)
		*value = nla_get_u64(attr);
}

/* Do the options agree with each other? What was set before counts as well. */
static int bpshaper_config_check(const struct bpshaper_config *c,
				 struct netlink_ext_ack *extack)
{
	bool is_unlimited = c->rate_Bps == TC_BPSHAPER_RATE_UNLIMITED;

	/* In a group there will be one: the group's, or it is refused for that. */
	if (c->latency_ns && is_unlimited && !c->group) {
		NL_SET_ERR_MSG_MOD(extack, "latency needs a rate");
		return -EINVAL;
	}
	if (c->peak_Bps != TC_BPSHAPER_RATE_UNLIMITED && is_unlimited) {
		NL_SET_ERR_MSG_MOD(extack, "peakrate needs a rate");
		return -EINVAL;
	}
	if (c->peak_Bps <= c->rate_Bps && !is_unlimited) {
		NL_SET_ERR_MSG_MOD(extack, "peakrate must be above the rate");
		return -EINVAL;
	}
	if (c->share_min && c->share_max && c->share_min > c->share_max) {
		NL_SET_ERR_MSG_MOD(extack, "share_min must not be above share_max");
		return -EINVAL;
	}
	if (c->peak_Bps != TC_BPSHAPER_RATE_UNLIMITED && c->group) {
		NL_SET_ERR_MSG_MOD(extack, "group and peakrate exclude each other");
		return -EINVAL;
	}
	return 0;
}

/* Merge the attributes into @c, which holds what is configured now. */
static int bpshaper_config_parse(struct bpshaper_config *c, struct nlattr *opt,
				 struct netlink_ext_ack *extack)
{
	struct nlattr *tb[TCA_BPSHAPER_MAX + 1];
	int err, i;

	err = nla_parse_nested(tb, TCA_BPSHAPER_MAX, opt, bpshaper_policy,
			       extack);
	if (err < 0)
		return err;
	err = bpshaper_attrs_check(tb, extack);
	if (err)
		return err;
	if (tb[TCA_BPSHAPER_LIMIT] && tb[TCA_BPSHAPER_LATENCY]) {
		NL_SET_ERR_MSG_MOD(extack, "limit and latency exclude each other");
		return -EINVAL;
	}

	BUILD_BUG_ON(BITS_PER_TYPE(c->given) <= TCA_BPSHAPER_MAX);
	c->given = 0;
	for (i = 0; i <= TCA_BPSHAPER_MAX; i++)
		c->given |= tb[i] ? BIT(i) : 0;

	bpshaper_attr_u64(&c->rate_Bps, tb[TCA_BPSHAPER_RATE64]);
	if (c->rate_Bps == TC_BPSHAPER_RATE_UNLIMITED) {
		/* They went with the rate before. */
		c->latency_ns = 0;
		c->peak_Bps = TC_BPSHAPER_RATE_UNLIMITED;
	}
	if (tb[TCA_BPSHAPER_LIMIT])
		c->latency_ns = 0;
	if (tb[TCA_BPSHAPER_LATENCY])
		c->limit = 0;
	bpshaper_attr_u32(&c->burst, tb[TCA_BPSHAPER_BURST]);
	bpshaper_attr_u32(&c->limit, tb[TCA_BPSHAPER_LIMIT]);
	bpshaper_attr_u64(&c->latency_ns, tb[TCA_BPSHAPER_LATENCY]);
	bpshaper_attr_u32(&c->memory_limit, tb[TCA_BPSHAPER_MEMORY_LIMIT]);
	bpshaper_attr_u32(&c->quantum, tb[TCA_BPSHAPER_QUANTUM]);
	bpshaper_attr_u64(&c->peak_Bps, tb[TCA_BPSHAPER_PEAKRATE64]);
	bpshaper_attr_u32(&c->mtu, tb[TCA_BPSHAPER_MTU]);
	bpshaper_attr_u32(&c->overhead, tb[TCA_BPSHAPER_OVERHEAD]);
	bpshaper_attr_u32(&c->mpu, tb[TCA_BPSHAPER_MPU]);
	bpshaper_attr_u32(&c->linklayer, tb[TCA_BPSHAPER_LINKLAYER]);
	bpshaper_attr_u32(&c->share_min, tb[TCA_BPSHAPER_SHARE_MIN]);
	bpshaper_attr_u32(&c->share_max, tb[TCA_BPSHAPER_SHARE_MAX]);
	bpshaper_attr_u32(&c->backpressure, tb[TCA_BPSHAPER_BACKPRESSURE]);
	bpshaper_attr_u32(&c->pacing, tb[TCA_BPSHAPER_PACING]);
	bpshaper_attr_u64(&c->maxrate_Bps, tb[TCA_BPSHAPER_MAXRATE64]);
	bpshaper_attr_u64(&c->low_rate_Bps,
			  tb[TCA_BPSHAPER_LOW_RATE_THRESHOLD64]);
	bpshaper_attr_u64(&c->horizon_ns, tb[TCA_BPSHAPER_HORIZON]);
	bpshaper_attr_u32(&c->horizon_drop, tb[TCA_BPSHAPER_HORIZON_DROP]);
	bpshaper_attr_u64(&c->ce_threshold_ns, tb[TCA_BPSHAPER_CE_THRESHOLD]);
	bpshaper_attr_u32(&c->timer_slack_ns, tb[TCA_BPSHAPER_TIMER_SLACK]);
	bpshaper_attr_u32(&c->group, tb[TCA_BPSHAPER_GROUP]);
	return bpshaper_config_check(c, extack);
}

static u32 bpshaper_default_memory_limit(void)
{
	u64 bytes = (u64)totalram_pages() << PAGE_SHIFT;

	return clamp_t(u64, bytes >> BPSHAPER_MEMORY_SHIFT,
		       BPSHAPER_MEMORY_FLOOR, BPSHAPER_MEMORY_CEIL);
}

/* A packet of the MTU, as a group counts it. */
static u32 bpshaper_config_packet(const struct bpshaper_config *c, u32 mtu)
{
	return bpshaper_framed_len(mtu, c->overhead, c->mpu,
				   c->linklayer == TC_LINKLAYER_ATM);
}

/* @members of a group may be late with a packet each. */
static u32 bpshaper_config_burst(const struct bpshaper_config *c,
				 const struct bpshaper_rate *r, u32 mtu,
				 u32 members)
{
	u64 burst;

	if (c->burst)
		return c->burst;
	if (members)
		mtu = bpshaper_config_packet(c, mtu);
	burst = max(bpshaper_rate_bytes(r, BPSHAPER_BURST_NS),
		    BPSHAPER_BURST_PKTS * mtu);
	return min_t(u64, burst + (u64)members * mtu, U32_MAX);
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

static void bpshaper_config_set_rate(struct bpshaper_rate *r, u64 Bps)
{
	bpshaper_rate_set(r, Bps == TC_BPSHAPER_RATE_UNLIMITED ? 0 : Bps);
}

static void bpshaper_config_apply_share(struct bpshaper_sched *q,
					const struct bpshaper_config *c,
					u32 mtu)
{
	u32 least = BPSHAPER_SHARE_PKTS * mtu;

	if (c->share_min)
		least = c->share_min;
	else if (c->share_max)
		least = min(least, c->share_max);
	q->share_min = least;
	q->share_max = c->share_max ?: max(least, BPSHAPER_SHARE_MAX);
	q->bp.share_more = least;
	q->bp.share_more_max = q->share_max;
	q->share_sockets = U32_MAX;	/* no count: compute it anew */
}

/* The part that a member of a group of @members may hold, late by a packet of the MTU.
 * False if the burst is too small for that.
 */
static bool bpshaper_config_slot(const struct bpshaper_config *c,
				 struct bpshaper_slot *slot, u32 mtu, u32 members)
{
	struct bpshaper_rate rate;

	bpshaper_config_set_rate(&rate, c->rate_Bps);
	return bpshaper_slot_set(slot, &rate, bpshaper_config_burst(c, &rate, mtu, members),
			  bpshaper_config_packet(c, mtu), members);
}

/* How large a packet may be that is not segmented. */
static u32 bpshaper_config_segment_above(const struct bpshaper_sched *q, u32 mtu)
{
	if (!q->rate.Bps)
		return U32_MAX;
	if (q->is_framed)
		return 0;
	if (q->group)
		return max(mtu, bpshaper_rate_bytes(&q->rate, q->slot.whole_ns));
	return q->peak_rate.Bps ? min(q->burst, q->mtu) : q->burst;
}

/* Some of it is dumped, without the root lock. */
static void bpshaper_config_store(struct bpshaper_config *to,
				  const struct bpshaper_config *from)
{
	WRITE_ONCE(to->rate_Bps, from->rate_Bps);
	WRITE_ONCE(to->peak_Bps, from->peak_Bps);
	WRITE_ONCE(to->latency_ns, from->latency_ns);
	WRITE_ONCE(to->share_min, from->share_min);
	WRITE_ONCE(to->share_max, from->share_max);
	WRITE_ONCE(to->group, from->group);
	to->burst = from->burst;
	to->limit = from->limit;
	to->memory_limit = from->memory_limit;
	to->quantum = from->quantum;
	to->mtu = from->mtu;
	to->overhead = from->overhead;
	to->mpu = from->mpu;
	to->linklayer = from->linklayer;
	to->backpressure = from->backpressure;
	to->pacing = from->pacing;
	to->maxrate_Bps = from->maxrate_Bps;
	to->low_rate_Bps = from->low_rate_Bps;
	to->horizon_ns = from->horizon_ns;
	to->horizon_drop = from->horizon_drop;
	to->ce_threshold_ns = from->ce_threshold_ns;
	to->timer_slack_ns = from->timer_slack_ns;
}

static void bpshaper_config_apply_pacing(struct bpshaper_sched *q,
					 const struct bpshaper_config *c,
					 u32 mtu)
{
	/* Before the others: flows that wait because of what has changed do not wait
	 * for its end, which may be as far as the horizon.
	 */
	if (q->has_pacing != c->pacing || q->maxrate_Bps != c->maxrate_Bps ||
	    q->horizon_ns != c->horizon_ns) {
		q->paced_by++;
		bpshaper_flows_wake(&q->flows, U64_MAX - 1, U32_MAX);
	}
	WRITE_ONCE(q->has_pacing, c->pacing);
	WRITE_ONCE(q->horizon_drop, c->horizon_drop);
	WRITE_ONCE(q->maxrate_Bps, c->maxrate_Bps);
	WRITE_ONCE(q->low_rate_Bps, c->low_rate_Bps);
	WRITE_ONCE(q->horizon_ns, c->horizon_ns);
	WRITE_ONCE(q->ce_threshold_ns, c->ce_threshold_ns);
	WRITE_ONCE(q->timer_slack_ns, c->timer_slack_ns);
	q->pace_bytes = BPSHAPER_PACE_PKTS * mtu;
	q->direct_max = q->segment_above;
	if (c->pacing && (c->maxrate_Bps != TC_BPSHAPER_RATE_UNLIMITED ||
			  c->horizon_drop))
		q->direct_max = 0;
}

/* Everything that could fail has been done; cannot fail and drops nothing. */
static void bpshaper_config_apply(struct Qdisc *sch,
				  const struct bpshaper_config *c)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct net_device *dev = qdisc_dev(sch);
	u32 members = q->group ? q->group->members_len : 0;
	u32 mtu = bpshaper_mtu(dev), window;
	u64 now = ktime_get_ns();

	bpshaper_config_set_rate(&q->rate, c->rate_Bps);
	bpshaper_config_set_rate(&q->peak_rate, c->peak_Bps);
	q->is_special = q->group || q->peak_rate.Bps;
	window = bpshaper_config_burst(c, &q->rate, mtu, members);
	WRITE_ONCE(q->burst, window);
	WRITE_ONCE(q->mtu, c->mtu ?: mtu);
	if (q->group) {
		bpshaper_config_slot(c, &q->slot, mtu, members);
		window = bpshaper_rate_bytes(&q->rate, q->slot.window_ns);
		q->batch_min = bpshaper_config_packet(c, mtu);
	}
	q->batch = min(window / 2,
		       bpshaper_rate_bytes(&q->rate, BPSHAPER_BATCH_NS));
	WRITE_ONCE(q->limit, bpshaper_config_limit(c, &q->rate, q->burst, dev));
	WRITE_ONCE(q->memory_limit,
		   c->memory_limit ?: bpshaper_default_memory_limit());
	q->flows.rank_above = q->memory_limit / BPSHAPER_RANK_PART;
	WRITE_ONCE(q->flows.quantum, c->quantum ?: mtu);
	WRITE_ONCE(q->overhead, c->overhead);
	WRITE_ONCE(q->mpu, c->mpu);
	WRITE_ONCE(q->is_atm, c->linklayer == TC_LINKLAYER_ATM);
	q->is_framed = q->overhead || q->mpu || q->is_atm;
	q->segment_above = bpshaper_config_segment_above(q, mtu);
	bpshaper_config_apply_share(q, c, mtu);
	WRITE_ONCE(q->has_backpressure, c->backpressure);
	if (!q->has_backpressure)
		bpshaper_backpressure_release_all(&q->bp, now);
	bpshaper_bucket_set(&q->bucket, &q->rate, q->burst, now);
	bpshaper_bucket_set(&q->peak, &q->peak_rate, q->mtu, now);
	bpshaper_config_apply_pacing(q, c, mtu);

	bpshaper_config_store(&q->config, c);
}

/* The watchdog sleeps for a batch at the old rate, and flows do not leave while it
 * does: whoever calls this schedules the qdisc afterwards.
 */
static void bpshaper_config_apply_live(struct Qdisc *sch,
				       const struct bpshaper_config *c)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	bpshaper_config_apply(sch, c);
	bpshaper_watchdog_stop(q);
}

/* Groups */

static LIST_HEAD(bpshaper_groups);	/* under RTNL */

static struct bpshaper_group *bpshaper_group_find(const struct net_device *dev,
						  u32 id)
{
	struct bpshaper_group *g;

	ASSERT_RTNL();
	list_for_each_entry(g, &bpshaper_groups, node)
		if (g->dev == dev && g->id == id)
			return g;
	return NULL;
}

/* One without members, that nobody finds yet. */
static struct bpshaper_group *bpshaper_group_create(struct net_device *dev, u32 id)
{
	struct bpshaper_group *g = kzalloc(sizeof(*g), GFP_KERNEL_ACCOUNT);

	if (!g)
		return NULL;
	g->dev = dev;
	g->id = id;
	INIT_LIST_HEAD(&g->node);
	INIT_LIST_HEAD(&g->members);
	return g;
}

static struct bpshaper_line bpshaper_config_line(const struct Qdisc *sch,
						 const struct bpshaper_config *c)
{
	return (struct bpshaper_line) {
		.rate_Bps	= c->rate_Bps,
		.burst		= c->burst,
		.overhead	= c->overhead,
		.mpu		= c->mpu,
		.linklayer	= c->linklayer,
		.mtu		= bpshaper_mtu(qdisc_dev(sch)),
	};
}

static void bpshaper_config_set_line(struct bpshaper_config *c,
				     const struct bpshaper_line *line)
{
	c->rate_Bps = line->rate_Bps;
	c->burst = line->burst;
	c->overhead = line->overhead;
	c->mpu = line->mpu;
	c->linklayer = line->linklayer;
}

static bool bpshaper_line_differs(const struct bpshaper_line *a,
				  const struct bpshaper_line *b)
{
	return a->rate_Bps != b->rate_Bps || a->burst != b->burst ||
	       a->overhead != b->overhead || a->mpu != b->mpu ||
	       a->linklayer != b->linklayer || a->mtu != b->mtu;
}

/* A new member's options: those of the group, and what is given must be the same. */
static int bpshaper_group_join(const struct bpshaper_group *g,
			       struct bpshaper_config *c,
			       struct netlink_ext_ack *extack)
{
	const struct bpshaper_line *line = &g->line;

	if ((c->given & BIT(TCA_BPSHAPER_RATE64) && c->rate_Bps != line->rate_Bps) ||
	    (c->given & BIT(TCA_BPSHAPER_BURST) && c->burst != line->burst)) {
		bpshaper_err_group(extack, g->id, line->rate_Bps * 8, line->burst);
		return -EINVAL;
	}
	if ((c->given & BIT(TCA_BPSHAPER_OVERHEAD) && c->overhead != line->overhead) ||
	    (c->given & BIT(TCA_BPSHAPER_MPU) && c->mpu != line->mpu) ||
	    (c->given & BIT(TCA_BPSHAPER_LINKLAYER) &&
	     c->linklayer != line->linklayer)) {
		bpshaper_err_framing(extack, g->id, line->overhead, line->mpu,
				     line->linklayer == TC_LINKLAYER_ATM);
		return -EINVAL;
	}
	bpshaper_config_set_line(c, line);
	return 0;
}

/* May @c be the options of a group of @members, of this device? */
static int bpshaper_group_check(const struct bpshaper_config *c, u32 mtu, u32 members,
				struct netlink_ext_ack *extack)
{
	struct bpshaper_slot slot;

	if (c->rate_Bps == TC_BPSHAPER_RATE_UNLIMITED) {
		NL_SET_ERR_MSG_MOD(extack, "group needs a rate");
		return -EINVAL;
	}
	if (members > BPSHAPER_MEMBERS_MAX) {
		NL_SET_ERR_MSG_MOD(extack, "a group has 1024 members at most");
		return -EINVAL;
	}
	if (!bpshaper_config_slot(c, &slot, mtu, members)) {
		NL_SET_ERR_MSG_MOD(extack,
				   "burst of a group must hold a packet for each member and one more");
		return -EINVAL;
	}
	return 0;
}

/* How many members there will be with @sch, which is none yet: not the one in its place, which
 * is removed when @sch is there.
 */
static u32 bpshaper_group_members_with(const struct bpshaper_group *g,
				       const struct Qdisc *sch)
{
	const struct bpshaper_sched *q;
	u32 members = g->members_len + 1;

	list_for_each_entry(q, &g->members, group_node)
		members -= q->bp.sch->parent == sch->parent;
	return members;
}

/* Find or make the group that @c names; NULL if it names none. */
static struct bpshaper_group *bpshaper_group_prepare(struct Qdisc *sch,
						     struct bpshaper_config *c,
						     struct netlink_ext_ack *extack)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct net_device *dev = qdisc_dev(sch);
	struct bpshaper_group *g;
	int err = 0;

	if (!c->group)
		return NULL;
	g = bpshaper_group_find(dev, c->group) ?: bpshaper_group_create(dev, c->group);
	if (!g)
		return ERR_PTR(-ENOMEM);
	if (g->members_len && g != q->group)
		err = bpshaper_group_join(g, c, extack);
	if (!err)
		err = bpshaper_group_check(c, bpshaper_mtu(dev), g == q->group ?
					   g->members_len :
					   bpshaper_group_members_with(g, sch),
					   extack);
	if (!err)
		return g;
	if (!g->members_len)
		kfree(g);
	return ERR_PTR(err);
}

/* All members take over the group's options, and the number of members. One that is
 * still in another group is not meant yet.
 */
static void bpshaper_group_apply(struct bpshaper_group *g)
{
	struct bpshaper_config config;
	struct bpshaper_sched *q;
	struct Qdisc *sch;

	list_for_each_entry(q, &g->members, group_node) {
		if (q->group != g)
			continue;
		sch = q->bp.sch;
		config = q->config;
		bpshaper_config_set_line(&config, &g->line);
		sch_tree_lock(sch);
		bpshaper_config_apply_live(sch, &config);
		sch_tree_unlock(sch);
	}
}

static void bpshaper_group_wake(const struct bpshaper_group *g)
{
	struct bpshaper_sched *q;

	list_for_each_entry(q, &g->members, group_node)
		if (READ_ONCE(q->bp.sch->q.qlen))
			__netif_schedule(qdisc_root(q->bp.sch));
}

/* Another line: as for a bucket of one, start with an empty one, and forgive what was owed.
 * Until all members have it nobody holds a part of the old one, or asks for anything.
 */
static void bpshaper_group_close(struct bpshaper_group *g)
{
	struct bpshaper_sched *q;

	atomic64_set(&g->tat_ns, BPSHAPER_LINE_CLOSED);
	list_for_each_entry(q, &g->members, group_node) {
		if (q->group != g)
			continue;
		sch_tree_lock(q->bp.sch);
		memset(&q->slot, 0, sizeof(q->slot));
		sch_tree_unlock(q->bp.sch);
	}
}

static void bpshaper_group_open(struct bpshaper_group *g,
				const struct bpshaper_line *line)
{
	struct bpshaper_sched *q;

	g->line = *line;
	bpshaper_group_apply(g);
	q = list_first_entry(&g->members, struct bpshaper_sched, group_node);
	atomic64_set(&g->tat_ns, ktime_get_ns() + q->slot.window_ns);
	bpshaper_group_wake(g);
}

/* The number of members is another, and perhaps the line. */
static void bpshaper_group_update(struct bpshaper_group *g,
				  const struct bpshaper_line *line)
{
	if (bpshaper_line_differs(&g->line, line)) {
		bpshaper_group_close(g);
		bpshaper_group_open(g, line);
	} else {
		bpshaper_group_apply(g);
		bpshaper_group_wake(g);
	}
}

static void bpshaper_group_add(struct bpshaper_group *g, struct bpshaper_sched *q)
{
	list_add_tail(&q->group_node, &g->members);
	if (!g->members_len++)
		list_add_tail(&g->node, &bpshaper_groups);
}

static void bpshaper_group_del(struct bpshaper_group *g, struct bpshaper_sched *q)
{
	list_del(&q->group_node);
	if (!--g->members_len)
		list_del(&g->node);
}

/* A member has left, and its packets touch @g no more. */
static void bpshaper_group_put(struct bpshaper_group *g)
{
	struct bpshaper_line line = g->line;

	if (!g->members_len) {
		kfree_rcu(g, rcu);
		return;
	}
	line.mtu = bpshaper_mtu(g->dev);
	bpshaper_group_update(g, &line);
}

/* @c is in order and @g is its group, or NULL: nothing here can fail. */
static void bpshaper_configure(struct Qdisc *sch, const struct bpshaper_config *c,
			       struct bpshaper_group *g)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_line line = bpshaper_config_line(sch, c);
	struct bpshaper_group *old = q->group;
	bool has_other_line;

	if (old != g && old)
		bpshaper_group_del(old, q);
	if (old != g && g)
		bpshaper_group_add(g, q);
	has_other_line = g && bpshaper_line_differs(&g->line, &line);
	if (has_other_line)
		bpshaper_group_close(g);
	else if (old != g && g)
		bpshaper_group_apply(g);

	sch_tree_lock(sch);
	if (old != g) {
		if (q->is_waiting)
			bpshaper_group_idle(q);
		memset(&q->slot, 0, sizeof(q->slot));
		q->group = g;
	}
	bpshaper_config_apply_live(sch, c);
	sch_tree_unlock(sch);
	__netif_schedule(qdisc_root(sch));

	if (old != g && old)
		bpshaper_group_put(old);
	if (has_other_line)
		bpshaper_group_open(g, &line);
	else if (old != g && g)
		bpshaper_group_wake(g);
}

static int bpshaper_change(struct Qdisc *sch, struct nlattr *opt,
			   struct netlink_ext_ack *extack)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_config config = q->config;
	struct bpshaper_group *group;
	int err;

	err = bpshaper_config_parse(&config, opt, extack);
	if (err)
		return err;
	group = bpshaper_group_prepare(sch, &config, extack);
	if (IS_ERR(group))
		return PTR_ERR(group);
	bpshaper_configure(sch, &config, group);
	return 0;
}

static int bpshaper_init(struct Qdisc *sch, struct nlattr *opt,
			 struct netlink_ext_ack *extack)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_config config = {
		.rate_Bps	= TC_BPSHAPER_RATE_UNLIMITED,
		.peak_Bps	= TC_BPSHAPER_RATE_UNLIMITED,
		.linklayer	= TC_LINKLAYER_ETHERNET,
		.backpressure	= 1,
		.pacing		= 1,
		.maxrate_Bps	= TC_BPSHAPER_RATE_UNLIMITED,
		.low_rate_Bps	= BPSHAPER_LOW_RATE_BPS,
		.horizon_ns	= BPSHAPER_HORIZON_NS,
		.ce_threshold_ns = TC_BPSHAPER_CE_NEVER,
		.timer_slack_ns	= BPSHAPER_TIMER_SLACK_NS,
	};
	struct bpshaper_group *group;
	struct bpshaper_line line;
	int err;

	q->net = dev_net(qdisc_dev(sch));
	q->flows.dev = qdisc_dev(sch);
	qdisc_watchdog_init(&q->watchdog, sch);
	hrtimer_setup(&q->backstop, bpshaper_backstop, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL);
	bpshaper_backpressure_init(&q->bp, sch);
	bpshaper_pool_init(&q->pool);
	err = bpshaper_flows_init(&q->flows);
	if (err)
		return err;
	if (opt) {
		err = bpshaper_config_parse(&config, opt, extack);
		if (err)
			return err;
	}
	group = bpshaper_group_prepare(sch, &config, extack);
	if (IS_ERR(group))
		return PTR_ERR(group);
	q->group = group;
	if (group)
		bpshaper_group_add(group, q);
	bpshaper_config_apply(sch, &config);
	bpshaper_bucket_fill(&q->bucket);
	bpshaper_bucket_fill(&q->peak);
	if (group) {
		line = bpshaper_config_line(sch, &config);
		bpshaper_group_update(group, &line);
		if (group->members_len == 1)
			atomic64_set(&group->tat_ns, 0);
	}
	/* Since 6.19 concurrent senders defer packets while one of them holds the
	 * queue. This bounds how many, or the sysctl net.core.qdisc_max_burst does.
	 */
	sch->limit = BPSHAPER_DEFER_PKTS;
	return 0;
}

/* Also called after an init() that failed. */
static void bpshaper_destroy(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	qdisc_watchdog_cancel(&q->watchdog);
	hrtimer_cancel(&q->backstop);
	bpshaper_reset(sch);
	kvfree(q->flows.trees);
	if (q->group) {
		bpshaper_group_del(q->group, q);
		bpshaper_group_put(q->group);
	}
}

/* One of the two, as they exclude each other; the limit that follows from a latency
 * is in the statistics.
 */
static int bpshaper_dump_limit(struct sk_buff *skb,
			       const struct bpshaper_sched *q)
{
	u64 latency_ns = READ_ONCE(q->config.latency_ns);

	if (!latency_ns)
		return nla_put_u32(skb, TCA_BPSHAPER_LIMIT,
				   READ_ONCE(q->limit));
	return nla_put_u64_64bit(skb, TCA_BPSHAPER_LATENCY, latency_ns,
				 TCA_BPSHAPER_PAD);
}

/* Only if set: the default of one depends on the other. */
static int bpshaper_dump_share(struct sk_buff *skb, int attr, u32 share)
{
	return share ? nla_put_u32(skb, attr, share) : 0;
}

static int bpshaper_dump_pacing(struct sk_buff *skb,
				const struct bpshaper_sched *q)
{
	return nla_put_u32(skb, TCA_BPSHAPER_PACING, READ_ONCE(q->has_pacing)) ?:
	       nla_put_u64_64bit(skb, TCA_BPSHAPER_MAXRATE64,
				 READ_ONCE(q->maxrate_Bps), TCA_BPSHAPER_PAD) ?:
	       nla_put_u64_64bit(skb, TCA_BPSHAPER_LOW_RATE_THRESHOLD64,
				 READ_ONCE(q->low_rate_Bps), TCA_BPSHAPER_PAD) ?:
	       nla_put_u64_64bit(skb, TCA_BPSHAPER_HORIZON,
				 READ_ONCE(q->horizon_ns), TCA_BPSHAPER_PAD) ?:
	       nla_put_u32(skb, TCA_BPSHAPER_HORIZON_DROP,
			   READ_ONCE(q->horizon_drop)) ?:
	       nla_put_u64_64bit(skb, TCA_BPSHAPER_CE_THRESHOLD,
				 READ_ONCE(q->ce_threshold_ns),
				 TCA_BPSHAPER_PAD) ?:
	       nla_put_u32(skb, TCA_BPSHAPER_TIMER_SLACK,
			   READ_ONCE(q->timer_slack_ns));
}

static int bpshaper_dump_group(struct sk_buff *skb, const struct bpshaper_sched *q)
{
	u32 group = READ_ONCE(q->config.group);

	return group ? nla_put_u32(skb, TCA_BPSHAPER_GROUP, group) : 0;
}

static int bpshaper_dump_options(struct sk_buff *skb,
				 const struct bpshaper_sched *q)
{
	return nla_put_u64_64bit(skb, TCA_BPSHAPER_RATE64,
				 READ_ONCE(q->config.rate_Bps),
				 TCA_BPSHAPER_PAD) ?:
	       nla_put_u32(skb, TCA_BPSHAPER_BURST, READ_ONCE(q->burst)) ?:
	       bpshaper_dump_limit(skb, q) ?:
	       nla_put_u32(skb, TCA_BPSHAPER_MEMORY_LIMIT,
			   READ_ONCE(q->memory_limit)) ?:
	       nla_put_u32(skb, TCA_BPSHAPER_QUANTUM,
			   READ_ONCE(q->flows.quantum)) ?:
	       nla_put_u64_64bit(skb, TCA_BPSHAPER_PEAKRATE64,
				 READ_ONCE(q->config.peak_Bps),
				 TCA_BPSHAPER_PAD) ?:
	       nla_put_u32(skb, TCA_BPSHAPER_MTU, READ_ONCE(q->mtu)) ?:
	       nla_put_u32(skb, TCA_BPSHAPER_OVERHEAD,
			   READ_ONCE(q->overhead)) ?:
	       nla_put_u32(skb, TCA_BPSHAPER_MPU, READ_ONCE(q->mpu)) ?:
	       nla_put_u32(skb, TCA_BPSHAPER_LINKLAYER,
			   READ_ONCE(q->is_atm) ? TC_LINKLAYER_ATM :
						  TC_LINKLAYER_ETHERNET) ?:
	       bpshaper_dump_share(skb, TCA_BPSHAPER_SHARE_MIN,
				   READ_ONCE(q->config.share_min)) ?:
	       bpshaper_dump_share(skb, TCA_BPSHAPER_SHARE_MAX,
				   READ_ONCE(q->config.share_max)) ?:
	       nla_put_u32(skb, TCA_BPSHAPER_BACKPRESSURE,
			   READ_ONCE(q->has_backpressure)) ?:
	       bpshaper_dump_pacing(skb, q) ?:
	       bpshaper_dump_group(skb, q);
}

static int bpshaper_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct nlattr *nest;

	nest = nla_nest_start(skb, TCA_OPTIONS);
	if (!nest)
		return -EMSGSIZE;
	if (bpshaper_dump_options(skb, qdisc_priv(sch))) {
		nla_nest_cancel(skb, nest);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, nest);
}

static void bpshaper_stats_get(struct Qdisc *sch,
			       struct tc_bpshaper_xstats *st)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	const struct bpshaper_backpressure *bp = &q->bp;

	*st = (struct tc_bpshaper_xstats) {
		.type			= TC_BPSHAPER_XSTATS_QDISC,
		.throttles		= bp->stat_throttles,
		.unthrottles		= bp->stat_unthrottles,
		.drops_pool		= q->stat_drops[BPSHAPER_DROP_POOL],
		.drops_memory		= q->stat_drops[BPSHAPER_DROP_MEMORY],
		.drops_alloc		= q->stat_drops[BPSHAPER_DROP_ALLOC],
		.segments		= q->stat_segments,
		.ballast_errors		= bp->stat_ballast_errors,
		.timer_wakeups		= q->stat_timer_wakeups,
		.direct_packets		= q->stat_direct_packets,
		.max_backlog		= q->max_backlog,
		.memory			= bpshaper_memory(q),
		.throttled_sockets	= bp->stat_throttles -
					  bp->stat_unthrottles,
		.overlimit_sockets	= bp->overlimit_len,
		.flows			= q->flows.active,
		.socket_flows		= q->flows.socket_flows,
		.sockets		= q->flows.sockets,
		.share			= bpshaper_share(q),
		.pool_backlog		= q->pool.backlog,
		.limit			= q->limit,
		.parked_flows		= q->flows.parked_len,
		.purged_packets		= q->stat_purged,
		.paced_waits		= q->stat_paced_waits,
		.horizon_caps		= q->stat_horizon_caps,
		.drops_horizon		= q->stat_drops[BPSHAPER_DROP_HORIZON],
		.drops_ack		= q->stat_drops[BPSHAPER_DROP_ACK],
		.drops_segments		= q->stat_drops[BPSHAPER_DROP_SEGMENTS],
		.ce_marks		= q->stat_ce_marks,
		.paced_flows		= q->flows.waiting_len,
	};
	memcpy(st->delay_hist, q->delay_hist, sizeof(st->delay_hist));
	memcpy(st->throttle_hist, bp->throttle_hist,
	       sizeof(st->throttle_hist));
	memcpy(st->lateness_hist, q->lateness_hist,
	       sizeof(st->lateness_hist));
}

/* Tokens in the bucket; below zero, what members have asked for and wait for. */
static void bpshaper_group_stats_get(const struct bpshaper_sched *q,
				     struct tc_bpshaper_xstats *st)
{
	const struct bpshaper_group *g = q->group;
	u64 tat_ns, full_ns, now = ktime_get_ns();

	if (!g)
		return;
	tat_ns = max_t(u64, atomic64_read(&g->tat_ns), now);
	full_ns = now + q->slot.window_ns;
	st->group_tokens = full_ns >= tat_ns ?
		(s64)bpshaper_rate_bytes(&q->rate, full_ns - tat_ns) :
		-(s64)bpshaper_rate_bytes(&q->rate, tat_ns - full_ns);
	st->group_members = g->members_len;
	st->group_waiting = atomic_read(&g->waiting);
}

static int bpshaper_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct tc_bpshaper_xstats st;

	sch_tree_lock(sch);
	bpshaper_assert_all(sch);
	bpshaper_stats_get(sch, &st);
	bpshaper_group_stats_get(qdisc_priv(sch), &st);
	sch_tree_unlock(sch);
	return gnet_stats_copy_app(d, &st, sizeof(st));
}

/* Classes: the flows that hold a backlog, to look at only. What the core takes for
 * the handle of a class is a copy of what there is to say about the flow, made
 * under the root lock and valid for one call of the walker.
 */

/**
 * struct bpshaper_class - a flow as it was
 * @minor: of the class
 * @has_peer: who lists it may see whom others send to
 * @qstats: backlog
 * @xstats: the rest
 */
struct bpshaper_class {
	u32				minor;
	bool				has_peer;
	struct gnet_stats_queue		qstats;
	struct tc_bpshaper_class_xstats	xstats;
};

static u32 bpshaper_class_state(const struct bpshaper_flow *f)
{
	if (!f->socket)
		return TC_BPSHAPER_FLOW_SOCKETLESS;
	return TC_BPSHAPER_FLOW_UNTHROTTLED + f->socket->state;
}

/* The destination port of a packet whose transport header, of @protocol, is at @offset. */
static __be16 bpshaper_skb_port(const struct sk_buff *skb, int offset, u8 protocol)
{
	__be16 buf[2], *ports;

	if (protocol != IPPROTO_UDP && protocol != IPPROTO_UDPLITE &&
	    protocol != IPPROTO_TCP)
		return 0;
	ports = skb_header_pointer(skb, offset, sizeof(buf), buf);
	return ports ? ports[1] : 0;
}

/* To whom the packet goes, if it says so. */
static void bpshaper_class_get_peer(struct tc_bpshaper_class_xstats *st,
				    const struct sk_buff *skb)
{
	int offset = skb_network_offset(skb);
	union {
		struct iphdr	v4;
		struct ipv6hdr	v6;
	} buf, *h;

	if (skb->protocol == htons(ETH_P_IP)) {
		h = skb_header_pointer(skb, offset, sizeof(buf.v4), &buf.v4);
		if (!h)
			return;
		st->peer_family = AF_INET;
		memcpy(st->peer, &h->v4.daddr, sizeof(h->v4.daddr));
		if (!ip_is_fragment(&h->v4))
			st->peer_port = bpshaper_skb_port(skb, offset + h->v4.ihl * 4,
							  h->v4.protocol);
	} else if (skb->protocol == htons(ETH_P_IPV6)) {
		h = skb_header_pointer(skb, offset, sizeof(buf.v6), &buf.v6);
		if (!h)
			return;
		st->peer_family = AF_INET6;
		memcpy(st->peer, &h->v6.daddr, sizeof(h->v6.daddr));
		st->peer_port = bpshaper_skb_port(skb, offset + sizeof(h->v6),
						  h->v6.nexthdr);
	}
}

static void bpshaper_class_get(struct bpshaper_class *cl,
			       const struct bpshaper_flow *f)
{
	struct tc_bpshaper_class_xstats *st = &cl->xstats;
	const struct bpshaper_socket *s = f->socket;

	cl->qstats.qlen = f->qlen;
	cl->qstats.backlog = f->backlog;
	st->type = TC_BPSHAPER_XSTATS_CLASS;
	st->state = bpshaper_class_state(f);
	st->deficit = f->deficit;
	st->hash = f->key.hash;
	if (cl->has_peer)
		bpshaper_class_get_peer(st, f->head);
	if (!s)
		return;
	st->cookie = bpshaper_sock_cookie(s->sk);
	st->family = s->sk->sk_family;
	st->protocol = s->sk->sk_family == PF_PACKET ? 0 : s->sk->sk_protocol;
	st->throttles = s->throttles;
	st->longest_throttle_ns = s->longest_ns;
	if (s->state == BPSHAPER_THROTTLED)
		st->longest_throttle_ns = max(s->longest_ns,
					      ktime_get_ns() - s->throttled_ns);
	st->socket_flows = s->flows;
	st->socket_backlog = bpshaper_socket_due(s);
}

/* The class behind the cursor; false at the end. Whoever may list can do it in a loop: the
 * lock is held for a bounded number of steps, whatever the table looks like.
 */
static noinline bool bpshaper_class_next(struct Qdisc *sch, struct bpshaper_class *cl,
					 struct bpshaper_cursor *cursor, bool has_peer)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_flow *f;

	memset(cl, 0, sizeof(*cl));
	cl->has_peer = has_peer;
	do {
		sch_tree_lock(sch);
		f = bpshaper_flows_after(&q->flows, cursor);
		if (f)
			bpshaper_class_get(cl, f);
		sch_tree_unlock(sch);
	} while (!f && !bpshaper_cursor_is_at_end(cursor));
	return f;
}

/* A listing takes many calls, each of which skips what the ones before have seen.
 * The cursor saves the search for the place.
 */
static void bpshaper_walk(struct Qdisc *sch, struct qdisc_walker *arg)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_cursor cursor = {};
	struct bpshaper_class cl;
	bool has_peer;

	if (arg->stop)
		return;
	/* Of who reads: a walker is not told who opened the netlink socket. */
	has_peer = ns_capable_noaudit(q->net->user_ns, CAP_NET_ADMIN);
	if (arg->skip && arg->skip == q->cursor_count) {
		cursor = q->cursor;
		arg->count = arg->skip;
	}
	q->cursor = cursor;
	while (bpshaper_class_next(sch, &cl, &cursor, has_peer)) {
		cl.minor = arg->count % TC_H_MIN_MASK + 1;
		if (arg->count >= arg->skip &&
		    arg->fn(sch, (unsigned long)&cl, arg) < 0) {
			arg->stop = 1;
			break;
		}
		arg->count++;
		q->cursor = cursor;
	}
	q->cursor_count = arg->count;
}

static int bpshaper_dump_class(struct Qdisc *sch, unsigned long cl,
			       struct sk_buff *skb, struct tcmsg *tcm)
{
	tcm->tcm_handle |= ((struct bpshaper_class *)cl)->minor;
	return 0;
}

static int bpshaper_dump_class_stats(struct Qdisc *sch, unsigned long arg,
				     struct gnet_dump *d)
{
	struct bpshaper_class *cl = (struct bpshaper_class *)arg;

	if (gnet_stats_copy_queue(d, NULL, &cl->qstats, cl->qstats.qlen) < 0)
		return -1;
	return gnet_stats_copy_app(d, &cl->xstats, sizeof(cl->xstats));
}

static struct Qdisc *bpshaper_leaf(struct Qdisc *sch, unsigned long arg)
{
	return NULL;
}

static unsigned long bpshaper_find(struct Qdisc *sch, u32 classid)
{
	return 0;
}

static const struct Qdisc_class_ops bpshaper_class_ops = {
	.leaf		= bpshaper_leaf,
	.find		= bpshaper_find,
	.walk		= bpshaper_walk,
	.dump		= bpshaper_dump_class,
	.dump_stats	= bpshaper_dump_class_stats,
};

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
	int err;

	bpshaper_flow_cachep = KMEM_CACHE(bpshaper_flow, 0);
	if (!bpshaper_flow_cachep)
		return -ENOMEM;
	err = -ENOMEM;
	bpshaper_socket_cachep = KMEM_CACHE(bpshaper_socket, 0);
	if (!bpshaper_socket_cachep)
		goto err_flow;
	err = register_qdisc(&bpshaper_qdisc_ops);
	if (err)
		goto err_socket;
	return 0;

err_socket:
	kmem_cache_destroy(bpshaper_socket_cachep);
err_flow:
	kmem_cache_destroy(bpshaper_flow_cachep);
	return err;
}

static void __exit bpshaper_module_exit(void)
{
	unregister_qdisc(&bpshaper_qdisc_ops);
	kmem_cache_destroy(bpshaper_socket_cachep);
	kmem_cache_destroy(bpshaper_flow_cachep);
}

module_init(bpshaper_module_init);
module_exit(bpshaper_module_exit);
MODULE_ALIAS_NET_SCH("bpshaper");
MODULE_AUTHOR("The bpshaper developers");
MODULE_DESCRIPTION("Shaper that throttles sockets instead of dropping packets");
MODULE_LICENSE("GPL");
