# SPDX-License-Identifier: GPL-2.0-only
"""A shaper: a qdisc and its statistics, as sch_bpshaper.h lays them out.

Later modules add statistics at the end. Fields that a module does not send are
zero.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass, field
from typing import Dict, Optional, Tuple

from .histogram import HIST_BUCKETS, Histogram
from .netlink import (
    TCA_OPTIONS,
    TCA_STATS2,
    TCA_STATS_APP,
    TCA_STATS_BASIC,
    TCA_STATS_PKT64,
    TCA_STATS_QUEUE,
    Message,
    attributes_parse,
    handle_text,
    unpack_padded,
)

TCA_BPSHAPER_RATE64, TCA_BPSHAPER_GROUP = 2, 23
RATE_UNLIMITED = (1 << 64) - 1
XSTATS_QDISC = 0
XSTATS = struct.Struct(
    "=II11Q8IQ%dQ4Q4Iq2Q2IQ%dQ" % (3 * HIST_BUCKETS, HIST_BUCKETS)
)
XSTATS_NAMES = (  # before the histograms
    "throttles unthrottles drops_pool drops_memory drops_alloc segments "
    "ballast_errors timer_wakeups direct_packets max_backlog memory "
    "throttled_sockets overlimit_sockets flows socket_flows share "
    "pool_backlog limit parked_flows purged_packets"
).split()
XSTATS_NAMES_BEHIND = (
    "paced_waits horizon_caps drops_horizon ce_marks paced_flows "
    "group_members group_waiting reserved2 group_tokens drops_ack "
    "drops_segments sockets outside_sockets turns"
).split()


@dataclass
class Shaper:
    """A qdisc, with its counters at the time of the sample."""

    device: str
    handle: str
    parent: str
    rate: Optional[int]  # None: unlimited
    group: Optional[int] = None
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


def shaper_parse(message: Message, device: str) -> Shaper:
    options = attributes_parse(message.attributes.get(TCA_OPTIONS, b""))
    stats = attributes_parse(message.attributes.get(TCA_STATS2, b""))
    rate = int.from_bytes(options.get(TCA_BPSHAPER_RATE64, b""), sys.byteorder)
    group = int.from_bytes(options.get(TCA_BPSHAPER_GROUP, b""), sys.byteorder)
    shaper = Shaper(
        device,
        handle_text(message.handle),
        handle_text(message.parent),
        None if rate == RATE_UNLIMITED else rate,
        group or None,
        **counters_parse(stats),
    )
    values = unpack_padded(XSTATS, stats.get(TCA_STATS_APP, b""))[2:]
    at = len(XSTATS_NAMES)
    shaper.xstats = dict(zip(XSTATS_NAMES, values))
    shaper.delay, shaper.throttle, shaper.lateness = (
        values[at + i * HIST_BUCKETS : at + (i + 1) * HIST_BUCKETS]
        for i in range(3)
    )
    behind = values[at + 3 * HIST_BUCKETS :]
    shaper.xstats.update(zip(XSTATS_NAMES_BEHIND, behind))
    del shaper.xstats["reserved2"]
    shaper.outside = values[-HIST_BUCKETS:]
    return shaper


def sockets_count(shaper: Shaper) -> int:
    """A module that does not count sockets has one flow for each."""
    return shaper.xstats["sockets"] or shaper.xstats["socket_flows"]
