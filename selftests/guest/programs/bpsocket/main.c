// SPDX-License-Identifier: GPL-2.0-only
/* bpsocket: what a throttled socket's owner sees
 *
 * usage: bpsocket TYPE DST CASE [DEVICE [NETNS | SOCKETS]]
 *
 * TYPE is udp, udplite, ping, raw, hdrincl (raw with its own IP header), packet, tap,
 * tap-gso (all three need DEVICE), tcp, tls, mptcp, smc or sctp; DST an IPv4 or IPv6 address;
 * CASE one of the tables in the other files; NETNS where what is sent arrives, for
 * streams and for the cases that look at it; SOCKETS how many the case many has. The caller has put a slow shaper in
 * front of DST. Exits 0 and prints nothing if the case went as it must, 4 and
 * prints what the kernel lacks, or 1 and prints why not.
 */
#include <string.h>

#include "bpsocket.h"

static const struct bpsocket_case *find_case(const char *name)
{
	static const struct bpsocket_case * const tables[] = {
		wait_cases, charge_cases, send_cases, shared_cases,
		stream_cases, link_cases, end_cases,
	};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct bpsocket_case *c = tables[i]; c->name; c++)
			if (!strcmp(c->name, name))
				return c;
	fail("unknown case %s", name);
}

int main(int argc, char **argv)
{
	const struct bpsocket_case *c;
	int fd;

	if (argc < 4)
		fail("usage: bpsocket TYPE DST CASE [DEVICE [NETNS | SOCKETS]]");
	self.type = argv[1];
	self.dst = argv[2];
	self.device = argc > 4 ? argv[4] : "lo";
	self.netns = argc > 5 ? argv[5] : NULL;
	c = find_case(argv[3]);
	fd = open_socket();
	c->run(fd);
	if (self.is_stream)
		stream_finish(fd);
	return 0;
}
