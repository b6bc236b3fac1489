/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of bptraffic share. */
#ifndef BPTRAFFIC_TRAFFIC_H
#define BPTRAFFIC_TRAFFIC_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "histogram.h"
#include "system.h"

/* Goodput counts from here on: without the bursts of the start. */
#define TRAFFIC_GOODPUT_WARM_NS		(100 * CLOCK_NS_PER_MS)

#define TRAFFIC_SRTT_SAMPLES		256	/* of a flow, at most */

/* Ports above --port. */
#define WIRE_PORT_DATA		0
#define WIRE_PORT_PROBE		1
#define WIRE_PORT_TCP		2

/* Sender and receiver are one machine: host byte order. */
#define WIRE_MAGIC		0x62707472U

/* The first bytes of every UDP payload; the rest is zero. */
struct wire_header {
	uint32_t magic;
	uint32_t sender;	/* index; 0 for probes */
	uint64_t sequence;	/* from 1, per sender */
	uint64_t sent_ns;	/* CLOCK_MONOTONIC before sendto(); probes only */
};

#define WIRE_HEADER_BYTES	sizeof(struct wire_header)
#define WIRE_PROBE_BYTES	72		/* UDP payload */

enum options_mode {
	OPTIONS_BLOCK,	/* a process per socket sleeps in sendto() */
	OPTIONS_POLL,	/* a process per socket sleeps in poll() on EAGAIN */
	OPTIONS_EPOLL,	/* one process has all sockets in an epoll set */
};

struct options {
	const char *tx_netns;
	const char *rx_netns;
	const char *dst;
	uint64_t port;			/* data; +1 probe, +2 TCP */
	uint64_t udp_senders;
	uint64_t udp_payload_bytes;
	uint64_t sndbuf_bytes;		/* 0: the kernel's default */
	uint64_t pacing_bits_per_s;	/* 0: unlimited */
	uint64_t classes;		/* 0: no priorities */
	uint64_t class_first, class_probe;
	uint64_t mode;			/* enum options_mode */
	uint64_t gso_segments;		/* 1: one datagram per sendto() */
	uint64_t tcp_flows;
	const char *tcp_congestion;
	uint64_t tcp_write_bytes;
	bool probe;
	uint64_t probe_interval_us;
	uint64_t warmup_ms;
	uint64_t sending_ns;
	uint64_t drain_ms;
	const char *json_path;

	struct sockaddr_storage address;	/* @dst, port still 0 */
	socklen_t address_length;
};

/*
 * What the processes of one run share. Memory is mapped before the first fork,
 * so pointers mean the same everywhere. Every structure has one writer; others
 * read it after the writer has been reaped, except what is _Atomic.
 */

/* Of one UDP socket; written by its sender. */
struct traffic_sender {
	alignas(64) uint64_t sent_packets;
	uint64_t no_buffers;		/* sendto() gave ENOBUFS */
	uint64_t longest_send_ns;	/* after the warm-up */
};

/* What arrived from one UDP socket; written by the sink. */
struct traffic_receiver {
	uint64_t packets;
	uint64_t sending_time_packets;	/* until sending ended */
};

/* Written by the sink. */
struct traffic_sink {
	uint64_t window_packets;	/* data, from 0.1 s to end of sending */
	uint64_t dropped_packets;	/* by the receive buffers */
	uint64_t probes;
	int64_t clock_step_ns;		/* of CLOCK_REALTIME in between */
	struct histogram age_ns;
	struct histogram probe_delay_ns;
};

/* Of one TCP flow; first half written by its writer, rest by the reader. */
struct traffic_tcp {
	alignas(64) uint64_t retransmitted_segments;
	uint64_t srtt_samples;		/* after the warm-up */
	uint32_t srtt_sample_us[TRAFFIC_SRTT_SAMPLES];
	int error;			/* errno that ended it early, or 0 */

	alignas(64) uint64_t read_bytes;
	uint64_t window_bytes;		/* from 0.1 s to end of sending */
	uint64_t sending_time_bytes;
};

struct traffic_shared {
	_Atomic uint64_t start_ns;	/* valid once the barrier is open */
	_Atomic uint64_t end_ns;
	_Atomic uint32_t ready;		/* processes at the barrier */
	_Atomic bool stop;		/* sending is over */
	_Atomic bool all_sent;		/* @sent_packets is final */
	_Atomic uint64_t sent_packets;	/* data and probes */
	uint64_t sent_probes;		/* written by the probe */
	struct traffic_sink sink;
};

struct traffic {
	const struct options *options;
	struct traffic_shared *shared;
	struct traffic_sender *senders;		/* [udp_senders] */
	struct traffic_receiver *receivers;	/* [udp_senders] */
	struct traffic_tcp *tcp;		/* [tcp_flows] */
	uint64_t *cpu_ns;			/* [udp_senders or 1], user and system */
	uint64_t *tcp_cpu_ns;			/* [tcp_flows] */
	_Atomic uint64_t *stamps;		/* [udp_senders][ring_entries] */
	uint64_t ring_entries;			/* a power of two */
	int barrier[2];				/* closed for writing: go */
};

/* options.c: exits with one line on stderr, naming option and value, if @argv is wrong */
void options_parse(struct options *o, int argc, char **argv);
/* @address with the port @offset above the base; its length is returned. */
socklen_t options_address(const struct options *o, unsigned int offset,
			  struct sockaddr_storage *address);
/* The same family and port, but every local address: where a sink listens. */
socklen_t options_any_address(const struct options *o, unsigned int offset,
			      struct sockaddr_storage *address);

/* traffic.c. false with errno if there is no memory. */
bool traffic_init(struct traffic *t, const struct options *o);
/*
 * Report ready, wait for everybody, sleep until the common start. Returns the
 * start; exits if the parent died before.
 */
uint64_t traffic_wait_start(struct traffic *t);
/* Remember when @sequence of @sender was accepted. */
void traffic_stamp(struct traffic *t, uint32_t sender, uint64_t sequence, uint64_t accepted_ns);
/*
 * When that was, or @else_ns if it was received before its sender has stamped it: it did not
 * wait. 0: the ring has gone round since.
 */
uint64_t traffic_find_stamp(struct traffic *t, uint32_t sender, uint64_t sequence,
			    uint64_t else_ns);
/* Of this process so far, user and system */
uint64_t traffic_cpu_ns(void);

static inline uint64_t traffic_start_ns(const struct traffic *t)
{
	return atomic_load_explicit(&t->shared->start_ns, memory_order_relaxed);
}

static inline uint64_t traffic_end_ns(const struct traffic *t)
{
	return atomic_load_explicit(&t->shared->end_ns, memory_order_relaxed);
}

/* Is sending over? A sender that a signal woke finds the flag set. */
static inline bool traffic_is_over(const struct traffic *t, uint64_t now_ns)
{
	return now_ns >= traffic_end_ns(t) ||
	       atomic_load_explicit(&t->shared->stop, memory_order_relaxed);
}

/* process.c: children, which exit with 0 by returning from their role */
typedef void process_role(struct traffic *t, uint32_t index);

/* For @capacity children. false with errno. */
bool process_init(uint32_t capacity);
/* false with errno if fork() failed. The child dies with its parent. */
bool process_fork(struct traffic *t, process_role *role, uint32_t index, bool is_sender);
uint32_t process_count(void);
/* Reap what has ended, without waiting. How many senders, or sinks, live? */
uint32_t process_reap(bool is_sender);
uint32_t process_count_failed(void);
void process_signal_senders(int signal);
void process_kill_all(void);
/* Run before all that is not ours: never be the bottleneck. */
void process_raise_priority(void);
/* Let SIGALRM end a sleep in a system call, without ending the process. */
void process_catch_alarm(void);
/* For children: a line with @what, @value and errno on stderr, exit status 1. */
__attribute__((noreturn))
void process_fail(const char *what, const char *value);

/* sender.c: one socket, or all of them in epoll mode; a small datagram in each interval */
process_role sender_run, probe_run;
/* Set half of --sndbuf on @fd, and --pacing-rate, if given; exits on failure. */
void sender_set_options(const struct options *o, int fd);
/* With --classes: the priority of @fd names the class of the sender with that index. */
void sender_set_class_of(const struct options *o, int fd, uint32_t index);

/* sink.c: receives data and probes until all that was sent is here */
process_role sink_run;

/* tcp.c: one bulk flow, and the reader of them all */
process_role tcp_write_run, tcp_read_run;

/* report.c: open --json before the run, not after it. false with errno. */
bool report_open(const struct options *o);
/* All processes have been reaped. Is the measurement valid? */
bool report_write(const struct traffic *t, uint32_t stuck_senders,
		  const struct system_counters *system);

#endif
