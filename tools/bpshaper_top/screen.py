# SPDX-License-Identifier: GPL-2.0-only
"""The live view on a terminal."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

from .as_text import flows_table, leaves_table, shapers_table, taps_text
from .errors import NAME, TopError
from .sample import sample_take
from .sockets import Directory
from .taps import Unheld
from .view import SORTS, view_make


class Screen:
    """A terminal that shows one sample after the other."""

    def __init__(self, terminal: Any, curses: Any, args: argparse.Namespace):
        self.terminal, self.curses, self.args = terminal, curses, args
        self.directory = Directory()
        self.unheld = Unheld(everywhere=not args.netns)
        self.sort, self.is_all, self.is_folded = args.sort, args.all, args.fold
        self.is_paused = False
        self.old = self.new = sample_take(args.device)
        try:
            curses.curs_set(0)
        except curses.error:
            pass  # this terminal cannot hide it

    def status(self) -> str:
        shown = "all with a backlog" if self.is_all else "throttled"
        return "%s  %s%s  every %gs  %s: %s, by %s" % (
            NAME,
            "PAUSED " if self.is_paused else "",
            time.strftime("%H:%M:%S"),
            self.args.interval,
            "sockets" if self.is_folded else "flows",
            shown,
            SORTS[self.sort][0],
        )

    def line(self, row: int, text: str, style: int = 0) -> None:
        """Cut to the screen. Writing its last column would move the cursor out
        of it.
        """
        height, width = self.terminal.getmaxyx()
        if row < height and width > 1:
            self.terminal.addnstr(row, 0, text, width - 1, style)

    def draw(self) -> None:
        curses = self.curses
        view = view_make(
            self.new, self.old, self.directory, self.unheld, self.is_all
        )
        height, width = self.terminal.getmaxyx()
        self.terminal.erase()
        self.line(0, self.status(), curses.A_BOLD)
        self.line(1, taps_text(view))
        row = 2
        shapers = shapers_table(view) if view.changes else ["no shaper now"]
        flows = flows_table(view, self.sort, self.is_folded)
        for lines in filter(None, (shapers, leaves_table(view), flows)):
            self.line(row, lines[0].ljust(width), curses.A_REVERSE)
            for number, text in enumerate(lines[1:], 1):
                self.line(row + number, text)
            row += len(lines) + 1
        hidden = row - 1 - (height - 1)
        last = "q quit  p pause  a all  f %s" % (
            "unfold" if self.is_folded else "fold"
        )
        last += "  sort: b backlog t throttles l longest n name"
        if hidden > 0:
            last += "  (%d more lines)" % hidden
        self.line(height - 1, last.ljust(width), curses.A_BOLD)
        self.terminal.refresh()

    def key(self, key: int) -> bool:
        """Returns False to end."""
        name = chr(key) if 0 <= key < 128 else ""
        if name == "q":
            return False
        if name in SORTS:
            self.sort = name
        elif name == "a":
            self.is_all = not self.is_all
        elif name == "f":
            self.is_folded = not self.is_folded
        elif name and name in "p ":
            self.is_paused = not self.is_paused
        return True

    def run(self) -> None:
        # Show first rates soon, although of a short time.
        due = time.monotonic() + min(self.args.interval, 0.3)
        while True:
            if time.monotonic() >= due:
                if not self.is_paused:
                    self.old, self.new = self.new, sample_take(self.args.device)
                due = time.monotonic() + self.args.interval
            self.draw()
            wait = max(due - time.monotonic(), 0)
            self.terminal.timeout(round(wait * 1000))
            if not self.key(self.terminal.getch()):
                return


def live(args: argparse.Namespace) -> None:
    try:
        import curses
    except ImportError:
        raise TopError("this Python has no curses, use --once") from None
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise TopError("not on a terminal, use --once")
    try:
        curses.wrapper(lambda terminal: Screen(terminal, curses, args).run())
    except curses.error as error:
        raise TopError(
            "the terminal (TERM=%s) is not fit for it, use --once: %s"
            % (os.environ.get("TERM", ""), error)
        ) from None
