#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Bulk TCP: nothing is dropped, fewer segments are sent again than through tbf, and
# the link is as full. With IPv6, with BBR, with 500 streams, and with GSO packets that
# must be segmented and others that need not. Requests and their answers beside it. What
# runs over TCP, kernel TLS and MPTCP, and the other calls that send: see
# bpsocket_stream.c.

# shellcheck source=lib/bpsocket.sh
. "$(dirname "$0")/lib/bpsocket.sh"

# tcp NAME RATE TBF_BURST TBF_LIMIT OPTIONS...
tcp()
{
	local name=$1 rate=$2 burst=$3 limit=$4 goodput retrans

	shift 4
	shape tbf rate "$rate" burst "$burst" limit "$limit"
	send --seconds 3 "$@"
	goodput=$(result tcp_goodput_mbit_per_s)
	retrans=$(result tcp_retransmitted_segments)

	shape bpshaper rate "$rate" burst "$burst" limit "$limit"
	send --seconds 3 "$@"
	echo "# $name: largest backlog $(stat max_backlog) bytes, limit $limit"
	check_num "$name: nothing is dropped" "$(stat drops)" == 0 packets
	check_num "$name: fewer segments are sent again than through tbf" \
		"$(result tcp_retransmitted_segments)" '<' "$((retrans + 1))"
	check_num "$name: goodput is that of tbf" \
		"$(result tcp_goodput_mbit_per_s)" '>=' \
		"$(awk "BEGIN { print $goodput * 0.99 }")" Mbit/s
	check_num "$name: flows get equal bytes" \
		"$(result tcp_jain_index)" '>=' 0.99
	check "$name: no socket is held afterwards" wait_until 5 no_socket_is_held
}

topology_make
tcp "8 flows, 200 Mbit/s" 200mbit 20kb 200k --tcp 8
check_num "streams were throttled" "$(stat throttles)" '>' 0
check_num "GSO packets larger than the burst were segmented" \
	"$(stat segments)" '>' 0
tcp "8 flows, 20 Mbit/s" 20mbit 5kb 30k --tcp 8
tcp "4 flows, 20 Mbit/s, BBR" 20mbit 5kb 60k --tcp 4 --cc bbr
check_num "streams of BBR were throttled" "$(stat throttles)" '>' 0
dst=fd99::2
tcp "4 flows, IPv6" 100mbit 20kb 100k --tcp 4
dst=10.99.0.2
tcp "8 flows, 500 Mbit/s, GSO packets leave whole" 500mbit 125kb 1mb --tcp 8
check_num "none was segmented" "$(stat segments)" == 0

# Streams may hold two GSO packets each, whatever they are told: that is what the
# default of memory_limit has room for.
shape bpshaper rate 200mbit
send --tcp 500 --seconds 10
echo "# 500 flows: largest backlog $(stat max_backlog) bytes, memory_limit $(stat memory_limit)"
check_num "nothing of 500 flows is dropped" "$(stat drops)" == 0 packets
check_num "500 flows get equal bytes" "$(result tcp_jain_index)" '>=' 0.99

# request_us CASE SHAPER...: time of a request, beside eight streams
request_us()
{
	shape "${@:2}"
	send --tcp 8 --seconds 4 &
	sleep 1
	bpsocket tcp 10.99.0.2 "$1"
	wait
}

# requests CASE TIMES: at least that much sooner than through tbf
requests()
{
	local behind_tbf us

	behind_tbf=$(request_us "$1" tbf rate 20mbit burst 5kb limit 60k)
	us=$(request_us "$1" bpshaper rate 20mbit burst 5kb limit 60k)
	echo "# $1: $us us each, through tbf $behind_tbf us"
	check_num "$1 are answered $2 times sooner than through tbf" \
		"$us" '<' "$((${behind_tbf:-0} / $2))" us
	check "$1: no socket is held afterwards" wait_until 5 no_socket_is_held
}
requests requests_small 10	# no more than the share: they wait for nobody
requests requests_large 1

# The peer of each compares all bytes. The limit is less than what a stream queues.
shape bpshaper rate 5mbit limit 5k
one tcp IPv4 10.99.0.2 "bulk bulk_more bulk_sendfile bulk_zerocopy"
one tcp IPv6 fd99::2 "bulk bulk_zerocopy"
one tls IPv4 10.99.0.2 "bulk bulk_more bulk_sendfile"
one tls IPv6 fd99::2 "bulk"
one mptcp IPv4 10.99.0.2 "bulk bulk_more bulk_sendfile"
one mptcp IPv6 fd99::2 "bulk"
check_num "nothing of them was dropped" "$(stat drops)" == 0
one tcp IPv4 10.99.0.2 "bulk_huge"

# Two paths from one socket: a second address makes a second subflow.
must on_tx ip addr add 10.99.0.3/24 dev txdev
must on_rx ip neigh replace 10.99.0.3 dev rxdev nud permanent \
	lladdr "$(mac_of "$tx" txdev)"
if on_tx ip mptcp endpoint add 10.99.0.3 dev txdev subflow; then
	on_tx ip mptcp limits set subflow 2
	on_rx ip mptcp limits set subflow 2
	one mptcp "IPv4, two subflows" 10.99.0.2 "bulk"
	check_num "there were two subflows" "$(on_tx nstat -asz MPTcpExtMPJoinSynAckRx |
		awk '/MPJoin/ { print $2 }')" '>' 0
else
	skip "mptcp, two subflows" "this kernel has no MPTCP"
fi

# Pure ACKs of a download, while unlimited senders fill the shaper: their socket may
# not send more of them than it gets to, but none is dropped, nor is it throttled.
shape bpshaper rate 20mbit burst 20kb limit 100k
send --udp 4 --seconds 4 &
sleep 0.5
iperf3_server
on_tx timeout 60 iperf3 -c 10.99.0.2 -R -t 2 -b 100M -J >/tmp/download 2>&1
wait
check_num "a download goes on beside unlimited senders" \
	"$(sed -n '/"sum_received"/,/}/p' /tmp/download |
		json_get bits_per_second)" '>=' 80e6 bit/s
check_num "and its ACKs are not dropped" "$(stat drops)" == 0
check_num "nor is anything of the senders lost" "$(result udp_lost_packets)" == 0

# A packet that cannot be segmented and is larger than the burst must still leave.
shape bpshaper rate 10mbit burst 1000
send --udp 2 --seconds 1
check_num "packets larger than the burst leave" \
	"$(result udp_payload_goodput_mbit_per_s)" '>=' 9 Mbit/s
check_num "and are not dropped" "$(stat drops)" == 0
finish
