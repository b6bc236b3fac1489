// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bpshaper.example/tools/bpshaper"
)

const pods = 110

// nodeOf is one with as many pods as kubelet takes. Each has a qdisc for what it
// receives, and for what it sends another one, or a class of the first qdisc.
func nodeOf(t *testing.T, classes bool) *recording {
	node := many(t, pods)
	qdiscs := 2 * pods
	if classes {
		qdiscs = pods
	} else {
		node.classes = nil
	}
	one := node.qdiscs[0]
	node.qdiscs, node.devices = nil, nil
	for i := range qdiscs {
		data := slices.Clone(one)
		binary.NativeEndian.PutUint32(data[4:], uint32(i+1))
		node.qdiscs = append(node.qdiscs, data)
		node.devices = append(node.devices, bpshaper.Device{Ifindex: i + 1,
			Name: fmt.Sprintf("bps%d", i), Alias: fmt.Sprintf(id+
				"eth0 of c0ffee in podnet class 1a:%x of bps0 pod prod/web-%d", i+1, i)})
	}
	return node
}

// seriesOf counts those that Prometheus keeps: of native histograms one each, and
// where it reads text three.
func seriesOf(t *testing.T, c *collector, text bool) int {
	count := 0
	for name, m := range gather(t, c) {
		h := m.Histogram
		switch {
		case !strings.HasPrefix(name, "bpshaper_"):
		case h == nil, h.Schema != nil && !text:
			count++
		default:
			count += len(h.Bucket) + 3
		}
	}
	return count
}

// Documentation/metrics.rst has these figures.
func TestSeries(t *testing.T) {
	for _, want := range []struct {
		form            string
		text            bool
		qdiscs, classes int
	}{
		{"none", true, 10800, 9200},
		{"native", false, 11700, 9800},
		{"native", true, 13500, 11200},
		{"classic", true, 33700, 26300},
	} {
		for classes, most := range map[bool]int{false: want.qdiscs, true: want.classes} {
			c := collectorOf(forms[want.form], space{"", opens(nodeOf(t, classes)), noID})
			got := seriesOf(t, c, want.text)
			if got > most {
				t.Errorf("%s, text: %v, classes: %v: %d series, at most %d",
					want.form, want.text, classes, got, most)
			}
		}
	}
}
