# SPDX-License-Identifier: GPL-2.0-only
"""Parts quic and media: three stacks that send all they can; a call beside it; a tunnel."""

from results import value
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
QUIC_GO = [QUIC[0], ("of the greedy one", value("greedy_mbit_per_s"), 2), *QUIC[1:]]
QUINN = [*QUIC, ("lost", value("lost_packets"), 0)]
CALLS = [
    ("goodput Mbit/s", value("mbit_per_s"), 2),
    ("srtt p50 ms", value("srtt_p50_ms"), 1),
    ("call Mbit/s", value("media_mbit_per_s"), 2),
    ("call lost %", value("lost_percent"), 2),
    ("call p50 ms", value("delay_p50_ms"), 1),
    ("call p99 ms", value("delay_p99_ms"), 1),
    *SHAPER,
]
WIREGUARD = [
    ("goodput Mbit/s", value("goodput_mbit_per_s"), 2),
    ("retransmitted", value("retransmitted_segments"), 0),
    ("srtt mean ms", value("srtt_mean_ms"), 1),
    *SHAPER,
]
TABLES = (
    ("quic-go", {"part": "quic", "stack": ("quic-go", None)}, ("case", "connections"), QUIC_GO),
    ("quinn", {"part": "quic", "stack": "quinn"}, ("cc", "case", "connections"), QUINN),
    ("ngtcp2", {"part": "quic", "stack": "ngtcp2"}, ("cc", "connections"), QUIC[:4] + SHAPER),
    ("calls", {"part": "media", "case": ("call", "adaptive")}, ("case",), CALLS),
    ("wireguard", {"part": "media", "case": "wireguard"}, ("case",), WIREGUARD),
)


def blocks(rows):
    return tables_of(rows, *(
        (f"{name}-{rate}", wanted | {"rate": rate}, *how)
        for rate in ("5mbit", "20mbit", "200mbit")
        for name, wanted, *how in TABLES
    ))
