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
#  6. No sender is stuck, no socket is held when it is over.
#
# That nothing leaks is for kmemleak to say: see leaks.sh.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
debugfs=/sys/kernel/debug/failslab
faults=/tmp/failslab	# ip netns exec hides the other
slabs=/sys/kernel/slab
refs=/sys/module/sch_bpshaper/refcnt
config="rate 2mbit burst 4k limit 60k quantum 1514"
many=1000000

# set_up NAME VALUE...
set_up()
{
	while [ $# -gt 0 ]; do
		echo "$2" >"$faults/$1" || return
		shift 2
	done
}

# range_of [FUNCTION [BUT]]: only what FUNCTION calls fails, and of that nothing that
# BUT calls; without one, what the module calls.
range_of()
{
	local from to but=0 end=0

	if [ $# -eq 0 ]; then
		from=$(</sys/module/sch_bpshaper/sections/.text)
		to=$(printf '0x%x' $((from + $(</sys/module/sch_bpshaper/coresize))))
	else
		read -r from to < <(symbol_range "$1")
		[ -n "$from" ] || not_ok "${name-faults}: the kernel has $1"
	fi
	[ $# -lt 2 ] || read -r but end < <(symbol_range "$2")
	set_up require-start "$from" require-end "$to" \
		reject-start "$but" reject-end "$end"
}

# Where a function begins, and the next symbol. Those of a module are not sorted.
symbol_range()
{
	local from

	from=$(grep -m 1 -w "$1" /proc/kallsyms | cut -d ' ' -f 1)
	[ -n "$from" ] || return
	{
		grep -m 1 -A 9 -w "$1" /proc/kallsyms
		grep -F '[sch_bpshaper]' /proc/kallsyms
	} | sort | awk -v from="$from" '$1 > from { print "0x" from, "0x" $1; exit }'
}

faults_off()
{
	set_up probability 0 cache-filter N require-start 0 \
		require-end 0xffffffffffffffff reject-start 0 reject-end 0
	[ $# -eq 0 ] || echo 0 >"$slabs/$1/failslab"
}

# nth N COMMAND...: its Nth allocation fails, of those in range
nth()
{
	# shellcheck disable=SC2016 # words of the other bash
	bash -c 'echo "$1" >/proc/self/fail-nth; shift; exec "$@"' - "$@"
}

failed_faults() { echo $((many - $(<$faults/times))); }

# What may not change when a command fails: the qdiscs, and who uses the module.
state()
{
	tc -j qdisc show dev txdev
	[ ! -e $refs ] || echo "in use: $(<$refs)"
}

# try_each PREPARE COMMAND...: one try for each of its allocations, and a last one.
# Prints how many allocations, how many tries that failed, and the last status;
# then what a failure has changed.
try_each()
{
	local prepare=$1 n before after status refused=0 why=''

	shift
	$prepare >/dev/null 2>&1
	before=$(state)
	for ((n = 1; n < 1000; n++)); do
		echo $many >$faults/times
		nth $n "$@" >/tmp/out 2>&1
		status=$?
		[ "$(failed_faults)" != 0 ] || break
		if [ $status = 0 ]; then
			$prepare >/dev/null 2>&1
			continue
		fi
		refused=$((refused + 1))
		after=$(state)
		[ "$after" = "$before" ] || why+=" $n: $before, then $after"
	done
	echo $((n - 1)) $refused $status "$why"
}

# each NAME PREPARE COMMAND...: with each of its allocations failing, one at a time,
# the command fails and leaves all as it was, or works. Then it works.
each()
{
	local name=$1 allocations refused status why

	read -r allocations refused status why < <(on_tx bash -c 'try_each "$@"' \
		- "${@:2}" | tr '\n' ' ')
	echo "# $name: $allocations allocations, $refused of them make it fail"
	check_num "$name: there is something to fail" "$allocations" '>' 0
	check_num "$name: works when nothing fails" "$status" == 0
	check "$name: changes nothing when it fails" [ -z "$why" ]
	[ -z "$why" ] || echo "# $why"
}

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
			bpshaper rate 3mbit burst 5k limit 50k quantum 3000
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
export -f try_each nth state failed_faults module_remove \
	qdisc_none qdisc_other qdisc_ours
export faults refs config many
topology_make
# What is lost is counted to the packet, and IPv6 sends some of its own.
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
module_faults
command_faults
flow_faults
segment_faults
ballast_faults
packet_faults
on_tx tc qdisc del dev txdev root
finish
