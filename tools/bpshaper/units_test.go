// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package bpshaper

import (
	"testing"
	"time"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]uint64{"1000": 1000, "10gbit": 10e9,
		"1.5mbit": 1500000, "1Gbit": 1e9, "1mbps": 8e6, "1kibit": 1024, "0": 0,
		"100MBIT": 100e6, "2tbit": 2e12, "1bps": 8} {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("%q is %d, %v, expected %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "mbit", "-1mbit", "1 mbit", "1foo", "1e9",
		"inf", "nan", "1.2.3bit", "99999999999tbit", "0x10", "10%", "+5"} {
		if got, err := ParseRate(text); err == nil {
			t.Errorf("%q is accepted as %d", text, got)
		}
	}
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string]time.Duration{"5ms": 5 * time.Millisecond,
		"1.5s": 1500 * time.Millisecond, "10us": 10 * time.Microsecond, "7ns": 7,
		"2SEC": 2 * time.Second} {
		if got, err := ParseTime(text); err != nil || got != want {
			t.Errorf("%q is %v, %v, expected %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "-1ms", "1h", "ms", "99999999999s"} {
		if got, err := ParseTime(text); err == nil {
			t.Errorf("%q is accepted as %v", text, got)
		}
	}
}

func TestFormatRate(t *testing.T) {
	for bits, want := range map[uint64]string{0: "0bit", 8: "8bit", 1e6: "1mbit",
		1500000: "1500kbit", 10e9: "10gbit", 1e12: "1tbit"} {
		if got := FormatRate(bits); got != want {
			t.Errorf("%d is %s, expected %s", bits, got, want)
		}
	}
}

func FuzzParseRate(f *testing.F) {
	f.Add("10gbit")
	f.Fuzz(func(t *testing.T, text string) {
		bits, err := ParseRate(text)
		if err != nil {
			return
		}
		// A float has 53 bits.
		if again, err := ParseRate(FormatRate(bits)); err != nil ||
			bits < 1<<53 && again != bits {
			t.Errorf("%q is %d, written and read %d: %v", text, bits, again, err)
		}
	})
}

func TestHistogram(t *testing.T) {
	var h Histogram

	if h.Quantile(0.5) != 0 || h.Count() != 0 {
		t.Error("an empty histogram is not empty")
	}
	h[0], h[3] = 90, 10
	earlier := Histogram{80}
	if since := h.Sub(&earlier); since.Count() != 20 || since[0] != 10 {
		t.Errorf("since: %v", since)
	}
	for q, want := range map[float64]time.Duration{0.5: 1024, 0.9: 1024,
		0.91: 8192, 1: 8192} {
		if got := h.Quantile(q); got != want {
			t.Errorf("quantile %v is %d ns, expected %d", q, got, want)
		}
	}
}

// Lists that an exporter reads have all numbers and all histograms.
func TestMembers(t *testing.T) {
	s := Stats{Throttles: 3, HubTokens: -5, DelayHist: Histogram{7}}
	found := map[string]float64{}
	for _, m := range StatsMembers {
		if m.Doc == "" {
			t.Errorf("%s has no text", m.Name)
		}
		found[m.Name] = m.Value(&s)
	}
	if found["throttles"] != 3 || found["hub_tokens"] != -5 {
		t.Errorf("are %v", found)
	}
	if len(StatsHistograms) != 4 || StatsHistograms[0].Value(&s)[0] != 7 {
		t.Errorf("histograms: %d", len(StatsHistograms))
	}
}
