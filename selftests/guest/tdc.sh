#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The kernel's tc-testing with its own tdc.py: selftests/tdc/bpshaper.json, and the
# kernel's cases of tbf, and some of infra/qdiscs.json, with bpshaper in the place of
# another. What is different there, and what is skipped, is listed with its reason in
# upstream.list.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
kernel=$here/kernel-selftests/tc-testing
copy=/tmp/tc-testing

# tdc NAMES OF FILES...: each case is a result here, and one without has failed
tdc()
{
	local expected seen

	expected=$(cat "$@" | grep -c '"cmdUnderTest"')
	python3 tdc.py -f "$@" --outfile /tmp/tdc.tap >/tmp/tdc.log 2>&1
	# "ok 3 6430 - Create ...", and after a failure what is known of it
	while IFS= read -r line; do
		case $line in
		"ok "*"# skipped"*) not_ok "tdc: ${line#* * }" ;;
		"ok "*) ok "tdc: ${line#* * }" ;;
		"not ok "*) not_ok "tdc: ${line#* * * }" ;;
		"" | 1..*) ;;
		*) echo "#$line" ;;
		esac
	done </tmp/tdc.tap
	seen=$(grep -cE '^(not )?ok ' /tmp/tdc.tap)
	check_num "tdc: every case has a result" "$seen" == "$expected"
	[ "$seen" = "$expected" ] || sed 's/^/# /' /tmp/tdc.log
}

if ! command -v python3 >/dev/null || [ ! -d "$kernel" ]; then
	skip "tc-testing" "no python3, or not the kernel's source"
	finish
fi
cp -r "$kernel" "$copy"
cd "$copy" || exit
# Where tdc.py looks for what ip and pyroute2 make in /var/run.
[ -e /run/netns ] || ln -s /var/run/netns /run/netns

infra=$copy/tc-tests/infra/qdiscs.json
[ -e "$infra" ] || skip "tdc: infra/qdiscs.json" "this tc-testing has none"
python3 "$here/upstream.py" "$copy/tc-tests/qdiscs/tbf.json" "$infra" \
	"$here/upstream.list" /tmp/upstream.json >/tmp/skipped
check_num "tdc: upstream.list fits the kernel's cases" $? == 0
while IFS='|' read -r name reason; do
	skip "tdc: $name" "$reason"
done </tmp/skipped
tdc "$here/bpshaper.json" /tmp/upstream.json
finish
