# SPDX-License-Identifier: GPL-2.0-only
"""Tables and their cells."""

from __future__ import annotations

import re
import unittest
from typing import List

from fixtures import (
    SS_LINES,
    SS_PROCESSES,
    a_flow,
    a_shaper,
    a_view,
    classes_view,
    hostile_view,
    once_text,
    server_view,
)

from bpshaper_top import (
    as_text,
    flow,
    sample,
    sockets,
    view,
)


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
            self.assertEqual(as_text.quantity_text(value, ""), text)
        self.assertEqual(as_text.rate_text(25000000), "200Mbit")
        self.assertEqual(as_text.rate_text(None), "-")

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
            self.assertEqual(as_text.time_text(ns), text)

    def test_a_bar(self):
        change = sample.Change(a_shaper(rate=1000), sent_rate=480.0)
        self.assertEqual(as_text.used_text(change), "[|||||     ]  48%")
        change.sent_rate = 2000.0
        self.assertEqual(as_text.used_text(change), "[||||||||||] 200%")
        change.shaper.rate = None
        self.assertEqual(as_text.used_text(change), "-")

    def test_names_cannot_command_the_terminal(self):
        shown = hostile_view()
        for is_folded in (False, True):
            lines = as_text.shapers_table(shown) + as_text.flows_table(
                shown, "b", is_folded
            )
            self.assertEqual(set(re.findall("[^ -~]", "".join(lines))), set())
            self.assertEqual(lines[1].split()[0], "e?[2Jx?")
            self.assertEqual(
                lines[3].split()[:4], ["?[2Jx??/1", "e?[2Jx?", "udp", "ip:?c?"]
            )

    def test_any_name_can_be_printed_as_strict_utf_8(self):
        lines = once_text("--once").splitlines()
        self.assertEqual(lines[1].split()[0], "e?[2Jx?")

    def test_many_processes_are_counted(self):
        sock = sockets.Socket(
            processes=[sockets.Process("x", pid, 3) for pid in range(5)]
        )
        self.assertEqual(view.processes_text(sock), "x/0 x/1 x/2 +2")

    def test_columns(self):
        rows = [["A", "LONGER", "C"], ["xyz", "1", "2"]]
        self.assertEqual(
            as_text.table(rows, "lrl"), ["A    LONGER  C", "xyz       1  2"]
        )

    def test_sorting(self):
        flows = [
            a_flow(1, backlog=1, throttles=9, longest_throttle_ns=9),
            a_flow(2, backlog=5, state="overlimit"),
            a_flow(3, backlog=3, longest_throttle_ns=7),
        ]
        names = {1: "b", 2: "a", 3: "a"}
        known = {
            cookie: sockets.Socket(processes=[sockets.Process(name, 1, 1)])
            for cookie, name in names.items()
        }

        def order(sort: str) -> List[int]:
            return [
                f.cookie for f in view.flows_sort(a_view(flows, known), sort)
            ]

        self.assertEqual(order("b"), [3, 1, 2])
        self.assertEqual(order("t"), [1, 3, 2])
        self.assertEqual(order("l"), [1, 3, 2])
        self.assertEqual(order("n"), [3, 1, 2])

    def test_tables(self):
        shown = a_view([a_flow(1)], sockets.ss_parse(SS_LINES, SS_PROCESSES))
        self.assertEqual(
            [" ".join(line.split()) for line in as_text.shapers_table(shown)],
            [
                "DEVICE QDISC RATE SENT BACKLOG THROTTLED DELAY p50 p99 "
                "THROTTLE p50 p99 DROPS/s PKTS USED",
                "eth0 8001: 200Mbit 200Mbit 600B 0 of 0 6.29ms 8.35ms - - "
                "0 5 [||||||||||] 100%",
            ],
        )
        self.assertEqual(
            [
                " ".join(line.split())
                for line in as_text.flows_table(shown, "b", False)
            ],
            [
                "PROCESS DEVICE PROTO LOCAL PEER SENT BACKLOG PKTS THROTTLES "
                "LONGEST STATE",
                "talker/148 eth0 udp 10.99.0.1:7000 10.99.0.9:9000 - 3kB 2 1 "
                "1ns throttled",
            ],
        )

    def test_queues_have_columns_where_there_are_several(self):
        several = a_shaper(bytes=25001000)
        several.xstats.update(queues=4, hub_waiting=3, hub_tokens=-12000)
        new = sample.Sample(2.0, [several, a_shaper(device="eth1")], [])
        old = sample.Sample(1.0, [a_shaper(), a_shaper(device="eth1")], [])
        shown = view.View(1, sample.changes(new, old), [], {})
        self.assertEqual(
            [" ".join(line.split()) for line in as_text.shapers_table(shown)],
            [
                "DEVICE QDISC RATE SENT BACKLOG THROTTLED WAITING TOKENS "
                "DELAY p50 p99 THROTTLE p50 p99 DROPS/s PKTS USED",
                "eth0 8001: 200Mbit 200Mbit 600B 0 of 0 3 of 4 -12kB - - - - "
                "0 5 [||||||||||] 100%",
                "eth1 8001: 200Mbit 0bit 600B 0 of 0 - - - - - - 0 5 [ ] 0%",
            ],
        )

    def test_classes_have_a_table_where_there_are_some(self):
        self.assertEqual(as_text.leaves_table(server_view()), [])
        self.assertEqual(
            [
                " ".join(line.split())
                for line in as_text.leaves_table(classes_view())
            ],
            [
                "DEVICE CLASS PARENT FLOOR CEIL SENT BACKLOG THROTTLED OUTSIDE "
                "DELAY p99 DROPS/s PKTS",
                "eth0 8001:10 8001: 8kbit unlimited 200Mbit 500B 4 2 8.35ms 4 "
                "4",
                "eth0 8001:11 8001:10 8kbit 1Mbit - 500B 0 0 - - 4",
            ],
        )

    def test_marks_have_a_column_where_there_are_some(self):
        shown = classes_view()
        for change in (shown.changes[0], shown.leaves[0]):
            change.shaper.xstats["ce_marks"], change.mark_rate = 70, 5.0
        tables = as_text.shapers_table(shown), as_text.leaves_table(shown)
        self.assertEqual(
            [" ".join(line.split()[-4:]) for table in tables for line in table],
            [
                "DROPS/s MARKS/s PKTS USED",
                "5 [ ] 0%",
                "p99 DROPS/s MARKS/s PKTS",
                "8.35ms 4 5 4",
                "- - - 4",
            ],
        )

    def test_tables_are_apart_by_a_line(self):
        text = once_text("--once", view=classes_view())
        heads = [part.split()[:2] for part in text.split("\n\n")]
        self.assertEqual(
            heads,
            [["DEVICE", "QDISC"], ["DEVICE", "CLASS"], ["PROCESS", "DEVICE"]],
        )
        text = once_text("--once")
        self.assertEqual(len(text.split("\n\n")), 2)

    def lines(self, shown: object, *args) -> List[str]:
        return [
            " ".join(line.split()) for line in as_text.flows_table(shown, *args)
        ][1:]

    def test_each_flow_has_its_peer(self):
        self.assertEqual(
            self.lines(server_view(), "b", False),
            [
                "server/5 eth0 udp 0.0.0.0:53 [fd99::1]:8 - 700B 3 1 1ns "
                "throttled",
                "- eth0 udp - 10.0.0.9 - 500B 1 1 1ns throttled",
                "server/5 eth0 udp 0.0.0.0:53 10.0.0.2:9 - 100B 1 1 1ns "
                "throttled",
                "server/5 eth0 udp 0.0.0.0:53 10.0.0.3:7 - 100B 1 4 1ns "
                "throttled",
                "server/5 eth1 udp 0.0.0.0:53 10.0.0.4:10 - 1B 1 1 1ns throttled",
            ],
        )

    def test_flows_are_folded_by_socket(self):
        shown = server_view()
        self.assertEqual(
            self.lines(shown, "b", True),
            [
                "server/5 eth0 udp 0.0.0.0:53 - 3 - 900B 5 4 1ns throttled",
                "- eth0 udp - 10.0.0.9 1 - 500B 1 1 1ns throttled",
                "server/5 eth1 udp 0.0.0.0:53 10.0.0.4:10 1 - 1B 1 1 1ns "
                "throttled",
            ],
        )
        self.assertEqual(
            as_text.flows_table(shown, "b", True)[0].split(),
            "PROCESS DEVICE PROTO LOCAL PEER FLOWS SENT BACKLOG PKTS THROTTLES "
            "LONGEST "
            "STATE".split(),
        )

    def test_flows_of_two_classes_are_not_folded(self):
        flows = [a_flow(1, parent="8001:" + minor) for minor in ("2", "", "2")]
        shown = a_view(flows, {1: sockets.Socket()})
        shown.rates = {1: 125000.0}
        self.assertEqual(
            self.lines(shown, "b", True),
            [
                "- eth0 - udp - - 1 1Mbit 3kB 2 1 1ns throttled",
                "- eth0 8001:2 udp - - 2 1Mbit 6kB 4 1 1ns throttled",
            ][::-1],
        )
        self.assertEqual(
            as_text.flows_table(shown, "b", True)[0].split()[:4],
            "PROCESS DEVICE CLASS PROTO".split(),
        )

    def test_sums_are_what_folded_lines_are_sorted_by(self):
        flows = [
            a_flow(1, backlog=3),
            a_flow(2, backlog=2),
            a_flow(2, backlog=2),
        ]
        shown = a_view(flows, {1: sockets.Socket(), 2: sockets.Socket()})
        order = [f.cookie for f in view.flows_sort(shown, "b", False)]
        self.assertEqual(order, [1, 2, 2])
        order = [f.cookie for f in view.flows_sort(shown, "b", True)]
        self.assertEqual(order, [2, 1])

    def test_a_socket_may_be_throttled_while_it_is_listed(self):
        for states, state in (
            (("overlimit", "throttled", "overlimit"), "throttled"),
            (("unthrottled", "overlimit"), "overlimit"),
            (("7", "unthrottled"), "unthrottled"),
            (("7", "7"), "7"),
        ):
            folded = flow.flows_fold(a_flow(1, state=name) for name in states)
            self.assertEqual([f.state for f in folded], [state])

    def test_folding_changes_no_flow(self):
        flows = server_view().flows
        flow.flows_fold(flows)
        self.assertEqual(flows, server_view().flows)

    def test_many_flows_are_folded_fast(self):
        flows = [
            a_flow(n % 100, peer="10.0.0.1", peer_port=n) for n in range(20000)
        ]
        folded = flow.flows_fold(flows)
        self.assertEqual((len(folded), folded[0].flows), (100, 200))

    def test_a_socket_that_ss_does_not_know(self):
        shown = a_view([a_flow(1)], {1: sockets.Socket()})
        line = as_text.flows_table(shown, "b", False)[1]
        self.assertEqual(" ".join(line.split()[:5]), "- eth0 udp - -")
