/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* bpshaper: a shaper that throttles sockets instead of dropping packets.
 *
 * User-space interface: netlink attributes and statistics. Rates are in bytes
 * per second, sizes in bytes as the qdisc layer counts them (link-layer header
 * included, as for every other qdisc), times in nanoseconds.
 */
#ifndef _UAPI_SCH_BPSHAPER_H
#define _UAPI_SCH_BPSHAPER_H

#include <linux/types.h>

/* A rate of TCA_BPSHAPER_RATE64 that means "do not shape". */
#define TC_BPSHAPER_RATE_UNLIMITED	(~0ULL)

/* Bounds of the options, all inclusive. */
#define TC_BPSHAPER_RATE_MIN		1ULL		/* bytes/s: 8 bit/s */
#define TC_BPSHAPER_RATE_MAX		8796093022208ULL	/* bytes/s: 64 Tibit/s */
#define TC_BPSHAPER_QUANTUM_MIN		256U		/* bytes */
#define TC_BPSHAPER_QUANTUM_MAX		1048576U	/* bytes: 1 MiB */
#define TC_BPSHAPER_LATENCY_MAX		60000000000ULL	/* ns: 60 s */
#define TC_BPSHAPER_MEMORY_MIN		65536U		/* bytes */

/**
 * enum - attributes nested in TCA_OPTIONS of kind "bpshaper"
 *
 * All are optional. An attribute that is absent when the qdisc is created gets
 * its default; one that is absent in a change keeps what it was. A value out of
 * range is refused with -ERANGE, a contradiction with -EINVAL, and an extack
 * message that names the attribute; the running qdisc is not changed then.
 *
 * @TCA_BPSHAPER_UNSPEC: never sent
 * @TCA_BPSHAPER_PAD: alignment of the 64-bit attributes
 * @TCA_BPSHAPER_RATE64: u64, bytes per second; TC_BPSHAPER_RATE_MIN to
 *	TC_BPSHAPER_RATE_MAX, or TC_BPSHAPER_RATE_UNLIMITED (the default)
 * @TCA_BPSHAPER_BURST: u32, bytes that may leave back to back, 1 to U32_MAX;
 *	default: what the rate sends in 1 ms, at least two MTU-sized packets
 * @TCA_BPSHAPER_LIMIT: u32, bytes that may wait, 1 to U32_MAX: what the shares
 *	of the sockets add up to, and the bound of the socketless pool;
 *	excludes TCA_BPSHAPER_LATENCY; default: by latency
 * @TCA_BPSHAPER_LATENCY: u64, ns, 1 to TC_BPSHAPER_LATENCY_MAX: sets the limit
 *	to rate x latency + burst, again whenever one of the two changes; needs
 *	a rate; default: 10 ms
 * @TCA_BPSHAPER_MEMORY_LIMIT: u32, bytes of kernel memory (sum of truesize) that
 *	the queued packets may take, TC_BPSHAPER_MEMORY_MIN to U32_MAX;
 *	default: 1/64 of the machine's memory, 32 MiB to 1 GiB
 * @TCA_BPSHAPER_QUANTUM: u32, bytes of credit a flow gets per round,
 *	TC_BPSHAPER_QUANTUM_MIN to TC_BPSHAPER_QUANTUM_MAX; default: one
 *	MTU-sized packet
 */
enum {
	TCA_BPSHAPER_UNSPEC,
	TCA_BPSHAPER_PAD,
	TCA_BPSHAPER_RATE64,
	TCA_BPSHAPER_BURST,
	TCA_BPSHAPER_LIMIT,
	TCA_BPSHAPER_LATENCY,
	TCA_BPSHAPER_MEMORY_LIMIT,
	TCA_BPSHAPER_QUANTUM,
	__TCA_BPSHAPER_MAX
};

#define TCA_BPSHAPER_MAX	(__TCA_BPSHAPER_MAX - 1)

/**
 * struct tc_bpshaper_xstats - TCA_STATS_APP of kind "bpshaper"
 *
 * Grows at its end only: a reader copies the shorter of its own length and the
 * length received, and takes what is missing as zero. Counters start at zero
 * when the qdisc is created and never go back.
 *
 * @throttles: times a socket was throttled
 * @unthrottles: times a throttled socket was released;
 *	throttles - unthrottles = throttled_sockets
 * @drops_pool: packets of the socketless pool dropped because it was full
 * @drops_memory: packets dropped because of memory_limit
 * @drops_alloc: packets dropped because an allocation failed
 * @segments: packets made by segmenting GSO packets larger than the burst
 * @ballast_errors: times a socket could not be throttled for want of memory
 * @timer_wakeups: times the watchdog timer fired
 * @direct_packets: packets that found the qdisc empty and took the short path
 * @max_backlog: largest backlog seen, bytes
 * @memory: memory of the packets queued now, bytes (sum of truesize)
 * @throttled_sockets: sockets throttled now
 * @overlimit_sockets: sockets now above their share and not throttled
 * @flows: flows with a backlog now, sockets and socketless
 * @socket_flows: flows of throttleable sockets with a backlog now
 * @share: share of one socket now, bytes
 * @pool_backlog: bytes of the socketless pool queued now
 * @limit: bytes that may wait, as set or as it follows from the latency
 * @parked_flows: flows without a backlog that are kept for their credit
 */
struct tc_bpshaper_xstats {
	__u64	throttles;
	__u64	unthrottles;
	__u64	drops_pool;
	__u64	drops_memory;
	__u64	drops_alloc;
	__u64	segments;
	__u64	ballast_errors;
	__u64	timer_wakeups;
	__u64	direct_packets;
	__u64	max_backlog;
	__u64	memory;
	__u32	throttled_sockets;
	__u32	overlimit_sockets;
	__u32	flows;
	__u32	socket_flows;
	__u32	share;
	__u32	pool_backlog;
	__u32	limit;
	__u32	parked_flows;
};

#endif /* _UAPI_SCH_BPSHAPER_H */
