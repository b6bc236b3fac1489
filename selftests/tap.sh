# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Results of tests as TAP, in the form that kselftest prints (KTAP). Sourced, never run.
#
#	ok 1 NAME
#	not ok 2 NAME
#	# what is known of the failure
#	ok 3 NAME # SKIP REASON
#	1..3
#
# The plan is printed last: a script that dies early prints none, and that counts as a
# failure. What passes costs no process, except in check() and check_num().

# Exit status of a script that could test nothing, as in kselftest.
KSFT_SKIP=4

tap_tests=0 tap_failed=0 tap_skipped=0

ok()
{
	tap_tests=$((tap_tests + 1))
	echo "ok $tap_tests $1"
}

# not_ok NAME [TEXT...]: TEXT, which may have several lines, is printed as a comment
not_ok()
{
	tap_tests=$((tap_tests + 1))
	tap_failed=$((tap_failed + 1))
	echo "not ok $tap_tests $1"
	[ $# -lt 2 ] || printf '%s\n' "${@:2}" | sed 's/^/# /'
}

# skip NAME REASON
skip()
{
	tap_tests=$((tap_tests + 1))
	tap_skipped=$((tap_skipped + 1))
	echo "ok $tap_tests $1 # SKIP $2"
}

# check NAME COMMAND...: the command succeeds
check()
{
	local name=$1 out

	shift
	if out=$("$@" 2>&1); then
		ok "$name"
	else
		not_ok "$name" "exit $?: $*" "$out"
	fi
}

# must COMMAND...: a step of a test, and a result only if it fails
must()
{
	local status

	"$@" && return
	status=$?
	not_ok "this works: $*" "exit $status"
	return $status
}

# check_silent NAME COMMAND...: the command succeeds and prints nothing
check_silent()
{
	local name=$1 out status

	shift
	out=$("$@" 2>&1)
	status=$?
	if [ $status = 0 ] && [ -z "$out" ]; then
		ok "$name"
	else
		not_ok "$name" "exit $status: $*" "$out"
	fi
}

# check_num NAME VALUE OP BOUND [UNIT]: compares numbers, which may have fractions
check_num()
{
	if [ -n "$2" ] && awk -v a="$2" -v b="$4" "BEGIN { exit !(a $3 b) }"; then
		ok "$1"
	else
		not_ok "$1" "measured ${2:-nothing} ${5:-}, expected $3 $4"
	fi
}

# is NAME EXPECTED ACTUAL: the strings are equal. NAME is printed as a single line.
is()
{
	local name=${1//$'\n'/ }

	name=${name//$'\t'/}
	if [[ $2 == "$3" ]]; then
		ok "$name"
	else
		not_ok "$name" "expected: $2" "measured: $3"
	fi
}

# plan: says how many results there were
plan() { echo "1..$tap_tests"; }

# finish: prints the plan and exits: 0 all passed, 1 some failed or there was none,
# 4 all were skipped
finish()
{
	plan
	[ "$tap_failed" -eq 0 ] && [ "$tap_tests" -gt 0 ] || exit 1
	[ "$tap_skipped" -lt "$tap_tests" ] || exit $KSFT_SKIP
	exit 0
}

# skip_all REASON: ends a script that can test nothing
skip_all()
{
	echo "1..0 # SKIP $1"
	exit $KSFT_SKIP
}

# bail_out REASON: ends a script, and tells whoever reads it to expect no more
bail_out()
{
	echo "Bail out! $*"
	exit 1
}
