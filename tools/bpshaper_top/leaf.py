# SPDX-License-Identifier: GPL-2.0-only
"""A class that was added to a shaper, and its statistics. The kernel lists flows
as classes, too: flow.py.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Dict, Iterable, List, Optional, Tuple

from .histogram import HIST_BUCKETS, Histogram
from .netlink import (
    TCA_STATS2,
    TCA_STATS_APP,
    Message,
    attributes_parse,
    handle_text,
)
from .shaper import (
    RATE_UNLIMITED,
    counters_parse,
    option_get,
    statistics_set,
)
from .uapi import CLASS_OPTIONS, LEAF_XSTATS

XSTATS_LEAF = 2
LEVELS_MAX = 8


@dataclass
class Leaf:
    """A class, with its counters at the time of the sample."""

    device: str
    classid: str
    parent: str
    floor: int
    ceil: Optional[int]  # None: unlimited
    weight: int
    prio: int
    bytes: int = 0
    packets: int = 0
    qlen: int = 0
    backlog: int = 0
    drops: int = 0
    requeues: int = 0
    overlimits: int = 0
    xstats: Dict[str, int] = field(default_factory=dict)
    delay: Histogram = (0,) * HIST_BUCKETS
    throttle: Histogram = (0,) * HIST_BUCKETS
    lateness: Histogram = ()  # it has no timer of its own
    outside: Histogram = (0,) * HIST_BUCKETS

    def key(self) -> Tuple[str, str, str]:
        return self.device, self.classid, self.parent


def is_leaf(message: Message) -> bool:
    stats = attributes_parse(message.attributes.get(TCA_STATS2, b""))
    kind = stats.get(TCA_STATS_APP, b"")[:4]
    return int.from_bytes(kind, sys.byteorder) == XSTATS_LEAF


def leaf_parse(message: Message, device: str) -> Leaf:
    stats = attributes_parse(message.attributes.get(TCA_STATS2, b""))

    def option(word: str) -> int:
        return option_get(message, CLASS_OPTIONS[word])

    ceil = option("ceil")
    leaf = Leaf(
        device,
        handle_text(message.handle),
        handle_text(message.parent),
        option("floor"),
        None if ceil == RATE_UNLIMITED else ceil,
        option("weight"),
        option("prio"),
        **counters_parse(stats),
    )
    statistics_set(leaf, LEAF_XSTATS, stats)
    return leaf


def leaves_sort(leaves: Iterable[Leaf]) -> List[Leaf]:
    """Children behind their parent, in the order of their numbers."""
    by_key = {(leaf.device, leaf.classid): leaf for leaf in leaves}

    def path(leaf: Optional[Leaf], levels: int = LEVELS_MAX) -> List[int]:
        if not leaf or not levels:
            return []
        parent = by_key.get((leaf.device, leaf.parent))
        numbers = [int(part, 16) for part in leaf.classid.split(":")]
        return path(parent, levels - 1) + numbers

    return sorted(by_key.values(), key=lambda leaf: (leaf.device, path(leaf)))
