// SPDX-License-Identifier: GPL-2.0-only
/* Slots of a hub, a step at a time: what the holder and a member decide that a
 * simulation (hub.c) shows only in part, and what each does if the other is
 * between two of its steps. A byte takes a ns.
 */
static void slots_pause(void);
#define unit_pause slots_pause

#include "unit.h"
#include "../../bpshaper/tree.h"

struct bpshaper_hub;
struct bpshaper_member;

static u64 bpshaper_hub_now(void);
static void bpshaper_hub_arm(struct bpshaper_hub *hub, u64 at);
static void bpshaper_member_wake(struct bpshaper_member *m);

#include "../../bpshaper/hub.h"

#define BYTE_NS	NSEC_PER_SEC
#define BURST	100000U
#define MTU	1000U
#define MANY	200

static struct bpshaper_hub hub;
static struct bpshaper_member members[2];
static struct bpshaper_slot slots[2], many[MANY];
static struct bpshaper_member *noted[BPSHAPER_HUB_STEPS];
static u64 now_ns, armed_ns;
static int woken;
static bool woken_below_the_lock;

/* What happens at the next step that others see, or @later, or at all of them */
static void (*meanwhile)(void);
static int later;
static bool happens_again;

static void slots_pause(void)
{
	void (*what)(void) = meanwhile;

	if (!what || later-- > 0)
		return;
	meanwhile = NULL;
	what();
	if (happens_again)
		meanwhile = what;
}

static u64 bpshaper_hub_now(void)
{
	return now_ns;
}

static void bpshaper_hub_arm(struct bpshaper_hub *h, u64 at)
{
	(void)h;
	armed_ns = at;
}

static void bpshaper_member_wake(struct bpshaper_member *m)
{
	(void)m;
	woken++;
	woken_below_the_lock |= hub.lock.is_held;
}

/* Two members with a slot each, and a full bucket. */
static void slots_begin(void)
{
	struct bpshaper_rate rate;

	meanwhile = NULL;
	later = 0;
	happens_again = false;
	now_ns = NSEC_PER_SEC;
	bpshaper_rate_set(&rate, BYTE_NS);
	bpshaper_hub_init(&hub);
	bpshaper_hub_set(&hub, &rate, BURST, MTU);
	bpshaper_bucket_fill(&hub.tree.root.bucket);
	for (int i = 0; i < 2; i++) {
		bpshaper_member_init(&members[i], &hub);
		bpshaper_slot_join(&slots[i], &members[i], &hub.tree.root);
	}
	armed_ns = woken = 0;
	woken_below_the_lock = false;
	hub.stat_locks = 0;
}

/* One flow with packets of @head bytes, and many of them */
static void slot_want(struct bpshaper_slot *s, u32 want, u32 head, u64 key)
{
	bpshaper_slot_set(s, want, want, head, key, key);
}

static struct bpshaper_slot *slot_enter(int i, u32 head)
{
	slot_want(&slots[i], 8 * BURST, head, 0);
	bpshaper_slot_enter(&slots[i]);
	return &slots[i];
}

/* As the holder does */
static void slot_grant(struct bpshaper_slot *s, u32 bytes)
{
	hub.noted = noted;
	hub.noted_len = 0;
	bpshaper_slot_grant(s, bytes, true);
}

static void slot_look(struct bpshaper_slot *s)
{
	hub.noted = noted;
	hub.noted_len = 0;
	hub.tree.now_ns = now_ns;
	bpshaper_slot_look(s, &hub.out);
}

static struct bpshaper_slot *member_next(struct bpshaper_member *m)
{
	int steps = MANY;

	return bpshaper_member_next(m, &steps);
}

/* Taking */

static bool a_last_packet_that_is_small_leaves(void)
{
	struct bpshaper_slot *s;

	slots_begin();
	s = slot_enter(0, MTU);
	slot_want(s, 92, MTU, 0);
	slot_grant(s, 92);
	return !bpshaper_slot_lacks(s);
}

/* The word is as it was, but for its number. */
static void regrant(void)
{
	bpshaper_slot_revoke(&slots[0]);
	hub.tree.now_ns += NSEC_PER_MSEC;
	slot_grant(&slots[0], MTU);
}

static bool who_looked_before_a_revocation_looks_again(void)
{
	struct bpshaper_slot *s;
	u64 now;

	slots_begin();
	s = slot_enter(0, MTU);
	slot_grant(s, MTU);
	now = hub.tree.now_ns;
	meanwhile = regrant;
	return bpshaper_slot_take(s, MTU, &now) && !meanwhile &&
	       now == hub.tree.now_ns && now == (u64)atomic64_read(&s->used_ns);
}

static void settle(void)
{
	slot_look(&slots[0]);
}

/* It leaves later than the holder has read the clock, who settles at any time
 * while it is taken.
 */
static bool what_is_taken_counts_from_when_it_leaves(void)
{
	bool good = true;
	u64 now;

	for (int i = 0; i < 4; i++) {
		slots_begin();
		slot_grant(slot_enter(0, MTU), 2 * MTU);
		now = now_ns + MTU;
		meanwhile = settle;
		later = i;
		good &= bpshaper_slot_take(&slots[0], MTU, &now);
		settle();
		good &= hub.tree.root.bucket.tat_ns == now + MTU;
	}
	return good;
}

/* Telling: a member has three slots that lack bytes. */
static void members_wait(void)
{
	slots_begin();
	for (int i = 0; i < 3; i++) {
		bpshaper_slot_join(&many[i], &members[0], &hub.tree.root);
		slot_want(&many[i], BURST, MTU, i * MTU);
	}
	hub.tree.root.bucket.out = BURST;
	member_next(&members[0]);
	bpshaper_member_ask(&members[0], now_ns);
	hub.tree.root.bucket.out = 0;
}

/* It looks only at those that have got bytes, in that order, and at a flow that
 * has come before all others.
 */
static bool a_member_is_told_of_what_it_gets(void)
{
	struct bpshaper_member *m = &members[0];
	bool good;

	members_wait();
	good = m->asleep && list_empty(&m->ready) && m->slots == 3;
	slot_grant(&many[1], MTU);
	slot_grant(&many[0], MTU);
	good &= !m->asleep && member_next(m) == &many[1];
	WRITE_ONCE(many[2].has_come, true);
	slot_grant(&many[2], MTU);
	return good && member_next(m) == &many[2];
}

static void grant_first(void)
{
	slot_grant(&many[0], MTU);
}

static bool who_goes_to_sleep_looks_again(void)
{
	bool good = true;

	for (int i = 0; i < 2; i++) {	/* before, and after it is asleep */
		members_wait();
		atomic64_set(&hub.tokens_ns, U64_MAX);
		if (i)
			WRITE_ONCE(members[0].asleep, 1);
		meanwhile = grant_first;
		good &= bpshaper_member_ask(&members[0], now_ns) &&
			!members[0].asleep;
	}
	return good;
}

/* The member does not know of its bytes while it looks at what it was told. */
static bool who_is_told_meanwhile_is_told_again(void)
{
	bool good = true;

	for (int i = 0; i < 8; i++) {
		members_wait();
		slot_grant(&many[0], MTU / 2);
		meanwhile = grant_first;
		later = i;
		good &= member_next(&members[0]) == &many[0] || meanwhile ||
			!llist_empty(&members[0].told);
	}
	return good;
}

/* And it sends what it has. */
static void want_more(void)
{
	struct bpshaper_slot *s;
	u64 now = now_ns;

	slot_want(&slots[0], 8 * BURST, MTU, 0);
	while ((s = member_next(&members[0]))) {
		bpshaper_slot_take(s, MTU, &now);
		slot_want(s, 8 * BURST, MTU, 0);
	}
}

/* It has enough, or is to get that, and wants more at any time of the hold. */
static bool who_wants_more_meanwhile_hears(void)
{
	struct bpshaper_slot *s;
	bool good = true;

	for (int i = 0; i < 32; i++) {
		slots_begin();
		s = slot_enter(0, MTU);
		slot_want(s, i & 1 ? MTU : 0, MTU, 0);
		meanwhile = want_more;
		later = i / 2;
		bpshaper_hub_ring(&hub);
		later = 0;
		slots_pause();	/* if it has not happened */
		member_next(&members[0]);
		bpshaper_hub_ring(&hub);
		good &= bpshaper_slot_bytes(s) && member_next(&members[0]) == s;
	}
	return good;
}

static void post_again(void)
{
	slot_want(&slots[0], BURST, MTU, 7 * MTU);
	bpshaper_slot_post(&slots[0]);
}

/* It has another key at any time while the holder takes it from the list. */
static bool who_posts_meanwhile_is_heard(void)
{
	struct bpshaper_slot *s = &slots[0];
	bool good = true;

	for (int i = 0; i < 8; i++) {
		slots_begin();
		slot_want(s, BURST, MTU, 0);
		bpshaper_slot_post(s);
		meanwhile = post_again;
		later = i;
		bpshaper_hub_hear(&hub, 2);
		later = 0;
		slots_pause();	/* if it has not happened */
		bpshaper_hub_hear(&hub, 2);
		/* In the order it is looked at when it has sent. */
		good &= !s->is_posted && s->in_order &&
			(i > 1 || s->e.turn.at == 7 * MTU);
	}
	return good;
}

/* A flow has come, and is behind. */
static void come(void)
{
	slot_want(&slots[0], BURST, MTU, -(u64)MTU);
	member_next(&members[0]);
}

/* It comes at any time while the holder takes the slot, which was early, from
 * the list.
 */
static bool who_comes_meanwhile_passes(void)
{
	struct bpshaper_slot *s;
	bool good = true;

	for (int i = 0; i < 8; i++) {
		slots_begin();
		s = slot_enter(0, MTU);
		WRITE_ONCE(s->has_come, true);
		WRITE_ONCE(s->is_early, true);
		list_add_tail(&s->early_node, &hub.early);
		hub.lock.is_held = true;
		hub.noted = noted;
		meanwhile = come;
		later = i;
		bpshaper_hub_serve_early(&hub);
		bpshaper_hub_hear(&hub, 2);
		bpshaper_hub_serve_early(&hub);
		good &= meanwhile || bpshaper_slot_bytes(s);
	}
	return good;
}

/* Serving */

static void miss(void)
{
	now_ns += BPSHAPER_TIMER_LATE_NS;
	hub.missed = 1;
}

/* Who finds the lock taken lets the holder go on, for as long as timers are late. */
static bool who_finds_the_lock_taken_is_served(void)
{
	bool good;

	slots_begin();
	slot_want(&slots[0], BURST, MTU, 0);
	hub.lock.is_held = true;
	member_next(&members[0]);
	good = !bpshaper_member_ask(&members[0], now_ns) && hub.missed &&
	       hub.stat_locks == 0;
	hub.lock.is_held = false;
	bpshaper_hub_ring(&hub);
	good &= !hub.missed && bpshaper_slot_bytes(&slots[0]) &&
		hub.stat_locks == 1 && woken == 1 && !woken_below_the_lock;
	meanwhile = miss;
	happens_again = true;
	armed_ns = 0;
	bpshaper_hub_ring(&hub);
	return good && hub.stat_locks == 3 && armed_ns == hub.tree.now_ns;
}

static void unlock(void)
{
	hub.lock.is_held = false;
}

/* The holder has looked whether anybody missed it, and unlocks. */
static bool who_is_missed_by_the_holder_serves(void)
{
	bool good = true;

	for (int i = 0; i < 2; i++) {	/* before, and after it says so */
		slots_begin();
		hub.lock.is_held = true;
		meanwhile = unlock;
		later = i;
		bpshaper_hub_ring(&hub);
		good &= hub.stat_locks == 1;
	}
	return good;
}

/* There are tokens by then. */
static void miss_later(void)
{
	now_ns += 2 * BURST;
	hub.missed = 1;
}

static bool each_round_reads_the_clock(void)
{
	bool good = true;

	for (int i = 0; i < 16; i++) {
		slots_begin();
		slot_enter(0, MTU);
		hub.tree.root.bucket.tat_ns = now_ns + 2 * BURST;
		meanwhile = miss_later;
		later = i;
		bpshaper_hub_ring(&hub);
		good &= meanwhile || bpshaper_slot_bytes(&slots[0]);
	}
	return good;
}

/* It fires while a holder is at work, who armed it before. */
static bool the_timer_is_armed_again(void)
{
	bool good;

	slots_begin();
	slot_enter(0, MTU);
	hub.tree.root.bucket.out = BURST;
	hub.tree.root.bucket.tat_ns = now_ns + BURST;
	bpshaper_hub_ring(&hub);
	good = armed_ns > now_ns &&
	       (u64)atomic64_read(&hub.timer_ns) == armed_ns;
	hub.lock.is_held = true;
	bpshaper_hub_timer(&hub);
	hub.lock.is_held = false;
	good &= hub.missed;
	armed_ns = 0;
	bpshaper_hub_ring(&hub);
	return good && armed_ns > now_ns;
}

/* The bucket is full, and all of it is granted: to arm the timer for now would
 * have it fire until somebody takes that.
 */
static bool the_timer_waits_for_who_was_granted_all(void)
{
	slots_begin();
	slot_enter(0, MTU);
	hub.tree.root.bucket.out = BURST;
	bpshaper_hub_ring(&hub);
	return armed_ns > now_ns;
}

/* Its member does not take what it was granted, and then asks. */
static bool who_is_late_is_not_served_until_it_asks(void)
{
	struct bpshaper_slot *s;
	bool good;

	slots_begin();
	s = slot_enter(0, MTU);
	slot_grant(s, MTU);
	member_next(&members[0]);
	now_ns += BPSHAPER_PATIENCE_NS;
	slot_look(s);
	good = bpshaper_slot_bytes(s) && s->in_order;
	now_ns++;
	slot_look(s);
	good &= !bpshaper_slot_bytes(s) && !s->in_order && s->is_told;
	bpshaper_hub_ring(&hub);
	good &= !bpshaper_slot_bytes(s) && !member_next(&members[0]);
	return good && bpshaper_member_ask(&members[0], now_ns) &&
	       member_next(&members[0]) == s;
}

static void look(void)
{
	if (!member_next(&members[0]))
		bpshaper_member_ask(&members[0], now_ns);
}

/* It looks at any time while the holder takes its bytes back. */
static bool who_is_late_may_look_meanwhile(void)
{
	struct bpshaper_slot *s;
	bool good = true;

	for (int i = 0; i < 16; i++) {
		slots_begin();
		s = slot_enter(0, MTU);
		slot_grant(s, MTU);
		now_ns += BPSHAPER_PATIENCE_NS + 1;
		hub.lock.is_held = true;
		meanwhile = look;
		later = i;
		slot_look(s);
		meanwhile = NULL;
		hub.lock.is_held = false;
		if (!members[0].asleep)
			look();
		bpshaper_hub_ring(&hub);
		good &= !!bpshaper_slot_bytes(s);
	}
	return good;
}

/* Less than a packet lies there, or what nobody wants if there is little. */
static bool who_cannot_send_keeps_no_bytes(void)
{
	struct bpshaper_slot *s;
	bool good;

	slots_begin();
	s = slot_enter(0, MTU);
	slot_grant(s, MTU - 1);
	slot_look(s);
	good = !bpshaper_slot_bytes(s) && s->in_order;
	slot_grant(s, MTU);
	slot_want(s, 0, 0, 0);
	slot_look(s);
	good &= bpshaper_slot_bytes(s) == MTU;
	hub.tree.root.bucket.out = BURST - MTU + 1;
	hub.lacked = MTU;
	slot_look(s);
	return good && !bpshaper_slot_bytes(s);
}

static int entered(void)
{
	int count = 0;

	for (int i = 0; i < MANY; i++)
		count += many[i].in_order;
	return count;
}

/* They are @level levels below the root. */
static void many_want(int level)
{
	static struct bpshaper_node classes[BPSHAPER_DEPTH_MAX];
	struct bpshaper_node *n = &hub.tree.root;

	slots_begin();
	while (--level) {
		bpshaper_node_init(&classes[level - 1], n);
		n = &classes[level - 1];
	}
	for (int i = 0; i < MANY; i++) {
		bpshaper_slot_join(&many[i], &members[0], n);
		slot_want(&many[i], BURST, MTU, 0);
	}
}

/* So many slots are posted, are early, or have bytes that nobody takes. */
static bool stages_are_bounded(int level, u64 most)
{
	u64 back = 0, seen = 0;
	bool good;

	many_want(level);
	member_next(&members[0]);	/* posts all */
	bpshaper_hub_ring(&hub);
	good = (u64)entered() == most && armed_ns == now_ns;
	for (int i = 0; i < MANY; i++)
		slot_grant(&many[i], MTU);
	hub.tree.now_ns += BPSHAPER_PATIENCE_NS + 1;
	bpshaper_hub_settle(&hub);
	for (int i = 0; i < MANY; i++)
		back += !bpshaper_slot_bytes(&many[i]);
	good &= back == most;

	many_want(level);
	for (int i = 0; i < MANY; i++) {
		WRITE_ONCE(many[i].has_come, true);
		slot_want(&many[i], BURST, MTU, -(u64)MTU);
		bpshaper_slot_enter(&many[i]);
		list_add_tail(&many[i].early_node, &hub.early);
	}
	bpshaper_hub_serve_early(&hub);
	for (int i = 0; i < MANY; i++)	/* what may not pass stays */
		seen += many[i].is_early || list_empty(&many[i].early_node);
	return good && seen == most;
}

/* Each waits for a ceil of its own, and all refill at a time. */
static bool ceils_are_bounded(void)
{
	static struct bpshaper_node classes[MANY];
	u64 waits = 0, offer = 0;
	struct bpshaper_rate ceil;
	bool good;

	slots_begin();
	bpshaper_rate_set(&ceil, BYTE_NS);
	for (int i = 0; i < MANY; i++) {
		bpshaper_node_init(&classes[i], &hub.tree.root);
		bpshaper_node_set_ceil(&hub.tree, &classes[i], &ceil, 4 * MTU);
		bpshaper_slot_join(&many[i], &members[0], &classes[i]);
		slot_want(&many[i], BURST, MTU, 0);
		bpshaper_slot_enter(&many[i]);
	}
	bpshaper_hub_ring(&hub);
	for (int i = 0; i < MANY; i++)
		waits += classes[i].stat_waits;
	good = waits == 32 && armed_ns == now_ns;
	for (int i = 0; i < MANY / 32; i++)
		bpshaper_hub_ring(&hub);
	hub.tree.now_ns += NSEC_PER_SEC;
	bpshaper_tree_wake(&hub.tree, BPSHAPER_HUB_STEPS);
	for (int i = 0; i < MANY; i++)
		offer += classes[i].e.is_offering;
	return good && offer == 32;
}

/* Below a class a slot counts as two, and below eight levels as nine. */
static bool a_hold_is_bounded(void)
{
	return stages_are_bounded(1, 64) && stages_are_bounded(2, 32) &&
	       stages_are_bounded(9, 8) && ceils_are_bounded();
}

/* All in one hold: bytes are taken back, and none are left to grant. */
static bool a_change_takes_all_back(void)
{
	struct bpshaper_rate rate;
	struct bpshaper_slot *s;

	slots_begin();
	s = slot_enter(0, MTU);
	slot_grant(s, MTU);
	bpshaper_rate_set(&rate, BYTE_NS / 2);
	bpshaper_hub_set(&hub, &rate, BURST, MTU);
	return !bpshaper_slot_bytes(s) && !hub.tree.root.bucket.out &&
	       list_empty(&hub.out) && s->in_order && armed_ns > now_ns;
}

/* It is posted, early, told, and has bytes. */
static bool nobody_refers_to_a_slot_that_left(void)
{
	struct bpshaper_slot *s = &slots[0];

	slots_begin();
	slot_enter(1, MTU);
	WRITE_ONCE(s->has_come, true);
	slot_want(s, BURST, MTU, 0);
	hub.tree.root.bucket.out = BURST;
	member_next(&members[0]);
	hub.tree.root.bucket.out = 0;
	slot_grant(s, MTU);
	s->is_posted = true;
	llist_add(&s->news_node, &hub.news);
	bpshaper_slot_leave(s);
	return !s->is_posted && !s->is_told && !s->in_order &&
	       list_empty(&s->early_node) && list_empty(&s->out_node) &&
	       list_empty(&s->ready_node) && llist_empty(&members[0].told) &&
	       llist_empty(&hub.news) && !members[0].slots &&
	       !bpshaper_slot_bytes(s) && hub.in_order == 1 &&
	       hub.tree.root.bucket.out == slots[1].unsettled;
}

/* The order */

/* A sparse flow is first, and the others of its slot are far ahead: they are not
 * served because of it, and its packet is.
 */
static bool a_flow_that_comes_brings_no_others_along(void)
{
	struct bpshaper_slot *s = &slots[0];
	u32 granted;

	slots_begin();
	slot_enter(1, MTU);
	bpshaper_slot_set(s, BURST, 100, 100, 0, 80 * MTU);
	bpshaper_slot_enter(s);
	granted = bpshaper_slot_part(s, 100, 100, BURST, BURST);
	slot_grant(s, 100);
	return granted >= 100 && granted < 2 * MTU + 100 &&
	       s->e.turn.at == 80 * MTU && hub.tree.root.vtime[0].counter == 0 &&
	       bpshaper_tree_next(&hub.tree) == &slots[1].e;
}

/* The first flow of the slot, which is next, has gone: V is not as far as the
 * others of it, or who comes elsewhere would wait for them.
 */
static bool v_does_not_jump(void)
{
	struct bpshaper_slot *s;

	slots_begin();
	s = slot_enter(0, MTU);
	slot_enter(1, MTU);
	slot_want(s, BURST, MTU, 50 * MTU);
	slot_grant(s, MTU);
	return bpshaper_slot_vtime(s) == 0;
}

/* So many packets have passed the order of a class, and one more may. */
static bool passes(struct bpshaper_slot *s, struct bpshaper_node *class,
		   u32 most)
{
	bool good;

	class->ahead = (most - 1) * MTU;
	good = bpshaper_slot_may_pass(s, MTU);
	class->ahead = most * MTU;
	return good && !bpshaper_slot_may_pass(s, MTU);
}

/* While it stays in the order */
static bool who_has_more_flows_expects_more(void)
{
	struct bpshaper_slot *s;
	bool good = true;

	slots_begin();
	slot_enter(1, MTU);
	s = slot_enter(0, MTU);
	for (u32 flows = 16; flows; flows /= 4) {
		s->flows = flows;
		slot_grant(s, MTU);
		good &= s->e.weight == flows && hub.tree.root.weights[0] == flows + 1;
	}
	s->flows = 2;
	slot_look(s);
	return good && s->e.weight == 2 && hub.tree.root.weights[0] == 3;
}

/* However far its flows are ahead: the order knows no bound of it. */
static bool who_comes_stands_where_its_flows_do(void)
{
	static const u64 keys[] = { MTU, BIT(20), BIT(24), BIT_ULL(34) };
	bool good = true;

	for (unsigned int i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		slots_begin();
		slot_want(&slots[0], 2 * MTU, MTU, keys[i]);
		bpshaper_slot_enter(&slots[0]);
		good &= slots[0].e.turn.at == keys[i];
	}
	return good;
}

/* In the order, as the holder has not seen that it was empty */
static bool who_runs_empty_stays_where_it_was(void)
{
	struct bpshaper_slot *s;

	slots_begin();
	s = slot_enter(1, MTU);
	slot_want(s, BURST, MTU, 10 * MTU);
	slot_look(s);
	s = slot_enter(0, MTU);
	slot_want(s, BURST, MTU, 50 * MTU);
	slot_grant(s, MTU);
	bpshaper_slot_set(s, 0, 0, 0, 0, 0);
	slot_look(s);
	slot_want(s, BURST, MTU, 51 * MTU);
	return s->in_order && bpshaper_tree_next(&hub.tree) == &slots[1].e;
}

static bool who_passes_takes_nothing_from_others(void)
{
	static struct bpshaper_node class, other;
	struct bpshaper_slot *s = &slots[0];
	bool good;

	slots_begin();
	bpshaper_node_init(&class, &hub.tree.root);
	bpshaper_node_init(&other, &hub.tree.root);
	for (int i = 0; i < 2; i++) {
		bpshaper_slot_join(&slots[i], &members[i],
				   i ? &other : &class);
		slot_enter(i, MTU);
	}
	good = passes(s, &class, 2);
	slot_want(s, MTU, MTU, 0);
	good &= passes(s, &class, 4);
	class.ahead = 0;
	bpshaper_node_change(&hub.tree, &other);
	bpshaper_node_set_floor(&hub.tree, &other, BYTE_NS / 2, 0);
	bpshaper_node_offer(&hub.tree, &other);
	good &= bpshaper_slot_may_pass(s, MTU);
	hub.tree.now_ns += BPSHAPER_PATIENCE_NS + 2 * MTU;
	good &= !bpshaper_slot_may_pass(s, MTU);	/* the floor is late */
	bpshaper_node_change(&hub.tree, &other);
	bpshaper_node_set_floor(&hub.tree, &other, 0, 0);
	bpshaper_node_offer(&hub.tree, &other);
	bpshaper_node_change(&hub.tree, &class);
	bpshaper_node_set_order(&class, 1, 1);
	bpshaper_node_offer(&hub.tree, &class);
	return good && !bpshaper_slot_may_pass(s, MTU);	/* the prio is larger */
}

/* Large packets */

/* A packet is larger than the burst of @n, and an idle slot of another member
 * has some bytes.
 */
static bool large_gets_all(struct bpshaper_node *n, u32 head)
{
	struct bpshaper_slot *s = &slots[0];

	for (int i = 0; i < 2; i++)
		bpshaper_slot_join(&slots[i], &members[i], n);
	slot_enter(1, MTU);
	slot_grant(&slots[1], MTU);
	slot_want(&slots[1], 0, 0, 0);
	slot_want(s, BURST, head, 0);
	bpshaper_slot_enter(s);
	for (int i = 0; i < 2; i++, now_ns = armed_ns)
		bpshaper_hub_ring(&hub);
	return bpshaper_slot_bytes(s) >= head;
}

static bool a_packet_above_the_burst_gets_all(void)
{
	static struct bpshaper_node class;
	bool good;

	slots_begin();
	good = large_gets_all(&hub.tree.root, BURST);
	slots_begin();
	bpshaper_node_init(&class, &hub.tree.root);
	bpshaper_node_set_ceil(&hub.tree, &class, &hub.tree.root.ceil,
			       BURST / 10);
	bpshaper_bucket_fill(&class.bucket);
	return good & large_gets_all(&class, BURST / 5);
}

/* It lacks a byte. In another slot of the member are some that are not enough for
 * a packet.
 */
static bool a_large_packet_gets_rests(void)
{
	struct bpshaper_slot *s;

	slots_begin();
	s = slot_enter(0, BURST / 2);
	bpshaper_slot_join(&slots[1], &members[0], &hub.tree.root);
	slot_enter(1, MTU);
	slot_grant(&slots[1], MTU / 2);
	hub.tree.root.bucket.out = BURST - s->head + 1;
	bpshaper_hub_ring(&hub);
	return bpshaper_slot_bytes(s) >= s->head;
}

/* The time of the burst is less than a ns. */
static bool any_burst_will_do(void)
{
	struct bpshaper_rate rate;

	slots_begin();
	bpshaper_rate_set(&rate, 12500000000ULL);
	for (u32 burst = 1; burst < 5000; burst++) {
		bpshaper_hub_set(&hub, &rate, burst, MTU);
		slot_enter(0, MTU);
		now_ns += NSEC_PER_MSEC;
		bpshaper_hub_ring(&hub);
		if (bpshaper_slot_bytes(&slots[0]) < MTU)
			return false;
	}
	return true;
}

/* Past slots */

static bool slot_passes(struct bpshaper_slot *s)
{
	return bpshaper_slot_pass(s, MTU, &now_ns);
}

static s64 root_room(void)
{
	return bpshaper_node_room(&hub.tree, &hub.tree.root);
}

static bool who_is_alone_passes_and_pays(void)
{
	slots_begin();
	return slot_passes(&slots[0]) && root_room() == BURST - MTU &&
	       !bpshaper_slot_bytes(&slots[0]) && !hub.stat_locks;
}

static bool nobody_passes_others_in_the_order(void)
{
	slots_begin();
	slot_enter(1, MTU);
	return !slot_passes(&slots[0]) && root_room() == BURST;
}

static bool nobody_passes_others_that_have_posted(void)
{
	slots_begin();
	slot_want(&slots[1], MTU, MTU, 0);
	WRITE_ONCE(slots[1].has_come, false);
	bpshaper_slot_post(&slots[1]);
	return !slot_passes(&slots[0]) && root_room() == BURST;
}

static bool bytes_of_others_are_no_room(void)
{
	slots_begin();
	slot_enter(1, MTU);
	slot_want(&slots[1], BURST - MTU / 2, MTU, 0);
	slot_grant(&slots[1], BURST - MTU / 2);
	return !hub.in_order && !slot_passes(&slots[0]);
}

static bool a_ceil_above_is_kept(void)
{
	struct bpshaper_rate rate;
	struct bpshaper_node n;

	slots_begin();
	bpshaper_rate_set(&rate, BYTE_NS / 10);
	bpshaper_node_init(&n, &hub.tree.root);
	bpshaper_node_set_ceil(&hub.tree, &n, &rate, 2 * MTU);
	bpshaper_bucket_fill(&n.bucket);
	bpshaper_slot_join(&slots[0], &members[0], &n);
	return slot_passes(&slots[0]) && slot_passes(&slots[0]) &&
	       !slot_passes(&slots[0]) && root_room() == BURST - 2 * MTU;
}

void test_slots(void)
{
	TEST(a_last_packet_that_is_small_leaves);
	TEST(who_looked_before_a_revocation_looks_again);
	TEST(what_is_taken_counts_from_when_it_leaves);
	TEST(a_member_is_told_of_what_it_gets);
	TEST(who_goes_to_sleep_looks_again);
	TEST(who_is_told_meanwhile_is_told_again);
	TEST(who_wants_more_meanwhile_hears);
	TEST(who_posts_meanwhile_is_heard);
	TEST(who_comes_meanwhile_passes);
	TEST(who_finds_the_lock_taken_is_served);
	TEST(who_is_missed_by_the_holder_serves);
	TEST(each_round_reads_the_clock);
	TEST(the_timer_is_armed_again);
	TEST(the_timer_waits_for_who_was_granted_all);
	TEST(who_is_late_is_not_served_until_it_asks);
	TEST(who_is_late_may_look_meanwhile);
	TEST(who_cannot_send_keeps_no_bytes);
	TEST(a_hold_is_bounded);
	TEST(a_change_takes_all_back);
	TEST(nobody_refers_to_a_slot_that_left);
	TEST(a_flow_that_comes_brings_no_others_along);
	TEST(v_does_not_jump);
	TEST(who_has_more_flows_expects_more);
	TEST(who_comes_stands_where_its_flows_do);
	TEST(who_runs_empty_stays_where_it_was);
	TEST(who_passes_takes_nothing_from_others);
	TEST(a_packet_above_the_burst_gets_all);
	TEST(a_large_packet_gets_rests);
	TEST(any_burst_will_do);
	TEST(who_is_alone_passes_and_pays);
	TEST(nobody_passes_others_in_the_order);
	TEST(nobody_passes_others_that_have_posted);
	TEST(bytes_of_others_are_no_room);
	TEST(a_ceil_above_is_kept);
}
