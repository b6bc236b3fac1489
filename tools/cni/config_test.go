// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"bpshaper.example/tools/bpshaper"
	"bpshaper.example/tools/owner"
)

const inline = `{"cniVersion": "1.1.0", "name": "net", "type": "bpshaper", %s}`
const byRuntime = `{"cniVersion": "1.1.0", "name": "net", "type": "bpshaper",
	"runtimeConfig": {"bandwidth": {%s}}}`

func parse(t *testing.T, format, keys string) *config {
	conf, err := parseConfig([]byte(fmt.Sprintf(format, keys)))
	if err != nil {
		t.Fatalf("%s: %v", keys, err)
	}
	return conf
}

// What bandwidth refuses is refused, and what it takes is taken, inline and from
// the runtime.
func TestValidationOfRates(t *testing.T) {
	for keys, refused := range map[string]string{
		`"ingressRate": 100`:                                                     "ingressBurst must also be set",
		`"ingressBurst": 100`:                                                    "ingressRate must also be set",
		`"egressRate": 100`:                                                      "egressBurst must also be set",
		`"egressBurst": 100`:                                                     "egressRate must also be set",
		`"egressRate": 100, "egressBurst": -8`:                                   "cannot unmarshal number -8",
		`"egressRate": -1, "egressBurst": 8`:                                     "cannot unmarshal number -1",
		`"egressRate": 1.5, "egressBurst": 8`:                                    "cannot unmarshal number 1.5",
		`"egressRate": "100", "egressBurst": 8`:                                  "cannot unmarshal string",
		`"ingressRate": 100, "ingressBurst": 34359738360`:                        "cannot be more than 4 GB",
		`"ingressRate": 7, "ingressBurst": 7`:                                    "must be 8 or more",
		`"ingressRate": 100, "ingressBurst": 34359738352`:                        "",
		`"ingressRate": 8, "ingressBurst": 8, "egressRate": 9, "egressBurst": 1`: "",
		`"ingressRate": 0, "ingressBurst": 0`:                                    "",
		`"egressRate": 1000000000000000, "egressBurst": 4294967295`:              "",
	} {
		for _, format := range []string{inline, byRuntime} {
			_, err := parseConfig([]byte(fmt.Sprintf(format, keys)))
			if refused == "" && err != nil {
				t.Errorf("%s is refused: %v", keys, err)
			}
			if refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
				t.Errorf("%s: expected %q, got %v", keys, refused, err)
			}
			// Of the specification: "Invalid network config".
			var coded *types.Error
			if err != nil && (!errors.As(err, &coded) || coded.Code != 7) {
				t.Errorf("%s: the code of %v", keys, err)
			}
		}
	}
}

func TestValidationOfOtherKeys(t *testing.T) {
	const rate = `"egressRate": 1000000, "egressBurst": 80000, `
	const node = rate + `"node": {"rate": "10gbit"}, `
	for keys, refused := range map[string]string{
		rate + `"latency": "5ms"`:                           "",
		rate + `"latency": "0ms"`:                           "latency must be",
		rate + `"latency": "61s"`:                           "latency must be",
		rate + `"latency": 5`:                               "expected a text",
		rate + `"latency": "5"`:                             "is no time",
		rate + `"attach": "host"`:                           "",
		rate + `"attach": "pod"`:                            "",
		rate + `"attach": "veth"`:                           "attach must be",
		rate + `"floor": 5`:                                 "need node",
		rate + `"ceil": 5`:                                  "need node",
		rate + `"weight": 5`:                                "need node",
		rate + `"prio": 5`:                                  "need node",
		rate + `"missing": "fail"`:                          "",
		rate + `"missing": "ignore"`:                        "",
		rate + `"missing": "tbf"`:                           "",
		rate + `"missing": "tbf", "attach": "host"`:         "",
		rate + `"missing": "htb"`:                           "missing is \"htb\"",
		rate + `"missing": ""`:                              "missing is \"\"",
		rate + `"missing": true`:                            "cannot unmarshal bool",
		node + `"missing": "ignore"`:                        "",
		node + `"missing": "tbf"`:                           "missing cannot be \"tbf\" with node",
		`"node": {}`:                                        "node needs a rate",
		`"node": {"rate": 7}`:                               "node needs a rate",
		`"node": {"rate": "fast"}`:                          "is no rate",
		`"node": {"rate": 8}`:                               "",
		`"node": {"rate": 8, "device": "a/b"}`:              "no name of a device",
		`"node": {"rate": 8, "device": "aaaaaaaaaaaaaaaa"}`: "no name of a device",
		node + `"attach": "pod"`:                            "cannot be",
		node + `"attach": "host"`:                           "",
		node + `"weight": 0`:                                "weight must be",
		node + `"weight": 1048577`:                          "weight must be",
		node + `"weight": 1048576, "prio": 7`:               "",
		node + `"prio": 8`:                                  "prio must be",
		node + `"prio": -1`:                                 "cannot unmarshal",
		node + `"floor": "11gbit"`:                          "above the node's rate",
		node + `"floor": "2mbit"`:                           "above ceil or egressRate, 1mbit",
		node + `"floor": "1mbit"`:                           "",
		node + `"ceil": 7`:                                  "ceil must be",
		node + `"ceil": "500kbit", "floor": "600kbit"`:      "above ceil or egressRate, 500kbit",
	} {
		_, err := parseConfig([]byte(fmt.Sprintf(inline, keys)))
		if refused == "" && err != nil {
			t.Errorf("%s is refused: %v", keys, err)
		}
		if refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
			t.Errorf("%s: expected %q, got %v", keys, refused, err)
		}
	}
}

// As in bandwidth: if any of the four keys is inline, the four of the runtime do
// not count, also if it is 0. The other keys stand for themselves.
func TestPrecedence(t *testing.T) {
	const runtime = `"runtimeConfig": {"bandwidth": {"ingressRate": 100,
		"ingressBurst": 200, "latency": "7ms", "attach": "host"}}`
	conf := parse(t, inline, runtime)
	if conf.IngressRate != 100 || *conf.Latency != 7e6 || !conf.isAtHost() {
		t.Errorf("the runtime's keys: %+v", conf)
	}
	conf = parse(t, inline, runtime+`, "egressRate": 300, "egressBurst": 400`)
	if conf.IngressRate != 0 || conf.EgressRate != 300 || *conf.Latency != 7e6 {
		t.Errorf("inline hides the rates of the runtime: %+v", conf.Rates)
	}
	conf = parse(t, inline, runtime+`, "egressRate": 0`)
	if !conf.isEmpty() {
		t.Errorf("a 0 inline hides them as well: %+v", conf.Rates)
	}
	conf = parse(t, inline, runtime+`, "latency": "3ms", "attach": "pod"`)
	if conf.IngressRate != 100 || *conf.Latency != 3e6 || conf.isAtHost() {
		t.Errorf("other keys inline: %+v", conf)
	}
}

func TestNothingToDo(t *testing.T) {
	for _, keys := range []string{`"latency": "5ms"`, `"ingressRate": 0`,
		`"runtimeConfig": {}`, `"runtimeConfig": {"bandwidth": {}}`} {
		if !parse(t, inline, keys).isEmpty() {
			t.Errorf("%s is something", keys)
		}
	}
	if parse(t, inline, `"node": {"rate": "1gbit"}`).isEmpty() {
		t.Error("on a node with a rate each pod has a class")
	}
}

func TestBurst(t *testing.T) {
	for _, c := range []struct {
		rate  bits
		burst uint64
		want  uint32 // 0: that of the qdisc
		log   string // what the log says of it
	}{
		{10e6, math.MaxUint32, 0, "where none is set"},
		{10e6, math.MaxInt32, 0, "where none is set"},
		// Less than a second of these rates, and still nobody has asked for it.
		{5e9, math.MaxUint32, 0, "where none is set"},
		{5e9, math.MaxInt32, 0, "where none is set"},
		{100e9, math.MaxUint32, 0, "where none is set"},
		{100e9, math.MaxInt32, 0, "where none is set"},
		{5e9, math.MaxUint32 - 1, math.MaxUint32 / 8, ""},
		{5e9, math.MaxUint32 + 1, (math.MaxUint32 + 1) / 8, ""},
		{5e9, math.MaxInt32 + 1, (math.MaxInt32 + 1) / 8, ""},
		{5e9, 5e9 + 1, 0, "is 1.0 s of 5gbit: cut"},
		{10e6, 10e6 + 1, 0, "is 1.0 s of 10mbit: cut"},
		{10e6, 10e6, 10e6 / 8, ""},
		{10e6, 80000, 10000, ""},
		{8, 8, 1, ""},
		{100, 1, 1, ""},
		{10e6, 0, 0, ""},
	} {
		got := uint32(0)
		if option := burstOption(c.rate, c.burst); option != nil {
			got = *option
		}
		if got != c.want {
			t.Errorf("burst %d at %v is %d, expected %d", c.burst, c.rate, got, c.want)
		}
		log := burstLogged("egress", c.rate, c.burst)
		if !strings.Contains(log, c.log) || (log == "") != (c.log == "") {
			t.Errorf("burst %d at %v logs %q, expected %q", c.burst, c.rate, log, c.log)
		}
	}
}

// The least and the largest rate of an annotation of Kubernetes are 1k and 1P.
func TestRatesOfTheKernel(t *testing.T) {
	for rate, want := range map[bits]uint64{8: 1, 15: 1, 1000: 125, 10e6: 1250000,
		1e15: bpshaper.RateMax, math.MaxUint64: bpshaper.RateMax} {
		if got := *rateOption(rate); got != want {
			t.Errorf("%d bit/s is %d, expected %d", rate, got, want)
		}
	}
}

func TestClassOptions(t *testing.T) {
	conf := parse(t, inline, `"node": {"rate": "10gbit"}, "floor": "80mbit",
		"ceil": "800mbit", "weight": 3, "prio": 2, "latency": "5ms",
		"egressRate": 1600000000, "egressBurst": 8000000`)
	want := bpshaper.ClassOptions{Floor: bpshaper.To[uint64](10e6),
		Ceil: bpshaper.To[uint64](100e6), Weight: bpshaper.To[uint32](3),
		Prio: bpshaper.To[uint32](2), Latency: bpshaper.To[uint64](5e6),
		Burst: bpshaper.To[uint32](1e6)}
	got := conf.classOptions()
	if d := want.Differences(&got); d != nil {
		t.Error(d)
	}
	if conf.Node.Device != nodeDevice {
		t.Errorf("the device is %s", conf.Node.Device)
	}
	conf = parse(t, inline, `"node": {"rate": "10gbit"}`)
	if got := conf.classOptions(); got != (bpshaper.ClassOptions{}) {
		t.Errorf("a pod without keys has options: %+v", got)
	}
}

// DEL and GC must work with whatever the configuration has become.
func TestRemovalTakesAnyKeys(t *testing.T) {
	for _, keys := range []string{`"egressRate": -5`, `"latency": 7`,
		`"ingressRate": 100`, `"node": "yes"`} {
		if _, err := parseForRemoval([]byte(fmt.Sprintf(inline, keys))); err != nil {
			t.Errorf("%s: %v", keys, err)
		}
	}
	if _, err := parseForRemoval([]byte("{")); err == nil {
		t.Error("what is no JSON is taken")
	}
	for keys, want := range map[string]string{
		`"node": {"rate": "1gbit", "device": "up"}`: "up",
		`"node": {"rate": 8}, "floor": -5`:          nodeDevice,
		`"node": 5`:                                 nodeDevice,
		`"attach": "pod"`:                           nodeDevice,
	} {
		conf, err := parseForRemoval([]byte(fmt.Sprintf(inline, keys)))
		if err != nil || conf.nodeDevice() != want {
			t.Errorf("%s: %v, %s", keys, err, conf.nodeDevice())
		}
	}
}

// A GC that does not say what is valid must not take all limits away.
func TestValidAttachments(t *testing.T) {
	const one = `[{"containerID": "a", "ifname": "eth0"}]`
	for keys, want := range map[string]int{
		`"cni.dev/valid-attachments": ` + one:                                      1,
		`"cni.dev/attachments": ` + one:                                            1,
		`"cni.dev/valid-attachments": ` + one + `, "cni.dev/attachments": ` + one:  2,
		`"cni.dev/valid-attachments": []`:                                          0,
		`"cni.dev/valid-attachments": null`:                                        0,
		`"valid-attachments": ` + one:                                              -1,
		`"cni.dev/valid-attachments": "a"`:                                         -1,
		`"cni.dev/valid-attachments": ["a"]`:                                       -1,
		`"cni.dev/valid-attachments": [], "cni.dev/attachments": {"ifname": "e0"}`: -1,
	} {
		valid, err := parseValid([]byte(fmt.Sprintf(inline, keys)))
		if (err != nil) != (want < 0) || len(valid) != max(want, 0) {
			t.Errorf("%s: %v, %v", keys, valid, err)
		}
		if want > 0 && (valid[0].ContainerID != "a" || valid[0].IfName != "eth0") {
			t.Errorf("%s: %v", keys, valid)
		}
	}
}

func TestIdentity(t *testing.T) {
	id := owner.IdentityOf("net", "container", "eth0")
	others := []owner.Identity{owner.IdentityOf("net2", "container", "eth0"),
		owner.IdentityOf("net", "container2", "eth0"),
		owner.IdentityOf("net", "container", "eth1"),
		owner.IdentityOf("net", "containere", "th0")}
	if slices.Contains(others, id) {
		t.Errorf("%x is another one as well", id)
	}
	if !id.IsOfNetwork("net") || id.IsOfNetwork("net2") {
		t.Error("the network is not recognized")
	}
	if name := ifbName(id); len(name) != 15 || !isIfbName(name) {
		t.Errorf("the name is %s", name)
	}
	for _, name := range []string{nodeDevice, "bps", "bps0123", "bwp0123456789ab",
		"bps0123456789ax"} {
		if isIfbName(name) {
			t.Errorf("%s is taken for the ifb of an attachment", name)
		}
	}
	if got, ok := identityOfEnd([]string{"eth9", "bpshaper-1", endName(id)}); !ok || got != id {
		t.Errorf("the end %s is of %x, %v", endName(id), got, ok)
	}
	if _, ok := identityOfEnd([]string{"eth9", fmt.Sprintf("%x", id)}); ok {
		t.Error("any device is an end")
	}
	// A name of the kernel has 15 bytes at most, and no alternative name may be one.
	if len(endName(id)) <= 15 {
		t.Errorf("%s may be the name of a device", endName(id))
	}
	if mac := macOf(ifbName(id)); len(mac) != 6 || mac[0] != 2 {
		t.Errorf("the address is %v", mac)
	}
}

func TestFreeMinor(t *testing.T) {
	used := map[uint16]bool{1: true, 2: true, 4: true}
	if minor, err := freeMinor(used); minor != 3 || err != nil {
		t.Errorf("is %d, %v", minor, err)
	}
	for minor := range 65536 {
		used[uint16(minor)] = true
	}
	if _, err := freeMinor(used); err == nil {
		t.Error("a number is free that is in use")
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(inline, `"egressRate": 100, "egressBurst": 200`)))
	f.Add([]byte(fmt.Sprintf(byRuntime, `"ingressRate": 8, "ingressBurst": 4294967295`)))
	f.Add([]byte(fmt.Sprintf(inline, `"node": {"rate": "10gbit"}, "floor": "1mbit",
		"ceil": "2mbit", "weight": 2, "prio": 1, "latency": "5ms", "attach": "host", "missing": "ignore",
		"prevResult": {"cniVersion": "1.0.0", "interfaces": [{"name": "eth0"}]}`)))
	f.Fuzz(func(t *testing.T, stdin []byte) {
		conf, err := parseConfig(stdin)
		if err != nil {
			return
		}
		if _, err := parseForRemoval(stdin); err != nil {
			t.Errorf("ADD takes it, DEL does not: %v", err)
		}
		// No option may be one that the kernel refuses for its range.
		for _, options := range []bpshaper.Options{conf.ingressOptions(),
			conf.egressOptions()} {
			if conf.EgressRate != 0 && conf.IngressRate != 0 && *options.Rate < 1 {
				t.Errorf("rate %d", *options.Rate)
			}
			if options.Burst != nil && *options.Burst < 1 {
				t.Errorf("burst %d", *options.Burst)
			}
		}
		if c := conf.classOptions(); conf.Node != nil && c.Floor != nil &&
			c.Ceil != nil && *c.Floor > *c.Ceil {
			t.Errorf("floor %d, ceil %d", *c.Floor, *c.Ceil)
		}
	})
}

// The document's examples are taken.
func TestJSONOfRates(t *testing.T) {
	var b bits
	for text, want := range map[string]bits{`1000`: 1000, `"10gbit"`: 10e9,
		`"1000"`: 1000} {
		if err := json.Unmarshal([]byte(text), &b); err != nil || b != want {
			t.Errorf("%s is %d, %v", text, b, err)
		}
	}
}

func TestBurstRaised(t *testing.T) {
	for _, c := range []struct{ want, has, result uint32 }{
		{1, 3028, 3028}, {3028, 3028, 3028}, {1, 3029, 1}, {9000, 3028, 9000},
	} {
		want := c.want
		burstRaised(&want, &c.has, 1500)
		if want != c.result {
			t.Errorf("%d of a class that has %d: %d, not %d", c.want, c.has, want, c.result)
		}
	}
	burstRaised(nil, nil, 1500)
}
