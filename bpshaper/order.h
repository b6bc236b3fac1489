/* SPDX-License-Identifier: GPL-2.0-only */
/* The order of flows, and which sockets have a turn. */
#ifndef _BPSHAPER_ORDER_H
#define _BPSHAPER_ORDER_H

/* Turns: which sockets may have a part of the queue?
 *
 * The sockets' part of the queue is `limit` bytes, however many sockets there
 * are. A throttled socket that has drained while there is no room waits outside
 * (BPSHAPER_OUTSIDE): it keeps its ballast and needs no packet. When there is
 * room, the first outside gets a turn: it is released and may queue a share,
 * its rest. The rests of all turns count as if they were queued already.
 *
 * Who is first is decided by the virtual time of its flow (below), what it has
 * queued counted as sent. So a socket that always has something to send is as
 * far as the virtual time of all, and one that sends less is behind it. A
 * socket without a turn may send while it is less than a share ahead. Sparse
 * sockets never wait.
 *
 * A socket with several peers takes no turns, nor does one that is paced by a
 * rate, nor TCP, nor the pool. Their flows are always inside, and those of the
 * others for a part of the time. Both get their part, as those outside count in
 * the order.
 *
 * A socket that has got a turn may not use it: the application has nothing to
 * send, or does not run. Its turn ends after @patience_ns. While less than a
 * quarter of the limit is queued and nobody sends, others get a turn early.
 *
 * The caller holds the root lock of the qdisc.
 */

#define BPSHAPER_TURNS_BATCH	8	/* sockets that get a turn at once */
#define BPSHAPER_TURNS_REVIEW	32	/* sockets outside, by the timer */
#define BPSHAPER_DRY_DIVISOR	4	/* of the limit */
#define BPSHAPER_DRY_NS		(15 * NSEC_PER_USEC)	/* a task wakes up */
#define BPSHAPER_DRY_MAX_NS	(120 * NSEC_PER_USEC)
#define BPSHAPER_PATIENCE_MIN_NS NSEC_PER_MSEC
#define BPSHAPER_PATIENCE_MAX_NS (100 * NSEC_PER_MSEC)
/* Nobody was outside for so long: all sockets start at the same time again. */
#define BPSHAPER_TURNS_OVER_NS	(100 * NSEC_PER_MSEC)
#define BPSHAPER_UNSERVED_SHARES 8	/* sent without a turn */

static void bpshaper_turns_init(struct bpshaper_turns *turns)
{
	turns->outside = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&turns->outside_list);
	INIT_LIST_HEAD(&turns->taking);
	turns->outside_len = 0;
	turns->rest = 0;
	turns->inside = 0;
	turns->kept = 0;
	turns->each = 0;
	turns->is_soon = false;
	turns->bursts = 0;
	turns->dry_ns = BPSHAPER_DRY_NS;
}

/* @limit_ns is the time that the limit takes at the rate. */
static void bpshaper_turns_configure(struct bpshaper_turns *turns, u64 limit_ns)
{
	turns->patience_ns = clamp_t(u64, limit_ns, BPSHAPER_PATIENCE_MIN_NS,
				     BPSHAPER_PATIENCE_MAX_NS);
}

/* Does anybody wait for a turn, or have one? */
static inline bool bpshaper_turns_are_on(const struct bpshaper_turns *turns)
{
	return turns->outside_len || turns->rest;
}

/* Of what the socket has queued, @bytes are beyond its share. */
static void bpshaper_burst_set(struct bpshaper_turns *turns,
			       struct bpshaper_socket *s, u32 bytes)
{
	turns->bursts += bytes - s->burst;
	s->burst = bytes;
}

/* Has the socket got a turn or gone outside lately? */
static bool bpshaper_socket_had_turn(const struct bpshaper_turns *turns,
				     const struct bpshaper_socket *s, u64 now)
{
	return now - s->turn_ns <= 2 * turns->patience_ns;
}

/* How long the socket was outside before it could queue what it sends now. */
static inline u64 bpshaper_socket_waited_ns(const struct bpshaper_turns *turns,
					    const struct bpshaper_socket *s,
					    u64 now)
{
	if (likely(!bpshaper_turns_are_on(turns)) ||
	    !bpshaper_socket_takes_turns(s) ||
	    !bpshaper_socket_had_turn(turns, s, now))
		return 0;
	return s->outside_ns;
}

/* Outside */

static struct bpshaper_socket *
bpshaper_turns_first(const struct bpshaper_turns *turns)
{
	return container_of(bpshaper_tag_first(&turns->outside),
			    struct bpshaper_socket, outside);
}

/* The virtual time of the first socket outside; U64_MAX if there is none. */
static u64 bpshaper_turns_first_at(const struct bpshaper_turns *turns)
{
	const struct bpshaper_tag *first = bpshaper_tag_first(&turns->outside);

	return first ? first->at : U64_MAX;
}

/* A throttled socket waits outside, at virtual time @at. The caller sets its
 * state.
 */
static void bpshaper_turns_join(struct bpshaper_turns *turns,
				struct bpshaper_socket *s, u64 at, u64 now)
{
	if (!turns->outside_len++ &&
	    now - turns->over_ns > BPSHAPER_TURNS_OVER_NS)
		turns->start_ns = now;
	if (!bpshaper_socket_had_turn(turns, s, now))
		s->outside_ns = 0;
	s->turn_ns = now;
	s->outside.at = at;
	bpshaper_tag_link(&turns->outside, &s->outside);
	list_move_tail(&s->node, &turns->outside_list);
}

/* The socket is outside no longer. The caller takes it from the list. */
static void bpshaper_turns_leave(struct bpshaper_turns *turns,
				 struct bpshaper_socket *s, u64 now)
{
	rb_erase_cached(&s->outside.node, &turns->outside);
	if (!--turns->outside_len)
		turns->over_ns = now;
	s->outside_ns = now - s->turn_ns;
}

/* Turns */

/* The socket has been released, and gets a turn of @share bytes. */
static void bpshaper_turn_begin(struct bpshaper_turns *turns,
				struct bpshaper_socket *s, u32 share, u64 now)
{
	turns->unserved = 0;
	turns->active_ns = now;
	s->turn_ns = now;
	s->rest = share;
	s->is_unused = true;
	turns->rest += share;
	list_add_tail(&s->node, &turns->taking);
}

/* End the turn of a socket that has one. */
static void bpshaper_turn_end(struct bpshaper_turns *turns,
			      struct bpshaper_socket *s)
{
	if (!s->rest)
		return;
	turns->rest -= s->rest;
	s->rest = 0;
	list_del_init(&s->node);
}

/* The socket, which has a turn, has queued a packet of @wire bytes with
 * framing. Is the turn used up: would another one of that size exceed it?
 */
static bool bpshaper_turns_count(struct bpshaper_turns *turns,
				 struct bpshaper_socket *s, u32 wire, u64 now)
{
	s->is_unused = false;
	turns->active_ns = now;
	turns->dry_ns = BPSHAPER_DRY_NS;
	if (s->rest < 2ULL * wire) {
		bpshaper_turn_end(turns, s);
		return true;
	}
	s->rest -= wire;
	turns->rest -= wire;
	return false;
}

/* Is so little queued that the link may run idle before those come who have a
 * turn?
 */
static bool bpshaper_turns_are_dry(const struct bpshaper_turns *turns,
				   u32 limit)
{
	return turns->inside * BPSHAPER_DRY_DIVISOR < limit;
}

/* A burst takes no room: others would be outside until it has left. */
static bool bpshaper_turns_have_room(const struct bpshaper_turns *turns,
				     u32 limit)
{
	return turns->inside + turns->rest < limit + (u64)turns->bursts;
}

/* How many sockets may get a turn although there is no room: some if the link
 * may run idle; and the first one if a stranger @is_ahead of it, or too much
 * has left without a turn. Others could else keep it outside for ever.
 */
static u32 bpshaper_turns_early(struct bpshaper_turns *turns, u32 limit,
				u32 share, bool is_ahead, u64 now)
{
	if (bpshaper_turns_have_room(turns, limit))
		return 0;
	if (is_ahead || turns->unserved / BPSHAPER_UNSERVED_SHARES >= share)
		return 1;
	if (!bpshaper_turns_are_dry(turns, limit) ||
	    now - turns->active_ns < turns->dry_ns)
		return 0;
	if (turns->dry_ns < BPSHAPER_DRY_MAX_NS) {
		turns->dry_ns *= 2;
		return 1;
	}
	return BPSHAPER_TURNS_BATCH;
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
 * Sockets outside take part (above): the virtual time does not pass the first
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

#define BPSHAPER_FLOW_WEIGHT	8	/* of strangers; known flows keep 1/9 */
#define BPSHAPER_VTIME_START	BIT_ULL(32)	/* of those who come first */

/* Trees are empty if they are zero. */
static void bpshaper_flows_clear(struct bpshaper_flows *flows)
{
	INIT_LIST_HEAD(&flows->all);
	memset(flows->kinds, 0, sizeof(flows->kinds));
	flows->vtime = BPSHAPER_VTIME_START;
	flows->known = 0;
	flows->waiting = RB_ROOT_CACHED;
	flows->waiting_len = 0;
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
	u64 vtime = f->flows->vtime;
	u64 least = vtime - BPSHAPER_CREDIT_PKTS * f->flows->quantum;

	if (!f->is_known || (f->was_held && f->v + vtime > 2 * least) ||
	    least + qdisc_pkt_len(f->head) > vtime)
		least = vtime;
	f->was_held = false;
	f->sent = 0;
	f->v = max(f->v, least);
	bpshaper_flow_link(f);
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
	const struct bpshaper_tag *first, *next = NULL;
	u64 least = U64_MAX, place;
	int i;

	for (i = 0; i < BPSHAPER_FLOW_KINDS; i++) {
		first = bpshaper_tag_first(&flows->kinds[i].flows);
		place = first ? max(first->at, flows->kinds[i].v) : U64_MAX;
		if (place >= least)
			continue;
		least = place;
		next = first;
	}
	return next ? container_of(next, struct bpshaper_flow, order) : NULL;
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
	u32 weight;

	bpshaper_flows_advance(flows, place);
	if (f->kind != BPSHAPER_FLOW_KNOWN) {
		weight = max(BPSHAPER_FLOW_WEIGHT * others,
			     flows->is_shared ? 1U : BPSHAPER_FLOW_WEIGHT);
		flows->kinds[f->kind].v = max(place, flows->vtime) +
					  DIV_ROUND_UP(bytes, weight);
	}
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
	f->is_timed = true;
	f->has_waited = true;
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

#endif /* _BPSHAPER_ORDER_H */
