# SPDX-License-Identifier: GPL-2.0-only
"""Goals, and the worst cell of each."""

from overload import AGE, CPU, LIMIT_MS, LOSS, PROBE, SWITCHES, TIMERS
from results import MBIT, RIVALS, groups, number, over, value
from streams import STREAMS, TCP, idle_cost
from tables import table, text

# What tells cells of part overload apart.
CELLS = ("rate", "sndbuf", "senders")

WIRE_BYTES = 1512
PROBE_WIRE_BYTES = 114


def worst(cells, ratio, name):
    """The largest ratio, and the cell that has it."""
    found = [
        (ratio(cell), key)
        for key, cell in cells.items()
        if ratio(cell) is not None
    ]
    if not found:
        return None
    value, key = max(found)
    return value, ", ".join(f"{k} {v}" for k, v in zip(name, key))


def rivals_of(cell, column):
    return [
        v
        for k, r in cell.items()
        if k in RIVALS[1:] and (v := column(r)) is not None
    ]


def of_best(column, pick):
    """bpshaper's value divided by the best rival's."""

    def ratio(cell):
        values = rivals_of(cell, column)
        return over(column(cell["bpshaper"]), pick(values)) if values else None

    return ratio


def against(column, rival):
    """bpshaper's value divided by that rival's."""

    def ratio(cell):
        if rival not in cell:
            return None
        return over(column(cell["bpshaper"]), column(cell[rival]))

    return ratio


def age_of_goal(cell):
    """Own age p99 divided by 1.5 x limit / rate + the least share: sixteen packets,
    half of the limit at most.
    """
    rate = cell["key"][0]
    share_ms = min(16 * WIRE_BYTES * 8 / MBIT[rate] / 1000, LIMIT_MS[rate] / 2)
    return over(AGE(cell["bpshaper"]), 1.5 * LIMIT_MS[rate] + share_ms)


def link_use(row):
    """Mbit/s of the senders and the probe. A shaper that loses packets of the
    probe has more left for the senders.
    """
    probe = number(row, "probe_received_packets") * PROBE_WIRE_BYTES * 8 / 1e6
    probe /= number(row, "sending_seconds")
    return number(row, "udp_wire_goodput_mbit_per_s") + probe


def growth_goal(rows):
    cost = {int(r["senders"]): CPU(r) for r in rows if r["part"] == "growth"}
    if len(cost) < 2:
        return None
    few, many = min(cost), max(cost)
    return cost[many] / cost[few], f"{many} sockets, {few}"


def idle_goal(rows, rival):
    net = idle_cost(rows)
    return (net["bpshaper"] / net[rival], "net of noqueue") if net else None


def own(column):
    return lambda cell: column(cell["bpshaper"])


def inverse(ratio):
    return lambda cell: over(1, ratio(cell))


def cells_of(rows, part, keys):
    """Cells of a part that bpshaper was measured in."""
    found = groups(rows, part, keys)
    return {k: dict(c, key=k) for k, c in found.items() if "bpshaper" in c}


def verdict(value, bound):
    return "met" if value <= bound else "missed"


def overload_goals(rows):
    """Name, bound, digits, and what was measured."""
    cells = cells_of(rows, "overload", CELLS)
    goals = [
        ("packets of UDP sockets lost, %", 0, 2, own(LOSS)),
        (
            "best rival's use of the link, UDP / ours",
            1 / 0.999,
            4,
            inverse(of_best(link_use, max)),
        ),
        ("own age p99 / (1.5 limit/rate + a share)", 1, 2, age_of_goal),
        ("probe p99, ms", 0.2, 2, own(PROBE)),
        ("probe p99 / best rival's", 1, 2, of_best(PROBE, min)),
        ("sender CPU / tbf's", 0.2, 3, against(CPU, "tbf")),
        ("sender CPU / best rival's", 1, 3, of_best(CPU, min)),
        ("timer interrupts / tbf's", 1 / 6, 3, against(TIMERS, "tbf")),
        ("context switches / tbf + fq's", 0.25, 2, against(SWITCHES, "tbf+fq")),
    ]
    return [(*goal[:3], worst(cells, goal[3], CELLS)) for goal in goals]


def stream_goals(rows):
    cells = cells_of(rows, "tcp", STREAMS)
    alone = {k: c for k, c in cells.items() if k[STREAMS.index("udp")] == "0"}
    goodput = inverse(of_best(TCP[0][1], max))
    return [
        (
            "packets dropped in cells of TCP",
            0,
            0,
            worst(cells, own(value("qdisc_drops")), STREAMS),
        ),
        (
            "best rival's TCP goodput / ours",
            1 / 0.999,
            4,
            worst(alone, goodput, STREAMS),
        ),
    ]


def goals_of(rows):
    udp, tcp = overload_goals(rows), stream_goals(rows)
    return [
        udp[0],
        tcp[0],
        udp[1],
        tcp[1],
        *udp[2:],
        ("idle path, instructions / tbf's", 0.9, 3, idle_goal(rows, "tbf")),
        ("idle path, instructions / fq's", 0.4, 3, idle_goal(rows, "fq")),
        ("CPU per packet, most sockets / fewest", 1.5, 2, growth_goal(rows)),
    ]


def goals_table(goals):
    """Of a name, a bound, digits, the worst value and where it was measured."""
    lines = [
        [name, text(bound, digits), text(found[0], digits),
         verdict(found[0], bound), found[1]]
        for name, bound, digits, found in goals
        if found
    ]
    return table(["goal", "at most", "worst", "", "where"], lines)
