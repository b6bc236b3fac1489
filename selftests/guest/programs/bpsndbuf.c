// SPDX-License-Identifier: GPL-2.0-only
/* bpsndbuf: the send buffer of a tap that another process has open (as bpshaper-tap, which needs
 * Python)
 *
 * usage: bpsndbuf BYTES DEVICE [PID]
 *
 * With PID: takes the file descriptors of that process (pidfd_getfd(), which needs the right to
 * trace it), and sets the send buffer of those that are taps of the name DEVICE. Prints how many
 * these are. A macvtap or ipvtap gives its name, too.
 *
 * Without PID: attaches a queue to the multiqueue tap DEVICE for a moment. A send buffer that is set
 * then is that of all its queues.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

static void fail(const char *what)
{
	fprintf(stderr, "bpsndbuf: %s: %s\n", what, strerror(errno));
	exit(1);
}

static bool is_tap(int fd, const char *device)
{
	struct ifreq ifr = { 0 };

	return !ioctl(fd, TUNGETIFF, &ifr) && !strcmp(ifr.ifr_name, device);
}

/* What is no tap at all is not asked: an ioctl() may mean something else there. */
static bool is_candidate(int pid, const char *number)
{
	char path[64], target[64] = "";

	snprintf(path, sizeof(path), "/proc/%d/fd/%.16s", pid, number);
	if (readlink(path, target, sizeof(target) - 1) < 0)
		return false;
	return !strcmp(target, "/dev/net/tun") || !strncmp(target, "/dev/tap", 8);
}

static int set_in_process(int pid, const char *device, int bytes)
{
	int pidfd = syscall(SYS_pidfd_open, pid, 0), count = 0, fd;
	struct dirent *entry;
	char path[32];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (pidfd < 0 || !dir)
		fail("process");
	while ((entry = readdir(dir))) {
		if (!is_candidate(pid, entry->d_name))
			continue;
		fd = syscall(SYS_pidfd_getfd, pidfd, atoi(entry->d_name), 0);
		if (fd < 0)
			fail("pidfd_getfd");
		if (is_tap(fd, device)) {
			if (ioctl(fd, TUNSETSNDBUF, &bytes))
				fail("TUNSETSNDBUF");
			count++;
		}
		close(fd);
	}
	return count;
}

static int set_by_queue(const char *device, int bytes)
{
	struct ifreq ifr = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_MULTI_QUEUE };
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", device);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &ifr) || ioctl(fd, TUNSETSNDBUF, &bytes))
		fail(device);
	close(fd);
	return 1;
}

int main(int argc, char **argv)
{
	int count;

	errno = EINVAL;
	if (argc < 3 || argc > 4)
		fail("usage: bpsndbuf BYTES DEVICE [PID]");
	if (argc == 4)
		count = set_in_process(atoi(argv[3]), argv[2], atoi(argv[1]));
	else
		count = set_by_queue(argv[2], atoi(argv[1]));
	printf("%d\n", count);
	return !count;
}
