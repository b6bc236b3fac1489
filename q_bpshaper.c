// SPDX-License-Identifier: GPL-2.0-only
/* tc plugin of the bpshaper qdisc: options, dump, statistics
 *
 * Reading guide:
 *   bpshaper_type	how values of a kind are read and written
 *   bpshaper_options	one row for an option of the qdisc, likewise
 *			bpshaper_class_options; parse, print and help are loops
 *   parse		words -> bpshaper_request -> TCA_OPTIONS, all or nothing
 *   print		TCA_OPTIONS -> text that can be typed again, or JSON
 *   bpshaper_stats	one row for a statistic of the qdisc, likewise
 *			bpshaper_leaf_stats
 *   xstats		TCA_STATS_APP of a qdisc or of a class -> text, or JSON
 *
 * Words, aliases and meanings are those of tbf, so its command lines and its
 * dumps work here: abbreviations ("lat"), SIZE/CELL, bare numbers in us and in
 * bit/s.
 *
 * Text is exact, and leaves out most defaults unless details are asked for.
 * JSON has everything. Its keys are the names of the options and of the members
 * of the structs of statistics. Its values are plain numbers in the units of
 * the uAPI: bytes per second, bytes, nanoseconds. Words are strings, as one
 * types them: "unlimited", "never", "ethernet", "on" (hence no boolean), and
 * the state and peer of a class. Histograms are arrays of all buckets. An
 * unknown peer or port is absent.
 *
 * A refusal is one line that names the options and their values. tc's own
 * helpers that write to stderr or exit (NEXT_ARG, get_percent_rate64,
 * parse_on_off) are therefore not used.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "utils.h"
#include "tc_util.h"
#include "sch_bpshaper.h"

/* Data is bound when the plugin is loaded; NULL if this tc lacks it. */
#pragma weak show_details

/* Room for TCA_KIND and other attributes of tc, and for all of our options */
#define BPSHAPER_MESSAGE_MAX	1024

/* Above the bounds of all times, in us */
#define BPSHAPER_TIME_MAX	TC_BPSHAPER_LATENCY_MAX

/* The special value of an option: TC_BPSHAPER_RATE_UNLIMITED, _CE_NEVER */
#define BPSHAPER_SPECIAL	(~0ULL)

#define BPSHAPER_TEXT_SIZE	256

/* Of a device of common MTU, bytes */
#define BPSHAPER_HTB_PACKET	1514

/* A number that has a name, or a unit; an entry without a name ends a table. */
struct bpshaper_name {
	__u64		number;
	const char	*name;
};

/**
 * struct bpshaper_type - a kind of values
 * @unit: placeholder of the value in the usage text
 * @words: names of all values, or NULL; if a value has two names, the first is
 *	printed
 * @units: of a quantity, from the largest to one that divides all
 * @scale: how many of the smallest unit one of the attribute is
 * @hint: rest of the range, or NULL
 * @is_hex: it is written in hexadecimal
 * @parse: value of @arg in the unit of the attribute; returns NULL, or what is
 *	wrong with @arg: "" if the range says that. NULL: @words, as they are
 */
struct bpshaper_type {
	const char			*unit;
	const struct bpshaper_name	*words;
	const struct bpshaper_name	*units;
	unsigned int			scale;
	const char			*hint;
	bool				is_hex;
	const char			*(*parse)(__u64 *value, const char *arg,
						  const char *dev);
};

/**
 * struct bpshaper_option - one option of the command line
 * @name: the word, and the JSON key
 * @alias: other words for it, then NULL
 * @type: of its values
 * @attr: TCA_BPSHAPER_*
 * @length: length of the attribute, 4 or 8 bytes
 * @min: smallest value
 * @max: largest value, without the special one
 * @special: word for BPSHAPER_SPECIAL, or NULL if that is out of range
 * @preset: default
 * @preset_text: what the default follows from, if it is not a constant
 * @excludes: the option of the row before if both must not be given, or 0
 * @is_abbreviable: the beginning of @name will do, as for tbf
 * @is_quiet: text leaves it out if it has the default
 * @is_rare: few need it, so it comes last in help
 * @meaning: one line for the usage text
 */
struct bpshaper_option {
	const char			*name;
	const char			*alias[6];
	const struct bpshaper_type	*type;
	unsigned short			attr;
	unsigned short			length;
	__u64				min;
	__u64				max;
	const char			*special;
	__u64				preset;
	const char			*preset_text;
	unsigned short			excludes;
	bool				is_abbreviable;
	bool				is_quiet;
	bool				is_rare;
	const char			*meaning;
};

/**
 * struct bpshaper_request - what a command line asks for, indexed by attribute
 * @options: that it may ask for
 * @is_htb: of a class, by the word "rate", which each command of htb has
 * @word: as typed, or NULL
 * @arg: its value as typed, or NULL if it has none
 * @is_valid: @arg is in range, and @value is what it says
 * @value: in the unit of the attribute
 * @refusals: number of things that are wrong so far
 */
struct bpshaper_request {
	const struct bpshaper_option *options;
	bool		is_htb;
	const char	*word[TCA_BPSHAPER_MAX + 1];
	const char	*arg[TCA_BPSHAPER_MAX + 1];
	bool		is_valid[TCA_BPSHAPER_MAX + 1];
	__u64		value[TCA_BPSHAPER_MAX + 1];
	unsigned int	refusals;
};

/* Names of numbers */

static const char *bpshaper_name_find(const struct bpshaper_name *n,
				      __u64 number)
{
	while (n->name && n->number != number)
		n++;
	return n->name;
}

static const struct bpshaper_name *
bpshaper_name_parse(const struct bpshaper_name *n, const char *name)
{
	while (n->name && strcmp(n->name, name))
		n++;
	return n->name ? n : NULL;
}

/* The name, or the number if it has none. */
static const char *bpshaper_name_text(char *buf, __u64 number,
				      const struct bpshaper_name *names)
{
	const char *name = bpshaper_name_find(names, number);

	if (name)
		return name;
	snprintf(buf, SPRINT_BSIZE, "%llu", (unsigned long long)number);
	return buf;
}

/* tc's own functions for rate, size and time round. What they print may be
 * another value when it is typed again, or one that is refused (4096Mb, a
 * peakrate like the rate).
 */
static const char *bpshaper_quantity_text(char *buf, __u64 quantity,
					  const struct bpshaper_name *unit)
{
	while (unit->number > 1 && (!quantity || quantity % unit->number))
		unit++;
	snprintf(buf, SPRINT_BSIZE, "%llu%s",
		 (unsigned long long)(quantity / unit->number), unit->name);
	return buf;
}

/* Types */

/* strtod() would also take "-1", "inf" and "nan". Their conversion to an
 * unsigned integer is undefined: -1 becomes the rate "unlimited".
 */
static bool bpshaper_arg_is_number(const char *arg)
{
	return isdigit((unsigned char)arg[0]) || arg[0] == '.';
}

static const char *bpshaper_percent_parse(__u64 *rate, const char *arg,
					  const char *dev)
{
	double percent, speed_mbit;
	char path[128], *end;
	bool is_known;
	FILE *file;

	percent = strtod(arg, &end);
	if (strcmp(end, "%") || percent > 100)
		return "";
	if (!dev || !dev[0])
		return "a percentage needs \"dev\"";

	snprintf(path, sizeof(path), "/sys/class/net/%s/speed", dev);
	file = fopen(path, "r");
	if (!file)
		return "the speed of the device is unknown";
	is_known = fscanf(file, "%lf", &speed_mbit) == 1 && speed_mbit > 0;
	fclose(file);
	if (!is_known)
		return "the speed of the device is unknown";

	*rate = percent / 100 * speed_mbit * 1000000 / 8;
	return NULL;
}

static const char *bpshaper_rate_parse(__u64 *rate, const char *arg,
				       const char *dev)
{
	if (!bpshaper_arg_is_number(arg))
		return "";
	if (strchr(arg, '%'))
		return bpshaper_percent_parse(rate, arg, dev);
	/* An overflow may come out as 0, which some options allow. */
	if (get_rate64(rate, arg) || (!*rate && strtod(arg, NULL) >= 8))
		return "";
	return NULL;
}

static const char *bpshaper_size_parse(__u64 *size, const char *arg,
				       const char *dev)
{
	unsigned int size32;

	/* get_size() fails on what does not fit in 32 bits. */
	if (!bpshaper_arg_is_number(arg) || get_size(&size32, arg))
		return "";
	*size = size32;
	return NULL;
}

/* tbf's SIZE/CELL. The cell size was that of a table which nobody uses now. */
static const char *bpshaper_bucket_parse(__u64 *size, const char *arg,
					 const char *dev)
{
	unsigned int size32;
	char copy[64];
	int cell_log;

	/* get_size_and_cell() writes into what it reads. */
	if (!bpshaper_arg_is_number(arg) || strlen(arg) >= sizeof(copy))
		return "";
	memcpy(copy, arg, strlen(arg) + 1);
	if (get_size_and_cell(&size32, &cell_log, copy))
		return "";
	*size = size32;
	return NULL;
}

/* A bare number is in us, as for tbf, but get_time64() takes it for ns. */
static const char *bpshaper_time_parse(__u64 *ns, const char *arg,
				       const char *dev)
{
	__s64 signed_ns;
	bool is_bare;

	if (!bpshaper_arg_is_number(arg) || get_time64(&signed_ns, arg))
		return "";
	is_bare = isdigit((unsigned char)arg[strlen(arg) - 1]);
	/* An overflow comes out negative, which is above every range. */
	*ns = signed_ns;
	if (is_bare && *ns <= BPSHAPER_TIME_MAX)
		*ns *= 1000;
	return NULL;
}

static const char *bpshaper_number_parse(__u64 *number, const char *arg,
					 const char *dev)
{
	char *end;

	if (!isdigit((unsigned char)arg[0]))
		return "";
	*number = strtoull(arg, &end, 0); /* an overflow is out of range */
	return *end ? "" : NULL;
}

/* A minor number is hexadecimal, as for htb. */
static const char *bpshaper_minor_parse(__u64 *minor, const char *arg,
					const char *dev)
{
	char *end;

	if (!isxdigit((unsigned char)arg[0]))
		return "";
	*minor = strtoull(arg, &end, 16);
	return *end ? "" : NULL;
}

/* The quantum of htb is a size, which has a unit if it is no number. */
static const char *bpshaper_weight_parse(__u64 *weight, const char *arg,
					 const char *dev)
{
	const char *wrong = bpshaper_number_parse(weight, arg, dev);

	if (!wrong || !arg[0] || isdigit((unsigned char)arg[strlen(arg) - 1]))
		return wrong;
	return bpshaper_size_parse(weight, arg, dev);
}

/* Beginnings of the words will do, as for tbf. */
static const char *bpshaper_linklayer_parse(__u64 *linklayer, const char *arg,
					    const char *dev)
{
	unsigned int linklayer32;

	if (get_linklayer(&linklayer32, arg))
		return "";
	*linklayer = linklayer32;
	return NULL;
}

static const struct bpshaper_name bpshaper_rate_units[] = {
	{ 1000000000000, "Tbit" }, { 1000000000, "Gbit" },
	{ 1000000, "Mbit" }, { 1000, "Kbit" },
	{ 1ULL << 40, "Tibit" }, { 1 << 30, "Gibit" },
	{ 1 << 20, "Mibit" }, { 1 << 10, "Kibit" }, { 1, "bit" },
};

static const struct bpshaper_name bpshaper_size_units[] = {
	{ 1 << 20, "Mb" }, { 1 << 10, "Kb" }, { 1, "b" },
};

static const struct bpshaper_name bpshaper_time_units[] = {
	{ 1000000000, "s" }, { 1000000, "ms" }, { 1000, "us" }, { 1, "ns" },
};

static const struct bpshaper_name bpshaper_number_units[] = { { 1, "" } };

static const struct bpshaper_name bpshaper_linklayers[] = {
	{ TC_LINKLAYER_ETHERNET, "ethernet" }, { TC_LINKLAYER_ATM, "atm" },
	{ TC_LINKLAYER_ATM, "adsl" }, {}
};

static const struct bpshaper_name bpshaper_switches[] = {
	{ 1, "on" }, { 0, "off" }, {}
};

static const struct bpshaper_type bpshaper_rate_type = {
	.unit = "RATE", .units = bpshaper_rate_units, .scale = 8,
	.hint = ", up to 100% of the device's speed",
	.parse = bpshaper_rate_parse,
};

static const struct bpshaper_type bpshaper_size_type = {
	.unit = "SIZE", .units = bpshaper_size_units, .scale = 1,
	.parse = bpshaper_size_parse,
};

static const struct bpshaper_type bpshaper_bucket_type = {
	.unit = "SIZE[/CELL]", .units = bpshaper_size_units, .scale = 1,
	.hint = ", a cell a power of 2", .parse = bpshaper_bucket_parse,
};

static const struct bpshaper_type bpshaper_time_type = {
	.unit = "TIME", .units = bpshaper_time_units, .scale = 1,
	.parse = bpshaper_time_parse,
};

static const struct bpshaper_type bpshaper_number_type = {
	.unit = "NUMBER", .units = bpshaper_number_units, .scale = 1,
	.parse = bpshaper_number_parse,
};

static const struct bpshaper_type bpshaper_weight_type = {
	.unit = "NUMBER", .units = bpshaper_number_units, .scale = 1,
	.parse = bpshaper_weight_parse,
};

static const struct bpshaper_type bpshaper_minor_type = {
	.unit = "MINOR", .is_hex = true, .scale = 1,
	.parse = bpshaper_minor_parse,
};

static const struct bpshaper_type bpshaper_linklayer_type = {
	.unit = "TYPE", .words = bpshaper_linklayers,
	.parse = bpshaper_linklayer_parse,
};

static const struct bpshaper_type bpshaper_switch_type = {
	.unit = "on|off", .words = bpshaper_switches,
};

#define BPSHAPER_OPTION(word, attribute, c_type, kind, low, high)	\
	.name = word, .attr = TCA_BPSHAPER_##attribute,			\
	.length = sizeof(__##c_type), .type = &bpshaper_##kind##_type,	\
	.min = low, .max = high

#define BPSHAPER_CLASS_OPTION(word, attribute, c_type, kind, low, high)	\
	BPSHAPER_OPTION(word, CLASS_##attribute, c_type, kind, low, high)

/* In the order in which they are sent and printed */
static const struct bpshaper_option bpshaper_options[] = {
/* begin: options */
	{
		BPSHAPER_OPTION("rate", RATE64, u64, rate, TC_BPSHAPER_RATE_MIN,
				TC_BPSHAPER_RATE_MAX),
		.special	= "unlimited",
		.preset		= TC_BPSHAPER_RATE_DEFAULT,
		.meaning	= "what leaves per second",
	}, {
		BPSHAPER_OPTION("burst", BURST, u32, bucket, 1, UINT32_MAX),
		.alias		= { "buffer", "maxburst" },
		.preset_text	= "what the rate sends in 1 ms, at least two packets of the MTU, four on several queues",
		.is_abbreviable	= true,
		.meaning	= "bytes that may leave back to back; the cell has no effect",
	}, {
		BPSHAPER_OPTION("limit", LIMIT, u32, size, 1, UINT32_MAX),
		.preset_text	= "set by latency",
		.is_abbreviable	= true,
		.meaning	= "bytes that may be queued; excludes latency",
	}, {
		BPSHAPER_OPTION("latency", LATENCY, u64, time, 1,
				TC_BPSHAPER_LATENCY_MAX),
		.excludes	= TCA_BPSHAPER_LIMIT,
		.preset		= TC_BPSHAPER_LATENCY_DEFAULT,
		.is_abbreviable	= true,
		.meaning	= "limit = rate x latency + burst",
	}, {
		BPSHAPER_OPTION("overhead", OVERHEAD, u32, size, 0,
				TC_BPSHAPER_OVERHEAD_MAX),
		.preset		= TC_BPSHAPER_OVERHEAD_DEFAULT,
		.is_abbreviable	= true,
		.is_quiet	= true,
		.meaning	= "bytes that each packet takes on the wire beside its length",
	}, {
		BPSHAPER_OPTION("mpu", MPU, u32, size, 0, TC_BPSHAPER_MPU_MAX),
		.preset		= TC_BPSHAPER_MPU_DEFAULT,
		.is_quiet	= true,
		.meaning	= "least number of bytes that a packet takes on the wire",
	}, {
		BPSHAPER_OPTION("linklayer", LINKLAYER, u32, linklayer,
				TC_LINKLAYER_ETHERNET, TC_LINKLAYER_ATM),
		.preset		= TC_BPSHAPER_LINKLAYER_DEFAULT,
		.is_abbreviable	= true,
		.is_quiet	= true,
		.meaning	= "atm, adsl: packets take cells of 53 bytes for each 48",
	}, {
		BPSHAPER_OPTION("maxrate", MAXRATE64, u64, rate,
				TC_BPSHAPER_RATE_MIN, TC_BPSHAPER_RATE_MAX),
		.special	= "unlimited",
		.preset		= TC_BPSHAPER_MAXRATE_DEFAULT,
		.is_quiet	= true,
		.meaning	= "what one flow may send per second; needs pacing",
	}, {
		BPSHAPER_OPTION("queues", QUEUES, u32, number, 0, 1),
		.preset		= TC_BPSHAPER_QUEUES_DEFAULT,
		.meaning	= "1: one lock for all transmit queues, instead of one for each",
	}, {
		BPSHAPER_OPTION("default", DEFAULT, u32, minor, 0,
				TC_BPSHAPER_DEFAULT_MAX),
		.preset		= TC_BPSHAPER_DEFAULT_DEFAULT,
		.meaning	= "class of packets that have no other; 0: the qdisc itself",
	}, {
		BPSHAPER_OPTION("peakrate", PEAKRATE64, u64, rate,
				TC_BPSHAPER_RATE_MIN, TC_BPSHAPER_RATE_MAX),
		.special	= "unlimited",
		.preset		= TC_BPSHAPER_PEAKRATE_DEFAULT,
		.is_abbreviable	= true,
		.is_quiet	= true,
		.is_rare	= true,
		.meaning	= "rate at which a burst leaves; above the rate",
	}, {
		BPSHAPER_OPTION("share_min", SHARE_MIN, u32, size, 1,
				UINT32_MAX),
		.preset_text	= "what leaves in 1 ms, 2 to 16 packets of the MTU",
		.is_rare	= true,
		.meaning	= "least share of the limit that a socket gets",
	}, {
		BPSHAPER_OPTION("memory_limit", MEMORY_LIMIT, u32, size,
				TC_BPSHAPER_MEMORY_MIN, UINT32_MAX),
		.preset_text	= "1/16 of the memory, 32 MiB to 1 GiB",
		.is_rare	= true,
		.meaning	= "kernel memory that the queued packets may take",
	}, {
		BPSHAPER_OPTION("ce_threshold", CE_THRESHOLD, u64, time, 1,
				TC_BPSHAPER_CE_THRESHOLD_MAX),
		.special	= "never",
		.preset_text	= "PI2 instead of a threshold",
		.is_rare	= true,
		.meaning	= "packets that are queued for longer get ECN CE",
	}, {
		BPSHAPER_OPTION("pacing", PACING, u32, switch, 0, 1),
		.preset		= TC_BPSHAPER_PACING_DEFAULT,
		.is_quiet	= true,
		.is_rare	= true,
		.meaning	= "packets wait for their departure time, as with fq",
	}, {
		BPSHAPER_OPTION("backpressure", BACKPRESSURE, u32, switch, 0,
				1),
		.preset		= TC_BPSHAPER_BACKPRESSURE_DEFAULT,
		.is_quiet	= true,
		.is_rare	= true,
		.meaning	= "off: sockets are not throttled, limit drops their packets",
	}, {
		BPSHAPER_OPTION("r2q", R2Q, u32, number, 1, UINT32_MAX),
		.preset		= TC_BPSHAPER_R2Q_DEFAULT,
		.is_quiet	= true,
		.is_rare	= true,
		.meaning	= "weight of a class that has htb's word rate: rate / r2q",
	},
/* end: options */
	{}
};

/* Likewise of a class */
static const struct bpshaper_option bpshaper_class_options[] = {
/* begin: class options */
	{
		BPSHAPER_CLASS_OPTION("floor", FLOOR64, u64, rate, 0,
				      TC_BPSHAPER_RATE_MAX),
		.alias		= { "rate" },
		.preset		= TC_BPSHAPER_CLASS_FLOOR_DEFAULT,
		.is_quiet	= true,
		.meaning	= "what the class gets before others get more than theirs",
	}, {
		BPSHAPER_CLASS_OPTION("ceil", CEIL64, u64, rate,
				      TC_BPSHAPER_RATE_MIN,
				      TC_BPSHAPER_RATE_MAX),
		.special	= "unlimited",
		.preset		= TC_BPSHAPER_CLASS_CEIL_DEFAULT,
		.is_quiet	= true,
		.meaning	= "what the class gets at most",
	}, {
		BPSHAPER_CLASS_OPTION("weight", WEIGHT, u32, weight, 1,
				      TC_BPSHAPER_WEIGHT_MAX),
		.alias		= { "quantum" },
		.preset		= TC_BPSHAPER_CLASS_WEIGHT_DEFAULT,
		.meaning	= "part of what is left when all floors are served",
	}, {
		BPSHAPER_CLASS_OPTION("prio", PRIO, u32, number, 0,
				      TC_BPSHAPER_PRIO_MAX),
		.preset		= TC_BPSHAPER_CLASS_PRIO_DEFAULT,
		.meaning	= "what is left goes to the smallest prio first",
	}, {
		BPSHAPER_CLASS_OPTION("limit", LIMIT, u32, size, 1, UINT32_MAX),
		.preset_text	= "set by latency",
		.meaning	= "bytes that may be queued; excludes latency",
	}, {
		BPSHAPER_CLASS_OPTION("latency", LATENCY, u64, time, 1,
				      TC_BPSHAPER_LATENCY_MAX),
		.excludes	= TCA_BPSHAPER_CLASS_LIMIT,
		.preset_text	= "that of the qdisc",
		.meaning	= "limit = what the class gets in that time",
	}, {
		BPSHAPER_CLASS_OPTION("burst", BURST, u32, bucket, 1,
				      UINT32_MAX),
		.alias		= { "buffer", "maxburst", "cburst", "cbuffer",
				  "cmaxburst" },
		.preset_text	= "what the ceil sends in 2 ms, at least two packets of the MTU",
		.is_rare	= true,
		.meaning	= "bytes that may leave back to back at the ceil",
	}, {
		BPSHAPER_CLASS_OPTION("overcommit", OVERCOMMIT, u32, switch, 0,
				      1),
		.preset		= TC_BPSHAPER_CLASS_OVERCOMMIT_DEFAULT,
		.is_quiet	= true,
		.is_rare	= true,
		.meaning	= "on: floors may exceed the parent's, and are scaled down",
	}, {
		BPSHAPER_CLASS_OPTION("backpressure", BACKPRESSURE, u32, switch,
				      0, 1),
		.preset		= TC_BPSHAPER_CLASS_BACKPRESSURE_DEFAULT,
		.is_quiet	= true,
		.is_rare	= true,
		.meaning	= "off: sockets are not throttled, limit drops their packets",
	},
/* end: class options */
	{}
};

/**
 * struct bpshaper_foreign - a word of htb, tbf or fq that is not one here
 * @word: it has a value
 * @instead: what is so instead; NULL: the word has no effect
 * @is_refused: without it something else than was asked for would happen
 */
struct bpshaper_foreign {
	const char	*word;
	const char	*instead;
	bool		is_refused;
};

#define BPSHAPER_MINBURST "one packet of the MTU leaves at once at the peakrate"

static const struct bpshaper_foreign bpshaper_foreign_words[] = {
	{ "debug", NULL, false },
	{ "direct_qlen",
	  "packets of no class have fair queues, bounded by limit", false },
	{ "mtu", BPSHAPER_MINBURST, false },
	{ "minburst", BPSHAPER_MINBURST, false },
	{ "quantum", "it is one packet of the MTU", true },
	{ "share_max", "it is 64Kb, or share_min if that is more", true },
	{ "low_rate_threshold", "it is 550Kbit", true },
	{ "horizon", "it is 10s, and packets beyond it leave then", true },
	{ "timer_slack", "it is 10us", true },
	{}
};

/* An mpu concerns packets below 64 bytes, the others all packets. */
static const struct bpshaper_foreign bpshaper_class_foreign_words[] = {
	{ "mtu", NULL, false },
	{ "mpu", "it is an option of the qdisc, for all classes", false },
	{ "overhead", "it is an option of the qdisc, for all classes", true },
	{ "linklayer", "it is an option of the qdisc, for all classes", true },
	{}
};

/* htb takes the beginning of a word for the first of its words that fits. */
static const char *const bpshaper_htb_words[] = { "default", "r2q", NULL };

static const char *const bpshaper_class_htb_words[] = {
	"prio", "mtu", "mpu", "overhead", "linklayer", "quantum", "burst",
	"cburst", NULL
};

static bool bpshaper_option_has_word(const struct bpshaper_option *o,
				     const char *word)
{
	int i;

	for (i = 0; o->alias[i]; i++)
		if (!strcmp(word, o->alias[i]))
			return true;
	return !strcmp(word, o->name);
}

static const struct bpshaper_option *
bpshaper_option_find(const struct bpshaper_option *options, const char *word)
{
	const struct bpshaper_option *o;

	for (o = options; o->name; o++)
		if (bpshaper_option_has_word(o, word))
			return o;
	/* As tbf takes them, in its order: its dump says "lat". */
	for (o = options; o->name; o++)
		if (o->is_abbreviable && word[0] &&
		    !strncmp(word, o->name, strlen(word)))
			return o;
	return NULL;
}

static const char *bpshaper_option_text(const struct bpshaper_option *o,
					char *buf, __u64 value)
{
	if (o->special && value == BPSHAPER_SPECIAL)
		return o->special;
	if (o->type->words)
		return bpshaper_name_find(o->type->words, value) ?: "unknown";
	if (o->type->is_hex) {
		snprintf(buf, SPRINT_BSIZE, "0x%llx",
			 (unsigned long long)value);
		return buf;
	}
	return bpshaper_quantity_text(buf, value * o->type->scale,
				      o->type->units);
}

/* "A, B or C", or "MIN to MAX" and more */
static const char *bpshaper_option_range(const struct bpshaper_option *o,
					 char *buf)
{
	const struct bpshaper_name *n = o->type->words;
	char min[SPRINT_BSIZE], max[SPRINT_BSIZE];

	for (buf[0] = '\0'; n && n->name; n++) {
		strcat(buf, n->name);
		if (n[1].name)
			strcat(buf, n[2].name ? ", " : " or ");
	}
	if (!o->type->words)
		snprintf(buf, BPSHAPER_TEXT_SIZE, "%s to %s%s%s%s",
			 bpshaper_option_text(o, min, o->min),
			 bpshaper_option_text(o, max, o->max),
			 o->type->hint ?: "", o->special ? ", or " : "",
			 o->special ?: "");
	return buf;
}

/* Returns NULL, or what is wrong with @arg: "" if the range says that. */
static const char *bpshaper_option_parse(const struct bpshaper_option *o,
					 __u64 *value, const char *arg,
					 const char *dev)
{
	const struct bpshaper_name *name;
	const char *wrong;

	if (o->special && !strcmp(arg, o->special)) {
		*value = BPSHAPER_SPECIAL;
		return NULL;
	}
	if (!o->type->parse) {
		name = bpshaper_name_parse(o->type->words, arg);
		*value = name ? name->number : 0;
		return name ? NULL : "";
	}
	wrong = o->type->parse(value, arg, dev);
	if (!wrong && (*value < o->min || *value > o->max))
		return "";
	return wrong;
}

/* Help */

/* Options that exclude each other share their brackets. */
static void bpshaper_usage_line_print(const struct bpshaper_option *options)
{
	const int indent = fprintf(stderr, "Usage: ... bpshaper");
	const struct bpshaper_option *o;
	char text[BPSHAPER_TEXT_SIZE];
	int column = indent, length;

	for (o = options; o->name; o++) {
		length = sprintf(text, " [ %s %s", o->name, o->type->unit);
		if (o[1].excludes) {
			o++;
			length += sprintf(text + length, " | %s %s", o->name,
					  o->type->unit);
		}
		if (column + length > 75)
			column = fprintf(stderr, "\n%*s", indent, "") - 1;
		column += fprintf(stderr, "%s ]", text);
	}
	fputs("\n", stderr);
}

static void bpshaper_usage_print(const struct bpshaper_option *options)
{
	const struct bpshaper_option *o;
	char text[BPSHAPER_TEXT_SIZE];
	bool was_rare = false;
	int i;

	bpshaper_usage_line_print(options);
	for (o = options; o->name; o++) {
		if (o->is_rare && !was_rare)
			fputs("\nRare options\n", stderr);
		was_rare = o->is_rare;
		fprintf(stderr, "\n%s %s: %s\n", o->name, o->type->unit,
			o->meaning);
		for (i = 0; o->alias[i]; i++)
			fprintf(stderr, "  also:    %s\n", o->alias[i]);
		fprintf(stderr, "  range:   %s\n",
			bpshaper_option_range(o, text));
		fprintf(stderr, "  default: %s\n", o->preset_text ?:
			bpshaper_option_text(o, text, o->preset));
	}
	fputs("\nBare numbers: RATE in bit/s, SIZE in bytes, TIME in us\n",
	      stderr);
}

/* Parse */

static void bpshaper_words_quote(const char *word, const char *arg)
{
	fprintf(stderr, "\"%s%s%s\"", word, arg ? " " : "", arg ?: "");
}

static void bpshaper_note_no_effect(const char *word, const char *arg,
				    const char *why)
{
	fputs("bpshaper: note: ", stderr);
	bpshaper_words_quote(word, arg);
	fprintf(stderr, " has no effect: %s\n", why);
}

static void bpshaper_note_value(const char *word, const char *arg,
				const char *value)
{
	fputs("bpshaper: note: ", stderr);
	bpshaper_words_quote(word, arg);
	fprintf(stderr, " counts as %s\n", value);
}

/* All that is wrong with a command line makes one line. */
static void bpshaper_request_refuse(struct bpshaper_request *req,
				    const char *word, const char *arg,
				    const char *why, const char *what)
{
	fputs(req->refusals++ ? "; " : "bpshaper: ", stderr);
	bpshaper_words_quote(word, arg);
	fprintf(stderr, "%s%s", why, what);
}

/* One option contradicts another; both are attributes. */
static void bpshaper_request_refuse_pair(struct bpshaper_request *req,
					 int attr, const char *relation,
					 int other, const char *rest)
{
	bpshaper_request_refuse(req, req->word[attr], req->arg[attr], relation,
				"");
	bpshaper_words_quote(req->word[other], req->arg[other]);
	fputs(rest, stderr);
}

/* htb has two bursts, and the one of bpshaper is that of the ceil. */
static bool bpshaper_word_is_cburst(const char *word)
{
	return word[0] == 'c';
}

/* Return true if the burst of the ceil was given before the other one; if it
 * comes after it, forget the other one.
 */
static bool bpshaper_request_has_cburst(struct bpshaper_request *req,
					const struct bpshaper_option *o,
					const char *word)
{
	const char *before = req->word[o->attr];

	if (req->options != bpshaper_class_options || !before ||
	    o->attr != TCA_BPSHAPER_CLASS_BURST ||
	    bpshaper_word_is_cburst(before) == bpshaper_word_is_cburst(word))
		return false;
	if (bpshaper_word_is_cburst(before))
		return true;
	req->word[o->attr] = NULL;
	return false;
}

/* Is it a word of htb, in a command that may be one of htb? */
static bool bpshaper_request_is_htb_word(const struct bpshaper_request *req,
					 const struct bpshaper_option *o,
					 const char *word)
{
	if (req->options == bpshaper_options)
		return o->attr == TCA_BPSHAPER_DEFAULT ||
		       o->attr == TCA_BPSHAPER_R2Q;
	switch (req->is_htb ? o->attr : 0) {
	case TCA_BPSHAPER_CLASS_FLOOR64:
	case TCA_BPSHAPER_CLASS_WEIGHT:
		return strcmp(word, o->name);
	case TCA_BPSHAPER_CLASS_CEIL64:
	case TCA_BPSHAPER_CLASS_PRIO:
	case TCA_BPSHAPER_CLASS_BURST:
		return true;
	}
	return false;
}

/* The last one of a word that is repeated counts, as for htb, which takes rate
 * and ceil once.
 */
static bool bpshaper_request_may_repeat(const struct bpshaper_request *req,
					const struct bpshaper_option *o,
					const char *word)
{
	return o->type != &bpshaper_rate_type &&
	       bpshaper_request_is_htb_word(req, o, word) &&
	       bpshaper_request_is_htb_word(req, o, req->word[o->attr]);
}

/* The value of a word of htb is what htb makes of it: 0 is the default, but r2q
 * is 1 then; a default has 16 bits; and what is too large is the largest.
 * Numbers are decimal, whatever zeros are before them. Returns false if @arg is
 * no such value.
 */
static bool bpshaper_request_take_htb(struct bpshaper_request *req,
				      const struct bpshaper_option *o,
				      const char *word, const char *arg,
				      const char *dev)
{
	SPRINT_BUF(buf);
	const bool is_number = o->length == sizeof(__u32) &&
			       o->type != &bpshaper_bucket_type;
	__u64 *value = &req->value[o->attr], given;
	char *end;

	if (is_number) {
		given = strtoull(arg, &end, o->type->is_hex ? 16 : 10);
		if (!isxdigit((unsigned char)arg[0]) || *end ||
		    given > UINT32_MAX)
			return false;
	} else if (o->type->parse(&given, arg, dev)) {
		return false;
	}
	*value = given;
	if (given > o->max)
		*value = o->type->is_hex ? given & o->max : o->max;
	else if (given < o->min && o->type == &bpshaper_number_type)
		*value = o->min;
	req->is_valid[o->attr] = *value >= o->min;
	if (!req->is_valid[o->attr])
		req->word[o->attr] = NULL;
	else if (*value != given && !req->refusals)
		bpshaper_note_value(word, arg,
				    bpshaper_option_text(o, buf, *value));
	return true;
}

static void bpshaper_request_add(struct bpshaper_request *req,
				 const struct bpshaper_option *o,
				 const char *word, const char *arg,
				 const char *dev)
{
	char range[BPSHAPER_TEXT_SIZE];
	const char *wrong, *before;

	if (bpshaper_request_has_cburst(req, o, word))
		return;
	before = req->word[o->attr];
	if (before && !bpshaper_request_may_repeat(req, o, word)) {
		bpshaper_request_refuse(req, word, arg, " repeats ", "");
		bpshaper_words_quote(before, req->arg[o->attr]);
		return;
	}
	if (before && !req->refusals)
		bpshaper_note_no_effect(before, req->arg[o->attr],
					"it is repeated");
	req->word[o->attr] = word;
	req->arg[o->attr] = arg;

	if (bpshaper_request_is_htb_word(req, o, word) &&
	    bpshaper_request_take_htb(req, o, word, arg, dev))
		return;
	wrong = bpshaper_option_parse(o, &req->value[o->attr], arg, dev);
	req->is_valid[o->attr] = !wrong;
	if (wrong && wrong[0])
		bpshaper_request_refuse(req, word, arg, ": ", wrong);
	else if (wrong)
		bpshaper_request_refuse(req, word, arg, ": must be ",
					bpshaper_option_range(o, range));
}

/* Does a word of htb ask for what is so anyway? */
static bool bpshaper_arg_is_none(const char *arg)
{
	return !strcmp(arg, "0") ||
	       (arg[0] && !strncmp(arg, "ethernet", strlen(arg)));
}

/* A word of htb that bpshaper does not have. */
static bool bpshaper_request_take_foreign(struct bpshaper_request *req,
					  const char *word, const char *arg)
{
	const struct bpshaper_foreign *f = bpshaper_foreign_words;

	if (req->options == bpshaper_class_options)
		f = bpshaper_class_foreign_words;
	while (f->word && strcmp(f->word, word))
		f++;
	if (!f->word)
		return false;
	if (!arg)
		bpshaper_request_refuse(req, word, NULL,
					": must be followed by ", "a value");
	else if (req->is_htb && bpshaper_arg_is_none(arg))
		return true;
	else if (f->is_refused)
		bpshaper_request_refuse(req, word, arg, ": ", f->instead);
	else if (f->instead && !req->refusals)
		bpshaper_note_no_effect(word, arg, f->instead);
	return true;
}

/* The word of htb that @word is the beginning of, or @word. */
static const char *bpshaper_request_word(const struct bpshaper_request *req,
					 const char *word)
{
	const char *const *name = bpshaper_htb_words;

	if (req->options == bpshaper_class_options)
		name = bpshaper_class_htb_words;
	if (!word[0] || bpshaper_option_find(req->options, word) ||
	    (name == bpshaper_class_htb_words && !req->is_htb))
		return word;
	while (*name && strncmp(word, *name, strlen(word)))
		name++;
	return *name ?: word;
}

/* Returns true if the command line asks for help. */
static bool bpshaper_request_read(struct bpshaper_request *req, int argc,
				  char **argv, const char *dev)
{
	const struct bpshaper_option *o;
	const char *word;

	for (; argc > 0; argc -= 2, argv += 2) {
		if (!strcmp(argv[0], "help"))
			return true;
		word = bpshaper_request_word(req, argv[0]);
		if (bpshaper_request_take_foreign(req, word,
						  argc > 1 ? argv[1] : NULL))
			continue;
		o = bpshaper_option_find(req->options, word);
		if (!o) {
			/* Stop: the next word may be its value. */
			bpshaper_request_refuse(req, word, NULL, ": ",
						"unknown option, try help");
			break;
		}
		if (argc < 2)
			bpshaper_request_refuse(req, word, NULL,
						": must be followed by ",
						o->type->unit);
		else
			bpshaper_request_add(req, o, word, argv[1], dev);
	}
	return false;
}

/* Given, and with a value that means something */
static bool bpshaper_request_has(const struct bpshaper_request *req, int attr,
				 __u64 none)
{
	return req->is_valid[attr] && req->value[attr] != none;
}

static void bpshaper_request_check_pairs(struct bpshaper_request *req)
{
	const struct bpshaper_option *o;

	for (o = req->options; o->name; o++)
		if (o->excludes && req->word[o->attr] && req->word[o->excludes])
			bpshaper_request_refuse_pair(req, o->excludes, " and ",
						     o->attr,
						     " exclude each other");
}

/* Contradictions within the command line. Only the kernel can tell whether an
 * option fits those that the qdisc already has: a latency without a rate may.
 */
static void bpshaper_request_check(struct bpshaper_request *req)
{
	const int rate = TCA_BPSHAPER_RATE64, peak = TCA_BPSHAPER_PEAKRATE64;
	bool has_peak = bpshaper_request_has(req, peak, BPSHAPER_SPECIAL);
	bool is_unlimited = req->is_valid[rate] &&
			    req->value[rate] == BPSHAPER_SPECIAL;

	bpshaper_request_check_pairs(req);
	if (is_unlimited && req->is_valid[TCA_BPSHAPER_LATENCY])
		bpshaper_request_refuse_pair(req, TCA_BPSHAPER_LATENCY,
					     " needs a rate, not ", rate, "");
	/* The rate "unlimited" is above all others. */
	if (has_peak && req->is_valid[rate] &&
	    req->value[peak] <= req->value[rate])
		bpshaper_request_refuse_pair(req, peak,
					     " needs a rate below it, not ",
					     rate, "");
}

static void bpshaper_class_request_check(struct bpshaper_request *req)
{
	const int floor = TCA_BPSHAPER_CLASS_FLOOR64;
	const int ceil = TCA_BPSHAPER_CLASS_CEIL64;

	bpshaper_request_check_pairs(req);
	if (req->is_valid[floor] && req->is_valid[ceil] &&
	    req->value[floor] > req->value[ceil] && !req->is_htb)
		bpshaper_request_refuse_pair(req, floor, " is above ", ceil,
					     "");
}

/* A class of htb whose quantum is less than a packet sends a packet in its turn
 * nevertheless.
 */
static __u64 bpshaper_htb_quantum(__u64 quantum)
{
	return quantum > BPSHAPER_HTB_PACKET ? quantum : BPSHAPER_HTB_PACKET;
}

/* What htb would do with a rate, do here. The rate is the ceil, or bounded by
 * it, and may exceed what the parent has left. A burst without cburst does not
 * make that of the ceil larger, which is a packet or two. The kernel does the
 * rest: TCA_BPSHAPER_CLASS_HTB.
 */
static void bpshaper_request_complete(struct bpshaper_request *req)
{
	const int floor = TCA_BPSHAPER_CLASS_FLOOR64;
	const int ceil = TCA_BPSHAPER_CLASS_CEIL64;
	const int weight = TCA_BPSHAPER_CLASS_WEIGHT;
	const int burst = TCA_BPSHAPER_CLASS_BURST;
	const int overcommit = TCA_BPSHAPER_CLASS_OVERCOMMIT;

	if (req->word[burst] && !bpshaper_word_is_cburst(req->word[burst]))
		req->is_valid[burst] = false;
	if (!req->word[ceil] && req->value[floor]) {
		req->value[ceil] = req->value[floor];
		req->is_valid[ceil] = true;
	}
	if (!req->word[overcommit]) {
		req->value[overcommit] = 1;
		req->is_valid[overcommit] = true;
	}
	if (req->word[weight] && !strcmp(req->word[weight], "quantum"))
		req->value[weight] = bpshaper_htb_quantum(req->value[weight]);
}

static int bpshaper_request_put(const struct bpshaper_request *req,
				struct nlmsghdr *n)
{
	const struct bpshaper_option *o;
	struct rtattr *nest = NULL;
	int err = 0;

	for (o = req->options; o->name; o++) {
		if (!req->is_valid[o->attr])
			continue;
		/* The kernel requires the flag, because it parses strictly. */
		if (!nest)
			nest = addattr_nest(n, BPSHAPER_MESSAGE_MAX,
					    TCA_OPTIONS | NLA_F_NESTED);
		if (o->length == sizeof(__u64))
			err |= addattr64(n, BPSHAPER_MESSAGE_MAX, o->attr,
					 req->value[o->attr]);
		else
			err |= addattr32(n, BPSHAPER_MESSAGE_MAX, o->attr,
					 req->value[o->attr]);
	}
	if (req->is_htb)
		err |= addattr(n, BPSHAPER_MESSAGE_MAX, TCA_BPSHAPER_CLASS_HTB);
	if (nest)
		addattr_nest_end(n, nest);
	return err;
}

/* tc's helpers are bound at their first call. One that this tc lacks would end
 * it in the middle of a line, or of a command. So look for all of them before.
 */
static const char *const bpshaper_helpers[] = {
	"addattr", "addattr32", "addattr64", "addattr_nest", "addattr_nest_end",
	"close_json_array", "get_linklayer", "get_rate64", "get_size",
	"get_size_and_cell", "get_time64", "is_json_context",
	"open_json_array", "parse_rtattr_flags", "print_color_int",
	"print_color_s64", "print_color_string",
	"print_color_u64", "print_color_uint", "print_nl", "sprint_time64", NULL
};

static bool bpshaper_tc_fits(void)
{
	static bool is_known;
	const char *const *name;

	for (name = bpshaper_helpers; !is_known && *name; name++) {
		if (dlsym(RTLD_DEFAULT, *name))
			continue;
		fprintf(stderr, "bpshaper: this tc has no %s()%s\n", *name,
			": the plugin is for another release of iproute2");
		return false;
	}
	is_known = true;
	return true;
}

/* Read the command line into @req, and print what is wrong or the help. Returns
 * false if nothing is to be sent.
 */
static bool bpshaper_request_make(struct bpshaper_request *req, int argc,
				  char **argv, const char *dev)
{
	bool is_class = req->options == bpshaper_class_options, is_help;

	if (!bpshaper_tc_fits())
		return false;
	is_help = bpshaper_request_read(req, argc, argv, dev);
	if (is_class)
		bpshaper_class_request_check(req);
	else
		bpshaper_request_check(req);
	if (req->refusals)
		fputs("\n", stderr);
	if (is_help)
		bpshaper_usage_print(req->options);
	return !is_help && !req->refusals;
}

static int bpshaper_opt_parse(const struct qdisc_util *qu, int argc,
			      char **argv, struct nlmsghdr *n, const char *dev)
{
	struct bpshaper_request req = { .options = bpshaper_options };

	if (!bpshaper_request_make(&req, argc, argv, dev))
		return -1;
	return bpshaper_request_put(&req, n);
}

static int bpshaper_class_opt_parse(const struct qdisc_util *qu, int argc,
				    char **argv, struct nlmsghdr *n,
				    const char *dev)
{
	struct bpshaper_request req = { .options = bpshaper_class_options };
	int i;

	for (i = 0; i < argc; i += 2)
		req.is_htb |= !strcmp(argv[i], "rate");
	if (!bpshaper_request_make(&req, argc, argv, dev))
		return -1;
	if (req.is_htb)
		bpshaper_request_complete(&req);
	return bpshaper_request_put(&req, n);
}

/* Print */

static bool bpshaper_is_detailed(void)
{
	return &show_details && show_details;
}

static bool bpshaper_attr_read(const struct bpshaper_option *o,
			       struct rtattr **tb, __u64 *value)
{
	const struct rtattr *rta = tb[o->attr];

	if (!rta || RTA_PAYLOAD(rta) < o->length)
		return false;
	if (o->length == sizeof(__u64))
		*value = rta_getattr_u64(rta);
	else
		*value = rta_getattr_u32(rta);
	return true;
}

/* Text can be typed again, so it has latency or limit, whichever was given. A
 * quiet option is shown if it is not the default, or with details.
 */
static bool bpshaper_option_is_shown(const struct bpshaper_option *o,
				     struct rtattr **tb, __u64 value)
{
	if (is_json_context())
		return true;
	if (o->attr == TCA_BPSHAPER_LIMIT)
		return !tb[TCA_BPSHAPER_LATENCY];
	if (bpshaper_is_detailed())
		return true;
	return !o->is_quiet || value != o->preset;
}

/* In JSON a number is a number. */
static void bpshaper_option_print(const struct bpshaper_option *o, __u64 value)
{
	SPRINT_BUF(buf);
	const char *text = bpshaper_option_text(o, buf, value);

	print_string(PRINT_FP, NULL, "%s ", o->name);
	print_string(PRINT_FP, NULL, "%s ", text);
	if (text == buf)
		print_u64(PRINT_JSON, o->name, NULL, value);
	else
		print_string(PRINT_JSON, o->name, NULL, text);
}

/* Is the option of a class shown? They do not depend on each other. */
static bool bpshaper_class_option_is_shown(const struct bpshaper_option *o,
					   struct rtattr **tb, __u64 value)
{
	return is_json_context() || bpshaper_is_detailed() || !o->is_quiet ||
	       value != o->preset;
}

typedef bool (*bpshaper_is_shown_t)(const struct bpshaper_option *o,
				    struct rtattr **tb, __u64 value);

static int bpshaper_options_print(const struct bpshaper_option *o, int max,
				  bpshaper_is_shown_t is_shown,
				  struct rtattr *opt)
{
	struct rtattr *tb[TCA_BPSHAPER_MAX + 1];
	__u64 value;

	if (!opt)
		return 0;
	if (!bpshaper_tc_fits())
		return -1;
	parse_rtattr_nested(tb, max, opt);

	for (; o->name; o++)
		if (bpshaper_attr_read(o, tb, &value) && is_shown(o, tb, value))
			bpshaper_option_print(o, value);
	return 0;
}

static int bpshaper_opt_print(const struct qdisc_util *qu, FILE *f,
			      struct rtattr *opt)
{
	return bpshaper_options_print(bpshaper_options, TCA_BPSHAPER_MAX,
				      bpshaper_option_is_shown, opt);
}

static int bpshaper_class_opt_print(const struct qdisc_util *qu, FILE *f,
				    struct rtattr *opt)
{
	_Static_assert(TCA_BPSHAPER_CLASS_MAX <= TCA_BPSHAPER_MAX,
		       "the table of attributes is too short");
	return bpshaper_options_print(bpshaper_class_options,
				      TCA_BPSHAPER_CLASS_MAX,
				      bpshaper_class_option_is_shown, opt);
}

/* Statistics */

/**
 * struct bpshaper_stat - one member of a struct of statistics
 * @key: its name, and the JSON key
 * @label: its name in the text
 * @offset: in the struct
 * @size: 4 or 8 bytes
 * @line: beginning of a line of text, if it begins one
 * @end: what follows the number in the text, or NULL
 * @is_bytes: the text has it with a unit
 * @is_rate: likewise, a rate in bytes per second
 * @is_shown: whether text has it, or NULL if it always has
 */
struct bpshaper_stat {
	const char	*key;
	const char	*label;
	unsigned short	offset;
	unsigned short	size;
	const char	*line;
	const char	*end;
	bool		is_bytes;
	bool		is_rate;
	bool		(*is_shown)(const void *stats);
};

static bool bpshaper_has_turns(const void *stats)
{
	const struct tc_bpshaper_xstats *st = stats;

	return st->turns || st->outside_sockets;
}

static bool bpshaper_has_idle(const void *stats)
{
	const struct tc_bpshaper_xstats *st = stats;

	return st->idle_throttles;
}

static bool bpshaper_has_unheld(const void *stats)
{
	const struct tc_bpshaper_xstats *st = stats;

	return st->unheld_no_owner || st->unheld_foreign ||
	       st->unheld_sndbuf || st->unheld_control || st->unheld_destructor;
}

static bool bpshaper_has_pacing(const void *stats)
{
	const struct tc_bpshaper_xstats *st = stats;

	return bpshaper_is_detailed() || st->paced_waits || st->paced_flows ||
	       st->horizon_caps || st->ce_marks;
}

static bool bpshaper_has_hub(const void *stats)
{
	const struct tc_bpshaper_xstats *st = stats;

	return st->queues;
}

#define BPSHAPER_STAT_OF(structure, c_type, member, text, ...)		\
	{ .key = #member, .label = text, .size = sizeof(__##c_type),	\
	  .offset = offsetof(struct structure, member), ##__VA_ARGS__ }
#define BPSHAPER_STAT(...)						\
	BPSHAPER_STAT_OF(tc_bpshaper_xstats, __VA_ARGS__)

static const struct bpshaper_stat bpshaper_stats[] = {
	BPSHAPER_STAT(u64, throttles, "throttles", .line = " "),
	BPSHAPER_STAT(u64, unthrottles, "unthrottles"),
	BPSHAPER_STAT(u32, throttled_sockets, "throttled"),
	BPSHAPER_STAT(u32, overlimit_sockets, "overlimit"),
	BPSHAPER_STAT(u32, outside_sockets, "outside",
		      .is_shown = bpshaper_has_turns),
	BPSHAPER_STAT(u64, turns, "turns", .is_shown = bpshaper_has_turns),
	BPSHAPER_STAT(u64, idle_throttles, "idle_throttles",
		      .is_shown = bpshaper_has_idle),

	BPSHAPER_STAT(u32, flows, "flows", .line = " "),
	BPSHAPER_STAT(u32, socket_flows, "(socket_flows"),
	BPSHAPER_STAT(u32, parked_flows, "parked", .end = ")"),
	BPSHAPER_STAT(u32, sockets, "sockets"),
	BPSHAPER_STAT(u32, limit, "limit", .is_bytes = true),
	BPSHAPER_STAT(u32, share, "share", .is_bytes = true),
	BPSHAPER_STAT(u32, pool_backlog, "pool", .is_bytes = true),
	BPSHAPER_STAT(u64, memory, "memory", .is_bytes = true),

	BPSHAPER_STAT(u64, drops_pool, "pool", .line = "  drops:"),
	BPSHAPER_STAT(u64, drops_memory, "memory"),
	BPSHAPER_STAT(u64, drops_alloc, "alloc"),
	BPSHAPER_STAT(u64, drops_ack, "ack"),
	BPSHAPER_STAT(u64, drops_segments, "segments"),
	BPSHAPER_STAT(u64, purged_packets, "purged"),

	BPSHAPER_STAT(u64, unheld_no_owner, "no_owner", .line = "  unheld:",
		      .is_shown = bpshaper_has_unheld),
	BPSHAPER_STAT(u64, unheld_foreign, "foreign",
		      .is_shown = bpshaper_has_unheld),
	BPSHAPER_STAT(u64, unheld_sndbuf, "sndbuf",
		      .is_shown = bpshaper_has_unheld),
	BPSHAPER_STAT(u64, unheld_control, "control",
		      .is_shown = bpshaper_has_unheld),
	BPSHAPER_STAT(u64, unheld_destructor, "destructor",
		      .is_shown = bpshaper_has_unheld),

	BPSHAPER_STAT(u64, segments, "segments", .line = " "),
	BPSHAPER_STAT(u64, direct_packets, "direct"),
	BPSHAPER_STAT(u64, timer_wakeups, "timer_wakeups"),
	BPSHAPER_STAT(u64, max_backlog, "max_backlog", .is_bytes = true),
	BPSHAPER_STAT(u64, ballast_errors, "ballast_errors"),

	BPSHAPER_STAT(u64, paced_waits, "paced_waits", .line = " ",
		      .is_shown = bpshaper_has_pacing),
	BPSHAPER_STAT(u32, paced_flows, "paced_flows",
		      .is_shown = bpshaper_has_pacing),
	BPSHAPER_STAT(u64, horizon_caps, "horizon_caps",
		      .is_shown = bpshaper_has_pacing),
	BPSHAPER_STAT(u64, ce_marks, "ce_marks",
		      .is_shown = bpshaper_has_pacing),

	BPSHAPER_STAT(u32, queues, "queues", .line = " ",
		      .is_shown = bpshaper_has_hub),
	BPSHAPER_STAT(u32, hub_waiting, "waiting",
		      .is_shown = bpshaper_has_hub),
	BPSHAPER_STAT(u64, hub_locks, "locks", .is_shown = bpshaper_has_hub),
	BPSHAPER_STAT(u64, hub_grants, "grants", .is_shown = bpshaper_has_hub),
	BPSHAPER_STAT(u64, hub_revokes, "revokes",
		      .is_shown = bpshaper_has_hub),
	{}
};

static bool bpshaper_has_floor(const void *stats)
{
	const struct tc_bpshaper_leaf_xstats *st = stats;

	return st->floor_in_effect;
}

static bool bpshaper_has_marks(const void *stats)
{
	const struct tc_bpshaper_leaf_xstats *st = stats;

	return st->ce_marks;
}

#define BPSHAPER_LEAF_STAT(...)						\
	BPSHAPER_STAT_OF(tc_bpshaper_leaf_xstats, __VA_ARGS__)

static const struct bpshaper_stat bpshaper_leaf_stats[] = {
	BPSHAPER_LEAF_STAT(u64, throttles, "throttles", .line = " "),
	BPSHAPER_LEAF_STAT(u64, unthrottles, "unthrottles"),
	BPSHAPER_LEAF_STAT(u32, throttled_sockets, "throttled"),
	BPSHAPER_LEAF_STAT(u32, overlimit_sockets, "overlimit"),
	BPSHAPER_LEAF_STAT(u32, outside_sockets, "outside"),
	BPSHAPER_LEAF_STAT(u64, turns, "turns"),

	BPSHAPER_LEAF_STAT(u32, flows, "flows", .line = " "),
	BPSHAPER_LEAF_STAT(u32, socket_flows, "(socket_flows", .end = ")"),
	BPSHAPER_LEAF_STAT(u32, sockets, "sockets"),
	BPSHAPER_LEAF_STAT(u32, limit, "limit", .is_bytes = true),
	BPSHAPER_LEAF_STAT(u32, share, "share", .is_bytes = true),
	BPSHAPER_LEAF_STAT(u32, pool_backlog, "pool", .is_bytes = true),
	BPSHAPER_LEAF_STAT(u32, paced_flows, "paced_flows"),

	BPSHAPER_LEAF_STAT(u64, drops_pool, "pool", .line = "  drops:"),
	BPSHAPER_LEAF_STAT(u64, drops_memory, "memory"),
	BPSHAPER_LEAF_STAT(u64, drops_alloc, "alloc"),
	BPSHAPER_LEAF_STAT(u64, drops_ack, "ack"),
	BPSHAPER_LEAF_STAT(u64, drops_segments, "segments"),

	BPSHAPER_LEAF_STAT(u64, rate, "rate", .line = " ", .is_rate = true),
	BPSHAPER_LEAF_STAT(u64, floor_in_effect, "floor_in_effect",
			   .is_rate = true, .is_shown = bpshaper_has_floor),
	BPSHAPER_LEAF_STAT(u64, ceil_waits, "ceil_waits"),
	BPSHAPER_LEAF_STAT(u64, ce_marks, "ce_marks",
			   .is_shown = bpshaper_has_marks),
	BPSHAPER_LEAF_STAT(u32, children, "children"),
	{}
};

static __u64 bpshaper_stat_read(const struct bpshaper_stat *s,
				const void *stats)
{
	const char *member = (const char *)stats + s->offset;

	return s->size == sizeof(__u64) ? *(const __u64 *)member :
					  *(const __u32 *)member;
}

static const struct bpshaper_name *
bpshaper_stat_units(const struct bpshaper_stat *s)
{
	if (s->is_rate)
		return bpshaper_rate_units;
	return s->is_bytes ? bpshaper_size_units : bpshaper_number_units;
}

static void bpshaper_stat_print(const struct bpshaper_stat *s, __u64 value,
				bool is_first)
{
	SPRINT_BUF(buf);

	if (is_json_context()) {
		print_u64(PRINT_JSON, s->key, NULL, value);
		return;
	}
	if (s->line && !is_first)
		print_nl();
	printf("%s %s %s%s", s->line ?: "", s->label,
	       bpshaper_quantity_text(buf, s->is_rate ? value * 8 : value,
				      bpshaper_stat_units(s)), s->end ?: "");
}

static void bpshaper_stats_print(const struct bpshaper_stat *table,
				 const void *stats)
{
	const struct bpshaper_stat *s;

	for (s = table; s->key; s++)
		if (is_json_context() || !s->is_shown || s->is_shown(stats))
			bpshaper_stat_print(s, bpshaper_stat_read(s, stats),
					    s == table);
}

/* The bound of a histogram bucket: its times are below, those of the last
 * above.
 */
static const char *bpshaper_bucket_text(char *buf, unsigned int bucket)
{
	bool is_last = bucket == TC_BPSHAPER_HIST_BUCKETS - 1;

	buf[0] = is_last ? '>' : '<';
	sprint_time64(1LL << (bucket + (is_last ? 9 : 10)), buf + 1);
	return buf;
}

/* The histogram bucket that the percentile falls in. */
static unsigned int bpshaper_hist_find(const __u64 *hist, __u64 total,
				       unsigned int percent)
{
	unsigned int bucket;
	__u64 count = 0;

	for (bucket = 0; bucket < TC_BPSHAPER_HIST_BUCKETS - 1; bucket++) {
		count += hist[bucket];
		if (count * 100 >= total * percent)
			break;
	}
	return bucket;
}

static void bpshaper_hist_text(const char *label, const __u64 *hist)
{
	char buf[SPRINT_BSIZE + 1];
	__u64 total = 0;
	unsigned int i;

	for (i = 0; i < TC_BPSHAPER_HIST_BUCKETS; i++)
		total += hist[i];
	if (!total)
		return;

	print_nl();
	printf("  %s: p50 %s", label,
	       bpshaper_bucket_text(buf, bpshaper_hist_find(hist, total, 50)));
	printf(" p99 %s",
	       bpshaper_bucket_text(buf, bpshaper_hist_find(hist, total, 99)));
	printf(" max %s",
	       bpshaper_bucket_text(buf, bpshaper_hist_find(hist, total, 100)));
	for (i = 0; bpshaper_is_detailed() && i < TC_BPSHAPER_HIST_BUCKETS; i++)
		if (hist[i])
			printf("; %s %llu", bpshaper_bucket_text(buf, i),
			       (unsigned long long)hist[i]);
}

static void bpshaper_hist_print(const char *key, const char *label,
				const __u64 *hist, bool is_detail)
{
	unsigned int i;

	if (!is_json_context()) {
		if (!is_detail || bpshaper_is_detailed())
			bpshaper_hist_text(label, hist);
		return;
	}
	open_json_array(PRINT_JSON, key);
	for (i = 0; i < TC_BPSHAPER_HIST_BUCKETS; i++)
		print_u64(PRINT_JSON, NULL, NULL, hist[i]);
	close_json_array(PRINT_JSON, NULL);
}

static void bpshaper_qdisc_xstats_print(const struct tc_bpshaper_xstats *st)
{
	bpshaper_stats_print(bpshaper_stats, st);
	/* The only one that may be negative */
	if (is_json_context() || bpshaper_has_hub(st))
		print_s64(PRINT_ANY, "hub_tokens", " tokens %" PRId64 "b",
			  st->hub_tokens);
	bpshaper_hist_print("delay_hist", "delay", st->delay_hist, false);
	bpshaper_hist_print("throttle_hist", "throttle", st->throttle_hist,
			    false);
	bpshaper_hist_print("outside_hist", "outside", st->outside_hist,
			    false);
	bpshaper_hist_print("lateness_hist", "lateness", st->lateness_hist,
			    true);
}

/* Classes */

static const struct bpshaper_name bpshaper_states[] = {
	{ TC_BPSHAPER_FLOW_SOCKETLESS, "socketless" },
	{ TC_BPSHAPER_FLOW_UNTHROTTLED, "unthrottled" },
	{ TC_BPSHAPER_FLOW_OVERLIMIT, "overlimit" },
	{ TC_BPSHAPER_FLOW_THROTTLED, "throttled" },
	{ TC_BPSHAPER_FLOW_OUTSIDE, "outside" },
	{}
};

static const struct bpshaper_name bpshaper_families[] = {
	{ AF_INET, "inet" }, { AF_INET6, "inet6" }, { AF_PACKET, "packet" }, {}
};

static const struct bpshaper_name bpshaper_protocols[] = {
	{ IPPROTO_TCP, "tcp" }, { IPPROTO_UDP, "udp" }, { IPPROTO_RAW, "raw" },
	{ IPPROTO_ICMP, "icmp" }, { IPPROTO_ICMPV6, "icmpv6" }, {}
};

/* The destination of the next packet; the family is 0 if it is unknown. */
static bool bpshaper_class_has_peer(const struct tc_bpshaper_class_xstats *cl)
{
	return cl->peer_family == AF_INET || cl->peer_family == AF_INET6;
}

/* ADDRESS, ADDRESS:PORT or, of IPv6, [ADDRESS]:PORT */
static void bpshaper_class_peer_print(const struct tc_bpshaper_class_xstats *cl)
{
	bool is_bracketed = cl->peer_family == AF_INET6 && cl->peer_port;
	char buf[INET6_ADDRSTRLEN];

	if (!bpshaper_class_has_peer(cl))
		return;
	inet_ntop(cl->peer_family, cl->peer, buf, sizeof(buf));
	print_string(PRINT_ANY, "peer",
		     is_bracketed ? " peer [%s]" : " peer %s", buf);
	if (cl->peer_port)
		print_uint(PRINT_ANY, "peer_port", ":%u", ntohs(cl->peer_port));
}

/* The socket, named as "ss -e" does. */
static void
bpshaper_class_socket_text(const struct tc_bpshaper_class_xstats *cl)
{
	SPRINT_BUF(buf);

	printf(" %s", bpshaper_name_text(buf, cl->family, bpshaper_families));
	if (cl->protocol)
		printf(" %s", bpshaper_name_text(buf, cl->protocol,
						 bpshaper_protocols));
	printf(" sk:%llx", (unsigned long long)cl->cookie);
}

/* What all flows of the socket share. Their number and backlog are shown if
 * there are several, or with details.
 */
static void
bpshaper_class_throttles_text(const struct tc_bpshaper_class_xstats *cl)
{
	SPRINT_BUF(buf);

	if (cl->socket_flows > (bpshaper_is_detailed() ? 0U : 1U))
		printf(" socket_flows %u socket_backlog %s", cl->socket_flows,
		       bpshaper_quantity_text(buf, cl->socket_backlog,
					      bpshaper_size_units));
	printf(" throttles %u longest_throttle %s", cl->throttles,
	       sprint_time64(cl->longest_throttle_ns, buf));
}

static void
bpshaper_class_xstats_print(const struct tc_bpshaper_class_xstats *cl)
{
	SPRINT_BUF(buf);
	bool is_socket = cl->state != TC_BPSHAPER_FLOW_SOCKETLESS;
	bool is_text = !is_json_context();

	print_string(PRINT_ANY, "state", "  %s",
		     bpshaper_name_text(buf, cl->state, bpshaper_states));
	if (is_text && is_socket)
		bpshaper_class_socket_text(cl);
	/* A connected socket has one flow, and needs no hash. */
	if (is_text && (!is_socket || cl->hash))
		printf(" hash %08x", cl->hash);
	bpshaper_class_peer_print(cl);
	if (is_text && is_socket)
		bpshaper_class_throttles_text(cl);
	print_u64(PRINT_JSON, "cookie", NULL, cl->cookie);
	print_u64(PRINT_JSON, "longest_throttle_ns", NULL,
		  cl->longest_throttle_ns);
	print_uint(PRINT_JSON, "hash", NULL, cl->hash);
	print_uint(PRINT_JSON, "throttles", NULL, cl->throttles);
	print_int(PRINT_ANY, "deficit", " deficit %d", cl->deficit);
	print_uint(PRINT_JSON, "family", NULL, cl->family);
	print_uint(PRINT_JSON, "protocol", NULL, cl->protocol);
	print_uint(PRINT_JSON, "socket_flows", NULL, cl->socket_flows);
	print_uint(PRINT_JSON, "socket_backlog", NULL, cl->socket_backlog);
}

static void
bpshaper_leaf_xstats_print(const struct tc_bpshaper_leaf_xstats *st)
{
	bpshaper_stats_print(bpshaper_leaf_stats, st);
	bpshaper_hist_print("delay_hist", "delay", st->delay_hist, false);
	bpshaper_hist_print("throttle_hist", "throttle", st->throttle_hist,
			    false);
	bpshaper_hist_print("outside_hist", "outside", st->outside_hist,
			    false);
}

/* tc has one callback for the statistics of a qdisc and of a class; what is
 * missing at their end is zero, and what is new there is ignored.
 */
static int bpshaper_xstats_print(const struct qdisc_util *qu, FILE *f,
				 struct rtattr *xstats)
{
	union {
		__u32				type;
		struct tc_bpshaper_xstats	qdisc;
		struct tc_bpshaper_class_xstats	class;
		struct tc_bpshaper_leaf_xstats	leaf;
	} st;
	size_t length;

	if (!xstats)
		return 0;
	if (!bpshaper_tc_fits())
		return -1;
	length = RTA_PAYLOAD(xstats);
	if (length > sizeof(st))
		length = sizeof(st);
	memset(&st, 0, sizeof(st));
	memcpy(&st, RTA_DATA(xstats), length);

	if (st.type == TC_BPSHAPER_XSTATS_QDISC)
		bpshaper_qdisc_xstats_print(&st.qdisc);
	else if (st.type == TC_BPSHAPER_XSTATS_CLASS)
		bpshaper_class_xstats_print(&st.class);
	else if (st.type == TC_BPSHAPER_XSTATS_LEAF)
		bpshaper_leaf_xstats_print(&st.leaf);
	return 0;
}

/* Newer headers of tc declare the first argument of the callbacks const, older
 * ones do not: the casts fit both. tc links the struct into its list, so the
 * struct itself cannot be const.
 */
struct qdisc_util bpshaper_qdisc_util = {
	.id		= "bpshaper",
	.parse_qopt	= (void *)bpshaper_opt_parse,
	.print_qopt	= (void *)bpshaper_opt_print,
	.parse_copt	= (void *)bpshaper_class_opt_parse,
	.print_copt	= (void *)bpshaper_class_opt_print,
	.print_xstats	= (void *)bpshaper_xstats_print,
};
