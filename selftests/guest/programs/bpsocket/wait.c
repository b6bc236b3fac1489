// SPDX-License-Identifier: GPL-2.0-only
/* Ways to wait for a throttled socket. */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "bpsocket.h"

#define TRIES	100	/* a stream may get room for a packet at any time */
#define BATCH	16

static void nonblocking(int fd)
{
	set_nonblocking(fd);
	fill(fd);
	if (put(fd, 0) >= 0 || errno != EAGAIN)
		fail("a throttled socket took another packet");
}

void poll_wakes(int fd)
{
	set_nonblocking(fd);
	for (int i = 0; i < 3; i++) {
		fill(fd);
		if (is_writable(fd, 0))
			fail("poll() says writable, send() said EAGAIN");
		if (!is_writable(fd, LONG_MS))
			fail("poll() never woke");
		put_after(fd, "send after poll");
	}
	wait_until_drained(fd);
}

static int select_writable(int fd, int seconds)
{
	struct timeval timeout = { .tv_sec = seconds };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, NULL, &set, NULL, &timeout);
}

static void select_wakes(int fd)
{
	set_nonblocking(fd);
	for (int i = 0; i < 3; i++) {
		fill(fd);
		if (select_writable(fd, 0))
			fail("select() says writable, send() said EAGAIN");
		if (select_writable(fd, LONG_MS / 1000) != 1)
			fail("select() never woke");
		put_after(fd, "send after select");
	}
	wait_until_drained(fd);
}

static void epoll_wakes(int fd, uint32_t flags)
{
	struct epoll_event ev = { .events = EPOLLOUT | flags };
	int ep = epoll_create1(0);

	set_nonblocking(fd);
	must(ep >= 0 && !epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev), "epoll");
	for (int i = 0; i < 3; i++) {
		/* the state at the start, and an edge passed unused */
		while (epoll_wait(ep, &ev, 1, 0) > 0 && flags)
			;
		fill(fd);
		if (epoll_wait(ep, &ev, 1, 0) != 0)
			fail("epoll says writable, send() said EAGAIN");
		if (epoll_wait(ep, &ev, 1, LONG_MS) != 1)
			fail("epoll never woke");
		put_after(fd, "send after epoll");
	}
	wait_until_drained(fd);
}

static void epoll_level(int fd)
{
	epoll_wakes(fd, 0);
}

static void epoll_edge(int fd)
{
	epoll_wakes(fd, EPOLLET);
}

/* The signal comes when there is room, and not before. */
static void sigio(int fd)
{
	struct timespec now = {}, later = { .tv_sec = LONG_MS / 1000 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	must(!sigprocmask(SIG_BLOCK, &set, NULL), "sigprocmask");
	must(!fcntl(fd, F_SETOWN, getpid()) &&
	     !fcntl(fd, F_SETFL, O_NONBLOCK | O_ASYNC), "O_ASYNC");
	for (int i = 0; i < 3; i++) {
		/* one for room that was there before it was asked for */
		sigtimedwait(&set, NULL, &now);
		fill(fd);
		if (sigtimedwait(&set, NULL, &now) >= 0)
			fail("SIGIO came, send() said EAGAIN");
		if (sigtimedwait(&set, NULL, &later) != SIGIO)
			fail("SIGIO never came");
		put_after(fd, "send after SIGIO");
	}
	wait_until_drained(fd);
}

static volatile sig_atomic_t is_sending, interrupted;

static void on_alarm(int sig)
{
	(void)sig;
	if (is_sending)
		interrupted = 1;
}

/* An alarm every 20 ms: one of them finds send() asleep. */
static void start_alarms(int flags)
{
	struct itimerval every_20ms = {
		.it_value = { .tv_usec = 20000 },
		.it_interval = { .tv_usec = 20000 },
	};
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = flags };

	must(!sigaction(SIGALRM, &sa, NULL), "sigaction");
	must(!setitimer(ITIMER_REAL, &every_20ms, NULL), "setitimer");
}

static void stop_alarms(void)
{
	struct itimerval never = {};

	must(!setitimer(ITIMER_REAL, &never, NULL), "setitimer");
}

/* A blocking send sleeps: the alarm finds it there. Then it is woken. */
static void blocking(int fd)
{
	int tries = self.is_stream ? TRIES : 1;

	fill(fd);
	start_alarms(0);
	while (tries && put(fd, 0) >= 0)
		tries--;
	if (!tries || errno != EINTR)
		fail("send() on a throttled socket did not sleep: %s",
		     strerror(errno));
	stop_alarms();
	alarm(LONG_MS / 1000);
	if (put(fd, 0) < 0)
		fail("the sleeping sender was never woken: %s", strerror(errno));
	alarm(0);
	wait_until_drained(fd);
}

/* With SA_RESTART it goes on sleeping after the signal, until it is woken. */
static void restart(int fd)
{
	int tries = self.is_stream ? TRIES : 1;

	fill(fd);
	start_alarms(SA_RESTART);
	while (tries-- && !interrupted) {
		is_sending = 1;
		must(put(fd, 0) == PAYLOAD, "restarted send");
		is_sending = 0;
	}
	stop_alarms();
	if (!interrupted)
		fail("send() on a throttled socket did not sleep");
	wait_until_drained(fd);
}

static void timeout(int fd)
{
	int tries = self.is_stream ? TRIES : 1;
	struct timeval in_20ms = { .tv_usec = 20000 };

	fill(fd);
	must(!setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &in_20ms,
			 sizeof(in_20ms)), "SO_SNDTIMEO");
	while (tries && put(fd, 0) >= 0)
		tries--;
	if (!tries || errno != EAGAIN)
		fail("SO_SNDTIMEO did not end the sleep: %s", strerror(errno));
}

static void uring_open(struct io_uring *ring)
{
	int error = io_uring_queue_init(BATCH, ring, 0);

	if (error == -ENOSYS) {
		errno = -error;
		lacks("io_uring");
	}
	if (error)
		fail("io_uring_queue_init: %s", strerror(-error));
}

/* Nothing completes now, and all @count requests later; returns the last result. */
static int uring_expect(struct io_uring *ring, int count, int min, int max)
{
	struct __kernel_timespec later = { .tv_sec = LONG_MS / 1000 };
	struct io_uring_cqe *cqe;
	int result = 0;

	if (io_uring_submit(ring) != count)
		fail("io_uring_submit");
	if (!io_uring_peek_cqe(ring, &cqe))
		fail("a request was completed with %d, send() said EAGAIN",
		     cqe->res);
	for (int i = 0; i < count; i++) {
		if (io_uring_wait_cqe_timeout(ring, &cqe, &later))
			fail("%d of %d requests were completed", i, count);
		result = cqe->res;
		if (result < min || result > max)
			fail("request %d was completed with %d", i, result);
		io_uring_cqe_seen(ring, cqe);
	}
	return result;
}

/* Of a stream one piece at a time: requests may overtake each other. */
static void uring_send(int fd)
{
	int count = self.is_stream ? 1 : BATCH;
	struct io_uring ring;

	uring_open(&ring);
	fill(fd);
	for (int i = 0; i < count; i++)
		io_uring_prep_send(io_uring_get_sqe(&ring), fd,
				   self.is_stream ? stream_data() : packet,
				   PAYLOAD, 0);
	self.sent_bytes += uring_expect(&ring, count,
					self.is_stream ? 1 : PAYLOAD, PAYLOAD);
	wait_until_drained(fd);
}

static void uring_poll(int fd)
{
	struct io_uring ring;

	uring_open(&ring);
	for (int i = 0; i < 3; i++) {
		fill(fd);
		io_uring_prep_poll_add(io_uring_get_sqe(&ring), fd, POLLOUT);
		uring_expect(&ring, 1, POLLOUT, POLLOUT | POLLWRNORM);
		must(put(fd, MSG_DONTWAIT) == PAYLOAD, "send after poll");
	}
	wait_until_drained(fd);
}

#ifdef IORING_CQE_F_NOTIF	/* of liburing 2.3 */
/* Each request is completed when it is sent, and when its memory is ours again. */
static void uring_zerocopy(int fd)
{
	struct __kernel_timespec later = { .tv_sec = LONG_MS / 1000 };
	int sent = 0, freed = 0;
	struct io_uring_cqe *cqe;
	struct io_uring ring;

	uring_open(&ring);
	fill(fd);
	for (int i = 0; i < BATCH; i++)
		io_uring_prep_send_zc(io_uring_get_sqe(&ring), fd, packet, PAYLOAD, 0, 0);
	must(io_uring_submit(&ring) == BATCH, "io_uring_submit");
	if (!io_uring_peek_cqe(&ring, &cqe)) {
		errno = -cqe->res;
		if (cqe->res == -EINVAL)
			lacks("SEND_ZC");
		fail("a request was completed with %d, send() said EAGAIN", cqe->res);
	}
	while (sent < BATCH || freed < BATCH) {
		if (io_uring_wait_cqe_timeout(&ring, &cqe, &later))
			fail("%d of %d requests were sent, %d are free", sent, BATCH, freed);
		if (cqe->flags & IORING_CQE_F_NOTIF)
			freed++;
		else if (cqe->res == PAYLOAD)
			sent++;
		else
			fail("request %d was completed with %d", sent, cqe->res);
		io_uring_cqe_seen(&ring, cqe);
	}
	wait_until_drained(fd);
}
#else
static void uring_zerocopy(int fd)
{
	(void)fd;
	errno = ENOSYS;
	lacks("SEND_ZC");
}
#endif

#ifdef IORING_POLL_ADD_MULTI	/* of liburing 2.1 */
/* One request says each time that there is room. */
static void uring_multishot(int fd)
{
	struct __kernel_timespec later = { .tv_sec = LONG_MS / 1000 };
	struct io_uring_cqe *cqe;
	struct io_uring ring;

	uring_open(&ring);
	fill(fd);
	io_uring_prep_poll_multishot(io_uring_get_sqe(&ring), fd, POLLOUT);
	must(io_uring_submit(&ring) == 1, "io_uring_submit");
	if (!io_uring_peek_cqe(&ring, &cqe)) {
		errno = -cqe->res;
		if (cqe->res == -EINVAL)
			lacks("multishot poll");
		fail("poll says %d, send() said EAGAIN", cqe->res);
	}
	for (int i = 0; i < 3; i++) {
		if (io_uring_wait_cqe_timeout(&ring, &cqe, &later))
			fail("poll never said that there is room");
		if (!(cqe->res & POLLOUT) || !(cqe->flags & IORING_CQE_F_MORE))
			fail("poll says %d, flags %u", cqe->res, cqe->flags);
		io_uring_cqe_seen(&ring, cqe);
		must(put(fd, MSG_DONTWAIT) == PAYLOAD, "send after poll");
		fill(fd);
	}
	wait_until_drained(fd);
}
#else
static void uring_multishot(int fd)
{
	(void)fd;
	errno = ENOSYS;
	lacks("multishot poll");
}
#endif

const struct bpsocket_case wait_cases[] = {
	{ "nonblocking", nonblocking },
	{ "poll", poll_wakes },
	{ "select", select_wakes },
	{ "epoll_level", epoll_level },
	{ "epoll_edge", epoll_edge },
	{ "sigio", sigio },
	{ "blocking", blocking },
	{ "restart", restart },
	{ "timeout", timeout },
	{ "uring_send", uring_send },
	{ "uring_poll", uring_poll },
	{ "uring_zerocopy", uring_zerocopy },
	{ "uring_multishot", uring_multishot },
	{ }
};
