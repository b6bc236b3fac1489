#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The command line against the kernel: defaults, dump, change, and that bad input
# gives an error and changes nothing. What the plugin alone decides is tested in
# selftests/plugin.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

shown() { on_tx tc qdisc show dev txdev root; }

# refused NAME OPTIONS...: an error, and the old qdisc is untouched
refused()
{
	local name=$1 before after

	shift
	before=$(shown)
	check "$name: refused" bash -c "! ip netns exec $tx tc qdisc change \
		dev txdev root bpshaper $* 2>/tmp/err"
	check_num "$name: says why, in a line or two" "$(wc -l </tmp/err)" '<=' 2
	check "$name: says something" [ -s /tmp/err ]
	after=$(shown)
	check "$name: changes nothing" [ "$before" = "$after" ]
}

topology_make
check "the kind is loaded on demand" shape bpshaper
check "no option is needed" [ "$(stat kind)" = bpshaper ]
check "the default has no rate" [ "$(stat rate)" = unlimited ]

shape bpshaper rate 200mbit
check_num "burst defaults to 1 ms of the rate" "$(stat burst)" == 25000
check_num "limit defaults to 10 ms of the rate and the burst" \
	"$(stat limit)" == 275000
check_num "quantum defaults to a packet" "$(stat quantum)" == 1514
check_num "memory_limit defaults to 32 MiB or 1/64 of memory" \
	"$(stat memory_limit)" '>=' 33554432
shape bpshaper rate 100kbit
check_num "burst is never less than two packets" "$(stat burst)" == 3028
check_num "limit is never less than eight packets" "$(stat limit)" == 12112

shape bpshaper rate 8mbit latency 20ms burst 4000
check_num "latency sets the limit" "$(stat limit)" == 24000
on_tx tc qdisc change dev txdev root bpshaper rate 16mbit
check_num "latency follows the rate" "$(stat limit)" == 44000
check_num "change leaves the burst alone" "$(stat burst)" == 4000
on_tx tc qdisc change dev txdev root bpshaper limit 30000
check_num "limit replaces latency" "$(stat limit)" == 30000
on_tx tc qdisc change dev txdev root bpshaper quantum 3000 memory_limit 1mb
check_num "quantum can be changed" "$(stat quantum)" == 3000
check_num "memory_limit can be changed" "$(stat memory_limit)" == 1048576
check_num "change leaves the limit alone" "$(stat limit)" == 30000
on_tx tc qdisc replace dev txdev root bpshaper
check_num "replace without options keeps what was set" "$(stat rate)" == 2000000

refused "limit and latency together" limit 10k latency 10ms
refused "rate 0" rate 0
refused "burst 0" burst 0
refused "limit 0" limit 0
refused "latency 0" latency 0
refused "quantum below its bound" quantum 100
refused "quantum above its bound" quantum 2mb
refused "memory_limit below its bound" memory_limit 1k
refused "an unknown word" speed 10mbit
refused "a missing value" rate
refused "a word for a number" burst big
on_tx tc qdisc change dev txdev root bpshaper latency 5ms
check "no rate: the latency of the rate before goes with it" \
	on_tx tc qdisc change dev txdev root bpshaper rate unlimited
refused "latency without a rate" latency 10ms
check "the kernel refuses a new qdisc just as well" bash -c \
	"! ip netns exec $tx tc qdisc add dev txdev parent ffff:1 bpshaper"
unshape
# What follows from the MTU must be bounded where the MTU is not.
ip -n "$tx" link add huge mtu 2147483634 type dummy
ip -n "$tx" link set huge up
on_tx tc qdisc add dev huge root bpshaper rate 1mbit
on_tx "$bpsocket" packet - closes huge >/dev/null
check "a device without a bound on its MTU does no harm" \
	wait_until 5 eval '[ "$(on_tx tc -s -j qdisc show dev huge |
		json_get packets)" -ge 20 ]'
ip -n "$tx" link del huge
check "init that fails leaves nothing" bash -c "! ip netns exec $tx tc qdisc add \
	dev txdev root bpshaper latency 10ms 2>/dev/null"
check "after it the device has its old qdisc" bash -c \
	"! ip netns exec $tx tc qdisc show dev txdev | grep bpshaper"

# The plugin where somebody has built it, and not where tc looks.
mkdir -p /tmp/uninstalled
installed=$(find /usr/lib -name q_bpshaper.so)
for file in $installed; do mv "$file" /tmp/uninstalled; done
check "without the plugin tc refuses the options" bash -c \
	"! ip netns exec $tx tc qdisc add dev txdev root bpshaper rate 1mbit"
check "TC_LIB_DIR leads tc to it" on_tx env TC_LIB_DIR=/tmp/uninstalled \
	tc qdisc add dev txdev root bpshaper rate 1mbit
for file in $installed; do cp /tmp/uninstalled/q_bpshaper.so "$file"; done
check_num "and its options arrive" "$(stat rate)" == 125000
unshape

sysctl -qw net.core.default_qdisc=bpshaper
modprobe tun
mkdir -p /dev/net && [ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
on_tx ip tuntap add dflt mode tap
ip -n "$tx" link set dflt up
check "it can be the default qdisc" bash -c \
	"ip netns exec $tx tc qdisc show dev dflt | grep -q '^qdisc bpshaper'"
sysctl -qw net.core.default_qdisc=fq_codel
ip -n "$tx" link del dflt
finish
