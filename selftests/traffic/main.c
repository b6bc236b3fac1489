// SPDX-License-Identifier: GPL-2.0-only
/* bptraffic: send traffic through a shaper and measure its fate
 *
 * usage: bptraffic --dst ADDR [OPTION...]
 *
 *	--dst ADDR	receiver's IPv4 or IPv6 address
 *	--tx-netns NAME, --rx-netns NAME
 *			network namespaces of senders and receivers (this one)
 *	--port BASE	UDP data at BASE, probe at BASE+1, TCP at BASE+2 (5600)
 *	--udp N		UDP senders that send as fast as they can (0)
 *	--size BYTES	UDP payload of a datagram (1470)
 *	--gso SEGS	datagrams in a sendto() by UDP_SEGMENT (1: off)
 *	--mode MODE	of UDP senders: block, poll (EAGAIN, poll; a process each) or epoll
 *			(all sockets in one process) (block)
 *	--tcp N		bulk TCP flows (0)
 *	--tcp-write BYTES	of one write() (65536)
 *	--cc NAME	TCP congestion control (the system's)
 *	--probe		send sparse datagrams and measure their one-way delay
 *	--probe-interval-us US	from probe to probe (5000)
 *	--sndbuf BYTES	send buffer of UDP and TCP senders as the kernel charges it: SO_SNDBUF
 *			doubles what it is given, so half is passed (left alone)
 *	--pacing-rate BITS	SO_MAX_PACING_RATE of UDP and TCP senders, bit/s (left alone)
 *	--classes N	SO_PRIORITY of UDP and TCP senders, in turn 1:10 and the N - 1 after it,
 *			that of the probe 1:f (left alone)
 *	--class-first MINOR, --class-probe MINOR
 *			of these classes instead (16, 15)
 *	--seconds S	time of sending, 0.2 to 600 (2)
 *	--warmup-ms MS	packets sent earlier do not count in percentiles (500)
 *	--drain-ms MS	silence after sending that ends the wait for packets (1500)
 *	--json FILE	where the report goes (stdout); report.c says what its keys mean
 *
 * Exits with 0 if the measurement is valid, whatever was lost, and else with 1 and a line that
 * says why.
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
	uint32_t stuck_senders;
	struct system_counters before;	/* start of sending */
	struct system_counters system;	/* what happened since */
};

static void main_sleep_until(uint64_t when_ns)
{
	while (clock_now_ns() < when_ns)
		clock_sleep_until(when_ns);
}

__attribute__((noreturn))
static void main_give_up(const char *what)
{
	if (what)
		fprintf(stderr, "bptraffic: %s\n", what);
	process_kill_all();
	exit(1);
}

static void main_fork(struct main_run *run, process_role *role, uint64_t count,
		      bool is_sender)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		if (!process_fork(&run->traffic, role, i, is_sender))
			main_give_up(strerror(errno));
}

/* Wait until all children are at the barrier. Give up if one failed. */
static void main_wait_ready(struct main_run *run)
{
	uint64_t give_up_ns = clock_now_ns() + MAIN_READY_MAX_NS;

	while (atomic_load(&run->traffic.shared->ready) < process_count()) {
		process_reap(true);
		if (process_count_failed())
			main_give_up(NULL);
		if (clock_now_ns() > give_up_ns)
			main_give_up("not all processes got ready");
		main_sleep_until(clock_now_ns() + MAIN_POLL_NS);
	}
}

static void main_start_children(struct main_run *run)
{
	const struct options *o = &run->options;
	uint64_t udp_processes = o->udp_senders;

	if (o->mode == OPTIONS_EPOLL && udp_processes)
		udp_processes = 1;
	if (!process_init(3 + (uint32_t)(udp_processes + o->tcp_flows)))
		main_give_up(strerror(errno));

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
			    process_count() * MAIN_LEAD_EACH_NS;

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

	while ((run->stuck_senders = process_reap(true)) && clock_now_ns() < give_up_ns) {
		process_signal_senders(SIGALRM);
		main_sleep_until(clock_now_ns() + MAIN_POLL_NS);
	}
	process_signal_senders(SIGKILL);
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
	uint64_t sent = t->shared->sent_probes;
	uint64_t i;

	for (i = 0; i < run->options.udp_senders; i++)
		sent += t->senders[i].sent_packets;
	atomic_store(&t->shared->sent_packets, sent);
	atomic_store(&t->shared->all_sent, true);

	while (process_reap(false) && clock_now_ns() < give_up_ns)
		main_sleep_until(clock_now_ns() + MAIN_POLL_NS);
	process_kill_all();
	main_count_backlog_drops(run);
}

int main(int argc, char **argv)
{
	static struct main_run run;

	options_parse(&run.options, argc, argv);
	if (!report_open(&run.options))
		process_fail("--json", run.options.json_path);
	if (!traffic_init(&run.traffic, &run.options))
		main_give_up(strerror(errno));
	main_start_children(&run);
	/* Not earlier: the children keep the priority that we started with. */
	process_raise_priority();
	main_open_barrier(&run);
	main_send(&run);
	main_stop_senders(&run);
	main_drain(&run);
	return !report_write(&run.traffic, run.stuck_senders, &run.system);
}
