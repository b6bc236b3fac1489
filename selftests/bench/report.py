#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""From the measurements of guest/bench/bench.sh: JSON, CSV, plots and tables.

usage: report.py MEASUREMENTS OUT

MEASUREMENTS has a JSON file for each measurement, anywhere below it. What OUT/results.json
has of other parts, rates and kernels stays: a part can be measured again alone. Plots are
SVG. Tables, and which goals were met, go into OUT/performance.rst, between the lines
".. begin NAME" and ".. end NAME", or to the output if it is not there. Units are in the
names of the columns.
"""

import csv
import json
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

# The same bytes for the same numbers.
plt.rcParams["svg.hashsalt"] = "bpshaper"

RIVALS = ["bpshaper", "tbf", "tbf+fq", "htb+fq_codel", "cake", "edt"]
# What is shown beside them, and is no rival of bpshaper.
SHAPERS = RIVALS + ["bpshaper-off", "bpshaper-all", "edt+bpshaper"]
COLOURS = dict(zip(RIVALS, ["#d62728", "#7f7f7f", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e"]))
KEY = ("part", "shaper", "rate", "sndbuf", "senders", "flows", "cc", "udp",
       "tso_rtt_log", "case", "burst", "packet", "cpus", "turn", "client", "kind", "load", "bits")


def number(row, key):
    """The value as a number, or None."""
    value = row.get(key)
    return None if value is None or value == "" else float(value)


def series_of(row):
    """Of kernels that differ in the stable release only, the later one's results count."""
    return ".".join(row["kernel"].split(".")[:2])


def identity(row):
    return (series_of(row), *(str(row.get(k, "")) for k in KEY))


def by_series(rows):
    return [
        (series, [r for r in rows if series_of(r) == series])
        for series in sorted({series_of(r) for r in rows})
    ]


# What a kernel counts in a second without the senders, by series and name.
BACKGROUND = {}


def background_read(rows):
    for row in rows:
        if row["part"] == "background":
            for key in ("system_context_switches", "system_timer_interrupts"):
                BACKGROUND[series_of(row), key] = number(row, key) / number(row, "sending_seconds")


def per_packet(row, key):
    """A count without that of the traffic's sinks and the probe, divided by the packets
    that arrived, or None."""
    packets = number(row, "udp_received_packets")
    rest = BACKGROUND.get((series_of(row), key), 0) * number(row, "sending_seconds")
    return max(0, number(row, key) - rest) / packets if packets else None


def read(directory):
    for path in sorted(directory.rglob("*.json")):
        row = json.loads(path.read_text())
        if "shaper" in row:
            yield row


def merge(old, new):
    """Of two measurements of the same, the new one."""
    rows = {identity(r): r for r in old}
    rows.update({identity(r): r for r in new})
    return [rows[key] for key in sorted(rows)]


def write_csv(path, rows):
    key = ("kernel", *KEY)
    names = sorted({name for row in rows for name in row}, key=lambda n: (n not in key, n))
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
        for shaper in SHAPERS:
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


# They take no burst: what they let out at once is held against one packet.
NO_BURST = ("cake", "fq")
PRECISE = ["bpshaper", "tbf", "htb", "cake", "fq"]


def rate_error(row):
    """In percent of the rate that was asked for."""
    return (number(row, "rate_Bps") * 8 / number(row, "bits") - 1) * 100


def precision_line(row):
    alone = row["shaper"] in NO_BURST
    line = [row["rate"], "-" if alone else row["burst"], row["shaper"]]
    if row.get("refused"):
        return line + ["-"] * 4 + ["refuses this rate"]
    if number(row, "drops") == 0 or rate_error(row) < -0.5:
        return line + ["-"] * 4 + [
            "the CPU is the bound: " + text(number(row, "rate_Bps") * 8e-9, 1) + " Gbit/s"
        ]
    excess = number(row, "max_level_bytes") - number(row, "packet" if alone else "burst")
    return line + [
        text(round(rate_error(row), 4) + 0, 4),
        text(max(0, excess), 0),
        text(number(row, "gap_deviation_stddev_ns") / 1e3, 1),
        text(number(row, "gap_deviation_p99_ns") / 1e3, 1),
        "",
    ]


def precision_table(rows):
    found = sorted(
        (r for r in rows if r["part"] == "precision" and r["case"] == "rate"),
        key=lambda r: (number(r, "bits"), PRECISE.index(r["shaper"]), number(r, "burst")),
    )
    return table(
        ["rate", "burst", "shaper", "rate error %", "excess bytes", "gap stddev us",
         "gap p99 us", "note"],
        [precision_line(r) for r in found],
    ) if found else ""


def accounting_table(rows):
    """What a packet was charged beyond what it takes on the wire: that is missing from,
    or added to, the rate on the wire."""
    found = defaultdict(dict)
    for row in rows:
        if row["part"] == "precision" and row["case"] != "rate" and number(row, "rate_Bps"):
            found[row["case"]][row["shaper"]] = row
    lines = []
    for case, cell in found.items():
        for shaper in (s for s in PRECISE if s in cell):
            row = cell[shaper]
            wire = number(row, "packet_bytes_mean")
            error = wire * (number(row, "bits") / 8 / number(row, "rate_Bps") - 1)
            lines.append([
                case, row["packet"], shaper, text(wire, 0), text(round(error, 2) + 0, 2),
                text(number(row, "rate_Bps") * 8e-6, 3),
            ])
    return table(
        ["case", "packet", "shaper", "bytes on the wire", "error bytes", "Mbit/s of 20"], lines
    ) if lines else ""


EXTRA_COLOURS = {"htb": "#2ca02c", "fq": "#1f77b4", "mq+fq": "#17becf", "mq+edt": "#bcbd22",
                 "group": "#e377c2", "cake_mq": "#7f7f7f"}
# One root lock first, then a lock for each queue.
CONTENDERS = ["tbf", "bpshaper", "htb", "fq", "mq+fq", "mq+edt", "group", "cake_mq"]


def contention_cells(rows):
    """By number of CPUs and shaper: packets per second, and time in slow paths of locks."""
    speeds, spinning = defaultdict(list), {}
    for row in rows:
        if row["part"] != "contention" or row["case"] != "unshaped":
            continue
        key = (int(row["cpus"]), row["shaper"])
        if row["turn"] == "locks":
            busy = number(row, "samples_busy")
            spinning[key] = 100 * number(row, "samples_spinning") / busy if busy else None
        else:
            speeds[key].append(number(row, "packets") / number(row, "elapsed_us"))
    return speeds, spinning


def ratio(a, b):
    return a / b if a is not None and b else None


def contention_table(rows):
    """A host that takes a CPU away makes a turn slower, never faster: the best turn is the
    one least disturbed."""
    speeds, spinning = contention_cells(rows)
    best = {k: max(v) for k, v in speeds.items()}
    median = {k: statistics.median(v) for k, v in speeds.items()}
    lines = [
        [
            str(cpus), shaper,
            text(ratio(best[cpus, shaper], best.get((1, shaper))), 2),
            text(ratio(best[cpus, shaper], best.get((cpus, "tbf"))), 2),
            text(ratio(median[cpus, shaper], median.get((cpus, "tbf"))), 2),
            text(median[cpus, shaper] / best[cpus, shaper], 2),
            text(spinning.get((cpus, shaper)), 1),
        ]
        for cpus, shaper in sorted(speeds, key=lambda k: (k[0], CONTENDERS.index(k[1])))
    ]
    return table(
        ["CPUs", "shaper", "best turn, of itself with 1", "of tbf's best",
         "median, of tbf's median", "median, of the best", "% of busy time in lock slow paths"],
        lines,
    ) if lines else ""


def contention_pairs_table(rows):
    """A turn of one right after the other: the host is the same to both, more or less."""
    turns = defaultdict(dict)
    for row in rows:
        if row["part"] == "contention" and row["case"] == "pairs":
            turns[int(row["cpus"]), row["turn"]][row["shaper"]] = (
                number(row, "packets") / number(row, "elapsed_us")
            )
    lines = []
    for cpus in sorted({c for c, _ in turns}):
        ratios = [t["group"] / t["mq+fq"] for (c, _), t in turns.items() if c == cpus]
        low, median, high = statistics.quantiles(ratios, n=4)
        lines.append([str(cpus), str(len(ratios)), text(median, 2), f"{low:.2f} to {high:.2f}"])
    return table(["CPUs", "turns", "group / mq+fq, median", "quartiles"], lines) if lines else ""


def contention_overload_table(rows):
    lines = []
    for row in rows:
        if row["part"] == "contention" and row["case"] == "overload":
            busy = number(row, "samples_busy")
            lines.append([
                row["cpus"], row["shaper"], text(number(row, "udp_loss_percent"), 2),
                text(number(row, "udp_payload_goodput_mbit_per_s"), 1), text(AGE(row), 0),
                text(100 * number(row, "samples_spinning") / busy if busy else None, 1),
            ])
    return table(
        ["CPUs", "shaper", "lost %", "goodput Mbit/s", "age p99 ms", "% of busy time in lock slow paths"],
        lines,
    ) if lines else ""


def contention_queues_table(rows):
    """Turns apart: what the host takes away differs."""
    lines = []
    for row in rows:
        if row["part"] == "contention" and row["case"] == "queues":
            busy = number(row, "samples_busy")
            least, most = number(row, "least_mbit_per_s"), number(row, "most_mbit_per_s")
            lines.append([
                row["shaper"], row["turn"], text(number(row, "udp_loss_percent"), 2),
                text(number(row, "udp_payload_goodput_mbit_per_s"), 1),
                f"{text(least, 2)} to {text(most, 2)}", text(AGE(row), 0),
                text(100 * number(row, "samples_spinning") / busy if busy else None, 1),
            ])
    return table(
        ["shaper", "turn", "lost %", "goodput Mbit/s", "of each sender", "age p99 ms",
         "% of busy time in lock slow paths"],
        sorted(lines, key=lambda line: (CONTENDERS.index(line[0]), line[1])),
    ) if lines else ""


def client_lost(row):
    """In percent, or None for those that retransmit."""
    sent = number(row, "sent_packets")
    return 100 * number(row, "lost_packets") / sent if sent else None


CLIENTS = ["iperf2", "iperf3", "quic", "quic-gso", "wg-udp", "wg-tcp", "dns"]


def clients_table(rows):
    found = [r for r in rows if r["part"] == "clients" and r["client"] in CLIENTS]
    found.sort(key=lambda r: (CLIENTS.index(r["client"]), RIVALS.index(r["shaper"])))
    lines = [
        [
            r["client"], r["shaper"], text(number(r, "goodput_mbit_per_s"), 2),
            text(client_lost(r), 2), text(number(r, "drops"), 0),
            text(number(r, "retransmitted_segments"), 0), text(number(r, "latency_mean_ms"), 1),
            text(number(r, "busy_ms"), 0),
        ]
        for r in found
    ]
    return table(
        ["client", "shaper", "goodput Mbit/s", "lost %", "drops", "retransmits", "latency ms",
         "CPU ms"],
        lines,
    ) if lines else ""


def plain(key):
    return lambda r: number(r, key)


# Servers with many peers: a table each.
HTTP_PEERS = [
    ("HTTP/3 Mbit/s", plain("quic_mbit_per_s"), 2),
    ("HTTP/2 Mbit/s", plain("tcp_mbit_per_s"), 2),
    ("HTTP/3 least", plain("quic_least_mbit_per_s"), 3),
    ("HTTP/2 least", plain("tcp_least_mbit_per_s"), 3),
    ("Jain of 32", plain("jain_index"), 4),
    ("drops", plain("drops"), 0),
    ("HTTP/2 retransmits", plain("retransmitted_segments"), 0),
]
PEERS = {
    "http-peers": HTTP_PEERS,
    "http-gso-peers": HTTP_PEERS,
    "dns-peers": [
        ("answers/s of the one", plain("one_answers_per_s"), 0),
        ("of 63 others", plain("others_answers_per_s"), 0),
        ("least of them", plain("least_answers_per_s"), 1),
        ("p50 ms", plain("latency_p50_ms"), 2),
        ("p99 ms", plain("latency_p99_ms"), 1),
        ("lost %", client_lost, 2),
        ("the one's lost", plain("one_lost_packets"), 0),
        ("drops", plain("drops"), 0),
        ("RcvbufErrors", plain("server_rcvbuf_errors"), 0),
    ],
    "wg-peers": [
        ("Mbit/s of ten streams", plain("first_mbit_per_s"), 2),
        ("of 7 others", plain("others_mbit_per_s"), 2),
        ("least of them", plain("least_mbit_per_s"), 3),
        ("most", plain("most_mbit_per_s"), 3),
        ("Jain of 8", plain("jain_index"), 4),
        ("drops", plain("drops"), 0),
        ("retransmits", plain("retransmitted_segments"), 0),
    ],
}


def peers_table(rows, client):
    cells = {r["shaper"]: r for r in rows if r["part"] == "clients" and r["client"] == client}
    lines = [
        [shaper] + [text(f(cells[shaper]), d) for _, f, d in PEERS[client]]
        + [text(number(cells[shaper], "busy_ms"), 0)]
        for shaper in RIVALS if shaper in cells
    ]
    return table(
        ["shaper"] + [c[0] for c in PEERS[client]] + ["CPU ms"], lines
    ) if lines else ""


def plot_contention(path, rows):
    """The best turns, as a line; medians, as points."""
    speeds, _ = contention_cells(rows)
    if not speeds:
        return
    figure, axes = plt.subplots(figsize=(7, 4))
    for shaper in CONTENDERS:
        points = sorted((k[0], v) for k, v in speeds.items() if k[1] == shaper)
        if not points:
            continue
        cpus = [c for c, _ in points]
        tbf = [max(speeds.get((c, "tbf"), [0])) or 1 for c in cpus]
        colour = COLOURS.get(shaper, EXTRA_COLOURS.get(shaper))
        axes.plot(
            cpus, [max(v) / t for (_, v), t in zip(points, tbf)],
            marker="o", label=shaper, color=colour,
        )
        axes.plot(
            cpus, [statistics.median(v) / t for (_, v), t in zip(points, tbf)],
            linestyle="", marker="_", color=colour,
        )
    axes.set_xlabel("CPUs that send")
    axes.set_ylabel("packets/s, of tbf's best turn; - median")
    axes.set_ylim(bottom=0)
    axes.grid(True, alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def plot_clients(path, rows):
    """What programs lose, a bar for each shaper."""
    cells = {(r["client"], r["shaper"]): client_lost(r) for r in rows if r["part"] == "clients"}
    names = [c for c in CLIENTS if any(k[0] == c and v is not None for k, v in cells.items())]
    if not names:
        return
    figure, axes = plt.subplots(figsize=(7, 4))
    width = 0.8 / len(RIVALS)
    for i, shaper in enumerate(RIVALS):
        axes.bar(
            [x + (i - len(RIVALS) / 2 + 0.5) * width for x in range(len(names))],
            [cells.get((name, shaper)) or 0 for name in names],
            width, label=shaper, color=COLOURS[shaper],
        )
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("lost, %")
    axes.set_title("20 Mbit/s, programs as they are")
    axes.grid(True, axis="y", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def plot_pacing(path, rows):
    """Timer interrupts of capped streams of BBR, a line for each pacer."""
    found = [r for r in paced(rows, "capped", "pacer") if r["cc"] == "bbr"]
    if not found:
        return
    figure, axes = plt.subplots(figsize=(7, 4))
    for shaper in PACERS:
        points = sorted((int(r["flows"]), TIMERS_S(r)) for r in found if r["shaper"] == shaper)
        if points:
            axes.plot(*zip(*points), marker="o", label=shaper,
                      linestyle="--" if shaper == "fq" else "-")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("streams of BBR, 200 Mbit/s together (SO_MAX_PACING_RATE)")
    axes.set_ylabel("timer interrupts/s")
    axes.grid(True, alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def plot(path, rows, sndbuf, rate, name, column, label, log=True):
    """A line for each shaper, over the number of senders."""
    ticks = set()
    figure, axes = plt.subplots(figsize=(7, 4))
    found = groups(rows, "overload", ("rate", "sndbuf", "senders"))
    for shaper in RIVALS:
        points = sorted(
            (int(key[2]), column(cell[shaper]))
            for key, cell in found.items()
            if key[:2] == (rate, sndbuf) and shaper in cell and column(cell[shaper]) is not None
        )
        if points:
            axes.plot(
                *zip(*points), marker="o", label=shaper, color=COLOURS[shaper],
                linestyle="--" if shaper == "edt" else "-",  # it hides tbf's
                zorder=3 if shaper == "bpshaper" else 2,
            )
            ticks.update(n for n, _ in points)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(ticks), [str(n) for n in sorted(ticks)])
    if log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=-2)
    axes.set_xlabel("UDP senders without a limit")
    axes.set_ylabel(label)
    axes.set_title(f"{MBIT[rate]} Mbit/s, {name}")
    axes.grid(True, alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


AGE, PROBE, CPU, SWITCHES, TIMERS = (OVERLOAD[i][1] for i in (4, 5, 6, 7, 8))
# What tells cells of one part apart.
CELLS = ("rate", "sndbuf", "senders")
STREAMS = ("rate", "cc", "flows", "udp", "tso_rtt_log")
WIRE_BYTES = 1512
PROBE_WIRE_BYTES = 114
LIMIT_MS = {"20mbit": 12, "200mbit": 8, "1gbit": 8}
MBIT = {"20mbit": 20, "200mbit": 200, "1gbit": 1000}


def worst(cells, ratio, name):
    """The largest of the ratios that there are, with where it was."""
    found = [(ratio(cell), key) for key, cell in cells.items() if ratio(cell) is not None]
    if not found:
        return None
    value, key = max(found)
    return value, ", ".join(f"{k} {v}" for k, v in zip(name, key))


def over(numerator, denominator):
    return None if numerator is None or not denominator else numerator / denominator


def rivals_of(cell, column):
    return [v for k, r in cell.items() if k in RIVALS[1:] and (v := column(r)) is not None]


def of_best(column, pick):
    """bpshaper's value divided by the best rival's."""

    def ratio(cell):
        values = rivals_of(cell, column)
        return over(column(cell["bpshaper"]), pick(values)) if values else None

    return ratio


def against(column, rival):
    return lambda cell: over(column(cell["bpshaper"]), column(cell[rival])) if rival in cell else None


def age_of_goal(key, cell):
    """Own age p99 divided by 1.3 x limit / rate + two packets of each socket."""
    rate, senders = key[0], float(key[2])
    packets_ms = 2 * senders * WIRE_BYTES * 8 / MBIT[rate] / 1000
    return over(AGE(cell["bpshaper"]), 1.3 * LIMIT_MS[rate] + packets_ms)


def link_use(row):
    """Mbit/s of the senders and the probe: what a shaper loses of the probe others get."""
    probe = number(row, "probe_received_packets") * PROBE_WIRE_BYTES * 8 / 1e6
    return number(row, "udp_wire_goodput_mbit_per_s") + probe / number(row, "sending_seconds")


def growth_goal(rows):
    cost = {int(r["senders"]): CPU(r) for r in rows if r["part"] == "growth"}
    if len(cost) < 2:
        return None
    few, many = min(cost), max(cost)
    return cost[many] / cost[few], f"{many} sockets, {few}"


def idle_goal(rows, rival):
    cost = {r["shaper"]: number(r, "instructions_per_packet") for r in rows if r["part"] == "idle"}
    if "noqueue" not in cost:
        return None
    net = {k: v - cost["noqueue"] for k, v in cost.items()}
    return net["bpshaper"] / net[rival], "net of noqueue"


def goals_table(rows):
    """What was asked for, and the worst that was measured."""
    cells = {k: c for k, c in groups(rows, "overload", CELLS).items() if "bpshaper" in c}
    streams = {k: c for k, c in groups(rows, "tcp", STREAMS).items() if "bpshaper" in c}
    keyed = {k: dict(c, key=k) for k, c in cells.items()}

    def own(column):
        return lambda cell: column(cell["bpshaper"])

    def inverse(ratio):
        return lambda cell: over(1, ratio(cell))

    goals = [
        ("packets of UDP sockets lost, %", 0, 2, worst(cells, own(OVERLOAD[0][1]), CELLS)),
        ("packets dropped in cells of TCP", 0, 0,
         worst(streams, own(lambda r: number(r, "qdisc_drops")), STREAMS)),
        ("best rival's use of the link, UDP / ours", 1 / 0.999, 4,
         worst(cells, inverse(of_best(link_use, max)), CELLS)),
        ("best rival's TCP goodput / ours", 1 / 0.999, 4,
         worst({k: c for k, c in streams.items() if k[3] == "0"},
               inverse(of_best(TCP[0][1], max)), STREAMS)),
        ("own age p99 / (1.3 limit/rate + 2 packets each)", 1, 2,
         worst(keyed, lambda c: age_of_goal(c["key"], c), CELLS)),
        ("probe p99, ms", 0.2, 2, worst(cells, own(PROBE), CELLS)),
        ("probe p99 / best rival's", 1, 2, worst(cells, of_best(PROBE, min), CELLS)),
        ("sender CPU / tbf's", 0.2, 3, worst(cells, against(CPU, "tbf"), CELLS)),
        ("sender CPU / best rival's", 1, 3, worst(cells, of_best(CPU, min), CELLS)),
        ("timer interrupts / tbf's", 1 / 6, 3, worst(cells, against(TIMERS, "tbf"), CELLS)),
        ("context switches / tbf + fq's", 0.25, 2,
         worst(cells, against(SWITCHES, "tbf+fq"), CELLS)),
        ("idle path, instructions / tbf's", 0.9, 3, idle_goal(rows, "tbf")),
        ("idle path, instructions / fq's", 0.4, 3, idle_goal(rows, "fq")),
        ("CPU per packet, most sockets / fewest", 1.5, 2, growth_goal(rows)),
    ]
    lines = [
        [name, text(bound, digits), text(found[0], digits),
         "met" if found[0] <= bound else "missed", found[1]]
        for name, bound, digits, found in goals
        if found
    ]
    return table(["goal", "at most", "worst", "", "where"], lines) if lines else ""


def growth_table(rows):
    lines = [
        [r["senders"], text(OVERLOAD[0][1](r), 2), text(OVERLOAD[2][1](r), 4), text(AGE(r), 1),
         text(PROBE(r), 2), text(CPU(r), 2),
         text(over(number(r, "throttles"), number(r, "packets")), 2)]
        for r in sorted((r for r in rows if r["part"] == "growth"), key=lambda r: int(r["senders"]))
    ]
    heading = ["sockets", "lost %", "Jain", "age p99 ms", "probe p99 ms", "CPU us/packet", "throttles/packet"]
    return table(heading, lines) if lines else ""


def requests_table(rows):
    lines = [
        [r["rate"], r["shaper"], text(number(r, "request_us"), 0)]
        for r in sorted(
            (r for r in rows if r["part"] == "requests"),
            key=lambda r: (MBIT[r["rate"]], RIVALS.index(r["shaper"])),
        )
    ]
    return table(["rate", "shaper", "request us"], lines) if lines else ""


# Part `pacing`
PACERS = ["fq", "bpshaper", "bpshaper-all", "bpshaper-off", "pfifo", "tbf+fq", "tbf", "edt", "edt+bpshaper"]


def per_second(key):
    return lambda r: over(number(r, key), number(r, "sending_seconds"))


def ns_per_byte(key, count="tcp_received_bytes"):
    """Of milliseconds. What is sent in the end arrives later: too little to matter."""
    return lambda r: over((number(r, key) or 0) * 1e6, number(r, count))


TIMERS_S = per_second("system_timer_interrupts")
MACHINE = ns_per_byte("system_busy_ms")
PACED = [
    ("goodput Mbit/s", lambda r: number(r, "tcp_goodput_mbit_per_s"), 1),
    ("timers/s", TIMERS_S, 0),
    ("CPU ns/byte", MACHINE, 2),
    ("senders' ns/byte", ns_per_byte("tcp_sender_cpu_ms"), 2),
    ("srtt mean ms", lambda r: number(r, "tcp_srtt_mean_ms"), 2),
    ("srtt p99 ms", lambda r: number(r, "tcp_srtt_p99_ms"), 2),
    ("retransmits", lambda r: number(r, "tcp_retransmitted_segments"), 0),
    ("drops", lambda r: number(r, "qdisc_drops"), 0),
]
WAITS = ("waits/s", per_second("paced_waits"), 0)
PATH_DROPS = ("drops of the path", lambda r: number(r, "path_drops"), 0)
REQUESTS = [
    ("requests/s", per_second("rr_answers"), 0),
    ("p50 us", lambda r: number(r, "rr_p50_us"), 1),
    ("p99 us", lambda r: number(r, "rr_p99_us"), 1),
    ("timers/s", TIMERS_S, 0),
    ("CPU us/request", lambda r: over(number(r, "system_busy_ms") * 1e3, number(r, "rr_answers")), 2),
]
DEPARTURE = [
    ("arrived", lambda r: number(r, "arrived"), 0),
    ("early", lambda r: number(r, "early"), 0),
    ("late p50 us", lambda r: number(r, "late_p50_us"), 1),
    ("p99 us", lambda r: number(r, "late_p99_us"), 1),
    ("max us", lambda r: number(r, "late_max_us"), 1),
]
DATAGRAMS = [
    ("rate error %", lambda r: (number(r, "rate_Bps") * 8 / number(r, "bits") - 1) * 100, 3),
    ("most above the rate, bytes", lambda r: number(r, "max_level_bytes"), 0),
    ("gap stddev us", lambda r: number(r, "gap_deviation_stddev_ns") / 1e3, 1),
]


def median_row(rows):
    """Of the turns of one cell, each number's median."""
    row = dict(rows[0])
    for key in row:
        try:
            row[key] = statistics.median(float(r[key]) for r in rows) if len(rows) > 1 else row[key]
        except (KeyError, TypeError, ValueError):
            pass
    return dict(row, **{k: rows[0][k] for k in KEY if k in row})


def paced(rows, case, kind):
    cells = defaultdict(list)
    for row in rows:
        if row["part"] == "pacing" and row["case"] == case and kind in (None, row["kind"]):
            cells[tuple(str(row.get(k)) for k in KEY if k != "turn")].append(row)
    return [median_row(turns) for turns in cells.values()]


def pacing_table(rows, case, kind, keys, columns):
    """A line for each measurement of that case, by @keys."""
    found = paced(rows, case, kind)
    found.sort(key=lambda r: (in_order([str(r[k]) for k in keys]), PACERS.index(r["shaper"])))
    lines = [
        [str(r[k]) for k in keys] + [r["shaper"]] + [text(f(r), d) for _, f, d in columns]
        for r in found
    ]
    return table(list(keys) + ["qdisc"] + [c[0] for c in columns], lines) if lines else ""


def pacing_worst(rows, case, kind, rival, keys, column, want=lambda r: True):
    """The largest of bpshaper's values divided by the rival's, with where it was."""
    cells = defaultdict(dict)
    for row in paced(rows, case, kind):
        if want(row):
            cells[tuple(str(row[k]) for k in keys)][row["shaper"]] = row

    def ratio(cell):
        if "bpshaper" not in cell or rival not in cell:
            return None
        return over(column(cell["bpshaper"]), column(cell[rival]))

    return worst(cells, ratio, keys)


def pacing_all(rows, case, kind, rival, keys, column, want):
    """As pacing_worst, but of all cells together: counts of a cell move with its phases."""
    sums = defaultdict(float)
    for row in paced(rows, case, kind):
        if want(row):
            sums[row["shaper"]] += column(row) or 0
    value = over(sums["bpshaper"], sums[rival])
    return (value, "all cells together") if value else None


def pacing_goals_table(rows):
    """bpshaper's value divided by that of fq, or of fq below tbf where both shape."""
    streams = ("cc", "flows")

    def bbr(row):
        return row["cc"] == "bbr"

    def inverse(key):
        return lambda r: over(1, number(r, key))

    def value(key):
        return lambda r: number(r, key)

    goodput, srtt = inverse("tcp_goodput_mbit_per_s"), value("tcp_srtt_mean_ms")
    p99 = value("tcp_srtt_p99_ms")
    late = value("late_p99_us")
    goals = [
        ("timer interrupts, capped", 1.05, "capped", "pacer", streams, TIMERS_S, None),
        ("timer interrupts, capped, all", 1.05, "capped", "pacer", streams, TIMERS_S, None),
        ("CPU per byte, capped", 1.05, "capped", "pacer", streams, MACHINE, None),
        ("timer interrupts, BBR on the path", 1.05, "path", "pacer", streams, TIMERS_S, bbr),
        ("CPU per byte, BBR on the path", 1.05, "path", "pacer", streams, MACHINE, bbr),
        ("timer interrupts, shaped", 1.05, "path", "shaper", streams, TIMERS_S, None),
        ("timer interrupts, shaped, all", 1.05, "path", "shaper", streams, TIMERS_S, None),
        ("CPU per byte, shaped", 1.05, "path", "shaper", streams, MACHINE, None),
        ("CPU per byte, shaped, all", 1.05, "path", "shaper", streams, MACHINE, None),
        ("CPU per request", 1.05, "requests", "pacer", ("flows",), REQUESTS[4][1], None),
        ("CPU per byte by size of write", 1.05, "stream", "pacer", ("packet",), MACHINE, None),
        ("goodput of BBR (the other's / ours), path", 1.01, "path", "pacer", streams, goodput, bbr),
        ("goodput of BBR (the other's / ours), shaped", 1.01, "path", "shaper", streams, goodput, bbr),
        ("srtt of BBR, mean, path", 1.01, "path", "pacer", streams, srtt, bbr),
        ("srtt of BBR, mean, shaped", 1.01, "path", "shaper", streams, srtt, bbr),
        ("srtt of BBR, p99, path", 1.01, "path", "pacer", streams, p99, bbr),
        ("srtt of BBR, p99, shaped", 1.01, "path", "shaper", streams, p99, bbr),
        ("departure error p99", 1, "departure", "pacer", ("load",), late, None),
        ("departure error p99, shaped", 1, "departure", "shaper", ("load",), late, None),
    ]
    lines = []
    for name, bound, case, kind, keys, column, want in goals:
        rival = "fq" if kind == "pacer" else "tbf+fq"
        find = pacing_all if name.endswith(", all") else pacing_worst
        found = find(rows, case, kind, rival, keys, column, want or (lambda r: True))
        if found:
            lines.append([
                name.removesuffix(", all"), rival, text(bound, 2), text(found[0], 3),
                "met" if found[0] <= bound else "missed", found[1],
            ])
    return table(["goal", "beside", "at most", "worst", "", "where"], lines) if lines else ""


def pacing_blocks(rows, series):
    streams = ("cc", "flows")
    return {
        f"pacing-goals-{series}": pacing_goals_table(rows),
        f"pacing-capped-{series}": pacing_table(
            rows, "capped", None, streams, PACED + [WAITS]
        ),
        f"pacing-path-{series}": pacing_table(
            rows, "path", "pacer", streams, PACED[:-1] + [PATH_DROPS, WAITS]
        ),
        f"pacing-shaped-{series}": pacing_table(
            rows, "path", "shaper", streams, PACED + [WAITS]
        ),
        f"pacing-requests-{series}": pacing_table(
            rows, "requests", "pacer", ("flows",), REQUESTS
        ),
        f"pacing-requests-shaped-{series}": pacing_table(
            rows, "requests", "shaper", ("flows",), REQUESTS
        ),
        f"pacing-stream-{series}": pacing_table(
            rows, "stream", "pacer", ("packet",), PACED
        ),
        f"pacing-stream-shaped-{series}": pacing_table(
            rows, "stream", "shaper", ("packet",), PACED
        ),
        f"pacing-departure-{series}": pacing_table(
            rows, "departure", None, ("load", "kind"), DEPARTURE
        ),
        f"pacing-udp-{series}": pacing_table(rows, "udp", None, ("bits", "kind"), DATAGRAMS),
    }


def page_update(path, blocks):
    """Put each table between its two lines of the page."""
    page = path.read_text() if path.exists() else ""
    for name, body in blocks.items():
        pattern = re.compile(
            rf"(?<=^\.\. begin {re.escape(name)}\n).*?(?=^\.\. end {re.escape(name)}$)", re.M | re.S
        )
        if pattern.search(page):
            page = pattern.sub(lambda _: f"\n{body}\n", page)
        else:
            print(f"{name}\n\n{body}")
    if path.exists():
        path.write_text(page)


def blocks_of(rows):
    """The tables, by name."""
    blocks = {}
    for series, here in by_series(rows):
        blocks[f"goals-{series}"] = goals_table(here)
        for rate in LIMIT_MS:
            for sndbuf in ("default", "4194304"):
                cell = [r for r in here if (r.get("rate"), r.get("sndbuf")) == (rate, sndbuf)]
                for part in ("overload", "gso"):
                    blocks[f"{part}-{rate}-{sndbuf}-{series}"] = tables_of(
                        cell, part, ("senders",), OVERLOAD
                    )
        blocks[f"tcp-{series}"] = tables_of(here, "tcp", STREAMS, TCP)
        blocks[f"requests-{series}"] = requests_table(here)
        blocks[f"idle-{series}"] = idle_table(here)
        blocks[f"growth-{series}"] = growth_table(here)
        blocks[f"precision-{series}"] = precision_table(here)
        blocks[f"accounting-{series}"] = accounting_table(here)
        blocks[f"contention-{series}"] = contention_table(here)
        blocks[f"contention-pairs-{series}"] = contention_pairs_table(here)
        blocks[f"contention-overload-{series}"] = contention_overload_table(here)
        blocks[f"contention-queues-{series}"] = contention_queues_table(here)
        blocks[f"clients-{series}"] = clients_table(here)
        for client in PEERS:
            blocks[f"{client}-{series}"] = peers_table(here, client)
        blocks.update(pacing_blocks(here, series))
    return {name: body for name, body in blocks.items() if body}


def plots_of_rate(out, rows, rate, suffix):
    for sndbuf, name in (("default", "default send buffers"), ("4194304", "send buffers of 4 MB")):
        for short, column, label, log in (
            ("loss", OVERLOAD[0][1], "packets lost, %", False),
            ("age", AGE, "p99 of the time in the queue, ms", True),
            ("probe", PROBE, "p99 of a sparse sender's delay, ms", True),
            ("cpu", CPU, "sender CPU per delivered packet, us", False),
        ):
            plot(
                out / f"{short}-{sndbuf}{suffix}", rows, sndbuf, rate, name, column, label, log
            )


def plots_make(rows, out):
    for series, here in by_series(rows):
        plot_contention(out / f"contention-{series}.svg", here)
        plot_clients(out / f"clients-{series}.svg", here)
        plot_pacing(out / f"pacing-{series}.svg", here)
        rates = {r["rate"] for r in here if r["part"] == "overload"}
        for rate, suffix in (("200mbit", ""), ("1gbit", "-1gbit")):
            if rate in rates:
                plots_of_rate(out, here, rate, f"{suffix}-{series}.svg")


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
    background_read(rows)
    page_update(out / "performance.rst", blocks_of(rows))
    plots_make(rows, out)


if __name__ == "__main__":
    main()
