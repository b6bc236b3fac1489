# SPDX-License-Identifier: GPL-2.0-only
"""Descriptors of other processes, and the devices that they are of.

A descriptor is duplicated by pidfd_getfd(2), which needs root, Python 3.9 and
Linux 5.6.
"""

from __future__ import annotations

import ctypes
import os
import re
import stat
from contextlib import contextmanager
from typing import Any, Iterator, Optional, Set, Tuple

# On all architectures but Alpha and MIPS.
PIDFD_GETFD = 438
FSOPEN, FSCONFIG, FSMOUNT = 430, 431, 432
FSOPEN_CLOEXEC, FSCONFIG_CMD_CREATE, FSMOUNT_CLOEXEC = 1, 6, 1

# Fixed numbers, from include/linux/miscdevice.h.
TUN, VHOST_NET = os.makedev(10, 200), os.makedev(10, 238)
LOWER = ("macvtap", "ipvtap")


def syscall(number: int, *arguments: Any) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(result)


def lower_majors() -> Set[int]:
    """Of the character devices of macvtaps and ipvtaps."""
    with open("/proc/devices") as file:
        characters = file.read().split("Block devices")[0]
    rows = re.findall(r"^ *(\d+) (\S+)$", characters, re.MULTILINE)
    return {int(major) for major, name in rows if name in LOWER}


def character_device(status: os.stat_result) -> Optional[int]:
    return status.st_rdev if stat.S_ISCHR(status.st_mode) else None


def links(pid: str) -> Iterator[Tuple[int, str]]:
    """Descriptors of a process, and what they are of."""
    directory = "/proc/%s/fd/" % pid
    try:
        for fd in os.listdir(directory):
            yield int(fd), os.readlink(directory + fd)
    except OSError:
        pass  # it has ended, or closed the descriptor


def devices(pid: str) -> Iterator[Tuple[int, int]]:
    """Descriptors of a process that are of character devices, and the numbers
    of these. A name proves nothing: in a mount namespace any file may have it.
    It only spares a look at files whose file system may wait for a server. To
    close a duplicate of a file of FUSE waits for its owner, and no signal ends
    the wait, so the number is asked before a duplicate is taken.
    """
    for fd, link in links(pid):
        if not link.startswith("/dev/"):
            continue
        try:
            device = character_device(os.stat("/proc/%s/fd/%d" % (pid, fd)))
        except OSError:
            continue
        if device is not None:
            yield fd, device


@contextmanager
def duplicate(pid: int, fd: int) -> Iterator[int]:
    process = os.pidfd_open(pid)
    try:
        copy = syscall(PIDFD_GETFD, process, fd, 0)
    finally:
        os.close(process)
    try:
        yield copy
    finally:
        os.close(copy)


def sysfs_mount() -> int:
    """A descriptor of a sysfs that shows the network namespace of the caller
    and is mounted nowhere. That of /sys may be of another one.
    """
    context = syscall(FSOPEN, b"sysfs", FSOPEN_CLOEXEC)
    try:
        syscall(FSCONFIG, context, FSCONFIG_CMD_CREATE, None, None, 0)
        return syscall(FSMOUNT, context, FSMOUNT_CLOEXEC, 0)
    finally:
        os.close(context)


def class_devices(name: str, sysfs: int) -> Iterator[int]:
    """Numbers of the devices of a class of sysfs."""
    try:
        directory = os.open("class/" + name, os.O_RDONLY, dir_fd=sysfs)
    except FileNotFoundError:
        return  # the module is not loaded
    try:
        for entry in os.listdir(directory):
            try:
                fd = os.open(entry + "/dev", os.O_RDONLY, dir_fd=directory)
            except FileNotFoundError:
                continue  # it has been removed
            with os.fdopen(fd) as file:
                major, minor = file.read().split(":")
            yield os.makedev(int(major), int(minor))
    finally:
        os.close(directory)


def lower_devices() -> Set[int]:
    """Numbers of the character devices of the macvtaps and ipvtaps that are in
    the network namespace of the caller.
    """
    sysfs = sysfs_mount()
    try:
        return {
            device for name in LOWER for device in class_devices(name, sysfs)
        }
    finally:
        os.close(sysfs)
