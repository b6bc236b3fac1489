#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Every way in which a backlog or its owner ends: whoever was held proceeds or gets
# its error, nothing stays charged, and netns, device and module are really gone.
# A sender that sleeps on is the worst bug this project can have.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

# When the bucket has been emptied, a packet takes 20 minutes: who wakes in these
# tests was not woken by a packet that left.
slow="rate 8bit limit 4k share_min 3028"
sockets=100
held=()

# A netns is freed when the last socket in it is, some time after its name: then
# the end of this pair that is in it goes, and the other one with it.
topology_signed()
{
	topology_make
	ip link add bps-sign type veth peer name sign netns "$tx"
}

netns_is_gone() { ! ip link show bps-sign; }

freed()
{
	ip netns del "$tx"
	check "$1: the netns is freed" wait_until 30 netns_is_gone
	ip netns del "$rx" 2>/dev/null
}

# start OUTPUT PROGRAM...: in $tx; $! is the program itself
start()
{
	ip netns exec "$tx" "${@:2}" >"$1" &
	held+=($!)
}

# Polled, where a program takes long to start: without one.
is_asleep()
{
	local status=''

	read -r -d '' status <"/proc/$1/status"
	[[ $status =~ State:[[:space:]]*S ]]
}

is_held()
{
	local said=''

	read -r -d '' said <"/tmp/held.$1"
	[[ $said =~ held|sleeping ]]
}

# hold: sockets of one process that would block, and processes asleep in send()
hold()
{
	local i

	held=()
	start /tmp/held.0 "$bpsocket" udp "${1:-$nobody}" many lo $sockets
	start /tmp/held.1 "$bpsocket" udp "${1:-$nobody}" sleep
	if [ $# -eq 0 ]; then
		start /tmp/held.2 "$bpsocket" udp $nobody6 sleep
		start /tmp/held.3 "$bpsocket" packet $nobody sleeps txdev
	fi
	for i in "${!held[@]}"; do
		must wait_until 30 is_held "$i"
		must wait_until 10 is_asleep "${held[i]}"
	done
}

all_run() { kill -0 "${held[@]}"; }

none_runs()
{
	local pid

	for pid in "${held[@]}"; do
		! kill -0 "$pid" || return
	done
}

# ended_well NAME: each got through or an error that it knows, and is not charged
ended_well()
{
	local i status=0

	check "$1: ends" wait_until 20 none_runs
	none_runs 2>/dev/null || kill -9 "${held[@]}" 2>/dev/null
	for i in "${!held[@]}"; do
		wait "${held[i]}" && continue
		status=$?
		sed 's/^/# /' /tmp/held."$i"
	done
	check_num "$1: ends as it must" $status == 0
}

release_checked()
{
	check "$1: senders are held" all_run
	check "$1: the command works" "${@:2}"
	ended_well "$1: whoever was held"
}

# releases NAME COMMAND...: the command releases all that are held
releases()
{
	topology_signed
	# shellcheck disable=SC2086 # words
	shape bpshaper $slow
	hold
	release_checked "$@"
}

change() { must on_tx tc qdisc change dev txdev root bpshaper "$@"; }

# drained NAME: what is still queued leaves, and then nothing is left
drained()
{
	change rate 1gbit
	check "$1: no socket is held" wait_until 5 no_socket_is_held
	freed "$1"
}

no_shaper() { ! ip netns exec "$1" tc qdisc show | grep bpshaper; }

releases "del" on_tx tc qdisc del dev txdev root
freed "del"

releases "replace by another kind" on_tx tc qdisc replace dev txdev root pfifo
freed "replace by another kind"

releases "replace by another shaper" \
	on_tx tc qdisc replace dev txdev root handle 77: bpshaper rate 8bit
drained "replace by another shaper"

for options in "rate 1gbit" "rate unlimited"; do
	# shellcheck disable=SC2086 # words
	releases "change to $options" change $options
	check "change to $options: no socket is held" \
		wait_until 5 no_socket_is_held
	check_num "change to $options: nothing was dropped" "$(stat drops)" == 0
	freed "change to $options"
done

# These two purge the backlog of any qdisc.
releases "link down" ip -n "$tx" link set txdev down
links_up
check "link down: nothing is left" no_socket_is_held
check "link up again: it shapes" on_tx "$bpsocket" udp $nobody nonblocking
drained "link down"

# Up to 6.12 that purges the queue, which must release all by itself. Where it does
# not, whoever is held stays so until it drains.
queuelen_changes()
{
	must ip -n "$tx" link set txdev txqueuelen 10 || return
	[ "$(stat purged_packets)" -gt 0 ] || change rate 1gbit
}
releases "txqueuelen" queuelen_changes
# shellcheck disable=SC2086 # words
change $slow
check "txqueuelen: it shapes" on_tx "$bpsocket" udp $nobody nonblocking
drained "txqueuelen"

releases "carrier loss" ip -n "$rx" link set rxdev down
check "carrier loss: nothing is left" no_socket_is_held
links_up
check "carrier is back: it shapes" \
	wait_until 5 on_tx "$bpsocket" udp $nobody nonblocking
drained "carrier loss"

releases "removal of the device" ip -n "$tx" link del txdev
freed "removal of the device"

releases "move to another netns" ip -n "$tx" link set txdev netns "$rx"
check "move to another netns: the shaper has not come along" no_shaper "$rx"
freed "move to another netns"

releases "removal of the peer's netns" ip netns del "$rx"
freed "removal of the peer's netns"

# Packets that wait keep their sockets, and these the netns, whatever the qdisc is:
# so it is freed when they have left.
topology_signed
# shellcheck disable=SC2086 # words
shape bpshaper $slow
hold
kill -9 "${held[@]}"
wait "${held[@]}" 2>/dev/null
change rate 1mbit
freed "removal of the netns of killed senders"

# How its owner can end. What a socket has sent leaves at the shaper's pace.
# owner_ends CASE: with a thread asleep
owner_ends()
{
	topology_signed
	# shellcheck disable=SC2086 # words
	shape bpshaper $slow
	held=()
	start /tmp/held.0 "$bpsocket" udp $nobody "$1" lo $sockets
	check "$1: held" wait_until 30 is_held 0
}

owner_has_ended()
{
	check_num "$1: its packets are still queued" "$(stat backlog)" '>' 1000
	check_num "$1: nothing was dropped" "$(stat drops)" == 0
	drained "$1"
}

for case in shutdown exit; do
	owner_ends $case
	ended_well "$case"
	owner_has_ended $case
done
for case in close exec; do
	owner_ends $case
	check "$case: the sender still waits" all_run
	owner_has_ended $case
	ended_well "$case"
done

# A dequeue throttles 64 sockets at most.
all_are_throttled() { [ "$(stat throttled_sockets)" = "$sockets" ]; }

owner_ends many
check "kill -9: all are throttled" wait_until 10 all_are_throttled
kill -9 "${held[@]}"
check "kill -9: ends at once" wait_until 10 none_runs
wait "${held[@]}" 2>/dev/null
owner_has_ended "kill -9"

# The same, while it is the time of their next packets that holds them. One of each has
# left: the next one would, in 10 s, the horizon.
slow="maxrate 8bit limit 4k share_min 3028"

releases "paced, del" on_tx tc qdisc del dev txdev root
freed "paced, del"

releases "paced, replace by another kind" on_tx tc qdisc replace dev txdev root pfifo
freed "paced, replace by another kind"

for options in "maxrate unlimited" "pacing off"; do
	# shellcheck disable=SC2086 # words
	releases "paced, change to $options" change $options
	check "paced, change to $options: no socket is held" wait_until 5 no_socket_is_held
	check_num "paced, change to $options: nothing was dropped" "$(stat drops)" == 0
	freed "paced, change to $options"
done

releases "paced, link down" ip -n "$tx" link set txdev down
check "paced, link down: nothing is left" no_socket_is_held
freed "paced, link down"

releases "paced, removal of the device" ip -n "$tx" link del txdev
freed "paced, removal of the device"

for case in close exec many; do
	owner_ends $case
	check_num "paced, $case: they wait for their time" "$(stat paced_flows)" '>' 0
	kill -9 "${held[@]}"
	check "paced, $case: kill -9 ends it" wait_until 10 none_runs
	wait "${held[@]}" 2>/dev/null
	check_num "paced, $case: its packets are still queued" "$(stat backlog)" '>' 1000
	change maxrate unlimited
	drained "paced, $case"
done
slow="rate 8bit limit 4k share_min 3028"

# A device that does not take packets: nothing has a rate here.
stopped_slip()
{
	topology_signed
	ip -n "$tx" link del txdev
	wire_start slip
	ip link set "${ends[0]}" name txdev netns "$tx"
	must ip -n "$tx" addr add 10.98.0.1 peer 10.98.0.2 dev txdev
	must ip -n "$tx" link set txdev mtu 1500 up
	shape bpshaper limit 20k
	kill -STOP $wire
	hold 10.98.0.2
	check_num "stopped device: all are throttled" "$(stat throttled_sockets)" \
		== $((sockets + 1))
}

wire_cut()
{
	kill -KILL $wire 2>/dev/null
	wait $wire 2>/dev/null
	freed "$1"
}

if modprobe slip 2>/dev/null; then
	stopped_slip
	release_checked "its peer reads again" kill -CONT $wire
	check "its peer reads again: no socket is held" \
		wait_until 5 no_socket_is_held
	check_num "its peer reads again: nothing was dropped" "$(stat drops)" == 0
	wire_cut "its peer reads again"
	stopped_slip
	release_checked "stopped device, link down" ip -n "$tx" link set txdev down
	check "stopped device, link down: no socket is held" no_socket_is_held
	wire_cut "stopped device, link down"
	stopped_slip
	release_checked "stopped device that vanishes" kill -KILL $wire
	wire_cut "stopped device that vanishes"
else
	skip "a device that is stopped" "no slip"
fi

# The module.
topology_signed
# shellcheck disable=SC2086 # words
shape bpshaper $slow
hold
check "rmmod is refused while the module is in use" bash -c '! rmmod sch_bpshaper'
kill -9 "${held[@]}"
wait "${held[@]}" 2>/dev/null
ip -n "$tx" link del txdev
check "after the device the module can be removed" wait_until 10 rmmod sch_bpshaper
check "nothing of it is left" bash -c '! grep -q bpshaper /proc/modules /proc/slabinfo'
freed "with the module gone"
check "it loads again" modprobe sch_bpshaper

# Changes under load lose nothing, and law and counters survive them.
topology_signed
shape bpshaper rate 50mbit burst 20kb limit 60k
send --udp 8 --tcp 2 --seconds 3 &
sleep 0.5
for i in 1 2 3 4 5; do
	change rate $((i * 10))mbit
	sleep 0.2
	change limit $((i * 10))k burst $((i + 2))kb
	sleep 0.2
done
change rate 8bit
sleep 0.1
change rate 50mbit
wait $!
check_num "changes under load lose no datagram" "$(result udp_lost_packets)" == 0
check_num "changes under load drop nothing" "$(stat drops)" == 0
check_num "changes under load: all senders ended by themselves" \
	"$(result stuck_senders)" == 0
check "changes under load: no socket is held afterwards" \
	wait_until 5 no_socket_is_held

# What purges, under load; TCP sends again what was purged.
shape bpshaper rate 20mbit
# Errors of a link that is down end no sender, and may leave nothing to measure.
traffic_try --udp 8 --tcp 4 --seconds 2 --mode poll >/tmp/purged 2>&1 &
for purge in "tc qdisc replace dev txdev root pfifo" \
	     "tc qdisc replace dev txdev root bpshaper rate 20mbit" \
	     "tc qdisc replace dev txdev root handle 9: bpshaper rate 20mbit" \
	     "tc qdisc del dev txdev root" \
	     "tc qdisc add dev txdev root bpshaper rate 20mbit" \
	     "ip link set txdev txqueuelen 100" \
	     "ip link set txdev down" "ip link set txdev up"; do
	sleep 0.2
	# shellcheck disable=SC2086 # words
	must on_tx $purge
done
links_up
for state in down up; do
	sleep 0.2
	must ip -n "$rx" link set rxdev $state
done
links_up
wait $!
check_num "purges under load: all senders ended by themselves" \
	"$(result stuck_senders)" == 0
check "purges under load: no socket is held afterwards" \
	wait_until 5 no_socket_is_held
finish
