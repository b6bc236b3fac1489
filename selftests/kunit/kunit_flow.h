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
};

static void bpshaper_order_desc(const struct bpshaper_order_row *row,
				char *desc)
{
	strscpy(desc, row->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(bpshaper_order, bpshaper_order_rows, bpshaper_order_desc);

/* Even numbers are sockets, which nobody looks into here, odd ones hashes of the pool. */
static struct bpshaper_key bpshaper_test_key(unsigned long id)
{
	return (struct bpshaper_key) {
		.sk	= id & 1 ? NULL : (struct sock *)id,
		.hash	= id & 1 ? id : 0,
	};
}

static unsigned long bpshaper_test_id(const struct bpshaper_flow *f)
{
	return f->key.sk ? (unsigned long)f->key.sk : f->key.hash;
}

static unsigned long bpshaper_test_named(char name)
{
	return (unsigned long)name << 1 | !!islower(name);
}

static int bpshaper_flow_test_init(struct kunit *test)
{
	struct bpshaper_flows *t;

	t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	KUNIT_ASSERT_EQ(test, bpshaper_flows_init(t), 0);
	t->quantum = 1000;
	test->priv = t;
	return 0;
}

static void bpshaper_flow_test_exit(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;

	if (!t)
		return;
	bpshaper_flows_free(t);
	kvfree(t->trees);
}

static struct bpshaper_flow *bpshaper_test_push(struct kunit *test,
						unsigned long id, u32 bytes)
{
	struct sk_buff *skb = alloc_skb(0, GFP_KERNEL);
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	qdisc_skb_cb(skb)->pkt_len = bytes;
	f = bpshaper_flow_get(t, bpshaper_test_key(id), 0);
	KUNIT_ASSERT_NOT_NULL(test, f);
	bpshaper_flow_push(t, f, skb);
	return f;
}

/* As dequeue does it. NULL if nobody was there. */
static struct bpshaper_flow *bpshaper_test_serve(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;
	struct sk_buff *skb;

	f = bpshaper_flows_next(t);
	if (!f)
		return NULL;
	skb = bpshaper_flow_pop(t, f);
	bpshaper_flow_charge(t, f, qdisc_pkt_len(skb));
	kfree_skb(skb);
	return f;
}

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

/* Lists, counters and backlog of a flow at each step of its life. */
static void bpshaper_flow_life_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f, *pool;

	f = bpshaper_flow_get(t, bpshaper_test_key(2), 0);
	KUNIT_ASSERT_NOT_NULL(test, f);
	KUNIT_ASSERT_NOT_NULL(test, f->socket);
	KUNIT_EXPECT_PTR_EQ(test, (void *)f->socket->sk, (void *)2UL);
	KUNIT_EXPECT_EQ(test, t->parked_len, 1);
	KUNIT_EXPECT_EQ(test, t->active, 0);

	KUNIT_EXPECT_PTR_EQ(test, f, bpshaper_test_push(test, 2, 300));
	KUNIT_EXPECT_PTR_EQ(test, f, bpshaper_test_push(test, 2, 400));
	KUNIT_EXPECT_EQ(test, f->backlog, 700);
	KUNIT_EXPECT_TRUE(test, f->is_new);
	KUNIT_EXPECT_EQ(test, t->parked_len, 0);
	KUNIT_EXPECT_EQ(test, t->active, 1);
	KUNIT_EXPECT_EQ(test, t->sockets, 1);

	pool = bpshaper_test_push(test, 7, 100);
	KUNIT_EXPECT_NULL(test, pool->socket);
	KUNIT_EXPECT_EQ(test, t->active, 2);
	KUNIT_EXPECT_EQ(test, t->sockets, 1);

	KUNIT_EXPECT_PTR_EQ(test, f, bpshaper_test_serve(test));
	KUNIT_EXPECT_EQ(test, f->backlog, 400);
	KUNIT_EXPECT_EQ(test, f->deficit, 700);
	KUNIT_EXPECT_PTR_EQ(test, f, bpshaper_test_serve(test));
	KUNIT_EXPECT_EQ(test, f->backlog, 0);
	KUNIT_EXPECT_NULL(test, f->head);
	KUNIT_EXPECT_EQ(test, t->parked_len, 1);
	KUNIT_EXPECT_EQ(test, t->active, 1);
	KUNIT_EXPECT_EQ(test, t->sockets, 0);
	KUNIT_EXPECT_PTR_EQ(test, f, bpshaper_flow_get(t, bpshaper_test_key(2), 0));

	KUNIT_EXPECT_PTR_EQ(test, pool, bpshaper_test_serve(test));
	bpshaper_flows_free(t);
	KUNIT_EXPECT_EQ(test, t->parked_len, 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&t->parked));
}

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
	KUNIT_EXPECT_EQ(test, t->parked_len, 0);
	while (bpshaper_test_serve(test))
		;
	KUNIT_EXPECT_EQ(test, t->active, 0);
}

/* Idle flows are kept up to a bound, past which the longest idle goes, unless it is
 * in debt: who leaves its socket does not leave its debt.
 */
static void bpshaper_flow_recycle_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *debtor;
	unsigned long id;

	debtor = bpshaper_test_push(test, 2, 100 * t->quantum);
	bpshaper_test_serve(test);
	bpshaper_test_push(test, 4, 1);
	bpshaper_test_serve(test);
	KUNIT_EXPECT_EQ(test, debtor->deficit, -99 * (s32)t->quantum);
	for (id = 6; t->parked_len < BPSHAPER_FLOW_PARKED_MAX; id += 2)
		KUNIT_ASSERT_NOT_NULL(test, bpshaper_flow_get(t, bpshaper_test_key(id), 0));
	KUNIT_EXPECT_EQ(test, t->parked_len, BPSHAPER_FLOW_PARKED_MAX);

	KUNIT_ASSERT_NOT_NULL(test, bpshaper_flow_get(t, bpshaper_test_key(id), 0));
	KUNIT_EXPECT_EQ(test, t->parked_len, BPSHAPER_FLOW_PARKED_MAX);
	KUNIT_EXPECT_PTR_EQ(test, debtor, bpshaper_flow_get(t, bpshaper_test_key(2), 0));
	KUNIT_EXPECT_EQ(test, t->parked_len, BPSHAPER_FLOW_PARKED_MAX);
	/* As many quanta of a fresh flow have ended a round. */
	KUNIT_EXPECT_EQ(test, debtor->deficit, -98 * (s32)t->quantum);
	/* It had been idle longest of the others. */
	KUNIT_EXPECT_NOT_NULL(test, bpshaper_flow_get(t, bpshaper_test_key(4), 0));
	KUNIT_EXPECT_EQ(test, t->parked_len, BPSHAPER_FLOW_PARKED_MAX);
	KUNIT_EXPECT_PTR_EQ(test, list_last_entry(&t->parked_fresh,
						  struct bpshaper_flow, list),
			    bpshaper_flow_get(t, bpshaper_test_key(4), 0));
}

/* Those that never came back go first, however long the others have been empty. */
static void bpshaper_flow_known_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *known;
	unsigned long id;

	known = bpshaper_test_push(test, 2, 1);
	bpshaper_test_serve(test);
	KUNIT_EXPECT_FALSE(test, bpshaper_flow_is_known(known));
	bpshaper_test_push(test, 2, 1);
	bpshaper_test_serve(test);
	KUNIT_EXPECT_TRUE(test, bpshaper_flow_is_known(known));
	/* Nobody frees the flow that is being made, though the others came back. */
	for (id = 4; id < 4 * BPSHAPER_FLOW_PARKED_MAX; id += 2)
		bpshaper_test_push(test, id, 1);
	while (bpshaper_test_serve(test))
		;
	/* All have been parked since. */
	for (; id < 8 * BPSHAPER_FLOW_PARKED_MAX; id += 2)
		KUNIT_ASSERT_NOT_NULL(test, bpshaper_flow_get(t, bpshaper_test_key(id), 0));
	KUNIT_EXPECT_EQ(test, t->parked_len, BPSHAPER_FLOW_PARKED_MAX);
	KUNIT_EXPECT_PTR_EQ(test, known, bpshaper_flow_get(t, bpshaper_test_key(2), 0));
}

/* Those that came back have a bound of their own, so that a flow that is made, and comes back,
 * is not forgotten before: neither is the one that is just made.
 */
static void bpshaper_flow_all_known_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;
	unsigned long id;
	int visit;

	for (visit = 0; visit < 2; visit++) {
		for (id = 2; id <= 4 * BPSHAPER_FLOW_PARKED_MAX; id += 2)
			bpshaper_test_push(test, id, 1);
		while (bpshaper_test_serve(test))
			;
	}
	KUNIT_EXPECT_EQ(test, t->parked_known, 2 * BPSHAPER_FLOW_PARKED_MAX);
	f = bpshaper_test_push(test, id, 1);
	KUNIT_EXPECT_PTR_EQ(test, f, bpshaper_flow_get(t, bpshaper_test_key(id), 0));
	bpshaper_test_serve(test);
	for (id += 2; id < 8 * BPSHAPER_FLOW_PARKED_MAX; id += 2)
		KUNIT_ASSERT_NOT_NULL(test, bpshaper_flow_get(t, bpshaper_test_key(id), 0));
	KUNIT_EXPECT_EQ(test, t->parked_known, BPSHAPER_FLOW_KNOWN_MAX);
	KUNIT_EXPECT_EQ(test, t->parked_len, BPSHAPER_FLOW_PARKED_MAX);
}

/* What counts in the rank: a full frame as little as a small packet, of a flow that is known
 * less than of one that is not, and more than a packet by its amount.
 */
static void bpshaper_flow_class_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;

	f = bpshaper_flow_get(t, bpshaper_test_key(2), 0);
	KUNIT_ASSERT_NOT_NULL(test, f);
	KUNIT_EXPECT_EQ(test, bpshaper_flow_class(t, f, 1, 1000, 2000),
			BPSHAPER_RANK_LITTLE_FRESH);
	bpshaper_test_push(test, 2, 1000);
	KUNIT_EXPECT_EQ(test, f->memory_class, BPSHAPER_RANK_LITTLE_FRESH);
	bpshaper_test_push(test, 2, 60);
	KUNIT_EXPECT_EQ(test, f->memory_class, bpshaper_rank_class(f->memory));
	bpshaper_test_serve(test);
	KUNIT_EXPECT_EQ(test, f->memory_class, BPSHAPER_RANK_LITTLE_FRESH);
	bpshaper_test_serve(test);
	KUNIT_EXPECT_EQ(test, f->memory_class, BPSHAPER_RANK_NOTHING);
	KUNIT_EXPECT_EQ(test, bpshaper_flow_class(t, f, 1, 1000, 2000),
			BPSHAPER_RANK_LITTLE);
	KUNIT_EXPECT_EQ(test, bpshaper_flow_class(t, f, 1, 1001, 2000),
			bpshaper_rank_class(2000));
	KUNIT_EXPECT_EQ(test, bpshaper_flow_class(t, f, 2, 2, 2),
			BPSHAPER_RANK_MORE);
}

/* Who owes stays as well, until it is paid, and only as long as there are not too many of
 * them, whatever it is that they owe.
 */
struct bpshaper_unpaid_row {
	const char	*name;
	s32		deficit;
	u64		paid_ns;
	u64		now;
	u32		others;
	bool		is_kept;
};

static const struct bpshaper_unpaid_row bpshaper_unpaid_rows[] = {
	{ "without a rate", 0, 0, 1000, BPSHAPER_FLOW_PARKED_MAX, false },
	{ "few are parked", 0, 0, 1000, BPSHAPER_FLOW_PARKED_MAX - 1, true },
	{ "paid in the future", 0, 1001, 1000, BPSHAPER_FLOW_PARKED_MAX, true },
	{ "paid now", 0, 1000, 1000, BPSHAPER_FLOW_PARKED_MAX, false },
	{ "paid in the future, as many as may be", 0, 1001, 1000,
	  BPSHAPER_FLOW_PARKED_MOST - 1, true },
	{ "paid in the future, too many", 0, 1001, 1000,
	  BPSHAPER_FLOW_PARKED_MOST, false },
	{ "in debt", -1, 0, 1000, BPSHAPER_FLOW_PARKED_MAX, true },
	{ "in debt, as many as may be", -1, 0, 1000,
	  BPSHAPER_FLOW_PARKED_MOST - 1, true },
	{ "in debt, too many", -1, 0, 1000, BPSHAPER_FLOW_PARKED_MOST, false },
};

static void bpshaper_unpaid_desc(const struct bpshaper_unpaid_row *row,
				 char *desc)
{
	strscpy(desc, row->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(bpshaper_unpaid, bpshaper_unpaid_rows, bpshaper_unpaid_desc);

static void bpshaper_unpaid_test(struct kunit *test)
{
	const struct bpshaper_unpaid_row *row = test->param_value;
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f, *other;
	u32 i;

	f = bpshaper_flow_get(t, bpshaper_test_key(2), row->now);
	KUNIT_ASSERT_NOT_NULL(test, f);
	f->paid_ns = row->paid_ns;
	f->deficit = row->deficit;
	/* Others that are kept, or there could not be as many; it is looked at first. */
	for (i = 0; i < row->others; i++) {
		list_move(&f->list, &t->parked_fresh);
		other = bpshaper_flow_get(t, bpshaper_test_key(4 + 2 * i), row->now);
		KUNIT_ASSERT_NOT_NULL(test, other);
		other->paid_ns = U64_MAX;
	}
	KUNIT_EXPECT_EQ(test, t->parked_len, row->is_kept ? row->others + 1 :
			row->others);
}

/* Credit is a quantum for each round that was missed, and never more than one. */
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

static void bpshaper_renew_desc(const struct bpshaper_renew_row *row,
				char *desc)
{
	strscpy(desc, row->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(bpshaper_renew, bpshaper_renew_rows, bpshaper_renew_desc);

static void bpshaper_renew_test(struct kunit *test)
{
	const struct bpshaper_renew_row *row = test->param_value;
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow f = {
		.deficit = row->deficit,
		.round = 5,
	};

	t->round = 5 + row->rounds;
	bpshaper_flow_renew(t, &f, t->quantum);
	KUNIT_EXPECT_EQ(test, f.deficit, row->then);
	KUNIT_EXPECT_EQ(test, f.round, t->round);
}

/* What is not due: all that waits, and what follows the first packet of who has waited. */
static void bpshaper_flow_later_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;

	f = bpshaper_test_push(test, 2, 100);
	bpshaper_test_push(test, 2, 200);
	bpshaper_test_push(test, 4, 1000);
	KUNIT_EXPECT_EQ(test, t->later, 0);
	bpshaper_flow_wait(t, f, 50);
	KUNIT_EXPECT_EQ(test, t->later, 300);
	bpshaper_test_push(test, 2, 400);
	KUNIT_EXPECT_EQ(test, t->later, 700);
	bpshaper_flows_wake(t, 50, 1);
	KUNIT_EXPECT_EQ(test, t->later, 600);
	kfree_skb(bpshaper_flow_pop(t, f));
	KUNIT_EXPECT_EQ(test, t->later, 400);
	bpshaper_flow_wait(t, f, 60);
	KUNIT_EXPECT_EQ(test, t->later, 600);
	/* Those that are to be dropped are taken while it waits. */
	kfree_skb(bpshaper_flow_pop(t, f));
	KUNIT_EXPECT_EQ(test, t->later, 400);
	kfree_skb(bpshaper_flow_pop(t, f));
	KUNIT_EXPECT_EQ(test, t->later, 0);
	KUNIT_EXPECT_EQ(test, t->waiting_len, 0);
	/* It has been empty: what comes is taken to be due. */
	bpshaper_test_push(test, 2, 100);
	bpshaper_test_push(test, 2, 200);
	KUNIT_EXPECT_EQ(test, t->later, 0);
	while (bpshaper_test_serve(test))
		;
}

/* The last packet is taken, and the others stay in order. */
static void bpshaper_flow_pop_last_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;
	struct sk_buff *skb;
	u32 bytes;

	for (bytes = 1; bytes <= 3; bytes++)
		f = bpshaper_test_push(test, 2, bytes);
	skb = bpshaper_flow_pop_last(t, f);
	KUNIT_EXPECT_EQ(test, qdisc_pkt_len(skb), 3);
	kfree_skb(skb);
	bpshaper_test_push(test, 2, 4);
	skb = bpshaper_flow_pop_last(t, f);
	KUNIT_EXPECT_EQ(test, qdisc_pkt_len(skb), 4);
	kfree_skb(skb);
	skb = bpshaper_flow_pop_last(t, f);
	KUNIT_EXPECT_EQ(test, qdisc_pkt_len(skb), 2);
	kfree_skb(skb);
	KUNIT_EXPECT_EQ(test, f->backlog, 1);
	KUNIT_EXPECT_EQ(test, f->qlen, 1);
	KUNIT_EXPECT_PTR_EQ(test, f->head, f->tail);
	bpshaper_test_serve(test);
	KUNIT_EXPECT_EQ(test, t->memory, 0);
	KUNIT_EXPECT_EQ(test, t->by_memory.classes, 0);
}

/* The order of packets by time. A row is a sequence of events:
 *
 *	a20	packet a, which has the time 20; a0 has none
 *	?	a packet leaves
 *	.	a tick of the clock, which starts at 1
 */
struct bpshaper_time_row {
	const char	*name;
	const char	*events;
	const char	*left;
};

static const struct bpshaper_time_row bpshaper_time_rows[] = {
	{ "those without a time, by arrival", "a0 b0 . c0 ? ? ?", "abc" },
	{ "in order", "a10 b20 c30 ? ? ?", "abc" },
	{ "the same time, by arrival", "a20 b20 c20 ? ? ?", "abc" },
	{ "backwards", "a30 b20 c10 ? ? ?", "cba" },
	{ "to the middle", "a10 b30 c20 ? ? ?", "acb" },
	{ "to the middle, after the same", "a10 b20 c30 d20 ? ? ? ?", "abdc" },
	{ "to the middle, several and the same", "a10 b40 c20 d30 e20 f10 ? ? ? ? ? ?",
	  "afcedb" },
	{ "before the first, while others are to be sorted in", "a20 b40 c30 d10 ? ? ? ?",
	  "dacb" },
	{ "without a time, before all that wait", "a20 b30 c0 . d0 ? ? ? ?", "cdab" },
	{ "a time that has passed is none", "a20 b0 . . . c2 ? ? ?", "bca" },
	{ "while packets leave", "a10 b40 c20 ? d30 ? e15 ? ? ?", "acedb" },
	{ "the last one is what the others are compared to", "a10 b50 c40 ? ? d45 ? ?",
	  "acdb" },
};

static void bpshaper_time_desc(const struct bpshaper_time_row *row, char *desc)
{
	strscpy(desc, row->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(bpshaper_time, bpshaper_time_rows, bpshaper_time_desc);

static void bpshaper_time_push(struct kunit *test, char name, u64 due_ns, u64 now)
{
	struct sk_buff *skb = alloc_skb(0, GFP_KERNEL);
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	qdisc_skb_cb(skb)->pkt_len = name;
	bpshaper_skb_cb(skb)->enqueued_ns = now;
	bpshaper_skb_cb(skb)->due_ns = max(due_ns, now);
	f = bpshaper_flow_get(t, bpshaper_test_key(2), now);
	KUNIT_ASSERT_NOT_NULL(test, f);
	bpshaper_flow_push(t, f, skb);
	KUNIT_EXPECT_EQ(test, f->socket->data, f->backlog);
	KUNIT_EXPECT_EQ(test, f->socket->exempt, f->timed);
}

static void bpshaper_time_test(struct kunit *test)
{
	const struct bpshaper_time_row *row = test->param_value;
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;
	char left[16] = "", name;
	struct sk_buff *skb;
	const char *p;
	u64 due_ns, now = 1;
	int n = 0;

	f = bpshaper_flow_get(t, bpshaper_test_key(2), now);
	KUNIT_ASSERT_NOT_NULL(test, f);
	for (p = row->events; *p; p++) {
		if (*p == '?') {
			KUNIT_ASSERT_NOT_NULL(test, f->head);
			skb = bpshaper_flow_pop(t, f);
			KUNIT_EXPECT_PTR_EQ(test, skb->dev, t->dev);
			left[n++] = qdisc_pkt_len(skb);
			kfree_skb(skb);
		} else if (*p == '.') {
			now++;
		} else if (isalpha(*p)) {
			name = *p;
			for (due_ns = 0; isdigit(p[1]); p++)
				due_ns = 10 * due_ns + p[1] - '0';
			bpshaper_time_push(test, name, due_ns, now);
		}
	}
	KUNIT_EXPECT_STREQ(test, left, row->left);
	KUNIT_EXPECT_NULL(test, f->head);
	KUNIT_EXPECT_EQ(test, f->timed, 0);
	KUNIT_EXPECT_EQ(test, f->socket->data, 0);
	KUNIT_EXPECT_EQ(test, f->socket->exempt, 0);
	KUNIT_EXPECT_EQ(test, t->later, 0);
}

/* A flow that waits goes on for a packet with an earlier time, and not for one without. */
static void bpshaper_flow_early_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;

	bpshaper_time_push(test, 'a', 50, 1);
	f = bpshaper_flow_get(t, bpshaper_test_key(2), 1);
	bpshaper_flow_wait(t, f, 50);
	KUNIT_EXPECT_EQ(test, f->socket->exempt, 'a');
	bpshaper_time_push(test, 'b', 40, 1);
	KUNIT_EXPECT_TRUE(test, f->is_waiting);
	KUNIT_EXPECT_EQ(test, f->departs_ns, 50);
	bpshaper_time_push(test, 'c', 0, 2);
	KUNIT_EXPECT_FALSE(test, f->is_waiting);
	KUNIT_EXPECT_EQ(test, qdisc_pkt_len(f->head), 'c');
	KUNIT_EXPECT_EQ(test, f->socket->data, 'a' + 'b' + 'c');
	KUNIT_EXPECT_EQ(test, f->socket->exempt, 'a' + 'b');
	KUNIT_EXPECT_EQ(test, f->timed, 'a' + 'b');
	/* Behind its times, it has to answer for them. */
	f->is_behind = true;
	bpshaper_flow_count_later(t, f);
	KUNIT_EXPECT_EQ(test, f->socket->exempt, 0);
	KUNIT_EXPECT_EQ(test, t->exempt, 0);
	while (bpshaper_test_serve(test))
		;
	KUNIT_EXPECT_EQ(test, f->socket->data, 0);
}

/* All packets can be freed, wherever they are. */
static void bpshaper_flow_flatten_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;
	struct sk_buff *skb;
	int pkts = 0;

	bpshaper_time_push(test, 'a', 10, 1);
	bpshaper_time_push(test, 'b', 40, 1);
	bpshaper_time_push(test, 'c', 20, 1);
	bpshaper_time_push(test, 'd', 30, 1);
	f = bpshaper_flow_get(t, bpshaper_test_key(2), 1);
	bpshaper_flow_flatten(t, f);
	KUNIT_EXPECT_TRUE(test, RB_EMPTY_ROOT(&f->early));
	while ((skb = f->head)) {
		f->head = skb->next;
		pkts++;
		KUNIT_EXPECT_TRUE(test, f->head || skb == f->tail);
		kfree_skb(skb);
	}
	KUNIT_EXPECT_EQ(test, pkts, 4);
}

static struct bpshaper_flow *bpshaper_peer_push(struct kunit *test, unsigned long id,
						u32 hash, u32 bytes)
{
	struct bpshaper_key key = { .sk = (struct sock *)id, .hash = hash };
	struct sk_buff *skb = alloc_skb(0, GFP_KERNEL);
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	qdisc_skb_cb(skb)->pkt_len = bytes;
	f = bpshaper_flow_get(t, key, 0);
	KUNIT_ASSERT_NOT_NULL(test, f);
	bpshaper_flow_push(t, f, skb);
	return f;
}

/* The flows of a socket have one socket, whatever comes and goes around them. */
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

/* A peer's flow that ran empty while its socket was held comes back as bulk, for two rounds. */
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

/* A flow takes over another key, and whoever had it and is parked goes. */
static void bpshaper_flow_rekey_test(struct kunit *test)
{
	struct bpshaper_key key = { .sk = (struct sock *)2UL, .hash = 9 };
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;
	u32 parked;

	bpshaper_peer_push(test, 2, 9, 100);
	bpshaper_test_serve(test);
	f = bpshaper_peer_push(test, 2, 0, 100);
	bpshaper_peer_push(test, 2, 4, 100);
	parked = t->parked_len;
	KUNIT_EXPECT_EQ(test, f->socket->refs, 3);
	bpshaper_flow_rekey(t, f, 9);
	KUNIT_EXPECT_EQ(test, t->parked_len, parked - 1);
	KUNIT_EXPECT_EQ(test, f->socket->refs, 2);
	KUNIT_EXPECT_PTR_EQ(test, f, bpshaper_flow_get(t, key, 0));
	key.hash = 0;
	KUNIT_EXPECT_PTR_NE(test, f, bpshaper_flow_get(t, key, 0));
	while (bpshaper_test_serve(test))
		;
}

/* Another socket at the same address: its flows and what it was told are new. */
static void bpshaper_flow_owner_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f, *other;

	f = bpshaper_peer_push(test, 2, 4, 100);
	other = bpshaper_peer_push(test, 2, 5, 100);
	while (bpshaper_test_serve(test))
		;
	bpshaper_flow_set_owner(t, f, 77);
	KUNIT_EXPECT_EQ(test, f->socket->cookie, 77);
	KUNIT_EXPECT_EQ(test, other->cookie, 0);
	f->socket->throttles = 3;
	other->was_held = true;
	bpshaper_flow_set_owner(t, other, 77);
	KUNIT_EXPECT_EQ(test, f->socket->throttles, 3);
	KUNIT_EXPECT_FALSE(test, other->was_held);
	KUNIT_EXPECT_EQ(test, f->socket->peers, 2);
	bpshaper_flow_set_owner(t, other, 78);
	KUNIT_EXPECT_EQ(test, f->socket->throttles, 0);
	KUNIT_EXPECT_EQ(test, f->socket->peers, 1);
	bpshaper_flow_forget(t, f);
	KUNIT_EXPECT_EQ(test, other->socket->peers, 1);
	bpshaper_flow_rekey(t, other, 6);
	KUNIT_EXPECT_EQ(test, other->socket->peers, 1);
}

static struct kunit_case bpshaper_flow_cases[] = {
	KUNIT_CASE_PARAM(bpshaper_order_test, bpshaper_order_gen_params),
	KUNIT_CASE_PARAM(bpshaper_renew_test, bpshaper_renew_gen_params),
	KUNIT_CASE(bpshaper_flow_life_test),
	KUNIT_CASE(bpshaper_flow_table_test),
	KUNIT_CASE(bpshaper_flow_recycle_test),
	KUNIT_CASE_PARAM(bpshaper_unpaid_test, bpshaper_unpaid_gen_params),
	KUNIT_CASE(bpshaper_flow_known_test),
	KUNIT_CASE(bpshaper_flow_all_known_test),
	KUNIT_CASE(bpshaper_flow_class_test),
	KUNIT_CASE(bpshaper_flow_later_test),
	KUNIT_CASE(bpshaper_flow_pop_last_test),
	KUNIT_CASE_PARAM(bpshaper_time_test, bpshaper_time_gen_params),
	KUNIT_CASE(bpshaper_flow_early_test),
	KUNIT_CASE(bpshaper_flow_flatten_test),
	KUNIT_CASE(bpshaper_flow_peers_test),
	KUNIT_CASE(bpshaper_flow_held_test),
	KUNIT_CASE(bpshaper_flow_rekey_test),
	KUNIT_CASE(bpshaper_flow_owner_test),
	{}
};

static struct kunit_suite bpshaper_flow_suite = {
	.name		= "bpshaper_flow",
	.init		= bpshaper_flow_test_init,
	.exit		= bpshaper_flow_test_exit,
	.test_cases	= bpshaper_flow_cases,
};
