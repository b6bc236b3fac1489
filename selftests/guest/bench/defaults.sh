#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What the defaults of burst, latency and share_min were chosen from; asserts nothing.
# Run by hand: selftests/in-vm -- bench/defaults, and with --mode smp, where the timer
# is late at times as on a real machine. Documentation/defaults.rst has the result.

# shellcheck source=../lib/common.sh
. "$(dirname "$0")/../lib/common.sh"

# row NAME OPTIONS OF THE QDISC -- OPTIONS OF THE TRAFFIC
row()
{
	local name=$1 qdisc=()

	shift
	while [ "$1" != -- ]; do qdisc+=("$1"); shift; done
	shift
	shape bpshaper "${qdisc[@]}"
	traffic_try --seconds 2 --probe "$@"
	printf '%-34s %9.3f %7.4f %7.1f/%-7.1f %7.3f/%-7.3f %7d %7.1f %9d %7d\n' \
		"$name" "$(result udp_wire_goodput_mbit_per_s)" \
		"$(result udp_jain_index)" \
		"$(result udp_age_p50_ms)" "$(result udp_age_p99_ms)" \
		"$(result probe_delay_p50_ms)" "$(result probe_delay_p99_ms)" \
		"$(stat timer_wakeups)" "$(result sender_cpu_us_per_packet)" \
		"$(result system_context_switches)" "$(stat max_backlog)"
}

heading()
{
	echo
	echo "$1"
	printf '%-34s %9s %7s %15s %15s %7s %7s %9s %7s\n' "" "wire Mb/s" Jain \
		"age p50/p99 ms" "probe ms" wakeups us/pkt switches backlog
}

topology_make
for rate in ${RATES:-2 20 200}; do
	heading "burst at $rate Mbit/s, 16 senders"
	for us in 0 250 500 1000 2000 4000; do
		burst=$((rate * us / 8))
		for pkts in 1 2 3; do
			[ $us = 0 ] && row "$pkts packets" rate "${rate}mbit" \
				burst $((pkts * 1514)) -- --udp 16
		done
		[ $burst -le 3028 ] ||
			row "$us us" rate "${rate}mbit" burst $burst -- --udp 16
	done
done
heading "latency at 200 Mbit/s, 16 senders"
for ms in 1 2 5 10 20 50; do
	row "$ms ms" rate 200mbit latency ${ms}ms -- --udp 16
done
for rate in 20 200; do
	for n in 64 256; do
		heading "share_min at $rate Mbit/s, limit $rate kB, $n senders"
		for packets in 2 4 8 12 16 32; do
			row "$packets packets" rate ${rate}mbit burst $((rate * 100)) limit ${rate}k \
				share_min $((packets * 1514)) -- --udp $n --mode poll
		done
	done
done
echo 1..0
