/* SPDX-License-Identifier: GPL-2.0-only */
/* Flows, and their order. */
#ifndef _BPSHAPER_FLOW_H
#define _BPSHAPER_FLOW_H

/* Flows: queues of packets that are served in turn, and what they hold.
 *
 * A flow holds the packets of a connected socket, those of an unconnected
 * socket for one peer, or those of one hash of the socketless pool. This
 * section has its state and its accounts. Order is below, and how a flow is
 * found and what becomes of its packets in table.h.
 *
 * The caller holds the root lock of the qdisc.
 */

#define BPSHAPER_FLOW_STEPS	64	/* flows looked at under the lock */
#define BPSHAPER_PASS_STEPS	8	/* greedy flows that others pass, */
#define BPSHAPER_PASS_NS	(10 * NSEC_PER_MSEC)	/* for so long */
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
 * @list: on the new or fresh list, on that of a round, or on a parked list
 *	(flow.h and table.h)
 * @backlog: bytes queued
 * @deficit: credit left in @round, bytes; negative is debt (flow.h)
 * @round: round in which @deficit was renewed (flow.h)
 * @qlen: packets queued
 * @visits: times that it has become active, counted up to 2 (table.h)
 * @level: its level in the rank of its user
 * @is_new: on the new or the fresh list, or was when it ran empty
 *	(flow.h)
 * @is_waiting: in the tree by time, and on no list (flow.h)
 * @is_timed: since it was empty it has waited for a time or held packets with
 *	one
 * @has_waited: it has waited for a time since it was empty: what follows its
 *	first packet is taken to be not due
 * @was_held: it ran empty while its socket, which has a flow for each peer, was
 *	overlimit or throttled (flow.h and table.h)
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
 * @old_round: round in which it became one of the old flows last (flow.h)
 * @departs: in the tree by time, CLOCK_MONOTONIC, while @is_waiting
 *	(flow.h)
 * @finish: its virtual finish time, in the pool or if it is that of a peer
 *	(turns.h)
 * @paced: its pacing by a rate (turns.h)
 * @pi2: how likely a mark is (turns.h)
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
	u32			old_round;

	struct bpshaper_tag	departs;
	u64			finish;
	struct bpshaper_paced	paced;
	struct bpshaper_pi2	pi2;
};

/**
 * struct bpshaper_table - what all flows of a qdisc share
 * @trees: flows by key, 1 << BPSHAPER_FLOW_TREES_LOG roots (table.h)
 * @parked: empty flows that came back before, longest empty first
 *	(table.h, down to @parked_known)
 * @parked_fresh: empty flows that have not come back yet
 * @parked_len: flows on @parked and @parked_fresh
 * @parked_known: flows on @parked
 * @waiting: leaves that have flows that wait, by @departs (flow.h)
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
 * @all: its flows, parked ones included (table.h)
 * @new_flows: flows with credit that came back in this round (flow.h,
 *	down to @old_rounds)
 * @fresh_flows: flows that have become active for the first time
 * @old_flows: the other active flows, by the round that will serve them, modulo
 *	the size; one with more debt than that is looked at in the last
 * @old_rounds: bit r is set if @old_flows[r] has flows, or had some when last
 *	looked at
 * @quantum: credit per round, bytes
 * @round: number of the current round (flow.h)
 * @skipped: rounds that the flow of a large packet has to skip, of the largest
 *	one lately; 0 if there was none (flow.h)
 * @skipped_round: the round in which it was sent
 * @active: flows with a backlog (table.h, down to @sockets)
 * @active_new: those of them that are new or fresh (flow.h and table.h)
 * @socket_flows: those of them that belong to a socket
 * @sockets: sockets with a backlog
 * @memory: what they hold, by user
 * @backlog: bytes of their packets
 * @pool_backlog: those without a socket
 * @qlen: their packets
 * @new_bytes: bytes that new and fresh flows have sent, less
 *	BPSHAPER_FLOW_NEW_QUANTA times what old ones have sent since; not below
 *	0 (flow.h, down to @waiting_len)
 * @known_bytes: the same of the new flows against the fresh
 * @fresh_bytes: bytes that fresh flows have sent in this round
 * @unpaid_bytes: bytes that new and fresh flows have sent beside old ones
 * @waiting: flows that wait for the time of their next packet, by that time
 * @waiting_len: number of them
 * @departs: in the tree of the table, by the time of the first of them, or by
 *	that at which one of them was woken last
 * @later: bytes of backlog that are not due, of all flows
 * @exempt: bytes that do not count in the shares of their sockets, of all flows
 * @turns: which sockets may have a part of the queue (turns.h)
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
	u32			active_new;
	u32			socket_flows;
	u32			sockets;
	struct bpshaper_leaf_memory memory;
	u32			backlog;
	u32			pool_backlog;
	u32			qlen;
	u32			new_bytes;
	u32			known_bytes;
	u32			fresh_bytes;
	u32			unpaid_bytes;
	struct rb_root_cached	waiting;
	u32			waiting_len;
	struct bpshaper_tag	departs;
	u32			later;
	u32			exempt;
	struct bpshaper_turns	turns;
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

/* Has it come back at least once? */
static inline bool bpshaper_flow_is_known(const struct bpshaper_flow *f)
{
	return f->visits > 1;
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
bpshaper_flow_user(struct bpshaper_flows *flows, const struct bpshaper_flow *f)
{
	return f->socket ? f->socket->user : &flows->memory.pool;
}

/* The level of a flow with @qlen packets of @bytes, by @amount. One packet of
 * up to a quantum counts as little, whatever its length, and as less if the
 * flow is known; else a flood of small packets from everywhere would evict
 * all others' packets.
 */
static inline u8 bpshaper_flow_level(const struct bpshaper_flows *flows,
				     const struct bpshaper_flow *f, u32 qlen,
				     u32 bytes, u64 amount)
{
	if (!qlen)
		return BPSHAPER_RANK_NOTHING;
	/* An empty flow is about to come back. */
	if (qlen == 1 && bytes <= flows->quantum)
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
	else
		flows->turns.others += bytes;
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
static void bpshaper_flow_set_behind(struct bpshaper_flows *flows,
				     struct bpshaper_flow *f, bool is_behind)
{
	f->is_behind = is_behind;
	bpshaper_flow_count_later(flows, f);
}

/* A packet has come (@sign is 1) or gone (-1). */
static inline void bpshaper_flow_account(struct bpshaper_flows *flows,
					 struct bpshaper_flow *f,
					 const struct sk_buff *skb, int sign)
{
	u32 bytes = sign * qdisc_pkt_len(skb);
	s64 memory = sign * (s64)bpshaper_skb_memory(skb);

	f->qlen += sign;
	f->backlog += bytes;
	f->memory += memory;
	flows->qlen += sign;
	flows->backlog += bytes;
	bpshaper_user_account(bpshaper_flow_user(flows, f), memory);
	if (f->socket) {
		bpshaper_socket_account(f->socket, skb, sign);
		bpshaper_flows_count_ready(flows, f->socket, bytes);
	} else {
		flows->pool_backlog += bytes;
	}
	if (unlikely(f->is_timed)) {
		if (bpshaper_skb_is_timed(skb) && !skb_is_tcp_pure_ack(skb))
			f->timed += bytes;
		bpshaper_flow_count_later(flows, f);
	}
	if (!f->socket ||
	    unlikely(bpshaper_memory_ranks(&flows->table->memory) || f->level ||
		     f->is_timed))
		bpshaper_flow_rank(flows, f);
}

/* Rounds: which flow is next?
 *
 * Deficit round robin (Shreedhar and Varghese, 1995) with one change: a flow
 * that runs empty keeps its credit or debt for the round.
 *
 *	join	A flow that becomes active gets its credit for each round since
 *		it was last active, at most that of one in all, or of as many as
 *		others skip for their large packets. With credit it joins the
 *		tail of the new list, or of the fresh list if it has not come
 *		back yet. Without credit, or if it comes back with more than a
 *		quantum that counts as due, it joins the old flows.
 *	next	The new list is served first, then the fresh one. A flow there
 *		that has used up its credit joins the old flows. When the old
 *		flows of this round have been served, the next round begins
 *		that has any.
 *	empty	A flow that runs empty is parked with its credit and the number
 *		of the round (table.h).
 *
 * So a flow that asks for less than its fair share is always new and never
 * waits behind bulk, however often it runs empty, and no flow gains by running
 * empty.
 *
 * Old flows are kept in a calendar: in the list of the round in which their
 * credit will do for their next packet. So a flow in debt for a large packet is
 * not looked at in every round, and the next flow is found in constant time
 * (Brown, "Calendar queues", CACM 31(10), 1988).
 *
 * Anybody can make flows: a socket for each packet, packets from many
 * addresses. So known flows go before fresh ones, and both before old ones, but
 * neither without end. Past BPSHAPER_FLOW_NEW_QUANTA quanta of new and fresh
 * flows an old flow sends a packet for each eight times its bytes; fresh flows
 * likewise among the new. Old flows keep a ninth of the rate in bytes, and
 * delay the others by a packet. Without old flows in this round, it ends after
 * BPSHAPER_FLOW_FRESH_QUANTA quanta of fresh flows; otherwise it would never
 * end, and known flows would use up their credit.
 *
 * A flow whose next packet is not due, or that is ahead of its pacing rate,
 * waits in a tree by time, on no list, and then joins the lists as if it had
 * been empty. A packet with an earlier time that comes meanwhile waits for the
 * same time, as in sch_fq. A packet that has no time and becomes the first ends
 * the wait.
 */

#define BPSHAPER_FLOW_NEW_QUANTA	8	/* then one of the others */
#define BPSHAPER_FLOW_FRESH_QUANTA	32	/* in a round */
#define BPSHAPER_FLOW_HELD_ROUNDS	2	/* then it may be new again */
#define BPSHAPER_FLOW_DEBT_MAX	BIT(30)	/* bytes; more is forgiven */

static void bpshaper_round_init(struct bpshaper_flows *flows)
{
	int i;

	INIT_LIST_HEAD(&flows->new_flows);
	INIT_LIST_HEAD(&flows->fresh_flows);
	for (i = 0; i < BPSHAPER_FLOW_ROUNDS; i++)
		INIT_LIST_HEAD(&flows->old_flows[i]);
	flows->old_rounds = 0;
	flows->skipped = 0;
	flows->waiting = RB_ROOT_CACHED;
	flows->waiting_len = 0;
}

static void bpshaper_flows_clear(struct bpshaper_flows *flows)
{
	INIT_LIST_HEAD(&flows->all);
	bpshaper_round_init(flows);
	bpshaper_leaf_memory_init(&flows->memory, &flows->table->memory);
	bpshaper_turns_init(&flows->turns);
	flows->later = 0;
	flows->exempt = 0;
	flows->backlog = 0;
	flows->pool_backlog = 0;
	flows->qlen = 0;
	flows->active = 0;
	flows->active_new = 0;
	flows->socket_flows = 0;
	flows->sockets = 0;
}

static void bpshaper_flows_init(struct bpshaper_flows *flows,
				struct bpshaper_table *table)
{
	flows->table = table;
	bpshaper_flows_clear(flows);
}

/* Credit */

/* The credit of a round. Where sockets take turns, one that is inside gets
 * several quanta (bpshaper_turns_set_quanta()).
 */
static inline u32 bpshaper_flow_quantum(const struct bpshaper_flows *flows,
					const struct bpshaper_flow *f)
{
	if (likely(flows->turns.quanta == 1) || !f->socket ||
	    !bpshaper_socket_takes_turns(f->socket))
		return flows->quantum;
	return flows->quantum * flows->turns.quanta;
}

/* The credit of a flow that was away: what the others got in a round, those
 * outside included.
 */
static inline u32
bpshaper_flows_mean_quantum(const struct bpshaper_flows *flows)
{
	return flows->quantum * flows->turns.mean_quanta;
}

/* Give @quantum for every round since the last time, up to @max credit in all.
 */
static void bpshaper_flow_renew(struct bpshaper_flows *flows,
				struct bpshaper_flow *f, u32 quantum, u32 max)
{
	s64 credit = (s64)quantum * (u32)(flows->round - f->round);

	f->deficit = min_t(s64, f->deficit + credit, max);
	f->round = flows->round;
}

/* A packet of @bytes has put its flow into debt for more than a round. */
static noinline void bpshaper_flows_note_large(struct bpshaper_flows *flows,
					       u32 quantum, u32 bytes)
{
	u32 rounds = min_t(u32, bytes / quantum, BPSHAPER_FLOW_ROUNDS - 1);

	if (rounds < flows->skipped &&
	    flows->round - flows->skipped_round < BPSHAPER_FLOW_ROUNDS)
		return;
	flows->skipped = rounds;
	flows->skipped_round = flows->round;
}

/* Most credit of a flow that becomes active, bytes. Flows with large packets
 * may all be served in one round, which then lasts long, and skip the next
 * ones. A sparse flow may send as much in such a round.
 */
static u32 bpshaper_flows_most_credit(const struct bpshaper_flows *flows)
{
	u32 quantum = bpshaper_flows_mean_quantum(flows);

	if (likely(!flows->skipped ||
		   flows->round - flows->skipped_round > BPSHAPER_FLOW_ROUNDS))
		return quantum;
	return min_t(u64, (u64)quantum * flows->skipped,
		     BPSHAPER_FLOW_DEBT_MAX);
}

/* The socket of an empty flow gets a turn, which has no credit: else all who
 * come back would be served before the old flows.
 */
static void bpshaper_flow_spend_credit(struct bpshaper_flows *flows,
				       struct bpshaper_flow *f)
{
	bpshaper_flow_renew(flows, f, bpshaper_flows_mean_quantum(flows), 0);
}

/* The credit of a flow that was never active. */
static void bpshaper_flow_start_credit(struct bpshaper_flows *flows,
				       struct bpshaper_flow *f)
{
	f->deficit = bpshaper_flows_mean_quantum(flows);
	f->round = flows->round;
}

/* Bytes of credit that are missing for the next packet. A packet needs credit
 * for all of it, so flows of equal packets send equally many in each round. A
 * packet above the quantum needs a quantum and puts the flow into debt.
 */
static s64 bpshaper_flow_need(const struct bpshaper_flows *flows,
			      const struct bpshaper_flow *f)
{
	s64 need = min(qdisc_pkt_len(f->head), flows->quantum);

	return need - f->deficit;
}

static bool bpshaper_flow_has_credit(const struct bpshaper_flows *flows,
				     const struct bpshaper_flow *f)
{
	return bpshaper_flow_need(flows, f) <= 0;
}

/* Lists */

/* The flow, which has a backlog, is on the new or the fresh list, or is not. */
static void bpshaper_flow_set_new(struct bpshaper_flows *flows,
				  struct bpshaper_flow *f, bool is_new)
{
	flows->active_new += is_new - f->is_new;
	f->is_new = is_new;
}

/* Join the round of the calendar in which the credit will do for the next
 * packet, this one or a later.
 */
static void bpshaper_flow_join_old(struct bpshaper_flows *flows,
				   struct bpshaper_flow *f)
{
	s64 need = max_t(s64, bpshaper_flow_need(flows, f), 0);
	u32 quantum = bpshaper_flow_quantum(flows, f);
	u64 rounds = div_u64(need + quantum - 1, quantum);
	u32 r = (flows->round + min_t(u64, rounds, BPSHAPER_FLOW_ROUNDS - 1)) %
		BPSHAPER_FLOW_ROUNDS;

	bpshaper_flow_set_new(flows, f, false);
	f->old_round = flows->round;
	list_move_tail(&f->list, &flows->old_flows[r]);
	flows->old_rounds |= BIT_ULL(r);
}

/* The list of a flow that is new. */
static inline struct list_head *
bpshaper_flow_new_list(struct bpshaper_flows *flows,
		       const struct bpshaper_flow *f)
{
	return bpshaper_flow_is_known(f) ? &flows->new_flows :
					   &flows->fresh_flows;
}

/* A round lasts long where sockets take turns. The known flow has used up its
 * credit, but sends less than the sockets that take turns: give it the credit
 * for a packet.
 */
static void bpshaper_flow_lend(struct bpshaper_flows *flows,
			       struct bpshaper_flow *f)
{
	if (f->socket && bpshaper_flow_is_known(f) &&
	    bpshaper_socket_is_behind(&flows->turns, f->socket, flows->quantum))
		f->deficit = flows->quantum;
}

/* A flow that was empty or waited joins a list. Two kinds of flows with credit
 * are bulk all the same: those that come back with more than a quantum that
 * counts as due (bpshaper_flow_count_later()), and those that ran empty while
 * their socket was held, of which a thousand may be released at once.
 */
static void bpshaper_flow_join(struct bpshaper_flows *flows,
			       struct bpshaper_flow *f)
{
	bool is_held = f->was_held &&
		       flows->round - f->round <= BPSHAPER_FLOW_HELD_ROUNDS;

	f->was_held = false;
	bpshaper_flow_renew(flows, f, bpshaper_flows_mean_quantum(flows),
			    bpshaper_flows_most_credit(flows));
	if (unlikely(!bpshaper_flow_has_credit(flows, f)))
		bpshaper_flow_lend(flows, f);
	if (is_held || !bpshaper_flow_has_credit(flows, f)) {
		bpshaper_flow_join_old(flows, f);
	} else if (!bpshaper_flow_is_known(f) ||
		   f->backlog - f->later <= flows->quantum) {
		bpshaper_flow_set_new(flows, f, true);
		list_move_tail(&f->list, bpshaper_flow_new_list(flows, f));
	} else {
		bpshaper_flow_join_old(flows, f);
	}
}

/* Waiting for a time */

/* The first flow of those that wait, one of each leaf in turn; NULL if none
 * waits.
 */
static struct bpshaper_flow *
bpshaper_table_first_waiting(const struct bpshaper_table *t)
{
	struct bpshaper_tag *first = bpshaper_tag_first(&t->waiting);
	struct bpshaper_flows *flows;

	if (!first)
		return NULL;
	flows = container_of(first, struct bpshaper_flows, departs);
	return container_of(bpshaper_tag_first(&flows->waiting),
			    struct bpshaper_flow, departs);
}

/* When the first waiting flow is to leave; U64_MAX if none waits. */
static u64 bpshaper_table_departs_ns(const struct bpshaper_table *t)
{
	struct bpshaper_tag *first = bpshaper_tag_first(&t->waiting);

	return first ? first->at : U64_MAX;
}

/* Another flow is the first that waits, or none, and is not counted yet: the
 * leaf is to wake it at @at at the earliest.
 */
static void bpshaper_flows_set_departs(struct bpshaper_flows *flows, u64 at)
{
	struct bpshaper_tag *first = bpshaper_tag_first(&flows->waiting);

	if (flows->waiting_len)
		rb_erase_cached(&flows->departs.node, &flows->table->waiting);
	if (!first)
		return;
	flows->departs.at = max(first->at, at);
	bpshaper_tag_link(&flows->table->waiting, &flows->departs);
}

/* An active flow leaves the lists until @departs_ns. */
static void bpshaper_flow_wait(struct bpshaper_flows *flows,
			       struct bpshaper_flow *f, u64 departs_ns)
{
	list_del_init(&f->list);
	f->departs.at = departs_ns;
	if (bpshaper_tag_link(&flows->waiting, &f->departs))
		bpshaper_flows_set_departs(flows, departs_ns);
	f->is_waiting = true;
	bpshaper_flow_set_timed(f, true);
	flows->waiting_len++;
	bpshaper_flow_count_later(flows, f);
	bpshaper_flow_rank(flows, f);
}

static void bpshaper_flow_unwait(struct bpshaper_flows *flows,
				 struct bpshaper_flow *f)
{
	bool was_first = bpshaper_tag_first(&flows->waiting) == &f->departs;

	rb_erase_cached(&f->departs.node, &flows->waiting);
	if (was_first)
		bpshaper_flows_set_departs(flows, flows->departs.at);
	f->is_waiting = false;
	flows->waiting_len--;
	bpshaper_flow_count_later(flows, f);
	if (f->level == BPSHAPER_RANK_LATER)
		bpshaper_flow_rank(flows, f);
}

static noinline void bpshaper_flow_wake(struct bpshaper_flows *flows,
					struct bpshaper_flow *f)
{
	bpshaper_flow_unwait(flows, f);
	bpshaper_flow_join(flows, f);
}

/* Wake the flow whose time has come first, of the leaf that has not woken one
 * for longest, and return it; NULL if none is due.
 */
static struct bpshaper_flow *bpshaper_table_wake(struct bpshaper_table *t,
						 u64 now)
{
	struct bpshaper_flow *f;

	if (bpshaper_table_departs_ns(t) > now)
		return NULL;
	f = bpshaper_table_first_waiting(t);
	bpshaper_flow_wake(f->flows, f);
	if (f->flows->waiting_len && f->flows->departs.at < now)
		bpshaper_flows_set_departs(f->flows, now);
	return f;
}

/* Serving */

/* Count @bytes that a new or fresh flow has sent. */
static void bpshaper_flows_count_new(struct bpshaper_flows *flows,
				     const struct bpshaper_flow *f, u32 bytes)
{
	flows->new_bytes += bytes;
	if (bpshaper_flow_is_known(f)) {
		flows->known_bytes += bytes;
		return;
	}
	flows->known_bytes -= min(flows->known_bytes,
				  BPSHAPER_FLOW_NEW_QUANTA * bytes);
	flows->fresh_bytes += bytes;
	if (flows->fresh_bytes / BPSHAPER_FLOW_FRESH_QUANTA < flows->quantum ||
	    !list_empty(&flows->old_flows[flows->round % BPSHAPER_FLOW_ROUNDS]))
		return;
	flows->fresh_bytes = 0;
	flows->round++;
}

/* Flows that are not new. Sockets outside count. */
static inline u32 bpshaper_flows_old(const struct bpshaper_flows *flows)
{
	return max(flows->active, flows->sockets + flows->turns.kept) -
	       flows->active_new;
}

/* Take @bytes from the credit. */
static void bpshaper_flow_pay(struct bpshaper_flow *f, s64 bytes)
{
	f->deficit = max_t(s64, f->deficit - bytes,
			   -(s64)BPSHAPER_FLOW_DEBT_MAX);
}

/* Charge the @bytes on the wire that the flow has sent. Without credit for its
 * next packet it joins the old flows. New flows with several quanta of credit
 * take turns with each packet: a burst delays the others by a packet.
 */
static void bpshaper_flow_charge(struct bpshaper_flows *flows,
				 struct bpshaper_flow *f, u32 bytes)
{
	u32 quantum = bpshaper_flow_quantum(flows, f);

	bpshaper_flow_pay(f, bytes);
	if (unlikely(bytes / 2 >= quantum))
		bpshaper_flows_note_large(flows, quantum, bytes);
	if (f->is_new) {
		/* One that was old lately is counted as such. */
		if (flows->round - f->old_round > BPSHAPER_FLOW_HELD_ROUNDS &&
		    bpshaper_flows_old(flows))
			flows->unpaid_bytes += bytes;
		bpshaper_flows_count_new(flows, f, bytes);
	} else {
		flows->new_bytes -= min(flows->new_bytes,
					BPSHAPER_FLOW_NEW_QUANTA * bytes);
	}
	if (!f->head)
		return;
	if (!bpshaper_flow_has_credit(flows, f))
		bpshaper_flow_join_old(flows, f);
	else if (unlikely(flows->turns.mean_quanta > 1 || flows->skipped) &&
		 f->is_new)
		list_move_tail(&f->list, bpshaper_flow_new_list(flows, f));
}

/* The next old flow; NULL if there is none. If more than BPSHAPER_FLOW_STEPS
 * flows are deeper in debt than the calendar is long, one of them is served
 * early.
 */
static struct bpshaper_flow *
bpshaper_flows_next_old(struct bpshaper_flows *flows)
{
	int steps = BPSHAPER_FLOW_STEPS;
	struct bpshaper_flow *f;
	u32 ahead, r, quantum;

	while (flows->old_rounds) {
		ahead = __ffs64(ror64(flows->old_rounds,
				      flows->round % BPSHAPER_FLOW_ROUNDS));
		r = (flows->round + ahead) % BPSHAPER_FLOW_ROUNDS;
		if (list_empty(&flows->old_flows[r])) {
			flows->old_rounds &= ~BIT_ULL(r);
			continue;
		}
		if (ahead)
			flows->fresh_bytes = 0;
		flows->round += ahead;
		f = list_first_entry(&flows->old_flows[r], struct bpshaper_flow,
				     list);
		/* The flow keeps what was left, less than a packet, so it has
		 * two quanta at most.
		 */
		quantum = bpshaper_flow_quantum(flows, f);
		bpshaper_flow_renew(flows, f, quantum, 2 * quantum);
		if (bpshaper_flow_has_credit(flows, f) || !steps--)
			return f;
		bpshaper_flow_join_old(flows, f);
	}
	return NULL;
}

/* The next new or fresh flow; NULL if there is none. */
static inline struct bpshaper_flow *
bpshaper_flows_next_new(struct bpshaper_flows *flows)
{
	struct list_head *list = &flows->new_flows;

	if (likely(list_empty(&flows->fresh_flows)))
		flows->known_bytes = 0;
	else if (list_empty(list) ||
		 flows->known_bytes / BPSHAPER_FLOW_NEW_QUANTA >=
		 flows->quantum)
		list = &flows->fresh_flows;
	return list_first_entry_or_null(list, struct bpshaper_flow, list);
}

static inline bool bpshaper_flows_have_new(const struct bpshaper_flows *flows)
{
	return !list_empty(&flows->new_flows) ||
	       !list_empty(&flows->fresh_flows);
}

/* The next flow; NULL if none is active. */
static struct bpshaper_flow *bpshaper_flows_next(struct bpshaper_flows *flows)
{
	struct bpshaper_flow *f;

	if (flows->new_bytes / BPSHAPER_FLOW_NEW_QUANTA < flows->quantum) {
		f = bpshaper_flows_next_new(flows);
		if (f)
			return f;
	}
	f = bpshaper_flows_next_old(flows);
	if (f)
		return f;
	flows->new_bytes = 0;
	return bpshaper_flows_next_new(flows);
}

#endif /* _BPSHAPER_FLOW_H */
