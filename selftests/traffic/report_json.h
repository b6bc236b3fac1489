/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPTRAFFIC_REPORT_JSON_H
#define BPTRAFFIC_REPORT_JSON_H

#include "report_sum.h"

/* Nothing without --json. false: the disk is full, for example. */
bool report_write_json(const struct report *r);

#endif
