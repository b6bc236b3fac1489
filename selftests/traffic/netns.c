// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "netns.h"

int netns_enter(const char *name)
{
	char path[PATH_MAX];
	int saved_errno;
	int fd, ret;

	if (!name)
		return 0;
	snprintf(path, sizeof(path), "/run/netns/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ret = setns(fd, CLONE_NEWNET);
	saved_errno = errno;
	close(fd);
	errno = saved_errno;
	return ret;
}
