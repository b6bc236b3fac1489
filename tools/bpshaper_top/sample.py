# SPDX-License-Identifier: GPL-2.0-only
"""Samples of all shapers, classes and flows, and the difference of two."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Optional, Union

from .flow import SOCKETLESS, Flow, flow_parse
from .histogram import Histogram, histogram_difference
from .leaf import Leaf, is_leaf, leaf_parse, leaves_sort
from .netlink import (
    RTM_GETQDISC,
    RTM_GETTCLASS,
    RTM_NEWQDISC,
    RTM_NEWTCLASS,
    Message,
    dump,
    is_bpshaper,
)
from .shaper import Shaper, shaper_parse


@dataclass
class Sample:
    time: float
    shapers: List[Shaper]
    flows: List[Flow]
    leaves: List[Leaf] = field(default_factory=list)


def device_name(ifindex: int) -> str:
    try:
        return socket.if_indextoname(ifindex)
    except OSError:
        return ""  # the device has been removed


def classes_dump(ifindex: int) -> List[Message]:
    """Classes and flows."""
    try:
        messages = dump(RTM_GETTCLASS, RTM_NEWTCLASS, ifindex)
    except OSError:
        return []  # the device has been removed
    return [m for m in messages if is_bpshaper(m)]


def classes_take(sample: Sample, ifindex: int, device: str) -> None:
    for message in classes_dump(ifindex):
        if is_leaf(message):
            sample.leaves.append(leaf_parse(message, device))
            continue
        flow = flow_parse(message, device)
        if flow.state != SOCKETLESS:
            sample.flows.append(flow)


def sample_take(device: Optional[str], with_classes: bool = True) -> Sample:
    messages = []
    for message in dump(RTM_GETQDISC, RTM_NEWQDISC):
        name = device_name(message.ifindex)
        if is_bpshaper(message) and name and device in (None, name):
            messages.append((message, name))
    sample = Sample(
        time.monotonic(), [shaper_parse(m, name) for m, name in messages], []
    )
    if with_classes:
        for ifindex, name in sorted({(m.ifindex, n) for m, n in messages}):
            classes_take(sample, ifindex, name)
    sample.leaves = leaves_sort(sample.leaves)
    return sample


Counted = Union[Shaper, Leaf]


@dataclass
class Change:
    """What a shaper or a class did between two samples."""

    shaper: Any  # as it is now: a Shaper or a Leaf
    sent_rate: Optional[float] = None  # bytes/s
    drop_rate: Optional[float] = None  # packets/s
    mark_rate: Optional[float] = None  # packets/s
    delay: Histogram = ()
    throttle: Histogram = ()
    lateness: Histogram = ()
    outside: Histogram = ()
    past: Dict[str, int] = field(default_factory=dict)  # statistics before


def is_successor(new: Counted, old: Counted) -> bool:
    """Counters never decrease. If one did, this is another qdisc or class."""
    pairs = zip(new.delay + (new.bytes,), old.delay + (old.bytes,))
    return all(a >= b for a, b in pairs)


def change_make(new: Counted, old: Counted, seconds: float) -> Change:
    return Change(
        new,
        (new.bytes - old.bytes) / seconds,
        (new.drops - old.drops) / seconds,
        (new.xstats["ce_marks"] - old.xstats["ce_marks"]) / seconds,
        histogram_difference(new.delay, old.delay),
        histogram_difference(new.throttle, old.throttle),
        histogram_difference(new.lateness, old.lateness),
        histogram_difference(new.outside, old.outside),
        old.xstats,
    )


def changes_make(
    new: Iterable[Counted], old: Iterable[Counted], seconds: float
) -> List[Change]:
    before = {item.key(): item for item in old}
    result = []
    for item in new:
        past = before.get(item.key())
        if past and seconds > 0 and is_successor(item, past):
            result.append(change_make(item, past, seconds))
        else:
            result.append(Change(item))
    return result


def changes(new: Sample, old: Sample) -> List[Change]:
    return changes_make(new.shapers, old.shapers, new.time - old.time)


def leaf_changes(new: Sample, old: Sample) -> List[Change]:
    return changes_make(new.leaves, old.leaves, new.time - old.time)
