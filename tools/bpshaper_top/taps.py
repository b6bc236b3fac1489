# SPDX-License-Identifier: GPL-2.0-only
"""Taps that processes have open, and their send buffers."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from .descriptors import (
    TUN,
    VHOST_NET,
    character_device,
    devices,
    duplicate,
    lower_devices,
    lower_majors,
)

UNBOUNDED = 2**31 - 1
UNKNOWN = -1  # of macvtaps and ipvtaps: their driver has no TUNGETSNDBUF
HELD = 2**20 + 1  # BPSHAPER_TAP_SNDBUF: of an unbounded tap that bpshaper holds
MOST = 1 << 28  # BPSHAPER_CHARGE_MAX: above it bpshaper holds nobody

# From include/uapi/linux/if_tun.h. Where _IOW is 4, three bits are for it.
IS_WIDE = os.uname().machine.startswith(("ppc", "sparc"))
WRITE, READ, SHIFT = (4, 2, 29) if IS_WIDE else (1, 2, 30)
TUNGETIFF, TUNGETSNDBUF, TUNSETSNDBUF = (
    direction << SHIFT | 4 << 16 | ord("T") << 8 | number
    for direction, number in ((READ, 210), (READ, 211), (WRITE, 212))
)
TUNGETDEVNETNS = IS_WIDE << SHIFT | ord("T") << 8 | 227
IFF_DETACH_QUEUE = 0x0400


class Tap(NamedTuple):
    device: str
    pid: int
    process: str
    sndbuf: int  # bytes
    vhost: str  # does vhost-net serve it? yes, no or perhaps
    is_unheld: bool  # can bpshaper not hold it, though nobody has chosen that?

    def held(self) -> str:
        """Can bpshaper hold it? What a process writes itself has an owner;
        what vhost-net sends has one only if there is a send buffer. With one
        that cannot be filled its packets are in the pool: somebody has chosen
        that, as no default is above MOST but UNBOUNDED.
        """
        if self.sndbuf == UNKNOWN:
            return "perhaps"
        if self.sndbuf == UNBOUNDED:
            return {"yes": "no", "no": "yes"}.get(self.vhost, self.vhost)
        return "yes" if self.sndbuf <= MOST else "pool"


class Queue(NamedTuple):
    """A descriptor of a tap."""

    device: str
    sndbuf: int
    is_chosen: bool  # it is what the caller looks for
    is_elsewhere: bool = False  # it is so by its name only


class Process(NamedTuple):
    pid: int
    name: str
    fds: List[int]  # of taps, perhaps
    vhosts: int  # how often it has vhost-net open


class Choice:
    """Taps of these names, or all, in the network namespace of the caller, or
    everywhere.
    """

    def __init__(self, names: List[str], everywhere: bool = False) -> None:
        self.names, self.everywhere = names, everywhere
        self.netns = os.stat("/proc/self/ns/net")
        self.majors = lower_majors()
        self.lower: Optional[Set[int]] = None

    def is_tap(self, device: Optional[int]) -> bool:
        return device is not None and (
            device == TUN or os.major(device) in self.majors
        )

    def has_tun(self, copy: int) -> bool:
        netns = fcntl.ioctl(copy, TUNGETDEVNETNS)
        try:
            return os.path.samestat(os.fstat(netns), self.netns)
        finally:
            os.close(netns)

    def has_name(self, name: str) -> bool:
        return not self.names or name in self.names

    def is_here(self, copy: int, device: int) -> bool:
        if self.everywhere:
            return True
        if device == TUN:
            return self.has_tun(copy)
        if self.lower is None:  # few hosts have any
            self.lower = lower_devices()
        return device in self.lower


def processes(choice: Choice) -> Iterator[Process]:
    """Those that have taps open."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        found = list(devices(pid))
        fds = [fd for fd, device in found if choice.is_tap(device)]
        if not fds:
            continue
        vhosts = [device for _, device in found].count(VHOST_NET)
        try:
            with open("/proc/%s/comm" % pid, "rb") as file:
                name = file.read()[:-1].decode(errors="replace")
        except OSError:
            continue  # it has ended
        yield Process(int(pid), name, fds, vhosts)


def sndbuf_get(copy: int) -> int:
    """What bpshaper gives a tap for a while is no send buffer."""
    has = struct.unpack("i", fcntl.ioctl(copy, TUNGETSNDBUF, bytes(4)))[0]
    return UNBOUNDED if has == HELD else int(has)


def look(copy: int, choice: Choice, sndbuf: Optional[int]) -> Optional[Queue]:
    """What a duplicate is of. If it is of a tap of @choice, that gets @sndbuf.
    A queue that the machine has switched off is not listed, and the driver sets
    none for it.
    """
    # The process may have put another file in its place since devices(): no
    # ioctl of root's for a device that is not known.
    device = character_device(os.fstat(copy))
    if device is None or not choice.is_tap(device):
        return None
    try:
        answer = fcntl.ioctl(copy, TUNGETIFF, bytes(40))
        name = answer[:16].split(b"\0")[0].decode(errors="replace")
        (flags,) = struct.unpack("H", answer[16:18])
        has_name = choice.has_name(name)
        is_here = has_name and choice.is_here(copy, device)
    except OSError as error:
        if error.errno in (errno.EBADFD, errno.ENOLINK):
            return None  # it has no device yet, or no longer
        raise
    has = UNKNOWN
    is_chosen = is_here and not (device == TUN and flags & IFF_DETACH_QUEUE)
    if is_chosen and sndbuf:
        fcntl.ioctl(copy, TUNSETSNDBUF, struct.pack("i", sndbuf))
        has = sndbuf
    if device == TUN:
        has = sndbuf_get(copy)
    return Queue(name, has, is_chosen, has_name and not is_here)


def queues(
    process: Process, choice: Choice, sndbuf: Optional[int], errors: List[str]
) -> Iterator[Queue]:
    for fd in process.fds:
        try:
            with duplicate(process.pid, fd) as copy:
                found = look(copy, choice, sndbuf)
        except OSError as error:
            if error.errno not in (errno.ESRCH, errno.EBADF):
                errors.append(
                    "%s (%d): %s" % (process.name, process.pid, error.strerror)
                )
            continue
        if found:
            yield found


def taps_of(process: Process, found: List[Queue]) -> List[Tap]:
    """The kernel does not tell which of its queues a process has given to
    vhost-net, which it opens once for each. If these are fewer, a queue without
    a send buffer may be one that the process writes itself. It is not if more
    are served than have a send buffer.
    """
    count = process.vhosts
    vhost = "perhaps" if 0 < count < len(found) else "yes" if count else "no"
    bounded = sum(queue.sndbuf != UNBOUNDED for queue in found)
    return [
        Tap(
            queue.device,
            process.pid,
            process.name,
            queue.sndbuf,
            vhost,
            queue.sndbuf == UNBOUNDED and count > bounded,
        )
        for queue in found
        if queue.is_chosen
    ]


def taps_find(
    names: List[str], sndbuf: Optional[int] = None, everywhere: bool = False
) -> Tuple[List[Tap], List[str]]:
    """The taps of these names, or all there are, in the network namespace of
    the caller, or everywhere; they get @sndbuf. And errors.
    """
    taps: Set[Tap] = set()
    errors: List[str] = []
    elsewhere: Dict[str, str] = {}
    choice = Choice(names, everywhere)
    for process in processes(choice):
        found = list(queues(process, choice, sndbuf, errors))
        taps.update(taps_of(process, found))
        for queue in found:
            if queue.is_elsewhere:
                elsewhere[queue.device] = (
                    "that of %s (%d) is in another network namespace"
                    % (process.name, process.pid)
                )
    for name in sorted(set(names) - {tap.device for tap in taps}):
        why = elsewhere.get(name, "no process has this tap open")
        errors.append("%s: %s" % (name, why))
    return sorted(taps), errors


class Unheld:
    """Taps that cannot be held, in the network namespace of the caller, or
    everywhere: a shaper of the host also holds what comes from containers. They
    are looked for now and then only.
    """

    def __init__(self, everywhere: bool, seconds: float = 5) -> None:
        self.everywhere, self.seconds = everywhere, seconds
        self.due = 0.0
        self.taps: List[Tap] = []

    def look(self) -> List[Tap]:
        if time.monotonic() >= self.due and not os.geteuid():
            self.due = time.monotonic() + self.seconds
            try:
                found, _ = taps_find([], everywhere=self.everywhere)
                self.taps = [tap for tap in found if tap.is_unheld]
            except (AttributeError, OSError):
                pass  # an older Python or kernel
        return self.taps
