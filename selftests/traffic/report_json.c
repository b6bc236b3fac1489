// SPDX-License-Identifier: GPL-2.0-only
#include <math.h>
#include <stdio.h>

#include "json.h"
#include "report_json.h"

static void report_json_delays(const char *name,
			       const struct report_delays *delays)
{
	char key[64];

	snprintf(key, sizeof(key), "%s_p50_ms", name);
	json_real(key, delays->p50_ms, 4);
	snprintf(key, sizeof(key), "%s_p99_ms", name);
	json_real(key, delays->p99_ms, 4);
	snprintf(key, sizeof(key), "%s_max_ms", name);
	json_real(key, delays->max_ms, 4);
	snprintf(key, sizeof(key), "%s_samples", name);
	json_number(key, delays->samples);
}

static void report_json_options(const struct options *o)
{
	json_number("udp_senders", o->udp_senders);
	json_text("udp_mode", options_mode_name(o));
	json_number("udp_payload_bytes", o->udp_payload_bytes);
	json_number("udp_gso_segments", o->gso_segments);
	json_number("tcp_flows", o->tcp_flows);
	json_real("sending_seconds", (double)o->sending_ns / 1e9, 3);
	json_number("warmup_ms", o->warmup_ms);
}

static void report_json_udp(const struct report *r)
{
	uint64_t payload_bytes = r->t->options->udp_payload_bytes;
	const struct report_udp *udp = &r->udp;

	json_real("udp_sndbuf_bytes", udp->sndbuf_bytes, 0);
	json_number("udp_sent_packets", udp->sent_packets);
	json_number("udp_sent_bytes",
			   udp->sent_packets * payload_bytes);
	json_number("udp_received_packets", udp->received_packets);
	json_number("udp_received_bytes",
			   udp->received_packets * payload_bytes);
	json_signed("udp_lost_packets", udp->lost_packets, true);
	json_real("udp_loss_percent", udp->loss_percent, 4);
	json_number("udp_reordered_packets", udp->reordered_packets);
	json_real("udp_payload_goodput_mbit_per_s",
			 udp->payload_mbit_per_s, 3);
	json_real("udp_wire_goodput_mbit_per_s",
			 udp->wire_mbit_per_s, 3);
	json_real("udp_jain_index", udp->jain, 5);
	json_number("udp_sender_received_min_bytes",
			   r->t->options->udp_senders ?
			   udp->sender_min_packets * payload_bytes : 0);
	json_number("udp_sender_received_max_bytes",
			   udp->sender_max_packets * payload_bytes);
	report_json_delays("udp_age", &r->age);
	json_number("udp_age_early_packets", r->sink->ages_early);
	json_number("udp_age_unknown_packets", r->sink->ages_unknown);
}

static void report_json_senders(const struct report_udp *udp)
{
	json_number("udp_would_block_errors", udp->would_blocks);
	json_number("udp_no_buffer_errors", udp->no_buffers);
	json_number("udp_other_errors", udp->other_errors);
	json_number("udp_last_other_errno",
			   (uint64_t)udp->last_other_errno);
	json_number("udp_waits", udp->usage.waits);
	json_real("udp_longest_send_ms",
		  (double)udp->longest_send_ns / 1e6, 3);
	json_real("sender_cpu_ms", (double)udp->usage.cpu_ns / 1e6, 3);
	json_real("sender_cpu_us_per_packet", udp->cpu_us_per_packet, 3);
	json_number("sender_voluntary_switches",
			   udp->usage.voluntary_switches);
	json_number("sender_involuntary_switches",
			   udp->usage.involuntary_switches);
}

static void report_json_probe(const struct report *r)
{
	const struct traffic_probe *probe = &r->t->shared->probe;

	json_number("probe_sent_packets", probe->sent_packets);
	json_number("probe_received_packets", r->sink->probes);
	json_signed("probe_lost_packets", (int64_t)probe->sent_packets -
			   (int64_t)r->sink->probes, true);
	json_number("probe_errors", probe->errors);
	report_json_delays("probe_delay", &r->probe);
}

static void report_json_tcp(const struct report_tcp *tcp)
{
	json_number("tcp_written_bytes", tcp->written_bytes);
	json_number("tcp_acknowledged_bytes", tcp->acknowledged_bytes);
	json_number("tcp_received_bytes", tcp->read_bytes);
	json_real("tcp_goodput_mbit_per_s", tcp->goodput_mbit_per_s, 3);
	json_real("tcp_jain_index", tcp->jain, 5);
	json_number("tcp_retransmitted_segments",
			   tcp->retransmitted_segments);
	json_real("tcp_srtt_mean_ms", tcp->srtt_mean_ms, 3);
	json_real("tcp_srtt_p99_ms", tcp->srtt_p99_ms, 3);
	json_real("tcp_srtt_max_ms", tcp->srtt_max_ms, 3);
	json_number("tcp_errors", tcp->errors);
	json_real("tcp_sender_cpu_ms",
			 (double)tcp->usage.cpu_ns / 1e6, 3);
}

static void report_json_machine(const struct report *r)
{
	const struct system_counters *system = &r->system;

	json_signed("system_context_switches", system->context_switches,
			   system->context_switches >= 0);
	json_signed("system_timer_interrupts", system->timer_interrupts,
			   system->timer_interrupts >= 0);
	json_real("system_busy_ms", system->busy_ns < 0 ? NAN :
			 (double)system->busy_ns / 1e6, 3);
	json_signed("system_backlog_drops", system->backlog_drops,
			   system->backlog_drops >= 0);
	json_number("receiver_drops", r->sink->dropped_packets);
	json_number("receiver_foreign_packets",
			   r->sink->foreign_packets);
	json_number("stuck_senders", r->verdict->stuck_senders);
	json_number("failed_processes", r->verdict->failed_processes);
	json_bool("is_valid", !r->invalid);
	json_text("invalid_reason", r->invalid);
}

static void report_json_per_sender(const struct traffic *t)
{
	uint64_t flows = t->options->tcp_flows;
	uint64_t n = t->options->udp_senders;

	json_array("udp_sent_packets_per_sender",
			  &t->senders->sent_packets, n, sizeof(*t->senders));
	json_array("udp_received_packets_per_sender",
			  &t->receivers->packets, n, sizeof(*t->receivers));
	json_array("tcp_received_bytes_per_flow", &t->tcp->read_bytes,
			  flows, sizeof(*t->tcp));
}

bool report_write_json(const struct report *r)
{
	if (!json_is_open())
		return true;
	report_json_options(r->t->options);
	report_json_udp(r);
	report_json_senders(&r->udp);
	report_json_probe(r);
	report_json_tcp(&r->tcp);
	report_json_machine(r);
	if (r->t->options->per_sender)
		report_json_per_sender(r->t);
	return json_end();
}
