/* SPDX-License-Identifier: GPL-2.0-only */
/* Turns: which sockets may have a part of the queue?
 *
 * The sockets' part of the queue is `limit` bytes, however many sockets there
 * are. A throttled socket that has drained while there is no room waits outside
 * (BPSHAPER_OUTSIDE): it keeps its ballast and needs no packet. When there is
 * room, the first outside gets a turn: it is released and may queue a share,
 * its rest. The rests of all turns count as if they were queued already.
 *
 * Who is first is decided by virtual finish times, as in start-time fair
 * queueing (Goyal, Vin, Cheng, SIGCOMM 1996), in bytes that each socket may
 * send. A packet advances the finish time of its socket by its length. The
 * virtual time is the largest finish time of those that have got a turn, or
 * more (bpshaper_turns_join(), bpshaper_turns_advance()). So a socket that
 * always has something to send is as far as the virtual time, and one that
 * sends less is behind it. A socket without a turn may send while it is less
 * than a share ahead of the virtual time, and no socket is counted as further
 * than a share behind it. Sparse sockets never wait.
 *
 * A socket with several peers takes no turns, nor does one that is paced by a
 * rate, nor TCP, nor the pool. Their flows are always inside, while those of
 * the others are inside for a part of the time. So a flow of theirs that is
 * ahead of the virtual time is charged more than its bytes in the round robin
 * (bpshaper_turns_surcharge()).
 *
 * A socket that has got a turn may not use it: the application has nothing to
 * send, or does not run. Its turn ends after @patience_ns. While less than a
 * quarter of the limit is queued and nobody sends, others get a turn early.
 *
 * The caller holds the root lock of the qdisc.
 */
#ifndef _BPSHAPER_TURNS_H
#define _BPSHAPER_TURNS_H

#define BPSHAPER_TURNS_BATCH	8	/* sockets that get a turn at once */
#define BPSHAPER_TURNS_REVIEW	32	/* sockets outside, by the timer */
#define BPSHAPER_DRY_DIVISOR	4	/* of the limit */
#define BPSHAPER_DRY_NS		(15 * NSEC_PER_USEC)	/* a task wakes up */
#define BPSHAPER_DRY_MAX_NS	(120 * NSEC_PER_USEC)
#define BPSHAPER_PATIENCE_MIN_NS NSEC_PER_MSEC
#define BPSHAPER_PATIENCE_MAX_NS (100 * NSEC_PER_MSEC)
/* Nobody was outside for so long: all sockets start at the same time again. */
#define BPSHAPER_TURNS_OVER_NS	(100 * NSEC_PER_MSEC)
#define BPSHAPER_TURNS_QUANTA_MAX 64	/* of a turn, in one round */
#define BPSHAPER_AHEAD_SHARES	4	/* of a flow; more is forgiven */
#define BPSHAPER_LEAD_SHARES	16	/* of a socket, likewise */
#define BPSHAPER_UNSERVED_SHARES 8	/* sent without a turn */

/**
 * struct bpshaper_turns - who is inside, who waits outside
 * @outside: sockets outside, by finish time
 * @outside_list: the same, in the order in which they are to be reviewed
 * @outside_len: their number
 * @taking: sockets that have a turn, longest first
 * @rest: bytes with framing that they may still queue in their turns
 * @inside: bytes that sockets which take turns have queued and that are not for
 *	later (bpshaper_flow.h and bpshaper_table.h)
 * @others: the same of sockets that do not
 * @kept: kept flows: sockets without a backlog that are throttled or have a
 *	turn (bpshaper_table.h)
 * @unserved: bytes that have left since a socket got a turn
 * @vtime: virtual time, bytes
 * @latest: the largest finish time of a socket so far
 * @divided: bytes that are not in @vtime yet, see bpshaper_turns_advance()
 * @over_ns: when the last socket outside got its turn
 * @active_ns: when a socket got a turn last, or sent in its turn
 * @dry_ns: how long to wait before the next one gets a turn early
 * @patience_ns: how long a turn lasts at most
 * @quanta: of a socket that takes turns, in a round in which it is inside
 * @mean_quanta: of a contender, in a round, whether it is inside or not
 * @is_soon: the timer is armed for @dry_ns (bpshaper_throttle.h)
 * @stat_turns: turns given
 * @outside_hist: times that sockets were outside
 */
struct bpshaper_turns {
	struct rb_root_cached	outside;
	struct list_head	outside_list;
	u32			outside_len;
	struct list_head	taking;
	u64			rest;
	u64			inside;
	u64			others;
	u32			kept;
	u32			quanta;
	u32			mean_quanta;
	bool			is_soon;
	u32			dry_ns;
	u32			divided;
	u32			unserved;
	u64			vtime;
	u64			latest;
	u64			over_ns;
	u64			active_ns;
	u64			patience_ns;
	u64			stat_turns;
	struct bpshaper_hist	outside_hist;
};

static void bpshaper_turns_init(struct bpshaper_turns *t)
{
	t->outside = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&t->outside_list);
	INIT_LIST_HEAD(&t->taking);
	t->outside_len = 0;
	t->rest = 0;
	t->inside = 0;
	t->others = 0;
	t->kept = 0;
	t->quanta = 1;
	t->mean_quanta = 1;
	t->is_soon = false;
	t->dry_ns = BPSHAPER_DRY_NS;
}

/* @limit_ns is the time that the limit takes at the rate. */
static void bpshaper_turns_configure(struct bpshaper_turns *t, u64 limit_ns)
{
	t->patience_ns = clamp_t(u64, limit_ns, BPSHAPER_PATIENCE_MIN_NS,
				 BPSHAPER_PATIENCE_MAX_NS);
}

/* Must finish times and rests be counted? */
static inline bool bpshaper_turns_are_on(const struct bpshaper_turns *t)
{
	return t->outside_len || t->rest;
}

/* Virtual time */

/* The least finish time that a socket or a flow may have. */
static u64 bpshaper_turns_least(const struct bpshaper_turns *t, u32 share)
{
	return t->vtime - min_t(u64, t->vtime, share);
}

/* @bytes have been divided among @contenders. */
static void bpshaper_turns_advance(struct bpshaper_turns *t, u32 bytes,
				   u32 contenders)
{
	t->divided += bytes;
	t->vtime += t->divided / max(contenders, 1U);
	t->divided %= max(contenders, 1U);
}

/* Is the socket further ahead than @bytes? */
static bool bpshaper_socket_is_ahead(const struct bpshaper_turns *t,
				     const struct bpshaper_socket *s, u32 bytes)
{
	return s->finish > t->vtime + bytes;
}

/* Is the socket as far as the virtual time? Then it sends all that it may. */
static bool bpshaper_socket_is_greedy(const struct bpshaper_turns *t,
				      const struct bpshaper_socket *s)
{
	return bpshaper_turns_are_on(t) && bpshaper_socket_takes_turns(s) &&
	       s->finish >= t->vtime;
}

/* Has the socket, which has no turn, sent less than those that got turns, by
 * more than @bytes?
 */
static bool bpshaper_socket_is_behind(const struct bpshaper_turns *t,
				      const struct bpshaper_socket *s,
				      u32 bytes)
{
	return bpshaper_turns_are_on(t) && bpshaper_socket_takes_turns(s) &&
	       !s->rest && s->finish + bytes < t->vtime;
}

/* Has the socket got a turn or gone outside lately? */
static bool bpshaper_socket_had_turn(const struct bpshaper_turns *t,
				     const struct bpshaper_socket *s, u64 now)
{
	return now - s->turn_ns <= 2 * t->patience_ns;
}

/* How long the socket was outside before it could queue what it sends now. */
static inline u64 bpshaper_socket_waited_ns(const struct bpshaper_turns *t,
					    const struct bpshaper_socket *s,
					    u64 now)
{
	if (likely(!bpshaper_turns_are_on(t)) ||
	    !bpshaper_socket_takes_turns(s) ||
	    !bpshaper_socket_had_turn(t, s, now))
		return 0;
	return s->outside_ns;
}

/* Is the socket behind without having waited for a turn lately? Then it asks
 * for less than its part.
 */
static bool bpshaper_socket_is_sparse(const struct bpshaper_turns *t,
				      const struct bpshaper_socket *s, u64 now)
{
	return bpshaper_socket_is_behind(t, s, 0) &&
	       !bpshaper_socket_had_turn(t, s, now);
}

/* What a flow without turns pays beyond the @bytes that it sends. @finish is
 * its finish time. There are @active flows inside.
 *
 * A flow that is half a share ahead pays what it sends; at a whole share as
 * much more as there are more contenders than flows inside. So it settles where
 * it is as fast as the virtual time.
 */
static u64 bpshaper_turns_surcharge(const struct bpshaper_turns *t, u64 *finish,
				    u32 share, u32 active, u32 bytes)
{
	u64 ahead, price;

	*finish = max(*finish, bpshaper_turns_least(t, share)) + bytes;
	*finish = min(*finish,
		      t->vtime + (u64)BPSHAPER_AHEAD_SHARES * share + bytes);
	if (*finish <= t->vtime + share / 2)
		return 0;
	ahead = *finish - t->vtime - share / 2;
	active = max(active, 1U);
	/* In 1/16, so that it is not rounded to 0. */
	price = div_u64(32 * ahead, max(share, 1U));
	price = div_u64(price * ((u64)active + t->outside_len), active);
	if (price <= 16)
		return 0;
	return (price - 16) * bytes / 16;
}

/* Outside */

static struct bpshaper_socket *
bpshaper_turns_first(const struct bpshaper_turns *t)
{
	return container_of(bpshaper_tag_first(&t->outside),
			    struct bpshaper_socket, outside);
}

static void bpshaper_turns_link(struct bpshaper_turns *t,
				struct bpshaper_socket *s)
{
	s->outside.at = s->finish;
	bpshaper_tag_link(&t->outside, &s->outside);
}

static void bpshaper_turns_unlink(struct bpshaper_turns *t,
				  struct bpshaper_socket *s)
{
	rb_erase_cached(&s->outside.node, &t->outside);
}

/* A throttled socket waits outside. The caller sets its state. After a time
 * with nobody outside, in which finish times were not counted, let all start
 * equal: no finish time is later than a share before the virtual time.
 */
static void bpshaper_turns_join(struct bpshaper_turns *t,
				struct bpshaper_socket *s, u32 share, u64 now)
{
	if (!t->outside_len++ && now - t->over_ns > BPSHAPER_TURNS_OVER_NS)
		t->vtime = max(t->vtime, t->latest + share);
	s->finish = max(s->finish, bpshaper_turns_least(t, share));
	if (!bpshaper_socket_had_turn(t, s, now))
		s->outside_ns = 0;
	s->turn_ns = now;
	bpshaper_turns_link(t, s);
	list_move_tail(&s->node, &t->outside_list);
}

/* The socket is outside no longer. The caller takes it from the list. */
static void bpshaper_turns_leave(struct bpshaper_turns *t,
				 struct bpshaper_socket *s, u64 now)
{
	bpshaper_turns_unlink(t, s);
	if (!--t->outside_len)
		t->over_ns = now;
	s->outside_ns = now - s->turn_ns;
	bpshaper_hist_add(&t->outside_hist, s->outside_ns);
}

/* The socket outside to look at next, which goes to the end of the list. */
static struct bpshaper_socket *
bpshaper_turns_next_review(struct bpshaper_turns *t)
{
	struct bpshaper_socket *s;

	s = list_first_entry_or_null(&t->outside_list, struct bpshaper_socket,
				     node);
	if (s)
		list_move_tail(&s->node, &t->outside_list);
	return s;
}

/* Turns */

/* The socket has been released, and gets a turn of @share bytes. */
static void bpshaper_turn_begin(struct bpshaper_turns *t,
				struct bpshaper_socket *s, u32 share, u64 now)
{
	t->vtime = max(t->vtime, s->finish);
	t->stat_turns++;
	t->unserved = 0;
	t->active_ns = now;
	s->turn_ns = now;
	s->rest = share;
	s->is_unused = true;
	t->rest += share;
	list_add_tail(&s->node, &t->taking);
}

/* End the turn of a socket that has one. */
static void bpshaper_turn_end(struct bpshaper_turns *t,
			      struct bpshaper_socket *s)
{
	if (!s->rest)
		return;
	t->rest -= s->rest;
	s->rest = 0;
	list_del_init(&s->node);
}

/* The socket has had its turn for too long. If it has not sent anything it pays
 * for the room that it had: else many of those would come first, again and
 * again, while nobody sends.
 */
static void bpshaper_turn_expire(struct bpshaper_turns *t,
				 struct bpshaper_socket *s)
{
	if (s->is_unused) {
		s->finish += s->rest;
		t->latest = max(t->latest, s->finish);
	}
	bpshaper_turn_end(t, s);
}

/* The socket has queued a packet of @wire bytes with framing. Return whether it
 * had a turn which is used up: another packet of that size would exceed it.
 */
static bool bpshaper_turns_count(struct bpshaper_turns *t,
				 struct bpshaper_socket *s, u32 share,
				 u32 wire, u64 now)
{
	if (unlikely(s->state == BPSHAPER_OUTSIDE))
		bpshaper_turns_unlink(t, s);
	s->finish = max(s->finish, bpshaper_turns_least(t, share)) + wire;
	s->finish = min(s->finish, t->vtime + wire +
			(u64)BPSHAPER_LEAD_SHARES * share);
	t->latest = max(t->latest, s->finish);
	if (unlikely(s->state == BPSHAPER_OUTSIDE))
		bpshaper_turns_link(t, s);
	if (!s->rest)
		return false;
	s->is_unused = false;
	t->active_ns = now;
	t->dry_ns = BPSHAPER_DRY_NS;
	if (s->rest < 2ULL * wire) {
		bpshaper_turn_end(t, s);
		return true;
	}
	s->rest -= wire;
	t->rest -= wire;
	return false;
}

/* Is so little queued that the link may run idle before those come who have a
 * turn?
 */
static bool bpshaper_turns_are_dry(const struct bpshaper_turns *t, u32 limit)
{
	return t->inside * BPSHAPER_DRY_DIVISOR < limit;
}

/* There are @sockets sockets inside. If all flows are of sockets that take
 * turns and none waits for its time, each sends all that it has, @most quanta,
 * in one round, so that packets leave in about the order in which they came.
 * A contender gets @mean quanta of such a round on average. Else rounds must be
 * short (@is_mixed): flows that are always inside, or that wait between their
 * packets, come back in each. A socket that is inside for a part of the time
 * gets as many times the quantum.
 */
static void bpshaper_turns_set_quanta(struct bpshaper_turns *t, u32 sockets,
				      u32 most, u32 mean, bool is_mixed)
{
	t->quanta = clamp_t(u32, most, 1, BPSHAPER_TURNS_QUANTA_MAX);
	if (is_mixed)
		t->quanta = min(t->quanta,
				1 + t->outside_len / max(sockets, 1U));
	t->mean_quanta = is_mixed ? 1 : clamp_t(u32, mean, 1, t->quanta);
}

static bool bpshaper_turns_have_room(const struct bpshaper_turns *t, u32 limit)
{
	return t->inside + t->rest < limit;
}

/* How many sockets may get a turn although there is no room: some if the link
 * may run idle; and one when too much has left without a turn. New sockets that
 * queue a packet each could else keep all others outside for ever.
 */
static u32 bpshaper_turns_early(struct bpshaper_turns *t, u32 limit, u32 share,
				u64 now)
{
	if (bpshaper_turns_have_room(t, limit))
		return 0;
	if (t->unserved / BPSHAPER_UNSERVED_SHARES >= share)
		return 1;
	if (!bpshaper_turns_are_dry(t, limit) || now - t->active_ns < t->dry_ns)
		return 0;
	if (t->dry_ns < BPSHAPER_DRY_MAX_NS) {
		t->dry_ns *= 2;
		return 1;
	}
	return BPSHAPER_TURNS_BATCH;
}

#endif /* _BPSHAPER_TURNS_H */
