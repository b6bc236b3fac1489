// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"
#include "traffic.h"

/*
 * A stamp is one word, so that it is never seen half written: nanoseconds since
 * the start in the upper 40 bits (18 minutes), sequence number modulo 2^24
 * below. Sequence numbers start at 1: a word of 0 is unused.
 */
#define TRAFFIC_SEQUENCE_BITS	24
#define TRAFFIC_SEQUENCE_MASK	((1ULL << TRAFFIC_SEQUENCE_BITS) - 1)

/*
 * 4 MB of send buffer are 1800 packets, and the receiver looks every 2 ms,
 * which is 2000 packets of an unshaped sender. Thousands of senders hold fewer
 * each.
 */
#define TRAFFIC_RING_MAX	8192
#define TRAFFIC_RING_MIN	64
#define TRAFFIC_STAMPS_MAX	(4ULL << 20)

static void *traffic_map(uint64_t count, size_t size)
{
	void *map;

	/* mmap() refuses 0 bytes. */
	map = mmap(NULL, count * size + 1, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return map == MAP_FAILED ? NULL : map;
}

static uint64_t traffic_choose_ring(uint64_t senders)
{
	uint64_t entries = TRAFFIC_RING_MAX;

	while (entries > TRAFFIC_RING_MIN &&
	       entries * senders > TRAFFIC_STAMPS_MAX)
		entries /= 2;
	return entries;
}

bool traffic_init(struct traffic *t, const struct options *o)
{
	t->options = o;
	t->ring_entries = traffic_choose_ring(o->udp_senders);
	t->shared = traffic_map(1, sizeof(*t->shared));
	t->senders = traffic_map(o->udp_senders, sizeof(*t->senders));
	t->receivers = traffic_map(o->udp_senders, sizeof(*t->receivers));
	t->tcp = traffic_map(o->tcp_flows, sizeof(*t->tcp));
	t->cpu_ns = traffic_map(o->udp_senders, sizeof(*t->cpu_ns));
	t->tcp_cpu_ns = traffic_map(o->tcp_flows, sizeof(*t->tcp_cpu_ns));
	t->stamps = traffic_map(o->udp_senders * t->ring_entries,
				sizeof(*t->stamps));
	return t->shared && t->senders && t->receivers && t->tcp && t->cpu_ns &&
	       t->tcp_cpu_ns && t->stamps && !pipe(t->barrier);
}

uint64_t traffic_wait_start(struct traffic *t)
{
	char byte;

	/* The barrier opens when its last writing end is closed. */
	close(t->barrier[1]);
	atomic_fetch_add(&t->shared->ready, 1);
	while (read(t->barrier[0], &byte, 1) > 0)
		;
	/* A parent that gave up closed the pipe, too. */
	if (!traffic_start_ns(t))
		exit(1);
	clock_sleep_until(traffic_start_ns(t));
	return traffic_start_ns(t);
}

static _Atomic uint64_t *traffic_stamp_word(struct traffic *t, uint32_t sender,
					    uint64_t sequence)
{
	return &t->stamps[sender * t->ring_entries +
			  (sequence & (t->ring_entries - 1))];
}

void traffic_stamp(struct traffic *t, uint32_t sender, uint64_t sequence,
		   uint64_t accepted_ns)
{
	uint64_t since_start_ns = accepted_ns - traffic_start_ns(t);

	atomic_store_explicit(traffic_stamp_word(t, sender, sequence),
			      since_start_ns << TRAFFIC_SEQUENCE_BITS |
			      (sequence & TRAFFIC_SEQUENCE_MASK),
			      memory_order_relaxed);
}

uint64_t traffic_find_stamp(struct traffic *t, uint32_t sender, uint64_t sequence,
			    uint64_t else_ns)
{
	uint64_t word, ahead;

	word = atomic_load_explicit(traffic_stamp_word(t, sender, sequence),
				    memory_order_relaxed);
	ahead = (word - sequence) & TRAFFIC_SEQUENCE_MASK;
	if (!ahead)
		return traffic_start_ns(t) + (word >> TRAFFIC_SEQUENCE_BITS);
	/* An older sequence number is 1 to 2^23 behind, as a serial number. */
	return !word || ahead > TRAFFIC_SEQUENCE_MASK / 2 ? else_ns : 0;
}

uint64_t traffic_cpu_ns(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * CLOCK_NS_PER_S +
	       (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) * CLOCK_NS_PER_US;
}
