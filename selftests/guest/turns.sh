#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Turns: more sockets than the limit has room for. $PARTS chooses.
#
#  1. ages: however many senders, packets are no older than 1.5 times what the limit takes and a
#     share, senders get the same, a sparse one does not wait, and a wake-up serves most of a share
#  2. start: sockets that start at once queue a packet each
#  3. unequal: senders at 1.5 and 5 times their fair share, and those of small packets, get what
#     greedy ones get, within 10 %
#  4. beside: sockets that take no turns, and TCP, get what those that do get, within 10 %
#  5. idle: sockets that were let in and do not send hold up nobody
#  6. closed: a socket that is closed outside is released at once
#  7. ends: every end of a backlog releases those outside

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
# shellcheck source=lib/many.sh
. "$(dirname "$0")/lib/many.sh"

# ages RATE_MBIT LIMIT_BYTES SENDERS SECONDS WARMUP_MS OPTIONS...
ages()
{
	local name="$3 senders, $1 Mbit/s" bound part

	# Three quarters of a turn, in packets: it is what leaves in 1 ms, 2 to 16 packets.
	part=$(awk "BEGIN { p = $1 * 125 / 1514; print .75 * (p < 2 ? 2 : p > 16 ? 16 : p) }")

	shape bpshaper rate "$1mbit" burst 20kb limit "$2"
	send --udp "$3" --seconds "$4" --warmup-ms "$5" --probe --probe-interval-us \
		$((20 * $3 * 200 / $1 + 2000)) "${@:6}"
	bound=$(awk "BEGIN { print (1.5 * $2 + 24224) * 8 / $1 / 1000 }")
	echo "# $name: age p50 $(result udp_age_p50_ms) p99 $(result udp_age_p99_ms) ms," \
		"Jain $(result udp_jain_index), probe p99 $(result probe_delay_p99_ms) ms," \
		"$(stat throttles) throttles and $(stat turns) turns for $(stat packets) packets"
	check_num "$name: the senders take turns" "$(stat turns)" '>=' "$3"
	check_num "$name: packets are not old (p99)" "$(result udp_age_p99_ms)" '<=' "$bound" ms
	check_num "$name: nothing is lost" "$(result udp_lost_packets)" == 0 packets
	check_num "$name: nothing is dropped" "$(stat drops)" == 0 packets
	check_num "$name: all get the same (Jain)" "$(result udp_jain_index)" '>=' 0.998
	check_num "$name: a sparse sender waits for the packet before it at most (p99)" \
		"$(result probe_delay_p99_ms)" '<=' "$(awk "BEGIN { print 1512 * 8 / $1 / 1000 }")" ms
	check_num "$name: the rate is used" "$(result udp_wire_goodput_mbit_per_s)" '>=' \
		"$(awk "BEGIN { print 0.985 * $1 }")" Mbit/s
	check_num "$name: a socket is released for $part packets or more" "$(stat unthrottles)" \
		'<=' "$(awk "BEGIN { print $(stat packets) / $part }")"
	check "$name: no socket is held afterwards" wait_until 5 no_socket_is_held
	check_num "$name: each wait outside has been counted" "$(hist_sum outside_hist)" '>=' \
		"$(stat turns)"
}

part_ages()
{
	ages 200 200000 32 3 500 --mode poll
	ages 200 200000 64 3 500
	ages 200 200000 256 6 1000 --mode poll
	ages 200 200000 1000 14 3000 --mode epoll
	ages 20 30000 64 16 2000 --mode poll
}

# Sockets that all start at once have queued a packet each before they can be stopped.
part_start()
{
	shape bpshaper rate 200mbit burst 20kb limit 200k
	send --udp 1000 --mode epoll --seconds 0.5 --warmup-ms 0
	echo "# start: largest backlog $(stat max_backlog) bytes"
	check_num "start: each of 1000 sockets queues a packet, beside the limit" \
		"$(stat max_backlog)" '<=' $((1000 * 1512 + 204800 + 65536)) bytes
	check_num "start: nothing is lost" "$(result udp_lost_packets)" == 0 packets
}

# unequal NAME SENDER: 4 of them beside 28 greedy ones
unequal()
{
	shape bpshaper rate 100mbit burst 10kb limit 100k
	peers 4 1000 greedy:udp,poll,sockets=28 "other:udp,poll,sockets=4,$2"
	echo "# $1: $(got other_mbit) of 4, $(got greedy_mbit) Mbit/s of 28, Jain $(got jain)"
	check_num "$1: they get what greedy ones get, within 10 %" "$(awk "BEGIN {
		d = ($(got other_part) / 4) / ($(got greedy_part) / 28) - 1
		print d < 0 ? -d : d }")" '<=' 0.1
	check_num "$1: nothing is lost" "$(($(got other_lost) + $(got greedy_lost)))" == 0 packets
	check_num "$1: sockets take turns" "$(stat turns)" '>=' 100
	check "$1: no socket is held afterwards" wait_until 5 no_socket_is_held
}

# A fair share is 1/32 of 100 Mbit/s: a packet of 1512 bytes each 3871 us, or one of 114
# bytes each 292 us.
part_unequal()
{
	unequal "1.5 times the share" pace=2580
	unequal "5 times the share" pace=774
	unequal "small packets" size=72
	unequal "1.5 times the share, small packets" size=72,pace=194
	unequal "5 times the share, small packets" size=72,pace=58
	unequal "eight segments at a time" sndbuf=4194304,gso=8
}

part_beside()
{
	local udp tcp

	unequal "a pacing rate" max_rate=1000000000
	# With pacing TCP has a rate, too.
	shape bpshaper rate 100mbit burst 10kb limit 100k pacing off
	send --udp 60 --tcp 4 --mode poll --seconds 4 --warmup-ms 1000
	udp=$(result udp_wire_goodput_mbit_per_s) tcp=$(result tcp_goodput_mbit_per_s)
	echo "# TCP: $tcp Mbit/s of 4, $udp of 60 of UDP"
	check_num "TCP: it gets what UDP gets, within 10 %" "$(awk "BEGIN {
		d = ($tcp * 1514 / 1448 / 4) / ($udp / 60) - 1
		print d < 0 ? -d : d }")" '<=' 0.1
	check_num "TCP: UDP sockets take turns" "$(stat turns)" '>=' 100
	check_num "TCP: nothing is lost" "$(result udp_lost_packets)" == 0 packets
	check "TCP: no socket is held afterwards" wait_until 5 no_socket_is_held
}

outside_are() { [ "$(stat outside_sockets)" -ge "$1" ]; }

# 500 sockets are filled and then send no more. Beside them 40 that go on.
part_idle()
{
	local load before

	shape bpshaper rate 100mbit burst 10kb limit 100k
	many_start 500
	send --udp 40 --mode poll --seconds 3 --warmup-ms 200 &
	load=$!
	sleep 1
	many_say fill >/dev/null
	check "idle: they wait outside" wait_until 1 outside_are 100
	before=$(stat bytes)
	sleep 1
	check_num "idle: the rate is used" "$(awk "BEGIN {
		print ($(stat bytes) - $before) * 8 / 1e6 }")" '>=' 97 Mbit/s
	wait $load
	check "idle: no socket is held afterwards" wait_until 5 no_socket_is_held
	check_num "idle: all may send" "$(many_say count)" == 500 sockets
	many_end
}

# outside NAME: 60 processes compete at 1 Mbit/s, until nearly all are outside
outside()
{
	local i

	shape bpshaper rate 1mbit burst 5kb limit 30k
	senders=()
	for ((i = 0; i < 60; i++)); do
		ip netns exec "$tx" bash -c \
			"exec dd if=/dev/zero bs=1400 count=1000 status=none >/dev/udp/$nobody/9" \
			2>/dev/null &
		senders+=($!)
	done
	check "$1: sockets wait outside" wait_until 60 are_outside 45
}

are_outside() { [ "$(stat outside_sockets)" -ge "$1" ]; }

# outside_end SENDERS...
outside_end()
{
	kill -KILL "$@"
	wait "$@"
} 2>/dev/null

# Half of them are closed while the others keep the queue full, so that no room is left.
part_closed()
{
	outside closed
	outside_end "${senders[@]:0:30}"
	check "closed: only those that live wait outside" wait_until 2 are_at_most 30
	outside_end "${senders[@]:30}"
	check "closed: none is outside" wait_until 2 are_at_most 0
	unshape
}

are_at_most() { [ "$(stat outside_sockets)" -le "$1" ]; }

part_ends()
{
	local case

	for case in "tc qdisc del dev txdev root" "ip link set txdev down" \
		    "tc qdisc replace dev txdev root pfifo" "ip link del txdev" \
		    "tc qdisc change dev txdev root bpshaper backpressure off" \
		    "tc qdisc change dev txdev root bpshaper rate 1gbit limit 100mb"; do
		outside "$case"
		check "$case: until then senders sleep" some_sleep
		# shellcheck disable=SC2086 # words
		must on_tx $case
		check "$case: senders proceed" wait_until 10 all_proceed
		outside_end "${senders[@]}"
		topology_remove
		peers_topology
	done
}

# Does a sender sleep in the kernel for its send buffer?
some_sleep()
{
	local pid

	for pid in "${senders[@]}"; do
		! grep -qs "^State:.*S" "/proc/$pid/status" || return 0
	done
	return 1
}

all_proceed() { ! some_sleep; }

peers_topology
for part in ${PARTS:-ages start unequal beside idle closed ends}; do
	"part_$part"
done
finish
