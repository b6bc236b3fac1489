#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What if there is no memory? For a kernel with failslab.
#
#  1. The module loads or it does not, whichever allocation fails.
#  2. So do add, replace and change; what ran before runs on as it was.
#  3. del and show do what they say or fail, whichever allocation fails.
#  4. Without memory for its flow or its segments a packet is dropped and counted,
#     and nothing else is lost.
#  5. Without memory for the packet itself the sender is told so.
#  6. Classes: add, change, del and show likewise.
#  7. No sender is stuck, no socket is held when it is over.
#
# That nothing leaks is for kmemleak to say: see leaks.sh. PARTS chooses.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/faults.sh
. "$(dirname "$0")/lib/faults.sh"
config="rate 2mbit burst 4k limit 60k"

module_remove() { ! grep -q ^sch_bpshaper /proc/modules || rmmod sch_bpshaper; }

module_is_gone() { ! grep -q bpshaper /proc/modules /proc/slabinfo; }

qdisc_none() { tc qdisc del dev txdev root; }

qdisc_other() { tc qdisc replace dev txdev root handle 1: pfifo; }

# Options that a change would alter, even where the handle is that of another.
qdisc_ours()
{
	tc qdisc replace dev txdev root handle 7: bpshaper $config ||
		return
	tc qdisc change dev txdev root handle 7: bpshaper $config
}

# class_commands LINES...: one process, as programs take long to start with KASAN. What is there
# already, or not there, is no matter.
class_commands()
{
	{
		echo "qdisc replace dev txdev root handle 7: bpshaper $config default 10"
		echo "class replace dev txdev parent 7: classid 7:20 bpshaper"
		printf '%s\n' "$@"
	} | tc -force -batch -
}

class_none() { class_commands "class del dev txdev classid 7:10"; }

# Anew, as a change leaves what it does not name. With a floor: one that is counted for a class
# which does not come is seen.
class_ours()
{
	class_commands "class del dev txdev classid 7:11" "class del dev txdev classid 7:10" \
		"class replace dev txdev parent 7: classid 7:10 bpshaper floor 1mbit weight 3"
}

class_parent()
{
	class_commands "class replace dev txdev parent 7: classid 7:10 bpshaper floor 1mbit weight 3" \
		"class replace dev txdev parent 7:10 classid 7:11 bpshaper floor 1mbit"
}

module_faults()
{
	local file

	file=$(modinfo -n sch_bpshaper)
	module_remove
	# The kernel's own way out of there leaks, and is not what we are after.
	range_of do_init_module sysfs_slab_add
	each "insmod" module_remove insmod "$file"
	faults_off
	module_remove
	check "insmod: nothing is left of it" module_is_gone
	must modprobe sch_bpshaper
}

# Under load, so that what runs on has something to do; but without a shaper, or with
# another, it has no limit, and tc goes first.
command_faults()
{
	local at="dev txdev root" kind

	(renice -n 19 -p "$BASHPID" && send --udp 4 --seconds 600) >/dev/null 2>&1 &
	# Nobody is told of a change unless somebody listens.
	on_tx tc monitor >/dev/null 2>&1 &
	range_of tc_modify_qdisc
	# shellcheck disable=SC2086 # words
	{
		each "add" qdisc_none tc qdisc add $at bpshaper rate 2mbit
		each "replace of another" qdisc_other \
			tc qdisc replace $at handle 2: bpshaper rate 2mbit
		each "replace of one" qdisc_ours \
			tc qdisc replace $at handle 2: bpshaper rate 3mbit
		each "change" qdisc_ours tc qdisc change $at handle 7: \
			bpshaper rate 3mbit burst 5k limit 50k
		range_of tc_get_qdisc
		each "del" qdisc_ours tc qdisc del $at
		range_of tc_dump_qdisc
		each "show" qdisc_ours tc -s qdisc show $at
	}
	faults_off
	pkill -KILL 'bptraffic|^tc$'
	wait

	# Its table comes from another place when the first is empty.
	root_remove
	range_of bpshaper_init
	set_up probability 100 times $many
	check "add: without memory for its table there is no qdisc" \
		bash -c "! ip netns exec $tx tc qdisc add $at bpshaper rate 2mbit"
	check_num "add: that took more than one failure" "$(failed_faults)" '>' 1
	# The kernel resets a default qdisc that it could not make.
	must modprobe tun
	kind=$(sysctl -n net.core.default_qdisc)
	sysctl -qw net.core.default_qdisc=bpshaper
	must ip -n "$tx" tuntap add tap0 mode tap
	set_up times $many
	check "default qdisc: without memory the device comes up" ip -n "$tx" link set tap0 up
	check_num "default qdisc: there was something to fail" "$(failed_faults)" '>' 1
	check "default qdisc: there is none" \
		bash -c "! ip netns exec $tx tc qdisc show dev tap0 | grep bpshaper"
	faults_off
	sysctl -qw net.core.default_qdisc="$kind"
	ip -n "$tx" link del tap0
}

# Under load: who sends is in class 7:10 while there is one.
class_faults()
{
	local at="dev txdev" classes=1

	root_remove
	on_tx bash -c class_none
	(renice -n 19 -p "$BASHPID" && send --udp 16 --mode epoll --seconds 600) >/dev/null 2>&1 &
	on_tx tc monitor >/dev/null 2>&1 &
	export classes
	range_of tc_ctl_tclass
	# shellcheck disable=SC2086 # words
	{
		each "class add" class_none tc class add $at parent 7: classid 7:10 \
			bpshaper floor 1500kbit
		each "first child of a class" class_ours \
			tc class add $at parent 7:10 classid 7:11 bpshaper floor 600kbit
		each "class change" class_ours tc class change $at classid 7:10 \
			bpshaper floor 1900kbit ceil 2mbit prio 3 limit 9k
		each "class del" class_ours tc class del $at classid 7:10
		each "del of the last child" class_parent tc class del $at classid 7:11
		range_of tc_dump_tclass
		each "class show" class_parent tc -s class show $at
		range_of tc_get_qdisc
		each "del of a qdisc with classes" class_parent tc qdisc del $at root
	}
	faults_off
	export -n classes
	pkill -KILL 'bptraffic|^tc$'
	wait
	root_remove
}

# starve CACHE PERCENT TRAFFIC...: from it as many allocations of those in range fail
# while there is traffic. Only these look at where they come from, which is slow.
starve()
{
	local cache=$1 percent=$2

	shift 2
	shape bpshaper rate 2mbit burst 4k limit 60k
	echo 1 >"$slabs/$cache/failslab"
	set_up cache-filter Y times $many probability "$percent"
	check "$name: there is traffic" traffic_try "$@" --seconds 3
	faults_off "$cache"
	check_num "$name: that has happened" "$(failed_faults)" '>' 5
}

# lost_is DATAGRAMS: so many lost for each packet that was dropped, and all of them
# for want of memory
lost_is()
{
	check_num "$name: packets were dropped for want of memory" \
		"$(stat drops_alloc)" '>' 0
	check_num "$name: and for nothing else" "$(stat drops)" == \
		"$(stat drops_alloc)"
	check_num "$name: what was counted is what is missing" \
		"$(result udp_lost_packets)" == $(($1 * $(stat drops_alloc)))
}

survived()
{
	check_num "$name: all senders ended by themselves" \
		"$(result stuck_senders)" == 0
	check "$name: no socket is held afterwards" wait_until 20 no_socket_is_held
}

flow_faults()
{
	local name="no flow"

	starve bpshaper_flow 80 --udp 64 --mode epoll
	lost_is 1
	survived
}

segment_faults()
{
	local name="no segments"

	range_of
	starve skbuff_head_cache 3 --udp 8 --gso 8 --size 1000
	check_num "$name: there were some" "$(stat segments)" '>' 0
	lost_is 8
	survived
}

# A charge that needs memory.
ballast_faults()
{
	local name="no ballast"

	range_of bpshaper_socket_throttle
	starve skbuff_head_cache 80 --udp 8 --tcp 2
	check_num "$name: it was counted" "$(stat ballast_errors)" '>' 0
	check_num "$name: later there was" "$(stat throttles)" '>' 0
	check_num "$name: nothing is dropped" "$(stat drops)" == 0
	check_num "$name: nothing is lost" "$(result udp_lost_packets)" == 0
	survived
}

# Not only ours: what the senders allocate themselves, TCP's segments, and so on.
packet_faults()
{
	local name="no packet"

	starve skbuff_head_cache 5 --udp 8 --tcp 2
	check_num "$name: nothing is dropped that is not counted so" \
		"$(stat drops)" == "$(stat drops_alloc)"
	check_num "$name: nothing is lost" "$(result udp_lost_packets)" == 0
	survived
}

if [ ! -e $debugfs ] || [ ! -e /proc/self/fail-nth ]; then
	skip "faults" "no failslab in this kernel"
	finish
fi
mkdir $faults
mount --bind $debugfs $faults
# Messages about each would be complaints, and most of ours may wait. Page
# allocations count as well where they are not kept out.
set_up verbose 0 ignore-gfp-wait N
echo 1 | tee /sys/kernel/debug/fail_page_alloc/require-{start,end} >/dev/null
export -f try_each nth state failed_faults module_remove qdisc_none qdisc_other qdisc_ours \
	class_commands class_none class_ours class_parent
export faults refs config many
topology_make
# What is lost is counted to the packet, and IPv6 sends some of its own.
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
for part in ${PARTS:-module command class flow segment ballast packet}; do
	"${part}_faults"
done
root_remove
finish
