# SPDX-License-Identifier: GPL-2.0-only
"""Part containers: limits of pods."""

from goals import goals_table
from overload import MACHINE
from results import number, over, value
from tables import table_of

LIMITERS = (
    "none",
    "bandwidth",
    "edt",
    "bpshaper-pod",
    "bpshaper-host",
    "bpshaper-node",
)
# Of a packet: UDP over IPv4 with the header of Ethernet.
WIRE_BYTES = 1512


def of_udp(column):
    return lambda row: None if row["case"] == "tcp" else column(row)


def goodput(row):
    if row["case"] == "tcp":
        return number(row, "tcp_goodput_mbit_per_s")
    return number(row, "udp_wire_goodput_mbit_per_s")


def first_second(row):
    """What arrives in the first second, of the rate of 10 Mbit/s."""
    return number(row, "udp_received_packets") * WIRE_BYTES / 1.25e6


TRAFFIC = [
    ("lost %", of_udp(value("udp_loss_percent")), 2),
    ("goodput Mbit/s", goodput, 1),
    ("probe p50 ms", value("probe_delay_p50_ms"), 2),
    ("probe p99 ms", value("probe_delay_p99_ms"), 2),
    (MACHINE[0], of_udp(MACHINE[1]), 1),
]
BURST = [("first second / rate", first_second, 2)]
ADD = [
    (f"{name} p{p} ms", value(f"{key}_p{p}_ms"), 2)
    for name, key in (("plugin", "add"), ("chain", "chain"))
    for p in (50, 99)
]


def of_cases(rows, cases):
    return [
        r for r in rows if r["part"] == "containers" and r.get("case") in cases
    ]


def worst_of(rows, column):
    """Of bpshaper at each of its places; infinite if a figure lacks."""
    return max(
        (
            (float("inf") if column(r) is None else column(r), r["shaper"])
            for r in rows
            if r["shaper"].startswith("bpshaper")
        ),
        default=None,
    )


def containers_goals(rows):
    """Name, bound, digits, and the worst place of bpshaper."""
    adds = of_cases(rows, ["add"])
    of = {r["shaper"]: r for r in adds}.get("bandwidth", {})
    goals = [
        ("UDP lost, %", 0, 2, of_cases(rows, ["udp", "pods"]), TRAFFIC[0][1]),
        ("probe p99, ms", 1, 2, of_cases(rows, ["udp", "tcp"]), TRAFFIC[3][1]),
        ("first second / rate", 1.1, 2, of_cases(rows, ["burst"]), first_second),
    ] + [
        (
            f"ADD p99 / bandwidth's, the {key}",
            1,
            3,
            adds if of else [],
            lambda row, p99=p99: over(p99(row), p99(of)),
        )
        for key, p99 in (("plugin", ADD[1][1]), ("chain", ADD[3][1]))
    ]
    return [(*g[:3], worst_of(*g[3:])) for g in goals]


def containers_blocks(rows, series):
    return {
        f"containers-goals-{series}": goals_table(containers_goals(rows)),
    } | {
        f"{name}-{series}": table_of(of_cases(rows, cases), keys, columns, LIMITERS)
        for name, cases, keys, columns in (
            ("containers", ["pods", "tcp", "udp"], ("case", "senders", "sndbuf"),
             TRAFFIC),
            ("containers-burst", ["burst"], (), BURST),
            ("containers-add", ["add"], (), ADD),
        )
    }
