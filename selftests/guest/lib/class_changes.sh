# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Classes that come, change and go while packets wait in them. Sourced after classes.sh, never run.

# Thousands of packets wait in a class that goes, many times what is purged in one hold of the root
# lock, and senders that are not held send more meanwhile.
purges_in_order()
{
	shape handle 1: bpshaper rate 50mbit limit 40mb share_min 1mb
	class 1: 1:10 limit 40mb
	while_sending "a class with a backlog goes" "a:udp,sockets=20,class=1-10,pace=1000,sndbuf=4194304 b:udp,every=1000,size=100,class=1-10" \
		"class del dev txdev classid 1:10"
	check_num "a class with a backlog goes: its packets are purged" "$purged" '>' 1000
	check_num "a class with a backlog goes: what its sockets send later stays in order" \
		"$(($(got a_reordered) + $(got b_reordered)))" == 0
}

# while_sending NAME SENDERS COMMANDS...: each command in turn, every 150 ms. Sets $purged.
while_sending()
{
	local name=$1 senders=$2 command status=0 before

	shift 2
	before=$(stat purged_packets)
	# shellcheck disable=SC2086 # words
	peers "$(awk "BEGIN { print 0.3 + 0.15 * $# }")" 0 $senders &
	sleep 0.15
	for command; do
		# shellcheck disable=SC2086 # words
		on_tx tc $command || { status=1; echo "# $command"; }
		sleep 0.15
	done
	wait $!
	check_num "$name: all commands work" $status == 0
	purged=$(($(stat purged_packets) - before))
	check_num "$name: all that is lost was purged" $(($(got a_lost) + $(got b_lost))) == $purged packets
	check_num "$name: nothing is dropped" "$(stat drops)" == 0 packets
	check "$name: no socket is held afterwards" wait_until 5 no_socket_is_held
}

part_changes()
{
	local dev="dev txdev" both="a:udp,sockets=20,class=1-10 b:udp,sockets=20" unit=1000 pace

	! is_slow || unit=100
	pace=$((2000000 / unit))	# us; a tenth of the rate
	shape handle 1: bpshaper rate $((50 * unit))kbit
	while_sending "classes come" "$both" \
		"class add $dev parent 1: classid 1:10 bpshaper" \
		"class add $dev parent 1: classid 1:20 bpshaper weight 5" \
		"qdisc change $dev root handle 1: bpshaper default 20" \
		"class add $dev parent 1:20 classid 1:21 bpshaper" \
		"qdisc change $dev root handle 1: bpshaper default 21"
	# A slow machine may not send the rate.
	is_slow || check_num "classes come: what a class that gets its first child has queued is purged" $purged '>' 0
	while_sending "classes change" "$both" \
		"class change $dev classid 1:10 bpshaper prio 2" \
		"class change $dev classid 1:10 bpshaper prio 0 weight 50" \
		"class change $dev classid 1:10 bpshaper ceil $((5 * unit))kbit" \
		"class change $dev classid 1:10 bpshaper ceil unlimited floor $((20 * unit))kbit" \
		"class change $dev classid 1:20 bpshaper ceil $((10 * unit))kbit limit 20k" \
		"class change $dev classid 1:20 bpshaper ceil unlimited latency 5ms" \
		"qdisc change $dev root handle 1: bpshaper rate $((40 * unit))kbit" \
		"qdisc change $dev root handle 1: bpshaper limit 30k" \
		"qdisc change $dev root handle 1: bpshaper latency 10ms rate $((60 * unit))kbit"
	check_num "classes change: nothing is purged" $purged == 0 packets
	while_sending "classes go" "$both" \
		"class del $dev classid 1:10" \
		"class del $dev classid 1:21" \
		"class del $dev classid 1:20"
	is_slow || check_num "classes go: what they have queued is purged" $purged '>' 0
	check_num "the counters of classes that went are kept" "$(stat throttles)" '>=' 20
	while_sending "they come again, and filters with them" "$both" \
		"class add $dev parent 1: classid 1:1 bpshaper" \
		"filter add $dev parent 1: prio 1 matchall flowid 1:1" \
		"class add $dev parent 1:1 classid 1:10 bpshaper" \
		"filter add $dev parent 1:1 prio 1 matchall flowid 1:10" \
		"filter del $dev parent 1:1 prio 1" \
		"filter del $dev parent 1: prio 1" \
		"class del $dev classid 1:10" \
		"class del $dev classid 1:1"
	check_num "no class is left" "$(on_tx tc class show dev txdev | wc -l)" == 0

	# Without backpressure nobody is throttled, and the pool of the class drops.
	class 1: 1:10
	while_sending "backpressure goes and comes" "a:udp,class=1-10,pace=$pace b:udp,pace=$pace" \
		"qdisc change $dev root handle 1: bpshaper backpressure off" \
		"qdisc change $dev root handle 1: bpshaper backpressure on"
	check_num "backpressure goes and comes: nothing is purged" $purged == 0 packets

	is_slow || purges_in_order
}

# A class whose sockets are not held, beside one whose are
part_unheld()
{
	shape handle 1: bpshaper rate 20mbit
	class 1: 1:10 backpressure off limit 50k
	class 1: 1:20
	peers 2.5 500 a:udp,class=1-10,pace=500,ages b:udp,sockets=4,class=1-20
	near "not held" "$(got a_mbit)" 10 2
	near "held beside it" "$(got b_mbit)" 10 2
	check_num "not held: packets are lost" "$(got a_lost)" '>' 1000
	check_num "not held: by the limit, all of them" "$(stat drops_pool)" == "$(got a_lost)"
	# 51,200 bytes at 10 Mbit/s
	check_num "not held: the limit bounds the age (p99)" "$(got a_delay_p99_ms)" '<=' 43 ms
	check_num "held beside it: nothing is lost" "$(got b_lost)" == 0
	must on_tx tc class change dev txdev classid 1:10 bpshaper backpressure on
	peers 1 0 a:udp,sockets=4,class=1-10 b:udp,sockets=4,class=1-20
	check_num "held again: nothing is lost" $(($(got a_lost) + $(got b_lost))) == 0

	must on_tx tc class change dev txdev classid 1:10 bpshaper ceil 80kbit
	peers 1 0 a:udp,sockets=4,class=1-10 &
	sleep 0.5
	check_num "before the switch sockets are held" "$(stat throttled_sockets)" '>' 0
	must on_tx tc class change dev txdev classid 1:10 bpshaper backpressure off
	check_num "the switch releases them at once" "$(stat throttled_sockets)" == 0
	wait
	must on_tx tc qdisc change dev txdev root handle 1: bpshaper backpressure off
	must on_tx tc class change dev txdev classid 1:10 bpshaper backpressure on ceil unlimited
	peers 1 0 a:udp,sockets=4,class=1-10,pace=500
	check_num "off for the qdisc is off for the class" "$(got a_lost)" '>' 1000
}
