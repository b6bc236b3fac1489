// SPDX-License-Identifier: GPL-2.0-only
/* Sockets, and what they send when. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include "bppeers.h"
#include "guest.h"
#include "udp.h"

static void peer_connect(struct sender *s, int fd, int peer)
{
	struct sockaddr_storage to = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(to);

	if (peer >= 0)
		len = peer_address(s, peer, &to);
	if (connect(fd, (struct sockaddr *)&to, len))
		fail("connect");
}

static void class_set(int fd, uint32_t priority)
{
	if (setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)))
		fail("SO_PRIORITY");
}

static unsigned int sockets_before(const struct sender *s)
{
	unsigned int count = 0;

	while (s-- != senders)
		count += s->sockets;
	return count;
}

/* The source port is fixed, or connect() would change the flow on the wire. */
static int socket_open_any(struct sender *s, unsigned int number)
{
	struct sockaddr_storage from = { .ss_family = s->kind->family };
	const struct kind *k = s->kind;
	int fd = socket(k->family, k->type, k->protocol);
	bool is_txtime = s->due_ns || s->is_timed;

	for (unsigned int i = 0; i < s->list_len; i++)
		is_txtime |= !!s->list[i].after_ns;
	if (fd < 0)
		fail(k->name);
	if (s->sndbuf &&
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &s->sndbuf, sizeof(s->sndbuf)))
		fail("SO_SNDBUFFORCE");
	if (s->max_rate_Bps &&
	    setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &s->max_rate_Bps,
		       sizeof(s->max_rate_Bps)))
		fail("SO_MAX_PACING_RATE");
	if (s->tos && k->family == AF_INET &&
	    setsockopt(fd, IPPROTO_IP, IP_TOS, &s->tos, sizeof(s->tos)))
		fail("IP_TOS");
	if (s->is_bypass &&
	    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &(int){ 1 }, sizeof(int)))
		fail("PACKET_QDISC_BYPASS");
	if (s->priority)
		class_set(fd, s->priority);
	if (is_txtime && udp_enable_txtime(fd))
		fail("SO_TXTIME");
	if (k->family != AF_PACKET && k->type == SOCK_DGRAM && !k->header && !s->fresh) {
		((struct sockaddr_in *)&from)->sin_port =
			htons(20000 + sockets_before(s) + number);
		if (bind(fd, (struct sockaddr *)&from, k->family == AF_INET ?
			 sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)))
			fail("bind");
	}
	if (s->is_disconnected) {
		peer_connect(s, fd, number * s->peers);
		peer_connect(s, fd, -1);
	}
	if (s->peers == 1 && k->family != AF_PACKET)
		peer_connect(s, fd, number);
	return fd;
}

int socket_open(struct sender *s, unsigned int number)
{
	int fd;

	setfsuid(s->uid + number % s->uids);	/* of this thread */
	fd = s->device ? guest_open(s, number) : socket_open_any(s, number);
	setfsuid(0);
	return fd;
}

static void packet_account(struct packet *p, struct sender *s)
{
	s->all_peers[p->message->peer].sent += s->gso;
	atomic_fetch_add(&s->sent, s->gso);
}

static void wait_until_writable(const struct sender *s, int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };
	struct epoll_event event = { .events = EPOLLOUT | EPOLLET };
	static _Thread_local int epoll = -1;

	if (!s->is_edge) {
		poll(&pfd, 1, -1);
		return;
	}
	if (epoll < 0) {
		epoll = epoll_create1(0);
		if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
			fail("epoll");
	}
	epoll_wait(epoll, &event, 1, -1);
}

/* Return whether the packet was sent. */
static bool socket_send(struct packet *p, struct sender *s, int fd)
{
	int flags = s->polls || s->refuses || s->is_edge ? MSG_DONTWAIT : 0;

	while (sendmsg(fd, &p->msg, flags) < 0) {
		if (errno == EAGAIN && s->refuses) {
			atomic_fetch_add(&s->refused, s->gso);
			return false;
		} else if (errno == EAGAIN) {
			wait_until_writable(s, fd);
		} else if (errno == ENOBUFS) {
			atomic_fetch_add(&s->no_buffers, 1);
			usleep(1000);
		} else {
			fail(s->name);
		}
	}
	return true;
}

static void packet_send(struct packet *p, struct sender *s, int fd)
{
	p->message->sent_ns = clock_now_ns();
	if (p->queue)
		guest_send(p);
	else if (!socket_send(p, s, fd))
		return;
	packet_account(p, s);
}

/* A frame to the only peer of the socket, in one system call */
static void frame_send(struct packet *p, struct sender *s, int fd, unsigned int peer)
{
	struct mmsghdr messages[FRAME_MAX] = { 0 };
	unsigned int i, first = s->all_peers[peer].sent;
	int sent;

	for (i = 0; i < s->frame; i++) {
		packet_make(p + i, s, peer, true, 0);
		p[i].message->sequence = first + i + 1;
		p[i].message->sent_ns = clock_now_ns();
		messages[i].msg_hdr = p[i].msg;
	}
	sent = sendmmsg(fd, messages, s->frame, s->refuses ? MSG_DONTWAIT : 0);
	if (sent < 0 && errno != EAGAIN)
		fail("sendmmsg");
	for (i = 0; (int)i < sent; i++)
		packet_account(p + i, s);
	atomic_fetch_add(&s->refused, s->frame - i);
}

void list_send(struct sender *s)
{
	struct packet *p = allocate(s->list_len, sizeof(*p));
	struct mmsghdr messages[LIST_MAX] = { 0 };
	uint64_t now_ns = clock_now_ns(), due_ns;

	for (unsigned int i = 0; i < s->list_len; i++) {
		due_ns = s->list[i].after_ns ? now_ns + s->list[i].after_ns : 0;
		packet_make(p + i, s, s->list[i].peer, s->peers == 1, due_ns);
		p[i].message->sequence = i;
		p[i].message->sent_ns = now_ns;
		messages[i].msg_hdr = p[i].msg;
		packet_account(p + i, s);
	}
	if (sendmmsg(s->fds[0], messages, s->list_len, 0) != (int)s->list_len)
		fail("sendmmsg");
	free(p);
}

void due_send(struct sender *s)
{
	struct packet *p = allocate(1, sizeof(*p));

	packet_make(p, s, 0, s->peers == 1, clock_now_ns() + s->due_ns);
	packet_send(p, s, s->fds[0]);
	free(p);
}

/* The socket of packet @i. No other thread uses it. */
static int socket_of(struct sender *s, unsigned int socket, unsigned int i)
{
	if (s->fresh && i && !(i % s->fresh)) {
		close(s->fds[socket]);
		s->fds[socket] = socket_open(s, socket + i / s->fresh);
	}
	return s->fds[socket];
}

/* When packet @i shall leave, or 0 */
static uint64_t later_ns(const struct sender *s, unsigned int i)
{
	if (!s->is_timed || (s->timed && !(i / s->timed % 2)))
		return 0;
	return s->at_ns ? start_ns + s->at_ns : clock_now_ns() + s->later_ns;
}

static void send_in_time(struct packet *p, struct sender *s, unsigned int socket)
{
	uint64_t next_ns = start_ns + s->from_ns + s->every_ns;
	uint64_t until_ns = s->until_ns ? start_ns + s->until_ns : end_ns;
	unsigned int first = socket * s->peers;

	thread_raise();
	for (unsigned int i = 0; next_ns < until_ns; next_ns += s->every_ns) {
		clock_sleep_until(next_ns);
		if (s->is_mmsg) {
			frame_send(p, s, s->fds[socket], first);
			continue;
		}
		for (unsigned int j = 0; j < s->frame; j++, i++) {
			int fd = socket_of(s, socket, i);

			packet_make(p, s, first + i % s->peers, s->peers == 1, 0);
			packet_send(p, s, fd);
		}
	}
}

/* Some packets in turn to all peers, some to one that it is connected to, some to the
 * next, and then to none. Numbers of packets differ, but are the same in all runs.
 */
static void send_and_connect(struct packet *p, struct sender *s, int fd)
{
	unsigned int turn, i, peer, random = 1;

	for (i = 0; i + 1 < s->first; i++) {
		packet_make(p, s, i % s->peers, false, 0);
		packet_send(p, s, fd);
	}
	for (turn = 0; clock_now_ns() < end_ns; turn++) {
		/* Connected once, and twice in every third turn. */
		unsigned int connects = 1 + !(turn % 3), c;

		for (c = 0; c <= connects; c++) {
			random = random * 1103515245 + 12345;
			peer = (turn + c) % s->peers;
			peer_connect(s, fd, c < connects ? (int)peer : -1);
			for (i = 0; i < 1 + (random >> 16) % 40; i++) {
				packet_make(p, s, c < connects ? peer : (turn + i) % s->peers,
					    c < connects, 0);
				packet_send(p, s, fd);
			}
		}
	}
}

/* Sleep until the next packet. Who is late does not make up for it. */
static void pace(const struct sender *s, uint64_t *next_ns)
{
	uint64_t now_ns = clock_now_ns();

	if (*next_ns < now_ns)
		*next_ns = now_ns;
	clock_sleep_until(*next_ns);
	*next_ns += s->pace_ns;
}

void socket_run(struct sender *s, unsigned int socket)
{
	unsigned int first = socket * s->peers, i;
	struct packet *p = allocate(s->is_mmsg ? s->frame : 1, sizeof(*p));
	/* They do not send all at once. */
	uint64_t next_ns = start_ns + s->pace_ns * socket / s->sockets;
	uint64_t until_ns = s->until_ns ? start_ns + s->until_ns : end_ns;
	int fd;

	p->queue = s->queues ? &s->queues[socket] : NULL;
	clock_sleep_until(start_ns + s->from_ns);
	if (s->every_ns) {
		send_in_time(p, s, socket);
	} else if (s->first) {
		send_and_connect(p, s, s->fds[socket]);
	} else {
		for (i = 0; clock_now_ns() < until_ns; i++) {
			if (s->pace_ns)
				pace(s, &next_ns);
			fd = socket_of(s, socket, i);
			if (s->classes)
				class_set(fd, s->priority + i % s->classes);
			packet_make(p, s, first + i % s->peers, s->peers == 1, later_ns(s, i));
			packet_send(p, s, fd);
		}
	}
	if (p->queue)
		guest_finish(p->queue);
	free(p);
}
