/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of bpsocket share: the socket under test, and its peer. */
#ifndef _BPSOCKET_H
#define _BPSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#define PAYLOAD		1200
#define PORT		9	/* discard */
#define MARK_AT		64	/* in a packet: its number, behind any header */
#define FRAME_TYPE	0x88b5	/* local experimental: no protocol answers it */
#define SHARE		20	/* packets; the caller's share is less */
#define STREAM_ROOM	200	/* packets; more than a stream's send buffer */
#define PERIOD		251	/* of the bytes of a stream: a prime */
#define CHUNK		30000	/* bytes of a stream; more than the burst and the share */
#define SNDBUF		65536	/* of a stream */
#define MANY		20000	/* packets; more than a send buffer */
#define LONG_MS		60000	/* a queue of some packets drains in less */

/**
 * struct bpsocket - what the command line says, and what follows from it
 * @type: kind of socket
 * @dst: address to send to
 * @device: for packet sockets and taps
 * @netns: of the receiver, NULL if the case needs none; or what else the case is told
 * @addr: @dst as a socket address
 * @addr_len: of @addr
 * @is_stream: TCP and what runs over it
 * @sent: packets that the socket took from put(); marks them
 * @sent_bytes: the same, as a place in the stream
 */
struct bpsocket {
	const char		*type;
	const char		*dst;
	const char		*device;
	const char		*netns;
	struct sockaddr_storage	addr;
	socklen_t		addr_len;
	bool			is_stream;
	int			sent;
	size_t			sent_bytes;
};

extern struct bpsocket self;
extern char packet[PAYLOAD];
extern int completions;	/* of MSG_ZEROCOPY: sends whose buffer is ours again */

/* Each of these files calls those above it, and no others. */

/* common.c */
__attribute__((format(printf, 1, 2), noreturn))
void fail(const char *format, ...);
__attribute__((noreturn))
void lacks(const char *what);
void must(bool good, const char *what);
void set_nonblocking(int fd);
void set_sndbuf(int fd, int bytes);
void mark(char *data, int number);
int charge(int fd);
bool is_writable(int fd, int timeout_ms);
void wait_until_drained(int fd);
long sleeps_so_far(void);
bool reap_completions(int fd);
int netns_enter(const char *netns);
void netns_return(int home);

/* stream.c */
extern char pattern[CHUNK + PERIOD];
extern size_t answer_every;	/* bytes, for which the peer sends one back; 0: never */
bool is_stream_type(const char *type);
int open_stream(void);
const char *stream_data(void);
ssize_t stream_sent(ssize_t bytes);
ssize_t stream_put(int fd, int flags);
void stream_burst(int fd);
void stream_finish(int fd);

/* open.c */
int open_socket(void);
int open_receiver(void);
void receive_all(int peer, int count, size_t bytes);

/* put.c */
ssize_t put_packet(int fd, int flags);
ssize_t put(int fd, int flags);
int fill(int fd);
void put_after(int fd, const char *what);

/* wait.c */
void poll_wakes(int fd);

/* send.c */
/**
 * struct way - a way to send
 * @send: as send(), but returns datagrams
 * @reap: takes what keeps poll() from waiting; false if there was nothing
 * @count: datagrams in all, a half without waiting in the call
 * @bytes: of a datagram
 */
struct way {
	int	(*send)(int fd, int flags);
	bool	(*reap)(int fd);
	int	count;
	size_t	bytes;
};

void send_by(int fd, const struct way *way);

/* cases */
struct bpsocket_case {
	const char	*name;
	void		(*run)(int fd);
};

extern const struct bpsocket_case wait_cases[], charge_cases[], send_cases[],
	shared_cases[], stream_cases[], link_cases[], end_cases[];

#endif /* _BPSOCKET_H */
