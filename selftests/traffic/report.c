// SPDX-License-Identifier: GPL-2.0-only
/*
 * The report is one flat object of JSON. Units are in the key names. null: does not apply.
 *
 * udp_*_goodput_mbit_per_s	data that arrived from 0.1 s after the start to
 *	the end of sending; wire adds 8 (UDP), 20 or 40 (IP) and 14 (Ethernet)
 * udp_jain_index	of what arrived until the end of sending, while lost packets are
 *	those that did not arrive at all
 * udp_age_*	from the return of sendto() to the arrival at the receiving
 *	device, of packets accepted after --warmup-ms; early ones arrived before
 *	their sender got to look at the clock and count as 0
 * probe_delay_*	from before sendto() to the arrival, of probes sent after
 *	--warmup-ms
 * udp_longest_send_ms	in sendto() of a blocking sender, from --warmup-ms on
 * sender_cpu_us_per_packet	user plus system of the UDP senders, from start to their end,
 *	for each packet that was received
 * system_*	of the whole machine while sending, this program's own clockwork
 *	included: the sink alone wakes up 500 times a second
 * tcp_least_received_bytes	of the flow that got least
 * tcp_retransmitted_segments, tcp_srtt_*	as TCP_INFO says; srtt after --warmup-ms, so a flow
 *	that sends more has more samples
 */
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>

#include "clock.h"
#include "traffic.h"

#define HEADERS_IPV4	(20 + 8 + 14)		/* without fragmentation: --size must fit the MTU */
#define HEADERS_IPV6	(40 + 8 + 14)

/* A larger step of the clock makes ages and delays wrong. */
#define CLOCK_STEP_NS	20000

static FILE *json;

bool report_open(const struct options *o)
{
	json = o->json_path ? fopen(o->json_path, "we") : stdout;
	return json;
}

static double ratio(double dividend, double divisor)
{
	return divisor > 0 ? dividend / divisor : NAN;
}

static void put(const char *key, double value, int decimals)
{
	if (isnan(value))
		fprintf(json, ",\n  \"%s\": null", key);
	else
		fprintf(json, ",\n  \"%s\": %.*f", key, decimals, value);
}

/* Negative: not known */
static void put_counter(const char *key, int64_t value)
{
	put(key, value < 0 ? NAN : (double)value, 0);
}

static void put_percentile_ms(const char *key, const struct histogram *h, double percent)
{
	put(key, h->count ? (double)histogram_percentile(h, percent) / 1e6 : NAN, 4);
}

/* (sum x)^2 / (n sum x^2): 1 all equal, 1/n one has all. */
struct jain {
	double count, sum, square_sum;
};

static void jain_add(struct jain *jain, uint64_t x)
{
	jain->count++;
	jain->sum += (double)x;
	jain->square_sum += (double)x * (double)x;
}

static void put_jain(const char *key, const struct jain *jain)
{
	put(key, ratio(jain->sum * jain->sum, jain->count * jain->square_sum), 5);
}

static double window_seconds(const struct options *o)
{
	return (double)(o->sending_ns - TRAFFIC_GOODPUT_WARM_NS) / 1e9;
}

/* Returns how many packets arrived. */
static uint64_t report_udp(const struct traffic *t)
{
	const struct traffic_sink *sink = &t->shared->sink;
	const struct options *o = t->options;
	uint64_t sent = 0, received = 0, no_buffers = 0, longest_ns = 0, cpu_ns = 0, i;
	uint64_t headers = o->address.ss_family == AF_INET ? HEADERS_IPV4 : HEADERS_IPV6;
	double bits = (double)sink->window_packets / window_seconds(o) / 1e6 * 8;
	struct jain jain = { 0 };
	double lost;

	for (i = 0; i < o->udp_senders; i++) {
		sent += t->senders[i].sent_packets;
		no_buffers += t->senders[i].no_buffers;
		if (t->senders[i].longest_send_ns > longest_ns)
			longest_ns = t->senders[i].longest_send_ns;
		received += t->receivers[i].packets;
		jain_add(&jain, t->receivers[i].sending_time_packets);
		cpu_ns += t->cpu_ns[i];
	}
	lost = (double)sent - (double)received;
	put("udp_sent_packets", (double)sent, 0);
	put("udp_received_packets", (double)received, 0);
	put("udp_lost_packets", lost, 0);
	put("udp_loss_percent", 100 * ratio(lost, (double)sent), 4);
	put("udp_payload_goodput_mbit_per_s", bits * (double)o->udp_payload_bytes, 3);
	put("udp_wire_goodput_mbit_per_s", bits * (double)(o->udp_payload_bytes + headers), 3);
	put_jain("udp_jain_index", &jain);
	put_percentile_ms("udp_age_p50_ms", &sink->age_ns, 50);
	put_percentile_ms("udp_age_p99_ms", &sink->age_ns, 99);
	put("udp_no_buffer_errors", (double)no_buffers, 0);
	put("udp_longest_send_ms", (double)longest_ns / 1e6, 3);
	put("sender_cpu_us_per_packet", ratio((double)cpu_ns / 1e3, (double)received), 3);
	return received;
}

static void report_probe(const struct traffic *t)
{
	const struct traffic_sink *sink = &t->shared->sink;
	uint64_t sent = t->shared->sent_probes;

	put("probe_sent_packets", (double)sent, 0);
	put("probe_received_packets", (double)sink->probes, 0);
	put("probe_lost_packets", (double)sent - (double)sink->probes, 0);
	put_percentile_ms("probe_delay_p50_ms", &sink->probe_delay_ns, 50);
	put_percentile_ms("probe_delay_p99_ms", &sink->probe_delay_ns, 99);
}

/* Returns how many flows ended early; sets @read_bytes. */
static uint64_t report_tcp(const struct traffic *t, uint64_t *read_bytes)
{
	uint64_t window_bytes = 0, retransmitted = 0, errors = 0, cpu_ns = 0, sum_us = 0;
	uint64_t least_bytes = UINT64_MAX, i, j;
	static struct histogram srtt_ns;
	struct jain jain = { 0 };

	*read_bytes = 0;
	for (i = 0; i < t->options->tcp_flows; i++) {
		const struct traffic_tcp *flow = &t->tcp[i];

		if (flow->read_bytes < least_bytes)
			least_bytes = flow->read_bytes;
		*read_bytes += flow->read_bytes;
		window_bytes += flow->window_bytes;
		retransmitted += flow->retransmitted_segments;
		errors += flow->error != 0;
		cpu_ns += t->tcp_cpu_ns[i];
		jain_add(&jain, flow->sending_time_bytes);
		for (j = 0; j < flow->srtt_samples; j++) {
			histogram_add(&srtt_ns, flow->srtt_sample_us[j] * CLOCK_NS_PER_US);
			sum_us += flow->srtt_sample_us[j];
		}
	}
	put("tcp_least_received_bytes", i ? (double)least_bytes : NAN, 0);
	put("tcp_received_bytes", (double)*read_bytes, 0);
	put("tcp_goodput_mbit_per_s", (double)window_bytes * 8 / 1e6 / window_seconds(t->options),
	    3);
	put_jain("tcp_jain_index", &jain);
	put("tcp_retransmitted_segments", (double)retransmitted, 0);
	put("tcp_srtt_mean_ms", ratio((double)sum_us / 1e3, (double)srtt_ns.count), 3);
	put_percentile_ms("tcp_srtt_p99_ms", &srtt_ns, 99);
	put("tcp_sender_cpu_ms", (double)cpu_ns / 1e6, 3);
	return errors;
}

bool report_write(const struct traffic *t, uint32_t stuck_senders,
		  const struct system_counters *system)
{
	const struct traffic_sink *sink = &t->shared->sink;
	const struct options *o = t->options;
	uint64_t received, errors, read_bytes;
	const char *invalid = NULL;

	fprintf(json, "{\n  \"sending_seconds\": %.3f", (double)o->sending_ns / 1e9);
	put("udp_senders", (double)o->udp_senders, 0);
	received = report_udp(t);
	report_probe(t);
	errors = report_tcp(t, &read_bytes);
	put_counter("system_context_switches", system->context_switches);
	put_counter("system_timer_interrupts", system->timer_interrupts);
	put("system_busy_ms", system->busy_ns < 0 ? NAN : (double)system->busy_ns / 1e6, 3);
	put("receiver_drops", (double)sink->dropped_packets, 0);
	put("stuck_senders", stuck_senders, 0);

	if (stuck_senders)
		invalid = "a sender did not end when told to";
	else if (process_count_failed())
		invalid = "a process failed";
	else if (sink->dropped_packets)
		invalid = "the receive buffers lost packets";
	else if (system->backlog_drops > 0)
		invalid = "packets lost for want of net.core.netdev_max_backlog";
	else if (sink->clock_step_ns > CLOCK_STEP_NS || sink->clock_step_ns < -CLOCK_STEP_NS)
		invalid = "CLOCK_REALTIME was set during the run";
	else if (o->udp_senders && !received)
		invalid = "no UDP data arrived";
	else if (o->probe && !sink->probes)
		invalid = "no probe arrived";
	else if (o->tcp_flows && !read_bytes)
		invalid = "no TCP data arrived";
	else if (errors)
		invalid = "a TCP flow ended early";
	fprintf(json, ",\n  \"is_valid\": %s\n}\n", invalid ? "false" : "true");
	if (invalid)
		fprintf(stderr, "bptraffic: invalid: %s\n", invalid);
	if (fclose(json)) {
		perror("bptraffic: --json");
		return false;
	}
	return !invalid;
}
