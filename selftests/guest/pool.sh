#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Packets without a throttleable socket share a pool. Here they come from sockets
# whose send buffer (1 GB) is too large to be filled with ballast, and from the
# kernel's own ICMP socket.
#
#  1. the pool drops what exceeds limit, and holds no more than that
#  2. flows of the pool get equal bytes, and as many as a socket
#  3. sockets lose nothing because of a full pool
#  4. from 7.1 on the kernel's event qdisc_drop says why
#  5. a sparse flow of the pool loses nothing because of its greedy neighbours,
#     nor because sockets queue more than limit

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/pktgen.sh
. "$(dirname "$0")/lib/pktgen.sh"

greedy="--udp 4 --sndbuf 1073741824 --port 7000 --mode poll"

topology_make
shape bpshaper rate 50mbit burst 20kb limit 100k
event=/sys/kernel/tracing/events/qdisc/qdisc_drop
[ -e /sys/kernel/tracing/trace ] || mount -t tracefs none /sys/kernel/tracing
[ ! -e $event ] || echo 1 >$event/enable
# shellcheck disable=SC2086 # words
send $greedy --seconds 2
if [ -e $event ]; then
	echo 0 >$event/enable
	check "qdisc_drop says that the queue is full" \
		grep -q 'kind=bpshaper .*reason=OVERLIMIT' /sys/kernel/tracing/trace
	check_num "qdisc_drop says nothing else of the pool" \
		"$(grep 'kind=bpshaper' /sys/kernel/tracing/trace | grep -vc OVERLIMIT)" == 0
else
	skip "qdisc_drop says that the queue is full" "before 7.1"
fi
check_num "a full pool drops" "$(stat drops_pool)" '>' 1000 packets
check_num "every loss is counted, and as nothing else" \
	"$(result udp_lost_packets)" == "$(stat drops_pool)" packets
check_num "tc counts the same" "$(stat drops)" == "$(stat drops_pool)" packets
check_num "the pool never holds more than limit, and the direct slot" \
	"$(stat max_backlog)" '<=' $((100000 + 1512)) bytes
check_num "the pool is used to the full" "$(stat max_backlog)" '>=' 98000 bytes
check_num "no socket of the pool is throttled" "$(stat throttles)" == 0
check_num "flows of the pool get equal bytes" "$(result udp_jain_index)" '>=' 0.999
check "nothing is left" no_socket_is_held

shape bpshaper rate 50mbit burst 20kb limit 100k
sockets_report=$(mktemp)
# shellcheck disable=SC2086 # words
send $greedy --seconds 3 &
(report=$sockets_report; send --udp 4 --seconds 3 --probe) &
on_rx ping -q -s 1400 -i 0.02 -c 100 -w 10 10.99.0.1 >/tmp/ping 2>&1
ping_status=$?
wait
pool_rate=$(result udp_payload_goodput_mbit_per_s)
mv "$sockets_report" "$report"
check_num "the pool is full beside sockets" "$(stat drops_pool)" '>' 1000 packets
check_num "sockets lose nothing beside a full pool" \
	"$(result udp_lost_packets)" == 0 packets
check_num "nothing but the pool dropped" \
	"$(stat drops)" == "$(stat drops_pool)" packets
check_num "as many flows of the pool get as much as sockets" \
	"$(awk -v a="$pool_rate" -v b="$(result udp_payload_goodput_mbit_per_s)" \
		'BEGIN { print a / b }')" '>=' 0.95
check_num "the sparse probe does not wait" "$(result probe_delay_p99_ms)" '<=' 1 ms
check_num "a sparse flow of a full pool loses nothing" \
	"$(sed -n 's/.* \([0-9]*\)% packet loss.*/\1/p' /tmp/ping)" == 0 %
check_num "ping succeeds" $ping_status == 0
check_num "answers of the kernel are counted as such" "$(stat unheld_control)" '>=' 90 packets

# Sockets that hold more than limit together: their minimal shares do, but not at each moment.
holds_more() { [ "$(stat backlog)" -gt 10240 ]; }
shape bpshaper rate 50mbit burst 20kb limit 10k
send --udp 64 --seconds 2 &
sleep 0.5
check "the sockets hold more than limit" wait_until 1 holds_more
on_rx ping -q -s 1400 -i 0.02 -c 50 -w 10 10.99.0.1 >/tmp/ping 2>&1
check_num "the pool keeps its place" \
	"$(sed -n 's/.* \([0-9]*\)% packet loss.*/\1/p' /tmp/ping)" == 0 %
wait
check_num "no socket lost anything" "$(result udp_lost_packets)" == 0 packets

# Flows that are new all the time (32 Mbit/s, a random port in each packet) must not
# starve those that are not: a ninth of the rate is theirs, 2.2 of 20 Mbit/s. (GSO,
# so that a sender that wakes finds its flow not yet empty, and not new.)
pktgen_setup "count 12000" "pkt_size 1000" "delay 250000" "flag UDPSRC_RND" \
	"udp_src_min 1000" "udp_src_max 60000"
shape bpshaper rate 20mbit burst 5k limit 50k
pktgen pgctrl start &
sleep 0.2
send --udp 4 --gso 20 --seconds 2
check_num "a flow for each packet fills the pool" "$(stat drops_pool)" '>' 1000
check_num "what pktgen sends has no owner" \
	"$(stat unheld_no_owner)" '>=' "$(stat drops_pool)"
check_num "it does not starve the sockets" \
	"$(result udp_wire_goodput_mbit_per_s)" '>=' 2 Mbit/s
check_num "nor do they lose anything" "$(result udp_lost_packets)" == 0
wait

# memory_limit: shares shrink first, and only then are packets dropped.
shape bpshaper rate 1mbit limit 500k memory_limit 400k
send --udp 8 --seconds 2
check_num "memory_limit: shares shrink before it drops" "$(stat drops)" == 0
shape bpshaper rate 1mbit memory_limit 64k
send --udp 64 --seconds 2
check_num "memory_limit drops in the end" "$(stat drops_memory)" '>' 0
check_num "and counts it" "$(result udp_lost_packets)" == \
	"$(stat drops_memory)" packets
check "nothing is left" no_socket_is_held
finish
