// SPDX-License-Identifier: GPL-2.0-only
/* The receiver: a packet socket that sees what arrives, and when. */
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdlib.h>

#include "bppeers.h"
#include "system.h"
#include "udp.h"

#define BATCH		64
#define QUIET_NS	(500 * CLOCK_NS_PER_MS)
#define FETCH_NS	(2 * CLOCK_NS_PER_MS)
#define RCVBUF		(256 << 20)

struct sink {
	int fd;
	int64_t offset_ns;
	struct mmsghdr messages[BATCH];
	struct iovec iov[BATCH];
	struct sockaddr_ll from[BATCH];
	uint8_t frames[BATCH][128];
	char controls[BATCH][CMSG_SPACE(sizeof(struct timespec))];
};

struct sink *sink_open(const char *device)
{
	struct sockaddr_ll at = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = if_nametoindex(device),
	};
	int fd = socket(AF_PACKET, SOCK_RAW, 0), rcvbuf = RCVBUF, on = 1;
	struct sink *k = allocate(1, sizeof(*k));

	if (fd < 0 || !at.sll_ifindex ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &rcvbuf, sizeof(rcvbuf)) ||
	    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)))
		fail(device);
	k->fd = fd;
	k->offset_ns = clock_realtime_offset_ns();
	return k;
}

/* The message in a frame, or NULL. */
static const struct message *frame_message(const uint8_t *frame, size_t len)
{
	const uint8_t *l3 = frame + ETH_HLEN, *l4;
	const struct message *m;
	uint8_t protocol;

	if (frame[12] == 0x08 && frame[13] == 0x00) {
		protocol = l3[9];
		l4 = l3 + 4 * (l3[0] & 15);
	} else if (frame[12] == 0x86 && frame[13] == 0xdd) {
		protocol = l3[6];
		l4 = l3 + 40;
	} else {
		return NULL;
	}
	m = (const struct message *)(protocol == IPPROTO_OURS ? l4 : l4 + 8);
	if ((const uint8_t *)(m + 1) > frame + len || m->magic != MAGIC ||
	    m->sender >= senders_len ||
	    m->peer >= senders[m->sender].sockets * senders[m->sender].peers)
		return NULL;
	return m;
}

/* ECN CE of IPv4 */
static bool is_congested(const uint8_t *frame)
{
	return frame[12] == 0x08 && (frame[ETH_HLEN + 1] & 3) == 3;
}

static void delay_add(struct sender *s, int64_t delay_ns)
{
	if (s->delays == s->room) {
		s->room = s->room ? 2 * s->room : 4096;
		s->delays_ns = realloc(s->delays_ns, s->room * sizeof(*s->delays_ns));
		if (!s->delays_ns)
			fail("realloc");
	}
	s->delays_ns[s->delays++] = delay_ns;
}

static void time_account(struct sender *s, const struct message *m, int64_t at_ns)
{
	int64_t late_ns = at_ns - (int64_t)m->due_ns;

	if (!m->due_ns) {
		if (m->sent_ns >= warm_ns)
			delay_add(s, at_ns - (int64_t)m->sent_ns);
		return;
	}
	s->due_early += late_ns < 0;
	if (late_ns > s->due_late_ns)
		s->due_late_ns = late_ns;
}

/* How far it has been ahead of most_Bps: a leaky bucket. */
static void level_account(struct sender *s, size_t len, int64_t at_ns)
{
	s->level -= (at_ns - s->level_ns) * s->most_Bps / CLOCK_NS_PER_S;
	s->level = (s->level > 0 ? s->level : 0) + len;
	s->level_ns = at_ns;
	if (s->most_Bps && s->level > s->highest)
		s->highest = s->level;
}

static bool is_in_window(int64_t at_ns)
{
	return at_ns >= (int64_t)warm_ns && at_ns < (int64_t)end_ns;
}

static void message_account(const struct message *m, size_t len, int64_t at_ns)
{
	struct sender *s = &senders[m->sender];
	struct peer *peer = &s->all_peers[m->peer];

	s->received++;
	if (!is_measured(s) || s->due_ns || s->has_ages)
		time_account(s, m, at_ns);
	if (s->list_len) {
		s->arrived_ns[s->arrived] = at_ns - m->sent_ns;
		s->order[s->arrived++] = m->sequence;
		return;
	}
	if (m->due_ns && !s->is_timed)
		return;
	level_account(s, len, at_ns);
	if (arrivals && is_measured(s))
		fprintf(arrivals, "%s %lld %zu\n", s->name,
			(long long)(at_ns - (int64_t)start_ns), len);
	s->reordered += m->sequence < peer->last;
	peer->last = m->sequence;
	if (is_in_window(at_ns)) {
		peer->packets++;
		s->bytes += len;
	}
}

static unsigned int sink_fetch(struct sink *k)
{
	unsigned int all = 0;
	int count, i;

	do {
		for (i = 0; i < BATCH; i++) {
			k->iov[i] = (struct iovec){ k->frames[i], sizeof(k->frames[i]) };
			k->messages[i].msg_hdr = (struct msghdr){
				.msg_name = &k->from[i],
				.msg_namelen = sizeof(k->from[i]),
				.msg_iov = &k->iov[i],
				.msg_iovlen = 1,
				.msg_control = k->controls[i],
				.msg_controllen = sizeof(k->controls[i]),
			};
		}
		count = recvmmsg(k->fd, k->messages, BATCH, MSG_DONTWAIT | MSG_TRUNC, NULL);
		for (i = 0; i < count; i++) {
			size_t len = k->messages[i].msg_len;
			const struct message *m =
				frame_message(k->frames[i], len < 128 ? len : 128);

			int64_t at_ns = udp_stamp(&k->messages[i].msg_hdr) - k->offset_ns;

			if (k->from[i].sll_pkttype == PACKET_OUTGOING)
				continue;
			if (m) {
				message_account(m, len, at_ns);
				senders[m->sender].congested += is_congested(k->frames[i]);
				all++;
			} else if (is_in_window(at_ns)) {
				other_bytes += len;
			}
		}
	} while (count == BATCH);
	return all;
}

static bool has_all(void)
{
	for (unsigned int i = 0; i < senders_len; i++)
		if (senders[i].received < atomic_load(&senders[i].sent))
			return false;
	return true;
}

/* At the first @now_ns that is not before the warm-up's end, and not before the end. */
static void busy_account(uint64_t now_ns)
{
	static struct system_counters from, to;
	static unsigned int seen;

	if (!seen && now_ns >= warm_ns) {
		system_read(&from);
		seen++;
	} else if (seen == 1 && now_ns >= end_ns) {
		system_read(&to);
		busy_ns = system_since(&from, &to).busy_ns;
		seen++;
	}
}

void sink_run(struct sink *k)
{
	uint64_t now_ns = clock_now_ns(), latest_ns = now_ns, longest_ns = QUIET_NS;

	for (unsigned int i = 0; i < senders_len; i++) {
		longest_ns += senders[i].due_ns;
		if (senders[i].later_ns > 0)
			longest_ns += senders[i].later_ns;
		for (unsigned int j = 0; j < senders[i].list_len; j++)
			longest_ns += senders[i].list[j].after_ns;
	}
	thread_raise();
	for (;;) {
		clock_sleep_until(now_ns + FETCH_NS);
		now_ns = clock_now_ns();
		if (sink_fetch(k) || atomic_load(&running) || now_ns < end_ns)
			latest_ns = now_ns;
		if (has_busy)
			busy_account(now_ns);
		if (!atomic_load(&running) && now_ns >= end_ns &&
		    (has_all() || now_ns > latest_ns + longest_ns))
			return;
	}
}
