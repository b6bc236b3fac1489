// SPDX-License-Identifier: GPL-2.0-only
/* Property tests of bpshaper/rate.h against exact 128-bit arithmetic.
 *
 * usage: test_bucket [SEED [short | race | until-red]]
 *
 * short leaves out the hub, race runs only its threads, and until-red all, up
 * to the first test that fails. Other seeds than 1 try a half of the hub's cases
 * each. UNIT_ALL=1 tries all, and ten times as many random trees.
 *
 * Each property is tried on random rates (log-uniform over the whole range of
 * the uAPI), bursts, packets and arrivals. Output is TAP; a failure prints the
 * case and the seed that makes it again.
 */
#include "unit.h"

static int failed, tests;
static bool ends_when_red;

void report(const char *name, bool good)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++tests, name);
	failed += !good;
	if (failed && ends_when_red)
		exit(1);
}

int main(int argc, char **argv)
{
	const char *part = argc > 2 ? argv[2] : "";
	bool is_short = !strcmp(part, "short");
	bool is_all = !is_short && strcmp(part, "race");
	bool is_long = getenv("UNIT_ALL");
	u64 race_ns, first;

	ends_when_red = !strcmp(part, "until-red");
	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0);
	first = seed;
	race_ns = seed == 1 ? 3 * NSEC_PER_SEC : NSEC_PER_SEC / 5;
	printf("TAP version 13\n# seed %" PRIu64 "\n", seed);
	if (is_all || is_short) {
		test_bucket();
		test_tree();
		test_order();
		test_slots();
	}
	if (is_all) {
		seed = first;	/* the same, whatever came before */
		if (first % 2 || is_long)
			test_hub();
		if (first == 1 || first % 2 == 0 || is_long)
			test_promises();
	}
	if (!is_short)
		test_race(race_ns);
	printf("1..%d\n", tests);
	return failed ? 1 : 0;
}
