#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The sockets of a container are held by its class of the host, on each path on which their packets
# keep them: an ifb before the host routes, a redirect to the uplink by mirred or BPF, a bridge. A
# priority that the container sets does not count. Without any of these the host routes, and none is
# held. Behind the ifb the priority that chose the class is gone, also where the uplink has a class of
# that number and the kernel keeps priorities: on a bridge, and with IPv6.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"
# shellcheck source=lib/pod.sh
. "$(dirname "$0")/lib/pod.sh"
# shellcheck source=lib/bpf.sh
. "$(dirname "$0")/lib/bpf.sh"

# host_shape DEVICE DEFAULT: what host_stat looks at
host_shape()
{
	device=$1
	on_tx tc qdisc del dev "$device" root 2>/dev/null
	must on_tx tc qdisc add dev "$device" root handle 1: bpshaper rate 50mbit default "$2"
	class 1: 1:10 ceil 20mbit
	class 1: 1:20
}

host_stat() { on_tx tc -s -j qdisc show dev "$device" root | json_get "$1"; }

# pod_send: 16 senders, who would like another class
pod_send() { "$bppeers" $pod eth0 "$rx" rxdev 2 300 a:udp,sockets=16,class=1-20 >/tmp/peers; }

# tenant NAME DEVICE: they get what class 1:10 of the device has, and wait for it
tenant()
{
	host_shape "$2" 20
	pod_send
	near "$1" "$(got a_mbit)" 20 1
	check_num "$1: nothing is lost" "$(got a_lost)" == 0 packets
	check_num "$1: its sockets are held" "$(host_stat throttles)" '>' 16
	check_num "$1: nothing is dropped" "$(host_stat drops)" == 0 packets
}

# redirected DEVICE: by mirred
redirected()
{
	pod_ingress matchall action skbedit priority 1:10 pipe \
		action mirred egress redirect dev "$1"
}

# redirected_bpf SECTION: to the uplink
redirected_bpf()
{
	bpf_number redirect "$(on_tx cat /sys/class/net/txdev/ifindex)" /tmp/redirect.o
	pod_ingress bpf object-file /tmp/redirect.o section "classifier/$1" direct-action
}

# The opposite, or those above would prove nothing.
routed()
{
	pod_ingress
	host_shape txdev 10
	pod_send
	near "routed" "$(got a_mbit)" 20 1
	check_num "routed: no socket is held" "$(host_stat throttles)" == 0
	check_num "routed: so packets are dropped" "$(host_stat drops_pool)" '>' $(($(got a_sent) / 2)) packets
}

# behind NAME SENDER: the filter of the uplink chooses, and not the priority of the ifb's class
behind()
{
	host_shape txdev 0
	must on_tx tc filter add dev txdev parent 1: matchall flowid 1:20
	host_shape ifb0 20
	pod_ingress matchall action skbedit priority 1:10 pipe action mirred egress redirect dev ifb0
	"$bppeers" $pod eth0 "$rx" rxdev 1 0 "a:$2,pace=1000" >/tmp/peers
	check_num "$1: the class of the ifb has all" "$(class_packets 1:10)" '>=' "$(got a_sent)" packets
	device=txdev
	check_num "$1: and that of its number on the uplink has none" "$(class_packets 1:10)" == 0 packets
	check_num "$1: the filter of the uplink chooses" "$(class_packets 1:20)" '>=' "$(got a_sent)" packets
}

peers_topology
root_remove
pod_make
must ip -n "$tx" link add ifb0 type ifb
must ip -n "$tx" link set ifb0 up
redirected ifb0
tenant "a routed container, on an ifb" ifb0
redirected txdev
tenant "a container, redirected to the uplink" txdev
if bpf_is_here redirect "a container, redirected to the uplink by BPF"; then
	redirected_bpf redirect
	tenant "a container, redirected to the uplink by BPF" txdev
	redirected_bpf neigh
	tenant "a container, redirected by BPF with a neighbour" txdev
fi
routed
pod_ipv6
behind "routed by IPv6" udp6
pod_ingress matchall action skbedit priority 1:10
pod_bridge
tenant "a container on a bridge" txdev
behind "on a bridge" udp
root_remove
pod_remove
ip -n "$tx" link del ifb0
finish
