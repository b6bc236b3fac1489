// SPDX-License-Identifier: GPL-2.0-only
#include <linux/sock_diag.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "netns.h"
#include "traffic.h"

/*
 * To wake up for each packet would cost a context switch each, on the CPU that
 * is measured. So the kernel stamps arrivals (SO_TIMESTAMPNS), and the sink
 * reads them in batches.
 */
#define SINK_BATCH		64
#define SINK_INTERVAL_NS	(2 * CLOCK_NS_PER_MS)
#define SINK_RCVBUF_BYTES	(256 << 20)

/* After this time the sink gives up: the shaper still delivers. */
#define SINK_DRAIN_MAX_NS	(60 * CLOCK_NS_PER_S)

struct sink_socket {
	int fd;
	struct mmsghdr messages[SINK_BATCH];
	struct iovec vectors[SINK_BATCH];
	struct wire_header headers[SINK_BATCH];
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct timespec))];
	} controls[SINK_BATCH];
};

struct sink {
	struct traffic *t;
	struct traffic_sink *results;
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t warm_ns;		/* percentiles count from here on */
	uint64_t window_ns;		/* goodput counts from here on */
	int64_t realtime_offset_ns;
	uint64_t received;		/* data and probes */
	struct sink_socket data;
	struct sink_socket probe;
};

typedef void sink_account(struct sink *k, const struct wire_header *header,
			  uint64_t bytes, uint64_t arrived_ns);

static void sink_account_age(struct sink *k, const struct wire_header *header,
			     uint64_t arrived_ns)
{
	uint64_t accepted_ns = traffic_find_stamp(k->t, header->sender, header->sequence,
						  arrived_ns);

	if (accepted_ns < k->warm_ns)
		return;
	/* An unshaped packet arrives before its sendto() has returned. */
	histogram_add(&k->results->age_ns, arrived_ns > accepted_ns ?
		      arrived_ns - accepted_ns : 0);
}

static void sink_account_data(struct sink *k, const struct wire_header *header,
			      uint64_t bytes, uint64_t arrived_ns)
{
	const struct options *o = k->t->options;
	struct traffic_receiver *receiver;

	if (header->sender >= o->udp_senders || bytes != o->udp_payload_bytes)
		return;
	receiver = &k->t->receivers[header->sender];
	receiver->packets++;
	k->received++;
	if (arrived_ns < k->end_ns) {
		receiver->sending_time_packets++;
		k->results->window_packets += arrived_ns >= k->window_ns;
	}
	sink_account_age(k, header, arrived_ns);
}

static void sink_account_probe(struct sink *k, const struct wire_header *header,
			       uint64_t bytes, uint64_t arrived_ns)
{
	if (bytes != WIRE_PROBE_BYTES)
		return;
	k->results->probes++;
	k->received++;
	if (header->sent_ns >= k->warm_ns)
		histogram_add(&k->results->probe_delay_ns,
			      arrived_ns > header->sent_ns ?
			      arrived_ns - header->sent_ns : 0);
}

static void sink_open_socket(struct sink_socket *sock,
			     const struct options *o, unsigned int port_offset)
{
	struct sockaddr_storage address;
	socklen_t length = options_any_address(o, port_offset, &address);
	int rcvbuf = SINK_RCVBUF_BYTES;
	int on = 1;

	sock->fd = socket(address.ss_family, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	if (sock->fd < 0)
		process_fail("sink socket", "");
	if (setsockopt(sock->fd, SOL_SOCKET, SO_RCVBUFFORCE, &rcvbuf,
		       sizeof(rcvbuf)))
		process_fail("SO_RCVBUFFORCE", "");
	if (setsockopt(sock->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on,
		       sizeof(on)))
		process_fail("SO_TIMESTAMPNS", "");
	if (bind(sock->fd, (struct sockaddr *)&address, length))
		process_fail("sink bind", "");
}

static void sink_prepare_messages(struct sink_socket *sock)
{
	unsigned int i;

	for (i = 0; i < SINK_BATCH; i++) {
		struct msghdr *header = &sock->messages[i].msg_hdr;

		sock->vectors[i].iov_base = &sock->headers[i];
		sock->vectors[i].iov_len = sizeof(sock->headers[i]);
		header->msg_iov = &sock->vectors[i];
		header->msg_iovlen = 1;
		header->msg_control = &sock->controls[i];
		header->msg_controllen = sizeof(sock->controls[i]);
	}
}

/* 0: the kernel has not stamped it. */
static uint64_t sink_arrival_ns(const struct sink *k, struct msghdr *message)
{
	struct cmsghdr *control = CMSG_FIRSTHDR(message);
	struct timespec ts;

	if (!control || control->cmsg_level != SOL_SOCKET ||
	    control->cmsg_type != SCM_TIMESTAMPNS)
		return 0;
	memcpy(&ts, CMSG_DATA(control), sizeof(ts));
	return clock_from_timespec(&ts) - (uint64_t)k->realtime_offset_ns;
}

static void sink_account_message(struct sink *k, struct sink_socket *sock,
				 unsigned int i, sink_account *account)
{
	struct mmsghdr *message = &sock->messages[i];
	uint64_t arrived_ns = sink_arrival_ns(k, &message->msg_hdr);

	/* The kernel shortens it to what it has filled. */
	message->msg_hdr.msg_controllen = sizeof(sock->controls[i]);
	if (arrived_ns && message->msg_len >= WIRE_HEADER_BYTES &&
	    sock->headers[i].magic == WIRE_MAGIC)
		account(k, &sock->headers[i], message->msg_len, arrived_ns);
}

/* Read all that has arrived. MSG_TRUNC: copy the header, return the length. */
static void sink_fetch(struct sink *k, struct sink_socket *sock,
		       sink_account *account)
{
	int count, i;

	do {
		count = recvmmsg(sock->fd, sock->messages, SINK_BATCH,
				 MSG_TRUNC, NULL);
		for (i = 0; i < count; i++)
			sink_account_message(k, sock, (unsigned int)i,
					     account);
	} while (count == SINK_BATCH);
}

/*
 * Packets that the receive buffer had no room for. SO_RXQ_OVFL tells with the
 * next packet only, and never if there is none.
 */
static uint64_t sink_count_drops(const struct sink_socket *sock)
{
	uint32_t meminfo[SK_MEMINFO_VARS] = { 0 };
	socklen_t size = sizeof(meminfo);

	getsockopt(sock->fd, SOL_SOCKET, SO_MEMINFO, meminfo, &size);
	return meminfo[SK_MEMINFO_DROPS];
}

static void sink_loop(struct sink *k)
{
	struct traffic_shared *shared = k->t->shared;
	const struct options *o = k->t->options;
	uint64_t quiet_ns = o->drain_ms * CLOCK_NS_PER_MS;
	uint64_t latest_ns = k->start_ns;
	uint64_t now_ns = k->start_ns;
	uint64_t received_before;
	bool all_sent;

	do {
		now_ns += SINK_INTERVAL_NS;
		clock_sleep_until(now_ns);
		all_sent = atomic_load(&shared->all_sent);
		received_before = k->received;
		sink_fetch(k, &k->data, sink_account_data);
		sink_fetch(k, &k->probe, sink_account_probe);
		now_ns = clock_now_ns();
		if (k->received != received_before || !all_sent)
			latest_ns = now_ns;
	} while (!all_sent || (k->received < atomic_load(&shared->sent_packets) &&
			       now_ns < latest_ns + quiet_ns &&
			       now_ns < k->end_ns + SINK_DRAIN_MAX_NS));
}

static void sink_open(struct sink *k, struct traffic *t)
{
	const struct options *o = t->options;

	k->t = t;
	k->results = &t->shared->sink;
	k->realtime_offset_ns = clock_realtime_offset_ns();
	if (netns_enter(o->rx_netns))
		process_fail("--rx-netns", o->rx_netns);
	sink_open_socket(&k->data, o, WIRE_PORT_DATA);
	sink_open_socket(&k->probe, o, WIRE_PORT_PROBE);
	sink_prepare_messages(&k->data);
	sink_prepare_messages(&k->probe);
	process_raise_priority();
}

void sink_run(struct traffic *t, uint32_t index)
{
	struct sink *k = calloc(1, sizeof(*k));

	(void)index;
	if (!k)
		process_fail("sink", "");
	sink_open(k, t);
	k->start_ns = traffic_wait_start(t);
	k->end_ns = traffic_end_ns(t);
	k->warm_ns = k->start_ns + t->options->warmup_ms * CLOCK_NS_PER_MS;
	k->window_ns = k->start_ns + TRAFFIC_GOODPUT_WARM_NS;
	sink_loop(k);
	k->results->dropped_packets = sink_count_drops(&k->data) +
				      sink_count_drops(&k->probe);
	k->results->clock_step_ns = clock_realtime_offset_ns() -
				    k->realtime_offset_ns;
}
