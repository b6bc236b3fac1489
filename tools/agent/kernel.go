// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"bpshaper.example/tools/bpshaper"
	"bpshaper.example/tools/owner"
)

// kernel is the network namespace of the node. To read all of it costs 100 ms of CPU with 1000
// pods, so the agent keeps what it has read, and what it has changed since. Whoever has the lock
// and has followed the events knows what commands of the plugin have done.
type kernel struct {
	conn     *bpshaper.Conn
	offloads *bpshaper.Offloads
	events   *events
	has      *actual // none: it must be read
	before   *actual // what was read last
	at       time.Time
	putBacks int
}

func kernelOpen() (*kernel, error) {
	conn, err := bpshaper.Open()
	if err != nil {
		return nil, err
	}
	offloads, err := bpshaper.OpenOffloads()
	if err != nil {
		conn.Close()
		return nil, err
	}
	e, err := eventsOpen()
	if err != nil {
		conn.Close()
		offloads.Close()
		return nil, err
	}
	return &kernel{conn: conn, offloads: offloads, events: e}, nil
}

// parseHandle reads 1:a.
func parseHandle(text string) (bpshaper.Handle, bool) {
	major, minor, _ := strings.Cut(text, ":")
	a, errA := strconv.ParseUint(major, 16, 16)
	b, errB := strconv.ParseUint(minor, 16, 16)
	return bpshaper.MakeHandle(uint16(a), uint16(b)), errA == nil && errB == nil
}

// follow forgets what is known, and returns false, if an event says something else. It forgets
// what is old, too.
func (k *kernel) follow() bool {
	isSame := k.events.read(func(e *event) bool {
		if e.device != nil {
			k.offloadsRead(e.device)
		}
		return k.has != nil && k.has.agrees(e)
	})
	if !isSame || time.Since(k.at) > resync {
		k.has = nil
	}
	return isSame
}

// offloadsRead completes a device of the plugin: the kernel says that its offloads have changed,
// but not which.
func (k *kernel) offloadsRead(d *bpshaper.Device) {
	if strings.HasPrefix(d.Alias, owner.Prefix) {
		d.GRO = k.offloads.HasGRO(d.Name)
	}
}

// agrees says that the event is no news.
func (has *actual) agrees(e *event) bool {
	if e.bare != 0 {
		_, isNode := has.rates[e.bare]
		return !isNode && !slices.ContainsFunc(has.ends, func(end *end) bool {
			return end.ifindex == e.bare && end.has != nil
		})
	}
	if d := e.device; d != nil {
		known, found := has.devices[d.Ifindex]
		if !found {
			return !strings.HasPrefix(d.Alias, owner.Prefix)
		}
		return !e.deleted && *d == known
	}
	known := has.numbers[number{e.class.Ifindex, e.class.Handle}]
	return !e.deleted && known != nil && known.parent == e.class.Parent &&
		known.has.equal(valuesOf(&e.class.Options))
}

// know reads all unless it is known. What pods receive is read only if the configuration says
// something of it.
func (k *kernel) know(ends bool) error {
	if k.has != nil {
		return nil
	}
	has, err := k.read(ends)
	if err == nil {
		k.has, k.before, k.at = has, has, time.Now()
	}
	return err
}

// read finds what the aliases of devices name.
func (k *kernel) read(ends bool) (*actual, error) {
	devices, err := k.conn.Devices()
	if err != nil {
		return nil, err
	}
	indexes := map[string]int{}
	for i := range devices {
		indexes[devices[i].Name] = devices[i].Ifindex
	}
	has := &actual{rates: map[int]uint64{}, floors: map[int]uint64{},
		numbers: map[number]*class{}, devices: map[int]bpshaper.Device{}}
	pods := map[int]map[bpshaper.Handle]class{}
	for i := range devices {
		d := &devices[i]
		if !strings.HasPrefix(d.Alias, owner.Prefix) {
			continue
		}
		k.offloadsRead(d)
		has.devices[d.Ifindex] = *d
		o, at, ok := owner.Of(d.Alias)
		if !ok || o.Pod == "" {
			continue
		}
		name := o.Namespace + "/" + o.Pod
		// An ifb has no other end.
		if ends && d.Peer != 0 {
			has.ends = append(has.ends, &end{name, d.Name, d.Ifindex, nil})
		}
		handle, ok := parseHandle(at.Class)
		ifindex, found := indexes[at.Device]
		if !ok || !found {
			continue
		}
		if pods[ifindex] == nil {
			pods[ifindex] = map[bpshaper.Handle]class{}
		}
		c := class{pod: name, at: at}
		if d.XDP {
			c.xdp = d.Name
		}
		if d.GRO {
			c.gro = d.Name
		}
		pods[ifindex][handle] = c
	}
	for ifindex, classes := range pods {
		if err := k.nodeRead(has, ifindex, classes); err != nil {
			return nil, err
		}
	}
	if !ends {
		return has, nil
	}
	return has, k.endsRead(has)
}

// nodeRead reads the classes of an ifb, of which those are pods'.
func (k *kernel) nodeRead(has *actual, ifindex int, pods map[bpshaper.Handle]class) error {
	root, err := k.conn.DeviceQdisc(ifindex, bpshaper.Root)
	if err == nil && root == nil && k.hadNode(ifindex) {
		err = k.putBack(ifindex)
		if err == nil {
			root, err = k.conn.DeviceQdisc(ifindex, bpshaper.Root)
		}
	}
	if err != nil {
		return err
	}
	if root == nil || root.Kind != bpshaper.Kind || root.Handle != owner.RootHandle {
		return nil
	}
	has.rates[ifindex] = bpshaper.RateUnlimited
	if root.Options.Rate != nil {
		has.rates[ifindex] = *root.Options.Rate
	}
	classes, _, err := k.conn.Classes(ifindex)
	for i := range classes {
		c, isOfPod := pods[classes[i].Handle]
		c.number, c.parent = number{ifindex, classes[i].Handle}, classes[i].Parent
		c.has = valuesOf(&classes[i].Options)
		has.numbers[c.number] = &c
		if isOfPod {
			has.classes = append(has.classes, &c)
		}
		if c.parent == bpshaper.Root {
			has.floors[ifindex] += c.floor()
		}
	}
	return err
}

func (k *kernel) hadNode(ifindex int) bool {
	if k.before == nil {
		return false
	}
	_, found := k.before.rates[ifindex]
	return found
}

// putBack makes the bpshaper of a node that somebody has removed, with the classes that it had.
func (k *kernel) putBack(ifindex int) error {
	rate := k.before.rates[ifindex]
	err := k.conn.AddQdisc(bpshaper.Qdisc{Ifindex: ifindex, Handle: owner.RootHandle,
		Parent: bpshaper.Root, Options: bpshaper.Options{Rate: &rate}})
	if err != nil {
		return fmt.Errorf("put back the bpshaper of the node: %w", err)
	}
	k.putBacks++
	slog.Warn("the bpshaper of the node was gone and is put back", "ifindex", ifindex,
		"times", k.putBacks)
	// Parents first. Somebody's classes may have options that are not known here.
	for _, isTop := range []bool{true, false} {
		for n, c := range k.before.numbers {
			if n.ifindex != ifindex || isTop != (c.parent == bpshaper.Root) {
				continue
			}
			if err := k.conn.AddClass(bpshaper.Class{Ifindex: ifindex, Handle: n.handle,
				Parent: c.parent, Options: c.has.options()}); err != nil {
				slog.Error("put back", "class", n.handle, "error", err)
			}
		}
	}
	return nil
}

// valuesOf a class. It has a floor, though of 0.
func valuesOf(o *bpshaper.ClassOptions) values {
	wide := func(number *uint32) *uint64 {
		if number == nil {
			return nil
		}
		return bpshaper.To(uint64(*number))
	}
	v := values{egressFloor: o.Floor, egressCeil: o.Ceil, egressWeight: wide(o.Weight),
		egressPrio: wide(o.Prio), egressLatency: o.Latency}
	if v[egressFloor] == nil {
		v[egressFloor] = new(uint64)
	}
	return v
}

// options of a class, the reverse.
func (v *values) options() bpshaper.ClassOptions {
	narrow := func(number *uint64) *uint32 {
		if number == nil {
			return nil
		}
		return bpshaper.To(uint32(*number))
	}
	return bpshaper.ClassOptions{Floor: v[egressFloor], Ceil: v[egressCeil],
		Weight: narrow(v[egressWeight]), Prio: narrow(v[egressPrio]),
		Latency: v[egressLatency]}
}

// endsRead leaves out the ends that somebody else limits.
func (k *kernel) endsRead(has *actual) error {
	qdiscs, err := k.conn.Qdiscs()
	if err != nil {
		return err
	}
	limits := map[int]*values{}
	for i := range qdiscs {
		if q := &qdiscs[i]; q.Parent == bpshaper.Root && q.Handle == owner.RootHandle {
			limits[q.Ifindex] = &values{ingressCeil: q.Options.Rate,
				ingressLatency: q.Options.Latency}
		}
	}
	for _, e := range has.ends {
		e.has = limits[e.ifindex]
	}
	return nil
}

// apply makes a change, and knows it.
func (k *kernel) apply(c *change) error {
	var err error

	if c.class != nil {
		err = k.conn.ChangeClass(bpshaper.Class{Ifindex: c.class.ifindex,
			Handle: c.class.handle, Parent: c.class.parent, Options: c.values.options()})
	} else {
		err = k.endApply(c)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.where, err)
	}
	k.has.take(c)
	return nil
}

func (k *kernel) endApply(c *change) error {
	q := bpshaper.Qdisc{Ifindex: c.end.ifindex, Handle: owner.RootHandle, Parent: bpshaper.Root,
		Options: bpshaper.Options{Rate: c.values[ingressCeil], Latency: c.values[ingressLatency]}}
	switch c.verb {
	case toAdd:
		return k.conn.AddQdisc(q)
	case toDelete:
		return k.conn.DeleteQdisc(q.Ifindex, q.Handle, q.Parent)
	}
	return k.conn.ChangeQdisc(q)
}

// take does to what is known what the kernel has accepted.
func (has *actual) take(c *change) {
	switch {
	case c.class != nil:
		if floor := c.values[egressFloor]; floor != nil && c.class.parent == bpshaper.Root {
			has.floors[c.class.ifindex] += *floor - c.class.floor()
		}
		c.class.has = or(c.values, c.class.has)
	case c.verb == toDelete:
		c.end.has = nil
	case c.verb == toAdd:
		c.end.has = &c.values
	default:
		*c.end.has = or(c.values, *c.end.has)
	}
}

// isGone says that a pod has gone meanwhile.
func isGone(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT)
}
