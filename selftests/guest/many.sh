#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Many sockets, all with unlimited demand: SOCKETS of one epoll process (10000), for
# ten rounds and more. Only in icount mode.
#
#  1. no packet is lost below memory_limit, everybody gets the same, and a sparse
#     probe below its fair share waits less than 2 ms
#  2. a packet costs at most one wake-up
#  3. a throttled socket costs at most 1280 bytes of kernel memory, its own packets
#     aside
#  4. qdisc del releases all at once, without a stall that the kernel notices

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/many.sh
. "$(dirname "$0")/lib/many.sh"
sockets=${SOCKETS:-10000}
memory_limit=$((sockets * 20000))

# A round is a packet of 1512 bytes for each at 200 Mbit/s. Until each has been served
# once, all are new and the probe is one of them. That takes a round from the time when
# the process has filled the last, which is longer if it is not alone: what the tests
# before have left is still being removed.
round_us=$((sockets * 1512 * 8 / 200))
warmup_ms=$((round_us * 2 / 1000 + 3000))
seconds=$((round_us * 12 / 1000000 + 5))

# A probe takes 912 bits every SOCKETS * 6 us: three quarters of its fair share.
# Widen the range of ports: there are not 50,000 in the usual one.
topology_make
on_tx sysctl -qw net.ipv4.ip_local_port_range="1024 65535"

# With turns of two packets ten of them take no longer than ten rounds did.
shape bpshaper rate 200mbit burst 20kb limit 200k share_min 3028 memory_limit $memory_limit
send --udp "$sockets" --mode epoll --seconds $seconds --warmup-ms $warmup_ms \
	--drain-ms 5000 --probe --probe-interval-us $((sockets * 6))
echo "# $sockets sockets for $seconds s: Jain $(result udp_jain_index)," \
	"probe p99 $(result probe_delay_p99_ms) ms," \
	"age p99 $(result udp_age_p99_ms) ms," \
	"$(stat throttles) throttles for $(stat packets) packets"
check_num "ten rounds at least" "$(stat packets)" '>=' $((10 * sockets)) packets
check_num "nothing is lost" "$(result udp_lost_packets)" == 0 packets
check_num "nothing is dropped" "$(stat drops)" == 0 packets
check_num "nothing fails with ENOBUFS" "$(result udp_no_buffer_errors)" == 0
check_num "senders get equal bytes" "$(result udp_jain_index)" '>=' 0.99
check_num "no probe is lost" "$(result probe_lost_packets)" == 0
check_num "the sparse probe does not wait" "$(result probe_delay_p99_ms)" '<=' 2 ms
check_num "a packet costs at most one wake-up" "$(stat unthrottles)" '<=' \
	"$(stat packets)"
check "no socket is held afterwards" wait_until 10 no_socket_is_held

# Bytes of the caches that the shaper allocates from, as they are in use.
slab_bytes()
{
	awk '/^(bpshaper_flow|bpshaper_socket|skbuff_head_cache|skbuff_small_head|kmalloc-512|kmalloc-2k) / {
		bytes += $2 * $4 } END { printf "%d\n", bytes }' /proc/slabinfo
}

# What a packet of bpmany occupies there: its skb and its data.
packet_bytes=$((256 + 2048))

must modprobe sch_bpshaper
shape bpshaper rate 8bit burst 2k limit 200k memory_limit $memory_limit
many_start "$sockets"
check "all sockets are open" [ "$many_answer" = open ]
before=$(slab_bytes)
packets=$(many_say fill)
after=$(slab_bytes)
throttled=$(stat throttled_sockets)
check_num "all sockets are throttled" "$throttled" == "$sockets"
check_num "their packets are queued or gone" "$(stat qlen)" '>=' $((packets - 2))
each=$(((after - before - packets * packet_bytes) / sockets))
echo "# $each bytes for a throttled socket, beside $packets packets of $packet_bytes"
check_num "a throttled socket costs little memory" $each '<=' 1280 bytes
check_num "and something, or nothing was measured" $each '>=' 128 bytes
check_num "none is writable" "$(many_say count)" == 0 sockets

start=$(date +%s%N)
unshape
took=$((($(date +%s%N) - start) / 1000000))
echo "# qdisc del took $took ms"
check_num "qdisc del releases all of them" "$(many_say count)" == "$sockets" sockets
check_num "and takes less than a second" $took '<' 1000 ms

# Killed while throttled: the last reference of each socket is in the queue.
shape bpshaper rate 8bit burst 2k limit 200k memory_limit $memory_limit
must [ -n "$(many_say fill)" ]
no_socket_is_left() { [ -z "$(on_tx ss -Huan)" ]; }
# shellcheck disable=SC2154 # by coproc
many_pid=$many_PID
must kill -9 "$many_pid"
wait "$many_pid" 2>/dev/null	# killed, says the shell
must on_tx tc qdisc change dev txdev root bpshaper rate 10gbit
check "the queue drains after kill -9" wait_until 60 no_socket_is_held
shape bpshaper rate 8bit burst 2k limit 200k memory_limit $memory_limit
check "no socket is left" wait_until 10 no_socket_is_left
finish
