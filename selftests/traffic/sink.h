/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPTRAFFIC_SINK_H
#define BPTRAFFIC_SINK_H

#include "traffic.h"

/* A process_role: receives data and probes until all that was sent is here. */
void sink_run(struct traffic *t, uint32_t index);

#endif
