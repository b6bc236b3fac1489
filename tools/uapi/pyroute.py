# SPDX-License-Identifier: GPL-2.0-only
"""Write the tables of the module for pyroute2, between two lines that say so."""
import textwrap

from spec import member_name

BEGIN, END = "# --- generated\n", "# --- end\n"
FORMATS = {"u16": "H", "u32": "I", "s32": "i", "u64": "Q", "s64": "q"}
STRUCTS = ("xstats", "class-xstats", "leaf-xstats")


def table(name, words):
    """A call of a function that takes the words NAME:KIND of a text apart."""
    return f'{name} = table(\n    """\n' + textwrap.fill(
        " ".join(words), 79, initial_indent="    ", subsequent_indent="    ",
        break_on_hyphens=False) + '\n    """\n)\n'


def options(name, these):
    """In the order of their numbers, which begin with 2."""
    return table(name, [
        f"{word}:uint{option.type[1:]}" if option else f"{word}:flag"
        for word, option in these])


def member(item, spec):
    if "struct" in item:
        layout = f"{len(spec.struct('hist')['members'])}Q"
    elif "len" in item:
        layout = f"{item['len']}s"
    else:
        layout = FORMATS[item["type"]]
    return f"{member_name(item)}:{layout}"


def structs(spec):
    return "".join(table(name.upper().replace("-", "_"), [
        member(item, spec) for item in spec.struct(name)["members"]])
        for name in STRUCTS)


def pyroute(spec, note, old):
    before, _, rest = old.partition(BEGIN)
    ports = [member_name(item) for name in STRUCTS
             for item in spec.struct(name)["members"] if "byte-order" in item]
    return before + BEGIN + f"# {note}\n" + \
        options("OPTIONS", spec.numbered(spec.options, spec.attributes)) + \
        options("CLASS_OPTIONS", spec.numbered(
            spec.class_options, spec.class_attributes)) + structs(spec) + \
        "PORTS = (" + "".join(f'"{port}",' for port in ports) + ")\n" + \
        END + rest.partition(END)[2]
