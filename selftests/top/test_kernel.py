# SPDX-License-Identifier: GPL-2.0-only
"""Parsing of messages, and that layouts are those of sch_bpshaper.h."""

from __future__ import annotations

import os
import re
import socket
import struct
import unittest
from typing import List
from unittest import mock

from fixtures import (
    TOP,
    a_class,
    a_flow,
    attribute,
    buckets,
    leaf_xstats,
    qdisc,
    xstats,
)

from bpshaper_top import (
    flow,
    histogram,
    leaf,
    netlink,
    shaper,
)


class Kernel(unittest.TestCase):
    def test_layouts_are_those_of_the_header(self):
        with open(os.path.join(TOP, "sch_bpshaper.h")) as file:
            header = file.read()
        kinds = {
            "__u64": "Q",
            "__s64": "q",
            "__u32": "I",
            "__s32": "i",
            "__u16": "H",
        }
        kinds.update({"__be16": "H", "__u8": "s"})

        def members(name: str) -> List[tuple]:
            body = re.search(r"struct %s \{(.*?)\};" % name, header, re.S)
            assert body
            return re.findall(r"\t(__\w+)\t(\w+)(\[\w+\])?;", body.group(1))

        def layout(name: str) -> str:
            lengths = {
                "": 1,
                "[16]": 16,
                "[TC_BPSHAPER_HIST_BUCKETS]": histogram.HIST_BUCKETS,
            }
            return "=" + "".join(
                "%d%s" % (lengths[array], kinds[kind])
                for kind, _, array in members(name)
            )

        def spelled(layout: str) -> str:
            return "".join(
                kind * int(count or 1)
                for count, kind in re.findall(r"(\d*)(\w)", layout)
            )

        for struct_name, known in (
            ("tc_bpshaper_xstats", shaper.XSTATS),
            ("tc_bpshaper_class_xstats", flow.CLASS_XSTATS),
            ("tc_bpshaper_leaf_xstats", leaf.LEAF_XSTATS),
        ):
            self.assertEqual(
                spelled(layout(struct_name)), spelled(known.format)
            )

        def numbers(name: str) -> List[str]:
            return [name for _, name, array in members(name) if not array]

        self.assertEqual(
            numbers("tc_bpshaper_xstats")[2:],
            shaper.XSTATS_NAMES + shaper.XSTATS_NAMES_BEHIND,
        )
        self.assertEqual(
            numbers("tc_bpshaper_leaf_xstats")[1:], leaf.LEAF_XSTATS_NAMES
        )
        self.assertIn("HIST_BUCKETS\t%d\n" % histogram.HIST_BUCKETS, header)

    def test_numbers_are_those_of_the_header(self):
        with open(os.path.join(TOP, "sch_bpshaper.h")) as file:
            header = file.read()
        states = re.findall(r"\tTC_BPSHAPER_FLOW_(\w+),", header)
        self.assertEqual(tuple(state.lower() for state in states), flow.STATES)
        types = re.findall(r"\tTC_BPSHAPER_XSTATS_(\w+),", header)
        self.assertEqual(types.index("LEAF"), leaf.XSTATS_LEAF)
        attributes = re.findall(r"\tTCA_BPSHAPER_(\w+),", header)
        self.assertEqual(attributes.index("RATE64"), shaper.TCA_BPSHAPER_RATE64)
        self.assertEqual(attributes.index("GROUP"), shaper.TCA_BPSHAPER_GROUP)
        first = attributes.index("CLASS_UNSPEC")
        for name in "FLOOR64 CEIL64 WEIGHT PRIO".split():
            self.assertEqual(
                attributes.index("CLASS_" + name) - first,
                getattr(leaf, "TCA_BPSHAPER_CLASS_" + name),
            )

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

    def test_a_member_of_a_group(self):
        app = xstats(group_members=4, group_waiting=3, group_tokens=-(2**33))
        found = shaper.shaper_parse(qdisc(app, group=7), "eth0")
        self.assertEqual(found.group, 7)
        self.assertEqual(found.xstats["group_members"], 4)
        self.assertEqual(found.xstats["group_waiting"], 3)
        self.assertEqual(found.xstats["group_tokens"], -(2**33))
        self.assertNotIn("reserved2", found.xstats)
        self.assertIsNone(shaper.shaper_parse(qdisc(app), "eth0").group)

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
        # before groups, before pacing
        short = shaper.shaper_parse(qdisc(app[:-28] + bytes(4)), "")
        self.assertEqual(
            (short.delay[3], short.xstats["group_members"]), (1, 0)
        )
        short = shaper.shaper_parse(qdisc(app[:-64]), "")
        self.assertEqual((short.delay[3], short.xstats["paced_waits"]), (1, 0))

    def flow_of(self, app: bytes) -> object:
        stats = attribute(
            netlink.TCA_STATS_QUEUE, struct.pack("=5I", 2, 3000, 0, 0, 0)
        )
        stats += attribute(netlink.TCA_STATS_APP, app)
        message = netlink.Message(2, 0x80010007, 0, {netlink.TCA_STATS2: stats})
        return flow.flow_parse(message, "eth0")

    def class_app(self, *peer) -> bytes:
        return flow.CLASS_XSTATS.pack(
            1, 3, 1 << 40, 5000, 99, 8, -20, 2, 17, 4, 70000, *peer
        )

    def test_a_class(self):
        known = a_flow(
            1 << 40, throttles=8, longest_throttle_ns=5000, deficit=-20
        )
        known.hash, known.socket_flows, known.socket_backlog = 99, 4, 70000
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

    def test_a_class_of_an_older_module(self):
        app = self.class_app(2, 53, 0, b"abcd")[: struct.calcsize("=IIQQIIiHH")]
        known = a_flow(
            1 << 40, throttles=8, longest_throttle_ns=5000, deficit=-20
        )
        known.hash = 99
        self.assertEqual(self.flow_of(app), known)

    def test_sockets_are_not_flows(self):
        app = xstats(socket_flows=70, sockets=3)
        found = shaper.shaper_parse(qdisc(app), "")
        self.assertEqual(found.xstats["socket_flows"], 70)
        self.assertEqual(shaper.sockets_count(found), 3)
        older = shaper.shaper_parse(qdisc(app[:-208]), "")
        self.assertEqual(shaper.sockets_count(older), 70)

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
