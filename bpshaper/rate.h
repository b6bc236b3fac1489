/* SPDX-License-Identifier: GPL-2.0-only */
/* Rates: when a packet may leave, and trees by time. */
#ifndef _BPSHAPER_RATE_H
#define _BPSHAPER_RATE_H

/* The bucket: when may the next packet leave?
 *
 * The generic cell rate algorithm (GCRA, ITU-T I.371, the virtual scheduling
 * form). The state is one time, the theoretical arrival time `tat`: when the
 * link would be free if every packet had been sent at exactly the configured
 * rate. A packet whose transmission takes `cost` may leave at `now` if
 *
 *	max(tat, now) + cost - now <= burst		(all in ns)
 *
 * and tat then becomes max(tat, now) + cost. It follows that in any period of T
 * ns no more leaves than rate * (burst + T).
 *
 * A packet that costs more than the whole burst may leave once the bucket is
 * full (tat <= now) and puts it into debt; the bound then holds with the cost
 * of that packet in the place of burst.
 *
 * Nothing here knows a qdisc or reads a clock, so that the host's unit test can
 * include this file. The caller serialises.
 */

/**
 * struct bpshaper_rate - a rate, as the time that a byte takes
 * @Bps: bytes per second; 0 is unlimited, and then nothing has a cost
 * @mult: time of a byte in units of 2^-shift ns, rounded up; 2^31 to 2^32, so
 *	the rate is never exceeded and missed by less than 1 in 2^31
 * @shift: binary places of @mult, 2 to 45 for the rates the uAPI allows
 */
struct bpshaper_rate {
	u64	Bps;
	u64	mult;
	u8	shift;
};

/**
 * struct bpshaper_bucket - state of a GCRA bucket
 * @tat_ns: theoretical arrival time, CLOCK_MONOTONIC
 * @frac: what the last cost left below one ns, in units of 2^-shift ns; without
 *	it a 64-byte packet at 40 Gbit/s (12.8 ns) would be charged 1.6 % wrong
 * @burst_ns: time that the burst takes at the rate, rounded down
 * @out: bytes granted and not known to be sent (hub.h), else 0
 */
struct bpshaper_bucket {
	u64	tat_ns;
	u64	frac;
	u64	burst_ns;
	u32	out;
};

/* Long division, bit by bit: 10^9 << 45 does not fit 64 bits. */
static void bpshaper_rate_set(struct bpshaper_rate *r, u64 Bps)
{
	u64 rest, mult;
	u8 shift = 0;

	memset(r, 0, sizeof(*r));
	if (!Bps)
		return;

	mult = div64_u64_rem(NSEC_PER_SEC, Bps, &rest);
	while (mult < (1ULL << 31)) {
		rest <<= 1;
		mult <<= 1;
		if (rest >= Bps) {
			rest -= Bps;
			mult |= 1;
		}
		shift++;
	}
	r->Bps = Bps;
	r->mult = mult + !!rest;
	r->shift = shift;
}

static inline u64 bpshaper_rate_frac_mask(const struct bpshaper_rate *r)
{
	return (1ULL << r->shift) - 1;
}

/* Time that @bytes take at the rate, in ns, rounded up. */
static inline u64 bpshaper_rate_cost_ns(const struct bpshaper_rate *r,
					u32 bytes)
{
	u64 units = bytes * r->mult;

	return (units >> r->shift) + !!(units & bpshaper_rate_frac_mask(r));
}

/* Bytes that the rate sends in @ns, rounded down, at most U32_MAX. The product
 * is split so that neither half overflows. Slow path.
 */
static u32 bpshaper_rate_bytes(const struct bpshaper_rate *r, u64 ns)
{
	u64 secs, rest, bytes;

	secs = div64_u64_rem(ns, NSEC_PER_SEC, &rest);
	if (secs && r->Bps > div64_u64(U32_MAX, secs))
		return U32_MAX;
	/* rest < 2^30 ns and Bps <= 2^43: divide first what exceeds 2^33 */
	if (r->Bps >> 33)
		bytes = div64_u64(r->Bps, 1000) * rest;
	else
		bytes = div64_u64(r->Bps * rest, 1000);
	bytes = div64_u64(bytes, NSEC_PER_SEC / 1000) + secs * r->Bps;
	return min_t(u64, bytes, U32_MAX);
}

/* Start with an empty bucket: no sequence of changes then sends more than the
 * rate. Debt beyond the new burst is forgiven: a faster rate takes effect at
 * once.
 */
static void bpshaper_bucket_set(struct bpshaper_bucket *b,
				const struct bpshaper_rate *r, u32 burst,
				u64 now)
{
	b->burst_ns = r->Bps ? div64_u64((u64)burst * NSEC_PER_SEC, r->Bps) : 0;
	b->tat_ns = now + b->burst_ns;
	b->frac = bpshaper_rate_frac_mask(r);
}

static inline void bpshaper_bucket_fill(struct bpshaper_bucket *b)
{
	b->tat_ns = 0;
}

/* Earliest time at which a packet of @cost_ns may leave; 0 if it always could.
 */
static inline u64 bpshaper_bucket_ready_ns(const struct bpshaper_bucket *b,
					   u64 cost_ns)
{
	u64 slack = b->burst_ns - min(cost_ns, b->burst_ns);

	return b->tat_ns > slack ? b->tat_ns - slack : 0;
}

/* May a packet of @bytes leave at @now? */
static inline bool bpshaper_bucket_conforms(const struct bpshaper_bucket *b,
					    const struct bpshaper_rate *r,
					    u32 bytes, u64 now)
{
	return b->tat_ns <= now ||
	       bpshaper_bucket_ready_ns(b, bpshaper_rate_cost_ns(r, bytes)) <=
	       now;
}

/* Charge @bytes, which conform, for leaving at @now. The fraction starts at all
 * ones after the bucket was full, so that the sum of all costs since then is
 * rounded up.
 */
static inline void bpshaper_bucket_charge(struct bpshaper_bucket *b,
					  const struct bpshaper_rate *r,
					  u32 bytes, u64 now)
{
	u64 units = bytes * r->mult;

	if (b->tat_ns <= now) {
		b->tat_ns = now;
		b->frac = bpshaper_rate_frac_mask(r);
	}
	units += b->frac;
	b->tat_ns += units >> r->shift;
	b->frac = units & bpshaper_rate_frac_mask(r);
}

/* Take the tokens for @bytes that leave at @now; false if there are too few. */
static inline bool bpshaper_bucket_take(struct bpshaper_bucket *b,
					const struct bpshaper_rate *r,
					u32 bytes, u64 now)
{
	if (!bpshaper_bucket_conforms(b, r, bytes, now))
		return false;
	bpshaper_bucket_charge(b, r, bytes, now);
	return true;
}

/* Bytes that may be granted at @now beside those that are, if the burst were
 * @burst_ns; negative if fewer should be.
 */
static s64 bpshaper_bucket_room(const struct bpshaper_bucket *b,
				const struct bpshaper_rate *r, u64 burst_ns,
				u64 now)
{
	u64 taken_ns = max(b->tat_ns, now) - now;
	u64 rest_ns = burst_ns - min(burst_ns, taken_ns);

	return (s64)bpshaper_rate_bytes(r, rest_ns) - b->out;
}

/* Of the bytes granted @bytes were sent at @now or before. */
static void bpshaper_bucket_settle(struct bpshaper_bucket *b,
				   const struct bpshaper_rate *r, u32 bytes,
				   u64 now)
{
	bpshaper_bucket_charge(b, r, bytes, now);
	b->out -= bytes;
}

/* Reservations: how several qdiscs share a bucket without a lock.
 *
 * The members of a group share one word, the theoretical arrival time `tat` of
 * their bucket (rate.h). A member reserves an interval of the
 * bucket's time by moving `tat` ahead with compare and swap. Intervals never
 * overlap and are handed out in the order of asking. A member that has to wait
 * asks before it sleeps, for all that it will send when it wakes; so each has
 * its portion.
 *
 * The law for the sum of all N members: let the burst be B = W + N * L (as
 * time). A packet for which a member has reserved [s, s + cost) leaves at `now`
 * only if
 *
 *	s + cost - now <= W		it is not early, and
 *	now - s <= L			it is not too late: older time is lost.
 *
 * The intervals of what leaves in a period [t, t + T] end before t + T + W. Of
 * them, at most T + W lies after t, because intervals do not overlap. What lies
 * before t was asked for before t by a member that held it at t, and each
 * member may hold L: N * L in all. The sum is T + W + N * L = T + B. (W is N ns
 * less, as each member may owe a fraction of a ns.)
 *
 * Nothing here knows a qdisc or reads a clock, so that the host's unit test can
 * include this file. The root lock of the member's qdisc protects its
 * reservation.
 */

/* A `tat` that means "closed": no member may send or ask. */
#define BPSHAPER_BUCKET_CLOSED	S64_MAX

/**
 * struct bpshaper_interval - an interval of the bucket's time
 * @end_ns: its end, CLOCK_MONOTONIC
 * @left_ns: what is left of it, just before @end_ns
 */
struct bpshaper_interval {
	u64	end_ns;
	u64	left_ns;
};

/**
 * struct bpshaper_reservation - what a member of a group holds of the bucket
 * @last: the interval that it asked for last
 * @rest: what is left of all earlier intervals, taken to be as old as the
 *	oldest
 * @rest_due_ns: end of the youngest of these
 * @frac: what the last cost left below one ns, in units of 2^-shift ns
 * @window_ns: W, how long before its interval a packet may leave
 * @late_ns: L, how much of what it holds may lie in the past
 * @whole_ns: a packet that costs more keeps its interval, however late it is
 * @short_bytes: bytes that the last portion was short of a batch
 */
struct bpshaper_reservation {
	struct bpshaper_interval	last;
	struct bpshaper_interval	rest;
	u64				rest_due_ns;
	u64				frac;
	u64				window_ns;
	u64				late_ns;
	u64				whole_ns;
	u32				short_bytes;
};

/* Derive W and L for a bucket of @burst bytes with @members, each of which may
 * be late by a packet of @late bytes. Packets of whole_ns, one of each member,
 * fill half of W: a packet that costs no more loses its interval only if it is
 * later than the other half. Return false if the burst is too small for @late;
 * L is less then, and the law holds all the same.
 */
static bool bpshaper_reservation_set(struct bpshaper_reservation *s,
				     const struct bpshaper_rate *r, u32 burst,
				     u32 late, u32 members)
{
	u64 burst_ns = div64_u64((u64)burst * NSEC_PER_SEC, r->Bps), taken_ns;
	u64 cost_ns = bpshaper_rate_cost_ns(r, late), most_ns;

	burst_ns -= min_t(u64, members, burst_ns);
	most_ns = div64_u64(burst_ns, members + 1);
	s->late_ns = min(cost_ns, most_ns);
	taken_ns = members * s->late_ns;
	s->window_ns = burst_ns - taken_ns;
	s->whole_ns = max(s->late_ns, div64_u64(s->window_ns / 2, members));
	return cost_ns <= most_ns;
}

static inline u64
bpshaper_reservation_held_ns(const struct bpshaper_reservation *s)
{
	return s->rest.left_ns + s->last.left_ns;
}

/* Give up what lies more than @late_ns before @now; nobody else gets it. Return
 * how much more may lie in the past.
 */
static u64 bpshaper_interval_expire(struct bpshaper_interval *p, u64 late_ns,
				    u64 now)
{
	u64 ahead_ns = p->end_ns - min(now, p->end_ns);

	p->left_ns = min(p->left_ns, ahead_ns + late_ns);
	return late_ns - (p->left_ns - min(p->left_ns, ahead_ns));
}

/* Expire what is too late for a packet of @cost_ns. A packet above whole_ns
 * keeps its interval however late it is, or a member that is always late would
 * never send it; the law then holds with its cost in the place of L.
 */
static void bpshaper_reservation_expire(struct bpshaper_reservation *s,
					u64 cost_ns, u64 now)
{
	u64 late_ns = cost_ns > s->whole_ns ? cost_ns : s->late_ns;

	late_ns = bpshaper_interval_expire(&s->rest, late_ns, now);
	bpshaper_interval_expire(&s->last, late_ns, now);
}

/* When the first @cost_ns of what the member holds may leave. A cost above W
 * may leave when its interval begins.
 */
static u64 bpshaper_reservation_ready_ns(const struct bpshaper_reservation *s,
					 u64 cost_ns)
{
	u64 end_ns, ahead_ns = max(cost_ns, s->window_ns);

	if (cost_ns <= s->rest.left_ns)
		end_ns = s->rest_due_ns - (s->rest.left_ns - cost_ns);
	else
		end_ns = s->last.end_ns -
			 (bpshaper_reservation_held_ns(s) - cost_ns);
	return end_ns - min(ahead_ns, end_ns);
}

/* Reserve @least_ns if that may leave at once. Otherwise reserve @most_ns and
 * return true: the member has to wait. While the bucket is closed, reserve
 * nothing and return false.
 */
static bool bpshaper_reservation_ask(struct bpshaper_reservation *s,
				     atomic64_t *tat_ns, u64 least_ns,
				     u64 most_ns, u64 now)
{
	s64 old = atomic64_read(tat_ns);
	u64 base_ns, asked_ns;
	bool has_to_wait;

	do {
		if (old == BPSHAPER_BUCKET_CLOSED)
			return false;
		base_ns = max_t(u64, old, now);
		has_to_wait = base_ns + least_ns > now + s->window_ns;
		asked_ns = has_to_wait ? most_ns : least_ns;
	} while (!atomic64_try_cmpxchg(tat_ns, &old, base_ns + asked_ns));

	if (!s->rest.left_ns)
		s->rest.end_ns = s->last.end_ns;
	s->rest_due_ns = s->last.end_ns;
	s->rest.left_ns += s->last.left_ns;
	s->last.end_ns = base_ns + asked_ns;
	s->last.left_ns = asked_ns;
	return has_to_wait;
}

/* The bytes of a portion: @batch and what the last one was short of it, as in
 * deficit round robin, because a portion is whole packets. At most @backlog.
 */
static u32 bpshaper_reservation_portion(const struct bpshaper_reservation *s,
					u32 batch, u32 backlog)
{
	return min_t(u64, (u64)batch + s->short_bytes, backlog);
}

/* Cost of @bytes after all that was sent before, rounded down: fractions add
 * up.
 */
static inline u64
bpshaper_reservation_cost_ns(const struct bpshaper_reservation *s,
			     const struct bpshaper_rate *r, u32 bytes)
{
	return (bytes * r->mult + s->frac) >> r->shift;
}

/* Ask for what is missing for a packet of @bytes. If that means waiting, ask
 * for a whole portion: as many such packets as @portion and what is held are
 * enough for.
 */
static void bpshaper_reservation_ask_all(struct bpshaper_reservation *s,
					 atomic64_t *tat_ns,
					 const struct bpshaper_rate *r,
					 u32 bytes, u32 portion, u64 now)
{
	u64 held_ns = bpshaper_reservation_held_ns(s);
	u32 held = held_ns ? bpshaper_rate_bytes(r, held_ns) : 0;
	u32 sum = portion + held;
	u32 all = max(sum - sum % max(bytes, 1U), bytes);
	u64 least_ns = bpshaper_reservation_cost_ns(s, r, bytes) - held_ns;
	u64 most_ns = bpshaper_reservation_cost_ns(s, r, all) - held_ns;

	if (bpshaper_reservation_ask(s, tat_ns, least_ns, most_ns, now))
		s->short_bytes = portion - min(portion, all - min(held, all));
}

/* Take the time of @bytes that leave at @now. Return false if they may not
 * leave yet; the member then holds enough for a portion, and for this packet at
 * least, unless the bucket is closed.
 */
static bool bpshaper_reservation_take(struct bpshaper_reservation *s,
				      atomic64_t *tat_ns,
				      const struct bpshaper_rate *r, u32 bytes,
				      u32 portion, u64 now)
{
	u64 cost_ns = bpshaper_reservation_cost_ns(s, r, bytes), rest_ns;

	bpshaper_reservation_expire(s, cost_ns, now);
	if (bpshaper_reservation_held_ns(s) < cost_ns)
		bpshaper_reservation_ask_all(s, tat_ns, r, bytes, portion,
					     now);
	if (bpshaper_reservation_held_ns(s) < cost_ns ||
	    bpshaper_reservation_ready_ns(s, cost_ns) > now)
		return false;

	rest_ns = min(cost_ns, s->rest.left_ns);
	s->rest.left_ns -= rest_ns;
	s->last.left_ns -= cost_ns - rest_ns;
	s->frac = (bytes * r->mult + s->frac) & bpshaper_rate_frac_mask(r);
	return true;
}

/* The member has nothing to send. Return the rest of its last interval if no
 * member has asked since; otherwise the member may still use it until it is too
 * late.
 */
static void bpshaper_reservation_return(struct bpshaper_reservation *s,
					atomic64_t *tat_ns)
{
	s64 end_ns = s->last.end_ns;

	if (s->last.left_ns &&
	    atomic64_try_cmpxchg(tat_ns, &end_ns, end_ns - s->last.left_ns))
		s->last.left_ns = 0;
}

/* Trees by time, or by something else that grows.
 *
 * It wraps: the later one is less than half of the range ahead.
 */

/**
 * struct bpshaper_tag - a place in a tree
 * @node: in the tree
 * @at: what the tree is ordered by
 */
struct bpshaper_tag {
	struct rb_node	node;
	u64		at;
};

static inline bool bpshaper_tag_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* The first of the tree; NULL if there is none. */
static inline struct bpshaper_tag *
bpshaper_tag_first(const struct rb_root_cached *root)
{
	struct rb_node *first = rb_first_cached(root);

	return first ? rb_entry(first, struct bpshaper_tag, node) : NULL;
}

/* Where the tag belongs in the tree; return whether it is the first. */
static bool bpshaper_tag_place(struct rb_root_cached *root,
			       struct bpshaper_tag *tag)
{
	struct rb_node **p = &root->rb_root.rb_node, *parent = NULL;
	bool is_first = true;

	while (*p) {
		parent = *p;
		if (bpshaper_tag_before(tag->at,
					rb_entry(parent, struct bpshaper_tag,
						 node)->at)) {
			p = &parent->rb_left;
		} else {
			p = &parent->rb_right;
			is_first = false;
		}
	}
	rb_link_node(&tag->node, parent, p);
	return is_first;
}

/* Put the tag into the tree, behind those that are equal; return whether it is
 * the first.
 */
static bool bpshaper_tag_link(struct rb_root_cached *root,
			      struct bpshaper_tag *tag)
{
	bool is_first = bpshaper_tag_place(root, tag);

	rb_insert_color_cached(&tag->node, root, is_first);
	return is_first;
}

#endif /* _BPSHAPER_RATE_H */
