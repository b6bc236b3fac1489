#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Unit tests of tools/bpshaper-top: no root, no module, no network."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import io
import json
import math
import os
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import types
import unittest
from contextlib import redirect_stderr, redirect_stdout
from typing import Dict, List
from unittest import mock

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.path.join(TOP, "tools", "bpshaper-top")


def tool_load() -> types.ModuleType:
    loader = importlib.machinery.SourceFileLoader("bpshaper_top", TOOL)
    spec = importlib.util.spec_from_loader("bpshaper_top", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.modules["bpshaper_top"] = module
    loader.exec_module(module)
    return module


top = tool_load()

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
    12: [top.Process("dhclient", 7, 6), top.Process("a b", 8, 6)],
    1200: [top.Process("talker", 148, 3)],
}


def attribute(kind: int, payload: bytes) -> bytes:
    data = struct.pack("=HH", len(payload) + 4, kind) + payload
    return data + bytes(-len(data) % 4)


def histogram(counts: Dict[int, int]) -> tuple:
    return tuple(counts.get(i, 0) for i in range(top.HIST_BUCKETS))


def xstats(delay: Dict[int, int] = {}, **values: int) -> bytes:
    numbers = [values.get(name, 0) for name in top.XSTATS_NAMES]
    hists = histogram(delay) + histogram({}) + histogram({})
    behind = [values.get(name, 0) for name in top.XSTATS_NAMES_BEHIND]
    return top.XSTATS.pack(top.XSTATS_QDISC, 0, *numbers, *hists, *behind)


def qdisc(
    app: bytes, rate: int = 25000000, sent: int = 1000, group: int = 0
) -> object:
    """A message like those of the kernel."""
    stats = (
        attribute(top.TCA_STATS_BASIC, struct.pack("=QIxxxx", sent, 10))
        + attribute(top.TCA_STATS_QUEUE, struct.pack("=5I", 5, 600, 1, 2, 3))
        + attribute(top.TCA_STATS_APP, app)
    )
    options = attribute(top.TCA_BPSHAPER_RATE64, struct.pack("=Q", rate))
    if group:
        options += attribute(top.TCA_BPSHAPER_GROUP, struct.pack("=I", group))
    data = (
        attribute(top.TCA_KIND, b"bpshaper\0")
        + attribute(top.TCA_OPTIONS | 0x8000, options)
        + attribute(top.TCA_STATS2, stats)
    )
    return top.Message(2, 0x80010000, 0xFFFFFFFF, top.attributes_parse(data))


def shaper(**values) -> object:
    result = top.shaper_parse(qdisc(xstats()), "eth0")
    for name, value in values.items():
        setattr(result, name, value)
    return result


def flow(cookie: int, **values) -> object:
    result = top.Flow("eth0", "8001:", cookie, top.THROTTLED, 2, 17, 3000, 2, 1, 1, 0)
    for name, value in values.items():
        setattr(result, name, value)
    return result


def view(flows: List[object], sockets: Dict[int, object]) -> object:
    new = top.Sample(2.0, [shaper(bytes=25001000, delay=histogram({13: 100}))], flows)
    old = top.Sample(1.0, [shaper()], [])
    return top.View(1.25, top.changes(new, old), flows, sockets)


HOSTILE = "e\x1b[2Jx\udcff"  # a device; its last byte is no UTF-8


def hostile_view() -> object:
    """A container chose the names of its device, its packet socket and process."""
    sock = top.Socket("udp", "ip:\x9bc\x7f", None, "*", None)
    sock.processes.append(top.Process("\x1b[2Jx\n\u00e9", 1, 3))
    change = top.Change(shaper(device=HOSTILE))
    return top.View(1.0, [change], [flow(1, device=HOSTILE)], {1: sock})


def once_text(*words: str) -> str:
    """What it prints where stdout takes strict UTF-8 only."""
    output = io.TextIOWrapper(io.BytesIO(), "utf-8", "strict")
    nothing = top.Sample(0.0, [], [])
    with mock.patch.object(top, "sample_take", return_value=nothing):
        with mock.patch.object(top, "view_make", return_value=hostile_view()):
            with mock.patch.object(top.time, "sleep"), redirect_stdout(output):
                top.once(top.arguments_parse(list(words)))
    output.flush()
    return output.buffer.getvalue().decode()


class Percentiles(unittest.TestCase):
    def test_nothing_happened(self):
        self.assertIsNone(top.percentile(histogram({}), 50))
        self.assertIsNone(top.percentile((), 50))

    def test_buckets_are_those_of_the_header(self):
        self.assertEqual(top.bucket_bounds(0), (0, 1024))
        self.assertEqual(top.bucket_bounds(1), (1024, 2048))
        for bucket in range(1, top.HIST_BUCKETS - 1):
            low, high = top.bucket_bounds(bucket)
            self.assertEqual(low, 2 ** (bucket + 9))
            self.assertEqual(high, top.bucket_bounds(bucket + 1)[0])
        self.assertEqual(top.bucket_bounds(23), (2**32, math.inf))

    def test_times_are_taken_as_spread_evenly(self):
        self.assertEqual(top.percentile(histogram({0: 7}), 50), 512)
        self.assertEqual(top.percentile(histogram({1: 100}), 50), 1536)
        self.assertEqual(top.percentile(histogram({1: 100}), 100), 2048)
        self.assertEqual(top.percentile(histogram({1: 90, 5: 10}), 90), 2048)
        self.assertEqual(top.percentile(histogram({1: 90, 5: 10}), 95), 16384 * 1.5)

    def test_of_the_longest_the_bound_is_known(self):
        value = top.percentile(histogram({23: 1}), 50)
        self.assertEqual(value, top.LONGEST_KNOWN_NS)
        self.assertEqual(top.percentile_text(histogram({23: 1}), 50), ">4.29s")
        self.assertEqual(top.percentile_text(histogram({22: 1}), 50), "3.22s")

    def test_off_by_less_than_a_factor_of_two(self):
        dice = random.Random(1)
        for _ in range(50):
            times = sorted(
                int(10 ** dice.uniform(3.02, 9.6)) for _ in range(dice.randint(1, 500))
            )
            counts: Dict[int, int] = {}
            for value in times:
                bucket = value.bit_length() - 10
                counts[bucket] = counts.get(bucket, 0) + 1
            for percent in (50, 99):
                true = times[math.ceil(len(times) * percent / 100) - 1]
                found = top.percentile(histogram(counts), percent)
                self.assertLessEqual(found, true * 2)
                self.assertGreaterEqual(found, true / 2)


class Kernel(unittest.TestCase):
    def test_layouts_are_those_of_the_header(self):
        with open(os.path.join(TOP, "sch_bpshaper.h")) as file:
            header = file.read()
        kinds = {"__u64": "Q", "__s64": "q", "__u32": "I", "__s32": "i", "__u16": "H"}
        kinds.update({"__be16": "H", "__u8": "s"})

        def members(name: str) -> List[tuple]:
            body = re.search(r"struct %s \{(.*?)\};" % name, header, re.S)
            assert body
            return re.findall(r"\t(__\w+)\t(\w+)(\[\w+\])?;", body.group(1))

        def layout(name: str) -> str:
            lengths = {"": 1, "[16]": 16, "[TC_BPSHAPER_HIST_BUCKETS]": top.HIST_BUCKETS}
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
            ("tc_bpshaper_xstats", top.XSTATS),
            ("tc_bpshaper_class_xstats", top.CLASS_XSTATS),
        ):
            self.assertEqual(spelled(layout(struct_name)), spelled(known.format))
        names = [name for _, name, array in members("tc_bpshaper_xstats") if not array]
        self.assertEqual(names[2:], top.XSTATS_NAMES + top.XSTATS_NAMES_BEHIND)
        self.assertIn("HIST_BUCKETS\t%d\n" % top.HIST_BUCKETS, header)
        states = re.findall(r"\tTC_BPSHAPER_FLOW_(\w+),", header)
        self.assertEqual(tuple(state.lower() for state in states), top.STATES)
        attributes = re.findall(r"\tTCA_BPSHAPER_(\w+),", header)
        self.assertEqual(attributes.index("RATE64"), top.TCA_BPSHAPER_RATE64)
        self.assertEqual(attributes.index("GROUP"), top.TCA_BPSHAPER_GROUP)

    def test_a_qdisc(self):
        app = xstats(
            {13: 7}, throttles=9, throttled_sockets=4, purged_packets=2, paced_flows=3
        )
        found = top.shaper_parse(qdisc(app), "eth0")
        self.assertEqual((found.handle, found.parent), ("8001:", "root"))
        self.assertEqual((found.rate, found.bytes, found.packets), (25000000, 1000, 10))
        self.assertEqual((found.qlen, found.backlog, found.drops), (5, 600, 1))
        self.assertEqual((found.requeues, found.overlimits), (2, 3))
        self.assertEqual(found.xstats["throttles"], 9)
        self.assertEqual(found.xstats["throttled_sockets"], 4)
        self.assertEqual(found.xstats["purged_packets"], 2)
        self.assertEqual(found.xstats["paced_flows"], 3)
        self.assertEqual(found.delay, histogram({13: 7}))

    def test_a_member_of_a_group(self):
        app = xstats(group_members=4, group_waiting=3, group_tokens=-(2**33))
        found = top.shaper_parse(qdisc(app, group=7), "eth0")
        self.assertEqual(found.group, 7)
        self.assertEqual(found.xstats["group_members"], 4)
        self.assertEqual(found.xstats["group_waiting"], 3)
        self.assertEqual(found.xstats["group_tokens"], -(2**33))
        self.assertNotIn("reserved2", found.xstats)
        self.assertIsNone(top.shaper_parse(qdisc(app), "eth0").group)

    def test_no_rate(self):
        found = top.shaper_parse(qdisc(xstats(), top.RATE_UNLIMITED), "eth0")
        self.assertIsNone(found.rate)

    def test_statistics_of_another_length(self):
        app = xstats({3: 1}, throttles=9)
        self.assertEqual(top.shaper_parse(qdisc(app + b"x" * 9), "").delay[3], 1)
        short = top.shaper_parse(qdisc(app[:20]), "")
        self.assertEqual(short.xstats["throttles"], 9)
        self.assertEqual(short.delay, histogram({}))
        # before groups, before pacing
        short = top.shaper_parse(qdisc(app[:-28] + bytes(4)), "")
        self.assertEqual((short.delay[3], short.xstats["group_members"]), (1, 0))
        short = top.shaper_parse(qdisc(app[:-64]), "")
        self.assertEqual((short.delay[3], short.xstats["paced_waits"]), (1, 0))

    def flow_of(self, app: bytes) -> object:
        stats = attribute(top.TCA_STATS_QUEUE, struct.pack("=5I", 2, 3000, 0, 0, 0))
        stats += attribute(top.TCA_STATS_APP, app)
        message = top.Message(2, 0x80010007, 0, {top.TCA_STATS2: stats})
        return top.flow_parse(message, "eth0")

    def class_app(self, *peer) -> bytes:
        return top.CLASS_XSTATS.pack(
            1, 3, 1 << 40, 5000, 99, 8, -20, 2, 17, 4, 70000, *peer
        )

    def test_a_class(self):
        known = flow(1 << 40, throttles=8, longest_throttle_ns=5000, deficit=-20)
        known.hash, known.socket_flows, known.socket_backlog = 99, 4, 70000
        self.assertEqual(self.flow_of(self.class_app(0, 0, 0, b"")), known)
        known.peer, known.peer_port = "10.0.0.1", 53
        port, address = socket.htons(53), bytes([10, 0, 0, 1])
        app = self.class_app(socket.AF_INET, port, 0, address)
        self.assertEqual(self.flow_of(app), known)
        self.assertEqual(self.flow_of(app + b"x" * 9), known, "of a newer module")
        known.peer = "fd99::1"
        address = socket.inet_pton(socket.AF_INET6, "fd99::1")
        app = self.class_app(socket.AF_INET6, port, 0, address)
        self.assertEqual(self.flow_of(app), known)
        known.peer_port = None
        app = self.class_app(socket.AF_INET6, 0, 0, address)
        self.assertEqual(self.flow_of(app), known)
        known.peer = None
        self.assertEqual(self.flow_of(self.class_app(99, port, 0, address)), known)

    def test_a_class_of_an_older_module(self):
        app = self.class_app(2, 53, 0, b"abcd")[: struct.calcsize("=IIQQIIiHH")]
        known = flow(1 << 40, throttles=8, longest_throttle_ns=5000, deficit=-20)
        known.hash = 99
        self.assertEqual(self.flow_of(app), known)

    def test_sockets_are_not_flows(self):
        app = xstats(socket_flows=70, sockets=3)
        found = top.shaper_parse(qdisc(app), "")
        self.assertEqual(found.xstats["socket_flows"], 70)
        self.assertEqual(top.sockets_count(found), 3)
        self.assertNotIn("reserved3", found.xstats)
        older = top.shaper_parse(qdisc(app[:-8]), "")
        self.assertEqual(top.sockets_count(older), 70)

    def test_attributes_cut_short(self):
        whole = attribute(1, b"abcd")
        self.assertEqual(top.attributes_parse(whole[:6]), {1: b"ab"})
        self.assertEqual(top.attributes_parse(whole + b"\0\0\0\0"), {1: b"abcd"})
        self.assertEqual(top.attributes_parse(b"\1"), {})

    def test_an_error_is_an_exception(self):
        payload = struct.pack("=i", -19) + bytes(16)
        answer = top.HEADER.pack(36, top.NLMSG_ERROR, 0, 1, 0) + payload
        with mock.patch.object(top.socket, "socket") as fake:
            fake.return_value.__enter__.return_value.recv.return_value = answer
            with self.assertRaises(OSError) as caught:
                top.dump(top.RTM_GETTCLASS, top.RTM_NEWTCLASS, 5)
        self.assertEqual(caught.exception.errno, 19)


class Changes(unittest.TestCase):
    def change(self, new: object, *old: object) -> object:
        return top.changes(top.Sample(3.0, [new], []), top.Sample(1.0, list(old), []))[0]

    def test_rates_are_per_second(self):
        change = self.change(shaper(bytes=5000, drops=7), shaper(bytes=1000, drops=1))
        self.assertEqual((change.sent_rate, change.drop_rate), (2000, 3))

    def test_percentiles_are_of_the_interval(self):
        old, new = histogram({3: 1000}), histogram({3: 1000, 9: 4})
        for name in ("delay", "throttle", "lateness"):
            change = self.change(shaper(**{name: new}), shaper(**{name: old}))
            self.assertEqual(getattr(change, name), histogram({9: 4}))

    def test_a_new_shaper_has_no_rate_yet(self):
        self.assertIsNone(self.change(shaper()).sent_rate)
        self.assertIsNone(self.change(shaper(), shaper(device="eth1")).sent_rate)

    def test_nor_has_one_that_has_been_replaced(self):
        self.assertIsNone(self.change(shaper(bytes=1), shaper(bytes=2)).sent_rate)
        old = shaper(delay=histogram({1: 1}))
        self.assertIsNone(self.change(shaper(bytes=9000), old).sent_rate)


class Lookups:
    """A host with network namespaces, in which ss takes some time."""

    def __init__(self, count: int, found: Dict[int, dict], seconds: float = 0.01):
        self.paths = ["/%02d" % i for i in range(count)]
        self.found = {self.paths[i]: sockets for i, sockets in found.items()}
        self.directory = top.Directory()
        self.seconds, self.now = seconds, 0.0
        self.asked: List[str] = []

    def ss_run(self, path: str, _: dict) -> dict:
        self.now += self.seconds
        self.asked.append(path)
        return self.found.get(path, {})

    def look_up(self, cookies: List[int]) -> dict:
        def other_netns():
            return iter(self.paths)

        with mock.patch.object(top, "ss_run", self.ss_run):
            with mock.patch.object(top, "other_netns", other_netns):
                with mock.patch.object(top.time, "monotonic", lambda: self.now):
                    return self.directory.look_up(cookies)


class Sockets(unittest.TestCase):
    def setUp(self):
        self.found = top.ss_parse(SS_LINES, SS_PROCESSES)

    def test_a_cookie_is_hexadecimal(self):
        self.assertEqual(sorted(self.found), [1, 2, 3, 4, 5, 6, 8, 9, 0x1A2B])

    def test_ports_and_process(self):
        self.assertEqual(
            self.found[1],
            top.Socket(
                "udp",
                "10.99.0.1",
                7000,
                "10.99.0.9",
                9000,
                [top.Process("talker", 148, 3)],
            ),
        )

    def test_several_processes(self):
        processes = self.found[0x1A2B].processes
        self.assertEqual([p.name for p in processes], ["dhclient", "a b"])

    def test_a_cgroup_or_device_cannot_forge_a_line(self):
        self.assertEqual(self.found[5], top.Socket("tcp", "10.0.0.1", 1, "10.0.0.2", 2))
        found = top.Socket("udp", "0.0.0.0%a\x1cb", 68, "0.0.0.0", None)
        self.assertEqual(self.found[9], found)

    def test_a_device_of_a_packet_socket_is_no_port(self):
        for cookie, name in ((6, "ip:²"), (8, "ip:80")):
            found = self.found[cookie]
            self.assertEqual((found.local, found.local_port), (name, None))

    def test_a_process_cannot_forge_its_addresses(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.bind(("127.0.0.1", 0))
            cookie, = struct.unpack("=Q", own.getsockopt(socket.SOL_SOCKET, 57, 8))
            with open("/proc/self/comm") as file:
                name = file.read()
            try:
                for hostile in ("a\nudp E 0 0 x y", '",pid=1,fd=3),'):
                    with open("/proc/self/comm", "w") as file:
                        file.write(hostile)
                    with mock.patch.object(top, "other_netns", return_value=iter(())):
                        found = top.Directory().look_up([cookie])[cookie]
                    if not found.netid:
                        self.skipTest("ss does not list it")
                    process = top.Process(hostile, os.getpid(), own.fileno())
                    self.assertEqual(found.processes, [process])
                    self.assertEqual(
                        (found.local, found.local_port), own.getsockname()
                    )
            finally:
                with open("/proc/self/comm", "w") as file:
                    file.write(name)

    def test_who_holds_a_socket(self):
        with tempfile.TemporaryDirectory() as proc:
            for pid, name in ((7, b"a\n\xff"), (8, b"b"), (9, b"ended")):
                os.makedirs("%s/%d/fd" % (proc, pid))
                with open("%s/%d/comm" % (proc, pid), "wb") as file:
                    file.write(name + b"\n")
            os.rmdir(proc + "/9/fd")
            os.mkdir(proc + "/sys")
            for link, target in (
                ("7/fd/3", "socket:[12]"),
                ("7/fd/4", "/socket:[13]"),
                ("8/fd/5", "socket:[12]"),
                ("8/fd/6", "socket:[14]"),
            ):
                os.symlink(target, proc + "/" + link)
            with open(proc + "/8/fd/7", "w"):
                pass  # as good as closed since: it cannot be read as a link
            found = top.processes_by_socket(proc)
        own, other = top.Process("a\n\ufffd", 7, 3), top.Process("b", 8, 5)
        self.assertEqual(sorted(found), [12, 14])
        self.assertEqual(sorted(found[12], key=lambda p: p.pid), [own, other])
        self.assertEqual(found[14], [top.Process("b", 8, 6)])

    def test_no_process_is_named(self):
        self.assertEqual(self.found[3].processes, [])

    def test_addresses(self):
        found = self.found
        self.assertEqual((found[2].local, found[2].local_port), ("fd99::1", 22))
        self.assertEqual((found[3].local, found[3].local_port), ("fe80::1%eth0", 546))
        self.assertEqual((found[3].peer, found[3].peer_port), ("::", None))
        self.assertEqual((found[4].local, found[4].local_port), ("ip:eth0", None))
        self.assertEqual(found[4].peer, "*")
        self.assertEqual(top.address_text("fd99::1", 22), "[fd99::1]:22")
        self.assertEqual(top.address_text("10.0.0.1", 22), "10.0.0.1:22")
        self.assertEqual(top.address_text("ip:eth0", None), "ip:eth0")

    def test_join(self):
        directory = top.Directory()
        found = {None: {1: self.found[1]}, "/ns": {2: self.found[2]}}
        with mock.patch.object(
            top, "ss_run", side_effect=lambda path, _: found[path]
        ) as ss_run:
            with mock.patch.object(
                top, "other_netns", side_effect=lambda: iter(["/ns", "/no"])
            ):
                known = directory.look_up([1])
                self.assertEqual(known, {1: self.found[1]})
                self.assertEqual(ss_run.call_count, 1, "others are not asked")
                directory.look_up([1])
                self.assertEqual(ss_run.call_count, 1, "what is known is not asked")
                known = directory.look_up([2])
                self.assertEqual(known, {2: self.found[2]})
                found["/no"] = {}
                known = directory.look_up([2, 3])
                self.assertEqual(known, {2: self.found[2], 3: top.Socket()})
                calls = ss_run.call_count
                directory.look_up([2, 3])
                self.assertEqual(ss_run.call_count, calls, "closed ones neither")

    def test_closed_sockets_cannot_keep_it_busy(self):
        """1000 network namespaces, 10 ms of ss in each, a new cookie every time."""
        lookups = Lookups(1000, {})
        for cookie in range(100):
            start = lookups.now
            self.assertEqual(lookups.look_up([cookie]), {cookie: top.Socket()})
            self.assertLess(lookups.now - start, 0.3)

    def test_each_netns_is_asked_in_the_end(self):
        """A refresh goes on where the last one stopped, whatever else is sought."""
        lookups = Lookups(200, {190: {7: self.found[1]}})
        for closed in range(100, 110):
            known = lookups.look_up([7, closed])
        self.assertEqual(known[7], self.found[1])
        self.assertEqual(len(set(lookups.asked)), 201)

    def test_a_slow_netns_does_not_stop_the_others(self):
        lookups = Lookups(3, {2: {7: self.found[1]}}, seconds=5.0)
        for _ in range(3):
            known = lookups.look_up([7])
        self.assertEqual(known[7], self.found[1])

    def test_a_socket_that_nobody_has_is_not_sought_again(self):
        lookups = Lookups(50, {})
        for _ in range(10):
            lookups.look_up([7])
        asked = [path for path in lookups.asked if path]
        self.assertEqual(sorted(asked), ["/%02d" % i for i in range(50)])

    def test_without_ss_there_are_none(self):
        with mock.patch.object(top.subprocess, "run", side_effect=FileNotFoundError):
            self.assertEqual(top.ss_run(None, {}), {})


class Texts(unittest.TestCase):
    def test_quantities(self):
        for value, text in (
            (0, "0"),
            (1, "1"),
            (999, "999"),
            (1000, "1k"),
            (199849, "199.8k"),
            (999960, "1M"),
            (200e6, "200M"),
            (64e12, "64T"),
        ):
            self.assertEqual(top.quantity_text(value, ""), text)
        self.assertEqual(top.rate_text(25000000), "200Mbit")
        self.assertEqual(top.rate_text(None), "-")

    def test_times(self):
        for ns, text in (
            (None, "-"),
            (512, "512ns"),
            (1536, "1.54us"),
            (999999, "1ms"),
            (3930000, "3.93ms"),
            (4294967296, "4.29s"),
            (1000e9, "1000s"),
            (123456e9, "123456s"),
        ):
            self.assertEqual(top.time_text(ns), text)

    def test_a_bar(self):
        change = top.Change(shaper(rate=1000), sent_rate=480.0)
        self.assertEqual(top.used_text(change), "[|||||     ]  48%")
        change.sent_rate = 2000.0
        self.assertEqual(top.used_text(change), "[||||||||||] 200%")
        change.shaper.rate = None
        self.assertEqual(top.used_text(change), "-")

    def test_names_cannot_command_the_terminal(self):
        shown = hostile_view()
        for is_folded in (False, True):
            lines = top.shapers_table(shown) + top.flows_table(shown, "b", is_folded)
            self.assertEqual(set(re.findall("[^ -~]", "".join(lines))), set())
            self.assertEqual(lines[1].split()[0], "e?[2Jx?")
            self.assertEqual(
                lines[3].split()[:4], ["?[2Jx??/1", "e?[2Jx?", "udp", "ip:?c?"]
            )

    def test_any_name_can_be_printed_as_strict_utf_8(self):
        lines = once_text("--once").splitlines()
        self.assertEqual(lines[1].split()[0], "e?[2Jx?")

    def test_many_processes_are_counted(self):
        sock = top.Socket(processes=[top.Process("x", pid, 3) for pid in range(5)])
        self.assertEqual(top.processes_text(sock), "x/0 x/1 x/2 +2")

    def test_columns(self):
        rows = [["A", "LONGER", "C"], ["xyz", "1", "2"]]
        self.assertEqual(top.table(rows, "lrl"), ["A    LONGER  C", "xyz       1  2"])

    def test_sorting(self):
        flows = [
            flow(1, backlog=1, throttles=9, longest_throttle_ns=9),
            flow(2, backlog=5, state="overlimit"),
            flow(3, backlog=3, longest_throttle_ns=7),
        ]
        names = {1: "b", 2: "a", 3: "a"}
        sockets = {
            cookie: top.Socket(processes=[top.Process(name, 1, 1)])
            for cookie, name in names.items()
        }

        def order(sort: str) -> List[int]:
            return [f.cookie for f in top.flows_sort(view(flows, sockets), sort)]

        self.assertEqual(order("b"), [3, 1, 2])
        self.assertEqual(order("t"), [1, 3, 2])
        self.assertEqual(order("l"), [1, 3, 2])
        self.assertEqual(order("n"), [3, 1, 2])

    def test_tables(self):
        shown = view([flow(1)], top.ss_parse(SS_LINES, SS_PROCESSES))
        self.assertEqual(
            [" ".join(line.split()) for line in top.shapers_table(shown)],
            [
                "DEVICE QDISC RATE SENT BACKLOG THROTTLED DELAY p50 p99 "
                "THROTTLE p50 p99 DROPS/s PKTS USED",
                "eth0 8001: 200Mbit 200Mbit 600B 0 of 0 6.29ms 8.35ms - - "
                "0 5 [||||||||||] 100%",
            ],
        )
        self.assertEqual(
            [" ".join(line.split()) for line in top.flows_table(shown, "b", False)],
            [
                "PROCESS DEVICE PROTO LOCAL PEER BACKLOG PKTS THROTTLES LONGEST STATE",
                "talker/148 eth0 udp 10.99.0.1:7000 10.99.0.9:9000 3kB 2 1 1ns throttled",
            ],
        )

    def test_groups_have_columns_where_there_is_one(self):
        member = shaper(bytes=25001000, group=7)
        member.xstats.update(group_members=4, group_waiting=3, group_tokens=-12000)
        new = top.Sample(2.0, [member, shaper(device="eth1")], [])
        old = top.Sample(1.0, [shaper(group=7), shaper(device="eth1")], [])
        shown = top.View(1, top.changes(new, old), [], {})
        self.assertEqual(
            [" ".join(line.split()) for line in top.shapers_table(shown)],
            [
                "DEVICE QDISC RATE SENT BACKLOG THROTTLED GROUP WAITING TOKENS "
                "DELAY p50 p99 THROTTLE p50 p99 DROPS/s PKTS USED",
                "eth0 8001: 200Mbit 200Mbit 600B 0 of 0 7 3 of 4 -12kB - - - - "
                "0 5 [||||||||||] 100%",
                "eth1 8001: 200Mbit 0bit 600B 0 of 0 - - - - - - - 0 5 [ ] 0%",
            ],
        )

    def server_view(self) -> object:
        """A socket with three peers, one with one, and both on another device."""
        sockets = {1: top.Socket("udp", "0.0.0.0", 53, "0.0.0.0", None), 2: top.Socket()}
        sockets[1].processes.append(top.Process("server", 5, 3))
        flows = [
            flow(1, peer="10.0.0.3", peer_port=7, backlog=100, qlen=1, throttles=4),
            flow(1, peer="fd99::1", peer_port=8, backlog=700, qlen=3, deficit=-9),
            flow(2, peer="10.0.0.9", backlog=500, qlen=1, hash=7, deficit=3),
            flow(1, peer="10.0.0.2", peer_port=9, backlog=100, qlen=1),
            flow(1, peer="10.0.0.4", peer_port=10, device="eth1", backlog=1, qlen=1),
        ]
        return view(flows, sockets)

    def lines(self, shown: object, *args) -> List[str]:
        return [" ".join(line.split()) for line in top.flows_table(shown, *args)][1:]

    def test_each_flow_has_its_peer(self):
        self.assertEqual(
            self.lines(self.server_view(), "b", False),
            [
                "server/5 eth0 udp 0.0.0.0:53 [fd99::1]:8 700B 3 1 1ns throttled",
                "- eth0 udp - 10.0.0.9 500B 1 1 1ns throttled",
                "server/5 eth0 udp 0.0.0.0:53 10.0.0.2:9 100B 1 1 1ns throttled",
                "server/5 eth0 udp 0.0.0.0:53 10.0.0.3:7 100B 1 4 1ns throttled",
                "server/5 eth1 udp 0.0.0.0:53 10.0.0.4:10 1B 1 1 1ns throttled",
            ],
        )

    def test_flows_are_folded_by_socket(self):
        shown = self.server_view()
        self.assertEqual(
            self.lines(shown, "b", True),
            [
                "server/5 eth0 udp 0.0.0.0:53 - 3 900B 5 4 1ns throttled",
                "- eth0 udp - 10.0.0.9 1 500B 1 1 1ns throttled",
                "server/5 eth1 udp 0.0.0.0:53 10.0.0.4:10 1 1B 1 1 1ns throttled",
            ],
        )
        self.assertEqual(
            top.flows_table(shown, "b", True)[0].split(),
            "PROCESS DEVICE PROTO LOCAL PEER FLOWS BACKLOG PKTS THROTTLES LONGEST "
            "STATE".split(),
        )

    def test_sums_are_what_folded_lines_are_sorted_by(self):
        flows = [flow(1, backlog=3), flow(2, backlog=2), flow(2, backlog=2)]
        shown = view(flows, {1: top.Socket(), 2: top.Socket()})
        order = [f.cookie for f in top.flows_sort(shown, "b", False)]
        self.assertEqual(order, [1, 2, 2])
        order = [f.cookie for f in top.flows_sort(shown, "b", True)]
        self.assertEqual(order, [2, 1])

    def test_a_socket_may_be_throttled_while_it_is_listed(self):
        for states, state in (
            (("overlimit", "throttled", "overlimit"), "throttled"),
            (("unthrottled", "overlimit"), "overlimit"),
            (("7", "unthrottled"), "unthrottled"),
            (("7", "7"), "7"),
        ):
            folded = top.flows_fold(flow(1, state=name) for name in states)
            self.assertEqual([f.state for f in folded], [state])

    def test_folding_changes_no_flow(self):
        flows = self.server_view().flows
        top.flows_fold(flows)
        self.assertEqual(flows, self.server_view().flows)

    def test_many_flows_are_folded_fast(self):
        flows = [flow(n % 100, peer="10.0.0.1", peer_port=n) for n in range(20000)]
        folded = top.flows_fold(flows)
        self.assertEqual((len(folded), folded[0].flows), (100, 200))

    def test_a_socket_that_ss_does_not_know(self):
        shown = view([flow(1)], {1: top.Socket()})
        line = top.flows_table(shown, "b", False)[1]
        self.assertEqual(" ".join(line.split()[:5]), "- eth0 udp - -")


class Json(unittest.TestCase):
    def test_it_is_what_the_help_documents(self):
        shown = view([flow(1)], top.ss_parse(SS_LINES, SS_PROCESSES))
        data = json.loads(json.dumps(top.view_json(shown, "pod")))
        with redirect_stdout(io.StringIO()) as text, self.assertRaises(SystemExit):
            top.arguments_parse(["--help"])
        documented = set(re.findall(r"\w+", text.getvalue()))
        keys = set(data)
        for item in data["shapers"] + data["sockets"] + data["flows"]:
            keys |= set(item) - set(top.XSTATS_NAMES + top.XSTATS_NAMES_BEHIND)
        for process in data["sockets"][0]["processes"]:
            keys |= set(process)
        keys |= set(data["shapers"][0]["delay"])
        self.assertEqual(keys - documented, set())
        self.assertEqual((data["interval_s"], data["netns"]), (1.25, "pod"))

    def test_values(self):
        shown = view([flow(1)], top.ss_parse(SS_LINES, SS_PROCESSES))
        data = top.view_json(shown, None)
        found = data["shapers"][0]
        self.assertEqual((found["rate"], found["sent_rate"]), (25000000, 25000000.0))
        self.assertIsNone(found["group"])
        self.assertEqual(found["delay"]["count"], 100)
        self.assertEqual(found["delay"]["p50_ns"], 6291456)
        self.assertIsNone(found["throttle"]["p50_ns"])
        self.assertEqual(data["sockets"][0]["cookie"], 1)
        self.assertEqual(data["sockets"][0]["local_port"], 7000)
        self.assertEqual(
            data["sockets"][0]["processes"], [{"name": "talker", "pid": 148, "fd": 3}]
        )

    def test_sockets_and_flows(self):
        data = top.view_json(Texts().server_view(), None)
        flows, sockets = data["flows"], data["sockets"]
        self.assertEqual(
            [(f["cookie"], f["peer"], f["peer_port"]) for f in flows[:2]],
            [(1, "fd99::1", 8), (2, "10.0.0.9", None)],
        )
        self.assertEqual(len(flows), 5)
        self.assertEqual({"flows"}, set(sockets[0]) - set(flows[0]))
        self.assertEqual([s["flows"] for s in sockets], [3, 1, 1])
        self.assertEqual([s["backlog"] for s in sockets], [900, 500, 1])
        self.assertEqual([s["qlen"] for s in sockets], [5, 1, 1])
        self.assertEqual([s["peer"] for s in sockets], [None, "10.0.0.9", "10.0.0.4"])
        self.assertEqual([s["deficit"] for s in sockets], [None, 3, 0])
        self.assertEqual([s["hash"] for s in sockets], [None, 7, 0])

    def test_without_a_peer_it_is_that_of_ss(self):
        shown = view([flow(1)], top.ss_parse(SS_LINES, SS_PROCESSES))
        data = top.view_json(shown, None)
        for item in data["sockets"] + data["flows"]:
            self.assertEqual((item["peer"], item["peer_port"]), ("10.99.0.9", 9000))

    def test_any_name_gives_valid_unicode(self):
        data = json.loads(once_text("--once", "--json"))
        for item in data["shapers"] + data["sockets"] + data["flows"]:
            self.assertEqual(item["device"], "e\x1b[2Jx\ufffd")

    def test_no_rate(self):
        change = top.Change(shaper(rate=None))
        self.assertEqual(top.change_json(change)["rate"], "unlimited")
        self.assertIsNone(top.change_json(change)["sent_rate"])


class Live(unittest.TestCase):
    """The live view without a terminal: what it would write, row by row."""

    def screen(self, flows: List[object], *words: str) -> object:
        nothing = top.Sample(1.0, [shaper()], flows)
        terminal, curses = mock.Mock(), mock.Mock()
        curses.error = OSError
        terminal.getmaxyx.return_value = (20, 120)
        with mock.patch.object(top, "sample_take", return_value=nothing):
            return top.Screen(terminal, curses, top.arguments_parse(list(words)))

    def rows(self, screen: object) -> List[str]:
        screen.terminal.addnstr.reset_mock()
        known = {1: top.Socket(), 2: top.Socket()}
        with mock.patch.object(screen.directory, "look_up", return_value=known):
            screen.draw()
        calls = screen.terminal.addnstr.call_args_list
        return [" ".join(call[0][2].split()) for call in calls]

    def test_f_folds_flows_and_unfolds_them(self):
        flows = [flow(n, peer="10.0.0.%d" % i, peer_port=9) for n in (1, 2) for i in (3, 4)]
        screen = self.screen(flows)
        unfolded = self.rows(screen)
        self.assertEqual(sum("10.0.0." in row for row in unfolded), 4)
        self.assertIn(" flows: throttled, by backlog", unfolded[0])
        self.assertIn(" f fold ", unfolded[-1])
        self.assertTrue(screen.key(ord("f")))
        folded = self.rows(screen)
        lines = [row for row in folded if row.endswith("throttled")]
        self.assertEqual(lines, ["- eth0 udp - - 2 6kB 4 1 1ns throttled"] * 2)
        self.assertIn(" sockets: throttled, by backlog", folded[0])
        self.assertIn(" f unfold ", folded[-1])
        self.assertTrue(screen.key(ord("f")))
        self.assertEqual(len(self.rows(screen)), len(unfolded))

    def test_it_can_begin_folded(self):
        flows = [flow(1, peer="10.0.0.1"), flow(1, peer="10.0.0.2")]
        rows = self.rows(self.screen(flows, "--fold"))
        self.assertEqual(sum(row.endswith("throttled") for row in rows), 1)


class CommandLine(unittest.TestCase):
    def refused(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, TOOL, *words], capture_output=True, text=True
        )
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        return done.stderr.splitlines()[-1]

    def test_errors_are_one_line(self):
        self.assertIn("--json goes with --once", self.refused("--json"))
        self.assertIn("0.1 to 3600", self.refused("--once", "--interval", "0"))
        self.assertIn("invalid", self.refused("--once", "--interval", "x"))
        self.assertEqual(
            self.refused("--device", "nodev"),
            "bpshaper-top: there is no device nodev",
        )
        self.assertEqual(
            self.refused("--netns", "/no/ns"),
            "bpshaper-top: network namespace /no/ns: No such file or directory",
        )

    def test_an_error_cannot_command_the_terminal(self):
        with redirect_stderr(io.StringIO()) as text:
            self.assertEqual(top.main(["--netns", "/no/\x1b[2J\n\udcff"]), 1)
        self.assertEqual(
            text.getvalue(),
            "bpshaper-top: network namespace /no/?[2J??: No such file or directory\n",
        )

    def test_no_terminal(self):
        args = top.arguments_parse([])
        with redirect_stdout(io.StringIO()), self.assertRaises(top.TopError) as caught:
            top.live(args)
        self.assertEqual(str(caught.exception), "not on a terminal, use --once")

    def test_no_curses(self):
        args = top.arguments_parse([])
        with mock.patch.dict(sys.modules, {"curses": None}):
            with self.assertRaises(top.TopError) as caught:
                top.live(args)
        self.assertIn("no curses", str(caught.exception))

    def test_what_will_be_missing_is_told(self):
        for user, ss, said in (
            (0, "/bin/ss", ""),
            (1000, "/bin/ss", "not root"),
            (0, None, "there is no ss"),
        ):
            with mock.patch.object(top.os, "geteuid", return_value=user):
                with mock.patch.object(top.shutil, "which", return_value=ss):
                    with mock.patch.object(top.sys, "stderr", io.StringIO()) as text:
                        top.limits_tell()
            self.assertIn(said, text.getvalue())
            self.assertEqual(text.getvalue() == "", said == "")


if __name__ == "__main__":
    unittest.main()
