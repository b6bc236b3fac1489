# SPDX-License-Identifier: GPL-2.0-only
"""Part containers: limits of pods."""

from results import groups, number
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


def burst_table(rows):
    """What arrives in the first second, by who limits."""
    found = {
        r["shaper"]: number(r, "udp_received_packets") * WIRE_BYTES / 1.25e6
        for r in rows
        if r["part"] == "containers" and r.get("case") == "burst"
    }
    return table(
        ["limited by", "first second / rate"],
        [[r, text(found[r], 2)] for r in RIVALS if r in found],
    )


def adds_table(rows):
    """How long ADD takes, by who limits."""
    found = {
        r["shaper"]: r
        for r in rows
        if r["part"] == "containers" and r.get("case") == "add"
    }
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
