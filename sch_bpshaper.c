// SPDX-License-Identifier: GPL-2.0-only
/* bpshaper: a shaper that throttles sockets instead of dropping their packets
 *
 * Principles
 *
 * - A token bucket limits the rate. The queue before it has a flow for each
 *   socket, or for each peer of an unconnected socket. That which has been
 *   served least is next.
 * - Classes divide the rate by floor, weight and prio, and keep to their ceils.
 *   Each class without children is a leaf: it has flows, throttled sockets and
 *   a pool of its own, and a limit that follows from what it gets. The qdisc
 *   has a leaf for packets of no class, the only one without classes. What is
 *   said of the queue below is true of each leaf.
 * - A packet of a throttleable socket is never dropped because the queue is
 *   long. A socket whose flows hold more than its share of the limit while the
 *   queue does not drain is throttled: it cannot send until they have drained
 *   to a quarter of the share and, with many sockets, until its turn has come.
 *   A packet is dropped only because of memory_limit, a failed allocation or a
 *   filter, or if it is a GSO packet that cannot be segmented. Pure ACKs are
 *   not throttled: past 16 of them a later one replaces the last.
 * - Packets without a throttleable socket (forwarded ones, for instance) share
 *   the socketless pool: flows by packet hash, `limit` bounds them all
 *   together, and the longest queue loses packets when the pool is full.
 *   Sockets do not count in it.
 * - A packet leaves no earlier than its departure time (skb->tstamp). One
 *   without leaves no faster than the pacing rate of its socket. Only its own
 *   flow waits for that. One watchdog serves this, the bucket and the ceils.
 *
 * enqueue:
 * - filters may drop a packet; with classes its priority, filters or `default`
 *   choose its leaf;
 * - a GSO packet that is too large for the burst (see
 *   bpshaper_derive_segment_above()) or for that of a ceil above it is
 *   segmented, and the segments join their flow;
 * - a packet that finds the qdisc empty becomes the direct packet of its leaf,
 *   unless pacing needs its flow; no flow is looked up;
 * - any other packet joins its flow. A socket above its share becomes
 *   overlimit. It is throttled at once if the qdisc waits for tokens, or its
 *   slot lacks bytes, if the flow waits for its pacing rate, if the device is
 *   stopped, or if nobody has called dequeue since the packet before.
 *
 * dequeue:
 * - the direct packet first, for order, then the flow that is next; with
 *   classes, or as one of several queues, of a slot that has bytes. If none
 *   has, ask the hub, which wakes the qdisc when there are some;
 * - without tokens: arm the watchdog for when a batch may leave, half a burst
 *   but at most 1 ms of the rate (timers and context switches are the cost of
 *   shaping, so wake up once for a batch, not once for a packet), and throttle
 *   up to 64 overlimit sockets of a leaf;
 * - until it fires, try only the direct packet, a flow that is behind the
 *   others, or one whose departure time comes before;
 * - a flow whose next packet is not due, or that is ahead of its pacing rate,
 *   waits aside.
 *
 * Documentation/design.rst says what is in which file below bpshaper/ and where
 * to change what, Documentation/glossary.rst what the words mean.
 *
 * Locking: packets and statistics, under the root lock of the qdisc. change()
 * prepares under RTNL and applies under both. Classes come, change and go
 * likewise. Filters are read under RCU. init() and destroy() need only RTNL for
 * their own qdisc: no packet reaches it. Several queues (queues.h) have a root
 * lock each and share a hub (hub.h), whose lock is inside. The backstop takes
 * no root lock, and dump() those of the queues. The timer of turns takes the
 * root lock in a softirq, and a lock of its own against reset(). The transmit
 * softirq frees the ballast.
 */

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/capability.h>
#include <linux/errno.h>
#include <linux/hash.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/netdevice.h>
#include <linux/random.h>
#include <linux/rbtree_augmented.h>
#include <linux/rcupdate.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <linux/sock_diag.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <net/inet_ecn.h>
#include <net/netlink.h>

#include "sch_bpshaper.h"
#include "bpshaper/compat.h"
#include "bpshaper/config.h"
#include "bpshaper/packet.h"
#define CREATE_TRACE_POINTS
#include "bpshaper/trace.h"
#include "bpshaper/rate.h"
#include "bpshaper/socket.h"
#include "bpshaper/flow.h"
#include "bpshaper/order.h"
#include "bpshaper/table.h"
#include "bpshaper/tree.h"
#include "bpshaper/hub.h"
#include "bpshaper/sched.h"
#include "bpshaper/hold.h"
#include "bpshaper/shaper.h"
#include "bpshaper/apply.h"
#include "bpshaper/class.h"
#include "bpshaper/enqueue.h"
#ifdef BPSHAPER_LAWS
#include "selftests/kunit/laws.h"
#else
static inline void bpshaper_assert_all(struct Qdisc *sch) {}
static inline void bpshaper_assert_packet(struct Qdisc *sch) {}
#endif
#include "bpshaper/dequeue.h"
#include "bpshaper/stats.h"
#include "bpshaper/queues.h"

/* Packets that wait while another one is enqueued: see bpshaper_init(). */
#define BPSHAPER_DEFER_PKTS	65536

/* Life cycle */

/* Free all packets and release all sockets: link down, removal. The buckets are
 * full afterwards, those of a hub once the device takes all queues out of use.
 * The core also calls this after an init() of a default qdisc that failed.
 */
static void bpshaper_reset(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch), *top = qdisc_priv(q->top);
	struct bpshaper_hub *hub = q->hub;
	struct bpshaper_class *cl;
	unsigned long flags;

	if (!q->table.trees || q->queues)
		return;
	bpshaper_watchdog_stop(q);
	spin_lock_bh(&q->turn_lock);
	hrtimer_try_to_cancel(&q->turn_timer);
	q->undrained = 0;
	rtnl_kfree_skbs(q->direct, q->direct);
	q->direct = NULL;
	q->direct_ns = 0;

	q->stat_purged += sch->q.qlen;
	bpshaper_leaf_close(&q->own);
	bpshaper_flows_purge(&q->own.flows, INT_MAX);
	list_for_each_entry(cl, &q->classes, list) {
		bpshaper_leaf_close(&cl->own);
		bpshaper_flows_purge(&cl->own.flows, INT_MAX);
	}
	bpshaper_bucket_fill(&q->bucket);
	bpshaper_bucket_fill(&q->peak);
	if (hub && (q == top ||
		    test_bit(__QDISC_STATE_DEACTIVATED, &sch->state))) {
		bpshaper_hub_lock(hub, &flags);
		bpshaper_bucket_fill(&hub->tree.root.bucket);
		list_for_each_entry(cl, &top->classes, list) {
			bpshaper_bucket_fill(&cl->node.bucket);
			bpshaper_node_change(&hub->tree, &cl->node);
			bpshaper_node_offer(&hub->tree, &cl->node);
		}
		bpshaper_hub_unlock(hub, flags);
	}
	WRITE_ONCE(sch->q.qlen, 0);
	WRITE_ONCE(sch->qstats.backlog, 0);
	spin_unlock_bh(&q->turn_lock);
}

/* Change options, if @opt has any, and what follows from them and from the MTU:
 * for classes too. One lock for each, so that packets need not wait for all.
 */
static int bpshaper_change(struct Qdisc *sch, struct nlattr *opt,
			   struct netlink_ext_ack *extack)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_config config = q->config;
	struct bpshaper_class *cl;
	int err;

	err = bpshaper_prepare(sch, &config, opt, extack);
	if (err)
		return err;
	bpshaper_configure(sch, &config);
	list_for_each_entry(cl, &q->classes, list)
		bpshaper_class_set(sch, cl, &cl->config, NULL);
	bpshaper_queues_schedule(sch);	/* no watchdog is armed */
	return 0;
}

static int bpshaper_init(struct Qdisc *sch, struct nlattr *opt,
			 struct netlink_ext_ack *extack)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct tcf_block_ext_info info = {
		.chain_head_change	= bpshaper_filters_change,
		.chain_head_change_priv	= sch,
	};
	struct bpshaper_config config = bpshaper_defaults;
	int err;

	q->top = sch;
	q->csd.func = bpshaper_called;
	q->csd.info = q;
	q->net = dev_net(qdisc_dev(sch));
	qdisc_watchdog_init(&q->watchdog, sch);
	hrtimer_setup(&q->backstop, bpshaper_backstop, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL);
	hrtimer_setup(&q->turn_timer, bpshaper_turn_timer, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_SOFT);
	spin_lock_init(&q->turn_lock);
	bpshaper_leaf_init(&q->own, q, sch, &q->table);
	q->direct_leaf = &q->own;
	q->ticking = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&q->overlimit);
	INIT_LIST_HEAD(&q->classes);
	err = bpshaper_table_alloc(&q->table, qdisc_dev(sch)) ?:
	      tcf_block_get_ext(&q->block, sch, &info, extack) ?:
	      qdisc_class_hash_init(&q->clhash) ?:
	      bpshaper_prepare(sch, &config, opt, extack);
	if (!err && bpshaper_wants_queues(sch, &config))
		err = bpshaper_queues_make(sch, extack);
	if (err)
		return err;
	bpshaper_configure(sch, &config);
	/* Buckets start full. */
	bpshaper_bucket_fill(&q->bucket);
	bpshaper_bucket_fill(&q->peak);
	if (q->hub)
		bpshaper_bucket_fill(&q->hub->tree.root.bucket);
	/* Since 6.19 concurrent senders defer packets while one of them holds
	 * the queue. This bounds how many, or the sysctl
	 * net.core.qdisc_max_burst does.
	 */
	sch->limit = BPSHAPER_DEFER_PKTS;
	return 0;
}

/* The core also calls this after an init() that failed. Filters go before
 * classes: they refer to them.
 */
static void bpshaper_destroy(struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_class *cl;

	qdisc_watchdog_cancel(&q->watchdog);
	hrtimer_cancel(&q->backstop);
	hrtimer_cancel(&q->turn_timer);
	bpshaper_reset(sch);
	tcf_block_put(q->block);
	bpshaper_queues_destroy(sch);
	list_for_each_entry(cl, &q->classes, list)
		tcf_block_put(cl->block);
	bpshaper_classes_free(q);
	qdisc_class_hash_destroy(&q->clhash);
	bpshaper_table_free(&q->table);
}

/* What several queues have sent and queued is in the statistics of the core. */
static int bpshaper_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct Qdisc *queue;
	u32 i;

	if (q->queues) {
		sch->q.qlen = 0;
		memset(&sch->qstats, 0, sizeof(sch->qstats));
		bpshaper_stats_add_basic(sch, NULL);
		for (i = 0; (queue = q->queues[i]); i++) {
			sch_tree_lock(queue);
			bpshaper_stats_add_basic(sch, queue);
			sch->q.qlen += queue->q.qlen;
			sch->qstats.backlog += queue->qstats.backlog;
			sch->qstats.drops += queue->qstats.drops;
			sch->qstats.requeues += queue->qstats.requeues;
			sch->qstats.overlimits += queue->qstats.overlimits;
			sch_tree_unlock(queue);
		}
	}
	return bpshaper_options_dump(skb, bpshaper_options, TCA_BPSHAPER_MAX,
				     &q->effective);
}

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
	.attach		= bpshaper_attach,
#ifndef BPSHAPER_LACKS_CHANGE_REAL_NUM_TX
	.change_real_num_tx = bpshaper_change_real_num_tx,
#endif
	.change		= bpshaper_change,
	.dump		= bpshaper_dump,
	.dump_stats	= bpshaper_dump_stats,
	.owner		= THIS_MODULE,
};

/* The device has another MTU, which defaults follow from. */
static void bpshaper_follow_mtu(struct Qdisc *sch)
{
	if (sch->ops == &bpshaper_qdisc_ops &&
	    !bpshaper_is_queue(qdisc_priv(sch)))
		bpshaper_change(sch, NULL, NULL);
}

static int bpshaper_netdev_event(struct notifier_block *nb, unsigned long event,
				 void *info)
{
	struct net_device *dev = netdev_notifier_info_to_dev(info);
	struct Qdisc *sch;
	int bucket;

	if (event != NETDEV_CHANGEMTU)
		return NOTIFY_DONE;
	bpshaper_follow_mtu(rtnl_dereference(dev->qdisc));
	hash_for_each(dev->qdisc_hash, bucket, sch, hash)
		bpshaper_follow_mtu(sch);
	return NOTIFY_DONE;
}

static struct notifier_block bpshaper_netdev_notifier = {
	.notifier_call	= bpshaper_netdev_event,
};

/* It does no harm that what has failed in init() was never there. */
static void bpshaper_module_clean(void)
{
	unregister_netdevice_notifier(&bpshaper_netdev_notifier);
	kmem_cache_destroy(bpshaper_class_cachep);
	kmem_cache_destroy(bpshaper_socket_cachep);
	kmem_cache_destroy(bpshaper_flow_cachep);
}

static int __init bpshaper_module_init(void)
{
	int err = -ENOMEM;

	bpshaper_policy_init();
	bpshaper_flow_cachep = KMEM_CACHE(bpshaper_flow, 0);
	bpshaper_socket_cachep = KMEM_CACHE(bpshaper_socket, 0);
	bpshaper_class_cachep = KMEM_CACHE(bpshaper_class, SLAB_ACCOUNT);
	if (bpshaper_flow_cachep && bpshaper_socket_cachep &&
	    bpshaper_class_cachep)
		err = register_netdevice_notifier(&bpshaper_netdev_notifier) ?:
		      register_qdisc(&bpshaper_qdisc_ops);
	if (err)
		bpshaper_module_clean();
	return err;
}

static void __exit bpshaper_module_exit(void)
{
	unregister_qdisc(&bpshaper_qdisc_ops);
	bpshaper_module_clean();
}

module_init(bpshaper_module_init);
module_exit(bpshaper_module_exit);
MODULE_ALIAS_NET_SCH("bpshaper");
MODULE_AUTHOR("The bpshaper developers");
MODULE_DESCRIPTION("Shaper that throttles sockets instead of dropping packets");
MODULE_LICENSE("GPL");
