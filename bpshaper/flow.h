/* SPDX-License-Identifier: GPL-2.0-only */
/* Flows: what they hold. */
#ifndef _BPSHAPER_FLOW_H
#define _BPSHAPER_FLOW_H

/* Flows: queues of packets that are served in turn, and what they hold.
 *
 * A flow holds the packets of a connected socket, those of an unconnected
 * socket for one peer, or those of one hash of the socketless pool. Here are
 * its state and its accounts. order.h has the order, and table.h how a flow is
 * found and what becomes of its packets.
 *
 * The caller holds the root lock of the qdisc.
 */

#define BPSHAPER_FLOW_STEPS	64	/* flows looked at under the lock */
#define BPSHAPER_WAKE_STEPS	16	/* flows woken there */

/**
 * struct bpshaper_key - what a flow is found by
 * @sk: the socket, or NULL for a flow of the pool
 * @hash: of the packets, or 0 for all packets of the socket
 *
 * The flows of a class that have the same socket are neighbours, in one tree.
 */
struct bpshaper_key {
	struct sock	*sk;
	u32		hash;
};

/**
 * struct bpshaper_flow - a queue and its place in the order
 * @node: in a tree of the table (table.h)
 * @key: its place there (table.h)
 * @flows: that it is one of (table.h)
 * @flows_node: on the list of @flows (table.h)
 * @socket: that it belongs to; NULL in the pool (table.h)
 * @head: next packet, NULL when parked; from here to @tail packets are in order
 *	of time (table.h, down to @early)
 * @tail: last packet, valid while @head is set
 * @early: packets that came with a time before that of @tail, by time; none is
 *	before @head or after @tail
 * @list: on the list of parked flows, while it is one (table.h)
 * @backlog: bytes queued
 * @qlen: packets queued
 * @is_known: it has sent a packet
 * @sent: packets sent since it was empty, counted up to BPSHAPER_CREDIT_PKTS
 * @level: its level in the rank of its user
 * @kind: enum bpshaper_flow_kind, while it is in the order
 * @is_waiting: in the tree by time, and not in the order
 * @was_held: it ran empty while its socket, which has a flow for each peer, was
 *	overlimit or throttled (also table.h)
 * @is_timed: since it was empty it has waited for a time or held packets with
 *	one
 * @has_waited: it has waited for a time since it was empty: what follows its
 *	first packet is taken to be not due
 * @is_behind: the packet that left last was so late that its times do not hold
 *	the flow back
 * @is_parked_known: parked as a known flow, now or last (table.h)
 * @cookie: of the socket that made it; the memory of @key.sk may be reused
 *	(table.h)
 * @memory: bytes of memory that its packets take
 * @rank_node: on the list of @level
 * @later: bytes of @backlog that are not due
 * @timed: bytes of @backlog that came with a time in the future, pure ACKs not
 *	counted
 * @exempt: bytes of @timed that do not count in the share of the socket
 * @v: its virtual time: bytes that it was served
 * @order: in the tree of its @kind, by @v at the beginning of what it sends in
 *	one go, while it has a backlog; in that by time while @is_waiting
 * @departs_ns: what it waited for last, CLOCK_MONOTONIC
 * @paced: its pacing by a rate (packet.h)
 * @pi2: how likely a mark is (packet.h)
 */
struct bpshaper_flow {
	struct rb_node		node;
	struct bpshaper_key	key;
	struct bpshaper_flows	*flows;
	struct bpshaper_socket	*socket;
	struct sk_buff		*head;
	struct sk_buff		*tail;
	struct rb_root		early;
	struct list_head	list;
	u32			backlog;
	u32			qlen;
	u64			v;
	struct bpshaper_tag	order;
	u64			departs_ns;
	bool			is_known;
	u8			sent;
	u8			level;
	u8			kind;
	bool			is_waiting;
	bool			is_timed;
	bool			has_waited;
	bool			was_held;
	bool			is_behind;
	bool			is_parked_known;

	u32			exempt;
	u64			cookie;
	struct list_head	flows_node;
	u64			memory;
	struct list_head	rank_node;
	u32			later;
	u32			timed;

	struct bpshaper_paced	paced;
	struct bpshaper_pi2	pi2;
};

/**
 * enum bpshaper_flow_kind - what a flow is in the order
 * @BPSHAPER_FLOW_KNOWN: of a socket, and has sent a packet
 * @BPSHAPER_FLOW_NEW: of a socket, and has sent nothing
 * @BPSHAPER_FLOW_POOL: of the pool
 * @BPSHAPER_FLOW_KINDS: how many there are
 */
enum bpshaper_flow_kind {
	BPSHAPER_FLOW_KNOWN,
	BPSHAPER_FLOW_NEW,
	BPSHAPER_FLOW_POOL,
	BPSHAPER_FLOW_KINDS
};

/**
 * struct bpshaper_kind - flows of a kind, in order
 * @flows: by their tags
 * @v: virtual time of all of them together, if the kind is bounded
 */
struct bpshaper_kind {
	struct rb_root_cached	flows;
	u64			v;
};

/**
 * struct bpshaper_table - what all flows of a qdisc share
 * @trees: flows by key, 1 << BPSHAPER_FLOW_TREES_LOG roots (table.h)
 * @parked: empty flows, longest empty first (table.h, down to @parked_known)
 * @parked_len: flows on @parked
 * @parked_known: those of them that were parked as known flows
 * @waiting: leaves that have flows that wait, by @departs of each
 * @memory: what is in use
 * @dev: of the qdisc
 */
struct bpshaper_table {
	struct rb_root		*trees;
	struct list_head	parked;
	u32			parked_len;
	u32			parked_known;
	struct rb_root_cached	waiting;
	struct bpshaper_memory	memory;
	struct net_device	*dev;
};

/**
 * struct bpshaper_turns - who is inside, who waits outside
 * @outside: sockets outside, by virtual time
 * @outside_list: the same, in the order in which they are to be reviewed
 * @outside_len: their number
 * @taking: sockets that have a turn, longest first
 * @rest: bytes with framing that they may still queue in their turns
 * @inside: bytes that sockets which take turns have queued and that are not for
 *	later (flow.h and table.h)
 * @kept: kept flows: sockets without a backlog that are throttled or have a
 *	turn (table.h)
 * @bursts: bytes that sockets were let queue beyond their shares (hold.h)
 * @bursts_most: bytes that these may be (sched.h)
 * @new_ns: when a new socket got tokens last, CLOCK_MONOTONIC (hold.h)
 * @unserved: bytes that have left since a socket got a turn (hold.h)
 * @each: bytes that a socket sends in one go (hold.h)
 * @start_ns: since when there is always somebody outside
 * @over_ns: when the last socket outside got its turn
 * @active_ns: when a socket got a turn last, or sent in its turn
 * @dry_ns: how long to wait before the next one gets a turn early
 * @patience_ns: how long a turn lasts at most
 * @is_soon: the timer is armed for @dry_ns (hold.h)
 */
struct bpshaper_turns {
	struct rb_root_cached	outside;
	struct list_head	outside_list;
	u32			outside_len;
	struct list_head	taking;
	u64			rest;
	u64			inside;
	u32			kept;
	u32			each;
	bool			is_soon;
	u32			bursts;
	u32			bursts_most;
	u64			new_ns;
	u32			dry_ns;
	u32			unserved;
	u64			start_ns;
	u64			over_ns;
	u64			active_ns;
	u64			patience_ns;
};

/**
 * struct bpshaper_flows - flows of a qdisc or a class, and their order
 * @table: of the qdisc
 * @all: its flows, parked ones included (table.h)
 * @kinds: the order
 * @vtime: virtual time of all: that of the flow which was served last, if it is
 *	more, or that of the class if there is a hub (sched.h)
 * @least: place before which no flow stands, if there is a hub (sched.h)
 * @is_shared: there is one (sched.h)
 * @known: flows in the order of kind BPSHAPER_FLOW_KNOWN
 * @quantum: a packet of the MTU, bytes
 * @active: flows with a backlog (table.h, down to @sockets)
 * @socket_flows: those of them that belong to a socket
 * @sockets: sockets with a backlog
 * @memory: what they hold, by user
 * @backlog: bytes of their packets
 * @pool_backlog: those without a socket
 * @qlen: their packets
 * @waiting: flows that wait for the time of their next packet, by that time
 * @waiting_len: number of them
 * @departs: in the tree of the table, by the time of the first of them, or by
 *	that at which one of them was woken last
 * @later: bytes of backlog that are not due, of all flows
 * @exempt: bytes that do not count in the shares of their sockets, of all flows
 * @turns: which sockets may have a part of the queue (order.h)
 * @stat: what has happened to their packets and sockets
 */
struct bpshaper_flows {
	struct bpshaper_table	*table;
	struct list_head	all;
	struct bpshaper_kind	kinds[BPSHAPER_FLOW_KINDS];
	u64			vtime;
	u64			least;
	bool			is_shared;
	u32			known;
	u32			quantum;
	u32			active;
	u32			socket_flows;
	u32			sockets;
	struct bpshaper_leaf_memory memory;
	u32			backlog;
	u32			pool_backlog;
	u32			qlen;
	struct rb_root_cached	waiting;
	u32			waiting_len;
	struct bpshaper_tag	departs;
	u32			later;
	u32			exempt;
	struct bpshaper_turns	turns;
	struct bpshaper_counters stat;
};

static void bpshaper_flows_configure(struct bpshaper_flows *flows, u32 quantum)
{
	flows->quantum = quantum;
}

/* Is the flow behind the place of @key in the order of a tree? */
static bool bpshaper_flow_is_after(const struct bpshaper_flow *f,
				   const struct bpshaper_flows *flows,
				   struct bpshaper_key key)
{
	if (f->key.sk != key.sk)
		return f->key.sk > key.sk;
	if (f->flows != flows)
		return f->flows > flows;
	return f->key.hash > key.hash;
}

/* Is it the flow of a peer of its socket? Not if an earlier owner of the
 * socket's address made it.
 */
static bool bpshaper_flow_is_peer(const struct bpshaper_flow *f)
{
	return f->socket && f->key.hash && f->cookie &&
	       f->cookie == f->socket->cookie;
}

static inline struct bpshaper_user *
bpshaper_flow_user(struct bpshaper_flows *flows, const struct bpshaper_flow *f)
{
	return f->socket ? f->socket->user : &flows->memory.pool;
}

/* The level of a flow with @qlen packets of @bytes, by @amount. One packet of
 * up to the MTU counts as little, whatever its length, and as less if the
 * flow is known; else a flood of small packets from everywhere would evict
 * all others' packets.
 */
static inline u8 bpshaper_flow_level(const struct bpshaper_flows *flows,
				     const struct bpshaper_flow *f, u32 qlen,
				     u32 bytes, u64 amount)
{
	if (!qlen)
		return BPSHAPER_RANK_NOTHING;
	if (qlen == 1 && bytes <= flows->quantum)
		return f->is_known ? BPSHAPER_RANK_LITTLE :
				     BPSHAPER_RANK_LITTLE_FRESH;
	return bpshaper_rank_level(amount);
}

/* What it is ranked by. */
static inline u64 bpshaper_flow_amount(const struct bpshaper_flow *f)
{
	return f->socket ? f->memory : f->backlog;
}

/* A flow is ranked when it waits, and when a packet comes or goes while much
 * memory is in use or the flow is timed; in the pool always.
 */
static noinline void bpshaper_flow_rank(struct bpshaper_flows *flows,
					struct bpshaper_flow *f)
{
	u8 level = bpshaper_flow_level(flows, f, f->qlen, f->backlog,
				       bpshaper_flow_amount(f));

	if (level && f->is_waiting && f->timed)
		level = BPSHAPER_RANK_LATER;
	bpshaper_rank_move(&bpshaper_flow_user(flows, f)->rank, &f->rank_node,
			   &f->level, level);
}

/* @bytes more that the socket has queued are not for later, or less if
 * negative.
 */
static inline void bpshaper_flows_count_ready(struct bpshaper_flows *flows,
					      struct bpshaper_socket *s,
					      s32 bytes)
{
	s->ready += bytes;
	if (bpshaper_socket_takes_turns(s))
		flows->turns.inside += bytes;
}

/* Count which bytes of the backlog are not due, and which are exempt.
 *
 * While the flow waits, nothing is due. After it has waited, only its first
 * packet is: its packets come with times, or leave at a rate. If it is behind
 * its times, all is due. Bytes that came with a departure time are exempt
 * unless the flow is behind and does not wait: the socket has not sent too
 * fast.
 */
static void bpshaper_flow_count_later(struct bpshaper_flows *flows,
				      struct bpshaper_flow *f)
{
	u32 exempt = f->is_waiting || !f->is_behind ? f->timed : 0;
	u32 later = 0;

	if (f->is_waiting)
		later = f->backlog;
	else if (f->has_waited && !f->is_behind && f->head)
		later = f->backlog - qdisc_pkt_len(f->head);
	flows->later += later - f->later;
	if (f->socket)
		bpshaper_flows_count_ready(flows, f->socket, f->later - later);
	f->later = later;
	if (f->socket) {
		f->socket->exempt += exempt - f->exempt;
		flows->exempt += exempt - f->exempt;
	}
	f->exempt = exempt;
}

/* A packet has come (@sign is 1) or gone (-1). */
static inline void bpshaper_flow_account(struct bpshaper_flows *flows,
					 struct bpshaper_flow *f,
					 const struct sk_buff *skb, int sign)
{
	const struct bpshaper_memory *m = &flows->table->memory;
	u32 bytes = sign * qdisc_pkt_len(skb);
	s64 memory = sign * (s64)bpshaper_skb_memory(skb);

	f->qlen += sign;
	f->backlog += bytes;
	f->memory += memory;
	flows->qlen += sign;
	flows->backlog += bytes;
	bpshaper_user_account(bpshaper_flow_user(flows, f), memory);
	if (f->socket) {
		if (likely(!skb_is_tcp_pure_ack(skb)))
			f->socket->data += bytes;
		else
			f->socket->acks += sign;
		bpshaper_flows_count_ready(flows, f->socket, bytes);
	} else {
		flows->pool_backlog += bytes;
	}
	if (unlikely(f->is_timed)) {
		if (bpshaper_skb_is_timed(skb) && !skb_is_tcp_pure_ack(skb))
			f->timed += bytes;
		bpshaper_flow_count_later(flows, f);
	}
	/* It costs 1 % of a packet, for nothing while memory is not scarce. */
	if (!f->socket ||
	    unlikely(m->used > m->scarce_above / 2 || f->level || f->is_timed))
		bpshaper_flow_rank(flows, f);
}

#endif /* _BPSHAPER_FLOW_H */
