#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# ECN marks by PI2.
#
#  1. greedy: with ECT(0) or ECT(1) they are marked, and not more than every other packet where the
#     limit has room for two of each; without ECN nothing is; all get the same
#  2. a sparse sender beside them is not marked, nor are those that do not fill the rate
#  3. a class is marked for what waits in it, and counts its marks
#  4. forwarded packets are marked likewise
#  5. ce_threshold: never, or earlier
#  6. nothing of sockets is dropped or lost
#  7. who ignores marks gains nothing, and takes nothing from TCP with ECN

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
ect1=1 ect0=2

# marked NAME: the part of its packets that have CE
marked() { awk "BEGIN { print $(got "$1_congested") / $(got "$1_received") }"; }

# lossless NAME SENDERS...: none loses, all get the same
lossless()
{
	local sender lost=0

	for sender in "${@:2}"; do lost=$((lost + $(got "${sender}_lost"))); done
	check_num "$1: nothing is lost" $lost == 0 packets
	check_num "$1: nothing is dropped" "$(stat drops)" == 0 packets
	check_num "$1: all get the same (Jain)" "$(got jain)" '>=' 0.998
}

# greedy SENDERS: of ECT(0)
greedy()
{
	local part name="$1 senders"

	shape bpshaper rate 20mbit
	peers 4 1000 "ect:udp,poll,sockets=$1,tos=$ect0" "sparse:udp,every=50000,from=1000,tos=$ect0"
	part=$(marked ect)
	check_num "$name: a tenth of the packets is marked" "$part" '>=' 0.1
	[ "$1" -lt 16 ] || check_num "$name: and half of them at most" "$part" '<=' 0.5
	check_num "$name: a sparse sender beside them is not" "$(got sparse_congested)" == 0 packets
	lossless "$name" ect sparse
}

# class_marks CLASSID: packets of it that were marked
class_marks()
{
	on_tx tc -s class show dev txdev classid "$1" | grep -o 'ce_marks [0-9]*' || echo none
}

# classes: one may be late, the other is not
classes()
{
	shape handle 1: bpshaper rate 20mbit
	must on_tx tc class add dev txdev parent 1: classid 1:1 bpshaper ceil 5mbit
	must on_tx tc class add dev txdev parent 1: classid 1:2 bpshaper
	peers 4 1000 "slow:udp,poll,sockets=4,tos=$ect0,class=1-1" \
		"other:udp,poll,sockets=8,tos=$ect0,class=1-2,pace=8000"
	check_num "classes: who is beyond his ceil is marked" "$(marked slow)" '>=' 0.25
	check_num "classes: who is below the rate is not" "$(got other_congested)" == 0 packets
	check_num "classes: nothing is dropped" "$(stat drops)" == 0 packets
	is "classes: who is marked counts it" "ce_marks $(got slow_congested)" "$(class_marks 1:1)"
	is "classes: the other has no marks" none "$(class_marks 1:2)"
	is "classes: the qdisc has the sum" "$(got slow_congested)" "$(stat ce_marks)"
	must on_tx tc class del dev txdev classid 1:1
	is "classes: and keeps it" "$(got slow_congested)" "$(stat ce_marks)"
}

# ignored SENDERS RTT_MS: datagrams with ECT(0) that do not slow down, beside TCP with ECN
ignored()
{
	local name="$1 that ignore marks, $2 ms" part

	must on_rx tc qdisc replace dev rxdev root netem delay "$2ms" limit 10000
	shape bpshaper rate 20mbit
	peers 6.5 2000 "ect:udp,poll,sockets=$1,tos=$ect0" &
	traffic_try --tcp 1 --seconds 6 --warmup-ms 2000 --drain-ms 300 >/tmp/log 2>&1
	wait $!
	part=$(awk "BEGIN { print 19.1 / ($1 + 1) }") # Mbit/s of payload
	echo "# $name: TCP $(result tcp_goodput_mbit_per_s) of $part Mbit/s, marks $(stat ce_marks)"
	check_num "$name: TCP with ECN has its part" "$(result tcp_goodput_mbit_per_s)" '>=' \
		"$(awk "BEGIN { print 0.9 * $part }")" Mbit/s
	check_num "$name: they gain nothing" "$(got ect_mbit)" '<=' \
		"$(awk "BEGIN { print 1.1 * 20 * $1 / ($1 + 1) }")" Mbit/s
	on_rx tc qdisc del dev rxdev root
}

# forwarded: from a namespace behind tx
forwarded()
{
	must ip netns add behind
	must ip link add behinddev netns behind type veth peer name indev netns "$tx"
	must on_tx ip addr add 10.98.0.1/24 dev indev
	must on_tx ip link set indev up
	must on_tx sysctl -qw net.ipv4.ip_forward=1
	must ip netns exec behind ip addr add 10.98.0.2/24 dev behinddev
	must ip netns exec behind ip link set behinddev up
	must ip netns exec behind ip route add default via 10.98.0.1
	shape bpshaper rate 20mbit
	must "$bppeers" behind behinddev "$rx" rxdev 4 1000 \
		"above:udp,poll,sockets=8,tos=$ect0,pace=4000" >/tmp/peers
	check_num "forwarded, above the rate: marked" "$(marked above)" '>=' 0.1
	is "forwarded: the counter has all" "$(got above_congested)" "$(stat ce_marks)"
	shape bpshaper rate 20mbit
	must "$bppeers" behind behinddev "$rx" rxdev 4 1000 \
		"below:udp,poll,sockets=8,tos=$ect0,pace=5100" >/tmp/peers
	check_num "forwarded, below the rate: not" "$(got below_congested)" == 0 packets
	ip netns del behind
}

peers_topology
for senders in 1 4 16 64; do greedy $senders; done

shape bpshaper rate 20mbit
peers 4 1000 ect0:udp,poll,sockets=4,tos=$ect0 ect1:udp,poll,sockets=4,tos=$ect1 \
	none:udp,poll,sockets=4
check_num "ECT(1) is marked as ECT(0) is" "$(awk "BEGIN { print $(marked ect1) / $(marked ect0) }")" \
	'>=' 0.9
check_num "without ECN nothing is marked" "$(got none_congested)" == 0 packets
lossless "with and without ECN" ect0 ect1 none
is "the counter has all marks" $(($(got ect0_congested) + $(got ect1_congested))) "$(stat ce_marks)"

shape bpshaper rate 20mbit
peers 4 1000 "paced:udp,poll,sockets=8,tos=$ect0,pace=5100"
check_num "below the rate nothing is marked" "$(got paced_congested)" == 0 packets

classes
forwarded

for netns in "$tx" "$rx"; do must ip netns exec "$netns" sysctl -qw net.ipv4.tcp_ecn=1; done
ignored 2 40
ignored 9 60

shape bpshaper rate 20mbit ce_threshold never
peers 2 1000 "ect:udp,poll,sockets=4,tos=$ect0"
check_num "ce_threshold never: nothing is marked" "$(got ect_congested)" == 0 packets
shape bpshaper rate 20mbit ce_threshold 1ns
peers 2 1000 "ect:udp,poll,sockets=4,tos=$ect0"
check_num "ce_threshold 1ns: all are that are not the last" "$(marked ect)" '>=' 0.7
finish
