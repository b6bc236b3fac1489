// SPDX-License-Identifier: GPL-2.0-only
/* bphold: sockets that are held by a slow shaper until something ends that
 *
 * usage: bphold CASE ADDRESS [SOCKETS]
 *
 * Fills UDP sockets until each would block, says "held", and exits 0 when the
 * case has gone as it must, else says why not and exits 1. CASE is
 *	many	all sockets become writable, and are charged nothing in the end
 *	pool	holds nobody: sends GSO packets from a socket with a send buffer that
 *		no ballast can fill
 *	sleep	a process asleep in send() gets through, or an error of the
 *		device or route that it has lost
 *	close	a thread sleeps in send() on a socket that another closes: it is
 *		woken and gets through when the shaper lets it
 *	shutdown	sendto() of a sleeping process fails with EPIPE at once
 *	exit	a process with a thread asleep ends
 *	exec	so does one that executes another program, which takes over the
 *		sockets without FD_CLOEXEC as they are: held, then released
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAYLOAD		1200
#define SHARE		64	/* packets; more than 64 kB, less than a send buffer */
#define PATIENCE	20	/* packets, 10 ms each */
#define POOL_SEGMENTS	10
#define POOL_PACKETS	12

static const char packet[PAYLOAD];

static void fail(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static int open_socket(const char *address)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST,
				  .ai_socktype = SOCK_DGRAM }, *to;
	int fd;

	if (getaddrinfo(address, "9", &hints, &to))
		fail(address);
	fd = socket(to->ai_family, to->ai_socktype, 0);
	if (fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen))
		fail(address);
	freeaddrinfo(to);
	return fd;
}

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

static void fill(int fd)
{
	int most = SHARE + patience();

	for (int sent = 0; sent < most; sent++) {
		if (sent >= SHARE)
			usleep(10000);
		if (send(fd, packet, PAYLOAD, MSG_DONTWAIT) == PAYLOAD)
			continue;
		if (errno == EAGAIN)
			return;
		if (errno != ECONNREFUSED)	/* of a packet before */
			fail("send");
	}
	errno = 0;
	fail("a socket was not throttled");
}

static int held_socket(const char *address)
{
	int fd = open_socket(address);

	fill(fd);
	return fd;
}

static void say_held(void)
{
	printf("held\n");
	fflush(stdout);
}

static int charge(int fd)
{
	__u32 mem[SK_MEMINFO_VARS];
	socklen_t len = sizeof(mem);

	if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, mem, &len))
		fail("SO_MEMINFO");
	return mem[SK_MEMINFO_WMEM_ALLOC];
}

static void wait_until_free(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };

	while (!(pfd.revents & POLLOUT))
		if (poll(&pfd, 1, -1) < 0)
			fail("poll");
	while (charge(fd))
		usleep(10000);
}

static int many(const char *address, int sockets)
{
	struct rlimit files = { sockets + 16, sockets + 16 };
	int *fds = calloc(sockets, sizeof(*fds));

	if (setrlimit(RLIMIT_NOFILE, &files) || !fds)
		fail("files");
	for (int i = 0; i < sockets; i++)
		fds[i] = held_socket(address);
	say_held();
	for (int i = 0; i < sockets; i++)
		wait_until_free(fds[i]);
	return 0;
}

static bool is_asleep(pid_t tid)
{
	char name[32], line[128] = "", state = 0;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/%d/stat", tid);
	file = fopen(name, "r");
	if (!file || !fgets(line, sizeof(line), file))
		fail(name);
	fclose(file);
	sscanf(line, "%*d (%*[^)]) %c", &state);
	return state == 'S';
}

static void wait_until_asleep(pid_t tid)
{
	while (!is_asleep(tid))
		usleep(1000);
}

static struct sleeper {
	int	fd;
	pid_t	tid;
	ssize_t	sent;
} sleeper;

static void *sleep_in_send(void *arg)
{
	(void)arg;
	__atomic_store_n(&sleeper.tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	sleeper.sent = send(sleeper.fd, packet, PAYLOAD, 0);
	return NULL;
}

static pthread_t sleeper_start(int fd)
{
	pthread_t thread;

	sleeper.fd = fd;
	if (pthread_create(&thread, NULL, sleep_in_send, NULL))
		fail("pthread_create");
	while (!__atomic_load_n(&sleeper.tid, __ATOMIC_ACQUIRE))
		usleep(1000);
	wait_until_asleep(sleeper.tid);
	return thread;
}

/* Enough to fill a pool and push packets out of it. */
static int pool(const char *address)
{
	int fds[2], segment = PAYLOAD, huge = 1 << 29;	/* doubled */
	static const char packets[POOL_SEGMENTS * PAYLOAD];

	for (int i = 0; i < 2; i++) {
		fds[i] = open_socket(address);
		if (setsockopt(fds[i], SOL_SOCKET, SO_SNDBUFFORCE, &huge,
			       sizeof(huge)) ||
		    setsockopt(fds[i], IPPROTO_UDP, UDP_SEGMENT, &segment,
			       sizeof(segment)))
			fail("pool socket");
	}
	/* The second flow is the shorter one: it pushes out the first. */
	for (int i = 0; i < POOL_PACKETS; i++)
		if (send(fds[i / (POOL_PACKETS - 2)], packets, sizeof(packets),
			 0) < 0 && errno != ENOBUFS)
			fail("send");
	return 0;
}

static int asleep(const char *address)
{
	int fd = held_socket(address);

	say_held();
	if (send(fd, packet, PAYLOAD, 0) < 0 && errno != ENETDOWN &&
	    errno != ENETUNREACH && errno != EINVAL)	/* in_device gone */
		fail("send");
	return 0;
}

static int closed(const char *address)
{
	pthread_t thread = sleeper_start(held_socket(address));

	close(sleeper.fd);
	say_held();
	pthread_join(thread, NULL);
	if (sleeper.sent != PAYLOAD)
		fail("send on the closed socket");
	return 0;
}

static int shut_down(const char *address)
{
	int status, fd = held_socket(address);
	pid_t child = fork();

	if (!child)
		exit(send(fd, packet, PAYLOAD, MSG_NOSIGNAL) < 0 ? errno : 0);
	wait_until_asleep(child);
	if (shutdown(fd, SHUT_WR))
		fail("shutdown");
	say_held();
	if (waitpid(child, &status, 0) != child)
		fail("waitpid");
	errno = WEXITSTATUS(status);
	if (!WIFEXITED(status) || errno != EPIPE)
		fail("send after shutdown");
	return 0;
}

static int exited(const char *address)
{
	sleeper_start(held_socket(address));
	say_held();
	exit(0);
}

/* The sleeping thread must die for execve() to return as another program. */
static int executed(const char *address)
{
	int kept = held_socket(address), closes = held_socket(address);
	char fd[16];

	snprintf(fd, sizeof(fd), "%d", kept);
	if (fcntl(closes, F_SETFD, FD_CLOEXEC))
		fail("FD_CLOEXEC");
	sleeper_start(closes);
	execl("/proc/self/exe", "bphold", "after_exec", fd, NULL);
	fail("exec");
	return 1;
}

static int after_exec(const char *fd)
{
	fill(atoi(fd));
	say_held();
	wait_until_free(atoi(fd));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(const char *address);
	} cases[] = {
		{ "pool", pool },
		{ "sleep", asleep },
		{ "close", closed },
		{ "shutdown", shut_down },
		{ "exit", exited },
		{ "exec", executed },
		{ "after_exec", after_exec },
	};

	errno = EINVAL;
	if (argc < 3)
		fail("usage: bphold CASE ADDRESS [SOCKETS]");
	if (!strcmp(argv[1], "many") && argc > 3)
		return many(argv[2], atoi(argv[3]));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(cases[i].name, argv[1]))
			return cases[i].run(argv[2]);
	fail(argv[1]);
}
