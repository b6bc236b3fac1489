#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Bursts of idle sockets. What gets EAGAIN is not sent again. $PARTS chooses.
#
#  1. rows: 64 datagrams of 1200 bytes at once are taken, alone and beside greedy senders, up to the
#     socket's part of the rate; tbf with a latency loses them
#  2. sizes: so are 16, 64 and 90 at 2, 20 and 200 Mbit/s, with each way to send: sendto(), blocking,
#     epoll with edge triggers, sendmmsg(), UDP_SEGMENT
#  3. frames: of 10 to 90 packets each 16 and 33 ms at 30 and 90 % of the socket's part are whole
#  4. greedy: a greedy socket has one burst: then nobody is more than a share above the limit
#  5. parts: who sends bursts beyond its part gets no more than that
#  6. start: of many sockets that start at once all bursts together have 192 kB
#  7. fresh: sockets that come and go get no more with bursts than without; paced ones have none
#  8. marks: a burst has no mark, a standing queue has
#  9. counters: a refused burst of an idle socket counts, holds of greedy ones do not
# 10. ends: a burst that is queued holds no socket, however the backlog ends
# 11. classes: a class takes bursts as the qdisc does

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"
bursts_max=196608 ect0=2

# beside N: that many greedy senders
beside() { [ "$1" = 0 ] || echo "greedy:udp,poll,sockets=$1"; }

# burst NAME SECONDS BESIDE OPTIONS...: bursts beside greedy senders
burst()
{
	# shellcheck disable=SC2046 # no word, or one
	peers "$2" 1000 "burst:udp,size=1200,$4" $(beside "$3") "${@:5}"
	echo "# $1: $(got burst_sent) taken, $(got burst_refused) refused," \
		"age p99 $(got burst_delay_p99_ms) ms"
}

# whole NAME: nothing was refused or lost, and nobody is held
whole()
{
	check_num "$1: nothing is refused" "$(got burst_refused)" == 0 packets
	check_num "$1: all arrive" "$(got burst_lost)" == 0 packets
	check "$1: no socket is held afterwards" wait_until 5 no_socket_is_held
}

# row RATE BESIDE GAP_MS: six bursts
row()
{
	local name="64 packets each $3 ms at $1 Mbit/s beside $2"

	shape bpshaper rate "$1mbit"
	burst "$name" "$(awk "BEGIN { print 6.5 * $3 / 1000 }")" "$2" "every=${3}000,frame=64,refuse"
	whole "$name"
}

# At 2 Mbit/s beside four 64 packets are 1.6 s of the part.
part_rows()
{
	shape tbf rate 2mbit burst 5kb latency 50ms
	burst "tbf" 9 0 every=1500000,frame=64,refuse
	check_num "tbf loses them" "$(got burst_lost)" '>=' 200 packets
	row 2 0 1500
	row 20 0 1500
	row 2 4 1700
	row 20 4 1500
	row 200 64 1500
}

# sizes RATE SIZE BESIDE GAP_MS OPTIONS
sizes()
{
	local name="$2 packets at $1 Mbit/s beside $3, $5"

	shape bpshaper rate "$1mbit"
	burst "$name" "$(awk "BEGIN { print 3.5 * $4 / 1000 }")" "$3" "every=${4}000,$5"
	whole "$name"
}

part_sizes()
{
	local rate way

	for rate in 2 20 200; do
		sizes $rate 16 0 1000 frame=16,refuse
		sizes $rate 16 1 1000 frame=16,refuse
		sizes $rate 64 1 1500 frame=64,refuse
	done
	# 90 are nearly the send buffer: what exceeds 64 and the share has to wait.
	sizes 200 90 0 1000 frame=90,refuse
	sizes 200 90 4 1000 frame=90,refuse
	sizes 20 16 64 2000 frame=16,refuse
	sizes 200 16 64 1000 frame=16,refuse
	for way in frame=64 frame=64,edge frame=64,mmsg,refuse frame=16,gso=4,refuse; do
		sizes 20 64 0 1500 $way
		check_num "64 packets, $way: the socket is not held" "$(stat throttles)" == 0
		sizes 20 64 4 1500 $way
	done
}

# frames PACKETS GAP_US PERCENT BESIDE: at a rate of which they take so much of a part
frames()
{
	local name="frames of $1 packets each $(($2 / 1000)) ms, $3 % of the part beside $4" rate

	rate=$(awk "BEGIN { printf \"%d\", $1 * 1242 * 8e6 / $2 * ($4 + 1) * 100 / $3 }")
	shape bpshaper rate "$rate"
	burst "$name" 3 "$4" "every=$2,frame=$1,refuse"
	whole "$name"
}

part_frames()
{
	local packets us

	for packets in 10 40 90; do
		for us in 16000 33000; do
			frames $packets $us 30 0
			frames $packets $us 90 0
			[ $packets = 90 ] || frames $packets $us 90 4
		done
	done
}

# Each packet is sent after 100 ms: the bursts of the start are queued by then. 92 datagrams of
# 1000 bytes fill the send buffer, so no throttle would end their burst.
part_greedy()
{
	local name rate senders

	shape bpshaper rate 20mbit
	peers 3 1000 greedy:udp,poll,size=1000,ages
	check_num "a send buffer that is smaller than the burst: packets are not old (p99)" \
		"$(got greedy_delay_p99_ms)" '<=' 14 ms

	for rate in 20 200; do
		for senders in 16 64; do
			name="$senders greedy senders at $rate Mbit/s"
			shape bpshaper rate "${rate}mbit"
			send --udp $senders --mode poll --seconds 3 --warmup-ms 100
			echo "# $name: age p50 $(result udp_age_p50_ms) p99 $(result udp_age_p99_ms) ms"
			# The default limit is 11 ms.
			check_num "$name: after 100 ms packets are not old (p99)" \
				"$(result udp_age_p99_ms)" '<=' 14 ms
			check "$name: no socket is held afterwards" wait_until 5 no_socket_is_held
		done
	done
}

# Bursts that ask for up to five times their part
part_parts()
{
	local name rate senders us

	for rate in 20 200; do
		for senders in 4 64; do
			for us in 30000 100000; do
				name="64 packets each $((us / 1000)) ms at $rate Mbit/s beside $senders"
				shape bpshaper rate "${rate}mbit"
				burst "$name" 4 $senders every=$us,frame=64,refuse
				check_num "$name: they get their part at most" "$(got burst_mbit)" '<=' \
					"$(awk "BEGIN { print 1.02 * $rate / ($senders + 1) }")" Mbit/s
				check_num "$name: all others get the same (Jain)" "$(got jain)" '>=' 0.99
			done
		done
	done
}

part_start()
{
	shape bpshaper rate 200mbit burst 20kb limit 200k
	send --udp 64 --mode poll --seconds 0.5 --warmup-ms 0
	echo "# start: largest backlog $(stat max_backlog) bytes"
	check_num "start: all bursts together have 192 kB, beside the limit and a packet of each" \
		"$(stat max_backlog)" '<=' $((204800 + 65536 + bursts_max + 64 * 1512)) bytes
	check_num "start: nothing is lost" "$(result udp_lost_packets)" == 0 packets
}

# fresh NAME LEAST SENDER: 64 sockets that stay get LEAST Mbit/s beside SENDER
fresh()
{
	shape bpshaper rate 20mbit
	peers 4 1000 good:udp,poll,sockets=64 "bad:udp,$3,uid=1000" sparse:udp,every=20000,size=72
	echo "# fresh: $(got good_mbit) Mbit/s of 64 sockets that stay, $(got bad_mbit) of $1"
	check_num "$1: those that stay get theirs" "$(got good_mbit)" '>=' "$2" Mbit/s
	check_num "$1: a sparse sender does not wait (p99)" "$(got sparse_delay_p99_ms)" '<=' 1 ms
	check_num "$1: the backlog is bounded" "$(stat max_backlog)" '<=' \
		$((2 * 28028 + bursts_max + 80 * 1512)) bytes
}

# Without bursts those that stay have 7.1, 15.8 and 19 Mbit/s.
part_fresh()
{
	fresh "16 senders with a socket for 2 packets" 6.2 poll,sockets=16,fresh=2
	fresh "16 senders with a socket for 16 packets" 14.5 poll,sockets=16,fresh=16
	fresh "a sender with a socket for each burst of 64" 18 fresh=64,frame=64,every=50000,refuse

	shape bpshaper rate 20mbit
	burst "beside eight sockets paced at 8 kbit/s" 8 0 every=1500000,frame=64,refuse \
		paced:udp,poll,sockets=8,size=200,sndbuf=4194304,max_rate=8000
	whole "beside paced sockets"
}

part_marks()
{
	shape bpshaper rate 20mbit
	burst "marks" 8 0 "every=1500000,frame=64,refuse,tos=$ect0"
	check_num "marks: a burst of 38 ms has none" "$(got burst_congested)" == 0 packets
	peers 3 1000 "greedy:udp,poll,sockets=4,tos=$ect0"
	check_num "marks: a standing queue has" "$(got greedy_congested)" '>=' 100 packets
	peers 3 1000 "bulk:udp,poll,sockets=8" "window:udp,every=50000,frame=8,tos=$ect0"
	check_num "marks: bursts in each of many round trips have" "$(got window_congested)" '>=' 10 \
		packets
}

# Larger send buffers, so that bpshaper refuses and not the send buffer
part_counters()
{
	shape bpshaper rate 20mbit
	burst "counters" 4 0 every=1000000,frame=200,refuse,sndbuf=4194304
	check_num "counters: a part of each burst is refused" "$(got burst_refused)" '>=' 100 packets
	check_num "counters: each of them counts" "$(stat idle_throttles)" == 3
	shape bpshaper rate 20mbit
	peers 3 1000 greedy:udp,poll,sockets=4
	echo "# counters: $(stat idle_throttles) of $(stat throttles) throttles of greedy sockets"
	check_num "counters: those of greedy sockets do not, but for one in 20" \
		"$(stat idle_throttles)" '<=' $(($(stat throttles) / 20))
}

part_ends()
{
	local end

	for end in "tc qdisc change dev txdev root bpshaper rate 100mbit" \
		   "tc qdisc change dev txdev root bpshaper backpressure off" \
		   "ip link set txdev down" "tc qdisc replace dev txdev root pfifo"; do
		shape bpshaper rate 100kbit
		peers 1 0 burst:udp,size=1200,every=100000,frame=40,refuse,until=150 &
		check "ends: a burst is queued" wait_until 5 has_burst
		check_num "ends: its socket is not held" "$(stat throttled_sockets)" == 0
		# shellcheck disable=SC2086 # words
		must on_tx $end
		wait
		[[ $end == *pfifo* ]] ||
			check "ends, $end: nothing is left" wait_until 10 no_socket_is_held
		must on_tx ip link set txdev up
		links_up
		peers_routes
	done
}

part_classes()
{
	local beside

	for beside in 0 4; do
		shape handle 1: bpshaper rate 20mbit default 10
		class 1: 1:10
		burst "64 packets in a class beside $beside" 9 $beside every=1500000,frame=64,refuse
		whole "64 packets in a class beside $beside"
	done
}

has_burst() { [ "$(stat qlen)" -ge 30 ]; }

peers_topology
for part in ${PARTS:-rows sizes frames greedy parts start fresh marks counters ends classes}; do
	"part_$part"
done
finish
