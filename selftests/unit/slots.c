// SPDX-License-Identifier: GPL-2.0-only
/* Slots of a hub, a step at a time: what the holder decides that a simulation
 * (hub.c) shows only in part. A byte takes a ns.
 */
static void slots_pause(void);
#define unit_pause slots_pause

#include "unit.h"
#include "../../bpshaper/tree.h"
#include "../../bpshaper/slot.h"
#include "../../bpshaper/hub.h"
#include "../../bpshaper/member.h"

#define BYTE_NS	NSEC_PER_SEC
#define BURST	100000
#define MTU	1000U
#define MOST_NS	(4 * NSEC_PER_MSEC)	/* nobody sleeps for longer */

static struct bpshaper_hub hub;
static struct bpshaper_member members[2];
static struct bpshaper_slot slots[2];

static bool regrants;	/* at the next step that others see */

/* What a slot has is taken back, and granted later. */
static void slots_pause(void)
{
	if (!regrants)
		return;
	regrants = false;
	bpshaper_slot_revoke(&hub, &slots[0]);
	hub.now_ns += NSEC_PER_MSEC;
	bpshaper_slot_grant(&hub, &slots[0], MTU, 1, false);
}

/* Two members with a slot each, and a full bucket. */
static void slots_begin(u64 Bps)
{
	struct bpshaper_rate rate;

	bpshaper_rate_set(&rate, Bps);
	bpshaper_hub_init(&hub);
	bpshaper_hub_set(&hub, &rate, BURST, MTU, NSEC_PER_SEC);
	bpshaper_hub_fill(&hub);
	for (int i = 0; i < 2; i++) {
		memset(&members[i], 0, sizeof(members[i]));
		bpshaper_member_init(&members[i], &hub);
		bpshaper_slot_join(&slots[i], &members[i], &hub.tree.root);
	}
}

/* The slot has packets of @head bytes. */
static struct bpshaper_slot *slot_enter(int i, u32 head, u32 flows)
{
	struct bpshaper_slot *s = &slots[i];

	bpshaper_slot_set_want(s, BURST, head, flows);
	bpshaper_slot_enter_tree(&hub, s);
	s->fresh = 0;
	return s;
}

/* The virtual time, bytes. */
static u64 vtime(void)
{
	return hub.tree.root.vtime[0] / BPSHAPER_WEIGHT_ONE;
}

/* The member takes the next packet for as large as the last. */
static bool a_last_packet_that_is_small_leaves(void)
{
	struct bpshaper_slot *s;

	slots_begin(BYTE_NS);
	s = slot_enter(0, MTU, 1);
	bpshaper_slot_set_want(s, 92, MTU, 1);
	bpshaper_slot_grant(&hub, s, 92, 1, false);
	return !bpshaper_slot_lacks(s);
}

/* The word is as it was, but for its number. */
static bool who_looked_before_a_revocation_looks_again(void)
{
	struct bpshaper_slot *s;
	u64 now;

	slots_begin(BYTE_NS);
	s = slot_enter(0, MTU, 1);
	bpshaper_slot_grant(&hub, s, MTU, 1, false);
	now = hub.now_ns;
	regrants = true;
	return bpshaper_slot_take(s, MTU, &now) && !regrants &&
	       now == hub.now_ns && now == (u64)atomic64_read(&s->used_ns);
}

/* While one of two is away the virtual time takes half of what the other gets,
 * or a quarter, if that has three flows.
 */
static bool the_part_of_a_slot_that_is_away_is_kept(void)
{
	struct bpshaper_slot *s;
	bool good;

	slots_begin(BYTE_NS);
	s = slot_enter(0, MTU, 3);
	slot_enter(1, MTU, 1);
	bpshaper_slot_leave_tree(&hub, s, BPSHAPER_SLOT_AWAY);
	good = hub.tree.root.away_weight[0] == 3;
	for (int i = 0; i < 9; i++)
		bpshaper_slot_grant(&hub, &slots[1], MTU, 1, false);
	good &= vtime() == 8 * MTU / 4;
	/* It has fewer flows when it comes back, and its turn is first. */
	s = slot_enter(0, MTU, 1);
	return good && !hub.tree.root.away_weight[0] &&
	       hub.tree.root.prio_weight[0] == 2 &&
	       bpshaper_tree_next(&hub.tree, hub.now_ns) == &s->node;
}

static bool who_has_sent_all_keeps_no_part(void)
{
	struct bpshaper_slot *s;

	slots_begin(BYTE_NS);
	s = slot_enter(0, MTU, 1);
	bpshaper_slot_leave_tree(&hub, s, BPSHAPER_SLOT_AWAY);
	bpshaper_slot_set_want(s, 0, 0, 0);
	bpshaper_hub_look_away(&hub);
	return s->state == BPSHAPER_SLOT_IDLE && !s->node.busy &&
	       !hub.tree.root.away_weight[0];
}

/* There is room for half of its packet, and for packets of the other. */
static bool a_rest_waits_for_who_is_next(void)
{
	struct bpshaper_slot *s;
	const u32 head = 10 * MTU;

	slots_begin(BYTE_NS);
	s = slot_enter(0, head, 1);
	slot_enter(1, MTU, 1);
	atomic64_set(&s->word, head);
	s->unsettled = head;
	hub.tree.root.bucket.out = hub.window - head / 2;
	bpshaper_hub_serve_order(&hub, &members[1]);
	return s->state == BPSHAPER_SLOT_INTREE &&
	       bpshaper_slot_bytes(s) == head &&
	       !bpshaper_slot_bytes(&slots[1]) &&
	       (u64)atomic64_read(&hub.tokens_ns) == hub.now_ns + head / 2;
}

/* Both are far from the virtual time. One is the first all the same. */
static bool who_is_next_sleeps_for_less(void)
{
	u64 at[2];

	slots_begin(BYTE_NS);
	for (int i = 0; i < 2; i++) {
		slot_enter(i, MTU, 1);
		bpshaper_node_unlink_turn(&slots[i].node);
		slots[i].node.start += (50 + i) * MTU * BPSHAPER_WEIGHT_ONE;
		bpshaper_node_link_turn(&slots[i].node);
	}
	for (int i = 0; i < 2; i++)
		at[i] = bpshaper_slot_expect_ns(&hub, &slots[i]);
	return at[0] == hub.now_ns + hub.far_ns / 2 &&
	       at[1] == hub.now_ns + hub.far_ns;
}

/* Bytes take a second each. */
static bool nobody_sleeps_for_more_than_4_ms(void)
{
	struct bpshaper_slot *s;
	bool good;

	slots_begin(1);
	s = slot_enter(0, MTU, 1);
	bpshaper_slot_grant(&hub, s, MTU, MTU * NSEC_PER_SEC, false);
	good = (u64)atomic64_read(&s->next_ns) == hub.now_ns + MOST_NS;
	s->retries = 12;
	good &= bpshaper_slot_retry_ns(s) == MOST_NS;
	good &= bpshaper_slot_rest_ns(&hub, s) == MOST_NS;
	hub.slots = 1000;
	return good && bpshaper_slot_expect_ns(&hub, s) ==
		       hub.now_ns + MOST_NS;
}

/* A slot gets all beside one of a larger prio, which may get what that leaves.
 */
static bool a_smaller_prio_expects_all(void)
{
	slots_begin(BYTE_NS);
	slots[1].node.prio = 1;
	slot_enter(0, MTU, 1);
	slot_enter(1, MTU, 1);
	return bpshaper_hub_expected_Bps(&hub, &slots[0].node) == BYTE_NS &&
	       bpshaper_hub_expected_Bps(&hub, &slots[1].node) == BYTE_NS / 2;
}

/* A slot of a larger prio asks while the other sleeps, and after that. */
static bool a_larger_prio_leaves_half_of_the_window(void)
{
	const u64 kept_ns = NSEC_PER_USEC + NSEC_PER_MSEC / 10;
	bool good;

	slots_begin(BYTE_NS);
	slots[1].node.prio = 1;
	slot_enter(0, MTU, 1);
	slot_enter(1, MTU, 1);
	atomic64_set(&members[0].wake_ns, hub.now_ns + hub.far_ns + 1);
	atomic64_set(&slots[0].next_ns, hub.now_ns + NSEC_PER_USEC);
	hub.tree.root.bucket.out = hub.window / 2;
	bpshaper_hub_serve_order(&hub, &members[1]);
	hub.now_ns += kept_ns - 1;
	bpshaper_hub_serve_order(&hub, &members[1]);
	good = slots[0].state == BPSHAPER_SLOT_AWAY &&
	       !bpshaper_slot_bytes(&slots[1]);
	hub.now_ns++;
	bpshaper_hub_serve_order(&hub, &members[1]);
	return good && bpshaper_slot_bytes(&slots[1]);
}

static bool who_sleeps_for_long_keeps_no_bytes(void)
{
	struct bpshaper_slot *s;
	bool good;

	slots_begin(BYTE_NS);
	s = slot_enter(0, MTU, 1);
	bpshaper_slot_grant(&hub, s, MTU, 1, false);
	atomic64_set(&members[0].wake_ns, hub.now_ns + hub.far_ns);
	bpshaper_slot_look(&hub, s, false);
	good = bpshaper_slot_bytes(s) == MTU;
	atomic64_set(&members[0].wake_ns, hub.now_ns + hub.far_ns + 1);
	bpshaper_slot_look(&hub, s, false);
	return good && !bpshaper_slot_bytes(s);
}

/* It is granted bytes for longer than others may sleep. */
static bool who_sleeps_as_granted_is_served(void)
{
	bool good;

	slots_begin(BYTE_NS);
	slot_enter(0, MTU, 1)->period_ns = 2 * hub.far_ns;
	slot_enter(1, MTU, 1);
	atomic64_set(&members[0].wake_ns, hub.now_ns + 2 * hub.far_ns);
	bpshaper_hub_serve_order(&hub, &members[1]);
	slots[0].period_ns = 3 * hub.far_ns;
	bpshaper_slot_look(&hub, &slots[0], false);
	good = bpshaper_slot_bytes(&slots[0]);
	atomic64_set(&members[0].wake_ns, hub.now_ns + 2 * hub.far_ns + 1);
	bpshaper_slot_look(&hub, &slots[0], false);
	return good && !bpshaper_slot_bytes(&slots[0]);
}

/* Tokens are kept for a smaller prio, but not as of a rate that was smaller. */
static bool what_is_kept_ends(void)
{
	struct bpshaper_node *root = &hub.tree.root;
	struct bpshaper_slot *s;
	bool good;

	slots_begin(BYTE_NS);
	slots[0].node.prio = 1;
	s = slot_enter(0, MTU, 1);
	root->bucket.out = hub.window / 2 + 1;	/* the rest is kept */
	root->kept_prio = 0;
	root->kept_ns = hub.now_ns + hub.window_ns;
	bpshaper_hub_serve_order(&hub, &members[0]);
	good = !bpshaper_slot_bytes(s);
	root->kept_ns = hub.now_ns + NSEC_PER_SEC;
	bpshaper_hub_serve_order(&hub, &members[0]);
	return good && bpshaper_slot_bytes(s);
}

/* Tags of a slot that is away for long, and of those beside it, can be told. */
static bool tags_do_not_wrap(void)
{
	struct bpshaper_slot *s;
	struct bpshaper_rate rate;
	bool good = true;

	slots_begin(BYTE_NS);
	bpshaper_rate_set(&rate, BIT_ULL(40));
	bpshaper_hub_set(&hub, &rate, BIT(30), MTU, hub.now_ns);
	bpshaper_slot_leave_tree(&hub, slot_enter(1, MTU, 1),
				 BPSHAPER_SLOT_AWAY);
	s = slot_enter(0, MTU, 1);
	for (int i = 0; i < 1000; i++) {
		bpshaper_node_pay(&hub.tree, &s->node, 10 * MTU * MTU);
		good &= !bpshaper_node_is_behind(&s->node);
	}
	return good;
}

/* Below a ceil of a 100th of the rate a slot is not far ahead of one that is
 * away.
 */
static bool who_is_away_catches_up_soon(void)
{
	struct bpshaper_node class;
	struct bpshaper_slot *s;

	slots_begin(BYTE_NS);
	bpshaper_node_init(&class, &hub.tree.root);
	bpshaper_rate_set(&class.ceil, BYTE_NS / 100);
	for (int i = 0; i < 2; i++)
		bpshaper_slot_join(&slots[i], &members[i], &class);
	bpshaper_slot_leave_tree(&hub, slot_enter(1, MTU, 1),
				 BPSHAPER_SLOT_AWAY);
	s = slot_enter(0, MTU, 1);
	for (int i = 0; i < 200; i++)
		bpshaper_node_pay(&hub.tree, &s->node, MTU);
	return s->node.start - class.vtime[0] <=
	       10 * MTU * BPSHAPER_WEIGHT_ONE;
}

/* Both are fresh. The tokens do not suffice for the packet of who is next, and
 * would for a small one.
 */
static bool small_ones_leave_tokens_to_who_is_next(void)
{
	struct bpshaper_slot *first, *small;
	s64 room;
	bool good;

	slots_begin(BYTE_NS);
	first = slot_enter(0, MTU, 1);
	small = slot_enter(1, 92, 1);
	bpshaper_slot_set_want(small, 92, 92, 1);
	bpshaper_node_pay(&hub.tree, &small->node, 92);
	first->fresh = small->fresh = 2 * MTU;
	room = bpshaper_hub_room(&hub);
	hub.tree.root.bucket.out = room - MTU / 2;
	bpshaper_hub_serve_fresh(&hub, &members[1]);
	good = !bpshaper_slot_bytes(first) && !bpshaper_slot_bytes(small);
	hub.tree.root.bucket.out = room - 2 * MTU;
	bpshaper_hub_serve_fresh(&hub, &members[1]);
	return good && bpshaper_slot_bytes(first) && bpshaper_slot_bytes(small);
}

/* A slot is fresh for the packet of a new flow, and for no other: not for one
 * that follows, when it has got bytes in its turn, nor because it has been
 * fresh before.
 */
static bool a_new_flow_brings_no_other_along(void)
{
	struct bpshaper_slot *s;
	bool good;
	u64 now;

	slots_begin(BYTE_NS);
	s = slot_enter(0, 100, 1);
	now = hub.now_ns;
	bpshaper_slot_set_new(s);
	bpshaper_slot_grant(&hub, s, 100, 1, false);
	good = bpshaper_slot_take(s, 100, &now) && bpshaper_slot_lacks(s);
	bpshaper_slot_come(&hub, s);
	good &= !s->fresh;

	s->fresh = 2 * MTU;
	s->joined_ns = hub.now_ns;
	hub.now_ns += BPSHAPER_HUB_FRESH_NS + 1;
	bpshaper_slot_set_new(s);
	bpshaper_slot_come(&hub, s);
	return good && s->fresh == 100;
}

/* The slot is not in time for a grant, and its member sleeps again. */
static void slot_is_late(struct bpshaper_slot *s)
{
	bpshaper_slot_enter_tree(&hub, s);
	bpshaper_slot_grant(&hub, s, MTU, 1, false);
	hub.now_ns += NSEC_PER_MSEC;
	bpshaper_slot_look(&hub, s, false);
	atomic64_set(&s->member->wake_ns, hub.now_ns + 1);
}

/* Timers are late now and then on any machine. */
static bool who_is_late_now_and_then_is_served_asleep(void)
{
	struct bpshaper_slot *s;
	bool good = true;

	slots_begin(BYTE_NS);
	s = slot_enter(0, MTU, 1);
	for (int i = 0; i < 8; i++) {
		slot_is_late(s);
		good &= !bpshaper_slot_sleeps(&hub, s, MOST_NS);
		bpshaper_slot_enter_tree(&hub, s);
		for (int j = 0; j < i % 2 * 8; j++)
			bpshaper_slot_grant(&hub, s, MTU, 1, false);
		bpshaper_slot_revoke(&hub, s);
	}
	for (int i = 0; i < 3; i++)
		slot_is_late(s);
	return good && bpshaper_slot_sleeps(&hub, s, MOST_NS);
}

/* A slot comes back in a member that has another, and does not wait for it. */
static bool who_comes_back_asks_at_once(void)
{
	struct bpshaper_slot *s = &slots[1];

	slots_begin(BYTE_NS);
	bpshaper_slot_join(s, &members[0], &hub.tree.root);
	bpshaper_slot_set_want(&slots[0], BURST, MTU, 1);
	bpshaper_slot_set_want(s, BURST, MTU, 1);
	bpshaper_slot_ask(s, hub.now_ns);
	return !bpshaper_slot_lacks(s) &&
	       members[0].slots.next == &s->backlog_node;
}

enum { MANY = 2 * BPSHAPER_HUB_LOOKS };
static struct bpshaper_slot many[MANY];

/* A member has more slots than it looks at, none of which is soon to get bytes.
 * Return when it asks again, or 0 if it still looks at one.
 */
static u64 many_wait(struct bpshaper_member *m)
{
	struct bpshaper_slot *s;
	u64 at;

	slots_begin(BYTE_NS);
	hub.tree.root.bucket.out = BURST;
	for (s = many; s < many + MANY; s++) {
		bpshaper_slot_join(s, m, &hub.tree.root);
		bpshaper_slot_set_want(s, BURST, MTU, 1);
		s->retries = U8_MAX;
	}
	bpshaper_member_ask(m, hub.now_ns);
	if (!list_empty(&m->waiting))	/* they have just come */
		return 0;
	atomic64_set(&hub.tokens_ns, 0);
	at = bpshaper_member_ask(m, hub.now_ns + 2 * BPSHAPER_HUB_FRESH_NS);
	return list_empty(&m->slots) && m->slots_len == MANY ? at : 0;
}

/* It finds the slot that is granted bytes, or leaves. */
static bool a_member_of_many_is_told(void)
{
	struct bpshaper_member *m = &members[0];
	u64 at = many_wait(m), next;
	int steps = MANY;
	bool good = at;

	atomic64_set(&hub.tokens_ns, 0);
	next = bpshaper_member_ask(m, at);	/* for all */
	good &= next > at && next <= at + BPSHAPER_HUB_MOST_NS;
	if (!good)
		return false;
	bpshaper_slot_grant(&hub, &many[3], MTU, 1, false);
	good &= bpshaper_member_next(m, &steps) == &many[3];
	bpshaper_slot_grant(&hub, &many[6], MTU, 1, false);
	good &= bpshaper_member_next(m, &steps) == &many[3];
	good &= m->slots.prev == &many[6].backlog_node;	/* in its turn */
	bpshaper_slot_leave_tree(&hub, &many[5], BPSHAPER_SLOT_AWAY);
	bpshaper_slot_leave(&many[5]);
	good &= llist_empty(&m->told);
	bpshaper_slot_leave_tree(&hub, &many[4], BPSHAPER_SLOT_AWAY);
	bpshaper_slot_set_want(&many[3], 0, 0, 0);
	bpshaper_slot_set_want(&many[6], 0, 0, 0);
	good &= !bpshaper_member_next(m, &steps);
	bpshaper_member_ask(m, next);
	good &= many[4].state == BPSHAPER_SLOT_INTREE;
	hub.tree.root.bucket.out = 2 * MTU;
	atomic64_set(&hub.tokens_ns, 0);
	m->waiting_ns = U64_MAX - 1;	/* since the rate was smaller */
	bpshaper_slot_set_want(&many[7], 0, 0, 0);
	bpshaper_slot_set_want(&many[7], MTU, MTU, 1);	/* comes back */
	good &= !bpshaper_member_ask(m, 2 * next);	/* it grants some */
	good &= m->waiting_ns <= 2 * next + BPSHAPER_HUB_MOST_NS;
	bpshaper_member_look_again(m, MTU);
	return good && list_empty(&m->waiting);
}

/* It does not sleep if it is the holder that grants bytes. */
static bool a_member_of_many_tells_itself(void)
{
	struct bpshaper_member *m = &members[0];
	u64 at = many_wait(m);

	hub.tree.root.bucket.out = 0;
	atomic64_set(&hub.tokens_ns, 0);
	return at && !bpshaper_member_ask(m, at) && !list_empty(&m->slots);
}

/* So many packets have passed the order of a class, and one more may. */
static bool pass(struct bpshaper_slot *s, struct bpshaper_node *class, u32 most)
{
	bool good;

	class->ahead = (most - 1) * MTU;
	good = bpshaper_slot_may_pass(&hub, s, MTU);
	class->ahead = most * MTU;
	return good && !bpshaper_slot_may_pass(&hub, s, MTU);
}

/* A slot that has one packet may pass more often than one that has many, and
 * each more often if its class is behind.
 */
static bool greedy_ones_leave_passes_to_others(void)
{
	static struct bpshaper_node class, leaf;
	struct bpshaper_slot *s = &slots[0];
	bool good = true;

	slots_begin(BYTE_NS);
	bpshaper_node_init(&class, &hub.tree.root);
	bpshaper_node_init(&leaf, &class);
	bpshaper_slot_join(s, &members[0], &leaf);
	slot_enter(0, MTU, 1);
	for (u32 behind = 0; behind < 2; behind++) {
		leaf.start = class.vtime[0] - behind;
		bpshaper_slot_set_want(s, BURST, MTU, 1);
		good &= pass(s, &class, 3 + 3 * behind);
		bpshaper_slot_set_want(s, MTU, MTU, 1);
		good &= pass(s, &class, 6 + 3 * behind);
	}
	return good;
}

/* Both are fresh, and were to sleep for a ms. */
static bool who_asks_is_not_asleep(void)
{
	slots_begin(BYTE_NS);
	for (int i = 0; i < 2; i++) {
		slot_enter(i, MTU, 1)->fresh = MTU;
		atomic64_set(&members[i].wake_ns, hub.now_ns + NSEC_PER_MSEC);
	}
	bpshaper_hub_serve_fresh(&hub, &members[1]);
	return !bpshaper_slot_bytes(&slots[0]) &&
	       bpshaper_slot_bytes(&slots[1]);
}

/* A burst that takes less than a ns: no time is negative. */
static bool the_window_is_not_longer_than_the_burst(void)
{
	struct bpshaper_rate rate;

	bpshaper_rate_set(&rate, 12500000000ULL);
	bpshaper_hub_init(&hub);
	for (u32 burst = 1; burst < 5000; burst++) {
		bpshaper_hub_set(&hub, &rate, burst, MTU, NSEC_PER_SEC);
		if (hub.window_ns > hub.tree.root.bucket.burst_ns)
			return false;
	}
	return true;
}

/* All of the window is taken, and the slot has come @age_ns ago. */
static bool gets_what_is_kept(u64 age_ns, bool is_behind)
{
	struct bpshaper_slot *s;

	slots_begin(BYTE_NS);
	s = slot_enter(0, MTU, 1);
	hub.tree.root.bucket.out = hub.window;
	s->joined_ns = hub.now_ns - age_ns;
	s->node.start = hub.tree.root.vtime[0] - is_behind;
	bpshaper_hub_serve_order(&hub, &members[0]);
	return !bpshaper_slot_lacks(s);
}

static bool who_comes_with_less_gets_what_is_kept(void)
{
	return gets_what_is_kept(0, true) && !gets_what_is_kept(0, false) &&
	       !gets_what_is_kept(BPSHAPER_HUB_FRESH_NS + 1, true);
}

/* Less than a packet lies in a slot whose member wakes up, and asks for others. */
static bool who_cannot_send_keeps_no_bytes(void)
{
	struct bpshaper_slot *s;
	bool good;

	slots_begin(BYTE_NS);
	s = slot_enter(0, MTU, 1);
	bpshaper_slot_grant(&hub, s, MTU - 1, 1, false);
	hub.now_ns += BPSHAPER_HUB_REVOKE_NS;
	atomic64_set(&members[0].wake_ns, hub.now_ns + 1);
	bpshaper_slot_look(&hub, s, false);
	good = bpshaper_slot_bytes(s);
	hub.now_ns++;
	bpshaper_slot_look(&hub, s, false);
	return good && !bpshaper_slot_bytes(s) &&
	       s->state == BPSHAPER_SLOT_INTREE;
}

/* What does not suffice for a packet is taken back from who asks, if there is
 * little to grant.
 */
static bool who_asks_keeps_no_rest(void)
{
	struct bpshaper_slot *s;
	bool good;

	slots_begin(BYTE_NS);
	s = slot_enter(0, MTU, 1);
	bpshaper_slot_grant(&hub, s, MTU / 2, 1, false);
	bpshaper_hub_settle(&hub, &members[0]);
	good = bpshaper_slot_bytes(s) == MTU / 2;
	hub.tree.root.bucket.out += hub.window - MTU;
	bpshaper_hub_settle(&hub, &members[0]);
	return good && !bpshaper_slot_bytes(s);
}

/* Slots have sent their bytes, and there is room for @room bytes. */
static u32 settled(u32 room)
{
	static struct bpshaper_slot sent[8];
	u64 now;

	slots_begin(BYTE_NS);
	for (int i = 0; i < 8; i++) {
		bpshaper_slot_join(&sent[i], &members[0], &hub.tree.root);
		bpshaper_slot_set_want(&sent[i], MTU, MTU, 1);
		bpshaper_slot_grant(&hub, &sent[i], MTU, 1, false);
		now = hub.now_ns;
		bpshaper_slot_take(&sent[i], MTU, &now);
	}
	hub.tree.root.bucket.out = hub.window - room;
	bpshaper_hub_settle(&hub, &members[1]);
	return 8 - hub.out_len;
}

static bool more_settle_if_a_packet_does_not_fit(void)
{
	return settled(hub.window / 4) == 4 &&
	       settled(hub.window / 4 - 1) == 8;
}

/* The next packet is larger than a quarter of the window, and lacks a byte. In
 * another slot of the member lie some that are not enough for a packet.
 */
static bool a_large_packet_gets_rests(void)
{
	struct bpshaper_slot *s;

	slots_begin(BYTE_NS);
	s = slot_enter(0, hub.window / 2, 1);
	bpshaper_slot_join(&slots[1], &members[0], &hub.tree.root);
	slot_enter(1, MTU, 1);
	bpshaper_slot_grant(&hub, &slots[1], MTU / 2, 1, false);
	hub.tree.root.bucket.out = hub.window - s->head + 1;
	for (int i = 0; i < 2; i++)
		bpshaper_hub_serve(&hub, &members[0], hub.now_ns);
	return bpshaper_slot_bytes(s) >= s->head;
}

/* A packet is larger than the burst of @n, and an idle slot of another member
 * has some bytes.
 */
static bool large_gets_all(struct bpshaper_node *n, u32 head)
{
	struct bpshaper_slot *s = &slots[0];

	for (int i = 0; i < 2; i++)
		bpshaper_slot_join(&slots[i], &members[i], n);
	slot_enter(0, head, 1);
	slot_enter(1, MTU, 1);
	bpshaper_slot_grant(&hub, &slots[1], MTU, 1, false);
	bpshaper_slot_set_want(&slots[1], 0, 0, 1);
	bpshaper_hub_serve_order(&hub, &members[0]);
	return bpshaper_slot_bytes(s) == head;
}

static bool a_packet_above_the_burst_gets_all(void)
{
	static struct bpshaper_node class;
	bool good;

	slots_begin(BYTE_NS);
	good = large_gets_all(&hub.tree.root, BURST);
	slots_begin(BYTE_NS);
	bpshaper_node_init(&class, &hub.tree.root);
	class.ceil = hub.tree.root.ceil;
	class.burst = BURST / 10;
	bpshaper_bucket_set(&class.bucket, &class.ceil, class.burst,
			    hub.now_ns);
	bpshaper_bucket_fill(&class.bucket);
	good &= large_gets_all(&class, BURST / 5);
	/* What others have is not below the ceil. */
	bpshaper_slot_join(&slots[1], &members[1], &hub.tree.root);
	bpshaper_slot_grant(&hub, &slots[1], MTU, 1, true);
	bpshaper_hub_take_back(&hub, &class, U32_MAX);
	return good && bpshaper_slot_bytes(&slots[1]) == MTU &&
	       !bpshaper_slot_bytes(&slots[0]) && hub.out_len == 1;
}

void test_slots(void)
{
	TEST(a_last_packet_that_is_small_leaves);
	TEST(who_looked_before_a_revocation_looks_again);
	TEST(the_part_of_a_slot_that_is_away_is_kept);
	TEST(who_has_sent_all_keeps_no_part);
	TEST(a_rest_waits_for_who_is_next);
	TEST(who_is_next_sleeps_for_less);
	TEST(nobody_sleeps_for_more_than_4_ms);
	TEST(a_smaller_prio_expects_all);
	TEST(a_larger_prio_leaves_half_of_the_window);
	TEST(who_sleeps_for_long_keeps_no_bytes);
	TEST(who_sleeps_as_granted_is_served);
	TEST(who_cannot_send_keeps_no_bytes);
	TEST(who_asks_keeps_no_rest);
	TEST(more_settle_if_a_packet_does_not_fit);
	TEST(a_large_packet_gets_rests);
	TEST(a_packet_above_the_burst_gets_all);
	TEST(who_comes_back_asks_at_once);
	TEST(a_member_of_many_is_told);
	TEST(a_member_of_many_tells_itself);
	TEST(what_is_kept_ends);
	TEST(tags_do_not_wrap);
	TEST(who_is_away_catches_up_soon);
	TEST(small_ones_leave_tokens_to_who_is_next);
	TEST(a_new_flow_brings_no_other_along);
	TEST(who_is_late_now_and_then_is_served_asleep);
	TEST(greedy_ones_leave_passes_to_others);
	TEST(who_asks_is_not_asleep);
	TEST(who_comes_with_less_gets_what_is_kept);
	TEST(the_window_is_not_longer_than_the_burst);
}
