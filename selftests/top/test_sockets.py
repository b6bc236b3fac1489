# SPDX-License-Identifier: GPL-2.0-only
"""Sockets and processes: lines of ss, look-ups by cookie."""

from __future__ import annotations

import os
import socket
import struct
import tempfile
import unittest
from typing import Dict, List
from unittest import mock

from fixtures import (
    SS_LINES,
    SS_PROCESSES,
)

from bpshaper_top import (
    as_text,
    sockets,
)


class Lookups:
    """A host with network namespaces, in which ss takes some time."""

    def __init__(
        self, count: int, found: Dict[int, dict], seconds: float = 0.01
    ):
        self.paths = ["/%02d" % i for i in range(count)]
        self.found = {self.paths[i]: sockets for i, sockets in found.items()}
        self.directory = sockets.Directory()
        self.seconds, self.now = seconds, 0.0
        self.asked: List[str] = []

    def ss_run(self, path: str, _: dict) -> dict:
        self.now += self.seconds
        self.asked.append(path)
        return self.found.get(path, {})

    def look_up(self, cookies: List[int]) -> dict:
        def other_netns():
            return iter(self.paths)

        with mock.patch.object(sockets, "ss_run", self.ss_run):
            with mock.patch.object(sockets, "other_netns", other_netns):
                with mock.patch.object(
                    sockets.time, "monotonic", lambda: self.now
                ):
                    return self.directory.look_up(cookies)


class Sockets(unittest.TestCase):
    def setUp(self):
        self.found = sockets.ss_parse(SS_LINES, SS_PROCESSES)

    def test_a_cookie_is_hexadecimal(self):
        self.assertEqual(sorted(self.found), [1, 2, 3, 4, 5, 6, 8, 9, 0x1A2B])

    def test_ports_and_process(self):
        self.assertEqual(
            self.found[1],
            sockets.Socket(
                "udp",
                "10.99.0.1",
                7000,
                "10.99.0.9",
                9000,
                [sockets.Process("talker", 148, 3)],
            ),
        )

    def test_several_processes(self):
        processes = self.found[0x1A2B].processes
        self.assertEqual([p.name for p in processes], ["dhclient", "a b"])

    def test_a_cgroup_or_device_cannot_forge_a_line(self):
        self.assertEqual(
            self.found[5], sockets.Socket("tcp", "10.0.0.1", 1, "10.0.0.2", 2)
        )
        found = sockets.Socket("udp", "0.0.0.0%a\x1cb", 68, "0.0.0.0", None)
        self.assertEqual(self.found[9], found)

    def test_a_device_of_a_packet_socket_is_no_port(self):
        for cookie, name in ((6, "ip:²"), (8, "ip:80")):
            found = self.found[cookie]
            self.assertEqual((found.local, found.local_port), (name, None))

    def test_a_process_cannot_forge_its_addresses(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.bind(("127.0.0.1", 0))
            (cookie,) = struct.unpack(
                "=Q", own.getsockopt(socket.SOL_SOCKET, 57, 8)
            )
            with open("/proc/self/comm") as file:
                name = file.read()
            try:
                for hostile in ("a\nudp E 0 0 x y", '",pid=1,fd=3),'):
                    with open("/proc/self/comm", "w") as file:
                        file.write(hostile)
                    with mock.patch.object(
                        sockets, "other_netns", return_value=iter(())
                    ):
                        found = sockets.Directory().look_up([cookie])[cookie]
                    if not found.netid:
                        self.skipTest("ss does not list it")
                    process = sockets.Process(
                        hostile, os.getpid(), own.fileno()
                    )
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
            found = sockets.processes_by_socket(proc)
        own, other = sockets.Process("a\n\ufffd", 7, 3), sockets.Process(
            "b", 8, 5
        )
        self.assertEqual(sorted(found), [12, 14])
        self.assertEqual(sorted(found[12], key=lambda p: p.pid), [own, other])
        self.assertEqual(found[14], [sockets.Process("b", 8, 6)])

    def test_no_process_is_named(self):
        self.assertEqual(self.found[3].processes, [])

    def test_addresses(self):
        found = self.found
        self.assertEqual((found[2].local, found[2].local_port), ("fd99::1", 22))
        self.assertEqual(
            (found[3].local, found[3].local_port), ("fe80::1%eth0", 546)
        )
        self.assertEqual((found[3].peer, found[3].peer_port), ("::", None))
        self.assertEqual(
            (found[4].local, found[4].local_port), ("ip:eth0", None)
        )
        self.assertEqual(found[4].peer, "*")
        self.assertEqual(as_text.address_text("fd99::1", 22), "[fd99::1]:22")
        self.assertEqual(as_text.address_text("10.0.0.1", 22), "10.0.0.1:22")
        self.assertEqual(as_text.address_text("ip:eth0", None), "ip:eth0")

    def test_join(self):
        directory = sockets.Directory()
        found = {None: {1: self.found[1]}, "/ns": {2: self.found[2]}}
        with mock.patch.object(
            sockets, "ss_run", side_effect=lambda path, _: found[path]
        ) as ss_run:
            with mock.patch.object(
                sockets, "other_netns", side_effect=lambda: iter(["/ns", "/no"])
            ):
                known = directory.look_up([1])
                self.assertEqual(known, {1: self.found[1]})
                self.assertEqual(ss_run.call_count, 1, "others are not asked")
                directory.look_up([1])
                self.assertEqual(
                    ss_run.call_count, 1, "what is known is not asked"
                )
                known = directory.look_up([2])
                self.assertEqual(known, {2: self.found[2]})
                found["/no"] = {}
                known = directory.look_up([2, 3])
                self.assertEqual(known, {2: self.found[2], 3: sockets.Socket()})
                calls = ss_run.call_count
                directory.look_up([2, 3])
                self.assertEqual(
                    ss_run.call_count, calls, "closed ones neither"
                )

    def test_closed_sockets_cannot_keep_it_busy(self):
        """1000 network namespaces, 10 ms of ss in each, a new cookie every
        time.
        """
        lookups = Lookups(1000, {})
        for cookie in range(100):
            start = lookups.now
            self.assertEqual(
                lookups.look_up([cookie]), {cookie: sockets.Socket()}
            )
            self.assertLess(lookups.now - start, 0.3)

    def test_each_netns_is_asked_in_the_end(self):
        """A refresh goes on where the last one stopped, whatever else is
        sought.
        """
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
        with mock.patch.object(
            sockets.subprocess, "run", side_effect=FileNotFoundError
        ):
            self.assertEqual(sockets.ss_run(None, {}), {})
