#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Calls, which have less than their part, wait for nobody: paced flows of small packets that have
# 10, 50 and 85 % of it, beside 16 greedy sockets of UDP, and beside 16 streams of TCP. Of their
# packets 99 of 100 wait 2 ms at most, and no longer than with cake in the same run. icount mode
# only.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
rate=20000000
calls="10 50 85"
payload=172	# of G.711, with its header of RTP

# call PERCENT: a sender that has so much of a nineteenth of the rate
call()
{
	local every=$(((payload + 42) * 8 * 1000000 * 19 * 100 / rate / $1))

	echo "call$1:udp,size=$payload,every=$every"
}

# beside KIND SHAPER...: /tmp/peers.SHAPER has what came of the calls
beside()
{
	local bulk=() percent senders=() sender

	for percent in $calls; do
		senders+=("$(call "$percent")")
	done
	shape "${@:2}"
	if [ "$1" = TCP ]; then
		send --tcp 16 --seconds 4.2 --warmup-ms 500 &
		sender=$!
	else
		bulk=("bulk:udp,poll,sockets=16")
	fi
	peers 4 800 "${senders[@]}" "${bulk[@]}"
	[ "$1" != TCP ] || wait "$sender"
	cp /tmp/peers "/tmp/peers.$2"
}

# waited SHAPER PERCENT
waited() { json_get "call$2_delay_p99_ms" <"/tmp/peers.$1"; }

peers_topology
for kind in UDP TCP; do
	beside $kind cake bandwidth $rate besteffort
	beside $kind bpshaper rate $rate
	used=$(awk "BEGIN { print $(got mbit) + $(got other_mbit) }")
	check_num "$kind: the rate is used" "$used" '>=' 18 Mbit/s
	for percent in $calls; do
		name="a call of $percent % beside 16 of $kind"
		echo "# $name: p50 $(got "call${percent}_delay_p50_ms")," \
			"p99 $(waited bpshaper "$percent"), cake $(waited cake "$percent") ms," \
			"of $(got "call${percent}_received") packets"
		check_num "$name waits for nobody (p99)" "$(waited bpshaper "$percent")" '<=' 2 ms
		check_num "$name: not longer than with cake" "$(waited bpshaper "$percent")" '<=' \
			"$(waited cake "$percent")" ms
		check_num "$name loses nothing" "$(got "call${percent}_lost")" == 0 packets
	done
done
finish
