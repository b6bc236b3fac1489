# SPDX-License-Identifier: GPL-2.0-only
"""Part clients: programs as they are, and servers with many peers."""

from figures import COLOURS, figure
from results import RIVALS, number, value
from tables import table_of


def client_lost(row):
    """In percent, or None if the program does not count it."""
    sent = number(row, "sent_packets")
    return 100 * number(row, "lost_packets") / sent if sent else None


CLIENTS = ["iperf2", "iperf3", "quic", "quic-gso", "wg-udp", "wg-tcp", "dns"]


COLUMNS = [
    ("goodput Mbit/s", value("goodput_mbit_per_s"), 2),
    ("lost %", client_lost, 2),
    ("drops", value("drops"), 0),
    ("retransmits", value("retransmitted_segments"), 0),
    ("latency ms", value("latency_mean_ms"), 1),
    ("CPU ms", value("busy_ms"), 0),
]

# Servers with many peers: a table each.
HTTP_PEERS = [
    ("HTTP/3 Mbit/s", value("quic_mbit_per_s"), 2),
    ("HTTP/2 Mbit/s", value("tcp_mbit_per_s"), 2),
    ("HTTP/3 least", value("quic_least_mbit_per_s"), 3),
    ("HTTP/2 least", value("tcp_least_mbit_per_s"), 3),
    ("Jain of 32", value("jain_index"), 4),
    ("drops", value("drops"), 0),
    ("HTTP/2 retransmits", value("retransmitted_segments"), 0),
]

PEERS = {
    "http-peers": HTTP_PEERS,
    "http-gso-peers": HTTP_PEERS,
    "dns-peers": [
        ("answers/s of the one", value("one_answers_per_s"), 0),
        ("of 63 others", value("others_answers_per_s"), 0),
        ("least of them", value("least_answers_per_s"), 1),
        ("p50 ms", value("latency_p50_ms"), 2),
        ("p99 ms", value("latency_p99_ms"), 1),
        ("lost %", client_lost, 2),
        ("the one's lost", value("one_lost_packets"), 0),
        ("drops", value("drops"), 0),
        ("RcvbufErrors", value("server_rcvbuf_errors"), 0),
    ],
    "wg-peers": [
        ("Mbit/s of ten streams", value("first_mbit_per_s"), 2),
        ("of 7 others", value("others_mbit_per_s"), 2),
        ("least of them", value("least_mbit_per_s"), 3),
        ("most", value("most_mbit_per_s"), 3),
        ("Jain of 8", value("jain_index"), 4),
        ("drops", value("drops"), 0),
        ("retransmits", value("retransmitted_segments"), 0),
    ],
}


def clients_blocks(rows, series):
    """The tables, by name."""
    found = [r for r in rows if r["part"] == "clients"]
    return {
        f"clients-{series}": table_of(
            [r for r in found if r["client"] in CLIENTS], ("client",), COLUMNS
        )
    } | {
        f"{client}-{series}": table_of(
            [r for r in found if r["client"] == client], (), [*columns, COLUMNS[-1]]
        )
        for client, columns in PEERS.items()
    }


def plot_clients(path, rows):
    """Lost packets of programs, a bar for each shaper."""
    cells = {
        (r["client"], r["shaper"]): client_lost(r)
        for r in rows
        if r["part"] == "clients"
    }
    names = [
        c
        for c in CLIENTS
        if any(k[0] == c and v is not None for k, v in cells.items())
    ]
    if not names:
        return
    with figure(path, "y") as axes:
        width = 0.8 / len(RIVALS)
        for i, shaper in enumerate(RIVALS):
            axes.bar(
                [
                    x + (i - len(RIVALS) / 2 + 0.5) * width
                    for x in range(len(names))
                ],
                [cells.get((name, shaper)) or 0 for name in names],
                width,
                label=shaper,
                color=COLOURS[shaper],
            )
        axes.set_xticks(range(len(names)), names)
        axes.set_ylabel("lost, %")
        axes.set_title("20 Mbit/s, programs as they are")
