// SPDX-License-Identifier: GPL-2.0-only
/* Kinds of sockets, and the receivers of what they send. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/ip_icmp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

#include "bpsocket.h"

#ifndef IPPROTO_UDPLITE
#define IPPROTO_UDPLITE 136
#endif

#define FORWARDING	3	/* BR_STATE_FORWARDING of linux/if_bridge.h */
#define IPPROTO_EXPERIMENT 253	/* RFC 3692 */

#define TAP_SNDBUF	65536

static bool parse_address(const char *dst, struct sockaddr_storage *addr,
			  socklen_t *len)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;
	struct sockaddr_in *in = (struct sockaddr_in *)addr;

	memset(addr, 0, sizeof(*addr));
	if (inet_pton(AF_INET, dst, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons(PORT);
		*len = sizeof(*in);
		return true;
	}
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(PORT);
	*len = sizeof(*in6);
	return inet_pton(AF_INET6, dst, &in6->sin6_addr) == 1;
}

static int open_frames(const char *device)
{
	struct sockaddr_ll addr = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(FRAME_TYPE),
		.sll_ifindex = if_nametoindex(device),
	};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	must(fd >= 0 && !bind(fd, (struct sockaddr *)&addr, sizeof(addr)),
	     "packet socket");
	return fd;
}

/* To an address that nobody has. Not to all: a bridge that takes a frame for itself
 * as well passes on a clone, and a clone has no socket.
 */
static void write_ethernet_header(void)
{
	struct ether_header *eth = (struct ether_header *)packet;

	memcpy(eth->ether_dhost, "\x02\0\0\0\0\x99", ETH_ALEN);
	memcpy(eth->ether_shost, "\x02\0\0\0\0\x88", ETH_ALEN);
	eth->ether_type = htons(FRAME_TYPE);
}

/* A bridge learns only later, at most once a second, that a port has a carrier. Until then it
 * drops what comes.
 */
static void wait_for_bridge(const char *device)
{
	char path[100];
	int state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/net/%s/brport/state", device);
	for (int ms = 0; ms < LONG_MS && state != FORWARDING; ms++) {
		file = fopen(path, "r");
		must(file && fscanf(file, "%d", &state) == 1, path);
		fclose(file);
		usleep(1000);
	}
	if (state != FORWARDING)
		fail("the bridge does not forward what comes from %s", device);
}

/* The tap exists; it has no send buffer unless it gets one. */
static int open_tap(const char *device, short flags, int bytes)
{
	struct ifreq ifr = { .ifr_flags = IFF_TAP | IFF_NO_PI | flags };
	int fd = open("/dev/net/tun", O_RDWR);

	must(fd >= 0, "/dev/net/tun");
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", device);
	must(!ioctl(fd, TUNSETIFF, &ifr), "TUNSETIFF");
	must(!bytes || !ioctl(fd, TUNSETSNDBUF, &bytes), "TUNSETSNDBUF");
	wait_for_bridge(device);
	return fd;
}

/* The header is ours to write, up to what the kernel fills in. */
static int open_hdrincl(void)
{
	struct ip6_hdr *ip6 = (struct ip6_hdr *)packet;
	struct iphdr *ip = (struct iphdr *)packet;

	if (self.addr.ss_family == AF_INET) {
		ip->version = 4;
		ip->ihl = 5;
		ip->ttl = 64;
		ip->protocol = IPPROTO_EXPERIMENT;
		ip->daddr = ((struct sockaddr_in *)&self.addr)->sin_addr.s_addr;
	} else {
		ip6->ip6_flow = htonl(6 << 28);
		ip6->ip6_plen = htons(PAYLOAD - sizeof(*ip6));
		ip6->ip6_nxt = IPPROTO_EXPERIMENT;
		ip6->ip6_hlim = 64;
		ip6->ip6_dst = ((struct sockaddr_in6 *)&self.addr)->sin6_addr;
	}
	return socket(self.addr.ss_family, SOCK_RAW, IPPROTO_RAW);
}

static int open_inet(void)
{
	int family = self.addr.ss_family;
	bool is_v6 = family == AF_INET6;

	if (!strcmp(self.type, "udp"))
		return socket(family, SOCK_DGRAM, 0);
	if (!strcmp(self.type, "udplite"))
		return socket(family, SOCK_DGRAM, IPPROTO_UDPLITE);
	if (!strcmp(self.type, "ping")) {
		packet[0] = is_v6 ? (char)ICMP6_ECHO_REQUEST : ICMP_ECHO;
		return socket(family, SOCK_DGRAM,
			      is_v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP);
	}
	if (!strcmp(self.type, "raw"))
		return socket(family, SOCK_RAW, IPPROTO_EXPERIMENT);
	if (!strcmp(self.type, "hdrincl"))
		return open_hdrincl();
	fail("unknown type %s", self.type);
}

int open_socket(void)
{
	int fd;

	write_ethernet_header();
	if (!strcmp(self.type, "packet"))
		return open_frames(self.device);
	if (!strcmp(self.type, "tap"))
		return open_tap(self.device, 0, TAP_SNDBUF);
	if (!strcmp(self.type, "tap-unbounded"))
		return open_tap(self.device, 0, 0);
	if (!strcmp(self.type, "tap-gso"))
		return open_tap(self.device, IFF_VNET_HDR, TAP_SNDBUF);
	memset(packet, 0, sizeof(packet));
	must(parse_address(self.dst, &self.addr, &self.addr_len), self.dst);
	if (is_stream_type(self.type))
		return open_stream();
	fd = open_inet();
	if (fd < 0 && errno == EPROTONOSUPPORT)
		lacks(self.type);
	must(fd >= 0, "socket");
	must(!connect(fd, (struct sockaddr *)&self.addr, self.addr_len),
	     "connect");
	return fd;
}

static int open_datagrams(void)
{
	int fd = socket(self.addr.ss_family, SOCK_DGRAM, 0);
	struct sockaddr_storage any = {
		.ss_family = self.addr.ss_family
	};

	((struct sockaddr_in *)&any)->sin_port = htons(PORT);
	must(fd >= 0 && !bind(fd, (struct sockaddr *)&any, self.addr_len),
	     "receiver");
	return fd;
}

int open_receiver(void)
{
	struct timeval timeout = { .tv_sec = LONG_MS / 1000 };
	int fd, room = 1 << 26, home = netns_enter(self.netns);

	if (self.addr_len)
		fd = open_datagrams();
	else if (!strcmp(self.type, "tap-gso"))
		fd = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_IP));
	else
		fd = open_frames("rxdev");
	netns_return(home);
	must(fd >= 0 &&
	     !setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) &&
	     !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)),
	     "receiver");
	return fd;
}

/* Packets with marks from 0 to @count - 1 arrive, whole and once. */
void receive_all(int peer, int count, size_t bytes)
{
	bool *seen = calloc(count, sizeof(*seen));
	static char buffer[65536];
	__u32 number;
	ssize_t len;

	for (int i = 0; i < count; i++) {
		len = recv(peer, buffer, sizeof(buffer), 0);
		if (len < 0)
			fail("%d of %d packets arrived", i, count);
		if (len != (ssize_t)bytes)
			fail("%zd of %zu bytes arrived", len, bytes);
		memcpy(&number, buffer + MARK_AT, sizeof(number));
		number = ntohl(number);
		if (number >= (__u32)count || seen[number])
			fail("packet %u arrived twice, or was never sent",
			     number);
		seen[number] = true;
	}
	free(seen);
}
