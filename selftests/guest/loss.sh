#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# TCP that loses segments behind the shaper: every 1000th, 100th or 33rd frame of all, so
# that the shapers lose alike, with 20 ms of delay for the ACKs or none.
#
#  1. Goodput is that of tbf with the same limit.
#  2. No stream is left behind. A throttled one must be able to send again what was lost:
#     5.10 refuses that while the socket is charged for more than it has queued, and
#     doubles the retransmission timer.
#
# Only in icount mode. The last number of each line is the bytes of the slowest stream.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# slowest: bytes of the stream that got least
slowest()
{
	sed -n 's/.*"tcp_received_bytes_per_flow": \[\(.*\)\].*/\1/p' "$report" |
		tr ',' '\n' | sort -n | awk 'NR == 1 { print $1 }'
}

# through EVERY STREAMS SECONDS SHAPER: sets $goodput and $slowest
through()
{
	# Its count of frames starts anew.
	on_rx tc filter del dev rxdev ingress
	on_rx tc filter add dev rxdev ingress matchall \
		action pass random determ drop "$1"
	# shellcheck disable=SC2086 # words
	shape $4
	send --tcp "$2" --seconds "$3" --per-sender
	goodput=$(result tcp_goodput_mbit_per_s)
	slowest=$(slowest)
	echo "# 1 of $1 lost, $delay, $2 streams, $4: $goodput Mbit/s," \
		"$(result tcp_retransmitted_segments) sent again, $slowest bytes"
}

# cell EVERY STREAMS
cell()
{
	local behind_tbf

	through "$1" "$2" 3 "tbf rate 20mbit burst 5k limit 60k"
	behind_tbf=$goodput
	through "$1" "$2" 3 "bpshaper rate 20mbit burst 5k limit 60k"
	check_num "1 of $1 lost, $delay, $2 streams: goodput is that of tbf" \
		"$goodput" '>=' "$(awk "BEGIN { print 0.95 * $behind_tbf }")" Mbit/s
	check_num "1 of $1 lost, $delay, $2 streams: nothing is dropped" "$(stat drops)" == 0
}

if ! modprobe act_gact || ! modprobe cls_matchall || ! modprobe sch_ingress; then
	skip "loss" "this kernel has no gact or matchall"
	finish
fi
topology_make
on_rx tc qdisc add dev rxdev ingress
on_rx tc filter add dev rxdev ingress matchall action pass
# Each frame has a loss of its own.
on_tx ethtool -K txdev tso off
for delay in 0ms 20ms; do
	on_rx tc qdisc replace dev rxdev root netem limit 100000 delay $delay
	for every in 1000 100 33; do
		cell $every 1
		cell $every 8
	done
done

delay=0ms
on_rx tc qdisc del dev rxdev root
through 100 64 6 "bpshaper rate 5mbit"
check_num "64 streams: none is left behind" "$slowest" '>=' \
	"$(awk "BEGIN { print $goodput * 1e6 / 8 * 6 / 64 / 4 }")" bytes
check "no socket is held afterwards" wait_until 20 no_socket_is_held
finish
