# SPDX-License-Identifier: GPL-2.0-only
"""The clients of bench/programs.sh.

usage: programs.py ask PORT KIND SECONDS NETNS:ADDRESS:RATE...
       programs.py feed PORT SECONDS RATE SIZE FILE

ask asks the server at each ADDRESS, from that network namespace, RATE times a second, and
prints what came back as JSON, the keys of the second one with other_ before. KIND is dns or
ntp. feed sends messages to 127.0.0.1, counts those that come to port 514 of 10.99.0.2, where
nobody else listens, within SECONDS after the last, and lines of FILE when that was sent.
"""

import ctypes
import json
import os
import select
import socket
import statistics
import struct
import sys
import time

CLONE_NEWNET = 0x40000000
NETNS_TX, NETNS_RX = os.environ["tx"], os.environ["rx"]


def udp_socket(netns):
    """Of that network namespace."""
    with open(f"/run/netns/{netns}") as file:
        if ctypes.CDLL(None).setns(file.fileno(), CLONE_NEWNET):
            raise OSError(netns)
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    return own


def question(kind, number):
    if kind == "ntp":
        return bytes([0x23]) + bytes(39) + struct.pack("!Q", number)
    head = struct.pack("!HHHHHH", number, 0x0100, 1, 0, 0, 1)
    name = b"\x03big\x04test\x00" + struct.pack("!HH", 16, 1)
    return head + name + b"\x00" + struct.pack("!HHIH", 41, 4096, 0, 0)


def number_of(kind, answer):
    """Of the question that is answered; NTP returns its transmit time."""
    if kind == "ntp":
        return struct.unpack("!Q", answer[24:32])[0] & 0xFFFF
    return struct.unpack("!H", answer[:2])[0]


class Client:
    def __init__(self, netns, address, rate, port):
        self.own = udp_socket(netns)
        self.own.connect((address, int(port)))
        self.gap, self.asked, self.waits, self.bytes = 1 / float(rate), {}, [], 0

    def report(self, prefix):
        waits = sorted(self.waits) or [0]
        return {
            prefix + "given": len(self.asked),
            prefix + "arrived": len(self.waits),
            prefix + "age_p50_ms": 1e3 * statistics.median(waits),
            prefix + "age_p99_ms": 1e3 * waits[len(waits) * 99 // 100],
        }


def ask(port, kind, seconds, *clients):
    clients = [Client(*words.split(":"), port) for words in clients]
    by_fd = {client.own.fileno(): client for client in clients}
    begin = time.monotonic()
    end = begin + float(seconds)
    while (now := time.monotonic()) < end + 3:
        due = min((begin + len(c.asked) * c.gap for c in clients), default=end)
        for client in clients:
            at = begin + len(client.asked) * client.gap
            if now < end and at <= now:
                number = len(client.asked)
                client.asked[number] = now
                client.own.send(question(kind, number))
        wait = max(0, due - time.monotonic()) if now < end else 0.1
        for fd in select.select(list(by_fd), [], [], wait)[0]:
            client = by_fd[fd]
            try:
                answer = client.own.recv(65536)
            except ConnectionRefusedError:
                continue
            number = number_of(kind, answer)
            client.waits.append(time.monotonic() - client.asked[number])
    report = clients[0].report("")
    report |= clients[1].report("other_") if len(clients) > 1 else {}
    print(json.dumps(report))


def feed(port, seconds, rate, size, path):
    sink, own = udp_socket(NETNS_RX), udp_socket(NETNS_TX)
    sink.bind(("", 514))
    sink.setblocking(False)
    given, count, begin = 4 * int(rate), 0, time.monotonic()
    for number in range(given):
        text = f"<13>Dec  1 00:00:00 host app: {number} ".encode()
        own.sendto(text.ljust(int(size), b"x"), ("127.0.0.1", int(port)))
        time.sleep(max(0, begin + number / int(rate) - time.monotonic()))
    with open(path, "rb") as file:
        lines = file.read().count(b"\n")
    end = time.monotonic() + float(seconds)
    while (left := end - time.monotonic()) > 0:
        if not select.select([sink], [], [], left)[0]:
            break
        sink.recv(65536)
        count += 1
    print(json.dumps({"given": given, "arrived": count, "other_given": given,
                      "other_arrived": lines}))


{"ask": ask, "feed": feed}[sys.argv[1]](*sys.argv[2:])
