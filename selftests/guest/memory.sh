#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# memory_limit, and who pays when it is reached: 1000 sockets with a GSO packet of 64 kB each,
# four times what memory_limit holds. Only in icount mode.
#
#  1. a sparse sender beside them, below its fair share, loses nothing and waits at most
#     1 ms (p99) at 100 Mbit/s, or as long as two packets that are sent whole take
#  2. the memory that is queued never exceeds memory_limit
#  3. every loss is in drops_memory
#  4. nothing is left afterwards
#  5. the flow that holds most of the memory pays, and no other
#  6. queues that hold nothing leave theirs to others: two streams on a device with 64 lose nothing,
#     and 1 to 4 hold for all queues together

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
sockets=1000 segments=44
memory_limit=$((16 << 20))

# A probe takes 912 bits every SOCKETS * 24 us: three eighths of its fair share.
interval_us=$((sockets * 24))
sparse="--probe --probe-interval-us $interval_us"

# bounded NAME: laws 2, 3 and 4 after `memory_watch /tmp/most`
bounded()
{
	touch /tmp/most.end
	wait
	check_num "$1: memory_limit is reached" "$(stat drops_memory)" '>' 0 packets
	check_num "$1: no more memory than memory_limit is queued" "$(cat /tmp/most)" '<=' \
		"$2" bytes
	check_num "$1: all drops are because of it" "$(stat drops)" == "$(stat drops_memory)"
	check "$1: nothing is left" wait_until 10 no_socket_is_held
}

topology_make
for row in "20kb 1 segmented" "200kb 11 whole"; do
	read -r burst wait_ms name <<<"$row"
	name="GSO packets $name"
	shape bpshaper rate 100mbit burst "$burst" memory_limit $memory_limit
	memory_watch /tmp/most &
	# shellcheck disable=SC2086 # words
	send --udp $sockets --mode epoll --gso $segments --sndbuf 4194304 --seconds 4.5 \
		--drain-ms 1000 $sparse
	echo "# $name: $(result probe_lost_packets) of $(result probe_sent_packets) probes lost," \
		"p99 $(result probe_delay_p99_ms) ms;" \
		"of $(result udp_sent_packets) datagrams $(result udp_lost_packets) lost," \
		"$(stat drops) packets dropped; $(cat /tmp/most) bytes at most"
	check_num "$name: the sparse sender loses nothing" "$(result probe_lost_packets)" == 0
	check_num "$name: nor does it wait" "$(result probe_delay_p99_ms)" '<=' $wait_ms ms
	# The first half second is that of 1000 new flows.
	check_num "$name: nor is it held" "$(result probe_sent_packets)" '>=' \
		$((4000000 / interval_us))
	bounded "$name" $memory_limit
	check_num "$name: the rate is used" "$(result udp_wire_goodput_mbit_per_s)" '>=' 98 Mbit/s
done

# A ninth of what one user may hold would be enough for each of the eight. The ninth socket fills
# half of it before they come; nothing leaves meanwhile.
memory_limit=$((1125 << 10))
for row in "20kb 36 segmented" "200kb 44 whole"; do
	read -r burst segments name <<<"$row"
	name="one holds most, $name"
	shape bpshaper rate 80kbit burst "$burst" limit 2mb share_min 1mb \
		memory_limit $memory_limit
	memory_watch /tmp/most &
	"$traffic" --tx-netns "$tx" --rx-netns "$rx" --dst 10.99.0.2 \
		--json /tmp/greedy --port 5700 --udp 1 --size 100 --gso 64 --sndbuf 4194304 \
		--mode poll --seconds 1 --drain-ms 3000 &
	greedy=$!
	sleep 0.5
	check_num "$name: it holds half" "$(stat memory)" '>=' $((memory_limit * 9 / 20))
	send --udp 8 --gso $segments --sndbuf 4608 --mode poll --seconds 0.2 --warmup-ms 0 \
		--drain-ms 3000 &
	others=$!
	sleep 0.7
	must on_tx tc qdisc change dev txdev root bpshaper rate 100mbit
	wait $greedy $others
	lost=$(json_get udp_lost_packets </tmp/greedy)
	echo "# $name: it lost $lost of $(json_get udp_sent_packets </tmp/greedy)," \
		"the others $(result udp_lost_packets) of $(result udp_sent_packets)," \
		"$(stat drops_memory) packets dropped"
	check_num "$name: it pays" "$lost" '>' 0 packets
	check_num "$name: nobody else does" "$(result udp_lost_packets)" == 0 packets
	bounded "$name" $memory_limit
done

ip netns del "$tx"
ip netns del "$rx"
QUEUES=64 topology_make
memory_limit=$((8 << 20))
name="64 queues"
shape bpshaper rate 1gbit memory_limit $memory_limit
memory_watch /tmp/most &
send --tcp 2 --seconds 0.5 --warmup-ms 0 --drain-ms 500
touch /tmp/most.end
wait
echo "# $name: $(stat drops_memory) packets of two streams dropped, $(cat /tmp/most) bytes at most"
check_num "$name: two streams hold more than a 64th" "$(cat /tmp/most)" '>' $((memory_limit / 64)) \
	bytes
check_num "$name: and lose nothing" "$(stat drops)" == 0 packets
shape bpshaper rate 100mbit memory_limit $memory_limit
memory_watch /tmp/most &
# shellcheck disable=SC2086 # words
send --udp $sockets --mode epoll --gso 44 --sndbuf 4194304 --seconds 1.5 --drain-ms 1000 $sparse
check_num "$name: the sparse sender loses nothing" "$(result probe_lost_packets)" == 0
bounded "$name" $memory_limit
finish
