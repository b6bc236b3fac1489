/* SPDX-License-Identifier: GPL-2.0-only */
/* Who is next. A row is a sequence of events and who was served:
 *
 *	A1000	a packet of 1000 bytes for flow A (upper case: of a socket, lower
 *		case: of the pool)
 *	?	serve one packet; what is served is written down, and - for none
 */
struct bpshaper_order_row {
	const char	*name;
	u32		quantum;
	const char	*events;
	const char	*served;
	u32		mean_quanta;
};

static const struct bpshaper_order_row bpshaper_order_rows[] = {
	{ "nobody is there: none is served", 1000,
	  "?", "-" },
	{ "one flow keeps its order", 1000,
	  "A100 A200 A300 ? ? ? ?", "AAA-" },
	{ "equal flows take turns", 1000,
	  "A1000 A1000 A1000 B1000 B1000 B1000 ? ? ? ? ? ?", "ABABAB" },
	{ "small packets of a flow go together", 1000,
	  "A500 A500 A500 A500 B1000 B1000 ? ? ? ? ? ?", "AABAAB" },
	{ "what is left of the credit is kept", 1000,
	  "A600 A600 A600 B600 B600 B600 ? ? ? ? ? ?", "ABAABB" },
	{ "who is new comes before bulk", 1000,
	  "A1000 A1000 A1000 ? B100 ? ?", "ABA" },
	{ "and so does the pool's", 1000,
	  "A1000 A1000 A1000 ? b100 ? ?", "AbA" },
	{ "new flows are served as they come", 1000,
	  "A1000 A1000 ? C100 B100 ? ? ?", "ACBA" },
	{ "credit survives running empty", 1000,
	  "A1000 A1000 A1000 ? B400 ? B400 ? ? ?", "ABBAA" },
	{ "running empty renews no credit", 1000,
	  "B1000 B1000 B1000 A1000 ? ? A1000 ? ? ?", "BABAB" },
	{ "credit that is used up waits for the round", 1000,
	  "A1000 A1000 A1000 ? B600 ? B600 ? ? ?", "ABABA" },
	{ "the next round brings new credit", 1000,
	  "A1000 A1000 A1000 A1000 ? B1000 ? ? B1000 ? ? ?", "ABABAA" },
	{ "debt is paid in rounds", 1000,
	  "A3000 A1000 B1000 B1000 B1000 B1000 ? ? ? ? ? ?", "ABBBAB" },
	{ "debt survives running empty", 1000,
	  "A3000 B1000 B1000 B1000 B1000 ? ? A1000 ? ? ? ?", "ABBBAB" },
	{ "rounds in which all are in debt are skipped", 1000,
	  "A4000 A4000 B3000 B3000 ? ? ? ?", "ABBA" },
	{ "who was away has credit for a round of large packets", 1000,
	  "Z100 ? A5000 A5000 A5000 B5000 B5000 ? ? ? Z1000 ? Z1000 ? Z1000 ? ?",
	  "ZABAZZZB" },
	{ "a flow of its own never waits", 1000,
	  "A9000 A9000 A9000 ? ? ? ?", "AAA-" },
	{ "eight quanta of new flows, then one old", 1,
	  "Z1 Z1 ? A1 B1 C1 D1 E1 F1 G1 H1 I1 J1 ? ? ? ? ? ? ? ? ? ? ?",
	  "ZABCDEFGZHIJ" },
	{ "eight bytes of new flows for one of old", 2,
	  "Z1 Z1 Z1 Z1 ? ? A2 B2 C2 D2 E2 F2 G2 H2 I2 J2 K2 L2 ? ? ? ? ? ? ? ? ? ? ? ? ? ?",
	  "ZZABCDEFGZHIJKZL" },
	{ "a large packet of a fresh flow counts as a whole", 1,
	  "Z1 Z1 Z1 Z1 ? A24 B1 C1 ? ? ? ? ? ?", "ZAZZZBC" },
	{ "who comes back with more than a quantum is not new", 1000,
	  "A1 ? B1 ? C2000 ? A1500 B1 Z1000 ? ? ?", "ABCBZA" },
	{ "who comes back goes before who was never there", 1000,
	  "B100 ? A1000 A1000 ? C100 B100 ? ? ?", "BABCA" },
	{ "but not without end", 10,
	  "A1 ? B1 ? C1 ? D1 ? E1 ? G1 ? H1 ? I1 ? J1 ? K1 ? A9 B9 C9 D9 E9 G9 H9 I9 J9 K9 F1 ? ? ? ? ? ? ? ? ? ? ?",
	  "ABCDEGHIJKABCDEGHIJFK" },
	{ "new flows that nobody waited for count for nothing", 1,
	  "A1 B1 C1 D1 E1 F1 G1 H1 I1 J1 ? ? ? ? ? ? ? ? ? ? Z1 Z1 ? Y1 ? ?",
	  "ABCDEFGHIJZYZ" },
	{ "a burst with credit for many packets delays others by one", 1000,
	  "A1000 A1000 A1000 B100 B100 ? ? ? ? ?", "ABABA", 4 },
	{ "and is served before bulk until the credit is used up", 1000,
	  "Z4000 Z4000 ? A1000 A1000 A1000 ? ? ? ?", "ZAAAZ", 4 },
};

BPSHAPER_ROWS(order);

static void bpshaper_order_test(struct kunit *test)
{
	const struct bpshaper_order_row *row = test->param_value;
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;
	char served[64] = "";
	unsigned long id;
	const char *p;
	int n = 0;
	u32 bytes;

	t->quantum = row->quantum;
	t->turns.mean_quanta = row->mean_quanta ?: 1;
	for (p = row->events; *p; p++) {
		if (*p == '?') {
			f = bpshaper_test_serve(test);
			served[n++] = f ? bpshaper_test_id(f) >> 1 : '-';
		} else if (isalpha(*p)) {
			id = bpshaper_test_named(*p);
			for (bytes = 0; isdigit(p[1]); p++)
				bytes = 10 * bytes + p[1] - '0';
			bpshaper_test_push(test, id, bytes);
		}
	}
	KUNIT_EXPECT_STREQ(test, served, row->served);
	while (bpshaper_test_serve(test))
		;
	KUNIT_EXPECT_EQ(test, t->active, 0);
	KUNIT_EXPECT_EQ(test, t->sockets, 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&t->new_flows));
}

/* Credit is a quantum for each round that was missed, and never more than one.
 */
struct bpshaper_renew_row {
	const char	*name;
	s32		deficit;
	u32		rounds;
	s32		then;
};

static const struct bpshaper_renew_row bpshaper_renew_rows[] = {
	{ "the same round", 300, 0, 300 },
	{ "the same round, in debt", -300, 0, -300 },
	{ "a round later", 300, 1, 1000 },
	{ "a round later, used up", 0, 1, 1000 },
	{ "a round later, in debt", -300, 1, 700 },
	{ "a round later, in large debt", -5000, 1, -4000 },
	{ "ten rounds later", 300, 10, 1000 },
	{ "ten rounds later, in large debt", -5000, 10, 1000 },
	{ "half of all rounds later", -5000, 1U << 31, 1000 },
	{ "nearly all rounds later", -5000, U32_MAX, 1000 },
};

BPSHAPER_ROWS(renew);

static void bpshaper_renew_test(struct kunit *test)
{
	const struct bpshaper_renew_row *row = test->param_value;
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow f = {
		.deficit = row->deficit,
		.round = 5,
	};

	t->round = 5 + row->rounds;
	bpshaper_flow_renew(t, &f, t->quantum, t->quantum);
	KUNIT_EXPECT_EQ(test, f.deficit, row->then);
	KUNIT_EXPECT_EQ(test, f.round, t->round);
}

/* A peer's flow that ran empty while its socket was held comes back as bulk,
 * for two rounds.
 */
static void bpshaper_flow_held_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;
	u32 rounds;

	for (rounds = 0; rounds < 4; rounds++) {
		f = bpshaper_peer_push(test, 2, 7, 10);
		f->socket->is_by_peer = true;
		f->socket->state = BPSHAPER_THROTTLED;
		KUNIT_ASSERT_PTR_EQ(test, f, bpshaper_test_serve(test));
		KUNIT_EXPECT_TRUE(test, f->was_held);
		f->socket->state = BPSHAPER_UNTHROTTLED;
		t->round += rounds;
		bpshaper_peer_push(test, 2, 7, 10);
		KUNIT_EXPECT_EQ(test, f->is_new, rounds > BPSHAPER_FLOW_HELD_ROUNDS);
		KUNIT_ASSERT_PTR_EQ(test, f, bpshaper_test_serve(test));
		KUNIT_EXPECT_FALSE(test, f->was_held);
	}
}

/* New flows of sockets that send all they may let others pass: those that have
 * waited for turns, and had their part, until they have waited for some time.
 */
static void bpshaper_flow_greedy_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f[5];
	u32 i;

	t->turns.vtime = 1000;
	t->turns.patience_ns = NSEC_PER_SEC;
	t->turns.rest = 1;
	for (i = 0; i < ARRAY_SIZE(f); i++) {
		f[i] = bpshaper_peer_push(test, 2 + 2 * i, i, 10);
		KUNIT_ASSERT_PTR_EQ(test, f[i], bpshaper_test_serve(test));
	}
	for (i = 0; i < ARRAY_SIZE(f); i++) {
		bpshaper_peer_push(test, 2 + 2 * i, i, 10);
		f[i]->socket->outside_ns = i != 3;
		f[i]->socket->finish = 1000 - (i == 4);
	}
	bpshaper_flows_pass_greedy(t, BPSHAPER_PASS_NS + 1);
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_flows_next(t), f[0]);
	bpshaper_flows_pass_greedy(t, BPSHAPER_PASS_NS);
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_test_serve(test), f[3]);
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_test_serve(test), f[4]);
	bpshaper_flows_pass_greedy(t, 1);	/* all are greedy */
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_PTR_EQ(test, bpshaper_test_serve(test), f[i]);
	t->turns.rest = 0;
}

/* Leaves whose flows are due take turns, however many one of them has and
 * however long these have been due.
 */
static void bpshaper_flow_due_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv, *other;
	struct bpshaper_flow *f;
	u32 i;

	other = kunit_kzalloc(test, sizeof(*other), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, other);
	bpshaper_flows_init(other, t->table);
	other->quantum = t->quantum;
	for (i = 0; i < 100; i++)
		bpshaper_flow_wait(t, bpshaper_test_push(test, 2 + 2 * i, 1), 40);
	test->priv = other;
	f = bpshaper_test_push(test, 2, 1);
	bpshaper_flow_wait(other, f, 60);
	bpshaper_flow_wait(other, bpshaper_test_push(test, 4, 1), 50);
	test->priv = t;
	KUNIT_EXPECT_EQ(test, bpshaper_table_departs_ns(t->table), 40);
	KUNIT_EXPECT_NULL(test, bpshaper_table_wake(t->table, 39));
	for (i = 0; i < 5; i++)
		KUNIT_EXPECT_NOT_NULL(test, bpshaper_table_wake(t->table, 60));
	KUNIT_EXPECT_EQ(test, t->waiting_len, 97);
	KUNIT_EXPECT_EQ(test, other->waiting_len, 0);
	bpshaper_flow_wait(other, f, 70);
	KUNIT_EXPECT_EQ(test, bpshaper_table_departs_ns(t->table), 60);
	for (i = 0; i < 97; i++)
		KUNIT_EXPECT_NOT_NULL(test, bpshaper_table_wake(t->table, 65));
	KUNIT_EXPECT_EQ(test, bpshaper_table_departs_ns(t->table), 70);
	bpshaper_flow_unwait(other, f);
	KUNIT_EXPECT_EQ(test, bpshaper_table_departs_ns(t->table), U64_MAX);
}

static struct kunit_case bpshaper_round_cases[] = {
	KUNIT_CASE_PARAM(bpshaper_order_test, bpshaper_order_gen_params),
	KUNIT_CASE_PARAM(bpshaper_renew_test, bpshaper_renew_gen_params),
	KUNIT_CASE(bpshaper_flow_held_test),
	KUNIT_CASE(bpshaper_flow_greedy_test),
	KUNIT_CASE(bpshaper_flow_due_test),
	{}
};

BPSHAPER_SUITE(round, bpshaper_flow_test_init, bpshaper_flow_test_exit);
