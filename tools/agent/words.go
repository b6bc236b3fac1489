// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"bpshaper.example/tools/bpshaper"
)

// prefix is that of all annotations, and of the condition.
const prefix = "bpshaper/"

// word is what an annotation or the ConfigMap may name. What is more than another
// one may ask for is larger, but for a prio.
type word struct {
	name   string
	parse  func(text string) (uint64, error)
	format func(value uint64) string
}

// The order of words.
const (
	egressFloor = iota
	egressCeil
	egressWeight
	egressPrio
	egressLatency
	ingressCeil
	ingressLatency
	wordCount
)

var words = [wordCount]word{
	{"egress-floor", parseFloor, formatRate},
	{"egress-ceil", parseCeil, formatRate},
	{"egress-weight", numberIn(1, bpshaper.WeightMax), formatNumber},
	{"egress-prio", numberIn(0, bpshaper.PrioMax), formatNumber},
	{"egress-latency", parseLatency, formatTime},
	{"ingress-ceil", parseCeil, formatRate},
	{"ingress-latency", parseLatency, formatTime},
}

// values are in units of the kernel, each as far as it is named.
type values [wordCount]*uint64

// wordOf says why there is no such word, if so.
func wordOf(name string) (int, error) {
	for i := range words {
		if words[i].name == name {
			return i, nil
		}
	}
	switch name {
	case "ingress-floor", "ingress-weight", "ingress-prio":
		return 0, errors.New("nothing divides what pods receive")
	}
	return 0, errors.New("there is no such word")
}

// A value is no longer than this, so that a message has room for it.
const valueMost = 40

func parseValue(w int, text string) (uint64, error) {
	if len(text) > valueMost {
		return 0, fmt.Errorf("%s has %d letters, and may have %d", quoted(text), len(text),
			valueMost)
	}
	return words[w].parse(text)
}

func parseFloor(text string) (uint64, error) {
	bits, err := bpshaper.ParseRate(text)
	if err == nil && bits/8 > bpshaper.RateMax {
		err = fmt.Errorf("%q must be at most %s", text, formatRate(bpshaper.RateMax))
	}
	return bits / 8, err
}

// none is the word of no ceil.
const none = "none"

func parseCeil(text string) (uint64, error) {
	if text == none {
		return bpshaper.RateUnlimited, nil
	}
	ceil, err := parseFloor(text)
	if err == nil && ceil < bpshaper.RateMin {
		err = fmt.Errorf("%q must be 8bit or more, or %s", text, none)
	}
	return ceil, err
}

func parseLatency(text string) (uint64, error) {
	time, err := bpshaper.ParseTime(text)
	if err == nil && (time <= 0 || time > bpshaper.LatencyMax) {
		err = fmt.Errorf("%q must be above 0 and at most 60s", text)
	}
	return uint64(time), err
}

func numberIn(least, most uint64) func(string) (uint64, error) {
	return func(text string) (uint64, error) {
		number, err := strconv.ParseUint(text, 10, 32)
		if err != nil || number < least || number > most {
			return 0, fmt.Errorf("%q must be a number from %d to %d", text, least, most)
		}
		return number, nil
	}
}

func formatRate(bytes uint64) string {
	switch {
	case bytes == bpshaper.RateUnlimited:
		return none
	case bytes > math.MaxUint64/8:
		return fmt.Sprint(bytes, "bps")
	}
	return bpshaper.FormatRate(bytes * 8)
}

func formatNumber(value uint64) string { return strconv.FormatUint(value, 10) }

// formatTime writes nanoseconds as ParseTime reads them.
func formatTime(ns uint64) string {
	switch {
	case ns%1e6 == 0:
		return fmt.Sprint(ns/1e6, "ms")
	case ns%1e3 == 0:
		return fmt.Sprint(ns/1e3, "us")
	}
	return fmt.Sprint(ns, "ns")
}

// quoted is what somebody else has written, with no more than a line has room for.
func quoted(text string) string {
	if len(text) > valueMost {
		return strconv.Quote(strings.ToValidUTF8(text[:valueMost], "")) + "..."
	}
	return strconv.Quote(text)
}

// parseAnnotations reads those of the prefix. A pod may have any number of wrong ones:
// the first is enough.
func parseAnnotations(annotations map[string]string) (values, error) {
	var found values

	names := make([]string, 0, len(words))
	for key := range annotations {
		if name, is := strings.CutPrefix(key, prefix); is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		text := annotations[prefix+name]
		w, err := wordOf(name)
		if err == nil {
			var value uint64

			value, err = parseValue(w, text)
			found[w] = &value
		}
		if err != nil {
			return values{}, fmt.Errorf("annotation %s: %w", prefix+name, err)
		}
	}
	return found, nil
}
