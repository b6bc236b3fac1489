// SPDX-License-Identifier: GPL-2.0-only
/* bplaw: how much more than its rate did a shaper let through?
 *
 * usage: bplaw DEVICE RATE SECONDS [OVERHEAD MPU CELL]
 *
 * A packet counts as many bytes as it occupies on a link that adds OVERHEAD to
 * each, sends MPU at least, and, with CELL 1, sends cells of 53 bytes that
 * carry 48. Without the three it counts its length.
 *
 * Listens on DEVICE (the receiving end of the shaped link) for SECONDS and
 * computes, over all windows that begin and end with a packet, the largest
 * number of bytes in excess of RATE (bytes/s) times the length of the window.
 * For a token bucket that is at most its burst:
 *
 *	level = max(0, level - RATE * (time since the packet before)) + length
 *
 * and the largest level is that maximum. The kernel's receive time stamps are
 * used; on a veth they are taken as the packet leaves the qdisc at the other
 * end.
 *
 * Of the packets in the middle, without the first tenth and the last twentieth, in
 * which a shaper may have tokens left or nothing to send, it also computes the rate
 * at which they left, as the slope of the straight line through all of them, and
 * how far the gaps before them are from what each packet takes at RATE.
 *
 * Prints one JSON object; exits 1 if packets escaped it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <math.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

static double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

static int die(const char *what)
{
	fprintf(stderr, "bplaw: %s: ", what);
	perror(NULL);
	exit(1);
}

static int open_device(const char *device)
{
	int on = 1, rcvbuf = 256 << 20;
	struct sockaddr_ll addr = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = if_nametoindex(device),
	};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (fd < 0)
		die("socket");
	if (!addr.sll_ifindex)
		die(device);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &rcvbuf, sizeof(rcvbuf)) ||
	    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)))
		die("setsockopt");
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
		die("bind");
	return fd;
}

struct law {
	double		rate;
	size_t		overhead;
	size_t		mpu;
	size_t		has_cells;
	double		level;
	double		max_level;
	double		last;
	unsigned long	packets;
	unsigned long	bytes;
	unsigned long	oversized;
	struct departure *departures;
	size_t		room;
};

struct departure {
	double		at;
	double		len;
};

struct gaps {
	unsigned long	packets;
	double		bytes;
	double		rate;
	double		deviation_mean;
	double		deviation_stddev;
	double		deviation_p99;
	double		deviation_max;
};

static size_t wire_len(const struct law *law, size_t len)
{
	len += law->overhead;
	if (len < law->mpu)
		len = law->mpu;
	return law->has_cells ? (len + 47) / 48 * 53 : len;
}

static void law_remember(struct law *law, double now, size_t len)
{
	if (law->packets == law->room) {
		law->room = law->room ? 2 * law->room : 4096;
		law->departures = realloc(law->departures,
					  law->room * sizeof(*law->departures));
		if (!law->departures)
			die("realloc");
	}
	law->departures[law->packets] = (struct departure){ now, len };
}

static void law_packet(struct law *law, double now, size_t len)
{
	double drained = (now - law->last) * law->rate;

	law->level = law->level > drained ? law->level - drained : 0;
	law->level += wire_len(law, len);
	law->last = now;
	if (law->level > law->max_level)
		law->max_level = law->level;
	law_remember(law, now, wire_len(law, len));
	law->packets++;
	law->bytes += wire_len(law, len);
	law->oversized += len > ETH_FRAME_LEN;
}

/* Bytes that left before each packet, over its time: the slope of least squares does
 * not depend on where in a batch the first and the last packet are.
 */
static double slope(const struct departure *d, size_t n)
{
	double mean_t = 0, mean_b = 0, tt = 0, tb = 0, bytes = 0;

	for (size_t i = 0; i < n; i++) {
		mean_t += (d[i].at - d[0].at) / n;
		mean_b += bytes / n;
		bytes += d[i].len;
	}
	bytes = 0;
	for (size_t i = 0; i < n; i++) {
		double t = d[i].at - d[0].at - mean_t;

		tt += t * t;
		tb += t * (bytes - mean_b);
		bytes += d[i].len;
	}
	return tt > 0 ? tb / tt : 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void gaps_compute(const struct law *law, struct gaps *gaps)
{
	const struct departure *d = law->departures + law->packets / 10;
	size_t n = law->packets - law->packets / 10 - law->packets / 20;
	double *deviations = calloc(n + 1, sizeof(*deviations));
	double squares = 0;

	if (n < 3 || !deviations)
		return;
	gaps->packets = n;
	gaps->rate = slope(d, n);
	for (size_t i = 1; i < n; i++) {
		double deviation = d[i].at - d[i - 1].at - d[i].len / law->rate;

		gaps->bytes += d[i].len;
		gaps->deviation_mean += deviation / (n - 1);
		squares += deviation * deviation / (n - 1);
		deviations[i - 1] = fabs(deviation);
	}
	gaps->deviation_stddev =
		sqrt(fmax(0, squares - gaps->deviation_mean * gaps->deviation_mean));
	qsort(deviations, n - 1, sizeof(*deviations), compare);
	gaps->deviation_p99 = deviations[(n - 1) * 99 / 100];
	gaps->deviation_max = deviations[n - 2];
	free(deviations);
}

static void gaps_print(const struct gaps *gaps)
{
	printf(", \"rate_packets\": %lu, \"rate_Bps\": %.6f, "
	       "\"packet_bytes_mean\": %.3f, \"gap_deviation_mean_ns\": %.1f, "
	       "\"gap_deviation_stddev_ns\": %.1f, \"gap_deviation_p99_ns\": %.1f, "
	       "\"gap_deviation_max_ns\": %.1f", gaps->packets, gaps->rate,
	       gaps->packets > 1 ? gaps->bytes / (gaps->packets - 1) : 0,
	       gaps->deviation_mean * 1e9, gaps->deviation_stddev * 1e9,
	       gaps->deviation_p99 * 1e9, gaps->deviation_max * 1e9);
}

/* The stamp relative to the first, so that a double holds the nanoseconds. */
static double stamp_seconds(struct msghdr *msg)
{
	static struct timespec first;
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
	struct timespec *ts;

	if (!cmsg || cmsg->cmsg_type != SO_TIMESTAMPNS)
		die("no time stamp");
	ts = (struct timespec *)CMSG_DATA(cmsg);
	if (!first.tv_sec)
		first = *ts;
	return (ts->tv_sec - first.tv_sec) + (ts->tv_nsec - first.tv_nsec) * 1e-9;
}

static void receive_one(int fd, struct law *law)
{
	char data[64], control[256];
	struct sockaddr_ll from;
	struct iovec iov = { data, sizeof(data) };
	struct msghdr msg = {
		.msg_name = &from,
		.msg_namelen = sizeof(from),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t len = recvmsg(fd, &msg, MSG_TRUNC | MSG_DONTWAIT);

	if (len < 0) {
		if (errno != EAGAIN)
			die("recvmsg");
		return;
	}
	if (from.sll_pkttype != PACKET_OUTGOING)
		law_packet(law, stamp_seconds(&msg), len);
}

int main(int argc, char **argv)
{
	struct tpacket_stats stats = { 0 };
	socklen_t len = sizeof(stats);
	struct gaps gaps = { 0 };
	struct law law = { 0 };
	double end;
	int fd;

	if ((argc != 4 && argc != 7) || atof(argv[2]) <= 0 ||
	    atof(argv[3]) <= 0) {
		fprintf(stderr, "usage: bplaw DEVICE RATE SECONDS [OVERHEAD MPU CELL]\n");
		return 1;
	}
	if (argc == 7) {
		law.overhead = atoi(argv[4]);
		law.mpu = atoi(argv[5]);
		law.has_cells = atoi(argv[6]);
	}
	fd = open_device(argv[1]);
	law.rate = atof(argv[2]);
	for (end = seconds_now() + atof(argv[3]); seconds_now() < end;) {
		struct pollfd pfd = { .fd = fd, .events = POLLIN };

		if (poll(&pfd, 1, 100) > 0)
			receive_one(fd, &law);
	}
	if (getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len))
		die("PACKET_STATISTICS");
	printf("{ \"max_level_bytes\": %.0f, \"packets\": %lu, \"bytes\": %lu, "
	       "\"oversized\": %lu, \"escaped\": %u", law.max_level,
	       law.packets, law.bytes, law.oversized, stats.tp_drops);
	gaps_compute(&law, &gaps);
	gaps_print(&gaps);
	puts(" }");
	return stats.tp_drops ? 1 : 0;
}
