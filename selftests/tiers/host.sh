# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # of lib.sh
#
# Tiers that run on this machine. Sourced by selftests/run.
#
#   style	builds without warnings (W=1), sparse, checkpatch, shellcheck
#   unit	the bucket's law against exact arithmetic, with sanitizers; the parts of
#		bpshaper-top that need no kernel
#   plugin	the tc plugin: words to netlink and back, text and JSON, refusals; and
#		that words and fields are the same in uAPI, plugin, man page, completion,
#		README and YNL specification
#   harness	the VM harness itself: that a panic, a hang or a kernel complaint
#		is never a pass

# script SECONDS COMMAND...: one that prints its own results, and its plan last. No
# pipe: what such a command leaves behind would keep it open.
script()
{
	local log status

	log=$(mktemp)
	timeout -k 10 "$@" >"$log" 2>&1
	status=$?
	cat "$log"
	[ "$status" -le 1 ] && grep -q '^1\.\.' "$log" ||
		not_ok "${2##*/} ends, within $1 s" "exit $status"
	rm -f "$log"
}

tier_style() { script 1800 "$top/selftests/style/run"; }

# A program for the bucket, the tree and the hub, and its tests with one seed, or
# those of $unit_part.
unit_bucket()
{
	local program=$builds/test_bucket sanitize="-fsanitize=address,undefined"

	[ -z "${unit_part-}" ] || sanitize=''
	mkdir -p "${program%/*}"
	# shellcheck disable=SC2086 # none for mutants, which take the time of many
	${CC:-cc} -std=gnu11 -O2 -g -pthread -Wall -Wextra -Wno-unused-function \
		$sanitize -fno-sanitize-recover=all \
		"$top"/selftests/unit/*.c -o "$program" -lm || {
		not_ok "the unit test builds"
		return 1
	}
	timeout 300 "$program" 1 ${unit_part:+"$unit_part"}
	[ $? != 124 ] || not_ok "the unit test ends within 300 s"
}

unit_seeds()
{
	local program=$builds/test_bucket seed out

	for seed in {2..4} "${SEED:-7}"; do
		out=$(timeout 120 "$program" "$seed" 2>&1) ||
			not_ok "bucket with seed $seed" "$out"
	done
	for seed in {8..20}; do
		out=$(timeout 120 "$program" "$seed" short 2>&1) ||
			not_ok "bucket, without the hub, with seed $seed" "$out"
	done
	ok "bucket with seventeen more seeds, four of them with the hub"
}

# The threads that share a hub, with the thread sanitizer. It knows no fences, of
# which smp_mb() is one: -Wno-tsan.
unit_race()
{
	local program=$builds/test_race out

	mkdir -p "${program%/*}"
	if out=$(${CC:-cc} -std=gnu11 -O1 -g -pthread -Wno-unused-function -Wno-tsan \
		-fsanitize=thread "$top"/selftests/unit/*.c -o "$program" -lm 2>&1 &&
		timeout 60 setarch -R "$program" 1 race 2>&1) && grep -q '^ok 7 ' <<<"$out"; then
		ok "threads that share a hub have no data race"
	else
		not_ok "threads that share a hub have no data race" "$out"
	fi
}

unit_top()
{
	local out

	"$vm/deps" python3-pyte ncurses-base
	if out=$(timeout 300 /usr/bin/python3 -B -m unittest discover \
		-s "$top/selftests/top" 2>&1); then
		ok "bpshaper-top: $(grep '^Ran' <<<"$out")"
	else
		not_ok "bpshaper-top" "$out"
	fi
}

tier_unit()
{
	unit_bucket && unit_seeds
	unit_race
	unit_top
}

plugin_words()
{
	make -s -C "$top" plugin || {
		not_ok "the plugin builds"
		return 1
	}
	script 600 "$top/selftests/plugin/test_plugin.sh"
}

tier_plugin()
{
	plugin_words || return
	script 300 "$top/selftests/words"
	check_silent "the man pages render without warnings" mandoc -Tlint -W style \
		"$top"/Documentation/*.8
	check_silent "in man as well" bash -c \
		"for page in '$top'/Documentation/*.8; do man --warnings -Z \$page; done \
		2>&1 >/dev/null"
}

tier_harness()
{
	script 1500 "$vm/selftest.sh"
}
