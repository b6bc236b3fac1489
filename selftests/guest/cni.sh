#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The CNI plugin in chains of Debian's plugins, in place of bandwidth.
#
#  1. With the keys of bandwidth a pod has its limits, behind ptp and behind bridge, over IPv4
#     and IPv6, inline and from the runtime, and loses nothing.
#  2. ADD, CHECK and DEL with each version of the specification; DEL leaves nothing, also twice,
#     and when the namespace has gone before. GC and STATUS with 1.1.0, by libcni.
#  3. CHECK fails when somebody has changed a limit, an ifb or a redirect.
#  4. With "attach": "host", and with "node", the limit is out of reach of a pod that has CAP_NET_ADMIN
#     and CAP_NET_RAW, whatever it does to its interface. With "attach": "pod" it is not.
#  5. The alias of the host's end names the pod, from CNI_ARGS, until DEL or until ADD fails.
#  6. Behind portmap, what comes from outside to a mapped port of the host has the limits of the
#     pod, in both directions.
#  7. What bandwidth refuses is refused.
#  8. Without a module that is needed ADD and STATUS fail, and say what to install: bpshaper, or each
#     of those of a redirect to an ifb. STATUS does so only if the configuration itself has a limit.
#  9. Where the kernel has no bpshaper, "missing" says what ADD does, and CHECK and DEL agree with
#     it, also when the module has come.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/cni.sh
. "$(dirname "$0")/lib/cni.sh"
# shellcheck source=lib/cni_attacks.sh
. "$(dirname "$0")/lib/cni_attacks.sh"
# shellcheck source=lib/cni_libcni.sh
. "$(dirname "$0")/lib/cni_libcni.sh"
# shellcheck source=lib/cni_missing.sh
. "$(dirname "$0")/lib/cni_missing.sh"

limits='"ingressRate": 20000000, "ingressBurst": 200000, "egressRate": 10000000,
	"egressBurst": 100000'
runtime='{"bandwidth": {"ingressRate": 20000000, "ingressBurst": 200000,
	"egressRate": 10000000, "egressBurst": 100000}}'

# limited NAME POD HOST [6]: both directions, at the rates of $limits
limited()
{
	local name="$1, IPv${4:-4}" pod=$2 host=$3 there

	there=$(address "$pod" "${4-}")
	must traffic "$pod" "" "$host" --udp 4 --size 1400 --seconds 1.2
	near "$name, from the pod" "$(result udp_wire_goodput_mbit_per_s)" 10 3
	check_num "$name, from the pod: nothing is lost" "$(result udp_lost_packets)" == 0
	must traffic "" "$pod" "$there" --udp 4 --size 1400 --seconds 1.2
	near "$name, to the pod" "$(result udp_wire_goodput_mbit_per_s)" 20 3
	check_num "$name, to the pod: nothing is lost" "$(result udp_lost_packets)" == 0
}

# chain MAIN WHERE [KEYS]: with $runtime, or with keys inline
chain()
{
	local name="$1, $2${3:+, inline}" host6=fd88::1

	net shaped "$1" bpshaper "\"attach\": \"$2\"${3:+, $3}"
	[ "${3-}" ] || export CAP_ARGS=$runtime
	check "$name: ADD" pod_add a shaped
	check "$name: CHECK" pod_check a shaped
	# Duplicate address detection of the host's end.
	sleep 3
	limited "$name" a 10.88.0.1
	limited "$name" a $host6 6
	check "$name: DEL" cnitool del shaped /run/netns/a
	check "$name: DEL again" pod_del a shaped
	nothing_is_left "$name"
	unset CAP_ARGS
	ip link del cni0 2>/dev/null
}

versions()
{
	local version

	for version in 0.3.0 0.3.1 0.4.0 1.0.0; do
		cni_version=$version
		net shaped ptp bpshaper "$limits"
		check "$version: ADD" pod_add a shaped
		[[ $version == 0.3* ]] || check "$version: CHECK" pod_check a shaped
		is "$version: the result is of that version" "$version" \
			"$(json_value cniVersion "$(tr -d '\n' </tmp/answer)")"
		check "$version: DEL" pod_del a shaped
	done
	cni_version=1.0.0
	nothing_is_left "all versions"
	libcni_1_1_0
}

# altered NAME KEYS COMMAND...: CHECK fails after the command
altered()
{
	veth b
	must plugin ADD b "$2"
	check "before $1 CHECK succeeds" plugin CHECK b "$2"
	must "${@:3}"
	refused "after $1 CHECK fails" plugin CHECK b "$2"
	check "after $1 DEL succeeds" plugin DEL b "$2"
	nothing_is_left "after $1"
	veth_del b
}

ifb_of_host() { ip -o link show type ifb | sed -n 's/^[0-9]*: \(bps[0-9a-f-]*\).*/\1/p'; }

ifb_down() { ip link set "$(ifb_of_host)" down; }
ifb_deleted() { ip link del "$(ifb_of_host)"; }

alterations()
{
	local host="$limits, \"attach\": \"host\""

	altered "a change of the rate to the pod" "$limits" \
		tc qdisc change dev h-b root bpshaper rate 30mbit
	altered "a change of the burst" "$limits" \
		tc qdisc change dev h-b root bpshaper burst 100kb
	altered "a pod has removed its limit" "$limits" ip netns exec b tc qdisc del dev eth0 root
	altered "the redirect is removed" "$host" tc filter del dev h-b ingress
	altered "the ifb is down" "$host" ifb_down
	altered "the ifb is deleted" "$host" ifb_deleted
}

out_of_reach()
{
	local host="$limits, \"attach\": \"host\""

	veth b
	must plugin ADD b "$host"
	is "the pod has no qdisc" "" "$(ip -n b link show eth0 >/dev/null &&
		ip netns exec b tc qdisc show dev eth0 | grep bpshaper)"
	is "the ifb is among the interfaces of the result" 1 \
		"$(grep -c "\"name\": \"$(ifb_of_host)\"" /tmp/answer)"
	check "a second ADD" plugin ADD b "$host"
	is "a second ADD makes no second ifb" 1 "$(ifb_of_host | wc -l)"
	veth_del b
	check "DEL after the namespace has gone" plugin DEL b "$host"
	nothing_is_left "the namespace has gone first"
	check "DEL without ADD" plugin DEL nobody "$host"
	cannot_escape host "$host"
	cannot_escape node "$limits, \"node\": {\"rate\": \"1gbit\"}"
	escapes "$limits"
}

# named WAY KEYS WORDS: what the alias of the host's end says after the container
named()
{
	veth b
	must plugin ADD b "$2"
	is "$1: the host's end names the pod" "$3" \
		"$(sed -n 's/.* eth0 of b in [^ ]* *//p' /sys/class/net/h-b/ifalias)"
	check "$1: DEL" plugin DEL b "$2"
	is "$1: and no longer after DEL" "" "$(cat /sys/class/net/h-b/ifalias)"
	veth_del b
}

names()
{
	local -x CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=prod;K8S_POD_NAME=web-1"

	named "in the pod" "$limits" "pod prod/web-1"
	named "at the host" "$limits, \"attach\": \"host\"" "pod prod/web-1"
	named "by the node" "$limits, \"node\": {\"rate\": \"1gbit\"}" \
		"class 1:1 of bps-node pod prod/web-1"
	nothing_is_left "names"
	veth b
	must ip netns exec b tc qdisc add dev eth0 root tbf rate 1mbit burst 10kb limit 10kb
	refused "a pod that limits itself" plugin ADD b "$limits"
	is "its host's end has no name after an ADD that failed" "" "$(cat /sys/class/net/h-b/ifalias)"
	is "and no limit" "" "$(tc qdisc show dev h-b | grep bpshaper)"
	veth_del b
}

# mapped DIRECTION MBIT [OPTIONS OF iperf3]: through the port of the host, of which the pod knows
# nothing
mapped()
{
	local report mbit

	ip netns exec a iperf3 -s -1 -D
	report=$(ip netns exec outside iperf3 -c 10.77.0.1 -p 8080 -t 2 -J "${@:3}")
	report=${report##*'"sum_received":'}
	mbit=$(awk "BEGIN { print $(json_value bits_per_second "${report//$'\t'/ }") / 1e6 }")
	# Headers of TCP over IPv4 are 4.4 %.
	check_num "$1 the pod by portmap: at most the limit" "$mbit" '<=' "$2" Mbit/s
	check_num "$1 the pod by portmap: nearly the limit" "$mbit" '>=' \
		"$(awk "BEGIN { print $2 * 0.9 }")" Mbit/s
}

portmap()
{
	local -x CAP_ARGS='{"portMappings": [{"hostPort": 8080, "containerPort": 5201,
		"protocol": "tcp"}], '${runtime#\{}

	ip netns add outside && pods+=(outside)
	must ip link add wan type veth peer name eth0 netns outside
	ip addr add 10.77.0.1/24 dev wan
	ip link set wan up
	must ip -n outside addr add 10.77.0.2/24 dev eth0
	must ip -n outside link set eth0 up
	net shaped bridge bpshaper
	check "a pod with a mapped port" pod_add a shaped
	mapped to 20
	mapped from 10 --reverse
	check "a pod with a mapped port: DEL" pod_del a shaped
	ip netns del outside
	ip link del cni0
	nothing_is_left "portmap"
}

# same KEYS: bandwidth and bpshaper both take these, or both refuse them
same()
{
	local rival ours

	limiter=bandwidth plugin_status "$1" && rival=taken || rival=refused
	limiter=bpshaper plugin_status "$1" && ours=taken || ours=refused
	is "$1: as bandwidth" $rival $ours
}

plugin_status()
{
	# bandwidth of Debian knows no 1.1.0.
	local status cni_bare=1.0.0

	veth c
	plugin ADD c "$1" >/dev/null 2>&1
	status=$?
	plugin DEL c "" >/dev/null 2>&1
	veth_del c
	return $status
}

# says_another DEVICE KIND HANDLE
says_another()
{
	is "$1: it says which qdisc is there" 1 \
		"$(grep -c "$1 has a root qdisc $2 $3: is there another" /tmp/answer)"
}

# limited_by_another KIND OPTIONS...: the host's end has that qdisc
limited_by_another()
{
	local before

	veth b
	must tc qdisc add dev h-b root handle 7: "$@"
	before=$(tc qdisc show dev h-b)
	refused "a device that another plugin limits by $1" plugin ADD b "$limits"
	says_another h-b "$1" 7:
	is "its $1 is still there" "$before" "$(tc qdisc show dev h-b)"
	veth_del b
}

refusals()
{
	local node='"node": {"rate": "1gbit"}'

	same '"ingressRate": 1000'
	same '"ingressBurst": 1000'
	same '"egressRate": 1000'
	same '"egressRate": -1000, "egressBurst": 1000'
	same '"egressRate": "1000", "egressBurst": 1000'
	same '"egressRate": 1000000, "egressBurst": 34359738368'
	same '"egressRate": 1000000, "egressBurst": 4294967295'
	same '"ingressRate": 0, "ingressBurst": 0'
	same '"runtimeConfig": {"bandwidth": {"egressRate": 1000}}'
	same '"egressRate": 0, "runtimeConfig": {"bandwidth": {"egressRate": 1000}}'
	nothing_is_left "refusals"
	limited_by_another tbf rate 1mbit burst 10kb limit 10kb
	limited_by_another bpshaper rate 1mbit
	veth b
	must ip link add bps-node type ifb
	refused "a device of the node's name that somebody else has made" plugin ADD b "$node"
	ip link del bps-node
	must plugin ADD b "$node"
	must tc qdisc replace dev bps-node root handle 7: bpshaper rate 1gbit
	refused "CHECK finds a bpshaper of somebody else" plugin CHECK b "$node"
	must tc class add dev bps-node parent 7: classid 7:10 bpshaper
	veth c
	refused "an ifb of the node with a bpshaper of somebody else" plugin ADD c "$node"
	says_another bps-node bpshaper 7:
	is "its class is still there" 1 "$(tc class show dev bps-node | grep -c 'bpshaper 7:10 ')"
	veth_del c
	must plugin DEL b "$node"
	nothing_is_left "refusals of the node"
	veth_del b
}

sysctl -qw net.ipv6.conf.all.forwarding=1
missing
chain ptp pod
chain bridge pod "$limits"
chain ptp host "$limits"
chain bridge host
versions
alterations
out_of_reach
names
portmap
refusals
finish
