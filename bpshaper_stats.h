/* SPDX-License-Identifier: GPL-2.0-only */
/* Statistics: of the qdisc, and of its classes.
 *
 * A class is a flow that holds a backlog or whose socket is outside, to look at
 * only. What the core takes
 * for the handle of a class is a copy of the flow's figures, made under the
 * root lock and valid for one call of the walker.
 */
#ifndef _BPSHAPER_STATS_H
#define _BPSHAPER_STATS_H

static void bpshaper_stats_get(struct Qdisc *sch,
			       struct tc_bpshaper_xstats *st)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	const struct bpshaper_backpressure *bp = &q->own.bp;
	const u64 *drops = q->stat_drops;

	*st = (struct tc_bpshaper_xstats) {
		.type			= TC_BPSHAPER_XSTATS_QDISC,
		.throttles		= bp->stat_throttles,
		.unthrottles		= bp->stat_unthrottles,
		.drops_pool		= drops[BPSHAPER_DROP_POOL],
		.drops_memory		= drops[BPSHAPER_DROP_MEMORY],
		.drops_alloc		= drops[BPSHAPER_DROP_ALLOC],
		.segments		= q->stat_segments,
		.ballast_errors		= bp->stat_ballast_errors,
		.timer_wakeups		= q->stat_timer_wakeups,
		.direct_packets		= q->stat_direct_packets,
		.max_backlog		= q->max_backlog,
		.memory			= bpshaper_memory(q),
		.throttled_sockets	= bp->stat_throttles -
					  bp->stat_unthrottles,
		.overlimit_sockets	= bp->overlimit_len,
		.outside_sockets	= q->own.flows.turns.outside_len,
		.turns			= q->own.flows.turns.stat_turns,
		.flows			= q->own.flows.active,
		.socket_flows		= q->own.flows.socket_flows,
		.sockets		= q->own.flows.sockets,
		.share			= bpshaper_share_compute(bp,
						bpshaper_limit(&q->own),
						bpshaper_contenders(&q->own)),
		.pool_backlog		= q->own.pool.backlog,
		.limit			= q->limit,
		.parked_flows		= q->table.parked_len,
		.purged_packets		= q->stat_purged,
		.paced_waits		= q->pacing.stat_waits,
		.horizon_caps		= q->pacing.stat_horizon_caps,
		.drops_horizon		= drops[BPSHAPER_DROP_HORIZON],
		.drops_ack		= drops[BPSHAPER_DROP_ACK],
		.drops_segments		= drops[BPSHAPER_DROP_SEGMENTS],
		.ce_marks		= q->stat_ce_marks,
		.paced_flows		= q->own.flows.waiting_len,
	};
	memcpy(st->delay_hist, q->delay_hist.counts, sizeof(st->delay_hist));
	memcpy(st->throttle_hist, bp->throttle_hist.counts,
	       sizeof(st->throttle_hist));
	memcpy(st->lateness_hist, q->lateness_hist.counts,
	       sizeof(st->lateness_hist));
	memcpy(st->outside_hist, q->own.flows.turns.outside_hist.counts,
	       sizeof(st->outside_hist));
}

static void bpshaper_group_stats_get(const struct bpshaper_sched *q,
				     struct tc_bpshaper_xstats *st)
{
	const struct bpshaper_group *g = q->member.group;

	if (!g)
		return;
	st->group_tokens = bpshaper_member_tokens(&q->member, &q->rate,
						  ktime_get_ns());
	st->group_members = g->members_len;
	st->group_waiting = atomic_read(&g->waiting);
}

/* The struct is too large for the stack. */
static int bpshaper_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct tc_bpshaper_xstats *st = kmalloc(sizeof(*st), GFP_KERNEL);
	int err;

	if (!st)
		return -ENOMEM;
	sch_tree_lock(sch);
	bpshaper_assert_all(sch);
	bpshaper_stats_get(sch, st);
	bpshaper_group_stats_get(qdisc_priv(sch), st);
	sch_tree_unlock(sch);
	err = gnet_stats_copy_app(d, st, sizeof(*st));
	kfree(st);
	return err;
}

/* Classes */

/**
 * struct bpshaper_class - figures of a flow
 * @minor: of the class
 * @has_peer: the reader may see whom others send to
 * @qstats: backlog
 * @xstats: the rest
 */
struct bpshaper_class {
	u32				minor;
	bool				has_peer;
	struct gnet_stats_queue		qstats;
	struct tc_bpshaper_class_xstats	xstats;
};

static u32 bpshaper_class_state(const struct bpshaper_flow *f)
{
	if (!f->socket)
		return TC_BPSHAPER_FLOW_SOCKETLESS;
	return TC_BPSHAPER_FLOW_UNTHROTTLED + f->socket->state;
}

/* The destination port of a packet; its transport header, of @protocol, is at
 * @offset. 0 if it has none.
 */
static __be16 bpshaper_skb_port(const struct sk_buff *skb, int offset,
				u8 protocol)
{
	__be16 buf[2], *ports;

	if (protocol != IPPROTO_UDP && protocol != IPPROTO_UDPLITE &&
	    protocol != IPPROTO_TCP)
		return 0;
	ports = skb_header_pointer(skb, offset, sizeof(buf), buf);
	return ports ? ports[1] : 0;
}

/* The destination of a packet, if it is IP. */
static void bpshaper_class_get_peer(struct tc_bpshaper_class_xstats *st,
				    const struct sk_buff *skb)
{
	int offset = skb_network_offset(skb);
	union {
		struct iphdr	v4;
		struct ipv6hdr	v6;
	} buf, *h;

	if (skb->protocol == htons(ETH_P_IP)) {
		h = skb_header_pointer(skb, offset, sizeof(buf.v4), &buf.v4);
		if (!h)
			return;
		st->peer_family = AF_INET;
		memcpy(st->peer, &h->v4.daddr, sizeof(h->v4.daddr));
		if (ip_is_fragment(&h->v4))
			return;
		offset += h->v4.ihl * 4;
		st->peer_port = bpshaper_skb_port(skb, offset, h->v4.protocol);
	} else if (skb->protocol == htons(ETH_P_IPV6)) {
		h = skb_header_pointer(skb, offset, sizeof(buf.v6), &buf.v6);
		if (!h)
			return;
		st->peer_family = AF_INET6;
		memcpy(st->peer, &h->v6.daddr, sizeof(h->v6.daddr));
		offset += sizeof(h->v6);
		st->peer_port = bpshaper_skb_port(skb, offset, h->v6.nexthdr);
	}
}

static void bpshaper_class_get_socket(struct tc_bpshaper_class_xstats *st,
				      const struct bpshaper_socket *s)
{
	const struct sock *sk = s->sk;

	st->cookie = bpshaper_sock_cookie(s->sk);
	st->family = sk->sk_family;
	st->protocol = sk->sk_family == PF_PACKET ? 0 : sk->sk_protocol;
	st->throttles = s->throttles;
	st->longest_throttle_ns = s->longest_ns;
	if (bpshaper_socket_is_throttled(s))
		st->longest_throttle_ns = max(s->longest_ns,
					      ktime_get_ns() - s->throttled_ns);
	st->socket_flows = s->flows;
	st->socket_backlog = bpshaper_socket_due(s);
}

static void bpshaper_class_get(struct bpshaper_class *cl,
			       const struct bpshaper_flow *f)
{
	struct tc_bpshaper_class_xstats *st = &cl->xstats;

	cl->qstats.qlen = f->qlen;
	cl->qstats.backlog = f->backlog;
	st->type = TC_BPSHAPER_XSTATS_CLASS;
	st->state = bpshaper_class_state(f);
	st->deficit = f->deficit;
	st->hash = f->key.hash;
	if (cl->has_peer && f->head)
		bpshaper_class_get_peer(st, f->head);
	if (f->socket)
		bpshaper_class_get_socket(st, f->socket);
}

/* The class behind the cursor; false at the end. Anybody may list classes in a
 * loop, so each pass looks at a bounded number of flows under the lock.
 */
static noinline bool bpshaper_class_next(struct Qdisc *sch,
					 struct bpshaper_class *cl,
					 struct bpshaper_cursor *cursor,
					 bool has_peer)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_flow *f;

	memset(cl, 0, sizeof(*cl));
	cl->has_peer = has_peer;
	do {
		sch_tree_lock(sch);
		f = bpshaper_cursor_next_active(&q->table, cursor);
		if (f)
			bpshaper_class_get(cl, f);
		sch_tree_unlock(sch);
	} while (!f && !bpshaper_cursor_is_at_end(cursor));
	return f;
}

/* A listing takes many calls, and each skips what the earlier ones have seen.
 * The cursor of the last call saves the search.
 */
static void bpshaper_walk(struct Qdisc *sch, struct qdisc_walker *arg)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_cursor cursor = {};
	struct bpshaper_class cl;
	bool has_peer;

	if (arg->stop)
		return;
	/* Ask for the capability of the reader: a walker is not told who opened
	 * the netlink socket.
	 */
	has_peer = ns_capable_noaudit(q->net->user_ns, CAP_NET_ADMIN);
	if (arg->skip && arg->skip == q->cursor_count) {
		cursor = q->cursor;
		arg->count = arg->skip;
	}
	q->cursor = cursor;
	while (bpshaper_class_next(sch, &cl, &cursor, has_peer)) {
		cl.minor = arg->count % TC_H_MIN_MASK + 1;
		if (arg->count >= arg->skip &&
		    arg->fn(sch, (unsigned long)&cl, arg) < 0) {
			arg->stop = 1;
			break;
		}
		arg->count++;
		q->cursor = cursor;
	}
	q->cursor_count = arg->count;
}

static int bpshaper_dump_class(struct Qdisc *sch, unsigned long cl,
			       struct sk_buff *skb, struct tcmsg *tcm)
{
	tcm->tcm_handle |= ((struct bpshaper_class *)cl)->minor;
	return 0;
}

static int bpshaper_dump_class_stats(struct Qdisc *sch, unsigned long arg,
				     struct gnet_dump *d)
{
	struct bpshaper_class *cl = (struct bpshaper_class *)arg;
	u32 qlen = cl->qstats.qlen;

	if (gnet_stats_copy_queue(d, NULL, &cl->qstats, qlen) < 0)
		return -1;
	return gnet_stats_copy_app(d, &cl->xstats, sizeof(cl->xstats));
}

static struct Qdisc *bpshaper_leaf(struct Qdisc *sch, unsigned long arg)
{
	return NULL;
}

static unsigned long bpshaper_find(struct Qdisc *sch, u32 classid)
{
	return 0;
}

static const struct Qdisc_class_ops bpshaper_class_ops = {
	.leaf		= bpshaper_leaf,
	.find		= bpshaper_find,
	.walk		= bpshaper_walk,
	.dump		= bpshaper_dump_class,
	.dump_stats	= bpshaper_dump_class_stats,
};

#endif /* _BPSHAPER_STATS_H */
