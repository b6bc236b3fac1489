# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh and cni.sh
#
# Version 1.1.0 of the CNI specification by libcni: STATUS, ADD, CHECK, GC and DEL of a chain, of
# plugins that know it. Sourced by cni.sh.

# container_of POD: its name for cnitool, which libcni keeps with the result
container_of()
{
	grep -l "/run/netns/$1\"" /var/lib/cni/results/* |
		sed -n 's/.*-\(cnitool-[0-9a-f]*\)-eth0$/\1/p'
}

# limits_of DEVICE: the bpshaper and the redirect of the host's end of a veth
limits_of()
{
	tc qdisc show dev "$1" | grep bpshaper
	tc filter show dev "$1" ingress | grep -o 'Egress Redirect'
}

# libcni_gc MAIN: of two valid attachments one is left to libcni's cache, then none
libcni_gc()
{
	local a b lost

	a=$(container_of a) b=$(container_of b) lost=$(peer b)
	check "$1: GC, both valid" "$bpgc" shaped "$a" "$b"
	check "$1: CHECK of the one" pod_check a shaped
	check "$1: CHECK of the other" pod_check b shaped
	rm /var/lib/cni/results/shaped-"$b"-eth0
	check "$1: GC, both valid, of which libcni has lost one" "$bpgc" shaped "$a" "$b"
	is "$1: the lost one has both limits" 2 "$(limits_of "$lost" | wc -l)"
	check "$1: GC, the lost one not valid" "$bpgc" shaped "$a"
	is "$1: the lost one has no limit any more" "" "$(limits_of "$lost")"
	is "$1: one ifb is left" 1 "$(ifb_of_host | wc -l)"
	check "$1: CHECK of the valid one" pod_check a shaped
	# Without a word about valid ones libcni runs DEL of all that it knows.
	refused "$1: GC of cnitool, which does not say what is valid" cnitool gc shaped /run/netns/a
	is "$1: it says why" 1 "$(grep -c 'GC needs cni.dev/valid-attachments' /tmp/refused)"
	nothing_is_left "$1: after GC"
}

# libcni_status MAIN
libcni_status()
{
	local modprobe

	modprobe=$(cat /proc/sys/kernel/modprobe)
	check "$1: STATUS" cnitool status shaped /run/netns/a
	must rmmod sch_bpshaper
	echo /bin/false >/proc/sys/kernel/modprobe
	refused "$1: STATUS without the module" cnitool status shaped /run/netns/a
	is "$1: it says what to install" 1 "$(grep -c 'install bpshaper-dkms' /tmp/refused)"
	echo "$modprobe" >/proc/sys/kernel/modprobe
	check "$1: STATUS with the module again" cnitool status shaped /run/netns/a
}

# libcni_chain MAIN
libcni_chain()
{
	local name="1.1.0, $1"

	net shaped "$1" bpshaper "$limits, \"attach\": \"host\""
	libcni_status "$name"
	check "$name: ADD" pod_add a shaped
	is "$name: the result is of that version" 1.1.0 \
		"$(json_value cniVersion "$(tr -d '\n' </tmp/answer)")"
	check "$name: ADD of another pod" pod_add b shaped
	libcni_gc "$name"
	check "$name: ADD again" pod_add a shaped
	check "$name: CHECK" pod_check a shaped
	check "$name: DEL" pod_del a shaped
	must pod_del b shaped
	nothing_is_left "$name"
	ip link del cni0 2>/dev/null
}

libcni_1_1_0()
{
	local -x CNI_PATH=/opt/cni/bin-1.1.0:$CNI_PATH
	# shellcheck disable=SC2034 # by net
	local cni_version=1.1.0

	libcni_chain ptp
	libcni_chain bridge
}
