# SPDX-License-Identifier: GPL-2.0-only
"""UDP senders without a limit: parts overload, gso, growth, and tenants."""

from functools import partial

from figures import COLOURS, figure
from results import MBIT, RIVALS, number, per_packet, ratio, select, value
from tables import tables_of


def send_ms(row):
    """None where one process polls all sockets."""
    return None if int(row.get("senders", 0)) >= 1024 else number(row, "udp_longest_send_ms")


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
LOSS, GOODPUT = OVERLOAD[0][1], OVERLOAD[1][1]
AGE, PROBE, CPU, SWITCHES, TIMERS = (OVERLOAD[i][1] for i in range(4, 9))
LIMIT_MS = {"20mbit": 12, "200mbit": 8, "1gbit": 8}

THROTTLES = ("throttles/packet", ratio("throttles", "packets"), 2)
# All that the machine did for a packet that arrived.
MACHINE = ("machine us/packet", ratio("system_busy_ms", "udp_received_packets", 1e3), 2)
GROWTH = [OVERLOAD[0], OVERLOAD[2], *OVERLOAD[4:7], THROTTLES]


def columns(rows, of):
    """With the time in send(), if it was measured."""
    send = [("send() ms", send_ms, 0)] if any(map(send_ms, select(rows, **of))) else []
    return OVERLOAD[:6] + send + OVERLOAD[6:]


def blocks(rows):
    return tables_of(
        rows,
        ("growth", {"part": "growth"}, ("senders",), GROWTH),
        # A container, and where it is shaped.
        ("tenants", {"part": "tenants"}, ("case",), [*OVERLOAD, MACHINE]),
        *(
            (f"{part}-{rate}-{sndbuf}", {"part": part, **of}, ("senders",), columns(rows, of))
            for rate in LIMIT_MS
            for sndbuf in ("default", "4194304")
            for of in [{"rate": rate, "sndbuf": sndbuf}]
            for part in ("overload", "gso")
        ),
    )


def plot(rows, title, column, label, log, path):
    """A line for each shaper, over the number of senders."""
    ticks = set()
    with figure(path) as axes:
        for shaper in RIVALS:
            points = sorted(
                (int(r["senders"]), column(r))
                for r in select(rows, shaper=shaper)
                if column(r) is not None
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
        axes.set_xticks(sorted(ticks), map(str, sorted(ticks)))
        if log:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=-2)
        axes.set_xlabel("UDP senders without a limit")
        axes.set_ylabel(label)
        axes.set_title(title)


FIGURES = (
    ("loss", LOSS, "packets lost, %", False),
    ("age", AGE, "p99 of the time in the queue, ms", True),
    ("probe", PROBE, "p99 of a sparse sender's delay, ms", True),
    ("cpu", CPU, "sender CPU per delivered packet, us", False),
)


def figures(rows):
    """A function for each figure, by its name."""
    return {
        f"{short}-{sndbuf}{suffix}": partial(
            plot, here, f"{MBIT[rate]} Mbit/s, {name}", column, label, log
        )
        for rate, suffix in (("200mbit", ""), ("1gbit", "-1gbit"))
        for sndbuf, name in (
            ("default", "default send buffers"),
            ("4194304", "send buffers of 4 MB"),
        )
        if (here := select(rows, part="overload", rate=rate, sndbuf=sndbuf))
        for short, column, label, log in FIGURES
    }
