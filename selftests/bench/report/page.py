# SPDX-License-Identifier: GPL-2.0-only
"""What the page shows of the tables: columns, and rows of one table or more.

A row is shown if each of its columns that is named here has one of the words
there. Rows of several tables begin with what they are of.
"""

import textwrap

from tables import rst, table

GOALS = {
    "overload": "goals-6.1",
    "pacing": "pacing-goals-6.12",
    "classes": "classes-goals-6.1",
    "containers": "containers-goals-6.12",
    "machines": "machines-goals-6.12",
    "queues": "queues-goals-7.2",
}

# By name: columns, and what rows begin with, their table, and which they are.
TABLES = {
    "overload": (
        "rate|senders|shaper|lost %|Jain|age p99 ms|probe p99 ms|CPU us/packet|switches/packet"
        "|timers/packet",
        [
            ("20 Mbit/s", "overload-20mbit-default-6.1",
             {"senders": "16", "shaper": "bpshaper|tbf+fq"}),
            ("200 Mbit/s", "overload-200mbit-default-6.1",
             {"senders": "16|256", "shaper": "bpshaper|tbf|tbf+fq|cake"}),
            ("200 Mbit/s, 4 MB", "overload-200mbit-4194304-6.1",
             {"senders": "16", "shaper": "bpshaper|tbf+fq"}),
            ("1 Gbit/s", "overload-1gbit-default-6.1",
             {"senders": "64", "shaper": "bpshaper|tbf+fq"}),
            ("1 Gbit/s, gso", "gso-1gbit-default-6.1",
             {"senders": "64", "shaper": "bpshaper|tbf+fq"}),
            ("200 Mbit/s, growth", "growth-6.1", {"senders": "50000"}),
        ],
    ),
    "tcp": (
        "kernel|cc|flows|udp|shaper|goodput Mbit/s|UDP Mbit/s|retransmits"
        "|srtt mean ms|probe p99 ms",
        [
            ("6.1", "tcp-6.1", {"rate": "200mbit", "cc": "cubic", "flows": "8", "tso_rtt_log": "9",
              "shaper": "bpshaper|tbf|tbf+fq"}),
            ("6.1", "tcp-6.1", {"cc": "bbr", "flows": "64", "shaper": "bpshaper|tbf+fq"}),
            ("6.12", "tcp-6.12", {"cc": "bbr", "flows": "64", "shaper": "bpshaper|tbf+fq"}),
        ],
    ),
    "pacing": (
        "part|cc|flows|shaper|goodput Mbit/s|timers/s|CPU ns/byte|srtt mean ms"
        "|srtt p99 ms|drops",
        [
            ("capped", "pacing-capped-6.12",
             {"cc": "bbr", "flows": "8", "shaper": "fq|bpshaper|pfifo"}),
            ("path", "pacing-path-6.12", {"cc": "bbr", "flows": "1000"}),
            ("shaped", "pacing-shaped-6.12", {"cc": "cubic", "flows": "8",
              "shaper": "bpshaper|bpshaper-all|tbf+fq"}),
        ],
    ),
    "classes": (
        "case|classes|shaper|lost %|age p99 ms|probe p99 ms|CPU us/packet"
        "|timers/packet|TCP Mbit/s|start ms|stop ms",
        [
            ("", "classes-6.1", {"case": "equal", "sndbuf": "default",
              "shaper": "bpshaper|htb+fq_codel|htb+pfifo"}),
            ("", "classes-many-6.1", {"classes": "1000", "shaper": "bpshaper|htb+pfifo"}),
            ("", "classes-6.1", {"case": "bbr", "shaper": "bpshaper|htb+pfifo"}),
            ("", "classes-shares-6.1", {"case": "settle-floor", "shaper": "bpshaper|htb+pfifo"}),
        ],
    ),
    "containers": (
        "part|case|shaper|lost %|goodput Mbit/s|probe p99 ms|machine us/packet",
        [
            ("tenants, 6.1", "tenants-6.1", {"case": "ifb, class"}),
            ("tenants, 6.12", "tenants-6.12",
             {"case": "inside, class|ifb, class|uplink, class|routed, class"}),
            ("CNI, 6.12", "containers-6.12",
             {"case": "pods", "shaper": "bandwidth|edt|bpshaper-pod"}),
            ("CNI, 6.12", "containers-6.12", {"case": "udp", "senders": "16", "sndbuf": "default",
              "shaper": "bandwidth|bpshaper-pod|bpshaper-node"}),
        ],
    ),
    "machines": (
        "attached|sndbuf|shaper|lost %|no room %|age p50 ms|probe p99 ms"
        "|host us/packet",
        [
            ("", "machines-6.12", {"attached": "bridge, vhost", "sndbuf": "1048576",
              "shaper": "bpshaper|tbf|tbf+fq|cake"}),
            ("", "machines-6.12", {"attached": "bridge, vhost", "sndbuf": "none",
              "shaper": "bpshaper|tbf"}),
        ],
    ),
    "precision": (
        "rate|burst|shaper|rate error %|excess bytes|gap stddev us",
        [
            ("", "precision-6.12", {"rate": "100mbit", "burst": "12500|-"}),
            ("", "precision-6.12", {"rate": "10gbit", "burst": "1250000", "shaper": "bpshaper"}),
        ],
    ),
    "programs": (
        "program|shaper|arrived %|age p50 ms|age p99 ms|others %|others p99 ms|refused|CPU ms"
        "|memory KiB",
        [("", "programs-6.12", {})],
    ),
    "queues": (
        "shaper|production %|batch %|probe ms|beside batch|heavy %|stay %|Jain|lost %|age ms|CPU us",
        [("", "queues-7.2", {})],
    ),
    "quic": (
        "stack|case|connections|shaper|goodput Mbit/s|Jain|srtt p50 ms|srtt most"
        "|request p99 ms|call p99 ms|dropped|marked %|CPU %",
        [
            ("quic-go", "quic-go-20mbit-6.1", {"case": "down|up", "connections": "16",
              "shaper": "bpshaper|tbf+fq|cake"}),
            ("quinn, BBR", "quinn-20mbit-6.1", {"cc": "bbr", "case": "down", "connections": "16",
              "shaper": "bpshaper|cake"}),
            ("with a call", "calls-20mbit-6.1", {"case": "call", "shaper": "bpshaper|cake"}),
        ],
    ),
    "peers": (
        "server|shaper|HTTP/3 Mbit/s|HTTP/2 Mbit/s|Jain of 32|drops|HTTP/2 retransmits",
        [
            ("0.12.1", "http-peers-6.12", {"shaper": "bpshaper|tbf+fq|cake"}),
            ("1.11, GSO", "http-gso-peers-6.12", {"shaper": "bpshaper|tbf+fq|cake"}),
        ],
    ),
}


def chosen(blocks, columns, sources):
    lines = []
    for first, name, words in sources:
        heading, rows = blocks.get(name, ((), ()))
        for row in (dict(zip(heading, r)) for r in rows):
            if all(row[k] in v.split("|") for k, v in words.items()):
                row |= {columns[0]: first} if first else {}
                lines.append([row.get(c, "-") for c in columns])
    return table(columns, lines)


def goals_shown(blocks):
    """A table of the goals that are missed, and a sentence of the others."""
    missed, met = [], []
    for part, name in GOALS.items():
        here = []
        for goal, most, worst, verdict, where in blocks.get(name, ((), ()))[1]:
            if verdict == "missed":
                missed.append([part, goal, most, worst, where])
            else:
                here.append(f"{goal}: {worst} ({most})")
        met += [f"*{part}*: {'; '.join(here)}."] if here else []
    heading = ["part", "goal", "at most", "worst", "where"]
    return {
        "goals": table(heading, missed),
        "met": textwrap.fill(" ".join(met), 130) + "\n",
    }


def page_blocks(blocks):
    shown = {
        name: chosen(blocks, columns.split("|"), sources)
        for name, (columns, sources) in TABLES.items()
    } | goals_shown(blocks)
    return {
        name: body if isinstance(body, str) else rst(body)
        for name, body in shown.items()
        if body
    }
