// SPDX-License-Identifier: GPL-2.0-only
/* bpvnet: GSO packets of a packet socket, as a virtual machine or a container sends them
 *
 * usage: bpvnet DEVICE [OPTION...]
 *
 * Sends packets with a virtio header (PACKET_VNET_HDR) by DEVICE, to a station that nobody
 * is: TCP over IPv4, or UDP. What such a socket sends may have segments of any size, and
 * the kernel gives them to the socket in a way of its own.
 *
 *	-u		UDP (since Linux 6.2) instead of TCP; exits 4 if the kernel has none
 *	-g BYTES	payload of a segment (1400); 0: no GSO packet
 *	-l BYTES	payload of a packet (60000)
 *	-n COUNT	packets of a socket (1); 0: as many as it takes without waiting
 *	-t TRIES	that many sockets, one after the other (1)
 *	-T SECONDS	and no longer than this
 *	-i US		pause between two
 *	-b BYTES	send buffer, as the kernel counts it
 *	-o US		SO_TXTIME: 60 s ago and that much later, in CLOCK_REALTIME
 *	-s US		hunt for the time at which packets are refused: later by this after
 *			one that was, earlier after one that was not, by half as much after
 *			each turn, down to 1/32
 *	-c		list the classes of DEVICE when the socket has been closed
 *	-w		watch what the socket is charged, and close it when that is 0
 *
 * Prints one JSON object: packets sent, packets refused, the time that the longest send
 * took, classes listed and, of the last socket with -w: what it was charged at first,
 * in how many steps that fell, by how much it fell at most in one, how often it rose, and
 * what was left after 60 s.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/net_tstamp.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "udp.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define NS_PER_S	1000000000ULL
#define NS_PER_US	1000ULL
#define AGO_NS		(60 * NS_PER_S)	/* as bpshaper takes for a time of receipt */
#define WATCH_US	200
#define WATCH_NS	(60 * NS_PER_S)
#define PAYLOAD_MAX	65000
#define EXIT_SKIP	4

struct frame {
	struct virtio_net_hdr	vnet;
	struct ether_header	eth;
	struct iphdr		ip;
	union {
		struct tcphdr	tcp;
		struct udphdr	udp;
	};
	char			data[PAYLOAD_MAX];
} __attribute__((packed));

static struct {
	int		ifindex;
	bool		is_udp;
	bool		has_time;
	bool		lists_classes;
	bool		watches;
	int		gso_size;
	int		bytes;
	int		packets;
	int		tries;
	int		sndbuf;
	uint64_t	most_ns;
	uint64_t	pause_ns;
	int64_t		offset_ns;
	int64_t		step_ns;
} opt = { .gso_size = 1400, .bytes = 60000, .packets = 1, .tries = 1,
	  .most_ns = ~0ULL };

static struct {
	long		sent;
	long		refused;
	long		classes;
	uint64_t	longest_ns;
	int		charge_first;
	int		charge_steps;
	int		charge_step_max;
	int		charge_rises;
	int		charge_last;
} result;

static struct frame frame;
static size_t frame_len;

static void fail(const char *what)
{
	fprintf(stderr, "bpvnet: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static void frame_write(void)
{
	static const struct ether_header eth = {
		.ether_dhost = { 2, 0, 0, 0, 0, 9 },
		.ether_shost = { 2, 0, 0, 0, 0, 1 },
	};
	int transport = opt.is_udp ? sizeof(frame.udp) : sizeof(frame.tcp);
	char *data = (char *)&frame.tcp + transport;
	int headers = data - (char *)&frame.eth;

	frame_len = sizeof(frame.vnet) + headers + opt.bytes;
	frame.vnet.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
	frame.vnet.csum_start = headers - transport;
	frame.vnet.csum_offset = opt.is_udp ? offsetof(struct udphdr, check) :
					      offsetof(struct tcphdr, check);
	frame.vnet.hdr_len = headers;
	if (opt.gso_size) {
		frame.vnet.gso_type = opt.is_udp ? VIRTIO_NET_HDR_GSO_UDP_L4 :
						   VIRTIO_NET_HDR_GSO_TCPV4;
		frame.vnet.gso_size = opt.gso_size;
	}
	frame.eth = eth;
	frame.eth.ether_type = htons(ETHERTYPE_IP);
	frame.ip.version = 4;
	frame.ip.ihl = 5;
	frame.ip.ttl = 64;
	frame.ip.protocol = opt.is_udp ? IPPROTO_UDP : IPPROTO_TCP;
	frame.ip.tot_len = htons(sizeof(frame.ip) + transport + opt.bytes);
	frame.ip.saddr = htonl(0xc6336401);	/* 198.51.100.1 */
	frame.ip.daddr = htonl(0xc6336402);
	if (opt.is_udp) {
		frame.udp.len = htons(transport + opt.bytes);
		frame.udp.dest = htons(9);
	} else {
		frame.tcp.doff = 5;
		frame.tcp.ack = 1;
	}
}

static int socket_open(void)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_ifindex = opt.ifindex,
				  .sll_protocol = htons(ETHERTYPE_IP) };
	int on = 1, sndbuf = opt.sndbuf / 2;	/* doubled */
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&to, sizeof(to)))
		fail("packet socket");
	if (sndbuf && setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &sndbuf, sizeof(sndbuf)))
		fail("SO_SNDBUFFORCE");
	if (opt.has_time && udp_enable_txtime(fd))
		fail("SO_TXTIME");
	return fd;
}

/* False: the socket has no room, or the packet was dropped at once. */
static bool put(int fd)
{
	char control[CMSG_SPACE(sizeof(uint64_t))];
	struct iovec iov = { .iov_base = &frame, .iov_len = frame_len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	uint64_t start_ns, at;
	ssize_t sent;

	if (opt.has_time) {
		at = now_ns(CLOCK_REALTIME) - AGO_NS + opt.offset_ns;
		udp_control(&msg, control, SOL_SOCKET, SCM_TXTIME, &at, sizeof(at));
	}
	start_ns = now_ns(CLOCK_MONOTONIC);
	sent = sendmsg(fd, &msg, opt.packets ? 0 : MSG_DONTWAIT);
	start_ns = now_ns(CLOCK_MONOTONIC) - start_ns;
	if (start_ns > result.longest_ns)
		result.longest_ns = start_ns;
	if (sent < 0 && errno == EINVAL && opt.is_udp) {
		printf("this kernel takes no UDP segments from a packet socket\n");
		exit(EXIT_SKIP);
	}
	if (sent < 0 && errno != EAGAIN && errno != ENOBUFS && errno != ENETDOWN)
		fail("sendmsg");
	result.sent += sent > 0;
	result.refused += sent < 0;
	return sent > 0;
}

static int charge(int fd)
{
	int bytes;

	if (ioctl(fd, SIOCOUTQ, &bytes))
		fail("SIOCOUTQ");
	return bytes;
}

static void watch(int fd)
{
	uint64_t end_ns = now_ns(CLOCK_MONOTONIC) + WATCH_NS;
	int before = charge(fd), now;

	result.charge_first = before;
	result.charge_steps = result.charge_step_max = result.charge_rises = 0;
	while (before && now_ns(CLOCK_MONOTONIC) < end_ns) {
		usleep(WATCH_US);
		now = charge(fd);
		result.charge_rises += now > before;
		result.charge_steps += now < before;
		if (before - now > result.charge_step_max)
			result.charge_step_max = before - now;
		before = now;
	}
	result.charge_last = before;
}

/* As tc class show does, in less time. */
static void list_classes(void)
{
	struct {
		struct nlmsghdr	header;
		struct tcmsg	tc;
	} request = {
		.header = { .nlmsg_len = sizeof(request), .nlmsg_type = RTM_GETTCLASS,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.tc = { .tcm_family = AF_UNSPEC, .tcm_ifindex = opt.ifindex },
	};
	static char buffer[32768];
	struct nlmsghdr *message;
	static int fd = -1;
	int len;

	if (fd < 0)
		fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	if (send(fd, &request, sizeof(request), 0) < 0)
		fail("RTM_GETTCLASS");
	while ((len = recv(fd, buffer, sizeof(buffer), 0)) > 0) {
		for (message = (void *)buffer; NLMSG_OK(message, len);
		     message = NLMSG_NEXT(message, len)) {
			if (message->nlmsg_type == NLMSG_DONE ||
			    message->nlmsg_type == NLMSG_ERROR)
				return;
			result.classes++;
		}
	}
	fail("recv");
}

static void hunt(bool was_sent)
{
	static int64_t least_ns;
	static bool before;

	if (!least_ns)
		least_ns = opt.step_ns / 32 + 1;
	else if (was_sent != before && opt.step_ns / 2 >= least_ns)
		opt.step_ns /= 2;
	opt.offset_ns += was_sent ? -opt.step_ns : opt.step_ns;
	before = was_sent;
}

static void try_once(void)
{
	int fd = socket_open();
	bool was_sent = false;

	for (int i = 0; !opt.packets || i < opt.packets; i++) {
		was_sent = put(fd);
		if (!was_sent && !opt.packets)
			break;
	}
	if (opt.step_ns)
		hunt(was_sent);
	if (opt.watches)
		watch(fd);
	close(fd);
	if (opt.lists_classes)
		list_classes();
}

static void usage(void)
{
	errno = EINVAL;
	fail("usage: bpvnet DEVICE [OPTION...]");
}

static void options_parse(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "ug:l:n:t:T:i:b:o:s:cw")) != -1) {
		switch (c) {
		case 'u': opt.is_udp = true; break;
		case 'g': opt.gso_size = atoi(optarg); break;
		case 'l': opt.bytes = atoi(optarg); break;
		case 'n': opt.packets = atoi(optarg); break;
		case 't': opt.tries = atoi(optarg); break;
		case 'T': opt.most_ns = atof(optarg) * NS_PER_S; break;
		case 'i': opt.pause_ns = atof(optarg) * NS_PER_US; break;
		case 'b': opt.sndbuf = atoi(optarg); break;
		case 'o':
			opt.has_time = true;
			opt.offset_ns = atof(optarg) * NS_PER_US;
			break;
		case 's': opt.step_ns = atof(optarg) * NS_PER_US; break;
		case 'c': opt.lists_classes = true; break;
		case 'w': opt.watches = true; break;
		default: usage();
		}
	}
	if (optind + 1 != argc || opt.bytes < 1 || opt.bytes > PAYLOAD_MAX)
		usage();
	opt.ifindex = if_nametoindex(argv[optind]);
	if (!opt.ifindex)
		fail(argv[optind]);
}

int main(int argc, char **argv)
{
	uint64_t start_ns = now_ns(CLOCK_MONOTONIC);

	options_parse(argc, argv);
	frame_write();
	for (int i = 0; i < opt.tries; i++) {
		try_once();
		if (now_ns(CLOCK_MONOTONIC) - start_ns > opt.most_ns)
			break;
		if (opt.pause_ns)
			usleep(opt.pause_ns / NS_PER_US);
	}
	printf("{ \"sent\": %ld, \"refused\": %ld, \"longest_us\": %.3f, \"classes\": %ld, \"charge_first\": %d, \"charge_steps\": %d, \"charge_step_max\": %d, \"charge_rises\": %d, \"charge_last\": %d }\n",
	       result.sent, result.refused, result.longest_ns / 1e3, result.classes,
	       result.charge_first, result.charge_steps, result.charge_step_max,
	       result.charge_rises, result.charge_last);
	return 0;
}
