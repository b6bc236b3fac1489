#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Random netlink messages to bpshaper, each against a model.

usage: fuzz.py DEVICE ADDRESS [SEED [MESSAGES]]

DEVICE gets the qdisc that is changed, while datagrams to ADDRESS pass through it;
a dummy device gets one after the other that is new. After each message

  - it was accepted or refused as the model says; a refusal has the model's errno
    and, by the extended ack, a text with the name of the option and its bounds,
    and points to the attribute;
  - the options in the dump are the model's, byte for byte, hence those of
    before if it was refused, and so is the limit in the statistics;
  - as many sockets are throttled as the counters say.

Prints what has failed, at most ten times, and a summary. Exit status 1 if anything
has. Hot paths are raw bytes: pyroute2 takes milliseconds for a message. It makes the
devices, brings the socket, and decodes the dump a second time at every checkpoint.
"""
import errno
import os
import random
import re
import signal
import socket
import struct
import sys
import time

from pyroute2 import IPRoute
from pyroute2.netlink import nla
from pyroute2.netlink.rtnl.iprsocket import IPRSocket
from pyroute2.netlink.rtnl.tcmsg import plugins

U32_MAX, U64_MAX = 2**32 - 1, 2**64 - 1
UNLIMITED = U64_MAX
RATE_MAX, LATENCY_MAX = 2**43, 60 * 10**9
HORIZON_MAX, CE_MAX = 3600 * 10**9, 60 * 10**9
MAX_FAILURES, CHECKPOINT = 10, 500

# rtnetlink
NEWQDISC, DELQDISC, GETQDISC = 36, 37, 38
NEWTCLASS, DELTCLASS, GETTCLASS, NEWTFILTER = 40, 41, 42, 44
REQUEST, ACK, ECHO, DUMP = 1, 4, 8, 0x300
REPLACE, EXCL, CREATE, ACK_TLVS = 0x100, 0x200, 0x400, 0x200
TCA_KIND, TCA_OPTIONS, TCA_STATS2 = 1, 2, 7
STATS_BASIC, STATS_QUEUE, STATS_APP = 1, 3, 4
NESTED, BYTEORDER = 0x8000, 0x4000
TC_H_ROOT, HANDLE = 0xFFFFFFFF, 0x10000
SOL_NETLINK, CAP_ACK, EXT_ACK = 270, 10, 11

# The options: attribute, name, bytes, least, largest, what a refusal must say of
# the bounds.
(RATE, BURST, LIMIT, LATENCY, MEMORY, QUANTUM, PEAK, MTU, OVERHEAD, MPU,
 LINKLAYER, SHARE_MIN, SHARE_MAX, BACKPRESSURE, PACING, MAXRATE, LOW_RATE,
 HORIZON, HORIZON_DROP, CE_THRESHOLD, TIMER_SLACK, GROUP) = range(2, 24)
PAD, ATTR_MAX = 1, GROUP
OPTIONS = {
    RATE: ("rate", 8, 1, RATE_MAX, r"1 to 2\^43 bytes/s, or unlimited"),
    BURST: ("burst", 4, 1, U32_MAX, "1 byte or more"),
    LIMIT: ("limit", 4, 1, U32_MAX, "1 byte or more"),
    LATENCY: ("latency", 8, 1, LATENCY_MAX, "1 ns to 60 s"),
    MEMORY: ("memory_limit", 4, 65536, U32_MAX, "64 KiB or more"),
    QUANTUM: ("quantum", 4, 256, 2**20, "256 bytes to 1 MiB"),
    PEAK: ("peakrate", 8, 1, RATE_MAX, r"1 to 2\^43 bytes/s, or unlimited"),
    MTU: ("mtu", 4, 1, U32_MAX, "1 byte or more"),
    OVERHEAD: ("overhead", 4, 0, 65535, "0 to 65535 bytes"),
    MPU: ("mpu", 4, 0, 65535, "0 to 65535 bytes"),
    LINKLAYER: ("linklayer", 4, 1, 2, r"ethernet \(1\) or atm \(2\)"),
    SHARE_MIN: ("share_min", 4, 1, U32_MAX, "1 byte or more"),
    SHARE_MAX: ("share_max", 4, 1, U32_MAX, "1 byte or more"),
    BACKPRESSURE: ("backpressure", 4, 0, 1, "0 or 1"),
    PACING: ("pacing", 4, 0, 1, "0 or 1"),
    MAXRATE: ("maxrate", 8, 1, RATE_MAX, r"1 to 2\^43 bytes/s, or unlimited"),
    LOW_RATE: ("low_rate_threshold", 8, 0, RATE_MAX, r"0 to 2\^43 bytes/s"),
    HORIZON: ("horizon", 8, 1, HORIZON_MAX, "1 ns to 1 h"),
    HORIZON_DROP: ("horizon_drop", 4, 0, 1, "0 or 1"),
    CE_THRESHOLD: ("ce_threshold", 8, 0, CE_MAX, "0 to 60 s, or never"),
    TIMER_SLACK: ("timer_slack", 4, 0, U32_MAX, "any ns"),
    GROUP: ("group", 4, 0, U32_MAX, "any number"),
}
# UNLIMITED, or never, which is the same number
BOUNDLESS = (RATE, PEAK, MAXRATE, CE_THRESHOLD)
UNREFUSED = (TIMER_SLACK, GROUP)

PACING_PRESET = ((PACING, 1), (MAXRATE, UNLIMITED), (LOW_RATE, 68750),
                 (HORIZON, 10**10), (HORIZON_DROP, 0), (CE_THRESHOLD, UNLIMITED),
                 (TIMER_SLACK, 10000))

# What contradicts itself, or what was set before.
BOTH_LIMITS = "limit and latency exclude each other"
LATENCY_ALONE, PEAK_ALONE = "latency needs a rate", "peakrate needs a rate"
PEAK_LOW = "peakrate must be above the rate"
SHARES_CROSSED = "share_min must not be above share_max"
GROUP_PEAK = "group and peakrate exclude each other"
GROUP_ALONE = "group needs a rate"
GROUP_BURST = "burst of a group must hold a packet for each member and one more"


def bounds_text(kind):
    return rf"\b{OPTIONS[kind][0]} must be {OPTIONS[kind][4]}$"


# Every refusal that the module has of its own; a long run must meet them all.
REFUSALS = {BOTH_LIMITS, LATENCY_ALONE, PEAK_ALONE, PEAK_LOW, SHARES_CROSSED,
            GROUP_PEAK, GROUP_ALONE, GROUP_BURST,
            *map(bounds_text, OPTIONS.keys() - UNREFUSED)}


class Refused(Exception):
    """An errno, what its text must match, and the attribute it points to."""

    def __init__(self, number, text, attr=None):
        super().__init__(text)
        self.errno, self.text, self.attr = number, text, attr


# --- attributes

def attr_bytes(kind, payload, length=None):
    length = 4 + len(payload) if length is None else length
    return struct.pack("=HH", length & 0xFFFF, kind) + payload + \
        bytes(-len(payload) % 4)


def option_bytes(kind, value):
    return attr_bytes(kind, struct.pack("=Q" if OPTIONS[kind][1] == 8 else "=I",
                                        value))


def attrs_walk(data, offset=0, end=None):
    """Yield type, offset and length of the payload, as nla_for_each_attr()."""
    end = len(data) if end is None else end
    while end - offset >= 4:
        length, kind = struct.unpack_from("=HH", data, offset)
        if length < 4 or length > end - offset:
            break
        yield kind, offset + 4, length - 4
        offset += (length + 3) & ~3
    if offset < end:
        yield None, offset, end - offset


def attrs_dict(data, offset, end):
    return {kind & 0x3FFF: (at, at + length)
            for kind, at, length in attrs_walk(data, offset, end)
            if kind is not None}


# --- the model: sch_bpshaper.h in Python

def options_parse(blob):
    """What the kernel's strict parser and then the bounds leave of a nest."""
    found = {}
    for kind, at, length in attrs_walk(blob):
        if kind is None:
            raise Refused(errno.EINVAL, "bytes leftover")
        flags, kind = kind & NESTED, kind & 0x3FFF
        if kind == 0 or kind > ATTR_MAX:
            raise Refused(errno.EINVAL, "Unknown attribute type", kind)
        if kind == PAD:
            raise Refused(errno.EINVAL, "Unsupported attribute", kind)
        if length != OPTIONS[kind][1]:
            raise Refused(errno.EINVAL, "invalid attribute length", kind)
        if flags:
            raise Refused(errno.EINVAL, "NLA_F_NESTED not expected", kind)
        found[kind] = int.from_bytes(blob[at:at + length], sys.byteorder)
    for kind in sorted(found):
        _, _, least, largest, _ = OPTIONS[kind]
        if least <= found[kind] <= largest:
            continue
        if kind in BOUNDLESS and found[kind] == UNLIMITED:
            continue
        raise Refused(errno.ERANGE, bounds_text(kind), kind)
    return found


def default_memory_limit():
    for line in open("/proc/meminfo"):
        if line.startswith("MemTotal:"):
            return min(max(int(line.split()[1]) * 1024 >> 4, 2**25), 2**30)
    raise RuntimeError("no MemTotal")


def cost_ns(rate, length):
    """Of a packet, rounded up, as is the time of a byte, which has 31 bits."""
    shift = 0
    while (10**9 << shift) // rate < 2**31:
        shift += 1
    byte = -(-(10**9 << shift) // rate)
    return -(-length * byte // 2**shift)


class Model:
    """What is configured, and what the dump makes of it. In a group it is alone."""

    memory_limit = default_memory_limit()

    def __init__(self, mtu, queue):
        self.packet = min(max(mtu + 14, 256), 2**20)
        self.queue = queue
        self.set = {RATE: UNLIMITED, PEAK: UNLIMITED, OVERHEAD: 0, MPU: 0,
                    LINKLAYER: 1, BACKPRESSURE: 1, GROUP: 0, **dict(PACING_PRESET)}

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
        if LATENCY in now and now[RATE] == UNLIMITED and not now[GROUP]:
            raise Refused(errno.EINVAL, LATENCY_ALONE)
        if now[PEAK] != UNLIMITED and now[RATE] == UNLIMITED:
            raise Refused(errno.EINVAL, PEAK_ALONE)
        if now[PEAK] <= now[RATE] != UNLIMITED:
            raise Refused(errno.EINVAL, PEAK_LOW)
        if SHARE_MIN in now and SHARE_MAX in now and \
           now[SHARE_MIN] > now[SHARE_MAX]:
            raise Refused(errno.EINVAL, SHARES_CROSSED)
        if now[GROUP]:
            self.check_group(now)
        self.set = now

    def check_group(self, now):
        if now[PEAK] != UNLIMITED:
            raise Refused(errno.EINVAL, GROUP_PEAK)
        if now[RATE] == UNLIMITED:
            raise Refused(errno.EINVAL, GROUP_ALONE)
        late = cost_ns(now[RATE], self.framed(now))
        window = self.burst(now) * 10**9 // now[RATE] - (late + 1)
        if window < late:
            raise Refused(errno.EINVAL, GROUP_BURST)

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
        packet = self.framed(now) if now[GROUP] else self.packet
        burst = max(self.sent_in(10**6, now[RATE]), 2 * packet)
        return min(burst + bool(now[GROUP]) * packet, U32_MAX)

    def framed(self, now):
        """What a packet of the MTU occupies on the wire."""
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
            limit = max(8 * self.packet, self.sent_in(10**7) + self.burst())
        return min(limit, U32_MAX)

    def shares(self):
        least, most = self.set.get(SHARE_MIN), self.set.get(SHARE_MAX)
        if least is None:
            least = min(2 * self.packet, most or U32_MAX)
        return least, most or max(least, 65536)

    def share(self):
        """Of one socket, while there is none."""
        least, most = self.shares()
        return min(max(self.limit(), least), most)

    def shown(self):
        now = self.set
        limit = (LATENCY, now[LATENCY]) if LATENCY in now else \
            (LIMIT, self.limit())
        return [(RATE, now[RATE]), (BURST, self.burst()), limit,
                (MEMORY, now.get(MEMORY, self.memory_limit)),
                (QUANTUM, now.get(QUANTUM, self.packet)),
                (PEAK, now[PEAK]), (MTU, now.get(MTU, self.packet)),
                (OVERHEAD, now[OVERHEAD]), (MPU, now[MPU]),
                (LINKLAYER, now[LINKLAYER]),
                *((kind, now[kind]) for kind in (SHARE_MIN, SHARE_MAX)
                  if kind in now),
                (BACKPRESSURE, now[BACKPRESSURE]),
                *((kind, now[kind]) for kind, _ in PACING_PRESET),
                *((kind, now[kind]) for kind in (GROUP,) if now[kind])]

    def dump(self):
        return b"".join(option_bytes(*option) for option in self.shown())


# --- what is sent

class Generator:
    """Nests of options, good and bad; what becomes of them the model knows."""

    def __init__(self, rng):
        self.rng = rng

    def value(self, kind):
        _, size, least, largest, _ = OPTIONS[kind]
        top, rng = 2**(8 * size) - 1, self.rng
        dice = rng.random()
        if dice < 0.25:
            at_bounds = (least, least + 1, largest - 1, largest)
            value = rng.choice(at_bounds)
        elif dice < 0.32:
            value = rng.choice((0, least - 1, largest + 1, 2**31, U32_MAX,
                                2**32, 2**63, top - 1, top))
        elif kind in BOUNDLESS and dice < 0.45:
            value = UNLIMITED
        elif kind == GROUP and dice < 0.6:
            value = 0	# or hardly anything has a peak rate
        else:	# of any magnitude
            value = least + int(2**rng.uniform(0, (largest - least).bit_length()))
            value = min(value - 1, largest)
        return value & top

    def some(self, most=ATTR_MAX - 1):
        kinds = self.rng.sample(range(RATE, ATTR_MAX + 1),
                                min(most, int(self.rng.expovariate(0.4)) + 1))
        # Most of those that draw both should not be refused for it.
        if LIMIT in kinds and LATENCY in kinds and self.rng.random() < 0.8:
            kinds.remove(LATENCY)
        return [option_bytes(kind, self.value(kind)) for kind in kinds]

    def noise(self, most):
        return self.rng.randbytes(self.rng.randint(0, most))

    def good(self):
        return b"".join(self.some())

    def wrong_length(self):
        kind = self.rng.randint(RATE, ATTR_MAX)
        parts = self.some() + [attr_bytes(kind, self.noise(20))]
        self.rng.shuffle(parts)
        return b"".join(parts)

    def truncated(self):
        blob = b"".join(self.some())
        return blob[:self.rng.randint(0, len(blob))]

    def lying_length(self):
        parts = self.some()
        i = self.rng.randrange(len(parts))
        length = self.rng.choice((0, 1, 3, 4, 5, 7, 9, 13, 100, 0x7FFF, 0xFFFF))
        parts[i] = struct.pack("=H", length) + parts[i][2:]
        return b"".join(parts)

    def unknown(self):
        kind = self.rng.choice((0, PAD, ATTR_MAX + 1, ATTR_MAX + 2, 255, 0x3FFF,
                                self.rng.randint(ATTR_MAX + 1, 0x3FFF)))
        parts = self.some() + [attr_bytes(kind, self.noise(16))]
        self.rng.shuffle(parts)
        return b"".join(parts)

    def flags(self):
        kind = self.rng.randint(RATE, ATTR_MAX)
        part = option_bytes(kind, self.value(kind))
        flags = self.rng.choice((NESTED, BYTEORDER, NESTED | BYTEORDER))
        return b"".join(self.some()) + part[:2] + \
            struct.pack("=H", kind | flags) + part[4:]

    def nested(self):
        kind = self.rng.randint(RATE, ATTR_MAX)
        blob = b"".join(self.some())
        for _ in range(self.rng.choice((1, 1, 2, 20))):
            blob = attr_bytes(kind | self.rng.choice((0, NESTED)), blob)
        return blob

    def duplicates(self):
        parts = self.some()
        for _ in range(self.rng.randint(1, 4)):
            parts.append(self.rng.choice(parts))
        kind = struct.unpack_from("=H", parts[0], 2)[0]
        parts.append(option_bytes(kind, self.value(kind)))
        return b"".join(parts)

    def oversized(self):
        part = b"".join(self.some(2))
        return part * self.rng.choice((50, 50, 50, 65000 // len(part)))

    def random(self):
        return self.noise(64)

    def flipped(self):
        blob = bytearray(b"".join(self.some()))
        for _ in range(self.rng.randint(1, 4)):
            blob[self.rng.randrange(len(blob))] ^= 1 << self.rng.randrange(8)
        return bytes(blob)

    KINDS = (good,) * 12 + (wrong_length, truncated, lying_length, unknown, flags,
                            nested, duplicates, duplicates, oversized, random,
                            flipped, flipped)

    def nest(self):
        return self.rng.choice(self.KINDS)(self)


# --- netlink

class Kernel:
    """One rtnetlink socket; a message, its ack, and the dump after it."""

    def __init__(self):
        self.owner = IPRSocket()
        self.owner.bind()
        self.sock = socket.socket(fileno=os.dup(self.owner.fileno()))
        for option in (CAP_ACK, EXT_ACK):
            self.sock.setsockopt(SOL_NETLINK, option, 1)
        self.sock.settimeout(30)
        self.seq, self.sent = 1000, 0

    def message(self, kind, flags, ifindex, attrs=b"", handle=HANDLE,
                parent=TC_H_ROOT, length=None):
        self.seq += 1
        self.sent += kind != GETQDISC
        body = struct.pack("=BxxxiIII", 0, ifindex, handle, parent, 0) + attrs
        length = 16 + len(body) if length is None else length
        return struct.pack("=IHHII", length, kind, REQUEST | flags, self.seq,
                           0) + body

    def answers(self):
        """Yield the messages of one datagram: type, sequence, offset, end."""
        data = self.sock.recv(1 << 17)
        offset = 0
        while offset + 16 <= len(data):
            length, kind, _, seq, _ = struct.unpack_from("=IHHII", data, offset)
            yield data, kind, seq, offset, offset + length
            offset += (length + 3) & ~3

    def state(self, ifindex):
        """The qdisc of the device after all that was sent, and the acks."""
        self.sock.send(self.message(GETQDISC, ECHO, ifindex))
        last, acks, state, done = self.seq, {}, None, False
        while not done:
            for data, kind, seq, at, end in self.answers():
                if kind == 2:
                    acks[seq] = Ack(data, at, end)
                elif kind == NEWQDISC and seq == last:
                    state = State(data, at + 36, end)
                done = done or seq == last
        acks.pop(last, None)
        return state, acks


class Ack:
    def __init__(self, data, at, end):
        self.errno = -struct.unpack_from("=i", data, at + 16)[0]
        self.text, self.offset = "", None
        if not struct.unpack_from("=H", data, at + 6)[0] & ACK_TLVS:
            return
        for kind, begin, length in attrs_walk(data, at + 36, end):
            if kind == 1:
                self.text = data[begin:begin + length].rstrip(b"\0").decode()
            elif kind == 2:
                self.offset = struct.unpack_from("=I", data, begin)[0]


class State:
    def __init__(self, data, at, end):
        attrs = attrs_dict(data, at, end)
        self.kind = data[slice(*attrs[TCA_KIND])].rstrip(b"\0").decode()
        self.options, self.app = b"", b""
        if TCA_OPTIONS in attrs:
            begin, stop = attrs[TCA_OPTIONS]
            self.options = b"".join(
                data[a - 4:a + length] for kind, a, length in
                attrs_walk(data, begin, stop) if kind != PAD)
        stats = attrs_dict(data, *attrs[TCA_STATS2])
        self.packets = struct.unpack_from("=I", data,
                                          stats[STATS_BASIC][0] + 8)[0]
        if STATS_APP in stats:
            self.app = data[slice(*stats[STATS_APP])]

    def limit(self):
        return struct.unpack_from("=I", self.app, 120)[0]

    def share(self):
        return struct.unpack_from("=I", self.app, 112)[0]

    def throttled(self):
        """Sockets, by the counters and by their number."""
        throttles, unthrottles = struct.unpack_from("=QQ", self.app, 8)
        return throttles - unthrottles, struct.unpack_from("=I", self.app, 96)[0]


class BpshaperOptions(nla):
    """For pyroute2's own decoder."""
    nla_map = (("TCA_BPSHAPER_UNSPEC", "none"), ("TCA_BPSHAPER_PAD", "none")) + \
        tuple((option[0], "uint64" if option[1] == 8 else "uint32")
              for option in OPTIONS.values())


class Plugin:
    options = BpshaperOptions


plugins["bpshaper"] = Plugin


# --- the traffic beside it

def traffic(address):
    """Fork a sender of four sockets; each sends when it may."""
    child = os.fork()
    if child:
        return child
    socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(4)]
    for sock in socks:
        sock.setblocking(False)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while os.getppid() != 1:
        for sock in socks:
            try:
                sock.sendto(bytes(700), (address, 9))
            except OSError:
                pass
        time.sleep(0.02)
    os._exit(0)


# --- the run

class Run:
    def __init__(self, device, address, seed, messages):
        self.rng = random.Random(seed)
        self.generator, self.kernel = Generator(self.rng), Kernel()
        self.messages, self.failures, self.refusals = messages, 0, {}
        self.accepted = self.at = 0
        self.ip = IPRoute()
        self.used = self.ip.link_lookup(ifname=device)[0]
        self.ip.link("add", ifname="fuzz", kind="dummy")
        self.new = self.ip.link_lookup(ifname="fuzz")[0]
        self.ip.link("set", index=self.new, state="up")
        self.model = Model(1500, 1000)
        self.send(NEWQDISC, CREATE | REPLACE, self.used, b"")
        self.compare(self.used, self.model, None, "at the start")
        self.address = address

    def fail(self, what, *details):
        self.failures += 1
        print(f"step {self.at}: {what}", *details, sep="\n  ", flush=True)

    def send(self, kind, flags, ifindex, blob, nested=NESTED, **more):
        attrs = attr_bytes(TCA_KIND, b"bpshaper\0")
        if blob is not None:
            attrs += attr_bytes(TCA_OPTIONS | nested, blob)
        self.sent = self.kernel.message(kind, ACK | flags, ifindex, attrs, **more)
        try:
            self.kernel.sock.send(self.sent)
        except OSError as error:	# what the socket itself refuses
            self.fail(f"cannot send: {error}")
        return self.kernel.seq

    def compare(self, ifindex, model, refused, name, seq=None):
        """The answer to the last message, and what is there now."""
        seq = self.kernel.seq if seq is None else seq
        state, acks = self.kernel.state(ifindex)
        ack = acks.get(seq)
        if ack is None:
            return self.fail(f"{name}: no answer", self.sent.hex())
        self.compare_ack(ack, refused, name)
        if model is None:
            if state and state.kind == "bpshaper":
                self.fail(f"{name}: refused, but there", self.sent.hex())
            return None
        return self.compare_state(state, model, name)

    def compare_ack(self, ack, refused, name):
        got = f"{errno.errorcode.get(ack.errno, ack.errno)} {ack.text!r}"
        if refused is None:
            self.accepted += 1
            if ack.errno:
                self.fail(f"{name}: refused: {got}", self.sent.hex())
            return
        self.refusals[refused.text] = self.refusals.get(refused.text, 0) + 1
        if ack.errno != refused.errno or not re.search(refused.text, ack.text):
            self.fail(f"{name}: {got}, expected "
                      f"{errno.errorcode[refused.errno]} {refused.text!r}",
                      self.sent.hex())
        elif refused.attr is not None:
            self.compare_offset(ack, refused, name)

    def compare_offset(self, ack, refused, name):
        kind = None
        if ack.offset is not None and ack.offset + 4 <= len(self.sent):
            kind = struct.unpack_from("=H", self.sent, ack.offset + 2)[0]
        if kind is None or kind & 0x3FFF != refused.attr:
            self.fail(f"{name}: {ack.text!r} points to attribute {kind}, "
                      f"expected {refused.attr}", self.sent.hex())

    def compare_state(self, state, model, name):
        if state is None or state.kind != "bpshaper":
            return self.fail(f"{name}: the qdisc is gone", self.sent.hex())
        if state.options != model.dump():
            self.fail(f"{name}: the dump is not the model's", self.sent.hex(),
                      f"dump  {state.options.hex()}",
                      f"model {model.dump().hex()}", f"model {model.shown()}")
            model.set = self.learn(state)
        elif state.limit() != model.limit():
            self.fail(f"{name}: limit {state.limit()}, expected "
                      f"{model.limit()}", self.sent.hex())
        by_counters, now = state.throttled()
        if by_counters != now:
            self.fail(f"{name}: {now} throttled, {by_counters} by counters")
        return state

    def learn(self, state):
        """After a failure: go on from what is there."""
        return {GROUP: 0} | {
            kind: int.from_bytes(state.options[at:at + length], sys.byteorder)
            for kind, at, length in attrs_walk(state.options)}

    def outcome(self, model, blob, nested=NESTED):
        try:
            if not nested:
                raise Refused(errno.EINVAL, "NLA_F_NESTED is missing",
                              TCA_OPTIONS)
            model.change(blob)
        except Refused as refused:
            return refused
        return None

    def change(self):
        """A change of the qdisc that has traffic."""
        blob = self.generator.nest()
        nested = NESTED if self.rng.random() < 0.98 else 0
        flags = self.rng.choice((0, 0, REPLACE, CREATE | REPLACE))
        refused = self.outcome(self.model, blob, nested)
        self.send(NEWQDISC, flags, self.used, blob, nested)
        self.compare(self.used, self.model, refused, "change")

    def add(self):
        """A new qdisc on a device of any MTU, which must not stay if refused."""
        mtu, queue = self.rng.choice(((1500, 1000), (68, 1), (9000, 2),
                                      (16000, 5000)))
        if self.rng.random() < 0.2:
            self.ip.link("set", index=self.new, mtu=mtu, txqlen=queue)
            self.new_device = mtu, queue
        model = Model(*getattr(self, "new_device", (1500, 1000)))
        blob = self.generator.nest() if self.rng.random() < 0.95 else None
        refused = self.outcome(model, blob) if blob is not None else None
        self.send(NEWQDISC, CREATE | EXCL, self.new, blob)
        state = self.compare(self.new, None if refused else model, refused, "add")
        if not refused:
            if state and state.share() != model.share():
                self.fail(f"add: share {state.share()}, expected "
                          f"{model.share()}", self.sent.hex())
            self.send(DELQDISC, 0, self.new, None)
            self.compare(self.new, None, None, "delete")

    def pair(self):
        """Two messages in one datagram: the second counts from the first."""
        outcomes, datagram = [], b""
        for _ in range(2):
            blob = self.generator.good()
            outcomes.append((self.outcome(self.model, blob),
                             self.kernel.seq + 1))
            attrs = attr_bytes(TCA_KIND, b"bpshaper\0") + \
                attr_bytes(TCA_OPTIONS | NESTED, blob)
            datagram += self.kernel.message(NEWQDISC, ACK, self.used, attrs)
        self.sent = datagram
        self.kernel.sock.send(datagram)
        state, acks = self.kernel.state(self.used)
        for refused, seq in outcomes:
            if seq not in acks:
                self.fail("pair: no answer", datagram.hex())
                continue
            if refused:
                refused.attr = None	# offsets count from its own header
            self.compare_ack(acks[seq], refused, "pair")
        self.compare_state(state, self.model, "pair")

    def strange(self):
        """Messages that are wrong around the options; none may change them."""
        good, rng = self.generator.good(), self.rng
        einval, enoent = errno.EINVAL, errno.ENOENT
        args, number, text = rng.choice((
            (dict(kind=NEWQDISC, flags=EXCL), errno.EEXIST, "Exclusivity"),
            (dict(kind=NEWQDISC, flags=CREATE | EXCL), errno.EEXIST, "Exclusivity"),
            (dict(kind=NEWQDISC, flags=0, ifindex=2**31 - 1), errno.ENODEV, ""),
            (dict(kind=NEWQDISC, flags=0, handle=0, parent=0), einval, "Handle"),
            (dict(kind=NEWQDISC, flags=0, handle=0x20000, parent=0), enoent, ""),
            (dict(kind=NEWQDISC, flags=0, handle=0x20000), errno.EEXIST, "REPLACE"),
            (dict(kind=NEWQDISC, flags=REPLACE, handle=0x20001), einval, "minor"),
            (dict(kind=NEWQDISC, flags=CREATE, parent=0x10001, handle=0x20000),
             enoent, "class"),
            (dict(kind=NEWQDISC, flags=CREATE, parent=0x90001, handle=0x20000),
             enoent, "specified qdisc"),
            (dict(kind=DELQDISC, flags=0, parent=0x10001, handle=0), enoent, ""),
            (dict(kind=DELQDISC, flags=0, handle=0x30000), None, ""),
            (dict(kind=NEWTCLASS, flags=CREATE, parent=HANDLE, handle=0x10001),
             None, ""),
            (dict(kind=DELTCLASS, flags=0, parent=HANDLE, handle=0x10001),
             None, ""),
            (dict(kind=GETTCLASS, flags=0, parent=HANDLE, handle=0x10001),
             None, ""),
            (dict(kind=NEWTFILTER, flags=CREATE, parent=HANDLE, handle=0),
             None, ""),
        ))
        args.setdefault("ifindex", self.used)
        seq = self.send(blob=good, **args)
        state, acks = self.kernel.state(self.used)
        ack = acks.get(seq)
        if ack is None or not ack.errno or \
           number not in (None, ack.errno) or text not in ack.text:
            self.fail(f"strange {args}: {ack and vars(ack)}", self.sent.hex())
        self.compare_state(state, self.model, "strange")

    def cut(self):
        """A header that lies about the length of the message."""
        blob = self.generator.good()
        attrs = attr_bytes(TCA_KIND, b"bpshaper\0") + \
            attr_bytes(TCA_OPTIONS | NESTED, blob)
        full = 36 + len(attrs)
        # Of what is cut within the options the parser sees nothing.
        length = self.rng.choice((0, 1, 15, 16, 17, 35, full + 1, full + 100,
                                  U32_MAX))
        self.sent = self.kernel.message(NEWQDISC, ACK, self.used, attrs,
                                        length=length)
        self.kernel.sock.send(self.sent)
        state, _ = self.kernel.state(self.used)
        self.compare_state(state, self.model, "cut")

    def classes(self):
        """List the classes, while they come and go."""
        self.kernel.sock.send(self.kernel.message(
            GETTCLASS, DUMP, self.used, handle=0, parent=0))
        last, done = self.kernel.seq, False
        while not done:
            for _, kind, seq, _, _ in self.kernel.answers():
                done = done or kind == 3 and seq == last

    def checkpoint(self):
        """Traffic flows at once when the options allow it."""
        blob = b"".join(option_bytes(*option) for option in (
            (GROUP, self.rng.choice((0, 7))), (RATE, 10**7), (BURST, 20000), (LIMIT, 10**5), (MEMORY, 2**25),
            (PEAK, UNLIMITED), (OVERHEAD, 0), (MPU, 0), (LINKLAYER, 1),
            (SHARE_MIN, 3000), (SHARE_MAX, 65536), (BACKPRESSURE, 1),
            *PACING_PRESET))
        refused = self.outcome(self.model, blob)
        self.send(NEWQDISC, 0, self.used, blob)
        state = self.compare(self.used, self.model, refused, "checkpoint")
        begin, packets = time.monotonic(), state.packets if state else 0
        while time.monotonic() < begin + 20:
            state, _ = self.kernel.state(self.used)
            if state and state.packets - packets >= 20:
                break
            time.sleep(0.01)
        else:
            self.fail("checkpoint: no traffic flows")
        decoded = [dict(message.get_attr("TCA_OPTIONS")["attrs"])
                   for message in self.ip.get_qdiscs(self.used)
                   if message.get_attr("TCA_KIND") == "bpshaper"]
        expected = {OPTIONS[kind][0]: value for kind, value in self.model.shown()}
        if decoded != [expected]:
            self.fail("checkpoint: pyroute2 reads", f"{decoded}", f"{expected}")

    STEPS = (change,) * 15 + (add,) * 2 + (pair, strange, cut, classes)

    def all(self):
        child = traffic(self.address)
        try:
            while self.kernel.sent < self.messages:
                if self.at % CHECKPOINT == 0:
                    self.checkpoint()
                self.at += 1
                self.rng.choice(self.STEPS)(self)
                if self.failures >= MAX_FAILURES:
                    print("enough of that")
                    break
            self.checkpoint()
        finally:
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)
        self.summary()
        return self.failures == 0

    def summary(self):
        state, _ = self.kernel.state(self.used)
        throttles = struct.unpack_from("=Q", state.app, 8)[0]
        print(f"{self.kernel.sent} messages, {self.accepted} accepted, "
              f"{sum(self.refusals.values())} refused, {throttles} throttles")
        for text, count in sorted(self.refusals.items()):
            print(f"{count:8} {text}")
        if self.messages < 3000:
            return
        for text in REFUSALS - set(self.refusals):
            self.fail(f"never met: {text}")
        if not throttles:
            self.fail("no socket was throttled")


def main(device, address, seed=None, messages=5000):
    seed = int(seed) if seed else random.SystemRandom().getrandbits(32)
    print(f"seed {seed}, {messages} messages", flush=True)
    sys.exit(not Run(device, address, seed, int(messages)).all())


main(*sys.argv[1:])
