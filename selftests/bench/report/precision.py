# SPDX-License-Identifier: GPL-2.0-only
"""Part precision: rates and accounting."""

from results import number, select, value
from tables import table, table_of, text

# They have no burst. What they send at once is compared with one packet.
NO_BURST = ("cake", "fq")

PRECISE = ["bpshaper", "tbf", "htb", "cake", "fq"]


def rate_error(row):
    """In percent of the rate that was asked for."""
    return (number(row, "rate_Bps") * 8 / number(row, "bits") - 1) * 100


def precision_line(row):
    alone = row["shaper"] in NO_BURST
    line = [row["rate"], "-" if alone else row["burst"], row["shaper"]]
    if row.get("refused"):
        return line + ["-"] * 4 + ["refuses this rate"]
    if number(row, "drops") == 0 or rate_error(row) < -0.5:
        gbit = text(number(row, "rate_Bps") * 8e-9, 1)
        return line + ["-"] * 4 + [f"the CPU is the bound: {gbit} Gbit/s"]
    burst = number(row, "packet" if alone else "burst")
    excess = number(row, "max_level_bytes") - burst
    return line + [
        text(round(rate_error(row), 4) + 0, 4),
        text(max(0, excess), 0),
        text(number(row, "gap_deviation_stddev_ns") / 1e3, 1),
        text(number(row, "gap_deviation_p99_ns") / 1e3, 1),
        "",
    ]


def precision_table(rows):
    found = sorted(
        select(rows, part="precision", case="rate"),
        key=lambda r: (number(r, "bits"), PRECISE.index(r["shaper"]), number(r, "burst")),
    )
    heading = "rate|burst|shaper|rate error %|excess bytes|gap stddev us|gap p99 us|note"
    return table(heading.split("|"), [precision_line(r) for r in found])


def error_bytes(row):
    """What a packet is charged beyond its length on the wire. The rate on the
    wire is off by it.
    """
    asked, rate = number(row, "bits") / 8, number(row, "rate_Bps")
    return round(number(row, "packet_bytes_mean") * (asked / rate - 1), 2) + 0


ACCOUNTING = [
    ("bytes on the wire", value("packet_bytes_mean"), 0),
    ("error bytes", error_bytes, 2),
    ("Mbit/s of 20", lambda r: number(r, "rate_Bps") * 8e-6, 3),
]


def blocks(rows):
    found = select(rows, part="precision")
    wire = [r for r in found if r["case"] != "rate" and number(r, "rate_Bps")]
    return {
        "precision": precision_table(rows),
        "accounting": table_of(wire, ("case", "packet"), ACCOUNTING, PRECISE),
    }
