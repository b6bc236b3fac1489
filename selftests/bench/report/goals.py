# SPDX-License-Identifier: GPL-2.0-only
"""Goals, and the worst cell of each."""

from overload import AGE, CPU, LIMIT_MS, LOSS, PROBE, SWITCHES, TIMERS
from results import MBIT, RIVALS, groups, number, over, select, value
from streams import STREAMS, TCP, idle_cost
from tables import table, text

# What tells cells of part overload apart.
CELLS = ("rate", "sndbuf", "senders")

WIRE_BYTES = 1512
PROBE_WIRE_BYTES = 114


def worst(cells, ratio, names):
    """The largest ratio, and the cell that has it."""
    found = [(v, key) for key, cell in cells.items() if (v := ratio(cell)) is not None]
    if not found:
        return None
    value, key = max(found)
    return value, ", ".join(f"{k} {v}" for k, v in zip(names, key))


def goal(name, bound, digits, cells, ratio, names):
    return name, bound, digits, worst(cells, ratio, names)


def own(column):
    return lambda cell: column(cell["bpshaper"])


def of_best(column, pick):
    """bpshaper's value divided by the best rival's."""

    def ratio(cell):
        values = [v for k, r in cell.items() if k in RIVALS[1:] and (v := column(r)) is not None]
        return over(column(cell["bpshaper"]), pick(values)) if values else None

    return ratio


def against(column, rival):
    """bpshaper's value divided by that rival's."""

    def ratio(cell):
        return over(column(cell["bpshaper"]), column(cell[rival])) if rival in cell else None

    return ratio


def inverse(ratio):
    return lambda cell: over(1, ratio(cell))


def cells_of(rows, part, keys):
    """Cells of a part that bpshaper was measured in."""
    found = groups(rows, part, keys)
    return {k: dict(c, key=k) for k, c in found.items() if "bpshaper" in c}


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
    cost = {int(r["senders"]): CPU(r) for r in select(rows, part="growth")}
    if len(cost) < 2:
        return None
    few, many = min(cost), max(cost)
    return cost[many] / cost[few], f"{many} sockets, {few}"


def idle_goal(rows, rival):
    net = idle_cost(rows)
    return (net["bpshaper"] / net[rival], "net of noqueue") if net else None


def goals_of(rows):
    """Name, bound, digits, and what was measured."""
    udp = cells_of(rows, "overload", CELLS)
    tcp = cells_of(rows, "tcp", STREAMS)
    alone = {k: c for k, c in tcp.items() if k[STREAMS.index("udp")] == "0"}
    link, goodput = inverse(of_best(link_use, max)), inverse(of_best(TCP[0][1], max))
    return [
        goal("packets of UDP sockets lost, %", 0, 2, udp, own(LOSS), CELLS),
        goal("packets dropped in cells of TCP", 0, 0, tcp, own(value("qdisc_drops")), STREAMS),
        goal("best rival's use of the link, UDP / ours", 1 / 0.999, 4, udp, link, CELLS),
        goal("best rival's TCP goodput / ours", 1 / 0.999, 4, alone, goodput, STREAMS),
        goal("own age p99 / (1.5 limit/rate + a share)", 1, 2, udp, age_of_goal, CELLS),
        goal("probe p99, ms", 0.2, 2, udp, own(PROBE), CELLS),
        goal("probe p99 / best rival's", 1, 2, udp, of_best(PROBE, min), CELLS),
        goal("sender CPU / tbf's", 0.2, 3, udp, against(CPU, "tbf"), CELLS),
        goal("sender CPU / best rival's", 1, 3, udp, of_best(CPU, min), CELLS),
        goal("timer interrupts / tbf's", 1 / 6, 3, udp, against(TIMERS, "tbf"), CELLS),
        goal("context switches / tbf + fq's", 0.25, 2, udp, against(SWITCHES, "tbf+fq"), CELLS),
        ("idle path, instructions / tbf's", 0.9, 3, idle_goal(rows, "tbf")),
        ("idle path, instructions / fq's", 0.4, 3, idle_goal(rows, "fq")),
        ("CPU per packet, most sockets / fewest", 1.5, 2, growth_goal(rows)),
    ]


def goals_table(goals):
    """Of a name, a bound, digits, the worst value and where it was measured."""
    lines = [
        [name, text(bound, digits), text(found[0], digits),
         "met" if found[0] <= bound else "missed", found[1]]
        for name, bound, digits, found in goals
        if found
    ]
    return table(["goal", "at most", "worst", "", "where"], lines)
