/* SPDX-License-Identifier: GPL-2.0-only */
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
 * gives turns (turns.h). throttle.h decides when a state
 * changes.
 *
 * The share of a socket with one flow is a part of the limit, equal for all. An
 * unconnected socket has room for two of its largest packets more for each
 * further peer that it has a flow for, parked or not: as much as a peer needs
 * to be served in turn. BPSHAPER_PEERS_MAX peers count at most.
 *
 * All of it runs under the root lock of the qdisc, or when no packet can reach
 * the qdisc. Only the ballast is freed later, in the transmit softirq: its
 * destructor wakes a task and may run the write_space callback of any protocol.
 */
#ifndef _BPSHAPER_BACKPRESSURE_H
#define _BPSHAPER_BACKPRESSURE_H

/* sk_wmem_alloc saturates from 2^31 on. Several qdiscs may charge a socket at
 * the same time without seeing each other's charge. With these bounds five may.
 */
#define BPSHAPER_CHARGE_MAX	BIT(28)	/* bytes, by one qdisc */
#define BPSHAPER_WMEM_MAX	BIT(29)	/* bytes, before charging */

/* TCP stops at its small-queue limit, not at the send buffer: two packets, or
 * what its pacing rate sends in a millisecond (see tcp_small_queue_check()).
 * This charge holds a stream paced at up to 134 Gbit/s.
 */
#define BPSHAPER_CHARGE_TCP	BIT(24)	/* bytes */

#define BPSHAPER_PEERS_MAX	1024	/* peers that raise a share */
#define BPSHAPER_RELEASE_DIVISOR 4	/* of the share; see design.rst */

/**
 * struct bpshaper_backpressure - sockets of a qdisc that hold too much
 * @sch: the qdisc, for trace events
 * @flows: its flows, which have the turns
 * @is_on: sockets are throttled
 * @overlimit: sockets in state OVERLIMIT
 * @throttled: sockets in state THROTTLED
 * @overlimit_len: sockets on @overlimit
 * @share: share of a socket that takes turns, for the next two, bytes
 * @flow_share: share of one that does not and has one flow, likewise
 * @share_sockets: number of sockets
 * @share_limit: limit that they share, bytes
 * @share_min: least share of a socket that takes turns, unless it exceeds half
 *	of the limit, bytes
 * @peer_min: least share of one that does not, and least that a further peer
 *	adds, bytes
 * @share_max: largest share, also for each further peer, bytes
 * @release_divisor: part of its share at which a socket is released (sched.h)
 * @stat_throttles: transitions to THROTTLED
 * @stat_idle_throttles: those of them of sockets, but TCP, that had been idle
 *	less than BPSHAPER_IDLE_NS before
 * @stat_unthrottles: transitions from THROTTLED or OUTSIDE to UNTHROTTLED
 * @stat_ballast_errors: failed allocations of a ballast
 * @throttle_hist: durations of ended throttles
 */
struct bpshaper_backpressure {
	struct Qdisc		*sch;
	struct bpshaper_flows	*flows;
	bool			is_on;
	struct list_head	overlimit;
	struct list_head	throttled;
	u32			overlimit_len;
	u32			share;
	u32			flow_share;
	u32			share_sockets;
	u32			share_limit;
	u32			share_min;
	u32			peer_min;
	u32			share_max;
	u32			release_divisor;
	u64			stat_throttles;
	u64			stat_idle_throttles;
	u64			stat_unthrottles;
	u64			stat_ballast_errors;
	struct bpshaper_hist	throttle_hist;
};

static void bpshaper_backpressure_init(struct bpshaper_backpressure *bp,
				       struct Qdisc *sch,
				       struct bpshaper_flows *flows)
{
	bp->sch = sch;
	bp->flows = flows;
	INIT_LIST_HEAD(&bp->overlimit);
	INIT_LIST_HEAD(&bp->throttled);
}

/* Shares */

static void bpshaper_share_set_bounds(struct bpshaper_backpressure *bp,
				      u32 share_min, u32 peer_min,
				      u32 share_max)
{
	bp->share_min = share_min;
	bp->peer_min = peer_min;
	bp->share_max = share_max;
	bp->share_sockets = U32_MAX;	/* never a count: compute it anew */
}

/* The share of a socket that takes turns, of @sockets that share @limit: half
 * of a small one at least, which a queue may have of the limit of all.
 */
static inline u32
bpshaper_share_compute(const struct bpshaper_backpressure *bp, u32 limit,
		       u32 sockets)
{
	u32 least = min(bp->share_min, max(limit / 2, bp->peer_min));

	return clamp(limit / max(sockets, 1U), least, bp->share_max);
}

/* The same, and that of others, remembered: most packets find @limit and
 * @sockets unchanged.
 */
static inline u32 bpshaper_share_update(struct bpshaper_backpressure *bp,
					u32 limit, u32 sockets)
{
	if (bp->share_sockets != sockets || bp->share_limit != limit) {
		bp->share_sockets = sockets;
		bp->share_limit = limit;
		bp->share = bpshaper_share_compute(bp, limit, sockets);
		bp->flow_share = clamp(limit / max(sockets, 1U), bp->peer_min,
				       bp->share_max);
	}
	return bp->share;
}

/* Room for two packets of each peer, one on its way and one to follow it. Peers
 * without a packet count, too: else the first peers that the socket sends to
 * would leave no room for the others.
 */
static noinline u32
bpshaper_peers_share(const struct bpshaper_backpressure *bp,
		     const struct bpshaper_socket *s, u32 share)
{
	u32 peers = clamp_t(u32, s->peers, 1, BPSHAPER_PEERS_MAX);
	u32 more = clamp_t(u64, 2ULL * s->largest, bp->peer_min,
			   bp->share_max);

	return min_t(u64, max(share, more) + (peers - 1ULL) * more,
		     U32_MAX);
}

static inline u32
bpshaper_socket_share(const struct bpshaper_backpressure *bp,
		      const struct bpshaper_socket *s)
{
	u32 share = likely(bpshaper_socket_takes_turns(s)) ? bp->share :
							     bp->flow_share;

	return unlikely(s->is_by_peer) ? bpshaper_peers_share(bp, s, share) :
					 share;
}

/* Ballast */

static inline u32 bpshaper_sock_charge(const struct sock *sk)
{
	u32 charge = max_t(u32, READ_ONCE(sk->sk_sndbuf), SOCK_MIN_SNDBUF);

	if (bpshaper_sock_is_tcp(sk))
		charge = max_t(u32, charge, BPSHAPER_CHARGE_TCP);
	return min_t(u32, charge, BPSHAPER_CHARGE_MAX);
}

/**
 * enum bpshaper_unheld - why the socket of a packet cannot be throttled
 * @BPSHAPER_HELD: it can
 * @BPSHAPER_NO_OWNER: there is none that the packet is charged to
 * @BPSHAPER_FOREIGN: it belongs to a foreign user namespace
 * @BPSHAPER_SNDBUF: its send buffer is too large to be filled
 * @BPSHAPER_CONTROL: it is the kernel's own, or no full socket (TCP handshake)
 * @BPSHAPER_DESTRUCTOR: it does not wait for sk_wmem_alloc: the destructor of
 *	the packet is not known to only uncharge and wake
 * @BPSHAPER_UNHELD_REASONS: how many there are
 */
enum bpshaper_unheld {
	BPSHAPER_HELD,
	BPSHAPER_NO_OWNER,
	BPSHAPER_FOREIGN,
	BPSHAPER_SNDBUF,
	BPSHAPER_CONTROL,
	BPSHAPER_DESTRUCTOR,
	BPSHAPER_UNHELD_REASONS
};

/* @net is the namespace of the device. Pure ACKs have another destructor, and
 * join the flow of their socket all the same.
 */
static inline enum bpshaper_unheld
bpshaper_skb_unheld(const struct sk_buff *skb, const struct net *net)
{
	const struct sock *sk = skb->sk;

	if (!sk || !skb->destructor)
		return BPSHAPER_NO_OWNER;
	if (!bpshaper_sock_is_full(sk))
		return BPSHAPER_CONTROL;
	if (!bpshaper_sock_is_ours(sk, net))
		return BPSHAPER_FOREIGN;
	if (READ_ONCE(sk->sk_sndbuf) > BPSHAPER_CHARGE_MAX &&
	    !bpshaper_sock_is_unbounded(sk))
		return BPSHAPER_SNDBUF;
	if (bpshaper_sock_is_tcp(sk))
		return skb_is_tcp_pure_ack(skb) ||
		       skb->destructor == sock_wfree ||
		       !bpshaper_is_tcp_wfree(skb->destructor) ?
			BPSHAPER_DESTRUCTOR : BPSHAPER_HELD;
	/* The kernel's own sockets for ICMP, ND, IGMP and TCP resets do not
	 * wait for room: throttling one loses the answers of the whole machine.
	 * They are raw sockets that the kernel made; most also have the flag.
	 */
	if (sock_flag(sk, SOCK_USE_WRITE_QUEUE) ||
	    (sk->sk_kern_sock && sk->sk_type == SOCK_RAW))
		return BPSHAPER_CONTROL;
	return skb->destructor == sock_wfree || sk->sk_family == PF_PACKET ?
		BPSHAPER_HELD : BPSHAPER_DESTRUCTOR;
}

/* What uncharges ballast of a packet's socket; NULL if that cannot be
 * throttled. The transmit ring of a packet socket has a destructor of its own,
 * which reports the ring's frame and then does what sock_wfree() does.
 */
static inline bpshaper_destructor_t
bpshaper_ballast_destructor(const struct sk_buff *skb, const struct net *net)
{
	if (bpshaper_skb_unheld(skb, net))
		return NULL;
	return bpshaper_sock_is_tcp(skb->sk) ? skb->destructor : sock_wfree;
}

/* States */

static void bpshaper_socket_set_overlimit(struct bpshaper_backpressure *bp,
					  struct bpshaper_socket *s,
					  bpshaper_destructor_t destructor)
{
	bpshaper_turn_end(&bp->flows->turns, s);
	s->destructor = destructor;
	s->state = BPSHAPER_OVERLIMIT;
	s->is_fragmenting = false;
	list_add_tail(&s->node, &bp->overlimit);
	bp->overlimit_len++;
}

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
		bp->stat_ballast_errors++;
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
	bp->stat_throttles++;
	bp->stat_idle_throttles += !bpshaper_sock_is_tcp(sk) &&
				   now - s->idle_ns < BPSHAPER_IDLE_NS;
	trace_sock_throttle(bp->sch, sk, bpshaper_socket_due(s),
			    bpshaper_socket_share(bp, s));
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

	if (s->state == BPSHAPER_OUTSIDE)
		bpshaper_turns_leave(&bp->flows->turns, s, now);
	s->state = BPSHAPER_UNTHROTTLED;
	list_del_init(&s->node);
	if (!is_throttled) {
		bp->overlimit_len--;
		return;
	}
	trace_sock_unthrottle(bp->sch, s->sk, bpshaper_socket_due(s),
			      bpshaper_socket_share(bp, s), duration);
	s->longest_ns = max(s->longest_ns, duration);
	bpshaper_hist_add(&bp->throttle_hist, duration);
	bp->stat_unthrottles++;
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

	trace_sock_turn(bp->sch, s->sk, bp->share, now - s->turn_ns);
	bpshaper_socket_set_unthrottled(bp, s, now);
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

#endif /* _BPSHAPER_BACKPRESSURE_H */
