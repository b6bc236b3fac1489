#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Whatever ends while a virtual machine is held, nothing is stuck: its process ends by kill -9, its
# tap can be deleted at once, no thread of vhost-net sleeps for good, and the module can be removed.
#
#	tap0 --- br0 --- txdev (shaper, slow) --->
#
# With zero copy the frames that wait in a queue are memory of the machine, so its process cannot
# end before they have left, as with any queue.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"
# shellcheck source=lib/machines.sh
. "$(dirname "$0")/lib/machines.sh"

# 20 kB take 2.5 s at this rate.
slow="rate 64kbit limit 20k"
fast="rate 20mbit"

# machine_start KIND: sets $machine to its process, which is held
machine_start()
{
	# shellcheck disable=SC2086 # words
	shape bpshaper $slow
	"$bppeers" "$tx" txdev "$rx" rxdev 600 100 "g:$1,device=tap0,sndbuf=$bounded,ring=64" \
		>/tmp/machine 2>&1 &
	machine=$!
	must wait_until 20 is_held
}

is_held() { [ "$(stat throttled_sockets)" = 1 ]; }
is_released() { [ "$(stat throttled_sockets)" = 0 ]; }
machine_is_gone() { [ ! -e /proc/$machine ]; }

sent()
{
	ip -n "$tx" -s -j link show dev txdev | sed 's/.*"tx":{"bytes":\([0-9]*\).*/\1/'
}

has_sent() { [ "$(sent)" -gt "$1" ]; }

# machine_kill NAME SECONDS
machine_kill()
{
	kill -9 $machine 2>/dev/null	# without its tap one has ended by itself
	check "$1: its process ends by kill -9" wait_until "$2" machine_is_gone
	wait $machine 2>/dev/null
	check "$1: no thread is stuck" no_thread_is_stuck
}

# tap_new NAME: deletes the tap, and makes another
tap_new()
{
	check "$1: its tap can be deleted" timeout 10 ip -n "$tx" link del tap0
	tap_make
}

tap_make()
{
	taps_add 1 tap0
	must ip -n "$tx" link set tap0 master br0
	must bridge -n "$tx" link set dev tap0 flood off mcast_flood off
}

# killed NAME KIND SECONDS: its backlog is sent all the same
killed()
{
	local before

	machine_start "$2"
	check "$1: no thread is stuck while it is held" no_thread_is_stuck
	before=$(sent)
	machine_kill "$1" "$3"
	tap_new "$1"
	check "$1: its backlog has been sent" wait_until 20 no_socket_is_held
	check_num "$1: all of it" $(($(sent) - before)) '>' 5000 bytes
}

# survives NAME KIND BYTES COMMAND...: it goes on. BYTES are more than the slow shaper sends in 20 s,
# or it may be the same one.
survives()
{
	local name=$1 least=$3 before

	machine_start "$2"
	must "${@:4}"
	before=$(sent)
	check "$name: it goes on" wait_until 20 has_sent $((before + least))
	machine_kill "$name" 5
	tap_new "$name"
}

# ends NAME KIND COMMAND...: it cannot send any more, and is not held for good
ends()
{
	local name=$1

	machine_start "$2"
	check "$name" "${@:3}"
	check "$name: its queue is released" wait_until 20 is_released
	machine_kill "$name" 5
}

# paused NAME KIND: a machine that is stopped is not held for good, and goes on. The thread of vhost-net
# first takes what is in the ring.
paused()
{
	local before

	machine_start "$2"
	kill -STOP $machine
	check "$1: its queue is released" wait_until 30 no_socket_is_held
	before=$(sent)
	kill -CONT $machine
	check "$1: it goes on" wait_until 20 has_sent $((before + 10000))
	check "$1: it is held again" wait_until 20 is_held
	machine_kill "$1" 5
	tap_new "$1"
}

uplink_down_up()
{
	ip -n "$tx" link set txdev down
	ip -n "$tx" link set txdev up
}

events()
{
	local kind=$1 name=$2 bytes=1000000
	local qdisc=(tc -n "$tx" qdisc)

	killed "$name, killed" "$kind" 2
	paused "$name, paused" "$kind"
	# shellcheck disable=SC2086 # words, here and below
	survives "$name, another shaper" "$kind" $bytes \
		"${qdisc[@]}" replace dev txdev root handle 77: bpshaper $fast
	survives "$name, another qdisc" "$kind" $bytes \
		"${qdisc[@]}" replace dev txdev root tbf rate 20mbit burst 20k limit 200k
	# shellcheck disable=SC2086
	survives "$name, change" "$kind" $bytes \
		"${qdisc[@]}" change dev txdev root bpshaper $fast
	survives "$name, the uplink goes down and up" "$kind" 5000 uplink_down_up
	ends "$name, its port leaves the bridge" "$kind" ip -n "$tx" link set tap0 nomaster
	must ip -n "$tx" link set tap0 master br0
	ends "$name, its tap goes down" "$kind" ip -n "$tx" link set tap0 down
	must ip -n "$tx" link set tap0 up
	ends "$name, its tap is deleted" "$kind" timeout 10 ip -n "$tx" link del tap0
	tap_make
	ends "$name, the bridge is deleted" "$kind" timeout 10 ip -n "$tx" link del br0
	bridge_attach tap0
}

# A veth copies what it forwards, and vhost-net learns from that to copy by itself. A dummy does not.
zero_copy()
{
	must modprobe vhost_net experimental_zcopytx=1
	must ip -n "$tx" link set txdev nomaster
	must ip -n "$tx" link add dummy0 master br0 type dummy
	must ip -n "$tx" link set dummy0 up
	shaped=dummy0
	machine_start vhost
	kill -9 $machine
	sleep 0.5
	check "zero copy, killed: its process waits for its frames" test -e /proc/$machine
	machine_kill "zero copy, killed" 20
	tap_new "zero copy, killed"
	check "zero copy, killed: nothing is held" wait_until 20 no_socket_is_held

	machine_start vhost
	kill -9 $machine
	check "zero copy, no qdisc" tc -n "$tx" qdisc del dev dummy0 root
	machine_kill "zero copy, no qdisc" 2
	shaped=txdev
	must ip -n "$tx" link del dummy0
	must ip -n "$tx" link set txdev master br0
}

machines_topology
taps_add 1 tap0
bridge_attach tap0
events tap "a tap"
if modprobe vhost_net; then
	events vhost "vhost"
	must rmmod vhost_net
	zero_copy
else
	skip "vhost" "this kernel has no vhost_net"
fi
machine_start tap
topology_remove
machine_kill "the namespace goes" 5
rmmod vhost_net 2>/dev/null
check "no machine holds the module" wait_until 10 rmmod sch_bpshaper
must modprobe sch_bpshaper
finish
