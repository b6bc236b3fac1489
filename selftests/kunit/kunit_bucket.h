/* SPDX-License-Identifier: GPL-2.0-only */
/* The bucket. What selftests/unit checks at random against exact arithmetic is
 * here said by hand for the cases that matter.
 */

/* How a rate is kept. */
struct bpshaper_rate_row {
	const char	*name;
	u64		Bps;
	u64		mult;
	u8		shift;
	u32		bytes;
	u64		cost_ns;	/* of @bytes */
};

static const struct bpshaper_rate_row bpshaper_rate_rows[] = {
	{ "unlimited costs nothing", 0, 0, 0, 1500, 0 },
	{ "1 byte/s, the least", 1, 4000000000, 2, 1, 1000000000 },
	{ "1 MB/s: 1000 ns a byte", 1000000, 4194304000, 22, 1500, 1500000 },
	{ "1 Gbit/s: 8 ns a byte", 125000000, 2147483648, 28, 1500, 12000 },
	{ "3 byte/s: rounded up", 3, 2666666667, 3, 1, 333333334 },
	{ "40 Gbit/s: 0.2 ns a byte", 5000000000, 3435973837, 34, 64, 13 },
	{ "2^43 byte/s, the most", TC_BPSHAPER_RATE_MAX, 4000000000, 45,
	  65536, 8 },
};

BPSHAPER_ROWS(rate);

static void bpshaper_rate_test(struct kunit *test)
{
	const struct bpshaper_rate_row *row = test->param_value;
	struct bpshaper_rate r;

	bpshaper_rate_set(&r, row->Bps);
	KUNIT_EXPECT_EQ(test, r.Bps, row->Bps);
	KUNIT_EXPECT_EQ(test, r.mult, row->mult);
	KUNIT_EXPECT_EQ(test, r.shift, row->shift);
	KUNIT_EXPECT_EQ(test, bpshaper_rate_cost_ns(&r, row->bytes),
			row->cost_ns);
}

/* What a rate sends in a time: defaults follow from it. */
struct bpshaper_bytes_row {
	const char	*name;
	u64		Bps;
	u64		ns;
	u32		bytes;
};

static const struct bpshaper_bytes_row bpshaper_bytes_rows[] = {
	{ "unlimited: no default follows", 0, NSEC_PER_SEC, 0 },
	{ "no time, no bytes", 125000000, 0, 0 },
	{ "1 ms of 200 Mbit/s", 25000000, NSEC_PER_MSEC, 25000 },
	{ "10 ms of 200 Mbit/s", 25000000, 10 * NSEC_PER_MSEC, 250000 },
	{ "rounded down", 1, NSEC_PER_SEC - 1, 0 },
	{ "1 s of 1 byte/s", 1, NSEC_PER_SEC, 1 },
	{ "60 s of 1 MB/s", 1000000, 60ULL * NSEC_PER_SEC, 60000000 },
	{ "more than 32 bits, in seconds", 1000000000, 5ULL * NSEC_PER_SEC,
	  U32_MAX },
	{ "more than 32 bits, in 1 ms", TC_BPSHAPER_RATE_MAX, NSEC_PER_MSEC,
	  U32_MAX },
	{ "the highest rate, 1 us", TC_BPSHAPER_RATE_MAX, 1000, 8796093 },
};

BPSHAPER_ROWS(bytes);

static void bpshaper_bytes_test(struct kunit *test)
{
	const struct bpshaper_bytes_row *row = test->param_value;
	struct bpshaper_rate r;

	bpshaper_rate_set(&r, row->Bps);
	KUNIT_EXPECT_EQ(test, bpshaper_rate_bytes(&r, row->ns), row->bytes);
}

/* One packet. The rate is 1000 ns a byte, the burst 3000 bytes, that is 3 ms.
 * Times in ms, from an origin in the middle of nowhere.
 */
struct bpshaper_take_row {
	const char	*name;
	s32		tat_ms;
	s32		now_ms;
	u32		bytes;
	bool		leaves;
	s32		then_ms;	/* tat afterwards */
	s32		ready_ms;	/* when it could have left at the earliest */
};

#define BPSHAPER_TEST_NOW_NS	(1000ULL * NSEC_PER_SEC)

static const struct bpshaper_take_row bpshaper_take_rows[] = {
	{ "full: a packet leaves",		-9,  0, 1000, true,   1, -11 },
	{ "just full: a packet leaves",		 0,  0, 1000, true,   1,  -2 },
	{ "full: a whole burst leaves",		 0,  0, 3000, true,   3,   0 },
	{ "full: a larger one, into debt",	 0,  0, 9000, true,   9,   0 },
	{ "1 of 3 used: another leaves",	 1,  0, 1000, true,   2,  -1 },
	{ "2 of 3 used: the last leaves",	 2,  0, 1000, true,   3,   0 },
	{ "2 of 3 used: 2 do not fit",		 2,  0, 2000, false,  2,   1 },
	{ "all used: none leaves",		 3,  0, 1000, false,  3,   1 },
	{ "all used: 1 ms later one does",	 3,  1, 1000, true,   4,   1 },
	{ "all used: 1 ms later 2 do not",	 3,  1, 2000, false,  3,   2 },
	{ "in debt: waits for all of it",	 9,  5, 1000, false,  9,   7 },
	{ "in debt: leaves when paid",		 9,  7, 1000, true,  10,   7 },
	{ "1 used: larger than burst waits",	 1,  0, 9000, false,  1,   1 },
	{ "idle for long: one burst, not two",	-99, 0, 3000, true,   3, -99 },
};

BPSHAPER_ROWS(take);

static u64 bpshaper_test_time(s32 ms)
{
	return BPSHAPER_TEST_NOW_NS + (s64)ms * NSEC_PER_MSEC;
}

static void bpshaper_take_test(struct kunit *test)
{
	const struct bpshaper_take_row *row = test->param_value;
	struct bpshaper_bucket b;
	struct bpshaper_rate r;

	bpshaper_rate_set(&r, 1000000);
	bpshaper_bucket_set(&b, &r, 3000, 0);
	KUNIT_ASSERT_EQ(test, b.burst_ns, 3ULL * NSEC_PER_MSEC);
	b.tat_ns = bpshaper_test_time(row->tat_ms);
	KUNIT_EXPECT_EQ(test,
			bpshaper_bucket_ready_ns(&b, bpshaper_rate_cost_ns(&r, row->bytes)),
			bpshaper_test_time(row->ready_ms));
	KUNIT_EXPECT_EQ(test,
			bpshaper_bucket_take(&b, &r, row->bytes,
					     bpshaper_test_time(row->now_ms)),
			row->leaves);
	/* The fraction that was rounded up may show as one ns. */
	KUNIT_EXPECT_EQ(test, b.tat_ns / 2, bpshaper_test_time(row->then_ms) / 2);
}

/* A change of rate or burst: the bucket is empty, whatever it was. */
static void bpshaper_bucket_set_test(struct kunit *test)
{
	u64 now = BPSHAPER_TEST_NOW_NS;
	struct bpshaper_bucket b = {
		.tat_ns = now + 3600ULL * NSEC_PER_SEC,
	};
	struct bpshaper_rate r;

	bpshaper_rate_set(&r, 1000000);
	bpshaper_bucket_set(&b, &r, 3000, now);
	KUNIT_EXPECT_FALSE(test, bpshaper_bucket_take(&b, &r, 1, now));
	KUNIT_EXPECT_TRUE(test, bpshaper_bucket_take(&b, &r, 1, now + 1000));
	KUNIT_EXPECT_FALSE(test, bpshaper_bucket_take(&b, &r, 1, now + 1000));

	bpshaper_bucket_fill(&b);
	KUNIT_EXPECT_TRUE(test, bpshaper_bucket_take(&b, &r, 3000, now));
	KUNIT_EXPECT_FALSE(test, bpshaper_bucket_take(&b, &r, 1, now));
}

/* Without a rate there is no burst and no wait. */
static void bpshaper_bucket_unlimited_test(struct kunit *test)
{
	u64 now = BPSHAPER_TEST_NOW_NS;
	struct bpshaper_bucket b;
	struct bpshaper_rate r;

	bpshaper_rate_set(&r, 0);
	bpshaper_bucket_set(&b, &r, U32_MAX, now);
	KUNIT_EXPECT_EQ(test, b.burst_ns, 0);
	KUNIT_EXPECT_EQ(test, b.tat_ns, now);
	KUNIT_EXPECT_TRUE(test, bpshaper_bucket_take(&b, &r, U32_MAX, now));
	KUNIT_EXPECT_EQ(test, b.tat_ns, now);
}

/* 64 bytes at 40 Gbit/s take 12.8 ns. Rounded for each packet that would be 13.
 */
static void bpshaper_bucket_fraction_test(struct kunit *test)
{
	u64 now = BPSHAPER_TEST_NOW_NS;
	struct bpshaper_bucket b;
	struct bpshaper_rate r;
	int i;

	bpshaper_rate_set(&r, 5000000000);
	bpshaper_bucket_set(&b, &r, 65000, now);
	bpshaper_bucket_fill(&b);
	for (i = 0; i < 1000; i++)
		KUNIT_EXPECT_TRUE(test, bpshaper_bucket_take(&b, &r, 64, now));
	KUNIT_EXPECT_EQ(test, b.tat_ns - now, 12801);
}

static struct kunit_case bpshaper_bucket_cases[] = {
	KUNIT_CASE_PARAM(bpshaper_rate_test, bpshaper_rate_gen_params),
	KUNIT_CASE_PARAM(bpshaper_bytes_test, bpshaper_bytes_gen_params),
	KUNIT_CASE_PARAM(bpshaper_take_test, bpshaper_take_gen_params),
	KUNIT_CASE(bpshaper_bucket_set_test),
	KUNIT_CASE(bpshaper_bucket_unlimited_test),
	KUNIT_CASE(bpshaper_bucket_fraction_test),
	{}
};

BPSHAPER_SUITE(bucket, NULL, NULL);
