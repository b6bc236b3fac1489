// SPDX-License-Identifier: GPL-2.0-only
/* Random trees of classes must divide a link as the law of classes says
 * (waterfill.h).
 */
#include "unit.h"
#include "../../bpshaper/tree.h"
#include "../guest/programs/waterfill.h"

#define TREES		300
#define CLASSES_MAX	TENANTS_MAX
#define LINK_BPS	25000000ULL
#define QUANTUM		1514
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
	bpshaper_node_set_weight(&e->node, t->weight);
	e->node.prio = t->prio;
	t->overcommit = !rnd_below(4);
	floor = t->overcommit ? rnd_real(0, LINK_BPS) :
		rnd_below(2) ? rnd_real(0, *floor_left) : 0;
	*floor_left -= t->overcommit ? 0 : floor;
	t->floor = floor;
	bpshaper_node_set_floor(&e->node, floor, t->overcommit, QUANTUM, 0);
	t->ceil = UNBOUNDED;
	if (!rnd_below(3)) {
		ceil = rnd_real(LINK_BPS / 100, LINK_BPS);
		ceil = max(ceil, floor);
		t->ceil = ceil;
		bpshaper_rate_set(&e->node.ceil, ceil);
		bpshaper_node_set_burst(&e->node, BURST, NSEC_PER_MSEC, 0);
	}
	t->demand = rnd_below(3) ? UNBOUNDED :
				   rnd_real(LINK_BPS / 100, LINK_BPS);
	if (parent >= 0)
		tenants[parent].children++;
	count++;
}

static void tree_make(void)
{
	double left = LINK_BPS;
	int top, i;

	bpshaper_tree_init(&tree);
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
	if (e->queued && !e->node.has_backlog)
		bpshaper_node_set_backlog(&tree, &e->node, true, QUANTUM, now);
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
	struct bpshaper_node *c, *held;
	struct entry *e;

	bpshaper_tree_wake(&tree, QUANTUM, BPSHAPER_DEPTH_MAX * CLASSES_MAX, now);
	while ((c = bpshaper_tree_next(&tree, now))) {
		e = (struct entry *)c;
		held = bpshaper_node_first_short(c, e->len, now);
		if (!held)
			return e;
		bpshaper_node_wait(&tree, held, e->len, e->queued * e->len,
				   bpshaper_node_was_new(c), QUANTUM, now);
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
		bpshaper_node_charge(&tree, &e->node, e->len, now);
		for (int up = e - entries; up >= 0; up = tenants[up].parent)
			entry_sent(up, e->len, now, now >= from);
		e->queued--;
		free_ns += e->len * 1e9 / LINK_BPS;
		if (tenants[e - entries].demand >= UNBOUNDED)
			e->len = 64 + rnd_below(1451);	/* others have one size */
		else if (!e->queued)
			bpshaper_node_set_backlog(&tree, &e->node, false, QUANTUM, now);
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

	for (int t = 0; t < TREES && good; t++) {
		tree_make();
		link_run();
		for (int i = 0; i < count; i++)
			good &= entry_is_right(i);
	}
	return good;
}

/* A leaf that always has packets of 1000 bytes. */
static void leaf_make(struct bpshaper_node *c, u8 prio, u64 now)
{
	bpshaper_node_init(c, &tree.root);
	c->prio = prio;
	bpshaper_node_set_backlog(&tree, c, true, QUANTUM, now);
}

/* Of @packets that leave, a microsecond each, how many are of the leaf? */
static int leaf_sends(const struct bpshaper_node *leaf, int packets, u64 *now)
{
	struct bpshaper_node *c;
	int sent = 0;

	while (packets--) {
		c = bpshaper_tree_next(&tree, *now);
		sent += c == leaf;
		bpshaper_node_charge(&tree, c, 1000, *now);
		*now += 1000;
	}
	return sent;
}

/* Who comes back has a quantum more than others, not all that it missed. */
static bool who_was_away_gets_no_more(void)
{
	struct bpshaper_node a, b;
	u64 now = 1000;
	int sent;

	bpshaper_tree_init(&tree);
	leaf_make(&a, 0, now);
	leaf_make(&b, 0, now);
	bpshaper_node_set_backlog(&tree, &b, false, QUANTUM, now);
	leaf_sends(&b, 100000, &now);
	bpshaper_node_set_backlog(&tree, &b, true, QUANTUM, now);
	sent = leaf_sends(&b, 1000, &now);
	return sent >= 500 && sent <= 502;
}

/* Many that come back now and then delay neither a smaller prio nor a floor. */
static bool who_comes_back_waits_for_a_smaller_prio(void)
{
	static struct bpshaper_node many[100];
	struct bpshaper_node voice, bulk;
	u64 now = 1000;

	bpshaper_tree_init(&tree);
	for (int i = 0; i < 100; i++)
		leaf_make(&many[i], 7, now);
	leaf_make(&bulk, 7, now);
	leaf_sends(&bulk, 1000, &now);
	for (int i = 0; i < 100; i++)
		bpshaper_node_set_backlog(&tree, &many[i], false, QUANTUM, now);
	leaf_sends(&bulk, 1000, &now);
	leaf_make(&voice, 0, now);
	bpshaper_node_set_backlog(&tree, &voice, false, QUANTUM, now);
	for (int i = 0; i < 100; i++)
		bpshaper_node_set_backlog(&tree, &many[i], true, QUANTUM, now);
	bpshaper_node_set_backlog(&tree, &voice, true, QUANTUM, now);
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

	bpshaper_tree_init(&tree);
	leaf_make(&greedy, 0, now);
	bpshaper_node_set_weight(&greedy, 100);
	for (int i = 0; i < 64; i++) {
		bpshaper_node_init(&slow[i], &tree.root);
		bpshaper_node_set_floor(&slow[i], 14063, 0, QUANTUM, now);
		bpshaper_node_set_backlog(&tree, &slow[i], true, QUANTUM,
					  now);
	}
	for (int i = 0; i < 10000; i++, now += NSEC_PER_MSEC) {
		c = bpshaper_tree_next(&tree, now);
		sent += c != &greedy;
		bpshaper_node_charge(&tree, c, 1000, now);
	}
	return sent >= 9000;
}

/* Tags of a leaf that was away so long that they have wrapped are forgotten. */
static bool tags_may_wrap(void)
{
	struct bpshaper_node a, b;
	u64 now = 1000, wrapped;
	int sent;

	bpshaper_tree_init(&tree);
	leaf_make(&a, 0, now);
	leaf_make(&b, 0, now);
	leaf_sends(&b, 10, &now);
	bpshaper_node_set_backlog(&tree, &b, false, QUANTUM, now);
	/* As if a had sent for hours meanwhile */
	wrapped = (1ULL << 63) + (1ULL << 50);
	bpshaper_node_set_backlog(&tree, &a, false, QUANTUM, now);
	a.start += wrapped;
	tree.root.vtime[0] += wrapped;
	bpshaper_node_set_backlog(&tree, &a, true, QUANTUM, now);
	bpshaper_node_set_backlog(&tree, &b, true, QUANTUM, now);
	sent = leaf_sends(&b, 1000, &now);
	return sent >= 498 && sent <= 502;
}

void test_tree(void)
{
	TEST(classes_get_what_the_law_says);
	TEST(who_was_away_gets_no_more);
	TEST(who_comes_back_waits_for_a_smaller_prio);
	TEST(slow_floors_are_kept);
	TEST(tags_may_wrap);
}
