# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # what bench.sh, common.sh and lib/machines.sh have set
#
# Part `machines`: virtual machines by each way of attaching them. Cases with machines that have no
# kernel (bppeers), through 20 Mbit/s:
#
#	overload	one that sends three times the rate, beside a sparse one and a sparse sender of the
#			host, whose packets do not pass an ifb
#	shares		the same one, beside a sender of the host that asks for as much; or beside
#			another machine, behind an ifb
#
# And one with those that have one (lib/machines_real.sh), through 2 Mbit/s:
#
#	kernel		UDP at three times the rate, TCP, ping and a sender of the host beside it
#
# noqueue is no shaper, and a machine that sends at the rate. bpshaper-class has a class for the
# machine and another one for the sender beside it. $PLACES are some of the places, $CASES cases.

machines_rivals="bpshaper tbf tbf+fq htb+fq_codel cake"
machines_places="bridge queues ovs lower router ifb"

# machines_rival NAME; sets $beside_class, of who sends beside the machine
machines_rival()
{
	beside_class=''
	if [ "$1" = bpshaper-class ]; then
		shape handle 1: bpshaper rate ${machine_mbit}mbit burst 5000 limit 30000 default 10
		must on_tx tc class add dev $shaped parent 1: classid 1:10 bpshaper
		must on_tx tc class add dev $shaped parent 1: classid 1:20 bpshaper
		beside_class=,class=1-20
	else
		rival "$1" ${machine_mbit}mbit
	fi
}

# machines_measure CASE SENDERS...: $attached, $sndbuf and $shaper are what it is about
machines_measure()
{
	BUSY=1 peers 1.5 500 "${@:2}" || return
	cp /tmp/peers "$report"
	save machines "$shaper" case "$1" attached "$attached" sndbuf "$sndbuf" rate ${machine_mbit}mbit \
		qdisc_drops "$(drops)"
}

# An address for each queue: by ports alone a sparse machine could be of the flow of one of them.
machines_greedy() { echo "g:$(machines_sent 0),sockets=$queues,ports=1,pace=$1"; }

# machines_sent NUMBER: the start of what bppeers is told of a machine on ${at[NUMBER]}
machines_sent()
{
	echo "$kind,${at[$1]}$([ "$sndbuf" = none ] || echo ",sndbuf=$sndbuf")"
}

machines_overload()
{
	local pace=$((machine_pace * queues)) sparse=size=100,every=5000 senders

	# A frame of 1512 bytes takes as long at the rate.
	[ "$shaper" != noqueue ] || pace=$((605 * queues))
	senders=("$(machines_greedy $pace),ages" "p:$(machines_sent 1),$sparse")
	[ $shaped = ifb0 ] || senders+=("q:udp,$sparse")
	machines_measure overload "${senders[@]}"
}

# Not quite at the same pace, so that chance decides whose packets find a full queue.
machines_shares()
{
	local pace=$((machine_pace - 7)) beside

	beside=udp
	[ $shaped != ifb0 ] || beside=$(machines_sent 1)
	machines_measure shares "$(machines_greedy $((machine_pace * queues)))" "h:$beside,pace=$pace$beside_class"
}

# machines_cells ATTACHED KIND SNDBUF RIVALS...
machines_cells()
{
	local attached=$1 kind=$2 sndbuf=$3 shaper beside_class case

	for shaper in ${RIVALS:-"${@:4}"}; do
		for case in ${cases%kernel}; do
			[ "$shaper-$case" != noqueue-shares ] || continue
			machines_rival "$shaper"
			"machines_$case"
		done
	done
}

# machines_bounded ATTACHED KIND: with the send buffer that Linux gives other sockets
machines_bounded()
{
	# shellcheck disable=SC2086 # words
	machines_cells "$1" "$2" $bounded $machines_rivals noqueue
}

# machines_both ATTACHED KIND: and with none, the default of QEMU
machines_both()
{
	machines_bounded "$@"
	# shellcheck disable=SC2086 # words
	machines_cells "$1" "$2" none $machines_rivals
}

place_bridge()
{
	taps_add 1 tap0 tap1
	bridge_attach tap0 tap1
	machines_both "bridge, write" tap
	machines_both "bridge, vhost" vhost
	# shellcheck disable=SC2086 # words
	machines_cells "bridge, vhost" vhost 1048576 $machines_rivals
	vhost_load experimental_zcopytx=1
	machines_both "bridge, zero copy" vhost
	vhost_load
	bridge_detach
	taps_remove tap0 tap1
}

place_queues()
{
	local queues=4 kind

	taps_add 4 tap0
	taps_add 1 tap1
	bridge_attach tap0 tap1
	machines_bounded "bridge, 4 queues, write" tap
	machines_bounded "bridge, 4 queues, vhost" vhost
	machines_cells "bridge, 4 queues, vhost" vhost $bounded bpshaper-class
	bridge_detach
	taps_remove tap0 tap1
}

place_ovs()
{
	taps_add 1 tap0 tap1
	if ovs_attach tap0 tap1; then
		machines_bounded "Open vSwitch, vhost" vhost
		ovs_detach
	fi
	taps_remove tap0 tap1
}

# place_lower_kind KIND MODE
place_lower_kind()
{
	local at=()

	lower_attach "$1" "$2"
	at[0]=device=$path
	lower_attach "$1" "$2" lower1
	at[1]=device=$path
	machines_bounded "$1, vhost" vhost
	taps_remove lower0 lower1
}

place_lower()
{
	place_lower_kind macvtap bridge
	place_lower_kind ipvtap l2
}

# routed_taps: sets ${at[@]}
routed_taps()
{
	local i

	taps_add 1 tap0 tap1
	for i in 0 1; do
		routed_attach tap$i
		at[i]=device=tap$i,mac=$mac
	done
}

place_router()
{
	local at=()

	routed_taps
	machines_bounded "routed, vhost" vhost
	taps_remove tap0 tap1
}

place_ifb()
{
	local at=()

	routed_taps
	root_remove
	ifb_attach tap0 tap1
	machines_bounded "routed after an ifb, vhost" vhost
	ifb_detach
	taps_remove tap0 tap1
}

# kernel_cell: $place and $shaper
kernel_cell()
{
	local sent received part again host_p50 host_p99 guest_p50 guest_p99 cc sndbuf=$bounded

	[ "$place" != process ] || sndbuf=none
	rival "$shaper" ${rate}mbit
	measure_udp 1
	echo "{ \"udp_sent\": $sent, \"udp_lost\": $((sent - received))," >"$report"
	for cc in cubic bbr; do
		rival "$shaper" ${rate}mbit
		measure_tcp $cc
		echo "\"${cc}_part\": $part, \"${cc}_again\": $again," >>"$report"
	done
	rival "$shaper" ${rate}mbit
	measure_halves
	echo "\"machine_part\": ${share[1]}," >>"$report"
	rival "$shaper" ${rate}mbit
	measure_probe
	# If an answer is missing, more than any other has.
	echo "\"host_p99_ms\": ${host_p99/lost/9999}, \"guest_p99_ms\": ${guest_p99/lost/9999} }" >>"$report"
	save machines "$shaper" case kernel attached "$place" sndbuf "$sndbuf" rate ${rate}mbit
}

machines_kernel()
{
	local place shaper

	# shellcheck source-path=SCRIPTDIR/.. source=lib/qemu.sh
	. "$here/lib/qemu.sh"
	# shellcheck source-path=SCRIPTDIR/.. source=lib/machines_real.sh
	. "$here/lib/machines_real.sh"
	on_rx iperf -s -u >/dev/null 2>&1 &
	on_rx iperf -s >/dev/null 2>&1 &
	for place in ${PLACES:-$real_places}; do
		is_function "real_$place" && real_attach "$place" || continue
		for shaper in ${RIVALS:-bpshaper tbf}; do
			kernel_cell
		done
		unshape
		real_detach "$place"
	done
}

# Some places are of one kind of machine only.
is_function() { declare -F "$1" >/dev/null; }

part_machines()
{
	local at=(device=tap0 device=tap1) queues=1 place cases=${CASES:-overload shares kernel}

	# shellcheck source-path=SCRIPTDIR/.. source=lib/peers.sh
	. "$here/lib/peers.sh"
	# shellcheck source-path=SCRIPTDIR/.. source=lib/machines.sh
	. "$here/lib/machines.sh"
	peers_routes
	machines_prepare
	vhost_load
	[ "$cases" = kernel ] ||
		for place in ${PLACES:-$machines_places}; do
			! is_function "place_$place" || "place_$place"
		done
	[[ $cases != *kernel* ]] || machines_kernel
}
