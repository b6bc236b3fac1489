// SPDX-License-Identifier: GPL-2.0-only
/* A simulation of queues that share a hub: discrete events, virtual time. The
 * hub is the module's; what sends and waits around it is simulated.
 *
 * A packet takes 150 ns of its CPU, a hold of the lock 50 and 130 for each
 * grant: a 3 GHz server, where a cache line that another CPU has takes 80.
 */
#include <math.h>

#include "hub_sim.h"

#define PACKET_NS	156
#define LOCK_NS		50
#define GRANT_NS	130
#define SPIN_NS		2000
#define BACKLOG_MOST	2000000		/* bytes of a slot that is not greedy */
#define GREEDY_BACKLOG	(1 << 28)
#define BINS		2000
#define BIN_NS		(NSEC_PER_MSEC / 2)

enum event_kind { STEP, TIMER, ARRIVAL, NEW, TOGGLE, STALL, LEAVE, COME_BACK };

struct event {
	u64	at, order;
	enum event_kind kind;
	int	index;
	u32	generation;
};

struct sim_class {
	struct bpshaper_node node;
	double	level;		/* law of its ceil: bytes beyond the rate */
	u64	level_ns;
	double	level_most;
};

struct packet {
	u64	at;
	u32	len;
};

struct sim_slot {
	struct bpshaper_slot slot;
	int	class, member;
	double	demand;		/* bytes per ns; 0: greedy */
	u32	len, len_least, flows;
	u64	from, until, on, off, gap;
	bool	is_on, has_come;	/* since the member was served last */
	double	new_demand;	/* of a flow besides; bytes per ns */
	u32	new_len;
	u64	new_at;		/* when its packet has come; 0: it has none */
	struct packet head;
	u64	backlog;	/* bytes, that of the head included */
	struct packet *queue;	/* a ring, without the head */
	u32	queued, first, ring;
	u64	came, sent;	/* bytes, measured */
	float	*waits;
	u32	waits_len, waits_max;
};

struct sim_member {
	struct bpshaper_member member;
	int	slots[SIM_CLASSES], slots_len;
	enum { ASLEEP, AWAKE, IDLE } state;
	u32	generation;
	u64	stalled_until, late;
	bool	is_gone, has_come;	/* one of its slots has */
};

struct sim_machine sim_machine;
static struct bpshaper_hub hub;
static struct sim_class classes[SIM_CLASSES + 1];	/* the last is the root */
static struct sim_slot slots[SIM_SLOTS];
static struct sim_member members[SIM_MEMBERS];
static int classes_len, slots_len, members_len;
static struct tenant tenants[SIM_TENANTS];
static struct event *events;
static int events_len, events_max;
static u64 now, order, measured_from, end, locked_until, hold_next;
static u64 packets, wakes, busy;
static double link_Bns;		/* bytes per ns */
static float bins[SIM_CLASSES][BINS];

static double rnd_exp(double mean)
{
	return -mean * log((1 + rnd_below(1 << 30)) / (double)(1 << 30));
}

static u64 rnd_between(u64 least, u64 most)
{
	return least + rnd_below(most - least + 1);
}

/* Events: a heap */

static bool event_before(const struct event *a, const struct event *b)
{
	return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void event_add(u64 at, enum event_kind kind, int index, u32 generation)
{
	struct event e = { at, order++, kind, index, generation };
	int i = events_len++;

	if (i == events_max) {
		events_max = events_max ? 2 * events_max : 4096;
		events = realloc(events, events_max * sizeof(*events));
	}
	for (; i && event_before(&e, &events[(i - 1) / 2]); i = (i - 1) / 2)
		events[i] = events[(i - 1) / 2];
	events[i] = e;
}

static struct event event_next(void)
{
	struct event first = events[0], e = events[--events_len];
	int i = 0, child;

	while ((child = 2 * i + 1) < events_len) {
		if (child + 1 < events_len &&
		    event_before(&events[child + 1], &events[child]))
			child++;
		if (!event_before(&events[child], &e))
			break;
		events[i] = events[child];
		i = child;
	}
	events[i] = e;
	return first;
}

/* Making */

void sim_begin(u64 mbit, u32 burst)
{
	struct bpshaper_rate rate;

	for (int i = 0; i < slots_len; i++) {
		free(slots[i].queue);
		free(slots[i].waits);
	}
	memset(classes, 0, sizeof(classes));
	memset(slots, 0, sizeof(slots));
	memset(members, 0, sizeof(members));
	memset(bins, 0, sizeof(bins));
	classes_len = slots_len = members_len = events_len = 0;
	now = NSEC_PER_SEC;
	order = packets = wakes = busy = locked_until = hold_next = 0;
	sim_machine = (struct sim_machine) {
		.late_least	= 20 * NSEC_PER_USEC,
		.late_most	= 100 * NSEC_PER_USEC,
		.late_long	= NSEC_PER_MSEC,
	};
	link_Bns = mbit * MBIT / 1e9;
	bpshaper_rate_set(&rate, mbit * MBIT);
	bpshaper_hub_init(&hub);
	bpshaper_hub_set(&hub, &rate, burst, 1514, now);
	bpshaper_bucket_fill(&hub.tree.root.bucket);
}

static struct bpshaper_node *class_node(int class)
{
	return class < 0 ? &hub.tree.root : &classes[class].node;
}

int sim_class(int parent, u32 weight, double floor, double ceil, int prio)
{
	struct bpshaper_node *n = &classes[classes_len].node;
	u32 burst = max(ceil * MBIT / 1000, 4 * 1514);

	bpshaper_node_init(n, class_node(parent));
	bpshaper_node_set_weight(n, weight);
	n->prio = prio;
	bpshaper_node_set_floor(n, floor * MBIT, 0,
				bpshaper_hub_floor_credit(&hub, floor * MBIT),
				now);
	if (ceil) {
		bpshaper_rate_set(&n->ceil, ceil * MBIT);
		bpshaper_node_set_burst(n, burst, NSEC_PER_MSEC, now);
		bpshaper_bucket_fill(&n->bucket);
	}
	tenants[classes_len] = (struct tenant) {
		.parent	= parent,
		.weight	= weight,
		.prio	= prio,
		.floor	= floor * MBIT,
		.ceil	= ceil ? ceil * MBIT : UNBOUNDED,
	};
	if (parent >= 0)
		tenants[parent].children++;
	return classes_len++;
}

void sim_class_overcommit(int class)
{
	struct bpshaper_node *n = &classes[class].node;

	bpshaper_node_set_floor(n, n->floor.Bps, 1,
				bpshaper_hub_floor_credit(&hub, n->floor.Bps),
				now);
	tenants[class].overcommit = 1;
}

int sim_member(void)
{
	struct bpshaper_member *m = &members[members_len].member;

	bpshaper_member_init(m, &hub);
	members[members_len].state = IDLE;
	return members_len++;
}

int sim_slot(int member, int class, double demand, u32 len)
{
	struct sim_member *m = &members[member];
	struct sim_slot *s = &slots[slots_len];

	s->class = class;
	s->member = member;
	s->demand = demand * MBIT / 1e9;
	s->len = s->len_least = s->head.len = len;
	s->flows = 1;
	s->until = U64_MAX;
	s->is_on = true;
	m->slots[m->slots_len++] = slots_len;
	bpshaper_slot_join(&s->slot, &m->member, class_node(class));
	return slots_len++;
}

void sim_slot_flows(int slot, u32 flows)
{
	slots[slot].flows = flows;
}

void sim_slot_gap(int slot, double us)
{
	slots[slot].gap = us * NSEC_PER_USEC;
}

void sim_slot_new_flow(int slot, double demand, u32 len)
{
	slots[slot].new_demand = demand * MBIT / 1e9;
	slots[slot].new_len = len;
	slots[slot].flows++;
}

void sim_slot_lengths(int slot, u32 least)
{
	slots[slot].len_least = least;
}

void sim_slot_period(int slot, double from, double until)
{
	slots[slot].from = from * NSEC_PER_MSEC;
	slots[slot].until = until * NSEC_PER_MSEC;
}

void sim_slot_on_off(int slot, double on, double off)
{
	slots[slot].on = on * NSEC_PER_MSEC;
	slots[slot].off = off * NSEC_PER_MSEC;
}

void sim_member_late(int member, u64 ns)
{
	members[member].late = ns;
}

/* Members */

static void member_step_at(struct sim_member *m, u64 at)
{
	m->state = AWAKE;
	event_add(max(at, m->stalled_until), STEP, m - members,
		  ++m->generation);
}

static void member_sleep(struct sim_member *m, u64 until)
{
	u64 late = rnd_between(sim_machine.late_least, sim_machine.late_most);

	if (!rnd_below(500))
		late = max(late, sim_machine.late_long);
	m->state = ASLEEP;
	m->generation++;
	if (until < U64_MAX)
		event_add(max(until, now) + max(late, m->late), TIMER,
			  m - members, m->generation);
}

static bool slot_is_greedy(const struct sim_slot *s)
{
	return !s->demand;
}

static u32 slot_backlog(const struct sim_slot *s)
{
	if (members[s->member].is_gone)
		return 0;
	if (slot_is_greedy(s))
		return s->is_on ? (s->gap ? s->head.len : GREEDY_BACKLOG) : 0;
	return s->backlog;
}

static u32 slot_len(const struct sim_slot *s)
{
	return s->len_least < s->len ? rnd_between(s->len_least, s->len) :
				       s->len;
}

/* As a queue does, which knows the length of its next packet when it has tried
 * to take bytes for it.
 */
static void slot_tell(struct sim_slot *s, u32 head)
{
	bpshaper_slot_set_want(&s->slot, slot_backlog(s), head, s->flows);
}

static void class_sent(struct sim_class *c, u32 len)
{
	if (!c->node.ceil.Bps)
		return;
	c->level -= (now - c->level_ns) * (c->node.ceil.Bps / 1e9);
	c->level = max(c->level, 0) + len;
	c->level_ns = now;
	c->level_most = max(c->level_most, c->level);
}

static u32 slot_next_len(const struct sim_slot *s)
{
	return s->new_at ? s->new_len : s->head.len;
}

static void slot_next(struct sim_slot *s)
{
	if (s->new_at) {
		s->new_at = 0;
		return;
	}
	if (slot_is_greedy(s)) {
		s->head.len = slot_len(s);
		return;
	}
	s->backlog -= s->head.len;
	if (!s->queued)
		return;
	s->head = s->queue[s->first];
	s->first = (s->first + 1) % s->ring;
	s->queued--;
}

static void slot_sent(struct sim_slot *s)
{
	u64 bin = (now - NSEC_PER_SEC) / BIN_NS;
	u64 at = s->new_at ?: slot_is_greedy(s) ? 0 : s->head.at;
	u32 len = slot_next_len(s);

	packets++;
	if (now >= measured_from)
		s->sent += len;
	for (int c = s->class; c >= 0; c = tenants[c].parent) {
		class_sent(&classes[c], len);
		if (bin < BINS)
			bins[c][bin] += len;
	}
	class_sent(&classes[SIM_CLASSES], len);
	if (at && now >= measured_from) {
		if (s->waits_len == s->waits_max) {
			s->waits_max = s->waits_max ? 2 * s->waits_max : 256;
			s->waits = realloc(s->waits, s->waits_max *
					   sizeof(*s->waits));
		}
		s->waits[s->waits_len++] = now - at;
	}
	slot_next(s);
	if (s->gap) {
		s->is_on = false;
		event_add(now + rnd_exp(s->gap), TOGGLE, s - slots, 0);
	}
}

/* As bpshaper_slots_due(), but the length of each next packet is known: a queue
 * without classes takes it for that of the last one.
 */
static bool member_send(struct sim_member *m)
{
	struct list_head *list = &m->member.slots;
	struct sim_slot *s;
	u64 at = now;
	u32 len;

	bpshaper_member_hear(&m->member);
	for (int i = 0; i < m->slots_len && !list_empty(list); i++) {
		s = container_of(list_first_entry(list, struct bpshaper_slot,
						  backlog_node),
				 struct sim_slot, slot);
		len = slot_next_len(s);
		if (bpshaper_slot_take(&s->slot, len, &at)) {
			slot_sent(s);
			slot_tell(s, len);
			return true;
		}
		slot_tell(s, len);
		if (s->new_at)
			bpshaper_slot_set_new(&s->slot);
		list_move_tail(&s->slot.backlog_node, list);
	}
	return false;
}

/* How long the lock is taken, if it was since @grants and @locks; 0 if not. */
static u64 member_held(struct sim_member *m, u64 grants, u64 locks)
{
	u64 hold;

	if (hub.stat_locks == locks)
		return 0;
	hold = LOCK_NS + (hub.stat_grants - grants) * GRANT_NS;
	locked_until = now + hold;
	if (sim_machine.hold_every && now > hold_next) {
		hold_next = now + rnd_exp(sim_machine.hold_every);
		locked_until += sim_machine.hold_ns;
		m->stalled_until = locked_until;
	}
	return hold;
}

/* As bpshaper_slots_come() */
static void member_slots_come(struct sim_member *m)
{
	struct sim_slot *s;

	m->has_come = false;
	for (int i = 0; i < m->slots_len; i++) {
		s = &slots[m->slots[i]];
		if (s->has_come)
			bpshaper_slot_ask(&s->slot, now);
		s->has_come = false;
	}
}

static void slot_has_come(struct sim_slot *s)
{
	s->has_come = true;
	members[s->member].has_come = true;
}

static void member_step(struct sim_member *m)
{
	u64 grants = hub.stat_grants, locks = hub.stat_locks, at, hold = 0;

	if (m->stalled_until > now) {
		member_step_at(m, now);
		return;
	}
	atomic64_set(&m->member.wake_ns, 0);
	hub.lock.is_held = locked_until > now;
	if (m->has_come) {
		member_slots_come(m);
		hold = member_held(m, grants, locks);
	}
	hub.lock.is_held = false;
	if (member_send(m)) {
		member_step_at(m, now + hold + PACKET_NS);
		return;
	}
	if (hold) {
		member_step_at(m, now + hold);
		return;
	}
	if (!m->member.slots_len) {
		m->state = IDLE;
		m->generation++;
		return;
	}
	if (locked_until > now && locked_until - now < SPIN_NS) {
		member_step_at(m, locked_until);
		return;
	}
	hub.lock.is_held = locked_until > now;
	busy += hub.lock.is_held;
	at = bpshaper_member_ask(&m->member, now);
	hub.lock.is_held = false;
	hold = member_held(m, grants, locks);
	if (at)
		member_sleep(m, at);
	else
		member_step_at(m, now + hold);
}

/* The slot has got a packet. A qdisc is run when it gets one. */
static void slot_poke(struct sim_slot *s)
{
	struct sim_member *m = &members[s->member];

	if (!s->slot.want)
		slot_has_come(s);
	slot_tell(s, s->slot.want ? s->slot.head : s->head.len);
	if (!m->is_gone && m->state != AWAKE)
		member_step_at(m, now);
}

static void slot_queue(struct sim_slot *s, struct packet packet)
{
	struct packet *queue;

	if (now >= measured_from)
		s->came += packet.len;
	s->backlog += packet.len;
	if (s->backlog == packet.len) {
		s->head = packet;
		return;
	}
	if (s->queued == s->ring) {
		queue = malloc((s->ring ? 2 * s->ring : 16) * sizeof(*queue));
		for (u32 i = 0; i < s->queued; i++)
			queue[i] = s->queue[(s->first + i) % s->ring];
		free(s->queue);
		s->queue = queue;
		s->first = 0;
		s->ring = s->ring ? 2 * s->ring : 16;
	}
	s->queue[(s->first + s->queued++) % s->ring] = packet;
}

static void slot_arrival(struct sim_slot *s)
{
	struct packet packet = { now, slot_len(s) };

	if (now - NSEC_PER_SEC >= s->until || !s->is_on)
		return;
	event_add(now + rnd_exp(packet.len / s->demand), ARRIVAL, s - slots, 0);
	if (members[s->member].is_gone || s->backlog > BACKLOG_MOST)
		return;
	slot_queue(s, packet);
	slot_poke(s);
}

/* As bpshaper_leaf_look() */
static void slot_new_arrival(struct sim_slot *s)
{
	struct sim_member *m = &members[s->member];

	event_add(now + rnd_exp(s->new_len / s->new_demand), NEW, s - slots, 0);
	if (s->new_at || !s->is_on || m->is_gone)
		return;
	s->new_at = now;
	slot_tell(s, s->new_len);
	if (bpshaper_slot_lacks(&s->slot))
		bpshaper_slot_set_new(&s->slot);
	slot_has_come(s);
	if (m->state != AWAKE)
		member_step_at(m, now);
}

static void slot_start(struct sim_slot *s)
{
	if (slot_is_greedy(s))
		slot_poke(s);
	else
		event_add(now + rnd_exp(s->len / s->demand), ARRIVAL,
			  s - slots, 0);
}

static void slot_toggle(struct sim_slot *s)
{
	if (!s->on) {	/* it begins or ends once */
		s->is_on = now - NSEC_PER_SEC < s->until;
		if (s->is_on && s->until != U64_MAX)
			event_add(NSEC_PER_SEC + s->until, TOGGLE, s - slots, 0);
	} else {
		s->is_on = !s->is_on;
		event_add(now + rnd_exp(s->is_on ? s->on : s->off), TOGGLE,
			  s - slots, 0);
	}
	if (s->is_on)
		slot_start(s);
	else
		slot_tell(s, s->slot.head);
}

static void member_leave(struct sim_member *m)
{
	m->is_gone = true;
	for (int i = 0; i < m->slots_len; i++)
		bpshaper_slot_leave(&slots[m->slots[i]].slot);
	event_add(now + rnd_exp(sim_machine.leave_ns), COME_BACK, m - members,
		  0);
}

static void member_come_back(struct sim_member *m)
{
	m->is_gone = false;
	m->state = IDLE;
	for (int i = 0; i < m->slots_len; i++)
		slot_poke(&slots[m->slots[i]]);
}

static void event_happens(const struct event *e)
{
	struct sim_member *m = &members[e->index];

	switch (e->kind) {
	case TIMER:
		wakes += e->generation == m->generation;
		/* fallthrough */
	case STEP:
		if (e->generation == m->generation && !m->is_gone)
			member_step(m);
		break;
	case ARRIVAL:
		slot_arrival(&slots[e->index]);
		break;
	case NEW:
		slot_new_arrival(&slots[e->index]);
		break;
	case TOGGLE:
		slot_toggle(&slots[e->index]);
		break;
	case STALL:
		m = &members[rnd_below(members_len)];
		m->stalled_until = max(m->stalled_until, now +
				       rnd_below(sim_machine.stall_most));
		event_add(now + rnd_exp(sim_machine.stall_every), STALL, 0, 0);
		break;
	case LEAVE:
		m = &members[rnd_below(members_len)];
		if (!m->is_gone)
			member_leave(m);
		event_add(now + rnd_exp(sim_machine.leave_every), LEAVE, 0, 0);
		break;
	case COME_BACK:
		member_come_back(m);
		break;
	}
}

/* Bytes per ns that came, or were to come of a slot which begins later. */
static double slot_demand(const struct sim_slot *s)
{
	if (!s->from)
		return (double)s->came / (end - measured_from);
	return s->off ? s->demand * s->on / (s->on + s->off) : s->demand;
}

/* What the law gives to each: slots are classes, with their flows as weights.
 */
static void law(double until_ms)
{
	int count = classes_len + slots_len;

	for (int i = 0; i < slots_len; i++) {
		struct tenant *t = &tenants[classes_len + i];

		*t = (struct tenant) {
			.parent	= slots[i].class,
			.weight	= slots[i].flows,
			.ceil	= UNBOUNDED,
			.demand	= slot_demand(&slots[i]) * 1e9,
		};
		if (slot_is_greedy(&slots[i]))
			t->demand = UNBOUNDED;
		if (slots[i].until < until_ms * NSEC_PER_MSEC)
			t->demand = 0;
		if (slots[i].class >= 0)
			tenants[slots[i].class].children = 1;
	}
	waterfill(tenants, count, link_Bns * 1e9);
}

static double slots_sum(int class)
{
	double sum = 0;

	for (int i = 0; i < slots_len; i++)
		for (int c = slots[i].class; c >= 0; c = tenants[c].parent)
			if (c == class)
				sum += slots[i].sent;
	return sum;
}

double sim_class_share(int class)
{
	return slots_sum(class) / (end - measured_from) / link_Bns;
}

double sim_slot_share(int slot)
{
	return slots[slot].sent / (double)(end - measured_from) / link_Bns;
}

/* Does each class get what the law gives it from @bin on, for 2 ms? */
static bool bins_fit(int bin)
{
	double sum, off;

	for (int c = 0; c < classes_len; c++) {
		sum = 0;
		for (int i = 0; i < 4; i++)
			sum += bins[c][bin + i];
		off = sum / (4 * BIN_NS) - tenants[c].share / 1e9;
		if (fabs(off) > 0.06 * link_Bns)
			return false;
	}
	return true;
}

double sim_settled(double from_ms)
{
	int from = from_ms * NSEC_PER_MSEC / BIN_NS, bin, fit = 0;

	for (bin = from; fit < 18 && bin < BINS - 24; bin++) {
		fit = 0;
		for (int i = 0; i < 20 && (i || bins_fit(bin)); i++)
			fit += bins_fit(bin + i);
	}
	return (bin - 1 - from) * (double)BIN_NS / NSEC_PER_MSEC;
}

/* Jain's index of the greedy slots of a class, for each flow */
static double class_jain(int class)
{
	double sum = 0, squares = 0, n = 0, x;

	for (int i = 0; i < slots_len; i++) {
		if (slots[i].class != class || !slot_is_greedy(&slots[i]) ||
		    slots[i].off)
			continue;
		x = slots[i].sent / (double)slots[i].flows;
		sum += slots[i].flows * x;
		squares += slots[i].flows * x * x;
		n += slots[i].flows;
	}
	return squares ? sum * sum / (n * squares) : 1;
}

static int float_compare(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static double waits_p99_ms(void)
{
	float *all = NULL, p99 = 0;
	size_t len = 0;

	for (int i = 0; i < slots_len; i++) {
		const struct tenant *t = &tenants[classes_len + i];

		if (!slots[i].waits_len || (!slot_is_greedy(&slots[i]) &&
					    t->share < t->demand * 0.999))
			continue;
		all = realloc(all, (len + slots[i].waits_len) * sizeof(*all));
		memcpy(all + len, slots[i].waits,
		       slots[i].waits_len * sizeof(*all));
		len += slots[i].waits_len;
	}
	if (len) {
		qsort(all, len, sizeof(*all), float_compare);
		p99 = all[(size_t)(len * 0.99)];
	}
	free(all);
	return p99 / NSEC_PER_MSEC;
}

static bool laws_hold(void)
{
	bool good = classes[SIM_CLASSES].level_most <= hub.burst + 0.01;

	for (int c = 0; c < classes_len; c++)
		if (classes[c].node.ceil.Bps)
			good &= classes[c].level_most <=
				classes[c].node.burst + 0.01;
	return good;
}

struct sim_result sim_run(double ms, double measured_from_ms)
{
	struct sim_result r = { .jain = 1 };
	double sum = 0, needed = 0, error;
	u64 grants, locks, revokes;
	struct event e;

	classes[SIM_CLASSES].node.ceil = hub.tree.root.ceil;
	end = now + ms * NSEC_PER_MSEC;
	measured_from = now + measured_from_ms * NSEC_PER_MSEC;
	for (int i = 0; i < slots_len; i++) {
		struct sim_slot *s = &slots[i];

		s->is_on = !!s->on;
		event_add(now + s->from + rnd_below(NSEC_PER_MSEC / 5), TOGGLE,
			  i, 0);
		if (s->new_demand)
			event_add(now + rnd_below(NSEC_PER_MSEC), NEW, i, 0);
	}
	if (sim_machine.stall_every)
		event_add(now, STALL, 0, 0);
	if (sim_machine.leave_every)
		event_add(now + NSEC_PER_MSEC, LEAVE, 0, 0);
	grants = locks = revokes = 0;
	while (events_len && events[0].at < end) {
		e = event_next();
		if (now < measured_from && e.at >= measured_from) {
			packets = wakes = busy = 0;
			grants = hub.stat_grants;
			locks = hub.stat_locks;
			revokes = hub.stat_revokes;
		}
		now = e.at;
		event_happens(&e);
	}
	now = end;
	law(ms);
	for (int i = 0; i < slots_len; i++) {
		sum += slots[i].sent;
		needed += tenants[classes_len + i].share;
	}
	r.share = sum / (end - measured_from) / (needed / 1e9);
	for (int c = 0; c < classes_len; c++) {
		error = sim_class_share(c) - tenants[c].share / 1e9 / link_Bns;
		r.error = max(r.error, fabs(error));
	}
	for (int c = -1; c < classes_len; c++)
		r.jain = min(r.jain, class_jain(c));
	r.wait_ms = waits_p99_ms();
	grants = hub.stat_grants - grants;
	locks = hub.stat_locks - locks;
	revokes = hub.stat_revokes - revokes;
	r.atomics = (2. * locks + grants + revokes + busy) / packets;
	r.locks = (double)locks / packets;
	r.wakes = (double)wakes / packets;
	r.is_lawful = laws_hold();
	return r;
}
