# SPDX-License-Identifier: GPL-2.0-only
"""The model of classes, and of the filters that refer to them.

Classes has those of one qdisc. Its methods do what a message asks for, or raise
Refused and leave everything as it was. dump() is what the kernel must list.
"""
import errno

from model import Refused, option_bytes, options_parse
from netlink import CREATE, EXCL, HANDLE, TC_H_ROOT, TCA_OPTIONS
from options import (BOTH_LIMITS, CEIL, CHILDREN, CLASS_BURST, CLASS_DEFAULTS,
                     CLASS_LATENCY, CLASS_LIMIT, CLASS_OPTIONS, CLASSID, DEPTH,
                     ESTIMATOR, FLOOR, FLOOR_HIGH, FLOORS, GRAFT, HTB, MOVED,
                     OVERCOMMIT, PARENT, R2Q, RATE, REFERRED, UNLIMITED, WEIGHT)

MAJOR, MINOR, LEVELS = 0xFFFF0000, 0xFFFF, 8
BURST_NS = 2 * 10**6


def place(handle, parent):
    """The number of class and parent as the core completes them."""
    major = handle & MAJOR
    if parent != TC_H_ROOT:
        if major and parent & MAJOR and major != parent & MAJOR:
            raise Refused(errno.EINVAL, "")
        major = major or parent & MAJOR or HANDLE
        parent = parent and major | parent & MINOR
    major = major or HANDLE
    if major != HANDLE:
        raise Refused(errno.ENOENT, "")
    if handle:
        handle = major | handle & MINOR
    elif parent == TC_H_ROOT:
        handle = major
    return handle, parent


def merge(now, blob, r2q):
    """Put the options of a nest into those that a class has. Returns if the
    command is one of htb.
    """
    found = options_parse(blob, CLASS_OPTIONS)
    is_htb = found.pop(HTB, None) is not None
    if is_htb:
        now.clear()
        now.update(CLASS_DEFAULTS)
    if CLASS_LIMIT in found and CLASS_LATENCY in found:
        raise Refused(errno.EINVAL, BOTH_LIMITS)
    for one, other in ((CLASS_LIMIT, CLASS_LATENCY),
                       (CLASS_LATENCY, CLASS_LIMIT)):
        if one in found:
            now.pop(other, None)
    now.update(found)
    if is_htb:
        if WEIGHT not in found:
            now[WEIGHT] = min(max(now[FLOOR] // r2q, 1514), 200000)
        now[FLOOR] = min(now[FLOOR], now[CEIL])
    if now[FLOOR] > now[CEIL]:
        raise Refused(errno.EINVAL, FLOOR_HIGH)
    return is_htb


class Class:
    """Its options, and the number of its parent: TC_H_ROOT if it has none."""

    def __init__(self, parent):
        self.parent, self.set = parent, dict(CLASS_DEFAULTS)


class Classes:
    def __init__(self, qdisc):
        self.qdisc = qdisc
        self.known = {}
        # A filter refers to a class that is there when it is added, and by its
        # number to one that comes later.
        self.filters = {}	# by class, or HANDLE, and prio: class, is_bound

    def children(self, classid):
        return [child for child, cl in self.known.items()
                if cl.parent == classid]

    def levels(self, classid):
        return 0 if classid == TC_H_ROOT else \
            1 + self.levels(self.known[classid].parent)

    def floors(self, classid, but=None):
        """Sum of the floors of the children that do not overcommit."""
        return sum(self.known[child].set[FLOOR]
                   for child in self.children(classid)
                   if child != but and not self.known[child].set[OVERCOMMIT])

    def change(self, handle, parent, flags, blob, nested, has_rate):
        """Add or change a class."""
        classid, parent = place(handle, parent)
        cl = self.known.get(classid)
        if not cl and not flags & CREATE:
            raise Refused(errno.ENOENT, "")
        if cl and flags & EXCL:
            raise Refused(errno.EEXIST, "")
        now, is_htb = dict(cl.set if cl else CLASS_DEFAULTS), False
        if blob is not None:
            if not nested:
                raise Refused(errno.EINVAL, "NLA_F_NESTED is missing",
                              TCA_OPTIONS)
            is_htb = merge(now, blob, self.qdisc.set[R2Q])
        if has_rate and not is_htb:
            raise Refused(errno.EOPNOTSUPP, ESTIMATOR)
        above = self.parent(cl, parent, is_htb)
        if is_htb and above == TC_H_ROOT and now[FLOOR]:
            now[CEIL] = now[FLOOR]
        if not cl:
            self.check_place(classid, above)
        self.check_floors(now, above, classid)
        self.known.setdefault(classid, Class(above)).set = now
        if not cl:
            self.bind(classid, True)

    def parent(self, cl, parent, is_htb):
        """That the class has, or gets, if the command names this one."""
        # Below the qdisc, whatever the name of that
        named = TC_H_ROOT if parent == HANDLE else parent
        actual = cl.parent if cl else named if named in self.known else TC_H_ROOT
        if named and named != actual and not is_htb:
            raise Refused(errno.EINVAL, MOVED) if cl else \
                Refused(errno.ENOENT, PARENT)
        return actual

    def check_place(self, classid, parent):
        if not classid & MINOR:
            raise Refused(errno.EINVAL, CLASSID)
        if self.levels(parent) >= LEVELS:
            raise Refused(errno.EINVAL, DEPTH)

    def most(self, parent):
        """What the floors of its children may add up to."""
        if parent == TC_H_ROOT:
            return self.qdisc.set[RATE]
        return self.known[parent].set[FLOOR]

    def check_floors(self, now, parent, classid):
        floor = 0 if now[OVERCOMMIT] else now[FLOOR]
        if now[FLOOR] and self.floors(parent, classid) + floor > \
                self.most(parent):
            raise Refused(errno.EINVAL, FLOORS)
        if self.floors(classid) > now[FLOOR]:
            raise Refused(errno.EINVAL, FLOORS)

    def check_qdisc(self, now):
        """Do other options of the qdisc do for the classes that are there?"""
        if self.floors(TC_H_ROOT) > now[RATE]:
            raise Refused(errno.EINVAL, FLOORS)

    def delete(self, handle, parent):
        classid, _ = place(handle, parent)
        if classid not in self.known:
            raise Refused(errno.ENOENT, "")
        has_children, refs = self.children(classid), self.refs(classid)
        # The core does this even if the class stays.
        self.bind(classid, False)
        if has_children:
            raise Refused(errno.EBUSY, CHILDREN)
        if refs:
            raise Refused(errno.EBUSY, REFERRED)
        del self.known[classid]
        self.filters = {key: value for key, value in self.filters.items()
                        if key[0] != classid}

    def graft(self, classid):
        if classid not in self.known:
            raise Refused(errno.ENOENT, "")
        raise Refused(errno.EOPNOTSUPP, GRAFT)

    def refs(self, classid):
        return sum(named == (classid, True)
                   for named in self.filters.values())

    def bind(self, classid, is_bound):
        """The core does it to filters of classes, not to those of the qdisc."""
        for key, (target, _) in self.filters.items():
            if key[0] != HANDLE and target == classid:
                self.filters[key] = target, is_bound

    def filter_add(self, parent, prio, classid):
        self.filters[parent, prio] = classid, classid in self.known

    def burst(self, now):
        least = 2 * self.qdisc.framed(self.qdisc.set)
        if CLASS_BURST in now:
            return max(now[CLASS_BURST], least)
        if now[CEIL] == UNLIMITED:
            return least
        return max(self.qdisc.sent_in(BURST_NS, now[CEIL]), least)

    def limit(self, classid):
        """As the statistics have it, if it was set; or None."""
        limit = self.known[classid].set.get(CLASS_LIMIT)
        return limit and max(limit, 2 * self.qdisc.packet)

    def dump(self):
        """Number to parent and options."""
        return {classid: (cl.parent, b"".join(
            option_bytes(kind, value, CLASS_OPTIONS) for kind, value in sorted(
                (cl.set | {CLASS_BURST: self.burst(cl.set)}).items())))
                for classid, cl in self.known.items()}
