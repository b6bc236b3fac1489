/* SPDX-License-Identifier: GPL-2.0-only */
/* Options: attributes to values and back. */

static void bpshaper_test_set(struct bpshaper_config *c, int attr, u64 value)
{
	const struct bpshaper_option *o = &bpshaper_options[attr];

	if (o->type == NLA_U64)
		*(u64 *)((void *)c + o->offset) = value;
	else
		*(u32 *)((void *)c + o->offset) = value;
}

/* Parse one attribute, as change() does. */
static int bpshaper_test_parse(struct kunit *test, struct bpshaper_config *c,
			       int attr, u64 value,
			       struct netlink_ext_ack *extack)
{
	struct sk_buff *skb = alloc_skb(256, GFP_KERNEL);
	struct nlattr *nest;
	int err;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	nest = nla_nest_start(skb, TCA_OPTIONS);
	err = bpshaper_options[attr].type == NLA_U64 ?
		nla_put_u64_64bit(skb, attr, value, TCA_BPSHAPER_PAD) :
		nla_put_u32(skb, attr, value);
	KUNIT_ASSERT_EQ(test, err, 0);
	nla_nest_end(skb, nest);
	err = bpshaper_config_parse(c, nest, extack);
	kfree_skb(skb);
	return err;
}

/* Is it the range that the value is refused for? */
static bool bpshaper_test_is_out_of_range(struct kunit *test, int attr,
					  u64 value)
{
	struct netlink_ext_ack extack = {};
	struct bpshaper_config c = bpshaper_defaults;
	int err;

	err = bpshaper_test_parse(test, &c, attr, value, &extack);
	if (err == -ERANGE)
		KUNIT_EXPECT_PTR_EQ(test, extack._msg,
				    bpshaper_options[attr].message);
	return err == -ERANGE;
}

/* Each row of the table: its bounds are valid, what lies beyond is not. */
static void bpshaper_range_test(struct kunit *test)
{
	const struct bpshaper_option *o;
	u64 most;
	int i;

	for (i = TCA_BPSHAPER_RATE64; i <= TCA_BPSHAPER_MAX; i++) {
		o = &bpshaper_options[i];
		most = o->type == NLA_U64 ? U64_MAX : U32_MAX;
		KUNIT_EXPECT_NOT_NULL(test, o->message);
		KUNIT_EXPECT_FALSE(test, bpshaper_test_is_out_of_range(test, i,
								       o->min));
		KUNIT_EXPECT_FALSE(test, bpshaper_test_is_out_of_range(test, i,
								       o->max));
		if (o->min)
			KUNIT_EXPECT_TRUE(test,
					  bpshaper_test_is_out_of_range(test, i,
									o->min - 1));
		if (o->max < most)
			KUNIT_EXPECT_TRUE(test,
					  bpshaper_test_is_out_of_range(test, i,
									o->max + 1));
		if (o->type == NLA_U64)
			KUNIT_EXPECT_EQ(test, o->may_be_unlimited,
					!bpshaper_test_is_out_of_range(test, i,
								       U64_MAX));
	}
}

/* A dump has all options, but of those that may be unset only those that are
 * set. No two options have the same place.
 */
static void bpshaper_dump_test(struct kunit *test)
{
	struct sk_buff *skb = alloc_skb(1024, GFP_KERNEL);
	const struct bpshaper_option *o;
	struct bpshaper_config c = {};
	const struct nlattr *a;
	int i, unset;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	for (unset = 0; unset < 2; unset++) {
		for (i = TCA_BPSHAPER_RATE64; i <= TCA_BPSHAPER_MAX; i++)
			bpshaper_test_set(&c, i, unset ? 0 : i);
		skb_trim(skb, 0);
		KUNIT_EXPECT_GT(test, bpshaper_options_dump(skb, bpshaper_options,
							    TCA_BPSHAPER_MAX, &c), 0);
		for (i = TCA_BPSHAPER_RATE64; i <= TCA_BPSHAPER_MAX; i++) {
			o = &bpshaper_options[i];
			a = nla_find_nested((struct nlattr *)skb->data, i);
			KUNIT_EXPECT_EQ(test, !a, unset && (o->min || o->is_dumped_if_set));
			if (a)
				KUNIT_EXPECT_EQ(test, o->type == NLA_U64 ? nla_get_u64(a) :
						nla_get_u32(a), unset ? 0 : i);
		}
	}
	kfree_skb(skb);
}

static void bpshaper_test_change(struct kunit *test, struct bpshaper_config *c,
				 int attr, u64 value, int err)
{
	KUNIT_EXPECT_EQ(test, bpshaper_test_parse(test, c, attr, value, NULL),
			err);
}

/* What an option replaces, and what goes with the rate. */
static void bpshaper_replace_test(struct kunit *test)
{
	struct bpshaper_config c = bpshaper_defaults;

	bpshaper_test_change(test, &c, TCA_BPSHAPER_LATENCY, 1000, -EINVAL);
	c = bpshaper_defaults;
	bpshaper_test_change(test, &c, TCA_BPSHAPER_RATE64, 1000, 0);
	bpshaper_test_change(test, &c, TCA_BPSHAPER_LIMIT, 5000, 0);
	bpshaper_test_change(test, &c, TCA_BPSHAPER_LATENCY, 1000, 0);
	KUNIT_EXPECT_EQ(test, c.limit, 0);
	bpshaper_test_change(test, &c, TCA_BPSHAPER_PEAKRATE64, 1000, -EINVAL);
	bpshaper_test_change(test, &c, TCA_BPSHAPER_PEAKRATE64, 2000, 0);
	bpshaper_test_change(test, &c, TCA_BPSHAPER_RATE64,
			     TC_BPSHAPER_RATE_UNLIMITED, 0);
	KUNIT_EXPECT_EQ(test, c.latency_ns, 0);
	KUNIT_EXPECT_EQ(test, c.peakrate_Bps, TC_BPSHAPER_RATE_UNLIMITED);
}

static struct kunit_case bpshaper_config_cases[] = {
	KUNIT_CASE(bpshaper_range_test),
	KUNIT_CASE(bpshaper_dump_test),
	KUNIT_CASE(bpshaper_replace_test),
	{}
};

BPSHAPER_SUITE(config, NULL, NULL);
