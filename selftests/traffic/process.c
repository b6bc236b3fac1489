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
#include "traffic.h"

#define PROCESS_KILL_MAX_NS	(5 * CLOCK_NS_PER_S)

static struct process {
	pid_t pid;		/* 0: reaped */
	bool is_sender;		/* told to stop when sending is over */
	bool is_failed;		/* ended otherwise than by exit status 0 */
} *processes;
static uint32_t processes_len;

bool process_init(uint32_t capacity)
{
	processes = calloc(capacity, sizeof(*processes));
	return processes;
}

bool process_fork(struct traffic *t, process_role *role, uint32_t index, bool is_sender)
{
	pid_t parent = getpid(), pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* The parent may have died before that took effect. */
		if (getppid() != parent)
			exit(1);
		role(t, index);
		exit(0);
	}
	if (pid > 0)
		processes[processes_len++] = (struct process){ pid, is_sender, false };
	return pid > 0;
}

uint32_t process_count(void)
{
	return processes_len;
}

uint32_t process_reap(bool is_sender)
{
	struct process *p;
	uint32_t alive = 0;
	int status;

	for (p = processes; p < processes + processes_len; p++) {
		if (p->pid && waitpid(p->pid, &status, WNOHANG) == p->pid) {
			p->pid = 0;
			p->is_failed = !WIFEXITED(status) || WEXITSTATUS(status);
		}
		alive += p->pid && p->is_sender == is_sender;
	}
	return alive;
}

uint32_t process_count_failed(void)
{
	uint32_t failed = 0, i;

	for (i = 0; i < processes_len; i++)
		failed += processes[i].is_failed;
	return failed;
}

void process_signal_senders(int signal)
{
	uint32_t i;

	for (i = 0; i < processes_len; i++)
		if (processes[i].pid && processes[i].is_sender)
			kill(processes[i].pid, signal);
}

void process_kill_all(void)
{
	uint64_t give_up_ns = clock_now_ns() + PROCESS_KILL_MAX_NS;
	uint32_t i;

	for (i = 0; i < processes_len; i++)
		if (processes[i].pid)
			kill(processes[i].pid, SIGKILL);
	/* A child survives only on a broken kernel. Do not hang then. */
	while (process_reap(true) + process_reap(false) && clock_now_ns() < give_up_ns)
		clock_sleep_until(clock_now_ns() + CLOCK_NS_PER_MS);
	for (i = 0; i < processes_len; i++)
		if (processes[i].pid)
			processes[i].is_failed = true;
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
	fprintf(stderr, "bptraffic: %s %s: %s\n", what, value, strerror(errno));
	exit(1);
}
