#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Make cases for bpshaper of the cases that tc-testing has for tbf.

usage: upstream.py TBF.JSON LIST OUT.JSON

"tbf" becomes "bpshaper", and the changes of LIST are made (see upstream.list).
Prints the cases that LIST skips, as TEST|REASON.
"""
import json
import sys


def list_read(path):
    changes = {}
    for line in open(path):
        if line.strip() and not line.startswith("#"):
            test, change, reason = (part.strip() for part in line.split("|", 2))
            changes[test] = change, reason
    return changes


def case_change(case, change):
    _, old, new, _ = change.split("/")
    if old not in case["matchPattern"]:
        sys.exit(f"{case['id']} expects no longer what {change} is for")
    case["matchPattern"] = case["matchPattern"].replace(old, new)


def main(tbf, changes_path, out):
    changes = list_read(changes_path)
    cases = json.loads(open(tbf).read().replace("tbf", "bpshaper"))
    kept = []
    for case in cases:
        change, reason = changes.get(case["id"], (None, None))
        if change == "skip":
            print(f"{case['name']} ({case['id']})|{reason}")
            continue
        if change:
            case_change(case, change)
            case["name"] += f" (where {reason})"
        kept.append(case)
    json.dump(kept, open(out, "w"), indent=1)


main(*sys.argv[1:])
