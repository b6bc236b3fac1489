#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The Go package bpshaper on a kernel with the module: what it sets is set, what it reads is what
# the kernel has, and changes are reported. With RECORD=DIR it writes the messages of the kernel
# that tools/bpshaper/testdata has.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

# Each test of Go that is run is a result, and one that skips tests nothing.
live()
{
	local name

	BPSHAPER_LIVE=$1 BPSHAPER_RECORD=${RECORD-} "$here/bpshaper.test" -test.v -test.run "$2" \
		>/tmp/go 2>&1
	while read -r name; do
		if grep -q -- "^--- PASS: $name " /tmp/go; then
			ok "Go: $name"
		else
			not_ok "Go: $name" "$(cat /tmp/go)"
		fi
	done < <(sed -n 's/^=== RUN *//p' /tmp/go)
	[ "$(grep -c '^=== RUN' /tmp/go)" = "$3" ] || not_ok "there are $3 tests in Go" "$(cat /tmp/go)"
}

[ -x "$here/bpshaper.test" ] || skip_all "the tests in Go are not here: selftests/vm/cni-bundle"
[ -z "${RECORD-}" ] || mkdir -p "$RECORD"
modprobe=$(cat /proc/sys/kernel/modprobe)
echo /bin/false >/proc/sys/kernel/modprobe
live nomodule TestLiveNoModule 1
echo "$modprobe" >/proc/sys/kernel/modprobe
live 1 'TestLive$|TestLiveRedirect|TestLiveWatch|TestLiveDeviceQdisc' 5
finish
