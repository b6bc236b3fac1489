#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# For the debug kernel, as the last test: the module goes, and with it all that it
# allocated; lockdep was watching to the end.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
leaks=/sys/kernel/debug/kmemleak

if [ ! -e $leaks ]; then
	skip "kmemleak" "not in this kernel"
	finish
fi
check "the module unloads" bash -c \
	'! grep -q ^sch_bpshaper /proc/modules || rmmod sch_bpshaper'
# An object must be seen unreferenced twice, and be 5 s old.
echo scan >$leaks
sleep 6
echo scan >$leaks
check "kmemleak finds nothing" [ -z "$(cat $leaks)" ]
check_num "lockdep watched to the end" \
	"$(awk '/debug_locks:/ { print $2 }' /proc/lockdep_stats)" == 1
finish
