#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The law of the shaper, on the wire: in any window of T no more than
# burst + rate * T leaves, and no less than rate * T when enough is offered.
# Windows are those of bplaw (see there); a packet is stamped up to some
# microseconds after the decision to let it go, so that two packets may look
# closer than they were: 5 us at the rate are allowed for that. icount mode only.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

# window NAME BYTES MOST: on the one kernel where stamps have been seen to come any time
# after the decision, what is too much says nothing.
window()
{
	if [[ $(uname -r) == 7.* && $(uname -v) == *PREEMPT_RT* && $2 -gt $3 ]]; then
		skip "$1" "$2 bytes instead of $3: PREEMPT_RT, stamps may be late"
	else
		check_num "$1" "$2" '<=' "$3" bytes
	fi
}

reached=udp_wire_goodput_mbit_per_s share=0.995

# law NAME RATE_BIT BURST_BYTES SECONDS OPTIONS...
law()
{
	local name=$1 rate=$2 burst=$3 seconds=$4 out slack

	shift 4
	out=$(mktemp)
	slack=$(awk "BEGIN { printf \"%d\", $rate / 8 * 5e-6 + 1 }")
	shape bpshaper rate "$rate" burst "$burst"
	on_rx "$law" rxdev "$((rate / 8))" "$seconds" >"$out" &
	send --seconds "$seconds" "$@"
	wait $!
	window "$name: no window exceeds burst + rate * T" \
		"$(json_get max_level_bytes <"$out")" $((burst + slack))
	check_num "$name: the burst can be used" \
		"$(json_get max_level_bytes <"$out")" '>' $((burst / 2)) bytes
	check_num "$name: the rate is reached" "$(result "$reached")" '>=' \
		"$(awk "BEGIN { print $share * $rate / 1e6 }")" Mbit/s
	check_num "$name: all packets were seen" \
		"$(json_get escaped <"$out")" == 0
	check_num "$name: no packet was larger than the MTU" \
		"$(json_get oversized <"$out")" == 0
	check_num "$name: sockets were throttled" "$(stat throttles)" '>' 0
	check "$name: no socket is held afterwards" no_socket_is_held
	rm -f "$out"
}

topology_make
law "1 Mbit/s" 1000000 3100 4 --udp 2
law "10 Mbit/s, small packets" 10000000 5000 2 --udp 4 --size 64
law "200 Mbit/s" 200000000 20000 2 --udp 4
law "200 Mbit/s, large burst" 200000000 500000 2 --udp 4
law "200 Mbit/s, GSO larger than the burst" 200000000 20000 2 --udp 4 --gso 20
law "500 Mbit/s" 500000000 62500 1 --udp 8
# A size table (tc stab) holds for the segments of a GSO packet as for others.
shape stab overhead 100 bpshaper rate 200mbit burst 20000
send --seconds 1 --udp 2 --gso 20
check_num "a size table: packets were segmented" "$(stat segments)" '>' 1000
check_num "a size table: each counts with its overhead" \
	"$(awk -v b="$(stat bytes)" -v n="$(stat packets)" \
		'BEGIN { print b / n }')" '>=' 1605 bytes

# What a packet occupies on the wire counts, not its length; so does each segment
# of a GSO packet, whatever the burst.

# wire_law NAME OVERHEAD MPU CELL OPTIONS OF THE QDISC -- OPTIONS OF THE TRAFFIC
wire_law()
{
	local name=$1 wire=("$2" "$3" "$4") qdisc=() out

	shift 4
	while [ "$1" != -- ]; do qdisc+=("$1"); shift; done
	shift
	out=$(mktemp)
	shape bpshaper rate 20mbit burst 20000 "${qdisc[@]}"
	on_rx "$law" rxdev 2500000 3 "${wire[@]}" >"$out" &
	send --seconds 2 "$@"
	wait $!
	window "$name: no window exceeds burst + rate * T" \
		"$(json_get max_level_bytes <"$out")" 20013
	check_num "$name: and the rate is reached" \
		"$(json_get bytes <"$out")" '>=' 4950000 bytes
	check_num "$name: nothing of sockets is lost" \
		"$(result udp_lost_packets)" == 0
	check "$name: no socket is held afterwards" no_socket_is_held
	rm -f "$out"
}

wire_law "overhead" 40 0 0 overhead 40 -- --udp 2 --size 200
wire_law "overhead and GSO" 40 0 0 overhead 40 -- --udp 2 --gso 10
wire_law "mpu" 0 500 0 mpu 500 -- --udp 2 --size 100
wire_law "ATM" 0 0 1 linklayer atm -- --udp 2 --size 300
wire_law "all three" 20 300 1 overhead 20 mpu 300 linklayer adsl -- \
	--udp 2 --size 64

# The peak rate is a law of its own: a packet of the MTU + peakrate * T.
out=$(mktemp)
shape bpshaper rate 20mbit burst 100000 peakrate 50mbit
sleep 1	# a full bucket
on_rx "$law" rxdev 2500000 3 >"$out" &
on_rx "$law" rxdev 6250000 3 >"$out.peak" &
send --seconds 2 --udp 4
wait
window "peak rate: no window exceeds a packet + peakrate * T" \
	"$(json_get max_level_bytes <"$out.peak")" $((1514 + 32))
window "peak rate: no window exceeds burst + rate * T" \
	"$(json_get max_level_bytes <"$out")" 100013
check_num "peak rate: the burst can be used" \
	"$(json_get max_level_bytes <"$out")" '>' 50000 bytes
check_num "peak rate: the rate is reached" \
	"$(result udp_wire_goodput_mbit_per_s)" '>=' 19.9 Mbit/s
check_num "peak rate: nothing of sockets is lost" \
	"$(result udp_lost_packets)" == 0
rm -f "$out" "$out.peak"

# Segmented by the device, not by us: then the link would carry bursts of its own.
on_tx ethtool -K txdev tso off gso off >/dev/null
# 1448 of 1514 bytes are payload, and a stream has to start.
reached=tcp_goodput_mbit_per_s share=0.94
law "100 Mbit/s, TCP" 100000000 20000 2 --tcp 4
finish
