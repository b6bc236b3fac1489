# SPDX-License-Identifier: GPL-2.0-only
"""Part containers: limits of pods."""

from goals import goals_table
from overload import MACHINE
from results import number, over, select, value
from tables import tables_of

LIMITERS = ("none", "bandwidth", "edt", "bpshaper-pod", "bpshaper-host", "bpshaper-node")
NODE_LIMITERS = ("bpshaper-pod", "bpshaper-node-1", "bpshaper-node-4")
# Of a packet: UDP over IPv4 with the header of Ethernet.
WIRE_BYTES = 1512


def of_udp(column):
    return lambda row: None if row["case"] == "tcp" else column(row)


def goodput(row):
    tcp = row["case"] == "tcp"
    return number(row, "tcp_goodput_mbit_per_s" if tcp else "udp_wire_goodput_mbit_per_s")


def first_second(row):
    """What arrives in the first second, of the rate of 10 Mbit/s."""
    return number(row, "udp_received_packets") * WIRE_BYTES / 1.25e6


PROBE_P99 = ("probe p99 ms", value("probe_delay_p99_ms"), 2)
TRAFFIC = [
    ("lost %", of_udp(value("udp_loss_percent")), 2),
    ("goodput Mbit/s", goodput, 1),
    ("probe p50 ms", value("probe_delay_p50_ms"), 2),
    PROBE_P99,
    (MACHINE[0], of_udp(MACHINE[1]), 1),
]
LOST, PROBE = TRAFFIC[0][1], TRAFFIC[3][1]
BURST = [("first second / rate", first_second, 2)]
NODES = [
    ("of the rate", value("sent_of_rate"), 3),
    ("Jain of pods", value("pods_jain"), 4),
    ("lost", value("lost_packets"), 0),
    PROBE_P99,
    ("machine us/packet", value("busy_us_per_packet"), 1),
]
ADD = [
    (f"{name} p{p} ms", value(f"{key}_p{p}_ms"), 2)
    for name, key in (("plugin", "add"), ("chain", "chain"))
    for p in (50, 99)
]


def of_cases(*cases):
    return {"part": "containers", "case": cases}


def worst_of(rows, cases, column):
    """Of bpshaper at each of its places; infinite if a figure lacks."""
    found = select(rows, **of_cases(*cases))
    values = [(column(r), r["shaper"]) for r in found if r["shaper"].startswith("bpshaper")]
    return max(((float("inf") if v is None else v, s) for v, s in values), default=None)


def containers_goals(rows):
    """Name, bound, digits, and the worst place of bpshaper."""
    yield "UDP lost, %", 0, 2, worst_of(rows, ("udp", "pods"), LOST)
    yield "probe p99, ms", 1, 2, worst_of(rows, ("udp", "tcp"), PROBE)
    yield "first second / rate", 1.1, 2, worst_of(rows, ("burst",), first_second)
    for rival in select(rows, shaper="bandwidth", **of_cases("add")):
        for name, p99 in (("plugin", ADD[1][1]), ("chain", ADD[3][1])):
            slower = worst_of(rows, ("add",), lambda row: over(p99(row), p99(rival)))
            yield f"ADD p99 / bandwidth's, the {name}", 1, 3, slower


def blocks(rows):
    keys = ("case", "senders", "sndbuf")
    return {"containers-goals": goals_table(containers_goals(rows))} | tables_of(
        rows,
        ("containers", of_cases("pods", "tcp", "udp"), keys, TRAFFIC, LIMITERS),
        ("containers-burst", of_cases("burst"), (), BURST, LIMITERS),
        ("containers-nodes", of_cases("nodes"), ("pods", "rate"), NODES, NODE_LIMITERS),
        ("containers-add", of_cases("add"), (), ADD, LIMITERS),
    )
