// SPDX-License-Identifier: GPL-2.0-only
/* Sockets that are held by a slow shaper until something ends that. Each case says "held" when
 * they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bpsocket.h"

#define HELD		64	/* packets; more than 64 kB, less than a send buffer */
#define PATIENCE	20	/* packets, 10 ms each */
#define POOL_SEGMENTS	10
#define POOL_PACKETS	12

/* Since 6.19 a packet may wait in a list until whoever holds the queue has run again,
 * which with PREEMPT_RT takes a while: past the share, give it time. Before, the
 * packet that is too much throttles at once.
 */
static int patience(void)
{
	unsigned int major = 0, minor = 0;
	struct utsname name;

	uname(&name);
	sscanf(name.release, "%u.%u", &major, &minor);
	return major > 6 || (major == 6 && minor >= 19) ? PATIENCE : 0;
}

static void hold(int fd)
{
	int most = HELD + patience();

	for (int sent = 0; sent < most; sent++) {
		if (sent >= HELD)
			usleep(10000);
		if (put(fd, MSG_DONTWAIT) >= 0)
			continue;
		if (errno == EAGAIN)
			return;
		must(errno == ECONNREFUSED, "send");	/* of a packet before */
	}
	fail("a socket was not throttled");
}

static void say_held(void)
{
	printf("held\n");
	fflush(stdout);
}

static void wait_until_free(int fd)
{
	while (!is_writable(fd, -1))
		;
	wait_until_drained(fd);
}

/* SOCKETS of them become writable, and are charged nothing in the end. */
static void many(int fd)
{
	int sockets = atoi(self.netns), *fds = calloc(sockets, sizeof(*fds));
	struct rlimit files = { sockets + 16, sockets + 16 };

	must(!setrlimit(RLIMIT_NOFILE, &files) && fds, "files");
	for (int i = 0; i < sockets; i++) {
		fds[i] = i ? open_socket() : fd;
		hold(fds[i]);
	}
	say_held();
	for (int i = 0; i < sockets; i++)
		wait_until_free(fds[i]);
}

/* Gets through, or an error of the device or route that it has lost. */
static void asleep(int fd)
{
	hold(fd);
	say_held();
	must(put(fd, 0) >= 0 || errno == ENETDOWN || errno == ENETUNREACH ||
	     errno == EINVAL /* in_device gone */, "send");
}

static void wait_until_asleep(pid_t tid)
{
	char name[32], state = 0;

	snprintf(name, sizeof(name), "/proc/%d/stat", tid);
	while (state != 'S') {
		FILE *file = fopen(name, "r");

		must(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1, name);
		fclose(file);
		usleep(1000);
	}
}

static struct sleeper {
	int	fd;
	pid_t	tid;
	ssize_t	sent;
} sleeper;

static void *sleep_in_send(void *unused)
{
	(void)unused;
	__atomic_store_n(&sleeper.tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	sleeper.sent = send(sleeper.fd, packet, PAYLOAD, 0);
	return NULL;
}

/* A thread sleeps in send() on @fd. */
static pthread_t sleeper_start(int fd)
{
	pthread_t thread;

	hold(fd);
	sleeper.fd = fd;
	must(!pthread_create(&thread, NULL, sleep_in_send, NULL), "thread");
	while (!__atomic_load_n(&sleeper.tid, __ATOMIC_ACQUIRE))
		usleep(1000);
	wait_until_asleep(sleeper.tid);
	return thread;
}

/* Holds nobody: GSO packets from sockets with a send buffer that no ballast can fill, enough to
 * fill a pool and push packets out of it. The second flow is the shorter one: it pushes out the
 * first.
 */
static void pool(int fd)
{
	static const char packets[POOL_SEGMENTS * PAYLOAD];
	int fds[] = { fd, open_socket() }, segment = PAYLOAD;

	for (int i = 0; i < 2; i++) {
		set_sndbuf(fds[i], 1 << 29);
		must(!setsockopt(fds[i], IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)),
		     "UDP_SEGMENT");
	}
	for (int i = 0; i < POOL_PACKETS; i++)
		must(send(fds[i / (POOL_PACKETS - 2)], packets, sizeof(packets), 0) >= 0 ||
		     errno == ENOBUFS, "send");
}

/* Another thread closes the socket of one that sleeps in send(): that is woken and gets through
 * when the shaper lets it.
 */
static void closed(int fd)
{
	pthread_t thread = sleeper_start(fd);

	close(fd);
	say_held();
	pthread_join(thread, NULL);
	must(sleeper.sent == PAYLOAD, "send on the closed socket");
}

/* send() of a sleeping process fails with EPIPE at once. */
static void shut_down(int fd)
{
	pid_t child;
	int status;

	hold(fd);
	child = fork();
	if (!child)
		exit(send(fd, packet, PAYLOAD, MSG_NOSIGNAL) < 0 ? errno : 0);
	wait_until_asleep(child);
	must(!shutdown(fd, SHUT_WR), "shutdown");
	say_held();
	must(waitpid(child, &status, 0) == child, "waitpid");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != EPIPE)
		fail("send after shutdown: status %d", status);
}

/* A process ends with a thread asleep. */
static void exited(int fd)
{
	sleeper_start(fd);
	say_held();
	exit(0);
}

/* So does one that executes another program, which takes over the sockets without FD_CLOEXEC as
 * they are: held, then released. The sleeping thread must die for that.
 */
static void executed(int fd)
{
	int closes = open_socket();
	char kept[16];

	hold(fd);
	snprintf(kept, sizeof(kept), "%d", fd);
	must(!fcntl(closes, F_SETFD, FD_CLOEXEC), "FD_CLOEXEC");
	sleeper_start(closes);
	execl("/proc/self/exe", "bpsocket", self.type, self.dst, "after_exec", "lo", kept, NULL);
	must(false, "exec");
}

static void after_exec(int fd)
{
	(void)fd;
	hold(atoi(self.netns));
	say_held();
	wait_until_free(atoi(self.netns));
}

const struct bpsocket_case end_cases[] = {
	{ "many", many },
	{ "pool", pool },
	{ "sleep", asleep },
	{ "close", closed },
	{ "shutdown", shut_down },
	{ "exit", exited },
	{ "exec", executed },
	{ "after_exec", after_exec },
	{ }
};
