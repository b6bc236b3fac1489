# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Links with $QUEUES queues, or 4, for tests of a bpshaper that has a qdisc
# for each: `shape handle 1: bpshaper OPTIONS`.
# Sourced, never run.

# shellcheck source-path=SCRIPTDIR/.. source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck disable=SC2034 # by topology_make
queues=${QUEUES:-4} QUEUES=$queues

# Before 5.19 a filter cannot choose the queue: what packets hash to does.
can_steer() { [[ $(uname -r) != 5.* ]]; }

# queues_shown: the statistic of the top; the option has the same name
queues_shown()
{
	on_tx tc -s qdisc show dev txdev root |
		awk '$1 == "queues" { n = $2 } END { print n + 0 }'
}

# queue_stat N KEY: of the qdisc of queue N, from 1; tc reads it as hexadecimal
queue_stat()
{
	on_tx tc -s -j qdisc show dev txdev invisible |
		awk -v parent="\"$(printf '1:%x' "$1")\"" -v key="\"$2\":" -v RS='"kind":' '
		index($0, "\"parent\":" parent) && (i = index($0, key)) {
			s = substr($0, i + length(key)); match(s, /^-?[0-9.]+/)
			print substr(s, 1, RLENGTH) }'
}

# queues_sum KEY: over the qdiscs of all queues
queues_sum()
{
	local i

	for ((i = 1; i <= queues; i++)); do
		queue_stat $i "$1"
	done | awk '{ sum += $1 } END { printf "%.0f\n", sum }'
}

is_sum() { [ "$(stat "$1")" = "$(queues_sum "$1")" ]; }

# queue_port Q: the first of 256 ports. tc 5.9 compares the ends of a range in network byte
# order, so their low bytes are 0 and 255.
queue_port() { echo $((6144 + 256 * $1)); }

# steer: datagrams to the ports of queue Q leave by it, from 0
steer()
{
	local q port

	can_steer || return
	must modprobe act_skbedit
	must modprobe cls_flower
	must on_tx tc qdisc add dev txdev clsact
	for ((q = 0; q < queues; q++)); do
		port=$(queue_port $q)
		must on_tx tc filter add dev txdev egress protocol ip flower ip_proto udp \
			dst_port "$port-$((port + 255))" action skbedit queue_mapping $q
	done
}

# load Q SECONDS OPTIONS...: traffic through queue Q, in the background; /tmp/load.Q
load()
{
	rm -f "/tmp/load.$1"
	measured "/tmp/load.$1" "$traffic" --tx-netns "$tx" --rx-netns "$rx" --dst 10.99.0.2 \
		--json "/tmp/load.$1" --port "$(queue_port "$1")" --seconds "$2" "${@:3}" &
}

loaded() { json_get "$2" <"/tmp/load.$1"; }

# loaded_sum KEY QUEUES...
loaded_sum()
{
	local q

	for q in "${@:2}"; do
		loaded "$q" "$1"
	done | awk '{ sum += $1 } END { print sum + 0 }'
}
