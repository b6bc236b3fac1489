// SPDX-License-Identifier: GPL-2.0-only
/*
 * bptraffic: send traffic through a shaper and measure its fate.
 *
 *   tx netns                                     rx netns
 *   senders (--udp, by --mode) -- shaper -- ... -- sink
 *   probe (--probe)            --  here  -- ... --  "
 *   TCP writers (--tcp)        --        -- ... -- TCP reader
 *
 * All are processes of one machine, so one clock tells one-way delays and a
 * shared mapping holds all counters. Life of a run:
 *
 *   sinks open; senders open; all wait at a barrier; common start;
 *   --seconds of sending; senders are told to stop, and taken out of a sleep
 *   in a system call by SIGALRM; the sinks wait for what is on its way; report.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "options.h"
#include "probe.h"
#include "process.h"
#include "report.h"
#include "sender.h"
#include "sink.h"
#include "system.h"
#include "tcp.h"
#include "traffic.h"

#define MAIN_POLL_NS		(10 * CLOCK_NS_PER_MS)
#define MAIN_READY_MAX_NS	(20 * CLOCK_NS_PER_S)
#define MAIN_STUCK_NS		(20 * CLOCK_NS_PER_S)

/* Longer than a sink ever waits. */
#define MAIN_DRAIN_MAX_NS	(130 * CLOCK_NS_PER_S)

/* Time for all processes to go to sleep until the common start. */
#define MAIN_LEAD_NS		(50 * CLOCK_NS_PER_MS)
#define MAIN_LEAD_EACH_NS	(200 * CLOCK_NS_PER_US)

struct main_run {
	struct options options;
	struct traffic traffic;
	struct process_table table;
	struct report_verdict verdict;
	struct system_counters before;	/* start of sending */
	struct system_counters system;	/* what happened since */
};

static void main_sleep_until(uint64_t when_ns)
{
	while (clock_now_ns() < when_ns)
		clock_sleep_until(when_ns);
}

__attribute__((noreturn))
static void main_give_up(struct main_run *run, const char *what)
{
	if (what)
		fprintf(stderr, "bptraffic: %s\n", what);
	process_kill_all(&run->table);
	exit(1);
}

static void main_fork(struct main_run *run, process_role *role, uint64_t count,
		      bool is_sender)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		if (!process_fork(&run->table, &run->traffic, role, i,
				  is_sender))
			main_give_up(run, strerror(errno));
}

/* Wait until all children are at the barrier. Give up if one failed. */
static void main_wait_ready(struct main_run *run)
{
	uint64_t give_up_ns = clock_now_ns() + MAIN_READY_MAX_NS;

	while (atomic_load(&run->traffic.shared->ready) < run->table.count) {
		process_reap(&run->table, true);
		if (process_count_failed(&run->table))
			main_give_up(run, NULL);
		if (clock_now_ns() > give_up_ns)
			main_give_up(run, "not all processes got ready");
		main_sleep_until(clock_now_ns() + MAIN_POLL_NS);
	}
}

static void main_start_children(struct main_run *run)
{
	const struct options *o = &run->options;
	uint64_t udp_processes = o->udp_senders;

	if (o->mode == OPTIONS_EPOLL && udp_processes)
		udp_processes = 1;
	if (!process_table_init(&run->table, 3 + (uint32_t)(udp_processes +
							    o->tcp_flows)))
		main_give_up(run, strerror(errno));

	main_fork(run, sink_run, 1, false);
	main_fork(run, tcp_read_run, o->tcp_flows ? 1 : 0, false);
	main_wait_ready(run);
	main_fork(run, sender_run, udp_processes, true);
	main_fork(run, tcp_write_run, o->tcp_flows, true);
	main_fork(run, probe_run, o->probe, true);
	main_wait_ready(run);
}

static void main_open_barrier(struct main_run *run)
{
	struct traffic *t = &run->traffic;
	uint64_t start_ns = clock_now_ns() + MAIN_LEAD_NS +
			    run->table.count * MAIN_LEAD_EACH_NS;

	atomic_store(&t->shared->end_ns, start_ns + t->options->sending_ns);
	atomic_store(&t->shared->start_ns, start_ns);
	close(t->barrier[0]);
	close(t->barrier[1]);
}

static void main_send(struct main_run *run)
{
	struct system_counters after;
	struct traffic *t = &run->traffic;

	main_sleep_until(traffic_start_ns(t));
	system_read(&run->before);
	main_sleep_until(traffic_end_ns(t));
	atomic_store(&t->shared->stop, true);
	system_read(&after);
	run->system = system_since(&run->before, &after);
}

/*
 * The signal is repeated: it has no effect on a sender that has read the flag
 * but not yet entered the call that it will sleep in.
 */
static void main_stop_senders(struct main_run *run)
{
	uint64_t give_up_ns = clock_now_ns() + MAIN_STUCK_NS;
	uint32_t alive;

	while ((alive = process_reap(&run->table, true)) &&
	       clock_now_ns() < give_up_ns) {
		process_signal_senders(&run->table, SIGALRM);
		main_sleep_until(clock_now_ns() + MAIN_POLL_NS);
	}
	run->verdict.stuck_senders = alive;
	process_signal_senders(&run->table, SIGKILL);
}

/* Losses count until the last packet has arrived, all else until the end. */
static void main_count_backlog_drops(struct main_run *run)
{
	struct system_counters after;

	system_read(&after);
	run->system.backlog_drops =
		system_since(&run->before, &after).backlog_drops;
}

static void main_drain(struct main_run *run)
{
	uint64_t give_up_ns = clock_now_ns() + MAIN_DRAIN_MAX_NS;
	struct traffic *t = &run->traffic;
	uint64_t sent = t->shared->probe.sent_packets;
	uint64_t i;

	for (i = 0; i < run->options.udp_senders; i++)
		sent += t->senders[i].sent_packets;
	atomic_store(&t->shared->sent_packets, sent);
	atomic_store(&t->shared->all_sent, true);

	while (process_reap(&run->table, false) && clock_now_ns() < give_up_ns)
		main_sleep_until(clock_now_ns() + MAIN_POLL_NS);
	process_kill_all(&run->table);
	main_count_backlog_drops(run);
	run->verdict.failed_processes = process_count_failed(&run->table);
}

int main(int argc, char **argv)
{
	static struct main_run run;
	bool is_valid;

	options_parse(&run.options, argc, argv);
	if (!report_open(&run.options)) {
		fprintf(stderr, "bptraffic: --json %s: %s\n",
			run.options.json_path, strerror(errno));
		return 1;
	}
	if (!traffic_init(&run.traffic, &run.options))
		main_give_up(&run, strerror(errno));
	main_start_children(&run);
	/* Not earlier: the children keep the priority that we started with. */
	process_raise_priority();
	main_open_barrier(&run);
	main_send(&run);
	main_stop_senders(&run);
	main_drain(&run);
	is_valid = report_write(&run.traffic, &run.verdict, &run.system);
	return is_valid ? 0 : 1;
}
