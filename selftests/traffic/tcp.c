// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "netns.h"
#include "traffic.h"

#define TCP_READ_BYTES		(1 << 20)
#define TCP_READ_EVENTS		64
#define TCP_READ_WAIT_MS	20
#define TCP_SAMPLE_NS		(20 * CLOCK_NS_PER_MS)

static int tcp_connect(const struct options *o, uint32_t index)
{
	struct sockaddr_storage address;
	socklen_t length = options_address(o, WIRE_PORT_TCP, &address);
	int fd;

	if (netns_enter(o->tx_netns))
		process_fail("--tx-netns", o->tx_netns);
	fd = socket(address.ss_family, SOCK_STREAM, 0);
	if (fd < 0)
		process_fail("TCP socket", "");
	sender_set_options(o, fd);
	sender_set_class_of(o, fd, index);
	if (o->tcp_congestion &&
	    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, o->tcp_congestion,
		       (socklen_t)strlen(o->tcp_congestion)))
		process_fail("--cc", o->tcp_congestion);
	if (connect(fd, (struct sockaddr *)&address, length))
		process_fail("--dst", o->dst);
	return fd;
}

/* The first word is the number of the flow, for the reader. */
static void tcp_write_index(int fd, uint32_t index)
{
	if (write(fd, &index, sizeof(index)) != sizeof(index))
		process_fail("TCP write", "");
}

/* Sampled between two writes: a flow that sleeps in write() has fewer. */
static void tcp_sample(struct traffic_tcp *flow, int fd)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size))
		process_fail("TCP_INFO", "");
	flow->retransmitted_segments = info.tcpi_total_retrans;
	if (flow->srtt_samples < TRAFFIC_SRTT_SAMPLES)
		flow->srtt_sample_us[flow->srtt_samples++] = info.tcpi_rtt;
}

static uint64_t tcp_sample_interval_ns(const struct options *o)
{
	uint64_t least_ns = o->sending_ns / (TRAFFIC_SRTT_SAMPLES - 1);

	return least_ns > TCP_SAMPLE_NS ? least_ns : TCP_SAMPLE_NS;
}

static void tcp_write_loop(struct traffic *t, int fd, struct traffic_tcp *flow)
{
	const struct options *o = t->options;
	uint64_t interval_ns = tcp_sample_interval_ns(o);
	uint64_t sample_ns = traffic_start_ns(t) +
			     o->warmup_ms * CLOCK_NS_PER_MS;
	char *payload = calloc(1, o->tcp_write_bytes);
	uint64_t now_ns;

	if (!payload)
		process_fail("TCP writer", "");
	while (!traffic_is_over(t, now_ns = clock_now_ns())) {
		ssize_t written = write(fd, payload, o->tcp_write_bytes);

		if (written < 0 && errno != EINTR) {
			flow->error = errno;
			break;
		}
		if (now_ns >= sample_ns) {
			tcp_sample(flow, fd);
			sample_ns = now_ns + interval_ns;
		}
	}
	tcp_sample(flow, fd);
	free(payload);
}

void tcp_write_run(struct traffic *t, uint32_t index)
{
	struct traffic_tcp *flow = &t->tcp[index];
	uint64_t before_ns;
	int fd;

	signal(SIGPIPE, SIG_IGN);
	process_catch_alarm();
	fd = tcp_connect(t->options, index);
	tcp_write_index(fd, index);

	traffic_wait_start(t);
	before_ns = traffic_cpu_ns();
	tcp_write_loop(t, fd, flow);
	t->tcp_cpu_ns[index] = traffic_cpu_ns() - before_ns;
}

struct tcp_reader {
	struct traffic *t;
	int listen_fd;
	int epoll_fd;
	char *buffer;
	uint64_t start_ns;
	uint64_t end_ns;
	uint32_t open;			/* flows that have not ended */
};

static void tcp_read_watch(const struct tcp_reader *r, int fd, uint32_t index)
{
	struct epoll_event event = {
		.events = EPOLLIN,
		.data.u64 = (uint64_t)index << 32 | (uint32_t)fd,
	};

	if (epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		process_fail("EPOLL_CTL_ADD", "");
}

static void tcp_read_listen(struct tcp_reader *r)
{
	const struct options *o = r->t->options;
	struct sockaddr_storage address;
	socklen_t length = options_any_address(o, WIRE_PORT_TCP, &address);
	int on = 1;

	if (netns_enter(o->rx_netns))
		process_fail("--rx-netns", o->rx_netns);
	r->listen_fd = socket(address.ss_family, SOCK_STREAM, 0);
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (r->listen_fd < 0 || r->epoll_fd < 0)
		process_fail("TCP reader", "");
	setsockopt(r->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(r->listen_fd, (struct sockaddr *)&address, length) ||
	    listen(r->listen_fd, (int)o->tcp_flows))
		process_fail("TCP listen", "");
}

/* All writers connect before they report ready, so accept() finds all. */
static void tcp_read_accept_all(struct tcp_reader *r)
{
	uint64_t flows = r->t->options->tcp_flows;
	uint32_t index;

	for (; r->open < flows; r->open++) {
		int fd = accept(r->listen_fd, NULL, NULL);

		if (fd < 0)
			process_fail("TCP accept", "");
		if (recv(fd, &index, sizeof(index), MSG_WAITALL) !=
		    sizeof(index) || index >= flows)
			process_fail("TCP flow without a valid index", "");
		tcp_read_watch(r, fd, index);
	}
	close(r->listen_fd);
}

/* MSG_TRUNC: TCP discards the data without copying them. */
static void tcp_read_flow(struct tcp_reader *r, int fd, uint32_t index)
{
	struct traffic_tcp *flow = &r->t->tcp[index];
	ssize_t count = recv(fd, r->buffer, TCP_READ_BYTES,
			     MSG_TRUNC | MSG_DONTWAIT);
	uint64_t now_ns = clock_now_ns();

	if (count < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (count <= 0) {
		close(fd);
		r->open--;
		return;
	}
	flow->read_bytes += (uint64_t)count;
	if (now_ns >= r->end_ns)
		return;
	flow->sending_time_bytes += (uint64_t)count;
	if (now_ns >= r->start_ns + TRAFFIC_GOODPUT_WARM_NS)
		flow->window_bytes += (uint64_t)count;
}

/*
 * Unlike a UDP sink it wakes up for each arrival, as an application would: the
 * window it opens by reading is part of the flow control.
 */
static void tcp_read_loop(struct tcp_reader *r)
{
	uint64_t give_up_ns = r->end_ns +
			      r->t->options->drain_ms * CLOCK_NS_PER_MS;
	struct epoll_event events[TCP_READ_EVENTS];

	while (r->open && clock_now_ns() < give_up_ns) {
		int count, i;

		count = epoll_wait(r->epoll_fd, events, TCP_READ_EVENTS,
				   TCP_READ_WAIT_MS);
		for (i = 0; i < count; i++)
			tcp_read_flow(r, (int)(uint32_t)events[i].data.u64,
				      (uint32_t)(events[i].data.u64 >> 32));
	}
}

void tcp_read_run(struct traffic *t, uint32_t index)
{
	struct tcp_reader r = { .t = t };

	(void)index;
	r.buffer = malloc(TCP_READ_BYTES);
	if (!r.buffer)
		process_fail("TCP reader", "");
	tcp_read_listen(&r);
	process_raise_priority();
	r.start_ns = traffic_wait_start(t);
	r.end_ns = traffic_end_ns(t);
	tcp_read_accept_all(&r);
	tcp_read_loop(&r);
}
