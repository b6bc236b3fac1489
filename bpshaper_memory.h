/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory: who holds how much of it, and who pays?
 *
 * Memory belongs to leaves, and in a leaf to users. A user is what a process
 * without privileges cannot multiply (bpshaper_sock_user_key()); the packets
 * without a socket are another one. A user may hold, together with its leaf, a
 * multiple of what is free:
 *
 *	user + leaf <= pressure * (limit - all)
 *
 * (Choudhury and Hahne, "Dynamic queue length thresholds", ToN 6(2), 1998). So
 * what nobody needs is lent, and some is always free for those who come: with n
 * leaves that take all they can get, a part of 1 / (1 + n * pressure / 2). Past
 * the threshold a user pays by itself, and nobody else does.
 *
 * The flow of a user that pays is found by a rank: flows by the logarithm of an
 * amount, so one that holds most is found in constant time. The amounts within
 * a level differ by less than a factor of four; the flow that has been at the
 * level longest comes first. Levels below these are for flows with a single
 * packet. Flows that wait for the times of their packets are above all.
 *
 * The caller serialises.
 */
#ifndef _BPSHAPER_MEMORY_H
#define _BPSHAPER_MEMORY_H

/**
 * enum bpshaper_pressure - what a user loses when it holds so many times what
 *	is free
 * @BPSHAPER_SCARCE: nothing is exempt, peers do not raise the share; the pool
 *	loses packets
 * @BPSHAPER_STOP: a socket with data may not send
 * @BPSHAPER_NO_LATER: packets with a time that is far
 * @BPSHAPER_FULL: packets
 *
 * Of memory_limit, one user alone reaches them with 1/3, 3/5, 2/3 and 4/5.
 */
enum bpshaper_pressure {
	BPSHAPER_SCARCE		= 1,
	BPSHAPER_STOP		= 3,
	BPSHAPER_NO_LATER	= 4,
	BPSHAPER_FULL		= 8,
};

#define BPSHAPER_RANK_LEVELS	21

enum {
	BPSHAPER_RANK_NOTHING,
	BPSHAPER_RANK_LITTLE,		/* one packet of a known flow */
	BPSHAPER_RANK_LITTLE_FRESH,	/* one packet of a fresh flow */
	BPSHAPER_RANK_MORE,		/* up to 127 bytes; x 4 for each */
	BPSHAPER_RANK_LATER = BPSHAPER_RANK_LEVELS - 1,	/* it is not due */
};

/**
 * struct bpshaper_rank - flows by an amount
 * @used: bit i is set while @level[i] has a flow
 * @level: flows by level; the first list stays empty
 */
struct bpshaper_rank {
	u64			used;
	struct list_head	level[BPSHAPER_RANK_LEVELS];
};

/**
 * struct bpshaper_memory - memory of a qdisc
 * @limit: bytes
 * @used: bytes of all packets in flows, of the flows with a backlog or kept,
 *	and of the ballast that their sockets may need
 * @scarce_above: bytes in use, up to which it is scarce for nobody
 * @parking: users with parked flows
 */
struct bpshaper_memory {
	u64	limit;
	u64	used;
	u64	scarce_above;
	u32	parking;
};

/**
 * struct bpshaper_user - what one user holds in a leaf
 * @leaf: the leaf
 * @used: bytes
 * @rank: its flows by memory, or by backlog in the pool
 * @key: who it is; not for the pool
 * @refs: sockets
 * @parked: its flows without a backlog that are kept (bpshaper_table.h)
 * @node: in the tree of the leaf; not for the pool
 */
struct bpshaper_user {
	struct bpshaper_leaf_memory *leaf;
	u64			used;
	struct bpshaper_rank	rank;
	u64			key;
	u32			refs;
	u32			parked;
	struct rb_node		node;
};

/**
 * struct bpshaper_leaf_memory - memory of a leaf
 * @all: that of the qdisc
 * @used: bytes of its users
 * @users: by key
 * @pool: that of packets without a throttleable socket
 */
struct bpshaper_leaf_memory {
	struct bpshaper_memory	*all;
	u64			used;
	struct rb_root		users;
	struct bpshaper_user	pool;
};

/* Rank */

static void bpshaper_rank_init(struct bpshaper_rank *r)
{
	int i;

	r->used = 0;
	for (i = 0; i < BPSHAPER_RANK_LEVELS; i++)
		INIT_LIST_HEAD(&r->level[i]);
}

/* The level of a flow that holds @amount, unless that is one packet of up to a
 * quantum. A level is a factor of four: with two, a flow of a few packets would
 * change its level with each.
 */
static inline u8 bpshaper_rank_level(u64 amount)
{
	return clamp(fls64(amount) / 2, BPSHAPER_RANK_MORE,
		     BPSHAPER_RANK_LATER - 1);
}

static noinline void bpshaper_rank_relink(struct bpshaper_rank *r,
					  struct list_head *node, u8 from,
					  u8 to)
{
	list_del_init(node);
	if (from && list_empty(&r->level[from]))
		r->used &= ~BIT_ULL(from);
	if (to) {
		list_add_tail(node, &r->level[to]);
		r->used |= BIT_ULL(to);
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
	return fls64(r->used) - !!r->used;
}

/* The first flow at the top level; the rank is not empty. */
static inline struct list_head *bpshaper_rank_first(struct bpshaper_rank *r)
{
	return r->level[bpshaper_rank_top(r)].next;
}

/* Users */

static void bpshaper_memory_configure(struct bpshaper_memory *m, u32 limit)
{
	m->limit = limit;
	m->scarce_above = limit / 3;
}

static void bpshaper_user_init(struct bpshaper_user *u,
			       struct bpshaper_leaf_memory *leaf)
{
	u->leaf = leaf;
	u->used = 0;
	u->parked = 0;
	bpshaper_rank_init(&u->rank);
}

static void bpshaper_leaf_memory_init(struct bpshaper_leaf_memory *m,
				      struct bpshaper_memory *all)
{
	m->all = all;
	m->used = 0;
	m->users = RB_ROOT;
	bpshaper_user_init(&m->pool, m);
}

/* Must flows be ranked? Below that it would cost 1 % of a packet for nothing.
 */
static inline bool bpshaper_memory_ranks(const struct bpshaper_memory *m)
{
	return unlikely(m->used > m->scarce_above / 2);
}

/* Would the user be above the threshold with @bytes more? */
static inline bool bpshaper_user_exceeds(const struct bpshaper_user *u,
					 u32 bytes, enum bpshaper_pressure p)
{
	const struct bpshaper_memory *m = u->leaf->all;
	u64 used = m->used + bytes;

	if (likely(used <= m->scarce_above))
		return false;
	return used > m->limit ||
	       u->used + u->leaf->used + 2ULL * bytes > p * (m->limit - used);
}

/* @bytes more are in use, or less if negative. */
static inline void bpshaper_user_account(struct bpshaper_user *u, s64 bytes)
{
	struct bpshaper_leaf_memory *leaf = u->leaf;

	u->used += bytes;
	leaf->used += bytes;
	leaf->all->used += bytes;
}

/* @flows more are parked, or less if negative. */
static inline void bpshaper_user_count_parked(struct bpshaper_user *u,
					      s32 flows)
{
	bool had_some = u->parked;

	u->parked += flows;
	u->leaf->all->parking += !!u->parked - had_some;
}

/* The user of @key, for one socket more; NULL when out of memory. */
static struct bpshaper_user *
bpshaper_user_get(struct bpshaper_leaf_memory *leaf, u64 key)
{
	struct rb_node **p = &leaf->users.rb_node, *parent = NULL;
	struct bpshaper_user *u;

	while (*p) {
		parent = *p;
		u = rb_entry(parent, struct bpshaper_user, node);
		if (u->key == key) {
			u->refs++;
			return u;
		}
		p = key < u->key ? &parent->rb_left : &parent->rb_right;
	}
	u = kmalloc(sizeof(*u), GFP_ATOMIC | __GFP_NOWARN);
	if (!u)
		return NULL;
	bpshaper_user_init(u, leaf);
	u->key = key;
	u->refs = 1;
	rb_link_node(&u->node, parent, p);
	rb_insert_color(&u->node, &leaf->users);
	return u;
}

static void bpshaper_user_put(struct bpshaper_user *u)
{
	if (u == &u->leaf->pool || --u->refs)
		return;
	rb_erase(&u->node, &u->leaf->users);
	kfree(u);
}

#endif /* _BPSHAPER_MEMORY_H */
