# SPDX-License-Identifier: GPL-2.0-only
"""Part quic: connections of quic-go that send all they can."""

from results import value

QUIC = [
    ("goodput Mbit/s", value("mbit_per_s"), 2),
    ("of the greedy one", value("greedy_mbit_per_s"), 2),
    ("Jain", value("jain"), 4),
    ("srtt p50 ms", value("srtt_p50_ms"), 1),
    ("most", value("srtt_max_ms"), 1),
    ("request p50 ms", value("request_p50_ms"), 1),
    ("p99", value("request_p99_ms"), 1),
    ("dropped", value("drops"), 0),
    ("marked %", value("marked_percent"), 2),
    ("CPU %", value("busy_percent"), 1),
]
