/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPTRAFFIC_SYSTEM_H
#define BPTRAFFIC_SYSTEM_H

#include <stdint.h>

/* Counters of the whole machine. Negative: unknown to this kernel. */
struct system_counters {
	int64_t context_switches;
	int64_t timer_interrupts;
	/*
	 * Packets that found the receiving CPU's backlog full, behind the
	 * shaper and before any socket: net.core.netdev_max_backlog.
	 */
	int64_t backlog_drops;
	/* CPU time that was not idle; known if there is one CPU. */
	int64_t busy_ns;
};

void system_read(struct system_counters *now);

/* @later minus @earlier, unknown if either is. */
struct system_counters system_since(const struct system_counters *earlier,
				    const struct system_counters *later);

#endif
