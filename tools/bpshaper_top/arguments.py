# SPDX-License-Identifier: GPL-2.0-only
"""The command line."""

from __future__ import annotations

import argparse
from typing import List

from .errors import NAME
from .view import SORTS

DESCRIPTION = """\
Live view of bpshaper: rates, delays, its classes, and the sockets that it
throttles now."""

EPILOG = """\
keys: q quit, p or space pause, b t l n sort by backlog, throttles, longest
throttle or process name, a all flows with a backlog or those of throttled
sockets, f fold the flows of a socket into one line, or unfold them, arrows,
Page Up, Page Down, Home and End scroll, / filter by device, class, process or
address, Enter ends the words and Esc clears them, 1 2 3 hide or show shapers,
classes and sockets

A connected socket has one flow, an unconnected one has one for each peer. PEER
is where the packets of the flow go, or what ss says if they are not of IP. The
line of a socket has the sums of its flows, their number, and their peer if
there is one flow. SENT is of the socket, and known of TCP only: what it has
sent by ss, retransmissions included. The kernel counts nothing of others.

delay is the time of packets from enqueue to dequeue, throttle the time of a
socket from throttle to release, both of what ended between two samples. The
kernel counts them in buckets of powers of two. A percentile lies in its bucket
as if the times in it were spread evenly, so it is off by less than a factor of
two. Of times above 4.29 s, only that is known.

--json prints one object. Rates are in bytes/s, sizes in bytes, times in the
unit named. A value that is not known is null. Keys that tc -s -j has mean the
same.
  interval_s    between the two samples
  netns         as given with --netns
  shapers[]     device handle parent; rate ("unlimited" if it does not shape);
                sent_rate; drop_rate and mark_rate (ECN) in packets/s; bytes
                packets drops overlimits requeues backlog qlen; the counters of
                tc -s; delay, throttle, lateness, outside: count p50_ns p99_ns
                of the interval
  classes[]     device classid parent floor ceil ("unlimited" if there is none)
                weight prio; what shapers[] have from sent_rate on but lateness,
                with the counters of tc -s class; rate is what the class is
                taken to get
  sockets[]     device handle; parent (the class, or the handle); cookie state
                family protocol flows backlog qlen throttles
                longest_throttle_ns deficit hash socket_flows socket_backlog;
                sent_rate; netid local local_port peer peer_port;
                processes[]: name pid fd
  flows[]       the same without flows
  unheld_taps[] device pid process vhost: taps of all network namespaces, or of
                that of --netns, that vhost-net serves ("yes" or "perhaps")
                without a send buffer, for root; bpshaper-tap(8)
classes[] has parents before their children. flows[] has the flows of throttled
sockets, with --all also the others that have a backlog. sockets[] has those of
a class folded, with or without --fold: flows is their number, backlog and qlen
are sums, and deficit, hash, peer and peer_port are null if there are several.
netid and local are null if ss does not know the socket: it has been closed, or
is in a network namespace that there was no time to ask in. Rates are null for a
shaper, a class or a TCP socket that is younger than the interval, and for other
sockets. A later version may add keys.

exit status: 0, 1 if there is no shaper or something does not work, 2 if the
command line is wrong, 3 if --check has found something
"""


def interval_parse(text: str) -> float:
    seconds = float(text)
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("must be 0.1 to 3600 seconds")
    return seconds


def arguments_parse(words: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        NAME,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--once", action="store_true", help="print the tables and end")
    add("--json", action="store_true", help="with --once: print JSON instead")
    add(
        "--check",
        action="store_true",
        help="print what will hurt here, and end: programs, bridges, send "
        "buffers and tools; see limits.rst",
    )
    add(
        "--interval",
        type=interval_parse,
        default=1.0,
        metavar="SECONDS",
        help="between two samples (1)",
    )
    add("--device", metavar="DEV", help="only shapers of this device")
    add(
        "--netns",
        metavar="NAME",
        help="in a network namespace of ip netns, or in that of a path such as "
        "/proc/PID/ns/net",
    )
    add(
        "--all",
        action="store_true",
        help="all sockets that have a backlog, not only throttled ones",
    )
    add(
        "--fold",
        action="store_true",
        help="a line for each socket, not for each of its flows",
    )
    add(
        "--sort",
        choices=SORTS,
        default="b",
        help="order of the lines, see keys (b)",
    )
    args = parser.parse_args(words)
    if args.json and not args.once:
        parser.error("--json goes with --once")
    if args.check and args.once:
        parser.error("--check does not go with --once")
    return args
