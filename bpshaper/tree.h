/* SPDX-License-Identifier: GPL-2.0-only */
/* The tree: which class is next?
 *
 * Who has been served least goes first. A class, or a slot of it (hub.h), is an
 * entity with a virtual time v: bytes that it was served, by its weight.
 *
 *	next	Of those that offer, from the root down, the one with the least
 *		v is served, and V of all becomes that: start-time fair queueing
 *		(Goyal, Vin, Cheng, SIGCOMM 1996). A smaller prio goes first,
 *		and each prio has a V.
 *	pay	Its v grows by bytes / weight.
 *	join	Who comes keeps its v, but is no more than two packets behind V,
 *		or what its ceil has let it save. So it makes up for little, and
 *		pays for what it was ahead.
 *	floor	The same in time: a node is due at a time that grows by bytes /
 *		floor. The first that is due goes before the excess, and pays no
 *		v: virtual clock (Zhang, SIGCOMM 1990). Floors that may
 *		overcommit come after the others. Who joins makes up for two
 *		packets: before now, or before the one that was served last if
 *		floors are late. So floors beyond what there is share it by
 *		floor.
 *	ceil	A bucket (rate.h). A node without tokens waits for some of them,
 *		and offers nothing meanwhile.
 *
 * A node offers while it has a child that does. A step takes the logarithm of
 * the number of siblings for each level. Nothing here knows a hub or a qdisc,
 * or reads a clock, so that the host's unit test can include this file. The
 * caller serialises.
 */
#ifndef _BPSHAPER_TREE_H
#define _BPSHAPER_TREE_H

#define BPSHAPER_PRIOS		8
#define BPSHAPER_DEPTH_MAX	8	/* levels below the root */
#define BPSHAPER_WEIGHT_ONE	BIT_ULL(32) /* v of nodes: bytes / this */
/* v wraps after 4 GiB by weight: one that is older, or so many bytes ahead, is
 * from before that.
 */
#define BPSHAPER_V_OLD_NS	NSEC_PER_SEC
#define BPSHAPER_V_AHEAD	BIT(21)
/* The first floor is late by that, and two packets of each, when their clock
 * stands: a packet of 9000 bytes takes 18 ms at 4 Mbit/s.
 */
#define BPSHAPER_FLOOR_STAND_NS	(20 * NSEC_PER_MSEC)
/* More than softirqs are late. For so long a floor may wait, and a packet that
 * is early; a member has as long to take what it is granted (hub.h).
 */
#define BPSHAPER_PATIENCE_NS	(2 * NSEC_PER_MSEC)
#define BPSHAPER_TIMER_LATE_NS	(50 * NSEC_PER_USEC) /* as timers are */

/**
 * struct bpshaper_entity - who has a place among the children of a node
 * @turn: @at is its virtual time v; in @by_turn of the parent while it offers
 * @parent: NULL for the root
 * @inverse: what v grows by for a byte; 1 if it is a slot
 * @left_ns: when it ceased to offer
 * @weight: its part of the excess, 1 to 2^20; of a slot its flows, for what it
 *	expects
 * @offering: children that offer
 * @burst: bytes that its ceil lets it send at once, or 0
 * @level: 0 for the root
 * @prio: of the excess, 0 (served first) to BPSHAPER_PRIOS - 1
 * @has_backlog: it has something to send itself
 * @has_floor: it is a node, with a floor
 * @is_due: it was chosen last because of that
 * @is_waiting: it offers nothing, because of its ceil, or while it is changed
 * @is_offering: it is in the trees of its parent
 */
struct bpshaper_entity {
	struct bpshaper_tag	turn;
	struct bpshaper_node	*parent;
	u64			inverse;
	u64			left_ns;
	u32			weight;
	u32			offering;
	u32			burst;
	u8			level;
	u8			prio;
	bool			has_backlog;
	bool			has_floor;
	bool			is_due;
	bool			is_waiting;
	bool			is_offering;
};

/**
 * struct bpshaper_node - a class, or the root
 * @e: its place
 * @floor: rate that it gets before others get more than theirs; Bps 0: none
 * @due: when its next packet is due by that
 * @overcommit: 1 if its floor may exceed what is left of the parent's floor
 * @ahead: bytes that it got out of turn since its turn (hub.h)
 * @ceil: rate that it does not exceed; Bps 0: none
 * @bucket: of @ceil
 * @ready: when it is to offer again, in @waiting of the tree
 * @by_turn: children that offer, by prio and v
 * @vtime: V of each prio
 * @by_due: children with a floor that offer, by @due, for each @overcommit
 * @floors: the number of these
 * @stood_ns: how long their clocks have stood
 * @due_ns: when the one that was served last was due
 * @weights: of children that offer, for each prio
 * @stat_waits: times that it waited for @bucket
 */
struct bpshaper_node {
	/* as a child */
	struct bpshaper_entity	e;
	struct bpshaper_rate	floor;
	struct bpshaper_tag	due;
	u8			overcommit;
	u32			ahead;

	/* what limits it */
	struct bpshaper_rate	ceil;
	struct bpshaper_bucket	bucket;
	struct bpshaper_tag	ready;

	/* its children */
	struct rb_root_cached	by_turn;
	atomic64_t		vtime[BPSHAPER_PRIOS];
	struct rb_root_cached	by_due[2];
	u32			floors[2];
	u64			stood_ns[2];
	u64			due_ns[2];

	/* for what is expected, and shown */
	u64			weights[BPSHAPER_PRIOS];
	u64			stat_waits;
};

/**
 * struct bpshaper_tree - a tree
 * @root: of all nodes; its ceil is the rate of all
 * @waiting: nodes that wait for their buckets, by @ready
 * @now_ns: the time, which the caller sets; it does not go back
 * @credit: two packets, bytes: what who joins makes up for
 * @credit_ns: time that the root takes for these
 * @turn: bytes, of the burst of all, that are shared in one go
 */
struct bpshaper_tree {
	struct bpshaper_node	root;
	struct rb_root_cached	waiting;
	u64			now_ns;
	u32			credit;
	u64			credit_ns;
	u32			turn;
};

#define bpshaper_entity_node(entity) \
	container_of(entity, struct bpshaper_node, e)

/* V of those beside it. It is read without a lock as well. */
static inline u64 bpshaper_entity_vtime(const struct bpshaper_entity *e)
{
	return atomic64_read(&e->parent->vtime[e->prio]);
}

/* The child whose turn it is, and the one whose floor is due first; NULL if
 * there is none.
 */
static inline struct bpshaper_entity *
bpshaper_node_first_turn(const struct bpshaper_node *n)
{
	struct rb_node *first = rb_first_cached(&n->by_turn);

	return rb_entry_safe(first, struct bpshaper_entity, turn.node);
}

static inline struct bpshaper_node *
bpshaper_node_first_due(const struct bpshaper_node *n, u8 overcommit)
{
	struct rb_node *first = rb_first_cached(&n->by_due[overcommit]);

	return rb_entry_safe(first, struct bpshaper_node, due.node);
}

static void bpshaper_entity_init(struct bpshaper_entity *e,
				 struct bpshaper_node *parent, u64 inverse)
{
	memset(e, 0, sizeof(*e));
	e->parent = parent;
	e->level = parent ? parent->e.level + 1 : 0;
	e->weight = 1;
	e->inverse = inverse;
}

/* Trees are empty if they are zero. */
static void bpshaper_node_init(struct bpshaper_node *n,
			       struct bpshaper_node *parent)
{
	memset(n, 0, sizeof(*n));
	bpshaper_entity_init(&n->e, parent, BPSHAPER_WEIGHT_ONE);
}

static void bpshaper_tree_init(struct bpshaper_tree *tree)
{
	memset(tree, 0, sizeof(*tree));
	bpshaper_node_init(&tree->root, NULL);
}

/* Places */

static bool bpshaper_turn_is_earlier(const struct bpshaper_tag *a,
				     const struct bpshaper_tag *b)
{
	u8 prio = container_of(a, struct bpshaper_entity, turn)->prio;
	u8 other = container_of(b, struct bpshaper_entity, turn)->prio;

	return prio == other ? bpshaper_tag_before(a->at, b->at) : prio < other;
}

static void bpshaper_entity_link(struct bpshaper_entity *e)
{
	struct bpshaper_node *n = bpshaper_entity_node(e);

	bpshaper_tag_link_by(&e->parent->by_turn, &e->turn,
			     bpshaper_turn_is_earlier);
	if (e->has_floor)
		bpshaper_tag_link(&e->parent->by_due[n->overcommit], &n->due);
}

static void bpshaper_entity_unlink(struct bpshaper_entity *e)
{
	struct bpshaper_node *n = bpshaper_entity_node(e);

	rb_erase_cached(&e->turn.node, &e->parent->by_turn);
	if (e->has_floor)
		rb_erase_cached(&n->due.node,
				&e->parent->by_due[n->overcommit]);
}

/* It is served at @v: V of all is that, if it is more. */
static void bpshaper_entity_advance(const struct bpshaper_entity *e, u64 v)
{
	if (bpshaper_tag_before(bpshaper_entity_vtime(e), v))
		atomic64_set(&e->parent->vtime[e->prio], v);
}

/* Its v is @v, and its floor is due @due_ns later. Alone it need not move. */
static void bpshaper_entity_place(struct bpshaper_entity *e, u64 v, s64 due_ns)
{
	bool moves = e->is_offering && e->parent->e.offering > 1;

	if (moves)
		bpshaper_entity_unlink(e);
	e->turn.at = v;
	if (due_ns)
		bpshaper_entity_node(e)->due.at += due_ns;
	if (moves)
		bpshaper_entity_link(e);
}

/* The node sends @bytes, as it was chosen if it is @in_turn, or gives them back
 * if they are negative.
 */
static void bpshaper_node_pay(struct bpshaper_node *n, s64 bytes, bool in_turn)
{
	u64 v = n->e.turn.at, ns, *due_ns;

	if (n->e.is_due) {
		due_ns = &n->e.parent->due_ns[n->overcommit];
		*due_ns = max(*due_ns, n->due.at);
		ns = bpshaper_rate_cost_ns(&n->floor, abs(bytes));
		bpshaper_entity_place(&n->e, v, bytes < 0 ? -ns : ns);
		return;
	}
	if (in_turn)
		bpshaper_entity_advance(&n->e, v);
	bpshaper_entity_place(&n->e, v + bytes * n->e.inverse, 0);
}

/* The time that floors go by. It stands while the first of them is so late that
 * they must exceed what there is: otherwise they would make up for that when
 * one of them stops, and others would get nothing for as long.
 */
static u64 bpshaper_node_clock(const struct bpshaper_tree *tree,
			       struct bpshaper_node *n, u8 overcommit)
{
	const struct bpshaper_node *first =
		bpshaper_node_first_due(n, overcommit);
	u64 clock = tree->now_ns - n->stood_ns[overcommit], most;

	if (!first)
		return clock;
	most = first->due.at + BPSHAPER_FLOOR_STAND_NS +
	       n->floors[overcommit] * tree->credit_ns;
	if (clock > most)
		n->stood_ns[overcommit] += clock - most;
	return min(clock, most);
}

/* Offering */

/* The v of one that joins. Below a ceil it may use what that has let it save,
 * of a turn.
 */
static u64 bpshaper_entity_join_v(const struct bpshaper_tree *tree,
				  const struct bpshaper_entity *e)
{
	u64 credit = max(tree->credit, min(e->burst, tree->turn));
	u64 least = bpshaper_entity_vtime(e) - credit * e->inverse;
	u64 most = (credit + tree->turn + BPSHAPER_V_AHEAD) * e->inverse;

	return e->turn.at - least > most ||
	       tree->now_ns - e->left_ns > BPSHAPER_V_OLD_NS ? least :
							       e->turn.at;
}

/* When the floor of one that joins is due: it makes up for two packets, or half
 * of BPSHAPER_PATIENCE_NS if that is less, as it would else be late at once.
 * That is before now or, if floors are late, before the one served last.
 */
static u64 bpshaper_node_join_ns(const struct bpshaper_tree *tree,
				 const struct bpshaper_node *n)
{
	struct bpshaper_node *parent = n->e.parent;
	const struct bpshaper_node *first =
		bpshaper_node_first_due(parent, n->overcommit);
	u64 ns = bpshaper_node_clock(tree, parent, n->overcommit);
	u64 *due_ns = &parent->due_ns[n->overcommit];

	if (first)
		ns = min(ns, max(*due_ns, first->due.at));
	else
		*due_ns = ns;
	ns -= min3(ns, bpshaper_rate_cost_ns(&n->floor, tree->credit),
		   BPSHAPER_PATIENCE_NS / 2 + 0ULL);
	return max(n->due.at, ns);
}

static void bpshaper_entity_set_offering(const struct bpshaper_tree *tree,
					 struct bpshaper_entity *e, bool offers)
{
	struct bpshaper_node *n = bpshaper_entity_node(e), *parent = e->parent;
	int more = offers ? 1 : -1;

	if (offers)
		e->turn.at = bpshaper_entity_join_v(tree, e);
	if (offers && e->has_floor)
		n->due.at = bpshaper_node_join_ns(tree, n);
	if (offers)
		bpshaper_entity_link(e);
	else
		bpshaper_entity_unlink(e);
	e->is_offering = offers;
	e->left_ns = tree->now_ns;
	parent->e.offering += more;
	parent->weights[e->prio] += more * (s64)e->weight;
	if (e->has_floor)
		parent->floors[n->overcommit] += more;
}

/* The entity may have begun or ceased to offer. */
static void bpshaper_entity_update(const struct bpshaper_tree *tree,
				   struct bpshaper_entity *e)
{
	bool offers;

	for (; e->parent; e = &e->parent->e) {
		offers = !e->is_waiting && (e->has_backlog || e->offering);
		if (offers == e->is_offering)
			return;
		bpshaper_entity_set_offering(tree, e, offers);
	}
}

/* Choosing */

static bool bpshaper_node_floor_is_due(const struct bpshaper_tree *tree,
				       const struct bpshaper_node *n)
{
	return n->e.has_floor &&
	       n->due.at <= bpshaper_node_clock(tree, n->e.parent,
						n->overcommit);
}

/* The child to serve next. At least one child offers. */
static struct bpshaper_entity *
bpshaper_node_next_child(const struct bpshaper_tree *tree,
			 const struct bpshaper_node *n)
{
	struct bpshaper_node *due = bpshaper_node_first_due(n, 0);
	struct bpshaper_entity *e;

	if (!due || !bpshaper_node_floor_is_due(tree, due))
		due = bpshaper_node_first_due(n, 1);
	if (due && bpshaper_node_floor_is_due(tree, due)) {
		due->e.is_due = true;
		return &due->e;
	}
	e = bpshaper_node_first_turn(n);
	e->is_due = false;
	return e;
}

/* The leaf to serve next; NULL if none offers. */
static struct bpshaper_entity *bpshaper_tree_next(struct bpshaper_tree *tree)
{
	struct bpshaper_entity *e = &tree->root.e;

	while (e->offering)
		e = bpshaper_node_next_child(tree, bpshaper_entity_node(e));
	return e->parent ? e : NULL;
}

/* Ceils */

/* What may be granted below @n beside what is, bytes. */
static s64 bpshaper_node_room(const struct bpshaper_tree *tree,
			      const struct bpshaper_node *n)
{
	return bpshaper_bucket_room(&n->bucket, &n->ceil, tree->now_ns);
}

/* May @bytes be granted below @n? More than the burst may when the bucket is
 * full: it owes the rest.
 */
static bool bpshaper_node_allows(const struct bpshaper_tree *tree,
				 const struct bpshaper_node *n, u32 bytes)
{
	return !n->ceil.Bps ||
	       (!n->bucket.out && n->bucket.tat_ns <= tree->now_ns) ||
	       bpshaper_node_room(tree, n) >= bytes;
}

/* When @bytes may be granted below @n. If the bucket is full, others have them,
 * and use them soon.
 */
static u64 bpshaper_node_ready_ns(const struct bpshaper_tree *tree,
				  const struct bpshaper_node *n, u32 bytes)
{
	u64 ns = bpshaper_rate_cost_ns(&n->ceil, bytes + n->bucket.out);

	return max(bpshaper_bucket_ready_ns(&n->bucket, ns),
		   tree->now_ns + (n->bucket.tat_ns > tree->now_ns ? 0 :
				   BPSHAPER_TIMER_LATE_NS));
}

/* The node offers nothing until @bytes may be granted. */
static void bpshaper_node_wait(struct bpshaper_tree *tree,
			       struct bpshaper_node *n, u32 bytes)
{
	n->stat_waits++;
	n->e.is_waiting = true;
	bpshaper_entity_update(tree, &n->e);
	n->ready.at = bpshaper_node_ready_ns(tree, n, bytes);
	bpshaper_tag_link(&tree->waiting, &n->ready);
}

/* When the first that waits is ready; U64_MAX if none does. */
static u64 bpshaper_tree_ready_ns(const struct bpshaper_tree *tree)
{
	const struct bpshaper_tag *first = bpshaper_tag_first(&tree->waiting);

	return first ? first->at : U64_MAX;
}

/* Changing: from bpshaper_node_change() to bpshaper_node_offer() the node is in
 * no tree. It stays out if it is about to go.
 */
static void bpshaper_node_change(struct bpshaper_tree *tree,
				 struct bpshaper_node *n)
{
	if (n->e.is_waiting)
		rb_erase_cached(&n->ready.node, &tree->waiting);
	n->e.is_waiting = true;
	bpshaper_entity_update(tree, &n->e);
}

static void bpshaper_node_offer(const struct bpshaper_tree *tree,
				struct bpshaper_node *n)
{
	n->e.is_waiting = false;
	bpshaper_entity_update(tree, &n->e);
}

/* Nodes whose buckets have refilled offer again. It takes @steps, two for each
 * level, as each may begin to offer; the last node may exceed them.
 */
static void bpshaper_tree_wake(struct bpshaper_tree *tree, int steps)
{
	struct bpshaper_node *n;

	while (steps > 0 && bpshaper_tree_ready_ns(tree) <= tree->now_ns) {
		n = container_of(bpshaper_tag_first(&tree->waiting),
				 struct bpshaper_node, ready);
		bpshaper_node_change(tree, n);
		bpshaper_node_offer(tree, n);
		steps -= 2 * n->e.level;
	}
}

/* Its v says nothing among those of another prio. */
static void bpshaper_node_set_order(struct bpshaper_node *n, u8 prio,
				    u32 weight)
{
	if (prio != n->e.prio)
		n->e.left_ns = 0;
	n->e.prio = prio;
	n->e.weight = weight;
	n->e.inverse = div_u64(BPSHAPER_WEIGHT_ONE, weight);
}

/* Of what it has sent ahead of the old floor it owes two packets at most. */
static void bpshaper_node_set_floor(const struct bpshaper_tree *tree,
				    struct bpshaper_node *n, u64 Bps,
				    u8 overcommit)
{
	u64 clock = bpshaper_node_clock(tree, n->e.parent, overcommit);

	if (Bps == n->floor.Bps && overcommit == n->overcommit)
		return;
	bpshaper_rate_set(&n->floor, Bps);
	n->e.has_floor = Bps;
	n->overcommit = overcommit;
	n->due.at = min(n->due.at, clock + bpshaper_rate_cost_ns(&n->floor,
								 tree->credit));
}

/* Set the ceil, and start with an empty bucket. */
static void bpshaper_node_set_ceil(const struct bpshaper_tree *tree,
				   struct bpshaper_node *n,
				   const struct bpshaper_rate *r, u32 burst)
{
	n->ceil = *r;
	n->e.burst = r->Bps ? burst : 0;
	bpshaper_bucket_set(&n->bucket, r, burst, tree->now_ns);
}

/* Expecting */

/* Of @Bps of the root, what the entity would get if all that offer were greedy,
 * but those of a smaller prio left something. Floors of others are ignored. It
 * is a hint, and is read without a lock.
 */
static u64 bpshaper_entity_expected_Bps(const struct bpshaper_entity *e,
					u64 Bps)
{
	u64 weight = READ_ONCE(e->weight), all = e->is_offering ? 0 : weight;
	const struct bpshaper_node *n;
	int i;

	if (!e->parent)
		return Bps;
	Bps = bpshaper_entity_expected_Bps(&e->parent->e, Bps);
	for (i = 0; i <= e->prio; i++)
		all += e->parent->weights[i];
	all = div64_u64(Bps * weight, max(all, weight)); /* 2^43 * 2^20 */
	n = container_of(e, const struct bpshaper_node, e);
	if (e->has_floor)
		all = max(all, min(Bps, n->floor.Bps));
	return e->burst ? min(all, n->ceil.Bps) : all;
}

#endif /* _BPSHAPER_TREE_H */
