# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # what bench.sh and common.sh have set
#
# Part `tenants`: a container that gets 200 Mbit/s, by a shaper at different places. Cases:
#
#	inside		on its eth0
#	inside, class	the same, by a class
#	ifb, class	by a class on an ifb, before the host routes
#	ifb, burst 4 ms	the same with a larger burst, for a tasklet that comes late
#	uplink, class	by a class on the uplink, where to its packets are redirected
#	routed, class	by a class on the uplink, after the host has routed: no packet has a socket
#
# Of three turns the one counts in which the machine was least busy: ticks come on top in some.

# tenants_shape NETNS DEVICE [RATE OF THE DEVICE [BURST]]
tenants_shape()
{
	local own="burst ${4:-20kb} limit 200k"

	# shellcheck disable=SC2086 # words
	if [ $# = 2 ]; then
		must ip netns exec "$1" tc qdisc add dev "$2" root bpshaper rate 200mbit $own
	else
		must ip netns exec "$1" tc qdisc add dev "$2" root handle 1: bpshaper rate "$3" default 10
		must ip netns exec "$1" tc class add dev "$2" parent 1: classid 1:10 bpshaper \
			ceil 200mbit $own
	fi
}

# tenants_redirect DEVICE
tenants_redirect()
{
	pod_ingress matchall action skbedit priority 1:10 pipe \
		action mirred egress redirect dev "$1"
}

tenants_place()
{
	case $1 in
	inside) tenants_shape $pod eth0 ;;
	"inside, class") tenants_shape $pod eth0 10gbit ;;
	"ifb, class") tenants_redirect ifb0; tenants_shape "$tx" ifb0 10gbit ;;
	"ifb, burst 4 ms") tenants_redirect ifb0; tenants_shape "$tx" ifb0 10gbit 100kb ;;
	"uplink, class")
		# As it has the right header already
		must ip -n $pod neigh replace 10.98.0.1 lladdr "$(mac_of "$rx" rxdev)" dev eth0
		tenants_redirect txdev
		tenants_shape "$tx" txdev 10gbit
		;;
	"routed, class") tenants_shape "$tx" txdev 10gbit ;;
	esac
}

# tenants_cell CASE: in a container of its own
tenants_cell()
{
	local turn busy least=''

	pod_make
	must ip -n "$tx" link add ifb0 type ifb
	must ip -n "$tx" link set ifb0 up
	tenants_place "$1"
	for turn in 1 2 3; do
		traffic_send --tx-netns $pod --udp 16 --seconds 3 --probe
		busy=$(result system_busy_ms)
		echo "# $1, turn $turn: $busy ms, $(result udp_received_packets) packets"
		[ "$least" ] && awk "BEGIN { exit !($least < $busy) }" && continue
		least=$busy
		cp "$report" /tmp/least
	done
	cp /tmp/least "$report"
	save tenants bpshaper case "$1" senders 16
	root_remove
	ip -n "$tx" link del ifb0
	pod_remove
}

part_tenants()
{
	local case

	must ip -n "$rx" route add 10.98.0.0/24 via 10.99.0.1
	root_remove
	for case in inside "inside, class" "ifb, class" "ifb, burst 4 ms" "uplink, class" \
			"routed, class"; do
		tenants_cell "$case"
	done
}
