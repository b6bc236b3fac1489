#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Filters without classes: they drop and take packets of an idle qdisc and of one with a
# backlog, after a change of options, and after the last class has gone. Whom they give a
# class that is not there, or none, loses nothing and takes the short path.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"

# filter_set WORDS...: the only filter of the qdisc
filter_set()
{
	on_tx tc filter del dev txdev parent 1: 2>/dev/null
	must on_tx tc filter add dev txdev parent 1: protocol ip prio 1 "$@"
}

# sparse: sends what finds the qdisc empty; says what was counted of it
sparse()
{
	local before

	before="$(stat drops) $(stat direct_packets)"
	peers 0.1 0 a:udp,pace=1000
	read -r dropped direct <<<"$before"
	dropped=$(($(stat drops) - dropped)) direct=$(($(stat direct_packets) - direct))
}

# drops NAME: all of it
drops()
{
	sparse
	check_num "$1: it drops what finds the qdisc empty" "$dropped" == "$(got a_sent)" packets
}

# passes NAME
passes()
{
	sparse
	check_num "$1: nothing is lost" "$(got a_lost)" == 0 packets
	check_num "$1: it takes the short path" "$direct" '>=' "$(got a_sent)" packets
}

# The length of the IP packet tells whose it is.
loaded()
{
	filter_set u32 match u16 528 0xffff at 2 action drop
	peers 1 200 a:udp,sockets=2,size=500 b:udp,sockets=4
	check_num "a filter drops beside a backlog" "$(got a_mbit)" == 0 Mbit/s
	check_num "the others get the rate" "$(got b_mbit)" '>=' 99 Mbit/s
	check_num "what no filter drops is not lost" "$(got b_lost)" == 0 packets
}

main()
{
	shape handle 1: bpshaper rate 100mbit
	passes "no filter"
	loaded
	filter_set matchall action drop
	drops "without classes"
	must on_tx tc qdisc change dev txdev root bpshaper rate 90mbit
	drops "after a change"
	class 1: 1:10
	drops "beside a class"
	must on_tx tc class del dev txdev classid 1:10
	drops "after the last class"
	filter_set matchall action trap
	sparse
	check_num "a filter takes packets" "$(got a_lost)" == "$(got a_sent)" packets
	check_num "which are no drops" "$dropped" == 0 packets
	filter_set matchall flowid 1:10
	passes "a class that is not there"
	must on_tx tc filter del dev txdev parent 1:
	passes "the filter has gone"
	check "no socket is held afterwards" wait_until 5 no_socket_is_held
}

peers_topology
# What IPv6 sends of its own would be counted.
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
main
finish
