/* SPDX-License-Identifier: GPL-2.0-only */
/* See utils.h. */
#ifndef BPSHAPER_IPROUTE2_TC_UTIL_H
#define BPSHAPER_IPROUTE2_TC_UTIL_H

#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>

#include "utils.h"

#ifndef BPSHAPER_PROTOTYPES_ONLY
/* How tc calls the plugin of a qdisc. Callbacks that the plugin lacks are NULL.
 * Newer releases have more of them at the end: added[] leaves room, so that
 * they are NULL.
 */
struct qdisc_util {
	struct qdisc_util	*next;
	const char		*id;
	int			(*parse_qopt)(struct qdisc_util *qu, int argc,
					      char **argv, struct nlmsghdr *n,
					      const char *dev);
	int			(*print_qopt)(struct qdisc_util *qu, FILE *f,
					      struct rtattr *opt);
	int			(*print_xstats)(struct qdisc_util *qu, FILE *f,
						struct rtattr *xstats);
	int			(*parse_copt)(struct qdisc_util *qu, int argc,
					      char **argv, struct nlmsghdr *n,
					      const char *dev);
	int			(*print_copt)(struct qdisc_util *qu, FILE *f,
					      struct rtattr *opt);
	void			*added[6];
};

/* Print as text, as JSON, or as the command line of tc asks. */
enum output_type {
	PRINT_FP	= 1,
	PRINT_JSON	= 2,
	PRINT_ANY	= 4,
};

/* The six colours before it are not used. */
enum color_attr {
	COLOR_NONE	= 6,
};
#endif

extern int show_details;

int get_size_and_cell(unsigned int *size, int *cell_log, char *str);
int get_linklayer(unsigned int *val, const char *arg);
char *sprint_linklayer(unsigned int linklayer, char *buf);

bool is_json_context(void);
void open_json_array(enum output_type type, const char *delim);
void close_json_array(enum output_type type, const char *delim);
void print_nl(void);

/* What tc prints values with: print_SUFFIX() for a TYPE. */
#define BPSHAPER_PRINTERS(X)						\
X(int, int)								\
X(uint, unsigned int)							\
X(u64, uint64_t)							\
X(s64, int64_t)								\
X(lluint, unsigned long long)						\
X(string, const char *)							\
X(null, const char *)

#define BPSHAPER_PROTOTYPE(suffix, type)				\
int print_color_##suffix(enum output_type t, enum color_attr color,	\
			 const char *key, const char *fmt, type value);
BPSHAPER_PRINTERS(BPSHAPER_PROTOTYPE)

#ifndef BPSHAPER_PROTOTYPES_ONLY
#define BPSHAPER_PRINT(suffix, type)					\
static inline int print_##suffix(enum output_type t, const char *key,	\
				 const char *fmt, type value)		\
{									\
	return print_color_##suffix(t, COLOR_NONE, key, fmt, value);	\
}
BPSHAPER_PRINTERS(BPSHAPER_PRINT)
#endif

#endif
