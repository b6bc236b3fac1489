// SPDX-License-Identifier: GPL-2.0-only
/* Classes beside each other on a link of 100 Mbit/s: who does not ask for its
 * part does not wait, and a floor is kept, whatever the others do.
 */
#include "unit.h"
#include "../../bpshaper/tree.h"

#define LINK_BPS	12500000ULL
#define BYTE_NS		(NSEC_PER_SEC / LINK_BPS)
#define FRAME		1514
#define SMALL		142
#define MEMBERS		1100
#define ON_NS		(50 * NSEC_PER_MSEC)
#define OFF_NS		(20 * NSEC_PER_MSEC)
#define SETTLE_NS	(200 * NSEC_PER_MSEC)
#define END_NS		(2 * NSEC_PER_SEC)
#define NO_WAIT_NS	((3 * FRAME + SMALL) * BYTE_NS)

/* A leaf, or a class with children if @len is 0. */
struct member {
	struct bpshaper_node node;
	u32	len;
	u64	every_ns;	/* a packet in that time; 0: greedy */
	u64	next_ns;	/* packet, and when the oldest that is queued came */
	u64	came_ns;
	u32	queued;
	bool	returns;	/* greedy for ON_NS, and away for OFF_NS */
	u64	since_ns;
	bool	is_eager;	/* the next packet comes when this one has left */
	u64	sent;
	u64	wait_ns;	/* the longest */
};

static struct member members[MEMBERS];
static int count;
static struct bpshaper_tree tree;

static void link_init(void)
{
	bpshaper_tree_init(&tree);
	tree.now_ns = NSEC_PER_SEC;
	tree.credit = 2 * FRAME;
	tree.credit_ns = 2 * FRAME * BYTE_NS;
	tree.turn = 4 * FRAME;
	count = 0;
}

static void member_overcommit(struct member *m, u64 floor_Bps)
{
	bpshaper_node_set_floor(&tree, &m->node, floor_Bps, 1);
}

static struct member *member_add(struct member *parent, u32 len, u64 every_ns,
				 u64 floor_Bps)
{
	struct member *m = &members[count++];

	memset(m, 0, sizeof(*m));
	bpshaper_node_init(&m->node, parent ? &parent->node : &tree.root);
	bpshaper_node_set_floor(&tree, &m->node, floor_Bps, 0);
	m->len = len;
	m->every_ns = every_ns;
	m->next_ns = every_ns ? 1 + rnd_below(every_ns) : 0;
	return m;
}

static void member_arrive(struct member *m, u64 now)
{
	bool has_backlog;

	if (!m->len)
		return;
	while (m->every_ns && m->next_ns <= now &&
	       !(m->is_eager && m->queued)) {
		if (!m->queued++)
			m->came_ns = m->next_ns;
		m->next_ns += m->every_ns;
	}
	has_backlog = m->every_ns ? m->queued :
		      !m->returns ||
		      (now + m->since_ns) % (ON_NS + OFF_NS) < ON_NS;
	m->node.e.has_backlog = has_backlog;
	bpshaper_entity_update(&tree, &m->node.e);
}

static void member_send(struct member *m, u64 now)
{
	for (struct bpshaper_node *n = &m->node; n->e.parent; n = n->e.parent)
		bpshaper_node_pay(n, m->len, true);
	if (now >= SETTLE_NS) {
		m->sent += m->len;
		if (m->every_ns)
			m->wait_ns = max(m->wait_ns, now - m->came_ns);
	}
	if (!m->every_ns)
		return;
	if (m->is_eager)
		m->next_ns = now + 1;
	m->came_ns += m->every_ns;
	m->node.e.has_backlog = --m->queued;
	bpshaper_entity_update(&tree, &m->node.e);
}

/* @change is called before each packet. */
static void link_run(void (*change)(u64 now))
{
	struct bpshaper_entity *e;
	struct member *m;
	u64 now = 0;
	int i;

	while (now < END_NS) {
		tree.now_ns = NSEC_PER_SEC + now;
		for (i = 0; i < count; i++)
			member_arrive(&members[i], now);
		if (change)
			change(now);
		e = bpshaper_tree_next(&tree);
		if (!e) {
			now += 1000;
			continue;
		}
		m = container_of(e, struct member, node.e);
		member_send(m, now);
		now += m->len * BYTE_NS;
	}
}

/* Bytes per second of the link, in thousandths */
static u64 permille(u64 n)
{
	return LINK_BPS * n / 1000;
}

static bool does_not_wait(const char *name, u64 n, const struct member *m)
{
	if (m->wait_ns <= NO_WAIT_NS && m->sent)
		return true;
	printf("# %s, %" PRIu64 ": waits %" PRIu64 " us\n", name, n,
	       m->wait_ns / 1000);
	return false;
}

static bool keeps_floor(const char *name, const struct member *m)
{
	u64 least = m->node.floor.Bps * (END_NS - SETTLE_NS) / NSEC_PER_SEC;

	if (m->sent + FRAME >= least - least / 100)
		return true;
	printf("# %s: %" PRIu64 " bytes of a floor of %" PRIu64 "\n", name,
	       m->sent, least);
	return false;
}

/* They ask for three times what there is, or come back together. */
static bool floors_are_kept_beside(bool returns)
{
	struct member *m;
	bool good = true;
	int i;

	link_init();
	member_add(NULL, FRAME, 0, permille(500));
	for (i = 0; i < 50; i++)
		member_add(NULL, FRAME, 0, permille(8));
	for (i = 0; i < 1000; i++) {
		m = member_add(NULL, FRAME, returns ? 0 :
			       1000 * FRAME * BYTE_NS / 3, 0);
		m->returns = returns;
	}
	link_run(NULL);
	for (i = 0; i < 51; i++)
		good &= keeps_floor("beside 1000", &members[i]);
	return good;
}

static bool crowds_take_no_floor(void)
{
	return floors_are_kept_beside(false) && floors_are_kept_beside(true);
}

static bool slow_floors_due_at_once_delay_no_fast_one(void)
{
	bool good = true;

	link_init();
	member_add(NULL, FRAME, 0, permille(500));
	for (int i = 0; i < 490; i++)
		member_add(NULL, FRAME, 0, permille(1));
	bpshaper_node_set_order(&member_add(NULL, FRAME, 0, 0)->node, 0, 1 << 20);
	link_run(NULL);
	for (int i = 0; i < 491; i++)
		good &= keeps_floor("of 491", &members[i]);
	return good;
}

/* What is below a class is no reason to give it more than its part. */
static bool many_new_below_get_no_more_than_their_part(void)
{
	struct member *plain, *parent;
	u64 half = LINK_BPS / 2 * (END_NS - SETTLE_NS) / NSEC_PER_SEC;

	link_init();
	plain = member_add(NULL, FRAME, 0, 0);
	parent = member_add(NULL, 0, 0, 0);
	for (int i = 0; i < 1000; i++)
		member_add(parent, FRAME, 1000 * FRAME * BYTE_NS, 0);
	link_run(NULL);
	if (plain->sent >= half - half / 100)
		return true;
	printf("# %" PRIu64 " bytes of %" PRIu64 "\n", plain->sent, half);
	return false;
}

static void change_nothing(u64 now)
{
	struct bpshaper_node *c;

	(void)now;
	for (int i = 0; i < count; i++) {
		c = &members[i].node;
		bpshaper_node_change(&tree, c);
		bpshaper_node_set_floor(&tree, c, c->floor.Bps, 0);
		bpshaper_node_offer(&tree, c);
	}
}

static bool a_change_of_nothing_changes_nothing(void)
{
	bool good = true;
	u64 sent[4];

	for (int run = 0; run < 2; run++) {
		link_init();
		member_add(NULL, FRAME, 0, permille(100));
		member_add(NULL, FRAME, 0, permille(300))->returns = true;
		member_add(NULL, 0, 0, 0);
		member_add(&members[2], FRAME, 0, 0);
		link_run(run ? change_nothing : NULL);
		for (int i = 0; i < count; i++) {
			if (!run)
				sent[i] = members[i].sent;
			good &= members[i].sent <= sent[i] + sent[i] / 100;
		}
	}
	return good;
}

/* It owes a packet for minutes; the faster one owes it for 2 ms. */
static bool a_floor_that_is_raised_forgets_no_debt_and_keeps_no_time(void)
{
	struct bpshaper_node c;
	u64 now;

	link_init();
	now = tree.now_ns;
	bpshaper_node_init(&c, &tree.root);
	bpshaper_node_set_floor(&tree, &c, 10, 0);
	c.due.at = now + bpshaper_rate_cost_ns(&c.floor, FRAME);
	bpshaper_node_set_floor(&tree, &c, FRAME * 500, 0);
	return c.due.at > now + 19 * NSEC_PER_MSEC / 10 &&
	       c.due.at < now + 41 * NSEC_PER_MSEC / 10;
}

static void second_stops(u64 now)
{
	if (now < END_NS / 2 || members[1].every_ns)
		return;
	members[1].every_ns = END_NS;
	members[1].next_ns = now + END_NS;
	members[1].queued = 1;
}

/* Floors that exceed what there is leave no debt: when one of them stops, the
 * others get the excess.
 */
static bool floors_that_exceeded_leave_no_debt(void)
{
	struct member *other;
	u64 least = permille(200) * 9 / 10;

	link_init();
	member_overcommit(member_add(NULL, FRAME, 0, 0), permille(800));
	member_overcommit(member_add(NULL, FRAME, 0, 0), permille(800));
	other = member_add(NULL, FRAME, 0, 0);
	bpshaper_node_set_order(&other->node, 0, 1 << 20);
	link_run(second_stops);
	if (other->sent >= least)
		return true;
	printf("# %" PRIu64 " bytes of %" PRIu64 "\n", other->sent, least);
	return false;
}

/* One that is new and has no floor waits meanwhile. */
static bool floors_that_exceed_delay_no_strict_one(void)
{
	struct member *strict;

	link_init();
	for (int i = 0; i < 2; i++) {
		member_overcommit(member_add(NULL, FRAME, 0, 0), permille(800));
		members[i].returns = true;
	}
	strict = member_add(NULL, SMALL, 160 * SMALL * BYTE_NS, permille(100));
	member_add(NULL, SMALL, 160 * SMALL * BYTE_NS, 0);
	member_add(NULL, FRAME, 0, 0);
	link_run(NULL);
	return does_not_wait("beside overcommit", 2, strict);
}

void test_order(void)
{
	TEST(crowds_take_no_floor);
	TEST(slow_floors_due_at_once_delay_no_fast_one);
	TEST(many_new_below_get_no_more_than_their_part);
	TEST(a_change_of_nothing_changes_nothing);
	TEST(a_floor_that_is_raised_forgets_no_debt_and_keeps_no_time);
	TEST(floors_that_exceeded_leave_no_debt);
	TEST(floors_that_exceed_delay_no_strict_one);
}
