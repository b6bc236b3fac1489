# SPDX-License-Identifier: GPL-2.0-only
"""Nests of options, good and bad.

A method of Generator in KINDS makes one kind of nest. The generator does not
know if the kernel takes what it makes; the model does.
"""
import struct

from model import option_bytes
from netlink import BYTEORDER, NESTED, attr_bytes
from options import OPTIONS, PAD, U32_MAX

# Minor numbers of the classes that come and go
MINORS = range(0x10, 0x20)


class Generator:
    """Draws from rng only: the same seed gives the same nests."""

    def __init__(self, rng, options=None, beyond=0.1):
        self.rng, self.options = rng, options or OPTIONS
        self.beyond = beyond	# part of the values, most of them out of range
        self.kinds = sorted(self.options)
        self.last = self.kinds[-1]
        self.numbers = {option.name: kind
                        for kind, option in self.options.items()}

    def value(self, kind):
        """A value of an option: at its bounds, beyond them, or anywhere."""
        name, size, least, largest, special, *_ = self.options[kind]
        top, rng = 2**(8 * size) - 1, self.rng
        dice = rng.random()
        if dice < 0.25:
            at_bounds = (least, least + 1, largest - 1, largest)
            value = rng.choice(at_bounds)
        elif dice < 0.25 + self.beyond:
            value = rng.choice((0, least - 1, largest + 1, 2**31, U32_MAX,
                                2**32, 2**63, top - 1, top))
        elif special is not None and dice < 0.45:
            value = special
        elif name in ("queues", "floor") and dice < 0.6:
            value = 0	# what cannot be changed, or floors of children
        elif name == "default" and dice < 0.8:
            value = rng.choice(MINORS)
        else:	# of any order of magnitude
            bits = (largest - least).bit_length()
            value = min(least + int(2**rng.uniform(0, bits)) - 1, largest)
        return value & top

    def option(self, kind):
        return option_bytes(kind, self.value(kind), self.options)

    def some(self, most=None):
        """A few options, as attributes."""
        kinds = self.rng.sample(self.kinds,
                                min(most or len(self.kinds),
                                    int(self.rng.expovariate(0.4)) + 1))
        # Together they are refused: leave one out, most of the time.
        limits = {self.numbers["limit"], self.numbers["latency"]}
        if limits <= set(kinds) and self.rng.random() < 0.8:
            kinds.remove(self.numbers["latency"])
        return [self.option(kind) for kind in kinds]

    def noise(self, most):
        return self.rng.randbytes(self.rng.randint(0, most))

    def good(self):
        return b"".join(self.some())

    def wrong_length(self):
        kind = self.rng.choice(self.kinds)
        parts = self.some() + [attr_bytes(kind, self.noise(20))]
        self.rng.shuffle(parts)
        return b"".join(parts)

    def truncated(self):
        blob = b"".join(self.some())
        return blob[:self.rng.randint(0, len(blob))]

    def lying_length(self):
        parts = self.some()
        i = self.rng.randrange(len(parts))
        length = self.rng.choice((0, 1, 3, 4, 5, 7, 9, 13, 100, 0x7FFF, 0xFFFF))
        parts[i] = struct.pack("=H", length) + parts[i][2:]
        return b"".join(parts)

    def unknown(self):
        last = self.last
        kind = self.rng.choice((0, PAD, last + 1, last + 2, 255, 0x3FFF,
                                self.rng.randint(last + 1, 0x3FFF)))
        parts = self.some() + [attr_bytes(kind, self.noise(16))]
        self.rng.shuffle(parts)
        return b"".join(parts)

    def flags(self):
        kind = self.rng.choice(self.kinds)
        part = self.option(kind)
        flags = self.rng.choice((NESTED, BYTEORDER, NESTED | BYTEORDER))
        return b"".join(self.some()) + part[:2] + \
            struct.pack("=H", kind | flags) + part[4:]

    def nested(self):
        kind = self.rng.choice(self.kinds)
        blob = b"".join(self.some())
        for _ in range(self.rng.choice((1, 1, 2, 20))):
            blob = attr_bytes(kind | self.rng.choice((0, NESTED)), blob)
        return blob

    def duplicates(self):
        parts = self.some()
        for _ in range(self.rng.randint(1, 4)):
            parts.append(self.rng.choice(parts))
        kind = struct.unpack_from("=H", parts[0], 2)[0]
        parts.append(self.option(kind))
        return b"".join(parts)

    def oversized(self):
        part = b"".join(self.some(2))
        return part * self.rng.choice((50, 50, 50, 65000 // len(part)))

    def random(self):
        return self.noise(64)

    def flipped(self):
        blob = bytearray(b"".join(self.some()))
        for _ in range(self.rng.randint(1, 4)):
            blob[self.rng.randrange(len(blob))] ^= 1 << self.rng.randrange(8)
        return bytes(blob)

    KINDS = (good,) * 12 + (wrong_length, truncated, lying_length, unknown,
                            flags, nested, duplicates, duplicates, oversized,
                            random, flipped, flipped)

    def nest(self):
        return self.rng.choice(self.KINDS)(self)
