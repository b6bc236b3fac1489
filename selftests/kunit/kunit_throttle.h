/* SPDX-License-Identifier: GPL-2.0-only */
/* Throttling: when a socket changes its state, beside the table of
 * kunit_backpressure.h: memory, times, and the review.
 */

/* Scarce memory: all data counts, and a share is that of one flow. */

/**
 * struct bpshaper_scarce_row - does a socket exceed its share of ten packets?
 * @name: what it is
 * @pkts: packets queued
 * @exempt: those of them that have a time and are not due
 * @peers: of an unconnected socket, or 0
 * @divisor: of the share
 * @exceeds: while there is enough memory
 * @exceeds_if_scarce: while memory is scarce
 */
struct bpshaper_scarce_row {
	const char	*name;
	u32		pkts;
	u32		exempt;
	u32		peers;
	u32		divisor;
	bool		exceeds;
	bool		exceeds_if_scarce;
};

static const struct bpshaper_scarce_row bpshaper_scarce_rows[] = {
	{ "a share that is due", 10, 0, 0, 1, false, false },
	{ "more than a share that is due", 11, 0, 0, 1, true, true },
	{ "more than a share, most of it exempt", 11, 8, 0, 1, false, true },
	{ "more than a quarter, most of it exempt", 3, 2, 0, 4, false, true },
	{ "a share of many peers", 30, 0, 100, 1, false, true },
};

BPSHAPER_ROWS(scarce);

static void bpshaper_scarce_test(struct kunit *test)
{
	const struct bpshaper_scarce_row *row = test->param_value;
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_sched *q = b->q;
	struct bpshaper_socket s = {
		.data		= row->pkts * BPSHAPER_TEST_BYTES,
		.exempt		= row->exempt * BPSHAPER_TEST_BYTES,
		.is_by_peer	= row->peers,
		.peers		= row->peers,
	};

	q->flows.memory = 1;
	q->flows.scarce_above = 1;
	KUNIT_EXPECT_EQ(test, bpshaper_socket_exceeds(q, &s, row->divisor),
			row->exceeds);
	q->flows.scarce_above = 0;
	KUNIT_EXPECT_EQ(test, bpshaper_socket_exceeds(q, &s, row->divisor),
			row->exceeds_if_scarce);
	/* Past half of memory_limit a packet exceeds the share. */
	q->flows.memory = q->memory_limit / 2 + 1;
	KUNIT_EXPECT_TRUE(test, bpshaper_socket_exceeds(q, &s, row->divisor));
	q->flows.memory = 0;
}

/* The review */

/* Queue a packet of the socket that may leave in an instant or, if @is_timed,
 * in five seconds.
 */
static void bpshaper_throttle_enqueue(struct kunit *test, bool is_timed)
{
	struct sk_buff *skb = alloc_skb(64, GFP_KERNEL), *to_free = NULL;
	struct bpshaper_bench *b = test->priv;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb->dev = b->dev;
	skb_set_owner_w(skb, b->sk);
	b->own += skb->truesize;
	if (is_timed)
		skb->tstamp = ktime_add_ns(ktime_get(), 5 * NSEC_PER_SEC);
	qdisc_skb_cb(skb)->pkt_len = BPSHAPER_TEST_BYTES;
	bpshaper_bench_lock(b);
	b->q->undrained = 0;
	KUNIT_EXPECT_EQ(test, bpshaper_enqueue(skb, b->sch, &to_free),
			NET_XMIT_SUCCESS);
	hrtimer_cancel(&b->q->backstop);
	bpshaper_bench_unlock(b);
	KUNIT_EXPECT_NULL(test, to_free);
}

/* A socket is throttled while memory is scarce. All of its packets have times
 * that are far, so that none leaves. It is released once memory is not scarce.
 */
static void bpshaper_review_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_flows *t = &b->q->flows;
	u32 i;

	t->scarce_above = 0;
	bpshaper_bench_enqueue(test, NULL);
	for (i = 0; i < 11; i++)
		bpshaper_throttle_enqueue(test, true);
	KUNIT_EXPECT_TRUE(test, bpshaper_bench_dequeue(test, true));
	KUNIT_EXPECT_FALSE(test, bpshaper_bench_dequeue(test, true));
	KUNIT_EXPECT_EQ(test, t->waiting_len, 1);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_state(b), BPSHAPER_THROTTLED);
	/* Still scarce: it stays. */
	KUNIT_EXPECT_FALSE(test, bpshaper_bench_dequeue(test, true));
	KUNIT_EXPECT_EQ(test, bpshaper_bench_state(b), BPSHAPER_THROTTLED);
	t->scarce_above = U64_MAX;
	KUNIT_EXPECT_FALSE(test, bpshaper_bench_dequeue(test, true));
	KUNIT_EXPECT_EQ(test, bpshaper_bench_state(b), BPSHAPER_UNTHROTTLED);
	KUNIT_EXPECT_EQ(test, b->q->bp.stat_unthrottles, 1);
	bpshaper_bench_reset(b);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(b, 0), 0);
}

/* A packet with a time that finds the qdisc empty waits for it, in its flow. */
static void bpshaper_direct_time_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;

	bpshaper_throttle_enqueue(test, true);
	KUNIT_EXPECT_NOT_NULL(test, b->q->direct);
	KUNIT_EXPECT_FALSE(test, bpshaper_bench_dequeue(test, true));
	KUNIT_EXPECT_NULL(test, b->q->direct);
	KUNIT_EXPECT_EQ(test, b->q->flows.waiting_len, 1);
	KUNIT_EXPECT_EQ(test, b->sch->q.qlen, 1);
	bpshaper_bench_reset(b);
}

/* Is a flow behind its times? */

/**
 * struct bpshaper_behind_row - a packet leaves
 * @name: what it is
 * @late_ms: the packet is later than its time by this
 * @departs_ms: the flow waited until then, from now
 * @next_ms: the next packet is due then, from now
 * @is_behind: the flow is
 */
struct bpshaper_behind_row {
	const char	*name;
	s32		late_ms;
	s32		departs_ms;
	s32		next_ms;
	bool		is_behind;
};

static const struct bpshaper_behind_row bpshaper_behind_rows[] = {
	{ "in time, did not wait", 0, -10000, 0, false },
	{ "late, did not wait", 1000, -10000, 0, true },
	{ "late, but the wait has just ended", 1000, 0, 0, false },
	{ "late, and the wait ended long ago", 1000, -900, 0, true },
	{ "late, and the wait was cut short", 1000, 10000, 0, true },
	{ "late, but the next one is further ahead", 1000, -10000, 2000, false },
	{ "late by more than the next one is ahead", 1000, -10000, 500, true },
};

BPSHAPER_ROWS(behind);

static void bpshaper_behind_test(struct kunit *test)
{
	const struct bpshaper_behind_row *row = test->param_value;
	struct bpshaper_bench *b = test->priv;
	u64 now = ktime_get_ns() + BPSHAPER_TEST_HOUR_NS;
	struct bpshaper_flow *f;
	struct sk_buff *skb;
	u32 i;

	for (i = 0; i < 3; i++)
		bpshaper_throttle_enqueue(test, false);
	f = bpshaper_bench_flow(b, b->sk);
	KUNIT_ASSERT_NOT_NULL(test, f);
	KUNIT_ASSERT_EQ(test, f->qlen, 2);
	bpshaper_bench_lock(b);
	skb = bpshaper_flow_take(b->q, f, now);
	b->sch->q.qlen--;
	b->sch->qstats.backlog -= qdisc_pkt_len(skb);
	bpshaper_skb_cb(skb)->due_ns = now - row->late_ms * NSEC_PER_MSEC;
	bpshaper_skb_cb(f->head)->due_ns = now + row->next_ms * NSEC_PER_MSEC;
	f->departs_ns = now + row->departs_ms * NSEC_PER_MSEC;
	bpshaper_flow_judge_behind(b->q, f, skb, now);
	bpshaper_bench_unlock(b);
	KUNIT_EXPECT_EQ(test, f->is_behind, row->is_behind);
	b->own -= skb->truesize;
	kfree_skb(skb);
	bpshaper_bench_reset(b);
}

static struct kunit_case bpshaper_throttle_cases[] = {
	KUNIT_CASE_PARAM(bpshaper_scarce_test, bpshaper_scarce_gen_params),
	KUNIT_CASE(bpshaper_review_test),
	KUNIT_CASE(bpshaper_direct_time_test),
	KUNIT_CASE_PARAM(bpshaper_behind_test, bpshaper_behind_gen_params),
	{}
};

BPSHAPER_SUITE(throttle, bpshaper_bench_init, bpshaper_bench_exit);
