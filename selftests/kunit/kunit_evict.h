/* SPDX-License-Identifier: GPL-2.0-only */
/* Eviction: who loses a packet in a full pool, past memory_limit, and among the
 * pure ACKs of a socket.
 */

/* A packet of the pool, or of the socket for a peer if @name is a digit. Return
 * whether it was taken.
 */
static bool bpshaper_evict_enqueue(struct kunit *test, char name, u32 bytes,
				   u32 number)
{
	struct sk_buff *skb = alloc_skb(64, GFP_KERNEL), *to_free = NULL;
	struct bpshaper_bench *b = test->priv;
	int ret;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb->dev = b->dev;
	skb->mark = name;
	skb->priority = number;
	qdisc_skb_cb(skb)->pkt_len = bytes;
	if (isdigit(name)) {
		skb_set_owner_w(skb, b->sk);
		bpshaper_bench_address(skb, name);
	}
	__skb_set_sw_hash(skb, tolower(name), true);
	bpshaper_bench_lock(b);
	b->q->undrained = 0;
	ret = bpshaper_enqueue(skb, b->sch, &to_free);
	hrtimer_cancel(&b->q->backstop);
	bpshaper_bench_unlock(b);
	kfree_skb_list(to_free);
	return ret == NET_XMIT_SUCCESS;
}

/* The name of the packet that leaves, 0 if none does. */
static char bpshaper_evict_serve(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct sk_buff *skb;
	char name;

	skb = bpshaper_bench_take(b, true);
	if (!skb)
		return 0;
	name = skb->mark;
	kfree_skb(skb);
	return name;
}

/* A row is a sequence of events:
 *
 *	a to z	a packet of that flow of the pool
 *	A to Z	the same, three times as long
 *	1 to 9	a packet of the socket for that peer
 *	?	a packet leaves
 *	<	the limit is two packets from now on; it was ten
 *	~	memory is scarce
 *	!	the next packet exceeds memory_limit by a byte
 *
 * and then what is left, by name, and how many packets were dropped. A packet
 * that comes to an empty qdisc becomes the direct one, which is in no flow; it
 * is a '.' here.
 */
struct bpshaper_evict_row {
	const char	*name;
	const char	*events;
	const char	*left;
	u32		pool_drops;
	u32		memory_drops;
};

static const struct bpshaper_evict_row bpshaper_evict_rows[] = {
	{ "pool: up to the limit all stay", ".aaaaaaaaaa", ".aaaaaaaaaa", 0, 0 },
	{ "pool: the longest loses the packet that comes", ".aaaaaaaaaaa",
	  ".aaaaaaaaaa", 1, 0 },
	{ "pool: the longest loses a packet for another", ".aaaaaaaaaab",
	  ".aaaaaaaaab", 1, 0 },
	{ "pool: the longer of two", ".bbaaaaaaaac", ".aaaaaaabbc", 1, 0 },
	{ "pool: two as long, the one that has been so longest",
	  ".bbbbbaaaaac", ".aaaaabbbbc", 1, 0 },
	{ "pool: as long as the longest, the packet that comes",
	  ".bbbbbaaaaaa", ".aaaaabbbbb", 1, 0 },
	{ "pool: a packet of each, the one that comes", ".abcdefghijk",
	  ".abcdefghij", 1, 0 },
	{ "pool: a packet of each, and a flow comes back", ".k??.abcdefghijk",
	  ".bcdefghijk", 1, 0 },
	{ "pool: as much as the packet that comes", ".aaaaaaaaaaB",
	  ".Baaaaaaa", 3, 0 },
	{ "pool: a socket does not count", ".1111111111aaaaaaaaaa",
	  ".1111111111aaaaaaaaaa", 0, 0 },
	{ "pool: a socket loses nothing to it", ".11111111111aaaaaaaaaaa",
	  ".11111111111aaaaaaaaaa", 1, 0 },
	{ "pool: a socket above the limit loses nothing",
	  ".aaaaaaaaaa11111111111", ".11111111111aaaaaaaaaa", 0, 0 },
	{ "pool: a lower limit takes effect step by step", ".aaaaaaaaaa<bc",
	  ".aaaaaaaabc", 2, 0 },
	{ "pool: the last packet of the qdisc stays", ".aa?<B", "a", 2, 0 },
	{ "memory: the pool has most, and another user pays for himself",
	  "~.aaaaaaaa1!1", ".1aaaaaaaa", 0, 1 },
	{ "memory: a socket has most, and the pool pays for itself",
	  "~.11111111a!b", ".11111111a", 1, 0 },
	{ "memory: a flow of the same user has most, and loses a packet",
	  "~.111111112!2", ".111111122", 0, 1 },
	{ "memory: the flow with most loses the packet that comes",
	  "~.11111111a!1", ".11111111a", 0, 1 },
	{ "memory: a packet of each, the one that comes", "~.1234!5", ".1234",
	  0, 1 },
};

BPSHAPER_ROWS(evict);

static void bpshaper_evict_event(struct kunit *test, char event)
{
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_sched *q = b->q;
	struct sk_buff *skb;

	switch (event) {
	case '?':
		bpshaper_evict_serve(test);
		break;
	case '<':
		q->limit = 2 * BPSHAPER_TEST_BYTES;
		break;
	case '~':
		q->table.memory.scarce_above = 0;
		break;
	case '!':
		skb = alloc_skb(64, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, skb);
		q->table.memory.limit = q->table.memory.used +
					bpshaper_skb_memory(skb) +
					BPSHAPER_KEPT_MEMORY - 1;
		kfree_skb(skb);
		break;
	default:
		bpshaper_evict_enqueue(test, event, (isupper(event) ? 3 : 1) *
				       BPSHAPER_TEST_BYTES, 0);
	}
}

static void bpshaper_evict_test(struct kunit *test)
{
	const struct bpshaper_evict_row *row = test->param_value;
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_sched *q = b->q;
	char left[32] = "", name;
	const char *p;
	int i, n = 0;

	b->sk->sk_state = TCP_CLOSE;
	for (p = row->events; *p; p++)
		bpshaper_evict_event(test, *p);
	bpshaper_bench_lock(b);
	bpshaper_assert_all(b->sch);
	bpshaper_bench_unlock(b);
	KUNIT_EXPECT_EQ(test, q->own.flows.stat.drops[BPSHAPER_DROP_POOL], row->pool_drops);
	KUNIT_EXPECT_EQ(test, q->own.flows.stat.drops[BPSHAPER_DROP_MEMORY], row->memory_drops);
	KUNIT_EXPECT_EQ(test, b->sch->qstats.drops, row->pool_drops + row->memory_drops);

	while (n < sizeof(left) - 1 && (name = bpshaper_evict_serve(test))) {
		for (i = n++; i && left[i - 1] > name; i--)
			left[i] = left[i - 1];
		left[i] = name;
	}
	KUNIT_EXPECT_STREQ(test, left, row->left);
	KUNIT_EXPECT_EQ(test, q->own.flows.pool_backlog, 0);
	KUNIT_EXPECT_EQ(test, q->own.flows.memory.pool.used, 0);
	KUNIT_EXPECT_EQ(test, b->sch->qstats.backlog, 0);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(b, 0), 0);
}

/* A full pool has 300 packets of one flow, half of them of @first bytes and
 * then half of @second. A packet of @bytes comes: 128 are evicted for it at
 * most, and none if these would be too few.
 */
struct bpshaper_vain_row {
	const char	*name;
	u32		first;
	u32		second;
	u32		bytes;
	u32		evicted;
	bool		stays;
};

static const struct bpshaper_vain_row bpshaper_vain_rows[] = {
	{ "as much as 128 packets", 100, 100, 12800, 128, true },
	{ "a byte more: none is evicted", 100, 100, 12801, 0, false },
	{ "the first 128 are smaller than others", 100, 200, 14000, 128, false },
	{ "the first 100 are larger", 200, 100, 19200, 96, true },
};

BPSHAPER_ROWS(vain);

static void bpshaper_vain_test(struct kunit *test)
{
	const struct bpshaper_vain_row *row = test->param_value;
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_sched *q = b->q;
	struct bpshaper_flow *f;
	u32 i;

	q->limit = U32_MAX;
	bpshaper_evict_enqueue(test, '.', BPSHAPER_TEST_BYTES, 0);
	for (i = 0; i < 300; i++)
		bpshaper_evict_enqueue(test, 'a', i < 150 ? row->first : row->second, i);
	KUNIT_EXPECT_EQ(test, q->own.flows.pool_backlog, 150 * (row->first + row->second));
	q->limit = q->own.flows.pool_backlog;
	KUNIT_EXPECT_EQ(test, bpshaper_evict_enqueue(test, 'b', row->bytes, 0), row->stays);
	KUNIT_EXPECT_EQ(test, q->own.flows.stat.drops[BPSHAPER_DROP_POOL],
			row->evicted + !row->stays);
	/* The first was the direct packet. */
	KUNIT_EXPECT_EQ(test, q->stat_unheld[BPSHAPER_NO_OWNER], 301);
	/* The oldest. */
	f = list_entry(bpshaper_rank_first(&q->own.flows.memory.pool.rank),
		       struct bpshaper_flow, rank_node);
	KUNIT_EXPECT_EQ(test, f->head->priority, row->evicted);
	bpshaper_bench_reset(b);
}

/* The pure ACKs of a socket. A row is what joins its flow:
 *
 *	k	an ACK
 *	d	data
 *	t	an ACK with a time in an hour
 *
 * and then how many ACKs are queued.
 */
struct bpshaper_acks_row {
	const char	*name;
	const char	*packets;
	u32		acks;
	u32		drops;
};

static const struct bpshaper_acks_row bpshaper_acks_rows[] = {
	{ "16 are queued", "kkkkkkkkkkkkkkkk", 16, 0 },
	{ "the 17th replaces the last", "kkkkkkkkkkkkkkkkk", 16, 1 },
	{ "so does the 18th", "kkkkkkkkkkkkkkkkkk", 16, 2 },
	{ "the 17th is queued behind data", "kkkkkkkkkkkkkkkkdk", 17, 0 },
	{ "the 18th replaces the 17th", "kkkkkkkkkkkkkkkkdkk", 17, 1 },
	{ "data is not replaced", "kkkkkkkkkkkkkkkkddd", 16, 0 },
	{ "behind data there may be 16, too", "dkkkkkkkkkkkkkkkkk", 16, 1 },
	{ "out of order of time there is no bound", "ktkkkkkkkkkkkkkkkkkk", 20, 0 },
};

BPSHAPER_ROWS(acks);

static void bpshaper_acks_enqueue(struct kunit *test, char kind, u32 number)
{
	struct sk_buff *skb = alloc_skb(64, GFP_KERNEL), *to_free = NULL;
	struct bpshaper_bench *b = test->priv;
	bpshaper_destructor_t destructor = NULL;
	u64 now = BPSHAPER_TEST_START;
	struct bpshaper_skb_cb *cb;
	struct bpshaper_flow *f;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb->dev = b->dev;
	skb->priority = number;
	if (kind == 'd')
		destructor = sock_wfree;
	else
		skb->truesize = 2;	/* as TCP does */
	skb_set_owner_w(skb, b->sk);
	qdisc_skb_cb(skb)->pkt_len = 66;
	cb = bpshaper_skb_cb(skb);
	cb->enqueued_ns = now;
	cb->due_ns = kind == 't' ? now + BPSHAPER_TEST_HOUR_NS : now;
	bpshaper_bench_lock(b);
	b->q->undrained = 0;
	f = bpshaper_classify(&b->q->own, skb, destructor, now);
	KUNIT_EXPECT_EQ(test, bpshaper_flow_enqueue(b->sch, &b->q->own, f, skb, destructor, now,
						    &to_free), NET_XMIT_SUCCESS);
	bpshaper_bench_unlock(b);
	kfree_skb_list(to_free);
}

static void bpshaper_acks_test(struct kunit *test)
{
	const struct bpshaper_acks_row *row = test->param_value;
	u32 n, packets = strlen(row->packets);
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_flow *f;

	b->sk->sk_state = TCP_ESTABLISHED;
	for (n = 0; n < packets; n++)
		bpshaper_acks_enqueue(test, row->packets[n], n);
	f = bpshaper_bench_flow(b, b->sk);
	KUNIT_ASSERT_NOT_NULL(test, f);
	KUNIT_EXPECT_EQ(test, f->socket->acks, row->acks);
	KUNIT_EXPECT_EQ(test, f->qlen, packets - row->drops);
	KUNIT_EXPECT_EQ(test, b->sch->q.qlen, f->qlen);
	KUNIT_EXPECT_EQ(test, b->q->own.flows.stat.drops[BPSHAPER_DROP_ACK], row->drops);
	/* The newest stays. */
	if (RB_EMPTY_ROOT(&f->early))
		KUNIT_EXPECT_EQ(test, f->tail->priority, packets - 1);
	b->sk->sk_state = TCP_CLOSE;
	bpshaper_bench_reset(b);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(b, 0), 0);
}

static struct kunit_case bpshaper_evict_cases[] = {
	KUNIT_CASE_PARAM(bpshaper_evict_test, bpshaper_evict_gen_params),
	KUNIT_CASE_PARAM(bpshaper_vain_test, bpshaper_vain_gen_params),
	KUNIT_CASE_PARAM(bpshaper_acks_test, bpshaper_acks_gen_params),
	{}
};

BPSHAPER_SUITE(evict, bpshaper_bench_init, bpshaper_bench_exit);
