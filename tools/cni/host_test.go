// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"runtime"
	"testing"
)

func TestCPUsCount(t *testing.T) {
	for list, want := range map[string]int{"0\n": 1, "0-3\n": 4, "0-3,8,10-11\n": 7,
		"5": 1, "0-2047": 2048} {
		got, err := cpusCount(list)
		if err != nil || got != want {
			t.Errorf("%q has %d CPUs (%v), not %d", list, got, err, want)
		}
	}
	for _, list := range []string{"", "\n", "0-", "-1", "0,,1", "a", "0-70000"} {
		if got, err := cpusCount(list); err == nil {
			t.Errorf("%q has %d CPUs", list, got)
		}
	}
}

func TestCPUsOnline(t *testing.T) {
	got, err := cpusOnline()
	if err != nil || got < runtime.NumCPU() {
		t.Errorf("%d CPUs are online (%v), but this may use %d", got, err,
			runtime.NumCPU())
	}
}
