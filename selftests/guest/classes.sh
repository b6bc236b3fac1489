#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Classes: floors, ceilings, weights and prios, without a loss. $PARTS chooses.
#
#  1. law: random trees divide the rate as the law says (waterfill.h), within 2 %
#  2. floors: each class gets its floor beside greedy ones, and its part of the rest; a sparse class
#     does not wait; packets are as old as without classes
#  3. prio: what is left goes to the smallest prio
#  4. alone: one class with traffic uses what its parent has
#  5. ceil: what leaves a class is bounded by its ceil and burst, as is that of its parent
#  6. who: a packet goes where priority, filters and default say
#  7. changes: classes come, change and go while senders wait in them. What one that goes, or gets
#     its first child, has queued is purged; nothing else is lost, and the rest stays in order
#  8. refusals: what cannot be is refused with a sentence, and changes nothing
#  9. many: 1000 classes are made and listed in one batch each
# 10. flows: each is listed once, behind the classes, with its class as the parent, and as what no
#     class can be
# 11. batches: a timer wakes for a batch, whatever number of classes
# 12. short: packets of many classes that are shorter than the MTU get the rate
# 13. counts: a GSO packet counts as its segments, as it does for the qdisc
# 14. defaults: what was set or shown of one queue, and of a class, stays when classes come
# 15. unheld: a class with "backpressure off" drops what its limit does not hold, and no other does

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"
# shellcheck source=lib/class_changes.sh
. "$(dirname "$0")/lib/class_changes.sh"
# shellcheck source=lib/class_flows.sh
. "$(dirname "$0")/lib/class_flows.sh"

# With several queues each has a timer, and a slot that asks: a packet may wait for that. Leaves
# that begin at once may each have the limit of all. And bursts are seen where they arrive, while
# one CPU sends for all queues: queues_law sees them where they are decided.
if [ "${QUEUES:-}" ]; then
	sparse=0.2 seconds=5 seen_late=300 limits=two oldest=16.8ms
	timers() { echo $((5 * $1 / 2)); }
else
	sparse=0.1 seconds=2 seen_late=250 limits=two oldest=16.8ms
	timers() { echo $(($1 / $2)); }
fi

# tree WHAT: of $seed, see tree.awk
tree() { awk -v seed="$seed" -v what="$1" -f "$here/lib/tree.awk"; }

part_law()
{
	local seed names

	for seed in ${SEEDS:-1 2 4 6 8 11}; do
		shape handle 1: bpshaper rate 100mbit
		tree tc >/tmp/tree
		must on_tx tc -batch /tmp/tree
		# shellcheck disable=SC2046 # words
		peers 3.5 500 $(tree senders)
		{ tree classes | "$bpshares" 100e6; cat /tmp/peers; } | tree check >/tmp/tree.law
		check_num "tree $seed: all get what the law says" $? == 0
		cat /tmp/tree.law
		names=$(sed -n 's/^# 1:\([0-9a-f]*\): .*/c\1/p' /tmp/tree.law)
		# shellcheck disable=SC2086 # words
		lossless "tree $seed" $names
	done
}

part_floors()
{
	local i args="a:udp,sockets=2,class=1-10 b:udp,sockets=2,class=1-20"

	shape handle 1: bpshaper rate 200mbit
	class 1: 1:10 floor 80mbit
	class 1: 1:20 floor 40mbit
	for i in 1 2 3 4 5 6 7 8; do
		class 1: "1:3$i" floor 8mbit
		args="$args c$i:udp,sockets=2,class=1-3$i"
	done
	class 1: 1:40
	# shellcheck disable=SC2086 # words
	peers 4 500 $args probe:udp,every=9973,size=1400,class=1-40
	# 200 - 184 - the probe, among ten of weight 1
	near "floor 80" "$(got a_mbit)" 81.54 2
	near "floor 40" "$(got b_mbit)" 41.54 2
	for i in 1 2 3 4 5 6 7 8; do near "floor 8, class $i" "$(got c${i}_mbit)" 9.54 2; done
	check_num "a sparse class does not wait (p99)" "$(got probe_delay_p99_ms)" '<=' $sparse ms
	check_num "the rate is used" "$(got mbit)" '>=' 198.6 Mbit/s
	lossless floors a b c1 c2 c3 c4 c5 c6 c7 c8 probe
	check_num "classes count what they send" "$(class_packets 1:10)" == "$(got a_sent)"
	check_num "limits add up to that of one shaper" "$(class_limit 1:10)" '<=' 130000 bytes

	# The last of ten against nine that are greedy
	shape handle 1: bpshaper rate 100mbit
	args=
	for i in 1 2 3 4 5 6 7 8 9; do
		class 1: "1:3$i" weight 100
		args="$args c$i:udp,sockets=4,class=1-3$i"
	done
	class 1: 1:10 floor 30mbit
	# shellcheck disable=SC2086 # words
	peers 3 500 $args a:udp,sockets=2,class=1-10
	check_num "a floor is kept against nine of weight 100" "$(got a_mbit)" '>=' 29.4 Mbit/s
	lossless "nine greedy" a c1 c9
}

part_prio()
{
	shape handle 1: bpshaper rate 100mbit
	class 1: 1:10
	class 1: 1:20 prio 1 weight 100
	peers 3 500 a:udp,sockets=2,class=1-10 b:udp,sockets=8,class=1-20
	check_num "the smaller prio gets all" "$(got a_part)" '>=' 0.995
	lossless prio a b

	# What the smaller one leaves
	peers 3 500 a:udp,every=500,size=1208,class=1-10 b:udp,sockets=8,class=1-20
	near "the larger prio gets the rest" "$(got b_mbit)" 80 2
	lossless "prio, the rest" a b
}

part_alone()
{
	shape handle 1: bpshaper rate 100mbit
	class 1: 1:1 floor 50mbit
	class 1:1 1:10 floor 10mbit weight 1
	class 1:1 1:20 floor 10mbit weight 1
	class 1: 1:2 floor 20mbit
	peers 3 500 a:udp,sockets=4,class=1-10
	check_num "one class alone uses the rate" "$(got a_mbit)" '>=' 99.8 Mbit/s
	lossless alone a

	must on_tx tc class change dev txdev classid 1:1 bpshaper ceil 60mbit
	peers 3 500 a:udp,sockets=4,class=1-10
	check_num "one class alone uses the ceil of its parent" "$(got a_mbit)" '>=' 59.88 Mbit/s
	check_num "and not more" "$(got a_mbit)" '<=' 60.1 Mbit/s
	lossless "alone, ceil" a
}

# shows CLASSID WORDS
shows() { on_tx tc -d class show dev txdev classid "$1" | grep -qF "$2 "; }

# delay_p99_is CLASSID END: of the bucket of the histogram
delay_p99_is() { on_tx tc -s class show dev txdev classid "$1" | grep -q "delay: .* p99 <$2"; }

part_ceil()
{
	shape handle 1: bpshaper rate 200mbit
	class 1: 1:1 ceil 100mbit burst 20k
	class 1:1 1:10 ceil 40mbit burst 10k
	class 1:1 1:20
	class 1: 1:30
	peers 3 500 a:udp,sockets=4,class=1-10,most=40000000 b:udp,sockets=4,class=1-20 \
		c:udp,sockets=4,class=1-30
	near "ceil 40" "$(got a_mbit)" 40 0.5
	near "ceil 100 of the parent" "$(awk "BEGIN { print $(got a_mbit) + $(got b_mbit) }")" 100 0.5
	near "the others" "$(got c_mbit)" 100 0.5
	# A byte takes 200 ns.
	check_num "never more than the burst above the ceil" "$(got a_burst)" '<=' \
		$((10000 + seen_late)) bytes
	check_num "a timer serves several packets" "$(stat timer_wakeups)" '<=' \
		"$(timers "$(stat packets)" 3)"
	lossless ceil a b c

	# A sparse sender that goes before the others of a class that waits for its ceil: they
	# are held all the same.
	shape handle 1: bpshaper rate 10gbit
	class 1: 1:1 ceil 200mbit burst 20k limit 200k
	peers $seconds 500 a:udp,sockets=16,class=1-1 probe:udp,every=2000,size=100,class=1-1
	check "no packet is older than $limits limits (p99)" delay_p99_is 1:1 "$oldest"
	lossless "ceil, a sparse sender inside" a probe

	shape handle 1: bpshaper rate 200mbit
	class 1: 1:10 ceil 40mbit burst 10k
	class 1: 1:40 ceil 1mbit
	must ip -n "$tx" link set txdev mtu 4000
	check "the default burst follows the MTU" shows 1:40 "burst 8028b"
	check "a burst that was asked for stays" shows 1:10 "burst 10Kb"
	must ip -n "$tx" link set txdev mtu 1500

	# The qdisc has no rate: the ceil is what shapes, as with htb
	shape handle 1: bpshaper
	class 1: 1:1 ceil 50mbit
	class 1:1 1:10 weight 3
	class 1:1 1:20 weight 1
	peers 3 500 a:udp,sockets=4,class=1-10,most=50000000 b:udp,sockets=4,class=1-20 \
		probe:udp,every=2000,size=100
	near "without a rate, weight 3" "$(got a_mbit)" 37.5 2
	near "without a rate, weight 1" "$(got b_mbit)" 12.5 2
	check_num "packets of no class do not wait (p99)" "$(got probe_delay_p99_ms)" '<=' 0.1 ms
	lossless "without a rate" a b probe
}

# goes NAME CLASSID SENDER: where its packets are counted
goes()
{
	local before

	before=$(class_packets "$2")
	peers 0.1 0 "a:udp,pace=1000,$3"
	check_num "$1" $(($(class_packets "$2") - before)) == "$(got a_sent)" packets
	check_num "$1: nothing is lost" "$(got a_lost)" == 0 packets
}

filter() { must on_tx tc filter add dev txdev parent "$1" protocol ip "${@:2}"; }

part_who()
{
	local before

	shape handle 1: bpshaper rate 100mbit default 40
	class 1: 1:1
	class 1:1 1:10
	class 1:1 1:20
	class 1: 1:30
	class 1: 1:40
	goes "SO_PRIORITY names a class" 1:10 class=1-10
	goes "packets without a class go to the default" 1:40 size=500
	goes "the priority names no class: the default" 1:40 class=1-99
	goes "the priority is that of another qdisc: the default" 1:40 class=2-10
	filter 1: prio 1 u32 match ip dport 1024 0xffff flowid 1:30
	goes "u32 names a class" 1:30 size=501
	goes "the priority comes before filters" 1:20 class=1-20
	must on_tx tc filter del dev txdev parent 1: prio 1
	goes "the filter has gone" 1:40 size=502
	filter 1: prio 1 matchall flowid 1:1
	filter 1:1 prio 1 u32 match ip dport 1024 0xffff flowid 1:20
	goes "filters of a class with children go on" 1:20 size=503
	goes "the priority names a class with children: its filters decide" 1:20 class=1-1
	must on_tx tc filter del dev txdev parent 1:1 prio 1
	goes "no filter of a class with children matches: the default" 1:40 size=504
	must on_tx tc filter del dev txdev parent 1: prio 1
	filter 1: prio 1 flower ip_proto udp dst_port 1024 classid 1:10
	goes "flower names a class" 1:10 size=505
	must on_tx tc filter del dev txdev parent 1: prio 1
	filter 1: prio 1 matchall action drop
	before=$(stat drops)
	peers 0.1 0 a:udp,pace=1000
	check_num "a filter drops, and that is counted" $(($(stat drops) - before)) == \
		"$(got a_sent)" packets
	must on_tx tc filter del dev txdev parent 1: prio 1
	must on_tx tc qdisc change dev txdev root bpshaper default 0
	before=$(class_packets 1:40)
	peers 0.1 0 a:udp,pace=1000
	check_num "no default: nothing is lost" "$(got a_lost)" == 0 packets
	check_num "no default: no class counts them" "$(class_packets 1:40)" == "$before" packets
	check "no socket is held afterwards" wait_until 5 no_socket_is_held
}

part_refusals()
{
	local i add="class add dev txdev" before parent=1:

	shape handle 1: bpshaper rate 100mbit
	class 1: 1:1 floor 50mbit
	class 1:1 1:10 floor 30mbit
	before=$(on_tx tc class show dev txdev)
	refused "floors above the rate" "floors add up to" $add parent 1: classid 1:2 bpshaper floor 60mbit
	refused "floors above that of the parent" "floors add up to" \
		$add parent 1:1 classid 1:11 bpshaper floor 21mbit
	refused "a floor below those of the children" "floors add up to" \
		class change dev txdev classid 1:1 bpshaper floor 20mbit
	refused "a rate below the floors" "floors add up to" \
		qdisc change dev txdev root handle 1: bpshaper rate 40mbit
	refused "a floor above the ceil" "above" $add parent 1: classid 1:2 bpshaper floor 2mbit ceil 1mbit
	refused "a floor above the ceil that is set" "floor must not be above ceil" \
		class change dev txdev classid 1:10 bpshaper ceil 10mbit
	refused "no such parent" "no such parent" $add parent 1:7 classid 1:2 bpshaper
	refused "the number of another qdisc" "Invalid argument" $add parent 1: classid 2:2 bpshaper
	refused "another parent" "cannot move" \
		class change dev txdev parent 1: classid 1:10 bpshaper floor 1mbit
	refused "a parent goes" "has children" class del dev txdev classid 1:1
	filter 1: prio 1 matchall flowid 1:10
	refused "a class of a filter goes" "filter refers" class del dev txdev classid 1:10
	must on_tx tc filter del dev txdev parent 1: prio 1
	refused "a child qdisc" "no child qdisc" qdisc add dev txdev parent 1:10 pfifo
	refused "an estimator" "no rate estimator" $add parent 1: classid 1:2 estimator 1s 8s bpshaper
	check "nothing has changed" [ "$(on_tx tc class show dev txdev)" = "$before" ]
	for i in 21 22 23 24 25 26 27 28; do
		class $parent 1:$i
		parent=1:$i
	done
	refused "nine levels" "8 levels" $add parent 1:28 classid 1:29 bpshaper
	peers 1 200 a:udp,sockets=4,class=1-28 b:udp,sockets=4,class=1-10
	lossless "eight levels" a b
	# 1:1 has a floor of 50, and half of the rest
	if is_slow; then
		skip "eight levels share as one" "a kernel with KASAN does not send so much"
	else
		near "eight levels share as one" "$(got a_mbit)" 25 2
	fi
}

part_many()
{
	local i

	shape handle 1: bpshaper rate 200mbit
	for ((i = 1; i <= 1000; i++)); do
		printf 'class add dev txdev parent 1: classid 1:%x bpshaper weight %u\n' $i $((i % 7 + 1))
	done >/tmp/batch
	check "1000 classes are made in one batch" on_tx tc -batch /tmp/batch
	check_num "all are listed" "$(on_tx tc class show dev txdev | wc -l)" == 1000
	peers 2 500 a:udp,sockets=4,class=1-7 b:udp,sockets=4,class=1-3e8 \
		probe:udp,every=2000,size=100,class=1-9
	near "weight 1 among 1000" "$(got a_mbit)" 24.93 2
	check_num "many: a sparse class does not wait (p99)" "$(got probe_delay_p99_ms)" '<=' $sparse ms
	lossless many a b probe
	sed -i 's/add/del/; s/ bpshaper.*//; s/parent 1: //' /tmp/batch
	check "1000 classes go in one batch" on_tx tc -batch /tmp/batch
	check_num "none is listed" "$(on_tx tc class show dev txdev | wc -l)" == 0
}

part_batches()
{
	shape handle 1: bpshaper rate 200mbit burst 20kb limit 200k memory_limit 64m
	# shellcheck disable=SC2046 # words
	printf 'class add dev txdev parent 1: classid 1:%x bpshaper floor 2mbit\n' $(seq 16 115) >/tmp/batch
	must on_tx tc -batch /tmp/batch
	# Floors take all, so what is of no class waits.
	on_tx bash -c 'sleep 0.5; echo >/dev/udp/10.99.0.2/9' &
	send --classes 100 --udp 1000 --mode epoll --seconds 2 --warmup-ms 1000
	echo "# $(stat timer_wakeups) timers, $(stat packets) packets"
	check_num "batches: timers of greedy classes with floors" "$(stat timer_wakeups)" '<=' \
		"$(timers "$(stat packets)" 4)" "of $(stat packets) packets"
}

part_short()
{
	local what parent

	for what in "the rate" "a ceil"; do
		shape handle 1: bpshaper rate 20mbit
		parent=1:
		if [ "$what" = "a ceil" ]; then
			shape handle 1: bpshaper rate 1gbit
			class 1: 1:1 ceil 20mbit
			parent=1:1
		fi
		# shellcheck disable=SC2046 # words
		printf "class add dev txdev parent $parent classid 1:%x bpshaper\n" \
			$(seq 16 75) >/tmp/batch
		must on_tx tc -batch /tmp/batch
		send --classes 60 --udp 480 --size 800 --mode epoll --seconds 2 --warmup-ms 1000
		check_num "short packets get $what" "$(result udp_wire_goodput_mbit_per_s)" '>=' \
			19.8 Mbit/s
		check_num "short packets, $what: nothing is lost" "$(result udp_lost_packets)" == 0 packets
	done
}

part_counts()
{
	shape handle 1: bpshaper rate 800mbit burst 600kb default 10
	class 1: 1:1
	class 1:1 1:10
	send --tcp 1 --seconds 0.2 --warmup-ms 0
	check_num "counts: GSO packets leave the class" "$(hist_sum delay_hist)" '<' $(($(stat packets) / 4))
	check_num "counts: and are as many packets as for the qdisc" "$(class_packets 1:10)" == "$(stat packets)"
	check_num "counts: also in the class above" "$(class_packets 1:1)" == "$(stat packets)"
}

part_defaults()
{
	local before

	shape handle 1: bpshaper rate 20mbit queues 1
	before=$(on_tx tc qdisc show dev txdev | grep -o 'burst [^ ]*')
	class 1: 1:1 limit 50000
	class 1:1 1:10
	class 1:1 1:20 weight 3
	peers 1 0 a:udp,class=1-10 b:udp,class=1-20 &
	sleep 0.5
	must on_tx tc qdisc change dev txdev root handle 1: bpshaper latency 30ms
	check "defaults: a class does not change the burst of one queue" \
		[ "$(on_tx tc qdisc show dev txdev | grep -o 'burst [^ ]*')" = "$before" ]
	check "defaults: children do not change a limit" [ "$(class_limit 1:1 | sort -u)" = 50000 ]
	wait
}

peers_topology
# What IPv6 sends of its own would be counted.
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
for part in ${PARTS:-law floors prio alone ceil who changes refusals many flows batches short counts defaults unheld}; do
	"part_$part"
done
finish
