// SPDX-License-Identifier: GPL-2.0-only
/* A packet that arrives at the host's end of a veth goes straight to the device with the index
 * UPLINK, into class 1:10 there: as it is, or with the Ethernet header that the routes of the host
 * give it.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "register.h"

SEC("classifier/redirect")
int redirect(struct __sk_buff *skb)
{
	skb->priority = in_register(0x10010);
	return bpf_redirect(UPLINK, 0);
}

SEC("classifier/neigh")
int redirect_neigh(struct __sk_buff *skb)
{
	skb->priority = in_register(0x10010);
	return bpf_redirect_neigh(UPLINK, 0, 0, 0);
}

char _license[] SEC("license") = "GPL";
