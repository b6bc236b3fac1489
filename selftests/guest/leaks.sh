#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# For the debug kernel, as the last test: the module goes, and with it all that it
# allocated; lockdep was watching to the end. Before that a qdisc that has classes, filters
# and packets in them goes in three ways.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
leaks=/sys/kernel/debug/kmemleak

if [ ! -e $leaks ]; then
	skip "kmemleak" "not in this kernel"
	finish
fi
# leaked: what kmemleak reports. When a machine with zero copy is killed, vhost_net_vq_reset() of the kernel
# forgets what vhost_net_ubuf_alloc() has allocated in an ioctl (machines_ends, with any qdisc).
leaked()
{
	awk '
		function judge() {
			if (object !~ /comm "bppeers"/ || object !~ /sys_ioctl/)
				printf "%s", object
			object = ""
		}
		/^unreferenced/ { judge() }
		{ object = object $0 "\n" }
		END { judge() }' $leaks
}

# Classes on three levels, filters of the qdisc and of a class, sockets throttled in two of them and
# packets without a class.
classes_make()
{
	peers_topology
	must on_tx tc qdisc add dev txdev root handle 1: bpshaper rate 8kbit default 30
	on_tx tc -batch - <<-END
		class add dev txdev parent 1: classid 1:1 bpshaper floor 4kbit
		class add dev txdev parent 1:1 classid 1:10 bpshaper ceil 4kbit
		class add dev txdev parent 1:1 classid 1:11 bpshaper floor 2kbit prio 1
		class add dev txdev parent 1:11 classid 1:20 bpshaper weight 3
		class add dev txdev parent 1: classid 1:30 bpshaper
		filter add dev txdev parent 1: protocol ip prio 1 matchall flowid 1:1
		filter add dev txdev parent 1:1 protocol ip prio 1 matchall flowid 1:10
	END
	"$bppeers" "$tx" txdev "$rx" rxdev 60 0 none:udp,sockets=4 \
		some:udp,sockets=4,class=1-20 own:udp,peers=9,class=1-0 >/dev/null 2>&1 &
	senders=$!
	check "$1: sockets are throttled in classes" wait_until 20 are_throttled
}

are_throttled() { [ "$(stat throttled_sockets)" -gt 4 ]; }

# classes_end NAME COMMAND...
classes_end()
{
	classes_make "$1"
	check "$1: it works" "${@:2}"
	kill -KILL $senders
	wait $senders 2>/dev/null
	topology_remove
}

classes_end "del of a qdisc with classes" on_tx tc qdisc del dev txdev root
classes_end "replace of a qdisc with classes" on_tx tc qdisc replace dev txdev root pfifo
classes_end "removal of a device with classes" ip -n "$tx" link del txdev

check "the module unloads" wait_until 20 bash -c \
	'! grep -q ^sch_bpshaper /proc/modules || rmmod sch_bpshaper'
# An object must be seen unreferenced twice, and be 5 s old.
echo scan >$leaks
sleep 6
echo scan >$leaks
check "kmemleak finds nothing" [ -z "$(leaked)" ]
check_num "lockdep watched to the end" \
	"$(awk '/debug_locks:/ { print $2 }' /proc/lockdep_stats)" == 1
finish
