# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# How long the root lock is held, in instructions: in icount mode a nanosecond is one. Sourced
# after common.sh, never run.
#
# What the core calls with the lock held is seen by the function_graph tracer, and what the module
# does between sch_tree_lock() and sch_tree_unlock() by probes of these two: where a function was
# inlined does not matter. A hold of the core is an enqueue and a dequeue at most, so the longest
# of each is a bound of their sum. The interrupt of a timer that comes meanwhile is subtracted.

tracing=/sys/kernel/tracing
holds=$tracing/instances/holds
holds_functions=(bpshaper_enqueue bpshaper_dequeue bpshaper_reset bpshaper_turn_timer
	tbf_enqueue tbf_dequeue)
must modprobe sch_tbf

hold_max=50000	# instructions: what a user without privileges may cause

# The tracer notes what takes longer than this, so that its buffer does for all. (us)
holds_least=2

holds_text()	# first and last address of the module
{
	awk '$1 == "sch_bpshaper" { print $6, $2 }' /proc/modules
}

# holds_probe: makes the two probes, once
holds_probe()
{
	local start size range

	[ -e $tracing/trace ] || must mount -t tracefs none $tracing
	# Another test may have made them.
	# shellcheck disable=SC2016 # the kernel's variables, here and below
	[ -d $holds ] || {
		mkdir $holds
		echo 'p:holds/lock _raw_spin_lock_bh caller=$stack0:x64'
		echo 'p:holds/unlock _raw_spin_unlock_bh caller=$stack0:x64'
	} >$tracing/kprobe_events
	read -r start size < <(holds_text)
	printf -v range 'caller >= 0x%x && caller < 0x%x' $((start)) $((start + size))
	hold_starts="hist:keys=common_pid:at=common_timestamp if $range"
	# shellcheck disable=SC2016
	hold_ends='hist:keys=common_pid:held=common_timestamp-$at:onmax($held).save(caller)'
	hold_ends+=" if $range"
}

# holds_start: from now on they are measured
holds_start()
{
	holds_probe
	echo "$hold_starts" >$holds/events/holds/lock/trigger
	echo "$hold_ends" >$holds/events/holds/unlock/trigger
	echo "${holds_functions[@]}" hrtimer_interrupt >$tracing/set_ftrace_filter
	echo 2 >$tracing/max_graph_depth
	echo $holds_least >$tracing/tracing_thresh
	echo >$tracing/trace
	echo function_graph >$tracing/current_tracer
}

# holds_sources: the longest hold by who took the lock, as "INSTRUCTIONS ADDRESS"
holds_sources()
{
	sed -n 's/.*max: *\([0-9]*\) *caller: *\([0-9]*\).*/\1 \2/p' \
		$holds/events/holds/unlock/hist | sort -rn | while read -r most caller; do
		printf '%d %x\n' "$most" "$caller"
	done
}

# holds_symbol ADDRESS: the function of the module that it lies in
holds_symbol()
{
	{
		awk '/\[sch_bpshaper\]/ && $2 ~ /[tT]/ { print $1, $3 }' /proc/kallsyms
		echo "$1 ~"
	} | sort | awk '$2 == "~" { print name; exit } { name = $2 }'
}

# holds_end: ends it and prints "FUNCTION INSTRUCTIONS" for each that held the lock longer than
# $holds_least us; with sch_tree_lock() the function is who took it.
holds_end()
{
	local most address function

	echo 0 >$tracing/tracing_on
	while read -r most address; do
		function=$(holds_symbol "$address")
		echo "$function $most"
	done < <(holds_sources) >/tmp/holds
	echo "!$hold_ends" >$holds/events/holds/unlock/trigger
	echo "!$hold_starts" >$holds/events/holds/lock/trigger
	awk '/\/\* (bpshaper|tbf|hrtimer)_/ {
		for (i = 1; i <= NF; i++) {
			if ($i == "us") us = $(i - 1)
			if ($i == "/*") name = $(i + 1)
		}
		# Two spaces for each level, and the inner one ends first.
		if (name == "hrtimer_interrupt") {
			if (/\|    }/) within += us
			next
		}
		print name, (us - within) * 1000
		within = 0
	}' $tracing/trace >>/tmp/holds
	awk '{ if ($2 > most[$1]) most[$1] = $2 } END { for (f in most) print f, most[f] }' \
		/tmp/holds | sort
	echo nop >$tracing/current_tracer
	echo >$tracing/set_ftrace_filter
	echo 0 >$tracing/tracing_thresh
	echo 0 >$tracing/max_graph_depth
	echo 1 >$tracing/tracing_on
}

# holds_longest: of what holds_end printed; an enqueue and a dequeue are one hold
holds_longest()
{
	awk '$1 ~ /_(en|de)queue$/ { core += $2; next }
		$2 > most { most = $2 }
		END { print (most > core ? most : core) + 0 }'
}

# held NAME: what was measured since holds_start is short enough
held()
{
	local lines longest

	lines=$(holds_end)
	longest=$(holds_longest <<<"$lines")
	echo "# $1: root lock held for $longest instructions: ${lines//$'\n'/, }"
	check_num "$1: the root lock is held for $hold_max instructions at most" \
		"$longest" '<=' $hold_max
}

# least_hold NAME BOUND COMMAND...: sets $least, the least of ten turns at most, or of as many as it
# takes for BOUND; without a bound, 0, the median of three, to compare with. An interrupt that comes
# meanwhile counts, and memory that an allocator has to fetch: a guest without init_on_alloc=0 clears
# it with an instruction for each byte. What is the shaper's own comes in all turns. 0 is less than
# $holds_least us.
least_hold()
{
	local turns=$(($2 ? 10 : 3)) lines longest all=()

	least=''
	while [ $((turns--)) -gt 0 ]; do
		holds_start
		"${@:3}"
		lines=$(holds_end)
		longest=$(holds_longest <<<"$lines")
		echo "# $1: root lock held for $longest instructions: ${lines//$'\n'/, }"
		[ -n "$least" ] && [ "$least" -le "$longest" ] || least=$longest
		[ "$least" -gt "$2" ] || break
		all+=("$longest")
	done
	[ "$2" != 0 ] || least=$(printf '%s\n' "${all[@]}" | sort -n | sed -n 2p)
}

# held_least NAME COMMAND...: the least of ten turns at most is short enough
held_least()
{
	least_hold "$1" $hold_max "${@:2}"
	check_num "$1: the root lock is held for $hold_max instructions at most" "$least" '<=' \
		$hold_max
}

# Not asserted: what only an administrator can do.
held_by_admin()
{
	echo "# $1, which takes privileges: root lock held for $(holds_end | xargs)"
}
