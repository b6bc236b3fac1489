/* SPDX-License-Identifier: GPL-2.0-only */
/* Classification: packets of a socket and its peers, with IPv4 headers. */

/* An IPv4 header with no more in it than the destination @peer. The hash is one
 * of the socket, as a socket that has been connected gives it.
 */
static void bpshaper_bench_address(struct sk_buff *skb, u32 peer)
{
	struct iphdr *iph = skb_put_zero(skb, sizeof(*iph));

	iph->version = 4;
	iph->ihl = 5;
	iph->protocol = IPPROTO_UDP;
	iph->daddr = htonl(peer);
	iph->tot_len = htons(sizeof(*iph));
	skb->protocol = htons(ETH_P_IP);
	skb_reset_network_header(skb);
	__skb_set_sw_hash(skb, 7, true);
}

/* One packet for @peer. */
static void bpshaper_bench_send(struct kunit *test, u32 peer)
{
	struct sk_buff *skb = alloc_skb(64, GFP_KERNEL), *to_free = NULL;
	struct bpshaper_bench *b = test->priv;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb->dev = b->dev;
	skb_set_owner_w(skb, b->sk);
	b->own += skb->truesize;
	bpshaper_bench_address(skb, peer);
	qdisc_skb_cb(skb)->pkt_len = BPSHAPER_TEST_BYTES;
	bpshaper_bench_lock(b);
	b->q->undrained = 0;
	KUNIT_EXPECT_EQ(test, bpshaper_enqueue(skb, b->sch, &to_free),
			NET_XMIT_SUCCESS);
	hrtimer_cancel(&b->q->backstop);
	bpshaper_bench_unlock(b);
}

/* The peer of the packet that leaves, 0 if none does. */
static u32 bpshaper_bench_serve(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct sk_buff *skb;
	u32 peer;

	skb = bpshaper_bench_take(b, true);
	if (!skb)
		return 0;
	peer = ntohl(ip_hdr(skb)->daddr);
	b->own -= skb->truesize;
	kfree_skb(skb);
	return peer;
}

/* A socket with three peers: each has a flow, and the share is that of three.
 */
static void bpshaper_peers_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_backpressure *bp = &b->q->own.bp;
	struct bpshaper_socket *s;
	u32 i;

	b->sk->sk_state = TCP_CLOSE;
	for (i = 0; i < 16; i++)
		bpshaper_bench_send(test, 1 + i % 3);
	s = bpshaper_bench_sender(b);
	KUNIT_ASSERT_NOT_NULL(test, s);
	KUNIT_EXPECT_EQ(test, s->flows, 3);
	/* One is in the direct packet. */
	KUNIT_EXPECT_EQ(test, s->data, 15 * BPSHAPER_TEST_BYTES);
	KUNIT_EXPECT_EQ(test, bpshaper_socket_share(bp, s),
			BPSHAPER_TEST_LIMIT + 2 * bp->share_min);
	bpshaper_bench_send(test, 1);
	KUNIT_EXPECT_EQ(test, s->state, BPSHAPER_UNTHROTTLED);
	bpshaper_bench_send(test, 1);
	KUNIT_EXPECT_EQ(test, s->state, BPSHAPER_OVERLIMIT);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_dequeue(test, true), true);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_dequeue(test, false), false);
	KUNIT_EXPECT_EQ(test, s->state, BPSHAPER_THROTTLED);
	/* In turn. */
	for (i = 0; i < 12; i++)
		KUNIT_EXPECT_EQ(test, bpshaper_bench_serve(test), 1 + (i + 1) % 3);
	KUNIT_EXPECT_EQ(test, s->state, BPSHAPER_THROTTLED);
	/* A quarter of 16056 bytes. */
	bpshaper_bench_serve(test);
	KUNIT_EXPECT_EQ(test, s->state, BPSHAPER_UNTHROTTLED);
	while (bpshaper_bench_serve(test))
		;
	KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(b, 0), 0);
}

/* connect() and its end in the midst of a backlog. A row is a sequence of
 * events:
 *
 *	1 to 9	a packet for that peer; the first one is the direct packet
 *	c	the socket is connected
 *	u	the socket is not connected any more
 *	?	a packet leaves
 *
 * Who leaves when shows which flow a packet was in.
 */
struct bpshaper_connect_row {
	const char	*name;
	const char	*events;
	const char	*left;
	u32		flows;
};

static const struct bpshaper_connect_row bpshaper_connect_rows[] = {
	{ "connected, all in one flow", "c1 1 2 1", "1121", 1 },
	{ "not connected, one each", "u1 1 2 1", "1121", 2 },
	{ "connected in the midst: a flow each still", "u1 1 2 c1 1", "11211", 2 },
	{ "connected when it is empty: one flow", "u1 1 2 ? ? ? c1 1 2", "112112", 1 },
	{ "disconnected in the midst: one flow still", "c1 1 1 u2 1", "11121", 1 },
	{ "disconnected, several peers: one flow", "c1 1 2 1 u3 2", "112132", 1 },
	{ "disconnected, and then empty: one each",
	  "c1 1 2 u3 ? ? ? ? 4 4 5", "1123445", 2 },
	{ "and back", "c1 1 1 u2 1 c1 1", "1112111", 1 },
	{ "connected, back, empty, connected: one flow",
	  "u1 1 2 c1 u2 ? ? ? ? ? c1 1 2", "11212112", 1 },
};

BPSHAPER_ROWS(connect);

static void bpshaper_connect_test(struct kunit *test)
{
	const struct bpshaper_connect_row *row = test->param_value;
	struct bpshaper_bench *b = test->priv;
	char left[16] = "";
	const char *p;
	u32 peer;
	int n = 0;

	for (p = row->events; *p; p++) {
		if (*p == 'c')
			b->sk->sk_state = TCP_ESTABLISHED;
		else if (*p == 'u')
			b->sk->sk_state = TCP_CLOSE;
		else if (*p == '?')
			left[n++] = '0' + bpshaper_bench_serve(test);
		else if (isdigit(*p))
			bpshaper_bench_send(test, *p - '0');
	}
	KUNIT_ASSERT_NOT_NULL(test, bpshaper_bench_sender(b));
	KUNIT_EXPECT_EQ(test, bpshaper_bench_sender(b)->flows, row->flows);
	while ((peer = bpshaper_bench_serve(test)))
		left[n++] = '0' + peer;
	KUNIT_EXPECT_STREQ(test, left, row->left);
	KUNIT_EXPECT_EQ(test, b->q->own.flows.turns.inside, 0);
	b->sk->sk_state = TCP_CLOSE;
	KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(b, 0), 0);
}

static struct kunit_case bpshaper_classify_cases[] = {
	KUNIT_CASE(bpshaper_peers_test),
	KUNIT_CASE_PARAM(bpshaper_connect_test,
			 bpshaper_connect_gen_params),
	{}
};

BPSHAPER_SUITE(classify, bpshaper_bench_init, bpshaper_bench_exit);
