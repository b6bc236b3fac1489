// SPDX-License-Identifier: GPL-2.0-only
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "json.h"

static FILE *json_file;
static bool json_is_empty = true;

bool json_open(const char *path)
{
	json_file = strcmp(path, "-") ? fopen(path, "we") : stdout;
	return json_file;
}

bool json_is_open(void)
{
	return json_file;
}

static void json_key(const char *key)
{
	fprintf(json_file, "%s\n  \"%s\": ", json_is_empty ? "{" : ",",
		key);
	json_is_empty = false;
}

void json_text(const char *key, const char *text)
{
	json_key(key);
	fprintf(json_file, text ? "\"%s\"" : "null", text);
}

void json_bool(const char *key, bool value)
{
	json_key(key);
	fputs(value ? "true" : "false", json_file);
}

void json_number(const char *key, uint64_t value)
{
	json_key(key);
	fprintf(json_file, "%" PRIu64, value);
}

void json_signed(const char *key, int64_t value, bool is_known)
{
	json_key(key);
	if (is_known)
		fprintf(json_file, "%" PRId64, value);
	else
		fputs("null", json_file);
}

void json_real(const char *key, double value, int decimals)
{
	json_key(key);
	if (isnan(value))
		fputs("null", json_file);
	else
		fprintf(json_file, "%.*f", decimals, value);
}

void json_array(const char *key, const uint64_t *first, uint64_t count,
		size_t stride)
{
	uint64_t i;

	json_key(key);
	for (i = 0; i < count; i++)
		fprintf(json_file, "%s%" PRIu64, i ? ", " : "[",
			*(const uint64_t *)((const char *)first + i * stride));
	fputs(count ? "]" : "[]", json_file);
}

bool json_end(void)
{
	fputs("\n}\n", json_file);
	return !fflush(json_file) && !ferror(json_file);
}
