// SPDX-License-Identifier: GPL-2.0-only
/* bpacks: a peer that provokes acknowledgements
 *
 * usage: bpacks TX_NETNS RX_NETNS RXDEV PEER SERVER MAC CONNECTIONS
 *
 * Opens TCP connections from PEER (IPv4), an address that no host has, to a listener at SERVER,
 * MAC, in TX_NETNS. The peer is this program, which writes frames into RXDEV of RX_NETNS and
 * never acknowledges. Says "open" and reads words from stdin:
 *	flood N GAP_US	send N old segments of one byte, one every GAP_US (0: as fast as it
 *			can), on all connections in turn; each is answered with a pure ACK
 *	data N BYTES	N times the server sends that much on each connection
 * Each word is answered with a line when it is done. Ends at the end of stdin with status 0, or
 * with a line that says what failed.
 *
 * An old segment with data is answered always: net.ipv4.tcp_invalid_ratelimit is for those
 * without.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ether.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "netns.h"

#define PORT		7777
#define PEER_PORT	20000	/* of the first connection */
#define PEER_SEQ	1000
#define NEWS		10	/* bytes that make the first one old */
#define TIMEOUT_MS	5000

struct segment {
	struct ether_header eth;
	struct iphdr ip;
	struct tcphdr tcp;
	char payload[NEWS];
} __attribute__((packed));

struct pseudo {
	uint32_t saddr, daddr;
	uint16_t protocol, len;
};

struct connection {
	struct segment old;
	uint32_t server_seq;
	int fd;			/* the server's */
};

static struct connection *connections;
static unsigned int len;
static struct segment template;
static int frames;		/* packet socket in RX_NETNS */

static void fail(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

/* Of 16 bit words; the sum of several parts whose lengths are even. */
static uint32_t sum_words(uint32_t sum, const void *data, size_t bytes)
{
	const uint8_t *p = data;

	for (; bytes > 1; bytes -= 2, p += 2)
		sum += (p[0] << 8) | p[1];
	return bytes ? sum + (p[0] << 8) : sum;
}

static uint16_t sum_fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons(~sum);
}

/* The peer's segment at @seq with @bytes of data. */
static struct segment segment_of(unsigned int connection, uint32_t seq, uint32_t ack, bool is_syn,
				 unsigned int bytes)
{
	uint16_t tcp_len = sizeof(struct tcphdr) + bytes;
	struct segment s = template;
	struct pseudo pseudo = {
		.saddr = s.ip.saddr,
		.daddr = s.ip.daddr,
		.protocol = htons(IPPROTO_TCP),
		.len = htons(tcp_len),
	};

	s.ip.tot_len = htons(sizeof(s.ip) + tcp_len);
	s.ip.check = sum_fold(sum_words(0, &s.ip, sizeof(s.ip)));
	s.tcp.source = htons(PEER_PORT + connection);
	s.tcp.dest = htons(PORT);
	s.tcp.seq = htonl(seq);
	s.tcp.ack_seq = htonl(ack);
	s.tcp.doff = sizeof(s.tcp) / 4;
	s.tcp.syn = is_syn;
	s.tcp.ack = !is_syn;
	s.tcp.psh = bytes > 0;
	s.tcp.window = htons(60000);
	s.tcp.check = sum_fold(sum_words(sum_words(0, &pseudo, sizeof(pseudo)), &s.tcp, tcp_len));
	return s;
}

/* A full queue of the link is waited for. */
static void segment_send(const struct segment *s)
{
	size_t bytes = sizeof(s->eth) + ntohs(s->ip.tot_len);

	while (send(frames, s, bytes, 0) < 0)
		if (errno != ENOBUFS && errno != EAGAIN)
			fail("send");
}

static int listener_open(const char *server)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

	if (inet_pton(AF_INET, server, &at.sin_addr) != 1)
		fail(server);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, len))
		fail("listener");
	return fd;
}

/* Protocol 0 receives nothing. */
static int packet_open(const char *dev, uint16_t protocol)
{
	struct sockaddr_ll at = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(protocol),
		.sll_ifindex = if_nametoindex(dev),
	};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (fd < 0 || !at.sll_ifindex || bind(fd, (struct sockaddr *)&at, sizeof(at)))
		fail(dev);
	return fd;
}

static void template_make(const char *peer, const char *server, const char *mac)
{
	if (!ether_aton_r(mac, (struct ether_addr *)template.eth.ether_dhost))
		fail(mac);
	template.eth.ether_type = htons(ETHERTYPE_IP);
	template.ip.version = 4;
	template.ip.ihl = 5;
	template.ip.ttl = 64;
	template.ip.protocol = IPPROTO_TCP;
	if (inet_pton(AF_INET, peer, &template.ip.saddr) != 1 ||
	    inet_pton(AF_INET, server, &template.ip.daddr) != 1)
		fail("address");
}

/* What the server will expect to be acknowledged. */
static uint32_t syn_ack_receive(int fd, unsigned int connection)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	char frame[2048];
	struct segment *s = (struct segment *)frame;

	for (;;) {
		if (poll(&pfd, 1, TIMEOUT_MS) <= 0)
			fail("no SYN-ACK");
		if (recv(fd, frame, sizeof(frame), 0) < (ssize_t)(sizeof(*s) - NEWS))
			continue;
		if (s->eth.ether_type == htons(ETHERTYPE_IP) && s->ip.protocol == IPPROTO_TCP &&
		    s->tcp.dest == htons(PEER_PORT + connection) && s->tcp.syn && s->tcp.ack)
			break;
	}
	return ntohl(s->tcp.seq) + 1;
}

static void connection_open(struct connection *c, unsigned int connection, int listener, int fd)
{
	struct segment s = segment_of(connection, PEER_SEQ, 0, true, 0);
	int on = 1;

	segment_send(&s);
	c->server_seq = syn_ack_receive(fd, connection);
	s = segment_of(connection, PEER_SEQ + 1, c->server_seq, false, 0);
	segment_send(&s);
	c->fd = accept(listener, NULL, NULL);
	if (c->fd < 0 || setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		fail("accept");
	s = segment_of(connection, PEER_SEQ + 1, c->server_seq, false, NEWS);
	segment_send(&s);
	c->old = segment_of(connection, PEER_SEQ + 1, c->server_seq, false, 1);
}

static void open_all(char **argv)
{
	int listener, fd, on = 1;

	if (netns_enter(argv[1]))
		fail(argv[1]);
	connections = calloc(len, sizeof(*connections));
	listener = listener_open(argv[5]);
	if (!connections || netns_enter(argv[2]))
		fail(argv[2]);
	frames = packet_open(argv[3], 0);
	setsockopt(frames, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on));
	fd = packet_open(argv[3], ETH_P_ALL);
	template_make(argv[4], argv[5], argv[6]);
	for (unsigned int i = 0; i < len; i++)
		connection_open(&connections[i], i, listener, fd);
	close(fd);
	close(listener);
}

static void flood(unsigned int segments, unsigned int gap_us)
{
	uint64_t next_ns = clock_now_ns();

	for (unsigned int i = 0; i < segments; i++) {
		segment_send(&connections[i % len].old);
		next_ns += gap_us * CLOCK_NS_PER_US;
		if (gap_us && clock_now_ns() < next_ns)
			clock_sleep_until(next_ns);
	}
}

static void data(unsigned int times, unsigned int bytes)
{
	char *payload = calloc(1, bytes);

	for (unsigned int i = 0; i < times * len; i++)
		if (send(connections[i % len].fd, payload, bytes, 0) != (ssize_t)bytes)
			fail("data");
	free(payload);
}

/* With a reset, so that nobody sends to the peer any more. */
static void close_all(void)
{
	struct linger now = { .l_onoff = 1 };

	for (unsigned int i = 0; i < len; i++) {
		setsockopt(connections[i].fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		close(connections[i].fd);
	}
}

int main(int argc, char **argv)
{
	unsigned int n, arg;
	char word[16];

	setlinebuf(stdout);
	if (argc != 8 || !(len = strtoul(argv[7], NULL, 10))) {
		puts("usage: bpacks TX_NETNS RX_NETNS RXDEV PEER SERVER MAC CONNECTIONS");
		return 2;
	}
	prctl(PR_SET_TIMERSLACK, 1UL);
	open_all(argv);
	puts("open");
	while (scanf("%15s %u %u", word, &n, &arg) == 3) {
		if (!strcmp(word, "flood"))
			flood(n, arg);
		else if (!strcmp(word, "data"))
			data(n, arg);
		else
			printf("no word %s\n", word);
		printf("%s %u\n", word, n);
	}
	close_all();
	return 0;
}
