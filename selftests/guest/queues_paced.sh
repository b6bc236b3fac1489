#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Queues whose packets wait for their time, and one that always has something to
# send: what the ones do not send now is the other's, and what is due does not wait for it.
# icount mode only.
#
# The sum is counted for a second in the midst of sending, from departure to departure. A tenth
# of a percent of it, 12.5 kB and more, is about what may leave at once.

QUEUES=17
# shellcheck source=lib/queues.sh
. "$(dirname "$0")/lib/queues.sh"
# shellcheck source=lib/departures.sh
. "$(dirname "$0")/lib/departures.sh"
bulk=$((queues - 1))

if ! can_steer; then
	skip "queues_paced" "before 5.19 a filter cannot choose the queue"
	finish
fi
topology_make
steer

# bits_per_s FROM SECONDS: what left per second from FROM s after the first departure on
bits_per_s()
{
	awk -v from="$1" -v seconds="$2" '
		NR == 1 { start = $1 + from }
		$1 >= start && !first { first = $1 }
		$1 >= start && $1 < start + seconds { last = $1; sum += $2; len = $2 }
		END { if (last > first) printf "%.0f", (sum - len) * 8 / (last - first) }'
}

# paced RATE PACING_RATE: 16 queues with a socket of that pace and a full share each, and one
# with four bulk senders, for 1.8 s
paced()
{
	local name="rate $1, 16 queues paced at $2 bit/s" q sum

	shape handle 1: bpshaper rate "$1" burst 50kb
	for ((q = 0; q < bulk; q++)); do
		load $q 1.8 --udp 1 --pacing-rate "$2" --sndbuf 1048576 --warmup-ms 0 \
			--drain-ms 300
	done
	load $bulk 1.8 --udp 4 --warmup-ms 0 --drain-ms 300
	departures_start bpshaper/hub_send
	wait
	sum=$(departures_end | bits_per_s 0.4 1)
	echo "# $name: $sum bit/s"
	check_num "$name: with a bulk sender the rate is reached" "$sum" '>=' \
		$(($1 / 1000 * 999)) bit/s
	for ((q = 0; q < bulk; q++)); do
		loaded $q udp_wire_goodput_mbit_per_s
	done | sort -n >/tmp/goodput
	echo "# $name: $(sed -n '1p;$p' /tmp/goodput | xargs) Mbit/s each, bulk" \
		"$(loaded $bulk udp_wire_goodput_mbit_per_s) Mbit/s"
	check_num "$name: each of them has its rate" "$(head -n 1 /tmp/goodput)" '>=' \
		"$(awk "BEGIN { print $2 * 0.98 / 1e6 }")" Mbit/s
	check_num "$name: they wait for their time" "$(stat paced_waits)" '>' 0
	check_num "$name: nothing is dropped" "$(stat drops)" == 0
}

# A class asks for bytes when a packet of its is due.
shape handle 1: bpshaper rate 200mbit burst 20kb
must on_tx tc class add dev txdev parent 1: classid 1:10 bpshaper
for q in 0 1 2 3 4 5 6; do
	load $q 1.5 --udp 1 --pacing-rate 10000000 --sndbuf 9216 --class-first 16 --classes 1
done
wait
echo "# paced in a class: $(stat packets) packets, $(stat hub_revokes) times bytes were taken back"
check_num "paced in a class: packets leave" "$(stat packets)" '>' 5000
check_num "paced in a class: nobody gets bytes that are not due" "$(stat hub_revokes)" '<=' \
	$(($(stat packets) / 50))

# Before 6.5, and with PREEMPT_RT, a packet now and then waits for a thread of softirqs, and that
# for the CPU: the median.
late=late_p99_us
[[ $(uname -r) != 6.[0-4].* && $(uname -v) != *PREEMPT_RT* ]] || late=late_p50_us

# pacers NAME COUNT MOST_US: senders whose packets have the same times, ten queued at once, beside
# eight bulk senders in their queue and in three more, of the same classes if there are any
pacers()
{
	local i

	for i in 0 1 2 3; do
		load $i 1.9 --udp 8 --class-first 16 --classes 4
	done
	sleep 0.5
	for ((i = 0; i < $2; i++)); do
		"$bppace" "$tx" "$rx" 10.99.0.2 4000 2030 500 monotonic 10 \
			$(($(queue_port 0) + 200 + i)) $((0x10010 + i)) >/tmp/paced.$i &
	done
	wait
	for ((i = 0; i < $2; i++)); do
		echo "# $1, sender $i: $(cat /tmp/paced.$i)"
		check_num "$1: all packets of sender $i arrive" \
			"$(json_get arrived </tmp/paced.$i)" == 500
		check_num "$1: they do not wait for bulk ($late)" \
			"$(json_get $late </tmp/paced.$i)" '<=' "$3" us
	done
}

shape handle 1: bpshaper rate 200mbit
pacers "paced beside bulk" 1 200
for i in 0 1 2 3; do
	must on_tx tc class add dev txdev parent 1: classid 1:1$i bpshaper
done
# In a class that bulk fills: two turns of the class. Its 1514 bytes take 0.24 ms.
pacers "paced beside bulk, in four classes" 4 600

paced 100000000 1200000
paced 200000000 3000000
finish
