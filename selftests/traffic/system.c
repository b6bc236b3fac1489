// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "system.h"

/* The sum of the numbers behind @label, up to the text behind them. */
static int64_t system_sum_line(const char *line)
{
	int64_t sum = 0;
	char *end;

	for (;;) {
		unsigned long long value = strtoull(line, &end, 10);

		if (end == line)
			return sum;
		sum += (int64_t)value;
		line = end;
	}
}

static int64_t system_find(const char *path, const char *label)
{
	size_t label_length = strlen(label);
	int64_t found = -1;
	char *line = NULL;
	size_t size = 0;
	FILE *file;

	file = fopen(path, "re");
	if (!file)
		return -1;
	while (found < 0 && getline(&line, &size, file) > 0) {
		const char *start = line + strspn(line, " ");

		if (!strncmp(start, label, label_length))
			found = system_sum_line(start + label_length);
	}
	free(line);
	fclose(file);
	return found;
}

/* The second hexadecimal column, one line for each CPU. */
static int64_t system_find_backlog_drops(void)
{
	unsigned int packets, drops;
	char *line = NULL;
	int64_t sum = 0;
	size_t size = 0;
	FILE *file;

	file = fopen("/proc/net/softnet_stat", "re");
	if (!file)
		return -1;
	while (getline(&line, &size, file) > 0)
		if (sscanf(line, "%x %x", &packets, &drops) == 2)
			sum += drops;
	free(line);
	fclose(file);
	return sum;
}

/*
 * The idle time in /proc/stat and /proc/uptime has steps of 10 ms. This one is
 * exact for a CPU that is not idle now, so it is right if there is one CPU.
 */
static int64_t system_find_busy(void)
{
	int64_t idle_ns;

	if (sysconf(_SC_NPROCESSORS_ONLN) != 1)
		return -1;
	idle_ns = system_find("/proc/timer_list", ".idle_sleeptime :");
	return idle_ns < 0 ? -1 : (int64_t)clock_now_ns() - idle_ns;
}

void system_read(struct system_counters *now)
{
	now->busy_ns = system_find_busy();
	now->context_switches = system_find("/proc/stat", "ctxt ");
	now->timer_interrupts = system_find("/proc/interrupts", "LOC:");
	now->backlog_drops = system_find_backlog_drops();
}

static int64_t system_delta(int64_t earlier, int64_t later)
{
	return earlier < 0 || later < 0 ? -1 : later - earlier;
}

struct system_counters system_since(const struct system_counters *earlier,
				    const struct system_counters *later)
{
	return (struct system_counters){
		.context_switches = system_delta(earlier->context_switches,
						 later->context_switches),
		.timer_interrupts = system_delta(earlier->timer_interrupts,
						 later->timer_interrupts),
		.backlog_drops = system_delta(earlier->backlog_drops,
					      later->backlog_drops),
		.busy_ns = system_delta(earlier->busy_ns, later->busy_ns),
	};
}
