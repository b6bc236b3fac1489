// SPDX-License-Identifier: GPL-2.0-only
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "options.h"
#include "wire.h"

enum options_kind {
	OPTIONS_FLAG,
	OPTIONS_TEXT,
	OPTIONS_NUMBER,
	OPTIONS_SECONDS,
	OPTIONS_MODE,
};

struct options_spec {
	const char *name;
	enum options_kind kind;
	size_t offset;			/* in struct options */
	uint64_t min, max;
	const char *value;		/* its name in --help */
	const char *help;
};

/* The width of what options_help() prints before a text. */
#define OPTIONS_INDENT		"                          "

#define OPTIONS_AT(field)	offsetof(struct options, field)
#define OPTIONS_MAX_NS		(600 * CLOCK_NS_PER_S)

static const struct options_spec options_table[] = {
	{ "--tx-netns", OPTIONS_TEXT, OPTIONS_AT(tx_netns), 0, 0,
	  "NAME", "network namespace of the senders (default: this one)" },
	{ "--rx-netns", OPTIONS_TEXT, OPTIONS_AT(rx_netns), 0, 0,
	  "NAME", "network namespace of the receivers (default: this one)" },
	{ "--dst", OPTIONS_TEXT, OPTIONS_AT(dst), 0, 0,
	  "ADDR", "receiver's IPv4 or IPv6 address (mandatory)" },
	{ "--port", OPTIONS_NUMBER, OPTIONS_AT(port), 1, 65533,
	  "BASE", "UDP data at BASE, probe at BASE+1, TCP at BASE+2 (5600)" },
	{ "--udp", OPTIONS_NUMBER, OPTIONS_AT(udp_senders), 0, 60000,
	  "N", "UDP senders that send as fast as they can (0)" },
	{ "--size", OPTIONS_NUMBER, OPTIONS_AT(udp_payload_bytes),
	  WIRE_HEADER_BYTES, 65507,
	  "BYTES", "UDP payload of a datagram (1470)" },
	{ "--sndbuf", OPTIONS_NUMBER, OPTIONS_AT(sndbuf_bytes), 4608, 1 << 30,
	  "BYTES", "send buffer of UDP and TCP senders as the kernel charges\n"
	  OPTIONS_INDENT "it: SO_SNDBUF doubles what it is given, so half of\n"
	  OPTIONS_INDENT "BYTES is passed (default: leave alone)" },
	{ "--pacing-rate", OPTIONS_NUMBER, OPTIONS_AT(pacing_bits_per_s), 8,
	  1ULL << 43,
	  "BITS", "SO_MAX_PACING_RATE of UDP and TCP senders, as bits per second\n"
	  OPTIONS_INDENT "(default: leave alone)" },
	{ "--classes", OPTIONS_NUMBER, OPTIONS_AT(classes), 1, 60000,
	  "N", "SO_PRIORITY of UDP and TCP senders, in turn 1:10 and the N - 1\n"
	  OPTIONS_INDENT "after it, that of the probe 1:f (default: leave alone)" },
	{ "--class-first", OPTIONS_NUMBER, OPTIONS_AT(class_first), 1, 65535,
	  "MINOR", "of the first class instead (16)" },
	{ "--class-probe", OPTIONS_NUMBER, OPTIONS_AT(class_probe), 1, 65535,
	  "MINOR", "of the class of the probe instead (15)" },
	{ "--mode", OPTIONS_MODE, OPTIONS_AT(mode), 0, 0,
	  "MODE", "of UDP senders: block, poll (EAGAIN, poll; a process each)\n"
	  OPTIONS_INDENT "or epoll (all sockets in one process) (block)" },
	{ "--gso", OPTIONS_NUMBER, OPTIONS_AT(gso_segments), 1, 64,
	  "SEGS", "datagrams of --size in a sendto() by UDP_SEGMENT (1: off)" },
	{ "--tcp", OPTIONS_NUMBER, OPTIONS_AT(tcp_flows), 0, 1000,
	  "N", "bulk TCP flows (0)" },
	{ "--cc", OPTIONS_TEXT, OPTIONS_AT(tcp_congestion), 0, 0,
	  "NAME", "TCP congestion control (default: the system's)" },
	{ "--tcp-write", OPTIONS_NUMBER, OPTIONS_AT(tcp_write_bytes), 1,
	  1 << 20,
	  "BYTES", "of one write() of a TCP flow (65536)" },
	{ "--probe", OPTIONS_FLAG, OPTIONS_AT(probe), 0, 0,
	  "", "send sparse datagrams and measure their one-way delay" },
	{ "--probe-size", OPTIONS_NUMBER, OPTIONS_AT(probe_payload_bytes),
	  WIRE_HEADER_BYTES, 1452,
	  "BYTES", "UDP payload of a probe (72)" },
	{ "--probe-interval-us", OPTIONS_NUMBER, OPTIONS_AT(probe_interval_us),
	  100, 10000000,
	  "US", "from probe to probe (5000)" },
	{ "--warmup-ms", OPTIONS_NUMBER, OPTIONS_AT(warmup_ms), 0, 600000,
	  "MS", "packets sent earlier do not count in percentiles (500)" },
	{ "--seconds", OPTIONS_SECONDS, OPTIONS_AT(sending_ns),
	  200 * CLOCK_NS_PER_MS, OPTIONS_MAX_NS,
	  "S", "time of sending, 0.2 to 600 (2)" },
	{ "--drain-ms", OPTIONS_NUMBER, OPTIONS_AT(drain_ms), 1, 60000,
	  "MS", "silence after sending that ends the wait for packets (1500)" },
	{ "--sink-interval-us", OPTIONS_NUMBER, OPTIONS_AT(sink_interval_us),
	  10, 100000,
	  "US", "UDP receiver reads this often; the kernel stamps arrivals,\n"
	  OPTIONS_INDENT "so this costs no accuracy (2000)" },
	{ "--json", OPTIONS_TEXT, OPTIONS_AT(json_path), 0, 0,
	  "FILE", "write the report as one flat JSON object (- is stdout)" },
	{ "--per-sender", OPTIONS_FLAG, OPTIONS_AT(per_sender), 0, 0,
	  "", "add arrays with one number for each sender to the JSON" },
	{ "--quiet", OPTIONS_FLAG, OPTIONS_AT(quiet), 0, 0,
	  "", "no report on stdout" },
};

#define OPTIONS_COUNT	(sizeof(options_table) / sizeof(options_table[0]))

static const char * const options_mode_names[] = {
	[OPTIONS_BLOCK] = "block",
	[OPTIONS_POLL] = "poll",
	[OPTIONS_EPOLL] = "epoll",
};

__attribute__((noreturn, format(printf, 1, 2)))
static void options_refuse(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("bptraffic: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

__attribute__((noreturn))
static void options_help(void)
{
	size_t i;

	puts("bptraffic: send traffic through a shaper and measure its fate\n");
	puts("usage: bptraffic --dst ADDR [OPTION...]\n");
	for (i = 0; i < OPTIONS_COUNT; i++)
		printf("%-19s %-5s %s\n", options_table[i].name,
		       options_table[i].value, options_table[i].help);
	puts("\nExit status: 0 the measurement is valid, whatever was lost;");
	puts("1 it is not, and a line on stderr says why.");
	exit(0);
}

const char *options_mode_name(const struct options *o)
{
	return options_mode_names[o->mode];
}

static uint64_t options_parse_mode(const char *name, const char *value)
{
	uint64_t i;

	for (i = OPTIONS_BLOCK; i <= OPTIONS_EPOLL; i++)
		if (!strcmp(value, options_mode_names[i]))
			return i;
	options_refuse("%s %s: not block, poll or epoll", name, value);
}

static uint64_t options_parse_number(const struct options_spec *spec,
				     const char *value)
{
	unsigned long long number;
	char *end;

	/* strtoull() would take signs and leading blanks. */
	if (*value < '0' || *value > '9')
		options_refuse("%s %s: not a number", spec->name, value);
	errno = 0;
	number = strtoull(value, &end, 10);
	if (*end)
		options_refuse("%s %s: not a number", spec->name, value);
	if (errno || number < spec->min || number > spec->max)
		options_refuse("%s %s: not from %llu to %llu", spec->name,
			       value, (unsigned long long)spec->min,
			       (unsigned long long)spec->max);
	return number;
}

static uint64_t options_parse_seconds(const struct options_spec *spec,
				      const char *value)
{
	double seconds, ns;
	char *end;

	if (*value == '\0' || strspn(value, "0123456789.") != strlen(value))
		options_refuse("%s %s: not a number", spec->name, value);
	seconds = strtod(value, &end);
	if (*end)
		options_refuse("%s %s: not a number", spec->name, value);
	ns = seconds * 1e9;
	if (ns < (double)spec->min || ns > (double)spec->max)
		options_refuse("%s %s: not from %g to %g seconds", spec->name,
			       value, (double)spec->min / 1e9,
			       (double)spec->max / 1e9);
	return (uint64_t)llround(ns);
}

static void options_store(struct options *o, const struct options_spec *spec,
			  const char *value)
{
	void *field = (char *)o + spec->offset;

	switch (spec->kind) {
	case OPTIONS_FLAG:
		*(bool *)field = true;
		break;
	case OPTIONS_TEXT:
		if (!*value)
			options_refuse("%s '': empty", spec->name);
		*(const char **)field = value;
		break;
	case OPTIONS_NUMBER:
		*(uint64_t *)field = options_parse_number(spec, value);
		break;
	case OPTIONS_SECONDS:
		*(uint64_t *)field = options_parse_seconds(spec, value);
		break;
	case OPTIONS_MODE:
		*(uint64_t *)field = options_parse_mode(spec->name, value);
		break;
	}
}

static const struct options_spec *options_find(const char *name)
{
	size_t i;

	for (i = 0; i < OPTIONS_COUNT; i++)
		if (!strcmp(name, options_table[i].name))
			return &options_table[i];
	options_refuse("%s: no such option, see --help", name);
}

static void options_parse_address(struct options *o)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&o->address;
	struct sockaddr_in *in = (struct sockaddr_in *)&o->address;

	if (!o->dst)
		options_refuse("--dst: missing");
	if (inet_pton(AF_INET, o->dst, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		o->address_length = sizeof(*in);
	} else if (inet_pton(AF_INET6, o->dst, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		o->address_length = sizeof(*in6);
	} else {
		options_refuse("--dst %s: not an IPv4 or IPv6 address", o->dst);
	}
}

/* Options that are right alone, but not together. */
static void options_check_together(const struct options *o)
{
	if (!o->udp_senders && !o->tcp_flows && !o->probe)
		options_refuse("--udp 0: nothing to do without --tcp or --probe");
	if (o->gso_segments * o->udp_payload_bytes > 65507)
		options_refuse("--gso %llu: more than 65507 bytes of --size %llu",
			       (unsigned long long)o->gso_segments,
			       (unsigned long long)o->udp_payload_bytes);
	if (o->warmup_ms * CLOCK_NS_PER_MS >= o->sending_ns)
		options_refuse("--warmup-ms %llu: not shorter than --seconds %g",
			       (unsigned long long)o->warmup_ms,
			       (double)o->sending_ns / 1e9);
	if (o->mode != OPTIONS_EPOLL && o->udp_senders > 2000)
		options_refuse("--udp %llu: more than 2000 need --mode epoll",
			       (unsigned long long)o->udp_senders);
	if (o->quiet && !o->json_path)
		options_refuse("--quiet: no report at all without --json");
}

void options_parse(struct options *o, int argc, char **argv)
{
	int i;

	*o = (struct options){
		.port = 5600,
		.udp_payload_bytes = 1470,
		.class_first = 0x10,
		.class_probe = 0xf,
		.mode = OPTIONS_BLOCK,
		.gso_segments = 1,
		.tcp_write_bytes = 65536,
		.probe_payload_bytes = 72,
		.probe_interval_us = 5000,
		.warmup_ms = 500,
		.sending_ns = 2 * CLOCK_NS_PER_S,
		.drain_ms = 1500,
		.sink_interval_us = 2000,
	};
	for (i = 1; i < argc; i++) {
		const struct options_spec *spec;
		const char *value = NULL;

		if (!strcmp(argv[i], "--help"))
			options_help();
		spec = options_find(argv[i]);
		if (spec->kind != OPTIONS_FLAG) {
			value = argv[++i];
			if (!value)
				options_refuse("%s: value missing", spec->name);
		}
		options_store(o, spec, value);
	}
	options_parse_address(o);
	options_check_together(o);
}

socklen_t options_address(const struct options *o, unsigned int offset,
			  struct sockaddr_storage *address)
{
	uint16_t port = htons((uint16_t)(o->port + offset));

	*address = o->address;
	if (address->ss_family == AF_INET)
		((struct sockaddr_in *)address)->sin_port = port;
	else
		((struct sockaddr_in6 *)address)->sin6_port = port;
	return o->address_length;
}

socklen_t options_any_address(const struct options *o, unsigned int offset,
			      struct sockaddr_storage *address)
{
	socklen_t length = options_address(o, offset, address);

	if (address->ss_family == AF_INET)
		((struct sockaddr_in *)address)->sin_addr.s_addr = INADDR_ANY;
	else
		((struct sockaddr_in6 *)address)->sin6_addr = in6addr_any;
	return length;
}
