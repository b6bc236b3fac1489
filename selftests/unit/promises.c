// SPDX-License-Identifier: GPL-2.0-only
/* What a hub promises: each case prints its figures and whether they are good.
 */
#include <stdarg.h>

#include "hub_sim.h"

static bool case_is(bool good, const struct sim_result *r,
		    const char *format, ...)
{
	va_list args;

	good &= r->is_lawful;
	printf("# %s", good ? "" : "BAD ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(": %.2f %% of the rate, error %.2f %%, p99 %.3f ms, %.3f atomics, %.3f locks, %.3f timers, %.3f wakes, lock %.2f %%%s\n",
	       r->share * 100, r->error * 100, r->wait_ms, r->atomics,
	       r->locks, r->timers, r->wakes, r->lock_busy * 100,
	       r->is_lawful ? "" : ", LAW BROKEN");
	return good;
}

static u32 burst_of(u64 mbit)
{
	return max(mbit * 125, 4 * 1514ULL);
}

static double ratio_of(double *x, int len)
{
	double least = x[0], most = x[0];

	for (int i = 1; i < len; i++) {
		least = min(least, x[i]);
		most = max(most, x[i]);
	}
	return most / least;
}

/* Queues */

static bool equal(int members, u64 mbit, double ms, double atomics)
{
	struct sim_result r;

	sim_begin(mbit, burst_of(mbit));
	for (int i = 0; i < members; i++)
		sim_slot(sim_member(), -1, 0, 1514);
	r = sim_run(ms, ms / 5);
	return case_is(r.share >= .995 && r.atomics <= atomics &&
		       r.jain >= .999 - .009 * (members > 500), &r,
		       "%d equal queues, %d Mbit/s, Jain %.4f", members,
		       (int)mbit, r.jain);
}

static bool one_of_eight(u64 mbit)
{
	struct sim_result r;

	sim_begin(mbit, burst_of(mbit));
	for (int i = 0; i < 8; i++)
		sim_member();
	sim_slot(3, -1, 0, 1514);
	r = sim_run(mbit > 5000 ? 300 : 1000, 100);
	return case_is(r.share >= .995, &r, "1 busy queue of 8, %d Mbit/s",
		       (int)mbit);
}

static bool queues_share_the_rate(void)
{
	return equal(8, 1000, 1000, .6) & equal(8, 100, 3000, 1.8) &
	       equal(8, 20, 8000, 3.5) & equal(8, 10000, 300, .1) &
	       equal(64, 1000, 1500, .7) & equal(1000, 1000, 1500, .7) &
	       one_of_eight(1000) & one_of_eight(10000);
}

/* Flows */

static bool any_number_of_flows(void)
{
	static const u32 n[] = { 1, 2, 5, 8 };
	struct sim_result r;
	double x[4];

	sim_begin(1000, 125000);
	for (int i = 0; i < 4; i++)
		sim_slot_flows(sim_slot(sim_member(), -1, 0, 1514), n[i]);
	r = sim_run(1500, 200);
	for (int i = 0; i < 4; i++)
		x[i] = sim_slot_share(i) / n[i];
	return case_is(ratio_of(x, 4) <= 1.02, &r,
		       "flows 1:2:5:8 in four queues, ratio %.4f",
		       ratio_of(x, 4));
}

/* Each of eight queues has @flows; one has @many. */
static bool many_flows(u64 mbit, u32 flows, u32 many, double ms, double atomics)
{
	struct sim_result r;

	sim_begin(mbit, burst_of(mbit));
	for (int i = 0; i < 8; i++)
		sim_slot_flows(sim_slot(sim_member(), -1, 0, 1514),
			       i ? flows : many);
	r = sim_run(ms, ms / 4);
	return case_is(r.share >= .995 && r.atomics <= atomics &&
		       r.flow_most / r.flow_least <= 1.05, &r,
		       "8 queues of %u flows, one of %u, %d Mbit/s, ratio %.4f",
		       flows, many, (int)mbit, r.flow_most / r.flow_least);
}

static bool flows_of_queues_are_equal(void)
{
	return any_number_of_flows() & many_flows(1000, 4, 4, 1000, .6) &
	       many_flows(10000, 16, 16, 300, .1) &
	       many_flows(1000, 1, 100, 3000, .6);
}

/* Four queues with a greedy flow each; in one are sparse flows besides. */
static bool trickles(u64 mbit, int count, double each, u32 len, double ms,
		     int class)
{
	struct sim_result r;
	double x[4];

	sim_begin(mbit, burst_of(mbit));
	if (class >= 0)
		sim_class(-1, 1, 0, 0, 0);
	for (int i = 0; i < 4; i++)
		sim_slot(sim_member(), class, 0, 1514);
	for (int i = 0; i < count; i++)
		sim_slot_new_flow(0, each, len);
	r = sim_run(ms, ms / 5);
	for (int i = 0; i < 4; i++)
		x[i] = sim_flow_share(i, 0);
	return case_is(ratio_of(x, 4) <= 1.02 && r.wait_ms <= .2, &r,
		       "%d sparse of %g Mbit/s, %u bytes, beside greedy of %.2f and %.2f of %d Mbit/s",
		       count, each, len, x[0] * mbit, x[1] * mbit, (int)mbit);
}

/* A slot has no more weight because sparse flows are first in it now and then. */
static bool sparse_flows_bring_nothing_along(void)
{
	return trickles(100, 1, .1152, 72, 3000, -1) &
	       trickles(100, 20, .1152, 72, 3000, -1) &
	       trickles(100, 20, 1, 300, 2000, -1) &
	       trickles(1000, 20, 5, 1200, 800, -1) &
	       trickles(1000, 20, 5, 200, 800, -1) &
	       trickles(10000, 30, 50, 1200, 200, -1) &
	       trickles(20, 10, .2, 300, 4000, -1);
}

/* Beside a greedy flow are @count sparse ones that send two packets at once. In
 * three queues are 16 greedy ones each.
 */
static bool pairs(int count, double each)
{
	struct sim_result r;

	sim_begin(1000, burst_of(1000));
	sim_slot(sim_member(), -1, 0, 1514);
	for (int i = 0; i < count; i++) {
		sim_slot_paced_flow(0, each, 60);
		sim_slot_flow_pairs(0);
	}
	for (int i = 1; i < 4; i++)
		sim_slot_flows(sim_slot(sim_member(), -1, 0, 1514), 16);
	r = sim_run(1000, 200);
	return case_is(r.flow_most / r.flow_least <= 1.02, &r,
		       "greedy beside %d that send pairs at %g Mbit/s gets %.2f of the least",
		       count, each, sim_flow_share(0, 0) / r.flow_least);
}

static bool pairs_bring_nothing_to_spare(void)
{
	return pairs(1, 5) & pairs(4, 1.25) & pairs(4, 3.75) & pairs(4, 6.25);
}

/* A call sends @part of what each flow gets, beside 16 that are greedy. */
static bool call(int members, double part, u64 mbit)
{
	struct sim_result r;
	double most_ms;

	sim_begin(mbit, burst_of(mbit));
	for (int i = 0; i < members; i++)
		sim_slot_flows(sim_slot(sim_member(), -1, 0, 1514),
			       16 / members);
	sim_slot_paced_flow(0, part * mbit / 17, 1200);
	r = sim_run(10000, 500);
	most_ms = (2 * 1514 + 1200) * 8 / (mbit * 1000.) + .15;
	return case_is(r.wait_ms <= most_ms &&
		       r.flow_most / r.flow_least <= 1.02, &r,
		       "call of %.0f %% of its part, %d queues, %d Mbit/s, greedy flows within %.4f",
		       part * 100, members, (int)mbit,
		       r.flow_most / r.flow_least);
}

static bool calls_do_not_wait(void)
{
	return call(1, .85, 20) & call(4, .85, 20) & call(8, .95, 20) &
	       call(8, .5, 200) & call(8, .85, 200);
}

/* Floors */

/* In one queue the floor has packets for 5/7 of the time, and is kept then. */
static bool floor_returns(int members, int percent)
{
	struct sim_result r;
	double kept;
	int f, g, s;

	sim_begin(100, 12500);
	f = sim_class(-1, 1, percent, 0, 0);
	g = sim_class(-1, 1, 0, 0, 0);
	s = sim_class(-1, 1, 0, 0, 0);
	for (int i = 0; i < members; i++) {
		sim_member();
		sim_slot_on_off(sim_slot(i, f, 0, 1514), 50, 20);
		sim_slot(i, g, 0, 1514);
	}
	sim_slot(members - 1, s, .4, 142);
	r = sim_run(4000, 300);
	kept = members > 1 ? 1 : sim_class_share(f) / sim_slot_on(0) * 100 /
				 percent;
	return case_is(r.wait_ms <= .5 && r.share >= .995 && kept > .99, &r,
		       "floor of %d %% comes back, %d queues, kept %.3f",
		       percent, members, kept);
}

/* A hundred slow ones come and go, or a class has one packet after another. */
static bool sparse_beside(bool is_eager)
{
	struct sim_result r;
	int m = 0, s;

	sim_begin(100, 12500);
	for (int i = 0; i < 4; i++)
		sim_member();
	if (is_eager) {
		sim_slot(0, sim_class(-1, 1, 95, 0, 1), 0, 1514);
		sim_slot_gap(sim_slot(1, sim_class(-1, 1, 0, 0, 0), 0, 757), 1);
	}
	for (int i = 0; i < 100 && !is_eager; i++) {
		s = sim_slot(m++ % 4, sim_class(-1, 1, .8, 0, 0), 0, 1514);
		sim_slot_on_off(s, 50, 20);
	}
	sim_slot(2, sim_class(-1, 1, 0, 0, 0), .05, 142);
	r = sim_run(4000, 500);
	return case_is(r.wait_ms <= .5 && r.share >= .995, &r,
		       "sparse beside %s", is_eager ? "one packet at a time" :
		       "100 slow floors that come and go");
}

/* 900 classes ask for three times what there is, or come back together; floors
 * of 50 % and 50 of 0.8 % are kept beside them.
 */
static bool crowd(bool returns, int members)
{
	struct sim_result r;
	double least = 1e9;
	int s;

	sim_begin(100, 12500);
	for (int i = 0; i < members; i++)
		sim_member();
	for (int i = 0; i < 951; i++) {
		sim_class(-1, 1, i ? i < 51 ? .8 : 0 : 50, 0, 0);
		s = sim_slot(i % members, i, i < 51 || returns ? 0 : .3, 1514);
		if (returns && i > 50)
			sim_slot_on_off(s, 50, 20);
	}
	r = sim_run(2000, 500);
	for (int i = 0; i < 51; i++)
		least = min(least, sim_class_share(i) / (i ? .008 : .5));
	return case_is(least >= .96 && sim_class_share(0) >= .495, &r,
		       "51 floors beside 900 that %s, %d queues, the least %.3f",
		       returns ? "return" : "ask for 3 x", members, least);
}

/* A fast floor, and 490 slow ones that are due at once. */
static bool slow_floors(int members)
{
	struct sim_result r;
	double least = 1e9;

	sim_begin(100, 12500);
	for (int i = 0; i < members; i++)
		sim_member();
	for (int i = 0; i < 492; i++) {
		sim_class(-1, i == 491 ? 1000000 : 1,
			  i == 491 ? 0 : i ? .1 : 50, 0, 0);
		sim_slot(i % members, i, 0, 1514);
	}
	r = sim_run(6000, 500);
	for (int i = 0; i < 491; i++)
		least = min(least, sim_class_share(i) / (i ? .001 : .5));
	return case_is(least >= .9 && sim_class_share(0) >= .495, &r,
		       "a floor of 50 %% beside 490 of 0.1 %%, %d queues, the least %.3f",
		       members, least);
}

/* A floor of two packets in 3 s comes, and again: a fast one loses nothing. */
static bool slow_floor_comes(void)
{
	struct sim_result r;
	int fast, slow;

	sim_begin(100, 12500);
	fast = sim_class(-1, 1, 80, 0, 0);
	slow = sim_class(-1, 1, .008, 0, 0);
	sim_slot(sim_member(), fast, 0, 1514);
	sim_slot(sim_member(), sim_class(-1, 100, 0, 0, 0), 0, 1514);
	sim_slot_on_off(sim_slot(sim_member(), slow, 0, 1514), 20, 80);
	r = sim_run(2000, 50);
	return case_is(sim_class_share(fast) >= .795, &r,
		       "a floor of 80 %% beside one of 8 kbit/s that comes, gets %.2f %%",
		       sim_class_share(fast) * 100);
}

/* They come at the same time, each with two packets before its turn. */
static bool floor_beside_many_that_come(void)
{
	struct sim_result r;

	sim_begin(100, 12500);
	for (int i = 0; i < 4; i++)
		sim_member();
	sim_slot(0, sim_class(-1, 1, 50, 0, 0), 0, 1514);
	for (int i = 0; i < 900; i++)
		sim_slot_period(sim_slot(i % 4, sim_class(-1, 1, 0, 0, 0), 0,
					 1514), 500, 1500);
	r = sim_run(1500, 300);
	return case_is(sim_slot_gap_ms(0) <= 5, &r,
		       "a floor of 50 %% beside 900 that come, waits for %.1f ms",
		       sim_slot_gap_ms(0));
}

/* Two floors of 60 % exceed what there is, for @secs; then one goes. */
static bool overcommit(double secs)
{
	struct sim_result r;
	int other;

	sim_begin(100, 12500);
	for (int i = 0; i < 2; i++) {
		sim_class_overcommit(sim_class(-1, 1, 60, 0, 0));
		sim_slot(sim_member(), i, 0, 1514);
	}
	sim_slot_period(1, 0, secs * 1000);
	other = sim_class(-1, 1, 0, 0, 0);
	sim_slot(sim_member(), other, 0, 1514);
	r = sim_run(secs * 1000 + 500, secs * 1000 + 20);
	return case_is(sim_class_share(other) >= .19, &r,
		       "floors of 60 and 60 %%, one goes after %g s: who has none gets %.2f of 20 %%",
		       secs, sim_class_share(other) * 100);
}

static bool floors_are_kept_whoever_comes(void)
{
	bool good = true;

	for (int percent = 50; percent <= 95; percent += 15)
		good &= floor_returns(1, percent) & floor_returns(4, percent);
	good &= sparse_beside(false) & sparse_beside(true);
	for (int i = 1; i <= 4; i += 3)
		good &= crowd(false, i) & crowd(true, i) & slow_floors(i);
	return good & slow_floor_comes() & floor_beside_many_that_come() &
	       overcommit(.1) & overcommit(4);
}

/* Classes */

/* 900 sparse classes below one get it no more than its half. */
static bool many_below(int members)
{
	struct sim_result r;
	int parent;

	sim_begin(100, 12500);
	sim_class(-1, 1, 0, 0, 0);
	parent = sim_class(-1, 1, 0, 0, 0);
	for (int i = 0; i < members; i++)
		sim_slot(sim_member(), 0, 0, 1514);
	for (int i = 0; i < 900; i++)
		sim_slot(i % members, sim_class(parent, 1, 0, 0, 0), .12, 1514);
	r = sim_run(2000, 500);
	return case_is(sim_class_share(0) >= .495, &r,
		       "900 sparse below a class beside one, %d queues, which gets %.2f %%",
		       members, sim_class_share(0) * 100);
}

static bool seven_levels(void)
{
	int parent = -1, class;
	struct sim_result r;

	sim_begin(100, 12500);
	for (int i = 0; i < 4; i++)
		sim_member();
	for (int i = 0; i < 7; i++) {
		class = sim_class(parent, 1, 0, 0, 0);
		parent = sim_class(parent, 1, 0, 0, 0);
		for (int j = 0; j < 2; j++)
			sim_slot_on_off(sim_slot((i + j) % 4, class, 0, 1512),
					3, .3);
	}
	sim_slot(1, parent, .14, 142);
	r = sim_run(8000, 300);
	return case_is(r.wait_ms <= .5 && r.error <= .01, &r,
		       "sparse below seven levels");
}

/* A class of little weight gets a little at a time: not 30 kB, and then nothing
 * for a thousand times as long.
 */
static bool little_weight(u64 mbit)
{
	struct sim_result r;
	double gap;

	sim_begin(mbit, burst_of(mbit));
	sim_slot(sim_member(), sim_class(-1, 1, 0, 0, 0), 0, 1514);
	for (int i = 0; i < 3; i++)
		sim_slot(sim_member(), sim_class(-1, 300, 0, 0, 0), 0, 1514);
	r = sim_run(1000, 200);
	/* two packets, or a 64th of the turn, by weight */
	gap = max(2 * 1514ULL, mbit * 125 / 64) * 901 * 8 / (mbit * 1000.);
	return case_is(sim_slot_gap_ms(0) <= 2 * gap && r.error <= .01, &r,
		       "weight 1 of 901, %d Mbit/s, gaps of %.1f ms (%.1f by weight)",
		       (int)mbit, sim_slot_gap_ms(0), gap);
}

/* The wire is hardly faster than the rate, so bytes lie in a queue for as long as
 * the burst takes: a sparse class of it waits for a packet on the wire, not for
 * what others have been granted.
 */
static bool sparse_on_a_slow_wire(void)
{
	struct sim_result r;

	sim_begin(950, 118750);
	sim_machine.wire_mbit = 1000;
	sim_member();
	for (int i = 0; i < 4; i++)
		sim_slot(0, sim_class(-1, 1, 0, 0, 0), 0, 1514);
	sim_slot(0, sim_class(-1, 1, 0, 0, 0), 2, 200);
	sim_slot_new_flow(0, 1, 200);
	r = sim_run(2000, 100);
	return case_is(r.wait_ms <= .1 && r.share >= .995, &r,
		       "sparse on a wire of 1 Gbit/s");
}

static bool classes_get_their_parts(void)
{
	return many_below(1) & many_below(4) & seven_levels() &
	       little_weight(1000) & little_weight(10000) &
	       sparse_on_a_slow_wire();
}

static bool prio0(u64 mbit)
{
	struct sim_result r;
	int m;

	sim_begin(mbit, burst_of(mbit));
	sim_class(-1, 1, 0, 0, 0);
	sim_class(-1, 1, 0, 0, 1);
	sim_class(-1, 3, 0, 0, 1);
	for (int i = 0; i < 8; i++) {
		m = sim_member();
		sim_slot(m, 0, mbit * .6 / 8, 1514);
		sim_slot(m, 1, 0, 1514);
		sim_slot(m, 2, 0, 1514);
	}
	r = sim_run(mbit > 5000 ? 200 : 600, 100);
	return case_is(r.wait_ms <= .5 && r.error <= .01 && r.share >= .995,
		       &r, "prio 0 asks for 60 %%, %d Mbit/s", (int)mbit);
}

static bool small_ceil(double ceil, int members, double least)
{
	struct sim_result r;

	sim_begin(1000, 125000);
	sim_class(-1, 1, 0, ceil, 0);
	sim_class(-1, 1, 0, 0, 0);
	sim_class_burst(0, 2 * 1514);
	for (int i = 0; i < members; i++) {
		sim_member();
		sim_slot(i, 0, 0, 1514);
		sim_slot(i, 1, 0, 1514);
	}
	r = sim_run(1000, 200);
	return case_is(sim_class_share(0) * 1000 / ceil >= least, &r,
		       "ceil of %g with a burst of 2 packets, %d queues, reached %.2f %%",
		       ceil, members, sim_class_share(0) * 1e5 / ceil);
}

/* A class with a ceil of 95 % comes and goes: it has its half, whatever its
 * burst is.
 */
static bool ceil_comes(u32 burst)
{
	struct sim_result r;
	double part;

	sim_begin(100, 12500);
	sim_class(-1, 1, 0, 95, 0);
	sim_class(-1, 1, 0, 0, 0);
	sim_class_burst(0, burst);
	sim_slot_on_off(sim_slot(sim_member(), 0, 0, 1514), 10, 30);
	sim_slot(sim_member(), 1, 0, 1514);
	sim_slot(sim_member(), 1, .2, 200);
	r = sim_run(4000, 500);
	part = sim_class_share(0) / sim_slot_on(0);
	return case_is(part > .45 && part < .6, &r,
		       "a class with a ceil and a burst of %u comes and goes, gets %.3f",
		       burst, part);
}

static bool prios_and_ceils_are_kept(void)
{
	return prio0(1000) & prio0(10000) & small_ceil(20, 1, .98) &
	       small_ceil(20, 8, .98) & small_ceil(200, 8, .7) &
	       ceil_comes(12500) & ceil_comes(1250000);
}

/* Lateness */

static bool late(int count, u64 ns, double share)
{
	struct sim_result r;
	int m;

	sim_begin(1000, 125000);
	sim_class(-1, 1, 0, 0, 0);
	sim_class(-1, 3, 0, 0, 0);
	for (int i = 0; i < 8; i++) {
		m = sim_member();
		sim_slot(m, 0, 0, 1514);
		sim_slot(m, 1, 0, 1514);
		if (i < count)
			sim_member_late(m, ns);
	}
	r = sim_run(1000, 100);
	return case_is(r.share >= share, &r, "%d of 8 late by %g ms, Jain %.4f",
		       count, ns / 1e6, r.jain);
}

static bool stops(int members, double every_ms, double most_ms)
{
	struct sim_result r;

	sim_begin(1000, 125000);
	sim_class(-1, 1, 0, 0, 0);
	sim_class(-1, 3, 0, 0, 0);
	for (int i = 0; i < members; i++) {
		sim_member();
		sim_slot(i, 0, 0, 1514);
		sim_slot(i, 1, 0, 1514);
	}
	sim_machine.stall_every = every_ms * NSEC_PER_MSEC;
	sim_machine.stall_most = most_ms * NSEC_PER_MSEC;
	r = sim_run(2000, 100);
	return case_is(r.share >= .99, &r,
		       "%d queues, one stops for %g ms, %g times a second",
		       members, most_ms, 1000 / every_ms);
}

static bool who_is_late_costs_others_nothing(void)
{
	return late(1, NSEC_PER_MSEC / 10, .995) & late(1, NSEC_PER_MSEC, .99) &
	       late(8, NSEC_PER_MSEC / 10, .99) & late(8, NSEC_PER_MSEC, .95) &
	       stops(8, 100, 20) & stops(16, 100, 20);
}

/* Lengths and bursts */

static bool large_beside_small(void)
{
	struct sim_result r;
	double x[8];

	sim_begin(10000, 1250000);
	for (int i = 0; i < 8; i++)
		sim_slot(sim_member(), -1, 0, i % 2 ? 65226 : 1514);
	r = sim_run(400, 100);
	for (int i = 0; i < 8; i++)
		x[i] = sim_slot_share(i);
	return case_is(r.share >= .995 && ratio_of(x, 8) < 1.02, &r,
		       "64 kB beside 1514 B, 8 queues, ratio %.4f",
		       ratio_of(x, 8));
}

static bool five_packets(void)
{
	struct sim_result r;

	sim_begin(100, 5 * 1514);
	for (int i = 0; i < 8; i++)
		sim_slot(sim_member(), -1, 0, 1514);
	r = sim_run(3000, 300);
	return case_is(r.share >= .99, &r, "a bucket of five packets");
}

/* Packets are larger than the burst, so each waits for a timer of its own, which
 * is late by 0.06 ms. A sparse flow beside them waits for one of them at most.
 */
static bool burst_below_a_packet(int members, u64 mbit, double share)
{
	struct sim_result r;

	sim_mtu = 9000;
	sim_begin(mbit, 5000);
	for (int i = 0; i < members; i++)
		sim_slot(sim_member(), -1, 0, 9000);
	sim_slot_new_flow(0, .2, 142);
	r = sim_run(3000, 300);
	sim_mtu = 1514;
	return case_is(r.share >= share && r.wait_ms <= 72. / mbit + .2, &r,
		       "burst of 5000 and packets of 9000, %d queues, %d Mbit/s",
		       members, (int)mbit);
}

static bool lengths_and_bursts_do_not_matter(void)
{
	bool good = large_beside_small() & five_packets();

	for (int i = 1; i <= 8; i *= 2)
		good &= burst_below_a_packet(i, 20, .97) &
			burst_below_a_packet(i, 100, .9);
	return good;
}

/* One queue, which sends as fast as it can: classes divide that. */
static bool without_a_rate(void)
{
	struct sim_result r;
	double x[3], all;

	sim_begin(8000000, 4 * 1514);
	sim_member();
	for (int i = 0; i < 3; i++)
		sim_slot(0, sim_class(-1, 1 + 2 * i, 0, i ? 0 : 1000, 0), 0,
			 1514);
	r = sim_run(200, 50);
	for (int i = 0; i < 3; i++)
		x[i] = sim_class_share(i) * 8e12 / 1e9;
	all = x[1] + x[2];
	r.is_lawful = true;	/* there is no rate */
	return case_is(x[0] > .98 && x[0] <= 1.01 && x[2] / all > .62 &&
		       x[2] / all < .63 && all > 40, &r,
		       "no rate, a ceil of 1, and %.2f and %.2f Gbit/s by weights of 3 and 5",
		       x[1], x[2]);
}

/* A socket has one packet of @len after another, in a class with greedy ones in
 * three other queues, and another class is busy.
 */
static bool one_at_a_time(double ceil, u32 len)
{
	struct sim_result r;
	double x[4];
	int c;

	sim_begin(100, 12500);
	c = sim_class(-1, 1, 0, ceil, 0);
	sim_slot_gap(sim_slot(sim_member(), c, 0, len), 1);
	for (int i = 1; i < 4; i++)
		sim_slot(sim_member(), c, 0, 1514);
	sim_slot(sim_member(), sim_class(-1, 1, 0, 0, 0), 0, 1514);
	r = sim_run(3000, 500);
	for (int i = 0; i < 4; i++)
		x[i] = sim_slot_share(i);
	return case_is(r.share >= .995 && ratio_of(x, 4) <= 1.02, &r,
		       "one packet of %u bytes after another, below a ceil of %.0f, gets %.2f %%, greedy ones %.2f",
		       len, ceil, x[0] * 100, x[1] * 100);
}

static bool one_packet_at_a_time_gains_nothing(void)
{
	return one_at_a_time(0, 1514) & one_at_a_time(20, 1514) &
	       one_at_a_time(40, 1514) & one_at_a_time(20, 757);
}

/* In a class beside a busy one; after @secs somebody is greedy in it. */
static bool sparse_for_long(double secs, double demand, double ceil)
{
	struct sim_result r;
	int c;

	sim_begin(100, 12500);
	c = sim_class(-1, 1, 0, ceil, 0);
	sim_slot(sim_member(), c, demand, 1514);
	sim_slot_period(sim_slot(sim_member(), c, 0, 1514), secs * 1000,
			secs * 1000 + 1000);
	sim_slot(sim_member(), sim_class(-1, 1, 0, 0, 0), 0, 1514);
	r = sim_run(secs * 1000 + 1000, secs * 1000);
	return case_is(r.wait_ms <= 1.2 && r.share >= .995, &r,
		       "sparse of %.0f Mbit/s for %.0f s, below a ceil of %.0f, then one is greedy beside it",
		       demand, secs, ceil);
}

static bool sparse_flows_owe_nothing(void)
{
	return sparse_for_long(4, 5, 0) & sparse_for_long(20, 5, 0) &
	       sparse_for_long(20, 5, 40) & sparse_for_long(4, 1, 0) &
	       sparse_for_long(20, 1, 0);
}

static bool one_queue_keeps_the_order_without_a_rate(void)
{
	return without_a_rate();
}

void test_promises(void)
{
	TEST(queues_share_the_rate);
	TEST(flows_of_queues_are_equal);
	TEST(sparse_flows_bring_nothing_along);
	TEST(pairs_bring_nothing_to_spare);
	TEST(calls_do_not_wait);
	TEST(one_packet_at_a_time_gains_nothing);
	TEST(sparse_flows_owe_nothing);
	TEST(floors_are_kept_whoever_comes);
	TEST(classes_get_their_parts);
	TEST(prios_and_ceils_are_kept);
	TEST(who_is_late_costs_others_nothing);
	TEST(lengths_and_bursts_do_not_matter);
	TEST(one_queue_keeps_the_order_without_a_rate);
}
