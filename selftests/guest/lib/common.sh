# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# What all tests share: two namespaces and a link, a qdisc and its statistics, traffic.
# Sourced, never run.
#
#	netns $tx                                     netns $rx
#	+--------------------------+    +--------------------------+
#	|  senders                 |    |              receivers   |
#	|  10.99.0.1               |    |               10.99.0.2  |
#	|  fd99::1     txdev ------+----+------ rxdev     fd99::2  |
#	|              ^           |    |                          |
#	+--------------|-----------+    +--------------------------+
#	               the qdisc under test
#
# Neighbours are static: a packet that waits for an address has not reached the
# shaper, is not counted, and a test over it proves nothing. $nobody and $nobody6
# are addresses on the link that no host has: what is sent there vanishes in $rx
# without an answer.
#
# A test is a sentence about behaviour. Each prints one TAP line (tap.sh).

set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR/.. source=lib/tap.sh
. "$here/lib/tap.sh"
# shellcheck disable=SC2034 # used by those who source it
traffic=$here/bptraffic law=$here/bplaw bpsocket=$here/bpsocket bpmany=$here/bpmany
# shellcheck disable=SC2034 # used by those who source it
bpwire=$here/bpwire bppace=$here/bppace bpdrain=$here/bpdrain
# shellcheck disable=SC2034 # as well
bptime=$here/bptime bprr=$here/bprr bpmoves=$here/bpmoves bpvnet=$here/bpvnet
# shellcheck disable=SC2034 # as well
bpacks=$here/bpacks bpcork=$here/bpcork bppeers=$here/bppeers
# shellcheck disable=SC2034 # as well
bpshares=$here/bpshares bpovs=$here/bpovs bpsndbuf=$here/bpsndbuf bplink=$here/bplink

tx=bps-tx$$ rx=bps-rx$$
shaped=txdev	# device of $tx
# shellcheck disable=SC2034 # used by those who source it
nobody=10.99.0.9 nobody6=fd99::9
report=$(mktemp)

# With KASAN or KCSAN a machine sends less than with the kernels of Debian, and a test that needs
# more than the rate takes a lower one.
is_slow() { [[ $(uname -r) == *-bpshaper-* ]]; }

# wait_until SECONDS COMMAND...: poll, for what takes an unknown time
wait_until()
{
	local end=$((SECONDS + $1))

	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.2
	done
}

listens() { on_rx ss -Hltn "sport = :$1" | grep -q .; }

# iperf3_server: for one client, for which it does not wait for ever
iperf3_server()
{
	on_rx timeout 60 iperf3 -s -1 >/tmp/iperf3 2>&1 &
	must wait_until 20 listens 5201
}

# topology_make [OPTIONS OF BOTH LINKS]: with $QUEUES transmit queues, if it is set
topology_make()
{
	[ -z "${QUEUES:-}" ] || set -- numtxqueues "$QUEUES" numrxqueues "$QUEUES" "$@"
	must ip netns add "$tx"
	must ip netns add "$rx"
	# What the receive queue of a CPU drops, no shaper has lost.
	must sysctl -qw net.core.netdev_max_backlog=100000
	# Since 6.19 the kernel drops what exceeds this while the holder of the queue is
	# preempted, before any qdisc sees it.
	sysctl -qw net.core.qdisc_max_burst=100000 2>/dev/null
	must ip link add txdev netns "$tx" "$@" type veth \
		peer name rxdev netns "$rx" "$@"
	links_up
}

# link_up NETNS DEVICE HOST MAC NEIGHBOURS...: with its addresses, and neighbours at MAC. A
# batch, as programs take long to start with KASAN.
link_up()
{
	local net neighbour

	{
		echo "addr replace 10.99.0.$3/24 dev $2"
		echo "addr replace fd99::$3/64 dev $2 nodad"
		echo "link set lo up"
		echo "link set $2 up"
		for neighbour in "${@:5}"; do
			for net in 10.99.0. fd99::; do
				echo "neigh replace $net$neighbour lladdr $4 dev $2 nud permanent"
			done
		done
	} | ip -n "$1" -force -batch -
}

mac_of() { ip -n "$1" -br link show "$2" | awk '{ print $3 }'; }

links_up()
{
	local txmac rxmac

	txmac=$(mac_of "$tx" txdev)
	rxmac=$(mac_of "$rx" rxdev)
	link_up "$tx" txdev 1 "$rxmac" 2 9
	link_up "$rx" rxdev 2 "$txmac" 1
}

# wire_start KIND: two devices, of the names ${ends[@]}, on the wire with the process
# id $wire
wire_start()
{
	local out

	out=$(mktemp)
	"$bpwire" "$1" >"$out" &
	# shellcheck disable=SC2034 # used by those who source it
	wire=$!
	must wait_until 5 test -s "$out"
	# shellcheck disable=SC2034 # as well
	read -r -a ends <"$out"
	rm "$out"
}

topology_remove()
{
	ip netns del "$tx" 2>/dev/null
	ip netns del "$rx" 2>/dev/null
	rm -f "$report"
}

on_tx() { ip netns exec "$tx" "$@"; }
on_rx() { ip netns exec "$rx" "$@"; }

# classes_by_port: lines of tc for $CLASSES classes below the first, chosen by the source port
classes_by_port()
{
	local i minor

	for ((i = 0; i < CLASSES; i++)); do
		minor=$(printf '%x' $((32 + i)))
		echo "class add dev $shaped parent c1a5:1 classid c1a5:$minor bpshaper"
		echo "filter add dev $shaped parent c1a5: protocol ip u32" \
			"match ip sport $i $((CLASSES - 1)) flowid c1a5:$minor"
	done
}

# shape OPTIONS...: a new qdisc of that kind on $shaped, counters at zero. With CLASSES, a power of two,
# packets go through so many classes below another one, so that a test can be run with classes.
shape()
{
	root_remove
	if [ "${CLASSES:-}" ] && [ "$1" = bpshaper ]; then
		must on_tx tc qdisc add dev "$shaped" root handle c1a5: "$@" default 10
		must on_tx tc class add dev "$shaped" parent c1a5: classid c1a5:1 bpshaper
		must on_tx tc class add dev "$shaped" parent c1a5:1 classid c1a5:10 bpshaper weight 3
		classes_by_port | must on_tx tc -batch -
		return
	fi
	must on_tx tc qdisc add dev "$shaped" root "$@"
}

unshape() { must on_tx tc qdisc del dev "$shaped" root; }

# root_remove: whatever there is, the default qdisc included, which cannot be removed
root_remove() { on_tx tc qdisc del dev "$shaped" root 2>/dev/null; }

# send OPTIONS...: traffic from $tx to $rx; `result KEY` has what came of it
send() { measured "$report" traffic_try "$@"; }

# measured FILE COMMAND...: the command leaves its report there, and is a result if it fails. On
# several CPUs a slow machine may lose packets behind the shaper: that makes a report
# invalid, but there is one.
measured()
{
	local status

	"${@:2}" && return
	status=$?
	[ -s "$1" ] && [ "$(nproc)" -gt 1 ] || not_ok "this works: ${*:2}" "exit $status"
	return $status
}

# traffic_try OPTIONS...: the same, where it may fail
traffic_try()
{
	: >"$report"
	"$traffic" --tx-netns "$tx" --rx-netns "$rx" --dst "${dst:-10.99.0.2}" \
		--json "$report" "$@"
}

# json_value KEY JSON: the first value of that name
json_value()
{
	[[ $2 =~ \"$1\":\ *\"?([^,\"}]*) ]] || return 1
	echo "${BASH_REMATCH[1]}"
}

json_get() { json_value "$1" "$(cat)"; }

result() { json_value "$1" "$(<"$report")"; }

# stat KEY: of the root qdisc of $shaped
stat() { json_value "$1" "$(on_tx tc -s -j qdisc show dev "$shaped" root)"; }

# memory_watch FILE: the largest amount of memory that is seen, until FILE.end is there
memory_watch()
{
	local seen most=0

	rm -f "$1.end"
	while [ ! -e "$1.end" ]; do
		seen=$(stat memory)
		[ "${seen:-0}" -le "$most" ] || most=$seen
		echo "$most" >"$1"
		sleep 0.1
	done
}

# hist_sum KEY: of all buckets of a histogram
hist_sum()
{
	on_tx tc -s -j qdisc show dev "$shaped" root |
		sed -n "s/.*\"$1\": *\[\([^]]*\)\].*/\1/p" | tr ',' '\n' |
		awk '{ sum += $1 } END { print sum + 0 }'
}

# json_has KEY VALUE JSON: is that the first value of that name?
json_has() { [[ $3 =~ \"$1\":\ *([^,\"}]*) && ${BASH_REMATCH[1]} == "$2" ]]; }

# Every socket that was throttled has been released, and nothing is left. Called often, so
# that it forks once.
no_socket_is_held()
{
	local json key

	json=$(on_tx tc -s -j qdisc show dev "$shaped" root)
	[[ $json =~ \"throttles\":\ *([0-9]+) ]] &&
		json_has unthrottles "${BASH_REMATCH[1]}" "$json" || return
	for key in throttled_sockets overlimit_sockets backlog qlen flows memory; do
		json_has $key 0 "$json" || return
	done
}

trap topology_remove EXIT
