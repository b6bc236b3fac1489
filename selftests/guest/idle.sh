#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What a packet costs that finds the shaper empty, with tokens: pktgen through
# dev_queue_xmit(). In icount mode a nanosecond is an instruction, so this counts
# instructions, and exactly so.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
packets=2000 turns=8

# measure NAME KIND...: instructions per packet through that qdisc, if they are the
# least so far. Ticks of the timer come on top in some runs, and the state of the
# allocators moves all of them up and down: so the kinds take turns.
declare -A cost
measure()
{
	local name=$1 now

	shift
	if [ "$1" = noqueue ]; then unshape 2>/dev/null; else shape "$@"; fi
	pktgen pgctrl start	# warms up
	pktgen pgctrl start
	now=$(on_tx sed -n 's/^Result: OK: \([0-9]*\)(.*/\1/p' /proc/net/pktgen/txdev)
	if [ -z "${cost[$name]-}" ] || [ "$now" -lt "${cost[$name]}" ]; then
		cost[$name]=$now
	fi
}

# net NAME: instructions per packet that the qdisc adds
net()
{
	awk "BEGIN { print (${cost[$1]} - ${cost[noqueue]}) * 1000 / $packets }"
}

topology_make
pktgen_setup "count $packets" "pkt_size 200" "delay 0"

for ((turn = 0; turn < turns; turn++)); do
	measure noqueue noqueue
	measure tbf tbf rate 40gbit burst 1mb limit 1mb
	measure fq fq
	measure unlimited bpshaper
	measure bpshaper bpshaper rate 40gbit burst 1mb
done
echo "# instructions per packet, net of noqueue: tbf $(net tbf), fq $(net fq)," \
	"bpshaper $(net bpshaper), without a rate $(net unlimited)"

check_num "all packets took the direct slot" "$(stat direct_packets)" '>=' \
	$((2 * packets))
check_num "the idle path costs no more than tbf's" "$(net bpshaper)" '<=' \
	"$(net tbf)" instructions
check_num "nor than fq's" "$(net bpshaper)" '<=' "$(net fq)" instructions
pktgen kpktgend_0 "rem_device_all"
finish
