// SPDX-License-Identifier: GPL-2.0-only
/* bpbypass: send past the qdiscs of a device
 *
 * usage: bpbypass DEVICE MAC SRC DST SOCKETS SECONDS
 *
 * Sends UDP from SRC to DST (IPv4, to port 9) as fast as it can, in frames of 1442 bytes to
 * MAC, by packet sockets that have PACKET_QDISC_BYPASS: the driver gets them at once, whatever
 * qdisc the device has. That needs CAP_NET_RAW. Prints how many were sent.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ether.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"

#define SOCKETS_MAX	64
#define PAYLOAD		1400

struct frame {
	struct ether_header eth;
	struct iphdr ip;
	struct udphdr udp;
	char payload[PAYLOAD];
} __attribute__((packed));

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static uint16_t checksum(const void *ip)
{
	const uint8_t *byte = ip;
	uint32_t sum = 0;

	for (size_t i = 0; i < sizeof(struct iphdr); i += 2)
		sum += byte[i] << 8 | byte[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons(~sum);
}

static void frame_make(struct frame *f, const char *mac, const char *src, const char *dst)
{
	struct ether_addr *to = ether_aton(mac);

	if (!to)
		fail(mac);
	memcpy(f->eth.ether_dhost, to, ETH_ALEN);
	f->eth.ether_type = htons(ETHERTYPE_IP);
	f->ip.version = 4;
	f->ip.ihl = sizeof(f->ip) / 4;
	f->ip.ttl = 64;
	f->ip.protocol = IPPROTO_UDP;
	f->ip.tot_len = htons(sizeof(*f) - sizeof(f->eth));
	if (inet_pton(AF_INET, src, &f->ip.saddr) != 1 || inet_pton(AF_INET, dst, &f->ip.daddr) != 1)
		fail("an address");
	f->ip.check = checksum(&f->ip);
	f->udp.source = f->udp.dest = htons(9);
	f->udp.len = htons(sizeof(f->udp) + PAYLOAD);
}

static int socket_open(const char *device, struct frame *f)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_ifindex = if_nametoindex(device) };
	int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1;
	struct ifreq ifr = { 0 };

	strncpy(ifr.ifr_name, device, sizeof(ifr.ifr_name) - 1);
	if (fd < 0 || bind(fd, (struct sockaddr *)&to, sizeof(to)) || ioctl(fd, SIOCGIFHWADDR, &ifr))
		fail("packet socket");
	if (setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one)))
		fail("PACKET_QDISC_BYPASS");
	memcpy(f->eth.ether_shost, ifr.ifr_hwaddr.sa_data, ETH_ALEN);
	return fd;
}

/* One frame by each socket that has room; returns how many were sent. */
static unsigned int round_send(struct pollfd *fds, int sockets, const struct frame *f)
{
	unsigned int sent = 0;

	for (int i = 0; i < sockets; i++) {
		if (send(fds[i].fd, f, sizeof(*f), MSG_DONTWAIT) == sizeof(*f))
			sent++;
		else if (errno != EAGAIN && errno != ENOBUFS)
			fail("send");
	}
	return sent;
}

int main(int argc, char **argv)
{
	static struct frame frame;
	struct pollfd fds[SOCKETS_MAX];
	unsigned long total = 0;
	uint64_t end;
	int sockets;

	if (argc != 7)
		fail("usage: bpbypass DEVICE MAC SRC DST SOCKETS SECONDS");
	sockets = atoi(argv[5]);
	if (sockets < 1 || sockets > SOCKETS_MAX)
		fail("SOCKETS");
	frame_make(&frame, argv[2], argv[3], argv[4]);
	for (int i = 0; i < sockets; i++)
		fds[i] = (struct pollfd){ socket_open(argv[1], &frame), POLLOUT, 0 };
	end = clock_now_ns() + (uint64_t)(atof(argv[6]) * CLOCK_NS_PER_S);
	while (clock_now_ns() < end) {
		unsigned int sent = round_send(fds, sockets, &frame);

		total += sent;
		if (!sent)
			poll(fds, sockets, 10);
	}
	printf("%lu\n", total);
	return 0;
}
