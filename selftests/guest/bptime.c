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
 * Prints one JSON object: exchanges that were answered within a second; those whose stamps
 * are missing or out of order, with the clock read before and after them; requests that
 * left before their time; the offset found, either way, by all stamps of the kernel, and
 * by those of receipt and the clock as read before sending; and the delay of the path by
 * all stamps. Of each the median and the largest: who reads the clock may have to wait for
 * the CPU before it sends, so a service trusts no single exchange.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT		5800
#define TIMEOUT_MS	1000
#define MESSAGE_BYTES	48		/* of NTP */
#define NS_PER_S	1000000000LL

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

static int64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static int64_t now_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

static int socket_in(const char *netns)
{
	char path[256];
	int ns, fd;

	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || setns(ns, CLONE_NEWNET))
		fail(path);
	close(ns);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0)
		fail("socket");
	return fd;
}

static int server_open(const char *netns)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int stamps = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE |
		     SOF_TIMESTAMPING_OPT_TSONLY;
	int on = 1, fd = socket_in(netns);

	if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) ||
	    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof(stamps)) ||
	    bind(fd, (struct sockaddr *)&any, sizeof(any)))
		fail("server");
	return fd;
}

static int client_open(const char *netns, const char *address)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int stamps = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE |
		     SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_TSONLY;
	struct sock_txtime txtime = { .clockid = CLOCK_MONOTONIC };
	int fd = socket_in(netns);

	if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof(stamps)) ||
	    (ahead_ns && setsockopt(fd, SOL_SOCKET, SO_TXTIME, &txtime, sizeof(txtime))) ||
	    inet_pton(AF_INET, address, &to.sin_addr) != 1 ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)))
		fail("client");
	return fd;
}

/* The stamp of the kernel among @msg's; 0 if there is none. */
static int64_t stamp_of(struct msghdr *msg)
{
	struct cmsghdr *cmsg;
	struct timespec ts;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET ||
		    (cmsg->cmsg_type != SCM_TIMESTAMPING &&
		     cmsg->cmsg_type != SCM_TIMESTAMPNS))
			continue;
		/* The first of three, in struct scm_timestamping. */
		memcpy(&ts, CMSG_DATA(cmsg), sizeof(ts));
		return ts.tv_sec * NS_PER_S + ts.tv_nsec;
	}
	return 0;
}

static void message_send(int fd, struct message *m, struct sockaddr_in *to)
{
	char control[CMSG_SPACE(sizeof(uint64_t))] = { 0 };
	struct iovec iov = { .iov_base = m, .iov_len = sizeof(*m) };
	struct msghdr msg = {
		.msg_name = to,
		.msg_namelen = to ? sizeof(*to) : 0,
		.msg_iov = &iov,
		.msg_iovlen = 1,
	};
	struct cmsghdr *cmsg;
	uint64_t at;

	if (ahead_ns && !to) {
		at = clock_ns(CLOCK_MONOTONIC) + ahead_ns;
		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_TXTIME;
		cmsg->cmsg_len = CMSG_LEN(sizeof(at));
		memcpy(CMSG_DATA(cmsg), &at, sizeof(at));
	}
	if (sendmsg(fd, &msg, 0) != sizeof(*m))
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
	int64_t end_ns = clock_ns(CLOCK_MONOTONIC) + TIMEOUT_MS * 1000000LL;

	while (recvmsg(fd, &msg, flags | MSG_DONTWAIT) < 0) {
		if (errno != EAGAIN)
			fail("recvmsg");
		if (clock_ns(CLOCK_MONOTONIC) > end_ns)
			return -1;
		poll(&pfd, 1, 10);
		msg.msg_controllen = sizeof(control);
	}
	return stamp_of(&msg);
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

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void print_spread(const char *name, int64_t *ns, int count)
{
	qsort(ns, count, sizeof(*ns), compare);
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
