/* SPDX-License-Identifier: GPL-2.0-only */
/* Reservations: the boundaries of what a member may do. selftests/unit has the
 * law for the sum of random members, what a member returns, and a closed bucket.
 * At the rate used here a byte takes a ns.
 */
#define BPSHAPER_TEST_BYTE_NS	NSEC_PER_SEC
#define BPSHAPER_TEST_START	(1000ULL * NSEC_PER_SEC)

/* How a burst is divided. @fits: it holds a packet of @late bytes for each
 * member, and one more.
 */
struct bpshaper_divide_row {
	const char	*name;
	u32		burst;
	u32		late;
	u32		members;
	u64		window_ns;
	u64		late_ns;
	u64		whole_ns;
	bool		fits;
};

static const struct bpshaper_divide_row bpshaper_divide_rows[] = {
	{ "one member", 10001, 1000, 1, 9000, 1000, 4500, true },
	{ "two members", 10002, 1000, 2, 8000, 1000, 2000, true },
	{ "the least burst for two", 3002, 1000, 2, 1000, 1000, 1000, true },
	{ "a byte less", 3001, 1000, 2, 1001, 999, 999, false },
	{ "a byte for two", 1, 1000, 2, 0, 0, 0, false },
	{ "as many as may be", 1049600, 100, 1024, 946176, 100, 462, true },
};

BPSHAPER_ROWS(divide);

static void bpshaper_divide_test(struct kunit *test)
{
	const struct bpshaper_divide_row *row = test->param_value;
	struct bpshaper_reservation s = {};
	struct bpshaper_rate r;

	bpshaper_rate_set(&r, BPSHAPER_TEST_BYTE_NS);
	KUNIT_EXPECT_EQ(test, bpshaper_reservation_set(&s, &r, row->burst,
						       row->late, row->members),
			row->fits);
	KUNIT_EXPECT_EQ(test, s.window_ns, row->window_ns);
	KUNIT_EXPECT_EQ(test, s.late_ns, row->late_ns);
	KUNIT_EXPECT_EQ(test, s.whole_ns, row->whole_ns);
	KUNIT_EXPECT_LE(test, s.window_ns + row->members * s.late_ns,
			(u64)row->burst);
}

/* A packet of @bytes comes, and the group has reserved the next @ahead_ns. It
 * may leave @wait_ns later. The window is 1000 ns.
 */
struct bpshaper_early_row {
	const char	*name;
	u64		ahead_ns;
	u32		bytes;
	u64		wait_ns;
};

static const struct bpshaper_early_row bpshaper_early_rows[] = {
	{ "nothing is reserved", 0, 1000, 0 },
	{ "it fills the window", 600, 400, 0 },
	{ "it ends 1 ns behind the window", 601, 400, 1 },
	{ "the window is full", 1000, 400, 400 },
	{ "larger than the window: when it begins", 0, 1500, 0 },
	{ "larger than the window, 1 ns ahead", 1, 1500, 1 },
};

BPSHAPER_ROWS(early);

static void bpshaper_early_test(struct kunit *test)
{
	struct bpshaper_reservation s = { .window_ns = 1000, .whole_ns = 1000 };
	const struct bpshaper_early_row *row = test->param_value;
	u64 now = BPSHAPER_TEST_START;
	struct bpshaper_rate r;
	atomic64_t tat_ns;

	bpshaper_rate_set(&r, BPSHAPER_TEST_BYTE_NS);
	atomic64_set(&tat_ns, now + row->ahead_ns);
	if (row->wait_ns) {
		KUNIT_EXPECT_FALSE(test,
				   bpshaper_reservation_take(&s, &tat_ns, &r, row->bytes,
							     row->bytes, now));
		now += row->wait_ns;
		KUNIT_EXPECT_EQ(test, bpshaper_reservation_ready_ns(&s, row->bytes), now);
		KUNIT_EXPECT_FALSE(test,
				   bpshaper_reservation_take(&s, &tat_ns, &r, row->bytes,
							     row->bytes, now - 1));
	}
	KUNIT_EXPECT_TRUE(test,
			  bpshaper_reservation_take(&s, &tat_ns, &r, row->bytes, row->bytes,
						    now));
	/* It has asked once. */
	KUNIT_EXPECT_EQ(test, atomic64_read(&tat_ns),
			BPSHAPER_TEST_START + row->ahead_ns + row->bytes);
	KUNIT_EXPECT_EQ(test, bpshaper_reservation_held_ns(&s), 0);
}

/* A member holds 800 ns of old intervals and 700 ns of its last one, which ends
 * 1000 ns after the old ones. What is left of them after @passed_ns? 1000 ns
 * may be late.
 */
struct bpshaper_expire_row {
	const char	*name;
	u64		passed_ns;
	u64		cost_ns;
	u64		rest_ns;
	u64		last_ns;
};

static const struct bpshaper_expire_row bpshaper_expire_rows[] = {
	{ "the old ones end", 0, 1000, 800, 700 },
	{ "200 ns of the last are late", 500, 1000, 800, 700 },
	{ "a ns more", 501, 1000, 800, 699 },
	{ "the last one ends", 1000, 1000, 800, 200 },
	{ "an hour later", 3600 * NSEC_PER_SEC, 1000, 800, 200 },
	{ "a packet above the usual keeps its time", 3600 * NSEC_PER_SEC, 1500, 800, 700 },
};

BPSHAPER_ROWS(expire);

static void bpshaper_expire_test(struct kunit *test)
{
	const struct bpshaper_expire_row *row = test->param_value;
	struct bpshaper_reservation s = {
		.rest		= { BPSHAPER_TEST_START, 800 },
		.last		= { BPSHAPER_TEST_START + 1000, 700 },
		.window_ns	= 1000,
		.late_ns	= 1000,
		.whole_ns	= 1000,
	};

	bpshaper_reservation_expire(&s, row->cost_ns,
				    BPSHAPER_TEST_START + row->passed_ns);
	KUNIT_EXPECT_EQ(test, s.rest.left_ns, row->rest_ns);
	KUNIT_EXPECT_EQ(test, s.last.left_ns, row->last_ns);
}

/* A portion is whole packets; the next one has what it was short of. */
static void bpshaper_turn_test(struct kunit *test)
{
	struct bpshaper_reservation s = { .window_ns = 1000, .whole_ns = 1000 };
	u64 now = BPSHAPER_TEST_START;
	struct bpshaper_rate r;
	atomic64_t tat_ns;

	bpshaper_rate_set(&r, BPSHAPER_TEST_BYTE_NS);
	atomic64_set(&tat_ns, now + 1000);
	KUNIT_EXPECT_EQ(test, bpshaper_reservation_portion(&s, 1000, 5000), 1000);
	KUNIT_EXPECT_FALSE(test, bpshaper_reservation_take(&s, &tat_ns, &r, 400, 1000, now));
	KUNIT_EXPECT_EQ(test, bpshaper_reservation_held_ns(&s), 800);
	KUNIT_EXPECT_EQ(test, bpshaper_reservation_portion(&s, 1000, 5000), 1200);
	KUNIT_EXPECT_EQ(test, bpshaper_reservation_portion(&s, 1000, 1199), 1199);
}

static struct kunit_case bpshaper_reservation_cases[] = {
	KUNIT_CASE_PARAM(bpshaper_divide_test, bpshaper_divide_gen_params),
	KUNIT_CASE_PARAM(bpshaper_early_test, bpshaper_early_gen_params),
	KUNIT_CASE_PARAM(bpshaper_expire_test, bpshaper_expire_gen_params),
	KUNIT_CASE(bpshaper_turn_test),
	{}
};

BPSHAPER_SUITE(reservation, NULL, NULL);
