#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Few greedy sockets leave packet by packet, whatever they may queue: of four none sends more than
# four packets in a row, at a latency of 100 ms and at an MTU of 9000, in one queue and in four,
# which get parts of up to two packets of the MTU. So the fragments of a datagram are not far from
# each other, and the receiver, which discards a datagram with more than 64 packets of others
# between them, discards none. icount mode only.

# shellcheck source=lib/queues.sh
. "$(dirname "$0")/lib/queues.sh"
# shellcheck source=lib/departures.sh
. "$(dirname "$0")/lib/departures.sh"

# longest SECONDS: the longest run of packets of one sender, which is known by its queue, in the time
# after all have sent one; likewise without the first 50 ms; and their number
longest()
{
	echo 0 >"$tracing/events/net/net_dev_start_xmit/enable"
	awk '
		!(at = index($0, ": net_dev_start_xmit: ")) { next }
		{
			n = split(substr($0, 1, at - 1), before, " ")
			match($0, / queue_mapping=[0-9]*/)
			print before[n], substr($0, RSTART + 15, RLENGTH - 15)
		}' $tracing/trace | sort -s -n -k 1,1 | awk -v seconds="$1" '
		!($2 in seen) { seen[$2]; start = $1; run = packets = most = later = 0 }
		$1 > start + seconds { next }
		{ run = $2 == last ? run + 1 : 1; last = $2; packets++ }
		run > most { most = run }
		$1 > start + 0.05 && run > later { later = run }
		END { print most + 0, later + 0, packets + 0 }'
}

# runs NAME MOST SIZE OPTIONS...: one sender in each queue, with datagrams of SIZE. Whoever comes last
# may send $at_first in a row, or MOST.
runs()
{
	local name=$1 at_first=${at_first:-$2} run later packets q lost

	shape handle 1: bpshaper "${@:4}"
	departures_start
	for q in 0 1 2 3; do
		load "$q" 1.5 --udp 1 --size "$3" --warmup-ms 0 --drain-ms 400 --dst "10.99.0.1$q"
	done
	wait
	read -r run later packets <<<"$(longest 1.2)"
	lost=$(loaded_sum udp_lost_packets 0 1 2 3)
	echo "# $name: $run packets in a row, $later later, of $packets; $lost datagrams are lost"
	check_num "$name: packets were seen" "$packets" '>=' 500
	check_num "$name: no flow sends more than $2 in a row" "$later" '<=' "$2" packets
	check_num "$name: nor more than $at_first when it comes" "$run" '<=' "$at_first" packets
	check_num "$name: no datagram is lost" "$lost" == 0
}

if ! can_steer; then
	skip "runs" "before 5.19 a filter cannot choose the queue"
	finish
fi
topology_make
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
must modprobe act_skbedit
must modprobe cls_flower
must on_tx tc qdisc add dev txdev clsact
for q in 0 1 2 3; do
	must ip -n "$rx" addr add "10.99.0.1$q/24" dev rxdev
	must ip -n "$tx" neigh replace "10.99.0.1$q" lladdr "$(mac_of "$rx" rxdev)" dev txdev \
		nud permanent
	must on_tx tc filter add dev txdev egress protocol ip flower dst_ip "10.99.0.1$q" \
		action skbedit queue_mapping "$q"
done

runs "latency 100ms, one queue" 4 8192 rate 10mbit latency 100ms queues 1
runs "latency 100ms, four queues" 4 8192 rate 10mbit latency 100ms
must ip -n "$tx" link set txdev mtu 9000
must ip -n "$rx" link set rxdev mtu 9000
runs "MTU 9000, one queue" 4 8192 rate 50mbit queues 1
runs "MTU 9000, four queues" 4 8192 rate 50mbit
runs "MTU 9000, one queue, short ones" 4 1470 rate 50mbit queues 1
# a part, and one that passes; with the credit, two packets of the MTU more
at_first=$((4 * 9014 / 1512 + 1)) runs "MTU 9000, four queues, short ones" \
	$((2 * 9014 / 1512 + 1)) 1470 rate 50mbit
finish
