# SPDX-License-Identifier: GPL-2.0-only
"""The difference of two samples."""

from __future__ import annotations

import io
import unittest
from contextlib import redirect_stdout
from unittest import mock

from fixtures import (
    a_class,
    a_leaf,
    a_shaper,
    attribute,
    buckets,
    classes_view,
    leaf_xstats,
    members_pack,
    qdisc,
    xstats,
)

from bpshaper_top import (
    arguments,
    leaf,
    main,
    netlink,
    sample,
    uapi,
)


class Changes(unittest.TestCase):
    def change(self, new: object, *old: object) -> object:
        return sample.changes(
            sample.Sample(3.0, [new], []), sample.Sample(1.0, list(old), [])
        )[0]

    def test_rates_are_per_second(self):
        change = self.change(
            a_shaper(bytes=5000, drops=7), a_shaper(bytes=1000, drops=1)
        )
        self.assertEqual((change.sent_rate, change.drop_rate), (2000, 3))

    def test_marks_are_per_second(self):
        new, old = a_shaper(), a_shaper()
        new.xstats["ce_marks"], old.xstats["ce_marks"] = 11, 1
        self.assertEqual(self.change(new, old).mark_rate, 5)

    def test_percentiles_are_of_the_interval(self):
        old, new = buckets({3: 1000}), buckets({3: 1000, 9: 4})
        for name in ("delay", "throttle", "lateness"):
            change = self.change(
                a_shaper(**{name: new}), a_shaper(**{name: old})
            )
            self.assertEqual(getattr(change, name), buckets({9: 4}))

    def test_a_new_shaper_has_no_rate_yet(self):
        self.assertIsNone(self.change(a_shaper()).sent_rate)
        self.assertIsNone(
            self.change(a_shaper(), a_shaper(device="eth1")).sent_rate
        )

    def test_nor_has_one_that_has_been_replaced(self):
        self.assertIsNone(
            self.change(a_shaper(bytes=1), a_shaper(bytes=2)).sent_rate
        )
        old = a_shaper(delay=buckets({1: 1}))
        self.assertIsNone(self.change(a_shaper(bytes=9000), old).sent_rate)


class Leaves(unittest.TestCase):
    def change(self, new: object, *old: object) -> object:
        return sample.leaf_changes(
            sample.Sample(3.0, [], [], [new]),
            sample.Sample(1.0, [], [], list(old)),
        )[0]

    def test_rates_and_percentiles_are_of_the_interval(self):
        change = self.change(
            a_leaf(bytes=5000, drops=7, delay=buckets({3: 1, 9: 4})),
            a_leaf(bytes=1000, drops=1, delay=buckets({3: 1})),
            a_leaf("11"),
        )
        self.assertEqual((change.sent_rate, change.drop_rate), (2000, 3))
        self.assertEqual(change.delay, buckets({9: 4}))

    def test_a_class_of_that_number_may_be_another(self):
        self.assertIsNone(self.change(a_leaf()).sent_rate)
        self.assertIsNone(self.change(a_leaf(), a_leaf("11")).sent_rate)
        self.assertIsNone(
            self.change(a_leaf(), a_leaf(parent="8001:5")).sent_rate
        )
        self.assertIsNone(
            self.change(a_leaf(bytes=1), a_leaf(bytes=2)).sent_rate
        )

    def test_children_are_behind_their_parent(self):
        leaves = [
            a_leaf("20", "root"),
            a_leaf("5", "8001:9"),
            a_leaf("1", "8001:20"),
            a_leaf("9", "8001:100"),
            a_leaf("100", "root"),
            a_leaf("30", "8001:77"),
            a_leaf("a", "8001:9"),
            a_leaf("1", device="eth1"),
        ]
        self.assertEqual(
            [(found.device, found.classid) for found in leaf.leaves_sort(leaves)],
            [
                ("eth0", "8001:20"),
                ("eth0", "8001:1"),
                ("eth0", "8001:30"),
                ("eth0", "8001:100"),
                ("eth0", "8001:9"),
                ("eth0", "8001:5"),
                ("eth0", "8001:a"),
                ("eth1", "8001:1"),
            ],
        )
        # They change while the kernel lists them.
        loop = [a_leaf("1", "8001:2"), a_leaf("2", "8001:1")]
        self.assertEqual(len(leaf.leaves_sort(loop)), 2)

    def test_a_sample_has_them_in_that_order(self):
        numbers = (0x80010020, 0x80010010)
        classes = [a_class(leaf_xstats(), number) for number in numbers]
        found = {
            netlink.RTM_GETQDISC: [qdisc(xstats())],
            netlink.RTM_GETTCLASS: classes,
        }
        with mock.patch.object(sample, "dump", lambda kind, *_: found[kind]):
            with mock.patch.object(sample, "device_name", return_value="eth0"):
                leaves = sample.sample_take(None).leaves
                none = sample.sample_take(None, with_classes=False).leaves
        self.assertEqual([c.classid for c in leaves], ["8001:10", "8001:20"])
        self.assertEqual(none, [])

    def test_both_samples_of_once_have_them(self):
        args = arguments.arguments_parse(["--once"])
        shown = classes_view()
        none = sample.Sample(0.0, [], [])
        with mock.patch.object(main, "sample_take", return_value=none) as take:
            with mock.patch.object(main, "view_make", return_value=shown):
                with mock.patch.object(main.time, "sleep"):
                    with redirect_stdout(io.StringIO()):
                        main.once(args)
        self.assertEqual(take.call_args_list, [mock.call(None)] * 2)

    def test_classes_are_not_flows(self):
        app = members_pack(uapi.CLASS_XSTATS, type=1, state=3, cookie=8)
        stats = attribute(netlink.TCA_STATS_APP, app)
        listed = netlink.Message(
            3,
            0x80020001,
            0,
            {
                netlink.TCA_KIND: b"bpshaper\0",
                netlink.TCA_STATS2: stats,
            },
        )
        other = netlink.Message(3, 1, 0, {netlink.TCA_KIND: b"htb\0"})
        taken = sample.Sample(0.0, [], [])
        found = [a_class(leaf_xstats()), listed, other]
        with mock.patch.object(sample, "dump", return_value=found):
            sample.classes_take(taken, 3, "eth0")
        self.assertEqual([f.cookie for f in taken.flows], [8])
        self.assertEqual([c.classid for c in taken.leaves], ["8001:10"])
        gone = OSError(19, "")
        with mock.patch.object(sample, "dump", side_effect=gone):
            self.assertEqual(sample.classes_dump(3), [])
