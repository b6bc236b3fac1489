#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Unlimited UDP senders through 200 Mbit/s: the promise of the project, in the
# setup of the RFC of 2022 (burst 20 kB, limit 200 kB). Only in icount mode, where
# time is virtual and the senders can saturate that rate.
#
#  1. no packet of a socket is dropped or lost, however many senders there are,
#     however they send and whatever their send buffers
#  2. goodput is at least 99.8 % of what tbf delivers in the same boot
#  3. senders get equal bytes: Jain >= 0.999 (>= 0.99 at 256)
#  4. at 16 senders a packet is at most 13 ms old (p99); limit / rate is 8 ms
#  5. a sparse probe waits at most 0.5 ms (p99) at every N, also with 1000
#     sockets of one epoll process
#  6. senders need at most a quarter of tbf's CPU time for a delivered packet
#  7. the timer interrupts at most once for four packets
#  8. afterwards no socket is held
#  9. the shaper's own timer fires once a batch (half the burst), not once a packet
# 10. nobody gains by letting its flow run empty: it gets its fair share at most

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
params="rate 200mbit burst 20kb limit 200k"

# run SECONDS SENDERS OPTIONS...
run()
{
	local seconds=$1 n=$2

	shift 2
	send --udp "$n" --seconds "$seconds" --probe "$@"
}

# lossless NAME JAIN: laws 1, 2, 3, 5 and 8 for what was just measured
lossless()
{
	check_num "$1: nothing is lost" "$(result udp_lost_packets)" == 0 packets
	check_num "$1: nothing is dropped" "$(stat drops)" == 0 packets
	check_num "$1: nothing fails with ENOBUFS" \
		"$(result udp_no_buffer_errors)" == 0
	check_num "$1: the receiver lost nothing" "$(result receiver_drops)" == 0
	check_num "$1: goodput is that of tbf" \
		"$(result udp_payload_goodput_mbit_per_s)" '>=' \
		"$(awk "BEGIN { print $tbf_goodput * 0.998 }")" Mbit/s
	check_num "$1: senders get equal bytes" \
		"$(result udp_jain_index)" '>=' "$2"
	check_num "$1: no probe is lost" "$(result probe_lost_packets)" == 0
	check_num "$1: the sparse probe does not wait" \
		"$(result probe_delay_p99_ms)" '<=' 0.5 ms
	check_num "$1: sockets were throttled" "$(stat throttles)" '>' 0
	check "$1: no socket is held afterwards" wait_until 5 no_socket_is_held
}

topology_make

# shellcheck disable=SC2086 # words
shape tbf $params
run 1 16
check_num "tbf loses packets, so the senders do overload it" \
	"$(result udp_loss_percent)" '>=' 50 %
tbf_goodput=$(result udp_payload_goodput_mbit_per_s)
tbf_cpu=$(result sender_cpu_us_per_packet)

# In 2 s: the first burst of a socket is up to 64 packets more than its part.
for n in 2 3 16; do
	for mode in block poll; do
		for sndbuf in "" "--sndbuf 4194304"; do
			# shellcheck disable=SC2086 # words
			shape bpshaper $params
			# shellcheck disable=SC2086 # words
			run 2 $n --mode $mode $sndbuf
			lossless "$n senders, $mode $sndbuf" 0.999
			[ $n = 16 ] || continue
			check_num "$n senders, $mode $sndbuf: packets are young" \
				"$(result udp_age_p99_ms)" '<=' 13 ms
			check_num "$n senders, $mode $sndbuf: CPU per packet" \
				"$(result sender_cpu_us_per_packet)" '<=' \
				"$(awk "BEGIN { print $tbf_cpu / 4 }")" us
			check_num "$n senders, $mode $sndbuf: timer interrupts" \
				"$(result system_timer_interrupts)" '<=' \
				$(($(result udp_received_packets) / 4))
			check_num "$n senders, $mode $sndbuf: wake-ups of the shaper" \
				"$(stat timer_wakeups)" '<=' \
				"$(awk -v b="$(stat bytes)" \
					'BEGIN { print 1.2 * b / 10240 }')"
		done
	done
done

# shellcheck disable=SC2086 # words
shape bpshaper $params
run 5 256
lossless "256 senders" 0.99

# shellcheck disable=SC2086 # words
shape bpshaper $params
run 12 1000 --mode epoll
lossless "1000 sockets of one epoll process" 0.99

# 1242 bytes on the wire, against 16 others; a tenth is for the start.
shape bpshaper rate 20mbit burst 5k limit 60k
send --udp 16 --seconds 3 &
sleep 0.5
sent=$(on_tx "$bpsocket" udp $nobody alternates)
wait
check_num "nobody gains by letting its flow run empty" \
	"$(awk -v n="$sent" 'BEGIN { print n * 1242 * 8 / 2e6 }')" '<=' \
	"$(awk 'BEGIN { print 1.1 * 20 / 17 }')" Mbit/s
check_num "nor does it lose by it" \
	"$(awk -v n="$sent" 'BEGIN { print n * 1242 * 8 / 2e6 }')" '>=' 0.5 Mbit/s

finish
