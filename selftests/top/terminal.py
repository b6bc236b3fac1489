# SPDX-License-Identifier: GPL-2.0-only
"""A program for the tests of the live view: a shaper with 60 classes, in which
flows are throttled, as if the kernel had said so.

usage: terminal.py OPTIONS OF bpshaper-top...
"""

from __future__ import annotations

import sys
from unittest import mock

from fixtures import a_flow, a_leaf, a_shaper

from bpshaper_top import arguments, sample, screen, sockets, view

NUMBERS = range(0x10, 0x10 + 60)


def sample_take(_: object) -> object:
    """As much is sent as the time that has gone by allows."""
    now = sample.time.monotonic()
    leaves = [a_leaf("%x" % n, drops=round(now * 1e6)) for n in NUMBERS]
    flows = [
        a_flow(n, parent="8001:%x" % n, backlog=n, protocol=6, peer="fd99::1")
        for n in NUMBERS
    ]
    shaper = a_shaper(bytes=round(now * 25000000))
    return sample.Sample(now, [shaper], flows, leaves)


def look_up(_: object, cookies: object) -> dict:
    return {
        cookie: sockets.Socket(
            "tcp",
            "10.99.0.1",
            7000 + cookie,
            None,
            None,
            [sockets.Process("talker%d" % cookie, 100 + cookie, 3)],
        )
        for cookie in cookies
    }


def sent(_: object, command_line: str) -> str:
    assert command_line == sockets.SS_SENT
    now = round(sample.time.monotonic() * 125000)
    line = (
        "ESTAB 0 0 a:1 b:2 ino:7 sk:%x\n\t cubic bytes_sent:%d bytes_acked:1\n"
    )
    return "".join(line % (n, now) for n in NUMBERS)


if __name__ == "__main__":
    with mock.patch.object(screen, "sample_take", sample_take):
        with mock.patch.object(sockets.Directory, "look_up", look_up):
            with mock.patch.object(sockets, "ss_output", sent):
                screen.live(arguments.arguments_parse(sys.argv[1:]))
