# SPDX-License-Identifier: GPL-2.0-only
"""The live view on a terminal."""

from __future__ import annotations

import argparse
import locale
import os
import sys
import time
from typing import Any, Dict, List, Optional

from .as_text import warnings
from .errors import NAME, TopError
from .history import History, steps_choose
from .sample import changes, sample_take
from .sections import (
    DROPS,
    HEAD,
    HELD,
    HISTORY,
    Section,
    flows_section,
    leaves_section,
    lines_of,
    shapers_section,
    window,
)
from .sockets import Directory
from .taps import Unheld
from .view import SORTS, View, tcp_cookies, view_filter, view_make

ESCAPE, ENTER, BACKSPACE = (27,), (10, 13), (8, 127)


def styles_make(curses: Any) -> Dict[str, Any]:
    """Attributes of lines: colours where the terminal has them and the user
    wants them, on the background that is there.
    """
    styles = {HEAD: curses.A_REVERSE}
    try:
        curses.use_default_colors()
    except curses.error:
        return styles  # it has none, or only two
    if os.environ.get("NO_COLOR"):
        return styles
    colours = curses.COLOR_RED, curses.COLOR_YELLOW, curses.COLOR_GREEN
    for number, colour in enumerate(colours, 1):
        curses.init_pair(number, colour, -1)
        styles[(DROPS, HELD, HISTORY)[number - 1]] = curses.color_pair(number)
    return styles


class Screen:
    """A terminal that shows one sample after the other."""

    def __init__(self, terminal: Any, curses: Any, args: argparse.Namespace):
        self.terminal, self.curses, self.args = terminal, curses, args
        self.directory = Directory()
        self.unheld = Unheld(everywhere=not args.netns)
        self.sort, self.is_all, self.is_folded = args.sort, args.all, args.fold
        self.is_paused = self.is_typing = False
        self.words, self.hidden, self.top = "", "", 0
        self.history, self.styles = History(steps_choose()), styles_make(curses)
        self.view: Optional[View] = None  # to be made
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

    def second(self, view: View) -> str:
        """The filter, or a warning."""
        if self.is_typing or self.words:
            return "filter: " + self.words + "_" * self.is_typing
        return next(iter(warnings(view)), "")

    def last(self, count: int, room: int) -> str:
        fold = "unfold" if self.is_folded else "fold"
        keys = "q quit  p pause  a all  f %s  / filter  1 2 3 hide" % fold
        keys += "  sort: b backlog t throttles l longest n name"
        if count <= room:
            return keys
        return "%d-%d of %d  %s" % (self.top + 1, self.top + room, count, keys)

    def line(self, row: int, text: str, style: int = 0) -> None:
        """Cut to the screen. Writing its last column would move the cursor out
        of it.
        """
        height, width = self.terminal.getmaxyx()
        if row < height and width > 1:
            self.terminal.addnstr(row, 0, text, width - 1, style)

    def sections(self, view: View, width: int) -> List[Section]:
        found = [shapers_section(view, self.history, width)]
        if view.leaves:
            found.append(leaves_section(view, width))
        flows = flows_section(view, self.sort, self.is_folded, width)
        return found + [flows]

    def draw(self) -> None:
        if not self.view:
            self.view = view_make(
                self.new, self.old, self.directory, self.unheld, self.is_all
            )
        view = view_filter(self.view, self.words)
        height, width = self.terminal.getmaxyx()
        lines = lines_of(self.sections(view, max(width - 1, 1)), self.hidden)
        room = max(height - 3, 1)
        self.top = max(0, min(self.top, len(lines) - room))
        self.terminal.erase()
        self.line(0, self.status(), self.curses.A_BOLD)
        self.line(1, self.second(view), self.styles.get(DROPS, 0))
        for row, line in enumerate(window(lines, self.top, room), 2):
            is_head = line.style == HEAD
            text = line.text.ljust(width) if is_head else line.text
            self.line(row, text, self.styles.get(line.style, 0))
        last = self.last(len(lines), room)
        self.line(height - 1, last.ljust(width), self.curses.A_BOLD)
        self.terminal.refresh()

    def scroll(self, key: int) -> None:
        curses, page = self.curses, max(self.terminal.getmaxyx()[0] - 4, 1)
        moves = {
            curses.KEY_UP: -1,
            curses.KEY_DOWN: 1,
            curses.KEY_PPAGE: -page,
            curses.KEY_NPAGE: page,
            curses.KEY_HOME: -self.top,
            curses.KEY_END: sys.maxsize,
        }
        self.top = max(0, self.top + moves.get(key, 0))

    def type(self, key: int) -> None:
        """A key while the words of the filter are typed."""
        if key in ENTER + (self.curses.KEY_ENTER,):
            self.is_typing = False
        elif key in BACKSPACE + (self.curses.KEY_BACKSPACE,):
            self.words = self.words[:-1]
        elif 32 <= key < 127:
            self.words += chr(key)

    def key(self, key: int) -> bool:
        """Returns False to end."""
        self.scroll(key)
        if key in ESCAPE:
            self.words, self.is_typing = "", False
        elif self.is_typing:
            self.type(key)
        else:
            return self.command(chr(key) if 0 <= key < 128 else "")
        return True

    def command(self, name: str) -> bool:
        if name == "q":
            return False
        if name in SORTS:
            self.sort = name
        elif name == "a":
            self.is_all, self.view = not self.is_all, None
        elif name == "f":
            self.is_folded = not self.is_folded
        elif name == "/":
            self.is_typing = True
        elif name and name in "123":
            hidden = set(self.hidden) ^ {name}
            self.hidden = "".join(hidden)
        elif name and name in "p ":
            self.is_paused = not self.is_paused
        return True

    def sample(self) -> None:
        self.old, self.new = self.new, sample_take(self.args.device)
        self.directory.measure(tcp_cookies(self.new))
        self.history.add(changes(self.new, self.old))
        self.view = None

    def run(self) -> None:
        # Show first rates soon, although of a short time.
        due = time.monotonic() + min(self.args.interval, 0.3)
        while True:
            if time.monotonic() >= due:
                if not self.is_paused:
                    self.sample()
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
    locale.setlocale(locale.LC_ALL, "")
    os.environ.setdefault("ESCDELAY", "25")  # ms that keys may take
    try:
        curses.wrapper(lambda terminal: Screen(terminal, curses, args).run())
    except curses.error as error:
        raise TopError(
            "the terminal (TERM=%s) is not fit for it, use --once: %s"
            % (os.environ.get("TERM", ""), error)
        ) from None
