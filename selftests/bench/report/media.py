# SPDX-License-Identifier: GPL-2.0-only
"""Part media: calls beside bulk of QUIC, and a tunnel."""

from results import value
from tables import tables_of

SHAPER = [
    ("dropped", value("drops"), 0),
    ("marked %", value("marked_percent"), 2),
    ("CPU %", value("busy_percent"), 1),
]
CALLS = [
    ("bulk Mbit/s", value("mbit_per_s"), 2),
    ("srtt p50 ms", value("srtt_p50_ms"), 1),
    ("call Mbit/s", value("media_mbit_per_s"), 2),
    ("lost %", value("lost_percent"), 2),
    ("delay p50 ms", value("delay_p50_ms"), 1),
    ("p99", value("delay_p99_ms"), 1),
]
WIREGUARD = [
    ("goodput Mbit/s", value("goodput_mbit_per_s"), 2),
    ("retransmitted", value("retransmitted_segments"), 0),
    ("srtt mean ms", value("srtt_mean_ms"), 1),
]


def media_blocks(rows, series):
    """A block for each rate, with a table for each kind of case."""
    blocks = {}
    for rate in sorted({r["rate"] for r in rows if r["part"] == "media"}):
        tables = []
        for cases, columns in (
            (("call", "adaptive"), CALLS),
            (("wireguard",), WIREGUARD),
        ):
            cell = [
                r
                for r in rows
                if r.get("rate") == rate and r.get("case") in cases
            ]
            tables.append(tables_of(cell, "media", ("case",), columns + SHAPER))
        blocks[f"media-{rate}-{series}"] = "\n".join(t for t in tables if t)
    return blocks
