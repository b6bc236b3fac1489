#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# A bpshaper with a qdisc for each queue of the device, and CPUs that really run at once: no
# window exceeds burst + rate * T, for the sum of all queues and for each ceil, as the times of the
# decisions have it. What happens between a decision and the device is not the shaper's.

# shellcheck source=lib/queues.sh
. "$(dirname "$0")/lib/queues.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"
# shellcheck source=lib/departures.sh
. "$(dirname "$0")/lib/departures.sh"

# Rate, burst and size of datagrams. A device that is too slow for the rate would prove
# nothing. Small packets, so that CPUs meet.
if is_slow; then
	rows=("4000000 8000 1470" "200000 8000 100")
	tree="2000000 8000 400"
else
	rows=("100000000 12000 1470" "20000000 8000 100")
	tree="20000000 12000 400"
fi

# law SIZE OPTIONS...: overload all queues, and see what leaves
law()
{
	local q

	departures_start bpshaper/hub_send
	for ((q = 0; q < queues; q++)); do
		load $q 2 --udp 4 --size "$1" "${@:2}"
	done
	wait
	check "$name: no socket is held" wait_until 20 no_socket_is_held
	departures_end >/tmp/departures
	echo "# $name: $(wc -l </tmp/departures) packets"
	check_num "$name: all departures are seen" "$(wc -l </tmp/departures)" == "$(stat packets)"
	check_num "$name: no window of the sum exceeds burst + rate * T" \
		"$(level $((rate / 8)) </tmp/departures)" '<=' "$burst" bytes
	check_num "$name: queues had to wait" "$(stat overlimits)" '>' 0
	# shellcheck disable=SC2046 # words
	check_num "$name: nothing is lost" \
		"$(loaded_sum udp_lost_packets $(seq 0 $((queues - 1))))" == 0
}

topology_make
steer
# What IPv6 sends when a link comes up would be counted before it is seen.
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1

for row in "${rows[@]}"; do
	read -r rate burst size <<<"$row"
	name="$rate bit/s, $size bytes"
	shape handle 1: bpshaper rate "$rate" burst "$burst"
	law "$size"
done

# A ceil beside one without, and two below one. Sockets of each class are in all queues.
read -r rate burst size <<<"$tree"
shape handle 1: bpshaper rate "$rate" burst "$burst"
class 1: 1:10 ceil $((rate / 5)) burst "$burst"
class 1: 1:1 ceil $((rate / 4)) burst "$burst"
class 1:1 1:11 ceil $((rate / 10)) burst "$burst"
class 1:1 1:12
class 1: 1:13
name="classes"
law "$size" --class-first 16 --classes 4
for row in "5 1:10" "10 1:11" "4 1:11 1:12"; do
	read -r part classes <<<"$row"
	# shellcheck disable=SC2086 # words
	check_num "no window of $classes exceeds its burst + ceil * T" \
		"$(departures_of $classes </tmp/departures |
			level $((rate / 8 / part)))" '<=' "$burst" bytes
	# shellcheck disable=SC2086 # words
	check_num "and $classes had to wait: it has its ceil" \
		"$(departures_of $classes </tmp/departures | awk '{ n += $2 } END { print n }')" '>=' \
		$((rate * 3 / 16 / part)) bytes
done
unshape
check "the module unloads" wait_until 10 rmmod sch_bpshaper
finish
