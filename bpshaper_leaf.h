/* SPDX-License-Identifier: GPL-2.0-only */
/* Leaves: what has packets.
 *
 * A qdisc has a leaf of its own, and one for each class without children. Each
 * leaf has flows and sockets that it throttles, and divides among them what it
 * may send. Packets without a throttleable socket, forwarded ones for instance,
 * are its pool: flows by packet hash, of which a limit bounds the bytes.
 */
#ifndef _BPSHAPER_LEAF_H
#define _BPSHAPER_LEAF_H

struct bpshaper_sched;

/**
 * struct bpshaper_leaf - flows that share what the leaf may send
 * @q: the qdisc
 * @flows: flows and their order
 * @bp: overlimit and throttled sockets
 * @tick: in the tree of leaves by when the timer of turns is to look at them,
 *	CLOCK_MONOTONIC (bpshaper_throttle.h, down to @is_ticking)
 * @is_ticking: it is in that tree
 * @marks: which packets are marked (bpshaper_throttle.h)
 * @stat_ce_marks: packets marked (likewise)
 * @stat_drops: packets dropped, by enum bpshaper_drop
 * @delay_hist: packets by the time that they waited
 * @node: its place in the order of leaves; without classes it has no parent
 *	(bpshaper_tree.h)
 * @overlimit_node: on the list of leaves with overlimit sockets, with classes
 *	(bpshaper_throttle.h)
 * @limit_set: bytes that may wait, or 0: @latency_ns decides (bpshaper_class.h,
 *	down to @latency_ns)
 * @latency_ns: what it gets in that time may wait; 0: that of the qdisc
 * @limit: bytes that may wait, with classes (bpshaper_limit.h, down to
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
bpshaper_node_leaf(const struct bpshaper_node *c)
{
	return container_of(c, struct bpshaper_leaf, node);
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

#endif /* _BPSHAPER_LEAF_H */
