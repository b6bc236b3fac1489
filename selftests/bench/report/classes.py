# SPDX-License-Identifier: GPL-2.0-only
"""Part classes: tenants, each in a class."""

from goals import against, cells_of, goals_table, own, worst
from overload import CPU, MACHINE, OVERLOAD, PROBE, TIMERS, throttles
from results import number, over, value
from tables import tables_of

KEYS = ("case", "classes", "sndbuf")
MANY = ("sockets", "some")

CLASSES = [
    *OVERLOAD,
    MACHINE,
    ("TCP Mbit/s", value("tcp_goodput_mbit_per_s"), 1),
]

MANY_COLUMNS = [
    ("sockets", value("udp_senders"), 0),
    *(c for c in OVERLOAD if c[0] != "age p50 ms"),
    ("throttles/packet", throttles, 2),
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


def most_rows(rows, is_many):
    return [
        r
        for r in rows
        if r["part"] == "classes" and (r["case"] in MANY) == is_many
    ]


def missed(column):
    """What bpshaper has not kept of 100 %."""

    def ratio(cell):
        kept = column(cell["bpshaper"])
        return None if kept is None else max(0, 100 - kept)

    return ratio


def sockets_goal(rows):
    """CPU per packet of most classes, divided by that of fewest."""
    cost = {
        int(r["classes"]): CPU(r)
        for r in rows
        if r["part"] == "classes"
        and (r["case"], r["shaper"]) == ("sockets", "bpshaper")
    }
    if len(cost) < 2:
        return None
    few, many = min(cost), max(cost)
    name = f"{many} classes, {10 * many} sockets; {few}, {10 * few}"
    return over(cost[many], cost[few]), name


def is_overload(cell):
    """Does htb+fq_codel lose packets there?"""
    rival = cell.get("htb+fq_codel")
    return rival and (number(rival, "udp_loss_percent") or 0) > 1


def class_goals(rows):
    """Name, bound, digits, and what was measured."""
    cells = cells_of(rows, "classes", KEYS)
    shares = cells_of(rows, "shares", ("case", "sndbuf"))
    overload = {k: c for k, c in cells.items() if is_overload(c)}
    of = {k[0]: {} for k in shares}
    for key, cell in shares.items():
        of[key[0]][key] = cell
    names = ("case", "sndbuf")
    goals = [
        ("packets of UDP sockets lost", 0, 0, cells,
         own(value("udp_lost_packets")), KEYS),
        ("packets lost where shares are measured", 0, 0, shares, own(value("lost_packets")), names),
        ("probe p99, ms", 0.1, 3, cells, own(PROBE), KEYS),
        ("sender CPU / htb+pfifo's", 0.9, 3, cells,
         against(CPU, "htb+pfifo"), KEYS),
        ("sender CPU / htb+fq_codel's, where that loses", 0.5, 3, overload,
         against(CPU, "htb+fq_codel"), KEYS),
        ("timer interrupts / htb+pfifo's", 0.25, 3, cells,
         against(TIMERS, "htb+pfifo"), KEYS),
        ("% of a floor that is missing", 2, 2, of.get("floor", {}),
         missed(value("kept_percent")), names),
        ("% of the parent that one class alone misses", 0.2, 2,
         of.get("one", {}), missed(value("kept_percent")), names),
        ("a class comes: ms until shares are right", SETTLE_MS, 2, shares,
         own(value("start_ms")), names),
        ("a class goes: ms until shares are right", SETTLE_MS, 2, shares,
         own(value("stop_ms")), names),
    ]
    found = [(*g[:3], worst(g[3], g[4], g[5])) for g in goals]
    found.insert(6, ("CPU per packet, most classes and sockets / fewest", 1.3,
                     2, sockets_goal(rows)))
    return found


def class_blocks(rows, series):
    """The tables, by name."""
    return {
        f"classes-{series}": tables_of(
            most_rows(rows, False), "classes", KEYS, CLASSES
        ),
        f"classes-many-{series}": tables_of(
            most_rows(rows, True), "classes", ("case", "classes"), MANY_COLUMNS
        ),
        f"classes-shares-{series}": tables_of(
            rows, "shares", ("case", "sndbuf"), SHARES
        ),
        f"classes-goals-{series}": goals_table(class_goals(rows)),
    }
