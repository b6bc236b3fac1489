/* SPDX-License-Identifier: GPL-2.0-only */
/* The bucket: when may the next packet leave?
 *
 * The generic cell rate algorithm (GCRA, ITU-T I.371, the virtual scheduling
 * form). The whole state is one time, the theoretical arrival time `tat`: when
 * the line would be free if everything that left had been sent at exactly the
 * configured rate. A packet whose transmission takes `cost` may leave at `now`
 * if
 *
 *	max(tat, now) + cost - now <= burst		(all in ns)
 *
 * and tat then becomes max(tat, now) + cost. From this follows the law of the
 * shaper: in any window of T ns no more leaves than rate * (burst + T).
 *
 * A packet that costs more than the whole burst may leave once the bucket is
 * full (tat <= now) and puts it into debt; the law then holds with the cost of
 * that packet in the place of burst.
 *
 * Nothing here knows a qdisc or reads a clock: `now` is an argument, which also
 * lets the host's unit test include this file. The caller serialises.
 *
 * A shared bucket has many callers and no lock: `tat` is all that they share, and a
 * member takes its part of the line by moving `tat` ahead (compare and swap). A part is
 * an interval of the line's time; no two overlap, and they are handed out in order of
 * asking. A member that has to wait asks before it sleeps, for as much as it will send
 * when it wakes, and so has its turn.
 *
 * The law, for the sum of all N members: let the burst be B = W + N * L (as time), and
 * let a packet that occupies [s, s + cost) of the line leave at `now` only if
 *
 *	s + cost - now <= W		none is early, and
 *	now - s <= L			for what a member holds: what is older is forfeit.
 *
 * What leaves in a window [t, t + T] lies in the line before t + T + W. What of it lies
 * after t is at most T + W, as intervals do not overlap. What lies before t was asked for
 * before t by a member that held it at t, and each may hold L: N * L in all. The sum is
 * T + W + N * L = T + B. (Each member may owe a fraction of a ns: W is N ns less.)
 */
#ifndef _BPSHAPER_BUCKET_H
#define _BPSHAPER_BUCKET_H

/**
 * struct bpshaper_rate - a rate, as the time that a byte takes
 * @Bps: bytes per second; 0 is unlimited, and then nothing has a cost
 * @mult: time of a byte in units of 2^-shift ns, rounded up; 2^31 to 2^32, so
 *	the rate is never exceeded and missed by less than 1 in 2^31
 * @shift: binary places of @mult, 2 to 44 for the rates the uAPI allows
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
 */
struct bpshaper_bucket {
	u64	tat_ns;
	u64	frac;
	u64	burst_ns;
};

/* Long division by hand: 10^9 << 44 does not fit 64 bits. */
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

/* Bytes that the rate sends in @ns, rounded down, at most U32_MAX. Slow path:
 * the product is split so that neither half overflows.
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

/* An empty bucket, so that no sequence of changes lets more out than the rate;
 * what it owed beyond the new burst is forgiven, so that a change to a faster
 * rate takes effect at once.
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

/* Earliest time at which a packet of @cost_ns may leave; 0 is "always could". */
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

/* Account for @bytes that leave at @now, and conform. The fraction starts
 * at all ones after the bucket was full, so that the sum of all costs since then
 * is rounded up.
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

/* A shared bucket */

/* For ever: nobody may leave, nor ask. */
#define BPSHAPER_LINE_CLOSED	S64_MAX

/**
 * struct bpshaper_part - an interval of the line's time, or what is left of it
 * @end_ns: its end, CLOCK_MONOTONIC
 * @left_ns: what is left, just before @end_ns
 */
struct bpshaper_part {
	u64	end_ns;
	u64	left_ns;
};

/**
 * struct bpshaper_slot - what a member of a shared bucket holds
 * @last: the interval that it asked for last
 * @rest: what was left of all before, as old as the oldest
 * @rest_due_ns: end of the youngest of these
 * @frac: what the last cost left below one ns, in units of 2^-shift ns
 * @window_ns: W, how far ahead of its place in the line a packet may leave
 * @late_ns: L, how much may be behind its place
 * @whole_ns: a packet that costs more may be late as a whole
 * @credit: bytes that the last turn was short of a batch
 */
struct bpshaper_slot {
	struct bpshaper_part	last;
	struct bpshaper_part	rest;
	u64			rest_due_ns;
	u64			frac;
	u64			window_ns;
	u64			late_ns;
	u64			whole_ns;
	u32			credit;
};

/* For a bucket of @burst bytes with @members, each of which may be late with @late
 * bytes, a packet. What is left is the window. Larger packets of all members fill half
 * of it, so that one loses its place only if it is later than the other half. If the burst
 * does not hold as much and a packet more, a member may be late with less, and the law
 * still holds: false.
 */
static bool bpshaper_slot_set(struct bpshaper_slot *s,
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

static inline u64 bpshaper_slot_held_ns(const struct bpshaper_slot *s)
{
	return s->rest.left_ns + s->last.left_ns;
}

/* @late_ns of it may be behind @now, and the rest is lost to all; returns how much more
 * may be.
 */
static u64 bpshaper_part_expire(struct bpshaper_part *p, u64 late_ns, u64 now)
{
	u64 ahead_ns = p->end_ns - min(now, p->end_ns);

	p->left_ns = min(p->left_ns, ahead_ns + late_ns);
	return late_ns - (p->left_ns - min(p->left_ns, ahead_ns));
}

/* Before a packet of @cost_ns. One larger than ever there should be would else lose its
 * place for ever, if its member is always late: the law holds with its cost in the
 * place of L.
 */
static void bpshaper_slot_expire(struct bpshaper_slot *s, u64 cost_ns, u64 now)
{
	u64 late_ns = cost_ns > s->whole_ns ? cost_ns : s->late_ns;

	late_ns = bpshaper_part_expire(&s->rest, late_ns, now);
	bpshaper_part_expire(&s->last, late_ns, now);
}

/* When the first @cost_ns of what the member holds may leave. More than the window
 * leaves when its place has come.
 */
static u64 bpshaper_slot_ready_ns(const struct bpshaper_slot *s, u64 cost_ns)
{
	u64 end_ns, ahead_ns = max(cost_ns, s->window_ns);

	if (cost_ns <= s->rest.left_ns)
		end_ns = s->rest_due_ns - (s->rest.left_ns - cost_ns);
	else
		end_ns = s->last.end_ns - (bpshaper_slot_held_ns(s) - cost_ns);
	return end_ns - min(ahead_ns, end_ns);
}

/* Ask for a part of the line: @least_ns if that may leave at once, else @most_ns, and
 * true.
 */
static bool bpshaper_slot_ask(struct bpshaper_slot *s, atomic64_t *tat_ns,
			      u64 least_ns, u64 most_ns, u64 now)
{
	s64 old = atomic64_read(tat_ns);
	u64 base_ns, part_ns;
	bool has_to_wait;

	do {
		if (old == BPSHAPER_LINE_CLOSED)
			return false;
		base_ns = max_t(u64, old, now);
		has_to_wait = base_ns + least_ns > now + s->window_ns;
		part_ns = has_to_wait ? most_ns : least_ns;
	} while (!atomic64_try_cmpxchg(tat_ns, &old, base_ns + part_ns));

	if (!s->rest.left_ns)
		s->rest.end_ns = s->last.end_ns;
	s->rest_due_ns = s->last.end_ns;
	s->rest.left_ns += s->last.left_ns;
	s->last.end_ns = base_ns + part_ns;
	s->last.left_ns = part_ns;
	return has_to_wait;
}

/* The bytes to ask for of @batch, for a member with @backlog. A turn is whole packets, and
 * what it was short of that is for the next one, as in deficit round robin.
 */
static u32 bpshaper_slot_turn(const struct bpshaper_slot *s, u32 batch, u32 backlog)
{
	return min_t(u64, (u64)batch + s->credit, backlog);
}

/* What @bytes take after all that was taken before, rounded down: fractions add up. */
static inline u64 bpshaper_slot_cost_ns(const struct bpshaper_slot *s,
					const struct bpshaper_rate *r, u32 bytes)
{
	return (bytes * r->mult + s->frac) >> r->shift;
}

/* Ask for what is missing for a packet of @bytes, or for a turn: as many such packets as it
 * and what is held already are enough for.
 */
static void bpshaper_slot_ask_turn(struct bpshaper_slot *s, atomic64_t *tat_ns,
				   const struct bpshaper_rate *r, u32 bytes,
				   u32 turn, u64 now)
{
	u64 held_ns = bpshaper_slot_held_ns(s);
	u32 held = held_ns ? bpshaper_rate_bytes(r, held_ns) : 0;
	u32 all = max(turn + held - (turn + held) % max(bytes, 1U), bytes);

	if (bpshaper_slot_ask(s, tat_ns, bpshaper_slot_cost_ns(s, r, bytes) - held_ns,
			      bpshaper_slot_cost_ns(s, r, all) - held_ns, now))
		s->credit = turn - min(turn, all - min(held, all));
}

/* Take the time of @bytes that leave at @now. False if it is not theirs yet: then the
 * member holds enough for as many packets of that length as @turn bytes are, and for
 * this one at least, unless the line is closed.
 */
static bool bpshaper_slot_take(struct bpshaper_slot *s, atomic64_t *tat_ns,
			       const struct bpshaper_rate *r, u32 bytes,
			       u32 turn, u64 now)
{
	u64 cost_ns = bpshaper_slot_cost_ns(s, r, bytes), rest_ns;

	bpshaper_slot_expire(s, cost_ns, now);
	if (bpshaper_slot_held_ns(s) < cost_ns)
		bpshaper_slot_ask_turn(s, tat_ns, r, bytes, turn, now);
	if (bpshaper_slot_held_ns(s) < cost_ns ||
	    bpshaper_slot_ready_ns(s, cost_ns) > now)
		return false;

	rest_ns = min(cost_ns, s->rest.left_ns);
	s->rest.left_ns -= rest_ns;
	s->last.left_ns -= cost_ns - rest_ns;
	s->frac = (bytes * r->mult + s->frac) & bpshaper_rate_frac_mask(r);
	return true;
}

/* The member has nothing to send: what is left of its last interval is given back if
 * nobody has asked since. Else it may be used until it is too late.
 */
static void bpshaper_slot_return(struct bpshaper_slot *s, atomic64_t *tat_ns)
{
	s64 end_ns = s->last.end_ns;

	if (s->last.left_ns &&
	    atomic64_try_cmpxchg(tat_ns, &end_ns, end_ns - s->last.left_ns))
		s->last.left_ns = 0;
}

#endif /* _BPSHAPER_BUCKET_H */
