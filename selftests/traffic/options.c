// SPDX-License-Identifier: GPL-2.0-only
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "traffic.h"

enum options_kind {
	OPTIONS_FLAG,
	OPTIONS_TEXT,
	OPTIONS_NUMBER,
	OPTIONS_SECONDS,	/* @min and @max are ns */
	OPTIONS_MODE,
};

struct options_spec {
	const char *name;
	enum options_kind kind;
	size_t offset;			/* in struct options */
	uint64_t min, max;
};

#define OPTIONS_AT(field)	offsetof(struct options, field)

static const struct options_spec options_table[] = {
	{ "--tx-netns", OPTIONS_TEXT, OPTIONS_AT(tx_netns), 0, 0 },
	{ "--rx-netns", OPTIONS_TEXT, OPTIONS_AT(rx_netns), 0, 0 },
	{ "--dst", OPTIONS_TEXT, OPTIONS_AT(dst), 0, 0 },
	{ "--port", OPTIONS_NUMBER, OPTIONS_AT(port), 1, 65533 },
	{ "--udp", OPTIONS_NUMBER, OPTIONS_AT(udp_senders), 0, 60000 },
	{ "--size", OPTIONS_NUMBER, OPTIONS_AT(udp_payload_bytes), WIRE_HEADER_BYTES, 65507 },
	{ "--sndbuf", OPTIONS_NUMBER, OPTIONS_AT(sndbuf_bytes), 4608, 1 << 30 },
	{ "--pacing-rate", OPTIONS_NUMBER, OPTIONS_AT(pacing_bits_per_s), 8, 1ULL << 43 },
	{ "--classes", OPTIONS_NUMBER, OPTIONS_AT(classes), 1, 60000 },
	{ "--class-first", OPTIONS_NUMBER, OPTIONS_AT(class_first), 1, 65535 },
	{ "--class-probe", OPTIONS_NUMBER, OPTIONS_AT(class_probe), 1, 65535 },
	{ "--mode", OPTIONS_MODE, OPTIONS_AT(mode), 0, 0 },
	{ "--gso", OPTIONS_NUMBER, OPTIONS_AT(gso_segments), 1, 64 },
	{ "--tcp", OPTIONS_NUMBER, OPTIONS_AT(tcp_flows), 0, 1000 },
	{ "--cc", OPTIONS_TEXT, OPTIONS_AT(tcp_congestion), 0, 0 },
	{ "--tcp-write", OPTIONS_NUMBER, OPTIONS_AT(tcp_write_bytes), 1, 1 << 20 },
	{ "--probe", OPTIONS_FLAG, OPTIONS_AT(probe), 0, 0 },
	{ "--probe-interval-us", OPTIONS_NUMBER, OPTIONS_AT(probe_interval_us), 100, 10000000 },
	{ "--warmup-ms", OPTIONS_NUMBER, OPTIONS_AT(warmup_ms), 0, 600000 },
	{ "--seconds", OPTIONS_SECONDS, OPTIONS_AT(sending_ns), 200 * CLOCK_NS_PER_MS,
	  600 * CLOCK_NS_PER_S },
	{ "--drain-ms", OPTIONS_NUMBER, OPTIONS_AT(drain_ms), 1, 60000 },
	{ "--json", OPTIONS_TEXT, OPTIONS_AT(json_path), 0, 0 },
};

#define OPTIONS_COUNT	(sizeof(options_table) / sizeof(options_table[0]))

__attribute__((noreturn))
static void options_refuse(const char *name, const char *value, const char *why)
{
	fprintf(stderr, "bptraffic: %s %s: %s\n", name, value, why);
	exit(1);
}

static uint64_t options_parse_mode(const char *name, const char *value)
{
	static const char * const names[] = { "block", "poll", "epoll" };
	uint64_t i;

	for (i = OPTIONS_BLOCK; i <= OPTIONS_EPOLL; i++)
		if (!strcmp(value, names[i]))
			return i;
	options_refuse(name, value, "not block, poll or epoll");
}

static uint64_t options_parse_number(const struct options_spec *spec, const char *value)
{
	double number, unit = spec->kind == OPTIONS_SECONDS ? 1e9 : 1;
	const char *digits = spec->kind == OPTIONS_SECONDS ? "0123456789." : "0123456789";
	char *end;

	number = strtod(value, &end) * unit;
	if (!*value || *end || strspn(value, digits) != strlen(value))
		options_refuse(spec->name, value, "not a number");
	if (number < (double)spec->min || number > (double)spec->max)
		options_refuse(spec->name, value, "too small or too large");
	return (uint64_t)(number + 0.5);
}

static void options_store(struct options *o, const struct options_spec *spec, const char *value)
{
	void *field = (char *)o + spec->offset;

	switch (spec->kind) {
	case OPTIONS_FLAG:
		*(bool *)field = true;
		break;
	case OPTIONS_TEXT:
		*(const char **)field = value;
		break;
	case OPTIONS_NUMBER:
	case OPTIONS_SECONDS:
		*(uint64_t *)field = options_parse_number(spec, value);
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
	options_refuse(name, "", "no such option");
}

static void options_parse_address(struct options *o)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&o->address;
	struct sockaddr_in *in = (struct sockaddr_in *)&o->address;

	if (o->dst && inet_pton(AF_INET, o->dst, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		o->address_length = sizeof(*in);
	} else if (o->dst && inet_pton(AF_INET6, o->dst, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		o->address_length = sizeof(*in6);
	} else {
		options_refuse("--dst", o->dst ? o->dst : "", "not an IPv4 or IPv6 address");
	}
}

/* Options that are right alone, but not together. */
static void options_check_together(const struct options *o)
{
	if (!o->udp_senders && !o->tcp_flows && !o->probe)
		options_refuse("--udp", "0", "nothing to do without --tcp or --probe");
	if (o->gso_segments * o->udp_payload_bytes > 65507)
		options_refuse("--gso", "", "more than 65507 bytes");
	if (o->warmup_ms * CLOCK_NS_PER_MS >= o->sending_ns)
		options_refuse("--warmup-ms", "", "not shorter than --seconds");
	if (o->mode != OPTIONS_EPOLL && o->udp_senders > 2000)
		options_refuse("--udp", "", "more than 2000 need --mode epoll");
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
		.probe_interval_us = 5000,
		.warmup_ms = 500,
		.sending_ns = 2 * CLOCK_NS_PER_S,
		.drain_ms = 1500,
	};
	for (i = 1; i < argc; i++) {
		const struct options_spec *spec = options_find(argv[i]);
		const char *value = NULL;

		if (spec->kind != OPTIONS_FLAG) {
			value = argv[++i];
			if (!value)
				options_refuse(spec->name, "", "value missing");
		}
		options_store(o, spec, value);
	}
	options_parse_address(o);
	options_check_together(o);
}

socklen_t options_address(const struct options *o, unsigned int offset,
			  struct sockaddr_storage *address)
{
	*address = o->address;
	/* At the same place with IPv6 */
	((struct sockaddr_in *)address)->sin_port = htons((uint16_t)(o->port + offset));
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
