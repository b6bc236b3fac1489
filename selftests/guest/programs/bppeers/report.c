// SPDX-License-Identifier: GPL-2.0-only
/* The report: one JSON object. */
#include <stdio.h>
#include <stdlib.h>

#include "bppeers.h"
#include "guest.h"
#include "udp.h"

static double jain(double sum, double squares, unsigned int count)
{
	return squares > 0 ? sum * sum / (count * squares) : 0;
}

static double percentile_ms(const struct sender *s, double p)
{
	return s->delays ? s->delays_ns[(unsigned int)((s->delays - 1) * p)] / 1e6 : 0;
}

static void list_print(const struct sender *s)
{
	printf(", \"%s_order\": \"", s->name);
	for (unsigned int i = 0; i < s->arrived; i++)
		printf("%s%u", i ? " " : "", s->order[i]);
	printf("\", \"%s_times_ms\": \"", s->name);
	for (unsigned int i = 0; i < s->arrived; i++)
		printf("%s%.3f", i ? " " : "", s->arrived_ns[i] / 1e6);
	printf("\"");
}

static void peers_print(const struct sender *s, double *all, double *all_squares)
{
	unsigned int count = s->sockets * s->peers, reached = 0, least = ~0, most = 0;
	double sum = 0, squares = 0;

	for (unsigned int i = 0; i < count; i++) {
		unsigned int packets = s->all_peers[i].packets;
		double bytes = (double)packets * s->size;

		sum += bytes;
		squares += bytes * bytes;
		reached += !!packets;
		least = packets < least ? packets : least;
		most = packets > most ? packets : most;
	}
	printf(", \"%s_reached\": %u, \"%s_least\": %u, \"%s_most\": %u, \"%s_jain\": %.5f",
	       s->name, reached, s->name, least, s->name, most, s->name,
	       jain(sum, squares, count));
	*all += sum;
	*all_squares += squares;
}

static void queues_print(const struct sender *s)
{
	uint64_t full = 0, full_ns = 0, completed = 0;

	for (unsigned int i = 0; i < s->sockets; i++) {
		full += s->queues[i].full;
		full_ns += s->queues[i].full_ns;
		completed += s->queues[i].completed;
	}
	printf(", \"%s_full\": %llu, \"%s_full_part\": %.4f, \"%s_completed\": %llu",
	       s->name, (unsigned long long)full,
	       s->name, (double)full_ns / s->sockets / (end_ns - start_ns),
	       s->name, (unsigned long long)completed);
}

static void sender_print(struct sender *s, uint64_t all_bytes, double seconds)
{
	uint64_t sent = atomic_load(&s->sent);

	printf("\"%s_received\": %llu, \"%s_congested\": %llu, ",
	       s->name, (unsigned long long)s->received,
	       s->name, (unsigned long long)s->congested);
	printf("\"%s_sent\": %llu, \"%s_lost\": %lld, \"%s_reordered\": %llu, \"%s_no_buffers\": %llu",
	       s->name, (unsigned long long)sent, s->name, (long long)(sent - s->received),
	       s->name, (unsigned long long)s->reordered,
	       s->name, (unsigned long long)atomic_load(&s->no_buffers));
	printf(", \"%s_refused\": %llu", s->name,
	       (unsigned long long)atomic_load(&s->refused));
	printf(", \"%s_mbit\": %.3f", s->name, s->bytes * 8 / seconds / 1e6);
	if (is_measured(s))
		printf(", \"%s_part\": %.6f", s->name,
		       all_bytes ? (double)s->bytes / all_bytes : 0);
	if (s->list_len)
		list_print(s);
	if (s->queues)
		queues_print(s);
	if (s->delays) {
		qsort(s->delays_ns, s->delays, sizeof(*s->delays_ns), compare_int64);
		printf(", \"%s_delay_p50_ms\": %.3f, \"%s_delay_p99_ms\": %.3f, \"%s_delay_max_ms\": %.3f",
		       s->name, percentile_ms(s, 0.5), s->name, percentile_ms(s, 0.99),
		       s->name, percentile_ms(s, 1));
	}
	if (s->most_Bps)
		printf(", \"%s_burst\": %.0f", s->name, s->highest);
	printf(", \"%s_due_early\": %llu, \"%s_due_late_ms\": %.3f", s->name,
	       (unsigned long long)s->due_early, s->name, s->due_late_ns / 1e6);
}

/* Of all senders, after the warm-up */
static unsigned int packets_arrived(void)
{
	unsigned int sum = 0;

	for (struct sender *s = senders; s < senders + senders_len; s++)
		for (unsigned int i = 0; i < s->sockets * s->peers; i++)
			sum += s->all_peers[i].packets;
	return sum;
}

void report(void)
{
	double seconds = (double)(end_ns - warm_ns) / CLOCK_NS_PER_S, sum = 0, squares = 0;
	unsigned int receivers = 0;
	uint64_t all_bytes = 0;

	for (unsigned int i = 0; i < senders_len; i++)
		if (is_measured(&senders[i]))
			all_bytes += senders[i].bytes;
	printf("{ ");
	for (unsigned int i = 0; i < senders_len; i++) {
		struct sender *s = &senders[i];

		sender_print(s, all_bytes, seconds);
		if (is_measured(s)) {
			peers_print(s, &sum, &squares);
			receivers += s->sockets * s->peers;
		}
		printf(", ");
	}
	if (busy_ns > 0 && packets_arrived())
		printf("\"host_us\": %.3f, ", busy_ns / 1e3 / packets_arrived());
	printf("\"other_mbit\": %.3f, ", other_bytes * 8 / seconds / 1e6);
	printf("\"mbit\": %.3f, \"jain\": %.5f }\n", all_bytes * 8 / seconds / 1e6,
	       jain(sum, squares, receivers));
}
