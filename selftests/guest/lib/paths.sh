# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# Does a packet get to a shaper with its owner? What devices.sh and paths.sh share, whose drawing the
# first has. Sourced, never run.

# shellcheck source-path=SCRIPTDIR/.. source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=lib/tunnels.sh
. "$here/lib/tunnels.sh"

pod=bps-pod$$
options="rate 10mbit" sndbuf=4194304

in_netns() { ip netns exec "$@"; }

# at NETNS DEVICE KEY: of its root qdisc
at() { json_value "$3" "$(in_netns "$1" tc -s -j qdisc show dev "$2" root)"; }

no_qdisc() { in_netns "$1" tc qdisc del dev "$2" root; }

# shape_at NETNS DEVICE [OPTIONS]: a new one, counters at zero
shape_at()
{
	no_qdisc "$1" "$2" 2>/dev/null
	# shellcheck disable=SC2086 # words
	in_netns "$1" tc qdisc add dev "$2" root bpshaper ${3:-$options}
}

# Neighbours here are not all static: packets that wait for one do not count.
reach() { wait_until 5 in_netns "$1" ping -c 1 -W 1 "$2"; }

# flood NETNS DST: unlimited senders. No tunnel needs fragments, which the receiver may lose: the
# numbers of two sockets' datagrams may meet, for each counts from a random start.
flood()
{
	# shellcheck disable=SC2086 # words
	tx=$1 dst=$2 send ${kinds:---udp 4 --tcp 2} --size ${size:-1300} --sndbuf "$sndbuf" \
		--seconds 0.25 --warmup-ms 0 --drain-ms 300
}

is_empty() { [ "$(at "$1" "$2" qlen)" = 0 ]; }

# throttled_at NAME NETNS DEVICE
throttled_at()
{
	check "$1: its queue is empty in the end" wait_until 5 is_empty "$2" "$3"
	check_num "$1: sockets were throttled" "$(at "$2" "$3" throttles)" '>' 0
	check_num "$1: all of them were released" \
		"$(at "$2" "$3" unthrottles)" == "$(at "$2" "$3" throttles)"
	check_num "$1: nothing was dropped" "$(at "$2" "$3" drops)" == 0
}

# lossless NAME SENDERS' NETNS DST NETNS DEVICE: shaped there
lossless()
{
	check "$1: the receiver is reached" reach "$2" "$3"
	shape_at "$4" "$5"
	flood "$2" "$3"
	check_num "$1: sockets lose nothing" "$(result udp_lost_packets)" == 0
	throttled_at "$1" "$4" "$5"
}

# unowned NAME SENDERS' NETNS DST NETNS DEVICE: what comes there has no socket, or with $some some
# of it
unowned()
{
	check "$1: the receiver is reached" reach "$2" "$3"
	shape_at "$4" "$5"
	flood "$2" "$3"
	[ "${some-}" ] || check_num "$1: no socket is throttled" "$(at "$4" "$5" throttles)" == 0
	check_num "$1: the pool drops" "$(at "$4" "$5" drops_pool)" '>' 0
	check_num "$1: what has no owner is counted" \
		"$(at "$4" "$5" unheld_no_owner)" '>=' "$(at "$4" "$5" drops_pool)"
}

# addresses DEVICE NET: for the devices of that name on both sides; NET is 10.98.1. or fd98::
addresses()
{
	local bits=24

	[[ $2 != *: ]] || bits="64 nodad"
	# shellcheck disable=SC2086 # words
	must ip -n "$tx" addr add "${2}1/"$bits dev "$1"
	# shellcheck disable=SC2086 # words
	must ip -n "$rx" addr add "${2}2/"$bits dev "$1"
	must ip -n "$tx" link set "$1" up
	must ip -n "$rx" link set "$1" up
}

gone()
{
	ip -n "$tx" link del "$1"
	ip -n "$rx" link del "$1"
}

pod_make()
{
	must ip netns add $pod
	ip -n $pod link set lo up
	ip link add eth0 netns $pod type veth peer name podhost netns "$tx"
	must ip -n "$tx" link set podhost up
	ip -n $pod link set eth0 up
}

trap 'ip netns del $pod 2>/dev/null; topology_remove' EXIT
topology_make
ip -n "$tx" neigh flush dev txdev nud permanent
ip -n "$rx" neigh flush dev rxdev nud permanent
