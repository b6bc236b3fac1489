# SPDX-License-Identifier: GPL-2.0-only
"""Part machines: virtual machines, by each way of attaching them."""

from goals import against, cells_of, goal, goals_table, own
from results import number, ratio, select, value
from tables import tables_of

KEYS = ("attached", "sndbuf")
NEVER_HELD = "routed, vhost"
WITHOUT_OWNER = ("bridge, vhost", "none")
QUEUES = "4 queues"
MBIT = 20


def percent(key):
    def of(row):
        found = number(row, key)
        return None if found is None else 100 * found

    return of


def lost(name):
    """Percent of what it has sent."""
    return ratio(f"{name}_lost", f"{name}_sent", 100)


def tcp_missing(row):
    """Percent of the rate that TCP does not get, the worse of cubic and BBR."""
    return 100 - min(CUBIC(row), BBR(row))


def kernel_uneven(row):
    """As uneven(). A machine with two queues has two of three shares."""
    half = 2 / 3 if row["attached"] == "queues" else 0.5
    return 100 * abs(number(row, "machine_part") - half) / half


def again(row):
    """Segments that TCP has sent again."""
    return number(row, "cubic_again") + number(row, "bbr_again")


HOST_US = value("host_us")
PROBE, HOST_PROBE = value("p_delay_p99_ms"), value("q_delay_p99_ms")

OVERLOAD = [
    ("lost %", lost("g"), 2),
    ("Mbit/s", value("g_mbit"), 2),
    ("no room %", percent("g_full_part"), 0),
    ("age p50 ms", value("g_delay_p50_ms"), 1),
    ("probe p99 ms", PROBE, 2),
    ("host's probe p99 ms", HOST_PROBE, 2),
    ("host us/packet", HOST_US, 1),
]

SHARES = [
    ("part %", percent("g_part"), 2),
    ("lost %", lost("g"), 2),
    ("the other's lost %", lost("h"), 2),
]

CUBIC, BBR = percent("cubic_part"), percent("bbr_part")
GUEST_PROBE, HOST_PING = value("guest_p99_ms"), value("host_p99_ms")

KERNEL = [
    ("sent", value("udp_sent"), 0),
    ("lost %", lost("udp"), 2),
    ("cubic %", CUBIC, 2),
    ("bbr %", BBR, 2),
    ("sent again", again, 0),
    ("ping p99 ms", GUEST_PROBE, 2),
    ("host's ping p99 ms", HOST_PING, 2),
    ("part %", percent("machine_part"), 1),
]


def missing(row):
    """Percent of the rate. A packet at an end of what is measured is 0.06 %."""
    mbit = sum(number(row, f"{name}_mbit") or 0 for name in "gpq")
    return max(0, 100 - 100 * mbit / MBIT)


def uneven(row):
    """How far from a half, in percent of that."""
    return 100 * abs(number(row, "g_part") - 0.5) / 0.5


def machines_goals(rows):
    """Name, bound, digits, and what was measured."""
    cells, shares, kernel = (
        cells_of(select(rows, case=case), "machines", KEYS)
        for case in ("overload", "shares", "kernel")
    )
    held = {k: c for k, c in cells.items() if k[0] != NEVER_HELD and k != WITHOUT_OWNER}
    queues = {k: c for k, c in shares.items() if QUEUES in k[0]}
    single = {k: c for k, c in shares.items() if k in held and k not in queues}
    goals = [
        ("frames of the machine lost", 0, 0, held, own(value("g_lost"))),
        ("frames of a sparse machine lost", 0, 0, cells, own(value("p_lost"))),
        ("% of the rate that is missing", 1, 2, held, own(missing)),
        ("probe of a machine p99 / tbf's", 0.1, 3, cells, against(PROBE, "tbf")),
        ("probe of the host p99 / tbf's", 0.1, 3, cells, against(HOST_PROBE, "tbf")),
        ("parts of two senders, % from a half", 5, 2, single, own(uneven)),
        ("parts with four queues, % from a half", 5, 2, queues, own(uneven)),
        ("host us/packet / tbf's", 1, 3, held, against(HOST_US, "tbf")),
        ("with a kernel: packets lost", 0, 0, kernel, own(value("udp_lost"))),
        ("% of the rate that TCP misses", 1, 2, kernel, own(tcp_missing)),
        ("segments sent again", 0, 0, kernel, own(again)),
        ("ping of a machine p99 / tbf's", 0.1, 3, kernel, against(GUEST_PROBE, "tbf")),
        ("ping of the host p99 / tbf's", 0.1, 3, kernel, against(HOST_PING, "tbf")),
        ("shares, % from the law", 5, 2, kernel, own(kernel_uneven)),
    ]
    return [goal(*g, KEYS) for g in goals]


def blocks(rows):
    return {"machines-goals": goals_table(machines_goals(rows))} | tables_of(
        rows,
        ("machines", {"part": "machines", "case": "overload"}, KEYS, OVERLOAD),
        ("machines-shares", {"part": "machines", "case": "shares"}, KEYS, SHARES),
        ("machines-kernel", {"part": "machines", "case": "kernel"}, KEYS, KERNEL),
    )
