/* SPDX-License-Identifier: GPL-2.0-only */
/* What q_bpshaper.c uses of the private headers of iproute2. No distribution
 * packages them; with this file and tc_util.h the plugin builds without
 * iproute2's sources.
 *
 * tc is not a library and promises nothing to its plugins. Therefore
 * selftests/plugin/declarations.c compiles this file together with the headers
 * of a release: a difference is an error. q_bpshaper.c looks up every symbol
 * when it is loaded. Documentation/kernels.rst lists the releases that were
 * compared.
 * make plugin IPROUTE2_SRC=DIR uses the headers of DIR instead.
 */
#ifndef BPSHAPER_IPROUTE2_UTILS_H
#define BPSHAPER_IPROUTE2_UTILS_H

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* These return 0, or -1 if the text is not a number of that kind. */
int get_rate64(__u64 *rate, const char *str);
int get_size(unsigned int *size, const char *str);
int get_time64(__s64 *time, const char *str);
char *sprint_time64(__s64 time, char *buf);

/* Netlink attributes. */
int addattr(struct nlmsghdr *n, int maxlen, int type);
int addattr32(struct nlmsghdr *n, int maxlen, int type, __u32 data);
int addattr64(struct nlmsghdr *n, int maxlen, int type, __u64 data);
struct rtattr *addattr_nest(struct nlmsghdr *n, int maxlen, int type);
int addattr_nest_end(struct nlmsghdr *n, struct rtattr *nest);
int parse_rtattr_flags(struct rtattr *tb[], int max, struct rtattr *rta,
		       int len, unsigned short flags);

#ifndef BPSHAPER_PROTOTYPES_ONLY
#define SPRINT_BSIZE	64
#define SPRINT_BUF(x)	char x[SPRINT_BSIZE]

#define parse_rtattr_nested(tb, max, rta)				\
	parse_rtattr_flags(tb, max, RTA_DATA(rta), RTA_PAYLOAD(rta),	\
			   NLA_F_NESTED)

static inline __u32 rta_getattr_u32(const struct rtattr *rta)
{
	__u32 value;

	memcpy(&value, RTA_DATA(rta), sizeof(value));
	return value;
}

static inline __u64 rta_getattr_u64(const struct rtattr *rta)
{
	__u64 value;

	memcpy(&value, RTA_DATA(rta), sizeof(value));
	return value;
}
#endif

#endif
