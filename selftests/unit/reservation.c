// SPDX-License-Identifier: GPL-2.0-only
/* The bucket of a group: members reserve its time. */
#include "unit.h"

/* A member that has something to send tries when it wakes, late at random.
 * After some packets it pauses.
 */
#define MEMBERS	8

struct member {
	struct bpshaper_reservation held;
	u64	wake;
	u32	left;		/* packets to send before a pause */
	u32	len;		/* of the next packet */
	u64	sent;		/* bytes */
	bool	is_mixed;	/* each packet has another length */
};

struct group {
	struct run run;		/* all packets that left, in order */
	atomic64_t tat;
	struct member member[MEMBERS];
	u32	members, mtu, largest, batch;
	u64	lateness;
	bool	never_pauses;
	int	packets;
};

/* A group that the qdisc would not refuse. */
static void group_init(struct group *g, u32 members)
{
	memset(g, 0, sizeof(*g));
	g->run.Bps = rnd_rate();
	bpshaper_rate_set(&g->run.rate, g->run.Bps);
	g->members = members;
	g->mtu = 64 + rnd_log(13);
	g->run.burst = g->mtu * (members + 1) + rnd_log(20);
	for (u32 i = 0; i < members; i++) {
		if (!bpshaper_reservation_set(&g->member[i].held, &g->run.rate,
				       g->run.burst, g->mtu, members)) {
			group_init(g, members);
			return;
		}
		g->member[i].len = 1 + rnd_below(g->mtu);
		g->member[i].left = 1 + rnd_below(30);
	}
	g->batch = bpshaper_rate_bytes(&g->run.rate,
				       g->member[0].held.window_ns / 2);
	g->batch = max(g->batch / members, g->mtu);
	/* The qdisc segments larger packets. */
	g->largest = bpshaper_rate_bytes(&g->run.rate,
					 g->member[0].held.whole_ns);
	g->largest = rnd_below(2) ? max(g->mtu, g->largest) : g->mtu;
	g->lateness = 1 + rnd_log(3) * g->member[0].held.window_ns / 2;
}

static void member_leaves(struct group *g, struct member *m, u64 now)
{
	g->run.time[g->packets] = now;
	g->run.len[g->packets++] = m->len;
	m->sent += m->len;
	if (!g->never_pauses || m->is_mixed)
		m->len = 1 + rnd_below(g->largest);
	if (g->never_pauses || --m->left)
		return;
	m->left = 1 + rnd_below(30);
	bpshaper_reservation_return(&m->held, &g->tat);
	m->wake = now + rnd_below(1 + 3 * m->held.window_ns);
}

static bool member_takes(struct group *g, struct member *m, u64 now)
{
	u32 turn = bpshaper_reservation_portion(&m->held, g->batch, ~0U);

	return bpshaper_reservation_take(&m->held, &g->tat, &g->run.rate,
					 m->len, turn, now);
}

static u64 member_ready_ns(const struct member *m)
{
	return bpshaper_reservation_ready_ns(&m->held,
				      bpshaper_reservation_held_ns(&m->held));
}

static struct member *group_next(struct group *g)
{
	struct member *first = g->member;

	for (u32 i = 1; i < g->members; i++)
		if (g->member[i].wake < first->wake)
			first = &g->member[i];
	return first;
}

static void group_packets(struct group *g)
{
	struct member *m;
	u64 now;

	while (g->packets < PACKETS) {
		m = group_next(g);
		now = m->wake;
		while (m->wake == now && g->packets < PACKETS &&
		       member_takes(g, m, now))
			member_leaves(g, m, now);
		if (m->wake != now)
			continue;
		m->wake = max(member_ready_ns(m), now + 1);
		if (rnd_below(4) == 0)
			m->wake += rnd_below(g->lateness);
	}
}

/* Send at least @bytes, in runs of PACKETS. */
static void group_send(struct group *g, u64 bytes)
{
	u64 sent = 0;

	while (sent < bytes) {
		g->packets = 0;
		group_packets(g);
		for (int i = 0; i < g->packets; i++)
			sent += g->run.len[i];
	}
}

static bool law_holds_for_the_sum_of_a_group(void)
{
	for (int i = 0; i < CASES; i++) {
		struct group g;

		group_init(&g, 1 + rnd_below(MEMBERS));
		group_packets(&g);
		if (!run_obeys_law(&g.run, g.run.burst))
			return false;
	}
	return true;
}

/* As after the MTU has grown, or with more members than the burst has room for.
 */
static bool law_holds_if_the_burst_does_not_hold_a_packet_of_each(void)
{
	for (int i = 0; i < CASES; i++) {
		struct group g;
		u32 fits;

		group_init(&g, 1 + rnd_below(MEMBERS));
		for (u32 j = 0; j < g.members; j++)
			if (bpshaper_reservation_set(&g.member[j].held,
						     &g.run.rate,
					      g.run.burst, g.run.burst,
					      g.members))
				return false;
		fits = bpshaper_rate_bytes(&g.run.rate,
					   g.member[0].held.late_ns);
		if (!fits)
			continue;
		g.largest = fits;
		g.lateness = bpshaper_rate_cost_ns(&g.run.rate, g.run.burst);
		g.lateness++;
		for (u32 j = 0; j < g.members; j++)
			g.member[j].len = fits;
		group_packets(&g);
		if (!run_obeys_law(&g.run, g.run.burst))
			return false;
	}
	return true;
}

/* The bound has the cost of a packet instead of W and of each L. */
static bool law_holds_with_oversized_packets_of_all_members(void)
{
	for (int i = 0; i < CASES; i++) {
		struct group g;

		group_init(&g, 1 + rnd_below(MEMBERS));
		g.largest = g.largest * 3;
		group_packets(&g);
		g.run.burst += (g.members + 1) * g.largest;
		if (!run_obeys_law(&g.run, g.run.burst))
			return false;
	}
	return true;
}

/* Each member has packets of another length, one member has packets of all
 * lengths. A packet of the MTU takes at least a microsecond. A member that
 * wakes late loses nothing unless it is very late: the rest of its turn is late
 * anyway. Bytes count after the first turns, which find the bucket full.
 */
static bool members_that_always_send_get_equal_bytes(void)
{
	for (int i = 0; i < CASES / 10; i++) {
		u64 least = ~0ULL, most = 0, turn;
		struct group g;

		do
			group_init(&g, 2 + rnd_below(MEMBERS - 1));
		while (g.member[0].held.late_ns < 1000);
		g.never_pauses = true;
		g.lateness = 1 + g.member[0].held.late_ns / 8;
		for (u32 j = 0; j < g.members; j++)
			g.member[j].len = g.mtu - rnd_below(g.mtu - g.mtu / 16);
		g.largest = g.mtu;
		g.member[0].is_mixed = true;
		turn = g.batch;
		group_send(&g, 8 * turn * g.members);
		for (u32 j = 0; j < g.members; j++)
			g.member[j].sent = 0;
		group_send(&g, 200 * turn * g.members);
		for (u32 j = 0; j < g.members; j++) {
			least = min(least, g.member[j].sent);
			most = max(most, g.member[j].sent);
		}
		if (most - least > most / 50) {
			printf("# rate %" PRIu64 " members %" PRIu32 ": %"
			       PRIu64 " to %" PRIu64 " bytes, turn %" PRIu64
			       "\n", g.run.Bps, g.members, least, most, turn);
			return false;
		}
	}
	return true;
}

/* No member waits for ever, however late all of them are. */
static bool members_that_are_always_late_send(void)
{
	for (int i = 0; i < CASES; i++) {
		struct group g;
		u64 rounds = 0;

		group_init(&g, 1 + rnd_below(MEMBERS));
		g.never_pauses = true;
		if (rnd_below(2))
			g.largest *= 3;
		for (u32 j = 0; j < g.members; j++)
			g.member[j].len = 1 + rnd_below(g.largest);
		while (g.packets < PACKETS && rounds++ < 4 * PACKETS) {
			struct member *m = group_next(&g);
			u64 now = m->wake;

			while (g.packets < PACKETS &&
			       member_takes(&g, m, now))
				member_leaves(&g, m, now);
			m->wake = member_ready_ns(m) +
				  10 * g.member[0].held.window_ns + 1;
			m->wake = max(m->wake, now + 1);
		}
		if (g.packets < PACKETS) {
			printf("# rate %" PRIu64 ": %d packets in %" PRIu64
			       " turns\n", g.run.Bps, g.packets, rounds);
			return false;
		}
	}
	return true;
}

static bool what_is_given_back_can_be_asked_for(void)
{
	struct bpshaper_reservation a = {}, b = {};
	struct bpshaper_rate r;
	atomic64_t tat = {};
	u64 start;

	bpshaper_rate_set(&r, 1000000);		/* 1 us a byte */
	bpshaper_reservation_set(&a, &r, 10000, 1000, 2);
	bpshaper_reservation_set(&b, &r, 10000, 1000, 2);
	while (bpshaper_reservation_take(&a, &tat, &r, 1000, 5000, 1))
		;
	start = tat.counter;
	bpshaper_reservation_return(&a, &tat);
	if (tat.counter != (s64)start - 5000000 ||
	    bpshaper_reservation_held_ns(&a))
		return false;
	/* Not if another member has asked since. */
	bpshaper_reservation_take(&a, &tat, &r, 1000, 5000, 1);
	bpshaper_reservation_take(&b, &tat, &r, 1000, 2000, 1);
	start = tat.counter;
	bpshaper_reservation_return(&a, &tat);
	return tat.counter == (s64)start &&
	       bpshaper_reservation_held_ns(&a) == 5000000;
}

static bool a_closed_bucket_gives_nothing(void)
{
	atomic64_t tat = { .counter = BPSHAPER_BUCKET_CLOSED };
	struct bpshaper_reservation s = {};
	struct bpshaper_rate r;

	bpshaper_rate_set(&r, 1000000);
	bpshaper_reservation_set(&s, &r, 10000, 1000, 1);
	return !bpshaper_reservation_take(&s, &tat, &r, 1000, 0, 1ULL << 50) &&
	       !bpshaper_reservation_held_ns(&s) &&
	       tat.counter == BPSHAPER_BUCKET_CLOSED;
}

void test_reservation(void)
{
	TEST(law_holds_for_the_sum_of_a_group);
	TEST(law_holds_if_the_burst_does_not_hold_a_packet_of_each);
	TEST(law_holds_with_oversized_packets_of_all_members);
	TEST(members_that_always_send_get_equal_bytes);
	TEST(members_that_are_always_late_send);
	TEST(what_is_given_back_can_be_asked_for);
	TEST(a_closed_bucket_gives_nothing);
}
