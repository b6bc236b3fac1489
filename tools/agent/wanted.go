// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"bpshaper.example/tools/bpshaper"
)

// pod is what the agent needs of one.
type pod struct {
	uid           types.UID
	namespace     string
	name          string
	created       time.Time
	priorityClass string
	annotations   map[string]string
	isRunning     bool // and has its interfaces
	condition     *corev1.PodCondition
	demand        *demand // as far as the plan has made it
}

// demand is what a pod shall have by a configuration.
type demand struct {
	conf  *config
	want  values
	bad   *refusal // why it does not get what it asks for
	base  uint64   // floor that it has without asking
	bound uint64   // of what the floors of its namespace come to above that
}

// demandOf makes it once.
func (c *config) demandOf(p *pod) *demand {
	if p.demand != nil && p.demand.conf == c {
		return p.demand
	}
	d := &demand{conf: c}
	d.want, d.bad = c.wanted(p)
	if base := c.base(p.namespace)[egressFloor]; base != nil {
		d.base, d.bound = *base, *c.bounds(p.namespace)[egressFloor]
	}
	p.demand = d
	return d
}

func (p *pod) fullName() string { return p.namespace + "/" + p.name }

// refusal says why a pod does not get what it asks for. The key is the part of the
// text that does not change with other pods.
type refusal struct {
	reason string
	key    string
	text   string
}

// Reasons.
const (
	badAnnotation   = "BadAnnotation"
	notAllowed      = "NotAllowed"
	floorsAboveRate = "FloorsAboveRate"
	noClass         = "NoClass"
	notHeld         = "NotHeld"
	failed          = "Failed"
)

func refuse(reason, key, format string, args ...any) *refusal {
	if format == "" {
		return &refusal{reason, key, key}
	}
	return &refusal{reason, key, key + ": " + fmt.Sprintf(format, args...)}
}

// bandwidth is an annotation of Kubernetes. One that is no rate kubelet refuses.
func (p *pod) bandwidth(name string) uint64 {
	text, found := p.annotations[name]
	if !found {
		return bpshaper.RateUnlimited
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Value() < 8*bpshaper.RateMin {
		return bpshaper.RateUnlimited
	}
	return min(uint64(quantity.Value())/8, bpshaper.RateMax)
}

func limited(v *values, w int, ceil uint64) {
	if v[w] != nil && *v[w] > ceil {
		v[w] = &ceil
	}
}

// wanted is what the pod shall have, or why it does not get what it asks for. What
// an annotation asks for beyond the bounds is refused, what anything else gives is cut
// down to them.
func (c *config) wanted(p *pod) (values, *refusal) {
	asked, err := parseAnnotations(p.annotations)
	if err != nil {
		return values{}, refuse(badAnnotation, err.Error(), "")
	}
	bounds := c.bounds(p.namespace)
	for w := range words {
		if asked[w] == nil {
			continue
		}
		if c.defaults[w] == nil {
			return values{}, refuse(notAllowed, annotationText(w, *asked[w]),
				"the ConfigMap has no default of it")
		}
		if w != egressFloor && isMore(w, *asked[w], *bounds[w]) {
			return values{}, refuse(notAllowed, annotationText(w, *asked[w]),
				"namespace %s may ask for %s%s", p.namespace,
				words[w].format(*bounds[w]), orLess(w))
		}
	}
	v := or(asked, c.priorityClasses[p.priorityClass], c.base(p.namespace))
	c.cut(&v, &bounds)
	limited(&v, egressCeil, p.bandwidth("kubernetes.io/egress-bandwidth"))
	limited(&v, ingressCeil, p.bandwidth("kubernetes.io/ingress-bandwidth"))
	if v[egressFloor] != nil && v[egressCeil] != nil && *v[egressFloor] > *v[egressCeil] {
		if asked[egressFloor] != nil {
			return values{}, refuse(badAnnotation, annotationText(egressFloor,
				*v[egressFloor]), "it is above the ceil of the pod, %s",
				formatRate(*v[egressCeil]))
		}
		v[egressFloor] = v[egressCeil]
	}
	return v, nil
}

func annotationText(w int, value uint64) string {
	return "annotation " + prefix + words[w].name + " " + words[w].format(value)
}

// orLess has the words for a bound.
func orLess(w int) string {
	if w == egressPrio {
		return " or a larger number"
	}
	return " at most"
}

// cut leaves floors alone, whose bound is for their sum.
func (c *config) cut(v, bounds *values) {
	for w := range words {
		if w != egressFloor && v[w] != nil && isMore(w, *v[w], *bounds[w]) {
			v[w] = bounds[w]
		}
	}
}

// kept is what a class keeps whose pod is refused: what it has, as far as the pod may
// have that, and the floor that is granted. So no pod gets by a wrong annotation what
// the plugin gives to all.
func (c *config) kept(p *pod, has values, floor uint64) values {
	base, bounds := c.base(p.namespace), c.bounds(p.namespace)
	for w := range words {
		switch {
		case base[w] == nil:
			has[w] = nil
		case w == egressFloor:
			has[w] = &floor
		case has[w] != nil && isMore(w, *has[w], *bounds[w]):
			has[w] = base[w]
		}
	}
	if has[egressFloor] != nil && has[egressCeil] != nil {
		limited(&has, egressFloor, *has[egressCeil])
	}
	return has
}
