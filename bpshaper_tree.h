/* SPDX-License-Identifier: GPL-2.0-only */
/* The tree: which leaf is next?
 *
 * What a node may send is divided among its children, from the root down:
 *
 *	new	A child that has sent less than its part of the excess and comes
 *		back is first, until it has sent as much, a quantum at most; not
 *		before a smaller prio, nor before a child that is behind its
 *		floor by half of what it may be.
 *	floor	Then children that are behind their floor, in the order in which
 *		their packets were due: virtual clock (Zhang, SIGCOMM 1990).
 *		Floors that may overcommit come after the others. The clock
 *		stops when floors exceed what there is, so each gets its part.
 *	excess	Then the others, by prio and weight: start-time fair queueing
 *		(Goyal, Vin, Cheng, SIGCOMM 1996). The start tag of a child
 *		counts the bytes that it got beyond its floor, by weight; the
 *		virtual time of a prio is the start tag that was served last.
 *
 * A node that has a ceil has a bucket (bpshaper_bucket.h). When the bucket does
 * not do for the packet of the leaf that was chosen, the node waits until it
 * does, and another leaf is chosen. A node offers a packet to its parent while
 * it does not wait and has a backlog (a leaf) or a child that offers (others).
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
#define BPSHAPER_TAG_AHEAD	BIT(21)	/* bytes; more than any packet */
#define BPSHAPER_FLOOR_CREDIT_NS (10 * NSEC_PER_MSEC)
#define BPSHAPER_FLOOR_QUANTA	2	/* of credit at least */

/**
 * enum bpshaper_choice - why a child was chosen
 * @BPSHAPER_CHOSEN_NEW: it has come back, with less than its part
 * @BPSHAPER_CHOSEN_FLOOR: it was behind its floor
 * @BPSHAPER_CHOSEN_EXCESS: it was first by prio and weight
 */
enum bpshaper_choice {
	BPSHAPER_CHOSEN_NEW,
	BPSHAPER_CHOSEN_FLOOR,
	BPSHAPER_CHOSEN_EXCESS,
};

/**
 * struct bpshaper_tag - a place in a tree
 * @node: in the tree
 * @at: what the tree is ordered by
 */
struct bpshaper_tag {
	struct rb_node	node;
	u64		at;
};

/**
 * struct bpshaper_node - a class, the qdisc's own leaf, or the root
 * @parent: NULL for the root
 * @prio: of the excess, 0 (served first) to BPSHAPER_PRIOS - 1
 * @weight: its part of the excess, 1 to 2^20
 * @weight_inverse: BPSHAPER_WEIGHT_ONE / @weight
 * @floor: rate that it gets before others get more than theirs; Bps 0: none
 * @ceil: rate that it does not exceed; Bps 0: none
 * @bucket: of @ceil
 * @burst: bytes that @bucket holds
 * @batch: bytes that may leave when @bucket does again, if there are as many
 * @overcommit: 1 if its floor may exceed what others leave of the parent's
 * @credit_ns: how long it may be behind its floor; more is forgiven
 * @due: when its next packet is due by its floor, in @by_floor of the parent
 * @start: start tag, bytes of the excess by weight, in @by_start of the parent
 * @ready: until when it waits for @bucket, in the tree of those that wait
 * @choice: why it was chosen last
 * @is_new: it is on the parent's @new_children
 * @is_waiting: it waits for @bucket
 * @is_single: it waits for a packet, not for @batch
 * @has_backlog: it is a leaf with packets
 * @is_offering: it is in the trees of its parent
 * @new_node: on @new_children of the parent
 * @new_children: that have come back, in that order
 * @by_floor: children with a floor that offer, by @due, for each @overcommit
 * @late_ns: how long the clocks that @by_floor goes by have stood
 * @by_start: children that offer, by @start, for each prio
 * @prios: bits of those prios that have children in @by_start
 * @offering: children that offer
 * @offering_weight: their weights
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
	struct bpshaper_tag	due;
	struct bpshaper_tag	start;
	struct bpshaper_tag	ready;
	u8			choice;
	bool			is_new;
	bool			is_waiting;
	bool			is_single;
	bool			has_backlog;
	bool			is_offering;
	struct list_head	new_node;

	struct list_head	new_children;
	struct rb_root_cached	by_floor[2];
	u64			late_ns[2];
	struct rb_root_cached	by_start[BPSHAPER_PRIOS];
	u8			prios;
	u32			offering;
	u64			offering_weight;
	u64			vtime[BPSHAPER_PRIOS];
	u64			stat_waits;
};

/**
 * struct bpshaper_tree - a tree
 * @root: of all nodes
 * @waiting: nodes that wait for their buckets, by @ready
 */
struct bpshaper_tree {
	struct bpshaper_node	root;
	struct rb_root_cached	waiting;
};

static void bpshaper_node_set_weight(struct bpshaper_node *c, u32 weight)
{
	c->weight = weight;
	c->weight_inverse = div_u64(BPSHAPER_WEIGHT_ONE, weight);
}

/* Without packets, and without a memory of what it has sent. */
static void bpshaper_node_clear(struct bpshaper_node *c)
{
	int i;

	c->is_new = false;
	c->is_waiting = false;
	c->has_backlog = false;
	c->is_offering = false;
	c->due.at = 0;
	c->start.at = 0;
	c->prios = 0;
	c->offering = 0;
	c->offering_weight = 0;
	INIT_LIST_HEAD(&c->new_node);
	INIT_LIST_HEAD(&c->new_children);
	for (i = 0; i < 2; i++) {
		c->by_floor[i] = RB_ROOT_CACHED;
		c->late_ns[i] = 0;
	}
	for (i = 0; i < BPSHAPER_PRIOS; i++) {
		c->by_start[i] = RB_ROOT_CACHED;
		c->vtime[i] = 0;
	}
	bpshaper_bucket_fill(&c->bucket);
}

static void bpshaper_node_init(struct bpshaper_node *c,
			       struct bpshaper_node *parent)
{
	memset(c, 0, sizeof(*c));
	c->parent = parent;
	bpshaper_node_set_weight(c, 1);
	bpshaper_node_clear(c);
}

static void bpshaper_tree_init(struct bpshaper_tree *t)
{
	bpshaper_node_init(&t->root, NULL);
	t->waiting = RB_ROOT_CACHED;
}

/* Trees
 *
 * Times and tags wrap: the later one is less than half of the range ahead.
 */

static bool bpshaper_tag_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

static void bpshaper_tag_link(struct rb_root_cached *tree,
			      struct bpshaper_tag *tag)
{
	struct rb_node **p = &tree->rb_root.rb_node, *parent = NULL;
	bool is_first = true;

	while (*p) {
		parent = *p;
		if (bpshaper_tag_before(tag->at,
					rb_entry(parent, struct bpshaper_tag,
						 node)->at)) {
			p = &parent->rb_left;
		} else {
			p = &parent->rb_right;
			is_first = false;
		}
	}
	rb_link_node(&tag->node, parent, p);
	rb_insert_color_cached(&tag->node, tree, is_first);
}

static void bpshaper_node_link_by_start(struct bpshaper_node *c)
{
	struct bpshaper_node *parent = c->parent;

	bpshaper_tag_link(&parent->by_start[c->prio], &c->start);
	parent->prios |= BIT(c->prio);
}

static void bpshaper_node_unlink_by_start(struct bpshaper_node *c)
{
	struct bpshaper_node *parent = c->parent;

	rb_erase_cached(&c->start.node, &parent->by_start[c->prio]);
	if (RB_EMPTY_ROOT(&parent->by_start[c->prio].rb_root))
		parent->prios &= ~BIT(c->prio);
}

/* Offering */

/* The start tag that the node gets when it joins: that of its last packet, but
 * no more than a quantum behind the virtual time, and none that is from another
 * prio or from so long ago that tags have wrapped.
 */
static u64 bpshaper_node_join_start(const struct bpshaper_node *c, u32 quantum)
{
	u64 least = c->parent->vtime[c->prio] - quantum * c->weight_inverse;
	u64 most = (quantum + BPSHAPER_TAG_AHEAD) * c->weight_inverse;

	return c->start.at - least <= most ? c->start.at : least;
}

/* The child that is first by its floor, and @clock, the time that floors go by.
 * The clock stops while the child is behind by twice what one may be that
 * comes: floors exceed what there is, and each is to get its part.
 */
static struct bpshaper_node *
bpshaper_node_first_floor(struct bpshaper_node *parent, u8 overcommit, u64 now,
			  u64 *clock)
{
	struct rb_node *first = rb_first_cached(&parent->by_floor[overcommit]);
	struct bpshaper_node *c;

	*clock = now - parent->late_ns[overcommit];
	if (!first)
		return NULL;
	c = rb_entry(first, struct bpshaper_node, due.node);
	*clock = min(*clock, c->due.at + 2 * c->credit_ns);
	parent->late_ns[overcommit] = now - *clock;
	return c;
}

/* Who comes is behind its floor by its credit at most, or as the first of the
 * others is, so that it need not wait for them.
 */
static void bpshaper_node_join_floor(struct bpshaper_node *c, u64 now)
{
	struct bpshaper_node *first;
	u64 clock, least;

	first = bpshaper_node_first_floor(c->parent, c->overcommit, now,
					  &clock);
	least = clock - min(clock, c->credit_ns);
	if (first)
		least = min(least, max(first->due.at,
				       clock - min(clock, 2 * c->credit_ns)));
	c->due.at = max(c->due.at, least);
	bpshaper_tag_link(&c->parent->by_floor[c->overcommit], &c->due);
}

/* The node has a packet for its parent again: it has been away. What it did not
 * get meanwhile is lost, but for a quantum of its part of the excess, and what
 * its floor sends in @credit_ns.
 */
static void bpshaper_node_join(struct bpshaper_node *c, u32 quantum, u64 now)
{
	struct bpshaper_node *parent = c->parent;

	c->start.at = bpshaper_node_join_start(c, quantum);
	c->is_offering = true;
	parent->offering++;
	parent->offering_weight += c->weight;
	bpshaper_node_link_by_start(c);
	if (c->floor.Bps)
		bpshaper_node_join_floor(c, now);
	c->is_new = bpshaper_tag_before(c->start.at, parent->vtime[c->prio]);
	if (c->is_new)
		list_add_tail(&c->new_node, &parent->new_children);
}

static void bpshaper_node_not_new(struct bpshaper_node *c)
{
	if (!c->is_new)
		return;
	c->is_new = false;
	list_del_init(&c->new_node);
}

static void bpshaper_node_part(struct bpshaper_node *c)
{
	c->is_offering = false;
	c->parent->offering--;
	c->parent->offering_weight -= c->weight;
	bpshaper_node_unlink_by_start(c);
	if (c->floor.Bps)
		rb_erase_cached(&c->due.node,
				&c->parent->by_floor[c->overcommit]);
	bpshaper_node_not_new(c);
}

static bool bpshaper_node_can_offer(const struct bpshaper_node *c)
{
	return !c->is_waiting && (c->has_backlog || c->offering);
}

/* The class may have begun or ceased to offer. */
static void bpshaper_node_update(struct bpshaper_node *c, u32 quantum, u64 now)
{
	while (c->parent && bpshaper_node_can_offer(c) != c->is_offering) {
		if (c->is_offering)
			bpshaper_node_part(c);
		else
			bpshaper_node_join(c, quantum, now);
		c = c->parent;
	}
}

/* A leaf has got a backlog, or has none any more. */
static void bpshaper_node_set_backlog(struct bpshaper_node *c,
				      bool has_backlog, u32 quantum, u64 now)
{
	c->has_backlog = has_backlog;
	bpshaper_node_update(c, quantum, now);
}

/* Waiting for a bucket */

/* When the first node is to be woken; U64_MAX if none waits. */
static u64 bpshaper_tree_ready_ns(const struct bpshaper_tree *t)
{
	struct rb_node *first = rb_first_cached(&t->waiting);

	return first ? rb_entry(first, struct bpshaper_node,
				ready.node)->ready.at : U64_MAX;
}

/* When to wake up for those that wait: up to @slack_ns later if the first waits
 * for a batch, so that others can be served as well.
 */
static u64 bpshaper_tree_wake_ns(const struct bpshaper_tree *t, u64 slack_ns)
{
	struct rb_node *first = rb_first_cached(&t->waiting);
	const struct bpshaper_node *c;

	if (!first)
		return U64_MAX;
	c = rb_entry(first, struct bpshaper_node, ready.node);
	return c->ready.at + (c->is_single ? 0 :
			      min(slack_ns, c->bucket.burst_ns / 4));
}

static void bpshaper_node_unwait(struct bpshaper_tree *t,
				 struct bpshaper_node *c)
{
	rb_erase_cached(&c->ready.node, &t->waiting);
	c->is_waiting = false;
}

/* Levels of the tree down to the node. */
static int bpshaper_node_levels(const struct bpshaper_node *c)
{
	int levels = 0;

	for (; c->parent; c = c->parent)
		levels++;
	return levels;
}

/* Nodes whose buckets do again offer. They take up to @steps, one for each
 * level that may join its parent, and the last a few more.
 */
static void bpshaper_tree_wake(struct bpshaper_tree *t, u32 quantum, int steps,
			       u64 now)
{
	struct bpshaper_node *c;

	while (steps > 0 && bpshaper_tree_ready_ns(t) <= now) {
		c = rb_entry(rb_first_cached(&t->waiting),
			     struct bpshaper_node, ready.node);
		bpshaper_node_unwait(t, c);
		bpshaper_node_update(c, quantum, now);
		steps -= bpshaper_node_levels(c);
	}
}

/* Look at all that wait above the leaf again: it has a packet that is not to
 * wait for a batch.
 */
static void bpshaper_tree_retry(struct bpshaper_tree *t,
				struct bpshaper_node *leaf, u32 quantum,
				u64 now)
{
	struct bpshaper_node *c;

	for (c = leaf; c->parent; c = c->parent) {
		if (!c->is_waiting || c->is_single)
			continue;
		bpshaper_node_unwait(t, c);
		bpshaper_node_update(c, quantum, now);
	}
}

/* The node waits until its bucket does for @bytes. */
static void bpshaper_node_wait(struct bpshaper_tree *t, struct bpshaper_node *c,
			       u32 bytes, u32 quantum, u64 now)
{
	u64 cost_ns = bpshaper_rate_cost_ns(&c->ceil, bytes);

	c->ready.at = bpshaper_bucket_ready_ns(&c->bucket, cost_ns);
	c->is_waiting = true;
	c->stat_waits++;
	bpshaper_tag_link(&t->waiting, &c->ready);
	bpshaper_node_update(c, quantum, now);
}

/* May a packet of @bytes leave, by all ceils above the leaf? It has @backlog
 * bytes. If not, the node whose bucket does not do waits for a batch, or for
 * the packet if @is_single.
 */
static bool bpshaper_node_conforms(struct bpshaper_tree *t,
				   struct bpshaper_node *leaf, u32 bytes,
				   u32 backlog, bool is_single, u32 quantum,
				   u64 now)
{
	struct bpshaper_node *c;

	for (c = leaf; c->parent; c = c->parent) {
		if (!c->ceil.Bps ||
		    bpshaper_bucket_conforms(&c->bucket, &c->ceil, bytes, now))
			continue;
		c->is_single = is_single;
		if (!is_single)
			bytes = max(bytes, min(backlog, c->batch));
		bpshaper_node_wait(t, c, bytes, quantum, now);
		return false;
	}
	return true;
}

/* Does the leaf, or one above it, wait for its bucket? */
static bool bpshaper_node_is_held(const struct bpshaper_node *c)
{
	for (; c->parent; c = c->parent)
		if (c->is_waiting)
			return true;
	return false;
}

/* Expecting */

/* What the node would get of @Bps of the root if all that offer were greedy,
 * bytes per second: an estimate, as floors of others are not looked at.
 */
static u64 bpshaper_node_expected_Bps(const struct bpshaper_node *c, u64 Bps)
{
	const struct bpshaper_node *path[BPSHAPER_DEPTH_MAX + 1];
	int depth = 0;
	u64 weight;

	for (; c->parent; c = c->parent)
		path[depth++] = c;
	while (depth--) {
		c = path[depth];
		weight = c->parent->offering_weight;
		if (!c->is_offering)
			weight += c->weight;
		/* Bps is 2^43 and a weight 2^20 at most. */
		Bps = max(div64_u64(Bps * c->weight, weight),
			  min(Bps, c->floor.Bps));
		if (c->ceil.Bps)
			Bps = min(Bps, c->ceil.Bps);
	}
	return Bps;
}

/* What it gets at most of @Bps of the root. */
static u64 bpshaper_node_most_Bps(const struct bpshaper_node *c, u64 Bps)
{
	for (; c->parent; c = c->parent)
		if (c->ceil.Bps)
			Bps = min(Bps, c->ceil.Bps);
	return Bps;
}

/* Changing */

static void bpshaper_node_set_floor(struct bpshaper_node *c, u64 Bps,
				    u8 overcommit, u32 quantum)
{
	c->overcommit = overcommit;
	bpshaper_rate_set(&c->floor, Bps);
	c->credit_ns = max_t(u64, BPSHAPER_FLOOR_CREDIT_NS,
			     bpshaper_rate_cost_ns(&c->floor,
						   BPSHAPER_FLOOR_QUANTA *
						   quantum));
}

/* Set the burst of its ceil, of which half leaves at once, but no more than the
 * ceil sends in @batch_ns.
 */
static void bpshaper_node_set_burst(struct bpshaper_node *c, u32 burst,
				    u64 batch_ns, u64 now)
{
	c->burst = burst;
	c->batch = min(burst / 2, bpshaper_rate_bytes(&c->ceil, batch_ns));
	bpshaper_bucket_set(&c->bucket, &c->ceil, burst, now);
}

/* The caller changes what the node is offered by. Return whether it offers now,
 * for bpshaper_node_change_end().
 */
static bool bpshaper_node_change_begin(struct bpshaper_node *c)
{
	bool is_offering = c->is_offering;

	if (is_offering)
		bpshaper_node_part(c);
	return is_offering;
}

static void bpshaper_node_change_end(struct bpshaper_tree *t,
				     struct bpshaper_node *c, bool is_offering,
				     u32 quantum, u64 now)
{
	c->due.at = 0;
	if (is_offering)
		bpshaper_node_join(c, quantum, now);
	if (!c->is_waiting)
		return;
	bpshaper_node_unwait(t, c);
	bpshaper_node_update(c, quantum, now);
}

/* The node is about to go, or has lost its packets: nobody refers to it. */
static void bpshaper_node_leave(struct bpshaper_tree *t,
				struct bpshaper_node *c, u32 quantum, u64 now)
{
	if (c->is_waiting)
		bpshaper_node_unwait(t, c);
	bpshaper_node_set_backlog(c, false, quantum, now);
}

/* Choosing */

static struct bpshaper_node *
bpshaper_node_first_start(const struct bpshaper_node *parent)
{
	u8 prio = __ffs(parent->prios);

	return rb_entry(rb_first_cached(&parent->by_start[prio]),
			struct bpshaper_node, start.node);
}

/* The first child that is behind its floor, and by how much; NULL: none is. */
static struct bpshaper_node *
bpshaper_node_first_due(struct bpshaper_node *parent, u64 now, u64 *behind_ns)
{
	struct bpshaper_node *c;
	u64 clock;
	int i;

	for (i = 0; i < 2; i++) {
		c = bpshaper_node_first_floor(parent, i, now, &clock);
		if (c && c->due.at <= clock) {
			*behind_ns = clock - c->due.at;
			return c;
		}
	}
	*behind_ns = 0;
	return NULL;
}

/* The next child of a node that has some that offer. */
static struct bpshaper_node *
bpshaper_node_next_child(struct bpshaper_node *parent, u64 now)
{
	struct bpshaper_node *c, *due;
	u64 behind_ns;

	due = bpshaper_node_first_due(parent, now, &behind_ns);
	c = list_first_entry_or_null(&parent->new_children,
				     struct bpshaper_node, new_node);
	if (c && c->prio == __ffs(parent->prios) &&
	    behind_ns < BPSHAPER_FLOOR_CREDIT_NS / 2) {
		c->choice = BPSHAPER_CHOSEN_NEW;
		return c;
	}
	if (due) {
		due->choice = BPSHAPER_CHOSEN_FLOOR;
		return due;
	}
	c = bpshaper_node_first_start(parent);
	c->choice = BPSHAPER_CHOSEN_EXCESS;
	return c;
}

/* The leaf to send next; NULL if none may. */
static struct bpshaper_node *
bpshaper_tree_next(struct bpshaper_tree *t, u64 now)
{
	struct bpshaper_node *c = &t->root;

	while (c->offering)
		c = bpshaper_node_next_child(c, now);
	return c->parent ? c : NULL;
}

/* Has the leaf come back with less than its part, or one above it? */
static bool bpshaper_node_was_new(const struct bpshaper_node *c)
{
	for (; c->parent; c = c->parent)
		if (c->is_new)
			return true;
	return false;
}

/* Charging */

/* The node, which offers, was chosen and sends @bytes. */
static void bpshaper_node_pay(struct bpshaper_node *c, u32 bytes)
{
	struct bpshaper_node *parent = c->parent;

	if (c->choice == BPSHAPER_CHOSEN_FLOOR) {
		rb_erase_cached(&c->due.node, &parent->by_floor[c->overcommit]);
		c->due.at += bpshaper_rate_cost_ns(&c->floor, bytes);
		bpshaper_tag_link(&parent->by_floor[c->overcommit], &c->due);
		return;
	}
	bpshaper_node_unlink_by_start(c);
	if (c->choice == BPSHAPER_CHOSEN_EXCESS &&
	    bpshaper_tag_before(parent->vtime[c->prio], c->start.at))
		parent->vtime[c->prio] = c->start.at;
	c->start.at += (u64)bytes * c->weight_inverse;
	bpshaper_node_link_by_start(c);
	if (c->is_new &&
	    !bpshaper_tag_before(c->start.at, parent->vtime[c->prio]))
		bpshaper_node_not_new(c);
}

/* The leaf, which bpshaper_tree_next() has returned, sends @bytes. */
static void bpshaper_node_charge(struct bpshaper_node *leaf, u32 bytes, u64 now)
{
	struct bpshaper_node *c;

	for (c = leaf; c->parent; c = c->parent) {
		if (c->ceil.Bps)
			bpshaper_bucket_charge(&c->bucket, &c->ceil, bytes,
					       now);
		bpshaper_node_pay(c, bytes);
	}
}

#endif /* _BPSHAPER_TREE_H */
