// SPDX-License-Identifier: GPL-2.0-only
/* Messages to families of generic netlink, one at a time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "genl.h"

#define EXIT_SKIP	4

union genl_message message;

static int netlink = -1;

void fail(const char *what, int status)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
	exit(status);
}

static void message_begin(int family, int command, int version)
{
	memset(&message, 0, sizeof(message));
	message.nl.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN);
	message.nl.nlmsg_type = family;
	message.nl.nlmsg_flags = NLM_F_REQUEST;
	message.genl.cmd = command;
	message.genl.version = version;
}

struct nlattr *attr_put(int type, const void *data, size_t bytes)
{
	struct nlattr *at = (void *)(message.bytes + message.nl.nlmsg_len);

	*at = (struct nlattr){ .nla_len = NLA_HDRLEN + bytes, .nla_type = type };
	if (bytes)
		memcpy(at + 1, data, bytes);
	message.nl.nlmsg_len += NLA_ALIGN(at->nla_len);
	return at;
}

void attr_put_u32(int type, uint32_t value)
{
	attr_put(type, &value, sizeof(value));
}

void attr_end(struct nlattr *nest)
{
	nest->nla_len = message.bytes + message.nl.nlmsg_len - (char *)nest;
}

int message_try(int flags)
{
	if (netlink < 0)
		netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);
	message.nl.nlmsg_flags |= flags;
	if (send(netlink, &message, message.nl.nlmsg_len, 0) < 0 ||
	    recv(netlink, &message, sizeof(message), 0) < 0)
		return errno;
	return message.nl.nlmsg_type == NLMSG_ERROR ? -message.ack.error : 0;
}

void message_send(const char *what, int flags, int status)
{
	errno = message_try(flags);
	if (errno)
		fail(what, status);
}

void genl_begin(const char *family, int command, int version)
{
	struct nlattr *attr = (void *)(message.bytes + NLMSG_LENGTH(GENL_HDRLEN));

	message_begin(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1);
	attr_put(CTRL_ATTR_FAMILY_NAME, family, strlen(family) + 1);
	message_send(family, 0, EXIT_SKIP);
	while (attr->nla_type != CTRL_ATTR_FAMILY_ID)
		attr = (void *)((char *)attr + NLA_ALIGN(attr->nla_len));
	message_begin(*(uint16_t *)(attr + 1), command, version);
}
