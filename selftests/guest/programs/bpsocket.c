// SPDX-License-Identifier: GPL-2.0-only
/* bpsocket: what a throttled socket's owner sees
 *
 * usage: bpsocket TYPE DST CASE [DEVICE [NETNS]]
 *
 * TYPE is udp, udplite, ping, raw, hdrincl (raw with its own IP header), packet, tap,
 * tap-gso (all three need DEVICE), tcp, tls or mptcp; DST an IPv4 or IPv6 address;
 * CASE one of the tables in bpsocket_*.c; NETNS where what is sent arrives, for
 * streams and for the cases that look at it. The caller has put a slow shaper in
 * front of DST. Exits 0 and prints nothing if the case went as it must, 4 and
 * prints what the kernel lacks, or 1 and prints why not.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bpsocket.h"

#define EXIT_SKIP 4

struct bpsocket self;
char packet[PAYLOAD];
int completions;

void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	exit(1);
}

void lacks(const char *what)
{
	printf("this kernel has no %s: %s\n", what, strerror(errno));
	exit(EXIT_SKIP);
}

void must(bool good, const char *what)
{
	if (!good)
		fail("%s: %s", what, strerror(errno));
}

void set_nonblocking(int fd)
{
	must(!fcntl(fd, F_SETFL, O_NONBLOCK), "O_NONBLOCK");
}

void set_sndbuf(int fd, int bytes)
{
	must(!setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)),
	     "SO_SNDBUFFORCE");
}

void mark(char *data, int number)
{
	__u32 be = htonl(number);

	memcpy(data + MARK_AT, &be, sizeof(be));
}

/* A tap is no socket to its owner, but takes frames as one. */
static ssize_t put_tap(int fd, int flags)
{
	int status = fcntl(fd, F_GETFL);
	ssize_t sent;

	if (flags & MSG_DONTWAIT)
		fcntl(fd, F_SETFL, status | O_NONBLOCK);
	sent = write(fd, packet, PAYLOAD);
	fcntl(fd, F_SETFL, status);
	return sent;
}

ssize_t put_packet(int fd, int flags)
{
	mark(packet, self.sent);
	if (!strcmp(self.type, "tap"))
		return put_tap(fd, flags);
	return send(fd, packet, PAYLOAD, flags);
}

/* send() of the next packet, or piece of the stream, which is counted. */
ssize_t put(int fd, int flags)
{
	ssize_t sent;

	if (self.is_stream)
		return stream_put(fd, flags);
	sent = put_packet(fd, flags);
	if (sent >= 0)
		self.sent++;
	return sent;
}

/* Send until the socket would block; the number of packets that it took. It would
 * block some day without a shaper, too, when its send buffer is full.
 */
int fill(int fd)
{
	int sent, most = self.is_stream ? STREAM_ROOM : SHARE;

	if (self.is_stream)
		stream_burst(fd);
	for (sent = 0; sent < most; sent++) {
		if (put(fd, MSG_DONTWAIT) < 0) {
			if (errno == EAGAIN)
				return sent;
			must(false, "send");
		}
	}
	fail("%d packets were sent and the socket was not throttled", sent);
}

/* What the socket is charged for sending: every kind of socket can tell. */
int charge(int fd)
{
	__u32 mem[SK_MEMINFO_VARS];
	socklen_t len = sizeof(mem);

	must(!getsockopt(fd, SOL_SOCKET, SO_MEMINFO, mem, &len), "SO_MEMINFO");
	return mem[SK_MEMINFO_WMEM_ALLOC];
}

bool is_writable(int fd, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };

	must(poll(&pfd, 1, timeout_ms) >= 0, "poll");
	return pfd.revents & POLLOUT;
}

/* A tap cannot tell; its caller asks the qdisc. */
void wait_until_drained(int fd)
{
	if (!strncmp(self.type, "tap", 3))
		return;
	for (int i = 0; i < LONG_MS / 10; i++) {
		if (!charge(fd))
			return;
		usleep(10000);
	}
	fail("the socket still holds %d bytes", charge(fd));
}

/* Of this thread: only who waits gives up the CPU. */
long sleeps_so_far(void)
{
	struct rusage usage;

	must(!getrusage(RUSAGE_THREAD, &usage), "getrusage");
	return usage.ru_nvcsw;
}

/* One message covers a range of sends; the ranges are in order. */
bool reap_completions(int fd)
{
	char control[CMSG_SPACE(sizeof(struct sock_extended_err) + 64)];
	struct msghdr msg = {
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct sock_extended_err *err;

	if (recvmsg(fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
		return false;
	err = (struct sock_extended_err *)CMSG_DATA(CMSG_FIRSTHDR(&msg));
	if (err->ee_origin != SO_EE_ORIGIN_ZEROCOPY || err->ee_errno)
		fail("error %u in the queue", err->ee_errno);
	if ((int)err->ee_info != completions)
		fail("completion of %u, %d is next", err->ee_info, completions);
	completions = err->ee_data + 1;
	return true;
}

static const struct bpsocket_case *find_case(const char *name)
{
	static const struct bpsocket_case * const tables[] = {
		wait_cases, send_cases, stream_cases, link_cases,
	};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct bpsocket_case *c = tables[i]; c->name; c++)
			if (!strcmp(c->name, name))
				return c;
	fail("unknown case %s", name);
}

int main(int argc, char **argv)
{
	const struct bpsocket_case *c;
	int fd;

	if (argc < 4)
		fail("usage: bpsocket TYPE DST CASE [DEVICE [NETNS]]");
	self.type = argv[1];
	self.dst = argv[2];
	self.device = argc > 4 ? argv[4] : "lo";
	self.netns = argc > 5 ? argv[5] : NULL;
	c = find_case(argv[3]);
	fd = open_socket();
	c->run(fd);
	if (self.is_stream)
		stream_finish(fd);
	return 0;
}
