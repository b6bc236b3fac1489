// SPDX-License-Identifier: GPL-2.0-only
/* The command line: senders, and what they do. */
#include <errno.h>
#include <linux/if_packet.h>
#include <netinet/ether.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bppeers.h"
#include "guest.h"

static const struct kind kinds[] = {
	{ "udp", AF_INET, SOCK_DGRAM, 0, 0 },
	{ "udp6", AF_INET6, SOCK_DGRAM, 0, 0 },
	{ "udplite", AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE, 0 },
	{ "udplite6", AF_INET6, SOCK_DGRAM, IPPROTO_UDPLITE, 0 },
	{ "ping", AF_INET, SOCK_DGRAM, IPPROTO_ICMP, 8 },
	{ "ping6", AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6, 8 },
	{ "icmp", AF_INET, SOCK_RAW, IPPROTO_ICMP, 8 },
	{ "raw6", AF_INET6, SOCK_RAW, IPPROTO_OURS, 0 },
	{ "hdrincl", AF_INET, SOCK_RAW, IPPROTO_RAW, 20 },
	{ "packet", AF_PACKET, SOCK_RAW, 0, 14 + 20 + 8 },
	{ "dgram", AF_PACKET, SOCK_DGRAM, 0, 20 + 8 },
	{ "tap", AF_PACKET, SOCK_RAW, GUEST_TAP, 14 + 20 + 8 },
	{ "vhost", AF_PACKET, SOCK_RAW, GUEST_VHOST, 14 + 20 + 8 },
};

static void list_parse(struct sender *s, char *value)
{
	char *save, *item, *at;

	for (item = strtok_r(value, "/", &save); item && s->list_len < LIST_MAX;
	     item = strtok_r(NULL, "/", &save)) {
		at = strchr(item, '@');
		s->list[s->list_len].peer = strtoul(item, NULL, 10);
		if (at)
			s->list[s->list_len].after_ns = atof(at + 1) * CLOCK_NS_PER_MS;
		s->list_len++;
	}
}

/* MAJOR-MINOR, in hexadecimal as tc has them */
static uint32_t class_parse(const char *value)
{
	char *end;
	uint32_t major = strtoul(value, &end, 16);

	return major << 16 | (*end ? strtoul(end + 1, NULL, 16) : 0);
}

static void mac_parse(struct sender *s, const char *value)
{
	struct ether_addr *mac = ether_aton(value);

	if (!mac)
		fail(value);
	memcpy(s->mac, mac, sizeof(s->mac));
}

static bool guest_option_parse(struct sender *s, const char *key, char *value)
{
	if (!strcmp(key, "device") && value)
		s->device = value;
	else if (!strcmp(key, "ring") && value)
		s->ring = strtoul(value, NULL, 10);
	else if (!strcmp(key, "mac") && value)
		mac_parse(s, value);
	else if (!strcmp(key, "ages"))
		s->has_ages = true;
	else
		return false;
	return true;
}

static bool time_option_parse(struct sender *s, const char *key, const char *value)
{
	if (!strcmp(key, "later") && value)
		s->later_ns = atof(value) * CLOCK_NS_PER_MS;
	else if (!strcmp(key, "at") && value)
		s->at_ns = atof(value) * CLOCK_NS_PER_MS;
	else if (!strcmp(key, "timed") && value)
		s->timed = strtoul(value, NULL, 10);
	else
		return false;
	s->is_timed = true;
	return true;
}

static bool frame_option_parse(struct sender *s, const char *key, unsigned long number)
{
	if (!strcmp(key, "every"))
		s->every_ns = number * CLOCK_NS_PER_US;
	else if (!strcmp(key, "frame"))
		s->frame = number;
	else if (!strcmp(key, "mmsg"))
		s->is_mmsg = true;
	else if (!strcmp(key, "refuse"))
		s->refuses = true;
	else if (!strcmp(key, "edge"))
		s->is_edge = true;
	else
		return false;
	return true;
}

static bool option_parse(struct sender *s, const char *key, char *value)
{
	unsigned long number = value ? strtoul(value, NULL, 10) : 0;

	if (!strcmp(key, "sockets"))
		s->sockets = number;
	else if (!strcmp(key, "peers"))
		s->peers = number;
	else if (!strcmp(key, "ports"))
		s->ports = number;
	else if (!strcmp(key, "size"))
		s->size = number;
	else if (!strcmp(key, "sndbuf"))
		s->sndbuf = number;
	else if (!strcmp(key, "gso"))
		s->gso = number;
	else if (!strcmp(key, "tos"))
		s->tos = number;
	else if (!strcmp(key, "max_rate"))
		s->max_rate_Bps = number / 8;
	else if (!strcmp(key, "pace"))
		s->pace_ns = number * CLOCK_NS_PER_US;
	else if (!strcmp(key, "due"))
		s->due_ns = number * CLOCK_NS_PER_MS;
	else if (!strcmp(key, "poll"))
		s->polls = true;
	else if (!strcmp(key, "bypass"))
		s->is_bypass = true;
	else if (!strcmp(key, "disconnected"))
		s->is_disconnected = true;
	else if (!strcmp(key, "list") && value)
		list_parse(s, value);
	else if (!strcmp(key, "class") && value)
		s->priority = class_parse(value);
	else if (!strcmp(key, "classes"))
		s->classes = number;
	else if (!strcmp(key, "most"))
		s->most_Bps = number / 8.0;
	else if (!strcmp(key, "from"))
		s->from_ns = number * CLOCK_NS_PER_MS;
	else if (!strcmp(key, "until"))
		s->until_ns = number * CLOCK_NS_PER_MS;
	else if (!strcmp(key, "reconnect"))
		s->first = 1 + number;
	else if (!strcmp(key, "fresh"))
		s->fresh = number;
	else if (!strcmp(key, "uid"))
		s->uid = number;
	else if (!strcmp(key, "uids") && number)
		s->uids = number;
	else
		return frame_option_parse(s, key, number) ||
		       time_option_parse(s, key, value) || guest_option_parse(s, key, value);
	return true;
}

/* Queues of a virtual machine, in place of sockets */
static void guest_check(struct sender *s)
{
	bool is_guest = s->kind->family == AF_PACKET && s->kind->protocol;

	if (is_guest != !!s->device || s->ring & (s->ring - 1) || (is_guest && s->gso > 1))
		fail(s->name);
	if (is_guest)
		s->queues = allocate(s->sockets, sizeof(*s->queues));
}

void sender_parse(struct sender *s, char *arg)
{
	char *save, *word = strtok_r(arg, ":", &save), *value;

	*s = (struct sender){ .sockets = 1, .peers = 1, .gso = 1, .frame = 1, .uids = 1,
			      .ring = 256, .mac = { 2, 0, 0, 0, 0, 1 } };
	snprintf(s->name, sizeof(s->name), "%s", word ? word : "");
	errno = EINVAL;
	word = strtok_r(NULL, ",", &save);
	for (unsigned int i = 0; word && i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kinds[i].name, word))
			s->kind = &kinds[i];
	if (!s->kind)
		fail("no such kind");
	while ((word = strtok_r(NULL, ",", &save))) {
		value = strchr(word, '=');
		if (value)
			*value++ = 0;
		if (!option_parse(s, word, value))
			fail(word);
	}
	if (!s->size)
		s->size = s->kind->family == AF_INET6 ? 1450 : 1470;
	if (!s->ports)
		s->ports = s->sockets * s->peers;
	if (!s->peers || s->size < sizeof(struct message) || s->size * s->gso > BUFFER - 64 ||
	    (s->is_mmsg && (s->peers > 1 || s->frame > FRAME_MAX)))
		fail(s->name);
	guest_check(s);
	s->all_peers = allocate(s->sockets * s->peers, sizeof(*s->all_peers));
	s->fds = allocate(s->sockets, sizeof(*s->fds));
}
