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

# leaked [FILE]: what kmemleak reports. When a machine with zero copy is killed, vhost_net_vq_reset() of
# the kernel forgets what vhost_net_ubuf_alloc() has allocated (machines_ends, with any qdisc): 128 bytes
# with lockdep. That function and its caller have one caller each, so gcc makes them parts of
# vhost_net_ioctl(). What a function allocates that this calls has another first name in its backtrace.
# When vhost_net has been removed it has no name, but who calls it has. This module has no ioctl.
leaked()
{
	awk '
		function is_of_vhost() {
			return is_bppeers && is_size &&
				(first ~ /^vhost_net_(ubuf_alloc|set_backend|ioctl)$/ ||
				 first == "removed" && second ~ /^__.*_sys_ioctl$/)
		}
		function judge() {
			if (!is_of_vhost())
				printf "%s", object
			object = first = second = ""
			is_bppeers = is_size = 0
		}
		/^unreferenced/ { judge(); is_size = /\(size 128\)/ }
		/^  comm "bppeers"/ { is_bppeers = 1 }
		!second && match($0, /[A-Za-z_][A-Za-z0-9_.]*\+0x|^ +0x[0-9a-f]+$/) {
			name = substr($0, RSTART, RLENGTH - 3)
			if (sub(/^ +0x.*/, "removed", name) || name !~ /^(kmemleak|_*kmalloc|_*kmem_cache|slab_)/) {
				sub(/\..*/, "", name)
				if (first) second = name; else first = name
			}
		}
		{ object = object $0 "\n" }
		END { judge() }' "${1:-$leaks}"
}

# object PROGRAM BYTES FUNCTION [CALLER]: as kmemleak reports one that it has allocated in an ioctl
object()
{
	local function="$3+0x9c1/0x1a20 [vhost_net]" caller="${4-vhost_net_ioctl}"

	[ "$3" != removed ] || function=0xffffffffa009891d
	cat <<-END
		unreferenced object 0xffff888104bfa300 (size $2):
		  comm "$1", pid 212, jiffies 4294938471
		  hex dump (first 32 bytes):
		    01 00 00 00 00 00 00 00 00 00 00 00 ad 4e ad de  .............N..
		  backtrace (crc 5a1c3e77):
		    kmemleak_alloc+0x48/0x80
		    __kmalloc_cache_noprof+0x295/0x320
		    $function
		    $caller+0x700/0x1a20
		    __x64_sys_ioctl+0x131/0x1a0
		    do_syscall_64+0x6c/0x140
	END
}

# Four that vhost-net forgets, and five others between them.
filter_check()
{
	local others=("bptraffic 128 vhost_net_ioctl" "bppeers 192 vhost_net_ioctl"
		"bppeers 128 vhost_dev_ioctl" "bppeers 128 bpshaper_change"
		"bppeers 128 removed rtnetlink_rcv_msg") other

	for other in "${others[@]}"; do
		# shellcheck disable=SC2086 # words
		object $other
	done >/tmp/others
	{
		object bppeers 128 vhost_net_ioctl
		head -n 22 /tmp/others
		object bppeers 128 vhost_net_ubuf_alloc.isra.0
		tail -n +23 /tmp/others
		object bppeers 128 vhost_net_set_backend
		object bppeers 128 removed __x64_sys_ioctl
	} >/tmp/objects
	is "what vhost-net leaks is left out, and nothing else" "$(</tmp/others)" \
		"$(leaked /tmp/objects)"
	is "a report without it is as it was" "$(</tmp/others)" "$(leaked /tmp/others)"
}

filter_check
if [ ! -e $leaks ]; then
	skip "kmemleak" "not in this kernel"
	finish
fi

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
