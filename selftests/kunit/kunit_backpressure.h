/* SPDX-License-Identifier: GPL-2.0-only */
/* Backpressure: states, charges, whose sockets, wake-ups. */

/* The state machine */

enum bpshaper_test_event {
	BPSHAPER_PACKET,	/* of the socket, while the queue drains */
	BPSHAPER_PACKET_ASLEEP,	/* of the socket, while tokens are waited for */
	BPSHAPER_PACKET_OTHER,	/* while another flow waits for its time */
	BPSHAPER_PACKET_WAITING,	/* while the socket's flow does */
	BPSHAPER_PACKET_STOPPED,	/* while the device takes no packets */
	BPSHAPER_PACKET_UNDRAINED,	/* while nobody calls dequeue */
	BPSHAPER_PACKET_GROWN,	/* asleep, after SO_SNDBUF was doubled */
	BPSHAPER_PACKET_SHRUNK,	/* asleep, after SO_SNDBUF was halved */
	BPSHAPER_PACKET_FULL,	/* asleep, and another qdisc has charged all */
	BPSHAPER_NO_TOKENS,	/* dequeue finds none, and the timer is armed */
	BPSHAPER_DEQUEUE,	/* a packet of the socket leaves */
	BPSHAPER_DRAIN,		/* all packets of the socket leave */
	BPSHAPER_RESET,		/* purge: link down, replace */
	BPSHAPER_DESTROY,	/* del, netns exit */
	BPSHAPER_CLOSE,		/* the owner closes the socket */
};

/**
 * struct bpshaper_state_row - a transition
 * @name: what it is
 * @from: state before
 * @pkts: packets of the socket queued before; its share is 10
 * @event: what happens
 * @to: state after
 * @charge: what the socket is charged afterwards, beside its own packets
 * @throttles: counted by the event
 * @unthrottles: counted by the event
 */
struct bpshaper_state_row {
	const char		*name;
	enum bpshaper_state	from;
	u32			pkts;
	enum bpshaper_test_event event;
	enum bpshaper_state	to;
	u32			charge;
	u32			throttles;
	u32			unthrottles;
};

#define BPSHAPER_U	BPSHAPER_UNTHROTTLED
#define BPSHAPER_O	BPSHAPER_OVERLIMIT
#define BPSHAPER_T	BPSHAPER_THROTTLED
#define BPSHAPER_B	BPSHAPER_TEST_SNDBUF

static const struct bpshaper_state_row bpshaper_state_rows[] = {
	{ "U: a packet within the share",
	  BPSHAPER_U,  9, BPSHAPER_PACKET,		BPSHAPER_U },
	{ "U: a packet within the share, asleep",
	  BPSHAPER_U,  9, BPSHAPER_PACKET_ASLEEP,	BPSHAPER_U },
	{ "U: a packet within the share, the flow waits for its time",
	  BPSHAPER_U,  9, BPSHAPER_PACKET_WAITING,	BPSHAPER_U },
	{ "U: a packet above it, draining",
	  BPSHAPER_U, 10, BPSHAPER_PACKET,		BPSHAPER_O },
	{ "U: a packet above it, asleep",
	  BPSHAPER_U, 10, BPSHAPER_PACKET_ASLEEP,	BPSHAPER_T, BPSHAPER_B, 1 },
	{ "U: a packet above it, others wait for their time",
	  BPSHAPER_U, 10, BPSHAPER_PACKET_OTHER,	BPSHAPER_O },
	{ "U: a packet above it, the flow waits for its time",
	  BPSHAPER_U, 10, BPSHAPER_PACKET_WAITING,	BPSHAPER_T, BPSHAPER_B, 1 },
	{ "U: a packet above it, stopped",
	  BPSHAPER_U, 10, BPSHAPER_PACKET_STOPPED,	BPSHAPER_T, BPSHAPER_B, 1 },
	{ "U: a packet above it, not drained",
	  BPSHAPER_U, 10, BPSHAPER_PACKET_UNDRAINED,	BPSHAPER_T, BPSHAPER_B, 1 },
	{ "U: a packet above it, no room to charge",
	  BPSHAPER_U, 10, BPSHAPER_PACKET_FULL,		BPSHAPER_O },
	{ "U: out of tokens",
	  BPSHAPER_U, 10, BPSHAPER_NO_TOKENS,		BPSHAPER_U },
	{ "U: a packet leaves",
	  BPSHAPER_U, 10, BPSHAPER_DEQUEUE,		BPSHAPER_U },
	{ "U: drains",
	  BPSHAPER_U, 10, BPSHAPER_DRAIN,		BPSHAPER_U },
	{ "U: purged",
	  BPSHAPER_U, 10, BPSHAPER_RESET,		BPSHAPER_U },
	{ "U: the qdisc goes",
	  BPSHAPER_U, 10, BPSHAPER_DESTROY,		BPSHAPER_U },
	{ "U: closed",
	  BPSHAPER_U, 10, BPSHAPER_CLOSE,		BPSHAPER_U },

	{ "O: another packet, draining",
	  BPSHAPER_O, 11, BPSHAPER_PACKET,		BPSHAPER_O },
	{ "O: another packet, asleep",
	  BPSHAPER_O, 11, BPSHAPER_PACKET_ASLEEP,	BPSHAPER_T, BPSHAPER_B, 1 },
	{ "O: another packet, others wait for their time",
	  BPSHAPER_O, 11, BPSHAPER_PACKET_OTHER,	BPSHAPER_O },
	{ "O: another packet, the flow waits for its time",
	  BPSHAPER_O, 11, BPSHAPER_PACKET_WAITING,	BPSHAPER_T, BPSHAPER_B, 1 },
	{ "O: another packet, stopped",
	  BPSHAPER_O, 11, BPSHAPER_PACKET_STOPPED,	BPSHAPER_T, BPSHAPER_B, 1 },
	{ "O: another packet, not drained",
	  BPSHAPER_O, 11, BPSHAPER_PACKET_UNDRAINED,	BPSHAPER_T, BPSHAPER_B, 1 },
	{ "O: another packet, no room to charge",
	  BPSHAPER_O, 11, BPSHAPER_PACKET_FULL,		BPSHAPER_O },
	{ "O: out of tokens",
	  BPSHAPER_O, 11, BPSHAPER_NO_TOKENS,		BPSHAPER_T, BPSHAPER_B, 1 },
	{ "O: a packet leaves, more than a quarter stays",
	  BPSHAPER_O, 11, BPSHAPER_DEQUEUE,		BPSHAPER_O },
	{ "O: a quarter of the share stays",
	  BPSHAPER_O,  3, BPSHAPER_DEQUEUE,		BPSHAPER_U },
	{ "O: drains",
	  BPSHAPER_O, 11, BPSHAPER_DRAIN,		BPSHAPER_U },
	{ "O: purged",
	  BPSHAPER_O, 11, BPSHAPER_RESET,		BPSHAPER_U },
	{ "O: the qdisc goes",
	  BPSHAPER_O, 11, BPSHAPER_DESTROY,		BPSHAPER_U },
	{ "O: closed",
	  BPSHAPER_O, 11, BPSHAPER_CLOSE,		BPSHAPER_O },

	{ "T: another packet",
	  BPSHAPER_T, 11, BPSHAPER_PACKET,		BPSHAPER_T, BPSHAPER_B },
	{ "T: another packet, asleep",
	  BPSHAPER_T, 11, BPSHAPER_PACKET_ASLEEP,	BPSHAPER_T, BPSHAPER_B },
	{ "T: another packet, larger send buffer",
	  BPSHAPER_T, 11, BPSHAPER_PACKET_GROWN,	BPSHAPER_T, 2 * BPSHAPER_B },
	{ "T: another packet, smaller send buffer",
	  BPSHAPER_T, 11, BPSHAPER_PACKET_SHRUNK,	BPSHAPER_T, BPSHAPER_B },
	{ "T: out of tokens",
	  BPSHAPER_T, 11, BPSHAPER_NO_TOKENS,		BPSHAPER_T, BPSHAPER_B },
	{ "T: a packet leaves, more than a quarter stays",
	  BPSHAPER_T, 11, BPSHAPER_DEQUEUE,		BPSHAPER_T, BPSHAPER_B },
	{ "T: a packet leaves, just more stays",
	  BPSHAPER_T,  4, BPSHAPER_DEQUEUE,		BPSHAPER_T, BPSHAPER_B },
	{ "T: a quarter of the share stays",
	  BPSHAPER_T,  3, BPSHAPER_DEQUEUE,		BPSHAPER_U, 0, 0, 1 },
	{ "T: drains",
	  BPSHAPER_T, 11, BPSHAPER_DRAIN,		BPSHAPER_U, 0, 0, 1 },
	{ "T: purged",
	  BPSHAPER_T, 11, BPSHAPER_RESET,		BPSHAPER_U, 0, 0, 1 },
	{ "T: the qdisc goes",
	  BPSHAPER_T, 11, BPSHAPER_DESTROY,		BPSHAPER_U },
	{ "T: closed",
	  BPSHAPER_T, 11, BPSHAPER_CLOSE,		BPSHAPER_T, BPSHAPER_B },
};

BPSHAPER_ROWS(state);

/* By the events that lead there: 11 packets for the states above the share,
 * from which as many leave as make @pkts. A packet without a socket takes the
 * direct packet and leaves first.
 */
static void bpshaper_state_prepare(struct kunit *test,
				   const struct bpshaper_state_row *row)
{
	u32 i, pkts = row->from == BPSHAPER_UNTHROTTLED ? row->pkts : 11;
	struct bpshaper_bench *b = test->priv;

	bpshaper_bench_enqueue(test, NULL);
	for (i = 0; i < pkts; i++) {
		b->q->undrained = 0;
		bpshaper_bench_enqueue(test, b->sk);
	}
	KUNIT_ASSERT_TRUE(test, bpshaper_bench_dequeue(test, true));
	if (row->from == BPSHAPER_THROTTLED)
		KUNIT_ASSERT_FALSE(test, bpshaper_bench_dequeue(test, false));
	for (; pkts > row->pkts; pkts--)
		KUNIT_ASSERT_TRUE(test, bpshaper_bench_dequeue(test, true));
	qdisc_watchdog_cancel(&b->q->watchdog);
	KUNIT_ASSERT_EQ(test, bpshaper_bench_state(b), row->from);
	KUNIT_ASSERT_EQ(test, bpshaper_bench_flow(b, b->sk)->backlog,
			row->pkts * BPSHAPER_TEST_BYTES);
	b->q->undrained = 0;
}

static void bpshaper_state_packet(struct kunit *test,
				  enum bpshaper_test_event event)
{
	struct bpshaper_bench *b = test->priv;
	bool is_full = event == BPSHAPER_PACKET_FULL;

	if (event == BPSHAPER_PACKET_STOPPED)
		set_bit(__QUEUE_STATE_DRV_XOFF, &b->sch->dev_queue->state);
	else if (event == BPSHAPER_PACKET_UNDRAINED)
		b->q->undrained = 1;
	else if (event != BPSHAPER_PACKET)
		bpshaper_bench_sleep(b, event != BPSHAPER_PACKET_OTHER &&
				     event != BPSHAPER_PACKET_WAITING);
	if (event == BPSHAPER_PACKET_WAITING)
		bpshaper_flow_wait(&b->q->own.flows, bpshaper_bench_flow(b, b->sk),
				   ktime_get_ns() + BPSHAPER_TEST_HOUR_NS);
	if (event == BPSHAPER_PACKET_GROWN)
		b->sk->sk_sndbuf *= 2;
	if (event == BPSHAPER_PACKET_SHRUNK)
		b->sk->sk_sndbuf /= 2;
	if (is_full)
		refcount_add(BPSHAPER_WMEM_MAX, &b->sk->sk_wmem_alloc);
	bpshaper_bench_enqueue(test, b->sk);
	if (is_full)
		WARN_ON(refcount_sub_and_test(BPSHAPER_WMEM_MAX,
					      &b->sk->sk_wmem_alloc));
}

static void bpshaper_state_event(struct kunit *test,
				 enum bpshaper_test_event event)
{
	struct bpshaper_bench *b = test->priv;

	switch (event) {
	case BPSHAPER_NO_TOKENS:
		KUNIT_EXPECT_FALSE(test, bpshaper_bench_dequeue(test, false));
		KUNIT_EXPECT_TRUE(test, bpshaper_waits_for_tokens(b->q));
		break;
	case BPSHAPER_DEQUEUE:
		KUNIT_EXPECT_TRUE(test, bpshaper_bench_dequeue(test, true));
		break;
	case BPSHAPER_DRAIN:
		while (bpshaper_bench_dequeue(test, true))
			;
		break;
	case BPSHAPER_RESET:
		bpshaper_bench_sleep(b, true);
		bpshaper_bench_reset(b);
		KUNIT_EXPECT_FALSE(test, bpshaper_waits_for_tokens(b->q));
		KUNIT_EXPECT_EQ(test, b->sch->q.qlen, 0);
		KUNIT_EXPECT_EQ(test, b->sch->qstats.backlog, 0);
		break;
	case BPSHAPER_DESTROY:
		bpshaper_bench_destroy_qdisc(b);
		break;
	case BPSHAPER_CLOSE:
		/* What is charged holds the socket. */
		sock_release(b->sock);
		b->sock = NULL;
		refcount_add(1, &b->sk->sk_wmem_alloc);
		break;
	default:
		bpshaper_state_packet(test, event);
	}
}

/* Lists and counters are what the state says. */
static void bpshaper_state_check(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_backpressure *bp = &b->q->own.bp;
	struct bpshaper_socket *s = bpshaper_bench_sender(b);
	enum bpshaper_state state = bpshaper_bench_state(b);

	KUNIT_EXPECT_EQ(test, bp->overlimit_len,
			state == BPSHAPER_OVERLIMIT);
	KUNIT_EXPECT_EQ(test, bp->flows->stat.throttles - bp->flows->stat.unthrottles,
			state == BPSHAPER_THROTTLED);
	if (!s) {
		KUNIT_EXPECT_TRUE(test, list_empty(&bp->overlimit));
		KUNIT_EXPECT_TRUE(test, list_empty(&bp->throttled));
		return;
	}
	KUNIT_EXPECT_EQ(test, bpshaper_list_has(&bp->overlimit, s),
			state == BPSHAPER_OVERLIMIT);
	KUNIT_EXPECT_EQ(test, bpshaper_list_has(&bp->throttled, s),
			state == BPSHAPER_THROTTLED);
}

static void bpshaper_state_test(struct kunit *test)
{
	const struct bpshaper_state_row *row = test->param_value;
	struct bpshaper_bench *b = test->priv;
	u64 throttles, unthrottles;

	bpshaper_state_prepare(test, row);
	bpshaper_state_check(test);
	throttles = b->q->own.flows.stat.throttles;
	unthrottles = b->q->own.flows.stat.unthrottles;
	KUNIT_EXPECT_EQ(test, throttles, row->from == BPSHAPER_THROTTLED);

	bpshaper_state_event(test, row->event);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(b, row->charge),
			row->charge);
	if (b->sch) {
		KUNIT_EXPECT_EQ(test, bpshaper_bench_state(b), row->to);
		bpshaper_state_check(test);
		KUNIT_EXPECT_EQ(test, b->q->own.flows.stat.throttles - throttles,
				row->throttles);
		KUNIT_EXPECT_EQ(test, b->q->own.flows.stat.unthrottles - unthrottles,
				row->unthrottles);
	}
	if (row->event != BPSHAPER_CLOSE)
		return;
	/* What was charged for an owner goes with the last charge. */
	bpshaper_bench_destroy_qdisc(b);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(b, 0), 0);
	sk_free(b->sk);
}

/* What one socket is charged */

struct bpshaper_charge_row {
	const char	*name;
	int		type;
	int		protocol;
	s32		sndbuf;
	u32		charge;
};

static const struct bpshaper_charge_row bpshaper_charge_rows[] = {
	{ "UDP: its send buffer", SOCK_DGRAM, IPPROTO_UDP, 212992, 212992 },
	{ "UDP: at least the least there is", SOCK_DGRAM, IPPROTO_UDP, 1,
	  SOCK_MIN_SNDBUF },
	{ "UDP: at most what the counter bears", SOCK_DGRAM, IPPROTO_UDP,
	  S32_MAX, BPSHAPER_CHARGE_MAX },
	{ "TCP: more than a small queue", SOCK_STREAM, IPPROTO_TCP, 212992,
	  BPSHAPER_CHARGE_TCP },
	{ "TCP: its send buffer if larger", SOCK_STREAM, IPPROTO_TCP,
	  1 << 25, 1 << 25 },
};

BPSHAPER_ROWS(charge);

static void bpshaper_charge_test(struct kunit *test)
{
	const struct bpshaper_charge_row *row = test->param_value;
	struct sock *sk = kunit_kzalloc(test, sizeof(*sk), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, sk);
	sk->sk_type = row->type;
	sk->sk_protocol = row->protocol;
	sk->sk_sndbuf = row->sndbuf;
	KUNIT_EXPECT_EQ(test, bpshaper_sock_charge(sk), row->charge);
}

/* Which packets' sockets can be throttled, or why not. Before 7.2 tcp_wfree()
 * has no address here: the tests in the guest see to TCP.
 */
struct bpshaper_owner_row {
	const char	*name;
	int		family;
	int		type;
	int		protocol;
	s32		sndbuf;
	u8		state;
	void		(*destructor)(struct sk_buff *skb);
	bool		is_kernel;
	bool		is_queue;
	bool		is_ack;
	enum bpshaper_unheld unheld;
};

static const struct bpshaper_owner_row bpshaper_owner_rows[] = {
	{ .name = "UDP", .family = PF_INET, .type = SOCK_DGRAM,
	  .protocol = IPPROTO_UDP, .destructor = sock_wfree },
	{ .name = "UDP of the kernel: a tunnel", .family = PF_INET,
	  .type = SOCK_DGRAM, .protocol = IPPROTO_UDP, .is_kernel = true,
	  .destructor = sock_wfree },
	{ .name = "UDP, largest send buffer", .family = PF_INET,
	  .type = SOCK_DGRAM, .protocol = IPPROTO_UDP,
	  .sndbuf = BPSHAPER_CHARGE_MAX, .destructor = sock_wfree },
	{ .name = "UDP, send buffer too large", .family = PF_INET,
	  .type = SOCK_DGRAM, .protocol = IPPROTO_UDP,
	  .sndbuf = BPSHAPER_CHARGE_MAX + 1, .destructor = sock_wfree,
	  .unheld = BPSHAPER_SNDBUF },
	{ .name = "raw", .family = PF_INET6, .type = SOCK_RAW,
	  .protocol = IPPROTO_RAW, .destructor = sock_wfree },
	{ .name = "raw of the kernel: ICMP", .family = PF_INET, .type = SOCK_RAW,
	  .protocol = IPPROTO_ICMP, .is_kernel = true,
	  .destructor = sock_wfree, .unheld = BPSHAPER_CONTROL },
	{ .name = "does not wait for room", .family = PF_INET, .type = SOCK_RAW,
	  .protocol = IPPROTO_TCP, .is_queue = true, .destructor = sock_wfree,
	  .unheld = BPSHAPER_CONTROL },
	{ .name = "packet", .family = PF_PACKET, .type = SOCK_RAW,
	  .destructor = sock_wfree },
	{ .name = "packet, transmit ring", .family = PF_PACKET,
	  .type = SOCK_RAW, .destructor = sock_efree },
	{ .name = "holds but does not charge", .family = PF_INET,
	  .type = SOCK_DGRAM, .protocol = IPPROTO_UDP,
	  .destructor = sock_efree, .unheld = BPSHAPER_DESTRUCTOR },
	{ .name = "orphan that keeps its pointer", .family = PF_INET,
	  .type = SOCK_DGRAM, .protocol = IPPROTO_UDP,
	  .unheld = BPSHAPER_NO_OWNER },
	{ .name = "TCP, charged as if it were not", .family = PF_INET,
	  .type = SOCK_STREAM, .protocol = IPPROTO_TCP,
	  .destructor = sock_wfree, .unheld = BPSHAPER_DESTRUCTOR },
	{ .name = "TCP, no destructor of its own", .family = PF_INET,
	  .type = SOCK_STREAM, .protocol = IPPROTO_TCP,
	  .destructor = sock_efree, .unheld = BPSHAPER_DESTRUCTOR },
	{ .name = "TCP, pure ACK", .family = PF_INET, .type = SOCK_STREAM,
	  .protocol = IPPROTO_TCP, .destructor = sock_efree, .is_ack = true,
	  .unheld = BPSHAPER_DESTRUCTOR },
	{ .name = "not a full socket: a request", .family = PF_INET,
	  .type = SOCK_DGRAM, .protocol = IPPROTO_UDP,
	  .state = TCP_NEW_SYN_RECV, .destructor = sock_wfree,
	  .unheld = BPSHAPER_CONTROL },
	{ .name = "not a full socket: in time-wait", .family = PF_INET,
	  .type = SOCK_DGRAM, .protocol = IPPROTO_UDP, .state = TCP_TIME_WAIT,
	  .destructor = sock_wfree,
	  .unheld = BPSHAPER_CONTROL },
	{ .name = "no socket at all", .unheld = BPSHAPER_NO_OWNER },
};

/* Whose sockets a device may hold. A tree of users: 0 is the host, 1 and 2 are
 * its containers, 3 is a container in 1.
 */
struct bpshaper_ours_row {
	const char	*name;
	int		device;
	int		socket;
	bool		is_same_net;
	bool		is_kernel;
	bool		is_ours;
};

static const struct bpshaper_ours_row bpshaper_ours_rows[] = {
	{ "of the namespace of the device", 1, 1, true, false, true },
	{ "of the kernel, of the namespace of the device", 1, 1, true, true, true },
	{ "of another namespace, same users", 1, 1, false, false, true },
	{ "of a container, on the host", 0, 1, false, false, true },
	{ "of a container in a container, on the host", 0, 3, false, false, true },
	{ "of the host, in a container", 1, 0, false, false, false },
	{ "of a container, in another one", 2, 1, false, false, false },
	{ "of the outer container, in the inner one", 3, 1, false, false, false },
	{ "of the kernel, of another namespace", 0, 1, false, true, false },
};

BPSHAPER_ROWS(ours);

static void bpshaper_ours_test(struct kunit *test)
{
	const struct bpshaper_ours_row *row = test->param_value;
	struct user_namespace *users = kunit_kcalloc(test, 4, sizeof(*users), GFP_KERNEL);
	struct net *nets = kunit_kcalloc(test, 2, sizeof(*nets), GFP_KERNEL);
	struct sock *sk = kunit_kzalloc(test, sizeof(*sk), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, users);
	KUNIT_ASSERT_NOT_NULL(test, nets);
	KUNIT_ASSERT_NOT_NULL(test, sk);
	users[1].parent = &users[0];
	users[2].parent = &users[0];
	users[3].parent = &users[1];
	nets[0].user_ns = &users[row->device];
	nets[1].user_ns = &users[row->socket];
	sock_net_set(sk, row->is_same_net ? &nets[0] : &nets[1]);
	sk->sk_net_refcnt = !row->is_kernel;
	KUNIT_EXPECT_EQ(test, bpshaper_sock_is_ours(sk, &nets[0]), row->is_ours);
}

BPSHAPER_ROWS(owner);

static void bpshaper_owner_test(struct kunit *test)
{
	const struct bpshaper_owner_row *row = test->param_value;
	struct sk_buff *skb = kunit_kzalloc(test, sizeof(*skb), GFP_KERNEL);
	struct sock *sk = kunit_kzalloc(test, sizeof(*sk), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	KUNIT_ASSERT_NOT_NULL(test, sk);
	sock_net_set(sk, &init_net);
	sk->sk_family = row->family;
	sk->sk_type = row->type;
	sk->sk_protocol = row->protocol;
	sk->sk_sndbuf = row->sndbuf ?: 212992;
	sk->sk_state = row->state;
	sk->sk_kern_sock = row->is_kernel;
	if (row->is_queue)
		sock_set_flag(sk, SOCK_USE_WRITE_QUEUE);
	skb->sk = row->family ? sk : NULL;
	skb->destructor = row->destructor;
	skb->truesize = row->is_ack ? 2 : 768;
	KUNIT_EXPECT_EQ(test, bpshaper_skb_unheld(skb, &init_net), row->unheld);
	KUNIT_EXPECT_TRUE(test, bpshaper_ballast_destructor(skb, &init_net) ==
				(row->unheld ? NULL : sock_wfree));
}

/* A turn of the whole limit is more than a part of it may hold. */
static const struct bpshaper_small_limit_row {
	const char	*name;
	u32		min, peer_min, limit, sockets, share;
} bpshaper_small_limit_rows[] = {
	{ "one socket", 15140, 3028, 60560, 1, 60560 },
	{ "one socket, a large limit", 15140, 3028, 200000, 1, 65536 },
	{ "many sockets", 15140, 3028, 60560, 100, 15140 },
	{ "many, a part that is small", 15140, 3028, 20000, 100, 10000 },
	{ "one, a part that is small", 15140, 3028, 20000, 1, 20000 },
	{ "many, a part of two packets", 15140, 3028, 3028, 100, 3028 },
	{ "many, share_min was set", 15140, 15140, 3028, 100, 15140 },
};

BPSHAPER_ROWS(small_limit);

static void bpshaper_small_limit_test(struct kunit *test)
{
	const struct bpshaper_small_limit_row *row = test->param_value;
	struct bpshaper_backpressure bp = {};

	bpshaper_share_set_bounds(&bp, row->min, row->peer_min, 65536);
	KUNIT_EXPECT_EQ(test, row->share,
			bpshaper_share_compute(&bp, row->limit, row->sockets));
}

/* Several sockets: all that hold too much are stopped at once, and each is
 * released when its own packets have drained.
 */
static void bpshaper_many_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_backpressure *bp = &b->q->own.bp;
	struct socket *socks[4];
	u32 i, n;

	bpshaper_bench_enqueue(test, NULL);
	for (i = 0; i < ARRAY_SIZE(socks); i++)
		socks[i] = bpshaper_bench_socket(test);
	/* Four sockets and a limit of ten packets: a share is two of the MTU.
	 */
	for (n = 0; n < 4; n++) {
		for (i = 0; i < ARRAY_SIZE(socks); i++) {
			b->q->undrained = 0;
			bpshaper_bench_enqueue(test, socks[i]->sk);
		}
	}
	KUNIT_EXPECT_EQ(test, bpshaper_share_compute(bp, b->q->limit,
						     ARRAY_SIZE(socks)),
			2 * 1514);
	KUNIT_EXPECT_EQ(test, bp->overlimit_len, ARRAY_SIZE(socks));
	KUNIT_EXPECT_FALSE(test, bpshaper_bench_dequeue(test, false));
	KUNIT_EXPECT_EQ(test, bp->overlimit_len, 0);
	KUNIT_EXPECT_EQ(test, bp->flows->stat.throttles, ARRAY_SIZE(socks));
	KUNIT_EXPECT_EQ(test, bp->flows->stat.unthrottles, 0);

	/* The direct packet, three rounds, and the fourth takes the last of each.
	 */
	for (n = 0; n < 13; n++)
		KUNIT_EXPECT_TRUE(test, bpshaper_bench_dequeue(test, true));
	KUNIT_EXPECT_EQ(test, bp->flows->stat.unthrottles, 0);
	for (n = 1; n <= ARRAY_SIZE(socks); n++) {
		KUNIT_EXPECT_TRUE(test, bpshaper_bench_dequeue(test, true));
		KUNIT_EXPECT_EQ(test, bp->flows->stat.unthrottles, n);
	}
	bpshaper_bench_reset(b);
	for (i = 0; i < ARRAY_SIZE(socks); i++) {
		b->sk = socks[i]->sk;
		KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(b, 0), 0);
		sock_release(socks[i]);
	}
	b->sk = b->sock->sk;
}

/* However many peers there are, the share has a bound. */
static void bpshaper_peers_bound_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_socket s = { .peers = BPSHAPER_PEERS_MAX, .is_by_peer = true };
	struct bpshaper_backpressure *bp = &b->q->own.bp;
	u32 share;

	bpshaper_share_update(bp, b->q->limit, 1);
	share = bpshaper_socket_share(bp, &s);
	KUNIT_EXPECT_EQ(test, share, bp->share + (BPSHAPER_PEERS_MAX - 1) * bp->peer_min);
	s.peers = 1000000;
	KUNIT_EXPECT_EQ(test, bpshaper_socket_share(bp, &s), share);
	s.is_by_peer = false;
	KUNIT_EXPECT_EQ(test, bpshaper_socket_share(bp, &s), bp->share);
	s.is_by_peer = true;
	s.peers = 1;
	KUNIT_EXPECT_EQ(test, bpshaper_socket_share(bp, &s), bp->share);
	/* Two of its packets each, if these are larger; but no more than a
	 * share.
	 */
	s.peers = 3;
	s.largest = 10000;
	KUNIT_EXPECT_EQ(test, bpshaper_socket_share(bp, &s), 3 * 20000);
	s.largest = U32_MAX;
	KUNIT_EXPECT_EQ(test, bpshaper_socket_share(bp, &s), 3 * bp->share_max);
	s.largest = 0;
	bp->peer_min = U32_MAX;
	bp->share_max = U32_MAX;
	KUNIT_EXPECT_EQ(test, bpshaper_socket_share(bp, &s), U32_MAX);
}

/* However many hold too much, one dequeue stops a batch of them, and the next
 * the next.
 */
static void bpshaper_batch_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_backpressure *bp = &b->q->own.bp;
	struct socket *socks[BPSHAPER_THROTTLE_BATCH + 6];
	u32 i, n;

	bpshaper_bench_enqueue(test, NULL);
	for (i = 0; i < ARRAY_SIZE(socks); i++)
		socks[i] = bpshaper_bench_socket(test);
	for (n = 0; n < 4; n++) {
		for (i = 0; i < ARRAY_SIZE(socks); i++) {
			b->q->undrained = 0;
			bpshaper_bench_enqueue(test, socks[i]->sk);
		}
	}
	KUNIT_EXPECT_EQ(test, bp->overlimit_len, ARRAY_SIZE(socks));
	KUNIT_EXPECT_FALSE(test, bpshaper_bench_dequeue(test, false));
	KUNIT_EXPECT_EQ(test, bp->overlimit_len, 6);
	KUNIT_EXPECT_EQ(test, bp->flows->stat.throttles, BPSHAPER_THROTTLE_BATCH);
	KUNIT_EXPECT_FALSE(test, bpshaper_bench_dequeue(test, false));
	KUNIT_EXPECT_EQ(test, bp->overlimit_len, 0);
	KUNIT_EXPECT_EQ(test, bp->flows->stat.throttles, ARRAY_SIZE(socks));
	bpshaper_bench_reset(b);
	for (i = 0; i < ARRAY_SIZE(socks); i++) {
		b->sk = socks[i]->sk;
		KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(b, 0), 0);
		sock_release(socks[i]);
	}
	b->sk = b->sock->sk;
}

/* The release wakes the owner, and that once; it is not done under the lock. */
static void bpshaper_wakeup_test(struct kunit *test)
{
	const struct bpshaper_state_row row = {
		.from = BPSHAPER_THROTTLED,
		.pkts = 3,
	};
	struct bpshaper_bench *b = test->priv;
	struct sk_buff *skb;
	int before;

	bpshaper_state_prepare(test, &row);
	bpshaper_bench_charge(b, BPSHAPER_TEST_SNDBUF);
	before = atomic_read(&b->stat_wakeups);
	bpshaper_bench_lock(b);
	bpshaper_bucket_fill(&b->q->bucket);
	skb = bpshaper_dequeue(b->sch);
	KUNIT_EXPECT_EQ(test, b->q->own.flows.stat.unthrottles, 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&b->stat_wakeups), before);
	bpshaper_bench_unlock(b);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(b, 0), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&b->stat_wakeups), before + 1);
	KUNIT_ASSERT_NOT_NULL(test, skb);
	b->own -= skb->truesize;
	kfree_skb(skb);
}

/* The owner of a tap is woken once for each time that it, or the module, has asked
 * for it. A packet that was freed meanwhile has used that up.
 */
static void bpshaper_tap_wakeup_test(struct kunit *test)
{
	const struct bpshaper_state_row row = {
		.from = BPSHAPER_THROTTLED,
		.pkts = 3,
	};
	struct bpshaper_bench *b = test->priv;
	unsigned long *flags = &b->sk->sk_socket->flags;
	struct sk_buff *skb;

	bpshaper_state_prepare(test, &row);
	b->sk->sk_family = AF_UNSPEC;
	clear_bit(SOCKWQ_ASYNC_NOSPACE, flags);
	bpshaper_bench_lock(b);
	bpshaper_bucket_fill(&b->q->bucket);
	skb = bpshaper_dequeue(b->sch);
	KUNIT_EXPECT_EQ(test, b->q->own.flows.stat.unthrottles, 1);
	KUNIT_EXPECT_TRUE(test, test_bit(SOCKWQ_ASYNC_NOSPACE, flags));
	bpshaper_bench_unlock(b);
	clear_bit(SOCKWQ_ASYNC_NOSPACE, flags);
	b->sk->sk_family = PF_INET;
	KUNIT_ASSERT_NOT_NULL(test, skb);
	b->own -= skb->truesize;
	kfree_skb(skb);
}

static struct kunit_case bpshaper_backpressure_cases[] = {
	KUNIT_CASE_PARAM(bpshaper_state_test,
			 bpshaper_state_gen_params),
	KUNIT_CASE_PARAM(bpshaper_charge_test,
			 bpshaper_charge_gen_params),
	KUNIT_CASE_PARAM(bpshaper_ours_test,
			 bpshaper_ours_gen_params),
	KUNIT_CASE_PARAM(bpshaper_owner_test,
			 bpshaper_owner_gen_params),
	KUNIT_CASE_PARAM(bpshaper_small_limit_test, bpshaper_small_limit_gen_params),
	KUNIT_CASE(bpshaper_many_test),
	KUNIT_CASE(bpshaper_batch_test),
	KUNIT_CASE(bpshaper_peers_bound_test),
	KUNIT_CASE(bpshaper_wakeup_test),
	KUNIT_CASE(bpshaper_tap_wakeup_test),
	{}
};

BPSHAPER_SUITE(backpressure, bpshaper_bench_init, bpshaper_bench_exit);
