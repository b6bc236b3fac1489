/* SPDX-License-Identifier: GPL-2.0-only */
/* Tracepoints: /sys/kernel/tracing/events/bpshaper. Sizes are in bytes, times
 * in ns. They say what no counter can: which socket, and when.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM bpshaper

#if !defined(_BPSHAPER_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _BPSHAPER_TRACE_H

#include <linux/tracepoint.h>
#include <net/pkt_sched.h>
#include <net/sock.h>

DECLARE_EVENT_CLASS(bpshaper_sock,
	TP_PROTO(struct Qdisc *sch, struct sock *sk, u32 backlog, u32 share,
		 u64 duration),

	TP_ARGS(sch, sk, backlog, share, duration),

	TP_STRUCT__entry(
		__array(char,	dev, IFNAMSIZ)
		__field(u32,	handle)
		__field(u64,	cookie)
		__field(u16,	family)
		__field(u16,	protocol)
		__field(u32,	backlog)
		__field(u32,	share)
		__field(u64,	duration)
	),

	TP_fast_assign(
		strscpy(__entry->dev, qdisc_dev(sch)->name, IFNAMSIZ);
		__entry->handle = sch->handle;
		__entry->cookie = bpshaper_sock_cookie(sk);
		__entry->family = sk->sk_family;
		__entry->protocol = sk->sk_protocol;
		__entry->backlog = backlog;
		__entry->share = share;
		__entry->duration = duration;
	),

	TP_printk("dev=%s handle=%x: cookie=%llx family=%u protocol=%u backlog=%u share=%u duration=%llu",
		  __entry->dev, __entry->handle >> 16, __entry->cookie,
		  __entry->family, __entry->protocol, __entry->backlog,
		  __entry->share, __entry->duration)
);

#define BPSHAPER_SOCK_EVENT(name)					\
	DEFINE_EVENT(bpshaper_sock, name,				\
		TP_PROTO(struct Qdisc *sch, struct sock *sk,		\
			 u32 backlog, u32 share, u64 duration),		\
		TP_ARGS(sch, sk, backlog, share, duration))

/**
 * sock_throttle - a socket may not send any more
 * @sch: the qdisc
 * @sk: the socket
 * @backlog: bytes that it has queued and that count in its share
 * @share: bytes that it should have at most
 * @duration: 0
 */
BPSHAPER_SOCK_EVENT(sock_throttle);

/**
 * sock_burst - a socket that was idle exceeds its share and may still send
 * @sch: the qdisc
 * @sk: the socket
 * @backlog: bytes that it has queued
 * @share: bytes that a socket should have at most
 * @duration: 0
 */
BPSHAPER_SOCK_EVENT(sock_burst);

/**
 * sock_unthrottle - a socket may send again
 * @sch: the qdisc
 * @sk: the socket
 * @backlog: bytes that it still has queued and that count in its share
 * @share: bytes that it should have at most
 * @duration: ns since it was throttled
 */
BPSHAPER_SOCK_EVENT(sock_unthrottle);

/**
 * sock_turn - a socket outside gets a turn
 * @sch: the qdisc
 * @sk: the socket
 * @backlog: bytes that it still has queued and that count in its share
 * @share: bytes that it may queue
 * @duration: ns since it had drained
 */
BPSHAPER_SOCK_EVENT(sock_turn);

TRACE_DEFINE_ENUM(BPSHAPER_DROP_POOL);
TRACE_DEFINE_ENUM(BPSHAPER_DROP_MEMORY);
TRACE_DEFINE_ENUM(BPSHAPER_DROP_ALLOC);
TRACE_DEFINE_ENUM(BPSHAPER_DROP_ACK);
TRACE_DEFINE_ENUM(BPSHAPER_DROP_SEGMENTS);

/**
 * drop - a packet was dropped
 * @sch: the qdisc
 * @skb: the packet
 * @reason: why
 */
TRACE_EVENT(drop,
	TP_PROTO(struct Qdisc *sch, const struct sk_buff *skb,
		 enum bpshaper_drop reason),

	TP_ARGS(sch, skb, reason),

	TP_STRUCT__entry(
		__array(char,	dev, IFNAMSIZ)
		__field(u32,	handle)
		__field(const void *, skbaddr)
		__field(u32,	len)
		__field(u16,	protocol)
		__field(u8,	reason)
		__field(u32,	backlog)
	),

	TP_fast_assign(
		strscpy(__entry->dev, qdisc_dev(sch)->name, IFNAMSIZ);
		__entry->handle = sch->handle;
		__entry->skbaddr = skb;
		__entry->len = qdisc_pkt_len(skb);
		__entry->protocol = ntohs(skb->protocol);
		__entry->reason = reason;
		__entry->backlog = sch->qstats.backlog;
	),

	TP_printk("dev=%s handle=%x: skbaddr=%p len=%u protocol=0x%04x reason=%s backlog=%u",
		  __entry->dev, __entry->handle >> 16, __entry->skbaddr,
		  __entry->len, __entry->protocol,
		  __print_symbolic(__entry->reason,
				   { BPSHAPER_DROP_POOL, "pool" },
				   { BPSHAPER_DROP_MEMORY, "memory" },
				   { BPSHAPER_DROP_ALLOC, "alloc" },
				   { BPSHAPER_DROP_ACK, "ack" },
				   { BPSHAPER_DROP_SEGMENTS, "segments" }),
		  __entry->backlog)
);

/**
 * watchdog - the watchdog has fired, and the qdisc is dequeued
 * @sch: the qdisc
 * @lateness: ns since it was due
 */
TRACE_EVENT(watchdog,
	TP_PROTO(struct Qdisc *sch, u64 lateness),

	TP_ARGS(sch, lateness),

	TP_STRUCT__entry(
		__array(char,	dev, IFNAMSIZ)
		__field(u32,	handle)
		__field(u32,	backlog)
		__field(u64,	lateness)
	),

	TP_fast_assign(
		strscpy(__entry->dev, qdisc_dev(sch)->name, IFNAMSIZ);
		__entry->handle = sch->handle;
		__entry->backlog = sch->qstats.backlog;
		__entry->lateness = lateness;
	),

	TP_printk("dev=%s handle=%x: backlog=%u lateness=%llu",
		  __entry->dev, __entry->handle >> 16, __entry->backlog,
		  __entry->lateness)
);

/**
 * hub_send - a queue that shares a hub sends a packet
 * @sch: the qdisc
 * @classid: of the class that it leaves, or 0
 * @bytes: its wire length; of a GSO packet with the headers of all segments
 * @now: time of the decision, ns of CLOCK_MONOTONIC
 *
 * The law is about the sum of all queues, in the order of this time:
 * what follows the decision comes later on one CPU than on another.
 */
TRACE_EVENT(hub_send,
	TP_PROTO(struct Qdisc *sch, u32 classid, u32 bytes, u64 now),

	TP_ARGS(sch, classid, bytes, now),

	TP_STRUCT__entry(
		__array(char,	dev, IFNAMSIZ)
		__field(u32,	handle)
		__field(u32,	queue)
		__field(u32,	classid)
		__field(u32,	bytes)
		__field(u64,	now)
	),

	TP_fast_assign(
		strscpy(__entry->dev, qdisc_dev(sch)->name, IFNAMSIZ);
		__entry->handle = sch->handle;
		__entry->queue = sch->dev_queue - qdisc_dev(sch)->_tx;
		__entry->classid = classid;
		__entry->bytes = bytes;
		__entry->now = now;
	),

	TP_printk("dev=%s queue=%u: classid=%x bytes=%u now=%llu",
		  __entry->dev, __entry->queue, __entry->classid,
		  __entry->bytes, __entry->now)
);

#endif /* _BPSHAPER_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH bpshaper
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
