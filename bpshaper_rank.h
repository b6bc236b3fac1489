/* SPDX-License-Identifier: GPL-2.0-only */
/* Rank: who holds most?
 *
 * Flows are kept by the logarithm of an amount (bytes of backlog, bytes of memory), so
 * that one of those that hold most is found at once, however many there are. Within a
 * class, whose members differ by less than a factor of four, the one that has been there
 * longest comes first. Below those are the classes of who holds a single packet.
 *
 * The caller serialises.
 */
#ifndef _BPSHAPER_RANK_H
#define _BPSHAPER_RANK_H

#define BPSHAPER_RANK_CLASSES	20

enum {
	BPSHAPER_RANK_NOTHING,
	BPSHAPER_RANK_LITTLE,		/* one packet of a flow that came back */
	BPSHAPER_RANK_LITTLE_FRESH,	/* and of one that has not, yet */
	BPSHAPER_RANK_MORE,		/* up to 63 bytes, then four times as many each */
};

/**
 * struct bpshaper_rank - flows by an amount
 * @classes: bit c is set while @class[c] has a flow
 * @class: by class; the first stays empty
 */
struct bpshaper_rank {
	u64			classes;
	struct list_head	class[BPSHAPER_RANK_CLASSES];
};

static void bpshaper_rank_init(struct bpshaper_rank *r)
{
	int i;

	r->classes = 0;
	for (i = 0; i < BPSHAPER_RANK_CLASSES; i++)
		INIT_LIST_HEAD(&r->class[i]);
}

/* The class of more than a packet. Each step is a factor of four: with two, flows of a few
 * packets would change their class with every one.
 */
static inline u8 bpshaper_rank_class(u64 amount)
{
	return clamp(fls64(amount) / 2, BPSHAPER_RANK_MORE, BPSHAPER_RANK_CLASSES - 1);
}

static noinline void bpshaper_rank_reclass(struct bpshaper_rank *r,
					   struct list_head *node, u8 from, u8 to)
{
	list_del_init(node);
	if (from && list_empty(&r->class[from]))
		r->classes &= ~BIT_ULL(from);
	if (to) {
		list_add_tail(node, &r->class[to]);
		r->classes |= BIT_ULL(to);
	}
}

/* The flow with @node goes from class @class to class @to. */
static inline void bpshaper_rank_move(struct bpshaper_rank *r,
				      struct list_head *node, u8 *class, u8 to)
{
	if (likely(to == *class))
		return;
	bpshaper_rank_reclass(r, node, *class, to);
	*class = to;
}

/* The class of those that hold most; 0 if nobody holds anything. */
static inline u8 bpshaper_rank_top(const struct bpshaper_rank *r)
{
	return fls64(r->classes) - !!r->classes;
}

/* One of them; there is one. */
static inline struct list_head *bpshaper_rank_first(struct bpshaper_rank *r)
{
	return r->class[bpshaper_rank_top(r)].next;
}

#endif /* _BPSHAPER_RANK_H */
