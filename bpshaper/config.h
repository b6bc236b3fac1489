/* SPDX-License-Identifier: GPL-2.0-only */
/* Options: what the user asked for.
 *
 * bpshaper_options[] has one row for each option of the qdisc,
 * bpshaper_class_options[] one for each of a class. Policy, ranges, parse and
 * dump are loops over them. What follows from the options is in apply.h and
 * class.h.
 */
#ifndef _BPSHAPER_CONFIG_H
#define _BPSHAPER_CONFIG_H

/**
 * struct bpshaper_option - an option and its attribute
 * @type: NLA_U32 or NLA_U64; 0 of an attribute that is no option
 * @offset: of its value in struct bpshaper_config, or in struct
 *	bpshaper_class_config
 * @min: least value; 0 is not set, and not dumped, if it is less
 * @max: largest value
 * @may_be_unlimited: TC_BPSHAPER_RATE_UNLIMITED and TC_BPSHAPER_CE_NEVER, which
 *	are the same number, are above @max and valid
 * @is_dumped_if_set: do not dump 0 although it is valid
 * @message: for the user if the value is out of range
 */
struct bpshaper_option {
	u8		type;
	u8		offset;
	u64		min;
	u64		max;
	bool		may_be_unlimited;
	bool		is_dumped_if_set;
	const char	*message;
};

#define BPSHAPER_OPTION(kind, attr, field, bits, least, most, text, ...) \
	[TCA_BPSHAPER_##attr] = {					\
		.type = NLA_U##bits,					\
		.offset = offsetof(struct bpshaper_##kind, field),	\
		.min = least, .max = most,				\
		.message = KBUILD_MODNAME ": " text, ##__VA_ARGS__ }

#define BPSHAPER_RATE_OPTION(kind, attr, field, word)			\
	BPSHAPER_OPTION(kind, attr, field, 64, TC_BPSHAPER_RATE_MIN,	\
			TC_BPSHAPER_RATE_MAX,				\
			word " must be 1 to 2^43 bytes/s, or unlimited", \
			.may_be_unlimited = true)

#define BPSHAPER_SIZE_OPTION(kind, attr, field, word)			\
	BPSHAPER_OPTION(kind, attr, field, 32, 1, U32_MAX,		\
			word " must be 1 byte or more")

/* A netlink policy could check the ranges, but its message names no option. An
 * option without a default is 0. If it must be more, what is used in its place
 * is derived from others. From the specification, as is all between such lines:
 */
/* begin: options */
/**
 * struct bpshaper_config - values of all options
 * @rate_Bps: bytes per second, or TC_BPSHAPER_RATE_UNLIMITED
 * @latency_ns: ns; 0: not set
 * @maxrate_Bps: bytes per second, or TC_BPSHAPER_RATE_UNLIMITED
 * @peakrate_Bps: bytes per second, or TC_BPSHAPER_RATE_UNLIMITED
 * @ce_threshold_ns: ns, or TC_BPSHAPER_CE_NEVER; 0: not set
 * @burst: bytes; 0: not set
 * @limit: bytes; 0: not set
 * @overhead: bytes
 * @mpu: bytes
 * @linklayer: TC_LINKLAYER_*
 * @queues: number
 * @default_minor: minor
 * @share_min: bytes; 0: not set
 * @memory_limit: bytes; 0: not set
 * @pacing: 0 or 1
 * @backpressure: 0 or 1
 * @r2q: number
 */
struct bpshaper_config {
	u64	rate_Bps;
	u64	latency_ns;
	u64	maxrate_Bps;
	u64	peakrate_Bps;
	u64	ce_threshold_ns;
	u32	burst;
	u32	limit;
	u32	overhead;
	u32	mpu;
	u32	linklayer;
	u32	queues;
	u32	default_minor;
	u32	share_min;
	u32	memory_limit;
	u32	pacing;
	u32	backpressure;
	u32	r2q;
};

static const struct bpshaper_config bpshaper_defaults = {
	.rate_Bps = TC_BPSHAPER_RATE_DEFAULT,
	.maxrate_Bps = TC_BPSHAPER_MAXRATE_DEFAULT,
	.peakrate_Bps = TC_BPSHAPER_PEAKRATE_DEFAULT,
	.linklayer = TC_BPSHAPER_LINKLAYER_DEFAULT,
	.pacing = TC_BPSHAPER_PACING_DEFAULT,
	.backpressure = TC_BPSHAPER_BACKPRESSURE_DEFAULT,
	.r2q = TC_BPSHAPER_R2Q_DEFAULT,
};

static const struct bpshaper_option
bpshaper_options[TCA_BPSHAPER_MAX + 1] = {
	BPSHAPER_RATE_OPTION(config, RATE64, rate_Bps, "rate"),
	BPSHAPER_SIZE_OPTION(config, BURST, burst, "burst"),
	BPSHAPER_SIZE_OPTION(config, LIMIT, limit, "limit"),
	BPSHAPER_OPTION(config, LATENCY, latency_ns, 64, 1,
			TC_BPSHAPER_LATENCY_MAX,
			"latency must be 1 ns to 60 s"),
	BPSHAPER_OPTION(config, OVERHEAD, overhead, 32, 0,
			TC_BPSHAPER_OVERHEAD_MAX,
			"overhead must be 0 to 65535 bytes"),
	BPSHAPER_OPTION(config, MPU, mpu, 32, 0, TC_BPSHAPER_MPU_MAX,
			"mpu must be 0 to 65535 bytes"),
	BPSHAPER_OPTION(config, LINKLAYER, linklayer, 32, TC_LINKLAYER_ETHERNET,
			TC_LINKLAYER_ATM,
			"linklayer must be ethernet (1) or atm (2)"),
	BPSHAPER_RATE_OPTION(config, MAXRATE64, maxrate_Bps, "maxrate"),
	BPSHAPER_OPTION(config, QUEUES, queues, 32, 0, 1,
			"queues must be 0 to 1", .is_dumped_if_set = true),
	BPSHAPER_OPTION(config, DEFAULT, default_minor, 32, 0,
			TC_BPSHAPER_DEFAULT_MAX, "default must be 0 to 65535",
			.is_dumped_if_set = true),
	BPSHAPER_RATE_OPTION(config, PEAKRATE64, peakrate_Bps, "peakrate"),
	BPSHAPER_SIZE_OPTION(config, SHARE_MIN, share_min, "share_min"),
	BPSHAPER_OPTION(config, MEMORY_LIMIT, memory_limit, 32,
			TC_BPSHAPER_MEMORY_MIN, U32_MAX,
			"memory_limit must be 64 KiB or more"),
	BPSHAPER_OPTION(config, CE_THRESHOLD, ce_threshold_ns, 64, 1,
			TC_BPSHAPER_CE_THRESHOLD_MAX,
			"ce_threshold must be 1 ns to 60 s, or never",
			.may_be_unlimited = true),
	BPSHAPER_OPTION(config, PACING, pacing, 32, 0, 1,
			"pacing must be 0 or 1"),
	BPSHAPER_OPTION(config, BACKPRESSURE, backpressure, 32, 0, 1,
			"backpressure must be 0 or 1"),
	BPSHAPER_OPTION(config, R2Q, r2q, 32, 1, U32_MAX,
			"r2q must be 1 or more"),
};

/* end: options */

/* begin: class options */
/**
 * struct bpshaper_class_config - values of all options of a class
 * @floor_Bps: bytes per second
 * @ceil_Bps: bytes per second, or TC_BPSHAPER_RATE_UNLIMITED
 * @latency_ns: ns; 0: not set
 * @weight: number
 * @prio: number
 * @limit: bytes; 0: not set
 * @burst: bytes; 0: not set
 * @overcommit: 0 or 1
 * @backpressure: 0 or 1
 */
struct bpshaper_class_config {
	u64	floor_Bps;
	u64	ceil_Bps;
	u64	latency_ns;
	u32	weight;
	u32	prio;
	u32	limit;
	u32	burst;
	u32	overcommit;
	u32	backpressure;
};

static const struct bpshaper_class_config bpshaper_class_defaults = {
	.ceil_Bps = TC_BPSHAPER_CLASS_CEIL_DEFAULT,
	.weight = TC_BPSHAPER_CLASS_WEIGHT_DEFAULT,
	.backpressure = TC_BPSHAPER_CLASS_BACKPRESSURE_DEFAULT,
};

static const struct bpshaper_option
bpshaper_class_options[TCA_BPSHAPER_CLASS_MAX + 1] = {
	BPSHAPER_OPTION(class_config, CLASS_FLOOR64, floor_Bps, 64, 0,
			TC_BPSHAPER_RATE_MAX,
			"floor must be 0 to 2^43 bytes/s"),
	BPSHAPER_RATE_OPTION(class_config, CLASS_CEIL64, ceil_Bps, "ceil"),
	BPSHAPER_OPTION(class_config, CLASS_WEIGHT, weight, 32, 1,
			TC_BPSHAPER_WEIGHT_MAX, "weight must be 1 to 1048576"),
	BPSHAPER_OPTION(class_config, CLASS_PRIO, prio, 32, 0,
			TC_BPSHAPER_PRIO_MAX, "prio must be 0 to 7"),
	BPSHAPER_SIZE_OPTION(class_config, CLASS_LIMIT, limit, "limit"),
	BPSHAPER_OPTION(class_config, CLASS_LATENCY, latency_ns, 64, 1,
			TC_BPSHAPER_LATENCY_MAX,
			"latency must be 1 ns to 60 s"),
	BPSHAPER_SIZE_OPTION(class_config, CLASS_BURST, burst, "burst"),
	BPSHAPER_OPTION(class_config, CLASS_OVERCOMMIT, overcommit, 32, 0, 1,
			"overcommit must be 0 or 1"),
	BPSHAPER_OPTION(class_config, CLASS_BACKPRESSURE, backpressure, 32, 0,
			1, "backpressure must be 0 or 1"),
};

/* end: class options */

#define BPSHAPER_HTB_QUANTUM_MAX	200000	/* that follows from the rate */

static struct nla_policy bpshaper_policy[TCA_BPSHAPER_MAX + 1] __ro_after_init;
static struct nla_policy
bpshaper_class_policy[TCA_BPSHAPER_CLASS_MAX + 1] __ro_after_init;

/* Once, when the module is loaded. */
static void __init bpshaper_policy_init(void)
{
	int i;

	for (i = 0; i <= TCA_BPSHAPER_MAX; i++)
		bpshaper_policy[i].type = bpshaper_options[i].type;
	for (i = 0; i <= TCA_BPSHAPER_CLASS_MAX; i++)
		bpshaper_class_policy[i].type = bpshaper_class_options[i].type;
	bpshaper_class_policy[TCA_BPSHAPER_CLASS_HTB].type = NLA_FLAG;
}

/* Parse */

/* Store the values of all attributes that are present in @c. After an error @c
 * is half written: the caller discards it.
 */
static int bpshaper_attrs_store(const struct bpshaper_option *options, int max,
				struct nlattr **tb, void *c,
				struct netlink_ext_ack *extack)
{
	const struct bpshaper_option *o;
	u64 value;
	int i;

	for (i = 0; i <= max; i++) {
		o = &options[i];
		if (!tb[i] || !o->type)
			continue;
		value = o->type == NLA_U64 ? nla_get_u64(tb[i]) :
					     nla_get_u32(tb[i]);
		if ((value < o->min || value > o->max) &&
		    !(o->may_be_unlimited &&
		      value == TC_BPSHAPER_RATE_UNLIMITED)) {
			if (extack)
				extack->_msg = o->message;
			NL_SET_BAD_ATTR(extack, tb[i]);
			return -ERANGE;
		}
		if (o->type == NLA_U64)
			*(u64 *)(c + o->offset) = value;
		else
			*(u32 *)(c + o->offset) = value;
	}
	return 0;
}

/* Merge the attributes of @opt into @c, which has the options as they are now.
 */
static int bpshaper_config_parse(struct bpshaper_config *c, struct nlattr *opt,
				 struct netlink_ext_ack *extack)
{
	struct nlattr *tb[TCA_BPSHAPER_MAX + 1];
	bool is_unlimited;
	int err;

	err = nla_parse_nested(tb, TCA_BPSHAPER_MAX, opt, bpshaper_policy,
			       extack) ?:
	      bpshaper_attrs_store(bpshaper_options, TCA_BPSHAPER_MAX, tb, c,
				   extack);
	if (err)
		return err;
	if (tb[TCA_BPSHAPER_LIMIT] && tb[TCA_BPSHAPER_LATENCY])
		return bpshaper_refuse(extack, -EINVAL,
				       "limit and latency exclude each other");

	/* Without a rate, forget what was set before and needs one. */
	is_unlimited = c->rate_Bps == TC_BPSHAPER_RATE_UNLIMITED;
	if (is_unlimited && !tb[TCA_BPSHAPER_LATENCY])
		c->latency_ns = 0;
	if (is_unlimited && !tb[TCA_BPSHAPER_PEAKRATE64])
		c->peakrate_Bps = TC_BPSHAPER_RATE_UNLIMITED;
	/* One replaces the other. */
	if (tb[TCA_BPSHAPER_LIMIT])
		c->latency_ns = 0;
	if (tb[TCA_BPSHAPER_LATENCY])
		c->limit = 0;

	/* Do all agree with each other? */
	if (c->latency_ns && is_unlimited)
		return bpshaper_refuse(extack, -EINVAL, "latency needs a rate");
	if (c->peakrate_Bps != TC_BPSHAPER_RATE_UNLIMITED && is_unlimited)
		return bpshaper_refuse(extack, -EINVAL,
				       "peakrate needs a rate");
	if (c->peakrate_Bps <= c->rate_Bps && !is_unlimited)
		return bpshaper_refuse(extack, -EINVAL,
				       "peakrate must be above the rate");
	return 0;
}

/* Merge the attributes of @opt into @c, which has the options as they are now.
 * A command of htb, for which it returns 1, sets all options: what it does not
 * name has its default, and the weight follows from @r2q of the qdisc. A turn
 * of htb is a packet at least.
 */
static int bpshaper_class_config_parse(struct bpshaper_class_config *c,
				       struct nlattr *opt, u32 r2q,
				       struct netlink_ext_ack *extack)
{
	struct nlattr *tb[TCA_BPSHAPER_CLASS_MAX + 1];
	int err, is_htb;

	err = nla_parse_nested(tb, TCA_BPSHAPER_CLASS_MAX, opt,
			       bpshaper_class_policy, extack);
	if (err < 0)
		return err;
	is_htb = !!tb[TCA_BPSHAPER_CLASS_HTB];
	if (is_htb)
		*c = bpshaper_class_defaults;
	err = bpshaper_attrs_store(bpshaper_class_options,
				   TCA_BPSHAPER_CLASS_MAX, tb, c, extack);
	if (err)
		return err;
	if (is_htb && !tb[TCA_BPSHAPER_CLASS_WEIGHT])
		c->weight = clamp_t(u64, div_u64(c->floor_Bps, r2q),
				    ETH_FRAME_LEN, BPSHAPER_HTB_QUANTUM_MAX);
	if (is_htb)
		c->floor_Bps = min(c->floor_Bps, c->ceil_Bps);
	if (tb[TCA_BPSHAPER_CLASS_LIMIT] && tb[TCA_BPSHAPER_CLASS_LATENCY])
		return bpshaper_refuse(extack, -EINVAL,
				       "limit and latency exclude each other");
	if (c->floor_Bps > c->ceil_Bps)
		return bpshaper_refuse(extack, -EINVAL,
				       "floor must not be above ceil");
	/* One replaces the other. */
	if (tb[TCA_BPSHAPER_CLASS_LIMIT])
		c->latency_ns = 0;
	if (tb[TCA_BPSHAPER_CLASS_LATENCY])
		c->limit = 0;
	return is_htb;
}

/* Dump */

static int bpshaper_options_dump(struct sk_buff *skb,
				 const struct bpshaper_option *options, int max,
				 const void *c)
{
	struct nlattr *nest = nla_nest_start(skb, TCA_OPTIONS);
	const struct bpshaper_option *o;
	u64 value;
	int i;

	if (!nest)
		return -EMSGSIZE;
	for (i = 0; i <= max; i++) {
		o = &options[i];
		value = o->type == NLA_U64 ? *(const u64 *)(c + o->offset) :
					     *(const u32 *)(c + o->offset);
		if (!o->type || (!value && (o->min || o->is_dumped_if_set)))
			continue;
		if (o->type == NLA_U64 ?
		    nla_put_u64_64bit(skb, i, value, TCA_BPSHAPER_PAD) :
		    nla_put_u32(skb, i, value)) {
			nla_nest_cancel(skb, nest);
			return -EMSGSIZE;
		}
	}
	return nla_nest_end(skb, nest);
}

#endif /* _BPSHAPER_CONFIG_H */
