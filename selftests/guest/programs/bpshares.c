// SPDX-License-Identifier: GPL-2.0-only
/* bpshares: what greedy classes of one parent must get
 *
 * usage: bpshares RATE {FLOOR CEIL WEIGHT PRIO}...
 *
 * A class for each four numbers, all rates in the same unit; CEIL 0 is none. Prints the share of each,
 * a line each, by the law of classes (waterfill.h).
 */
#include <stdio.h>
#include <stdlib.h>

#include "waterfill.h"

int main(int argc, char **argv)
{
	struct tenant tenants[TENANTS_MAX] = { 0 };
	int count = (argc - 2) / 4, i;

	if (argc < 6 || (argc - 2) % 4 || count > TENANTS_MAX) {
		fprintf(stderr, "usage: bpshares RATE {FLOOR CEIL WEIGHT PRIO}...\n");
		return 1;
	}
	for (i = 0; i < count; i++) {
		struct tenant *t = &tenants[i];

		t->parent = -1;
		t->floor = atof(argv[4 * i + 2]);
		t->ceil = atof(argv[4 * i + 3]) ?: UNBOUNDED;
		t->weight = atof(argv[4 * i + 4]);
		t->prio = atoi(argv[4 * i + 5]);
		t->demand = UNBOUNDED;
	}
	waterfill(tenants, count, atof(argv[1]));
	for (i = 0; i < count; i++)
		printf("%g\n", tenants[i].share);
	return 0;
}
