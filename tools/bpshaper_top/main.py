# SPDX-License-Identifier: GPL-2.0-only
"""Live view of bpshaper.

Reads the statistics of qdiscs and classes from the kernel (netlink, no tc and
no plugin of tc needed), twice, and shows the difference. Flows are listed with
their peer, with what ss says about the cookie of their socket, and with the
processes that hold it, or folded into one line for each socket.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import signal
import socket
import sys
import time
from typing import List

from .arguments import arguments_parse
from .as_json import view_json
from .as_text import (
    flows_table,
    leaves_table,
    printable,
    shapers_table,
    warnings,
)
from .check import check
from .errors import NAME, TopError
from .sample import sample_take
from .screen import live
from .sockets import Directory
from .taps import Unheld
from .view import flows_shown, tcp_cookies, view_make


def once(args: argparse.Namespace) -> None:
    old, directory = sample_take(args.device), Directory(seconds=2)
    directory.look_up(f.cookie for f in flows_shown(old, args.all))
    directory.measure(tcp_cookies(old))
    time.sleep(args.interval)
    new = sample_take(args.device)
    directory.measure(tcp_cookies(new))
    unheld = Unheld(everywhere=not args.netns)
    view = view_make(new, old, directory, unheld, args.all)
    if args.json:
        print(json.dumps(view_json(view, args.netns), indent=1))
        return
    flows = flows_table(view, args.sort, args.fold)
    tables = filter(
        None, (shapers_table(view), leaves_table(view), flows, warnings(view))
    )
    print("\n\n".join("\n".join(lines) for lines in tables))


def netns_enter(name: str) -> None:
    path = name if "/" in name else "/run/netns/" + name
    try:
        with open(path) as netns:
            if ctypes.CDLL(None, use_errno=True).setns(netns.fileno(), 0):
                raise OSError(
                    ctypes.get_errno(), os.strerror(ctypes.get_errno())
                )
    except PermissionError:
        raise TopError(
            "to enter network namespace %s, be root" % name
        ) from None
    except OSError as error:
        raise TopError(
            "network namespace %s: %s" % (name, error.strerror)
        ) from None


def shaper_check(args: argparse.Namespace) -> None:
    """Raise TopError with the reason if there is no shaper."""
    if args.device and args.device not in (n for _, n in socket.if_nameindex()):
        raise TopError("there is no device %s" % args.device)
    if sample_take(args.device, with_classes=False).shapers:
        return
    if not os.path.exists("/sys/module/sch_bpshaper"):
        raise TopError(
            "no shaper found, and the module sch_bpshaper is not loaded"
        )
    where = args.device or "any device"
    inside = " of network namespace " + args.netns if args.netns else ""
    raise TopError("no qdisc of kind bpshaper on %s%s" % (where, inside))


def limits_tell() -> None:
    """Warn about what cannot be shown."""
    if not shutil.which("ss"):
        print(
            NAME + ": there is no ss: no ports and processes", file=sys.stderr
        )
    elif os.geteuid() != 0:
        print(
            NAME + ": not root: of other users' sockets no process is shown",
            file=sys.stderr,
        )


def main(words: List[str]) -> int:
    args = arguments_parse(words)
    # End silently if the reader ends first, as head does.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        if args.netns:
            netns_enter(args.netns)
        shaper_check(args)
        limits_tell()
        if args.check:
            found = check(args.device, has_sys=not args.netns)
            print("\n".join(found) or "nothing was found")
            return 3 if found else 0
        if args.once:
            once(args)
        else:
            live(args)
    except TopError as error:
        print("%s: %s" % (NAME, printable(str(error))), file=sys.stderr)
        return 1
    except OSError as error:
        print(
            "%s: cannot read from the kernel: %s" % (NAME, error),
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
