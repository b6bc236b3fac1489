// SPDX-License-Identifier: GPL-2.0-only
/* bptree: a random tree of classes, and what each must get
 *
 * usage: bptree SEED RATE_MBIT tc DEV | senders | check
 *
 * The seed decides about the tree: up to 14 classes on three levels below 1:, with floors, ceils,
 * weights from 1 to 100 and prios, demands and sizes of packets.
 *	tc	the lines for tc -batch that make the classes on DEV
 *	senders	the arguments of bppeers, one sender for each leaf
 *	check	reads the report of bppeers, prints a line for each leaf, and exits with 1 if one
 *		has got something else than the law says: 2 % and four packets are allowed
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "waterfill.h"

#define CLASSES		14
#define HEADERS		42	/* of UDP, IPv4 and Ethernet */
#define SECONDS		3

static struct tenant tenants[CLASSES];
static unsigned int sizes[CLASSES];
static int count;
static uint64_t state;

static uint32_t rnd(uint32_t below)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (state >> 33) % below;
}

static double rnd_real(double from, double to)
{
	return from + (to - from) * rnd(1 << 20) / (1 << 20);
}

static void add(int parent, double *floor_left, double link)
{
	struct tenant *t = &tenants[count];

	if (count == CLASSES)
		return;
	*t = (struct tenant){
		.parent = parent, .weight = 1 + rnd(rnd(2) ? 100 : 5),
		.prio = rnd(4) ? 0 : 1, .ceil = UNBOUNDED, .demand = UNBOUNDED,
	};
	t->floor = rnd(2) ? (uint64_t)rnd_real(0.05 * *floor_left, 0.7 * *floor_left) : 0;
	t->overcommit = t->floor && !rnd(2);
	if (t->overcommit)
		t->floor *= 4;
	else
		*floor_left -= t->floor;
	if (!rnd(3)) {
		t->ceil = (uint64_t)rnd_real(0.05 * link, link);
		if (t->ceil < t->floor)
			t->ceil = t->floor;
	}
	sizes[count] = 300 + rnd(1171);
	if (!rnd(3)) {
		/* A whole number of microseconds between two packets */
		double us = (sizes[count] + HEADERS) * 8e6 / rnd_real(0.02 * link, 0.6 * link);

		t->demand = (sizes[count] + HEADERS) * 8e6 / (unsigned int)us;
	}
	if (parent >= 0)
		tenants[parent].children++;
	count++;
}

static void tree_make(double link)
{
	double left = link;
	int top = 2 + rnd(4);

	while (top--)
		add(-1, &left, link);
	for (int i = 0; i < count; i++) {
		int children = rnd(3) || (tenants[i].parent >= 0 &&
					  tenants[tenants[i].parent].parent >= 0) ?
			       0 : 1 + rnd(4);

		left = tenants[i].floor;
		while (children--)
			add(i, &left, link);
	}
	waterfill(tenants, count, link);
}

static void tc_print(const char *dev)
{
	for (int i = 0; i < count; i++) {
		const struct tenant *t = &tenants[i];

		printf("class add dev %s parent 1:", dev);
		if (t->parent >= 0)
			printf("%x", 0x10 + t->parent);
		printf(" classid 1:%x bpshaper floor %.0fbit overcommit %s weight %.0f prio %d",
		       0x10 + i, t->floor, t->overcommit ? "on" : "off", t->weight, t->prio);
		if (t->ceil < UNBOUNDED)
			printf(" ceil %.0fbit", t->ceil);
		printf("\n");
	}
}

static void senders_print(void)
{
	for (int i = 0; i < count; i++) {
		const struct tenant *t = &tenants[i];

		if (t->children)
			continue;
		printf("c%x:udp,class=1-%x,size=%u", 0x10 + i, 0x10 + i, sizes[i]);
		if (t->demand < UNBOUNDED)
			printf(",every=%.0f", (sizes[i] + HEADERS) * 8e6 / t->demand);
		else
			printf(",sockets=2");
		printf(" ");
	}
	printf("\n");
}

static bool leaf_check(int i, const char *report)
{
	const struct tenant *t = &tenants[i];
	double got, off, slack;
	const char *at;
	char key[32];

	snprintf(key, sizeof(key), "\"c%x_mbit\": ", 0x10 + i);
	at = strstr(report, key);
	got = at ? atof(at + strlen(key)) * 1e6 : -1;
	off = got > t->share ? got - t->share : t->share - got;
	slack = 0.02 * t->share + 4 * (sizes[i] + HEADERS) * 8 / SECONDS;
	printf("# 1:%x: %.3f Mbit/s, the law says %.3f (floor %.3f%s ceil %.3f weight %.0f prio %d demand %.3f parent 1:%x)%s\n",
	       0x10 + i, got / 1e6, t->share / 1e6, t->floor / 1e6,
	       t->overcommit ? " overcommit" : "",
	       t->ceil < UNBOUNDED ? t->ceil / 1e6 : 0, t->weight, t->prio,
	       t->demand < UNBOUNDED ? t->demand / 1e6 : 0,
	       t->parent < 0 ? 0 : 0x10 + t->parent, off > slack ? ": WRONG" : "");
	return off <= slack;
}

static bool check(void)
{
	static char report[1 << 16];
	bool good = true;

	report[fread(report, 1, sizeof(report) - 1, stdin)] = 0;
	for (int i = 0; i < count; i++)
		if (!tenants[i].children)
			good &= leaf_check(i, report);
	return good;
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: bptree SEED RATE_MBIT tc DEV | senders | check\n");
		return 2;
	}
	state = strtoul(argv[1], NULL, 10) * 0x9e3779b97f4a7c15ULL + 1;
	tree_make(atof(argv[2]) * 1e6);
	if (!strcmp(argv[3], "tc") && argc > 4)
		tc_print(argv[4]);
	else if (!strcmp(argv[3], "senders"))
		senders_print();
	else
		return !check();
	return 0;
}
