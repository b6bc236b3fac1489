# SPDX-License-Identifier: GPL-2.0-only
"""The tables of a view as sections of lines, and the part of them that a
terminal shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterable, List, NamedTuple

from .as_text import flows_table, leaves_table, rate_text, shapers_table
from .flow import MAY_NOT_SEND
from .history import History
from .sample import Change
from .view import View, flows_sort

HEAD, DROPS, HELD, HISTORY = "head", "drops", "held", "history"


class Line(NamedTuple):
    """A line and what it is about, which gives it a colour."""

    text: str
    style: str = ""


@dataclass
class Section:
    """A table: the line of its columns, and the others."""

    key: str  # that hides it
    name: str
    head: str
    lines: List[Line] = field(default_factory=list)


def change_style(change: Change) -> str:
    return DROPS if change.drop_rate else ""


def shapers_section(view: View, history: History, width: int) -> Section:
    head, *rows = shapers_table(view, width)
    section = Section("1", "shapers", head)
    for change, row in zip(view.changes, rows):
        section.lines.append(Line(row, change_style(change)))
        top = rate_text(history.most(change))
        text = "  sent, %s is %s  " % (history.steps[-1], top)
        text += history.line(change, width - len(text))
        section.lines.append(Line(text[:width], HISTORY))
    return section


def leaves_section(view: View, width: int) -> Section:
    head, *rows = leaves_table(view, width)
    styles = map(change_style, view.leaves)
    return Section("2", "classes", head, list(map(Line, rows, styles)))


def flows_section(
    view: View, sort: str, is_folded: bool, width: int
) -> Section:
    head, *rows = flows_table(view, sort, is_folded, width)
    flows = flows_sort(view, sort, is_folded)
    styles = [HELD if f.state in MAY_NOT_SEND else "" for f in flows]
    name = "sockets" if is_folded else "flows"
    return Section("3", name, head, list(map(Line, rows, styles)))


def lines_of(sections: Iterable[Section], hidden: str) -> List[List[Line]]:
    """All lines, each with the head of its section if that is another one. An
    empty line is between two sections.
    """
    found: List[List[Line]] = []
    for section in sections:
        if found:
            found.append([Line("")])
        if section.key in hidden:
            text = "%s: %d hidden" % (section.name, len(section.lines))
            found.append([Line(text, HEAD)])
            continue
        head = Line(section.head, HEAD)
        found += [[head]] + [[line, head] for line in section.lines]
    return found


def window(lines: List[List[Line]], top: int, height: int) -> List[Line]:
    """The lines from number @top on that fit. The first gives way to the head
    of its section.
    """
    return [
        line[-1] if row == 0 else line[0]
        for row, line in enumerate(lines[top : top + height])
    ]
