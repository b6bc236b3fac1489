// SPDX-License-Identifier: GPL-2.0-only
/* Packets, or pieces of a stream, that the socket takes one by one. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bpsocket.h"

/* A tap is no socket to its owner, but takes frames as one. */
static ssize_t put_tap(int fd, int flags)
{
	int status = fcntl(fd, F_GETFL);
	ssize_t sent;

	if (flags & MSG_DONTWAIT)
		fcntl(fd, F_SETFL, status | O_NONBLOCK);
	sent = write(fd, packet, PAYLOAD);
	fcntl(fd, F_SETFL, status);
	return sent;
}

ssize_t put_packet(int fd, int flags)
{
	mark(packet, self.sent);
	if (!strcmp(self.type, "tap") || !strcmp(self.type, "tap-unbounded"))
		return put_tap(fd, flags);
	return send(fd, packet, PAYLOAD, flags);
}

/* send() of the next packet, or piece of the stream, which is counted. */
ssize_t put(int fd, int flags)
{
	ssize_t sent;

	if (self.is_stream)
		return stream_put(fd, flags);
	sent = put_packet(fd, flags);
	if (sent >= 0)
		self.sent++;
	return sent;
}

/* Send until the socket would block; the number of packets that it took. It would
 * block some day without a shaper, too, when its send buffer is full.
 */
int fill(int fd)
{
	int sent, most = self.is_stream ? STREAM_ROOM : SHARE;

	if (self.is_stream)
		stream_burst(fd);
	for (sent = 0; sent < most; sent++) {
		if (put(fd, MSG_DONTWAIT) < 0) {
			if (errno == EAGAIN)
				return sent;
			must(false, "send");
		}
	}
	fail("%d packets were sent and the socket was not throttled", sent);
}

void put_after(int fd, const char *what)
{
	must(put(fd, 0) == PAYLOAD, what);
}
