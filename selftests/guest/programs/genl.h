/* SPDX-License-Identifier: GPL-2.0-only */
/* Messages to families of generic netlink: what programs share. */
#ifndef BPSHAPER_GENL_H
#define BPSHAPER_GENL_H

#include <linux/genetlink.h>
#include <stddef.h>
#include <stdint.h>

extern union genl_message {
	struct {
		struct nlmsghdr		nl;
		struct genlmsghdr	genl;
	};
	struct {
		struct nlmsghdr		head;
		struct nlmsgerr		ack;
	};
	char	bytes[8192];
} message;

/* Say what failed and why (errno), and exit with @status. */
__attribute__((noreturn))
void fail(const char *what, int status);

/* Begin a message; exits with 4 if the kernel has no such family. */
void genl_begin(const char *family, int command, int version);

/* Put an attribute; a nest is one without data, whose end is told. */
struct nlattr *attr_put(int type, const void *data, size_t bytes);
void attr_put_u32(int type, uint32_t value);
void attr_end(struct nlattr *nest);

/* Until there is an error, which is returned, an answer, or an acknowledgement (NLM_F_ACK) */
int message_try(int flags);

/* The same; exits with @status if there is an error. */
void message_send(const char *what, int flags, int status);

#endif
