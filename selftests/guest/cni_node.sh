#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# A node of 40 Mbit/s with 16 pods that send as fast as they are let.
#
#  1. Each gets what floors, weights, prios and ceils say, within 2 % of the law of
#     Documentation/classes.rst (icount mode only); together they never get more than the
#     node's rate.
#  2. Nothing is lost.
#  3. The class of a pod ends with the ifb: another bpshaper of the same number, which comes
#     later, asks its filters.
#  4. A pod whose veth has gone leaves its part to the others; floors above the node's rate are
#     refused.
#  5. The ifb has a queue for each CPU, and flows spread over them. One that is there with
#     another number of queues ($QUEUES, if it is set) stays as it is.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/cni.sh
. "$(dirname "$0")/lib/cni.sh"

rate=40000 # kbit/s
# floor, ceil (0: none), weight, prio of each pod. Nothing is left for prio 1 but its floors.
pods_wanted="4000 0 1 0  2000 0 4 0  2000 3000 1 0  0 500 1 0
	0 0 1 0  0 0 1 0  0 0 1 0  1000 0 8 1  0 0 2 0  0 0 2 0  0 0 2 0  0 0 2 0
	0 0 3 0  0 0 3 0  0 0 4 0  0 0 8 0"

pods_add()
{
	local number=0 floor ceil weight prio

	# Packets of a pod cross the receive queue of a CPU before the node's bpshaper. 32
	# senders have more in their send buffers than its 1000 packets.
	must sysctl -qw net.core.netdev_max_backlog=100000
	net node ptp bpshaper '"node": {"rate": "40mbit"}'
	[ -z "${QUEUES:-}" ] || ifb_make bps-node "$QUEUES"
	while read -r floor ceil weight prio; do
		number=$((number + 1))
		CAP_ARGS="{\"bandwidth\": {\"floor\": \"${floor}kbit\", \"weight\": $weight, \"prio\": $prio"
		[ "$ceil" = 0 ] || CAP_ARGS+=", \"ceil\": \"${ceil}kbit\""
		CAP_ARGS+="}}"
		export CAP_ARGS
		must pod_add "n$number" node
		must pod_check "n$number" node
		# Two senders fill more than what may wait for the answer to ARP.
		must ip -n "n$number" neigh replace 10.88.0.1 lladdr \
			"$(cat "/sys/class/net/$(peer "n$number")/address")" dev eth0 nud permanent
	done < <(xargs -n 4 <<<"$pods_wanted")
}

# shares: what each pod must get
shares()
{
	# shellcheck disable=SC2086 # words
	xargs -n 4 <<<$pods_wanted | awk '{ print -1, $4, $3, $1, 0, $2, 0 }' | "$bpshares" $rate
}

# sent: bytes of each pod so far, in the order of the pods
sent()
{
	tc -s class show dev bps-node | awk '
		$1 == "class" { sub(".*:", "", $3); class = $3 }
		$1 == "Sent" { print class, $2 }' |
		while read -r class bytes; do echo $((16#$class)) "$bytes"; done | sort -n |
		cut -d " " -f 2
}

traffic_start()
{
	local number

	for number in {1..16}; do
		"$traffic" --tx-netns "n$number" --dst "$(peer_address "n$number")" --udp 2 \
			--port $((6000 + number * 10)) --seconds 9 \
			--json "/tmp/n$number" &
	done
}

# ptp gives the host's end the gateway's address.
peer_address() { echo 10.88.0.1; }

measure()
{
	local number=0 start before after ns expected first second lost=0

	traffic_start
	sleep 3
	start=$(date +%s%N) before=$(sent)
	sleep 4
	ns=$(($(date +%s%N) - start)) after=$(sent)
	wait
	# shellcheck disable=SC2086 # words
	while read -r expected first second; do
		number=$((number + 1))
		# Several CPUs are in real time, where a loaded machine does not send as much.
		[ "$(nproc)" -gt 1 ] ||
			check_num "pod $number gets $expected kbit/s, within 2 %" \
				"$(awk "BEGIN { d = ($second - $first) * 8e6 / $ns / $expected - 1
					print d < 0 ? -d : d }")" '<=' 0.02
		lost=$((lost + $(json_get udp_lost_packets <"/tmp/n$number")))
	done < <(paste -d " " <(shares) <(echo "$before") <(echo "$after"))
	is "there are 16 pods" 16 $number
	# A burst is 2 ms of 4 s.
	check_num "together they do not get more than the node's rate" \
		"$(paste -d " " <(echo "$before") <(echo "$after") | awk -v ns="$ns" \
			'{ sum += $2 - $1 } END { print sum * 8e6 / ns }')" '<=' \
		"$(awk "BEGIN { print $rate * 1.001 }")" kbit/s
	is "nothing is lost" 0 $lost
	is "the ifb drops nothing" 0 "$(json_value drops "$(tc -s -j qdisc show dev bps-node root)")"
}

# 32 flows hash to one of four queues with a probability of 4 ^ -31.
queues()
{
	local queues=${QUEUES:-$(nproc)}

	is "the ifb has $queues queues" "$queues" \
		"$(find /sys/class/net/bps-node/queues -name 'tx-*' | wc -l)"
	[ "$queues" -gt 1 ] || return
	check_num "several of them send" "$(tc -s -j qdisc show dev bps-node invisible |
		grep -oE '"bytes": ?[1-9][0-9]{5,}' | wc -l)" '>=' 2 queues
}

# n1 is 1:1 of the node. IPv6 keeps the priority of a packet that is routed.
behind()
{
	local device class

	device=$(peer n2)
	must tc qdisc add dev "$device" root handle 1: bpshaper
	for class in 1 2; do
		must tc class add dev "$device" parent 1: classid 1:$class bpshaper
	done
	must tc filter add dev "$device" parent 1: matchall flowid 1:2
	must traffic n1 n2 "$(address n2 6)" --udp 1 --seconds 1
	check_num "packets of a pod go where the filters of the next bpshaper say" \
		"$(class_packets 1:2)" '>=' 100 packets
	check_num "and not to its class of the number that the pod has on the node" \
		"$(class_packets 1:1)" == 0 packets
	must tc qdisc del dev "$device" root
}

# class_packets CLASSID
class_packets()
{
	tc -s class show dev "$device" classid "$1" | awk '$1 == "Sent" { print $4 }'
}

ends()
{
	local number device

	export CAP_ARGS='{"bandwidth": {"floor": "33mbit"}}'
	ip netns add extra
	if pod_add extra node >/tmp/refused; then
		not_ok "floors above the node's rate are refused"
	else
		is "floors above the node's rate are refused, with the reason" 1 \
			"$(grep -c "floor" /tmp/refused)"
	fi
	is "a pod that is refused has no class" 16 "$(tc class show dev bps-node | grep -c weight)"
	unset CAP_ARGS
	must pod_del extra node
	for number in 1 2 3; do
		device=$(peer "n$number")
		ip netns del "n$number"
		must wait_until 5 no_device "$device"
	done
	check "a pod after three veths have gone" pod_add extra node
	is "their classes are gone" 14 "$(tc class show dev bps-node | grep -c weight)"
	must pod_del extra node
	for number in {1..16}; do
		cnitool del node "/run/netns/n$number" || not_ok "DEL of pod $number"
		ip netns del "n$number" 2>/dev/null
	done
	nothing_is_left "the node without pods"
}

pods_add
measure
queues
behind
ends
finish
