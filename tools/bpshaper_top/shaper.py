# SPDX-License-Identifier: GPL-2.0-only
"""A shaper: a qdisc and its statistics."""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Tuple

from .histogram import HIST_BUCKETS, Histogram
from .netlink import (
    TCA_OPTIONS,
    TCA_STATS2,
    TCA_STATS_APP,
    TCA_STATS_BASIC,
    TCA_STATS_PKT64,
    TCA_STATS_QUEUE,
    Members,
    Message,
    attributes_parse,
    handle_text,
    members_unpack,
    unpack_padded,
)
from .uapi import OPTIONS, XSTATS

RATE_UNLIMITED = (1 << 64) - 1
XSTATS_QDISC = 0
NO_STATISTICS = ("type", "reserved", "reserved2")


@dataclass
class Shaper:
    """A qdisc, with its counters at the time of the sample."""

    device: str
    handle: str
    parent: str
    rate: Optional[int]  # None: unlimited
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
    lateness: Histogram = (0,) * HIST_BUCKETS
    outside: Histogram = (0,) * HIST_BUCKETS

    def key(self) -> Tuple[str, str, str]:
        return self.device, self.handle, self.parent


def counters_parse(stats: Dict[int, bytes]) -> Dict[str, int]:
    """What the core counts of any qdisc or class."""
    basic = stats.get(TCA_STATS_BASIC, b"")
    sent, packets = unpack_padded(struct.Struct("=QI"), basic)
    if TCA_STATS_PKT64 in stats:
        packets = int.from_bytes(stats[TCA_STATS_PKT64], sys.byteorder)
    queue = unpack_padded(struct.Struct("=5I"), stats.get(TCA_STATS_QUEUE, b""))
    names = "qlen backlog drops requeues overlimits".split()
    return {"bytes": sent, "packets": packets, **dict(zip(names, queue))}


def statistics_set(
    item: Any, layout: Members, stats: Dict[int, bytes]
) -> None:
    """Those of TCA_STATS_APP: histograms apart from the others."""
    item.xstats = {}
    members = members_unpack(layout, stats.get(TCA_STATS_APP, b""))
    for name, value in members.items():
        if name.endswith("_hist"):
            setattr(item, name[: -len("_hist")], value)
        elif name not in NO_STATISTICS:
            item.xstats[name] = value


def option_get(message: Message, number: int) -> int:
    options = attributes_parse(message.attributes.get(TCA_OPTIONS, b""))
    return int.from_bytes(options.get(number, b""), sys.byteorder)


def shaper_parse(message: Message, device: str) -> Shaper:
    stats = attributes_parse(message.attributes.get(TCA_STATS2, b""))
    rate = option_get(message, OPTIONS["rate"])
    shaper = Shaper(
        device,
        handle_text(message.handle),
        handle_text(message.parent),
        None if rate == RATE_UNLIMITED else rate,
        **counters_parse(stats),
    )
    statistics_set(shaper, XSTATS, stats)
    return shaper
