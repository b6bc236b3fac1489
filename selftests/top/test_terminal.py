# SPDX-License-Identifier: GPL-2.0-only
"""The live view on a terminal of 80 columns and 24 rows, with 60 classes."""

from __future__ import annotations

import os
import re
import signal
import time
import unittest
from typing import Callable, List
from unittest import mock

from fixtures import TOP

try:
    import pyte
    import screen as terminal
except ImportError:
    pyte = None

DOWN, PAGE_UP, PAGE_DOWN = "\x1b[B", "\x1b[5~", "\x1b[6~"
BEGIN, END, ESCAPE = "\x1b[1~", "\x1b[4~", "\x1b"
COMMAND = ["/usr/bin/python3", "-B", TOP + "/selftests/top/terminal.py"]
CLASS = re.compile(r"eth0 +8001:")


@unittest.skipUnless(pyte, "SKIP: there is no python3-pyte")
class Terminal(unittest.TestCase):
    def begin(self, *words: str, **environment: str) -> None:
        self.display = pyte.Screen(80, 24)
        self.stream = pyte.ByteStream(self.display)
        chosen = {"LC_ALL": "C.UTF-8", "NO_COLOR": "", **environment}
        with mock.patch.dict(os.environ, chosen):
            command = [*COMMAND, "--interval", "0.1", *words]
            self.pid, self.fd = terminal.start(command, 80, 24)
        self.addCleanup(self.end)
        self.until(lambda: "sent, " in self.first())

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)

    def rows(self) -> List[str]:
        return [row.rstrip() for row in self.display.display]

    def until(self, is_so: Callable[[], bool]) -> None:
        """A busy machine draws late."""
        end = time.monotonic() + 20
        while not is_so():
            if time.monotonic() > end:
                self.fail("this is on the screen:\n" + "\n".join(self.rows()))
            terminal.read_for(0.05, self.fd, self.stream)

    def type(self, keys: str, is_so: Callable[[], bool]) -> None:
        os.write(self.fd, keys.encode())
        self.until(is_so)

    def first(self) -> str:
        """The first history."""
        return self.rows()[4]

    def place(self) -> str:
        return self.rows()[23].split("  ")[0]

    def numbers(self) -> List[str]:
        """Of the classes and flows on the screen."""
        return re.findall(r" 8001:([0-9a-f]+) ", "\n".join(self.rows()))

    def color(self, text: str) -> str:
        """Of the line that has this text."""
        rows = enumerate(self.rows())
        number = next((n for n, row in rows if text in row), 0)
        return self.display.buffer[number][0].fg

    def test_it_scrolls_below_the_head(self):
        self.begin()
        self.until(lambda: self.place() == "1-21 of 127")
        self.assertTrue(self.rows()[6].startswith("DEVICE  CLASS"))
        self.assertEqual(self.numbers()[:2], ["10", "11"])
        self.type(DOWN * 4, lambda: self.place() == "5-25 of 127")
        self.assertTrue(self.rows()[2].startswith("DEVICE  CLASS"))
        self.assertEqual(self.numbers()[0], "10")
        self.type(PAGE_DOWN, lambda: self.place() == "25-45 of 127")
        self.assertTrue(self.rows()[2].startswith("DEVICE  CLASS"))
        self.assertEqual(self.numbers()[0], "24")
        self.type(END, lambda: self.place() == "107-127 of 127")
        self.assertTrue(self.rows()[2].startswith("PROCESS"))
        self.assertIn("talker16/116", self.rows()[22])
        self.type(PAGE_UP, lambda: self.place() == "87-107 of 127")
        self.type(BEGIN, lambda: self.place() == "1-21 of 127")

    def test_what_matters_is_in_80_columns(self):
        self.begin()
        for word in "DEVICE QDISC RATE SENT BACKLOG THROTTLED".split():
            self.assertIn(word, self.rows()[2])
        for word in "CLASS FLOOR CEIL SENT THROTTLED DROPS/s".split():
            self.assertIn(word, self.rows()[6])
        self.type(END, lambda: "PROCESS" in self.rows()[2])
        for word in "PROCESS CLASS PEER SENT BACKLOG STATE".split():
            self.assertIn(word, self.rows()[2])
        self.until(lambda: "Mbit" in self.rows()[22])
        self.assertTrue(self.rows()[22].endswith(" throttled"))

    def test_a_filter_is_typed_and_cleared(self):
        self.begin()
        self.type("/TALKER17/xq", lambda: "TALKER17/xq_" in self.rows()[1])
        self.assertEqual(self.numbers(), [])
        self.type("\x7f\x7f", lambda: self.numbers() == ["11"])
        self.type("\r", lambda: self.rows()[1] == "filter: TALKER17/")
        self.type("f", lambda: "sockets: " in self.rows()[0])
        self.type(ESCAPE, lambda: self.place() == "1-21 of 127")
        self.assertEqual(self.rows()[1], "")
        self.type("/8001:4", lambda: self.numbers()[:1] == ["40"])
        found = {number[0] for number in self.numbers()}
        self.assertEqual(found, {"4"})

    def test_sections_are_hidden(self):
        self.begin()
        self.type("2", lambda: "classes: 60 hidden" in self.rows()[6])
        self.assertTrue(self.rows()[8].startswith("PROCESS"))
        self.type("1", lambda: "shapers: 2 hidden" in self.rows()[2])
        self.type("3", lambda: "flows: 60 hidden" in self.rows()[6])
        self.type("2", lambda: self.numbers()[:1] == ["10"])

    def test_lines_have_colours(self):
        self.begin()
        self.until(lambda: self.color("sent, ") == "green")
        self.until(lambda: self.color(" 8001:10 ") == "red")
        self.type(END, lambda: self.color("talker16/") == "brown")
        self.assertNotIn("\x1b", "".join(self.rows()))

    def test_no_color(self):
        self.begin(NO_COLOR="1")
        self.until(lambda: self.numbers())
        cells = self.display.buffer.values()
        self.assertEqual(
            {cell.fg for row in cells for cell in row.values()}, {"default"}
        )

    def test_a_history_grows(self):
        """All of the rate is used, but the test may stop for a while."""
        self.begin()
        self.until(lambda: self.first().count("#") > 5)
        self.assertRegex(self.first(), r"^  sent, # is 200Mbit  [ .:=+*%#-]+$")


if __name__ == "__main__":
    unittest.main()
