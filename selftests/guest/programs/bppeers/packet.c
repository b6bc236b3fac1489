// SPDX-License-Identifier: GPL-2.0-only
/* Addresses, headers and packets. */
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <string.h>

#include "bppeers.h"
#include "udp.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT	103
#endif
#define PORT		1024

static uint32_t peer_ipv4(const struct sender *s, unsigned int peer)
{
	return htonl(0x0a640001 + peer / s->ports);
}

static uint16_t peer_port(const struct sender *s, unsigned int peer)
{
	return htons(PORT + peer % s->ports);
}

socklen_t peer_address(const struct sender *s, unsigned int peer,
			      struct sockaddr_storage *to)
{
	uint16_t port = s->kind->type == SOCK_DGRAM ? peer_port(s, peer) : 0;
	struct sockaddr_in6 *to6 = (void *)to;
	struct sockaddr_in *to4 = (void *)to;
	struct sockaddr_ll *ll = (void *)to;
	uint32_t number = htonl(1 + peer / s->ports);

	memset(to, 0, sizeof(*to));
	to->ss_family = s->kind->family;
	switch (s->kind->family) {
	case AF_INET:
		to4->sin_port = port;
		to4->sin_addr.s_addr = peer_ipv4(s, peer);
		return sizeof(*to4);
	case AF_INET6:
		to6->sin6_port = port;
		to6->sin6_addr.s6_addr[0] = 0xfd;
		to6->sin6_addr.s6_addr[1] = 0x9a;
		memcpy(to6->sin6_addr.s6_addr + 12, &number, sizeof(number));
		return sizeof(*to6);
	}
	ll->sll_protocol = htons(ETH_P_IP);
	ll->sll_ifindex = tx_ifindex;
	ll->sll_halen = ETH_ALEN;
	memcpy(ll->sll_addr, "\x02\0\0\0\0\x01", ETH_ALEN);
	return sizeof(*ll);
}

static uint8_t *put_ethernet(uint8_t *at, const struct sender *s)
{
	struct ether_header h = {
		.ether_shost = { 2, 0, 0, 0, s - senders, 2 },
		.ether_type = htons(ETH_P_IP),
	};

	memcpy(h.ether_dhost, s->mac, sizeof(s->mac));
	memcpy(at, &h, sizeof(h));
	return at + sizeof(h);
}

static uint16_t checksum(const void *from, size_t bytes)
{
	const uint16_t *word = from;
	uint32_t sum = 0;

	for (; bytes; bytes -= sizeof(*word))
		sum += *word++;
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16));
}

static uint8_t *put_ipv4(uint8_t *at, const struct sender *s, unsigned int peer,
			 uint8_t protocol, size_t payload)
{
	struct iphdr h = {
		.version = 4,
		.ihl = 5,
		.tot_len = htons(sizeof(h) + payload),
		.ttl = 64,
		.protocol = protocol,
		.saddr = htonl(0x0a630001),
		.daddr = peer_ipv4(s, peer),
	};

	h.check = checksum(&h, sizeof(h));
	memcpy(at, &h, sizeof(h));
	return at + sizeof(h);
}

static uint8_t *put_udp(uint8_t *at, const struct sender *s, unsigned int peer)
{
	struct udphdr h = {
		.source = htons(PORT + (s - senders)),
		.dest = peer_port(s, peer),
		.len = htons(sizeof(h) + s->size),
	};

	memcpy(at, &h, sizeof(h));
	return at + sizeof(h);
}

/* Returns where the payload goes. */
static uint8_t *put_headers(uint8_t *at, const struct sender *s, unsigned int peer)
{
	const struct kind *k = s->kind;

	memset(at, 0, k->header);
	if (k->family == AF_PACKET) {
		if (k->type == SOCK_RAW)
			at = put_ethernet(at, s);
		at = put_ipv4(at, s, peer, IPPROTO_UDP, sizeof(struct udphdr) + s->size);
		return put_udp(at, s, peer);
	}
	if (k->protocol == IPPROTO_RAW)
		return put_ipv4(at, s, peer, IPPROTO_OURS, s->size);
	if (k->header)		/* an echo request */
		*at = k->protocol == IPPROTO_ICMP ? 8 : 128;
	return at + k->header;
}

/* A packet to @peer, of the numbering over all sockets, which are connected or not. */
void packet_make(struct packet *p, struct sender *s, unsigned int peer,
			bool is_connected, uint64_t due_ns)
{
	uint16_t segment = s->size;
	uint8_t *payload = put_headers(p->data, s, peer);

	p->message = (struct message *)payload;
	*p->message = (struct message){
		.magic = MAGIC,
		.sender = s - senders,
		.peer = peer,
		.sequence = s->all_peers[peer].sent + 1,
		.due_ns = due_ns,
	};
	for (unsigned int i = 1; i < s->gso; i++) {
		struct message *m = (void *)(payload + i * s->size);

		*m = *p->message;
		m->sequence += i;
	}
	p->iov = (struct iovec){ p->data, payload - p->data + s->gso * s->size };
	p->msg = (struct msghdr){ .msg_iov = &p->iov, .msg_iovlen = 1 };
	if (!is_connected || s->kind->family == AF_PACKET) {
		p->msg.msg_name = &p->to;
		p->msg.msg_namelen = peer_address(s, peer, &p->to);
	}
	if (due_ns)
		udp_control(&p->msg, p->control, SOL_SOCKET, SCM_TXTIME, &due_ns,
			    sizeof(due_ns));
	else if (s->gso > 1)
		udp_control(&p->msg, p->control, SOL_UDP, UDP_SEGMENT, &segment,
			    sizeof(segment));
}
