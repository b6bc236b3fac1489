/* SPDX-License-Identifier: GPL-2.0-only */
/* A virtual machine without its kernel: a tap, and who gives it frames. */
#ifndef GUEST_H
#define GUEST_H

#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GUEST_HEADER	sizeof(struct virtio_net_hdr_v1)

/**
 * struct ring - the transmit ring of a virtio device, and who empties it
 * @frames: one of @frame_max bytes for each descriptor, with its virtio header
 * @idle: stack of the @idle_len descriptors that have no frame in them
 * @used_seen: how far used descriptors have been taken back
 */
struct ring {
	unsigned int size;
	struct vring_desc *desc;
	struct vring_avail *avail;
	struct vring_used *used;
	uint8_t *frames;
	size_t frame_max;
	uint16_t *idle;
	unsigned int idle_len;
	uint16_t used_seen;
	int vhost, kick, call;
};

/**
 * struct queue - a queue of a tap
 * @is_ring: vhost-net takes its frames from @ring, otherwise they are written
 * @full: times that there was no room
 * @full_ns: how long
 * @completed: frames that the kernel has taken
 */
struct queue {
	int fd;
	bool is_ring;
	struct ring ring;
	uint64_t full;
	uint64_t full_ns;
	uint64_t completed;
};

/* ring.c. Those that return bool set errno. */
bool ring_open(struct ring *r, unsigned int size, size_t frame_max, int tap);
/* Frames that have been completed since the last time. */
unsigned int ring_reap(struct ring *r);
/* Sleep until at least @least descriptors are idle, and return completed frames. */
unsigned int ring_wait(struct ring *r, unsigned int least);
/* There is an idle descriptor. */
void ring_put(struct ring *r, const void *frame, size_t bytes);

#endif /* GUEST_H */
