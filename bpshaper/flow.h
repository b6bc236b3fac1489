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
 * @turns: which sockets may have a part of the queue (turns.h)
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

/* The order: which flow is next?
 *
 * A flow has a virtual time @v: bytes that it was served. The flow with the
 * least is next, and the virtual time of all becomes that of the one served:
 * start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996).
 *
 *	join	A flow that gets a packet while it has none keeps its @v, but is
 *		no more than BPSHAPER_CREDIT_PKTS packets behind the others. So
 *		a flow that asks for less than its fair share never waits behind
 *		bulk, and no flow gains by running empty.
 *	next	A flow stands at its @v. One of a socket that takes turns
 *		stands where it was until it has sent its turn, so that a turn
 *		leaves as it came.
 *	empty	A flow that runs empty is parked with its @v (table.h).
 *
 * Sockets outside take part (turns.h): the virtual time does not pass the first
 * of them, so what is ahead of them while they wake up moves nothing.
 *
 * Anybody can make flows: a socket for each packet, packets from many
 * addresses. Each would be served at once, and nobody else. So all new flows of
 * sockets have a virtual time in common, and those of the pool another one, and
 * none of them stands before that. The weight of each is BPSHAPER_FLOW_WEIGHT
 * for each known flow: a thousand that come at once become known soon, and
 * others keep a ninth of the rate meanwhile, or a seventeenth beside both
 * kinds. Several queues do not know of each other's flows. So if there is a
 * hub, and no known flow, the weight is 1, or strangers in many queues would
 * leave nothing.
 *
 * A flow whose next packet is not due, or that is ahead of its pacing rate,
 * waits in a tree by time and joins as if it had been empty. A packet with an
 * earlier time that comes meanwhile waits for the same time, as in sch_fq. A
 * packet that has no time and becomes the first ends the wait.
 */

#define BPSHAPER_CREDIT_PKTS	2	/* who joins makes up for so many */
#define BPSHAPER_FLOW_WEIGHT	8	/* of strangers; known flows keep 1/9 */
#define BPSHAPER_VTIME_START	BIT_ULL(32)	/* of those who come first */

static void bpshaper_order_init(struct bpshaper_flows *flows)
{
	int i;

	for (i = 0; i < BPSHAPER_FLOW_KINDS; i++) {
		flows->kinds[i].flows = RB_ROOT_CACHED;
		flows->kinds[i].v = 0;
	}
	flows->vtime = BPSHAPER_VTIME_START;
	flows->known = 0;
	flows->waiting = RB_ROOT_CACHED;
	flows->waiting_len = 0;
}

static void bpshaper_flows_clear(struct bpshaper_flows *flows)
{
	INIT_LIST_HEAD(&flows->all);
	bpshaper_order_init(flows);
	bpshaper_leaf_memory_init(&flows->memory, &flows->table->memory);
	bpshaper_turns_init(&flows->turns);
	flows->later = 0;
	flows->exempt = 0;
	flows->backlog = 0;
	flows->pool_backlog = 0;
	flows->qlen = 0;
	flows->active = 0;
	flows->socket_flows = 0;
	flows->sockets = 0;
}

static void bpshaper_flows_init(struct bpshaper_flows *flows,
				struct bpshaper_table *table)
{
	flows->table = table;
	bpshaper_flows_clear(flows);
}

/* The least virtual time of a flow that comes. */
static u64 bpshaper_flows_least(const struct bpshaper_flows *flows)
{
	return flows->vtime - BPSHAPER_CREDIT_PKTS * flows->quantum;
}

/* A flow has run empty. If it was the last, and no socket waits for a turn,
 * nobody waits for what the others have sent: forgive two packets.
 */
static inline void bpshaper_flows_forgive(struct bpshaper_flows *flows)
{
	if (!flows->active && !flows->is_shared &&
	    !bpshaper_turns_are_on(&flows->turns))
		flows->vtime += BPSHAPER_CREDIT_PKTS * flows->quantum;
}

/* Has it sent ahead of the others? */
static bool bpshaper_flow_is_ahead(const struct bpshaper_flow *f)
{
	return f->v > f->flows->vtime;
}

static enum bpshaper_flow_kind
bpshaper_flow_find_kind(const struct bpshaper_flow *f)
{
	if (!f->socket)
		return BPSHAPER_FLOW_POOL;
	return f->is_known ? BPSHAPER_FLOW_KNOWN : BPSHAPER_FLOW_NEW;
}

static void bpshaper_flow_link(struct bpshaper_flow *f)
{
	f->kind = bpshaper_flow_find_kind(f);
	f->flows->known += f->kind == BPSHAPER_FLOW_KNOWN;
	f->order.at = f->v;
	bpshaper_tag_link(&f->flows->kinds[f->kind].flows, &f->order);
}

static void bpshaper_flow_unlink(struct bpshaper_flow *f)
{
	f->flows->known -= f->kind == BPSHAPER_FLOW_KNOWN;
	rb_erase_cached(&f->order.node, &f->flows->kinds[f->kind].flows);
}

/* A flow that was empty or waited is in the order again. Not to be behind are
 * flows that have never sent, those that ran empty while their socket was held,
 * and those whose packet is longer than what they would make up for: a thousand
 * may come at once, and others would wait for all of them.
 */
static void bpshaper_flow_join(struct bpshaper_flow *f)
{
	u64 vtime = f->flows->vtime, least = bpshaper_flows_least(f->flows);

	if (!f->is_known || (f->was_held && f->v + vtime > 2 * least) ||
	    least + qdisc_pkt_len(f->head) > vtime)
		least = vtime;
	f->was_held = false;
	f->sent = 0;
	f->v = max(f->v, least);
	bpshaper_flow_link(f);
}

/* Where the first flow of the kind stands; U64_MAX if there is none. */
static u64 bpshaper_kind_place(const struct bpshaper_kind *k)
{
	const struct bpshaper_tag *first = bpshaper_tag_first(&k->flows);

	return first ? max(first->at, k->v) : U64_MAX;
}

/* Where the flow, which is next, stands. */
static u64 bpshaper_flow_place(const struct bpshaper_flow *f)
{
	return max3(f->order.at, f->flows->kinds[f->kind].v, f->flows->least);
}

/* And the known flow behind it; the same if there is none. */
static u64 bpshaper_flow_next_place(const struct bpshaper_flow *f)
{
	const struct bpshaper_flows *flows = f->flows;
	const struct bpshaper_kind *known = &flows->kinds[BPSHAPER_FLOW_KNOWN];
	struct rb_node *next = f->kind == BPSHAPER_FLOW_KNOWN ?
			       rb_next(&f->order.node) :
			       rb_first_cached(&known->flows);

	if (!next)
		return bpshaper_flow_place(f);
	return max(rb_entry(next, struct bpshaper_tag, node)->at, flows->least);
}

/* The next flow; NULL if there is none. Of equal ones known flows go first. */
static struct bpshaper_flow *
bpshaper_flows_next(const struct bpshaper_flows *flows)
{
	u64 least = U64_MAX, place;
	int i, kind = 0;

	for (i = 0; i < BPSHAPER_FLOW_KINDS; i++) {
		place = bpshaper_kind_place(&flows->kinds[i]);
		if (place >= least)
			continue;
		least = place;
		kind = i;
	}
	if (least == U64_MAX)
		return NULL;
	return container_of(bpshaper_tag_first(&flows->kinds[kind].flows),
			    struct bpshaper_flow, order);
}

/* Does a stranger, which is next, come after the first socket outside? New
 * sockets that queue a packet each could else keep all others outside for ever.
 */
static bool bpshaper_flows_strangers_ahead(const struct bpshaper_flows *flows)
{
	const struct bpshaper_flow *f = bpshaper_flows_next(flows);

	return f && f->kind != BPSHAPER_FLOW_KNOWN &&
	       bpshaper_flow_place(f) > bpshaper_turns_first_at(&flows->turns);
}

/* Is the flow behind the others, also with its next packet? Then it does not
 * wait for a batch.
 */
static bool bpshaper_flow_is_early(const struct bpshaper_flow *f)
{
	return f->v + qdisc_pkt_len(f->head) <= f->flows->vtime;
}

static bool bpshaper_flows_have_early(const struct bpshaper_flows *flows)
{
	const struct bpshaper_flow *f = bpshaper_flows_next(flows);

	return f && bpshaper_flow_is_early(f);
}

/* Let the virtual time go on to @at, but not past the first socket outside. */
static void bpshaper_flows_advance(struct bpshaper_flows *flows, u64 at)
{
	if (unlikely(flows->is_shared))
		return;
	at = min(at, bpshaper_turns_first_at(&flows->turns));
	flows->vtime = max(flows->vtime, at);
}

/* Does it send more in one go? Not if it is behind: it would make others wait
 * that are behind by less.
 */
static bool bpshaper_flow_goes_on(const struct bpshaper_flow *f)
{
	return f->kind == BPSHAPER_FLOW_KNOWN &&
	       bpshaper_socket_takes_turns(f->socket) &&
	       f->order.at >= f->flows->vtime &&
	       f->v - f->order.at < f->flows->turns.each;
}

/* The flow, which is next or has become empty, has sent @bytes on the wire. */
static void bpshaper_flow_charge(struct bpshaper_flow *f, u32 bytes)
{
	struct bpshaper_flows *flows = f->flows;
	u32 others = flows->known + flows->turns.kept -
		     (f->socket && f->socket->is_kept);	/* itself */
	u64 place = bpshaper_flow_place(f);
	struct rb_node *next;

	bpshaper_flows_advance(flows, place);
	if (f->kind != BPSHAPER_FLOW_KNOWN)
		flows->kinds[f->kind].v = max(place, flows->vtime) +
			bytes / max(BPSHAPER_FLOW_WEIGHT * others,
				    flows->is_shared ? 1U :
						       BPSHAPER_FLOW_WEIGHT);
	f->v = max(f->v, place) + bytes;
	f->is_known = true;
	f->sent += f->sent < BPSHAPER_CREDIT_PKTS;
	if (!f->head || bpshaper_flow_goes_on(f))
		return;
	next = rb_next(&f->order.node);
	if (f->kind == bpshaper_flow_find_kind(f) &&
	    (!next || f->v < rb_entry(next, struct bpshaper_tag, node)->at)) {
		f->order.at = f->v;	/* it is still the first */
		return;
	}
	bpshaper_flow_unlink(f);
	bpshaper_flow_link(f);
}

/* Sockets in the order
 *
 * What a socket has queued counts as sent.
 */

static u64 bpshaper_socket_finish(const struct bpshaper_socket *s)
{
	return s->flow ? s->flow->v + s->flow->backlog : 0;
}

/* Has the socket, which has no turn, sent less than those that got turns, and
 * not waited for one lately? Then it asks for less than its part.
 */
static bool bpshaper_socket_is_sparse(const struct bpshaper_flows *flows,
				      const struct bpshaper_socket *s, u64 now)
{
	return bpshaper_turns_are_on(&flows->turns) &&
	       bpshaper_socket_takes_turns(s) && !s->rest &&
	       bpshaper_socket_finish(s) < flows->vtime &&
	       !bpshaper_socket_had_turn(&flows->turns, s, now);
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
			    struct bpshaper_flow, order);
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

/* A flow leaves the order until @departs_ns. */
static void bpshaper_flow_wait(struct bpshaper_flows *flows,
			       struct bpshaper_flow *f, u64 departs_ns)
{
	bpshaper_flow_unlink(f);
	f->departs_ns = departs_ns;
	f->order.at = departs_ns;
	if (bpshaper_tag_link(&flows->waiting, &f->order))
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
	bool was_first = bpshaper_tag_first(&flows->waiting) == &f->order;

	rb_erase_cached(&f->order.node, &flows->waiting);
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
	bpshaper_flow_join(f);
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

#endif /* _BPSHAPER_FLOW_H */
