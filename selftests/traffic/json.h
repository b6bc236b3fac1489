/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPTRAFFIC_JSON_H
#define BPTRAFFIC_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One flat object of JSON, to a file, or to stdout for "-". Call json_open()
 * before all others. false with errno.
 */
bool json_open(const char *path);
bool json_is_open(void);

/* NULL: null */
void json_text(const char *key, const char *text);
void json_bool(const char *key, bool value);
void json_number(const char *key, uint64_t value);
void json_signed(const char *key, int64_t value, bool is_known);
/* NAN: null */
void json_real(const char *key, double value, int decimals);
/* @count numbers that lie @stride bytes apart */
void json_array(const char *key, const uint64_t *first, uint64_t count,
		size_t stride);

/* End the object. false: the disk is full, for example. */
bool json_end(void);

#endif
