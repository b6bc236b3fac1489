/* SPDX-License-Identifier: GPL-2.0-only */
/* How a flow is found, made, parked and forgotten, and its packets. */
#ifndef _BPSHAPER_TABLE_H
#define _BPSHAPER_TABLE_H

/* The table: how a flow is found, made, kept and forgotten.
 *
 * Flows are found in a forest of red-black trees, as in sch_fq. A flow without
 * a backlog is parked: kept for its virtual time or its rate. No more than
 * BPSHAPER_FLOW_PARKED_MAX flows are parked. Past BPSHAPER_FLOW_PARKED_GOAL the
 * flow that has been empty longest goes, unless it is ahead of the others, or
 * known while no more than BPSHAPER_FLOW_KNOWN_MAX known flows are parked.
 * A user with less than his part of the goal loses none to others.
 */

#define BPSHAPER_FLOW_TREES_LOG	10	/* 8 kB; depth 6 at 50,000 flows */
#define BPSHAPER_FLOW_PARKED_GOAL	1024	/* parked flows: 532 kB */
#define BPSHAPER_FLOW_KNOWN_MAX	512	/* known flows that are spared */
#define BPSHAPER_FLOW_PARKED_MAX	16384	/* with those ahead: 8.5 MB */
#define BPSHAPER_FLOW_TRIM	4	/* flows forgotten or passed over */
/* Of a socket with a flow, without packets. */
#define BPSHAPER_KEPT_MEMORY	(sizeof(struct bpshaper_flow) + \
				 BPSHAPER_SOCKET_MEMORY)

static struct kmem_cache *bpshaper_flow_cachep __read_mostly;

static int bpshaper_table_alloc(struct bpshaper_table *t,
				struct net_device *dev)
{
	t->dev = dev;
	INIT_LIST_HEAD(&t->parked);
	t->waiting = RB_ROOT_CACHED;
	t->trees = kvcalloc(1 << BPSHAPER_FLOW_TREES_LOG, sizeof(*t->trees),
			    GFP_KERNEL);
	return t->trees ? 0 : -ENOMEM;
}

static void bpshaper_table_free(struct bpshaper_table *t)
{
	kvfree(t->trees);
}

static struct rb_root *bpshaper_table_tree(const struct bpshaper_table *t,
					   struct bpshaper_key key)
{
	unsigned long tree = key.sk ? (unsigned long)key.sk : key.hash;

	return &t->trees[hash_long(tree, BPSHAPER_FLOW_TREES_LOG)];
}

/* Parked flows */

/* The flow has no backlog. */
static inline void bpshaper_flow_join_parked(struct bpshaper_table *t,
					     struct bpshaper_flow *f)
{
	f->is_parked_known = f->is_known;
	list_add_tail(&f->list, &t->parked);
	t->parked_known += f->is_parked_known;
	t->parked_len++;
	bpshaper_user_count_parked(bpshaper_flow_user(f->flows, f), 1);
}

/* Is the flow without a backlog, and kept because its socket is throttled or
 * has a turn?
 */
static inline bool bpshaper_flow_is_kept(const struct bpshaper_flow *f)
{
	return f->socket && f->socket->is_kept && f->socket->flow == f;
}

/* Park the flow that is kept for the socket, if there is one. */
static inline void bpshaper_socket_unkeep(struct bpshaper_flows *flows,
					  struct bpshaper_socket *s)
{
	if (likely(!s->is_kept))
		return;
	s->is_kept = false;
	flows->turns.kept--;
	bpshaper_user_account(s->user, -(s64)BPSHAPER_KEPT_MEMORY);
	bpshaper_flow_join_parked(flows->table, s->flow);
}

/* What decides whether the socket takes turns has changed: what it is, whether
 * it has a flow for each peer, and how many of them.
 */
static noinline void bpshaper_flows_set_turns(struct bpshaper_flows *flows,
					      struct bpshaper_socket *s,
					      bool is_without_turns,
					      bool is_by_peer, u32 peers)
{
	u32 inside = bpshaper_socket_inside(s);

	s->is_without_turns = is_without_turns;
	s->is_by_peer = is_by_peer;
	s->peers = peers;
	flows->turns.inside += (s64)bpshaper_socket_inside(s) - inside;
	if (!s->rest || bpshaper_socket_takes_turns(s))
		return;
	bpshaper_turn_end(&flows->turns, s);
	bpshaper_socket_unkeep(flows, s);
}

/* The flow, if it is that of a peer, is made (@sign is 1) or forgotten (-1). */
static void bpshaper_flow_count_peer(struct bpshaper_flow *f, int sign)
{
	struct bpshaper_socket *s = f->socket;

	if (bpshaper_flow_is_peer(f))
		bpshaper_flows_set_turns(f->flows, s, s->is_without_turns,
					 s->is_by_peer, s->peers + sign);
}

/* The flow gets a backlog or is forgotten. */
static inline void bpshaper_flow_leave_parked(struct bpshaper_table *t,
					      struct bpshaper_flow *f)
{
	list_del(&f->list);
	t->parked_known -= f->is_parked_known;
	t->parked_len--;
	bpshaper_user_count_parked(bpshaper_flow_user(f->flows, f), -1);
}

/* Forget a parked flow. */
static void bpshaper_flow_forget(struct bpshaper_table *t,
				 struct bpshaper_flow *f)
{
	bpshaper_flow_count_peer(f, -1);
	if (f->socket && f->socket->flow == f)
		f->socket->flow = NULL;
	list_del(&f->flows_node);
	bpshaper_flow_leave_parked(t, f);
	rb_erase(&f->node, bpshaper_table_tree(t, f->key));
	bpshaper_socket_put(f->socket);
	kmem_cache_free(bpshaper_flow_cachep, f);
}

/* The parked flow is the one to forget. If its user has less than his part,
 * let it be the last instead, and return true. Pools have one as well.
 */
static bool bpshaper_flow_spare(struct bpshaper_table *t,
				struct bpshaper_flow *f)
{
	u32 part = BPSHAPER_FLOW_PARKED_GOAL / t->memory.parking;

	if (bpshaper_flow_user(f->flows, f)->parked >= part)
		return false;
	list_move_tail(&f->list, &t->parked);
	return true;
}

/* Make room for one more parked flow. Look at two flows: those that owe stay,
 * some of those that are known, and those of users who have less than their
 * part.
 */
static void bpshaper_table_recycle(struct bpshaper_table *t, u64 now)
{
	struct bpshaper_flow *f;
	int tries = 2;

	while (t->parked_len >= BPSHAPER_FLOW_PARKED_GOAL && tries--) {
		f = list_first_entry(&t->parked, struct bpshaper_flow, list);
		if (bpshaper_flow_spare(t, f))
			continue;
		if ((f->is_parked_known &&
		     t->parked_known <= BPSHAPER_FLOW_KNOWN_MAX) ||
		    bpshaper_flow_is_ahead(f) ||
		    bpshaper_paced_is_owing(&f->paced, now))
			list_move_tail(&f->list, &t->parked);
		else
			bpshaper_flow_forget(t, f);
	}
}

/* Forget up to @flows parked flows, owing or not, while too many are parked: of
 * users who have their part, if one of BPSHAPER_FLOW_TRIM is of such a user.
 * The caller must hold no pointer to a parked flow.
 */
static inline void bpshaper_table_trim(struct bpshaper_table *t, int flows)
{
	struct bpshaper_flow *f;
	int tries;

	while (unlikely(t->parked_len >= BPSHAPER_FLOW_PARKED_MAX) && flows--) {
		tries = BPSHAPER_FLOW_TRIM;
		do
			f = list_first_entry(&t->parked, struct bpshaper_flow,
					     list);
		while (--tries && bpshaper_flow_spare(t, f));
		bpshaper_flow_forget(t, f);
	}
}

/* Finding a flow */

/* @s is the socket of @key, or NULL if it has no flow yet. */
static struct bpshaper_flow *bpshaper_flow_create(struct bpshaper_flows *flows,
						  struct bpshaper_key key,
						  struct bpshaper_socket *s)
{
	struct bpshaper_flow *f;

	f = kmem_cache_zalloc(bpshaper_flow_cachep, GFP_ATOMIC | __GFP_NOWARN);
	if (!f)
		return NULL;
	if (key.sk && !s) {
		s = kmem_cache_zalloc(bpshaper_socket_cachep,
				      GFP_ATOMIC | __GFP_NOWARN);
		if (!s) {
			kmem_cache_free(bpshaper_flow_cachep, f);
			return NULL;
		}
		s->sk = key.sk;
		s->user = &flows->memory.pool;	/* until it has an owner */
		INIT_LIST_HEAD(&s->node);
	}
	if (s)
		s->refs++;
	f->socket = s;
	f->key = key;
	f->flows = flows;
	list_add(&f->flows_node, &flows->all);
	INIT_LIST_HEAD(&f->rank_node);
	return f;
}

/* The flow of @key, made if it is missing; NULL when out of memory. The search
 * for a missing flow passes its neighbours, so it finds the socket if that has
 * a flow.
 */
static inline struct bpshaper_flow *
bpshaper_flow_get(struct bpshaper_flows *flows, struct bpshaper_key key,
		  u64 now)
{
	struct rb_root *root = bpshaper_table_tree(flows->table, key);
	struct rb_node **p, *parent = NULL;
	struct bpshaper_socket *s = NULL;
	struct bpshaper_flow *f;
	bool is_before;

	bpshaper_table_trim(flows->table, BPSHAPER_FLOW_TRIM);
	for (p = &root->rb_node; *p; ) {
		parent = *p;
		f = rb_entry(parent, struct bpshaper_flow, node);
		if (unlikely(f->key.sk != key.sk)) {
			is_before = key.sk < f->key.sk;
		} else if (unlikely(f->flows != flows)) {
			is_before = flows < f->flows;
		} else {
			if (likely(f->key.hash == key.hash))
				return f;
			s = f->socket;
			is_before = key.hash < f->key.hash;
		}
		p = is_before ? &parent->rb_left : &parent->rb_right;
	}

	f = bpshaper_flow_create(flows, key, s);
	if (!f)
		return NULL;
	rb_link_node(&f->node, parent, p);
	rb_insert_color(&f->node, root);
	bpshaper_table_recycle(flows->table, now);	/* before parking */
	bpshaper_flow_join_parked(flows->table, f);
	return f;
}

/* The first owner of a flow, or a socket in the memory of a freed one: start
 * anew. The flow has no backlog. A socket that has another owner has none
 * either: all its flows are parked. Return false when out of memory.
 */
static noinline bool bpshaper_flow_set_owner(struct bpshaper_flows *flows,
					     struct bpshaper_flow *f,
					     u64 cookie, u64 user_key)
{
	struct bpshaper_socket *s = f->socket;
	struct bpshaper_user *user;

	if (s->cookie != cookie) {
		user = bpshaper_user_get(&flows->memory, user_key);
		if (!user)
			return false;
		bpshaper_turn_end(&flows->turns, s);
		bpshaper_socket_unkeep(flows, s);
		DEBUG_NET_WARN_ON_ONCE(s->flows ||
				       s->state != BPSHAPER_UNTHROTTLED);
		bpshaper_user_count_parked(s->user, -(s32)s->refs);
		bpshaper_user_put(s->user);
		bpshaper_user_count_parked(user, s->refs);
		s->user = user;
		s->cookie = cookie;
		s->peers = 0;
		s->outside_ns = 0;
		s->throttles = 0;
		s->longest_ns = 0;
		s->tokens_ns = 0;
	}
	f->cookie = cookie;
	f->v = 0;
	bpshaper_flow_count_peer(f, 1);
	f->is_known = false;
	f->was_held = false;
	f->paced = (struct bpshaper_paced){};
	f->pi2.root = 0;
	return true;
}

/* Listing */

/**
 * struct bpshaper_cursor - a place in the table, between two flows
 * @queue: number of the queue that has the table, from 0
 * @tree: number of the tree
 * @flows: of the flow before the cursor in that tree, or of none; not to be
 *	followed
 * @key: likewise
 */
struct bpshaper_cursor {
	u32			queue;
	u32			tree;
	const struct bpshaper_flows *flows;
	struct bpshaper_key	key;
};

static bool bpshaper_cursor_is_at_end(const struct bpshaper_cursor *cursor)
{
	return cursor->tree == 1 << BPSHAPER_FLOW_TREES_LOG;
}

/* Move the cursor behind the next flow and return it; NULL where a tree ends.
 * Flows that come and go between two calls may be missed.
 */
static struct bpshaper_flow *
bpshaper_cursor_step(const struct bpshaper_table *t,
		     struct bpshaper_cursor *cursor)
{
	struct rb_node *node = t->trees[cursor->tree].rb_node;
	struct bpshaper_flow *f, *next = NULL;

	while (node) {
		f = rb_entry(node, struct bpshaper_flow, node);
		if (bpshaper_flow_is_after(f, cursor->flows, cursor->key)) {
			next = f;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	if (next) {
		cursor->flows = next->flows;
		cursor->key = next->key;
	} else {
		cursor->tree++;
		cursor->flows = NULL;
		cursor->key = (struct bpshaper_key) {};
	}
	return next;
}

/* The next flow with a backlog, or whose socket waits outside. Look at up to
 * BPSHAPER_FLOW_STEPS flows and trees. Return NULL at the end, or if there is
 * none among them.
 */
static struct bpshaper_flow *
bpshaper_cursor_next_active(const struct bpshaper_table *t,
			    struct bpshaper_cursor *cursor)
{
	int steps = BPSHAPER_FLOW_STEPS;
	struct bpshaper_flow *f;

	while (!bpshaper_cursor_is_at_end(cursor) && steps--) {
		f = bpshaper_cursor_step(t, cursor);
		if (f && (f->head || (bpshaper_flow_is_kept(f) &&
				      f->socket->state == BPSHAPER_OUTSIDE)))
			return f;
	}
	return NULL;
}

/* The queue of a flow: packets that come and go.
 *
 * Packets leave a flow in the order of their departure times, those with the
 * same time in the order of arrival. A packet without a time has that of its
 * arrival. A packet that is in order joins the tail of a list. One that is not
 * goes into a tree by time, as in sch_fq, and from there to the head of the
 * list when its turn has come.
 */

/* The flow has got a backlog (@sign is 1) or has none any more (-1). */
static inline void bpshaper_flows_count_active(struct bpshaper_flows *flows,
					       struct bpshaper_flow *f,
					       int sign)
{
	struct bpshaper_socket *s = f->socket;
	s64 memory = sizeof(*f);

	flows->active += sign;
	if (s) {
		flows->socket_flows += sign;
		s->flows += sign;
		if (!s->flows || (s->flows == 1 && sign > 0)) {
			flows->sockets += sign;
			memory += BPSHAPER_SOCKET_MEMORY;
		}
		if (!s->flows) {
			s->largest = 0;
			if (!bpshaper_socket_is_throttled(s))
				bpshaper_socket_unbound(s);
		}
	}
	bpshaper_user_account(bpshaper_flow_user(flows, f), sign * memory);
}

/* The flow has sent its last packet. A socket that is throttled or has a turn
 * must not be forgotten: keep its last flow, on no list.
 */
static inline void bpshaper_flow_park(struct bpshaper_flows *flows,
				      struct bpshaper_flow *f)
{
	struct bpshaper_socket *s = f->socket;

	if (f->is_waiting)	/* its last packet was evicted */
		bpshaper_flow_unwait(flows, f);
	else
		bpshaper_flow_unlink(f);
	f->is_timed = false;
	f->has_waited = false;
	f->is_behind = false;
	if (s)
		f->was_held = s->is_by_peer && s->state != BPSHAPER_UNTHROTTLED;
	bpshaper_flows_count_active(flows, f, -1);
	/* Nobody waits for what the others have sent: forgive two packets. */
	if (!flows->active && !flows->is_shared &&
	    !bpshaper_turns_are_on(&flows->turns))
		flows->vtime += BPSHAPER_CREDIT_PKTS * flows->quantum;
	if (!s || s->flows ||
	    (!s->rest && likely(!bpshaper_socket_is_throttled(s)))) {
		bpshaper_flow_join_parked(flows->table, f);
		return;
	}
	s->flow = f;
	s->is_kept = true;
	flows->turns.kept++;
	bpshaper_user_account(s->user, BPSHAPER_KEPT_MEMORY);
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
static noinline void bpshaper_flow_merge_early(struct bpshaper_flows *flows,
					       struct bpshaper_flow *f)
{
	struct sk_buff *skb = rb_to_skb(rb_first(&f->early));

	if (bpshaper_skb_due_ns(f->head) <= bpshaper_skb_due_ns(skb))
		return;
	rb_erase(&skb->rbnode, &f->early);
	skb->dev = flows->table->dev;	/* shares its place with rbnode */
	skb->next = f->head;
	f->head->prev = skb;
	f->head = skb;
}

/* Add a packet. Packets are linked both ways; @prev of the first is not valid.
 */
static inline void bpshaper_flow_push(struct bpshaper_flows *flows,
				      struct bpshaper_flow *f,
				      struct sk_buff *skb)
{
	bool was_empty = !f->head;

	skb->next = NULL;
	if (was_empty) {
		f->head = skb;
		f->tail = skb;
	} else if (likely(bpshaper_skb_due_ns(skb) >=
			  bpshaper_skb_due_ns(f->tail))) {
		f->tail->next = skb;
		skb->prev = f->tail;
		f->tail = skb;
	} else {
		bpshaper_flow_link_early(f, skb);
	}
	if (unlikely(bpshaper_skb_is_timed(skb)))
		f->is_timed = true;
	bpshaper_flow_account(flows, f, skb, 1);
	if (was_empty) {
		if (f->socket)
			bpshaper_socket_unkeep(flows, f->socket);
		bpshaper_flow_leave_parked(flows->table, f);
		bpshaper_flows_count_active(flows, f, 1);
		bpshaper_flow_join(f);
	} else if (unlikely(f->is_waiting) && f->head == skb &&
		   !bpshaper_skb_is_timed(skb)) {
		bpshaper_flow_wake(flows, f);
	}
}

/* Take the next packet; the flow has one. */
static inline struct sk_buff *bpshaper_flow_pop(struct bpshaper_flows *flows,
						struct bpshaper_flow *f)
{
	struct sk_buff *skb = f->head;

	f->head = skb->next;
	if (unlikely(!RB_EMPTY_ROOT(&f->early)))
		bpshaper_flow_merge_early(flows, f);
	skb_mark_not_on_list(skb);
	bpshaper_flow_account(flows, f, skb, -1);
	if (!f->head)
		bpshaper_flow_park(flows, f);
	return skb;
}

/* Take the last packet of a flow that has more than one, all of them in the
 * list.
 */
static struct sk_buff *bpshaper_flow_pop_last(struct bpshaper_flows *flows,
					      struct bpshaper_flow *f)
{
	struct sk_buff *skb = f->tail;

	f->tail = skb->prev;
	f->tail->next = NULL;
	bpshaper_flow_account(flows, f, skb, -1);
	return skb;
}

/* Free packets and forget flows, up to @steps of them together, under RTNL. The
 * caller has released all sockets. With the last forget what was sent, and
 * return true.
 */
static bool bpshaper_flows_purge(struct bpshaper_flows *flows, int steps)
{
	struct bpshaper_flow *f;
	struct sk_buff *skb;

	while (steps-- && !list_empty(&flows->all)) {
		f = list_first_entry(&flows->all, struct bpshaper_flow,
				     flows_node);
		if (f->head) {
			skb = bpshaper_flow_pop(flows, f);
			rtnl_kfree_skbs(skb, skb);
		} else {
			bpshaper_flow_forget(flows->table, f);
		}
	}
	if (!list_empty(&flows->all))
		return false;
	bpshaper_flows_clear(flows);
	return true;
}

#endif /* _BPSHAPER_TABLE_H */
