// SPDX-License-Identifier: GPL-2.0-only
/* Streams: TCP, kernel TLS and MPTCP. Their peer is a thread of this process, with a
 * socket in the other network namespace, that compares what arrives.
 */
#define _GNU_SOURCE
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
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "bpsocket.h"

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

#define PERIOD		251	/* of the bytes of a stream: a prime */
#define CHUNK		30000	/* more than the burst and the share */
#define BULK		300000
#define SNDBUF		65536
#define REQUESTS	20

static char pattern[CHUNK + PERIOD];

/* What the peer sends back for every so many bytes that it got; 0 is never. */
static size_t answer_every;
static pthread_t peer_thread;
static int peer_fd;

/* What comes next in the stream; CHUNK bytes of it may be sent. */
const char *stream_data(void)
{
	return pattern + self.sent_bytes % PERIOD;
}

static ssize_t stream_sent(ssize_t bytes)
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

static int stream_socket(void)
{
	bool is_mptcp = !strcmp(self.type, "mptcp");
	int fd = socket(self.addr.ss_family, SOCK_STREAM,
			is_mptcp ? IPPROTO_MPTCP : IPPROTO_TCP);

	if (fd < 0 && is_mptcp)
		lacks("MPTCP");
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

static void bulk_by(int fd, ssize_t (*send_some)(int fd))
{
	long before = sleeps_so_far();

	while (self.sent_bytes < BULK)
		must(stream_sent(send_some(fd)) > 0, "send");
	if (sleeps_so_far() == before)
		fail("no send() had to wait");
}

static ssize_t send_chunk(int fd)
{
	return send(fd, stream_data(), CHUNK, 0);
}

static void bulk(int fd)
{
	bulk_by(fd, send_chunk);
}

static ssize_t send_more(int fd)
{
	return send(fd, stream_data(), PAYLOAD, MSG_MORE);
}

static void bulk_more(int fd)
{
	bulk_by(fd, send_more);
	must(put(fd, 0) > 0, "the last piece");
}

static int pattern_file(void)
{
	int file = memfd_create("pattern", 0);

	must(file >= 0 &&
	     write(file, pattern, sizeof(pattern)) == sizeof(pattern), "memfd");
	return file;
}

static ssize_t send_file(int fd)
{
	off_t at = self.sent_bytes % PERIOD;
	static int file;

	if (!file)
		file = pattern_file();
	return sendfile(fd, file, &at, CHUNK);
}

static void bulk_sendfile(int fd)
{
	bulk_by(fd, send_file);
}

static ssize_t send_zerocopy(int fd)
{
	return send(fd, stream_data(), CHUNK, MSG_ZEROCOPY);
}

static void bulk_zerocopy(int fd)
{
	int one = 1;

	must(!setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)),
	     "SO_ZEROCOPY");
	bulk_by(fd, send_zerocopy);
	for (int ms = 0; completions < self.sent; ms++) {
		if (ms > LONG_MS)
			fail("%d of %d sends were completed", completions,
			     self.sent);
		if (!reap_completions(fd))
			usleep(1000);
	}
}

/* Halfway the send buffer is one that cannot be throttled, see "huge". */
static void bulk_huge(int fd)
{
	while (self.sent_bytes < BULK / 4)
		must(stream_sent(send_chunk(fd)) > 0, "send");
	set_sndbuf(fd, 1 << 30);
	while (self.sent_bytes < BULK / 2)
		must(stream_sent(send_chunk(fd)) > 0, "send");
	set_sndbuf(fd, SNDBUF);
	bulk(fd);
}

/* Requests that are answered with a byte, each when the one before has been. */
static void requests(int fd, size_t bytes)
{
	struct timespec start, end;
	char answer;

	answer_every = bytes;
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (int i = 0; i < REQUESTS; i++) {
		for (size_t end_of = self.sent_bytes + bytes;
		     self.sent_bytes < end_of;)
			must(stream_sent(send(fd, stream_data(),
					      end_of - self.sent_bytes, 0)) > 0,
			     "request");
		must(recv(fd, &answer, 1, 0) == 1, "answer");
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%ld\n", ((end.tv_sec - start.tv_sec) * 1000000 +
			 (end.tv_nsec - start.tv_nsec) / 1000) / REQUESTS);
}

static void requests_small(int fd)
{
	requests(fd, 100);
}

static void requests_large(int fd)
{
	requests(fd, CHUNK);
}

const struct bpsocket_case stream_cases[] = {
	{ "bulk", bulk },
	{ "bulk_more", bulk_more },
	{ "bulk_sendfile", bulk_sendfile },
	{ "bulk_zerocopy", bulk_zerocopy },
	{ "bulk_huge", bulk_huge },
	{ "requests_small", requests_small },
	{ "requests_large", requests_large },
	{ }
};
