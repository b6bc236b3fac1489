/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPTRAFFIC_OPTIONS_H
#define BPTRAFFIC_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum options_mode {
	OPTIONS_BLOCK,	/* a process per socket sleeps in sendto() */
	OPTIONS_POLL,	/* a process per socket sleeps in poll() on EAGAIN */
	OPTIONS_EPOLL,	/* one process has all sockets in an epoll set */
};

struct options {
	const char *tx_netns;
	const char *rx_netns;
	const char *dst;
	uint64_t port;			/* data; +1 probe, +2 TCP */
	uint64_t udp_senders;
	uint64_t udp_payload_bytes;
	uint64_t sndbuf_bytes;		/* 0: the kernel's default */
	uint64_t pacing_bits_per_s;	/* 0: unlimited */
	uint64_t classes;		/* 0: no priorities */
	uint64_t class_first, class_probe;
	uint64_t mode;			/* enum options_mode */
	uint64_t gso_segments;		/* 1: one datagram per sendto() */
	uint64_t tcp_flows;
	const char *tcp_congestion;
	uint64_t tcp_write_bytes;
	bool probe;
	uint64_t probe_payload_bytes;
	uint64_t probe_interval_us;
	uint64_t warmup_ms;
	uint64_t sending_ns;
	uint64_t drain_ms;
	uint64_t sink_interval_us;
	const char *json_path;
	bool per_sender;
	bool quiet;

	struct sockaddr_storage address;	/* @dst, port still 0 */
	socklen_t address_length;
};

/* Exits with one line on stderr, naming option and value, if @argv is wrong. */
void options_parse(struct options *o, int argc, char **argv);

const char *options_mode_name(const struct options *o);

/* @address with the port @offset above the base; its length is returned. */
socklen_t options_address(const struct options *o, unsigned int offset,
			  struct sockaddr_storage *address);

/* The same family and port, but every local address: where a sink listens. */
socklen_t options_any_address(const struct options *o, unsigned int offset,
			      struct sockaddr_storage *address);

#endif
