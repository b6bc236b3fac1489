/* SPDX-License-Identifier: GPL-2.0-only */
/* The socketless pool: packets that have no throttleable socket.
 *
 * Forwarded packets, and those of sockets that cannot be throttled, have a flow
 * for each packet hash. `limit` bounds them all together; sockets do not count
 * in it. bpshaper_evict.h makes room in a full pool.
 */
#ifndef _BPSHAPER_POOL_H
#define _BPSHAPER_POOL_H

/* Part of memory_limit. Small packets take ten times their length in memory:
 * with more of them in the pool, memory would be scarce for the sockets.
 */
#define BPSHAPER_POOL_MEMORY_DIVISOR	4

/**
 * struct bpshaper_pool - accounts of the pool
 * @backlog: bytes queued, the direct packet not counted
 * @memory: bytes of memory that they take
 * @by_backlog: flows of the pool by the length of their queue
 */
struct bpshaper_pool {
	u32			backlog;
	u64			memory;
	struct bpshaper_rank	by_backlog;
};

static void bpshaper_pool_init(struct bpshaper_pool *pool)
{
	pool->backlog = 0;
	pool->memory = 0;
	bpshaper_rank_init(&pool->by_backlog);
}

/* A packet has come (@sign is 1) or gone (-1). */
static void bpshaper_pool_account(struct bpshaper_pool *pool,
				  const struct bpshaper_flows *t,
				  struct bpshaper_flow *f,
				  const struct sk_buff *skb, int sign)
{
	u8 level = bpshaper_flow_level(t, f, f->qlen, f->backlog, f->backlog);

	s64 memory = sign * (s64)bpshaper_skb_memory(skb);

	pool->backlog += sign * qdisc_pkt_len(skb);
	pool->memory += memory;
	t->table->pool_memory += memory;
	bpshaper_rank_move(&pool->by_backlog, &f->pool_node, &f->pool_level,
			   level);
}

/* Would @skb exceed @limit, or would all pools together, of which there are
 * @pools, exceed their part of @memory_limit while this one holds more than its
 * part of that? One packet may.
 */
static bool bpshaper_pool_is_full(const struct bpshaper_pool *pool,
				  const struct bpshaper_table *t,
				  const struct sk_buff *skb, u32 limit,
				  u32 memory_limit, u32 pools)
{
	u32 most = memory_limit / BPSHAPER_POOL_MEMORY_DIVISOR;
	u32 memory = bpshaper_skb_memory(skb);

	if (!pool->backlog)
		return false;
	if ((u64)pool->backlog + qdisc_pkt_len(skb) > limit)
		return true;
	return unlikely(t->pool_memory + memory > most) &&
	       pool->memory + memory > most / pools;
}

#endif /* _BPSHAPER_POOL_H */
