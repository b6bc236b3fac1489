/* SPDX-License-Identifier: GPL-2.0-only */
/* The qdisc's private data, and the accounts of the qdisc as a whole. */
#ifndef _BPSHAPER_SCHED_H
#define _BPSHAPER_SCHED_H

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
 *	without classes, see bpshaper_limit.h
 * @pacing: how packets are paced
 * @peak_rate: of the second bucket; Bps is 0 when there is none
 * @net: namespace of the device; a device that moves takes no qdisc along
 * @direct: a packet that found the qdisc empty; it is in no flow
 * @direct_ns: when @direct was first seen to wait, or 0
 * @bucket: tokens, unless a group has them
 * @peak: tokens of the peak rate
 * @member: membership in a group
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
 * @table: what all flows share
 * @own: flows of the qdisc itself, those of no class
 * @clhash: classes by number
 * @tree: the order in which leaves are served, with classes
 * @filters: that classify, drop or take packets
 * @block: of @filters
 * @floors_Bps: sums of all classes without a parent, without and with
 *	overcommit, bytes per second
 * @moving: leaf whose packets move to @moving_to, or NULL (bpshaper_class.h)
 * @moving_to: where they go
 * @come: leaf in which a new or fresh flow has come since the last dequeue, or
 *	NULL; with classes
 * @overlimit: leaves with overlimit sockets, with classes
 * @default_minor: class of packets that have no other, or 0
 * @mtu: one packet of the MTU, bytes
 * @latency_ns: time that @limit takes
 * @ticking: leaves that the timer of turns is to look at, by time
 *	(bpshaper_throttle.h)
 * @watchdog: wakes the qdisc when a batch may leave or a flow is due
 * @backstop: wakes it now and then while it has a backlog
 * @turn_timer: gives and ends turns, and finds closed sockets outside
 *	(bpshaper_throttle.h)
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
	struct bpshaper_member	member;
	u32			undrained;
	u32			uncounted;
	bool			was_armed;
	bool			is_armed_for_tokens;
	bool			is_armed_for_class;
	u64			max_backlog;
	u64			stat_direct_packets;

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
};

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

#endif /* _BPSHAPER_SCHED_H */
