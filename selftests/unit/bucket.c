// SPDX-License-Identifier: GPL-2.0-only
/* The bucket of one qdisc. */
#include "unit.h"

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

/* Packets sent back to back take their exact time, within 2^-31, and 1 ns each
 * time the bucket is full. With a burst of one packet it is full every time.
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
		/* The last may leave when all bytes fit burst + rate * T. */
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
		u32 bytes = bpshaper_Bps_bytes(Bps, ns);

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

/* Each change of the rate starts from an empty bucket. */
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
				bpshaper_bucket_take(&r.bucket, &r.rate, 1,
						     now);
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
	struct bpshaper_bucket b;
	struct bpshaper_rate r;

	bpshaper_rate_set(&r, 0);
	bpshaper_bucket_set(&b, &r, U32_MAX, 1000);
	return bpshaper_rate_cost_ns(&r, U32_MAX) == 0 &&
	       bpshaper_bucket_take(&b, &r, U32_MAX, 1000) && b.tat_ns == 1000;
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

void test_bucket(void)
{
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
}
