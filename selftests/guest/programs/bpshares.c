// SPDX-License-Identifier: GPL-2.0-only
/* bpshares: what classes must get
 *
 * usage: bpshares RATE <CLASSES
 *
 * CLASSES has a line for each, a parent before its children: the number of the line of its parent,
 * from 0 on, or -1; prio, weight, floor, 1 if the floor overcommits, ceil, demand. All rates are in
 * one unit, and 0 is no ceil, and as much as it gets. Prints the share of each, a line each, by the law
 * of classes (waterfill.h).
 */
#include <stdio.h>
#include <stdlib.h>

#include "waterfill.h"

int main(int argc, char **argv)
{
	static struct tenant t[TENANTS_MAX + 1];
	int count = 0;

	while (count < TENANTS_MAX &&
	       scanf("%d %d %lf %lf %d %lf %lf", &t[count].parent, &t[count].prio, &t[count].weight,
		     &t[count].floor, &t[count].overcommit, &t[count].ceil,
		     &t[count].demand) == 7) {
		t[count].ceil = t[count].ceil ?: UNBOUNDED;
		t[count].demand = t[count].demand ?: UNBOUNDED;
		if (t[count].parent >= 0)
			t[t[count].parent].children++;
		count++;
	}
	if (argc != 2 || !feof(stdin)) {
		fprintf(stderr, "usage: bpshares RATE <CLASSES\n");
		return 1;
	}
	waterfill(t, count, atof(argv[1]));
	for (int i = 0; i < count; i++)
		printf("%g\n", t[i].share);
	return 0;
}
