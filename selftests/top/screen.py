#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
r"""Run a program on a terminal of our own and show what is on its screen.

usage: screen.py [--size COLUMNSxROWS] [--svg FILE] [--keys TEXT:SECONDS...] \
                 -- COMMAND

Types each TEXT, with escapes of Python, and lets SECONDS go by after it; then takes the screen, types q,
and prints the screen as text, or writes it to FILE as SVG. The exit status is
the command's; 99 if it does not end on q.
"""

from __future__ import annotations

import argparse
import fcntl
import html
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from typing import List, Tuple

import pyte

FONT_WIDTH, FONT_HEIGHT, MARGIN = 7.8, 17, 10
DARK, LIGHT = "#1b1f24", "#d8dee4"
COLOURS = {"red": "#ff7b72", "brown": "#e3b341", "green": "#7ee787"}


def style_of(cell: pyte.screens.Char) -> Tuple[bool, bool, str]:
    return cell.bold, cell.reverse, cell.fg


def runs(row: List[pyte.screens.Char]) -> List[Tuple[int, int]]:
    """Where cells of the same style begin and end."""
    found, start = [], 0
    for end in range(1, len(row) + 1):
        is_end = end == len(row)
        if is_end or style_of(row[end]) != style_of(row[start]):
            found.append((start, end))
            start = end
    return found


def svg(screen: pyte.Screen) -> str:
    width = screen.columns * FONT_WIDTH + 2 * MARGIN
    height = screen.lines * FONT_HEIGHT + 2 * MARGIN
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" '
        'viewBox="0 0 %.0f %.0f">' % (width, height, width, height),
        '<rect width="100%%" height="100%%" rx="6" fill="%s"/>' % DARK,
        '<g font-family="monospace" font-size="13" fill="%s">' % LIGHT,
    ]
    for number in range(screen.lines):
        row = [screen.buffer[number][i] for i in range(screen.columns)]
        top = MARGIN + number * FONT_HEIGHT
        for start, end in runs(row):
            text = "".join(cell.data for cell in row[start:end])
            left = MARGIN + start * FONT_WIDTH
            extent = (end - start) * FONT_WIDTH
            style = ' font-weight="bold"' if row[start].bold else ""
            if row[start].reverse:
                lines.append(
                    '<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>'
                    % (left, top, extent, FONT_HEIGHT, LIGHT)
                )
                style += ' fill="%s"' % DARK
            elif row[start].fg in COLOURS:
                style += ' fill="%s"' % COLOURS[row[start].fg]
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


def read_for(seconds: float, fd: int, stream: pyte.ByteStream) -> bool:
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
            stream.feed(data)


def start(command: List[str], columns: int, rows: int) -> Tuple[int, int]:
    """Returns the process and its terminal."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "linux"
        # The size must be there before curses asks for it.
        fcntl.ioctl(
            1, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0)
        )
        os.execvp(command[0], command)
    return pid, fd


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
    screen = pyte.Screen(columns, rows)
    stream = pyte.ByteStream(screen)

    pid, fd = start(args.command, columns, rows)
    for text, seconds in args.keys:
        os.write(fd, text.encode().decode("unicode_escape").encode())
        if not read_for(seconds, fd, stream):
            break
    lines = [line.rstrip() for line in screen.display]
    picture = svg(screen)
    os.write(fd, b"q")
    if read_for(10, fd, stream):
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
