// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"bpshaper.example/tools/bpshaper"
)

// eventOf is of the class as the kernel has it.
func eventOf(c *class) *event {
	return &event{class: &bpshaper.Class{Ifindex: c.ifindex, Handle: c.handle, Parent: c.parent,
		Options: c.has.options()}}
}

func TestNewsOfClasses(t *testing.T) {
	has := fakeOf("media/a has 10mbit none 2 4").has
	c := has.classes[0]
	has.numbers = map[number]*class{c.number: c}
	for _, step := range []struct {
		name   string
		change func(e *event)
		isSame bool
	}{
		{"the same", func(*event) {}, true},
		{"another value", func(e *event) { e.class.Options.Weight = bpshaper.To[uint32](3) }, false},
		{"a value less", func(e *event) { e.class.Options.Ceil = nil }, false},
		{"another parent", func(e *event) { e.class.Parent = 0x10009 }, false},
		{"another number", func(e *event) { e.class.Handle++ }, false},
		{"another device", func(e *event) { e.class.Ifindex++ }, false},
		{"deleted", func(e *event) { e.deleted = true }, false},
	} {
		e := eventOf(c)
		if step.change(e); has.agrees(e) != step.isSame {
			t.Errorf("%s: %t", step.name, !step.isSame)
		}
	}
}

func TestNewsOfDevices(t *testing.T) {
	veth := bpshaper.Device{Ifindex: 7, Name: "veth7", Alias: "bpshaper x", Peer: 2, PeerSpace: 3}
	has := &actual{devices: map[int]bpshaper.Device{7: veth}}
	other := veth
	other.Alias = "bpshaper y"
	xdp, gro := veth, veth
	xdp.XDP, gro.GRO = true, true
	for _, step := range []struct {
		name   string
		event  event
		isSame bool
	}{
		{"the same", event{device: &veth}, true},
		{"another alias", event{device: &other}, false},
		{"with XDP", event{device: &xdp}, false},
		{"with GRO", event{device: &gro}, false},
		{"deleted", event{device: &veth, deleted: true}, false},
		{"one of nobody", event{device: &bpshaper.Device{Ifindex: 8, Name: "eth0"}}, true},
		{"it goes", event{device: &bpshaper.Device{Ifindex: 8}, deleted: true}, true},
		{"a new one", event{device: &bpshaper.Device{Ifindex: 8, Alias: "bpshaper z"}}, false},
	} {
		if has.agrees(&step.event) != step.isSame {
			t.Errorf("%s: %t", step.name, !step.isSame)
		}
	}
}

// Only of what the agent has to put back.
func TestNewsOfQdiscs(t *testing.T) {
	has := &actual{rates: map[int]uint64{5: 1000}, ends: []*end{{"a/a", "veth", 7, &values{}},
		{"a/b", "other", 8, nil}}}
	for _, step := range []struct {
		name   string
		bare   int
		isSame bool
	}{
		{"the node's", 5, false},
		{"of an end that is limited", 7, false},
		{"of an end that is not", 8, true},
		{"of nobody", 9, true},
	} {
		if has.agrees(&event{deleted: true, bare: step.bare}) != step.isSame {
			t.Errorf("%s: %t", step.name, !step.isSame)
		}
	}
}

// What the kernel has accepted is known without another look.
func TestTaken(t *testing.T) {
	conf := configOf(t, configText)
	f := fakeOf("media/a has 20mbit none 2 4 egress-floor=10mbit egress-weight=3\n" +
		"media/b has 0 none 2 4 egress-floor=40mbit\nmedia/c has 0 none 2 4")
	changes, _ := planOf(conf, f.pods, f.has)
	for i := range changes {
		f.has.take(&changes[i])
	}
	if len(changes) != 2 || f.has.floors[ifb] != 6250000 {
		t.Errorf("%d changes, floors %d", len(changes), f.has.floors[ifb])
	}
	if changes, _ = planOf(conf, f.pods, f.has); changes != nil {
		t.Errorf("again: %+v", changes)
	}
}

func TestTakenEnds(t *testing.T) {
	conf := configOf(t, "default: { ingress-ceil: none, ingress-latency: 10ms }")
	f := fakeOf("a/a")
	f.has.ends = []*end{{"a/a", "veth", 10, nil}}
	for _, text := range []string{"8mbit", "9mbit", "none"} {
		f.pods[0].annotations[prefix+"ingress-ceil"], f.pods[0].demand = text, nil
		changes, _ := planOf(conf, f.pods, f.has)
		if len(changes) != 1 {
			t.Fatalf("%s: %+v", text, changes)
		}
		f.has.take(&changes[0])
		if changes, _ = planOf(conf, f.pods, f.has); changes != nil {
			t.Errorf("%s again: %+v", text, changes)
		}
	}
}

// Only who was not refused before is a reason to read all anew.
func TestNewsOfRefusals(t *testing.T) {
	a := &agent{refused: map[types.UID]*refusal{"a": refuse(floorsAboveRate, "x", "1")}}
	for _, step := range []struct {
		uid    types.UID
		why    *refusal
		isNews bool
	}{
		{"a", refuse(floorsAboveRate, "x", "2"), false},
		{"a", refuse(floorsAboveRate, "y", "1"), true},
		{"a", refuse(notAllowed, "x", "1"), true},
		{"b", refuse(floorsAboveRate, "x", "1"), true},
		{"b", refuse(badAnnotation, "x", "1"), false},
	} {
		if got := a.isNews(map[types.UID]*refusal{step.uid: step.why}); got != step.isNews {
			t.Errorf("%s %v: %t", step.uid, step.why, got)
		}
	}
}

// What is no message is no reason to go on.
func TestWrongEvents(t *testing.T) {
	isSame := func(*event) bool { return true }
	if !parseEvents(nil, isSame) || parseEvents(make([]byte, 20), isSame) {
		t.Error("nothing is an error, or a short message is none")
	}
}
