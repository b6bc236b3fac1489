# SPDX-License-Identifier: GPL-2.0-only
"""A view as JSON."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional

from .flow import Flow
from .histogram import Histogram, percentile
from .sample import Change
from .view import View, flow_peer, flows_sort


def unicode_text(name: str) -> str:
    """Replace bytes that are no UTF-8. Python keeps them as lone surrogates,
    which JSON parsers refuse.
    """
    return os.fsencode(name).decode(errors="replace")


def histogram_json(histogram: Histogram) -> Dict[str, Any]:
    def whole(percent: float) -> Optional[int]:
        value = percentile(histogram, percent)
        return None if value is None else round(value)

    return {"count": sum(histogram), "p50_ns": whole(50), "p99_ns": whole(99)}


def rate_json(rate: Optional[int]) -> Any:
    return "unlimited" if rate is None else rate


def rounded(value: Optional[float]) -> Optional[float]:
    return None if value is None else round(value, 3)


def counters_json(change: Change) -> Dict[str, Any]:
    """What a shaper and a class have."""
    names = "bytes packets drops overlimits requeues backlog qlen".split()
    return {
        "sent_rate": rounded(change.sent_rate),
        "drop_rate": rounded(change.drop_rate),
        "mark_rate": rounded(change.mark_rate),
        **{name: getattr(change.shaper, name) for name in names},
        **change.shaper.xstats,
        "delay": histogram_json(change.delay),
        "throttle": histogram_json(change.throttle),
        "outside": histogram_json(change.outside),
    }


def change_json(change: Change) -> Dict[str, Any]:
    shaper = change.shaper
    return {
        "device": unicode_text(shaper.device),
        "handle": shaper.handle,
        "parent": shaper.parent,
        "rate": rate_json(shaper.rate),
        **counters_json(change),
        "lateness": histogram_json(change.lateness),
    }


def leaf_json(change: Change) -> Dict[str, Any]:
    leaf = change.shaper
    return {
        "device": unicode_text(leaf.device),
        "classid": leaf.classid,
        "parent": leaf.parent,
        "floor": leaf.floor,
        "ceil": rate_json(leaf.ceil),
        "weight": leaf.weight,
        "prio": leaf.prio,
        **counters_json(change),
    }


def socket_json(view: View, flow: Flow) -> Dict[str, Any]:
    sock = view.sockets[flow.cookie]
    peer, peer_port = flow_peer(flow, sock)
    return {
        **vars(flow),
        **vars(sock),
        "peer": peer,
        "peer_port": peer_port,
        "sent_rate": rounded(view.rates.get(flow.cookie)),
        "device": unicode_text(flow.device),
        "processes": [vars(process) for process in sock.processes],
    }


def flow_json(view: View, flow: Flow) -> Dict[str, Any]:
    found = socket_json(view, flow)
    del found["flows"]
    return found


def view_json(view: View, netns: Optional[str]) -> Dict[str, Any]:
    return {
        "interval_s": round(view.seconds, 6),
        "netns": netns and unicode_text(netns),
        "shapers": [change_json(change) for change in view.changes],
        "classes": [leaf_json(change) for change in view.leaves],
        "sockets": [
            socket_json(view, flow)
            for flow in flows_sort(view, "b", is_folded=True)
        ],
        "flows": [flow_json(view, flow) for flow in flows_sort(view, "b")],
        "unheld_taps": [
            {
                "device": unicode_text(tap.device),
                "pid": tap.pid,
                "process": unicode_text(tap.process),
                "vhost": tap.vhost,
            }
            for tap in view.taps
        ],
    }
