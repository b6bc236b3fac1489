#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Who has a packet socket, a tap or a container of its own chooses how long the segments
# of a GSO packet are, and a shaper that segments does so under its lock. Of 8 bytes, the
# least that a kernel of today takes, 60 kB are 7500 segments, which take 27 ms and 7 MB.
#
#  1. What would become more than 2048 segments is dropped before it is segmented, and
#     counted; with fewer it is not.
#  2. Memory is bounded by memory_limit, also by what one packet adds to it.
#  3. A sparse sender beside loses nothing and does not wait.
#
# Only in icount mode: a nanosecond is an instruction. tbf segments as we do, and takes as
# long and as much; cake, too, but drops in the end what it cannot hold.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/holds.sh
. "$(dirname "$0")/lib/holds.sh"

memory_kb=4000
shaper="bpshaper rate 100mbit memory_limit 4000k"

vnet() { on_tx "$bpvnet" txdev "$@"; }

slab_kb() { awk '/^Slab:/ { print $2 }' /proc/meminfo; }

# slab_peak_kb SAMPLES: the most of as many, a tenth of a second apart
slab_peak_kb()
{
	local most=0 now i

	for ((i = 0; i < $1; i++)); do
		now=$(slab_kb)
		most=$((now > most ? now : most))
		sleep 0.1
	done
	echo $most
}

# flood SEGMENT: packets as fast as they are taken, for 2 s, beside the probe. Sets
# $slab_kb, by which the slab grew at most.
flood()
{
	local before

	before=$(slab_kb)
	vnet -g "$1" -b 4000000 -n 0 -t 1000000 -i 500 -T 2.2 >/tmp/flood &
	slab_peak_kb 17 >/tmp/slab &
	send --probe --seconds 2 --warmup-ms 200
	wait
	slab_kb=$(($(</tmp/slab) - before))
	echo "# segments of $1 bytes, $(stat kind): sparse sender lost $(result probe_lost_packets)" \
		"of $(result probe_sent_packets), p99 $(result probe_delay_p99_ms) ms;" \
		"slab grew by $slab_kb kB; $(cat /tmp/flood)"
}

bounded()
{
	check_num "$1: memory is bounded by memory_limit" "$slab_kb" '<=' \
		$((memory_kb + 4096)) kB
	check_num "$1: a sparse sender loses nothing" "$(result probe_lost_packets)" == 0
	check_num "$1: a sparse sender does not wait" "$(result probe_delay_p99_ms)" '<=' 1 ms
	check "$1: nothing is held afterwards" wait_until 10 no_socket_is_held
}

topology_make
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
# shellcheck disable=SC2086 # words
shape $shaper
holds_start
vnet -g 8 >/dev/null
longest=$(holds_end | holds_longest)
check_num "a packet of 7500 segments is dropped, and counted so" "$(stat drops_segments)" == 1
check_num "it is not segmented" "$(stat segments)" == 0
check_num "it takes the lock for less than 50,000 instructions" "$longest" '<=' 50000
us=$(vnet -g 30 | json_get longest_us)
echo "# a packet of 2000 segments takes $us us, one of 7500 holds the lock for $longest ns"
check_num "a packet of 2000 segments is taken" "$(stat segments)" == 2000

# shellcheck disable=SC2086 # words
shape $shaper
flood 8
bounded "7500 segments"
check_num "7500 segments: the packets are dropped, and counted so" \
	"$(stat drops_segments)" '>' 100
# shellcheck disable=SC2086 # words
shape $shaper
flood 30
bounded "2000 segments"
# shellcheck disable=SC2086 # words
shape $shaper
flood 1400
bounded "43 segments"
finish
