# SPDX-License-Identifier: GPL-2.0-only
"""Taps that processes have open: what is asked of them, and what is said."""

from __future__ import annotations

import os
import stat
import tempfile
import unittest
from typing import List, Optional
from unittest import mock

import fixtures  # noqa: F401 # finds the package

from bpshaper_top import (
    as_text,
    descriptors,
    taps,
)

NULL = os.makedev(1, 3)
POOL = 1 << 30


def found(vhosts: int, *sndbufs: int) -> List[taps.Tap]:
    """The taps of a process with a queue for each send buffer."""
    process = taps.Process(7, "qemu", [], vhosts)
    return taps.taps_of(
        process,
        [
            taps.Queue("tap%d" % number, sndbuf, True)
            for number, sndbuf in enumerate(sndbufs)
        ],
    )


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
            (taps.UNKNOWN, 0, "perhaps"),
            (taps.UNKNOWN, 1, "perhaps"),
        ):
            tap = found(vhosts, sndbuf)[0]
            self.assertEqual(tap.held(), held, tap)
            self.assertEqual(tap.is_unheld, held == "no", tap)

    def test_which_of_them_vhost_serves(self):
        none = taps.UNBOUNDED
        for vhosts, sndbufs, vhost, unheld in (
            (0, (none, none), "no", [False, False]),
            (1, (none, none), "perhaps", [True, True]),
            (1, (none, 212992), "perhaps", [False, False]),
            (1, (none, POOL), "perhaps", [False, False]),
            (2, (none, 212992), "yes", [True, False]),
            (2, (none, none, 212992), "perhaps", [True, True, False]),
        ):
            listed = found(vhosts, *sndbufs)
            self.assertEqual({tap.vhost for tap in listed}, {vhost})
            self.assertEqual([tap.is_unheld for tap in listed], unheld)

    def test_queues_of_another_namespace_count_but_are_not_listed(self):
        queues = [
            taps.Queue("tap0", taps.UNBOUNDED, is_chosen)
            for is_chosen in (True, False)
        ]
        listed = taps.taps_of(taps.Process(7, "qemu", [], 1), queues)
        self.assertEqual([tap.vhost for tap in listed], ["perhaps"])

    def test_a_line(self):
        shown = mock.Mock(taps=[])
        self.assertEqual(as_text.taps_text(shown), "")
        for vhosts, text in ((2, ""), (1, "perhaps ")):
            shown.taps = found(vhosts, taps.UNBOUNDED, taps.UNBOUNDED)
            self.assertEqual(
                as_text.taps_text(shown),
                "tap tap0 of qemu/7 +1: %svhost-net without a send buffer, so "
                "it cannot be held: see bpshaper-tap(8)" % text,
            )

    def test_a_line_is_of_one_that_is_certain(self):
        perhaps, certain = found(1, taps.UNBOUNDED), found(1, taps.UNBOUNDED)
        perhaps[0] = perhaps[0]._replace(vhost="perhaps")
        certain[0] = certain[0]._replace(device="vnet1")
        line = as_text.taps_text(mock.Mock(taps=perhaps + certain))
        self.assertTrue(line.startswith("tap vnet1 of qemu/7 +1: vhost"), line)


class Asked(unittest.TestCase):
    """No ioctl is for a file that only looks like a tap."""

    def look(self, path: str) -> Optional[taps.Queue]:
        """As if the file had taken the place of a tap."""
        with open(path, "rb") as file:
            return taps.look(file.fileno(), taps.Choice([]), 1 << 20)

    def test_no_other_file_gets_an_ioctl(self):
        with mock.patch.object(taps.fcntl, "ioctl") as ioctl:
            self.assertIsNone(self.look("/dev/null"))
            with tempfile.NamedTemporaryFile() as file:
                self.assertIsNone(self.look(file.name))
            ioctl.assert_not_called()

    def test_numbers_decide_and_no_names(self):
        devices = "Character devices:\n %s\n\nBlock devices:\n  7 macvtap\n"
        with mock.patch("builtins.open", mock.mock_open()) as opened:
            opened.return_value.read.return_value = (
                devices % " 10 misc\n240 macvtap\n241 ipvtap\n242 nomacvtap"
            )
            choice = taps.Choice([])
        for device, is_tap in (
            (descriptors.TUN, True),
            (os.makedev(240, 5), True),
            (os.makedev(241, 5), True),
            (os.makedev(242, 5), False),
            (os.makedev(7, 5), False),
            (descriptors.VHOST_NET, False),
            (NULL, False),
            (None, False),
        ):
            self.assertEqual(choice.is_tap(device), is_tap, device)

    def test_a_block_device_of_that_number_is_none(self):
        for kind, device in (
            (stat.S_IFCHR, descriptors.TUN),
            (stat.S_IFBLK, None),
            (stat.S_IFREG, None),
        ):
            status = mock.Mock(st_mode=kind | 0o600, st_rdev=descriptors.TUN)
            self.assertEqual(descriptors.character_device(status), device)

    def test_descriptors_of_character_devices_are_found(self):
        with open("/dev/null") as null, tempfile.TemporaryFile() as file:
            found = dict(descriptors.devices(str(os.getpid())))
            self.assertEqual(found.get(null.fileno()), NULL)
            self.assertNotIn(file.fileno(), found)
