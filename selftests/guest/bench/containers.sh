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

part_containers()
{
	local case

	# Ends the test where there are no plugins.
	# shellcheck source-path=SCRIPTDIR/.. source=lib/cni.sh
	. "$here/lib/cni.sh"
	for case in ${CASES:-limits pods add}; do
		case $case in
		limits) containers_limits ;;
		pods) containers_pods ;;
		add) containers_adds ;;
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
