#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Greedy flows of a class are equal, whatever trickles beside them in their queue: four queues,
# and as many greedy sockets in each. icount mode only.

# shellcheck source=lib/queues.sh
. "$(dirname "$0")/lib/queues.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"

# beside NAME GREEDY [OPTIONS]: GREEDY sockets in each queue, and a sender with OPTIONS in the first
beside()
{
	local q senders=() tos=(64 16 32 48)

	for q in 0 1 2 3; do
		senders+=("queue$q:udp,poll,sockets=$2,tos=${tos[q]}${class-}")
	done
	peers 1.5 300 "${senders[@]}" ${3:+"sparse:udp,tos=80${class-},$3"}
	read -r least most <<<"$(for q in 0 1 2 3; do got "queue${q}_mbit"; done | sort -n |
		sed -n '1p;$p' | xargs)"
	echo "# $1, $2 in each queue: $least to $most Mbit/s"
	check_num "$1, $2 in each queue: greedy flows are equal, within 2 %" "$most" '<=' \
		"$(awk "BEGIN { print $least * 1.02 }")" Mbit/s
	[ -z "${3-}" ] || check_num "$1, $2 in each queue: sparse ones lose nothing" \
		"$(got sparse_lost)" == 0
}

if ! can_steer; then
	skip "queues_sparse" "before 5.19 a filter cannot choose the queue"
	finish
fi
peers_topology
must modprobe act_skbedit
must modprobe cls_flower
must on_tx tc qdisc add dev txdev clsact
for row in 16:1 32:2 48:3 64:0 80:0; do
	must on_tx tc filter add dev txdev egress prio 1 protocol ip flower ip_tos ${row%:*}/0xff \
		action skbedit queue_mapping ${row#*:}
done

for greedy in 1 4; do
	shape handle 1: bpshaper rate 100mbit
	beside "none beside them" $greedy
	beside "one packet each 5 ms" $greedy every=5000,size=60
	beside "twenty packets each ms" $greedy every=1000,sockets=20,size=60
	beside "200 packets each 50 ms" $greedy every=50000,sockets=200,size=1000
done
beside "five long packets each 50 ms" 16 every=50000,sockets=5

shape handle 1: bpshaper rate 100mbit
must on_tx tc class add dev txdev parent 1: classid 1:10 bpshaper
must on_tx tc class add dev txdev parent 1: classid 1:11 bpshaper
class=,class=1-10
beside "in a class, one packet each 5 ms" 1 every=5000,size=60
beside "in a class, twenty packets each ms" 4 every=1000,sockets=20,size=60
finish
