/* SPDX-License-Identifier: GPL-2.0-only */
/* Groups: qdiscs of a device that share one bucket.
 *
 * Each member has a queue, flows and a root lock of its own. Members share the
 * bucket (bpshaper_reservation.h), and the options that it follows from. A
 * group exists as long as it has a member.
 *
 * RTNL protects struct bpshaper_group, apart from @tat_ns and @waiting, which
 * packets use without a lock. The root lock of its qdisc protects a member.
 * bpshaper_apply.h changes the options of a group.
 */
#ifndef _BPSHAPER_GROUP_H
#define _BPSHAPER_GROUP_H

/* Queues of a device. A member that leaves is work for all others. */
#define BPSHAPER_MEMBERS_MAX	1024

/**
 * struct bpshaper_shared - options that the members of a group share
 * @rate_Bps: as in struct bpshaper_config, like the next four
 * @burst: as asked for, or 0
 * @overhead: bytes
 * @mpu: bytes
 * @linklayer: TC_LINKLAYER_*
 * @mtu: bytes, of the device when the reservations were derived
 */
struct bpshaper_shared {
	u64	rate_Bps;
	u32	burst;
	u32	overhead;
	u32	mpu;
	u32	linklayer;
	u32	mtu;
};

/**
 * struct bpshaper_group - a bucket that several qdiscs of a device share
 * @tat_ns: theoretical arrival time of the bucket
 * @waiting: members that wait for tokens, or have not run empty since they did
 * @node: in bpshaper_groups
 * @dev: the device
 * @id: number that the user gave it
 * @shared: options that are the same for all members
 * @members: its members
 * @members_len: number of @members
 * @rcu: delays the release, as the core delays that of a qdisc
 */
struct bpshaper_group {
	atomic64_t		tat_ns ____cacheline_aligned_in_smp;
	atomic_t		waiting ____cacheline_aligned_in_smp;
	struct list_head	node;
	struct net_device	*dev;
	u32			id;
	struct bpshaper_shared	shared;
	struct list_head	members;
	u32			members_len;
	struct rcu_head		rcu;
};

/**
 * struct bpshaper_member - a qdisc as a member of its group
 * @reservation: what it holds of the bucket
 * @group: its group, or NULL
 * @sch: the qdisc
 * @node: in the members of a group
 * @mtu_wire_len: bytes on the wire of a packet of the MTU
 * @is_waiting: counted in the group's @waiting
 */
struct bpshaper_member {
	struct bpshaper_reservation	reservation;
	struct bpshaper_group		*group;
	struct Qdisc			*sch;
	struct list_head		node;
	u32				mtu_wire_len;
	bool				is_waiting;
};

static void bpshaper_member_init(struct bpshaper_member *m, struct Qdisc *sch)
{
	m->sch = sch;
}

/* A group of @members has @burst; @mtu_wire_len is that of a packet of the MTU
 * on the wire. Return false if the burst is too small for as many members.
 */
static bool bpshaper_member_configure(struct bpshaper_member *m,
				      const struct bpshaper_rate *r, u32 burst,
				      u32 mtu_wire_len, u32 members)
{
	m->mtu_wire_len = mtu_wire_len;
	return bpshaper_reservation_set(&m->reservation, r, burst, mtu_wire_len,
					members);
}

/* Packets: under the root lock of the member's qdisc */

/* What may wait in a qdisc with @limit: members that wait have an equal part
 * each, but at least two packets.
 */
static inline u32 bpshaper_member_limit(const struct bpshaper_member *m,
					u32 limit)
{
	u32 waiting;

	if (likely(!m->group))
		return limit;
	waiting = atomic_read(&m->group->waiting);
	return max(limit / max(waiting, 1U), min(limit, 2 * m->mtu_wire_len));
}

/* Take the tokens for @len bytes; false if they may not leave yet. @batch is
 * what the group may send before the window is half empty. A waiting member
 * asks for an equal part of it, but for at least a packet. @due is the backlog
 * that could leave.
 */
static bool bpshaper_member_take(struct bpshaper_member *m,
				 const struct bpshaper_rate *r, u32 len,
				 u32 batch, u32 due, u64 now)
{
	u32 waiting = atomic_read(&m->group->waiting);
	u32 mine = max(batch / max(waiting, 1U), m->mtu_wire_len);
	u32 portion = bpshaper_reservation_portion(&m->reservation, mine, due);

	if (!bpshaper_reservation_take(&m->reservation, &m->group->tat_ns, r,
				       len, portion, now))
		return false;
	trace_group_send(m->sch, len, now);
	return true;
}

/* When what the member has reserved may leave, or only a packet of @len bytes
 * if @is_single. While the group is changed it holds nothing: look again after
 * @retry_ns.
 */
static u64 bpshaper_member_wake_ns(struct bpshaper_member *m,
				   const struct bpshaper_rate *r, u32 len,
				   bool is_single, u64 retry_ns, u64 now)
{
	u64 held_ns = bpshaper_reservation_held_ns(&m->reservation);
	u64 cost_ns = is_single ? bpshaper_rate_cost_ns(r, len) : held_ns;
	u64 ready_ns = bpshaper_reservation_ready_ns(&m->reservation,
						     min(cost_ns, held_ns));

	if (!m->is_waiting) {
		m->is_waiting = true;
		atomic_inc(&m->group->waiting);
	}
	return ready_ns > now ? ready_ns : now + retry_ns;
}

/* The member has nothing to send: stop waiting and return unused tokens. */
static noinline void bpshaper_member_set_idle(struct bpshaper_member *m)
{
	if (!m->is_waiting)
		return;
	bpshaper_reservation_return(&m->reservation, &m->group->tat_ns);
	atomic_dec(&m->group->waiting);
	m->is_waiting = false;
}

/* Leave the old group, if any, for @g, which may be NULL. */
static void bpshaper_member_set_group(struct bpshaper_member *m,
				      struct bpshaper_group *g)
{
	bpshaper_member_set_idle(m);
	memset(&m->reservation, 0, sizeof(m->reservation));
	m->group = g;
}

/* Membership: under RTNL */

static LIST_HEAD(bpshaper_groups);

static struct bpshaper_group *bpshaper_group_find(const struct net_device *dev,
						  u32 id)
{
	struct bpshaper_group *g;

	ASSERT_RTNL();
	list_for_each_entry(g, &bpshaper_groups, node)
		if (g->dev == dev && g->id == id)
			return g;
	return NULL;
}

/* Make a group without members. bpshaper_group_add() makes it known. */
static struct bpshaper_group *bpshaper_group_create(struct net_device *dev,
						    u32 id)
{
	struct bpshaper_group *g = kzalloc(sizeof(*g), GFP_KERNEL_ACCOUNT);

	if (!g)
		return NULL;
	g->dev = dev;
	g->id = id;
	INIT_LIST_HEAD(&g->node);
	INIT_LIST_HEAD(&g->members);
	return g;
}

static void bpshaper_group_add(struct bpshaper_group *g,
			       struct bpshaper_member *m)
{
	list_add_tail(&m->node, &g->members);
	if (!g->members_len++)
		list_add_tail(&g->node, &bpshaper_groups);
}

static void bpshaper_group_del(struct bpshaper_group *g,
			       struct bpshaper_member *m)
{
	list_del(&m->node);
	if (!--g->members_len)
		list_del(&g->node);
}

static u32 bpshaper_group_members(const struct bpshaper_group *g)
{
	return g ? g->members_len : 0;
}

/* How many members there will be with @sch, which is none yet. The qdisc that
 * @sch replaces does not count.
 */
static u32 bpshaper_group_members_with(const struct bpshaper_group *g,
				       const struct Qdisc *sch)
{
	const struct bpshaper_member *m;
	u32 members = g->members_len + 1;

	list_for_each_entry(m, &g->members, node)
		members -= m->sch->parent == sch->parent;
	return members;
}

static bool bpshaper_shared_differs(const struct bpshaper_shared *a,
				    const struct bpshaper_shared *b)
{
	return a->rate_Bps != b->rate_Bps || a->burst != b->burst ||
	       a->overhead != b->overhead || a->mpu != b->mpu ||
	       a->linklayer != b->linklayer || a->mtu != b->mtu;
}

static void bpshaper_group_set_shared(struct bpshaper_group *g,
				      const struct bpshaper_shared *shared)
{
	g->shared = *shared;
}

/* Schedule all members that have a backlog. */
static void bpshaper_group_wake(const struct bpshaper_group *g)
{
	struct bpshaper_member *m;

	list_for_each_entry(m, &g->members, node)
		if (READ_ONCE(m->sch->q.qlen))
			__netif_schedule(qdisc_root(m->sch));
}

/* The shared options change: take all reservations back. Until
 * bpshaper_group_open() no member may send or ask.
 */
static void bpshaper_group_close(struct bpshaper_group *g)
{
	struct bpshaper_member *m;

	atomic64_set(&g->tat_ns, BPSHAPER_BUCKET_CLOSED);
	list_for_each_entry(m, &g->members, node) {
		if (m->group != g)	/* it is about to join */
			continue;
		sch_tree_lock(m->sch);
		memset(&m->reservation, 0, sizeof(m->reservation));
		sch_tree_unlock(m->sch);
	}
}

/* Start with an empty bucket and forgive debt, as bpshaper_bucket_set() does.
 */
static void bpshaper_group_open(struct bpshaper_group *g)
{
	struct bpshaper_member *m;

	m = list_first_entry(&g->members, struct bpshaper_member, node);
	atomic64_set(&g->tat_ns, ktime_get_ns() + m->reservation.window_ns);
	bpshaper_group_wake(g);
}

/* Start with a full bucket: the first member is new. */
static void bpshaper_group_fill(struct bpshaper_group *g)
{
	atomic64_set(&g->tat_ns, 0);
}

/* Tokens in the bucket, bytes; negative if members wait for them. */
static s64 bpshaper_member_tokens(const struct bpshaper_member *m,
				  const struct bpshaper_rate *r, u64 now)
{
	u64 tat_ns = max_t(u64, atomic64_read(&m->group->tat_ns), now);
	u64 full_ns = now + m->reservation.window_ns;

	return full_ns >= tat_ns ?
		(s64)bpshaper_rate_bytes(r, full_ns - tat_ns) :
		-(s64)bpshaper_rate_bytes(r, tat_ns - full_ns);
}

#endif /* _BPSHAPER_GROUP_H */
