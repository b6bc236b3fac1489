# SPDX-License-Identifier: GPL-2.0-only
"""Percentiles of histograms."""

from __future__ import annotations

import math
import random
import unittest
from typing import Dict

from fixtures import (
    buckets,
)

from bpshaper_top import (
    as_text,
    histogram,
)


class Percentiles(unittest.TestCase):
    def test_nothing_happened(self):
        self.assertIsNone(histogram.percentile(buckets({}), 50))
        self.assertIsNone(histogram.percentile((), 50))

    def test_buckets_are_those_of_the_header(self):
        self.assertEqual(histogram.bucket_bounds(0), (0, 1024))
        self.assertEqual(histogram.bucket_bounds(1), (1024, 2048))
        for bucket in range(1, histogram.HIST_BUCKETS - 1):
            low, high = histogram.bucket_bounds(bucket)
            self.assertEqual(low, 2 ** (bucket + 9))
            self.assertEqual(high, histogram.bucket_bounds(bucket + 1)[0])
        self.assertEqual(histogram.bucket_bounds(23), (2**32, math.inf))

    def test_times_are_taken_as_spread_evenly(self):
        self.assertEqual(histogram.percentile(buckets({0: 7}), 50), 512)
        self.assertEqual(histogram.percentile(buckets({1: 100}), 50), 1536)
        self.assertEqual(histogram.percentile(buckets({1: 100}), 100), 2048)
        self.assertEqual(
            histogram.percentile(buckets({1: 90, 5: 10}), 90), 2048
        )
        self.assertEqual(
            histogram.percentile(buckets({1: 90, 5: 10}), 95), 16384 * 1.5
        )

    def test_of_the_longest_the_bound_is_known(self):
        value = histogram.percentile(buckets({23: 1}), 50)
        self.assertEqual(value, histogram.LONGEST_KNOWN_NS)
        self.assertEqual(
            as_text.percentile_text(buckets({23: 1}), 50), ">4.29s"
        )
        self.assertEqual(as_text.percentile_text(buckets({22: 1}), 50), "3.22s")

    def test_off_by_less_than_a_factor_of_two(self):
        dice = random.Random(1)
        for _ in range(50):
            times = sorted(
                int(10 ** dice.uniform(3.02, 9.6))
                for _ in range(dice.randint(1, 500))
            )
            counts: Dict[int, int] = {}
            for value in times:
                bucket = value.bit_length() - 10
                counts[bucket] = counts.get(bucket, 0) + 1
            for percent in (50, 99):
                true = times[math.ceil(len(times) * percent / 100) - 1]
                found = histogram.percentile(buckets(counts), percent)
                self.assertLessEqual(found, true * 2)
                self.assertGreaterEqual(found, true / 2)
