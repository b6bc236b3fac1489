/* SPDX-License-Identifier: GPL-2.0-only */
/* Sockets: whose packets are these?
 *
 * A flow is what is served in turn, a socket is what is throttled. A socket that is connected has
 * one flow, one that is not has a flow for each of its peers, and what they hold counts together.
 * It is found by its flows and is kept as long as there is one of them, parked or not.
 *
 * A throttled socket always has a backlog (@data), so a dequeue or a purge will come that
 * releases it; nothing else needs to remember the kernel's socket.
 *
 * The caller holds the root lock of the qdisc.
 */
#ifndef _BPSHAPER_SOCKET_H
#define _BPSHAPER_SOCKET_H

typedef void (*bpshaper_destructor_t)(struct sk_buff *skb);

/**
 * enum bpshaper_state - what a socket is told
 * @BPSHAPER_UNTHROTTLED: nothing
 * @BPSHAPER_OVERLIMIT: nothing yet, but it holds more than its share
 * @BPSHAPER_THROTTLED: it is charged with ballast and cannot send
 */
enum bpshaper_state {
	BPSHAPER_UNTHROTTLED,
	BPSHAPER_OVERLIMIT,
	BPSHAPER_THROTTLED,
};

/**
 * struct bpshaper_socket - a socket that can be throttled
 * @sk: of the kernel; valid while there is a backlog, which holds it
 * @data: bytes queued that are no pure ACKs
 * @exempt: of them those that do not count in its share, as they have a time of their own
 *	and are not due
 * @state: what it is told
 * @is_by_peer: its flows are those of its peers; changes only while it has no backlog, or
 *	if that is for one peer
 * @is_mixed: its one flow has packets for several peers, or too many to tell, until it is empty
 * @is_fragmenting: the last packet that found it overlimit was a fragment
 * @largest: bytes of its largest packet since it was empty, if @is_by_peer
 * @flows: flows with a backlog
 * @peers: flows of a peer each, with those that are parked
 * @refs: flows, with those that are parked and those of who had @sk before
 * @acks: pure ACKs queued, of a TCP socket
 * @throttles: times that it was throttled
 * @node: on the list of its state
 * @ballast: charged to it while throttled
 * @destructor: uncharges the ballast and wakes the socket
 * @throttled_ns: when it was throttled last, CLOCK_MONOTONIC
 * @longest_ns: longest throttle that has ended
 * @cookie: of @sk, since another socket may get its address
 */
struct bpshaper_socket {
	struct sock		*sk;
	u32			data;
	u32			exempt;
	u8			state;
	bool			is_by_peer;
	bool			is_mixed;
	bool			is_fragmenting;
	u32			largest;
	u32			flows;
	u32			peers;
	u32			refs;
	u32			acks;
	struct list_head	node;
	struct sk_buff		*ballast;
	bpshaper_destructor_t	destructor;
	u64			throttled_ns;
	u64			longest_ns;
	u64			cookie;
	u32			throttles;
};

static struct kmem_cache *bpshaper_socket_cachep __read_mostly;

/* NULL when out of memory. */
static struct bpshaper_socket *bpshaper_socket_create(struct sock *sk)
{
	struct bpshaper_socket *s;

	s = kmem_cache_zalloc(bpshaper_socket_cachep, GFP_ATOMIC | __GFP_NOWARN);
	if (!s)
		return NULL;
	s->sk = sk;
	INIT_LIST_HEAD(&s->node);
	return s;
}

/* Bytes that count in its share. */
static inline u32 bpshaper_socket_due(const struct bpshaper_socket *s)
{
	return s->data - s->exempt;
}

/* A flow less. */
static void bpshaper_socket_put(struct bpshaper_socket *s)
{
	if (s && !--s->refs)
		kmem_cache_free(bpshaper_socket_cachep, s);
}

/* Without a backlog it is another one at the same address now: nothing that it was is kept. */
static void bpshaper_socket_set_owner(struct bpshaper_socket *s, u64 cookie)
{
	DEBUG_NET_WARN_ON_ONCE(s->flows || s->state != BPSHAPER_UNTHROTTLED);
	s->cookie = cookie;
	s->peers = 0;
	s->throttles = 0;
	s->longest_ns = 0;
}

/* One of its flows has become active, or (@sign is -1) empty. Returns whether it is the only
 * one.
 */
static inline bool bpshaper_socket_count_flow(struct bpshaper_socket *s, int sign)
{
	s->flows += sign;
	if (sign > 0)
		return s->flows == 1;
	if (s->flows)
		return false;
	s->is_mixed = false;
	s->largest = 0;
	return true;
}

/* May the socket send to others without being asked to connect? Each packet of such a one may
 * be for another peer.
 */
static inline bool bpshaper_sock_is_unconnected(const struct sock *sk)
{
	if (likely(READ_ONCE(sk->sk_state) != TCP_CLOSE) || sk->sk_type == SOCK_STREAM)
		return false;
	return sk->sk_family == AF_INET || sk->sk_family == AF_INET6 ||
	       sk->sk_family == PF_PACKET;
}

#endif /* _BPSHAPER_SOCKET_H */
