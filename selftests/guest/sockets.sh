#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What the owner of a throttled socket sees, for every kind of socket, IPv4 and
# IPv6: see the cases in bpsocket_wait.c. The shaper is slow (a packet takes 50 ms)
# so that a socket stays throttled while the test looks at it. And what SIOCOUTQ and
# ss -m say of it meanwhile.

# shellcheck source=lib/bpsocket.sh
. "$(dirname "$0")/lib/bpsocket.sh"

waiting="nonblocking poll select epoll_level epoll_edge sigio blocking restart
	timeout uring_send uring_poll grows shrinks drains closes"
# The buffer of a stream is not what is charged when it is throttled.
stream="poll select epoll_level epoll_edge sigio blocking restart timeout
	uring_send uring_poll drains closes"

# without CASES WORDS...: CASES but those
without()
{
	local cases=" ${*:2} "

	tr -s '[:space:]' '\n' <<<"$1" | while read -r case; do
		[[ $cases == *" $case "* ]] || echo "$case"
	done
}

topology_make
on_tx sysctl -qw net.ipv4.ping_group_range="0 1000"
shape bpshaper rate 200kbit limit 8k
for type in udp hdrincl; do
	one $type IPv4 $nobody "$waiting"
	one $type IPv6 $nobody6 "$waiting"
done
if [[ $(uname -r) == 5.10.* ]]; then
	# There they are like raw sockets.
	one ping IPv4 $nobody "enobufs"
	one ping IPv6 $nobody6 "enobufs"
else
	# When a ping socket has no room it has eaten the header: some kernels' io_uring
	# then sends the rest, and that is refused.
	one ping IPv4 $nobody "$(without "$waiting" uring_send)"
	# Those of IPv6 never sleep: the kernel sends as if told MSG_DONTWAIT.
	one ping IPv6 $nobody6 "$(without "$waiting" uring_send blocking restart)"
fi
one udplite IPv4 $nobody "poll blocking drains"
one udplite IPv6 $nobody6 "poll blocking drains"
one packet frames - "$waiting"
one udp IPv4 $nobody "uring_zerocopy uring_multishot large"
one raw IPv4 $nobody "enobufs"
one raw IPv6 $nobody6 "enobufs"
check_num "none of their packets was dropped" "$(stat drops)" == 0
# These are the pool's while their buffer is huge, and dropped when it is full.
one udp IPv4 $nobody "huge_later huge"
check_num "what cannot be held for its send buffer is counted" "$(stat unheld_sndbuf)" '>' 0

# TCP with a long round trip queues two packets of two segments: more than this share.
shape bpshaper rate 200kbit limit 3k
one tcp IPv4 10.99.0.2 "$stream"
one tcp IPv6 fd99::2 "poll blocking sigio drains"
one tls IPv4 10.99.0.2 "poll epoll_edge blocking sigio uring_send drains"
one mptcp IPv4 10.99.0.2 "poll epoll_edge blocking sigio uring_send"
one smc IPv4 10.99.0.2 "poll blocking"
check_num "none of their segments was dropped" "$(stat drops)" == 0
# It waits for what it counts itself, so what it is charged would not hold it.
shape bpshaper rate 10mbit
if went_well "sctp, IPv4: bulk" sctp 10.99.0.2 bulk; then
	check_num "sctp is not throttled" "$(stat throttles)" == 0
	check_num "and counted as the kernel's own" "$(stat unheld_control)" '>' 100
fi

# look TYPE DST SS_OPTIONS...: what the socket says of itself while it is throttled, in
# $outq, $charge, $sndbuf and $sent; the most that ss -m says of its memory, in $during
# and, when the shaper has gone, in $after; false after a skip
look()
{
	local pid

	shape bpshaper rate 8kbit limit 8k
	mkfifo /tmp/shows
	ip netns exec "$tx" "$bpsocket" "$1" "$2" shows txdev "$rx" >/tmp/shows &
	pid=$!
	read -r outq charge sndbuf sent </tmp/shows
	if [ "$outq" = this ]; then
		skip "$1: what ss shows" "$outq $charge $sndbuf $sent"
		rm /tmp/shows
		return 1
	fi
	during=$(skmem "${@:3}")
	unshape
	after=1
	wait_until 10 is_uncharged "${@:3}"
	kill $pid
	rm /tmp/shows
	echo "# $1: $sent bytes in a buffer of $sndbuf, SIOCOUTQ $outq, charge" \
		"$charge, ss $during and then $after"
}

# skmem SS_OPTIONS...: the largest t of "skmem:(r0,rb212992,t231424,tb212992,..."
skmem()
{
	on_tx ss -Hnm "$@" | sed -n 's/.*skmem:([^)]*,t\([0-9]*\),.*/\1/p' |
		sort -n | tail -n 1
}

is_uncharged()
{
	after=$(skmem "$@")
	[ "$after" = 0 ]
}

for kind in "udp $nobody -au" "hdrincl $nobody -aw" "packet - -a0"; do
	# shellcheck disable=SC2086 # words
	look $kind || continue
	check_num "${kind%% *}: SIOCOUTQ has the ballast" "$outq" '>' "$sndbuf"
	check_num "${kind%% *}: and is what the socket is charged" \
		"$outq" == "$charge" bytes
	check_num "${kind%% *}: and little more" "$outq" '<' $((sndbuf + 40000))
	check_num "${kind%% *}: ss -m has it" "$during" '>' "$sndbuf" bytes
	check_num "${kind%% *}: and then no more" "$after" == 0 bytes
done
for kind in "tcp 10.99.0.2 -t" "tls 10.99.0.2 -t" "mptcp 10.99.0.2 -tM"; do
	# shellcheck disable=SC2086 # words
	look $kind || continue
	# kTLS adds a header and a tag to each record
	check_num "${kind%% *}: SIOCOUTQ has bytes of the stream only" \
		"$outq" '<=' $((sent + sent / 20))
	check_num "${kind%% *}: ss -m has the ballast" "$during" '>=' $((1 << 24))
	check_num "${kind%% *}: and then no more" "$after" == 0 bytes
done
finish
