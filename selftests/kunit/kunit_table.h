/* SPDX-License-Identifier: GPL-2.0-only */
/* The table: flows are found, kept and forgotten. */

/* One key, one flow, however many there are; each tree keeps its order. */
static void bpshaper_flow_table_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;
	unsigned long id;

	for (id = 1; id <= 1500; id++)
		bpshaper_test_push(test, id * 7919, 1);
	KUNIT_EXPECT_EQ(test, t->active, 1500);
	KUNIT_EXPECT_EQ(test, t->sockets, 750);
	for (id = 1; id <= 1500; id++) {
		f = bpshaper_flow_get(t, bpshaper_test_key(id * 7919), 0);
		KUNIT_ASSERT_EQ(test, bpshaper_test_id(f), id * 7919);
	}
	KUNIT_EXPECT_EQ(test, t->table->parked_len, 0);
	while (bpshaper_test_serve(test))
		;
	KUNIT_EXPECT_EQ(test, t->active, 0);
}

/* Idle flows are kept up to a bound, past which the longest idle goes, unless
 * it is ahead: who leaves its socket does not leave what it owes.
 */
static void bpshaper_flow_recycle_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *debtor;
	unsigned long id;

	debtor = bpshaper_test_push(test, 2, 100 * t->quantum);
	bpshaper_test_serve(test);
	for (id = 4; id < 10; id += 2) {
		bpshaper_test_push(test, id, id == 4 ? 1 : t->quantum);
		bpshaper_test_serve(test);
	}
	/* All was empty, so some packets are forgiven. */
	KUNIT_EXPECT_GT(test, debtor->v - t->vtime, 80 * t->quantum);
	for (; t->table->parked_len < BPSHAPER_FLOW_PARKED_GOAL; id += 2)
		KUNIT_ASSERT_NOT_NULL(test, bpshaper_flow_get(t, bpshaper_test_key(id), 0));
	KUNIT_EXPECT_EQ(test, t->table->parked_len, BPSHAPER_FLOW_PARKED_GOAL);

	KUNIT_ASSERT_NOT_NULL(test, bpshaper_flow_get(t, bpshaper_test_key(id), 0));
	KUNIT_EXPECT_EQ(test, t->table->parked_len, BPSHAPER_FLOW_PARKED_GOAL);
	KUNIT_EXPECT_PTR_EQ(test, debtor, bpshaper_flow_get(t, bpshaper_test_key(2), 0));
	KUNIT_EXPECT_EQ(test, t->table->parked_len, BPSHAPER_FLOW_PARKED_GOAL);
	/* It had been idle longest of the others. */
	KUNIT_EXPECT_NOT_NULL(test, bpshaper_flow_get(t, bpshaper_test_key(4), 0));
	KUNIT_EXPECT_EQ(test, t->table->parked_len, BPSHAPER_FLOW_PARKED_GOAL);
	KUNIT_EXPECT_PTR_EQ(test, list_last_entry(&t->table->parked,
						  struct bpshaper_flow, list),
			    bpshaper_flow_get(t, bpshaper_test_key(4), 0));
}

/* Those that never came back go first, however long the others have been empty.
 */
static void bpshaper_flow_known_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *known;
	unsigned long id;

	known = bpshaper_test_push(test, 2, 1);
	bpshaper_test_serve(test);
	KUNIT_EXPECT_FALSE(test, known->is_parked_known);
	bpshaper_test_push(test, 2, 1);
	bpshaper_test_serve(test);
	KUNIT_EXPECT_TRUE(test, known->is_parked_known);
	/* Nobody frees the flow that is being made, though the others came
	 * back.
	 */
	for (id = 4; id < 4 * BPSHAPER_FLOW_PARKED_GOAL; id += 2)
		bpshaper_test_push(test, id, 1);
	while (bpshaper_test_serve(test))
		;
	/* All have been parked since. */
	for (; id < 8 * BPSHAPER_FLOW_PARKED_GOAL; id += 2)
		KUNIT_ASSERT_NOT_NULL(test, bpshaper_flow_get(t, bpshaper_test_key(id), 0));
	KUNIT_EXPECT_EQ(test, t->table->parked_len, BPSHAPER_FLOW_PARKED_GOAL);
	KUNIT_EXPECT_PTR_EQ(test, known, bpshaper_flow_get(t, bpshaper_test_key(2), 0));
}

/* Those that came back have a bound of their own, so that a flow that is made,
 * and comes back, is not forgotten before: neither is the one that is just
 * made.
 */
static void bpshaper_flow_all_known_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;
	unsigned long id;
	int visit;

	for (visit = 0; visit < 2; visit++) {
		for (id = 2; id <= 4 * BPSHAPER_FLOW_PARKED_GOAL; id += 2)
			bpshaper_test_push(test, id, 1);
		while (bpshaper_test_serve(test))
			;
	}
	KUNIT_EXPECT_EQ(test, t->table->parked_known, 2 * BPSHAPER_FLOW_PARKED_GOAL);
	f = bpshaper_test_push(test, id, 1);
	KUNIT_EXPECT_PTR_EQ(test, f, bpshaper_flow_get(t, bpshaper_test_key(id), 0));
	bpshaper_test_serve(test);
	for (id += 2; id < 8 * BPSHAPER_FLOW_PARKED_GOAL; id += 2)
		KUNIT_ASSERT_NOT_NULL(test, bpshaper_flow_get(t, bpshaper_test_key(id), 0));
	KUNIT_EXPECT_EQ(test, t->table->parked_known, BPSHAPER_FLOW_KNOWN_MAX);
	/* As many in a row are spared, two by each that comes. */
	KUNIT_EXPECT_LE(test, t->table->parked_len,
			BPSHAPER_FLOW_PARKED_GOAL + BPSHAPER_FLOW_KNOWN_MAX / 2);
}

/* Who owes stays as well, until it is paid, and only as long as there are not
 * too many of them, whatever it is that they owe.
 */
struct bpshaper_unpaid_row {
	const char	*name;
	s64		ahead;
	u64		paid_ns;
	u64		now;
	u32		others;
	bool		is_kept;
};

static const struct bpshaper_unpaid_row bpshaper_unpaid_rows[] = {
	{ "without a rate", 0, 0, 1000, BPSHAPER_FLOW_PARKED_GOAL, false },
	{ "few are parked", 0, 0, 1000, BPSHAPER_FLOW_PARKED_GOAL - 1, true },
	{ "paid in the future", 0, 1001, 1000, BPSHAPER_FLOW_PARKED_GOAL, true },
	{ "paid now", 0, 1000, 1000, BPSHAPER_FLOW_PARKED_GOAL, false },
	{ "paid in the future, as many as may be", 0, 1001, 1000,
	  BPSHAPER_FLOW_PARKED_MAX - 1, true },
	{ "paid in the future, too many", 0, 1001, 1000,
	  BPSHAPER_FLOW_PARKED_MAX, false },
	{ "ahead", 1, 0, 1000, BPSHAPER_FLOW_PARKED_GOAL, true },
	{ "ahead, as many as may be", 1, 0, 1000,
	  BPSHAPER_FLOW_PARKED_MAX - 1, true },
	{ "ahead, too many", 1, 0, 1000, BPSHAPER_FLOW_PARKED_MAX, false },
};

BPSHAPER_ROWS(unpaid);

static void bpshaper_unpaid_test(struct kunit *test)
{
	const struct bpshaper_unpaid_row *row = test->param_value;
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f, *other;
	u32 i;

	f = bpshaper_flow_get(t, bpshaper_test_key(2), row->now);
	KUNIT_ASSERT_NOT_NULL(test, f);
	f->paced.paid_ns = row->paid_ns;
	f->v = t->vtime + row->ahead;
	/* Others that are kept, or there could not be as many; it is looked at
	 * first.
	 */
	for (i = 0; i < row->others; i++) {
		list_move(&f->list, &t->table->parked);
		other = bpshaper_flow_get(t, bpshaper_test_key(4 + 2 * i), row->now);
		KUNIT_ASSERT_NOT_NULL(test, other);
		other->paced.paid_ns = U64_MAX;
	}
	KUNIT_EXPECT_EQ(test, t->table->parked_len, row->is_kept ? row->others + 1 :
			row->others);
}

/* A user who makes flows without end makes others forget his own, and those of a
 * user who has few stay, whether his flows owe or not.
 */
static void bpshaper_flow_users_test(struct kunit *test)
{
	const u32 few = BPSHAPER_FLOW_PARKED_GOAL / 8;
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f, *mine = NULL;
	u32 i;

	for (i = 0; i < 2 * BPSHAPER_FLOW_PARKED_MAX; i++) {
		f = bpshaper_flow_get(t, bpshaper_test_key(2 + 2 * i), 1);
		KUNIT_ASSERT_NOT_NULL(test, f);
		KUNIT_ASSERT_TRUE(test, bpshaper_flow_set_owner(t, f, 1 + i,
								i < few));
		mine = mine ?: f;
		if (i >= few && i < BPSHAPER_FLOW_PARKED_MAX)
			f->paced.paid_ns = U64_MAX;
	}
	KUNIT_EXPECT_EQ(test, mine->socket->user->parked, few);
	KUNIT_EXPECT_EQ(test, f->socket->user->parked, t->table->parked_len - few);
	KUNIT_EXPECT_LE(test, t->table->parked_len, BPSHAPER_FLOW_PARKED_MAX);
	KUNIT_EXPECT_EQ(test, t->memory.pool.parked, 0);
	for (i = 0; i < few; i++) {
		/* One that was made anew would have no cookie. */
		f = bpshaper_flow_get(t, bpshaper_test_key(2 + 2 * i), 1);
		KUNIT_ASSERT_NOT_NULL(test, f);
		KUNIT_EXPECT_EQ(test, f->cookie, 1 + i);
	}
}

/* The flows of a socket have one socket, whatever comes and goes around them.
 */
static void bpshaper_flow_peers_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_socket *s;
	struct bpshaper_flow *f;
	u32 i;

	s = bpshaper_peer_push(test, 2, 500, 100)->socket;
	for (i = 0; i < 1000; i++) {
		f = bpshaper_peer_push(test, 2, i * 7919 % 1000, 100);
		KUNIT_EXPECT_PTR_EQ(test, f->socket, s);
		f = bpshaper_peer_push(test, 2 + 2 * i, 7, 10);
		KUNIT_EXPECT_EQ(test, f->socket == s, !i);
	}
	KUNIT_EXPECT_EQ(test, s->flows, 1000);
	KUNIT_EXPECT_EQ(test, s->refs, 1000);
	KUNIT_EXPECT_EQ(test, s->data, 1001 * 100 + 10);
	KUNIT_EXPECT_EQ(test, t->sockets, 1000);
	KUNIT_EXPECT_EQ(test, t->socket_flows, 1999);
	while (bpshaper_test_serve(test))
		;
	KUNIT_EXPECT_EQ(test, s->flows, 0);
	KUNIT_EXPECT_EQ(test, s->data, 0);
	KUNIT_EXPECT_EQ(test, s->refs, 1000);
	KUNIT_EXPECT_EQ(test, t->sockets, 0);
	KUNIT_EXPECT_EQ(test, t->socket_flows, 0);
}

/* Another socket at the same address: its flows and what it was told are new.
 */
static void bpshaper_flow_owner_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f, *other;

	f = bpshaper_peer_push(test, 2, 4, 100);
	other = bpshaper_peer_push(test, 2, 5, 100);
	while (bpshaper_test_serve(test))
		;
	KUNIT_EXPECT_TRUE(test, bpshaper_flow_set_owner(t, f, 77, 1000));
	KUNIT_EXPECT_EQ(test, f->socket->cookie, 77);
	KUNIT_EXPECT_EQ(test, other->cookie, 0);
	f->socket->throttles = 3;
	other->was_held = true;
	KUNIT_EXPECT_TRUE(test, bpshaper_flow_set_owner(t, other, 77, 1000));
	KUNIT_EXPECT_EQ(test, f->socket->user->key, 1000);
	KUNIT_EXPECT_EQ(test, f->socket->throttles, 3);
	KUNIT_EXPECT_FALSE(test, other->was_held);
	KUNIT_EXPECT_EQ(test, f->socket->peers, 2);
	KUNIT_EXPECT_TRUE(test, bpshaper_flow_set_owner(t, other, 78, 1001));
	KUNIT_EXPECT_EQ(test, f->socket->user->key, 1001);
	KUNIT_EXPECT_EQ(test, f->socket->throttles, 0);
	KUNIT_EXPECT_EQ(test, f->socket->peers, 1);
	f->socket->flow = f;
	bpshaper_flow_forget(t->table, f);
	KUNIT_EXPECT_NULL(test, other->socket->flow);
	KUNIT_EXPECT_EQ(test, other->socket->peers, 1);
}

static struct kunit_case bpshaper_table_cases[] = {
	KUNIT_CASE(bpshaper_flow_table_test),
	KUNIT_CASE(bpshaper_flow_recycle_test),
	KUNIT_CASE_PARAM(bpshaper_unpaid_test, bpshaper_unpaid_gen_params),
	KUNIT_CASE(bpshaper_flow_known_test),
	KUNIT_CASE(bpshaper_flow_users_test),
	KUNIT_CASE(bpshaper_flow_all_known_test),
	KUNIT_CASE(bpshaper_flow_peers_test),
	KUNIT_CASE(bpshaper_flow_owner_test),
	{}
};

BPSHAPER_SUITE(table, bpshaper_flow_test_init, bpshaper_flow_test_exit);
