# SPDX-License-Identifier: GPL-2.0-only
"""Goals of part pacing."""

from collections import defaultdict

from goals import against, worst
from pacing import MACHINE, REQUESTS, TIMERS_S, paced
from results import number, over, value


def pacing_worst(rows, rival, keys, column):
    """The largest of bpshaper's values divided by the rival's, and its cell."""
    cells = defaultdict(dict)
    for row in rows:
        cells[tuple(str(row[k]) for k in keys)][row["shaper"]] = row
    both = {k: c for k, c in cells.items() if "bpshaper" in c}
    return worst(both, against(column, rival), keys)


def pacing_all(rows, rival, _, column):
    """As pacing_worst, but of the sums of all cells: what one cell counts
    depends on its phases.
    """
    sums = defaultdict(float)
    for row in rows:
        sums[row["shaper"]] += column(row) or 0
    ratio = over(sums["bpshaper"], sums[rival])
    return (ratio, "all cells together") if ratio else None


def is_bbr(row):
    return row["cc"] == "bbr"


def is_any(_):
    return True


def inverse(key):
    return lambda row: over(1, number(row, key))


GOODPUT = inverse("tcp_goodput_mbit_per_s")
SRTT, SRTT_P99 = value("tcp_srtt_mean_ms"), value("tcp_srtt_p99_ms")
LATE = value("late_p99_us")
CPU_REQUEST = REQUESTS[4][1]

# What tells cells of a case apart.
KEYS = {
    "capped": ("cc", "flows"),
    "path": ("cc", "flows"),
    "requests": ("flows",),
    "stream": ("packet",),
    "departure": ("load",),
}
SHAPED = "inverse goodput of BBR, shaped"
PATH = "inverse goodput of BBR, path"
# Name, bound, case, kind, column, and the rows that count. A name with "all" is
# of the sum of all cells.
GOALS = [
    ("timer interrupts, capped", 1.05, "capped", "pacer", TIMERS_S, is_any),
    (
        "timer interrupts, capped, all",
        1.05,
        "capped",
        "pacer",
        TIMERS_S,
        is_any,
    ),
    ("CPU per byte, capped", 1.05, "capped", "pacer", MACHINE, is_any),
    (
        "timer interrupts, BBR on the path",
        1.05,
        "path",
        "pacer",
        TIMERS_S,
        is_bbr,
    ),
    ("CPU per byte, BBR on the path", 1.05, "path", "pacer", MACHINE, is_bbr),
    ("timer interrupts, shaped", 1.05, "path", "shaper", TIMERS_S, is_any),
    ("timer interrupts, shaped, all", 1.05, "path", "shaper", TIMERS_S, is_any),
    ("CPU per byte, shaped", 1.05, "path", "shaper", MACHINE, is_any),
    ("CPU per byte, shaped, all", 1.05, "path", "shaper", MACHINE, is_any),
    ("CPU per request", 1.05, "requests", "pacer", CPU_REQUEST, is_any),
    ("CPU per byte by size of write", 1.05, "stream", "pacer", MACHINE, is_any),
    (PATH, 1.01, "path", "pacer", GOODPUT, is_bbr),
    (SHAPED, 1.01, "path", "shaper", GOODPUT, is_bbr),
    ("srtt of BBR, mean, path", 1.01, "path", "pacer", SRTT, is_bbr),
    ("srtt of BBR, mean, shaped", 1.01, "path", "shaper", SRTT, is_bbr),
    ("srtt of BBR, p99, path", 1.01, "path", "pacer", SRTT_P99, is_bbr),
    ("srtt of BBR, p99, shaped", 1.01, "path", "shaper", SRTT_P99, is_bbr),
    ("departure error p99", 1, "departure", "pacer", LATE, is_any),
    ("departure error p99, shaped", 1, "departure", "shaper", LATE, is_any),
]


def pacing_goals(rows):
    """bpshaper's value divided by that of fq, or of fq below tbf where both
    shape.
    """
    for name, bound, case, kind, column, is_wanted in GOALS:
        rival = "fq" if kind == "pacer" else "tbf+fq"
        find = pacing_all if name.endswith(", all") else pacing_worst
        here = [row for row in paced(rows, case, kind) if is_wanted(row)]
        found = find(here, rival, KEYS[case], column)
        yield f"{name} / {rival}'s", bound, 3, found
