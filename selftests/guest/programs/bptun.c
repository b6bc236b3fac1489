// SPDX-License-Identifier: GPL-2.0-only
/* bptun: a tun device that stops its queue when its ring is full, and who reads it slowly
 *
 * usage: bptun [OPTION...] COMMAND [LAST]
 *
 * Makes tun0 with IFF_BACKPRESSURE (since Linux 7.3) in a network namespace of its own, where
 * COMMAND of sh sets it up. Sockets then send as fast as they may to 10.99.0.2, the first
 * from port 5000, the others from those that follow, while frames are read at a rate.
 *
 *	-r RATES	frames a second that are read, of each queue: 2000, or 500,20000 for
 *			two queues
 *	-n SOCKETS	(2)
 *	-s BYTES	payload (1000)
 *	-b BYTES	send buffer, as the kernel counts it
 *	-t SECONDS	(2), after half a second that does not count
 *
 * Prints one JSON object: frames of each queue, and from each socket. LAST is another command of sh,
 * which looks at tun0 then. Exits 4 if the kernel does not know the flag.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"

#ifndef IFF_BACKPRESSURE
#define IFF_BACKPRESSURE 0x0080
#endif

#define QUEUES_MAX	4
#define SOCKETS_MAX	64
#define PORT		5000
#define WARMUP_NS	(CLOCK_NS_PER_S / 2)
#define FRAME_MAX	65536
#define EXIT_SKIP	4

static struct {
	double		rates[QUEUES_MAX];
	int		queues;
	int		sockets;
	int		bytes;
	int		sndbuf;
	double		seconds;
} opt = { .rates = { 2000 }, .queues = 1, .sockets = 2, .bytes = 1000, .seconds = 2 };

static long frames[QUEUES_MAX], from[SOCKETS_MAX];

static void fail(const char *what)
{
	fprintf(stderr, "bptun: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void options_parse(int argc, char **argv)
{
	char *rate;
	int c;

	while ((c = getopt(argc, argv, "r:n:s:b:t:")) != -1) {
		switch (c) {
		case 'r':
			opt.queues = 0;
			for (rate = strtok(optarg, ","); rate && opt.queues < QUEUES_MAX;
			     rate = strtok(NULL, ","))
				opt.rates[opt.queues++] = atof(rate);
			break;
		case 'n':
			opt.sockets = atoi(optarg);
			break;
		case 's':
			opt.bytes = atoi(optarg);
			break;
		case 'b':
			opt.sndbuf = atoi(optarg) / 2;	/* doubled */
			break;
		case 't':
			opt.seconds = atof(optarg);
			break;
		default:
			exit(2);
		}
	}
	if (optind + 1 > argc || opt.queues < 1 || opt.sockets < 1 ||
	    opt.sockets > SOCKETS_MAX || opt.bytes < 1 || opt.bytes > FRAME_MAX / 2) {
		fputs("usage: bptun [OPTION...] COMMAND [LAST]\n", stderr);
		exit(2);
	}
}

static int queue_open(void)
{
	struct ifreq ifr = { .ifr_name = "tun0" };
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	unsigned int features;

	if (fd < 0 || ioctl(fd, TUNGETFEATURES, &features))
		fail("/dev/net/tun");
	if (!(features & IFF_BACKPRESSURE))
		exit(EXIT_SKIP);
	ifr.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_BACKPRESSURE |
			(opt.queues > 1 ? IFF_MULTI_QUEUE : 0);
	if (ioctl(fd, TUNSETIFF, &ifr))
		fail("TUNSETIFF");
	return fd;
}

static void *send_all(void *number)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct sockaddr_in own = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	static const char data[FRAME_MAX / 2];

	own.sin_port = htons(PORT + (intptr_t)number);
	inet_pton(AF_INET, "10.99.0.2", &to.sin_addr);
	if (fd < 0 || bind(fd, (struct sockaddr *)&own, sizeof(own)) ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)))
		fail("socket");
	if (opt.sndbuf && setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &opt.sndbuf,
				     sizeof(opt.sndbuf)))
		fail("SO_SNDBUFFORCE");
	for (;;)
		if (send(fd, data, opt.bytes, 0) < 0 && errno != ENOBUFS)
			fail("send");
	return NULL;
}

static void frame_read(int queue, int fd, bool counts)
{
	static unsigned char frame[FRAME_MAX];
	struct { uint16_t source, dest; } ports;
	int socket;

	if (read(fd, frame, sizeof(frame)) <= opt.bytes || !counts)
		return;
	frames[queue]++;
	memcpy(&ports, frame + 20, sizeof(ports));
	socket = ntohs(ports.source) - PORT;
	if (socket >= 0 && socket < opt.sockets)
		from[socket]++;
}

static void read_all(const int *fds)
{
	uint64_t start = clock_now_ns(), next[QUEUES_MAX], now = start;
	uint64_t end = start + WARMUP_NS + opt.seconds * CLOCK_NS_PER_S;
	int i, first;

	for (i = 0; i < opt.queues; i++)
		next[i] = start;
	while (now < end) {
		for (first = 0, i = 1; i < opt.queues; i++)
			if (next[i] < next[first])
				first = i;
		clock_sleep_until(next[first]);
		now = clock_now_ns();
		frame_read(first, fds[first], now - start >= WARMUP_NS);
		next[first] += CLOCK_NS_PER_S / opt.rates[first];
	}
}

int main(int argc, char **argv)
{
	int fds[QUEUES_MAX], i;
	pthread_t thread;

	options_parse(argc, argv);
	if (unshare(CLONE_NEWNET))
		fail("unshare");
	for (i = 0; i < opt.queues; i++)
		fds[i] = queue_open();
	if (system(argv[optind])) {
		fprintf(stderr, "bptun: this failed: %s\n", argv[optind]);
		return 1;
	}
	for (i = 0; i < opt.sockets; i++)
		if (pthread_create(&thread, NULL, send_all, (void *)(intptr_t)i))
			fail("pthread_create");
	read_all(fds);
	printf("{ ");
	for (i = 0; i < opt.queues; i++)
		printf("\"frames_%d\": %ld, ", i, frames[i]);
	for (i = 0; i < opt.sockets; i++)
		printf("\"from_%d\": %ld%s", i, from[i], i + 1 < opt.sockets ? ", " : " }\n");
	fflush(stdout);
	return argv[optind + 1] && system(argv[optind + 1]);
}
