// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"
#include "netns.h"
#include "traffic.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT		103
#endif

#define SENDER_EPOLL_EVENTS	256

/*
 * Datagrams that a writable socket of an epoll loop sends before the next one
 * has its turn, unless EAGAIN comes first. Enough to amortise the loop, too few
 * to starve thousands of others.
 */
#define SENDER_EPOLL_BUDGET	16

enum sender_verdict {
	SENDER_SENT,
	SENDER_WOULD_BLOCK,
	SENDER_FAILED,
};

/* One sending process. */
struct sender {
	struct traffic *t;
	struct sender_socket *sockets;
	char *payload;			/* [gso_segments][udp_payload_bytes] */
	uint64_t now_ns;		/* after the latest send */
};

struct sender_socket {
	int fd;
	uint32_t index;
	uint64_t next_sequence;
	struct traffic_sender *counters;
};

static void sender_set(int fd, int level, int name, const char *text, const void *value,
		       socklen_t bytes)
{
	if (setsockopt(fd, level, name, value, bytes))
		process_fail(text, "");
}

void sender_set_options(const struct options *o, int fd)
{
	uint64_t bytes_per_s = o->pacing_bits_per_s / 8;
	int half = (int)(o->sndbuf_bytes / 2);

	if (half)
		sender_set(fd, SOL_SOCKET, SO_SNDBUFFORCE, "--sndbuf", &half, sizeof(half));
	if (bytes_per_s)
		sender_set(fd, SOL_SOCKET, SO_MAX_PACING_RATE, "--pacing-rate", &bytes_per_s,
			   sizeof(bytes_per_s));
}

static void sender_set_class(const struct options *o, int fd, uint64_t minor)
{
	int priority = 0x10000 + (int)minor;

	if (o->classes)
		sender_set(fd, SOL_SOCKET, SO_PRIORITY, "--classes", &priority, sizeof(priority));
}

void sender_set_class_of(const struct options *o, int fd, uint32_t index)
{
	if (o->classes)
		sender_set_class(o, fd, o->class_first + index % o->classes);
}

static int sender_socket(const struct options *o, unsigned int port_offset, int flags)
{
	struct sockaddr_storage address;
	socklen_t length = options_address(o, port_offset, &address);
	int fd = socket(address.ss_family, SOCK_DGRAM | flags, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&address, length))
		process_fail("--dst", o->dst);
	return fd;
}

static void sender_open_socket(struct sender *s, struct sender_socket *sock, uint32_t index)
{
	const struct options *o = s->t->options;
	int segment = (int)o->udp_payload_bytes;

	sock->index = index;
	sock->next_sequence = 1;
	sock->counters = &s->t->senders[index];
	sock->fd = sender_socket(o, WIRE_PORT_DATA, o->mode == OPTIONS_BLOCK ? 0 : SOCK_NONBLOCK);
	sender_set_options(o, sock->fd);
	if (o->gso_segments > 1)
		sender_set(sock->fd, IPPROTO_UDP, UDP_SEGMENT, "--gso", &segment, sizeof(segment));
	sender_set_class_of(o, sock->fd, index);
}

/* Sockets number @first to @first + @count - 1. */
static void sender_open(struct sender *s, struct traffic *t, uint32_t first,
			uint32_t count)
{
	const struct options *o = t->options;
	struct rlimit files = { count + 64, count + 64 };
	uint32_t i;

	*s = (struct sender){ .t = t };
	if (count > 900 && setrlimit(RLIMIT_NOFILE, &files))
		process_fail("RLIMIT_NOFILE", "");
	s->payload = calloc(o->gso_segments, o->udp_payload_bytes);
	s->sockets = calloc(count, sizeof(*s->sockets));
	if (!s->payload || !s->sockets)
		process_fail("sender", "");
	if (netns_enter(o->tx_netns))
		process_fail("--tx-netns", o->tx_netns);
	for (i = 0; i < count; i++)
		sender_open_socket(s, &s->sockets[i], first + i);
}

static void sender_fill(struct sender *s, const struct sender_socket *sock)
{
	const struct options *o = s->t->options;
	struct wire_header header = {
		.magic = WIRE_MAGIC,
		.sender = sock->index,
		.sequence = sock->next_sequence,
	};
	uint64_t i;

	for (i = 0; i < o->gso_segments; i++) {
		memcpy(s->payload + i * o->udp_payload_bytes, &header,
		       sizeof(header));
		header.sequence++;
	}
}

/*
 * A packet is accepted when sendto() returns. A stamp in the packet would be
 * older: it would count the sleep in sendto() as age of the packet.
 */
static void sender_account_sent(struct sender *s, struct sender_socket *sock)
{
	uint64_t segments = s->t->options->gso_segments;
	uint64_t i;

	for (i = 0; i < segments; i++)
		traffic_stamp(s->t, sock->index, sock->next_sequence + i,
			      s->now_ns);
	sock->next_sequence += segments;
	sock->counters->sent_packets += segments;
}

static void sender_account_time(const struct sender *s,
				struct traffic_sender *counters,
				uint64_t from_ns)
{
	uint64_t warm_ns = traffic_start_ns(s->t) +
			   s->t->options->warmup_ms * CLOCK_NS_PER_MS;
	uint64_t took_ns = s->now_ns - from_ns;

	if (from_ns >= warm_ns && took_ns > counters->longest_send_ns)
		counters->longest_send_ns = took_ns;
}

static enum sender_verdict sender_send(struct sender *s,
				       struct sender_socket *sock)
{
	const struct options *o = s->t->options;
	uint64_t from_ns = s->now_ns;
	ssize_t sent;
	int error;

	sender_fill(s, sock);
	sent = sendto(sock->fd, s->payload,
		      o->gso_segments * o->udp_payload_bytes, 0, NULL, 0);
	error = errno;
	s->now_ns = clock_now_ns();
	if (sent < 0) {
		sock->counters->no_buffers += error == ENOBUFS;
		return error == EAGAIN ? SENDER_WOULD_BLOCK : SENDER_FAILED;
	}
	sender_account_sent(s, sock);
	sender_account_time(s, sock->counters, from_ns);
	return SENDER_SENT;
}

static void sender_loop_block(struct sender *s)
{
	while (!traffic_is_over(s->t, s->now_ns))
		sender_send(s, &s->sockets[0]);
}

static void sender_loop_poll(struct sender *s)
{
	struct pollfd writable = {
		.fd = s->sockets[0].fd, .events = POLLOUT,
	};

	while (!traffic_is_over(s->t, s->now_ns)) {
		if (sender_send(s, &s->sockets[0]) != SENDER_WOULD_BLOCK)
			continue;
		/* SIGALRM ends the last sendto(). */
		poll(&writable, 1, -1);
		s->now_ns = clock_now_ns();
	}
}

static int sender_open_epoll(struct sender *s, uint32_t count)
{
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	uint32_t i;

	if (epoll_fd < 0)
		process_fail("epoll_create1", "");
	for (i = 0; i < count; i++) {
		struct epoll_event event = {
			.events = EPOLLOUT, .data.u32 = i,
		};

		if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, s->sockets[i].fd,
			      &event))
			process_fail("EPOLL_CTL_ADD", "");
	}
	return epoll_fd;
}

static void sender_serve(struct sender *s, struct sender_socket *sock)
{
	unsigned int i;

	for (i = 0; i < SENDER_EPOLL_BUDGET; i++)
		if (traffic_is_over(s->t, s->now_ns) ||
		    sender_send(s, sock) != SENDER_SENT)
			return;
}

static void sender_loop_epoll(struct sender *s, int epoll_fd)
{
	struct epoll_event events[SENDER_EPOLL_EVENTS];

	while (!traffic_is_over(s->t, s->now_ns)) {
		int count, i;

		count = epoll_wait(epoll_fd, events, SENDER_EPOLL_EVENTS, -1);
		s->now_ns = clock_now_ns();
		for (i = 0; i < count; i++)
			sender_serve(s, &s->sockets[events[i].data.u32]);
	}
}

static void sender_loop(struct sender *s, int epoll_fd)
{
	switch (s->t->options->mode) {
	case OPTIONS_BLOCK:
		return sender_loop_block(s);
	case OPTIONS_POLL:
		return sender_loop_poll(s);
	case OPTIONS_EPOLL:
		return sender_loop_epoll(s, epoll_fd);
	}
}

void sender_run(struct traffic *t, uint32_t index)
{
	const struct options *o = t->options;
	bool is_epoll = o->mode == OPTIONS_EPOLL;
	uint32_t count = is_epoll ? (uint32_t)o->udp_senders : 1;
	uint64_t before_ns;
	struct sender s;
	int epoll_fd;

	process_catch_alarm();
	sender_open(&s, t, index, count);
	epoll_fd = is_epoll ? sender_open_epoll(&s, count) : -1;

	s.now_ns = traffic_wait_start(t);
	before_ns = traffic_cpu_ns();
	sender_loop(&s, epoll_fd);
	t->cpu_ns[index] = traffic_cpu_ns() - before_ns;
}

/* Stamped before the call: if it sleeps, the sleep counts as delay. */
static void probe_send(uint64_t *sent_probes, int fd)
{
	union {
		struct wire_header header;
		char bytes[WIRE_PROBE_BYTES];
	} payload = {
		.header = {
			.magic = WIRE_MAGIC,
			.sequence = *sent_probes + 1,
			.sent_ns = clock_now_ns(),
		},
	};

	*sent_probes += sendto(fd, &payload, sizeof(payload), 0, NULL, 0) >= 0;
}

void probe_run(struct traffic *t, uint32_t index)
{
	uint64_t interval_ns = t->options->probe_interval_us * CLOCK_NS_PER_US;
	uint64_t next_ns;
	int fd;

	(void)index;
	process_catch_alarm();
	if (netns_enter(t->options->tx_netns))
		process_fail("--tx-netns", t->options->tx_netns);
	fd = sender_socket(t->options, WIRE_PORT_PROBE, 0);
	sender_set_class(t->options, fd, t->options->class_probe);
	/* Busy senders must not delay the probe. */
	process_raise_priority();

	next_ns = traffic_wait_start(t) + interval_ns;
	for (; !traffic_is_over(t, next_ns); next_ns += interval_ns) {
		clock_sleep_until(next_ns);
		if (traffic_is_over(t, clock_now_ns()))
			break;
		probe_send(&t->shared->sent_probes, fd);
	}
}
