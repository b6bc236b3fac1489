# SPDX-License-Identifier: GPL-2.0-only
"""From the measurements of the guest: JSON, figures and tables.

usage: /usr/bin/python3 -B selftests/bench/report MEASUREMENTS OUT

MEASUREMENTS has a JSON file for each measurement, anywhere below it. Results of
other parts, rates and kernels stay in OUT/results.json, so that a part can be
measured again alone. Tables, and which goals were met, go into the pages
OUT/*.rst, between the lines ".. begin NAME" and ".. end NAME"; a table that no
page shows is printed. Figures are SVG: those that a page shows, or all if OUT
has no page. Units are in the names of the columns.
"""

import json
import re
import sys
from functools import partial
from pathlib import Path

from classes import class_blocks
from clients import PEERS, clients_table, peers_table, plot_clients
from containers import (
    adds_table,
    burst_table,
    containers_goals_table,
    containers_table,
)
from contention import (
    contention_overload_table,
    contention_pairs_table,
    contention_queues_table,
    contention_table,
    plot_contention,
)
from goals import goals_table
from machines import machines_blocks
from media import media_blocks
from overload import (
    LIMIT_MS,
    growth_table,
    overload_columns,
    plots_of_rate,
)
from pacing import pacing_blocks, plot_pacing
from pacing_goals import pacing_goals_table
from precision import accounting_table, precision_table
from quic import quic_blocks
from results import background_read, by_series, merge, read
from streams import STREAMS, TCP, idle_table, requests_table
from tables import tables_of
from tenants import TENANTS


def page_update(page, blocks):
    """Put each table between its two lines. Returns the page and what it shows."""
    shown = set()
    for name, body in blocks.items():
        pattern = re.compile(
            rf"(?<=^\.\. begin {re.escape(name)}\n).*?(?=^\.\. end {re.escape(name)}$)",
            re.M | re.S,
        )
        page, count = pattern.subn(lambda _: f"\n{body}\n", page)
        if count:
            shown.add(name)
    return page, shown


def pages_update(out, blocks):
    """All pages of the directory. Prints the tables that no page shows."""
    shown = set()
    for path in sorted(out.glob("*.rst")):
        page, names = page_update(path.read_text(), blocks)
        path.write_text(page)
        shown |= names
    for name, body in blocks.items():
        if name not in shown:
            print(f"{name}\n\n{body}")


def blocks_of(rows):
    """The tables, by name."""
    blocks = {}
    for series, here in by_series(rows):
        blocks[f"goals-{series}"] = goals_table(here)
        for rate in LIMIT_MS:
            for sndbuf in ("default", "4194304"):
                cell = [
                    r
                    for r in here
                    if (r.get("rate"), r.get("sndbuf")) == (rate, sndbuf)
                ]
                for part in ("overload", "gso"):
                    blocks[f"{part}-{rate}-{sndbuf}-{series}"] = tables_of(
                        cell, part, ("senders",), overload_columns(cell)
                    )
        blocks[f"tcp-{series}"] = tables_of(here, "tcp", STREAMS, TCP)
        blocks.update(quic_blocks(here, series))
        blocks.update(media_blocks(here, series))
        blocks[f"requests-{series}"] = requests_table(here)
        blocks[f"idle-{series}"] = idle_table(here)
        blocks[f"growth-{series}"] = growth_table(here)
        blocks.update(class_blocks(here, series))
        blocks[f"tenants-{series}"] = tables_of(
            here, "tenants", ("case",), TENANTS
        )
        blocks.update(machines_blocks(here, series))
        blocks[f"precision-{series}"] = precision_table(here)
        blocks[f"accounting-{series}"] = accounting_table(here)
        blocks[f"containers-goals-{series}"] = containers_goals_table(here)
        blocks[f"containers-{series}"] = containers_table(here)
        blocks[f"containers-burst-{series}"] = burst_table(here)
        blocks[f"containers-add-{series}"] = adds_table(here)
        blocks[f"contention-{series}"] = contention_table(here)
        blocks[f"contention-pairs-{series}"] = contention_pairs_table(here)
        blocks[f"contention-overload-{series}"] = contention_overload_table(
            here
        )
        blocks[f"contention-queues-{series}"] = contention_queues_table(here)
        blocks[f"clients-{series}"] = clients_table(here)
        for client in PEERS:
            blocks[f"{client}-{series}"] = peers_table(here, client)
        blocks[f"pacing-goals-{series}"] = pacing_goals_table(here)
        blocks.update(pacing_blocks(here, series))
    return {name: body for name, body in blocks.items() if body}


def figures_of(rows, out):
    """A function for each figure that there are results for, by its path."""
    figures = {}
    for series, here in by_series(rows):
        for name, draw in (
            ("contention", plot_contention),
            ("clients", plot_clients),
            ("pacing", plot_pacing),
        ):
            path = out / f"{name}-{series}.svg"
            figures[path] = partial(draw, path, here)
        rates = {r["rate"] for r in here if r["part"] == "overload"}
        for rate, suffix in (("200mbit", ""), ("1gbit", "-1gbit")):
            if rate in rates:
                figures.update(
                    plots_of_rate(out, here, rate, f"{suffix}-{series}.svg")
                )
    return figures


def figures_shown(out):
    """The names of the figures in the pages of the directory, None without a
    page.
    """
    pages = [path.read_text() for path in out.glob("*.rst")]
    found = re.findall(
        r"^\.\. (?:figure|image):: (\S+)$", "\n".join(pages), re.M
    )
    return set(found) if pages else None


def figures_draw(rows, out):
    shown = figures_shown(out)
    for path, draw in figures_of(rows, out).items():
        if shown is None or path.name in shown:
            draw()


def results_update(path, source):
    """Merge new measurements into the file. Returns all rows."""
    old = json.loads(path.read_text()) if path.exists() else []
    rows = merge(old, read(source))
    lines = (json.dumps(r, sort_keys=True) for r in rows)
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    return rows


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    rows = results_update(out / "results.json", source)
    background_read(rows)
    pages_update(out, blocks_of(rows))
    figures_draw(rows, out)


if __name__ == "__main__":
    main()
