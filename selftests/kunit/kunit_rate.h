/* SPDX-License-Identifier: GPL-2.0-only */
/* Rates, in the kernel's arithmetic. selftests/unit has the law of the bucket. */

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
	{ "60 s of 999 byte/s", 999, 60ULL * NSEC_PER_SEC, 59940 },
	{ "a day of 100 Gbit/s", 12500000000, 86400ULL * NSEC_PER_SEC, U32_MAX },
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

	KUNIT_EXPECT_EQ(test, bpshaper_Bps_bytes(row->Bps, row->ns), row->bytes);
}

static struct kunit_case bpshaper_rate_cases[] = {
	KUNIT_CASE_PARAM(bpshaper_rate_test, bpshaper_rate_gen_params),
	KUNIT_CASE_PARAM(bpshaper_bytes_test, bpshaper_bytes_gen_params),
	{}
};

BPSHAPER_SUITE(rate, NULL, NULL);
