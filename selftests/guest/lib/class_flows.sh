# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# The part `flows` of classes.sh. Sourced by it, never run.

# listed AWK: of each flow that is listed, with what is there behind the line of the class
listed() { awk "/^class/ { head = !/weight/ ? \$0 : \"\" } /sk:/ && head { \$0 = head \$0; $1 }" /tmp/listed; }

part_flows()
{
	shape handle 1: bpshaper rate 800bit limit 4m
	class 1: 1:1
	class 1:1 1:2
	class 1: 1:10
	class 1: 1:fe
	peers 2 0 a:udp,sockets=100,class=1-2 b:udp,sockets=100,class=1-10 own:udp,sockets=100 &
	must wait_until 20 eval '[ "$(stat flows)" = 300 ]'
	on_tx tc -s class show dev txdev >/tmp/listed
	check_num "flows: the classes are listed" "$(grep -c weight /tmp/listed)" == 4
	check_num "flows: none of them behind a flow" "$(awk '
		/^class/ { if (/weight/) behind += flow; else flow = 1 } END { print behind + 0 }' \
		/tmp/listed)" == 0
	is "flows: each has its class as the parent, or the qdisc" "100 1: 100 1:10 100 1:2" \
		"$(listed 'print $5' | sort | uniq -c | xargs)"
	check_num "flows: all sockets are listed" \
		"$(listed 'print' | grep -o 'sk:[0-9a-f]*' | sort -u | wc -l)" == 300
	check_num "flows: they have the number of the qdisc, and are listed by that" \
		"$(on_tx tc class show dev txdev classid 1: | wc -l)" == 300
	on_tx tc class show dev txdev | sort >/tmp/saved
	must on_tx tc qdisc change dev txdev root bpshaper rate 1gbit
	wait $!
	lossless flows a b own

	# What was listed, added again, parents first, as their numbers are
	sed -E 's/^class bpshaper (\S+) (root|parent \S+)/class add dev txdev \2 classid \1 bpshaper/' \
		/tmp/saved >/tmp/restore
	shape handle 1: bpshaper rate 100mbit
	grep 'classid 1: ' /tmp/restore | on_tx tc -force -batch - 2>/tmp/refused
	check_num "flows: what is no class cannot be added" \
		"$(grep -cE 'listed without one is a flow|no such parent class' /tmp/refused)" == 300
	check_num "flows: and adds none" "$(on_tx tc class show dev txdev | wc -l)" == 0
	on_tx tc -force -batch /tmp/restore 2>/tmp/refused
	is "flows: a listing that is added again gives the classes, and no others" \
		"$(grep weight /tmp/saved)" "$(on_tx tc class show dev txdev | sort)"
}
