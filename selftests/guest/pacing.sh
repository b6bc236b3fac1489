#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Packets leave no earlier than they say and their sockets allow, late by no more than the
# timer is, and nobody waits for them: SO_TXTIME, SO_MAX_PACING_RATE of UDP and TCP, BBR,
# maxrate, horizon, ce_threshold. What waits does not keep its socket when the queue ends.
#
# In real time (several CPUs) what a busy machine can make late or slow is only printed.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/departures.sh
. "$(dirname "$0")/lib/departures.sh"
# shellcheck source=lib/pktgen.sh
. "$(dirname "$0")/lib/pktgen.sh"
params="rate 200mbit burst 20kb limit 200k"

# pace OFFSET_US GAP_US COUNT [CLOCK]: datagrams of one socket; `paced KEY` has the result
pace() { "$bppace" "$tx" "$rx" 10.99.0.2 "$@" >/tmp/paced; }
paced() { json_get "$1" </tmp/paced; }

# check_time ARGUMENTS OF check_num: in virtual time
untimed=0
check_time()
{
	if [ "$(nproc)" = 1 ]; then
		check_num "$@"
	else
		untimed=$((untimed + 1))
		echo "# $1: ${2:-nothing} ${5:-}, in virtual time $3 $4"
	fi
}

# in_time NAME COUNT
in_time()
{
	check_num "$1: all arrive" "$(paced arrived)" == "$2"
	check_num "$1: none before its time" "$(paced early)" == 0
	check_time "$1: none overtakes" "$(paced overtook)" == 0
}

# near NAME MEASURED EXPECTED PERCENT UNIT
near()
{
	check_time "$1: at most $3 + $4 %" "$2" '<=' "$(awk "BEGIN { print $3 * (1 + $4 / 100) }")" "$5"
	check_time "$1: at least $3 - $4 %" "$2" '>=' "$(awk "BEGIN { print $3 * (1 - $4 / 100) }")" "$5"
}

# By the socket of bppace, if it is still there.
nothing_is_charged()
{
	! on_tx ss -uamnH 'dport = :5700' | grep -q ',t[1-9][0-9]*,'
}

one_waits() { [ "$(stat paced_flows)" = 1 ]; }

queue_is_empty() { [ "$(stat qlen)" = 0 ]; }

topology_make

# Times in the packets
# shellcheck disable=SC2086 # words
for options in "$params" "" "$params backpressure off"; do
	shape bpshaper $options
	pace 20000 500 100
	in_time "SO_TXTIME, '$options'" 100
	check_time "SO_TXTIME, '$options': late by no more than slack and a timer" \
		"$(paced late_p99_us)" '<=' 100 us
	check_time "SO_TXTIME, '$options': they waited, each" "$(stat paced_waits)" '>=' 100
	check_num "SO_TXTIME, '$options': they waited" "$(stat paced_waits)" '>' 0
	check_num "SO_TXTIME, '$options': nothing is dropped" "$(stat drops)" == 0
done

shape bpshaper $params
pace 3000000 0 1 &
check "a flow waits for its time" wait_until 2 one_waits
send --probe --seconds 0.2 --warmup-ms 0
check_time "nobody else does" "$(result probe_delay_p99_ms)" '<=' 0.2 ms
check_num "nobody else is lost" "$(result probe_lost_packets)" == 0
wait
in_time "the one" 1

# While a sender waits for a batch's tokens, which takes 1 ms, each packet comes 0.3 ms before its
# time. The offset is that of a clock read when it was sent: half of 0.3 ms, and of what it is late.
shape bpshaper rate 50mbit burst 50kb limit 200k
send --udp 1 --seconds 1.5 &
sleep 0.3
"$bptime" "$tx" "$rx" 10.99.0.2 200 5 300 >/tmp/paced
wait
check_num "beside load: all are answered" "$(paced answered)" == 200
check_time "beside load: late by no more than a timer" "$(paced read_offset_p50_us)" '<=' 160 us

# Nor do they wait for bulk when more than a quantum is queued for later.
shape bpshaper $params
send --udp 4 --seconds 1.5 &
sleep 0.3
pace 4000 2030 500 monotonic 10 5700 0
wait
in_time "ten at once beside load" 500
check_time "ten at once beside load: late by no more than a timer" "$(paced late_p99_us)" '<=' 200 us

# What times cannot be
shape bpshaper $params
pace 3600000000 0 10
check_num "beyond the horizon: all arrive" "$(paced arrived)" == 10
near "beyond the horizon: then" "$(paced last_ms)" 10000 1 ms
check_num "beyond the horizon: counted" "$(stat horizon_caps)" == 10
# As fq of 7.2. Before 6.11 a packet does not say that its time is one of TAI.
kernel_has_type() { printf '6.11\n%s\n' "$(uname -r)" | sort -V -C; }
for clock in realtime tai; do
	shape bpshaper $params
	pace 20000 500 20 $clock
	if [ "$clock" = tai ] && ! kernel_has_type; then
		skip "times of $clock: the kernel knows them" "before 6.11"
		continue
	fi
	in_time "times of $clock" 20
	check_time "times of $clock: late by no more than slack and a timer" \
		"$(paced late_p99_us)" '<=' 100 us
	check_num "times of $clock: nothing is capped" "$(stat horizon_caps)" == 0
done
shape bpshaper $params
pace 1000 0 10 received
check_num "a time of receipt: all arrive" "$(paced arrived)" == 10
check_time "a time of receipt: at once" "$(paced last_ms)" '<=' 20 ms
check_num "a time of receipt: nothing is capped" "$(stat horizon_caps)" == 0
shape bpshaper $params pacing off
pace 500000 0 10
check_time "pacing off: at once" "$(paced last_ms)" '<=' 20 ms
check_num "pacing off: nobody waits" "$(stat paced_waits)" == 0

# A flow that has to make room for another one's packet waits for the time of its next one.
shape bpshaper rate 200mbit limit 3k backpressure off
pace 5000000 -150000 11 &
all_are_held() { [ "$(stat qlen)" = 11 ]; }
check "no room: eleven packets are held" wait_until 3 all_are_held
on_tx bash -c "head -c 1400 /dev/zero >/dev/udp/$nobody/9"
wait
check_num "no room: packets are dropped" "$(stat drops)" '>=' 5
check_num "no room: those that are first are dropped" "$(paced last_ms)" '>=' 5000 ms
check_time "no room: the others wait for their own times" "$(paced late_max_us)" '<=' 200 us

# Rates of sockets
for options in "" "pacing off"; do
	# shellcheck disable=SC2086 # words
	shape bpshaper $params $options
	send --udp 4 --pacing-rate 10000000 --seconds 2
	case $options in
	"")
		near "SO_MAX_PACING_RATE, UDP" \
			"$(result udp_wire_goodput_mbit_per_s)" 40 1 Mbit/s
		check_time "SO_MAX_PACING_RATE, UDP: equal bytes" \
			"$(result udp_jain_index)" '>=' 0.999
		check_num "SO_MAX_PACING_RATE, UDP: sockets wait" "$(stat throttles)" '>' 0
		;;
	*)
		near "SO_MAX_PACING_RATE, UDP, pacing off" \
			"$(result udp_wire_goodput_mbit_per_s)" 200 1 Mbit/s
		;;
	esac
	check_num "SO_MAX_PACING_RATE, UDP $options: nothing is lost" \
		"$(result udp_lost_packets)" == 0
	check "SO_MAX_PACING_RATE, UDP $options: no socket is held afterwards" \
		wait_until 5 no_socket_is_held
done

shape bpshaper $params
send --tcp 4 --pacing-rate 10000000 --seconds 3
# A GSO packet of 64 kB of each stream, more or less
near "SO_MAX_PACING_RATE, TCP" "$(result tcp_goodput_mbit_per_s)" 40 2 Mbit/s
check_time "SO_MAX_PACING_RATE, TCP: not sent again" "$(result tcp_retransmitted_segments)" == 0

# A socket is not throttled for packets that it has given a time of their own and that are not due.
shape bpshaper $params
pace 3000000 0 20 &
check "waiting with less than the share: a flow waits" wait_until 2 one_waits
check_num "waiting with less than the share: none is overlimit" \
	"$(stat overlimit_sockets)" == 0
wait
in_time "waiting with less than the share" 20
check_num "waiting with less than the share: none was throttled" "$(stat throttles)" == 0
for options in "$params" "rate 200mbit burst 20kb limit 3k" "limit 50k" ""; do
	# shellcheck disable=SC2086 # words
	shape bpshaper $options
	pace 50000 2000 600
	in_time "waiting with more than the share, '$options'" 600
	check_num "waiting with more than the share, '$options': not throttled" \
		"$(stat throttles)" == 0
	check_time "waiting with more than the share, '$options': awake in time" \
		"$(paced late_max_us)" '<=' 200 us
	# shellcheck disable=SC2086 # words
	for mbit in 1 20 100 190; do
		shape bpshaper $options
		send --udp 1 --pacing-rate ${mbit}000000 --seconds 2
		# Where three packets are the share, the queue is empty when it is released.
		percent=1
		[ "$mbit ${options##* }" != "190 3k" ] || percent=3
		near "one sender of $mbit Mbit/s, '$options'" \
			"$(result udp_wire_goodput_mbit_per_s)" $mbit $percent Mbit/s
		if [ "$options" ]; then
			check_num "one sender of $mbit Mbit/s, '$options': throttled" \
				"$(stat throttles)" '>' 0
		else # Its share may be the limit, which is more than its send buffer.
			check_num "one sender of $mbit Mbit/s, '': not throttled" \
				"$(stat throttles)" == 0
		fi
		check_num "one sender of $mbit Mbit/s, '$options': nothing is lost" \
			"$(result udp_lost_packets)" == 0
	done
done

# together NAME KEY PACED_MBIT REST_MBIT PERCENT OPTIONS OF THE PACED...: beside eight unlimited
# senders, which get the rest; both PERCENT more or less. The law of the rate holds for both
# together; 20 us at the rate are allowed for the time from the decision to the device.
together()
{
	local name=$1 key=$2 mbit=$3 rest=$4 percent=$5

	shift 5
	# shellcheck disable=SC2086 # words
	shape bpshaper $params
	departures_start
	"$traffic" --tx-netns "$tx" --rx-netns "$rx" --dst 10.99.0.2 --port 6600 \
		--json /tmp/unpaced --udp 8 --seconds 1 --warmup-ms 200 &
	send "$@" --seconds 1 --warmup-ms 200
	wait
	check_time "$name: no window exceeds burst + rate * T" \
		"$(departures_level 25000000)" '<=' 20980 bytes
	near "$name: those with a rate" "$(result "$key")" "$mbit" "$percent" Mbit/s
	near "$name: the others get the rest" \
		"$(json_get udp_wire_goodput_mbit_per_s </tmp/unpaced)" "$rest" "$percent" Mbit/s
	check_time "$name: the others get equal bytes" \
		"$(json_get udp_jain_index </tmp/unpaced)" '>=' 0.999
	check_num "$name: nothing is lost" "$(result udp_lost_packets)" == 0
	check_num "$name: nothing of the others is lost" \
		"$(json_get udp_lost_packets </tmp/unpaced)" == 0
	check_num "$name: nothing is dropped" "$(stat drops)" == 0
	check "$name: no socket is held afterwards" wait_until 5 no_socket_is_held
}
together "with and without a rate" udp_wire_goodput_mbit_per_s 40 160 1 --udp 4 --pacing-rate 10000000
check_time "with and without a rate: those with one get equal bytes" \
	"$(result udp_jain_index)" '>=' 0.999
# Headers are not paced. A second has a GSO packet of 64 kB of each stream, more or less.
together "with and without a rate, TCP" tcp_goodput_mbit_per_s 40 158.2 5 --tcp 4 --pacing-rate 10000000
check_time "with and without a rate, TCP: not sent again" \
	"$(result tcp_retransmitted_segments)" == 0
# Four of twelve.
together "a rate above the fair share" udp_wire_goodput_mbit_per_s 66.7 133.3 1 --udp 4 --pacing-rate 40000000

# One flow's rate
shape bpshaper $params maxrate 5mbit
send --udp 8 --seconds 2
near "maxrate" "$(result udp_wire_goodput_mbit_per_s)" 40 1 Mbit/s
check_num "maxrate: nothing is lost" "$(result udp_lost_packets)" == 0
pktgen_setup "count 4000" "pkt_size 1000" "delay 0"
shape bpshaper rate 200mbit limit 10mb maxrate 5mbit
pktgen pgctrl start &
sleep 0.2	# until it sends
start=$(date +%s%N)
bytes=$(stat bytes)
sleep 0.5
took=$(($(date +%s%N) - start))
bytes=$(($(stat bytes) - bytes))
near "maxrate: of packets without a socket, bytes in a second" \
	$((bytes * 1000000 / (took / 1000))) 625000 3 bytes
must on_tx tc qdisc change dev txdev root bpshaper maxrate unlimited
wait
check "maxrate: and all of them, once it is gone" wait_until 5 queue_is_empty
# More flows than are kept when they are idle, and each is empty when its next packet comes,
# long before its rate lets it. A flow that was forgotten would send at once. One packet at
# a time, and three: two of the MTU. No window of a flow has more than a half more than that
# beyond its rate: a gap makes up for half of itself. pktgen ends when its last packet has
# left.
for line in "count 36000" "udp_src_min 1000" "udp_src_max 4000"; do
	pktgen txdev "$line"
done
for row in "100 1000" "600 3000"; do
	read -r kbit at_a_time <<<"$row"
	shape bpshaper maxrate "${kbit}kbit" limit 200mb memory_limit 500mb
	start=$(date +%s%N)
	pktgen pgctrl start
	bytes=$(stat bytes)
	took=$((($(date +%s%N) - start) / 1000))
	echo "# maxrate of 3000 flows: $bytes of 36000000 bytes in $took us"
	check_num "maxrate of 3000 flows that take turns, $at_a_time bytes at a time" "$bytes" '<=' \
		$((3000 * (125 * kbit * took / 1000000 + at_a_time * 3 / 2))) bytes
done
pktgen kpktgend_0 "rem_device_all"

# TCP leaves its timers to the qdisc.
must modprobe tcp_bbr
# shellcheck disable=SC2086 # words
for options in "pacing off" ""; do
	shape bpshaper $params $options
	send --tcp 8 --cc bbr --seconds 3
	echo "# BBR, $options: $(result tcp_goodput_mbit_per_s) Mbit/s, srtt $(result tcp_srtt_mean_ms) ms," \
		"$(result system_timer_interrupts) timers, CPU $(result tcp_sender_cpu_ms) ms"
	check_time "BBR $options: goodput" "$(result tcp_goodput_mbit_per_s)" '>=' 185 Mbit/s
	check "BBR $options: no socket is held afterwards" wait_until 5 no_socket_is_held
done
# Flows that share the rate seldom wait for their own, those below it do.
send --tcp 4 --cc bbr --pacing-rate 10000000 --seconds 2
near "BBR, slower than its share" "$(result tcp_goodput_mbit_per_s)" 40 2 Mbit/s
check_num "BBR: the qdisc paces" "$(stat paced_waits)" '>' 100

# Marks instead of waiting
shape bpshaper $params ce_threshold 1ms
on_tx sysctl -qw net.ipv4.tcp_ecn=1
on_rx sysctl -qw net.ipv4.tcp_ecn=1
send --tcp 8 --seconds 2
check_num "ce_threshold marks" "$(stat ce_marks)" '>' 0
check_num "ce_threshold drops nothing" "$(stat drops)" == 0
on_tx sysctl -qw net.ipv4.tcp_ecn=2

# A socket gets the memory of one that was closed, and not its rate: each sends one packet.
shape bpshaper $params maxrate 800bit
on_tx bash -c 'for i in {1..300}; do echo >/dev/udp/10.99.0.9/9; done'
check_num "a new socket does not wait for a closed one" "$(stat paced_waits)" == 0

# Ends while flows wait
for end in "qdisc change dev txdev root bpshaper pacing off" \
	   "qdisc replace dev txdev root pfifo" "qdisc del dev txdev root"; do
	shape bpshaper $params
	"$bppace" "$tx" "$rx" 10.99.0.2 5000000 0 20 >/dev/null &
	check "$end: a flow waited" wait_until 4 one_waits
	# shellcheck disable=SC2086 # words
	must on_tx tc $end
	check "$end: nothing is charged to its socket" wait_until 10 nothing_is_charged
	# Their delay is not beyond time.
	[[ $end != *"pacing off" ]] ||
		check_num "$end: as late as they are" "$(on_tx tc -s -j qdisc show dev txdev |
			sed 's/.*"delay_hist": *\[\([^]]*\)\].*/\1/' | tr -d ' ' | cut -d, -f 24)" == 0
	kill $! 2>/dev/null
	wait $! 2>/dev/null
done
root_remove
[ $untimed = 0 ] || skip "$untimed checks of time" "several CPUs, in real time"
check "the module unloads" wait_until 10 rmmod sch_bpshaper
finish
