# SPDX-License-Identifier: GPL-2.0-only
"""What --check finds."""

from __future__ import annotations

import io
import os
import tempfile
import unittest
from contextlib import redirect_stdout
from typing import List
from unittest import mock

from fixtures import a_shaper

from bpshaper_top import check, main, sample, sockets

SS = """\
UNCONN 0 0 10.0.0.1:53 0.0.0.0:* uid:0 ino:7 sk:a cgroup:/ <->
\t skmem:(r0,rb212992,t0,tb%d,f4096,w0,o0,bl0,d0)
"""


def found(
    name: str = "sender", sndbuf: int = 212992, rate: int = 1 << 20
) -> List[str]:
    """With a UDP socket of a process of this name."""
    here = sample.Sample(0, [a_shaper(rate=rate)], [])
    owner = {7: [sockets.Process(name, 5, 3)]}
    with mock.patch.object(
        check, "sample_take", return_value=here
    ), mock.patch.object(
        check, "processes_by_socket", return_value=owner
    ), mock.patch.object(
        check, "ss_output", return_value=SS % sndbuf
    ), mock.patch.object(
        check, "taps", return_value=[]
    ), mock.patch.object(
        check, "removers", return_value=[]
    ):
        return check.check(None, True)


class Check(unittest.TestCase):
    def test_nothing_is_said_of_a_program_that_waits(self):
        self.assertEqual(found(), [])

    def test_programs_are_known_by_their_names(self):
        for kind, names in check.KINDS.items():
            for name in names.split():
                self.assertEqual(found(name), ["%s (5) %s" % (name, kind)])
                self.assertLessEqual(len(name), 15)

    def test_a_name_cannot_command_the_terminal(self):
        self.assertEqual(
            found("\x1b[2J", 2 << 20)[0].split(" ")[0], "?[2J"
        )

    def test_a_send_buffer_of_a_mebibyte_is_told(self):
        self.assertEqual(found(sndbuf=(1 << 20) - 1), [])
        self.assertEqual(
            found(sndbuf=3 << 20),
            ["sender (5) has a send buffer of 3.0 MiB: 3.0 s at the rate"],
        )
        self.assertEqual(found(sndbuf=3 << 20, rate=0), [])

    def test_a_bridge_with_br_netfilter_is_told(self):
        with mock.patch.object(check, "bridge_takes_owners", return_value=True):
            lines = found()
        self.assertEqual(len(lines), 1)
        self.assertIn("eth0: br_netfilter is on", lines[0])

    def test_files_that_set_a_root_qdisc_are_found(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "a.network")
            pattern = os.path.join(directory, "*.network")
            for section, is_one in (
                ("[Match]\nName=eth0\n", False),
                ("[Network]\n[TrafficControlQueueingDiscipline]\n", False),
                ("[Match]\n[TokenBucketFilter]\n", True),
                ("[FairQueueingControlledDelay]\n", True),
                ("[connection]\n[tc]\nqdisc.root=fq\n", True),
            ):
                with open(path, "w") as file:
                    file.write(section)
                wanted = path if is_one else None
                self.assertEqual(check.has_qdisc(pattern), wanted, section)

    def test_scripts_see_it_in_the_status(self):
        for lines, status in (([], 0), (["eth0: ..."], 3)):
            with mock.patch.object(
                main, "check", return_value=lines
            ), mock.patch.object(main, "shaper_check"), redirect_stdout(
                io.StringIO()
            ) as text:
                self.assertEqual(main.main(["--check"]), status)
            self.assertEqual(
                text.getvalue(), "\n".join(lines or ["nothing was found"]) + "\n"
            )


if __name__ == "__main__":
    unittest.main()
