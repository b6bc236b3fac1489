// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package bpshaper

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Bits per second, as tc has them: bps is bytes per second.
var rateUnits = map[string]float64{
	"": 1, "bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12,
	"kibit": 1 << 10, "mibit": 1 << 20, "gibit": 1 << 30, "tibit": 1 << 40,
	"bps": 8, "kbps": 8e3, "mbps": 8e6, "gbps": 8e9, "tbps": 8e12,
	"kibps": 8 << 10, "mibps": 8 << 20, "gibps": 8 << 30, "tibps": 8 << 40,
}

var timeUnits = map[string]float64{
	"ns": 1, "nsec": 1, "nsecs": 1, "us": 1e3, "usec": 1e3, "usecs": 1e3,
	"ms": 1e6, "msec": 1e6, "msecs": 1e6, "s": 1e9, "sec": 1e9, "secs": 1e9,
}

func parseUnit(text string, units map[string]float64) (float64, error) {
	end := strings.LastIndexAny(text, "0123456789.") + 1
	number, err := strconv.ParseFloat(text[:end], 64)
	unit, ok := units[strings.ToLower(text[end:])]
	if err != nil || !ok || strings.Trim(text[:end], "0123456789.") != "" {
		return 0, strconv.ErrSyntax
	}
	return number * unit, nil
}

// ParseRate reads a rate as tc does, "10gbit" or "1.5mbit", and returns bits per
// second. A number alone is bits per second; "mbps" is a million bytes.
func ParseRate(text string) (uint64, error) {
	bits, err := parseUnit(text, rateUnits)
	if err != nil || bits >= 1<<63 {
		return 0, fmt.Errorf(
			"%q is no rate: expected a number and a unit, as 100mbit", text)
	}
	return uint64(math.Round(bits)), nil
}

// ParseTime reads a time as tc does, "5ms". It must have a unit.
func ParseTime(text string) (time.Duration, error) {
	ns, err := parseUnit(text, timeUnits)
	if err != nil || ns >= 1<<63 {
		return 0, fmt.Errorf(
			"%q is no time: expected a number and a unit, as 5ms", text)
	}
	return time.Duration(math.Round(ns)), nil
}

// FormatRate writes bits per second in the largest unit that does not round.
func FormatRate(bits uint64) string {
	for _, u := range []struct {
		bits uint64
		name string
	}{{1e12, "tbit"}, {1e9, "gbit"}, {1e6, "mbit"}, {1e3, "kbit"}} {
		if bits != 0 && bits%u.bits == 0 {
			return fmt.Sprint(bits/u.bits, u.name)
		}
	}
	return fmt.Sprint(bits, "bit")
}
