#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Those who do not play by the rules, in one class, and a sparse sender in another one of the same
# weight, at 100 Mbit/s. Only in icount mode. PARTS chooses.
#
#  1. sparse: beside each attack the sparse sender loses nothing and waits at most 1 ms (p99), and
#     nothing is left
#  2. memory: a class whose limit is far above memory_limit, flooded with small packets, takes from
#     the pool of another class nothing that it needs; sockets there get their half and lose nothing
#  3. holds: with 1000 classes nothing that a user without privileges calls holds the root lock for
#     more than 50,000 instructions. Those who may delete classes hold it for a batch of packets
#  4. who: the priority of a container does not come through a veth. It does through a macvlan or an
#     ipvlan, and a filter of the uplink takes it away

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/attacks.sh
. "$(dirname "$0")/lib/attacks.sh"
# shellcheck source=lib/holds.sh
. "$(dirname "$0")/lib/holds.sh"
# shellcheck source=lib/many.sh
. "$(dirname "$0")/lib/many.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"
# shellcheck source=lib/pktgen.sh
. "$(dirname "$0")/lib/pktgen.sh"

hostile="skb_priority $((0x10010))"	# 1:10
pod=bps-pod$$

# two_classes OPTIONS...: 1:10, where attackers send, and 1:20 for all others
two_classes()
{
	shape handle 1: bpshaper rate 100mbit default 20 "$@"
	class 1: 1:10
	class 1: 1:20
	# What bpmany sends
	must on_tx tc filter add dev txdev parent 1: protocol ip prio 1 \
		u32 match ip dst $nobody flowid 1:10
}

# more_classes COUNT OPTIONS...: 1:101, 1:102 and so on
more_classes()
{
	local i

	for ((i = 1; i <= $1; i++)); do
		printf 'class add dev txdev parent 1: classid 1:%x bpshaper %s\n' $((0x100 + i)) "${*:2}"
	done >/tmp/batch
	must on_tx tc -batch /tmp/batch
}

# deep_classes COUNT: the same, each below seven of its own, and all eight have ceils
deep_classes()
{
	local i j parent

	for ((i = 1; i <= $1; i++)); do
		parent=''
		for ((j = 1; j < 8; j++)); do
			printf 'class add dev txdev parent 1:%s classid 1:%x bpshaper ceil 200kbit\n' \
				"$parent" $((0x1000 + 8 * i + j))
			printf -v parent %x $((0x1000 + 8 * i + j))
		done
		printf 'class add dev txdev parent 1:%s classid 1:%x bpshaper ceil 200kbit\n' \
			"$parent" $((0x100 + i))
	done >/tmp/batch
	must on_tx tc -batch /tmp/batch
}

# They begin 50 ms late.
attack_peers() { peers 1.4 0 "$@"; }

attack_fill()
{
	many_start "$1" 1400
	echo "# $1 sockets have sent $(many_say fill) packets, $(stat qlen) are queued"
	sleep 1
	many_end
}

# beside_class NAME LEAST ATTACK...: which sends so many packets by 1:10
beside_class()
{
	beside "$1" "${@:3}"
	check_num "$1: there was one" "$(class_packets 1:10)" '>=' "$2" packets
}

attack_classes_listing()
{
	local end=$((SECONDS + 2))

	attack_peers all:udp,sockets=20,class=1-101 &
	while [ $SECONDS -lt $end ]; do
		on_tx tc -s class show dev txdev >/dev/null
	done
	wait
}

# A tiny packet takes as much as a frame of 1500 bytes: see attacks.sh
# shellcheck disable=SC2034 # of attacks.sh
part_sparse()
{
	local probe shaper=(bpshaper) child=''

	sparse_options 5000 3 200
	two_classes
	beside_class "a class of 10,000 sockets" 10000 attack_fill 10000
	sparse_options 5000 1.5 200
	two_classes
	beside_class "a class of 13,000 forwarded flows, full frames" 10000 attack_flood "$hostile" \
		"count 13000" "pkt_size 1400" "delay 110000"
	two_classes mpu 1500
	beside_class "a class of 13,000 forwarded flows, tiny packets" 10000 attack_flood "$hostile" \
		"count 13000" "pkt_size 60" "delay 110000"
	two_classes
	beside_class "a class of a socket for each packet" 20000 attack_many fresh 2500
	two_classes
	beside_class "a class of a socket with 10,000 peers" 10000 attack_peers many:udp,peers=10000,class=1-10
	two_classes
	more_classes 200
	beside "a socket in 200 classes, another one with each packet" \
		attack_peers all:udp,class=1-101,classes=200
	two_classes
	more_classes 1000
	sparse_options 20000 2 900
	beside "1000 classes listed in a loop" attack_classes_listing
}

# A small packet takes as much as a frame of 1500 bytes, so most of the flood has to wait. memory_limit
# is what a tenth of its packets take. The two sockets whose packets are in the pool of the other
# class send at the same time: a pool may always have one packet.
part_memory()
{
	local memory i

	two_classes memory_limit 4mb mpu 1500
	must on_tx tc class change dev txdev classid 1:10 bpshaper limit 100mb
	# From 100 us on pktgen sleeps between packets; else it takes the CPU from softirqs.
	(flood txdev "$hostile" "count 20000" "pkt_size 60" "delay 120000") &
	sleep 0.4
	peers 1.5 300 bulk:udp,sockets=4,class=1-20 probe:udp,every=5000,size=72,class=1-20 \
		forwarded:udp,sockets=2,every=5000,size=72,sndbuf=1073741824,class=1-20
	memory=$(stat memory)
	wait
	echo "# memory: $memory bytes, $(stat drops_pool) packets of pools were dropped," \
		"$(stat drops_memory) for want of memory"
	check_num "a class full of small packets: it has lost some" "$(stat drops_pool)" '>' 1000
	for i in bulk probe forwarded; do
		check_num "a class full of small packets: $i in another class loses nothing" \
			"$(got ${i}_lost)" == 0 packets
	done
	check_num "a class full of small packets: a sparse socket elsewhere waits 1 ms at most (p99)" \
		"$(got probe_delay_p99_ms)" '<=' 1 ms
	# 50 less 2.4 for each of the other three, less 1 %
	check_num "a class full of small packets: sockets of another class have their part of the rate" \
		"$(got bulk_mbit)" '>=' 42.3 Mbit/s
	check_num "a class full of small packets: nobody lost packets for want of memory" \
		"$(stat drops_memory)" == 0 packets
	pktgen kpktgend_0 rem_device_all
	unshape
}

# purged NAME COMMAND...: which purges what is queued, 64 packets in each hold, of 600 instructions
# each; 10,000 for what does not depend on it
purged()
{
	local name=$1 packets lines longest

	packets=$(stat qlen)
	holds_start
	must on_tx tc "${@:2}"
	lines=$(holds_end)
	longest=$(holds_longest <<<"$lines")
	echo "# $name: $packets packets, root lock held for $longest instructions," \
		"$((longest / packets)) for each: ${lines//$'\n'/, }"
	check_num "$name: there were packets" "$packets" '>' 1000
	check_num "$name: the root lock is held for 64 of them at most" "$longest" \
		'<=' $((10000 + 600 * 64)) instructions
}

part_holds()
{
	two_classes
	more_classes 1000
	held_least "a socket in 1000 classes" peers 0.5 0 all:udp,class=1-101,classes=1000
	held_least "100 sockets in 1000 classes" peers 0.5 0 \
		all:udp,sockets=100,class=1-101,classes=1000
	wait_until 20 no_socket_is_held
	two_classes
	more_classes 1000 ceil 300kbit burst 3028
	held_least "100 sockets in 1000 classes that wait for their ceils" peers 0.5 0 \
		all:udp,sockets=100,class=1-101,classes=1000
	shape handle 1: bpshaper rate 100mbit
	deep_classes 120
	held_least "100 sockets in 120 classes below seven levels of ceils" peers 0.5 0 \
		all:udp,sockets=100,class=1-101,classes=120
	held_least "120 classes below seven levels of ceils that wait for one time" peers 0.5 0 \
		all:udp,sockets=50,class=1-101,classes=120,size=32,pace=1000,at=300,until=250
	two_classes
	more_classes 1000
	holds_start
	on_tx tc -s class show dev txdev >/dev/null
	held "listing 1000 classes"
	holds_start
	on_tx tc -s qdisc show dev txdev >/dev/null
	held "showing a qdisc of 1000 classes"
	holds_start
	must on_tx tc qdisc change dev txdev root bpshaper rate 90mbit burst 30000
	held_by_admin "qdisc change with 1000 classes"
	holds_start
	unshape
	held_by_admin "qdisc del with 1000 classes"

	shape handle 1: bpshaper rate 64kbit
	class 1: 1:10 limit 10mb
	fill 20000 txdev "$hostile" "pkt_size 60" "delay 0"
	purged "first child of a class with a backlog" class add dev txdev parent 1:10 \
		classid 1:11 bpshaper
	unshape
	shape handle 1: bpshaper rate 64kbit limit 10mb
	class 1: 1:10 limit 10mb
	fill 20000 txdev "$hostile" "pkt_size 60" "delay 0"
	purged "del of a class with a backlog" class del dev txdev classid 1:10
	unshape
	pktgen kpktgend_0 rem_device_all
}

# from_pod NAME EXPECTED: whether packets of the container are in class 1:10, which they ask for
from_pod()
{
	local before packets

	before=$(class_packets 1:10)
	"$bppeers" $pod eth0 "$rx" rxdev 0.2 0 a:udp,pace=1000,class=1-10 >/tmp/peers
	packets=$(($(class_packets 1:10) - before))
	check_num "$1: packets were sent" "$(got a_sent)" '>' 50
	check_num "$1: none is lost" "$(got a_lost)" == 0 packets
	check_num "$1" "$packets" == "$(($2 * $(got a_sent)))" packets
}

pod_connect()
{
	ip -n $pod link set eth0 up
	must ip -n $pod addr replace 10.99.0.5/24 dev eth0
	must ip -n $pod neigh replace 10.99.0.8 lladdr 02:00:00:00:00:01 dev eth0 nud permanent
	must ip -n $pod route replace 10.100.0.0/14 via 10.99.0.8
}

# without_filter KIND OPTIONS: a container with a device of that kind on the uplink, and then a filter
without_filter()
{
	# shellcheck disable=SC2086 # words
	ip -n "$tx" link add sub link txdev type "$1" $2 2>/dev/null || {
		skip "a container with $1" "this kernel has none"
		return
	}
	must ip -n "$tx" link set sub netns $pod name eth0
	pod_connect
	from_pod "a container with $1 chooses its class" 1
	must on_tx tc qdisc add dev txdev clsact
	must on_tx tc filter add dev txdev egress matchall action skbedit priority 0
	from_pod "a filter of the uplink takes its choice away, with $1" 0
	on_tx tc qdisc del dev txdev clsact
	must ip -n $pod link del eth0
}

part_who()
{
	local dev

	must ip netns add $pod
	two_classes
	must ip link add br0 netns "$tx" type bridge
	must ip link add podhost netns "$tx" type veth peer name eth0 netns $pod
	for dev in podhost txdev; do must ip -n "$tx" link set $dev master br0; done
	for dev in podhost br0; do ip -n "$tx" link set $dev up; done
	pod_connect
	from_pod "a container behind a veth and a bridge does not choose its class" 0
	for dev in podhost br0; do ip -n "$tx" link del $dev; done

	without_filter macvlan "mode bridge"
	without_filter ipvlan "mode l2"
	ip netns del $pod
	unshape
}

peers_topology
# What IPv6 sends of its own would be counted.
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
for part in ${PARTS:-sparse memory holds who}; do
	"part_$part"
done
finish
