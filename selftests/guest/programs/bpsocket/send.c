// SPDX-License-Identifier: GPL-2.0-only
/* Ways to send datagrams, all of which arrive: first without waiting in the call,
 * until it says EAGAIN and poll() that there is room, then asleep in the call.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bpsocket.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define BATCH		16	/* datagrams in a call, or pieces of one */
#define LARGE		8000	/* bytes; six fragments */

static int put_one(int fd, int flags)
{
	return put_packet(fd, flags) < 0 ? -1 : 1;
}

static void wait_for_room(int fd, const struct way *way)
{
	while (!is_writable(fd, LONG_MS))
		if (!way->reap || !way->reap(fd))
			fail("poll() never woke");
}

static void try_all(int fd, const struct way *way)
{
	int sent, waits = 0;

	while (self.sent < way->count / 2) {
		sent = way->send(fd, MSG_DONTWAIT);
		if (sent < 0) {
			must(errno == EAGAIN, "send");
			wait_for_room(fd, way);
			waits++;
			continue;
		}
		self.sent += sent;
	}
	if (!waits)
		fail("the socket was not throttled");
}

static void sleep_through_all(int fd, const struct way *way)
{
	long before = sleeps_so_far();
	int sent;

	while (self.sent < way->count) {
		sent = way->send(fd, 0);
		must(sent > 0, "blocking send");
		self.sent += sent;
	}
	if (sleeps_so_far() == before)
		fail("no send had to wait");
}

static const struct way by_packets = { put_one, NULL, 96, PAYLOAD };

void send_by(int fd, const struct way *way)
{
	int peer = open_receiver();

	try_all(fd, way);
	sleep_through_all(fd, way);
	receive_all(peer, self.sent, way->bytes);
	wait_until_drained(fd);
}

static void plain(int fd)
{
	send_by(fd, &by_packets);
}

/* Without a sleep in the call, for who must not or cannot. */
static void tries(int fd)
{
	int peer = open_receiver();

	try_all(fd, &by_packets);
	receive_all(peer, self.sent, PAYLOAD);
	wait_until_drained(fd);
}

/* Errors that others would not hear of are reported; there are none. */
static void recverr(int fd)
{
	bool is_v4 = self.addr.ss_family == AF_INET;
	int one = 1;

	must(!setsockopt(fd, is_v4 ? IPPROTO_IP : IPPROTO_IPV6,
			 is_v4 ? IP_RECVERR : IPV6_RECVERR, &one, sizeof(one)),
	     "RECVERR");
	plain(fd);
}

static int send_batch(int fd, int flags)
{
	static struct mmsghdr messages[BATCH];
	static char batch[BATCH][PAYLOAD];
	static struct iovec iov[BATCH];

	for (int i = 0; i < BATCH; i++) {
		mark(batch[i], self.sent + i);
		iov[i] = (struct iovec){ batch[i], PAYLOAD };
		messages[i].msg_hdr.msg_iov = &iov[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	return sendmmsg(fd, messages, BATCH, flags);
}

static void batches(int fd)
{
	static const struct way way = { send_batch, NULL, 96, PAYLOAD };

	send_by(fd, &way);
}

static int send_segments(int fd, int flags)
{
	static char segments[BATCH][PAYLOAD];

	for (int i = 0; i < BATCH; i++)
		mark(segments[i], self.sent + i);
	return send(fd, segments, sizeof(segments), flags) < 0 ? -1 : BATCH;
}

static void segments(int fd)
{
	static const struct way way = { send_segments, NULL, 256, PAYLOAD };
	int bytes = PAYLOAD;

	must(!setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &bytes, sizeof(bytes)),
	     "UDP_SEGMENT");
	send_by(fd, &way);
}

/* Each from memory of its own, which is the kernel's until it is completed. */
static int send_zerocopy(int fd, int flags)
{
	static char *memory;

	if (!memory) {
		memory = mmap(NULL, 4096 * 1024, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		must(memory != MAP_FAILED, "mmap");
	}
	mark(memory + 4096 * self.sent, self.sent);
	return send(fd, memory + 4096 * self.sent, PAYLOAD,
		    flags | MSG_ZEROCOPY) < 0 ? -1 : 1;
}

static void zerocopy(int fd)
{
	static const struct way way = {
		send_zerocopy, reap_completions, 96, PAYLOAD
	};
	int one = 1;

	must(!setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)),
	     "SO_ZEROCOPY");
	send_by(fd, &way);
	while (reap_completions(fd))
		;
	if (completions != self.sent)
		fail("%d of %d sends were completed", completions, self.sent);
}

/* A datagram in @pieces. Once begun, nothing may come between. */
static int send_pieces(int fd, int flags, int pieces, size_t bytes)
{
	static char piece[PAYLOAD];

	mark(piece, self.sent);
	for (int i = 0; i < pieces; i++) {
		if (send(fd, piece, bytes,
			 flags | (i < pieces - 1 ? MSG_MORE : 0)) >= 0)
			continue;
		if (i)
			fail("piece %d: %s", i, strerror(errno));
		return -1;
	}
	return 1;
}

static int send_more(int fd, int flags)
{
	return send_pieces(fd, flags, 4, 300);
}

/* Larger than the MTU, so the pieces are fragments' and allocated one by one. */
static int send_more_fragments(int fd, int flags)
{
	return send_pieces(fd, flags, BATCH, LARGE / BATCH);
}

static void more(int fd)
{
	static const struct way way = { send_more, NULL, 96, 1200 };

	send_by(fd, &way);
}

static void more_fragments(int fd)
{
	static const struct way way = { send_more_fragments, NULL, 24, LARGE };

	send_by(fd, &way);
}

static int send_corked(int fd, int flags)
{
	int on = 1, off = 0, sent;

	must(!setsockopt(fd, IPPROTO_UDP, UDP_CORK, &on, sizeof(on)), "UDP_CORK");
	sent = send_pieces(fd, flags, 4, 300);
	must(!setsockopt(fd, IPPROTO_UDP, UDP_CORK, &off, sizeof(off)), "uncork");
	return sent;
}

static void cork(int fd)
{
	static const struct way way = { send_corked, NULL, 96, 1200 };

	send_by(fd, &way);
}

static int send_fragments(int fd, int flags)
{
	static char datagram[LARGE];

	mark(datagram, self.sent);
	return send(fd, datagram, sizeof(datagram), flags) < 0 ? -1 : 1;
}

static void fragments(int fd)
{
	static const struct way way = { send_fragments, NULL, 24, LARGE };

	send_by(fd, &way);
}

const struct bpsocket_case send_cases[] = {
	{ "plain", plain },
	{ "tries", tries },
	{ "recverr", recverr },
	{ "batches", batches },
	{ "segments", segments },
	{ "zerocopy", zerocopy },
	{ "more", more },
	{ "more_fragments", more_fragments },
	{ "cork", cork },
	{ "fragments", fragments },
	{ }
};
