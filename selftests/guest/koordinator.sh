#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The recipe of Documentation/classes.rst for Koordinator and Katalyst, at a tenth of its rates, with
# what koordlet does to a node: classids of net_cls, ipsets of addresses, CLASSIFY.
#
#  1. uplink: floors are kept while BE is greedy; BE gets what others leave, and its ceil at most
#  2. pods: the same on the ifb, where a classid and an ipset choose the class
#  3. No packet of a socket is lost, and sockets are held.
#  4. What koordlet would do with htb is refused, and changes nothing.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"
# shellcheck source=lib/pod.sh
. "$(dirname "$0")/lib/pod.sh"
# shellcheck source=lib/recipes.sh
. "$(dirname "$0")/lib/recipes.sh"
v1=/run/cgroup-v1
scaled='s/00mbit/0mbit/g; s/1gbit/100mbit/'

# sent: nanoseconds, and the bytes of 1:2, 1:3 and 1:4
sent()
{
	date +%s%N
	on_tx tc -s class show dev "$device" | awk '$1 == "class" { id = $3 } $1 == "Sent" { print id, $2 }'
}

# greedy NAME MBIT MBIT MBIT PROCESS...: what 1:2, 1:3 and 1:4 get while processes send, from $from. A
# process is a cgroup, and options of bptraffic.
greedy()
{
	local name=$1 expected=("${@:2:3}") process port=5700 got i

	for process in "${@:5}"; do
		port=$((port + 10))
		# shellcheck disable=SC2086 # words
		in_cgroup $v1/${process%% *} "$traffic" --tx-netns "$from" --rx-netns "$rx" --port $port \
			--dst 10.99.0.2 --seconds 1.5 --json /tmp/greedy.$port ${process#* } &
	done
	sleep 0.6
	read -r -a got < <({ sent; sleep 0.8; sent; } | awk 'NF == 1 { ns = $1 - ns; next }
		{ bytes[$1] = $2 - bytes[$1] } END { for (i = 2; i < 5; i++) printf bytes["1:" i] * 8e3 / ns " " }')
	wait
	echo "# $name, Mbit/s: ${got[*]}"
	for i in 0 1 2; do
		near "$name: 1:$((i + 2))" "${got[i]}" "${expected[i]}" 2
	done
	for ((i = 5710; i <= port; i += 10)); do
		check_num "$name: it sends" "$(json_get udp_sent_packets </tmp/greedy.$i)" '>' 500 packets
		check_num "$name: and loses nothing" "$(json_get udp_lost_packets </tmp/greedy.$i)" == 0 packets
	done
	rm /tmp/greedy.*
	check_num "$name: nothing is dropped" "$(stat drops)" == 0 packets
	check_num "$name: sockets are held" "$(stat throttles)" '>' 8
	check "$name: none is held afterwards" wait_until 5 no_socket_is_held
}

htb_is_refused()
{
	local before

	before=$(on_tx tc class show dev txdev)
	refused "a qdisc htb with this handle" "Exclusivity flag" qdisc add dev txdev root handle 1: htb default 2
	refused "a class htb that is there" "File exists" class add dev txdev parent 1: classid 1:2 htb rate 40mbit
	refused "the root class of htb" "" class add dev txdev root classid 1:1 htb rate 100mbit
	refused "a class htb for a pod" "" class add dev txdev parent 1: classid 1:99 htb rate 1mbit prio 3
	is "nothing changed" "$before" "$(on_tx tc class show dev txdev)"
}

on_uplink()
{
	local from=$tx

	recipe "tc qdisc replace .* default 2$" "tc filter add .* cgroup$"
	recipe "ipset create" "iptables"
	htb_is_refused
	greedy "all greedy" 40 30 30 ". --udp 8" "ls --udp 2" "be --udp 16"
	greedy "system rests" 0 70 30 "ls --udp 2" "be --udp 16"
	greedy "LS asks for little" 0 10 90 "ls --udp 1 --pacing-rate 10000000" "be --udp 16"
	in_net ipset add be_class 10.99.0.1
	recipe "tc class change .* ceil"
	goes "an ipset and CLASSIFY" 1:4 $v1
	greedy "BE alone, with a ceil" 0 0 80 ". --udp 16"
	in_net ipset flush be_class
}

on_pods()
{
	local device=txdev shaped=txdev from=$pod

	pod_make
	in_net ipset add be_class 10.98.0.2
	pod_goes "a pod that the host routes, by CLASSIFY" 1:4 $v1
	unshape
	device=ifb0 shaped=ifb0
	must ip -n "$tx" link add ifb0 up type ifb
	recipe "tc qdisc replace .* default 2$" "tc filter add .* cgroup$"
	recipe "tc filter add .*ipset"
	pod_ingress matchall action mirred egress redirect dev ifb0
	greedy "pods" 0 70 30 "ls --udp 2" ". --udp 16"
	pod_remove
}

type -P ipset iptables >/dev/null || skip_all "no ipset, or no iptables"
peers_topology
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
device=txdev
recipe "mkdir $v1$" "mount -t cgroup"
mkdir $v1/{ls,be}
echo 65539 >$v1/ls/net_cls.classid	# 0x10003, as koordlet and Katalyst write it
echo 65540 >$v1/be/net_cls.classid
on_uplink
on_pods
rmdir $v1/{ls,be}
umount $v1
rmdir $v1
finish
