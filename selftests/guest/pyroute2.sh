#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The module for pyroute2 says what tc says. Needs Python in the guest:
# selftests/in-vm $(selftests/vm/python-bundle) \
#	--file tools/pyroute2/sched_bpshaper.py -- pyroute2
#
#  1. pyroute2 adds and changes a qdisc and classes, with the options that it is given.
#  2. What it reads of options is what was set; statistics and histograms of a qdisc, of a
#     class and of flows are those of tc.
#  3. An option that is not there is refused by name.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
type -P python3 >/dev/null && [ -e "$here/sched_bpshaper.py" ] ||
	skip_all "Python, or the module for pyroute2, is not here"

# Of one process, because to import pyroute2 takes a second of this machine. A line for each check:
# its name, and what went wrong.
cat >/tmp/script.py <<'END'
import json, os, re, subprocess, sys, time
import sched_bpshaper as kind
from pyroute2 import IPRoute

TC = ("tc", "-s", "-j")
ip = IPRoute()
dev = ip.link_lookup(ifname="txdev")[0]


def tc(*words):
    return json.loads(subprocess.check_output([*TC, *words, "dev", "txdev"]))


def tc_classes():
    """tc has no JSON of classes before 6.2."""
    return subprocess.check_output([*TC[:2], "class", "show", "dev", "txdev"], text=True)


def qdiscs():
    return [q for q in ip.get_qdiscs(dev) if q.get_attr("TCA_KIND") == "bpshaper"]


def send(seconds):
    return subprocess.Popen(
        [os.environ["TRAFFIC"], "--tx-netns", os.environ["TX"], "--rx-netns", os.environ["RX"],
         "--dst", "10.99.0.2", "--json", "/dev/null", "--udp", "4",
         "--size", "1400", "--seconds", str(seconds)], stdout=sys.stderr)


def is_until(test, what):
    end = time.monotonic() + 10
    while not test(kind.stats_of(qdiscs()[0])):
        assert time.monotonic() < end, what


def sent():
    """And all has left."""
    send(1).wait()
    is_until(lambda counts: not counts["memory"], "something is still queued")


def same(ours, theirs, least):
    both = [word for word in ours if word in theirs]
    for word in both:
        mine = list(ours[word]) if isinstance(ours[word], tuple) else ours[word]
        assert mine == theirs[word], (word, mine, theirs[word])
    assert len(both) >= least, both


def added():
    ip.tc("add", "bpshaper", dev, 0x10000, rate=1250000, limit=30000, burst=3000,
          default=0x20)
    (q,) = qdiscs()
    words = kind.options_of(q)
    assert (words["rate"], words["limit"], words["default"]) == (1250000, 30000, 0x20), words
    (t,) = tc("qdisc", "show")
    assert (t["kind"], t["handle"]) == ("bpshaper", "1:"), t
    same({word: words[word] for word in ("rate", "limit", "burst")}, t["options"], 3)


def changed():
    ip.tc("change", "bpshaper", dev, 0x10000, rate=2500000)
    words = kind.options_of(qdiscs()[0])
    assert (words["rate"], words["limit"]) == (2500000, 30000), words


def refused():
    try:
        ip.tc("change", "bpshaper", dev, 0x10000, rte=1)
    except TypeError as error:
        assert "rte" in str(error)
    else:
        raise AssertionError("it is taken")


def counted():
    sent()
    counts = kind.stats_of(qdiscs()[0])
    assert counts["throttles"] > 8 and sum(counts["delay_hist"]) > 100, counts
    same(counts, tc("qdisc", "show")[0], 25)


def flows():
    sender = send(1)
    is_until(lambda counts: counts["throttles"] > counts["unthrottles"], "nothing is throttled")
    text = tc_classes()
    found = [kind.stats_of(c) for c in ip.get_classes(dev)]
    sender.wait()
    owned = [flow for flow in found if flow["socket_flows"]]  # not those outside
    assert owned and all(flow["type"] == 1 for flow in found), found
    for flow in owned:
        assert flow["peer_family"] == 2, flow
        assert flow["peer"][:4] == bytes([10, 99, 0, 2]), flow
    ports = set(re.findall(r"10\.99\.0\.2:(\d+)", text))
    assert ports & {str(flow["peer_port"]) for flow in owned}, (found, text)


def classes():
    ip.tc("add-class", "bpshaper", dev, 0x10010, parent=0x10000, floor=250000, ceil=500000,
          prio=2)
    ip.tc("add-class", "bpshaper", dev, 0x10020, parent=0x10000, weight=3)
    ip.tc("change-class", "bpshaper", dev, 0x10010, parent=0x10000, floor=125000)
    words = {c["handle"]: kind.options_of(c) for c in ip.get_classes(dev)}
    one = words[0x10010]
    assert (one["floor"], one["ceil"], one["prio"]) == (125000, 500000, 2), words
    assert words[0x10020]["weight"] == 3, words
    text = tc_classes()
    assert re.search(r"1:10 .*\bprio 2\b", text) and re.search(r"1:20 .*\bweight 3\b", text), text


def classes_counted():
    sent()
    theirs = {part.split()[0]: {word: int(number) for word, number in
                                re.findall(r"(\w+) (\d+)(?=[\s,)])", part)}
              for part in tc_classes().split("class bpshaper ")[1:]}
    for c in ip.get_classes(dev):
        counts = kind.stats_of(c)
        assert counts["type"] == 2, counts
        assert bool(counts["throttles"]) == (c["handle"] == 0x10020), counts
        same(counts, theirs["1:%x" % (c["handle"] & 0xFFFF)], 5)


def deleted():
    ip.tc("del-class", "bpshaper", dev, 0x10010)
    assert [c["handle"] for c in ip.get_classes(dev)] == [0x10020]
    ip.tc("del", "bpshaper", dev, 0x10000)
    assert not qdiscs()


for test, name in ((added, "a qdisc is added, with its options"),
                   (changed, "a change leaves the other options"),
                   (refused, "an option that is not there is refused"),
                   (counted, "statistics and histograms of a qdisc are those of tc"),
                   (flows, "flows are listed with their peers"),
                   (classes, "classes are added and changed, with their options"),
                   (classes_counted, "statistics of classes are those of tc"),
                   (deleted, "a class and a qdisc are deleted")):
    try:
        test()
        print(name, "\t", sep="")
    except Exception as error:
        print(name, "\t", repr(error)[:2000], sep="")
END

topology_make
root_remove
modprobe sch_bpshaper
on_tx env PYTHONPATH="$here" TX="$tx" RX="$rx" TRAFFIC="$traffic" python3 -B /tmp/script.py >/tmp/checks
while IFS=$'\t' read -r name error; do
	is "$name" "" "$error"
done </tmp/checks
is "all checks have been made" 8 "$(wc -l </tmp/checks)"
finish
