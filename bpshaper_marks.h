/* SPDX-License-Identifier: GPL-2.0-only */
/* Marks: which packets get CE?
 *
 * By default the probability of a mark is the square of what a
 * proportional-integral controller keeps, PI2 (De Schepper et al. 2016; RFC
 * 9332, A.1): it rises while packets wait longer than the target, or longer
 * than before, and falls while they do not. A leaf has one controller, which
 * counts packets that may be marked, so others cannot raise it. Packets that
 * wait very long are marked in any case. With ce_threshold there is nothing but
 * that threshold.
 *
 * A mark follows from the wait of a packet and of its socket before it
 * (bpshaper_throttle.h).
 */
#ifndef _BPSHAPER_MARKS_H
#define _BPSHAPER_MARKS_H

#define BPSHAPER_MARKS_PERIOD_NS	(16 * NSEC_PER_MSEC)
#define BPSHAPER_MARKS_IDLE_NS		(10 * BPSHAPER_MARKS_PERIOD_NS)
#define BPSHAPER_MARKS_LIMIT_MAX_NS	(10ULL * NSEC_PER_SEC)

/* Gains of a period, 2^-32 for each ns: 0.1 * period / RTT^2 and 0.3 / RTT (RFC
 * 9332, A.1) with a round trip of 25 ms.
 */
#define BPSHAPER_MARKS_ALPHA	11
#define BPSHAPER_MARKS_BETA	52

/**
 * struct bpshaper_marks - which packets of a leaf are marked
 * @threshold_ns: all that have waited longer
 * @floor_ns: none that has not
 * @target_ns: the wait in between that is aimed at; 0: with ce_threshold
 * @start_ns: when the period began, CLOCK_MONOTONIC
 * @sum_ns: waits in it, up to @threshold_ns each
 * @packets: their number
 * @mean_ns: the mean wait in the period before
 * @root: square root of the probability, in 2^-32
 */
struct bpshaper_marks {
	u64	threshold_ns;
	u64	floor_ns;
	u64	target_ns;
	u64	start_ns;
	u64	sum_ns;
	u64	mean_ns;
	u32	packets;
	u32	root;
};

/* The limit of the leaf takes @limit_ns. */
static void bpshaper_marks_configure(struct bpshaper_marks *m,
				     u64 ce_threshold_ns, u64 limit_ns)
{
	limit_ns = min(limit_ns, BPSHAPER_MARKS_LIMIT_MAX_NS);
	m->threshold_ns = ce_threshold_ns ?: limit_ns + limit_ns / 2;
	m->floor_ns = ce_threshold_ns ?: limit_ns / 4;
	m->target_ns = ce_threshold_ns ? 0 : limit_ns / 2;
	if (ce_threshold_ns)
		m->root = 0;
}

static void bpshaper_marks_end_period(struct bpshaper_marks *m, u64 now)
{
	s64 mean_ns = div_u64(m->sum_ns, m->packets), root = m->root;

	root += BPSHAPER_MARKS_ALPHA * (mean_ns - (s64)m->target_ns) +
		BPSHAPER_MARKS_BETA * (mean_ns - (s64)m->mean_ns);
	if (now - m->start_ns > BPSHAPER_MARKS_IDLE_NS)
		root = 0;
	m->root = clamp_t(s64, root, 0, U32_MAX);
	m->mean_ns = mean_ns;
	m->start_ns = now;
	m->sum_ns = 0;
	m->packets = 0;
}

/* Is a packet that waited @wait_ns not marked, whatever it is, and needs not be
 * counted? Then nobody has to look at it.
 */
static inline bool bpshaper_marks_pass(const struct bpshaper_marks *m,
				       u64 wait_ns)
{
	return wait_ns <= m->floor_ns && !m->root;
}

/* A packet that may be marked leaves after @wait_ns: is it to be? */
static bool bpshaper_marks_decide(struct bpshaper_marks *m, u64 wait_ns,
				  u64 now)
{
	if (m->target_ns) {
		m->sum_ns += min(wait_ns, m->threshold_ns);
		m->packets++;
		if (now - m->start_ns > BPSHAPER_MARKS_PERIOD_NS)
			bpshaper_marks_end_period(m, now);
	}
	if (wait_ns > m->threshold_ns)
		return true;
	return wait_ns > m->floor_ns &&
	       (u64)m->root * m->root >> 32 > get_random_u32();
}

#endif /* _BPSHAPER_MARKS_H */
