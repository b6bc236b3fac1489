/* SPDX-License-Identifier: GPL-2.0-only */
/* The hub: what it computes with, in the kernel. selftests/unit has its slots, its
 * tree, and the law for members that send. A byte takes a ns.
 */
#define BPSHAPER_TEST_BYTE_NS	NSEC_PER_SEC
#define BPSHAPER_TEST_START	(1000ULL * NSEC_PER_SEC)
#define BPSHAPER_TEST_HUB_BURST	10000

/* A member takes @len of the @bytes that were granted at @granted. It may, at
 * @at, unless @at is -1.
 */
struct bpshaper_take_row {
	const char	*name;
	u32		bytes;
	u32		len;
	int		granted;
	int		at;
};

static const struct bpshaper_take_row bpshaper_take_rows[] = {
	{ "all", 1000, 1000, -1, 0 },
	{ "one too many", 999, 1000, -1, -1 },
	{ "granted later than the clock was read", 1000, 400, 1, 1 },
	{ "as many as there can be", U32_MAX, U32_MAX, 0, 0 },
};

BPSHAPER_ROWS(take);

static void bpshaper_take_test(struct kunit *test)
{
	const struct bpshaper_take_row *row = test->param_value;
	struct bpshaper_slot *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	u64 now = BPSHAPER_TEST_START, number = 5ULL << 32;
	bool may = row->at >= 0;

	KUNIT_ASSERT_NOT_NULL(test, s);
	atomic64_set(&s->word, number + row->bytes);
	atomic64_set(&s->granted_ns, now + row->granted);
	KUNIT_EXPECT_EQ(test, bpshaper_slot_take(s, row->len, &now), may);
	KUNIT_EXPECT_EQ(test, now, BPSHAPER_TEST_START + (may ? row->at : 0));
	KUNIT_EXPECT_EQ(test, (u64)atomic64_read(&s->used_ns), may ? now : 0);
	KUNIT_EXPECT_EQ(test, (u64)atomic64_read(&s->word),
			number + row->bytes - (may ? row->len : 0));
}

/* The bucket has sent what it needs the next @ahead_ns for, and granted @out. */
struct bpshaper_room_row {
	const char	*name;
	u64		Bps;
	u32		out;
	s64		ahead_ns;
	s64		room;
};

static const struct bpshaper_room_row bpshaper_room_rows[] = {
	{ "full", BPSHAPER_TEST_BYTE_NS, 0, -1, 10000 },
	{ "some are granted", BPSHAPER_TEST_BYTE_NS, 4000, 0, 6000 },
	{ "some are sent", BPSHAPER_TEST_BYTE_NS, 0, 4000, 6000 },
	{ "all are", BPSHAPER_TEST_BYTE_NS, 4000, 6000, 0 },
	{ "more are", BPSHAPER_TEST_BYTE_NS, 4001, 6000, -1 },
	{ "debt", BPSHAPER_TEST_BYTE_NS, 1, 20000, -1 },
	{ "a third of a ns: rounded down", 3 * BPSHAPER_TEST_BYTE_NS, 0, 0, 9999 },
	{ "the least rate", 1, 0, 0, 10000 },
	{ "the largest rate", TC_BPSHAPER_RATE_MAX, 0, 0, 8796 },
};

BPSHAPER_ROWS(room);

static void bpshaper_room_test(struct kunit *test)
{
	const struct bpshaper_room_row *row = test->param_value;
	u64 now = BPSHAPER_TEST_START;
	struct bpshaper_bucket b = {};
	struct bpshaper_rate r;

	bpshaper_rate_set(&r, row->Bps);
	bpshaper_bucket_set(&b, &r, BPSHAPER_TEST_HUB_BURST, now);
	b.tat_ns = now + row->ahead_ns;
	b.out = row->out;
	KUNIT_EXPECT_EQ(test, bpshaper_bucket_room(&b, &r, now), row->room);
}

/* Grant all that may be, and settle it in small pieces: the sum is never more
 * than the burst and the rate, however each is rounded.
 */
static void bpshaper_settle_test(struct kunit *test)
{
	static const u64 rates[] = { 7, 333333333, 1000000007, 3000000001, 12500000000 };
	u64 t, i, sent, most = 0, now = BPSHAPER_TEST_START;
	struct bpshaper_bucket b = {};
	struct bpshaper_rate r;
	u32 bytes;

	for (i = 0; i < ARRAY_SIZE(rates); i++) {
		bpshaper_rate_set(&r, rates[i]);
		bpshaper_bucket_set(&b, &r, BPSHAPER_TEST_HUB_BURST, now);
		bpshaper_bucket_fill(&b);
		for (t = sent = 0; t < 3000; t++) {
			b.out += max_t(s64, bpshaper_bucket_room(&b, &r, now + t), 0);
			for (; b.out; sent += bytes) {
				bytes = min(b.out, (u32)(1 + sent % 7));
				bpshaper_bucket_settle(&b, &r, bytes, now + t);
			}
			most = BPSHAPER_TEST_HUB_BURST + div64_u64(rates[i] * t, NSEC_PER_SEC);
			KUNIT_ASSERT_LE(test, sent, most);
		}
		/* A ns of the rate is lost at most at each end. */
		KUNIT_EXPECT_GE(test, sent + 2 * (1 + div64_u64(rates[i], NSEC_PER_SEC)), most);
	}
}

/* What may wait in a queue with @mine flows, of @all. */
struct bpshaper_part_row {
	const char	*name;
	bool		is_queue;
	u32		mine;
	u32		all;
	u32		limit;
	u32		most;
};

static const struct bpshaper_part_row bpshaper_part_rows[] = {
	{ "one lock: all of it", false, 1, 4, 10000, 10000 },
	{ "nobody is in the tree: all of it", true, 1, 0, 10000, 10000 },
	{ "alone: all of it", true, 3, 3, 10000, 10000 },
	{ "one flow of four: a quarter", true, 1, 4, 10000, 2500 },
	{ "one of five: two packets", true, 1, 5, 10000, 2000 },
	{ "a limit below two packets", true, 1, 5, 1999, 1999 },
	{ "the largest limit", true, 2, 4, U32_MAX, U32_MAX / 2 },
};

BPSHAPER_ROWS(part);

static void bpshaper_part_test(struct kunit *test)
{
	const struct bpshaper_part_row *row = test->param_value;
	struct bpshaper_sched *q = kunit_kzalloc(test, sizeof(*q), GFP_KERNEL);
	struct bpshaper_node *class = kunit_kzalloc(test, sizeof(*class), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, q);
	KUNIT_ASSERT_NOT_NULL(test, class);
	q->own.q = q;
	q->top = row->is_queue ? (struct Qdisc *)q : NULL;
	q->mtu = 1000;
	bpshaper_entity_init(&q->own.slot.e, class, 1);
	q->own.slot.e.weight = row->mine;
	q->own.slot.e.is_offering = row->all;
	class->weights[0] = row->all;
	KUNIT_EXPECT_EQ(test, bpshaper_leaf_part(&q->own, row->limit), row->most);
}

static struct kunit_case bpshaper_hub_cases[] = {
	KUNIT_CASE_PARAM(bpshaper_take_test, bpshaper_take_gen_params),
	KUNIT_CASE_PARAM(bpshaper_room_test, bpshaper_room_gen_params),
	KUNIT_CASE(bpshaper_settle_test),
	KUNIT_CASE_PARAM(bpshaper_part_test, bpshaper_part_gen_params),
	{}
};

BPSHAPER_SUITE(hub, NULL, NULL);
