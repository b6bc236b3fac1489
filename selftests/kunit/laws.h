/* SPDX-License-Identifier: GPL-2.0-only */
/* L3, L4 and L5 of Documentation/design.rst, asserted with CONFIG_DEBUG_NET:
 * after each packet, and by a walk over all flows when statistics are read.
 */
#ifndef _BPSHAPER_LAWS_H
#define _BPSHAPER_LAWS_H

/**
 * struct bpshaper_sums - what the flows add up to
 * @packets: packets queued
 * @backlog: bytes queued
 * @memory: bytes of memory that the packets of flows take
 * @later: bytes of flows that are not due
 * @exempt: bytes that do not count in the share of a socket
 * @flows: flows with a backlog
 * @sockets: sockets with a backlog
 * @throttled: sockets in state THROTTLED
 * @overlimit: sockets in state OVERLIMIT
 * @outside: sockets in state OUTSIDE
 * @rest: bytes that sockets may still queue in their turns
 * @inside: bytes of sockets that take turns, not for later
 * @bursts: bytes that sockets were let queue beyond their shares
 * @kept: flows that are kept
 * @used: bytes of memory that users hold
 * @parked: flows that are parked
 * @socket: the socket whose flows are being added
 * @socket_data: its bytes, pure ACKs not counted
 * @socket_ready: bytes that are not for later
 * @socket_exempt: bytes of them that do not count in its share
 * @socket_flows: its flows with a backlog
 * @socket_peers: its flows of a peer each
 */
struct bpshaper_sums {
	u32	packets;
	u32	backlog;
	u64	memory;
	u32	later;
	u32	exempt;
	u32	flows;
	u32	sockets;
	u64	throttled;
	u32	overlimit;
	u32	outside;
	u64	rest;
	u64	inside;
	u32	bursts;
	u32	kept;
	u64	used;
	u32	parked;
	const struct bpshaper_socket *socket;
	u32	socket_data;
	u32	socket_ready;
	u32	socket_exempt;
	u32	socket_flows;
	u32	socket_peers;
};

static void bpshaper_sums_packet(struct bpshaper_sums *sum,
				 const struct sk_buff *skb)
{
	sum->packets++;
	sum->backlog += qdisc_pkt_len(skb);
}

/* Each packet of a socket's flow holds the socket. */
static void bpshaper_sums_flow_packet(struct bpshaper_sums *sum,
				      const struct bpshaper_flow *f,
				      const struct sk_buff *skb)
{
	bpshaper_sums_packet(sum, skb);
	sum->memory += bpshaper_skb_memory(skb);
	if (!f->socket)
		return;
	WARN_ON_ONCE(skb->sk != f->socket->sk);
	if (!skb_is_tcp_pure_ack(skb))
		sum->socket_data += qdisc_pkt_len(skb);
}

/* All flows of the socket have been added: they are neighbours. */
static void bpshaper_sums_end_socket(struct bpshaper_sums *sum)
{
	const struct bpshaper_socket *s = sum->socket;

	if (!s)
		return;
	sum->sockets += !!s->flows;
	sum->throttled += bpshaper_socket_is_throttled(s);
	sum->outside += s->state == BPSHAPER_OUTSIDE;
	sum->rest += s->rest;
	sum->bursts += s->burst;
	sum->kept += s->is_kept;
	sum->inside += bpshaper_socket_inside(s);
	WARN_ON_ONCE(s->ready != sum->socket_ready);
	sum->overlimit += s->state == BPSHAPER_OVERLIMIT;
	WARN_ON_ONCE(s->flows != sum->socket_flows);
	WARN_ON_ONCE(s->data != sum->socket_data || s->burst > s->data);
	WARN_ON_ONCE(s->exempt != sum->socket_exempt || s->exempt > s->data);
	/* L3 */
	WARN_ON_ONCE(s->state != BPSHAPER_UNTHROTTLED &&
		     s->state != BPSHAPER_OUTSIDE && !s->data);
	WARN_ON_ONCE(bpshaper_socket_is_throttled(s) != !!s->ballast);
	WARN_ON_ONCE(s->is_bounded && !s->flows && !s->ballast);
	WARN_ON_ONCE(s->rest && s->state != BPSHAPER_UNTHROTTLED);
	WARN_ON_ONCE(s->is_kept != (!s->flows &&
				    (s->rest ||
				     bpshaper_socket_is_throttled(s))));
	WARN_ON_ONCE(!s->refs || s->refs < s->flows);
	WARN_ON_ONCE(s->peers != sum->socket_peers);
	sum->socket = NULL;
	sum->socket_data = 0;
	sum->socket_ready = 0;
	sum->socket_exempt = 0;
	sum->socket_flows = 0;
	sum->socket_peers = 0;
}

static void bpshaper_sums_flow_packets(struct bpshaper_sums *sum,
				       const struct bpshaper_flow *f)
{
	struct bpshaper_sums before = *sum;
	struct rb_node *node;
	struct sk_buff *skb;

	for (skb = f->head; skb; skb = skb->next) {
		bpshaper_sums_flow_packet(sum, f, skb);
		WARN_ON_ONCE(skb->next && bpshaper_skb_due_ns(skb) >
					  bpshaper_skb_due_ns(skb->next));
	}
	for (node = rb_first(&f->early); node; node = rb_next(node))
		bpshaper_sums_flow_packet(sum, f, rb_to_skb(node));
	/* L5 */
	WARN_ON_ONCE(sum->backlog - before.backlog != f->backlog);
	WARN_ON_ONCE(sum->packets - before.packets != f->qlen);
	WARN_ON_ONCE(sum->memory - before.memory != f->memory);
}

static void bpshaper_sums_flow(struct bpshaper_sums *sum,
			       const struct bpshaper_flow *f)
{
	if (sum->socket != f->socket)
		bpshaper_sums_end_socket(sum);
	sum->socket = f->socket;
	bpshaper_sums_flow_packets(sum, f);
	sum->later += f->later;
	sum->exempt += f->socket ? f->exempt : 0;
	sum->flows += !!f->head;
	sum->socket_flows += f->socket && f->head;
	sum->socket_peers += bpshaper_flow_is_peer(f);
	sum->socket_exempt += f->socket ? f->exempt : 0;
	sum->socket_ready += f->socket ? f->backlog - f->later : 0;
	WARN_ON_ONCE(f->level && !f->head);
	WARN_ON_ONCE(bpshaper_flow_is_kept(f) && f->head);
	WARN_ON_ONCE(f->later > f->backlog || f->timed > f->backlog ||
		     f->exempt > f->timed);
	WARN_ON_ONCE(f->is_waiting && !f->head);
	WARN_ON_ONCE(f->socket && f->head &&
		     f->socket->is_by_peer != !!f->key.hash);
	WARN_ON_ONCE(!f->socket && !f->level != !f->head);
}

static void bpshaper_sums_flows(struct bpshaper_sums *sum,
				const struct bpshaper_table *t)
{
	struct bpshaper_cursor cursor = {};
	struct bpshaper_flow *f;

	while (!bpshaper_cursor_is_at_end(&cursor)) {
		f = bpshaper_cursor_step(t, &cursor);
		if (f)
			bpshaper_sums_flow(sum, f);
		else
			bpshaper_sums_end_socket(sum);
	}
	sum->used = sum->memory + sum->flows * sizeof(struct bpshaper_flow) +
		    sum->sockets * BPSHAPER_SOCKET_MEMORY +
		    sum->kept * BPSHAPER_KEPT_MEMORY;
	WARN_ON_ONCE(sum->used != t->memory.used);
	sum->parked = t->parked_len;
	WARN_ON_ONCE(t->parked_len > BPSHAPER_FLOW_PARKED_MAX + 1);
}

static void bpshaper_sums_take_users(struct bpshaper_sums *sum,
				     const struct bpshaper_leaf_memory *m)
{
	const struct bpshaper_user *u = &m->pool;
	struct rb_node *node = rb_first(&m->users);
	u64 used = u->used;

	for (sum->parked -= u->parked; node; node = rb_next(node)) {
		u = rb_entry(node, struct bpshaper_user, node);
		used += u->used;
		sum->parked -= u->parked;
	}
	WARN_ON_ONCE(used != m->used);
	sum->used -= used;
}

/* Take from the sums what the leaf says that it has. */
static void bpshaper_sums_take_leaf(struct bpshaper_sums *sum,
				    const struct bpshaper_leaf *l)
{
	const struct bpshaper_flows *flows = &l->flows;
	u32 throttled = l->flows.stat.throttles - l->flows.stat.unthrottles;

	bpshaper_sums_take_users(sum, &flows->memory);
	sum->later -= flows->later;
	sum->exempt -= flows->exempt;
	sum->flows -= flows->active;
	sum->sockets -= flows->sockets;
	sum->outside -= flows->turns.outside_len;
	sum->rest -= flows->turns.rest;
	sum->inside -= flows->turns.inside;
	sum->bursts -= flows->turns.bursts;
	sum->kept -= flows->turns.kept;
	sum->overlimit -= l->bp.overlimit_len;
	sum->throttled -= throttled;
	WARN_ON_ONCE(list_empty(&flows->turns.taking) != !flows->turns.rest);
	/* L3 */
	WARN_ON_ONCE(flows->turns.outside_len && !l->is_ticking);
	WARN_ON_ONCE(throttled < flows->turns.outside_len);
	WARN_ON_ONCE(l->slot.member &&
		     !!l->slot.want != (flows->active > flows->waiting_len));
}

static void bpshaper_assert_leaves(const struct bpshaper_sched *q,
				   struct bpshaper_sums *sum)
{
	struct bpshaper_class *cl;
	unsigned int i;

	bpshaper_sums_take_leaf(sum, &q->own);
	for (i = 0; i < q->clhash.hashsize; i++)
		hlist_for_each_entry(cl, &q->clhash.hash[i], common.hnode) {
			bpshaper_sums_take_leaf(sum, &cl->own);
			WARN_ON_ONCE(cl->children && cl->own.flows.active);
		}
	WARN_ON_ONCE(sum->later || sum->exempt || sum->flows || sum->sockets);
	WARN_ON_ONCE(sum->outside || sum->rest || sum->inside || sum->kept);
	WARN_ON_ONCE(sum->overlimit || sum->bursts || sum->used || sum->parked);
	/* L4 */
	WARN_ON_ONCE(sum->throttled);
}

static void bpshaper_assert_all(struct Qdisc *sch)
{
	const struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_sums sum = {};
	struct sk_buff *skb;

	bpshaper_sums_flows(&sum, &q->table);
	/* L3 */
	WARN_ON_ONCE(sum.outside && !hrtimer_active(&q->turn_timer));
	bpshaper_assert_leaves(q, &sum);
	if (q->direct)
		bpshaper_sums_packet(&sum, q->direct);
	/* A packet that a parent peeked at, or that the core requeued or put
	 * aside for another queue of the device, still counts.
	 */
	skb_queue_walk(&sch->gso_skb, skb)
		bpshaper_sums_packet(&sum, skb);
	skb_queue_walk(&sch->skb_bad_txq, skb)
		bpshaper_sums_packet(&sum, skb);
	/* L5 */
	WARN_ON_ONCE(sum.packets != sch->q.qlen);
	WARN_ON_ONCE(sum.backlog != sch->qstats.backlog);
}

/* An empty qdisc holds nothing, nor does one without classes hold a socket that
 * is not outside: L4 and L5.
 */
static void bpshaper_assert_packet(struct Qdisc *sch)
{
	const struct bpshaper_sched *q = qdisc_priv(sch);

	WARN_ON_ONCE(!sch->q.qlen &&
		     (q->own.flows.active || q->direct || sch->qstats.backlog ||
		      q->own.flows.stat.throttles - q->own.flows.stat.unthrottles !=
		      q->own.flows.turns.outside_len));
}

#endif /* _BPSHAPER_LAWS_H */
