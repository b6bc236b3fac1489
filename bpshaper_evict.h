/* SPDX-License-Identifier: GPL-2.0-only */
/* Eviction: which packet is dropped when there is no room for another?
 *
 * The flow that holds most loses its next packet: in a full pool the flow with
 * the longest queue, past memory_limit the flow with most memory. The packet
 * that enters is dropped instead if its flow would be one of those. The last
 * pure ACK in the queue makes room for the next one, which says more.
 */
#ifndef _BPSHAPER_EVICT_H
#define _BPSHAPER_EVICT_H

#define BPSHAPER_ACKS_MAX	16	/* of a socket; see design.rst */
#define BPSHAPER_EVICT_PKTS	128	/* 85 of 768 bytes are 64 kB */

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

/* May @f, which would be at @level with one more packet, evict packets of a
 * flow at @top? Not if it would be at @top itself. A flow that holds nothing
 * counts as one with little.
 */
static bool bpshaper_flow_may_evict(const struct bpshaper_flow *f, u8 level,
				    u8 top)
{
	if (!f->head)
		level = bpshaper_flow_level(f->flows, f, 1, 0, 0);
	return level < top;
}

/* Would BPSHAPER_EVICT_PKTS packets, as large on average as those of a flow
 * with @amount in @qlen packets, be too few for @missing? Then evict none.
 */
static bool bpshaper_evicting_is_vain(u64 amount, u32 qlen, u64 missing)
{
	return div_u64(amount, qlen) * BPSHAPER_EVICT_PKTS < missing;
}

static bool bpshaper_pool_has_room(const struct bpshaper_leaf *l,
				   const struct sk_buff *skb)
{
	const struct bpshaper_sched *q = l->q;

	return !bpshaper_pool_is_full(&l->pool, &q->table, skb,
				      bpshaper_pool_limit(l), q->memory_limit,
				      q->clhash.hashelems + 1);
}

/* Make room in the pool for @skb of @f at the expense of the longest queues.
 * Return false if @f would be one of them, or if that takes too long. Each
 * packet evicts as much as itself, in bytes and in memory: a pool whose limit
 * was lowered shrinks step by step.
 */
static bool bpshaper_pool_make_room(struct Qdisc *sch, struct bpshaper_leaf *l,
				    struct bpshaper_flow *f,
				    const struct sk_buff *skb, u64 now,
				    struct bpshaper_evicted *out,
				    struct sk_buff **to_free)
{
	u32 bytes = f->backlog + qdisc_pkt_len(skb);
	struct bpshaper_rank *rank = &l->pool.by_backlog;
	u64 memory = l->pool.memory;
	struct bpshaper_flow *victim;
	u8 level;

	if (likely(bpshaper_pool_has_room(l, skb)))
		return true;
	level = bpshaper_flow_level(&l->flows, f, f->qlen + 1, bytes, bytes);
	while (!bpshaper_pool_has_room(l, skb) &&
	       (out->bytes < qdisc_pkt_len(skb) ||
		memory - l->pool.memory < bpshaper_skb_memory(skb))) {
		if (bpshaper_evicted_is_enough(sch, out) ||
		    !bpshaper_flow_may_evict(f, level,
					     bpshaper_rank_top(rank)))
			return false;
		victim = list_entry(bpshaper_rank_first(rank),
				    struct bpshaper_flow, pool_node);
		if (!out->pkts &&
		    bpshaper_evicting_is_vain(victim->backlog, victim->qlen,
					      qdisc_pkt_len(skb)))
			return false;
		bpshaper_flow_evict(sch, victim, BPSHAPER_DROP_POOL, now, out,
				    to_free);
	}
	return true;
}

/* Would @skb, whose flow may be new, exceed memory_limit? */
static inline bool bpshaper_memory_is_full(const struct bpshaper_sched *q,
					   const struct sk_buff *skb)
{
	return unlikely(bpshaper_memory(q) + bpshaper_skb_memory(skb) +
			sizeof(struct bpshaper_flow) + BPSHAPER_SOCKET_MEMORY >
			q->memory_limit);
}

/* Make room for @skb of @f at the expense of the flows with most memory. Return
 * false if @f would be one of them, or if that takes too long.
 */
static noinline bool
bpshaper_memory_make_room(struct Qdisc *sch, struct bpshaper_flow *f,
			  const struct sk_buff *skb, u64 now,
			  struct bpshaper_evicted *out,
			  struct sk_buff **to_free)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_rank *rank = &q->table.by_memory;
	struct bpshaper_flow *victim;
	u8 level;

	level = bpshaper_flow_level(f->flows, f, f->qlen + 1,
				    f->backlog + qdisc_pkt_len(skb),
				    f->memory + bpshaper_skb_memory(skb));
	while (bpshaper_memory_is_full(q, skb)) {
		if (bpshaper_evicted_is_enough(sch, out) ||
		    !bpshaper_flow_may_evict(f, level,
					     bpshaper_rank_top(rank)))
			return false;
		victim = list_entry(bpshaper_rank_first(rank),
				    struct bpshaper_flow, memory_node);
		if (!out->pkts &&
		    bpshaper_evicting_is_vain(victim->memory, victim->qlen,
					      bpshaper_skb_memory(skb)))
			return false;
		bpshaper_flow_evict(sch, victim, BPSHAPER_DROP_MEMORY, now, out,
				    to_free);
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
