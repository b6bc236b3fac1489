// SPDX-License-Identifier: GPL-2.0-only
#include <inttypes.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "report.h"

#define REPORT_IPV4_BYTES	20
#define REPORT_IPV6_BYTES	40
#define REPORT_UDP_BYTES	8
#define REPORT_ETHERNET_BYTES	14

/* A clock that stepped by more has falsified ages and delays. */
#define REPORT_CLOCK_STEP_NS	20000

/* NAN is what does not apply or is not known: null in JSON. */
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

static FILE *report_json;
static bool report_json_is_empty = true;

bool report_open(const struct options *o)
{
	if (!o->json_path)
		return true;
	report_json = strcmp(o->json_path, "-") ? fopen(o->json_path, "we") :
						  stdout;
	return report_json;
}

static double report_ratio(double dividend, double divisor)
{
	return divisor > 0 ? dividend / divisor : NAN;
}

/* (sum x)^2 / (n sum x^2): 1 all equal, 1/n one has all. */
struct report_jain {
	double count, sum, square_sum;
};

static void report_jain_add(struct report_jain *jain, uint64_t bytes)
{
	jain->count++;
	jain->sum += (double)bytes;
	jain->square_sum += (double)bytes * (double)bytes;
}

static double report_jain_index(const struct report_jain *jain)
{
	return report_ratio(jain->sum * jain->sum,
			    jain->count * jain->square_sum);
}

static double report_window_seconds(const struct options *o)
{
	return (double)(o->sending_ns - TRAFFIC_GOODPUT_WARM_NS) / 1e9;
}

/* Without fragmentation: --size is thought to fit the MTU. */
static uint64_t report_wire_bytes(const struct options *o)
{
	return o->udp_payload_bytes + REPORT_UDP_BYTES + REPORT_ETHERNET_BYTES +
	       (o->address.ss_family == AF_INET ? REPORT_IPV4_BYTES :
						  REPORT_IPV6_BYTES);
}

static void report_add_usage(struct traffic_usage *sum,
			     const struct traffic_usage *usages, uint64_t count)
{
	uint64_t i;

	for (i = 0; i < count; i++) {
		sum->cpu_ns += usages[i].cpu_ns;
		sum->voluntary_switches += usages[i].voluntary_switches;
		sum->involuntary_switches += usages[i].involuntary_switches;
		sum->waits += usages[i].waits;
	}
}

static void report_sum_senders(struct report *r)
{
	const struct traffic *t = r->t;
	struct report_udp *udp = &r->udp;
	uint64_t i;

	udp->sndbuf_bytes = NAN;
	for (i = 0; i < t->options->udp_senders; i++) {
		const struct traffic_sender *sender = &t->senders[i];

		udp->sent_packets += sender->sent_packets;
		udp->would_blocks += sender->would_blocks;
		udp->no_buffers += sender->no_buffers;
		udp->other_errors += sender->other_errors;
		if (sender->last_other_errno)
			udp->last_other_errno = sender->last_other_errno;
		udp->sndbuf_bytes = sender->sndbuf_bytes;
	}
	report_add_usage(&udp->usage, t->usages, t->options->udp_senders);
}

static void report_sum_receivers(struct report *r)
{
	uint64_t payload_bytes = r->t->options->udp_payload_bytes;
	struct report_udp *udp = &r->udp;
	struct report_jain jain = { 0 };
	uint64_t i;

	udp->sender_min_packets = UINT64_MAX;
	for (i = 0; i < r->t->options->udp_senders; i++) {
		const struct traffic_receiver *receiver = &r->t->receivers[i];
		uint64_t packets = receiver->sending_time_packets;

		udp->received_packets += receiver->packets;
		udp->reordered_packets += receiver->reordered_packets;
		report_jain_add(&jain, packets * payload_bytes);
		if (packets < udp->sender_min_packets)
			udp->sender_min_packets = packets;
		if (packets > udp->sender_max_packets)
			udp->sender_max_packets = packets;
	}
	udp->jain = report_jain_index(&jain);
}

static void report_sum_udp(struct report *r)
{
	const struct options *o = r->t->options;
	struct report_udp *udp = &r->udp;
	double packets_per_us;

	report_sum_senders(r);
	report_sum_receivers(r);
	udp->lost_packets = (int64_t)udp->sent_packets -
			    (int64_t)udp->received_packets;
	udp->loss_percent = 100 * report_ratio((double)udp->lost_packets,
					       (double)udp->sent_packets);
	packets_per_us = (double)r->sink->window_packets /
			 report_window_seconds(o) / 1e6;
	udp->payload_mbit_per_s = packets_per_us * 8 *
				  (double)o->udp_payload_bytes;
	udp->wire_mbit_per_s = packets_per_us * 8 *
			       (double)report_wire_bytes(o);
	udp->cpu_us_per_packet = report_ratio((double)udp->usage.cpu_ns / 1e3,
					      (double)udp->received_packets);
}

static double report_percentile_ms(const struct histogram *h, double percent)
{
	return h->count ? (double)histogram_percentile(h, percent) / 1e6 : NAN;
}

/* Of all flows and the whole time after the warm-up: one that sends more counts more. */
static void report_sum_srtt(struct report *r)
{
	static struct histogram srtt_ns;
	uint64_t sum_us = 0;
	uint64_t i, j;

	for (i = 0; i < r->t->options->tcp_flows; i++) {
		const struct traffic_tcp *flow = &r->t->tcp[i];

		for (j = 0; j < flow->srtt_samples; j++) {
			histogram_add(&srtt_ns,
				      flow->srtt_sample_us[j] * CLOCK_NS_PER_US);
			sum_us += flow->srtt_sample_us[j];
		}
	}
	r->tcp.srtt_mean_ms = report_ratio((double)sum_us / 1e3,
					   (double)srtt_ns.count);
	r->tcp.srtt_p99_ms = report_percentile_ms(&srtt_ns, 99);
	r->tcp.srtt_max_ms = srtt_ns.count ? (double)srtt_ns.max / 1e6 : NAN;
}

static void report_sum_tcp(struct report *r)
{
	uint64_t flows = r->t->options->tcp_flows;
	struct report_tcp *tcp = &r->tcp;
	struct report_jain jain = { 0 };
	uint64_t window_bytes = 0;
	uint64_t i;

	for (i = 0; i < flows; i++) {
		const struct traffic_tcp *flow = &r->t->tcp[i];

		tcp->written_bytes += flow->written_bytes;
		tcp->acknowledged_bytes += flow->acknowledged_bytes;
		tcp->read_bytes += flow->read_bytes;
		tcp->retransmitted_segments += flow->retransmitted_segments;
		tcp->errors += flow->error != 0;
		window_bytes += flow->window_bytes;
		report_jain_add(&jain, flow->sending_time_bytes);
	}
	report_add_usage(&tcp->usage, r->t->tcp_usages, flows);
	tcp->goodput_mbit_per_s = (double)window_bytes * 8 / 1e6 /
				  report_window_seconds(r->t->options);
	tcp->jain = report_jain_index(&jain);
	report_sum_srtt(r);
}

static struct report_delays report_delays_of(const struct histogram *h)
{
	return (struct report_delays){
		.samples = h->count,
		.p50_ms = report_percentile_ms(h, 50),
		.p99_ms = report_percentile_ms(h, 99),
		.max_ms = h->count ? (double)h->max / 1e6 : NAN,
	};
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

static void report_json_key(const char *key)
{
	fprintf(report_json, "%s\n  \"%s\": ",
		report_json_is_empty ? "{" : ",", key);
	report_json_is_empty = false;
}

static void report_json_text(const char *key, const char *text)
{
	report_json_key(key);
	fprintf(report_json, text ? "\"%s\"" : "null", text);
}

static void report_json_bool(const char *key, bool value)
{
	report_json_key(key);
	fputs(value ? "true" : "false", report_json);
}

static void report_json_number(const char *key, uint64_t value)
{
	report_json_key(key);
	fprintf(report_json, "%" PRIu64, value);
}

/* Negative: unknown. */
static void report_json_signed(const char *key, int64_t value, bool is_known)
{
	report_json_key(key);
	if (is_known)
		fprintf(report_json, "%" PRId64, value);
	else
		fputs("null", report_json);
}

static void report_json_real(const char *key, double value, int decimals)
{
	report_json_key(key);
	if (isnan(value))
		fputs("null", report_json);
	else
		fprintf(report_json, "%.*f", decimals, value);
}

static void report_json_delays(const char *name,
			       const struct report_delays *delays)
{
	char key[64];

	snprintf(key, sizeof(key), "%s_p50_ms", name);
	report_json_real(key, delays->p50_ms, 4);
	snprintf(key, sizeof(key), "%s_p99_ms", name);
	report_json_real(key, delays->p99_ms, 4);
	snprintf(key, sizeof(key), "%s_max_ms", name);
	report_json_real(key, delays->max_ms, 4);
	snprintf(key, sizeof(key), "%s_samples", name);
	report_json_number(key, delays->samples);
}

static void report_json_options(const struct options *o)
{
	report_json_number("udp_senders", o->udp_senders);
	report_json_text("udp_mode", options_mode_name(o));
	report_json_number("udp_payload_bytes", o->udp_payload_bytes);
	report_json_number("udp_gso_segments", o->gso_segments);
	report_json_number("tcp_flows", o->tcp_flows);
	report_json_real("sending_seconds", (double)o->sending_ns / 1e9, 3);
	report_json_number("warmup_ms", o->warmup_ms);
}

static void report_json_udp(const struct report *r)
{
	uint64_t payload_bytes = r->t->options->udp_payload_bytes;
	const struct report_udp *udp = &r->udp;

	report_json_real("udp_sndbuf_bytes", udp->sndbuf_bytes, 0);
	report_json_number("udp_sent_packets", udp->sent_packets);
	report_json_number("udp_sent_bytes",
			   udp->sent_packets * payload_bytes);
	report_json_number("udp_received_packets", udp->received_packets);
	report_json_number("udp_received_bytes",
			   udp->received_packets * payload_bytes);
	report_json_signed("udp_lost_packets", udp->lost_packets, true);
	report_json_real("udp_loss_percent", udp->loss_percent, 4);
	report_json_number("udp_reordered_packets", udp->reordered_packets);
	report_json_real("udp_payload_goodput_mbit_per_s",
			 udp->payload_mbit_per_s, 3);
	report_json_real("udp_wire_goodput_mbit_per_s",
			 udp->wire_mbit_per_s, 3);
	report_json_real("udp_jain_index", udp->jain, 5);
	report_json_number("udp_sender_received_min_bytes",
			   r->t->options->udp_senders ?
			   udp->sender_min_packets * payload_bytes : 0);
	report_json_number("udp_sender_received_max_bytes",
			   udp->sender_max_packets * payload_bytes);
	report_json_delays("udp_age", &r->age);
	report_json_number("udp_age_early_packets", r->sink->ages_early);
	report_json_number("udp_age_unknown_packets", r->sink->ages_unknown);
}

static void report_json_senders(const struct report_udp *udp)
{
	report_json_number("udp_would_block_errors", udp->would_blocks);
	report_json_number("udp_no_buffer_errors", udp->no_buffers);
	report_json_number("udp_other_errors", udp->other_errors);
	report_json_number("udp_last_other_errno",
			   (uint64_t)udp->last_other_errno);
	report_json_number("udp_waits", udp->usage.waits);
	report_json_real("sender_cpu_ms", (double)udp->usage.cpu_ns / 1e6, 3);
	report_json_real("sender_cpu_us_per_packet", udp->cpu_us_per_packet, 3);
	report_json_number("sender_voluntary_switches",
			   udp->usage.voluntary_switches);
	report_json_number("sender_involuntary_switches",
			   udp->usage.involuntary_switches);
}

static void report_json_probe(const struct report *r)
{
	const struct traffic_probe *probe = &r->t->shared->probe;

	report_json_number("probe_sent_packets", probe->sent_packets);
	report_json_number("probe_received_packets", r->sink->probes);
	report_json_signed("probe_lost_packets", (int64_t)probe->sent_packets -
			   (int64_t)r->sink->probes, true);
	report_json_number("probe_errors", probe->errors);
	report_json_delays("probe_delay", &r->probe);
}

static void report_json_tcp(const struct report_tcp *tcp)
{
	report_json_number("tcp_written_bytes", tcp->written_bytes);
	report_json_number("tcp_acknowledged_bytes", tcp->acknowledged_bytes);
	report_json_number("tcp_received_bytes", tcp->read_bytes);
	report_json_real("tcp_goodput_mbit_per_s", tcp->goodput_mbit_per_s, 3);
	report_json_real("tcp_jain_index", tcp->jain, 5);
	report_json_number("tcp_retransmitted_segments",
			   tcp->retransmitted_segments);
	report_json_real("tcp_srtt_mean_ms", tcp->srtt_mean_ms, 3);
	report_json_real("tcp_srtt_p99_ms", tcp->srtt_p99_ms, 3);
	report_json_real("tcp_srtt_max_ms", tcp->srtt_max_ms, 3);
	report_json_number("tcp_errors", tcp->errors);
	report_json_real("tcp_sender_cpu_ms",
			 (double)tcp->usage.cpu_ns / 1e6, 3);
}

static void report_json_machine(const struct report *r)
{
	const struct system_counters *system = &r->system;

	report_json_signed("system_context_switches", system->context_switches,
			   system->context_switches >= 0);
	report_json_signed("system_timer_interrupts", system->timer_interrupts,
			   system->timer_interrupts >= 0);
	report_json_real("system_busy_ms", system->busy_ns < 0 ? NAN :
			 (double)system->busy_ns / 1e6, 3);
	report_json_signed("system_backlog_drops", system->backlog_drops,
			   system->backlog_drops >= 0);
	report_json_number("receiver_drops", r->sink->dropped_packets);
	report_json_number("receiver_foreign_packets",
			   r->sink->foreign_packets);
	report_json_number("stuck_senders", r->verdict->stuck_senders);
	report_json_number("failed_processes", r->verdict->failed_processes);
	report_json_bool("is_valid", !r->invalid);
	report_json_text("invalid_reason", r->invalid);
}

/* An array of @count numbers that lie @stride bytes apart. */
static void report_json_array(const char *key, const uint64_t *first,
			      uint64_t count, size_t stride)
{
	uint64_t i;

	report_json_key(key);
	for (i = 0; i < count; i++)
		fprintf(report_json, "%s%" PRIu64, i ? ", " : "[",
			*(const uint64_t *)((const char *)first + i * stride));
	fputs(count ? "]" : "[]", report_json);
}

static void report_json_per_sender(const struct traffic *t)
{
	uint64_t flows = t->options->tcp_flows;
	uint64_t n = t->options->udp_senders;

	report_json_array("udp_sent_packets_per_sender",
			  &t->senders->sent_packets, n, sizeof(*t->senders));
	report_json_array("udp_received_packets_per_sender",
			  &t->receivers->packets, n, sizeof(*t->receivers));
	report_json_array("tcp_received_bytes_per_flow", &t->tcp->read_bytes,
			  flows, sizeof(*t->tcp));
}

/* false: the disk is full, for example. */
static bool report_write_json(const struct report *r)
{
	if (!report_json)
		return true;
	report_json_options(r->t->options);
	report_json_udp(r);
	report_json_senders(&r->udp);
	report_json_probe(r);
	report_json_tcp(&r->tcp);
	report_json_machine(r);
	if (r->t->options->per_sender)
		report_json_per_sender(r->t);
	fputs("\n}\n", report_json);
	return !fflush(report_json) && !ferror(report_json);
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

	report_sum_udp(&r);
	report_sum_tcp(&r);
	r.age = report_delays_of(&r.sink->age_ns);
	r.probe = report_delays_of(&r.sink->probe_delay_ns);
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
