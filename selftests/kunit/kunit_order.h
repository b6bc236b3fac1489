/* SPDX-License-Identifier: GPL-2.0-only */
/* Who is next. A row is a sequence of events and who was served:
 *
 *	A1000	a packet of 1000 bytes for flow A (upper case: of a socket, lower
 *		case: of the pool)
 *	?	serve one packet; what is served is written down, and - for none
 *
 * A packet of the MTU has 1000 bytes.
 */

/**
 * struct bpshaper_order_row - packets that come, and how they leave
 * @name: what it is
 * @events: see above
 * @served: the flows, in order
 * @each: bytes that a socket sends in one go
 * @kept: sockets outside
 */
struct bpshaper_order_row {
	const char	*name;
	const char	*events;
	const char	*served;
	u32		each;
	u32		kept;
};

static const struct bpshaper_order_row bpshaper_order_rows[] = {
	{ "nobody is there: none is served",
	  "?", "-" },
	{ "one flow keeps its order",
	  "A100 A200 A300 ? ? ? ?", "AAA-" },
	{ "a flow alone never waits",
	  "A9000 A9000 A9000 ? ? ? ?", "AAA-" },
	{ "equal flows alternate",
	  "A1000 A1000 A1000 B1000 B1000 B1000 ? ? ? ? ? ?", "ABABAB" },
	{ "flows get equal bytes: half as long, twice as many",
	  "A500 A500 A500 A500 B1000 B1000 ? ? ? ? ? ?", "ABAABA" },
	{ "a large packet is paid for",
	  "A3000 A1000 B1000 B1000 B1000 B1000 ? ? ? ? ? ?", "ABBBAB" },
	{ "also by a flow that ran empty",
	  "A3000 B1000 B1000 B1000 B1000 ? ? A1000 ? ? ? ?", "ABBBAB" },
	{ "nobody gains by running empty",
	  "B1000 B1000 B1000 A1000 ? ? A1000 ? ? ?", "BABAB" },
	{ "who has sent less does not wait",
	  "A1000 A1000 A1000 ? B400 ? B400 ? ? ?", "ABBAA" },
	{ "who has sent more does",
	  "A1000 A1000 A1000 ? B1500 ? B100 ? ? ?", "ABABA" },
	{ "who was idle is two packets behind at most",
	  "Z100 ? A1000 A1000 A1000 A1000 A1000 A1000 A1000 A1000 ? ? ? ? ? ? Z1000 Z1000 Z1000 Z1000 Z1000 ? ? ? ? ? ? ?",
	  "ZAAAAAAZZZAZAZ" },
	{ "who has never sent is not behind",
	  "A1000 A1000 A1000 A1000 A1000 A1000 A1000 A1000 ? ? ? ? ? ? Z1000 Z1000 Z1000 Z1000 ? ? ? ? ? ?",
	  "AAAAAAZAZAZZ" },
	{ "a sparse flow waits for a packet of each other one",
	  "Z100 ? A5000 A5000 A5000 B5000 B5000 ? ? ? Z1000 ? Z1000 ? Z1000 ? ?",
	  "ZABAZZZB" },
	{ "what is sent while nobody waits is owed, but for two packets",
	  "A5000 ? A1000 A1000 B1000 B1000 B1000 B1000 ? ? ? ? ? ?", "ABBBABA" },
	{ "a new flow comes before bulk",
	  "A1000 A1000 A1000 ? B100 ? ?", "ABA" },
	{ "and so does one of the pool",
	  "A1000 A1000 A1000 ? b100 ? ?", "AbA" },
	{ "new flows are served as they come",
	  "A1000 A1000 ? C100 B100 ? ? ?", "ACBA" },
	{ "who comes back goes before who was never there",
	  "B100 ? A1000 A1000 ? C100 B100 ? ? ?", "BABCA" },
	{ "eight packets of new flows, its own first one included, then one of bulk",
	  "Z1000 Z1000 ? A1000 B1000 C1000 D1000 E1000 F1000 G1000 H1000 I1000 J1000 ? ? ? ? ? ? ? ? ? ? ?",
	  "ZABCDEFGZHIJ" },
	{ "or as many bytes",
	  "Z1000 Z1000 Z1000 ? A8000 B1000 C1000 ? ? ? ? ?", "ZAZBCZ" },
	{ "new flows that nobody waited for count for nothing",
	  "A1000 B1000 C1000 D1000 E1000 F1000 G1000 H1000 I1000 J1000 ? ? ? ? ? ? ? ? ? ? Z1000 Z1000 ? Y1000 ? ?",
	  "ABCDEFGHIJZYZ" },
	{ "second packets do not pass first ones",
	  "A1000 A1000 B1000 B1000 C1000 C1000 D1000 D1000 E1000 E1000 F1000 F1000 G1000 G1000 H1000 H1000 I1000 I1000 J1000 J1000 ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ?",
	  "ABCDEFGHIJABCDEFGHIJ" },
	{ "eight packets of the pool for one of bulk",
	  "Z1600 Z1600 ? a1600 b1600 c1600 d1600 e1600 f1600 g1600 h1600 i1600 j1600 ? ? ? ? ? ? ? ? ? ? ?",
	  "ZabcdefghZij" },
	{ "nor more when its flows were idle and may be behind",
	  "Z1000 Z1000 Z1000 Z1000 Z1000 Z1000 Z1000 Z1000 a1 b1 c1 d1 e1 f1 g1 h1 i1 j1 k1 l1 ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? a1000 b1000 c1000 d1000 e1000 f1000 g1000 h1000 i1000 j1000 k1000 l1000 ? ? ? ? ? ? ? ? ?",
	  "ZabcdefghijklZZZZZabcdefghZ" },
	{ "for one of each",
	  "Y1600 Y1600 Z1600 Z1600 ? ? a1600 b1600 c1600 d1600 e1600 f1600 g1600 h1600 i1600 j1600 k1600 l1600 m1600 n1600 o1600 p1600 q1600 ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ?",
	  "YZabcdefghijklmnYoZpq" },
	{ "sockets outside count",
	  "Z1600 Z1600 ? a1600 b1600 c1600 d1600 e1600 f1600 g1600 h1600 i1600 j1600 k1600 l1600 m1600 n1600 o1600 p1600 q1600 ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ?",
	  "ZabcdefghijklmnopZq", 0, 1 },
	{ "a greedy flow of the pool is one of all",
	  "a1000 a1000 a1000 A1000 A1000 A1000 ? ? ? ? ? ?", "AaAaAa" },
	{ "turns leave in one go, but for the first packet",
	  "A1000 A1000 A1000 A1000 B1000 B1000 B1000 B1000 ? ? ? ? ? ? ? ?",
	  "ABAAABBB", 3000 },
	{ "not those of who is behind: others are, too",
	  "Y1 Z1 ? ? A1000 A1000 A1000 A1000 A1000 A1000 A1000 A1000 ? ? ? ? ? ? Y1000 Y1000 Y1000 Y1000 Y1000 Y1000 Z1000 Z1000 Z1000 Z1000 Z1000 Z1000 ? ? ? ? ? ? ? ? ? ? ? ? ? ?",
	  "YZAAAAAAYZYZAYYYZZZAYZ", 3000 },
	{ "the pool has no turns",
	  "a1000 a1000 a1000 b1000 b1000 b1000 ? ? ? ? ? ?", "ababab", 3000 },
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

	t->turns.each = row->each;
	t->turns.kept = row->kept;
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
	KUNIT_EXPECT_EQ(test, t->known, 0);
}

/* Whatever packets greedy flows have: they get equal bytes, but for a packet of
 * each.
 */
static void bpshaper_order_bytes_test(struct kunit *test)
{
	static const u32 lens[] = { 1000, 77, 500, 9000 };
	u64 sent[ARRAY_SIZE(lens)] = {}, most, least;
	struct bpshaper_flow *f;
	u32 i, n;

	for (i = 0; i < ARRAY_SIZE(lens); i++)
		bpshaper_test_push(test, 2 + 2 * i, lens[i]);
	for (n = 0; n < 3000; n++) {
		f = bpshaper_flows_next(test->priv);
		i = bpshaper_test_id(f) / 2 - 1;
		bpshaper_test_push(test, 2 + 2 * i, lens[i]);
		KUNIT_ASSERT_PTR_EQ(test, f, bpshaper_test_serve(test));
		sent[i] += lens[i];
		for (most = 0, least = U64_MAX, i = 0; i < ARRAY_SIZE(lens); i++) {
			most = max(most, sent[i]);
			least = min(least, sent[i]);
		}
		KUNIT_ASSERT_LE(test, most - least, 9000 + 1000);
	}
}

/* Whoever makes new flows without end, of sockets and in the pool: a socket with
 * a backlog has a seventeenth.
 */
static void bpshaper_order_strangers_test(struct kunit *test)
{
	u32 n, id = 100, packets = 0;
	struct bpshaper_flow *f;

	for (n = 0; n < 1700; n++) {
		bpshaper_test_push(test, 2, 1000);
		bpshaper_test_push(test, id++, 1000);
		bpshaper_test_push(test, id++, 1000);
		f = bpshaper_test_serve(test);
		packets += bpshaper_test_id(f) == 2;
	}
	KUNIT_EXPECT_GE(test, packets, 100);
	KUNIT_EXPECT_LE(test, packets, 102);
}

/* How far a packet of 8000 bytes of a new flow, or of the pool, moves all of its
 * kind: as if it were an eighth for each known flow, also of those that are
 * kept, but not itself. With a hub all counts if there is none. However many
 * there are it moves: else the others would never be next.
 */
static void bpshaper_order_weight_test(struct kunit *test)
{
	static const u32 kept[] = { 0, 1, 3, 2000 };
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;
	u32 n, known;

	for (n = 0; n < 16; n++) {
		known = kept[n / 2 % ARRAY_SIZE(kept)];
		t->is_shared = n / 8;
		t->turns.kept = known;
		t->vtime += 100000;
		f = bpshaper_test_push(test, 100 + n, 8000);
		if (f->socket)
			f->socket->state = BPSHAPER_THROTTLED;
		KUNIT_ASSERT_PTR_EQ(test, f, bpshaper_test_serve(test));
		KUNIT_EXPECT_EQ(test, t->kinds[f->kind].v,
				t->vtime + (!known && t->is_shared ? 8000 :
					    DIV_ROUND_UP(1000, max(known, 1U))));
		KUNIT_EXPECT_EQ(test, t->turns.kept, known + !!f->socket);
		if (!f->socket)
			continue;
		f->socket->state = BPSHAPER_UNTHROTTLED;
		bpshaper_socket_unkeep(t, f->socket);
	}
}

/* Strangers keep nobody outside who comes before them. */
static void bpshaper_order_ahead_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_socket s = {};
	struct bpshaper_flow *f;
	int i, pool;

	t->is_shared = true;
	INIT_LIST_HEAD(&s.node);
	bpshaper_turns_join(&t->turns, &s, t->vtime + 1500, 1);
	for (pool = 0; pool <= 1; pool++) {
		for (i = 0; i <= 2; i++) {
			bpshaper_test_push(test, 100 + 2 * i + pool, 1000);
			KUNIT_EXPECT_EQ(test, bpshaper_flows_strangers_ahead(t), i == 2);
			if (i < 2)
				bpshaper_test_serve(test);
		}
		f = bpshaper_flow_get(t, bpshaper_test_key(2), 0);
		KUNIT_ASSERT_NOT_NULL(test, f);
		f->is_known = true;
		bpshaper_test_push(test, 2, 10);
		KUNIT_EXPECT_FALSE(test, bpshaper_flows_strangers_ahead(t));
		for (i = 0; i < 2; i++)
			bpshaper_test_serve(test);
	}
	KUNIT_EXPECT_FALSE(test, bpshaper_flows_strangers_ahead(t));
	bpshaper_turns_leave(&t->turns, &s, 2);
	list_del_init(&s.node);
}

/* A flow gets a packet while it has none. */

/**
 * struct bpshaper_join_row - and where it stands then
 * @name: what it is
 * @ahead: of the virtual time of all before that, bytes
 * @is_known: it has sent a packet
 * @was_held: it ran empty while its socket was held
 * @len: bytes of the packet
 * @then_ahead: afterwards
 */
struct bpshaper_join_row {
	const char	*name;
	s64		ahead;
	bool		is_known;
	bool		was_held;
	u32		len;
	s64		then_ahead;
};

static const struct bpshaper_join_row bpshaper_join_rows[] = {
	{ "it has never sent", -5000, false, false, 100, 0 },
	{ "it was idle", -5000, true, false, 100, -2000 },
	{ "it was idle, and its packet is as long as two", -5000, true, false, 2000, -2000 },
	{ "it was idle, and its packet is longer", -5000, true, false, 2001, 0 },
	{ "it has sent a little less than others", -500, true, false, 100, -500 },
	{ "it has sent more", 700, true, false, 100, 700 },
	{ "its socket was held", -500, true, true, 100, 0 },
	{ "its socket was held, and it has sent more", 700, true, true, 100, 700 },
	{ "its socket was held, not long ago", -3999, true, true, 100, 0 },
	{ "its socket was held, and it was idle", -4000, true, true, 100, -2000 },
};

BPSHAPER_ROWS(join);

static void bpshaper_join_test(struct kunit *test)
{
	const struct bpshaper_join_row *row = test->param_value;
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;

	f = bpshaper_flow_get(t, bpshaper_test_key(2), 0);
	KUNIT_ASSERT_NOT_NULL(test, f);
	f->v = t->vtime + row->ahead;
	f->is_known = row->is_known;
	f->was_held = row->was_held;
	f->sent = BPSHAPER_CREDIT_PKTS;
	bpshaper_test_push(test, 2, row->len);
	KUNIT_EXPECT_EQ(test, (s64)(f->v - t->vtime), row->then_ahead);
	KUNIT_EXPECT_EQ(test, f->order.at, f->v);
	KUNIT_EXPECT_EQ(test, f->sent, 0);
	KUNIT_EXPECT_FALSE(test, f->was_held);
}

/* A flow runs empty while its socket, which has several, is held. */
static void bpshaper_flow_held_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;
	int state;

	for (state = BPSHAPER_UNTHROTTLED; state <= BPSHAPER_THROTTLED; state++) {
		f = bpshaper_peer_push(test, 2, 7, 10);
		f->socket->is_by_peer = true;
		f->socket->state = state;
		KUNIT_ASSERT_PTR_EQ(test, f, bpshaper_test_serve(test));
		KUNIT_EXPECT_EQ(test, f->was_held, state != BPSHAPER_UNTHROTTLED);
		f->socket->state = BPSHAPER_UNTHROTTLED;
	}
	bpshaper_socket_unkeep(t, f->socket);
}

/* Sockets outside take part: what is ahead of the first of them while it wakes
 * up moves nothing.
 */
static void bpshaper_order_outside_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	u64 vtime = t->vtime, at = vtime + 1500;
	struct bpshaper_socket s = {};
	int i;

	INIT_LIST_HEAD(&s.node);
	bpshaper_turns_join(&t->turns, &s, at, 1);
	for (i = 0; i < 4; i++)
		bpshaper_test_push(test, 2, 1000);
	for (i = 0; i < 3; i++) {
		bpshaper_test_serve(test);
		KUNIT_EXPECT_EQ(test, t->vtime, min(vtime + 1000 * i, at));
	}
	/* Who comes meanwhile is not behind what is outside. */
	KUNIT_EXPECT_EQ(test, bpshaper_test_push(test, 4, 10)->v, at);
	bpshaper_turns_leave(&t->turns, &s, 2);
	list_del_init(&s.node);
	bpshaper_test_push(test, 2, 1000);
	bpshaper_test_serve(test);
	bpshaper_test_serve(test);
	KUNIT_EXPECT_EQ(test, t->vtime, vtime + 3000);
}

/* With a hub the virtual time is that of the class, and flows have been served
 * as much as the slot says.
 */
static void bpshaper_order_shared_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	u64 vtime = t->vtime;
	struct bpshaper_flow *f;

	t->is_shared = true;
	f = bpshaper_test_push(test, 2, 1000);
	bpshaper_test_push(test, 2, 1000);
	bpshaper_test_serve(test);
	KUNIT_EXPECT_EQ(test, bpshaper_flow_place(f), vtime + 1000);
	t->least = vtime + 5000;
	KUNIT_EXPECT_EQ(test, bpshaper_flow_place(f), vtime + 5000);
	bpshaper_test_serve(test);
	KUNIT_EXPECT_EQ(test, f->v, vtime + 6000);
	KUNIT_EXPECT_EQ(test, t->vtime, vtime);
}

/* A slot says where its first flow stands, and the one behind that which has
 * sent some packets.
 */
static void bpshaper_order_places_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	u64 vtime = t->vtime;
	struct bpshaper_flow *f;
	int i;

	f = bpshaper_test_push(test, 2, 1000);
	KUNIT_EXPECT_EQ(test, bpshaper_flow_place(f), vtime);
	KUNIT_EXPECT_EQ(test, bpshaper_flow_next_place(f), vtime);
	for (i = 0; i < 2; i++) {
		bpshaper_test_push(test, 2, 1000);
		bpshaper_test_push(test, 4, 3000);
	}
	bpshaper_test_serve(test);
	bpshaper_test_serve(test);
	KUNIT_EXPECT_EQ(test, bpshaper_flow_place(f), vtime + 1000);
	KUNIT_EXPECT_EQ(test, bpshaper_flow_next_place(f),
			vtime + 1000 / BPSHAPER_FLOW_WEIGHT + 3000);
	f = bpshaper_test_push(test, 6, 100);
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_flows_next(t), f);
	/* New ones have sent 4000 bytes. */
	KUNIT_EXPECT_EQ(test, bpshaper_flow_place(f), vtime + 4000 / BPSHAPER_FLOW_WEIGHT);
	KUNIT_EXPECT_EQ(test, bpshaper_flow_next_place(f), vtime + 1000);
}

/* Who is behind the others, also with its next packet, does not wait for a
 * batch.
 */
static void bpshaper_order_early_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;

	KUNIT_EXPECT_FALSE(test, bpshaper_flows_have_early(t));
	f = bpshaper_test_push(test, 2, 1000);
	KUNIT_EXPECT_FALSE(test, bpshaper_flows_have_early(t));
	t->vtime += 999;
	KUNIT_EXPECT_FALSE(test, bpshaper_flow_is_early(f));
	t->vtime++;
	KUNIT_EXPECT_TRUE(test, bpshaper_flow_is_early(f));
	KUNIT_EXPECT_TRUE(test, bpshaper_flows_have_early(t));
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
	bpshaper_flow_wake(other, f);
	KUNIT_EXPECT_EQ(test, bpshaper_table_departs_ns(t->table), U64_MAX);
	bpshaper_test_purge(other);
}

static struct kunit_case bpshaper_order_cases[] = {
	KUNIT_CASE_PARAM(bpshaper_order_test, bpshaper_order_gen_params),
	KUNIT_CASE_PARAM(bpshaper_join_test, bpshaper_join_gen_params),
	KUNIT_CASE(bpshaper_order_bytes_test),
	KUNIT_CASE(bpshaper_order_strangers_test),
	KUNIT_CASE(bpshaper_order_weight_test),
	KUNIT_CASE(bpshaper_order_ahead_test),
	KUNIT_CASE(bpshaper_flow_held_test),
	KUNIT_CASE(bpshaper_order_outside_test),
	KUNIT_CASE(bpshaper_order_shared_test),
	KUNIT_CASE(bpshaper_order_places_test),
	KUNIT_CASE(bpshaper_order_early_test),
	KUNIT_CASE(bpshaper_flow_due_test),
	{}
};

BPSHAPER_SUITE(order, bpshaper_flow_test_init, bpshaper_flow_test_exit);
