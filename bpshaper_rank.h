/* SPDX-License-Identifier: GPL-2.0-only */
/* Rank: which flow holds most?
 *
 * Flows are listed by the logarithm of an amount (bytes of backlog, bytes of
 * memory), so a flow that holds most is found in constant time. The amounts
 * within a level differ by less than a factor of four; the flow that has been
 * at the level longest comes first. Two levels below these are for flows that
 * hold a single packet.
 *
 * The caller serialises.
 */
#ifndef _BPSHAPER_RANK_H
#define _BPSHAPER_RANK_H

#define BPSHAPER_RANK_LEVELS	20

enum {
	BPSHAPER_RANK_NOTHING,
	BPSHAPER_RANK_LITTLE,		/* one packet of a known flow */
	BPSHAPER_RANK_LITTLE_FRESH,	/* one packet of a fresh flow */
	BPSHAPER_RANK_MORE,		/* up to 63 bytes; x 4 for each level */
};

/**
 * struct bpshaper_rank - flows by an amount
 * @levels: bit i is set while @level[i] has a flow
 * @level: flows by level; the first list stays empty
 */
struct bpshaper_rank {
	u64			levels;
	struct list_head	level[BPSHAPER_RANK_LEVELS];
};

static void bpshaper_rank_init(struct bpshaper_rank *r)
{
	int i;

	r->levels = 0;
	for (i = 0; i < BPSHAPER_RANK_LEVELS; i++)
		INIT_LIST_HEAD(&r->level[i]);
}

/* The level of a flow that holds more than one packet. A level is a factor of
 * four: with two, a flow of a few packets would change its level with each.
 */
static inline u8 bpshaper_rank_level(u64 amount)
{
	return clamp(fls64(amount) / 2, BPSHAPER_RANK_MORE,
		     BPSHAPER_RANK_LEVELS - 1);
}

static noinline void bpshaper_rank_relink(struct bpshaper_rank *r,
					  struct list_head *node, u8 from,
					  u8 to)
{
	list_del_init(node);
	if (from && list_empty(&r->level[from]))
		r->levels &= ~BIT_ULL(from);
	if (to) {
		list_add_tail(node, &r->level[to]);
		r->levels |= BIT_ULL(to);
	}
}

/* Move the flow with @node from *@level to @to. */
static inline void bpshaper_rank_move(struct bpshaper_rank *r,
				      struct list_head *node, u8 *level, u8 to)
{
	if (likely(to == *level))
		return;
	bpshaper_rank_relink(r, node, *level, to);
	*level = to;
}

/* The level of the flows that hold most; 0 if none holds anything. */
static inline u8 bpshaper_rank_top(const struct bpshaper_rank *r)
{
	return fls64(r->levels) - !!r->levels;
}

/* The first flow at the top level; the rank is not empty. */
static inline struct list_head *bpshaper_rank_first(struct bpshaper_rank *r)
{
	return r->level[bpshaper_rank_top(r)].next;
}

#endif /* _BPSHAPER_RANK_H */
