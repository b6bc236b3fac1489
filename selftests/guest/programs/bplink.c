// SPDX-License-Identifier: GPL-2.0-only
/* bplink: devices and tunnels that ip(8) cannot make, or not all that it takes
 *
 * usage: bplink team DEVICE
 *        bplink pppoe DEVICE MAC
 *        bplink espinudp
 *        bplink ovpn DEVICE REMOTE SIDE
 *
 * team: the team DEVICE sends by its ports in turn. It stays so when bplink exits; the others
 * last as long as bplink does, which says "ready".
 * pppoe: ppp0, a session over DEVICE with MAC, the same at both ends. Without LCP and IPCP.
 * espinudp: what comes to port 4500 is ESP in UDP.
 * ovpn: the OpenVPN device DEVICE, which exists, has the peer REMOTE (IPv4) and keys; SIDE is 0 at
 * one end and 1 at the other.
 *
 * Exits with 4 if the kernel has no such thing.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_team.h>
#include <linux/ppp-ioctl.h>
#include <net/if.h>
#include <netinet/ether.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/if_pppox.h>

#include "genl.h"

#define EXIT_SKIP	4
#define SESSION		1
#define ESP_PORT	4500
#define OVPN_PORT	1194
#define OVPN_KEY	"bpshaper's tests"	/* 16 bytes */

#define TEAM_STRING	5	/* NLA_STRING of the kernel */

/* linux/ovpn.h, of 6.16 */
enum { OVPN_PEER_NEW = 1, OVPN_KEY_NEW = 6 };
enum { OVPN_IFINDEX = 1, OVPN_PEER, OVPN_KEYCONF };
enum { PEER_ID = 1, PEER_REMOTE = 2, PEER_PORT = 5, PEER_SOCKET = 6 };
enum { KEY_PEER = 1, KEY_SLOT, KEY_ID, KEY_ALG, KEY_ENCRYPT, KEY_DECRYPT };
enum { DIR_KEY = 1, DIR_NONCE };
#define OVPN_AES_GCM	1

static void must(int good, const char *what)
{
	if (!good)
		fail(what, 1);
}

static void stay(void)
{
	printf("ready\n");
	fflush(stdout);
	pause();
}

static void team(char **argv)
{
	struct nlattr *list, *item;
	uint8_t type = TEAM_STRING;

	genl_begin(TEAM_GENL_NAME, TEAM_CMD_OPTIONS_SET, TEAM_GENL_VERSION);
	attr_put_u32(TEAM_ATTR_TEAM_IFINDEX, if_nametoindex(argv[0]));
	list = attr_put(TEAM_ATTR_LIST_OPTION | NLA_F_NESTED, NULL, 0);
	item = attr_put(TEAM_ATTR_ITEM_OPTION | NLA_F_NESTED, NULL, 0);
	attr_put(TEAM_ATTR_OPTION_NAME, "mode", sizeof("mode"));
	attr_put(TEAM_ATTR_OPTION_TYPE, &type, sizeof(type));
	attr_put(TEAM_ATTR_OPTION_DATA, "roundrobin", sizeof("roundrobin"));
	attr_end(item);
	attr_end(list);
	/* ESRCH: it is done, and nobody listens for such changes. */
	errno = message_try(NLM_F_ACK);
	must(!errno || errno == ESRCH, argv[0]);
}

static void pppoe(char **argv)
{
	int session = socket(AF_PPPOX, SOCK_STREAM, PX_PROTO_OE), channel, bundle, unit = -1;
	struct npioctl pass = { .protocol = 0x21 /* IPv4 */, .mode = NPMODE_PASS };
	struct sockaddr_pppox to = {
		.sa_family = AF_PPPOX,
		.sa_protocol = PX_PROTO_OE,
		.sa_addr.pppoe.sid = htons(SESSION),
	};

	if (session < 0)
		fail("PPPoE", EXIT_SKIP);
	memcpy(to.sa_addr.pppoe.remote, ether_aton(argv[1]), ETH_ALEN);
	strncpy(to.sa_addr.pppoe.dev, argv[0], IFNAMSIZ - 1);
	must(!connect(session, (struct sockaddr *)&to, sizeof(to)), "session");
	must(!ioctl(session, PPPIOCGCHAN, &channel), "channel");
	session = open("/dev/ppp", O_RDWR);
	must(session >= 0 && !ioctl(session, PPPIOCATTCHAN, &channel), "attach");
	bundle = open("/dev/ppp", O_RDWR);
	must(bundle >= 0 && !ioctl(bundle, PPPIOCNEWUNIT, &unit), "ppp0");
	must(!ioctl(session, PPPIOCCONNECT, &unit), "connect");
	must(!ioctl(bundle, PPPIOCSNPMODE, &pass), "IPv4");
	stay();
}

static int udp_socket(int port)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	must(fd >= 0 && !bind(fd, (struct sockaddr *)&any, sizeof(any)), "socket");
	return fd;
}

static void espinudp(char **argv)
{
	int esp = UDP_ENCAP_ESPINUDP;

	(void)argv;
	must(!setsockopt(udp_socket(ESP_PORT), IPPROTO_UDP, UDP_ENCAP, &esp, sizeof(esp)), "ESP");
	stay();
}

/* The nonces of the ends differ, as they have one key. */
static void ovpn_key(int type, char end)
{
	struct nlattr *nest = attr_put(type | NLA_F_NESTED, NULL, 0);
	char nonce[8] = { end };

	attr_put(DIR_KEY, OVPN_KEY, strlen(OVPN_KEY));
	attr_put(DIR_NONCE, nonce, sizeof(nonce));
	attr_end(nest);
}

static void ovpn(char **argv)
{
	int device = if_nametoindex(argv[0]), side = atoi(argv[2]);
	in_addr_t remote = inet_addr(argv[1]);
	uint16_t port = htons(OVPN_PORT);
	struct nlattr *nest;

	genl_begin("ovpn", OVPN_PEER_NEW, 1);
	attr_put_u32(OVPN_IFINDEX, device);
	nest = attr_put(OVPN_PEER | NLA_F_NESTED, NULL, 0);
	attr_put_u32(PEER_ID, 1);
	attr_put_u32(PEER_REMOTE, remote);
	attr_put(PEER_PORT, &port, sizeof(port));
	attr_put_u32(PEER_SOCKET, udp_socket(OVPN_PORT));
	attr_end(nest);
	message_send("peer", NLM_F_ACK, 1);
	genl_begin("ovpn", OVPN_KEY_NEW, 1);
	attr_put_u32(OVPN_IFINDEX, device);
	nest = attr_put(OVPN_KEYCONF | NLA_F_NESTED, NULL, 0);
	attr_put_u32(KEY_PEER, 1);
	attr_put_u32(KEY_SLOT, 0);
	attr_put_u32(KEY_ID, 0);
	attr_put_u32(KEY_ALG, OVPN_AES_GCM);
	ovpn_key(KEY_ENCRYPT, side);
	ovpn_key(KEY_DECRYPT, !side);
	attr_end(nest);
	message_send("key", NLM_F_ACK, 1);
	stay();
}

int main(int argc, char **argv)
{
	static const struct {
		const char	*name;
		int		words;
		void		(*make)(char **argv);
	} kinds[] = {
		{ "team", 1, team }, { "pppoe", 2, pppoe }, { "espinudp", 0, espinudp },
		{ "ovpn", 3, ovpn },
	};

	for (size_t i = 0; argc > 1 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(argv[1], kinds[i].name) && argc == 2 + kinds[i].words) {
			kinds[i].make(argv + 2);
			return 0;
		}
	errno = EINVAL;
	fail("usage: bplink team|pppoe|espinudp|ovpn WORD...", 1);
}
