/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPTRAFFIC_REPORT_H
#define BPTRAFFIC_REPORT_H

#include "system.h"
#include "traffic.h"

struct report_verdict {
	uint32_t stuck_senders;		/* still there 5 s after the end */
	uint32_t failed_processes;
};

/*
 * The JSON report is one flat object. Units are in the key names. null: does not
 * apply. Details of some keys:
 *
 * udp_*_goodput_mbit_per_s	data that arrived from 0.1 s after the start to
 *	the end of sending; wire adds 8 (UDP), 20 or 40 (IP) and 14 (Ethernet)
 * udp_jain_index, udp_sender_received_*	of what arrived until the end of
 *	sending, while lost packets are those that did not arrive at all
 * udp_age_*	from the return of sendto() to the arrival at the receiving
 *	device, of packets accepted after --warmup-ms; early ones arrived before
 *	their sender got to look at the clock and count as 0
 * probe_delay_*	from before sendto() to the arrival, of probes sent after
 *	--warmup-ms
 * udp_would_block_errors	EAGAIN; in block mode every sleep in sendto() is
 *	one of sender_voluntary_switches instead
 * udp_longest_send_ms	in sendto() of a blocking sender, from --warmup-ms on
 * udp_waits	calls of poll() or epoll_wait()
 * sender_*	UDP sender processes, from start to their end; cpu is user plus
 *	system; per packet: per one that was received
 * system_*	of the whole machine while sending, this program's own clockwork
 *	included: the sink alone wakes up 500 times a second
 * system_backlog_drops, receiver_drops	losses behind the shaper; one of them
 *	makes the measurement invalid
 * tcp_*	acknowledged, retransmitted and srtt as TCP_INFO says at the end of
 *	sending
 */

/* Open --json before the run, not after it. false with errno. */
bool report_open(const struct options *o);

/* All processes have been reaped. Is the measurement valid? */
bool report_write(const struct traffic *t, const struct report_verdict *verdict,
		  const struct system_counters *system);

#endif
