#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Virtual machines on two CPUs against a random sequence of what can happen to them: their send
# buffers grow, shrink and go, queues come and go, they are paused and killed, their taps and the
# uplink go down, ports leave the bridge, the qdisc changes, goes and comes. What counts is the
# kernel log, and that in the end they send again, no thread is stuck, no queue is held, and the taps
# and the module can be removed.
#
#	tap0 (two queues, vhost-net) ---+
#	tap1 (write) -------------------+--- br0 --- txdev (shaper) --->
#
# $DURATION is the time in seconds, $SEED gives the same sequence of events again.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
# shellcheck source=lib/machines.sh
. "$(dirname "$0")/lib/machines.sh"
seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
RANDOM=$seed
kind=vhost

pick() { echo "${*:RANDOM % $# + 1:1}"; }

# machine N: one after the other, of 1 to 3 s; what it says is its own affair
machine()
{
	local sender=tap,device=tap1 seconds

	while [ -e /tmp/race ]; do
		[ "$1" = 1 ] || sender=$kind,device=tap0,sockets=2
		seconds=$(pick 1 2 3)
		# shellcheck disable=SC2046 # words
		"$bppeers" "$tx" txdev "$rx" rxdev "$seconds" 100 \
			"g:$sender,ring=64,sndbuf=$(pick 4608 $bounded 1048576),pace=$(pick 100 500)" \
			>/dev/null 2>&1 && echo run >>/tmp/runs
	done
}

machine_pid() { pgrep -x bppeers | shuf -n 1 --random-source=<(yes "$RANDOM"); }

# event NAME
event()
{
	local pid

	case $1 in
	sndbuf) on_tx "$bpsndbuf" "$(pick 4608 $bounded $((1 << 28)) $((1 << 30)) $unbounded)" tap0 ;;
	sndbuf_of) on_tx "$bpsndbuf" "$(pick 4608 $unbounded)" tap1 "$(machine_pid)" ;;
	kill) kill -9 "$(machine_pid)" ;;
	pause)
		pid=$(machine_pid)
		kill -STOP "$pid"
		sleep "0.$((RANDOM % 5))"
		kill -CONT "$pid"
		;;
	tap_down) tap_set down; tap_set up ;;
	port) tap_set nomaster; tap_set master br0 ;;
	promisc) on_tx ip link set br0 promisc "$(pick on off)" ;;
	uplink) on_tx ip link set txdev down; on_tx ip link set txdev up ;;
	change) on_tx tc qdisc change dev txdev root bpshaper rate "$(pick 1mbit 5mbit 50mbit)" \
		limit "$(pick 4k 30k 200k)" backpressure "$(pick on on off)" ;;
	replace) on_tx tc qdisc replace dev txdev root handle "$(pick 5: 6:)" bpshaper rate 5mbit ;;
	del) on_tx tc qdisc del dev txdev root; shape bpshaper rate 5mbit ;;
	classes)
		shape handle 1: bpshaper rate 5mbit default 1
		on_tx tc class add dev txdev parent 1: classid 1:1 bpshaper ceil 2mbit
		;;
	esac
}
events="sndbuf sndbuf_of kill pause tap_down port promisc uplink change replace del classes"

tap_set() { on_tx ip link set "${tap:=$(pick tap0 tap1)}" "$@"; }

is_throttled() { [ "$(stat throttles)" -gt 0 ]; }
has_sent() { [ "$(stat packets)" -gt 50 ]; }

machines_topology
modprobe vhost_net || kind=tap
taps_add 2 tap0
taps_add 1 tap1
bridge_attach tap0 tap1
shape bpshaper rate 5mbit
echo "# SEED=$seed DURATION=${DURATION:-20}"
: >/tmp/runs
: >/tmp/events
touch /tmp/race
{ renice -n 19 -p $BASHPID; machine 0 & machine 1 & wait; } >/dev/null 2>&1 &
end=$((SECONDS + ${DURATION:-20}))
while [ $SECONDS -lt $end ]; do
	name=$(pick $events)
	echo "race: $name" >/dev/kmsg
	echo "$name" >>/tmp/events
	tap='' event "$name" >/dev/null 2>&1
	sleep "0.$((RANDOM % 3))"
done
echo "# $(sort /tmp/events | uniq -c | tr -s '\n ' ' ')"
for tap in tap0 tap1; do
	tap_set up
	tap_set master br0
done
on_tx ip link set br0 promisc off
on_tx ip link set txdev up
shape bpshaper rate 1mbit
check "afterwards they send" wait_until 30 has_sent
check "and are held" wait_until 30 is_throttled
rm -f /tmp/race
check "their processes end by themselves" wait_until 60 bash -c '! pgrep -x bppeers'
wait
check_num "some have come to their end" "$(wc -l </tmp/runs)" '>=' 1 times
check "no thread is stuck" wait_until 10 no_thread_is_stuck
check "no queue is held" wait_until 30 no_socket_is_held
for tap in tap0 tap1; do
	check "$tap can be deleted" timeout 20 ip -n "$tx" link del $tap
done
unshape
rmmod vhost_net 2>/dev/null
check "the module unloads" wait_until 20 rmmod sch_bpshaper
must modprobe sch_bpshaper
finish
