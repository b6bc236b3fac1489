// SPDX-License-Identifier: GPL-2.0-only
/* bpovs: a datapath of Open vSwitch, in this network namespace
 *
 * usage: bpovs NAME UPLINK PORT...
 *        bpovs NAME
 *
 * Makes the datapath NAME of the kernel (openvswitch.ko), with these devices as its ports. What
 * comes from a PORT with IPv4 goes to UPLINK. What comes from UPLINK with IPv4 goes to each PORT
 * and to the host, as received by the device NAME. Everything else is dropped. No daemon is needed,
 * as no packet asks for a flow. It stays when bpovs exits. Without ports: removes it.
 *
 * Exits with 4 if the kernel has no Open vSwitch.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/openvswitch.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXIT_SKIP	4
#define PORT_HOST	OVSP_LOCAL
#define PORT_UPLINK	1

static struct {
	struct nlmsghdr		nl;
	struct genlmsghdr	genl;
	char			data[2048];
} message;

static int netlink;

static void fail(const char *what, int status)
{
	fprintf(stderr, "bpovs: %s: %s\n", what, strerror(errno));
	exit(status);
}

static void message_begin(int family, int command, int version)
{
	memset(&message, 0, sizeof(message));
	message.nl.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN);
	message.nl.nlmsg_type = family;
	message.nl.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	message.genl.cmd = command;
	message.genl.version = version;
}

static void *message_put(const void *data, size_t bytes)
{
	void *at = (char *)&message + message.nl.nlmsg_len;

	memcpy(at, data, bytes);
	message.nl.nlmsg_len += NLMSG_ALIGN(bytes);
	return at;
}

static struct nlattr *attr_put(int type, const void *data, size_t bytes)
{
	struct nlattr attr = { .nla_len = NLA_HDRLEN + bytes, .nla_type = type };
	struct nlattr *at = message_put(&attr, sizeof(attr));

	message_put(data, bytes);
	return at;
}

static void attr_put_u32(int type, uint32_t value)
{
	attr_put(type, &value, sizeof(value));
}

static void attr_put_text(int type, const char *text)
{
	attr_put(type, text, strlen(text) + 1);
}

static void attr_end(struct nlattr *nest)
{
	nest->nla_len = (char *)&message + message.nl.nlmsg_len - (char *)nest;
}

/* Return 0 or an error. What comes before the acknowledgement is left in @answer. */
static int message_send(char *answer, size_t room)
{
	static char buffer[8192];
	struct nlmsghdr *nl = (struct nlmsghdr *)buffer;
	ssize_t len;

	if (send(netlink, &message, message.nl.nlmsg_len, 0) < 0)
		return errno;
	for (;;) {
		len = recv(netlink, buffer, sizeof(buffer), 0);
		if (len < 0)
			return errno;
		if (nl->nlmsg_type == NLMSG_ERROR)
			return -((struct nlmsgerr *)NLMSG_DATA(nl))->error;
		if (answer && (size_t)len <= room)
			memcpy(answer, buffer, len);
	}
}

/* The number of a family of generic netlink. */
static int family_find(const char *name)
{
	char answer[8192] = { 0 };
	struct nlmsghdr *nl = (struct nlmsghdr *)answer;
	struct nlattr *attr = (void *)(answer + NLMSG_LENGTH(GENL_HDRLEN));

	message_begin(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1);
	attr_put_text(CTRL_ATTR_FAMILY_NAME, name);
	errno = message_send(answer, sizeof(answer));
	if (errno)
		fail(name, EXIT_SKIP);
	while ((char *)attr < answer + nl->nlmsg_len) {
		if (attr->nla_type == CTRL_ATTR_FAMILY_ID)
			return *(uint16_t *)(attr + 1);
		attr = (void *)((char *)attr + NLA_ALIGN(attr->nla_len));
	}
	errno = ENOENT;
	fail(name, EXIT_SKIP);
	return 0;
}

static void ovs_begin(const char *family, int command, int version, int ifindex)
{
	struct ovs_header header = { .dp_ifindex = ifindex };

	message_begin(family_find(family), command, version);
	message_put(&header, sizeof(header));
}

static void ovs_send(const char *what)
{
	errno = message_send(NULL, 0);
	if (errno)
		fail(what, 1);
}

static int datapath_make(const char *name)
{
	ovs_begin(OVS_DATAPATH_FAMILY, OVS_DP_CMD_NEW, OVS_DATAPATH_VERSION, 0);
	attr_put_text(OVS_DP_ATTR_NAME, name);
	attr_put_u32(OVS_DP_ATTR_UPCALL_PID, 0);
	ovs_send(name);
	return if_nametoindex(name);
}

static void datapath_remove(const char *name)
{
	ovs_begin(OVS_DATAPATH_FAMILY, OVS_DP_CMD_DEL, OVS_DATAPATH_VERSION, 0);
	attr_put_text(OVS_DP_ATTR_NAME, name);
	ovs_send(name);
}

static void port_add(int datapath, const char *device, uint32_t number)
{
	ovs_begin(OVS_VPORT_FAMILY, OVS_VPORT_CMD_NEW, OVS_VPORT_VERSION, datapath);
	attr_put_u32(OVS_VPORT_ATTR_PORT_NO, number);
	attr_put_u32(OVS_VPORT_ATTR_TYPE, OVS_VPORT_TYPE_NETDEV);
	attr_put_text(OVS_VPORT_ATTR_NAME, device);
	attr_put_u32(OVS_VPORT_ATTR_UPCALL_PID, 0);
	ovs_send(device);
}

/* A key, or its mask: all that is not said here must be 0 in the key and is any in the mask. */
static void key_put(int type, uint32_t port, uint16_t ether_type)
{
	struct ovs_key_ethernet ethernet = { 0 };
	struct ovs_key_ipv4 ipv4 = { 0 };
	struct nlattr *key = attr_put(type, NULL, 0);

	attr_put_u32(OVS_KEY_ATTR_IN_PORT, port);
	attr_put(OVS_KEY_ATTR_ETHERNET, &ethernet, sizeof(ethernet));
	attr_put(OVS_KEY_ATTR_ETHERTYPE, &ether_type, sizeof(ether_type));
	attr_put(OVS_KEY_ATTR_IPV4, &ipv4, sizeof(ipv4));
	attr_end(key);
}

static void flow_add(int datapath, uint32_t from, uint32_t to_first, uint32_t to_last, int to_host)
{
	struct nlattr *actions;
	uint32_t to;

	ovs_begin(OVS_FLOW_FAMILY, OVS_FLOW_CMD_NEW, OVS_FLOW_VERSION, datapath);
	message.nl.nlmsg_flags |= NLM_F_CREATE;
	key_put(OVS_FLOW_ATTR_KEY, from, htons(ETHERTYPE_IP));
	key_put(OVS_FLOW_ATTR_MASK, ~0U, 0xffff);
	actions = attr_put(OVS_FLOW_ATTR_ACTIONS, NULL, 0);
	for (to = to_first; to <= to_last; to++)
		attr_put_u32(OVS_ACTION_ATTR_OUTPUT, to);
	if (to_host)
		attr_put_u32(OVS_ACTION_ATTR_OUTPUT, PORT_HOST);
	attr_end(actions);
	ovs_send("flow");
}

int main(int argc, char **argv)
{
	int datapath, i;

	errno = EINVAL;
	if (argc != 2 && argc < 4)
		fail("usage: bpovs NAME [UPLINK PORT...]", 1);
	netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);
	if (netlink < 0)
		fail("netlink", EXIT_SKIP);
	if (argc == 2) {
		datapath_remove(argv[1]);
		return 0;
	}
	datapath = datapath_make(argv[1]);
	for (i = 2; i < argc; i++)
		port_add(datapath, argv[i], PORT_UPLINK + i - 2);
	for (i = 3; i < argc; i++)
		flow_add(datapath, PORT_UPLINK + i - 2, PORT_UPLINK, PORT_UPLINK, 0);
	flow_add(datapath, PORT_UPLINK, PORT_UPLINK + 1, PORT_UPLINK + argc - 3, 1);
	return 0;
}
