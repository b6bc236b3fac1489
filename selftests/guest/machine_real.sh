#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# A virtual machine with a kernel (stock 6.12, virtio-net, QEMU without KVM) that sends more than
# its host's shaper takes. Only in icount mode, and with selftests/vm/machines-bundle.
#
#	machine --- tap0 --- br0 --- txdev (shaper) --- rxdev
#
#  1. UDP: with bpshaper nothing is lost, the machine gets the rate, its programs send as much
#     and no more, and nobody is held afterwards. With tbf most of it is lost.
#  2. TCP, cubic and BBR: 99 % of the rate, and nothing is sent again
#  3. killed while it is held: its tap can be deleted

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
# shellcheck source=lib/machines.sh
. "$(dirname "$0")/lib/machines.sh"
# shellcheck source=lib/qemu.sh
. "$(dirname "$0")/lib/qemu.sh"
machine_pid=() machine_answers=()
rate=2		# Mbit/s
asked=6

# Of the machine, when vhost-net takes them from its ring. virtio_net counts them later.
frames_out() { on_tx cat /sys/class/net/tap0/statistics/rx_packets; }
frames_in() { on_rx cat /sys/class/net/rxdev/statistics/rx_packets; }

nothing_arrives()
{
	local before

	before=$(frames_in)
	sleep 0.5
	[ "$(frames_in)" = "$before" ]
}

# udp NAME: sets sent and received
udp()
{
	local before

	before=$(frames_in)
	sent=$(frames_out)
	check "$1: it sends" machine_do 1 "iperf -c 10.99.0.2 -u -b ${asked}m -t 3 -l 1400 >/dev/null"
	wait_until 10 nothing_arrives
	sent=$(($(frames_out) - sent))
	received=$(($(frames_in) - before))
	echo "# $1: $sent frames sent, $received received"
}

# snmp PROTOCOL COLUMN: a counter of the machine
snmp()
{
	machine_do 1 "awk '/^$1: [0-9]/ { print \$$2 }' /proc/net/snmp >/tmp/count" &&
		machine_count 1 /tmp/count
}

machine_retransmits() { snmp Tcp 13; }

part_udp()
{
	shape bpshaper rate ${rate}mbit
	udp bpshaper
	check_num "bpshaper: nothing is lost" $((sent - received)) == 0 frames
	check_num "bpshaper: it is held" "$(stat throttles)" '>' 5 times
	check_num "bpshaper: nothing is dropped" "$(stat drops)" == 0 packets
	# 3 s, and what the machine's and the shaper's queues take
	check_num "bpshaper: it sends what is let through" "$sent" '<=' \
		$((rate * 125000 * 5 / 1442)) frames
	check "bpshaper: released" wait_until 5 no_socket_is_held
	must on_tx tc qdisc replace dev txdev root tbf rate ${rate}mbit burst 4k latency 20ms
	udp tbf
	check_num "tbf: half is lost, or more" $((sent - received)) '>=' $((sent / 2)) frames
}

part_tcp()
{
	local cc bits again

	for cc in cubic bbr; do
		shape bpshaper rate ${rate}mbit
		again=$(machine_retransmits)
		machine_do 1 "sysctl -w net.ipv4.tcp_congestion_control=$cc >/dev/null"
		check "TCP, $cc: it sends" machine_do 1 \
			"iperf -c 10.99.0.2 -t 4 -f k -y C | cut -d , -f 9 >/tmp/tcp"
		bits=$(machine_count 1 /tmp/tcp)
		echo "# TCP, $cc: $bits bit/s"
		# A segment of 1448 bytes takes 1514.
		check_num "TCP, $cc: 99 % of the rate" "$bits" '>=' \
			$((rate * 990000 * 1448 / 1514)) bit/s
		check_num "TCP, $cc: nothing is sent again" \
			$(($(machine_retransmits) - again)) == 0 segments
		check_num "TCP, $cc: nothing is dropped" "$(stat drops)" == 0 packets
	done
}

part_killed()
{
	shape bpshaper rate 64kbit limit 20k
	machine_start 1 "iperf -c 10.99.0.2 -u -b ${asked}m -t 30 -l 1400 >/dev/null"
	check "it is held" wait_until 20 machine_is_held
	machine_end 1
	check "killed: its tap can be deleted" timeout 10 ip -n "$tx" link del tap0
	check "killed: nobody is held" wait_until 10 no_socket_is_held
}

machine_is_held() { [ "$(stat throttled_sockets)" -gt 0 ]; }

type -P qemu-system-x86_64 >/dev/null && [ -e /opt/machine/state ] ||
	skip_all "QEMU is not here: selftests/vm/machines-bundle"
machines_topology
vhost_load
taps_add 1 tap0
bridge_attach tap0
must bridge -n "$tx" link set dev tap0 flood on mcast_flood on
must ip -n "$tx" link set txdev up
on_rx iperf -s -u >/dev/null 2>&1 &
on_rx iperf -s >/dev/null 2>&1 &
machine_run 1 tap0 ",vhost=on,sndbuf=$bounded"
check "a machine starts" [ $? = 0 ]
for part in ${PARTS:-udp tcp killed}; do
	"part_$part"
done
finish
