#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# A virtual machine's path: a process writes frames to a tap, a bridge passes them on,
# the shaper is on the bridge's other port. The tap has a send buffer, so the
# process is told to wait.
#
#	process --> tap0 --+-- br0 --+-- txdev (shaper) ----> rxdev
#
# A tap without one (the default) gets one from its first throttle until it has drained.
#
# By itself the kernel wakes a tap's writer only if poll() has found no room: one
# asleep in write(), or in epoll_wait() for an edge, would sleep for good.

# shellcheck source=lib/bpsocket.sh
. "$(dirname "$0")/lib/bpsocket.sh"

bridge_make()
{
	on_tx sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
		net.ipv6.conf.default.disable_ipv6=1
	on_tx ip addr flush dev txdev
	must on_tx ip link add br0 type bridge mcast_snooping 0
	must on_tx ip tuntap add tap0 mode tap
	for port in txdev tap0; do
		must on_tx ip link set $port master br0
		must on_tx ip link set $port up
	done
	must on_tx ip link set br0 up
}

topology_make
must modprobe tun
device=tap0
bridge_make
shape bpshaper rate 1mbit limit 8k
one tap frames - "nonblocking poll select epoll_level epoll_edge blocking restart
	uring_poll plain tries closes"
one tap-unbounded frames - "nonblocking poll select epoll_level epoll_edge blocking restart
	uring_poll plain tries bounded closes"
one tap-gso segmented - "gso"
check_num "GSO frames larger than the burst were segmented" \
	"$(stat segments)" '>' 0
check_num "nothing was dropped" "$(stat drops)" == 0

shape bpshaper rate 10mbit burst 20k limit 20k
one tap-gso whole - "gso"
check_num "others left whole" "$(stat segments)" == 0
check_num "and were not dropped" "$(stat drops)" == 0
finish
