/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPTRAFFIC_TRAFFIC_H
#define BPTRAFFIC_TRAFFIC_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "histogram.h"
#include "options.h"

/*
 * What the processes of one run share. Memory is mapped before the first fork,
 * so pointers mean the same everywhere. Every structure has one writer; others
 * read it after the writer has been reaped, except what is _Atomic.
 */

/* Goodput counts from here on: without the bursts of the start. */
#define TRAFFIC_GOODPUT_WARM_NS		(100 * CLOCK_NS_PER_MS)

#define TRAFFIC_SRTT_SAMPLES		256	/* of a flow, at most */

/* Of one UDP socket; written by its sender. */
struct traffic_sender {
	alignas(64) uint64_t sent_packets;
	uint64_t would_blocks;		/* sendto() gave EAGAIN */
	uint64_t no_buffers;		/* sendto() gave ENOBUFS */
	uint64_t other_errors;
	int last_other_errno;
	int sndbuf_bytes;		/* as the kernel reports it */
	uint64_t longest_send_ns;	/* after the warm-up */
};

/* What arrived from one UDP socket; written by the sink. */
struct traffic_receiver {
	uint64_t packets;
	uint64_t reordered_packets;	/* behind a later one of that sender */
	uint64_t sending_time_packets;	/* until sending ended */
	uint64_t last_sequence;
};

/* Of one sending process, from start to its end; written by it. */
struct traffic_usage {
	uint64_t cpu_ns;		/* user and system */
	uint64_t voluntary_switches;
	uint64_t involuntary_switches;
	uint64_t waits;			/* calls of poll() or epoll_wait() */
};

/* Written by the sink. */
struct traffic_sink {
	uint64_t window_packets;	/* data, from 0.1 s to end of sending */
	uint64_t foreign_packets;	/* not from this run */
	uint64_t dropped_packets;	/* by the receive buffers */
	uint64_t ages_early;		/* received before sendto() returned */
	uint64_t ages_unknown;		/* stamp overwritten: ring too small */
	uint64_t probes;
	int64_t clock_step_ns;		/* of CLOCK_REALTIME in between */
	struct histogram age_ns;
	struct histogram probe_delay_ns;
};

/* Written by the probe. */
struct traffic_probe {
	uint64_t sent_packets;
	uint64_t errors;
};

/* Of one TCP flow; first half written by its writer, rest by the reader. */
struct traffic_tcp {
	alignas(64) uint64_t written_bytes;
	uint64_t acknowledged_bytes;
	uint64_t retransmitted_segments;
	uint64_t srtt_us;		/* at the end */
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
	struct traffic_sink sink;
	struct traffic_probe probe;
};

struct traffic {
	const struct options *options;
	struct traffic_shared *shared;
	struct traffic_sender *senders;		/* [udp_senders] */
	struct traffic_receiver *receivers;	/* [udp_senders] */
	struct traffic_tcp *tcp;		/* [tcp_flows] */
	struct traffic_usage *usages;		/* [udp_senders or 1] */
	struct traffic_usage *tcp_usages;	/* [tcp_flows] */
	_Atomic uint64_t *stamps;		/* [udp_senders][ring_entries] */
	uint64_t ring_entries;			/* a power of two */
	int barrier[2];				/* closed for writing: go */
};

enum traffic_age {
	TRAFFIC_AGE_KNOWN,
	TRAFFIC_AGE_EARLY,	/* the sender has not stamped it yet */
	TRAFFIC_AGE_UNKNOWN,	/* the ring has gone round since */
};

/* false with errno if there is no memory. */
bool traffic_init(struct traffic *t, const struct options *o);

/*
 * Report ready, wait for everybody, sleep until the common start. Returns the
 * start; exits if the parent died before.
 */
uint64_t traffic_wait_start(struct traffic *t);

/* Remember when @sequence of @sender was accepted. */
void traffic_stamp(struct traffic *t, uint32_t sender, uint64_t sequence,
		   uint64_t accepted_ns);

/* When it was: @accepted_ns is set if known. */
enum traffic_age traffic_find_stamp(struct traffic *t, uint32_t sender,
				    uint64_t sequence, uint64_t *accepted_ns);

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

/* Sum of getrusage() of this process; call twice, then subtract. */
void traffic_read_usage(struct traffic_usage *usage);
void traffic_usage_since(struct traffic_usage *usage,
			 const struct traffic_usage *earlier);

#endif
