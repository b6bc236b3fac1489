/* SPDX-License-Identifier: GPL-2.0-only */
/* The pool: its accounts, its longest flow, and when it is full. */

static struct bpshaper_flow *bpshaper_pool_push(struct kunit *test,
						struct bpshaper_pool *pool,
						unsigned long id, u32 bytes)
{
	struct bpshaper_flow *f = bpshaper_test_push(test, id, bytes);

	bpshaper_pool_account(pool, test->priv, f, f->tail, 1);
	return f;
}

static void bpshaper_pool_pop(struct kunit *test, struct bpshaper_pool *pool,
			      struct bpshaper_flow *f)
{
	struct sk_buff *skb = bpshaper_flow_pop(test->priv, f);

	bpshaper_pool_account(pool, test->priv, f, skb, -1);
	kfree_skb(skb);
}

static struct bpshaper_flow *bpshaper_pool_longest(struct bpshaper_pool *pool)
{
	return list_entry(bpshaper_rank_first(&pool->by_backlog),
			  struct bpshaper_flow, pool_node);
}

/* The longest flow is found after each packet, and nothing is left of an empty
 * pool.
 */
static void bpshaper_pool_account_test(struct kunit *test)
{
	struct bpshaper_flow *a, *b, *c;
	struct bpshaper_pool *pool;

	pool = kunit_kzalloc(test, sizeof(*pool), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, pool);
	bpshaper_pool_init(pool);
	KUNIT_EXPECT_EQ(test, bpshaper_rank_top(&pool->by_backlog),
			BPSHAPER_RANK_NOTHING);
	a = bpshaper_pool_push(test, pool, 1, 1000);
	KUNIT_EXPECT_EQ(test, a->pool_level, BPSHAPER_RANK_LITTLE_FRESH);
	b = bpshaper_pool_push(test, pool, 3, 60);
	bpshaper_pool_push(test, pool, 3, 60);
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_pool_longest(pool), b);
	c = bpshaper_pool_push(test, pool, 5, 4000);
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_pool_longest(pool), c);
	KUNIT_EXPECT_EQ(test, pool->backlog, 5120);
	KUNIT_EXPECT_EQ(test, pool->memory, a->memory + b->memory + c->memory);

	bpshaper_pool_pop(test, pool, c);
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_pool_longest(pool), b);
	bpshaper_pool_pop(test, pool, b);
	/* Two flows of a packet each: the one that has been so longest. */
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_pool_longest(pool), a);
	bpshaper_pool_pop(test, pool, a);
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_pool_longest(pool), b);
	bpshaper_pool_pop(test, pool, b);
	KUNIT_EXPECT_EQ(test, pool->backlog, 0);
	KUNIT_EXPECT_EQ(test, pool->memory, 0);
	KUNIT_EXPECT_EQ(test, bpshaper_rank_top(&pool->by_backlog),
			BPSHAPER_RANK_NOTHING);
}

/* A packet of @bytes comes to a pool of @backlog bytes. @memory are the bytes
 * of memory that would be left of its part with the packet.
 */
struct bpshaper_full_row {
	const char	*name;
	u32		backlog;
	u32		bytes;
	u32		limit;
	s32		memory;
	bool		is_full;
};

static const struct bpshaper_full_row bpshaper_full_rows[] = {
	{ "empty: one packet may exceed the limit", 0, 1000, 1, 0, false },
	{ "empty: one packet may exceed the memory", 0, 1000, 1, -1000, false },
	{ "a byte below the limit", 8999, 1000, 10000, 0, false },
	{ "the limit", 9000, 1000, 10000, 0, false },
	{ "a byte above the limit", 9001, 1000, 10000, 0, true },
	{ "a byte of memory too much", 1000, 1000, 10000, -1, true },
	{ "above the limit, which was lowered", 20000, 1, 10000, 0, true },
	{ "the sum exceeds 32 bits", U32_MAX, 1, U32_MAX, 0, true },
};

BPSHAPER_ROWS(full);

static void bpshaper_full_test(struct kunit *test)
{
	const struct bpshaper_full_row *row = test->param_value;
	struct sk_buff *skb = alloc_skb(0, GFP_KERNEL);
	struct bpshaper_pool pool = { .backlog = row->backlog };
	struct bpshaper_table table = {};
	u32 memory_limit = 1 << 20;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	qdisc_skb_cb(skb)->pkt_len = row->bytes;
	pool.memory = memory_limit / BPSHAPER_POOL_MEMORY_DIVISOR -
		      bpshaper_skb_memory(skb) - row->memory;
	table.pool_memory = pool.memory;
	KUNIT_EXPECT_EQ(test, bpshaper_pool_is_full(&pool, &table, skb, row->limit,
						    memory_limit, 1), row->is_full);
	kfree_skb(skb);
}

static struct kunit_case bpshaper_pool_cases[] = {
	KUNIT_CASE(bpshaper_pool_account_test),
	KUNIT_CASE_PARAM(bpshaper_full_test, bpshaper_full_gen_params),
	{}
};

BPSHAPER_SUITE(pool, bpshaper_flow_test_init, bpshaper_flow_test_exit);
