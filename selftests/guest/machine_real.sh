#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Virtual machines with a kernel (stock 6.12, virtio-net, QEMU without KVM) that send more than
# their host's shaper takes, by each way of attaching them (lib/machines_real.sh). Only in icount
# mode, and with selftests/vm/machines-bundle.
#
# By each way:
#
#  1. UDP: nothing is lost, the machine's programs send as much as the rate and no more, and nobody
#     is held afterwards.
#  2. TCP, cubic and BBR: 99 % of the rate, and nothing is sent again.
#  3. A sender of the host beside a machine gets half; behind an ifb another machine does.
#  4. ping of the host and of a second machine beside the first waits for a tenth of the time that
#     it does with tbf.
#
# On a bridge:
#
#  5. rivals: tbf, htb + fq_codel and cake lose frames
#  6. classes: two machines get what weights and floors say
#  7. stopped by QEMU's monitor while it is held, and continued: nothing is lost
#  8. moved to another QEMU while it is held: nothing is lost
#  9. quits: QEMU ends by itself while its machine is held
# 10. user: user networking of QEMU, whose socket is held
# 11. killed while it is held: its tap can be deleted
#
# PLACES are the ways of attaching, KINDS the rivals, PARTS what is tested on a bridge.

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
# shellcheck source=lib/machines_real.sh
. "$(dirname "$0")/lib/machines_real.sh"

# shape_as KIND: with its usual options
shape_as()
{
	case $1 in
	bpshaper) shape bpshaper rate ${rate}mbit ;;
	tbf) shape tbf rate ${rate}mbit burst 4k latency 50ms ;;
	fq) shape fq maxrate ${rate}mbit ;;
	cake) shape cake bandwidth ${rate}mbit ;;
	htb+fq_codel)
		shape handle 1: htb default 1
		must on_tx tc class add dev "$shaped" parent 1: classid 1:1 htb rate ${rate}mbit
		must on_tx tc qdisc add dev "$shaped" parent 1:1 fq_codel
		;;
	esac
}

udp_waits()
{
	shape_as bpshaper
	measure_udp 1
	is "$1: UDP: it sends" 0 $?
	echo "# $1: UDP: $sent packets sent, $received arrived"
	check_num "$1: UDP: nothing is lost" $((sent - received)) == 0 packets
	check_num "$1: UDP: it is held" "$(stat throttles)" '>' 5 times
	check_num "$1: UDP: nothing is dropped" "$(stat drops)" == 0 packets
	# 3 s, and what the machine's and the shaper's queues take
	check_num "$1: UDP: it sends what is let through" "$sent" '<=' \
		$((rate * 125000 * 5 / 1442)) packets
	check_num "$1: UDP: and not less" "$sent" '>=' $((rate * 125000 * 3 / 1442)) packets
	check "$1: UDP: released" wait_until 5 no_socket_is_held
}

tcp_waits()
{
	local cc

	for cc in cubic bbr; do
		shape_as bpshaper
		measure_tcp $cc
		is "$1: TCP, $cc: it sends" 0 $?
		echo "# $1: TCP, $cc: $part of the rate"
		check_num "$1: TCP, $cc: 99 % of the rate" "$part" '>=' 0.99
		check_num "$1: TCP, $cc: nothing is sent again" "$again" == 0 segments
		check_num "$1: TCP, $cc: nothing is dropped" "$(stat drops)" == 0 packets
	done
}

# near_share NAME SHARE EXPECTED: of some 340 frames in 2 s
near_share()
{
	check_num "$1: not less than $3 - 0.02" "$2" '>=' "$(awk "BEGIN { print $3 - 0.02 }")"
	check_num "$1: not more than $3 + 0.02" "$2" '<=' "$(awk "BEGIN { print $3 + 0.02 }")"
}

shares_print()
{
	echo "# $1: ${share[0]} of the host, ${share[1]} and ${share[2]} of machines 1 and 2"
}

halves()
{
	local expected=0.5

	shape_as bpshaper
	measure_halves
	shares_print "$1: a machine and another sender"
	# Each queue is a socket.
	[ "$1" != queues ] || expected=0.66667
	near_share "$1: the machine's part" "${share[1]}" $expected
	check_num "$1: both: nothing is dropped" "$(stat drops)" == 0 packets
}

# tenth NAME SHAPER'S TBF'S
tenth()
{
	check_num "$1 waits for a tenth of what it does with tbf, at most (p99)" "$2" '<=' \
		"$(awk "BEGIN { print $3 / 10 }")" ms
}

probe_print()
{
	echo "# $1: ping beside a machine: of the host $host_p50 ms (p50) $host_p99 ms (p99)," \
		"of a machine $guest_p50 ms (p50) $guest_p99 ms (p99)"
}

probes_wait()
{
	local host guest

	shape_as bpshaper
	measure_probe
	probe_print "$1, bpshaper"
	host=$host_p99 guest=$guest_p99
	shape_as tbf
	measure_probe
	probe_print "$1, tbf"
	[ "$shaped" = ifb0 ] || tenth "$1: a ping of the host" "$host" "$host_p99"
	tenth "$1: a ping of a machine" "$guest" "$guest_p99"
}

part_rivals()
{
	local kind

	for kind in ${KINDS-tbf htb+fq_codel cake fq}; do
		shape_as "$kind"
		measure_udp 1
		is "$kind: it sends" 0 $?
		echo "# $kind: UDP: $sent packets sent, $received arrived"
		# The send buffer holds less than a flow of fq, so the tap waits.
		[ "$kind" = fq ] ||
			check_num "$kind: a tenth is lost, or more" $((sent - received)) '>=' \
				$((sent / 10)) packets
		measure_probe
		probe_print "$kind"
	done
}

part_classes()
{
	local n

	shape handle 1: bpshaper rate ${rate}mbit
	class 1: 1:10 weight 1
	class 1: 1:20 weight 3
	for n in 1 2; do
		must on_tx tc filter add dev txdev parent 1: pref $n flower \
			src_mac "${macs[n]}" classid 1:${n}0
	done
	two_machines "weights 1 and 3" 0.25
	must on_tx tc class change dev txdev parent 1: classid 1:10 bpshaper floor 3mbit weight 1
	# 3 of 4, and a quarter of the rest
	two_machines "a floor of 3 Mbit/s" 0.8125
}

# two_machines NAME SHARE: of machine 1
two_machines()
{
	local n

	for n in 1 2; do
		machine_start $n "$(greedy 7)"
	done
	measure_shares 1 2
	for n in 1 2; do
		machine_wait $n
	done
	shares_print "$1"
	near_share "$1" "${share[1]}" "$2"
	check_num "$1: nothing is dropped" "$(stat drops)" == 0 packets
}

# held_start SECONDS: machine 1 sends, and is held
held_start()
{
	arrived_before=$(arrived 1 packets)
	sent=$(machine_packets 1)
	machine_start 1 "$(greedy "$1")"
	check "$held: it is held" wait_until 20 machine_is_held
}

# held_end: it has sent, and all of it arrives
held_end()
{
	wait_until 20 nothing_arrives 1
	sent=$(difference "$sent" "$(machine_packets 1)")
	received=$(($(arrived 1 packets) - arrived_before))
	echo "# $held: $sent packets sent, $received arrived"
	check_num "$held: it sends" "$sent" '>' 1000 packets
	check_num "$held: nothing is lost" $((sent - received)) == 0 packets
	check_num "$held: nothing is dropped" "$(stat drops)" == 0 packets
	check "$held: nobody is held afterwards" wait_until 10 no_socket_is_held
}

# QEMU takes the rings from vhost-net, and gives them back.
part_stopped()
{
	local held=stopped arrived_before sent received

	shape_as bpshaper
	held_start 6
	machine_order 1 stop
	check "stopped: its queue is released" wait_until 10 no_socket_is_held
	check "stopped: nothing arrives any more" wait_until 5 nothing_arrives 1
	machine_order 1 cont
	check "continued: it is held again" wait_until 20 machine_is_held
	check "continued: its program ends well" machine_wait 1
	held_end
}

# By a file, to another QEMU with the same tap. The machine sends while its memory is copied.
part_moved()
{
	local held=moved arrived_before sent received

	shape_as bpshaper
	machine_cards[moved]=${machine_cards[state]}
	held_start 12
	machine_order 1 'migrate "exec:cat >/opt/machine/moved"'
	check "moved: it has been saved" wait_until 120 machine_is_saved 1
	machine_order 1 quit
	check "moved: QEMU ends" wait_until 10 machine_is_gone 1
	check "moved: nobody is held" wait_until 10 no_socket_is_held
	machine_end 1
	machine_run 1 "${netdev[1]}" moved
	is "moved: it goes on elsewhere, and its program ends" 0 $?
	held_end
	rm /opt/machine/moved
}

# QEMU takes the tap from vhost-net and closes it.
part_quits()
{
	shape bpshaper rate 64kbit limit 20k
	machine_start 2 "$(greedy 30)"
	check "it is held" wait_until 20 machine_is_held
	kill "${machine_pid[2]}"
	check "QEMU ends" wait_until 10 machine_is_gone 2
	check "QEMU has ended: nobody is held" wait_until 10 no_socket_is_held
}

machine_is_gone() { [ ! -e "/proc/${machine_pid[$1]}" ]; }

# User networking: what the machine sends comes from a socket of QEMU, and slirp sleeps in sendto().
part_user()
{
	local sent before=()

	machine_end 2
	shape_as bpshaper
	machine_run 2 user state && machine_do 2 "ip addr add 10.0.2.15/24 dev eth0 &&
		ip link set eth0 up && ip route add default via 10.0.2.2"
	is "user networking: a machine starts" 0 $?
	before[0]=$(arrived 0 packets)
	machine_do 2 "$(greedy 3)"
	is "user networking: it sends" 0 $?
	wait_until 20 nothing_arrives 0
	sent=$(snmp 2 Udp 5)
	received=$(($(arrived 0 packets) - before[0]))
	echo "# user networking: UDP: $sent packets sent, $received arrived"
	check_num "user networking: QEMU's socket is held" "$(stat throttles)" '>' 5 times
	check_num "user networking: the shaper drops nothing" "$(stat drops)" == 0 packets
	check_num "user networking: nothing is lost" $((sent - received)) == 0 packets
	check_num "user networking: it sends what is let through" "$sent" '<=' \
		$((rate * 125000 * 5 / 1442)) packets
	check "user networking: released" wait_until 5 no_socket_is_held
}

part_killed()
{
	shape bpshaper rate 64kbit limit 20k
	machine_start 1 "$(greedy 30)"
	check "it is held" wait_until 20 machine_is_held
	machine_end 1
	check "killed: its tap can be deleted" timeout 10 ip -n "$tx" link del tap0
	check "killed: nobody is held" wait_until 10 no_socket_is_held
	taps_add 1 tap0
}

machine_is_held() { [ "$(stat throttled_sockets)" -gt 0 ]; }

place()
{
	local part

	if ! real_attach "$1"; then
		skip "$1" "this kernel has no such place, or the bundle no such machine"
		return
	fi
	udp_waits "$1"
	tcp_waits "$1"
	halves "$1"
	probes_wait "$1"
	[ "$1" != bridge ] ||
		for part in ${PARTS-rivals classes stopped moved quits user killed}; do
			"part_$part"
		done
	unshape
	real_detach "$1"
}

type -P qemu-system-x86_64 >/dev/null && [ -e /opt/machine/state ] ||
	skip_all "QEMU is not here: selftests/vm/machines-bundle"
machines_topology
vhost_load
on_rx iperf -s -u >/dev/null 2>&1 &
on_rx iperf -s >/dev/null 2>&1 &
for place in ${PLACES-$real_places}; do
	place "$place"
done
finish
