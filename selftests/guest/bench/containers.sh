# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # what bench.sh and common.sh have set
#
# Part `containers`: a pod of 100 Mbit/s on a bridge, whose limit the CNI plugin bandwidth sets,
# or bpshaper in each way to attach it. It sends to the host. Cases:
#
#	udp	greedy UDP senders, beside the sparse one
#	tcp	four TCP streams, beside the sparse one
#	burst	the first second of 10 Mbit/s with a burst of 2^32-1, as runtimes pass it
#	pods	a greedy UDP sender with a send buffer of 16 MB, to another pod (cilium, issue 29083);
#		with edt as a rival, as Cilium has it: what would wait for 2 s or more is dropped, and
#		fq below takes 100 packets of a flow
#	add	how long ADD takes: that of the plugin alone, and that of the whole chain
#	nodes	16 and 100 pods with two greedy UDP senders each, and a sparse one in the first, that
#		share a rate; node-N has an ifb with N queues

containers_rivals="none bandwidth bpshaper-pod bpshaper-host bpshaper-node"

# containers_pod RIVAL MBIT BURST
containers_pod()
{
	local keys="\"egressRate\": $(($2 * 1000000)), \"egressBurst\": $3"

	case $1 in
	none | edt) net shaped bridge bandwidth ;;
	bandwidth) net shaped bridge bandwidth "$keys" ;;
	*-node) net shaped bridge bpshaper "$keys, \"node\": {\"rate\": \"10gbit\"}" ;;
	*) net shaped bridge bpshaper "$keys, \"attach\": \"${1#*-}\"" ;;
	esac
	must pod_add a shaped
	[ "$1" = edt ] || return
	on_a tc qdisc add dev eth0 root fq
	on_a tc qdisc add dev eth0 clsact
	on_a tc filter add dev eth0 egress bpf da obj "$here/edt-$2mbit.o" sec tc
}

on_a() { must ip netns exec a "$@"; }

# containers_cell CASE SENDERS SNDBUF MBIT BURST OPTIONS...
containers_cell()
{
	local rival options=()

	[ "$3" = default ] || options=(--sndbuf "$3")
	for rival in ${RIVALS:-$containers_rivals}; do
		[ "$rival-$1" != none-burst ] || continue
		containers_pod "$rival" "$4" "$5"
		traffic a "" 10.88.0.1 "${@:6}" "${options[@]}" 2>/tmp/invalid ||
			sed 's/^/# /' /tmp/invalid
		save containers "$rival" case "$1" senders "$2" sndbuf "$3"
		must pod_del a shaped
	done
}

containers_pods()
{
	local rival

	for rival in ${RIVALS:-none bandwidth edt ${containers_rivals#* bandwidth }}; do
		containers_pod "$rival" 100 800000
		must pod_add b shaped
		traffic a b "$(address b)" --udp 1 --sndbuf 16777216 --seconds 4 --warmup-ms 1000 \
			2>/tmp/invalid || sed 's/^/# /' /tmp/invalid
		save containers "$rival" case pods senders 1 sndbuf 16777216
		must pod_del b shaped
		must pod_del a shaped
	done
}

# limiter_keys RIVAL: the limiter and its keys, for a pod of 100 Mbit/s both ways
limiter_keys()
{
	limiter=bpshaper
	keys='"ingressRate": 100000000, "ingressBurst": 800000, "egressRate": 100000000,
		"egressBurst": 800000'
	case $1 in
	bandwidth) limiter=bandwidth ;;
	*-node) keys+=', "node": {"rate": "10gbit"}' ;;
	*) keys+=", \"attach\": \"${1#*-}\"" ;;
	esac
}

# timed FILE COMMAND...: appends how many microseconds it took
timed()
{
	local start=${EPOCHREALTIME/./}

	must "${@:2}"
	echo $((${EPOCHREALTIME/./} - start)) >>"$1"
}

# The end of a device and of a namespace goes on after the command. It is not what is measured.
devices_end() { sleep 0.5; }

# add_once RIVAL: the plugin alone, and in a chain
add_once()
{
	local limiter keys

	limiter_keys "$1"
	veth v
	devices_end
	timed "/tmp/add.$1" plugin ADD v "$keys"
	must plugin DEL v "$keys"
	veth_del v
	net "timed-$1" bridge "$limiter" "$keys"
	ip netns add p && pods+=(p)
	devices_end
	timed "/tmp/chain.$1" cnitool add "timed-$1" /run/netns/p >/tmp/answer
	must pod_del p "timed-$1"
}

# percentile FILE PERCENT: in ms
percentile()
{
	sort -n "$1" | awk -v percent="$2" '{ all[NR] = $1 }
		END { print all[int((NR * percent + 99) / 100)] / 1000 }'
}

# In turns, so that whatever else changes with time changes for all.
containers_adds()
{
	local turn rival what percent all=${containers_rivals#none }

	# bandwidth of Debian knows no 1.1.0.
	cni_bare=1.0.0
	for ((turn = 0; turn <= ${ADDS:-200}; turn++)); do
		# The first turn loads modules.
		[ $turn != 1 ] || rm /tmp/add.* /tmp/chain.*
		for rival in $all; do add_once "$rival"; done
	done
	for rival in $all; do
		for what in add chain; do
			for percent in 50 99; do
				echo "\"${what}_p${percent}_ms\": $(percentile "/tmp/$what.$rival" $percent)"
			done
		done | paste -sd , | sed 's/.*/{ & }/' >"$report"
		save containers "$rival" case add adds "${ADDS:-200}"
	done
}

# nodes_pods PODS: with a veth to the host each, which is 10.88.0.1
nodes_pods()
{
	local n

	sysctl -qw net.core.netdev_max_backlog=100000
	ip addr add 10.88.0.1/32 dev lo
	for ((n = 1; n <= $1; n++)); do
		veth "n$n"
		must ip -n "n$n" addr add "10.89.$((n / 250)).$((n % 250 + 1))/32" dev eth0
		must ip -n "n$n" route add 10.88.0.1 dev eth0
		must ip -n "n$n" neigh replace 10.88.0.1 dev eth0 nud permanent \
			lladdr "$(cat "/sys/class/net/h-n$n/address")"
	done
}

# nodes_each COMMAND RIVAL PODS
nodes_each()
{
	local n keys='"node": {"rate": "10gbit"}'

	[ "$2" != bpshaper-pod ] || keys='"egressRate": 10000000000, "egressBurst": 100000'
	[[ $1-$2 != ADD-*-node-[0-9]* ]] || ifb_make bps-node "${2##*-}"
	for ((n = 1; n <= $3; n++)); do must plugin "$1" "n$n" "$keys"; done
}

# nodes_rate RIVAL PODS RATE: of all pods together
nodes_rate()
{
	local n

	if [ "$1" != bpshaper-pod ]; then
		must tc qdisc change dev bps-node root bpshaper rate "$3"
		return
	fi
	for ((n = 1; n <= $2; n++)); do
		must tc -n "n$n" qdisc change dev eth0 root bpshaper \
			rate $(($(bits "$3") / $2)) burst 12500 latency 10ms
	done
}

# nodes_seen RIVAL: the time, how long CPUs were idle, and the bytes of each pod so far
nodes_seen()
{
	date +%s%N
	awk '/^cpu / { printf "%.0f\n", ($5 + $6) * 1e7 }' /proc/stat
	if [ "$1" = bpshaper-pod ]; then
		cat /sys/class/net/h-n*/statistics/rx_bytes
	else
		tc -s class show dev bps-node | awk '$1 == "Sent" { print $2 }'
	fi
}

# nodes_report RATE: of /tmp/before, /tmp/after and what pods say; packets are of 1512 bytes
nodes_report()
{
	local lost

	lost=$(sed -n 's/.*"udp_lost_packets": \([0-9]*\).*/\1/p' /tmp/pod.* |
		awk '{ sum += $1 } END { print sum + 0 }')
	paste /tmp/before /tmp/after | awk -v rate="$(bits "$1")" -v lost="$lost" \
		-v cpus="$(nproc)" -v probe_ms="$(json_get probe_delay_p99_ms </tmp/pod.1)" '
		{ d = $2 - $1 }
		NR == 1 { ns = d }
		NR == 2 { busy_ns = ns * cpus - d }
		NR > 2 { pods++; sum += d; squares += d * d }
		END { printf "{ \"busy_us_per_packet\": %.3f, \"sent_of_rate\": %.4f,"  \
			" \"sent_bytes\": %d, \"pods_jain\": %.5f, \"lost_packets\": %d," \
			" \"probe_delay_p99_ms\": %s }\n",
			busy_ns / 1e3 / (sum / 1512), sum * 8e9 / ns / rate, sum,
			sum * sum / pods / squares, lost, probe_ms }'
}

# nodes_cell RIVAL PODS RATE
nodes_cell()
{
	local pod probe=--probe

	nodes_rate "$1" "$2" "$3"
	rm -f /tmp/pod.*
	for ((pod = 1; pod <= $2; pod++)); do
		"$traffic" --tx-netns "n$pod" --dst 10.88.0.1 --udp 2 --port $((6000 + pod * 10)) \
			--seconds 9 --json "/tmp/pod.$pod" $probe 2>/dev/null &
		probe=
	done
	sleep 4
	nodes_seen "$1" >/tmp/before
	sleep 4
	nodes_seen "$1" >/tmp/after
	wait
	nodes_report "$3" >"$report"
	echo "# $(<"$report")"
	save containers "$1" case nodes pods "$2" rate "$3"
}

containers_nodes()
{
	local count rate rival

	for count in ${PODS:-16 100}; do
		nodes_pods "$count"
		for rival in ${RIVALS:-bpshaper-pod bpshaper-node-1 bpshaper-node-4}; do
			nodes_each ADD "$rival" "$count"
			for rate in ${RATES:-200mbit 10gbit}; do
				nodes_cell "$rival" "$count" "$rate"
			done
			nodes_each DEL "$rival" "$count"
		done
		pods_remove
		pods=()
		ip addr del 10.88.0.1/32 dev lo
		wait_until 20 no_device "h-n$count"
	done
}

part_containers()
{
	local case

	# Ends the test where there are no plugins.
	# shellcheck source-path=SCRIPTDIR/.. source=lib/cni.sh
	. "$here/lib/cni.sh"
	for case in ${CASES:-limits pods nodes add}; do
		case $case in
		limits) containers_limits ;;
		pods) containers_pods ;;
		add) containers_adds ;;
		nodes) containers_nodes ;;
		esac
	done
}

containers_limits()
{
	local senders

	for senders in 1 16; do
		containers_cell udp $senders default 100 800000 --udp $senders --probe
		containers_cell udp $senders 4194304 100 800000 --udp $senders --probe
	done
	containers_cell tcp 4 default 100 800000 --tcp 4 --probe
	containers_cell burst 4 default 10 4294967295 --udp 4 --seconds 1
}
