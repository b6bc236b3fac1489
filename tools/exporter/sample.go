// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"sort"
	"strconv"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"

	"bpshaper.example/tools/bpshaper"
)

// pairs makes labels of names and values. They are sorted, as Prometheus wants
// them. One that is empty is left out, which is the same to Prometheus.
func pairs(namesAndValues ...string) []*dto.LabelPair {
	var labels []*dto.LabelPair

	for i := 0; i < len(namesAndValues); i += 2 {
		if namesAndValues[i+1] != "" {
			labels = append(labels, &dto.LabelPair{Name: &namesAndValues[i],
				Value: &namesAndValues[i+1]})
		}
	}
	sort.Slice(labels, func(i, j int) bool { return *labels[i].Name < *labels[j].Name })
	return labels
}

// textOf quotes what is not UTF-8: for one such label Prometheus refuses the whole
// answer. Who has CAP_NET_ADMIN in a pod gives its devices any name.
func textOf(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	quoted := strconv.QuoteToASCII(name)
	return quoted[1 : len(quoted)-1]
}

// form puts the times into a histogram of the answer, with buckets of its kind.
type form func(*dto.Histogram, *bpshaper.Histogram)

// forms by the words of --histograms. With nil there are no histograms.
var forms = map[string]form{"none": nil, "native": native, "classic": classic}

const finite = bpshaper.HistogramBuckets - 1

var (
	bucketStart [bpshaper.HistogramBuckets]float64 // seconds
	bucketEnd   [finite]float64
)

func init() {
	for i := range bucketEnd {
		bucketEnd[i] = bpshaper.BucketEnd(i).Seconds()
		bucketStart[i+1] = bucketEnd[i]
	}
}

// histogramOf makes the histogram of a metric.
func histogramOf(counts *bpshaper.Histogram, form form) *dto.Histogram {
	var sum float64

	for i, n := range counts {
		sum += float64(n) * bucketStart[i]
	}
	count := counts.Count()
	h := &dto.Histogram{SampleCount: &count, SampleSum: &sum}
	form(h, counts)
	return h
}

// classic buckets have the very bounds of the kernel. Prometheus counts a time
// that is the bound in the bucket below it, the kernel in the one above.
func classic(out *dto.Histogram, times *bpshaper.Histogram) {
	var below uint64

	buckets := make([]dto.Bucket, finite)
	counts := make([]uint64, finite)
	out.Bucket = make([]*dto.Bucket, finite)
	for i := range buckets {
		below += times[i]
		counts[i] = below
		buckets[i].CumulativeCount = &counts[i]
		buckets[i].UpperBound = &bucketEnd[i]
		out.Bucket[i] = &buckets[i]
	}
}

// Native buckets of schema 0 end at powers of two of a second. The kernel's end
// at those of 1024 ns, which are larger by nativeError: 2^-20 s are 954 ns.
const (
	nativeError         = 1024e-9 * (1 << 20)
	nativeFirst         = -19 // index of the kernel's bucket 1
	nativeZeroThreshold = 1.0 / (1 << 20)
)

var nativeSchema int32

// native buckets are each the kernel's of the same place. The first one is the
// zero bucket. The last one has no end in the kernel, and here that of 8 s.
func native(out *dto.Histogram, times *bpshaper.Histogram) {
	threshold, zero := nativeZeroThreshold, times[0]
	first, last := 1, 0
	for i := 1; i < len(times); i++ {
		if times[i] != 0 {
			if last == 0 {
				first = i
			}
			last = i
		}
	}
	out.Schema, out.ZeroThreshold, out.ZeroCount = &nativeSchema, &threshold, &zero
	if last == 0 {
		return
	}
	offset, length := int32(nativeFirst+first-1), uint32(last-first+1)
	out.PositiveSpan = []*dto.BucketSpan{{Offset: &offset, Length: &length}}
	before := int64(0)
	for i := first; i <= last; i++ {
		out.PositiveDelta = append(out.PositiveDelta, int64(times[i])-before)
		before = int64(times[i])
	}
}
