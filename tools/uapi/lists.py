# SPDX-License-Identifier: GPL-2.0-only
"""Write the words of the completion, the tables of the documentation, and what
tests read."""
import json
import re
import textwrap

from spec import member_name


def replace(old, name, new, comment):
    """Put text between the two lines that name it."""
    begin, end = f"{comment} begin: {name}\n", f"{comment} end: {name}\n"
    before, found, rest = old.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found and found_end):
        raise SystemExit(f"uapi/generate: there are no two lines around {name}")
    return before + begin + new + end + after


# --- tools/bash-completion/tc-bpshaper

def completion_values(option):
    """What bash offers: a kind of units, then words."""
    if option.values:
        return " ".join(option.values)
    if option.kind in ("NUMBER", "MINOR"):
        return f"{option.min} {option.min + 1}"
    return f"{option.kind} {option.special_word() or ''}".rstrip()


def completion_words(name, options):
    return textwrap.fill(" ".join(option.word for option in options), 80,
                         initial_indent=f"{name}='",
                         subsequent_indent="    ") + "'\n"


def completion(spec, note, old):
    valued = [option for option in spec.options if not option.opposite]
    pairs = [option.values for option in spec.options if option.opposite]
    kinds = {word: completion_values(option)
             for option in spec.class_options + valued
             for word in (option.word, *option.aliases)}
    return replace(old, "words", f"# {note}\n" +
                   completion_words("_tc_bpshaper_words", valued) +
                   completion_words("_tc_bpshaper_class_words",
                                    spec.class_options) +
                   f"_tc_bpshaper_pairs='{' '.join(sum(pairs, []))}'\n"
                   "declare -gA _tc_bpshaper_kinds=(\n" +
                   "".join(f"    [{word}]='{kind}'\n"
                           for word, kind in kinds.items()) + ")\n", "#")


# --- Documentation/options.rst

def table(names, widths, rows):
    text = "\n.. list-table::\n   :header-rows: 1\n   :widths: " + \
        " ".join(map(str, widths)) + "\n\n"
    for row in (names, *rows):
        for number, cell in enumerate(row):
            text += textwrap.fill(
                re.sub(r"_(?=\*)|\*", r"\\\g<0>", cell), 118,
                break_on_hyphens=False,
                initial_indent="     - " if number else "   * - ",
                subsequent_indent=" " * 7) + "\n"
    return text + "\n"


def option_row(spec, option):
    also = ", ".join(f"``{alias}``" for alias in option.aliases)
    return (f"``{option.usage}``",
            spec.text(option.doc, "``") + (f" Also {also}." if also else ""),
            option.tc_range(), option.tc_default())


def attribute_row(option):
    values = f"{option.min} to {option.max}"
    if option.special:
        values += f", or {option.all_ones}"
    return (str(option.number), f"``{option.name}``", option.type, option.unit,
            values, option.preset or str(option.default))


def statistic_rows(spec, name):
    return [(f"``{member_name(member)}``", spec.text(member["doc"], "``"))
            for member in spec.struct(name)["members"]
            if not re.match("type$|reserved", member["name"])]


def tables(spec, _, old):
    for name, options in (("", spec.options),
                          ("class-", spec.class_options)):
        old = replace(old, f"{name}options", table(
            ("option", "meaning", "range", "default"), (20, 50, 20, 15),
            [option_row(spec, option) for option in options]), "..")
        old = replace(old, f"{name}attributes", table(
            ("number", "name", "type", "unit", "values", "default"),
            (8, 20, 8, 16, 30, 25), map(attribute_row, options)), "..")
    for name in ("xstats", "class-xstats", "leaf-xstats"):
        old = replace(old, name, table(("name", "meaning"), (25, 75),
                                       statistic_rows(spec, name)), "..")
    return old


# --- selftests/uapi/options.json

def refusal(option):
    """The bounds, as the kernel's message has them."""
    if option.unit == "type":
        return " or ".join(f"{name} ({number})"
                           for name, number in option.entries.items())
    if option.unit == "switch":
        return "0 or 1"
    if option.kind == "RATE":
        return f"{option.min} to 2^{option.max.bit_length() - 1} bytes/s" + \
            option.or_special()
    if option.max < option.all_ones:
        return f"{option.plain(option.min)} to {option.plain(option.max)}" + \
            option.or_special()
    if option.min:
        least = "1 byte" if option.min == 1 else option.plain(option.min)
        return f"{least} or more"
    return None


def option_record(option):
    default = option.special_word() if option.is_special(option.default) \
        else option.default
    return {"name": option.name, "word": option.word, "attr": option.number,
            "type": option.type, "unit": option.unit, "min": option.min,
            "max": option.max, "special": option.special_word(),
            "default": default, "usage": option.usage,
            "aliases": option.aliases, "opposite": option.opposite,
            "range": option.tc_range(), "preset": option.tc_default(),
            "refusal": refusal(option)}


def member_records(spec, name):
    """With offsets: no member has padding before it."""
    hist, offset = 8 * len(spec.struct("hist")["members"]), 0
    for member in spec.struct(name)["members"]:
        size = hist if "struct" in member else \
            member.get("len") or int(member["type"][1:]) // 8
        yield {"name": member_name(member), "type": member["type"],
               "offset": offset, "size": size}
        offset += size


def lines(records):
    return "[\n" + ",\n".join(f"    {json.dumps(record)}"
                              for record in records) + "\n  ]"


def records(spec, note, _):
    comment = f"{note} special: a word for the value whose bits are all ones." \
        " default: a number, that word, or null if it follows from something" \
        " else. range and preset: bounds and default as help has them." \
        " refusal: the bounds as the message of the kernel has them, null if" \
        " every value is in range."
    parts = {
        "comment": json.dumps(comment),
        "options": lines(map(option_record, spec.options)),
        "class_options": lines(map(option_record, spec.class_options)),
        "xstats": lines(member_records(spec, "xstats")),
        "class_xstats": lines(member_records(spec, "class-xstats")),
        "leaf_xstats": lines(member_records(spec, "leaf-xstats")),
    }
    return "{\n" + ",\n".join(f'  "{name}": {value}'
                              for name, value in parts.items()) + "\n}\n"
