#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The sockets of a routed container are held by its class on an ifb of the host, and on the uplink
# to which its packets are redirected.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"
pod=bps-pod$$

# pod_make: a container whose packets the host routes
pod_make()
{
	local hostmac podmac

	must ip netns add $pod
	must ip link add podhost netns "$tx" type veth peer name eth0 netns $pod
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

# tenant NAME DEVICE: what 16 senders of the container get in class 1:10 of the device, where to
# their packets are redirected
tenant()
{
	local dev=$2

	on_tx tc qdisc del dev "$dev" root 2>/dev/null
	must on_tx tc qdisc add dev "$dev" root handle 1: bpshaper rate 50mbit
	must on_tx tc class add dev "$dev" parent 1: classid 1:10 bpshaper ceil 20mbit
	must on_tx tc class add dev "$dev" parent 1: classid 1:20 bpshaper
	on_tx tc filter del dev podhost ingress 2>/dev/null
	must on_tx tc filter add dev podhost ingress matchall action skbedit priority 1:10 pipe \
		action mirred egress redirect dev "$dev"
	"$bppeers" $pod eth0 "$rx" rxdev 2 300 a:udp,sockets=16 >/tmp/peers
	near "$1" "$(got a_mbit)" 20 1
	check_num "$1: nothing is lost" "$(got a_lost)" == 0 packets
	check_num "$1: its sockets are held" \
		"$(on_tx tc -s -j qdisc show dev "$dev" root | json_get throttles)" '>' 16
	check_num "$1: nothing is dropped" \
		"$(on_tx tc -s -j qdisc show dev "$dev" root | json_get drops)" == 0 packets
}

peers_topology
root_remove
pod_make
must ip -n "$tx" link add ifb0 type ifb
must ip -n "$tx" link set ifb0 up
tenant "a routed container, on an ifb" ifb0
tenant "a container, redirected to the uplink" txdev
root_remove
ip -n "$tx" link del ifb0
ip netns del $pod
finish
