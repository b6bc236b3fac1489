// SPDX-License-Identifier: GPL-2.0-only
/* bpwire: two devices and the wire between them
 *
 * usage: bpwire tun|slip
 *
 * Makes two devices of that kind, prints their names and carries what leaves one
 * to the other. That is a wire that can be stopped (SIGSTOP): a tun device then
 * drops what its ring cannot take, a SLIP device stops its queue. When the
 * process ends, so do the devices.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/tty.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static void fail(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static int open_tun(char *name)
{
	struct ifreq ifr = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);

	if (fd < 0 || ioctl(fd, TUNSETIFF, &ifr))
		fail("tun");
	strcpy(name, ifr.ifr_name);
	return fd;
}

/* The network device is what the slave of a pty becomes; its descriptor stays open
 * for as long as the device is to live.
 */
static int open_slip(char *name)
{
	int slave, ldisc = N_SLIP, master;
	struct termios raw;

	master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK);
	if (master < 0 || grantpt(master) || unlockpt(master))
		fail("ptmx");
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	if (slave < 0 || tcgetattr(slave, &raw))
		fail("pty");
	cfmakeraw(&raw);
	if (tcsetattr(slave, TCSANOW, &raw) || ioctl(slave, TIOCSETD, &ldisc) ||
	    ioctl(slave, SIOCGIFNAME, name) < 0)
		fail("slip");
	return master;
}

/* The line discipline takes what is written without telling the writer that there
 * is room again: so it has to ask.
 */
static void carry(int from, int to)
{
	static char buffer[65536];
	ssize_t len = read(from, buffer, sizeof(buffer)), done = 0, n;

	if (len < 0 && errno != EAGAIN)
		fail("read");
	while (done < len) {
		n = write(to, buffer + done, len - done);
		if (n > 0)
			done += n;
		else if (errno == EAGAIN)
			usleep(100);
		else if (errno == EIO)	/* a device that is down */
			return;
		else
			fail("write");
	}
}

int main(int argc, char **argv)
{
	char names[2][IFNAMSIZ];
	struct pollfd ends[2];

	if (argc != 2)
		fail("usage: bpwire tun|slip");
	for (int i = 0; i < 2; i++) {
		ends[i].fd = strcmp(argv[1], "slip") ? open_tun(names[i]) :
						       open_slip(names[i]);
		ends[i].events = POLLIN;
	}
	printf("%s %s\n", names[0], names[1]);
	fflush(stdout);
	for (;;) {
		if (poll(ends, 2, -1) < 0)
			fail("poll");
		for (int i = 0; i < 2; i++)
			if (ends[i].revents & POLLIN)
				carry(ends[i].fd, ends[!i].fd);
	}
}
