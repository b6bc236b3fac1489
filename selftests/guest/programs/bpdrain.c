// SPDX-License-Identifier: GPL-2.0-only
/* bpdrain: does a queue drain by itself?
 *
 * usage: bpdrain DEV DST KINDS ROUNDS PACKETS RATE_BIT SLACK_MS
 *
 * In each round one thread on every CPU sends up to PACKETS datagrams to DST (IPv4), all at
 * the same time; then nobody sends. From then on the root qdisc of DEV has to be empty
 * after what is due: its backlog at RATE_BIT (0: no rate), or the last packet's own time, if
 * that is later; and SLACK_MS. It is asked by netlink, which sends nothing and wakes
 * nobody. Ends at the first round in which it is not.
 *
 * KINDS are letters, thread i has the i-th, from the beginning again after the last:
 *	p	a plain socket
 *	t	packets have a time (SO_TXTIME), up to 4 ms from now
 *	r	the socket is paced (SO_MAX_PACING_RATE), 16 Mbit/s
 *	s	the send buffer is too large to be throttled: packets without a socket
 *
 * Prints one JSON object: rounds, packets sent, packets left in the last round, the largest
 * backlog found, and by how much the latest drain was within or (negative) beyond its time.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "udp.h"

#define AHEAD_NS	(4 * (int64_t)CLOCK_NS_PER_MS)
#define PACED_BIT	16000000LL
#define SIZE_MAX_BYTES	1400
#define FRAME_MAX_BYTES	(SIZE_MAX_BYTES + 42)
#define CPUS_MAX	64

struct sender {
	pthread_t thread;
	int index;
	int fd;
	char kind;
	unsigned int seed;
	int64_t sent;
};

static struct sender senders[CPUS_MAX];
static int threads, rounds, packets;
static atomic_int started, done;	/* in rounds; threads that are through with one */

static void fail(const char *what)
{
	fprintf(stderr, "bpdrain: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void sleep_us(unsigned int us)
{
	struct timespec ts = { .tv_nsec = us * 1000L };

	nanosleep(&ts, NULL);
}

static void open_sender(struct sender *s, const char *dst)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	uint64_t rate = PACED_BIT / 8;
	int sndbuf = (1 << 28) + 4096;
	int error = 0;

	s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	if (s->fd < 0 || inet_pton(AF_INET, dst, &to.sin_addr) != 1 ||
	    connect(s->fd, (struct sockaddr *)&to, sizeof(to)))
		fail("socket");
	if (s->kind == 't')
		error = udp_enable_txtime(s->fd);
	else if (s->kind == 'r')
		error = setsockopt(s->fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
	else if (s->kind == 's')
		error = setsockopt(s->fd, SOL_SOCKET, SO_SNDBUFFORCE, &sndbuf, sizeof(sndbuf));
	if (error)
		fail("setsockopt");
}

static ssize_t send_one(struct sender *s)
{
	static const char payload[SIZE_MAX_BYTES];
	uint64_t at = clock_now_ns() + rand_r(&s->seed) % AHEAD_NS;

	return udp_send(s->fd, payload, 1 + rand_r(&s->seed) % SIZE_MAX_BYTES, NULL,
			s->kind == 't' ? at : 0);
}

/* To sleep here would be to start one after the other. */
static void wait_for(atomic_int *counter, int value)
{
	unsigned int spins = 0;

	while (atomic_load(counter) < value)
		if (++spins % 1000 == 0)
			sched_yield();
}

static void burst(struct sender *s)
{
	int i;

	for (i = 0; i < packets; i++) {
		if (send_one(s) < 0) {
			if (errno == EAGAIN)
				return;
			fail("send");
		}
		s->sent++;
	}
}

static void *run(void *arg)
{
	struct sender *s = arg;
	cpu_set_t cpu;
	int round;

	CPU_ZERO(&cpu);
	CPU_SET(s->index, &cpu);
	if (pthread_setaffinity_np(pthread_self(), sizeof(cpu), &cpu))
		fail("affinity");
	for (round = 1; round <= rounds; round++) {
		wait_for(&started, round);
		burst(s);
		atomic_fetch_add(&done, 1);
	}
	return NULL;
}

static const struct gnet_stats_queue *queue_of(const struct nlmsghdr *nlh, unsigned int ifindex)
{
	const struct tcmsg *tcm = NLMSG_DATA(nlh);
	int len = TCA_PAYLOAD(nlh), nested;
	const struct rtattr *a, *b;

	if (nlh->nlmsg_type != RTM_NEWQDISC || tcm->tcm_ifindex != (int)ifindex ||
	    tcm->tcm_parent != TC_H_ROOT)
		return NULL;
	for (a = TCA_RTA(tcm); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type != TCA_STATS2)
			continue;
		nested = RTA_PAYLOAD(a);
		for (b = RTA_DATA(a); RTA_OK(b, nested); b = RTA_NEXT(b, nested))
			if (b->rta_type == TCA_STATS_QUEUE)
				return RTA_DATA(b);
	}
	return NULL;
}

/* Returns the packets queued, and their bytes. */
static uint32_t queued(int nl, unsigned int ifindex, uint32_t *bytes)
{
	struct {
		struct nlmsghdr nlh;
		struct tcmsg tcm;
	} req = {
		.nlh = {
			.nlmsg_len = sizeof(req),
			.nlmsg_type = RTM_GETQDISC,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		},
		.tcm.tcm_ifindex = ifindex,
	};
	static char buf[65536] __attribute__((aligned(8)));
	const struct gnet_stats_queue *queue;
	const struct nlmsghdr *nlh;
	struct gnet_stats_queue found = { 0 };
	int len, seen = 0;

	if (send(nl, &req, sizeof(req), 0) < 0)
		fail("netlink");
	for (;;) {
		len = recv(nl, buf, sizeof(buf), 0);
		if (len < 0)
			fail("netlink");
		for (nlh = (void *)buf; NLMSG_OK(nlh, (unsigned int)len);
		     nlh = NLMSG_NEXT(nlh, len)) {
			if (nlh->nlmsg_type == NLMSG_ERROR)
				fail("netlink");
			if (nlh->nlmsg_type == NLMSG_DONE) {
				if (!seen)
					fail("no root qdisc");
				*bytes = found.backlog;
				return found.qlen;
			}
			queue = queue_of(nlh, ifindex);
			if (queue) {
				memcpy(&found, queue, sizeof(found));
				seen = 1;
			}
		}
	}
}

/* How long what is queued may take, with the two packets that may have left ahead of the
 * rate. What waits for its time may go at the rate only then.
 */
static int64_t due_ns(uint32_t bytes, int64_t rate_bit, const char *kinds)
{
	int64_t own_ns = 0, paced_ns;

	if (strchr(kinds, 't'))
		own_ns = AHEAD_NS;
	if (strchr(kinds, 'r')) {
		paced_ns = (packets + 2LL) * FRAME_MAX_BYTES * 8 * (int64_t)CLOCK_NS_PER_S / PACED_BIT;
		if (own_ns < paced_ns)
			own_ns = paced_ns;
	}
	if (rate_bit)
		own_ns += (bytes + 2LL * FRAME_MAX_BYTES) * 8 * (int64_t)CLOCK_NS_PER_S / rate_bit;
	return own_ns;
}

int main(int argc, char **argv)
{
	int64_t rate_bit, slack_ns, end_ns, left_ns, least_ns = INT64_MAX, sent = 0;
	uint32_t bytes, most_bytes = 0, left = 0;
	unsigned int ifindex, seed = 1;
	const char *kinds;
	int nl, i, round;

	if (argc != 8) {
		fprintf(stderr, "usage: bpdrain DEV DST KINDS ROUNDS PACKETS RATE_BIT SLACK_MS\n");
		return 2;
	}
	ifindex = if_nametoindex(argv[1]);
	kinds = argv[3];
	rounds = atoi(argv[4]);
	packets = atoi(argv[5]);
	rate_bit = atoll(argv[6]);
	slack_ns = atoll(argv[7]) * (int64_t)CLOCK_NS_PER_MS;
	threads = sysconf(_SC_NPROCESSORS_ONLN);
	if (threads > CPUS_MAX)
		threads = CPUS_MAX;
	nl = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	if (nl < 0 || !ifindex)
		fail(argv[1]);

	for (i = 0; i < threads; i++) {
		senders[i] = (struct sender){
			.index = i,
			.kind = kinds[i % strlen(kinds)],
			.seed = i,
		};
		open_sender(&senders[i], argv[2]);
		if (pthread_create(&senders[i].thread, NULL, run, &senders[i]))
			fail("thread");
	}
	for (round = 1; round <= rounds && !left; round++) {
		atomic_store(&started, round);
		while (atomic_load(&done) < round * threads)
			sleep_us(20);
		left = queued(nl, ifindex, &bytes);
		end_ns = clock_now_ns() + due_ns(bytes, rate_bit, kinds) + slack_ns;
		if (bytes > most_bytes)
			most_bytes = bytes;
		while (left && (int64_t)clock_now_ns() < end_ns) {
			sleep_us(50);
			left = queued(nl, ifindex, &bytes);
		}
		left_ns = end_ns - clock_now_ns();
		if (left_ns < least_ns)
			least_ns = left_ns;
		sleep_us(rand_r(&seed) % 300);
	}
	for (i = 0; i < threads; i++)
		sent += senders[i].sent;
	printf("{ \"rounds\": %d, \"sent\": %lld, \"left\": %u, \"most_bytes\": %u, \"spare_ms\": %.3f }\n",
	       round - 1, (long long)sent, left, most_bytes, least_ns / 1e6);
	fflush(stdout);
	_exit(0);
}
