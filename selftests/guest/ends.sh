#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Every way in which a backlog ends releases the sockets: change, replace, del,
# link down, removal of the device, of the netns and of the module. A sleeping
# sender must wake and proceed or get its error; one that sleeps on is the worst
# bug this project can have.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

slow="rate 800bit limit 4k"	# a packet takes 12 s

# sleeper: start a sender and wait until it sleeps on a full socket
sleeper()
{
	on_tx "$bpsocket" udp $nobody sleeps >/tmp/sleeper &
	pid=$!
	wait_until 10 grep -q sleeping /tmp/sleeper
	wait_until 10 grep -q '^State:.*S' "/proc/$pid/status"
}

woke() { ! kill -0 "$pid" 2>/dev/null; }

# ends NAME COMMAND...: the command wakes the sleeper, before a packet has left
ends()
{
	local name=$1

	shift
	# shellcheck disable=SC2086 # words
	shape bpshaper $slow
	sleeper
	check "$name: the sender slept" kill -0 "$pid"
	check "$name: the command works" "$@"
	check "$name: the sender wakes" wait_until 8 woke
	wait "$pid"
	check_num "$name: the sender got through or an error it knows" $? == 0
}

topology_make
ends "del" on_tx tc qdisc del dev txdev root
ends "replace by another kind" on_tx tc qdisc replace dev txdev root pfifo
ends "change to a fast rate" on_tx tc qdisc change dev txdev root bpshaper \
	rate 1gbit
check "change: nothing was dropped" [ "$(stat drops)" = 0 ]
check "change: no socket is held" wait_until 5 no_socket_is_held
ends "change to no rate" on_tx tc qdisc change dev txdev root bpshaper \
	rate unlimited
check "no rate: no socket is held" wait_until 5 no_socket_is_held
ends "link down" ip -n "$tx" link set txdev down
links_up
ends "removal of the device" ip -n "$tx" link del txdev
ip netns del "$tx"
ip netns del "$rx"

topology_make
# shellcheck disable=SC2086 # words
shape bpshaper $slow
sleeper
check "rmmod is refused while the module is in use" bash -c '! rmmod sch_bpshaper'
kill "$pid"
wait "$pid" 2>/dev/null
check "a killed sender leaves its backlog to drain" [ "$(stat throttled_sockets)" -le 1 ]
ip netns del "$tx"
ip netns del "$rx"
check "after the netns the module can be removed" \
	wait_until 10 rmmod sch_bpshaper
check "nothing of it is left" bash -c '! grep -q bpshaper /proc/modules /proc/slabinfo'
check "it loads again" modprobe sch_bpshaper

# Changes under load lose nothing, and law and counters survive them.
topology_make
shape bpshaper rate 50mbit burst 20kb limit 60k
send --udp 8 --tcp 2 --seconds 3 &
sleep 0.5
for i in 1 2 3 4 5; do
	on_tx tc qdisc change dev txdev root bpshaper rate $((i * 10))mbit
	sleep 0.2
	on_tx tc qdisc change dev txdev root bpshaper limit $((i * 10))k \
		burst $((i + 2))kb quantum $((i * 1000))
	sleep 0.2
done
on_tx tc qdisc change dev txdev root bpshaper rate 8bit
sleep 0.1
on_tx tc qdisc change dev txdev root bpshaper rate 50mbit
wait $!
check_num "changes under load lose no datagram" "$(result udp_lost_packets)" == 0
check_num "changes under load drop nothing" "$(stat drops)" == 0
check_num "all senders ended by themselves" "$(result stuck_senders)" == 0
check "no socket is held afterwards" wait_until 5 no_socket_is_held
unshape
finish
