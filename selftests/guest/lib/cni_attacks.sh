# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh and cni.sh
#
# What a pod with CAP_NET_ADMIN and CAP_NET_RAW does about its limit. Sourced by cni.sh.

# attacked COMMAND...: in the pod
attacked() { ip netns exec b "$@"; }

# pod_addressed: the pod b can send to 10.66.0.1, the host
pod_addressed()
{
	veth b
	ip addr add 10.66.0.1/24 dev h-b
	must ip -n b addr add 10.66.0.2/24 dev eth0
}

# attack_delete: there may be none
attack_delete()
{
	attacked tc qdisc del dev eth0 root
	attacked tc qdisc del dev eth0 clsact
	[ -z "$(attacked tc qdisc show dev eth0 | grep -v noqueue)" ]
} 2>/dev/null

attack_noqueue() { attacked tc qdisc replace dev eth0 root noqueue; }
attack_pfifo() { attacked tc qdisc replace dev eth0 root pfifo limit 100000; }
attack_bpshaper() { attacked tc qdisc replace dev eth0 root handle 1: bpshaper rate 1gbit; }
attack_txqueuelen() { ip -n b link set eth0 txqueuelen 10000; }
attack_txqueuelen_0() { ip -n b link set eth0 txqueuelen 0; }
attack_restart() { ip -n b link set eth0 down && ip -n b link set eth0 up; }

# by_sockets: sets $arrived, Mbit/s on the wire that arrive at the host
by_sockets()
{
	must traffic b "" 10.66.0.1 --udp 8 --size 1400 --sndbuf 16777216 --seconds 1.2
	arrived=$(result udp_wire_goodput_mbit_per_s)
}

# ip_received: packets and bytes of IPv4 that the host has received
ip_received()
{
	awk '/^Ip: [0-9]/ { print $4 }' /proc/net/snmp
	awk '/^IpExt: [0-9]/ { print $8 }' /proc/net/netstat
}

# by_bypass: the same, by packet sockets; nobody else sends
by_bypass()
{
	local before after start end mac

	mac=$(cat /sys/class/net/h-b/address)
	"$bppeers" b eth0 b lo 2.5 0 "a:packet,bypass,sockets=8,size=1400,mac=$mac" >/tmp/bypass &
	sleep 0.5
	start=${EPOCHREALTIME/./} before=$(ip_received)
	sleep 1.5
	end=${EPOCHREALTIME/./} after=$(ip_received)
	wait $!
	check_num "packet sockets have sent" "$(json_get a_sent </tmp/bypass)" '>' 0 packets
	# shellcheck disable=SC2086 # words
	arrived=$(printf '%s\n' $before $after | awk -v us=$((end - start)) \
		'{ n[NR] = $1 } END { print ((n[4] - n[2]) + 14 * (n[3] - n[1])) * 8 / us }')
}

attacks=(delete noqueue pfifo bpshaper txqueuelen txqueuelen_0 restart)

# cannot_escape WHERE KEYS: after each attack what arrives is at the rate of 10 Mbit/s
cannot_escape()
{
	local arrived attack way

	pod_addressed
	must plugin ADD b "$2"
	for attack in "${attacks[@]}"; do
		must "attack_$attack"
		for way in sockets bypass; do
			"by_$way"
			echo "# $1, the pod: $attack, by $way: $arrived of 10 Mbit/s arrive"
			check_num "$1, the pod: $attack, by $way: at most the rate" "$arrived" '<=' 10.2
			check_num "$1, the pod: $attack, by $way: it sends" "$arrived" '>=' 9
		done
	done
	check "$1: CHECK finds all as it was" plugin CHECK b "$2"
	check "$1: DEL" plugin DEL b "$2"
	veth_del b
	nothing_is_left "$1, attacked"
}

# escapes KEYS: with "attach": "pod" the same attacks succeed, so they can
escapes()
{
	local arrived

	pod_addressed
	must plugin ADD b "$1"
	by_sockets
	check_num "pod, not attacked: at most the rate" "$arrived" '<=' 10.2
	by_bypass
	echo "# pod, by bypass: $arrived of 10 Mbit/s arrive"
	check_num "pod, by bypass: it escapes" "$arrived" '>' 20
	check "and CHECK does not notice" plugin CHECK b "$1"
	attack_delete
	by_sockets
	echo "# pod: delete, by sockets: $arrived of 10 Mbit/s arrive"
	check_num "pod: delete, by sockets: it escapes" "$arrived" '>' 20
	refused "and CHECK notices" plugin CHECK b "$1"
	must plugin DEL b "$1"
	veth_del b
}
