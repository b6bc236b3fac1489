/* SPDX-License-Identifier: GPL-2.0-only */
/* Histograms of times, with the buckets of the uAPI. */
#ifndef _BPSHAPER_HIST_H
#define _BPSHAPER_HIST_H

/**
 * struct bpshaper_hist - a histogram of times
 * @counts: histogram bucket 0 counts times below 1024 ns, bucket i those from
 *	2^(i + 9) ns to less than twice that, the last one all longer ones, too
 */
struct bpshaper_hist {
	u64	counts[TC_BPSHAPER_HIST_BUCKETS];
};

static inline void bpshaper_hist_add(struct bpshaper_hist *h, u64 ns)
{
	h->counts[min(fls64(ns >> 10), TC_BPSHAPER_HIST_BUCKETS - 1)]++;
}

static void bpshaper_hist_merge(struct bpshaper_hist *to,
				const struct bpshaper_hist *from)
{
	int i;

	for (i = 0; i < TC_BPSHAPER_HIST_BUCKETS; i++)
		to->counts[i] += from->counts[i];
}

#endif /* _BPSHAPER_HIST_H */
