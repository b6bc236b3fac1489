# SPDX-License-Identifier: GPL-2.0-only
"""Sockets: what ss knows of them, and the processes that hold them."""

from __future__ import annotations

import os
import re
import subprocess
import time
from dataclasses import dataclass, field
from typing import Dict, Iterable, Iterator, List, Optional, Set, Tuple


@dataclass
class Process:
    name: str
    pid: int
    fd: int


@dataclass
class Socket:
    netid: Optional[str] = None  # None: ss does not list this socket
    local: Optional[str] = None
    local_port: Optional[int] = None
    peer: Optional[str] = None
    peer_port: Optional[int] = None
    processes: List[Process] = field(default_factory=list)


Processes = Dict[int, List[Process]]  # by the inode of a socket that they hold


def link_read(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""  # it has been closed


def processes_by_socket(proc: str = "/proc") -> Processes:
    """Read /proc instead of asking ss: ss prints process names as they are, and
    a name with a newline could forge a line.
    """
    found: Processes = {}
    for pid in filter(str.isdigit, os.listdir(proc)):
        directory = "%s/%s/" % (proc, pid)
        try:
            fds = os.listdir(directory + "fd")
            with open(directory + "comm", "rb") as file:
                name = file.read()[:-1].decode(errors="replace")
        except OSError:
            continue  # it has ended, or we may not look at it
        for fd in fds:
            link = link_read(directory + "fd/" + fd)
            if link.startswith("socket:["):
                process = Process(name, int(pid), int(fd))
                found.setdefault(int(link[8:-1]), []).append(process)
    return found


SS = "ss --no-header --all --numeric --extended --tcp --udp --raw --packet"
SS_SENT = "ss --no-header --numeric --extended --info --tcp"
SS_INODE_COOKIE = re.compile(r" ino:([0-9]+) sk:([0-9a-f]+)")


def address_parse(netid: str, text: str) -> Tuple[str, Optional[int]]:
    """Split "10.0.0.1:53" and "[fe80::1]%eth0:*". Packet sockets have
    "ip:eth0", which is kept.
    """
    address, _, port = text.rpartition(":")
    if netid.startswith("p_") or port != "*" and not port.isdecimal():
        return text, None
    address = address.replace("[", "").replace("]", "")
    return address or "*", None if port == "*" else int(port)


def ss_parse(text: str, processes: Processes) -> Dict[int, Socket]:
    """Parse the lines of ss into sockets by cookie. Names of devices and
    cgroups cannot forge a field: no device name has a space, no cgroup name has
    a newline, and cgroups come last.
    """
    sockets = {}
    for line in text.split("\n"):
        words = re.split(" +", line, 6)
        found = SS_INODE_COOKIE.search(line)
        if not found or len(words) < 7:
            continue
        netid, _, _, _, local, peer, _ = words
        sockets[int(found.group(2), 16)] = Socket(
            netid,
            *address_parse(netid, local),
            *address_parse(netid, peer),
            processes.get(int(found.group(1)), []),
        )
    return sockets


def sent_parse(text: str) -> Dict[int, int]:
    """What TCP sockets have sent, by cookie: ss has it in the line behind that
    of the socket.
    """
    sent, lines = {}, text.split("\n")
    for line, behind in zip(lines, lines[1:]):
        found = SS_INODE_COOKIE.search(line)
        count = re.search(r"^\s.* bytes_sent:([0-9]+)", behind)
        if found and count:
            sent[int(found.group(2), 16)] = int(count.group(1))
    return sent


def ss_output(netns: Optional[str], command_line: str) -> str:
    """Of this network namespace or of that of a path. Nothing if there is no
    ss.
    """
    command = ["nsenter", "--net=" + netns] if netns else []
    try:
        done = subprocess.run(
            command + command_line.split(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        return ""
    return done.stdout.decode(errors="replace")


def ss_run(netns: Optional[str], processes: Processes) -> Dict[int, Socket]:
    return ss_parse(ss_output(netns, SS), processes)


def other_netns() -> Iterator[str]:
    """A path for each other network namespace that has processes. Sockets are
    in them if the shaper is on a bridge: packets of containers keep their
    sockets.
    """
    seen = {os.stat("/proc/self/ns/net").st_ino}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        path = "/proc/%s/ns/net" % pid
        try:
            inode = os.stat(path).st_ino
        except OSError:
            continue  # it has ended, or we may not look at it
        if inode not in seen:
            seen.add(inode)
            yield path


class Directory:
    """Sockets by cookie. The kernel never reuses a cookie, so ss is asked for
    new ones only: first in our network namespace, then in the others, one by
    one. A look-up stops after some seconds. The next one continues there.
    """

    def __init__(self, seconds: float = 0.25) -> None:
        self.seconds = seconds
        self.known: Dict[int, Socket] = {}
        self.netns: Dict[int, Optional[str]] = {}  # in which they were found
        self.sent: Dict[int, Tuple[float, int]] = {}  # when, and how much
        self.rates: Dict[int, float] = {}
        self.sought: Set[int] = set()  # not found in this round so far
        self.others: Iterator[str] = iter(())  # not yet asked in this round

    def look_up(self, cookies: Iterable[int]) -> Dict[int, Socket]:
        wanted = set(cookies)
        if wanted - self.known.keys():
            self.known = {c: s for c, s in self.known.items() if c in wanted}
            self.netns = {c: n for c, n in self.netns.items() if c in wanted}
            self.sought &= wanted
            self.learn(wanted)
        return {cookie: self.known.get(cookie, Socket()) for cookie in wanted}

    def measure(self, tcp: Iterable[int]) -> None:
        """Find the bytes/s of these TCP sockets since the last call, as far as
        they were there then. The kernel counts nothing of other sockets.
        """
        wanted, old = {self.netns.get(cookie) for cookie in tcp}, self.sent
        self.sent, self.rates = {}, {}
        for netns in wanted:
            now = time.monotonic()
            for cookie, sent in sent_parse(ss_output(netns, SS_SENT)).items():
                self.sent[cookie] = now, sent
                then, before = old.get(cookie, (now, 0))
                if now > then and sent >= before:
                    self.rates[cookie] = (sent - before) / (now - then)

    def learn(self, wanted: Set[int]) -> None:
        processes = processes_by_socket()
        self.ask(None, wanted, processes)
        end = time.monotonic() + self.seconds
        while wanted - self.known.keys() and time.monotonic() < end:
            netns = next(self.others, None)
            if netns:
                self.ask(netns, wanted, processes)
            else:
                self.round_begin(wanted - self.known.keys())

    def ask(
        self, netns: Optional[str], wanted: Set[int], processes: Processes
    ) -> None:
        found = ss_run(netns, processes)
        for cookie in wanted & found.keys():
            self.known.setdefault(cookie, found[cookie])
            self.netns[cookie] = netns

    def round_begin(self, unknown: Set[int]) -> None:
        """A socket that a whole round did not find has been closed."""
        self.known.update(
            (cookie, Socket()) for cookie in unknown & self.sought
        )
        self.sought = unknown - self.sought
        self.others = other_netns()
