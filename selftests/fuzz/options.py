# SPDX-License-Identifier: GPL-2.0-only
"""The options of bpshaper: numbers, bounds, defaults, texts of refusals."""
from collections import namedtuple

U32_MAX, U64_MAX = 2**32 - 1, 2**64 - 1
UNLIMITED = U64_MAX
RATE_MAX, LATENCY_MAX = 2**43, 60 * 10**9
HORIZON_MAX, CE_MAX = 3600 * 10**9, 60 * 10**9

# name: of the attribute; size: bytes; least and largest: the range; special: a
# value outside of the range that is taken, or None; default: None if it depends
# on others; bounds: what a refusal says of the range, as a regular expression
Option = namedtuple("Option", "name size least largest special default bounds")

(RATE, BURST, LIMIT, LATENCY, MEMORY, QUANTUM, PEAK, MTU, OVERHEAD, MPU,
 LINKLAYER, SHARE_MIN, SHARE_MAX, BACKPRESSURE, PACING, MAXRATE, LOW_RATE,
 HORIZON, HORIZON_DROP, CE_THRESHOLD, TIMER_SLACK, GROUP) = range(2, 24)
PAD, ATTR_MAX = 1, GROUP
RATE_BOUNDS = r"1 to 2\^43 bytes/s, or unlimited"
OPTIONS = {
    RATE: Option("rate", 8, 1, RATE_MAX, UNLIMITED, UNLIMITED, RATE_BOUNDS),
    BURST: Option("burst", 4, 1, U32_MAX, None, None, "1 byte or more"),
    LIMIT: Option("limit", 4, 1, U32_MAX, None, None, "1 byte or more"),
    LATENCY: Option("latency", 8, 1, LATENCY_MAX, None, None, "1 ns to 60 s"),
    MEMORY: Option("memory_limit", 4, 65536, U32_MAX, None, None,
                   "64 KiB or more"),
    QUANTUM: Option("quantum", 4, 256, 2**20, None, None,
                    "256 bytes to 1 MiB"),
    PEAK: Option("peakrate", 8, 1, RATE_MAX, UNLIMITED, UNLIMITED, RATE_BOUNDS),
    MTU: Option("mtu", 4, 1, U32_MAX, None, None, "1 byte or more"),
    OVERHEAD: Option("overhead", 4, 0, 65535, None, 0, "0 to 65535 bytes"),
    MPU: Option("mpu", 4, 0, 65535, None, 0, "0 to 65535 bytes"),
    LINKLAYER: Option("linklayer", 4, 1, 2, None, 1,
                      r"ethernet \(1\) or atm \(2\)"),
    SHARE_MIN: Option("share_min", 4, 1, U32_MAX, None, None, "1 byte or more"),
    SHARE_MAX: Option("share_max", 4, 1, U32_MAX, None, None, "1 byte or more"),
    BACKPRESSURE: Option("backpressure", 4, 0, 1, None, 1, "0 or 1"),
    PACING: Option("pacing", 4, 0, 1, None, 1, "0 or 1"),
    MAXRATE: Option("maxrate", 8, 1, RATE_MAX, UNLIMITED, UNLIMITED,
                    RATE_BOUNDS),
    LOW_RATE: Option("low_rate_threshold", 8, 0, RATE_MAX, None, 68750,
                     r"0 to 2\^43 bytes/s"),
    HORIZON: Option("horizon", 8, 1, HORIZON_MAX, None, 10**10, "1 ns to 1 h"),
    HORIZON_DROP: Option("horizon_drop", 4, 0, 1, None, 0, "0 or 1"),
    CE_THRESHOLD: Option("ce_threshold", 8, 0, CE_MAX, UNLIMITED, UNLIMITED,
                         "0 to 60 s, or never"),
    TIMER_SLACK: Option("timer_slack", 4, 0, U32_MAX, None, 10000, None),
    GROUP: Option("group", 4, 0, U32_MAX, None, 0, None),
}
# A change of these is refused by no bound.
UNREFUSED = (TIMER_SLACK, GROUP)
# What a qdisc has that was created without options.
DEFAULTS = {kind: option.default for kind, option in OPTIONS.items()
            if option.default is not None}

# Refusals of options that contradict each other, or what was set before.
BOTH_LIMITS = "limit and latency exclude each other"
LATENCY_ALONE, PEAK_ALONE = "latency needs a rate", "peakrate needs a rate"
PEAK_LOW = "peakrate must be above the rate"
SHARES_CROSSED = "share_min must not be above share_max"
GROUP_PEAK = "group and peakrate exclude each other"
GROUP_ALONE = "group needs a rate"
GROUP_BURST = "burst of a group must hold a packet for each member and one more"


def bounds_text(kind):
    """The refusal of a value out of range, as a regular expression."""
    return rf"\b{OPTIONS[kind].name} must be {OPTIONS[kind].bounds}$"


# All refusals of the module itself; a long run must meet each.
REFUSALS = {BOTH_LIMITS, LATENCY_ALONE, PEAK_ALONE, PEAK_LOW, SHARES_CROSSED,
            GROUP_PEAK, GROUP_ALONE, GROUP_BURST,
            *map(bounds_text, OPTIONS.keys() - UNREFUSED)}
