/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPTRAFFIC_PROBE_H
#define BPTRAFFIC_PROBE_H

#include "traffic.h"

/* A process_role: sends a small datagram every --probe-interval-us. */
void probe_run(struct traffic *t, uint32_t index);

#endif
