// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// answer has the metrics of one scrape. It is built here and not by a registry
// of the client library, which sends each metric through a channel, makes its
// labels anew and compares it with all others: for 70,000 of them that takes
// longer than to read them from the kernel. Labels are shared by all metrics of
// a qdisc or class.
type answer struct {
	families map[*family]*dto.MetricFamily
}

// Of dto.
var types = map[kind]dto.MetricType{counter: dto.MetricType_COUNTER,
	gauge: dto.MetricType_GAUGE, histogram: dto.MetricType_HISTOGRAM}

func (a *answer) add(f *family, m *dto.Metric) {
	found := a.families[f]
	if found == nil {
		found = &dto.MetricFamily{Name: &f.name, Help: &f.help, Type: types[f.kind].Enum()}
		a.families[f] = found
	}
	found.Metric = append(found.Metric, m)
}

func (a *answer) addNumber(f *family, value float64, labels []*dto.LabelPair) {
	if f.kind == counter {
		a.add(f, &dto.Metric{Label: labels, Counter: &dto.Counter{Value: &value}})
	} else {
		a.add(f, &dto.Metric{Label: labels, Gauge: &dto.Gauge{Value: &value}})
	}
}

// withLabel returns a copy with one more. They are sorted by name.
func withLabel(labels []*dto.LabelPair, more *dto.LabelPair) []*dto.LabelPair {
	i, _ := slices.BinarySearchFunc(labels, more, func(a, b *dto.LabelPair) int {
		return strings.Compare(a.GetName(), b.GetName())
	})
	return slices.Concat(labels[:i], []*dto.LabelPair{more}, labels[i:])
}

// addAll adds all metrics of a qdisc or class.
func addAll[S any](a *answer, t *table[S], of *S, labels []*dto.LabelPair, form form) {
	for i := range t.numbers {
		n := &t.numbers[i]
		all := labels
		if n.part != nil {
			all = withLabel(labels, n.part)
		}
		a.addNumber(n.family, n.value(of), all)
	}
	if form == nil {
		return
	}
	for i := range t.times {
		h := &t.times[i]
		a.add(h.family, &dto.Metric{Label: labels,
			Histogram: histogramOf(h.value(of), form)})
	}
}

// sorted returns the families by name.
func (a *answer) sorted() []*dto.MetricFamily {
	all := make([]*dto.MetricFamily, 0, len(a.families))
	for _, f := range a.families {
		all = append(all, f)
	}
	slices.SortFunc(all, func(f, g *dto.MetricFamily) int {
		return strings.Compare(f.GetName(), g.GetName())
	})
	return all
}
