#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""From the measurements of bench.sh: JSON, CSV, plots and tables.

usage: report.py MEASUREMENTS OUT

MEASUREMENTS has a JSON file for each measurement, anywhere below it. What OUT/results.json
has of other parts, rates and kernels stays: a part can be measured again alone. Plots are
SVG, OUT/tables.rst is included by the page. Units are in the names of the columns.
"""

import csv
import json
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

# The same bytes for the same numbers.
plt.rcParams["svg.hashsalt"] = "bpshaper"

RIVALS = ["bpshaper", "tbf", "tbf+fq", "htb+fq_codel", "cake", "edt"]
COLOURS = dict(zip(RIVALS, ["#d62728", "#7f7f7f", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e"]))
KEY = ("kernel", "part", "shaper", "rate", "sndbuf", "senders", "flows", "cc", "udp")


def number(row, key):
    """The value as a number, or None."""
    value = row.get(key)
    return None if value is None or value == "" else float(value)


def per_packet(row, key):
    """A count divided by the packets that arrived, or None."""
    packets = number(row, "udp_received_packets")
    return number(row, key) / packets if packets else None


def read(directory):
    for path in sorted(directory.rglob("*.json")):
        row = json.loads(path.read_text())
        if "shaper" in row:
            yield row


def merge(old, new):
    """Of two measurements of the same, the new one."""
    rows = {tuple(str(r.get(k, "")) for k in KEY): r for r in old}
    rows.update({tuple(str(r.get(k, "")) for k in KEY): r for r in new})
    return [rows[key] for key in sorted(rows)]


def write_csv(path, rows):
    names = sorted({name for row in rows for name in row}, key=lambda n: (n not in KEY, n))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def table(heading, rows):
    """A simple table of reStructuredText."""
    cells = [heading] + rows
    widths = [max(len(r[i]) for r in cells) for i in range(len(heading))]
    rule = "  ".join("=" * w for w in widths)
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in cells]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule, ""])


def text(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


OVERLOAD = [
    ("lost %", lambda r: number(r, "udp_loss_percent"), 2),
    ("goodput Mbit/s", lambda r: number(r, "udp_payload_goodput_mbit_per_s"), 1),
    ("Jain", lambda r: number(r, "udp_jain_index"), 4),
    ("age p50 ms", lambda r: number(r, "udp_age_p50_ms"), 1),
    ("age p99 ms", lambda r: number(r, "udp_age_p99_ms"), 1),
    ("probe p99 ms", lambda r: number(r, "probe_delay_p99_ms"), 2),
    ("CPU us/packet", lambda r: number(r, "sender_cpu_us_per_packet"), 1),
    ("switches/packet", lambda r: per_packet(r, "system_context_switches"), 3),
    ("timers/packet", lambda r: per_packet(r, "system_timer_interrupts"), 3),
]

TCP = [
    ("goodput Mbit/s", lambda r: number(r, "tcp_goodput_mbit_per_s"), 1),
    ("UDP Mbit/s", lambda r: number(r, "udp_payload_goodput_mbit_per_s"), 1),
    ("retransmits", lambda r: number(r, "tcp_retransmitted_segments"), 0),
    ("srtt mean ms", lambda r: number(r, "tcp_srtt_mean_ms"), 2),
    ("probe p99 ms", lambda r: number(r, "probe_delay_p99_ms"), 2),
    ("CPU ms", lambda r: number(r, "tcp_sender_cpu_ms"), 0),
]


def groups(rows, part, keys):
    found = defaultdict(dict)
    for row in rows:
        if row["part"] == part:
            found[tuple(row[k] for k in keys)][row["shaper"]] = row
    return found


def in_order(key):
    return [(0, float(k), "") if k.replace(".", "").isdigit() else (1, 0, k) for k in key]


def tables_of(rows, part, keys, columns):
    parts = []
    for key, cell in sorted(groups(rows, part, keys).items(), key=lambda i: in_order(i[0])):
        for shaper in RIVALS:
            if shaper in cell:
                parts.append(
                    list(key) + [shaper] + [text(f(cell[shaper]), d) for _, f, d in columns]
                )
    return table(list(keys) + ["shaper"] + [c[0] for c in columns], parts) if parts else ""


def idle_table(rows):
    cost = {r["shaper"]: number(r, "instructions_per_packet") for r in rows if r["part"] == "idle"}
    if "noqueue" not in cost:
        return ""
    net = {k: v - cost["noqueue"] for k, v in cost.items() if k != "noqueue"}
    lines = [
        [k, text(v, 0), text(v / net["tbf"], 2), text(v / net["fq"], 2)]
        for k, v in sorted(net.items(), key=lambda i: i[1])
    ]
    return table(["qdisc", "instructions/packet", "of tbf", "of fq"], lines)


def plot(path, rows, sndbuf, rate, name, column, label, log=True):
    """A line for each shaper, over the number of senders."""
    figure, axes = plt.subplots(figsize=(7, 4))
    found = groups(rows, "overload", ("rate", "sndbuf", "senders"))
    for shaper in RIVALS:
        points = sorted(
            (int(key[2]), column(cell[shaper]))
            for key, cell in found.items()
            if key[:2] == (rate, sndbuf) and shaper in cell and column(cell[shaper]) is not None
        )
        if points:
            axes.plot(*zip(*points), marker="o", label=shaper, color=COLOURS[shaper])
    axes.set_xscale("log", base=2)
    if log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=-2)
    axes.set_xlabel("UDP senders without a limit")
    axes.set_ylabel(label)
    axes.set_title(f"{rate}/s, {name}")
    axes.grid(True, alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    results = out / "results.json"
    old = json.loads(results.read_text()) if results.exists() else []
    rows = merge(old, read(source))
    results.write_text(
        "[\n" + ",\n".join(json.dumps(r, sort_keys=True) for r in rows) + "\n]\n"
    )
    write_csv(out / "results.csv", rows)
    for kernel in sorted({r["kernel"] for r in rows}):
        here = [r for r in rows if r["kernel"] == kernel]
        series = ".".join(kernel.split(".")[:2])
        for name, body in (
            ("overload", tables_of(here, "overload", ("rate", "sndbuf", "senders"), OVERLOAD)),
            ("tcp", tables_of(here, "tcp", ("rate", "cc", "flows", "udp"), TCP)),
            ("idle", idle_table(here)),
        ):
            if body:
                (out / f"{name}-{series}.rst").write_text(body)
        for sndbuf, name in (("default", "default send buffers"), ("4194304", "send buffers of 4 MB")):
            for short, column, label, log in (
                ("loss", OVERLOAD[0][1], "packets lost, %", False),
                ("age", OVERLOAD[4][1], "p99 of the time in the queue, ms", True),
                ("probe", OVERLOAD[5][1], "p99 of a sparse sender's delay, ms", True),
                ("cpu", OVERLOAD[6][1], "sender CPU per delivered packet, us", True),
            ):
                plot(
                    out / f"{short}-{sndbuf}-{series}.svg",
                    here, sndbuf, "200mbit", name, column, label, log,
                )


if __name__ == "__main__":
    main()
