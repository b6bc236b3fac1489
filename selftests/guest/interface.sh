#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What the options beyond rate and limit do, and what the shaper shows of itself:
# shares, backpressure off, pacing, queues, histograms, classes, events. The law under
# peakrate, overhead, mpu and linklayer is tested by law, that of several queues by queues.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/many.sh
. "$(dirname "$0")/lib/many.sh"
# shellcheck source=lib/pktgen.sh
. "$(dirname "$0")/lib/pktgen.sh"

change() { on_tx tc qdisc change dev txdev root bpshaper "$@"; }

# One line for each class: state, and what else the plugin says. (tc class show has
# learnt JSON only lately.)
classes()
{
	on_tx tc -s class show dev txdev |
		sed -n -E 's/^  (socketless|unthrottled|overlimit|throttled)/\1/p'
}

# What the classes hold: bytes, packets.
classes_backlog()
{
	on_tx tc -s class show dev txdev | awk '/^ backlog / {
		bytes += $2; packets += $3 } END { print bytes + 0, packets + 0 }'
}

topology_make

# Shares

shape bpshaper rate 20mbit limit 1mb
send --udp 1 --seconds 1
check_num "64 KiB and a burst are what one socket queues at most" "$(stat max_backlog)" '<=' \
	$((65536 + 98304 + 2 * 1512)) bytes
check_num "and nothing is lost" "$(result udp_lost_packets)" == 0
shape bpshaper rate 20mbit limit 10000 share_min 50000
send --udp 8 --seconds 1
check_num "share_min is what each socket may queue at least" \
	"$(stat max_backlog)" '>=' 48000 bytes
check_num "and they take turns" "$(stat turns)" '>=' 8
check_num "and nothing is lost then" "$(result udp_lost_packets)" == 0
change share_min 70000
check_num "share_min may be above 64 KiB" "$(stat share)" == 70000

# Backpressure

shape bpshaper rate 20mbit limit 50k backpressure off
send --udp 4 --seconds 1
check_num "backpressure off: packets are lost" "$(result udp_lost_packets)" '>' 100
check_num "backpressure off: by the limit, all of them" \
	"$(stat drops_pool)" == "$(result udp_lost_packets)"
check_num "backpressure off: limit bounds the queue" "$(stat max_backlog)" '<=' \
	$((51200 + 1512))
check_num "backpressure off: no socket is throttled" "$(stat throttles)" == 0
check "backpressure off: nothing is left" no_socket_is_held

shape bpshaper rate 8bit limit 3k share_min 3028
on_tx "$bpsocket" udp $nobody sleeps >/tmp/sleeps &
must wait_until 5 grep -q sleeping /tmp/sleeps
check_num "a socket is throttled" "$(stat throttled_sockets)" == 1
backlog=$(stat backlog)
change backpressure off
check_num "backpressure off releases it at once" "$(stat throttled_sockets)" == 0
check "and it goes on" wait $!
check_num "what it had queued is still there" "$(stat backlog)" '>=' "$backlog"
change backpressure on rate 20mbit
send --udp 4 --seconds 1
check_num "backpressure on again: nothing is lost" "$(result udp_lost_packets)" == 0
check_num "backpressure on again: sockets are throttled" "$(stat throttles)" '>' 1
check "backpressure on again: nothing is left" no_socket_is_held

# Pacing: what is seen of it

shape bpshaper rate 100mbit maxrate 4mbit
send --udp 2 --seconds 1
check_num "maxrate: flows wait" "$(stat paced_waits)" '>' 100
check_num "maxrate: and lose nothing" "$(result udp_lost_packets)" == 0
check_num "maxrate: the rate was not in the way" "$(stat overlimits)" == 0
check_num "maxrate: in the end nobody waits" "$(stat paced_flows)" == 0
check_num "text tells of pacing" "$(on_tx tc -s qdisc show dev txdev root |
	grep -c "^  paced_waits $(stat paced_waits) paced_flows 0 ")" == 1
for options in "maxrate unlimited" "pacing off"; do
	shape bpshaper limit 3k share_min 3028 maxrate 8bit
	on_tx "$bpsocket" udp $nobody sleeps >/tmp/sleeps &
	must wait_until 5 grep -q sleeping /tmp/sleeps
	check_num "a flow waits for its next packet" "$(stat paced_flows)" == 1
	check_num "and its socket, which has more than its share" \
		"$(stat throttled_sockets)" == 1
	# shellcheck disable=SC2086 # words
	change $options
	check "$options: it goes on" wait_until 5 eval '! kill -0 $! 2>/dev/null'
	kill $! 2>/dev/null	# if it does not
	check "$options: everything leaves" wait_until 5 eval '[ "$(stat qlen)" = 0 ]'
	check "$options: nothing is held" no_socket_is_held
done
shape bpshaper rate 100mbit
send --udp 1 --seconds 0.5 --warmup-ms 0
check_num "without pacing text does not mention it" \
	"$(on_tx tc -s qdisc show dev txdev root | grep -c paced)" == 0
check_num "but with details" \
	"$(on_tx tc -s -d qdisc show dev txdev root | grep -c paced_waits)" == 1

# Several queues: what is seen of them

check_num "with one lock text does not mention queues" \
	"$(on_tx tc -s -d qdisc show dev txdev root | grep -c '^  queues')" == 0
must ip -n "$tx" link add wide numtxqueues 4 type dummy
ip -n "$tx" -batch - <<-END
	link set wide up
	addr add 10.96.0.1/24 dev wide
	neigh add 10.96.0.2 lladdr 02:00:00:00:00:01 dev wide nud permanent
END
shaped=wide
shape bpshaper rate 100mbit
check "idle queues have all that their burst leaves" bash -c "ip netns exec $tx \
	tc -s qdisc show dev wide root |
	grep -qE '^  queues 4 waiting 0 locks [0-9]+ grants [0-9]+ revokes [0-9]+ tokens (12500|12499)b'"
check_num "all but the top are listed when asked for" \
	"$(on_tx tc qdisc show dev wide invisible | grep -cE '^qdisc bpshaper 0: parent [0-9a-f]+:[1-4] ')" == 4
must on_tx tc qdisc change dev wide root bpshaper rate 8bit limit 20k share_min 3028
on_tx "$bpsocket" udp 10.96.0.2 sleeps >/tmp/sleeps &
must wait_until 5 grep -q sleeping /tmp/sleeps
check_num "a queue without tokens waits" "$(stat hub_waiting)" == 1
check_num "for more than there is" "$(stat hub_tokens)" '<' 1500 bytes
must on_tx tc qdisc change dev wide root bpshaper rate 100mbit
check "it goes on with the new rate" wait_until 5 eval '! kill -0 $! 2>/dev/null'
check "and waits no more" wait_until 5 eval '[ "$(stat hub_waiting)" = 0 ]'
check "nothing is held" no_socket_is_held
shaped=txdev
ip -n "$tx" link del wide
shape bpshaper rate 100mbit

# Histograms

shape bpshaper rate 200mbit burst 20k limit 200k
send --udp 16 --seconds 1 --probe
check_num "every packet is in the histogram of delays" "$(hist_sum delay_hist)" == \
	"$(stat packets)"
check_num "every throttle in that of throttles" "$(hist_sum throttle_hist)" == \
	"$(stat unthrottles)"
check_num "every timer in that of lateness" "$(hist_sum lateness_hist)" == \
	"$(stat timer_wakeups)"
# 200 kB at 200 Mbit/s are 8 ms: buckets of 4.2 to 16.8 ms.
old=$(on_tx tc -s -j qdisc show dev txdev root |
	sed -n 's/.*"delay_hist": *\[\([^]]*\)\].*/\1/p' | tr -d ' ' | cut -d, -f 14,15)
check_num "most packets waited as long as the limit takes" \
	"$((${old/,/+}))" '>' "$(($(stat packets) * 2 / 3))"

# Classes

count=300
shape bpshaper rate 8bit burst 2k limit 200k
many_start $count
must [ -n "$(many_say fill)" ]
check_num "every flow with a backlog is a class" "$(classes | wc -l)" == $count
check_num "which says that its socket is throttled" \
	"$(classes | grep -c '^throttled inet udp')" == $count
check_num "how often" "$(classes | grep -c ' throttles 1 ')" == $count
check_num "and for how long" "$(classes |
	grep -cE 'longest_throttle [0-9.]+m?s ')" == $count
read -r bytes packets <<<"$(classes_backlog)"
check_num "and what it holds: together what the qdisc does, but for the direct slot" \
	$((packets + 1)) '>=' "$(stat qlen)"
check_num "and to the byte" $((bytes + ($(stat qlen) - packets) * 1242)) == \
	"$(stat backlog)"
classes | grep -o 'sk:[0-9a-f]*' | sort >/tmp/cookies
on_tx ss -Huen 2>/dev/null | grep -o 'sk:[0-9a-f]*' | sort >/tmp/ss
check "cookies are those of ss -e" cmp /tmp/cookies /tmp/ss
many_end
unshape
check_num "a qdisc that is not there has no classes" "$(classes | wc -l)" == 0

shape bpshaper rate 8bit limit 100k
pktgen_setup "count 50" "pkt_size 400" "delay 0" "udp_src_min 1000" \
	"udp_src_max 1009" "flag UDPSRC_RND"
# pktgen waits for its last packet to be freed.
pktgen pgctrl start &
must wait_until 5 eval '[ "$(stat flows)" -gt 3 ]'
check_num "packets without a socket are classes by their hash" \
	"$(classes | grep -o 'hash [0-9a-f]*' | sort -u | wc -l)" '>' 3
check_num "and nothing is throttled there" \
	"$(classes | grep -vc '^socketless')" == 0
check "a class cannot be added" bash -c "! ip netns exec $tx tc class add dev txdev \
	parent $(stat handle) classid 1:1 bpshaper 2>/dev/null"
check "nor can a qdisc be put below" bash -c "! ip netns exec $tx tc qdisc add \
	dev txdev parent $(stat handle)1 pfifo 2>/dev/null"
change rate 1gbit
wait
pktgen kpktgend_0 "rem_device_all"

# Events

tracing=/sys/kernel/tracing
[ -e $tracing/trace ] || must mount -t tracefs none $tracing
events() { grep -c " $1: dev=txdev" /tmp/trace; }
shape bpshaper rate 20mbit burst 5k limit 60k share_min 50000
echo 8192 >$tracing/buffer_size_kb
echo 1 >$tracing/events/bpshaper/enable
send --udp 4 --seconds 1
cat $tracing/trace >/tmp/trace
echo 0 >$tracing/events/bpshaper/enable
check_num "an event for every throttle" "$(events sock_throttle)" == \
	"$(stat throttles)"
check_num "an event for every release" "$(events sock_unthrottle)" == \
	"$(stat unthrottles)"
check_num "an event for a burst of each socket at most" "$(events sock_burst)" '<=' 4
check_num "and of one at least" "$(events sock_burst)" '>=' 1
check_num "an event for every turn, with its bytes" \
	"$(grep -c ' sock_turn: dev=txdev.* share=50000 duration=[1-9]' /tmp/trace)" == \
	"$(stat turns)"
check_num "and there were turns" "$(stat turns)" '>=' 8
check_num "an event for every firing of the watchdog" "$(events watchdog)" == \
	"$(stat timer_wakeups)"
check_num "durations are not zero" \
	"$(grep sock_unthrottle /tmp/trace | grep -vc 'duration=0$')" == \
	"$(stat unthrottles)"
check_num "events name the socket" "$(grep sock_throttle /tmp/trace |
	grep -o 'cookie=[0-9a-f]*' | sort -u | wc -l)" == 4

shape bpshaper rate 20mbit limit 20k backpressure off
echo >$tracing/trace
echo 1 >$tracing/events/bpshaper/drop/enable
echo 1 >$tracing/events/skb/kfree_skb/enable
send --udp 4 --seconds 0.5 --warmup-ms 0
echo 0 >$tracing/events/enable
cat $tracing/trace >/tmp/trace
check_num "an event for every drop, with its reason" \
	"$(grep ' drop: dev=txdev' /tmp/trace | grep -c 'reason=pool')" == \
	"$(stat drops_pool)"
# Before 5.17 the event has no reason.
reason=$(grep -o 'reason: ' $tracing/events/skb/kfree_skb/format | head -n 1)
check_num "dropwatch sees a drop of a qdisc" \
	"$(grep kfree_skb: /tmp/trace | grep -c "${reason:+reason: QDISC_DROP}")" '>=' \
	"$(stat drops_pool)"

finish
