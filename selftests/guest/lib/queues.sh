# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# A device with $queues queues (4, or what is set before), mq, and a bpshaper in each, for
# tests of the option `group`.
# Sourced, never run.

# shellcheck source-path=SCRIPTDIR/.. source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
queues=${queues:-4}
must modprobe act_skbedit
must modprobe cls_flower

# A filter chooses the queue; before 5.19 it cannot, but the priority does.
if [[ $(uname -r) == 5.* ]]; then
	multiqueue="mqprio num_tc 4 map 0 1 2 3 0 0 0 0 0 0 0 0 0 0 0 0"
	multiqueue+=" queues 1@0 1@1 1@2 1@3 hw 0"
	steered=priority
else
	multiqueue=mq steered=queue_mapping
fi

mq_root()
{
	root_remove
	# shellcheck disable=SC2086 # words
	must on_tx tc qdisc add dev txdev root handle 8001: $multiqueue
}

# class N: of the root, N from 1; tc reads it as hexadecimal
class() { printf '8001:%x' "$1"; }

# member N OPTIONS...: of the root
member() { on_tx tc qdisc replace dev txdev parent "$(class "$1")" "bpshaper" "${@:2}"; }

# grouped OPTIONS...: a member in each queue
grouped()
{
	local i

	mq_root
	for ((i = 1; i <= queues; i++)); do
		must member $i "$@" group 7 || return
	done
}

# member_stat N KEY
member_stat()
{
	on_tx tc -s -j qdisc show dev txdev |
		tr '{' '\n' | awk -v parent="\"$(class "$1")\"" -v key="\"$2\":" -v RS='"kind":' '
		index($0, "\"parent\":" parent) && (i = index($0, key)) {
			s = substr($0, i + length(key)); match(s, /^-?[0-9.]+/)
			print substr(s, 1, RLENGTH) }'
}

# sum_stat KEY...: over all members, in a line; nothing if there are none
sum_stat()
{
	on_tx tc -s -j qdisc show dev txdev | awk -v keys="$*" -v RS='"kind":' '
		BEGIN { n = split(keys, key, " ") }
		/^ *"bpshaper"/ {
			members++
			for (k = 1; k <= n; k++)
				if ((i = index($0, "\"" key[k] "\":")))
					sum[k] += substr($0, i + length(key[k]) + 3)
		}
		END { for (k = 1; k <= n && members; k++) printf "%.0f ", sum[k] }'
}

none_is_held()
{
	local throttles unthrottles left

	read -r throttles unthrottles left \
		<<<"$(sum_stat throttles unthrottles qlen throttled_sockets)"
	[ "$throttles $left" = "$unthrottles 0 0" ]
}

# queue_port Q: the first of 256 ports. tc 5.9 compares the ends of a range in network byte
# order, so their low bytes are 0 and 255.
queue_port() { echo $((6144 + 256 * $1)); }

# steer: datagrams to the ports of queue Q leave by it, from 0
steer()
{
	local q port

	must on_tx tc qdisc add dev txdev clsact
	for ((q = 0; q < queues; q++)); do
		port=$(queue_port $q)
		must on_tx tc filter add dev txdev egress protocol ip flower ip_proto udp \
			dst_port "$port-$((port + 255))" action skbedit $steered $q
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
