# SPDX-License-Identifier: GPL-2.0-only
"""What is shown: two samples, and the order of their flows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from socket import IPPROTO_TCP
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from .flow import MAY_NOT_SEND, Flow, flows_fold
from .sample import Change, Sample, changes, leaf_changes
from .sockets import Directory, Socket
from .taps import Tap, Unheld
from .unheld import advice_all


def processes_text(sock: Socket) -> str:
    texts = ["%s/%d" % (p.name, p.pid) for p in sock.processes[:3]]
    if len(sock.processes) > 3:
        texts.append("+%d" % (len(sock.processes) - 3))
    return " ".join(texts) or "-"


@dataclass
class View:
    """Two samples as they are shown."""

    seconds: float
    changes: List[Change]
    flows: List[Flow]
    sockets: Dict[int, Socket]
    leaves: List[Change] = field(default_factory=list)
    taps: List[Tap] = field(default_factory=list)  # that cannot be held
    advice: List[str] = field(default_factory=list)  # about drops
    rates: Dict[int, float] = field(default_factory=dict)  # bytes/s of sockets
    words: str = ""  # that lines must have


SORTS: Dict[str, Tuple[str, Callable[[Flow, Socket], Any]]] = {
    "b": ("backlog", lambda flow, sock: -flow.backlog),
    "t": ("throttles", lambda flow, sock: -flow.throttles),
    "l": ("longest throttle", lambda flow, sock: -flow.longest_throttle_ns),
    "n": ("process", lambda flow, sock: processes_text(sock)),
}


def view_make(
    new: Sample,
    old: Sample,
    directory: Directory,
    unheld: Unheld,
    is_all: bool,
) -> View:
    flows = flows_shown(new, is_all)
    sockets = directory.look_up(f.cookie for f in flows)
    seconds, leaves = new.time - old.time, leaf_changes(new, old)
    shapers = changes(new, old)
    return View(
        seconds,
        shapers,
        flows,
        sockets,
        leaves,
        unheld.look(),
        # /sys is that of the network namespace where this was started.
        advice_all(shapers, has_sys=unheld.everywhere),
        directory.rates,
    )


def flows_shown(sample: Sample, is_all: bool) -> List[Flow]:
    return [f for f in sample.flows if is_all or f.state in MAY_NOT_SEND]


def tcp_cookies(sample: Sample) -> Set[int]:
    return {f.cookie for f in sample.flows if f.protocol == IPPROTO_TCP}


def view_filter(view: View, words: str) -> View:
    """What has these words in a name, a number or an address."""

    return replace(
        view,
        changes=[
            c
            for c in view.changes
            if has_words(words, c.shaper.device, c.shaper.handle)
        ],
        leaves=[
            c
            for c in view.leaves
            if has_words(
                words, c.shaper.device, c.shaper.classid, c.shaper.parent
            )
        ],
        words=words,
    )


def flows_sort(view: View, sort: str, is_folded: bool = False) -> List[Flow]:
    """Throttled flows first, then by the key. Ties have a fixed order, so that
    lines do not move.
    """
    key = SORTS[sort][1]
    flows = flows_fold(view.flows) if is_folded else view.flows
    return sorted(
        (f for f in flows if has_words(view.words, *flow_names(view, f))),
        key=lambda f: (
            f.state not in MAY_NOT_SEND,
            key(f, view.sockets[f.cookie]),
            f.cookie,
            f.device,
            f.handle,
            f.parent,
            f.peer or "",
            f.peer_port or 0,
            f.hash or 0,
        ),
    )


def flow_peer(flow: Flow, sock: Socket) -> Tuple[Optional[str], Optional[int]]:
    """The peer of the packets comes first: ss shows none for an unconnected
    socket.
    """
    if flow.flows > 1:
        return None, None
    if flow.peer:
        return flow.peer, flow.peer_port
    return sock.peer, sock.peer_port


def address_text(address: Optional[str], port: Optional[int]) -> str:
    if address is None:
        return "-"
    if port is None:
        return address
    return ("[%s]:%d" if ":" in address else "%s:%d") % (address, port)


def flow_names(view: View, flow: Flow) -> List[str]:
    """What a filter finds it by."""
    sock = view.sockets[flow.cookie]
    return [
        flow.device,
        flow.parent,
        *("%s/%d" % (p.name, p.pid) for p in sock.processes),
        address_text(sock.local, sock.local_port),
        address_text(*flow_peer(flow, sock)),
    ]


def has_words(words: str, *names: str) -> bool:
    return words.lower() in " ".join(names).lower()
