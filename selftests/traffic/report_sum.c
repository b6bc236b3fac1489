// SPDX-License-Identifier: GPL-2.0-only
#include <math.h>
#include <netinet/in.h>

#include "clock.h"
#include "report_sum.h"

#define REPORT_IPV4_BYTES	20
#define REPORT_IPV6_BYTES	40
#define REPORT_UDP_BYTES	8
#define REPORT_ETHERNET_BYTES	14

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

/* Without fragmentation: --size must fit the MTU. */
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
		if (sender->longest_send_ns > udp->longest_send_ns)
			udp->longest_send_ns = sender->longest_send_ns;
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

/* Samples of all flows after the warm-up: a flow that sends more has more. */
static void report_sum_srtt(struct report *r)
{
	static struct histogram srtt_ns;
	uint64_t sum_us = 0;
	uint64_t i, j;

	for (i = 0; i < r->t->options->tcp_flows; i++) {
		const struct traffic_tcp *flow = &r->t->tcp[i];

		for (j = 0; j < flow->srtt_samples; j++) {
			uint64_t srtt_us = flow->srtt_sample_us[j];

			histogram_add(&srtt_ns, srtt_us * CLOCK_NS_PER_US);
			sum_us += srtt_us;
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

void report_sum(struct report *r)
{
	report_sum_udp(r);
	report_sum_tcp(r);
	r->age = report_delays_of(&r->sink->age_ns);
	r->probe = report_delays_of(&r->sink->probe_delay_ns);
}
