#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# As a leaf: a parent that does not drain it throttles the sockets too, and both
# agree on what is queued, however it got there.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# of KIND KEY: a statistic of the first qdisc of that kind
of()
{
	on_tx tc -s -j qdisc show dev txdev |
		sed 's/},{"kind"/}\n{"kind"/g' | grep "\"kind\":\"$1\"" |
		json_get "$2"
}

lossless()
{
	check_num "$1: sockets lose nothing" "$(result udp_lost_packets)" == 0
	check_num "$1: nothing is dropped" "$(of bpshaper drops)" == 0
	check_num "$1: nothing is dropped above" "$(of "$2" drops)" == 0
	check_num "$1: sockets were throttled" "$(of bpshaper throttles)" '>' 0
	check_num "$1: all of them were released" "$(of bpshaper unthrottles)" \
		== "$(of bpshaper throttles)"
	check_num "$1: the leaf is empty" "$(of bpshaper qlen)" == 0
	check_num "$1: the parent knows" "$(of "$2" qlen)" == 0
	check_num "$1: also in bytes" "$(of "$2" backlog)" == 0
}

# agree NAME PARENT: with a backlog that does not move
agree()
{
	check_num "$1: there is a backlog" "$(of bpshaper qlen)" '>' 1
	check_num "$1: qlen agrees" "$(of "$2" qlen)" == "$(of bpshaper qlen)"
	check_num "$1: backlog agrees" "$(of "$2" backlog)" == \
		"$(of bpshaper backlog)"
}

topology_make
shape handle 1: htb default 1
on_tx tc class add dev txdev parent 1: classid 1:1 htb rate 20mbit burst 10k
on_tx tc qdisc add dev txdev parent 1:1 bpshaper limit 50k
send --udp 8 --tcp 2 --seconds 2 --sndbuf 4194304
lossless "htb" htb
check_num "htb: equal bytes" "$(result udp_jain_index)" '>=' 0.999

on_tx tc class change dev txdev parent 1: classid 1:1 htb rate 8bit burst 1
on_tx "$bpsocket" udp $nobody closes >/dev/null
on_tx "$bpsocket" udp $nobody6 closes >/dev/null
agree "htb that does not drain" htb
on_tx tc qdisc del dev txdev parent 1:1
check_num "deleting the leaf empties the parent" "$(of htb qlen)" == 0
check_num "also in bytes" "$(of htb backlog)" == 0

shape handle 1: tbf rate 20mbit burst 10k limit 100k
on_tx tc qdisc add dev txdev parent 1:1 bpshaper limit 50k
send --udp 8 --seconds 2 --sndbuf 4194304
lossless "tbf, which peeks" tbf

shape handle 1: prio
on_tx tc qdisc add dev txdev parent 1:2 bpshaper rate 20mbit burst 10k
send --udp 8 --tcp 2 --seconds 2
lossless "prio, shaped" prio
segments=$(of bpshaper segments)
on_tx tc qdisc change dev txdev parent 1:2 bpshaper rate 8bit burst 3k limit 20k
send --udp 2 --gso 20 --seconds 0.3 --warmup-ms 100 --drain-ms 1 >/dev/null 2>&1
check_num "prio: GSO packets were segmented" "$(of bpshaper segments)" '>' \
	$((segments + 20))
agree "prio over segments" prio
# Sockets with too large a send buffer are in the pool, and a full one evicts.
drops=$(of bpshaper drops_pool)
send --udp 3 --sndbuf 1073741824 --mode poll --seconds 0.3 --warmup-ms 100 \
	--drain-ms 1 >/dev/null 2>&1
check_num "prio: the pool evicted" "$(of bpshaper drops_pool)" '>' "$drops"
agree "prio over evictions" prio
on_tx tc qdisc change dev txdev parent 1:2 bpshaper rate 100mbit
check "prio: the rest drains" wait_until 10 eval '[ "$(of prio qlen)" = 0 ]'
check_num "prio: also in bytes" "$(of prio backlog)" == 0
finish
