# SPDX-License-Identifier: GPL-2.0-only
"""Figures: SVG, the same bytes for the same numbers."""

import re
from contextlib import contextmanager

from results import RIVALS

COLOURS = dict(
    zip(
        RIVALS,
        ["#d62728", "#7f7f7f", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e"],
    )
)


@contextmanager
def figure(path, grid="both"):
    """Axes to draw on, then the file."""
    # Tables can be had without it.
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    # Names of elements in a file are random without it.
    plt.rcParams["svg.hashsalt"] = "bpshaper"
    plt.rcParams["svg.fonttype"] = "none"
    drawn, axes = plt.subplots(figsize=(7, 4))
    yield axes
    axes.grid(True, axis=grid, alpha=0.3)
    axes.legend()
    drawn.tight_layout()
    drawn.savefig(path, metadata={"Date": None})
    plt.close(drawn)
    # A line for each path, and not for each of its points.
    path.write_text(re.sub(r" *\n(?=[A-Zz][ \"])", " ", path.read_text()))
