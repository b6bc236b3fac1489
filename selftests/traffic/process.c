// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "process.h"

#define PROCESS_KILL_MAX_NS	(5 * CLOCK_NS_PER_S)

bool process_table_init(struct process_table *table, uint32_t capacity)
{
	table->processes = calloc(capacity, sizeof(*table->processes));
	table->capacity = capacity;
	table->count = 0;
	return table->processes;
}

__attribute__((noreturn))
static void process_run(struct traffic *t, process_role *role, uint32_t index,
			pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The parent may have died before that took effect. */
	if (getppid() != parent)
		exit(1);
	role(t, index);
	exit(0);
}

bool process_fork(struct process_table *table, struct traffic *t,
		  process_role *role, uint32_t index, bool is_sender)
{
	pid_t parent = getpid();
	pid_t pid;

	if (table->count == table->capacity) {
		errno = ENOSPC;
		return false;
	}
	pid = fork();
	if (pid < 0)
		return false;
	if (!pid)
		process_run(t, role, index, parent);
	table->processes[table->count++] = (struct process){
		.pid = pid, .is_sender = is_sender,
	};
	return true;
}

static void process_reap_one(struct process *p)
{
	int status;

	if (!p->pid || waitpid(p->pid, &status, WNOHANG) != p->pid)
		return;
	p->pid = 0;
	p->is_failed = !WIFEXITED(status) || WEXITSTATUS(status);
}

uint32_t process_reap(struct process_table *table, bool is_sender)
{
	uint32_t alive = 0;
	uint32_t i;

	for (i = 0; i < table->count; i++) {
		struct process *p = &table->processes[i];

		process_reap_one(p);
		if (p->pid && p->is_sender == is_sender)
			alive++;
	}
	return alive;
}

uint32_t process_count_failed(const struct process_table *table)
{
	uint32_t failed = 0;
	uint32_t i;

	for (i = 0; i < table->count; i++)
		failed += table->processes[i].is_failed;
	return failed;
}

void process_signal_senders(const struct process_table *table, int signal)
{
	uint32_t i;

	for (i = 0; i < table->count; i++)
		if (table->processes[i].pid && table->processes[i].is_sender)
			kill(table->processes[i].pid, signal);
}

void process_kill_all(struct process_table *table)
{
	uint64_t give_up_ns = clock_now_ns() + PROCESS_KILL_MAX_NS;
	uint32_t i;

	for (i = 0; i < table->count; i++)
		if (table->processes[i].pid)
			kill(table->processes[i].pid, SIGKILL);
	/* A child survives only on a broken kernel. Do not hang then. */
	while (process_reap(table, true) + process_reap(table, false) &&
	       clock_now_ns() < give_up_ns)
		clock_sleep_until(clock_now_ns() + CLOCK_NS_PER_MS);
	for (i = 0; i < table->count; i++)
		if (table->processes[i].pid)
			table->processes[i].is_failed = true;
}

/* Real time if permitted, as root in a VM, else the best nice value. */
void process_raise_priority(void)
{
	struct sched_param param = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO, &param))
		setpriority(PRIO_PROCESS, 0, -20);
}

static void process_alarmed(int signal)
{
	(void)signal;
}

void process_catch_alarm(void)
{
	/* No SA_RESTART: the interrupted call returns EINTR. */
	struct sigaction action = { .sa_handler = process_alarmed };

	sigaction(SIGALRM, &action, NULL);
}

void process_fail(const char *what, const char *value)
{
	fprintf(stderr, "bptraffic: %s%s%s: %s\n", what, *value ? " " : "",
		value, strerror(errno));
	exit(1);
}
