# SPDX-License-Identifier: GPL-2.0-only
"""The command line and its errors."""

from __future__ import annotations

import io
import subprocess
import sys
import unittest
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

from fixtures import (
    TOOL,
)

from bpshaper_top import (
    arguments,
    errors,
    main,
    screen,
)


class CommandLine(unittest.TestCase):
    def refused(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, TOOL, *words], capture_output=True, text=True
        )
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        return done.stderr.splitlines()[-1]

    def test_errors_are_one_line(self):
        self.assertIn("--json goes with --once", self.refused("--json"))
        self.assertIn("0.1 to 3600", self.refused("--once", "--interval", "0"))
        self.assertIn("invalid", self.refused("--once", "--interval", "x"))
        self.assertEqual(
            self.refused("--device", "nodev"),
            "bpshaper-top: there is no device nodev",
        )
        self.assertEqual(
            self.refused("--netns", "/no/ns"),
            "bpshaper-top: network namespace /no/ns: No such file or directory",
        )

    def test_an_error_cannot_command_the_terminal(self):
        with redirect_stderr(io.StringIO()) as text:
            self.assertEqual(main.main(["--netns", "/no/\x1b[2J\n\udcff"]), 1)
        self.assertEqual(
            text.getvalue(),
            "bpshaper-top: network namespace /no/?[2J??: No such file or "
            "directory\n",
        )

    def test_no_terminal(self):
        args = arguments.arguments_parse([])
        with redirect_stdout(io.StringIO()), self.assertRaises(
            errors.TopError
        ) as caught:
            screen.live(args)
        self.assertEqual(str(caught.exception), "not on a terminal, use --once")

    def test_no_curses(self):
        args = arguments.arguments_parse([])
        with mock.patch.dict(sys.modules, {"curses": None}):
            with self.assertRaises(errors.TopError) as caught:
                screen.live(args)
        self.assertIn("no curses", str(caught.exception))

    def test_what_will_be_missing_is_told(self):
        for user, ss, said in (
            (0, "/bin/ss", ""),
            (1000, "/bin/ss", "not root"),
            (0, None, "there is no ss"),
        ):
            with mock.patch.object(main.os, "geteuid", return_value=user):
                with mock.patch.object(main.shutil, "which", return_value=ss):
                    with mock.patch.object(
                        main.sys, "stderr", io.StringIO()
                    ) as text:
                        main.limits_tell()
            self.assertIn(said, text.getvalue())
            self.assertEqual(text.getvalue() == "", said == "")
