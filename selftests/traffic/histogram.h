/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPTRAFFIC_HISTOGRAM_H
#define BPTRAFFIC_HISTOGRAM_H

#include <stdint.h>

/*
 * Log-linear: 1024 buckets for each doubling, so a bucket is at most 1/1024 of
 * its value wide and its middle is wrong by at most 0.05 %. Values below 2048
 * are exact; values from 2^HISTOGRAM_MAX_BITS on share the last bucket (the
 * maximum is kept exactly all the same).
 */
#define HISTOGRAM_SUB_BITS	10
#define HISTOGRAM_MAX_BITS	40
#define HISTOGRAM_BUCKETS \
	((HISTOGRAM_MAX_BITS - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS)

struct histogram {
	uint64_t count;
	uint64_t max;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t value);

/* Nearest rank; 0 if empty. @percent in 0..100. */
uint64_t histogram_percentile(const struct histogram *h, double percent);

#endif
