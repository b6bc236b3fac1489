#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Programs that others wrote, unmodified: iperf 2 and iperf 3, UDP, at three times
# the rate, and TCP.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/iperf2.sh
. "$(dirname "$0")/lib/iperf2.sh"
rate=${1:-20mbit} offered=${2:-60M}

# iperf3_udp CLIENTS RATE SECONDS: likewise
iperf3_udp()
{
	iperf3_server
	on_tx timeout 60 iperf3 -u -c 10.99.0.2 -b "$2" -l 1470 -P "$1" -t "$3" -J \
		>/tmp/iperf3c 2>&1
	wait $!
	sed -n '/"sum":/,/}/p' /tmp/iperf3c | tail -n 20 >/tmp/iperf3sum
	echo "$(json_get lost_packets </tmp/iperf3sum)" \
		"$(json_get packets </tmp/iperf3sum)"
}

# packets NETNS COUNTER: of IPv4, TCP control connections included. (Those of UDP do
# not tell: InDatagrams counts what a program has read.)
packets()
{
	ip netns exec "$1" awk -v name="$2" '$1 != "Ip:" { next }
		!column { for (column = NF; $column != name; column--); next }
		{ print $column }' /proc/net/snmp
}

topology_make
shape tbf rate "$rate" burst 20kb limit 100k
read -r lost _ < <(iperf2_udp 3 "$offered" 2)
check_num "iperf 2 through tbf loses, so it does overload it" "$lost" '>' 100
for tool in iperf2 iperf3; do
	shape bpshaper rate "$rate" burst 20kb limit 100k
	sent=$(packets "$tx" OutRequests)
	arrived=$(packets "$rx" InReceives)
	read -r lost _ < <("${tool}_udp" 3 "$offered" 2)
	# By small packets, which overtake the rest, the two have agreed to end.
	check "$tool, UDP: no socket is held afterwards, and the queue drains" \
		wait_until 10 no_socket_is_held
	sent=$(($(packets "$tx" OutRequests) - sent))
	arrived=$(($(packets "$rx" InReceives) - arrived))
	check_num "$tool, UDP: packets were sent" "$sent" '>' 1000
	check_num "$tool, UDP: all of them arrived" "$arrived" == "$sent"
	# Two CPUs may reorder datagrams, and iperf takes for lost what comes
	# after its last one.
	[ "$(nproc)" -gt 1 ] ||
		check_num "$tool, UDP: its server missed none" "$lost" == 0
	check_num "$tool, UDP: nothing was dropped" "$(stat drops)" == 0
	check_num "$tool, UDP: it was throttled" "$(stat throttles)" '>' 0
done
shape bpshaper rate "$rate" burst 20kb limit 100k
iperf3_server
check "iperf3, TCP: works" on_tx timeout 60 iperf3 -c 10.99.0.2 -P 4 -t 2
wait
check_num "iperf3, TCP: nothing was dropped" "$(stat drops)" == 0
check "iperf3, TCP: no socket is held afterwards" wait_until 10 no_socket_is_held
finish
