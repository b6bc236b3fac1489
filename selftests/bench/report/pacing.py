# SPDX-License-Identifier: GPL-2.0-only
"""Part pacing."""

import statistics
from collections import defaultdict

from figures import figure
from results import KEY, number, over, value
from tables import table_of

PACERS = [
    "fq",
    "bpshaper",
    "bpshaper-all",
    "bpshaper-off",
    "pfifo",
    "tbf+fq",
    "tbf",
    "edt",
    "edt+bpshaper",
]


def per_second(key):
    return lambda r: over(number(r, key), number(r, "sending_seconds"))


def ns_per_byte(key, count="tcp_received_bytes"):
    """From milliseconds. Bytes that arrive after the end are not counted: too
    few to matter.
    """
    return lambda r: over((number(r, key) or 0) * 1e6, number(r, count))


TIMERS_S = per_second("system_timer_interrupts")

MACHINE = ns_per_byte("system_busy_ms")

PACED = [
    ("goodput Mbit/s", value("tcp_goodput_mbit_per_s"), 1),
    ("timers/s", TIMERS_S, 0),
    ("CPU ns/byte", MACHINE, 2),
    ("senders' ns/byte", ns_per_byte("tcp_sender_cpu_ms"), 2),
    ("srtt mean ms", value("tcp_srtt_mean_ms"), 2),
    ("srtt p99 ms", value("tcp_srtt_p99_ms"), 2),
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
    (
        "CPU us/request",
        lambda r: over(
            number(r, "system_busy_ms") * 1e3, number(r, "rr_answers")
        ),
        2,
    ),
]

DEPARTURE = [
    ("arrived", value("arrived"), 0),
    ("early", value("early"), 0),
    ("late p50 us", value("late_p50_us"), 1),
    ("p99 us", value("late_p99_us"), 1),
    ("max us", value("late_max_us"), 1),
]

DATAGRAMS = [
    (
        "rate error %",
        lambda r: (number(r, "rate_Bps") * 8 / number(r, "bits") - 1) * 100,
        3,
    ),
    ("most above the rate, bytes", value("max_level_bytes"), 0),
    ("gap stddev us", lambda r: number(r, "gap_deviation_stddev_ns") / 1e3, 1),
]


def median_row(rows):
    """The median of each number over the turns of a cell."""
    row = dict(rows[0])
    for key in row:
        try:
            row[key] = (
                statistics.median(float(r[key]) for r in rows)
                if len(rows) > 1
                else row[key]
            )
        except (KeyError, TypeError, ValueError):
            pass
    return dict(row, **{k: rows[0][k] for k in KEY if k in row})


def paced(rows, case, kind):
    cells = defaultdict(list)
    for row in rows:
        if (
            row["part"] == "pacing"
            and row["case"] == case
            and kind in (None, row["kind"])
        ):
            cells[tuple(str(row.get(k)) for k in KEY if k != "turn")].append(
                row
            )
    return [median_row(turns) for turns in cells.values()]


def plot_pacing(path, rows):
    """Timer interrupts of capped streams of BBR, a line for each pacer."""
    found = [r for r in paced(rows, "capped", "pacer") if r["cc"] == "bbr"]
    if not found:
        return
    with figure(path) as axes:
        for shaper in PACERS:
            points = sorted(
                (int(r["flows"]), TIMERS_S(r))
                for r in found
                if r["shaper"] == shaper
            )
            if points:
                axes.plot(
                    *zip(*points),
                    marker="o",
                    label=shaper,
                    linestyle="--" if shaper == "fq" else "-",
                )
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel(
            "streams of BBR, 200 Mbit/s together (SO_MAX_PACING_RATE)"
        )
        axes.set_ylabel("timer interrupts/s")


def pacing_blocks(rows, series):
    streams = ("cc", "flows")
    return {
        f"pacing-{name}-{series}": table_of(
            paced(rows, case, kind), keys, columns, PACERS
        )
        for name, case, kind, keys, columns in (
            ("capped", "capped", None, streams, PACED + [WAITS]),
            ("path", "path", "pacer", streams, PACED[:-1] + [PATH_DROPS, WAITS]),
            ("shaped", "path", "shaper", streams, PACED + [WAITS]),
            ("requests", "requests", "pacer", ("flows",), REQUESTS),
            ("requests-shaped", "requests", "shaper", ("flows",), REQUESTS),
            ("stream", "stream", "pacer", ("packet",), PACED),
            ("stream-shaped", "stream", "shaper", ("packet",), PACED),
            ("departure", "departure", None, ("load", "kind"), DEPARTURE),
            ("udp", "udp", None, ("bits", "kind"), DATAGRAMS),
        )
    }
