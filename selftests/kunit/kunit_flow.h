/* SPDX-License-Identifier: GPL-2.0-only */
/* Flows: what the suites of flow, order, table and queue share, and a flow's
 * life.
 */

/* Even numbers are sockets, which nobody looks into here, odd ones hashes of
 * the pool.
 */
static struct bpshaper_key bpshaper_test_key(unsigned long id)
{
	return (struct bpshaper_key) {
		.sk	= id & 1 ? NULL : (struct sock *)id,
		.hash	= id & 1 ? id : 0,
	};
}

static unsigned long bpshaper_test_id(const struct bpshaper_flow *f)
{
	return f->key.sk ? (unsigned long)f->key.sk : f->key.hash;
}

static unsigned long bpshaper_test_named(char name)
{
	return (unsigned long)name << 1 | !!islower(name);
}

static int bpshaper_flow_test_init(struct kunit *test)
{
	struct bpshaper_table *table;
	struct bpshaper_flows *t;

	t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	table = kunit_kzalloc(test, sizeof(*table), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, table);
	KUNIT_ASSERT_EQ(test, bpshaper_table_alloc(table, NULL), 0);
	table->memory.limit = U32_MAX;	/* and all flows are ranked */
	bpshaper_flows_init(t, table);
	t->quantum = 1000;
	test->priv = t;
	return 0;
}

static void bpshaper_test_purge(struct bpshaper_flows *t)
{
	rtnl_lock();
	bpshaper_flows_purge(t, INT_MAX);
	rtnl_unlock();
}

static void bpshaper_flow_test_exit(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;

	if (!t)
		return;
	bpshaper_test_purge(t);
	bpshaper_table_free(t->table);
}

static struct bpshaper_flow *bpshaper_test_push(struct kunit *test,
						unsigned long id, u32 bytes)
{
	struct sk_buff *skb = alloc_skb(0, GFP_KERNEL);
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	qdisc_skb_cb(skb)->pkt_len = bytes;
	f = bpshaper_flow_get(t, bpshaper_test_key(id), 0);
	KUNIT_ASSERT_NOT_NULL(test, f);
	bpshaper_flow_push(t, f, skb);
	return f;
}

/* As dequeue does it. NULL if nobody was there. */
static struct bpshaper_flow *bpshaper_test_serve(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;
	struct sk_buff *skb;

	f = bpshaper_flows_next(t);
	if (!f)
		return NULL;
	skb = bpshaper_flow_pop(t, f);
	bpshaper_flow_charge(f, qdisc_pkt_len(skb));
	kfree_skb(skb);
	return f;
}

/* Lists, counters and backlog of a flow at each step of its life. */
static void bpshaper_flow_life_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f, *pool;

	f = bpshaper_flow_get(t, bpshaper_test_key(2), 0);
	KUNIT_ASSERT_NOT_NULL(test, f);
	KUNIT_ASSERT_NOT_NULL(test, f->socket);
	KUNIT_EXPECT_PTR_EQ(test, (void *)f->socket->sk, (void *)2UL);
	KUNIT_EXPECT_EQ(test, t->table->parked_len, 1);
	KUNIT_EXPECT_EQ(test, t->active, 0);

	KUNIT_EXPECT_PTR_EQ(test, f, bpshaper_test_push(test, 2, 300));
	KUNIT_EXPECT_PTR_EQ(test, f, bpshaper_test_push(test, 2, 400));
	KUNIT_EXPECT_EQ(test, f->backlog, 700);
	KUNIT_EXPECT_EQ(test, f->kind, BPSHAPER_FLOW_NEW);
	KUNIT_EXPECT_EQ(test, f->v, BPSHAPER_VTIME_START);
	KUNIT_EXPECT_EQ(test, t->table->parked_len, 0);
	KUNIT_EXPECT_EQ(test, t->active, 1);
	KUNIT_EXPECT_EQ(test, t->sockets, 1);

	pool = bpshaper_test_push(test, 7, 100);
	KUNIT_EXPECT_NULL(test, pool->socket);
	KUNIT_EXPECT_EQ(test, pool->kind, BPSHAPER_FLOW_POOL);
	KUNIT_EXPECT_EQ(test, t->active, 2);
	KUNIT_EXPECT_EQ(test, t->sockets, 1);

	KUNIT_EXPECT_PTR_EQ(test, f, bpshaper_test_serve(test));
	KUNIT_EXPECT_EQ(test, f->backlog, 400);
	KUNIT_EXPECT_EQ(test, f->v, BPSHAPER_VTIME_START + 300);
	KUNIT_EXPECT_EQ(test, f->kind, BPSHAPER_FLOW_KNOWN);
	KUNIT_EXPECT_EQ(test, t->known, 1);
	KUNIT_EXPECT_PTR_EQ(test, pool, bpshaper_test_serve(test));
	KUNIT_EXPECT_PTR_EQ(test, f, bpshaper_test_serve(test));
	KUNIT_EXPECT_EQ(test, f->backlog, 0);
	KUNIT_EXPECT_NULL(test, f->head);
	KUNIT_EXPECT_EQ(test, t->table->parked_len, 2);
	KUNIT_EXPECT_EQ(test, t->active, 0);
	KUNIT_EXPECT_EQ(test, t->sockets, 0);
	KUNIT_EXPECT_EQ(test, t->known, 0);
	KUNIT_EXPECT_PTR_EQ(test, f, bpshaper_flow_get(t, bpshaper_test_key(2), 0));

	bpshaper_test_purge(t);
	KUNIT_EXPECT_EQ(test, t->table->parked_len, 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&t->table->parked));
}

/* What counts in the rank: a full frame as little as a small packet, of a flow
 * that is known less than of one that is not, and more than a packet by its
 * amount.
 */
static void bpshaper_flow_level_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;

	f = bpshaper_flow_get(t, bpshaper_test_key(2), 0);
	KUNIT_ASSERT_NOT_NULL(test, f);
	KUNIT_EXPECT_EQ(test, bpshaper_flow_level(t, f, 1, 1000, 2000),
			BPSHAPER_RANK_LITTLE_FRESH);
	bpshaper_test_push(test, 2, 1000);
	KUNIT_EXPECT_EQ(test, f->level, BPSHAPER_RANK_LITTLE_FRESH);
	bpshaper_test_push(test, 2, 60);
	KUNIT_EXPECT_EQ(test, f->level, bpshaper_rank_level(f->memory));
	bpshaper_test_serve(test);
	KUNIT_EXPECT_EQ(test, f->level, BPSHAPER_RANK_LITTLE_FRESH);
	bpshaper_test_serve(test);
	KUNIT_EXPECT_EQ(test, f->level, BPSHAPER_RANK_NOTHING);
	KUNIT_EXPECT_EQ(test, bpshaper_flow_level(t, f, 1, 1000, 2000),
			BPSHAPER_RANK_LITTLE);
	KUNIT_EXPECT_EQ(test, bpshaper_flow_level(t, f, 1, 1001, 2000),
			bpshaper_rank_level(2000));
	KUNIT_EXPECT_EQ(test, bpshaper_flow_level(t, f, 2, 2, 2),
			BPSHAPER_RANK_MORE);
}

static struct bpshaper_flow *bpshaper_peer_push(struct kunit *test, unsigned long id,
						u32 hash, u32 bytes)
{
	struct bpshaper_key key = { .sk = (struct sock *)id, .hash = hash };
	struct sk_buff *skb = alloc_skb(0, GFP_KERNEL);
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	qdisc_skb_cb(skb)->pkt_len = bytes;
	f = bpshaper_flow_get(t, key, 0);
	KUNIT_ASSERT_NOT_NULL(test, f);
	bpshaper_flow_push(t, f, skb);
	return f;
}

static struct kunit_case bpshaper_flow_cases[] = {
	KUNIT_CASE(bpshaper_flow_life_test),
	KUNIT_CASE(bpshaper_flow_level_test),
	{}
};

BPSHAPER_SUITE(flow, bpshaper_flow_test_init, bpshaper_flow_test_exit);
