#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# As a leaf, under every parent that a kernel has: sockets lose nothing, whoever of
# the two shapes, and at every moment each parent's qlen and backlog are the sum
# of its children's, however packets came (segments of a GSO packet) and went
# (evictions from the pool; a parent that peeks; the purge of a class). When the class or
# the parent is deleted under load, nobody is held. The parents are in lib/parents.sh.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/accounts.sh
. "$(dirname "$0")/lib/accounts.sh"
# shellcheck source=lib/parents.sh
. "$(dirname "$0")/lib/parents.sh"

senders=4 sockets=30
shaping="rate 5mbit burst 10k limit 30k"

look() { state=$(on_tx tc -s -j qdisc show dev txdev); }

# of KIND KEY: a statistic of the qdiscs of that kind ("" for all that count right, see
# lib/accounts.sh) when last looked at, added up
of()
{
	awk -v kind="\"$1" -v key="\"$2\":" -v RS='[{]"kind":' '
		index($0, kind) == 1 && !(kind == "\"" && /^"(multiq|taprio)"/) &&
		match($0, key "[0-9]+") {
			sum += substr($0, RSTART + length(key))
		}
		END { print sum + 0 }' <<<"$state"
}

all_empty()
{
	look
	[ "$(of "" qlen)" = 0 ] && [ "$(of "" backlog)" = 0 ] &&
		[ "$(of bpshaper throttles)" = "$(of bpshaper unthrottles)" ]
}

# loaded NAME: senders with 4 MB send buffers, beside sockets that the pool has
loaded()
{
	local sender

	send --udp $senders --tcp 2 --sndbuf 4194304 --seconds 1 \
		--warmup-ms 0 --drain-ms 300 &
	sender=$!
	on_tx "$bpsocket" udp $nobody pool
	while kill -0 $sender 2>/dev/null; do
		sample
		sleep 0.04
	done >/tmp/samples
	wait $sender
	check "$1: in the end all are empty" wait_until 5 all_empty
	look
	check_num "$1: sockets lose nothing" "$(result udp_lost_packets)" == 0
	check_num "$1: sockets were throttled" "$(of bpshaper throttles)" '>' 0
	check_num "$1: packets were segmented" "$(of bpshaper segments)" '>' 0
	check_num "$1: the pool evicted" "$(of bpshaper drops_pool)" '>' 0
	check_num "$1: the leaf dropped nothing else" "$(of bpshaper drops)" \
		== "$(of bpshaper drops_pool)"
	check_samples "$1" 5 /tmp/samples
}

hold()
{
	ip netns exec "$tx" "$bpsocket" udp $nobody many lo $sockets >/tmp/held.0 &
	held=($!)
	ip netns exec "$tx" "$bpsocket" udp $nobody sleep >/tmp/held.1 &
	held+=($!)
	must wait_until 10 grep -q held /tmp/held.0
	must wait_until 10 grep -q held /tmp/held.1
}

none_is_held() { ! kill -0 "${held[0]}" && ! kill -0 "${held[1]}"; }

# releases NAME COMMAND: those that were held are not
releases()
{
	check "$1 works" "$2"
	check "$1: all that were held are released" wait_until 10 none_is_held
	kill -9 "${held[@]}" 2>/dev/null
	wait "${held[0]}" && wait "${held[1]}"
	check_num "$1: and are charged nothing" $? == 0
	grep -hv held /tmp/held.[01]
	check "$1: nothing is left" wait_until 5 all_empty
}

# ended NAME: with a backlog that does not move
ended()
{
	check "$1: can be slow" "$1_slow"
	hold
	on_tx "$bpsocket" udp $nobody pool
	for _ in 1 2 3 4 5; do
		sample
		sleep 0.1
	done >/tmp/samples
	check_samples "$1 that does not drain" 1 /tmp/samples
	releases "$1: deleting the class" "$1_cut"
}

# Old kernels' netem does not count what its child holds, makes of packets or drops
# (CVE-2024-56770). With tbf and fq_codel, which drops late, that shows as well.
netem_miscounts()
{
	[[ $(uname -r) == 5.10.* ]] || return
	shape handle 1: netem limit 1000
	must on_tx tc qdisc add dev txdev parent 1:1 handle 2: tbf rate 5mbit burst 10k limit 30k
	must on_tx tc qdisc add dev txdev parent 2:1 fq_codel limit 10
	send --udp 4 --tcp 2 --seconds 0.3 --warmup-ms 0 --drain-ms 300
	! wait_until 3 all_empty
}

# What leaves of htb lose to senders with 4 MB send buffers.
# compared LEAF
compared()
{
	shape handle 1: htb default 1
	class add parent 1: classid 1:1 htb rate 20mbit burst 10k
	must on_tx tc qdisc add dev txdev parent 1:1 "$1"
	send --udp 8 --sndbuf 4194304 --seconds 0.3 --warmup-ms 0 --drain-ms 300
	look
	echo "# htb + $1: $(result udp_sent_packets) sent," \
		"$(result udp_lost_packets) lost, $(of "$1" drops) dropped"
}

topology_make
for kind in pfifo fq_codel; do
	compared $kind
	check_num "htb + $kind: datagrams are lost" "$(result udp_lost_packets)" '>' 0
done
compared bpshaper
check_num "htb + bpshaper: none is" "$(result udp_lost_packets)" == 0
check_num "htb + bpshaper: htb dropped nothing" "$(of htb drops)" == 0
for parent in ${PARENTS:-htb hfsc tbf prio ets ets_strict drr qfq red red_peeks sfb netem filtered mq mqprio multiq
		taprio}; do
	if [[ $parent =~ ^(mq|mqprio|multiq|taprio)$ && ! ${QUEUES-} ]]; then
		ip netns del "$tx"
		ip netns del "$rx"
		QUEUES=4
		topology_make
	fi
	if [[ $parent =~ ^(sfb|multiq|taprio)$ ]] && ! modprobe "sch_$parent" 2>/dev/null; then
		skip "$parent" "no sch_$parent"
		continue
	fi
	if [[ $parent == taprio ]] && ! taprio_sends; then
		skip taprio "that of this kernel sends nothing from a tbf below it either"
		continue
	fi
	if [[ $parent == netem ]] && netem_miscounts; then
		skip netem "this kernel's miscounts, with tbf below it as well"
		continue
	fi
	# shellcheck disable=SC2086 # words
	"${parent}_make" $shaping
	loaded $parent
	ended $parent
	# shellcheck disable=SC2086 # words
	"${parent}_make" $shaping
	"${parent}_slow"
	hold
	releases "$parent: deleting the parent" unshape
done

# purges NAME COMMAND: the parent hears of packets of a class that are purged
purges()
{
	on_tx "$bpsocket" udp $nobody pool
	look
	check_num "$1: there is a backlog" "$(of bpshaper qlen)" '>' 2
	must on_tx tc "${@:2}"
	look
	check_num "$1: it is purged" "$(of bpshaper qlen)" == 0 packets
	check_num "$1: the parent hears of the packets" "$(of prio qlen)" == 0 packets
	check_num "$1: and of the bytes" "$(of prio backlog)" == 0 bytes
}

# A parent that hears nothing goes on counting packets that are gone.
shape handle 1: prio priomap 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2
must on_tx tc qdisc add dev txdev parent 1:3 handle 2: bpshaper rate 8bit default 10
class add parent 2: classid 2:10 bpshaper
purges "first child of a class" class add dev txdev parent 2:10 classid 2:11 bpshaper
must on_tx tc qdisc change dev txdev parent 1:3 bpshaper default 11
purges "a class goes" class del dev txdev classid 2:11
must on_tx tc qdisc change dev txdev parent 1:3 bpshaper rate unlimited
send --udp $senders --seconds 0.3 --warmup-ms 0 --drain-ms 300
check_num "a class has gone: nothing is lost afterwards" "$(result udp_lost_packets)" == 0
check "a class has gone: in the end all are empty" wait_until 5 all_empty

# netem with a delay takes packets from their sockets, as it must: to the sender
# they have left. Its own limit is then what drops, and nobody can be throttled.
shape handle 1: netem delay 5ms limit 100
leaf_add 1:1 rate 5mbit
send --udp $senders --seconds 0.3 --warmup-ms 0 --drain-ms 300
look
check_num "netem with a delay: no socket is throttled" "$(of bpshaper throttles)" == 0
check_num "netem with a delay: netem drops" "$(of netem drops)" '>' 0
if wait_until 5 all_empty || ! netem_miscounts; then
	check "netem with a delay: in the end all are empty" all_empty
else
	skip "netem with a delay: in the end all are empty" "this kernel's miscounts"
fi
finish
