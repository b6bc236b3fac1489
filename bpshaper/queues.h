/* SPDX-License-Identifier: GPL-2.0-only */
/* Queues: one bpshaper for each transmit queue of a device.
 *
 * A bpshaper at the root of a device with several transmit queues, the top, has
 * no packets. It makes a qdisc of its own kind for each queue, as mq does, and
 * has what they share: options, classes, filters, and a hub (hub.h) that
 * divides the rate. The queues have packets, flows and throttled sockets, and a
 * part of each class: a leaf with a slot. They are not shown unless asked for.
 *
 * The top holds its queues, and releases them from the hub before it goes. The
 * device may hold them for longer, without packets: the core destroys an old
 * root before it attaches the new one.
 */
#ifndef _BPSHAPER_QUEUES_H
#define _BPSHAPER_QUEUES_H

/* A change of options or of a class is work for all of them. */
#define BPSHAPER_QUEUES_MAX	1024

/* A device that has one queue, or uses one, needs one lock. Without a rate one
 * lock keeps the order of classes, of which there is a default, but one queue
 * that the device has stopped then stops all. A hub has no second bucket for a
 * peak rate.
 */
static bool bpshaper_wants_queues(struct Qdisc *sch,
				  const struct bpshaper_config *c)
{
	const struct net_device *dev = qdisc_dev(sch);

	return sch->parent == TC_H_ROOT && dev->real_num_tx_queues > 1 &&
	       dev->num_tx_queues <= BPSHAPER_QUEUES_MAX && !c->queues &&
	       (c->rate_Bps != TC_BPSHAPER_RATE_UNLIMITED ||
		!c->default_minor) &&
	       c->peakrate_Bps == TC_BPSHAPER_RATE_UNLIMITED;
}

/* The core applies the size table of the queue, which has none. That of the top
 * may come and go: the core sets it after change().
 */
static int bpshaper_queue_enqueue(struct sk_buff *skb, struct Qdisc *sch,
				  struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	if (unlikely(rcu_access_pointer(q->top->stab)))
		qdisc_skb_cb(skb)->pkt_len = bpshaper_stab_len(q->top,
							       skb->len);
	return bpshaper_enqueue(skb, sch, to_free);
}

static int bpshaper_queues_make(struct Qdisc *sch,
				struct netlink_ext_ack *extack)
{
	struct bpshaper_sched *q = qdisc_priv(sch), *one;
	struct net_device *dev = qdisc_dev(sch);
	struct Qdisc *queue;
	u32 i;

	q->queues = kcalloc(dev->num_tx_queues + 1, sizeof(*q->queues),
			    GFP_KERNEL_ACCOUNT);
	if (!q->queues || bpshaper_hub_make(sch))
		return -ENOMEM;
	sch->flags |= TCQ_F_MQROOT;
	for (i = 0; i < dev->num_tx_queues; i++) {
		queue = qdisc_create_dflt(netdev_get_tx_queue(dev, i), sch->ops,
					  TC_H_MAKE(sch->handle, i + 1),
					  extack);
		if (!queue)
			return -ENOMEM;
		queue->flags |= TCQ_F_ONETXQUEUE | TCQ_F_NOPARENT;
		queue->enqueue = bpshaper_queue_enqueue;
		q->queues[i] = queue;
		one = qdisc_priv(queue);
		one->top = sch;
		one->table.memory.lent = &q->hub->lent;
		bpshaper_hub_join(one, q->hub);
	}
	return 0;
}

/* The queues forget their packets, and get no others. Members may still be
 * woken by who noted them before their slots left, and a CPU may have run the
 * kick before it wakes one, in the same interrupt: they go a grace period
 * later.
 */
static void bpshaper_queues_destroy(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch), *one;
	struct bpshaper_shared *shared;
	struct Qdisc *queue;
	u32 i;

	for (i = 0; q->queues && (queue = q->queues[i]); i++) {
		one = qdisc_priv(queue);
		sch_tree_lock(queue);
		queue->ops->reset(queue);
		one->top = queue;
		one->hub = NULL;
		one->own.slot.member = NULL;
		one->table.memory.lent = NULL;
		bpshaper_classes_free(one);
		sch_tree_unlock(queue);
	}
	if (q->hub) {
		shared = bpshaper_sched_shared(q);
		synchronize_net();
		kick_all_cpus_sync();
		hrtimer_cancel(&shared->timer);
		q->hub = NULL;
		kfree(shared);
	}
	for (i = 0; q->queues && (queue = q->queues[i]); i++)
		qdisc_put(queue);
	kfree(q->queues);
	q->queues = NULL;
}

/* The core leaves it to a qdisc with this callback to go to the queues of the
 * device. Queues that the device does not use are not shown.
 */
static void bpshaper_attach(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct net_device *dev = qdisc_dev(sch);
	struct Qdisc *queue, *old;
	u32 i;

	for (i = 0; i < dev->num_tx_queues; i++) {
		queue = q->queues ? q->queues[i] : sch;
		qdisc_refcount_inc(queue);
		old = dev_graft_qdisc(netdev_get_tx_queue(dev, i), queue);
		if (old)
			qdisc_put(old);
		if (q->queues && i < dev->real_num_tx_queues)
			qdisc_hash_add(queue, true);
	}
}

/* ethtool -L. The core resets queues that are not used any more. */
static void bpshaper_change_real_num_tx(struct Qdisc *sch, unsigned int len)
{
	u32 old = qdisc_dev(sch)->real_num_tx_queues, i;
	struct bpshaper_sched *q = qdisc_priv(sch), *one;
	u32 memory = q->effective.memory_limit;
	struct Qdisc *queue;

	for (i = 0; q->queues && (queue = q->queues[i]); i++) {
		one = qdisc_priv(queue);
		sch_tree_lock(queue);
		bpshaper_memory_configure(&one->table.memory, memory, len);
		sch_tree_unlock(queue);
		if (i >= len)
			qdisc_hash_del(queue);
		else if (i >= old)
			qdisc_hash_add(queue, true);
	}
}

#endif /* _BPSHAPER_QUEUES_H */
