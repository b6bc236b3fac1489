# SPDX-License-Identifier: GPL-2.0-only
"""The live view."""

from __future__ import annotations

import unittest
from typing import List
from unittest import mock

from fixtures import (
    a_flow,
    a_leaf,
    a_shaper,
)

from bpshaper_top import (
    arguments,
    sample,
    screen,
    sockets,
)


class Live(unittest.TestCase):
    """The live view without a terminal: what it would write, row by row."""

    def screen(self, flows: List[object], *words: str) -> object:
        nothing = sample.Sample(1.0, [a_shaper()], flows)
        terminal, curses = mock.Mock(), mock.Mock()
        curses.error = OSError
        terminal.getmaxyx.return_value = (20, 120)
        with mock.patch.object(screen, "sample_take", return_value=nothing):
            return screen.Screen(
                terminal, curses, arguments.arguments_parse(list(words))
            )

    def rows(self, screen: object) -> List[str]:
        screen.terminal.addnstr.reset_mock()
        known = {1: sockets.Socket(), 2: sockets.Socket()}
        with mock.patch.object(screen.directory, "look_up", return_value=known):
            screen.draw()
        calls = screen.terminal.addnstr.call_args_list
        return [" ".join(call[0][2].split()) for call in calls]

    def test_f_folds_flows_and_unfolds_them(self):
        flows = [
            a_flow(n, peer="10.0.0.%d" % i, peer_port=9)
            for n in (1, 2)
            for i in (3, 4)
        ]
        screen = self.screen(flows)
        unfolded = self.rows(screen)
        self.assertEqual(sum("10.0.0." in row for row in unfolded), 4)
        self.assertIn(" flows: throttled, by backlog", unfolded[0])
        self.assertIn(" f fold ", unfolded[-1])
        self.assertTrue(screen.key(ord("f")))
        folded = self.rows(screen)
        lines = [row for row in folded if row.endswith("throttled")]
        self.assertEqual(
            lines, ["- eth0 udp - - 2 - 6kB 4 1 1ns throttled"] * 2
        )
        self.assertIn(" sockets: throttled, by backlog", folded[0])
        self.assertIn(" f unfold ", folded[-1])
        self.assertTrue(screen.key(ord("f")))
        self.assertEqual(len(self.rows(screen)), len(unfolded))

    def test_classes_are_between_shapers_and_flows(self):
        screen = self.screen([a_flow(1)])
        heads = ("DEVICE QDISC", "DEVICE CLASS", "PROCESS DEVICE")

        def found() -> List[str]:
            return [
                head
                for row in self.rows(screen)
                for head in heads
                if row.startswith(head)
            ]

        self.assertEqual(found(), [heads[0], heads[2]])
        screen.new.leaves, screen.view = [a_leaf()], None
        self.assertEqual(found(), list(heads))

    def test_it_can_begin_folded(self):
        flows = [a_flow(1, peer="10.0.0.1"), a_flow(1, peer="10.0.0.2")]
        rows = self.rows(self.screen(flows, "--fold"))
        self.assertEqual(sum(row.endswith("throttled") for row in rows), 1)
