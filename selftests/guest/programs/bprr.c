// SPDX-License-Identifier: GPL-2.0-only
/* bprr: requests and their answers, one after the other
 *
 * usage: bprr TX_NETNS RX_NETNS DST CONNECTIONS SECONDS
 *
 * Each of CONNECTIONS sends one byte by TCP from one network namespace to DST (IPv4) in
 * the other, and the next one as soon as it has the byte that comes back, as netperf's
 * TCP_RR does. One process has the connections, one more answers. Prints one JSON
 * object: how many requests were answered, how long that took (p50, p99, max), and what
 * the machine did meanwhile, as bptraffic says it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "histogram.h"
#include "netns.h"
#include "system.h"

#define PORT		5800
#define EVENTS		64
#define CONNECTIONS_MAX	1000
#define WARM_NS		(100 * CLOCK_NS_PER_MS)

static struct histogram latency_ns;

static void fail(const char *what)
{
	fprintf(stderr, "bprr: %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct sockaddr_in address(const char *dst)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(PORT),
		.sin_addr.s_addr = htonl(INADDR_ANY),
	};

	if (dst && inet_pton(AF_INET, dst, &to.sin_addr) != 1)
		fail(dst);
	return to;
}

static int stream(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		fail("socket");
	return fd;
}

static void watch(int epoll_fd, int fd, uint32_t index)
{
	struct epoll_event event = {
		.events = EPOLLIN,
		.data.u64 = (uint64_t)index << 32 | (uint32_t)fd,
	};

	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event))
		fail("epoll");
}

/* Until it is killed. */
static void answer(int listener, int connections)
{
	struct epoll_event events[EVENTS];
	int epoll_fd = epoll_create1(0), i, count;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (i = 0; i < connections; i++) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			fail("accept");
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
		watch(epoll_fd, fd, i);
	}
	for (;;) {
		count = epoll_wait(epoll_fd, events, EVENTS, -1);
		for (i = 0; i < count; i++) {
			int fd = (int)(uint32_t)events[i].data.u64;

			if (read(fd, &byte, 1) != 1 || write(fd, &byte, 1) != 1)
				exit(1);
		}
	}
}

static void ask(int fd, uint64_t *asked_ns)
{
	*asked_ns = clock_now_ns();
	if (write(fd, "", 1) != 1)
		fail("request");
}

/* Returns how many requests were answered in the time that counts. */
static uint64_t ask_until(int epoll_fd, uint64_t *asked_ns, uint64_t warm_ns,
			  uint64_t end_ns)
{
	struct epoll_event events[EVENTS];
	uint64_t answers = 0, now_ns;
	int i, count;
	char byte;

	while ((now_ns = clock_now_ns()) < end_ns) {
		count = epoll_wait(epoll_fd, events, EVENTS, 100);
		for (i = 0; i < count; i++) {
			int fd = (int)(uint32_t)events[i].data.u64;
			uint64_t *asked = &asked_ns[events[i].data.u64 >> 32];

			if (read(fd, &byte, 1) != 1)
				fail("answer");
			now_ns = clock_now_ns();
			if (*asked >= warm_ns) {
				histogram_add(&latency_ns, now_ns - *asked);
				answers++;
			}
			ask(fd, asked);
		}
	}
	return answers;
}

static void print(uint64_t answers, double seconds,
		  const struct system_counters *s)
{
	printf("{\n  \"rr_answers\": %" PRIu64 ",\n  \"sending_seconds\": %.3f",
	       answers, seconds);
	printf(",\n  \"rr_p50_us\": %.3f,\n  \"rr_p99_us\": %.3f,\n  \"rr_max_us\": %.3f",
	       histogram_percentile(&latency_ns, 50) / 1e3,
	       histogram_percentile(&latency_ns, 99) / 1e3, latency_ns.max / 1e3);
	printf(",\n  \"system_timer_interrupts\": %" PRId64
	       ",\n  \"system_context_switches\": %" PRId64
	       ",\n  \"system_busy_ms\": %.3f\n}\n", s->timer_interrupts,
	       s->context_switches, s->busy_ns / 1e6);
}

/* In @netns; returns the process that answers. */
static pid_t answer_start(const char *netns, int connections)
{
	struct sockaddr_in any = address(NULL);
	int listener;
	pid_t peer;

	if (netns_enter(netns))
		fail(netns);
	listener = stream();
	if (bind(listener, (struct sockaddr *)&any, sizeof(any)) ||
	    listen(listener, connections))
		fail("listen");
	peer = fork();
	if (!peer)
		answer(listener, connections);
	if (peer < 0)
		fail("fork");
	close(listener);
	return peer;
}

/* Connect from @netns, and ask on each connection; returns where answers come. */
static int ask_start(const char *netns, const char *dst, int connections,
		     uint64_t *asked_ns)
{
	struct sockaddr_in to = address(dst);
	int fds[CONNECTIONS_MAX], epoll_fd = epoll_create1(0), i;

	if (netns_enter(netns))
		fail(netns);
	for (i = 0; i < connections; i++) {
		fds[i] = stream();
		if (connect(fds[i], (struct sockaddr *)&to, sizeof(to)))
			fail(dst);
		watch(epoll_fd, fds[i], i);
	}
	for (i = 0; i < connections; i++)
		ask(fds[i], &asked_ns[i]);
	return epoll_fd;
}

int main(int argc, char **argv)
{
	uint64_t asked_ns[CONNECTIONS_MAX], start_ns, answers;
	struct system_counters before, after;
	int connections, epoll_fd;
	double seconds;
	pid_t peer;

	if (argc != 6 || (connections = atoi(argv[4])) < 1 ||
	    connections > CONNECTIONS_MAX || (seconds = atof(argv[5])) < 0.2) {
		fprintf(stderr, "usage: bprr TX_NETNS RX_NETNS DST CONNECTIONS SECONDS\n");
		return 2;
	}
	peer = answer_start(argv[2], connections);
	epoll_fd = ask_start(argv[1], argv[3], connections, asked_ns);
	ask_until(epoll_fd, asked_ns, UINT64_MAX, clock_now_ns() + WARM_NS);

	start_ns = clock_now_ns();
	system_read(&before);
	answers = ask_until(epoll_fd, asked_ns, start_ns,
			    start_ns + (uint64_t)(seconds * 1e9));
	system_read(&after);
	after = system_since(&before, &after);
	kill(peer, SIGKILL);
	waitpid(peer, NULL, 0);
	print(answers, seconds, &after);
	return answers ? 0 : 1;
}
