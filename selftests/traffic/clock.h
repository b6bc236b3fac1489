/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPTRAFFIC_CLOCK_H
#define BPTRAFFIC_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_NS_PER_US		1000ULL
#define CLOCK_NS_PER_MS		1000000ULL
#define CLOCK_NS_PER_S		1000000000ULL

static inline uint64_t clock_from_timespec(const struct timespec *ts)
{
	return (uint64_t)ts->tv_sec * CLOCK_NS_PER_S + (uint64_t)ts->tv_nsec;
}

static inline uint64_t clock_read(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return clock_from_timespec(&ts);
}

/* CLOCK_MONOTONIC: what every time in this program means. */
static inline uint64_t clock_now_ns(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

void clock_sleep_until(uint64_t when_ns);

/*
 * The kernel stamps received packets with CLOCK_REALTIME. Returns what must be
 * subtracted from such a stamp.
 */
int64_t clock_realtime_offset_ns(void);

#endif
