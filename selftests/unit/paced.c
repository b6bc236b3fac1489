// SPDX-License-Identifier: GPL-2.0-only
/* A group of paced members and one bulk member must use its whole rate.
 *
 * A paced member sends two packets each gap_ns. The bulk member, the last
 * one, always has something to send. A portion of a paced member is the packets
 * that are due.
 */
#include "unit.h"

#define PACED	16
#define QUEUED	65536

struct paced {
	struct bpshaper_reservation held;
	u64	wake;
	u64	due_ns;		/* when the next packets are due */
	u64	gap_ns;		/* 0: the bulk member */
	u32	due;		/* packets that are due, at most 2 */
	bool	is_waiting;
};

struct paced_group {
	struct bpshaper_rate rate;
	atomic64_t tat;
	struct paced member[PACED + 1];
	u32	members, len, batch, waiting;
	u64	bytes;
};

static void paced_init(struct paced_group *g, u64 Bps, u64 paced_Bps,
		       u32 members)
{
	u32 burst;

	memset(g, 0, sizeof(*g));
	g->len = 1514;
	g->members = members;
	bpshaper_rate_set(&g->rate, Bps);
	burst = max(Bps / 1000, 2 * g->len) + members * g->len;
	for (u32 i = 0; i < members; i++) {
		bpshaper_reservation_set(&g->member[i].held, &g->rate, burst,
					 g->len, members);
		g->member[i].wake = 1 + rnd_below(10000000);
		g->member[i].due_ns = g->member[i].wake;
		g->member[i].gap_ns = 2 * g->len * NSEC_PER_SEC / paced_Bps;
	}
	g->member[members - 1].gap_ns = 0;
	g->batch = bpshaper_rate_bytes(&g->rate,
				       g->member[0].held.window_ns / 2);
}

static bool paced_take(struct paced_group *g, struct paced *m, u64 now)
{
	u32 batch = max(g->batch / max(g->waiting, 1U), g->len);
	u32 backlog = m->gap_ns ? m->due * g->len : QUEUED;
	u32 turn = bpshaper_reservation_portion(&m->held, batch, backlog);

	return bpshaper_reservation_take(&m->held, &g->tat, &g->rate, g->len,
					 turn, now);
}

static void paced_set_waiting(struct paced_group *g, struct paced *m,
			      bool is_waiting)
{
	g->waiting += is_waiting - m->is_waiting;
	m->is_waiting = is_waiting;
}

static void paced_send(struct paced_group *g, struct paced *m, u64 from)
{
	u64 now = m->wake;

	while (m->gap_ns && now >= m->due_ns) {
		m->due = 2;
		m->due_ns += m->gap_ns;
	}
	while ((m->due || !m->gap_ns) && paced_take(g, m, now)) {
		g->bytes += now >= from ? g->len : 0;
		m->due -= !!m->gap_ns;
	}
	if (m->gap_ns && !m->due) {
		if (m->is_waiting)
			bpshaper_reservation_return(&m->held, &g->tat);
		paced_set_waiting(g, m, false);
		m->wake = m->due_ns;
		return;
	}
	paced_set_waiting(g, m, true);
	m->wake = bpshaper_reservation_ready_ns(&m->held,
				bpshaper_reservation_held_ns(&m->held));
	m->wake = max(m->wake, now + 1) + rnd_below(5000);
}

/* Used part of the rate in one second, in millionths. The first half second
 * does not count.
 */
static u64 paced_use(struct paced_group *g)
{
	u64 from = NSEC_PER_SEC / 2, until = from + NSEC_PER_SEC;
	struct paced *m;

	for (;;) {
		m = g->member;
		for (u32 i = 1; i < g->members; i++)
			if (g->member[i].wake < m->wake)
				m = &g->member[i];
		if (m->wake >= until)
			return (u128)g->bytes * 1000000 / g->rate.Bps;
		paced_send(g, m, from);
	}
}

/* 1 Gbit/s or 100 Mbit/s. The paced members take 2 % to 90 % of it. */
static bool a_group_with_paced_members_uses_its_rate(void)
{
	struct paced_group g;
	bool good = true;
	u64 used;

	for (int i = 0; i < 40; i++) {
		u64 Bps = i % 2 ? 12500000 : 125000000;
		u32 members = 2 + rnd_below(PACED);
		u64 paced_Bps = Bps / 100 * (2 + rnd_below(88)) / (members - 1);

		paced_init(&g, Bps, paced_Bps, members);
		used = paced_use(&g);
		if (used >= 999000)
			continue;
		good = false;
		printf("# rate %" PRIu64 ", %" PRIu32 " members at %" PRIu64
		       ": %" PRIu64 " millionths\n", Bps, members - 1,
		       paced_Bps, used);
	}
	return good;
}

void test_paced(void)
{
	TEST(a_group_with_paced_members_uses_its_rate);
}
