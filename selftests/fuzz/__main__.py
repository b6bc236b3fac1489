#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Random netlink messages to bpshaper, each against a model.

usage: python3 selftests/fuzz DEVICE ADDRESS [SEED [MESSAGES]]

The qdisc of DEVICE is changed while datagrams to ADDRESS pass through it. New
qdiscs are added to a dummy device, one after the other. After each message

  - it was accepted or refused as the model says; a refusal has the model's
    errno and, by the extended ack, a text with the name of the option and its
    bounds, and points to the attribute;
  - the options in the dump are the model's, byte for byte, hence the old ones
    if it was refused, and so is the limit in the statistics;
  - the number of throttled sockets is the difference of the counters;
  - the classes and their options are the model's, byte for byte.

Half of the time classes and filters come and go.

The files:

  options.py    numbers, bounds and defaults of the options, texts of refusals
  netlink.py    attributes, the socket, acks and dumps, as raw bytes
  model.py      what a nest of options does to a qdisc
  classes.py    what messages do to classes, and which filters refer to them
  generator.py  nests of options, good and bad
  run.py        the steps of a run, and the checks after each
  class_steps.py  those of classes

Prints what failed, at most ten times, and a summary. The exit status is 1 if
anything failed. The same seed sends the same messages.
"""
import random
import sys

from run import Run


def main(device, address, seed=None, messages=5000):
    seed = int(seed) if seed else random.SystemRandom().getrandbits(32)
    print(f"seed {seed}, {messages} messages", flush=True)
    sys.exit(not Run(device, address, seed, int(messages)).all())


main(*sys.argv[1:])
