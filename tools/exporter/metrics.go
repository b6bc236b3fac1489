// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"bpshaper.example/tools/bpshaper"
)

// kind of a metric: a counter never decreases.
type kind int

const (
	counter kind = iota
	gauge
	histogram
)

// A part is one of several members that are one metric. They begin with prefix, and
// the rest of their name is the value of label.
type part struct {
	prefix, label, metric, help string
}

var parts = []part{
	{"drops_", "cause", "drops_total", "packets that were dropped, by cause"},
	{"unheld_", "reason", "unheld_packets_total",
		"packets that came into the pool, by why their socket cannot be throttled"},
}

// counted are the members that are counters, and units those of gauges whose own
// name does not tell it. Others are in gauges: a test says when a member is in none.
var counted = []string{"throttles", "unthrottles", "segments", "ballast_errors",
	"timer_wakeups", "direct_packets", "purged_packets", "paced_waits", "horizon_caps",
	"ce_marks", "turns", "ceil_waits", "hub_locks", "hub_grants", "hub_revokes",
	"idle_throttles"}

var units = map[string]string{"max_backlog": "_bytes", "memory": "_bytes", "share": "_bytes",
	"pool_backlog": "_bytes", "limit": "_bytes", "hub_tokens": "_bytes",
	"rate": "_bytes_per_second", "floor_in_effect": "_bytes_per_second"}

var gauges = []string{"throttled_sockets", "overlimit_sockets", "outside_sockets",
	"flows", "socket_flows", "parked_flows", "paced_flows", "sockets",
	"queues", "hub_waiting", "children"}

// partOf says of what metric the member is a part; nil if it is one itself.
func partOf(member string) *part {
	for i := range parts {
		if strings.HasPrefix(member, parts[i].prefix) {
			return &parts[i]
		}
	}
	return nil
}

// nameOf is the name of a metric behind the prefix, for a member of the statistics.
func nameOf(member string) (string, kind) {
	if slices.Contains(counted, member) {
		return member + "_total", counter
	}
	return member + units[member], gauge
}

// family is a metric with its name, text and type.
type family struct {
	name, help string
	kind       kind
}

// number is a family that has one value for each qdisc or class, or one for each
// part.
type number[S any] struct {
	*family
	part  *dto.LabelPair
	value func(*S) float64
}

// times is a family that has a histogram for each.
type times[S any] struct {
	*family
	value func(*S) *bpshaper.Histogram
}

// table has the metrics of qdiscs, or of classes.
type table[S any] struct {
	numbers []number[S]
	times   []times[S]
}

func familyOf(name, help string, kind kind) *family {
	return &family{"bpshaper_" + name, strings.ToUpper(help[:1]) + help[1:] + ".", kind}
}

// add appends a number that is no member of the statistics.
func (t *table[S]) add(what, name, help string, kind kind, value func(*S) float64) {
	t.numbers = append(t.numbers,
		number[S]{familyOf(what+"_"+name, help, kind), nil, value})
}

const sumHelp = ", in seconds. The sum counts each time as the start of its bucket, " +
	"so the true sum is larger, but less than twice that and 1.024 us for each"

// statistics appends the members that the kernel reports, by way of inner.
func statistics[S, I any](t *table[S], what string, inner func(*S) *I,
	members []bpshaper.Member[I], histograms []bpshaper.HistogramMember[I]) {
	families := map[*part]*family{}
	for _, m := range members {
		value := func(s *S) float64 { return m.Value(inner(s)) }
		if p := partOf(m.Name); p != nil {
			if families[p] == nil {
				families[p] = familyOf(what+"_"+p.metric, p.help, counter)
			}
			t.numbers = append(t.numbers, number[S]{families[p],
				pairs(p.label, strings.TrimPrefix(m.Name, p.prefix))[0], value})
			continue
		}
		name, kind := nameOf(m.Name)
		t.add(what, name, m.Doc, kind, value)
	}
	for _, h := range histograms {
		text := strings.TrimSuffix(h.Name, "_hist") + "_seconds"
		t.times = append(t.times, times[S]{
			familyOf(what+"_"+text, h.Doc+sumHelp, histogram),
			func(s *S) *bpshaper.Histogram { return h.Value(inner(s)) }})
	}
}

// counters appends what the kernel counts for any qdisc and class. Its drops
// are the sum of those by cause.
func counters[S any](t *table[S], what string, of func(*S) *bpshaper.Counters) {
	t.add(what, "bytes_total", "bytes that were sent", counter,
		func(s *S) float64 { return float64(of(s).Bytes) })
	t.add(what, "packets_total", "packets that were sent", counter,
		func(s *S) float64 { return float64(of(s).Packets) })
	t.add(what, "overlimits_total", "times that something had to wait for tokens",
		counter, func(s *S) float64 { return float64(of(s).Overlimits) })
	t.add(what, "backlog_packets", "packets that are queued now", gauge,
		func(s *S) float64 { return float64(of(s).Qlen) })
	t.add(what, "backlog_bytes", "bytes that are queued now", gauge,
		func(s *S) float64 { return float64(of(s).Backlog) })
}

// rateOf is infinite if there is no limit.
func rateOf(option *uint64) float64 {
	if option == nil || *option == bpshaper.RateUnlimited {
		return math.Inf(1)
	}
	return float64(*option)
}

func optionOf[T uint32 | uint64](option *T) float64 {
	if option == nil {
		return 0
	}
	return float64(*option)
}

var qdiscTable = func() *table[bpshaper.Qdisc] {
	const what = "qdisc"
	t := &table[bpshaper.Qdisc]{}
	counters(t, what, func(q *bpshaper.Qdisc) *bpshaper.Counters { return &q.Counters })
	t.add(what, "requeues_total", "packets that the device did not take, and were "+
		"put back", counter,
		func(q *bpshaper.Qdisc) float64 { return float64(q.Counters.Requeues) })
	t.add(what, "rate_bytes_per_second", "rate that is set, infinite if there is none",
		gauge, func(q *bpshaper.Qdisc) float64 { return rateOf(q.Options.Rate) })
	statistics(t, what, func(q *bpshaper.Qdisc) *bpshaper.Stats { return &q.Stats },
		bpshaper.StatsMembers, bpshaper.StatsHistograms)
	return t
}()

// classHistograms leaves out how long sockets were outside: with a thousand
// classes each histogram is a quarter of the answer.
func classHistograms() []bpshaper.HistogramMember[bpshaper.ClassStats] {
	return slices.DeleteFunc(slices.Clone(bpshaper.ClassStatsHistograms),
		func(h bpshaper.HistogramMember[bpshaper.ClassStats]) bool {
			return h.Name == "outside_hist"
		})
}

var classTable = func() *table[bpshaper.Class] {
	const what = "class"
	t := &table[bpshaper.Class]{}
	counters(t, what, func(c *bpshaper.Class) *bpshaper.Counters { return &c.Counters })
	t.add(what, "floor_bytes_per_second", "floor that is set", gauge,
		func(c *bpshaper.Class) float64 { return optionOf(c.Options.Floor) })
	t.add(what, "ceil_bytes_per_second", "ceil that is set, infinite if there is none",
		gauge, func(c *bpshaper.Class) float64 { return rateOf(c.Options.Ceil) })
	t.add(what, "weight", "weight that is set", gauge,
		func(c *bpshaper.Class) float64 { return optionOf(c.Options.Weight) })
	t.add(what, "prio", "prio that is set, 0 is served first", gauge,
		func(c *bpshaper.Class) float64 { return optionOf(c.Options.Prio) })
	statistics(t, what, func(c *bpshaper.Class) *bpshaper.ClassStats { return &c.Stats },
		bpshaper.ClassStatsMembers, classHistograms())
	return t
}()
