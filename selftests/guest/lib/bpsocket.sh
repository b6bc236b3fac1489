# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# What the tests share that run bpsocket. Sourced, never run.

# shellcheck source-path=SCRIPTDIR/.. source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# bpsocket TYPE DST CASE: prints why not, exits 4 if the kernel lacks something
bpsocket() { on_tx "$bpsocket" "$1" "$2" "$3" "${device:-txdev}" "$rx"; }

# went_well NAME TYPE DST CASE: the case alone; false after a skip, too
went_well()
{
	local out status

	out=$(bpsocket "$2" "$3" "$4" 2>&1)
	status=$?
	case $status in
	0) ok "$1" ;;
	4) skip "$1" "$out"; return 1 ;;
	*) not_ok "$1" "bpsocket $2 $3 $4: exit $status" "$out" ;;
	esac
}

# one TYPE FAMILY DST CASES
one()
{
	local before case

	for case in $4; do
		before=$(stat throttles)
		went_well "$1, $2: $case" "$1" "$3" "$case" || continue
		check_num "$1, $2: $case was throttled" \
			"$(stat throttles)" '>' "$before"
		check "$1, $2: $case leaves nothing" \
			wait_until 60 no_socket_is_held
	done
}
