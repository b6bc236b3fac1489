/* SPDX-License-Identifier: GPL-2.0-only */
/* Enqueue: a packet joins a flow of a leaf.
 *
 * Functions on the path of every queued packet that also have a cold caller are
 * marked inline: gcc 12 else emits calls for them (63 more instructions of 274
 * at enqueue, 48 of 434 at dequeue).
 */
#ifndef _BPSHAPER_ENQUEUE_H
#define _BPSHAPER_ENQUEUE_H

/* A pure ACK comes for the flow. Its socket may not have sent data yet: ACKs
 * must not take up the room of sockets that take turns.
 */
static void bpshaper_ack_enqueuing(struct Qdisc *sch, struct bpshaper_flow *f,
				   struct bpshaper_evicted *out,
				   struct sk_buff **to_free)
{
	if (unlikely(!f->socket->is_without_turns))
		bpshaper_flows_set_without_turns(f->flows, f->socket, true);
	bpshaper_ack_make_room(sch, f, out, to_free);
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
	has_room = likely(bpshaper_flow_has_room(l, f, skb, now)) ||
		   bpshaper_make_room(sch, l, f, skb, now, reason, &out,
				      to_free);
	if (likely(has_room)) {
		if (f->socket && !destructor)
			bpshaper_ack_enqueuing(sch, f, &out, to_free);
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

/* Enqueue a stamped packet that need not be segmented. */
static inline int bpshaper_skb_enqueue(struct Qdisc *sch,
				       struct bpshaper_leaf *l,
				       struct sk_buff *skb,
				       bpshaper_destructor_t destructor,
				       u64 now, struct sk_buff **to_free)
{
	struct bpshaper_flow *f;

	f = bpshaper_classify(l, skb, destructor, now);
	if (unlikely(!f))
		return bpshaper_drop(sch, l, skb, to_free,
				     BPSHAPER_DROP_ALLOC);
	return bpshaper_flow_enqueue(sch, l, f, skb, destructor, now, to_free);
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
		len = bpshaper_stab_len(sch, seg->len);
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

#endif /* _BPSHAPER_ENQUEUE_H */
