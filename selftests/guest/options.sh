#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The command line against the kernel: defaults, dump, change, and that bad input
# gives an error and changes nothing. Values out of range, and words that exclude each
# other: selftests/plugin, and fuzz for the kernel.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

shown() { on_tx tc qdisc show dev "$shaped" root; }

# The options in JSON as words
json_words()
{
	on_tx tc -j qdisc show dev txdev root |
		sed 's/.*"options": *{//; s/}.*//; s/[",]/ /g; s/ *: */ /g' |
		sed -E 's/ (rate|peakrate|maxrate) +([0-9]+)/ \1 \2Bps/g
			s/ (latency|ce_threshold) +([0-9]+)/ \1 \2ns/g
			s/ null / /g; s/  +/ /g'
}

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
check_num "memory_limit defaults to 1/16 of the memory, 32 MiB to 1 GiB" \
	"$(stat memory_limit)" == "$(awk '/^MemTotal:/ {
		limit = $2 * 64
		if (limit < 2^25) limit = 2^25
		if (limit > 2^30) limit = 2^30
		printf "%d", limit }' /proc/meminfo)"
shape bpshaper rate 100kbit
check_num "burst is never less than two packets" "$(stat burst)" == 3028
check_num "limit is never less than eight packets" "$(stat limit)" == 12112

shape bpshaper rate 8mbit latency 20ms burst 4000
check_num "latency sets the limit" "$(stat limit)" == 24000
must on_tx tc qdisc change dev txdev root bpshaper rate 16mbit
check_num "latency follows the rate" "$(stat limit)" == 44000
check_num "change leaves the burst alone" "$(stat burst)" == 4000
must on_tx tc qdisc change dev txdev root bpshaper limit 30000
check_num "limit replaces latency" "$(stat limit)" == 30000
must on_tx tc qdisc change dev txdev root bpshaper memory_limit 1mb
check_num "memory_limit can be changed" "$(stat memory_limit)" == 1048576
check_num "change leaves the limit alone" "$(stat limit)" == 30000
must on_tx tc qdisc replace dev txdev root bpshaper
check_num "replace without options keeps what was set" "$(stat rate)" == 2000000

check "pacing is on" [ "$(stat pacing)" = on ]
check "no flow has a largest rate" [ "$(stat maxrate)" = unlimited ]
check "ce_threshold follows from the limit" [ -z "$(stat ce_threshold)" ]
must on_tx tc qdisc change dev txdev root bpshaper pacing off maxrate 20mbit \
	ce_threshold 5ms
check "pacing can be changed" [ "$(stat pacing)" = off ]
check_num "maxrate can be changed" "$(stat maxrate)" == 2500000
check_num "ce_threshold can be changed" "$(stat ce_threshold)" == 5000000
check_num "change leaves what it does not name alone" "$(stat memory_limit)" == 1048576
typed=$(shown | sed 's/.* refcnt [0-9]* //')
check "text shows all of them" \
	grep -q "maxrate 20Mbit memory_limit 1Mb ce_threshold 5ms pacing off" <<<"$typed"
# shellcheck disable=SC2086 # words
shape bpshaper $typed
check "which typed again makes the same qdisc" \
	[ "$(shown | sed 's/.* refcnt [0-9]* //')" = "$typed" ]
typed=$(json_words)
# shellcheck disable=SC2086
shape bpshaper $typed
check "and so does JSON" [ "$(json_words)" = "$typed" ]
must on_tx tc qdisc change dev txdev root bpshaper ce_threshold never maxrate unlimited
check "never is shown as typed" [ "$(stat ce_threshold)" = never ]
check "and so is unlimited" [ "$(stat maxrate)" = unlimited ]

# A device with several queues; what cannot be changed there: members
must ip -n "$tx" link add wide numtxqueues 4 type dummy
shaped=wide
shape bpshaper rate 200mbit
check_num "with several queues burst defaults to 1 ms of the rate, too" "$(stat burst)" == 25000
check_num "and limit to 10 ms of the rate and the burst" "$(stat limit)" == 275000
must on_tx tc qdisc change dev wide root bpshaper rate 8mbit
check_num "it holds four packets at least" "$(stat burst)" == 6056
check "queues 0 is not shown" [ -z "$(shown | grep -o 'queues')" ]
shape bpshaper rate 8mbit queues 1
check_num "with one lock it holds two" "$(stat burst)" == 3028
check "queues 1 is shown" grep -q "rate 8Mbit .*queues 1" <<<"$(shown)"
typed=$(shown | sed 's/.* refcnt [0-9]* //')
# shellcheck disable=SC2086 # words
shape bpshaper $typed
check "which typed again makes the same qdisc" [ "$(shown | sed 's/.* refcnt [0-9]* //')" = "$typed" ]
shaped=txdev
ip -n "$tx" link del wide
shape bpshaper rate 2mbit

must on_tx tc qdisc change dev txdev root bpshaper latency 5ms
check "no rate: the latency of the rate before goes with it" \
	on_tx tc qdisc change dev txdev root bpshaper rate unlimited
refused "latency without a rate" latency 10ms
check "the kernel refuses a new qdisc just as well" bash -c \
	"! ip netns exec $tx tc qdisc add dev txdev parent ffff:1 bpshaper"
unshape
# What follows from the MTU must be bounded where the MTU is not.
must ip -n "$tx" link add huge mtu 2147483634 type dummy
must ip -n "$tx" link set huge up
must on_tx tc qdisc add dev huge root bpshaper rate 1mbit
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
must modprobe tun
mkdir -p /dev/net && [ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
must on_tx ip tuntap add dflt mode tap
must ip -n "$tx" link set dflt up
check "it can be the default qdisc" bash -c \
	"ip netns exec $tx tc qdisc show dev dflt | grep -q '^qdisc bpshaper'"
sysctl -qw net.core.default_qdisc=fq_codel
ip -n "$tx" link del dflt
finish
