/* SPDX-License-Identifier: GPL-2.0-only */
/* Leaves: what has packets.
 *
 * A qdisc has a leaf of its own. Each leaf has flows, sockets that it throttles
 * and a pool, and divides among them what it may send.
 */
#ifndef _BPSHAPER_LEAF_H
#define _BPSHAPER_LEAF_H

struct bpshaper_sched;

/**
 * struct bpshaper_leaf - flows that share what the leaf may send
 * @q: the qdisc
 * @flows: flows and their order
 * @bp: overlimit and throttled sockets
 * @pool: accounts of the socketless flows
 * @tick_ns: when the timer of turns is to look at the leaf, CLOCK_MONOTONIC
 *	(bpshaper_throttle.h, down to @is_ticking)
 * @tick_node: in the tree of leaves by @tick_ns
 * @is_ticking: it is in that tree
 */
struct bpshaper_leaf {
	struct bpshaper_sched	*q;
	struct bpshaper_flows	flows;
	struct bpshaper_backpressure bp;
	struct bpshaper_pool	pool;
	u64			tick_ns;
	struct rb_node		tick_node;
	bool			is_ticking;
};

/* The leaf of a flow. */
static inline struct bpshaper_leaf *
bpshaper_flow_leaf(const struct bpshaper_flow *f)
{
	return container_of(f->flows, struct bpshaper_leaf, flows);
}

/* Packets and flows are gone, and no socket is throttled. */
static void bpshaper_leaf_clear(struct bpshaper_leaf *l)
{
	bpshaper_flows_clear(&l->flows);
	bpshaper_pool_init(&l->pool);
}

static void bpshaper_leaf_init(struct bpshaper_leaf *l,
			       struct bpshaper_sched *q, struct Qdisc *sch,
			       struct bpshaper_table *table)
{
	l->q = q;
	bpshaper_backpressure_init(&l->bp, sch, &l->flows);
	bpshaper_pool_init(&l->pool);
	bpshaper_flows_init(&l->flows, table);
}

#endif /* _BPSHAPER_LEAF_H */
