/* SPDX-License-Identifier: GPL-2.0-only */
/* Flows: queues of packets that are served in turn, and what they hold.
 *
 * A flow holds the packets of a connected socket, those of an unconnected
 * socket for one peer, or those of one hash of the socketless pool. This file
 * has its state and its accounts. Its verbs are in
 *
 *	bpshaper_round.h	order: which flow is next, which one waits
 *	bpshaper_table.h	how a flow is found, made, kept and forgotten
 *	bpshaper_queue.h	packets that come and go
 *
 * Only the file that a field's description names writes the field, or this one
 * if it names none. The caller holds the root lock of the qdisc.
 */
#ifndef _BPSHAPER_FLOW_H
#define _BPSHAPER_FLOW_H

#define BPSHAPER_FLOW_STEPS	64	/* flows looked at under the lock */
#define BPSHAPER_WAKE_STEPS	16	/* flows woken there */
/* Length of the calendar of rounds: 64 kB are 43 quanta of 1514 bytes. */
#define BPSHAPER_FLOW_ROUNDS	64

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
 * struct bpshaper_flow - a queue and its place in the round
 * @node: in a tree of the table (bpshaper_table.h)
 * @key: its place there (bpshaper_table.h)
 * @flows: that it is one of (bpshaper_table.h)
 * @flows_node: on the list of @flows (bpshaper_table.h)
 * @socket: that it belongs to; NULL in the pool (bpshaper_table.h)
 * @head: next packet, NULL when parked; from here to @tail packets are in order
 *	of time (bpshaper_queue.h, down to @early)
 * @tail: last packet, valid while @head is set
 * @early: packets that came with a time before that of @tail, by time; none is
 *	before @head or after @tail
 * @list: on the new or fresh list, on that of a round, or on a parked list
 *	(bpshaper_round.h and bpshaper_table.h)
 * @backlog: bytes queued
 * @deficit: credit left in @round, bytes; negative is debt (bpshaper_round.h)
 * @round: round in which @deficit was renewed (bpshaper_round.h)
 * @qlen: packets queued
 * @visits: times that it has become active, counted up to 2
 * @level: its level in the rank of its user
 * @is_new: on the new or the fresh list, or was when it ran empty
 *	(bpshaper_round.h)
 * @is_waiting: in the tree by time, and on no list (bpshaper_round.h)
 * @is_timed: since it was empty it has waited for a time or held packets with
 *	one
 * @has_waited: it has waited for a time since it was empty: what follows its
 *	first packet is taken to be not due
 * @was_held: it ran empty while its socket, which has a flow for each peer, was
 *	overlimit or throttled (bpshaper_round.h)
 * @is_behind: the packet that left last was so late that its times do not hold
 *	the flow back
 * @is_parked_known: parked as a known flow, now or last (bpshaper_table.h)
 * @cookie: of the socket that made it; the memory of @key.sk may be reused
 *	(bpshaper_table.h)
 * @memory: bytes of memory that its packets take
 * @rank_node: on the list of @level
 * @later: bytes of @backlog that are not due
 * @timed: bytes of @backlog that came with a time in the future, pure ACKs not
 *	counted
 * @exempt: bytes of @timed that do not count in the share of the socket
 * @departs: in the tree by time, CLOCK_MONOTONIC, while @is_waiting
 *	(bpshaper_round.h)
 * @finish: its virtual finish time, in the pool or if it is that of a peer
 *	(bpshaper_turns.h)
 * @paced: its pacing by a rate (bpshaper_pacing.h)
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
	s32			deficit;
	u32			round;
	u32			qlen;
	u8			visits;
	u8			level;
	bool			is_new;
	bool			is_waiting;
	bool			is_timed;
	bool			has_waited;
	bool			was_held;
	bool			is_behind;
	bool			is_parked_known;

	u64			cookie;
	struct list_head	flows_node;
	u64			memory;
	struct list_head	rank_node;
	u32			later;
	u32			timed;
	u32			exempt;

	struct bpshaper_tag	departs;
	u64			finish;
	struct bpshaper_paced	paced;
};

/**
 * struct bpshaper_table - what all flows of a qdisc share
 * @trees: flows by key, 1 << BPSHAPER_FLOW_TREES_LOG roots (bpshaper_table.h)
 * @parked: empty flows that came back before, longest empty first
 *	(bpshaper_table.h, down to @parked_known)
 * @parked_fresh: empty flows that have not come back yet
 * @parked_len: flows on @parked and @parked_fresh
 * @parked_known: flows on @parked
 * @waiting: leaves that have flows that wait, by @departs (bpshaper_round.h)
 * @memory: what is in use
 * @dev: of the qdisc
 */
struct bpshaper_table {
	struct rb_root		*trees;
	struct list_head	parked;
	struct list_head	parked_fresh;
	u32			parked_len;
	u32			parked_known;
	struct rb_root_cached	waiting;
	struct bpshaper_memory	memory;
	struct net_device	*dev;
};

/**
 * struct bpshaper_flows - flows of a qdisc or a class, and their order
 * @table: of the qdisc
 * @all: its flows, parked ones included (bpshaper_table.h)
 * @new_flows: flows with credit that came back in this round (bpshaper_round.h,
 *	down to @old_rounds)
 * @fresh_flows: flows that have become active for the first time
 * @old_flows: the other active flows, by the round that will serve them, modulo
 *	the size; one with more debt than that is looked at in the last
 * @old_rounds: bit r is set if @old_flows[r] has flows, or had some when last
 *	looked at
 * @quantum: credit per round, bytes
 * @round: number of the current round (bpshaper_round.h)
 * @skipped: rounds that the flow of a large packet has to skip, of the largest
 *	one lately; 0 if there was none (bpshaper_round.h)
 * @skipped_round: the round in which it was sent
 * @active: flows with a backlog (bpshaper_queue.h, down to @sockets)
 * @socket_flows: those of them that belong to a socket
 * @sockets: sockets with a backlog
 * @memory: what they hold, by user
 * @backlog: bytes of their packets
 * @pool_backlog: those without a socket
 * @qlen: their packets
 * @new_bytes: bytes that new and fresh flows have sent, less
 *	BPSHAPER_FLOW_NEW_QUANTA times what old ones have sent since; not below
 *	0 (bpshaper_round.h, down to @waiting_len)
 * @known_bytes: the same of the new flows against the fresh
 * @fresh_bytes: bytes that fresh flows have sent in this round
 * @waiting: flows that wait for the time of their next packet, by that time
 * @waiting_len: number of them
 * @departs: in the tree of the table, by the time of the first of them, or by
 *	that at which one of them was woken last
 * @later: bytes of backlog that are not due, of all flows
 * @exempt: bytes that do not count in the shares of their sockets, of all flows
 * @turns: which sockets may have a part of the queue (bpshaper_turns.h)
 */
struct bpshaper_flows {
	struct bpshaper_table	*table;
	struct list_head	all;
	struct list_head	new_flows;
	struct list_head	fresh_flows;
	struct list_head	old_flows[BPSHAPER_FLOW_ROUNDS];
	u64			old_rounds;
	u32			quantum;
	u32			round;
	u32			skipped;
	u32			skipped_round;
	u32			active;
	u32			socket_flows;
	u32			sockets;
	struct bpshaper_leaf_memory memory;
	u32			backlog;
	u32			pool_backlog;
	u32			qlen;
	u32			new_bytes;
	u32			known_bytes;
	u32			fresh_bytes;
	struct rb_root_cached	waiting;
	u32			waiting_len;
	struct bpshaper_tag	departs;
	u32			later;
	u32			exempt;
	struct bpshaper_turns	turns;
};

static void bpshaper_flows_configure(struct bpshaper_flows *t, u32 quantum)
{
	t->quantum = quantum;
}

static void bpshaper_flows_clear_accounts(struct bpshaper_flows *t)
{
	t->later = 0;
	t->exempt = 0;
	t->backlog = 0;
	t->pool_backlog = 0;
	t->qlen = 0;
	bpshaper_leaf_memory_init(&t->memory, &t->table->memory);
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

/* Has it come back at least once? */
static inline bool bpshaper_flow_is_known(const struct bpshaper_flow *f)
{
	return f->visits > 1;
}

static inline void bpshaper_flow_count_visit(struct bpshaper_flow *f)
{
	f->visits += f->visits < 2;
}

static void bpshaper_flow_clear_visits(struct bpshaper_flow *f)
{
	f->visits = 0;
}

/* Is it the flow of a peer of its socket? Not if an earlier owner of the
 * socket's address made it.
 */
static bool bpshaper_flow_is_peer(const struct bpshaper_flow *f)
{
	return f->socket && f->key.hash && f->cookie &&
	       f->cookie == f->socket->cookie;
}

/* Does it owe bytes or time? Do not recycle such a flow: sockets taking turns
 * would escape their debt.
 */
static bool bpshaper_flow_is_owing(const struct bpshaper_flow *f, u64 now)
{
	return f->deficit < 0 || bpshaper_paced_is_owing(&f->paced, now);
}

static inline struct bpshaper_user *
bpshaper_flow_user(struct bpshaper_flows *t, const struct bpshaper_flow *f)
{
	return f->socket ? f->socket->user : &t->memory.pool;
}

/* The level of a flow with @qlen packets of @bytes, by @amount. One packet of
 * up to a quantum counts as little, whatever its length, and as less if the
 * flow is known; else a flood of small packets from everywhere would evict
 * all others' packets.
 */
static inline u8 bpshaper_flow_level(const struct bpshaper_flows *t,
				     const struct bpshaper_flow *f, u32 qlen,
				     u32 bytes, u64 amount)
{
	if (!qlen)
		return BPSHAPER_RANK_NOTHING;
	/* An empty flow is about to come back. */
	if (qlen == 1 && bytes <= t->quantum)
		return f->visits + !f->head > 1 ? BPSHAPER_RANK_LITTLE :
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
static noinline void bpshaper_flow_rank(struct bpshaper_flows *t,
					struct bpshaper_flow *f)
{
	u8 level = bpshaper_flow_level(t, f, f->qlen, f->backlog,
				       bpshaper_flow_amount(f));

	if (level && f->is_waiting && f->timed)
		level = BPSHAPER_RANK_LATER;
	bpshaper_rank_move(&bpshaper_flow_user(t, f)->rank, &f->rank_node,
			   &f->level, level);
}

/* @bytes more that the socket has queued are not for later, or less if
 * negative.
 */
static inline void bpshaper_flows_count_ready(struct bpshaper_flows *t,
					      struct bpshaper_socket *s,
					      s32 bytes)
{
	s->ready += bytes;
	if (bpshaper_socket_takes_turns(s))
		t->turns.inside += bytes;
	else
		t->turns.others += bytes;
}

/* Count which bytes of the backlog are not due, and which are exempt.
 *
 * While the flow waits, nothing is due. After it has waited, only its first
 * packet is: its packets come with times, or leave at a rate. If it is behind
 * its times, all is due. Bytes that came with a departure time are exempt
 * unless the flow is behind and does not wait: the socket has not sent too
 * fast.
 */
static void bpshaper_flow_count_later(struct bpshaper_flows *t,
				      struct bpshaper_flow *f)
{
	u32 exempt = f->is_waiting || !f->is_behind ? f->timed : 0;
	u32 later = 0;

	if (f->is_waiting)
		later = f->backlog;
	else if (f->has_waited && !f->is_behind && f->head)
		later = f->backlog - qdisc_pkt_len(f->head);
	t->later += later - f->later;
	if (f->socket)
		bpshaper_flows_count_ready(t, f->socket, f->later - later);
	f->later = later;
	if (f->socket) {
		bpshaper_socket_count_exempt(f->socket, exempt - f->exempt);
		t->exempt += exempt - f->exempt;
	}
	f->exempt = exempt;
}

/* The flow has a packet with a time, or waits for a time. */
static inline void bpshaper_flow_set_timed(struct bpshaper_flow *f,
					   bool has_waited)
{
	f->is_timed = true;
	f->has_waited |= has_waited;
}

/* The flow is empty. */
static inline void bpshaper_flow_clear_timed(struct bpshaper_flow *f)
{
	f->is_timed = false;
	f->has_waited = false;
	f->is_behind = false;
}

/* Note whether the last packet was too late for its times to matter. */
static void bpshaper_flow_set_behind(struct bpshaper_flows *t,
				     struct bpshaper_flow *f, bool is_behind)
{
	f->is_behind = is_behind;
	bpshaper_flow_count_later(t, f);
}

/* A packet has come (@sign is 1) or gone (-1). */
static inline void bpshaper_flow_account(struct bpshaper_flows *t,
					 struct bpshaper_flow *f,
					 const struct sk_buff *skb, int sign)
{
	u32 bytes = sign * qdisc_pkt_len(skb);
	s64 memory = sign * (s64)bpshaper_skb_memory(skb);

	f->qlen += sign;
	f->backlog += bytes;
	f->memory += memory;
	t->qlen += sign;
	t->backlog += bytes;
	bpshaper_user_account(bpshaper_flow_user(t, f), memory);
	if (f->socket) {
		bpshaper_socket_account(f->socket, skb, sign);
		bpshaper_flows_count_ready(t, f->socket, bytes);
	} else {
		t->pool_backlog += bytes;
	}
	if (unlikely(f->is_timed)) {
		if (bpshaper_skb_is_timed(skb) && !skb_is_tcp_pure_ack(skb))
			f->timed += bytes;
		bpshaper_flow_count_later(t, f);
	}
	if (!f->socket || unlikely(bpshaper_memory_ranks(&t->table->memory) ||
				   f->level || f->is_timed))
		bpshaper_flow_rank(t, f);
}

#endif /* _BPSHAPER_FLOW_H */
