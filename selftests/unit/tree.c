// SPDX-License-Identifier: GPL-2.0-only
/* Random trees of classes must divide a link as the law of classes says
 * (waterfill.h).
 */
#include "unit.h"
#include "../../bpshaper/tree.h"
#include "../guest/programs/waterfill.h"

#define TREES		150
#define CLASSES_MAX	TENANTS_MAX
#define LINK_BPS	25000000ULL
#define PACKET		1514
#define SETTLE_NS	(NSEC_PER_SEC / 2)
#define MEASURE_NS	(2 * NSEC_PER_SEC)
#define BURST		10000

/* A class, and what it has sent. Rates are bytes per second. */
struct entry {
	struct bpshaper_node node;
	u64		sent;		/* since it is measured */
	double		level;		/* of a leaky bucket at ceil */
	u64		level_ns;
	bool		exceeds;
	u32		len;		/* of a leaf's next packet */
	double		arrives_ns;	/* the next of them, with a demand */
	u32		queued;
};

static struct tenant tenants[CLASSES_MAX];
static struct entry entries[CLASSES_MAX];
static int count;
static struct bpshaper_tree tree;

static double rnd_real(double from, double to)
{
	return from + (to - from) * (rnd() >> 11) / (double)(1ULL << 53);
}

/* A random tree */

static void entry_add(int parent, double *floor_left)
{
	struct entry *e = &entries[count];
	struct tenant *t = &tenants[count];
	struct bpshaper_rate rate;
	u64 floor, ceil;

	if (count == CLASSES_MAX)
		return;
	memset(e, 0, sizeof(*e));
	memset(t, 0, sizeof(*t));
	bpshaper_node_init(&e->node, parent < 0 ? &tree.root :
						  &entries[parent].node);
	t->parent = parent;
	t->weight = 1 + rnd_below(100);
	t->prio = rnd_below(3) ? 0 : rnd_below(3);
	bpshaper_node_set_order(&e->node, t->prio, t->weight);
	t->overcommit = !rnd_below(4);
	floor = t->overcommit ? rnd_real(0, LINK_BPS) :
		rnd_below(2) ? rnd_real(0, *floor_left) : 0;
	*floor_left -= t->overcommit ? 0 : floor;
	t->floor = floor;
	bpshaper_node_set_floor(&tree, &e->node, floor, t->overcommit);
	t->ceil = UNBOUNDED;
	if (!rnd_below(3)) {
		ceil = rnd_real(LINK_BPS / 100, LINK_BPS);
		ceil = max(ceil, floor);
		t->ceil = ceil;
		bpshaper_rate_set(&rate, ceil);
		bpshaper_node_set_ceil(&tree, &e->node, &rate, BURST);
		bpshaper_bucket_fill(&e->node.bucket);
	}
	t->demand = rnd_below(3) ? UNBOUNDED :
				   rnd_real(LINK_BPS / 100, LINK_BPS);
	if (parent >= 0)
		tenants[parent].children++;
	count++;
}

/* A link with packets of PACKET. */
static void tree_begin(void)
{
	bpshaper_tree_init(&tree);
	tree.credit = 2 * PACKET;
	tree.credit_ns = tree.credit * NSEC_PER_SEC / LINK_BPS;
	tree.turn = 4 * PACKET;
}

static void tree_set_backlog(struct bpshaper_node *leaf, bool has_backlog)
{
	leaf->e.has_backlog = has_backlog;
	bpshaper_entity_update(&tree, &leaf->e);
}

static struct bpshaper_node *tree_next(u64 now)
{
	struct bpshaper_entity *e;

	tree.now_ns = now;
	e = bpshaper_tree_next(&tree);
	return e ? bpshaper_entity_node(e) : NULL;
}

/* The leaf, which was chosen, sends @bytes. */
static void tree_send(struct bpshaper_node *leaf, u32 bytes)
{
	for (struct bpshaper_node *n = leaf; n->e.parent; n = n->e.parent) {
		if (n->ceil.Bps)
			bpshaper_bucket_charge(&n->bucket, &n->ceil, bytes,
					       tree.now_ns);
		bpshaper_node_pay(n, bytes, true);
	}
}

static void tree_make(void)
{
	double left = LINK_BPS;
	int top, i;

	tree_begin();
	count = 0;
	for (top = 2 + rnd_below(6); top--; )
		entry_add(-1, &left);
	for (i = 0; i < count; i++) {
		if (rnd_below(3))
			continue;
		left = tenants[i].floor;
		for (top = 1 + rnd_below(5); top--; )
			entry_add(i, &left);
	}
	for (i = 0; i < count; i++)
		entries[i].len = 64 + rnd_below(1451);
	waterfill(tenants, count, LINK_BPS);
}

/* A link */

static void entry_arrive(int i, u64 now)
{
	struct entry *e = &entries[i];
	double demand = tenants[i].demand;

	if (demand >= UNBOUNDED) {
		e->queued = 1;
	} else {
		while (e->arrives_ns <= now) {
			if (e->queued < 500)
				e->queued++;
			e->arrives_ns += e->len * 1e9 / demand;
		}
	}
	tree_set_backlog(&e->node, e->queued);
}

static void entry_sent(int i, u32 bytes, u64 now, bool is_measured)
{
	struct entry *e = &entries[i];
	double ceil = tenants[i].ceil;

	if (is_measured)
		e->sent += bytes;
	e->level -= (now - e->level_ns) * ceil / 1e9;
	e->level = max(e->level, 0) + bytes;
	e->level_ns = now;
	if (ceil < UNBOUNDED && e->level > BURST + 1)
		e->exceeds = true;
}

/* The class to send next, by all ceils; NULL if there is none. */
static struct entry *link_choose(u64 now)
{
	struct bpshaper_node *leaf, *n;
	struct entry *e;

	tree.now_ns = now;
	bpshaper_tree_wake(&tree, CLASSES_MAX);
	while ((leaf = tree_next(now))) {
		e = (struct entry *)leaf;
		n = leaf;
		while (n && bpshaper_node_allows(&tree, n, e->len))
			n = n->e.parent;
		if (!n)
			return e;
		bpshaper_node_wait(&tree, n, max(e->len, n->e.burst / 4));
	}
	return NULL;
}

static u64 link_sleep(u64 now)
{
	double next = bpshaper_tree_ready_ns(&tree);

	for (int i = 0; i < count; i++)
		if (!tenants[i].children && tenants[i].demand < UNBOUNDED)
			next = min(next, entries[i].arrives_ns);
	return max_t(u64, now + 1, next);
}

static void link_run(void)
{
	u64 now = 1000, from = now + SETTLE_NS, end = from + MEASURE_NS;
	double free_ns = now;
	struct entry *e;

	for (int i = 0; i < count; i++)
		entries[i].arrives_ns = now;
	while (now < end) {
		for (int i = 0; i < count; i++)
			if (!tenants[i].children)
				entry_arrive(i, now);
		e = link_choose(now);
		if (!e) {
			now = link_sleep(now);
			free_ns = now;
			continue;
		}
		tree_send(&e->node, e->len);
		for (int up = e - entries; up >= 0; up = tenants[up].parent)
			entry_sent(up, e->len, now, now >= from);
		e->queued--;
		free_ns += e->len * 1e9 / LINK_BPS;
		if (tenants[e - entries].demand >= UNBOUNDED)
			e->len = 64 + rnd_below(1451);	/* others have one size */
		else if (!e->queued)
			tree_set_backlog(&e->node, false);
		now = free_ns;
	}
}

/* Within two percent, and a packet or two in the time. */
static bool entry_is_right(int i)
{
	double got = entries[i].sent * 1e9 / MEASURE_NS, off;
	const struct tenant *t = &tenants[i];

	off = got - t->share;
	if (off < 0)
		off = -off;
	if (off <= 0.02 * t->share + 4 * 1514 && !entries[i].exceeds)
		return true;
	printf("# class %d of %d, parent %d: got %.0f, not %.0f (floor %.0f%s ceil %.0f weight %.0f prio %d need %.0f)%s\n",
	       i, count, t->parent, got, t->share, t->floor, t->overcommit ? " overcommit" : "",
	       t->ceil, t->weight, t->prio, t->need, entries[i].exceeds ? ", above ceil" : "");
	return false;
}

static bool classes_get_what_the_law_says(void)
{
	bool good = true;

	for (int t = 0; t < sweep(TREES) && good; t++) {
		tree_make();
		link_run();
		for (int i = 0; i < count; i++)
			good &= entry_is_right(i);
	}
	return good;
}

/* A leaf that always has packets of 1000 bytes. */
static void leaf_make(struct bpshaper_node *c, u8 prio)
{
	bpshaper_node_init(c, &tree.root);
	bpshaper_node_set_order(c, prio, 1);
	tree_set_backlog(c, true);
}

/* Of @packets that leave, a microsecond each, how many are of the leaf? */
static int leaf_sends(const struct bpshaper_node *leaf, int packets, u64 *now)
{
	struct bpshaper_node *c;
	int sent = 0;

	while (packets--) {
		c = tree_next(*now);
		sent += c == leaf;
		tree_send(c, 1000);
		*now += 1000;
	}
	return sent;
}

/* Who comes back has two packets more than others, not all that it missed. */
static bool who_was_away_gets_no_more(void)
{
	struct bpshaper_node a, b;
	u64 now = 1000;
	int sent;

	tree_begin();
	leaf_make(&a, 0);
	leaf_make(&b, 0);
	tree_set_backlog(&b, false);
	leaf_sends(&b, 100000, &now);
	tree_set_backlog(&b, true);
	sent = leaf_sends(&b, 1000, &now);
	return sent >= 500 && sent <= 503;
}

/* Many that come back now and then delay neither a smaller prio nor a floor. */
static bool who_comes_back_waits_for_a_smaller_prio(void)
{
	static struct bpshaper_node many[100];
	struct bpshaper_node voice, bulk;
	u64 now = 1000;

	tree_begin();
	for (int i = 0; i < 100; i++)
		leaf_make(&many[i], 7);
	leaf_make(&bulk, 7);
	leaf_sends(&bulk, 1000, &now);
	for (int i = 0; i < 100; i++)
		tree_set_backlog(&many[i], false);
	leaf_sends(&bulk, 1000, &now);
	leaf_make(&voice, 0);
	tree_set_backlog(&voice, false);
	for (int i = 0; i < 100; i++)
		tree_set_backlog(&many[i], true);
	tree_set_backlog(&voice, true);
	return leaf_sends(&voice, 10, &now) == 10;
}

/* The packets of 64 classes with slow floors are due at a time, and a link of
 * 1 MB/s takes 64 ms for them. They have 90 % of it beside one of weight 100.
 */
static bool slow_floors_are_kept(void)
{
	static struct bpshaper_node slow[64], greedy;
	struct bpshaper_node *c;
	u64 now = NSEC_PER_SEC;
	int sent = 0;

	tree_begin();
	tree.credit = 2000;
	tree.credit_ns = 2 * NSEC_PER_MSEC;
	leaf_make(&greedy, 0);
	bpshaper_node_set_order(&greedy, 0, 100);
	for (int i = 0; i < 64; i++) {
		bpshaper_node_init(&slow[i], &tree.root);
		bpshaper_node_set_floor(&tree, &slow[i], 14063, 0);
		tree_set_backlog(&slow[i], true);
	}
	for (int i = 0; i < 10000; i++, now += NSEC_PER_MSEC) {
		c = tree_next(now);
		sent += c != &greedy;
		tree_send(c, 1000);
	}
	return sent >= 9000;
}

/* The v of a leaf that was away so long that others' has wrapped is forgotten: by
 * how far it is, and by its age.
 */
static bool v_may_wrap(bool is_near)
{
	struct bpshaper_node a, b;
	u64 now = NSEC_PER_SEC, v;
	int sent;

	tree_begin();
	leaf_make(&a, 0);
	leaf_make(&b, 0);
	leaf_sends(&b, 10, &now);
	tree_set_backlog(&b, false);
	/* As if a had sent for hours meanwhile */
	v = b.e.turn.at + (is_near ? -BIT_ULL(52) : BIT_ULL(63) + BIT_ULL(50));
	tree_set_backlog(&a, false);
	a.e.turn.at = v;
	atomic64_set(&tree.root.vtime[0], v);
	tree_set_backlog(&a, true);
	now += is_near ? 2 * NSEC_PER_SEC : 0;
	tree.now_ns = now;
	tree_set_backlog(&b, true);
	sent = leaf_sends(&b, 1000, &now);
	return sent >= 498 && sent <= 503;
}

static bool old_v_are_forgotten(void)
{
	return v_may_wrap(false) && v_may_wrap(true);
}

/* A node that changes its prio has no place among the others. */
static bool v_of_another_prio_is_forgotten(void)
{
	struct bpshaper_node a, b;
	u64 now = NSEC_PER_SEC;
	int sent;

	tree_begin();
	leaf_make(&a, 0);
	leaf_make(&b, 1);
	leaf_sends(&a, 500, &now);
	bpshaper_node_change(&tree, &a);
	bpshaper_node_set_order(&a, 1, 1);
	bpshaper_node_offer(&tree, &a);
	sent = leaf_sends(&a, 1000, &now);
	return sent >= 498 && sent <= 503;
}

/* Below a prio that offers it gets nothing, but may get what that leaves. */
static bool a_smaller_prio_expects_all(void)
{
	struct bpshaper_node a, b, c;

	tree_begin();
	leaf_make(&a, 0);
	leaf_make(&b, 1);
	leaf_make(&c, 1);
	return bpshaper_entity_expected_Bps(&a.e, 1200) == 1200 &&
	       bpshaper_entity_expected_Bps(&b.e, 1200) == 400;
}

void test_tree(void)
{
	TEST(classes_get_what_the_law_says);
	TEST(who_was_away_gets_no_more);
	TEST(who_comes_back_waits_for_a_smaller_prio);
	TEST(slow_floors_are_kept);
	TEST(old_v_are_forgotten);
	TEST(v_of_another_prio_is_forgotten);
	TEST(a_smaller_prio_expects_all);
}
