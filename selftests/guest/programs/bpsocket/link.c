// SPDX-License-Identifier: GPL-2.0-only
/* What only packet sockets, AF_XDP and taps can do. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <linux/virtio_net.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bpsocket.h"

#ifndef PACKET_QDISC_BYPASS
#define PACKET_QDISC_BYPASS 20
#endif

#ifndef AF_XDP
#define AF_XDP 44
#endif
#ifndef SOL_XDP
#define SOL_XDP 283
#endif

#define FRAMES		64	/* in the transmit ring */
#define FRAME		2048	/* bytes */
#define HEADER		TPACKET_ALIGN(sizeof(struct tpacket2_hdr))
#define UNSHAPED	200	/* packets; more than a shaper's share */
#define GSO_PAYLOAD	14000
#define GSO_SIZE	1400
#define GSO_PACKETS	24

static void set_bypass(int fd, int on)
{
	must(!setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)),
	     "PACKET_QDISC_BYPASS");
}

/* Past the shaper no packet waits, unless the socket is throttled for others that
 * went through it.
 */
static void bypass(int fd)
{
	int peer = open_receiver();

	set_bypass(fd, 1);
	for (int i = 0; i < UNSHAPED; i++)
		must(put(fd, MSG_DONTWAIT) == PAYLOAD, "send past the shaper");
	if (charge(fd))
		fail("the socket is charged %d bytes", charge(fd));
	set_bypass(fd, 0);
	fill(fd);
	set_bypass(fd, 1);
	if (put(fd, MSG_DONTWAIT) >= 0 || errno != EAGAIN)
		fail("a throttled socket took another packet");
	must(put(fd, 0) == PAYLOAD, "blocking send");
	receive_all(peer, self.sent, PAYLOAD);
	wait_until_drained(fd);
}

static char *ring_open(int fd)
{
	struct tpacket_req req = {
		.tp_block_size = FRAMES * FRAME,
		.tp_block_nr = 1,
		.tp_frame_size = FRAME,
		.tp_frame_nr = FRAMES,
	};
	int version = TPACKET_V2;
	char *ring;

	must(!setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version,
			 sizeof(version)) &&
	     !setsockopt(fd, SOL_PACKET, PACKET_TX_RING, &req, sizeof(req)),
	     "PACKET_TX_RING");
	ring = mmap(NULL, FRAMES * FRAME, PROT_READ | PROT_WRITE, MAP_SHARED,
		    fd, 0);
	must(ring != MAP_FAILED, "mmap");
	return ring;
}

static __u32 *ring_status(char *ring, int frame)
{
	return &((struct tpacket2_hdr *)(ring + frame * FRAME))->tp_status;
}

static void ring_fill(char *ring)
{
	for (int i = 0; i < FRAMES; i++) {
		struct tpacket2_hdr *header = (void *)(ring + i * FRAME);

		if (header->tp_status != TP_STATUS_AVAILABLE)
			fail("frame %d has status %u", i, header->tp_status);
		mark(packet, self.sent++);
		memcpy(ring + i * FRAME + HEADER, packet, PAYLOAD);
		header->tp_len = PAYLOAD;
		__sync_synchronize();
		header->tp_status = TP_STATUS_SEND_REQUEST;
	}
}

/* How many frames the kernel still has, in the ring or on their way. */
static int ring_pending(char *ring)
{
	int pending = 0;

	for (int i = 0; i < FRAMES; i++)
		pending += *(volatile __u32 *)ring_status(ring, i) !=
			TP_STATUS_AVAILABLE;
	return pending;
}

/* The kernel takes what fits and says EAGAIN; then it is asked to take all. */
static void ring(int fd)
{
	int peer = open_receiver(), waits = 0;
	char *ring = ring_open(fd);
	long before;

	ring_fill(ring);
	for (int ms = 0; ring_pending(ring); ms++) {
		if (ms > LONG_MS)
			fail("%d frames were never sent", ring_pending(ring));
		if (send(fd, NULL, 0, MSG_DONTWAIT) < 0) {
			must(errno == EAGAIN, "send");
			waits++;
		}
		usleep(1000);
	}
	if (!waits)
		fail("the socket was not throttled");

	ring_fill(ring);
	before = sleeps_so_far();
	must(send(fd, NULL, 0, 0) == FRAMES * PAYLOAD, "blocking send");
	if (ring_pending(ring))
		fail("%d frames were not sent", ring_pending(ring));
	if (sleeps_so_far() == before)
		fail("send() did not have to wait");
	receive_all(peer, self.sent, PAYLOAD);
	wait_until_drained(fd);
}

/* A socket of AF_XDP needs these rings even if it only sends; returns its memory. */
static char *xdp_open(int fd)
{
	struct xdp_umem_reg umem = { .len = FRAMES * FRAME, .chunk_size = FRAME };
	static const int rings[] = {
		XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_TX_RING
	};
	int entries = FRAMES;
	char *memory;

	memory = mmap(NULL, FRAMES * FRAME, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(memory != MAP_FAILED, "mmap");
	umem.addr = (uintptr_t)memory;
	must(!setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &umem, sizeof(umem)), "XDP_UMEM_REG");
	for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++)
		must(!setsockopt(fd, SOL_XDP, rings[i], &entries, sizeof(entries)), "rings");
	return memory;
}

/* All frames leave at once: the caller sees that no qdisc has counted them. */
static void xdp(int unused)
{
	struct sockaddr_xdp addr = {
		.sxdp_family = AF_XDP,
		.sxdp_flags = XDP_COPY,
		.sxdp_ifindex = if_nametoindex(self.device),
	};
	int fd = socket(AF_XDP, SOCK_RAW, 0), peer = open_receiver();
	struct xdp_mmap_offsets offsets;
	socklen_t len = sizeof(offsets);
	struct xdp_desc *frames;
	char *memory, *ring;

	(void)unused;
	if (fd < 0)
		lacks("AF_XDP");
	memory = xdp_open(fd);
	must(!getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &len), "XDP_MMAP_OFFSETS");
	ring = mmap(NULL, offsets.tx.desc + FRAMES * sizeof(*frames), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_POPULATE, fd, XDP_PGOFF_TX_RING);
	must(ring != MAP_FAILED && !bind(fd, (struct sockaddr *)&addr, sizeof(addr)), "bind");
	frames = (struct xdp_desc *)(ring + offsets.tx.desc);
	for (; self.sent < FRAMES; self.sent++) {
		mark(packet, self.sent);
		memcpy(memory + self.sent * FRAME, packet, PAYLOAD);
		frames[self.sent] = (struct xdp_desc){ self.sent * FRAME, PAYLOAD, 0 };
	}
	__atomic_store_n((__u32 *)(ring + offsets.tx.producer), FRAMES, __ATOMIC_RELEASE);
	while (*(volatile __u32 *)(ring + offsets.tx.consumer) < FRAMES)
		must(sendto(fd, NULL, 0, MSG_DONTWAIT, NULL, 0) >= 0 || errno == EAGAIN,
		     "send past the qdisc");
	receive_all(peer, self.sent, PAYLOAD);
}

struct gso_frame {
	struct virtio_net_hdr	vnet;
	struct ether_header	eth;
	struct iphdr		ip;
	struct tcphdr		tcp;
	char			data[GSO_PAYLOAD];
} __attribute__((packed));

/* As a guest's TCP hands them to its tap. Checksums are the receiver's to judge, and
 * it is none that would.
 */
static void write_gso_frame(struct gso_frame *f)
{
	size_t headers = sizeof(f->eth) + sizeof(f->ip) + sizeof(f->tcp);

	f->vnet.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
	f->vnet.gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
	f->vnet.hdr_len = headers;
	f->vnet.gso_size = GSO_SIZE;
	f->vnet.csum_start = headers - sizeof(f->tcp);
	f->vnet.csum_offset = offsetof(struct tcphdr, check);
	memcpy(&f->eth, packet, sizeof(f->eth));
	f->eth.ether_type = htons(ETHERTYPE_IP);
	f->ip.version = 4;
	f->ip.ihl = 5;
	f->ip.ttl = 64;
	f->ip.protocol = IPPROTO_TCP;
	f->ip.tot_len = htons(sizeof(*f) - sizeof(f->vnet) - sizeof(f->eth));
	f->ip.saddr = htonl(0xc6336401);	/* 198.51.100.1 */
	f->ip.daddr = htonl(0xc6336402);
	f->tcp.doff = 5;
	f->tcp.ack = 1;
}

static void receive_bytes(int peer, size_t bytes)
{
	static char buffer[65536];
	struct iphdr *ip = (struct iphdr *)buffer;
	size_t got = 0;
	ssize_t len;

	while (got < bytes) {
		len = recv(peer, buffer, sizeof(buffer), 0);
		if (len < 0)
			fail("%zu of %zu bytes arrived", got, bytes);
		if (ip->protocol == IPPROTO_TCP)
			got += ntohs(ip->tot_len) - sizeof(*ip) -
				sizeof(struct tcphdr);
	}
	if (got != bytes)
		fail("%zu bytes arrived, %zu were sent", got, bytes);
}

static void gso(int fd)
{
	static struct gso_frame frame;
	int waits = 0, peer = open_receiver();

	set_nonblocking(fd);
	write_gso_frame(&frame);
	for (int sent = 0; sent < GSO_PACKETS;) {
		if (write(fd, &frame, sizeof(frame)) == sizeof(frame)) {
			sent++;
			continue;
		}
		must(errno == EAGAIN, "write");
		waits++;
		if (!is_writable(fd, LONG_MS))
			fail("poll() never woke");
	}
	if (!waits)
		fail("the tap was not throttled");
	receive_bytes(peer, GSO_PACKETS * GSO_PAYLOAD);
}

const struct bpsocket_case link_cases[] = {
	{ "bypass", bypass },
	{ "ring", ring },
	{ "xdp", xdp },
	{ "gso", gso },
	{ }
};
