#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# bpshaper-mq: a shaper for each queue of a device, one rate for all. It installs, can be
# run again, follows `ethtool -L`, and undoes; a dry run changes nothing, an error is one
# line and leaves the device as it was. And a group for each traffic class of mqprio.
# Needs Python in the guest:
# selftests/in-vm $(selftests/vm/python-bundle) --file tools/bpshaper-mq -- mq

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

mq() { on_tx "$here/bpshaper-mq" "$@"; }
qdiscs() { on_tx tc qdisc show dev txdev; }
queues() { on_tx ethtool -L txdev tx "$1"; }
root() { on_tx tc qdisc show dev txdev root | cut -d ' ' -f 2; }

# count REGEX: lines of tc that match
count() { qdiscs | grep -cE "$1"; }

# members RATE GROUP: how many leaves are shapers with that rate in that group
members() { count "^qdisc bpshaper [0-9a-f]+: parent .* rate $1 .* group $2 "; }

# handle N: of the leaf in queue N, from 1
handle() { qdiscs | sed -n "s/^qdisc bpshaper \([0-9a-f]*:\) parent [0-9a-f]*:$1 .*/\1/p"; }

# refused NAME TEXT STATUS WORDS...: one line with TEXT, and nothing has changed
refused()
{
	local name=$1 text=$2 status=$3 before

	before=$(qdiscs)
	mq "${@:4}" >/tmp/out 2>/tmp/err
	check_num "$name: exit status $status" $? == "$status"
	check "$name: one line that says why" \
		[ "$(cat /tmp/out /tmp/err | wc -l)" = 1 ]
	check "$name: that is, $text" grep -qF "bpshaper-mq: $text" /tmp/err
	check "$name: nothing has changed" [ "$(qdiscs)" = "$before" ]
}

# sent N: bytes that queue N has sent
sent()
{
	on_tx tc -s qdisc show dev txdev | awk -v parent=":$1" '
		/^qdisc/ { is_it = $2 == "bpshaper" && index($5, parent) }
		is_it && /Sent/ { print $2 }'
}

topology_make numtxqueues 4 numrxqueues 4
must modprobe act_skbedit
must modprobe cls_flower
queues 2

# Errors, on a device that has none of it

none="there is no device"
refused "no device" "$none nodev" 1 nodev rate 1mbit
refused "a path for a device" "$none ../net" 1 ../net rate 1mbit
refused "nothing" "no device named, try --help" 2
refused "no rate" "rate RATE is missing" 2 txdev
refused "an unknown option" "unrecognized arguments: --fast" 2 txdev rate 1mbit --fast
refused "an unknown option of bpshaper" '"speed": unknown option' 2 \
	txdev rate 1mbit speed 2
refused "a bad value" '"rate 1x": must be 8bit' 2 txdev rate 1x
refused "group 0" "argument --group: 0: must be 1 to 4294967295" 2 --group 0 txdev rate 1mbit
refused "a group above its bound" "argument --group: 4294967296: must be" 2 \
	--group 4294967296 txdev rate 1mbit
refused "a group that is none" "argument --group: x: must be" 2 txdev rate 1mbit --group x
refused "no group" "argument --group: expected one argument" 2 txdev rate 1mbit --group
refused "the group as a word" "the group is given by --group" 2 \
	txdev rate 1mbit group 2
refused "a peak rate" '"group 1" and "peakrate 2mbit" exclude each other' 2 \
	txdev rate 1mbit peakrate 2mbit
must on_tx tc qdisc add dev txdev root handle 1: mq
must on_tx tc qdisc replace dev txdev parent 1:4 bpshaper rate 1mbit group 1
refused "what only the kernel refuses" "txdev: " 1 txdev rate 2mbit
must on_tx tc qdisc del dev txdev root
refused "nothing to undo" "txdev has no mq with members of a group" 1 --undo txdev
refused "undo with words" "--undo takes no options" 2 --undo txdev rate 1mbit
refused "a dry run that follows" "--dry-run and --follow exclude each other" 2 \
	--dry-run --follow txdev rate 1mbit
refused "one queue" "lo has one transmit queue: tc qdisc replace dev lo root" 1 \
	lo rate 1mbit

# A dry run

before=$(qdiscs)
mq --dry-run --group 7 txdev rate 100mbit latency 5ms >/tmp/batch
check "a dry run changes nothing" [ "$(qdiscs)" = "$before" ]
check "it prints what it would do" cmp /tmp/batch <(
	echo "qdisc replace dev txdev root handle 1: mq"
	for queue in 1 2; do
		echo "qdisc replace dev txdev parent 1:$queue bpshaper" \
			"rate 100mbit latency 5ms group 7"
	done)
check "which tc does" on_tx tc -batch /tmp/batch
check_num "to the same effect" "$(members 100Mbit 7)" == 2
before=$(qdiscs)
check "undo, dry, says what" \
	[ "$(mq --undo --dry-run txdev)" = "qdisc del dev txdev root" ]
check "and does not do it" [ "$(qdiscs)" = "$before" ]
check "undo says what it did" \
	[ "$(mq --undo txdev)" = "txdev: mq and 2 shapers removed" ]
check_num "and did it" "$(count 'bpshaper|mq 1:')" == 0

# Install, again, with more queues, with fewer

check "it says what it did" [ "$(mq txdev rate 100mbit)" = \
	"txdev: 2 queues in group 1: 2 shapers added, 0 changed" ]
check_num "both queues have a shaper" "$(members 100Mbit 1)" == 2
first=$(handle 1)
send --udp 4 --seconds 1
check_num "which shapes" "$(result udp_wire_goodput_mbit_per_s)" '<=' 101 Mbit/s
check_num "to the rate" "$(result udp_wire_goodput_mbit_per_s)" '>=' 98 Mbit/s
check_num "and loses nothing" "$(result udp_lost_packets)" == 0
before=$(qdiscs) bytes=$(($(sent 1) + $(sent 2)))
check "again it adds none" [ "$(mq txdev rate 100mbit)" = \
	"txdev: 2 queues in group 1: 0 shapers added, 2 changed" ]
check "and all is as before" [ "$(qdiscs)" = "$before" ]
check_num "with its counters" $(($(sent 1) + $(sent 2))) '>=' "$bytes"
queues 4
check_num "new queues have no shaper" "$(members 100Mbit 1)" == 2
check "until it runs again" [ "$(mq txdev rate 200mbit)" = \
	"txdev: 4 queues in group 1: 2 shapers added, 2 changed" ]
check_num "and all have the new rate" "$(members 200Mbit 1)" == 4
check "those that were there are" [ "$(handle 1)" = "$first" ]
queues 2
check "queues that are not in use keep theirs" [ "$(mq txdev rate 200mbit)" = \
	"txdev: 2 queues in group 1: 0 shapers added, 2 changed
txdev: 2 more shapers, of queues that are not in use" ]
queues 4
check_num "and have them when they come back" "$(members 200Mbit 1)" == 4
check "a leaf of another kind becomes a shaper" bash -c "
	ip netns exec $tx tc qdisc replace dev txdev parent 1:3 pfifo &&
	ip netns exec $tx '$here/bpshaper-mq' txdev rate 200mbit |
		grep -q '1 shapers added, 3 changed'"
check "another group is another group" mq --group 5 txdev rate 200mbit
check_num "for all of them" "$(members 200Mbit 5)" == 4
check "it undoes" mq --undo txdev
check_num "all of it" "$(count 'bpshaper|mq 1:')" == 0

# It follows.
queues 2
mq --follow txdev rate 100mbit >/tmp/follow &
# shellcheck disable=SC2034 # by eval
follower=$!
check "it follows" wait_until 5 eval '[ "$(members 100Mbit 1)" = 2 ]'
queues 4
check "a change of the number of queues" wait_until 5 \
	eval '[ "$(members 100Mbit 1)" = 4 ]'
check "and says so" wait_until 5 grep -q "4 queues in group 1: 2 shapers added" /tmp/follow
mq --undo txdev >/dev/null
check "until there is no mq" wait_until 5 eval '! kill -0 $follower 2>/dev/null'
check_num "which it does not put back" "$(count 'bpshaper|mq 1:')" == 0

# What others have put there
queues 4
for kind in "bpshaper rate 1mbit" "prio bands 3"; do
	# shellcheck disable=SC2086 # words
	shape $kind
	refused "${kind%% *} at the root" \
		"txdev has ${kind%% *} at its root: tc qdisc del dev txdev root" 1 \
		txdev rate 1mbit
done
unshape
must on_tx tc qdisc add dev txdev root handle 20: mq
check "an mq that has a handle is used" mq txdev rate 100mbit
check_num "as it is" "$(count '^qdisc mq 20: root')" == 1
check_num "with shapers" "$(members 100Mbit 1)" == 4
mq --undo txdev >/dev/null

# mqprio: two traffic classes of two queues, a group each
modprobe sch_mqprio
must on_tx tc qdisc add dev txdev root handle 1: mqprio num_tc 2 map 0 0 0 0 1 1 1 1 \
	queues 2@0 2@2 hw 0
for queue in 1 2; do
	must on_tx tc qdisc replace dev txdev parent 1:$queue bpshaper rate 20mbit group 1
	must on_tx tc qdisc replace dev txdev parent 1:$((queue + 2)) bpshaper rate 80mbit group 2
done
check_num "mqprio: a group for the first class" "$(members 20Mbit 1)" == 2
check_num "mqprio: another for the second" "$(members 80Mbit 2)" == 2
must on_tx tc qdisc add dev txdev clsact
must on_tx tc filter add dev txdev egress protocol ip flower ip_proto udp dst_port 6400-6655 \
	action skbedit priority 4
for port in 6000 6400; do
	"$traffic" --tx-netns "$tx" --rx-netns "$rx" --dst 10.99.0.2 \
		--json "/tmp/load.$port" --port $port --udp 8 --seconds 1 &
done
wait
for row in "6000 20" "6400 80"; do
	read -r port rate <<<"$row"
	check_num "mqprio: $rate Mbit/s, and no more" \
		"$(json_get udp_wire_goodput_mbit_per_s </tmp/load.$port)" '<=' \
		"$(awk "BEGIN { print $rate * 1.01 }")" Mbit/s
	check_num "mqprio: nothing is lost at $rate Mbit/s" \
		"$(json_get udp_lost_packets </tmp/load.$port)" == 0
done

finish
