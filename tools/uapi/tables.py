# SPDX-License-Identifier: GPL-2.0-only
"""Write the tables of options of the module and of the plugin of tc, and the
formats of bpshaper-top."""
import textwrap

from header import c_name
from lists import refusal
from pyroute import structs

# Ranges that a macro of bpshaper/config.h knows.
RANGES = {"1 to 2^43 bytes/s, or unlimited": "RATE", "1 byte or more": "SIZE"}
SUFFIXES = {"bytes per second": "_Bps", "ns": "_ns", "minor": "_minor"}


def quoted(text):
    """A string of C that wrap() does not break."""
    return f'"{text}"'.replace(" ", "\0")


def call(start, arguments, end):
    """A call of a macro, wrapped and aligned as checkpatch wants it."""
    column = len(start.expandtabs())
    lines = textwrap.wrap(", ".join(arguments) + end, 80 - column,
                          break_long_words=False, break_on_hyphens=False)
    tabs = "\n" + "\t" * (column // 8) + " " * (column % 8)
    return (start + tabs.join(lines) + "\n").replace("\0", " ")


def regions(spec, old, write):
    for name, options in (("options", spec.options),
                          ("class options", spec.class_options)):
        begin, end = f"/* begin: {name} */\n", f"/* end: {name} */\n"
        before, found, rest = old.partition(begin)
        _, found_end, after = rest.partition(end)
        if not (found and found_end):
            raise SystemExit(f"uapi/generate: no two lines around {name}")
        old = before + begin + write(options) + end + after
    return old


def attribute(option):
    return option.name.replace("-", "_").upper()


def default_name(option):
    return f"TC_BPSHAPER_{option.prefix}{option.word.upper()}_DEFAULT"


def bounds(option):
    if option.unit == "type":
        return [f"TC_{option.word}_{entry}".upper() for entry in option.entries]
    return [c_name(option.min_name), c_name(option.max_name)]


# --- bpshaper/config.h

def field(option):
    return option.word + SUFFIXES.get(option.unit, "")


def field_doc(option):
    text = {"switch": "0 or 1", "type": "TC_LINKLAYER_*"}.get(option.unit,
                                                              option.unit)
    if option.special:
        text += f", or {c_name(option.special)}"
    if option.min and is_derived(option):
        text += "; 0: not set"
    return f" * @{field(option)}: {text}\n"


def is_derived(option):
    return bool(option.preset) or option.is_dumped_if_set


def row(option):
    """Of bpshaper_options[]. What is said of several options is in a macro."""
    kind = "class_config" if option.prefix else "config"
    begin = [kind, option.prefix + attribute(option), field(option)]
    message = refusal(option) or "32 bits"
    if message in RANGES:
        return call(f"\tBPSHAPER_{RANGES[message]}_OPTION(",
                    [*begin, f'"{option.word}"'], "),")
    return call("\tBPSHAPER_OPTION(", [
        *begin, option.type[1:], *bounds(option),
        quoted(f"{option.word} must be {message}"),
        *[".may_be_unlimited\0=\0true"] * bool(option.special),
        *[".is_dumped_if_set\0=\0true"] *
        (option.is_dumped_if_set and not option.min)], "),")


def config(options):
    kind = "class_" if options[0].prefix else ""
    u64_first = sorted(options, key=lambda option: option.type != "u64")
    of = " of a class" if kind else ""
    text = f"/**\n * struct bpshaper_{kind}config - values of all options{of}\n" \
        + \
        "".join(map(field_doc, u64_first)) + " */\n" + \
        f"struct bpshaper_{kind}config {{\n" + "".join(
            f"\t{option.type}\t{field(option)};\n" for option in u64_first) + \
        "};\n\nstatic const struct bpshaper_" \
        f"{kind}config bpshaper_{kind}defaults = {{\n" + "".join(
            f"\t.{field(option)} = {default_name(option)},\n" for option in u64_first
            if option.default and not is_derived(option)) + \
        "};\n\nstatic const struct bpshaper_option\n" \
        f"bpshaper_{kind}options[TCA_BPSHAPER_{kind.upper()}MAX + 1] = {{\n"
    return text + "".join(map(row, options)) + "};\n\n"


def module(spec, _, old):
    return regions(spec, old, config)


# --- q_bpshaper.c

def kind(option):
    if "CELL" in option.usage:
        return "bucket"
    return option.word if option.word in ("weight", "linklayer") \
        else option.unit if option.unit == "switch" else option.kind.lower()


def plugin_row(option):
    limits = [name.replace("U32", "UINT32") for name in bounds(option)]
    text = call(f"\t\tBPSHAPER_{option.prefix}OPTION(", [
        f'"{option.word}"', attribute(option), option.type, kind(option),
        *limits], "),")
    members = [
        ("alias", option.aliases and "{ %s }" % ", ".join(
            f'"{alias}"' for alias in option.aliases)),
        ("special", option.special and f'"{option.special_word()}"'),
        ("excludes", option.excludes and f"TCA_BPSHAPER_{option.prefix}"
         f"{option.excludes.upper()}"),
        ("preset_text", option.preset and f'"{option.preset}"'),
        ("preset", option.preset is None and default_name(option)),
        ("is_abbreviable", option.is_abbreviable and "true"),
        ("is_quiet", not is_derived(option) and not option.is_shown and "true"),
        ("is_rare", option.is_rare and "true"),
        ("meaning", f'"{option.help}"')]
    return text + "".join(call(f"\t\t.{name}".ljust(15).replace(
        " ", "") + ("\t" if len(name) > 6 else "\t\t") + "= ",
        [quoted(value[1:-1]) if value[0] == '"' else value], ",")
        for name, value in members if value)


def plugin(spec, _, old):
    return regions(spec, old, lambda options: "\t{\n" + "\t}, {\n".join(
        map(plugin_row, options)) + "\t},\n")


# --- tools/bpshaper_top/uapi.py

TOP = '''\
# SPDX-License-Identifier: GPL-2.0-only
"""Numbers and layouts of the uAPI.

{}
"""

from typing import Dict, Tuple


def table(text: str) -> Tuple[Tuple[str, str], ...]:
    words = (word.partition(":") for word in text.split())
    return tuple((name, kind) for name, _, kind in words)


def numbers(text: str) -> Dict[str, int]:
    """Number 1 is padding."""
    return {word: number for number, word in enumerate(text.split(), 2)}


'''


def numbers(name, options):
    return f'{name} = numbers(\n    """\n' + textwrap.fill(
        " ".join(word for word, _ in options), 79,
        initial_indent="    ", subsequent_indent="    ") + '\n    """\n)\n'


def top(spec, note, _):
    states = "".join(f'    "{entry["name"]}",\n'
                     for entry in spec.struct("flow-state")["entries"])
    return TOP.replace("{}", note) + numbers(
            "OPTIONS", spec.numbered(spec.options, spec.attributes)) + \
        numbers("CLASS_OPTIONS", spec.numbered(
            spec.class_options, spec.class_attributes)) + \
        f"FLOW_STATES = (\n{states})\n" + structs(spec)
