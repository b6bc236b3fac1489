# SPDX-License-Identifier: GPL-2.0-only
"""Tables of reStructuredText."""

from results import SHAPERS, groups


def table(heading, rows):
    """A simple table of reStructuredText. Nothing if it has no rows."""
    if not rows:
        return ""
    cells = [heading] + rows
    widths = [max(len(r[i]) for r in cells) for i in range(len(heading))]
    rule = "  ".join("=" * w for w in widths)
    lines = [
        "  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in cells
    ]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule, ""])


def text(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def in_order(key):
    """A key to sort by: numbers by their value, before words."""
    return [
        (0, float(k), "") if k.replace(".", "").isdigit() else (1, 0, k)
        for k in key
    ]


def tables_of(rows, part, keys, columns):
    """A line for each shaper in each cell of a part."""
    parts = []
    for key, cell in sorted(
        groups(rows, part, keys).items(), key=lambda i: in_order(i[0])
    ):
        for shaper in SHAPERS:
            if shaper in cell:
                parts.append(
                    list(key)
                    + [shaper]
                    + [text(f(cell[shaper]), d) for _, f, d in columns]
                )
    return table(list(keys) + ["shaper"] + [c[0] for c in columns], parts)
