# SPDX-License-Identifier: GPL-2.0-only
"""Part pacing, and its goals."""

import statistics
from collections import defaultdict

from figures import figure
from goals import against, goals_table, worst
from results import KEY, number, over, ratio, select, value
from tables import table_of

PACERS = "fq bpshaper bpshaper-all bpshaper-off pfifo tbf+fq tbf edt edt+bpshaper".split()


def per_second(key):
    return ratio(key, "sending_seconds")


def ns_per_byte(key):
    """From milliseconds. Bytes that arrive after the end are not counted: too
    few to matter.
    """
    return lambda r: over((number(r, key) or 0) * 1e6, number(r, "tcp_received_bytes"))


TIMERS_S = per_second("system_timer_interrupts")
MACHINE = ns_per_byte("system_busy_ms")
SRTT, SRTT_P99 = value("tcp_srtt_mean_ms"), value("tcp_srtt_p99_ms")
LATE = value("late_p99_us")
CPU_REQUEST = ratio("system_busy_ms", "rr_answers", 1e3)

PACED = [
    ("goodput Mbit/s", value("tcp_goodput_mbit_per_s"), 1),
    ("timers/s", TIMERS_S, 0),
    ("CPU ns/byte", MACHINE, 2),
    ("senders' ns/byte", ns_per_byte("tcp_sender_cpu_ms"), 2),
    ("srtt mean ms", SRTT, 2),
    ("srtt p99 ms", SRTT_P99, 2),
    ("retransmits", value("tcp_retransmitted_segments"), 0),
    ("drops", value("qdisc_drops"), 0),
]
WAITS = ("waits/s", per_second("paced_waits"), 0)
PATH_DROPS = ("drops of the path", value("path_drops"), 0)

REQUESTS = [
    ("requests/s", per_second("rr_answers"), 0),
    ("p50 us", value("rr_p50_us"), 1),
    ("p99 us", value("rr_p99_us"), 1),
    ("timers/s", TIMERS_S, 0),
    ("CPU us/request", CPU_REQUEST, 2),
]

DEPARTURE = [
    ("arrived", value("arrived"), 0),
    ("early", value("early"), 0),
    ("late p50 us", value("late_p50_us"), 1),
    ("p99 us", LATE, 1),
    ("max us", value("late_max_us"), 1),
]

def median_row(rows):
    """The median of each number over the turns of a cell."""
    row = dict(rows[0])
    for key in row.keys() - set(KEY) if len(rows) > 1 else ():
        try:
            row[key] = statistics.median(float(r[key]) for r in rows)
        except (KeyError, TypeError, ValueError):
            pass
    return row


def paced(rows, case, kind):
    cells = defaultdict(list)
    for row in select(rows, part="pacing", case=case):
        if kind in (None, row["kind"]):
            cells[tuple(str(row.get(k)) for k in KEY if k != "turn")].append(row)
    return [median_row(turns) for turns in cells.values()]


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
    found = over(sums["bpshaper"], sums[rival])
    return (found, "all cells together") if found else None


def is_bbr(row):
    return row["cc"] == "bbr"


def is_any(_):
    return True


def inverse_goodput(row):
    return over(1, number(row, "tcp_goodput_mbit_per_s"))


STREAMS = ("cc", "flows")
# What tells cells of a case apart.
KEYS = {
    "capped": STREAMS,
    "path": STREAMS,
    "requests": ("flows",),
    "stream": ("packet",),
    "departure": ("load",),
}
# Name, bound, case, kind, column, and the rows that count. A name with "all" is
# of the sum of all cells.
GOALS = [
    ("timer interrupts, capped", 1.05, "capped", "pacer", TIMERS_S, is_any),
    ("timer interrupts, capped, all", 1.05, "capped", "pacer", TIMERS_S, is_any),
    ("CPU per byte, capped", 1.05, "capped", "pacer", MACHINE, is_any),
    ("timer interrupts, BBR on the path", 1.05, "path", "pacer", TIMERS_S, is_bbr),
    ("CPU per byte, BBR on the path", 1.05, "path", "pacer", MACHINE, is_bbr),
    ("timer interrupts, shaped", 1.05, "path", "shaper", TIMERS_S, is_any),
    ("timer interrupts, shaped, all", 1.05, "path", "shaper", TIMERS_S, is_any),
    ("CPU per byte, shaped", 1.05, "path", "shaper", MACHINE, is_any),
    ("CPU per byte, shaped, all", 1.05, "path", "shaper", MACHINE, is_any),
    ("CPU per request", 1.05, "requests", "pacer", CPU_REQUEST, is_any),
    ("CPU per byte by size of write", 1.05, "stream", "pacer", MACHINE, is_any),
    ("inverse goodput of BBR, path", 1.01, "path", "pacer", inverse_goodput, is_bbr),
    ("inverse goodput of BBR, shaped", 1.01, "path", "shaper", inverse_goodput, is_bbr),
    ("srtt of BBR, mean, path", 1.01, "path", "pacer", SRTT, is_bbr),
    ("srtt of BBR, mean, shaped", 1.01, "path", "shaper", SRTT, is_bbr),
    ("srtt of BBR, p99, path", 1.01, "path", "pacer", SRTT_P99, is_bbr),
    ("srtt of BBR, p99, shaped", 1.01, "path", "shaper", SRTT_P99, is_bbr),
    ("departure error p99", 1, "departure", "pacer", LATE, is_any),
    ("departure error p99, shaped", 1, "departure", "shaper", LATE, is_any),
]

# Name, case, kind, keys and columns.
TABLES = (
    ("capped", "capped", None, STREAMS, [*PACED, WAITS]),
    ("path", "path", "pacer", STREAMS, [*PACED[:-1], PATH_DROPS, WAITS]),
    ("shaped", "path", "shaper", STREAMS, [*PACED, WAITS]),
    ("requests", "requests", "pacer", ("flows",), REQUESTS),
    ("requests-shaped", "requests", "shaper", ("flows",), REQUESTS),
    ("stream", "stream", "pacer", ("packet",), PACED),
    ("stream-shaped", "stream", "shaper", ("packet",), PACED),
    ("departure", "departure", None, ("load", "kind"), DEPARTURE),
)


def pacing_goals(rows):
    """bpshaper's value divided by that of fq, or of fq below tbf where both
    shape.
    """
    for name, bound, case, kind, column, is_wanted in GOALS:
        rival = "fq" if kind == "pacer" else "tbf+fq"
        find = pacing_all if name.endswith(", all") else pacing_worst
        here = [row for row in paced(rows, case, kind) if is_wanted(row)]
        yield f"{name} / {rival}'s", bound, 3, find(here, rival, KEYS[case], column)


def blocks(rows):
    return {"pacing-goals": goals_table(pacing_goals(rows))} | {
        f"pacing-{name}": table_of(paced(rows, case, kind), keys, columns, PACERS)
        for name, case, kind, keys, columns in TABLES
    }


def plot(rows, path):
    """Timer interrupts of capped streams of BBR, a line for each pacer."""
    found = [r for r in paced(rows, "capped", "pacer") if is_bbr(r)]
    with figure(path) as axes:
        for shaper in PACERS:
            points = sorted((int(r["flows"]), TIMERS_S(r)) for r in select(found, shaper=shaper))
            if points:
                style = "--" if shaper == "fq" else "-"
                axes.plot(*zip(*points), marker="o", label=shaper, linestyle=style)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("streams of BBR, 200 Mbit/s together (SO_MAX_PACING_RATE)")
        axes.set_ylabel("timer interrupts/s")
