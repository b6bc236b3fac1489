# SPDX-License-Identifier: GPL-2.0-only
"""Ask the kernel for qdiscs and classes: linux/netlink.h, rtnetlink.h,
gen_stats.h.
"""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Tuple

RTM_NEWQDISC, RTM_GETQDISC, RTM_NEWTCLASS, RTM_GETTCLASS = 36, 38, 40, 42
NLM_F_REQUEST_DUMP = 0x301
NLMSG_ERROR, NLMSG_DONE = 2, 3
TCA_KIND, TCA_OPTIONS, TCA_STATS2 = 1, 2, 7
TCA_STATS_BASIC, TCA_STATS_QUEUE, TCA_STATS_APP, TCA_STATS_PKT64 = 1, 3, 4, 8
NLA_TYPE_MASK = 0x3FFF

Members = Tuple[Tuple[str, str], ...]

HEADER = struct.Struct("=IHHII")  # nlmsghdr
TCMSG = struct.Struct("=BxxxiIII")


@dataclass
class Message:
    """A qdisc or class as the kernel describes it."""

    ifindex: int
    handle: int
    parent: int
    attributes: Dict[int, bytes]


def attributes_parse(data: bytes) -> Dict[int, bytes]:
    attributes = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        attributes[kind & NLA_TYPE_MASK] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return attributes


def messages_parse(data: bytes) -> Iterator[Tuple[int, bytes]]:
    """The messages of a datagram: type and payload."""
    while len(data) >= HEADER.size:
        length, kind, _, _, _ = HEADER.unpack_from(data)
        if length < HEADER.size:
            break
        yield kind, data[HEADER.size : length]
        data = data[(length + 3) & ~3 :]


def dump(request: int, answer: int, ifindex: int = 0) -> List[Message]:
    """All qdiscs, or all classes of a device."""
    body = TCMSG.pack(socket.AF_UNSPEC, ifindex, 0, 0, 0)
    header = HEADER.pack(
        HEADER.size + len(body), request, NLM_F_REQUEST_DUMP, 1, 0
    )
    found: List[Message] = []
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE
    ) as link:
        link.send(header + body)
        while True:
            for kind, payload in messages_parse(link.recv(1 << 18)):
                if kind in (NLMSG_DONE, NLMSG_ERROR):
                    error = struct.unpack_from("=i", payload)[0]
                    if error:
                        raise OSError(-error, os.strerror(-error))
                    return found
                if kind == answer:
                    _, index, handle, parent, _ = TCMSG.unpack_from(payload)
                    attributes = attributes_parse(payload[TCMSG.size :])
                    found.append(Message(index, handle, parent, attributes))


def is_bpshaper(message: Message) -> bool:
    return message.attributes.get(TCA_KIND) == b"bpshaper\0"


def members_unpack(layout: Members, data: bytes) -> Dict[str, Any]:
    """The members of a struct of the uAPI by name. What is missing at its end
    is zero. A histogram is a tuple.
    """
    values = unpack_padded(
        struct.Struct("=" + "".join(form for _, form in layout)), data
    )
    members, at = {}, 0
    for name, form in layout:
        count = int(form[:-1]) if form[:-1] and form[-1] != "s" else 1
        members[name] = values[at] if count == 1 else values[at : at + count]
        at += count
    return members


def unpack_padded(layout: struct.Struct, data: bytes) -> Tuple[Any, ...]:
    return layout.unpack(data[: layout.size].ljust(layout.size, b"\0"))


def handle_text(handle: int) -> str:
    if handle == 0xFFFFFFFF:
        return "root"
    major, minor = handle >> 16, handle & 0xFFFF
    return "%x:%s" % (major, "%x" % minor if minor else "")
