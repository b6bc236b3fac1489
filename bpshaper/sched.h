/* SPDX-License-Identifier: GPL-2.0-only */
/* Private data: groups, leaves, classes and the qdisc, and limits. */
#ifndef _BPSHAPER_SCHED_H
#define _BPSHAPER_SCHED_H

/* Groups: qdiscs of a device that share a rate.
 *
 * Each member has a queue, flows and a root lock of its own. Members share a
 * hub (hub.h), and the options that it follows from. A group exists as long as
 * it has a member. RTNL protects struct bpshaper_group apart from the hub.
 * apply.h changes the options of a group.
 */

/* Queues of a device. A change of a group is work for all of them. */
#define BPSHAPER_MEMBERS_MAX	1024

/**
 * struct bpshaper_shared - options that the members of a group share
 * @rate_Bps: as in struct bpshaper_config, like the next four
 * @burst: as asked for, or 0
 * @overhead: bytes
 * @mpu: bytes
 * @linklayer: TC_LINKLAYER_*
 * @mtu: bytes, of the device when the burst was derived
 */
struct bpshaper_shared {
	u64	rate_Bps;
	u32	burst;
	u32	overhead;
	u32	mpu;
	u32	linklayer;
	u32	mtu;
};

/**
 * struct bpshaper_group - a rate that several qdiscs of a device share
 * @hub: who may send
 * @node: in bpshaper_groups
 * @dev: the device
 * @id: number that the user gave it
 * @shared: options that are the same for all members (apply.h)
 * @members: its members
 * @members_len: number of @members
 * @rcu: delays the release, as the core delays that of a qdisc
 */
struct bpshaper_group {
	struct bpshaper_hub	hub;
	struct list_head	node;
	struct net_device	*dev;
	u32			id;
	struct bpshaper_shared	shared;
	struct list_head	members;
	u32			members_len;
	struct rcu_head		rcu;
};

static LIST_HEAD(bpshaper_groups);

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

/* Make a group without members. bpshaper_group_add() makes it known. */
static struct bpshaper_group *bpshaper_group_create(struct net_device *dev,
						    u32 id)
{
	struct bpshaper_group *g = kzalloc(sizeof(*g), GFP_KERNEL_ACCOUNT);

	if (!g)
		return NULL;
	g->dev = dev;
	g->id = id;
	bpshaper_hub_init(&g->hub);
	INIT_LIST_HEAD(&g->node);
	INIT_LIST_HEAD(&g->members);
	return g;
}

static bool bpshaper_shared_differs(const struct bpshaper_shared *a,
				    const struct bpshaper_shared *b)
{
	return a->rate_Bps != b->rate_Bps || a->burst != b->burst ||
	       a->overhead != b->overhead || a->mpu != b->mpu ||
	       a->linklayer != b->linklayer || a->mtu != b->mtu;
}

static void bpshaper_config_set_shared(struct bpshaper_config *c,
				       const struct bpshaper_shared *shared)
{
	c->rate_Bps = shared->rate_Bps;
	c->burst = shared->burst;
	c->overhead = shared->overhead;
	c->mpu = shared->mpu;
	c->linklayer = shared->linklayer;
}

/* A new member takes over the shared options. Those that are @given must be
 * equal.
 */
static int bpshaper_group_merge_options(const struct bpshaper_group *g,
					struct bpshaper_config *c, u32 given,
					struct netlink_ext_ack *extack)
{
	const struct bpshaper_shared *shared = &g->shared;

	if ((given & BIT(TCA_BPSHAPER_RATE64) &&
	     c->rate_Bps != shared->rate_Bps) ||
	    (given & BIT(TCA_BPSHAPER_BURST) && c->burst != shared->burst)) {
		bpshaper_err_group(extack, g->id, shared->rate_Bps * 8,
				   shared->burst);
		return -EINVAL;
	}
	if ((given & BIT(TCA_BPSHAPER_OVERHEAD) &&
	     c->overhead != shared->overhead) ||
	    (given & BIT(TCA_BPSHAPER_MPU) && c->mpu != shared->mpu) ||
	    (given & BIT(TCA_BPSHAPER_LINKLAYER) &&
	     c->linklayer != shared->linklayer)) {
		bpshaper_err_framing(extack, g->id, shared->overhead,
				     shared->mpu,
				     shared->linklayer == TC_LINKLAYER_ATM);
		return -EINVAL;
	}
	bpshaper_config_set_shared(c, shared);
	return 0;
}

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
 * struct bpshaper_leaf - flows that share what the leaf may send
 * @q: the qdisc
 * @flows: flows and their order
 * @bp: overlimit and throttled sockets
 * @tick: in the tree of leaves by when the timer of turns is to look at them,
 *	CLOCK_MONOTONIC (throttle.h, down to @is_ticking)
 * @is_ticking: it is in that tree
 * @marks: which packets are marked (throttle.h)
 * @stat_ce_marks: packets marked (likewise)
 * @stat_drops: packets dropped, by enum bpshaper_drop
 * @delay_hist: packets by the time that they waited
 * @node: its place in the order of leaves; without classes it has no parent
 *	(tree.h)
 * @overlimit_node: on the list of leaves with overlimit sockets, with classes
 *	(throttle.h)
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
 * @expected_weight: of those beside it when @Bps was estimated; 0 when it is
 *	measured
 * @stat_bytes: bytes that it and its children have sent, of a class
 * @stat_packets: packets, likewise
 */
struct bpshaper_leaf {
	struct bpshaper_sched	*q;
	struct bpshaper_flows	flows;
	struct bpshaper_backpressure bp;
	struct bpshaper_tag	tick;
	bool			is_ticking;
	struct bpshaper_marks	marks;
	u64			stat_ce_marks;
	u64			stat_drops[BPSHAPER_DROP_REASONS];
	struct bpshaper_hist	delay_hist;

	struct bpshaper_node	node;
	struct list_head	overlimit_node;
	u32			limit_set;
	u64			latency_ns;
	u32			limit;
	u64			Bps;
	u64			sent_ns;
	u64			sample_ns;
	u32			sample_bytes;
	bool			ran_empty;
	u64			expected_weight;
	u64			stat_bytes;
	u64			stat_packets;
};

/* The leaf of a flow. */
static inline struct bpshaper_leaf *
bpshaper_flow_leaf(const struct bpshaper_flow *f)
{
	return container_of(f->flows, struct bpshaper_leaf, flows);
}

static inline struct bpshaper_leaf *
bpshaper_node_leaf(const struct bpshaper_node *n)
{
	return container_of(n, struct bpshaper_leaf, node);
}

static void bpshaper_leaf_init(struct bpshaper_leaf *l,
			       struct bpshaper_sched *q, struct Qdisc *sch,
			       struct bpshaper_table *table)
{
	l->q = q;
	INIT_LIST_HEAD(&l->overlimit_node);
	bpshaper_backpressure_init(&l->bp, sch, &l->flows);
	bpshaper_flows_init(&l->flows, table);
}

/**
 * struct bpshaper_class - a class
 * @common: its number, and its place in the hash table
 * @own: what it has queued itself, which is nothing while it has children; its
 *	place in the tree, and what it has counted
 * @parent: NULL below the qdisc
 * @children: their number
 * @depth: levels above it
 * @refs: filters that refer to it
 * @floors_Bps: sums of its children, without and with overcommit, bytes per
 *	second
 * @filters: that classify packets further, if it has children
 * @block: of @filters
 * @config: the options as asked for, under RTNL
 * @burst: bytes, as asked for or derived
 */
struct bpshaper_class {
	struct Qdisc_class_common common;
	struct bpshaper_leaf	own;
	struct bpshaper_class	*parent;
	u32			children;
	u32			depth;
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
 * @direct_max: bytes; larger packets take the slow path, see
 *	bpshaper_direct_may_be()
 * @has_peak_or_group: there is a peak rate or a group
 * @wire: how the link frames packets
 * @batch: bytes that may leave when the watchdog fires, if there are as many
 * @limit: bytes, of the pool, and of the shares of all sockets together;
 *	without classes, see sched.h
 * @pacing: how packets are paced
 * @peak_rate: of the second bucket; Bps is 0 when there is none
 * @net: namespace of the device; a device that moves takes no qdisc along
 * @direct: a packet that found the qdisc empty; it is in no flow
 * @direct_ns: when @direct was first seen to wait, or 0
 * @bucket: tokens, unless a group has them
 * @peak: tokens of the peak rate
 * @undrained: packets enqueued since the last call of dequeue, or since the
 *	qdisc was empty
 * @uncounted: segments enqueued that the parents do not know of yet
 * @was_armed: the watchdog was armed and has not been seen to have fired
 * @is_armed_for_tokens: @watchdog was armed last because tokens were missing,
 *	not only for a time; stale once @was_armed is false
 * @is_armed_for_class: likewise, because no class might send: those that are
 *	not held by a ceil had nothing to send
 * @max_backlog: largest sch->qstats.backlog seen, bytes
 * @stat_direct_packets: packets that left as @direct
 * @group: its group, or NULL
 * @table: what all flows share
 * @own: flows of the qdisc itself, those of no class
 * @clhash: classes by number
 * @tree: the order in which leaves are served, with classes
 * @filters: that classify, drop or take packets
 * @block: of @filters
 * @floors_Bps: sums of all classes without a parent, without and with
 *	overcommit, bytes per second
 * @moving: leaf whose packets move to @moving_to, or NULL (class.h)
 * @moving_to: where they go
 * @come: leaf in which a new or fresh flow has come since the last dequeue, or
 *	NULL; with classes
 * @overlimit: leaves with overlimit sockets, with classes
 * @default_minor: class of packets that have no other, or 0
 * @mtu: one packet of the MTU, bytes
 * @latency_ns: time that @limit takes
 * @ticking: leaves that the timer of turns is to look at, by time
 *	(throttle.h)
 * @watchdog: wakes the qdisc when a batch may leave or a flow is due
 * @backstop: wakes it now and then while it has a backlog
 * @turn_timer: gives and ends turns, and finds closed sockets outside
 *	(throttle.h)
 * @turn_lock: excludes @turn_timer and reset(), which has no root lock when the
 *	qdisc is destroyed
 * @wake_ns: when @watchdog is due, CLOCK_MONOTONIC
 * @stat_timer_wakeups: times that @watchdog fired
 * @stat_purged: packets freed by reset
 * @stat_segments: packets made by segmentation
 * @lateness_hist: firings of @watchdog by their lateness
 * @config: the options as asked for, under RTNL
 * @effective: the options as dumped: with derived defaults, but with shares
 *	only if set, and with limit 0 if latency is set
 * @cursor: behind the flow that was listed as a class last
 * @cursor_count: flows listed before it
 * @group_node: in the members of the group
 * @group_flows_ns: since when the flows of @slot are what they are
 * @member: what the hub of the group knows of it
 * @slot: what it may send, in a group
 */
struct bpshaper_sched {
	struct bpshaper_rate	rate;
	u32			segment_above;
	u32			direct_max;
	bool			has_peak_or_group;
	struct bpshaper_wire	wire;
	u32			batch;
	u32			limit;
	struct bpshaper_pacing	pacing;
	struct bpshaper_rate	peak_rate;
	const struct net	*net;

	struct sk_buff		*direct ____cacheline_aligned_in_smp;
	u64			direct_ns;
	struct bpshaper_bucket	bucket;
	struct bpshaper_bucket	peak;
	u32			undrained;
	u32			uncounted;
	bool			was_armed;
	bool			is_armed_for_tokens;
	bool			is_armed_for_class;
	u64			max_backlog;
	u64			stat_direct_packets;
	struct bpshaper_group	*group;

	struct bpshaper_table	table;
	struct bpshaper_leaf	own;
	struct Qdisc_class_hash	clhash;
	struct bpshaper_tree	tree;
	struct tcf_proto __rcu	*filters;
	struct tcf_block	*block;
	u64			floors_Bps[2];
	struct bpshaper_leaf	*moving;
	struct bpshaper_leaf	*moving_to;
	struct bpshaper_leaf	*come;
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
	struct bpshaper_hist	lateness_hist;
	struct bpshaper_config	config;
	struct bpshaper_config	effective;
	struct bpshaper_cursor	cursor;
	unsigned long		cursor_count;
	struct list_head	group_node;
	u64			group_flows_ns;
	struct bpshaper_member	member;
	struct bpshaper_slot	slot;
};

/* Membership: under RTNL and the root lock of the member */

/* Leave the group, if any, for @g, which may be NULL. */
static void bpshaper_group_join(struct bpshaper_sched *q,
				struct bpshaper_group *g)
{
	if (q->group)
		bpshaper_slot_leave(&q->slot);
	q->group = g;
	q->member.hub = g ? &g->hub : NULL;
	INIT_LIST_HEAD(&q->member.slots);
	atomic64_set(&q->member.wake_ns, 0);
	if (g)
		bpshaper_slot_join(&q->slot, &q->member, &g->hub.tree.root);
}

/* Has the group no place for @sch, if the qdisc that it replaces goes? */
static bool bpshaper_group_is_full(const struct bpshaper_group *g,
				   const struct Qdisc *sch)
{
	const struct bpshaper_sched *q;
	u32 members = g->members_len;

	list_for_each_entry(q, &g->members, group_node)
		members -= q->own.bp.sch->parent == sch->parent;
	return members >= BPSHAPER_MEMBERS_MAX;
}

static void bpshaper_group_add(struct bpshaper_group *g,
			       struct bpshaper_sched *q)
{
	list_add_tail(&q->group_node, &g->members);
	if (!g->members_len++)
		list_add_tail(&g->node, &bpshaper_groups);
}

/* A group without members goes. */
static void bpshaper_group_del(struct bpshaper_group *g,
			       struct bpshaper_sched *q)
{
	list_del(&q->group_node);
	if (--g->members_len)
		return;
	list_del(&g->node);
	kfree_rcu(g, rcu);
}

/* Schedule all members that have a backlog. */
static void bpshaper_group_wake(const struct bpshaper_group *g)
{
	struct bpshaper_sched *q;
	struct Qdisc *sch;

	list_for_each_entry(q, &g->members, group_node) {
		sch = q->own.bp.sch;
		if (READ_ONCE(sch->q.qlen))
			__netif_schedule(qdisc_root(sch));
	}
}

/* Are there classes? */
static inline bool bpshaper_has_classes(const struct bpshaper_sched *q)
{
	return q->own.node.parent;
}

/* May a packet go elsewhere than to the leaf of the qdisc? */
static inline bool bpshaper_must_choose(const struct bpshaper_sched *q)
{
	return bpshaper_has_classes(q) || rcu_access_pointer(q->filters);
}

/* Is @f to leave without waiting for a batch, because it or its class is new?
 * Not if its socket sends all that it may: a class that may queue little runs
 * empty between the turns of its sockets, and one that gets nothing but its
 * floor is new whenever it comes back.
 */
static bool bpshaper_class_is_new(const struct bpshaper_leaf *l,
				  const struct bpshaper_flow *f)
{
	return (f->is_new || bpshaper_node_was_new(&l->node)) &&
	       !(f->socket &&
		 bpshaper_socket_is_greedy(&l->flows.turns, f->socket));
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
	l->stat_drops[reason]++;
	if (reason == BPSHAPER_DROP_ALLOC)
		bpshaper_set_drop_nomem(skb);
	return qdisc_drop(skb, sch, to_free);
}

/* Limits: what may wait in a leaf?
 *
 * Without classes the limit of the qdisc is that of its only leaf. With classes
 * each leaf may hold what it gets in the latency, so that the limits of all add
 * up to about that of the qdisc and packets are as old as without classes. What
 * a leaf gets is measured while it has a backlog. When it begins, and while it
 * runs empty now and then, it is taken to get what it would get if all that
 * have a backlog were greedy.
 */

#define BPSHAPER_SAMPLE_NS	(10 * NSEC_PER_MSEC)
#define BPSHAPER_SAMPLE_PKTS	8	/* quanta in a sample, or longer */
#define BPSHAPER_SAMPLE_MAX_NS	(100 * NSEC_PER_MSEC)
#define BPSHAPER_LEAF_PKTS	2	/* least limit of a leaf, packets */
#define BPSHAPER_LIMIT_PKTS	8	/* a pool that TCP can recover in */
#define BPSHAPER_TURN_NS	NSEC_PER_MSEC
#define BPSHAPER_SHARE_PKTS	16	/* of a turn; see defaults.rst */
#define BPSHAPER_SHARE_MAX	65536U	/* bytes; share_min raises it */
#define BPSHAPER_GROUP_FLOWS_NS	(5 * NSEC_PER_MSEC)
#define BPSHAPER_PEER_PKTS	2	/* one on its way, one after */

/* Of the limit of a group each member has a part, as of the rate, but two
 * packets at least.
 */
static inline u32 bpshaper_group_limit(const struct bpshaper_sched *q,
				       u32 limit)
{
	u32 mine, all, part;

	if (likely(!q->group))
		return limit;
	mine = READ_ONCE(q->slot.node.weight);
	all = READ_ONCE(q->group->hub.tree.root.offering_weight);
	part = div_u64((u64)limit * mine, max(all, mine));
	return max(part, min(limit, 2 * q->group->hub.mtu));
}

/* What may wait in the leaf, bytes. */
static inline u32 bpshaper_limit(const struct bpshaper_leaf *l)
{
	if (unlikely(l->node.parent))
		return l->limit;
	return bpshaper_group_limit(l->q, l->q->limit);
}

/* What may wait in its pool. */
static inline u32 bpshaper_pool_limit(const struct bpshaper_leaf *l)
{
	if (unlikely(l->node.parent) && !l->limit_set)
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

/* Bytes that a socket may queue in a turn, where @limit takes @limit_ns: what
 * leaves in BPSHAPER_TURN_NS, so that sockets are woken as often at all rates.
 */
static u32 bpshaper_derive_turn(u32 limit, u64 limit_ns, u32 mtu)
{
	u64 turn = limit / 2;

	if (limit_ns > 2 * BPSHAPER_TURN_NS)
		turn = div64_u64((u64)limit * BPSHAPER_TURN_NS, limit_ns);
	return clamp_t(u64, turn, BPSHAPER_PEER_PKTS * mtu,
		       BPSHAPER_SHARE_PKTS * mtu);
}

/* Its limit is @limit bytes, which take @limit_ns; 0 if its rate is unlimited.
 */
static void bpshaper_leaf_apply_limit(struct bpshaper_leaf *l, u32 limit,
				      u64 limit_ns)
{
	const struct bpshaper_config *c = &l->q->config;
	u32 mtu = l->q->mtu;
	u32 peer_min = c->share_min ?: BPSHAPER_PEER_PKTS * mtu;
	u32 share_min = c->share_min ?:
			bpshaper_derive_turn(limit, limit_ns, mtu);
	u32 share_max = max(share_min, BPSHAPER_SHARE_MAX);

	bpshaper_share_set_bounds(&l->bp, share_min, min(peer_min, share_max),
				  share_max);
	bpshaper_turns_configure(&l->flows.turns, limit_ns);
	limit_ns = limit_ns ?: TC_BPSHAPER_LATENCY_DEFAULT;
	bpshaper_marks_configure(&l->marks, c->ce_threshold_ns, limit_ns);
}

/* Bytes that @Bps sends in @ns; @Bps is 2^43 and @ns 2^36 at most. */
static u64 bpshaper_Bps_bytes(u64 Bps, u64 ns)
{
	return div_u64(div_u64(Bps, 1000) * div_u64(ns, 1000), 1000);
}

static u64 bpshaper_root_Bps(const struct bpshaper_sched *q)
{
	return q->rate.Bps ?: TC_BPSHAPER_RATE_MAX;
}

/* TC_BPSHAPER_RATE_MAX if neither the qdisc nor a class bounds it. */
static u64 bpshaper_leaf_most_Bps(const struct bpshaper_leaf *l)
{
	return bpshaper_node_most_Bps(&l->node, bpshaper_root_Bps(l->q));
}

/* The leaf, which has classes beside it, is taken to get @Bps. */
static void bpshaper_leaf_set_Bps(struct bpshaper_leaf *l, u64 Bps)
{
	const struct bpshaper_sched *q = l->q;
	u64 limit;

	l->Bps = Bps;
	if (l->limit_set)
		limit = l->limit_set;
	else if (bpshaper_leaf_most_Bps(l) >= TC_BPSHAPER_RATE_MAX)
		limit = q->limit;	/* the device decides */
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
	return bpshaper_node_expected_Bps(&l->node, bpshaper_root_Bps(l->q));
}

/* What its limit follows from has changed. */
static void bpshaper_leaf_renew_limit(struct bpshaper_leaf *l)
{
	u64 Bps = l->Bps ?: bpshaper_leaf_expected_Bps(l);

	bpshaper_leaf_set_Bps(l, min(Bps, bpshaper_leaf_most_Bps(l)));
}

/* It has just begun. */
static void bpshaper_leaf_expect(struct bpshaper_leaf *l)
{
	bpshaper_leaf_set_Bps(l, bpshaper_leaf_expected_Bps(l));
	l->expected_weight = max_t(u64, l->node.parent->offering_weight,
				   l->node.weight);
}

static void bpshaper_leaf_start_sample(struct bpshaper_leaf *l, u64 now)
{
	l->expected_weight = 0;
	l->sample_ns = now;
	l->sample_bytes = 0;
	l->ran_empty = false;
}

/* The leaf has a backlog after it had none. */
static void bpshaper_leaf_begin(struct bpshaper_leaf *l, u64 now)
{
	l->ran_empty = true;
	if (now - l->sent_ns <= BPSHAPER_SAMPLE_NS)
		return;
	bpshaper_leaf_start_sample(l, now);
	bpshaper_leaf_expect(l);
}

/* The leaf has got a packet. If many others have begun since it was taken to
 * get what it gets, and nothing has been measured, it will get less.
 */
static inline void bpshaper_leaf_expect_again(struct bpshaper_leaf *l)
{
	if (l->expected_weight &&
	    l->node.parent->offering_weight > 2 * l->expected_weight)
		bpshaper_leaf_expect(l);
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
	bpshaper_leaf_set_Bps(l, (l->Bps + Bps) / 2);
}

/* The leaf, which has classes beside it, has sent @bytes. */
static inline void bpshaper_leaf_sent(struct bpshaper_leaf *l, u32 bytes,
				      u64 now)
{
	l->sent_ns = now;
	l->sample_bytes += bytes;
	if (now - l->sample_ns >= BPSHAPER_SAMPLE_NS)
		bpshaper_leaf_measure(l, now);
}

/* Members of a group */

/* The flows of the member: the most of some ms, since a socket that takes turns
 * has nothing queued now and then.
 */
static u32 bpshaper_group_flows(struct bpshaper_sched *q, u64 now)
{
	u32 flows = max(q->own.flows.active, bpshaper_contenders(&q->own));

	if (flows >= q->slot.flows ||
	    now - q->group_flows_ns > BPSHAPER_GROUP_FLOWS_NS) {
		q->group_flows_ns = now;
		return flows;
	}
	return q->slot.flows;
}

/* The member has nothing to send. */
static void bpshaper_group_idle(struct bpshaper_sched *q)
{
	bpshaper_slot_set_want(&q->slot, 0, 0, q->slot.flows);
	atomic64_set(&q->member.wake_ns, 0);
}

/* Take the tokens for @len bytes; false if they may not leave yet. */
static bool bpshaper_group_take(struct Qdisc *sch, u32 len, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u32 due = sch->qstats.backlog - q->own.flows.later;

	if (!bpshaper_slot_take(&q->slot, len, &now)) {
		bpshaper_slot_set_want(&q->slot, max(due, len), len,
				       bpshaper_group_flows(q, now));
		if (bpshaper_member_ask(&q->member, now) ||
		    !bpshaper_slot_take(&q->slot, len, &now))
			return false;
	}
	trace_group_send(sch, len, now);
	if (due > len)
		bpshaper_slot_set_want(&q->slot, due - len, len,
				       bpshaper_group_flows(q, now));
	else
		bpshaper_group_idle(q);
	return true;
}

/* Members that wait for tokens */
static u32 bpshaper_group_waiting(const struct bpshaper_group *g)
{
	const struct bpshaper_sched *q;
	u32 waiting = 0;

	list_for_each_entry(q, &g->members, group_node)
		waiting += !!atomic64_read(&q->member.wake_ns);
	return waiting;
}

/* Offering */

static noinline void bpshaper_leaf_update_node(struct bpshaper_leaf *l, u64 now)
{
	bool has_backlog = l->flows.active > l->flows.waiting_len;

	if (has_backlog == l->node.has_backlog || l == l->q->moving)
		return;
	if (has_backlog) {
		l->q->come = l;
		bpshaper_leaf_begin(l, now);
	}
	bpshaper_node_set_backlog(&l->q->tree, &l->node, has_backlog,
				  l->flows.quantum, now);
}

/* A packet of the leaf has come or gone, or a flow of it waits or has waited:
 * it may have something to offer, or nothing any more.
 */
static inline void bpshaper_leaf_update(struct bpshaper_leaf *l, u64 now)
{
	if (unlikely(l->node.parent))
		bpshaper_leaf_update_node(l, now);
}

/* Flows whose time has come make their leaves offer again. They take up to
 * @steps, a few for each level that may join its parent, and the last some
 * more.
 */
static inline void bpshaper_flows_wake(struct bpshaper_table *t, int steps,
				       u64 now)
{
	struct bpshaper_leaf *l;
	struct bpshaper_flow *f;

	while (steps > 0 && unlikely(f = bpshaper_table_wake(t, now))) {
		l = bpshaper_flow_leaf(f);
		steps--;
		if (!l->node.has_backlog)
			steps -= BPSHAPER_LEVEL_STEPS *
				 bpshaper_node_levels(&l->node);
		bpshaper_leaf_update(l, now);
	}
}

#endif /* _BPSHAPER_SCHED_H */
