/* SPDX-License-Identifier: GPL-2.0-only */
/* The hub: the boundaries of its slots, and of itself.
 * selftests/unit has the law for members that send. A byte takes a ns.
 */
#define BPSHAPER_TEST_BYTE_NS	NSEC_PER_SEC
#define BPSHAPER_TEST_START	(1000ULL * NSEC_PER_SEC)
#define BPSHAPER_TEST_HUB_BURST	10000

struct bpshaper_hub_bench {
	struct bpshaper_hub	hub;
	struct bpshaper_sched	*q[2];
	struct bpshaper_slot	*s[2];
};

static void bpshaper_hub_test_set(struct bpshaper_hub_bench *b, u64 Bps,
				  u32 burst, u32 mtu)
{
	struct bpshaper_rate r;

	bpshaper_rate_set(&r, Bps);
	bpshaper_hub_set(&b->hub, &r, burst, mtu, BPSHAPER_TEST_START);
}

/* Two members, and a full bucket. */
static int bpshaper_hub_test_init(struct kunit *test)
{
	struct bpshaper_hub_bench *b;
	struct bpshaper_sched *q;
	int i;

	b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, b);
	test->priv = b;
	bpshaper_hub_init(&b->hub);
	bpshaper_hub_test_set(b, BPSHAPER_TEST_BYTE_NS, BPSHAPER_TEST_HUB_BURST, 1000);
	bpshaper_hub_fill(&b->hub);
	for (i = 0; i < ARRAY_SIZE(b->q); i++) {
		q = kunit_kzalloc(test, sizeof(*q), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, q);
		q->own.q = q;
		q->hub = &b->hub;
		bpshaper_member_init(&q->member, &b->hub);
		bpshaper_slot_join(&q->own.slot, &q->member, &b->hub.tree.root);
		b->q[i] = q;
		b->s[i] = &q->own.slot;
	}
	return 0;
}

/* The slot, which has packets of 1000 bytes, is granted @bytes. */
static void bpshaper_hub_test_grant(struct bpshaper_hub_bench *b, int i,
				    u32 bytes)
{
	struct bpshaper_hub *hub = &b->hub;

	bpshaper_slot_set_want(b->s[i], 100000, 1000, 1);
	bpshaper_slot_enter_tree(hub, b->s[i]);
	bpshaper_slot_grant(hub, b->s[i], bytes, bytes, false);
}

/* What the bucket knows of grants. */
static u32 bpshaper_hub_test_out(const struct bpshaper_hub_bench *b)
{
	return b->hub.tree.root.bucket.out;
}

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
	struct bpshaper_hub_bench *b = test->priv;
	u64 now = BPSHAPER_TEST_START, number = 5ULL << 32;
	struct bpshaper_slot *s = b->s[0];
	bool may = row->at >= 0;

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
	KUNIT_EXPECT_EQ(test, bpshaper_bucket_room(&b, &r, b.burst_ns, now), row->room);
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
			b.out += max_t(s64, bpshaper_bucket_room(&b, &r, b.burst_ns, now + t), 0);
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

/* Both are granted bytes, and the first takes some: @taken, and leaves or the
 * rate changes. What it has not taken was never granted: nobody pays for it.
 */
static void bpshaper_revoke_test(struct kunit *test)
{
	u64 now = BPSHAPER_TEST_START, start, inverse, word;
	struct bpshaper_hub_bench *b = test->priv;
	struct bpshaper_hub *hub = &b->hub;
	struct bpshaper_slot *s = b->s[0];

	bpshaper_hub_test_grant(b, 1, 2000);
	bpshaper_slot_set_want(s, 100000, 1000, 1);
	bpshaper_slot_enter_tree(hub, s);
	start = s->node.start;
	inverse = s->node.weight_inverse;
	bpshaper_hub_test_grant(b, 0, 3000);
	KUNIT_EXPECT_EQ(test, s->node.start, start + 3000 * inverse);
	KUNIT_EXPECT_EQ(test, bpshaper_hub_test_out(b), 5000);
	KUNIT_EXPECT_EQ(test, hub->out_len, 2);
	KUNIT_EXPECT_EQ(test, hub->slots, 2);
	now += 7;
	KUNIT_EXPECT_TRUE(test, bpshaper_slot_take(s, 1000, &now));
	word = atomic64_read(&s->word);

	bpshaper_slot_leave(s);
	KUNIT_EXPECT_EQ(test, (u64)atomic64_read(&s->word), word + (1ULL << 32) - 2000);
	KUNIT_EXPECT_FALSE(test, bpshaper_slot_take(s, 1, &now));
	KUNIT_EXPECT_EQ(test, s->state, BPSHAPER_SLOT_IDLE);
	KUNIT_EXPECT_EQ(test, s->node.start, start + 1000 * inverse);
	/* As of when it was taken. */
	KUNIT_EXPECT_EQ(test, hub->tree.root.bucket.tat_ns, now + 1000);
	KUNIT_EXPECT_EQ(test, bpshaper_hub_test_out(b), 2000);
	KUNIT_EXPECT_EQ(test, hub->out_len, 1);
	KUNIT_EXPECT_EQ(test, hub->slots, 1);
	KUNIT_EXPECT_EQ(test, bpshaper_slot_bytes(b->s[1]), 2000);

	bpshaper_hub_test_set(b, BPSHAPER_TEST_BYTE_NS / 2, 5000, 1000);
	KUNIT_EXPECT_EQ(test, bpshaper_slot_bytes(b->s[1]), 0);
	KUNIT_EXPECT_EQ(test, bpshaper_hub_test_out(b), 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&hub->out));
	KUNIT_EXPECT_EQ(test, hub->out_len, 0);
	/* It starts empty. */
	now = hub->now_ns;
	KUNIT_EXPECT_EQ(test, bpshaper_hub_tokens(hub, now), 0);
	KUNIT_EXPECT_EQ(test, bpshaper_hub_tokens(hub, now + 9999), 4999);
	bpshaper_hub_fill(hub);
	KUNIT_EXPECT_EQ(test, bpshaper_hub_tokens(hub, now), 5000);
	bpshaper_hub_test_grant(b, 1, 5001);
	KUNIT_EXPECT_EQ(test, bpshaper_hub_tokens(hub, now), -1);
	bpshaper_slot_leave(b->s[1]);
	KUNIT_EXPECT_EQ(test, hub->slots, 0);
}

/* A slot that comes back may get three packets of the MTU before its turn, if
 * there is as much, and no slot of a smaller prio waits.
 */
static void bpshaper_fresh_test(struct kunit *test)
{
	struct bpshaper_hub_bench *b = test->priv;
	struct bpshaper_hub *hub = &b->hub;
	struct bpshaper_slot *s = b->s[1];

	s->node.prio = 1;
	bpshaper_slot_set_want(s, 100000, 1000, 1);
	bpshaper_slot_enter_tree(hub, s);
	KUNIT_EXPECT_EQ(test, s->fresh, 2000);
	KUNIT_EXPECT_TRUE(test, bpshaper_slot_may_pass(hub, s, 3000));
	KUNIT_EXPECT_FALSE(test, bpshaper_slot_may_pass(hub, s, 3001));
	s->node.ahead = 1;
	KUNIT_EXPECT_FALSE(test, bpshaper_slot_may_pass(hub, s, 3000));
	hub->tree.root.bucket.out = BPSHAPER_TEST_HUB_BURST - 1000;
	KUNIT_EXPECT_TRUE(test, bpshaper_slot_may_pass(hub, s, 1000));
	KUNIT_EXPECT_FALSE(test, bpshaper_slot_may_pass(hub, s, 1001));
	hub->tree.root.bucket.out = 0;
	bpshaper_hub_test_grant(b, 0, 1000);
	KUNIT_EXPECT_FALSE(test, bpshaper_slot_may_pass(hub, s, 1));
	bpshaper_slot_leave(b->s[0]);
	KUNIT_EXPECT_TRUE(test, bpshaper_slot_may_pass(hub, s, 1));

	/* Who is away has a backlog all the same, and is not fresh again. */
	s->fresh = 0;
	bpshaper_slot_leave_tree(hub, s, BPSHAPER_SLOT_AWAY);
	KUNIT_EXPECT_TRUE(test, s->node.has_backlog);
	KUNIT_EXPECT_FALSE(test, s->node.is_offering);
	bpshaper_slot_enter_tree(hub, s);
	KUNIT_EXPECT_TRUE(test, s->node.is_offering);
	KUNIT_EXPECT_EQ(test, s->fresh, 0);
}

/* Who is away keeps its part, until the holder sees that it has no backlog. */
static void bpshaper_away_test(struct kunit *test)
{
	struct bpshaper_hub_bench *b = test->priv;
	struct bpshaper_hub *hub = &b->hub;
	struct bpshaper_slot *s = b->s[0];

	bpshaper_hub_test_grant(b, 0, 1000);
	bpshaper_slot_leave_tree(hub, s, BPSHAPER_SLOT_AWAY);
	bpshaper_hub_settle(hub, b->s[1]->member);
	KUNIT_EXPECT_EQ(test, s->state, BPSHAPER_SLOT_AWAY);
	KUNIT_EXPECT_TRUE(test, list_is_singular(&hub->away));
	KUNIT_EXPECT_EQ(test, s->node.busy, 1);
	KUNIT_EXPECT_EQ(test, hub->tree.root.away_weight[0], 1);

	/* It has posted itself meanwhile: the holder reads that next. */
	bpshaper_slot_set_want(s, 0, 0, 0);
	s->state = BPSHAPER_SLOT_POSTED;
	bpshaper_hub_settle(hub, b->s[1]->member);
	KUNIT_EXPECT_EQ(test, s->state, BPSHAPER_SLOT_POSTED);
	KUNIT_EXPECT_TRUE(test, list_is_singular(&hub->away));

	s->state = BPSHAPER_SLOT_AWAY;
	bpshaper_hub_settle(hub, b->s[1]->member);
	KUNIT_EXPECT_EQ(test, s->state, BPSHAPER_SLOT_IDLE);
	KUNIT_EXPECT_TRUE(test, list_empty(&hub->away));
	KUNIT_EXPECT_EQ(test, s->node.busy, 0);
	KUNIT_EXPECT_FALSE(test, s->node.is_waiting);
	KUNIT_EXPECT_EQ(test, hub->tree.root.away_weight[0], 0);
	bpshaper_hub_test_grant(b, 0, 1000);
	KUNIT_EXPECT_EQ(test, hub->slots, 1);
}

/* While the lock is held who lacks bytes posts its slot, once. The next holder
 * finds it, unless it has left.
 */
static void bpshaper_post_test(struct kunit *test)
{
	u64 now = BPSHAPER_TEST_START, busy_ns = now + BPSHAPER_HUB_BUSY_NS;
	struct bpshaper_hub_bench *b = test->priv;
	struct bpshaper_hub *hub = &b->hub;
	struct bpshaper_slot *s = b->s[0];
	unsigned long flags;
	u64 at[2];
	bool held;

	bpshaper_slot_set_want(s, 100000, 1000, 3);
	raw_spin_lock_irqsave(&hub->lock, flags);
	held = raw_spin_is_locked(&hub->lock);
	at[0] = held ? bpshaper_member_ask(s->member, now) : 0;
	at[1] = held ? bpshaper_member_ask(s->member, busy_ns) : 0;
	raw_spin_unlock_irqrestore(&hub->lock, flags);
	if (!held)
		kunit_skip(test, "a lock is nothing in this kernel");
	KUNIT_EXPECT_EQ(test, at[0], busy_ns);
	KUNIT_EXPECT_EQ(test, at[1], busy_ns + BPSHAPER_HUB_BUSY_NS);
	KUNIT_EXPECT_EQ(test, (u64)atomic64_read(&s->member->wake_ns), at[1]);
	KUNIT_EXPECT_EQ(test, s->state, BPSHAPER_SLOT_POSTED);
	KUNIT_EXPECT_PTR_EQ(test, hub->news.first, &s->news_node);
	KUNIT_EXPECT_NULL(test, s->news_node.next);
	KUNIT_EXPECT_EQ(test, hub->stat_locks, 0);

	/* There is nothing to grant, until a packet is, and some more. */
	hub->tree.root.bucket.tat_ns = at[1] + BPSHAPER_TEST_HUB_BURST;
	bpshaper_slot_set_want(b->s[1], 100000, 1000, 1);
	KUNIT_EXPECT_GT(test, bpshaper_member_ask(b->s[1]->member, at[1]), at[1]);
	KUNIT_EXPECT_EQ(test, (u64)atomic64_read(&hub->tokens_ns),
			at[1] + 1000 + hub->batch_ns / 5 * 2);
	KUNIT_EXPECT_TRUE(test, llist_empty(&hub->news));
	KUNIT_EXPECT_EQ(test, s->state, BPSHAPER_SLOT_INTREE);
	/* Its weight is its flows. */
	KUNIT_EXPECT_EQ(test, hub->tree.root.offering_weight, 3 + 1);

	bpshaper_slot_leave(s);
	bpshaper_slot_set_want(s, 100000, 1000, 1);
	bpshaper_member_post(hub, s->member, now);
	bpshaper_slot_leave(s);
	KUNIT_EXPECT_TRUE(test, llist_empty(&hub->news));
	KUNIT_EXPECT_EQ(test, s->state, BPSHAPER_SLOT_IDLE);
}

/* Who is in the tree does not try the lock before its time, nor while there is
 * nothing to grant.
 */
static void bpshaper_ask_test(struct kunit *test)
{
	u64 now = BPSHAPER_TEST_START, retry_ns = 20 * NSEC_PER_USEC;
	struct bpshaper_hub_bench *b = test->priv;
	struct bpshaper_hub *hub = &b->hub;
	struct bpshaper_slot *s = b->s[0];
	struct bpshaper_member *m = s->member;

	bpshaper_hub_test_grant(b, 0, 999);
	atomic64_set(&s->next_ns, now + 1);
	KUNIT_EXPECT_EQ(test, bpshaper_member_ask(m, now), now + 1);
	atomic64_set(&hub->tokens_ns, now + 2 * retry_ns);
	KUNIT_EXPECT_EQ(test, bpshaper_member_ask(m, now + 1), now + 2 * retry_ns);
	atomic64_set(&s->next_ns, now);
	atomic64_set(&hub->tokens_ns, now + 2);
	KUNIT_EXPECT_EQ(test, bpshaper_member_ask(m, now + 1), now + 1 + retry_ns);
	KUNIT_EXPECT_EQ(test, (u64)atomic64_read(&s->next_ns), now + 1 + retry_ns);
	KUNIT_EXPECT_EQ(test, hub->stat_locks, 0);
	atomic64_set(&s->next_ns, now + 2);
	KUNIT_EXPECT_EQ(test, bpshaper_member_ask(m, now + 2), 0);
	KUNIT_EXPECT_EQ(test, hub->stat_locks, 1);
	KUNIT_EXPECT_GE(test, bpshaper_slot_bytes(s), 1000);
	KUNIT_EXPECT_EQ(test, bpshaper_hub_test_out(b), bpshaper_slot_bytes(s));
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
	struct bpshaper_hub_bench *b = test->priv;
	struct bpshaper_sched *q = b->q[0];

	if (!row->is_queue)
		q->hub = NULL;
	bpshaper_node_set_weight(&b->s[0]->node, row->mine);
	b->hub.tree.root.offering_weight = row->all;
	KUNIT_EXPECT_EQ(test, bpshaper_leaf_part(&q->own, row->limit), row->most);
}

static struct kunit_case bpshaper_hub_cases[] = {
	KUNIT_CASE_PARAM(bpshaper_take_test, bpshaper_take_gen_params),
	KUNIT_CASE_PARAM(bpshaper_room_test, bpshaper_room_gen_params),
	KUNIT_CASE(bpshaper_settle_test),
	KUNIT_CASE(bpshaper_revoke_test),
	KUNIT_CASE(bpshaper_fresh_test),
	KUNIT_CASE(bpshaper_away_test),
	KUNIT_CASE(bpshaper_post_test),
	KUNIT_CASE(bpshaper_ask_test),
	KUNIT_CASE_PARAM(bpshaper_part_test, bpshaper_part_gen_params),
	{}
};

BPSHAPER_SUITE(hub, bpshaper_hub_test_init, NULL);
