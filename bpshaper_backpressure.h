/* SPDX-License-Identifier: GPL-2.0-only */
/* Backpressure: which sockets may not send?
 *
 * A module cannot add a field to struct sock, and need not: a socket that must
 * wait is charged. The ballast is an skb without data, owned by the socket like
 * one of its packets, whose truesize fills the send buffer. Every rule the
 * kernel has for a full send buffer then applies: sendmsg() sleeps or returns
 * EAGAIN, poll() reports no room, TCP's small-queue check holds the stream. To
 * release the socket, free the ballast: the socket's own destructor uncharges
 * and wakes. The charge also pins the socket, as each of its packets does, so
 * close() needs no hook.
 *
 *                     data > share, at enqueue
 *      UNTHROTTLED ------------------------------> OVERLIMIT
 *       ^      ^                                    |     |
 *       |      |  drained to a quarter of its share |     | out of tokens, or the
 *       |      +------------------------------------+     | queue is not drained:
 *       |                                                 | charge the ballast
 *       |       drained to a quarter of it, or purged:    v
 *       +--------------------------------------------- THROTTLED
 *                free the ballast
 *
 *	state		on list		ballast		data
 *	UNTHROTTLED	none		NULL		any
 *	OVERLIMIT	overlimit	NULL		> 0
 *	THROTTLED	throttled	set		> 0
 *
 * Data is what counts of the packets in all flows of the socket (bpshaper_socket.h). The share is
 * that of a socket with one flow, and for each further peer that has a flow, parked or not, as much
 * as it needs to be served in turn, for BPSHAPER_PEERS_MAX at most: without that a socket with
 * many peers could not use the turns that these have.
 *
 * All of it runs under the root lock of the qdisc. Only the ballast is freed
 * later, in the transmit softirq, for the destructor wakes a task and may run
 * any protocol's write_space callback.
 */
#ifndef _BPSHAPER_BACKPRESSURE_H
#define _BPSHAPER_BACKPRESSURE_H

/* sk_wmem_alloc saturates above 2^31. Several qdiscs may charge one socket at a
 * time, each without seeing the others' charge: with these bounds six may.
 */
#define BPSHAPER_CHARGE_MAX	BIT(28)	/* bytes, by one qdisc */
#define BPSHAPER_WMEM_MAX	BIT(29)	/* bytes, found before charging */

#define BPSHAPER_THROTTLE_BATCH	64	/* sockets in one dequeue */
#define BPSHAPER_PEERS_MAX	1024	/* of a socket, that raise its share; see bpshaper.rst */
/* Bytes of the machine: with the ballast, which is an skb and the least head. */
#define BPSHAPER_SOCKET_MEMORY	(sizeof(struct bpshaper_socket) + 960)

/* TCP stops at its small-queue limit, not at the send buffer: at the larger of two
 * packets and a millisecond of its pacing rate (see tcp_small_queue_check()). This
 * holds a stream paced at up to 134 Gbit/s.
 */
#define BPSHAPER_CHARGE_TCP	BIT(24)	/* bytes */

/* Counts of times by their logarithm; the buckets are those of the uAPI. */
static inline void bpshaper_hist_add(u64 *hist, u64 ns)
{
	hist[min(fls64(ns >> 10), TC_BPSHAPER_HIST_BUCKETS - 1)]++;
}

/**
 * struct bpshaper_backpressure - the sockets of a qdisc that hold too much
 * @sch: the qdisc, for events
 * @overlimit: sockets in state OVERLIMIT
 * @throttled: sockets in state THROTTLED
 * @overlimit_len: sockets on @overlimit
 * @share: of a socket with one flow, bytes
 * @share_more: for each further peer, bytes, unless two packets of the socket are more
 * @share_more_max: bytes for each further peer at most
 * @stat_throttles: transitions to THROTTLED
 * @stat_unthrottles: transitions out of THROTTLED
 * @stat_ballast_errors: failed allocations of a ballast
 * @throttle_hist: durations of ended throttles
 */
struct bpshaper_backpressure {
	struct Qdisc		*sch;
	struct list_head	overlimit;
	struct list_head	throttled;
	u32			overlimit_len;
	u32			share;
	u32			share_more;
	u32			share_more_max;
	u64			stat_throttles;
	u64			stat_unthrottles;
	u64			stat_ballast_errors;
	u64			throttle_hist[TC_BPSHAPER_HIST_BUCKETS];
};

static void bpshaper_backpressure_init(struct bpshaper_backpressure *bp,
				       struct Qdisc *sch)
{
	bp->sch = sch;
	INIT_LIST_HEAD(&bp->overlimit);
	INIT_LIST_HEAD(&bp->throttled);
}

static inline bool bpshaper_sock_is_tcp(const struct sock *sk)
{
	return sk->sk_type == SOCK_STREAM && sk->sk_protocol == IPPROTO_TCP;
}

static inline bool bpshaper_sock_must_retransmit(const struct sock *sk)
{
	return bpshaper_sock_is_tcp(sk) && bpshaper_tcp_must_retransmit(sk);
}

/* May be NULL: the packet has been orphaned, or its segment has no owner. */
static inline bool bpshaper_sock_is_full(const struct sock *sk)
{
	return sk && sk_fullsock(sk);
}

/* The kernel's own sockets for ICMP, ND, IGMP and TCP resets never wait for room:
 * throttling one loses the answers of the whole machine. They are raw sockets
 * that the kernel made; most also have SOCK_USE_WRITE_QUEUE.
 */
static inline bool bpshaper_sock_is_control(const struct sock *sk)
{
	return sock_flag(sk, SOCK_USE_WRITE_QUEUE) ||
	       (sk->sk_kern_sock && sk->sk_type == SOCK_RAW);
}

/* May a device of network namespace @net make the socket wait? Those of its own namespace it
 * may, and those of namespaces that belong to the same users or to users below them: a host
 * may hold its containers, and a container with users of its own nobody else, though others'
 * packets pass its devices. A kernel socket does not keep its namespace.
 */
static inline bool bpshaper_sock_is_ours(const struct sock *sk, const struct net *net)
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

static inline u32 bpshaper_sock_charge(const struct sock *sk)
{
	u32 charge = max_t(u32, READ_ONCE(sk->sk_sndbuf), SOCK_MIN_SNDBUF);

	if (bpshaper_sock_is_tcp(sk))
		charge = max_t(u32, charge, BPSHAPER_CHARGE_TCP);
	return min_t(u32, charge, BPSHAPER_CHARGE_MAX);
}

/**
 * bpshaper_ballast_destructor - what would uncharge ballast of a packet's socket
 * @skb: packet at enqueue
 * @net: namespace of the device
 *
 * Return: the write destructor of the packet's socket, or NULL when the socket
 * cannot be throttled: there is none, it is not a full socket, it is not ours, it does
 * not wait for sk_wmem_alloc, its send buffer is too large to be filled, the packet is a
 * pure ACK, or its destructor is none that is known to do no more than uncharge
 * and wake.
 */
static inline bpshaper_destructor_t
bpshaper_ballast_destructor(const struct sk_buff *skb, const struct net *net)
{
	const struct sock *sk = skb->sk;

	if (!bpshaper_sock_is_full(sk) || !skb->destructor ||
	    !bpshaper_sock_is_ours(sk, net) || READ_ONCE(sk->sk_sndbuf) > BPSHAPER_CHARGE_MAX)
		return NULL;
	if (bpshaper_sock_is_tcp(sk)) {
		if (skb_is_tcp_pure_ack(skb) || skb->destructor == sock_wfree)
			return NULL;
		return bpshaper_is_tcp_wfree(skb->destructor) ?
			skb->destructor : NULL;
	}
	if (bpshaper_sock_is_control(sk))
		return NULL;
	/* The transmit ring of a packet socket has a destructor of its own that
	 * reports the slot and then does what sock_wfree() does.
	 */
	if (skb->destructor == sock_wfree || sk->sk_family == PF_PACKET)
		return sock_wfree;
	return NULL;
}

/* Room for two packets in the flow of each peer that is known: one on its way, one to follow it.
 * Not only of those that hold packets now: the first ones that are sent to would leave no room
 * for the others.
 */
static noinline u32 bpshaper_peers_share(const struct bpshaper_backpressure *bp,
					 const struct bpshaper_socket *s)
{
	u32 peers = clamp_t(u32, s->peers, 1, BPSHAPER_PEERS_MAX);
	u32 more = clamp_t(u64, 2ULL * s->largest, bp->share_more, bp->share_more_max);

	return min_t(u64, max(bp->share, more) + (peers - 1ULL) * more, U32_MAX);
}

static inline u32 bpshaper_socket_share(const struct bpshaper_backpressure *bp,
					const struct bpshaper_socket *s)
{
	return unlikely(s->is_by_peer) ? bpshaper_peers_share(bp, s) : bp->share;
}

static void bpshaper_socket_set_overlimit(struct bpshaper_backpressure *bp,
					  struct bpshaper_socket *s,
					  bpshaper_destructor_t destructor)
{
	s->destructor = destructor;
	s->state = BPSHAPER_OVERLIMIT;
	s->is_fragmenting = false;
	list_add_tail(&s->node, &bp->overlimit);
	bp->overlimit_len++;
}

/* Returns false, and the socket stays overlimit, if that cannot be done now. */
static bool bpshaper_socket_throttle(struct bpshaper_backpressure *bp,
				     struct bpshaper_socket *s, u64 now)
{
	u32 charge = bpshaper_sock_charge(s->sk);
	struct sock *sk = s->sk;
	struct sk_buff *ballast;

	if (refcount_read(&sk->sk_wmem_alloc) > BPSHAPER_WMEM_MAX ||
	    bpshaper_sock_must_retransmit(sk))
		return false;
	ballast = alloc_skb(0, GFP_ATOMIC | __GFP_NOWARN);
	if (!ballast) {
		bp->stat_ballast_errors++;
		return false;
	}

	ballast->sk = sk;
	ballast->destructor = s->destructor;
	ballast->truesize = charge;
	refcount_add(charge, &sk->sk_wmem_alloc);
	/* A tap wakes only those that poll() has told to wait. Without us it would
	 * not have made them wait.
	 */
	if (sk->sk_family == AF_UNSPEC && sk->sk_socket)
		set_bit(SOCKWQ_ASYNC_NOSPACE, &sk->sk_socket->flags);

	s->ballast = ballast;
	s->throttled_ns = now;
	s->throttles++;
	s->state = BPSHAPER_THROTTLED;
	list_move_tail(&s->node, &bp->throttled);
	bp->overlimit_len--;
	bp->stat_throttles++;
	trace_sock_throttle(bp->sch, sk, bpshaper_socket_due(s),
			    bpshaper_socket_share(bp, s));
	return true;
}

/* A throttled socket that still sends may have got a larger send buffer. */
static void bpshaper_socket_top_up(struct bpshaper_socket *s)
{
	u32 charge = bpshaper_sock_charge(s->sk);
	u32 held = s->ballast->truesize;

	if (charge <= held ||
	    refcount_read(&s->sk->sk_wmem_alloc) > BPSHAPER_WMEM_MAX)
		return;
	refcount_add(charge - held, &s->sk->sk_wmem_alloc);
	s->ballast->truesize = charge;
}

static void bpshaper_socket_unthrottle(struct bpshaper_backpressure *bp,
				       struct bpshaper_socket *s, u64 now)
{
	u64 duration = now - s->throttled_ns;

	trace_sock_unthrottle(bp->sch, s->sk, bpshaper_socket_due(s),
			      bpshaper_socket_share(bp, s), duration);
	s->longest_ns = max(s->longest_ns, duration);
	bpshaper_hist_add(bp->throttle_hist, duration);
	bp->stat_unthrottles++;
	dev_consume_skb_irq(s->ballast);
	s->ballast = NULL;
}

/* Back to UNTHROTTLED, from either of the other states. */
static void bpshaper_socket_release(struct bpshaper_backpressure *bp,
				    struct bpshaper_socket *s, u64 now)
{
	if (s->state == BPSHAPER_THROTTLED)
		bpshaper_socket_unthrottle(bp, s, now);
	else
		bp->overlimit_len--;
	s->state = BPSHAPER_UNTHROTTLED;
	list_del_init(&s->node);
}

/* Whoever sends datagrams of several fragments may be in the midst of the next one. */
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

/* The queue will not drain for a while: stop those that hold too much, a batch at
 * a time. A socket that is left over is stopped by its next packet, or the next
 * time. One that cannot be stopped goes to the end of the list, and so does one that
 * sends fragments: between two of them it would get ENOBUFS, as the kernel lets a
 * datagram exceed the send buffer, but only up to twice its size.
 */
static void bpshaper_backpressure_apply(struct bpshaper_backpressure *bp,
					u64 now)
{
	int batch = BPSHAPER_THROTTLE_BATCH;
	struct bpshaper_socket *s;

	while (!list_empty(&bp->overlimit) && batch--) {
		s = list_first_entry(&bp->overlimit, struct bpshaper_socket, node);
		if (s->is_fragmenting || !bpshaper_socket_throttle(bp, s, now))
			list_move_tail(&s->node, &bp->overlimit);
	}
}

static void bpshaper_backpressure_release_all(struct bpshaper_backpressure *bp,
					      u64 now)
{
	struct bpshaper_socket *s, *next;

	list_for_each_entry_safe(s, next, &bp->throttled, node)
		bpshaper_socket_release(bp, s, now);
	list_for_each_entry_safe(s, next, &bp->overlimit, node)
		bpshaper_socket_release(bp, s, now);
}

#endif /* _BPSHAPER_BACKPRESSURE_H */
