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
#include <linux/openvswitch.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <string.h>

#include "genl.h"

#define PORT_UPLINK	1

static void ovs_begin(const char *family, int command, int ifindex)
{
	struct ovs_header *header = (void *)(message.bytes + NLMSG_LENGTH(GENL_HDRLEN));

	genl_begin(family, command, 1);
	header->dp_ifindex = ifindex;
	message.nl.nlmsg_len += sizeof(*header);
}

static void port_add(int datapath, const char *device, uint32_t number)
{
	ovs_begin(OVS_VPORT_FAMILY, OVS_VPORT_CMD_NEW, datapath);
	attr_put_u32(OVS_VPORT_ATTR_PORT_NO, number);
	attr_put_u32(OVS_VPORT_ATTR_TYPE, OVS_VPORT_TYPE_NETDEV);
	attr_put(OVS_VPORT_ATTR_NAME, device, strlen(device) + 1);
	attr_put_u32(OVS_VPORT_ATTR_UPCALL_PID, 0);
	message_send(device, NLM_F_ACK, 1);
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

	ovs_begin(OVS_FLOW_FAMILY, OVS_FLOW_CMD_NEW, datapath);
	key_put(OVS_FLOW_ATTR_KEY, from, htons(ETHERTYPE_IP));
	key_put(OVS_FLOW_ATTR_MASK, ~0U, 0xffff);
	actions = attr_put(OVS_FLOW_ATTR_ACTIONS, NULL, 0);
	for (uint32_t to = to_first; to <= to_last; to++)
		attr_put_u32(OVS_ACTION_ATTR_OUTPUT, to);
	if (to_host)
		attr_put_u32(OVS_ACTION_ATTR_OUTPUT, OVSP_LOCAL);
	attr_end(actions);
	message_send("flow", NLM_F_ACK, 1);
}

int main(int argc, char **argv)
{
	int datapath, i;

	errno = EINVAL;
	if (argc != 2 && argc < 4)
		fail("usage: bpovs NAME [UPLINK PORT...]", 1);
	ovs_begin(OVS_DATAPATH_FAMILY, argc == 2 ? OVS_DP_CMD_DEL : OVS_DP_CMD_NEW, 0);
	attr_put(OVS_DP_ATTR_NAME, argv[1], strlen(argv[1]) + 1);
	attr_put_u32(OVS_DP_ATTR_UPCALL_PID, 0);
	message_send(argv[1], NLM_F_ACK, 1);
	if (argc == 2)
		return 0;
	datapath = if_nametoindex(argv[1]);
	for (i = 2; i < argc; i++)
		port_add(datapath, argv[i], PORT_UPLINK + i - 2);
	for (i = 3; i < argc; i++)
		flow_add(datapath, PORT_UPLINK + i - 2, PORT_UPLINK, PORT_UPLINK, 0);
	flow_add(datapath, PORT_UPLINK, PORT_UPLINK + 1, PORT_UPLINK + argc - 3, 1);
	return 0;
}
