/* SPDX-License-Identifier: GPL-2.0-only */
/* Pacing: times of packets and of flows that are paced by a rate. */

#define BPSHAPER_TEST_NOW	(1000ULL * NSEC_PER_SEC)

/* A packet with the time now + @tstamp, in CLOCK_REALTIME if @is_real; S64_MIN is
 * none. It is due at now + @due.
 */
struct bpshaper_stamp_row {
	const char	*name;
	bool		is_on;
	s64		tstamp;
	s64		due;
	u64		caps;
	bool		is_real;
};

static const struct bpshaper_stamp_row bpshaper_stamp_rows[] = {
	{ "no time: due at once", true, S64_MIN, 0, 0 },
	{ "a time in the past: due at once", true, -1, 0, 0 },
	{ "now: due at once", true, 0, 0, 0 },
	{ "a time in the future: due then", true, 1, 1, 0 },
	{ "the horizon: due then", true, BPSHAPER_HORIZON_NS,
	  BPSHAPER_HORIZON_NS, 0 },
	{ "beyond it: due at the horizon", true, BPSHAPER_HORIZON_NS + 1,
	  BPSHAPER_HORIZON_NS, 1 },
	{ "the time of reception: due at once", true, -3600LL * NSEC_PER_SEC,
	  0, 0, true },
	{ "in another clock: due then", true, 1, 1, 0, true },
	{ "in another clock, beyond the horizon: due there", true,
	  BPSHAPER_HORIZON_NS + 1, BPSHAPER_HORIZON_NS, 1, true },
	{ "pacing off: due at once", false, 1, 0, 0 },
};

BPSHAPER_ROWS(stamp);

static void bpshaper_stamp_test(struct kunit *test)
{
	const struct bpshaper_stamp_row *row = test->param_value;
	struct bpshaper_pacing p = { .is_on = row->is_on };
	struct sk_buff *skb = alloc_skb(0, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	if (row->tstamp != S64_MIN)
		skb->tstamp = BPSHAPER_TEST_NOW + row->tstamp;
	if (row->is_real)
		skb->tstamp = ktime_mono_to_real(skb->tstamp);
	bpshaper_pacing_stamp(&p, skb, BPSHAPER_TEST_NOW, BPSHAPER_TEST_NOW);
	KUNIT_EXPECT_EQ(test, bpshaper_skb_due_ns(skb),
			BPSHAPER_TEST_NOW + row->due);
	KUNIT_EXPECT_EQ(test, p.stat_horizon_caps, row->caps);
	kfree_skb(skb);
}

/* @pkts packets of 1000 bytes leave now from a flow that has not sent before, at
 * @Bps. The next may leave at now + @next; 0 is at once.
 */
struct bpshaper_gap_row {
	const char	*name;
	u64		Bps;
	int		pkts;
	u64		next_ns;
};

static const struct bpshaper_gap_row bpshaper_gap_rows[] = {
	{ "the first of two: the second may follow", 68751, 1, 0 },
	{ "two: half of their time is made up for", 100000, 2, 10000000 },
	{ "a low rate: each waits", 68750, 1, 7272727 },
	{ "a low rate, two packets: each takes its time", 50000, 2, 30000000 },
};

BPSHAPER_ROWS(gap);

static void bpshaper_gap_test(struct kunit *test)
{
	const struct bpshaper_gap_row *row = test->param_value;
	u64 next_ns = row->next_ns ? BPSHAPER_TEST_NOW + row->next_ns : 0;
	struct bpshaper_pacing p = {
		.is_on		= true,
		.generation	= 1,
		.batch_bytes	= 2000,
		.maxrate_Bps	= row->Bps,
	};
	struct sk_buff *skb = alloc_skb(0, GFP_KERNEL);
	struct bpshaper_paced f = {};
	int i;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	qdisc_skb_cb(skb)->pkt_len = 1000;
	bpshaper_pacing_stamp(&p, skb, BPSHAPER_TEST_NOW, BPSHAPER_TEST_NOW);
	for (i = 0; i < row->pkts; i++)
		bpshaper_pacing_charge(&p, &f, skb, BPSHAPER_TEST_NOW);
	KUNIT_EXPECT_EQ(test, bpshaper_pacing_ready_ns(&p, &f, skb,
						       BPSHAPER_TEST_NOW),
			next_ns);
	/* It has sent ahead of its rate, even if the next packet may follow. */
	KUNIT_EXPECT_TRUE(test, bpshaper_paced_is_owing(&f, BPSHAPER_TEST_NOW));
	/* After a configuration change the flow may send at once. */
	p.generation++;
	KUNIT_EXPECT_EQ(test, bpshaper_pacing_ready_ns(&p, &f, skb,
						       BPSHAPER_TEST_NOW),
			0);
	f = (struct bpshaper_paced){};
	KUNIT_EXPECT_FALSE(test, bpshaper_paced_is_owing(&f, 0));
	kfree_skb(skb);
}

/* A change of what flows wait for makes their times invalid, others do not. */
static void bpshaper_pacing_configure_test(struct kunit *test)
{
	struct bpshaper_pacing p = {};
	struct bpshaper_config c = bpshaper_defaults;

	KUNIT_EXPECT_TRUE(test, bpshaper_pacing_configure(&p, &c, 1500));
	KUNIT_EXPECT_FALSE(test, bpshaper_pacing_configure(&p, &c, 1500));
	KUNIT_EXPECT_FALSE(test, bpshaper_pacing_configure(&p, &c, 9000));
	KUNIT_EXPECT_EQ(test, p.generation, 1);
	KUNIT_EXPECT_EQ(test, p.batch_bytes, 18000);
	c.maxrate_Bps = 1000;
	KUNIT_EXPECT_TRUE(test, bpshaper_pacing_configure(&p, &c, 9000));
	c.pacing = 0;
	KUNIT_EXPECT_TRUE(test, bpshaper_pacing_configure(&p, &c, 9000));
	KUNIT_EXPECT_EQ(test, p.generation, 3);
}

static struct kunit_case bpshaper_pacing_cases[] = {
	KUNIT_CASE_PARAM(bpshaper_stamp_test, bpshaper_stamp_gen_params),
	KUNIT_CASE_PARAM(bpshaper_gap_test, bpshaper_gap_gen_params),
	KUNIT_CASE(bpshaper_pacing_configure_test),
	{}
};

BPSHAPER_SUITE(pacing, NULL, NULL);
