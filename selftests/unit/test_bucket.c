// SPDX-License-Identifier: GPL-2.0-only
/* Property tests of bpshaper_bucket.h against exact 128-bit arithmetic.
 *
 * usage: test_bucket [SEED]
 *
 * Each property is tried on random rates (log-uniform over the whole range of
 * the uAPI), bursts, packets and arrivals. Output is TAP; a failure prints the
 * case and the seed that makes it again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernel.h"
#include "../../sch_bpshaper.h"
#include "../../bpshaper_bucket.h"

typedef unsigned __int128 u128;

#define CASES	2000
#define PACKETS	150

static u64 seed = 1;
static int failed, tests, refused;

/* splitmix64 (Steele, Lea, Flood 2014) */
static u64 rnd(void)
{
	u64 z = (seed += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static u64 rnd_below(u64 n)
{
	return rnd() % n;
}

static u64 rnd_log(unsigned int bits)
{
	return 1 + rnd() % (1ULL << (1 + rnd_below(bits)));
}

static u64 rnd_rate(void)
{
	u64 Bps = rnd_log(43);

	return min(Bps, TC_BPSHAPER_RATE_MAX);
}

static void report(const char *name, bool good)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++tests, name);
	failed += !good;
}

struct run {
	u64	Bps;
	u32	burst;
	struct bpshaper_rate rate;
	struct bpshaper_bucket bucket;
	u64	time[PACKETS];
	u32	len[PACKETS];
};

static void run_init(struct run *r)
{
	r->Bps = rnd_rate();
	r->burst = rnd_log(24);
	bpshaper_rate_set(&r->rate, r->Bps);
	bpshaper_bucket_set(&r->bucket, &r->rate, r->burst, 0);
	bpshaper_bucket_fill(&r->bucket);
}

/* Packets arrive at random, wait for their tokens, and leave late at random. What
 * is ready is never refused.
 */
static void run_packets(struct run *r, u32 max_len)
{
	u64 now = 1 + rnd_below(1ULL << 50), ready;
	u64 gap = 1 + bpshaper_rate_cost_ns(&r->rate, max_len);
	unsigned int shape = rnd_below(3);

	for (int i = 0; i < PACKETS; i++) {
		r->len[i] = 1 + rnd_below(max_len);
		if (shape && !rnd_below(4))
			now += rnd_below(shape * 2 * gap);
		ready = bpshaper_bucket_ready_ns(&r->bucket,
			bpshaper_rate_cost_ns(&r->rate, r->len[i]));
		if (ready > now)
			now = ready + (shape ? rnd_below(gap) : 0);
		r->time[i] = now;
		if (!bpshaper_bucket_take(&r->bucket, &r->rate, r->len[i], now))
			refused++;
	}
}

/* bytes <= rate * T + burst in every window, with nothing rounded */
static bool run_obeys_law(const struct run *r, u32 burst)
{
	for (int i = 0; i < PACKETS; i++) {
		u64 bytes = 0;

		for (int j = i; j < PACKETS; j++) {
			u128 allowed = (u128)r->Bps * (r->time[j] - r->time[i]) +
				       (u128)burst * NSEC_PER_SEC;

			bytes += r->len[j];
			if ((u128)bytes * NSEC_PER_SEC <= allowed)
				continue;
			printf("# rate %" PRIu64 " burst %" PRIu32 ": %" PRIu64
			       " bytes in %" PRIu64 " ns, packets %d to %d\n",
			       r->Bps, burst, bytes, r->time[j] - r->time[i],
			       i, j);
			return false;
		}
	}
	return true;
}

static bool law_holds_in_every_window(void)
{
	struct run r;

	for (int i = 0; i < CASES; i++) {
		run_init(&r);
		run_packets(&r, r.burst);
		if (!run_obeys_law(&r, r.burst))
			return false;
	}
	return true;
}

static bool oversized_packets_leave_and_law_holds_with_their_size(void)
{
	struct run r;

	for (int i = 0; i < CASES; i++) {
		run_init(&r);
		run_packets(&r, r.burst * 2 + 100);
		if (!run_obeys_law(&r, r.burst * 2 + 100))
			return false;
	}
	return true;
}

/* Sent back to back, packets take their exact time, within 2^-31 and 1 ns each
 * time the bucket is full: at a burst of one packet that is every time.
 */
static bool nothing_of_the_rate_is_lost(void)
{
	struct run r;

	for (int i = 0; i < CASES; i++) {
		u64 now = 1, ready, last = 0, full = 1;
		u128 bytes = 0, exact, slack;

		run_init(&r);
		for (int j = 0; j < PACKETS; j++) {
			u32 len = 1 + rnd_below(r.burst);

			ready = bpshaper_bucket_ready_ns(&r.bucket,
				bpshaper_rate_cost_ns(&r.rate, len));
			now = now > ready ? now : ready;
			full += r.bucket.tat_ns <= now;
			bpshaper_bucket_take(&r.bucket, &r.rate, len, now);
			bytes += len;
			last = now;
		}
		/* the last one may leave when all bytes fit burst + rate * T */
		exact = bytes * NSEC_PER_SEC / r.Bps;
		slack = (exact >> 31) + 2 + full;
		exact -= min(exact, (u128)r.bucket.burst_ns);
		if (last > exact + slack) {
			printf("# rate %" PRIu64 ": %" PRIu64 " ns, exact %"
			       PRIu64 "\n", r.Bps, last, (u64)exact);
			return false;
		}
	}
	return true;
}

static bool costs_are_rounded_up_by_less_than_one_ns(void)
{
	for (int i = 0; i < 200000; i++) {
		u64 Bps = rnd_rate(), cost;
		u32 len = rnd_log(31);
		struct bpshaper_rate r;
		u128 units = (u128)len * NSEC_PER_SEC;

		bpshaper_rate_set(&r, Bps);
		cost = bpshaper_rate_cost_ns(&r, len);
		if ((u128)cost * Bps < units ||
		    cost > units / Bps + (u64)(units / Bps >> 31) + 2) {
			printf("# rate %" PRIu64 " len %" PRIu32 ": %" PRIu64
			       " ns\n", Bps, len, cost);
			return false;
		}
	}
	return true;
}

static bool bytes_of_a_time_are_exact_within_one_in_1e9(void)
{
	for (int i = 0; i < 200000; i++) {
		u64 Bps = rnd_rate(), ns = rnd_log(36);
		u128 exact = (u128)Bps * ns / NSEC_PER_SEC;
		struct bpshaper_rate r;
		u32 bytes;

		bpshaper_rate_set(&r, Bps);
		bytes = bpshaper_rate_bytes(&r, ns);
		exact = min(exact, (u128)U32_MAX);
		if (bytes > exact || exact - bytes > 2 + (exact >> 22)) {
			printf("# rate %" PRIu64 " ns %" PRIu64 ": %" PRIu32
			       " bytes, exact %" PRIu64 "\n", Bps, ns, bytes,
			       (u64)exact);
			return false;
		}
	}
	return true;
}

static bool small_packets_at_40gbit_keep_the_rate_within_1_in_1000(void)
{
	struct bpshaper_bucket b;
	struct bpshaper_rate r;
	u64 exact, start;

	bpshaper_rate_set(&r, 5000000000ULL);
	bpshaper_bucket_set(&b, &r, 64000, 0);
	start = b.tat_ns;
	for (int i = 0; i < 1000000; i++)
		bpshaper_bucket_take(&b, &r, 64, bpshaper_bucket_ready_ns(&b,
			bpshaper_rate_cost_ns(&r, 64)));
	exact = start + 1000000ULL * 64 / 5;
	return b.tat_ns >= exact && b.tat_ns - exact < (exact - start) / 1000;
}

/* However often the rate changes, each change starts from an empty bucket. */
static bool changes_give_no_extra_burst(void)
{
	struct run r;

	for (int i = 0; i < CASES; i++) {
		u64 now = 1 + rnd_below(1ULL << 40), start, cost;
		u64 step, bytes = 0;

		run_init(&r);
		start = now;
		step = 1 + r.bucket.burst_ns / 3;
		for (int j = 0; j < 100; j++) {
			bpshaper_bucket_set(&r.bucket, &r.rate, r.burst, now);
			cost = bpshaper_rate_cost_ns(&r.rate, 1);
			for (int k = 0; k < 50 &&
			     bpshaper_bucket_ready_ns(&r.bucket, cost) <= now;
			     k++) {
				bpshaper_bucket_take(&r.bucket, &r.rate, 1, now);
				bytes++;
			}
			now += step;
		}
		if ((u128)bytes * NSEC_PER_SEC >
		    (u128)r.Bps * (now - start) + NSEC_PER_SEC) {
			printf("# rate %" PRIu64 ": %" PRIu64 " bytes in %"
			       PRIu64 " ns\n", r.Bps, bytes, now - start);
			return false;
		}
	}
	return true;
}

static bool a_debt_is_forgiven_when_the_rate_changes(void)
{
	struct bpshaper_bucket b;
	struct bpshaper_rate r;

	bpshaper_rate_set(&r, 1);
	bpshaper_bucket_set(&b, &r, 3000, 0);
	bpshaper_bucket_fill(&b);
	bpshaper_bucket_take(&b, &r, 65535, 1000);	/* 18 hours */
	bpshaper_rate_set(&r, 1000000);
	bpshaper_bucket_set(&b, &r, 3000, 2000);
	return bpshaper_bucket_ready_ns(&b, bpshaper_rate_cost_ns(&r, 1500)) ==
	       2000 + 1500000;
}

static bool an_unlimited_rate_costs_nothing(void)
{
	struct bpshaper_rate r;

	bpshaper_rate_set(&r, 0);
	return bpshaper_rate_cost_ns(&r, U32_MAX) == 0;
}

static bool what_is_not_ready_is_refused_and_charged_nothing(void)
{
	struct bpshaper_bucket before;
	struct run r;

	for (int i = 0; i < CASES; i++) {
		u64 now = 1 + rnd_below(1ULL << 40), ready;

		run_init(&r);
		bpshaper_bucket_take(&r.bucket, &r.rate, r.burst, now);
		ready = bpshaper_bucket_ready_ns(&r.bucket,
			bpshaper_rate_cost_ns(&r.rate, 1));
		if (ready <= now)
			continue;
		before = r.bucket;
		if (bpshaper_bucket_take(&r.bucket, &r.rate, 1, ready - 1) ||
		    memcmp(&before, &r.bucket, sizeof(before)))
			return false;
	}
	return true;
}

/* A bucket that members share: who has something to send tries when it wakes, late at
 * random, and now and then has nothing for a while.
 */
#define MEMBERS	8

struct member {
	struct bpshaper_slot slot;
	u64	wake;
	u32	left;		/* packets to send before a pause */
	u32	len;		/* of the next one */
	u64	sent;		/* bytes */
	bool	is_mixed;	/* another length each time */
};

struct group {
	struct run run;		/* all that left, in order */
	atomic64_t tat;
	struct member member[MEMBERS];
	u32	members, mtu, largest, batch;
	u64	lateness;
	bool	never_pauses;
	int	packets;
};

/* One that the qdisc would not refuse. */
static void group_init(struct group *g, u32 members)
{
	memset(g, 0, sizeof(*g));
	g->run.Bps = rnd_rate();
	bpshaper_rate_set(&g->run.rate, g->run.Bps);
	g->members = members;
	g->mtu = 64 + rnd_log(13);
	g->run.burst = g->mtu * (members + 1) + rnd_log(20);
	for (u32 i = 0; i < members; i++) {
		if (!bpshaper_slot_set(&g->member[i].slot, &g->run.rate, g->run.burst,
				       g->mtu, members)) {
			group_init(g, members);
			return;
		}
		g->member[i].len = 1 + rnd_below(g->mtu);
		g->member[i].left = 1 + rnd_below(30);
	}
	g->batch = bpshaper_rate_bytes(&g->run.rate,
				       g->member[0].slot.window_ns / 2);
	g->batch = max(g->batch / members, g->mtu);
	/* What is larger is segmented. */
	g->largest = bpshaper_rate_bytes(&g->run.rate, g->member[0].slot.whole_ns);
	g->largest = rnd_below(2) ? max(g->mtu, g->largest) : g->mtu;
	g->lateness = 1 + rnd_log(3) * g->member[0].slot.window_ns / 2;
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
	bpshaper_slot_return(&m->slot, &g->tat);
	m->wake = now + rnd_below(1 + 3 * m->slot.window_ns);
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
		       bpshaper_slot_take(&m->slot, &g->tat, &g->run.rate, m->len,
					  bpshaper_slot_turn(&m->slot, g->batch, ~0U),
					  now))
			member_leaves(g, m, now);
		if (m->wake != now)
			continue;
		m->wake = bpshaper_slot_ready_ns(&m->slot,
						 bpshaper_slot_held_ns(&m->slot));
		m->wake = max(m->wake, now + 1);
		if (rnd_below(4) == 0)
			m->wake += rnd_below(g->lateness);
	}
}

/* At least @bytes, in runs of PACKETS. */
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

/* After the MTU has grown, or more members have come than the burst is for. */
static bool law_holds_if_the_burst_does_not_hold_a_packet_of_each(void)
{
	for (int i = 0; i < CASES; i++) {
		struct group g;
		u32 fits;

		group_init(&g, 1 + rnd_below(MEMBERS));
		for (u32 j = 0; j < g.members; j++)
			if (bpshaper_slot_set(&g.member[j].slot, &g.run.rate, g.run.burst,
					      g.run.burst, g.members))
				return false;
		fits = bpshaper_rate_bytes(&g.run.rate, g.member[0].slot.late_ns);
		if (!fits)
			continue;
		g.largest = fits;
		g.lateness = 1 + bpshaper_rate_cost_ns(&g.run.rate, g.run.burst);
		for (u32 j = 0; j < g.members; j++)
			g.member[j].len = fits;
		group_packets(&g);
		if (!run_obeys_law(&g.run, g.run.burst))
			return false;
	}
	return true;
}

/* With their cost in the place of W, and of L for each. */
static bool law_holds_with_oversized_packets_of_all_members(void)
{
	for (int i = 0; i < CASES; i++) {
		struct group g;

		group_init(&g, 1 + rnd_below(MEMBERS));
		g.largest = g.largest * 3;
		group_packets(&g);
		if (!run_obeys_law(&g.run, g.run.burst + (g.members + 1) * g.largest))
			return false;
	}
	return true;
}

/* Each has packets of another length, and one of all lengths; one of the MTU takes a
 * microsecond at least. Who wakes late loses nothing unless it is very late: what is left
 * of a turn is late already. The first one finds the bucket full: bytes count from
 * when it is not.
 */
static bool members_that_always_send_get_equal_bytes(void)
{
	for (int i = 0; i < CASES / 10; i++) {
		u64 least = ~0ULL, most = 0, turn;
		struct group g;

		do
			group_init(&g, 2 + rnd_below(MEMBERS - 1));
		while (g.member[0].slot.late_ns < 1000);
		g.never_pauses = true;
		g.lateness = 1 + g.member[0].slot.late_ns / 8;
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
			printf("# rate %" PRIu64 " members %" PRIu32 ": %" PRIu64
			       " to %" PRIu64 " bytes, turn %" PRIu64 "\n",
			       g.run.Bps, g.members, least, most, turn);
			return false;
		}
	}
	return true;
}

/* However late they all are, nobody waits for ever. */
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
			       bpshaper_slot_take(&m->slot, &g.tat, &g.run.rate,
						  m->len, bpshaper_slot_turn(
							  &m->slot, g.batch, ~0U),
						  now))
				member_leaves(&g, m, now);
			m->wake = bpshaper_slot_ready_ns(&m->slot,
				bpshaper_slot_held_ns(&m->slot)) +
				10 * g.member[0].slot.window_ns + 1;
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

/* Members whose packets wait for their time, two at a time, and one, the last, that always
 * has something to send. A turn of the former is what is due, or all they have queued.
 */
#define PACED	16
#define QUEUED	65536

struct paced {
	struct bpshaper_slot slot;
	u64	wake;
	u64	due_ns;		/* of the next packets */
	u64	gap_ns;		/* 0: of the bulk member */
	u32	due;		/* packets, at most 2 */
	bool	is_waiting;
};

struct paced_group {
	struct bpshaper_rate rate;
	atomic64_t tat;
	struct paced member[PACED + 1];
	u32	members, len, batch, waiting;
	bool	asks_for_all;
	u64	bytes;
};

static void paced_init(struct paced_group *g, u64 Bps, u64 paced_Bps, u32 members)
{
	u32 burst;

	memset(g, 0, sizeof(*g));
	g->len = 1514;
	g->members = members;
	bpshaper_rate_set(&g->rate, Bps);
	burst = max(Bps / 1000, 2 * g->len) + members * g->len;
	for (u32 i = 0; i < members; i++) {
		bpshaper_slot_set(&g->member[i].slot, &g->rate, burst, g->len, members);
		g->member[i].wake = 1 + rnd_below(10000000);
		g->member[i].due_ns = g->member[i].wake;
		g->member[i].gap_ns = 2 * g->len * NSEC_PER_SEC / paced_Bps;
	}
	g->member[members - 1].gap_ns = 0;
	g->batch = bpshaper_rate_bytes(&g->rate, g->member[0].slot.window_ns / 2);
}

static bool paced_take(struct paced_group *g, struct paced *m, u64 now)
{
	u32 batch = max(g->batch / max(g->waiting, 1U), g->len), backlog = QUEUED;

	if (m->gap_ns && !g->asks_for_all)
		backlog = m->due * g->len;
	return bpshaper_slot_take(&m->slot, &g->tat, &g->rate, g->len,
				  bpshaper_slot_turn(&m->slot, batch, backlog), now);
}

static void paced_set_waiting(struct paced_group *g, struct paced *m, bool is_waiting)
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
			bpshaper_slot_return(&m->slot, &g->tat);
		paced_set_waiting(g, m, false);
		m->wake = m->due_ns;
		return;
	}
	paced_set_waiting(g, m, true);
	m->wake = bpshaper_slot_ready_ns(&m->slot, bpshaper_slot_held_ns(&m->slot));
	m->wake = max(m->wake, now + 1) + rnd_below(5000);
}

/* The part of the rate that is used in a second, in millionths; half a second is over. */
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

/* Gbit/s or 100 Mbit/s, of which the paced members take 2 % to 90 % */
static bool a_group_with_paced_members_uses_its_rate(void)
{
	struct paced_group g;
	bool good = true;
	u64 used;

	for (int i = 0; i < 40; i++) {
		u64 Bps = i % 2 ? 12500000 : 125000000;
		u32 members = 2 + rnd_below(PACED);
		u64 paced_Bps = Bps / 100 * (2 + rnd_below(88)) / (members - 1);
		u64 start = seed;

		paced_init(&g, Bps, paced_Bps, members);
		used = paced_use(&g);
		if (used >= 999000)
			continue;
		good = false;
		printf("# rate %" PRIu64 ", %" PRIu32 " members at %" PRIu64 ": %" PRIu64
		       " millionths", Bps, members - 1, paced_Bps, used);
		seed = start;
		paced_init(&g, Bps, paced_Bps, members);
		g.asks_for_all = true;
		printf(", asking for all that is queued %" PRIu64 "\n", paced_use(&g));
	}
	return good;
}

static bool what_is_given_back_can_be_asked_for(void)
{
	struct bpshaper_slot a = {}, b = {};
	struct bpshaper_rate r;
	atomic64_t tat = {};
	u64 start;

	bpshaper_rate_set(&r, 1000000);		/* 1 us a byte */
	bpshaper_slot_set(&a, &r, 10000, 1000, 2);
	bpshaper_slot_set(&b, &r, 10000, 1000, 2);
	while (bpshaper_slot_take(&a, &tat, &r, 1000, 5000, 1))
		;
	start = tat.counter;
	bpshaper_slot_return(&a, &tat);
	if (tat.counter != (s64)start - 5000000 || bpshaper_slot_held_ns(&a))
		return false;
	/* Not if somebody has asked since. */
	bpshaper_slot_take(&a, &tat, &r, 1000, 5000, 1);
	bpshaper_slot_take(&b, &tat, &r, 1000, 2000, 1);
	start = tat.counter;
	bpshaper_slot_return(&a, &tat);
	return tat.counter == (s64)start &&
	       bpshaper_slot_held_ns(&a) == 5000000;
}

static bool a_closed_line_gives_nothing(void)
{
	atomic64_t tat = { .counter = BPSHAPER_LINE_CLOSED };
	struct bpshaper_slot s = {};
	struct bpshaper_rate r;

	bpshaper_rate_set(&r, 1000000);
	bpshaper_slot_set(&s, &r, 10000, 1000, 1);
	return !bpshaper_slot_take(&s, &tat, &r, 1000, 0, 1ULL << 50) &&
	       !bpshaper_slot_held_ns(&s) && tat.counter == BPSHAPER_LINE_CLOSED;
}

#define TEST(name) report(#name, name())

int main(int argc, char **argv)
{
	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0);
	printf("TAP version 13\n1..19\n# seed %" PRIu64 "\n", seed);
	TEST(law_holds_in_every_window);
	TEST(oversized_packets_leave_and_law_holds_with_their_size);
	TEST(nothing_of_the_rate_is_lost);
	TEST(costs_are_rounded_up_by_less_than_one_ns);
	TEST(bytes_of_a_time_are_exact_within_one_in_1e9);
	TEST(small_packets_at_40gbit_keep_the_rate_within_1_in_1000);
	TEST(changes_give_no_extra_burst);
	TEST(a_debt_is_forgiven_when_the_rate_changes);
	TEST(an_unlimited_rate_costs_nothing);
	report("what_is_ready_is_never_refused", !refused);
	TEST(what_is_not_ready_is_refused_and_charged_nothing);
	TEST(law_holds_for_the_sum_of_a_group);
	TEST(law_holds_if_the_burst_does_not_hold_a_packet_of_each);
	TEST(law_holds_with_oversized_packets_of_all_members);
	TEST(members_that_always_send_get_equal_bytes);
	TEST(members_that_are_always_late_send);
	TEST(a_group_with_paced_members_uses_its_rate);
	TEST(what_is_given_back_can_be_asked_for);
	TEST(a_closed_line_gives_nothing);
	return failed ? 1 : 0;
}
