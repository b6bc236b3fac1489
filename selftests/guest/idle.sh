#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What a packet costs that finds the shaper empty, with tokens: pktgen through
# dev_queue_xmit(). In icount mode a nanosecond is an instruction, so this counts
# instructions, and exactly so.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
packets=2000 runs=12

# cost KIND...: instructions per packet, the least of some runs: ticks of the timer
# and the kernel's own work come on top in the others
cost()
{
	local run

	if [ "$1" = noqueue ]; then unshape 2>/dev/null; else shape "$@"; fi
	for ((run = 0; run < runs; run++)); do
		pktgen pgctrl start
		on_tx cat /proc/net/pktgen/txdev
	done | sed -n 's/^Result: OK: \([0-9]*\)(.*/\1/p' | sort -n |
		awk -v n=$packets 'NR == 1 { print $1 * 1000 / n }'
}

topology_make
pktgen_setup "count $packets" "pkt_size 200" "delay 0"

cost noqueue >/dev/null	# warms up
base=$(cost noqueue)
tbf=$(cost tbf rate 40gbit burst 1mb limit 1mb)
fq=$(cost fq)
mine=$(cost bpshaper rate 40gbit burst 1mb)
direct=$(stat direct_packets)
unlimited=$(cost bpshaper)
echo "# instructions per packet: noqueue $base, tbf $tbf, fq $fq," \
	"bpshaper $mine, without a rate $unlimited"

check_num "all packets took the direct slot" "$direct" '>=' $((packets * runs))
check_num "the idle path costs no more than tbf's" \
	"$(awk "BEGIN { print $mine - $base }")" '<=' \
	"$(awk "BEGIN { print $tbf - $base }")" instructions
check_num "nor than fq's" \
	"$(awk "BEGIN { print $mine - $base }")" '<=' \
	"$(awk "BEGIN { print $fq - $base }")" instructions
pktgen kpktgend_0 "rem_device_all"
finish
