/* SPDX-License-Identifier: GPL-2.0-only */
/* Throttling: when a socket changes its state, beside the table of
 * kunit_backpressure.h: memory, times, and the review.
 */

/* Scarce memory: all data counts, and a share is that of one flow. */

/**
 * struct bpshaper_scarce_row - does a socket exceed its share of ten packets?
 * @name: what it is
 * @pkts: packets queued
 * @exempt: those of them that have a time and are not due
 * @peers: of an unconnected socket, or 0
 * @divisor: of the share
 * @exceeds: while there is enough memory
 * @exceeds_if_scarce: while memory is scarce
 */
struct bpshaper_scarce_row {
	const char	*name;
	u32		pkts;
	u32		exempt;
	u32		peers;
	u32		divisor;
	bool		exceeds;
	bool		exceeds_if_scarce;
};

static const struct bpshaper_scarce_row bpshaper_scarce_rows[] = {
	{ "a share that is due", 10, 0, 0, 1, false, false },
	{ "more than a share that is due", 11, 0, 0, 1, true, true },
	{ "more than a share, most of it exempt", 11, 8, 0, 1, false, true },
	{ "more than a quarter, most of it exempt", 3, 2, 0, 4, false, true },
	{ "a share of many peers", 30, 0, 100, 1, false, true },
};

BPSHAPER_ROWS(scarce);

static void bpshaper_scarce_test(struct kunit *test)
{
	const struct bpshaper_scarce_row *row = test->param_value;
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_sched *q = b->q;
	struct bpshaper_leaf *l = &q->own;
	struct bpshaper_memory *m = &q->table.memory;
	struct bpshaper_socket s = {
		.user		= &l->flows.memory.pool,
		.data		= row->pkts * BPSHAPER_TEST_BYTES,
		.exempt		= row->exempt * BPSHAPER_TEST_BYTES,
		.is_by_peer	= row->peers,
		.peers		= row->peers,
	};

	bpshaper_leaf_update_share(l);
	KUNIT_EXPECT_EQ(test, bpshaper_socket_exceeds(l, &s, row->divisor),
			row->exceeds);
	/* A user alone: a third of memory_limit, and three fifths. */
	bpshaper_user_account(s.user, m->limit / 3 + 3);
	KUNIT_EXPECT_EQ(test, bpshaper_socket_exceeds(l, &s, row->divisor),
			row->exceeds_if_scarce);
	bpshaper_user_account(s.user, m->limit * 3 / 5 + 3 - s.user->used);
	KUNIT_EXPECT_TRUE(test, bpshaper_socket_exceeds(l, &s, row->divisor));
	bpshaper_user_account(s.user, -(s64)s.user->used);
}

/* The review */

/* Queue a packet of the socket that may leave in an instant or, if @is_timed,
 * in five seconds.
 */
static void bpshaper_throttle_enqueue(struct kunit *test, bool is_timed)
{
	struct sk_buff *skb = alloc_skb(64, GFP_KERNEL), *to_free = NULL;
	struct bpshaper_bench *b = test->priv;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb->dev = b->dev;
	skb_set_owner_w(skb, b->sk);
	b->own += skb->truesize;
	if (is_timed)
		skb->tstamp = ktime_add_ns(ktime_get(), 5 * NSEC_PER_SEC);
	qdisc_skb_cb(skb)->pkt_len = BPSHAPER_TEST_BYTES;
	bpshaper_bench_lock(b);
	b->q->undrained = 0;
	KUNIT_EXPECT_EQ(test, bpshaper_enqueue(skb, b->sch, &to_free),
			NET_XMIT_SUCCESS);
	hrtimer_cancel(&b->q->backstop);
	bpshaper_bench_unlock(b);
	KUNIT_EXPECT_NULL(test, to_free);
}

/* A socket is throttled while memory is scarce. All of its packets have times
 * that are far, so that none leaves. It is released once memory is not scarce.
 */
static void bpshaper_review_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_flows *t = &b->q->own.flows;
	u32 i;

	bpshaper_user_account(&t->memory.pool, t->memory.all->limit / 2);
	bpshaper_bench_enqueue(test, NULL);
	for (i = 0; i < 11; i++)
		bpshaper_throttle_enqueue(test, true);
	KUNIT_EXPECT_TRUE(test, bpshaper_bench_dequeue(test, true));
	KUNIT_EXPECT_FALSE(test, bpshaper_bench_dequeue(test, true));
	KUNIT_EXPECT_EQ(test, t->waiting_len, 1);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_state(b), BPSHAPER_THROTTLED);
	/* Still scarce: it stays. */
	KUNIT_EXPECT_FALSE(test, bpshaper_bench_dequeue(test, true));
	KUNIT_EXPECT_EQ(test, bpshaper_bench_state(b), BPSHAPER_THROTTLED);
	bpshaper_user_account(&t->memory.pool, -(s64)(t->memory.all->limit / 2));
	KUNIT_EXPECT_FALSE(test, bpshaper_bench_dequeue(test, true));
	KUNIT_EXPECT_EQ(test, bpshaper_bench_state(b), BPSHAPER_UNTHROTTLED);
	KUNIT_EXPECT_EQ(test, b->q->own.flows.stat.unthrottles, 1);
	bpshaper_bench_reset(b);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(b, 0), 0);
}

/* A packet with a time that finds the qdisc empty waits for it, in its flow. */
static void bpshaper_direct_time_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;

	bpshaper_throttle_enqueue(test, true);
	KUNIT_EXPECT_NOT_NULL(test, b->q->direct);
	KUNIT_EXPECT_FALSE(test, bpshaper_bench_dequeue(test, true));
	KUNIT_EXPECT_NULL(test, b->q->direct);
	KUNIT_EXPECT_EQ(test, b->q->own.flows.waiting_len, 1);
	KUNIT_EXPECT_EQ(test, b->sch->q.qlen, 1);
	bpshaper_bench_reset(b);
}

/* Some parents dequeue past what they have peeked at, see bpshaper_dequeue().
 * It has its tokens already.
 */
static void bpshaper_peeked_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct sk_buff *peeked, *skb;
	u32 i;

	for (i = 0; i < 3; i++)
		bpshaper_bench_enqueue(test, NULL);
	bpshaper_bench_lock(b);
	bpshaper_bucket_fill(&b->q->bucket);
	peeked = qdisc_peek_dequeued(b->sch);
	bpshaper_bench_unlock(b);
	KUNIT_ASSERT_NOT_NULL(test, peeked);
	KUNIT_EXPECT_EQ(test, b->sch->q.qlen, 3);
	skb = bpshaper_bench_take(b, false);
	KUNIT_EXPECT_PTR_EQ(test, skb, peeked);
	kfree_skb(skb);
	KUNIT_EXPECT_EQ(test, b->sch->q.qlen, 2);
	KUNIT_EXPECT_EQ(test, b->sch->qstats.backlog, 2 * BPSHAPER_TEST_BYTES);
	KUNIT_EXPECT_FALSE(test, bpshaper_bench_dequeue(test, false));
	bpshaper_bench_reset(b);
}

/* Bursts */

/* Packets that the socket may queue. */
static u32 bpshaper_idle_burst_fill(struct kunit *test, struct sock *sk)
{
	struct bpshaper_bench *b = test->priv;
	u32 pkts = 0;

	do {
		b->q->undrained = 0;
		bpshaper_bench_enqueue(test, sk);
	} while (bpshaper_bench_flow(b, sk)->socket->state ==
		 BPSHAPER_UNTHROTTLED && pkts++ < 1000);
	return pkts;
}

/* A new socket may queue a burst beyond its share, half of the limit, and the
 * next one as much of the rest as it leaves. After a throttle there is none.
 */
static void bpshaper_idle_burst_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_turns *t = &b->q->own.flows.turns;
	struct socket *other = bpshaper_bench_socket(test);
	u32 left = 1;

	b->q->rate.Bps = 1000000;
	t->bursts_most = BPSHAPER_TEST_LIMIT;
	bpshaper_bench_enqueue(test, NULL);
	KUNIT_EXPECT_EQ(test, bpshaper_idle_burst_fill(test, b->sk), 10 + 5);
	KUNIT_EXPECT_EQ(test, t->bursts, 5 * BPSHAPER_TEST_BYTES);
	t->new_ns = 0;	/* a minute ago */
	KUNIT_EXPECT_EQ(test, bpshaper_idle_burst_fill(test, other->sk), 5 + 3);
	KUNIT_EXPECT_EQ(test, t->bursts, 8 * BPSHAPER_TEST_BYTES);

	b->q->rate.Bps = 1000;
	KUNIT_EXPECT_FALSE(test, bpshaper_bench_dequeue(test, false));
	KUNIT_EXPECT_EQ(test, b->q->own.flows.stat.throttles, 2);
	while (left++ < 1000 && bpshaper_bench_dequeue(test, true))
		;
	KUNIT_EXPECT_EQ(test, b->q->own.flows.stat.unthrottles, 2);
	KUNIT_EXPECT_EQ(test, t->bursts, 0);
	bpshaper_bench_enqueue(test, NULL);
	KUNIT_EXPECT_EQ(test, bpshaper_idle_burst_fill(test, b->sk), 10);
	KUNIT_EXPECT_EQ(test, t->bursts, 0);
	bpshaper_bench_reset(b);
	sock_release(other);
}

/* What is sent before a socket is held is no burst any more. */
static void bpshaper_idle_burst_sent_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_turns *t = &b->q->own.flows.turns;
	u32 i;

	b->q->rate.Bps = 1000000;
	t->bursts_most = BPSHAPER_TEST_LIMIT;
	bpshaper_bench_enqueue(test, NULL);
	for (i = 0; i < 14; i++) {
		b->q->undrained = 0;
		bpshaper_bench_enqueue(test, b->sk);
	}
	KUNIT_EXPECT_EQ(test, t->bursts, 4 * BPSHAPER_TEST_BYTES);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_TRUE(test, bpshaper_bench_dequeue(test, true));
	KUNIT_EXPECT_EQ(test, bpshaper_bench_state(b), BPSHAPER_UNTHROTTLED);
	KUNIT_EXPECT_EQ(test, t->bursts, 2 * BPSHAPER_TEST_BYTES);
	bpshaper_bench_reset(b);
	KUNIT_EXPECT_EQ(test, t->bursts, 0);
}

/* Is a flow behind its times? */

/**
 * struct bpshaper_behind_row - a packet leaves
 * @name: what it is
 * @late_ms: the packet is later than its time by this
 * @departs_ms: the flow waited until then, from now
 * @next_ms: the next packet is due then, from now
 * @is_behind: the flow is
 */
struct bpshaper_behind_row {
	const char	*name;
	s32		late_ms;
	s32		departs_ms;
	s32		next_ms;
	bool		is_behind;
};

static const struct bpshaper_behind_row bpshaper_behind_rows[] = {
	{ "in time, did not wait", 0, -10000, 0, false },
	{ "late, did not wait", 1000, -10000, 0, true },
	{ "late, but the wait has just ended", 1000, 0, 0, false },
	{ "late, and the wait ended long ago", 1000, -900, 0, true },
	{ "late, and the wait was cut short", 1000, 10000, 0, true },
	{ "late, but the next one is further ahead", 1000, -10000, 2000, false },
	{ "late by more than the next one is ahead", 1000, -10000, 500, true },
};

BPSHAPER_ROWS(behind);

static void bpshaper_behind_test(struct kunit *test)
{
	const struct bpshaper_behind_row *row = test->param_value;
	struct bpshaper_bench *b = test->priv;
	u64 now = ktime_get_ns() + BPSHAPER_TEST_HOUR_NS;
	struct bpshaper_flow *f;
	struct sk_buff *skb;
	u32 i;

	for (i = 0; i < 3; i++)
		bpshaper_throttle_enqueue(test, false);
	f = bpshaper_bench_flow(b, b->sk);
	KUNIT_ASSERT_NOT_NULL(test, f);
	KUNIT_ASSERT_EQ(test, f->qlen, 2);
	bpshaper_bench_lock(b);
	skb = bpshaper_flow_pop(f->flows, f);
	b->sch->q.qlen--;
	b->sch->qstats.backlog -= qdisc_pkt_len(skb);
	bpshaper_skb_cb(skb)->due_ns = now - row->late_ms * NSEC_PER_MSEC;
	bpshaper_skb_cb(f->head)->due_ns = now + row->next_ms * NSEC_PER_MSEC;
	f->departs_ns = now + row->departs_ms * NSEC_PER_MSEC;
	bpshaper_flow_judge_behind(&b->q->own, f, skb, now);
	bpshaper_bench_unlock(b);
	KUNIT_EXPECT_EQ(test, f->is_behind, row->is_behind);
	b->own -= skb->truesize;
	kfree_skb(skb);
	bpshaper_bench_reset(b);
}

/* Outside */

static struct bpshaper_socket *bpshaper_outside_of(struct bpshaper_bench *b,
						   struct socket *sock)
{
	return bpshaper_bench_flow(b, sock->sk)->socket;
}

/* Two sockets are throttled. Then the limit has room for one packet, so that
 * what the first one leaves when it has drained is not enough.
 */
static void bpshaper_outside_make(struct kunit *test, struct socket *socks[2])
{
	struct bpshaper_bench *b = test->priv;
	int i, n;

	/* Nobody but the test gives turns. */
	b->q->own.flows.turns.patience_ns = BPSHAPER_TEST_HOUR_NS;
	b->q->own.flows.turns.dry_ns = U32_MAX;
	bpshaper_bench_enqueue(test, NULL);
	for (i = 0; i < 2; i++)
		socks[i] = bpshaper_bench_socket(test);
	for (n = 0; n < 6; n++) {
		for (i = 0; i < 2; i++) {
			b->q->undrained = 0;
			bpshaper_bench_enqueue(test, socks[i]->sk);
		}
	}
	KUNIT_EXPECT_FALSE(test, bpshaper_bench_dequeue(test, false));
	KUNIT_ASSERT_EQ(test, b->q->own.flows.stat.throttles, 2);
	b->q->limit = BPSHAPER_TEST_BYTES;
	/* The direct packet, five of each, and the last of the first. */
	for (n = 0; n < 12; n++)
		KUNIT_EXPECT_TRUE(test, bpshaper_bench_dequeue(test, true));
}

static void bpshaper_outside_release(struct kunit *test, struct socket *socks[2])
{
	struct bpshaper_bench *b = test->priv;
	int i;

	b->own = 0;
	for (i = 0; i < 2; i++) {
		b->sk = socks[i]->sk;
		KUNIT_EXPECT_EQ(test, bpshaper_bench_charge(b, 0), 0);
		sock_release(socks[i]);
	}
	b->sk = b->sock->sk;
}

/* How many waits outside have ended. */
static u64 bpshaper_outside_count(const struct bpshaper_bench *b)
{
	u64 count = 0;
	int i;

	for (i = 0; i < TC_BPSHAPER_HIST_BUCKETS; i++)
		count += b->q->own.flows.stat.outside_hist[i];
	return count;
}

/* Who has drained without room waits outside, with its ballast, its flow and a
 * timer, and gets a turn when there is room.
 */
static void bpshaper_outside_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_turns *t = &b->q->own.flows.turns;
	struct bpshaper_socket *first, *last;
	struct socket *socks[2];
	u64 v;

	bpshaper_outside_make(test, socks);
	first = bpshaper_outside_of(b, socks[0]);
	last = bpshaper_outside_of(b, socks[1]);
	KUNIT_EXPECT_EQ(test, first->state, BPSHAPER_OUTSIDE);
	KUNIT_EXPECT_EQ(test, last->state, BPSHAPER_THROTTLED);
	KUNIT_EXPECT_TRUE(test, first->is_kept);
	KUNIT_EXPECT_NOT_NULL(test, first->ballast);
	KUNIT_EXPECT_EQ(test, t->kept, 1);
	KUNIT_EXPECT_EQ(test, t->inside, BPSHAPER_TEST_BYTES);
	KUNIT_EXPECT_TRUE(test, hrtimer_is_queued(&b->q->turn_timer));
	KUNIT_EXPECT_EQ(test, bpshaper_contenders(&b->q->own), 2);

	/* The last packet leaves: room for the first, and not for both. */
	KUNIT_EXPECT_TRUE(test, bpshaper_bench_dequeue(test, true));
	KUNIT_EXPECT_EQ(test, first->state, BPSHAPER_UNTHROTTLED);
	KUNIT_EXPECT_EQ(test, first->rest, b->q->own.bp.share);
	KUNIT_EXPECT_NULL(test, first->ballast);
	KUNIT_EXPECT_TRUE(test, first->is_kept);
	KUNIT_EXPECT_EQ(test, t->each, min(b->q->own.bp.share, b->q->own.bp.share_min));
	KUNIT_EXPECT_EQ(test, last->state, BPSHAPER_OUTSIDE);
	KUNIT_EXPECT_EQ(test, b->sch->q.qlen, 0);
	KUNIT_EXPECT_TRUE(test, hrtimer_is_queued(&b->q->turn_timer));

	/* It does not come: it pays, its turn ends, and the other one gets one. */
	v = first->flow->v;
	bpshaper_bench_lock(b);
	bpshaper_bench_tick(b, ktime_get_ns() + t->patience_ns + 1);
	bpshaper_bench_unlock(b);
	KUNIT_EXPECT_EQ(test, first->rest, 0);
	KUNIT_EXPECT_EQ(test, first->flow->v, v + last->rest);
	KUNIT_EXPECT_FALSE(test, first->is_kept);
	KUNIT_EXPECT_EQ(test, last->state, BPSHAPER_UNTHROTTLED);
	KUNIT_EXPECT_EQ(test, last->rest, b->q->own.bp.share);
	KUNIT_EXPECT_EQ(test, b->q->own.flows.stat.turns, 2);
	KUNIT_EXPECT_EQ(test, bpshaper_outside_count(b), 2);

	/* It queues a packet, and pays when that leaves. */
	bpshaper_bench_enqueue(test, NULL);
	bpshaper_bench_enqueue(test, socks[1]->sk);
	KUNIT_EXPECT_FALSE(test, last->is_kept);
	KUNIT_EXPECT_EQ(test, last->rest, b->q->own.bp.share - BPSHAPER_TEST_BYTES);
	KUNIT_EXPECT_EQ(test, t->rest, last->rest);
	v = last->flow->v;
	bpshaper_bench_lock(b);
	bpshaper_bench_tick(b, ktime_get_ns() + 2 * (t->patience_ns + 1));
	bpshaper_bench_unlock(b);
	KUNIT_EXPECT_EQ(test, last->rest, 0);
	KUNIT_EXPECT_EQ(test, last->flow->v, v);
	bpshaper_bench_reset(b);
	KUNIT_EXPECT_EQ(test, t->rest, 0);
	bpshaper_outside_release(test, socks);
}

/* When nobody is outside or has a turn flows send a packet at a time, and the
 * timer stops.
 */
static void bpshaper_turns_stop_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_turns *t = &b->q->own.flows.turns;
	struct socket *socks[2];
	u64 now;

	bpshaper_outside_make(test, socks);
	b->q->limit = BPSHAPER_TEST_LIMIT;
	bpshaper_bench_lock(b);
	now = ktime_get_ns();
	bpshaper_bench_tick(b, now);
	KUNIT_EXPECT_EQ(test, t->outside_len, 0);
	KUNIT_EXPECT_GT(test, t->rest, 0);
	KUNIT_EXPECT_GT(test, t->each, 0);
	hrtimer_cancel(&b->q->turn_timer);
	now += t->patience_ns + 1;
	bpshaper_bench_tick(b, now);
	KUNIT_EXPECT_EQ(test, t->rest, 0);
	KUNIT_EXPECT_EQ(test, t->each, 0);
	KUNIT_EXPECT_FALSE(test, hrtimer_is_queued(&b->q->turn_timer));
	bpshaper_bench_unlock(b);
	bpshaper_bench_reset(b);
	bpshaper_outside_release(test, socks);
}

/* What sockets have queued that take no turns needs no room. */
static void bpshaper_turns_others_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_flows *t = &b->q->own.flows;
	struct socket *socks[2];
	struct bpshaper_socket *s;

	bpshaper_outside_make(test, socks);
	KUNIT_EXPECT_EQ(test, t->turns.inside, BPSHAPER_TEST_BYTES);
	s = bpshaper_outside_of(b, socks[1]);
	bpshaper_flows_set_turns(t, s, true, s->is_by_peer, s->peers);
	KUNIT_EXPECT_EQ(test, t->turns.inside, 0);
	KUNIT_EXPECT_TRUE(test, bpshaper_bench_dequeue(test, true));
	bpshaper_bench_reset(b);
	bpshaper_outside_release(test, socks);
}

/* Sockets that begin to wait together are spread over what is sent in one go,
 * once: they are at what they have sent, and queued.
 */
static void bpshaper_turns_spread_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_backpressure *bp = &b->q->own.bp;
	struct bpshaper_turns *t = &b->q->own.flows.turns;
	struct bpshaper_flow f = { .v = 50000, .backlog = 700 };
	u64 least = U64_MAX, most = 0;
	struct bpshaper_socket s = {};
	u32 i;

	INIT_LIST_HEAD(&s.node);
	s.flow = &f;
	bp->share = 20000;
	bp->share_min = 10000;
	t->start_ns = 1000;
	for (i = 0; i < 100; i++) {
		f.v = 50000;
		s.turn_ns = 0;
		bpshaper_socket_put_outside(bp, &s, 1000);
		KUNIT_EXPECT_EQ(test, s.outside.at, f.v + 700);
		least = min(least, f.v);
		most = max(most, f.v);
		bpshaper_turns_leave(t, &s, 2000);
		f.v = 50000;
		s.turn_ns = 1000;
		bpshaper_socket_put_outside(bp, &s, 3000);
		KUNIT_EXPECT_EQ(test, s.outside.at, 50700);
		bpshaper_turns_leave(t, &s, 4000);
	}
	list_del(&s.node);
	KUNIT_EXPECT_GE(test, least, 50000);
	KUNIT_EXPECT_LT(test, least, 52000);
	KUNIT_EXPECT_GE(test, most, 58000);
	KUNIT_EXPECT_LT(test, most, 60000);
}

/* While others are outside a socket stops when it is a share ahead, what it has
 * queued counted as sent.
 */
static void bpshaper_turns_ahead_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_leaf *l = &b->q->own;
	struct socket *socks[2];
	struct bpshaper_flow *f;

	bpshaper_outside_make(test, socks);
	b->q->undrained = 0;
	bpshaper_bench_enqueue(test, b->sk);
	f = bpshaper_bench_flow(b, b->sk);
	KUNIT_EXPECT_EQ(test, bpshaper_bench_state(b), BPSHAPER_UNTHROTTLED);
	bpshaper_leaf_update_share(l);
	f->v = l->flows.vtime + l->bp.share - BPSHAPER_TEST_BYTES;
	KUNIT_EXPECT_FALSE(test, bpshaper_socket_must_stop(l, f, false));
	f->v++;
	KUNIT_EXPECT_TRUE(test, bpshaper_socket_must_stop(l, f, false));
	f->v = l->flows.vtime;
	KUNIT_EXPECT_TRUE(test, bpshaper_socket_must_stop(l, f, true));
	/* With a turn it goes on until that is used up. */
	f->v += 2 * l->bp.share;
	f->socket->rest = 1;
	KUNIT_EXPECT_FALSE(test, bpshaper_socket_must_stop(l, f, false));
	f->socket->rest = 0;
	bpshaper_bench_reset(b);
	bpshaper_outside_release(test, socks);
}

/* A socket outside that was closed is released without a turn. */
static void bpshaper_outside_closed_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_turns *t = &b->q->own.flows.turns;
	struct bpshaper_socket *first;
	struct socket *socks[2];

	bpshaper_outside_make(test, socks);
	first = bpshaper_outside_of(b, socks[0]);
	sock_set_flag(first->sk, SOCK_DEAD);
	bpshaper_bench_lock(b);
	bpshaper_bench_tick(b, ktime_get_ns());
	bpshaper_bench_unlock(b);
	KUNIT_EXPECT_EQ(test, first->state, BPSHAPER_UNTHROTTLED);
	KUNIT_EXPECT_FALSE(test, first->is_kept);
	KUNIT_EXPECT_EQ(test, t->outside_len, 0);
	KUNIT_EXPECT_EQ(test, b->q->own.flows.stat.turns, 0);
	KUNIT_EXPECT_EQ(test, bpshaper_outside_count(b), 1);
	sock_reset_flag(first->sk, SOCK_DEAD);
	bpshaper_bench_reset(b);
	bpshaper_outside_release(test, socks);
}

/* Whatever ends the backlog releases who is outside. */
static void bpshaper_outside_ends_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct bpshaper_turns *t = &b->q->own.flows.turns;
	struct socket *socks[2];

	bpshaper_outside_make(test, socks);
	bpshaper_bench_lock(b);
	bpshaper_backpressure_set_on(&b->q->own.bp, false, ktime_get_ns());
	bpshaper_bench_unlock(b);
	KUNIT_EXPECT_EQ(test, t->outside_len, 0);
	KUNIT_EXPECT_EQ(test, t->kept, 0);
	KUNIT_EXPECT_EQ(test, b->q->own.flows.stat.unthrottles, 2);
	bpshaper_bench_reset(b);
	bpshaper_outside_release(test, socks);

	b->q->own.bp.is_on = true;
	b->q->limit = BPSHAPER_TEST_LIMIT;
	b->q->own.flows.stat.throttles = 0;
	bpshaper_outside_make(test, socks);
	KUNIT_EXPECT_EQ(test, t->outside_len, 1);
	bpshaper_bench_reset(b);
	KUNIT_EXPECT_EQ(test, t->outside_len, 0);
	KUNIT_EXPECT_EQ(test, t->kept, 0);
	KUNIT_EXPECT_FALSE(test, hrtimer_is_queued(&b->q->turn_timer));
	bpshaper_outside_release(test, socks);
}

static struct kunit_case bpshaper_throttle_cases[] = {
	KUNIT_CASE(bpshaper_outside_test),
	KUNIT_CASE(bpshaper_turns_stop_test),
	KUNIT_CASE(bpshaper_turns_others_test),
	KUNIT_CASE(bpshaper_turns_spread_test),
	KUNIT_CASE(bpshaper_turns_ahead_test),
	KUNIT_CASE(bpshaper_outside_closed_test),
	KUNIT_CASE(bpshaper_outside_ends_test),
	KUNIT_CASE_PARAM(bpshaper_scarce_test, bpshaper_scarce_gen_params),
	KUNIT_CASE(bpshaper_review_test),
	KUNIT_CASE(bpshaper_idle_burst_test),
	KUNIT_CASE(bpshaper_idle_burst_sent_test),
	KUNIT_CASE(bpshaper_direct_time_test),
	KUNIT_CASE(bpshaper_peeked_test),
	KUNIT_CASE_PARAM(bpshaper_behind_test, bpshaper_behind_gen_params),
	{}
};

BPSHAPER_SUITE(throttle, bpshaper_bench_init, bpshaper_bench_exit);
