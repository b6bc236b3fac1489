/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPTRAFFIC_NETNS_H
#define BPTRAFFIC_NETNS_H

/*
 * Sockets opened from now on by this thread live in /run/netns/@name.
 * NULL stays where it is. 0, or -1 with errno.
 */
int netns_enter(const char *name);

#endif
