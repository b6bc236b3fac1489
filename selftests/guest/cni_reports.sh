#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What users have reported of limits for pods, with the plugin bandwidth beside bpshaper in
# the same chain. Both ways to attach it.
#
#  1. A UDP sender is told 300 Mbit/s where 100 arrive (containernetworking/plugins, issue 922):
#     senders send 100 Mbit/s and lose nothing. There are eight: the send buffer of one fits
#     into the queue of tbf here.
#  2. With a limit of 100 Mbit/s 2.66 Mbit/s of what a pod sends to another pod arrive (cilium, issue
#     29083; the benchmark has that shaper beside): 98 Mbit/s or more, and none is lost. Two pods of
#     one node are limited towards each other (cilium, issue 15824).
#  3. Latency under load is 10 ms (containernetworking/plugins, pull request 1025): 1 ms.
#  4. Runtimes pass a burst of 2^32-1, and the first second is without a limit (kubernetes,
#     issue 90838): 1.1 x rate.
#  5. An IFB is left behind (calico, issue 13986): see cni_ends. Those of pods that bandwidth has
#     added go with their DEL when the configuration names bpshaper, and not before.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/cni.sh
. "$(dirname "$0")/lib/cni.sh"

# limits MBIT BURST: of both directions
limits()
{
	echo "\"ingressRate\": $(($1 * 1000000)), \"ingressBurst\": $2," \
		"\"egressRate\": $(($1 * 1000000)), \"egressBurst\": $2"
}

# pair LIMITER MAIN KEYS: pods a and b
pair()
{
	net shaped "$2" "$1" "$3"
	must pod_add a shaped
	must pod_add b shaped
}

pair_remove()
{
	must pod_del a shaped
	must pod_del b shaped
	ip link del cni0 2>/dev/null
	nothing_is_left "$1"
}

# issue_922 NAME LIMITER KEYS
issue_922()
{
	pair "$2" bridge "$(limits 100 800000)${3-}"
	must traffic a "" 10.88.0.1 --udp 8 --probe
	lost=$(result udp_loss_percent) probe=$(result probe_delay_p99_ms)
	sent=$(awk "BEGIN { print $(result udp_sent_packets) * 1512 * 8 / 2e6 }")
	echo "# 922 and 1025, $1: sends $sent Mbit/s, loses $lost %, probe $probe ms (p99)"
}

reports_100mbit()
{
	local lost probe sent

	issue_922 bandwidth bandwidth
	check_num "922: bandwidth loses, so the test can" "$lost" '>' 20 %
	pair_remove "922, bandwidth"
	for where in pod host; do
		issue_922 "bpshaper, $where" bpshaper ", \"attach\": \"$where\""
		check_num "922, $where: nothing is lost" "$lost" == 0 %
		near "922, $where: what the senders send" "$sent" 100 2
		check_num "1025, $where: under load a probe takes 1 ms at most" \
			"$probe" '<=' 1 ms
		must traffic a "" 10.88.0.1 --tcp 2 --probe
		echo "# 1025, bpshaper, $where, TCP: probe $(result probe_delay_p99_ms) ms"
		check_num "1025, $where: beside TCP as well" \
			"$(result probe_delay_p99_ms)" '<=' 1 ms
		pair_remove "922, $where"
	done
}

# pod_to_pod MAIN WHERE MBIT
pod_to_pod()
{
	local name="15824, $1, $2" senders

	pair bpshaper "$1" "\"egressRate\": ${3}000000, \"egressBurst\": 100000, \"attach\": \"$2\""
	# One with the send buffer of 16 MB of the report, and several with the default.
	for senders in "1 --sndbuf 16777216" 8; do
		# shellcheck disable=SC2086 # words
		must traffic a b "$(address b)" --udp $senders
		near "29083, $1, $2, $senders" "$(result udp_wire_goodput_mbit_per_s)" "$3" 2
		check_num "29083, $1, $2, $senders: nothing is lost" "$(result udp_lost_packets)" == 0
	done
	must traffic a b "$(address b)" --tcp 4
	check_num "$name, TCP: at most $3 Mbit/s" "$(result tcp_goodput_mbit_per_s)" '<=' "$3"
	pair_remove "$name"
}

# first_second LIMITER BURST [KEYS]: $bytes that arrive in the first second at 10 Mbit/s
first_second()
{
	pair "$1" bridge "$(limits 10 "$2")${3-}"
	must traffic a "" 10.88.0.1 --udp 4 --seconds 1
	bytes=$(awk "BEGIN { print $(result udp_received_packets) * 1512 }")
	echo "# 90838, $1${3-}, burst $2: $bytes bytes in the first second of 10 Mbit/s"
	pair_remove "90838, $1, burst $2"
}

issue_90838()
{
	local bytes burst where

	first_second bandwidth 4294967295
	check_num "90838: bandwidth lets more out, so the test can" "$bytes" '>' 2500000
	while read -r where burst; do
		first_second bpshaper "$burst" ", \"attach\": \"$where\""
		check_num "90838, $where, burst $burst: 1.1 x rate" "$bytes" '<=' 1375000
		check_num "90838, $where, burst $burst: it sends" "$bytes" '>=' 1200000
	done <<<$'pod 4294967295\nhost 4294967295\npod 10000001'
	net shaped ptp bpshaper "$(limits 10 4294967295)"
	must pod_add a shaped
	is "90838: the log says so, for each direction" 2 "$(grep -c 'cut to' /tmp/said)"
	must pod_del a shaped
}

ifbs_of_bandwidth() { ip -o link show type ifb | grep -c ': bwp[0-9a-f]\{12\}:'; }

switched()
{
	pair bandwidth bridge "$(limits 10 100000)"
	must ip link add bwp0123456789ab type ifb
	net shaped bridge bpshaper "$(limits 10 100000)"
	is "bandwidth has two IFBs" 3 "$(ifbs_of_bandwidth)"
	check "13986: DEL of a pod that bandwidth had added" pod_del a shaped
	is "13986: its IFB is gone" 2 "$(ifbs_of_bandwidth)"
	must traffic b "" 10.88.0.1 --tcp 2
	near "13986: the other pod has its limit" "$(result tcp_goodput_mbit_per_s)" 10 10
	ip netns del b
	check "13986: DEL after the namespace has gone" cnitool del shaped /run/netns/b
	is "13986: only an IFB of no pod is left" 1 "$(ifbs_of_bandwidth)"
	ip link del bwp0123456789ab
	ip link del cni0
	nothing_is_left "13986"
}

switched
reports_100mbit
pod_to_pod bridge pod 100
pod_to_pod ptp host 10
issue_90838
finish
