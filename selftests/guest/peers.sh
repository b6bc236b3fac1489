#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Sockets with many peers: flows by peer, backpressure by socket. Only in icount mode.
#
#  1. fair: a socket with 16 peers has half of the rate beside 16 sockets, within 5 %, and all
#     32 receivers get the same (Jain 0.99), whatever the send buffers and the way to wait
#  2. thousand: beside a socket with 1000 peers a bulk socket has 1/1001, within 20 %, and a
#     sparse one waits at most 0.2 ms (p99)
#  3. many: and beside a socket with 100,000 peers, whose backlog is that of 1024 at most, and the
#     bulk socket keeps a ninth
#  4. times: a packet due in 2 s holds nothing for another peer, and no packet without a time
#     for the same one; beside four bulk sockets packets wait for a quantum of each at most
#  5. order: packets of a flow leave in the order of their times, whatever the order they came in
#  6. connect: connect() in the midst of traffic reorders nothing within a peer
#  7. kinds: every kind of datagram socket has flows by peer
#
# In all of them nothing is lost, dropped or reordered, and nothing is left. PARTS chooses some of
# the above.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
big=sndbuf=4194304
mtu=1514

# near NAME MEASURED EXPECTED PERCENT
near()
{
	check_num "$1, within $4 %" "$(awk -v a="${2:-0}" -v b="$3" \
		'BEGIN { d = (a / b - 1) * 100; print d < 0 ? -d : d }')" '<=' "$4" \
		"% ($2 instead of $3)"
}

# intact NAME SENDERS...: and the shaper is empty again
intact()
{
	local name=$1 sender

	for sender in "${@:2}"; do
		check_num "$name: $sender loses nothing" "$(got "${sender}_lost")" == 0 packets
		check_num "$name: $sender: none overtakes within a peer" \
			"$(got "${sender}_reordered")" == 0 packets
	done
	check_num "$name: nothing is dropped" "$(stat drops)" == 0 packets
	check "$name: no socket is held afterwards" wait_until 5 no_socket_is_held
}

# fair NAME KIND OPTIONS
fair()
{
	# shellcheck disable=SC2086 # words
	shape bpshaper rate 100mbit ${4-}
	peers 0.9 300 "one:$2,peers=16$3" "each:$2,sockets=16$3"
	echo "# $1: one socket with 16 peers $(got one_mbit), 16 sockets $(got each_mbit) Mbit/s," \
		"Jain $(got jain), $(stat throttles) throttles for $(stat packets) packets"
	near "$1: a socket with 16 peers gets half" "$(got one_part)" 0.5 5
	check_num "$1: all 32 receivers get the same" "$(got jain)" '>=' 0.99
	check_num "$1: the rate is used" "$(got mbit)" '>=' 98 Mbit/s
	intact "$1" one each
}

part_fair()
{
	fair "blocking" udp ""
	fair "poll" udp ",poll"
	fair "blocking, 4 MB" udp ",$big"
	fair "poll, 4 MB" udp ",$big,poll"
	# A default send buffer would hold no packet for each peer.
	fair "eight segments at a time, 4 MB" udp ",$big,gso=8"
	fair "sixteen segments at a time, 4 MB" udp ",$big,gso=16"
	fair "IPv6" udp6 ""
	# The single sockets take turns.
	fair "poll, limit 100k" udp ",poll" "limit 100k"
	fair "blocking, limit 100k" udp "" "limit 100k"
	fair "poll, 4 MB, limit 100k" udp ",$big,poll" "limit 100k"
	fair "poll, limit 60k" udp ",poll" "limit 60k"
	# A connected socket has a hash of its own, which it gives to its packets and, with IPv6,
	# makes flow labels of. It keeps it when it is connected no more.
	fair "connected before" udp ",disconnected"
	fair "connected before, IPv6" udp6 ",disconnected"
}

# crowd NAME SECONDS WARMUP_MS CROWD [US]: beside a bulk socket and a sparse one, which sends a
# packet each $US
crowd()
{
	peers "$2" "$3" "crowd:udp,$big,$4" "bulk:udp,$big" \
		"sparse:udp,size=72,every=${5:-20000}"
	echo "# $1: $(got crowd_reached) peers $(got crowd_mbit) Mbit/s, Jain $(got crowd_jain);" \
		"bulk $(got bulk_mbit) Mbit/s in $(got bulk_least) packets," \
		"part $(got bulk_part); sparse $(got sparse_delay_p50_ms)," \
		"p99 $(got sparse_delay_p99_ms), max $(got sparse_delay_max_ms) ms;" \
		"$(stat throttles) throttles for $(stat packets) packets," \
		"max_backlog $(stat max_backlog)"
	check_num "$1: a sparse sender waits for nobody (p99)" "$(got sparse_delay_p99_ms)" '<=' \
		0.2 ms
	intact "$1" crowd bulk sparse
}

part_thousand()
{
	shape bpshaper rate 100mbit
	# 500 packets of the sparse one: some wait for the processor while the crowd sends. It keeps
	# no step with the kernel's tick, at which the crowd would get the processor each time.
	crowd "1000 peers" 9 1000 peers=1000 15700
	near "1000 peers: a bulk socket beside them gets its part" "$(got bulk_part)" \
		"$(awk 'BEGIN { print 1 / 1001 }')" 20
	check_num "1000 peers: it was enough to be judged" "$(got bulk_least)" '>=' 30 packets
	check_num "1000 peers: each of them gets the same" "$(got crowd_jain)" '>=' 0.95
}

# No peer gets a second packet before the next second: every packet is of a new flow.
part_many()
{
	local limit=$((1024 * 2 * mtu + 2 * 65536 + 2 * mtu))

	shape bpshaper rate 100mbit memory_limit 16mb
	crowd "100,000 peers" "${MANY_SECONDS:-2}" 500 \
		peers=100000,ports=1000,size=300 4900
	check_num "100,000 peers: the backlog is that of 1024 of them at most, and of two sockets" \
		"$(stat max_backlog)" '<=' $limit bytes
	check_num "100,000 peers: it takes less than memory_limit" "$(stat drops_memory)" == 0
	check_num "100,000 peers: at most 16384 flows are parked" "$(stat parked_flows)" '<=' 16384
	check_num "100,000 peers: a bulk socket beside them keeps a ninth" "$(got bulk_part)" \
		'>=' "$(awk 'BEGIN { print 0.8 / 9 }')"
	check_num "100,000 peers: the rate is used" "$(got mbit)" '>=' 98 Mbit/s
}

# A packet due in 2 s for the first peer, and then one every 5 ms without a time for the first and
# the second in turn.
server=udp,peers=2,size=1200,every=5000,due=2000

# due NAME BOUND_MS SENDERS...
due()
{
	shape bpshaper rate 100mbit
	peers 2.2 0 server:$server "${@:3}"
	echo "# $1: a packet due in 2 s is late by $(got server_due_late_ms) ms; others waited" \
		"$(got server_delay_p50_ms), p99 $(got server_delay_p99_ms)," \
		"max $(got server_delay_max_ms) ms"
	check_num "$1: it leaves no earlier" "$(got server_due_early)" == 0
	check_num "$1: and in time" "$(got server_due_late_ms)" '<=' "$2" ms
	check_num "$1: nothing waits for it" "$(got server_delay_max_ms)" '<=' "$2" ms
}

part_times()
{
	due "due in 2 s" 0.2
	intact "due in 2 s" server
	# A quantum of each: a packet.
	due "due in 2 s, beside four" "$(awk "BEGIN { print 4 * $mtu * 8 / 1e5 }")" \
		bulk:udp,sockets=4
	check_num "due in 2 s, beside four: these use the rate" "$(got bulk_mbit)" '>=' 97 Mbit/s
	intact "due in 2 s, beside four" server bulk
}

# ordered NAME SENDER ORDER NOT_LATER_MS [SENDERS BEFORE...]: a list
ordered()
{
	local count times n=0 name=$1 limit late

	peers 0.1 0 "${@:5}" "list:$2"
	times=$(got list_times_ms)
	echo "# $name: order $(got list_order), at $times ms"
	check "$name: they leave in the order $3" [ "$(got list_order)" = "$3" ]
	check_num "$name: none leaves before its time" "$(got list_due_early)" == 0
	for limit in $4; do
		n=$((n + 1))
		late=$(cut -d ' ' -f $n <<<"$times")
		check_num "$name: the $n. has left after $limit ms" "$late" '<=' "$limit" ms
	done
	count=$(wc -w <<<"$4")
	check_num "$name: all arrive" "$(wc -w <<<"$times")" == "$count"
	check "$name: no socket is held afterwards" wait_until 5 no_socket_is_held
}

# The first packets take 6 ms, so that those of the list are all there before one of them can leave.
part_order()
{
	local fill=fill:udp,list=0/0/0/0/0/0 small=udp,size=200

	shape bpshaper rate 10mbit burst 3028
	ordered "times out of order, one peer" "$small,list=0@30/0@10/0@20/0" "3 1 2 0" \
		"9 10.3 20.3 30.3" $fill
	ordered "times out of order, one of two peers" "$small,peers=2,list=0@30/0@10/0@20/0" \
		"3 1 2 0" "9 10.3 20.3 30.3" $fill
	ordered "times out of order, two peers" \
		"$small,peers=2,list=0@40/1@20/0@10/1@30/0" "4 2 1 3 0" \
		"9 10.3 20.3 30.3 40.3" $fill
	ordered "equal times" "$small,list=0@10/0@20/0@10/0@20/0@10" "0 2 4 1 3" \
		"10.3 10.6 10.9 20.3 20.6" $fill
	ordered "packets without a time" "$small,list=0/0/0/0" "0 1 2 3" "9 9 9 9" $fill
	# As with fq: who waits for a time waits on if one comes that is earlier.
	ordered "a flow that waits, and an earlier time" "$small,list=0@20/0@10" "1 0" "20.3 20.6"
	ordered "a flow that waits, and no time" "$small,list=0@20/0" "1 0" "1 20.3"
	ordered "a flow that waits, and another peer" "$small,peers=2,list=0@20/1@10/1" "2 1 0" \
		"1 10.3 20.3"
}

# A socket keeps its way of making flows while it has a backlog: by peer, or one.
part_connect()
{
	local kind first

	for kind in udp udp6; do
		for first in 0 30; do
			shape bpshaper rate 50mbit
			peers 1 0 "turns:$kind,peers=3,reconnect=$first" "bulk:$kind,sockets=2"
			echo "# connect() after $first packets, $kind: $(got turns_sent) packets," \
				"$(got turns_reordered) overtook, $(stat throttles) throttles"
			check_num "connect() after $first packets, $kind: there was a backlog" \
				"$(stat throttles)" '>' 20 throttles
			intact "connect() after $first packets, $kind" turns bulk
		done
	done
}

# The most flows of one socket among the classes, and their peers, in some listings. (These have no
# JSON.)
flows_and_peers()
{
	for _ in 1 2 3 4 5; do
		on_tx tc -s class show dev txdev | awk '
			match($0, /sk:[0-9a-f]+/) {
				sk = substr($0, RSTART, RLENGTH)
				flows[sk]++
				if (match($0, / peer [^ ]+/) && !seen[sk, substr($0, RSTART, RLENGTH)]++)
					peers[sk]++
			}
			END { for (sk in flows) print flows[sk], peers[sk] + 0 }'
		sleep 0.02
	done | sort -rn | head -n 1
}

# kind KIND BULK: one socket with four peers beside one with one
kind()
{
	local pid flows

	shape bpshaper rate 20mbit
	peers 1.2 300 "one:$1,peers=4,ports=1" "bulk:$2" 2>/tmp/peers.error &
	pid=$!
	sleep 0.6
	flows=$(flows_and_peers)
	wait $pid
	if [ $? = 3 ]; then
		skip "$1: four peers" "$(</tmp/peers.error)"
		return
	fi
	echo "# $1: a socket with four peers has $(got one_part), Jain $(got jain)," \
		"flows and peers $flows," \
		"$(got one_no_buffers) ENOBUFS"
	near "$1: a socket with four peers gets four parts" "$(got one_part)" 0.8 10
	check_num "$1: its peers get the same" "$(got one_jain)" '>=' 0.99
	check "$1: it has four flows, each with its peer, and no more" [ "$flows" = "4 4" ]
	intact "$1" one bulk
}

part_kinds()
{
	local kind

	for kind in udp udplite hdrincl icmp ping packet dgram; do
		kind $kind udp
	done
	for kind in udp6 udplite6 raw6 ping6; do
		kind $kind udp6
	done
}

peers_topology
on_tx sysctl -qw net.ipv4.ping_group_range="0 1000"
for part in ${PARTS:-fair thousand many times order connect kinds}; do
	"part_$part"
done
finish
