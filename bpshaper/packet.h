/* SPDX-License-Identifier: GPL-2.0-only */
/* Packets: whose they are, when they may leave, and how long they waited. */
#ifndef _BPSHAPER_PACKET_H
#define _BPSHAPER_PACKET_H

/**
 * enum bpshaper_drop - why a packet was dropped
 * @BPSHAPER_DROP_POOL: the socketless pool was full
 * @BPSHAPER_DROP_MEMORY: memory_limit
 * @BPSHAPER_DROP_ALLOC: an allocation failed
 * @BPSHAPER_DROP_ACK: a pure ACK, and a later one took its place
 * @BPSHAPER_DROP_SEGMENTS: it could not be segmented, or into too many
 */
enum bpshaper_drop {
	BPSHAPER_DROP_POOL,
	BPSHAPER_DROP_MEMORY,
	BPSHAPER_DROP_ALLOC,
	BPSHAPER_DROP_ACK,
	BPSHAPER_DROP_SEGMENTS,
	BPSHAPER_DROP_REASONS
};

/* The cookie of a socket, as SO_COOKIE and `ss -e` have it. */
static inline u64 bpshaper_sock_cookie(struct sock *sk)
{
	u32 cookie[2];

	sock_diag_save_cookie(sk, cookie);
	return (u64)cookie[1] << 32 | cookie[0];
}

/* Packets: what the qdisc remembers about one, and what it asks of one. */

typedef void (*bpshaper_destructor_t)(struct sk_buff *skb);

/**
 * struct bpshaper_skb_cb - what a queued packet remembers
 * @enqueued_ns: when it was enqueued, CLOCK_MONOTONIC
 * @due_ns: it may not leave earlier, CLOCK_MONOTONIC; @enqueued_ns if it had no
 *	time in the future then
 */
struct bpshaper_skb_cb {
	u64	enqueued_ns;
	u64	due_ns;
};

static inline struct bpshaper_skb_cb *bpshaper_skb_cb(const struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct bpshaper_skb_cb));
	return (struct bpshaper_skb_cb *)qdisc_skb_cb(skb)->data;
}

static inline u64 bpshaper_skb_due_ns(const struct sk_buff *skb)
{
	return bpshaper_skb_cb(skb)->due_ns;
}

/* Did it have a time in the future when it was enqueued? */
static inline bool bpshaper_skb_is_timed(const struct sk_buff *skb)
{
	return bpshaper_skb_cb(skb)->due_ns > bpshaper_skb_cb(skb)->enqueued_ns;
}

/* Bytes of memory that a packet takes. truesize may be less: TCP charges 2
 * bytes for a pure ACK.
 */
static inline u32 bpshaper_skb_memory(const struct sk_buff *skb)
{
	return max_t(u32, skb->truesize, SKB_TRUESIZE(skb_end_offset(skb)));
}

/* Hash of the peer that a socket's packet goes to; never 0. skb_get_hash() is
 * no use: all packets of a socket that was ever connected have the hash of that
 * connection. IPv6 makes the flow label from the same hash, so ignore the
 * label.
 */
static u32 bpshaper_skb_peer_hash(const struct sk_buff *skb)
{
	struct flow_keys keys;

	skb_flow_dissect_flow_keys(skb, &keys, 0);
	keys.tags.flow_label = 0;
	return flow_hash_from_keys(&keys) ?: 1;
}

/* Is it an IP fragment? Its sender may be about to send the next one. */
static noinline bool bpshaper_skb_is_fragment(const struct sk_buff *skb)
{
	union {
		struct iphdr	v4;
		struct ipv6hdr	v6;
	} buf, *h;

	if (skb->protocol == htons(ETH_P_IP)) {
		h = skb_header_pointer(skb, skb_network_offset(skb),
				       sizeof(buf.v4), &buf.v4);
		return h && ip_is_fragment(&h->v4);
	}
	if (skb->protocol == htons(ETH_P_IPV6)) {
		h = skb_header_pointer(skb, skb_network_offset(skb),
				       sizeof(buf.v6), &buf.v6);
		return h && h->v6.nexthdr == NEXTHDR_FRAGMENT;
	}
	return false;
}

/* Can @skb get CE, as INET_ECN_set_ce() sees it? */
static bool bpshaper_skb_has_ect(const struct sk_buff *skb)
{
	const u8 *header = skb_network_header(skb);
	const u8 *tail = skb_tail_pointer(skb);

	switch (skb_protocol(skb, true)) {
	case htons(ETH_P_IP):
		return header + sizeof(struct iphdr) <= tail &&
		       !INET_ECN_is_not_ect(ipv4_get_dsfield(ip_hdr(skb)));
	case htons(ETH_P_IPV6):
		return header + sizeof(struct ipv6hdr) <= tail &&
		       !INET_ECN_is_not_ect(ipv6_get_dsfield(ipv6_hdr(skb)));
	}
	return false;
}

/* Wire length: what a packet is charged at the rate, as tbf counts it. */

/**
 * struct bpshaper_wire - how the link frames packets
 * @overhead: bytes on the wire beside those of qdisc_pkt_len()
 * @mpu: least bytes on the wire, @overhead included
 * @is_atm: packets occupy cells of 53 bytes, each with 48 bytes of payload
 * @is_framed: one of the above makes the length differ from qdisc_pkt_len()
 */
struct bpshaper_wire {
	u32	overhead;
	u32	mpu;
	bool	is_atm;
	bool	is_framed;
};

static struct bpshaper_wire bpshaper_wire_make(u32 overhead, u32 mpu,
					       u32 linklayer)
{
	bool is_atm = linklayer == TC_LINKLAYER_ATM;

	return (struct bpshaper_wire) {
		.overhead	= overhead,
		.mpu		= mpu,
		.is_atm		= is_atm,
		.is_framed	= overhead || mpu || is_atm,
	};
}

/* Bytes on the wire of a packet of @len bytes. */
static u32 bpshaper_wire_framed_len(const struct bpshaper_wire *w, u32 len)
{
	len = max(len + w->overhead, w->mpu);
	return w->is_atm ? DIV_ROUND_UP(len, 48) * 53 : len;
}

static u32 bpshaper_wire_len(const struct bpshaper_wire *w,
			     const struct sk_buff *skb)
{
	u32 len = qdisc_pkt_len(skb);

	return likely(!w->is_framed) ? len : bpshaper_wire_framed_len(w, len);
}

/* Owners: which sockets may be throttled? */

static inline bool bpshaper_sock_is_tcp(const struct sock *sk)
{
	return sk->sk_type == SOCK_STREAM && sk->sk_protocol == IPPROTO_TCP;
}

static inline bool bpshaper_sock_must_retransmit(const struct sock *sk)
{
	return bpshaper_sock_is_tcp(sk) && bpshaper_tcp_must_retransmit(sk);
}

/* @sk is NULL if the packet was orphaned, or is a segment without an owner. */
static inline bool bpshaper_sock_is_full(const struct sock *sk)
{
	return sk && sk_fullsock(sk);
}

/* May a device of network namespace @net throttle the socket? It may throttle
 * sockets of @net, and of namespaces that belong to @net's user namespace or to
 * one below it. So a host may throttle its containers, but a container with a
 * user namespace of its own cannot throttle the host's sockets whose packets
 * pass its device. A kernel socket does not hold its namespace: do not look at
 * it.
 */
static inline bool bpshaper_sock_is_ours(const struct sock *sk,
					 const struct net *net)
{
	const struct user_namespace *ns;

	if (likely(net_eq(sock_net(sk), net)))
		return true;
	if (!sk->sk_net_refcnt)
		return false;
	for (ns = sock_net(sk)->user_ns; ns; ns = ns->parent)
		if (ns == net->user_ns)
			return true;
	return false;
}

/* Who is it that a device of network namespace @net throttles? In @net the user
 * of the socket. Another namespace that only root of @net can have made is one
 * user, since its root may send as any. Anybody can make user namespaces: all
 * below one of @net's users, and the network namespaces in them, are one.
 */
static u64 bpshaper_sock_user_key(const struct sock *sk, const struct net *net)
{
	const struct user_namespace *ns = sock_net(sk)->user_ns;

	if (net_eq(sock_net(sk), net))
		return __kuid_val(sk->sk_uid);
	if (ns == net->user_ns)
		return BIT_ULL(32) | sock_net(sk)->ns.inum;
	while (ns->parent && ns->parent != net->user_ns)
		ns = ns->parent;
	return BIT_ULL(33) | __kuid_val(ns->owner);
}

/* tun_sock_write_space() wakes only if poll() or a writer has set this bit, and
 * clears it. With ballast nobody had a reason to set it.
 */
static inline void bpshaper_sock_ask_to_wake(struct sock *sk)
{
	if (sk->sk_family == AF_UNSPEC && sk->sk_socket)
		set_bit(SOCKWQ_ASYNC_NOSPACE, &sk->sk_socket->flags);
}

/* A tun or tap device, whose send buffer is not bounded? */
static inline bool bpshaper_sock_is_unbounded(const struct sock *sk)
{
	return sk->sk_family == AF_UNSPEC &&
	       READ_ONCE(sk->sk_sndbuf) == INT_MAX;
}

/* sk_wmem_alloc saturates from 2^31 on. Several qdiscs may charge a socket at
 * the same time without seeing each other's charge. With these bounds five may.
 */
#define BPSHAPER_CHARGE_MAX	BIT(28)	/* bytes, by one qdisc */
#define BPSHAPER_WMEM_MAX	BIT(29)	/* bytes, before charging */

/**
 * enum bpshaper_unheld - why the socket of a packet cannot be throttled
 * @BPSHAPER_HELD: it can
 * @BPSHAPER_NO_OWNER: there is none that the packet is charged to
 * @BPSHAPER_FOREIGN: it belongs to a foreign user namespace
 * @BPSHAPER_SNDBUF: its send buffer is too large to be filled
 * @BPSHAPER_CONTROL: it is the kernel's own, or no full socket (TCP handshake)
 * @BPSHAPER_DESTRUCTOR: it does not wait for sk_wmem_alloc: the destructor of
 *	the packet is not known to only uncharge and wake
 * @BPSHAPER_UNHELD_REASONS: how many there are
 */
enum bpshaper_unheld {
	BPSHAPER_HELD,
	BPSHAPER_NO_OWNER,
	BPSHAPER_FOREIGN,
	BPSHAPER_SNDBUF,
	BPSHAPER_CONTROL,
	BPSHAPER_DESTRUCTOR,
	BPSHAPER_UNHELD_REASONS
};

/* @net is the namespace of the device. Pure ACKs have another destructor, and
 * join the flow of their socket all the same.
 */
static inline enum bpshaper_unheld
bpshaper_skb_unheld(const struct sk_buff *skb, const struct net *net)
{
	const struct sock *sk = skb->sk;

	if (!sk || !skb->destructor)
		return BPSHAPER_NO_OWNER;
	if (!bpshaper_sock_is_full(sk))
		return BPSHAPER_CONTROL;
	if (!bpshaper_sock_is_ours(sk, net))
		return BPSHAPER_FOREIGN;
	if (READ_ONCE(sk->sk_sndbuf) > BPSHAPER_CHARGE_MAX &&
	    !bpshaper_sock_is_unbounded(sk))
		return BPSHAPER_SNDBUF;
	if (bpshaper_sock_is_tcp(sk))
		return skb_is_tcp_pure_ack(skb) ||
		       skb->destructor == sock_wfree ||
		       !bpshaper_is_tcp_wfree(skb->destructor) ?
			BPSHAPER_DESTRUCTOR : BPSHAPER_HELD;
	/* The kernel's own sockets for ICMP, ND, IGMP and TCP resets do not
	 * wait for room: throttling one loses the answers of the whole machine.
	 * They are raw sockets that the kernel made; most also have the flag.
	 */
	if (sock_flag(sk, SOCK_USE_WRITE_QUEUE) ||
	    (sk->sk_kern_sock && sk->sk_type == SOCK_RAW))
		return BPSHAPER_CONTROL;
	return skb->destructor == sock_wfree || sk->sk_family == PF_PACKET ?
		BPSHAPER_HELD : BPSHAPER_DESTRUCTOR;
}

/* What uncharges ballast of a packet's socket; NULL if that cannot be
 * throttled. The transmit ring of a packet socket has a destructor of its own,
 * which reports the ring's frame and then does what sock_wfree() does.
 */
static inline bpshaper_destructor_t
bpshaper_ballast_destructor(const struct sk_buff *skb, const struct net *net)
{
	if (bpshaper_skb_unheld(skb, net))
		return NULL;
	return bpshaper_sock_is_tcp(skb->sk) ? skb->destructor : sock_wfree;
}

/* Counters */

/**
 * struct bpshaper_counters - what a leaf counts, each in a u64
 * @throttles: transitions to THROTTLED (hold.h, down to @turns)
 * @unthrottles: transitions from THROTTLED or OUTSIDE to UNTHROTTLED
 * @idle_throttles: throttles of sockets, but TCP, that had been idle less than
 *	BPSHAPER_IDLE_NS before
 * @ballast_errors: failed allocations of a ballast
 * @turns: turns given
 * @ce_marks: packets marked (dequeue.h)
 * @drops: packets dropped, by enum bpshaper_drop (sched.h)
 * @delay_hist: packets by the time that they waited (dequeue.h)
 * @throttle_hist: durations of ended throttles (hold.h)
 * @outside_hist: times that sockets were outside (hold.h)
 */
struct bpshaper_counters {
	u64	throttles;
	u64	unthrottles;
	u64	idle_throttles;
	u64	ballast_errors;
	u64	turns;
	u64	ce_marks;
	u64	drops[BPSHAPER_DROP_REASONS];
	u64	delay_hist[TC_BPSHAPER_HIST_BUCKETS];
	u64	throttle_hist[TC_BPSHAPER_HIST_BUCKETS];
	u64	outside_hist[TC_BPSHAPER_HIST_BUCKETS];
};

/* Add @size bytes of counters to others of the same kind. */
static void bpshaper_counters_add(void *to, const void *from, size_t size)
{
	const u64 *more = from;
	u64 *sum = to;

	for (; size; size -= sizeof(*sum))
		*sum++ += *more++;
}

/* Count a time in a histogram: bucket 0 counts times below 1024 ns, bucket i
 * those from 2^(i + 9) ns to less than twice that, the last one all longer
 * ones, too.
 */
static inline void bpshaper_hist_add(u64 *hist, u64 ns)
{
	hist[min(fls64(ns >> 10), TC_BPSHAPER_HIST_BUCKETS - 1)]++;
}

/* Pacing: when may a packet leave, apart from the rate of the qdisc?
 *
 * A packet with a departure time (skb->tstamp, as TCP, SO_TXTIME and BPF
 * programs set it) leaves no earlier than that. A packet without one leaves no
 * faster than the pacing rate of its socket. No flow sends faster than
 * `maxrate`. The rules are those of sch_fq.
 *
 * A flow that has to wait does so in a tree (order.h). This section only
 * computes times.
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

/* A flow has sent @skb: compute when it may send again, by its rate or that of
 * the socket. The latter does not pace a packet with a time: its sender has
 * decided when it leaves. A late timer is made up for, but by no more than half
 * of the gap, so that gaps stay gaps.
 */
static void bpshaper_pacing_charge(const struct bpshaper_pacing *p,
				   struct bpshaper_paced *f,
				   struct sk_buff *skb, u64 now)
{
	u64 Bps = p->maxrate_Bps, gap_ns;
	unsigned long sk_Bps = ~0UL;

	if (!p->is_on)
		return;
	if (!skb->tstamp && bpshaper_sock_is_full(skb->sk) &&
	    !skb_is_tcp_pure_ack(skb))
		sk_Bps = READ_ONCE(skb->sk->sk_pacing_rate);
	if (sk_Bps != ~0UL)
		Bps = min_t(u64, Bps, max(sk_Bps, 1UL));
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
 * (dequeue.h).
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

#endif /* _BPSHAPER_PACKET_H */
