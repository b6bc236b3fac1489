/* SPDX-License-Identifier: GPL-2.0-only */
/* Options take effect: what is derived from them, and that a change that fails
 * changes nothing. The device has an MTU of 1500 bytes, and packets of 1514.
 */
#define BPSHAPER_TEST_MTU	1514U

/* The qdisc is one of several queues, with a hub, for what only asks for its numbers.
 */
static struct bpshaper_hub *bpshaper_bench_borrow_hub(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;

	b->q->hub = kunit_kzalloc(test, sizeof(*b->q->hub), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, b->q->hub);
	b->q->top = NULL;
	return b->q->hub;
}

static void bpshaper_bench_return_hub(struct bpshaper_bench *b)
{
	b->q->hub = NULL;
	b->q->top = b->sch;
}

/* Derived defaults */

/* A default burst, with a hub or without one. */
struct bpshaper_burst_row {
	const char	*name;
	u64		rate_Bps;
	u32		given;
	u32		overhead;
	bool		has_hub;
	u32		burst;
};

static const struct bpshaper_burst_row bpshaper_burst_rows[] = {
	{ "as given", 10000000, 5, 0, false, 5 },
	{ "1 ms of the rate", 10000000, 0, 0, false, 10000 },
	{ "1 ms is a byte more than two packets", 3029000, 0, 0, false, 3029 },
	{ "1 ms is two packets", 3028000, 0, 0, false, 3028 },
	{ "at least two packets", 1, 0, 0, false, 3028 },
	{ "no rate", TC_BPSHAPER_RATE_UNLIMITED, 0, 0, false, 3028 },
	{ "the largest rate", TC_BPSHAPER_RATE_MAX, 0, 0, false, U32_MAX },
	{ "overhead does not count of one queue", 1, 0, 10, false, 3028 },
	{ "several queues, as given", 10000000, 5, 10, true, 5 },
	{ "several queues, 1 ms of the rate", 10000000, 0, 10, true, 10000 },
	{ "several queues, a byte more than four packets", 6057000, 0, 0, true, 6057 },
	{ "several queues, at least four packets on the wire", 1, 0, 10, true, 4 * 1524 },
};

BPSHAPER_ROWS(burst);

static void bpshaper_burst_test(struct kunit *test)
{
	const struct bpshaper_burst_row *row = test->param_value;
	struct bpshaper_bench *b = test->priv;

	b->q->config.burst = row->given;
	bpshaper_rate_set(&b->q->rate, row->rate_Bps);
	b->q->wire = bpshaper_wire_make(row->overhead, 0, TC_LINKLAYER_ETHERNET);
	if (row->has_hub)
		bpshaper_bench_borrow_hub(test);
	KUNIT_EXPECT_EQ(test, bpshaper_derive_burst(b->q), row->burst);
	bpshaper_bench_return_hub(b);
}

struct bpshaper_limit_row {
	const char	*name;
	u64		rate_Bps;
	u32		given;
	u64		latency_ns;
	u32		burst;
	u32		limit;
};

static const struct bpshaper_limit_row bpshaper_limit_rows[] = {
	{ "as given", 10000000, 5, 0, 10000, 5 },
	{ "10 ms of the rate, and the burst", 10000000, 0, 0, 10000, 110000 },
	{ "a byte above eight packets", 908500, 0, 0, 3028, 12113 },
	{ "eight packets", 1, 0, 0, 3028, 8 * 1514 },
	{ "a latency that was given has no least", 1, 0, 10 * NSEC_PER_MSEC, 3028, 3028 },
	{ "1 ms that was given", 10000000, 0, NSEC_PER_MSEC, 10000, 20000 },
	{ "no rate: 1000 packets", TC_BPSHAPER_RATE_UNLIMITED, 0, 0, 3028, 1514000 },
	{ "the largest", TC_BPSHAPER_RATE_MAX, 0, 60 * NSEC_PER_SEC, U32_MAX, U32_MAX },
};

BPSHAPER_ROWS(limit);

static void bpshaper_limit_test(struct kunit *test)
{
	const struct bpshaper_limit_row *row = test->param_value;
	struct bpshaper_bench *b = test->priv;

	b->dev->tx_queue_len = 1000;
	b->q->config.limit = row->given;
	b->q->config.latency_ns = row->latency_ns;
	b->q->effective.burst = row->burst;
	bpshaper_rate_set(&b->q->rate, row->rate_Bps);
	KUNIT_EXPECT_EQ(test, bpshaper_derive_limit(b->q, b->dev), row->limit);
	if (b->q->rate.Bps)
		return;
	b->dev->tx_queue_len = 0;
	KUNIT_EXPECT_EQ(test, bpshaper_derive_limit(b->q, b->dev), BPSHAPER_TEST_MTU);
}

/* What GSO packets and direct packets may have, and GSO packets of several queues. The
 * burst is 10000 bytes, and 8000 of the hub.
 */
struct bpshaper_above_row {
	const char		*name;
	struct bpshaper_config	c;
	u32			segment_above;
	u32			direct_max;
	u32			hub_above;
};

#define BPSHAPER_ABOVE(rate, peak, maxrate, ...)		\
	{ .rate_Bps = rate, .peakrate_Bps = peak, .maxrate_Bps = maxrate,	\
	  .burst = 10000, .linklayer = TC_LINKLAYER_ETHERNET, ##__VA_ARGS__ }
#define BPSHAPER_NONE	TC_BPSHAPER_RATE_UNLIMITED

static const struct bpshaper_above_row bpshaper_above_rows[] = {
	{ "no rate: whole", BPSHAPER_ABOVE(BPSHAPER_NONE, BPSHAPER_NONE, BPSHAPER_NONE),
	  U32_MAX, U32_MAX, U32_MAX },
	{ "a rate: the burst, or a quarter of it",
	  BPSHAPER_ABOVE(1000, BPSHAPER_NONE, BPSHAPER_NONE), 10000, 10000, 2000 },
	{ "overhead: each frame pays",
	  BPSHAPER_ABOVE(1000, BPSHAPER_NONE, BPSHAPER_NONE, .overhead = 1), 0, 0, 0 },
	{ "a peak rate: its burst, the packet of the MTU",
	  BPSHAPER_ABOVE(1000, 2000, BPSHAPER_NONE), 1514, 1514, 2000 },
	{ "a rate for each flow: no direct packet",
	  BPSHAPER_ABOVE(1000, BPSHAPER_NONE, 1000, .pacing = 1), 10000, 0, 2000 },
	{ "a rate for each flow, without pacing",
	  BPSHAPER_ABOVE(1000, BPSHAPER_NONE, 1000, .pacing = 0), 10000, 10000, 2000 },
};

BPSHAPER_ROWS(above);

static void bpshaper_above_test(struct kunit *test)
{
	const struct bpshaper_above_row *row = test->param_value;
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_hub *hub;

	bpshaper_apply(b->sch, &row->c);
	KUNIT_EXPECT_EQ(test, b->q->segment_above, row->segment_above);
	KUNIT_EXPECT_EQ(test, b->q->direct_max, row->direct_max);
	hub = bpshaper_bench_borrow_hub(test);
	hub->tree.root.e.burst = 8000;
	KUNIT_EXPECT_EQ(test, bpshaper_derive_segment_above(b->q), row->hub_above);
	/* A packet of the MTU is never too large, unless each frame pays. */
	hub->tree.root.e.burst = 0;
	KUNIT_EXPECT_EQ(test, bpshaper_derive_segment_above(b->q),
			row->hub_above == 2000 ? BPSHAPER_TEST_MTU : row->hub_above);
	bpshaper_bench_return_hub(b);
}

/* share_min, as given, the bounds of a share, and the part of it at which a socket is released
 */
struct bpshaper_shares_row {
	const char	*name;
	u64		rate_Bps;
	u32		limit;
	u32		given_min;
	u32		share_min;
	u32		share_max;
	u32		divisor;
};

static const struct bpshaper_shares_row bpshaper_shares_rows[] = {
	{ "1 ms of the rate", 10000000, 100000, 0, 10000, 65536, 4 },
	{ "sixteen packets at most", 100000000, 1000000, 0, 24224, 65536, 4 },
	{ "two packets at least", 1000, 100000, 0, 3028, 65536, 4 },
	{ "no rate: a batch of the device is left", TC_BPSHAPER_RATE_UNLIMITED, 100000, 0, 24224,
	  100000, 2 },
	{ "no rate, share_min above the limit", TC_BPSHAPER_RATE_UNLIMITED, 3000, 5000, 5000, 5000,
	  2 },
	{ "half of a small limit", 10000000, 8000, 0, 4000, 65536, 4 },
	{ "a limit of less than four packets", 10000000, 6000, 0, 3028, 65536, 4 },
	{ "as given", 1000, 100000, 10, 10, 65536, 4 },
	{ "share_min above the limit", 1000, 3000, 5000, 5000, 65536, 4 },
	{ "share_min above 64 kB", 1000, 100000, 65537, 65537, 65537, 4 },
};

BPSHAPER_ROWS(shares);

static void bpshaper_shares_test(struct kunit *test)
{
	const struct bpshaper_shares_row *row = test->param_value;
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_config c = b->q->config;

	c.rate_Bps = row->rate_Bps;
	c.limit = row->limit;
	c.share_min = row->given_min;
	bpshaper_apply(b->sch, &c);
	KUNIT_EXPECT_EQ(test, b->q->own.bp.share_min, row->share_min);
	KUNIT_EXPECT_EQ(test, b->q->own.bp.share_max, row->share_max);
	KUNIT_EXPECT_EQ(test, b->q->own.bp.release_divisor, row->divisor);
	/* It is not dumped unless it was given. */
	KUNIT_EXPECT_EQ(test, b->q->effective.share_min, row->given_min);
}

/* What waits 1.5 times as long as the limit takes is marked, and the option is
 * dumped if it was given.
 */
struct bpshaper_mark_row {
	const char	*name;
	u64		rate_Bps;
	u64		given_ns;
	u64		threshold_ns;
};

static const struct bpshaper_mark_row bpshaper_mark_rows[] = {
	{ "by the limit", 10000000, 0, 15 * NSEC_PER_MSEC },
	{ "a low rate", 1000000, 0, 150 * NSEC_PER_MSEC },
	{ "no rate", TC_BPSHAPER_RATE_UNLIMITED, 0, 15 * NSEC_PER_MSEC },
	{ "as given", 10000000, 1, 1 },
	{ "never", 10000000, TC_BPSHAPER_CE_NEVER, TC_BPSHAPER_CE_NEVER },
};

BPSHAPER_ROWS(mark);

static void bpshaper_mark_test(struct kunit *test)
{
	const struct bpshaper_mark_row *row = test->param_value;
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_config c = b->q->config;

	c.rate_Bps = row->rate_Bps;
	c.limit = 100000;
	c.ce_threshold_ns = row->given_ns;
	bpshaper_apply(b->sch, &c);
	KUNIT_EXPECT_EQ(test, b->q->own.marks.threshold_ns, row->threshold_ns);
	KUNIT_EXPECT_EQ(test, b->q->effective.ce_threshold_ns, row->given_ns);
}

/* The other defaults, and what a dump has: all that was derived, but not both
 * limit and latency.
 */
static void bpshaper_effective_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_sched *q = b->q;
	struct bpshaper_config c = bpshaper_defaults;

	c.rate_Bps = 10000000;
	bpshaper_apply(b->sch, &c);
	KUNIT_EXPECT_EQ(test, q->effective.burst, 10000);
	KUNIT_EXPECT_EQ(test, q->effective.limit, 110000);
	KUNIT_EXPECT_EQ(test, q->own.flows.quantum, BPSHAPER_TEST_MTU);
	KUNIT_EXPECT_GE(test, q->effective.memory_limit, BPSHAPER_MEMORY_FLOOR);
	KUNIT_EXPECT_LE(test, q->effective.memory_limit, BPSHAPER_MEMORY_CEIL);
	KUNIT_EXPECT_EQ(test, q->table.memory.scarce_above, q->table.memory.limit / 3);
	/* Half a burst, but 1 ms of the rate at most. */
	KUNIT_EXPECT_EQ(test, q->batch, 5000);
	c.burst = 30000;
	c.latency_ns = NSEC_PER_MSEC;
	c.memory_limit = TC_BPSHAPER_MEMORY_MIN;
	bpshaper_apply(b->sch, &c);
	KUNIT_EXPECT_EQ(test, q->batch, 10000);
	KUNIT_EXPECT_EQ(test, q->limit, 40000);
	KUNIT_EXPECT_EQ(test, q->effective.limit, 0);
	KUNIT_EXPECT_EQ(test, q->table.memory.limit, TC_BPSHAPER_MEMORY_MIN);
	/* As it was asked for. */
}

/* Change */

/* A change schedules the qdisc. Wait until that has happened. */
static void bpshaper_apply_settle(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	u32 tries = 2000;

	while (test_bit(__QDISC_STATE_SCHED, &b->sch->state) && tries--)
		usleep_range(1000, 2000);
	KUNIT_EXPECT_FALSE(test, test_bit(__QDISC_STATE_SCHED, &b->sch->state));
}

struct bpshaper_given {
	int	attr;
	u64	value;
};

/* Options, as they come from the user, at the beginning of a packet. */
static struct sk_buff *bpshaper_given_make(struct kunit *test,
					   const struct bpshaper_given *given, int n)
{
	struct sk_buff *skb = alloc_skb(1024, GFP_KERNEL);
	struct nlattr *nest;
	int i, err = 0;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	nest = nla_nest_start(skb, TCA_OPTIONS);
	for (i = 0; i < n && given[i].attr; i++)
		err = err ?: bpshaper_options[given[i].attr].type == NLA_U64 ?
			nla_put_u64_64bit(skb, given[i].attr, given[i].value,
					  TCA_BPSHAPER_PAD) :
			nla_put_u32(skb, given[i].attr, given[i].value);
	KUNIT_ASSERT_EQ(test, err, 0);
	nla_nest_end(skb, nest);
	return skb;
}

static int bpshaper_apply_change(struct kunit *test, struct Qdisc *sch,
				 const struct bpshaper_given *given, int n)
{
	struct sk_buff *skb = bpshaper_given_make(test, given, n);
	int err;

	rtnl_lock();
	err = bpshaper_change(sch, (struct nlattr *)skb->data, NULL);
	rtnl_unlock();
	bpshaper_apply_settle(test);
	kfree_skb(skb);
	return err;
}

#define BPSHAPER_GIVEN_MAX	3

struct bpshaper_refused_row {
	const char		*name;
	int			err;
	struct bpshaper_given	given[BPSHAPER_GIVEN_MAX];
};

static const struct bpshaper_refused_row bpshaper_refused_rows[] = {
	{ "the last one is out of range", -ERANGE,
	  { { TCA_BPSHAPER_BURST, 5000 }, { TCA_BPSHAPER_MEMORY_LIMIT, 255 } } },
	{ "limit and latency", -EINVAL,
	  { { TCA_BPSHAPER_LIMIT, 5000 }, { TCA_BPSHAPER_LATENCY, 1 } } },
	{ "latency without a rate", -EINVAL,
	  { { TCA_BPSHAPER_RATE64, TC_BPSHAPER_RATE_UNLIMITED },
	    { TCA_BPSHAPER_LATENCY, 1 } } },
	{ "a peak rate that is not above the rate that was set before", -EINVAL,
	  { { TCA_BPSHAPER_LIMIT, 5000 }, { TCA_BPSHAPER_PEAKRATE64, 1000 } } },
};

BPSHAPER_ROWS(refused);

/* A socket is throttled, packets are queued: all that stays. */
static void bpshaper_refused_test(struct kunit *test)
{
	const struct bpshaper_refused_row *row = test->param_value;
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_sched *q = b->q, *before;

	before = kunit_kzalloc(test, sizeof(*before), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, before);
	bpshaper_bench_enqueue(test, NULL);
	bpshaper_bench_enqueue(test, b->sk);
	memcpy(before, q, sizeof(*before));
	KUNIT_EXPECT_EQ(test, bpshaper_apply_change(test, b->sch, row->given,
						    BPSHAPER_GIVEN_MAX), row->err);
	KUNIT_EXPECT_EQ(test, memcmp(before, q, sizeof(*before)), 0);
	KUNIT_EXPECT_EQ(test, b->sch->q.qlen, 2);
	bpshaper_bench_reset(b);
}

/* A change empties the bucket, and the new one has the whole burst only later.
 * It does not touch options that are not given.
 */
static void bpshaper_change_test(struct kunit *test)
{
	static const struct bpshaper_given given[] = { { TCA_BPSHAPER_BURST, 5000 } };
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_config c = b->q->config;
	u64 before = ktime_get_ns();

	KUNIT_EXPECT_EQ(test, bpshaper_apply_change(test, b->sch, given, 1), 0);
	/* At 1000 bytes/s. */
	KUNIT_EXPECT_GE(test, b->q->bucket.tat_ns, before + 5 * NSEC_PER_SEC);
	KUNIT_EXPECT_LE(test, b->q->bucket.tat_ns, ktime_get_ns() + 5 * NSEC_PER_SEC);
	c.burst = 5000;
	KUNIT_EXPECT_EQ(test, memcmp(&c, &b->q->config, sizeof(c)), 0);
}

/* Several queues */

#define BPSHAPER_QUEUES(given, peak)				\
	{ .queues = given, .rate_Bps = 1000, .peakrate_Bps = peak }

/* Is a change to @after refused, and why? */
struct bpshaper_keep_row {
	const char		*name;
	bool			has_queues;
	u32			before;
	struct bpshaper_given	after[2];
	const char		*message;
};

#define BPSHAPER_AFTER(given, peak)				\
	{ { TCA_BPSHAPER_QUEUES, given }, { TCA_BPSHAPER_PEAKRATE64, peak } }

static const struct bpshaper_keep_row bpshaper_keep_rows[] = {
	{ "one lock, as the device has one queue",
	  false, 0, BPSHAPER_AFTER(0, BPSHAPER_NONE), NULL },
	{ "one lock that is asked for now", false, 0, BPSHAPER_AFTER(1, BPSHAPER_NONE), NULL },
	{ "one lock that was asked for, and is not", false, 1, BPSHAPER_AFTER(0, BPSHAPER_NONE),
	  "queues cannot be changed" },
	{ "one lock, and a peak rate", false, 1, BPSHAPER_AFTER(1, 2000), NULL },
	{ "several queues", true, 0, BPSHAPER_AFTER(0, BPSHAPER_NONE), NULL },
	{ "several queues, and one lock is asked for", true, 0, BPSHAPER_AFTER(1, BPSHAPER_NONE),
	  "queues cannot be changed" },
	{ "several queues, and a peak rate", true, 0, BPSHAPER_AFTER(0, 2000),
	  "peakrate needs queues 1" },
	{ "several queues, one lock and a peak rate", true, 0, BPSHAPER_AFTER(1, 2000),
	  "queues cannot be changed" },
};

BPSHAPER_ROWS(keep);

static void bpshaper_keep_test(struct kunit *test)
{
	const struct bpshaper_keep_row *row = test->param_value;
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_config c = b->q->config;
	struct netlink_ext_ack extack = {};
	struct Qdisc *queues[1] = {};
	struct sk_buff *skb;

	skb = bpshaper_given_make(test, row->after, ARRAY_SIZE(row->after));
	b->q->config.queues = row->before;
	b->q->queues = row->has_queues ? queues : NULL;
	KUNIT_EXPECT_EQ(test, bpshaper_prepare(b->sch, &c, (struct nlattr *)skb->data, &extack),
			row->message ? -EINVAL : 0);
	b->q->queues = NULL;
	kfree_skb(skb);
	if (!row->message) {
		KUNIT_EXPECT_NULL(test, extack._msg);
		return;
	}
	KUNIT_ASSERT_NOT_NULL(test, extack._msg);
	KUNIT_EXPECT_NOT_NULL(test, strstr(extack._msg, row->message));
}

/* Does a bpshaper below @parent, of a device that has @len queues and uses
 * @used, have several?
 */
struct bpshaper_wants_row {
	const char		*name;
	u32			parent;
	u32			len;
	u32			used;
	struct bpshaper_config	c;
	bool			wants;
};

static const struct bpshaper_wants_row bpshaper_wants_rows[] = {
	{ "two queues", TC_H_ROOT, 2, 2, BPSHAPER_QUEUES(0, BPSHAPER_NONE), true },
	{ "two of more", TC_H_ROOT, 1024, 2, BPSHAPER_QUEUES(0, BPSHAPER_NONE), true },
	{ "more queues than it may have", TC_H_ROOT, 1025, 2,
	  BPSHAPER_QUEUES(0, BPSHAPER_NONE), false },
	{ "one queue", TC_H_ROOT, 1, 1, BPSHAPER_QUEUES(0, BPSHAPER_NONE), false },
	{ "one of two", TC_H_ROOT, 2, 1, BPSHAPER_QUEUES(0, BPSHAPER_NONE), false },
	{ "below mq", TC_H_MAKE(1 << 16, 1), 2, 2, BPSHAPER_QUEUES(0, BPSHAPER_NONE), false },
	{ "one lock is asked for", TC_H_ROOT, 2, 2, BPSHAPER_QUEUES(1, BPSHAPER_NONE), false },
	{ "a peak rate", TC_H_ROOT, 2, 2, BPSHAPER_QUEUES(0, 2000), false },
	{ "no rate", TC_H_ROOT, 2, 2,
	  { .rate_Bps = BPSHAPER_NONE, .peakrate_Bps = BPSHAPER_NONE }, true },
	{ "no rate, and classes", TC_H_ROOT, 2, 2,
	  { .rate_Bps = BPSHAPER_NONE, .peakrate_Bps = BPSHAPER_NONE, .default_minor = 1 },
	  false },
	{ "a rate, and classes", TC_H_ROOT, 2, 2,
	  { .rate_Bps = 1000, .peakrate_Bps = BPSHAPER_NONE, .default_minor = 1 }, true },
};

BPSHAPER_ROWS(wants);

static void bpshaper_wants_test(struct kunit *test)
{
	const struct bpshaper_wants_row *row = test->param_value;
	struct bpshaper_bench *b = test->priv;

	b->sch->parent = row->parent;
	b->dev->num_tx_queues = row->len;
	b->dev->real_num_tx_queues = row->used;
	KUNIT_EXPECT_EQ(test, bpshaper_wants_queues(b->sch, &row->c), row->wants);
	b->sch->parent = TC_H_ROOT;
	b->dev->num_tx_queues = 1;
	b->dev->real_num_tx_queues = 1;
}

static struct kunit_case bpshaper_apply_cases[] = {
	KUNIT_CASE_PARAM(bpshaper_burst_test, bpshaper_burst_gen_params),
	KUNIT_CASE_PARAM(bpshaper_limit_test, bpshaper_limit_gen_params),
	KUNIT_CASE_PARAM(bpshaper_above_test, bpshaper_above_gen_params),
	KUNIT_CASE_PARAM(bpshaper_shares_test, bpshaper_shares_gen_params),
	KUNIT_CASE_PARAM(bpshaper_mark_test, bpshaper_mark_gen_params),
	KUNIT_CASE(bpshaper_effective_test),
	KUNIT_CASE_PARAM(bpshaper_refused_test, bpshaper_refused_gen_params),
	KUNIT_CASE(bpshaper_change_test),
	KUNIT_CASE_PARAM(bpshaper_keep_test, bpshaper_keep_gen_params),
	KUNIT_CASE_PARAM(bpshaper_wants_test, bpshaper_wants_gen_params),
	{}
};

BPSHAPER_SUITE(apply, bpshaper_bench_init, bpshaper_bench_exit);
