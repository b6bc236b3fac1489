#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Whoever fills the memory of a qdisc takes it from himself: sockets of a class and of a user that keep
# within their part lose nothing, nor do packets without a socket. Only in icount mode.
#
#  1. pairs: a socket for each two tiny packets, of which the second has a time 9 s ahead
#  2. single: a socket for each tiny packet with such a time
#  3. open: 15,000 sockets with four of them each
#  4. fresh: a socket for each packet, without times, in a class whose ceil is 1 Mbit/s, of tiny packets
#     and of full frames
#  5. slow: 10,000 sockets of such a class beside classes of TCP at 1 Gbit/s: these get what floors and
#     weights say
#  6. accounts: sockets with a rate whose packets have times and have none in turn get what plain ones
#     get, within 3 %
#  7. multiplied: as pairs, by 500 users. In their own leaf they may take what they like
#
# 1 to 3 are by another user, by a user in another class, and by the user of those beside them. These are a
# sparse socket, a socket for each query, four greedy ones of UDP, four flows of the pool, and TCP that
# connects meanwhile.
# They lose nothing. Sparse sockets wait 1 ms at most (p99). New flows, and those of the pool, wait for a
# packet of each greedy one (L6): four of 1512 bytes, and one of TCP that may be as long as the burst, 12.5
# kB, take 1.5 ms. The greedy ones get the same, within 10 %, the link is full, memory_limit holds, and
# nothing is left.
#
# PARTS chooses. RIVALS=1 prints what tbf and fq, htb and fq_codel, and cake do with 1 to 4.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/attacks.sh
. "$(dirname "$0")/lib/attacks.sh"
# shellcheck source=lib/many.sh
. "$(dirname "$0")/lib/many.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"

rate=100		# Mbit/s
memory_limit=$((5 << 20))
fill_ms=500		# until those beside the attack begin
end_s=1.2
later=later=9000

# leaf_one: attackers and others are in one leaf
leaf_one()
{
	case $qdisc in
	bpshaper) shape bpshaper rate ${rate}mbit memory_limit $memory_limit ;;
	fq)
		shape handle 1: tbf rate ${rate}mbit burst 20kb latency 10ms
		must on_tx tc qdisc add dev txdev parent 1: fq
		;;
	cake) shape cake bandwidth ${rate}mbit memlimit $memory_limit ;;
	esac
}

# leaf_each CEIL_MBIT: attackers are in 1:10, all others in 1:20
leaf_each()
{
	local minor words=(bpshaper) parent=1: ceil=$1

	if [ "$qdisc" = htb ]; then
		words=(htb rate 1mbit) parent=1:1
		shape handle 1: htb default 20
		must on_tx tc class add dev txdev parent 1: classid $parent htb rate ${rate}mbit
	else
		shape handle 1: bpshaper rate ${rate}mbit memory_limit $memory_limit default 20
	fi
	for minor in 10 20; do
		must on_tx tc class add dev txdev parent $parent classid 1:$minor "${words[@]}" \
			ceil "${ceil}mbit"
		[ "$qdisc" != htb ] || must on_tx tc qdisc add dev txdev parent 1:$minor fq_codel
		ceil=$rate
	done
	to_attackers
}

# to_attackers: what bpmany sends goes there
to_attackers()
{
	must on_tx tc filter add dev txdev parent 1: protocol ip prio 1 \
		u32 match ip dst $nobody flowid 1:10
}

# stream SECONDS: TCP that begins after the attack
stream()
{
	sleep "$(awk "BEGIN { print $fill_ms / 1000 + 0.02 }")"
	traffic_try --tcp 1 --seconds "$1" --warmup-ms 0 --drain-ms 500 2>/tmp/stream.log
	echo $? >/tmp/stream
}

# victims UID SENDERS...: beside them, and what came of it; sets $link and, of those that
# send in their own time, $asked, in Mbit/s
victims()
{
	local from=from=$fill_ms,uid=$1 jobs

	# As long as something is sent
	(sleep "$end_s"; touch /tmp/most.end) &
	memory_watch /tmp/most &
	jobs=$!
	stream "$(awk "BEGIN { print $end_s - $fill_ms / 1000 }")" &
	jobs+=" $!"
	peers "$end_s" $((fill_ms + 300)) "greedy:udp,poll,sockets=4,$from" \
		"sparse:udp,every=5000,size=72,$from" "query:udp,every=5000,size=${query:-72},fresh=1,$from" \
		"pool:udp,sockets=4,every=5000,size=200,sndbuf=1073741824,$from" "${@:2}"
	# shellcheck disable=SC2086 # words
	wait $jobs
	asked=$(awk "BEGIN { print $(got sparse_mbit) + $(got query_mbit) + $(got pool_mbit) }")
	link=$(awk "BEGIN { print $(got mbit) + $(got other_mbit) + $asked }")
}

# figures NAME: a line for people, of all that has been measured
figures()
{
	echo "# $1: attack: $offered packets, $lost lost, $writable sockets may send;" \
		"greedy: $(got greedy_lost) of $(got greedy_sent) lost, $(got greedy_mbit) Mbit/s of four;" \
		"sparse: $(got sparse_lost) of $(got sparse_sent) lost, p99 $(got sparse_delay_p99_ms) ms;" \
		"query: $(got query_lost) of $(got query_sent) lost, p99 $(got query_delay_p99_ms) ms;" \
		"pool: $(got pool_lost) of $(got pool_sent) lost, p99 $(got pool_delay_p99_ms) ms;" \
		"TCP: status $(</tmp/stream), $(got other_mbit) Mbit/s, $(result tcp_retransmitted_segments)" \
		"retransmitted; link $link Mbit/s; memory $(</tmp/most) of $memory_limit;" \
		"drops $(sum drops), drops_memory $(stat drops_memory), throttles $(stat throttles)"
}

# all_is_well NAME: all that is promised to those beside
all_is_well()
{
	local who attack share most

	check_num "$1: the attack wants more than all memory" $((offered * 960)) '>' $memory_limit bytes
	check_num "$1: who attacks loses packets, or is held" \
		$((lost + (sockets - writable))) '>' 0
	for who in greedy sparse query pool; do
		check_num "$1: $who: something was sent" "$(got ${who}_sent)" '>' 100 packets
		check_num "$1: $who: nothing is lost" "$(got ${who}_lost)" == 0 packets
	done
	for who in sparse query pool; do
		most=1.5
		[ $who != sparse ] || most=1
		check_num "$1: $who: nobody waits longer than $most ms (p99)" \
			"$(got ${who}_delay_p99_ms)" '<=' $most ms
	done
	check_num "$1: TCP connects" "$(</tmp/stream)" == 0
	check_num "$1: TCP loses nothing" "$(result tcp_retransmitted_segments)" == 0 packets
	attack=$(got attack_mbit)
	share=$(awk "BEGIN { print 0.9 / 5 * ($rate - $asked - ${attack:-0}) }")
	check_num "$1: TCP gets its part, within 10 %" "$(got other_mbit)" '>=' "$share" Mbit/s
	check_num "$1: so do greedy sockets of UDP" "$(got greedy_mbit)" '>=' \
		"$(awk "BEGIN { print 4 * $share }")" Mbit/s
	check_num "$1: greedy sockets get the same (Jain)" "$(got greedy_jain)" '>=' 0.99
	check_num "$1: the link is full" "$link" '>=' "$(awk "BEGIN { print $rate * 0.98 }")" Mbit/s
	check_num "$1: memory_limit holds" "$(</tmp/most)" '<=' $memory_limit bytes
	check "$1: nothing is left, and nobody held" wait_until 30 no_socket_is_held
}

# attack_fresh UID OPTIONS...: by sockets that come and go
attack_fresh()
{
	local sockets=0 writable=0 offered lost

	victims "$victim" "attack:udp,size=${size:-32},pace=60,uid=$1$2"
	offered=$(got attack_sent) lost=$(got attack_lost)
	figures "$name"
	[ "$qdisc" != bpshaper ] || "${verdict:-all_is_well}" "$name"
}

# attack_open UID: by sockets that stay
attack_open()
{
	local sockets=3000 writable offered lost fill_ms=0 end_s=0.7

	many_start $sockets 18 "$1"
	offered=$(many_say far)
	victims "$victim"
	lost=$(($(sum drops) - $(got greedy_lost) - $(got sparse_lost) - $(got query_lost) - $(got pool_lost)))
	writable=$(many_say count)
	figures "$name"
	[ "$qdisc" != bpshaper ] || all_is_well "$name"
	many_end
}

# by_all ATTACK OPTIONS: from the places where attackers may be
by_all()
{
	local text=$name victim=1001

	if [ "$qdisc" != htb ]; then
		name="$text, another user"
		leaf_one
		"$1" 1000 "$2"
	fi
	if [ "$qdisc" = bpshaper ]; then
		name="$text, the same user" victim=0
		leaf_one
		"$1" 0 "$2"
	fi
	if [ "$qdisc" = bpshaper ] || [ "$qdisc" = htb ]; then
		name="$text, another class" victim=1001
		leaf_each $rate
		"$1" 1000 "$2,class=1-10"
	fi
}

# with_rivals COMMAND...: for bpshaper, and for others to look at
with_rivals()
{
	local qdisc name

	for qdisc in bpshaper ${RIVALS:+fq htb cake}; do
		name=${RIVALS:+$qdisc: }$1
		"${@:2}"
	done
}

part_pairs() { with_rivals pairs by_all attack_fresh ",fresh=2,timed=1,$later"; }

part_single() { with_rivals single by_all attack_fresh ",fresh=1,$later"; }

part_open() { with_rivals open by_all attack_open ""; }

# from_slow TEXT SIZE: which is of the queries as well
from_slow()
{
	local victim=1001 text=$name size=$1 query=$1

	[ "$qdisc" = bpshaper ] || [ "$qdisc" = htb ] || return 0
	[ "$size" -gt 72 ] || query=72
	name="$text, $size bytes"
	leaf_each 1
	attack_fresh 1000 ",fresh=1,class=1-10"
}

part_fresh()
{
	with_rivals fresh from_slow 32
	with_rivals fresh from_slow 1400
}

# slow_classes: 1:10 is slow. The law gives 1:20 its floor and a sixth of the 599 Mbit/s that are left, and
# 1:21 the rest.
slow_classes()
{
	shape handle 1: bpshaper rate 1gbit default 20 memory_limit $memory_limit
	class 1: 1:10 ceil 1mbit
	class 1: 1:20 floor 400mbit
	class 1: 1:21 weight 5
	class 1: 1:22
	to_attackers
}

# beside_slow NAME WORD: what bpmany does in 1:10
beside_slow()
{
	local held jobs sparse=every=5000,size=72,uid=1001,class=1-22,from=100

	slow_classes
	many_start 10000 1400 1000
	must [ -n "$(many_say "$2")" ]
	memory_watch /tmp/most &
	jobs=$!
	send --tcp 4 --classes 1 --class-first $((0x21)) --seconds 1.2 --warmup-ms 0 --drain-ms 500 &
	jobs+=" $!"
	peers 1.1 400 floor:udp,poll,sockets=4,uid=1001,from=100 sparse:udp,$sparse \
		query:udp,fresh=1,$sparse
	touch /tmp/most.end
	# shellcheck disable=SC2086 # words
	wait $jobs
	held=$((10000 - $(many_say count)))
	slow_is_well "$1"
	must on_tx tc class change dev txdev classid 1:10 bpshaper ceil 1gbit
	check "$1: nothing is left, and nobody held" wait_until 30 no_socket_is_held
	many_end
}

# slow_is_well NAME. The bytes of TCP are those of packets as they arrive, with fewer headers.
slow_is_well()
{
	local who lost most

	lost=$(stat drops_memory) most=$(</tmp/most)
	echo "# $1: $held of 10000 sockets are held, $lost packets dropped for want of memory;" \
		"floor: $(got floor_mbit) Mbit/s, $(got floor_lost) of $(got floor_sent) lost;" \
		"TCP: $(got other_mbit) Mbit/s, $(result tcp_retransmitted_segments) retransmitted;" \
		"sparse: $(got sparse_lost) lost, p99 $(got sparse_delay_p99_ms) ms;" \
		"query: $(got query_lost) lost, p99 $(got query_delay_p99_ms) ms; memory $most of $memory_limit"
	for who in floor sparse query; do
		check_num "$1: $who: nothing is lost" "$(got ${who}_lost)" == 0 packets
	done
	for who in sparse query; do
		check_num "$1: $who: nobody waits longer than 1 ms (p99)" \
			"$(got ${who}_delay_p99_ms)" '<=' 1 ms
	done
	check_num "$1: a class with a floor gets what the law says, within 1 %" "$(got floor_mbit)" \
		'>=' 495 Mbit/s
	check_num "$1: so does one of TCP, headers aside" "$(got other_mbit)" '>=' 474 Mbit/s
	check_num "$1: TCP loses nothing" "$(result tcp_retransmitted_segments)" == 0 packets
	check_num "$1: memory_limit holds" "$most" '<=' $memory_limit bytes
	check_num "$1: who attacks loses packets, or is held" $((held + lost)) '>' 0
}

# At 42 MB each socket is held, and together they have nine tenths. At 20 MB there is no room for all.
part_slow()
{
	local memory_limit=$((42 << 20))

	beside_slow "slow, most of memory" fill
	memory_limit=$((20 << 20))
	beside_slow "slow, all of memory" few
}

# By users who have ten sockets each
part_multiplied()
{
	local victim=1001 name verdict=true qdisc=bpshaper

	name="multiplied, the same leaf"
	leaf_one
	attack_fresh 2000 ",uids=500,fresh=2,timed=1,$later"
	name="multiplied, another class" verdict=all_is_well
	leaf_each $rate
	attack_fresh 2000 ",uids=500,fresh=2,timed=1,$later,class=1-10"
}

part_accounts()
{
	local part at

	for at in -1 0 1; do
		shape bpshaper rate ${rate}mbit
		peers 1.5 300 "plain:udp,poll,sockets=20" \
			"both:udp,poll,sockets=20,max_rate=80000000000,timed=32,later=$at"
		part=$(got both_part)
		echo "# accounts: packets with times $at ms later, and without: $part of the link"
		check_num "accounts, times $at ms later: half of the link, within 3 %" "$(awk "BEGIN {
			d = $part / 0.5 - 1; print d < 0 ? -d : d }")" '<=' 0.03
		check_num "accounts, times $at ms later: nothing is lost" \
			$(($(got both_lost) + $(got plain_lost))) == 0 packets
		check_num "accounts, times $at ms later: the link is full" "$(got mbit)" '>=' 98 Mbit/s
		check "accounts, times $at ms later: nothing is left" wait_until 5 no_socket_is_held
	done
}

peers_topology
# SYNs for 3 s
must on_tx sysctl -qw net.ipv4.tcp_syn_retries=1
# What IPv6 sends of its own would be counted.
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
for part in ${PARTS:-pairs single open fresh slow accounts multiplied}; do
	"part_$part"
done
finish
