// SPDX-License-Identifier: GPL-2.0-only
/* bpmoves: one socket whose packets leave by several queues
 *
 * usage: bpmoves TX_NETNS RX_NETNS DST QUEUES COUNT mark|cpu
 *
 * Sends COUNT datagrams of one socket from one network namespace to DST (IPv4) in the
 * other, and chooses another of QUEUES after each 1 to 8 of them: by SO_MARK, which is one
 * more than its number, or by moving to another CPU, with a socket that is not connected,
 * as the kernel keeps the queue of one that is. Sleeps when it is throttled. Datagram
 * number n has 1000 + n % 400 bytes, so that who sees no more of it than its length can
 * tell the order.
 *
 * Prints one JSON object: how many were lost, how many came after a later one, how many of
 * those after a later one of their own queue; how often it chose, and how often it slept.
 * Who receives may see another order than the queue: CPUs that dequeue in turn feed a
 * backlog each.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "udp.h"

#define PORT		5900
#define QUEUES_MAX	16
#define RUN_MAX		8
#define TIMEOUT_MS	5000
#define BYTES_MIN	1000
#define LENGTHS		400

struct datagram {
	int32_t number, queue;
	char payload[BYTES_MIN + LENGTHS - 2 * sizeof(int32_t)];
};

static int receiver, queues, count;
static int received, disordered, disordered_in_queue;

static void fail(const char *what)
{
	fprintf(stderr, "bpmoves: %s: %s\n", what, strerror(errno));
	exit(1);
}

static ssize_t datagram_bytes(const struct datagram *d)
{
	return BYTES_MIN + d->number % LENGTHS;
}

/* Until all have come, or none for a while. */
static void *receive(void *unused)
{
	struct pollfd pfd = { .fd = receiver, .events = POLLIN };
	int32_t last = -1, last_of[QUEUES_MAX];
	struct datagram d;

	(void)unused;
	memset(last_of, -1, sizeof(last_of));
	while (received < count && poll(&pfd, 1, TIMEOUT_MS) > 0) {
		if (recv(receiver, &d, sizeof(d), 0) != datagram_bytes(&d) ||
		    d.queue >= queues)
			fail("recv");
		received++;
		disordered += d.number < last;
		disordered_in_queue += d.number < last_of[d.queue];
		if (d.number > last)
			last = d.number;
		if (d.number > last_of[d.queue])
			last_of[d.queue] = d.number;
	}
	return NULL;
}

static void choose(int fd, int queue, int by_cpu)
{
	cpu_set_t set;

	if (!by_cpu) {
		int mark = queue + 1;

		if (setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)))
			fail("SO_MARK");
		return;
	}
	CPU_ZERO(&set);
	CPU_SET(queue, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

/* Returns how often another queue was chosen. */
static int send_all(int fd, const struct sockaddr_in *to, int by_cpu)
{
	struct datagram d = { .queue = -1 };
	int left = 0, moves = 0;

	for (d.number = 0; d.number < count; d.number++) {
		if (!left--) {
			left = rand() % RUN_MAX;
			d.queue = (d.queue + 1 + rand() % (queues - 1)) % queues;
			choose(fd, d.queue, by_cpu);
			moves++;
		}
		if (udp_send(fd, &d, datagram_bytes(&d), to, 0) < 0)
			fail("sendmsg");
	}
	return moves;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct rusage before, after;
	pthread_t thread;
	int fd, moves;

	if (argc != 7 || (queues = atoi(argv[4])) < 2 || queues > QUEUES_MAX ||
	    (count = atoi(argv[5])) < 1 || inet_pton(AF_INET, argv[3], &to.sin_addr) != 1) {
		fputs("usage: bpmoves TX_NETNS RX_NETNS DST QUEUES COUNT mark|cpu\n",
		      stderr);
		return 2;
	}
	receiver = udp_receiver(argv[2], PORT);
	fd = udp_in(argv[1]);
	if (receiver < 0 || fd < 0 || pthread_create(&thread, NULL, receive, NULL))
		fail("start");
	getrusage(RUSAGE_THREAD, &before);
	moves = send_all(fd, &to, !strcmp(argv[6], "cpu"));
	getrusage(RUSAGE_THREAD, &after);
	pthread_join(thread, NULL);
	printf("{ \"lost\": %d, \"disordered\": %d, \"disordered_in_queue\": %d, \"moves\": %d, \"sleeps\": %ld }\n",
	       count - received, disordered, disordered_in_queue, moves,
	       after.ru_nvcsw - before.ru_nvcsw);
	return 0;
}
