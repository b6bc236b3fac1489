#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Virtual machines with a kernel (stock 6.12, virtio-net, QEMU without KVM) that send more than
# their host's shaper takes. Only in icount mode, and with selftests/vm/machines-bundle.
#
#	machine 1 --- tap0 --- br0 --- txdev (shaper) --- rxdev
#	machine 2 --- tap1 ----+
#
#  1. udp: with bpshaper nothing is lost, the machine gets the rate, its programs send as much
#     and no more, and nobody is held afterwards. tbf, htb + fq_codel and cake lose frames.
#  2. tcp, cubic and BBR: 99 % of the rate, and nothing is sent again
#  3. host: a sender of the host beside a machine gets half
#  4. probe: ping of the host and of machine 2 beside machine 1
#  5. classes: two machines get what weights and floors say
#  6. quits: QEMU ends by itself while its machine is held
#  7. process: as udp, but QEMU itself writes to the tap, which has no send buffer
#  8. killed while it is held: its tap can be deleted
#
# KINDS are the qdiscs beside which part udp runs.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"
# shellcheck source=lib/machines.sh
. "$(dirname "$0")/lib/machines.sh"
# shellcheck source=lib/qemu.sh
. "$(dirname "$0")/lib/qemu.sh"
machine_pid=() machine_answers=() share=()
rate=2		# Mbit/s
asked=6
greedy="iperf -c 10.99.0.2 -u -b ${asked}m -l 1400 >/dev/null"

# Of a machine, when its host takes them from the ring. virtio_net counts them later.
frames_out() { on_tx cat "/sys/class/net/tap$(($1 - 1))/statistics/rx_packets"; }

# arrivals_count: from the host (0) and from each machine, by filters of rxdev
arrivals_count()
{
	local n mac

	must tc -n "$rx" qdisc replace dev rxdev clsact
	for n in 0 1 2; do
		mac=02:00:00:00:01:0$n
		[ $n != 0 ] || mac=$(mac_of "$tx" txdev)
		must tc -n "$rx" filter add dev rxdev ingress pref $((10 + n)) \
			flower src_mac "$mac" action pass
	done
}

# arrived N WHAT: packets or bytes from machine N so far
arrived()
{
	json_value "$2" "$(tc -n "$rx" -s -j filter show dev rxdev ingress pref $((10 + $1)))"
}

nothing_arrives()
{
	local before

	before=$(arrived "$1" packets)
	sleep 0.5
	[ "$(arrived "$1" packets)" = "$before" ]
}

# udp NAME MACHINE: sets sent and received
udp()
{
	local before

	before=$(arrived "$2" packets)
	sent=$(frames_out "$2")
	check "$1: it sends" machine_do "$2" "$greedy -t 3"
	wait_until 10 nothing_arrives "$2"
	sent=$(($(frames_out "$2") - sent))
	received=$(($(arrived "$2" packets) - before))
	echo "# $1: $sent frames sent, $received received"
}

# udp_waits NAME MACHINE: nothing is lost
udp_waits()
{
	shape bpshaper rate ${rate}mbit
	udp "$1" "$2"
	check_num "$1: nothing is lost" $((sent - received)) == 0 frames
	check_num "$1: it is held" "$(stat throttles)" '>' 5 times
	check_num "$1: nothing is dropped" "$(stat drops)" == 0 packets
	# 3 s, and what the machine's and the shaper's queues take
	check_num "$1: it sends what is let through" "$sent" '<=' \
		$((rate * 125000 * 5 / 1442)) frames
	check "$1: released" wait_until 5 no_socket_is_held
}

# snmp PROTOCOL COLUMN: a counter of the machine
snmp()
{
	machine_do 1 "awk '/^$1: [0-9]/ { print \$$2 }' /proc/net/snmp >/tmp/count" &&
		machine_count 1 /tmp/count
}

machine_retransmits() { snmp Tcp 13; }

# shape_as KIND: with its usual options
shape_as()
{
	case $1 in
	bpshaper) shape bpshaper rate ${rate}mbit ;;
	tbf) shape tbf rate ${rate}mbit burst 4k latency 50ms ;;
	fq) shape fq maxrate ${rate}mbit ;;
	cake) shape cake bandwidth ${rate}mbit ;;
	htb)
		shape handle 1: htb default 1
		must on_tx tc class add dev txdev parent 1: classid 1:1 htb rate ${rate}mbit
		must on_tx tc qdisc add dev txdev parent 1:1 fq_codel ;;
	esac
}

part_udp()
{
	local kind

	udp_waits bpshaper 1
	for kind in ${KINDS-tbf htb cake fq}; do
		shape_as "$kind"
		udp "$kind" 1
		# The send buffer holds less than a flow of fq, so the tap waits.
		[ "$kind" = fq ] ||
			check_num "$kind: a tenth is lost, or more" $((sent - received)) '>=' $((sent / 10)) frames
	done
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

# have_sent N...: 20 packets since ${before[@]}
have_sent()
{
	local n

	for n; do
		[ "$(arrived "$n" packets)" -ge $((before[n] + 20)) ] || return
	done
}

# shares NAME N...: of the bytes that arrive in 2 s, when these have started; sets ${share[@]}
shares()
{
	local n bytes=() before=() sum=0

	for n in 0 1 2; do before[n]=$(arrived $n packets); done
	wait_until 10 have_sent "${@:2}"
	sleep 0.5
	for n in 0 1 2; do bytes[n]=$(arrived $n bytes); done
	sleep 2
	for n in 0 1 2; do
		bytes[n]=$(($(arrived $n bytes) - bytes[n]))
		sum=$((sum + bytes[n]))
	done
	for n in 0 1 2; do
		share[n]=$(awk "BEGIN { print ${bytes[n]} / ($sum + !$sum) }")
	done
	echo "# $1: ${share[0]} of the host, ${share[1]} and ${share[2]} of machines 1 and 2"
}

part_host()
{
	local pid

	shape bpshaper rate ${rate}mbit
	machine_start 1 "$greedy -t 7"
	on_tx sh -c "$greedy -t 7" &
	pid=$!
	shares "host and machine" 0 1
	wait $pid
	machine_wait 1
	near_share "the host beside a machine" "${share[0]}" 0.5
	check_num "host and machine: nothing is dropped" "$(stat drops)" == 0 packets
}

# near_share NAME SHARE EXPECTED: of some 340 frames in 2 s
near_share()
{
	check_num "$1: not less than $3 - 0.02" "$2" '>=' "$(awk "BEGIN { print $3 - 0.02 }")"
	check_num "$1: not more than $3 + 0.02" "$2" '<=' "$(awk "BEGIN { print $3 + 0.02 }")"
}

# times FILE: the median and the 99th percentile of what ping prints, in ms
times()
{
	sed -n 's/.* time=\([0-9.]*\) ms.*/\1/p' "$1" | sort -n |
		awk '{ t[NR] = $1 } END { if (NR) print t[int((NR + 1) / 2)], t[int(NR * 0.99 + 0.5)] }'
}

ping="ping -i 0.05 -c 60 10.99.0.2"

# probe KIND: beside machine 1; sets ${host_ms[KIND]} and ${guest_ms[KIND]}
probe()
{
	shape_as "$1"
	machine_start 1 "$greedy -t 12"
	sleep 1
	# shellcheck disable=SC2086 # words
	on_tx $ping >/tmp/ping
	read -r host_p50 host_ms["$1"] < <(times /tmp/ping)
	machine_do 2 "$ping"
	sed -n '/^64 bytes/p' /tmp/machine2 | tail -n 60 >/tmp/ping
	read -r guest_p50 guest_ms["$1"] < <(times /tmp/ping)
	machine_wait 1
	echo "# probe beside a machine, $1: of the host $host_p50 ms (p50) ${host_ms[$1]} ms (p99)," \
		"of a machine $guest_p50 ms (p50) ${guest_ms[$1]} ms (p99)"
}

part_probe()
{
	local -A host_ms guest_ms
	local kind host_p50 guest_p50

	for kind in bpshaper ${KINDS-tbf htb cake fq}; do
		probe "$kind"
	done
	check_num "a probe of the host waits for a tenth of what it does with tbf, at most (p99)" \
		"${host_ms[bpshaper]}" '<=' "$(awk "BEGIN { print ${host_ms[tbf]} / 10 }")" ms
	check_num "so does a probe of a machine" \
		"${guest_ms[bpshaper]}" '<=' "$(awk "BEGIN { print ${guest_ms[tbf]} / 10 }")" ms
}

part_classes()
{
	local n

	shape handle 1: bpshaper rate ${rate}mbit
	class 1: 1:10 weight 1
	class 1: 1:20 weight 3
	for n in 1 2; do
		must on_tx tc filter add dev txdev parent 1: pref $n flower \
			src_mac 02:00:00:00:01:0$n classid 1:${n}0
	done
	two_machines "weights 1 and 3" 0.25
	must on_tx tc class change dev txdev parent 1: classid 1:10 bpshaper floor 1500kbit weight 1
	# 1.5 of 2, and a quarter of the rest
	two_machines "a floor of 1.5 Mbit/s" 0.8125
}

# two_machines NAME SHARE: of machine 1
two_machines()
{
	local n

	for n in 1 2; do
		machine_start $n "$greedy -t 7"
	done
	shares "$1" 1 2
	for n in 1 2; do
		machine_wait $n
	done
	near_share "$1" "${share[1]}" "$2"
	check_num "$1: nothing is dropped" "$(stat drops)" == 0 packets
}

part_process()
{
	machine_end 2
	machine_run 2 tap1 ""
	check "a machine without vhost-net starts" [ $? = 0 ]
	udp_waits "QEMU writes to the tap" 2
}

# As a host that a machine has been migrated from ends it: QEMU takes the tap from vhost-net and closes it.
part_quits()
{
	shape bpshaper rate 64kbit limit 20k
	machine_start 2 "$greedy -t 30"
	check "it is held" wait_until 20 machine_is_held
	kill "${machine_pid[2]}"
	check "QEMU ends" wait_until 10 machine_is_gone 2
	check "QEMU has ended: nobody is held" wait_until 10 no_socket_is_held
}

machine_is_gone() { [ ! -e "/proc/${machine_pid[$1]}" ]; }

part_killed()
{
	shape bpshaper rate 64kbit limit 20k
	machine_start 1 "$greedy -t 30"
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
taps_add 1 tap0 tap1
bridge_attach tap0 tap1
for tap in tap0 tap1; do
	must bridge -n "$tx" link set dev $tap flood on mcast_flood on
done
must ip -n "$tx" link set txdev up
arrivals_count
on_rx iperf -s -u >/dev/null 2>&1 &
on_rx iperf -s >/dev/null 2>&1 &
for n in 1 2; do
	machine_run $n tap$((n - 1)) ",vhost=on,sndbuf=$bounded"
	is "machine $n starts" 0 $?
	kill -0 "${machine_pid[n]}" || bail_out "QEMU has ended: $(xargs <"/tmp/qemu$n")"
done
for part in ${PARTS:-udp tcp host probe classes quits process killed}; do
	"part_$part"
done
finish
