// SPDX-License-Identifier: GPL-2.0-only
/* The uAPI in a 32-bit program: it adds a qdisc and a class, changes it, is
 * refused, and reads options and the statistics of qdisc, flow and class. Their
 * structs must have the same length, and each member the same place, as in the
 * 64-bit kernel.
 *
 * usage: compat32 DEVICE ADDRESS
 *
 * ADDRESS is behind DEVICE and takes datagrams. Built with -m32.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sch_bpshaper.h"

_Static_assert(sizeof(long) == 4, "to be built with -m32");

#define HANDLE		0x00010000U
#define CLASSID		0x00010001U
#define PACKETS		5
#define DATA_LENGTH	100

struct message {
	struct nlmsghdr	head;
	struct tcmsg	tc;
	char		attrs[512];
};

static int netlink, ifindex, failures;
static __u32 sequence;
static char reply[32768] __attribute__((aligned(8)));

static void check(bool is_ok, const char *what)
{
	if (is_ok)
		return;
	printf("failed: %s\n", what);
	failures++;
}

static void must(bool is_ok, const char *what)
{
	if (is_ok)
		return;
	perror(what);
	exit(2);
}

static struct rtattr *attr_put(struct message *m, int type, const void *data,
			       int length)
{
	struct rtattr *a = (void *)((char *)m + NLMSG_ALIGN(m->head.nlmsg_len));

	a->rta_type = type;
	a->rta_len = RTA_LENGTH(length);
	if (length)
		memcpy(RTA_DATA(a), data, length);
	m->head.nlmsg_len = NLMSG_ALIGN(m->head.nlmsg_len) +
			    RTA_ALIGN(a->rta_len);
	return a;
}

static void message_init(struct message *m, int type, int flags)
{
	memset(m, 0, sizeof(*m));
	m->head.nlmsg_len = NLMSG_LENGTH(sizeof(m->tc));
	m->head.nlmsg_type = type;
	m->head.nlmsg_flags = NLM_F_REQUEST | flags;
	m->tc.tcm_ifindex = ifindex;
	m->tc.tcm_parent = TC_H_ROOT;
	m->tc.tcm_handle = HANDLE;
	if (type == RTM_NEWQDISC || type == RTM_NEWTCLASS)
		attr_put(m, TCA_KIND, "bpshaper", 9);
}

/* Skip what is left of the answer to an earlier message: the end of a dump. */
static void ask(struct message *m)
{
	struct nlmsghdr *n = (struct nlmsghdr *)reply;

	m->head.nlmsg_seq = ++sequence;
	must(send(netlink, m, m->head.nlmsg_len, 0) >= 0, "send");
	do
		must(recv(netlink, reply, sizeof(reply), 0) > 0, "recv");
	while (n->nlmsg_seq != sequence);
}

static int options_set(int flags, __u64 rate, __u32 burst)
{
	struct message m;
	struct rtattr *nest;

	message_init(&m, RTM_NEWQDISC, NLM_F_ACK | flags);
	nest = attr_put(&m, TCA_OPTIONS | NLA_F_NESTED, NULL, 0);
	attr_put(&m, TCA_BPSHAPER_RATE64, &rate, sizeof(rate));
	attr_put(&m, TCA_BPSHAPER_BURST, &burst, sizeof(burst));
	nest->rta_len = (char *)&m + m.head.nlmsg_len - (char *)nest;
	ask(&m);
	return ((struct nlmsgerr *)NLMSG_DATA((struct nlmsghdr *)reply))->error;
}

/* A class of the qdisc, for all packets. */
static bool class_add(__u64 floor, __u32 limit)
{
	__u32 minor = CLASSID & TC_H_MIN_MASK;
	struct message m;
	struct rtattr *nest;

	message_init(&m, RTM_NEWQDISC, NLM_F_ACK);
	nest = attr_put(&m, TCA_OPTIONS | NLA_F_NESTED, NULL, 0);
	attr_put(&m, TCA_BPSHAPER_DEFAULT, &minor, sizeof(minor));
	nest->rta_len = (char *)&m + m.head.nlmsg_len - (char *)nest;
	ask(&m);

	message_init(&m, RTM_NEWTCLASS, NLM_F_ACK | NLM_F_CREATE);
	m.tc.tcm_parent = HANDLE;
	m.tc.tcm_handle = CLASSID;
	nest = attr_put(&m, TCA_OPTIONS | NLA_F_NESTED, NULL, 0);
	attr_put(&m, TCA_BPSHAPER_CLASS_FLOOR64, &floor, sizeof(floor));
	attr_put(&m, TCA_BPSHAPER_CLASS_LIMIT, &limit, sizeof(limit));
	nest->rta_len = (char *)&m + m.head.nlmsg_len - (char *)nest;
	ask(&m);
	return !((struct nlmsgerr *)NLMSG_DATA((struct nlmsghdr *)reply))->error;
}

static struct rtattr *attr_find(struct rtattr *a, int length, int type)
{
	for (; RTA_OK(a, length); a = RTA_NEXT(a, length))
		if ((a->rta_type & NLA_TYPE_MASK) == type)
			return a;
	return NULL;
}

static struct rtattr *attr_inside(struct rtattr *nest, int type)
{
	if (!nest)
		return NULL;
	return attr_find(RTA_DATA(nest), RTA_PAYLOAD(nest), type);
}

static struct rtattr *reply_attr(int type)
{
	struct nlmsghdr *n = (struct nlmsghdr *)reply;
	struct tcmsg *tc = NLMSG_DATA(n);

	if (n->nlmsg_type != RTM_NEWQDISC && n->nlmsg_type != RTM_NEWTCLASS)
		return NULL;
	return attr_find((void *)(tc + 1), NLMSG_PAYLOAD(n, sizeof(*tc)), type);
}

static void options_check(__u64 rate, __u32 burst)
{
	struct rtattr *options, *a;
	struct message m;

	message_init(&m, RTM_GETQDISC, NLM_F_ECHO);
	ask(&m);
	options = reply_attr(TCA_OPTIONS);
	a = attr_inside(options, TCA_BPSHAPER_RATE64);
	check(a && RTA_PAYLOAD(a) == sizeof(rate) &&
	      !memcmp(RTA_DATA(a), &rate, sizeof(rate)), "the rate is shown");
	a = attr_inside(options, TCA_BPSHAPER_BURST);
	check(a && RTA_PAYLOAD(a) == sizeof(burst) &&
	      !memcmp(RTA_DATA(a), &burst, sizeof(burst)), "the burst is shown");
}

/* Send datagrams at 8 bit/s: the first leaves, the others are queued. */
static __u64 traffic(const char *address)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	int i, sock = socket(AF_INET, SOCK_DGRAM, 0);
	char data[DATA_LENGTH] = {};
	socklen_t length = 8;
	__u64 cookie = 0;

	must(inet_pton(AF_INET, address, &to.sin_addr) == 1, address);
	must(!getsockopt(sock, SOL_SOCKET, SO_COOKIE, &cookie, &length),
	     "SO_COOKIE");
	for (i = 0; i < PACKETS; i++)
		must(sendto(sock, data, sizeof(data), 0, (void *)&to,
			    sizeof(to)) > 0, "sendto");
	return cookie;
}

static void qdisc_delete(void)
{
	struct message m;

	message_init(&m, RTM_DELQDISC, NLM_F_ACK);
	ask(&m);
}

static void qdisc_stats_check(void)
{
	struct tc_bpshaper_xstats st = {};
	struct rtattr *a;
	struct message m;

	message_init(&m, RTM_GETQDISC, NLM_F_ECHO);
	ask(&m);
	a = attr_inside(reply_attr(TCA_STATS2), TCA_STATS_APP);
	check(a && RTA_PAYLOAD(a) == sizeof(st),
	      "the statistics of the qdisc have one length");
	if (a && RTA_PAYLOAD(a) == sizeof(st))
		memcpy(&st, RTA_DATA(a), sizeof(st));
	check(st.type == TC_BPSHAPER_XSTATS_QDISC, "their type is the qdisc's");
	check(st.direct_packets >= 1, "direct_packets is in its place");
	check(st.flows == 1 && st.socket_flows == 1, "flows are in their place");
	check(st.limit == 12112, "limit is in its place");
	check(st.delay_hist[0] + st.delay_hist[1] + st.delay_hist[2] +
	      st.delay_hist[3] + st.delay_hist[4] + st.delay_hist[5] +
	      st.delay_hist[6] + st.delay_hist[7] + st.delay_hist[8] +
	      st.delay_hist[9] == 1, "the histogram is in its place");
	check(st.sockets == 1 && st.outside_sockets == 0, "sockets are in their place");
}

/* A flow that is listed as a class */
static void flow_stats_check(__u64 cookie, const char *address)
{
	struct tc_bpshaper_class_xstats st = {};
	char peer[INET_ADDRSTRLEN] = "";
	struct rtattr *a;
	struct message m;

	message_init(&m, RTM_GETTCLASS, NLM_F_DUMP);
	m.tc.tcm_handle = 0;
	m.tc.tcm_parent = 0;
	ask(&m);
	a = attr_inside(reply_attr(TCA_STATS2), TCA_STATS_APP);
	check(a && RTA_PAYLOAD(a) == sizeof(st),
	      "the statistics of a flow have one length");
	if (a && RTA_PAYLOAD(a) == sizeof(st))
		memcpy(&st, RTA_DATA(a), sizeof(st));
	check(st.type == TC_BPSHAPER_XSTATS_CLASS, "their type is the flow's");
	check(st.state == TC_BPSHAPER_FLOW_UNTHROTTLED, "state is in its place");
	check(st.cookie == cookie, "cookie is in its place");
	check(st.family == AF_INET && st.protocol == IPPROTO_UDP,
	      "family and protocol are in their place");
	check(st.socket_flows == 1 && st.socket_backlog > DATA_LENGTH,
	      "what the socket holds is in its place");
	inet_ntop(AF_INET, st.peer, peer, sizeof(peer));
	check(st.peer_family == AF_INET && !strcmp(peer, address),
	      "the peer is in its place");
	check(st.peer_port == htons(9), "the port of the peer is in its place");
}

static void class_stats_check(__u64 floor, __u32 limit)
{
	struct tc_bpshaper_leaf_xstats st = {};
	struct gnet_stats_basic basic = {};
	struct rtattr *a, *option;
	struct message m;
	__u64 delays = 0;
	int i;

	message_init(&m, RTM_GETTCLASS, NLM_F_ECHO);
	m.tc.tcm_parent = HANDLE;
	m.tc.tcm_handle = CLASSID;
	ask(&m);
	option = attr_inside(reply_attr(TCA_OPTIONS), TCA_BPSHAPER_CLASS_FLOOR64);
	check(option && RTA_PAYLOAD(option) == sizeof(floor) &&
	      !memcmp(RTA_DATA(option), &floor, sizeof(floor)),
	      "the floor is shown");
	a = attr_inside(reply_attr(TCA_STATS2), TCA_STATS_BASIC);
	if (a && RTA_PAYLOAD(a) >= 12)
		memcpy(&basic, RTA_DATA(a), 12);
	a = attr_inside(reply_attr(TCA_STATS2), TCA_STATS_APP);
	check(a && RTA_PAYLOAD(a) == sizeof(st),
	      "the statistics of a class have one length");
	if (a && RTA_PAYLOAD(a) == sizeof(st))
		memcpy(&st, RTA_DATA(a), sizeof(st));
	check(st.type == TC_BPSHAPER_XSTATS_LEAF, "their type is the class's");
	check(st.children == 0 && st.throttles == 0, "children are in their place");
	check(st.flows == 1 && st.socket_flows == 1 && st.sockets == 1,
	      "flows of the class are in their place");
	check(st.limit == limit, "limit of the class is in its place");
	check(st.paced_flows == 0, "paced_flows are in their place");
	for (i = 0; i < TC_BPSHAPER_HIST_BUCKETS; i++)
		delays += st.delay_hist[i];
	check(delays == basic.packets && !st.outside_hist[0],
	      "the histograms of the class are in their place");
}

int main(int argc, char **argv)
{
	__u64 cookie;

	if (argc != 3)
		return 2;
	ifindex = if_nametoindex(argv[1]);
	must(ifindex, argv[1]);
	netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	must(netlink >= 0, "socket");

	check(options_set(NLM_F_CREATE | NLM_F_EXCL, TC_BPSHAPER_RATE_MAX, 9000)
	      == 0, "a qdisc is added");
	options_check(TC_BPSHAPER_RATE_MAX, 9000);
	check(options_set(0, 1, 3028) == 0, "a qdisc is changed");
	options_check(1, 3028);
	check(options_set(0, TC_BPSHAPER_RATE_MAX + 1, 1) == -ERANGE &&
	      options_set(0, 1, 0) == -ERANGE, "a bad change is refused");
	options_check(1, 3028);
	qdisc_delete();

	options_set(NLM_F_CREATE, 1, 1);
	cookie = traffic(argv[2]);
	qdisc_stats_check();
	flow_stats_check(cookie, argv[2]);
	qdisc_delete();

	options_set(NLM_F_CREATE, 1000, 1);
	check(class_add(7, 5000), "a class is added");
	traffic(argv[2]);
	class_stats_check(7, 5000);
	qdisc_delete();
	return failures != 0;
}
