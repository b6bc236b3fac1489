# SPDX-License-Identifier: GPL-2.0-only
"""Parts tcp, requests and idle."""

from results import MBIT, RIVALS, number, value
from tables import table, text

TCP = [
    ("goodput Mbit/s", value("tcp_goodput_mbit_per_s"), 1),
    ("UDP Mbit/s", value("udp_payload_goodput_mbit_per_s"), 1),
    ("retransmits", value("tcp_retransmitted_segments"), 0),
    ("srtt mean ms", value("tcp_srtt_mean_ms"), 2),
    ("probe p99 ms", value("probe_delay_p99_ms"), 2),
    ("CPU ms", value("tcp_sender_cpu_ms"), 0),
]

STREAMS = ("rate", "cc", "flows", "udp", "tso_rtt_log")


def requests_table(rows):
    lines = [
        [r["rate"], r["shaper"], text(number(r, "request_us"), 0)]
        for r in sorted(
            (r for r in rows if r["part"] == "requests"),
            key=lambda r: (MBIT[r["rate"]], RIVALS.index(r["shaper"])),
        )
    ]
    return table(["rate", "shaper", "request us"], lines) if lines else ""


def idle_table(rows):
    cost = {
        r["shaper"]: number(r, "instructions_per_packet")
        for r in rows
        if r["part"] == "idle"
    }
    if "noqueue" not in cost:
        return ""
    net = {k: v - cost["noqueue"] for k, v in cost.items() if k != "noqueue"}
    lines = [
        [k, text(v, 0), text(v / net["tbf"], 2), text(v / net["fq"], 2)]
        for k, v in sorted(net.items(), key=lambda i: i[1])
    ]
    return table(["qdisc", "instructions/packet", "of tbf", "of fq"], lines)
