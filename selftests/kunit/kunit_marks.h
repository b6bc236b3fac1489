/* SPDX-License-Identifier: GPL-2.0-only */
/* Marks. All rows have a limit of 10 ms. */

#define BPSHAPER_MARKS_LIMIT_NS	(10 * NSEC_PER_MSEC)

/* A packet in each of @periods waits @wait_ns. */
static void bpshaper_marks_wait(const struct bpshaper_marks *m,
				struct bpshaper_pi2 *pi, u64 wait_ns,
				int periods, u64 *now)
{
	while (periods--) {
		*now += BPSHAPER_MARKS_PERIOD_NS + 1;
		bpshaper_marks_decide(m, pi, true, wait_ns, *now);
	}
}

/* How the probability follows waits of so many periods each, from nothing. */
struct bpshaper_marks_row {
	const char	*name;
	u64		before_ns;
	int		before;		/* periods */
	u64		pause_ns;
	u64		wait_ns;
	int		periods;
	u32		root;
};

static const struct bpshaper_marks_row bpshaper_marks_rows[] = {
	{ "below the target", 0, 0, 0, 4900000, 300, 0 },
	{ "it has grown by 6 ms and is 1 ms above", 0, 0, 0, 6000000, 1,
	  52 * 6000000 + 11 * 1000000 },
	{ "it stays 1 ms above", 0, 0, 0, 6000000, 3,
	  52 * 6000000 + 3 * 11 * 1000000 },
	{ "at the target it stays", 6000000, 9, 0, 5000000, 50,
	  52 * 5000000 + 9 * 11 * 1000000 },
	{ "most", 0, 0, 0, 10000000, 200, U32_MAX },
	{ "more than the threshold counts as that", 0, 0, 0, 1ULL << 50, 1,
	  52 * 15000000 + 11 * 10000000 },
	{ "it falls", 10000000, 200, 0, 1000000, 300, 0 },
	{ "after a pause of 160 ms it begins anew", 10000000, 200,
	  BPSHAPER_MARKS_IDLE_NS, 6000000, 1, 0 },
};

BPSHAPER_ROWS(marks);

static void bpshaper_marks_test(struct kunit *test)
{
	const struct bpshaper_marks_row *row = test->param_value;
	struct bpshaper_pi2 pi = { .start_ns = 1 };
	struct bpshaper_marks m = {};
	u64 now = 1;

	bpshaper_marks_configure(&m, 0, BPSHAPER_MARKS_LIMIT_NS);
	bpshaper_marks_wait(&m, &pi, row->before_ns, row->before, &now);
	now += row->pause_ns;
	bpshaper_marks_wait(&m, &pi, row->wait_ns, row->periods, &now);
	KUNIT_EXPECT_EQ(test, pi.root, row->root);
	/* Most packets need no look while there is no queue. */
	KUNIT_EXPECT_EQ(test, bpshaper_marks_pass(&m, &pi, 2500000),
			!row->root);
	KUNIT_EXPECT_FALSE(test, bpshaper_marks_pass(&m, &pi, 2500001));
	KUNIT_EXPECT_TRUE(test,
			  bpshaper_marks_decide(&m, &pi, true, 15000001, now));
	KUNIT_EXPECT_FALSE(test,
			   bpshaper_marks_decide(&m, &pi, true, 2500000, now));
	/* All that such a sender has sent is in its flow: a mark is enough. */
	pi.root = 0;
	KUNIT_EXPECT_FALSE(test, bpshaper_marks_decide(&m, &pi, false, 15000001,
						       now));
}

/* A root of a half: a quarter of the packets, within 5 standard deviations. */
static void bpshaper_marks_square_test(struct kunit *test)
{
	struct bpshaper_pi2 pi = { .root = BIT(31) };
	struct bpshaper_marks m = {};
	int i, marks = 0;

	bpshaper_marks_configure(&m, 0, BPSHAPER_MARKS_LIMIT_NS);
	for (i = 0; i < 10000; i++)
		marks += bpshaper_marks_decide(&m, &pi, true, 2500001, 0);
	KUNIT_EXPECT_GT(test, marks, 2500 - 217);
	KUNIT_EXPECT_LT(test, marks, 2500 + 217);
}

/* With ce_threshold there is nothing else. */
static void bpshaper_marks_threshold_test(struct kunit *test)
{
	struct bpshaper_marks m = {};
	struct bpshaper_pi2 pi = {};
	u64 now = 1;

	bpshaper_marks_configure(&m, 3000000, BPSHAPER_MARKS_LIMIT_NS);
	bpshaper_marks_wait(&m, &pi, 10000000, 100, &now);
	KUNIT_EXPECT_EQ(test, pi.root, 0);
	KUNIT_EXPECT_TRUE(test, bpshaper_marks_pass(&m, &pi, 3000000));
	KUNIT_EXPECT_FALSE(test, bpshaper_marks_pass(&m, &pi, 3000001));
	KUNIT_EXPECT_TRUE(test,
			  bpshaper_marks_decide(&m, &pi, false, 3000001, now));
	pi.root = U32_MAX;	/* from before the change */
	KUNIT_EXPECT_FALSE(test,
			   bpshaper_marks_decide(&m, &pi, true, 3000000, now));
}

/* What can be marked. */
struct bpshaper_ect_row {
	const char	*name;
	u16		protocol;
	u8		header[2];	/* and zeros */
	u32		len;
	bool		has_ect;
};

static const struct bpshaper_ect_row bpshaper_ect_rows[] = {
	{ "IPv4 without ECN", ETH_P_IP, { 0x45, 0xb8 }, 20, false },
	{ "IPv4, ECT(0)", ETH_P_IP, { 0x45, 0x02 }, 20, true },
	{ "IPv4, ECT(1)", ETH_P_IP, { 0x45, 0x01 }, 20, true },
	{ "IPv4, marked before", ETH_P_IP, { 0x45, 0x03 }, 20, true },
	{ "IPv4, cut short", ETH_P_IP, { 0x45, 0x02 }, 19, false },
	{ "IPv6 without ECN", ETH_P_IPV6, { 0x6b, 0x80 }, 40, false },
	{ "IPv6, ECT(0)", ETH_P_IPV6, { 0x60, 0x20 }, 40, true },
	{ "IPv6, cut short", ETH_P_IPV6, { 0x60, 0x20 }, 39, false },
	{ "not IP", ETH_P_ARP, { 0x45, 0x02 }, 40, false },
};

BPSHAPER_ROWS(ect);

static void bpshaper_ect_test(struct kunit *test)
{
	const struct bpshaper_ect_row *row = test->param_value;
	struct sk_buff *skb = alloc_skb(64, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb->protocol = htons(row->protocol);
	skb_reset_network_header(skb);
	memset(skb_put(skb, row->len), 0, row->len);
	memcpy(skb->data, row->header, sizeof(row->header));
	KUNIT_EXPECT_EQ(test, bpshaper_skb_has_ect(skb), row->has_ect);
	KUNIT_EXPECT_EQ(test, !!INET_ECN_set_ce(skb), row->has_ect);
	kfree_skb(skb);
}

static struct kunit_case bpshaper_marks_cases[] = {
	KUNIT_CASE_PARAM(bpshaper_ect_test, bpshaper_ect_gen_params),
	KUNIT_CASE_PARAM(bpshaper_marks_test, bpshaper_marks_gen_params),
	KUNIT_CASE(bpshaper_marks_square_test),
	KUNIT_CASE(bpshaper_marks_threshold_test),
	{}
};

BPSHAPER_SUITE(marks, NULL, NULL);
