// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"math"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"bpshaper.example/tools/bpshaper"
)

// One time in each bucket, and a second one in the last, which has no end.
func someTimes() *bpshaper.Histogram {
	var h bpshaper.Histogram

	for i := range h {
		h[i] = 1
	}
	h[len(h)-1] = 2
	return &h
}

func TestClassicBuckets(t *testing.T) {
	h := histogramOf(someTimes(), classic)
	if h.GetSampleCount() != bpshaper.HistogramBuckets+1 || len(h.Bucket) != finite {
		t.Fatalf("%d times in %d buckets", h.GetSampleCount(), len(h.Bucket))
	}
	for i, b := range h.Bucket {
		end := time.Duration(math.Round(b.GetUpperBound() * 1e9))
		if end != bpshaper.BucketEnd(i) || b.GetCumulativeCount() != uint64(i+1) {
			t.Errorf("bucket %d ends at %v with %d", i, end, b.GetCumulativeCount())
		}
	}
	if h.Schema != nil || h.PositiveSpan != nil {
		t.Error("there are native buckets")
	}
}

// nativeEnds returns the counts of native buckets by their ends, as readers
// understand schema 0.
func nativeEnds(h *dto.Histogram) map[float64]int64 {
	ends, index, count, next := map[float64]int64{}, int32(0), int64(0), 0
	for _, span := range h.PositiveSpan {
		index += span.GetOffset()
		for range span.GetLength() {
			count += h.PositiveDelta[next]
			ends[math.Pow(2, float64(index))] = count
			next++
			index++
		}
	}
	return ends
}

func TestNativeBuckets(t *testing.T) {
	h := histogramOf(someTimes(), native)
	if h.GetSchema() != 0 || h.Bucket != nil || h.GetZeroCount() != 1 ||
		h.GetZeroThreshold() != bpshaper.BucketEnd(0).Seconds()/nativeError {
		t.Fatalf("%v", h)
	}
	ends := nativeEnds(h)
	if len(ends) != finite || ends[8] != 2 {
		t.Fatalf("%d buckets: %v", len(ends), ends)
	}
	for i := 1; i < finite; i++ {
		end := bpshaper.BucketEnd(i).Seconds() / nativeError
		if ends[end] != 1 {
			t.Errorf("no bucket ends at %v: %v", end, ends)
		}
	}
	if nativeError < 1.0737 || nativeError > 1.0738 {
		t.Errorf("native bounds are off by %v", nativeError)
	}
}

func TestNativeBucketsHaveGaps(t *testing.T) {
	counts := bpshaper.Histogram{5: 7, 9: 3}
	h := histogramOf(&counts, native)
	ends := nativeEnds(h)
	if len(ends) != 5 || ends[math.Pow(2, -15)] != 7 || ends[math.Pow(2, -11)] != 3 {
		t.Errorf("%v", ends)
	}
	if h.GetZeroCount() != 0 {
		t.Errorf("%v", h)
	}
}

func TestEmptyHistogram(t *testing.T) {
	h := histogramOf(&bpshaper.Histogram{}, native)
	if h.GetSampleCount() != 0 || h.GetSampleSum() != 0 || h.PositiveSpan != nil ||
		h.GetZeroThreshold() == 0 {
		t.Errorf("%v", h)
	}
}

// What the text of the metric says about its sum.
func TestSumIsALowerBound(t *testing.T) {
	var counts bpshaper.Histogram
	var truth float64

	for ns := time.Duration(100); ns < 4*time.Second; ns = ns * 3 / 2 {
		bucket := 0
		for ns >= bpshaper.BucketEnd(bucket) {
			bucket++
		}
		counts[bucket]++
		truth += ns.Seconds()
	}
	sum := histogramOf(&counts, native).GetSampleSum()
	most := 2*sum + 1.024e-6*float64(counts.Count())
	if sum > truth || truth >= most || sum == 0 {
		t.Errorf("is %v to %v, the times add up to %v", sum, most, truth)
	}
}
