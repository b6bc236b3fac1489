# SPDX-License-Identifier: GPL-2.0-only
"""A view as two tables, or as three if a shaper has classes."""

from __future__ import annotations

import socket
from typing import List, Optional, Tuple

from .flow import Flow
from .histogram import LONGEST_KNOWN_NS, Histogram, percentile
from .sample import Change
from .shaper import Shaper
from .sockets import Socket
from .view import View, address_text, flow_peer, flows_sort, processes_text

Column = Tuple[List[str], str]  # its cells, and the side they are at


def quantity_text(value: float, unit: str) -> str:
    """Four digits, and a prefix of thousands: 199.8M and the unit."""
    for prefix in ("", "k", "M", "G"):
        if abs(value) < 999.95:
            return "%.4g%s%s" % (round(value, 1), prefix, unit)
        value /= 1000
    return "%.4gT%s" % (round(value, 1), unit)


def rate_text(bytes_per_s: Optional[float]) -> str:
    return "-" if bytes_per_s is None else quantity_text(bytes_per_s * 8, "bit")


def packets_text(per_s: Optional[float]) -> str:
    return "-" if per_s is None else quantity_text(per_s, "")


def time_text(ns: Optional[float]) -> str:
    if ns is None:
        return "-"
    if ns < 999.5:
        return "%.0fns" % ns
    for unit in ("us", "ms"):
        ns /= 1000
        if ns < 999.5:
            return "%.3g%s" % (ns, unit)
    return "%.3gs" % (ns / 1000) if ns < 999500 else "%.0fs" % (ns / 1000)


def percentile_text(histogram: Histogram, percent: float) -> str:
    ns = percentile(histogram, percent)
    is_last = ns is not None and ns >= LONGEST_KNOWN_NS
    return ">" * is_last + time_text(ns)


def used_text(change: Change, width: int = 10) -> str:
    """The used part of the rate, as a bar."""
    if change.sent_rate is None or not change.shaper.rate:
        return "-"
    used = change.sent_rate / change.shaper.rate
    bar = "|" * min(width, round(used * width))
    return "[%s] %3.0f%%" % (bar.ljust(width), used * 100)


def printable(text: str) -> str:
    """Replace all but printable ASCII. Containers choose names of devices and
    processes: a name could hold commands for the terminal, or what stdout
    cannot encode.
    """
    return "".join(c if " " <= c <= "~" else "?" for c in text)


def protocol_text(flow: Flow, sock: Socket) -> str:
    if sock.netid:
        return sock.netid
    if flow.family == socket.AF_PACKET:
        return "packet"
    names = {socket.IPPROTO_TCP: "tcp", socket.IPPROTO_UDP: "udp"}
    return names.get(flow.protocol, "ip %d" % flow.protocol)


def spare_drop(columns: List[Column], spare: str, width: int) -> List[Column]:
    """Drop the columns of these heads, one by one, until the others fit. "p99"
    goes with what is before it.
    """
    for head in spare.split():
        if sum(max(map(len, cells)) + 2 for cells, _ in columns) - 2 <= width:
            break
        kept: List[Column] = []
        is_dropped = False
        for column in columns:
            name = column[0][0]
            is_dropped = name.split()[0] == head or is_dropped and name == "p99"
            kept += [column] * (not is_dropped)
        columns = kept
    return columns


def table(
    rows: List[List[str]], is_left: str, spare: str = "", width: int = 0
) -> List[str]:
    """Align columns: left where is_left has an "l", else right. Lines fit into
    @width, if it is not 0, without columns that are in @spare.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    columns = [(list(cells), side) for cells, side in zip(zip(*rows), is_left)]
    if width:
        columns = spare_drop(columns, spare, width)
    padded = []
    for cells, side in columns:
        most = max(map(len, cells))
        padded.append(
            [c.ljust(most) if side == "l" else c.rjust(most) for c in cells]
        )
    lines = ["  ".join(row).rstrip() for row in zip(*padded)]
    return [line[:width] for line in lines] if width else lines


def queues_cells(shaper: Shaper) -> List[str]:
    """Who of several queues waits, and for what."""
    if not shaper.xstats["queues"]:
        return ["-"] * 2
    return [
        "%(hub_waiting)d of %(queues)d" % shaper.xstats,
        quantity_text(shaper.xstats["hub_tokens"], "B"),
    ]


def has_marks(changes: List[Change]) -> bool:
    return any(change.shaper.xstats["ce_marks"] for change in changes)


def shapers_table(view: View, width: int = 0) -> List[str]:
    has_queues = any(change.shaper.xstats["queues"] for change in view.changes)
    is_marked = has_marks(view.changes)
    rows = [
        ["DEVICE", "QDISC", "RATE", "SENT", "BACKLOG", "THROTTLED"]
        + ["WAITING", "TOKENS"] * has_queues
        + ["DELAY p50", "p99", "THROTTLE p50", "p99", "DROPS/s"]
        + ["MARKS/s"] * is_marked
        + ["PKTS", "USED"]
    ]
    for change in view.changes:
        shaper = change.shaper
        outside = shaper.xstats["outside_sockets"]
        counts = (
            shaper.xstats["throttled_sockets"],
            shaper.xstats["sockets"] + outside,
        )
        rows.append(
            [
                shaper.device,
                shaper.handle,
                rate_text(shaper.rate) if shaper.rate else "unlimited",
                rate_text(change.sent_rate),
                quantity_text(shaper.backlog, "B"),
                "%d of %d" % counts,
            ]
            + queues_cells(shaper) * has_queues
            + [
                percentile_text(change.delay, 50),
                percentile_text(change.delay, 99),
                percentile_text(change.throttle, 50),
                percentile_text(change.throttle, 99),
                packets_text(change.drop_rate),
            ]
            + [packets_text(change.mark_rate)] * is_marked
            + [str(shaper.qlen), used_text(change)]
        )
    rights = "r" * (10 + 2 * has_queues + is_marked)
    spare = "USED PKTS TOKENS WAITING THROTTLE MARKS/s DELAY QDISC BACKLOG"
    return table(rows, "ll" + rights + "l", spare, width)


def leaves_table(view: View, width: int = 0) -> List[str]:
    """No lines if no shaper has classes."""
    if not view.leaves:
        return []
    is_marked = has_marks(view.leaves)
    rows = [
        "DEVICE CLASS PARENT FLOOR CEIL SENT BACKLOG THROTTLED OUTSIDE".split()
        + ["DELAY p99", "DROPS/s"]
        + ["MARKS/s"] * is_marked
        + ["PKTS"]
    ]
    for change in view.leaves:
        leaf = change.shaper
        rows.append(
            [
                leaf.device,
                leaf.classid,
                leaf.parent,
                rate_text(leaf.floor),
                rate_text(leaf.ceil) if leaf.ceil else "unlimited",
                rate_text(change.sent_rate),
                quantity_text(leaf.backlog, "B"),
                str(leaf.xstats["throttled_sockets"]),
                str(leaf.xstats["outside_sockets"]),
                percentile_text(change.delay, 99),
                packets_text(change.drop_rate),
            ]
            + [packets_text(change.mark_rate)] * is_marked
            + [str(leaf.qlen)]
        )
    spare = "PKTS OUTSIDE PARENT BACKLOG MARKS/s DELAY THROTTLED DROPS/s"
    return table(rows, "lll" + "r" * (9 + is_marked), spare, width)


def flows_table(
    view: View, sort: str, is_folded: bool, width: int = 0
) -> List[str]:
    flows = flows_sort(view, sort, is_folded)
    has_classes = any(flow.classid() for flow in flows)
    rows = [
        ["PROCESS", "DEVICE"]
        + ["CLASS"] * has_classes
        + "PROTO LOCAL PEER".split()
        + ["FLOWS"] * is_folded
        + "SENT BACKLOG PKTS THROTTLES LONGEST STATE".split()
    ]
    for flow in flows:
        sock = view.sockets[flow.cookie]
        rows.append(
            [processes_text(sock), flow.device]
            + [flow.classid() or "-"] * has_classes
            + [
                protocol_text(flow, sock),
                address_text(sock.local, sock.local_port),
                address_text(*flow_peer(flow, sock)),
            ]
            + [str(flow.flows)] * is_folded
            + [
                rate_text(view.rates.get(flow.cookie)),
                quantity_text(flow.backlog, "B"),
                str(flow.qlen),
                str(flow.throttles),
                time_text(flow.longest_throttle_ns),
                flow.state,
            ]
        )
    lefts = "lllll" + "l" * has_classes
    spare = "PKTS PROTO LONGEST THROTTLES LOCAL DEVICE FLOWS BACKLOG CLASS"
    return table(rows, lefts + "r" * is_folded + "rrrrrl", spare, width)


def taps_text(view: View) -> str:
    """A line about taps that cannot be held, or nothing. It names one of which
    that is certain, if there is one.
    """
    if not view.taps:
        return ""
    first = min(view.taps, key=lambda tap: tap.vhost == "perhaps")
    more = len(view.taps) - 1
    return printable(
        "tap %s of %s/%d%s: %svhost-net without a send buffer, so it cannot be"
        " held: see bpshaper-tap(8)"
        % (
            first.device,
            first.process,
            first.pid,
            " +%d" % more * bool(more),
            "perhaps " * (first.vhost == "perhaps"),
        )
    )


def warnings(view: View) -> List[str]:
    """Lines about what cannot be held. Taps come first: why is certain."""
    return list(filter(None, [taps_text(view)] + list(map(printable, view.advice))))
