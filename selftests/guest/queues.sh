#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# One bpshaper on a device with several queues: together they send no more than burst and rate in
# any window, and no less than the rate; flows are equal, whatever queue they are in, and
# have what one does not need; nothing is lost. icount mode only.

# shellcheck source=lib/queues.sh
. "$(dirname "$0")/lib/queues.sh"
# shellcheck source=lib/departures.sh
. "$(dirname "$0")/lib/departures.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"

# window NAME BYTES MOST
window() { check_num "$1" "$2" '<=' "$3" bytes; }

all_wait() { [ "$(stat hub_waiting)" = 4 ]; }

if ! can_steer; then
	skip "queues" "before 5.19 a filter cannot choose the queue"
	finish
fi
topology_make
steer

# The law, for the sum
for row in "200000000 20000" "20000000 12000" "200000000 100000"; do
	read -r rate burst <<<"$row"
	name="rate $rate burst $burst"
	# Sockets send a share at a time: time for twenty or more of each, and for the first burst of
	# one to be a small part.
	seconds=3
	[ "$rate" -gt 20000000 ] || seconds=20
	shape handle 1: bpshaper rate "$rate" burst "$burst"
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
	check_num "$name: the rate is reached" \
		"$(loaded_sum udp_wire_goodput_mbit_per_s 0 1 2 3)" '>=' \
		"$(awk "BEGIN { print $rate * 0.99 / 1e6 }")" Mbit/s
	read -r least most <<<"$(for q in 0 1 2 3; do loaded $q udp_wire_goodput_mbit_per_s
		done | sort -n | sed -n '1p;4p' | xargs)"
	check_num "$name: equal bytes for all queues, within 2 %" "$most" '<=' \
		"$(awk "BEGIN { print $least * 1.02 }")" Mbit/s
	for q in 0 1 2 3; do
		check_num "$name, queue $q: nothing is lost" "$(loaded $q udp_lost_packets)" == 0
		check_num "$name, queue $q: equal bytes for its sockets" \
			"$(loaded $q udp_jain_index)" '>=' 0.999
	done
	check_num "$name: nothing is dropped" "$(stat drops)" == 0
	check_num "$name: sockets were throttled" "$(stat throttles)" '>' 0
	check "$name: no socket is held afterwards" wait_until 5 no_socket_is_held
	check_num "$name: and nobody waits" "$(stat hub_waiting)" == 0
done

# A queue that has nothing to send costs the others nothing.
shape handle 1: bpshaper rate 200mbit burst 40kb
load 0 1 --udp 4
wait
check_num "one queue alone has the whole rate" \
	"$(loaded 0 udp_wire_goodput_mbit_per_s)" '>=' 198 Mbit/s
load 0 1 --udp 1
load 1 1 --udp 16
wait
check_num "one socket in a queue has as much as each of sixteen in another, within 2.5 %" \
	"$(loaded 0 udp_wire_goodput_mbit_per_s)" '>=' 11.47 Mbit/s
check_num "and no more" "$(loaded 0 udp_wire_goodput_mbit_per_s)" '<=' 12.06 Mbit/s
check_num "they are equal" "$(loaded 1 udp_jain_index)" '>=' 0.99
for q in 0 1 2 3; do load $q 2.3 --udp 4 --probe --warmup-ms 300; done
wait
for q in 0 1 2 3; do
	check_num "in a busy queue beside others a probe does not wait (p99)" \
		"$(loaded $q probe_delay_p99_ms)" '<=' 0.2 ms
done

# sent N: bytes of queue N
sent() { queue_stat "$1" bytes; }

# equal_bytes NAME SECONDS: queues 1 and 2, after a while
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

shape handle 1: bpshaper rate 20mbit burst 12000
load 0 2 --udp 4 --size 1470
load 1 2 --udp 4 --size 180
equal_bytes "short packets and long ones" 1
wait

# Who has slept for a packet that takes minutes does not sleep on at another rate.
shape handle 1: bpshaper rate 8bit limit 4k share_min 3028
for q in 0 1 2 3; do load $q 1 --udp 25; done
sleep 0.5
check_num "at 8bit: sockets are held" "$(stat throttled_sockets)" '>' 0
must on_tx tc qdisc change dev txdev root bpshaper rate 1gbit
sleep 1
check "a change from 8bit: no socket is held" wait_until 5 no_socket_is_held
wait

# Who has nothing but a packet for later asks for nothing.
must on_tx tc filter add dev txdev egress protocol ip flower ip_proto udp dst_port 5700 \
	action skbedit queue_mapping 0
shape handle 1: bpshaper rate 100mbit burst 20000
load 0 0.5 --udp 4 --warmup-ms 0
load 1 0.5 --udp 4 --warmup-ms 0
sleep 0.3
"$bppace" "$tx" "$rx" 10.99.0.2 3000000 1000 1 >/tmp/paced &
paced=$!
check "a packet for later is left" wait_until 2 eval \
	'[ "$(queue_stat 1 qlen) $(queue_stat 2 qlen)" = "1 0" ]'
check_num "and its queue does not wait for tokens" "$(stat hub_waiting)" == 0
wait $paced
check_num "it leaves" "$(json_get arrived </tmp/paced)" == 1
wait

# Streams, whose GSO packets are larger than what a queue may hold.
shape handle 1: bpshaper rate 200mbit burst 40kb
departures_start
send --tcp 8 --udp 2 --seconds 1
window "TCP: no window of the sum exceeds burst + rate * T" \
	"$(departures_level 25000000)" $((40960 + 500))
check_num "TCP: nothing is sent again" "$(result tcp_retransmitted_segments)" == 0
check_num "TCP: nothing is dropped" "$(stat drops)" == 0
check "TCP: no socket is held afterwards" wait_until 5 no_socket_is_held

# What the top counts is what its queues do.
for key in bytes packets throttles timer_wakeups; do
	check "the sum of all queues: $key" wait_until 5 is_sum $key
done

# Nobody waits after a change of options.
shape handle 1: bpshaper rate 200mbit burst 40kb
: >/tmp/changing
on_tx bash -c "while [ -e /tmp/changing ]; do
	tc qdisc change dev txdev root bpshaper rate 200mbit; sleep 0.2; done" &
for q in 0 1 2 3; do load $q 2 --udp 4; done
sleep 2.2
rm /tmp/changing
wait
check_num "while options change the rate is kept" \
	"$(loaded_sum udp_wire_goodput_mbit_per_s 0 1 2 3)" '>=' 198 Mbit/s

# Two classes, each with a ceil: what overloads one is not seen in the other.
class 1: 1:10 ceil 50mbit
class 1: 1:20 ceil 100mbit
must on_tx tc qdisc change dev txdev root bpshaper rate 1gbit
first="--class-first 16 --classes 1 --class-probe 16" second="--class-first 32 --classes 1"
# shellcheck disable=SC2086 # words
load 0 3 --udp 4 --warmup-ms 1000 --probe $first
wait
alone=$(loaded 0 udp_age_p99_ms) alone_probe=$(loaded 0 probe_delay_p99_ms)
for q in 1 2 3; do
	# shellcheck disable=SC2086 # words
	load $q 3.2 --udp 5 $second
done
# shellcheck disable=SC2086 # words
load 0 3 --udp 4 --warmup-ms 1000 --probe $first
wait
echo "# two classes: age p99 $(loaded 0 udp_age_p99_ms) ms, alone $alone;" \
	"probe $(loaded 0 probe_delay_p99_ms) ms, alone $alone_probe"
check_num "beside a saturated class packets of another are as old as alone, within 10 %" \
	"$(loaded 0 udp_age_p99_ms)" '<=' "$(awk "BEGIN { print 1.1 * $alone }")" ms
# 1514 bytes take 0.24 ms
check_num "and a probe there waits for two turns at most" "$(loaded 0 probe_delay_p99_ms)" '<=' 0.6 ms
check_num "and each class has its ceil" "$(loaded_sum udp_wire_goodput_mbit_per_s 1 2 3)" '>=' 98 Mbit/s
check_num "both" "$(loaded 0 udp_wire_goodput_mbit_per_s)" '>=' 49 Mbit/s
check_num "and nothing is lost" "$(loaded_sum udp_lost_packets 0 1 2 3)" == 0
for id in 10 20; do
	check_num "class 1:$id counts packets of all queues" "$(class_packets 1:$id)" '>' 10000 packets
done
finish
