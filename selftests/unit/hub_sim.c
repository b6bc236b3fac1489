// SPDX-License-Identifier: GPL-2.0-only
/* A simulation of queues that share a hub: discrete events, virtual time. The
 * hub is the module's; what sends and waits around it is simulated.
 *
 * A packet takes 150 ns of its CPU, a hold of the lock 50 and 130 for each
 * grant: a 3 GHz server, where a cache line that another CPU has takes 80.
 */
#include <math.h>

/* Atomics on shared words are counted. */
static void sim_llist_add(const void *list);
#define unit_llist_add sim_llist_add

#include "hub_sim.h"
#include "../../bpshaper/tree.h"

struct bpshaper_hub;
struct bpshaper_member;

static u64 bpshaper_hub_now(void);
static void bpshaper_hub_arm(struct bpshaper_hub *hub, u64 at);
static void bpshaper_member_wake(struct bpshaper_member *m);

#include "../../bpshaper/hub.h"

#define PACKET_NS	156
#define LOCK_NS		50
#define GRANT_NS	130
#define SPIN_NS		2000
#define BACKLOG_MOST	2000000		/* bytes of a slot that is not greedy */
#define GREEDY_BACKLOG	(1 << 28)
#define BINS		2000
#define BIN_NS		(NSEC_PER_MSEC / 2)

enum event_kind { STEP, TIMER, ARRIVAL, NEW, TOGGLE, STALL, LEAVE, COME_BACK,
		  HUB_TIMER, HUB_AGAIN };

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

struct sim_flow {
	u64	v;		/* virtual time, as in order.h */
	u64	sent, since;
	double	demand;		/* of a sparse one; bytes per ns */
	u32	len;
	bool	is_paced, is_in_pairs;
	u32	queued;		/* packets that have come, the first at */
	u64	at[16];
};

struct sim_slot {
	struct bpshaper_slot slot;
	struct sim_flow *flow;	/* greedy ones; [0] if it is not */
	struct sim_flow new[SIM_NEW];	/* sparse ones besides */
	int	new_flows;
	struct sim_flow *picked;
	int	class, member;
	double	demand;		/* bytes per ns; 0: greedy */
	u32	len, len_least, flows;
	u64	from, until, on, off, gap, on_since, on_ns;
	bool	is_on, has_come;	/* since the member was served last */
	struct packet head;
	u64	backlog;	/* bytes, that of the head included */
	struct packet *queue;	/* a ring, without the head */
	u32	queued, first, ring;
	u64	came, sent;	/* bytes, measured */
	u64	last, longest;	/* when it sent last, and without a packet */
	float	*waits;
	u32	waits_len, waits_max;
};

struct sim_member {
	struct bpshaper_member member;
	int	slots[SIM_CLASSES], slots_len, cpu;
	enum { ASLEEP, AWAKE, IDLE } state;
	u32	generation;
	u64	stalled_until, late;
	bool	is_gone, has_come;	/* one of its slots has */
};

struct sim_machine sim_machine;
u32 sim_mtu = 1514;
static struct bpshaper_hub hub;
static u64 cpu_busy[SIM_MEMBERS];
static int timer_cpu, running_cpu;
static u32 timer_generation;
static bool again_is_due;
static struct sim_class classes[SIM_CLASSES + 1];	/* the last is the root */
static struct sim_slot slots[SIM_SLOTS];
static struct sim_member members[SIM_MEMBERS];
static int classes_len, slots_len, members_len;
static struct tenant tenants[SIM_TENANTS];
static struct event *events;
static int events_len, events_max;
static u64 now, order, measured_from, end, locked_until, hold_next;
static u64 looks, posted, packets, wakes, busy, timers, held_ns, backstops;
static u32 burst_all;
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
		free(slots[i].flow);
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
		.wake_least	= 2 * NSEC_PER_USEC,
		.wake_most	= 10 * NSEC_PER_USEC,
	};
	memset(cpu_busy, 0, sizeof(cpu_busy));
	timer_cpu = running_cpu = 0;
	again_is_due = false;
	timers = held_ns = 0;
	burst_all = burst;
	link_Bns = mbit * MBIT / 1e9;
	bpshaper_rate_set(&rate, mbit * MBIT);
	bpshaper_hub_init(&hub);
	bpshaper_hub_set(&hub, &rate, burst, sim_mtu);
	bpshaper_bucket_fill(&hub.tree.root.bucket);
}

static struct bpshaper_node *class_node(int class)
{
	return class < 0 ? &hub.tree.root : &classes[class].node;
}

int sim_class(int parent, u32 weight, double floor, double ceil, int prio)
{
	struct bpshaper_node *n = &classes[classes_len].node;

	bpshaper_node_init(n, class_node(parent));
	bpshaper_node_set_order(n, prio, weight);
	bpshaper_node_set_floor(&hub.tree, n, floor * MBIT, 0);
	if (ceil) {
		bpshaper_rate_set(&n->ceil, ceil * MBIT);
		sim_class_burst(classes_len, max(ceil * MBIT / 1000, 4 * 1514));
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

void sim_class_burst(int class, u32 burst)
{
	struct bpshaper_node *n = &classes[class].node;
	struct bpshaper_rate ceil = n->ceil;

	bpshaper_node_set_ceil(&hub.tree, n, &ceil, burst);
	bpshaper_bucket_fill(&n->bucket);
}

void sim_class_overcommit(int class)
{
	bpshaper_node_set_floor(&hub.tree, &classes[class].node,
				classes[class].node.floor.Bps, 1);
	tenants[class].overcommit = 1;
}

int sim_member(void)
{
	bpshaper_member_init(&members[members_len].member, &hub);
	members[members_len].state = IDLE;
	members[members_len].cpu = members_len;
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
	s->flow = calloc(1, sizeof(*s->flow));
	bpshaper_slot_join(&s->slot, &m->member, class_node(class));
	return slots_len++;
}

void sim_slot_flows(int slot, u32 flows)
{
	slots[slot].flows = flows;
	slots[slot].flow = realloc(slots[slot].flow, flows * sizeof(struct sim_flow));
	memset(slots[slot].flow, 0, flows * sizeof(struct sim_flow));
}

void sim_slot_gap(int slot, double us)
{
	slots[slot].gap = us * NSEC_PER_USEC;
}

void sim_slot_new_flow(int slot, double demand, u32 len)
{
	struct sim_flow *f = &slots[slot].new[slots[slot].new_flows++];

	f->demand = demand * MBIT / 1e9;
	f->len = len;
}

void sim_slot_paced_flow(int slot, double demand, u32 len)
{
	sim_slot_new_flow(slot, demand, len);
	slots[slot].new[slots[slot].new_flows - 1].is_paced = true;
}

void sim_slot_flow_pairs(int slot)
{
	slots[slot].new[slots[slot].new_flows - 1].is_in_pairs = true;
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

static u64 late_ns(u64 least, u64 most, u32 of)
{
	u64 late = rnd_between(least, most);

	return rnd_below(of) ? late : max(late, sim_machine.late_long);
}

/* The hub's timer is that of the CPU which armed it last. */
static void sim_llist_add(const void *list)
{
	posted += list == &hub.news;
}

static u64 bpshaper_hub_now(void)
{
	return now;
}

static void bpshaper_hub_arm(struct bpshaper_hub *h, u64 at)
{
	(void)h;
	timer_cpu = running_cpu;
	event_add(max(at, now) + late_ns(sim_machine.late_least, sim_machine.late_most, 500),
		  HUB_TIMER, timer_cpu, ++timer_generation);
}

static void bpshaper_member_wake(struct bpshaper_member *member)
{
	struct sim_member *m = container_of(member, struct sim_member, member);

	if (m->is_gone)
		return;
	wakes++;
	if (!sim_machine.ipi)
		m->cpu = running_cpu;
	member_step_at(m, max(now, locked_until) +
		       max(late_ns(sim_machine.wake_least, sim_machine.wake_most, 5000), m->late));
	m->state = ASLEEP;	/* until then; a packet that comes is earlier */
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

static struct sim_flow *flow_first(const struct sim_slot *s, struct sim_flow *first,
				   struct sim_flow *f)
{
	if (bpshaper_tag_before(f->v, s->slot.least))
		f->v = s->slot.least;
	return !first || bpshaper_tag_before(f->v, first->v) ? f : first;
}

/* The flow that is next, of those with packets. */
static struct sim_flow *slot_pick(struct sim_slot *s)
{
	struct sim_flow *first = NULL;

	for (u32 i = 0; slot_backlog(s) && i < (slot_is_greedy(s) ? s->flows : 1); i++)
		first = flow_first(s, first, &s->flow[i]);
	for (int i = 0; i < s->new_flows; i++)
		if (s->new[i].queued)
			first = flow_first(s, first, &s->new[i]);
	return first;
}

static u64 flow_join_v(u64 v, u64 least)
{
	return bpshaper_tag_before(v, least) ? least : v;
}

/* A flow that was empty gets a packet. */
static void flow_join(struct sim_slot *s, struct sim_flow *f)
{
	f->v = flow_join_v(f->v, bpshaper_slot_vtime(&s->slot) - hub.tree.credit);
	f->since = 0;
}

static bool flow_is_new(const struct sim_slot *s, const struct sim_flow *f)
{
	return f >= s->new && f < s->new + SIM_NEW;
}

static u32 slot_next_len(const struct sim_slot *s)
{
	return flow_is_new(s, s->picked) ? s->picked->len : s->head.len;
}

/* Bytes that the flow which is next has. */
static u32 slot_first(const struct sim_slot *s)
{
	return flow_is_new(s, s->picked) ? s->picked->queued * s->picked->len :
					   slot_backlog(s);
}

/* Where the others are that have not just come. */
static u64 slot_rest(const struct sim_slot *s)
{
	u32 flows = slot_backlog(s) ? slot_is_greedy(s) ? s->flows : 1 : 0;
	const struct sim_flow *f, *first = NULL;

	for (u32 i = 0; i < flows + s->new_flows; i++) {
		f = i < flows ? &s->flow[i] : &s->new[i - flows];
		if (f == s->picked || (i >= flows && (!f->queued || f->since < 2 * sim_mtu)))
			continue;
		if (!first || bpshaper_tag_before(f->v, first->v))
			first = f;
	}
	return first ? first->v : s->picked->v;
}

static void slot_tell(struct sim_slot *s)
{
	u32 want = slot_backlog(s);

	for (int i = 0; i < s->new_flows; i++)
		want += s->new[i].queued * s->new[i].len;
	s->picked = slot_pick(s);
	s->slot.has_come = s->picked && s->picked->since < 2 * 1514;
	s->slot.flows = s->flows;
	if (s->picked)
		bpshaper_slot_set(&s->slot, want, slot_first(s),
				  slot_next_len(s), s->picked->v, slot_rest(s));
	else
		bpshaper_slot_set(&s->slot, 0, 0, 0, 0, 0);
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

static void slot_next(struct sim_slot *s)
{
	if (flow_is_new(s, s->picked)) {
		memmove(s->picked->at, s->picked->at + 1, sizeof(s->picked->at) - sizeof(u64));
		s->picked->queued--;
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
	u64 at = flow_is_new(s, s->picked) ? s->picked->at[0] : slot_is_greedy(s) ? 0 : s->head.at;
	u32 len = slot_next_len(s);

	packets++;
	s->picked->v += len;
	s->picked->since += len;
	if (now >= measured_from) {
		s->longest = max(s->longest, now - (s->last ? s->last : now));
		s->last = now;
		s->sent += len;
		s->picked->sent += len;
	}
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

/* Return the bytes of the packet that it has sent, or 0. */
static u32 member_send(struct sim_member *m)
{
	struct bpshaper_slot *slot;
	struct sim_slot *s;
	int steps = 1 << 20;
	u64 at = now;
	u32 len = 0;

	while ((slot = bpshaper_member_next(&m->member, &steps))) {
		s = container_of(slot, struct sim_slot, slot);
		slot_tell(s);
		if (!bpshaper_slot_take(slot, slot_next_len(s), &at))
			continue;
		len = slot_next_len(s);
		slot_sent(s);
		slot_tell(s);
		break;
	}
	looks += (1 << 20) - steps;
	return slot ? len : 0;
}

/* How long the lock is taken, if it was since; 0 if not. */
static u64 hub_held(u64 grants, u64 locks, u64 cpu)
{
	u64 hold;

	if (hub.stat_locks == locks)
		return 0;
	hold = LOCK_NS + (hub.stat_grants - grants) * GRANT_NS;
	held_ns += hold;
	locked_until = now + hold;
	if (sim_machine.hold_every && now > hold_next) {
		hold_next = now + rnd_exp(sim_machine.hold_every);
		locked_until += sim_machine.hold_ns;
		members[cpu].stalled_until = locked_until;
	}
	cpu_busy[cpu] = max(cpu_busy[cpu], locked_until);
	return hold;
}

/* Who found the lock taken has the holder serve again. */
static void hub_again(void)
{
	if (!hub.missed || again_is_due)
		return;
	again_is_due = true;
	event_add(max(locked_until, now + 1), HUB_AGAIN, running_cpu, 0);
}

static void member_step(struct sim_member *m)
{
	u64 grants = hub.stat_grants, locks = hub.stat_locks, hold;
	bool may_send, is_idle;
	u64 wire_ns = 0;
	u32 len;

	running_cpu = m->cpu;
	if (max(members[m->cpu].stalled_until, cpu_busy[m->cpu]) > now) {
		m->state = AWAKE;
		event_add(max(members[m->cpu].stalled_until, cpu_busy[m->cpu]), STEP,
			  m - members, ++m->generation);
		return;
	}
	hub.lock.is_held = locked_until > now;
	len = member_send(m);
	is_idle = !len && !m->member.slots;
	may_send = !len && !is_idle && bpshaper_member_ask(&m->member, now);
	hub.lock.is_held = false;
	hold = hub_held(grants, locks, m->cpu);
	busy += hub.missed;
	hub_again();
	m->generation++;
	m->state = is_idle ? IDLE : ASLEEP;
	if (len) {
		hold += PACKET_NS;
		cpu_busy[m->cpu] = now + hold;
		if (sim_machine.wire_mbit)
			wire_ns = len * 8000 / sim_machine.wire_mbit;
	}
	if (len || may_send)
		member_step_at(m, now + max(wire_ns, hold));
	if (len || may_send || is_idle)
		return;
	event_add(bpshaper_member_backstop_ns(&m->member, now) +
			  late_ns(sim_machine.late_least, sim_machine.late_most, 500), TIMER,
			  m - members, ++m->generation);
}

static void hub_step(int cpu, bool is_timer)
{
	u64 grants = hub.stat_grants, locks = hub.stat_locks;

	running_cpu = cpu;
	if (members[cpu].stalled_until > now) {	/* its interrupt is late */
		event_add(members[cpu].stalled_until, is_timer ? HUB_TIMER : HUB_AGAIN, cpu,
			  timer_generation);
		return;
	}
	timers += is_timer;
	if (!is_timer)
		again_is_due = false;
	hub.lock.is_held = locked_until > now;
	is_timer ? bpshaper_hub_timer(&hub) : bpshaper_hub_ring(&hub);
	hub.lock.is_held = false;
	hub_held(grants, locks, cpu);
	hub_again();
}

/* The slot has got a packet. A qdisc is run when it gets one, on the sender's
 * CPU.
 */
static void slot_poke(struct sim_slot *s)
{
	struct sim_member *m = &members[s->member];

	slot_tell(s);
	if (m->is_gone || m->state == AWAKE)
		return;
	m->cpu = s->member;
	member_step_at(m, now);
}

static void slot_queue(struct sim_slot *s, struct packet packet)
{
	struct packet *queue;

	if (now >= measured_from)
		s->came += packet.len;
	s->backlog += packet.len;
	if (s->backlog == packet.len) {
		flow_join(s, &s->flow[0]);
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

static void slot_new_arrival(struct sim_slot *s, struct sim_flow *f)
{
	struct sim_member *m = &members[s->member];
	u32 packets = f->is_in_pairs ? 2 : 1;
	double gap = packets * f->len / f->demand;

	event_add(now + (f->is_paced ? gap : rnd_exp(gap)), NEW, s - slots, f - s->new);
	if (f->queued + packets > 16 || !s->is_on || m->is_gone)
		return;
	if (!f->queued)
		flow_join(s, f);
	while (packets--)
		f->at[f->queued++] = now;
	slot_poke(s);
}

static void slot_start(struct sim_slot *s)
{
	if (slot_is_greedy(s)) {
		for (u32 i = 0; i < s->flows; i++)
			flow_join(s, &s->flow[i]);
		slot_poke(s);
	} else
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
		if (s->is_on)
			s->on_since = now;
		else if (now > measured_from)
			s->on_ns += now - max(s->on_since, measured_from);
		event_add(now + rnd_exp(s->is_on ? s->on : s->off), TOGGLE,
			  s - slots, 0);
	}
	if (s->is_on)
		slot_start(s);
	else
		slot_tell(s);
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
	case TIMER:	/* of the member: the backstop */
		if (e->generation == m->generation && !m->is_gone) {
			backstops++;
			m->cpu = e->index;
		}
		/* fallthrough */
	case STEP:
		if (e->generation == m->generation && !m->is_gone)
			member_step(m);
		break;
	case HUB_TIMER:
		if (e->generation == timer_generation)
			hub_step(e->index, true);
		break;
	case HUB_AGAIN:
		hub_step(e->index, false);
		break;
	case ARRIVAL:
		slot_arrival(&slots[e->index]);
		break;
	case NEW:
		slot_new_arrival(&slots[e->index], &slots[e->index].new[e->generation]);
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

double sim_flow_share(int slot, int flow)
{
	return slots[slot].flow[flow].sent / (double)(end - measured_from) / link_Bns;
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

/* Part of the time for which it was on. */
double sim_slot_on(int slot)
{
	return slots[slot].on_ns / (double)(end - measured_from);
}

double sim_slot_gap_ms(int slot)
{
	return (double)slots[slot].longest / NSEC_PER_MSEC;
}

double sim_slot_share(int slot)
{
	return slots[slot].sent / (double)(end - measured_from) / link_Bns;
}

/* Does each class get what the law gives it from @bin on, for 2 ms? */
static bool bins_fit(int bin)
{
	double sum, all = 0, off;

	for (int c = 0; c < classes_len; c++)
		for (int i = 0; i < 4; i++)
			all += bins[c][bin + i];
	for (int c = 0; c < classes_len; c++) {
		sum = 0;
		for (int i = 0; i < 4; i++)
			sum += bins[c][bin + i];
		off = sum / all - tenants[c].share / 1e9 / link_Bns;
		if (fabs(off) > 0.06)
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
	u32 most = max(burst_all, sim_mtu);
	bool good = classes[SIM_CLASSES].level_most <= most + 0.01;

	for (int c = 0; c < classes_len; c++)
		if (classes[c].node.ceil.Bps)
			good &= classes[c].level_most <=
				classes[c].node.e.burst + 0.01;
	return good;
}

struct sim_result sim_run(double ms, double measured_from_ms)
{
	struct sim_result r = { .jain = 1 };
	double sum = 0, needed = 0, error;
	u64 grants, locks, revokes, posts;
	struct event e;

	classes[SIM_CLASSES].node.ceil = hub.tree.root.ceil;
	end = now + ms * NSEC_PER_MSEC;
	measured_from = now + measured_from_ms * NSEC_PER_MSEC;
	for (int i = 0; i < slots_len; i++) {
		struct sim_slot *s = &slots[i];

		s->is_on = !!s->on;
		event_add(now + s->from + rnd_below(NSEC_PER_MSEC / 5), TOGGLE,
			  i, 0);
		for (int j = 0; j < s->new_flows; j++)
			event_add(now + rnd_below(5 * NSEC_PER_MSEC), NEW, i, j);
	}
	if (sim_machine.stall_every)
		event_add(now, STALL, 0, 0);
	if (sim_machine.leave_every)
		event_add(now + NSEC_PER_MSEC, LEAVE, 0, 0);
	grants = locks = revokes = posts = 0;
	while (events_len && events[0].at < end) {
		e = event_next();
		if (now < measured_from && e.at >= measured_from) {
			packets = wakes = busy = looks = timers = held_ns = backstops = 0;
			grants = hub.stat_grants;
			locks = hub.stat_locks;
			revokes = hub.stat_revokes;
			posts = posted;
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
	posts = posted - posts;
	r.atomics = (2. * locks + grants + revokes + 2 * busy + posts) / packets;
	r.timers = (double)(timers + backstops) / packets;
	r.lock_busy = (double)held_ns / (end - measured_from);
	r.flow_least = 1e9;
	for (int i = 0; i < slots_len; i++)
		for (u32 j = 0; slot_is_greedy(&slots[i]) && !slots[i].off &&
				j < slots[i].flows; j++) {
			r.flow_least = min(r.flow_least, sim_flow_share(i, j));
			r.flow_most = max(r.flow_most, sim_flow_share(i, j));
		}
	r.locks = (double)locks / packets;
	r.looks = (double)looks / packets;
	r.wakes = (double)wakes / packets;
	r.is_lawful = laws_hold();
	return r;
}
