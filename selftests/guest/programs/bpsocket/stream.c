// SPDX-License-Identifier: GPL-2.0-only
/* Streams: TCP, kernel TLS, MPTCP, SMC and SCTP. Their peer is a thread of this process, with a
 * socket in the other network namespace, that compares what arrives.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "bpsocket.h"

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

#ifndef AF_SMC
#define AF_SMC 43
#endif

char pattern[CHUNK + PERIOD];

size_t answer_every;
static pthread_t peer_thread;
static int peer_fd;

/* What comes next in the stream; CHUNK bytes of it may be sent. */
const char *stream_data(void)
{
	return pattern + self.sent_bytes % PERIOD;
}

ssize_t stream_sent(ssize_t bytes)
{
	if (bytes > 0) {
		self.sent++;
		self.sent_bytes += bytes;
	}
	return bytes;
}

ssize_t stream_put(int fd, int flags)
{
	return stream_sent(send(fd, stream_data(), PAYLOAD, flags));
}

/* TCP queues no more than two packets at a time, however small: a large one, then. */
void stream_burst(int fd)
{
	must(stream_sent(send(fd, stream_data(), CHUNK, MSG_DONTWAIT)) > 0 ||
	     errno == EAGAIN, "send");
}

/* Signals are for the one who sends. */
static void *peer_reads(void *unused)
{
	static char buffer[65536];
	size_t got = 0, answered = 0;
	sigset_t all;
	ssize_t len;

	(void)unused;
	sigfillset(&all);
	must(!pthread_sigmask(SIG_SETMASK, &all, NULL), "sigmask");
	while ((len = recv(peer_fd, buffer, sizeof(buffer), 0)) > 0) {
		for (ssize_t i = 0; i < len; i++, got++)
			if ((unsigned char)buffer[i] != got % PERIOD)
				fail("byte %zu of the stream is wrong", got);
		for (; answer_every && got - answered >= answer_every;
		     answered += answer_every)
			must(send(peer_fd, "", 1, 0) == 1, "answer");
	}
	must(!len, "the stream stopped");
	return (void *)(uintptr_t)got;
}

/* Keys that both ends know; a handshake is not what is tested. */
static bool start_tls(int fd, int direction)
{
	struct tls12_crypto_info_aes_gcm_128 info = {
		.info.version = TLS_1_2_VERSION,
		.info.cipher_type = TLS_CIPHER_AES_GCM_128,
	};

	return !setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")) &&
	       !setsockopt(fd, SOL_TLS, direction, &info, sizeof(info));
}

/* As socket() has them; a family of 0 is that of the address. SMC is TCP where no card can RDMA. */
static const struct stream_type {
	const char	*name;
	int		family;
	int		protocol;
} stream_types[] = {
	{ "tcp", 0, IPPROTO_TCP },
	{ "tls", 0, IPPROTO_TCP },
	{ "mptcp", 0, IPPROTO_MPTCP },
	{ "smc", AF_SMC, 0 },
	{ "sctp", 0, IPPROTO_SCTP },
	{ }
};

static const struct stream_type *stream_type_find(const char *name)
{
	const struct stream_type *type = stream_types;

	while (type->name && strcmp(type->name, name))
		type++;
	return type;
}

bool is_stream_type(const char *type)
{
	return stream_type_find(type)->name;
}

static int stream_socket(void)
{
	const struct stream_type *type = stream_type_find(self.type);
	int fd = socket(type->family ?: self.addr.ss_family, SOCK_STREAM, type->protocol);

	if (fd < 0 && type->protocol != IPPROTO_TCP)
		lacks(self.type);
	must(fd >= 0, "socket");
	return fd;
}

static int listen_there(void)
{
	int home = netns_enter(self.netns), fd = stream_socket(), one = 1;
	struct sockaddr_storage any = { .ss_family = self.addr.ss_family };

	((struct sockaddr_in *)&any)->sin_port = htons(PORT);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	must(!bind(fd, (struct sockaddr *)&any, self.addr_len) && !listen(fd, 1),
	     "listen");
	netns_return(home);
	return fd;
}

int open_stream(void)
{
	struct timeval timeout = { .tv_sec = LONG_MS / 1000 };
	int listener = listen_there(), fd = stream_socket(), bytes = SNDBUF;

	self.is_stream = true;
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = i % PERIOD;
	must(!setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)),
	     "SO_SNDBUF");
	must(!connect(fd, (struct sockaddr *)&self.addr, self.addr_len),
	     "connect");
	peer_fd = accept(listener, NULL, NULL);
	must(peer_fd >= 0 &&
	     !setsockopt(peer_fd, SOL_SOCKET, SO_RCVTIMEO, &timeout,
			 sizeof(timeout)), "accept");
	if (!strcmp(self.type, "tls") &&
	    (!start_tls(fd, TLS_TX) || !start_tls(peer_fd, TLS_RX)))
		lacks("kernel TLS");
	must(!pthread_create(&peer_thread, NULL, peer_reads, NULL), "thread");
	return fd;
}

/* All arrives, also if the case has closed the socket. */
void stream_finish(int fd)
{
	void *got;

	shutdown(fd, SHUT_WR);
	must(!pthread_join(peer_thread, &got), "thread");
	if ((size_t)got != self.sent_bytes)
		fail("%zu of %zu bytes arrived", (size_t)got, self.sent_bytes);
}
