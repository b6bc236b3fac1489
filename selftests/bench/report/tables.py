# SPDX-License-Identifier: GPL-2.0-only
"""Tables: a heading and rows of words, or None without rows."""

from results import SHAPERS, select


def table(heading, rows):
    return (heading, rows) if rows else None


def rst(found):
    """As a simple table of reStructuredText."""
    heading, rows = found
    widths = [max(map(len, column)) for column in zip(heading, *rows)]
    rule = "  ".join("=" * w for w in widths)
    lines = ["  ".join(map(str.ljust, r, widths)).rstrip() for r in [heading, *rows]]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule, ""])


def text(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def in_order(key):
    """A key to sort by: numbers by their value, before words."""
    return [
        (0, float(k), "") if k.replace(".", "").isdigit() else (1, 0, k)
        for k in map(str, key)
    ]


def table_of(rows, keys, columns, order=SHAPERS):
    """A line for each row of a shaper that is in the order: keys, shaper, and
    columns of a name, a function of the row and digits.
    """
    found = sorted(
        (r for r in rows if r["shaper"] in order),
        key=lambda r: (in_order(r[k] for k in keys), order.index(r["shaper"])),
    )
    lines = [
        [*(str(r[k]) for k in keys), r["shaper"], *(text(f(r), d) for _, f, d in columns)]
        for r in found
    ]
    return table([*keys, "shaper", *(c[0] for c in columns)], lines)


def tables_of(rows, *tables):
    """By name: a table of the rows that have some values, as above."""
    return {
        name: table_of(select(rows, **wanted), *how) for name, wanted, *how in tables
    }
