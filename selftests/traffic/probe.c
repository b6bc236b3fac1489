// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "netns.h"
#include "probe.h"
#include "process.h"
#include "sender.h"
#include "wire.h"

static int probe_open(const struct options *o)
{
	struct sockaddr_storage address;
	socklen_t length = options_address(o, WIRE_PORT_PROBE, &address);
	int fd;

	if (netns_enter(o->tx_netns))
		process_fail("--tx-netns", o->tx_netns);
	fd = socket(address.ss_family, SOCK_DGRAM, 0);
	if (fd < 0)
		process_fail("probe socket", "");
	sender_set_class(o, fd, o->class_probe);
	if (connect(fd, (struct sockaddr *)&address, length))
		process_fail("--dst", o->dst);
	return fd;
}

/* Stamped before the call: if it sleeps, the sleep counts as delay. */
static void probe_send(struct traffic_probe *probe, int fd, char *payload,
		       size_t payload_bytes)
{
	struct wire_header header = {
		.magic = WIRE_MAGIC,
		.sequence = probe->sent_packets + 1,
		.sent_ns = clock_now_ns(),
	};

	memcpy(payload, &header, sizeof(header));
	if (sendto(fd, payload, payload_bytes, 0, NULL, 0) < 0)
		probe->errors++;
	else
		probe->sent_packets++;
}

void probe_run(struct traffic *t, uint32_t index)
{
	const struct options *o = t->options;
	uint64_t interval_ns = o->probe_interval_us * CLOCK_NS_PER_US;
	char *payload = calloc(1, o->probe_payload_bytes);
	uint64_t next_ns;
	int fd;

	(void)index;
	if (!payload)
		process_fail("probe", "");
	process_catch_alarm();
	fd = probe_open(o);
	/* Busy senders must not delay the probe. */
	process_raise_priority();

	next_ns = traffic_wait_start(t) + interval_ns;
	for (; !traffic_is_over(t, next_ns); next_ns += interval_ns) {
		clock_sleep_until(next_ns);
		if (traffic_is_over(t, clock_now_ns()))
			break;
		probe_send(&t->shared->probe, fd, payload,
			   o->probe_payload_bytes);
	}
}
