// SPDX-License-Identifier: GPL-2.0-only
#include "histogram.h"

#define HISTOGRAM_SUB_COUNT	(1U << HISTOGRAM_SUB_BITS)

static unsigned int histogram_index(uint64_t value)
{
	unsigned int octave;

	if (value >> HISTOGRAM_MAX_BITS)
		return HISTOGRAM_BUCKETS - 1;
	if (value < HISTOGRAM_SUB_COUNT)
		return (unsigned int)value;

	/* The leading 1 bit of the mantissa adds one octave to the index. */
	octave = 63 - HISTOGRAM_SUB_BITS - (unsigned int)__builtin_clzll(value);
	return (octave << HISTOGRAM_SUB_BITS) + (unsigned int)(value >> octave);
}

static uint64_t histogram_middle(unsigned int index)
{
	unsigned int octave;
	uint64_t mantissa;

	if (index < 2 * HISTOGRAM_SUB_COUNT)
		return index;
	octave = (index >> HISTOGRAM_SUB_BITS) - 1;
	mantissa = index - (octave << HISTOGRAM_SUB_BITS);
	return (mantissa << octave) + ((1ULL << octave) >> 1);
}

void histogram_add(struct histogram *h, uint64_t value)
{
	h->buckets[histogram_index(value)]++;
	h->count++;
	if (value > h->max)
		h->max = value;
}

uint64_t histogram_percentile(const struct histogram *h, double percent)
{
	double wanted = percent / 100 * (double)h->count;
	uint64_t seen = 0;
	unsigned int i;

	for (i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t middle;

		seen += h->buckets[i];
		if (!seen || (double)seen < wanted)
			continue;
		middle = histogram_middle(i);
		return middle < h->max ? middle : h->max;
	}
	return h->max;
}
