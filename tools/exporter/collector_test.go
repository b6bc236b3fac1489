// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"bpshaper.example/tools/bpshaper"
)

// recording is a namespace of which the dumps have been recorded.
type recording struct {
	qdiscs, classes [][]byte
	devices         []bpshaper.Device
	err             error
	passed          int // qdiscs and classes that somebody has got of it
}

func (r *recording) Close() {}

func (r *recording) EachDevice(f func(*bpshaper.Device) error) error {
	for i := range r.devices {
		if err := f(&r.devices[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *recording) EachQdisc(f func(*bpshaper.Qdisc) error) error {
	for _, data := range r.qdiscs {
		q, err := bpshaper.ParseQdisc(data)
		if err == nil && q.Kind == bpshaper.Kind {
			r.passed++
			err = f(q)
		}
		if err != nil {
			return err
		}
	}
	return r.err
}

func (r *recording) EachClass(ifindex int, f func(*bpshaper.Class) error) error {
	for _, data := range r.classes {
		class, _, err := bpshaper.ParseClass(data)
		if err == nil && class != nil && class.Ifindex == ifindex {
			r.passed++
			err = f(class)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func recorded(t testing.TB, name string) [][]byte {
	var messages [][]byte

	text, err := os.ReadFile(filepath.Join("../bpshaper/testdata", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		data, err := hex.DecodeString(line)
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, data)
	}
	return messages
}

// kernel is what the tests of the package bpshaper have recorded: lo has a
// bpshaper with a throttled socket, and later with two classes.
func kernel(t testing.TB, classes ...[]byte) *recording {
	return &recording{qdiscs: recorded(t, "qdiscs"), classes: classes,
		devices: []bpshaper.Device{{Ifindex: 1, Name: "lo"}}}
}

func opens(r *recording) func() (source, error) {
	return func() (source, error) { return r, nil }
}

func collectorOf(f form, spaces ...space) *collector {
	return &collector{func() []space { return spaces }, nil, f, prometheus.NewRegistry()}
}

// targets are labels that Prometheus gives to the pod that it reads.
var targets = []string{"container", "endpoint", "instance", "job", "namespace", "node", "pod",
	"service"}

// gather returns each metric by its name and labels.
func gather(t testing.TB, g prometheus.Gatherer) map[string]*dto.Metric {
	found := map[string]*dto.Metric{}
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
				if slices.Contains(targets, l.GetName()) {
					t.Errorf("%s has a label of the target, %s", family.GetName(),
						l.GetName())
				}
			}
			name := family.GetName() + "{" + strings.Join(labels, ",") + "}"
			if found[name] != nil || !slices.IsSorted(labels) || !utf8.ValidString(name) {
				t.Errorf("%q is there twice, is no text, or its labels are not sorted", name)
			}
			found[name] = m
		}
	}
	return found
}

func value(t *testing.T, found map[string]*dto.Metric, name string) float64 {
	m := found[name]
	switch {
	case m == nil:
		t.Errorf("there is no %s among %d", name, len(found))
		return 0
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	}
	return float64(m.Histogram.GetSampleCount())
}

func expect(t *testing.T, found map[string]*dto.Metric, name string, want float64) {
	t.Helper()
	if got := value(t, found, name); got != want {
		t.Errorf("%s is %v, expected %v", name, got, want)
	}
}

func TestQdiscOfAKernel(t *testing.T) {
	r := kernel(t)
	qdiscs, err := atMost(1, r.EachQdisc)
	if err != nil {
		t.Fatal(err)
	}
	q := &qdiscs[0]
	found := gather(t, collectorOf(native, space{"", opens(r), noID}))
	const labels = "{device=lo,handle=1a:,parent=root}"
	expect(t, found, "bpshaper_qdisc_rate_bytes_per_second"+labels, 1000)
	expect(t, found, "bpshaper_qdisc_throttled_sockets"+labels, 1)
	expect(t, found, "bpshaper_qdisc_throttles_total"+labels, float64(q.Stats.Throttles))
	expect(t, found, "bpshaper_qdisc_bytes_total"+labels, float64(q.Counters.Bytes))
	expect(t, found, "bpshaper_qdisc_packets_total"+labels, float64(q.Counters.Packets))
	expect(t, found, "bpshaper_qdisc_backlog_bytes"+labels, float64(q.Counters.Backlog))
	expect(t, found, "bpshaper_qdisc_delay_seconds"+labels, float64(q.Counters.Packets))
	for _, cause := range []string{"pool", "memory", "alloc", "ack", "segments"} {
		expect(t, found, "bpshaper_qdisc_drops_total{cause="+cause+","+labels[1:], 0)
	}
	for _, reason := range []string{"no_owner", "foreign", "sndbuf", "control", "destructor"} {
		expect(t, found, "bpshaper_qdisc_unheld_packets_total"+
			strings.Replace(labels, "}", ",reason="+reason+"}", 1), 0)
	}
	expect(t, found, "bpshaper_netns_up{}", 1)
	if q.Counters.Packets == 0 || q.Counters.Backlog == 0 || q.Stats.Throttles == 0 {
		t.Error("the recording has zeros only")
	}
}

func TestClassesOfAKernel(t *testing.T) {
	r := kernel(t, recorded(t, "classes")...)
	found := gather(t, collectorOf(native, space{"", opens(r), noID}))
	const labels = "{class=1a:10,device=lo}"
	expect(t, found, "bpshaper_class_floor_bytes_per_second"+labels, 1000)
	expect(t, found, "bpshaper_class_ceil_bytes_per_second"+labels, 50000)
	expect(t, found, "bpshaper_class_weight"+labels, 3)
	expect(t, found, "bpshaper_class_prio"+labels, 2)
	expect(t, found, "bpshaper_class_drops_total{cause=pool,"+labels[1:], 0)
	expect(t, found, "bpshaper_class_ce_marks_total"+labels, 0)
	expect(t, found, "bpshaper_class_throttle_seconds{class=1a:20,device=lo}", 0)
	expect(t, found, "bpshaper_class_info{class=1a:20,device=lo,parent=root}", 1)
	if limit := value(t, found, "bpshaper_class_limit_bytes"+labels); limit == 0 {
		t.Error("the limit is 0")
	}
}

// A statistic that the kernel gets is a metric of a unit that somebody has
// chosen.
func TestEachMemberHasAName(t *testing.T) {
	var members []string

	for _, m := range bpshaper.StatsMembers {
		members = append(members, m.Name)
	}
	for _, m := range bpshaper.ClassStatsMembers {
		members = append(members, m.Name)
	}
	for _, m := range members {
		if !slices.Contains(counted, m) && units[m] == "" && !slices.Contains(gauges, m) &&
			partOf(m) == nil {
			t.Errorf("%s has no name in metrics.go", m)
		}
	}
}

// The linter of the client library is that of promtool.
func TestLint(t *testing.T) {
	r := kernel(t, recorded(t, "classes")...)
	problems, err := testutil.GatherAndLint(collectorOf(native, space{"", opens(r), noID}))
	if err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestNamespaces(t *testing.T) {
	broken := &recording{err: errors.New("as a test")}
	found := gather(t, collectorOf(native, space{"", opens(kernel(t)), noID},
		space{"one", opens(kernel(t)), noID}, space{"broken", opens(broken), noID},
		space{"gone", func() (source, error) { return nil, os.ErrNotExist }, noID}))
	expect(t, found, "bpshaper_netns_up{}", 1)
	expect(t, found, "bpshaper_netns_up{netns=one}", 1)
	expect(t, found, "bpshaper_netns_up{netns=broken}", 0)
	expect(t, found, "bpshaper_netns_up{netns=gone}", 0)
	expect(t, found, "bpshaper_qdisc_throttled_sockets{device=lo,handle=1a:,netns=one,"+
		"parent=root}", 1)
}

// Of the others there is nothing, and their classes are not read.
func TestDevices(t *testing.T) {
	all := nodeOf(t, true)
	all.passed = 0
	c := collectorOf(native, space{"", opens(all), noID})
	o, err := parseOptions([]string{"--device", "bps1|s9."}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	c.device = o.device
	found := gather(t, c)
	value(t, found, "bpshaper_qdisc_bytes_total{device=bps1,handle=1a:,parent=root,"+
		"pod_name=web-1,pod_namespace=prod}")
	for name := range found {
		if strings.Contains(name, "device=") && !strings.Contains(name, "device=bps1,") {
			t.Errorf("%s is there", name)
		}
	}
	if all.passed != pods {
		t.Errorf("%d qdiscs and classes were read of %d qdiscs", all.passed, pods)
	}
}

// A dump that changes meanwhile may have something twice. The others are still
// there.
func TestTwiceInADump(t *testing.T) {
	classes := recorded(t, "classes")
	r := kernel(t, append(classes, classes...)...)
	r.qdiscs = append(r.qdiscs, r.qdiscs...)
	found := gather(t, collectorOf(native, space{"", opens(r), noID}))
	expect(t, found, "bpshaper_class_weight{class=1a:10,device=lo}", 3)
}

// many makes a kernel with as many classes, of one that was recorded.
func many(t testing.TB, count int) *recording {
	var classes [][]byte

	one := recorded(t, "classes")[0]
	for i := range count {
		data := slices.Clone(one)
		handle := bpshaper.MakeHandle(0x1a, uint16(i+1))
		binary.NativeEndian.PutUint32(data[8:], uint32(handle))
		classes = append(classes, data)
	}
	return kernel(t, classes...)
}

// A pod cannot make the answer as large as it likes, nor what is read for it, and
// the others are read.
func TestClassesOfAPodAreLimited(t *testing.T) {
	pod := many(t, 65535)
	found := gather(t, collectorOf(native, space{"", opens(many(t, mostOfPod)), noID},
		space{"pod", opens(pod), noID}, space{"almost", opens(many(t, mostOfPod)), noID},
		space{"other", opens(many(t, mostOfPod-1)), noID}))
	expect(t, found, "bpshaper_netns_up{}", 1)
	expect(t, found, "bpshaper_netns_up{netns=pod}", 0)
	expect(t, found, "bpshaper_netns_up{netns=almost}", 0)
	expect(t, found, "bpshaper_netns_up{netns=other}", 1)
	value(t, found, "bpshaper_class_weight{class=1a:1000,device=lo}")
	value(t, found, "bpshaper_class_weight{class=1a:fff,device=lo,netns=other}")
	if found["bpshaper_class_weight{class=1a:1,device=lo,netns=pod}"] != nil {
		t.Error("classes of the pod are in the answer")
	}
	if pod.passed != mostOfPod+1 {
		t.Errorf("%d qdiscs and classes of the pod were read", pod.passed)
	}
}

// Qdiscs are as easy to make, and devices.
func TestQdiscsAndDevicesOfAPodAreLimited(t *testing.T) {
	qdiscs, devices := kernel(t), kernel(t)
	for range mostOfPod {
		qdiscs.qdiscs = append(qdiscs.qdiscs, qdiscs.qdiscs[0])
		devices.devices = append(devices.devices, devices.devices[0])
	}
	qdiscs.qdiscs = append(qdiscs.qdiscs, qdiscs.qdiscs...)
	found := gather(t, collectorOf(native, space{"", opens(kernel(t)), noID},
		space{"qdiscs", opens(qdiscs), noID}, space{"devices", opens(devices), noID}))
	expect(t, found, "bpshaper_netns_up{}", 1)
	expect(t, found, "bpshaper_netns_up{netns=qdiscs}", 0)
	expect(t, found, "bpshaper_netns_up{netns=devices}", 0)
	if qdiscs.passed != mostOfPod+1 {
		t.Errorf("%d qdiscs of the pod were read", qdiscs.passed)
	}
}

// What was listed before the change does not count, and ten times are enough.
func TestInterruptedListing(t *testing.T) {
	tries, changes := 0, 9
	list := func(f func(*int) error) error {
		tries++
		for i := range 3 {
			if err := f(&i); err != nil {
				return err
			}
		}
		if tries <= changes {
			return bpshaper.ErrInterrupted
		}
		return nil
	}
	if all, err := atMost(3, list); len(all) != 3 || err != nil || tries != 10 {
		t.Errorf("%v, %v after %d tries", all, err, tries)
	}
	tries, changes = 0, 10
	if _, err := atMost(3, list); !errors.Is(err, bpshaper.ErrInterrupted) || tries != 10 {
		t.Errorf("%v after %d tries", err, tries)
	}
}
