# SPDX-License-Identifier: GPL-2.0-only
"""rtnetlink as raw bytes: attributes, the socket, acks, dumps.

Attributes are made and walked by the functions. Kernel is the socket, which
sends messages and reads the answers; Ack, State and ClassState are what it
reads.
"""
import socket
import struct

from options import LEAF_XSTATS, PAD, XSTATS

# rtnetlink
NEWQDISC, DELQDISC, GETQDISC = 36, 37, 38
NEWTCLASS, DELTCLASS, GETTCLASS = 40, 41, 42
NEWTFILTER, DELTFILTER = 44, 45
REQUEST, ACK, ECHO, DUMP = 1, 4, 8, 0x300
REPLACE, EXCL, CREATE, ACK_TLVS = 0x100, 0x200, 0x400, 0x200
MSG_ERROR, MSG_DONE = 2, 3
TCA_KIND, TCA_OPTIONS, TCA_RATE, TCA_STATS2 = 1, 2, 5, 7
STATS_BASIC, STATS_APP = 1, 4
NESTED, BYTEORDER = 0x8000, 0x4000
TC_H_ROOT, HANDLE = 0xFFFFFFFF, 0x10000
SOL_NETLINK, CAP_ACK, EXT_ACK = 270, 10, 11


def attr_bytes(kind, payload, length=None):
    length = 4 + len(payload) if length is None else length
    return struct.pack("=HH", length & 0xFFFF, kind) + payload + \
        bytes(-len(payload) % 4)


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


class Kernel:
    """One rtnetlink socket."""

    def __init__(self):
        self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW,
                                  socket.NETLINK_ROUTE)
        self.sock.bind((0, 0))
        for option in (CAP_ACK, EXT_ACK):
            self.sock.setsockopt(SOL_NETLINK, option, 1)
        self.sock.settimeout(30)
        self.seq, self.sent = 1000, 0

    def message(self, kind, flags, ifindex, attrs=b"", handle=HANDLE,
                parent=TC_H_ROOT, length=None, info=0):
        """A message with the next sequence number; it is not sent yet."""
        self.seq += 1
        self.sent += kind not in (GETQDISC, GETTCLASS)
        body = struct.pack("=BxxxiIII", 0, ifindex, handle, parent, info) + \
            attrs
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
                if kind == MSG_ERROR:
                    acks[seq] = Ack(data, at, end)
                elif kind == NEWQDISC and seq == last:
                    state = State(data, at + 36, end)
                done = done or seq == last
        acks.pop(last, None)
        return state, acks

    def classes(self, ifindex):
        """The classes of the device that have been added, by number."""
        self.sock.send(self.message(GETTCLASS, DUMP, ifindex, handle=0,
                                    parent=0))
        last, found, done = self.seq, {}, False
        while not done:
            for data, kind, seq, at, end in self.answers():
                if kind == NEWTCLASS and seq == last:
                    cl = ClassState(data, at + 36, end)
                    handle, cl.parent = struct.unpack_from("=II", data, at + 24)
                    if cl.options is not None:	# else it is a flow
                        found[handle] = cl
                done = done or kind == MSG_DONE and seq == last
        return found


class Ack:
    """An answer: errno, text and offset of the extended ack."""

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


def options_bytes(data, attrs):
    begin, stop = attrs[TCA_OPTIONS]
    return b"".join(data[at - 4:at + length] for kind, at, length in
                    attrs_walk(data, begin, stop) if kind != PAD)


class State:
    """A dump of a qdisc: kind, options, packets sent, statistics."""

    offsets = XSTATS

    def __init__(self, data, at, end):
        attrs = attrs_dict(data, at, end)
        self.kind = data[slice(*attrs[TCA_KIND])].rstrip(b"\0").decode()
        self.options, self.app = b"", b""
        if TCA_OPTIONS in attrs:
            self.options = options_bytes(data, attrs)
        stats = attrs_dict(data, *attrs[TCA_STATS2])
        self.packets = struct.unpack_from("=I", data,
                                          stats[STATS_BASIC][0] + 8)[0]
        if STATS_APP in stats:
            self.app = data[slice(*stats[STATS_APP])]

    def counter(self, name, form="I"):
        """A member of the statistics."""
        return struct.unpack_from("=" + form, self.app, self.offsets[name])[0]

    def throttled(self):
        """Throttled sockets: by the counters, and as their own number says."""
        by_counters = self.counter("throttles", "Q") - \
            self.counter("unthrottles", "Q")
        return by_counters, self.counter("throttled_sockets")


class ClassState(State):
    """A dump of a class: options, None if it is a flow, and statistics."""

    offsets = LEAF_XSTATS

    def __init__(self, data, at, end):
        attrs = attrs_dict(data, at, end)
        self.options = self.parent = None
        if TCA_OPTIONS in attrs:
            self.options = options_bytes(data, attrs)
        stats = attrs_dict(data, *attrs[TCA_STATS2])
        self.app = data[slice(*stats[STATS_APP])]
