#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# A bpshaper with a qdisc for each queue of the device: which there are, what can be changed, and
# what becomes of packets and sockets when queues vanish and come, and when rate, MTU, link,
# classes, device or root change, idle and under load. Counters and states only: nothing is
# said about time.

# shellcheck source=lib/queues.sh
. "$(dirname "$0")/lib/queues.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"
# shellcheck source=lib/departures.sh
. "$(dirname "$0")/lib/departures.sh"
random=${ROUNDS:-40}
# Rates that the machine exceeds
if is_slow; then
	moving=2mbit by_cpu=500kbit packets=400
else
	moving=20mbit by_cpu=2mbit packets=2000
fi

queued() { shape handle 1: bpshaper "$@"; }
change() { on_tx tc qdisc change dev txdev root handle 1: bpshaper "$@"; }
channels() { on_tx ethtool -L txdev tx "$1"; }

# listed [WORDS]: how many bpshapers the device has
listed() { on_tx tc qdisc show dev txdev "$@" | grep -c "^qdisc bpshaper "; }

# unshaken NAME QUEUES...: what held no packet back for ever has lost none
unshaken()
{
	check_num "$1: nothing is lost" "$(loaded_sum udp_lost_packets "${@:2}")" == 0
	check_num "$1: all senders end by themselves" "$(loaded_sum stuck_senders "${@:2}")" == 0
	check "$1: no socket is held" wait_until 10 no_socket_is_held
}

ended()
{
	check_num "$1: all senders end by themselves" "$(result stuck_senders)" == 0
	check "$1: no socket is held" wait_until 10 no_socket_is_held
}

topology_make
steer
has_channels=
channels $queues 2>/dev/null && has_channels=yes

# Which queues there are
queued rate 100mbit burst 20000
check_num "all queues have a qdisc" "$(queues_shown)" == $queues
check_num "one is listed" "$(listed)" == 1
check_num "and the others when asked for" "$(listed invisible)" == $((queues + 1))
for ((i = 1; i <= queues; i++)); do
	check_num "queue $i has the rate" "$(queue_stat $i rate)" == 12500000
done
refused "one lock, later" "queues cannot be changed" qdisc change dev txdev root handle 1: bpshaper queues 1
refused "a peak rate" "peakrate needs queues 1" \
	qdisc change dev txdev root handle 1: bpshaper peakrate 200mbit
refused "a qdisc of a queue" "" qdisc add dev txdev parent 1:1 pfifo
refused "another qdisc of a queue" "" qdisc replace dev txdev parent 1:1 handle 10: bpshaper rate 1mbit
check "the rate can be changed" change rate 50mbit burst 30000
check_num "for all queues" "$(queues_sum rate)" == $((queues * 6250000))
check_num "and the burst" "$(queues_sum burst)" == $((queues * 30000))
for options in "queues 1" "peakrate 200mbit"; do
	# shellcheck disable=SC2086 # words
	queued rate 100mbit $options
	check_num "$options: one lock" "$(queues_shown)" == 0
	check_num "$options: no other qdisc" "$(listed invisible)" == 1
done
queued
check_num "no rate: all queues have a qdisc, so that one which is stopped stops no other" \
	"$(queues_shown)" == $queues
check "and may get one" change rate 100mbit
check_num "that they share" "$(queues_sum rate)" == $((queues * 12500000))
queued default 10
check_num "no rate, but classes: one lock, for their order" "$(queues_shown)" == 0
queued rate 100mbit queues 1
refused "several locks, later" "queues cannot be changed" \
	qdisc change dev txdev root handle 1: bpshaper queues 0
if [ $has_channels ]; then
	channels 1
	queued rate 100mbit
	check_num "a device that uses one queue: one lock" "$(queues_shown)" == 0
	channels $queues
	send --udp 8 --seconds 0.5 --warmup-ms 0
	check_num "and so with more of them later: nothing is lost" "$(result udp_lost_packets)" == 0
	check "and no socket is held" wait_until 10 no_socket_is_held
	queued rate 100mbit
	channels 2
	check_num "queues that are not used any more are not listed" "$(listed invisible)" == 3
	check_num "nor counted" "$(queues_shown)" == 2
	channels $queues
	check_num "and are when they come back" "$(listed invisible)" == $((queues + 1))
fi

# A size table counts in all queues, whenever it comes: the core sets it after the options.

# counts NAME BYTES OPTIONS OF THE TRAFFIC...: what a packet counts as, on average
counts()
{
	local bytes packets

	bytes=$(stat bytes) packets=$(stat packets)
	send --udp 16 --seconds 0.2 --warmup-ms 0 "${@:3}"
	bytes=$(($(stat bytes) - bytes)) packets=$(($(stat packets) - packets))
	check_num "$1" $(((bytes + packets / 2) / (packets + !packets))) == "$2" bytes
}

table() { must on_tx tc qdisc change dev txdev root handle 1: "$@"; }
queued rate 100mbit
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
counts "without a size table a packet counts as it is" 542 --size 500
[ -z $has_channels ] || channels 2
table stab overhead 500 bpshaper rate 100mbit
[ -z $has_channels ] || channels $queues
counts "a size table that comes by a change, also for queues that come later" 1042 --size 500
counts "it counts for each segment" 2014 --size 1472 --gso 20
table stab overhead 100 bpshaper rate 50mbit
counts "another size table" 642 --size 500
table stab overhead 100000000 bpshaper rate 100gbit
counts "one that makes packets huge: 1 MiB is the most" 1048576 --size 500
table bpshaper rate 100mbit
counts "and none" 542 --size 500
shape handle 1: stab overhead 500 bpshaper rate 100mbit
check_num "a size table from the start: all queues have a qdisc" "$(queues_shown)" == $queues
counts "and it counts" 1042 --size 500

# MTU, another namespace
queued rate 1mbit
for mtu in 9000 1500; do
	must ip -n "$tx" link set txdev mtu $mtu
	check_num "the default burst follows the MTU, $mtu" "$(stat burst)" == $((4 * (mtu + 14))) bytes
	check_num "for all queues" "$(queues_sum burst)" == $((queues * $(stat burst)))
done
must ip netns add "$tx-other"
must ip -n "$tx" link set txdev netns "$tx-other"
check "a device that moves to another namespace leaves its qdiscs behind" \
	bash -c "! ip netns exec $tx-other tc qdisc show dev txdev invisible | grep -q bpshaper"
ip -n "$tx-other" link set txdev netns "$tx"
ip netns del "$tx-other"
links_up
on_tx tc qdisc del dev txdev clsact 2>/dev/null
steer

# Rate and MTU under load
queued rate 20mbit burst 20000
for ((q = 0; q < queues; q++)); do load $q 3 --udp 4; done
for options in "rate 5mbit" "rate unlimited" "rate 20mbit burst 20000" "limit 30k" "rate 2mbit" \
	"memory_limit 32mb" "rate 20mbit" "pacing off" "pacing on latency 5ms"; do
	sleep 0.2
	# shellcheck disable=SC2086 # words
	check "change under load: $options" change $options
done
wait
unshaken "change under load" 0 1 2 3
for ((q = 0; q < queues; q++)); do load $q 2 --udp 4; done
for mtu in 9000 1500 2000 1500; do
	sleep 0.3
	must ip -n "$tx" link set txdev mtu $mtu
done
wait
unshaken "MTU under load" 0 1 2 3

# Queues vanish and come while all of them send: what is in one that vanishes is purged, and
# nothing else is lost.
if [ $has_channels ]; then
	queued rate 20mbit burst 20000
	for ((q = 0; q < queues; q++)); do load $q 12 --udp 2; done
	fewer=0 last=0
	for n in 2 4 1 3 4; do
		sleep 0.2
		must channels $n
		now=$(stat packets)
		[ "$now" -ge "$last" ] || fewer=$((fewer + 1))
		last=$now
	done
	wait
	check_num "queues vanish and come: counts go on" $fewer == 0
	check_num "queues vanish and come: all senders end by themselves" \
		"$(loaded_sum stuck_senders 0 1 2 3)" == 0
	# Of each queue the device may have one at each change.
	check_num "queues vanish and come: what is lost was purged, or at the device" \
		"$(loaded_sum udp_lost_packets 0 1 2 3)" '<=' $(($(stat purged_packets) + 5 * queues)) packets
	check_num "queues vanish and come: nothing is dropped" "$(stat drops)" == 0
	check "queues vanish and come: no socket is held" wait_until 10 no_socket_is_held
	check_num "queues vanish and come: nobody waits" "$(stat hub_waiting)" == 0
	check "queues vanish and come: the sum is that of the queues" wait_until 5 is_sum packets
	send --udp 8 --seconds 1 --warmup-ms 0
	check_num "queues vanish and come: nothing is lost afterwards" "$(result udp_lost_packets)" == 0
else
	skip "queues vanish and come" "the number of queues of veth is fixed in this kernel"
fi

# What a queue had asked for when it went does not stop the others.
all_wait() { [ "$(stat hub_waiting)" = 2 ]; }
has_sent() { [ "$(queue_stat 1 packets)" -ge $((before + 50)) ]; }
if [ $has_channels ] && can_steer; then
	queued rate 1mbit burst 20000
	load 0 12 --udp 2
	load 1 3 --udp 2
	check "two queues wait" wait_until 5 all_wait
	must channels 1
	before=$(queue_stat 1 packets)
	check "a queue that goes does not take the others' turn" wait_until 6 has_sent
	must channels $queues
	wait
	check "and no socket is held" wait_until 10 no_socket_is_held
else
	skip "a queue that goes" "no queue can be chosen in this kernel, or taken away"
fi

# Another root, and none, under load
# On a slow machine nothing may be left to measure.
sends() { [ "$(stat packets)" -gt 100 ]; }
queued rate 20mbit burst 20000
traffic_try --udp 24 --tcp 4 --seconds 4 &
must wait_until 10 sends
for root in "handle 2: bpshaper rate 10mbit" "handle 3: mq" "handle 4: bpshaper rate 20mbit" \
	"handle 5: bpshaper rate 20mbit queues 1" "handle 6: bpshaper" \
	"handle 7: pfifo" "handle 8: bpshaper rate 20mbit burst 20000"; do
	sleep 0.3
	# shellcheck disable=SC2086 # words
	check "under load there can be another root: $root" \
		on_tx tc qdisc replace dev txdev root $root
done
sleep 0.3
root_remove
sleep 0.3
must ip -n "$tx" link set txdev down
sleep 0.3
queued rate 20mbit burst 20000
links_up
wait $!
ended "another root under load"
queued rate 20mbit burst 20000
traffic_try --udp 24 --tcp 4 --seconds 4 --warmup-ms 0 &
must wait_until 10 sends
for i in 1 2 3; do
	sleep 0.3
	must ip -n "$tx" link set txdev down
	must no_socket_is_held
	sleep 0.1
	links_up
done
wait $!
ended "link down and up under load"
check_num "link down and up under load: nobody waits" "$(stat hub_waiting)" == 0

# A namespace that goes with its device, whose queues hold what others have sent
hop=$tx-hop
must ip netns add $hop
must ip link add near netns "$tx" type veth peer name far netns $hop
must ip -n $hop link add out numtxqueues 4 type dummy
ip -n "$tx" -batch - <<-END
	addr add 10.98.0.1/24 dev near
	link set near up
	route add 10.97.0.0/24 via 10.98.0.2
END
ip -n $hop -batch - <<-END
	addr add 10.98.0.2/24 dev far
	link set far up
	addr add 10.97.0.1/24 dev out
	link set out up
	neigh add 10.97.0.2 lladdr 02:00:00:00:00:01 dev out nud permanent
END
ip netns exec $hop sysctl -qw net.ipv4.ip_forward=1
must ip netns exec $hop tc qdisc add dev out root handle 1: bpshaper rate 8bit limit 200k
must ip netns exec $hop tc class add dev out parent 1: classid 1:10 bpshaper
must ip netns exec $hop tc qdisc change dev out root bpshaper default 10
flood() { on_tx bash -c 'for port in {1000..1099}; do echo >/dev/udp/10.97.0.2/$port; done'; }
hop_holds()
{
	flood
	[ "$(ip netns exec $hop tc -s -j qdisc show dev out | json_get qlen)" -gt 20 ]
}
check "queues of a namespace hold packets" wait_until 10 hop_holds
ip netns del $hop
check "which goes with them" wait_until 10 eval '! ip -n "$tx" link show near 2>/dev/null'

# One socket whose packets leave by all queues: the owner chooses, or its CPU does. Each
# queue holds its packets and throttles it for them; in each they stay in order. That is seen
# at the device: CPUs that dequeue in turn feed a backlog of the receiver each.

# disordered: how many packets there were, and how many of them were earlier ones than that
# before in their queue. The lengths tell the numbers, modulo 400.
disordered()
{
	grep ": net_dev_start_xmit: " $tracing/trace | awk '
		{
			match($0, / queue_mapping=[0-9]*/); queue = substr($0, RSTART, RLENGTH)
			match($0, / len=[0-9]*/); bytes = substr($0, RSTART + 5, RLENGTH - 5)
		}
		(queue in last) && (ahead = (bytes - last[queue] + 400) % 400) * (ahead < 200) == 0 { n++ }
		{ last[queue] = bytes }
		END { print NR, n + 0 }'
}

# moves NAME QUEUES COUNT HOW
moves()
{
	local out seen wrong

	departures_start
	out=$("$bpmoves" "$tx" "$rx" 10.99.0.2 "${@:2}") || {
		not_ok "$1: a socket that moves" "$out"
		return
	}
	echo 0 >$tracing/events/net/net_dev_start_xmit/enable
	read -r seen wrong <<<"$(disordered)"
	echo "# $1: $out, in the queues $wrong"
	check_num "$1: a socket that moves loses nothing" "$(json_get lost <<<"$out")" == 0
	check_num "$1: all its packets are seen to leave" "$seen" == "$3"
	check_num "$1: and are not reordered within a queue" "$wrong" == 0
	# To move to another CPU is to sleep, too.
	[ "$4" = cpu ] || check_num "$1: and waits" "$(json_get sleeps <<<"$out")" '>' 0
	check "$1: and is not held when it has ended" wait_until 10 no_socket_is_held
	for ((i = 1; i <= $2; i++)); do
		check_num "$1: queue $i has throttled it" "$(queue_stat $i throttles)" '>' 0
	done
}

# What IPv6 sends when a link comes up would be counted as well.
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
if can_steer; then
	must modprobe cls_fw
	for ((q = 0; q < queues; q++)); do
		must on_tx tc filter add dev txdev egress protocol ip prio 1 handle $((q + 1)) fw \
			action skbedit queue_mapping $q
	done
	queued rate $moving
	moves "by mark" $queues $packets mark
else
	skip "by mark" "before 5.19 a filter cannot choose the queue"
fi
if [ "$(nproc)" -gt 1 ]; then
	# A sender that moves all the time is slower.
	queued rate $by_cpu
	for ((i = 0; i < 2; i++)); do
		printf '%x' $((1 << i)) |
			on_tx tee /sys/class/net/txdev/queues/tx-$i/xps_cpus >/dev/null
	done
	moves "by CPU" 2 $((packets / 2)) cpu
	for i in 0 1; do
		echo 0 | on_tx tee /sys/class/net/txdev/queues/tx-$i/xps_cpus >/dev/null
	done
fi

# Classes come, change and go at random, on all queues, while senders wait in them.
queued rate 20mbit burst 20000
class 1: 1:10
class 1: 1:11
for ((q = 0; q < queues; q++)); do load $q $((random / 10 + 2)) --udp 8 --classes 6; done
for ((i = 0, worked = 0; i < random; i++)); do
	id=1:1$((RANDOM % 6))
	case $((RANDOM % 5)) in
	0 | 1) on_tx tc class add dev txdev parent 1: classid $id bpshaper weight $((RANDOM % 9 + 1)) ;;
	2) on_tx tc class del dev txdev classid $id ;;
	3) on_tx tc class change dev txdev classid $id bpshaper prio $((RANDOM % 2)) ceil 10mbit ;;
	4) change default $((RANDOM % 6 + 10)) ;;
	esac 2>/dev/null && worked=$((worked + 1))
	sleep 0.05
done
wait
check_num "classes at random: some changes work" $worked '>' $((random / 4))
check_num "classes at random: all that is lost was purged" \
	"$(loaded_sum udp_lost_packets 0 1 2 3)" == "$(stat purged_packets)" packets
check_num "classes at random: all senders end by themselves" "$(loaded_sum stuck_senders 0 1 2 3)" == 0
check "classes at random: no socket is held" wait_until 10 no_socket_is_held
check_num "classes at random: nothing is dropped" "$(stat drops)" == 0

# All of it at random
traffic_try --udp 24 --tcp 4 --classes 6 --seconds $((random / 8 + 4)) &
sender=$!
for ((i = 0, worked = 0; i < random; i++)); do
	id=1:1$((RANDOM % 6))
	case $((RANDOM % 8)) in
	0) channels $((RANDOM % queues + 1)) ;;
	1) change rate $((RANDOM % 50 + 1))mbit ;;
	2) change rate unlimited ;;
	3) on_tx tc class add dev txdev parent 1: classid $id bpshaper ;;
	4) on_tx tc class del dev txdev classid $id ;;
	5) on_tx tc qdisc del dev txdev root ;;
	*) on_tx tc qdisc add dev txdev root handle 1: bpshaper rate 20mbit default 10 ;;
	esac >/dev/null 2>&1 && worked=$((worked + 1))
	sleep 0.05
done
check_num "changes at random: some work" $worked '>' $((random / 4))
channels $queues 2>/dev/null
queued rate 100mbit
wait $sender
ended "changes at random"
unshape
check "the module unloads" wait_until 10 rmmod sch_bpshaper
finish
