# SPDX-License-Identifier: GPL-2.0-only
"""The steps of a run that are about classes and their filters."""
import struct

from classes import MINOR
from generator import MINORS
from model import Refused, option_bytes
from netlink import (CREATE, DELTCLASS, DELTFILTER, EXCL, HANDLE, NESTED,
                     NEWQDISC, NEWTCLASS, NEWTFILTER, TC_H_ROOT, TCA_RATE,
                     attr_bytes)
from options import (CEIL, CLASS_OPTIONS, FLOOR, LEAF_TYPE, OVERCOMMIT,
                     UNLIMITED)

ALL_PROTOCOLS = 0x0300		# ETH_P_ALL in network byte order
MATCHALL_CLASSID = 1
ESTIMATOR = attr_bytes(TCA_RATE, struct.pack("=bB", 0, 1))
NO_CLASSES = (0, HANDLE, 0, HANDLE, 0x10, 0x20010, 0x20000, HANDLE | 0xFFFF)


def refusal(function, *args):
    """What it raises, or None."""
    try:
        function(*args)
    except Refused as refused:
        return refused
    return None


class ClassSteps:
    """A part of Run."""

    def classid(self):
        """Of a class that may be there, or not."""
        return HANDLE | self.rng.choice(MINORS)

    def a_class(self):
        """One that is there, if there is one, or that a filter names."""
        known = sorted(self.model.classes.known)
        named = sorted({classid for classid, _ in
                        self.model.classes.filters.values()})
        if named and self.rng.random() < 0.4:
            return self.rng.choice(named)
        if not known or self.rng.random() < 0.1:
            return self.classid()
        return self.rng.choice(known)

    def a_parent(self):
        """Often the deepest class, so that there are many levels."""
        known = sorted(self.model.classes.known)
        if known and self.rng.random() < 0.7:
            return max(known, key=self.model.classes.levels)
        return self.a_class()

    def class_places(self):
        """A number and a parent."""
        dice, rng = self.rng.random(), self.rng
        handle = rng.choice(NO_CLASSES) if dice < 0.12 else \
            self.a_class() if dice < 0.3 else self.classid()
        if rng.random() < 0.25:
            parent = rng.choice((HANDLE, HANDLE, TC_H_ROOT, 0))
        elif rng.random() < 0.05:
            parent = rng.choice(NO_CLASSES + (0x20001,))
        else:
            parent = self.a_parent()
        if rng.random() < 0.05:	# the core completes it
            parent &= MINOR
        if rng.random() < 0.02:
            return handle & MINOR, 0x20001
        cl = self.model.classes.known.get(handle)
        if cl and rng.random() < 0.7:
            parent = rng.choice((cl.parent, 0))
        return handle, parent

    def class_compare(self, refused, name):
        state = self.compare(self.used, self.model, refused, name)
        found, expected = self.kernel.classes(self.used), \
            self.model.classes.dump()
        dump = {classid: (cl.parent, cl.options)
                for classid, cl in found.items()}
        if dump != expected:
            self.fail(f"{name}: the classes are not the model's",
                      self.sent.hex(), f"classes {dump}", f"model   {expected}")
            raise RuntimeError("the model has lost the classes")
        for classid, cl in found.items():
            self.class_stats_compare(classid, cl, name)
        return state

    def class_stats_compare(self, classid, cl, name):
        model = self.model.classes
        limit = model.limit(classid)
        limits = [limit]
        if limit and self.model.has_queues:
            # Each queue in which it has packets has a part, or two packets.
            most = max(limit, 2 * self.model.packet) * self.tx_queues
            limits = range(1, min(most, 2**32 - 1) + 1)
        by_counters, now = cl.throttled()
        for what, is_right in (
                ("type", cl.counter("type") == LEAF_TYPE),
                ("children",
                 cl.counter("children") == len(model.children(classid))),
                ("limit", limit is None or cl.counter("limit") in limits),
                ("throttled_sockets", by_counters == now)):
            if not is_right:
                self.fail(f"{name}: {what} of class {classid:x}",
                          cl.app[:184].hex())

    def class_send(self, handle, parent, flags, blob, nested=NESTED,
                   has_rate=False):
        refused = refusal(self.model.classes.change, handle, parent, flags,
                          blob, nested, has_rate)
        self.send(NEWTCLASS, flags, self.used, blob, nested, handle=handle,
                  parent=parent, extra=ESTIMATOR if has_rate else b"")
        self.class_compare(refused, "class change")

    def class_below(self):
        """Add one without options below the deepest."""
        model = self.model.classes
        free = [HANDLE | minor for minor in MINORS
                if HANDLE | minor not in model.known]
        if free and model.known:
            parent = max(sorted(model.known), key=model.levels)
            self.class_send(self.rng.choice(free), parent, CREATE | EXCL, None)

    def class_change(self):
        """Add a class, or change it."""
        handle, parent = self.class_places()
        is_known = handle in self.model.classes.known
        flags = self.rng.choice((CREATE, CREATE, CREATE | EXCL,
                                 0 if is_known else CREATE | EXCL, 0))
        blob = self.rng.choice((self.class_generator.nest,
                                self.class_generator.good))()
        if self.rng.random() < 0.05:
            blob = None
        nested = NESTED if self.rng.random() < 0.98 else 0
        self.class_send(handle, parent, flags, blob, nested,
                        has_rate=self.rng.random() < 0.03)

    def floor_place(self):
        """A class and its parent: often one that has a floor to divide."""
        model = self.model.classes
        dividing = [classid for classid in sorted(model.known)
                    if model.most(classid)]
        if dividing and self.rng.random() < 0.5:
            parent = self.rng.choice(dividing)
            children = model.children(parent)
            if children and self.rng.random() < 0.7:
                return self.rng.choice(children), parent
            return self.classid(), parent
        classid = self.a_class()
        if classid in model.known:
            return classid, model.known[classid].parent
        return classid, TC_H_ROOT

    def class_floor(self):
        """A floor at what its parent has left or its children have, or beside;
        a ceil that is the same, or none; and now and then an overcommit.
        """
        model = self.model.classes
        classid, parent = self.floor_place()
        left = model.most(parent) - model.floors(parent, classid)
        floor = self.rng.choice((left, left // 3, model.floors(classid))) + \
            self.rng.choice((-1, 0, 0, 1))
        floor = max(floor, 0) % 2**64
        ceil = self.rng.choice((UNLIMITED, max(floor, 1)))
        over = self.rng.choice((0, 0, 1))
        blob = b"".join(option_bytes(kind, value, CLASS_OPTIONS)
                        for kind, value in ((FLOOR, floor), (CEIL, ceil),
                                            (OVERCOMMIT, over)))
        self.class_send(classid, parent, CREATE, blob)

    def class_delete(self, classid=None):
        """Once or twice: what a failed deletion leaves behind counts, too."""
        again = not classid and self.rng.random() < 0.3
        classid = classid or self.a_class()
        for _ in range(1 + again):
            refused = refusal(self.model.classes.delete, classid, HANDLE)
            self.send(DELTCLASS, 0, self.used, None, handle=classid,
                      parent=HANDLE)
            self.class_compare(refused, "class delete")

    def class_filter(self):
        """Add or delete a filter of the qdisc or of a class."""
        model = self.model.classes
        parent, prio = HANDLE, self.rng.randint(1, 3)
        if model.known and self.rng.random() < 0.6:
            parent = self.rng.choice(sorted(model.known))
        if (parent, prio) in model.filters:
            self.filter_delete(parent, prio)
            return
        classid = self.a_class() if self.rng.random() < 0.9 else \
            self.rng.choice(NO_CLASSES)
        model.filter_add(parent, prio, classid)
        blob = attr_bytes(MATCHALL_CLASSID, struct.pack("=I", classid))
        self.send(NEWTFILTER, CREATE | EXCL, self.used, blob, handle=0,
                  parent=parent, info=prio << 16 | ALL_PROTOCOLS,
                  name=b"matchall\0")
        self.class_compare(None, "filter")

    def filter_delete(self, parent, prio):
        del self.model.classes.filters[parent, prio]
        self.send(DELTFILTER, 0, self.used, None, handle=0, parent=parent,
                  info=prio << 16 | ALL_PROTOCOLS, name=b"matchall\0")
        self.class_compare(None, "filter delete")

    def class_graft(self):
        classid = self.a_class()
        refused = refusal(self.model.classes.graft, classid)
        self.send(NEWQDISC, CREATE, self.used, None, handle=0x20000,
                  parent=classid)
        self.class_compare(refused, "graft")

    def classes_clear(self):
        """Delete all, from below."""
        model = self.model.classes
        for parent, prio in sorted(model.filters):
            self.filter_delete(parent, prio)
        for classid in sorted(model.known, key=model.levels, reverse=True):
            self.class_delete(classid)

    CLASS_STEPS = (class_change,) * 10 + (class_below,) * 2 + \
        (class_floor,) * 3 + (class_delete,) * 3 + (class_filter,) * 3 + \
        (class_graft,)
