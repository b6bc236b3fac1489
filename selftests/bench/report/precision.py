# SPDX-License-Identifier: GPL-2.0-only
"""Part precision: how exactly rates are kept."""

from results import number, select
from tables import table, text

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


def blocks(rows):
    return {"precision": precision_table(rows)}
