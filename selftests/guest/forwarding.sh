#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The kernel's own tests of tbf's rate, selftests/net/forwarding/sch_tbf_*.sh, with
# bpshaper in its place: at the root, and below ets and prio. What cannot hold
# here is listed in upstream.list.
#
# They send from a packet socket through a bridge, so what is throttled is a socket
# two devices away. A packet costs the guest as much as 10 ms of sleep: the rates
# are a quarter of the kernel's, UPSTREAM_RATES=1 keeps those.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
kernel=$here/kernel-selftests/net
copy=/tmp/net

if [ ! -d "$kernel" ]; then
	skip "the kernel's forwarding tests" "the kernel's source is not at hand"
	finish
fi
cp -r "$kernel" "$copy"
cd "$copy/forwarding" || exit
sed -i 's/\<tbf \(\\$\|rate\)/bpshaper \1/' sch_tbf_*.sh
[ "${UPSTREAM_RATES:-}" ] ||
	sed -i 's/\<400/100/; s/\<800/200/; s/sleep 5/sleep 2/' sch_tbf_*.sh

while IFS='|' read -r name _ reason; do
	name=${name% }
	grep -qx "	$name" sch_tbf_*.sh || continue
	sed -i "/^\t$name$/d" sch_tbf_*.sh
	skip "forwarding: $name" "${reason# }"
done <"$here/upstream.list"

# shellcheck disable=SC2086 # words
for script in ${SCRIPTS:-root ets prio}; do
	PING_COUNT=3 WAIT_TIME=1 bash "./sch_tbf_$script.sh" >/tmp/log 2>&1
	status=$?
	while read -r _ line; do
		result=${line##*[}
		name="sch_tbf_$script: $(sed 's/ *\[.*//' <<<"$line")"
		case $result in
		" OK ]") ok "$name" ;;
		*) not_ok "$name" "$(cat /tmp/log)" ;;
		esac
	done < <(grep '^TEST:' /tmp/log)
	check_num "sch_tbf_$script: exit status" $status == 0
	check_num "sch_tbf_$script: has results" "$(grep -c '^TEST:' /tmp/log)" '>=' 3
	[ $status = 0 ] || sed 's/^/# /' /tmp/log
done
finish
