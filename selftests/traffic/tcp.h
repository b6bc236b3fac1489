/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPTRAFFIC_TCP_H
#define BPTRAFFIC_TCP_H

#include "traffic.h"

/* Two process_roles: one bulk flow, and the reader of them all. */
void tcp_write_run(struct traffic *t, uint32_t index);
void tcp_read_run(struct traffic *t, uint32_t index);

#endif
