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

/* A rate that means "do not shape"; of TCA_BPSHAPER_PEAKRATE64: "no peak rate". */
#define TC_BPSHAPER_RATE_UNLIMITED	(~0ULL)

/* Bounds of the options, all inclusive. */
#define TC_BPSHAPER_RATE_MIN		1ULL		/* bytes/s: 8 bit/s */
#define TC_BPSHAPER_RATE_MAX		8796093022208ULL	/* bytes/s: 64 Tibit/s */
#define TC_BPSHAPER_QUANTUM_MIN		256U		/* bytes */
#define TC_BPSHAPER_QUANTUM_MAX		1048576U	/* bytes: 1 MiB */
#define TC_BPSHAPER_LATENCY_MAX		60000000000ULL	/* ns: 60 s */
#define TC_BPSHAPER_MEMORY_MIN		65536U		/* bytes */
#define TC_BPSHAPER_OVERHEAD_MAX	65535U		/* bytes, as for tbf */
#define TC_BPSHAPER_MPU_MAX		65535U		/* bytes, as for tbf */
#define TC_BPSHAPER_HORIZON_MAX		3600000000000ULL	/* ns: 1 h */
#define TC_BPSHAPER_CE_THRESHOLD_MAX	60000000000ULL	/* ns: 60 s */

/* A ce_threshold that means "never mark". */
#define TC_BPSHAPER_CE_NEVER		(~0ULL)

/* Defaults of the options; those that are not here follow from others. */
#define TC_BPSHAPER_RATE_DEFAULT	TC_BPSHAPER_RATE_UNLIMITED
#define TC_BPSHAPER_LATENCY_DEFAULT	10000000ULL	/* ns: 10 ms */
#define TC_BPSHAPER_PEAKRATE_DEFAULT	TC_BPSHAPER_RATE_UNLIMITED
#define TC_BPSHAPER_OVERHEAD_DEFAULT	0U		/* bytes */
#define TC_BPSHAPER_MPU_DEFAULT		0U		/* bytes */
#define TC_BPSHAPER_LINKLAYER_DEFAULT	1U		/* TC_LINKLAYER_ETHERNET */
#define TC_BPSHAPER_SHARE_MAX_DEFAULT	65536U		/* bytes */
#define TC_BPSHAPER_BACKPRESSURE_DEFAULT	1U
#define TC_BPSHAPER_PACING_DEFAULT	1U
#define TC_BPSHAPER_MAXRATE_DEFAULT	TC_BPSHAPER_RATE_UNLIMITED
#define TC_BPSHAPER_LOW_RATE_THRESHOLD_DEFAULT	68750ULL	/* bytes/s: 550 kbit/s */
#define TC_BPSHAPER_HORIZON_DEFAULT	10000000000ULL	/* ns: 10 s */
#define TC_BPSHAPER_HORIZON_DROP_DEFAULT	0U
#define TC_BPSHAPER_CE_THRESHOLD_DEFAULT	TC_BPSHAPER_CE_NEVER
#define TC_BPSHAPER_TIMER_SLACK_DEFAULT	10000U		/* ns: 10 us */
#define TC_BPSHAPER_GROUP_DEFAULT	0U		/* none */

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
 * @TCA_BPSHAPER_MEMORY_LIMIT: u32, bytes of kernel memory that the queued packets
 *	may take, with their flows and the ballast of their sockets,
 *	TC_BPSHAPER_MEMORY_MIN to U32_MAX; past it the flow that holds most loses
 *	packets; default: 1/16 of the machine's memory, 32 MiB to 1 GiB
 * @TCA_BPSHAPER_QUANTUM: u32, bytes of credit a flow gets per round,
 *	TC_BPSHAPER_QUANTUM_MIN to TC_BPSHAPER_QUANTUM_MAX; default: one
 *	MTU-sized packet
 * @TCA_BPSHAPER_PEAKRATE64: u64, bytes per second at which the burst may leave;
 *	above the rate, up to TC_BPSHAPER_RATE_MAX, or TC_BPSHAPER_RATE_UNLIMITED
 *	(the default); needs a rate
 * @TCA_BPSHAPER_MTU: u32, bytes that may leave back to back despite the peak
 *	rate, 1 to U32_MAX; without effect unless there is one; default: one
 *	MTU-sized packet
 * @TCA_BPSHAPER_OVERHEAD: u32, bytes on the wire that each packet has beside
 *	those that the qdisc layer counts, 0 (the default) to
 *	TC_BPSHAPER_OVERHEAD_MAX
 * @TCA_BPSHAPER_MPU: u32, bytes that a packet takes on the wire at least, its
 *	overhead included, 0 (the default) to TC_BPSHAPER_MPU_MAX
 * @TCA_BPSHAPER_LINKLAYER: u32, TC_LINKLAYER_ETHERNET (the default) or
 *	TC_LINKLAYER_ATM: packets occupy whole cells, 53 bytes for each 48;
 *	these three change what a packet costs of rate, burst and peak rate, and
 *	GSO packets are segmented then, so that each frame pays
 * @TCA_BPSHAPER_SHARE_MIN: u32, least share of one socket, bytes, 1 to U32_MAX,
 *	not above the largest; default: two MTU-sized packets, or the largest if
 *	that is less
 * @TCA_BPSHAPER_SHARE_MAX: u32, largest share of one socket, bytes, 1 to U32_MAX;
 *	default: 65536, or the least if that is more; these two are dumped only
 *	if they were set
 * @TCA_BPSHAPER_BACKPRESSURE: u32, 1 (the default) or 0: packets of sockets are
 *	treated like those without one, so that `limit` drops them
 * @TCA_BPSHAPER_PACING: u32, 1 (the default) or 0: packets leave no earlier than
 *	skb->tstamp says, those without one no faster than the pacing rate of
 *	their socket (SO_MAX_PACING_RATE), and TCP leaves its pacing to the qdisc
 * @TCA_BPSHAPER_MAXRATE64: u64, bytes per second that one flow may send at most,
 *	TC_BPSHAPER_RATE_MIN to TC_BPSHAPER_RATE_MAX, or
 *	TC_BPSHAPER_RATE_UNLIMITED (the default); without effect unless pacing
 * @TCA_BPSHAPER_LOW_RATE_THRESHOLD64: u64, bytes per second: a flow that is paced
 *	by rate sends two MTU-sized packets at a time, below this one; 0 to
 *	TC_BPSHAPER_RATE_MAX; default: 68750, 550 kbit/s, as for fq
 * @TCA_BPSHAPER_HORIZON: u64, ns, 1 to TC_BPSHAPER_HORIZON_MAX: how far in the
 *	future a packet's time may lie; default: 10 s, as for fq
 * @TCA_BPSHAPER_HORIZON_DROP: u32, 1 or 0 (the default): what lies beyond is
 *	dropped, or else leaves at the horizon
 * @TCA_BPSHAPER_CE_THRESHOLD: u64, ns, 0 to TC_BPSHAPER_CE_THRESHOLD_MAX: packets
 *	that waited longer than that beyond their time are marked with ECN CE if
 *	they can be; or TC_BPSHAPER_CE_NEVER (the default)
 * @TCA_BPSHAPER_TIMER_SLACK: u32, ns: by how much the timer may be late for the
 *	time of a packet, so that one timer serves several; default: 10000, as for
 *	fq
 * @TCA_BPSHAPER_GROUP: u32, number of the group that shares one bucket: all qdiscs of
 *	this kind on the device that name it; 0 (the default, not dumped) is none. Needs a
 *	rate, excludes TCA_BPSHAPER_PEAKRATE64. Rate, burst, overhead, mpu and linklayer
 *	are the group's: a new member takes them over, a change of any member changes
 *	all, others than the group's are refused with -EINVAL when a member joins. The
 *	burst must hold a packet of the MTU for each member and one more (-EINVAL);
 *	default: as for one alone, and such a packet for each; 1024 members at most
 *	(-EINVAL)
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
	TCA_BPSHAPER_PEAKRATE64,
	TCA_BPSHAPER_MTU,
	TCA_BPSHAPER_OVERHEAD,
	TCA_BPSHAPER_MPU,
	TCA_BPSHAPER_LINKLAYER,
	TCA_BPSHAPER_SHARE_MIN,
	TCA_BPSHAPER_SHARE_MAX,
	TCA_BPSHAPER_BACKPRESSURE,
	TCA_BPSHAPER_PACING,
	TCA_BPSHAPER_MAXRATE64,
	TCA_BPSHAPER_LOW_RATE_THRESHOLD64,
	TCA_BPSHAPER_HORIZON,
	TCA_BPSHAPER_HORIZON_DROP,
	TCA_BPSHAPER_CE_THRESHOLD,
	TCA_BPSHAPER_TIMER_SLACK,
	TCA_BPSHAPER_GROUP,
	__TCA_BPSHAPER_MAX
};

#define TCA_BPSHAPER_MAX	(__TCA_BPSHAPER_MAX - 1)

/* Histograms of times: bucket 0 counts those below 1024 ns, bucket i those from
 * 2^(i + 9) ns to less than twice that, the last one all longer ones, too.
 */
#define TC_BPSHAPER_HIST_BUCKETS	24

/**
 * enum - types of TCA_STATS_APP, its first member
 * @TC_BPSHAPER_XSTATS_QDISC: struct tc_bpshaper_xstats
 * @TC_BPSHAPER_XSTATS_CLASS: struct tc_bpshaper_class_xstats
 */
enum {
	TC_BPSHAPER_XSTATS_QDISC,
	TC_BPSHAPER_XSTATS_CLASS,
};

/**
 * struct tc_bpshaper_xstats - TCA_STATS_APP of a qdisc of kind "bpshaper"
 *
 * Grows at its end only: a reader copies the shorter of its own length and the
 * length received, and takes what is missing as zero. Counters start at zero
 * when the qdisc is created and never go back.
 *
 * @type: TC_BPSHAPER_XSTATS_QDISC
 * @reserved: 0
 * @throttles: times a socket was throttled
 * @unthrottles: times a throttled socket was released;
 *	throttles - unthrottles = throttled_sockets
 * @drops_pool: packets of the socketless pool dropped because it was full
 * @drops_memory: packets dropped because of memory_limit, of those who held most
 * @drops_alloc: packets dropped because an allocation failed
 * @segments: packets made by segmenting GSO packets larger than the burst
 * @ballast_errors: times a socket could not be throttled for want of memory
 * @timer_wakeups: times the watchdog timer fired
 * @direct_packets: packets that found the qdisc empty and took the short path
 * @max_backlog: largest backlog seen, bytes
 * @memory: kernel memory of the packets queued now, bytes: their data, heads and skbs,
 *	their flows, and the ballast that their sockets may need
 * @throttled_sockets: sockets throttled now
 * @overlimit_sockets: sockets now above their share and not throttled
 * @flows: flows with a backlog now, those of sockets and socketless ones
 * @socket_flows: flows of throttleable sockets with a backlog now: one for each
 *	connected socket, one for each peer of an unconnected one
 * @share: share of a socket with one flow now, bytes
 * @pool_backlog: bytes of the socketless pool queued now
 * @limit: bytes that may wait, as set or as it follows from the latency
 * @parked_flows: flows without a backlog that are kept for their credit, 16384 at most
 * @purged_packets: packets dropped because the queue was purged (qdisc or device
 *	removed, link down); not in the drops of the qdisc
 * @delay_hist: packets by the time from enqueue, or from when they were to leave
 *	if that is later, to dequeue
 * @throttle_hist: ended throttles of sockets by their duration
 * @lateness_hist: firings of the watchdog by the time from when it was due to the
 *	dequeue that followed
 * @paced_waits: times that a flow waited for the time of its next packet
 * @horizon_caps: packets whose time lay beyond the horizon and was set to it
 * @drops_horizon: packets dropped because their time lay beyond the horizon
 * @ce_marks: packets marked because of ce_threshold
 * @paced_flows: flows that wait for the time of their next packet now
 * @group_members: qdiscs that share the bucket, this one included; 0 without a group
 * @group_waiting: those of them that wait for tokens, or have since they were empty
 * @reserved2: 0
 * @group_tokens: bytes that may leave now from the shared bucket; below zero: that
 *	members wait for
 * @drops_ack: pure ACKs dropped because their flow held 16 of them already and a later
 *	one took their place
 * @drops_segments: GSO packets dropped because they had to be segmented and could not be,
 *	or would have become more than 2048 packets
 * @sockets: throttleable sockets with a backlog now; at most @socket_flows
 * @reserved3: 0
 */
struct tc_bpshaper_xstats {
	__u32	type;
	__u32	reserved;
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
	__u64	purged_packets;
	__u64	delay_hist[TC_BPSHAPER_HIST_BUCKETS];
	__u64	throttle_hist[TC_BPSHAPER_HIST_BUCKETS];
	__u64	lateness_hist[TC_BPSHAPER_HIST_BUCKETS];
	__u64	paced_waits;
	__u64	horizon_caps;
	__u64	drops_horizon;
	__u64	ce_marks;
	__u32	paced_flows;
	__u32	group_members;
	__u32	group_waiting;
	__u32	reserved2;
	__s64	group_tokens;
	__u64	drops_ack;
	__u64	drops_segments;
	__u32	sockets;
	__u32	reserved3;
};

/**
 * enum - states of a flow: that of its socket, the same for all flows of one
 * @TC_BPSHAPER_FLOW_SOCKETLESS: packets of one hash in the socketless pool
 * @TC_BPSHAPER_FLOW_UNTHROTTLED: its socket may send
 * @TC_BPSHAPER_FLOW_OVERLIMIT: its socket may send still, but holds more than its
 *	share
 * @TC_BPSHAPER_FLOW_THROTTLED: its socket may not send
 */
enum {
	TC_BPSHAPER_FLOW_SOCKETLESS,
	TC_BPSHAPER_FLOW_UNTHROTTLED,
	TC_BPSHAPER_FLOW_OVERLIMIT,
	TC_BPSHAPER_FLOW_THROTTLED,
};

/**
 * struct tc_bpshaper_class_xstats - TCA_STATS_APP of a class of "bpshaper"
 *
 * Classes are the flows that hold a backlog; their backlog in bytes and packets
 * is in the queue statistics. A connected socket has one flow, an unconnected one
 * has one for each peer: classes with the same @cookie are of one socket. The minor
 * number of a class is its place in the listing and says nothing about the next one.
 * Grows at its end only.
 *
 * @type: TC_BPSHAPER_XSTATS_CLASS
 * @state: TC_BPSHAPER_FLOW_*
 * @cookie: of the socket, as SO_COOKIE and `ss -e` have it; 0 if socketless
 * @longest_throttle_ns: longest throttle of the socket that has ended, or now
 *	goes on; the same for all its flows
 * @hash: of the packets, if socketless or of one peer of an unconnected socket; else 0
 * @throttles: times that the socket was throttled; the same for all its flows
 * @deficit: credit left in this round, bytes; negative is debt
 * @family: AF_* of the socket
 * @protocol: IPPROTO_* of the socket; of AF_PACKET: 0
 * @socket_flows: flows of the socket that hold a backlog now, this one included;
 *	0 if socketless
 * @socket_backlog: bytes of all of them that count in the share of the socket: no pure ACKs,
 *	and no packets that have a time of their own and are not due; 0 if socketless
 * @peer_family: AF_INET or AF_INET6, of @peer; 0 if no peer is known
 * @peer_port: destination port of the next packet (TCP, UDP, UDP-Lite), in network
 *	byte order; 0 if it has none
 * @reserved: 0
 * @peer: destination address of the next packet, in network byte order; of AF_INET
 *	the first four bytes, the others 0
 *
 * Counts are those since the flow was created, of a socket those since its first
 * flow was; one that has been empty for long is forgotten.
 */
struct tc_bpshaper_class_xstats {
	__u32	type;
	__u32	state;
	__u64	cookie;
	__u64	longest_throttle_ns;
	__u32	hash;
	__u32	throttles;
	__s32	deficit;
	__u16	family;
	__u16	protocol;
	__u32	socket_flows;
	__u32	socket_backlog;
	__u16	peer_family;
	__be16	peer_port;
	__u32	reserved;
	__u8	peer[16];
};

#endif /* _UAPI_SCH_BPSHAPER_H */
