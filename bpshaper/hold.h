/* SPDX-License-Identifier: GPL-2.0-only */
/* Which sockets may not send, and when they may again. */
#ifndef _BPSHAPER_HOLD_H
#define _BPSHAPER_HOLD_H

/* Backpressure: which sockets may not send?
 *
 * A module cannot add a field to struct sock. It does not have to: it charges a
 * socket that must wait. The ballast is an skb without data, owned by the
 * socket like one of its packets, whose truesize fills the send buffer. Every
 * rule of the kernel for a full send buffer then applies: sendmsg() sleeps or
 * returns EAGAIN, poll() reports no room, TCP's small-queue check holds the
 * stream. Freeing the ballast releases the socket: the socket's own destructor
 * uncharges and wakes. The charge also pins the socket, as each of its packets
 * does, so close() needs no hook.
 *
 *                  due bytes > share and no burst is left, at enqueue
 *      UNTHROTTLED ------------------------------> OVERLIMIT
 *       ^      ^                                    |     |
 *       |      | drained to a quarter of its share  |     | out of tokens, or
 *       |      +------------------------------------+     | the queue does not
 *       |                                                 | drain: charge
 *       |   drained to a quarter of its share, or purged: v the ballast
 *       +--------------------------------------------- THROTTLED
 *       |        free the ballast                         |
 *       |                                                 | drained likewise,
 *       |   its turn has come, or purged:                 v but no room
 *       +--------------------------------------------- OUTSIDE
 *                free the ballast
 *
 *	state		on list			ballast	data
 *	UNTHROTTLED	none, or taking		NULL	any
 *	OVERLIMIT	overlimit		NULL	> 0
 *	THROTTLED	throttled		set	> 0
 *	OUTSIDE		outside			set	any
 *
 * A socket in state THROTTLED always has a backlog, so a dequeue or a purge
 * will come that releases it. While sockets are outside a timer is armed that
 * gives turns (order.h).
 *
 * All of it runs under the root lock of the qdisc, or when no packet can reach
 * the qdisc. Only the ballast is freed later, in the transmit softirq: its
 * destructor wakes a task and may run the write_space callback of any protocol.
 */

/* TCP stops at its small-queue limit, not at the send buffer: two packets, or
 * what its pacing rate sends in a millisecond (see tcp_small_queue_check()).
 * This charge holds a stream paced at up to 134 Gbit/s.
 */
#define BPSHAPER_CHARGE_TCP	BIT(24)	/* bytes */

/* Ballast */

static inline u32 bpshaper_sock_charge(const struct sock *sk)
{
	u32 charge = max_t(u32, READ_ONCE(sk->sk_sndbuf), SOCK_MIN_SNDBUF);

	if (bpshaper_sock_is_tcp(sk))
		charge = max_t(u32, charge, BPSHAPER_CHARGE_TCP);
	return min_t(u32, charge, BPSHAPER_CHARGE_MAX);
}

/* States */

/* Return false, and leave the socket overlimit, if it cannot be throttled now.
 */
static bool bpshaper_socket_throttle(struct bpshaper_backpressure *bp,
				     struct bpshaper_socket *s, u64 now)
{
	struct sock *sk = s->sk;
	struct sk_buff *ballast;
	u32 charge;

	if (refcount_read(&sk->sk_wmem_alloc) > BPSHAPER_WMEM_MAX ||
	    bpshaper_sock_must_retransmit(sk))
		return false;
	ballast = alloc_skb(0, GFP_ATOMIC | __GFP_NOWARN);
	if (!ballast) {
		bp->flows->stat.ballast_errors++;
		return false;
	}

	bpshaper_socket_bound(s);
	charge = bpshaper_sock_charge(sk);
	ballast->sk = sk;
	ballast->destructor = s->destructor;
	ballast->truesize = charge;
	refcount_add(charge, &sk->sk_wmem_alloc);
	bpshaper_sock_ask_to_wake(sk);

	s->ballast = ballast;
	s->throttled_ns = now;
	s->throttles++;
	s->state = BPSHAPER_THROTTLED;
	list_move_tail(&s->node, &bp->throttled);
	bp->overlimit_len--;
	bp->flows->stat.throttles++;
	bp->flows->stat.idle_throttles += !bpshaper_sock_is_tcp(sk) &&
					  now - s->idle_ns < BPSHAPER_IDLE_NS;
	trace_sock_throttle(bp->sch, sk, bpshaper_socket_due(s),
			    bpshaper_socket_share(bp, s), 0);
	return true;
}

/* A throttled socket that sends all the same may have got a larger send buffer.
 */
static void bpshaper_socket_top_up(struct bpshaper_socket *s)
{
	u32 held = s->ballast->truesize;
	u32 charge;

	bpshaper_socket_bound(s);
	charge = bpshaper_sock_charge(s->sk);
	if (charge <= held ||
	    refcount_read(&s->sk->sk_wmem_alloc) > BPSHAPER_WMEM_MAX)
		return;
	refcount_add(charge - held, &s->sk->sk_wmem_alloc);
	s->ballast->truesize = charge;
}

/* Go back to UNTHROTTLED from one of the other states. */
static void bpshaper_socket_set_unthrottled(struct bpshaper_backpressure *bp,
					    struct bpshaper_socket *s, u64 now)
{
	u64 duration = now - s->throttled_ns;
	bool is_throttled = bpshaper_socket_is_throttled(s);

	if (s->state == BPSHAPER_OUTSIDE) {
		bpshaper_turns_leave(&bp->flows->turns, s, now);
		bpshaper_hist_add(bp->flows->stat.outside_hist, s->outside_ns);
	}
	s->state = BPSHAPER_UNTHROTTLED;
	list_del_init(&s->node);
	if (!is_throttled) {
		bp->overlimit_len--;
		return;
	}
	trace_sock_unthrottle(bp->sch, s->sk, bpshaper_socket_due(s),
			      bpshaper_socket_share(bp, s), duration);
	s->longest_ns = max(s->longest_ns, duration);
	bpshaper_hist_add(bp->flows->stat.throttle_hist, duration);
	bp->flows->stat.unthrottles++;
	s->tokens = 0;
	s->tokens_ns = now;
	if (!s->flows)
		bpshaper_socket_unbound(s);
	/* One of the socket's packets that was freed while the ballast was
	 * charged may have woken its owner, who then found no room.
	 */
	bpshaper_sock_ask_to_wake(s->sk);
	dev_consume_skb_irq(s->ballast);
	s->ballast = NULL;
}

/* Whatever the socket is in this leaf, it is nothing special any more. */
static void bpshaper_socket_release(struct bpshaper_backpressure *bp,
				    struct bpshaper_socket *s, u64 now)
{
	if (s->state != BPSHAPER_UNTHROTTLED)
		bpshaper_socket_set_unthrottled(bp, s, now);
	bpshaper_turn_end(&bp->flows->turns, s);
	bpshaper_socket_unkeep(bp->flows, s);
}

/* A socket that is throttled and has drained waits for a turn. */
static void bpshaper_socket_put_outside(struct bpshaper_backpressure *bp,
					struct bpshaper_socket *s, u64 now)
{
	s->state = BPSHAPER_OUTSIDE;
	/* Sockets that begin together get their turns one after the other, and
	 * flows that take none have their parts in between.
	 */
	if (s->flow && s->turn_ns < bp->flows->turns.start_ns)
		s->flow->v += reciprocal_scale(get_random_u32(),
					     min(bp->share,
						 bp->share_min));
	bpshaper_turns_join(&bp->flows->turns, s, bpshaper_socket_finish(s),
			    now);
}

/* Release the first socket outside. It gets a turn, unless it has several peers
 * by now.
 */
static void bpshaper_socket_let_in(struct bpshaper_backpressure *bp, u64 now)
{
	struct bpshaper_turns *turns = &bp->flows->turns;
	struct bpshaper_socket *s = bpshaper_turns_first(turns);

	trace_sock_turn(bp->sch, s->sk, bpshaper_socket_due(s), bp->share,
			now - s->turn_ns);
	bpshaper_socket_set_unthrottled(bp, s, now);
	bp->flows->stat.turns += bpshaper_socket_takes_turns(s);
	if (bpshaper_socket_takes_turns(s))
		bpshaper_turn_begin(turns, s, bp->share, now);
	else
		bpshaper_socket_unkeep(bp->flows, s);
}

static void bpshaper_backpressure_release_all(struct bpshaper_backpressure *bp,
					      u64 now)
{
	struct list_head *lists[] = {
		&bp->throttled, &bp->overlimit,
		&bp->flows->turns.outside_list, &bp->flows->turns.taking,
	};
	struct bpshaper_socket *s, *next;
	int i;

	for (i = 0; i < ARRAY_SIZE(lists); i++)
		list_for_each_entry_safe(s, next, lists[i], node)
			bpshaper_socket_release(bp, s, now);
}

/* Without backpressure no socket is throttled. */
static void bpshaper_backpressure_set_on(struct bpshaper_backpressure *bp,
					 bool is_on, u64 now)
{
	bp->is_on = is_on;
	if (is_on)
		return;
	bpshaper_backpressure_release_all(bp, now);
	bpshaper_table_trim(bp->flows->table, INT_MAX);
}

/* Throttling: when does a socket change its state?
 *
 * A socket that holds more than its share is overlimit; it is throttled once
 * the queue will not drain for a while, and released when a quarter of its
 * share is left. If there is no room then, it goes outside and waits for a turn
 * (order.h).
 */

#define BPSHAPER_THROTTLE_BATCH	64	/* sockets, by one dequeue */
#define BPSHAPER_REVIEW_BATCH	8	/* sockets, by one sleep */
#define BPSHAPER_REVIEW_TURN	4	/* sockets outside, by one turn */
#define BPSHAPER_LEAF_BATCH	8	/* leaves, by one sleep */
#define BPSHAPER_TICK_BATCH	4	/* leaves, by one timer */
#define BPSHAPER_TICK_NS	BIT(20)	/* see bpshaper_turns_arm() */

/* Compute the share anew that bpshaper_socket_exceeds() goes by. */
static inline void bpshaper_leaf_update_share(struct bpshaper_leaf *l)
{
	bpshaper_share_update(&l->bp, bpshaper_limit(l),
			      bpshaper_contenders(l));
}

/* Does the socket hold more than a @divisor-th of its share? While memory is
 * scarce for its user all its data counts, and its share is that of one flow.
 * Above BPSHAPER_STOP any data exceeds it, so that sockets stop before packets
 * must be dropped.
 */
static inline bool bpshaper_socket_exceeds(const struct bpshaper_leaf *l,
					   const struct bpshaper_socket *s,
					   u32 divisor)
{
	u32 share;

	if (likely(!bpshaper_user_exceeds(s->user, 0, BPSHAPER_SCARCE)))
		return bpshaper_socket_due(s) >
		       bpshaper_socket_share(&l->bp, s) / divisor;
	share = bpshaper_user_exceeds(s->user, 0, BPSHAPER_STOP) ?
		1 : l->bp.flow_share;
	return s->data > share / divisor;
}

/* Does the qdisc wait for tokens? */
static bool bpshaper_waits_for_tokens(struct bpshaper_sched *q)
{
	return q->is_armed_for_tokens && hrtimer_is_queued(&q->watchdog.timer);
}

/* Will the backlog of @f stay for a while? It will if the qdisc waits for
 * tokens, or with a hub its slot lacks bytes, if the flow waits and holds no
 * timed packets (or any, while memory is scarce), if the device has stopped, or
 * if the parent has not called dequeue since the packet before.
 */
static bool bpshaper_is_blocked(struct Qdisc *sch,
				const struct bpshaper_leaf *l,
				const struct bpshaper_flow *f)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	return (l->slot.member ? bpshaper_slot_lacks(&l->slot) :
				 bpshaper_waits_for_tokens(q)) ||
	       (f->is_waiting &&
		(!f->timed || bpshaper_user_exceeds(f->socket->user, 0,
						    BPSHAPER_SCARCE))) ||
	       netif_xmit_frozen_or_stopped(sch->dev_queue) ||
	       q->undrained > 1;
}

/* Is more queued than turns that are given one after the other can bring? Many
 * sockets have started at once, or had got turns early and send all at once.
 * Shares may be larger than the limit, as they have room for packets. Bursts do
 * not count: they end by themselves.
 */
static inline bool bpshaper_is_crowded(const struct bpshaper_leaf *l)
{
	u64 limit = bpshaper_limit(l);

	return l->flows.turns.inside > limit + l->flows.turns.bursts +
	       min_t(u64, limit, 2ULL * l->bp.share);
}

/* Must the socket of @f, which is unthrottled, stop after a packet that it has
 * queued? @is_used_up: its turn, with that packet. In a crowd what a socket
 * that takes turns needs to start is enough: a packet of the MTU, or share_min
 * if that was set. A new flow has not shown that it is sparse, so its next
 * packet must fit as well. Else one with a turn stops when that is used up, or
 * while memory is scarce, and one without when it exceeds its share or, while
 * others are outside, is too far ahead of the virtual time.
 */
static inline bool bpshaper_socket_must_stop(struct bpshaper_leaf *l,
					     const struct bpshaper_flow *f,
					     bool is_used_up)
{
	const struct bpshaper_turns *turns = &l->flows.turns;
	const struct bpshaper_socket *s = f->socket;
	u32 next = f->is_known ? 0 : qdisc_pkt_len(f->tail);

	if (unlikely(bpshaper_is_crowded(l)) &&
	    bpshaper_socket_takes_turns(s) &&
	    (u64)s->data + next > max(l->flows.quantum, l->q->config.share_min))
		return true;
	if (unlikely(s->rest) &&
	    !bpshaper_user_exceeds(s->user, 0, BPSHAPER_SCARCE))
		return false;
	bpshaper_leaf_update_share(l);
	if (bpshaper_socket_exceeds(l, s, 1))
		return true;
	return unlikely(turns->outside_len) && bpshaper_socket_takes_turns(s) &&
	       !s->rest && (is_used_up || bpshaper_socket_finish(s) >
					  l->flows.vtime + l->bp.share);
}

/* Does the socket take no turns, because of what it is? With a pacing rate it
 * needs longer for a turn than others. TCP cannot be held outside: it sends a
 * packet whenever all before it is acknowledged, whatever it is charged
 * (tcp_small_queue_check()).
 */
static inline bool
bpshaper_sock_is_without_turns(const struct bpshaper_sched *q,
			       const struct sock *sk)
{
	return bpshaper_sock_is_tcp(sk) ||
	       bpshaper_pacing_has_rate(&q->pacing, sk);
}

/* The leaf has an overlimit socket. That of the qdisc is always looked at. */
static inline void bpshaper_leaf_join_overlimit(struct bpshaper_leaf *l)
{
	if (unlikely(l != &l->q->own) &&
	    list_empty(&l->overlimit_node))
		list_add_tail(&l->overlimit_node, &l->q->overlimit);
}

/* Bursts
 *
 * Flows are fair, so what an idle socket queues waits for itself, and a program
 * that keeps nothing at EAGAIN would lose it. So a socket has tokens for bytes
 * beyond its share. When it has been idle they come back, as many as its part
 * of the rate in the time since they were counted last. So a greedy socket uses
 * them once. While it has such bytes queued all that it queues takes tokens. A
 * throttle takes the rest.
 *
 * New sockets together get the tokens of one, or those that come and go would
 * pass all that wait for turns. All bursts of a leaf have BPSHAPER_BURSTS_MAX
 * bytes, or `limit` if that was set to less, and one of them no more than it
 * leaves to others (Choudhury and Hahne, as in socket.h). TCP has none, as it
 * keeps what it cannot send, nor has a socket with a pacing rate, whose packets
 * would stay for as long as it likes.
 */

/* The socket has queued a packet of @len bytes, and must stop if that is not
 * part of a burst. May it be?
 */
static noinline bool bpshaper_socket_may_burst(struct bpshaper_leaf *l,
					       struct bpshaper_socket *s,
					       u32 len)
{
	struct bpshaper_turns *turns = &l->flows.turns;
	u64 since = s->tokens_ns ?: turns->new_ns, Bps;

	if (!s->burst && (s->is_without_turns ||
			  bpshaper_user_exceeds(s->user, 0, BPSHAPER_SCARCE)))
		return false;
	if (!s->burst && s->idle_ns > since) {
		s->is_lone_burst = s->idle_ns - since > BPSHAPER_IDLE_NS;
		/* It has as much of the rate as of the limit. */
		Bps = mul_u64_u32_div(bpshaper_root_Bps(l->q),
				      bpshaper_limit(l), l->q->limit);
		Bps = div_u64(Bps, max(bpshaper_contenders(l), 1U));
		s->tokens += bpshaper_Bps_bytes(Bps, s->idle_ns - since);
		s->tokens = min_t(u64, s->tokens, turns->bursts_most / 2);
		turns->new_ns = s->tokens_ns ? turns->new_ns : s->idle_ns;
		s->tokens_ns = s->idle_ns;
	}
	if (s->tokens < len || s->burst + len > s->data ||
	    s->burst + turns->bursts + len > turns->bursts_most)
		return false;
	if (!s->burst)
		trace_sock_burst(l->bp.sch, s->sk, s->data, l->bp.share, 0);
	s->tokens -= len;
	bpshaper_burst_set(turns, s, s->burst + len);
	return true;
}

/* The socket has queued a packet of @len bytes: was it idle before? */
static inline void bpshaper_socket_note_idle(struct bpshaper_socket *s, u32 len,
					     u64 now)
{
	if (s->data == len && now - s->tokens_ns > BPSHAPER_TURN_NS)
		s->idle_ns = now;
}

/* A packet has joined a socket's flow, or was refused for want of memory. */
static inline void bpshaper_socket_enqueued(struct Qdisc *sch,
					    struct bpshaper_leaf *l,
					    struct bpshaper_flow *f,
					    const struct sk_buff *skb,
					    bpshaper_destructor_t destructor,
					    u64 now)
{
	struct bpshaper_socket *s = f->socket;
	bool is_without_turns = bpshaper_sock_is_without_turns(l->q, s->sk);
	u32 len = qdisc_pkt_len(skb);
	bool is_used_up = false;

	if (unlikely(is_without_turns != s->is_without_turns))
		bpshaper_flows_set_turns(&l->flows, s, is_without_turns,
					 s->is_by_peer, s->peers);
	s->flow = f;
	bpshaper_socket_note_largest(s, len);
	if (unlikely(s->rest))
		is_used_up = bpshaper_turns_count(&l->flows.turns, s,
						  bpshaper_wire_len(&l->q->wire,
								    skb), now);
	if (bpshaper_socket_is_throttled(s)) {
		bpshaper_socket_top_up(s);
		return;
	}
	if (s->state == BPSHAPER_UNTHROTTLED) {
		bpshaper_socket_note_idle(s, len, now);
		if ((unlikely(s->burst) &&
		     bpshaper_socket_may_burst(l, s, len)) ||
		    !bpshaper_socket_must_stop(l, f, is_used_up) ||
		    bpshaper_socket_may_burst(l, s, len))
			return;
		bpshaper_turn_end(&l->flows.turns, s);
		s->destructor = destructor;
		s->state = BPSHAPER_OVERLIMIT;
		s->is_fragmenting = false;
		list_add_tail(&s->node, &l->bp.overlimit);
		l->bp.overlimit_len++;
		bpshaper_leaf_join_overlimit(l);
	}
	if (bpshaper_is_blocked(sch, l, f))
		bpshaper_socket_throttle(&l->bp, s, now);
	else
		s->is_fragmenting = bpshaper_skb_is_fragment(skb);
}

/* The timer of turns
 *
 * One timer serves all leaves of a qdisc.
 */

static struct bpshaper_leaf *
bpshaper_ticking_first(const struct bpshaper_sched *q)
{
	struct bpshaper_tag *first = bpshaper_tag_first(&q->ticking);

	return first ? container_of(first, struct bpshaper_leaf, tick) : NULL;
}

static void bpshaper_leaf_stop_ticking(struct bpshaper_leaf *l)
{
	if (!l->is_ticking)
		return;
	rb_erase_cached(&l->tick.node, &l->q->ticking);
	l->is_ticking = false;
}

/* Start the timer for the leaf that is first. */
static void bpshaper_ticking_arm(struct bpshaper_sched *q)
{
	struct bpshaper_leaf *l = bpshaper_ticking_first(q);

	if (l)
		hrtimer_start(&q->turn_timer, ns_to_ktime(l->tick.at),
			      HRTIMER_MODE_ABS_SOFT);
}

/* Wake up in @ns for those outside, or up to BPSHAPER_TICK_NS later if @ns is
 * longer, so that the timer fires once for many leaves.
 */
static void bpshaper_turns_arm(struct bpshaper_leaf *l, u64 ns, u64 now)
{
	bpshaper_leaf_stop_ticking(l);
	l->tick.at = now + ns;
	if (ns > BPSHAPER_TICK_NS)
		l->tick.at |= BPSHAPER_TICK_NS - 1;
	l->is_ticking = true;
	if (bpshaper_tag_link(&l->q->ticking, &l->tick))
		bpshaper_ticking_arm(l->q);
}

/* The socket has drained: release it, or let it wait outside if it is throttled
 * and there is no room. There is for a share of each while that is not the
 * least: what others have queued beyond theirs leaves by itself. A socket that
 * was closed needs none. Nor may those outside fill the memory, as they have no
 * packet that could be dropped.
 */
static void bpshaper_socket_drained(struct bpshaper_leaf *l,
				    struct bpshaper_socket *s, u64 now)
{
	const struct bpshaper_turns *turns = &l->flows.turns;

	if (s->state != BPSHAPER_THROTTLED ||
	    (!turns->outside_len &&
	     (l->bp.share > l->bp.share_min ||
	      bpshaper_turns_have_room(turns, bpshaper_limit(l)))) ||
	    !bpshaper_socket_takes_turns(s) || sock_flag(s->sk, SOCK_DEAD) ||
	    bpshaper_user_exceeds(s->user, 0, BPSHAPER_STOP)) {
		bpshaper_socket_release(&l->bp, s, now);
		return;
	}
	bpshaper_socket_put_outside(&l->bp, s, now);
	if (!l->is_ticking)
		bpshaper_turns_arm(l, l->flows.turns.patience_ns, now);
}

/* Release the socket if it holds no more than a quarter of its share, or if it
 * must retransmit. Call this when it has less queued that counts, or when its
 * share may have grown.
 */
static void bpshaper_socket_try_release(struct bpshaper_leaf *l,
					struct bpshaper_socket *s, u64 now)
{
	if (unlikely(s->burst))
		bpshaper_burst_set(&l->flows.turns, s,
				   clamp_t(s64, (s64)bpshaper_socket_due(s) -
					   bpshaper_socket_share(&l->bp, s),
					   0, s->burst));
	if (unlikely(s->burst) && bpshaper_sock_is_without_turns(l->q, s->sk))
		bpshaper_burst_set(&l->flows.turns, s, 0);
	if (s->state == BPSHAPER_UNTHROTTLED)
		return;
	if (bpshaper_socket_is_throttled(s) &&
	    bpshaper_sock_must_retransmit(s->sk)) {
		bpshaper_socket_release(&l->bp, s, now);
		return;
	}
	if (s->state == BPSHAPER_OUTSIDE)
		return;
	bpshaper_leaf_update_share(l);
	if (!bpshaper_socket_exceeds(l, s, l->bp.release_divisor))
		bpshaper_socket_drained(l, s, now);
}

/* The leaf will not drain for a while: throttle a batch of overlimit sockets.
 * The others are throttled by their next packet, or the next time. A socket
 * that cannot be throttled goes to the end of the list. So does one that sends
 * fragments: a datagram may exceed the send buffer only up to twice its size,
 * so the ballast would make its next fragment fail with ENOBUFS.
 *
 * Look at some throttled sockets again. All that such a socket holds may have a
 * time that is far, so no dequeue would release it, while its share has grown
 * or memory is no longer scarce.
 */
static void bpshaper_leaf_throttle(struct bpshaper_leaf *l, u64 now)
{
	int batch = BPSHAPER_THROTTLE_BATCH, review = BPSHAPER_REVIEW_BATCH;
	struct bpshaper_backpressure *bp = &l->bp;
	struct bpshaper_socket *s;

	while (!list_empty(&bp->overlimit) && batch--) {
		s = list_first_entry(&bp->overlimit, struct bpshaper_socket,
				     node);
		if (s->is_fragmenting || !bpshaper_socket_throttle(bp, s, now))
			list_move_tail(&s->node, &bp->overlimit);
	}
	while (unlikely(l->flows.exempt) && !list_empty(&bp->throttled) &&
	       review--) {
		s = list_first_entry(&bp->throttled, struct bpshaper_socket,
				     node);
		list_move_tail(&s->node, &bp->throttled);
		bpshaper_socket_try_release(l, s, now);
	}
}

/* The queue will not drain for a while: throttle overlimit sockets, of some
 * classes that have any.
 */
static void bpshaper_throttle_overlimit(struct bpshaper_sched *q, u64 now)
{
	int batch = BPSHAPER_LEAF_BATCH;
	struct bpshaper_leaf *l;

	bpshaper_leaf_throttle(&q->own, now);
	while (unlikely(!list_empty(&q->overlimit)) && batch--) {
		l = list_first_entry(&q->overlimit, struct bpshaper_leaf,
				     overlimit_node);
		list_del_init(&l->overlimit_node);
		bpshaper_leaf_throttle(l, now);
		/* A socket may hold nothing but packets for later. */
		if (l->bp.overlimit_len ||
		    (l->flows.exempt && !list_empty(&l->bp.throttled)))
			bpshaper_leaf_join_overlimit(l);
	}
}

/* Turns */

/* Look at @batch of those outside: release those whose application has closed
 * them, as their memory is not needed. Return whether there were any.
 */
static bool bpshaper_turns_review(struct bpshaper_leaf *l, int batch, u64 now)
{
	struct list_head *list = &l->flows.turns.outside_list;
	struct bpshaper_socket *s;
	bool found = false;

	while (batch-- && !list_empty(list)) {
		s = list_first_entry(list, struct bpshaper_socket, node);
		list_move_tail(&s->node, list);
		if (!sock_flag(s->sk, SOCK_DEAD))
			continue;
		bpshaper_socket_release(&l->bp, s, now);
		bpshaper_table_trim(&l->q->table, 1);
		found = true;
	}
	return found;
}

/* End the turns of sockets that have had theirs for too long, and give turns to
 * those for whom there is room. A socket that has not sent anything in its turn
 * pays for the room that it had: else many of those would come first, again and
 * again, while nobody sends. The caller holds no pointer to a parked flow.
 */
static noinline void bpshaper_turns_serve(struct bpshaper_leaf *l, u64 now)
{
	struct bpshaper_turns *turns = &l->flows.turns;
	u32 limit = bpshaper_limit(l), share, early;
	int batch = BPSHAPER_TURNS_BATCH, ends = BPSHAPER_TURNS_BATCH;
	struct bpshaper_socket *s;

	while (turns->rest && ends--) {
		s = list_first_entry(&turns->taking, struct bpshaper_socket,
				     node);
		if (now - s->turn_ns <= turns->patience_ns)
			break;
		if (s->is_unused && s->flow)
			s->flow->v += s->rest;
		bpshaper_turn_end(turns, s);
		bpshaper_socket_unkeep(&l->flows, s);
		bpshaper_table_trim(&l->q->table, 1);
	}
	share = bpshaper_share_update(&l->bp, limit, bpshaper_contenders(l));
	early = bpshaper_turns_early(turns, limit, share,
				     bpshaper_flows_strangers_ahead(&l->flows),
				     now);
	while (turns->outside_len && batch--) {
		if (!bpshaper_turns_have_room(turns, limit) && !early--)
			break;
		bpshaper_socket_let_in(&l->bp, now);
		bpshaper_turns_review(l, BPSHAPER_REVIEW_TURN, now);
	}
	turns->each = bpshaper_turns_are_on(turns) ?
		      min(share, l->bp.share_min) : 0;
	if (turns->outside_len && !turns->is_soon &&
	    bpshaper_turns_are_dry(turns, limit)) {
		turns->is_soon = true;
		bpshaper_turns_arm(l, turns->dry_ns, now);
	}
}

/* The timer of turns has fired for the leaf. Arm it again while somebody is
 * outside or has a turn.
 */
static void bpshaper_leaf_tick(struct bpshaper_leaf *l, u64 now)
{
	struct bpshaper_turns *turns = &l->flows.turns;
	bool found;

	turns->is_soon = false;
	found = bpshaper_turns_review(l, BPSHAPER_TURNS_REVIEW, now);
	bpshaper_turns_serve(l, now);
	if (bpshaper_turns_are_on(turns) && !turns->is_soon)
		bpshaper_turns_arm(l, found ? BPSHAPER_DRY_NS :
					      turns->patience_ns, now);
}

/* Give turns while nothing leaves. The root lock is that of a qdisc that may
 * have replaced ours, so reset() excludes this with a lock of its own.
 */
static enum hrtimer_restart bpshaper_turn_timer(struct hrtimer *timer)
{
	struct bpshaper_sched *q = container_of(timer, struct bpshaper_sched,
						turn_timer);
	int batch = BPSHAPER_TICK_BATCH;
	struct bpshaper_leaf *l;
	struct Qdisc *root;
	u64 now;

	rcu_read_lock();
	root = qdisc_root_sleeping(q->own.bp.sch);
	spin_lock(qdisc_lock(root));
	spin_lock(&q->turn_lock);
	now = ktime_get_ns();
	while (batch-- && (l = bpshaper_ticking_first(q)) &&
	       l->tick.at <= now) {
		bpshaper_leaf_stop_ticking(l);
		bpshaper_leaf_tick(l, now);
	}
	bpshaper_ticking_arm(q);
	spin_unlock(&q->turn_lock);
	spin_unlock(qdisc_lock(root));
	rcu_read_unlock();
	return HRTIMER_NORESTART;	/* it was armed anew, if at all */
}

#endif /* _BPSHAPER_HOLD_H */
