/* SPDX-License-Identifier: GPL-2.0-only */
/* Pacing: when may a packet leave, apart from the rate of the qdisc?
 *
 * A packet with a departure time (skb->tstamp, as TCP, SO_TXTIME and BPF
 * programs set it) leaves no earlier than that. A packet without one leaves no
 * faster than the pacing rate of its socket. No flow sends faster than
 * `maxrate`. The rules are those of sch_fq.
 *
 * A flow that has to wait does so in the tree of bpshaper_round.h. This file
 * only computes times, and marks sockets whose pacing it takes over. It knows
 * neither flow nor qdisc.
 */
#ifndef _BPSHAPER_PACING_H
#define _BPSHAPER_PACING_H

#define BPSHAPER_PACE_PKTS	2	/* of the MTU, sent at a time */
/* A receive timestamp is not older than this. */
#define BPSHAPER_RECEIVED_NS	(60ULL * NSEC_PER_SEC)

/**
 * struct bpshaper_pacing - pacing of a qdisc
 * @is_on: packets wait for their time
 * @drops_beyond: drop packets beyond the horizon
 * @batch_bytes: bytes that a flow paced by rate may send at a time
 * @generation: changes when the times that flows wait for are no longer valid
 * @maxrate_Bps: of one flow, bytes per second or TC_BPSHAPER_RATE_UNLIMITED
 * @low_rate_Bps: a flow paced by no more than this sends one packet at a time
 * @horizon_ns: longest wait for a packet's time
 * @stat_waits: times that a flow waited for the time of its next packet or for
 *	its rate
 * @stat_horizon_caps: packets whose time was set to the horizon
 */
struct bpshaper_pacing {
	bool	is_on;
	bool	drops_beyond;
	u32	batch_bytes;
	u32	generation;
	u64	maxrate_Bps;
	u64	low_rate_Bps;
	u64	horizon_ns;
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
			p->maxrate_Bps != c->maxrate_Bps ||
			p->horizon_ns != c->horizon_ns;

	p->generation += is_other;
	p->is_on = c->pacing;
	p->drops_beyond = c->horizon_drop;
	p->maxrate_Bps = c->maxrate_Bps;
	p->low_rate_Bps = c->low_rate_Bps;
	p->horizon_ns = c->horizon_ns;
	p->batch_bytes = BPSHAPER_PACE_PKTS * mtu;
	return is_other;
}

static inline void bpshaper_pacing_count_wait(struct bpshaper_pacing *p)
{
	p->stat_waits++;
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

/* The time at which a packet may leave; 0 if it has none in the future. A time
 * beyond the horizon is most likely of another clock and becomes the horizon.
 * Some paths leave the receive time (CLOCK_REALTIME) in a packet: ignore it.
 */
static u64 bpshaper_pacing_tstamp_ns(const struct bpshaper_pacing *p,
				     const struct sk_buff *skb, u64 now)
{
	u64 tstamp = ktime_to_ns(skb->tstamp), real_ns;

	if (!p->is_on || tstamp <= now)
		return 0;
	if (likely(tstamp - now <= p->horizon_ns))
		return tstamp;
	real_ns = ktime_get_real_ns();
	if (tstamp <= real_ns && real_ns - tstamp < BPSHAPER_RECEIVED_NS)
		return 0;
	return now + p->horizon_ns;
}

/* Note when the packet came and when it may leave. Return false if it must be
 * dropped.
 */
static bool bpshaper_pacing_stamp(struct bpshaper_pacing *p,
				  struct sk_buff *skb, u64 enqueued_ns,
				  u64 now)
{
	u64 tstamp_ns = bpshaper_pacing_tstamp_ns(p, skb, now);

	bpshaper_skb_cb(skb)->enqueued_ns = enqueued_ns;
	bpshaper_skb_cb(skb)->due_ns = tstamp_ns ?: enqueued_ns;
	if (likely(!tstamp_ns || tstamp_ns >= ktime_to_ns(skb->tstamp)))
		return true;
	if (p->drops_beyond)
		return false;
	p->stat_horizon_caps++;
	return true;
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
		     p->horizon_ns);
	f->paid_ns = max(f->next_ns, now - min(now, gap_ns / 2)) + gap_ns;
	/* Expect the next packet to be as long as this one. */
	if (Bps > p->low_rate_Bps &&
	    f->bytes + qdisc_pkt_len(skb) <= p->batch_bytes)
		return;
	f->bytes = 0;
	f->next_ns = f->paid_ns;
}

/* When @skb, the next packet of the flow, may leave. Ignore next_ns after a
 * configuration change, and limit the wait to the horizon that is valid now.
 */
static u64 bpshaper_pacing_ready_ns(const struct bpshaper_pacing *p,
				    struct bpshaper_paced *f,
				    const struct sk_buff *skb, u64 now)
{
	const struct bpshaper_skb_cb *cb = bpshaper_skb_cb(skb);

	if (unlikely(f->next_ns) && f->generation != p->generation) {
		f->bytes = 0;
		f->next_ns = 0;
	}
	if (likely(cb->due_ns <= now))
		return f->next_ns;
	return max(min(cb->due_ns, cb->enqueued_ns + p->horizon_ns),
		   f->next_ns);
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

#endif /* _BPSHAPER_PACING_H */
