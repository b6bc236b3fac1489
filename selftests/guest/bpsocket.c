// SPDX-License-Identifier: GPL-2.0-only
/* bpsocket: what a throttled socket's owner sees
 *
 * usage: bpsocket TYPE DST CASE [DEVICE]
 *
 * TYPE is udp, udplite, ping, raw, hdrincl (raw with its own IP header) or packet
 * (needs DEVICE); DST an IPv4 or
 * IPv6 address; CASE one of the table below. The caller has put a slow shaper in
 * front of DST. Exits 0 and prints nothing if the case went as it must, else
 * prints why not and exits 1.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/sock_diag.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifndef IPPROTO_UDPLITE
#define IPPROTO_UDPLITE 136
#endif

#define IPPROTO_EXPERIMENT 253	/* RFC 3692 */

#define PAYLOAD		1200
#define SHARE		20	/* packets; the caller's share is less */
#define MANY		20000	/* packets; more than a send buffer */
#define LONG_MS		60000	/* a queue of some packets drains in less */

static char packet[PAYLOAD];

__attribute__((format(printf, 1, 2), noreturn))
static void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	exit(1);
}

static void must(bool good, const char *what)
{
	if (!good)
		fail("%s: %s", what, strerror(errno));
}

static bool parse_address(const char *dst, struct sockaddr_storage *addr,
			  socklen_t *len)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;
	struct sockaddr_in *in = (struct sockaddr_in *)addr;

	memset(addr, 0, sizeof(*addr));
	if (inet_pton(AF_INET, dst, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons(9);
		*len = sizeof(*in);
		return true;
	}
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(9);
	*len = sizeof(*in6);
	return inet_pton(AF_INET6, dst, &in6->sin6_addr) == 1;
}

/* Frames of a local experimental EtherType: no protocol answers them. */
static int open_packet(const char *device)
{
	struct sockaddr_ll addr = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(0x88b5),
		.sll_ifindex = if_nametoindex(device),
	};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	memset(packet, 0xff, 6);
	packet[12] = (char)0x88;
	packet[13] = (char)0xb5;
	must(fd >= 0 && !bind(fd, (struct sockaddr *)&addr, sizeof(addr)),
	     "packet socket");
	return fd;
}

/* The header is ours to write, up to what the kernel fills in. */
static int open_hdrincl(const struct sockaddr_storage *addr)
{
	struct ip6_hdr *ip6 = (struct ip6_hdr *)packet;
	struct iphdr *ip = (struct iphdr *)packet;

	if (addr->ss_family == AF_INET) {
		ip->version = 4;
		ip->ihl = 5;
		ip->ttl = 64;
		ip->protocol = IPPROTO_EXPERIMENT;
		ip->daddr = ((struct sockaddr_in *)addr)->sin_addr.s_addr;
	} else {
		ip6->ip6_flow = htonl(6 << 28);
		ip6->ip6_plen = htons(PAYLOAD - sizeof(*ip6));
		ip6->ip6_nxt = IPPROTO_EXPERIMENT;
		ip6->ip6_hlim = 64;
		ip6->ip6_dst = ((struct sockaddr_in6 *)addr)->sin6_addr;
	}
	return socket(addr->ss_family, SOCK_RAW, IPPROTO_RAW);
}

static int open_socket(const char *type, const char *dst, const char *device)
{
	struct sockaddr_storage addr;
	socklen_t len;
	bool is_v6;
	int fd;

	if (!strcmp(type, "packet"))
		return open_packet(device);
	must(parse_address(dst, &addr, &len), dst);
	is_v6 = addr.ss_family == AF_INET6;
	if (!strcmp(type, "udp")) {
		fd = socket(addr.ss_family, SOCK_DGRAM, 0);
	} else if (!strcmp(type, "udplite")) {
		fd = socket(addr.ss_family, SOCK_DGRAM, IPPROTO_UDPLITE);
	} else if (!strcmp(type, "ping")) {
		packet[0] = is_v6 ? (char)ICMP6_ECHO_REQUEST : ICMP_ECHO;
		fd = socket(addr.ss_family, SOCK_DGRAM,
			    is_v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP);
	} else if (!strcmp(type, "raw")) {
		fd = socket(addr.ss_family, SOCK_RAW, IPPROTO_EXPERIMENT);
	} else if (!strcmp(type, "hdrincl")) {
		fd = open_hdrincl(&addr);
	} else {
		fail("unknown type %s", type);
	}
	must(fd >= 0, "socket");
	must(!connect(fd, (struct sockaddr *)&addr, len), "connect");
	return fd;
}

static void set_nonblocking(int fd)
{
	must(!fcntl(fd, F_SETFL, O_NONBLOCK), "O_NONBLOCK");
}

/* Send until the socket would block; the number of packets that it took. It would
 * block some day without a shaper, too, when its send buffer is full.
 */
static int fill(int fd)
{
	int sent;

	for (sent = 0; sent < SHARE; sent++) {
		if (send(fd, packet, PAYLOAD, MSG_DONTWAIT) < 0) {
			if (errno == EAGAIN)
				return sent;
			must(false, "send");
		}
	}
	fail("%d packets were sent and the socket was not throttled", sent);
}

/* What the socket is charged for sending: every kind of socket can tell. */
static int charge(int fd)
{
	__u32 mem[SK_MEMINFO_VARS];
	socklen_t len = sizeof(mem);

	must(!getsockopt(fd, SOL_SOCKET, SO_MEMINFO, mem, &len), "SO_MEMINFO");
	return mem[SK_MEMINFO_WMEM_ALLOC];
}

static bool is_writable(int fd, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };

	must(poll(&pfd, 1, timeout_ms) >= 0, "poll");
	return pfd.revents & POLLOUT;
}

static void wait_until_drained(int fd)
{
	for (int i = 0; i < LONG_MS / 10; i++) {
		if (!charge(fd))
			return;
		usleep(10000);
	}
	fail("the socket still holds %d bytes", charge(fd));
}

static void nonblocking(int fd)
{
	set_nonblocking(fd);
	fill(fd);
	if (send(fd, packet, PAYLOAD, 0) >= 0 || errno != EAGAIN)
		fail("a throttled socket took another packet");
}

static void poll_wakes(int fd)
{
	set_nonblocking(fd);
	for (int i = 0; i < 3; i++) {
		fill(fd);
		if (is_writable(fd, 0))
			fail("poll() says writable, send() said EAGAIN");
		if (!is_writable(fd, LONG_MS))
			fail("poll() never woke");
		must(send(fd, packet, PAYLOAD, 0) == PAYLOAD, "send after poll");
	}
	wait_until_drained(fd);
}

static void epoll_wakes(int fd, uint32_t flags)
{
	struct epoll_event ev = { .events = EPOLLOUT | flags };
	int ep = epoll_create1(0);

	set_nonblocking(fd);
	must(ep >= 0 && !epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev), "epoll");
	for (int i = 0; i < 3; i++) {
		/* the state at the start, and an edge passed unused */
		while (epoll_wait(ep, &ev, 1, 0) > 0 && flags)
			;
		fill(fd);
		if (epoll_wait(ep, &ev, 1, 0) != 0)
			fail("epoll says writable, send() said EAGAIN");
		if (epoll_wait(ep, &ev, 1, LONG_MS) != 1)
			fail("epoll never woke");
		must(send(fd, packet, PAYLOAD, 0) == PAYLOAD, "send after epoll");
	}
	wait_until_drained(fd);
}

static void epoll_level(int fd)
{
	epoll_wakes(fd, 0);
}

static void epoll_edge(int fd)
{
	epoll_wakes(fd, EPOLLET);
}

static void on_alarm(int sig)
{
	(void)sig;
}

/* A blocking send sleeps: the alarm finds it there. Then it is woken. */
static void blocking(int fd)
{
	struct itimerval in_20ms = { .it_value = { .tv_usec = 20000 } };
	struct sigaction sa = { .sa_handler = on_alarm };

	must(!sigaction(SIGALRM, &sa, NULL), "sigaction");
	fill(fd);
	must(!setitimer(ITIMER_REAL, &in_20ms, NULL), "setitimer");
	if (send(fd, packet, PAYLOAD, 0) >= 0 || errno != EINTR)
		fail("send() on a throttled socket did not sleep: %s",
		     strerror(errno));
	alarm(LONG_MS / 1000);
	if (send(fd, packet, PAYLOAD, 0) < 0)
		fail("the sleeping sender was never woken: %s", strerror(errno));
	alarm(0);
	wait_until_drained(fd);
}

static void timeout(int fd)
{
	struct timeval in_20ms = { .tv_usec = 20000 };

	fill(fd);
	must(!setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &in_20ms,
			 sizeof(in_20ms)), "SO_SNDTIMEO");
	if (send(fd, packet, PAYLOAD, 0) >= 0 || errno != EAGAIN)
		fail("SO_SNDTIMEO did not end the sleep: %s", strerror(errno));
}

/* A larger send buffer does not set a throttled socket free. */
static void grows(int fd)
{
	int sent, bytes = 4 << 20;

	fill(fd);
	must(!setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)),
	     "SO_SNDBUFFORCE");
	sent = fill(fd);
	if (sent > 1)
		fail("with a larger buffer it took %d more packets", sent);
	wait_until_drained(fd);
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
		if (send(fd, packet, PAYLOAD, 0) < 0)
			break;
	if (sent == MANY || errno != ENOBUFS)
		fail("no ENOBUFS after %d packets: %s", sent, strerror(errno));
	if (is_writable(fd, 0))
		fail("poll() says writable, send() said ENOBUFS");
	if (!is_writable(fd, 100 * LONG_MS))
		fail("poll() never woke");
	must(send(fd, packet, PAYLOAD, 0) == PAYLOAD, "send after poll");
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
	if (send(fd, packet, PAYLOAD, 0) < 0 &&
	    errno != ENETDOWN && errno != ENETUNREACH && errno != ENXIO)
		fail("send: %s", strerror(errno));
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
		must(send(fd, packet, PAYLOAD, 0) == PAYLOAD, "send");
		while (charge(fd))
			usleep(20);
		sent++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec * 1000 + now.tv_nsec / 1000000 <
		 start.tv_sec * 1000 + start.tv_nsec / 1000000 + 2000);
	printf("%d\n", sent);
}

static const struct {
	const char *name;
	void (*run)(int fd);
} cases[] = {
	{ "nonblocking", nonblocking },
	{ "poll", poll_wakes },
	{ "epoll_level", epoll_level },
	{ "epoll_edge", epoll_edge },
	{ "blocking", blocking },
	{ "timeout", timeout },
	{ "grows", grows },
	{ "drains", drains },
	{ "enobufs", enobufs },
	{ "closes", closes },
	{ "alternates", alternates },
	{ "sleeps", sleeps },
};

int main(int argc, char **argv)
{
	if (argc < 4)
		fail("usage: bpsocket TYPE DST CASE [DEVICE]");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[3]))
			continue;
		cases[i].run(open_socket(argv[1], argv[2],
					 argc > 4 ? argv[4] : "lo"));
		return 0;
	}
	fail("unknown case %s", argv[3]);
}
