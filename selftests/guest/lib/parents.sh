# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2086,SC2154 # words; by common.sh
#
# The parents that a leaf can have. Sourced after common.sh, never run.
#
# A case is three functions: NAME_make with the leaf's options as arguments, which
# sets $leaf; NAME_slow makes the slower of the two as slow as can be; NAME_cut
# takes away the class, or what this parent has in its place.

# No bottleneck, and yet GSO packets are larger than the burst.
unshaped="rate 40gbit burst 10k limit 30k"

leaf_slow()
{
	must on_tx tc qdisc change dev txdev parent "$leaf" bpshaper rate 8bit
}

leaf_replace() { on_tx tc qdisc replace dev txdev parent "$leaf" pfifo; }
leaf_del() { on_tx tc qdisc del dev txdev parent "$leaf"; }

leaf_add()
{
	leaf=$1
	must on_tx tc qdisc add dev txdev parent "$leaf" bpshaper "${@:2}"
}

class() { must on_tx tc class "$1" dev txdev "${@:2}"; }
filter_all() { must on_tx tc filter add dev txdev parent 1: matchall flowid "$1"; }

# htb, hfsc and tbf shape, and the leaf does not.
htb_make()
{
	shape handle 1: htb default 1
	class add parent 1: classid 1:1 htb rate 5mbit burst 10k quantum 1514
	leaf_add 1:1 $unshaped
}
htb_slow() { class change parent 1: classid 1:1 htb rate 8bit burst 1 quantum 1514; }
htb_cut() { class del classid 1:1; }

hfsc_make()
{
	shape handle 1: hfsc default 1
	class add parent 1: classid 1:1 hfsc sc rate 5mbit ul rate 5mbit
	leaf_add 1:1 $unshaped
}
hfsc_slow() { class change parent 1: classid 1:1 hfsc sc rate 8bit ul rate 8bit; }
hfsc_cut() { class del classid 1:1; }

tbf_fast="rate 5mbit burst 16k limit 100k" tbf_slow="rate 1kbit burst 16k limit 100k"
tbf_make()
{
	shape handle 2: tbf $tbf_fast
	leaf_add 2:1 $unshaped
}
tbf_slow() { above_slow; }
tbf_cut() { leaf_replace && above_fast; }

# The other way round: the leaf shapes.
prio_make()
{
	shape handle 1: prio priomap 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2
	leaf_add 1:3 "$@"
}
prio_slow() { leaf_slow; }
prio_cut()
{
	must on_tx tc qdisc change dev txdev root handle 1: prio bands 2 \
		priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
}

ets_strict_make()
{
	shape handle 1: ets bands 2 strict 2 \
		priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
	leaf_add 1:2 "$@"
}
ets_strict_slow() { leaf_slow; }
ets_strict_cut() { leaf_replace; }

# drr, the quanta of ets, and qfq complain of a leaf that holds packets back, whatever
# its kind: here somebody above shapes, who peeks at them as they peek at the leaf.
above_make()
{
	shape handle 2: tbf $tbf_fast
	must on_tx tc qdisc add dev txdev parent 2:1 handle 1: "$@"
}
above_change() { on_tx tc qdisc change dev txdev root handle 2: tbf $1; }
above_slow() { above_change "$tbf_slow"; }
# tbf sleeps on after a change, until a packet comes.
above_fast()
{
	above_change "$tbf_fast"
	on_tx bash -c "echo >/dev/udp/$nobody/9"
}
above_cut()
{
	on_tx tc filter del dev txdev parent 1: && class del classid 1:1 &&
		above_fast
}

drr_make()
{
	above_make drr
	class add parent 1: classid 1:1 drr
	leaf_add 1:1 $unshaped
	filter_all 1:1
}
drr_slow() { above_slow; }
drr_cut() { above_cut; }

qfq_make()
{
	above_make qfq
	class add parent 1: classid 1:1 qfq weight 1 maxpkt 65536
	leaf_add 1:1 $unshaped
	filter_all 1:1
}
qfq_slow() { above_slow; }
qfq_cut() { above_cut; }

ets_make()
{
	above_make ets bands 3 strict 1 quanta 3000 2000 \
		priomap 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2
	leaf_add 1:3 $unshaped
}
ets_slow() { above_slow; }
ets_cut()
{
	must on_tx tc qdisc change dev txdev parent 2:1 handle 1: ets bands 1 \
		strict 1 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
	above_fast
}

red_make()
{
	shape handle 1: red limit 400k min 100k max 200k avpkt 1000 burst 120 \
		probability 0.1 bandwidth 5mbit
	leaf_add 1:1 "$@"
}
red_slow() { leaf_slow; }
red_cut() { leaf_replace; }

# Unless mended (6.18.15 is not) red, sfb, multiq and taprio pass over what they have peeked
# at, or have let their own parent peek at.
red_peeks_make()
{
	above_make red limit 4000k min 1000k max 2000k avpkt 1000 bandwidth 5mbit
	leaf_add 1:1 $unshaped
}
red_peeks_slow() { above_slow; }
red_peeks_cut() { leaf_replace && above_fast; }

sfb_make()
{
	above_make sfb limit 1000 max 60000 target 50000
	leaf_add 1:1 $unshaped
}
sfb_slow() { above_slow; }
sfb_cut() { leaf_replace && above_fast; }

# The queue that a packet has without this is that of its CPU or flow.
multiq_make()
{
	above_make multiq
	leaf_add 1:3 $unshaped
	must on_tx tc filter add dev txdev parent 1: matchall action skbedit queue_mapping 2
}
multiq_slow() { above_slow; }
multiq_cut()
{
	on_tx tc filter del dev txdev parent 1: && leaf_replace && above_fast
}

# netem hands to its child when a packet is due; without a delay that is at once.
netem_make()
{
	shape handle 1: netem limit 1000
	leaf_add 1:1 "$@"
}
netem_slow() { leaf_slow; }
netem_cut() { leaf_replace; }

# Two leaves: TCP has the one, all else the other.
filtered_make()
{
	htb_make
	class add parent 1: classid 1:2 htb rate 2mbit burst 10k quantum 1514
	must on_tx tc filter add dev txdev parent 1: protocol ip u32 \
		match ip protocol 6 0xff flowid 1:2
	leaf_add 1:2 $unshaped
}
filtered_slow() { htb_slow; }
filtered_cut()
{
	class del classid 1:1 && on_tx tc filter del dev txdev parent 1: &&
		class del classid 1:2
}

mq_make()
{
	local i

	shape handle 1: mq
	for i in 1 2 3 4; do
		leaf_add 1:$i rate 2mbit burst 10k limit 20k
	done
}
mq_slow()
{
	for leaf in 1:1 1:2 1:3 1:4; do
		leaf_slow
	done
}
mq_cut()
{
	for leaf in 1:1 1:2 1:3 1:4; do
		leaf_replace || return
	done
}

mqprio_make()
{
	local i

	shape handle 1: mqprio num_tc 2 queues 2@0 2@2 hw 0 \
		map 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
	for i in 1 2 3 4; do
		leaf_add 1:$i rate 2mbit burst 10k limit 20k
	done
}
mqprio_slow() { mq_slow; }
mqprio_cut() { mq_cut; }

# taprio_slots: one that is always open, without children of ours
taprio_slots()
{
	shape handle 1: taprio num_tc 2 queues 2@0 2@2 base-time 0 \
		map 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 \
		sched-entry S 3 500000 clockid CLOCK_TAI
}

# taprio_sends: those up to 6.1 send nothing from children that are grafted
taprio_sends()
{
	local i

	taprio_slots
	for i in 1 2 3 4; do
		must on_tx tc qdisc add dev txdev parent 1:$i tbf rate 2mbit burst 10k limit 20k
	done
	on_tx ping -q -c 2 -W 1 10.99.0.2 >/dev/null 2>&1
}

taprio_make()
{
	local i

	taprio_slots
	for i in 1 2 3 4; do
		leaf_add 1:$i rate 2mbit burst 10k limit 20k
	done
}
taprio_slow() { mq_slow; }
taprio_cut() { mq_cut; }
