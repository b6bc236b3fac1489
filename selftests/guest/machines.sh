#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# A virtual machine that sends more than its host lets it waits and loses nothing, by each way of
# attaching it. With vhost-net its tap needs a send buffer. Where it has none, or the host routes or
# copies before the shaper, it loses: that is asserted too, or the others would prove nothing.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"
# shellcheck source=lib/machines.sh
. "$(dirname "$0")/lib/machines.sh"

on_bridge()
{
	local kind

	taps_add 1 tap0 tap1
	bridge_attach tap0 tap1
	for kind in tap vhost; do
		waited "bridge, $kind" $kind,device=tap0,sndbuf=$bounded
		waited "bridge, $kind, a large send buffer" $kind,device=tap0,sndbuf=$((1 << 28))
	done
	waited "bridge, tap, no send buffer" tap,device=tap0
	lost "bridge, vhost, no send buffer" vhost,device=tap0
	vhost_load experimental_zcopytx=1
	waited "bridge, vhost with zero copy" vhost,device=tap0,sndbuf=$bounded
	waited "bridge, vhost with zero copy, no send buffer" vhost,device=tap0
	vhost_load
}

# counted NAME SENDER [NETNS]: as waited, where the shaper, $shaped of NETNS, comes after what sees frames
# arrive, so that it counts
counted()
{
	local at=${3:-$tx} queued

	peers 1 300 "g:$2,pace=$machine_pace"
	queued=$(tx=$at stat packets)
	echo "# $1: $queued frames, no room for $(got g_full_part) of the time"
	check_num "$1: they leave" "$queued" '>' 1000 frames
	check_num "$1: its driver had to wait" "$(got g_full_part)" '>' 0.3
	check_num "$1: its queue is held" "$(tx=$at stat throttles)" '>' 10 times
	check_num "$1: nothing is dropped" "$(tx=$at stat drops)" == 0 packets
	tx=$at check "$1: and released afterwards" wait_until 5 no_socket_is_held
}

# A veth copies what it forwards, and vhost-net learns from that to copy by itself. A dummy does not, so
# that what waits in the queue is the machine's memory. Nothing arrives, so the shaper counts.
zero_copy()
{
	vhost_load experimental_zcopytx=1
	must ip -n "$tx" link set txdev nomaster
	must ip -n "$tx" link add dummy0 master br0 type dummy
	must ip -n "$tx" link set dummy0 up
	shaped=dummy0
	shape bpshaper rate ${machine_mbit}mbit
	counted "vhost with zero copy, an uplink that keeps it" vhost,device=tap0,sndbuf=$bounded
	shaped=txdev
	must ip -n "$tx" link del dummy0
	must ip -n "$tx" link set txdev master br0
	vhost_load
}

# A pod of KubeVirt with the binding bridge, where the node limits it: the pod is $tx, and the node $rx.
on_node()
{
	local shaped=ifb0

	must modprobe ifb numifbs=0
	must ip -n "$rx" link add ifb0 up type ifb
	must tc -n "$rx" qdisc add dev rxdev clsact
	must tc -n "$rx" filter add dev rxdev ingress matchall action mirred egress redirect dev ifb0
	must tc -n "$rx" qdisc add dev ifb0 root bpshaper rate ${machine_mbit}mbit
	counted "bridge, an ifb of the node, vhost" vhost,device=tap0,sndbuf=$bounded "$rx"
	must ip -n "$rx" link del ifb0
	must tc -n "$rx" qdisc del dev rxdev clsact
}

# Beside a machine on tap0, which sends all it can.
beside()
{
	local kind

	for kind in tap vhost; do
		machines "a sender of the host beside $kind" g:$kind,device=tap0,sndbuf=$bounded h:udp
		check_num "it has half of the rate, at least - 5 %" "$(got h_part)" '>=' 0.475
		check_num "and at most + 5 %" "$(got h_part)" '<=' 0.525
		echo "# a sender of the host beside $kind: $(got h_part) of the rate"
		check_num "neither loses anything" $(($(got g_lost) + $(got h_lost))) == 0 packets

		machines "a sparse machine beside $kind" g:$kind,device=tap0,sndbuf=$bounded \
			p:$kind,device=tap1,sndbuf=$bounded,every=5000
		echo "# a sparse machine beside $kind: $(got p_delay_p50_ms) ms (p50)," \
			"$(got p_delay_p99_ms) ms (p99)"
		check_num "it waits for two packets at the rate at most (p99)" \
			"$(got p_delay_p99_ms)" '<=' 1.21 ms
		check_num "and loses nothing" "$(got p_lost)" == 0 frames
	done
}

# bound_later NAME SENDER TAPS [has_pid]: a machine that runs without a send buffer gets one by TAPS
# file descriptors of it, or else by a queue more. vhost-net begins to wait as well, without a restart.
bound_later()
{
	local pid dropped

	shape bpshaper rate ${machine_mbit}mbit
	peers 2 1000 "g:$2,pace=$machine_pace" &
	pid=$!
	sleep 0.5
	check_num "$1: it loses frames at first" "$(stat drops_pool)" '>' 500 packets
	check_num "$1: no queue is held" "$(stat throttles)" == 0 times
	is "$1: it gets a send buffer" "$3" \
		"$(on_tx "$bpsndbuf" $bounded tap0 ${4:+"$(pgrep -P $pid -x bppeers || echo $pid)"})"
	sleep 0.2
	dropped=$(stat drops)
	wait $pid
	near "$1" "$(got g_mbit)" $machine_mbit 2
	check_num "$1: then it loses none" "$(stat drops)" == "$dropped" packets
	check_num "$1: its driver has to wait" "$(got g_full)" '>' 0 times
	check_num "$1: its queue is held" "$(stat throttles)" '>' 10 times
}

on_queues()
{
	local kind machine_pace=$((4 * machine_pace))

	taps_add 4 tap0
	must ip -n "$tx" link set tap0 master br0
	for kind in tap vhost; do
		waited "four queues, $kind" $kind,device=tap0,sockets=4,sndbuf=$bounded
		check_num "four queues, $kind: each gets as much (Jain)" "$(got g_jain)" '>=' 0.998
	done
	bound_later "four queues, a queue more" vhost,device=tap0,sockets=4 1
}

# What a bridge gives to the host as well, or to several ports, leaves as a copy without an owner.
# A shaper at the tap's ingress is before that.
copied()
{
	taps_add 1 tap0
	bridge_attach tap0
	# As tcpdump -i br0 does.
	must ip -n "$tx" link set br0 promisc on
	lost "promiscuous bridge, tap" tap,device=tap0,sndbuf=$bounded
	lost "promiscuous bridge, vhost" vhost,device=tap0,sndbuf=$bounded
	must ip -n "$tx" link set br0 promisc off
	# The destination has never sent anything, so the bridge does not know where it is. All ports
	# but the oldest get copies.
	must ip -n "$tx" link set txdev nomaster
	must ip -n "$tx" link add other0 type dummy
	must ip -n "$tx" link set other0 master br0 up
	must ip -n "$tx" link set txdev master br0
	lost "unknown destination, vhost" vhost,device=tap0,sndbuf=$bounded
	must ip -n "$tx" link del other0
	unshape
	must ip -n "$tx" link set br0 promisc on
	ifb_attach tap0
	waited "promiscuous bridge after an ifb, tap" tap,device=tap0,sndbuf=$bounded
	waited "promiscuous bridge after an ifb, vhost" vhost,device=tap0,sndbuf=$bounded
	ifb_detach
	bridge_detach
	taps_remove tap0
}

on_ovs()
{
	local status

	taps_add 1 tap0
	ovs_attach tap0
	status=$?
	is "there is a datapath of Open vSwitch" 0 $status
	waited "Open vSwitch, tap" tap,device=tap0,sndbuf=$bounded
	waited "Open vSwitch, vhost" vhost,device=tap0,sndbuf=$bounded
	ovs_detach
	taps_remove tap0
}

on_router()
{
	taps_add 1 tap0
	routed_attach tap0
	lost "routed, tap" tap,device=tap0,mac="$mac",sndbuf=$bounded
	lost "routed, vhost" vhost,device=tap0,mac="$mac",sndbuf=$bounded
	unshape
	ifb_attach tap0
	waited "routed after an ifb, tap" tap,device=tap0,mac="$mac",sndbuf=$bounded
	waited "routed after an ifb, vhost" vhost,device=tap0,mac="$mac",sndbuf=$bounded
	ifb_detach
	taps_remove tap0
	bridge_routes
}

# As with the binding masquerade of KubeVirt
bridge_routes()
{
	taps_add 1 tap0
	must ip -n "$tx" link add br0 up type bridge
	must ip -n "$tx" link set tap0 master br0
	routed_attach br0
	lost "bridge that routes, vhost" vhost,device=tap0,mac="$mac",sndbuf=$bounded
	bridge_detach
	taps_remove tap0
}

# Linux gives them a bounded send buffer by default.
on_lower()
{
	lower_attach "$1" "$2"
	waited "$1, tap" tap,device="$path"
	waited "$1, vhost" vhost,device="$path"
	lost "$1, vhost, no send buffer" vhost,device="$path",sndbuf=$unbounded
	taps_remove lower0
}

machines_topology
vhost_load
on_bridge
zero_copy
unshape
on_node
beside
bound_later "vhost, by its process" vhost,device=tap0 1 has_pid
taps_remove tap0 tap1
on_queues
taps_remove tap0
bridge_detach
copied
on_ovs
on_router
on_lower macvtap bridge
on_lower ipvtap l2
finish
