#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Floors that may exceed that of the parent count for their part, and no others do.
#
#  1. a command that makes floors exceed the rate is taken with a warning
#  2. tc -s says what a floor counts for, also after changes
#  3. floors without overcommit are refused as ever, and kept in full
#  4. all others get their parts of the rest, and lose nothing

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"

# counts_for NAME CLASSID FLOOR: its floor in effect
counts_for()
{
	is "$1" "$3" "$(on_tx tc -s class show dev txdev classid "$2" |
		sed -n 's/.* floor_in_effect \([^ ]*\) .*/\1/p')"
}

peers_topology
shape handle 1: bpshaper rate 100mbit
class 1: 1:10 floor 40mbit
out=$(on_tx tc class add dev txdev parent 1: classid 1:20 bpshaper floor 80mbit \
	overcommit on 2>&1)
check "floors above the rate: a warning says so" grep -q "^Warning: .*floors add up to" <<<"$out"
class 1: 1:30 floor 40mbit overcommit on
class 1:30 1:31 floor 10mbit
counts_for "a floor counts in full" 1:10 40Mbit
counts_for "one with overcommit counts for its part" 1:20 40Mbit
counts_for "so does its sibling" 1:30 20Mbit
counts_for "a child that its parent has enough for counts in full" 1:31 10Mbit
before=$(on_tx tc class show dev txdev)
refused "a floor that does not fit beside floors" "floors add up to" \
	class add dev txdev parent 1: classid 1:40 bpshaper floor 61mbit
refused "a floor that is not to overcommit any more" "floors add up to" \
	class change dev txdev classid 1:20 bpshaper overcommit off
refused "a rate below the floors without overcommit" "floors add up to" \
	qdisc change dev txdev root handle 1: bpshaper rate 39mbit
check "nothing has changed" [ "$(on_tx tc class show dev txdev)" = "$before" ]
peers 3 500 a:udp,sockets=2,class=1-10 b:udp,sockets=2,class=1-20 c:udp,sockets=2,class=1-31
near "a floor" "$(got a_mbit)" 40 1
near "two thirds of the rest" "$(got b_mbit)" 40 1
near "a third of the rest" "$(got c_mbit)" 20 1
lossless overcommit a b c

must on_tx tc class change dev txdev classid 1:10 bpshaper floor 10mbit
must on_tx tc qdisc change dev txdev root handle 1: bpshaper rate 70mbit
counts_for "after a change of the rate and of a floor" 1:20 40Mbit
must on_tx tc class del dev txdev classid 1:10
counts_for "after one has gone" 1:20 46666664bit
peers 3 500 b:udp,sockets=2,class=1-20
check_num "who is alone has the rate" "$(got b_mbit)" '>=' 69.8 Mbit/s
root_remove
finish
