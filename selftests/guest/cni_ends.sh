#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Nothing is left behind by the CNI plugin, and nothing of others is touched.
#
#  1. ADD, DEL and GC are killed at any moment, in each way to limit a pod: after what comes
#     then (DEL, another ADD, GC, the end of the namespace) there is no device, no qdisc and no alias.
#     CYCLES is how often, default 18.
#     The same for each step of an ADD behind the node's ifb.
#  2. Commands that run at the same time wait for each other.
#  3. GC removes what belongs to no valid attachment of its network, and nothing else, also if
#     somebody has changed the alias of an ifb.
#  4. DEL of a pod leaves the limits of another one alone, whatever the pod has made of its
#     interface, and so does DEL with a path that leads to another pod or to the host by now.
#  5. DEL takes as long with 500 devices as with few.
#
# With SHORT=1 without 5 and the steps of 1.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/cni.sh
. "$(dirname "$0")/lib/cni.sh"

cycles=${CYCLES:-18}
limits='"ingressRate": 20000000, "ingressBurst": 200000, "egressRate": 10000000,
	"egressBurst": 100000'
declare -A modes=(
	[pod]="$limits"
	[host]="$limits, \"attach\": \"host\""
	[node]="$limits, \"node\": {\"rate\": \"100mbit\"}"
)
killed=0 midst=0

# interrupted MICROSECONDS COMMAND...: kill it then; counts what was killed, and what of that had
# made or removed something
interrupted()
{
	local kill_after before

	before=$(left)
	printf -v kill_after '0.%06d' "$1"
	"${@:2}" >/dev/null 2>&1
	[ "$ended" = 137 ] || return
	killed=$((killed + 1))
	[ "$(left)" = "$before" ] || midst=$((midst + 1))
}

# ends_marked POD...: the bpshaper and the alias of the host's end of each veth
ends_marked()
{
	local pod

	for pod; do
		tc qdisc show dev "h-$pod" | grep bpshaper
		cat "/sys/class/net/h-$pod/ifalias"
	done
}

# cycle NUMBER MODE KEYS MICROSECONDS
cycle()
{
	local now

	veth k
	case $(($1 % 6)) in
	0) interrupted "$4" plugin ADD k "$3"; must plugin DEL k "$3" ;;
	1)
		interrupted "$4" plugin ADD k "$3"
		must plugin ADD k "$3"
		must plugin CHECK k "$3"
		must plugin DEL k "$3"
		;;
	2) interrupted "$4" plugin ADD k "$3"; veth_del k; must plugin DEL k "$3" ;;
	3) interrupted "$4" plugin ADD k "$3"; must collect "" ;;
	4) must plugin ADD k "$3"; interrupted "$4" plugin DEL k "$3"; must plugin DEL k "$3" ;;
	5) must plugin ADD k "$3"; interrupted "$4" collect ""; must collect "" ;;
	esac
	now=$(left; ends_marked k 2>/dev/null)
	[ -z "$now" ] || not_ok "$2, cycle $1 leaves nothing" "$now"
	[ $(($1 % 6)) = 2 ] || veth_del k
}

# until_when LOW HIGH KEYS COMMAND...: sets $found, microseconds between the two: if an ADD is killed
# before that, the command succeeds
until_when()
{
	local kill_after low=$1 high=$2

	while [ $((high - low)) -gt $((high / 16)) ]; do
		found=$(((low + high) / 2))
		printf -v kill_after '0.%06d' $found
		plugin ADD k "$3" >/dev/null 2>&1
		if "${@:4}"; then low=$found; else high=$found; fi
		kill_after=''
		must plugin DEL k "$3"
	done
}

is_killed() { [ "$ended" = 137 ]; }
nothing_is_made() { [ -z "$(left)" ]; }

# times_find KEYS: sets $takes, how many microseconds an ADD takes, and $begins: one that is killed
# before that has made nothing
times_find()
{
	local start found

	veth k
	# The first one may load modules.
	must plugin ADD k "$1"
	must plugin DEL k "$1"
	start=${EPOCHREALTIME/./}
	must plugin ADD k "$1"
	takes=$((${EPOCHREALTIME/./} - start))
	must plugin DEL k "$1"
	until_when 0 "$takes" "$1" is_killed
	takes=$found
	until_when $((takes / 2)) "$takes" "$1" nothing_is_made
	# An ADD may be a little quicker the next time.
	begins=$((found * 15 / 16))
	veth_del k
}

# cycle_killed NUMBER MODE KEYS MICROSECONDS: earlier if the command was quicker than that, a few times
cycle_killed()
{
	local when=$4 before=$killed

	for _ in 1 2 3 4 5 6; do
		cycle "$1" "$2" "$3" $when
		[ $killed = $before ] || break
		when=$((when * 15 / 16))
	done
}

kills()
{
	local mode number each=$((cycles / 3)) begins takes step midst_of_all=0

	for mode in pod host node; do
		times_find "${modes[$mode]}"
		killed=0 midst=0
		for ((number = 0; number < each; number++)); do
			# The steps of a command, each of the six endings at all of them.
			step=$(((number * 7919 + 13) % each))
			cycle_killed $number "$mode" "${modes[$mode]}" \
				$((begins + (takes - begins) * (step + 1) / each))
		done
		echo "# $mode: ADD takes $takes us, and makes nothing before $begins; $killed of $each" \
			"commands were killed, $midst of them in the midst, when something was made or removed"
		check_num "$mode: a third of the commands are killed" $((3 * killed)) '>=' "$each"
		midst_of_all=$((midst_of_all + midst))
		nothing_is_left "$mode, $each cycles"
	done
	check_num "a tenth are killed when they have made or removed something" \
		$((10 * midst_of_all)) '>=' $((3 * each))
}

at_once()
{
	local number pids=() failed=0 keys=${modes[node]}

	for number in 1 2 3 4 5 6 7 8; do
		veth "p$number"
	done
	for number in 1 2 3 4 5 6 7 8; do
		(plugin ADD "p$number" "$keys" >/dev/null) & pids+=($!)
		(plugin ADD "p$number" "$keys" >/dev/null) & pids+=($!)
	done
	for number in "${pids[@]}"; do wait "$number" || failed=$((failed + 1)); done
	is "sixteen ADDs at a time, two of each pod, succeed" 0 $failed
	is "each pod has a class" 8 "$(tc class show dev bps-node | grep -c weight)"
	for number in 1 2 3 4 5 6 7 8; do
		plugin CHECK "p$number" "$keys" >/dev/null || failed=$((failed + 1))
	done
	is "CHECK of each succeeds" 0 $failed
	pids=()
	for number in 1 2 3 4 5 6 7 8; do
		(plugin DEL "p$number" "$keys" >/dev/null) & pids+=($!)
	done
	for number in "${pids[@]}"; do wait "$number" || failed=$((failed + 1)); done
	is "eight DELs at a time succeed" 0 $failed
	nothing_is_left "eight pods at a time"
	for number in 1 2 3 4 5 6 7 8; do veth_del "p$number"; done
}

collection()
{
	local pod

	for pod in a b c d e; do veth $pod; done
	must plugin ADD a "${modes[host]}"
	must plugin ADD b "${modes[host]}"
	must plugin ADD c "${modes[node]}"
	must plugin ADD d "${modes[node]}"
	must plugin ADD e "${modes[host]}" other
	must ip link add foreign type ifb
	must ip link add bps0123456789ab type ifb
	must tc qdisc add dev foreign root bpshaper
	check "GC" collect "a c"
	check "a valid attachment is as it was" plugin CHECK a "${modes[host]}"
	check "a valid one with a class as well" plugin CHECK c "${modes[node]}"
	check "one of another network as well" plugin CHECK e "${modes[host]}" other
	refused "one that is not valid is removed" plugin CHECK b "${modes[host]}"
	refused "one with a class as well" plugin CHECK d "${modes[node]}"
	is "its class is gone" 1 "$(tc class show dev bps-node | grep -c weight)"
	is "limits and names are gone from the host's ends of the two" "" "$(ends_marked b d)"
	is "and not from those of valid ones" 2 "$(ends_marked a c | grep -c root)"
	check "a foreign ifb is still there" ip link show foreign
	check "one with a name like ours as well" ip link show bps0123456789ab
	is "and its qdisc" 1 "$(tc qdisc show dev foreign | grep -c bpshaper)"
	ip link del foreign
	ip link del bps0123456789ab
	check "GC of this network, of nothing valid" collect ""
	check "GC of the other one" collect "" other
	for pod in a b c d e; do veth_del $pod; done
	nothing_is_left "after GC"
}

ifb_of() { tc filter show dev "h-$1" ingress | sed -n 's/.*Egress Redirect to device \([^)]*\)).*/\1/p'; }

# renamed ALIAS: GC of each network leaves an ifb to which a redirect points, whatever its alias
renamed()
{
	local mode device name="an ifb of ours with the alias '$1'"

	for mode in host node; do
		veth a
		must plugin ADD a "${modes[$mode]}"
		device=$(ifb_of a)
		must ip link set "$device" alias "$1"
		check "$mode, $name: GC of another network" collect "" other
		check "$mode, $name: a valid attachment is as it was" plugin CHECK a "${modes[$mode]}"
		check "$mode, $name: GC of its network, where it is valid" collect a
		check "$mode, $name: it is still as it was" plugin CHECK a "${modes[$mode]}"
		check "$mode, $name: GC, where it is not valid" collect ""
		nothing_is_left "$mode, $name, after GC"
		must plugin ADD a "${modes[$mode]}"
		must ip link set "$device" alias "$1"
		check "$mode, $name: DEL" plugin DEL a "${modes[$mode]}"
		nothing_is_left "$mode, $name, after DEL"
		veth_del a
	done
}

# swap POD INDEX: who has CAP_NET_ADMIN in the pod makes a veth there, of the numbers of another
# pod's
swap()
{
	must ip -n "$1" link del eth0
	must ip -n "$1" link add eth0 index 2 type veth peer name other index "$2"
}

# other_path COMMAND PATH IFNAME KEYS: of the pod mallory, with the path of another namespace
other_path()
{
	configuration victim "$4" | CNI_COMMAND=$1 CNI_CONTAINERID=mallory CNI_NETNS=$2 \
		CNI_IFNAME=$3 $CNI_PATH/bpshaper >/tmp/answer 2>/tmp/said
	answered $?
}

of_the_host()
{
	must ip link add own0 type veth peer name own0-peer
	must tc qdisc add dev own0 root handle 1: bpshaper
	other_path DEL /proc/self/ns/net own0 "${modes[pod]}" >/dev/null
	is "DEL with the path of the host's namespace leaves the host's qdisc" 1 \
		"$(tc qdisc show dev own0 | grep -c bpshaper)"
	tc qdisc del dev own0 root
	refused "ADD with that path" other_path ADD /proc/self/ns/net own0 \
		'"egressRate": 10000000, "egressBurst": 100000'
	is "and it limits nothing there" 0 "$(tc qdisc show dev own0 | grep -c bpshaper)"
	ip link del own0
}

of_others()
{
	local index=77

	ip netns add victim && pods+=(victim)
	must ip link add h-victim index $index type veth peer name eth0 index 2 netns victim
	must plugin ADD victim "${modes[pod]}"
	veth mallory
	must plugin ADD mallory "${modes[pod]}"
	swap mallory $index
	check "DEL of a pod that has made a veth with the numbers of another one's" \
		plugin DEL mallory "${modes[pod]}"
	check "the other one has its limits" plugin CHECK victim "${modes[pod]}"
	check "DEL with a path that is of another pod by now" \
		other_path DEL /run/netns/victim eth0 "${modes[pod]}"
	check "that pod has its limits" plugin CHECK victim "${modes[pod]}"
	must plugin DEL victim "${modes[pod]}"
	veth_del mallory
	veth_del victim
	nothing_is_left "the limits of another pod"
}

# killed_at STEP ENDING: as an ADD that is killed leaves it, before the redirect to the node's ifb, or
# before the qdisc of that
killed_at()
{
	local name="an ADD is killed before the $1 of the node's ifb, then $2" keys=${modes[node]}

	veth k
	must plugin ADD k "$keys"
	must tc filter del dev h-k ingress
	[ "$1" = redirect ] || must tc qdisc del dev bps-node root
	case $2 in
	DEL) check "$name" plugin DEL k "$keys" ;;
	GC) check "$name" collect "" ;;
	"DEL without a namespace") veth_del k; check "$name" plugin DEL k "$keys" ;;
	"ADD and DEL") check "$name" eval "plugin ADD k '$keys' && plugin DEL k '$keys'" ;;
	esac
	nothing_is_left "$name"
	[ ! -d /sys/class/net/h-k ] || veth_del k
}

# del_us MODE: of two times the shorter
del_us()
{
	local start

	for _ in 1 2; do
		must plugin ADD k "${modes[$1]}"
		start=${EPOCHREALTIME/./}
		must plugin DEL k "${modes[$1]}"
		echo $((${EPOCHREALTIME/./} - start))
	done | sort -n | head -n 1
}

among_many()
{
	local mode many
	declare -A few

	veth k
	for mode in pod host node; do few[$mode]=$(del_us $mode); done
	must modprobe dummy numdummies=500
	for mode in pod host node; do
		many=$(del_us $mode)
		echo "# $mode: DEL takes ${few[$mode]} us, and with 500 devices more $many"
		check_num "$mode: DEL with 500 devices more takes at most twice as long" \
			"$many" '<=' $((2 * few[$mode])) us
	done
	rmmod dummy
	veth_del k
}

modprobe veth
if [ ! "${SHORT-}" ]; then
	for ending in DEL GC "DEL without a namespace" "ADD and DEL"; do
		for step in redirect qdisc; do killed_at $step "$ending"; done
	done
	among_many
fi
of_others
of_the_host
collection
renamed ""
renamed "uplink of somebody"
at_once
kills
finish
