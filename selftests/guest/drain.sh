#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Senders on all CPUs start together and stop together. What they leave behind drains to the
# last packet by itself, within its due time: what is queued at the rate, or the last
# packet's own time, and a slack. A packet that a CPU leaves behind while another one
# enqueues it would stay until the next packet comes, and none comes here: nothing else
# sends, and bpdrain asks by netlink.
#
# The slack is 1 ms in virtual time. In real time it is 3 s, for a machine that is busy with
# others; one packet that stays does so forever.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
slack_ms=3000 rounds=${ROUNDS:-60}
if [ "$(nproc)" = 1 ]; then
	slack_ms=1
	rounds=${ROUNDS:-50}
fi

# drains NAME KINDS PACKETS RATE_BIT OPTIONS...: $rounds times
drains()
{
	local name=$1 kinds=$2 packets=$3 rate=$4 out

	shift 4
	shape bpshaper "$@" limit 10mb
	out=$(on_tx "$bpdrain" txdev $nobody "$kinds" "$rounds" "$packets" "$rate" $slack_ms)
	echo "# $name: $out"
	check_num "$name: every round was tried" "$(json_get rounds <<<"$out")" == "$rounds"
	check_num "$name: it drains by itself" "$(json_get left <<<"$out")" == 0 packets
	check_num "$name: all that was sent has left" "$(stat packets)" == \
		"$(json_get sent <<<"$out")" packets
	check_num "$name: nothing was dropped" "$(stat drops)" == 0
	check "$name: no socket is held" no_socket_is_held
}

topology_make
# Nothing of the kernel's own may come to the rescue: no ND, no MLD.
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
echo "# $(nproc) CPUs, slack $slack_ms ms"

for kinds in p ps tr rs ptrs; do
	drains "no rate, a packet of each CPU, $kinds" $kinds 1 0
	drains "no rate, $kinds" $kinds 20 0
	drains "a rate, a packet of each CPU, $kinds" $kinds 1 1000000000 rate 1gbit burst 3k
	drains "a rate, $kinds" $kinds 20 50000000 rate 50mbit burst 10k
done
drains "maxrate, no rate" ps 10 16000000 maxrate 16mbit
drains "maxrate" pts 10 16000000 rate 50mbit burst 10k maxrate 16mbit
drains "peakrate" ptrs 10 20000000 rate 20mbit burst 20k peakrate 30mbit
drains "pacing off" ptrs 20 50000000 rate 50mbit burst 10k pacing off
drains "backpressure off" ptr 20 50000000 rate 50mbit burst 10k backpressure off
unshape
check "the module unloads" wait_until 10 rmmod sch_bpshaper
finish
