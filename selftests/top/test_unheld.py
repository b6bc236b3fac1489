# SPDX-License-Identifier: GPL-2.0-only
"""What is said about drops of packets that could not be held."""

from __future__ import annotations

import io
import unittest
from typing import Set
from unittest import mock

from fixtures import a_shaper, a_view, once_text

from bpshaper_top import as_text, sample, unheld

PORT = "/sys/class/net/eth0/brport"
SYSCTL = "/proc/sys/net/bridge/bridge-nf-call-%s"
NO_OWNER = {"drops_pool": 71, "drops_memory": 29, "unheld_no_owner": 900}


def line(has_sys: bool = True, **more: int) -> str:
    """Said of a shaper that has counted this since the last sample."""
    past = dict(a_shaper().xstats)
    new = a_shaper(
        xstats={name: past[name] + more.get(name, 0) for name in past}
    )
    return unheld.advice(sample.Change(new, past=past), has_sys)


class Machine:
    """Files of /proc and /sys that are there and say 1."""

    def __init__(self, *files: str) -> None:
        self.files: Set[str] = set(files)

    def open(self, path: str) -> io.StringIO:
        if path in self.files:
            return io.StringIO("1\n")
        raise FileNotFoundError(path)

    def __enter__(self) -> None:
        self.mocks = (
            mock.patch("builtins.open", self.open),
            mock.patch("os.path.exists", self.files.__contains__),
        )
        for one in self.mocks:
            one.start()

    def __exit__(self, *_: object) -> None:
        for one in self.mocks:
            one.stop()


class Advice(unittest.TestCase):
    def test_nothing_is_said_without_drops_of_the_pool(self):
        for more in (
            {},
            {"unheld_no_owner": 5},
            {"unheld_no_owner": 5, "drops_memory": 5},
            {"drops_pool": 5},
        ):
            self.assertEqual(line(**more), "", more)
        self.assertEqual(unheld.advice(sample.Change(a_shaper()), True), "")

    def test_what_it_drops_and_why(self):
        start = "eth0: 71 % of what it drops has no owner: "
        for cause, files in (
            (
                "br_netfilter is on and eth0 is a bridge port",
                (PORT, SYSCTL % "iptables", "/proc/sys/net/ipv4/ip_forward"),
            ),
            (
                "br_netfilter is on and eth0 is a bridge port",
                (PORT, SYSCTL % "ip6tables"),
            ),
            (
                "br_netfilter is on and eth0 is a bridge port",
                (PORT, PORT + "/bridge/bridge/nf_call_iptables"),
            ),
            ("see limits.rst", (PORT,)),
            ("see limits.rst", (SYSCTL % "iptables",)),
            ("this host routes", ("/proc/sys/net/ipv4/ip_forward",)),
        ):
            with Machine(*files):
                self.assertEqual(line(**NO_OWNER), start + cause)

    def test_where_sys_is_of_others_no_cause_is_said(self):
        self.assertEqual(
            line(has_sys=False, **NO_OWNER),
            "eth0: 71 % of what it drops has no owner",
        )

    def test_the_reason_of_most_is_said(self):
        self.assertEqual(
            line(drops_pool=10, unheld_foreign=30, unheld_no_owner=10),
            "eth0: 75 % of what it drops is of sockets of a foreign user "
            "namespace",
        )

    def test_a_line_is_printed_below_those_of_taps(self):
        shown = a_view([], {})
        shown.advice = ["eth\x1b0: 71 %"]
        with mock.patch.object(as_text, "taps_text", return_value="tap tap0"):
            text = once_text(view=shown)
        self.assertTrue(text.endswith("\n\ntap tap0\neth?0: 71 %\n"), text)
