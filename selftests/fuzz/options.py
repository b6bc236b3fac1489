# SPDX-License-Identifier: GPL-2.0-only
"""The options of bpshaper: numbers, bounds, defaults, texts of refusals.

All but the contradictions comes from selftests/uapi/options.json, which is
generated from the specification of the uAPI. The names below are those that the
model and the generator have rules for.
"""
import json
import os
import re
from collections import namedtuple

U32_MAX, U64_MAX = 2**32 - 1, 2**64 - 1
UNLIMITED = U64_MAX

# name: as people type it; size: bytes of the attribute; least and largest: the
# range; special: a value outside of the range that is taken, or None; default:
# None if it depends on other options; bounds: the range in a refusal, a regular
# expression, or None if no value is out of range
Option = namedtuple("Option", "name size least largest special default bounds")


def uapi_read():
    path = os.path.join(os.path.dirname(__file__), "..", "uapi", "options.json")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def option_read(row):
    """An option of options.json. A special value is a word for all ones."""
    size = int(row["type"][1:]) // 8
    special = row["special"] and U64_MAX
    default = row["default"]
    if isinstance(default, str):
        default = special
    bounds = row["refusal"] and re.sub(r"([\^().])", r"\\\1", row["refusal"])
    return Option(row["word"], size, row["min"], row["max"], special, default,
                  bounds)


UAPI = uapi_read()
OPTIONS = {row["attr"]: option_read(row) for row in UAPI["options"]}
CLASS_OPTIONS = {row["attr"]: option_read(row) for row in UAPI["class_options"]}
# A flag, which is the number that no option has
HTB = next(kind for kind in range(2, 100) if kind not in CLASS_OPTIONS)
CLASS_OPTIONS[HTB] = Option("htb", 0, 0, 0, None, None, None)
KINDS = {option.name: kind for kind, option in OPTIONS.items()}
RATE, BURST, LIMIT, LATENCY = map(KINDS.get, (
    "rate", "burst", "limit", "latency"))
MEMORY, PEAK = map(KINDS.get, ("memory_limit", "peakrate"))
OVERHEAD, MPU, LINKLAYER = map(KINDS.get, ("overhead", "mpu", "linklayer"))
SHARE_MIN, QUEUES, DEFAULT, R2Q = map(KINDS.get, (
    "share_min", "queues", "default", "r2q"))
CLASS_KINDS = {option.name: kind for kind, option in CLASS_OPTIONS.items()}
FLOOR, CEIL, WEIGHT, CLASS_BURST, CLASS_LIMIT, CLASS_LATENCY, OVERCOMMIT = map(
    CLASS_KINDS.get, ("floor", "ceil", "weight", "burst", "limit", "latency",
                      "overcommit"))
PAD = 1

# The options of a qdisc that was created without any, and that do not follow
# from others. Latency and the shares have defaults, but are not dumped then.
DEFAULTS = {kind: option.default for kind, option in OPTIONS.items()
            if option.default is not None and
            kind not in (LATENCY, SHARE_MIN)}
CLASS_DEFAULTS = {kind: option.default for kind, option in CLASS_OPTIONS.items()
                  if option.default is not None}
SHARE_MAX = 65536
LATENCY_DEFAULT = OPTIONS[LATENCY].default

# Refusals of options that contradict each other, or what was set before.
BOTH_LIMITS = "limit and latency exclude each other"
LATENCY_ALONE, PEAK_ALONE = "latency needs a rate", "peakrate needs a rate"
PEAK_LOW = "peakrate must be above the rate"
QUEUES_FIXED = "queues cannot be changed"
PEAK_QUEUES = "peakrate needs queues 1"

# Refusals of classes, their places and what refers to them.
FLOOR_HIGH = "floor must not be above ceil"
FLOORS = r"floors .*( parent|\d(b|bi|bit)?)$"	# it may be cut
CLASSID = "classid must have the number of the qdisc before the colon"
PARENT, DEPTH = "there is no such parent class", "classes have 8 levels at most"
MOVED = "a class cannot move to another parent"
CHILDREN, REFERRED = "the class has children", "a filter refers to the class"
ESTIMATOR = "classes have no rate estimator"
GRAFT = "a class has fair queues of its own, and no child qdisc"


def bounds_text(kind, options=None):
    """The refusal of a value out of range, as a regular expression."""
    option = (options or OPTIONS)[kind]
    return rf"\b{option.name} must be {option.bounds}$"


# All refusals of the module itself; a long run must meet each.
REFUSALS = {BOTH_LIMITS, LATENCY_ALONE, PEAK_ALONE, PEAK_LOW,
            QUEUES_FIXED, PEAK_QUEUES, FLOOR_HIGH, FLOORS, CLASSID, PARENT,
            DEPTH, MOVED, CHILDREN, REFERRED, ESTIMATOR, GRAFT,
            *(bounds_text(kind, options)
              for options in (OPTIONS, CLASS_OPTIONS)
              for kind, option in options.items() if option.bounds)}

# Offsets of the members of the statistics of a qdisc and of a class.
XSTATS = {member["name"]: member["offset"] for member in UAPI["xstats"]}
LEAF_XSTATS = {member["name"]: member["offset"]
               for member in UAPI["leaf_xstats"]}
LEAF_TYPE = 2
