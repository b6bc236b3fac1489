#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# test_plugin.sh - what the tc plugin reads and writes, without a kernel
#
#     words --> [ tc of this machine + plugin ] --> one line of refusal
#                                               --> "Cannot find device"
#     words --> [ harness + plugin ] --> TCA_OPTIONS in hex --> text, JSON
#     hex   --> [ tc monitor file + plugin ] --> text
#
#  1. loading.sh: tc loads the plugin and finds every symbol that the plugin
#     asks for; a tc that lacks one gets a clear refusal. Our declarations are
#     those of iproute2. help is there.
#  2. refusals.sh: bad words give one line with all that is wrong, and no
#     message is made.
#  3. messages.sh: good words give exactly the attributes that they mean. A
#     command line of tbf works with one word replaced.
#  4. print.sh: attributes print as text that can be typed again, and as JSON.
#  5. xstats.sh: statistics of the qdisc and of a class print whatever their
#     length is. flows.sh: those of flows, which are listed as classes.
#  6. round_trip.sh: any set of options survives words -> message -> JSON or
#     text -> words -> message.
#  7. class_options.sh: all of that for the options of a class, and for the
#     words of htb.
#
# tools.sh has what all of them use: the harness, tc, and attributes in hex.
#
# Refusals are tried on a device that does not exist. tc parses the options
# first and looks for the device then, so no test reaches a qdisc.
#
# PLUGIN        the plugin; default: ../../q_bpshaper.so
# IPROUTE2_SRC  sources of iproute2; default: what tools/iproute2-src finds
# SEED          of the random option sets
#
# Output is TAP; the exit status is 0 if all tests passed.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
PLUGIN=$(realpath "${PLUGIN:-$top/q_bpshaper.so}")
SEED=${SEED:-$((RANDOM * 32768 + RANDOM))}

# shellcheck source=../tap.sh
. "$top/selftests/tap.sh"
# shellcheck source=tools.sh
. "$here/tools.sh"
# shellcheck source=loading.sh
. "$here/loading.sh"
# shellcheck source=refusals.sh
. "$here/refusals.sh"
# shellcheck source=messages.sh
. "$here/messages.sh"
# shellcheck source=print.sh
. "$here/print.sh"
# shellcheck source=xstats.sh
. "$here/xstats.sh"
# shellcheck source=flows.sh
. "$here/flows.sh"
# shellcheck source=round_trip.sh
. "$here/round_trip.sh"
# shellcheck source=class_options.sh
. "$here/class_options.sh"

packages_require()
{
	local -a missing=()

	command -v gcc >/dev/null || missing+=(gcc libc6-dev)
	command -v make >/dev/null || missing+=(make)
	command -v jq >/dev/null || missing+=(jq)
	((${#missing[@]})) || return 0
	((EUID == 0)) || bail_out "install ${missing[*]}"
	apt-get install -y --no-install-recommends "${missing[@]}" \
		>"$work/apt.log" 2>&1 </dev/null ||
		bail_out "cannot install ${missing[*]}: $(tail -n 1 "$work/apt.log")"
}

# Root gets namespaces of its own, for a device with a speed.
namespace_enter()
{
	[[ ${BPSHAPER_NAMESPACE:-} ]] && return
	((EUID == 0)) && unshare -nm true 2>/dev/null || return 0
	export BPSHAPER_NAMESPACE=1
	exec unshare -nm "$0" "$@"
}

namespace_device_add()
{
	[[ ${BPSHAPER_NAMESPACE:-} ]] || return 0
	mount -t sysfs none /sys 2>/dev/null &&
		ip link add bps0 type veth peer name bps1 2>/dev/null &&
		ip link set bps0 up && ip link set bps1 up
}

# Sets $IPROUTE2_SRC, $work and $harness.
prepare()
{
	local src

	[[ -f $PLUGIN ]] || bail_out "no plugin at $PLUGIN"
	[[ ${PLUGIN##*/} == q_bpshaper.so ]] || bail_out "tc loads q_bpshaper.so only"
	if [[ ${IPROUTE2_SRC:-} ]]; then
		src=$IPROUTE2_SRC
	else
		src=$("$top/tools/iproute2-src") || bail_out "no source of iproute2"
	fi
	export IPROUTE2_SRC=$src
	namespace_enter "$@"
	namespace_device_add

	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	packages_require
	harness=$("$here/harness-build" 2>"$work/make.log") ||
		bail_out "harness: $(grep -m 1 -E 'error|undefined' "$work/make.log")"
}

main()
{
	prepare "$@"
	options_read
	test_loading
	test_refusals
	test_messages
	test_print
	test_xstats
	test_flows
	test_round_trip
	test_class_options
	finish
}

main "$@"
