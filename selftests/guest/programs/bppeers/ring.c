// SPDX-License-Identifier: GPL-2.0-only
/* The driver's side of a transmit ring (virtio 1.0, split), and vhost-net at the other. */
#include <errno.h>
#include <fcntl.h>
#include <linux/vhost.h>
#include <linux/virtio_config.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest.h"

#define RING_TX		1	/* vhost-net's number of the queue */
#define RING_ALIGN	4096

static void *part(uint8_t **at, size_t bytes)
{
	void *p = *at;

	*at += (bytes + RING_ALIGN - 1) & ~(size_t)(RING_ALIGN - 1);
	return p;
}

/* All that the device reads is in one mapping. */
static bool ring_map(struct ring *r, struct vhost_memory_region *region)
{
	size_t bytes = (r->frame_max + sizeof(*r->desc) + 16) * r->size + 4 * RING_ALIGN;
	uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (at == MAP_FAILED)
		return false;
	region->guest_phys_addr = (uintptr_t)at;
	region->userspace_addr = (uintptr_t)at;
	region->memory_size = bytes;
	r->desc = part(&at, sizeof(*r->desc) * r->size);
	r->avail = part(&at, sizeof(*r->avail) + 2 * r->size);
	r->used = part(&at, sizeof(*r->used) + sizeof(r->used->ring[0]) * r->size);
	r->frames = part(&at, r->frame_max * r->size);
	r->avail->flags = VRING_AVAIL_F_NO_INTERRUPT;
	return true;
}

static bool vhost_set_memory(int vhost, const struct vhost_memory_region *region)
{
	struct {
		struct vhost_memory		head;
		struct vhost_memory_region	region;
	} memory = { .head.nregions = 1, .region = *region };

	return !ioctl(vhost, VHOST_SET_MEM_TABLE, &memory);
}

static bool vhost_set_ring(struct ring *r)
{
	struct vhost_vring_state size = { .index = RING_TX, .num = r->size };
	struct vhost_vring_state base = { .index = RING_TX };
	struct vhost_vring_file kick = { .index = RING_TX, .fd = r->kick };
	struct vhost_vring_file call = { .index = RING_TX, .fd = r->call };
	struct vhost_vring_addr addr = {
		.index = RING_TX,
		.desc_user_addr = (uintptr_t)r->desc,
		.avail_user_addr = (uintptr_t)r->avail,
		.used_user_addr = (uintptr_t)r->used,
	};

	return !ioctl(r->vhost, VHOST_SET_VRING_NUM, &size) &&
	       !ioctl(r->vhost, VHOST_SET_VRING_BASE, &base) &&
	       !ioctl(r->vhost, VHOST_SET_VRING_ADDR, &addr) &&
	       !ioctl(r->vhost, VHOST_SET_VRING_KICK, &kick) &&
	       !ioctl(r->vhost, VHOST_SET_VRING_CALL, &call);
}

bool ring_open(struct ring *r, unsigned int size, size_t frame_max, int tap)
{
	struct vhost_vring_file backend = { .index = RING_TX, .fd = tap };
	uint64_t features = 1ULL << VIRTIO_F_VERSION_1;
	struct vhost_memory_region region = { 0 };

	*r = (struct ring){ .size = size, .frame_max = frame_max };
	r->idle = calloc(size, sizeof(*r->idle));
	if (!r->idle || !ring_map(r, &region))
		return false;
	while (r->idle_len < size) {
		r->idle[r->idle_len] = r->idle_len;
		r->idle_len++;
	}
	r->vhost = open("/dev/vhost-net", O_RDWR | O_CLOEXEC);
	r->kick = eventfd(0, EFD_CLOEXEC);
	r->call = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return r->vhost >= 0 && r->kick >= 0 && r->call >= 0 &&
	       !ioctl(r->vhost, VHOST_SET_OWNER) &&
	       !ioctl(r->vhost, VHOST_SET_FEATURES, &features) &&
	       vhost_set_memory(r->vhost, &region) && vhost_set_ring(r) &&
	       !ioctl(r->vhost, VHOST_NET_SET_BACKEND, &backend);
}

unsigned int ring_reap(struct ring *r)
{
	uint16_t used = __atomic_load_n(&r->used->idx, __ATOMIC_ACQUIRE);
	unsigned int count = 0;

	for (; r->used_seen != used; r->used_seen++, count++)
		r->idle[r->idle_len++] = r->used->ring[r->used_seen % r->size].id;
	return count;
}

unsigned int ring_wait(struct ring *r, unsigned int least)
{
	struct pollfd pfd = { .fd = r->call, .events = POLLIN };
	unsigned int count = 0;
	uint64_t calls;

	__atomic_store_n(&r->avail->flags, 0, __ATOMIC_SEQ_CST);
	for (;;) {
		/* Ask for the call first, or the last one could be missed. */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		count += ring_reap(r);
		if (r->idle_len >= least)
			break;
		poll(&pfd, 1, -1);
		if (read(r->call, &calls, sizeof(calls)) < 0 && errno != EAGAIN)
			break;
	}
	__atomic_store_n(&r->avail->flags, VRING_AVAIL_F_NO_INTERRUPT, __ATOMIC_RELAXED);
	return count;
}

void ring_put(struct ring *r, const void *frame, size_t bytes)
{
	uint16_t d = r->idle[--r->idle_len], next = r->avail->idx;
	uint8_t *to = r->frames + d * r->frame_max;
	uint64_t one = 1;

	memset(to, 0, GUEST_HEADER);
	memcpy(to + GUEST_HEADER, frame, bytes);
	r->desc[d] = (struct vring_desc){ .addr = (uintptr_t)to, .len = GUEST_HEADER + bytes };
	r->avail->ring[next % r->size] = d;
	__atomic_store_n(&r->avail->idx, next + 1, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!(__atomic_load_n(&r->used->flags, __ATOMIC_RELAXED) & VRING_USED_F_NO_NOTIFY) &&
	    write(r->kick, &one, sizeof(one)) < 0)
		abort();
}
