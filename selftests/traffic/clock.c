// SPDX-License-Identifier: GPL-2.0-only
#include "clock.h"

#define CLOCK_OFFSET_TRIES	16

/* May return early, on a signal: callers look at the clock again. */
void clock_sleep_until(uint64_t when_ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(when_ns / CLOCK_NS_PER_S),
		.tv_nsec = (long)(when_ns % CLOCK_NS_PER_S),
	};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

/*
 * An interrupt between two readings shifts the result by its length, so the
 * tightest of several samples counts.
 */
int64_t clock_realtime_offset_ns(void)
{
	uint64_t tightest_ns = UINT64_MAX;
	int64_t offset_ns = 0;
	int i;

	for (i = 0; i < CLOCK_OFFSET_TRIES; i++) {
		uint64_t before_ns = clock_now_ns();
		uint64_t real_ns = clock_read(CLOCK_REALTIME);
		uint64_t width_ns = clock_now_ns() - before_ns;

		if (width_ns >= tightest_ns)
			continue;
		tightest_ns = width_ns;
		offset_ns = (int64_t)(real_ns - before_ns - width_ns / 2);
	}
	return offset_ns;
}
