#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Several queues use the rate whatever the length of a packet: with bursts below one, and after the
# MTU has been raised under a bpshaper; sparse senders wait for one long packet at most, and long and
# short packets get equal bytes, also after a change of options. icount mode only.

# shellcheck source=lib/queues.sh
. "$(dirname "$0")/lib/queues.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"

mtu()
{
	must ip -n "$tx" link set txdev mtu "$1"
	must ip -n "$rx" link set rxdev mtu "$1"
}

# uses NAME MBIT SIZE MS: eight sockets with packets of SIZE have the rate, and a sparse one waits so
# long at most (p99)
uses()
{
	peers 1.3 300 "bulk:udp,poll,sockets=8,size=$3" "sparse:udp,every=5000,size=100"
	echo "# $1: $(got bulk_mbit) of $2 Mbit/s, Jain $(got bulk_jain)," \
		"sparse p99 $(got sparse_delay_p99_ms) ms"
	check_num "$1: the rate is used" "$(got bulk_mbit)" '>=' $(($2 * 98 / 100)) Mbit/s
	check_num "$1: a sparse sender waits for a packet at most (p99)" \
		"$(got sparse_delay_p99_ms)" '<=' "$4" ms
	check_num "$1: nothing is lost" $(($(got bulk_lost) + $(got sparse_lost))) == 0
}

# mixed NAME: sockets of long packets and of short ones
mixed()
{
	local most least

	peers 2.6 300 "long:udp,poll,sockets=4,size=8900" "short:udp,poll,sockets=4,size=1400"
	read -r least most <<<"$(printf '%s\n' "$(got long_mbit)" "$(got short_mbit)" |
		sort -n | xargs)"
	echo "# $1: long $(got long_mbit), short $(got short_mbit) Mbit/s"
	check_num "$1: long and short packets get equal bytes, within 2 %" "$most" '<=' \
		"$(awk "BEGIN { print $least * 1.02 }")" Mbit/s
}

peers_topology
for burst in 1000 1514; do
	shape handle 1: bpshaper rate 50mbit burst $burst
	uses "burst $burst" 50 1470 1.5
done
shape handle 1: bpshaper rate 50mbit
mtu 9000
uses "from 1500 to 9000" 50 8900 1.5
must on_tx tc qdisc change dev txdev root handle 1: bpshaper rate 100mbit
mixed "from 1500 to 9000, another rate"
for burst in 5000 9014; do
	shape handle 1: bpshaper rate 50mbit burst $burst
	uses "MTU 9000, burst $burst" 50 8900 1.5
done
shape handle 1: bpshaper rate 100mbit
mtu 65535
# 5.2 ms for a packet of this MTU
uses "from 9000 to 65535" 100 65000 5.5
must on_tx tc qdisc change dev txdev root handle 1: bpshaper rate 200mbit
mixed "from 9000 to 65535, another rate"
finish
