# SPDX-License-Identifier: GPL-2.0-only
"""Write the words of the completion, the options of the man page, and what tests
read."""
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
    kinds = {word: completion_values(option)
             for option in spec.class_options + spec.options
             for word in (option.word, *option.aliases)}
    return replace(old, "words", f"# {note}\n" +
                   completion_words("_tc_bpshaper_words", spec.options) +
                   completion_words("_tc_bpshaper_class_words",
                                    spec.class_options) +
                   "declare -gA _tc_bpshaper_kinds=(\n" +
                   "".join(f"    [{word}]='{kind}'\n"
                           for word, kind in kinds.items()) + ")\n", "#")


# --- Documentation/tc-bpshaper.8

def man_range(option):
    """What the usage and the text before the options do not say."""
    if option.unit == "switch" or option.kind == "RATE" or \
       option.max == option.all_ones:
        return ""
    return f" Range: {option.tc_range()}."


def man_entry(spec, option):
    also = ", ".join(option.aliases)
    text = f"{spec.text(option.doc)}{f' Also {also}.' if also else ''}" \
        f"{man_range(option)} Default: {option.tc_default()}."
    word, value = option.usage.split(" ", 1)
    # A line that begins with one of these would be a request of roff.
    return f'.TP\n.BI {word} " {value}"\n' + re.sub(
        r"^(?=['.])", r"\\&", textwrap.fill(
            text, 80, break_on_hyphens=False, break_long_words=False),
        flags=re.M) + "\n"


def man_synopsis(options):
    text = ""
    for option in options:
        usage = re.sub(r"(\S+) (.*)", r"\\fB\1\\fR \\fI\2\\fR", option.usage)
        text = text[:-3] + f" | {usage} ]\n" if option.excludes else \
            text + f"[ {usage} ]\n"
    return text


def man(spec, _, old):
    for name, options in (("options", spec.options),
                          ("class-options", spec.class_options)):
        entries = [[man_entry(spec, option) for option in options
                    if option.is_rare == is_rare] for is_rare in (False, True)]
        for region, text in (
                (f"{name} in short", man_synopsis(options)),
                (name, "".join(entries[0]) + ".SS Rare options\n" +
                 "".join(entries[1]))):
            old = replace(old, region, text, '.\\"')
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
        least = "1 byte" if option.min == 1 and option.unit == "bytes" else \
            option.plain(option.min)
        return f"{least} or more"
    return None


def option_record(option):
    default = option.special_word() if option.is_special(option.default) \
        else option.default
    return {"name": option.name, "word": option.word, "attr": option.number,
            "type": option.type, "unit": option.unit, "min": option.min,
            "max": option.max, "special": option.special_word(),
            "default": default, "usage": option.usage,
            "aliases": option.aliases, "is_rare": option.is_rare,
            "range": option.tc_range(), "preset": option.tc_default(),
            "refusal": refusal(option)}


def member_records(spec, name):
    """With offsets. A member is at a multiple of its size, and so is the end: there
    is no padding, and a program of 32 bits has the same struct.
    """
    hist, offset = 8 * len(spec.struct("hist")["members"]), 0
    for member in spec.struct(name)["members"]:
        size = hist if "struct" in member else \
            member.get("len") or int(member["type"][1:]) // 8
        assert offset % min(size, 8) == 0, member["name"]
        yield {"name": member_name(member), "type": member["type"],
               "offset": offset, "size": size}
        offset += size
    assert offset % 8 == 0, name


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
