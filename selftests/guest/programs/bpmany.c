// SPDX-License-Identifier: GPL-2.0-only
/* bpmany: many UDP sockets, filled at a word
 *
 * usage: bpmany SOCKETS ADDRESS [BYTES [UID]]
 *
 * Opens the sockets, says "open" and reads words from stdin:
 *	fill	send on every socket until it gives EAGAIN; prints how many
 *		packets that were
 *	few	the same, or PER_SOCKET packets
 *	spread	send PER_SOCKET packets on every socket, or less if it gives EAGAIN,
 *		to leave at times that are spread evenly over the next second
 *		(SO_TXTIME); prints how many
 *	together	the same, all to leave at the same time in half a second
 *	far	the same, in nine seconds
 *	fresh	send FRESH_PER_SOCKET times as many datagrams as there are sockets, each
 *		from a socket of its own that is closed at once, one every FRESH_US; prints
 *		how many
 *	count	prints how many sockets poll() reports as writable
 * BYTES is the payload of a datagram, 1200 if not given. UID is whose sockets they are.
 * Ends at the end of stdin with status 0, or with a line that says what failed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "udp.h"

#define PAYLOAD		1200
#define PAYLOAD_MAX	65507
#define PER_SOCKET	4
#define FRESH_PER_SOCKET 10
#define FRESH_US	60

static const char payload[PAYLOAD_MAX];
static unsigned int payload_bytes = PAYLOAD;
static struct pollfd *sockets;
static unsigned int len;

static void fail(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static struct sockaddr_in to = { .sin_family = AF_INET };

static void open_all(const char *address)
{
	struct rlimit files = { len + 16, len + 16 };

	to.sin_port = htons(9);
	if (setrlimit(RLIMIT_NOFILE, &files))
		fail("RLIMIT_NOFILE");
	if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
		fail(address);
	sockets = calloc(len, sizeof(*sockets));
	if (!sockets)
		fail("calloc");
	for (unsigned int i = 0; i < len; i++) {
		sockets[i].fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
		sockets[i].events = POLLOUT;
		if (sockets[i].fd < 0)
			fail("socket");
		if (connect(sockets[i].fd, (struct sockaddr *)&to, sizeof(to)))
			fail("connect");
	}
}

/* @most of each socket */
static unsigned int fill(unsigned int most)
{
	unsigned int packets = 0;

	for (unsigned int i = 0; i < len; i++) {
		for (unsigned int j = 0; j < most; j++) {
			if (send(sockets[i].fd, payload, payload_bytes, 0) < 0) {
				if (errno != EAGAIN)
					fail("send");
				break;
			}
			packets++;
		}
	}
	return packets;
}

/* They leave after @after_ns, spread over @over_ns. */
static unsigned int fill_far(uint64_t after_ns, uint64_t over_ns)
{
	unsigned int packets = 0, all = PER_SOCKET * len;
	uint64_t at_ns = clock_now_ns() + after_ns;

	for (unsigned int i = 0; i < len; i++)
		if (udp_enable_txtime(sockets[i].fd))
			fail("SO_TXTIME");
	for (unsigned int i = 0; i < all; i++) {
		if (udp_send(sockets[i % len].fd, payload, payload_bytes, NULL,
			     at_ns + over_ns * i / all) >= 0)
			packets++;
		else if (errno != EAGAIN)
			fail("sendmsg");
	}
	return packets;
}

static unsigned int fill_fresh(void)
{
	uint64_t next_ns = clock_now_ns();
	unsigned int packets = 0;
	int fd;

	for (unsigned int i = 0; i < FRESH_PER_SOCKET * len; i++) {
		fd = socket(AF_INET, SOCK_DGRAM, 0);
		if (fd < 0)
			fail("socket");
		packets += udp_send(fd, payload, payload_bytes, &to, 0) >= 0;
		close(fd);
		next_ns += FRESH_US * CLOCK_NS_PER_US;
		clock_sleep_until(next_ns);
	}
	return packets;
}

static unsigned int count_writable(void)
{
	unsigned int writable = 0;

	if (poll(sockets, len, 0) < 0)
		fail("poll");
	for (unsigned int i = 0; i < len; i++)
		writable += !!(sockets[i].revents & POLLOUT);
	return writable;
}

int main(int argc, char **argv)
{
	char word[16];

	setlinebuf(stdout);
	if (argc > 3)
		payload_bytes = strtoul(argv[3], NULL, 10);
	if (argc < 3 || !(len = strtoul(argv[1], NULL, 10)) || payload_bytes > PAYLOAD_MAX) {
		puts("usage: bpmany SOCKETS ADDRESS [BYTES [UID]]");
		return 2;
	}
	if (argc > 4)
		setfsuid(strtoul(argv[4], NULL, 10));
	open_all(argv[2]);
	puts("open");
	while (scanf("%15s", word) == 1) {
		if (!strcmp(word, "fill"))
			printf("%u\n", fill(UINT_MAX));
		else if (!strcmp(word, "few"))
			printf("%u\n", fill(PER_SOCKET));
		else if (!strcmp(word, "spread"))
			printf("%u\n", fill_far(0, CLOCK_NS_PER_S));
		else if (!strcmp(word, "together"))
			printf("%u\n", fill_far(CLOCK_NS_PER_S / 2, 0));
		else if (!strcmp(word, "far"))
			printf("%u\n", fill_far(9 * CLOCK_NS_PER_S, 0));
		else if (!strcmp(word, "fresh"))
			printf("%u\n", fill_fresh());
		else if (!strcmp(word, "count"))
			printf("%u\n", count_writable());
		else
			printf("no word %s\n", word);
	}
	return 0;
}
