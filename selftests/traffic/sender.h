/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPTRAFFIC_SENDER_H
#define BPTRAFFIC_SENDER_H

#include "traffic.h"

/* A process_role: one socket, or all of them in epoll mode. */
void sender_run(struct traffic *t, uint32_t index);

/* Set half of the --sndbuf on @fd, if given; exits on failure. */
void sender_set_sndbuf(const struct options *o, int fd);
void sender_set_pacing(const struct options *o, int fd);

/* The priority of @fd names that class, with --classes. */
void sender_set_class(const struct options *o, int fd, uint64_t minor);
/* The same of the sender with that index */
void sender_set_class_of(const struct options *o, int fd, uint32_t index);

#endif
