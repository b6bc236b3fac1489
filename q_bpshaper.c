// SPDX-License-Identifier: GPL-2.0
/* tc plugin of the bpshaper qdisc: options, dump, statistics
 *
 * Reading guide:
 *   bpshaper_options[]	the words: parser, printer, attribute, range, help
 *   parse		words -> bpshaper_request -> TCA_OPTIONS, all or nothing
 *   print		TCA_OPTIONS -> text that can be typed again, or JSON
 *   xstats		TCA_STATS_APP -> text lines, or JSON
 *
 * JSON keys are the option names and the fields of struct tc_bpshaper_xstats.
 * Values are plain numbers in the units of the uAPI: bytes per second, bytes,
 * nanoseconds. The only string is the rate "unlimited".
 *
 * Every refusal is one line that names the option and its value. tc's own
 * helpers that write to stderr or exit (NEXT_ARG, get_percent_rate64) are
 * therefore not used.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utils.h"
#include "tc_util.h"
#include "sch_bpshaper.h"

/* Room for TCA_KIND and what else tc put in front, and all of our options. */
#define BPSHAPER_MESSAGE_MAX	1024

/**
 * struct bpshaper_option - one word of the command line
 * @names: the word, then its aliases, then NULL; @names[0] is the JSON key
 * @unit: placeholder of the value in the usage text
 * @attr: TCA_BPSHAPER_*
 * @length: length of the attribute, 4 or 8 bytes
 * @excludes: attribute that must not be given as well, or 0
 * @parse: value of @arg in the unit of the attribute; returns NULL, or what is
 *	wrong with @arg, "" if that is what @range says
 * @print: text and a space, or a JSON member
 * @min: smallest value
 * @max: largest value
 * @range: the two above, for people
 * @preset: default
 * @meaning: one line for the usage text
 */
struct bpshaper_option {
	const char	*names[4];
	const char	*unit;
	unsigned short	attr;
	unsigned short	length;
	unsigned short	excludes;
	const char	*(*parse)(__u64 *value, const char *arg,
				  const char *dev);
	void		(*print)(const char *name, __u64 value);
	__u64		min;
	__u64		max;
	const char	*range;
	const char	*preset;
	const char	*meaning;
};

/* What a command line asks for, indexed by attribute. */
struct bpshaper_request {
	bool	is_given[TCA_BPSHAPER_MAX + 1];
	__u64	value[TCA_BPSHAPER_MAX + 1];
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
	/* An overflow must not come out as "unlimited". */
	if (get_rate64(rate, arg) || *rate == TC_BPSHAPER_RATE_UNLIMITED)
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
	if (is_bare && *ns <= TC_BPSHAPER_LATENCY_MAX)
		*ns *= 1000;
	return NULL;
}

/* Printers */

static void bpshaper_rate_print(const char *name, __u64 rate)
{
	print_string(PRINT_FP, NULL, "%s ", name);
	if (rate == TC_BPSHAPER_RATE_UNLIMITED)
		print_string(PRINT_ANY, name, "%s ", "unlimited");
	else
		tc_print_rate(PRINT_ANY, name, "%s ", rate);
}

static void bpshaper_size_print(const char *name, __u64 size)
{
	print_string(PRINT_FP, NULL, "%s ", name);
	print_size(PRINT_ANY, name, "%s ", size);
}

/* tc has no one unit of time for JSON (fq: us, netem: s); ours is the uAPI's. */
static void bpshaper_time_print(const char *name, __u64 ns)
{
	SPRINT_BUF(text);

	print_string(PRINT_FP, NULL, "%s ", name);
	print_string(PRINT_FP, NULL, "%s ", sprint_time64(ns, text));
	print_u64(PRINT_JSON, name, NULL, ns);
}

/* Words, in the order in which they are sent and printed */

static const struct bpshaper_option bpshaper_options[] = {
	{
		.names	 = { "rate" },
		.unit	 = "RATE",
		.attr	 = TCA_BPSHAPER_RATE64,
		.length	 = sizeof(__u64),
		.parse	 = bpshaper_rate_parse,
		.print	 = bpshaper_rate_print,
		.min	 = TC_BPSHAPER_RATE_MIN,
		.max	 = TC_BPSHAPER_RATE_MAX,
		.range	 = "8bit to 64Tibit, up to 100% of the device's speed, or unlimited",
		.preset	 = "unlimited",
		.meaning = "what leaves per second; a bare number is in bit/s",
	}, {
		.names	 = { "burst", "buffer", "maxburst" },
		.unit	 = "SIZE",
		.attr	 = TCA_BPSHAPER_BURST,
		.length	 = sizeof(__u32),
		.parse	 = bpshaper_size_parse,
		.print	 = bpshaper_size_print,
		.min	 = 1,
		.max	 = UINT32_MAX,
		.range	 = "1b to 4294967295b",
		.preset	 = "what the rate sends in 1ms, at least two packets of the MTU",
		.meaning = "what may leave back to back (also: buffer, maxburst)",
	}, {
		.names	 = { "limit" },
		.unit	 = "SIZE",
		.attr	 = TCA_BPSHAPER_LIMIT,
		.length	 = sizeof(__u32),
		.excludes = TCA_BPSHAPER_LATENCY,
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
		.excludes = TCA_BPSHAPER_LIMIT,
		.parse	 = bpshaper_time_parse,
		.print	 = bpshaper_time_print,
		.min	 = 1,
		.max	 = TC_BPSHAPER_LATENCY_MAX,
		.range	 = "1ns to 60s",
		.preset	 = "10ms",
		.meaning = "limit = rate x latency + burst; a bare number is in us",
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
		.preset	 = "1/64 of the memory, 32Mb to 1Gb",
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
	},
	{}
};

static const struct bpshaper_option *bpshaper_option_find(const char *word)
{
	const struct bpshaper_option *o;
	int i;

	for (o = bpshaper_options; o->names[0]; o++)
		for (i = 0; o->names[i]; i++)
			if (!strcmp(word, o->names[i]))
				return o;
	return NULL;
}

static bool bpshaper_option_in_range(const struct bpshaper_option *o,
				     __u64 value)
{
	if (o->attr == TCA_BPSHAPER_RATE64 &&
	    value == TC_BPSHAPER_RATE_UNLIMITED)
		return true;
	return value >= o->min && value <= o->max;
}

static void bpshaper_usage_print(void)
{
	const struct bpshaper_option *o;

	fprintf(stderr,
		"Usage: ... bpshaper [ rate RATE ] [ burst SIZE ]\n"
		"                    [ limit SIZE | latency TIME ]\n"
		"                    [ memory_limit SIZE ] [ quantum SIZE ]\n");
	for (o = bpshaper_options; o->names[0]; o++)
		fprintf(stderr, "\n%s %s: %s\n  range:   %s\n  default: %s\n",
			o->names[0], o->unit, o->meaning, o->range, o->preset);
}

/* Parse */

static int bpshaper_option_refuse(const char *word, const char *arg,
				  const char *why, const char *what)
{
	fprintf(stderr, "bpshaper: \"%s%s%s\": %s%s\n", word, arg ? " " : "",
		arg ? arg : "", why, what);
	return -1;
}

static int bpshaper_request_add(struct bpshaper_request *req,
				const struct bpshaper_option *o,
				const char *word, const char *arg,
				const char *dev)
{
	const char *wrong;
	__u64 value;

	if (req->is_given[o->attr])
		return bpshaper_option_refuse(word, arg, "duplicate of ",
					      o->names[0]);
	if (o->excludes && req->is_given[o->excludes])
		return bpshaper_option_refuse(word, arg, "",
					      "limit and latency exclude each other");

	wrong = o->parse(&value, arg, dev);
	if (wrong && wrong[0])
		return bpshaper_option_refuse(word, arg, wrong, "");
	if (wrong || !bpshaper_option_in_range(o, value))
		return bpshaper_option_refuse(word, arg, "must be ", o->range);

	req->is_given[o->attr] = true;
	req->value[o->attr] = value;
	return 0;
}

static int bpshaper_request_put(const struct bpshaper_request *req,
				struct nlmsghdr *n)
{
	const struct bpshaper_option *o;
	struct rtattr *nest = NULL;
	int err = 0;

	for (o = bpshaper_options; o->names[0]; o++) {
		if (!req->is_given[o->attr])
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

/* A latency without a rate is for the kernel to judge: a change may rely on the
 * rate that the qdisc has.
 */
static int bpshaper_opt_parse(const struct qdisc_util *qu, int argc,
			      char **argv, struct nlmsghdr *n, const char *dev)
{
	struct bpshaper_request req = {};
	const struct bpshaper_option *o;

	for (; argc > 0; argc -= 2, argv += 2) {
		if (!strcmp(argv[0], "help")) {
			bpshaper_usage_print();
			return -1;
		}
		o = bpshaper_option_find(argv[0]);
		if (!o)
			return bpshaper_option_refuse(argv[0], NULL,
						      "unknown option, ",
						      "try help");
		if (argc < 2)
			return bpshaper_option_refuse(argv[0], NULL,
						      "must be followed by ",
						      o->unit);
		if (bpshaper_request_add(&req, o, argv[0], argv[1], dev))
			return -1;
	}
	return bpshaper_request_put(&req, n);
}

/* Print */

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

static int bpshaper_opt_print(const struct qdisc_util *qu, FILE *f,
			      struct rtattr *opt)
{
	struct rtattr *tb[TCA_BPSHAPER_MAX + 1];
	const struct bpshaper_option *o;
	bool is_derived;
	__u64 value;

	if (!opt)
		return 0;
	parse_rtattr_nested(tb, TCA_BPSHAPER_MAX, opt);

	for (o = bpshaper_options; o->names[0]; o++) {
		/* Text is what may be typed: of the two words, the cause. */
		is_derived = o->attr == TCA_BPSHAPER_LIMIT &&
			     tb[TCA_BPSHAPER_LATENCY];
		if (is_derived && !show_details && !is_json_context())
			continue;
		if (bpshaper_attr_read(o, tb, &value))
			o->print(o->names[0], value);
	}
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

	/* tc's sizes end at 32 bits. */
	if (bytes > UINT32_MAX)
		snprintf(text, sizeof(text), "%lluMb",
			 (unsigned long long)bytes >> 20);
	else
		sprint_size(bytes, text);
	print_string(PRINT_FP, NULL, " %s ", label);
	print_string(PRINT_FP, NULL, "%s", text);
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
	bpshaper_count_print("socket_flows", "(sockets", st->socket_flows);
	bpshaper_count_print("parked_flows", "parked", st->parked_flows);
	print_string(PRINT_FP, NULL, "%s", ")");
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

static int bpshaper_xstats_print(const struct qdisc_util *qu, FILE *f,
				 struct rtattr *xstats)
{
	struct tc_bpshaper_xstats st = {};
	size_t length;

	if (!xstats)
		return 0;
	length = RTA_PAYLOAD(xstats);
	if (length > sizeof(st))
		length = sizeof(st);
	memcpy(&st, RTA_DATA(xstats), length);

	bpshaper_sockets_print(&st);
	bpshaper_queues_print(&st);
	bpshaper_drops_print(&st);
	bpshaper_events_print(&st);
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
