# SPDX-License-Identifier: GPL-2.0-only
"""Part classes: tenants, each in a class."""

from goals import against, cells_of, goal, goals_table, own
from overload import CPU, MACHINE, OVERLOAD, PROBE, THROTTLES, TIMERS
from results import number, over, select, value
from tables import tables_of

KEYS = ("case", "classes", "sndbuf")
SHARE_KEYS = ("case", "sndbuf")
FEW, MANY = ("equal", "alone", "tcp", "bbr"), ("sockets", "some")

CLASSES = [*OVERLOAD, MACHINE, ("TCP Mbit/s", value("tcp_goodput_mbit_per_s"), 1)]

MANY_COLUMNS = [
    ("sockets", value("udp_senders"), 0),
    *(c for c in OVERLOAD if c[0] != "age p50 ms"),
    THROTTLES,
    ("made in ms", value("made_ms"), 0),
]

SHARES = [
    ("lost", value("lost_packets"), 0),
    ("kept %", value("kept_percent"), 2),
    ("used %", value("used_percent"), 2),
    ("off by %", value("off_percent"), 2),
    ("start ms", value("start_ms"), 2),
    ("stop ms", value("stop_ms"), 2),
    ("gone ms", value("gone_ms"), 2),
]

SETTLE_MS = 10


def missed(cell):
    """What bpshaper has not kept of 100 %."""
    kept = number(cell["bpshaper"], "kept_percent")
    return None if kept is None else max(0, 100 - kept)


def sockets_goal(rows):
    """CPU per packet of most classes, divided by that of fewest."""
    found = select(rows, part="classes", case="sockets", shaper="bpshaper")
    cost = {int(r["classes"]): CPU(r) for r in found}
    if len(cost) < 2:
        return None
    few, many = min(cost), max(cost)
    return over(cost[many], cost[few]), f"{many} classes, {10 * many} sockets; {few}, {10 * few}"


def is_overload(cell):
    """Does htb+fq_codel lose packets there?"""
    rival = cell.get("htb+fq_codel")
    return rival and (number(rival, "udp_loss_percent") or 0) > 1


def class_goals(rows):
    """Name, bound, digits, and what was measured."""
    cells = cells_of(rows, "classes", KEYS)
    shares = cells_of(rows, "shares", SHARE_KEYS)
    overload = {k: c for k, c in cells.items() if is_overload(c)}
    floor, one = ({k: c for k, c in shares.items() if k[0] == case} for case in ("floor", "one"))
    udp = [
        ("packets of UDP sockets lost", 0, 0, cells, own(value("udp_lost_packets"))),
        ("probe p99, ms", 0.1, 3, cells, own(PROBE)),
        ("sender CPU / htb+pfifo's", 0.9, 3, cells, against(CPU, "htb+pfifo")),
        ("sender CPU / htb+fq_codel's, where that loses", 0.5, 3, overload,
         against(CPU, "htb+fq_codel")),
        ("timer interrupts / htb+pfifo's", 0.25, 3, cells, against(TIMERS, "htb+pfifo")),
    ]
    of_shares = [
        ("packets lost where shares are measured", 0, 0, shares, own(value("lost_packets"))),
        ("% of a floor that is missing", 2, 2, floor, missed),
        ("% of the parent that one class alone misses", 0.2, 2, one, missed),
        ("a class comes: ms until shares are right", SETTLE_MS, 2, shares, own(value("start_ms"))),
        ("a class goes: ms until shares are right", SETTLE_MS, 2, shares, own(value("stop_ms"))),
    ]
    udp, of_shares = [goal(*g, KEYS) for g in udp], [goal(*g, SHARE_KEYS) for g in of_shares]
    sockets = "CPU per packet, most classes and sockets / fewest", 1.3, 2, sockets_goal(rows)
    return [udp[0], of_shares[0], *udp[1:], sockets, *of_shares[1:]]


def blocks(rows):
    return {"classes-goals": goals_table(class_goals(rows))} | tables_of(
        rows,
        ("classes", {"part": "classes", "case": FEW}, KEYS, CLASSES),
        ("classes-many", {"part": "classes", "case": MANY}, KEYS[:2], MANY_COLUMNS),
        ("classes-shares", {"part": "shares"}, SHARE_KEYS, SHARES),
    )
