#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The guest's part of `make demo`: the setup of the RFC of 2022, bpshaper beside its
# rivals. Prints a row as soon as it is measured and leaves all that was measured
# in /out, a JSON object each.

# shellcheck source=../lib/common.sh
. "$(dirname "$0")/../lib/common.sh"
# shellcheck source=../lib/iperf2.sh
. "$(dirname "$0")/../lib/iperf2.sh"
params="rate 200mbit burst 20kb limit 200k"
n=0

# rival NAME: install that shaper
rival()
{
	# shellcheck disable=SC2086 # words
	case $1 in
	tbf) shape tbf $params ;;
	tbf+fq)
		shape handle 1: tbf $params
		on_tx tc qdisc add dev txdev parent 1:1 fq
		;;
	bpshaper) shape bpshaper $params ;;
	esac
}

# save CASE SHAPER: the report with the two names in it
save()
{
	n=$((n + 1))
	sed "0,/{/s//{\n  \"case\": \"$1\",\n  \"shaper\": \"$2\",\n  \"dropped_packets\": $(stat drops),/" \
		"$report" >"$(printf '/out/%02d.json' $n)"
}

udp_heading()
{
	echo
	echo "UDP senders that send as fast as they are let, 200 Mbit/s"
	printf '%-20s %-9s %6s %8s %7s %12s %13s %8s %7s\n' \
		"" "" lost goodput Jain "packet's age" "probe's delay" \
		CPU/pkt timer
	printf '%-20s %-9s %6s %8s %7s %12s %13s %8s %7s\n' \
		senders shaper % Mbit/s index "p50/p99 ms" "p50/p99 ms" us irqs
}

# udp NAME SECONDS OPTIONS...
udp()
{
	local name=$1 seconds=$2 shaper

	shift 2
	for shaper in tbf tbf+fq bpshaper; do
		rival $shaper
		traffic_try --seconds "$seconds" --probe "$@" 2>/tmp/invalid ||
			sed 's/^/# /' /tmp/invalid
		save "$name" $shaper
		printf '%-20s %-9s %6.2f %8.1f %7.4f %12s %13s %8.1f %7d\n' \
			"$name" $shaper "$(result udp_loss_percent)" \
			"$(result udp_payload_goodput_mbit_per_s)" \
			"$(result udp_jain_index)" \
			"$(printf '%.1f/%.1f' "$(result udp_age_p50_ms)" \
				"$(result udp_age_p99_ms)")" \
			"$(printf '%.2f/%.2f' "$(result probe_delay_p50_ms)" \
				"$(result probe_delay_p99_ms)")" \
			"$(result sender_cpu_us_per_packet)" \
			"$(result system_timer_interrupts)"
	done
}

tcp()
{
	local shaper

	echo
	echo "8 bulk TCP flows, 200 Mbit/s, and the same probe"
	printf '%-9s %8s %8s %13s %13s\n' shaper Mbit/s dropped retransmitted \
		"probe p99 ms"
	for shaper in tbf tbf+fq bpshaper; do
		rival $shaper
		traffic_try --seconds 3 --tcp 8 --probe
		save "8 TCP flows" $shaper
		printf '%-9s %8.1f %8d %13d %13.2f\n' $shaper \
			"$(result tcp_goodput_mbit_per_s)" "$(stat drops)" \
			"$(result tcp_retransmitted_segments)" \
			"$(result probe_delay_p99_ms)"
	done
}

# What an unmodified program sees.
iperf2()
{
	local shaper lost total

	echo
	echo "iperf 2, two UDP clients at 1 Gbit/s each, as its server reports"
	printf '%-9s %8s %8s %7s\n' shaper sent lost %
	for shaper in tbf bpshaper; do
		rival $shaper
		read -r lost total < <(iperf2_udp 2 1000M 2)
		echo "{\"case\": \"iperf2\", \"shaper\": \"$shaper\"," \
			"\"udp_sent_packets\": $total, \"udp_lost_packets\": $lost}" \
			>/out/iperf2-$shaper.json
		awk -v s=$shaper -v l="$lost" -v t="$total" 'BEGIN {
			printf "%-9s %8d %8d %7.2f\n", s, t, l, t ? 100 * l / t : 100 }'
	done
}

topology_make
echo "kernel $(uname -r), $(tc -V)"
udp_heading
udp "2" 2 --udp 2
udp "3" 2 --udp 3
udp "16" 2 --udp 16
udp "16, sndbuf 4 MB" 2 --udp 16 --sndbuf 4194304
udp "256" 3 --udp 256
tcp
iperf2
