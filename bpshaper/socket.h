/* SPDX-License-Identifier: GPL-2.0-only */
/* Sockets: what they have queued, and the users who pay for memory. */
#ifndef _BPSHAPER_SOCKET_H
#define _BPSHAPER_SOCKET_H

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
 * Nobody holds the pool back, so it has no more than a third of what others
 * leave. Its leaf does not count for it, or whoever fills memory would cost it
 * all of its packets.
 *
 * Several queues have the limit together. A third is divided among them, so
 * that a packet touches nothing that others write. The rest is lent to those
 * that hold more.
 *
 * The flow of a user that pays is found by a rank: flows by the logarithm of an
 * amount, so one that holds most is found in constant time. The amounts within
 * a level differ by less than a factor of four; the flow that has been at the
 * level longest comes first. Levels below these are for flows with a single
 * packet. Flows that wait for the times of their packets are above all.
 *
 * The caller serialises.
 */

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
	BPSHAPER_RANK_LITTLE_FRESH,	/* one packet of a new flow */
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
 * @limit: bytes; of several queues what one may hold if nothing is lent
 * @used: bytes of all packets in flows, of the flows with a backlog or kept,
 *	and of the ballast that their sockets may need
 * @scarce_above: bytes in use, up to which it is scarce for nobody
 * @borrowed: bytes in use above that, of one of several queues
 * @lent: what all of these have borrowed; NULL: there is one lock
 * @parking: users with parked flows
 */
struct bpshaper_memory {
	u64	limit;
	u64	used;
	u64	scarce_above;
	u64	borrowed;
	atomic64_t *lent;
	u32	parking;
};

/**
 * struct bpshaper_user - what one user holds in a leaf
 * @leaf: the leaf
 * @used: bytes
 * @rank: its flows by memory, or by backlog in the pool
 * @key: who it is; not for the pool
 * @refs: sockets
 * @parked: its flows without a backlog that are kept (table.h)
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

/* The level of a flow that holds @amount, unless that is one packet of up to
 * the MTU. A level is a factor of four: with two, a flow of a few packets would
 * change its level with each.
 */
static inline u8 bpshaper_rank_level(u64 amount)
{
	return clamp(fls64(amount) / 2, BPSHAPER_RANK_MORE,
		     BPSHAPER_RANK_LATER - 1);
}

/* Move the flow with @node from *@level to @to. */
static void bpshaper_rank_move(struct bpshaper_rank *r, struct list_head *node,
			       u8 *level, u8 to)
{
	u8 from = *level;

	if (likely(to == from))
		return;
	*level = to;
	list_del_init(node);
	if (from && list_empty(&r->level[from]))
		r->used &= ~BIT_ULL(from);
	if (to) {
		list_add_tail(node, &r->level[to]);
		r->used |= BIT_ULL(to);
	}
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

/* @bytes more are in use, or less if negative. */
static inline void bpshaper_memory_account(struct bpshaper_memory *m, s64 bytes)
{
	u64 borrowed;

	m->used += bytes;
	if (likely(!m->lent))
		return;
	borrowed = m->used - min(m->used, m->scarce_above);
	if (borrowed != m->borrowed)
		atomic64_add(borrowed - m->borrowed, m->lent);
	m->borrowed = borrowed;
}

/* Of @queues one has its part of what is scarce for nobody to itself. */
static void bpshaper_memory_configure(struct bpshaper_memory *m, u32 limit,
				      u32 queues)
{
	m->scarce_above = limit / 3 / queues;
	m->limit = limit - (queues - 1) * m->scarce_above;
	bpshaper_memory_account(m, 0);
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

/* Would the user be above the threshold with @bytes more? */
static inline bool bpshaper_user_exceeds(const struct bpshaper_user *u,
					 u32 bytes, enum bpshaper_pressure p)
{
	u64 beside = u == &u->leaf->pool ? u->used : u->leaf->used;
	const struct bpshaper_memory *m = u->leaf->all;
	u64 used = m->used + bytes;

	if (likely(used <= m->scarce_above))
		return false;
	if (m->lent)
		used += atomic64_read(m->lent) - m->borrowed;
	return used > m->limit ||
	       u->used + beside + 2ULL * bytes > p * (m->limit - used);
}

/* @bytes more are in use, or less if negative. */
static inline void bpshaper_user_account(struct bpshaper_user *u, s64 bytes)
{
	u->used += bytes;
	u->leaf->used += bytes;
	bpshaper_memory_account(u->leaf->all, bytes);
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

/* Sockets: whose packets are these?
 *
 * A flow is served in turn; a socket is throttled. A connected socket has one
 * flow, an unconnected one has a flow for each of its peers, and what these
 * hold counts together. A socket is found through its flows, and lives as long
 * as it has one, parked or not.
 *
 * The kernel's socket is bpshaper_sock_*, ours bpshaper_socket_*. hold.h moves
 * ours between its states.
 *
 * The caller holds the root lock of the qdisc.
 */

/* The send buffer that a tap without one gets. No program asks for this size.
 */
#define BPSHAPER_TAP_SNDBUF	(BIT(20) + 1)	/* bytes */

/* What a socket that was idle has queued is no standing queue for so long: the
 * interval of CoDel (RFC 8289, 4.3).
 */
#define BPSHAPER_IDLE_NS	(100 * NSEC_PER_MSEC)

/* Memory of a socket with its ballast: an skb and the least head. */
#define BPSHAPER_SOCKET_MEMORY	(sizeof(struct bpshaper_socket) + 960)

/**
 * enum bpshaper_state - may the socket send?
 * @BPSHAPER_UNTHROTTLED: yes
 * @BPSHAPER_OVERLIMIT: yes, but it holds more than its share
 * @BPSHAPER_THROTTLED: no, it is charged with ballast
 * @BPSHAPER_OUTSIDE: no, likewise, and it waits for a turn (order.h)
 */
enum bpshaper_state {
	BPSHAPER_UNTHROTTLED,
	BPSHAPER_OVERLIMIT,
	BPSHAPER_THROTTLED,
	BPSHAPER_OUTSIDE,
};

/**
 * struct bpshaper_socket - a socket that can be throttled
 * @sk: the kernel's; valid while there is a backlog, which holds it
 * @data: bytes queued, pure ACKs not counted
 * @ready: bytes queued that are not for later, pure ACKs included
 *	(flow.h)
 * @exempt: bytes of @data that do not count in its share: they came with a
 *	departure time, and their flow waits or is not behind (flow.h)
 * @state: enum bpshaper_state (hold.h)
 * @is_by_peer: it has a flow for each peer; changes only while it has no
 *	backlog (table.h)
 * @is_without_turns: it takes no turns because of what it is (table.h)
 * @is_fragmenting: the last packet that found it overlimit was a fragment
 *	(hold.h)
 * @is_bounded: its send buffer has been bounded until it has no backlog
 * @largest: bytes of its largest packet since it was empty, if @is_by_peer
 * @flows: its flows with a backlog
 * @peers: its flows of a peer each, parked ones included (table.h)
 * @refs: its flows, parked ones and those of an earlier owner of @sk included
 * @acks: pure ACKs queued
 * @flow: its flow that got a packet last, or NULL
 * @is_kept: @flow has no backlog and must not be forgotten: the socket is
 *	throttled or has a turn (table.h)
 * @node: on the list of its state, or on that of turns
 *	(hold.h, down to @longest_ns)
 * @ballast: skb charged to @sk while it is throttled
 * @destructor: uncharges the ballast and wakes the socket
 * @throttled_ns: when it was throttled last, CLOCK_MONOTONIC
 * @longest_ns: its longest throttle that has ended
 * @cookie: of @sk; its memory may be reused by another socket
 * @user: that pays for its memory
 * @throttles: times that it was throttled (as @longest_ns)
 * @burst: bytes of @data that it has queued beyond its share (hold.h,
 *	down to @is_lone_burst)
 * @tokens: bytes that it may still queue beyond its share
 * @tokens_ns: when these were counted, or taken by a throttle, CLOCK_MONOTONIC;
 *	0: never
 * @idle_ns: when it queued a packet and had been idle before
 * @is_lone_burst: its last burst came BPSHAPER_IDLE_NS after the one before
 * @rest: bytes that it may still queue in its turn; 0 without one
 *	(order.h, down to @outside)
 * @is_unused: it has queued nothing in its turn
 * @turn_ns: since when it is outside or has its turn, CLOCK_MONOTONIC
 * @outside_ns: how long it was outside before
 * @outside: in the tree of those outside, by virtual time
 */
struct bpshaper_socket {
	struct sock		*sk;
	u32			data;
	u32			ready;
	u32			exempt;
	u8			state;
	bool			is_by_peer;
	bool			is_without_turns;
	bool			is_fragmenting;
	bool			is_bounded;
	bool			is_unused;
	bool			is_kept;
	u32			largest;
	u32			flows;
	u32			peers;
	u32			refs;
	u32			acks;
	struct bpshaper_flow	*flow;
	struct list_head	node;
	struct sk_buff		*ballast;
	bpshaper_destructor_t	destructor;
	u64			throttled_ns;
	u64			longest_ns;
	u64			cookie;
	struct bpshaper_user	*user;
	u32			throttles;
	u32			burst;
	u64			tokens;
	u64			tokens_ns;
	u64			idle_ns;
	bool			is_lone_burst;
	u32			rest;
	u64			turn_ns;
	u64			outside_ns;
	struct bpshaper_tag	outside;
};

/* Ours */

static struct kmem_cache *bpshaper_socket_cachep __read_mostly;

/* @s may be NULL. */
static void bpshaper_socket_put(struct bpshaper_socket *s)
{
	if (!s || --s->refs)
		return;
	bpshaper_user_put(s->user);
	kmem_cache_free(bpshaper_socket_cachep, s);
}

/* Bytes that count in its share. */
static inline u32 bpshaper_socket_due(const struct bpshaper_socket *s)
{
	return s->data - s->exempt;
}

/* Does it take turns? Not with several peers: their packets are in the queue
 * side by side, and one peer may send less than another.
 */
static inline bool bpshaper_socket_takes_turns(const struct bpshaper_socket *s)
{
	return !s->is_without_turns &&
	       (likely(!s->is_by_peer) || s->peers <= 1);
}

/* May it not send? */
static inline bool bpshaper_socket_is_throttled(const struct bpshaper_socket *s)
{
	return s->state >= BPSHAPER_THROTTLED;
}

/* What it counts as inside. */
static inline u32 bpshaper_socket_inside(const struct bpshaper_socket *s)
{
	return bpshaper_socket_takes_turns(s) ? s->ready : 0;
}

/* It sends a packet of @bytes to one of its peers. */
static inline void bpshaper_socket_note_largest(struct bpshaper_socket *s,
						u32 bytes)
{
	if (unlikely(s->is_by_peer))
		s->largest = max(s->largest, bytes);
}

/* Taps */

/* vhost-net gives such a tap small frames without an owner, and others with
 * one. It would reorder a flow of the machine if the send buffer were bounded
 * while the tap is throttled only. So the tap keeps it until it has no backlog.
 * TUNSETSNDBUF may change it at any time.
 */
static void bpshaper_socket_bound(struct bpshaper_socket *s)
{
	if (likely(!bpshaper_sock_is_unbounded(s->sk)))
		return;
	if (cmpxchg(&s->sk->sk_sndbuf, INT_MAX, BPSHAPER_TAP_SNDBUF) == INT_MAX)
		s->is_bounded = true;
}

static void bpshaper_socket_unbound(struct bpshaper_socket *s)
{
	if (likely(!s->is_bounded))
		return;
	cmpxchg(&s->sk->sk_sndbuf, BPSHAPER_TAP_SNDBUF, INT_MAX);
	s->is_bounded = false;
}

#endif /* _BPSHAPER_SOCKET_H */
