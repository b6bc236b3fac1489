# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# Allocations that fail, by failslab: which ones, how many have failed, and a command with each of
# its allocations failing. Sourced after common.sh, never run.

# shellcheck disable=SC2034 # used by those who source it
debugfs=/sys/kernel/debug/failslab
faults=/tmp/failslab	# ip netns exec hides the other
slabs=/sys/kernel/slab
refs=/sys/module/sch_bpshaper/refcnt
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

# What may not change when a command fails: the qdiscs, classes if there are any (but no
# flows, which have no weight), and who uses the module.
state()
{
	tc -j qdisc show dev txdev
	[ -z "${classes-}" ] || tc class show dev txdev | grep weight
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
