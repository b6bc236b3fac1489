# SPDX-License-Identifier: GPL-2.0-only
"""Parsing of messages."""

from __future__ import annotations

import socket
import struct
import unittest
from unittest import mock

from fixtures import (
    a_class,
    a_flow,
    attribute,
    buckets,
    leaf_xstats,
    members_pack,
    qdisc,
    xstats,
)

from bpshaper_top import (
    flow,
    histogram,
    leaf,
    netlink,
    shaper,
    uapi,
)


class Kernel(unittest.TestCase):
    def test_layouts_have_no_padding(self):
        """In C a member is aligned; the layouts here are packed."""
        for layout in (uapi.XSTATS, uapi.CLASS_XSTATS, uapi.LEAF_XSTATS):
            forms = "".join(form for _, form in layout)
            self.assertEqual(
                struct.calcsize("=" + forms), struct.calcsize("@" + forms)
            )
        hist = dict(uapi.XSTATS)["delay_hist"]
        self.assertEqual(hist, f"{histogram.HIST_BUCKETS}Q")

    def test_a_qdisc(self):
        app = xstats(
            {13: 7},
            throttles=9,
            throttled_sockets=4,
            purged_packets=2,
            paced_flows=3,
        )
        found = shaper.shaper_parse(qdisc(app), "eth0")
        self.assertEqual((found.handle, found.parent), ("8001:", "root"))
        self.assertEqual(
            (found.rate, found.bytes, found.packets), (25000000, 1000, 10)
        )
        self.assertEqual((found.qlen, found.backlog, found.drops), (5, 600, 1))
        self.assertEqual((found.requeues, found.overlimits), (2, 3))
        self.assertEqual(found.xstats["throttles"], 9)
        self.assertEqual(found.xstats["throttled_sockets"], 4)
        self.assertEqual(found.xstats["purged_packets"], 2)
        self.assertEqual(found.xstats["paced_flows"], 3)
        self.assertEqual(found.delay, buckets({13: 7}))

    def test_several_queues(self):
        app = xstats(queues=4, hub_waiting=3, hub_tokens=-(2**33))
        found = shaper.shaper_parse(qdisc(app), "eth0")
        self.assertEqual(found.xstats["queues"], 4)
        self.assertEqual(found.xstats["hub_waiting"], 3)
        self.assertEqual(found.xstats["hub_tokens"], -(2**33))
        self.assertNotIn("reserved2", found.xstats)

    def test_a_class_that_was_added(self):
        app = leaf_xstats(
            {13: 7},
            children=2,
            throttles=9,
            rate=125000,
            paced_flows=3,
            floor_in_effect=500,
            ce_marks=6,
        )
        message = a_class(app, parent=0xFFFFFFFF)
        self.assertTrue(leaf.is_leaf(message))
        found = leaf.leaf_parse(message, "eth0")
        self.assertEqual((found.classid, found.parent), ("8001:10", "root"))
        self.assertEqual((found.floor, found.ceil), (1000, None))
        self.assertEqual((found.weight, found.prio), (3, 7))
        self.assertEqual((found.bytes, found.packets), (900, 9))
        self.assertEqual((found.qlen, found.backlog, found.drops), (4, 500, 1))
        self.assertEqual(found.overlimits, 3)
        self.assertEqual(found.xstats["children"], 2)
        self.assertEqual(found.xstats["throttles"], 9)
        self.assertEqual(found.xstats["rate"], 125000)
        self.assertEqual(found.xstats["floor_in_effect"], 500)
        self.assertEqual(found.xstats["ce_marks"], 6)
        self.assertEqual(found.xstats["paced_flows"], 3)
        self.assertEqual(found.delay, buckets({13: 7}))
        self.assertEqual(found.outside, buckets({5: 2}))
        newer = leaf.leaf_parse(a_class(app + b"x" * 9), "eth0")
        self.assertEqual(newer.xstats, found.xstats)
        older = leaf.leaf_parse(a_class(app[:-8]), "eth0")
        self.assertEqual(older.xstats, {**found.xstats, "ce_marks": 0})
        short = leaf.leaf_parse(a_class(app[:16]), "eth0")
        self.assertEqual(short.xstats["throttles"], 9)
        self.assertEqual(short.delay, buckets({}))

    def test_a_flow_is_no_class(self):
        self.assertFalse(leaf.is_leaf(a_class(self.class_app(0, 0, 0, b""))))
        self.assertFalse(leaf.is_leaf(netlink.Message(2, 1, 0, {})))

    def test_no_rate(self):
        found = shaper.shaper_parse(
            qdisc(xstats(), shaper.RATE_UNLIMITED), "eth0"
        )
        self.assertIsNone(found.rate)

    def test_statistics_of_another_length(self):
        app = xstats({3: 1}, throttles=9)
        self.assertEqual(
            shaper.shaper_parse(qdisc(app + b"x" * 9), "").delay[3], 1
        )
        short = shaper.shaper_parse(qdisc(app[:20]), "")
        self.assertEqual(short.xstats["throttles"], 9)
        self.assertEqual(short.delay, buckets({}))
        # before there were several queues, before pacing
        short = shaper.shaper_parse(qdisc(app[:-28] + bytes(4)), "")
        self.assertEqual((short.delay[3], short.xstats["queues"]), (1, 0))
        short = shaper.shaper_parse(qdisc(app[:-64]), "")
        self.assertEqual((short.delay[3], short.xstats["paced_waits"]), (1, 0))

    def flow_of(self, app: bytes) -> object:
        stats = attribute(
            netlink.TCA_STATS_QUEUE, struct.pack("=5I", 2, 3000, 0, 0, 0)
        )
        stats += attribute(netlink.TCA_STATS_APP, app)
        message = netlink.Message(
            2, 0x80010007, 0x80010010, {netlink.TCA_STATS2: stats}
        )
        return flow.flow_parse(message, "eth0")

    def class_app(self, *peer) -> bytes:
        names = "peer_family peer_port reserved peer".split()
        return members_pack(
            uapi.CLASS_XSTATS,
            type=1,
            state=3,
            cookie=1 << 40,
            longest_throttle_ns=5000,
            hash=99,
            throttles=8,
            deficit=-20,
            family=2,
            protocol=17,
            socket_flows=4,
            socket_backlog=70000,
            **dict(zip(names, peer)),
        )

    def test_a_class(self):
        known = a_flow(
            1 << 40, throttles=8, longest_throttle_ns=5000, deficit=-20
        )
        known.hash, known.socket_flows, known.socket_backlog = 99, 4, 70000
        known.parent = "8001:10"
        self.assertEqual(self.flow_of(self.class_app(0, 0, 0, b"")), known)
        known.peer, known.peer_port = "10.0.0.1", 53
        port, address = socket.htons(53), bytes([10, 0, 0, 1])
        app = self.class_app(socket.AF_INET, port, 0, address)
        self.assertEqual(self.flow_of(app), known)
        self.assertEqual(
            self.flow_of(app + b"x" * 9), known, "of a newer module"
        )
        known.peer = "fd99::1"
        address = socket.inet_pton(socket.AF_INET6, "fd99::1")
        app = self.class_app(socket.AF_INET6, port, 0, address)
        self.assertEqual(self.flow_of(app), known)
        known.peer_port = None
        app = self.class_app(socket.AF_INET6, 0, 0, address)
        self.assertEqual(self.flow_of(app), known)
        known.peer = None
        self.assertEqual(
            self.flow_of(self.class_app(99, port, 0, address)), known
        )

    def test_attributes_cut_short(self):
        whole = attribute(1, b"abcd")
        self.assertEqual(netlink.attributes_parse(whole[:6]), {1: b"ab"})
        self.assertEqual(
            netlink.attributes_parse(whole + b"\0\0\0\0"), {1: b"abcd"}
        )
        self.assertEqual(netlink.attributes_parse(b"\1"), {})

    def test_an_error_is_an_exception(self):
        payload = struct.pack("=i", -19) + bytes(16)
        answer = netlink.HEADER.pack(36, netlink.NLMSG_ERROR, 0, 1, 0) + payload
        with mock.patch.object(netlink.socket, "socket") as fake:
            fake.return_value.__enter__.return_value.recv.return_value = answer
            with self.assertRaises(OSError) as caught:
                netlink.dump(netlink.RTM_GETTCLASS, netlink.RTM_NEWTCLASS, 5)
        self.assertEqual(caught.exception.errno, 19)
