// SPDX-License-Identifier: GPL-2.0-only
#include <linux/net_tstamp.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "netns.h"
#include "udp.h"

#define RCVBUF (64 << 20)

int udp_in(const char *netns)
{
	return netns_enter(netns) ? -1 : socket(AF_INET, SOCK_DGRAM, 0);
}

int udp_receiver(const char *netns, int port)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };
	int rcvbuf = RCVBUF, fd = udp_in(netns);

	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &rcvbuf, sizeof(rcvbuf)) ||
	    bind(fd, (struct sockaddr *)&any, sizeof(any)))
		return -1;
	return fd;
}

int udp_enable_txtime_of(int fd, clockid_t clock)
{
	struct sock_txtime txtime = { .clockid = clock };

	return setsockopt(fd, SOL_SOCKET, SO_TXTIME, &txtime, sizeof(txtime));
}

int udp_enable_txtime(int fd)
{
	return udp_enable_txtime_of(fd, CLOCK_MONOTONIC);
}

void udp_control(struct msghdr *msg, void *control, int level, int type, const void *value,
		 size_t len)
{
	struct cmsghdr *cmsg;

	memset(control, 0, CMSG_SPACE(len));
	msg->msg_control = control;
	msg->msg_controllen = CMSG_SPACE(len);
	cmsg = CMSG_FIRSTHDR(msg);
	cmsg->cmsg_level = level;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(cmsg), value, len);
}

ssize_t udp_send(int fd, const void *data, size_t bytes, const struct sockaddr_in *to,
		 uint64_t txtime_ns)
{
	char control[CMSG_SPACE(sizeof(txtime_ns))];
	struct iovec iov = { .iov_base = (void *)data, .iov_len = bytes };
	struct msghdr msg = {
		.msg_name = (void *)to,
		.msg_namelen = to ? sizeof(*to) : 0,
		.msg_iov = &iov,
		.msg_iovlen = 1,
	};

	if (txtime_ns)
		udp_control(&msg, control, SOL_SOCKET, SCM_TXTIME, &txtime_ns,
			    sizeof(txtime_ns));
	return sendmsg(fd, &msg, 0);
}

int64_t udp_stamp(struct msghdr *msg)
{
	struct cmsghdr *cmsg;
	struct timespec ts;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET ||
		    (cmsg->cmsg_type != SCM_TIMESTAMPING &&
		     cmsg->cmsg_type != SCM_TIMESTAMPNS))
			continue;
		/* The first of three, in struct scm_timestamping. */
		memcpy(&ts, CMSG_DATA(cmsg), sizeof(ts));
		return (int64_t)clock_from_timespec(&ts);
	}
	return 0;
}

int compare_int64(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}
