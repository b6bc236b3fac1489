# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# Commands of classes.rst, and where packets then go. Sourced after common.sh, peers.sh and
# classes.sh, never run.

page=$here/classes.rst

# The namespace of $tx, with the cgroups of the machine: `ip netns exec` hides them
in_net() { nsenter --net="/run/netns/$tx" "$@"; }

# recipe FROM [TO]: run the lines of the page from the one that begins so to one that begins so, or
# that one alone; $scaled is what sed does to them
recipe()
{
	sed -n "\|^    $1|${2:+,\|^    $2|}s/^    //p" "$page" |
		sed "s/eth0/${device:-txdev}/g; ${scaled-}" >/tmp/recipe
	[ -s /tmp/recipe ] || not_ok "the page has a recipe that begins with $1"
	cd /tmp && must in_net bash -e /tmp/recipe
}

in_cgroup() { (echo $BASHPID >"$1/cgroup.procs" && "${@:2}"); }

# goes NAME CLASSID CGROUP [SENDER]: where the packets of a process are counted
goes()
{
	local before

	before=$(class_packets "$2")
	in_cgroup "$3" peers 0.1 0 "a:udp,pace=1000${4:+,$4}"
	check_num "$1" $(($(class_packets "$2") - before)) == "$(got a_sent)" packets
	check_num "$1: nothing is lost" "$(got a_lost)" == 0 packets
}

# pod_goes NAME CLASSID CGROUP: the same for a process in the container of pod.sh
pod_goes()
{
	local before

	before=$(class_packets "$2")
	in_cgroup "$3" "$bppeers" $pod eth0 "$rx" rxdev 0.1 0 a:udp,pace=1000 >/tmp/peers
	check_num "$1" $(($(class_packets "$2") - before)) == "$(got a_sent)" packets
}

[ -e "$page" ] || skip_all "the page is not here"
