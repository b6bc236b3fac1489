# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh and cni.sh
#
# The CNI plugin on a kernel that lacks a module. Sourced by cni.sh. With SHORT=1 a limit is
# ignored, or one of tbf, in one way only.

node='"node": {"rate": "1gbit"}'

# modprobe_without PATTERN: the kernel cannot load modules of these names any more
modprobe_without()
{
	printf '#!/bin/sh\ncase $* in %s) exit 1 ;; esac\nexec modprobe "$@"\n' "$1" >/run/modprobe
	chmod +x /run/modprobe
	echo /run/modprobe >/proc/sys/kernel/modprobe
}

# bpshaper_hidden: until module_back
bpshaper_hidden()
{
	[ ! -d /sys/module/sch_bpshaper ] || must wait_until 5 rmmod sch_bpshaper
	modprobe_without '*bpshaper*'
}

module_back() { echo "$modprobe" >/proc/sys/kernel/modprobe; }

# status_fails NAME KEYS
status_fails()
{
	refused "STATUS $1" plugin STATUS b "$2"
	is "STATUS $1 has the code of the specification" 50 \
		"$(json_value code "$(tr -d '\n' </tmp/answer)")"
}

# of_runtime KEYS: as the runtime passes them for one pod
of_runtime() { echo "\"runtimeConfig\": {\"bandwidth\": {$1}}"; }

statuses()
{
	status_fails "without the module" "$limits"
	status_fails "without the module, by node" "$node"
	status_fails "without the module, with a wish for more" "$limits, \"missing\": \"fail\""
	check "STATUS without the module, where the configuration has no limit" \
		plugin STATUS b '"attach": "host"'
	check "also if the runtime names one" plugin STATUS b "$(of_runtime "$limits")"
	check "STATUS without the module, which may be missing" \
		plugin STATUS b "$limits, \"missing\": \"ignore\""
	check "STATUS without the module, where tbf does" \
		plugin STATUS b "$limits, \"missing\": \"tbf\""
}

missing_fails()
{
	refused "ADD without the module" plugin ADD b "$limits"
	is "it says what to install" 1 "$(grep -c 'install bpshaper-dkms' /tmp/answer)"
	nothing_is_left "the module is missing"
	refused "ADD of a pod for which the runtime asks" plugin ADD b "$(of_runtime "$limits")"
	check "ADD of a pod for which nobody asks for a limit" plugin ADD b '"attach": "host"'
	check "its CHECK" plugin CHECK b '"attach": "host"'
	refused "\"missing\" of another word" plugin ADD b "$limits, \"missing\": \"htb\""
	is "it names key and value" 1 "$(grep -c 'missing is .*htb.*, and must be' /tmp/answer)"
	refused "\"missing\": \"tbf\" with node" plugin ADD b "$node, \"missing\": \"tbf\""
	is "it says why" 1 "$(grep -c 'tbf has no classes' /tmp/answer)"
}

# ignored WAY KEYS
ignored()
{
	local keys="$2, \"missing\": \"ignore\"" name="without the module, $1, ignored"

	check "$name: ADD" plugin ADD b "$keys"
	is "$name: the log says so in a line" "1 1" \
		"$(wc -l </tmp/said) $(grep -c '^bpshaper: eth0 of b starts without a limit' /tmp/said)"
	nothing_is_left "$name"
	check "$name: CHECK" plugin CHECK b "$keys"
	module_back
	check "$name: CHECK when the module has come" plugin CHECK b "$keys"
	check "$name: ADD then" plugin ADD b "$keys"
	must tc qdisc del dev h-b root
	refused "$name: CHECK finds the end of a limit that was set" plugin CHECK b "$keys"
	check "$name: DEL" plugin DEL b "$keys"
	nothing_is_left "$name, after DEL"
	bpshaper_hidden
	check "$name: DEL of an ADD without the module" eval \
		"plugin ADD b '$keys' && plugin DEL b '$keys'"
}

# tbfs: the tbf of a pod in both directions, but for its number
tbfs()
{
	{
		tc qdisc show dev h-b
		ip netns exec b tc qdisc show dev eth0
		[ -z "$1" ] || tc qdisc show dev "$1"
	} | sed -n 's/^qdisc tbf [0-9a-f]*: \(dev .* \)\?root refcnt [0-9]* //p'
}

# stands_in WAY DEVICE: tbf limits instead, as bandwidth does it
stands_in()
{
	local keys="$limits, \"missing\": \"tbf\", \"attach\": \"$1\"" name="tbf for bpshaper, $1"
	local rival

	limiter=bandwidth cni_bare=1.0.0 plugin ADD b "$limits" || not_ok "ADD of bandwidth"
	rival=$(tbfs "$(bwp_of b)")
	limiter=bandwidth cni_bare=1.0.0 plugin DEL b "$limits"
	must tc qdisc del dev h-b root
	must tc qdisc del dev h-b ingress
	check "$name: ADD" plugin ADD b "$keys"
	is "$name: rate, burst and latency are those of bandwidth" "$rival" \
		"$(tbfs "$(ifb_of_host)")"
	is "$name: in both directions" 2 "$(wc -l <<<"$rival")"
	check "$name: a second ADD" plugin ADD b "$keys"
	check "$name: CHECK" plugin CHECK b "$keys"
	module_back
	check "$name: CHECK when the module has come" plugin CHECK b "$keys"
	must tc qdisc replace dev h-b root handle b5: tbf rate 1mbit burst 10kb latency 25ms
	refused "$name: CHECK finds another rate" plugin CHECK b "$keys"
	check "$name: DEL" plugin DEL b "$limits"
	nothing_is_left "$name"
	is "$name: also in the pod" "" "$(ip netns exec b tc qdisc show dev eth0 | grep tbf)"
	bpshaper_hidden
}

bwp_of() { echo "bwp$(printf 'bare%s' "$1" | sha512sum | cut -c 1-12)"; }

# rates: a pod behind ptp gets the rates of $runtime by tbf
rates()
{
	local -x CAP_ARGS=$runtime

	net shaped ptp bpshaper '"missing": "tbf"'
	check "tbf for bpshaper: ADD in a chain" pod_add a shaped
	must traffic a "" 10.88.0.1 --udp 4 --size 1400 --seconds 1.2
	near "tbf for bpshaper, from the pod" "$(result udp_wire_goodput_mbit_per_s)" 10 3
	must traffic "" a "$(address a)" --udp 4 --size 1400 --seconds 1.2
	near "tbf for bpshaper, to the pod" "$(result udp_wire_goodput_mbit_per_s)" 20 3
	check "tbf for bpshaper: DEL in a chain" pod_del a shaped
	nothing_is_left "tbf for bpshaper in a chain"
}

module_missing()
{
	veth b
	bpshaper_hidden
	statuses
	missing_fails
	ignored "by the node" "$limits, $node"
	stands_in host
	if [ ! "${SHORT-}" ]; then
		ignored "in the pod" "$limits"
		stands_in pod
		rates
	fi
	module_back
	check "STATUS with the module, which it loads" plugin STATUS b "$limits"
	check "ADD with the module" plugin ADD b "$limits"
	must plugin DEL b "$limits"
	veth_del b
}

# says_install COMMAND MODULE: the answer names it first, and the packages
says_install()
{
	is "$1 without $2: it says what to install" 1 \
		"$(grep -cE "one of $2[ ,:].*install .*kernel-modules-extra" /tmp/answer)"
}

# ifb_module_missing MODULE PATTERN: the names by which the kernel asks for it
ifb_module_missing()
{
	rmmod ifb sch_ingress cls_matchall act_skbedit act_mirred 2>/dev/null
	modprobe_without "$2"
	status_fails "without $1, where it is needed" "$limits, $node"
	says_install STATUS "$1"
	refused "ADD without $1, where it is needed" plugin ADD b "$limits, $node"
	says_install ADD "$1"
	nothing_is_left "without $1"
	check "STATUS without $1, where it is not needed" plugin STATUS b "$limits"
}

ifb_modules_missing()
{
	veth b
	ifb_module_missing ifb '*link-ifb*'
	ifb_module_missing sch_ingress '*clsact*'
	ifb_module_missing cls_matchall '*matchall*'
	ifb_module_missing act_mirred '*mirred*'
	ifb_module_missing act_skbedit '*skbedit*'
	check "STATUS without act_skbedit, which attach host does not need" \
		plugin STATUS b "$limits, \"attach\": \"host\""
	module_back
	check "STATUS with all of them" plugin STATUS b "$node"
	veth_del b
}

missing()
{
	local modprobe

	modprobe veth
	modprobe=$(cat /proc/sys/kernel/modprobe)
	module_missing
	ifb_modules_missing
}
