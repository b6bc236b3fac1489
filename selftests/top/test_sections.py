# SPDX-License-Identifier: GPL-2.0-only
"""Histories, sections, and what of them a terminal has room for."""

from __future__ import annotations

import os
import unittest
from unittest import mock

from fixtures import a_flow, a_leaf, a_shaper, a_view, server_view

from bpshaper_top import history, sample, sections, sockets, view


class Histories(unittest.TestCase):
    def change(self, rate: object = 800, **values) -> object:
        return sample.Change(a_shaper(rate=rate, **values))

    def line(self, rates: list, width: int = 80, rate: object = 800) -> str:
        found, change = history.History("012345678"), self.change(rate)
        for change.sent_rate in rates:
            found.add([change])
        return found.line(change, width)

    def test_steps(self):
        self.assertEqual(self.line([0, 1, 100, 101, 800, 900]), "011288")
        self.assertEqual(self.line([None, 400]), "4", "it is young")
        self.assertEqual(self.line([]), "")

    def test_the_newest_are_shown(self):
        self.assertEqual(self.line([0, 100, 200, 300], 2), "23")
        self.assertEqual(len(self.line([800] * 600, 1000)), 500)

    def test_without_a_rate_the_most_is_the_top(self):
        self.assertEqual(self.line([0, 2, 4], rate=None), "048")
        self.assertEqual(self.line([0, 0], rate=None), "00")

    def test_each_shaper_has_its_own(self):
        found = history.History("012345678")
        two = self.change(sent_rate=1), self.change(device="eth1")
        two[0].sent_rate, two[1].sent_rate = 800, 400
        found.add(two)
        self.assertEqual([found.line(c, 9) for c in two], ["8", "4"])
        found.add(two[:1])
        self.assertEqual([found.line(c, 9) for c in two], ["88", ""])

    def test_blocks_are_for_terminals_that_have_them(self):
        for steps, codeset, environment in (
            (history.BLOCKS, "UTF-8", {"LANG": "de_DE.UTF-8"}),
            (history.BLOCKS, "UTF-8", {"LC_ALL": "C.UTF-8"}),
            (history.ASCII, "UTF-8", {"LC_CTYPE": "C.UTF-8"}),
            (history.ASCII, "UTF-8", {"LC_ALL": "C.UTF-8", "TERM": "linux"}),
            (history.ASCII, "ISO-8859-1", {"LANG": "de_DE"}),
        ):
            with mock.patch.dict(os.environ, environment, clear=True):
                with mock.patch("locale.nl_langinfo", return_value=codeset):
                    self.assertEqual(history.steps_choose(), steps)


class Sections(unittest.TestCase):
    def texts(self, shown: object, width: int = 200, hidden: str = "") -> list:
        self.found = [
            sections.shapers_section(shown, history.History(), width),
            sections.leaves_section(shown, width),
            sections.flows_section(shown, "b", False, width),
        ]
        lines = sections.lines_of(self.found, hidden)
        return [line[0].text for line in lines]

    def long_view(self) -> object:
        flows = [
            a_flow(
                n, parent="8001:%x" % n, peer="fd99::%x" % n, device="x" * 15
            )
            for n in range(1, 61)
        ]
        leaves = [
            a_leaf("%x" % n, device="x" * 15, floor=10**9) for n in range(1, 61)
        ]
        long = "longlonglonglon", 4194304, 3
        sock = sockets.Socket(
            "tcp",
            "1:" * 20,
            65535,
            "2:" * 20,
            65535,
            [sockets.Process(*long)] * 5,
        )
        shown = a_view(flows, {n: sock for n in range(1, 61)})
        shown.leaves = [sample.Change(one) for one in leaves]
        return shown

    def test_no_line_is_longer_than_the_terminal(self):
        shown = self.long_view()
        for width in (1, 12, 40, 79, 80, 120):
            self.assertLessEqual(max(map(len, self.texts(shown, width))), width)
        self.assertGreater(max(map(len, self.texts(shown, 200))), 120)

    def test_columns_go_one_by_one(self):
        shown = self.long_view()
        heads = [self.texts(shown, width) for width in range(60, 200)]
        counts = [len(texts[4].split()) for texts in heads]
        self.assertEqual(counts, sorted(counts))
        self.assertGreater(len(set(counts)), 5)

    def test_a_filter(self):
        shown = server_view()
        shown.leaves = [sample.Change(a_leaf("10")), sample.Change(a_leaf("2"))]
        for words, count in (
            ("", (1, 2, 5)),
            ("eth0", (1, 2, 4)),
            ("SERVER/5", (0, 0, 4)),
            ("fd99::1", (0, 0, 1)),
            ("8001:10", (0, 1, 0)),
            ("nothing", (0, 0, 0)),
        ):
            found = view.view_filter(shown, words)
            flows = view.flows_sort(found, "b")
            counts = len(found.changes), len(found.leaves), len(flows)
            self.assertEqual(counts, count, words)

    def test_lines_about_drops_and_held_sockets(self):
        shown = server_view()
        shown.flows[0].state = "unthrottled"
        shown.leaves = [sample.Change(a_leaf("10"), drop_rate=1.0)]
        self.texts(shown)
        styles = [[line.style for line in s.lines] for s in self.found]
        self.assertEqual(styles[:2], [["", sections.HISTORY], [sections.DROPS]])
        self.assertEqual(styles[2], [sections.HELD] * 4 + [""])

    def test_the_head_stays_and_what_is_hidden_is_counted(self):
        self.texts(self.long_view())
        lines = sections.lines_of(self.found, "")
        for top, head in (
            (0, "DEVICE"),
            (2, "DEVICE"),
            (9, "DEVICE"),
            (70, "PRO"),
        ):
            shown = sections.window(lines, top, 10)
            self.assertEqual(len(shown), 10)
            self.assertTrue(shown[0].text.startswith(head))
            self.assertEqual(
                shown[1:], [line[0] for line in lines[top + 1 : top + 10]]
            )
        texts = self.texts(self.long_view(), hidden="23")
        self.assertEqual(
            texts[3:], ["", "classes: 60 hidden", "", "flows: 60 hidden"]
        )


class Rates(unittest.TestCase):
    LINES = """\
ESTAB 0 0 10.0.0.1:22 10.0.0.2:5000 ino:7 sk:%x cgroup:/ <->
\t cubic wscale:7,7 rto:204 bytes_sent:%d bytes_retrans:5 bytes_acked:1
LISTEN 0 0 10.0.0.1:22 10.0.0.2:* ino:7 sk:99 cgroup:/bytes_sent:7 <->
\t cubic cwnd:10
"""

    def test_ss_has_the_bytes_in_the_line_behind(self):
        self.assertEqual(
            sockets.sent_parse(self.LINES % (26, 7000)), {26: 7000}
        )
        self.assertEqual(sockets.sent_parse(""), {})

    def test_a_rate_is_of_two_measurements(self):
        directory = sockets.Directory()
        directory.netns = {26: None, 27: "/ns"}
        rates = []
        for now, sent in ((1.0, 7000), (3.0, 8000), (4.0, 500)):
            texts = {None: self.LINES % (26, sent), "/ns": self.LINES % (27, 9)}
            with mock.patch.object(sockets.time, "monotonic", lambda: now):
                with mock.patch.object(
                    sockets, "ss_output", lambda netns, _: texts[netns]
                ):
                    directory.measure([26, 27])
            rates.append(directory.rates)
        self.assertEqual(rates, [{}, {26: 500.0, 27: 0.0}, {27: 0.0}])

    def test_nobody_is_asked_about_no_tcp(self):
        with mock.patch.object(sockets, "ss_output") as asked:
            sockets.Directory().measure([])
        asked.assert_not_called()
        udp = [a_flow(1), a_flow(2, protocol=6)]
        taken = sample.Sample(1.0, [], udp)
        self.assertEqual(view.tcp_cookies(taken), {2})
