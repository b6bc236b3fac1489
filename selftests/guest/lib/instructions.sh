# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# What a packet costs that finds the queue empty. In icount mode a nanosecond is an
# instruction, so this counts instructions, and repeats to within a few. pktgen sends
# through dev_queue_xmit() to a device that takes packets for nothing. Sourced, never
# run.

# shellcheck source-path=SCRIPTDIR/.. source=lib/pktgen.sh
. "$(dirname "${BASH_SOURCE[0]}")/pktgen.sh"

instructions_setup()
{
	local line

	sink_make
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
	[ -n "${cost[$1]-}" ] && [ "$instructions" -ge "${cost[$1]}" ] ||
		cost[$1]=$instructions
}

# instructions_net NAME: what that qdisc adds to none
instructions_net() { echo $((cost[$1] - cost[noqueue])); }

instructions_end()
{
	pktgen kpktgend_0 "rem_device_all"
	on_tx ip link del sink
}
