# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # for those who source it; by common.sh
#
# Virtual machines without a kernel of theirs (bppeers) on $tx, which is their host, and the ways to
# attach their taps. Sourced after common.sh, peers.sh and classes.sh, never run.
#
#	tap0 ---+                                 tap0 --- macvtap or ipvtap
#	        +--- br0 or an OVS datapath                |
#	tap1 ---+             |                          txdev (shaper) --->
#	                    txdev (shaper) --->
#
#	tap0 --- host routes --- txdev (shaper) --->
#	tap0 --- ifb0 (shaper) --- host routes --- txdev --->
#
# $shaped is where the shaper is. A machine is an argument of bppeers.

machine_mbit=20
machine_pace=200	# us; 3 times the rate, with frames of 1512 bytes
bounded=212992		# sndbuf, what Linux gives other sockets
unbounded=2147483647	# what QEMU asks for by default

machines_topology()
{
	peers_topology
	machines_prepare
}

machines_prepare()
{
	# What IPv6 says by itself would be counted.
	on_tx sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
	must modprobe tun
}

vhost_load() { rmmod vhost_net 2>/dev/null; must modprobe vhost_net "$@"; }

# machines NAME SENDERS...: for 0.7 s after a warm-up
machines()
{
	shape bpshaper rate ${machine_mbit}mbit
	check "$1: its frames are sent" peers 1 300 "${@:2}"
}

# threads_stuck: those of vhost-net and of machines that sleep and cannot be killed
threads_stuck()
{
	cat /proc/[0-9]*/task/[0-9]*/stat 2>/dev/null |
		sed -nE 's/^[0-9]+ \(((vhost-|bppeers)[^)]*)\) D .*/\1/p'
}

no_thread_is_stuck() { [ -z "$(threads_stuck)" ]; }

# rate_print NAME: what the table of virtual-machines.rst is made of
rate_print()
{
	echo "# $1: $(got g_sent) frames, $(got g_lost) lost, $(got g_mbit) Mbit/s;" \
		"no room for $(got g_full_part) of the time; frames $(got g_delay_p50_ms) ms old"
}

# waited NAME SENDER: a machine at three times the rate had to wait instead of losing anything
waited()
{
	machines "$1" "g:$2,pace=$machine_pace,ages"
	rate_print "$1"
	near "$1" "$(got g_mbit)" $machine_mbit 2
	check_num "$1: nothing is lost" "$(got g_lost)" == 0 frames
	check_num "$1: its driver had to wait" "$(got g_full)" '>' 0 times
	check_num "$1: for a good part of the time" "$(got g_full_part)" '>' 0.3
	check_num "$1: its queue is held" "$(stat throttles)" '>' 10 times
	check_num "$1: nothing is dropped" "$(stat drops)" == 0 packets
	check "$1: and released afterwards" wait_until 5 no_socket_is_held
}

# lost NAME SENDER: the opposite, at three times the rate. What is lost has been counted.
lost()
{
	local sent

	machines "$1" "g:$2,pace=$machine_pace,ages"
	rate_print "$1"
	sent=$(got g_sent)
	near "$1" "$(got g_mbit)" $machine_mbit 2
	check_num "$1: its driver did not wait" "$(got g_full)" == 0 times
	check_num "$1: no queue is held" "$(stat throttles)" == 0 times
	check_num "$1: most is lost" "$(got g_lost)" '>' $((sent * 64 / 100)) "frames of $sent"
	check_num "$1: all of that by the pool" "$(stat drops_pool)" == "$(got g_lost)" packets
}

# taps_add QUEUES TAP...: they stay when nobody has them open
taps_add()
{
	local tap queues=()

	[ "$1" = 1 ] || queues=(multi_queue)
	for tap in "${@:2}"; do
		must ip -n "$tx" tuntap add "$tap" mode tap vnet_hdr "${queues[@]}"
		must ip -n "$tx" link set "$tap" up
	done
}

taps_remove()
{
	local tap

	for tap; do
		must ip -n "$tx" link del "$tap"
	done
}

# bridge_attach TAP...: to a bridge, of which the uplink is a port as well
bridge_attach()
{
	local tap

	must ip -n "$tx" link add br0 type bridge mcast_snooping 0
	for tap; do
		must ip -n "$tx" link set "$tap" master br0
		# Their machines read nothing.
		must bridge -n "$tx" link set dev "$tap" flood off mcast_flood off
	done
	must ip -n "$tx" link set txdev master br0
	must ip -n "$tx" link set br0 up
}

bridge_detach() { must ip -n "$tx" link del br0; }

# ovs_attach TAP...: to a datapath of the kernel, of which the uplink is a port as well
ovs_attach()
{
	must modprobe openvswitch
	on_tx "$bpovs" dp0 txdev "$@"
}

ovs_detach() { must on_tx "$bpovs" dp0; }

# routed_attach TAP: the host is its router; sets $mac, to which its frames go
routed_attach()
{
	must ip -n "$tx" addr add 10.97.0.1/24 dev "$1"
	on_tx sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 \
		"net.ipv4.conf.$1.rp_filter=0" "net.ipv4.conf.$1.accept_local=1"
	mac=$(mac_of "$tx" "$1")
}

# ifb_attach TAP...: what comes from them goes to ifb0, where the shaper is, before the host routes it
ifb_attach()
{
	local tap

	must modprobe ifb numifbs=0
	must ip -n "$tx" link add ifb0 type ifb
	must ip -n "$tx" link set ifb0 up
	for tap; do
		must tc -n "$tx" qdisc add dev "$tap" clsact
		must tc -n "$tx" filter add dev "$tap" ingress matchall \
			action mirred egress redirect dev ifb0
	done
	shaped=ifb0
}

ifb_detach()
{
	must ip -n "$tx" link del ifb0
	shaped=txdev
}

# lower_attach KIND MODE [NAME]: a macvtap or ipvtap; sets $path
lower_attach()
{
	local name=${3:-lower0}

	must modprobe "$1"
	must ip -n "$tx" link add link txdev name "$name" type "$1" mode "$2"
	must ip -n "$tx" link set "$name" up
	path=/dev/tap$(on_tx cat /sys/class/net/"$name"/ifindex)
	must wait_until 5 test -c "$path"
}
