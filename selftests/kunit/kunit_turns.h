/* SPDX-License-Identifier: GPL-2.0-only */
/* Turns: who is first, how much it may queue, and how many may come in. */

#define BPSHAPER_TURNS_SHARE	12000

static struct bpshaper_turns *bpshaper_turns_make(struct kunit *test)
{
	struct bpshaper_turns *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	bpshaper_turns_init(t);
	bpshaper_turns_configure(t, 8 * NSEC_PER_MSEC);
	return t;
}

static struct bpshaper_socket *bpshaper_turns_socket(struct kunit *test)
{
	struct bpshaper_socket *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, s);
	INIT_LIST_HEAD(&s->node);
	return s;
}

/* The first gets a turn, as bpshaper_socket_let_in() gives it. */
static struct bpshaper_socket *bpshaper_turns_give(struct bpshaper_turns *t, u64 now)
{
	struct bpshaper_socket *s = bpshaper_turns_first(t);

	bpshaper_turns_leave(t, s, now);
	list_del_init(&s->node);
	bpshaper_turn_begin(t, s, BPSHAPER_TURNS_SHARE, now);
	return s;
}

/* The least virtual time is first; among equal ones who came first. */
static void bpshaper_turns_order_test(struct kunit *test)
{
	static const u64 at[] = { 5000, 3000, 7000, 3000, 9000 };
	static const int order[] = { 1, 3, 0, 2, 4 };
	struct bpshaper_socket *s[ARRAY_SIZE(at)];
	struct bpshaper_turns *t = bpshaper_turns_make(test);
	u32 i;

	KUNIT_EXPECT_EQ(test, bpshaper_turns_first_at(t), U64_MAX);
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		s[i] = bpshaper_turns_socket(test);
		bpshaper_turns_join(t, s[i], at[i], i + 1);
	}
	KUNIT_EXPECT_EQ(test, t->outside_len, 5);
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		KUNIT_EXPECT_EQ(test, bpshaper_turns_first_at(t), at[order[i]]);
		KUNIT_EXPECT_PTR_EQ(test, bpshaper_turns_give(t, 10), s[order[i]]);
	}
	KUNIT_EXPECT_EQ(test, t->outside_len, 0);
	KUNIT_EXPECT_EQ(test, t->rest, 5 * BPSHAPER_TURNS_SHARE);
}

/* Turns are on since sockets began to wait, if nobody had for a while. */
static void bpshaper_turns_pause_test(struct kunit *test)
{
	struct bpshaper_socket *a = bpshaper_turns_socket(test);
	struct bpshaper_socket *b = bpshaper_turns_socket(test);
	struct bpshaper_turns *t = bpshaper_turns_make(test);

	t->over_ns = 1;
	bpshaper_turns_join(t, a, 9000, BPSHAPER_TURNS_OVER_NS + 1);
	KUNIT_EXPECT_EQ(test, t->start_ns, 0);
	bpshaper_turns_give(t, 5);
	KUNIT_EXPECT_EQ(test, t->over_ns, 5);
	bpshaper_turn_end(t, a);
	bpshaper_turns_join(t, a, 9000, BPSHAPER_TURNS_OVER_NS + 6);
	KUNIT_EXPECT_EQ(test, t->start_ns, BPSHAPER_TURNS_OVER_NS + 6);
	bpshaper_turns_join(t, b, 5000, 2 * BPSHAPER_TURNS_OVER_NS + 7);
	KUNIT_EXPECT_EQ(test, t->start_ns, BPSHAPER_TURNS_OVER_NS + 6);
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_turns_give(t, 8), b);
	KUNIT_EXPECT_EQ(test, t->over_ns, 5);
}

/* A socket that is behind asks for less than its part if it waits for no turn,
 * what it has queued counted as sent.
 */
static void bpshaper_sparse_test(struct kunit *test)
{
	struct bpshaper_flows *flows = kunit_kzalloc(test, sizeof(*flows), GFP_KERNEL);
	struct bpshaper_flow *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	struct bpshaper_socket *a = bpshaper_turns_socket(test);
	struct bpshaper_socket *b = bpshaper_turns_socket(test);
	struct bpshaper_turns *t;

	KUNIT_ASSERT_NOT_NULL(test, flows);
	KUNIT_ASSERT_NOT_NULL(test, f);
	t = &flows->turns;
	bpshaper_turns_init(t);
	flows->vtime = 5000;
	t->patience_ns = 100;
	f->v = 3000;
	f->backlog = 1000;
	b->flow = f;
	KUNIT_EXPECT_FALSE(test, bpshaper_socket_is_sparse(flows, b, 201));
	bpshaper_turns_join(t, a, 9000, 2);
	KUNIT_EXPECT_TRUE(test, bpshaper_socket_is_sparse(flows, b, 201));
	b->rest = 1;
	KUNIT_EXPECT_FALSE(test, bpshaper_socket_is_sparse(flows, b, 201));
	b->rest = 0;
	b->turn_ns = 1;
	KUNIT_EXPECT_FALSE(test, bpshaper_socket_is_sparse(flows, b, 201));
	KUNIT_EXPECT_TRUE(test, bpshaper_socket_is_sparse(flows, b, 202));
	f->backlog = 2000;
	KUNIT_EXPECT_FALSE(test, bpshaper_socket_is_sparse(flows, b, 202));
}

/* What a socket sends after it was outside has waited there. */
static void bpshaper_waited_test(struct kunit *test)
{
	struct bpshaper_socket *a = bpshaper_turns_socket(test);
	struct bpshaper_turns *t = bpshaper_turns_make(test);

	t->patience_ns = 100;
	bpshaper_turns_join(t, a, 9000, 10);
	KUNIT_EXPECT_EQ(test, bpshaper_socket_waited_ns(t, a, 15), 0);
	bpshaper_turns_give(t, 50);
	KUNIT_EXPECT_EQ(test, bpshaper_socket_waited_ns(t, a, 250), 40);
	KUNIT_EXPECT_EQ(test, bpshaper_socket_waited_ns(t, a, 251), 0);
	bpshaper_turn_end(t, a);	/* nobody is outside or has a turn */
	KUNIT_EXPECT_EQ(test, bpshaper_socket_waited_ns(t, a, 60), 0);
	bpshaper_turns_join(t, a, 9000, 250);
	KUNIT_EXPECT_EQ(test, bpshaper_socket_waited_ns(t, a, 260), 40);
	bpshaper_turns_give(t, 270);
	bpshaper_turn_end(t, a);
	bpshaper_turns_join(t, a, 9000, 471);
	KUNIT_EXPECT_EQ(test, bpshaper_socket_waited_ns(t, a, 480), 0);
}

/* A turn ends with the packet after which another one would be too much. */
static void bpshaper_turns_rest_test(struct kunit *test)
{
	struct bpshaper_socket *s = bpshaper_turns_socket(test);
	struct bpshaper_turns *t = bpshaper_turns_make(test);
	int i;

	bpshaper_turns_join(t, s, 9000, 2);
	bpshaper_turns_give(t, 3);
	KUNIT_EXPECT_TRUE(test, s->is_unused);
	t->dry_ns = BPSHAPER_DRY_MAX_NS;
	for (i = 1; i < 8; i++) {
		KUNIT_EXPECT_FALSE(test, bpshaper_turns_count(t, s, 1500, 3 + i));
		KUNIT_EXPECT_EQ(test, s->rest, BPSHAPER_TURNS_SHARE - i * 1500);
		KUNIT_EXPECT_EQ(test, t->rest, s->rest);
		KUNIT_EXPECT_EQ(test, t->active_ns, 3 + i);
	}
	KUNIT_EXPECT_FALSE(test, s->is_unused);
	KUNIT_EXPECT_EQ(test, t->dry_ns, BPSHAPER_DRY_NS);
	KUNIT_EXPECT_TRUE(test, bpshaper_turns_count(t, s, 1500, 11));
	KUNIT_EXPECT_EQ(test, s->rest, 0);
	KUNIT_EXPECT_EQ(test, t->rest, 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&t->taking));
}

/* How many get a turn although there is no room? */

/**
 * struct bpshaper_early_turn_row - sockets are outside; the limit is 200,000 bytes
 * @name: what it is
 * @inside: bytes queued
 * @rest: bytes that those who have a turn may still queue
 * @waited_ns: since the last turn
 * @dry_ns: how long to wait
 * @unserved: bytes that have left since then
 * @is_ahead: a stranger is ahead of the first
 * @early: how many get a turn
 * @next_dry_ns: how long to wait afterwards
 */
struct bpshaper_early_turn_row {
	const char	*name;
	u64		inside;
	u64		rest;
	u64		waited_ns;
	u32		dry_ns;
	u32		unserved;
	bool		is_ahead;
	u32		early;
	u32		next_dry_ns;
};

static const struct bpshaper_early_turn_row bpshaper_early_turn_rows[] = {
	{ "there is room", 0, 199999, 1000000, 15000, 0, false, 0, 15000 },
	{ "the limit is queued", 200000, 0, 1000000, 15000, 0, false, 0, 15000 },
	{ "a stranger is ahead", 900000, 0, 0, 15000, 0, true, 1, 15000 },
	{ "a stranger is ahead, but there is room", 0, 0, 0, 15000, 0, true, 0, 15000 },
	{ "much has left", 900000, 0, 0, 15000, 95999, false, 0, 15000 },
	{ "too much has left", 900000, 0, 0, 15000, 96000, false, 1, 15000 },
	{ "too much has left, but there is room", 0, 0, 0, 15000, 96000, false, 0, 15000 },
	{ "a quarter is queued", 50000, 150000, 1000000, 15000, 0, false, 0, 15000 },
	{ "less than a quarter, at once", 49999, 150001, 14999, 15000, 0, false, 0, 15000 },
	{ "less than a quarter, later", 49999, 150001, 15000, 15000, 0, false, 1, 30000 },
	{ "nobody has come for longer", 0, 200000, 60000, 60000, 0, false, 1, 120000 },
	{ "for very long", 0, 200000, 120000, 120000, 0, false, BPSHAPER_TURNS_BATCH, 120000 },
};

BPSHAPER_ROWS(early_turn);

static void bpshaper_early_turn_test(struct kunit *test)
{
	const struct bpshaper_early_turn_row *row = test->param_value;
	struct bpshaper_turns *t = bpshaper_turns_make(test);

	t->inside = row->inside;
	t->rest = row->rest;
	t->active_ns = 1000;
	t->dry_ns = row->dry_ns;
	t->unserved = row->unserved;
	KUNIT_EXPECT_EQ(test, bpshaper_turns_early(t, 200000, BPSHAPER_TURNS_SHARE,
						   row->is_ahead, 1000 + row->waited_ns),
			row->early);
	KUNIT_EXPECT_EQ(test, t->dry_ns, row->next_dry_ns);
	KUNIT_EXPECT_EQ(test, bpshaper_turns_have_room(t, 200000),
			row->inside + row->rest < 200000);
}

static struct kunit_case bpshaper_turns_cases[] = {
	KUNIT_CASE(bpshaper_turns_order_test),
	KUNIT_CASE(bpshaper_turns_pause_test),
	KUNIT_CASE(bpshaper_sparse_test),
	KUNIT_CASE(bpshaper_waited_test),
	KUNIT_CASE(bpshaper_turns_rest_test),
	KUNIT_CASE_PARAM(bpshaper_early_turn_test,
			 bpshaper_early_turn_gen_params),
	{}
};

BPSHAPER_SUITE(turns, NULL, NULL);
