/* SPDX-License-Identifier: GPL-2.0-only */
/* The tree: which leaf is next?
 *
 * What a node may send is divided among its children, from the root down:
 *
 *	new	First comes a child that is back and has sent less than its part
 *		of the excess, until it has sent its part, a quantum at most. A
 *		child with a new one below it is new as well, until it has sent
 *		BPSHAPER_NEW_AHEAD more than its part. A smaller prio goes
 *		first, and so does a floor that has been due for
 *		BPSHAPER_FLOOR_LATE_NS.
 *	floor	Then come children whose floor has a packet due, the first to be
 *		late first: virtual clock (Zhang, SIGCOMM 1990). Floors that may
 *		overcommit come after the others. The clock stands while floors
 *		exceed what there is, so each gets its part.
 *	excess	Last come the others, by prio and weight: start-time fair
 *		queueing (Goyal, Vin, Cheng, SIGCOMM 1996). The start tag of a
 *		child counts the bytes that it got beyond its floor, by weight;
 *		the virtual time of a prio is the start tag that was served
 *		last.
 *
 * A node with a ceil has a bucket (rate.h). When the bucket lacks tokens for
 * the packet of the leaf that was chosen, the node waits for them, and another
 * leaf is chosen. A node that does not wait offers a packet to its parent: a
 * leaf while it has a backlog, any other node while it has a child that offers.
 *
 * A step takes the logarithm of the number of siblings for each level. Nothing
 * here knows a qdisc or reads a clock, so that the host's unit test can include
 * this file. The caller serialises.
 */
#ifndef _BPSHAPER_TREE_H
#define _BPSHAPER_TREE_H

#define BPSHAPER_PRIOS		8
#define BPSHAPER_DEPTH_MAX	8	/* levels below the root */
#define BPSHAPER_WEIGHT_ONE	BIT_ULL(32) /* start tags are in bytes / this */
#define BPSHAPER_LEVEL_STEPS	4	/* as long as so many flows take */
#define BPSHAPER_TAG_AHEAD	BIT(21)	/* bytes; more than any packet */
#define BPSHAPER_NEW_AHEAD	BIT(11)	/* bytes */
#define BPSHAPER_FLOOR_LATE_NS	(5 * NSEC_PER_MSEC)
#define BPSHAPER_FLOOR_STAND_NS	(4 * BPSHAPER_FLOOR_LATE_NS)
#define BPSHAPER_FLOOR_QUANTA	2	/* of credit */
#define BPSHAPER_CEIL_SLACK_NS	(NSEC_PER_MSEC / 4)

/**
 * struct bpshaper_node - a class, the qdisc's own leaf, or the root
 * @parent: NULL for the root
 * @prio: of the excess, 0 (served first) to BPSHAPER_PRIOS - 1 (class.h)
 * @weight: its part of the excess, 1 to 2^20
 * @weight_inverse: BPSHAPER_WEIGHT_ONE / @weight
 * @floor: rate that it gets before others get more than theirs; Bps 0: none
 * @ceil: rate that it does not exceed; Bps 0: none
 * @bucket: of @ceil
 * @burst: bytes that @bucket holds
 * @batch: bytes for which it waits, if it has a backlog of as many
 * @overcommit: 1 if its floor may exceed what is left of the parent's floor
 * @credit_ns: from when a packet is due by the floor to when it is late
 * @due_ns: when its next packet is due by its floor
 * @due_first_ns: the least @due_ns of its subtree in @by_late of the parent
 * @late: when its next packet will be late, in @by_late of the parent
 * @start: start tag: bytes of the excess by weight
 * @last: bytes of the excess that it sent last
 * @turn: @start, or less if it is new, in @by_turn of the parent
 * @ready: while it waits, when it is woken at the latest, in @waiting of the
 *	tree; while it offers, the time of its burst, in @filling of the tree
 * @is_due: it was chosen last because of its floor
 * @is_new: it, or a node below it, has come back with less than its part
 * @is_waiting: it waits for @bucket; of a slot: it is away (slot.h)
 * @is_single: it waits for a packet, not for @batch
 * @has_backlog: it is a leaf with packets
 * @away: slots below, or itself, that are away and want more than they have
 *	(slot.h)
 * @away_weight: weights of children that do not offer because of that, for each
 *	prio
 * @is_away: it is one of those
 * @kept_prio: prio of children that have enough, and soon need more (hub.h)
 * @kept_ns: until when that is so
 * @ahead: bytes that it got out of turn since its turn (hub.h)
 * @is_offering: it is in the trees of its parent
 * @busy: 1 if @has_backlog, or children that are busy
 * @by_late: children with a floor that offer, by @late, for each @overcommit
 * @stood_ns: how long the clocks that @by_late goes by have stood
 * @by_turn: children that offer, by @turn, for each prio
 * @prios: bits of those prios that have children in @by_turn
 * @offering: children that offer
 * @offering_weight: their weights
 * @prio_weight: the same, for each prio
 * @vtime: virtual time of each prio
 * @stat_waits: times that it waited for @bucket
 */
struct bpshaper_node {
	struct bpshaper_node	*parent;
	u8			prio;
	u32			weight;
	u64			weight_inverse;
	struct bpshaper_rate	floor;
	struct bpshaper_rate	ceil;
	struct bpshaper_bucket	bucket;
	u32			burst;
	u32			batch;
	u8			overcommit;
	u64			credit_ns;
	u64			due_ns;
	u64			due_first_ns;
	struct bpshaper_tag	late;
	u64			start;
	u32			last;
	struct bpshaper_tag	turn;
	struct bpshaper_tag	ready;
	bool			is_due;
	bool			is_new;
	bool			is_waiting;
	bool			is_single;
	bool			has_backlog;
	bool			is_offering;

	u32			away;
	u64			away_weight[BPSHAPER_PRIOS];
	bool			is_away;
	u8			kept_prio;
	u64			kept_ns;
	u32			ahead;

	u32			busy;
	struct rb_root_cached	by_late[2];
	u64			stood_ns[2];
	struct rb_root_cached	by_turn[BPSHAPER_PRIOS];
	u8			prios;
	u32			offering;
	u64			offering_weight;
	u64			prio_weight[BPSHAPER_PRIOS];
	u64			vtime[BPSHAPER_PRIOS];
	u64			stat_waits;
};

/**
 * struct bpshaper_tree - a tree
 * @root: of all nodes
 * @lead: bytes that those which offer may be ahead of those that are away; 0
 *	with one lock
 * @least: bytes that a node makes up for at least
 * @waiting: nodes that wait for their buckets, by @ready
 * @filling: nodes with buckets that offer, by @ready
 */
struct bpshaper_tree {
	struct bpshaper_node	root;
	u32			lead;
	u32			least;
	struct rb_root_cached	waiting;
	struct rb_root_cached	filling;
};

static void bpshaper_node_set_weight(struct bpshaper_node *n, u32 weight)
{
	n->weight = weight;
	n->weight_inverse = div_u64(BPSHAPER_WEIGHT_ONE, weight);
}

/* Without packets, and without a memory of what it has sent. */
static void bpshaper_node_clear(struct bpshaper_node *n)
{
	int i;

	n->is_new = false;
	n->is_waiting = false;
	n->has_backlog = false;
	n->is_offering = false;
	n->busy = 0;
	n->away = 0;
	n->is_away = false;
	n->due_ns = 0;
	n->start = 0;
	n->prios = 0;
	n->offering = 0;
	n->offering_weight = 0;
	for (i = 0; i < 2; i++) {
		n->by_late[i] = RB_ROOT_CACHED;
		n->stood_ns[i] = 0;
	}
	for (i = 0; i < BPSHAPER_PRIOS; i++) {
		n->by_turn[i] = RB_ROOT_CACHED;
		n->vtime[i] = 0;
		n->away_weight[i] = 0;
		n->prio_weight[i] = 0;
	}
	bpshaper_bucket_fill(&n->bucket);
}

static void bpshaper_node_init(struct bpshaper_node *n,
			       struct bpshaper_node *parent)
{
	memset(n, 0, sizeof(*n));
	n->parent = parent;
	bpshaper_node_set_weight(n, 1);
	bpshaper_node_clear(n);
}

static void bpshaper_tree_init(struct bpshaper_tree *tree)
{
	bpshaper_node_init(&tree->root, NULL);
	tree->waiting = RB_ROOT_CACHED;
	tree->filling = RB_ROOT_CACHED;
}

/* Floors
 *
 * Among the floors that are due, the first to be late is served. So a fast
 * floor does not wait for many slow ones that are due at the same time.
 */

static struct bpshaper_node *bpshaper_node_by_late(struct rb_node *node)
{
	return node ? rb_entry(node, struct bpshaper_node, late.node) : NULL;
}

static bool bpshaper_node_set_due_first(struct bpshaper_node *n, bool may_stop)
{
	struct bpshaper_node *left, *right;
	u64 before = n->due_first_ns;

	left = bpshaper_node_by_late(n->late.node.rb_left);
	right = bpshaper_node_by_late(n->late.node.rb_right);
	n->due_first_ns = min3(n->due_ns, left ? left->due_first_ns : U64_MAX,
			       right ? right->due_first_ns : U64_MAX);
	return may_stop && n->due_first_ns == before;
}

RB_DECLARE_CALLBACKS(static, bpshaper_floors, struct bpshaper_node, late.node,
		     due_first_ns, bpshaper_node_set_due_first);

static void bpshaper_node_link_floor(struct bpshaper_node *n)
{
	struct rb_root_cached *root = &n->parent->by_late[n->overcommit];
	bool is_first;

	if (!n->floor.Bps)
		return;
	n->late.at = n->due_ns + n->credit_ns;
	is_first = bpshaper_tag_place(root, &n->late);
	bpshaper_node_set_due_first(n, false);
	bpshaper_floors_propagate(rb_parent(&n->late.node), NULL);
	rb_insert_augmented_cached(&n->late.node, root, is_first,
				   &bpshaper_floors);
}

static void bpshaper_node_unlink_floor(struct bpshaper_node *n)
{
	if (n->floor.Bps)
		rb_erase_augmented_cached(&n->late.node,
					  &n->parent->by_late[n->overcommit],
					  &bpshaper_floors);
}

/* The child that will be late first; NULL if none has a floor. */
static struct bpshaper_node *
bpshaper_node_first_late(const struct bpshaper_node *parent, u8 overcommit)
{
	const struct rb_root_cached *root = &parent->by_late[overcommit];

	return bpshaper_node_by_late(rb_first_cached(root));
}

/* The time that floors go by. It stands while the first has been late for
 * BPSHAPER_FLOOR_STAND_NS: floors exceed what there is.
 */
static u64 bpshaper_node_clock(struct bpshaper_node *parent, u8 overcommit,
			       u64 now)
{
	const struct bpshaper_node *first =
		bpshaper_node_first_late(parent, overcommit);
	u64 clock = now - parent->stood_ns[overcommit];

	if (first)
		clock = min(clock, first->late.at + BPSHAPER_FLOOR_STAND_NS);
	parent->stood_ns[overcommit] = now - clock;
	return clock;
}

/* Among the children that are due by @at the first to be late, or NULL. */
static struct bpshaper_node *
bpshaper_floors_first_due(const struct rb_root_cached *root, u64 at)
{
	struct bpshaper_node *n, *left;

	n = bpshaper_node_by_late(root->rb_root.rb_node);
	while (n && n->due_first_ns <= at) {
		left = bpshaper_node_by_late(n->late.node.rb_left);
		if (left && left->due_first_ns <= at)
			n = left;
		else if (n->due_ns > at)
			n = bpshaper_node_by_late(n->late.node.rb_right);
		else
			return n;
	}
	return NULL;
}

/* The child to serve among those that have been due for @ns, or NULL. */
static struct bpshaper_node *
bpshaper_node_first_due(struct bpshaper_node *parent, u64 ns, u64 now)
{
	struct bpshaper_node *n;
	u64 clock;
	int i;

	for (i = 0; i < 2; i++) {
		if (RB_EMPTY_ROOT(&parent->by_late[i].rb_root))
			continue;
		clock = bpshaper_node_clock(parent, i, now);
		n = bpshaper_floors_first_due(&parent->by_late[i],
					      clock - min(clock, ns));
		if (n)
			return n;
	}
	return NULL;
}

/* Turns */

static struct bpshaper_node *
bpshaper_node_first_turn(const struct bpshaper_node *parent)
{
	u8 prio = __ffs(parent->prios);

	return rb_entry(rb_first_cached(&parent->by_turn[prio]),
			struct bpshaper_node, turn.node);
}

/* Has it come back with less than its part? */
static bool bpshaper_node_is_behind(const struct bpshaper_node *n)
{
	return bpshaper_tag_before(n->start, n->parent->vtime[n->prio]);
}

/* Is it to be served before those that are due, or one below it? */
static bool bpshaper_node_is_early(const struct bpshaper_node *n)
{
	return bpshaper_tag_before(n->turn.at, n->parent->vtime[n->prio]);
}

static bool bpshaper_node_has_new(const struct bpshaper_node *n)
{
	if (bpshaper_node_is_behind(n))
		return true;
	return n->prios && bpshaper_node_is_early(bpshaper_node_first_turn(n));
}

/* The turn of a new node is earlier by its last packet and by what it may be
 * ahead.
 */
static void bpshaper_node_link_turn(struct bpshaper_node *n)
{
	struct bpshaper_node *parent = n->parent;

	n->is_new = bpshaper_node_has_new(n);
	n->turn.at = n->start;
	if (n->is_new)
		n->turn.at -= (n->last + BPSHAPER_NEW_AHEAD) *
			      n->weight_inverse;
	bpshaper_tag_link(&parent->by_turn[n->prio], &n->turn);
	parent->prios |= BIT(n->prio);
}

static void bpshaper_node_unlink_turn(struct bpshaper_node *n)
{
	struct bpshaper_node *parent = n->parent;

	rb_erase_cached(&n->turn.node, &parent->by_turn[n->prio]);
	if (RB_EMPTY_ROOT(&parent->by_turn[n->prio].rb_root))
		parent->prios &= ~BIT(n->prio);
}

/* Of @bytes those that @Bps sends in the time that the root takes for all, or
 * @least if that is more.
 */
static u32 bpshaper_tree_scale(const struct bpshaper_tree *tree, u64 Bps,
			       u32 bytes, u32 least)
{
	u64 part = div64_u64(Bps << 20, tree->root.ceil.Bps); /* 2^43 << 20 */

	return max_t(u64, min_t(u64, bytes * part >> 20, bytes), least);
}

/* With several queues, what a child of @n makes up for: as for the root, or it
 * would keep others below a slow node waiting for long. @n gets its weight of
 * all that want something, and its ceil at most.
 */
static u32 bpshaper_node_credit(const struct bpshaper_tree *tree,
				const struct bpshaper_node *n, u32 bytes,
				u32 least)
{
	u64 Bps = tree->root.ceil.Bps, most = Bps, weight;
	const struct bpshaper_node *parent;

	if (!tree->lead || !n->parent)
		return bytes;
	for (; n->parent; n = parent) {
		parent = n->parent;
		if (n->ceil.Bps)
			most = min(most, n->ceil.Bps);
		weight = max_t(u64, n->weight, parent->prio_weight[n->prio] +
			       parent->away_weight[n->prio]);
		Bps = div64_u64(Bps * n->weight, weight);
	}
	return bpshaper_tree_scale(tree, min(Bps, most), bytes, least);
}

/* Offering */

/* The start tag that the node gets when it joins. It keeps the old one, but is
 * no more than a quantum behind the virtual time. A tag of another prio, or one
 * from before tags wrapped, does not count.
 */
static u64 bpshaper_node_join_start(const struct bpshaper_node *n, u32 quantum)
{
	u64 least = n->parent->vtime[n->prio] - quantum * n->weight_inverse;
	u64 most = (quantum + BPSHAPER_TAG_AHEAD) * n->weight_inverse;

	return n->start - least <= most ? n->start : least;
}

/* Let the floor have been due for @ns at most, and forgive the rest. If others
 * are late, let it be as late as the first of them, so that it does not wait
 * for all of them.
 */
static void bpshaper_node_forgive(struct bpshaper_node *n, u64 ns, u64 now)
{
	u64 clock = bpshaper_node_clock(n->parent, n->overcommit, now);
	const struct bpshaper_node *first =
		bpshaper_node_first_late(n->parent, n->overcommit);

	if (first && clock > first->late.at)
		ns = max(ns, clock - first->late.at + n->credit_ns);
	n->due_ns = max(n->due_ns, clock - min(clock, ns));
}

/* Does the node not offer because leaves below are away? */
static void bpshaper_node_set_away(struct bpshaper_node *n, bool is_away)
{
	if (is_away == n->is_away)
		return;
	n->is_away = is_away;
	if (is_away)
		n->parent->away_weight[n->prio] += n->weight;
	else
		n->parent->away_weight[n->prio] -= n->weight;
}

/* The node has a packet for its parent again. It makes up for a quantum of the
 * excess that it missed; the rest is lost.
 */
static void bpshaper_node_join(struct bpshaper_tree *tree,
			       struct bpshaper_node *n, u32 quantum, u64 now)
{
	quantum = bpshaper_node_credit(tree, n->parent, quantum, tree->least);
	n->start = bpshaper_node_join_start(n, quantum);
	bpshaper_node_forgive(n, n->credit_ns + 2 * BPSHAPER_FLOOR_LATE_NS,
			      now);
	n->is_offering = true;
	bpshaper_node_set_away(n, false);
	n->parent->offering++;
	n->parent->offering_weight += n->weight;
	n->parent->prio_weight[n->prio] += n->weight;
	bpshaper_node_link_turn(n);
	bpshaper_node_link_floor(n);
	if (n->ceil.Bps) {
		n->ready.at = n->bucket.burst_ns;
		bpshaper_tag_link(&tree->filling, &n->ready);
	}
}

/* If the node was the last child of its prio to run empty and no floor is due,
 * nobody waits: forget what children of that prio have sent.
 */
static void bpshaper_node_forget(const struct bpshaper_node *n, u32 quantum,
				 u64 now)
{
	struct bpshaper_node *parent = n->parent;

	if (!n->busy && !parent->away_weight[n->prio] &&
	    !(parent->prios & BIT(n->prio)) &&
	    !bpshaper_node_first_due(parent, 0, now))
		parent->vtime[n->prio] += quantum * BPSHAPER_WEIGHT_ONE;
}

/* The node has no packet for its parent any more. */
static void bpshaper_node_part(struct bpshaper_tree *tree,
			       struct bpshaper_node *n, u32 quantum, u64 now)
{
	struct bpshaper_node *parent = n->parent;

	n->is_offering = false;
	parent->offering--;
	parent->offering_weight -= n->weight;
	parent->prio_weight[n->prio] -= n->weight;
	bpshaper_node_unlink_turn(n);
	bpshaper_node_unlink_floor(n);
	bpshaper_node_set_away(n, n->away && !(n->is_waiting && n->ceil.Bps));
	bpshaper_node_forget(n, quantum, now);
	if (n->ceil.Bps)
		rb_erase_cached(&n->ready.node, &tree->filling);
}

static bool bpshaper_node_can_offer(const struct bpshaper_node *n)
{
	return !n->is_waiting && (n->has_backlog || n->offering);
}

/* The node may have begun or ceased to offer, or one below it to be new. */
static void bpshaper_node_update(struct bpshaper_tree *tree,
				 struct bpshaper_node *n, u32 quantum, u64 now)
{
	bool can_offer;

	for (; n->parent; n = n->parent) {
		can_offer = bpshaper_node_can_offer(n);
		if (can_offer && !n->is_offering) {
			bpshaper_node_join(tree, n, quantum, now);
		} else if (!can_offer && n->is_offering) {
			bpshaper_node_part(tree, n, quantum, now);
		} else if (can_offer && n->is_new != bpshaper_node_has_new(n)) {
			bpshaper_node_unlink_turn(n);
			bpshaper_node_link_turn(n);
		} else {
			return;
		}
	}
}

/* A leaf has got a backlog, or has none any more. A node that comes back makes
 * up for @credit_ns of its floor, at most BPSHAPER_FLOOR_LATE_NS, so that it
 * does not go before new ones.
 */
static void bpshaper_node_set_backlog(struct bpshaper_tree *tree,
				      struct bpshaper_node *leaf,
				      bool has_backlog, u32 quantum, u64 now)
{
	struct bpshaper_node *n = leaf;

	if (has_backlog == leaf->has_backlog)
		return;
	leaf->has_backlog = has_backlog;
	for (; n->parent && !has_backlog && !--n->busy; n = n->parent) {
		if (n->is_offering)
			continue;
		bpshaper_node_set_away(n, false);
		bpshaper_node_forget(n, quantum, now);
	}
	for (; n->parent && has_backlog && !n->busy++; n = n->parent)
		bpshaper_node_forgive(n, min_t(u64, n->credit_ns,
					       BPSHAPER_FLOOR_LATE_NS), now);
	bpshaper_node_update(tree, leaf, quantum, now);
}

/* Waiting for a bucket */

static struct bpshaper_node *
bpshaper_node_first_ready(const struct rb_root_cached *root)
{
	struct bpshaper_tag *first = bpshaper_tag_first(root);

	return first ? container_of(first, struct bpshaper_node, ready) : NULL;
}

/* How late a node that waits for a batch may be woken, so that one timer serves
 * many. Its bucket fills meanwhile.
 */
static u64 bpshaper_node_slack_ns(const struct bpshaper_node *n)
{
	return n->is_single ? 0 : min_t(u64, BPSHAPER_CEIL_SLACK_NS,
					n->bucket.burst_ns / 4);
}

/* When the first node may be woken; U64_MAX if none waits. */
static u64 bpshaper_tree_ready_ns(const struct bpshaper_tree *tree)
{
	const struct bpshaper_node *n;

	n = bpshaper_node_first_ready(&tree->waiting);
	return n ? n->ready.at - bpshaper_node_slack_ns(n) : U64_MAX;
}

/* When to wake up for those that wait. */
static u64 bpshaper_tree_wake_ns(const struct bpshaper_tree *tree)
{
	const struct bpshaper_node *n;

	n = bpshaper_node_first_ready(&tree->waiting);
	return n ? n->ready.at : U64_MAX;
}

/* Until when the qdisc may sleep for a batch of its own. Before that no bucket
 * of a node that offers is full.
 */
static u64 bpshaper_tree_sleep_ns(const struct bpshaper_tree *tree, u64 now)
{
	u64 wake_ns = bpshaper_tree_wake_ns(tree);
	const struct bpshaper_node *n;

	n = bpshaper_node_first_ready(&tree->filling);
	return n ? min(wake_ns, now + n->ready.at / 4) : wake_ns;
}

static void bpshaper_node_unwait(struct bpshaper_tree *tree,
				 struct bpshaper_node *n)
{
	rb_erase_cached(&n->ready.node, &tree->waiting);
	n->is_waiting = false;
}

/* Levels of the tree down to the node. */
static int bpshaper_node_levels(const struct bpshaper_node *n)
{
	int levels = 0;

	for (; n->parent; n = n->parent)
		levels++;
	return levels;
}

/* Nodes whose buckets have refilled offer again. This takes @steps, a few for
 * each level of a node; the last node may exceed them.
 */
static void bpshaper_tree_wake(struct bpshaper_tree *tree, u32 quantum,
			       int steps, u64 now)
{
	struct bpshaper_node *n;

	while (steps > 0 && bpshaper_tree_ready_ns(tree) <= now) {
		n = bpshaper_node_first_ready(&tree->waiting);
		bpshaper_node_unwait(tree, n);
		bpshaper_node_update(tree, n, quantum, now);
		steps -= BPSHAPER_LEVEL_STEPS * bpshaper_node_levels(n);
	}
}

/* The leaf has got a packet that does not wait for a batch. Let all nodes from
 * the leaf up that wait for a batch try again.
 */
static void bpshaper_tree_retry(struct bpshaper_tree *tree,
				struct bpshaper_node *leaf, u32 quantum,
				u64 now)
{
	struct bpshaper_node *n;

	for (n = leaf; n->parent; n = n->parent) {
		if (!n->is_waiting || n->is_single)
			continue;
		bpshaper_node_unwait(tree, n);
		bpshaper_node_update(tree, n, quantum, now);
	}
}

/* The first node from the leaf up whose bucket does not do for @bytes; NULL if
 * they may leave by all ceils.
 */
static struct bpshaper_node *
bpshaper_node_first_short(struct bpshaper_node *leaf, u32 bytes, u64 now)
{
	struct bpshaper_node *n;

	for (n = leaf; n->parent; n = n->parent)
		if (n->ceil.Bps &&
		    !bpshaper_bucket_conforms(&n->bucket, &n->ceil, bytes, now))
			return n;
	return NULL;
}

/* The node waits until its bucket does for a packet of @bytes if @is_single, or
 * else for a batch of the @backlog bytes of the leaf.
 */
static void bpshaper_node_wait(struct bpshaper_tree *tree,
			       struct bpshaper_node *n, u32 bytes, u32 backlog,
			       bool is_single, u32 quantum, u64 now)
{
	u64 cost_ns;

	n->is_single = is_single;
	if (!is_single)
		bytes = max(bytes, min(backlog, n->batch));
	cost_ns = bpshaper_rate_cost_ns(&n->ceil, bytes + n->bucket.out);
	n->is_waiting = true;
	n->stat_waits++;
	bpshaper_node_update(tree, n, quantum, now);
	n->ready.at = bpshaper_bucket_ready_ns(&n->bucket, cost_ns) +
		      bpshaper_node_slack_ns(n);
	bpshaper_tag_link(&tree->waiting, &n->ready);
}

/* Does the leaf, or one above it, wait for its bucket? */
static bool bpshaper_node_is_held(const struct bpshaper_node *n)
{
	for (; n->parent; n = n->parent)
		if (n->is_waiting)
			return true;
	return false;
}

/* Expecting */

/* The weights of what the node shares with. A larger prio gets nothing beside
 * the first; a smaller one may leave something, so count all.
 */
static u64 bpshaper_node_peers_weight(const struct bpshaper_node *n)
{
	const struct bpshaper_node *parent = n->parent;
	u64 weight = parent->prios & (BIT(n->prio) - 1) ?
		     parent->offering_weight : parent->prio_weight[n->prio];

	return weight + (n->is_offering ? 0 : n->weight);
}

/* Estimate what the node would get of @Bps of the root, bytes per second, if
 * all nodes that offer were greedy. Floors of others are ignored.
 */
static u64 bpshaper_node_expected_Bps(const struct bpshaper_node *n, u64 Bps)
{
	const struct bpshaper_node *path[BPSHAPER_DEPTH_MAX + 1];
	int depth = 0;
	u64 weight;

	for (; n->parent; n = n->parent)
		path[depth++] = n;
	while (depth--) {
		n = path[depth];
		weight = bpshaper_node_peers_weight(n);
		/* Both may change meanwhile, without the lock of the hub. */
		weight = max_t(u64, weight, n->weight);
		/* Bps is 2^43 and a weight 2^20 at most. */
		Bps = max(div64_u64(Bps * n->weight, weight),
			  min(Bps, n->floor.Bps));
		if (n->ceil.Bps)
			Bps = min(Bps, n->ceil.Bps);
	}
	return Bps;
}

/* Changing */

/* What it has sent ahead of the old floor it has sent ahead of the new one. */
static void bpshaper_node_set_floor(struct bpshaper_node *n, u64 Bps,
				    u8 overcommit, u32 quantum, u64 now)
{
	u64 clock = bpshaper_node_clock(n->parent, n->overcommit, now);
	u64 ahead_ns = n->due_ns - min(n->due_ns, clock);
	u32 ahead = bpshaper_rate_bytes(&n->floor, ahead_ns);

	if (Bps != n->floor.Bps)
		bpshaper_rate_set(&n->floor, Bps);
	if (ahead_ns || overcommit != n->overcommit)
		n->due_ns = bpshaper_node_clock(n->parent, overcommit, now) +
			    bpshaper_rate_cost_ns(&n->floor, ahead);
	n->overcommit = overcommit;
	n->credit_ns = bpshaper_rate_cost_ns(&n->floor,
					     BPSHAPER_FLOOR_QUANTA * quantum);
}

/* Set the burst of its ceil. A batch is half of it, at most what the ceil sends
 * in @batch_ns.
 */
static void bpshaper_node_set_burst(struct bpshaper_node *n, u32 burst,
				    u64 batch_ns, u64 now)
{
	n->burst = burst;
	n->batch = min(burst / 2, bpshaper_rate_bytes(&n->ceil, batch_ns));
	bpshaper_bucket_set(&n->bucket, &n->ceil, burst, now);
}

/* Take the node out of the trees, so that the caller can change it and then let
 * it offer again (bpshaper_node_update()).
 */
static void bpshaper_node_change(struct bpshaper_tree *tree,
				 struct bpshaper_node *n, u32 quantum, u64 now)
{
	if (n->is_waiting)
		bpshaper_node_unwait(tree, n);
	if (n->is_offering)
		bpshaper_node_part(tree, n, quantum, now);
	bpshaper_node_set_away(n, false);
}

/* The node is about to go, or has lost its packets: nobody refers to it. */
static void bpshaper_node_leave(struct bpshaper_tree *tree,
				struct bpshaper_node *n, u32 quantum, u64 now)
{
	if (n->is_waiting)
		bpshaper_node_unwait(tree, n);
	bpshaper_node_set_backlog(tree, n, false, quantum, now);
}

/* Choosing */

/* The child to serve next. At least one child offers. */
static struct bpshaper_node *
bpshaper_node_next_child(struct bpshaper_node *parent, u64 now)
{
	struct bpshaper_node *n = bpshaper_node_first_turn(parent), *due;

	due = bpshaper_node_first_due(parent, bpshaper_node_is_early(n) ?
					      BPSHAPER_FLOOR_LATE_NS : 0, now);
	if (due && due->overcommit)	/* a strict one may be due as well */
		due = bpshaper_node_first_due(parent, 0, now);
	n->is_due = false;
	if (!due)
		return n;
	due->is_due = true;
	return due;
}

/* The leaf to send next; NULL if none may. */
static struct bpshaper_node *
bpshaper_tree_next(struct bpshaper_tree *tree, u64 now)
{
	struct bpshaper_node *n = &tree->root;

	while (n->offering)
		n = bpshaper_node_next_child(n, now);
	return n->parent ? n : NULL;
}

/* Has the leaf come back with less than its part, or one above it? */
static bool bpshaper_node_was_new(const struct bpshaper_node *n)
{
	for (; n->parent; n = n->parent)
		if (bpshaper_node_is_behind(n))
			return true;
	return false;
}

/* Charging */

static void bpshaper_node_pay_floor(struct bpshaper_node *n, u32 bytes)
{
	bpshaper_node_unlink_floor(n);
	n->due_ns += bpshaper_rate_cost_ns(&n->floor, bytes);
	bpshaper_node_link_floor(n);
}

/* The node is served in its turn: its tag is the virtual time. While others are
 * away that goes on as if they took part, so that they do not lose their parts.
 */
static void bpshaper_node_advance(const struct bpshaper_tree *tree,
				  struct bpshaper_node *n, u32 bytes)
{
	struct bpshaper_node *parent = n->parent;
	u64 ahead = n->turn.at - parent->vtime[n->prio], weight;
	u32 lead;

	if (parent->away_weight[n->prio]) {
		weight = parent->prio_weight[n->prio] +
			 parent->away_weight[n->prio];
		ahead -= min(ahead, div64_u64(bytes * BPSHAPER_WEIGHT_ONE,
					      weight));
		lead = bpshaper_node_credit(tree, parent, tree->lead,
					    4 * tree->least);
		ahead = min(ahead, div64_u64(lead * BPSHAPER_WEIGHT_ONE,
					     weight));
	} else {
		ahead = 0;
	}
	parent->vtime[n->prio] = n->turn.at - ahead;
}

/* The node, which offers, was chosen and sends @bytes. */
static void bpshaper_node_pay(const struct bpshaper_tree *tree,
			      struct bpshaper_node *n, u32 bytes)
{
	if (n->is_due) {
		bpshaper_node_pay_floor(n, bytes);
		if (n->is_new == bpshaper_node_has_new(n))
			return;
	}
	bpshaper_node_unlink_turn(n);
	if (!n->is_due) {
		if (!bpshaper_node_is_early(n)) {
			bpshaper_node_advance(tree, n, bytes);
			n->last = bytes;
		}
		n->start += (u64)bytes * n->weight_inverse;
	}
	bpshaper_node_link_turn(n);
}

/* The leaf that bpshaper_tree_next() has returned sends @bytes. */
static void bpshaper_node_charge(const struct bpshaper_tree *tree,
				 struct bpshaper_node *leaf, u32 bytes, u64 now)
{
	struct bpshaper_node *n;

	for (n = leaf; n->parent; n = n->parent) {
		if (n->ceil.Bps)
			bpshaper_bucket_charge(&n->bucket, &n->ceil, bytes,
					       now);
		bpshaper_node_pay(tree, n, bytes);
	}
}

#endif /* _BPSHAPER_TREE_H */
