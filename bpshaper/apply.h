/* SPDX-License-Identifier: GPL-2.0-only */
/* Configuration: options take effect.
 *
 * First check and allocate all that can fail, then apply, which cannot fail and
 * drops no packet. The caller holds RTNL.
 */
#ifndef _BPSHAPER_APPLY_H
#define _BPSHAPER_APPLY_H

/* Reasons for the defaults: Documentation/defaults.rst. */
#define BPSHAPER_BURST_NS	NSEC_PER_MSEC
#define BPSHAPER_BURST_PKTS	2	/* one makes up for a late timer */
#define BPSHAPER_HUB_BURST_PKTS	4	/* see hub.rst */
#define BPSHAPER_HUB_BURST_MAX	BIT(30)	/* without a rate */
#define BPSHAPER_BATCH_NS	NSEC_PER_MSEC	/* largest batch */
/* What follows from the MTU needs a bound; some devices have none. */
#define BPSHAPER_MTU_MIN	256
#define BPSHAPER_MTU_MAX	BIT(20)
#define BPSHAPER_MEMORY_SHIFT	4	/* 1/16 of the machine */
#define BPSHAPER_MEMORY_FLOOR	(32UL << 20)
#define BPSHAPER_MEMORY_CEIL	BIT(30)

/* Deriving: from the options, and from what has been derived before. */

static u32 bpshaper_derive_burst(const struct bpshaper_sched *q)
{
	u32 least = q->queues || bpshaper_is_queue(q) ?
		    BPSHAPER_HUB_BURST_PKTS *
		    bpshaper_wire_framed_len(&q->wire, q->mtu) :
		    BPSHAPER_BURST_PKTS * q->mtu;

	return q->config.burst ?:
	       max(bpshaper_Bps_bytes(q->rate.Bps, BPSHAPER_BURST_NS), least);
}

static u32 bpshaper_derive_limit(const struct bpshaper_sched *q,
				 const struct net_device *dev)
{
	const struct bpshaper_config *c = &q->config;
	u64 latency_ns = c->latency_ns ?: TC_BPSHAPER_LATENCY_DEFAULT;
	u64 limit;

	if (c->limit)
		return c->limit;
	/* Without a rate as many packets as bfifo: the txqueuelen. */
	limit = (u64)max(dev->tx_queue_len, 1U) * q->mtu;
	if (q->rate.Bps) {
		limit = bpshaper_Bps_bytes(q->rate.Bps, latency_ns);
		limit += q->effective.burst;
		if (!c->latency_ns)
			limit = max_t(u64, limit, BPSHAPER_LIMIT_PKTS * q->mtu);
	}
	return min_t(u64, limit, U32_MAX);
}

/* Larger GSO packets are segmented. */
static u32 bpshaper_derive_segment_above(const struct bpshaper_sched *q)
{
	u32 burst = q->effective.burst;

	if (!q->rate.Bps)
		return U32_MAX;
	if (q->wire.is_framed)	/* each frame pays */
		return 0;
	if (bpshaper_is_queue(q))
		return max(q->mtu, q->hub->tree.root.e.burst /
				   BPSHAPER_HUB_PARTS);
	return q->peak_rate.Bps ? min(burst, q->mtu) : burst;
}

static u32 bpshaper_derive_direct_max(const struct bpshaper_sched *q)
{
	const struct bpshaper_config *c = &q->config;

	if (bpshaper_must_choose(q) || (q->hub && q->peak_rate.Bps) ||
	    (c->pacing && c->maxrate_Bps != TC_BPSHAPER_RATE_UNLIMITED))
		return 0;
	return q->segment_above;
}

/* Applying */

/* The hub follows from what the qdisc has derived. Without a rate it has one
 * that no device has, so that classes keep to their ceils. A few packets are
 * granted then, so that one queue sends in the order of its classes.
 */
static void bpshaper_hub_apply(struct bpshaper_sched *q)
{
	struct bpshaper_rate rate = q->rate;
	u32 burst = q->effective.burst;

	if (!rate.Bps) {
		bpshaper_rate_set(&rate, TC_BPSHAPER_RATE_MAX);
		burst = q->queues ? BPSHAPER_HUB_BURST_MAX :
				    BPSHAPER_HUB_BURST_PKTS * q->mtu;
	}
	bpshaper_hub_set(q->hub, &rate, burst,
			 bpshaper_wire_framed_len(&q->wire, q->mtu));
}

/* All that could fail has been done. What follows from the rate comes first. */
static void bpshaper_apply(struct Qdisc *sch, const struct bpshaper_config *c)
{
	u64 memory = ((u64)totalram_pages() << PAGE_SHIFT) >>
		     BPSHAPER_MEMORY_SHIFT;
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_config *e = &q->effective;
	struct net_device *dev = qdisc_dev(sch);
	u64 now = ktime_get_ns(), limit_ns;
	struct bpshaper_flow *f;

	q->config = *c;
	q->default_minor = c->default_minor;
	*e = *c;
	bpshaper_rate_set(&q->rate, c->rate_Bps);
	bpshaper_rate_set(&q->peak_rate, c->peakrate_Bps);
	q->mtu = clamp_t(u32, psched_mtu(dev), BPSHAPER_MTU_MIN,
			 BPSHAPER_MTU_MAX);
	q->wire = bpshaper_wire_make(c->overhead, c->mpu, c->linklayer);
	e->burst = bpshaper_derive_burst(q);
	if (q->hub && !bpshaper_is_queue(q))
		bpshaper_hub_apply(q);
	q->batch = min(e->burst / 2,
		       bpshaper_Bps_bytes(q->rate.Bps, BPSHAPER_BATCH_NS));
	q->limit = bpshaper_derive_limit(q, dev);
	e->limit = c->latency_ns ? 0 : q->limit;
	q->segment_above = bpshaper_derive_segment_above(q);
	q->direct_max = bpshaper_derive_direct_max(q);
	limit_ns = bpshaper_rate_cost_ns(&q->rate, q->limit);
	q->latency_ns = q->rate.Bps ? limit_ns : TC_BPSHAPER_LATENCY_DEFAULT;
	bpshaper_bucket_set(&q->bucket, &q->rate, e->burst, now);
	bpshaper_bucket_set(&q->peak, &q->peak_rate, q->mtu, now);

	e->memory_limit = c->memory_limit ?:
			  clamp_t(u64, memory, BPSHAPER_MEMORY_FLOOR,
				  BPSHAPER_MEMORY_CEIL);
	bpshaper_memory_configure(&q->table.memory, e->memory_limit,
				  bpshaper_is_queue(q) ?
				  dev->real_num_tx_queues : 1);
	bpshaper_flows_configure(&q->own.flows, q->mtu);
	bpshaper_backpressure_set_on(&q->own.bp, c->backpressure, now);
	/* Wake flows that wait for times that are no longer valid. */
	if (bpshaper_pacing_configure(&q->pacing, c, q->mtu))
		while ((f = bpshaper_table_first_waiting(&q->table))) {
			bpshaper_flow_wake(f->flows, f);
			bpshaper_leaf_update(bpshaper_flow_leaf(f), now);
		}
	if (!bpshaper_has_classes(q))
		bpshaper_leaf_apply_limit(&q->own, q->limit, limit_ns);
	else if (!q->queues)
		bpshaper_leaf_renew_limit(&q->own);
}

/* Schedule the qdisc, or all its queues. */
static void bpshaper_queues_schedule(struct Qdisc *sch)
{
	struct Qdisc *queue;
	u32 i;

	for (i = 0; (queue = bpshaper_queue(sch, i)); i++)
		__netif_schedule(qdisc_root(queue));
}

/* Checking */

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

/* Merge @opt, which may be NULL, into @c and check all. Several queues have one
 * bucket, and were made with the qdisc. The rate must do for the floors of all
 * classes.
 */
static int bpshaper_prepare(struct Qdisc *sch, struct bpshaper_config *c,
			    struct nlattr *opt, struct netlink_ext_ack *extack)
{
	const struct bpshaper_sched *q = qdisc_priv(sch);
	int err;

	if (!opt)
		return 0;
	err = bpshaper_config_parse(c, opt, extack);
	if (err)
		return err;
	if (q->queues ? c->queues : q->config.queues && !c->queues)
		return bpshaper_refuse(extack, -EINVAL,
				       "queues cannot be changed");
	if (q->queues && c->peakrate_Bps != TC_BPSHAPER_RATE_UNLIMITED)
		return bpshaper_refuse(extack, -EINVAL,
				       "peakrate needs queues 1");
	return bpshaper_floors_check(q->floors_Bps, c->rate_Bps, extack);
}

/* The hub of a qdisc, or of all its queues. */

static enum hrtimer_restart bpshaper_shared_timer(struct hrtimer *timer)
{
	struct bpshaper_shared *shared = container_of(timer,
						      struct bpshaper_shared,
						      timer);

	rcu_read_lock();
	bpshaper_hub_timer(&shared->hub);
	rcu_read_unlock();
	return HRTIMER_NORESTART;	/* it was armed anew, if at all */
}

/* The queue, or the qdisc that has one, takes part in the hub from now on. */
static void bpshaper_hub_join(struct bpshaper_sched *q,
			      struct bpshaper_hub *hub)
{
	q->hub = hub;
	bpshaper_member_init(&q->member, hub);
	bpshaper_leaf_share(&q->own, &bpshaper_sched_shared(q)->own);
}

/* Several queues join the hub one by one. A qdisc with one queue, which gets
 * classes, joins at once, and has an empty bucket once more.
 */
static int bpshaper_hub_make(struct Qdisc *sch)
{
	struct bpshaper_shared *shared = kzalloc(sizeof(*shared),
						 GFP_KERNEL_ACCOUNT);
	struct bpshaper_sched *q = qdisc_priv(sch);

	if (!shared)
		return -ENOMEM;
	bpshaper_hub_init(&shared->hub);
	bpshaper_node_init(&shared->own, &shared->hub.tree.root);
	hrtimer_setup(&shared->timer, bpshaper_shared_timer, CLOCK_MONOTONIC,
		      HRTIMER_MODE_ABS_PINNED_HARD);
	if (q->queues) {
		q->hub = &shared->hub;
		return 0;
	}
	sch_tree_lock(sch);
	bpshaper_hub_join(q, &shared->hub);
	bpshaper_hub_apply(q);
	bpshaper_watchdog_stop(q);
	sch_tree_unlock(sch);
	return 0;
}

/* Set the options of the qdisc, and of all its queues. Stop watchdogs, which
 * sleep for a batch at the old rate. The caller then schedules the queues.
 */
static void bpshaper_configure(struct Qdisc *sch,
			       const struct bpshaper_config *c)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct Qdisc *queue;
	u32 i;

	if (q->queues)	/* it has no packets, nor a lock */
		bpshaper_apply(sch, c);
	for (i = 0; (queue = bpshaper_queue(sch, i)); i++) {
		sch_tree_lock(queue);
		bpshaper_apply(queue, c);
		bpshaper_watchdog_stop(qdisc_priv(queue));
		sch_tree_unlock(queue);
	}
}

#endif /* _BPSHAPER_APPLY_H */
