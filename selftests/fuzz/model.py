# SPDX-License-Identifier: GPL-2.0-only
"""The model: the documentation of sch_bpshaper.h in Python.

options_parse() is the parser of attributes, with its refusals. Model is one
qdisc: change() takes a nest or refuses it, dump() gives the attributes that the
kernel must dump after it. A plain option needs no line here: it is in OPTIONS.
What there is to say of classes is in classes.py.
"""
import errno
import sys

from netlink import NESTED, attr_bytes, attrs_walk
from options import (BOTH_LIMITS, BURST, DEFAULT, DEFAULTS, LATENCY,
                     LATENCY_ALONE, LATENCY_DEFAULT, LIMIT, LINKLAYER, MEMORY,
                     MPU, OPTIONS, OVERHEAD, PAD, PEAK, PEAK_ALONE, PEAK_LOW,
                     PEAK_QUEUES, QUEUES, QUEUES_FIXED, RATE, SHARE_MAX,
                     SHARE_MIN, U32_MAX, UNLIMITED, bounds_text)


class Refused(Exception):
    """The errno, what the text must match, the attribute pointed to."""

    def __init__(self, number, text, attr=None):
        super().__init__(text)
        self.errno, self.text, self.attr = number, text, attr


def option_bytes(kind, value, options=None):
    size = (options or OPTIONS)[kind].size
    return attr_bytes(kind, value.to_bytes(size, sys.byteorder))


def options_parse(blob, options=None):
    """Return what a nest sets: the kernel's strict parser, then the bounds."""
    options, found = options or OPTIONS, {}
    for kind, at, length in attrs_walk(blob):
        if kind is None:
            raise Refused(errno.EINVAL, "bytes leftover")
        flags, kind = kind & NESTED, kind & 0x3FFF
        if kind == 0 or kind > max(options):
            raise Refused(errno.EINVAL, "Unknown attribute type", kind)
        if kind == PAD:
            raise Refused(errno.EINVAL, "Unsupported attribute", kind)
        size = options[kind].size
        if size and length != size:
            raise Refused(errno.EINVAL, "invalid attribute length", kind)
        if flags:
            raise Refused(errno.EINVAL, "NLA_F_NESTED not expected", kind)
        if length != size:
            raise Refused(errno.ERANGE, "Attribute failed policy validation", kind)
        found[kind] = int.from_bytes(blob[at:at + length], sys.byteorder)
    for kind in sorted(found):
        option = options[kind]
        if not option.least <= found[kind] <= option.largest and \
           found[kind] != option.special:
            raise Refused(errno.ERANGE, bounds_text(kind, options), kind)
    return found


def default_memory_limit():
    for line in open("/proc/meminfo"):
        if line.startswith("MemTotal:"):
            return min(max(int(line.split()[1]) * 1024 >> 4, 2**25), 2**30)
    raise RuntimeError("no MemTotal")


def cost_ns(rate, length):
    """Time of a packet: rounded up, from that of a byte, 31 bits rounded up."""
    shift = 0
    while (10**9 << shift) // rate < 2**31:
        shift += 1
    byte = -(-(10**9 << shift) // rate)
    return -(-length * byte // 2**shift)


class Model:
    """The options of one qdisc, on a device that uses so many queues. The first
    change makes it.
    """

    memory_limit = default_memory_limit()

    def __init__(self, mtu, queue, tx_queues=1):
        self.packet = min(max(mtu + 14, 256), 2**20)
        self.queue, self.tx_queues = queue, tx_queues
        self.has_queues = None	# more than one; None: not made yet
        self.set = dict(DEFAULTS)
        self.classes = None	# or a Classes

    def change(self, blob):
        """Apply a nest, or raise Refused and leave everything as it was."""
        found, now = options_parse(blob), dict(self.set)
        if LIMIT in found and LATENCY in found:
            raise Refused(errno.EINVAL, BOTH_LIMITS)
        now[RATE] = found.get(RATE, now[RATE])
        if now[RATE] == UNLIMITED:
            now.pop(LATENCY, None)
            now[PEAK] = UNLIMITED
        if LIMIT in found:
            now.pop(LATENCY, None)
        if LATENCY in found:
            now.pop(LIMIT, None)
        now.update(found)
        if LATENCY in now and now[RATE] == UNLIMITED:
            raise Refused(errno.EINVAL, LATENCY_ALONE)
        if now[PEAK] != UNLIMITED and now[RATE] == UNLIMITED:
            raise Refused(errno.EINVAL, PEAK_ALONE)
        if now[PEAK] <= now[RATE] != UNLIMITED:
            raise Refused(errno.EINVAL, PEAK_LOW)
        self.check_queues(now)
        if self.classes:
            self.classes.check_qdisc(now)
        self.set = now

    def check_queues(self, now):
        if self.has_queues is None:
            self.has_queues = self.tx_queues > 1 and not now[QUEUES] and \
                (now[RATE] != UNLIMITED or not now.get(DEFAULT)) and \
                now[PEAK] == UNLIMITED
        elif self.has_queues and now[QUEUES] or \
                self.set[QUEUES] and not now[QUEUES]:
            raise Refused(errno.EINVAL, QUEUES_FIXED)
        elif self.has_queues and now[PEAK] != UNLIMITED:
            raise Refused(errno.EINVAL, PEAK_QUEUES)

    def sent_in(self, ns, rate=None):
        """Bytes, rounded down. Above 2^33 bytes/s a little more is lost."""
        rate = rate or self.set[RATE]
        if rate == UNLIMITED:
            return 0
        if rate < 2**33:
            return min(rate * ns // 10**9, U32_MAX)
        secs, rest = divmod(ns, 10**9)
        return min(rate // 1000 * rest // 10**6 + secs * rate, U32_MAX)

    def burst(self, now=None):
        now = now or self.set
        if BURST in now:
            return now[BURST]
        least = 4 * self.framed(now) if self.has_queues else 2 * self.packet
        return max(self.sent_in(10**6, now[RATE]), least)

    def framed(self, now):
        """Bytes that a packet of the MTU takes on the wire."""
        length = max(self.packet + now[OVERHEAD], now[MPU])
        return -(-length // 48) * 53 if now[LINKLAYER] == 2 else length

    def limit(self):
        if LIMIT in self.set:
            return self.set[LIMIT]
        if self.set[RATE] == UNLIMITED:
            limit = max(self.queue, 1) * self.packet
        elif LATENCY in self.set:
            limit = self.sent_in(self.set[LATENCY]) + self.burst()
        else:
            limit = max(8 * self.packet,
                        self.sent_in(LATENCY_DEFAULT) + self.burst())
        return min(limit, U32_MAX)

    def shares(self):
        """Least and largest share."""
        least, limit, rate = self.set.get(SHARE_MIN), self.limit(), self.set[RATE]
        if least is None:
            limit_ns = 0 if rate == UNLIMITED else cost_ns(rate, limit)
            turn = limit * 10**6 // limit_ns if limit_ns > 2 * 10**6 \
                else limit // 2
            least = min(max(turn, 2 * self.packet), 16 * self.packet)
        # The largest rate bounds nothing either.
        return least, max(least, limit if rate >= 2**43 else SHARE_MAX)

    def share(self):
        """The share of a socket, when there is no other one."""
        least, most = self.shares()
        return min(max(self.limit(), least), most)

    def shown(self):
        """The options of a dump: some of them only if they are set."""
        shown = {BURST: self.burst(), MEMORY: self.memory_limit} | \
            self.set
        if LATENCY not in shown:
            shown[LIMIT] = self.limit()
        for kind in (QUEUES, DEFAULT):
            if not shown[kind]:
                del shown[kind]
        return sorted(shown.items())

    def dump(self):
        return b"".join(option_bytes(*option) for option in self.shown())
