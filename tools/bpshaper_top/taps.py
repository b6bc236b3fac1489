# SPDX-License-Identifier: GPL-2.0-only
"""Taps that processes have open, and their send buffers.

Another process's descriptor is duplicated by pidfd_getfd(2), which needs root,
Python 3.9 and Linux 5.6.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import stat
import struct
import time
from typing import Iterator, List, NamedTuple, Optional, Tuple

UNBOUNDED = 2**31 - 1
HELD = 2**20 + 1  # BPSHAPER_TAP_SNDBUF: of an unbounded tap that bpshaper holds
MOST = 1 << 28  # BPSHAPER_CHARGE_MAX: above it bpshaper holds nobody
TUN = "/dev/net/tun"
PIDFD_GETFD = 438  # on all architectures but Alpha

# From include/uapi/linux/if_tun.h. Where _IOW is 4, three bits are for it.
IS_WIDE = os.uname().machine.startswith(("mips", "ppc", "sparc"))
WRITE, READ, SHIFT = (4, 2, 29) if IS_WIDE else (1, 2, 30)
TUNGETIFF, TUNGETSNDBUF, TUNSETSNDBUF = (
    direction << SHIFT | 4 << 16 | ord("T") << 8 | number
    for direction, number in ((READ, 210), (READ, 211), (WRITE, 212))
)


class Tap(NamedTuple):
    device: str
    pid: int
    process: str
    sndbuf: int  # bytes
    is_vhost: bool  # the process has vhost-net open

    def held(self) -> str:
        """Can bpshaper hold it? What a process writes itself has an owner;
        what vhost-net sends has one only if there is a send buffer. With one
        that cannot be filled its packets are in the pool: somebody has chosen
        that, as no default is above MOST but UNBOUNDED.
        """
        if self.sndbuf == UNBOUNDED:
            return "no" if self.is_vhost else "yes"
        return "yes" if self.sndbuf <= MOST else "pool"


def is_tap(path: str, link: str) -> bool:
    """Is the descriptor at @path, a link to @link, of a tap? Each macvtap and
    ipvtap has a character device of its own. Anybody can have a file of such a
    name in a mount namespace, or in a file system of FUSE: to close a duplicate
    of that waits for its owner, and no signal ends the wait.
    """
    if link != TUN and not re.fullmatch(r"/dev/tap\d+", link):
        return False
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISCHR(status.st_mode) and (
        link != TUN or status.st_rdev == os.makedev(10, 200)
    )


def links(pid: str) -> Iterator[Tuple[int, str]]:
    """Descriptors of a process, and what they are of."""
    directory = "/proc/%s/fd/" % pid
    try:
        for fd in os.listdir(directory):
            yield int(fd), os.readlink(directory + fd)
    except OSError:
        pass  # it has ended, or closed the descriptor


def descriptors() -> Iterator[Tuple[int, int, str, bool]]:
    """Process, descriptor, name of the process, and whether it has vhost-net."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        found = list(links(pid))
        fds = [fd for fd, link in found if is_tap("/proc/%s/fd/%d" % (pid, fd), link)]
        if not fds:
            continue
        is_vhost = any(link == "/dev/vhost-net" for _, link in found)
        try:
            with open("/proc/%s/comm" % pid, "rb") as file:
                name = file.read()[:-1].decode(errors="replace")
        except OSError:
            continue  # it has ended
        for fd in fds:
            yield int(pid), fd, name, is_vhost


def duplicate(pid: int, fd: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    try:
        copy = libc.syscall(PIDFD_GETFD, process, fd, 0)
    finally:
        os.close(process)
    if copy < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(copy)


def look(
    copy: int, devices: List[str], sndbuf: Optional[int]
) -> Optional[Tuple[str, int]]:
    """The device of a descriptor, if it is one of @devices, and its send buffer,
    which becomes @sndbuf. What bpshaper gives a tap for a while is none.
    """
    try:
        device = fcntl.ioctl(copy, TUNGETIFF, bytes(40))[:16]
    except OSError as error:
        if error.errno in (errno.EBADFD, errno.ENOLINK):
            return None  # it has no device yet, or no longer
        raise
    device = device.split(b"\0")[0].decode(errors="replace")
    if devices and device not in devices:
        return None
    if sndbuf:
        fcntl.ioctl(copy, TUNSETSNDBUF, struct.pack("i", sndbuf))
    has = struct.unpack("i", fcntl.ioctl(copy, TUNGETSNDBUF, bytes(4)))[0]
    return device, UNBOUNDED if has == HELD else has


def taps_find(
    devices: List[str], sndbuf: Optional[int] = None
) -> Tuple[List[Tap], List[str]]:
    """The taps of @devices, or all there are, which get @sndbuf; and errors."""
    taps: List[Tap] = []
    errors = []
    for pid, fd, name, is_vhost in descriptors():
        try:
            copy = duplicate(pid, fd)
        except OSError as error:
            if error.errno not in (errno.ESRCH, errno.EBADF):
                errors.append("%s (%d): %s" % (name, pid, error.strerror))
            continue
        try:
            found = look(copy, devices, sndbuf)
        except OSError as error:
            errors.append("%s (%d): %s" % (name, pid, error.strerror))
        else:
            tap = Tap(found[0], pid, name, found[1], is_vhost) if found else None
            if tap and tap not in taps:
                taps.append(tap)
        finally:
            os.close(copy)
    missing = sorted(set(devices) - {tap.device for tap in taps})
    errors += ["%s: no process has this tap open" % device for device in missing]
    return sorted(taps), errors


class Unheld:
    """Taps that cannot be held. They are looked for now and then only."""

    def __init__(self, seconds: float = 5) -> None:
        self.seconds = seconds
        self.due = 0.0
        self.taps: List[Tap] = []

    def look(self) -> List[Tap]:
        if time.monotonic() >= self.due and not os.geteuid():
            self.due = time.monotonic() + self.seconds
            try:
                self.taps = [t for t in taps_find([])[0] if t.held() == "no"]
            except (AttributeError, OSError):
                pass  # an older Python or kernel
        return self.taps
