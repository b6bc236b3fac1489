# SPDX-License-Identifier: GPL-2.0-only
"""Part contention: several CPUs that send."""

import statistics
from collections import defaultdict

from figures import COLOURS, figure
from overload import AGE, GOODPUT, LOSS
from results import number, over, value
from tables import table, table_of, text

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
CONTENDERS = [
    "tbf",
    "tbf+fq",
    "bpshaper",
    "htb",
    "fq",
    "mq+fq",
    "mq+edt",
    "group",
    "cake_mq",
]


def spinning_percent(row):
    """Time in slow paths of locks, of the time that CPUs were busy."""
    busy = number(row, "samples_busy")
    return 100 * number(row, "samples_spinning") / busy if busy else None


OVERLOADED = [
    ("lost %", LOSS, 2),
    ("goodput Mbit/s", GOODPUT, 1),
    ("least", value("least_mbit_per_s"), 2),
    ("most", value("most_mbit_per_s"), 2),
    ("age p99 ms", AGE, 0),
    (SPINNING, spinning_percent, 1),
]


def contention_rows(rows, case):
    return [r for r in rows if r["part"] == "contention" and r["case"] == case]


def speed(row):
    return number(row, "packets") / number(row, "elapsed_us")


def contention_cells(rows):
    """By number of CPUs and shaper: the speed of each turn, and the time in
    slow paths of locks.
    """
    speeds, spinning = defaultdict(list), {}
    for row in contention_rows(rows, "unshaped"):
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
    speeds, spinning = contention_cells(rows)
    best = {k: max(v) for k, v in speeds.items()}
    median = {k: statistics.median(v) for k, v in speeds.items()}
    lines = [
        [
            str(cpus),
            shaper,
            text(over(best[cpus, shaper], best.get((1, shaper))), 2),
            text(over(best[cpus, shaper], best.get((cpus, "tbf"))), 2),
            text(over(median[cpus, shaper], median.get((cpus, "tbf"))), 2),
            text(median[cpus, shaper] / best[cpus, shaper], 2),
            text(spinning.get((cpus, shaper)), 1),
        ]
        for cpus, shaper in sorted(
            speeds, key=lambda k: (k[0], CONTENDERS.index(k[1]))
        )
    ]
    return table(
        [
            "CPUs",
            "shaper",
            "best turn, of itself with 1",
            "of tbf's best",
            "median, of tbf's median",
            "median, of the best",
            SPINNING,
        ],
        lines,
    )


def contention_pairs_table(rows):
    """Ratios of two turns, one right after the other: the host disturbs both
    about equally.
    """
    turns = defaultdict(dict)
    for row in contention_rows(rows, "pairs"):
        turns[int(row["cpus"]), row["turn"]][row["shaper"]] = speed(row)
    lines = []
    for cpus in sorted({c for c, _ in turns}):
        ratios = [
            t["group"] / t["mq+fq"] for (c, _), t in turns.items() if c == cpus
        ]
        low, median, high = statistics.quantiles(ratios, n=4)
        lines.append(
            [
                str(cpus),
                str(len(ratios)),
                text(median, 2),
                f"{low:.2f} to {high:.2f}",
            ]
        )
    return table(["CPUs", "turns", "group / mq+fq, median", "quartiles"], lines)


def contention_blocks(rows, series):
    """The tables, by name. Queues have a line for each turn: the host disturbs
    them differently.
    """
    return {
        f"contention-{series}": contention_table(rows),
        f"contention-pairs-{series}": contention_pairs_table(rows),
        f"contention-overload-{series}": table_of(
            contention_rows(rows, "overload"),
            ("cpus",),
            OVERLOADED[:2] + OVERLOADED[4:],
            CONTENDERS,
        ),
        f"contention-queues-{series}": table_of(
            contention_rows(rows, "queues"), ("turn",), OVERLOADED, CONTENDERS
        ),
    }


def plot_contention(path, rows):
    """The best turns, as a line; medians, as points."""
    speeds, _ = contention_cells(rows)
    if not speeds:
        return
    with figure(path) as axes:
        for shaper in CONTENDERS:
            points = sorted(
                (k[0], v) for k, v in speeds.items() if k[1] == shaper
            )
            if not points:
                continue
            cpus = [c for c, _ in points]
            tbf = [max(speeds.get((c, "tbf"), [0])) or 1 for c in cpus]
            colour = COLOURS.get(shaper, EXTRA_COLOURS.get(shaper))
            axes.plot(
                cpus,
                [max(v) / t for (_, v), t in zip(points, tbf)],
                marker="o",
                label=shaper,
                color=colour,
            )
            axes.plot(
                cpus,
                [statistics.median(v) / t for (_, v), t in zip(points, tbf)],
                linestyle="",
                marker="_",
                color=colour,
            )
        axes.set_xlabel("CPUs that send")
        axes.set_ylabel("packets/s, of tbf's best turn; - median")
        axes.set_ylim(bottom=0)
