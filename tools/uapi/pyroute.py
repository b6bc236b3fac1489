# SPDX-License-Identifier: GPL-2.0-only
"""Write the tables of the module for pyroute2, between two lines that say so."""
from spec import member_name

BEGIN, END = "# --- generated\n", "# --- end\n"
FORMATS = {"u16": "H", "u32": "I", "s32": "i", "u64": "Q", "s64": "q"}
STRUCTS = ("xstats", "class-xstats", "leaf-xstats")


def options(name, these):
    return f"{name} = (\n" + "".join(
        f'    ({option.number}, "{option.word}", "uint{option.type[1:]}"),\n'
        for option in these) + ")\n"


def member(item, spec):
    if "struct" in item:
        layout = f"{len(spec.struct('hist')['members'])}Q"
    elif "len" in item:
        layout = f"{item['len']}s"
    else:
        layout = FORMATS[item["type"]]
    return f'    ("{member_name(item)}", "{layout}"),\n'


def struct(spec, name):
    return "    (\n" + "".join(
        "    " + member(item, spec) for item in spec.struct(name)["members"]
    ) + "    ),\n"


def pyroute(spec, note, old):
    before, _, rest = old.partition(BEGIN)
    ports = [member_name(item) for name in STRUCTS
             for item in spec.struct(name)["members"] if "byte-order" in item]
    return before + BEGIN + f"# {note}\n" + \
        options("OPTIONS", spec.options) + \
        options("CLASS_OPTIONS", spec.class_options) + \
        "STRUCTS = (  # by the type, which comes first\n" + \
        "".join(struct(spec, name) for name in STRUCTS) + ")\n" + \
        "PORTS = (" + "".join(f'"{port}",' for port in ports) + ")\n" + \
        END + rest.partition(END)[2]
