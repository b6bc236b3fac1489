# SPDX-License-Identifier: GPL-2.0-only
"""JSON."""

from __future__ import annotations

import io
import json
import re
import unittest
from contextlib import redirect_stdout

from fixtures import (
    SS_LINES,
    SS_PROCESSES,
    a_flow,
    a_shaper,
    a_view,
    classes_view,
    once_text,
    server_view,
)

from bpshaper_top import (
    arguments,
    as_json,
    sample,
    sockets,
    uapi,
)


class Json(unittest.TestCase):
    def test_it_is_what_the_help_documents(self):
        shown = a_view([a_flow(1)], sockets.ss_parse(SS_LINES, SS_PROCESSES))
        data = json.loads(json.dumps(as_json.view_json(shown, "pod")))
        with redirect_stdout(io.StringIO()) as text, self.assertRaises(
            SystemExit
        ):
            arguments.arguments_parse(["--help"])
        documented = set(re.findall(r"\w+", text.getvalue()))
        keys = set(data)
        of_tc = [name for name, _ in uapi.XSTATS + uapi.LEAF_XSTATS]
        for item in data["shapers"] + data["sockets"] + data["flows"]:
            keys |= set(item) - set(of_tc)
        for item in as_json.view_json(classes_view(), None)["classes"]:
            keys |= set(item) - set(of_tc)
        for process in data["sockets"][0]["processes"]:
            keys |= set(process)
        keys |= set(data["shapers"][0]["delay"])
        self.assertEqual(keys - documented, set())
        self.assertEqual((data["interval_s"], data["netns"]), (1.25, "pod"))

    def test_values(self):
        shown = a_view([a_flow(1)], sockets.ss_parse(SS_LINES, SS_PROCESSES))
        data = as_json.view_json(shown, None)
        found = data["shapers"][0]
        self.assertEqual(
            (found["rate"], found["sent_rate"]), (25000000, 25000000.0)
        )
        self.assertEqual(found["delay"]["count"], 100)
        self.assertEqual(found["delay"]["p50_ns"], 6291456)
        self.assertIsNone(found["throttle"]["p50_ns"])
        self.assertEqual(data["sockets"][0]["cookie"], 1)
        self.assertEqual(data["sockets"][0]["local_port"], 7000)
        self.assertEqual(
            data["sockets"][0]["processes"],
            [{"name": "talker", "pid": 148, "fd": 3}],
        )

    def test_sockets_and_flows(self):
        data = as_json.view_json(server_view(), None)
        flows, folded = data["flows"], data["sockets"]
        self.assertEqual(
            [(f["cookie"], f["peer"], f["peer_port"]) for f in flows[:2]],
            [(1, "fd99::1", 8), (2, "10.0.0.9", None)],
        )
        self.assertEqual(len(flows), 5)
        self.assertEqual({"flows"}, set(folded[0]) - set(flows[0]))
        self.assertEqual([s["flows"] for s in folded], [3, 1, 1])
        self.assertEqual([s["backlog"] for s in folded], [900, 500, 1])
        self.assertEqual([s["qlen"] for s in folded], [5, 1, 1])
        self.assertEqual(
            [s["peer"] for s in folded], [None, "10.0.0.9", "10.0.0.4"]
        )
        self.assertEqual([s["deficit"] for s in folded], [None, 3, 0])
        self.assertEqual([s["hash"] for s in folded], [None, 7, 0])

    def test_classes(self):
        data = as_json.view_json(classes_view(), None)["classes"]
        parent, child = json.loads(json.dumps(data))
        self.assertEqual(
            [(c["device"], c["classid"], c["parent"]) for c in data],
            [("eth0", "8001:10", "8001:"), ("eth0", "8001:11", "8001:10")],
        )
        self.assertEqual((parent["floor"], parent["ceil"]), (1000, "unlimited"))
        self.assertEqual((parent["weight"], parent["prio"]), (3, 7))
        self.assertEqual(child["ceil"], 125000)
        self.assertEqual(
            (parent["sent_rate"], parent["drop_rate"]), (25000000.0, 4.0)
        )
        self.assertEqual((parent["mark_rate"], child["mark_rate"]), (0.0, None))
        self.assertIsNone(child["sent_rate"])
        self.assertEqual(parent["throttled_sockets"], 4)
        self.assertEqual(parent["outside_sockets"], 2)
        self.assertEqual((parent["backlog"], parent["drops"]), (500, 5))
        self.assertEqual(parent["delay"]["count"], 100)
        self.assertNotIn("lateness", parent)
        self.assertEqual(as_json.view_json(server_view(), None)["classes"], [])

    def test_without_a_peer_it_is_that_of_ss(self):
        shown = a_view([a_flow(1)], sockets.ss_parse(SS_LINES, SS_PROCESSES))
        data = as_json.view_json(shown, None)
        for item in data["sockets"] + data["flows"]:
            self.assertEqual(
                (item["peer"], item["peer_port"]), ("10.99.0.9", 9000)
            )

    def test_any_name_gives_valid_unicode(self):
        data = json.loads(once_text("--once", "--json"))
        for item in data["shapers"] + data["sockets"] + data["flows"]:
            self.assertEqual(item["device"], "e\x1b[2Jx\ufffd")

    def test_no_rate(self):
        change = sample.Change(a_shaper(rate=None))
        self.assertEqual(as_json.change_json(change)["rate"], "unlimited")
        self.assertIsNone(as_json.change_json(change)["sent_rate"])
