#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# A flow is named after a socket, and may use it only as long as something holds it. The
# packets do, but not all alike: of the segments of a packet socket's GSO packet the kernel
# gives the socket to one. Each of these sockets is closed as soon as it has sent, and
# the classes are listed. A debug kernel (KASAN) sees whoever touches a freed socket.
#
#  1. Each segment holds the socket, and its own part of what the packet was charged: the
#     charge falls as the segments leave, and is 0 when the last one has.
#  2. However the backlog of closed sockets ends, all is uncharged, and the sockets are
#     freed.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

# A packet of bpvnet: 60,000 bytes of payload by 1400.
segments=43
burst="burst 3028"	# two packets of the MTU: what is larger is segmented
sockets=8

# A netns is freed when the last socket in it is: see ends.sh.
topology_signed()
{
	topology_make
	on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
	ip link add bps-sign type veth peer name sign netns "$tx"
}

netns_is_gone() { ! ip link show bps-sign; }

vnet() { on_tx "$bpvnet" txdev "$@"; }

list_classes() { on_tx tc -s class show dev txdev >/dev/null; }

change() { on_tx tc qdisc change dev txdev root bpshaper "$@"; }

# drained NAME: what is still queued leaves, and then nothing is left
drained()
{
	change rate 1gbit
	check "$1: nothing is held when all has left" wait_until 10 no_socket_is_held
}

# A share of more than the packet: without ballast.
charge_falls()
{
	local name="while its segments leave" said charge

	# shellcheck disable=SC2086 # words
	shape bpshaper rate 2mbit $burst limit 200k share_min 200k
	said=$(vnet -w)
	charge=$(json_value charge_first "$said")
	echo "# $said"
	check_num "$name, the socket is charged for all of them" "$charge" '>=' 60000
	check_num "$name, its charge falls step by step" \
		"$(json_value charge_steps "$said")" '>=' $((segments / 2)) steps
	check_num "$name, by a small part each" \
		"$(json_value charge_step_max "$said")" '<=' $((charge / 8)) bytes
	check_num "$name, it never rises" "$(json_value charge_rises "$said")" == 0
	check_num "when they have left it is 0" "$(json_value charge_last "$said")" == 0
	check "when they have left nothing is held" no_socket_is_held

	# shellcheck disable=SC2086 # words
	shape bpshaper rate 10mbit $burst limit 30k
	said=$(vnet -n 4 -w)
	check_num "throttled: its charge is 0 when its packets have left" \
		"$(json_value charge_last "$said")" == 0
	check_num "throttled: it was" "$(stat throttles)" '>' 0
	check "throttled: nothing is held" no_socket_is_held
}

# ends NAME SHAPER COMMAND...: the backlog of closed sockets does by that
ends()
{
	local name=$1

	# shellcheck disable=SC2086 # words
	shape bpshaper $burst $2
	shift 2
	vnet -c -t $sockets >/dev/null
	vnet -c -u -t $sockets >/dev/null
	vnet -c -n 0 -t 2 >/dev/null
	check "$name: there is a backlog of sockets that are closed" \
		[ "$(stat qlen)" -gt 1 ]
	list_classes
	check "$name: the command works" "$@"
	list_classes
}

# ended NAME SHAPER COMMAND...: nothing of it is left
ended()
{
	ends "$@"
	if on_tx tc qdisc show dev txdev | grep -q 'bpshaper.*root'; then
		drained "$1"
	fi
}

links_down_up()
{
	ip -n "$1" link set "$2" down
	list_classes
	links_up
}

topology_signed
charge_falls
slow="rate 100kbit limit 200k"
ended "drain" "$slow" change rate 1gbit
ended "del" "$slow" on_tx tc qdisc del dev txdev root
ended "replace by another kind" "$slow" on_tx tc qdisc replace dev txdev root pfifo
ended "replace by another shaper" "$slow" \
	on_tx tc qdisc replace dev txdev root handle 77: bpshaper rate 8bit
ended "link down" "$slow" links_down_up "$tx" txdev
ended "carrier loss" "$slow" links_down_up "$rx" rxdev
ended "a smaller limit" "$slow" change limit 3k
ended "without backpressure from now on" "$slow" change backpressure off
ended "memory_limit" "$slow memory_limit 64k" change memory_limit 1mb
check_num "memory_limit: it was reached" "$(stat drops_memory)" '>' 0
ended "pool" "rate 100kbit limit 20k backpressure off" change backpressure on
check_num "pool: it was full" "$(stat drops_pool)" '>' 0
ended "paced" "maxrate 100kbit limit 200k" change maxrate unlimited
ip netns del "$tx"
check "the sockets are freed, and with them their netns" wait_until 30 netns_is_gone
finish
