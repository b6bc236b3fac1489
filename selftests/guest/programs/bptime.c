// SPDX-License-Identifier: GPL-2.0-only
/* bptime: what does a time service see through a shaper?
 *
 * usage: bptime CLIENT_NETNS SERVER_NETNS ADDRESS COUNT INTERVAL_MS [AHEAD_US]
 *
 * COUNT exchanges as of NTP between two network namespaces of one machine, so of one
 * clock: the true offset is 0. Stamps are those that time services ask the kernel for:
 * when a packet left for the device (SO_TIMESTAMPING, at both ends) and when it was
 * received (SO_TIMESTAMPING at the client, SO_TIMESTAMPNS at the server). With AHEAD_US
 * requests are to leave that much later (SO_TXTIME).
 *
 * Prints one JSON object: exchanges that were answered within 10 s; those whose stamps
 * are missing or out of order, with the clock read before and after them; requests that
 * left before their time; the offset found, either way, by all stamps of the kernel, and
 * by those of receipt and the clock as read before sending; and the delay of the path by
 * all stamps. Of each the median and the largest: who reads the clock may have to wait for
 * the CPU before it sends, so a service trusts no single exchange.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "udp.h"

#define PORT		5800
#define TIMEOUT_MS	10000
#define MESSAGE_BYTES	48		/* of NTP */

struct message {
	uint64_t number;
	char payload[MESSAGE_BYTES - sizeof(uint64_t)];
};

static int64_t ahead_ns;

static void fail(const char *what)
{
	fprintf(stderr, "bptime: %s: %s\n", what, strerror(errno));
	exit(2);
}

static int64_t now_ns(void)
{
	return clock_read(CLOCK_REALTIME);
}

static int server_open(const char *netns)
{
	int stamps = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE |
		     SOF_TIMESTAMPING_OPT_TSONLY;
	int on = 1, fd = udp_receiver(netns, PORT);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) ||
	    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof(stamps)))
		fail("server");
	return fd;
}

static int client_open(const char *netns, const char *address)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int stamps = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE |
		     SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_TSONLY;
	int fd = udp_in(netns);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof(stamps)) ||
	    (ahead_ns && udp_enable_txtime(fd)) ||
	    inet_pton(AF_INET, address, &to.sin_addr) != 1 ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)))
		fail("client");
	return fd;
}

static void message_send(int fd, const struct message *m, const struct sockaddr_in *to)
{
	int64_t at = ahead_ns && !to ? clock_now_ns() + ahead_ns : 0;

	if (udp_send(fd, m, sizeof(*m), to, at) != sizeof(*m))
		fail("sendmsg");
}

/* Wait for a message, or with MSG_ERRQUEUE for the stamp of one sent. Returns its stamp,
 * -1 if none comes.
 */
static int64_t message_receive(int fd, struct message *m, struct sockaddr_in *from, int flags)
{
	struct pollfd pfd = { .fd = fd, .events = flags ? 0 : POLLIN };
	struct iovec iov = { .iov_base = m, .iov_len = sizeof(*m) };
	char control[512];
	struct msghdr msg = {
		.msg_name = from,
		.msg_namelen = from ? sizeof(*from) : 0,
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	int64_t end_ns = clock_now_ns() + TIMEOUT_MS * CLOCK_NS_PER_MS;

	while (recvmsg(fd, &msg, flags | MSG_DONTWAIT) < 0) {
		if (errno != EAGAIN)
			fail("recvmsg");
		if ((int64_t)clock_now_ns() > end_ns)
			return -1;
		poll(&pfd, 1, 10);
		msg.msg_controllen = sizeof(control);
	}
	return udp_stamp(&msg);
}

/* The clock as read and the stamps, in the order in which they must be. */
enum {
	CLIENT_SENDS, CLIENT_SENT, SERVER_RECEIVED, SERVER_READ,
	SERVER_SENDS, SERVER_SENT, CLIENT_RECEIVED, CLIENT_READ,
	TIMES,
};

/* False if an answer does not come. */
static int exchange(int client, int server, uint64_t number, int64_t *t)
{
	struct message m = { .number = number }, answer;
	struct sockaddr_in from;

	t[CLIENT_SENDS] = now_ns();
	message_send(client, &m, NULL);
	do {
		t[SERVER_RECEIVED] = message_receive(server, &answer, &from, 0);
		if (t[SERVER_RECEIVED] < 0)
			return 0;
	} while (answer.number != number);
	t[SERVER_READ] = now_ns();
	t[SERVER_SENDS] = now_ns();
	message_send(server, &answer, &from);
	do {
		t[CLIENT_RECEIVED] = message_receive(client, &answer, NULL, 0);
		if (t[CLIENT_RECEIVED] < 0)
			return 0;
	} while (answer.number != number);
	t[CLIENT_READ] = now_ns();
	t[CLIENT_SENT] = message_receive(client, &answer, NULL, MSG_ERRQUEUE);
	t[SERVER_SENT] = message_receive(server, &answer, NULL, MSG_ERRQUEUE);
	return 1;
}

static int is_in_order(const int64_t *t)
{
	int i;

	for (i = 1; i < TIMES; i++)
		if (t[i] < t[i - 1])
			return 0;
	return t[0] > 0;
}

/* As NTP computes it. */
static int64_t offset_ns(int64_t t1, int64_t t2, int64_t t3, int64_t t4)
{
	return llabs((t2 - t1) + (t3 - t4)) / 2;
}

static void print_spread(const char *name, int64_t *ns, int count)
{
	qsort(ns, count, sizeof(*ns), compare_int64);
	printf(", \"%s_p50_us\": %.3f, \"%s_max_us\": %.3f", name, ns[count / 2] / 1e3,
	       name, count ? ns[count - 1] / 1e3 : 0);
}

int main(int argc, char **argv)
{
	int count, i, client, server, answered = 0, disordered = 0, early = 0;
	int64_t t[TIMES], *delay_ns, *stamped_ns, *read_ns;
	struct timespec interval = { 0 };

	if (argc < 6) {
		fprintf(stderr, "usage: bptime CLIENT_NETNS SERVER_NETNS ADDRESS COUNT INTERVAL_MS [AHEAD_US]\n");
		return 2;
	}
	count = atoi(argv[4]);
	interval.tv_nsec = atoi(argv[5]) * 1000000L;
	ahead_ns = argc > 6 ? atoll(argv[6]) * 1000 : 0;
	delay_ns = calloc(count + 1, sizeof(*delay_ns));
	stamped_ns = calloc(count + 1, sizeof(*stamped_ns));
	read_ns = calloc(count + 1, sizeof(*read_ns));
	server = server_open(argv[2]);
	client = client_open(argv[1], argv[3]);
	for (i = 0; i < count; i++) {
		nanosleep(&interval, NULL);
		if (!exchange(client, server, i, t))
			continue;
		disordered += !is_in_order(t);
		early += t[CLIENT_SENT] < t[CLIENT_SENDS] + ahead_ns;
		stamped_ns[answered] = offset_ns(t[CLIENT_SENT], t[SERVER_RECEIVED],
						 t[SERVER_SENT], t[CLIENT_RECEIVED]);
		read_ns[answered] = offset_ns(t[CLIENT_SENDS], t[SERVER_RECEIVED],
					      t[SERVER_SENDS], t[CLIENT_RECEIVED]);
		delay_ns[answered++] = t[CLIENT_RECEIVED] - t[CLIENT_SENT] -
				       (t[SERVER_SENT] - t[SERVER_RECEIVED]);
	}
	printf("{ \"answered\": %d, \"disordered\": %d, \"early\": %d", answered,
	       disordered, early);
	print_spread("offset", stamped_ns, answered);
	print_spread("read_offset", read_ns, answered);
	print_spread("delay", delay_ns, answered);
	puts(" }");
	return 0;
}
