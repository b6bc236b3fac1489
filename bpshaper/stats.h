/* SPDX-License-Identifier: GPL-2.0-only */
/* Statistics. */
#ifndef _BPSHAPER_STATS_H
#define _BPSHAPER_STATS_H

/* Statistics: of the qdisc, of its classes, and of its flows.
 *
 * Flows that hold a backlog, or whose socket is outside, are listed as classes
 * behind the classes, to look at only. Their number is that of the qdisc, which
 * no class may have: who adds what was listed gets no class for a flow. What
 * the core then takes for the handle of a class is the address of a copy of the
 * flow's figures plus one. It is made under the root lock and valid for one
 * call of the walker.
 */

/* What @leaf adds to @stats, of the qdisc or of its class: both have these
 * members.
 */
#define bpshaper_stats_add_leaf(stats, leaf)				\
	do {								\
		const struct bpshaper_leaf *_l = (leaf);		\
		const struct bpshaper_flows *_f = &_l->flows;		\
		const struct bpshaper_counters *_c = &_f->stat;		\
		typeof(stats) _st = (stats);				\
									\
		_st->throttles += _c->throttles;			\
		_st->unthrottles += _c->unthrottles;			\
		_st->turns += _c->turns;				\
		_st->drops_pool += _c->drops[BPSHAPER_DROP_POOL];	\
		_st->drops_memory += _c->drops[BPSHAPER_DROP_MEMORY];	\
		_st->drops_alloc += _c->drops[BPSHAPER_DROP_ALLOC];	\
		_st->drops_ack += _c->drops[BPSHAPER_DROP_ACK];		\
		_st->drops_segments += _c->drops[BPSHAPER_DROP_SEGMENTS]; \
		_st->ce_marks += _c->ce_marks;				\
		bpshaper_counters_add(_st->delay_hist, _c->delay_hist,	\
				      sizeof(_c->delay_hist));		\
		bpshaper_counters_add(_st->throttle_hist, _c->throttle_hist, \
				      sizeof(_c->throttle_hist));	\
		bpshaper_counters_add(_st->outside_hist, _c->outside_hist, \
				      sizeof(_c->outside_hist));	\
		_st->throttled_sockets += _c->throttles - _c->unthrottles; \
		_st->overlimit_sockets += _l->bp.overlimit_len;		\
		_st->outside_sockets += _f->turns.outside_len;		\
		_st->flows += _f->active;				\
		_st->socket_flows += _f->socket_flows;			\
		_st->sockets += _f->sockets;				\
		_st->pool_backlog += _f->pool_backlog;			\
		_st->paced_flows += _f->waiting_len;			\
	} while (0)

/* Likewise, and what only the qdisc counts */
static void bpshaper_stats_add_flows(struct tc_bpshaper_xstats *st,
				     const struct bpshaper_leaf *l)
{
	bpshaper_stats_add_leaf(st, l);
	st->idle_throttles += l->flows.stat.idle_throttles;
	st->ballast_errors += l->flows.stat.ballast_errors;
}

/* What the qdisc, or the queue, counts itself, and what its leaves do. One lock
 * for each class, so that packets need not wait for all.
 */
static void bpshaper_stats_add_queue(struct Qdisc *sch,
				     struct tc_bpshaper_xstats *st)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_class *cl;
	u32 share;

	sch_tree_lock(sch);
	bpshaper_assert_all(sch);
	share = bpshaper_share_compute(&q->own.bp, bpshaper_limit(&q->own),
				       bpshaper_contenders(&q->own));
	st->segments += q->stat_segments;
	st->timer_wakeups += q->stat_timer_wakeups;
	st->direct_packets += q->stat_direct_packets;
	st->max_backlog = max_t(u64, st->max_backlog, q->max_backlog);
	st->memory += q->table.memory.used;
	if (q->direct)
		st->memory += bpshaper_skb_memory(q->direct);
	st->share = max_t(u32, st->share, share);
	st->parked_flows += q->table.parked_len;
	st->purged_packets += q->stat_purged;
	st->paced_waits += q->pacing.stat_waits;
	st->horizon_caps += q->pacing.stat_horizon_caps;
	st->unheld_no_owner += q->stat_unheld[BPSHAPER_NO_OWNER];
	st->unheld_foreign += q->stat_unheld[BPSHAPER_FOREIGN];
	st->unheld_sndbuf += q->stat_unheld[BPSHAPER_SNDBUF];
	st->unheld_control += q->stat_unheld[BPSHAPER_CONTROL];
	st->unheld_destructor += q->stat_unheld[BPSHAPER_DESTRUCTOR];
	bpshaper_counters_add(st->lateness_hist, q->lateness_hist,
			      sizeof(q->lateness_hist));
	st->hub_waiting += st->queues && READ_ONCE(q->member.slots) &&
			   READ_ONCE(q->member.asleep);
	bpshaper_stats_add_flows(st, &q->own);
	sch_tree_unlock(sch);
	list_for_each_entry(cl, &q->classes, list) {
		sch_tree_lock(sch);
		bpshaper_stats_add_flows(st, &cl->own);
		sch_tree_unlock(sch);
	}
}

/* The struct is too large for the stack. */
static int bpshaper_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct tc_bpshaper_xstats *st = kzalloc(sizeof(*st), GFP_KERNEL);
	const struct bpshaper_sched *q = qdisc_priv(sch);
	const struct bpshaper_hub *hub = q->hub;
	const struct bpshaper_node *root;
	u64 now = ktime_get_ns();
	struct Qdisc *queue;
	int err;
	u32 i;

	if (!st)
		return -ENOMEM;
	st->type = TC_BPSHAPER_XSTATS_QDISC;
	st->limit = q->limit;
	if (q->queues) {
		root = &hub->tree.root;
		st->queues = qdisc_dev(sch)->real_num_tx_queues;
		/* a hint */
		st->hub_tokens = data_race(bpshaper_bucket_room(&root->bucket,
								&root->ceil,
								now));
		st->hub_locks = READ_ONCE(hub->stat_locks);
		st->hub_grants = READ_ONCE(hub->stat_grants);
		st->hub_revokes = READ_ONCE(hub->stat_revokes);
	}
	for (i = 0; (queue = bpshaper_queue(sch, i)); i++)
		bpshaper_stats_add_queue(queue, st);
	err = gnet_stats_copy_app(d, st, sizeof(*st));
	kfree(st);
	return err;
}

/* Flows */

/**
 * struct bpshaper_figures - figures of a flow that is listed as a class
 * @classid: number of its class, or 0
 * @is_dumped: the walker has asked for them
 * @qstats: backlog
 * @xstats: the rest
 */
struct bpshaper_figures {
	u32				classid;
	bool				is_dumped;
	struct gnet_stats_queue		qstats;
	struct tc_bpshaper_class_xstats	xstats;
};

/* @has_peer: the reader may see whom others send to. */
static void bpshaper_figures_get(struct bpshaper_figures *fig,
				 const struct bpshaper_flow *f, bool has_peer)
{
	struct tc_bpshaper_class_xstats *st = &fig->xstats;
	const struct bpshaper_socket *s = f->socket;
	struct flow_keys keys;

	fig->classid = bpshaper_leaf_classid(bpshaper_flow_leaf(f));
	fig->qstats.qlen = f->qlen;
	fig->qstats.backlog = f->backlog;
	st->type = TC_BPSHAPER_XSTATS_CLASS;
	st->state = TC_BPSHAPER_FLOW_SOCKETLESS;
	st->deficit = clamp_t(s64, f->flows->vtime - f->v, S32_MIN, S32_MAX);
	st->hash = f->key.hash;
	/* The destination of the next packet, if it is IP. */
	if (has_peer && f->head &&
	    skb_flow_dissect_flow_keys(f->head, &keys,
				       FLOW_DISSECTOR_F_STOP_AT_ENCAP)) {
		if (keys.control.addr_type == FLOW_DISSECTOR_KEY_IPV4_ADDRS) {
			st->peer_family = AF_INET;
			memcpy(st->peer, &keys.addrs.v4addrs.dst, 4);
		}
		if (keys.control.addr_type == FLOW_DISSECTOR_KEY_IPV6_ADDRS) {
			st->peer_family = AF_INET6;
			memcpy(st->peer, &keys.addrs.v6addrs.dst, 16);
		}
		if (keys.basic.ip_proto == IPPROTO_TCP ||
		    keys.basic.ip_proto == IPPROTO_UDP ||
		    keys.basic.ip_proto == IPPROTO_UDPLITE)
			st->peer_port = keys.ports.dst;
	}
	if (!s)
		return;
	st->state = TC_BPSHAPER_FLOW_UNTHROTTLED + s->state;
	st->cookie = bpshaper_sock_cookie(s->sk);
	st->family = s->sk->sk_family;
	st->protocol = st->family == PF_PACKET ? 0 : s->sk->sk_protocol;
	st->throttles = s->throttles;
	st->longest_throttle_ns = s->longest_ns;
	if (bpshaper_socket_is_throttled(s))
		st->longest_throttle_ns = max(s->longest_ns,
					      ktime_get_ns() - s->throttled_ns);
	st->socket_flows = s->flows;
	st->socket_backlog = bpshaper_socket_due(s);
}

/* Classes, until the walker stops, and then flows with a backlog. A listing
 * takes many calls, and each skips what the earlier ones have seen. If the last
 * call had come to the flows, its cursor saves the search. Anybody may list
 * flows in a loop, so each hold of the root lock looks at a bounded number.
 */
static void bpshaper_walk(struct Qdisc *sch, struct qdisc_walker *arg)
{
	struct bpshaper_sched *q = qdisc_priv(sch), *one;
	struct bpshaper_cursor cursor = {};
	struct bpshaper_figures fig;
	struct bpshaper_class *cl;
	struct bpshaper_flow *f;
	struct Qdisc *queue;
	bool has_peer;

	list_for_each_entry(cl, &q->classes, list) {
		if (arg->count >= arg->skip &&
		    arg->fn(sch, (unsigned long)cl, arg) < 0) {
			arg->stop = 1;
			return;
		}
		arg->count++;
	}

	/* Ask for the capability of the reader: a walker is not told who opened
	 * the netlink socket.
	 */
	has_peer = ns_capable_noaudit(q->net->user_ns, CAP_NET_ADMIN);
	if (arg->skip > arg->count && arg->skip == q->cursor_count) {
		cursor = q->cursor;
		arg->count = arg->skip;
	}
	while ((queue = bpshaper_queue(sch, cursor.queue))) {
		one = qdisc_priv(queue);
		memset(&fig, 0, sizeof(fig));
		sch_tree_lock(queue);
		f = bpshaper_cursor_next_active(&one->table, &cursor);
		if (f)
			bpshaper_figures_get(&fig, f, has_peer);
		sch_tree_unlock(queue);
		if (bpshaper_cursor_is_at_end(&cursor))
			cursor = (struct bpshaper_cursor) {
				.queue = cursor.queue + 1,
			};
		if (!f)
			continue;
		if (arg->count >= arg->skip) {
			if (arg->fn(sch, (unsigned long)&fig + 1, arg) < 0) {
				arg->stop = 1;
				return;
			}
			/* The core's other walkers look for filters and child
			 * qdiscs, which no flow has.
			 */
			if (!fig.is_dumped)
				return;
		}
		arg->count++;
		q->cursor = cursor;
		q->cursor_count = arg->count;
	}
}

static int bpshaper_dump_class(struct Qdisc *sch, unsigned long arg,
			       struct sk_buff *skb, struct tcmsg *tcm)
{
	struct bpshaper_class *cl = (struct bpshaper_class *)arg;
	struct bpshaper_class_config config;
	struct bpshaper_figures *fig;

	if (bpshaper_class_is_flow(arg)) {
		fig = (struct bpshaper_figures *)(arg - 1);
		fig->is_dumped = true;
		if (fig->classid)
			tcm->tcm_parent = fig->classid;
		return 0;
	}
	tcm->tcm_parent = cl->parent ? cl->parent->common.classid : TC_H_ROOT;
	tcm->tcm_handle = cl->common.classid;
	config = cl->config;
	config.burst = cl->burst;
	return bpshaper_options_dump(skb, bpshaper_class_options,
				     TCA_BPSHAPER_CLASS_MAX, &config);
}

static int bpshaper_dump_class_stats(struct Qdisc *sch, unsigned long arg,
				     struct gnet_dump *d)
{
	struct bpshaper_class *cl = (struct bpshaper_class *)arg;
	u64 bytes = 0, packets = 0, sent_ns = 0;
	struct bpshaper_sched *q = qdisc_priv(sch), *one;
	struct tc_bpshaper_leaf_xstats st = {};
	struct gnet_stats_queue qstats = {};
	struct bpshaper_figures *fig;
	struct bpshaper_leaf *l;
	bool had_backlog;
	struct Qdisc *queue;
	u32 share, i, k;

	if (bpshaper_class_is_flow(arg)) {
		fig = (struct bpshaper_figures *)(arg - 1);
		return gnet_stats_copy_queue(d, NULL, &fig->qstats,
					     fig->qstats.qlen) ?:
		       gnet_stats_copy_app(d, &fig->xstats,
					   sizeof(fig->xstats));
	}
	st.type = TC_BPSHAPER_XSTATS_LEAF;
	st.children = cl->children;
	st.ceil_waits = READ_ONCE(cl->node.stat_waits);
	st.floor_in_effect = bpshaper_class_floor_in_effect(q, cl);
	qstats.overlimits = st.ceil_waits;
	for (i = 0; (queue = bpshaper_queue(sch, i)); i++) {
		l = &bpshaper_class_part(queue, cl)->own;
		sch_tree_lock(queue);
		/* What it gets, and may queue, where there is a backlog;
		 * without one, what the queue had which sent last.
		 */
		had_backlog = st.flows;
		if (had_backlog && l->flows.active) {
			st.rate += l->Bps;
			st.limit = min_t(u64, (u64)st.limit + l->limit,
					 U32_MAX);
		} else if (l->flows.active ||
			   (!had_backlog && l->sent_ns >= sent_ns)) {
			st.rate = l->Bps;
			st.limit = l->limit;
			sent_ns = l->sent_ns;
		}
		bpshaper_stats_add_leaf(&st, l);
		share = bpshaper_share_compute(&l->bp, bpshaper_limit(l),
					       bpshaper_contenders(l));
		st.share = max(st.share, share);
		bytes += l->stat_bytes;
		packets += l->stat_packets;
		qstats.qlen += l->flows.qlen;
		qstats.backlog += l->flows.backlog;
		one = qdisc_priv(queue);
		if (one->direct && one->direct_leaf == l) {
			qstats.qlen++;
			qstats.backlog += qdisc_pkt_len(one->direct);
		}
		for (k = 0; k < BPSHAPER_DROP_REASONS; k++)
			qstats.drops += l->flows.stat.drops[k];
		sch_tree_unlock(queue);
	}
	return bpshaper_stats_copy_basic(d, bytes, packets) ?:
	       gnet_stats_copy_queue(d, NULL, &qstats, qstats.qlen) ?:
	       gnet_stats_copy_app(d, &st, sizeof(st));
}

static const struct Qdisc_class_ops bpshaper_class_ops = {
	.graft		= bpshaper_class_graft,
	.leaf		= bpshaper_class_child,
	.find		= bpshaper_class_search,
	.change		= bpshaper_class_change,
	.delete		= bpshaper_class_delete,
	.walk		= bpshaper_walk,
	.tcf_block	= bpshaper_class_block,
	.bind_tcf	= bpshaper_class_bind,
	.unbind_tcf	= bpshaper_class_unbind,
	.dump		= bpshaper_dump_class,
	.dump_stats	= bpshaper_dump_class_stats,
};

#endif /* _BPSHAPER_STATS_H */
