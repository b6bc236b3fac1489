# SPDX-License-Identifier: GPL-2.0-only
"""Part clients: programs as they are, and servers with many peers."""

from figures import COLOURS, figure
from results import RIVALS, ratio, select, value
from tables import tables_of

CLIENTS = ("iperf2", "iperf3", "quic", "quic-gso", "wg-udp", "wg-tcp", "dns")

# None if the program does not count it.
client_lost = ratio("lost_packets", "sent_packets", 100)

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


def blocks(rows):
    return tables_of(
        rows,
        ("clients", {"part": "clients", "client": CLIENTS}, ("client",), COLUMNS),
        *(
            (client, {"part": "clients", "client": client}, (), [*columns, COLUMNS[-1]])
            for client, columns in PEERS.items()
        ),
    )


def plot(rows, path):
    """Lost packets of programs, a bar for each shaper."""
    lost = {(r["client"], r["shaper"]): client_lost(r) for r in select(rows, part="clients")}
    names = [c for c in CLIENTS if any(k[0] == c and v is not None for k, v in lost.items())]
    width = 0.8 / len(RIVALS)
    with figure(path, "y") as axes:
        for i, shaper in enumerate(RIVALS):
            axes.bar(
                [x + (i - len(RIVALS) / 2 + 0.5) * width for x in range(len(names))],
                [lost.get((name, shaper)) or 0 for name in names],
                width,
                label=shaper,
                color=COLOURS[shaper],
            )
        axes.set_xticks(range(len(names)), names)
        axes.set_ylabel("lost, %")
        axes.set_title("20 Mbit/s, programs as they are")
