// SPDX-License-Identifier: GPL-2.0-only
/* bppeers: sockets with many peers, and what each peer gets
 *
 * usage: bppeers TX_NETNS TX_DEVICE RX_NETNS RX_DEVICE SECONDS WARMUP_MS SENDER...
 *
 * SENDER is NAME:KIND[,OPTION[=VALUE]]... KIND is a kind of socket:
 *	udp, udp6, udplite, udplite6, ping, ping6
 *	hdrincl		raw, with an IPv4 header of its own, protocol 253
 *	icmp, raw6	raw, of ICMP and of IPv6 with protocol 253
 *	packet, dgram	packet sockets, with and without the Ethernet header; both
 *			send IPv4 and UDP
 *	tap, vhost	no socket, but a virtual machine, of which a socket is a queue: a
 *			process writes frames to a tap, or vhost-net takes them from a ring
 * OPTION is one of
 *	sockets=N	1
 *	peers=N		of each socket, 1; a socket of one peer is connected
 *	ports=N		peers of one address, all; others are at the next addresses
 *	size=BYTES	of the payload, 1470, or 1450 with IPv6
 *	sndbuf=BYTES	(SO_SNDBUFFORCE; TUNSETSNDBUF)
 *	bypass		of packet: past the qdiscs of the device (PACKET_QDISC_BYPASS)
 *	poll		MSG_DONTWAIT and poll() instead of blocking
 *	gso=N		packets in one sendmsg() (UDP_SEGMENT), of one peer
 *	max_rate=BITS	bit/s, SO_MAX_PACING_RATE
 *	tos=N		IP_TOS, of IPv4: 1 and 2 are capable of ECN
 *	pace=US		no packet earlier than that after the one before
 *	every=US	one packet in that time, for which delays are reported
 *	frame=N		N of them at once, 1
 *	mmsg		a frame in one sendmmsg()
 *	refuse		MSG_DONTWAIT, and what gets EAGAIN is not sent again
 *	edge		MSG_DONTWAIT and epoll with edge triggers instead of blocking
 *	class=MAJOR-MINOR	SO_PRIORITY that names a class, in hexadecimal
 *	classes=N	the next of N classes from that of class= on, before each packet
 *	most=BITS	bit/s, for burst below
 *	from=MS		when it begins, after the start
 *	until=MS	when it ends; the end
 *	device=NAME	of tap and vhost: a tap, which is made if it is not there, or the
 *			path of a macvtap or ipvtap
 *	ring=N		descriptors of a ring of vhost, 256
 *	mac=ADDRESS	whom frames of tap, vhost and packet are for
 *	ages		delays are reported without every=, too
 *	due=MS		before all others a packet to peer 0 that leaves in MS (SO_TXTIME)
 *	uid=N		user of its sockets, 0
 *	uids=N		the next of N users from that of uid= on, for one socket after the other
 *	fresh=N		a socket for N packets, and then another one, of any port
 *	later=MS	packets that leave so much later (SO_TXTIME), 0
 *	at=MS		packets that all leave then, after the start (SO_TXTIME)
 *	timed=N		N packets in turn without a time, and N with
 *	reconnect=N	N packets to all peers, and then connect to one peer, to the next,
 *			and to none, in the midst of traffic
 *	disconnected	as after connect() and connect(AF_UNSPEC), once
 *	list=PEER[@MS]/PEER[@MS]/...
 *			these packets and no others, in one sendmmsg(), with their times
 * A socket sends to its peers in turn, as fast as it can. Addresses are those from
 * 10.100.0.1 and fd9a::1, to which there must be a route; nobody need answer there.
 * Lists and the packets of due= are sent before everything else, in the order of the
 * arguments.
 *
 * What arrives is seen by a packet socket on RX_DEVICE. Prints one JSON object. Of each
 * sender, as NAME_KEY:
 *	received, congested	packets; those with the mark CE
 *	sent, lost, reordered	packets; reordered is within a peer
 *	mbit, part		after the warm-up, of the wire and of all that senders
 *				without every= and list= have
 *	reached			peers that got anything after the warm-up
 *	least, most, jain	packets of a peer then, of those of all sockets
 *	delay_p50_ms, delay_p99_ms, delay_max_ms
 *				of packets without a time
 *	due_early, due_late_ms	of packets with one: packets, and the most
 *	order, times_ms		of a list: indices as they arrived, and when
 *	burst			the most bytes that were ahead of most=, at the receiver
 *	full, full_part		of tap and vhost: times that a queue had no room, and part of
 *				the time that it had none, on average
 *	completed		of them: frames that the kernel has taken
 *	no_buffers		times that ENOBUFS was returned, and the sender slept 1 ms
 *	refused			of refuse: packets
 * and of all without every= and list=: mbit, jain. other_mbit is of what nobody of them sent.
 * With $BUSY, and if there is one CPU: host_us, the time that it was busy after the warm-up,
 * with all that this program does, for each packet that arrived then. Reading it takes time.
 * With $ARRIVALS, a file, it gets a line for each packet of these: name, nanoseconds after the
 * start, bytes.
 * Exits with 3 if the kernel has no such kind of socket.
 */
#include <errno.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bppeers.h"
#include "netns.h"

struct task {
	struct sender *sender;
	unsigned int socket;
	pthread_t thread;
};

struct sender senders[SENDERS_MAX];
unsigned int senders_len;
unsigned int tx_ifindex;
uint64_t start_ns, warm_ns, end_ns, other_bytes;
_Atomic unsigned int running;
FILE *arrivals;
bool has_busy;
int64_t busy_ns;

void fail(const char *what)
{
	int status = errno == EPROTONOSUPPORT || errno == ESOCKTNOSUPPORT ? 3 : 2;

	fprintf(stderr, "bppeers: %s: %s\n", what, strerror(errno));
	exit(status);
}

void *allocate(size_t count, size_t size)
{
	void *p = calloc(count, size);

	if (!p)
		fail("calloc");
	return p;
}

bool is_measured(const struct sender *s)
{
	return !s->every_ns && !s->list_len;
}

void thread_raise(void)
{
	setpriority(PRIO_PROCESS, syscall(SYS_gettid), -20);
}

static void *task_run(void *arg)
{
	struct task *t = arg;

	clock_sleep_until(start_ns);
	socket_run(t->sender, t->socket);
	atomic_fetch_sub(&running, 1);
	return NULL;
}

static void tasks_start(struct task *tasks)
{
	unsigned int len = 0;
	int error;

	for (unsigned int i = 0; i < senders_len; i++) {
		struct sender *s = &senders[i];

		if (s->list_len)
			list_send(s);
		if (s->due_ns)
			due_send(s);
	}
	for (unsigned int i = 0; i < senders_len; i++) {
		for (unsigned int j = 0; !senders[i].list_len && j < senders[i].sockets; j++) {
			struct task *t = &tasks[len++];

			*t = (struct task){ .sender = &senders[i], .socket = j };
			atomic_fetch_add(&running, 1);
			error = pthread_create(&t->thread, NULL, task_run, t);
			if (error) {
				errno = error;
				fail("pthread_create");
			}
		}
	}
}

int main(int argc, char **argv)
{
	struct sink *sink;
	unsigned int sockets = 0;

	if (argc < 8 || argc - 7 > SENDERS_MAX) {
		fprintf(stderr, "usage: bppeers TX_NETNS TX_DEVICE RX_NETNS RX_DEVICE SECONDS WARMUP_MS SENDER...\n");
		return 2;
	}
	if (netns_enter(argv[3]))
		fail(argv[3]);
	sink = sink_open(argv[4]);
	if (netns_enter(argv[1]))
		fail(argv[1]);
	tx_ifindex = if_nametoindex(argv[2]);
	for (; senders_len < (unsigned int)argc - 7; senders_len++)
		sender_parse(&senders[senders_len], argv[7 + senders_len]);
	for (unsigned int i = 0; i < senders_len; i++) {
		sockets += senders[i].sockets;
		for (unsigned int j = 0; j < senders[i].sockets; j++)
			senders[i].fds[j] = socket_open(&senders[i], j);
	}
	start_ns = clock_now_ns() + 10 * CLOCK_NS_PER_MS;
	warm_ns = start_ns + strtoul(argv[6], NULL, 10) * CLOCK_NS_PER_MS;
	end_ns = start_ns + atof(argv[5]) * CLOCK_NS_PER_S;
	has_busy = getenv("BUSY");
	if (getenv("ARRIVALS")) {
		arrivals = fopen(getenv("ARRIVALS"), "w");
		if (!arrivals)
			fail("ARRIVALS");
	}
	tasks_start(allocate(sockets + 1, sizeof(struct task)));
	sink_run(sink);
	report();
	if (arrivals && fclose(arrivals))
		fail("ARRIVALS");
	return 0;
}
