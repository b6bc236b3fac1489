# SPDX-License-Identifier: GPL-2.0-only
"""Flows with a backlog, and those of a socket folded into one."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, replace
from typing import Dict, Iterable, List, Optional, Tuple

from .netlink import (
    TCA_STATS2,
    TCA_STATS_APP,
    TCA_STATS_QUEUE,
    Message,
    attributes_parse,
    handle_text,
    members_unpack,
    unpack_padded,
)
from .uapi import CLASS_XSTATS, FLOW_STATES

SOCKETLESS, THROTTLED = "socketless", "throttled"
MAY_NOT_SEND = (THROTTLED, "outside")


@dataclass
class Flow:
    """A flow with a backlog, or the sum of all flows of a socket."""

    device: str
    handle: str
    cookie: int
    state: str
    family: int
    protocol: int
    backlog: int
    qlen: int
    throttles: int
    longest_throttle_ns: int
    deficit: Optional[int]  # None: the flows of a sum differ in it
    hash: Optional[int] = 0
    socket_flows: int = 0
    socket_backlog: int = 0
    peer: Optional[str] = None
    peer_port: Optional[int] = None
    parent: str = ""  # its class, or the handle
    flows: int = 1

    def classid(self) -> Optional[str]:
        return None if self.parent == self.handle else self.parent


def peer_parse(
    family: int, port: int, address: bytes
) -> Tuple[Optional[str], Optional[int]]:
    if family == socket.AF_INET:
        address = address[:4]
    elif family != socket.AF_INET6:
        return None, None
    return socket.inet_ntop(family, address), socket.ntohs(port) or None


def flow_parse(message: Message, device: str) -> Flow:
    stats = attributes_parse(message.attributes.get(TCA_STATS2, b""))
    queue = unpack_padded(struct.Struct("=5I"), stats.get(TCA_STATS_QUEUE, b""))
    members = members_unpack(CLASS_XSTATS, stats.get(TCA_STATS_APP, b""))
    state = members["state"]
    return Flow(
        device,
        handle_text(message.handle & 0xFFFF0000),
        members["cookie"],
        FLOW_STATES[state] if state < len(FLOW_STATES) else str(state),
        members["family"],
        members["protocol"],
        queue[1],
        queue[0],
        members["throttles"],
        members["longest_throttle_ns"],
        members["deficit"],
        members["hash"],
        members["socket_flows"],
        members["socket_backlog"],
        *peer_parse(
            *(members[f"peer{part}"] for part in ("_family", "_port", ""))
        ),
        handle_text(message.parent),
    )


def state_severity(state: str) -> int:
    return FLOW_STATES.index(state) if state in FLOW_STATES else -1


def flow_add(all_flows: Flow, flow: Flow) -> Flow:
    """Add another flow of the same socket. The kernel lists flows one after the
    other: values of the socket may differ between them. The higher one is
    shown.
    """
    return replace(
        all_flows,
        state=max(all_flows.state, flow.state, key=state_severity),
        backlog=all_flows.backlog + flow.backlog,
        qlen=all_flows.qlen + flow.qlen,
        throttles=max(all_flows.throttles, flow.throttles),
        longest_throttle_ns=max(
            all_flows.longest_throttle_ns, flow.longest_throttle_ns
        ),
        deficit=None,
        hash=None,
        socket_flows=max(all_flows.socket_flows, flow.socket_flows),
        socket_backlog=max(all_flows.socket_backlog, flow.socket_backlog),
        peer=None,
        peer_port=None,
        flows=all_flows.flows + flow.flows,
    )


def flows_fold(flows: Iterable[Flow]) -> List[Flow]:
    """Sum the flows of each socket in each class."""
    found: Dict[Tuple[str, str, str, int], Flow] = {}
    for flow in flows:
        key = flow.device, flow.handle, flow.parent, flow.cookie
        found[key] = flow_add(found[key], flow) if key in found else flow
    return list(found.values())
