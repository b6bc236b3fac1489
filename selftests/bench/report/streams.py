# SPDX-License-Identifier: GPL-2.0-only
"""Parts tcp and idle."""

from results import number, select, value
from tables import table, tables_of, text

TCP = [
    ("goodput Mbit/s", value("tcp_goodput_mbit_per_s"), 1),
    ("UDP Mbit/s", value("udp_payload_goodput_mbit_per_s"), 1),
    ("retransmits", value("tcp_retransmitted_segments"), 0),
    ("srtt mean ms", value("tcp_srtt_mean_ms"), 2),
    ("probe p99 ms", value("probe_delay_p99_ms"), 2),
    ("CPU ms", value("tcp_sender_cpu_ms"), 0),
]

STREAMS = ("rate", "cc", "flows", "udp", "tso_rtt_log")


def idle_cost(rows):
    """Instructions of a packet beyond those without a qdisc, by qdisc."""
    cost = {r["shaper"]: number(r, "instructions_per_packet") for r in select(rows, part="idle")}
    none = cost.pop("noqueue", None)
    return {} if none is None else {k: v - none for k, v in cost.items()}


def idle_table(rows):
    net = idle_cost(rows)
    lines = [
        [k, text(v, 0), text(v / net["tbf"], 2), text(v / net["fq"], 2)]
        for k, v in sorted(net.items(), key=lambda i: i[1])
    ]
    return table(["qdisc", "instructions/packet", "of tbf", "of fq"], lines)


def blocks(rows):
    return {"idle": idle_table(rows)} | tables_of(rows, ("tcp", {"part": "tcp"}, STREAMS, TCP))
