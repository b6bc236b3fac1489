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
	if (!Bps || Bps == TC_BPSHAPER_RATE_UNLIMITED)
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

/* Bytes that @Bps sends in @ns, rounded down, at most U32_MAX. The product is
 * split so that neither half overflows. Slow path.
 */
static u32 bpshaper_Bps_bytes(u64 Bps, u64 ns)
{
	u64 secs, rest, bytes;

	secs = div64_u64_rem(ns, NSEC_PER_SEC, &rest);
	if (secs && Bps > div64_u64(U32_MAX, secs))
		return U32_MAX;
	/* rest < 2^30 ns and Bps <= 2^43: divide first what exceeds 2^33 */
	if (Bps >> 33)
		bytes = div64_u64(Bps, 1000) * rest;
	else
		bytes = div64_u64(Bps * rest, 1000);
	bytes = div64_u64(bytes, NSEC_PER_SEC / 1000) + secs * Bps;
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

/* Bytes that may be granted at @now beside those that are; negative if fewer
 * should be.
 */
static s64 bpshaper_bucket_room(const struct bpshaper_bucket *b,
				const struct bpshaper_rate *r, u64 now)
{
	u64 taken_ns = max(b->tat_ns, now) - now;
	u64 rest_ns = b->burst_ns - min(b->burst_ns, taken_ns);

	return (s64)bpshaper_Bps_bytes(r->Bps, rest_ns) - b->out;
}

/* Of the bytes granted @bytes were sent at @now or before. */
static void bpshaper_bucket_settle(struct bpshaper_bucket *b,
				   const struct bpshaper_rate *r, u32 bytes,
				   u64 now)
{
	bpshaper_bucket_charge(b, r, bytes, now);
	b->out -= bytes;
}

/* Trees by time, or by something else that grows.
 *
 * It wraps: the later one is less than half of the range ahead.
 */

/* Who joins makes up for so many packets, and gets as many at a time at least.
 * With one, each takes a timer of its own; with four, others wait for them.
 */
#define BPSHAPER_CREDIT_PKTS	2

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

/* Put the tag into the tree, behind those that it is not @before; return
 * whether it is the first.
 */
static inline bool
bpshaper_tag_link_by(struct rb_root_cached *root, struct bpshaper_tag *tag,
		     bool (*before)(const struct bpshaper_tag *a,
				    const struct bpshaper_tag *b))
{
	struct rb_node **p = &root->rb_root.rb_node, *parent = NULL;
	bool is_first = true;

	while (*p) {
		parent = *p;
		if (before(tag, rb_entry(parent, struct bpshaper_tag, node))) {
			p = &parent->rb_left;
		} else {
			p = &parent->rb_right;
			is_first = false;
		}
	}
	rb_link_node(&tag->node, parent, p);
	rb_insert_color_cached(&tag->node, root, is_first);
	return is_first;
}

static inline bool bpshaper_tag_is_earlier(const struct bpshaper_tag *a,
					   const struct bpshaper_tag *b)
{
	return bpshaper_tag_before(a->at, b->at);
}

/* The same, behind those that are equal. */
static bool bpshaper_tag_link(struct rb_root_cached *root,
			      struct bpshaper_tag *tag)
{
	return bpshaper_tag_link_by(root, tag, bpshaper_tag_is_earlier);
}

#endif /* _BPSHAPER_RATE_H */
