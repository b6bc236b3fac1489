/* SPDX-License-Identifier: GPL-2.0-only */
/* Classification: which flow does a packet belong to?
 *
 * A packet of a throttleable socket goes to the flow of its socket, or to that
 * of its peer if the socket is not connected. All others go to a flow of the
 * socketless pool, by packet hash.
 */
#ifndef _BPSHAPER_CLASSIFY_H
#define _BPSHAPER_CLASSIFY_H

/* The socket whose flow @skb joins; NULL for the pool. A pure ACK has no
 * destructor for ballast, but joins its socket's flow to stay in order with the
 * data.
 */
static inline struct sock *
bpshaper_skb_owner(const struct bpshaper_leaf *l, const struct sk_buff *skb,
		   bpshaper_destructor_t destructor)
{
	if (destructor || (l->bp.is_on && bpshaper_sock_is_full(skb->sk) &&
			   skb_is_tcp_pure_ack(skb) &&
			   bpshaper_sock_is_ours(skb->sk, l->q->net)))
		return skb->sk;
	return NULL;
}

/* The flow of @key. If it is left over from a socket that was freed, and
 * @key.sk has its memory now, it starts anew.
 */
static inline struct bpshaper_flow *bpshaper_key_flow(struct bpshaper_leaf *l,
						      struct bpshaper_key key,
						      u64 now)
{
	struct bpshaper_flow *f = bpshaper_flow_get(&l->flows, key, now);
	u64 cookie;

	if (unlikely(!f) || f->head || !f->socket)
		return f;
	cookie = bpshaper_sock_cookie(key.sk);
	if (unlikely(f->cookie != cookie) &&
	    !bpshaper_flow_set_owner(&l->flows, f, cookie,
				     bpshaper_sock_user_key(key.sk, l->q->net)))
		return NULL;
	return f;
}

/* Does each peer of the socket get a flow? Not with a pacing rate: that is the
 * rate of the whole socket, and only a single flow keeps to it.
 */
static inline bool bpshaper_sock_is_by_peer(const struct bpshaper_sched *q,
					    const struct sock *sk)
{
	return bpshaper_sock_is_unconnected(sk) &&
	       (!q->pacing.is_on || READ_ONCE(sk->sk_pacing_rate) == ~0UL);
}

/* Make the only flow of a socket that of its peer. Return false if it has
 * packets for several peers, or too many packets to tell.
 */
static bool bpshaper_flow_set_peer(struct bpshaper_leaf *l,
				   struct bpshaper_flow *f)
{
	const struct sk_buff *skb;
	u32 hash;

	if (f->qlen > BPSHAPER_FLOW_STEPS || !RB_EMPTY_ROOT(&f->early))
		return false;
	hash = bpshaper_skb_peer_hash(f->head);
	for (skb = f->head->next; skb; skb = skb->next)
		if (bpshaper_skb_peer_hash(skb) != hash)
			return false;
	bpshaper_flow_rekey(&l->flows, f, hash);
	return true;
}

/* The packet and its socket disagree on flows by peer: the socket was
 * connected, or got a pacing rate, or lost one of these. Without a backlog
 * switch at once. With one keep the order of its packets for each peer: if each
 * peer has a flow, that remains so; if all packets are in one flow, it becomes
 * that of their peer, or stays one flow until it is empty if there are several.
 */
static noinline struct bpshaper_flow *
bpshaper_socket_keep_order(struct bpshaper_leaf *l, struct bpshaper_flow *f,
			   struct sk_buff *skb, u64 now)
{
	struct bpshaper_socket *s = f->socket;
	struct bpshaper_key key = { .sk = s->sk };
	struct bpshaper_flow *all;

	if (!s->flows) {
		bpshaper_flows_set_by_peer(&l->flows, s, !s->is_by_peer);
		return f;
	}
	if (!s->is_by_peer) {
		all = bpshaper_key_flow(l, key, now);
		if (!all || s->is_mixed)
			return all;
		if (!bpshaper_flow_set_peer(l, all)) {
			bpshaper_socket_set_mixed(s);
			return all;
		}
		bpshaper_flows_set_by_peer(&l->flows, s, true);
	}
	key.hash = bpshaper_skb_peer_hash(skb);
	return bpshaper_key_flow(l, key, now);
}

static inline struct bpshaper_key
bpshaper_skb_key(const struct bpshaper_leaf *l, struct sk_buff *skb,
		 bpshaper_destructor_t destructor)
{
	struct bpshaper_key key = {
		.sk = bpshaper_skb_owner(l, skb, destructor),
	};

	if (!key.sk)
		key.hash = bpshaper_skb_pool_hash(skb);
	else if (bpshaper_sock_is_by_peer(l->q, key.sk))
		key.hash = bpshaper_skb_peer_hash(skb);
	return key;
}

/* The flow of a packet in the leaf; NULL when out of memory. */
static inline struct bpshaper_flow *
bpshaper_classify(struct bpshaper_leaf *l, struct sk_buff *skb,
		  bpshaper_destructor_t destructor, u64 now)
{
	struct bpshaper_key key = bpshaper_skb_key(l, skb, destructor);
	bool is_by_peer = key.sk && key.hash;
	struct bpshaper_flow *f;

	f = bpshaper_key_flow(l, key, now);
	if (likely(f) && f->socket &&
	    unlikely(f->socket->is_by_peer != is_by_peer))
		return bpshaper_socket_keep_order(l, f, skb, now);
	return f;
}

#endif /* _BPSHAPER_CLASSIFY_H */
