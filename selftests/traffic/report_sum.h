/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPTRAFFIC_REPORT_SUM_H
#define BPTRAFFIC_REPORT_SUM_H

#include "report.h"

/* NAN: does not apply or is not known. null in JSON. */
struct report_udp {
	uint64_t sent_packets;
	uint64_t received_packets;
	int64_t lost_packets;
	double loss_percent;
	uint64_t reordered_packets;
	uint64_t would_blocks;
	uint64_t no_buffers;
	uint64_t other_errors;
	int last_other_errno;
	uint64_t longest_send_ns;
	double sndbuf_bytes;
	double payload_mbit_per_s;
	double wire_mbit_per_s;
	double jain;
	uint64_t sender_min_packets;	/* within the sending time */
	uint64_t sender_max_packets;
	struct traffic_usage usage;
	double cpu_us_per_packet;
};

struct report_tcp {
	uint64_t written_bytes;
	uint64_t acknowledged_bytes;
	uint64_t read_bytes;
	uint64_t retransmitted_segments;
	uint64_t errors;
	double goodput_mbit_per_s;
	double jain;
	double srtt_mean_ms;
	double srtt_p99_ms;
	double srtt_max_ms;
	struct traffic_usage usage;
};

struct report_delays {
	uint64_t samples;
	double p50_ms;
	double p99_ms;
	double max_ms;
};

struct report {
	const struct traffic *t;
	const struct traffic_sink *sink;
	const struct report_verdict *verdict;
	struct system_counters system;
	struct report_udp udp;
	struct report_tcp tcp;
	struct report_delays age;
	struct report_delays probe;
	const char *invalid;		/* why, or NULL */
};

/* Fill in @r->udp, ->tcp, ->age and ->probe from the rest of it. */
void report_sum(struct report *r);

#endif
