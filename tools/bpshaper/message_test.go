// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package bpshaper

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// testdata has messages of a kernel, a line of hexadecimal digits each.
// TestLive writes them, with $BPSHAPER_RECORD.
func recorded(t testing.TB, name string) [][]byte {
	var messages [][]byte

	text, err := os.ReadFile(filepath.Join("testdata", name+".hex"))
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
	if len(messages) == 0 {
		t.Fatalf("%s: no messages", name)
	}
	return messages
}

func recordedQdisc(t *testing.T) *Qdisc {
	for _, data := range recorded(t, "qdiscs") {
		q, err := parseQdisc(data)
		if err != nil {
			t.Fatal(err)
		}
		if q.Kind == Kind {
			return q
		}
	}
	t.Fatal("no bpshaper among the qdiscs")
	return nil
}

func TestQdiscOfAKernel(t *testing.T) {
	q := recordedQdisc(t)
	want := liveOptions()
	if d := want.Differences(&q.Options); d != nil {
		t.Errorf("options: %v", d)
	}
	if q.Handle != MakeHandle(0x1a, 0) || q.Parent != Root || q.Ifindex != 1 {
		t.Errorf("is %v of %v, device %d", q.Handle, q.Parent, q.Ifindex)
	}
	if q.Counters.Qlen == 0 || q.Counters.Backlog == 0 || q.Stats.Flows != 1 {
		t.Errorf("no backlog: %+v, %d flows", q.Counters, q.Stats.Flows)
	}
	if q.Counters.Packets == 0 || q.Stats.DelayHist.Count() != q.Counters.Packets {
		t.Errorf("%d packets, %d of them in the histogram", q.Counters.Packets,
			q.Stats.DelayHist.Count())
	}
}

func TestOtherKindsHaveNoOptions(t *testing.T) {
	others := 0
	for _, data := range recorded(t, "qdiscs") {
		q, err := parseQdisc(data)
		if err != nil {
			t.Fatal(err)
		}
		if q.Kind == Kind {
			continue
		}
		others++
		if q.Options != (Options{}) {
			t.Errorf("%s has options", q.Kind)
		}
	}
	if others == 0 {
		t.Error("there is no other kind")
	}
}

func TestFlowOfAKernel(t *testing.T) {
	class, flow, err := parseClass(recorded(t, "flows")[0])
	if err != nil || class != nil || flow == nil {
		t.Fatalf("is no flow: %v, %v", class, err)
	}
	if flow.Stats.State != FlowThrottled || flow.Stats.Throttles == 0 {
		t.Errorf("is %v, throttled %d times", flow.Stats.State, flow.Stats.Throttles)
	}
	if peer, ok := flow.Peer(); !ok || peer.String() != "127.0.0.1:9" {
		t.Errorf("sends to %v", peer)
	}
	if flow.Stats.Family != unix.AF_INET || flow.Stats.Cookie == 0 {
		t.Errorf("family %d, cookie %d", flow.Stats.Family, flow.Stats.Cookie)
	}
}

func TestClassesOfAKernel(t *testing.T) {
	var handles []Handle

	want := ClassOptions{Floor: To[uint64](1000), Ceil: To[uint64](50000),
		Weight: To[uint32](3), Prio: To[uint32](2)}
	for _, data := range recorded(t, "classes") {
		class, flow, err := parseClass(data)
		if err == nil && flow != nil {
			continue
		}
		if err != nil || class == nil {
			t.Fatalf("is no class: %v", err)
		}
		handles = append(handles, class.Handle)
		if class.Handle != MakeHandle(0x1a, 0x10) {
			continue
		}
		if d := want.Differences(&class.Options); d != nil {
			t.Errorf("options: %v", d)
		}
		if class.Stats.Limit == 0 || class.Stats.Children != 0 {
			t.Errorf("limit %d, %d children", class.Stats.Limit, class.Stats.Children)
		}
	}
	slices.Sort(handles)
	if !slices.Equal(handles, []Handle{0x1a0010, 0x1a0020}) {
		t.Errorf("classes are %v", handles)
	}
}

func TestEventsOfAKernel(t *testing.T) {
	var got []string

	for _, data := range recorded(t, "events") {
		kind := native.Uint16(data)
		e, err := parseEvent(kind, data[2:])
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			continue
		}
		what := "new "
		if e.Deleted {
			what = "deleted "
		}
		if e.Qdisc != nil {
			got = append(got, what+e.Qdisc.Handle.String())
		} else {
			got = append(got, what+e.Class.Handle.String())
		}
	}
	want := []string{"new 1a:", "new 1a:", "new 1a:10", "new 1a:20", "deleted 1a:20",
		"deleted 1a:"}
	if !slices.Equal(got, want) {
		t.Errorf("events are %q, expected %q", got, want)
	}
}

func TestRedirectOfAKernel(t *testing.T) {
	var got []Redirect

	for _, data := range recorded(t, "filters") {
		r, err := parseRedirect(data)
		if err != nil {
			t.Fatal(err)
		}
		if r != nil {
			got = append(got, *r)
		}
	}
	want := Redirect{Ifindex: 1, To: 77, Class: MakeHandle(1, 0x10),
		Cookie: [16]byte{1, 2, 15: 16}}
	if len(got) != 1 || got[0] != want {
		t.Errorf("are %+v", got)
	}
}

// optionsOf collects the options of a message by number, without padding.
func optionsOf(t *testing.T, data []byte) map[uint16]string {
	found := map[uint16]string{}
	m, err := parseMessage(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := attrs(m.options, func(number uint16, value []byte) error {
		if len(value) > 0 {
			found[number] = string(value)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// What the kernel has said and is said to it again are the same attributes.
func TestOptionsAreWrittenAsTheKernelDoes(t *testing.T) {
	for _, data := range recorded(t, "qdiscs") {
		q, err := parseQdisc(data)
		if err != nil || q.Kind != Kind {
			continue
		}
		if want, got := optionsOf(t, data), optionsOf(t, q.message()); !reflect.DeepEqual(want, got) {
			t.Errorf("wrote %q, the kernel %q", got, want)
		}
	}
	for _, data := range recorded(t, "classes") {
		class, flow, err := parseClass(data)
		if err != nil {
			t.Fatal(err)
		}
		if flow != nil {
			continue
		}
		if want, got := optionsOf(t, data), optionsOf(t, class.message()); !reflect.DeepEqual(want, got) {
			t.Errorf("class: wrote %q, the kernel %q", got, want)
		}
	}
}

func TestRequestOfAQdisc(t *testing.T) {
	q := Qdisc{Ifindex: 5, Parent: Root, Options: Options{
		Rate: To[uint64](12500000), Backpressure: To(false)}}
	got := q.message()
	// What tc sends for `tc qdisc add dev IF5 root bpshaper rate 100mbit
	// backpressure off`, behind the header of the message.
	want, _ := hex.DecodeString("00000000" + "05000000" + "00000000" + "ffffffff" +
		"00000000" + "0d000100" + "62707368617065720000" + "0000" +
		"18000280" + "0c000200" + "20bcbe0000000000" + "08001100" + "00000000")
	if !bytes.Equal(got, want) {
		t.Errorf("is\n%x, expected\n%x", got, want)
	}
}

func TestUnsetOptionsAreNotSent(t *testing.T) {
	b := builder{}
	optionsEncode(&Options{}, &b)
	optionsEncode(&ClassOptions{}, &b)
	if len(b.data) != 0 {
		t.Errorf("sent %x", b.data)
	}
}

func TestDifferences(t *testing.T) {
	want := Options{Rate: To[uint64](5), Latency: To[uint64](7)}
	have := Options{Rate: To[uint64](6), Burst: To[uint32](1)}
	got := want.Differences(&have)
	if !slices.Equal(got, []string{"rate is 6, expected 5",
		"latency is not set, expected 7"}) {
		t.Errorf("are %q", got)
	}
}

// A kernel of another version reports more or less.
func TestStatisticsOfOtherLengths(t *testing.T) {
	full := bytes.Repeat([]byte{1}, 4000)
	for _, length := range []int{0, 3, 8, 16, 17, 100, 4000} {
		var s Stats
		statsDecode(&s, full[:length])
		want := uint64(0)
		if length >= 16 {
			want = 0x0101010101010101
		}
		if s.Throttles != want {
			t.Errorf("of %d bytes: %#x throttles", length, s.Throttles)
		}
		if zero := s.OutsideHist.Count() == 0; zero != (length < 4000) {
			t.Errorf("of %d bytes: last member is zero: %v", length, zero)
		}
	}
}

// Packets have 32 bits in the basic statistics, and 64 in an attribute behind
// them once they are more.
func TestManyPackets(t *testing.T) {
	var m message

	b := builder{}
	b.attr(statsBasic, append(native.AppendUint64(nil, 7),
		native.AppendUint32(nil, 5)...))
	b.attr(statsPkt64, native.AppendUint64(nil, 1<<32+5))
	if err := attrs(b.data, m.statistics); err != nil {
		t.Fatal(err)
	}
	if m.counters.Packets != 1<<32+5 || m.counters.Bytes != 7 {
		t.Errorf("are %+v", m.counters)
	}
}

func TestBrokenMessages(t *testing.T) {
	for _, data := range [][]byte{nil, make([]byte, 19),
		append(make([]byte, 20), 3, 0, 1, 0), append(make([]byte, 20), 9, 0, 1, 0)} {
		if _, err := parseQdisc(data); err == nil {
			t.Errorf("%x is accepted", data)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"qdiscs", "flows", "classes", "filters"} {
		for _, data := range recorded(f, name) {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		q, err := parseQdisc(data)
		if err == nil && q.Kind == Kind {
			again, err := parseQdisc(q.message())
			if err != nil || !reflect.DeepEqual(again.Options, q.Options) {
				t.Errorf("read again it is %+v, was %+v: %v", again, q, err)
			}
		}
		_, _, _ = parseClass(data)
		_, _ = parseRedirect(data)
	})
}

func TestHandles(t *testing.T) {
	for handle, want := range map[Handle]string{Root: "root", 0x10000: "1:",
		0x10010: "1:10", 0xab0000: "ab:", MakeHandle(0xffff, 0xfff1): "ffff:fff1"} {
		if handle.String() != want {
			t.Errorf("%#x is %s, expected %s", uint32(handle), handle, want)
		}
	}
	if nl.TCA_KIND != 1 || nl.TCA_OPTIONS != 2 || nl.TCA_STATS2 != 7 {
		t.Error("numbers of attributes are not those of rtnetlink.h")
	}
}
