#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
r"""Run a program on a terminal of our own and show what is on its screen.

usage: screen.py [--size COLUMNSxROWS] [--svg FILE] [--keys TEXT:SECONDS...] \
                 -- COMMAND

Types each TEXT and lets SECONDS go by after it; then takes the screen, types q,
and prints the screen as text, or writes it to FILE as SVG. Knows as much of a
terminal as curses needs with TERM=xterm. The exit status is the command's; 99
if it does not end on q.
"""

from __future__ import annotations

import argparse
import fcntl
import html
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from dataclasses import dataclass
from typing import List, Tuple

CSI = re.compile(r"\x1b\[([?>]?)([\d;]*)([@-~])")
OTHER_ESCAPE = re.compile(r"\x1b[()].|\x1b[=>78]")


@dataclass
class Cell:
    text: str = " "
    is_bold: bool = False
    is_reverse: bool = False


class Terminal:
    """Cells, and the place of the cursor."""

    def __init__(self, columns: int, rows: int):
        self.columns, self.rows = columns, rows
        self.row = self.column = 0
        self.pen = Cell()
        self.cells = [[Cell() for _ in range(columns)] for _ in range(rows)]

    def feed(self, text: str) -> None:
        while text:
            control = CSI.match(text)
            other = OTHER_ESCAPE.match(text)
            if control:
                self.control(*control.groups())
                text = text[control.end() :]
            elif other:
                text = text[other.end() :]
            else:
                self.character(text[0])
                text = text[1:]

    def character(self, text: str) -> None:
        if text == "\r":
            self.column = 0
        elif text == "\n":
            self.row = min(self.row + 1, self.rows - 1)
        elif text == "\b":
            self.column = max(self.column - 1, 0)
        elif text >= " " and self.column < self.columns:
            pen = self.pen
            cell = Cell(text, pen.is_bold, pen.is_reverse)
            self.cells[self.row][self.column] = cell
            self.column += 1

    def blank(self, row: int, start: int, end: int) -> None:
        for column in range(start, min(end, self.columns)):
            self.cells[row][column] = Cell()

    def control(self, private: str, numbers: str, command: str) -> None:
        args = [int(n or 0) for n in numbers.split(";")]
        count = max(args[0], 1)
        if private:
            return
        if command == "H":
            row, column = (args + [1])[:2]
            self.row = min(max(row, 1), self.rows) - 1
            self.column = min(max(column, 1), self.columns) - 1
        elif command == "J":
            self.blank(self.row, self.column, self.columns)
            for row in range(0 if args[0] == 2 else self.row + 1, self.rows):
                self.blank(row, 0, self.columns)
        elif command == "K":
            start, end = ((self.column, self.columns), (0, self.column + 1))[
                args[0] == 1
            ]
            self.blank(self.row, start, end)
        elif command == "X":
            self.blank(self.row, self.column, self.column + count)
        elif command == "b":
            for _ in range(count):
                self.character(self.cells[self.row][self.column - 1].text)
        elif command == "G":
            self.column = min(count, self.columns) - 1
        elif command == "d":
            self.row = min(count, self.rows) - 1
        elif command in "ABCD":
            down, right = {
                "A": (-1, 0),
                "B": (1, 0),
                "C": (0, 1),
                "D": (0, -1),
            }[command]
            self.row = min(max(self.row + down * count, 0), self.rows - 1)
            self.column = min(
                max(self.column + right * count, 0), self.columns - 1
            )
        elif command == "m":
            self.style(args)

    def style(self, args: List[int]) -> None:
        for number in args:
            if number == 0:
                self.pen = Cell()
            elif number == 1:
                self.pen.is_bold = True
            elif number == 7:
                self.pen.is_reverse = True
            elif number == 27:
                self.pen.is_reverse = False

    def lines(self) -> List[str]:
        return ["".join(c.text for c in row).rstrip() for row in self.cells]


FONT_WIDTH, FONT_HEIGHT, MARGIN = 7.8, 17, 10
DARK, LIGHT = "#1b1f24", "#d8dee4"


def runs(row: List[Cell]) -> List[Tuple[int, int]]:
    """Where cells of the same style begin and end."""
    found, start = [], 0
    for end in range(1, len(row) + 1):
        is_end = end == len(row)
        if is_end or (row[end].is_bold, row[end].is_reverse) != (
            row[start].is_bold,
            row[start].is_reverse,
        ):
            found.append((start, end))
            start = end
    return found


def svg(terminal: Terminal) -> str:
    width = terminal.columns * FONT_WIDTH + 2 * MARGIN
    height = terminal.rows * FONT_HEIGHT + 2 * MARGIN
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" '
        'viewBox="0 0 %.0f %.0f">' % (width, height, width, height),
        '<rect width="100%%" height="100%%" rx="6" fill="%s"/>' % DARK,
        '<g font-family="monospace" font-size="13" fill="%s">' % LIGHT,
    ]
    for number, row in enumerate(terminal.cells):
        top = MARGIN + number * FONT_HEIGHT
        for start, end in runs(row):
            text = "".join(cell.text for cell in row[start:end])
            left = MARGIN + start * FONT_WIDTH
            extent = (end - start) * FONT_WIDTH
            style = ' font-weight="bold"' if row[start].is_bold else ""
            if row[start].is_reverse:
                lines.append(
                    '<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>'
                    % (left, top, extent, FONT_HEIGHT, LIGHT)
                )
                style += ' fill="%s"' % DARK
            shown = text.rstrip()
            if shown:
                lines.append(
                    '<text x="%.1f" y="%d" textLength="%.1f" xml:space="preserve"'
                    "%s>%s</text>"
                    % (
                        left,
                        top + 13,
                        len(shown) * FONT_WIDTH,
                        style,
                        html.escape(shown, quote=False),
                    )
                )
    return "\n".join(lines + ["</g>", "</svg>", ""])


def read_for(seconds: float, fd: int, terminal: Terminal) -> bool:
    """Returns False when the program has ended."""
    end = time.monotonic() + seconds
    while True:
        left = end - time.monotonic()
        if left <= 0:
            return True
        if select.select([fd], [], [], left)[0]:
            try:
                data = os.read(fd, 65536)
            except OSError:
                return False
            if not data:
                return False
            terminal.feed(data.decode(errors="replace"))


def keys_parse(text: str) -> Tuple[str, float]:
    keys, _, seconds = text.rpartition(":")
    return keys, float(seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--size", default="120x30")
    parser.add_argument("--svg")
    parser.add_argument(
        "--keys", nargs="+", type=keys_parse, default=[("", 3.0)]
    )
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    columns, rows = map(int, args.size.split("x"))
    terminal = Terminal(columns, rows)

    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        # The size must be there before curses asks for it.
        fcntl.ioctl(
            1, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0)
        )
        os.execvp(args.command[0], args.command)
    for text, seconds in args.keys:
        os.write(fd, text.encode())
        if not read_for(seconds, fd, terminal):
            break
    lines, picture = terminal.lines(), svg(terminal)
    os.write(fd, b"q")
    if read_for(10, fd, terminal):
        os.kill(pid, signal.SIGKILL)
        return 99
    if args.svg:
        with open(args.svg, "w") as file:
            file.write(picture)
    else:
        print("\n".join(lines))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
