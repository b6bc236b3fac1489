// SPDX-License-Identifier: GPL-2.0-only
/* bppeers: sockets with many peers, and what each peer gets
 *
 * usage: bppeers TX_NETNS TX_DEVICE RX_NETNS RX_DEVICE SECONDS WARMUP_MS SENDER...
 *
 * SENDER is NAME:KIND[,OPTION[=VALUE]]... KIND is a kind of socket:
 *	udp, udp6, udplite, udplite6, ping, ping6
 *	hdrincl		raw, with an IPv4 header of its own, protocol 253
 *	icmp, raw6	raw, of ICMP and of IPv6 with protocol 253
 *	packet, dgram	packet sockets, with and without the Ethernet header; both
 *			send IPv4 and UDP
 * OPTION is one of
 *	sockets=N	1
 *	peers=N		of each socket, 1; a socket of one peer is connected
 *	ports=N		peers of one address, all; others are at the next addresses
 *	size=BYTES	of the payload, 1470, or 1450 with IPv6
 *	sndbuf=BYTES	(SO_SNDBUFFORCE)
 *	poll		MSG_DONTWAIT and poll() instead of blocking
 *	gso=N		packets in one sendmsg() (UDP_SEGMENT), of one peer
 *	every=US	one packet in that time, for which delays are reported
 *	due=MS		before all others a packet to peer 0 that leaves in MS (SO_TXTIME)
 *	reconnect=N	N packets to all peers, and then connect to one peer, to the next,
 *			and to none, in the midst of traffic
 *	disconnected	as after connect() and connect(AF_UNSPEC), once
 *	list=PEER[@MS]/PEER[@MS]/...
 *			these packets and no others, in one sendmmsg(), with their times
 * A socket sends to its peers in turn, as fast as it can. Addresses are those from
 * 10.100.0.1 and fd9a::1, to which there must be a route; nobody need answer there.
 * Lists and the packets of due= are sent before everything else, in the order of the
 * arguments.
 *
 * What arrives is seen by a packet socket on RX_DEVICE. Prints one JSON object. Of each
 * sender, as NAME_KEY:
 *	sent, lost, reordered	packets; reordered is within a peer
 *	mbit, part		after the warm-up, of the wire and of all that senders
 *				without every= and list= have
 *	reached			peers that got anything after the warm-up
 *	least, most, jain	packets of a peer then, of those of all sockets
 *	delay_p50_ms, delay_p99_ms, delay_max_ms
 *				of packets without a time
 *	due_early, due_late_ms	of packets with one: packets, and the most
 *	order, times_ms		of a list: indices as they arrived, and when
 *	no_buffers		times that ENOBUFS was returned, and the sender slept 1 ms
 * and of all without every= and list=: mbit, jain.
 * Exits with 3 if the kernel has no such kind of socket.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "netns.h"
#include "udp.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT	103
#endif
#define IPPROTO_OURS	253
#define MAGIC		0x62707065
#define PORT		1024
#define BUFFER		65536
#define BATCH		64
#define LIST_MAX	16
#define SENDERS_MAX	8
#define QUIET_NS	(500 * CLOCK_NS_PER_MS)
#define FETCH_NS	(2 * CLOCK_NS_PER_MS)
#define RCVBUF		(256 << 20)

struct kind {
	const char *name;
	int family, type, protocol;
	size_t header;			/* that the sender puts before the payload */
};

static const struct kind kinds[] = {
	{ "udp", AF_INET, SOCK_DGRAM, 0, 0 },
	{ "udp6", AF_INET6, SOCK_DGRAM, 0, 0 },
	{ "udplite", AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE, 0 },
	{ "udplite6", AF_INET6, SOCK_DGRAM, IPPROTO_UDPLITE, 0 },
	{ "ping", AF_INET, SOCK_DGRAM, IPPROTO_ICMP, 8 },
	{ "ping6", AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6, 8 },
	{ "icmp", AF_INET, SOCK_RAW, IPPROTO_ICMP, 8 },
	{ "raw6", AF_INET6, SOCK_RAW, IPPROTO_OURS, 0 },
	{ "hdrincl", AF_INET, SOCK_RAW, IPPROTO_RAW, 20 },
	{ "packet", AF_PACKET, SOCK_RAW, 0, 14 + 20 + 8 },
	{ "dgram", AF_PACKET, SOCK_DGRAM, 0, 20 + 8 },
};

/* At the start of each payload. */
struct message {
	uint32_t magic;
	uint32_t sender;
	uint32_t peer;
	uint32_t sequence;		/* of the peer, or the index in a list */
	uint64_t sent_ns;
	uint64_t due_ns;		/* or 0 */
} __attribute__((packed));

struct peer {
	uint32_t sent;
	uint32_t last;
	uint32_t packets;		/* after the warm-up */
};

struct sender {
	char name[24];
	const struct kind *kind;
	unsigned int sockets, peers, ports, gso, list_len;
	size_t size;
	int sndbuf;
	uint64_t every_ns, due_ns;
	unsigned int first;		/* packets before it reconnects, and 1; 0: it does not */
	bool polls, is_disconnected;
	struct { unsigned int peer; uint64_t after_ns; } list[LIST_MAX];
	struct peer *all_peers;		/* of one socket after the other */
	int *fds;

	_Atomic uint64_t sent, no_buffers;
	uint64_t received, reordered, bytes, due_early;
	int64_t due_late_ns, *delays_ns, arrived_ns[LIST_MAX];
	unsigned int delays, room, order[LIST_MAX], arrived;
};

struct task {
	struct sender *sender;
	unsigned int socket;
	pthread_t thread;
};

static struct sender senders[SENDERS_MAX];
static unsigned int senders_len;
static unsigned int tx_ifindex;
static uint64_t start_ns, warm_ns, end_ns;
static _Atomic unsigned int running;

static void fail(const char *what)
{
	int status = errno == EPROTONOSUPPORT || errno == ESOCKTNOSUPPORT ? 3 : 2;

	fprintf(stderr, "bppeers: %s: %s\n", what, strerror(errno));
	exit(status);
}

static void *allocate(size_t count, size_t size)
{
	void *p = calloc(count, size);

	if (!p)
		fail("calloc");
	return p;
}

static bool is_measured(const struct sender *s)
{
	return !s->every_ns && !s->list_len;
}

/* Arguments */

static void list_parse(struct sender *s, char *value)
{
	char *save, *item, *at;

	for (item = strtok_r(value, "/", &save); item && s->list_len < LIST_MAX;
	     item = strtok_r(NULL, "/", &save)) {
		at = strchr(item, '@');
		s->list[s->list_len].peer = strtoul(item, NULL, 10);
		if (at)
			s->list[s->list_len].after_ns = atof(at + 1) * CLOCK_NS_PER_MS;
		s->list_len++;
	}
}

static bool option_parse(struct sender *s, const char *key, char *value)
{
	unsigned long number = value ? strtoul(value, NULL, 10) : 0;

	if (!strcmp(key, "sockets"))
		s->sockets = number;
	else if (!strcmp(key, "peers"))
		s->peers = number;
	else if (!strcmp(key, "ports"))
		s->ports = number;
	else if (!strcmp(key, "size"))
		s->size = number;
	else if (!strcmp(key, "sndbuf"))
		s->sndbuf = number;
	else if (!strcmp(key, "gso"))
		s->gso = number;
	else if (!strcmp(key, "every"))
		s->every_ns = number * CLOCK_NS_PER_US;
	else if (!strcmp(key, "due"))
		s->due_ns = number * CLOCK_NS_PER_MS;
	else if (!strcmp(key, "poll"))
		s->polls = true;
	else if (!strcmp(key, "disconnected"))
		s->is_disconnected = true;
	else if (!strcmp(key, "list") && value)
		list_parse(s, value);
	else if (!strcmp(key, "reconnect"))
		s->first = 1 + number;
	else
		return false;
	return true;
}

static void sender_parse(struct sender *s, char *arg)
{
	char *save, *word = strtok_r(arg, ":", &save), *value;

	*s = (struct sender){ .sockets = 1, .peers = 1, .gso = 1 };
	snprintf(s->name, sizeof(s->name), "%s", word ? word : "");
	errno = EINVAL;
	word = strtok_r(NULL, ",", &save);
	for (unsigned int i = 0; word && i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kinds[i].name, word))
			s->kind = &kinds[i];
	if (!s->kind)
		fail("no such kind");
	while ((word = strtok_r(NULL, ",", &save))) {
		value = strchr(word, '=');
		if (value)
			*value++ = 0;
		if (!option_parse(s, word, value))
			fail(word);
	}
	if (!s->size)
		s->size = s->kind->family == AF_INET6 ? 1450 : 1470;
	if (!s->ports)
		s->ports = s->sockets * s->peers;
	if (!s->peers || s->size < sizeof(struct message) || s->size * s->gso > BUFFER - 64)
		fail(s->name);
	s->all_peers = allocate(s->sockets * s->peers, sizeof(*s->all_peers));
	s->fds = allocate(s->sockets, sizeof(*s->fds));
}

/* Addresses and headers */

static uint32_t peer_ipv4(const struct sender *s, unsigned int peer)
{
	return htonl(0x0a640001 + peer / s->ports);
}

static uint16_t peer_port(const struct sender *s, unsigned int peer)
{
	return htons(PORT + peer % s->ports);
}

static socklen_t peer_address(const struct sender *s, unsigned int peer,
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

static uint8_t *put_ethernet(uint8_t *at)
{
	struct ether_header h = {
		.ether_dhost = { 2, 0, 0, 0, 0, 1 },
		.ether_shost = { 2, 0, 0, 0, 0, 2 },
		.ether_type = htons(ETH_P_IP),
	};

	memcpy(at, &h, sizeof(h));
	return at + sizeof(h);
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

	memcpy(at, &h, sizeof(h));
	return at + sizeof(h);
}

static uint8_t *put_udp(uint8_t *at, const struct sender *s, unsigned int peer)
{
	struct udphdr h = {
		.source = htons(PORT),
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
			at = put_ethernet(at);
		at = put_ipv4(at, s, peer, IPPROTO_UDP, sizeof(struct udphdr) + s->size);
		return put_udp(at, s, peer);
	}
	if (k->protocol == IPPROTO_RAW)
		return put_ipv4(at, s, peer, IPPROTO_OURS, s->size);
	if (k->header)		/* an echo request */
		*at = k->protocol == IPPROTO_ICMP ? 8 : 128;
	return at + k->header;
}

/* Sending */

struct packet {
	struct sockaddr_storage to;
	struct iovec iov;
	struct msghdr msg;
	struct message *message;
	char control[CMSG_SPACE(sizeof(uint64_t))];
	uint8_t data[BUFFER];
};

static void packet_control(struct packet *p, int level, int type, const void *value, size_t len)
{
	struct cmsghdr *cmsg;

	memset(p->control, 0, sizeof(p->control));
	p->msg.msg_control = p->control;
	p->msg.msg_controllen = CMSG_SPACE(len);
	cmsg = CMSG_FIRSTHDR(&p->msg);
	cmsg->cmsg_level = level;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(cmsg), value, len);
}

/* A packet to @peer, of the numbering over all sockets, which are connected or not. */
static void packet_make(struct packet *p, struct sender *s, unsigned int peer,
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
	if (!is_connected) {
		p->msg.msg_name = &p->to;
		p->msg.msg_namelen = peer_address(s, peer, &p->to);
	}
	if (due_ns)
		packet_control(p, SOL_SOCKET, SCM_TXTIME, &due_ns, sizeof(due_ns));
	else if (s->gso > 1)
		packet_control(p, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment));
}

static void packet_account(struct packet *p, struct sender *s)
{
	s->all_peers[p->message->peer].sent += s->gso;
	atomic_fetch_add(&s->sent, s->gso);
}

static void packet_send(struct packet *p, struct sender *s, int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };

	p->message->sent_ns = clock_now_ns();
	while (sendmsg(fd, &p->msg, s->polls ? MSG_DONTWAIT : 0) < 0) {
		if (errno == EAGAIN) {
			poll(&pfd, 1, -1);
		} else if (errno == ENOBUFS) {
			atomic_fetch_add(&s->no_buffers, 1);
			usleep(1000);
		} else {
			fail(s->name);
		}
	}
	packet_account(p, s);
}

static void peer_connect(struct sender *s, int fd, int peer)
{
	struct sockaddr_storage to = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(to);

	if (peer >= 0)
		len = peer_address(s, peer, &to);
	if (connect(fd, (struct sockaddr *)&to, len))
		fail("connect");
}

static void list_send(struct sender *s)
{
	struct packet *p = allocate(s->list_len, sizeof(*p));
	struct mmsghdr messages[LIST_MAX] = { 0 };
	uint64_t now_ns = clock_now_ns(), due_ns;

	for (unsigned int i = 0; i < s->list_len; i++) {
		due_ns = s->list[i].after_ns ? now_ns + s->list[i].after_ns : 0;
		packet_make(p + i, s, s->list[i].peer, s->peers == 1, due_ns);
		p[i].message->sequence = i;
		p[i].message->sent_ns = now_ns;
		messages[i].msg_hdr = p[i].msg;
		packet_account(p + i, s);
	}
	if (sendmmsg(s->fds[0], messages, s->list_len, 0) != (int)s->list_len)
		fail("sendmmsg");
	free(p);
}

static void due_send(struct sender *s)
{
	struct packet *p = allocate(1, sizeof(*p));

	packet_make(p, s, 0, s->peers == 1, clock_now_ns() + s->due_ns);
	packet_send(p, s, s->fds[0]);
	free(p);
}

static void thread_raise(void)
{
	setpriority(PRIO_PROCESS, syscall(SYS_gettid), -20);
}

static void send_in_time(struct packet *p, struct sender *s, unsigned int first, int fd)
{
	uint64_t next_ns = start_ns + s->every_ns;

	thread_raise();
	for (unsigned int i = 0; next_ns < end_ns; i++, next_ns += s->every_ns) {
		clock_sleep_until(next_ns);
		packet_make(p, s, first + i % s->peers, s->peers == 1, 0);
		packet_send(p, s, fd);
	}
}

/* Some packets in turn to all peers, some to one that it is connected to, some to the
 * next, and then to none. Numbers of packets differ, but are the same in all runs.
 */
static void send_and_connect(struct packet *p, struct sender *s, int fd)
{
	unsigned int turn, i, peer, random = 1;

	for (i = 0; i + 1 < s->first; i++) {
		packet_make(p, s, i % s->peers, false, 0);
		packet_send(p, s, fd);
	}
	for (turn = 0; clock_now_ns() < end_ns; turn++) {
		/* Connected once, and twice in every third turn. */
		unsigned int connects = 1 + !(turn % 3), c;

		for (c = 0; c <= connects; c++) {
			random = random * 1103515245 + 12345;
			peer = (turn + c) % s->peers;
			peer_connect(s, fd, c < connects ? (int)peer : -1);
			for (i = 0; i < 1 + (random >> 16) % 40; i++) {
				packet_make(p, s, c < connects ? peer : (turn + i) % s->peers,
					    c < connects, 0);
				packet_send(p, s, fd);
			}
		}
	}
}

static void *task_run(void *arg)
{
	struct task *t = arg;
	struct sender *s = t->sender;
	unsigned int first = t->socket * s->peers, i;
	struct packet *p = allocate(1, sizeof(*p));
	int fd = s->fds[t->socket];

	clock_sleep_until(start_ns);
	if (s->every_ns) {
		send_in_time(p, s, first, fd);
	} else if (s->first) {
		send_and_connect(p, s, fd);
	} else {
		for (i = 0; clock_now_ns() < end_ns; i++) {
			packet_make(p, s, first + i % s->peers, s->peers == 1, 0);
			packet_send(p, s, fd);
		}
	}
	free(p);
	atomic_fetch_sub(&running, 1);
	return NULL;
}

/* Sockets: the source port is fixed, or connect() would change the flow on the wire. */

static int socket_open(struct sender *s, unsigned int number)
{
	struct sockaddr_storage from = { .ss_family = s->kind->family };
	const struct kind *k = s->kind;
	int fd = socket(k->family, k->type, k->protocol);
	bool is_txtime = s->due_ns;

	for (unsigned int i = 0; i < s->list_len; i++)
		is_txtime |= !!s->list[i].after_ns;
	if (fd < 0)
		fail(k->name);
	if (s->sndbuf &&
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &s->sndbuf, sizeof(s->sndbuf)))
		fail("SO_SNDBUFFORCE");
	if (is_txtime && udp_enable_txtime(fd))
		fail("SO_TXTIME");
	if (k->family != AF_PACKET && k->type == SOCK_DGRAM && !k->header) {
		((struct sockaddr_in *)&from)->sin_port =
			htons(20000 + 1000 * (s - senders) + number);
		if (bind(fd, (struct sockaddr *)&from, k->family == AF_INET ?
			 sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)))
			fail("bind");
	}
	if (s->is_disconnected) {
		peer_connect(s, fd, number * s->peers);
		peer_connect(s, fd, -1);
	}
	if (s->peers == 1 && k->family != AF_PACKET)
		peer_connect(s, fd, number);
	return fd;
}

static int sink_open(const char *device)
{
	struct sockaddr_ll at = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = if_nametoindex(device),
	};
	int fd = socket(AF_PACKET, SOCK_RAW, 0), rcvbuf = RCVBUF, on = 1;

	if (fd < 0 || !at.sll_ifindex ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &rcvbuf, sizeof(rcvbuf)) ||
	    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)))
		fail(device);
	return fd;
}

/* Receiving */

/* The message in a frame, or NULL. */
static const struct message *frame_message(const uint8_t *frame, size_t len)
{
	const uint8_t *l3 = frame + ETH_HLEN, *l4;
	const struct message *m;
	uint8_t protocol;

	if (frame[12] == 0x08 && frame[13] == 0x00) {
		protocol = l3[9];
		l4 = l3 + 4 * (l3[0] & 15);
	} else if (frame[12] == 0x86 && frame[13] == 0xdd) {
		protocol = l3[6];
		l4 = l3 + 40;
	} else {
		return NULL;
	}
	m = (const struct message *)(protocol == IPPROTO_OURS ? l4 : l4 + 8);
	if ((const uint8_t *)(m + 1) > frame + len || m->magic != MAGIC ||
	    m->sender >= senders_len ||
	    m->peer >= senders[m->sender].sockets * senders[m->sender].peers)
		return NULL;
	return m;
}

static void delay_add(struct sender *s, int64_t delay_ns)
{
	if (s->delays == s->room) {
		s->room = s->room ? 2 * s->room : 4096;
		s->delays_ns = realloc(s->delays_ns, s->room * sizeof(*s->delays_ns));
		if (!s->delays_ns)
			fail("realloc");
	}
	s->delays_ns[s->delays++] = delay_ns;
}

static void time_account(struct sender *s, const struct message *m, int64_t at_ns)
{
	int64_t late_ns = at_ns - (int64_t)m->due_ns;

	if (!m->due_ns) {
		if (m->sent_ns >= warm_ns)
			delay_add(s, at_ns - (int64_t)m->sent_ns);
		return;
	}
	s->due_early += late_ns < 0;
	if (late_ns > s->due_late_ns)
		s->due_late_ns = late_ns;
}

static void message_account(const struct message *m, size_t len, int64_t at_ns)
{
	struct sender *s = &senders[m->sender];
	struct peer *peer = &s->all_peers[m->peer];

	s->received++;
	if (!is_measured(s) || s->due_ns)
		time_account(s, m, at_ns);
	if (s->list_len) {
		s->arrived_ns[s->arrived] = at_ns - m->sent_ns;
		s->order[s->arrived++] = m->sequence;
		return;
	}
	if (m->due_ns)
		return;
	s->reordered += m->sequence < peer->last;
	peer->last = m->sequence;
	if (at_ns >= (int64_t)warm_ns && at_ns < (int64_t)end_ns) {
		peer->packets++;
		s->bytes += len;
	}
}

struct sink {
	int fd;
	int64_t offset_ns;
	struct mmsghdr messages[BATCH];
	struct iovec iov[BATCH];
	struct sockaddr_ll from[BATCH];
	uint8_t frames[BATCH][128];
	char controls[BATCH][CMSG_SPACE(sizeof(struct timespec))];
};

static unsigned int sink_fetch(struct sink *k)
{
	unsigned int all = 0;
	int count, i;

	do {
		for (i = 0; i < BATCH; i++) {
			k->iov[i] = (struct iovec){ k->frames[i], sizeof(k->frames[i]) };
			k->messages[i].msg_hdr = (struct msghdr){
				.msg_name = &k->from[i],
				.msg_namelen = sizeof(k->from[i]),
				.msg_iov = &k->iov[i],
				.msg_iovlen = 1,
				.msg_control = k->controls[i],
				.msg_controllen = sizeof(k->controls[i]),
			};
		}
		count = recvmmsg(k->fd, k->messages, BATCH, MSG_DONTWAIT | MSG_TRUNC, NULL);
		for (i = 0; i < count; i++) {
			size_t len = k->messages[i].msg_len;
			const struct message *m =
				frame_message(k->frames[i], len < 128 ? len : 128);

			if (!m || k->from[i].sll_pkttype == PACKET_OUTGOING)
				continue;
			message_account(m, len, udp_stamp(&k->messages[i].msg_hdr) -
					k->offset_ns);
			all++;
		}
	} while (count == BATCH);
	return all;
}

static bool has_all(void)
{
	for (unsigned int i = 0; i < senders_len; i++)
		if (senders[i].received < atomic_load(&senders[i].sent))
			return false;
	return true;
}

static void sink_run(struct sink *k)
{
	uint64_t now_ns = clock_now_ns(), latest_ns = now_ns, longest_ns = QUIET_NS;

	for (unsigned int i = 0; i < senders_len; i++) {
		longest_ns += senders[i].due_ns;
		for (unsigned int j = 0; j < senders[i].list_len; j++)
			longest_ns += senders[i].list[j].after_ns;
	}
	thread_raise();
	for (;;) {
		clock_sleep_until(now_ns + FETCH_NS);
		now_ns = clock_now_ns();
		if (sink_fetch(k) || atomic_load(&running) || now_ns < end_ns)
			latest_ns = now_ns;
		if (!atomic_load(&running) && now_ns >= end_ns &&
		    (has_all() || now_ns > latest_ns + longest_ns))
			return;
	}
}

/* The report */

static double jain(double sum, double squares, unsigned int count)
{
	return squares > 0 ? sum * sum / (count * squares) : 0;
}

static double percentile_ms(const struct sender *s, double p)
{
	return s->delays ? s->delays_ns[(unsigned int)((s->delays - 1) * p)] / 1e6 : 0;
}

static void list_print(const struct sender *s)
{
	printf(", \"%s_order\": \"", s->name);
	for (unsigned int i = 0; i < s->arrived; i++)
		printf("%s%u", i ? " " : "", s->order[i]);
	printf("\", \"%s_times_ms\": \"", s->name);
	for (unsigned int i = 0; i < s->arrived; i++)
		printf("%s%.3f", i ? " " : "", s->arrived_ns[i] / 1e6);
	printf("\"");
}

static void peers_print(const struct sender *s, double *all, double *all_squares)
{
	unsigned int count = s->sockets * s->peers, reached = 0, least = ~0, most = 0;
	double sum = 0, squares = 0;

	for (unsigned int i = 0; i < count; i++) {
		unsigned int packets = s->all_peers[i].packets;
		double bytes = (double)packets * s->size;

		sum += bytes;
		squares += bytes * bytes;
		reached += !!packets;
		least = packets < least ? packets : least;
		most = packets > most ? packets : most;
	}
	printf(", \"%s_reached\": %u, \"%s_least\": %u, \"%s_most\": %u, \"%s_jain\": %.5f",
	       s->name, reached, s->name, least, s->name, most, s->name,
	       jain(sum, squares, count));
	*all += sum;
	*all_squares += squares;
}

static void sender_print(struct sender *s, uint64_t all_bytes, double seconds)
{
	uint64_t sent = atomic_load(&s->sent);

	printf("\"%s_sent\": %llu, \"%s_lost\": %lld, \"%s_reordered\": %llu, \"%s_no_buffers\": %llu",
	       s->name, (unsigned long long)sent, s->name, (long long)(sent - s->received),
	       s->name, (unsigned long long)s->reordered,
	       s->name, (unsigned long long)atomic_load(&s->no_buffers));
	printf(", \"%s_mbit\": %.3f", s->name, s->bytes * 8 / seconds / 1e6);
	if (is_measured(s))
		printf(", \"%s_part\": %.6f", s->name,
		       all_bytes ? (double)s->bytes / all_bytes : 0);
	if (s->list_len)
		list_print(s);
	if (s->delays) {
		qsort(s->delays_ns, s->delays, sizeof(*s->delays_ns), compare_int64);
		printf(", \"%s_delay_p50_ms\": %.3f, \"%s_delay_p99_ms\": %.3f, \"%s_delay_max_ms\": %.3f",
		       s->name, percentile_ms(s, 0.5), s->name, percentile_ms(s, 0.99),
		       s->name, percentile_ms(s, 1));
	}
	printf(", \"%s_due_early\": %llu, \"%s_due_late_ms\": %.3f", s->name,
	       (unsigned long long)s->due_early, s->name, s->due_late_ns / 1e6);
}

static void report(void)
{
	double seconds = (double)(end_ns - warm_ns) / CLOCK_NS_PER_S, sum = 0, squares = 0;
	unsigned int receivers = 0;
	uint64_t all_bytes = 0;

	for (unsigned int i = 0; i < senders_len; i++)
		if (is_measured(&senders[i]))
			all_bytes += senders[i].bytes;
	printf("{ ");
	for (unsigned int i = 0; i < senders_len; i++) {
		struct sender *s = &senders[i];

		sender_print(s, all_bytes, seconds);
		if (is_measured(s)) {
			peers_print(s, &sum, &squares);
			receivers += s->sockets * s->peers;
		}
		printf(", ");
	}
	printf("\"mbit\": %.3f, \"jain\": %.5f }\n", all_bytes * 8 / seconds / 1e6,
	       jain(sum, squares, receivers));
}

static void tasks_start(struct task *tasks)
{
	unsigned int len = 0;
	int error;

	for (unsigned int i = 0; i < senders_len; i++) {
		struct sender *s = &senders[i];

		if (s->list_len)
			list_send(s);
		if (s->due_ns)
			due_send(s);
	}
	for (unsigned int i = 0; i < senders_len; i++) {
		for (unsigned int j = 0; !senders[i].list_len && j < senders[i].sockets; j++) {
			struct task *t = &tasks[len++];

			*t = (struct task){ .sender = &senders[i], .socket = j };
			atomic_fetch_add(&running, 1);
			error = pthread_create(&t->thread, NULL, task_run, t);
			if (error) {
				errno = error;
				fail("pthread_create");
			}
		}
	}
}

int main(int argc, char **argv)
{
	struct sink *sink = allocate(1, sizeof(*sink));
	unsigned int sockets = 0;

	if (argc < 8 || argc - 7 > SENDERS_MAX) {
		fprintf(stderr, "usage: bppeers TX_NETNS TX_DEVICE RX_NETNS RX_DEVICE SECONDS WARMUP_MS SENDER...\n");
		return 2;
	}
	if (netns_enter(argv[3]))
		fail(argv[3]);
	sink->fd = sink_open(argv[4]);
	sink->offset_ns = clock_realtime_offset_ns();
	if (netns_enter(argv[1]))
		fail(argv[1]);
	tx_ifindex = if_nametoindex(argv[2]);
	for (; senders_len < (unsigned int)argc - 7; senders_len++)
		sender_parse(&senders[senders_len], argv[7 + senders_len]);
	for (unsigned int i = 0; i < senders_len; i++) {
		sockets += senders[i].sockets;
		for (unsigned int j = 0; j < senders[i].sockets; j++)
			senders[i].fds[j] = socket_open(&senders[i], j);
	}
	start_ns = clock_now_ns() + 10 * CLOCK_NS_PER_MS;
	warm_ns = start_ns + strtoul(argv[6], NULL, 10) * CLOCK_NS_PER_MS;
	end_ns = start_ns + atof(argv[5]) * CLOCK_NS_PER_S;
	tasks_start(allocate(sockets + 1, sizeof(struct task)));
	sink_run(sink);
	report();
	return 0;
}
