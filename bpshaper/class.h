/* SPDX-License-Identifier: GPL-2.0-only */
/* Classes: which one a packet goes to, and how they come, change and go.
 *
 * A class without children has a leaf (sched.h), which is served in the order
 * of tree.h. The leaf of the qdisc itself shares as a class of weight 1 without
 * a parent. When a class goes or gets its first child, its packets are purged,
 * as with htb: they are what it sends in its latency.
 *
 * Classes have no child qdiscs. They come and go under RTNL.
 */
#ifndef _BPSHAPER_CLASS_H
#define _BPSHAPER_CLASS_H

#define BPSHAPER_CLASS_BURST_NS	(2 * NSEC_PER_MSEC)

static struct kmem_cache *bpshaper_class_cachep __read_mostly;

/* Flows are listed as classes, too (stats.h). Their address is odd. */
static bool bpshaper_class_is_flow(unsigned long arg)
{
	return arg & 1;
}

/* Choosing: which leaf does a packet go to?
 *
 * A packet goes to the class that
 *
 *  1. skb->priority names, else
 *  2. the filters of the qdisc, and then those of a class with children that
 *     they choose, else
 *  3. `default` names,
 *
 * and else to the leaf of the qdisc itself. Packets find classes under the root
 * lock.
 */

#define BPSHAPER_CLASSIFY_STEPS	(BPSHAPER_DEPTH_MAX + 1)

static struct bpshaper_class *bpshaper_class_find(struct Qdisc *sch,
						  u32 classid)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct Qdisc_class_common *common;

	common = qdisc_class_find(&q->clhash, classid);
	return common ? container_of(common, struct bpshaper_class, common) :
			NULL;
}

/* What the qdisc, or this queue, has of the class. */
static struct bpshaper_class *bpshaper_class_part(struct Qdisc *sch,
						  struct bpshaper_class *cl)
{
	const struct bpshaper_sched *q = qdisc_priv(sch);

	return q->top == sch ? cl :
			       bpshaper_class_find(sch, cl->common.classid);
}

/* The class that a filter has chosen; NULL if there is none. */
static struct bpshaper_class *
bpshaper_class_chosen(struct Qdisc *sch, const struct tcf_result *res)
{
	struct bpshaper_class *cl = (struct bpshaper_class *)res->class;

	return cl ? bpshaper_class_part(sch, cl) :
		    bpshaper_class_find(sch, res->classid);
}

/* The leaf that the priority of a packet names; NULL if it names none. @cl is
 * set to the class with children that it names, or NULL.
 */
static inline struct bpshaper_leaf *
bpshaper_class_named(struct Qdisc *sch, struct sk_buff *skb,
		     struct bpshaper_class **cl)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u32 priority = skb->priority;

	*cl = NULL;
	if (TC_H_MAJ(priority ^ q->top->handle))
		return NULL;
	/* A qdisc of the same number may be behind an ifb. */
	if (skb_is_redirected(skb))
		skb->priority = 0;
	if (!TC_H_MIN(priority))
		return &q->own;
	*cl = bpshaper_class_find(sch, priority);
	return *cl && !(*cl)->children ? &(*cl)->own : NULL;
}

/* The leaf that the filters choose, those of @cl if it is not NULL, or default;
 * NULL if one has taken or dropped the packet, and then @ret is what enqueue()
 * is to return.
 */
static struct bpshaper_leaf *
bpshaper_class_choose(struct Qdisc *sch, struct sk_buff *skb,
		      struct bpshaper_class *cl, struct sk_buff **to_free,
		      int *ret)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	int steps = BPSHAPER_CLASSIFY_STEPS;
	u32 handle = q->top->handle;
	struct tcf_proto *filters;
	struct tcf_result res;
	int verdict;

	filters = cl ? rcu_dereference_bh(cl->whole->filters) :
		       rcu_dereference_bh(q->filters);
	while (filters && steps-- &&
	       (verdict = bpshaper_tcf_classify(skb, filters, &res)) >= 0) {
		switch (verdict) {
		case TC_ACT_QUEUED:
		case TC_ACT_STOLEN:
		case TC_ACT_TRAP:
			__qdisc_drop(skb, to_free);
			fallthrough;
		case TC_ACT_CONSUMED:	/* it is not ours any more */
			*ret = NET_XMIT_SUCCESS | __NET_XMIT_STOLEN;
			return NULL;
		case TC_ACT_SHOT:
			qdisc_qstats_drop(sch);
			__qdisc_drop(skb, to_free);
			*ret = NET_XMIT_SUCCESS | __NET_XMIT_BYPASS;
			return NULL;
		}
		if (res.classid == handle)
			return &q->own;
		cl = bpshaper_class_chosen(sch, &res);
		if (!cl)
			break;
		if (!cl->children)
			return &cl->own;
		filters = rcu_dereference_bh(cl->whole->filters);
	}
	/* No class has the number 0. */
	cl = bpshaper_class_find(sch, TC_H_MAKE(handle, q->default_minor));
	return cl && !cl->children ? &cl->own : &q->own;
}

/* Emptying a leaf: its class goes or gets its first child, or all packets go */

/* No packet finds the leaf any more, and nothing of it is sent: release its
 * sockets. Flows that wait for a time go back into its order: when it comes
 * they would let the slot join again.
 */
static void bpshaper_leaf_close(struct bpshaper_leaf *l)
{
	struct bpshaper_flows *flows = &l->flows;
	struct bpshaper_tag *first;

	bpshaper_backpressure_release_all(&l->bp, ktime_get_ns());
	bpshaper_leaf_stop_ticking(l);
	list_del_init(&l->overlimit_node);
	if (l->q->direct_leaf == l)
		l->q->direct_leaf = &l->q->own;
	while ((first = bpshaper_tag_first(&flows->waiting)))
		bpshaper_flow_wake(flows, container_of(first,
						       struct bpshaper_flow,
						       order));
	if (l->slot.member)
		bpshaper_slot_leave(&l->slot);
}

/* Free the packets of a leaf that was closed, and forget its flows: some in
 * each hold of the root lock.
 */
static void bpshaper_leaf_purge(struct Qdisc *sch, struct bpshaper_leaf *l)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	u32 pkts, bytes;
	bool is_empty;

	do {
		sch_tree_lock(sch);
		pkts = l->flows.qlen;
		bytes = l->flows.backlog;
		is_empty = bpshaper_flows_purge(&l->flows, BPSHAPER_FLOW_STEPS);
		pkts -= l->flows.qlen;
		bytes -= l->flows.backlog;
		WRITE_ONCE(sch->q.qlen, sch->q.qlen - pkts);
		WRITE_ONCE(sch->qstats.backlog, sch->qstats.backlog - bytes);
		q->stat_purged += pkts;
		qdisc_tree_reduce_backlog(sch, pkts, bytes);
		sch_tree_unlock(sch);
		cond_resched();
	} while (!is_empty);
}

/* Options */

/* At least two packets: a smaller bucket is full before a packet of another
 * class has left, and loses tokens.
 */
static u32 bpshaper_class_burst(const struct bpshaper_sched *q,
				const struct bpshaper_class_config *c)
{
	u32 least = BPSHAPER_BURST_PKTS *
		    bpshaper_wire_framed_len(&q->wire, q->mtu);
	struct bpshaper_rate ceil;

	if (c->burst)
		return max(c->burst, least);
	bpshaper_rate_set(&ceil, c->ceil_Bps);
	return max(bpshaper_Bps_bytes(ceil.Bps, BPSHAPER_CLASS_BURST_NS),
		   least);
}

/* The sums that the floor of a child of @parent counts in. */
static u64 *bpshaper_class_floors(struct bpshaper_sched *q,
				  struct bpshaper_class *parent)
{
	return parent ? parent->floors_Bps : q->floors_Bps;
}

/* What the floor of the class counts for if all its siblings need theirs. It
 * calls itself for each level.
 */
static u64 bpshaper_class_floor_in_effect(struct bpshaper_sched *q,
					  struct bpshaper_class *cl)
{
	u64 *floors = bpshaper_class_floors(q, cl->parent);
	u64 most = cl->parent ? bpshaper_class_floor_in_effect(q, cl->parent) :
				q->rate.Bps ?: U64_MAX;
	u64 Bps = cl->config.floor_Bps, sum = floors[cl->config.overcommit];
	int shift;

	if (cl->config.overcommit)
		most -= min(most, floors[0]);
	if (sum <= most)
		return Bps;
	shift = max(fls64(Bps) + fls64(most) - 64, 0);
	return div64_u64((Bps >> shift) * most, sum >> shift);
}

/* Life
 *
 * The parts that the queues have of a class come after it and go before it.
 */

/* The class, or a queue's part of it, is there from now on. With the first the
 * leaf of the qdisc is one of several.
 */
static void bpshaper_class_link(struct Qdisc *sch, struct bpshaper_class *cl)
{
	struct bpshaper_class *parent = cl->parent;
	struct bpshaper_sched *q = qdisc_priv(sch);
	bool is_first = !bpshaper_has_classes(q);
	struct bpshaper_leaf *own = &q->own;

	if (!q->queues)
		bpshaper_leaf_share(&cl->own, &cl->whole->node);
	qdisc_class_hash_insert(&q->clhash, &cl->common);
	list_add_tail(&cl->list, &q->classes);
	if (is_first && !q->queues) {
		bpshaper_leaf_set_Bps(own, bpshaper_leaf_expected_Bps(own));
		q->direct_max = 0;
		bpshaper_leaf_update(own, ktime_get_ns());
	}
	if (parent && !parent->children++)
		bpshaper_leaf_close(&parent->own);
}

/* Apply options to a class, and those of the qdisc that it follows. They may be
 * the old ones, with another MTU. If it is new, @parts of it come for each
 * queue, or it is its own. One lock at a time.
 */
static void bpshaper_class_set(struct Qdisc *sch, struct bpshaper_class *cl,
			       const struct bpshaper_class_config *c,
			       struct bpshaper_class **parts)
{
	struct bpshaper_sched *q = qdisc_priv(sch), *one;
	u64 *floors = bpshaper_class_floors(q, cl->parent);
	struct bpshaper_tree *tree = &q->hub->tree;
	u32 burst = bpshaper_class_burst(q, c), i;
	struct bpshaper_rate ceil;
	struct bpshaper_leaf *l;
	unsigned long flags;
	struct Qdisc *queue;

	floors[cl->config.overcommit] -= cl->config.floor_Bps;
	floors[c->overcommit] += c->floor_Bps;
	bpshaper_hub_lock(q->hub, &flags);
	if (parts)
		bpshaper_node_init(&cl->node, cl->parent ? &cl->parent->node :
						 &tree->root);
	bpshaper_node_change(tree, &cl->node);
	bpshaper_node_set_order(&cl->node, c->prio, c->weight);
	bpshaper_node_set_floor(tree, &cl->node, c->floor_Bps, c->overcommit);
	if (burst != cl->burst || c->ceil_Bps != cl->config.ceil_Bps) {
		cl->burst = burst;
		bpshaper_rate_set(&ceil, c->ceil_Bps);
		bpshaper_node_set_ceil(tree, &cl->node, &ceil, burst);
	}
	cl->config = *c;
	bpshaper_node_offer(tree, &cl->node);
	bpshaper_hub_unlock(q->hub, flags);
	if (parts && q->queues)
		bpshaper_class_link(sch, cl);
	for (i = 0; (queue = bpshaper_queue(sch, i)); i++) {
		one = qdisc_priv(queue);
		sch_tree_lock(queue);
		if (parts)
			bpshaper_class_link(queue, parts[i]);
		l = &bpshaper_class_part(queue, cl)->own;
		l->limit_set = c->limit;
		l->latency_ns = c->latency_ns;
		bpshaper_flows_configure(&l->flows, one->own.flows.quantum);
		bpshaper_backpressure_set_on(&l->bp, one->own.bp.is_on &&
					     c->backpressure, ktime_get_ns());
		bpshaper_leaf_renew_limit(l);
		bpshaper_watchdog_stop(one);
		sch_tree_unlock(queue);
	}
}

/* The class, or a queue's part of it, goes. Keep what it has counted. */
static void bpshaper_class_unlink(struct Qdisc *sch, struct bpshaper_class *cl)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_leaf *from = &cl->own, *to = &q->own;

	bpshaper_leaf_close(from);
	qdisc_class_hash_remove(&q->clhash, &cl->common);
	list_del(&cl->list);
	bpshaper_counters_add(&to->flows.stat, &from->flows.stat,
			      sizeof(to->flows.stat));
	if (cl->parent)
		cl->parent->children--;
	if (bpshaper_has_classes(q) || q->queues)
		return;
	q->direct_max = bpshaper_derive_direct_max(q);
	bpshaper_leaf_apply_limit(to, q->limit,
				  bpshaper_rate_cost_ns(&q->rate, q->limit));
}

/* A class, or, with @whole, what the queue @sch is to have of it. */
static struct bpshaper_class *
bpshaper_class_alloc(struct Qdisc *sch, u32 classid,
		     struct bpshaper_class *parent,
		     struct bpshaper_class *whole)
{
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_class *cl;

	cl = kmem_cache_zalloc(bpshaper_class_cachep, GFP_KERNEL);
	if (!cl)
		return NULL;
	cl->common.classid = classid;
	cl->whole = whole ?: cl;
	cl->parent = parent ? bpshaper_class_part(sch, parent) : NULL;
	bpshaper_leaf_init(&cl->own, q, sch, &q->table);
	return cl;
}

static int bpshaper_class_add(struct Qdisc *sch, u32 classid,
			      struct bpshaper_class *parent,
			      const struct bpshaper_class_config *c,
			      unsigned long *arg,
			      struct netlink_ext_ack *extack)
{
	struct bpshaper_sched *q = qdisc_priv(sch), *one;
	struct bpshaper_class *cl, **parts;
	int err = -ENOMEM;
	struct Qdisc *queue;
	u32 i, len = 0;

	cl = bpshaper_class_alloc(sch, classid, parent, NULL);
	parts = kcalloc(qdisc_dev(sch)->num_tx_queues, sizeof(*parts),
			GFP_KERNEL);
	if (!cl || !parts)
		goto err_free;
	/* Without queues the class is its only part. */
	for (len = 0; (queue = bpshaper_queue(sch, len)); len++) {
		parts[len] = q->queues ? bpshaper_class_alloc(queue, classid,
							      parent, cl) : cl;
		if (!parts[len])
			goto err_free;
	}
	err = tcf_block_get(&cl->block, &cl->filters, sch, extack);
	if (!err && !q->hub)
		err = bpshaper_hub_make(sch);
	if (err)
		goto err_free;

	bpshaper_class_set(sch, cl, c, parts);
	for (i = 0; i < len; i++) {
		queue = bpshaper_queue(sch, i);
		one = qdisc_priv(queue);
		qdisc_class_hash_grow(queue, &one->clhash);
		if (parent)
			bpshaper_leaf_purge(queue, &parts[i]->parent->own);
	}
	kfree(parts);
	if (q->queues)
		qdisc_class_hash_grow(sch, &q->clhash);
	bpshaper_queues_schedule(sch);
	*arg = (unsigned long)cl;
	return 0;

err_free:
	while (q->queues && len--)
		kmem_cache_free(bpshaper_class_cachep, parts[len]);
	kfree(parts);
	if (cl) {
		tcf_block_put(cl->block);
		kmem_cache_free(bpshaper_class_cachep, cl);
	}
	return err;
}

static int bpshaper_class_change(struct Qdisc *sch, u32 classid, u32 parentid,
				 struct nlattr **tca, unsigned long *arg,
				 struct netlink_ext_ack *extack)
{
	struct bpshaper_class *cl = (struct bpshaper_class *)*arg, *parent;
	struct bpshaper_sched *q = qdisc_priv(sch);
	struct bpshaper_class_config config;
	int is_htb = 0, err = 0;
	u64 floors[2];

	if (cl)
		config = cl->config;
	else
		config = bpshaper_class_defaults;
	if (tca[TCA_OPTIONS]) {
		is_htb = bpshaper_class_config_parse(&config, tca[TCA_OPTIONS],
						     q->config.r2q, extack);
		if (is_htb < 0)
			return is_htb;
	}
	if (tca[TCA_RATE]) {
		NL_SET_ERR_MSG_MOD(extack,
				   "classes have no rate estimator; \"rate\" of tc -s is what a class gets");
		if (!is_htb)
			return -EOPNOTSUPP;
	}
	if (config.burst && config.burst < bpshaper_class_burst(q, &config))
		NL_SET_ERR_MSG_MOD(extack,
				   "burst of a class is two packets of the MTU at least");
	parent = cl ? cl->parent : bpshaper_class_find(sch, parentid);
	if (is_htb && !parent && config.floor_Bps &&
	    config.ceil_Bps != config.floor_Bps) {
		config.ceil_Bps = config.floor_Bps;
		NL_SET_ERR_MSG_MOD(extack,
				   "a class of htb without a parent gets its rate at most");
	}
	if (parentid && (parent ? parentid != parent->common.classid :
				  parentid != TC_H_ROOT &&
				  parentid != sch->handle)) {
		if (cl)
			NL_SET_ERR_MSG_MOD(extack,
					   "a class cannot move to another parent");
		else
			NL_SET_ERR_MSG_MOD(extack,
					   "there is no such parent class");
		if (!is_htb)
			return cl ? -EINVAL : -ENOENT;
	}
	if (!cl && (TC_H_MAJ(classid ^ sch->handle) || !TC_H_MIN(classid)))
		return bpshaper_refuse(extack, -EINVAL,
				       "classid must have the number of the qdisc before the colon, and one of its own after it; what is listed without one is a flow");
	if (!cl && parent && parent->node.e.level >= BPSHAPER_DEPTH_MAX)
		return bpshaper_refuse(extack, -EINVAL,
				       "classes have 8 levels at most");
	/* Is the parent's floor large enough for this one, and this one for
	 * those of the children?
	 */
	memcpy(floors, bpshaper_class_floors(q, parent), sizeof(floors));
	if (cl)
		floors[cl->config.overcommit] -= cl->config.floor_Bps;
	floors[config.overcommit] += config.floor_Bps;
	if (config.floor_Bps)
		err = bpshaper_floors_check(floors,
					    parent ? parent->config.floor_Bps :
						     q->rate.Bps ?: U64_MAX,
					    extack);
	if (!err && cl)
		err = bpshaper_floors_check(cl->floors_Bps, config.floor_Bps,
					    extack);
	if (err)
		return err;
	if (!cl)
		return bpshaper_class_add(sch, classid, parent, &config, arg,
					  extack);
	bpshaper_class_set(sch, cl, &config, NULL);
	bpshaper_queues_schedule(sch);
	return 0;
}

static int bpshaper_class_remove(struct Qdisc *sch, unsigned long arg,
				 struct netlink_ext_ack *extack)
{
	struct bpshaper_class *cl = (struct bpshaper_class *)arg, *part;
	struct bpshaper_sched *q = qdisc_priv(sch);
	unsigned long flags;
	struct Qdisc *queue;
	u32 i;

	if (cl->children)
		return bpshaper_refuse(extack, -EBUSY,
				       "the class has children");
	if (cl->refs)
		return bpshaper_refuse(extack, -EBUSY,
				       "a filter refers to the class");
	bpshaper_class_floors(q, cl->parent)[cl->config.overcommit] -=
		cl->config.floor_Bps;
	for (i = 0; (queue = bpshaper_queue(sch, i)); i++) {
		part = bpshaper_class_part(queue, cl);
		sch_tree_lock(queue);
		bpshaper_class_unlink(queue, part);
		bpshaper_watchdog_stop(qdisc_priv(queue));
		sch_tree_unlock(queue);
		bpshaper_leaf_purge(queue, &part->own);
		if (part != cl)
			kmem_cache_free(bpshaper_class_cachep, part);
	}
	bpshaper_hub_lock(q->hub, &flags);
	bpshaper_node_change(&q->hub->tree, &cl->node);
	bpshaper_hub_unlock(q->hub, flags);
	if (q->queues)
		bpshaper_class_unlink(sch, cl);
	bpshaper_queues_schedule(sch);
	tcf_block_put(cl->block);
	kmem_cache_free(bpshaper_class_cachep, cl);
	return 0;
}

#ifdef BPSHAPER_LACKS_DELETE_EXTACK	/* before 5.12 */
static int bpshaper_class_delete(struct Qdisc *sch, unsigned long arg)
{
	return bpshaper_class_remove(sch, arg, NULL);
}
#else
#define bpshaper_class_delete	bpshaper_class_remove
#endif

/* The qdisc forgets its classes, or a queue its parts of them. */
static void bpshaper_classes_free(struct bpshaper_sched *q)
{
	struct bpshaper_class *cl, *next;

	list_for_each_entry_safe(cl, next, &q->classes, list) {
		qdisc_class_hash_remove(&q->clhash, &cl->common);
		list_del(&cl->list);
		kmem_cache_free(bpshaper_class_cachep, cl);
	}
}

/* Filters */

/* The filters of the class, or of the qdisc if @arg is 0. */
static struct tcf_block *bpshaper_class_block(struct Qdisc *sch,
					      unsigned long arg,
					      struct netlink_ext_ack *extack)
{
	struct bpshaper_sched *q = qdisc_priv(sch);

	if (bpshaper_class_is_flow(arg))
		return NULL;
	return arg ? ((struct bpshaper_class *)arg)->block : q->block;
}

/* The first filter of the qdisc is @filters now, or NULL. */
static void bpshaper_filters_change(struct tcf_proto *filters, void *priv)
{
	struct bpshaper_sched *q;
	struct Qdisc *queue;
	u32 i;

	for (i = 0; (queue = bpshaper_queue(priv, i)); i++) {
		q = qdisc_priv(queue);
		sch_tree_lock(queue);
		rcu_assign_pointer(q->filters, filters);
		q->direct_max = bpshaper_derive_direct_max(q);
		sch_tree_unlock(queue);
	}
}

static unsigned long bpshaper_class_bind(struct Qdisc *sch,
					 unsigned long parent, u32 classid)
{
	struct bpshaper_class *cl = bpshaper_class_find(sch, classid);

	if (cl)
		cl->refs++;
	return (unsigned long)cl;
}

static void bpshaper_class_unbind(struct Qdisc *sch, unsigned long arg)
{
	struct bpshaper_class *cl = (struct bpshaper_class *)arg;

	if (cl)
		cl->refs--;
}

/* Child qdiscs */

static struct Qdisc *bpshaper_class_child(struct Qdisc *sch, unsigned long arg)
{
	return NULL;
}

static int bpshaper_class_graft(struct Qdisc *sch, unsigned long arg,
				struct Qdisc *new, struct Qdisc **old,
				struct netlink_ext_ack *extack)
{
	return bpshaper_refuse(extack, -EOPNOTSUPP,
			       "a class has fair queues of its own, and no child qdisc");
}

static unsigned long bpshaper_class_search(struct Qdisc *sch, u32 classid)
{
	return (unsigned long)bpshaper_class_find(sch, classid);
}

#endif /* _BPSHAPER_CLASS_H */
