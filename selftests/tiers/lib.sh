# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # of lib.sh
#
# What tiers in virtual machines share. Sourced by selftests/run.

# in_vm NAME KERNEL TESTS OPTIONS...: prints the guest's TAP
in_vm()
{
	local name=$1 kernel=$2 tests=$3

	shift 3
	[ -z "${ONLY-}" ] ||
		tests=$(tr ' ' '\n' <<<"$tests" | grep -xFf <(tr ' ' '\n' <<<"$ONLY") | xargs)
	[ -n "$tests" ] || return 0
	time_is_left "$name" || return
	if ! kernel_is_here "$kernel"; then
		skip "$name" "no kernel $kernel in apt or in the cache"
		return
	fi
	build_module "$kernel" && { [[ " $tests " != *" kunit "* ]] || build_kunit; } || {
		not_ok "$name: the module builds"
		return
	}
	guest_verdict "$name" "$kernel" "$tests" "$@"
}

# bundle_make NAME COMMAND...: sets $bundle to the options that it prints
bundle_make()
{
	bundle=$("${@:2}") && return
	not_ok "$1: what it needs can be installed"
	return 1
}

# Options that bring Python and the files of the fuzz test into the guest.
fuzz_files()
{
	"$vm/python-bundle" || return
	echo "--file $top/selftests/fuzz" \
		"--file $top/selftests/uapi/options.json:/opt/bpshaper/uapi/options.json"
}
