// SPDX-License-Identifier: GPL-2.0-only
/* The hub with real threads, each of which may be stopped before any step that
 * others see. No more leaves in any window than the rate and the ceils allow,
 * by the time of each decision, and nobody sleeps for ever: there is no backstop
 * here.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static void race_pause(void);
#define unit_pause race_pause

#include "unit.h"
#include "../../bpshaper/tree.h"

struct bpshaper_hub;
struct bpshaper_member;

static u64 bpshaper_hub_now(void);
static void bpshaper_hub_arm(struct bpshaper_hub *hub, u64 at);
static void bpshaper_member_wake(struct bpshaper_member *m);

#include "../../bpshaper/hub.h"

#define RACERS		8
#define LEN		1514U
#define SPEED		20ULL		/* of the clock: 2 ms are 0.1 ms */
#define RATE_BPS	(50000000ULL / SPEED)
#define BURST		60000U
#define SLOTS		3		/* of a racer */
#define LEAST		20U		/* packets, on a busy machine */
#define SENT_MAX	50000U		/* of a racer */
#define SPAN_NS		(32 * NSEC_PER_MSEC * SPEED)
#define REST_NS		(2 * NSEC_PER_MSEC * SPEED)	/* of a span: buckets fill */
#define ENDS_S		20
#define FOR_EVER_NS	(NSEC_PER_SEC * SPEED)	/* the machine may be busy */

/* Below the root, and below each class. A slow ceil shows a time that is wrong,
 * and with the fast one grants are as large as its burst.
 */
static const struct {
	u64	Bps;
	u32	burst;
} ceils[SLOTS] = {
	{ RATE_BPS, BURST }, { RATE_BPS / 16, 4 * LEN },
	{ RATE_BPS / 2, 4 * LEN }
};

struct sent {
	u64	at_ns;
	int	slot;
};

/* A member with a slot below the root and one below each class. */
struct racer {
	struct bpshaper_member member;
	struct bpshaper_slot slots[SLOTS];
	u32		backlog[SLOTS];	/* packets */
	u64		v[SLOTS];
	bool		is_awake;
	bool		is_sending;	/* without the lock of the hub */
	u64		random;
	pthread_t	thread;
	struct sent	sent[SENT_MAX];
	u32		count;
};

static struct bpshaper_hub hub;
static bool sleeps_for_ever;
static struct bpshaper_rate rate;
static struct bpshaper_node classes[SLOTS];	/* without the first */
static struct racer racers[RACERS];
static struct sent sent[RACERS * SENT_MAX];
static u32 count;
static u64 lonely_ns, end_ns;
static __thread struct racer *racing;	/* this thread's */
static pthread_t timer;

static u64 timer_ns = U64_MAX;

static u64 clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec * NSEC_PER_SEC + now.tv_nsec) * SPEED;
}

static u64 bpshaper_hub_now(void)
{
	return clock_ns();
}

static void bpshaper_hub_arm(struct bpshaper_hub *h, u64 at)
{
	(void)h;
	__atomic_store_n(&timer_ns, at, __ATOMIC_SEQ_CST);
}

static void bpshaper_member_wake(struct bpshaper_member *m)
{
	struct racer *r = container_of(m, struct racer, member);

	__atomic_store_n(&r->is_awake, true, __ATOMIC_SEQ_CST);
}

/* xorshift64* (Vigna 2016): rnd() is not for several threads. */
static u64 racer_rnd_below(struct racer *r, u64 n)
{
	r->random ^= r->random >> 12;
	r->random ^= r->random << 25;
	r->random ^= r->random >> 27;
	return (r->random * 0x2545f4914f6cdd1dULL >> 32) % n;
}

/* Stop one time in @one_in, for up to @most_us. */
static void racer_stop(struct racer *r, u32 one_in, u32 most_us)
{
	if (!racer_rnd_below(r, one_in))
		usleep(racer_rnd_below(r, most_us));
}

/* The rate is set to what it is, in every second span of time: all bytes are
 * taken back. From @lonely_ns on it is not, and each has one slot: who is lost
 * stays so.
 */
static void race_set(void)
{
	u64 now = clock_ns();

	if (now / SPAN_NS % 2 && now < lonely_ns)
		bpshaper_hub_set(&hub, &rate, BURST, LEN);
}

static void race_pause(void)
{
	struct racer *r = racing;

	if (!r)
		return;
	if (r->is_sending && !racer_rnd_below(r, 40)) {
		r->is_sending = false;
		race_set();
	}
	racer_stop(r, r->is_sending ? 10 : 20,
		   racer_rnd_below(r, 8) ? 200 : 2000);
}

/* One flow. It has come if it has few packets. */
static void racer_set_backlog(struct racer *r, int i, u32 packets)
{
	struct bpshaper_slot *s = &r->slots[i];
	u64 least = bpshaper_slot_vtime(s) - 2 * LEN;

	if (!r->backlog[i] && bpshaper_tag_before(r->v[i], least))
		r->v[i] = least;
	if (bpshaper_tag_before(r->v[i], s->least))
		r->v[i] = s->least;
	r->backlog[i] = packets;
	WRITE_ONCE(s->has_come, packets < 3);
	bpshaper_slot_set(s, packets * LEN, packets * LEN, LEN, r->v[i],
			  r->v[i]);
}

/* Packets come to a slot that has none, or all go. */
static void racer_change_backlog(struct racer *r, int i)
{
	u32 most = racer_rnd_below(r, 2) ? 4 : 200;

	if (clock_ns() > lonely_ns && i != (r - racers) % SLOTS)
		racer_set_backlog(r, i, 0);
	else if (!r->backlog[i] && !racer_rnd_below(r, 4))
		racer_set_backlog(r, i, 1 + racer_rnd_below(r, most));
	else if (!racer_rnd_below(r, 256))
		racer_set_backlog(r, i, 0);
}

/* Send a packet, if the slot has one and its bytes. */
static bool racer_send(struct racer *r, int i, u64 now)
{
	bool may_send;

	if (!r->backlog[i])
		return false;
	r->is_sending = true;
	may_send = bpshaper_slot_take(&r->slots[i], LEN, &now);
	r->is_sending = false;
	if (!may_send)
		return false;
	r->sent[r->count++] = (struct sent){ now, i };
	r->v[i] += LEN;
	racer_set_backlog(r, i, r->backlog[i] - 1);
	return true;
}

/* Until it is woken, or looks by itself: not if it has only slots that lack bytes,
 * or nobody would see that it is not woken.
 */
static void racer_sleep(struct racer *r)
{
	u64 from = clock_ns(), now;

	do {
		usleep(20);
		now = clock_ns();
	} while (!__atomic_load_n(&r->is_awake, __ATOMIC_SEQ_CST) &&
		 now < end_ns && now < from + FOR_EVER_NS);
	if (now >= from + FOR_EVER_NS)
		sleeps_for_ever = true;
	racer_stop(r, 4, 500);
}

static void racer_step(struct racer *r, u64 now)
{
	struct bpshaper_slot *s;
	int steps = SLOTS, i;

	for (i = 0; i < SLOTS; i++)
		racer_change_backlog(r, i);
	racer_stop(r, 6, 200);
	__atomic_store_n(&r->is_awake, false, __ATOMIC_SEQ_CST);
	s = bpshaper_member_next(&r->member, &steps);
	if (s)
		racer_send(r, s - r->slots, now);
	else if (!r->member.slots)
		usleep(100);
	else if (steps && !bpshaper_member_ask(&r->member, now))
		racer_sleep(r);
}

static void *timer_run(void *arg)
{
	u64 now, at;

	(void)arg;
	while ((now = clock_ns()) < end_ns) {
		at = __atomic_load_n(&timer_ns, __ATOMIC_SEQ_CST);
		if (at > now)
			usleep(10);
		else if (__atomic_compare_exchange_n(&timer_ns, &at, U64_MAX,
						     false, __ATOMIC_SEQ_CST,
						     __ATOMIC_SEQ_CST))
			bpshaper_hub_timer(&hub);
	}
	return NULL;
}

static void *racer_run(void *arg)
{
	struct racer *r = arg;
	u64 now;

	racing = r;
	while ((now = clock_ns()) < end_ns && r->count + 2 * SLOTS < SENT_MAX) {
		if (now % SPAN_NS < REST_NS)
			usleep(100);
		else
			racer_step(r, now);
	}
	return NULL;
}

static void race_init_classes(void)
{
	struct bpshaper_rate ceil;
	int i;

	for (i = 1; i < SLOTS; i++) {
		bpshaper_node_init(&classes[i], &hub.tree.root);
		bpshaper_rate_set(&ceil, ceils[i].Bps);
		bpshaper_node_set_ceil(&hub.tree, &classes[i], &ceil,
				       ceils[i].burst);
	}
}

static void race_init(void)
{
	struct racer *r;
	int i;

	bpshaper_hub_init(&hub);
	bpshaper_rate_set(&rate, RATE_BPS);
	bpshaper_hub_set(&hub, &rate, BURST, LEN);
	race_init_classes();
	for (r = racers; r < racers + RACERS; r++) {
		r->random = rnd() | 1;
		bpshaper_member_init(&r->member, &hub);
		for (i = 0; i < SLOTS; i++)
			bpshaper_slot_join(&r->slots[i], &r->member,
					   i ? &classes[i] : &hub.tree.root);
	}
}

static int sent_compare(const void *a, const void *b)
{
	const struct sent *x = a, *y = b;

	return x->at_ns < y->at_ns ? -1 : x->at_ns > y->at_ns;
}

/* A thread that does not end is a list that has no end. */
static bool race_ends(void)
{
	struct timespec most;
	struct racer *r;

	clock_gettime(CLOCK_REALTIME, &most);
	most.tv_sec += ENDS_S;
	for (r = racers; r < racers + RACERS; r++)
		if (pthread_timedjoin_np(r->thread, NULL, &most))
			return false;
	return !pthread_timedjoin_np(timer, NULL, &most);
}

static void race_start(u64 ns)
{
	struct racer *r;

	race_init();
	end_ns = clock_ns() + ns * SPEED;
	lonely_ns = end_ns - ns * SPEED / 3 * 2;
	for (r = racers; r < racers + RACERS; r++)
		if (pthread_create(&r->thread, NULL, racer_run, r))
			abort();
	if (pthread_create(&timer, NULL, timer_run, NULL))
		abort();
}

static void race_gather(void)
{
	struct racer *r;

	for (r = racers; r < racers + RACERS; r++) {
		memcpy(sent + count, r->sent, r->count * sizeof(*sent));
		count += r->count;
	}
	qsort(sent, count, sizeof(*sent), sent_compare);
	printf("# %" PRIu32 " packets, %" PRIu64 " grants, %" PRIu64
	       " taken back\n", count, hub.stat_grants, hub.stat_revokes);
}

/* bytes <= rate * T + burst in every window: what leaves fills a bucket that
 * the rate empties, in units of a byte / 10^9. All slots are below the first.
 */
static bool race_obeys(int slot)
{
	u128 level = 0, most = 0;
	u64 before_ns = 0;
	u32 i;

	for (i = 0; i < count; i++) {
		if (slot && sent[i].slot != slot)
			continue;
		level -= min(level, (u128)ceils[slot].Bps *
				    (sent[i].at_ns - before_ns));
		level += (u128)LEN * NSEC_PER_SEC;
		before_ns = sent[i].at_ns;
		most = max(most, level);
	}
	printf("# at most %" PRIu64 " of %" PRIu32 " bytes\n",
	       (u64)((most + NSEC_PER_SEC - 1) / NSEC_PER_SEC),
	       ceils[slot].burst);
	return most <= (u128)ceils[slot].burst * NSEC_PER_SEC;
}

/* The hub knows of all bytes that slots have, and of all slots. */
static bool race_knows_all(void)
{
	u32 out[SLOTS] = { 0 }, linked = 0, entered = 0, i;
	struct bpshaper_slot *s;

	for (i = 0; i < SLOTS * RACERS; i++) {
		s = &racers[i / SLOTS].slots[i % SLOTS];
		out[0] += s->unsettled;
		if (i % SLOTS)
			out[i % SLOTS] += s->unsettled;
		linked += !list_empty(&s->out_node);
		entered += s->in_order;
		if (bpshaper_slot_bytes(s) > s->unsettled)
			return false;
	}
	list_for_each_entry(s, &hub.out, out_node)
		linked--;
	for (i = 1; i < SLOTS; i++)
		if (out[i] != classes[i].bucket.out)
			return false;
	return out[0] == hub.tree.root.bucket.out && !linked &&
	       entered == hub.in_order;
}

void test_race(u64 ns)
{
	bool has_ended;

	race_start(ns);
	has_ended = race_ends();
	report("threads_end", has_ended);
	report("threads_wake_up", !sleeps_for_ever);
	if (!has_ended)		/* they may go on */
		return;
	race_gather();
	report("threads_obey_the_rate", race_obeys(0));
	report("threads_obey_a_ceil", race_obeys(1));
	report("threads_obey_a_small_burst", race_obeys(2));
	report("threads_send", count >= LEAST && hub.stat_revokes);
	report("threads_leave_nothing_unknown", race_knows_all());
}
