# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# What a packet costs that finds the queue empty. In icount mode a nanosecond is an
# instruction, so this counts instructions, and repeats to within a few. pktgen sends
# through dev_queue_xmit() to a device that takes packets for nothing. Sourced, never
# run.

# shellcheck source-path=SCRIPTDIR/.. source=lib/pktgen.sh
. "$(dirname "${BASH_SOURCE[0]}")/pktgen.sh"

# instructions_setup [OPTIONS OF THE DEVICE]
instructions_setup()
{
	local line

	sink_make "$@"
	must modprobe pktgen
	pktgen kpktgend_0 "add_device sink"
	for line in "xmit_mode queue_xmit" "dst $nobody" "dst_mac 02:00:00:00:00:01" \
		    "count 10000" "pkt_size 200" "delay 0"; do
		pktgen sink "$line"
	done
}

# instructions_of QDISC...: sets $instructions, of a packet. The first run warms up.
instructions_of()
{
	on_tx tc qdisc del dev sink root 2>/dev/null
	must on_tx tc qdisc add dev sink root "$@"
	[[ " $* " != *" htb "* ]] || on_tx tc class add dev sink parent 1: classid 1:1 \
		htb rate 40gbit burst 1mb cburst 1mb quantum 60000
	instructions_count
}

# instructions_count: sets $instructions
instructions_count()
{
	pktgen pgctrl start
	pktgen pgctrl start
	instructions=$(on_tx sed -n 's/^Result: OK: \([0-9]*\)(.*/\1/p' \
		/proc/net/pktgen/sink)	# us of 10,000
	instructions=$((instructions / 10))
}

# instructions_least NAME QDISC...: as before, into ${cost[NAME]} if that is less: ticks of
# the timer come on top in some turns
declare -A cost
instructions_least()
{
	instructions_of "${@:2}"
	instructions_keep "$1"
}

instructions_keep()
{
	[ -n "${cost[$1]-}" ] && [ "$instructions" -ge "${cost[$1]}" ] ||
		cost[$1]=$instructions
}

# instructions_classes NAME CLASSES KIND [OPTIONS]: the same with classes. All packets are of one,
# which their priority names.
instructions_classes()
{
	local parent=1: class=floor id

	on_tx tc qdisc del dev sink root 2>/dev/null
	must on_tx tc qdisc add dev sink root handle 1: "${@:3}"
	if [ "$3" = htb ]; then
		parent=1:1 class="burst 1mb cburst 1mb quantum 60000 ceil 40gbit rate"
		must on_tx tc class add dev sink parent 1: classid 1:1 htb \
			rate 40gbit burst 1mb cburst 1mb quantum 60000
	fi
	for ((id = 10; id < 10 + $2; id++)); do
		# shellcheck disable=SC2086 # words
		echo "class add dev sink parent $parent classid 1:$id $3 $class $((id == 10 ? 4000 : 300))mbit"
	done | must on_tx tc -batch - >/dev/null
	pktgen sink "skb_priority $((0x10010))"
	instructions_count
	pktgen sink "skb_priority 0"
	[[ $(on_tx tc -s class show dev sink classid 1:10) == *" 20000 pkt "* ]] ||
		echo "# $1: not all packets were of the class"
	instructions_keep "$1"
}

# instructions_net NAME: what that qdisc adds to none
instructions_net() { echo $((cost[$1] - cost[noqueue])); }

instructions_end()
{
	pktgen kpktgend_0 "rem_device_all"
	on_tx ip link del sink
}
