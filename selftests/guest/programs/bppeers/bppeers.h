/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of bppeers share: senders, their packets, and who calls what. */
#ifndef BPPEERS_H
#define BPPEERS_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include "clock.h"

#define IPPROTO_OURS	253
#define GUEST_TAP	1		/* protocols of a kind that is no socket */
#define GUEST_VHOST	2
#define MAGIC		0x62707065
#define BUFFER		65536
#define LIST_MAX	16
#define FRAME_MAX	128		/* packets in one sendmmsg() */
#define SENDERS_MAX	64

struct kind {
	const char *name;
	int family, type, protocol;
	size_t header;			/* that the sender puts before the payload */
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
	int sndbuf, tos;
	uint64_t max_rate_Bps;
	uint64_t pace_ns, every_ns, due_ns;
	uint32_t priority;		/* of its sockets, or 0 */
	unsigned int classes;		/* from that one on, for one packet after the other; or 0 */
	unsigned int uid, uids;		/* of its sockets, from that one on, in turn */
	unsigned int fresh;		/* packets of a socket before the next one, or 0 */
	bool is_timed;			/* packets have times, later_ns after they are made, or at_ns; */
	unsigned int timed;		/* of one after the other those many, and so many not; or 0 */
	int64_t later_ns, at_ns;
	double most_Bps, level, highest; /* bytes that were above a rate */
	int64_t level_ns;
	uint64_t from_ns, until_ns;	/* when it sends, from the start; until_ns 0: the end */
	const char *device;		/* of a virtual machine, and its queues, or NULL */
	struct queue *queues;
	unsigned int ring;
	uint8_t mac[6];			/* of who receives its frames */
	unsigned int first;		/* packets before it reconnects, and 1; 0: it does not */
	unsigned int frame;		/* packets in every_ns */
	bool polls, refuses, is_edge, is_mmsg, is_disconnected, is_bypass, has_ages;
	struct { unsigned int peer; uint64_t after_ns; } list[LIST_MAX];
	struct peer *all_peers;		/* of one socket after the other */
	int *fds;

	_Atomic uint64_t sent, no_buffers, refused;
	uint64_t received, reordered, bytes, due_early, congested;
	int64_t due_late_ns, *delays_ns, arrived_ns[LIST_MAX];
	unsigned int delays, room, order[LIST_MAX], arrived;
};

/* To one peer, or to be sent as several (gso=) */
struct packet {
	struct sockaddr_storage to;
	struct iovec iov;
	struct msghdr msg;
	struct message *message;
	struct queue *queue;		/* or NULL */
	char control[CMSG_SPACE(sizeof(uint64_t))];
	uint8_t data[BUFFER];
};

struct sink;

extern struct sender senders[SENDERS_MAX];
extern unsigned int senders_len;
extern unsigned int tx_ifindex;
extern uint64_t start_ns, warm_ns, end_ns;
extern _Atomic unsigned int running;
extern FILE *arrivals;			/* or NULL */
extern uint64_t other_bytes;		/* of frames of nobody, after the warm-up */
extern bool has_busy;
extern int64_t busy_ns;			/* of the whole host, after the warm-up */

/* main.c */
void fail(const char *what);
void *allocate(size_t count, size_t size);
bool is_measured(const struct sender *s);
void thread_raise(void);

/* arguments.c */
void sender_parse(struct sender *s, char *arg);

/* packet.c: a packet to @peer, of the numbering over all sockets, which are connected or not */
socklen_t peer_address(const struct sender *s, unsigned int peer,
		       struct sockaddr_storage *to);
void packet_make(struct packet *p, struct sender *s, unsigned int peer,
		 bool is_connected, uint64_t due_ns);

/* send.c */
int socket_open(struct sender *s, unsigned int number);
void list_send(struct sender *s);
void due_send(struct sender *s);
void socket_run(struct sender *s, unsigned int socket);

/* guest.c */
int guest_open(struct sender *s, unsigned int number);
void guest_send(struct packet *p);
void guest_finish(struct queue *q);

/* sink.c */
struct sink *sink_open(const char *device);
void sink_run(struct sink *k);

/* report.c */
void report(void);

#endif /* BPPEERS_H */
