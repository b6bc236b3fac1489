# SPDX-License-Identifier: GPL-2.0-only
"""Write what tests read."""
import json

from spec import member_name


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
