/* SPDX-License-Identifier: GPL-2.0-only */
/* Backpressure: a real qdisc on a device that is never registered, and packets
 * that a real socket is charged for. The device never transmits: what is
 * dequeued here is freed, as a driver would.
 */

/* Packets and limit make for a share of ten packets, and two in a quarter of
 * it.
 */
#define BPSHAPER_TEST_BYTES	1000
#define BPSHAPER_TEST_LIMIT	(10 * BPSHAPER_TEST_BYTES)
#define BPSHAPER_TEST_SHARE_MIN	3028
#define BPSHAPER_TEST_SNDBUF	200000
#define BPSHAPER_TEST_HOUR_NS	(3600ULL * NSEC_PER_SEC)

/**
 * struct bpshaper_bench - what a row is tried on
 * @dev: has one queue, and @sch as its root
 * @sch: the qdisc
 * @q: its private data
 * @sock: sender, NULL once closed
 * @sk: its struct sock, valid as long as something is charged to it
 * @own: truesize of its packets that are queued
 * @priority: of packets that are enqueued
 * @stat_wakeups: calls of its sk_write_space()
 */
struct bpshaper_bench {
	struct net_device	*dev;
	struct Qdisc		*sch;
	struct bpshaper_sched	*q;
	struct socket		*sock;
	struct sock		*sk;
	u32			own;
	u32			priority;
	atomic_t		stat_wakeups;
};

static void bpshaper_bench_write_space(struct sock *sk)
{
	struct bpshaper_bench *b = sk->sk_user_data;

	atomic_inc(&b->stat_wakeups);
}

static struct socket *bpshaper_bench_socket(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct socket *sock;

	KUNIT_ASSERT_EQ(test, 0, sock_create_kern(&init_net, PF_INET, SOCK_DGRAM,
						  IPPROTO_UDP, &sock));
	sock->sk->sk_sndbuf = BPSHAPER_TEST_SNDBUF;
	sock->sk->sk_user_data = b;
	sock->sk->sk_write_space = bpshaper_bench_write_space;
	return sock;
}

/* Packets are queued and freed in the places where senders and drivers do it.
 */
static void bpshaper_bench_lock(struct bpshaper_bench *b)
{
	rcu_read_lock_bh();
	spin_lock(qdisc_lock(b->sch));
}

static void bpshaper_bench_unlock(struct bpshaper_bench *b)
{
	spin_unlock(qdisc_lock(b->sch));
	rcu_read_unlock_bh();
}

static void bpshaper_bench_enqueue(struct kunit *test, struct sock *sk)
{
	struct sk_buff *skb = alloc_skb(64, GFP_KERNEL), *to_free = NULL;
	struct bpshaper_bench *b = test->priv;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb->dev = b->dev;
	skb->priority = b->priority;
	if (sk) {
		skb_set_owner_w(skb, sk);
		b->own += skb->truesize;
	}
	qdisc_skb_cb(skb)->pkt_len = BPSHAPER_TEST_BYTES;
	bpshaper_bench_lock(b);
	KUNIT_EXPECT_EQ(test, bpshaper_enqueue(skb, b->sch, &to_free),
			NET_XMIT_SUCCESS);
	/* Nobody but the test dequeues. */
	hrtimer_cancel(&b->q->backstop);
	bpshaper_bench_unlock(b);
	KUNIT_EXPECT_NULL(test, to_free);
}

/* The packet that leaves; NULL if none does. */
static struct sk_buff *bpshaper_bench_take(struct bpshaper_bench *b,
					   bool has_tokens)
{
	struct sk_buff *skb;

	bpshaper_bench_lock(b);
	if (has_tokens) {
		/* The timer has fired. */
		qdisc_watchdog_cancel(&b->q->watchdog);
		bpshaper_bucket_fill(&b->q->bucket);
	} else {
		b->q->bucket.tat_ns = ktime_get_ns() + BPSHAPER_TEST_HOUR_NS;
	}
	skb = bpshaper_dequeue(b->sch);
	hrtimer_cancel(&b->q->backstop);
	bpshaper_bench_unlock(b);
	return skb;
}

/* What the bucket allows: false if nothing left. */
static bool bpshaper_bench_dequeue(struct kunit *test, bool has_tokens)
{
	struct bpshaper_bench *b = test->priv;
	struct sk_buff *skb = bpshaper_bench_take(b, has_tokens);

	if (!skb)
		return false;
	if (skb->sk)
		b->own -= skb->truesize;
	kfree_skb(skb);
	return true;
}

/* For tokens, or for the time of a packet. */
static void bpshaper_bench_sleep(struct bpshaper_bench *b, bool is_armed_for_tokens)
{
	qdisc_watchdog_schedule_ns(&b->q->watchdog,
				   ktime_get_ns() + BPSHAPER_TEST_HOUR_NS);
	b->q->is_armed_for_tokens = is_armed_for_tokens;
}

static void bpshaper_bench_reset(struct bpshaper_bench *b)
{
	rtnl_lock();
	bpshaper_bench_lock(b);
	bpshaper_reset(b->sch);
	bpshaper_bench_unlock(b);
	rtnl_unlock();
	b->own = 0;
}

/* The first flow of the socket; NULL if it has none. */
static struct bpshaper_flow *bpshaper_bench_flow(struct bpshaper_bench *b,
						 struct sock *sk)
{
	struct bpshaper_key key = { .sk = sk };
	struct rb_node *p = rb_first(bpshaper_table_tree(&b->q->table, key));
	struct bpshaper_flow *f;

	for (; p; p = rb_next(p)) {
		f = rb_entry(p, struct bpshaper_flow, node);
		if (f->key.sk == sk)
			return f;
	}
	return NULL;
}

static struct bpshaper_socket *bpshaper_bench_sender(struct bpshaper_bench *b)
{
	struct bpshaper_flow *f = bpshaper_bench_flow(b, b->sk);

	return f ? f->socket : NULL;
}

static enum bpshaper_state bpshaper_bench_state(struct bpshaper_bench *b)
{
	struct bpshaper_socket *s = bpshaper_bench_sender(b);

	return s ? s->state : BPSHAPER_UNTHROTTLED;
}

/* Bytes that the socket is charged for beside its own packets. Ballast is freed
 * in the transmit softirq, which may be a thread of its own.
 */
static u32 bpshaper_bench_charge(struct bpshaper_bench *b, u32 expected)
{
	u32 charge, tries = 40;

	do {
		charge = refcount_read(&b->sk->sk_wmem_alloc) - 1 - b->own;
		if (charge == expected)
			break;
		usleep_range(5000, 10000);
	} while (tries--);
	return charge;
}

static bool bpshaper_list_has(const struct list_head *list,
			      const struct bpshaper_socket *s)
{
	const struct list_head *p;

	list_for_each(p, list)
		if (p == &s->node)
			return true;
	return false;
}

/* On a slow machine the backstop fires, and sends. */
static netdev_tx_t bpshaper_bench_xmit(struct sk_buff *skb,
				       struct net_device *dev)
{
	kfree_skb(skb);
	return NETDEV_TX_OK;
}

/* Filters ask whether the device can offload them. */
static const struct net_device_ops bpshaper_bench_ops = {
	.ndo_start_xmit	= bpshaper_bench_xmit,
};

static void bpshaper_bench_make(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct netdev_queue *queue;

	b->dev = alloc_etherdev(0);
	KUNIT_ASSERT_NOT_NULL(test, b->dev);
	b->dev->netdev_ops = &bpshaper_bench_ops;
	queue = netdev_get_tx_queue(b->dev, 0);
	rcu_assign_pointer(queue->qdisc_sleeping, &noop_qdisc);
	rtnl_lock();
	b->sch = qdisc_create_dflt(queue, &bpshaper_qdisc_ops, TC_H_ROOT, NULL);
	rtnl_unlock();
	KUNIT_ASSERT_NOT_NULL(test, b->sch);
	rcu_assign_pointer(queue->qdisc, b->sch);
	rcu_assign_pointer(queue->qdisc_sleeping, b->sch);

	b->q = qdisc_priv(b->sch);
	b->q->config.rate_Bps = 1000;
	b->q->config.burst = 2000;
	b->q->config.limit = BPSHAPER_TEST_LIMIT;
	b->q->config.share_min = BPSHAPER_TEST_SHARE_MIN;
	bpshaper_apply(b->sch, &b->q->config);
	bpshaper_flows_configure(&b->q->own.flows, BPSHAPER_TEST_BYTES);
	b->q->own.flows.turns.bursts_most = 0;	/* a suite of its own has them */
	b->sock = bpshaper_bench_socket(test);
	b->sk = b->sock->sk;
}

static int bpshaper_bench_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct bpshaper_bench),
				   GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, test->priv);
	bpshaper_bench_make(test);
	return 0;
}

/* The timer of turns fires, whenever it is due. */
static void bpshaper_bench_tick(struct bpshaper_bench *b, u64 now)
{
	bpshaper_leaf_stop_ticking(&b->q->own);
	bpshaper_leaf_tick(&b->q->own, now);
}

/* Wait until no softirq runs the qdisc, as dev_deactivate() does. */
static void bpshaper_bench_quiesce(struct bpshaper_bench *b)
{
	qdisc_watchdog_cancel(&b->q->watchdog);
	hrtimer_cancel(&b->q->backstop);
	hrtimer_cancel(&b->q->turn_timer);
	while (test_bit(__QDISC_STATE_SCHED, &b->sch->state))
		usleep_range(100, 1000);
	synchronize_net();
}

static void bpshaper_bench_destroy_qdisc(struct bpshaper_bench *b)
{
	struct netdev_queue *queue = netdev_get_tx_queue(b->dev, 0);

	if (!b->sch)
		return;
	bpshaper_bench_quiesce(b);
	rtnl_lock();
	qdisc_put(b->sch);
	RCU_INIT_POINTER(queue->qdisc, NULL);
	RCU_INIT_POINTER(queue->qdisc_sleeping, NULL);
	rtnl_unlock();
	b->sch = NULL;
	b->own = 0;
}

static void bpshaper_bench_exit(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;

	if (!b || !b->dev)
		return;
	bpshaper_bench_destroy_qdisc(b);
	if (b->sock) {
		/* The hook is in this module, which may go. */
		bpshaper_bench_charge(b, 0);
		sock_release(b->sock);
	}
	free_netdev(b->dev);
}
