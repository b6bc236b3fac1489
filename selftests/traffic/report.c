// SPDX-License-Identifier: GPL-2.0-only
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "report_json.h"
#include "report_sum.h"

/* A larger step of the clock makes ages and delays wrong. */
#define REPORT_CLOCK_STEP_NS	20000

bool report_open(const struct options *o)
{
	return !o->json_path || json_open(o->json_path);
}

static const char *report_find_fault(const struct report *r)
{
	const struct options *o = r->t->options;
	int64_t step_ns = r->sink->clock_step_ns;

	if (r->verdict->stuck_senders)
		return "a sender did not end when told to";
	if (r->verdict->failed_processes)
		return "a process failed";
	if (r->sink->dropped_packets)
		return "the receive buffers lost packets";
	if (r->system.backlog_drops > 0)
		return "packets lost for want of net.core.netdev_max_backlog";
	if (step_ns > REPORT_CLOCK_STEP_NS || step_ns < -REPORT_CLOCK_STEP_NS)
		return "CLOCK_REALTIME was set during the run";
	if (o->udp_senders && !r->udp.received_packets)
		return "no UDP data arrived";
	if (o->probe && !r->sink->probes)
		return "no probe arrived";
	if (o->tcp_flows && !r->tcp.read_bytes)
		return "no TCP data arrived";
	if (r->tcp.errors)
		return "a TCP flow ended early";
	return NULL;
}

static void report_print_udp(const struct report *r)
{
	const struct options *o = r->t->options;
	const struct report_udp *udp = &r->udp;

	printf("udp      %" PRIu64 " senders, %s, %" PRIu64
	       " bytes, %g s, sndbuf %.0f bytes\n", o->udp_senders,
	       options_mode_name(o), o->udp_payload_bytes,
	       (double)o->sending_ns / 1e9, udp->sndbuf_bytes);
	printf("packets  sent %" PRIu64 ", received %" PRIu64 ", lost %" PRId64
	       " (%.4f %%), reordered %" PRIu64 "\n", udp->sent_packets,
	       udp->received_packets, udp->lost_packets, udp->loss_percent,
	       udp->reordered_packets);
	printf("goodput  %.3f Mbit/s payload, %.3f Mbit/s wire, Jain %.5f\n",
	       udp->payload_mbit_per_s, udp->wire_mbit_per_s, udp->jain);
	printf("age      p50 %.3f ms, p99 %.3f ms, max %.3f ms\n",
	       r->age.p50_ms, r->age.p99_ms, r->age.max_ms);
	printf("senders  %.3f us CPU per packet, %" PRIu64 " voluntary and %"
	       PRIu64 " involuntary switches\n", udp->cpu_us_per_packet,
	       udp->usage.voluntary_switches, udp->usage.involuntary_switches);
	printf("sendto   EAGAIN %" PRIu64 ", ENOBUFS %" PRIu64 ", other %"
	       PRIu64 "%s%s\n", udp->would_blocks, udp->no_buffers,
	       udp->other_errors, udp->last_other_errno ? ": " : "",
	       udp->last_other_errno ? strerror(udp->last_other_errno) : "");
}

static void report_print_probe(const struct report *r)
{
	const struct traffic_probe *probe = &r->t->shared->probe;

	printf("probe    sent %" PRIu64 ", lost %" PRId64
	       ", delay p50 %.3f ms, p99 %.3f ms, max %.3f ms\n",
	       probe->sent_packets,
	       (int64_t)probe->sent_packets - (int64_t)r->sink->probes,
	       r->probe.p50_ms, r->probe.p99_ms, r->probe.max_ms);
}

static void report_print_tcp(const struct report *r)
{
	const struct report_tcp *tcp = &r->tcp;

	printf("tcp      %" PRIu64 " flows, %.3f Mbit/s, Jain %.5f, %" PRIu64
	       " segments retransmitted, srtt %.3f ms (max %.3f ms)\n",
	       r->t->options->tcp_flows, tcp->goodput_mbit_per_s, tcp->jain,
	       tcp->retransmitted_segments, tcp->srtt_mean_ms,
	       tcp->srtt_max_ms);
}

static void report_print(const struct report *r)
{
	const struct options *o = r->t->options;

	if (o->udp_senders)
		report_print_udp(r);
	if (o->probe)
		report_print_probe(r);
	if (o->tcp_flows)
		report_print_tcp(r);
	printf("system   %" PRId64 " context switches, %" PRId64
	       " timer interrupts, receiver drops %" PRIu64 ", backlog drops %"
	       PRId64 "\n", r->system.context_switches,
	       r->system.timer_interrupts, r->sink->dropped_packets,
	       r->system.backlog_drops);
}

bool report_write(const struct traffic *t, const struct report_verdict *verdict,
		  const struct system_counters *system)
{
	struct report r = {
		.t = t,
		.sink = &t->shared->sink,
		.verdict = verdict,
		.system = *system,
	};

	report_sum(&r);
	r.invalid = report_find_fault(&r);
	if (!t->options->quiet)
		report_print(&r);
	if (r.invalid)
		fprintf(stderr, "bptraffic: invalid: %s\n", r.invalid);
	if (!report_write_json(&r)) {
		fprintf(stderr, "bptraffic: --json %s: not written\n",
			t->options->json_path);
		return false;
	}
	return !r.invalid;
}
