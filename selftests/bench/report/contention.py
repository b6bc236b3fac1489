# SPDX-License-Identifier: GPL-2.0-only
"""Part contention: several CPUs that send."""

import statistics
from collections import defaultdict

from figures import COLOURS, figure
from overload import AGE, GOODPUT, LOSS
from results import over, ratio, select
from tables import table, tables_of, text

SPINNING = "% of busy time in lock slow paths"

EXTRA_COLOURS = {
    "htb": "#2ca02c",
    "fq": "#1f77b4",
    "mq+fq": "#17becf",
    "mq+edt": "#bcbd22",
    "group": "#e377c2",
    "cake_mq": "#7f7f7f",
}

# One root lock first, then a lock for each queue.
CONTENDERS = "tbf tbf+fq bpshaper htb fq mq+fq mq+edt group cake_mq".split()

# Time in slow paths of locks, of the time that CPUs were busy
spinning_percent = ratio("samples_spinning", "samples_busy", 100)
speed = ratio("packets", "elapsed_us")

OVERLOADED = [
    ("lost %", LOSS, 2),
    ("goodput Mbit/s", GOODPUT, 1),
    ("age p99 ms", AGE, 0),
    (SPINNING, spinning_percent, 1),
]


def cells_of(rows):
    """By number of CPUs and shaper: the speed of each turn, and the time in
    slow paths of locks.
    """
    speeds, spinning = defaultdict(list), {}
    for row in select(rows, part="contention", case="unshaped"):
        key = (int(row["cpus"]), row["shaper"])
        if row["turn"] == "locks":
            spinning[key] = spinning_percent(row)
        else:
            speeds[key].append(speed(row))
    return speeds, spinning


def contention_table(rows):
    """Best turns and medians. The host can only make a turn slower, so the best
    one was disturbed least.
    """
    speeds, spinning = cells_of(rows)
    best = {k: max(v) for k, v in speeds.items()}
    median = {k: statistics.median(v) for k, v in speeds.items()}
    heading = (
        "CPUs|shaper|best turn, of itself with 1|of tbf's best|median, of tbf's median"
        f"|median, of the best|{SPINNING}"
    )
    lines = [
        [
            str(key[0]),
            key[1],
            text(over(best[key], best.get((1, key[1]))), 2),
            text(over(best[key], best.get((key[0], "tbf"))), 2),
            text(over(median[key], median.get((key[0], "tbf"))), 2),
            text(median[key] / best[key], 2),
            text(spinning.get(key), 1),
        ]
        for key in sorted(speeds, key=lambda k: (k[0], CONTENDERS.index(k[1])))
    ]
    return table(heading.split("|"), lines)


def blocks(rows):
    overload = {"part": "contention", "case": "overload"}
    return {"contention": contention_table(rows)} | tables_of(
        rows, ("contention-overload", overload, ("cpus",), OVERLOADED, CONTENDERS)
    )


def plot(rows, path):
    """The best turns, as a line; medians, as points."""
    speeds, _ = cells_of(rows)
    with figure(path) as axes:
        for shaper in CONTENDERS:
            cpus = sorted(k[0] for k in speeds if k[1] == shaper)
            if not cpus:
                continue
            tbf = {c: max(speeds.get((c, "tbf"), [0])) or 1 for c in cpus}
            colour = COLOURS.get(shaper, EXTRA_COLOURS.get(shaper))
            best = [max(speeds[c, shaper]) / tbf[c] for c in cpus]
            median = [statistics.median(speeds[c, shaper]) / tbf[c] for c in cpus]
            axes.plot(cpus, best, marker="o", label=shaper, color=colour)
            axes.plot(cpus, median, linestyle="", marker="_", color=colour)
        axes.set_xlabel("CPUs that send")
        axes.set_ylabel("packets/s, of tbf's best turn; - median")
        axes.set_ylim(bottom=0)
