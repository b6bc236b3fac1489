# SPDX-License-Identifier: GPL-2.0-only
"""Taps that processes have open: what is said of them."""

from __future__ import annotations

import unittest
from typing import List
from unittest import mock

import fixtures  # noqa: F401 # finds the package

from bpshaper_top import (
    as_text,
    taps,
)

POOL = 1 << 30


def found(vhosts: int, *sndbufs: int) -> List[taps.Tap]:
    """The taps of a process, with these send buffers."""
    return [
        taps.Tap("tap%d" % number, 7, "qemu", sndbuf, vhosts > 0)
        for number, sndbuf in enumerate(sndbufs)
    ]


class Said(unittest.TestCase):
    def test_what_can_be_held(self):
        for sndbuf, vhosts, held in (
            (taps.UNBOUNDED, 0, "yes"),
            (taps.UNBOUNDED, 1, "no"),
            (212992, 0, "yes"),
            (212992, 1, "yes"),
            (taps.MOST, 1, "yes"),
            (taps.MOST + 1, 0, "pool"),
            (taps.MOST + 1, 1, "pool"),
            (POOL, 1, "pool"),
            (taps.UNBOUNDED - 1, 1, "pool"),
        ):
            tap = found(vhosts, sndbuf)[0]
            self.assertEqual(tap.held(), held, tap)

    def test_a_line(self):
        shown = mock.Mock(taps=[])
        self.assertEqual(as_text.taps_text(shown), "")
        shown.taps = found(2, taps.UNBOUNDED, taps.UNBOUNDED)
        self.assertEqual(
            as_text.taps_text(shown),
            "tap tap0 of qemu/7 +1: vhost-net without a send buffer, so it "
            "cannot be held: see bpshaper-tap(8)",
        )
