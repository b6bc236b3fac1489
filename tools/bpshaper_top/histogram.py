# SPDX-License-Identifier: GPL-2.0-only
"""Histograms of times: what a bucket counts, differences, percentiles."""

from __future__ import annotations

import math
from typing import Optional, Tuple

HIST_BUCKETS = 24

Histogram = Tuple[int, ...]


def histogram_difference(new: Histogram, old: Histogram) -> Histogram:
    return tuple(a - b for a, b in zip(new, old))


def bucket_bounds(bucket: int) -> Tuple[int, float]:
    """The times, in ns, that a bucket counts: from, and to less than."""
    low = 1 << (bucket + 9) if bucket else 0
    is_last = bucket == HIST_BUCKETS - 1
    return low, math.inf if is_last else 1 << (bucket + 10)


LONGEST_KNOWN_NS = bucket_bounds(HIST_BUCKETS - 1)[0]


def percentile(histogram: Histogram, percent: float) -> Optional[float]:
    """In ns; LONGEST_KNOWN_NS means that, or longer. None: nothing happened."""
    rank = sum(histogram) * percent / 100
    below = 0
    for bucket, count in enumerate(histogram):
        if count and below + count >= rank:
            low, high = bucket_bounds(bucket)
            if high == math.inf:
                return float(low)
            return low + (high - low) * (rank - below) / count
        below += count
    return None
