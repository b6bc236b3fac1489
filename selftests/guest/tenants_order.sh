#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Tenants beside each other at 100 Mbit/s: none has to wait for what another one does. $PARTS chooses.
#
#  1. returns: a class with a floor of 50 to 95 % comes back every 70 ms, with and without a class
#     of prio 7 that gets nothing. A sparse class of the same weight does not wait
#  2. depth: a sparse class at the bottom of seven levels, beside a greedy one on each, does not wait
#  3. bursts: a class gets its floor, and keeps to its ceil, whatever its burst, in the words of htb too
#  4. changes: a change that changes nothing changes nobody's part
#  5. times: thousands of packets of one class that are due at once delay no timed packet of another

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"

does_not_wait()
{
	check_num "$1: a sparse class does not wait (p99)" "$(got probe_delay_p99_ms)" '<=' 0.5 ms
}

# returning CLASS: senders that are on for 50 ms and off for 20
returning()
{
	local i

	for ((i = 0; i < 28; i++)); do
		echo "on$i:udp,sockets=2,class=$1,from=$((70 * i)),until=$((70 * i + 50))"
	done
}

# returns NAME FLOOR SENDERS...
returns()
{
	# shellcheck disable=SC2046 # words
	peers 2 300 $(returning 1-10) probe:udp,every=1997,size=100,class=1-20 "${@:3}"
	does_not_wait "$1"
	lossless "$1" on7 probe
}

part_returns()
{
	local floor

	for floor in 50 80 90 95; do
		shape handle 1: bpshaper rate 100mbit
		class 1: 1:10 floor ${floor}mbit
		class 1: 1:20
		returns "a floor of $floor % returns" $floor
		class 1: 1:30 prio 7
		returns "a floor of $floor % returns, beside a starved prio" $floor \
			low:udp,sockets=2,class=1-30
	done
}

# deep OPTION: eight levels of classes, but the probe has the eighth by itself
deep()
{
	local i parent=1:

	shape handle 1: bpshaper rate 100mbit
	for i in 1 2 3 4 5 6 7; do
		class $parent 1:1$i
		class $parent 1:$i
		parent=1:$i
	done
}

part_depth()
{
	local i senders=()

	deep
	for i in 1 2 3 4 5 6 7; do
		senders+=("g$i:udp,sockets=2,class=1-1$i")
	done
	# A quarter of 100 / 2^7 Mbit/s
	peers 4 500 "${senders[@]}" probe:udp,every=5813,size=100,class=1-7
	does_not_wait "seven levels"
	near "seven levels, the first" "$(got g1_mbit)" 50 1
	# With several queues slots that come back get up to 1 % of the rate before their turn.
	near "seven levels, the sixth" "$(got g6_mbit)" 1.563 "${QUEUES:+6}4"
	lossless "seven levels" g1 g6 g7 probe
}

# bursts RATE FLOOR WORDS...: in Mbit/s. A class with the words gets FLOOR, one without the rest.
bursts()
{
	local name="rate $1, ${*:3}"

	shape handle 1: bpshaper rate "$1mbit"
	class 1: 1:10 "${@:3}"
	class 1: 1:20
	peers 2 300 a:udp,sockets=2,class=1-10 b:udp,sockets=2,class=1-20
	near "$name" "$(got a_mbit)" "$2" 1
	near "$name, the other" "$(got b_mbit)" $(($1 - $2)) 1
	lossless "$name" a b
}

part_bursts()
{
	local warning

	shape handle 1: bpshaper rate 100mbit
	warning=$(on_tx tc class add dev txdev parent 1: classid 1:10 bpshaper ceil 80mbit burst 1514 2>&1)
	check "a burst of one packet: a warning" grep -q "burst" <<<"$warning"
	check "a burst of one packet: it is two" eval \
		'on_tx tc class show dev txdev classid 1:10 | grep -q "burst 3028b"'
	bursts 100 80 floor 80mbit ceil 80mbit
	bursts 100 80 floor 80mbit ceil 80mbit burst 15k
	bursts 100 80 floor 80mbit ceil 80mbit burst 6000
	if [ -n "${QUEUES:-}" ]; then
		skip "bursts of two packets, and of 0.4 ms" "several queues lose some: Documentation/hub.rst"
		return
	fi
	bursts 100 80 floor 80mbit ceil 80mbit burst 3028
	bursts 100 80 floor 80mbit ceil 80mbit burst 1514
	bursts 100 80 rate 80mbit ceil 80mbit cburst 1600
	bursts 100 95 floor 95mbit ceil 95mbit burst 3028
	bursts 400 320 floor 320mbit ceil 320mbit cburst 15k
	bursts 100 20 floor 20mbit ceil 20mbit burst 3028
	bursts 100 5 ceil 5mbit burst 1514
}

# percent EXPECTED: how far it may be off; with several queues 2 % of the rate, see "Weak spots" in
# Documentation/hub.rst
percent()
{
	[ -z "${QUEUES:-}" ] && echo 1 && return
	awk "BEGIN { print 200 / $1 }"
}

# changing NAME COMMANDS: a file for tc -batch, again and again
changing()
{
	: >/tmp/changing
	on_tx bash -c "while [ -e /tmp/changing ]; do tc -batch $2; ${3-:}; done" &
	peers 2 300 a:udp,sockets=2,class=1-10 b:udp,sockets=2,class=1-20 \
		c:udp,sockets=2,class=1-30
	rm /tmp/changing
	wait $!
	near "$1: floor 10 and a third of the rest" "$(got a_mbit)" 40 "$(percent 40)"
	near "$1: weight 1" "$(got b_mbit)" 30 "$(percent 30)"
	near "$1: the ceil" "$(got c_mbit)" 30 "$(percent 30)"
	lossless "$1" a b c
}

part_changes()
{
	local line="class change dev txdev classid 1"

	shape handle 1: bpshaper rate 100mbit
	class 1: 1:10 floor 10mbit weight 10
	class 1: 1:20 weight 10
	class 1: 1:30 weight 100 ceil 30mbit
	printf '%s\n' "$line:10 bpshaper floor 10mbit" "$line:20 bpshaper weight 10" \
		"$line:30 bpshaper ceil 30mbit" >/tmp/once
	for _ in {1..1000}; do cat /tmp/once; done >/tmp/often
	changing "the same options again" /tmp/once "sleep 0.01"
	changing "the same options again, in batches" /tmp/often
}

part_times()
{
	shape handle 1: bpshaper rate 50mbit memory_limit 64mb
	class 1: 1:10
	class 1: 1:20
	peers 1.5 300 many:udp,fresh=1,size=1400,pace=60,at=600,until=550,class=1-10 \
		probe:udp,pace=2000,size=100,later=20,ages,class=1-20
	check_num "times of one class: there were many" "$(got many_sent)" '>' 4000 packets
	check_num "times of one class: a packet of another leaves when it is due" \
		"$(got probe_due_late_ms)" '<=' 1 ms
	lossless "times of one class" many probe
}

peers_topology
# What IPv6 sends of its own would be counted.
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
for part in ${PARTS:-returns depth bursts changes times}; do
	"part_$part"
done
finish
