/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPTRAFFIC_WIRE_H
#define BPTRAFFIC_WIRE_H

#include <stdint.h>

/* Sender and receiver are one machine: host byte order. */
#define WIRE_MAGIC		0x62707472U

/* The first bytes of every UDP payload; the rest is zero. */
struct wire_header {
	uint32_t magic;
	uint32_t sender;	/* index; 0 for probes */
	uint64_t sequence;	/* from 1, per sender */
	uint64_t sent_ns;	/* CLOCK_MONOTONIC before sendto(); probes only */
};

#define WIRE_HEADER_BYTES	sizeof(struct wire_header)

/* Ports above --port. */
#define WIRE_PORT_DATA		0
#define WIRE_PORT_PROBE		1
#define WIRE_PORT_TCP		2

#endif
