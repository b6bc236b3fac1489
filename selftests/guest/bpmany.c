// SPDX-License-Identifier: GPL-2.0-only
/* bpmany: many UDP sockets, filled at a word
 *
 * usage: bpmany SOCKETS ADDRESS
 *
 * Opens the sockets, says "open" and reads words from stdin:
 *	fill	send on every socket until it gives EAGAIN; prints how many
 *		packets that were
 *	count	prints how many sockets poll() reports as writable
 * Ends at the end of stdin with status 0, or with a line that says what failed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define PAYLOAD 1200

static struct pollfd *sockets;
static unsigned int len;

static void fail(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static void open_all(const char *address)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct rlimit files = { len + 16, len + 16 };

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

static unsigned int fill(void)
{
	static const char payload[PAYLOAD];
	unsigned int packets = 0;

	for (unsigned int i = 0; i < len; i++) {
		while (send(sockets[i].fd, payload, PAYLOAD, 0) == PAYLOAD)
			packets++;
		if (errno != EAGAIN)
			fail("send");
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
	if (argc != 3 || !(len = strtoul(argv[1], NULL, 10))) {
		puts("usage: bpmany SOCKETS ADDRESS");
		return 2;
	}
	open_all(argv[2]);
	puts("open");
	while (scanf("%15s", word) == 1) {
		if (!strcmp(word, "fill"))
			printf("%u\n", fill());
		else if (!strcmp(word, "count"))
			printf("%u\n", count_writable());
		else
			printf("no word %s\n", word);
	}
	return 0;
}
