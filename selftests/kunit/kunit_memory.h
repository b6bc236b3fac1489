/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory: which flow holds most, and what a user may hold. */

/* A row is what four flows hold, one after the other, and who
 * is first then; 0 is nothing.
 */
struct bpshaper_rank_row {
	const char	*name;
	u64		amounts[4];
	u8		top;
	int		first;		/* -1: nobody */
};

static const struct bpshaper_rank_row bpshaper_rank_rows[] = {
	{ "nobody holds anything", { 0, 0, 0, 0 }, 0, -1 },
	{ "a byte", { 0, 1, 0, 0 }, BPSHAPER_RANK_MORE, 1 },
	{ "the largest", { 1, 1000, 4000, 1000 }, 6, 2 },
	{ "whoever came first, within a factor of four", { 3, 512, 2047, 600 }, 5, 1 },
	{ "256 GB and more", { 1ULL << 37, 1ULL << 38, U64_MAX, 1 }, 19, 0 },
};

BPSHAPER_ROWS(rank);

static void bpshaper_rank_test(struct kunit *test)
{
	const struct bpshaper_rank_row *row = test->param_value;
	struct list_head nodes[ARRAY_SIZE(row->amounts)];
	u8 levels[ARRAY_SIZE(row->amounts)] = {};
	struct bpshaper_rank *r;
	int i;

	r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, r);
	bpshaper_rank_init(r);
	for (i = 0; i < ARRAY_SIZE(nodes); i++)
		INIT_LIST_HEAD(&nodes[i]);
	/* Through other levels, which must be left empty. */
	for (i = 0; i < ARRAY_SIZE(nodes); i++)
		bpshaper_rank_move(r, &nodes[i], &levels[i], 1 + i);
	for (i = 0; i < ARRAY_SIZE(nodes); i++) {
		bpshaper_rank_move(r, &nodes[i], &levels[i], row->amounts[i] ?
				   bpshaper_rank_level(row->amounts[i]) : 0);
	}
	KUNIT_EXPECT_EQ(test, bpshaper_rank_top(r), row->top);
	if (row->first >= 0)
		KUNIT_EXPECT_PTR_EQ(test, bpshaper_rank_first(r), &nodes[row->first]);
	for (i = 0; i < ARRAY_SIZE(nodes); i++)
		bpshaper_rank_move(r, &nodes[i], &levels[i], 0);
	KUNIT_EXPECT_EQ(test, r->used, 0);
}

static void bpshaper_pool_pop(struct kunit *test, struct bpshaper_flow *f)
{
	kfree_skb(bpshaper_flow_pop(test->priv, f));
}

static struct bpshaper_flow *bpshaper_pool_longest(struct bpshaper_user *pool)
{
	return list_entry(bpshaper_rank_first(&pool->rank),
			  struct bpshaper_flow, rank_node);
}

/* The longest flow is found after each packet, and nothing is left of an empty
 * pool.
 */
static void bpshaper_pool_account_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_user *pool = &t->memory.pool;
	struct bpshaper_flow *a, *b, *c;

	KUNIT_EXPECT_EQ(test, bpshaper_rank_top(&pool->rank),
			BPSHAPER_RANK_NOTHING);
	a = bpshaper_test_push(test, 1, 1000);
	KUNIT_EXPECT_EQ(test, a->level, BPSHAPER_RANK_LITTLE_FRESH);
	b = bpshaper_test_push(test, 3, 60);
	bpshaper_test_push(test, 3, 60);
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_pool_longest(pool), b);
	c = bpshaper_test_push(test, 5, 4000);
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_pool_longest(pool), c);
	KUNIT_EXPECT_EQ(test, t->pool_backlog, 5120);
	KUNIT_EXPECT_EQ(test, pool->used, a->memory + b->memory + c->memory +
			3 * sizeof(struct bpshaper_flow));

	bpshaper_pool_pop(test, c);
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_pool_longest(pool), b);
	bpshaper_pool_pop(test, b);
	/* Two flows of a packet each: the one that has been so longest. */
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_pool_longest(pool), a);
	bpshaper_pool_pop(test, a);
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_pool_longest(pool), b);
	bpshaper_pool_pop(test, b);
	KUNIT_EXPECT_EQ(test, t->pool_backlog, 0);
	KUNIT_EXPECT_EQ(test, pool->used, 0);
	KUNIT_EXPECT_EQ(test, bpshaper_rank_top(&pool->rank),
			BPSHAPER_RANK_NOTHING);
}

/* What two users of a leaf hold, the only user of another one, and the pool of the
 * first, of 900 bytes. Which of the thresholds do they exceed with one byte more?
 */
struct bpshaper_pressure_row {
	const char	*name;
	u32		used[4];
	u8		pressure[4];	/* 0: none */
};

static const struct bpshaper_pressure_row bpshaper_pressure_rows[] = {
	{ "a third for one alone", { 299 }, { 0 } },
	{ "more than a third", { 300 }, { BPSHAPER_SCARCE } },
	{ "up to three fifths", { 539 }, { BPSHAPER_SCARCE, BPSHAPER_SCARCE } },
	{ "three fifths", { 540 }, { BPSHAPER_STOP, BPSHAPER_SCARCE } },
	{ "two thirds", { 600 }, { BPSHAPER_NO_LATER, BPSHAPER_SCARCE } },
	{ "four fifths: the other leaf has room", { 720 }, { BPSHAPER_FULL, BPSHAPER_NO_LATER } },
	{ "two of a leaf with 7/10 of it", { 315, 315 }, { BPSHAPER_STOP, BPSHAPER_STOP } },
	{ "two in one leaf, one in the other: all is taken", { 225, 225, 380 },
	  { BPSHAPER_FULL, BPSHAPER_FULL, BPSHAPER_FULL } },
	{ "who comes last finds a part", { 720, 0, 140 },
	  { BPSHAPER_FULL, BPSHAPER_FULL, BPSHAPER_NO_LATER } },
	{ "nothing is left", { 800, 0, 100 },
	  { BPSHAPER_FULL, BPSHAPER_FULL, BPSHAPER_FULL, BPSHAPER_FULL } },
	{ "a third for a pool alone", { 0, 0, 0, 299 }, { 0 } },
	{ "a pool with more", { 0, 0, 0, 300 }, { 0, 0, 0, BPSHAPER_SCARCE } },
	{ "a user with two thirds leaves the pool a ninth", { 600, 0, 0, 99 },
	  { BPSHAPER_NO_LATER, BPSHAPER_STOP } },
	{ "and no more", { 600, 0, 0, 100 },
	  { BPSHAPER_NO_LATER, BPSHAPER_STOP, 0, BPSHAPER_SCARCE } },
	{ "users with eight ninths leave it a 27th", { 400, 400, 0, 32 },
	  { BPSHAPER_FULL, BPSHAPER_FULL } },
};

BPSHAPER_ROWS(pressure);

static u8 bpshaper_pressure_of(const struct bpshaper_user *u)
{
	static const u8 all[] = {
		BPSHAPER_SCARCE, BPSHAPER_STOP, BPSHAPER_NO_LATER, BPSHAPER_FULL,
	};
	u8 pressure = 0;
	int i;

	for (i = 0; i < ARRAY_SIZE(all); i++)
		if (bpshaper_user_exceeds(u, 1, all[i]))
			pressure = all[i];
	return pressure;
}

static void bpshaper_pressure_test(struct kunit *test)
{
	const struct bpshaper_pressure_row *row = test->param_value;
	struct bpshaper_leaf_memory *leaves;
	struct bpshaper_memory all = {};
	struct bpshaper_user *u[4];
	int i;

	leaves = kunit_kcalloc(test, 2, sizeof(*leaves), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, leaves);
	bpshaper_memory_configure(&all, 900, 1);
	bpshaper_leaf_memory_init(&leaves[0], &all);
	bpshaper_leaf_memory_init(&leaves[1], &all);
	u[3] = &leaves[0].pool;
	for (i = 0; i < 3; i++) {
		u[i] = bpshaper_user_get(&leaves[i / 2], 1000 + i);
		KUNIT_ASSERT_NOT_NULL(test, u[i]);
		KUNIT_EXPECT_PTR_EQ(test, u[i], bpshaper_user_get(&leaves[i / 2], 1000 + i));
	}
	for (i = 0; i < 4; i++)
		bpshaper_user_account(u[i], row->used[i]);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ(test, bpshaper_pressure_of(u[i]), row->pressure[i]);
	for (i = 0; i < 4; i++)
		bpshaper_user_account(u[i], -(s64)row->used[i]);
	for (i = 0; i < 3; i++) {
		bpshaper_user_put(u[i]);
		KUNIT_EXPECT_FALSE(test, RB_EMPTY_ROOT(&leaves[i / 2].users));
		bpshaper_user_put(u[i]);
	}
	KUNIT_EXPECT_TRUE(test, RB_EMPTY_ROOT(&leaves[0].users));
	KUNIT_EXPECT_TRUE(test, RB_EMPTY_ROOT(&leaves[1].users));
	KUNIT_EXPECT_EQ(test, all.used, 0);
}

/* Of 1200 bytes four queues have a part of 100 each, and what they do not need of the
 * rest is lent.
 */
static void bpshaper_lent_test(struct kunit *test)
{
	struct bpshaper_leaf_memory *leaves;
	struct bpshaper_memory all[2] = {};
	struct bpshaper_user *a, *b;
	atomic64_t lent = {};
	int i;

	leaves = kunit_kcalloc(test, 2, sizeof(*leaves), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, leaves);
	for (i = 0; i < 2; i++) {
		all[i].lent = &lent;
		bpshaper_memory_configure(&all[i], 1200, 4);
		bpshaper_leaf_memory_init(&leaves[i], &all[i]);
	}
	a = &leaves[0].pool;
	b = &leaves[1].pool;
	bpshaper_user_account(a, 100);
	KUNIT_EXPECT_EQ(test, atomic64_read(&lent), 0);
	KUNIT_EXPECT_FALSE(test, bpshaper_user_exceeds(a, 799, BPSHAPER_FULL * 1000));
	KUNIT_EXPECT_TRUE(test, bpshaper_user_exceeds(a, 800, BPSHAPER_FULL * 1000));
	bpshaper_user_account(a, 700);
	KUNIT_EXPECT_EQ(test, atomic64_read(&lent), 700);
	/* Its own part is nobody else's, and then there are 100 bytes. */
	KUNIT_EXPECT_FALSE(test, bpshaper_user_exceeds(b, 100, BPSHAPER_SCARCE));
	KUNIT_EXPECT_TRUE(test, bpshaper_user_exceeds(b, 101, BPSHAPER_SCARCE));
	KUNIT_EXPECT_FALSE(test, bpshaper_user_exceeds(b, 199, BPSHAPER_FULL * 1000));
	KUNIT_EXPECT_TRUE(test, bpshaper_user_exceeds(b, 200, BPSHAPER_FULL * 1000));
	/* One queue is in use from now on. */
	bpshaper_memory_configure(&all[0], 1200, 1);
	KUNIT_EXPECT_EQ(test, atomic64_read(&lent), 400);
	bpshaper_user_account(a, -550);
	KUNIT_EXPECT_EQ(test, atomic64_read(&lent), 0);
	bpshaper_user_account(a, -250);
	KUNIT_EXPECT_EQ(test, atomic64_read(&lent), 0);
}

static struct kunit_case bpshaper_memory_cases[] = {
	KUNIT_CASE_PARAM(bpshaper_rank_test, bpshaper_rank_gen_params),
	KUNIT_CASE(bpshaper_pool_account_test),
	KUNIT_CASE_PARAM(bpshaper_pressure_test, bpshaper_pressure_gen_params),
	KUNIT_CASE(bpshaper_lent_test),
	{}
};

BPSHAPER_SUITE(memory, bpshaper_flow_test_init, bpshaper_flow_test_exit);
