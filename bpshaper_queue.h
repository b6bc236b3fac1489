/* SPDX-License-Identifier: GPL-2.0-only */
/* The queue of a flow: packets that come and go.
 *
 * Packets leave a flow in the order of their departure times, those with the
 * same time in the order of arrival. A packet without a time has that of its
 * arrival. A packet that is in order joins the tail of a list. One that is not
 * goes into a tree by time, as in sch_fq, and from there to the head of the
 * list when its turn has come.
 */
#ifndef _BPSHAPER_QUEUE_H
#define _BPSHAPER_QUEUE_H

/* The flow has got a backlog (@sign is 1) or has none any more (-1). */
static inline void bpshaper_flows_count_active(struct bpshaper_flows *t,
					       struct bpshaper_flow *f,
					       int sign)
{
	int sockets = 0;

	if (f->socket) {
		t->socket_flows += sign;
		if (bpshaper_socket_count_flow(f->socket, sign))
			sockets = sign;
	}
	t->active += sign;
	t->sockets += sockets;
	bpshaper_user_account(bpshaper_flow_user(t, f),
			      sign * (s64)sizeof(*f) +
			      sockets * (s64)BPSHAPER_SOCKET_MEMORY);
}

static void bpshaper_flow_activate(struct bpshaper_flows *t,
				   struct bpshaper_flow *f)
{
	if (f->socket)
		bpshaper_socket_unkeep(t, f->socket);
	bpshaper_flow_leave_parked(t->table, f);
	bpshaper_flow_join(t, f);
	bpshaper_flows_count_active(t, f, 1);
}

/* Must the socket not be forgotten with its last flow? */
static inline bool
bpshaper_socket_must_be_kept(const struct bpshaper_socket *s)
{
	return !s->flows &&
	       (s->rest || unlikely(bpshaper_socket_is_throttled(s)));
}

static inline void bpshaper_flow_park(struct bpshaper_flows *t,
				      struct bpshaper_flow *f)
{
	if (f->is_waiting)	/* its last packet was evicted */
		bpshaper_flow_unwait(t, f);
	bpshaper_flow_clear_timed(f);
	if (f->socket)
		bpshaper_flow_set_held(f, bpshaper_socket_is_held(f->socket));
	bpshaper_flows_count_active(t, f, -1);
	if (f->socket && bpshaper_socket_must_be_kept(f->socket))
		bpshaper_flow_keep(t, f);
	else
		bpshaper_flow_join_parked(t->table, f);
}

/* The packet is before @tail by time: link it before @head, or into the tree.
 */
static noinline void bpshaper_flow_link_early(struct bpshaper_flow *f,
					      struct sk_buff *skb)
{
	struct rb_node **p = &f->early.rb_node, *parent = NULL;
	u64 due_ns = bpshaper_skb_due_ns(skb);

	if (due_ns < bpshaper_skb_due_ns(f->head)) {
		skb->next = f->head;
		f->head->prev = skb;
		f->head = skb;
		return;
	}
	while (*p) {
		parent = *p;
		p = due_ns < bpshaper_skb_due_ns(rb_to_skb(parent)) ?
			&parent->rb_left : &parent->rb_right;
	}
	rb_link_node(&skb->rbnode, parent, p);
	rb_insert_color(&skb->rbnode, &f->early);
}

/* The first packet has left. If the first of the tree is before the next of the
 * list, put it there; with the same time it is not, as it came later. The list
 * has packets as long as the tree has.
 */
static noinline void bpshaper_flow_merge_early(struct bpshaper_flows *t,
					       struct bpshaper_flow *f)
{
	struct sk_buff *skb = rb_to_skb(rb_first(&f->early));

	if (bpshaper_skb_due_ns(f->head) <= bpshaper_skb_due_ns(skb))
		return;
	rb_erase(&skb->rbnode, &f->early);
	skb->dev = t->table->dev;	/* shares its place with rbnode */
	skb->next = f->head;
	f->head->prev = skb;
	f->head = skb;
}

/* Move all packets from the tree into the list, in any order. */
static void bpshaper_flow_flatten(struct bpshaper_table *t,
				  struct bpshaper_flow *f)
{
	struct rb_node *node;
	struct sk_buff *skb;

	while (unlikely((node = rb_first(&f->early)))) {
		skb = rb_to_skb(node);
		rb_erase(node, &f->early);
		skb->dev = t->dev;
		skb->next = f->head;
		f->head = skb;
	}
}

/* Add a packet. Packets are linked both ways; @prev of the first is not valid.
 */
static inline void bpshaper_flow_push(struct bpshaper_flows *t,
				      struct bpshaper_flow *f,
				      struct sk_buff *skb)
{
	bool was_empty = !f->head;

	skb->next = NULL;
	if (was_empty) {
		f->head = skb;
		f->tail = skb;
		bpshaper_flow_count_visit(f);
	} else if (likely(bpshaper_skb_due_ns(skb) >=
			  bpshaper_skb_due_ns(f->tail))) {
		f->tail->next = skb;
		skb->prev = f->tail;
		f->tail = skb;
	} else {
		bpshaper_flow_link_early(f, skb);
	}
	if (unlikely(bpshaper_skb_is_timed(skb)))
		bpshaper_flow_set_timed(f, false);
	bpshaper_flow_account(t, f, skb, 1);
	if (was_empty)
		bpshaper_flow_activate(t, f);
	else if (unlikely(f->is_waiting) && f->head == skb &&
		 !bpshaper_skb_is_timed(skb))
		bpshaper_flow_wake(t, f);
}

/* Take the next packet; the flow has one. */
static inline struct sk_buff *bpshaper_flow_pop(struct bpshaper_flows *t,
						struct bpshaper_flow *f)
{
	struct sk_buff *skb = f->head;

	f->head = skb->next;
	if (unlikely(!RB_EMPTY_ROOT(&f->early)))
		bpshaper_flow_merge_early(t, f);
	skb_mark_not_on_list(skb);
	bpshaper_flow_account(t, f, skb, -1);
	if (!f->head)
		bpshaper_flow_park(t, f);
	return skb;
}

/* Take the last packet of a flow that has more than one, all of them in the
 * list.
 */
static struct sk_buff *bpshaper_flow_pop_last(struct bpshaper_flows *t,
					      struct bpshaper_flow *f)
{
	struct sk_buff *skb = f->tail;

	f->tail = skb->prev;
	f->tail->next = NULL;
	bpshaper_flow_account(t, f, skb, -1);
	return skb;
}

static void bpshaper_flows_clear(struct bpshaper_flows *t)
{
	INIT_LIST_HEAD(&t->all);
	bpshaper_round_init(t);
	bpshaper_flows_clear_accounts(t);
	bpshaper_turns_init(&t->turns);
	t->active = 0;
	t->socket_flows = 0;
	t->sockets = 0;
}

static void bpshaper_flows_init(struct bpshaper_flows *t,
				struct bpshaper_table *table)
{
	t->table = table;
	bpshaper_flows_clear(t);
}

static void bpshaper_flow_free_packets(struct bpshaper_table *t,
				       struct bpshaper_flow *f)
{
	if (f->socket)
		bpshaper_socket_unbound(f->socket);
	bpshaper_flow_flatten(t, f);
	rtnl_kfree_skbs(f->head, f->tail);
}

/* Free all packets and flows of the table, under RTNL. The caller has released
 * all sockets, and clears the flows.
 */
static void bpshaper_table_purge(struct bpshaper_table *t)
{
	bpshaper_table_clear(t, bpshaper_flow_free_packets);
}

#endif /* _BPSHAPER_QUEUE_H */
