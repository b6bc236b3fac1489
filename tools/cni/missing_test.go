// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"testing"

	"github.com/vishvananda/netlink"

	"bpshaper.example/tools/bpshaper"
)

// What the runtime says of one pod does not keep the others from a node.
func TestLimitsAll(t *testing.T) {
	const limits = `"egressRate": 100, "egressBurst": 200`
	for _, c := range []struct {
		format, keys string
		want         bool
	}{
		{inline, limits, true},
		{inline, `"node": {"rate": "1gbit"}`, true},
		{inline, `"latency": "5ms", "attach": "host"`, false},
		{inline, `"egressRate": 0`, false},
		{byRuntime, limits, false},
		{byRuntime, `"node": {"rate": "1gbit"}`, false},
	} {
		if conf := parse(t, c.format, c.keys); conf.limitsAll != c.want {
			t.Errorf("%s: %v", c.keys, conf.limitsAll)
		}
	}
}

func TestMissing(t *testing.T) {
	for keys, want := range map[string]string{`"attach": "pod"`: missingFail,
		`"missing": "tbf"`: missingTbf} {
		if got := parse(t, inline, keys).missing(); got != want {
			t.Errorf("%s: %s", keys, got)
		}
		if got := parse(t, byRuntime, keys).missing(); got != want {
			t.Errorf("%s of the runtime: %s", keys, got)
		}
	}
	got := parse(t, inline, `"missing": "ignore",
		"runtimeConfig": {"bandwidth": {"missing": "tbf"}}`).missing()
	if got != missingIgnore {
		t.Errorf("inline and of the runtime: %s", got)
	}
}

// As the plugin bandwidth has it, in ticks of 64 ns, but for a burst that nobody has asked for
// or that is below two packets.
func TestTbf(t *testing.T) {
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Index: 7, MTU: 1500}}
	for _, c := range []struct {
		rate          uint64
		burst         *uint32
		latency       *uint64
		limit, buffer uint32
	}{
		// 25 ms are 31,250 bytes.
		{1250000, bpshaper.To[uint32](12500), nil, 31250 + 12500, 10e6 / 64},
		{1250000, nil, nil, 31250 + 31250, 25e6 / 64},
		{1250000, nil, bpshaper.To[uint64](10e6), 12500 + 31250, 25e6 / 64},
		{1250000, bpshaper.To[uint32](1), nil, 31250 + 3028, 2422400 / 64},
		{1, nil, nil, 3028, 1<<32 - 1},
		{1 << 40, bpshaper.To[uint32](1 << 31), nil, 1<<32 - 1, 1953125 / 64},
	} {
		got := tbfOf(link, bpshaper.Options{Rate: &c.rate, Burst: c.burst, Latency: c.latency})
		if got.Rate != c.rate || got.Limit != c.limit || got.Buffer != c.buffer ||
			got.LinkIndex != 7 {
			t.Errorf("%+v is %+v", c, got)
		}
	}
}
