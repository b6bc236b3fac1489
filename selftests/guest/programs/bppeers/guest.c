// SPDX-License-Identifier: GPL-2.0-only
/* Taps, as QEMU opens them, and what is given to them: frames that are written, or put into a
 * ring of vhost-net.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bppeers.h"
#include "guest.h"

/* A path is a macvtap or an ipvtap. Each open() of one is another queue. */
static int tap_open(const char *device, bool has_queues)
{
	struct ifreq ifr = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
	bool is_path = device[0] == '/';
	int header = GUEST_HEADER;
	int fd = open(is_path ? device : "/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (has_queues)
		ifr.ifr_flags |= IFF_MULTI_QUEUE;
	if (!is_path)
		snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", device);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &ifr) || ioctl(fd, TUNSETVNETHDRSZ, &header))
		fail(device);
	return fd;
}

/* The send buffer is set last: a queue that is attached after that has none. */
int guest_open(struct sender *s, unsigned int number)
{
	struct queue *q = &s->queues[number];

	q->fd = tap_open(s->device, s->sockets > 1 && s->device[0] != '/');
	if (s->sndbuf && ioctl(q->fd, TUNSETSNDBUF, &s->sndbuf))
		fail("TUNSETSNDBUF");
	q->is_ring = s->kind->protocol == GUEST_VHOST;
	if (q->is_ring &&
	    !ring_open(&q->ring, s->ring, GUEST_HEADER + s->size * s->gso + 64, q->fd))
		fail("/dev/vhost-net");
	return q->fd;
}

/* There was no room since @start_ns, and now there is. */
static void full_account(struct queue *q, uint64_t start_ns)
{
	uint64_t now_ns = clock_now_ns();

	q->full++;
	now_ns = now_ns < end_ns ? now_ns : end_ns;
	if (now_ns > start_ns)
		q->full_ns += now_ns - start_ns;
}

/* A device that is down refuses frames; a real driver would not learn of it. */
static void frame_write(struct queue *q, const struct iovec *frame)
{
	struct pollfd pfd = { .fd = q->fd, .events = POLLOUT };
	struct virtio_net_hdr_v1 header = { 0 };
	struct iovec iov[] = { { &header, sizeof(header) }, *frame };
	uint64_t start_ns;

	while (writev(q->fd, iov, 2) < 0) {
		if (errno == EIO || errno == ENETDOWN)
			return;
		if (errno != EAGAIN)
			fail("writev");
		start_ns = clock_now_ns();
		poll(&pfd, 1, -1);
		full_account(q, start_ns);
	}
	q->completed++;
}

/* Linux stops the queue when the ring is full, and starts it when a part is empty again. */
static void frame_put(struct queue *q, const struct iovec *frame)
{
	struct ring *r = &q->ring;
	uint64_t start_ns;

	q->completed += ring_reap(r);
	if (!r->idle_len) {
		start_ns = clock_now_ns();
		q->completed += ring_wait(r, r->size / 4);
		full_account(q, start_ns);
	}
	ring_put(r, frame->iov_base, frame->iov_len);
}

void guest_send(struct packet *p)
{
	if (p->queue->is_ring)
		frame_put(p->queue, &p->iov);
	else
		frame_write(p->queue, &p->iov);
}

void guest_finish(struct queue *q)
{
	if (q->is_ring)
		q->completed += ring_wait(&q->ring, q->ring.size);
}
