# SPDX-License-Identifier: GPL-2.0-only
"""What the unit tests of bpshaper-top share."""

from __future__ import annotations

import io
import os
import struct
import sys
from contextlib import redirect_stdout
from typing import Dict, List
from unittest import mock

sys.dont_write_bytecode = True
TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
TOOL = os.path.join(TOP, "tools", "bpshaper-top")
sys.path.insert(0, os.path.join(TOP, "tools"))

from bpshaper_top import (  # noqa: E402
    arguments,
    flow,
    histogram,
    leaf,
    main,
    netlink,
    sample,
    shaper,
    sockets,
    uapi,
    view,
)

SS_LINES = """\
udp   UNCONN 0      215552 10.99.0.1:7000  10.99.0.9:9000 ino:1200 sk:1 cgroup:/ <->
udp   UNCONN 0      0      0.0.0.0:68      0.0.0.0:*     uid:101 ino:12 sk:1a2b cgroup:/system.slice/x <->
tcp   ESTAB  0      36     [fd99::1]:22    [fd99::2]:5000 timer:(on,204ms,0) ino:77 sk:2 cgroup:/ <->
udp   UNCONN 0      0      [fe80::1]%eth0:546 [::]:*     ino:9 sk:3 cgroup:/ <->
p_raw UNCONN 0      0      ip:eth0         *             ino:11 sk:4
tcp   ESTAB  0      0      10.0.0.1:1      10.0.0.2:2    ino:78 sk:5 cgroup:/x ino:1 sk:7 <->
p_dgr UNCONN 0      0      ip:²            *             ino:13 sk:6
p_raw UNCONN 0      0      ip:80           *             ino:14 sk:8
udp   UNCONN 0      0      0.0.0.0%a\x1cb:68 0.0.0.0:*   ino:15 sk:9 cgroup:/x\x0budp E 0 0 x y ino:1 sk:a\ry\x85z <->
u_str ESTAB  0      0      * 123           * 124
"""
SS_PROCESSES = {
    12: [sockets.Process("dhclient", 7, 6), sockets.Process("a b", 8, 6)],
    1200: [sockets.Process("talker", 148, 3)],
}


def attribute(kind: int, payload: bytes) -> bytes:
    data = struct.pack("=HH", len(payload) + 4, kind) + payload
    return data + bytes(-len(data) % 4)


def buckets(counts: Dict[int, int]) -> tuple:
    return tuple(counts.get(i, 0) for i in range(histogram.HIST_BUCKETS))


def members_pack(layout: tuple, **values: object) -> bytes:
    """A struct of the uAPI; what is not named is zero."""
    data = b""
    for name, form in layout:
        value = values.get(name, b"" if form[-1] == "s" else 0)
        if form[:-1] and form[-1] != "s":
            data += struct.pack("=" + form, *(value or buckets({})))
        else:
            data += struct.pack("=" + form, value)
    return data


def xstats(delay: Dict[int, int] = {}, **values: int) -> bytes:
    return members_pack(
        uapi.XSTATS,
        type=shaper.XSTATS_QDISC,
        delay_hist=buckets(delay),
        **values,
    )


def qdisc(app: bytes, rate: int = 25000000, sent: int = 1000) -> object:
    """A message like those of the kernel."""
    stats = (
        attribute(netlink.TCA_STATS_BASIC, struct.pack("=QIxxxx", sent, 10))
        + attribute(
            netlink.TCA_STATS_QUEUE, struct.pack("=5I", 5, 600, 1, 2, 3)
        )
        + attribute(netlink.TCA_STATS_APP, app)
    )
    options = attribute(uapi.OPTIONS["rate"], struct.pack("=Q", rate))
    data = (
        attribute(netlink.TCA_KIND, b"bpshaper\0")
        + attribute(netlink.TCA_OPTIONS | 0x8000, options)
        + attribute(netlink.TCA_STATS2, stats)
    )
    return netlink.Message(
        2, 0x80010000, 0xFFFFFFFF, netlink.attributes_parse(data)
    )


def leaf_xstats(delay: Dict[int, int] = {}, **values: int) -> bytes:
    return members_pack(
        uapi.LEAF_XSTATS,
        type=leaf.XSTATS_LEAF,
        delay_hist=buckets(delay),
        outside_hist=buckets({5: 2}),
        **values,
    )


def a_class(
    app: bytes, handle: int = 0x80010010, parent: int = 0x80010000
) -> object:
    """A message like those of the kernel."""
    options = (
        attribute(uapi.CLASS_OPTIONS["floor"], struct.pack("=Q", 1000))
        + attribute(uapi.CLASS_OPTIONS["ceil"], b"\xff" * 8)
        + attribute(uapi.CLASS_OPTIONS["weight"], struct.pack("=I", 3))
        + attribute(uapi.CLASS_OPTIONS["prio"], struct.pack("=I", 7))
    )
    stats = (
        attribute(netlink.TCA_STATS_BASIC, struct.pack("=QIxxxx", 900, 9))
        + attribute(
            netlink.TCA_STATS_QUEUE, struct.pack("=5I", 4, 500, 1, 0, 3)
        )
        + attribute(netlink.TCA_STATS_APP, app)
    )
    data = (
        attribute(netlink.TCA_KIND, b"bpshaper\0")
        + attribute(netlink.TCA_OPTIONS | 0x8000, options)
        + attribute(netlink.TCA_STATS2, stats)
    )
    return netlink.Message(2, handle, parent, netlink.attributes_parse(data))


def a_leaf(minor: str = "10", parent: str = "8001:", **values) -> object:
    result = leaf.leaf_parse(a_class(leaf_xstats()), "eth0")
    result.classid, result.parent = "8001:" + minor, parent
    for name, value in values.items():
        setattr(result, name, value)
    return result


def classes_view() -> object:
    """A shaper with a class and its child, which is younger."""
    new = sample.Sample(2.0, [a_shaper()], [])
    new.leaves = [
        a_leaf(bytes=25000900, drops=5, delay=buckets({13: 100})),
        a_leaf("11", "8001:10", ceil=125000),
    ]
    new.leaves[0].xstats.update(throttled_sockets=4, outside_sockets=2)
    old = sample.Sample(1.0, [a_shaper()], [], [a_leaf()])
    unheld = mock.Mock(**{"look.return_value": []})
    return view.view_make(new, old, sockets.Directory(), unheld, False)


def a_shaper(**values) -> object:
    result = shaper.shaper_parse(qdisc(xstats()), "eth0")
    for name, value in values.items():
        setattr(result, name, value)
    return result


def a_flow(cookie: int, **values) -> object:
    result = flow.Flow(
        "eth0", "8001:", cookie, flow.THROTTLED, 2, 17, 3000, 2, 1, 1, 0
    )
    for name, value in values.items():
        setattr(result, name, value)
    return result


def a_view(flows: List[object], sockets: Dict[int, object]) -> object:
    new = sample.Sample(
        2.0, [a_shaper(bytes=25001000, delay=buckets({13: 100}))], flows
    )
    old = sample.Sample(1.0, [a_shaper()], [])
    return view.View(1.25, sample.changes(new, old), flows, sockets)


HOSTILE = "e\x1b[2Jx\udcff"  # a device; its last byte is no UTF-8


def hostile_view() -> object:
    """Hostile names of a device, a packet socket and a process."""
    sock = sockets.Socket("udp", "ip:\x9bc\x7f", None, "*", None)
    sock.processes.append(sockets.Process("\x1b[2Jx\n\u00e9", 1, 3))
    change = sample.Change(a_shaper(device=HOSTILE))
    return view.View(1.0, [change], [a_flow(1, device=HOSTILE)], {1: sock})


def once_text(*words: str, view: object = None) -> str:
    """What it prints where stdout takes strict UTF-8 only."""
    shown = view or hostile_view()
    output = io.TextIOWrapper(io.BytesIO(), "utf-8", "strict")
    nothing = sample.Sample(0.0, [], [])
    with mock.patch.object(main, "sample_take", return_value=nothing):
        with mock.patch.object(main, "view_make", return_value=shown):
            with mock.patch.object(main.time, "sleep"), redirect_stdout(output):
                main.once(arguments.arguments_parse(list(words)))
    output.flush()
    return output.buffer.getvalue().decode()


def server_view() -> object:
    """A socket with three peers, one with one, and both on another device."""
    known = {
        1: sockets.Socket("udp", "0.0.0.0", 53, "0.0.0.0", None),
        2: sockets.Socket(),
    }
    known[1].processes.append(sockets.Process("server", 5, 3))
    flows = [
        a_flow(
            1, peer="10.0.0.3", peer_port=7, backlog=100, qlen=1, throttles=4
        ),
        a_flow(1, peer="fd99::1", peer_port=8, backlog=700, qlen=3, deficit=-9),
        a_flow(2, peer="10.0.0.9", backlog=500, qlen=1, hash=7, deficit=3),
        a_flow(1, peer="10.0.0.2", peer_port=9, backlog=100, qlen=1),
        a_flow(
            1, peer="10.0.0.4", peer_port=10, device="eth1", backlog=1, qlen=1
        ),
    ]
    return a_view(flows, known)
