// SPDX-License-Identifier: GPL-2.0-only
/* bppace: do packets leave when they say?
 *
 * usage: bppace TX_NETNS RX_NETNS DST OFFSET_US GAP_US COUNT [monotonic|realtime|tai|received]
 *	  [AT_ONCE PORT PRIORITY]
 *
 * Sends COUNT datagrams of one socket from one network namespace to DST (IPv4) in the other,
 * at once, to leave at OFFSET_US + i * GAP_US from now (SO_TXTIME). With `realtime` that
 * is said in CLOCK_REALTIME, with `tai` in CLOCK_TAI, which this sets 37 s ahead of it; with
 * `received` as if it were a time of receipt, OFFSET_US ago in CLOCK_REALTIME. With
 * AT_ONCE that many are sent at once, and the next when these should have left, of
 * SO_PRIORITY to PORT; the times are multiples of GAP_US after OFFSET_US, so that
 * several programs have the same.
 *
 * Prints one JSON object: how many arrived within 15 s, how many of them before their time, by
 * how much the others came late (in us: p50, p99, max), how many overtook, and when the
 * last one came. Times of arrival are those of the kernel (SO_TIMESTAMPNS).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "udp.h"

#define TIMEOUT_MS	15000
#define NS_PER_S	1000000000LL

struct datagram {
	int64_t departs_ns;		/* CLOCK_MONOTONIC */
	int64_t index;
	char payload[200];
};

static void fail(const char *what)
{
	fprintf(stderr, "bppace: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int receiver_open(const char *netns, int port)
{
	int on = 1, fd = udp_receiver(netns, port);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)))
		fail("receiver");
	return fd;
}

static clockid_t clock_of(const char *name)
{
	struct timex tai = { .modes = ADJ_TAI, .constant = 37 };

	if (!strcmp(name, "realtime"))
		return CLOCK_REALTIME;
	if (strcmp(name, "tai"))
		return CLOCK_MONOTONIC;
	if (adjtimex(&tai) < 0)
		fail("adjtimex");
	return CLOCK_TAI;
}

static int sender_open(const char *netns, const char *dst, int port, int priority,
		       clockid_t clock)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	int sndbuf = 4 << 20, fd = udp_in(netns);

	/* The shaper, not the socket, is to say how much may wait. */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &sndbuf, sizeof(sndbuf));
	if (inet_pton(AF_INET, dst, &to.sin_addr) != 1 ||
	    setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)) ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)) || udp_enable_txtime_of(fd, clock))
		fail("sender");
	return fd;
}

/* Returns when it came, CLOCK_MONOTONIC, or -1 after TIMEOUT_MS. */
static int64_t receive(int fd, struct datagram *d, int64_t mono_to_real_ns)
{
	char control[256];
	struct iovec iov = { .iov_base = d, .iov_len = sizeof(*d) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	int64_t stamp_ns;

	if (poll(&pfd, 1, TIMEOUT_MS) <= 0)
		return -1;
	if (recvmsg(fd, &msg, 0) < 0)
		fail("recvmsg");
	stamp_ns = udp_stamp(&msg);
	if (!stamp_ns)
		fail("no time stamp");
	return stamp_ns - mono_to_real_ns;
}

static double percentile_us(const int64_t *late_ns, int count, double p)
{
	return count ? late_ns[(int)((count - 1) * p)] / 1e3 : 0;
}

static void sleep_until(int64_t at_ns)
{
	struct timespec at = { .tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

int main(int argc, char **argv)
{
	int64_t start_ns, real_ns, said_ns, offset_ns, gap_ns, at, last_ns = 0, index = -1;
	int count, at_once, port, i, rx, tx, arrived = 0, early = 0, overtook = 0, late = 0;
	const char *clock = argc > 7 ? argv[7] : "monotonic";
	struct datagram d = { 0 };
	int64_t *late_ns;
	clockid_t id;

	if (argc < 7) {
		fprintf(stderr, "usage: bppace TX_NETNS RX_NETNS DST OFFSET_US GAP_US COUNT [CLOCK [AT_ONCE PORT PRIORITY]]\n");
		return 2;
	}
	offset_ns = atoll(argv[4]) * 1000;
	gap_ns = atoll(argv[5]) * 1000;
	count = atoi(argv[6]);
	at_once = argc > 8 ? atoi(argv[8]) : count;
	port = argc > 9 ? atoi(argv[9]) : 5700;
	id = clock_of(clock);
	late_ns = calloc(count, sizeof(*late_ns));
	rx = receiver_open(argv[2], port);
	tx = sender_open(argv[1], argv[3], port, argc > 10 ? atoi(argv[10]) : 0, id);

	start_ns = clock_now_ns();
	real_ns = clock_read(CLOCK_REALTIME) - start_ns;
	said_ns = id == CLOCK_MONOTONIC ? 0 : clock_read(id) - start_ns;
	if (argc > 8)
		start_ns += gap_ns - start_ns % gap_ns;
	for (i = 0; i < count; i++) {
		if (i && i % at_once == 0)
			sleep_until(d.departs_ns + gap_ns / 2);
		d.index = i;
		d.departs_ns = start_ns + offset_ns + i * gap_ns;
		at = d.departs_ns + said_ns;
		if (!strcmp(clock, "received"))
			at = start_ns + real_ns - offset_ns;
		if (udp_send(tx, &d, sizeof(d), NULL, at) < 0)
			fail("sendmsg");
	}
	while (arrived < count && (at = receive(rx, &d, real_ns)) >= 0) {
		arrived++;
		overtook += d.index < index;
		index = d.index;
		last_ns = at - start_ns;
		if (at < d.departs_ns)
			early++;
		else
			late_ns[late++] = at - d.departs_ns;
	}
	qsort(late_ns, late, sizeof(*late_ns), compare_int64);
	printf("{ \"arrived\": %d, \"early\": %d, \"overtook\": %d, \"late_p50_us\": %.3f, \"late_p99_us\": %.3f, \"late_max_us\": %.3f, \"last_ms\": %.3f }\n",
	       arrived, early, overtook, percentile_us(late_ns, late, 0.5),
	       percentile_us(late_ns, late, 0.99), percentile_us(late_ns, late, 1),
	       last_ns / 1e6);
	return 0;
}
