/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPTRAFFIC_PROCESS_H
#define BPTRAFFIC_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "traffic.h"

/* What a child does; it exits 0 by returning. */
typedef void process_role(struct traffic *t, uint32_t index);

struct process {
	pid_t pid;		/* 0: reaped */
	bool is_sender;		/* told to stop when sending is over */
	bool is_failed;		/* ended otherwise than by exit status 0 */
};

struct process_table {
	struct process *processes;
	uint32_t count;
	uint32_t capacity;
};

bool process_table_init(struct process_table *table, uint32_t capacity);

/* false with errno if fork() failed. The child dies with its parent. */
bool process_fork(struct process_table *table, struct traffic *t,
		  process_role *role, uint32_t index, bool is_sender);

/* Reap what has ended, without waiting. How many senders, or sinks, live? */
uint32_t process_reap(struct process_table *table, bool is_sender);
uint32_t process_count_failed(const struct process_table *table);

void process_signal_senders(const struct process_table *table, int signal);
void process_kill_all(struct process_table *table);

/* Run before all that is not ours: never be the bottleneck. */
void process_raise_priority(void);

/* Let SIGALRM end a sleep in a system call, without ending the process. */
void process_catch_alarm(void);

/* For children: a line with @what, @value and errno on stderr, exit status 1. */
__attribute__((noreturn))
void process_fail(const char *what, const char *value);

#endif
