// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"bpshaper.example/tools/bpshaper"
	"bpshaper.example/tools/owner"
)

// kernel is the network namespace of the node.
type kernel struct {
	conn *bpshaper.Conn
}

// parseHandle reads 1:a.
func parseHandle(text string) (bpshaper.Handle, bool) {
	major, minor, _ := strings.Cut(text, ":")
	a, errA := strconv.ParseUint(major, 16, 16)
	b, errB := strconv.ParseUint(minor, 16, 16)
	return bpshaper.MakeHandle(uint16(a), uint16(b)), errA == nil && errB == nil
}

// read finds what the aliases of devices name. What pods receive is read only if the
// configuration says something of it.
func (k *kernel) read(ends bool) (*actual, error) {
	devices, err := k.conn.Devices()
	if err != nil {
		return nil, err
	}
	numbers := map[string]int{}
	for i := range devices {
		numbers[devices[i].Name] = devices[i].Ifindex
	}
	has := &actual{rates: map[int]uint64{}, floors: map[int]uint64{}}
	pods := map[int]map[bpshaper.Handle]class{}
	for i := range devices {
		o, at, ok := owner.Of(devices[i].Alias)
		if !ok || o.Pod == "" {
			continue
		}
		name := o.Namespace + "/" + o.Pod
		// An ifb has no other end.
		if devices[i].Peer != 0 {
			has.ends = append(has.ends, end{name, devices[i].Name, devices[i].Ifindex, nil})
		}
		handle, ok := parseHandle(at.Class)
		ifindex, found := numbers[at.Device]
		if !ok || !found {
			continue
		}
		if pods[ifindex] == nil {
			pods[ifindex] = map[bpshaper.Handle]class{}
		}
		pods[ifindex][handle] = class{pod: name, at: at}
	}
	for ifindex, classes := range pods {
		if err := k.nodeRead(has, ifindex, classes); err != nil {
			return nil, err
		}
	}
	if !ends {
		has.ends = nil
		return has, nil
	}
	return has, k.endsRead(has)
}

// nodeRead reads the classes of an ifb, of which those are pods'.
func (k *kernel) nodeRead(has *actual, ifindex int, pods map[bpshaper.Handle]class) error {
	root, err := k.conn.DeviceQdisc(ifindex, bpshaper.Root)
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
	if err != nil {
		return err
	}
	for i := range classes {
		o := &classes[i].Options
		if o.Floor == nil {
			o.Floor = new(uint64)
		}
		if classes[i].Parent == bpshaper.Root {
			has.floors[ifindex] += *o.Floor
		}
		if c, found := pods[classes[i].Handle]; found {
			c.has = classes[i]
			has.classes = append(has.classes, c)
		}
	}
	return nil
}

// endsRead leaves out the ends that somebody else limits.
func (k *kernel) endsRead(has *actual) error {
	qdiscs, err := k.conn.Qdiscs()
	if err != nil {
		return err
	}
	options := map[int]*bpshaper.Options{}
	for i := range qdiscs {
		if q := &qdiscs[i]; q.Parent == bpshaper.Root && q.Handle == owner.RootHandle {
			options[q.Ifindex] = &q.Options
		}
	}
	for i := range has.ends {
		has.ends[i].has = options[has.ends[i].ifindex]
	}
	return nil
}

// apply does not mind that a pod has gone.
func (k *kernel) apply(c *change) error {
	var err error

	switch {
	case c.class != nil:
		err = k.conn.ChangeClass(*c.class)
	case c.verb == toAdd:
		err = k.conn.AddQdisc(*c.qdisc)
	case c.verb == toDelete:
		err = k.conn.DeleteQdisc(c.qdisc.Ifindex, c.qdisc.Handle, c.qdisc.Parent)
	default:
		err = k.conn.ChangeQdisc(*c.qdisc)
	}
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.where, err)
	}
	return nil
}

// watch calls f for each change of a class. Not of a qdisc: to read one by DeviceQdisc makes such
// a message.
func watch(ctx context.Context, f func()) {
	for ctx.Err() == nil {
		err := bpshaper.Watch(ctx, func(e bpshaper.Event) error {
			if e.Class != nil {
				f()
			}
			return nil
		})
		f()
		if err != nil && !errors.Is(err, bpshaper.ErrOverrun) {
			slog.Error("watching the kernel", "error", err)
			time.Sleep(time.Second)
		}
	}
}
