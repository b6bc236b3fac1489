#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Not a test: fetches what a module built for gcov has counted. The kernel keeps it
# when the module goes.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
counted=/sys/kernel/debug/gcov

if [ ! -e $counted ]; then
	skip "gcov" "not in this kernel"
	finish
fi
mkdir -p /out/gcov
find $counted -name '*.gcda' | while read -r file; do
	cat "$file" >/out/gcov/"${file##*/}"
done
check "what was counted is fetched" test -s /out/gcov/sch_bpshaper.gcda
finish
