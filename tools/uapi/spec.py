# SPDX-License-Identifier: GPL-2.0-only
"""What Documentation/netlink/bpshaper.yaml says about bpshaper."""
import re

import yaml

TYPE_MAX = {"u32": 2**32 - 1, "u64": 2**64 - 1}
PLACEHOLDERS = {"bytes per second": "RATE", "bytes": "SIZE", "ns": "TIME",
                "number": "NUMBER", "minor": "MINOR", "type": "TYPE", "switch": "on|off"}

# Units, as tc has them and as people do. A value is written in the first that
# divides it.
TC_UNITS = {
    "RATE": ((10**12, "Tbit"), (10**9, "Gbit"), (10**6, "Mbit"), (1000, "Kbit"),
             (2**40, "Tibit"), (2**30, "Gibit"), (2**20, "Mibit"),
             (2**10, "Kibit"), (1, "bit")),
    "SIZE": ((2**20, "Mb"), (2**10, "Kb"), (1, "b")),
    "TIME": ((10**9, "s"), (10**6, "ms"), (1000, "us"), (1, "ns")),
    "NUMBER": ((1, ""),),
    "MINOR": ((1, ""),),
}
PLAIN_UNITS = {
    "RATE": ((10**12, " Tbit/s"), (10**9, " Gbit/s"), (10**6, " Mbit/s"),
             (1000, " kbit/s"), (2**40, " Tibit/s"), (1, " bit/s")),
    "SIZE": ((2**20, " MiB"), (2**10, " KiB"), (1, " bytes")),
    "TIME": ((3600 * 10**9, " h"), (10**9, " s"), (10**6, " ms"), (1000, " us"),
             (1, " ns")),
}


def quantity(value, kind, units):
    """The value of an option in the largest unit that does not round it."""
    if kind == "RATE":
        value *= 8
    for number, name in units[kind]:
        if number == 1 or value and value % number == 0:
            return f"{value // number}{name}"
    raise ValueError(value)


class Option:
    """One attribute of TCA_OPTIONS.

    min and max are numbers, and min_name and max_name how they are written;
    special is the name of the constant that is allowed above max, or None.
    default is a number, or None if preset says in words what it follows from.
    """

    def __init__(self, spec, attribute, number, prefix):
        self.name, self.type = attribute["name"], attribute["type"]
        self.prefix = prefix
        self.number, self.all_ones = number, TYPE_MAX[attribute["type"]]
        self.word = re.sub("64$", "", self.name).replace("-", "_")
        facts = self.doc_read(attribute["doc"])
        self.help, self.unit = facts["Help"], facts["Unit"]
        self.is_dumped_if_set, self.is_rare = "Dump" in facts, "Rare" in facts
        self.kind = PLACEHOLDERS[self.unit]
        self.usage_read(facts.get("tc", f"{self.word} {self.kind}"))
        self.bounds_read(spec, attribute, facts.get("Max", ""))
        self.default_read(spec, facts["Default"])

    def doc_read(self, doc):
        """Split it into the text and what its last lines say."""
        line = re.compile(r"^(Help|Unit|Max|Default|Dump|Rare|tc): "
                          r"(.*)\n", re.MULTILINE)
        self.doc = line.sub("", doc)
        return dict(line.findall(doc))

    def usage_read(self, tc):
        """As the comment on top of the specification says."""
        self.usage, *rest = tc.split("; ")
        rest = dict(part.partition(" ")[::2] for part in rest)
        self.excludes = rest.get("excludes")
        self.is_abbreviable, self.is_shown = "abbreviated" in rest, "shown" in rest
        self.aliases = rest["also"].split(", ") if "also" in rest else []
        self.values = re.split(", | or ", rest["values"]) if "values" in rest \
            else []
        if self.unit == "switch":
            self.values = self.usage.split()[-1].split("|")

    def bounds_read(self, spec, attribute, most):
        checks = attribute.get("checks", {})
        low, high = checks.get("min", 0), checks.get("max", self.all_ones)
        self.special = None
        if most:
            high, self.special = most.split(", or ")
            assert spec.value(self.special) == self.all_ones, self.name
        if "enum" in attribute:
            self.entries = spec.entries(attribute["enum"])
            low, high = min(self.entries.values()), max(self.entries.values())
        self.min_name, self.max_name = low, high
        self.min, self.max = spec.value(low), spec.value(high)

    def default_read(self, spec, default):
        self.default = self.preset = None
        if self.unit == "type":
            self.default = self.entries[default]
        elif default.isdigit() or default == self.special:
            self.default = spec.value(default)
        else:
            self.preset = default

    def is_special(self, value):
        return bool(self.special) and value == self.all_ones

    def special_word(self):
        return self.special.rpartition("-")[2] if self.special else None

    def or_special(self):
        return f", or {self.special_word()}" if self.special else ""

    def tc_value(self, value):
        """As one types it."""
        if self.is_special(value):
            return self.special_word()
        if self.unit == "type":
            return self.values[value - self.min]
        if self.unit == "switch":
            return self.values[1 - value]
        if self.kind == "MINOR":
            return f"{value:#x}"
        return quantity(value, self.kind, TC_UNITS)

    def tc_range(self):
        if self.values:
            return ", ".join(self.values[:-1]) + " or " + self.values[-1]
        text = f"{self.tc_value(self.min)} to {self.tc_value(self.max)}"
        if "CELL" in self.usage:
            text += ", a cell a power of 2"
        if self.kind == "RATE":
            text += ", up to 100% of the device's speed"
        return text + self.or_special()

    def tc_default(self):
        return self.preset or self.tc_value(self.default)

    def plain(self, value):
        """For people, or what one types if there is nothing better."""
        if self.kind in PLAIN_UNITS and value and not self.is_special(value):
            return quantity(value, self.kind, PLAIN_UNITS)
        return self.tc_value(value) if self.values else str(value)


class Spec:
    """The part of the specification that is bpshaper's."""

    def __init__(self, path):
        spec = yaml.safe_load(path.read_text())
        self.definitions = {item["name"]: item for item in spec["definitions"]}
        self.constants = [item for item in spec["definitions"]
                          if item["type"] == "const"]
        self.sets = {item["name"]: item for item in spec["attribute-sets"]}
        self.attributes = self.sets["tc-bpshaper-attrs"]
        self.class_attributes = self.sets["tc-bpshaper-class-attrs"]
        self.options = self.options_read(self.attributes, "")
        self.class_options = self.options_read(self.class_attributes, "CLASS_")
        self.names = {re.sub("64$", "", item["name"]) for items in (
            self.attributes["attributes"], self.class_attributes["attributes"],
            self.struct("xstats")["members"],
            self.struct("class-xstats")["members"],
            self.struct("leaf-xstats")["members"]) for item in items}

    def options_read(self, attributes, prefix):
        return [Option(self, item, number, prefix) for number, item in
                enumerate(attributes["attributes"], 1)
                if item["type"] in TYPE_MAX]

    def numbered(self, options, attributes):
        """The word of each attribute from number 2 on, and its option; None if
        it is a flag.
        """
        known = {option.number: option for option in options}
        for number, item in enumerate(attributes["attributes"][1:], 2):
            option = known.get(number)
            yield option.word if option else item["name"], option

    def all_options(self):
        return self.options + self.class_options

    def struct(self, name):
        """Or an enum."""
        return self.definitions[f"tc-bpshaper-{name}"]

    def value(self, name):
        """Of a constant, or of a number."""
        return self.definitions[name]["value"] if name in self.definitions \
            else int(name)

    def entries(self, enum):
        item = self.definitions[enum]
        return dict(zip(item["entries"], range(item["value-start"], 1000)))

    def text(self, doc):
        """One paragraph, in which names are as in C."""
        def spell(match):
            return match[0].replace("-", "_") if match[0] in self.names \
                else match[0]
        return re.sub(r"\b[a-z]+(-[a-z]+)+\b", spell, " ".join(doc.split()))


def member_name(member):
    return member["name"].replace("-", "_")
