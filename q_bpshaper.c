// SPDX-License-Identifier: GPL-2.0-only
/* tc plugin of the bpshaper qdisc: options, dump, statistics
 *
 * Reading guide:
 *   bpshaper_options[]	the words: parser, printer, attribute, range, help
 *   parse		words -> bpshaper_request -> TCA_OPTIONS, all or nothing
 *   print		TCA_OPTIONS -> text that can be typed again, or JSON
 *   xstats		TCA_STATS_APP of the qdisc or of a class -> text, or JSON
 *
 * Words, aliases and meanings are those of tbf, so that its command lines and
 * its dumps work here: abbreviations ("lat"), SIZE/CELL, bare numbers in us and
 * in bit/s.
 *
 * Text is exact, and without details it leaves out what is as usual. JSON has
 * it all. Its keys are the option names and the fields of the structs of
 * statistics, its values plain numbers in the units of the uAPI: bytes per
 * second, bytes, nanoseconds. Strings are the rate "unlimited", ce_threshold
 * "never", linklayer "ethernet" or "atm", backpressure and pacing "on" or "off"
 * (what one types, hence no boolean), and the state and peer of a class; words
 * without a value are null, as for fq. Histograms are arrays of all buckets. The peer
 * and its port are not there if they are not known.
 *
 * Every refusal is one line that names the options and their values. tc's own
 * helpers that write to stderr or exit (NEXT_ARG, get_percent_rate64,
 * parse_on_off) are therefore not used.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "utils.h"
#include "tc_util.h"
#include "sch_bpshaper.h"

/* Data is bound when the plugin is loaded: a tc that lacks it is NULL's case. */
#pragma weak show_details

/* Room for TCA_KIND and what else tc put in front, and all of our options. */
#define BPSHAPER_MESSAGE_MAX	1024

/* The largest of the ranges of times */
#define BPSHAPER_TIME_MAX	TC_BPSHAPER_HORIZON_MAX

/* Defaults that text leaves out */
#define BPSHAPER_LOW_RATE_BPS	(550000 / 8)
#define BPSHAPER_HORIZON_NS	10000000000ULL
#define BPSHAPER_TIMER_SLACK_NS	10000

/* One of the units that a number is printed in, or one of the numbers that have
 * a name; tables of both end in their last resort.
 */
struct bpshaper_name {
	__u64		number;
	const char	*name;
};

/**
 * struct bpshaper_option - one word of the command line
 * @names: the word, then its aliases, then NULL; @names[0] is the JSON key
 * @opposite: a word that has no value, like @names[0] then, is the value 0 of the
 *	same attribute, and the JSON key then; or NULL
 * @unit: placeholder of the value in the usage text; NULL with @opposite
 * @attr: TCA_BPSHAPER_*
 * @length: length of the attribute, 4 or 8 bytes
 * @is_abbreviable: the beginning of @names[0] will do, as for tbf
 * @is_boundless: TC_BPSHAPER_RATE_UNLIMITED and TC_BPSHAPER_CE_NEVER, which are one
 *	number, will do, too
 * @parse: value of @arg (without a value, of the word) in the unit of the
 *	attribute; returns NULL, or what is wrong with @arg, "" if that is what
 *	@range says
 * @print: text and a space, or a JSON member
 * @min: smallest value
 * @max: largest value
 * @range: the two above, for people
 * @preset: default
 * @meaning: one line for the usage text
 */
struct bpshaper_option {
	const char	*names[4];
	const char	*opposite;
	const char	*unit;
	unsigned short	attr;
	unsigned short	length;
	bool		is_abbreviable;
	bool		is_boundless;
	const char	*(*parse)(__u64 *value, const char *arg,
				  const char *dev);
	void		(*print)(const char *name, __u64 value);
	__u64		min;
	__u64		max;
	const char	*range;
	const char	*preset;
	const char	*meaning;
};

/**
 * struct bpshaper_request - what a command line asks for, indexed by attribute
 * @word: as typed, or NULL
 * @arg: its value as typed, or NULL if it has none
 * @is_valid: @arg is in range, and @value is what it says
 * @value: in the unit of the attribute
 * @refusals: what is wrong with the command line so far
 */
struct bpshaper_request {
	const char	*word[TCA_BPSHAPER_MAX + 1];
	const char	*arg[TCA_BPSHAPER_MAX + 1];
	bool		is_valid[TCA_BPSHAPER_MAX + 1];
	__u64		value[TCA_BPSHAPER_MAX + 1];
	unsigned int	refusals;
};

/* Parsers */

/* strtod() would also take "-1", "inf" and "nan", whose conversion to an
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
	if (!strcmp(arg, "unlimited")) {
		*rate = TC_BPSHAPER_RATE_UNLIMITED;
		return NULL;
	}
	if (!bpshaper_arg_is_number(arg))
		return "";
	if (strchr(arg, '%'))
		return bpshaper_percent_parse(rate, arg, dev);
	/* An overflow must not come out as "unlimited", nor as nothing. */
	if (get_rate64(rate, arg) || *rate == TC_BPSHAPER_RATE_UNLIMITED ||
	    (!*rate && strtod(arg, NULL) >= 8))
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

/* tbf's SIZE/CELL; the cell was one of a table that nobody uses any more. */
static const char *bpshaper_burst_parse(__u64 *size, const char *arg,
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

static const char *bpshaper_linklayer_parse(__u64 *linklayer, const char *arg,
					    const char *dev)
{
	unsigned int linklayer32;

	if (get_linklayer(&linklayer32, arg))
		return "";
	*linklayer = linklayer32;
	return NULL;
}

static const char *bpshaper_switch_parse(__u64 *is_on, const char *arg,
					 const char *dev)
{
	*is_on = !strcmp(arg, "on");
	return *is_on || !strcmp(arg, "off") ? NULL : "";
}

/* A bare number is in microseconds, as for tbf; get_time64() takes it for ns. */
static const char *bpshaper_time_parse(__u64 *ns, const char *arg,
				       const char *dev)
{
	bool is_bare = isdigit((unsigned char)arg[strlen(arg) - 1]);
	__s64 signed_ns;

	if (!bpshaper_arg_is_number(arg) || get_time64(&signed_ns, arg))
		return "";
	/* An overflow comes out negative, hence above every range. */
	*ns = signed_ns;
	if (is_bare && *ns <= BPSHAPER_TIME_MAX)
		*ns *= 1000;
	return NULL;
}

static const char *bpshaper_ce_parse(__u64 *ns, const char *arg,
				     const char *dev)
{
	if (strcmp(arg, "never"))
		return bpshaper_time_parse(ns, arg, dev);
	*ns = TC_BPSHAPER_CE_NEVER;
	return NULL;
}

static const char *bpshaper_number_parse(__u64 *number, const char *arg,
					 const char *dev)
{
	char *end;

	if (!isdigit((unsigned char)arg[0]))
		return "";
	*number = strtoull(arg, &end, 0);	/* an overflow is out of range */
	return *end ? "" : NULL;
}

static const char *bpshaper_horizon_drop_parse(__u64 *is_drop, const char *arg,
					       const char *dev)
{
	*is_drop = !strcmp(arg, "horizon_drop");
	return NULL;
}

/* Printers */

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

/* tc's own rate, size and time round: what they print may be another value when
 * it is typed again, or one that is refused (4096Mb, a peak rate like the rate).
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

static void bpshaper_string_print(const char *name, const char *value)
{
	print_string(PRINT_FP, NULL, "%s ", name);
	print_string(PRINT_ANY, name, "%s ", value);
}

/* @value is that of the uAPI, @shown the same in what @units count. */
static void bpshaper_quantity_print(const char *name, __u64 value, __u64 shown,
				    const struct bpshaper_name *units)
{
	SPRINT_BUF(text);

	print_string(PRINT_FP, NULL, "%s ", name);
	print_string(PRINT_FP, NULL, "%s ",
		     bpshaper_quantity_text(text, shown, units));
	print_u64(PRINT_JSON, name, NULL, value);
}

static void bpshaper_rate_print(const char *name, __u64 rate)
{
	if (rate == TC_BPSHAPER_RATE_UNLIMITED)
		bpshaper_string_print(name, "unlimited");
	else
		bpshaper_quantity_print(name, rate, rate * 8,
					bpshaper_rate_units);
}

static void bpshaper_size_print(const char *name, __u64 size)
{
	bpshaper_quantity_print(name, size, size, bpshaper_size_units);
}

/* tc has no one unit of time for JSON (fq: us, netem: s); ours is the uAPI's. */
static void bpshaper_time_print(const char *name, __u64 ns)
{
	bpshaper_quantity_print(name, ns, ns, bpshaper_time_units);
}

static void bpshaper_linklayer_print(const char *name, __u64 linklayer)
{
	SPRINT_BUF(text);

	bpshaper_string_print(name, sprint_linklayer(linklayer, text));
}

static void bpshaper_switch_print(const char *name, __u64 is_on)
{
	bpshaper_string_print(name, is_on ? "on" : "off");
}

static void bpshaper_ce_print(const char *name, __u64 ns)
{
	if (ns == TC_BPSHAPER_CE_NEVER)
		bpshaper_string_print(name, "never");
	else
		bpshaper_time_print(name, ns);
}

static void bpshaper_horizon_drop_print(const char *name, __u64 is_drop)
{
	const char *word = is_drop ? name : "horizon_cap";

	print_string(PRINT_FP, NULL, "%s ", word);
	print_null(PRINT_JSON, word, NULL, NULL);
}

static void bpshaper_number_print(const char *name, __u64 number)
{
	print_string(PRINT_FP, NULL, "%s ", name);
	print_lluint(PRINT_ANY, name, "%llu ", number);
}

/* Words, in the order in which they are sent and printed */

static const struct bpshaper_option bpshaper_options[] = {
	{
		.names	 = { "rate" },
		.unit	 = "RATE",
		.attr	 = TCA_BPSHAPER_RATE64,
		.length	 = sizeof(__u64),
		.is_boundless = true,
		.parse	 = bpshaper_rate_parse,
		.print	 = bpshaper_rate_print,
		.min	 = TC_BPSHAPER_RATE_MIN,
		.max	 = TC_BPSHAPER_RATE_MAX,
		.range	 = "8bit to 64Tibit, up to 100% of the device's speed, or unlimited",
		.preset	 = "unlimited",
		.meaning = "what leaves per second; a bare number is in bit/s",
	}, {
		.names	 = { "burst", "buffer", "maxburst" },
		.unit	 = "SIZE[/CELL]",
		.attr	 = TCA_BPSHAPER_BURST,
		.length	 = sizeof(__u32),
		.is_abbreviable = true,
		.parse	 = bpshaper_burst_parse,
		.print	 = bpshaper_size_print,
		.min	 = 1,
		.max	 = UINT32_MAX,
		.range	 = "1b to 4294967295b, a cell a power of 2",
		.preset	 = "what the rate sends in 1ms, at least two packets of the MTU",
		.meaning = "what may leave back to back; the cell has no effect",
	}, {
		.names	 = { "limit" },
		.unit	 = "SIZE",
		.attr	 = TCA_BPSHAPER_LIMIT,
		.length	 = sizeof(__u32),
		.is_abbreviable = true,
		.parse	 = bpshaper_size_parse,
		.print	 = bpshaper_size_print,
		.min	 = 1,
		.max	 = UINT32_MAX,
		.range	 = "1b to 4294967295b",
		.preset	 = "set by latency",
		.meaning = "what may wait; excludes latency",
	}, {
		.names	 = { "latency" },
		.unit	 = "TIME",
		.attr	 = TCA_BPSHAPER_LATENCY,
		.length	 = sizeof(__u64),
		.is_abbreviable = true,
		.parse	 = bpshaper_time_parse,
		.print	 = bpshaper_time_print,
		.min	 = 1,
		.max	 = TC_BPSHAPER_LATENCY_MAX,
		.range	 = "1ns to 60s",
		.preset	 = "10ms",
		.meaning = "limit = rate x latency + burst; a bare number is in us",
	}, {
		.names	 = { "peakrate" },
		.unit	 = "RATE",
		.attr	 = TCA_BPSHAPER_PEAKRATE64,
		.length	 = sizeof(__u64),
		.is_abbreviable = true,
		.is_boundless = true,
		.parse	 = bpshaper_rate_parse,
		.print	 = bpshaper_rate_print,
		.min	 = TC_BPSHAPER_RATE_MIN,
		.max	 = TC_BPSHAPER_RATE_MAX,
		.range	 = "8bit to 64Tibit, up to 100% of the device's speed, or unlimited",
		.preset	 = "unlimited",
		.meaning = "how fast a burst leaves; above the rate",
	}, {
		.names	 = { "mtu", "minburst" },
		.unit	 = "SIZE[/CELL]",
		.attr	 = TCA_BPSHAPER_MTU,
		.length	 = sizeof(__u32),
		.parse	 = bpshaper_burst_parse,
		.print	 = bpshaper_size_print,
		.min	 = 1,
		.max	 = UINT32_MAX,
		.range	 = "1b to 4294967295b, a cell a power of 2",
		.preset	 = "one packet of the MTU",
		.meaning = "what may leave back to back despite the peakrate",
	}, {
		.names	 = { "overhead" },
		.unit	 = "SIZE",
		.attr	 = TCA_BPSHAPER_OVERHEAD,
		.length	 = sizeof(__u32),
		.is_abbreviable = true,
		.parse	 = bpshaper_size_parse,
		.print	 = bpshaper_size_print,
		.max	 = TC_BPSHAPER_OVERHEAD_MAX,
		.range	 = "0b to 65535b",
		.preset	 = "0b",
		.meaning = "what each packet takes on the wire beside its length",
	}, {
		.names	 = { "mpu" },
		.unit	 = "SIZE",
		.attr	 = TCA_BPSHAPER_MPU,
		.length	 = sizeof(__u32),
		.parse	 = bpshaper_size_parse,
		.print	 = bpshaper_size_print,
		.max	 = TC_BPSHAPER_MPU_MAX,
		.range	 = "0b to 65535b",
		.preset	 = "0b",
		.meaning = "what each packet takes on the wire at least",
	}, {
		.names	 = { "linklayer" },
		.unit	 = "TYPE",
		.attr	 = TCA_BPSHAPER_LINKLAYER,
		.length	 = sizeof(__u32),
		.is_abbreviable = true,
		.parse	 = bpshaper_linklayer_parse,
		.print	 = bpshaper_linklayer_print,
		.min	 = TC_LINKLAYER_ETHERNET,
		.max	 = TC_LINKLAYER_ATM,
		.range	 = "ethernet, atm or adsl",
		.preset	 = "ethernet",
		.meaning = "atm, adsl: packets take cells of 53 bytes for each 48",
	}, {
		.names	 = { "memory_limit" },
		.unit	 = "SIZE",
		.attr	 = TCA_BPSHAPER_MEMORY_LIMIT,
		.length	 = sizeof(__u32),
		.parse	 = bpshaper_size_parse,
		.print	 = bpshaper_size_print,
		.min	 = TC_BPSHAPER_MEMORY_MIN,
		.max	 = UINT32_MAX,
		.range	 = "64kb to 4294967295b",
		.preset	 = "1/16 of the memory, 32Mb to 1Gb",
		.meaning = "kernel memory that the queued packets may take",
	}, {
		.names	 = { "quantum" },
		.unit	 = "SIZE",
		.attr	 = TCA_BPSHAPER_QUANTUM,
		.length	 = sizeof(__u32),
		.parse	 = bpshaper_size_parse,
		.print	 = bpshaper_size_print,
		.min	 = TC_BPSHAPER_QUANTUM_MIN,
		.max	 = TC_BPSHAPER_QUANTUM_MAX,
		.range	 = "256b to 1Mb",
		.preset	 = "one packet of the MTU",
		.meaning = "credit of a flow per round",
	}, {
		.names	 = { "share_min" },
		.unit	 = "SIZE",
		.attr	 = TCA_BPSHAPER_SHARE_MIN,
		.length	 = sizeof(__u32),
		.parse	 = bpshaper_size_parse,
		.print	 = bpshaper_size_print,
		.min	 = 1,
		.max	 = UINT32_MAX,
		.range	 = "1b to 4294967295b",
		.preset	 = "two packets of the MTU",
		.meaning = "least share of the limit that a socket gets",
	}, {
		.names	 = { "share_max" },
		.unit	 = "SIZE",
		.attr	 = TCA_BPSHAPER_SHARE_MAX,
		.length	 = sizeof(__u32),
		.parse	 = bpshaper_size_parse,
		.print	 = bpshaper_size_print,
		.min	 = 1,
		.max	 = UINT32_MAX,
		.range	 = "1b to 4294967295b",
		.preset	 = "64Kb",
		.meaning = "largest share of the limit that a socket gets",
	}, {
		.names	 = { "backpressure" },
		.unit	 = "on|off",
		.attr	 = TCA_BPSHAPER_BACKPRESSURE,
		.length	 = sizeof(__u32),
		.parse	 = bpshaper_switch_parse,
		.print	 = bpshaper_switch_print,
		.max	 = 1,
		.range	 = "on or off",
		.preset	 = "on",
		.meaning = "off: sockets are not throttled, limit drops their packets",
	}, {
		.names	 = { "pacing" },
		.unit	 = "on|off",
		.attr	 = TCA_BPSHAPER_PACING,
		.length	 = sizeof(__u32),
		.parse	 = bpshaper_switch_parse,
		.print	 = bpshaper_switch_print,
		.max	 = 1,
		.range	 = "on or off",
		.preset	 = "on",
		.meaning = "packets wait for their time, flows are paced as by fq",
	}, {
		.names	 = { "maxrate" },
		.unit	 = "RATE",
		.attr	 = TCA_BPSHAPER_MAXRATE64,
		.length	 = sizeof(__u64),
		.is_boundless = true,
		.parse	 = bpshaper_rate_parse,
		.print	 = bpshaper_rate_print,
		.min	 = TC_BPSHAPER_RATE_MIN,
		.max	 = TC_BPSHAPER_RATE_MAX,
		.range	 = "8bit to 64Tibit, up to 100% of the device's speed, or unlimited",
		.preset	 = "unlimited",
		.meaning = "what one flow may send per second; needs pacing",
	}, {
		.names	 = { "low_rate_threshold" },
		.unit	 = "RATE",
		.attr	 = TCA_BPSHAPER_LOW_RATE_THRESHOLD64,
		.length	 = sizeof(__u64),
		.parse	 = bpshaper_rate_parse,
		.print	 = bpshaper_rate_print,
		.max	 = TC_BPSHAPER_RATE_MAX,
		.range	 = "0bit to 64Tibit, up to 100% of the device's speed",
		.preset	 = "550Kbit",
		.meaning = "flows paced by no more than it send one packet at a time",
	}, {
		.names	 = { "horizon" },
		.unit	 = "TIME",
		.attr	 = TCA_BPSHAPER_HORIZON,
		.length	 = sizeof(__u64),
		.parse	 = bpshaper_time_parse,
		.print	 = bpshaper_time_print,
		.min	 = 1,
		.max	 = TC_BPSHAPER_HORIZON_MAX,
		.range	 = "1ns to 3600s",
		.preset	 = "10s",
		.meaning = "how far ahead a packet's time may lie; a bare number is in us",
	}, {
		.names	 = { "horizon_drop" },
		.opposite = "horizon_cap",
		.attr	 = TCA_BPSHAPER_HORIZON_DROP,
		.length	 = sizeof(__u32),
		.parse	 = bpshaper_horizon_drop_parse,
		.print	 = bpshaper_horizon_drop_print,
		.max	 = 1,
		.range	 = "horizon_drop or horizon_cap",
		.preset	 = "horizon_cap",
		.meaning = "what lies beyond is dropped, or leaves at the horizon",
	}, {
		.names	 = { "ce_threshold" },
		.unit	 = "TIME",
		.attr	 = TCA_BPSHAPER_CE_THRESHOLD,
		.length	 = sizeof(__u64),
		.is_boundless = true,
		.parse	 = bpshaper_ce_parse,
		.print	 = bpshaper_ce_print,
		.max	 = TC_BPSHAPER_CE_THRESHOLD_MAX,
		.range	 = "0ns to 60s, or never",
		.preset	 = "never",
		.meaning = "packets that wait longer get ECN CE; a bare number is in us",
	}, {
		.names	 = { "timer_slack" },
		.unit	 = "TIME",
		.attr	 = TCA_BPSHAPER_TIMER_SLACK,
		.length	 = sizeof(__u32),
		.parse	 = bpshaper_time_parse,
		.print	 = bpshaper_time_print,
		.max	 = UINT32_MAX,
		.range	 = "0ns to 4294967295ns",
		.preset	 = "10us",
		.meaning = "how late a packet's time may be seen; a bare number is in us",
	}, {
		.names	 = { "group" },
		.unit	 = "NUMBER",
		.attr	 = TCA_BPSHAPER_GROUP,
		.length	 = sizeof(__u32),
		.parse	 = bpshaper_number_parse,
		.print	 = bpshaper_number_print,
		.max	 = UINT32_MAX,
		.range	 = "0 to 4294967295",
		.preset	 = "0: none",
		.meaning = "qdiscs of this device that name it share one bucket",
	},
	{}
};

static const struct bpshaper_option *bpshaper_option_find(const char *word)
{
	const struct bpshaper_option *o;
	int i;

	for (o = bpshaper_options; o->names[0]; o++) {
		for (i = 0; o->names[i]; i++)
			if (!strcmp(word, o->names[i]))
				return o;
		if (o->opposite && !strcmp(word, o->opposite))
			return o;
	}
	/* As tbf takes them, in its order: its dump says "lat". */
	for (o = bpshaper_options; o->names[0]; o++)
		if (o->is_abbreviable && word[0] &&
		    !strncmp(word, o->names[0], strlen(word)))
			return o;
	return NULL;
}

static bool bpshaper_option_in_range(const struct bpshaper_option *o,
				     __u64 value)
{
	if (o->is_boundless && value == TC_BPSHAPER_RATE_UNLIMITED)
		return true;
	return value >= o->min && value <= o->max;
}

static void bpshaper_usage_print(void)
{
	const struct bpshaper_option *o;
	int i;

	fprintf(stderr,
		"Usage: ... bpshaper [ rate RATE ] [ burst SIZE[/CELL] ]\n"
		"                    [ limit SIZE | latency TIME ]\n"
		"                    [ peakrate RATE ] [ mtu SIZE[/CELL] ]\n"
		"                    [ overhead SIZE ] [ mpu SIZE ] [ linklayer TYPE ]\n"
		"                    [ memory_limit SIZE ] [ quantum SIZE ]\n"
		"                    [ share_min SIZE ] [ share_max SIZE ]\n"
		"                    [ backpressure on|off ]\n"
		"                    [ pacing on|off ] [ maxrate RATE ]\n"
		"                    [ low_rate_threshold RATE ] [ horizon TIME ]\n"
		"                    [ horizon_drop|horizon_cap ]\n"
		"                    [ ce_threshold TIME ] [ timer_slack TIME ]\n"
		"                    [ group NUMBER ]\n");
	for (o = bpshaper_options; o->names[0]; o++) {
		fprintf(stderr, "\n%s%s%s: %s\n", o->names[0],
			o->opposite ? "|" : " ", o->opposite ?: o->unit,
			o->meaning);
		for (i = 1; o->names[i]; i++)
			fprintf(stderr, "  also:    %s\n", o->names[i]);
		fprintf(stderr, "  range:   %s\n  default: %s\n", o->range,
			o->preset);
	}
}

/* Parse */

static void bpshaper_words_quote(const char *word, const char *arg)
{
	fprintf(stderr, "\"%s%s%s\"", word, arg ? " " : "", arg ? arg : "");
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

/* One option that does not go with another; both are attributes. */
static void bpshaper_request_refuse_pair(struct bpshaper_request *req,
					 int attr, const char *relation,
					 int other, const char *rest)
{
	bpshaper_request_refuse(req, req->word[attr], req->arg[attr], relation,
				"");
	bpshaper_words_quote(req->word[other], req->arg[other]);
	fputs(rest, stderr);
}

static void bpshaper_request_add(struct bpshaper_request *req,
				 const struct bpshaper_option *o,
				 const char *word, const char *arg,
				 const char *dev)
{
	const char *wrong;

	if (req->word[o->attr]) {
		bpshaper_request_refuse(req, word, arg, " repeats ", "");
		bpshaper_words_quote(req->word[o->attr], req->arg[o->attr]);
		return;
	}
	req->word[o->attr] = word;
	req->arg[o->attr] = arg;

	wrong = o->parse(&req->value[o->attr], arg ?: word, dev);
	if (wrong && wrong[0])
		bpshaper_request_refuse(req, word, arg, ": ", wrong);
	else if (wrong || !bpshaper_option_in_range(o, req->value[o->attr]))
		bpshaper_request_refuse(req, word, arg, ": must be ", o->range);
	else
		req->is_valid[o->attr] = true;
}

/* Returns true if help is what they ask for. */
static bool bpshaper_request_read(struct bpshaper_request *req, int argc,
				  char **argv, const char *dev)
{
	const struct bpshaper_option *o;
	int words;

	for (; argc > 0; argc -= words, argv += words) {
		if (!strcmp(argv[0], "help"))
			return true;
		o = bpshaper_option_find(argv[0]);
		if (!o) {
			/* Whether the next one is its value, who knows. */
			bpshaper_request_refuse(req, argv[0], NULL, ": ",
						"unknown option, try help");
			break;
		}
		words = o->unit ? 2 : 1;
		if (argc < words)
			bpshaper_request_refuse(req, argv[0], NULL,
						": must be followed by ",
						o->unit);
		else
			bpshaper_request_add(req, o, argv[0],
					     o->unit ? argv[1] : NULL, dev);
	}
	return false;
}

/* What contradicts itself. Whether an option fits those that the qdisc has
 * already, as a latency does that comes without a rate, is for the kernel to say.
 */
static void bpshaper_request_check(struct bpshaper_request *req)
{
	const __u64 *value = req->value;
	const bool *is_valid = req->is_valid;

	if (req->word[TCA_BPSHAPER_LIMIT] && req->word[TCA_BPSHAPER_LATENCY])
		bpshaper_request_refuse_pair(req, TCA_BPSHAPER_LIMIT, " and ",
					     TCA_BPSHAPER_LATENCY,
					     " exclude each other");
	if (is_valid[TCA_BPSHAPER_LATENCY] && is_valid[TCA_BPSHAPER_RATE64] &&
	    value[TCA_BPSHAPER_RATE64] == TC_BPSHAPER_RATE_UNLIMITED)
		bpshaper_request_refuse_pair(req, TCA_BPSHAPER_LATENCY,
					     " needs a rate, not ",
					     TCA_BPSHAPER_RATE64, "");
	/* The rate "unlimited" is above all others. */
	if (is_valid[TCA_BPSHAPER_PEAKRATE64] && is_valid[TCA_BPSHAPER_RATE64] &&
	    value[TCA_BPSHAPER_PEAKRATE64] != TC_BPSHAPER_RATE_UNLIMITED &&
	    value[TCA_BPSHAPER_PEAKRATE64] <= value[TCA_BPSHAPER_RATE64])
		bpshaper_request_refuse_pair(req, TCA_BPSHAPER_PEAKRATE64,
					     " needs a rate below it, not ",
					     TCA_BPSHAPER_RATE64, "");
	if (is_valid[TCA_BPSHAPER_SHARE_MIN] && is_valid[TCA_BPSHAPER_SHARE_MAX] &&
	    value[TCA_BPSHAPER_SHARE_MIN] > value[TCA_BPSHAPER_SHARE_MAX])
		bpshaper_request_refuse_pair(req, TCA_BPSHAPER_SHARE_MIN,
					     " is above ",
					     TCA_BPSHAPER_SHARE_MAX, "");
	if (is_valid[TCA_BPSHAPER_GROUP] && value[TCA_BPSHAPER_GROUP] &&
	    is_valid[TCA_BPSHAPER_PEAKRATE64] &&
	    value[TCA_BPSHAPER_PEAKRATE64] != TC_BPSHAPER_RATE_UNLIMITED)
		bpshaper_request_refuse_pair(req, TCA_BPSHAPER_GROUP, " and ",
					     TCA_BPSHAPER_PEAKRATE64,
					     " exclude each other");
	if (is_valid[TCA_BPSHAPER_GROUP] && value[TCA_BPSHAPER_GROUP] &&
	    is_valid[TCA_BPSHAPER_RATE64] &&
	    value[TCA_BPSHAPER_RATE64] == TC_BPSHAPER_RATE_UNLIMITED)
		bpshaper_request_refuse_pair(req, TCA_BPSHAPER_GROUP,
					     " needs a rate, not ",
					     TCA_BPSHAPER_RATE64, "");
}

static int bpshaper_request_put(const struct bpshaper_request *req,
				struct nlmsghdr *n)
{
	const struct bpshaper_option *o;
	struct rtattr *nest = NULL;
	int err = 0;

	for (o = bpshaper_options; o->names[0]; o++) {
		if (!req->is_valid[o->attr])
			continue;
		/* The kernel parses strictly: no nest without the flag. */
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
	if (nest)
		addattr_nest_end(n, nest);
	return err;
}

/* tc's helpers are bound when they are called first. One that this tc lacks would
 * end it in the middle of a line, or of a command: look for all before.
 */
static const char *const bpshaper_helpers[] = {
	"addattr32", "addattr64", "addattr_nest", "addattr_nest_end",
	"close_json_array", "get_linklayer", "get_rate64", "get_size",
	"get_size_and_cell", "get_time64", "is_json_context",
	"open_json_array", "parse_rtattr_flags", "print_color_int",
	"print_color_lluint", "print_color_null", "print_color_s64",
	"print_color_string", "print_color_u64", "print_color_uint", "print_nl",
	"sprint_linklayer", "sprint_time64", NULL
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

static int bpshaper_opt_parse(const struct qdisc_util *qu, int argc,
			      char **argv, struct nlmsghdr *n, const char *dev)
{
	struct bpshaper_request req = {};
	bool is_help;

	if (!bpshaper_tc_fits())
		return -1;
	is_help = bpshaper_request_read(&req, argc, argv, dev);
	bpshaper_request_check(&req);
	if (req.refusals)
		fputs("\n", stderr);
	if (is_help)
		bpshaper_usage_print();
	if (is_help || req.refusals)
		return -1;
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

static bool bpshaper_has_peakrate(struct rtattr **tb)
{
	const struct rtattr *rta = tb[TCA_BPSHAPER_PEAKRATE64];

	return rta && RTA_PAYLOAD(rta) >= sizeof(__u64) &&
	       rta_getattr_u64(rta) != TC_BPSHAPER_RATE_UNLIMITED;
}

/* Text is what may be typed again: of limit and latency, the cause. What most
 * people never set is shown if it is set, or with details.
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

	switch (o->attr) {
	case TCA_BPSHAPER_PEAKRATE64:
		return value != TC_BPSHAPER_RATE_UNLIMITED;
	case TCA_BPSHAPER_MTU:
		return bpshaper_has_peakrate(tb);
	case TCA_BPSHAPER_OVERHEAD:
	case TCA_BPSHAPER_MPU:
	case TCA_BPSHAPER_GROUP:
		return value != 0;
	case TCA_BPSHAPER_LINKLAYER:
		return value != TC_LINKLAYER_ETHERNET;
	case TCA_BPSHAPER_BACKPRESSURE:
	case TCA_BPSHAPER_PACING:
		return value != 1;
	case TCA_BPSHAPER_MAXRATE64:
		return value != TC_BPSHAPER_RATE_UNLIMITED;
	case TCA_BPSHAPER_LOW_RATE_THRESHOLD64:
		return value != BPSHAPER_LOW_RATE_BPS;
	case TCA_BPSHAPER_HORIZON:
		return value != BPSHAPER_HORIZON_NS;
	case TCA_BPSHAPER_HORIZON_DROP:
		return value != 0;
	case TCA_BPSHAPER_CE_THRESHOLD:
		return value != TC_BPSHAPER_CE_NEVER;
	case TCA_BPSHAPER_TIMER_SLACK:
		return value != BPSHAPER_TIMER_SLACK_NS;
	}
	return true;
}

static int bpshaper_opt_print(const struct qdisc_util *qu, FILE *f,
			      struct rtattr *opt)
{
	struct rtattr *tb[TCA_BPSHAPER_MAX + 1];
	const struct bpshaper_option *o;
	__u64 value;

	if (!opt)
		return 0;
	if (!bpshaper_tc_fits())
		return -1;
	parse_rtattr_nested(tb, TCA_BPSHAPER_MAX, opt);

	for (o = bpshaper_options; o->names[0]; o++)
		if (bpshaper_attr_read(o, tb, &value) &&
		    bpshaper_option_is_shown(o, tb, value))
			o->print(o->names[0], value);
	return 0;
}

/* Statistics */

static void bpshaper_count_print(const char *key, const char *label,
				 __u64 count)
{
	print_string(PRINT_FP, NULL, " %s ", label);
	print_lluint(PRINT_ANY, key, "%llu", count);
}

static void bpshaper_bytes_print(const char *key, const char *label,
				 __u64 bytes)
{
	SPRINT_BUF(text);

	print_string(PRINT_FP, NULL, " %s ", label);
	print_string(PRINT_FP, NULL, "%s",
		     bpshaper_quantity_text(text, bytes, bpshaper_size_units));
	print_u64(PRINT_JSON, key, NULL, bytes);
}

static void bpshaper_sockets_print(const struct tc_bpshaper_xstats *st)
{
	print_string(PRINT_FP, NULL, "%s", " ");
	bpshaper_count_print("throttles", "throttles", st->throttles);
	bpshaper_count_print("unthrottles", "unthrottles", st->unthrottles);
	bpshaper_count_print("throttled_sockets", "throttled",
			     st->throttled_sockets);
	bpshaper_count_print("overlimit_sockets", "overlimit",
			     st->overlimit_sockets);
}

static void bpshaper_queues_print(const struct tc_bpshaper_xstats *st)
{
	print_nl();
	print_string(PRINT_FP, NULL, "%s", " ");
	bpshaper_count_print("flows", "flows", st->flows);
	bpshaper_count_print("socket_flows", "(socket_flows", st->socket_flows);
	bpshaper_count_print("parked_flows", "parked", st->parked_flows);
	print_string(PRINT_FP, NULL, "%s", ")");
	/* Flows of no socket: an older kernel, which does not count sockets. */
	if (is_json_context() || st->sockets || !st->socket_flows)
		bpshaper_count_print("sockets", "sockets", st->sockets);
	bpshaper_bytes_print("limit", "limit", st->limit);
	bpshaper_bytes_print("share", "share", st->share);
	bpshaper_bytes_print("pool_backlog", "pool", st->pool_backlog);
	bpshaper_bytes_print("memory", "memory", st->memory);
}

static void bpshaper_drops_print(const struct tc_bpshaper_xstats *st)
{
	print_nl();
	print_string(PRINT_FP, NULL, "%s", "  drops:");
	bpshaper_count_print("drops_pool", "pool", st->drops_pool);
	bpshaper_count_print("drops_memory", "memory", st->drops_memory);
	bpshaper_count_print("drops_alloc", "alloc", st->drops_alloc);
	bpshaper_count_print("drops_horizon", "horizon", st->drops_horizon);
	bpshaper_count_print("drops_ack", "ack", st->drops_ack);
	bpshaper_count_print("drops_segments", "segments", st->drops_segments);
	bpshaper_count_print("purged_packets", "purged", st->purged_packets);
}

static void bpshaper_events_print(const struct tc_bpshaper_xstats *st)
{
	print_nl();
	print_string(PRINT_FP, NULL, "%s", " ");
	bpshaper_count_print("segments", "segments", st->segments);
	bpshaper_count_print("direct_packets", "direct", st->direct_packets);
	bpshaper_count_print("timer_wakeups", "timer_wakeups",
			     st->timer_wakeups);
	bpshaper_bytes_print("max_backlog", "max_backlog", st->max_backlog);
	bpshaper_count_print("ballast_errors", "ballast_errors",
			     st->ballast_errors);
}

/* Text has it where there is pacing, or with details. */
static void bpshaper_pacing_print(const struct tc_bpshaper_xstats *st)
{
	if (!is_json_context()) {
		if (!bpshaper_is_detailed() && !st->paced_waits &&
		    !st->paced_flows && !st->horizon_caps && !st->ce_marks)
			return;
		print_nl();
		printf(" ");
	}
	bpshaper_count_print("paced_waits", "paced_waits", st->paced_waits);
	bpshaper_count_print("paced_flows", "paced_flows", st->paced_flows);
	bpshaper_count_print("horizon_caps", "horizon_caps", st->horizon_caps);
	bpshaper_count_print("ce_marks", "ce_marks", st->ce_marks);
}

/* Of the bucket that members of a group share. Text has it where there is one. */
static void bpshaper_group_print(const struct tc_bpshaper_xstats *st)
{
	if (!is_json_context()) {
		if (!st->group_members)
			return;
		print_nl();
		printf(" ");
	}
	bpshaper_count_print("group_members", "group_members", st->group_members);
	bpshaper_count_print("group_waiting", "waiting", st->group_waiting);
	print_string(PRINT_FP, NULL, " %s ", "tokens");
	print_s64(PRINT_ANY, "group_tokens", "%" PRId64 "b", st->group_tokens);
}

/* The bound of a bucket: times in it are below, those in the last one not. */
static const char *bpshaper_bucket_text(char *buf, unsigned int bucket)
{
	bool is_last = bucket == TC_BPSHAPER_HIST_BUCKETS - 1;

	buf[0] = is_last ? '>' : '<';
	sprint_time64(1LL << (bucket + (is_last ? 9 : 10)), buf + 1);
	return buf;
}

/* The bucket that the percentile falls in. */
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
	bpshaper_sockets_print(st);
	bpshaper_queues_print(st);
	bpshaper_drops_print(st);
	bpshaper_events_print(st);
	bpshaper_pacing_print(st);
	bpshaper_group_print(st);
	bpshaper_hist_print("delay_hist", "delay", st->delay_hist, false);
	bpshaper_hist_print("throttle_hist", "throttle", st->throttle_hist,
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
	{}
};

static const struct bpshaper_name bpshaper_families[] = {
	{ AF_INET, "inet" }, { AF_INET6, "inet6" }, { AF_PACKET, "packet" }, {}
};

static const struct bpshaper_name bpshaper_protocols[] = {
	{ IPPROTO_TCP, "tcp" }, { IPPROTO_UDP, "udp" }, { IPPROTO_RAW, "raw" },
	{ IPPROTO_ICMP, "icmp" }, { IPPROTO_ICMPV6, "icmpv6" }, {}
};

/* The name of a number, or the number. */
static const char *bpshaper_name_text(char *buf, __u64 number,
				      const struct bpshaper_name *n)
{
	for (; n->name; n++)
		if (n->number == number)
			return n->name;
	snprintf(buf, SPRINT_BSIZE, "%llu", (unsigned long long)number);
	return buf;
}

/* The destination of the next packet; the family is 0 if there is none to tell. */
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
	print_string(PRINT_ANY, "peer", is_bracketed ? " peer [%s]" : " peer %s", buf);
	if (cl->peer_port)
		print_uint(PRINT_ANY, "peer_port", ":%u", ntohs(cl->peer_port));
}

/* The socket, named as "ss -e" does. */
static void bpshaper_class_socket_text(const struct tc_bpshaper_class_xstats *cl)
{
	SPRINT_BUF(buf);

	printf(" %s", bpshaper_name_text(buf, cl->family, bpshaper_families));
	if (cl->protocol)
		printf(" %s", bpshaper_name_text(buf, cl->protocol,
						 bpshaper_protocols));
	printf(" sk:%llx", (unsigned long long)cl->cookie);
}

/* What the flows of a socket have in common. Text has how much that is where there
 * are several, or with details.
 */
static void bpshaper_class_throttles_text(const struct tc_bpshaper_class_xstats *cl)
{
	SPRINT_BUF(buf);

	if (cl->socket_flows > (bpshaper_is_detailed() ? 0U : 1U))
		printf(" socket_flows %u socket_backlog %s", cl->socket_flows,
		       bpshaper_quantity_text(buf, cl->socket_backlog,
					      bpshaper_size_units));
	printf(" throttles %u longest_throttle %s", cl->throttles,
	       sprint_time64(cl->longest_throttle_ns, buf));
}

static void bpshaper_class_xstats_print(const struct tc_bpshaper_class_xstats *cl)
{
	SPRINT_BUF(buf);
	bool is_socket = cl->state != TC_BPSHAPER_FLOW_SOCKETLESS;
	bool is_text = !is_json_context();

	print_string(PRINT_ANY, "state", "  %s",
		     bpshaper_name_text(buf, cl->state, bpshaper_states));
	if (is_text && is_socket)
		bpshaper_class_socket_text(cl);
	/* A connected socket is one flow, and needs no hash. */
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
	.print_xstats	= (void *)bpshaper_xstats_print,
};
