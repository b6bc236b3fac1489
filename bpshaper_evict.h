/* SPDX-License-Identifier: GPL-2.0-only */
/* Eviction: which packet is dropped when there is no room for another?
 *
 * The flow that holds most loses its next packet: in a full pool the flow with
 * the longest queue, and where a user holds too much memory his flow with most
 * of it (bpshaper_memory.h). The packet that enters is dropped instead if its
 * flow would be one of those. The last pure ACK in the queue makes room for the
 * next one, which says more.
 */
#ifndef _BPSHAPER_EVICT_H
#define _BPSHAPER_EVICT_H

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

/* Stop for two reasons: evicting takes time under the lock, and a parent that
 * hears that all packets are gone deactivates the qdisc.
 */
static bool bpshaper_evicted_is_enough(struct Qdisc *sch,
				       const struct bpshaper_evicted *out)
{
	const struct bpshaper_sched *q = qdisc_priv(sch);

	return out->pkts == BPSHAPER_EVICT_PKTS ||
	       sch->q.qlen <= q->uncounted + 1;
}

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
	struct sk_buff *skb = bpshaper_flow_take(l, f, now);

	if (f->is_waiting)	/* for the time of that packet */
		bpshaper_flow_wake(f->flows, f);
	bpshaper_leaf_update(l, now);
	bpshaper_evicted_drop(sch, l, skb, reason, out, to_free);
	if (!f->head && !bpshaper_flow_is_kept(f) &&
	    bpshaper_table_has_parked_max(&l->q->table))
		bpshaper_flow_forget(&l->q->table, f);
}

/* Would BPSHAPER_EVICT_PKTS packets, as large on average as those of a flow
 * with @amount in @qlen packets, be too few for @missing? Then evict none.
 */
static bool bpshaper_evicting_is_vain(u64 amount, u32 qlen, u64 missing)
{
	return div_u64(amount, qlen) * BPSHAPER_EVICT_PKTS < missing;
}

/* Is there room in the pool for @skb? One packet may always come. */
static bool bpshaper_pool_has_room(const struct bpshaper_leaf *l,
				   const struct sk_buff *skb)
{
	const struct bpshaper_flows *t = &l->flows;

	return !t->pool_backlog ||
	       ((u64)t->pool_backlog + qdisc_pkt_len(skb) <=
		bpshaper_pool_limit(l) &&
		!bpshaper_user_exceeds(&t->memory.pool,
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
		if (bpshaper_evicted_is_enough(sch, out) ||
		    level >= bpshaper_rank_top(&u->rank))
			return false;
		victim = list_entry(bpshaper_rank_first(&u->rank),
				    struct bpshaper_flow, rank_node);
		if (!out->pkts &&
		    bpshaper_evicting_is_vain(bpshaper_flow_amount(victim),
					      victim->qlen, missing))
			return false;
		bpshaper_flow_evict(sch, victim, reason, now, out, to_free);
	}
	return true;
}

/* Bound the pure ACKs of a socket: a peer can provoke any number. Past the
 * bound the last packet in the queue, if it is a pure ACK, makes room for the
 * next. Behind data the ACK is queued all the same, so there are no more ACKs
 * above the bound than packets of data. While packets are out of order of time
 * (@early) there is no bound.
 */
static void bpshaper_ack_make_room(struct Qdisc *sch, struct bpshaper_flow *f,
				   struct bpshaper_evicted *out,
				   struct sk_buff **to_free)
{
	if (likely(f->socket->acks < BPSHAPER_ACKS_MAX) ||
	    !skb_is_tcp_pure_ack(f->tail) || !RB_EMPTY_ROOT(&f->early))
		return;
	bpshaper_evicted_drop(sch, bpshaper_flow_leaf(f),
			      bpshaper_flow_pop_last(f->flows, f),
			      BPSHAPER_DROP_ACK, out, to_free);
}

#endif /* _BPSHAPER_EVICT_H */
