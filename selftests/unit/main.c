// SPDX-License-Identifier: GPL-2.0-only
/* Property tests of bpshaper/rate.h against exact 128-bit arithmetic.
 *
 * usage: test_bucket [SEED]
 *
 * Each property is tried on random rates (log-uniform over the whole range of
 * the uAPI), bursts, packets and arrivals. Output is TAP; a failure prints the
 * case and the seed that makes it again.
 */
#include "unit.h"

static int failed, tests;

void report(const char *name, bool good)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++tests, name);
	failed += !good;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0);
	printf("TAP version 13\n1..35\n# seed %" PRIu64 "\n", seed);
	test_bucket();
	test_reservation();
	test_paced();
	test_tree();
	test_order();
	return failed ? 1 : 0;
}
