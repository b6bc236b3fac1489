// SPDX-License-Identifier: GPL-2.0-only
/* What all kinds of sockets have: verdicts, buffers, what is charged. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <sched.h>
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

/* Sockets that this thread makes from now on are of @netns; returns the way back. */
int netns_enter(const char *netns)
{
	char path[100];
	int home, other;

	if (!netns)
		fail("this case needs the receiver's NETNS");
	home = open("/proc/self/ns/net", O_RDONLY);
	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	other = open(path, O_RDONLY);
	must(home >= 0 && other >= 0 && !setns(other, CLONE_NEWNET), path);
	close(other);
	return home;
}

void netns_return(int home)
{
	must(!setns(home, CLONE_NEWNET), "setns");
	close(home);
}
