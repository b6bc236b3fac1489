# SPDX-License-Identifier: GPL-2.0-only
"""Part queues: a device with eight queues, and several CPUs that send."""

import statistics
from collections import defaultdict

from goals import goals_table
from results import number, over, ratio, select, value
from tables import table, tables_of, text

SPINNING = "% of busy time in lock slow paths"

# One root lock first, then a lock for each queue.
CONTENDERS = "htb bpshaper-1 mq+htb cake_mq mq+edt bpshaper".split()

# Time in slow paths of locks, of the time that CPUs were busy
spinning_percent = ratio("samples_spinning", "samples_busy", 100)
speed = ratio("packets", "elapsed_us")
lost_percent = ratio("lost_packets", "sent_packets", 100)

SHARES = [
    ("production %", value("production_percent"), 1),
    ("batch %", value("batch_percent"), 1),
    ("batch alone %", value("alone_percent"), 1),
    ("probe ms", value("alone_p99_ms"), 3),
    ("beside batch", value("beside_p99_ms"), 3),
    ("heavy %", value("heavy_percent"), 1),
    ("stay %", value("left_percent"), 1),
]
EQUAL = [
    ("% of the rate", value("rate_percent"), 3),
    ("excess bytes", value("excess_bytes"), 0),
    ("Jain", value("jain"), 4),
    ("lost %", lost_percent, 2),
    ("age ms", value("age_p99_ms"), 1),
    ("CPU us", value("sender_cpu_us_per_packet"), 1),
]


def joined(rows):
    """A row for each shaper, with what was measured of it with large send buffers
    and in the cases that have one size.
    """
    found = defaultdict(dict)
    cases = ("shares", "delay", "heavy", "moves", "equal")
    for row in select(rows, part="queues", case=cases):
        if row["case"] != "equal" or row["sndbuf"] == "4194304":
            found[row["shaper"]] |= row
    return list(found.values())


def speeds_of(rows):
    """By number of CPUs and shaper: the speed of each turn, and the time in
    slow paths of locks.
    """
    speeds, spinning = defaultdict(list), {}
    for row in select(rows, part="queues", case="unshaped"):
        key = (int(row["cpus"]), row["shaper"])
        if row["turn"] == "locks":
            spinning[key] = spinning_percent(row)
        else:
            speeds[key].append(speed(row))
    return speeds, spinning


def locks_table(rows):
    """Best turns and medians. The host can only make a turn slower, so the best
    one was disturbed least.
    """
    speeds, spinning = speeds_of(rows)
    best = {k: max(v) for k, v in speeds.items()}
    median = {k: statistics.median(v) for k, v in speeds.items()}
    heading = (
        "CPUs|shaper|best turn, of itself with 1|of htb's best|median, of htb's median"
        f"|median, of the best|{SPINNING}"
    )
    lines = [
        [
            str(key[0]),
            key[1],
            text(over(best[key], best.get((1, key[1]))), 2),
            text(over(best[key], best.get((key[0], "htb"))), 2),
            text(over(median[key], median.get((key[0], "htb"))), 2),
            text(median[key] / best[key], 2),
            text(spinning.get(key), 1),
        ]
        for key in sorted(speeds, key=lambda k: (k[0], CONTENDERS.index(k[1])))
    ]
    return table(heading.split("|"), lines)


def queues_goals(rows):
    """Name, bound, digits, and what was measured of several queues."""
    goals = (
        ("packets of UDP sockets lost, %", 0, 2, "equal", lost_percent),
        ("% of the rate that is not used beside a busy queue", 0.5, 2, "heavy",
         lambda r: max(0, 100 - number(r, "rate_percent"))),
        ("% of a floor of 50 % that is missing", 1, 2, "shares",
         lambda r: max(0, 100 - 2 * number(r, "production_percent"))),
        ("production's probe p99 beside batch, ms", 0.2, 2, "delay", value("beside_p99_ms")),
        ("sparse p99 beside a busy queue, ms", 0.2, 2, "heavy", value("sparse_p99_ms")),
    )
    for name, bound, digits, case, column in goals:
        found = select(rows, part="queues", case=case, shaper="bpshaper")
        yield name, bound, digits, max(((column(r), r["sndbuf"]) for r in found), default=None)


def blocks(rows):
    equal = {"part": "queues", "case": "equal"}
    return {
        "queues-goals": goals_table(queues_goals(rows)),
        "queues-locks": locks_table(rows),
    } | tables_of(
        rows, ("queues-equal", equal, ("sndbuf",), EQUAL, CONTENDERS)
    ) | tables_of(joined(rows), ("queues", {}, (), SHARES + EQUAL[2:], CONTENDERS))
