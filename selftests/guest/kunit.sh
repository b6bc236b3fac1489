#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The KUnit suites: load the module that contains them, and repeat as TAP what it
# reports for each row of each table.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
results=/sys/kernel/debug/kunit

# suite NAME: every row, and every case without rows, is a test here. What a row
# has to say stands in front of it.
suites=0
suite()
{
	local pattern='^ +(not ok|ok) [0-9]+ (.*)$' line name said=() rows=0 table=

	suites=$((suites + 1))
	if [ ! -e "$results/$1/results" ]; then
		not_ok "$1 has run"
		return
	fi
	while IFS= read -r line; do
		if [[ $line =~ '# Subtest: '(.*) ]]; then
			table=${BASH_REMATCH[1]} said=()
		elif [[ $line =~ $pattern ]]; then
			# The sum of a table's rows has the table's name.
			if [[ ${BASH_REMATCH[2]} == "$table" ]]; then
				table='' said=()
				continue
			fi
			name="$1: ${table:+${table#bpshaper_}: }${BASH_REMATCH[2]#bpshaper_}"
			rows=$((rows + 1))
			if [[ ${BASH_REMATCH[1]} == ok ]]; then
				ok "$name"
			else
				not_ok "$name" "${said[@]}"
			fi
			said=()
		else
			said+=("$line")
		fi
	done <"$results/$1/results"
	check_num "$1: all rows of its tables were tried" $rows '>=' "$2"
	check "$1 passes, says KUnit" grep -q "^ok 1 $1\$" "$results/$1/results"
}

modprobe kunit 2>/dev/null
if [ ! -d $results ]; then
	skip "KUnit" "not in this kernel"
	finish
fi
! grep -q ^sch_bpshaper /proc/modules || rmmod sch_bpshaper
check "the module loads" insmod "$here/bpshaper_kunit.ko"
suite bpshaper_rate 17
suite bpshaper_memory 22
suite bpshaper_flow 2
suite bpshaper_order 49
suite bpshaper_table 16
suite bpshaper_queue 16
suite bpshaper_backpressure 76
suite bpshaper_classify 9
suite bpshaper_throttle 24
suite bpshaper_stats 1
suite bpshaper_config 3
suite bpshaper_pacing 13
suite bpshaper_hub 21
suite bpshaper_queues 14
suite bpshaper_evict 31
suite bpshaper_segment 30
suite bpshaper_apply 43
suite bpshaper_turns 17
suite bpshaper_marks 19
check_num "no suite is left out" "$(find $results -maxdepth 1 -name 'bpshaper_*' | wc -l)" == $suites
check "the module unloads" rmmod bpshaper_kunit
finish
