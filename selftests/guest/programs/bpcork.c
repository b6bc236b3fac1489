// SPDX-License-Identifier: GPL-2.0-only
/* bpcork: a datagram in many pieces, by one thread that sends nothing else
 *
 * usage: bpcork TX_NETNS RX_NETNS DST WAY SNDBUF COUNT [BYTES [PIECES [PAUSE_US]]]
 *
 * Sends COUNT datagrams of BYTES (60000) from one network namespace to DST (IPv4) in the
 * other by a blocking socket with a send buffer of SNDBUF bytes, as the kernel counts
 * them. WAY is
 *
 *	whole	with one send() each, so that the kernel makes all fragments
 *	more	in PIECES (40) with MSG_MORE, PAUSE_US (0) between two
 *	cork	in PIECES with UDP_CORK, likewise
 *
 * Whoever gets an error ends the datagram and goes on with the next. Prints one JSON
 * object: calls that failed, by errno: ENOBUFS, EAGAIN, EMSGSIZE, others; datagrams that
 * the socket took, and how many of COUNT arrived whole. 0 if it could say so.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "udp.h"

#define PORT		5700
#define SILENCE_MS	2000	/* after which nothing comes any more */
#define BYTES_MAX	65000

static struct {
	int	enobufs;
	int	eagain;
	int	emsgsize;
	int	others;
	int	last;
	int	taken;
	int	arrived;
} result;

static char data[BYTES_MAX];

static void fail(const char *what)
{
	fprintf(stderr, "bpcork: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int sender_open(const char *netns, const char *dst, int sndbuf)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int fd = udp_in(netns);

	sndbuf /= 2;	/* doubled */
	if (fd < 0 || inet_pton(AF_INET, dst, &to.sin_addr) != 1 ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &sndbuf, sizeof(sndbuf)))
		fail("sender");
	return fd;
}

static bool put(int fd, const char *from, int bytes, int flags)
{
	if (send(fd, from, bytes, flags) >= 0)
		return true;
	result.enobufs += errno == ENOBUFS;
	result.eagain += errno == EAGAIN;
	result.emsgsize += errno == EMSGSIZE;
	result.others += errno != ENOBUFS && errno != EAGAIN && errno != EMSGSIZE;
	result.last = errno;
	return false;
}

static void cork(int fd, int on)
{
	if (setsockopt(fd, IPPROTO_UDP, UDP_CORK, &on, sizeof(on))) {
		result.others++;
		result.last = errno;
	}
}

static bool send_pieces(int fd, const char *way, int bytes, int pieces, int pause_us)
{
	bool corks = !strcmp(way, "cork"), good = true;
	int piece = bytes / pieces;

	if (!strcmp(way, "whole"))
		return put(fd, data, bytes, 0);
	if (corks)
		cork(fd, 1);
	for (int i = 0; i < pieces && good; i++) {
		if (i && pause_us)
			usleep(pause_us);
		good = put(fd, data + i * piece, piece,
			   !corks && i < pieces - 1 ? MSG_MORE : 0);
	}
	if (corks)
		cork(fd, 0);
	return good;
}

/* All that arrived so far, or that arrives until there is silence. */
static void receive(int fd, int bytes, int silence_ms)
{
	static char buffer[65536];
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	while (poll(&pfd, 1, silence_ms) > 0)
		result.arrived += recv(fd, buffer, sizeof(buffer), 0) == bytes;
}

int main(int argc, char **argv)
{
	int rx, tx, count, bytes = 60000, pieces = 40, pause_us = 0;

	errno = EINVAL;
	if (argc < 7)
		fail("usage: bpcork TX_NETNS RX_NETNS DST WAY SNDBUF COUNT [BYTES [PIECES [PAUSE_US]]]");
	count = atoi(argv[6]);
	if (argc > 7)
		bytes = atoi(argv[7]);
	if (argc > 8)
		pieces = atoi(argv[8]);
	if (argc > 9)
		pause_us = atoi(argv[9]);
	if (bytes < 1 || bytes > BYTES_MAX || pieces < 1)
		fail("BYTES or PIECES");
	bytes -= bytes % pieces;
	rx = udp_receiver(argv[2], PORT);
	if (rx < 0)
		fail("receiver");
	tx = sender_open(argv[1], argv[3], atoi(argv[5]));
	for (int i = 0; i < count; i++) {
		result.taken += send_pieces(tx, argv[4], bytes, pieces, pause_us);
		receive(rx, bytes, 0);
	}
	receive(rx, bytes, SILENCE_MS);
	printf("{ \"enobufs\": %d, \"eagain\": %d, \"emsgsize\": %d, \"others\": %d, \"last\": \"%s\", \"taken\": %d, \"arrived\": %d }\n",
	       result.enobufs, result.eagain, result.emsgsize, result.others,
	       result.last ? strerror(result.last) : "", result.taken, result.arrived);
	return 0;
}
