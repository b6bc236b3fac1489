# SPDX-License-Identifier: GPL-2.0-only
"""Part programs: what real programs do when they are held, and what others get of them."""

from results import ratio, value
from tables import tables_of

COLUMNS = [
    ("arrived %", ratio("arrived", "given", 100), 1),
    ("age p50 ms", value("age_p50_ms"), 0),
    ("age p99 ms", value("age_p99_ms"), 0),
    ("others %", ratio("other_arrived", "other_given", 100), 1),
    ("others p99 ms", value("other_age_p99_ms"), 1),
    ("refused", value("refused"), 0),
    ("CPU ms", value("cpu_ms"), 0),
    ("memory KiB", value("rss_kib"), 0),
]


def blocks(rows):
    return tables_of(rows, ("programs", {"part": "programs"}, ("program",), COLUMNS))
