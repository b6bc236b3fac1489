/* SPDX-License-Identifier: GPL-2.0-only */
/* Several queues: what the top shares with them, and what they have of classes.
 * The device has three and uses two. Nothing but the test sends: the device is
 * not active. Bytes take a ms, so that none come meanwhile.
 */
#define BPSHAPER_TEST_QUEUES		3
#define BPSHAPER_TEST_QUEUES_USED	2
#define BPSHAPER_TEST_QUEUES_BURST	20000
#define BPSHAPER_TEST_HANDLE		BIT(16)

/**
 * struct bpshaper_queues_bench - what a case is tried on
 * @b: a bench with the queue that was used last; the first field
 * @top: the qdisc at the root, NULL once it is gone
 * @t: its private data
 */
struct bpshaper_queues_bench {
	struct bpshaper_bench	b;
	struct Qdisc		*top;
	struct bpshaper_sched	*t;
};

static struct bpshaper_sched *bpshaper_queues_use(struct kunit *test, u32 i)
{
	struct bpshaper_queues_bench *b = test->priv;

	b->b.sch = bpshaper_queue(b->top, i);
	b->b.q = qdisc_priv(b->b.sch);
	return b->b.q;
}

/* Without options the qdisc has no rate: it gets one now. */
static void bpshaper_queues_configure(struct bpshaper_queues_bench *b)
{
	struct bpshaper_config c = b->t->config;

	c.rate_Bps = 1000;
	c.burst = BPSHAPER_TEST_QUEUES_BURST;
	c.limit = BPSHAPER_TEST_LIMIT;
	c.share_min = BPSHAPER_TEST_SHARE_MIN;
	rtnl_lock();
	bpshaper_configure(b->top, &c);
	bpshaper_bucket_fill(&b->t->hub->tree.root.bucket);
	bpshaper_attach(b->top);
	rtnl_unlock();
}

static int bpshaper_queues_test_init(struct kunit *test)
{
	struct bpshaper_queues_bench *b;
	struct netdev_queue *queue;
	u32 i;

	b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, b);
	test->priv = b;
	b->b.dev = alloc_etherdev_mqs(0, BPSHAPER_TEST_QUEUES, 1);
	KUNIT_ASSERT_NOT_NULL(test, b->b.dev);
	b->b.dev->netdev_ops = &bpshaper_bench_ops;
	b->b.dev->real_num_tx_queues = BPSHAPER_TEST_QUEUES_USED;
	for (i = 0; i < BPSHAPER_TEST_QUEUES; i++) {
		queue = netdev_get_tx_queue(b->b.dev, i);
		rcu_assign_pointer(queue->qdisc, &noop_qdisc);
		rcu_assign_pointer(queue->qdisc_sleeping, &noop_qdisc);
	}
	queue = netdev_get_tx_queue(b->b.dev, 0);
	rtnl_lock();
	b->top = qdisc_create_dflt(queue, &bpshaper_qdisc_ops, TC_H_ROOT, NULL);
	rtnl_unlock();
	KUNIT_ASSERT_NOT_NULL(test, b->top);
	b->t = qdisc_priv(b->top);
	b->top->handle = BPSHAPER_TEST_HANDLE;
	KUNIT_ASSERT_NOT_NULL(test, b->t->queues);
	bpshaper_queues_configure(b);
	b->b.sock = bpshaper_bench_socket(test);
	b->b.sk = b->b.sock->sk;
	return 0;
}

/* As the core destroys an old root: the device still holds the queues. */
static void bpshaper_queues_put(struct bpshaper_queues_bench *b)
{
	rtnl_lock();
	if (b->top)
		qdisc_put(b->top);
	b->top = NULL;
	rtnl_unlock();
}

static void bpshaper_queues_test_exit(struct kunit *test)
{
	struct bpshaper_queues_bench *b = test->priv;
	struct Qdisc *old;
	u32 i;

	if (!b || !b->b.dev)
		return;
	bpshaper_queues_put(b);
	rtnl_lock();
	for (i = 0; i < BPSHAPER_TEST_QUEUES; i++) {
		old = dev_graft_qdisc(netdev_get_tx_queue(b->b.dev, i), NULL);
		qdisc_put(old);
	}
	rtnl_unlock();
	b->b.sch = NULL;
	b->b.own = 0;
	bpshaper_bench_exit(test);
}

/* What a case does */

static struct bpshaper_class *
bpshaper_queues_add_class(struct kunit *test, u32 minor, u32 parent, u64 ceil_Bps)
{
	struct bpshaper_queues_bench *b = test->priv;
	struct bpshaper_class_config c = bpshaper_class_defaults;
	unsigned long arg = 0;
	int err;

	c.limit = BPSHAPER_TEST_LIMIT;
	if (ceil_Bps)
		c.ceil_Bps = ceil_Bps;
	rtnl_lock();
	err = bpshaper_class_add(b->top, BPSHAPER_TEST_HANDLE + minor,
				 bpshaper_class_find(b->top, BPSHAPER_TEST_HANDLE + parent),
				 &c, &arg, NULL);
	rtnl_unlock();
	KUNIT_ASSERT_EQ(test, err, 0);
	return (struct bpshaper_class *)arg;
}

static int bpshaper_queues_remove_class(struct kunit *test, struct bpshaper_class *cl)
{
	struct bpshaper_queues_bench *b = test->priv;
	int err;

	rtnl_lock();
	err = bpshaper_class_remove(b->top, (unsigned long)cl, NULL);
	rtnl_unlock();
	return err;
}

static struct bpshaper_leaf *bpshaper_queues_leaf(struct kunit *test, u32 i,
						  struct bpshaper_class *cl)
{
	struct bpshaper_queues_bench *b = test->priv;

	return &bpshaper_class_part(bpshaper_queue(b->top, i), cl)->own;
}

/* Packets of a class come to a queue; class 0 is none. */
static void bpshaper_queues_send_direct(struct kunit *test, u32 i, u32 minor,
					struct sock *sk, int packets)
{
	struct bpshaper_queues_bench *b = test->priv;

	bpshaper_queues_use(test, i);
	b->b.priority = BPSHAPER_TEST_HANDLE + minor;
	while (packets--)
		bpshaper_bench_enqueue(test, sk);
}

/* All packets of classes are in flows. */
static void bpshaper_queues_send(struct kunit *test, u32 i, u32 minor,
				 struct sock *sk, int packets)
{
	struct bpshaper_queues_bench *b = test->priv;

	bpshaper_queues_send_direct(test, i, minor, sk, packets);
	bpshaper_bench_lock(&b->b);
	if (b->b.q->direct && bpshaper_has_classes(b->b.q))
		KUNIT_EXPECT_TRUE(test, bpshaper_direct_to_flow(b->b.sch, ktime_get_ns()));
	bpshaper_bench_unlock(&b->b);
}

/* A packet leaves, if one may. The queue asks, whoever sleeps. */
static bool bpshaper_queues_serve(struct kunit *test, u32 i)
{
	struct bpshaper_queues_bench *b = test->priv;
	struct bpshaper_sched *q = bpshaper_queues_use(test, i);

	bpshaper_bench_lock(&b->b);
	WRITE_ONCE(q->member.asleep, 0);
	atomic64_set(&q->hub->tokens_ns, 0);
	bpshaper_bench_unlock(&b->b);
	return bpshaper_bench_dequeue(test, true);
}

/* All that the queue may send leaves. Return how many packets. */
static int bpshaper_queues_drain(struct kunit *test, u32 i)
{
	int packets = 0;

	while (bpshaper_queues_serve(test, i))
		packets++;
	return packets;
}

/* Nothing is granted, and for an hour nothing will be. */
static void bpshaper_queues_take_tokens(struct bpshaper_hub *hub)
{
	unsigned long flags;

	bpshaper_hub_lock(hub, &flags);
	hub->tree.root.bucket.tat_ns = hub->tree.now_ns + BPSHAPER_TEST_HOUR_NS;
	bpshaper_hub_unlock(hub, flags);
}

/* All that the burst allows may be granted. */
static void bpshaper_queues_give_tokens(struct bpshaper_hub *hub)
{
	unsigned long flags;

	bpshaper_hub_lock(hub, &flags);
	bpshaper_bucket_fill(&hub->tree.root.bucket);
	bpshaper_hub_unlock(hub, flags);
}

/* The leaf gets bytes, whether there are tokens or not. */
static void bpshaper_queues_grant(struct bpshaper_leaf *l, u32 bytes)
{
	struct bpshaper_member *noted[BPSHAPER_HUB_STEPS];
	struct bpshaper_hub *hub = l->q->hub;
	unsigned long flags;

	raw_spin_lock_irqsave(&hub->lock, flags);
	hub->noted = noted;
	hub->noted_len = 0;
	bpshaper_slot_enter(&l->slot);
	bpshaper_slot_grant(&l->slot, bytes, true);
	raw_spin_unlock_irqrestore(&hub->lock, flags);
}

/* The queue is one of @used that divide what is scarce for nobody. */
static void bpshaper_queues_expect_memory(struct kunit *test, const struct bpshaper_sched *q,
					  u32 used)
{
	struct bpshaper_queues_bench *b = test->priv;
	u32 limit = b->t->effective.memory_limit, part = limit / 3 / used;

	KUNIT_EXPECT_PTR_EQ(test, q->table.memory.lent, &b->t->hub->lent);
	KUNIT_EXPECT_EQ(test, q->table.memory.scarce_above, part);
	KUNIT_EXPECT_EQ(test, q->table.memory.limit, limit - (used - 1) * part);
}

/* Options and the hub are those of all queues. */
static void bpshaper_queues_made_test(struct kunit *test)
{
	struct bpshaper_queues_bench *b = test->priv;
	const struct bpshaper_sched *q;
	struct Qdisc *queue;
	u32 i;

	KUNIT_EXPECT_TRUE(test, b->top->flags & TCQ_F_MQROOT);
	KUNIT_EXPECT_FALSE(test, bpshaper_is_queue(b->t));
	KUNIT_EXPECT_EQ(test, b->t->hub->tree.root.e.burst, BPSHAPER_TEST_QUEUES_BURST);
	for (i = 0; (queue = bpshaper_queue(b->top, i)); i++) {
		q = qdisc_priv(queue);
		KUNIT_EXPECT_TRUE(test, bpshaper_is_queue(q));
		KUNIT_EXPECT_PTR_EQ(test, q->top, b->top);
		KUNIT_EXPECT_PTR_EQ(test, q->hub, b->t->hub);
		KUNIT_EXPECT_EQ(test, TC_H_MIN(queue->parent), i + 1);
		KUNIT_EXPECT_EQ(test, memcmp(&q->config, &b->t->config, sizeof(q->config)), 0);
		KUNIT_EXPECT_EQ(test, q->segment_above, BPSHAPER_TEST_QUEUES_BURST / 4);
		bpshaper_queues_expect_memory(test, q, BPSHAPER_TEST_QUEUES_USED);
		KUNIT_EXPECT_EQ(test, hash_hashed(&queue->hash), i < BPSHAPER_TEST_QUEUES_USED);
		KUNIT_EXPECT_TRUE(test, queue->flags & TCQ_F_NOPARENT);
		KUNIT_EXPECT_PTR_EQ(test, queue,
				    rcu_access_pointer(queue->dev_queue->qdisc_sleeping));
	}
	KUNIT_EXPECT_EQ(test, i, BPSHAPER_TEST_QUEUES);
}

/* What a queue shows after ethtool -L. */
static void bpshaper_queues_used_test(struct kunit *test)
{
	static const u32 used[] = { 3, 1, 2 };
	struct bpshaper_queues_bench *b = test->priv;
	u32 i, k;

	for (k = 0; k < ARRAY_SIZE(used); k++) {
		rtnl_lock();
		bpshaper_change_real_num_tx(b->top, used[k]);
		b->b.dev->real_num_tx_queues = used[k];
		rtnl_unlock();
		for (i = 0; i < BPSHAPER_TEST_QUEUES; i++) {
			struct Qdisc *queue = bpshaper_queue(b->top, i);

			KUNIT_EXPECT_EQ(test, hash_hashed(&queue->hash), i < used[k]);
			bpshaper_queues_expect_memory(test, qdisc_priv(queue), used[k]);
		}
	}
}

/* The part that a queue has of a class. */
static void bpshaper_queues_expect_part(struct kunit *test, u32 i, struct bpshaper_class *cl)
{
	struct bpshaper_class *part, *parent = cl->parent;
	struct bpshaper_queues_bench *b = test->priv;
	struct Qdisc *queue = bpshaper_queue(b->top, i);
	struct bpshaper_sched *q = qdisc_priv(queue);

	part = bpshaper_class_find(queue, cl->common.classid);
	KUNIT_ASSERT_NOT_NULL(test, part);
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_class_part(queue, cl), part);
	KUNIT_EXPECT_PTR_NE(test, part, cl);
	KUNIT_EXPECT_PTR_EQ(test, part->whole, cl);
	KUNIT_EXPECT_PTR_EQ(test, part->own.q, q);
	KUNIT_EXPECT_PTR_EQ(test, part->own.slot.member, &q->member);
	KUNIT_EXPECT_PTR_EQ(test, part->own.slot.e.parent, &cl->node);
	KUNIT_EXPECT_PTR_EQ(test, part->parent,
			    parent ? bpshaper_class_part(queue, parent) : NULL);
	KUNIT_EXPECT_EQ(test, part->children, cl->children);
	KUNIT_EXPECT_EQ(test, part->own.limit, BPSHAPER_TEST_LIMIT);
	KUNIT_EXPECT_PTR_EQ(test, q->own.slot.e.parent, &bpshaper_sched_shared(b->t)->own);
	KUNIT_EXPECT_EQ(test, q->direct_max, 0);
}

static void bpshaper_queues_parts_test(struct kunit *test)
{
	struct bpshaper_queues_bench *b = test->priv;
	struct bpshaper_class *cl, *child;
	u32 i;

	cl = bpshaper_queues_add_class(test, 0x10, 0, 0);
	child = bpshaper_queues_add_class(test, 0x11, 0x10, 0);
	KUNIT_EXPECT_PTR_EQ(test, cl->whole, cl);
	KUNIT_EXPECT_PTR_EQ(test, cl->node.e.parent, &b->t->hub->tree.root);
	KUNIT_EXPECT_PTR_EQ(test, child->node.e.parent, &cl->node);
	KUNIT_EXPECT_EQ(test, cl->children, 1);
	for (i = 0; i < BPSHAPER_TEST_QUEUES; i++) {
		bpshaper_queues_expect_part(test, i, cl);
		bpshaper_queues_expect_part(test, i, child);
	}
	KUNIT_EXPECT_EQ(test, bpshaper_queues_remove_class(test, cl), -EBUSY);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_remove_class(test, child), 0);
	for (i = 0; i < BPSHAPER_TEST_QUEUES; i++)
		KUNIT_EXPECT_EQ(test, bpshaper_class_part(bpshaper_queue(b->top, i), cl)->children,
				0);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_remove_class(test, cl), 0);
	KUNIT_EXPECT_FALSE(test, bpshaper_has_classes(b->t));
	for (i = 0; i < BPSHAPER_TEST_QUEUES; i++) {
		KUNIT_EXPECT_FALSE(test, bpshaper_has_classes(bpshaper_queues_use(test, i)));
		KUNIT_EXPECT_EQ(test, b->b.q->direct_max, b->b.q->segment_above);
	}
}

/* When the first class comes a direct packet leaves before all others, or is one
 * of its flow's if it has to wait.
 */
static void bpshaper_queues_direct_test(struct kunit *test)
{
	struct bpshaper_queues_bench *b = test->priv;
	struct bpshaper_class *cl;
	struct bpshaper_sched *q;
	int i;

	for (i = 0; i < 2; i++) {
		bpshaper_queues_send(test, 0, 0, b->b.sk, 1);
		q = bpshaper_queues_use(test, 0);
		KUNIT_EXPECT_NOT_NULL(test, q->direct);
		cl = bpshaper_queues_add_class(test, 0x10, 0, 0);
		if (i) {
			bpshaper_queues_take_tokens(b->t->hub);
			KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 0);
			KUNIT_EXPECT_EQ(test, q->own.flows.qlen, 1);
			KUNIT_EXPECT_EQ(test, q->own.slot.want, BPSHAPER_TEST_BYTES);
			bpshaper_queues_give_tokens(b->t->hub);
		}
		KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 1);
		KUNIT_EXPECT_NULL(test, q->direct);
		KUNIT_EXPECT_EQ(test, bpshaper_queues_remove_class(test, cl), 0);
	}
	KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(&b->b, 0), 0);
}

static void bpshaper_queues_expect_purged(struct kunit *test, u32 i, u64 purged, u32 left)
{
	struct bpshaper_sched *q = bpshaper_queues_use(test, i);
	struct bpshaper_queues_bench *b = test->priv;

	KUNIT_EXPECT_EQ(test, q->stat_purged, purged);
	KUNIT_EXPECT_EQ(test, b->b.sch->q.qlen, left);
	KUNIT_EXPECT_EQ(test, b->b.sch->qstats.backlog, left * BPSHAPER_TEST_BYTES);
	KUNIT_EXPECT_EQ(test, q->own.flows.qlen, left);
	KUNIT_EXPECT_EQ(test, q->table.parked_len, 0);
	KUNIT_EXPECT_EQ(test, q->member.slots, left);
}

/* Packets of a class that gets its first child, or goes, are purged, more than
 * in one hold, and its socket is released. The queue's own stay, and counters.
 */
static void bpshaper_queues_purge_test(struct kunit *test)
{
	struct bpshaper_queues_bench *b = test->priv;
	struct bpshaper_class *cl, *child;
	struct bpshaper_leaf *l;

	cl = bpshaper_queues_add_class(test, 0x10, 0, 0);
	bpshaper_queues_take_tokens(b->t->hub);
	bpshaper_queues_send(test, 0, 0, NULL, 1);
	bpshaper_queues_send(test, 1, 0x10, NULL, 2);
	bpshaper_queues_send(test, 0, 0x10, b->b.sk, 130);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_state(&b->b), BPSHAPER_THROTTLED);
	b->b.own = 0;
	child = bpshaper_queues_add_class(test, 0x11, 0x10, 0);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(&b->b, 0), 0);
	bpshaper_queues_expect_purged(test, 0, 130, 1);
	bpshaper_queues_expect_purged(test, 1, 2, 0);
	l = bpshaper_queues_leaf(test, 0, cl);
	KUNIT_EXPECT_EQ(test, l->flows.stat.throttles, 1);
	KUNIT_EXPECT_EQ(test, l->flows.stat.unthrottles, 1);

	bpshaper_queues_send(test, 1, 0x11, b->b.sk, 130);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_state(&b->b), BPSHAPER_THROTTLED);
	b->b.own = 0;
	KUNIT_EXPECT_EQ(test, bpshaper_queues_remove_class(test, child), 0);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(&b->b, 0), 0);
	bpshaper_queues_expect_purged(test, 1, 132, 0);
	KUNIT_EXPECT_EQ(test, b->b.q->own.flows.stat.throttles, 1);
	KUNIT_EXPECT_EQ(test, b->b.q->own.flows.stat.unthrottles, 1);
	/* It can have packets again. */
	bpshaper_queues_send(test, 1, 0x10, NULL, 1);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_leaf(test, 1, cl)->flows.qlen, 1);
	bpshaper_queues_give_tokens(b->t->hub);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 1), 1);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 1);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_remove_class(test, cl), 0);
	bpshaper_queues_expect_purged(test, 2, 0, 0);
}

/* A packet of a class that finds its queue empty is the direct packet, and
 * counts in that class. It goes to a flow of that if it has to wait. When the
 * class goes before, it leaves as one of the qdisc's own.
 */
static void bpshaper_queues_direct_class_test(struct kunit *test)
{
	struct bpshaper_queues_bench *b = test->priv;
	struct bpshaper_class *cl = bpshaper_queues_add_class(test, 0x10, 0, 0);
	struct bpshaper_leaf *l = bpshaper_queues_leaf(test, 0, cl);
	struct gnet_stats_queue qstats;
	struct bpshaper_sched *q = l->q;
	struct bpshaper_flow *f;
	struct sk_buff *first;
	u64 begun_ns;

	bpshaper_queues_send_direct(test, 0, 0x10, b->b.sk, 1);
	KUNIT_EXPECT_NOT_NULL(test, q->direct);
	KUNIT_EXPECT_PTR_EQ(test, q->direct_leaf, l);
	bpshaper_bench_stats(test, b->top, (unsigned long)cl, TCA_STATS_QUEUE,
			     &qstats, sizeof(qstats));
	KUNIT_EXPECT_EQ(test, qstats.qlen, 1);
	KUNIT_EXPECT_EQ(test, qstats.backlog, BPSHAPER_TEST_BYTES);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 1);
	KUNIT_EXPECT_EQ(test, q->stat_direct_packets, 1);
	KUNIT_EXPECT_EQ(test, l->stat_bytes, BPSHAPER_TEST_BYTES);

	bpshaper_queues_take_tokens(b->t->hub);
	bpshaper_queues_send_direct(test, 0, 0x10, b->b.sk, 1);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 0);
	KUNIT_EXPECT_NULL(test, q->direct);
	KUNIT_EXPECT_EQ(test, l->flows.qlen, 1);
	KUNIT_EXPECT_EQ(test, l->slot.want, BPSHAPER_TEST_BYTES);
	bpshaper_queues_give_tokens(b->t->hub);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 1);
	KUNIT_EXPECT_EQ(test, l->stat_bytes, 2 * BPSHAPER_TEST_BYTES);

	/* Another comes before it leaves, and then there are no tokens. */
	bpshaper_queues_take_tokens(b->t->hub);
	begun_ns = ktime_get_ns();
	bpshaper_queues_send_direct(test, 0, 0x10, b->b.sk, 1);
	first = q->direct;
	bpshaper_queues_send_direct(test, 0, 0x10, b->b.sk, 1);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 0);
	KUNIT_EXPECT_EQ(test, l->flows.qlen, 2);
	f = bpshaper_flows_next(&l->flows);
	KUNIT_EXPECT_PTR_EQ(test, f->head, first);
	KUNIT_EXPECT_GE(test, f->socket->idle_ns, begun_ns);
	bpshaper_queues_give_tokens(b->t->hub);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 2);

	bpshaper_queues_send_direct(test, 0, 0x10, b->b.sk, 1);
	KUNIT_EXPECT_NOT_NULL(test, q->direct);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_remove_class(test, cl), 0);
	KUNIT_EXPECT_PTR_EQ(test, q->direct_leaf, &q->own);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 1);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(&b->b, 0), 0);
}

/* While others wait in another queue a packet that is alone in its own belongs to
 * its flow, which pays for it.
 */
static void bpshaper_queues_pays_test(struct kunit *test)
{
	struct bpshaper_queues_bench *b = test->priv;
	struct bpshaper_leaf *l = &bpshaper_queues_use(test, 0)->own;
	struct bpshaper_hub *hub = b->t->hub;

	bpshaper_queues_take_tokens(hub);
	bpshaper_queues_grant(l, BPSHAPER_TEST_BYTES);
	bpshaper_queues_send_direct(test, 0, 0, b->b.sk, 1);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 1);
	KUNIT_EXPECT_EQ(test, l->q->stat_direct_packets, 1);

	bpshaper_queues_send(test, 1, 0, NULL, 1);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 1), 0);
	KUNIT_EXPECT_EQ(test, hub->in_order, 1);
	bpshaper_queues_grant(l, BPSHAPER_TEST_BYTES);
	bpshaper_queues_send_direct(test, 0, 0, b->b.sk, 1);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 1);
	KUNIT_EXPECT_EQ(test, l->q->stat_direct_packets, 1);
	bpshaper_queues_give_tokens(hub);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 1), 1);
}

/* A leaf that is closed is not served before it is purged, also when the time of
 * a packet comes.
 */
static void bpshaper_queues_close_test(struct kunit *test)
{
	struct bpshaper_queues_bench *b = test->priv;
	struct bpshaper_class *cl = bpshaper_queues_add_class(test, 0x10, 0, 0);
	struct bpshaper_leaf *l = bpshaper_queues_leaf(test, 0, cl);
	struct bpshaper_sched *q = l->q;

	bpshaper_queues_send(test, 0, 0x10, NULL, 2);
	bpshaper_bench_lock(&b->b);
	bpshaper_flow_wait(&l->flows, bpshaper_flows_next(&l->flows), 1);
	bpshaper_leaf_update(l, ktime_get_ns());
	KUNIT_EXPECT_EQ(test, l->flows.waiting_len, 1);
	bpshaper_leaf_close(l);
	bpshaper_bench_unlock(&b->b);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 0);
	KUNIT_EXPECT_EQ(test, l->slot.want, 0);
	KUNIT_EXPECT_EQ(test, q->member.slots, 0);
	KUNIT_EXPECT_EQ(test, bpshaper_table_departs_ns(&q->table), U64_MAX);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_remove_class(test, cl), 0);
	bpshaper_queues_expect_purged(test, 0, 2, 0);
}

/* Without a rate what a queue derives from the limit is the same after the last
 * class has gone as before the first one came.
 */
static void bpshaper_queues_unlimited_test(struct kunit *test)
{
	struct bpshaper_queues_bench *b = test->priv;
	struct bpshaper_leaf *l = &bpshaper_queues_use(test, 0)->own;
	struct bpshaper_config c = b->t->config;
	struct bpshaper_class *cl;
	u64 patience_ns;
	u32 share_min;

	c.rate_Bps = TC_BPSHAPER_RATE_UNLIMITED;
	c.share_min = 0;
	rtnl_lock();
	bpshaper_configure(b->top, &c);
	rtnl_unlock();
	patience_ns = l->flows.turns.patience_ns;
	share_min = l->bp.share_min;
	cl = bpshaper_queues_add_class(test, 0x10, 0, 0);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_remove_class(test, cl), 0);
	KUNIT_EXPECT_EQ(test, l->flows.turns.patience_ns, patience_ns);
	KUNIT_EXPECT_EQ(test, l->bp.share_min, share_min);
}

/* Who waits for the time of a packet does not wait for tokens. */
static void bpshaper_queues_time_test(struct kunit *test)
{
	struct bpshaper_queues_bench *b = test->priv;
	struct bpshaper_leaf *l;
	u32 overlimits;

	l = bpshaper_queues_leaf(test, 0, bpshaper_queues_add_class(test, 0x10, 0, 0));
	bpshaper_queues_send(test, 0, 0x10, NULL, 1);
	bpshaper_bench_lock(&b->b);
	bpshaper_flow_wait(&l->flows, bpshaper_flows_next(&l->flows),
			   ktime_get_ns() + BPSHAPER_TEST_HOUR_NS);
	bpshaper_leaf_update(l, ktime_get_ns());
	bpshaper_bench_unlock(&b->b);
	overlimits = b->b.sch->qstats.overlimits;
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 0);
	KUNIT_EXPECT_EQ(test, b->b.sch->qstats.overlimits, overlimits);
	KUNIT_EXPECT_FALSE(test, l->q->is_armed_for_tokens);
}

/* A class goes while it waits for its ceil. The tree of the hub forgets it. */
static void bpshaper_queues_ceil_test(struct kunit *test)
{
	struct bpshaper_queues_bench *b = test->priv;
	struct bpshaper_hub *hub = b->t->hub;
	struct bpshaper_class *cl;

	cl = bpshaper_queues_add_class(test, 0x10, 0, 1000);
	bpshaper_bucket_fill(&cl->node.bucket);
	bpshaper_queues_send(test, 0, 0x10, NULL, 6);
	bpshaper_queues_send(test, 1, 0x10, NULL, 1);
	/* Two packets of 1514 bytes. */
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 3);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 1), 0);
	KUNIT_EXPECT_TRUE(test, cl->node.e.is_waiting);
	KUNIT_EXPECT_GE(test, cl->node.stat_waits, 1);
	KUNIT_EXPECT_NOT_NULL(test, rb_first_cached(&hub->tree.waiting));
	KUNIT_EXPECT_EQ(test, bpshaper_queues_remove_class(test, cl), 0);
	KUNIT_EXPECT_NULL(test, rb_first_cached(&hub->tree.waiting));
	bpshaper_queues_expect_purged(test, 0, 3, 0);
	bpshaper_queues_expect_purged(test, 1, 1, 0);
}

/* Who has bytes is next. */
static void bpshaper_queues_next_test(struct kunit *test)
{
	struct bpshaper_queues_bench *b = test->priv;
	struct bpshaper_class *cl[2];
	struct bpshaper_leaf *l[2];
	struct bpshaper_member *m;
	int i, steps = 100;

	for (i = 0; i < 2; i++)
		cl[i] = bpshaper_queues_add_class(test, 0x10 + i, 0, 0);
	bpshaper_queues_take_tokens(b->t->hub);
	for (i = 0; i < 2; i++) {
		bpshaper_queues_send(test, 0, 0x10 + i, NULL, 1);
		l[i] = bpshaper_queues_leaf(test, 0, cl[i]);
	}
	m = &b->b.q->member;
	KUNIT_EXPECT_EQ(test, m->slots, 2);
	KUNIT_EXPECT_NULL(test, bpshaper_member_next(m, &steps));
	KUNIT_EXPECT_LT(test, steps, 100);
	for (i = 1; i >= 0; i--) {
		bpshaper_queues_grant(l[i], BPSHAPER_TEST_BYTES);
		KUNIT_EXPECT_PTR_EQ(test, bpshaper_member_next(m, &steps), &l[i]->slot);
		steps = 0;
		KUNIT_EXPECT_NULL(test, bpshaper_member_next(m, &steps));
		steps = 100;
		KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 1);
		KUNIT_EXPECT_EQ(test, l[i]->flows.qlen, 0);
	}
	KUNIT_EXPECT_EQ(test, m->slots, 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&m->ready));
	KUNIT_EXPECT_NULL(test, bpshaper_member_next(m, &steps));
}

static void bpshaper_queues_expect_slot(struct kunit *test, struct bpshaper_leaf *l,
					u32 want)
{
	bpshaper_leaf_update(l, ktime_get_ns());
	KUNIT_EXPECT_EQ(test, l->slot.want, want);
	KUNIT_EXPECT_EQ(test, l->slot.head, min_t(u32, want, BPSHAPER_TEST_BYTES));
	KUNIT_EXPECT_EQ(test, l->slot.member->slots, !!want);
	KUNIT_EXPECT_EQ(test, list_empty(&l->slot.ready_node), !want);
}

/* What a leaf wants follows from its packets. One whose packets are not due wants
 * nothing.
 */
static void bpshaper_queues_want_test(struct kunit *test)
{
	struct bpshaper_queues_bench *b = test->priv;
	struct bpshaper_class *cl = bpshaper_queues_add_class(test, 0x10, 0, 0);
	struct bpshaper_leaf *l = bpshaper_queues_leaf(test, 0, cl);
	struct bpshaper_sched *q = l->q;
	struct bpshaper_flow *f;

	bpshaper_queues_take_tokens(q->hub);
	bpshaper_queues_send(test, 0, 0x10, NULL, 2);
	bpshaper_bench_lock(&b->b);
	bpshaper_queues_expect_slot(test, l, 2 * BPSHAPER_TEST_BYTES);
	KUNIT_EXPECT_EQ(test, l->slot.flows, 1);
	KUNIT_EXPECT_TRUE(test, l->slot.has_come);
	f = bpshaper_flows_next(&l->flows);
	KUNIT_EXPECT_EQ(test, (u64)atomic64_read(&l->slot.key), bpshaper_flow_place(f));

	/* Packets for later are not wanted, though there is a flow. */
	l->flows.later = BPSHAPER_TEST_BYTES;
	bpshaper_queues_expect_slot(test, l, BPSHAPER_TEST_BYTES);
	l->flows.later = 2 * BPSHAPER_TEST_BYTES;
	bpshaper_queues_expect_slot(test, l, BPSHAPER_TEST_BYTES);
	l->flows.later = 0;
	/* All flows wait. */
	bpshaper_flow_wait(&l->flows, f, BPSHAPER_TEST_HOUR_NS);
	bpshaper_queues_expect_slot(test, l, 0);
	bpshaper_flows_wake(&q->table, 1, BPSHAPER_TEST_HOUR_NS);
	KUNIT_EXPECT_EQ(test, l->slot.want, BPSHAPER_TEST_BYTES);
	bpshaper_queues_expect_slot(test, l, BPSHAPER_TEST_BYTES);
	bpshaper_bench_unlock(&b->b);

	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 0);
	KUNIT_EXPECT_EQ(test, q->member.asleep, 1);
	KUNIT_EXPECT_TRUE(test, list_empty(&l->slot.ready_node));
	/* Who lacks bytes does not drain. */
	KUNIT_EXPECT_TRUE(test, bpshaper_is_blocked(b->b.sch, l, f));
	bpshaper_queues_grant(l, BPSHAPER_TEST_BYTES);
	KUNIT_EXPECT_FALSE(test, bpshaper_is_blocked(b->b.sch, l, f));
}

/* When the rate or a class changes, nobody waits as of the old rate. */
static void bpshaper_queues_rate_test(struct kunit *test)
{
	struct bpshaper_queues_bench *b = test->priv;
	struct bpshaper_config c = b->t->config;
	struct bpshaper_hub *hub = b->t->hub;
	u64 now = ktime_get_ns();

	bpshaper_queues_take_tokens(hub);
	bpshaper_queues_send(test, 0, 0, NULL, 2);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 0);
	KUNIT_EXPECT_EQ(test, b->b.q->member.asleep, 1);
	KUNIT_EXPECT_TRUE(test, hrtimer_is_queued(&b->b.q->watchdog.timer));
	KUNIT_EXPECT_GT(test, (u64)atomic64_read(&hub->timer_ns),
			now + BPSHAPER_TEST_HOUR_NS / 2);
	c.rate_Bps *= 2;
	rtnl_lock();
	bpshaper_configure(b->top, &c);
	rtnl_unlock();
	KUNIT_EXPECT_FALSE(test, hrtimer_is_queued(&b->b.q->watchdog.timer));
	KUNIT_EXPECT_LT(test, (u64)atomic64_read(&hub->timer_ns),
			now + BPSHAPER_TEST_HOUR_NS / 2);
	/* On a slow machine it has fired. */
	KUNIT_EXPECT_TRUE(test,
			  atomic64_read(&hub->timer_ns) ||
			  bpshaper_slot_bytes(&b->b.q->own.slot));

	bpshaper_queues_take_tokens(hub);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 0);
	bpshaper_queues_add_class(test, 0x10, 0, 1000);
	KUNIT_EXPECT_FALSE(test, hrtimer_is_queued(&b->b.q->watchdog.timer));
}

/* Statistics are sums of all queues, and of children. */
static void bpshaper_queues_sums_test(struct kunit *test)
{
	struct bpshaper_queues_bench *b = test->priv;
	struct tc_bpshaper_leaf_xstats *st;
	struct gnet_stats_queue qstats;
	struct bpshaper_class *cl, *child;
	struct gnet_stats_basic basic;
	struct sk_buff *skb;
	u32 i;

	cl = bpshaper_queues_add_class(test, 0x10, 0, 0);
	child = bpshaper_queues_add_class(test, 0x11, 0x10, 0);
	bpshaper_queues_add_class(test, 0x20, 0, 0);
	bpshaper_queues_send(test, 1, 0x20, NULL, 1);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 1), 1);
	bpshaper_queues_send(test, 0, 0x11, b->b.sk, 1);
	bpshaper_queues_send(test, 1, 0x11, NULL, 1);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 0), 1);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 1), 1);
	bpshaper_queues_send(test, 0, 0x11, b->b.sk, 2);
	bpshaper_queues_send(test, 1, 0x11, NULL, 1);
	bpshaper_queues_leaf(test, 0, child)->flows.stat.drops[BPSHAPER_DROP_POOL] = 2;
	bpshaper_queues_leaf(test, 1, child)->flows.stat.drops[BPSHAPER_DROP_ACK] = 3;

	st = kunit_kzalloc(test, sizeof(*st), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, st);
	for (i = 0; i < 2; i++) {
		bpshaper_bench_stats(test, b->top, (unsigned long)(i ? cl : child),
				     TCA_STATS_BASIC, &basic, sizeof(basic));
		KUNIT_EXPECT_EQ(test, basic.bytes, 2 * BPSHAPER_TEST_BYTES);
		KUNIT_EXPECT_EQ(test, basic.packets, 2);
	}
	bpshaper_bench_stats(test, b->top, (unsigned long)child, TCA_STATS_QUEUE, &qstats,
			     sizeof(qstats));
	KUNIT_EXPECT_EQ(test, qstats.qlen, 3);
	KUNIT_EXPECT_EQ(test, qstats.backlog, 3 * BPSHAPER_TEST_BYTES);
	KUNIT_EXPECT_EQ(test, qstats.drops, 5);
	bpshaper_bench_stats(test, b->top, (unsigned long)child, TCA_STATS_APP, st, sizeof(*st));
	KUNIT_EXPECT_EQ(test, st->drops_pool, 2);
	KUNIT_EXPECT_EQ(test, st->drops_ack, 3);
	KUNIT_EXPECT_EQ(test, st->flows, 2);
	KUNIT_EXPECT_EQ(test, st->sockets, 1);
	/* Of the queues that have a backlog. */
	KUNIT_EXPECT_EQ(test, st->limit,
			bpshaper_queues_leaf(test, 0, child)->limit +
			bpshaper_queues_leaf(test, 1, child)->limit);
	bpshaper_bench_stats(test, b->top, (unsigned long)cl, TCA_STATS_APP, st, sizeof(*st));
	KUNIT_EXPECT_EQ(test, st->limit, BPSHAPER_TEST_LIMIT);
	skb = alloc_skb(1024, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, skb);
	rtnl_lock();
	KUNIT_EXPECT_GT(test, bpshaper_dump(b->top, skb), 0);
	rtnl_unlock();
	kfree_skb(skb);
	KUNIT_EXPECT_EQ(test, b->top->q.qlen, 3);
	KUNIT_EXPECT_EQ(test, b->top->qstats.backlog, 3 * BPSHAPER_TEST_BYTES);
}

/* Statistics of the hub, and flows of all queues. */
static void bpshaper_queues_stats_test(struct kunit *test)
{
	struct bpshaper_queues_bench *b = test->priv;
	struct tc_bpshaper_xstats *st;
	struct bpshaper_listing l;
	u32 i;

	st = kunit_kzalloc(test, sizeof(*st), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, st);
	for (i = 0; i < 2; i++)		/* the first of each is the direct packet */
		bpshaper_queues_send(test, i, 0, NULL, 2);
	bpshaper_bench_stats(test, b->top, 0, TCA_STATS_APP, st, sizeof(*st));
	KUNIT_EXPECT_EQ(test, st->queues, BPSHAPER_TEST_QUEUES_USED);
	KUNIT_EXPECT_EQ(test, st->hub_waiting, 0);
	KUNIT_EXPECT_EQ(test, st->hub_tokens, BPSHAPER_TEST_QUEUES_BURST);
	b->b.sch = b->top;
	l = bpshaper_bench_list(&b->b);
	KUNIT_EXPECT_EQ(test, l.classes, 2);

	bpshaper_queues_take_tokens(b->t->hub);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 1), 0);
	bpshaper_bench_stats(test, b->top, 0, TCA_STATS_APP, st, sizeof(*st));
	KUNIT_EXPECT_EQ(test, st->hub_waiting, 1);
	KUNIT_EXPECT_EQ(test, st->hub_tokens, 0);
	KUNIT_EXPECT_GE(test, st->hub_locks, 1);
	/* Of one queue there are none. */
	bpshaper_bench_stats(test, bpshaper_queue(b->top, 1), 0, TCA_STATS_APP, st, sizeof(*st));
	KUNIT_EXPECT_EQ(test, st->queues, 0);
	KUNIT_EXPECT_EQ(test, st->hub_waiting, 0);
}

/* A queue has no packets and no throttled sockets. */
static void bpshaper_queues_expect_empty(struct kunit *test, struct Qdisc *queue)
{
	const struct bpshaper_sched *q = qdisc_priv(queue);

	KUNIT_EXPECT_EQ(test, queue->q.qlen, 0);
	KUNIT_EXPECT_EQ(test, queue->qstats.backlog, 0);
	KUNIT_EXPECT_EQ(test, q->table.memory.used, 0);
	KUNIT_EXPECT_EQ(test, q->member.slots, 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&q->member.ready));
}

/* Nor has one whose top has gone parts of classes. */
static void bpshaper_queues_expect_gone(struct kunit *test, struct Qdisc *queue)
{
	const struct bpshaper_sched *q = qdisc_priv(queue);

	bpshaper_queues_expect_empty(test, queue);
	KUNIT_EXPECT_NULL(test, q->table.memory.lent);
	KUNIT_EXPECT_NULL(test, q->hub);
	KUNIT_EXPECT_PTR_EQ(test, q->top, queue);
	KUNIT_EXPECT_NULL(test, rcu_access_pointer(q->filters));
	KUNIT_EXPECT_FALSE(test, bpshaper_has_classes(q));
}

/* A queue is reset, in which a socket is throttled. The other sends what it has. */
static void bpshaper_queues_reset_test(struct kunit *test)
{
	struct bpshaper_queues_bench *b = test->priv;
	struct bpshaper_hub *hub = b->t->hub;
	struct bpshaper_class *cl;
	struct bpshaper_leaf *l;

	cl = bpshaper_queues_add_class(test, 0x10, 0, 0);
	bpshaper_queues_take_tokens(hub);
	bpshaper_queues_send(test, 1, 0x10, NULL, 2);
	bpshaper_queues_send(test, 0, 0, NULL, 1);
	bpshaper_queues_send(test, 0, 0x10, b->b.sk, 130);	/* and a burst */
	l = bpshaper_queues_leaf(test, 0, cl);
	KUNIT_EXPECT_EQ(test, l->flows.stat.throttles, 1);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_state(&b->b), BPSHAPER_THROTTLED);
	bpshaper_queues_grant(bpshaper_queues_leaf(test, 1, cl), BPSHAPER_TEST_BYTES);
	KUNIT_EXPECT_EQ(test, hub->in_order, 1);
	bpshaper_queues_grant(l, 2 * BPSHAPER_TEST_BYTES);
	KUNIT_EXPECT_EQ(test, hub->in_order, 2);
	KUNIT_EXPECT_EQ(test, hub->tree.root.bucket.out, 3 * BPSHAPER_TEST_BYTES);

	bpshaper_bench_reset(&b->b);
	l = bpshaper_queues_leaf(test, 1, cl);
	bpshaper_queues_expect_empty(test, b->b.sch);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(&b->b, 0), 0);
	/* On a slow machine it counts as late. */
	KUNIT_EXPECT_EQ(test, hub->in_order, l->slot.in_order);
	KUNIT_EXPECT_EQ(test, hub->tree.root.bucket.out, bpshaper_slot_bytes(&l->slot));
	KUNIT_EXPECT_EQ(test, list_empty(&hub->out), !bpshaper_slot_bytes(&l->slot));
	KUNIT_EXPECT_EQ(test, cl->node.e.offering, hub->in_order);
	bpshaper_queues_give_tokens(hub);
	KUNIT_EXPECT_EQ(test, bpshaper_queues_drain(test, 1), 2);
}

/* The top goes before its queues do. */
static void bpshaper_queues_top_test(struct kunit *test)
{
	struct bpshaper_queues_bench *b = test->priv;
	u32 i;

	bpshaper_queues_add_class(test, 0x10, 0, 1000);
	bpshaper_queues_add_class(test, 0x11, 0x10, 0);
	bpshaper_queues_send(test, 0, 0x11, b->b.sk, 12);
	bpshaper_queues_send(test, 1, 0x11, NULL, 4);
	bpshaper_queues_send(test, 1, 0, NULL, 4);
	bpshaper_queues_drain(test, 1);
	bpshaper_queues_put(b);
	for (i = 0; i < BPSHAPER_TEST_QUEUES; i++)
		bpshaper_queues_expect_gone(test,
					    netdev_get_tx_queue(b->b.dev, i)->qdisc_sleeping);
	b->b.own = 0;
	KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(&b->b, 0), 0);
}

/* Packets of a class come, each of its own flow, with a time. */
static void bpshaper_queues_send_later(struct kunit *test, u32 minor, u32 flows)
{
	u64 at = ktime_get_ns() + 5 * NSEC_PER_SEC;
	struct bpshaper_queues_bench *b = test->priv;
	struct sk_buff *skb, *to_free = NULL;

	bpshaper_queues_use(test, 0);
	while (flows) {
		skb = alloc_skb(64, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, skb);
		skb->dev = b->b.dev;
		skb->priority = BPSHAPER_TEST_HANDLE + minor;
		skb->tstamp = ns_to_ktime(at);
		__skb_set_sw_hash(skb, flows--, true);
		qdisc_skb_cb(skb)->pkt_len = BPSHAPER_TEST_BYTES / 10;
		bpshaper_bench_lock(&b->b);
		KUNIT_EXPECT_EQ(test, bpshaper_enqueue(skb, b->b.sch, &to_free), NET_XMIT_SUCCESS);
		hrtimer_cancel(&b->b.q->backstop);
		bpshaper_bench_unlock(&b->b);
	}
	KUNIT_EXPECT_NULL(test, to_free);
}

/* A class with many packets that are not due does not hold up another one. */
static void bpshaper_queues_look_test(struct kunit *test)
{
	static const struct { u32 flows; int looks; } rows[] = {
		{ 1, 1 }, { 40, 1 }, { 90, 2 },
	};
	struct bpshaper_queues_bench *b = test->priv;
	struct bpshaper_class *later, *due;
	struct bpshaper_leaf *l;
	int i, looks;

	later = bpshaper_queues_add_class(test, 0x10, 0, 0);
	due = bpshaper_queues_add_class(test, 0x11, 0, 0);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		bpshaper_queues_send(test, 0, 0x11, NULL, 1);
		bpshaper_queues_send_later(test, 0x10, rows[i].flows);
		l = bpshaper_queues_leaf(test, 0, later);
		for (looks = 1; !bpshaper_queues_serve(test, 0) && looks < 10; looks++)
			KUNIT_EXPECT_LE(test, l->flows.waiting_len, looks * BPSHAPER_FLOW_STEPS);
		KUNIT_EXPECT_LE(test, l->flows.waiting_len, looks * BPSHAPER_FLOW_STEPS);
		KUNIT_EXPECT_LE_MSG(test, looks, rows[i].looks, "%u flows", rows[i].flows);
		KUNIT_EXPECT_EQ(test, bpshaper_queues_leaf(test, 0, due)->flows.qlen, 0);
		bpshaper_queues_serve(test, 0);
		KUNIT_EXPECT_EQ(test, l->flows.waiting_len, rows[i].flows);
		KUNIT_EXPECT_EQ(test, l->slot.want, 0);
		bpshaper_bench_reset(&b->b);
	}
}

static struct kunit_case bpshaper_queues_cases[] = {
	KUNIT_CASE(bpshaper_queues_made_test),
	KUNIT_CASE(bpshaper_queues_used_test),
	KUNIT_CASE(bpshaper_queues_parts_test),
	KUNIT_CASE(bpshaper_queues_direct_test),
	KUNIT_CASE(bpshaper_queues_purge_test),
	KUNIT_CASE(bpshaper_queues_direct_class_test),
	KUNIT_CASE(bpshaper_queues_pays_test),
	KUNIT_CASE(bpshaper_queues_close_test),
	KUNIT_CASE(bpshaper_queues_unlimited_test),
	KUNIT_CASE(bpshaper_queues_time_test),
	KUNIT_CASE(bpshaper_queues_ceil_test),
	KUNIT_CASE(bpshaper_queues_next_test),
	KUNIT_CASE(bpshaper_queues_want_test),
	KUNIT_CASE(bpshaper_queues_rate_test),
	KUNIT_CASE(bpshaper_queues_sums_test),
	KUNIT_CASE(bpshaper_queues_stats_test),
	KUNIT_CASE(bpshaper_queues_reset_test),
	KUNIT_CASE(bpshaper_queues_top_test),
	KUNIT_CASE(bpshaper_queues_look_test),
	{}
};

BPSHAPER_SUITE(queues, bpshaper_queues_test_init, bpshaper_queues_test_exit);
