# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Classes that come, change and go at random, and whether they were enough. Sourced by race.sh, never
# run.

least=${CLASSES_LEAST:-16}

# choose WORD...: sets $chosen. Classes are chosen without a process each: a debug kernel that is busy
# needs half a minute for a hundred.
choose() { chosen=${*:RANDOM % $# + 1:1}; }

# class_option WORD VALUE...: adds it to $line, or not
class_option()
{
	[ $((RANDOM % 2)) != 0 ] || return
	choose "${@:2}"
	line+=" $1 $chosen"
}

random_class()
{
	class_option floor 0 100kbit 1mbit
	class_option ceil 1mbit 5mbit unlimited
	class_option weight 1 7 100000
	class_option prio 0 1 7
	class_option burst 100 3k 30k
	choose "" "limit 1k" "limit 20k" "latency 1ms" "latency 50ms"
	line+=" $chosen"
}

# class_command QDISC: prints one. Classes come, change and go, and what sends packets into them. Many
# commands name one that is not there.
class_command()
{
	local qdisc=$1 id=$1$((RANDOM % 4 + 1)) word parent chosen line

	choose add add add change change del del filter unfilter unfilter default
	word=$chosen
	choose "" "" 1 2
	parent=$qdisc$chosen
	choose "matchall flowid $id" "u32 match ip protocol 6 0xff flowid $id" \
		"u32 match ip protocol 17 0xff flowid $id" "matchall action drop"
	case $word in
	add) line="class add dev txdev parent $parent classid $id bpshaper" ;;
	change) line="class change dev txdev classid $id bpshaper" ;;
	del) line="class del dev txdev classid $id" ;;
	filter) line="filter add dev txdev parent ${parent%2} protocol ip prio 1 $chosen" ;;
	unfilter) line="filter del dev txdev parent ${parent%2} prio 1" ;;
	default) line="qdisc change dev txdev root bpshaper default $((RANDOM % 5))" ;;
	esac
	[[ $word != @(add|change) ]] || random_class
	echo "$line"
}

# Several in one batch. What has worked is in /tmp/class_commands.
classes()
{
	local qdisc

	qdisc=$(tc qdisc show dev txdev root | awk '{ print $3 }')
	for _ in {1..12}; do
		class_command "$qdisc"
	done >/tmp/class_batch
	command tc -force -batch /tmp/class_batch 2>/tmp/class_errors
	awk 'FILENAME == ARGV[1] {
			if (/^Command failed/) { sub(/.*:/, ""); failed[$0 + 0] = 1 }
			next
		}
		!(FNR in failed) { print $1, $2 }' /tmp/class_errors /tmp/class_batch \
		>>/tmp/class_commands
}

# class_commands VERB: how many of these have worked
class_commands() { grep -c "^class $1" /tmp/class_commands; }

# So many must have come, and a quarter as many have changed and gone.
classes_have_come()
{
	[ "$(class_commands add)" -ge "$least" ] &&
		[ "$(class_commands change)" -ge $((least / 4)) ] &&
		[ "$(class_commands del)" -ge $((least / 4)) ]
}
