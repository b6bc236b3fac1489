#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Queues of one device that share a rate: together they send no more than burst and rate in
# any window, and no less than the rate; flows are equal, whatever queue they are in, and
# have what one does not need; nothing is lost. icount mode only.

# shellcheck source=lib/queues.sh
. "$(dirname "$0")/lib/queues.sh"
# shellcheck source=lib/departures.sh
. "$(dirname "$0")/lib/departures.sh"

# window NAME BYTES MOST
window() { check_num "$1" "$2" '<=' "$3" bytes; }

all_wait() { [ "$(member_stat 1 group_waiting)" = 4 ]; }

# With the priority instead, sockets of one load share queues with another's.
if [ $steered != queue_mapping ]; then
	skip "group" "before 5.19 a filter cannot choose the queue"
	finish
fi
topology_make numtxqueues $queues numrxqueues $queues
steer

# The law, for the sum
for row in "200000000 20000" "20000000 12000" "200000000 100000"; do
	read -r rate burst <<<"$row"
	name="rate $rate burst $burst"
	# Sockets send a share at a time: time for twenty or more of each.
	seconds=3
	[ "$rate" -gt 20000000 ] || seconds=10
	grouped rate "$rate" burst "$burst"
	on_rx "$law" rxdev $((rate / 8)) 2 >/tmp/law &
	watcher=$!
	for q in 0 1 2 3; do load $q $seconds --udp 4; done
	sleep 0.8
	check "$name: all queues wait" wait_until 1 all_wait
	wait $watcher
	wait
	window "$name: no window of the sum exceeds burst + rate * T" \
		"$(json_get max_level_bytes </tmp/law)" \
		$((burst + rate / 8 * 5 / 1000000 + 1))
	check_num "$name: the rate is reached" "$(for q in 0 1 2 3; do
		loaded $q udp_wire_goodput_mbit_per_s; done |
		awk -v rate="$rate" '{ sum += $1 } END { print sum * 1e6 / rate }')" '>=' 0.99
	read -r least most <<<"$(for q in 0 1 2 3; do loaded $q udp_wire_goodput_mbit_per_s
		done | sort -n | sed -n '1p;4p' | xargs)"
	check_num "$name: equal bytes for all queues, within 2 %" "$most" '<=' \
		"$(awk "BEGIN { print $least * 1.02 }")" Mbit/s
	for q in 0 1 2 3; do
		check_num "$name, queue $q: nothing is lost" "$(loaded $q udp_lost_packets)" == 0
		check_num "$name, queue $q: equal bytes for its sockets" \
			"$(loaded $q udp_jain_index)" '>=' 0.999
	done
	check_num "$name: nothing is dropped" "$(sum_stat drops)" == 0
	check_num "$name: sockets were throttled" "$(sum_stat throttles)" '>' 0
	check "$name: no socket is held afterwards" wait_until 5 none_is_held
	check_num "$name: and nobody waits" "$(member_stat 1 group_waiting)" == 0
done

# A queue that has nothing to send costs the others nothing.
grouped rate 200mbit burst 40kb
load 0 1 --udp 4
wait
check_num "one queue alone has the whole rate" \
	"$(loaded 0 udp_wire_goodput_mbit_per_s)" '>=' 198 Mbit/s
load 0 1 --udp 1
load 1 1 --udp 16
wait
check_num "one socket in a queue has as much as each of sixteen in another, within 2 %" \
	"$(loaded 0 udp_wire_goodput_mbit_per_s)" '>=' 11.53 Mbit/s
check_num "and no more" "$(loaded 0 udp_wire_goodput_mbit_per_s)" '<=' 12 Mbit/s
check_num "they are equal" "$(loaded 1 udp_jain_index)" '>=' 0.99
load 0 1 --udp 4
load 2 1 --udp 4 --probe
wait
check_num "beside a busy queue a probe waits for a turn at most" \
	"$(loaded 2 probe_delay_p99_ms)" '<=' 2 ms

# sent N: bytes of the member
sent() { member_stat "$1" bytes; }

# equal_bytes NAME SECONDS: members 1 and 2, after a while
equal_bytes()
{
	local one two

	sleep 0.3
	one=$(sent 1) two=$(sent 2)
	sleep "$2"
	one=$(($(sent 1) - one)) two=$(($(sent 2) - two))
	echo "# $1: $one and $two bytes"
	check_num "$1: equal bytes, within 3 %" "$((one > two ? one - two : two - one))" '<=' \
		$(((one + two) * 3 / 200)) bytes
}

grouped rate 20mbit burst 12000
load 0 2 --udp 4 --size 1470
load 1 2 --udp 4 --size 180
equal_bytes "short packets and long ones" 1
wait

# Who has slept for a packet that takes minutes does not sleep on at another rate.
grouped rate 8bit limit 4k share_min 3028
for q in 0 1 2 3; do load $q 1 --udp 25; done
sleep 0.5
check_num "at 8bit: sockets are held" "$(sum_stat throttled_sockets)" '>' 0
must member 1 rate 1gbit group 7
sleep 1
check "a change from 8bit: no socket is held" wait_until 5 none_is_held
wait

# Who has nothing but a packet for later asks for nothing.
must on_tx tc filter add dev txdev egress protocol ip flower ip_proto udp dst_port 5700 \
	action skbedit queue_mapping 0
grouped rate 100mbit burst 20000
load 0 0.5 --udp 4 --warmup-ms 0
load 1 0.5 --udp 4 --warmup-ms 0
sleep 0.3
"$bppace" "$tx" "$rx" 10.99.0.2 3000000 1000 1 >/tmp/paced &
paced=$!
check "a packet for later is left" wait_until 2 eval \
	'[ "$(member_stat 1 qlen) $(member_stat 2 qlen)" = "1 0" ]'
check_num "and its queue does not wait for tokens" "$(member_stat 1 group_waiting)" == 0
wait $paced
check_num "it leaves" "$(json_get arrived </tmp/paced)" == 1
wait

# Streams, whose GSO packets are larger than what a member may hold.
grouped rate 200mbit burst 40kb
departures_start
send --tcp 8 --udp 2 --seconds 1
window "TCP: no window of the sum exceeds burst + rate * T" \
	"$(departures_level 25000000)" $((40960 + 500))
check_num "TCP: nothing is sent again" "$(result tcp_retransmitted_segments)" == 0
check_num "TCP: nothing is dropped" "$(sum_stat drops)" == 0
check "TCP: no socket is held afterwards" wait_until 5 none_is_held

# Two classes of traffic, each with its own rate: what overloads one is not seen in the other.
on_tx tc qdisc del dev txdev root
must on_tx tc qdisc add dev txdev root handle 8001: mqprio num_tc 2 \
	map 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 queues 2@0 2@2 hw 0
member 1 rate 50mbit group 1
member 2 group 1
member 3 rate 100mbit group 2
member 4 group 2
load 0 3 --udp 4 --warmup-ms 1000 --probe
wait
alone=$(loaded 0 udp_age_p99_ms) alone_probe=$(loaded 0 probe_delay_p99_ms)
load 2 3.2 --udp 8
load 3 3.2 --udp 8
load 0 3 --udp 4 --warmup-ms 1000 --probe
wait
echo "# two classes: age p99 $(loaded 0 udp_age_p99_ms) ms, alone $alone"
check_num "beside a saturated class packets of another are as old as alone, within 10 %" \
	"$(loaded 0 udp_age_p99_ms)" '<=' "$(awk "BEGIN { print 1.1 * $alone }")" ms
check_num "and a probe there waits as long, within 10 % or 20 us" \
	"$(loaded 0 probe_delay_p99_ms)" '<=' "$(awk "BEGIN { print 1.1 * $alone_probe + 0.02 }")" ms
check_num "and each class has its rate" "$(loaded 2 udp_wire_goodput_mbit_per_s)" '>=' 48 Mbit/s
check_num "of both" "$(loaded 0 udp_wire_goodput_mbit_per_s)" '>=' 48 Mbit/s
check_num "and nothing is lost" "$(($(loaded 0 udp_lost_packets) + $(loaded 2 udp_lost_packets) +
	$(loaded 3 udp_lost_packets)))" == 0
finish
