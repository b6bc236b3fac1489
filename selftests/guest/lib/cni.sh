# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# Networks and pods by CNI. Sourced after common.sh, never run.
#
#	netns a, a pod                  this namespace, the host
#	+------------------+    +--------------------------------------+
#	|  eth0 -----------+----+-- veth of a ---+                     |
#	|  10.88.0.2       |    |                +- cni0 10.88.0.1     |
#	|  fd88::2         |    |   veth of b ---+  (bridge)           |
#	+------------------+    +--------------------------------------+
#
# The plugins of Debian know the CNI specification up to 1.0.0. GC and STATUS are of
# 1.1.0: cni_libcni.sh calls them by libcni, with newer plugins. Where the rest of a
# chain does not matter the plugin is called without a runtime, with version $cni_bare.

export CNI_PATH=/opt/cni/bin NETCONFPATH=/etc/cni/net.d
# shellcheck disable=SC2034 # for those who source it
bpgc=$here/bpgc
cni_version=1.0.0 cni_bare=1.1.0 subnet=10.88.0.0/16
# What commands that look at the host begin with.
on=()
pods=()
[ -x $CNI_PATH/bpshaper ] && [ -x $CNI_PATH/bridge ] && type -P cnitool >/dev/null ||
	skip_all "there are no CNI plugins here: selftests/vm/cni-bundle"

# main_plugin KIND
main_plugin()
{
	echo "\"type\": \"$1\", \"ipMasq\": false,"
	[ "$1" != bridge ] || echo '"bridge": "cni0", "isGateway": true,'
	echo '"ipam": {"type": "host-local",
		"ranges": [[{"subnet": "'"$subnet"'"}], [{"subnet": "fd88::/64"}]],
		"routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}'
}

# net NAME MAIN [LIMITER [KEYS]]: a network, with the keys of the plugin that limits
net()
{
	local limiter=

	[ -z "${3-}" ] || limiter=", { \"type\": \"$3\", \"capabilities\": {\"bandwidth\": true}${4:+, $4} }"
	mkdir -p $NETCONFPATH
	cat >$NETCONFPATH/"$1".conflist <<-END
	{ "cniVersion": "$cni_version", "name": "$1", "plugins": [
		{ $(main_plugin "$2") },
		{ "type": "portmap", "capabilities": {"portMappings": true} }$limiter ] }
	END
}

# answered STATUS: sets $ended; prints what a command that failed has said
answered()
{
	ended=$1
	[ "$ended" = 0 ] || cat /tmp/answer /tmp/said
	return "$ended"
}

# pod_add POD NETWORK: /tmp/answer has the result, /tmp/said what went to the log
pod_add()
{
	ip netns add "$1" 2>/dev/null && pods+=("$1")
	cnitool add "$2" /run/netns/"$1" >/tmp/answer 2>/tmp/said
	answered $?
}

pod_check() { cnitool check "$2" /run/netns/"$1"; }

# pod_del POD NETWORK: and its namespace
pod_del()
{
	cnitool del "$2" /run/netns/"$1" && ip netns del "$1"
}

# address POD [6]
address()
{
	ip -n "$1" -br "-${2:-4}" addr show dev eth0 scope global |
		awk '{ sub("/.*", "", $3); print $3 }'
}

# peer POD: the host's end of its veth
peer()
{
	local index

	index=$(ip -n "$1" -o link show eth0 | sed -n 's/.*eth0@if\([0-9]*\):.*/\1/p')
	"${on[@]}" ip -o link | sed -n "s/^$index: \([^@:]*\).*/\1/p"
}

# left: what the plugins may have left behind, a line each
left()
{
	"${on[@]}" ip -o link show type ifb | grep -v ' ifb[0-9]' | grep -v foreign
	"${on[@]}" tc qdisc show | grep -E 'bpshaper|clsact|ingress|tbf'
	"${on[@]}" ip -o link | grep -o 'altname bpshaper-[0-9a-f]*'
}

# ifb_make DEVICE QUEUES: the ifb of a node, as the plugin makes it on a machine of so many CPUs
ifb_make()
{
	must ip link add "$1" numtxqueues "$2" address "$(printf 'bpshaper %s' "$1" | sha256sum |
		sed 's/\(..\)\(..\)\(..\)\(..\)\(..\).*/02:\1:\2:\3:\4:\5/')" type ifb
}

nothing_is_left() { is "$1: no device, qdisc or name is left" "" "$(left)"; }

# traffic FROM TO ADDRESS OPTIONS...: between namespaces; "" is the host
traffic()
{
	: >"$report"
	"$traffic" ${1:+--tx-netns "$1"} ${2:+--rx-netns "$2"} --dst "$3" \
		--json "$report" "${@:4}"
}

# near NAME VALUE EXPECTED PERCENT
near()
{
	check_num "$1: at least $3 Mbit/s - $4 %" "$2" '>=' \
		"$(awk "BEGIN { print $3 * (100 - $4) / 100 }")"
	check_num "$1: at most $3 Mbit/s + $4 %" "$2" '<=' \
		"$(awk "BEGIN { print $3 * (100 + $4) / 100 }")"
}

# --- the plugin without a runtime

# veth POD: a pod with a veth that nobody limits; its host's end is h-POD
veth()
{
	ip netns add "$1" && pods+=("$1")
	must ip link add "h-$1" type veth peer name eth0 netns "$1"
	ip link set "h-$1" up
	ip -n "$1" link set eth0 up
}

# veth_del POD: and wait for the end of the devices
veth_del()
{
	ip netns del "$1"
	wait_until 5 no_device "h-$1"
}

no_device() { ! ip link show "$1"; }

# refused NAME COMMAND...: the command fails
refused()
{
	if "${@:2}" >/tmp/refused 2>&1; then
		not_ok "$1" "it succeeds: ${*:2}"
	else
		ok "$1"
	fi
}

# configuration POD KEYS [NETWORK]
configuration()
{
	echo "{ \"cniVersion\": \"$cni_bare\", \"name\": \"${3:-bare}\", \"type\": \"bpshaper\",
		\"prevResult\": { \"cniVersion\": \"$cni_bare\", \"interfaces\": [
			{ \"name\": \"h-$1\" }, { \"name\": \"eth0\",
			  \"sandbox\": \"/run/netns/$1\" } ] }${2:+, $2} }"
}

# plugin COMMAND POD KEYS [NETWORK]: what it answers goes to /tmp/answer. After $kill_after
# seconds it is killed.
plugin()
{
	# shellcheck disable=SC2086 # words
	configuration "$2" "$3" "${4-}" | CNI_COMMAND=$1 CNI_CONTAINERID=$2 \
		CNI_NETNS=/run/netns/$2 CNI_IFNAME=eth0 \
		${kill_after:+timeout -s KILL $kill_after} \
		$CNI_PATH/"${limiter:-bpshaper}" >/tmp/answer 2>/tmp/said
	answered $?
}

# collect VALID [NETWORK]: GC; VALID are pods
collect()
{
	# shellcheck disable=SC2086 # words
	local pod valid=

	for pod in $1; do
		valid+="${valid:+, }{ \"containerID\": \"$pod\", \"ifname\": \"eth0\" }"
	done
	echo "{ \"cniVersion\": \"1.1.0\", \"name\": \"${2:-bare}\", \"type\": \"bpshaper\",
		\"cni.dev/valid-attachments\": [ $valid ] }" |
		CNI_COMMAND=GC ${kill_after:+timeout -s KILL $kill_after} $CNI_PATH/bpshaper >/tmp/answer 2>/tmp/said
	answered $?
}

pods_remove()
{
	local pod

	for pod in "${pods[@]}"; do
		ip netns del "$pod" 2>/dev/null
	done
}
trap 'pods_remove; topology_remove' EXIT
