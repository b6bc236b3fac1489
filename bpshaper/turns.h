/* SPDX-License-Identifier: GPL-2.0-only */
/* Times: histograms, departure times and rates of flows, turns, and marks. */
#ifndef _BPSHAPER_TURNS_H
#define _BPSHAPER_TURNS_H

/* Histograms of times, with the buckets of the uAPI. */

/**
 * struct bpshaper_hist - a histogram of times
 * @counts: histogram bucket 0 counts times below 1024 ns, bucket i those from
 *	2^(i + 9) ns to less than twice that, the last one all longer ones, too
 */
struct bpshaper_hist {
	u64	counts[TC_BPSHAPER_HIST_BUCKETS];
};

static inline void bpshaper_hist_add(struct bpshaper_hist *h, u64 ns)
{
	h->counts[min(fls64(ns >> 10), TC_BPSHAPER_HIST_BUCKETS - 1)]++;
}

static void bpshaper_hist_sum(u64 *counts, const struct bpshaper_hist *h)
{
	int i;

	for (i = 0; i < TC_BPSHAPER_HIST_BUCKETS; i++)
		counts[i] += h->counts[i];
}

/* Pacing: when may a packet leave, apart from the rate of the qdisc?
 *
 * A packet with a departure time (skb->tstamp, as TCP, SO_TXTIME and BPF
 * programs set it) leaves no earlier than that. A packet without one leaves no
 * faster than the pacing rate of its socket. No flow sends faster than
 * `maxrate`. The rules are those of sch_fq.
 *
 * A flow that has to wait does so in the tree of flow.h. This
 * section only computes times, and marks sockets whose pacing it takes over. It
 * knows neither flow nor qdisc.
 */

#define BPSHAPER_PACE_PKTS	2	/* of the MTU, sent at a time */
/* As fq has them: the longest wait for a packet's time, and the rate at which
 * a flow sends one packet at a time.
 */
#define BPSHAPER_HORIZON_NS	(10ULL * NSEC_PER_SEC)
#define BPSHAPER_LOW_RATE_BPS	68750
/* No CLOCK_MONOTONIC is later, as the kernel keeps it. */
#define BPSHAPER_UPTIME_MAX_NS	(1ULL * TIME_UPTIME_SEC_MAX * NSEC_PER_SEC)

/**
 * struct bpshaper_pacing - pacing of a qdisc
 * @is_on: packets wait for their time
 * @batch_bytes: bytes that a flow paced by rate may send at a time
 * @generation: changes when the times that flows wait for are no longer valid
 * @maxrate_Bps: of one flow, bytes per second or TC_BPSHAPER_RATE_UNLIMITED
 * @stat_waits: times that a flow waited for the time of its next packet or for
 *	its rate (dequeue.h)
 * @stat_horizon_caps: packets whose time was set to the horizon
 */
struct bpshaper_pacing {
	bool	is_on;
	u32	batch_bytes;
	u32	generation;
	u64	maxrate_Bps;
	u64	stat_waits;
	u64	stat_horizon_caps;
};

/**
 * struct bpshaper_paced - pacing of a flow by a rate
 * @next_ns: the next packet may leave then, CLOCK_MONOTONIC
 * @paid_ns: the bytes sent so far take until then at the rate
 * @bytes: sent since @next_ns was moved
 * @generation: of struct bpshaper_pacing, that @next_ns belongs to
 */
struct bpshaper_paced {
	u64	next_ns;
	u64	paid_ns;
	u32	bytes;
	u32	generation;
};

/* Return true if flows may wait for times that are no longer valid. */
static bool bpshaper_pacing_configure(struct bpshaper_pacing *p,
				      const struct bpshaper_config *c, u32 mtu)
{
	bool is_other = p->is_on != c->pacing ||
			p->maxrate_Bps != c->maxrate_Bps;

	p->generation += is_other;
	p->is_on = c->pacing;
	p->maxrate_Bps = c->maxrate_Bps;
	p->batch_bytes = BPSHAPER_PACE_PKTS * mtu;
	return is_other;
}

/* Take over the pacing of a TCP socket, which would otherwise use a timer of
 * its own. Unlike fq, leave sockets alone that do not pace.
 */
static void bpshaper_pacing_take_over(struct sock *sk)
{
	if (READ_ONCE(sk->sk_pacing_status) == SK_PACING_NEEDED)
		cmpxchg(&sk->sk_pacing_status, SK_PACING_NEEDED, SK_PACING_FQ);
}

/* Must a packet take the slow path even if the qdisc is empty? With a pacing
 * rate its flow must be known. A TCP socket that still paces by its own timer
 * must be taken over. A time in the future does not matter here: dequeue finds
 * it.
 */
static inline bool
bpshaper_pacing_needs_flow(const struct bpshaper_pacing *p,
			   const struct sk_buff *skb)
{
	const struct sock *sk = skb->sk;

	if (!bpshaper_sock_is_full(sk) || !p->is_on)
		return false;
	return skb->tstamp ?
		READ_ONCE(sk->sk_pacing_status) == SK_PACING_NEEDED :
		READ_ONCE(sk->sk_pacing_rate) != ~0UL;
}

/* Has the socket a pacing rate? Whether its packet has a time does not matter:
 * a socket could else be two kinds of socket by turns.
 */
static inline bool bpshaper_pacing_has_rate(const struct bpshaper_pacing *p,
					    const struct sock *sk)
{
	return p->is_on && (p->maxrate_Bps != TC_BPSHAPER_RATE_UNLIMITED ||
			    READ_ONCE(sk->sk_pacing_rate) != ~0UL);
}

/* The time at which a packet may leave, CLOCK_MONOTONIC; 0 if it has none in
 * the future. SO_TXTIME may name another clock, and some paths leave the
 * receive time in a packet: that is CLOCK_REALTIME, and past. BPF programs set
 * times without saying of which clock, so it is the value that tells.
 */
static u64 bpshaper_pacing_tstamp_ns(const struct bpshaper_pacing *p,
				     const struct sk_buff *skb, u64 now)
{
	s64 tstamp = ktime_to_ns(skb->tstamp);

	if (unlikely((u64)tstamp > BPSHAPER_UPTIME_MAX_NS))
		tstamp -= ktime_mono_to_any(0, bpshaper_skb_tk_offs(skb));
	return p->is_on && tstamp > (s64)now ? tstamp : 0;
}

/* Note when the packet came and when it may leave, which is at the horizon at
 * the latest.
 */
static void bpshaper_pacing_stamp(struct bpshaper_pacing *p,
				  struct sk_buff *skb, u64 enqueued_ns,
				  u64 now)
{
	u64 due_ns = bpshaper_pacing_tstamp_ns(p, skb, now) ?: enqueued_ns;

	if (unlikely(due_ns > now + BPSHAPER_HORIZON_NS)) {
		due_ns = now + BPSHAPER_HORIZON_NS;
		p->stat_horizon_caps++;
	}
	bpshaper_skb_cb(skb)->enqueued_ns = enqueued_ns;
	bpshaper_skb_cb(skb)->due_ns = due_ns;
}

/* The rate that the flow of @skb is paced at. The rate of the socket does not
 * pace a packet with a time: its sender has decided when it leaves.
 */
static u64 bpshaper_pacing_Bps(const struct bpshaper_pacing *p,
			       struct sk_buff *skb)
{
	unsigned long sk_Bps;

	if (!skb->tstamp && bpshaper_sock_is_full(skb->sk) &&
	    !skb_is_tcp_pure_ack(skb)) {
		sk_Bps = READ_ONCE(skb->sk->sk_pacing_rate);
		if (sk_Bps != ~0UL)
			return min_t(u64, p->maxrate_Bps, max(sk_Bps, 1UL));
	}
	return p->maxrate_Bps;
}

/* A flow has sent @skb: compute when it may send again. A late timer is made up
 * for, but by no more than half of the gap, so that gaps stay gaps.
 */
static void bpshaper_pacing_charge(const struct bpshaper_pacing *p,
				   struct bpshaper_paced *f,
				   struct sk_buff *skb, u64 now)
{
	u64 Bps, gap_ns;

	if (!p->is_on)
		return;
	Bps = bpshaper_pacing_Bps(p, skb);
	if (likely(Bps == TC_BPSHAPER_RATE_UNLIMITED))
		return;

	f->generation = p->generation;
	f->bytes += qdisc_pkt_len(skb);
	gap_ns = min(div64_u64((u64)f->bytes * NSEC_PER_SEC, Bps),
		     BPSHAPER_HORIZON_NS);
	f->paid_ns = max(f->next_ns, now - min(now, gap_ns / 2)) + gap_ns;
	/* Expect the next packet to be as long as this one. */
	if (Bps > BPSHAPER_LOW_RATE_BPS &&
	    f->bytes + qdisc_pkt_len(skb) <= p->batch_bytes)
		return;
	f->bytes = 0;
	f->next_ns = f->paid_ns;
}

/* When @skb, the next packet of the flow, may leave. Ignore next_ns after a
 * configuration change.
 */
static u64 bpshaper_pacing_ready_ns(const struct bpshaper_pacing *p,
				    struct bpshaper_paced *f,
				    const struct sk_buff *skb, u64 now)
{
	u64 due_ns = bpshaper_skb_cb(skb)->due_ns;

	if (unlikely(f->next_ns) && f->generation != p->generation) {
		f->bytes = 0;
		f->next_ns = 0;
	}
	return unlikely(due_ns > now) ? max(due_ns, f->next_ns) : f->next_ns;
}

/* Has the flow sent ahead of its rate? */
static bool bpshaper_paced_is_owing(const struct bpshaper_paced *f, u64 now)
{
	return f->paid_ns > now;
}

/* Another socket got the flow: forget what the old one owed. */
static void bpshaper_paced_clear(struct bpshaper_paced *f)
{
	f->next_ns = 0;
	f->paid_ns = 0;
	f->bytes = 0;
}

/* Turns: which sockets may have a part of the queue?
 *
 * The sockets' part of the queue is `limit` bytes, however many sockets there
 * are. A throttled socket that has drained while there is no room waits outside
 * (BPSHAPER_OUTSIDE): it keeps its ballast and needs no packet. When there is
 * room, the first outside gets a turn: it is released and may queue a share,
 * its rest. The rests of all turns count as if they were queued already.
 *
 * Who is first is decided by the virtual time of its flow (flow.h), what it has
 * queued counted as sent. So a socket that always has something to send is as
 * far as the virtual time of all, and one that sends less is behind it. A
 * socket without a turn may send while it is less than a share ahead. Sparse
 * sockets never wait.
 *
 * A socket with several peers takes no turns, nor does one that is paced by a
 * rate, nor TCP, nor the pool. Their flows are always inside, and those of the
 * others for a part of the time. Both get their part, as those outside count in
 * the order.
 *
 * A socket that has got a turn may not use it: the application has nothing to
 * send, or does not run. Its turn ends after @patience_ns. While less than a
 * quarter of the limit is queued and nobody sends, others get a turn early.
 *
 * The caller holds the root lock of the qdisc.
 */

#define BPSHAPER_TURNS_BATCH	8	/* sockets that get a turn at once */
#define BPSHAPER_TURNS_REVIEW	32	/* sockets outside, by the timer */
#define BPSHAPER_DRY_DIVISOR	4	/* of the limit */
#define BPSHAPER_DRY_NS		(15 * NSEC_PER_USEC)	/* a task wakes up */
#define BPSHAPER_DRY_MAX_NS	(120 * NSEC_PER_USEC)
#define BPSHAPER_PATIENCE_MIN_NS NSEC_PER_MSEC
#define BPSHAPER_PATIENCE_MAX_NS (100 * NSEC_PER_MSEC)
/* Nobody was outside for so long: all sockets start at the same time again. */
#define BPSHAPER_TURNS_OVER_NS	(100 * NSEC_PER_MSEC)
#define BPSHAPER_UNSERVED_SHARES 8	/* sent without a turn */

/**
 * struct bpshaper_turns - who is inside, who waits outside
 * @outside: sockets outside, by virtual time
 * @outside_list: the same, in the order in which they are to be reviewed
 * @outside_len: their number
 * @taking: sockets that have a turn, longest first
 * @rest: bytes with framing that they may still queue in their turns
 * @inside: bytes that sockets which take turns have queued and that are not for
 *	later (flow.h and table.h)
 * @kept: kept flows: sockets without a backlog that are throttled or have a
 *	turn (table.h)
 * @bursts: bytes that sockets were let queue beyond their shares (throttle.h)
 * @bursts_most: bytes that these may be (sched.h)
 * @new_ns: when a new socket got tokens last, CLOCK_MONOTONIC (throttle.h)
 * @unserved: bytes that have left since a socket got a turn (throttle.h)
 * @each: bytes that a socket sends in one go (throttle.h)
 * @start_ns: since when there is always somebody outside
 * @over_ns: when the last socket outside got its turn
 * @active_ns: when a socket got a turn last, or sent in its turn
 * @dry_ns: how long to wait before the next one gets a turn early
 * @patience_ns: how long a turn lasts at most
 * @is_soon: the timer is armed for @dry_ns (throttle.h)
 * @stat_turns: turns given
 * @outside_hist: times that sockets were outside
 */
struct bpshaper_turns {
	struct rb_root_cached	outside;
	struct list_head	outside_list;
	u32			outside_len;
	struct list_head	taking;
	u64			rest;
	u64			inside;
	u32			kept;
	u32			each;
	bool			is_soon;
	u32			bursts;
	u32			bursts_most;
	u64			new_ns;
	u32			dry_ns;
	u32			unserved;
	u64			start_ns;
	u64			over_ns;
	u64			active_ns;
	u64			patience_ns;
	u64			stat_turns;
	struct bpshaper_hist	outside_hist;
};

static void bpshaper_turns_init(struct bpshaper_turns *turns)
{
	turns->outside = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&turns->outside_list);
	INIT_LIST_HEAD(&turns->taking);
	turns->outside_len = 0;
	turns->rest = 0;
	turns->inside = 0;
	turns->kept = 0;
	turns->each = 0;
	turns->is_soon = false;
	turns->bursts = 0;
	turns->dry_ns = BPSHAPER_DRY_NS;
}

/* @limit_ns is the time that the limit takes at the rate. */
static void bpshaper_turns_configure(struct bpshaper_turns *turns, u64 limit_ns)
{
	turns->patience_ns = clamp_t(u64, limit_ns, BPSHAPER_PATIENCE_MIN_NS,
				     BPSHAPER_PATIENCE_MAX_NS);
}

/* Does anybody wait for a turn, or have one? */
static inline bool bpshaper_turns_are_on(const struct bpshaper_turns *turns)
{
	return turns->outside_len || turns->rest;
}

/* Of what the socket has queued, @bytes are beyond its share. */
static void bpshaper_burst_set(struct bpshaper_turns *turns,
			       struct bpshaper_socket *s, u32 bytes)
{
	turns->bursts += bytes - s->burst;
	s->burst = bytes;
}

/* Has the socket got a turn or gone outside lately? */
static bool bpshaper_socket_had_turn(const struct bpshaper_turns *turns,
				     const struct bpshaper_socket *s, u64 now)
{
	return now - s->turn_ns <= 2 * turns->patience_ns;
}

/* How long the socket was outside before it could queue what it sends now. */
static inline u64 bpshaper_socket_waited_ns(const struct bpshaper_turns *turns,
					    const struct bpshaper_socket *s,
					    u64 now)
{
	if (likely(!bpshaper_turns_are_on(turns)) ||
	    !bpshaper_socket_takes_turns(s) ||
	    !bpshaper_socket_had_turn(turns, s, now))
		return 0;
	return s->outside_ns;
}

/* Outside */

static struct bpshaper_socket *
bpshaper_turns_first(const struct bpshaper_turns *turns)
{
	return container_of(bpshaper_tag_first(&turns->outside),
			    struct bpshaper_socket, outside);
}

/* The virtual time of the first socket outside; U64_MAX if there is none. */
static u64 bpshaper_turns_first_at(const struct bpshaper_turns *turns)
{
	const struct bpshaper_tag *first = bpshaper_tag_first(&turns->outside);

	return first ? first->at : U64_MAX;
}

/* A throttled socket waits outside, at virtual time @at. The caller sets its
 * state.
 */
static void bpshaper_turns_join(struct bpshaper_turns *turns,
				struct bpshaper_socket *s, u64 at, u64 now)
{
	if (!turns->outside_len++ &&
	    now - turns->over_ns > BPSHAPER_TURNS_OVER_NS)
		turns->start_ns = now;
	if (!bpshaper_socket_had_turn(turns, s, now))
		s->outside_ns = 0;
	s->turn_ns = now;
	s->outside.at = at;
	bpshaper_tag_link(&turns->outside, &s->outside);
	list_move_tail(&s->node, &turns->outside_list);
}

/* The socket is outside no longer. The caller takes it from the list. */
static void bpshaper_turns_leave(struct bpshaper_turns *turns,
				 struct bpshaper_socket *s, u64 now)
{
	rb_erase_cached(&s->outside.node, &turns->outside);
	if (!--turns->outside_len)
		turns->over_ns = now;
	s->outside_ns = now - s->turn_ns;
	bpshaper_hist_add(&turns->outside_hist, s->outside_ns);
}

/* The socket outside to look at next, which goes to the end of the list. */
static struct bpshaper_socket *
bpshaper_turns_next_review(struct bpshaper_turns *turns)
{
	struct bpshaper_socket *s;

	s = list_first_entry_or_null(&turns->outside_list,
				     struct bpshaper_socket, node);
	if (s)
		list_move_tail(&s->node, &turns->outside_list);
	return s;
}

/* Turns */

/* The socket has been released, and gets a turn of @share bytes. */
static void bpshaper_turn_begin(struct bpshaper_turns *turns,
				struct bpshaper_socket *s, u32 share, u64 now)
{
	turns->stat_turns++;
	turns->unserved = 0;
	turns->active_ns = now;
	s->turn_ns = now;
	s->rest = share;
	s->is_unused = true;
	turns->rest += share;
	list_add_tail(&s->node, &turns->taking);
}

/* End the turn of a socket that has one. */
static void bpshaper_turn_end(struct bpshaper_turns *turns,
			      struct bpshaper_socket *s)
{
	if (!s->rest)
		return;
	turns->rest -= s->rest;
	s->rest = 0;
	list_del_init(&s->node);
}

/* The socket has queued a packet of @wire bytes with framing. Return whether it
 * had a turn which is used up: another packet of that size would exceed it.
 */
static bool bpshaper_turns_count(struct bpshaper_turns *turns,
				 struct bpshaper_socket *s, u32 wire, u64 now)
{
	if (!s->rest)
		return false;
	s->is_unused = false;
	turns->active_ns = now;
	turns->dry_ns = BPSHAPER_DRY_NS;
	if (s->rest < 2ULL * wire) {
		bpshaper_turn_end(turns, s);
		return true;
	}
	s->rest -= wire;
	turns->rest -= wire;
	return false;
}

/* Is so little queued that the link may run idle before those come who have a
 * turn?
 */
static bool bpshaper_turns_are_dry(const struct bpshaper_turns *turns,
				   u32 limit)
{
	return turns->inside * BPSHAPER_DRY_DIVISOR < limit;
}

/* A burst takes no room: others would be outside until it has left. */
static bool bpshaper_turns_have_room(const struct bpshaper_turns *turns,
				     u32 limit)
{
	return turns->inside + turns->rest < limit + (u64)turns->bursts;
}

/* How many sockets may get a turn although there is no room: some if the link
 * may run idle; and the first one if a stranger @is_ahead of it, or too much
 * has left without a turn. Others could else keep it outside for ever.
 */
static u32 bpshaper_turns_early(struct bpshaper_turns *turns, u32 limit,
				u32 share, bool is_ahead, u64 now)
{
	if (bpshaper_turns_have_room(turns, limit))
		return 0;
	if (is_ahead || turns->unserved / BPSHAPER_UNSERVED_SHARES >= share)
		return 1;
	if (!bpshaper_turns_are_dry(turns, limit) ||
	    now - turns->active_ns < turns->dry_ns)
		return 0;
	if (turns->dry_ns < BPSHAPER_DRY_MAX_NS) {
		turns->dry_ns *= 2;
		return 1;
	}
	return BPSHAPER_TURNS_BATCH;
}

/* Marks: which packets get CE?
 *
 * By default the probability of a mark is the square of what a
 * proportional-integral controller keeps, PI2 (De Schepper et al. 2016; RFC
 * 9332, A.1): it rises while packets wait longer than the target, or longer
 * than before, and falls while they do not. Each flow has one, so a sender that
 * ignores marks raises its own probability only. With ce_threshold there is
 * nothing but that threshold.
 *
 * A mark follows from the wait of a packet and of its socket before it
 * (throttle.h).
 */

#define BPSHAPER_MARKS_PERIOD_NS	(16 * NSEC_PER_MSEC)
#define BPSHAPER_MARKS_IDLE_NS		(10 * BPSHAPER_MARKS_PERIOD_NS)
#define BPSHAPER_MARKS_LIMIT_MAX_NS	(10ULL * NSEC_PER_SEC)

/* Gains of a period, 2^-32 for each ns: 0.1 * period / RTT^2 and 0.3 / RTT (RFC
 * 9332, A.1) with a round trip of 25 ms.
 */
#define BPSHAPER_MARKS_ALPHA	11
#define BPSHAPER_MARKS_BETA	52

/**
 * struct bpshaper_marks - which packets of a leaf are marked
 * @threshold_ns: those of sockets that are held, if they have waited longer;
 *	with ce_threshold all
 * @floor_ns: none that has not
 * @target_ns: the wait in between that is aimed at; 0: with ce_threshold
 */
struct bpshaper_marks {
	u64	threshold_ns;
	u64	floor_ns;
	u64	target_ns;
};

/**
 * struct bpshaper_pi2 - how likely a mark is for packets of a flow
 * @start_ns: when the period began, CLOCK_MONOTONIC
 * @sum_ns: waits in it, up to the threshold each
 * @packets: their number
 * @mean_ns: the mean wait in the period before
 * @root: square root of the probability, in 2^-32
 */
struct bpshaper_pi2 {
	u64	start_ns;
	u64	sum_ns;
	u64	mean_ns;
	u32	packets;
	u32	root;
};

/* The limit of the leaf takes @limit_ns. */
static void bpshaper_marks_configure(struct bpshaper_marks *m,
				     u64 ce_threshold_ns, u64 limit_ns)
{
	limit_ns = min(limit_ns, BPSHAPER_MARKS_LIMIT_MAX_NS);
	m->threshold_ns = ce_threshold_ns ?: limit_ns + limit_ns / 2;
	m->floor_ns = ce_threshold_ns ?: limit_ns / 4;
	m->target_ns = ce_threshold_ns ? 0 : limit_ns / 2;
}

static void bpshaper_pi2_end_period(struct bpshaper_pi2 *pi, u64 target_ns,
				    u64 now)
{
	s64 mean_ns = div_u64(pi->sum_ns, pi->packets), root = pi->root;

	root += BPSHAPER_MARKS_ALPHA * (mean_ns - (s64)target_ns) +
		BPSHAPER_MARKS_BETA * (mean_ns - (s64)pi->mean_ns);
	if (now - pi->start_ns > BPSHAPER_MARKS_IDLE_NS)
		root = 0;
	pi->root = clamp_t(s64, root, 0, U32_MAX);
	pi->mean_ns = mean_ns;
	pi->start_ns = now;
	pi->sum_ns = 0;
	pi->packets = 0;
}

/* Is a packet that waited @wait_ns not marked, whatever it is, and needs not be
 * counted? Then nobody has to look at it.
 */
static inline bool bpshaper_marks_pass(const struct bpshaper_marks *m,
				       const struct bpshaper_pi2 *pi,
				       u64 wait_ns)
{
	return wait_ns <= m->floor_ns && !pi->root;
}

/* A packet that may be marked leaves after @wait_ns: is it to be? If its socket
 * may be held, it is after a long wait in any case.
 */
static bool bpshaper_marks_decide(const struct bpshaper_marks *m,
				  struct bpshaper_pi2 *pi, bool may_be_held,
				  u64 wait_ns, u64 now)
{
	if (!m->target_ns)
		return wait_ns > m->threshold_ns;
	pi->sum_ns += min(wait_ns, m->threshold_ns);
	pi->packets++;
	if (now - pi->start_ns > BPSHAPER_MARKS_PERIOD_NS)
		bpshaper_pi2_end_period(pi, m->target_ns, now);
	if (may_be_held && wait_ns > m->threshold_ns)
		return true;
	return wait_ns > m->floor_ns &&
	       (u64)pi->root * pi->root >> 32 > get_random_u32();
}

#endif /* _BPSHAPER_TURNS_H */
