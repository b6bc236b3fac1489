#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The tests of the CNI plugin bandwidth, with bpshaper in its place (selftests/bandwidth/suite): each
# of them is a result.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

[ -x "$here/bandwidth.test" ] || skip_all "the tests are not here: selftests/bandwidth/suite"
modprobe veth
"$here/bandwidth.test" -ginkgo.no-color -ginkgo.skip "Validating input" \
	-ginkgo.junit-report /tmp/junit >/tmp/ginkgo 2>&1
while read -r status name; do
	case $status in
	passed) ok "bandwidth: $name" ;;
	skipped) ;;
	*) not_ok "bandwidth: $name" "$(cat /tmp/ginkgo)" ;;
	esac
done < <(sed -n 's/.*<testcase name="\[It\] \([^"]*\)".* status="\([a-z]*\)".*/\2 \1/p' /tmp/junit)
check_num "all tests are run" "$tap_tests" == 44
finish
