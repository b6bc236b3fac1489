/* SPDX-License-Identifier: GPL-2.0-only */
/* Sockets: whose packets are these?
 *
 * A flow is served in turn; a socket is throttled. A connected socket has one
 * flow, an unconnected one has a flow for each of its peers, and what these
 * hold counts together. A socket is found through its flows, and lives as long
 * as it has one, parked or not.
 *
 * This file has the kernel's socket (bpshaper_sock_*) and the accounts of ours
 * (bpshaper_socket_*). bpshaper_backpressure.h moves a socket between its
 * states.
 *
 * The caller holds the root lock of the qdisc.
 */
#ifndef _BPSHAPER_SOCKET_H
#define _BPSHAPER_SOCKET_H

/* The send buffer that a tap without one gets. No program asks for this size.
 */
#define BPSHAPER_TAP_SNDBUF	(BIT(20) + 1)	/* bytes */

/* Memory of a socket with its ballast: an skb and the least head. */
#define BPSHAPER_SOCKET_MEMORY	(sizeof(struct bpshaper_socket) + 960)

/**
 * enum bpshaper_state - may the socket send?
 * @BPSHAPER_UNTHROTTLED: yes
 * @BPSHAPER_OVERLIMIT: yes, but it holds more than its share
 * @BPSHAPER_THROTTLED: no, it is charged with ballast
 * @BPSHAPER_OUTSIDE: no, likewise, and it waits for a turn (bpshaper_turns.h)
 */
enum bpshaper_state {
	BPSHAPER_UNTHROTTLED,
	BPSHAPER_OVERLIMIT,
	BPSHAPER_THROTTLED,
	BPSHAPER_OUTSIDE,
};

/**
 * struct bpshaper_socket - a socket that can be throttled
 * @sk: the kernel's; valid while there is a backlog, which holds it
 * @data: bytes queued, pure ACKs not counted
 * @ready: bytes queued that are not for later, pure ACKs included
 *	(bpshaper_flow.h)
 * @exempt: bytes of @data that do not count in its share: they came with a
 *	departure time, and their flow waits or is not behind
 * @state: enum bpshaper_state (bpshaper_backpressure.h)
 * @is_by_peer: it has a flow for each peer; changes only while it has no
 *	backlog, or a backlog for one peer
 * @is_mixed: its only flow may hold packets for several peers, until it is
 *	empty
 * @is_without_turns: it takes no turns because of what it is
 *	(bpshaper_throttle.h)
 * @is_fragmenting: the last packet that found it overlimit was a fragment
 *	(bpshaper_backpressure.h)
 * @is_bounded: its send buffer has been bounded until it has no backlog
 * @largest: bytes of its largest packet since it was empty, if @is_by_peer
 * @flows: its flows with a backlog
 * @peers: its flows of a peer each, parked ones included
 * @refs: its flows, parked ones and those of an earlier owner of @sk included
 * @acks: pure ACKs queued
 * @kept: its flow, if that has no backlog and must not be forgotten: the
 *	socket is throttled or has a turn (bpshaper_table.h)
 * @node: on the list of its state, or on that of turns
 *	(bpshaper_backpressure.h, down to @longest_ns)
 * @ballast: skb charged to @sk while it is throttled
 * @destructor: uncharges the ballast and wakes the socket
 * @throttled_ns: when it was throttled last, CLOCK_MONOTONIC
 * @longest_ns: its longest throttle that has ended
 * @cookie: of @sk; its memory may be reused by another socket
 * @user: that pays for its memory
 * @throttles: times that it was throttled (as @longest_ns)
 * @rest: bytes that it may still queue in its turn; 0 without one
 *	(bpshaper_turns.h, down to @outside)
 * @is_unused: it has queued nothing in its turn
 * @finish: its virtual finish time, bytes
 * @turn_ns: since when it is outside or has its turn, CLOCK_MONOTONIC
 * @outside_ns: how long it was outside before
 * @outside: in the tree of those outside, by @finish
 */
struct bpshaper_socket {
	struct sock		*sk;
	u32			data;
	u32			ready;
	u32			exempt;
	u8			state;
	bool			is_by_peer;
	bool			is_mixed;
	bool			is_without_turns;
	bool			is_fragmenting;
	bool			is_bounded;
	bool			is_unused;
	u32			largest;
	u32			flows;
	u32			peers;
	u32			refs;
	u32			acks;
	struct bpshaper_flow	*kept;
	struct list_head	node;
	struct sk_buff		*ballast;
	bpshaper_destructor_t	destructor;
	u64			throttled_ns;
	u64			longest_ns;
	u64			cookie;
	struct bpshaper_user	*user;
	u32			throttles;
	u32			rest;
	u64			finish;
	u64			turn_ns;
	u64			outside_ns;
	struct bpshaper_tag	outside;
};

/* The kernel's socket */

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

/* Is it one of the kernel's own sockets for ICMP, ND, IGMP or TCP resets? They
 * do not wait for room: throttling one loses the answers of the whole machine.
 * They are raw sockets that the kernel made; most also have
 * SOCK_USE_WRITE_QUEUE.
 */
static inline bool bpshaper_sock_is_control(const struct sock *sk)
{
	return sock_flag(sk, SOCK_USE_WRITE_QUEUE) ||
	       (sk->sk_kern_sock && sk->sk_type == SOCK_RAW);
}

/* Has the application closed it, so that it sends no more? Not for TCP, which
 * still sends what had been written.
 */
static inline bool bpshaper_sock_is_closed(const struct sock *sk)
{
	return sock_flag(sk, SOCK_DEAD);
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

/* May each packet of the socket go to another peer? */
static inline bool bpshaper_sock_is_unconnected(const struct sock *sk)
{
	if (likely(READ_ONCE(sk->sk_state) != TCP_CLOSE) ||
	    sk->sk_type == SOCK_STREAM)
		return false;
	return sk->sk_family == AF_INET || sk->sk_family == AF_INET6 ||
	       sk->sk_family == PF_PACKET;
}

/* Ours */

static struct kmem_cache *bpshaper_socket_cachep __read_mostly;

/* It belongs to @nobody until it has an owner. Return NULL when out of memory.
 */
static struct bpshaper_socket *
bpshaper_socket_create(struct sock *sk, struct bpshaper_user *nobody)
{
	struct bpshaper_socket *s;

	s = kmem_cache_zalloc(bpshaper_socket_cachep,
			      GFP_ATOMIC | __GFP_NOWARN);
	if (!s)
		return NULL;
	s->sk = sk;
	s->user = nobody;
	INIT_LIST_HEAD(&s->node);
	return s;
}

static void bpshaper_socket_get(struct bpshaper_socket *s)
{
	s->refs++;
}

/* @s may be NULL. */
static void bpshaper_socket_put(struct bpshaper_socket *s)
{
	if (!s || --s->refs)
		return;
	bpshaper_user_put(s->user);
	kmem_cache_free(bpshaper_socket_cachep, s);
}

/* The first owner, or a socket in the memory of a freed one: start anew, at
 * virtual time @vtime. There is no backlog, nor a flow that is kept: all its
 * flows are parked.
 */
static void bpshaper_socket_set_owner(struct bpshaper_socket *s, u64 cookie,
				      struct bpshaper_user *user, u64 vtime)
{
	DEBUG_NET_WARN_ON_ONCE(s->flows || s->state != BPSHAPER_UNTHROTTLED);
	bpshaper_user_count_parked(s->user, -(s32)s->refs);
	bpshaper_user_put(s->user);
	s->user = user;
	bpshaper_user_count_parked(user, s->refs);
	s->cookie = cookie;
	s->peers = 0;
	s->finish = vtime;
	s->outside_ns = 0;
	s->throttles = 0;
	s->longest_ns = 0;
}

/* Bytes that count in its share. */
static inline u32 bpshaper_socket_due(const struct bpshaper_socket *s)
{
	return s->data - s->exempt;
}

/* Does it take turns? Not with several peers: their packets are in the queue
 * side by side, and one peer may send less than another.
 */
static inline bool bpshaper_socket_takes_turns(const struct bpshaper_socket *s)
{
	return !s->is_without_turns &&
	       (likely(!s->is_by_peer) || s->peers <= 1);
}

/* May it not send? */
static inline bool bpshaper_socket_is_throttled(const struct bpshaper_socket *s)
{
	return s->state >= BPSHAPER_THROTTLED;
}

/* A packet has come (@sign is 1) or gone (-1). */
static inline void bpshaper_socket_account(struct bpshaper_socket *s,
					   const struct sk_buff *skb, int sign)
{
	if (likely(!skb_is_tcp_pure_ack(skb)))
		s->data += sign * qdisc_pkt_len(skb);
	else
		s->acks += sign;
}

/* What it counts as inside. */
static inline u32 bpshaper_socket_inside(const struct bpshaper_socket *s)
{
	return bpshaper_socket_takes_turns(s) ? s->ready : 0;
}

/* Does it have a flow for each peer, and is it overlimit or throttled? */
static bool bpshaper_socket_is_held(const struct bpshaper_socket *s)
{
	return s->is_by_peer && s->state != BPSHAPER_UNTHROTTLED;
}

/* @bytes more of what it has queued are exempt, or less if negative. */
static void bpshaper_socket_count_exempt(struct bpshaper_socket *s, s32 bytes)
{
	s->exempt += bytes;
}

/* A flow of a peer is made (@sign is 1) or forgotten (-1). */
static void bpshaper_socket_count_peer(struct bpshaper_socket *s, int sign)
{
	s->peers += sign;
}

static void bpshaper_socket_set_without_turns(struct bpshaper_socket *s,
					      bool is_without_turns)
{
	s->is_without_turns = is_without_turns;
}

/* From now on it has a flow for each peer, or one for all packets. */
static void bpshaper_socket_set_by_peer(struct bpshaper_socket *s,
					bool is_by_peer)
{
	s->is_by_peer = is_by_peer;
}

/* Its only flow may hold packets for several peers. */
static void bpshaper_socket_set_mixed(struct bpshaper_socket *s)
{
	s->is_mixed = true;
}

/* It sends a packet of @bytes to one of its peers. */
static inline void bpshaper_socket_note_largest(struct bpshaper_socket *s,
						u32 bytes)
{
	if (unlikely(s->is_by_peer))
		s->largest = max(s->largest, bytes);
}

/* Taps */

/* A tun or tap device, whose send buffer is not bounded? */
static inline bool bpshaper_sock_is_unbounded(const struct sock *sk)
{
	return sk->sk_family == AF_UNSPEC &&
	       READ_ONCE(sk->sk_sndbuf) == INT_MAX;
}

/* vhost-net gives such a tap small frames without an owner, and others with
 * one. It would reorder a flow of the machine if the send buffer were bounded
 * while the tap is throttled only. So the tap keeps it until it has no backlog.
 * TUNSETSNDBUF may change it at any time.
 */
static void bpshaper_socket_bound(struct bpshaper_socket *s)
{
	if (likely(!bpshaper_sock_is_unbounded(s->sk)))
		return;
	if (cmpxchg(&s->sk->sk_sndbuf, INT_MAX, BPSHAPER_TAP_SNDBUF) == INT_MAX)
		s->is_bounded = true;
}

static void bpshaper_socket_unbound(struct bpshaper_socket *s)
{
	if (likely(!s->is_bounded))
		return;
	cmpxchg(&s->sk->sk_sndbuf, BPSHAPER_TAP_SNDBUF, INT_MAX);
	s->is_bounded = false;
}

/* One of its flows has become active (@sign is 1) or empty (-1). Return whether
 * no other one is active.
 */
static inline bool bpshaper_socket_count_flow(struct bpshaper_socket *s,
					      int sign)
{
	s->flows += sign;
	if (sign > 0)
		return s->flows == 1;
	if (s->flows)
		return false;
	s->is_mixed = false;
	s->largest = 0;
	if (!bpshaper_socket_is_throttled(s))
		bpshaper_socket_unbound(s);
	return true;
}

#endif /* _BPSHAPER_SOCKET_H */
