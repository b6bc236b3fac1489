// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package bpshaper

import (
	"reflect"
	"time"
	"unsafe"
)

// Member is a number among the statistics S, for those who want all of them.
type Member[S any] struct {
	Name  string // as in the JSON of tc
	Doc   string
	Value func(*S) float64
}

// HistogramMember is a histogram among the statistics S.
type HistogramMember[S any] struct {
	Name  string
	Doc   string
	Value func(*S) *Histogram
}

// StatsMembers are the numbers of Stats, and StatsHistograms its histograms.
var StatsMembers, StatsHistograms = members[Stats]()

// ClassStatsMembers are the numbers of ClassStats, and ClassStatsHistograms its
// histograms.
var ClassStatsMembers, ClassStatsHistograms = members[ClassStats]()

func members[S any]() (numbers []Member[S], histograms []HistogramMember[S]) {
	for i := range reflect.TypeFor[S]().NumField() {
		field := reflect.TypeFor[S]().Field(i)
		name, doc := field.Tag.Get("json"), field.Tag.Get("doc")
		at := func(s *S) unsafe.Pointer { return unsafe.Add(unsafe.Pointer(s), field.Offset) }
		switch {
		case !field.IsExported():
		case field.Type == reflect.TypeFor[Histogram]():
			histograms = append(histograms, HistogramMember[S]{name, doc,
				func(s *S) *Histogram { return (*Histogram)(at(s)) }})
		case field.Type.Kind() == reflect.Int64:
			numbers = append(numbers, Member[S]{name, doc,
				func(s *S) float64 { return float64(*(*int64)(at(s))) }})
		case field.Type.Kind() == reflect.Uint64:
			numbers = append(numbers, Member[S]{name, doc,
				func(s *S) float64 { return float64(*(*uint64)(at(s))) }})
		default:
			numbers = append(numbers, Member[S]{name, doc,
				func(s *S) float64 { return float64(*(*uint32)(at(s))) }})
		}
	}
	return numbers, histograms
}

// BucketEnd returns the time below which all times in the bucket are, 1024 ns
// for the first. The last bucket has no end: the time is that of the one
// before it, doubled.
func BucketEnd(bucket int) time.Duration { return 1024 << bucket }

// Count returns how many times were counted.
func (h *Histogram) Count() uint64 {
	var count uint64

	for _, n := range h {
		count += n
	}
	return count
}

// Sub returns what was counted since an earlier reading.
func (h *Histogram) Sub(earlier *Histogram) Histogram {
	var since Histogram

	for i := range h {
		since[i] = h[i] - earlier[i]
	}
	return since
}

// Quantile returns the end of the bucket in which the quantile is, 0.99 for p99,
// and 0 of an empty histogram.
func (h *Histogram) Quantile(q float64) time.Duration {
	var below uint64

	count := h.Count()
	if count == 0 {
		return 0
	}
	for i, n := range h {
		below += n
		if float64(below) >= q*float64(count) && below > 0 {
			return BucketEnd(i)
		}
	}
	return BucketEnd(len(h) - 1)
}
