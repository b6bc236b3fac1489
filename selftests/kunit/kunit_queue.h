/* SPDX-License-Identifier: GPL-2.0-only */
/* The queue of a flow: the order of its packets. */

/* What is not due: all that waits, and what follows the first packet of who has
 * waited.
 */
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
	KUNIT_EXPECT_PTR_EQ(test, bpshaper_table_wake(t->table, 50), f);
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
	KUNIT_EXPECT_EQ(test, t->table->memory.used, 0);
	KUNIT_EXPECT_EQ(test, t->memory.pool.rank.used, 0);
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

BPSHAPER_ROWS(time);

static void bpshaper_time_push(struct kunit *test, char name, u64 due_ns, u64 now)
{
	struct sk_buff *skb = alloc_skb(0, GFP_KERNEL);
	struct bpshaper_flows *t = test->priv;
	struct bpshaper_flow *f;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb->dev = t->table->dev;
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

	t->table->dev = test->priv;	/* nobody looks into it */
	f = bpshaper_flow_get(t, bpshaper_test_key(2), now);
	KUNIT_ASSERT_NOT_NULL(test, f);
	for (p = row->events; *p; p++) {
		if (*p == '?') {
			KUNIT_ASSERT_NOT_NULL(test, f->head);
			skb = bpshaper_flow_pop(t, f);
			KUNIT_EXPECT_PTR_EQ(test, skb->dev, t->table->dev);
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

/* A flow that waits goes on for a packet with an earlier time, and not for one
 * without.
 */
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

/* All packets can be freed, wherever they are, and then their flow. */
static void bpshaper_flows_purge_test(struct kunit *test)
{
	struct bpshaper_flows *t = test->priv;

	bpshaper_time_push(test, 'a', 10, 1);
	bpshaper_time_push(test, 'b', 40, 1);
	bpshaper_time_push(test, 'c', 20, 1);
	bpshaper_time_push(test, 'd', 30, 1);
	rtnl_lock();
	KUNIT_EXPECT_FALSE(test, bpshaper_flows_purge(t, 3));
	KUNIT_EXPECT_EQ(test, t->qlen, 1);
	KUNIT_EXPECT_FALSE(test, bpshaper_flows_purge(t, 1));
	KUNIT_EXPECT_EQ(test, t->qlen, 0);
	KUNIT_EXPECT_EQ(test, t->table->parked_len, 1);
	KUNIT_EXPECT_TRUE(test, bpshaper_flows_purge(t, 1));
	rtnl_unlock();
	KUNIT_EXPECT_EQ(test, t->table->parked_len, 0);
	KUNIT_EXPECT_EQ(test, t->table->memory.used, 0);
}

static struct kunit_case bpshaper_queue_cases[] = {
	KUNIT_CASE(bpshaper_flow_later_test),
	KUNIT_CASE(bpshaper_flow_pop_last_test),
	KUNIT_CASE_PARAM(bpshaper_time_test, bpshaper_time_gen_params),
	KUNIT_CASE(bpshaper_flow_early_test),
	KUNIT_CASE(bpshaper_flows_purge_test),
	{}
};

BPSHAPER_SUITE(queue, bpshaper_flow_test_init, bpshaper_flow_test_exit);
