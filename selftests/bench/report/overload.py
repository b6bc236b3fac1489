# SPDX-License-Identifier: GPL-2.0-only
"""UDP senders without a limit: parts overload, gso and growth."""

from functools import partial

from figures import COLOURS, figure
from results import MBIT, RIVALS, groups, number, over, per_packet, value
from tables import tables_of


def send_ms(row):
    """None where one process polls all sockets."""
    if int(row.get("senders", 0)) >= 1024:
        return None
    return number(row, "udp_longest_send_ms")


OVERLOAD = [
    ("lost %", value("udp_loss_percent"), 2),
    ("goodput Mbit/s", value("udp_payload_goodput_mbit_per_s"), 1),
    ("Jain", value("udp_jain_index"), 4),
    ("age p50 ms", value("udp_age_p50_ms"), 1),
    ("age p99 ms", value("udp_age_p99_ms"), 1),
    ("probe p99 ms", value("probe_delay_p99_ms"), 2),
    ("CPU us/packet", value("sender_cpu_us_per_packet"), 1),
    ("switches/packet", lambda r: per_packet(r, "system_context_switches"), 3),
    ("timers/packet", lambda r: per_packet(r, "system_timer_interrupts"), 3),
]


def overload_columns(rows):
    """With the time in send(), if it was measured."""
    if not any(map(send_ms, rows)):
        return OVERLOAD
    return [*OVERLOAD[:6], ("send() ms", send_ms, 0), *OVERLOAD[6:]]


def machine_us(row):
    """All that the machine did for a packet that arrived."""
    busy_ms = number(row, "system_busy_ms")
    if busy_ms is None:
        return None
    return over(busy_ms * 1e3, number(row, "udp_received_packets"))


MACHINE = ("machine us/packet", machine_us, 2)
LOSS, GOODPUT = OVERLOAD[0][1], OVERLOAD[1][1]
AGE, PROBE, CPU, SWITCHES, TIMERS = (OVERLOAD[i][1] for i in range(4, 9))
LIMIT_MS = {"20mbit": 12, "200mbit": 8, "1gbit": 8}


def throttles(row):
    return over(number(row, "throttles"), number(row, "packets"))


def overload_blocks(rows, series):
    """The tables, by name."""
    blocks = {
        f"growth-{series}": tables_of(
            rows,
            "growth",
            ("senders",),
            [OVERLOAD[0], *OVERLOAD[2:3], *OVERLOAD[4:7],
             ("throttles/packet", throttles, 2)],
        )
    }
    for rate in LIMIT_MS:
        for sndbuf in ("default", "4194304"):
            cell = [
                r
                for r in rows
                if (r.get("rate"), r.get("sndbuf")) == (rate, sndbuf)
            ]
            for part in ("overload", "gso"):
                blocks[f"{part}-{rate}-{sndbuf}-{series}"] = tables_of(
                    cell, part, ("senders",), overload_columns(cell)
                )
    # A container, and where it is shaped.
    blocks[f"tenants-{series}"] = tables_of(
        rows, "tenants", ("case",), [*OVERLOAD, MACHINE]
    )
    return blocks


def plot(path, rows, sndbuf, rate, name, column, label, log=True):
    """A line for each shaper, over the number of senders."""
    ticks = set()
    with figure(path) as axes:
        found = groups(rows, "overload", ("rate", "sndbuf", "senders"))
        for shaper in RIVALS:
            points = sorted(
                (int(key[2]), column(cell[shaper]))
                for key, cell in found.items()
                if key[:2] == (rate, sndbuf)
                and shaper in cell
                and column(cell[shaper]) is not None
            )
            if points:
                axes.plot(
                    *zip(*points),
                    marker="o",
                    label=shaper,
                    color=COLOURS[shaper],
                    # Dashed, so that the line below is seen.
                    linestyle="--" if shaper == "edt" else "-",
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


def plots_of_rate(out, rows, rate, suffix):
    """A function for each figure of a rate, by its path."""
    plots = {}
    for sndbuf, name in (
        ("default", "default send buffers"),
        ("4194304", "send buffers of 4 MB"),
    ):
        for short, column, label, log in (
            ("loss", LOSS, "packets lost, %", False),
            ("age", AGE, "p99 of the time in the queue, ms", True),
            ("probe", PROBE, "p99 of a sparse sender's delay, ms", True),
            ("cpu", CPU, "sender CPU per delivered packet, us", False),
        ):
            path = out / f"{short}-{sndbuf}{suffix}"
            plots[path] = partial(
                plot, path, rows, sndbuf, rate, name, column, label, log
            )
    return plots
