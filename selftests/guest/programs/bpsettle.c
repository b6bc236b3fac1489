// SPDX-License-Identifier: GPL-2.0-only
/* bpsettle: when do classes get what the law says, after one has come or gone?
 *
 * usage: bpsettle LINK_MBIT WINDOW_MS FROM_MS UNTIL_MS CLASS... <ARRIVALS
 *
 * CLASS is NAME:FLOOR_MBIT:WEIGHT, of each that is greedy from FROM_MS to UNTIL_MS. ARRIVALS is
 * what bppeers writes. A window is good if each class gets in it what the law says (waterfill.h), to
 * 10 % and a packet. They begin every TICK_NS. Prints one JSON object:
 *	settle_ms	from FROM_MS to the beginning of the first window after which all are good;
 *			null if the last of them is not
 *	others_ms	from FROM_MS to the last packet of a class that is not named, or 0
 *	off_percent	what the class that is worst gets too little or too much, of the law, over
 *			the last half of the time
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "waterfill.h"

#define NS_PER_MS	1000000LL
#define TICK_NS		(NS_PER_MS / 4)
#define TOLERANCE	0.1
#define PACKET		1512

static struct tenant tenants[TENANTS_MAX];
static char names[TENANTS_MAX][24];
static int count, ticks;
static double others_ms;
static double *bytes[TENANTS_MAX];	/* of each tick */

static void usage(void)
{
	fprintf(stderr, "usage: bpsettle LINK_MBIT WINDOW_MS FROM_MS UNTIL_MS CLASS...\n");
	exit(2);
}

static void tenant_parse(char *arg)
{
	struct tenant *t = &tenants[count];

	*t = (struct tenant){ .parent = -1, .ceil = UNBOUNDED, .demand = UNBOUNDED };
	if (count == TENANTS_MAX ||
	    sscanf(arg, "%23[^:]:%lf:%lf", names[count], &t->floor, &t->weight) != 3)
		usage();
	bytes[count] = calloc(ticks, sizeof(*bytes[count]));
	if (!bytes[count++])
		exit(2);
}

static void arrivals_read(long long from_ns)
{
	long long at_ns;
	char name[24];
	double len;

	while (scanf("%23s %lld %lf", name, &at_ns, &len) == 3) {
		long long tick = (at_ns - from_ns) / TICK_NS;
		int i = 0;

		if (at_ns < from_ns || tick >= ticks)
			continue;
		while (i < count && strcmp(names[i], name))
			i++;
		if (i < count)
			bytes[i][tick] += len;
		else
			others_ms = (double)(at_ns - from_ns) / NS_PER_MS;
	}
}

static double sum(int tenant, int from, int until)
{
	double all = 0;

	while (from < until)
		all += bytes[tenant][from++];
	return all;
}

/* Bytes that the law gives to a class in so many ticks */
static double due(int tenant, int n)
{
	return tenants[tenant].share * 1e6 / 8 * n * TICK_NS / 1e9;
}

static bool window_is_good(int from, int window)
{
	for (int i = 0; i < count; i++) {
		double off = sum(i, from, from + window) - due(i, window);

		if ((off < 0 ? -off : off) > TOLERANCE * due(i, window) + PACKET)
			return false;
	}
	return true;
}

static double off_percent(void)
{
	double worst = 0, off;

	for (int i = 0; i < count; i++) {
		off = sum(i, ticks / 2, ticks) / due(i, ticks - ticks / 2) - 1;
		off = off < 0 ? -off : off;
		worst = off > worst ? off : worst;
	}
	return 100 * worst;
}

int main(int argc, char **argv)
{
	long long from_ns, until_ns;
	int window, first;

	if (argc < 6)
		usage();
	window = atof(argv[2]) * NS_PER_MS / TICK_NS;
	from_ns = atof(argv[3]) * NS_PER_MS;
	until_ns = atof(argv[4]) * NS_PER_MS;
	ticks = (until_ns - from_ns) / TICK_NS;
	if (window < 1 || ticks <= window)
		usage();
	for (int i = 5; i < argc; i++)
		tenant_parse(argv[i]);
	waterfill(tenants, count, atof(argv[1]));
	arrivals_read(from_ns);
	for (first = ticks - window; first >= 0 && window_is_good(first, window); first--)
		;
	first++;
	if (first > ticks - window)
		printf("{ \"settle_ms\": null");
	else
		printf("{ \"settle_ms\": %.2f", (double)first * TICK_NS / NS_PER_MS);
	printf(", \"others_ms\": %.2f, \"off_percent\": %.2f }\n", others_ms, off_percent());
	return 0;
}
