#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Four queues. icount mode only. PARTS chooses.
#
#  1. trickles: greedy flows of a class are equal, as many in each queue, whatever trickles beside
#     them in one, and if one has room for a packet only
#  2. strangers: a socket for each packet, and packets from everywhere that are forwarded, in one
#     queue. One greedy socket in each queue is equal to the others. Each kind of strangers has
#     eight times what the greedy one in their queue has, or as much as a greedy one where there is
#     none. If all share one queue, known sockets keep a ninth, and a seventeenth beside both.
#     Sparse senders lose nothing and wait 1 ms at most (p99).

# shellcheck source=lib/queues.sh
. "$(dirname "$0")/lib/queues.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
# shellcheck source=lib/pktgen.sh
. "$(dirname "$0")/lib/pktgen.sh"

# beside NAME GREEDY [OPTIONS...]: GREEDY sockets in each queue, those of the first with the options
# $first, and a sender with each of OPTIONS in the first
beside()
{
	local q senders=() options sparse=0 lost=0

	for q in 0 1 2 3; do
		senders+=("queue$q:udp,poll,sockets=$2,tos=${queue_tos[q]}${class-}${first-}")
		first=
	done
	for options in "${@:3}"; do
		senders+=("sparse$((++sparse)):udp,tos=80${class-},$options")
	done
	peers "${seconds:-1.5}" 300 "${senders[@]}"
	read -r least most <<<"$(for q in 0 1 2 3; do got "queue${q}_mbit"; done | sort -n |
		sed -n '1p;$p' | xargs)"
	echo "# $1, $2 in each queue: $least to $most Mbit/s"
	check_num "$1, $2 in each queue: greedy flows are equal, within 2 %" "$most" '<=' \
		"$(awk "BEGIN { print $least * 1.02 }")" Mbit/s
	[ $sparse -gt 0 ] || return
	for ((q = 1; q <= sparse; q++)); do
		lost=$((lost + $(got sparse${q}_lost)))
	done
	check_num "$1, $2 in each queue: sparse ones lose nothing" $lost == 0
}

# trickles GREEDY SPARSE_SOCKETS MS...: as many for each interval
trickles()
{
	local ms senders=() name="$2 packets each $3 to ${*: -1} ms"

	for ms in "${@:3}"; do
		senders+=("every=${ms}000,sockets=$(($2 / ($# - 2))),size=72")
	done
	beside "${class:+in a class, }$name" "$1" "${senders[@]}"
}

part_trickles()
{
	local greedy

	for greedy in 1 4; do
		shape handle 1: bpshaper rate 100mbit
		beside "none beside them" $greedy
		beside "one packet each 5 ms" $greedy every=5000,size=60
		beside "twenty packets each ms" $greedy every=1000,sockets=20,size=60
		beside "200 packets each 50 ms" $greedy every=50000,sockets=200,size=1000
	done
	first=,sndbuf=2304 beside "room for a packet in the first" 1
	first=,fresh=1 beside "new sockets in the first" 1
	# A turn of each of 16 is 4 % of what a queue sends in 1.5 s.
	seconds=5
	beside "five long packets each 50 ms" 16 every=50000,sockets=5
	seconds=
	trickles 1 5 1 7 13 29 50
	trickles 1 20 1 7 19 50
	trickles 1 200 7 13 29 50
	# Longer, or some send nothing
	seconds=2.4
	trickles 1 1 50
	trickles 1 5 50 230 510 1100 2000
	trickles 4 20 50 230 1100 2000
	trickles 1 200 50 230 1100 2000
	seconds=

	shape handle 1: bpshaper rate 100mbit
	must on_tx tc class add dev txdev parent 1: classid 1:10 bpshaper
	must on_tx tc class add dev txdev parent 1: classid 1:11 bpshaper
	class=,class=1-10
	beside "in a class, one packet each 5 ms" 1 every=5000,size=60
	first=,sndbuf=2304 beside "in a class, room for a packet in the first" 1
	beside "in a class, twenty packets each ms" 4 every=1000,sockets=20,size=60
	trickles 1 200 7 13 29 50
	seconds=2.4
	trickles 1 200 50 230 1100 2000
	seconds='' class=''
}

# strangers NAME NEW POOL GREEDY LEAST SHAPER...: sockets that send a packet each in the queues NEW,
# forwarded packets in POOL if it is not empty, a greedy socket in each of GREEDY, which have LEAST
# Mbit/s together, and sparse ones in queues 0 and 1. Tiny packets if $tiny is set; 50 Mbit/s.
strangers()
{
	local name=$1 q flood='' senders=("s0:udp,every=10000,size=100,tos=64"
		"s1:udp,every=10000,size=100,tos=16") size=${tiny:-1400}

	for q in $4; do senders+=("g$q:udp,poll,tos=${queue_tos[q]}"); done
	for q in $2; do
		senders+=("n$q:udp,fresh=1,size=$size,pace=${pace:-180},tos=${queue_tos[q]}")
	done
	shape handle 1: bpshaper rate 50mbit "${@:6}"
	if [ -n "$3" ]; then
		flood_setup txdev "count 0" "delay ${pace:-180}000" "pkt_size $size" "tos 40"
		pktgen pgctrl start &
		flood=$!
	fi
	peers 1.2 200 "${senders[@]}"
	[ -z "$flood" ] || pktgen pgctrl stop
	wait
	read -r least most all <<<"$(for q in $4; do got "g${q}_mbit"; done | sort -n |
		awk '{ sum += $1 } NR == 1 { least = $1 } END { print least, $1, sum }')"
	echo "# $name: greedy ones $least to $most Mbit/s, new ones" \
		"$(for q in $2; do got "n${q}_mbit"; done | xargs), forwarded $(got other_mbit);" \
		"sparse ones waited $(got s0_delay_p99_ms) and $(got s1_delay_p99_ms) ms (p99)"
	check_num "$name: greedy flows are equal, within 2 % and two turns" "$most" '<=' \
		"$(awk "BEGIN { print $least * 1.02 + 0.11 }")" Mbit/s
	check_num "$name: and have their part" "$all" '>=' "$5" Mbit/s
	for q in 0 1; do
		check_num "$name: the sparse sender in queue $q loses nothing" "$(got s${q}_lost)" == 0
		check_num "$name: and waits 1 ms at most (p99)" "$(got s${q}_delay_p99_ms)" '<=' 1 ms
	done
}

# Of 49.7 Mbit/s, which others than sparse ones have. A turn of 6 kB is 0.05 Mbit/s.
part_strangers()
{
	strangers "new sockets in one of four queues" 0 "" "0 1 2 3" 16.1
	strangers "both in one of four queues" 0 0 "0 1 2 3" 9.6
	tiny=60 pace=250 strangers "both in one of four queues, tiny packets" 0 0 "0 1 2 3" 9.4 mpu 1000
	pace=400 strangers "new sockets in three queues, a greedy one in the fourth" "1 2 3" "" 0 12.0
	strangers "new sockets in the only queue" 0 "" "0 1 2 3" 5.2 queues 1
	strangers "both in the only queue" 0 0 "0 1 2 3" 2.7 queues 1
	pktgen kpktgend_0 rem_device_all
}

if ! can_steer; then
	skip "queues_sparse" "before 5.19 a filter cannot choose the queue"
	finish
fi
peers_topology
must modprobe act_skbedit
must modprobe cls_flower
must on_tx tc qdisc add dev txdev clsact
queue_tos=(64 16 32 48)
for row in 16:1 32:2 48:3 64:0 80:0; do
	must on_tx tc filter add dev txdev egress prio 1 protocol ip flower ip_tos ${row%:*}/0xff \
		action skbedit queue_mapping ${row#*:}
done

for part in ${PARTS:-trickles strangers}; do
	"part_$part"
done
finish
