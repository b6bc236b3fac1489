/* SPDX-License-Identifier: GPL-2.0-only */
/* Configuration: options take effect, for one qdisc or for all members of a
 * group.
 *
 * First check and allocate all that can fail, then apply, which cannot fail and
 * drops no packet. The caller holds RTNL.
 */
#ifndef _BPSHAPER_APPLY_H
#define _BPSHAPER_APPLY_H

/* Reasons for the defaults: Documentation/defaults.rst. */
#define BPSHAPER_BURST_NS	NSEC_PER_MSEC
#define BPSHAPER_BURST_PKTS	2	/* one makes up for a late timer */
#define BPSHAPER_GROUP_BURST_PKTS 4	/* see hub.rst */
#define BPSHAPER_BATCH_NS	NSEC_PER_MSEC	/* largest batch */
/* What follows from the MTU needs a bound; some devices have none. */
#define BPSHAPER_MTU_MIN	256
#define BPSHAPER_MTU_MAX	BIT(20)
#define BPSHAPER_MEMORY_SHIFT	4	/* 1/16 of the machine */
#define BPSHAPER_MEMORY_FLOOR	(32UL << 20)
#define BPSHAPER_MEMORY_CEIL	BIT(30)

/* Deriving */

/* The MTU with its header */
static u32 bpshaper_mtu(const struct net_device *dev)
{
	return clamp_t(u32, psched_mtu(dev), BPSHAPER_MTU_MIN,
		       BPSHAPER_MTU_MAX);
}

static u32 bpshaper_derive_memory_limit(const struct bpshaper_config *c)
{
	u64 bytes = (u64)totalram_pages() << PAGE_SHIFT;

	return c->memory_limit ?:
	       clamp_t(u64, bytes >> BPSHAPER_MEMORY_SHIFT,
		       BPSHAPER_MEMORY_FLOOR, BPSHAPER_MEMORY_CEIL);
}

/* Bytes on the wire of a packet of the MTU. */
static u32 bpshaper_derive_packet(const struct bpshaper_config *c, u32 mtu)
{
	struct bpshaper_wire wire = bpshaper_wire_make(c->overhead, c->mpu,
						       c->linklayer);

	return bpshaper_wire_framed_len(&wire, mtu);
}

static u32 bpshaper_derive_burst(const struct bpshaper_config *c,
				 const struct bpshaper_rate *r, u32 mtu)
{
	u32 least = c->group ? BPSHAPER_GROUP_BURST_PKTS *
			       bpshaper_derive_packet(c, mtu) :
			       BPSHAPER_BURST_PKTS * mtu;

	return c->burst ?: max(bpshaper_rate_bytes(r, BPSHAPER_BURST_NS),
			       least);
}

static u32 bpshaper_derive_limit(const struct bpshaper_config *c,
				 const struct bpshaper_rate *r, u32 burst,
				 const struct net_device *dev)
{
	u64 latency_ns = c->latency_ns ?: TC_BPSHAPER_LATENCY_DEFAULT;
	u32 mtu = bpshaper_mtu(dev);
	u64 limit;

	if (c->limit)
		return c->limit;
	/* Without a rate as many packets as bfifo: the txqueuelen. */
	if (!r->Bps)
		return min_t(u64, (u64)max(dev->tx_queue_len, 1U) * mtu,
			     U32_MAX);
	limit = (u64)bpshaper_rate_bytes(r, latency_ns) + burst;
	if (!c->latency_ns)
		limit = max_t(u64, limit, BPSHAPER_LIMIT_PKTS * mtu);
	return min_t(u64, limit, U32_MAX);
}

static void bpshaper_derive_rate(struct bpshaper_rate *r, u64 Bps)
{
	bpshaper_rate_set(r, Bps == TC_BPSHAPER_RATE_UNLIMITED ? 0 : Bps);
}

/* Larger GSO packets are segmented. */
static u32 bpshaper_derive_segment_above(const struct bpshaper_sched *q,
					 const struct bpshaper_config *e,
					 u32 mtu)
{
	if (!q->rate.Bps)
		return U32_MAX;
	if (q->wire.is_framed)	/* each frame pays */
		return 0;
	if (q->group)
		return max(mtu, q->group->hub.window / 4);
	return q->peak_rate.Bps ? min(e->burst, mtu) : e->burst;
}

static u32 bpshaper_derive_direct_max(const struct bpshaper_sched *q,
				      const struct bpshaper_config *c)
{
	if (bpshaper_must_choose(q))
		return 0;
	if (c->pacing && c->maxrate_Bps != TC_BPSHAPER_RATE_UNLIMITED)
		return 0;
	return q->segment_above;
}

/* Applying */

static void bpshaper_apply_pacing(struct bpshaper_sched *q,
				  const struct bpshaper_config *c, u32 mtu,
				  u64 now)
{
	struct bpshaper_flow *f;

	/* Wake flows that wait for times that are no longer valid. */
	if (bpshaper_pacing_configure(&q->pacing, c, mtu))
		while ((f = bpshaper_table_first_waiting(&q->table))) {
			bpshaper_flow_wake(f->flows, f);
			bpshaper_leaf_update(bpshaper_flow_leaf(f), now);
		}
}

/* Apply the rate and what follows from it. Store derived defaults in @e. */
static void bpshaper_apply_rate(struct Qdisc *sch,
				const struct bpshaper_config *c,
				struct bpshaper_config *e, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u32 mtu = bpshaper_mtu(qdisc_dev(sch));

	bpshaper_derive_rate(&q->rate, c->rate_Bps);
	bpshaper_derive_rate(&q->peak_rate, c->peakrate_Bps);
	q->has_peak_or_group = q->group || q->peak_rate.Bps;
	if (q->group) {	/* it may sleep for long at the old rate */
		atomic64_set(&q->slot.next_ns, 0);
		WRITE_ONCE(q->slot.period_ns, 0);
	}
	e->burst = bpshaper_derive_burst(c, &q->rate, mtu);
	q->batch = min(e->burst / 2,
		       bpshaper_rate_bytes(&q->rate, BPSHAPER_BATCH_NS));
	q->limit = bpshaper_derive_limit(c, &q->rate, e->burst,
					 qdisc_dev(sch));
	e->limit = c->latency_ns ? 0 : q->limit;
	q->wire = bpshaper_wire_make(c->overhead, c->mpu, c->linklayer);
	q->segment_above = bpshaper_derive_segment_above(q, e, mtu);
	q->direct_max = bpshaper_derive_direct_max(q, c);
	q->mtu = mtu;
	q->latency_ns = q->rate.Bps ?
			bpshaper_rate_cost_ns(&q->rate, q->limit) :
			TC_BPSHAPER_LATENCY_DEFAULT;
	bpshaper_bucket_set(&q->bucket, &q->rate, e->burst, now);
	bpshaper_bucket_set(&q->peak, &q->peak_rate, mtu, now);
}

/* All that could fail has been done. */
static void bpshaper_apply(struct Qdisc *sch, const struct bpshaper_config *c)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_config effective = *c;
	u32 mtu = bpshaper_mtu(qdisc_dev(sch));
	u64 now = ktime_get_ns(), limit_ns;

	bpshaper_apply_rate(sch, c, &effective, now);
	limit_ns = bpshaper_rate_cost_ns(&q->rate, q->limit);
	effective.memory_limit = bpshaper_derive_memory_limit(c);
	bpshaper_memory_configure(&q->table.memory, effective.memory_limit);
	bpshaper_flows_configure(&q->own.flows, mtu);
	bpshaper_backpressure_set_on(&q->own.bp, c->backpressure, now);
	bpshaper_apply_pacing(q, c, mtu, now);
	bpshaper_config_copy(&q->effective, &effective);
	q->config = *c;
	q->default_minor = c->default_minor;
	if (!bpshaper_has_classes(q))
		bpshaper_leaf_apply_limit(&q->own, q->limit, limit_ns);
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

/* Apply to a qdisc in use, under its root lock. Stop the watchdog, which sleeps
 * for a batch at the old rate. The caller then schedules the qdisc.
 */
static void bpshaper_apply_live(struct Qdisc *sch,
				const struct bpshaper_config *c)
{
	bpshaper_apply(sch, c);
	bpshaper_watchdog_stop(qdisc_priv(sch));
}

/* Groups */

static struct bpshaper_shared
bpshaper_config_shared(const struct Qdisc *sch, const struct bpshaper_config *c)
{
	return (struct bpshaper_shared) {
		.rate_Bps	= c->rate_Bps,
		.burst		= c->burst,
		.overhead	= c->overhead,
		.mpu		= c->mpu,
		.linklayer	= c->linklayer,
		.mtu		= bpshaper_mtu(qdisc_dev(sch)),
	};
}

/* Find or make the group that @c names and check the options; NULL if it names
 * none.
 */
static struct bpshaper_group *
bpshaper_group_prepare(struct Qdisc *sch, struct bpshaper_config *c, u32 given,
		       struct netlink_ext_ack *extack)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct net_device *dev = qdisc_dev(sch);
	struct bpshaper_group *g;
	int err;

	if (!c->group)
		return NULL;
	g = bpshaper_group_find(dev, c->group);
	if (g && g != q->group) {
		if (bpshaper_group_is_full(g, sch)) {
			NL_SET_ERR_MSG_MOD(extack,
					   "a group has 1024 members at most");
			return ERR_PTR(-EINVAL);
		}
		err = bpshaper_group_merge_options(g, c, given, extack);
		if (err)
			return ERR_PTR(err);
	}
	if (c->rate_Bps == TC_BPSHAPER_RATE_UNLIMITED) {
		NL_SET_ERR_MSG_MOD(extack, "group needs a rate");
		return ERR_PTR(-EINVAL);
	}
	return g ?: bpshaper_group_create(dev, c->group) ?: ERR_PTR(-ENOMEM);
}

/* Do floors fit below @most, that of the parent? @floors are their sums without
 * and with overcommit. The latter get what the others leave.
 */
static int bpshaper_floors_check(const u64 *floors, u64 most,
				 struct netlink_ext_ack *extack)
{
	bool is_refused = floors[0] > most;

	if (floors[0] + floors[1] <= most)
		return 0;
	bpshaper_err_floors(extack, is_refused,
			    (floors[0] + (is_refused ? 0 : floors[1])) * 8,
			    most * 8);
	return is_refused ? -EINVAL : 0;
}

/* Does the rate of the qdisc do for the floors of its classes? */
static int bpshaper_classes_check(const struct bpshaper_sched *q,
				  const struct bpshaper_config *c,
				  struct netlink_ext_ack *extack)
{
	if (!bpshaper_has_classes(q))
		return 0;
	if (c->group) {
		NL_SET_ERR_MSG_MOD(extack,
				   "group and classes exclude each other");
		return -EINVAL;
	}
	return bpshaper_floors_check(q->floors_Bps, c->rate_Bps, extack);
}

/* Merge @opt, which may be NULL, into @c and check all. Return the group that
 * @c names, NULL if it names none, or an error pointer.
 */
static struct bpshaper_group *bpshaper_prepare(struct Qdisc *sch,
					       struct bpshaper_config *c,
					       struct nlattr *opt,
					       struct netlink_ext_ack *extack)
{
	u32 given = 0;
	int err;

	if (opt) {
		err = bpshaper_config_parse(c, &given, opt, extack);
		if (err)
			return ERR_PTR(err);
	}
	err = bpshaper_classes_check(qdisc_priv(sch), c, extack);
	if (err)
		return ERR_PTR(err);
	return bpshaper_group_prepare(sch, c, given, extack);
}

/* The hub of the group follows from its shared options. */
static void bpshaper_group_apply_hub(struct bpshaper_group *g,
				     const struct bpshaper_config *c)
{
	u32 packet = bpshaper_derive_packet(c, g->shared.mtu);
	struct bpshaper_rate rate;

	bpshaper_derive_rate(&rate, c->rate_Bps);
	bpshaper_hub_set(&g->hub, &rate,
			 bpshaper_derive_burst(c, &rate, g->shared.mtu),
			 packet, ktime_get_ns());
}

/* The shared options of a group change: apply them to all members but @sch,
 * which has other new options as well.
 */
static void bpshaper_group_apply(struct bpshaper_group *g, struct Qdisc *sch,
				 const struct bpshaper_config *c)
{
	struct bpshaper_config config;
	struct bpshaper_sched *q;

	g->shared = bpshaper_config_shared(sch, c);
	bpshaper_group_apply_hub(g, c);
	list_for_each_entry(q, &g->members, group_node) {
		if (q->own.bp.sch == sch)
			continue;
		config = q->config;
		bpshaper_config_set_shared(&config, &g->shared);
		sch_tree_lock(q->own.bp.sch);
		bpshaper_apply_live(q->own.bp.sch, &config);
		sch_tree_unlock(q->own.bp.sch);
	}
}

/* Does @sch change what the group shares? */
static bool bpshaper_group_is_changed(const struct bpshaper_group *g,
				      const struct Qdisc *sch,
				      const struct bpshaper_config *c)
{
	struct bpshaper_shared shared = bpshaper_config_shared(sch, c);

	return g && bpshaper_shared_differs(&g->shared, &shared);
}

/* The first configuration of a qdisc, which has no packets yet. */
static void bpshaper_configure_first(struct Qdisc *sch,
				     const struct bpshaper_config *c,
				     struct bpshaper_group *g)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	if (bpshaper_group_is_changed(g, sch, c)) {
		bpshaper_group_apply(g, sch, c);
		if (!g->members_len)
			bpshaper_hub_fill(&g->hub);
	}
	bpshaper_group_join(q, g);
	if (g)
		bpshaper_group_add(g, q);
	bpshaper_apply(sch, c);
	bpshaper_bucket_fill(&q->bucket);
	bpshaper_bucket_fill(&q->peak);
}

/* Change the options of a qdisc that is in use. @g is its group from now on, or
 * NULL.
 */
static void bpshaper_configure(struct Qdisc *sch,
			       const struct bpshaper_config *c,
			       struct bpshaper_group *g)
{
	bool is_changed = bpshaper_group_is_changed(g, sch, c);
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_group *old = q->group;

	if (is_changed)
		bpshaper_group_apply(g, sch, c);
	sch_tree_lock(sch);
	if (old != g)
		bpshaper_group_join(q, g);
	bpshaper_apply_live(sch, c);
	sch_tree_unlock(sch);
	__netif_schedule(qdisc_root(sch));

	if (old != g && old)
		bpshaper_group_del(old, q);
	if (old != g && g)
		bpshaper_group_add(g, q);
	if (is_changed)
		bpshaper_group_wake(g);
}

#endif /* _BPSHAPER_APPLY_H */
