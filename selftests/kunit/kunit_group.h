/* SPDX-License-Identifier: GPL-2.0-only */
/* Groups: members without a qdisc that sends. A byte takes a ns. The burst is
 * a window of 7 packets, and one packet for each of three members.
 */
#define BPSHAPER_TEST_MEMBERS	3
#define BPSHAPER_TEST_WINDOW	7000
#define BPSHAPER_TEST_GROUP_BURST	(BPSHAPER_TEST_WINDOW +		\
					 BPSHAPER_TEST_MEMBERS * 1000 +	\
					 BPSHAPER_TEST_MEMBERS)

struct bpshaper_group_bench {
	struct bpshaper_group	*g;
	struct bpshaper_rate	rate;
	struct bpshaper_member	member[BPSHAPER_TEST_MEMBERS];
	u64			sent[BPSHAPER_TEST_MEMBERS];
};

static int bpshaper_group_test_init(struct kunit *test)
{
	struct bpshaper_group_bench *b;
	struct Qdisc *sch;
	u32 i;

	b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, b);
	test->priv = b;
	b->g = bpshaper_group_create(NULL, 7);
	KUNIT_ASSERT_NOT_NULL(test, b->g);
	bpshaper_rate_set(&b->rate, BPSHAPER_TEST_BYTE_NS);
	for (i = 0; i < BPSHAPER_TEST_MEMBERS; i++) {
		sch = kunit_kzalloc(test, sizeof(*sch), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, sch);
		sch->parent = 1 + i;
		b->member[i].sch = sch;
		bpshaper_member_set_group(&b->member[i], b->g);
		KUNIT_ASSERT_TRUE(test,
				  bpshaper_member_configure(&b->member[i], &b->rate,
							    BPSHAPER_TEST_GROUP_BURST,
							    1000, BPSHAPER_TEST_MEMBERS));
		KUNIT_ASSERT_EQ(test, b->member[i].reservation.window_ns,
				BPSHAPER_TEST_WINDOW);
	}
	return 0;
}

static void bpshaper_group_test_exit(struct kunit *test)
{
	struct bpshaper_group_bench *b = test->priv;

	if (b)
		kfree(b->g);
}

/* Packets of 1000 bytes, as long as the member may send. It waits after that.
 * Return when it may send.
 */
static u64 bpshaper_group_test_send(struct bpshaper_group_bench *b, u32 i, u64 now)
{
	struct bpshaper_member *m = &b->member[i];

	while (bpshaper_member_take(m, &b->rate, 1000, BPSHAPER_TEST_WINDOW / 2,
				    U32_MAX, now))
		b->sent[i] += 1000;
	return bpshaper_member_wake_ns(m, &b->rate, 1000, false, 1, now);
}

/* All members always have packets, and the bucket is full at first. No more
 * than the burst and the rate leaves, and no less than the window and the rate,
 * but for a portion of each that is reserved. The first member has the window and a
 * batch for itself; later all have the same.
 */
static void bpshaper_group_law_test(struct kunit *test)
{
	struct bpshaper_group_bench *b = test->priv;
	u64 wake_ns[BPSHAPER_TEST_MEMBERS] = {};
	u64 t, sent, least, most, bad = 0;
	u32 i;

	for (t = 0; t <= 100000; t += 50) {
		sent = 0;
		least = U64_MAX;
		most = 0;
		for (i = 0; i < BPSHAPER_TEST_MEMBERS; i++) {
			if (wake_ns[i] <= BPSHAPER_TEST_START + t)
				wake_ns[i] = bpshaper_group_test_send(b, i,
								      BPSHAPER_TEST_START + t);
			sent += b->sent[i];
			least = min(least, b->sent[i]);
			most = max(most, b->sent[i]);
		}
		bad += sent > BPSHAPER_TEST_GROUP_BURST + t;
		bad += sent + BPSHAPER_TEST_WINDOW / 2 < BPSHAPER_TEST_WINDOW + t;
		bad += most > least + BPSHAPER_TEST_WINDOW * 3 / 2;
		if (!t)
			KUNIT_EXPECT_EQ(test, sent, BPSHAPER_TEST_WINDOW);
	}
	KUNIT_EXPECT_EQ(test, bad, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&b->g->waiting), BPSHAPER_TEST_MEMBERS);
}

/* The bucket holds the window at most, and less than nothing if members wait.
 */
static void bpshaper_group_tokens_test(struct kunit *test)
{
	struct bpshaper_group_bench *b = test->priv;
	struct bpshaper_member *m = b->member;
	u64 now = BPSHAPER_TEST_START;

	KUNIT_EXPECT_EQ(test, bpshaper_member_tokens(m, &b->rate, now),
			BPSHAPER_TEST_WINDOW);
	KUNIT_EXPECT_EQ(test,
			bpshaper_member_tokens(m, &b->rate, now + BPSHAPER_TEST_HOUR_NS),
			BPSHAPER_TEST_WINDOW);
	atomic64_set(&b->g->tat_ns, now + 1);
	KUNIT_EXPECT_EQ(test, bpshaper_member_tokens(m, &b->rate, now),
			BPSHAPER_TEST_WINDOW - 1);
	atomic64_set(&b->g->tat_ns, now + BPSHAPER_TEST_WINDOW);
	KUNIT_EXPECT_EQ(test, bpshaper_member_tokens(m, &b->rate, now), 0);
	atomic64_set(&b->g->tat_ns, now + BPSHAPER_TEST_WINDOW + 500);
	KUNIT_EXPECT_EQ(test, bpshaper_member_tokens(m, &b->rate, now), -500);
	bpshaper_group_fill(b->g);
	KUNIT_EXPECT_EQ(test, bpshaper_member_tokens(m, &b->rate, now),
			BPSHAPER_TEST_WINDOW);
}

/* A member that waits counts once. When it runs empty it returns what it has
 * reserved and does not count any more; so it does when it leaves.
 */
static void bpshaper_group_idle_test(struct kunit *test)
{
	struct bpshaper_group_bench *b = test->priv;
	u64 now = BPSHAPER_TEST_START;
	struct bpshaper_member *m = b->member;
	u64 full_ns;

	bpshaper_group_test_send(b, 0, now);
	KUNIT_EXPECT_EQ(test, atomic_read(&b->g->waiting), 1);
	full_ns = now + BPSHAPER_TEST_WINDOW;
	KUNIT_EXPECT_GT(test, (u64)atomic64_read(&b->g->tat_ns), full_ns);
	bpshaper_group_test_send(b, 0, now);
	KUNIT_EXPECT_EQ(test, atomic_read(&b->g->waiting), 1);

	bpshaper_member_set_idle(m);
	KUNIT_EXPECT_EQ(test, atomic_read(&b->g->waiting), 0);
	KUNIT_EXPECT_EQ(test, (u64)atomic64_read(&b->g->tat_ns), full_ns);
	bpshaper_member_set_idle(m);
	KUNIT_EXPECT_EQ(test, atomic_read(&b->g->waiting), 0);

	bpshaper_group_test_send(b, 0, now);
	bpshaper_group_test_send(b, 1, now);
	KUNIT_EXPECT_EQ(test, atomic_read(&b->g->waiting), 2);
	bpshaper_member_set_group(&b->member[1], NULL);
	KUNIT_EXPECT_EQ(test, atomic_read(&b->g->waiting), 1);
	KUNIT_EXPECT_EQ(test, bpshaper_reservation_held_ns(&b->member[1].reservation), 0);
	bpshaper_member_set_group(m, NULL);
	KUNIT_EXPECT_EQ(test, atomic_read(&b->g->waiting), 0);
	KUNIT_EXPECT_EQ(test, (u64)atomic64_read(&b->g->tat_ns), full_ns);
}

/* While the bucket is closed a member sends nothing and looks again later. */
static void bpshaper_group_closed_test(struct kunit *test)
{
	struct bpshaper_group_bench *b = test->priv;
	u64 now = BPSHAPER_TEST_START;

	atomic64_set(&b->g->tat_ns, BPSHAPER_BUCKET_CLOSED);
	KUNIT_EXPECT_EQ(test, bpshaper_group_test_send(b, 0, now), now + 1);
	KUNIT_EXPECT_EQ(test, b->sent[0], 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&b->g->tat_ns), BPSHAPER_BUCKET_CLOSED);
	bpshaper_member_set_idle(b->member);
	KUNIT_EXPECT_EQ(test, atomic64_read(&b->g->tat_ns), BPSHAPER_BUCKET_CLOSED);
}

/* What may wait in a member with @limit while @waiting members wait. The packet
 * of the MTU has 1000 bytes.
 */
struct bpshaper_member_limit_row {
	const char	*name;
	bool		is_member;
	u32		waiting;
	u32		limit;
	u32		most;
};

static const struct bpshaper_member_limit_row bpshaper_member_limit_rows[] = {
	{ "no group: all of it", false, 0, 10000, 10000 },
	{ "nobody waits: all of it", true, 0, 10000, 10000 },
	{ "one waits: all of it", true, 1, 10000, 10000 },
	{ "four wait: a quarter", true, 4, 10000, 2500 },
	{ "five wait: two packets", true, 5, 10000, 2000 },
	{ "a hundred wait: two packets", true, 100, 10000, 2000 },
	{ "a limit below two packets", true, 100, 1999, 1999 },
	{ "the largest limit", true, 2, U32_MAX, U32_MAX / 2 },
};

BPSHAPER_ROWS(member_limit);

static void bpshaper_member_limit_test(struct kunit *test)
{
	const struct bpshaper_member_limit_row *row = test->param_value;
	struct bpshaper_group_bench *b = test->priv;

	if (!row->is_member)
		bpshaper_member_set_group(b->member, NULL);
	atomic_set(&b->g->waiting, row->waiting);
	KUNIT_EXPECT_EQ(test, bpshaper_member_limit(b->member, row->limit), row->most);
}

/* A group is known by its device and its number as long as it has a member. */
static void bpshaper_group_members_test(struct kunit *test)
{
	struct bpshaper_group_bench *b = test->priv;
	struct net_device *other = (struct net_device *)8;
	struct Qdisc *sch = b->member[2].sch;

	rtnl_lock();
	KUNIT_EXPECT_NULL(test, bpshaper_group_find(NULL, 7));
	KUNIT_EXPECT_EQ(test, bpshaper_group_members(NULL), 0);
	bpshaper_group_add(b->g, &b->member[0]);
	bpshaper_group_add(b->g, &b->member[1]);
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_group_find(NULL, 7), b->g);
	KUNIT_EXPECT_NULL(test, bpshaper_group_find(NULL, 8));
	KUNIT_EXPECT_NULL(test, bpshaper_group_find(other, 7));
	KUNIT_EXPECT_EQ(test, bpshaper_group_members(b->g), 2);
	/* Another one, or one in the place of the second. */
	KUNIT_EXPECT_EQ(test, bpshaper_group_members_with(b->g, sch), 3);
	sch->parent = b->member[1].sch->parent;
	KUNIT_EXPECT_EQ(test, bpshaper_group_members_with(b->g, sch), 2);

	bpshaper_group_del(b->g, &b->member[0]);
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_group_find(NULL, 7), b->g);
	bpshaper_group_del(b->g, &b->member[1]);
	KUNIT_EXPECT_NULL(test, bpshaper_group_find(NULL, 7));
	rtnl_unlock();
}

/* Each shared option counts. */
static void bpshaper_group_shared_test(struct kunit *test)
{
	struct bpshaper_shared a = {}, b[] = {
		{ .rate_Bps = 1 }, { .burst = 1 }, { .overhead = 1 },
		{ .mpu = 1 }, { .linklayer = 1 }, { .mtu = 1 },
	};
	int i;

	KUNIT_EXPECT_FALSE(test, bpshaper_shared_differs(&a, &a));
	for (i = 0; i < ARRAY_SIZE(b); i++)
		KUNIT_EXPECT_TRUE(test, bpshaper_shared_differs(&a, &b[i]));
}

static struct kunit_case bpshaper_group_cases[] = {
	KUNIT_CASE(bpshaper_group_law_test),
	KUNIT_CASE(bpshaper_group_tokens_test),
	KUNIT_CASE(bpshaper_group_idle_test),
	KUNIT_CASE(bpshaper_group_closed_test),
	KUNIT_CASE_PARAM(bpshaper_member_limit_test, bpshaper_member_limit_gen_params),
	KUNIT_CASE(bpshaper_group_members_test),
	KUNIT_CASE(bpshaper_group_shared_test),
	{}
};

BPSHAPER_SUITE(group, bpshaper_group_test_init, bpshaper_group_test_exit);
