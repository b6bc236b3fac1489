# SPDX-License-Identifier: GPL-2.0-only
"""Samples of all shapers and flows, and the difference of two."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from typing import List, Optional

from .flow import SOCKETLESS, Flow, flow_parse
from .histogram import Histogram, histogram_difference
from .netlink import (
    RTM_GETQDISC,
    RTM_GETTCLASS,
    RTM_NEWQDISC,
    RTM_NEWTCLASS,
    dump,
    is_bpshaper,
)
from .shaper import Shaper, shaper_parse


@dataclass
class Sample:
    time: float
    shapers: List[Shaper]
    flows: List[Flow]


def device_name(ifindex: int) -> str:
    try:
        return socket.if_indextoname(ifindex)
    except OSError:
        return ""  # the device has been removed


def flows_take(ifindex: int, device: str) -> List[Flow]:
    try:
        messages = dump(RTM_GETTCLASS, RTM_NEWTCLASS, ifindex)
    except OSError:
        return []  # the device has been removed
    flows = [flow_parse(m, device) for m in messages if is_bpshaper(m)]
    return [f for f in flows if f.state != SOCKETLESS]


def sample_take(device: Optional[str], with_flows: bool = True) -> Sample:
    messages = []
    for message in dump(RTM_GETQDISC, RTM_NEWQDISC):
        name = device_name(message.ifindex)
        if is_bpshaper(message) and name and device in (None, name):
            messages.append((message, name))
    sample = Sample(
        time.monotonic(), [shaper_parse(m, name) for m, name in messages], []
    )
    if with_flows:
        for ifindex, name in sorted({(m.ifindex, n) for m, n in messages}):
            sample.flows += flows_take(ifindex, name)
    return sample


@dataclass
class Change:
    """What a shaper did between two samples."""

    shaper: Shaper  # as it is now
    sent_rate: Optional[float] = None  # bytes/s
    drop_rate: Optional[float] = None  # packets/s
    delay: Histogram = ()
    throttle: Histogram = ()
    lateness: Histogram = ()
    outside: Histogram = ()


def is_successor(new: Shaper, old: Shaper) -> bool:
    """Counters of a qdisc never decrease. If one did, this is another qdisc."""
    pairs = zip(new.delay + (new.bytes,), old.delay + (old.bytes,))
    return all(a >= b for a, b in pairs)


def shaper_change(new: Shaper, old: Shaper, seconds: float) -> Change:
    return Change(
        new,
        (new.bytes - old.bytes) / seconds,
        (new.drops - old.drops) / seconds,
        histogram_difference(new.delay, old.delay),
        histogram_difference(new.throttle, old.throttle),
        histogram_difference(new.lateness, old.lateness),
        histogram_difference(new.outside, old.outside),
    )


def changes(new: Sample, old: Sample) -> List[Change]:
    before = {shaper.key(): shaper for shaper in old.shapers}
    seconds = new.time - old.time
    result = []
    for shaper in new.shapers:
        past = before.get(shaper.key())
        if past and seconds > 0 and is_successor(shaper, past):
            result.append(shaper_change(shaper, past, seconds))
        else:
            result.append(Change(shaper))
    return result
