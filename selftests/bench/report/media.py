# SPDX-License-Identifier: GPL-2.0-only
"""Part media: calls beside bulk of QUIC, and a tunnel."""

from quic import SHAPER
from results import value
from tables import tables_of

CALLS = [
    ("goodput Mbit/s", value("mbit_per_s"), 2),
    ("srtt p50 ms", value("srtt_p50_ms"), 1),
    ("call Mbit/s", value("media_mbit_per_s"), 2),
    ("call lost %", value("lost_percent"), 2),
    ("call p50 ms", value("delay_p50_ms"), 1),
    ("call p99 ms", value("delay_p99_ms"), 1),
]
WIREGUARD = [
    ("goodput Mbit/s", value("goodput_mbit_per_s"), 2),
    ("retransmitted", value("retransmitted_segments"), 0),
    ("srtt mean ms", value("srtt_mean_ms"), 1),
]


def media_blocks(rows, series):
    """Tables of each rate."""
    return {
        f"{name}-{rate}-{series}": tables_of(
            [r for r in rows if (r.get("rate"), r.get("case")) in
             [(rate, case) for case in cases]],
            "media", ("case",), columns + SHAPER,
        )
        for rate in {r["rate"] for r in rows if r["part"] == "media"}
        for name, cases, columns in (
            ("calls", ("call", "adaptive"), CALLS),
            ("wireguard", ("wireguard",), WIREGUARD),
        )
    }
