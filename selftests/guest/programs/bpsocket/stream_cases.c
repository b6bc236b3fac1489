// SPDX-License-Identifier: GPL-2.0-only
/* Ways to send a stream, and what its owner gets back. */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bpsocket.h"

#define BULK		300000
#define REQUESTS	20

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
