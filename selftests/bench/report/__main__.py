# SPDX-License-Identifier: GPL-2.0-only
"""From the measurements of the guest: JSON, tables and figures.

usage: /usr/bin/python3 -B selftests/bench/report [MEASUREMENTS] OUT

MEASUREMENTS has a JSON file for each measurement, anywhere below it. Results of
other parts, rates and kernels stay in OUT/results.json, so that a part can be
measured again alone. OUT/tables.rst gets all tables. OUT/performance.rst and
OUT/../programs.rst, if they are there, get what page.py chooses of them, each
behind a line ".. table NAME" and an empty one. Figures are SVG: those that the page shows, or all without a
page. Without MEASUREMENTS none is drawn. Units are in the names of the columns.
"""

import json
import re
import sys
from functools import partial
from pathlib import Path

import classes
import clients
import containers
import machines
import overload
import pacing
import precision
import programs
import queues
import quic
import streams
from goals import goals_of, goals_table
from page import page_blocks
from results import background_read, by_series, merge, read, select
from tables import rst

PARTS = (
    overload, streams, pacing, classes, containers, machines, precision, programs, queues, quic,
    clients
)


def blocks_of(rows):
    """The tables, by name."""
    blocks = {}
    for series, here in by_series(rows):
        found = {"goals": goals_table(goals_of(here))}
        for part in PARTS:
            found |= part.blocks(here)
        blocks |= {f"{name}-{series}": body for name, body in found.items() if body}
    return blocks


def tables_write(path, blocks):
    parts = [
        ".. SPDX-License-Identifier: GPL-2.0-only\n\n"
        "All tables of ``results.json``. performance.rst says what they show.\n"
    ]
    for name, body in sorted(blocks.items()):
        parts.append(f"{name}\n{'=' * len(name)}\n\n{rst(body)}")
    path.write_text("\n".join(parts))


def page_update(path, blocks):
    """Put each block behind its line, in place of the paragraph there."""
    page = path.read_text()
    for name, body in page_blocks(blocks).items():
        page = re.sub(
            rf"(?<=^\.\. table {name}\n\n)(?:.+\n)*", lambda _: body, page, flags=re.M
        )
    path.write_text(page)


def figures_of(rows, out):
    """A function for each figure that there are results for, by its path."""
    figures = {}
    for series, here in by_series(rows):
        found = overload.figures(here)
        for part, wanted in (
            (clients, {"client": clients.CLIENTS}),
            (pacing, {"case": "capped", "kind": "pacer", "cc": "bbr"}),
        ):
            name = part.__name__
            if select(here, part=name, **wanted):
                found[name] = partial(part.plot, here)
        figures |= {out / f"{name}-{series}.svg": draw for name, draw in found.items()}
    return figures


def figures_draw(rows, out, page):
    shown = page.exists() and re.findall(r"^\.\. image:: (\S+)$", page.read_text(), re.M)
    for path, draw in figures_of(rows, out).items():
        if not page.exists() or path.name in shown:
            draw(path)


def results_update(path, new):
    """Merge new measurements into the file. Returns all rows."""
    old = json.loads(path.read_text()) if path.exists() else []
    rows = merge(old, new)
    lines = (json.dumps(r, sort_keys=True) for r in rows)
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    return rows


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    *sources, out = map(Path, sys.argv[1:])
    new = (row for source in sources for row in read(source))
    rows = results_update(out / "results.json", new)
    background_read(rows)
    blocks = blocks_of(rows)
    tables_write(out / "tables.rst", blocks)
    page = out / "performance.rst"
    for path in (page, out.parent / "programs.rst"):
        if path.exists():
            page_update(path, blocks)
    if sources:
        figures_draw(rows, out, page)


if __name__ == "__main__":
    main()
