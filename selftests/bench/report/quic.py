# SPDX-License-Identifier: GPL-2.0-only
"""Part quic: connections of three stacks that send all they can."""

from results import DEFAULTS, value
from tables import tables_of

SHAPER = [
    ("dropped", value("drops"), 0),
    ("marked %", value("marked_percent"), 2),
    ("CPU %", value("busy_percent"), 1),
]
QUIC = [
    ("goodput Mbit/s", value("mbit_per_s"), 2),
    ("Jain", value("jain"), 4),
    ("srtt p50 ms", value("srtt_p50_ms"), 1),
    ("srtt most", value("srtt_max_ms"), 1),
    ("request p50 ms", value("request_p50_ms"), 1),
    ("request p99 ms", value("request_p99_ms"), 1),
    *SHAPER,
]

# The tables of each stack: keys and columns.
STACKS = {
    "quic-go": (
        ("case", "connections"),
        [
            QUIC[0],
            ("of the greedy one", value("greedy_mbit_per_s"), 2),
            *QUIC[1:],
        ],
    ),
    "quinn": (
        ("cc", "case", "connections"),
        [*QUIC, ("lost", value("lost_packets"), 0)],
    ),
    "ngtcp2": (("cc", "connections"), QUIC[:4] + SHAPER),
}


def quic_blocks(rows, series):
    """STACK-RATE, by name."""
    blocks = {}
    for rate in ("5mbit", "20mbit", "200mbit"):
        for stack, (keys, columns) in STACKS.items():
            here = [
                r
                for r in rows
                if r.get("rate") == rate
                and r.get("stack", DEFAULTS["stack"]) == stack
            ]
            blocks[f"{stack}-{rate}-{series}"] = tables_of(
                here, "quic", keys, columns
            )
    return blocks
