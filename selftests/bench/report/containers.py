# SPDX-License-Identifier: GPL-2.0-only
"""Part containers: limits of pods."""

from goals import verdict
from results import groups, number, over
from tables import in_order, table, text

RIVALS = (
    "none",
    "bandwidth",
    "edt",
    "bpshaper-pod",
    "bpshaper-host",
    "bpshaper-node",
)
# Of a packet: UDP over IPv4 with the header of Ethernet.
WIRE_BYTES = 1512


def cpu_us(row):
    """Of the whole machine for a packet that arrived, senders included."""
    packets = number(row, "udp_received_packets")
    busy = number(row, "system_busy_ms")
    return busy * 1e3 / packets if packets and busy is not None else None


def goodput(row):
    if row["case"] == "tcp":
        return number(row, "tcp_goodput_mbit_per_s")
    return number(row, "udp_wire_goodput_mbit_per_s")


def line(key, rival, row):
    udp = row["case"] != "tcp"
    return list(key) + [
        rival,
        text(number(row, "udp_loss_percent") if udp else None, 2),
        text(goodput(row), 1),
        text(number(row, "probe_delay_p50_ms"), 2),
        text(number(row, "probe_delay_p99_ms"), 2),
        text(cpu_us(row) if udp else None, 1),
    ]


def containers_table(rows):
    """A line for each way to limit a pod in each case that has traffic for
    longer than the burst.
    """
    cells = groups(
        [r for r in rows if r.get("case") not in ("burst", "add")],
        "containers",
        ("case", "senders", "sndbuf"),
    )
    return table(
        [
            "case",
            "senders",
            "sndbuf",
            "limited by",
            "lost %",
            "Mbit/s",
            "probe p50 ms",
            "p99 ms",
            "CPU us/packet",
        ],
        [
            line(key, rival, cell[rival])
            for key, cell in sorted(
                cells.items(), key=lambda i: in_order(i[0])
            )
            for rival in RIVALS
            if rival in cell
        ],
    )


def of_case(rows, case):
    """The rows of a case that has one cell, by who limits."""
    return {
        r["shaper"]: r
        for r in rows
        if r["part"] == "containers" and r.get("case") == case
    }


def first_second(row):
    """What arrives in the first second, of the rate of 10 Mbit/s."""
    return number(row, "udp_received_packets") * WIRE_BYTES / 1.25e6


def burst_table(rows):
    found = of_case(rows, "burst")
    return table(
        ["limited by", "first second / rate"],
        [[r, text(first_second(found[r]), 2)] for r in RIVALS if r in found],
    )


def adds_table(rows):
    """How long ADD takes, by who limits."""
    found = of_case(rows, "add")
    keys = [f"{w}_p{p}_ms" for w in ("add", "chain") for p in (50, 99)]
    return table(
        [
            "limited by",
            "plugin p50 ms",
            "p99 ms",
            "chain p50 ms",
            "p99 ms",
        ],
        [
            [r] + [text(number(found[r], key), 2) for key in keys]
            for r in RIVALS
            if r in found
        ],
    )


def worst_of(rows, cases, key):
    """By who limits; None if one of the cases has no figure."""
    figures = {}
    for row in rows:
        if row["part"] == "containers" and row.get("case") in cases:
            figures.setdefault(row["shaper"], []).append(number(row, key))
    return {
        name: None if None in found else max(found) for name, found in figures.items()
    }


def containers_goals(rows):
    """Name, bound, digits, and what was measured, by who limits."""
    adds, bursts = of_case(rows, "add"), of_case(rows, "burst")
    return [
        (
            "UDP lost, % at worst",
            0,
            2,
            worst_of(rows, ("udp", "pods"), "udp_loss_percent"),
        ),
        (
            "probe p99 ms under load at worst",
            1,
            2,
            worst_of(rows, ("udp", "tcp"), "probe_delay_p99_ms"),
        ),
        (
            "first second / rate",
            1.1,
            2,
            {name: first_second(row) for name, row in bursts.items()},
        ),
    ] + [
        (
            f"ADD p99 / bandwidth's, {words}",
            1,
            3,
            {
                name: over(number(row, key), number(adds["bandwidth"], key))
                for name, row in adds.items()
                if "bandwidth" in adds
            },
        )
        for words, key in (
            ("the plugin", "add_p99_ms"),
            ("the chain", "chain_p99_ms"),
        )
    ]


def containers_goals_table(rows):
    """A goal of which a figure lacks is not met."""
    names = [r for r in RIVALS if r.startswith("bpshaper")]
    lines = []
    for name, bound, digits, by_name in containers_goals(rows):
        found = [by_name.get(n) for n in names]
        if any(n in by_name for n in names):
            lines.append(
                [name, text(bound, 2)]
                + [text(value, digits) for value in found]
                + ["missed" if None in found else verdict(max(found), bound)]
            )
    return table(["goal", "at most"] + names + [""], lines)
