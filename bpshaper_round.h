/* SPDX-License-Identifier: GPL-2.0-only */
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
 *		quantum to send, it joins the old flows.
 *	next	The new list is served first, then the fresh one. A flow there
 *		that has used up its credit joins the old flows. When the old
 *		flows of this round have been served, the next round begins
 *		that has any.
 *	empty	A flow that runs empty is parked with its credit and the number
 *		of the round (bpshaper_table.h).
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
#ifndef _BPSHAPER_ROUND_H
#define _BPSHAPER_ROUND_H

#define BPSHAPER_FLOW_NEW_QUANTA	8	/* then one of the others */
#define BPSHAPER_FLOW_FRESH_QUANTA	32	/* in a round */
#define BPSHAPER_FLOW_HELD_ROUNDS	2	/* then it may be new again */
#define BPSHAPER_FLOW_DEBT_MAX	BIT(30)	/* bytes; more is forgiven */

static void bpshaper_round_init(struct bpshaper_flows *t)
{
	int i;

	INIT_LIST_HEAD(&t->new_flows);
	INIT_LIST_HEAD(&t->fresh_flows);
	for (i = 0; i < BPSHAPER_FLOW_ROUNDS; i++)
		INIT_LIST_HEAD(&t->old_flows[i]);
	t->old_rounds = 0;
	t->skipped = 0;
	t->waiting = RB_ROOT_CACHED;
	t->waiting_len = 0;
}

/* Credit */

/* The credit of a round. Where sockets take turns, one that is inside gets
 * several quanta (bpshaper_turns_set_quanta()).
 */
static inline u32 bpshaper_flow_quantum(const struct bpshaper_flows *t,
					const struct bpshaper_flow *f)
{
	if (likely(t->turns.quanta == 1) || !f->socket ||
	    !bpshaper_socket_takes_turns(f->socket))
		return t->quantum;
	return t->quantum * t->turns.quanta;
}

/* The credit of a flow that was away: what the others got in a round, those
 * outside included.
 */
static inline u32 bpshaper_flows_mean_quantum(const struct bpshaper_flows *t)
{
	return t->quantum * t->turns.mean_quanta;
}

/* Give @quantum for every round since the last time, up to @max credit in all.
 */
static void bpshaper_flow_renew(struct bpshaper_flows *t,
				struct bpshaper_flow *f, u32 quantum, u32 max)
{
	s64 credit = (s64)quantum * (u32)(t->round - f->round);

	f->deficit = min_t(s64, f->deficit + credit, max);
	f->round = t->round;
}

/* A packet of @bytes has put its flow into debt for more than a round. */
static noinline void bpshaper_flows_note_large(struct bpshaper_flows *t,
					       u32 quantum, u32 bytes)
{
	u32 rounds = min_t(u32, bytes / quantum, BPSHAPER_FLOW_ROUNDS - 1);

	if (rounds < t->skipped &&
	    t->round - t->skipped_round < BPSHAPER_FLOW_ROUNDS)
		return;
	t->skipped = rounds;
	t->skipped_round = t->round;
}

/* Most credit of a flow that becomes active, bytes. Flows with large packets
 * may all be served in one round, which then lasts long, and skip the next
 * ones. A sparse flow may send as much in such a round.
 */
static u32 bpshaper_flows_most_credit(const struct bpshaper_flows *t)
{
	u32 quantum = bpshaper_flows_mean_quantum(t);

	if (likely(!t->skipped ||
		   t->round - t->skipped_round > BPSHAPER_FLOW_ROUNDS))
		return quantum;
	return min_t(u64, (u64)quantum * t->skipped, BPSHAPER_FLOW_DEBT_MAX);
}

/* The socket of an empty flow gets a turn, which has no credit: else all who
 * come back would be served before the old flows.
 */
static void bpshaper_flow_spend_credit(struct bpshaper_flows *t,
				       struct bpshaper_flow *f)
{
	bpshaper_flow_renew(t, f, bpshaper_flows_mean_quantum(t), 0);
}

/* The credit of a flow that was never active. */
static void bpshaper_flow_start_credit(struct bpshaper_flows *t,
				       struct bpshaper_flow *f)
{
	f->deficit = bpshaper_flows_mean_quantum(t);
	f->round = t->round;
}

/* Bytes of credit that are missing for the next packet. A packet needs credit
 * for all of it, so flows of equal packets send equally many in each round. A
 * packet above the quantum needs a quantum and puts the flow into debt.
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

/* Lists */

/* Join the round of the calendar in which the credit will do for the next
 * packet, this one or a later.
 */
static void bpshaper_flow_join_old(struct bpshaper_flows *t,
				   struct bpshaper_flow *f)
{
	s64 need = max_t(s64, bpshaper_flow_need(t, f), 0);
	u32 quantum = bpshaper_flow_quantum(t, f);
	u64 rounds = div_u64(need + quantum - 1, quantum);
	u32 r = (t->round + min_t(u64, rounds, BPSHAPER_FLOW_ROUNDS - 1)) %
		BPSHAPER_FLOW_ROUNDS;

	f->is_new = false;
	list_move_tail(&f->list, &t->old_flows[r]);
	t->old_rounds |= BIT_ULL(r);
}

/* Note whether the flow ran empty while its socket was held. */
static inline void bpshaper_flow_set_held(struct bpshaper_flow *f,
					  bool was_held)
{
	f->was_held = was_held;
}

/* The list of a flow that is new. */
static inline struct list_head *
bpshaper_flow_new_list(struct bpshaper_flows *t, const struct bpshaper_flow *f)
{
	return bpshaper_flow_is_known(f) ? &t->new_flows : &t->fresh_flows;
}

/* A round lasts long where sockets take turns. The known flow has used up its
 * credit, but sends less than the sockets that take turns: give it the credit
 * for a packet.
 */
static void bpshaper_flow_lend(struct bpshaper_flows *t,
			       struct bpshaper_flow *f)
{
	if (f->socket && bpshaper_flow_is_known(f) &&
	    bpshaper_socket_is_behind(&t->turns, f->socket, t->quantum))
		f->deficit = t->quantum;
}

/* A flow that was empty or waited joins a list. Two kinds of flows with credit
 * are bulk all the same: those that come back with more than a quantum to send,
 * and those that ran empty while their socket was held, of which a thousand may
 * be released at once.
 */
static void bpshaper_flow_join(struct bpshaper_flows *t,
			       struct bpshaper_flow *f)
{
	bool is_held = f->was_held &&
		       t->round - f->round <= BPSHAPER_FLOW_HELD_ROUNDS;

	f->was_held = false;
	bpshaper_flow_renew(t, f, bpshaper_flows_mean_quantum(t),
			    bpshaper_flows_most_credit(t));
	if (unlikely(!bpshaper_flow_has_credit(t, f)))
		bpshaper_flow_lend(t, f);
	if (is_held || !bpshaper_flow_has_credit(t, f)) {
		bpshaper_flow_join_old(t, f);
	} else if (!bpshaper_flow_is_known(f) || f->backlog <= t->quantum) {
		f->is_new = true;
		list_move_tail(&f->list, bpshaper_flow_new_list(t, f));
	} else {
		bpshaper_flow_join_old(t, f);
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
static void bpshaper_flows_set_departs(struct bpshaper_flows *t, u64 at)
{
	struct bpshaper_tag *first = bpshaper_tag_first(&t->waiting);

	if (t->waiting_len)
		rb_erase_cached(&t->departs.node, &t->table->waiting);
	if (!first)
		return;
	t->departs.at = max(first->at, at);
	bpshaper_tag_link(&t->table->waiting, &t->departs);
}

/* An active flow leaves the lists until @departs_ns. */
static void bpshaper_flow_wait(struct bpshaper_flows *t,
			       struct bpshaper_flow *f, u64 departs_ns)
{
	list_del_init(&f->list);
	f->departs.at = departs_ns;
	if (bpshaper_tag_link(&t->waiting, &f->departs))
		bpshaper_flows_set_departs(t, departs_ns);
	f->is_waiting = true;
	bpshaper_flow_set_timed(f, true);
	t->waiting_len++;
	bpshaper_flow_count_later(t, f);
	bpshaper_flow_rank(t, f);
}

static void bpshaper_flow_unwait(struct bpshaper_flows *t,
				 struct bpshaper_flow *f)
{
	bool was_first = bpshaper_tag_first(&t->waiting) == &f->departs;

	rb_erase_cached(&f->departs.node, &t->waiting);
	if (was_first)
		bpshaper_flows_set_departs(t, t->departs.at);
	f->is_waiting = false;
	t->waiting_len--;
	bpshaper_flow_count_later(t, f);
	if (f->level == BPSHAPER_RANK_LATER)
		bpshaper_flow_rank(t, f);
}

static noinline void bpshaper_flow_wake(struct bpshaper_flows *t,
					struct bpshaper_flow *f)
{
	bpshaper_flow_unwait(t, f);
	bpshaper_flow_join(t, f);
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
static void bpshaper_flow_charge(struct bpshaper_flows *t,
				 struct bpshaper_flow *f, u32 bytes)
{
	u32 quantum = bpshaper_flow_quantum(t, f);

	bpshaper_flow_pay(f, bytes);
	if (unlikely(bytes / 2 >= quantum))
		bpshaper_flows_note_large(t, quantum, bytes);
	if (f->is_new)
		bpshaper_flows_count_new(t, f, bytes);
	else
		t->new_bytes -= min(t->new_bytes,
				    BPSHAPER_FLOW_NEW_QUANTA * bytes);
	if (!f->head)
		return;
	if (!bpshaper_flow_has_credit(t, f))
		bpshaper_flow_join_old(t, f);
	else if (unlikely(t->turns.mean_quanta > 1 || t->skipped) && f->is_new)
		list_move_tail(&f->list, bpshaper_flow_new_list(t, f));
}

/* The next old flow; NULL if there is none. If more than BPSHAPER_FLOW_STEPS
 * flows are deeper in debt than the calendar is long, one of them is served
 * early.
 */
static struct bpshaper_flow *bpshaper_flows_next_old(struct bpshaper_flows *t)
{
	int steps = BPSHAPER_FLOW_STEPS;
	struct bpshaper_flow *f;
	u32 ahead, r, quantum;

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
		/* The flow keeps what was left, less than a packet, so it has
		 * two quanta at most.
		 */
		quantum = bpshaper_flow_quantum(t, f);
		bpshaper_flow_renew(t, f, quantum, 2 * quantum);
		if (bpshaper_flow_has_credit(t, f) || !steps--)
			return f;
		bpshaper_flow_join_old(t, f);
	}
	return NULL;
}

/* The next new or fresh flow; NULL if there is none. */
static inline struct bpshaper_flow *
bpshaper_flows_next_new(struct bpshaper_flows *t)
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

/* The next flow; NULL if none is active. */
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

#endif /* _BPSHAPER_ROUND_H */
