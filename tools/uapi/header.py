# SPDX-License-Identifier: GPL-2.0-only
"""Write sch_bpshaper.h."""
import textwrap

from spec import member_name

C_TYPES = {"u16": "__u16", "u32": "__u32", "s32": "__s32", "u64": "__u64",
           "s64": "__s64"}
TOP = """\
/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/* User-space interface of bpshaper, a shaper that throttles sockets instead of
 * dropping their packets: netlink attributes and statistics.
 *
 * Rates are in bytes per second, times in nanoseconds, sizes in bytes as the
 * qdisc layer counts them: with the link-layer header. A packet of the MTU is
 * one with that header.
 *
 * {note}
 */
#ifndef _UAPI_SCH_BPSHAPER_H
#define _UAPI_SCH_BPSHAPER_H

#include <linux/types.h>
"""
END = "#endif /* _UAPI_SCH_BPSHAPER_H */\n"


def c_name(name):
    """Of a constant of the specification, or a number."""
    limits = {0: "0", 2**32 - 1: "U32_MAX", 2**64 - 1: "U64_MAX"}
    return limits.get(name) or str(name).replace("-", "_").upper()


def wrap(text, first=" * ", rest=" * "):
    """Lines of a comment in 80 columns."""
    indent = rest.expandtabs()
    lines = textwrap.wrap(text, 80, initial_indent=first,
                          subsequent_indent=indent, break_long_words=False,
                          break_on_hyphens=False)
    return "\n".join(lines[:1] + [rest + line[len(indent):]
                                  for line in lines[1:]]) + "\n"


def member_wrap(name, text):
    return wrap(text, f" * @{name}: ", " *\t")


def pad(text, column):
    """With tabs, one at least."""
    return text + "\t" * max(1, (column - len(text.expandtabs()) + 7) // 8)


def define(name, value, column, comment=""):
    line = pad(f"#define {name}", column) + value
    return (pad(line, 64) + f"/* {comment} */" if comment else line) + "\n"


def constant_define(option, name, value, column):
    """The value with its type, and for people if that is something else."""
    literal = f"{value}ULL" if option.type == "u64" else f"{value}U"
    plain = option.plain(value)
    if option.is_special(value):
        return define(name, c_name(option.special), column)
    if plain in (str(value), f"{value} bytes") or option.unit == "switch":
        plain = ""
    return define(name, literal, column, plain)


def constants(spec):
    """Special values, and bounds, which have the type of what they bound."""
    special = bounds = ""
    specials = {option.special for option in spec.all_options()}
    for item in spec.constants:
        name = item["name"]
        if name in specials:
            special += f"/* {spec.text(item['doc'])} */\n" + \
                define(c_name(name), "(~0ULL)", 40) + "\n"
            continue
        option = next(option for option in spec.all_options()
                      if name in (option.min_name, option.max_name))
        bounds += constant_define(option, c_name(name), item["value"], 40)
    return special + "/* Bounds of the options, both inclusive. */\n" + bounds


def defaults(spec):
    text = "/* Defaults; those that are not here follow from other options. */\n"
    for option in spec.all_options():
        if option.default is not None:
            name = f"TC_BPSHAPER_{option.prefix}{option.word.upper()}_DEFAULT"
            text += constant_define(option, name, option.default, 48)
    return text


def option_range(option):
    if option.unit == "type":
        return " or ".join(f"TC_{option.word}_{entry}".upper()
                           for entry in option.entries)
    if option.unit == "switch":
        return f"{option.min} or {option.max}"
    text = f"{c_name(option.min_name)} to {c_name(option.max_name)}"
    return text + (f", or {c_name(option.special)}" if option.special else "")


def option_default(option):
    if option.preset:
        return option.preset
    if option.is_special(option.default):
        return c_name(option.special)
    if option.unit == "type":
        return f"TC_{option.word}_{option.tc_value(option.default)}".upper()
    plain = option.plain(option.default)
    if option.unit == "switch" or plain == str(option.default):
        return str(option.default)
    return f"{option.default} ({plain})"


def option_doc(option):
    unit = f"{option.unit}, " if option.unit in ("bytes per second", "bytes",
                                                 "ns") else ""
    return f"{option.type}, {unit}{option_range(option)}; default: " \
        f"{option_default(option)}. {option.doc}"


def attributes(spec, these, options):
    prefix = c_name(these["name-prefix"])
    items = [(c_name(prefix + item["name"]), item)
             for item in these["attributes"]]
    docs = {option.name: option_doc(option) for option in options}
    first, _, rest = spec.text(these["doc"]).partition(". ")
    text = "/**\n" + wrap(f"enum - {first}") + " *\n" + wrap(rest) + " *\n" + \
        member_wrap(f"{prefix}UNSPEC", "never sent")
    for name, item in items:
        doc = docs.get(item["name"], item["doc"])
        text += member_wrap(name, spec.text(doc))
    text += member_wrap(f"__{prefix}MAX", "one above the last attribute")
    return text + f" */\nenum {{\n\t{prefix}UNSPEC,\n" + \
        "".join(f"\t{name},\n" for name, _ in items) + \
        f"\t__{prefix}MAX\n}};\n\n#define {prefix}MAX\t(__{prefix}MAX - 1)\n"


def histogram(spec):
    hist = spec.struct("hist")
    return wrap(spec.text(hist["doc"]), "/* ") + " */\n" + \
        define("TC_BPSHAPER_HIST_BUCKETS", str(len(hist["members"])), 40)


def enum(spec, name):
    item = spec.struct(name)
    names = [c_name(item["name-prefix"] + entry["name"])
             for entry in item["entries"]]
    docs = [spec.text(entry["doc"]) for entry in item["entries"]]
    return "/**\n" + wrap(f"enum - {spec.text(item['doc'])}") + \
        "".join(map(member_wrap, names, docs)) + " */\nenum {\n" + \
        "".join(f"\t{name},\n" for name in names) + "};\n"


def declaration(member):
    name = member_name(member)
    if "struct" in member:
        return f"\t__u64\t{name}[TC_BPSHAPER_HIST_BUCKETS];\n"
    if "len" in member:
        return f"\t__u8\t{name}[{member['len']}];\n"
    if "byte-order" in member:
        return f"\t__be{member['type'][1:]}\t{name};\n"
    return f"\t{C_TYPES[member['type']]}\t{name};\n"


def struct(spec, name):
    item = spec.struct(name)
    members = item["members"]
    what = f"struct {member_name(item)}"
    first, _, rest = spec.text(item["doc"]).partition(". ")
    return "/**\n" + wrap(f"{what} - {first}") + " *\n" + wrap(rest) + \
        " *\n" + \
        "".join(member_wrap(member_name(member), spec.text(member["doc"]))
                for member in members) + \
        f" */\n{what} {{\n" + "".join(map(declaration, members)) + "};\n"


def header(spec, note, _):
    return "\n".join((
        TOP.format(note=note), constants(spec), defaults(spec),
        attributes(spec, spec.attributes, spec.options),
        attributes(spec, spec.class_attributes, spec.class_options),
        histogram(spec),
        enum(spec, "xstats-type"), struct(spec, "xstats"),
        enum(spec, "flow-state"), struct(spec, "class-xstats"),
        struct(spec, "leaf-xstats"), END))
