/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by the unit tests: random cases, and packets through a bucket. */
#ifndef _UNIT_H
#define _UNIT_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernel.h"
#include "../../sch_bpshaper.h"
#include "../../bpshaper/rate.h"

typedef unsigned __int128 u128;

#define CASES	2000
#define PACKETS	150

extern u64 seed;

u64 rnd(void);
u64 rnd_below(u64 n);
/* 1 to 2^bits, of all magnitudes alike */
u64 rnd_log(unsigned int bits);
u64 rnd_rate(void);

struct run {
	u64	Bps;
	u32	burst;
	struct bpshaper_rate rate;
	struct bpshaper_bucket bucket;
	u64	time[PACKETS];
	u32	len[PACKETS];
};

/* Packets that run_packets() had refused although they were ready. */
extern int refused;

void run_init(struct run *r);
void run_packets(struct run *r, u32 max_len);
bool run_obeys_law(const struct run *r, u32 burst);

void report(const char *name, bool good);

/* Of @most random cases those that are tried: all if UNIT_ALL is set. */
int sweep(int most);

#define TEST(name) report(#name, name())

void test_bucket(void);
void test_tree(void);
void test_order(void);
void test_slots(void);
void test_hub(void);
void test_promises(void);
void test_race(u64 ns);

#endif /* _UNIT_H */
