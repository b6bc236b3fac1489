/* SPDX-License-Identifier: GPL-2.0-only */
/* Datagrams with a time: what programs share. */
#ifndef BPSHAPER_UDP_H
#define BPSHAPER_UDP_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

/* An IPv4 socket in /run/netns/@netns, where this thread stays. -1 with errno. */
int udp_in(const char *netns);

/* The same, of any address, at @port, with room for all that a test sends. */
int udp_receiver(const char *netns, int port);

/* SO_TXTIME of CLOCK_MONOTONIC, or of @clock: 0, or -1 with errno. */
int udp_enable_txtime(int fd);
int udp_enable_txtime_of(int fd, clockid_t clock);

/* Put a control message with @len bytes of @value into @control, which has room for
 * CMSG_SPACE(@len), and that into @msg.
 */
void udp_control(struct msghdr *msg, void *control, int level, int type, const void *value,
		 size_t len);

/* Send @bytes of @data, to @to if the socket is not connected, to leave at @txtime_ns of
 * the clock of SO_TXTIME if that is not 0. As sendmsg().
 */
ssize_t udp_send(int fd, const void *data, size_t bytes, const struct sockaddr_in *to,
		 uint64_t txtime_ns);

/* The kernel's stamp among what came with @msg, ns of CLOCK_REALTIME; 0: there is none. */
int64_t udp_stamp(struct msghdr *msg);

int compare_int64(const void *a, const void *b);

#endif
