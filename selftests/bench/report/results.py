# SPDX-License-Identifier: GPL-2.0-only
"""Rows: the results of measurements. A row is a dictionary."""

import json
from collections import defaultdict

RIVALS = ["bpshaper", "tbf", "tbf+fq", "htb+fq_codel", "cake", "edt"]

# Shown beside them, but no rivals.
SHAPERS = RIVALS + ["bpshaper-off", "bpshaper-all", "edt+bpshaper",
                    "htb+pfifo", "htb+fq", "htb+bpshaper", "hfsc+pfifo",
                    "prio+tbf", "tbf+prio", "bpshaper-class", "bpshaper-drop", "noqueue"]

# What tells measurements apart, with the kernel.
KEY = tuple(
    "part shaper rate sndbuf senders flows cc udp tso_rtt_log case burst "
    "packet cpus turn client kind load bits classes "
    "attached connections stack pods program".split()
)

# What rows without such a key are of.
DEFAULTS = {"stack": "quic-go"}
MBIT = {"20mbit": 20, "200mbit": 200, "1gbit": 1000}


def number(row, key):
    """The value as a number, or None."""
    value = row.get(key)
    return None if value is None or value == "" else float(value)


def value(key):
    """A function from a row to its number of that name."""
    return lambda row: number(row, key)


def over(numerator, denominator):
    """The ratio, or None without one."""
    return None if numerator is None or not denominator else numerator / denominator


def ratio(numerator, denominator, times=1):
    """A function from a row to the ratio of two of its numbers."""

    def of(row):
        top = number(row, numerator)
        return None if top is None else over(times * top, number(row, denominator))

    return of


def select(rows, **wanted):
    """The rows that have these values, or one of those in a tuple."""
    sets = {k: v if isinstance(v, tuple) else (v,) for k, v in wanted.items()}
    return [r for r in rows if all(r.get(k) in v for k, v in sets.items())]


def series_of(row):
    """The first two numbers of the version. Results of a later stable kernel
    replace those of an earlier one.
    """
    return ".".join(row["kernel"].split(".")[:2])


def identity(row):
    return series_of(row), *(str(row.get(k, DEFAULTS.get(k, ""))) for k in KEY)


def by_series(rows):
    found = defaultdict(list)
    for row in rows:
        found[series_of(row)].append(row)
    return sorted(found.items())


# What a kernel counts in a second without senders, by series and name.
BACKGROUND = {}


def background_read(rows):
    for row in select(rows, part="background"):
        seconds = number(row, "sending_seconds")
        for key in ("system_context_switches", "system_timer_interrupts"):
            BACKGROUND[series_of(row), key] = number(row, key) / seconds


def per_packet(row, key):
    """A count for each packet that arrived, or None. What the kernel counts
    without the senders is subtracted.
    """
    packets = number(row, "udp_received_packets")
    per_second = BACKGROUND.get((series_of(row), key), 0)
    rest = per_second * number(row, "sending_seconds")
    return max(0, number(row, key) - rest) / packets if packets else None


def read(directory):
    for path in sorted(directory.rglob("*.json")):
        row = json.loads(path.read_text())
        if "shaper" in row:
            yield row


def merge(old, new):
    """Of two measurements of the same cell, keep the new one."""
    rows = {identity(r): r for r in old}
    rows.update({identity(r): r for r in new})
    return [rows[key] for key in sorted(rows)]


def groups(rows, part, keys):
    """The rows of a part: by keys, then by shaper."""
    found = defaultdict(dict)
    for row in select(rows, part=part):
        found[tuple(row[k] for k in keys)][row["shaper"]] = row
    return found
