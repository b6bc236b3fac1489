# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # what bench.sh and common.sh have set
#
# Part `contention` of bench.sh, which sources it: pktgen on 1, 2, 4 and 8 CPUs sends
# through one root lock, or through mq with a queue for each CPU, to a device that takes no
# time, at a rate that holds nobody back; then senders with sockets overload 20 Mbit/s, of one
# queue, and of eight with a sender each.
#
# A virtual machine has more CPUs than the host has cores, and whoever holds the lock
# may lose its core: so this shows how shapers differ where CPUs meet, not how fast
# they are. Shapers take turns, and only ratios within a turn count.

# sampled COMMAND...: with a look at what the CPUs are doing, 500 times a second; `locks`
# then prints fields of JSON. Not while throughput is measured: it costs. (The
# kernel's lock:contention tracepoints see a spinlock's queue only, and not the first
# that waits, which is all there is where two CPUs at a time run.)
sampled()
{
	perf record -q -a -e cpu-clock -F 500 -o /tmp/perf.data -- "$@" \
		>/dev/null 2>/tmp/perf.log || sed 's/^/# /' /tmp/perf.log
}

locks()
{
	perf script -i /tmp/perf.data -F ip,sym 2>/dev/null | awk '
		NF < 2 || /idle|halt|hlt/ { next }
		/queued_spin_lock_slowpath/ { spinning++ }
		{ busy++ }
		END { printf "\"samples_busy\": %d, \"samples_spinning\": %d",
			busy, spinning }'
}

# each_queue DEVICE OPTIONS...: mq, and that in each queue
each_queue()
{
	local queue

	on_tx tc qdisc add dev "$1" root handle 8001: mq
	for ((queue = 1; queue <= 8; queue++)); do
		on_tx tc qdisc add dev "$1" parent "8001:$queue" "${@:2}" || return
	done
}

# contended NAME: install that shaper on the dummy; false if this kernel has none
contended()
{
	local fast="rate 40gbit burst 1mb" many=$((2 * packets))

	# All packets fit: who serves the queue may lose its core at any time.
	on_tx tc qdisc del dev dummy0 root 2>/dev/null
	on_tx tc qdisc del dev dummy0 clsact 2>/dev/null
	# shellcheck disable=SC2086 # words
	case $1 in
	bpshaper) on_tx tc qdisc add dev dummy0 root bpshaper $fast \
		limit $((many * 200)) memory_limit 1gb ;;
	tbf) on_tx tc qdisc add dev dummy0 root tbf $fast limit $((many * 200)) ;;
	htb)
		on_tx tc qdisc add dev dummy0 root handle 1: htb default 1
		on_tx tc class add dev dummy0 parent 1: classid 1:1 htb $fast \
			cburst 1mb quantum 1514
		on_tx tc qdisc add dev dummy0 parent 1:1 pfifo limit $many
		;;
	fq) on_tx tc qdisc add dev dummy0 root fq limit $many flow_limit $many ;;
	group) each_queue dummy0 bpshaper $fast group 1 limit $((many * 200)) memory_limit 1gb ;;
	mq+fq) each_queue dummy0 fq limit $many flow_limit $many ;;
	mq+edt)
		each_queue dummy0 fq limit $many flow_limit $many
		edt_attach dummy0 40gbit
		;;
	cake_mq) on_tx tc qdisc add dev dummy0 root cake_mq bandwidth 40gbit besteffort ;;
	esac 2>/tmp/contended || {
		sed "s/^/# $1: /" /tmp/contended
		return 1
	}
}

# queues_pin DEVICE: a queue for each CPU, and it leaves by no other
queues_pin()
{
	local cpu

	for ((cpu = 0; cpu < $(nproc) && cpu < 8; cpu++)); do
		printf '%x' $((1 << cpu)) |
			on_tx tee "/sys/class/net/$1/queues/tx-$cpu/xps_cpus" >/dev/null
	done
}

# threads CPUS: a thread of pktgen on each, with a flow of its own
threads()
{
	local cpu line

	for ((cpu = 0; cpu < $(nproc); cpu++)); do
		pktgen "kpktgend_$cpu" "rem_device_all"
		[ "$cpu" -lt "$1" ] || continue
		pktgen "kpktgend_$cpu" "add_device dummy0@$cpu"
		for line in "xmit_mode queue_xmit" "pkt_size 200" "delay 0" \
			    "count $((packets / $1))" "dst 10.98.0.2" \
			    "udp_src_min $((1000 + cpu))" \
			    "udp_src_max $((1000 + cpu))" \
			    "dst_mac 02:00:00:00:00:02"; do
			pktgen "dummy0@$cpu" "$line"
		done
	done
}

# threads_result CPUS: the time of the slowest, and all packets
threads_result()
{
	local cpu

	for ((cpu = 0; cpu < $1; cpu++)); do
		on_tx sed -nE 's/^Result: OK: ([0-9]+)\(.*usec, ([0-9]+) .*/\1 \2/p' \
			"/proc/net/pktgen/dummy0@$cpu"
	done | awk '$1 > us { us = $1 } { n += $2 }
		END { printf "\"elapsed_us\": %d, \"packets\": %d", us, n }'
}

# contention_cell SHAPER CPUS TURN [CASE]
contention_cell()
{
	local seen='' result='' try

	contended "$1" || return
	# One of 600 has no result.
	for try in 1 2 3; do
		if [ "$3" = locks ]; then
			sampled ip netns exec "$tx" \
				bash -c "echo start >/proc/net/pktgen/pgctrl"
			seen=", $(locks)"
		else
			pktgen pgctrl start
		fi
		result=$(threads_result "$2")
		[[ $result == *'"packets": 0' ]] || break
		echo "# try $try: $(on_tx grep -h Result "/proc/net/pktgen/dummy0@0")"
	done
	echo "{ $result$seen }" >"$report"
	echo "# $(<"$report")"
	save contention "$1" case "${4:-unshaped}" cpus "$2" turn "$3" \
		drops "$(on_tx tc -s -j qdisc show dev dummy0 root |
			json_get drops)"
}

# What a group costs beside queues that share nothing: many turns of these two only.
contention_pairs()
{
	local packets=100000 cpus turn shaper

	for cpus in 1 2 4 8; do
		[ "$cpus" -le "$(nproc)" ] || continue
		threads "$cpus"
		for ((turn = 1; turn <= 25; turn++)); do
			for shaper in mq+fq group; do
				contention_cell $shaper "$cpus" $turn pairs
			done
		done
	done
}

contention_overload()
{
	local shaper

	# The kernel patches what it does only once out of the path of UDP, and QEMU does
	# not like that on several CPUs at once: 7.2 died of an int3 in udp_ehashfn().
	traffic_try --udp 1 --seconds 0.2 --warmup-ms 0
	sleep 1
	for shaper in ${RIVALS:-bpshaper tbf htb tbf+fq}; do
		rival "$shaper" 20mbit
		sampled "$traffic" --tx-netns "$tx" --rx-netns "$rx" \
			--dst 10.99.0.2 --json "$report" \
			--udp 8 --seconds 2
		sed -i "0,/{/s//{ $(locks),/" "$report"
		save contention "$shaper" case overload cpus "$(nproc)" turn locks
	done
}

# rival_queues NAME: 20 Mbit/s for all queues of txdev together, or at the root
rival_queues()
{
	local params="rate 20mbit burst 20kb"

	on_tx tc qdisc del dev txdev root 2>/dev/null
	on_tx tc qdisc del dev txdev clsact 2>/dev/null
	# shellcheck disable=SC2086 # words
	case $1 in
	bpshaper) shape bpshaper $params limit 50kb ;;
	tbf) shape tbf $params limit 50kb ;;
	group) each_queue txdev bpshaper $params limit 50kb group 1 ;;
	mq+edt)
		each_queue txdev fq
		edt_attach txdev 20mbit
		;;
	esac
}

# A sender without a limit on each CPU.
eight_senders()
{
	local cpu pids=()

	for ((cpu = 0; cpu < 8; cpu++)); do
		taskset -c $cpu "$traffic" --tx-netns "$tx" --rx-netns "$rx" \
			--dst 10.99.0.2 --json "/tmp/queue.$cpu" \
			--port $((6000 + 10 * cpu)) --udp 1 --seconds 3 &
		pids+=($!)
	done
	wait "${pids[@]}"
}
export -f eight_senders

# of all senders, and what the least and the most of them got
eight_results()
{
	local cpu

	for ((cpu = 0; cpu < 8; cpu++)); do
		for key in udp_sent_packets udp_lost_packets udp_payload_goodput_mbit_per_s \
			   udp_age_p99_ms; do
			json_get $key </tmp/queue.$cpu
		done | xargs
	done | awk '
		{ sent += $1; lost += $2; goodput += $3 }
		NR == 1 || $3 < least { least = $3 }
		$3 > most { most = $3 }
		$4 > age { age = $4 }
		END {
			printf "\"udp_loss_percent\": %.3f, ", 100 * lost / sent
			printf "\"udp_payload_goodput_mbit_per_s\": %.3f, ", goodput
			printf "\"least_mbit_per_s\": %.3f, \"most_mbit_per_s\": %.3f, ", least, most
			printf "\"udp_age_p99_ms\": %.3f", age
		}'
}

contention_queues()
{
	local shaper turn

	topology_remove
	topology_make numtxqueues 8 numrxqueues 8
	queues_pin txdev
	export traffic tx rx
	for turn in 1 2 3; do
		for shaper in tbf bpshaper mq+edt group; do
			rival_queues $shaper
			sampled bash -c eight_senders
			echo "{ $(locks), $(eight_results) }" >"$report"
			save contention "$shaper" case queues cpus "$(nproc)" turn $turn
		done
	done
}

part_contention()
{
	local packets cpus turn shaper

	modprobe pktgen
	ip -n "$tx" link add dummy0 numtxqueues 8 type dummy
	ip -n "$tx" addr add 10.98.0.1/24 dev dummy0
	ip -n "$tx" link set dummy0 up
	queues_pin dummy0
	echo "# $(nproc) CPUs, of a machine that has fewer: ratios, not speeds"
	for cpus in ${CONTENTION_CPUS:-1 2 4 8}; do
		[[ $cpus -gt 0 && $cpus -le $(nproc) ]] || continue
		for turn in 1 2 3 4 5 6 7 8 9 locks; do
			packets=${CONTENTION_PACKETS:-50000}
			# for some hundred samples at least
			[ $turn != locks ] || packets=$((packets * 4))
			threads "$cpus"
			for shaper in ${CONTENDERS:-tbf bpshaper htb fq mq+fq mq+edt group \
					cake_mq}; do
				contention_cell $shaper "$cpus" "$turn"
			done
		done
	done
	[ "${CONTENTION_CPUS-1}" = 0 ] || contention_pairs
	contention_overload
	ip -n "$tx" link del dummy0
	contention_queues
}
