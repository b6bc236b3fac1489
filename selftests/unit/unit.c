// SPDX-License-Identifier: GPL-2.0-only
#include "unit.h"

u64 seed = 1;
int refused;

int sweep(int most)
{
	return getenv("UNIT_ALL") ? most : (most + 9) / 10;
}

/* splitmix64 (Steele, Lea, Flood 2014) */
u64 rnd(void)
{
	u64 z = (seed += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

u64 rnd_below(u64 n)
{
	return rnd() % n;
}

u64 rnd_log(unsigned int bits)
{
	return 1 + rnd() % (1ULL << (1 + rnd_below(bits)));
}

u64 rnd_rate(void)
{
	u64 Bps = rnd_log(43);

	return min(Bps, TC_BPSHAPER_RATE_MAX);
}

void run_init(struct run *r)
{
	r->Bps = rnd_rate();
	r->burst = rnd_log(24);
	bpshaper_rate_set(&r->rate, r->Bps);
	bpshaper_bucket_set(&r->bucket, &r->rate, r->burst, 0);
	bpshaper_bucket_fill(&r->bucket);
}

/* Packets arrive at random, wait for their tokens, and leave late at random. */
void run_packets(struct run *r, u32 max_len)
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
bool run_obeys_law(const struct run *r, u32 burst)
{
	for (int i = 0; i < PACKETS; i++) {
		u64 bytes = 0;

		for (int j = i; j < PACKETS; j++) {
			u64 ns = r->time[j] - r->time[i];
			u128 allowed = (u128)r->Bps * ns +
				       (u128)burst * NSEC_PER_SEC;

			bytes += r->len[j];
			if ((u128)bytes * NSEC_PER_SEC <= allowed)
				continue;
			printf("# rate %" PRIu64 " burst %" PRIu32 ": %" PRIu64
			       " bytes in %" PRIu64 " ns, packets %d to %d\n",
			       r->Bps, burst, bytes, ns, i, j);
			return false;
		}
	}
	return true;
}
