#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Who is a member of a group, with what options, and what becomes of the others and of
# sockets when one comes, goes, changes or loses its link, idle and under load. Counters
# and states only: nothing is said about time.

# shellcheck source=lib/queues.sh
. "$(dirname "$0")/lib/queues.sh"
# shellcheck source=lib/departures.sh
. "$(dirname "$0")/lib/departures.sh"
random=${ROUNDS:-40}
# Rates that the machine exceeds
if is_slow; then
	rows=("4000000 8000 1470" "500000 8000 100") moving=2mbit packets=400 beside=25
else
	rows=("100000000 12000 1470" "20000000 8000 100") moving=20mbit packets=2000 beside=10
fi

# shown N: options and kind of a member
shown() { on_tx tc qdisc show dev txdev | grep "parent 8001:$1 "; }

# shows TEXT N...: each of these members does
shows()
{
	local n

	for n in "${@:2}"; do
		grep -q "$1" <<<"$(shown "$n")" || return
	done
}

# refused NAME PATTERN N OPTIONS...: no such member, and the others are as before
refused()
{
	local name=$1 pattern=$2 before

	shift 2
	before=$(on_tx tc qdisc show dev txdev)
	if member "$@" 2>/tmp/err; then
		not_ok "$name: refused"
	else
		check "$name: says why" grep -q "$pattern" /tmp/err
	fi
	check "$name: changes nothing" [ "$before" = "$(on_tx tc qdisc show dev txdev)" ]
}

members() { member_stat "${1:-1}" group_members; }

ended()
{
	check_num "$1: all senders end by themselves" "$(result stuck_senders)" == 0
	check "$1: no socket is held" wait_until 10 none_is_held
}

topology_make numtxqueues $queues numrxqueues $queues
steer

# Options
mq_root
refused "a group without a rate" "needs a rate" 1 group 7
refused "a group with a peak rate" "exclude each other" 1 rate 1mbit peakrate 2mbit group 7
member 1 rate 100mbit burst 20000 group 7
check "a group is shown" grep -q "rate 100Mbit burst 20000b .*group 7" <<<"$(shown 1)"
check_num "and has one member" "$(members)" == 1
check "a second one needs no rate" member 2 group 7
check "and has that of the group" grep -q "rate 100Mbit burst 20000b" <<<"$(shown 2)"
check "or the same" member 3 rate 100mbit burst 20000 group 7
check_num "there are three" "$(members 2)" == 3
# Before 6.3 a message has no numbers.
if [[ $(uname -r) == 6.1.* || $(uname -r) == 5.* ]]; then
	values="another rate or burst" framing="another overhead"
else
	values="group 7 has rate 100000000bit burst 20000b"
	framing="group 7 has overhead 0b mpu 0b linklayer ethernet"
fi
refused "another rate" "$values" 4 rate 50mbit group 7
refused "another burst" "$values" 4 burst 30000 group 7
refused "another overhead" "$framing" 4 overhead 10 group 7
check "a change of one" member 2 rate 50mbit burst 30000 group 7
check "is a change of itself and the first" shows "rate 50Mbit burst 30000b" 1 2
check "and of the third" shows "rate 50Mbit burst 30000b" 3
check "of how packets are framed, too" member 1 overhead 24 mpu 84 group 7
check "of all, too" shows "overhead 24b mpu 84b" 1 2 3
member 3 overhead 0 mpu 0 group 7
refused "a change to no rate" "needs a rate" 3 rate unlimited group 7
check "one can be in another group" member 4 rate 10mbit group 8
check_num "which has one member" "$(members 4)" == 1
check "one can change to another group" member 4 group 7
check_num "which has one more" "$(members 4)" == 4
check "one can leave it" member 4 group 0
check_num "which has one less" "$(members 1)" == 3
check "and keeps its rate" grep -q "rate 50Mbit" <<<"$(shown 4)"
on_tx tc qdisc del dev txdev parent 8001:2
check_num "one that is removed is no member" "$(members 1)" == 2
on_tx tc qdisc del dev txdev parent 8001:1
on_tx tc qdisc del dev txdev parent 8001:3
check "a group without members is forgotten" member 1 rate 1mbit group 7
# A new qdisc in the place of a member: it is made before the old one goes.
# put PARENT HANDLE OPTIONS...: a new qdisc there, if the handle is another
put() { on_tx tc qdisc replace dev txdev parent "$1" handle "$2" bpshaper "${@:3}"; }
mq_root
put 8001:1 10: rate 1mbit burst 4543 group 7
put 8001:2 20: group 7
check_num "there are two members" "$(members)" == 2
check "a member can be replaced by one with another handle" put 8001:1 11: group 7
check "which is there" grep -q "qdisc bpshaper 11: .*burst 4543b .*group 7" <<<"$(shown 1)"
check_num "and there are two, as before" "$(members 2)" == 2
check "with all options given, too" put 8001:1 12: rate 1mbit burst 4543 group 7
check_num "and there are two" "$(members 2)" == 2
check "a replacement with another rate is refused" bash -c "! ip netns exec $tx tc qdisc replace \
	dev txdev parent 8001:1 handle 13: bpshaper rate 2mbit group 7"
check_num "after a replacement that is refused there are two, too" "$(members 2)" == 2
check "a member can be replaced by one of another group" put 8001:1 14: rate 1mbit group 8
check_num "which leaves one" "$(members 2)" == 1
shape handle 5: bpshaper rate 1mbit burst 3029 group 7
check "the only member can be replaced, at the root" \
	on_tx tc qdisc replace dev txdev root handle 6: bpshaper rate 1mbit burst 3029 group 7
check_num "and there is one" "$(stat group_members)" == 1
shape handle 8001: htb default 1
for i in 1 2; do
	must on_tx tc class add dev txdev parent 8001: classid 8001:$i htb rate 1gbit
	put 8001:$i ${i}0: rate 1mbit burst 4543 group 7
done
check "a member can be replaced, in a class" put 8001:1 11: group 7
check_num "and there are two members" "$(members 2)" == 2
mq_root
member 1 rate 200mbit group 7
member 2 group 7

# bursts: each once
bursts() { on_tx tc -j qdisc show dev txdev | grep -o '"burst":[0-9]*' | sort -u | xargs; }
before=$(bursts)
must ip -n "$tx" link set txdev mtu 9000
member 2 limit 100kb group 7
check_num "after a change of the MTU a change of one changes the burst of all" \
	"$(bursts | wc -w)" == 1
check "which is another" [ "$before" != "$(bursts)" ]
must ip -n "$tx" link set txdev mtu 1500

# Other devices and namespaces have groups of their own.
must on_rx tc qdisc add dev rxdev root bpshaper rate 1mbit group 7
check_num "another device has a group of its own" "$(members)" == 2
on_rx tc qdisc del dev rxdev root
must ip netns add "$tx-other"
must ip -n "$tx" link set txdev netns "$tx-other"
check "a device that moves to another namespace leaves its group behind" \
	bash -c "! ip netns exec $tx-other tc qdisc show dev txdev | grep -q bpshaper"
ip -n "$tx-other" link set txdev netns "$tx"
ip netns del "$tx-other"
links_up
on_tx tc qdisc del dev txdev clsact 2>/dev/null
steer

# Members of a classful tree below one lock
must on_tx tc qdisc replace dev txdev root handle 8001: htb default 1
for i in 1 2; do
	must on_tx tc class add dev txdev parent 8001: classid 8001:$i htb rate 1gbit
	member $i rate 20mbit burst 20000 group 3
done
check_num "classes of one qdisc can be members" "$(members)" == 2
send --udp 4 --seconds 1
check_num "in a class: nothing is lost" "$(result udp_lost_packets)" == 0
check "in a class: no socket is held" wait_until 10 \
	bash -c "! ip netns exec $tx tc -s -j qdisc show dev txdev | grep -q '\"throttled_sockets\":[1-9]'"

# While a qdisc is put into another queue the kernel takes all of them out of use: until 7.0
# it purges them, later the timer of one that has a backlog fires in vain.
mq_root
member 1 rate 4mbit burst 12000 group 7
load 0 $beside --udp 4
for ((end = SECONDS + 4; SECONDS < end;)); do
	for kind in pfifo bfifo; do
		sleep 0.1
		must on_tx tc qdisc replace dev txdev parent 8001:2 $kind
	done
done
before=$(member_stat 1 packets)
check "queues beside are replaced: members go on" \
	wait_until 5 eval '[ "$(member_stat 1 packets)" -gt "$((before + 20))" ]'
wait
check_num "queues beside are replaced: all senders end by themselves" \
	"$(loaded 0 stuck_senders)" == 0
# The second of two packets waits for 0.15 s, and nobody comes who wakes it.
has_left() { [ "$(member_stat 1 qlen)" = 0 ]; }
must on_tx tc qdisc replace dev txdev parent 8001:1 pfifo
member 1 rate 80kbit burst 1514
for ((end = SECONDS + 6, stay = 0; SECONDS < end;)); do
	for i in 1 2; do
		on_tx bash -c "head -c 1450 /dev/zero >/dev/udp/10.99.0.9/$(queue_port 0)"
	done
	for kind in pfifo bfifo pfifo bfifo; do
		must on_tx tc qdisc replace dev txdev parent 8001:2 $kind
	done
	wait_until 10 has_left || stay=$((stay + 1))
done
check_num "queues beside are replaced: a packet that is alone leaves" $stay == 0

# Ends under load
grouped rate 20mbit burst 20000
# On a slow machine nothing may be left to measure.
traffic_try --udp 24 --tcp 4 --seconds 3 &
sleep 1
on_tx tc qdisc del dev txdev parent 8001:2
sleep 0.3
must ip -n "$tx" link set txdev down
sleep 0.3
links_up
sleep 0.3
mq_root
wait $!
check_num "ends under load: all senders end by themselves" "$(result stuck_senders)" == 0
grouped rate 20mbit burst 20000
load 0 2 --udp 4
load 1 2 --udp 4
sleep 1
member 2 rate 5mbit group 7
sleep 0.3
member 1 rate 20mbit burst 20000 group 7
wait
check_num "a change of the rate under load: nothing is lost" \
	"$(($(loaded 0 udp_lost_packets) + $(loaded 1 udp_lost_packets)))" == 0
check "a change of the rate under load: no socket is held" wait_until 10 none_is_held

# The law for the sum, of the times of the decisions: CPUs that really run at once. Small
# packets, so that they meet. A device that is too slow for the rate would prove nothing.
# What IPv6 sends when a link comes up would be counted before it is seen.
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
for row in "${rows[@]}"; do
	read -r rate burst size <<<"$row"
	name="$rate bit/s, $size bytes"
	departures_start bpshaper/group_send
	grouped rate "$rate" burst "$burst"
	for q in 0 1 2 3; do load $q 2 --udp 4 --size "$size"; done
	wait
	check "$name: no socket is held" wait_until 20 none_is_held
	departures_end >/tmp/departures
	check_num "$name: all departures are seen" "$(wc -l </tmp/departures)" == "$(sum_stat packets)"
	check_num "$name: no window of the sum exceeds burst + rate * T" \
		"$(level $((rate / 8)) </tmp/departures)" '<=' "$burst" bytes
	check_num "$name: members had to wait" "$(sum_stat overlimits)" '>' 0
	check_num "$name: nothing is lost" "$(for q in 0 1 2 3; do loaded $q udp_lost_packets
		done | awk '{ sum += $1 } END { print sum }')" == 0
done

# One socket whose packets leave by all queues: the owner chooses, or its CPU does. Each
# queue holds its packets and throttles it for them; in each they stay in order. That is seen
# where a member decides that one leaves: CPUs that dequeue in turn feed a backlog of
# the receiver each.

# disordered: how many decisions there were, and how many of them were for an earlier packet
# than that member's decision before. The lengths tell the numbers, modulo 400.
disordered()
{
	awk '!(at = index($0, ": group_send: ")) { next }
		{
			match($0, / handle=[^:]*/); member = substr($0, RSTART, RLENGTH)
			match($0, / bytes=[0-9]*/); bytes = substr($0, RSTART + 7, RLENGTH - 7)
			match($0, / now=[0-9]*/); print substr($0, RSTART + 5, RLENGTH - 5), member, bytes
		}' $tracing/trace | sort -s -n -k 1,1 | awk '
		($2 in last) && (ahead = ($3 - last[$2] + 400) % 400) * (ahead < 200) == 0 { n++ }
		{ last[$2] = $3 }
		END { print NR, n + 0 }'
}

# moves NAME QUEUES COUNT HOW
moves()
{
	local out seen wrong

	departures_start bpshaper/group_send
	out=$("$bpmoves" "$tx" "$rx" 10.99.0.2 "${@:2}") || {
		not_ok "$1: a socket that moves" "$out"
		return
	}
	echo 0 >$tracing/events/bpshaper/group_send/enable
	read -r seen wrong <<<"$(disordered)"
	echo "# $1: $out, in the queues $wrong"
	check_num "$1: a socket that moves loses nothing" "$(json_get lost <<<"$out")" == 0
	check_num "$1: all its packets are seen to leave" "$seen" == "$3"
	check_num "$1: and are not reordered within a queue" "$wrong" == 0
	# To move to another CPU is to sleep, too.
	[ "$4" = cpu ] || check_num "$1: and waits" "$(json_get sleeps <<<"$out")" '>' 0
	check "$1: and is not held when it has ended" wait_until 10 none_is_held
	for i in 1 2; do
		check_num "$1: queue $i has throttled it" "$(member_stat $i throttles)" '>' 0
	done
}

on_tx tc qdisc del dev txdev root
must on_tx tc qdisc add dev txdev root handle 8001: mqprio num_tc 4 \
	map 0 1 2 3 0 0 0 0 0 0 0 0 0 0 0 0 queues 1@0 1@1 1@2 1@3 hw 0
for i in 1 2 3 4; do member $i rate $moving group 7; done
moves "by priority" 4 $packets priority
if [ "$(nproc)" -gt 1 ]; then
	# A sender that moves all the time is slower. With mqprio its CPU would not matter.
	multiqueue=mq grouped rate 2mbit
	for ((i = 0; i < 2; i++)); do
		printf '%x' $((1 << i)) |
			on_tx tee /sys/class/net/txdev/queues/tx-$i/xps_cpus >/dev/null
	done
	moves "by CPU" 2 $((packets / 2)) cpu
	for i in 0 1; do
		echo 0 | on_tx tee /sys/class/net/txdev/queues/tx-$i/xps_cpus >/dev/null
	done
fi

# What a member had asked for when it went does not stop the others.
all_wait() { [ "$(member_stat 2 group_waiting)" = 2 ]; }
has_sent() { [ "$(member_stat 2 packets)" -ge $((before + 50)) ]; }
if [ $steered = queue_mapping ]; then
	grouped rate 1mbit burst 20000
	load 0 3 --udp 2
	load 1 12 --udp 2
	check "two members wait" wait_until 5 all_wait
	must on_tx tc qdisc replace dev txdev parent 8001:1 pfifo
	before=$(member_stat 2 packets)
	check "a member that goes does not take the others' turn" wait_until 6 has_sent
	wait
else
	skip "a member that goes" "before 5.19 a filter cannot choose the queue"
fi

# Members come and go at random while all queues send.
mq_root
is_in_use()
{
	[ "$(on_tx tc -s qdisc show dev txdev | grep -A1 "parent 8001:$1 " |
		sed -n 's/.* \([0-9]*\) pkt .*/\1/p')" -gt 0 ]
}
traffic_try --udp 24 --tcp 4 --seconds $((random / 8 + 4)) &
sender=$!
for ((n = 1; n <= queues; n++)); do
	# Where the priority chooses the queue, all of this load has the same.
	[ $steered = queue_mapping ] || break
	check "members at random: queue $n is in use" wait_until 10 is_in_use $n
done
for ((i = 0, worked = 0; i < random; i++)); do
	n=$((RANDOM % queues + 1))
	# A queue may have nothing to delete, a group may not take a member.
	case $((RANDOM % 5)) in
	0) on_tx tc qdisc del dev txdev parent 8001:$n ;;
	1) member $n rate $((RANDOM % 50 + 1))mbit group 1 ;;
	2) member $n group $((RANDOM % 3)) ;;
	3) member $n rate 20mbit group $((RANDOM % 2 + 1)) ;;
	4) member $n rate $((RANDOM % 20 + 1))mbit group 0 ;;
	esac 2>/dev/null && worked=$((worked + 1))
	sleep 0.05
done
check_num "members at random: some changes work" $worked '>' $((random / 4))
grouped rate 100mbit
wait $sender
ended "members at random"
check_num "members at random: none is left over" "$(members)" == 4
unshape
check "the module unloads" wait_until 10 rmmod sch_bpshaper
finish
