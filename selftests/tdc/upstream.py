#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Make cases for bpshaper of the cases that tc-testing has for tbf and for many.

usage: upstream.py TBF.JSON INFRA.JSON LIST OUT.JSON

In all of TBF "tbf" becomes "bpshaper", and the changes of LIST are made (see
upstream.list). Of INFRA, which may not be there, the cases that LIST names are taken,
with bpshaper in the place of another. Prints the cases that LIST skips, as TEST|REASON.
"""
import json
import os
import re
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


def infra_cases(path, changes):
    """Those of LIST. scapy, which no guest has, is required by cases without it."""
    kept = []
    for case in json.load(open(path)):
        change, reason = changes.get(case["id"], ("", None))
        if not change.startswith("for "):
            continue
        text = json.dumps(case).replace(', "scapyPlugin"', "")
        case = json.loads(re.sub(rf"\b{change[4:]}\b", "bpshaper", text, flags=re.I))
        case["name"] += f" (where {reason})"
        kept.append(case)
    if len(kept) != sum(change.startswith("for ") for change, _ in changes.values()):
        sys.exit(f"{path} has no longer all cases that are listed")
    return kept


def main(tbf, infra, changes_path, out):
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
    if os.path.exists(infra):
        kept += infra_cases(infra, changes)
    json.dump(kept, open(out, "w"), indent=1)


main(*sys.argv[1:])
