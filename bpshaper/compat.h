/* SPDX-License-Identifier: GPL-2.0-only */
/* What differs between kernels, and between a module and a built-in. The other
 * files read as if written for mainline.
 */
#ifndef _BPSHAPER_COMPAT_H
#define _BPSHAPER_COMPAT_H

#ifndef CONFIG_NET_SCHED
#error bpshaper needs a kernel with CONFIG_NET_SCHED
#endif
#ifndef CONFIG_INET
#error bpshaper needs a kernel with CONFIG_INET
#endif

#include <linux/hrtimer.h>
#include <linux/kallsyms.h>
#include <linux/module.h>
#include <net/gen_stats.h>
#include <net/inet_connection_sock.h>
#include <net/pkt_cls.h>
#include <net/pkt_sched.h>
#include <net/sock.h>
#include <net/tcp.h>
#ifndef BPSHAPER_LACKS_NET_GSO_H
#include <net/gso.h>
#endif

/* Since 5.19. */
#ifndef DEBUG_NET_WARN_ON_ONCE
#define DEBUG_NET_WARN_ON_ONCE(cond)	BUILD_BUG_ON_INVALID(cond)
#endif

/* Kernels up to 6.8 autoload a qdisc as sch_<kind>, later ones by this alias.
 */
#ifndef MODULE_ALIAS_NET_SCH
#define MODULE_ALIAS_NET_SCH(id)	MODULE_ALIAS("net-sch-" id)
#endif

/* Since 6.13. */
#ifdef BPSHAPER_LACKS_HRTIMER_SETUP
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*fn)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = fn;
}
#endif

/* Say why, and fail. */
#define bpshaper_refuse(extack, err, text)				\
	({ NL_SET_ERR_MSG_MOD(extack, text); (err); })

/* Older kernels (6.1) have no numbers in extack messages. */
static inline void bpshaper_err_floors(struct netlink_ext_ack *extack,
				       bool is_refused, u64 sum, u64 most)
{
#ifdef NL_SET_ERR_MSG_FMT_MOD
	NL_SET_ERR_MSG_FMT_MOD(extack,
			       "floors add up to %llubit, %s %llubit", sum,
			       is_refused ? "the parent has" : "scaled to",
			       most);
#else
	NL_SET_ERR_MSG_MOD(extack,
			   "floors add up to more than that of the parent");
#endif
}

/* What filters say of a packet; negative if none matches. */
static inline int bpshaper_tcf_classify(struct sk_buff *skb,
					const struct tcf_proto *filters,
					struct tcf_result *res)
{
#ifndef BPSHAPER_LACKS_TCF_CLASSIFY_QDISC
	return tcf_classify_qdisc(skb, filters, res, false);
#elif !defined(BPSHAPER_LACKS_CLASSIFY_BLOCK)
	return tcf_classify(skb, NULL, filters, res, false);
#else
	return tcf_classify(skb, filters, res, false);
#endif
}

/* Since 5.16 counters of packets are synchronized by themselves. */
static inline int bpshaper_stats_copy_basic(struct gnet_dump *d, u64 bytes,
					    u64 packets)
{
#ifndef BPSHAPER_LACKS_STATS_SYNC
	struct gnet_stats_basic_sync basic;

	gnet_stats_basic_sync_init(&basic);
	u64_stats_set(&basic.bytes, bytes);
	u64_stats_set(&basic.packets, packets);
	return gnet_stats_copy_basic(d, NULL, &basic, false);
#else
	struct gnet_stats_basic_packed basic = {
		.bytes = bytes, .packets = packets,
	};

	return gnet_stats_copy_basic(NULL, d, NULL, &basic);
#endif
}

/* Count what @from has sent as sent by @to; if it is NULL, start with 0. */
static inline void bpshaper_stats_add_basic(struct Qdisc *to,
					    struct Qdisc *from)
{
#ifndef BPSHAPER_LACKS_STATS_SYNC
	if (from)
		gnet_stats_add_basic(&to->bstats, NULL, &from->bstats, false);
	else
		gnet_stats_basic_sync_init(&to->bstats);
#else
	if (!from)
		memset(&to->bstats, 0, sizeof(to->bstats));
	else
		_bstats_update(&to->bstats, from->bstats.bytes,
			       from->bstats.packets);
#endif
}

/* What dropwatch and perf see, and since 7.1 the event qdisc_drop. */
static inline void bpshaper_set_drop_nomem(const struct sk_buff *skb)
{
#ifndef BPSHAPER_LACKS_TCF_DROP_REASON
	tcf_set_drop_reason(skb, SKB_DROP_REASON_NOMEM);
#endif
}

static inline void bpshaper_set_drop_overlimit(const struct sk_buff *skb)
{
#ifndef BPSHAPER_LACKS_QDISC_DROP_REASON
	tcf_set_qdisc_drop_reason(skb, QDISC_DROP_OVERLIMIT);
#endif
}

/* Of the clock that the time of the packet is one of, if it is not monotonic.
 * Before 6.11 a packet does not say which.
 */
static inline enum tk_offsets bpshaper_skb_tk_offs(const struct sk_buff *skb)
{
#ifndef BPSHAPER_LACKS_TSTAMP_TYPE
	if (skb->tstamp_type == SKB_CLOCK_TAI)
		return TK_OFFS_TAI;
#endif
	return TK_OFFS_REAL;
}

/* Since 6.19 a GSO packet has the number of its segments. */
static inline void bpshaper_set_one_segment(const struct sk_buff *skb)
{
#ifndef BPSHAPER_LACKS_PKT_SEGS
	qdisc_skb_cb(skb)->pkt_segs = 1;
#endif
}

/* While a TCP socket is charged with more than it has queued, 5.10 does not
 * retransmit when its timer fires, and doubles the timer. 6.1 and later
 * retransmit.
 */
static inline bool bpshaper_tcp_must_retransmit(const struct sock *sk)
{
#ifdef BPSHAPER_LACKS_CHARGED_RETRANSMIT
	return inet_csk(sk)->icsk_ca_state >= TCP_CA_Recovery;
#else
	return false;
#endif
}

/* tcp_wfree() is exported since 7.2. Before, a module looks up the name of the
 * destructors that it meets. Without CONFIG_KALLSYMS the name is a number, and
 * TCP shares the socketless pool.
 */
#if defined(MODULE) && defined(BPSHAPER_LACKS_TCP_WFREE)
static bool bpshaper_is_tcp_wfree(void (*destructor)(struct sk_buff *skb))
{
	static void (*known)(struct sk_buff *skb);
	static void (*other)(struct sk_buff *skb);
	char name[16];

	if (destructor == READ_ONCE(known))
		return true;
	if (destructor == READ_ONCE(other))
		return false;

	snprintf(name, sizeof(name), "%ps", destructor);
	if (strcmp(name, "tcp_wfree")) {
		WRITE_ONCE(other, destructor);
		return false;
	}
	WRITE_ONCE(known, destructor);
	return true;
}
#else
static bool bpshaper_is_tcp_wfree(void (*destructor)(struct sk_buff *skb))
{
	return destructor == tcp_wfree;
}
#endif

#endif /* _BPSHAPER_COMPAT_H */
