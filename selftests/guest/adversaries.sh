#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Those who do not play by the rules: a remote peer, forwarded traffic, local processes without
# privileges. What they can make the shaper hold or do is bounded by a constant, or by a multiple
# of a limit that was set, and a sparse sender at 100 Mbit/s beside them loses nothing and waits at
# most 1 ms (p99). Only in icount mode.
#
#  1. acks: 100,000 provoked ACKs leave at most 1000 packets and 2 MB in the queue, and what is
#     dropped is counted
#  2. ACKs never decide that a socket is throttled
#  3. a download whose ACKs are shaped is as fast as with tbf and fq
#  4. hashes: packets of ever new hashes leave memory_limit and 4 MB at most, and 16384 parked
#     flows
#  5. classes, sends: nothing that a user without privileges calls holds the root lock for more than
#     50,000 instructions, but a packet that has to be segmented: as long as with tbf
#  6. old: old flows of small packets have a ninth of the rate beside ever new ones
#  7. sparse: beside each attack a sparse sender loses nothing and waits at most 1 ms (p99), and
#     nothing is left
#
# It is 30,000 hashes, and half as many of some kinds, unless HASHES is given. PARTS chooses some
# of the above. PEERS=1 prints what fq, fq_codel and cake do with ACKs, and PARTS=peers
# how a sparse sender fares with the first two.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/attacks.sh
. "$(dirname "$0")/lib/attacks.sh"
# shellcheck source=lib/holds.sh
. "$(dirname "$0")/lib/holds.sh"
# shellcheck source=lib/many.sh
. "$(dirname "$0")/lib/many.sh"
# shellcheck source=lib/peer.sh
. "$(dirname "$0")/lib/peer.sh"
# shellcheck source=lib/pktgen.sh
. "$(dirname "$0")/lib/pktgen.sh"

parked_max=16384	# BPSHAPER_FLOW_PARKED_MOST

slab_kb() { awk '/^Slab:/ { print $2 }' /proc/meminfo; }

out_segments()
{
	on_tx awk '$1 != "Tcp:" { next }
		!column { for (column = NF; $column != "OutSegs"; column--); next }
		{ print $column }' /proc/net/snmp
}

# provoke QDISC...: 100,000 ACKs; sets $grown, in kB, and $made, the segments of TCP since
provoke()
{
	local before

	root_remove
	peer_connect 1
	shape handle 1: "$@"
	[ "$1" != htb ] || {
		must on_tx tc class add dev txdev parent 1: classid 1:1 htb rate 64kbit
		must on_tx tc qdisc add dev txdev parent 1:1 fq_codel
	}
	[ "$1" != tbf ] || on_tx tc qdisc add dev txdev parent 1: fq
	before=$(slab_kb) made=$(out_segments)
	peer flood "$acks" 0
	grown=$(($(slab_kb) - before)) made=$(($(out_segments) - made))
}

acks_are_bounded()
{
	local json

	provoke bpshaper rate 64kbit
	json=$(on_tx tc -s -j qdisc show dev txdev root)
	qlen=$(json_value qlen "$json") memory=$(json_value memory "$json")
	drops=$(json_value drops "$json") drops_ack=$(json_value drops_ack "$json")
	echo "# bpshaper: $acks provoked ACKs: $qlen queued, slab $grown kB, memory $memory," \
		"drops_ack ${drops_ack:-none}"
	check_num "provoked ACKs: all of them were made" "$made" '>=' "$acks" segments
	check_num "provoked ACKs: at most 1000 packets are queued" "$qlen" '<=' 1000 packets
	check_num "provoked ACKs: they are said to take 2 MB at most" "$memory" '<=' 2000000 bytes
	check_num "provoked ACKs: memory is what a packet takes, 512 bytes and more" \
		"$memory" '>=' "$((512 * qlen))" bytes
	check_num "provoked ACKs: they take 2 MB at most, and 1 MB for all else that allocates" \
		"$grown" '<=' 3000 kB
	check_num "provoked ACKs: what is dropped is counted as that" "${drops_ack:-0}" '>' 0
	check_num "provoked ACKs: and as nothing else" "${drops_ack:-0}" == "$drops"
	check_num "provoked ACKs: each was sent, is queued, or was dropped and counted" \
		"$(($(json_value packets "$json") + qlen + drops))" == "$made"
	peer_end
	unshape
	[ -z "${PEERS-}" ] || for qdisc in \
		"tbf rate 64kbit burst 3028 latency 1s" "htb default 1" \
		"fq maxrate 64kbit" "cake bandwidth 64kbit"; do
		# shellcheck disable=SC2086 # words
		provoke $qdisc
		echo "# $qdisc: $acks provoked ACKs: $(sum qlen) queued, slab $grown kB"
		peer_end
	done
}

# The ACKs are more than the share, and the data are less.
acks_do_not_throttle()
{
	root_remove
	peer_connect 1
	shape bpshaper rate 64kbit limit 600 share_min 600
	peer flood 300 0
	check_num "ACKs and data: the ACKs are more than a share" "$(stat backlog)" '>' 600 bytes
	peer data 3 100
	check_num "ACKs and data: who sends less data than its share is not throttled" \
		"$(stat throttles)" == 0
	check_num "ACKs and data: nor is it overlimit" "$(stat overlimit_sockets)" == 0
	peer_end
	unshape
}

# download QDISC...: from $rx to $tx, 8 streams, whose ACKs the shaper is too slow for
download()
{
	shape handle 1: "$@"
	[ "$1" != tbf ] || on_tx tc qdisc add dev txdev parent 1: fq
	"$traffic" --tx-netns "$rx" --rx-netns "$tx" --dst 10.99.0.1 --json "$report" \
		--tcp 8 --seconds 6
	result tcp_goodput_mbit_per_s
}

downloads_go_on()
{
	local with without

	must on_rx tc qdisc add dev rxdev root tbf rate 20mbit burst 3028 limit 100k
	on_rx ethtool -K rxdev tso off gso off >/dev/null
	without=$(download tbf rate 256kbit burst 3028 latency 1s)
	with=$(download bpshaper rate 256kbit)
	echo "# a download whose ACKs have 256 kbit/s: $with Mbit/s, $without with tbf and fq," \
		"$(stat drops_ack) ACKs dropped"
	check_num "a download whose ACKs are shaped is as fast as with tbf and fq, within 5 %" \
		"$with" '>=' "$(awk "BEGIN { print 0.95 * $without }")" Mbit/s
	check_num "a download whose ACKs are shaped: no socket is throttled for them" \
		"$(stat throttles)" == 0
	check "a download whose ACKs are shaped: nothing is left" wait_until 5 no_socket_is_held
	on_rx tc qdisc del dev rxdev root
	on_rx ethtool -K rxdev tso on gso on >/dev/null
}

part_acks()
{
	acks=${ACKS:-100000}
	acks_are_bounded
	acks_do_not_throttle
	downloads_go_on
}

# Packets of ever new hashes

# hashes NAME COUNT SIZE RATE OPTIONS...: at about the rate at which they come, so that the queue is
# never empty and most are sent
hashes()
{
	local name=$1 before grown

	on_tx tc qdisc del dev sink root 2>/dev/null
	sleep 0.1
	before=$(slab_kb)
	must on_tx tc qdisc add dev sink root bpshaper rate "$4" memory_limit 8mb "${@:5}"
	flood sink "count $2" "pkt_size $3" "delay 0"
	grown=$(($(slab_kb) - before))
	echo "# $name: $2 packets, $(sink_stat packets) sent, slab $grown kB," \
		"$(sink_stat parked_flows) parked flows"
	check_num "$name: slab is bounded by memory_limit and 4 MB" "$grown" '<=' $(((8 + 4) << 10)) kB
	check_num "$name: at most $parked_max flows are parked" \
		"$(sink_stat parked_flows)" '<=' $parked_max
}

part_hashes()
{
	local count=${HASHES:-30000}

	sink_make
	must on_tx ip link set sink mtu 242
	hashes "new hashes above the quantum" "$count" 300 300mbit
	must on_tx ip link set sink mtu 1500
	hashes "new hashes of 64 bytes" $((count / 2)) 64 60mbit
	hashes "new hashes of 200 bytes" $((count / 2)) 200 200mbit
	hashes "new hashes of 1400 bytes" $((count / 2)) 1400 1gbit
	hashes "new hashes that have not paid their rate" $((count / 2)) 200 200mbit maxrate 8kbit
	pktgen kpktgend_0 rem_device_all
	on_tx ip link del sink
}

# Holds of the root lock

part_classes()
{
	sink_make
	must on_tx tc qdisc add dev sink root bpshaper rate 2gbit maxrate 8kbit
	flood sink "count 40000" "pkt_size 1400" "delay 0"
	echo "# $(sink_stat parked_flows) parked flows, $(sink_stat flows) active"
	check_num "class show: there are many parked flows" "$(sink_stat parked_flows)" '>' 10000
	holds_start
	on_tx tc -s class show dev sink >/dev/null
	held "class show with parked flows"
	holds_start
	on_tx tc -s qdisc show dev sink >/dev/null
	held "qdisc show with parked flows"
	on_tx tc qdisc del dev sink root
	must on_tx tc qdisc add dev sink root bpshaper rate 8kbit limit 1gb memory_limit 1gb
	fill 20000 sink "pkt_size 100" "delay 0"
	echo "# $(sink_stat parked_flows) parked flows, $(sink_stat flows) active"
	check_num "class show: there are many active flows" "$(sink_stat flows)" '>' 10000
	holds_start
	on_tx tc -s class show dev sink >/dev/null
	held "class show with active flows"
	holds_start
	must on_tx tc qdisc change dev sink root bpshaper rate 16kbit burst 3000
	held_by_admin "qdisc change with active flows"
	holds_start
	on_tx tc qdisc del dev sink root
	held_by_admin "qdisc del with active flows"
	pktgen kpktgend_0 rem_device_all
	on_tx ip link del sink
}

# sends NAME TRAFFIC...: and how long that holds the lock
sends()
{
	held_least "$1" send --seconds 0.3 --warmup-ms 0 --drain-ms 500 "${@:2}"
}

# segmented NAME RATE TRAFFIC...: packets of up to 64 kB, more than the burst, by tbf and by us
segmented()
{
	local name=$1 rate=$2 tbf
	local load=(--seconds 0.3 --warmup-ms 0 --drain-ms 500 "${@:3}")

	shape tbf rate "$rate" burst 3028 latency 50ms
	least_hold "$name, tbf" 0 send "${load[@]}"
	tbf=$least
	check_num "$name, tbf: holds are measured" "$tbf" '>' 0 instructions
	shape bpshaper rate "$rate" burst 3028
	least_hold "$name" $((tbf * 5 / 4)) send "${load[@]}"
	check_num "$name: holds are measured" "$least" '>' 0 instructions
	check_num "$name: the root lock is held as long as by tbf, within a quarter" "$least" \
		'<=' $((tbf * 5 / 4))
}

# many_do WORD SECONDS: 2000 sockets, and what they do in that time
many_do()
{
	many_start 2000 100
	echo "# $1: $(many_say "$1")"
	sleep "$2"
	many_end
}

# One GSO packet would take the place of a thousand tiny ones. It is forwarded, as far as the shaper
# sees: no ballast fills a buffer of 1 GB.
pool_is_pushed_out()
{
	local before

	shape bpshaper rate 64kbit burst 100kb limit 130k
	fill 2000 txdev "pkt_size 60" "delay 0"
	before=$(stat qlen)
	holds_start
	# One packet, which does not arrive: no measurement.
	traffic_try --seconds 0.2 --warmup-ms 0 --drain-ms 100 --udp 1 --gso 44 \
		--sndbuf 1073741824 --mode poll
	echo "# $before packets were queued, $(stat qlen) are now"
	held "a GSO packet that finds the pool full of tiny ones"
	unshape
	pktgen kpktgend_0 rem_device_all
}

part_sends()
{
	shape bpshaper rate 20mbit burst 3028
	sends "sendmsg of datagrams" --udp 4
	sends "TCP" --tcp 2
	segmented "sendmsg of UDP_SEGMENT, 64 segments" 20mbit --udp 2 --gso 64 --size 1000
	segmented "sendmsg of UDP_SEGMENT, 64 segments of 100 bytes" 20mbit \
		--udp 2 --gso 64 --size 100
	must ip -n "$rx" route replace 10.99.0.0/24 dev rxdev src 10.99.0.2 advmss 88
	segmented "TCP with an MSS of 88" 100mbit --tcp 2 --cc cubic
	must ip -n "$rx" route replace 10.99.0.0/24 dev rxdev src 10.99.0.2
	shape bpshaper rate 20mbit
	held_least "2000 sockets that send" many_do fill 0.5
	held_least "2000 sockets whose packets are due at one time" many_do together 1
	pool_is_pushed_out
}

# Old flows beside new ones

part_old()
{
	local ninth

	shape bpshaper rate 20mbit burst 5k limit 50k
	(flood txdev "count 22000" "pkt_size 1000" "delay 250000" \
		"dst_mac $(mac_of "$rx" rxdev)") &
	sleep 0.3
	# So long that what one gained at the start is little of it.
	send --udp 8 --size 58 --seconds 4
	ninth=$(result udp_wire_goodput_mbit_per_s)
	echo "# old flows of 100-byte packets beside new flows of 1000: $ninth of 20 Mbit/s"
	check_num "old flows of 100-byte packets: a ninth of the rate, within 5 %" "$ninth" '>=' 2.11 \
		Mbit/s
	check_num "old flows of 100-byte packets: nothing is lost" "$(result udp_lost_packets)" == 0
	check_num "old flows of 100-byte packets: equal bytes" "$(result udp_jain_index)" '>=' 0.98
	wait
	check "old flows of 100-byte packets: nothing is left" wait_until 5 no_socket_is_held
	pktgen kpktgend_0 rem_device_all
}

topology_make
# What IPv6 sends of its own would be counted.
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
for part in ${PARTS:-acks hashes classes sends old sparse ${PEERS:+peers}}; do
	"part_$part"
done
finish
