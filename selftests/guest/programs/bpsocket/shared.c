// SPDX-License-Identifier: GPL-2.0-only
/* One socket with many destinations, with many senders, and with a send buffer that
 * changes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bpsocket.h"

#define DESTINATIONS	4
#define WORKERS		4
#define WORK		32	/* datagrams of each */

static int send_somewhere(int fd, int flags)
{
	struct sockaddr_storage addr = self.addr;
	uint8_t *last = self.addr.ss_family == AF_INET ?
		(uint8_t *)&((struct sockaddr_in *)&addr)->sin_addr + 3 :
		(uint8_t *)&((struct sockaddr_in6 *)&addr)->sin6_addr + 15;

	*last += self.sent % DESTINATIONS;
	mark(packet, self.sent);
	return sendto(fd, packet, PAYLOAD, flags, (struct sockaddr *)&addr,
		      self.addr_len) < 0 ? -1 : 1;
}

/* The socket is throttled as a whole, whoever is next. */
static void expect_no_room_for_loopback(int fd)
{
	struct sockaddr_in6 six = {
		.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT,
		.sin6_port = htons(PORT),
	};
	struct sockaddr_in four = {
		.sin_family = AF_INET, .sin_port = htons(PORT),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct sockaddr *addr = self.addr.ss_family == AF_INET ?
		(struct sockaddr *)&four : (struct sockaddr *)&six;

	if (sendto(fd, packet, PAYLOAD, MSG_DONTWAIT, addr, self.addr_len) >= 0 ||
	    errno != EAGAIN)
		fail("a throttled socket could send to itself");
}

/* DST is the first of many. */
static void destinations(int fd)
{
	static const struct way way = {
		send_somewhere, NULL, 16 * DESTINATIONS, PAYLOAD
	};
	struct sockaddr nowhere = { .sa_family = AF_UNSPEC };

	must(!connect(fd, &nowhere, sizeof(nowhere)), "disconnect");
	send_by(fd, &way);
	for (int i = 0; send_somewhere(fd, MSG_DONTWAIT) >= 0; i++)
		if (i > SHARE)
			fail("the socket was not throttled");
	expect_no_room_for_loopback(fd);
	wait_until_drained(fd);
}

/* The @worker-th part of what all send through one socket. */
static void work(int fd, int worker)
{
	long before = sleeps_so_far();
	char data[PAYLOAD] = {};

	for (int i = 0; i < WORK; i++) {
		mark(data, worker * WORK + i);
		must(send(fd, data, PAYLOAD, 0) == PAYLOAD, "shared send");
	}
	if (sleeps_so_far() == before)
		fail("sender %d never had to wait", worker);
}

static int shared_fd;

static void *thread_works(void *worker)
{
	work(shared_fd, (intptr_t)worker);
	return NULL;
}

static void threads(int fd)
{
	pthread_t thread[WORKERS];
	int peer = open_receiver();

	shared_fd = fd;
	for (intptr_t i = 0; i < WORKERS; i++)
		must(!pthread_create(&thread[i], NULL, thread_works, (void *)i),
		     "thread");
	for (int i = 0; i < WORKERS; i++)
		must(!pthread_join(thread[i], NULL), "thread");
	receive_all(peer, WORKERS * WORK, PAYLOAD);
	wait_until_drained(fd);
}

static void processes(int fd)
{
	int status, peer = open_receiver();

	for (int i = 0; i < WORKERS; i++) {
		if (fork())
			continue;
		work(fd, i);
		exit(0);
	}
	for (int i = 0; i < WORKERS; i++)
		if (wait(&status) < 0 || status)
			fail("a process failed");
	receive_all(peer, WORKERS * WORK, PAYLOAD);
	wait_until_drained(fd);
}

/* Whatever becomes of the send buffer, a throttled socket takes a packet at most. */
static void resized(int fd)
{
	static const int sizes[] = { 1 << 22, 1 << 13, 1 << 20, 1 << 25, 1 << 16 };
	int sent, peer = open_receiver();

	for (int i = 0; i < 20; i++) {
		if (i % 5 == 0)
			fill(fd);
		set_sndbuf(fd, sizes[i % 5]);
		sent = fill(fd);
		if (sent > 1)
			fail("with a buffer of %d it took %d more packets",
			     sizes[i % 5], sent);
		if (i % 5 == 4 && !is_writable(fd, LONG_MS))
			fail("poll() never woke");
	}
	receive_all(peer, self.sent, PAYLOAD);
	wait_until_drained(fd);
}

const struct bpsocket_case shared_cases[] = {
	{ "destinations", destinations },
	{ "threads", threads },
	{ "processes", processes },
	{ "resized", resized },
	{ }
};
