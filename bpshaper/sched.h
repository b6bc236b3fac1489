/* SPDX-License-Identifier: GPL-2.0-only */
/* Private data: leaves, classes and the qdisc; limits and shares. */
#ifndef _BPSHAPER_SCHED_H
#define _BPSHAPER_SCHED_H

/* Leaves: what has packets.
 *
 * A qdisc has a leaf of its own, and one for each class without children; that
 * of a class that gets children stays, without packets. Each leaf has flows and
 * sockets that it throttles, and divides among them what it may send. Packets
 * without a throttleable socket, forwarded ones for instance, are its pool:
 * flows by packet hash, of which a limit bounds the bytes.
 */

struct bpshaper_sched;

/**
 * struct bpshaper_backpressure - sockets of a qdisc that hold too much
 * @sch: the qdisc
 * @flows: its flows, which have the turns
 * @is_on: sockets are throttled
 * @overlimit: sockets in state OVERLIMIT
 * @throttled: sockets in state THROTTLED
 * @overlimit_len: sockets on @overlimit
 * @share: share of a socket that takes turns, for the next two, bytes
 * @flow_share: share of one that does not and has one flow, likewise
 * @share_sockets: number of sockets
 * @share_limit: limit that they share, bytes
 * @share_min: least share of a socket that takes turns, unless it exceeds half
 *	of the limit, bytes
 * @peer_min: least share of one that does not, and least that a further peer
 *	adds, bytes
 * @share_max: largest share, also for each further peer, bytes
 * @release_divisor: part of its share at which a socket is released
 */
struct bpshaper_backpressure {
	struct Qdisc		*sch;
	struct bpshaper_flows	*flows;
	bool			is_on;
	struct list_head	overlimit;
	struct list_head	throttled;
	u32			overlimit_len;
	u32			share;
	u32			flow_share;
	u32			share_sockets;
	u32			share_limit;
	u32			share_min;
	u32			peer_min;
	u32			share_max;
	u32			release_divisor;
};

/**
 * struct bpshaper_leaf - flows that share what the leaf may send
 * @q: the qdisc
 * @flows: flows and their order
 * @bp: overlimit and throttled sockets
 * @tick: in the tree of leaves by when the timer of turns is to look at them,
 *	CLOCK_MONOTONIC (hold.h, down to @is_ticking)
 * @is_ticking: it is in that tree
 * @marks: which packets are marked (dequeue.h)
 * @slot: what it may send, if there is a hub; it has a member then (hub.h)
 * @overlimit_node: on the list of leaves with overlimit sockets, with classes
 *	(hold.h)
 * @limit_set: bytes that may wait, or 0: @latency_ns decides (class.h,
 *	down to @latency_ns)
 * @latency_ns: what it gets in that time may wait; 0: that of the qdisc
 * @limit: bytes that may wait, with classes (sched.h, down to
 *	@ran_empty)
 * @Bps: what it is taken to get, bytes per second
 * @sent_ns: when it sent last, CLOCK_MONOTONIC
 * @sample_ns: since when @sample_bytes counts
 * @sample_bytes: bytes that it has sent
 * @ran_empty: it had no backlog at some time in the sample
 * @is_new: it has begun, and nothing has been measured since
 * @stat_bytes: bytes that it and its children have sent, of a class
 * @stat_packets: packets on the wire, likewise
 */
struct bpshaper_leaf {
	struct bpshaper_sched	*q;
	struct bpshaper_flows	flows;
	struct bpshaper_backpressure bp;
	struct bpshaper_tag	tick;
	bool			is_ticking;
	struct bpshaper_marks	marks;

	struct bpshaper_slot	slot;
	struct list_head	overlimit_node;
	u32			limit_set;
	u64			latency_ns;
	u32			limit;
	u64			Bps;
	u64			sent_ns;
	u64			sample_ns;
	u32			sample_bytes;
	bool			ran_empty;
	bool			is_new;
	u64			stat_bytes;
	u64			stat_packets;
};

/* The leaf of a flow. */
static inline struct bpshaper_leaf *
bpshaper_flow_leaf(const struct bpshaper_flow *f)
{
	return container_of(f->flows, struct bpshaper_leaf, flows);
}

static void bpshaper_leaf_init(struct bpshaper_leaf *l,
			       struct bpshaper_sched *q, struct Qdisc *sch,
			       struct bpshaper_table *table)
{
	l->q = q;
	INIT_LIST_HEAD(&l->overlimit_node);
	INIT_LIST_HEAD(&l->bp.overlimit);
	INIT_LIST_HEAD(&l->bp.throttled);
	l->bp.sch = sch;
	l->bp.flows = &l->flows;
	bpshaper_flows_init(&l->flows, table);
}

/**
 * struct bpshaper_class - a class, or what a queue has of it
 * @common: its number, and its place in the hash table
 * @list: its place on the list of classes
 * @node: its place in the tree; from here on of @whole
 * @own: what it has queued itself, which is nothing while it has children, and
 *	what it has counted
 * @whole: the class that this is one queue's part of, or this one
 * @parent: NULL below the qdisc
 * @children: their number
 * @refs: filters that refer to it; from here on of @whole
 * @floors_Bps: sums of its children, without and with overcommit, bytes per
 *	second
 * @filters: that classify packets further, if it has children
 * @block: of @filters
 * @config: the options as asked for, under RTNL
 * @burst: bytes, as asked for or derived
 */
struct bpshaper_class {
	struct Qdisc_class_common common;
	struct list_head	list;
	struct bpshaper_node	node;
	struct bpshaper_leaf	own;
	struct bpshaper_class	*whole;
	struct bpshaper_class	*parent;
	u32			children;
	u32			refs;
	u64			floors_Bps[2];
	struct tcf_proto __rcu	*filters;
	struct tcf_block	*block;
	struct bpshaper_class_config config;
	u32			burst;
};

/* The qdisc's private data, and the accounts of the qdisc as a whole. */

/**
 * struct bpshaper_sched - private data of the qdisc
 * @rate: of the bucket; Bps is 0 when unlimited
 * @segment_above: bytes; larger GSO packets are segmented
 * @direct_max: bytes; larger packets take the slow path, and all if it is 0
 * @wire: how the link frames packets
 * @batch: bytes that may leave when the watchdog fires, if there are as many
 * @limit: bytes, of the pool, and of the shares of all sockets together;
 *	without classes; with them each leaf has one
 * @pacing: how packets are paced
 * @peak_rate: of the second bucket; Bps is 0 when there is none
 * @net: namespace of the device; a device that moves takes no qdisc along
 * @direct: a packet that found the qdisc empty; it is in no flow
 * @direct_ns: when @direct was first seen to wait, or 0
 * @direct_leaf: that @direct is of
 * @bucket: tokens, unless a hub has them
 * @peak: tokens of the peak rate
 * @undrained: packets enqueued since the last call of dequeue, or since the
 *	qdisc was empty
 * @uncounted: segments enqueued that the parents do not know of yet
 * @was_armed: the watchdog was armed and has not been seen to have fired
 * @is_armed_for_tokens: @watchdog was armed last because tokens were missing,
 *	not only for a time; stale once @was_armed is false
 * @max_backlog: largest sch->qstats.backlog seen, bytes
 * @stat_direct_packets: packets that left as @direct
 * @hub: of the queue, or of its queues; NULL if it has one, and has had no
 *	classes
 * @table: what all flows share
 * @own: flows of the qdisc itself, those of no class
 * @clhash: classes by number
 * @classes: all of them
 * @filters: that classify, drop or take packets
 * @block: of @filters
 * @floors_Bps: sums of all classes without a parent, without and with
 *	overcommit, bytes per second
 * @overlimit: leaves with overlimit sockets, with classes
 * @default_minor: class of packets that have no other, or 0
 * @mtu: one packet of the MTU, bytes
 * @latency_ns: time that @limit takes
 * @ticking: leaves that the timer of turns is to look at, by time
 *	(hold.h)
 * @watchdog: wakes the qdisc when a batch may leave or a flow is due
 * @backstop: wakes it now and then while it has a backlog
 * @turn_timer: gives and ends turns, and finds closed sockets outside
 *	(hold.h)
 * @turn_lock: excludes @turn_timer and reset(), which has no root lock when the
 *	qdisc is destroyed
 * @wake_ns: when @watchdog is due, CLOCK_MONOTONIC
 * @stat_timer_wakeups: times that @watchdog fired
 * @stat_purged: packets freed by reset, and with classes (class.h)
 * @stat_segments: packets made by segmentation
 * @stat_unheld: packets that came into a pool while backpressure is on, by enum
 *	bpshaper_unheld (enqueue.h)
 * @lateness_hist: firings of @watchdog by their lateness
 * @config: the options as asked for, under RTNL
 * @effective: the options as dumped: with derived defaults, but with shares
 *	only if set, and with limit 0 if latency is set
 * @cursor: behind the flow that was listed as a class last
 * @cursor_count: classes and flows listed before it
 * @top: the qdisc that this is a queue of (queues.h), or this one
 * @queues: its queues, one for each transmit queue of the device, and NULL
 *	behind the last; or NULL
 * @member: what the hub knows of it, if it has packets itself
 * @csd: wakes it on @cpu
 * @is_called: 1 until that runs
 * @cpu: where it sent last
 */
struct bpshaper_sched {
	struct bpshaper_rate	rate;
	u32			segment_above;
	u32			direct_max;
	struct bpshaper_wire	wire;
	u32			batch;
	u32			limit;
	struct bpshaper_pacing	pacing;
	struct bpshaper_rate	peak_rate;
	const struct net	*net;

	struct sk_buff		*direct ____cacheline_aligned_in_smp;
	u64			direct_ns;
	struct bpshaper_leaf	*direct_leaf;
	struct bpshaper_bucket	bucket;
	struct bpshaper_bucket	peak;
	u32			undrained;
	u32			uncounted;
	bool			was_armed;
	bool			is_armed_for_tokens;
	u64			max_backlog;
	u64			stat_direct_packets;
	struct bpshaper_hub	*hub;

	struct bpshaper_table	table;
	struct bpshaper_leaf	own;
	struct Qdisc_class_hash	clhash;
	struct list_head	classes;
	struct tcf_proto __rcu	*filters;
	struct tcf_block	*block;
	u64			floors_Bps[2];
	struct list_head	overlimit;
	u32			default_minor;
	u32			mtu;
	u64			latency_ns;
	struct rb_root_cached	ticking;
	struct qdisc_watchdog	watchdog;
	struct hrtimer		backstop;
	struct hrtimer		turn_timer;
	spinlock_t		turn_lock; /* see above */
	u64			wake_ns;
	u64			stat_timer_wakeups;

	u64			stat_purged;
	u64			stat_segments;
	u64			stat_unheld[BPSHAPER_UNHELD_REASONS];
	u64			lateness_hist[TC_BPSHAPER_HIST_BUCKETS];
	struct bpshaper_config	config;
	struct bpshaper_config	effective;
	struct bpshaper_cursor	cursor;
	unsigned long		cursor_count;
	struct Qdisc		*top;
	struct Qdisc		**queues;
	struct bpshaper_member	member;
	call_single_data_t	csd;
	u32			is_called;
	int			cpu;
};

/**
 * struct bpshaper_shared - what a qdisc with classes, or its queues, share
 * @hub: divides the rate
 * @own: above the leaves of the qdisc itself, which are of no class
 * @timer: of the hub
 */
struct bpshaper_shared {
	struct bpshaper_hub	hub;
	struct bpshaper_node	own;
	struct hrtimer		timer;
};

static inline struct bpshaper_shared *
bpshaper_sched_shared(const struct bpshaper_sched *q)
{
	return container_of(q->hub, struct bpshaper_shared, hub);
}

/* What the hub needs of the kernel */

static u64 bpshaper_hub_now(void)
{
	return ktime_get_ns();
}

static void bpshaper_hub_arm(struct bpshaper_hub *hub, u64 at)
{
	struct bpshaper_shared *shared = container_of(hub,
						      struct bpshaper_shared,
						      hub);

	hrtimer_start(&shared->timer, ns_to_ktime(at),
		      HRTIMER_MODE_ABS_PINNED_HARD);
}

static void bpshaper_wake_here(const struct bpshaper_sched *q)
{
	rcu_read_lock();
	__netif_schedule(qdisc_root(q->own.bp.sch));
	rcu_read_unlock();
}

static void bpshaper_called(void *info)
{
	struct bpshaper_sched *q = info;

	WRITE_ONCE(q->is_called, 0);	/* the next one may use @csd */
	bpshaper_wake_here(q);
}

/* Wake the queue where it sent last: otherwise one CPU would send for all. With
 * PREEMPT_RT a remote call must not raise a softirq: it finds an idle CPU
 * outside of interrupts. Two holders may wake it at once, and the kernel leaves
 * it to callers that one of them uses @csd.
 */
static void bpshaper_member_wake(struct bpshaper_member *m)
{
	struct bpshaper_sched *q = container_of(m, struct bpshaper_sched,
						member);
	int cpu = READ_ONCE(q->cpu);

	if (IS_ENABLED(CONFIG_PREEMPT_RT) || cpu == raw_smp_processor_id()) {
		bpshaper_wake_here(q);
		return;
	}
	if (!xchg(&q->is_called, 1) &&
	    smp_call_function_single_async(cpu, &q->csd))	/* offline */
		bpshaper_called(q);
}

/* Are there classes? */
static inline bool bpshaper_has_classes(const struct bpshaper_sched *q)
{
	return q->clhash.hashelems;
}

/* The qdisc itself, or its queues, by @i from 0; NULL after the last. */
static inline struct Qdisc *bpshaper_queue(struct Qdisc *sch, u32 i)
{
	const struct bpshaper_sched *q = qdisc_priv(sch);

	if (!q->queues)
		return i ? NULL : sch;
	return q->queues[i];
}

/* Is the qdisc one of the queues of another? */
static inline bool bpshaper_is_queue(const struct bpshaper_sched *q)
{
	return q->top != q->own.bp.sch;
}

/* May a packet go elsewhere than to the leaf of the qdisc? */
static inline bool bpshaper_must_choose(const struct bpshaper_sched *q)
{
	return bpshaper_has_classes(q) || rcu_access_pointer(q->filters);
}

/* The backlogs of the flows, of the direct packet, and of packets that a parent
 * has peeked at or the core has put back add up to sch->qstats.backlog at every
 * return to the caller.
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

static int bpshaper_drop(struct Qdisc *sch, struct bpshaper_leaf *l,
			 struct sk_buff *skb, struct sk_buff **to_free,
			 enum bpshaper_drop reason)
{
	trace_drop(sch, skb, reason);
	l->flows.stat.drops[reason]++;
	if (reason == BPSHAPER_DROP_ALLOC)
		bpshaper_set_drop_nomem(skb);
	else if (reason == BPSHAPER_DROP_POOL || reason == BPSHAPER_DROP_MEMORY)
		bpshaper_set_drop_overlimit(skb);
	return qdisc_drop(skb, sch, to_free);
}

/* Limits: what may wait in a leaf?
 *
 * Without classes the limit of the qdisc is that of its only leaf. With classes
 * each leaf may hold what it gets in the latency, so that the limits of all add
 * up to about that of the qdisc and packets are as old as without classes. What
 * a leaf gets is measured while it has a backlog. From when it begins to its
 * first measure, and while it runs empty now and then, it is taken to get what
 * it would get if all that have a backlog were greedy.
 */

#define BPSHAPER_SAMPLE_NS	(10 * NSEC_PER_MSEC)
#define BPSHAPER_SAMPLE_PKTS	8	/* of the MTU, in a sample, or longer */
#define BPSHAPER_SAMPLE_MAX_NS	(100 * NSEC_PER_MSEC)
#define BPSHAPER_LEAF_PKTS	2	/* least limit of a leaf, packets */
#define BPSHAPER_LIMIT_PKTS	8	/* a pool that TCP can recover in */
#define BPSHAPER_TURN_NS	NSEC_PER_MSEC
#define BPSHAPER_SHARE_PKTS	16	/* of a turn; see defaults.rst */
#define BPSHAPER_BURSTS_MAX	(192U << 10)	/* bytes; see defaults.rst */
#define BPSHAPER_SHARE_MAX	65536U	/* bytes; share_min raises it */
#define BPSHAPER_PEER_PKTS	2	/* one on its way, one after */
#define BPSHAPER_PEERS_MAX	1024	/* peers that raise a share */
#define BPSHAPER_RELEASE_DIVISOR 4	/* of the share; see design.rst */

/* A queue has a part of a limit, as of the rate, but two packets at least. What
 * is read of a tree of several queues here, and for what a leaf expects, is a
 * hint: others change it meanwhile.
 */
static inline u32 bpshaper_leaf_part(const struct bpshaper_leaf *l, u32 limit)
{
	const struct bpshaper_entity *e = &l->slot.e;
	u64 mine, all;
	u32 part;

	if (likely(!bpshaper_is_queue(l->q)))
		return limit;
	mine = READ_ONCE(e->weight);
	/* a hint */
	all = data_race(e->parent->weights[0] + (e->is_offering ? 0 : mine));
	part = div64_u64(limit * mine, max(all, mine));
	return max(part, min(limit, 2 * l->q->mtu));
}

/* What may wait in the leaf, bytes. */
static inline u32 bpshaper_limit(const struct bpshaper_leaf *l)
{
	if (unlikely(bpshaper_has_classes(l->q)))
		return l->limit;
	return bpshaper_leaf_part(l, l->q->limit);
}

/* What may wait in its pool. */
static inline u32 bpshaper_pool_limit(const struct bpshaper_leaf *l)
{
	if (unlikely(bpshaper_has_classes(l->q)) && !l->limit_set)
		return max(l->limit, min(BPSHAPER_LIMIT_PKTS * l->q->mtu,
					 l->q->limit));
	return bpshaper_limit(l);
}

/* Sockets that share the limit: those with a backlog, outside, or with a turn.
 */
static inline u32 bpshaper_contenders(const struct bpshaper_leaf *l)
{
	return l->flows.sockets + l->flows.turns.kept;
}

/* The share of a socket with one flow is a part of the limit, equal for all. An
 * unconnected socket has room for two of its largest packets more for each
 * further peer that it has a flow for, parked or not: as much as a peer needs
 * to be served in turn. BPSHAPER_PEERS_MAX peers count at most.
 */

static void bpshaper_share_set_bounds(struct bpshaper_backpressure *bp,
				      u32 share_min, u32 peer_min,
				      u32 share_max)
{
	bp->share_min = share_min;
	bp->peer_min = peer_min;
	bp->share_max = share_max;
	bp->share_sockets = U32_MAX;	/* never a count: compute it anew */
}

/* The share of a socket that takes turns, of @sockets that share @limit: half
 * of a small one at least, which a queue may have of the limit of all.
 */
static inline u32
bpshaper_share_compute(const struct bpshaper_backpressure *bp, u32 limit,
		       u32 sockets)
{
	u32 least = min(bp->share_min, max(limit / 2, bp->peer_min));

	return clamp(limit / max(sockets, 1U), least, bp->share_max);
}

/* The same, and that of others, remembered: most packets find @limit and
 * @sockets unchanged.
 */
static inline u32 bpshaper_share_update(struct bpshaper_backpressure *bp,
					u32 limit, u32 sockets)
{
	if (bp->share_sockets != sockets || bp->share_limit != limit) {
		bp->share_sockets = sockets;
		bp->share_limit = limit;
		bp->share = bpshaper_share_compute(bp, limit, sockets);
		bp->flow_share = clamp(limit / max(sockets, 1U), bp->peer_min,
				       bp->share_max);
	}
	return bp->share;
}

/* Room for two packets of each peer, one on its way and one to follow it. Peers
 * without a packet count, too: else the first peers that the socket sends to
 * would leave no room for the others.
 */
static noinline u32
bpshaper_peers_share(const struct bpshaper_backpressure *bp,
		     const struct bpshaper_socket *s, u32 share)
{
	u32 peers = clamp_t(u32, s->peers, 1, BPSHAPER_PEERS_MAX);
	u32 more = clamp_t(u64, 2ULL * s->largest, bp->peer_min,
			   bp->share_max);

	return min_t(u64, max(share, more) + (peers - 1ULL) * more,
		     U32_MAX);
}

static inline u32
bpshaper_socket_share(const struct bpshaper_backpressure *bp,
		      const struct bpshaper_socket *s)
{
	u32 share = likely(bpshaper_socket_takes_turns(s)) ? bp->share :
							     bp->flow_share;

	return unlikely(s->is_by_peer) ? bpshaper_peers_share(bp, s, share) :
					 share;
}

static u64 bpshaper_root_Bps(const struct bpshaper_sched *q)
{
	return q->rate.Bps ?: TC_BPSHAPER_RATE_MAX;
}

/* TC_BPSHAPER_RATE_MAX if neither the qdisc nor a class bounds it. */
static u64 bpshaper_leaf_most_Bps(const struct bpshaper_leaf *l)
{
	u64 Bps = bpshaper_root_Bps(l->q);
	const struct bpshaper_node *n;

	for (n = l->slot.e.parent; n; n = n->e.parent)
		if (n->ceil.Bps)
			Bps = min(Bps, n->ceil.Bps);
	return Bps;
}

/* Does nothing but the device bound it? Then it may drain in batches: a tun
 * that wakes its queue when half of its ring has been read takes half of the
 * limit.
 */
static bool bpshaper_leaf_is_unbounded(const struct bpshaper_leaf *l)
{
	return bpshaper_leaf_most_Bps(l) >= TC_BPSHAPER_RATE_MAX;
}

/* Its limit is @limit bytes, which take @limit_ns; 0 if its rate is unlimited.
 * A turn is what leaves in BPSHAPER_TURN_NS, so that sockets are woken as often
 * at all rates.
 */
static void bpshaper_leaf_apply_limit(struct bpshaper_leaf *l, u32 limit,
				      u64 limit_ns)
{
	const struct bpshaper_config *c = &l->q->config;
	u32 mtu = l->q->mtu;
	u32 peer_min = c->share_min ?: BPSHAPER_PEER_PKTS * mtu;
	u32 bursts = l->limit_set ?: c->limit ?: BPSHAPER_BURSTS_MAX;
	bool is_unbounded = bpshaper_leaf_is_unbounded(l);
	u32 share_min = c->share_min, share_max;
	u64 turn = limit / 2;

	if (limit_ns > 2 * BPSHAPER_TURN_NS)
		turn = div64_u64((u64)limit * BPSHAPER_TURN_NS, limit_ns);
	if (!share_min)
		share_min = clamp_t(u64, turn, BPSHAPER_PEER_PKTS * mtu,
				    BPSHAPER_SHARE_PKTS * mtu);
	share_max = max(share_min, is_unbounded ? limit : BPSHAPER_SHARE_MAX);
	l->flows.turns.bursts_most = min(bursts, BPSHAPER_BURSTS_MAX);
	bpshaper_share_set_bounds(&l->bp, share_min, min(peer_min, share_max),
				  share_max);
	l->bp.release_divisor = is_unbounded ? 2 : BPSHAPER_RELEASE_DIVISOR;
	bpshaper_turns_configure(&l->flows.turns, limit_ns);
	limit_ns = limit_ns ?: TC_BPSHAPER_LATENCY_DEFAULT;
	bpshaper_marks_configure(&l->marks, c->ce_threshold_ns, limit_ns);
}

/* The leaf, which has classes beside it, is taken to get @Bps. */
static void bpshaper_leaf_set_Bps(struct bpshaper_leaf *l, u64 Bps)
{
	const struct bpshaper_sched *q = l->q;
	u64 limit;

	l->Bps = Bps;
	if (l->limit_set)
		limit = bpshaper_leaf_part(l, l->limit_set);
	else if (bpshaper_leaf_is_unbounded(l))
		limit = bpshaper_leaf_part(l, q->limit); /* device decides */
	else
		limit = bpshaper_Bps_bytes(Bps, l->latency_ns ?: q->latency_ns);
	limit = clamp_t(u64, limit, BPSHAPER_LEAF_PKTS * q->mtu, U32_MAX);
	l->limit = limit;
	bpshaper_leaf_apply_limit(l, limit,
				  div64_u64(limit * NSEC_PER_SEC,
					    max(Bps, 1ULL)));
}

static u64 bpshaper_leaf_expected_Bps(const struct bpshaper_leaf *l)
{
	/* a hint */
	return data_race(bpshaper_entity_expected_Bps(&l->slot.e,
						      bpshaper_root_Bps(l->q)));
}

/* What its limit follows from has changed. */
static void bpshaper_leaf_renew_limit(struct bpshaper_leaf *l)
{
	u64 Bps = l->Bps ?: bpshaper_leaf_expected_Bps(l);

	bpshaper_leaf_set_Bps(l, min(Bps, bpshaper_leaf_most_Bps(l)));
}

static void bpshaper_leaf_start_sample(struct bpshaper_leaf *l, u64 now)
{
	l->sample_ns = now;
	l->sample_bytes = 0;
	l->ran_empty = false;
}

/* A sample has ended. */
static noinline void bpshaper_leaf_measure(struct bpshaper_leaf *l, u64 now)
{
	u64 ns = now - l->sample_ns, Bps;

	if (l->sample_bytes / BPSHAPER_SAMPLE_PKTS < l->flows.quantum &&
	    ns < BPSHAPER_SAMPLE_MAX_NS)
		return;
	Bps = div64_u64((u64)l->sample_bytes * NSEC_PER_SEC, ns);
	Bps = min(Bps, bpshaper_leaf_most_Bps(l));
	if (l->ran_empty)
		Bps = max(Bps, bpshaper_leaf_expected_Bps(l));
	bpshaper_leaf_start_sample(l, now);
	l->is_new = false;
	bpshaper_leaf_set_Bps(l, (l->Bps + Bps) / 2);
}

/* Above how many bytes must a GSO packet of the leaf be segmented? With several
 * queues a burst is for a few of them.
 */
static u32 bpshaper_leaf_segment_above(const struct bpshaper_leaf *l)
{
	const struct bpshaper_sched *q = l->q;
	u32 bytes = q->segment_above, burst;
	const struct bpshaper_node *n;

	for (n = l->slot.e.parent; n && n->e.parent; n = n->e.parent) {
		if (!n->ceil.Bps)
			continue;
		burst = bpshaper_is_queue(q) ?
			max(q->mtu, n->e.burst / BPSHAPER_HUB_PARTS) :
			n->e.burst;
		bytes = q->wire.is_framed ? 0 : min(bytes, burst);
	}
	return bytes;
}

/* Hub: what a leaf may send is in its slot. */

/* Its packets or flows have changed: tell where the slot stands, and what it
 * wants.
 */
static noinline void bpshaper_leaf_update_slot(struct bpshaper_leaf *l, u64 now)
{
	struct bpshaper_flows *flows = &l->flows;
	struct bpshaper_slot *s = &l->slot;
	u32 due = flows->backlog - flows->later, len;
	struct bpshaper_flow *f;
	u64 Bps;

	flows->vtime = bpshaper_slot_vtime(s);
	flows->least = s->least;
	f = bpshaper_flows_next(flows);
	if (!f) {
		bpshaper_slot_set(s, 0, 0, 0, 0, 0);
		return;
	}
	if (bpshaper_has_classes(l->q)) {
		if (!s->want) {
			l->ran_empty = true;
			if (now - l->sent_ns > BPSHAPER_SAMPLE_NS) {
				bpshaper_leaf_start_sample(l, now);
				l->Bps = 0;	/* set the limit anew */
				l->is_new = true;
			}
		}
		/* Others may have begun beside it, or ended. */
		if (l->is_new) {
			Bps = bpshaper_leaf_expected_Bps(l);
			if (Bps != l->Bps)
				bpshaper_leaf_set_Bps(l, Bps);
		}
	}
	len = bpshaper_wire_len(&l->q->wire, f->head);
	WRITE_ONCE(s->has_come, f->sent < BPSHAPER_CREDIT_PKTS);
	WRITE_ONCE(s->flows, max(flows->active, bpshaper_contenders(l)));
	bpshaper_slot_set(s, max(due, len), max(f->backlog - f->later, len),
			  len, bpshaper_flow_place(f),
			  bpshaper_flow_next_place(f));
}

/* A packet of the leaf has come or gone, or a flow of it waits or has waited.
 */
static inline void bpshaper_leaf_update(struct bpshaper_leaf *l, u64 now)
{
	if (unlikely(l->slot.member))
		bpshaper_leaf_update_slot(l, now);
}

/* The class of the leaf; 0 if it is that of the qdisc. */
static u32 bpshaper_leaf_classid(const struct bpshaper_leaf *l)
{
	return l == &l->q->own ? 0 :
	       container_of(l, struct bpshaper_class, own)->common.classid;
}

/* The leaf has a slot below @above from now on, which gets its virtual time. */
static void bpshaper_leaf_share(struct bpshaper_leaf *l,
				struct bpshaper_node *above)
{
	struct bpshaper_sched *q = l->q;

	bpshaper_slot_join(&l->slot, &q->member, above);
	l->flows.is_shared = true;
	bpshaper_entity_advance(&l->slot.e, l->flows.vtime);
}

/* Take the bytes of a packet of @len; false if there are too few. */
static bool bpshaper_leaf_take(struct Qdisc *sch, struct bpshaper_leaf *l,
			       u32 len, u64 now)
{
	if (!bpshaper_slot_take(&l->slot, len, &now))
		return false;
	trace_hub_send(sch, bpshaper_leaf_classid(l), len, now);
	return true;
}

/* Flows whose time has come make their leaves offer again, up to @steps. */
static inline void bpshaper_flows_wake(struct bpshaper_table *t, int steps,
				       u64 now)
{
	struct bpshaper_flow *f;

	while (steps-- && unlikely(f = bpshaper_table_wake(t, now)))
		bpshaper_leaf_update(bpshaper_flow_leaf(f), now);
}

#endif /* _BPSHAPER_SCHED_H */
