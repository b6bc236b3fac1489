#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Ways to send, IPv4 and IPv6: the socket has to wait, in poll() and in the call, and
# all that it sent arrives, once and whole. AF_XDP passes no qdisc. See the cases in bpsocket_send.c and
# bpsocket_link.c; for streams there is tcp.sh.

# shellcheck source=lib/bpsocket.sh
. "$(dirname "$0")/lib/bpsocket.sh"

datagrams="plain recverr batches segments zerocopy more more_fragments cork fragments
	threads processes resized"

# Networks of which $rx has every address.
many=10.98.0.1 many6=fd98::1
many_addresses()
{
	must on_tx ip route add 10.98.0.0/24 via 10.99.0.2
	must on_tx ip route add fd98::/64 via fd99::2
	must on_rx ip route add local 10.98.0.0/24 dev lo
	must on_rx ip route add local fd98::/64 dev lo
}

# The same case through tbf, to see that it can fail.
tbf_fails()
{
	local out

	out=$(bpsocket "$2" "$3" "$4") && return 1
	[[ $out == *"$1"* ]]
}

topology_make
many_addresses
shape tbf rate 1mbit burst 5kb limit 8k
check "through tbf, a socket with IP_RECVERR is told ENOBUFS" \
	tbf_fails "No buffer space" udp 10.99.0.2 recverr
check "through tbf, a socket is not made to wait" \
	tbf_fails "not throttled" udp 10.99.0.2 plain

shape bpshaper rate 1mbit limit 8k share_min 3028
one udp IPv4 10.99.0.2 "$datagrams"
one udp IPv6 fd99::2 "$datagrams"
one udp IPv4 $many destinations
one udp IPv6 $many6 destinations
one packet frames - "plain bypass ring"
check_num "nothing was dropped" "$(stat drops)" == 0
shape bpshaper rate 1mbit
if went_well "AF_XDP: xdp" packet - xdp; then
	check_num "no frame of AF_XDP has passed the shaper" "$(stat packets)" '<' 10
fi
finish
