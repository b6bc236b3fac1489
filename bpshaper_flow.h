/* SPDX-License-Identifier: GPL-2.0-only */
/* Flows: who is next?
 *
 * A flow has a queue of its own. It holds the packets of a throttleable socket that is
 * connected, those of one that is not for one peer (by the hash of the packet), or those of
 * one hash of the socketless pool. Flows are found in a forest of red-black trees (as in
 * sch_fq) and served by deficit round robin (Shreedhar and Varghese, 1995) with
 * one change: credit belongs to the round and not to the stay in the queue.
 *
 *	activate: the flow gets one quantum for each round since it was last
 *		active, at most one in all. With credit it joins the tail of the
 *		new list, or of the fresh one if it has never been active before;
 *		without it, or if it comes back with more than a quantum to send,
 *		the old flows.
 *	next:	the new list is served first, then the fresh one. A flow there that
 *		has used up its credit joins the old flows. When those of this
 *		round have been served, the next round begins that has any.
 *	empty:	the flow is parked with its credit and the number of the round.
 *
 * The old flows are kept in a calendar: in the list of the round in which their
 * credit will do for their next packet. So a flow in debt for a large packet is
 * not looked at in every round, and the next flow is found in constant time,
 * however many there are (Brown, "Calendar queues", CACM 31(10), 1988).
 *
 * So a flow that asks for less than its fair share is always new and never waits
 * behind bulk, however often it runs empty, and none gains by running empty.
 *
 * Anybody can make flows (a socket for each packet, packets from everywhere). So a flow
 * that comes back goes before those that nobody has seen before, and these before the
 * old ones, but neither without end: after BPSHAPER_FLOW_NEW_QUANTA quanta of the new and
 * the fresh the old ones have a turn, until they have sent one for these, and likewise the
 * fresh after those of the new. The old ones have a ninth of the rate at least, in bytes,
 * for a quantum of delay to the others. If there are no old ones whose turn it is, a round is
 * over when the fresh ones have sent BPSHAPER_FLOW_FRESH_QUANTA: else it would never be, and
 * those that come back would use up their credit.
 *
 * Packets leave a flow in the order of their times of departure, those without one in the order
 * of arrival, and so do those with the same. A packet that is in order joins the tail of a
 * list; one that is not goes into a tree by time, as in sch_fq, and from there to the head of the
 * list when its turn has come.
 *
 * A flow whose next packet has a time in the future waits for it in a tree by time,
 * in neither list, and joins the lists then as if it had been empty. A packet with an earlier time
 * that comes meanwhile waits for the same, as in sch_fq; one without a time ends the wait.
 *
 * A flow without a backlog is kept for its credit, its debt or its rate, but of all such
 * flows no more than BPSHAPER_FLOW_PARKED_MOST, and those that never came back go first,
 * unless the others are more than BPSHAPER_FLOW_KNOWN_MAX.
 *
 * The caller holds the root lock of the qdisc.
 */
#ifndef _BPSHAPER_FLOW_H
#define _BPSHAPER_FLOW_H

#define BPSHAPER_FLOW_TREES_LOG	10	/* 8 kB; depth 6 at 50,000 flows */
#define BPSHAPER_FLOW_PARKED_MAX	1024	/* idle flows kept: 350 kB */
#define BPSHAPER_FLOW_KNOWN_MAX	512	/* of them, of those that came back */
#define BPSHAPER_FLOW_PARKED_MOST	16384	/* with those that owe: 5.6 MB */
#define BPSHAPER_FLOW_NEW_QUANTA	8	/* to one of those that have to wait */
#define BPSHAPER_FLOW_FRESH_QUANTA	32	/* in a round */
#define BPSHAPER_FLOW_HELD_ROUNDS	2	/* from then on it is one that comes back */
#define BPSHAPER_FLOW_TRIM	4	/* flows forgotten by an enqueue that makes one */
#define BPSHAPER_FLOW_STEPS	64	/* flows looked at while the lock is held */
#define BPSHAPER_FLOW_DEBT_MAX	BIT(30)	/* bytes; more is forgiven */
#define BPSHAPER_FLOW_ROUNDS	64	/* a 64 kB packet is 43 quanta of 1514 */

/**
 * struct bpshaper_skb_cb - what a packet in a flow remembers
 * @enqueued_ns: CLOCK_MONOTONIC
 * @due_ns: it may not leave earlier; CLOCK_MONOTONIC. @enqueued_ns, if it had no time in
 *	the future then
 */
struct bpshaper_skb_cb {
	u64	enqueued_ns;
	u64	due_ns;
};

static inline struct bpshaper_skb_cb *bpshaper_skb_cb(const struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct bpshaper_skb_cb));
	return (struct bpshaper_skb_cb *)qdisc_skb_cb(skb)->data;
}

static inline u64 bpshaper_skb_due_ns(const struct sk_buff *skb)
{
	return bpshaper_skb_cb(skb)->due_ns;
}

/* Has it come with a time in the future? */
static inline bool bpshaper_skb_is_timed(const struct sk_buff *skb)
{
	return bpshaper_skb_cb(skb)->due_ns > bpshaper_skb_cb(skb)->enqueued_ns;
}

/**
 * struct bpshaper_key - what a flow is found by
 * @sk: the socket, or NULL for a flow of the pool
 * @hash: of the packets, or 0 for all packets of the socket
 *
 * In the order of keys the flows of a socket are neighbours, in one tree.
 */
struct bpshaper_key {
	struct sock	*sk;
	u32		hash;
};

static bool bpshaper_key_is_after(struct bpshaper_key a, struct bpshaper_key b)
{
	return a.sk != b.sk ? a.sk > b.sk : a.hash > b.hash;
}

/**
 * struct bpshaper_flow - a queue and its place in the round
 * @node: in one tree of the forest
 * @key: its place there
 * @socket: whose it is; NULL for one of the pool
 * @head: next packet, NULL when parked; the list from here to @tail is in order of time
 * @tail: last packet, valid while @head is
 * @early: packets that came when a later one was @tail, by time; none is before @head or
 *	after @tail
 * @list: on the new list, that of a round, or the parked list
 * @backlog: bytes queued
 * @deficit: credit left in round @round, bytes; negative is debt
 * @round: round in which @deficit was last renewed
 * @is_new: on the new or the fresh list, or was when it ran empty
 * @is_parked_known: on the list @parked
 * @was_held: it ran empty while its socket, which has several peers, could not send
 * @is_behind: its last packet left so late that its times do not matter
 * @visits: times that it has become active, 2 for more
 * @is_waiting: in the tree by time, and on no list
 * @pool_class: of a flow of the pool: its place in the rank by backlog
 * @memory_class: place in the rank by memory
 * @is_timed: since it was empty it has waited for a time, or has had packets with one
 * @has_waited: the first of these, so that what is behind its first packet is taken to be not due
 * @qlen: packets queued
 * @pool_node: of a flow of the pool: on the list of its class by backlog
 * @memory_node: on the list of its class by memory
 * @cookie: of the socket, since another one may get its address
 * @memory: bytes of memory that its packets take
 * @later: bytes of @backlog that are not due
 * @timed: bytes of @backlog that came with a time of their own
 * @exempt: bytes of them that do not count in the share of the socket
 * @time_node: in the tree by time, while @is_waiting
 * @departs_ns: its place there, CLOCK_MONOTONIC
 * @next_ns: its rate lets the next packet leave then; CLOCK_MONOTONIC
 * @paid_ns: at its rate all that it has sent has taken its time then
 * @paced_bytes: sent since @next_ns was moved
 * @paced_by: configuration that @next_ns follows from
 */
struct bpshaper_flow {
	struct rb_node		node;
	struct bpshaper_key	key;
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
	u8			pool_class;
	u8			memory_class;
	bool			is_new;
	bool			is_waiting;
	bool			is_timed;
	bool			has_waited;
	bool			was_held;
	bool			is_behind;
	bool			is_parked_known;

	u64			cookie;
	u64			memory;
	struct list_head	pool_node;
	struct list_head	memory_node;
	u32			later;
	u32			timed;
	u32			exempt;

	struct rb_node		time_node;
	u64			departs_ns;
	u64			next_ns;
	u64			paid_ns;
	u32			paced_bytes;
	u32			paced_by;
};

/**
 * struct bpshaper_flows - the flow table and the round robin
 * @trees: 1 << BPSHAPER_FLOW_TREES_LOG roots
 * @new_flows: flows with credit that came back in this round
 * @fresh_flows: flows that have become active for the first time
 * @old_flows: the other active flows, by the round that will serve them, modulo
 *	the size; one with more debt than that is looked at in the last
 * @old_rounds: bit r is set if @old_flows[r] is not empty, or was not
 * @parked: empty flows, the longest empty first
 * @parked_fresh: likewise, of those that have not come back yet
 * @quantum: credit per round, bytes
 * @round: number of the current round
 * @dev: of the qdisc
 * @active: flows with a backlog
 * @socket_flows: those of them that are of throttleable sockets
 * @sockets: throttleable sockets with a backlog
 * @parked_len: flows on both
 * @parked_known: flows on @parked
 * @new_bytes: bytes that new and fresh flows have sent, less BPSHAPER_FLOW_NEW_QUANTA
 *	times what old ones have sent since; 0 if there were none
 * @known_bytes: likewise, of the new flows against the fresh
 * @fresh_bytes: bytes that fresh flows have sent in this round
 * @waiting: flows whose next packet has a time in the future, by that time
 * @waiting_len: flows in @waiting
 * @memory: bytes of memory that all packets take
 * @later: bytes of backlog that are not due, of all flows
 * @exempt: bytes that do not count in the shares of their sockets, of all flows
 * @by_memory: flows by the memory of their packets: those that had a packet come or go
 *	while all took more than @rank_above, or that have waited
 * @rank_above: bytes; below it memory is not scarce, and nobody will have to pay soon
 */
struct bpshaper_flows {
	struct rb_root		*trees;
	struct list_head	new_flows;
	struct list_head	fresh_flows;
	struct list_head	old_flows[BPSHAPER_FLOW_ROUNDS];
	u64			old_rounds;
	struct list_head	parked;
	struct list_head	parked_fresh;
	u32			quantum;
	u32			round;
	struct net_device	*dev;
	u32			active;
	u32			socket_flows;
	u32			sockets;
	u32			parked_len;
	u32			parked_known;
	u32			new_bytes;
	u32			known_bytes;
	u32			fresh_bytes;
	struct rb_root_cached	waiting;
	u32			waiting_len;
	u32			later;
	u32			exempt;
	u64			memory;
	u64			rank_above;
	struct bpshaper_rank	by_memory;
};

static struct kmem_cache *bpshaper_flow_cachep __read_mostly;

static void bpshaper_flows_init_lists(struct bpshaper_flows *t)
{
	int i;

	INIT_LIST_HEAD(&t->new_flows);
	INIT_LIST_HEAD(&t->fresh_flows);
	for (i = 0; i < BPSHAPER_FLOW_ROUNDS; i++)
		INIT_LIST_HEAD(&t->old_flows[i]);
	t->old_rounds = 0;
	INIT_LIST_HEAD(&t->parked);
	INIT_LIST_HEAD(&t->parked_fresh);
	t->waiting = RB_ROOT_CACHED;
	t->waiting_len = 0;
	bpshaper_rank_init(&t->by_memory);
}

static int bpshaper_flows_init(struct bpshaper_flows *t)
{
	bpshaper_flows_init_lists(t);
	t->trees = kvcalloc(1 << BPSHAPER_FLOW_TREES_LOG, sizeof(*t->trees),
			    GFP_KERNEL);
	return t->trees ? 0 : -ENOMEM;
}

static struct rb_root *bpshaper_flows_tree(const struct bpshaper_flows *t,
					   struct bpshaper_key key)
{
	unsigned long tree = key.sk ? (unsigned long)key.sk : key.hash;

	return &t->trees[hash_long(tree, BPSHAPER_FLOW_TREES_LOG)];
}

/* A quantum for every round since the last time, up to @max credit in all. */
static void bpshaper_flow_renew(struct bpshaper_flows *t,
				struct bpshaper_flow *f, u32 max)
{
	s64 credit = (s64)t->quantum * (u32)(t->round - f->round);

	f->deficit = min_t(s64, f->deficit + credit, max);
	f->round = t->round;
}

/* Would a new flow in its place send earlier? Then many sockets could leave their
 * debts, or their rates, behind by turns.
 */
static bool bpshaper_flow_is_owing(const struct bpshaper_flow *f, u64 now)
{
	return f->deficit < 0 || f->paid_ns > now;
}

/* Has it been here before? */
static inline bool bpshaper_flow_is_known(const struct bpshaper_flow *f)
{
	return f->visits > 1;
}

/* A flow has no backlog. */
static inline void bpshaper_flow_join_parked(struct bpshaper_flows *t,
					     struct bpshaper_flow *f)
{
	f->is_parked_known = bpshaper_flow_is_known(f);
	list_move_tail(&f->list, f->is_parked_known ? &t->parked : &t->parked_fresh);
	t->parked_known += f->is_parked_known;
	t->parked_len++;
}

/* It has one again, or is forgotten; the caller takes it from the list. */
static inline void bpshaper_flow_leave_parked(struct bpshaper_flows *t,
					      struct bpshaper_flow *f)
{
	t->parked_known -= f->is_parked_known;
	t->parked_len--;
}

/* The parked flow to forget first; there is one. */
static struct bpshaper_flow *bpshaper_flows_first_parked(struct bpshaper_flows *t)
{
	bool is_known = t->parked_known > BPSHAPER_FLOW_KNOWN_MAX ||
			list_empty(&t->parked_fresh);

	return list_first_entry(is_known ? &t->parked : &t->parked_fresh,
				struct bpshaper_flow, list);
}

/* Is it that of a peer of the socket, and not of who had its address before? */
static bool bpshaper_flow_is_peer(const struct bpshaper_flow *f)
{
	return f->socket && f->key.hash && f->cookie && f->cookie == f->socket->cookie;
}

static void bpshaper_flow_forget(struct bpshaper_flows *t,
				 struct bpshaper_flow *f)
{
	if (bpshaper_flow_is_peer(f))
		f->socket->peers--;
	list_del(&f->list);
	bpshaper_flow_leave_parked(t, f);
	rb_erase(&f->node, bpshaper_flows_tree(t, f->key));
	bpshaper_socket_put(f->socket);
	kmem_cache_free(bpshaper_flow_cachep, f);
}

/* One more is to be parked. A parked flow is worth keeping for its credit and to save the
 * allocation, but not without bound: past it the one that has been empty longest goes, first
 * of those that have not come back. One that owes stays longer, up to another bound.
 */
static void bpshaper_flows_recycle(struct bpshaper_flows *t, u64 now)
{
	struct bpshaper_flow *f;
	int tries = 2;

	while (t->parked_len >= BPSHAPER_FLOW_PARKED_MAX && tries--) {
		f = bpshaper_flows_first_parked(t);
		bpshaper_flow_renew(t, f, t->quantum);
		if (t->parked_len < BPSHAPER_FLOW_PARKED_MOST &&
		    bpshaper_flow_is_owing(f, now)) {
			list_move_tail(&f->list, f->is_parked_known ? &t->parked :
								      &t->parked_fresh);
			continue;
		}
		bpshaper_flow_forget(t, f);
	}
}

/* @s is the socket, or NULL if it has no flow yet. */
static struct bpshaper_flow *bpshaper_flow_create(struct bpshaper_flows *t,
						  struct bpshaper_key key,
						  struct bpshaper_socket *s)
{
	struct bpshaper_flow *f;

	f = kmem_cache_zalloc(bpshaper_flow_cachep, GFP_ATOMIC | __GFP_NOWARN);
	if (!f)
		return NULL;
	if (key.sk) {
		f->socket = s ?: bpshaper_socket_create(key.sk);
		if (!f->socket) {
			kmem_cache_free(bpshaper_flow_cachep, f);
			return NULL;
		}
		f->socket->refs++;
	}
	f->key = key;
	f->deficit = t->quantum;
	f->round = t->round;
	INIT_LIST_HEAD(&f->pool_node);
	INIT_LIST_HEAD(&f->memory_node);
	INIT_LIST_HEAD(&f->list);
	return f;
}

/* A flow without a backlog is that of another socket now: nothing that it was is kept. */
static noinline void bpshaper_flow_set_owner(struct bpshaper_flows *t,
					     struct bpshaper_flow *f, u64 cookie)
{
	if (f->socket->cookie != cookie)
		bpshaper_socket_set_owner(f->socket, cookie);
	f->cookie = cookie;
	f->socket->peers += bpshaper_flow_is_peer(f);
	f->visits = 0;
	f->was_held = false;
	f->deficit = t->quantum;
	f->round = t->round;
	f->next_ns = 0;
	f->paid_ns = 0;
	f->paced_bytes = 0;
}

/* Forget up to @flows of those that have been empty longest, so that one more may come. Whoever
 * calls this holds no pointer to one of them.
 */
static inline void bpshaper_flows_trim(struct bpshaper_flows *t, int flows)
{
	while (unlikely(t->parked_len >= BPSHAPER_FLOW_PARKED_MOST) && flows--)
		bpshaper_flow_forget(t, bpshaper_flows_first_parked(t));
}

/* The flow of @key, made when it is missing; NULL when out of memory. On the way to where it is
 * missing are its neighbours, and so one of the same socket if there is any.
 */
static inline struct bpshaper_flow *bpshaper_flow_get(struct bpshaper_flows *t,
						      struct bpshaper_key key, u64 now)
{
	struct rb_root *root = bpshaper_flows_tree(t, key);
	struct rb_node **p, *parent = NULL;
	struct bpshaper_socket *s = NULL;
	struct bpshaper_flow *f;
	bool is_before;

	bpshaper_flows_trim(t, BPSHAPER_FLOW_TRIM);
	for (p = &root->rb_node; *p; ) {
		parent = *p;
		f = rb_entry(parent, struct bpshaper_flow, node);
		if (likely(f->key.sk == key.sk)) {
			if (likely(f->key.hash == key.hash))
				return f;
			s = f->socket;
			is_before = key.hash < f->key.hash;
		} else {
			is_before = key.sk < f->key.sk;
		}
		p = is_before ? &parent->rb_left : &parent->rb_right;
	}

	f = bpshaper_flow_create(t, key, s);
	if (!f)
		return NULL;
	rb_link_node(&f->node, parent, p);
	rb_insert_color(&f->node, root);
	bpshaper_flows_recycle(t, now);	/* before it is one of them */
	bpshaper_flow_join_parked(t, f);
	return f;
}

/* A flow of a socket gets another hash. A parked flow that has it is forgotten. */
static void bpshaper_flow_rekey(struct bpshaper_flows *t, struct bpshaper_flow *f, u32 hash)
{
	struct bpshaper_key key = { .sk = f->key.sk, .hash = hash };
	struct rb_root *root = bpshaper_flows_tree(t, key);
	struct rb_node **p = &root->rb_node, *parent = NULL;
	struct bpshaper_flow *other;

	f->socket->peers -= bpshaper_flow_is_peer(f);
	rb_erase(&f->node, root);
	while (*p) {
		parent = *p;
		other = rb_entry(parent, struct bpshaper_flow, node);
		if (other->key.sk == key.sk && other->key.hash == hash) {
			bpshaper_flow_forget(t, other);
			p = &root->rb_node;
			parent = NULL;
			continue;
		}
		p = bpshaper_key_is_after(key, other->key) ? &parent->rb_right :
							     &parent->rb_left;
	}
	f->key = key;
	f->socket->peers += bpshaper_flow_is_peer(f);
	rb_link_node(&f->node, parent, p);
	rb_insert_color(&f->node, root);
}

/* A packet needs credit for all of it, so that flows of equal packets send the
 * same number in every round and rounds are equally long. One that is larger
 * than the quantum needs a whole quantum and puts the flow into debt.
 */
static s64 bpshaper_flow_need(const struct bpshaper_flows *t,
			      const struct bpshaper_flow *f)
{
	s64 need = min(qdisc_pkt_len(f->head), t->quantum);

	return need - f->deficit;
}

static bool bpshaper_flow_has_credit(const struct bpshaper_flows *t,
				     const struct bpshaper_flow *f)
{
	return bpshaper_flow_need(t, f) <= 0;
}

/* An active flow: wait for the round that will have credit for it, this one or a later. */
static void bpshaper_flow_join_old(struct bpshaper_flows *t,
				   struct bpshaper_flow *f)
{
	s64 need = max_t(s64, bpshaper_flow_need(t, f), 0);
	u64 rounds = div_u64(need + t->quantum - 1, t->quantum);
	u32 r = (t->round + min_t(u64, rounds, BPSHAPER_FLOW_ROUNDS - 1)) %
		BPSHAPER_FLOW_ROUNDS;

	f->is_new = false;
	list_move_tail(&f->list, &t->old_flows[r]);
	t->old_rounds |= BIT_ULL(r);
}

/* A flow that was empty or waited. One that comes back with more than a quantum to send is none of
 * those that ask for less than their share, nor is one that has only run empty because its
 * socket was held: there may be a thousand of them, released at once.
 */
static void bpshaper_flow_join(struct bpshaper_flows *t,
			       struct bpshaper_flow *f)
{
	bool is_held = f->was_held && t->round - f->round <= BPSHAPER_FLOW_HELD_ROUNDS;

	f->was_held = false;
	bpshaper_flow_renew(t, f, t->quantum);
	if (is_held || !bpshaper_flow_has_credit(t, f)) {
		bpshaper_flow_join_old(t, f);
	} else if (!bpshaper_flow_is_known(f)) {
		f->is_new = true;
		list_move_tail(&f->list, &t->fresh_flows);
	} else if (f->backlog <= t->quantum) {
		f->is_new = true;
		list_move_tail(&f->list, &t->new_flows);
	} else {
		bpshaper_flow_join_old(t, f);
	}
}

/* When the first of the flows that wait is to leave; U64_MAX if none waits. */
static u64 bpshaper_flows_departs_ns(const struct bpshaper_flows *t)
{
	struct rb_node *first = rb_first_cached(&t->waiting);

	return first ? rb_entry(first, struct bpshaper_flow,
				time_node)->departs_ns : U64_MAX;
}

/* The class of a flow with @qlen packets of @bytes, by an @amount of what they are. A full frame is
 * not more than a small packet, and who is known goes after who is not: else a flood of
 * small packets from everywhere would push out everybody else's.
 */
static inline u8 bpshaper_flow_class(const struct bpshaper_flows *t,
				     const struct bpshaper_flow *f, u32 qlen,
				     u32 bytes, u64 amount)
{
	if (!qlen)
		return BPSHAPER_RANK_NOTHING;
	if (qlen == 1 && bytes <= t->quantum)	/* one that is empty is about to come back */
		return f->visits + !f->head > 1 ? BPSHAPER_RANK_LITTLE :
						  BPSHAPER_RANK_LITTLE_FRESH;
	return bpshaper_rank_class(amount);
}

static noinline void bpshaper_flow_rank(struct bpshaper_flows *t,
					struct bpshaper_flow *f)
{
	bpshaper_rank_move(&t->by_memory, &f->memory_node, &f->memory_class,
			   bpshaper_flow_class(t, f, f->qlen, f->backlog, f->memory));
}

/* What of the flow's backlog is not due: all while it waits, then all but the first packet
 * if it has had to wait, for its packets come with times or at a rate. Of one that is behind
 * these, all is due. Packets with a time of their own that are not due are not the socket's
 * fault.
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
	f->later = later;
	if (f->socket) {
		f->socket->exempt += exempt - f->exempt;
		t->exempt += exempt - f->exempt;
	}
	f->exempt = exempt;
}

/* An active flow leaves the lists until @departs_ns. */
static void bpshaper_flow_wait(struct bpshaper_flows *t,
			       struct bpshaper_flow *f, u64 departs_ns)
{
	struct rb_node **p = &t->waiting.rb_root.rb_node, *parent = NULL;
	bool is_first = true;

	list_del_init(&f->list);
	f->departs_ns = departs_ns;
	while (*p) {
		parent = *p;
		if (departs_ns < rb_entry(parent, struct bpshaper_flow,
					  time_node)->departs_ns) {
			p = &parent->rb_left;
		} else {
			p = &parent->rb_right;
			is_first = false;
		}
	}
	rb_link_node(&f->time_node, parent, p);
	rb_insert_color_cached(&f->time_node, &t->waiting, is_first);
	f->is_waiting = true;
	f->is_timed = true;
	f->has_waited = true;
	t->waiting_len++;
	bpshaper_flow_count_later(t, f);
	bpshaper_flow_rank(t, f);
}

static void bpshaper_flow_unwait(struct bpshaper_flows *t,
				 struct bpshaper_flow *f)
{
	rb_erase_cached(&f->time_node, &t->waiting);
	f->is_waiting = false;
	t->waiting_len--;
	bpshaper_flow_count_later(t, f);
}

static noinline void bpshaper_flow_wake(struct bpshaper_flows *t,
					struct bpshaper_flow *f)
{
	bpshaper_flow_unwait(t, f);
	bpshaper_flow_join(t, f);
}

/* Those that wait until @now at most join the lists, @flows of them at most. */
static inline void bpshaper_flows_wake(struct bpshaper_flows *t, u64 now, u32 flows)
{
	while (unlikely(t->waiting_len) && bpshaper_flows_departs_ns(t) <= now &&
	       flows--)
		bpshaper_flow_wake(t, rb_entry(rb_first_cached(&t->waiting),
					       struct bpshaper_flow, time_node));
}

static void bpshaper_flow_activate(struct bpshaper_flows *t,
				   struct bpshaper_flow *f)
{
	bpshaper_flow_leave_parked(t, f);
	bpshaper_flow_join(t, f);
	t->active++;
	if (f->socket) {
		t->socket_flows++;
		t->sockets += bpshaper_socket_count_flow(f->socket, 1);
	}
}

static inline void bpshaper_flow_park(struct bpshaper_flows *t,
				      struct bpshaper_flow *f)
{
	if (f->is_waiting)	/* the pool was full, it had to pay */
		bpshaper_flow_unwait(t, f);
	f->is_timed = false;
	f->has_waited = false;
	f->is_behind = false;
	bpshaper_flow_join_parked(t, f);
	t->active--;
	if (f->socket) {
		f->was_held = f->socket->is_by_peer &&
			      f->socket->state != BPSHAPER_UNTHROTTLED;
		t->socket_flows--;
		t->sockets -= bpshaper_socket_count_flow(f->socket, -1);
	}
}

/* What a packet takes of the machine. Its socket is charged with less for some, as 2 bytes
 * for a pure ACK.
 */
static inline u32 bpshaper_skb_memory(const struct sk_buff *skb)
{
	return max_t(u32, skb->truesize, SKB_TRUESIZE(skb_end_offset(skb)));
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
	t->memory += memory;
	if (f->socket) {
		if (likely(!skb_is_tcp_pure_ack(skb)))
			f->socket->data += bytes;
		else
			f->socket->acks += sign;
	}
	if (unlikely(t->memory > t->rank_above || f->memory_class || f->is_timed))
		bpshaper_flow_rank(t, f);
	if (unlikely(f->is_timed)) {
		if (bpshaper_skb_is_timed(skb) && !skb_is_tcp_pure_ack(skb))
			f->timed += bytes;
		bpshaper_flow_count_later(t, f);
	}
}

/* Its time is before that of the last packet: to the head, or into the tree. */
static noinline void bpshaper_flow_link_early(struct bpshaper_flow *f, struct sk_buff *skb)
{
	struct rb_node **p = &f->early.rb_node, *parent = NULL;
	u64 due_ns = bpshaper_skb_due_ns(skb);

	if (due_ns < bpshaper_skb_due_ns(f->head)) {
		skb->next = f->head;
		f->head->prev = skb;
		f->head = skb;
		return;
	}
	while (*p) {
		parent = *p;
		p = due_ns < bpshaper_skb_due_ns(rb_to_skb(parent)) ?
			&parent->rb_left : &parent->rb_right;
	}
	rb_link_node(&skb->rbnode, parent, p);
	rb_insert_color(&skb->rbnode, &f->early);
}

/* The first packet has left: is one of the tree before the next of the list? At the same time it
 * is not, as it came later. The list lasts longer than the tree.
 */
static noinline void bpshaper_flow_merge_early(struct bpshaper_flows *t,
					       struct bpshaper_flow *f)
{
	struct sk_buff *skb = rb_to_skb(rb_first(&f->early));

	if (bpshaper_skb_due_ns(f->head) <= bpshaper_skb_due_ns(skb))
		return;
	rb_erase(&skb->rbnode, &f->early);
	skb->dev = t->dev;	/* was part of the node */
	skb->next = f->head;
	f->head->prev = skb;
	f->head = skb;
}

/* All packets into the list, in whatever order. */
static void bpshaper_flow_flatten(struct bpshaper_flows *t, struct bpshaper_flow *f)
{
	struct rb_node *node;
	struct sk_buff *skb;

	while (unlikely((node = rb_first(&f->early)))) {
		skb = rb_to_skb(node);
		rb_erase(node, &f->early);
		skb->dev = t->dev;
		skb->next = f->head;
		f->head = skb;
	}
}

/* Packets are linked both ways; @prev of the first is not valid. */
static inline void bpshaper_flow_push(struct bpshaper_flows *t,
				      struct bpshaper_flow *f,
				      struct sk_buff *skb)
{
	bool was_empty = !f->head;

	skb->next = NULL;
	if (was_empty) {
		f->head = skb;
		f->tail = skb;
		f->visits += f->visits < 2;
	} else if (likely(bpshaper_skb_due_ns(skb) >= bpshaper_skb_due_ns(f->tail))) {
		f->tail->next = skb;
		skb->prev = f->tail;
		f->tail = skb;
	} else {
		bpshaper_flow_link_early(f, skb);
	}
	if (unlikely(bpshaper_skb_is_timed(skb)))
		f->is_timed = true;
	bpshaper_flow_account(t, f, skb, 1);
	if (was_empty)
		bpshaper_flow_activate(t, f);
	else if (unlikely(f->is_waiting) && f->head == skb && !bpshaper_skb_is_timed(skb))
		bpshaper_flow_wake(t, f);
}

/* Take the next packet; the flow has one. */
static inline struct sk_buff *bpshaper_flow_pop(struct bpshaper_flows *t,
						struct bpshaper_flow *f)
{
	struct sk_buff *skb = f->head;

	f->head = skb->next;
	if (unlikely(!RB_EMPTY_ROOT(&f->early)))
		bpshaper_flow_merge_early(t, f);
	skb_mark_not_on_list(skb);
	bpshaper_flow_account(t, f, skb, -1);
	if (!f->head)
		bpshaper_flow_park(t, f);
	return skb;
}

/* Take the last packet of a flow that has more than one, all of them in the list. */
static struct sk_buff *bpshaper_flow_pop_last(struct bpshaper_flows *t,
					      struct bpshaper_flow *f)
{
	struct sk_buff *skb = f->tail;

	f->tail = skb->prev;
	f->tail->next = NULL;
	bpshaper_flow_account(t, f, skb, -1);
	return skb;
}

/* Count @bytes of a flow that is not old. */
static void bpshaper_flows_count_new(struct bpshaper_flows *t,
				     const struct bpshaper_flow *f, u32 bytes)
{
	t->new_bytes += bytes;
	if (bpshaper_flow_is_known(f)) {
		t->known_bytes += bytes;
		return;
	}
	t->known_bytes -= min(t->known_bytes, BPSHAPER_FLOW_NEW_QUANTA * bytes);
	t->fresh_bytes += bytes;
	if (t->fresh_bytes / BPSHAPER_FLOW_FRESH_QUANTA < t->quantum ||
	    !list_empty(&t->old_flows[t->round % BPSHAPER_FLOW_ROUNDS]))
		return;
	t->fresh_bytes = 0;
	t->round++;
}

/* Charge what the flow sent, in bytes on the wire: they are what is divided. Without credit it
 * waits for the next round.
 */
static void bpshaper_flow_charge(struct bpshaper_flows *t,
				 struct bpshaper_flow *f, u32 bytes)
{
	f->deficit = max_t(s64, (s64)f->deficit - bytes, -(s64)BPSHAPER_FLOW_DEBT_MAX);
	if (f->is_new)
		bpshaper_flows_count_new(t, f, bytes);
	else
		t->new_bytes -= min(t->new_bytes, BPSHAPER_FLOW_NEW_QUANTA * bytes);
	if (f->head && !bpshaper_flow_has_credit(t, f))
		bpshaper_flow_join_old(t, f);
}

/* The old flow whose turn it is; NULL when there is none. If many are deeper in debt than
 * the calendar is long, one of them is served before it has paid.
 */
static struct bpshaper_flow *bpshaper_flows_next_old(struct bpshaper_flows *t)
{
	int steps = BPSHAPER_FLOW_STEPS;
	struct bpshaper_flow *f;
	u32 ahead, r;

	while (t->old_rounds) {
		ahead = __ffs64(ror64(t->old_rounds,
				      t->round % BPSHAPER_FLOW_ROUNDS));
		r = (t->round + ahead) % BPSHAPER_FLOW_ROUNDS;
		if (list_empty(&t->old_flows[r])) {
			t->old_rounds &= ~BIT_ULL(r);
			continue;
		}
		if (ahead)
			t->fresh_bytes = 0;
		t->round += ahead;
		f = list_first_entry(&t->old_flows[r], struct bpshaper_flow,
				     list);
		/* What was left, being less than a packet, and a quantum. */
		bpshaper_flow_renew(t, f, 2 * t->quantum);
		if (bpshaper_flow_has_credit(t, f) || !steps--)
			return f;
		bpshaper_flow_join_old(t, f);
	}
	return NULL;
}

/* The new or fresh flow whose turn it is; NULL when there is none. */
static inline struct bpshaper_flow *bpshaper_flows_next_new(struct bpshaper_flows *t)
{
	struct list_head *list = &t->new_flows;

	if (likely(list_empty(&t->fresh_flows)))
		t->known_bytes = 0;
	else if (list_empty(list) ||
		 t->known_bytes / BPSHAPER_FLOW_NEW_QUANTA >= t->quantum)
		list = &t->fresh_flows;
	return list_first_entry_or_null(list, struct bpshaper_flow, list);
}

static inline bool bpshaper_flows_have_new(const struct bpshaper_flows *t)
{
	return !list_empty(&t->new_flows) || !list_empty(&t->fresh_flows);
}

/* The flow whose turn it is; NULL when none is active. */
static struct bpshaper_flow *bpshaper_flows_next(struct bpshaper_flows *t)
{
	struct bpshaper_flow *f;

	if (t->new_bytes / BPSHAPER_FLOW_NEW_QUANTA < t->quantum) {
		f = bpshaper_flows_next_new(t);
		if (f)
			return f;
	}
	f = bpshaper_flows_next_old(t);
	if (f)
		return f;
	t->new_bytes = 0;
	return bpshaper_flows_next_new(t);
}

/**
 * struct bpshaper_cursor - a place in the forest, between two flows
 * @tree: number of the tree
 * @key: of the flow before it in that tree, or of none
 */
struct bpshaper_cursor {
	u32			tree;
	struct bpshaper_key	key;
};

/* The first flow of the tree behind @key. */
static struct bpshaper_flow *bpshaper_tree_after(const struct rb_root *root,
						 struct bpshaper_key key)
{
	struct bpshaper_flow *f, *best = NULL;
	struct rb_node *n = root->rb_node;

	while (n) {
		f = rb_entry(n, struct bpshaper_flow, node);
		if (bpshaper_key_is_after(f->key, key)) {
			best = f;
			n = n->rb_left;
		} else {
			n = n->rb_right;
		}
	}
	return best;
}

static bool bpshaper_cursor_is_at_end(const struct bpshaper_cursor *c)
{
	return c->tree == 1 << BPSHAPER_FLOW_TREES_LOG;
}

/* The first flow with a backlog behind the cursor, which moves behind it. Looks at no more
 * than BPSHAPER_FLOW_STEPS flows and trees: NULL at the end, or if there is none among
 * them. Flows that come and go in between are seen or not.
 */
static struct bpshaper_flow *bpshaper_flows_after(struct bpshaper_flows *t,
						  struct bpshaper_cursor *c)
{
	int steps = BPSHAPER_FLOW_STEPS;
	struct bpshaper_flow *f;

	while (!bpshaper_cursor_is_at_end(c) && steps--) {
		f = bpshaper_tree_after(&t->trees[c->tree], c->key);
		if (f) {
			c->key = f->key;
			if (f->head)
				return f;
		} else {
			c->tree++;
			c->key = (struct bpshaper_key) {};
		}
	}
	return NULL;
}

static void bpshaper_flows_free(struct bpshaper_flows *t)
{
	struct bpshaper_flow *f, *next;
	int i;

	for (i = 0; i < 1 << BPSHAPER_FLOW_TREES_LOG; i++) {
		rbtree_postorder_for_each_entry_safe(f, next, &t->trees[i],
						     node) {
			bpshaper_socket_put(f->socket);
			kmem_cache_free(bpshaper_flow_cachep, f);
		}
		t->trees[i] = RB_ROOT;
	}
	bpshaper_flows_init_lists(t);
	t->active = 0;
	t->socket_flows = 0;
	t->sockets = 0;
	t->parked_len = 0;
	t->parked_known = 0;
	t->memory = 0;
	t->later = 0;
	t->exempt = 0;
}

#endif /* _BPSHAPER_FLOW_H */
