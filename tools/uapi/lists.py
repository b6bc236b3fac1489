# SPDX-License-Identifier: GPL-2.0-only
"""Write the words of the completion, and what tests read."""
import json
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
    if option.kind == "NUMBER":
        return "0 1"
    return f"{option.kind} {option.special_word() or ''}".rstrip()


def completion(spec, note, old):
    valued = [option for option in spec.options if not option.opposite]
    pairs = [option.values for option in spec.options if option.opposite]
    words = textwrap.fill(" ".join(option.word for option in valued), 80,
                          initial_indent="_tc_bpshaper_words='",
                          subsequent_indent="    ")
    kinds = "".join(f"    [{word}]='{completion_values(option)}'\n"
                    for option in valued
                    for word in (option.word, *option.aliases))
    return replace(old, "words", f"# {note}\n{words}'\n_tc_bpshaper_pairs='"
                   f"{' '.join(sum(pairs, []))}'\n"
                   f"declare -gA _tc_bpshaper_kinds=(\n{kinds})\n", "#")


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
        return f"{option.plain(option.min)} or more".replace("1 bytes", "1 byte")
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
    comment = f"SPDX-License-Identifier: GPL-2.0-only. {note} special: a word " \
        "for the value whose bits are all ones. default: a number, that word, " \
        "or null if it follows from something else. range and preset: bounds " \
        "and default as help has them. refusal: the bounds as the message of " \
        "the kernel has them, null if every value is in range."
    return "{\n" + ",\n".join(f'  "{name}": {value}' for name, value in (
        ("comment", json.dumps(comment)),
        ("options", lines(map(option_record, spec.options))),
        ("xstats", lines(member_records(spec, "xstats"))),
        ("class_xstats", lines(member_records(spec, "class-xstats"))))) + "\n}\n"
