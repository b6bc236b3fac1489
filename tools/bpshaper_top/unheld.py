# SPDX-License-Identifier: GPL-2.0-only
"""Why the packets that a shaper drops could not be held."""

from __future__ import annotations

import os
from typing import List

from .sample import Change

WHAT = {
    "no_owner": "has no owner",
    "foreign": "is of sockets of a foreign user namespace",
    "sndbuf": "is of sockets with a send buffer above 256 MiB",
    "control": "is of the kernel's own sockets",
    "destructor": "is of sockets that do not charge the send buffer",
}
CALLS = "iptables", "ip6tables", "arptables"


def is_set(path: str) -> bool:
    try:
        with open(path) as file:
            return file.read().strip() == "1"
    except OSError:
        return False


def bridge_takes_owners(device: str) -> bool:
    """Does br_netfilter take the owner of what a bridge forwards to @device?"""
    port = "/sys/class/net/%s/brport" % device
    return os.path.exists(port) and any(
        is_set("/proc/sys/net/bridge/bridge-nf-call-" + call)
        or is_set("%s/bridge/bridge/nf_call_%s" % (port, call))
        for call in CALLS
    )


def owner_taker(device: str) -> str:
    """What is likely to take packets from their sockets before @device."""
    if bridge_takes_owners(device):
        return "br_netfilter is on and %s is a bridge port" % device
    if is_set("/proc/sys/net/ipv4/ip_forward") or is_set(
        "/proc/sys/net/ipv6/conf/all/forwarding"
    ):
        return "this host routes"
    return "see limits.rst"


def advice(change: Change, has_sys: bool) -> str:
    """A line about the drops of a shaper since the sample before, or nothing.
    @has_sys: /sys has its devices. Of the drops of the pool, each reason has
    the part that it has of the packets that came into the pool.
    """
    more = {
        name: value - change.past[name]
        for name, value in change.shaper.xstats.items()
        if name in change.past
    }
    drops = sum(n for name, n in more.items() if name.startswith("drops_"))
    unheld = {reason: more.get("unheld_" + reason, 0) for reason in WHAT}
    reason = max(unheld, key=lambda one: unheld[one])
    if not unheld[reason] or not more["drops_pool"]:
        return ""
    part = more["drops_pool"] * unheld[reason] / sum(unheld.values()) / drops
    device = change.shaper.device
    text = "%s: %.0f %% of what it drops %s" % (
        device,
        100 * part,
        WHAT[reason],
    )
    if reason == "no_owner" and has_sys:
        text += ": " + owner_taker(device)
    return text


def advice_all(changes: List[Change], has_sys: bool) -> List[str]:
    return [line for line in (advice(c, has_sys) for c in changes) if line]
