/* SPDX-License-Identifier: GPL-2.0-only */
/* Statistics: what a listing of classes says, and to whom. */

/**
 * struct bpshaper_listing - a walker and what it has seen
 * @walker: as the core passes it
 * @classes: classes listed
 * @peers: those of them that said whom the socket sends to
 * @is_filters: it looks for filters, as the core does when a class comes
 */
struct bpshaper_listing {
	struct qdisc_walker	walker;
	u32			classes;
	u32			peers;
	bool			is_filters;
};

static int bpshaper_listing_see(struct Qdisc *sch, unsigned long arg,
				struct qdisc_walker *w)
{
	struct bpshaper_listing *l;
	struct tcmsg tcm = {};

	l = container_of(w, struct bpshaper_listing, walker);
	if (l->is_filters)
		bpshaper_class_block(sch, arg, NULL);
	else
		bpshaper_dump_class(sch, arg, NULL, &tcm);
	l->classes++;
	l->peers += ((struct bpshaper_figures *)(arg - 1))->xstats.peer_family ==
		    AF_INET;
	return 0;
}

static struct bpshaper_listing bpshaper_bench_walk(struct bpshaper_bench *b,
						   bool is_filters)
{
	struct bpshaper_listing l = {
		.walker.fn	= bpshaper_listing_see,
		.is_filters	= is_filters,
	};

	rtnl_lock();
	bpshaper_walk(b->sch, &l.walker);
	rtnl_unlock();
	return l;
}

static struct bpshaper_listing bpshaper_bench_list(struct bpshaper_bench *b)
{
	return bpshaper_bench_walk(b, false);
}

/* The statistics of the qdisc, or of the class @arg, that the attribute @type has.
 * They are of @len bytes, and go to @to.
 */
static void bpshaper_bench_stats(struct kunit *test, struct Qdisc *sch, unsigned long arg,
				 int type, void *to, int len)
{
	struct sk_buff *skb = alloc_skb(4096, GFP_KERNEL);
	struct nlattr *nest, *a;
	struct gnet_dump d;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	KUNIT_ASSERT_EQ(test, gnet_stats_start_copy(skb, TCA_STATS2, NULL, &d, TCA_PAD), 0);
	nest = d.tail;
	rtnl_lock();
	KUNIT_EXPECT_EQ(test, arg ? bpshaper_dump_class_stats(sch, arg, &d) :
				    bpshaper_dump_stats(sch, &d), 0);
	rtnl_unlock();
	gnet_stats_finish_copy(&d);
	a = nla_find_nested(nest, type);
	KUNIT_ASSERT_NOT_NULL(test, a);
	KUNIT_ASSERT_EQ(test, nla_len(a), len);
	memcpy(to, nla_data(a), len);
	kfree_skb(skb);
}

/* Only a reader with CAP_NET_ADMIN sees whom others send to. */
static void bpshaper_listing_test(struct kunit *test)
{
	struct bpshaper_bench *b = test->priv;
	struct cred *cred = prepare_creds();
	struct bpshaper_listing l;
	const struct cred *old;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, cred);
	b->sk->sk_state = TCP_CLOSE;
	for (i = 0; i < 4; i++)		/* the first is the direct packet */
		bpshaper_bench_send(test, i);
	l = bpshaper_bench_list(b);
	KUNIT_EXPECT_EQ(test, l.classes, 3);
	KUNIT_EXPECT_EQ(test, l.peers, 3);
	/* Flows have no filters: one is enough to see that. */
	l = bpshaper_bench_walk(b, true);
	KUNIT_EXPECT_EQ(test, l.classes, 1);

	cap_lower(cred->cap_effective, CAP_NET_ADMIN);
	old = override_creds(cred);
	l = bpshaper_bench_list(b);
	revert_creds(old);
	put_cred(cred);
	KUNIT_EXPECT_EQ(test, l.classes, 3);
	KUNIT_EXPECT_EQ(test, l.peers, 0);
	bpshaper_bench_reset(b);
}

static struct kunit_case bpshaper_stats_cases[] = {
	KUNIT_CASE(bpshaper_listing_test),
	{}
};

BPSHAPER_SUITE(stats, bpshaper_bench_init, bpshaper_bench_exit);
