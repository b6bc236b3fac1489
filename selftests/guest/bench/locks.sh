# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # what bench.sh and common.sh have set
#
# Of part `queues`: pktgen on 1, 2, 4 and 8 CPUs sends through one root lock, or through one for
# each CPU and its queue, to a device that takes no time, at a rate that holds nobody back.
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

# contended NAME: install that shaper on the dummy; false if this kernel has none
contended()
{
	local fast="rate 40gbit burst 1mb" many=$((2 * packets)) only=''

	# All packets fit: who serves the queue may lose its core at any time.
	on_tx tc qdisc del dev dummy0 root 2>/dev/null
	on_tx tc qdisc del dev dummy0 clsact 2>/dev/null
	# shellcheck disable=SC2086 # words
	case $1 in
	bpshaper*)
		[ "$1" = bpshaper ] || only="queues 1"
		on_tx tc qdisc add dev dummy0 root bpshaper $fast $only \
			limit $((many * 200)) memory_limit 1gb
		;;
	htb)
		on_tx tc qdisc add dev dummy0 root handle 1: htb default 1
		on_tx tc class add dev dummy0 parent 1: classid 1:1 htb $fast \
			cburst 1mb quantum 1514
		on_tx tc qdisc add dev dummy0 parent 1:1 pfifo limit $many
		;;
	mq+htb) each_htb dummy0 40gbit 1mb pfifo limit $many ;;
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

# queues_pin: a queue for each CPU, and it leaves by no other
queues_pin()
{
	local cpu

	for ((cpu = 0; cpu < $(nproc) && cpu < 8; cpu++)); do
		printf '%x' $((1 << cpu)) |
			on_tx tee "/sys/class/net/dummy0/queues/tx-$cpu/xps_cpus" >/dev/null
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

# locks_cell SHAPER CPUS TURN
locks_cell()
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
	save queues "$1" case unshaped cpus "$2" turn "$3" \
		drops "$(on_tx tc -s -j qdisc show dev dummy0 root |
			json_get drops)"
}

queues_locks()
{
	local packets cpus turn shaper

	modprobe pktgen
	ip -n "$tx" link add dummy0 numtxqueues 8 type dummy
	ip -n "$tx" addr add 10.98.0.1/24 dev dummy0
	ip -n "$tx" link set dummy0 up
	queues_pin
	echo "# $(nproc) CPUs, of a machine that has fewer: ratios, not speeds"
	for cpus in ${CPUS_LIST:-1 2 4 8}; do
		[ "$cpus" -le "$(nproc)" ] || continue
		for turn in 1 2 3 4 5 6 7 8 9 locks; do
			packets=50000
			# for some hundred samples at least
			[ $turn != locks ] || packets=$((packets * 4))
			threads "$cpus"
			for shaper in ${CONTENDERS:-$contenders}; do
				locks_cell "$shaper" "$cpus" "$turn"
			done
		done
	done
	ip -n "$tx" link del dummy0
}
