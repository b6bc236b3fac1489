/* SPDX-License-Identifier: GPL-2.0-only */
/* How a packet joins a flow: its key, room, segments. */
#ifndef _BPSHAPER_ENQUEUE_H
#define _BPSHAPER_ENQUEUE_H

/* Classification: which flow does a packet belong to?
 *
 * A packet of a throttleable socket goes to the flow of its socket, or to that
 * of its peer if the socket is not connected. All others go to a flow of the
 * socketless pool, by packet hash.
 */

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

/* Does each peer of the socket get a flow? It does if each packet may go to
 * another peer. Not with a pacing rate: that is the rate of the whole socket,
 * and only a single flow keeps to it.
 */
static inline bool bpshaper_sock_is_by_peer(const struct bpshaper_sched *q,
					    const struct sock *sk)
{
	if (likely(READ_ONCE(sk->sk_state) != TCP_CLOSE) ||
	    sk->sk_type == SOCK_STREAM)
		return false;
	return (sk->sk_family == AF_INET || sk->sk_family == AF_INET6 ||
		sk->sk_family == PF_PACKET) &&
	       (!q->pacing.is_on || READ_ONCE(sk->sk_pacing_rate) == ~0UL);
}

/* A pure ACK has no destructor for ballast, but joins its socket's flow to stay
 * in order with the data.
 */
static inline struct bpshaper_key
bpshaper_skb_key(const struct bpshaper_leaf *l, struct sk_buff *skb,
		 bpshaper_destructor_t destructor)
{
	struct bpshaper_key key = {};

	if (destructor || (l->bp.is_on && bpshaper_sock_is_full(skb->sk) &&
			   skb_is_tcp_pure_ack(skb) &&
			   bpshaper_sock_is_ours(skb->sk, l->q->net)))
		key.sk = skb->sk;
	if (!key.sk)
		key.hash = skb_get_hash(skb) ?: 1;
	else if (bpshaper_sock_is_by_peer(l->q, key.sk))
		key.hash = bpshaper_skb_peer_hash(skb);
	return key;
}

/* The flow of a packet in the leaf; NULL when out of memory. Whether a socket
 * has a flow for each peer is decided while it has no backlog, and holds until
 * it has none again. So its packets for each peer stay in order when it is
 * connected or disconnected, or gets or loses a pacing rate.
 */
static inline struct bpshaper_flow *
bpshaper_classify(struct bpshaper_leaf *l, struct sk_buff *skb,
		  bpshaper_destructor_t destructor, u64 now)
{
	struct bpshaper_key key = bpshaper_skb_key(l, skb, destructor);
	struct bpshaper_socket *s;
	struct bpshaper_flow *f;

	for (;;) {
		f = bpshaper_key_flow(l, key, now);
		if (unlikely(!f) || !f->socket ||
		    likely(f->socket->is_by_peer == !!key.hash))
			return f;
		s = f->socket;
		if (!s->flows) {
			bpshaper_flows_set_turns(&l->flows, s,
						 s->is_without_turns,
						 !s->is_by_peer, s->peers);
			return f;
		}
		key.hash = s->is_by_peer ? bpshaper_skb_peer_hash(skb) : 0;
	}
}

/* Eviction: which packet is dropped when there is no room for another?
 *
 * The flow that holds most loses its next packet: in a full pool the flow with
 * the longest queue, and where a user holds too much memory his flow with most
 * of it (socket.h). The packet that enters is dropped instead if its
 * flow would be one of those. The last pure ACK in the queue makes room for the
 * next one, which says more.
 */

#define BPSHAPER_ACKS_MAX	16	/* of a socket; see design.rst */
#define BPSHAPER_EVICT_PKTS	128	/* 85 of 768 bytes are 64 kB */
#define BPSHAPER_LATER_NS	(100 * NSEC_PER_MSEC)

/**
 * struct bpshaper_evicted - what was evicted for one packet
 * @pkts: packets
 * @bytes: of them
 *
 * The parents are told afterwards: they must never see the qdisc empty in
 * between.
 */
struct bpshaper_evicted {
	u32	pkts;
	u32	bytes;
};

static void bpshaper_evicted_drop(struct Qdisc *sch, struct bpshaper_leaf *l,
				  struct sk_buff *skb,
				  enum bpshaper_drop reason,
				  struct bpshaper_evicted *out,
				  struct sk_buff **to_free)
{
	out->pkts++;
	out->bytes += qdisc_pkt_len(skb);
	bpshaper_account_out(sch, skb);
	bpshaper_drop(sch, l, skb, to_free, reason);
}

static void bpshaper_flow_evict(struct Qdisc *sch, struct bpshaper_flow *f,
				enum bpshaper_drop reason, u64 now,
				struct bpshaper_evicted *out,
				struct sk_buff **to_free)
{
	struct bpshaper_leaf *l = bpshaper_flow_leaf(f);
	struct sk_buff *skb = bpshaper_flow_pop(f->flows, f);

	if (f->socket)
		bpshaper_socket_try_release(l, f->socket, now);
	if (f->is_waiting)	/* for the time of that packet */
		bpshaper_flow_wake(f->flows, f);
	bpshaper_leaf_update(l, now);
	bpshaper_evicted_drop(sch, l, skb, reason, out, to_free);
	if (!f->head && !bpshaper_flow_is_kept(f) &&
	    l->q->table.parked_len > BPSHAPER_FLOW_PARKED_MAX)
		bpshaper_flow_forget(&l->q->table, f);
}

/* Is there room in the pool for @skb? One packet may always come. */
static bool bpshaper_pool_has_room(const struct bpshaper_leaf *l,
				   const struct sk_buff *skb)
{
	const struct bpshaper_flows *flows = &l->flows;

	return !flows->pool_backlog ||
	       ((u64)flows->pool_backlog + qdisc_pkt_len(skb) <=
		bpshaper_pool_limit(l) &&
		!bpshaper_user_exceeds(&flows->memory.pool,
				       bpshaper_skb_memory(skb),
				       BPSHAPER_SCARCE));
}

/* Is there memory for @skb, whose flow may be new? A packet that is for later
 * is the first to be refused: TCP is never further ahead of its pacing.
 */
static inline bool bpshaper_user_has_room(const struct bpshaper_user *u,
					  const struct sk_buff *skb, u64 now)
{
	u32 bytes = bpshaper_skb_memory(skb) + BPSHAPER_KEPT_MEMORY;

	if (likely(!bpshaper_user_exceeds(u, bytes, BPSHAPER_NO_LATER)))
		return true;
	return !bpshaper_user_exceeds(u, bytes, BPSHAPER_FULL) &&
	       bpshaper_skb_due_ns(skb) <= now + BPSHAPER_LATER_NS;
}

static inline bool bpshaper_flow_has_room(const struct bpshaper_leaf *l,
					  const struct bpshaper_flow *f,
					  const struct sk_buff *skb, u64 now)
{
	return f->socket ? bpshaper_user_has_room(f->socket->user, skb, now) :
			   bpshaper_pool_has_room(l, skb);
}

/* Make room for @skb of @f at the expense of the flows of the same user that
 * hold most. Return false if @f would be one of them, or if that takes too
 * long. Each packet evicts as much as itself: a pool whose limit was lowered
 * shrinks step by step. A flow that holds nothing counts as one with little.
 */
static noinline bool bpshaper_make_room(struct Qdisc *sch,
					struct bpshaper_leaf *l,
					struct bpshaper_flow *f,
					const struct sk_buff *skb, u64 now,
					enum bpshaper_drop reason,
					struct bpshaper_evicted *out,
					struct sk_buff **to_free)
{
	struct bpshaper_user *u = bpshaper_flow_user(&l->flows, f);
	u32 bytes = f->backlog + qdisc_pkt_len(skb);
	u32 memory = bpshaper_skb_memory(skb);
	u64 amount = f->socket ? f->memory + memory : bytes;
	struct bpshaper_flow *victim;
	u64 used = u->used;
	u32 missing = qdisc_pkt_len(skb);
	u8 level;

	if (f->socket) {
		memory += f->head ? 0 : BPSHAPER_KEPT_MEMORY;
		missing = memory;
	}
	level = f->head ? bpshaper_flow_level(&l->flows, f, f->qlen + 1, bytes,
					      amount) :
			  bpshaper_flow_level(&l->flows, f, 1, 0, 0);
	while (!bpshaper_flow_has_room(l, f, skb, now) &&
	       (used - u->used < memory ||
		(!f->socket && out->bytes < missing))) {
		/* Evicting takes time under the lock, and a parent that hears
		 * that all packets are gone deactivates the qdisc.
		 */
		if (out->pkts == BPSHAPER_EVICT_PKTS ||
		    sch->q.qlen <= l->q->uncounted + 1 ||
		    level >= bpshaper_rank_top(&u->rank))
			return false;
		victim = list_entry(bpshaper_rank_first(&u->rank),
				    struct bpshaper_flow, rank_node);
		/* If that many of its size are too few, evict none. */
		if (!out->pkts &&
		    missing > BPSHAPER_EVICT_PKTS *
			      div_u64(bpshaper_flow_amount(victim),
				      victim->qlen))
			return false;
		bpshaper_flow_evict(sch, victim, reason, now, out, to_free);
	}
	return true;
}

/* A pure ACK comes. Bound those of a socket: a peer can provoke any number.
 * Past the bound the last packet in the queue, if it is a pure ACK, makes room
 * for the next. Behind data the ACK is queued all the same, so there are no
 * more ACKs above the bound than packets of data. While packets are out of
 * order of time (@early) there is no bound. The socket may not have sent data
 * yet: ACKs must not take up the room of sockets that take turns.
 */
static void bpshaper_ack_make_room(struct Qdisc *sch, struct bpshaper_flow *f,
				   struct bpshaper_evicted *out,
				   struct sk_buff **to_free)
{
	if (unlikely(!f->socket->is_without_turns))
		bpshaper_flows_set_turns(f->flows, f->socket, true,
					 f->socket->is_by_peer,
					 f->socket->peers);
	if (likely(f->socket->acks < BPSHAPER_ACKS_MAX) ||
	    !skb_is_tcp_pure_ack(f->tail) || !RB_EMPTY_ROOT(&f->early))
		return;
	bpshaper_evicted_drop(sch, bpshaper_flow_leaf(f),
			      bpshaper_flow_pop_last(f->flows, f),
			      BPSHAPER_DROP_ACK, out, to_free);
}

/* Segments: GSO packets that may not leave whole are segmented in software.
 *
 * bpshaper_derive_segment_above() has the bound. Where each segment can be
 * charged to the socket, all join its flow; otherwise they join the pool.
 */

/* More than TCP makes of 64 kB with the least MSS that the kernel takes: 1366.
 */
#define BPSHAPER_SEGS_MAX	2048

/* Must the packet be segmented? */
static bool bpshaper_skb_must_segment(const struct sk_buff *skb,
				      const struct bpshaper_leaf *l)
{
	return unlikely(skb_is_gso(skb)) &&
	       qdisc_pkt_len(skb) > bpshaper_leaf_segment_above(l);
}

/* A packet socket can set the header, and with it the number of segments. */
static bool bpshaper_skb_has_too_many_segs(const struct sk_buff *skb)
{
	u32 size = skb_shinfo(skb)->gso_size;

	if (size == GSO_BY_FRAGS)	/* no more than fragments */
		return false;
	return skb->len / size > BPSHAPER_SEGS_MAX;
}

/* The length of @bytes by the qdisc's size table (tc stab), which the core has
 * applied to the packet that a segment was made of. The table has the length
 * for sizes in steps of 2^cell_log; beyond its end it repeats. Newer cores have
 * the same bound: beyond it sums of lengths would overflow.
 */
static u32 bpshaper_stab_len(const struct Qdisc *sch, u32 bytes)
{
	const struct qdisc_size_table *stab = rcu_dereference_bh(sch->stab);
	const struct tc_sizespec *spec;
	u32 cells, cell;
	s64 len;

	if (!stab)
		return bytes;
	spec = &stab->szopts;
	len = (s64)bytes + spec->overhead;
	if (spec->tsize) {
		cells = spec->tsize;
		cell = max_t(s64, len + spec->cell_align, 0) >> spec->cell_log;
		len = (s64)stab->data[cells - 1] * (cell / cells) +
		      stab->data[cell % cells];
		len <<= spec->size_log;
	}
	return clamp_t(s64, len, 1, BPSHAPER_MTU_MAX);
}

/* skb_segment() moves the socket and the charge of the whole packet to the last
 * segment, if sock_wfree() uncharges. Undo that, and give each segment its own
 * part, as those of TCP and UDP have.
 */
static void bpshaper_segs_set_owner(struct sk_buff *segs, struct sk_buff *skb,
				    struct sock *sk)
{
	struct sk_buff *seg, *last = NULL;
	s64 charge = 0;

	for (seg = segs; seg; seg = seg->next)
		last = seg;
	if (segs->sk || last->sk != sk || last->destructor != sock_wfree)
		return;

	swap(last->truesize, skb->truesize);
	for (seg = segs; seg; seg = seg->next) {
		seg->sk = sk;
		seg->destructor = sock_wfree;
		charge += seg->truesize;
	}
	charge -= skb->truesize;
	if (charge > 0)
		refcount_add(charge, &sk->sk_wmem_alloc);
	else if (charge < 0)	/* never to zero, the segments are charged */
		WARN_ON_ONCE(refcount_sub_and_test(-charge,
						   &sk->sk_wmem_alloc));
}

/* Segment @skb, which the caller still owns. Return the list of segments, or an
 * error pointer. Clear @destructor if they cannot be in the flow of their
 * socket.
 */
static struct sk_buff *bpshaper_segs_make(struct sk_buff *skb,
					  bpshaper_destructor_t *destructor)
{
	struct sk_buff *segs, *seg;
	struct sock *sk = skb->sk;

	if (bpshaper_skb_has_too_many_segs(skb))
		return ERR_PTR(-E2BIG);
	skb_get_hash(skb);	/* the segments inherit it */
	segs = skb_gso_segment(skb,
			       netif_skb_features(skb) & ~NETIF_F_GSO_MASK);
	if (!segs)
		return ERR_PTR(-EINVAL);
	if (IS_ERR(segs) || !*destructor)
		return segs;
	bpshaper_segs_set_owner(segs, skb, sk);
	/* Those of fraglist GSO are not charged to the socket, nor are, up to
	 * 6.1, those of the transmit ring of packet sockets.
	 */
	for (seg = segs; seg; seg = seg->next)
		if (seg->sk != sk || !seg->destructor)
			*destructor = NULL;
	return segs;
}

/* Enqueue: a packet joins a flow of a leaf.
 *
 * Functions on the path of every queued packet that also have a cold caller are
 * marked inline: gcc 12 else emits calls for them (63 more instructions of 274
 * at enqueue, 48 of 434 at dequeue).
 */

/* Count a packet that comes into the pool. A segment whose socket could be
 * throttled is there because of another one that has none.
 */
static noinline void bpshaper_pool_count(struct bpshaper_sched *q,
					 const struct sk_buff *skb)
{
	q->stat_unheld[bpshaper_skb_unheld(skb, q->net) ?:
		       BPSHAPER_NO_OWNER]++;
}

/* Put a stamped packet into its flow. @destructor is NULL in the pool, and for
 * the pure ACKs of a socket.
 */
static inline int bpshaper_flow_enqueue(struct Qdisc *sch,
					struct bpshaper_leaf *l,
					struct bpshaper_flow *f,
					struct sk_buff *skb,
					bpshaper_destructor_t destructor,
					u64 now, struct sk_buff **to_free)
{
	enum bpshaper_drop reason = f->socket ? BPSHAPER_DROP_MEMORY :
						BPSHAPER_DROP_POOL;
	struct bpshaper_evicted out = {};
	bool has_room;

	DEBUG_NET_WARN_ON_ONCE(f->socket && skb->sk != f->socket->sk);
	if (!f->socket && l->bp.is_on)
		bpshaper_pool_count(l->q, skb);
	has_room = likely(bpshaper_flow_has_room(l, f, skb, now)) ||
		   bpshaper_make_room(sch, l, f, skb, now, reason, &out,
				      to_free);
	if (likely(has_room)) {
		if (f->socket && !destructor)
			bpshaper_ack_make_room(sch, f, &out, to_free);
		bpshaper_account_in(sch, skb);
		bpshaper_flow_push(&l->flows, f, skb);
	}
	/* Also if it is dropped: a socket that holds something can wait. */
	if (destructor && (likely(has_room) || (f->head && f->socket->data)))
		bpshaper_socket_enqueued(sch, l, f, skb, destructor, now);
	if (unlikely(out.pkts))
		qdisc_tree_reduce_backlog(sch, out.pkts, out.bytes);
	return likely(has_room) ? NET_XMIT_SUCCESS :
				  bpshaper_drop(sch, l, skb, to_free, reason);
}

/* Enqueue @segs, made of @skb, in @f. Each gets the stamp @cb. @skb may be the
 * first of them.
 */
static int bpshaper_segs_enqueue(struct Qdisc *sch, struct bpshaper_leaf *l,
				 struct bpshaper_flow *f, struct sk_buff *skb,
				 struct sk_buff *segs,
				 const struct bpshaper_skb_cb *cb,
				 bpshaper_destructor_t destructor, u64 now,
				 struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u32 old_len = qdisc_pkt_len(skb), pkts = 0, bytes = 0, len;
	struct sk_buff *seg, *next;

	if (f->socket)	/* it sends the packet as a whole */
		bpshaper_socket_note_largest(f->socket, old_len);
	skb_list_walk_safe(segs, seg, next) {
		skb_mark_not_on_list(seg);
		len = bpshaper_stab_len(q->top, seg->len);
		qdisc_skb_cb(seg)->pkt_len = len;
		bpshaper_set_one_segment(seg);
		*bpshaper_skb_cb(seg) = *cb;
		q->stat_segments++;
		if (bpshaper_flow_enqueue(sch, l, f, seg, destructor, now,
					  to_free) != NET_XMIT_SUCCESS)
			continue;
		q->uncounted = ++pkts;
		bytes += len;
	}
	q->uncounted = 0;
	if (!pkts) {
		kfree_skb(skb);
		return NET_XMIT_DROP;
	}
	/* The parents will count one packet of the old length. */
	qdisc_tree_reduce_backlog(sch, 1 - pkts, old_len - bytes);
	consume_skb(skb);
	return NET_XMIT_SUCCESS;
}

/* Enqueue a stamped packet in segments. Drop one that cannot be segmented, as
 * tbf does: the device would drop it as well, and the length that its header
 * claims cannot be trusted.
 */
static noinline int bpshaper_gso_enqueue(struct Qdisc *sch,
					 struct bpshaper_leaf *l,
					 struct sk_buff *skb,
					 bpshaper_destructor_t destructor,
					 u64 now, struct sk_buff **to_free)
{
	struct bpshaper_skb_cb cb = *bpshaper_skb_cb(skb);
	enum bpshaper_drop reason = BPSHAPER_DROP_ALLOC;
	struct bpshaper_flow *f;
	struct sk_buff *segs;

	segs = bpshaper_segs_make(skb, &destructor);
	if (IS_ERR(segs)) {
		if (PTR_ERR(segs) != -ENOMEM)
			reason = BPSHAPER_DROP_SEGMENTS;
		return bpshaper_drop(sch, l, skb, to_free, reason);
	}
	f = bpshaper_classify(l, segs, destructor, now);
	if (unlikely(!f)) {
		kfree_skb_list(segs);
		return bpshaper_drop(sch, l, skb, to_free, reason);
	}
	return bpshaper_segs_enqueue(sch, l, f, skb, segs, &cb, destructor, now,
				     to_free);
}

/* The qdisc gets a packet */

/* Move the direct packet to its flow. Without memory for one return false: it
 * leaves when there are tokens.
 */
static noinline bool bpshaper_direct_to_flow(struct Qdisc *sch, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	bpshaper_destructor_t destructor = NULL;
	struct sk_buff *skb = q->direct;
	struct bpshaper_leaf *l = q->direct_leaf;
	struct bpshaper_flow *f;

	if (l->bp.is_on)
		destructor = bpshaper_ballast_destructor(skb, q->net);
	f = bpshaper_classify(l, skb, destructor, now);
	if (!f)
		return false;

	/* It is one packet, so it does not make its socket overlimit. */
	bpshaper_pacing_stamp(&q->pacing, skb, q->direct_ns ?: now, now);
	if (!f->socket && l->bp.is_on)
		bpshaper_pool_count(q, skb);
	bpshaper_flow_push(&l->flows, f, skb);
	if (f->socket)
		bpshaper_socket_note_idle(f->socket, qdisc_pkt_len(skb), now);
	bpshaper_leaf_update(l, now);
	q->direct = NULL;
	q->direct_ns = 0;
	return true;
}

/* Is the departure time of the direct packet in the future, and has it gone to
 * its flow?
 */
static bool bpshaper_direct_wait(struct Qdisc *sch, u64 now)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	return bpshaper_pacing_tstamp_ns(&q->pacing, q->direct, now) &&
	       bpshaper_direct_to_flow(sch, now);
}

static inline int bpshaper_direct_enqueue(struct sk_buff *skb,
					  struct Qdisc *sch)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	q->undrained = 1;
	q->direct = skb;
	bpshaper_account_in(sch, skb);
	return NET_XMIT_SUCCESS;
}

/* Enqueue a packet that does not become the direct packet. */
static inline int bpshaper_leaf_enqueue(struct Qdisc *sch,
					struct bpshaper_leaf *l,
					struct sk_buff *skb, bool must_segment,
					u64 now, struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	bpshaper_destructor_t destructor = NULL;
	struct bpshaper_flow *f;

	q->undrained = sch->q.qlen ? q->undrained + 1 : 1;
	bpshaper_backstop_start(q);
	if (q->direct && unlikely(q->hub))	/* it may wait for its slot */
		bpshaper_direct_to_flow(sch, now);
	if (q->direct) {
		if (!q->direct_ns)
			q->direct_ns = now;
		if (unlikely(ktime_to_ns(q->direct->tstamp) > now))
			bpshaper_direct_wait(sch, now);
	}
	/* Before segmentation, so that all segments are due together. */
	bpshaper_pacing_stamp(&q->pacing, skb, now, now);
	if (l->bp.is_on)
		destructor = bpshaper_ballast_destructor(skb, q->net);
	/* Take over the pacing of a TCP socket, which would otherwise use a
	 * timer of its own. Unlike fq, leave sockets alone that do not pace.
	 */
	if (q->pacing.is_on && bpshaper_sock_is_full(skb->sk) &&
	    bpshaper_sock_is_ours(skb->sk, q->net) &&
	    READ_ONCE(skb->sk->sk_pacing_status) == SK_PACING_NEEDED)
		cmpxchg(&skb->sk->sk_pacing_status, SK_PACING_NEEDED,
			SK_PACING_FQ);
	if (unlikely(must_segment))
		return bpshaper_gso_enqueue(sch, l, skb, destructor, now,
					    to_free);
	f = bpshaper_classify(l, skb, destructor, now);
	if (unlikely(!f))
		return bpshaper_drop(sch, l, skb, to_free,
				     BPSHAPER_DROP_ALLOC);
	return bpshaper_flow_enqueue(sch, l, f, skb, destructor, now, to_free);
}

/* A packet for a leaf: with classes it may still be the direct packet. */
static noinline int bpshaper_enqueue_in(struct sk_buff *skb, struct Qdisc *sch,
					struct bpshaper_leaf *l,
					struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	bool must_segment = bpshaper_skb_must_segment(skb, l);
	u64 now;
	int ret;

	if (!sch->q.qlen && !must_segment &&
	    (!q->pacing.is_on ||
	     q->pacing.maxrate_Bps == TC_BPSHAPER_RATE_UNLIMITED) &&
	    !bpshaper_pacing_needs_flow(&q->pacing, skb) &&
	    !(q->hub && q->peak_rate.Bps)) {
		q->direct_leaf = l;
		return bpshaper_direct_enqueue(skb, sch);
	}
	now = ktime_get_ns();
	ret = bpshaper_leaf_enqueue(sch, l, skb, must_segment, now, to_free);
	bpshaper_leaf_update(l, now);
	return ret;
}

/* Its priority names no leaf, but maybe a class @cl with children. */
static noinline int bpshaper_enqueue_filtered(struct sk_buff *skb,
					      struct Qdisc *sch,
					      struct bpshaper_class *cl,
					      struct sk_buff **to_free)
{
	struct bpshaper_leaf *l;
	int ret;

	l = bpshaper_class_choose(sch, skb, cl, to_free, &ret);
	return l ? bpshaper_enqueue_in(skb, sch, l, to_free) : ret;
}

/* The qdisc is not empty, or the packet is larger than direct_max, or it may
 * need a flow.
 */
static noinline int bpshaper_enqueue_slow(struct sk_buff *skb,
					  struct Qdisc *sch,
					  struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_leaf *l = &q->own;
	struct bpshaper_class *cl;

	if (unlikely(!q->direct_max) && bpshaper_must_choose(q)) {
		l = bpshaper_class_named(sch, skb, &cl);
		if (!l)
			return bpshaper_enqueue_filtered(skb, sch, cl, to_free);
	}
	return bpshaper_enqueue_in(skb, sch, l, to_free);
}

static int bpshaper_enqueue(struct sk_buff *skb, struct Qdisc *sch,
			    struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	if (sch->q.qlen || unlikely(qdisc_pkt_len(skb) > q->direct_max) ||
	    bpshaper_pacing_needs_flow(&q->pacing, skb))
		return bpshaper_enqueue_slow(skb, sch, to_free);
	return bpshaper_direct_enqueue(skb, sch);
}

#endif /* _BPSHAPER_ENQUEUE_H */
