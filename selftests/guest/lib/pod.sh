# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# A container beside $tx, which is its host. Sourced after common.sh, never run.
#
#	netns $pod              netns $tx
#	+-----------------+     +-----------------------------+
#	| 10.98.0.2  eth0 +-----+ podhost  10.98.0.1          |
#	+-----------------+     |                      txdev  +----
#	                        +-----------------------------+

pod=bps-pod$$

# pod_make: its packets are routed by the host
pod_make()
{
	local hostmac podmac

	must ip netns add $pod
	must ip link add podhost netns "$tx" type veth peer name eth0 netns $pod
	# What IPv6 says by itself would be counted.
	ip netns exec $pod sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1
	hostmac=$(mac_of "$tx" podhost) podmac=$(mac_of $pod eth0)
	must ip -n $pod addr add 10.98.0.2/24 dev eth0
	must ip -n "$tx" addr add 10.98.0.1/24 dev podhost
	ip -n $pod link set eth0 up
	ip -n "$tx" link set podhost up
	must ip -n $pod neigh replace 10.98.0.1 lladdr "$hostmac" dev eth0 nud permanent
	must ip -n "$tx" neigh replace 10.98.0.2 lladdr "$podmac" dev podhost nud permanent
	must ip -n $pod route add default via 10.98.0.1
	on_tx sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 \
		net.ipv4.conf.podhost.rp_filter=0
	must on_tx tc qdisc add dev podhost clsact
}

# pod_ipv6: also with IPv6
pod_ipv6()
{
	local hostmac podmac

	hostmac=$(mac_of "$tx" podhost) podmac=$(mac_of $pod eth0)
	ip netns exec $pod sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0
	on_tx sysctl -qw net.ipv6.conf.all.forwarding=1
	must ip -n $pod addr add fd98::2/64 dev eth0 nodad
	must ip -n "$tx" addr add fd98::1/64 dev podhost nodad
	must ip -n $pod neigh replace fd98::1 lladdr "$hostmac" dev eth0 nud permanent
	must ip -n "$tx" neigh replace fd98::2 lladdr "$podmac" dev podhost nud permanent
	must ip -n $pod -6 route add default via fd98::1
}

# pod_bridge: from now on its packets pass a bridge, of which the uplink is a port
pod_bridge()
{
	must ip -n "$tx" link add br0 type bridge
	must ip -n "$tx" link set podhost master br0
	must ip -n "$tx" link set txdev master br0
	must ip -n "$tx" link set br0 up
	must ip -n $pod neigh replace 10.98.0.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent
}

# pod_ingress [FILTER...]: what arrives at the host's end of the veth passes this filter alone
pod_ingress()
{
	on_tx tc filter del dev podhost ingress 2>/dev/null
	[ $# = 0 ] || must on_tx tc filter add dev podhost ingress "$@"
}

pod_remove()
{
	ip -n "$tx" link del br0 2>/dev/null
	ip netns del $pod
}
