// SPDX-License-Identifier: GPL-2.0-only
/* What a throttled socket is charged, whatever its send buffer, and until when. */
#include <errno.h>
#include <limits.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bpsocket.h"

/* A larger send buffer does not set a throttled socket free. */
static void grows(int fd)
{
	int sent;

	fill(fd);
	set_sndbuf(fd, 4 << 20);
	sent = fill(fd);
	if (sent > 1)
		fail("with a larger buffer it took %d more packets", sent);
	wait_until_drained(fd);
}

/* Nor is one lost that becomes smaller than what is charged already. */
static void shrinks(int fd)
{
	set_nonblocking(fd);
	for (int i = 0; i < 3; i++) {
		set_sndbuf(fd, 1 << 20);
		fill(fd);
		set_sndbuf(fd, 0);
		if (put(fd, 0) >= 0 || errno != EAGAIN)
			fail("with a smaller buffer it took another packet");
		if (!is_writable(fd, LONG_MS))
			fail("poll() never woke");
		put_after(fd, "send after poll");
	}
	wait_until_drained(fd);
	if (fill(fd) < 1)
		fail("a drained socket takes no packet");
}

/* The largest send buffer that is throttled, 256 MB. */
static void large(int fd)
{
	set_sndbuf(fd, 1 << 27);
	poll_wakes(fd);
	fill(fd);
	if (charge(fd) < 1 << 28 || charge(fd) >= 1 << 29)
		fail("the socket is charged %d bytes", charge(fd));
	wait_until_drained(fd);
}

/* A larger one is not, and is charged for nothing but its packets. */
static void huge(int fd)
{
	int peak = 0;

	set_sndbuf(fd, 1 << 30);
	for (int i = 0; i < 1000; i++) {
		must(put(fd, MSG_DONTWAIT) == PAYLOAD, "send");
		if (charge(fd) > peak)
			peak = charge(fd);
	}
	if (peak >= 1 << 20)
		fail("the socket was charged %d bytes", peak);
	wait_until_drained(fd);
	set_sndbuf(fd, 1 << 16);
	fill(fd);
	wait_until_drained(fd);
}

/* Throttled with a buffer of the usual size, which then becomes huge, and usual
 * again.
 */
static void huge_later(int fd)
{
	for (int i = 0; i < 3; i++) {
		fill(fd);
		set_sndbuf(fd, 1 << 30);
		for (int n = 0; n < 200; n++)
			must(put(fd, MSG_DONTWAIT) == PAYLOAD, "send");
		set_sndbuf(fd, 1 << 16);
		wait_until_drained(fd);
	}
}

static int tap_sndbuf(int fd)
{
	int bytes;

	must(!ioctl(fd, TUNGETSNDBUF, &bytes), "TUNGETSNDBUF");
	return bytes;
}

static void tap_wait_for_sndbuf(int fd, int bytes)
{
	for (int i = 0; i < LONG_MS / 10; i++) {
		if (tap_sndbuf(fd) == bytes)
			return;
		usleep(10000);
	}
	fail("the tap has a send buffer of %d, not of %d", tap_sndbuf(fd), bytes);
}

/* A tap without a send buffer has one when it is throttled, until it has drained; also if its
 * process takes it away meanwhile. One that the process has asked for stays.
 */
static void bounded(int fd)
{
	int none = INT_MAX, some = 1 << 16, held, sent;

	tap_wait_for_sndbuf(fd, none);
	fill(fd);
	held = tap_sndbuf(fd);
	if (held == none)
		fail("a throttled tap has no send buffer");
	tap_wait_for_sndbuf(fd, none);

	fill(fd);
	must(!ioctl(fd, TUNSETSNDBUF, &none), "TUNSETSNDBUF");
	sent = fill(fd);
	if (sent > 1 || tap_sndbuf(fd) != held)
		fail("without a send buffer it took %d more frames", sent);
	tap_wait_for_sndbuf(fd, none);

	fill(fd);
	must(!ioctl(fd, TUNSETSNDBUF, &some), "TUNSETSNDBUF");
	if (!is_writable(fd, LONG_MS))
		fail("poll() never woke");
	tap_wait_for_sndbuf(fd, some);
}

/* The charge is gone with the backlog. */
static void drains(int fd)
{
	fill(fd);
	if (charge(fd) <= PAYLOAD)
		fail("a throttled socket is charged %d bytes only", charge(fd));
	wait_until_drained(fd);
}

/* A raw socket without IP_HDRINCL does not wait on any kernel: when twice its
 * send buffer is charged, it gets ENOBUFS. While throttled, that is when its own
 * packets fill the buffer once; and poll() tells.
 */
static void enobufs(int fd)
{
	int sent;

	for (sent = 0; sent < MANY; sent++)
		if (put(fd, 0) < 0)
			break;
	if (sent == MANY || errno != ENOBUFS)
		fail("no ENOBUFS after %d packets: %s", sent, strerror(errno));
	if (is_writable(fd, 0))
		fail("poll() says writable, send() said ENOBUFS");
	if (!is_writable(fd, 100 * LONG_MS))
		fail("poll() never woke");
	put_after(fd, "send after poll");
}

static void closes(int fd)
{
	fill(fd);
	close(fd);
}

/* Sleep in send() until somebody ends the backlog some other way than by
 * draining; the caller does that and watches this process end.
 */
static void sleeps(int fd)
{
	fill(fd);
	printf("sleeping\n");
	fflush(stdout);
	if (put(fd, 0) < 0 &&
	    errno != ENETDOWN && errno != ENETUNREACH && errno != ENXIO)
		fail("send: %s", strerror(errno));
}

/* Throttled, for the caller to look at until it kills this process. Prints what
 * the socket says of itself (SIOCOUTQ, charge, send buffer) and the bytes it took.
 */
static void shows(int fd)
{
	int queued, sndbuf, sent = PAYLOAD * fill(fd);
	socklen_t len = sizeof(sndbuf);

	must(!ioctl(fd, SIOCOUTQ, &queued), "SIOCOUTQ");
	must(!getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, &len), "SO_SNDBUF");
	if (self.is_stream)
		sent = self.sent_bytes;
	printf("%d %d %d %d\n", queued, charge(fd), sndbuf, sent);
	fflush(stdout);
	pause();
}

/* One packet at a time, the next as soon as the last has left, for two seconds:
 * the flow is always empty when a packet comes. Prints how many left.
 */
static void alternates(int fd)
{
	struct timespec start, now;
	int sent = 0;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		put_after(fd, "send");
		while (charge(fd))
			usleep(20);
		sent++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec * 1000 + now.tv_nsec / 1000000 <
		 start.tv_sec * 1000 + start.tv_nsec / 1000000 + 2000);
	printf("%d\n", sent);
}

const struct bpsocket_case charge_cases[] = {
	{ "grows", grows },
	{ "shrinks", shrinks },
	{ "large", large },
	{ "huge", huge },
	{ "huge_later", huge_later },
	{ "bounded", bounded },
	{ "drains", drains },
	{ "enobufs", enobufs },
	{ "closes", closes },
	{ "alternates", alternates },
	{ "sleeps", sleeps },
	{ "shows", shows },
	{ }
};
