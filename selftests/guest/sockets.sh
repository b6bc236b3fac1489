#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What the owner of a throttled socket sees, for every kind of socket, IPv4 and
# IPv6: see the cases in bpsocket.c. The shaper is slow (a packet takes 50 ms) so
# that a socket stays throttled while the test looks at it.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

waiting="nonblocking poll epoll_level epoll_edge blocking timeout grows drains closes"

# one TYPE FAMILY DST CASES
one()
{
	local before case

	for case in $4; do
		before=$(stat throttles)
		check "$1, $2: $case" on_tx "$bpsocket" "$1" "$3" "$case" txdev
		check_num "$1, $2: $case was throttled" \
			"$(stat throttles)" '>' "$before"
		check "$1, $2: $case leaves nothing" \
			wait_until 60 no_socket_is_held
	done
}

topology_make
on_tx sysctl -qw net.ipv4.ping_group_range="0 1000"
shape bpshaper rate 200kbit limit 8k
for type in udp udplite ping hdrincl; do
	if [ $type = udplite ] &&
	   on_tx "$bpsocket" udplite $nobody nonblocking | grep -q ^socket:; then
		skip "udplite" "this kernel has no UDP-Lite"
		continue
	fi
	one $type IPv4 $nobody "$waiting"
	# ping6 sockets never sleep: the kernel sends as if told MSG_DONTWAIT.
	[ $type != ping ] || waiting=${waiting/ blocking/}
	one $type IPv6 $nobody6 "$waiting"
done
one packet frames - "$waiting"
one raw IPv4 $nobody "enobufs"
one raw IPv6 $nobody6 "enobufs"
check_num "none of their packets was dropped" "$(stat drops)" == 0
finish
