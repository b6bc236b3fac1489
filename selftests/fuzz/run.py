# SPDX-License-Identifier: GPL-2.0-only
"""The steps of a run, and the checks after each.

A step is a method of Run in STEPS: it sends a message or two, asks the model
what must become of it, and compares that with the ack and with the dump that
follows. Traffic flows beside it.
"""
import errno
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import time

from class_steps import ClassSteps, refusal
from classes import Classes
from generator import MINORS, Generator
from model import Model, Refused, option_bytes
from netlink import (ACK, CREATE, DELQDISC, DELTCLASS, DUMP, EXCL, GETTCLASS,
                     HANDLE, MSG_DONE, NESTED, NEWQDISC, NEWTFILTER, REPLACE,
                     TCA_KIND, TCA_OPTIONS, Kernel, attr_bytes,
                     attrs_walk)
from options import (BURST, CLASS_OPTIONS, DEFAULT, DEFAULTS, LIMIT,
                     MEMORY, QUEUES, RATE, REFUSALS, SHARE_MIN, U32_MAX)

MAX_FAILURES, CHECKPOINT = 10, 250

# Messages whose options are good and whose other fields are wrong: the fields,
# the errno (None: any), and a part of the text.
STRANGE = (
    (dict(kind=NEWQDISC, flags=EXCL), errno.EEXIST, "Exclusivity"),
    (dict(kind=NEWQDISC, flags=CREATE | EXCL), errno.EEXIST, "Exclusivity"),
    (dict(kind=NEWQDISC, flags=0, ifindex=2**31 - 1), errno.ENODEV, ""),
    (dict(kind=NEWQDISC, flags=0, handle=0, parent=0), errno.EINVAL, "Handle"),
    (dict(kind=NEWQDISC, flags=0, handle=0x20000, parent=0), errno.ENOENT, ""),
    (dict(kind=NEWQDISC, flags=0, handle=0x20000), errno.EEXIST, "REPLACE"),
    (dict(kind=NEWQDISC, flags=REPLACE, handle=0x20001), errno.EINVAL, "minor"),
    (dict(kind=NEWQDISC, flags=CREATE, parent=0x10001, handle=0x20000),
     errno.ENOENT, "class"),
    (dict(kind=NEWQDISC, flags=CREATE, parent=0x90001, handle=0x20000),
     errno.ENOENT, "specified qdisc"),
    (dict(kind=DELQDISC, flags=0, parent=0x10001, handle=0), errno.ENOENT, ""),
    (dict(kind=DELQDISC, flags=0, handle=0x30000), None, ""),
    (dict(kind=DELTCLASS, flags=0, parent=HANDLE, handle=0x10001), None, ""),
    (dict(kind=GETTCLASS, flags=0, parent=HANDLE, handle=0x10001), None, ""),
    (dict(kind=NEWTFILTER, flags=CREATE, parent=HANDLE, handle=0), None, ""),
)


def ip_link(*words):
    subprocess.run(["ip", "link", *words], check=True)


def traffic(address):
    """Fork a sender with four sockets, none of which blocks."""
    child = os.fork()
    if child:
        return child
    socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(4)]
    for sock, minor in zip(socks, (None, None, MINORS[0], MINORS[1])):
        sock.setblocking(False)
        if minor:	# the class that it names, if that is there
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY,
                            HANDLE | minor)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while os.getppid() != 1:
        for sock in socks:
            try:
                sock.sendto(bytes(700), (address, 9))
            except OSError:
                pass
        time.sleep(0.02)
    os._exit(0)


class Run(ClassSteps):
    def __init__(self, device, address, seed, messages):
        self.rng = random.Random(seed)
        self.generator, self.kernel = Generator(self.rng), Kernel()
        self.class_generator = Generator(self.rng, CLASS_OPTIONS, 0.18)
        self.messages, self.failures, self.refusals = messages, 0, {}
        self.accepted = self.at = self.throttles = 0
        self.used = socket.if_nametoindex(device)
        ip_link("add", "fuzz", "up", "numtxqueues", "4", "type", "dummy")
        self.new = socket.if_nametoindex("fuzz")
        self.tx_queues = len([name for name in os.listdir(
            f"/sys/class/net/{device}/queues") if name.startswith("tx-")])
        self.make(b"")
        self.address = address

    def make(self, blob):
        """A new qdisc in the place of the one with traffic."""
        self.send(DELQDISC, 0, self.used, None)
        self.model = Model(1500, 1000, self.tx_queues)
        self.model.classes = Classes(self.model)
        refused = self.outcome(self.model, blob)
        self.send(NEWQDISC, CREATE | EXCL, self.used, blob)
        self.compare(self.used, self.model, refused, "make")

    def fail(self, what, *details):
        self.failures += 1
        print(f"step {self.at}: {what}", *details, sep="\n  ", flush=True)

    def send(self, kind, flags, ifindex, blob, nested=NESTED,
             name=b"bpshaper\0", extra=b"", **more):
        attrs = attr_bytes(TCA_KIND, name) + extra
        if blob is not None:
            attrs += attr_bytes(TCA_OPTIONS | nested, blob)
        self.sent = self.kernel.message(kind, ACK | flags, ifindex, attrs,
                                        **more)
        try:
            self.kernel.sock.send(self.sent)
        except OSError as error:	# the socket itself refuses it
            self.fail(f"cannot send: {error}")
        return self.kernel.seq

    def compare(self, ifindex, model, refused, name, seq=None):
        """Check the answer to the last message, and the qdisc after it."""
        seq = self.kernel.seq if seq is None else seq
        state, acks = self.kernel.state(ifindex)
        ack = acks.get(seq)
        if ack is None:
            return self.fail(f"{name}: no answer", self.sent.hex())
        self.compare_ack(ack, refused, name)
        if model is None:
            if state and state.kind == "bpshaper":
                self.fail(f"{name}: refused, but there", self.sent.hex())
            return None
        return self.compare_state(state, model, name)

    def compare_ack(self, ack, refused, name):
        got = f"{errno.errorcode.get(ack.errno, ack.errno)} {ack.text!r}"
        if refused is None:
            self.accepted += 1
            if ack.errno:
                self.fail(f"{name}: refused: {got}", self.sent.hex())
            return
        self.refusals[refused.text] = self.refusals.get(refused.text, 0) + 1
        if ack.errno != refused.errno or not re.search(refused.text, ack.text):
            self.fail(f"{name}: {got}, expected "
                      f"{errno.errorcode[refused.errno]} {refused.text!r}",
                      self.sent.hex())
        elif refused.attr is not None:
            self.compare_offset(ack, refused, name)

    def compare_offset(self, ack, refused, name):
        kind = None
        if ack.offset is not None and ack.offset + 4 <= len(self.sent):
            kind = struct.unpack_from("=H", self.sent, ack.offset + 2)[0]
        if kind is None or kind & 0x3FFF != refused.attr:
            self.fail(f"{name}: {ack.text!r} points to attribute {kind}, "
                      f"expected {refused.attr}", self.sent.hex())

    def compare_state(self, state, model, name):
        if state is None or state.kind != "bpshaper":
            return self.fail(f"{name}: the qdisc is gone", self.sent.hex())
        if state.options != model.dump():
            self.fail(f"{name}: the dump is not the model's", self.sent.hex(),
                      f"dump  {state.options.hex()}",
                      f"model {model.dump().hex()}", f"model {model.shown()}")
            model.set = self.learn(state)
        elif state.counter("limit") != model.limit():
            self.fail(f"{name}: limit {state.counter('limit')}, expected "
                      f"{model.limit()}", self.sent.hex())
        by_counters, now = state.throttled()
        if by_counters != now:
            self.fail(f"{name}: {now} throttled, {by_counters} by counters")
        return state

    def learn(self, state):
        """The options of the dump, to go on after a failure."""
        return {QUEUES: 0, DEFAULT: 0} | {
            kind: int.from_bytes(state.options[at:at + length], sys.byteorder)
            for kind, at, length in attrs_walk(state.options)}

    def outcome(self, model, blob, nested=NESTED):
        """Change the model; return the refusal, or None."""
        if not nested:
            return Refused(errno.EINVAL, "NLA_F_NESTED is missing",
                           TCA_OPTIONS)
        return refusal(model.change, blob)

    def change(self):
        """A change of the qdisc with traffic."""
        blob = self.generator.nest()
        nested = NESTED if self.rng.random() < 0.98 else 0
        flags = self.rng.choice((0, 0, REPLACE, CREATE | REPLACE))
        refused = self.outcome(self.model, blob, nested)
        self.send(NEWQDISC, flags, self.used, blob, nested)
        self.compare(self.used, self.model, refused, "change")

    def add(self):
        """A new qdisc, on a device of any MTU. A refused one is not there."""
        mtu, queue = self.rng.choice(((1500, 1000), (68, 1), (9000, 2),
                                      (16000, 5000)))
        if self.rng.random() < 0.2:
            ip_link("set", "fuzz", "mtu", str(mtu), "txqlen", str(queue))
            self.new_device = mtu, queue
        model = Model(*getattr(self, "new_device", (1500, 1000)), 4)
        blob = self.generator.nest() if self.rng.random() < 0.95 else None
        refused = self.outcome(model, blob or b"")
        self.send(NEWQDISC, CREATE | EXCL, self.new, blob)
        state = self.compare(self.new, None if refused else model, refused,
                             "add")
        if not refused:
            if state and state.counter("share") != model.share():
                self.fail(f"add: share {state.counter('share')}, expected "
                          f"{model.share()}", self.sent.hex())
            self.send(DELQDISC, 0, self.new, None)
            self.compare(self.new, None, None, "delete")

    def pair(self):
        """Two messages in one datagram: the second counts from the first."""
        outcomes, datagram = [], b""
        for _ in range(2):
            blob = self.generator.good()
            outcomes.append((self.outcome(self.model, blob),
                             self.kernel.seq + 1))
            attrs = attr_bytes(TCA_KIND, b"bpshaper\0") + \
                attr_bytes(TCA_OPTIONS | NESTED, blob)
            datagram += self.kernel.message(NEWQDISC, ACK, self.used, attrs)
        self.sent = datagram
        self.kernel.sock.send(datagram)
        state, acks = self.kernel.state(self.used)
        for refused, seq in outcomes:
            if seq not in acks:
                self.fail("pair: no answer", datagram.hex())
                continue
            if refused:
                # Its offset counts from the header of its own message.
                refused.attr = None
            self.compare_ack(acks[seq], refused, "pair")
        self.compare_state(state, self.model, "pair")

    def strange(self):
        """A message that is wrong, and not its options: it changes nothing."""
        blob = self.generator.good()
        args, number, text = self.rng.choice(STRANGE)
        args = {"ifindex": self.used} | args
        seq = self.send(blob=blob, **args)
        state, acks = self.kernel.state(self.used)
        ack = acks.get(seq)
        if ack is None or not ack.errno or \
           number not in (None, ack.errno) or text not in ack.text:
            self.fail(f"strange {args}: {ack and vars(ack)}", self.sent.hex())
        self.compare_state(state, self.model, "strange")

    def cut(self):
        """A header that lies about the length of the message."""
        blob = self.generator.good()
        attrs = attr_bytes(TCA_KIND, b"bpshaper\0") + \
            attr_bytes(TCA_OPTIONS | NESTED, blob)
        full = 36 + len(attrs)
        # No length cuts the options: the parser would take what is left.
        length = self.rng.choice((0, 1, 15, 16, 17, 35, full + 1, full + 100,
                                  U32_MAX))
        self.sent = self.kernel.message(NEWQDISC, ACK, self.used, attrs,
                                        length=length)
        self.kernel.sock.send(self.sent)
        state, _ = self.kernel.state(self.used)
        self.compare_state(state, self.model, "cut")

    def classes(self):
        """List the classes, while they come and go."""
        self.kernel.sock.send(self.kernel.message(
            GETTCLASS, DUMP, self.used, handle=0, parent=0))
        last, done = self.kernel.seq, False
        while not done:
            for _, kind, seq, _, _ in self.kernel.answers():
                done = done or kind == MSG_DONE and seq == last

    def checkpoint(self):
        """Without classes, and with options that allow it, traffic flows at
        once. Then there is another qdisc, with or without several queues.
        """
        self.classes_clear()
        options = DEFAULTS | {
            QUEUES: self.model.set[QUEUES], RATE: 10**7, BURST: 20000,
            LIMIT: 10**5, MEMORY: 2**25, SHARE_MIN: 3000}
        blob = b"".join(option_bytes(*option) for option in options.items())
        refused = self.outcome(self.model, blob)
        self.send(NEWQDISC, 0, self.used, blob)
        state = self.compare(self.used, self.model, refused, "checkpoint")
        begin, packets = time.monotonic(), state.packets if state else 0
        while time.monotonic() < begin + 20:
            state, _ = self.kernel.state(self.used)
            if state and state.packets - packets >= 20:
                break
            time.sleep(0.01)
        else:
            self.fail("checkpoint: no traffic flows")
        if state:
            self.throttles += state.counter("throttles", "Q")
        self.make(option_bytes(QUEUES, self.rng.choice((0, 0, 1))))

    STEPS = (change,) * 15 + (add,) * 2 + (pair, strange, cut, classes)

    def steps(self):
        """Half of the time there are classes."""
        if self.at // CHECKPOINT % 2:
            return self.STEPS + 2 * self.CLASS_STEPS
        return self.STEPS

    def all(self):
        child = traffic(self.address)
        try:
            while self.kernel.sent < self.messages:
                if self.at % CHECKPOINT == 0:
                    # A guest that prints nothing is killed.
                    print(f"step {self.at}", flush=True)
                    self.checkpoint()
                self.at += 1
                self.rng.choice(self.steps())(self)
                if self.failures >= MAX_FAILURES:
                    print("enough of that")
                    break
            self.checkpoint()
        finally:
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)
        self.summary()
        return self.failures == 0

    def summary(self):
        print(f"{self.kernel.sent} messages, {self.accepted} accepted, "
              f"{sum(self.refusals.values())} refused, {self.throttles} throttles")
        for text, count in sorted(self.refusals.items()):
            print(f"{count:8} {text}")
        if self.messages < 3000:
            return
        for text in REFUSALS - set(self.refusals):
            self.fail(f"never met: {text}")
        if not self.throttles:
            self.fail("no socket was throttled")
