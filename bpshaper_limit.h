/* SPDX-License-Identifier: GPL-2.0-only */
/* Limits: what may wait in a leaf?
 *
 * Without classes the limit of the qdisc is that of its only leaf. With classes
 * each leaf may hold what it gets in the latency, so that the limits of all add
 * up to about that of the qdisc and packets are as old as without classes. What
 * a leaf gets is measured while it has a backlog. When it begins, and while it
 * runs empty now and then, it is taken to get what it would get if all that
 * have a backlog were greedy.
 */
#ifndef _BPSHAPER_LIMIT_H
#define _BPSHAPER_LIMIT_H

#define BPSHAPER_SAMPLE_NS	(10 * NSEC_PER_MSEC)
#define BPSHAPER_SAMPLE_PKTS	8	/* quanta in a sample, or longer */
#define BPSHAPER_SAMPLE_MAX_NS	(100 * NSEC_PER_MSEC)
#define BPSHAPER_LEAF_PKTS	2	/* least limit of a leaf, packets */
#define BPSHAPER_LIMIT_PKTS	8	/* a pool that TCP can recover in */
#define BPSHAPER_TURN_NS	NSEC_PER_MSEC
#define BPSHAPER_SHARE_PKTS	16	/* of a turn; see defaults.rst */
#define BPSHAPER_PEER_PKTS	2	/* one on its way, one after */

/* What may wait in the leaf, bytes. */
static inline u32 bpshaper_limit(const struct bpshaper_leaf *l)
{
	if (unlikely(l->node.parent))
		return l->limit;
	return bpshaper_member_limit(&l->q->member, l->q->limit);
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
	u32 share_min = bpshaper_derive_turn(limit, limit_ns, mtu);
	u32 share_max = c->share_max;

	if (c->share_min)
		share_min = c->share_min;
	else if (c->share_max)
		share_min = min(share_min, c->share_max);
	if (!share_max)
		share_max = max(share_min, TC_BPSHAPER_SHARE_MAX_DEFAULT);
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

#endif /* _BPSHAPER_LIMIT_H */
