// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"bpshaper.example/tools/bpshaper"
	"bpshaper.example/tools/owner"
)

// collector reads the kernel when it is asked, and remembers nothing. It is a
// Gatherer of the client library.
type collector struct {
	spaces func() []space
	device *regexp.Regexp // what names of devices match, or nil
	form   form
	others prometheus.Gatherer // what has nothing to do with the kernel
}

var (
	moduleFamily = familyOf("module_loaded", "whether the kernel module is loaded: 1 or 0",
		gauge)
	upFamily = familyOf("netns_up", "whether the qdiscs of the network namespace could "+
		"be read: 1 or 0", gauge)
	podFamily = familyOf("pod_info", "the pod whose traffic a qdisc or class has, and "+
		"its container, interface and CNI network; always 1", gauge)
	classFamily = familyOf("class_info", "the parent of a class; always 1", gauge)
)

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Gather takes one dump of qdiscs and devices for each namespace, and one of
// classes for each device. A namespace that cannot be read is no error: the
// others can.
func (c *collector) Gather() ([]*dto.MetricFamily, error) {
	var host []bpshaper.Device

	a := &answer{map[*family]*dto.MetricFamily{}}
	a.addNumber(moduleFamily, truth(bpshaper.Loaded()), nil)
	for _, s := range c.spaces() {
		r := reading{collector: c, answer: a, space: s.name, seen: map[owner.Place]bool{}}
		devices, err := r.collect(s, host)
		if err != nil {
			slog.Error("cannot read", "netns", s.name, "error", err)
		}
		if s.name == "" {
			host = devices
		}
		a.addNumber(upFamily, truth(err == nil), pairs("netns", s.name))
	}
	others, err := c.others.Gather()
	return append(a.sorted(), others...), err
}

// mostOfPod is how many qdiscs and classes, and how many devices, are read of a
// namespace that somebody else may govern: 65535 classes for each qdisc, of 6 kB of
// text each, would be the end of the exporter.
const mostOfPod = 4096

var errFull = fmt.Errorf("it has more than %d qdiscs and classes, or devices", mostOfPod)

// room is for how many qdiscs and classes there is room yet.
func (r *reading) room() int {
	if r.space == "" {
		return math.MaxInt
	}
	return mostOfPod - len(r.seen)
}

// atMost collects what is listed, and ends the listing at the first one that is too
// many. A listing that a change has interrupted begins anew.
func atMost[T any](most int, each func(func(*T) error) error) ([]T, error) {
	var all []T
	var err error

	for try := 0; try < 10; try++ {
		all = nil
		err = each(func(one *T) error {
			if len(all) >= most {
				return errFull
			}
			all = append(all, *one)
			return nil
		})
		if !errors.Is(err, bpshaper.ErrInterrupted) {
			break
		}
	}
	return all, err
}

// reading is one look at a namespace.
type reading struct {
	*collector
	*answer
	space  string
	owners *owners
	names  map[int]string
	seen   map[owner.Place]bool
}

func (r *reading) collect(s space, host []bpshaper.Device) ([]bpshaper.Device, error) {
	from, err := s.open()
	if err != nil {
		return nil, err
	}
	defer from.Close()
	qdiscs, err := atMost(r.room(), from.EachQdisc)
	if err != nil {
		return nil, err
	}
	// The aliases of the host's devices name the pods of other namespaces.
	if len(qdiscs) == 0 && s.name != "" {
		return nil, nil
	}
	devices, err := atMost(r.room(), from.EachDevice)
	if err != nil {
		return nil, err
	}
	r.names = map[int]string{}
	for i := range devices {
		devices[i].Name, devices[i].Alias = textOf(devices[i].Name),
			textOf(devices[i].Alias)
		r.names[devices[i].Ifindex] = devices[i].Name
	}
	if s.name == "" {
		host = nil
	} else if host == nil {
		host = []bpshaper.Device{}
	}
	r.owners = ownersOf(devices, host, s.id())
	read := map[int]bool{}
	for i := range qdiscs {
		q := &qdiscs[i]
		if r.device != nil && !r.device.MatchString(r.names[q.Ifindex]) {
			continue
		}
		r.qdisc(q)
		if read[q.Ifindex] {
			continue
		}
		read[q.Ifindex] = true
		if err := r.classes(from, q.Ifindex); err != nil {
			return devices, err
		}
	}
	return devices, nil
}

// isNew is false for what has been seen. A dump may have it twice if something
// changes at that time, and one metric that is there twice makes the whole
// answer an error.
func (r *reading) isNew(device, class string) bool {
	if device == "" || r.seen[owner.Place{Device: device, Class: class}] {
		return false
	}
	r.seen[owner.Place{Device: device, Class: class}] = true
	return true
}

func (r *reading) qdisc(q *bpshaper.Qdisc) {
	device := r.names[q.Ifindex]
	if !r.isNew(device, "qdisc of "+q.Parent.String()) {
		return
	}
	o := r.owners.devices[q.Ifindex]
	where := []string{"netns", r.space, "device", device, "handle", q.Handle.String(),
		"parent", q.Parent.String(), "pod_namespace", o.Namespace, "pod_name", o.Pod}
	r.ofPod(o, where)
	addAll(r.answer, qdiscTable, q, pairs(where...), r.form)
}

func (r *reading) classes(from source, ifindex int) error {
	classes, err := atMost(r.room(), func(f func(*bpshaper.Class) error) error {
		return from.EachClass(ifindex, f)
	})
	if err != nil {
		return err
	}
	device := r.names[ifindex]
	for i := range classes {
		c := &classes[i]
		handle := c.Handle.String()
		if !r.isNew(device, handle) {
			continue
		}
		o := r.owners.classes[owner.Place{Device: device, Class: handle}]
		where := []string{"netns", r.space, "device", device, "class", handle,
			"pod_namespace", o.Namespace, "pod_name", o.Pod}
		r.ofPod(o, where)
		r.addNumber(classFamily, 1, pairs("netns", r.space, "device", device,
			"class", handle, "parent", c.Parent.String()))
		addAll(r.answer, classTable, c, pairs(where...), r.form)
	}
	return nil
}

// ofPod names the pod.
func (r *reading) ofPod(o owner.Owner, where []string) {
	if o.Container != "" {
		r.addNumber(podFamily, 1, pairs(append([]string{"container_id", o.Container,
			"interface", o.Ifname, "network", o.Network}, where...)...))
	}
}
