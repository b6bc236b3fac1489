/* SPDX-License-Identifier: GPL-2.0-only */
/* Turns: who is first, how far it may go, and how many may come in. */

#define BPSHAPER_TURNS_SHARE	12000

static struct bpshaper_turns *bpshaper_turns_make(struct kunit *test)
{
	struct bpshaper_turns *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	bpshaper_turns_init(t);
	bpshaper_turns_configure(t, 8 * NSEC_PER_MSEC);
	return t;
}

static struct bpshaper_socket *bpshaper_turns_socket(struct kunit *test, u64 finish)
{
	struct bpshaper_socket *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, s);
	INIT_LIST_HEAD(&s->node);
	s->finish = finish;
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

/* The least finish time is first; among equal ones who came first. The virtual
 * time follows, and never goes back.
 */
static void bpshaper_turns_order_test(struct kunit *test)
{
	static const u64 finish[] = { 5000, 3000, 7000, 3000, 9000 };
	static const int order[] = { 1, 3, 0, 2, 4 };
	struct bpshaper_socket *s[ARRAY_SIZE(finish)];
	struct bpshaper_turns *t = bpshaper_turns_make(test);
	u32 i;

	t->over_ns = 1;
	for (i = 0; i < ARRAY_SIZE(finish); i++) {
		s[i] = bpshaper_turns_socket(test, finish[i]);
		bpshaper_turns_join(t, s[i], BPSHAPER_TURNS_SHARE, i + 1);
	}
	KUNIT_EXPECT_EQ(test, t->outside_len, 5);
	KUNIT_EXPECT_EQ(test, t->vtime, 0);
	for (i = 0; i < ARRAY_SIZE(finish); i++) {
		KUNIT_EXPECT_PTR_EQ(test, bpshaper_turns_give(t, 10), s[order[i]]);
		KUNIT_EXPECT_EQ(test, t->vtime, finish[order[i]]);
	}
	KUNIT_EXPECT_EQ(test, t->outside_len, 0);
	KUNIT_EXPECT_EQ(test, t->rest, 5 * BPSHAPER_TURNS_SHARE);
	KUNIT_EXPECT_EQ(test, t->stat_turns, 5);
	KUNIT_EXPECT_EQ(test, t->outside_hist.counts[0], 5);

	bpshaper_turn_end(t, s[0]);
	s[0]->finish = 4000;
	bpshaper_turns_join(t, s[0], BPSHAPER_TURNS_SHARE, 20);
	bpshaper_turns_give(t, 30);
	KUNIT_EXPECT_EQ(test, t->vtime, 9000);
}

/* No socket is further behind than a share. After a pause all are equal. */
static void bpshaper_turns_pause_test(struct kunit *test)
{
	struct bpshaper_socket *a = bpshaper_turns_socket(test, 90000);
	struct bpshaper_socket *b = bpshaper_turns_socket(test, 1000);
	struct bpshaper_turns *t = bpshaper_turns_make(test);

	t->vtime = 50000;
	t->over_ns = 1;
	bpshaper_turns_join(t, a, BPSHAPER_TURNS_SHARE, 1 + BPSHAPER_TURNS_OVER_NS);
	bpshaper_turns_join(t, b, BPSHAPER_TURNS_SHARE, 2 + BPSHAPER_TURNS_OVER_NS);
	KUNIT_EXPECT_EQ(test, t->vtime, 50000);
	KUNIT_EXPECT_EQ(test, a->finish, 90000);
	KUNIT_EXPECT_EQ(test, b->finish, 50000 - BPSHAPER_TURNS_SHARE);
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_turns_give(t, 3), b);
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_turns_give(t, 4), a);
	KUNIT_EXPECT_EQ(test, t->over_ns, 4);

	bpshaper_turns_count(t, a, BPSHAPER_TURNS_SHARE, 5000, 3);
	bpshaper_turn_end(t, a);
	bpshaper_turn_end(t, b);
	KUNIT_EXPECT_EQ(test, t->rest, 0);
	bpshaper_turns_join(t, a, BPSHAPER_TURNS_SHARE, 5 + BPSHAPER_TURNS_OVER_NS);
	bpshaper_turns_join(t, b, BPSHAPER_TURNS_SHARE, 6 + BPSHAPER_TURNS_OVER_NS);
	KUNIT_EXPECT_EQ(test, t->vtime, 95000 + BPSHAPER_TURNS_SHARE);
	KUNIT_EXPECT_EQ(test, a->finish, 95000);
	KUNIT_EXPECT_EQ(test, b->finish, 95000);
}

/* A socket that is behind asks for less than its part if it waits for no turn. */
static void bpshaper_sparse_test(struct kunit *test)
{
	struct bpshaper_socket *a = bpshaper_turns_socket(test, 9000);
	struct bpshaper_socket *b = bpshaper_turns_socket(test, 4000);
	struct bpshaper_turns *t = bpshaper_turns_make(test);

	t->vtime = 5000;
	t->over_ns = 1;
	t->patience_ns = 100;
	KUNIT_EXPECT_FALSE(test, bpshaper_socket_is_sparse(t, b, 201));
	bpshaper_turns_join(t, a, BPSHAPER_TURNS_SHARE, 2);
	KUNIT_EXPECT_TRUE(test, bpshaper_socket_is_sparse(t, b, 201));
	b->turn_ns = 1;
	KUNIT_EXPECT_FALSE(test, bpshaper_socket_is_sparse(t, b, 201));
	KUNIT_EXPECT_TRUE(test, bpshaper_socket_is_sparse(t, b, 202));
	b->finish = 5000;
	KUNIT_EXPECT_FALSE(test, bpshaper_socket_is_sparse(t, b, 202));
}

/* What a socket sends after it was outside has waited there. */
static void bpshaper_waited_test(struct kunit *test)
{
	struct bpshaper_socket *a = bpshaper_turns_socket(test, 9000);
	struct bpshaper_turns *t = bpshaper_turns_make(test);

	t->patience_ns = 100;
	bpshaper_turns_join(t, a, BPSHAPER_TURNS_SHARE, 10);
	KUNIT_EXPECT_EQ(test, bpshaper_socket_waited_ns(t, a, 15), 0);
	bpshaper_turns_give(t, 50);
	KUNIT_EXPECT_EQ(test, bpshaper_socket_waited_ns(t, a, 250), 40);
	KUNIT_EXPECT_EQ(test, bpshaper_socket_waited_ns(t, a, 251), 0);
	bpshaper_turn_end(t, a);	/* nobody is outside or has a turn */
	KUNIT_EXPECT_EQ(test, bpshaper_socket_waited_ns(t, a, 60), 0);
	bpshaper_turns_join(t, a, BPSHAPER_TURNS_SHARE, 250);
	KUNIT_EXPECT_EQ(test, bpshaper_socket_waited_ns(t, a, 260), 40);
	bpshaper_turns_give(t, 270);
	bpshaper_turn_end(t, a);
	bpshaper_turns_join(t, a, BPSHAPER_TURNS_SHARE, 471);
	KUNIT_EXPECT_EQ(test, bpshaper_socket_waited_ns(t, a, 480), 0);
}

/* A turn ends with the packet after which another one would be too much. */
static void bpshaper_turns_rest_test(struct kunit *test)
{
	struct bpshaper_socket *s = bpshaper_turns_socket(test, 20000);
	struct bpshaper_turns *t = bpshaper_turns_make(test);
	int i;

	t->over_ns = 1;
	bpshaper_turns_join(t, s, BPSHAPER_TURNS_SHARE, 2);
	bpshaper_turns_give(t, 3);
	t->dry_ns = BPSHAPER_DRY_MAX_NS;
	for (i = 1; i < 8; i++) {
		KUNIT_EXPECT_FALSE(test, bpshaper_turns_count(t, s, BPSHAPER_TURNS_SHARE,
							      1500, 3));
		KUNIT_EXPECT_EQ(test, s->rest, BPSHAPER_TURNS_SHARE - i * 1500);
		KUNIT_EXPECT_EQ(test, t->rest, s->rest);
	}
	KUNIT_EXPECT_EQ(test, t->dry_ns, BPSHAPER_DRY_NS);
	KUNIT_EXPECT_TRUE(test, bpshaper_turns_count(t, s, BPSHAPER_TURNS_SHARE, 1500, 3));
	KUNIT_EXPECT_EQ(test, s->rest, 0);
	KUNIT_EXPECT_EQ(test, t->rest, 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&t->taking));
	KUNIT_EXPECT_EQ(test, s->finish, 20000 + 8 * 1500);
	KUNIT_EXPECT_TRUE(test, bpshaper_socket_is_ahead(t, s, 8 * 1500 - 1));
	KUNIT_EXPECT_FALSE(test, bpshaper_socket_is_ahead(t, s, 8 * 1500));
}

/* A turn in which nothing was sent costs a share, another one what was sent. */
static void bpshaper_turn_expire_test(struct kunit *test)
{
	struct bpshaper_socket *s = bpshaper_turns_socket(test, 20000);
	struct bpshaper_turns *t = bpshaper_turns_make(test);

	t->over_ns = 1;
	bpshaper_turns_join(t, s, BPSHAPER_TURNS_SHARE, 2);
	bpshaper_turns_give(t, 3);
	bpshaper_turn_expire(t, s);
	KUNIT_EXPECT_EQ(test, s->finish, 20000 + BPSHAPER_TURNS_SHARE);
	KUNIT_EXPECT_EQ(test, t->latest, s->finish);
	KUNIT_EXPECT_EQ(test, t->rest, 0);
	KUNIT_EXPECT_EQ(test, s->rest, 0);

	bpshaper_turns_join(t, s, BPSHAPER_TURNS_SHARE, 4);
	bpshaper_turns_give(t, 5);
	bpshaper_turns_count(t, s, BPSHAPER_TURNS_SHARE, 1000, 6);
	KUNIT_EXPECT_EQ(test, t->active_ns, 6);
	bpshaper_turn_expire(t, s);
	KUNIT_EXPECT_EQ(test, s->finish, 21000 + BPSHAPER_TURNS_SHARE);
	KUNIT_EXPECT_EQ(test, t->rest, 0);
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
	u32		early;
	u32		next_dry_ns;
};

static const struct bpshaper_early_turn_row bpshaper_early_turn_rows[] = {
	{ "there is room", 0, 199999, 1000000, 15000, 0, 0, 15000 },
	{ "the limit is queued", 200000, 0, 1000000, 15000, 0, 0, 15000 },
	{ "much has left", 900000, 0, 0, 15000, 95999, 0, 15000 },
	{ "too much has left", 900000, 0, 0, 15000, 96000, 1, 15000 },
	{ "too much has left, but there is room", 0, 0, 0, 15000, 96000, 0, 15000 },
	{ "a quarter is queued", 50000, 150000, 1000000, 15000, 0, 0, 15000 },
	{ "less than a quarter, at once", 49999, 150001, 14999, 15000, 0, 0, 15000 },
	{ "less than a quarter, later", 49999, 150001, 15000, 15000, 0, 1, 30000 },
	{ "nobody has come for longer", 0, 200000, 60000, 60000, 0, 1, 120000 },
	{ "for very long", 0, 200000, 120000, 120000, 0, BPSHAPER_TURNS_BATCH, 120000 },
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
						   1000 + row->waited_ns),
			row->early);
	KUNIT_EXPECT_EQ(test, t->dry_ns, row->next_dry_ns);
	KUNIT_EXPECT_EQ(test, bpshaper_turns_have_room(t, 200000),
			row->inside + row->rest < 200000);
}

/* What a flow without turns pays */

/**
 * struct bpshaper_price_row - it sends 1000 bytes; a share is 12,000
 * @name: what it is
 * @ahead: of the virtual time, bytes, before it sends
 * @outside: sockets outside
 * @active: flows inside
 * @surcharge: what it pays beyond its bytes
 * @then_ahead: of the virtual time, bytes
 */
struct bpshaper_price_row {
	const char	*name;
	s64		ahead;
	u32		outside;
	u32		active;
	u32		surcharge;
	s64		then_ahead;
};

static const struct bpshaper_price_row bpshaper_price_rows[] = {
	{ "far behind", -90000, 100, 10, 0, -11000 },
	{ "behind", -5000, 100, 10, 0, -4000 },
	{ "half a share ahead", 5000, 100, 10, 0, 6000 },
	{ "a little more, few outside", 6000, 10, 10, 0, 7000 },
	{ "a share ahead, as many outside as inside", 11000, 10, 10, 1000, 12000 },
	{ "a share ahead, ten times as many", 11000, 90, 10, 9000, 12000 },
	{ "a share ahead, alone", 11000, 9, 0, 9000, 12000 },
	{ "two shares ahead", 23000, 90, 10, 29000, 24000 },
	{ "more is forgiven", 990000, 90, 10, 70250, 49000 },
};

BPSHAPER_ROWS(price);

static void bpshaper_price_test(struct kunit *test)
{
	const struct bpshaper_price_row *row = test->param_value;
	struct bpshaper_turns *t = bpshaper_turns_make(test);
	u64 finish;

	t->vtime = 1000000;
	t->outside_len = row->outside;
	finish = t->vtime + row->ahead;
	KUNIT_EXPECT_EQ(test, bpshaper_turns_surcharge(t, &finish, BPSHAPER_TURNS_SHARE,
						       row->active, 1000),
			row->surcharge);
	KUNIT_EXPECT_EQ(test, (s64)(finish - t->vtime), row->then_ahead);
}

/* Quanta in a round */
static void bpshaper_quanta_test(struct kunit *test)
{
	struct bpshaper_turns *t = bpshaper_turns_make(test);

	t->outside_len = 30;
	bpshaper_turns_set_quanta(t, 10, 8, 2, false);
	KUNIT_EXPECT_EQ(test, t->quanta, 8);
	KUNIT_EXPECT_EQ(test, t->mean_quanta, 2);
	bpshaper_turns_set_quanta(t, 10, 1000, 0, false);
	KUNIT_EXPECT_EQ(test, t->quanta, BPSHAPER_TURNS_QUANTA_MAX);
	KUNIT_EXPECT_EQ(test, t->mean_quanta, 1);
	/* Some flows are always inside. */
	bpshaper_turns_set_quanta(t, 10, 8, 2, true);
	KUNIT_EXPECT_EQ(test, t->quanta, 4);
	KUNIT_EXPECT_EQ(test, t->mean_quanta, 1);
	bpshaper_turns_set_quanta(t, 31, 8, 2, true);
	KUNIT_EXPECT_EQ(test, t->quanta, 1);
	bpshaper_turns_set_quanta(t, 0, 8, 2, true);
	KUNIT_EXPECT_EQ(test, t->quanta, 8);
}

static struct kunit_case bpshaper_turns_cases[] = {
	KUNIT_CASE(bpshaper_turns_order_test),
	KUNIT_CASE(bpshaper_turns_pause_test),
	KUNIT_CASE(bpshaper_sparse_test),
	KUNIT_CASE(bpshaper_waited_test),
	KUNIT_CASE(bpshaper_turns_rest_test),
	KUNIT_CASE(bpshaper_turn_expire_test),
	KUNIT_CASE_PARAM(bpshaper_early_turn_test,
			 bpshaper_early_turn_gen_params),
	KUNIT_CASE_PARAM(bpshaper_price_test, bpshaper_price_gen_params),
	KUNIT_CASE(bpshaper_quanta_test),
	{}
};

BPSHAPER_SUITE(turns, NULL, NULL);
