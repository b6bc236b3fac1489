// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"bpshaper.example/tools/bpshaper"
	"bpshaper.example/tools/owner"
)

// number is that of a class.
type number struct {
	ifindex int
	handle  bpshaper.Handle
}

// class is one of the ifb of the node.
type class struct {
	number
	parent bpshaper.Handle
	at     owner.Place
	pod    string // NAMESPACE/NAME, or as much as there was room for
	has    values
	xdp    string // the host's end of the veth, if it has an XDP program
	gro    string // the same, if it has GRO
}

// end is the host's end of a pod's veth. Its bpshaper limits what the pod receives.
type end struct {
	pod     string
	device  string
	ifindex int
	has     *values // none: there is no bpshaper of the plugin
}

// actual is what the kernel has.
type actual struct {
	rates   map[int]uint64 // of the ifbs of the node
	floors  map[int]uint64 // what the floors of their classes come to
	classes []*class       // of pods
	ends    []*end
	numbers map[number]*class       // all classes of the ifbs
	devices map[int]bpshaper.Device // with an alias of the plugin
}

// change is one request to the kernel, of a class or of the qdisc of an end.
type change struct {
	pod    *pod
	where  string
	what   []string
	values values // those that change
	class  *class
	end    *end
	verb   verb
}

type verb int

// What is to be done with a qdisc. A class is changed.
const (
	toChange verb = iota
	toAdd
	toDelete
)

// pods by their names.
type podIndex map[string]*pod

func indexOf(pods []*pod) podIndex {
	index := make(podIndex, len(pods))
	for _, p := range pods {
		index[p.fullName()] = p
	}
	return index
}

// find also finds a pod of whose name only a part is known.
func (index podIndex) find(name string) *pod {
	if p := index[name]; p != nil || !strings.Contains(name, "~") {
		return p
	}
	for full, p := range index {
		if owner.IsShort(name, full) {
			return p
		}
	}
	return nil
}

// share is a class with its pod, while the plan is made.
type share struct {
	*class
	demand
	of      *pod
	granted uint64 // floor, so far
}

func (c *class) floor() uint64 { return *c.has[egressFloor] }

func (s *share) above(floor uint64) uint64 {
	if floor <= s.base {
		return 0
	}
	return floor
}

// plan says what has to change, and who is refused. It is a function of what
// the API and the kernel say, and of nothing else.
type plan struct {
	conf     *config
	has      *actual
	shares   []*share
	ofDevice map[int]uint64    // what floors come to when the plan is done
	ofSpace  map[string]uint64 // those that a namespace has asked for
	changes  []change
	refused  map[types.UID]*refusal
	seen     map[types.UID]bool // has a class or an end
}

func planOf(conf *config, pods []*pod, has *actual) ([]change, map[types.UID]*refusal) {
	p := &plan{conf: conf, has: has, ofDevice: map[int]uint64{},
		ofSpace: map[string]uint64{}, refused: map[types.UID]*refusal{},
		seen: make(map[types.UID]bool, len(pods))}
	index := indexOf(pods)
	p.sharesFind(index)
	p.floorsHold()
	p.floorsRaise()
	for _, s := range p.shares {
		p.classChange(s)
		if s.xdp != "" {
			p.refuse(s.of, refuse(notHeld, "XDP on "+s.xdp, "the pod does not wait, and "+
				"what exceeds its limit is lost: its packets have lost their sockets"))
		} else if s.gro != "" {
			p.refuse(s.of, refuse(notHeld, "GRO on "+s.gro, "TCP that the pod sends without "+
				"TSO does not wait, and what exceeds its limit is lost: its packets have "+
				"lost their sockets"))
		}
	}
	// What becomes smaller makes room for others.
	slices.SortStableFunc(p.changes, func(a, b change) int {
		switch {
		case a.raises() == b.raises():
			return 0
		case b.raises():
			return -1
		}
		return 1
	})
	p.endsChange(index)
	for _, one := range pods {
		p.withoutClass(one)
	}
	return p.changes, p.refused
}

// sharesFind puts the pods in their order: who was first has the floor.
func (p *plan) sharesFind(index podIndex) {
	for device, floors := range p.has.floors {
		p.ofDevice[device] = floors
	}
	p.shares = make([]*share, 0, len(p.has.classes))
	for _, c := range p.has.classes {
		one := index.find(c.pod)
		if one == nil {
			continue
		}
		p.seen[one.uid] = true
		p.shares = append(p.shares, &share{class: c, of: one, demand: *p.conf.demandOf(one)})
	}
	slices.SortFunc(p.shares, func(a, b *share) int {
		return cmp.Or(a.of.created.Compare(b.of.created),
			cmp.Compare(a.of.namespace, b.of.namespace),
			cmp.Compare(a.of.name, b.of.name),
			cmp.Compare(a.ifindex, b.ifindex), cmp.Compare(a.handle, b.handle))
	})
}

// floorsHold lets each class have what it has and still wants, as far as its
// namespace may.
func (p *plan) floorsHold() {
	for _, s := range p.shares {
		s.granted = s.floor()
		if s.want[egressFloor] != nil {
			s.granted = min(s.granted, *s.want[egressFloor])
		}
		if p.conf.defaults[egressFloor] != nil &&
			p.ofSpace[s.of.namespace]+s.above(s.granted) > s.bound {
			s.granted = min(s.granted, s.base)
		}
		p.ofSpace[s.of.namespace] += s.above(s.granted)
		p.ofDevice[s.ifindex] -= s.floor() - s.granted
	}
}

// floorsRaise gives what is asked for and fits.
func (p *plan) floorsRaise() {
	for _, s := range p.shares {
		want := s.want[egressFloor]
		if s.bad == nil && want != nil && *want > s.granted {
			s.bad = p.floorRaise(s, *want)
		}
		if s.bad != nil {
			s.want = p.conf.kept(s.of, s.has, s.granted)
			p.refuse(s.of, s.bad)
		}
	}
}

func (p *plan) floorRaise(s *share, want uint64) *refusal {
	space, ifindex := s.of.namespace, s.ifindex
	inSpace := p.ofSpace[space] - s.above(s.granted)
	onDevice := p.ofDevice[ifindex] - s.granted
	rate := p.has.rates[ifindex]
	key := annotationText(egressFloor, want) + " of " + s.of.fullName()
	switch {
	case inSpace+s.above(want) > s.bound:
		return refuse(notAllowed, key, "floors that namespace %s asks for on this node "+
			"are %s and would be %s, above the %s that it may ask for", space,
			formatRate(inSpace), formatRate(inSpace+want), formatRate(s.bound))
	case onDevice+want > rate:
		return refuse(floorsAboveRate, key, "floors of other pods on this node are %s "+
			"and would be %s, above its rate of %s", formatRate(onDevice),
			formatRate(onDevice+want), formatRate(rate))
	}
	p.ofSpace[space] = inSpace + s.above(want)
	p.ofDevice[ifindex] = onDevice + want
	s.granted = want
	return nil
}

// refuse keeps the first refusal of a pod.
func (p *plan) refuse(one *pod, why *refusal) {
	if p.refused[one.uid] == nil {
		p.refused[one.uid] = why
	}
}

func (v *values) equal(other values) bool {
	for w := range v {
		if (v[w] == nil) != (other[w] == nil) || v[w] != nil && *v[w] != *other[w] {
			return false
		}
	}
	return true
}

// differences are those of the words from first to last: want has what changes,
// the texts say it.
func differences(want, has values, first, last int) (values, []string) {
	var what []string

	for w := range want {
		if w < first || w > last || want[w] == nil || has[w] != nil && *has[w] == *want[w] {
			want[w] = nil
			continue
		}
		what = append(what, words[w].name+" "+words[w].format(*want[w]))
	}
	return want, what
}

func (p *plan) classChange(s *share) {
	differs, what := differences(s.want, s.has, egressFloor, egressLatency)
	if what != nil {
		p.changes = append(p.changes, change{pod: s.of, what: what, values: differs,
			where: "class " + s.at.Class + " of " + s.at.Device, class: s.class})
	}
}

// raises says that a floor becomes larger.
func (c *change) raises() bool {
	floor := c.values[egressFloor]
	return floor != nil && *floor > c.class.floor()
}

// endsChange sets what pods receive. Without a ceil there is no bpshaper.
func (p *plan) endsChange(index podIndex) {
	for _, e := range p.has.ends {
		one := index.find(e.pod)
		if one == nil {
			continue
		}
		p.seen[one.uid] = true
		d := p.conf.demandOf(one)
		if d.bad != nil {
			p.refuse(one, d.bad)
			continue
		}
		if d.want[ingressCeil] != nil {
			p.endChange(e, one, d.want)
		}
	}
}

func (p *plan) endChange(e *end, one *pod, want values) {
	var has values

	c := change{pod: one, where: e.device, end: e}
	switch isLimited := *want[ingressCeil] != bpshaper.RateUnlimited; {
	case !isLimited && e.has == nil:
		return
	case !isLimited:
		c.verb, c.what = toDelete, []string{"ingress-ceil " + none}
		p.changes = append(p.changes, c)
		return
	case e.has == nil:
		c.verb = toAdd
	default:
		has = *e.has
	}
	if c.values, c.what = differences(want, has, ingressCeil, ingressLatency); c.what != nil {
		p.changes = append(p.changes, c)
	}
}

// withoutClass finds a pod that asks for something and has nothing that could have it.
func (p *plan) withoutClass(one *pod) {
	if p.seen[one.uid] || !one.isRunning {
		return
	}
	for key := range one.annotations {
		if strings.HasPrefix(key, prefix) {
			p.refuse(one, refuse(noClass, "the pod has no class on this node", "its network "+
				"has no bpshaper with a node, or it was added before that had one"))
			return
		}
	}
}
