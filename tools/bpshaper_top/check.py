# SPDX-License-Identifier: GPL-2.0-only
"""What on this host will hurt the programs that a shaper holds, or the shaper."""

from __future__ import annotations

import glob
import os
import re
from typing import Iterator, List, Optional

from .as_text import printable
from .sample import Sample, sample_take
from .sockets import (
    SS_INODE_COOKIE,
    Process,
    Processes,
    processes_by_socket,
    ss_output,
)
from .taps import Unheld
from .unheld import bridge_takes_owners

# What a program of this name does when it cannot send, as measured on Debian 12
# with a full send buffer. A name has 15 characters at most.
STALLS = "serves nobody while it waits to send, also not on other devices"
DROPS = "drops what it cannot send, and may count it as sent"
SPINS = "tries again at once when it cannot send, and uses the CPU"
KINDS = {
    STALLS: "unbound nsd dnsdist rsyslogd collectd openvpn wireguard-go ffmpeg "
    "srt-live-transm memcached",
    DROPS: "chronyd tincd fastd knotd pdns_server pdns_recursor rtpengine "
    "turnserver haproxy nginx snmpd",
    SPINS: "uftp dnsmasq",
}
KIND = {name: kind for kind in KINDS for name in KINDS[kind].split()}

REMOVERS = "ovs-vswitchd", "libvirtd", "virtqemud"
NETWORKMANAGER = "/etc/NetworkManager/system-connections/*"
NETWORKD = "/etc/systemd/network/*.network", "/run/systemd/network/*.network"
# Sections of systemd.network(5) that make a root qdisc
QDISC = re.compile(
    r"^\[(tc|BFIFO|CAKE|ControlledDelay|DeficitRoundRobinScheduler|"
    r"EnhancedTransmissionSelection|FairQueueing.*|FlowQueuePIE|"
    r"GenericRandomEarlyDetection|HeavyHitterFilter|HierarchyTokenBucket|"
    r"NetworkEmulator|PFIFO.*|PIE|QuickFairQueueing|Stochastic.*|"
    r"TokenBucketFilter|TrivialLinkEqualizer)\]$",
    re.MULTILINE,
)

SS_UDP = "ss --no-header --all --numeric --extended --memory --udp"
BUFFER_MOST = 1 << 20  # bytes; the default is 208 KiB


def bridges(sample: Sample) -> Iterator[str]:
    for device in sorted({shaper.device for shaper in sample.shapers}):
        if bridge_takes_owners(device):
            yield (
                "%s: br_netfilter is on and %s is a bridge port: what others "
                "send over the bridge is dropped, not held" % (device, device)
            )


def taps() -> Iterator[str]:
    for tap in Unheld(everywhere=False).look():
        yield (
            "%s: vhost-net serves it without a send buffer: the machine is not "
            "held, see bpshaper-tap(8)" % tap.device
        )


def programs(owners: List[Process]) -> Iterator[str]:
    for name, pid in sorted({(one.name, one.pid) for one in owners}):
        if name in KIND:
            yield "%s (%d) %s" % (name, pid, KIND[name])


def slowest(sample: Sample) -> Optional[int]:
    """The least rate, in bytes/s; None if nothing has one."""
    rates = [shaper.rate for shaper in sample.shapers if shaper.rate]
    return min(rates, default=None)


def buffers(text: str, processes: Processes, rate: int) -> Iterator[str]:
    """The line of a socket is followed by that of its memory."""
    lines = text.split("\n")
    for line, behind in zip(lines, lines[1:]):
        found = SS_INODE_COOKIE.search(line)
        size = re.search(r"^\s+skmem:\(.*\btb([0-9]+)", behind)
        if not found or not size or int(size.group(1)) < BUFFER_MOST:
            continue
        for one in processes.get(int(found.group(1)), [])[:1]:
            yield "%s (%d) has a send buffer of %.1f MiB: %.1f s at the rate" % (
                one.name,
                one.pid,
                int(size.group(1)) / 2**20,
                int(size.group(1)) / rate,
            )


def has_qdisc(*patterns: str) -> Optional[str]:
    """A file that sets a root qdisc."""
    for pattern in patterns:
        for path in sorted(glob.glob(pattern)):
            try:
                with open(path, errors="replace") as file:
                    if QDISC.search(file.read()):
                        return path
            except OSError:
                continue
    return None


def removers() -> Iterator[str]:
    """Programs that remove or replace a root qdisc."""
    names = set()
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            with open(path, errors="replace") as file:
                names.add(file.read()[:-1])
        except OSError:
            continue
    told = {name: name for name in REMOVERS}
    told["NetworkManager"] = has_qdisc(NETWORKMANAGER) or ""
    told["systemd-network"] = has_qdisc(*NETWORKD) or ""
    for name in sorted(names & told.keys()):
        if told[name]:
            yield "%s may remove the qdisc: see limits.rst" % told[name]


def check(device: Optional[str], has_sys: bool) -> List[str]:
    """Lines about all that was found. @has_sys: /sys has the devices."""
    sample = sample_take(device, with_classes=False)
    processes = processes_by_socket()
    text, rate = ss_output(None, SS_UDP), slowest(sample)
    owners = [
        one
        for inode, _ in SS_INODE_COOKIE.findall(text)
        for one in processes.get(int(inode), [])
    ]
    found = list(bridges(sample)) if has_sys else []
    found += list(taps()) + list(programs(owners))
    if rate:
        found += buffers(text, processes, rate)
    return [printable(line) for line in found + list(removers())]
