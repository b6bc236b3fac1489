# SPDX-License-Identifier: GPL-2.0-only
"""The difference of two samples."""

from __future__ import annotations

import unittest

from fixtures import (
    a_shaper,
    buckets,
)

from bpshaper_top import (
    sample,
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
