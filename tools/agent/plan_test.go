// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"bpshaper.example/tools/bpshaper"
	"bpshaper.example/tools/owner"
)

const configText = `
default: { egress-floor: 0, egress-ceil: none, egress-weight: 1, egress-prio: 4, egress-latency: 10ms }
priorityClasses:
  high: { egress-prio: 1, egress-weight: 5 }
namespaces:
  media:
    default: { egress-weight: 2 }
    may: { egress-floor: 60mbit, egress-weight: 10, egress-prio: 2 }
  system:
    default: { egress-prio: 0 }
    may: { egress-floor: 1gbit }
`

func configOf(t testing.TB, text string) *config {
	t.Helper()
	conf, err := parseConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return conf
}

// fake is what the kernel and the API have, a pod for each line:
//
//	NAMESPACE/NAME [class=CLASS] has FLOOR CEIL WEIGHT PRIO asks KEY=VALUE...
type fake struct {
	pods []*pod
	has  *actual
}

const ifb = 5

// fakeOf has a node of 100 Mbit/s.
func fakeOf(lines string) *fake {
	f := &fake{has: &actual{rates: map[int]uint64{ifb: 12500000}, floors: map[int]uint64{}}}
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		if words := strings.Fields(line); len(words) != 0 {
			f.add(words)
		}
	}
	return f
}

func (f *fake) add(fields []string) {
	number := len(f.pods)
	p := &pod{uid: types.UID(fmt.Sprint(number)), annotations: map[string]string{},
		created: time.Unix(int64(number), 0), isRunning: true}
	p.namespace, p.name, _ = strings.Cut(fields[0], "/")
	f.pods = append(f.pods, p)
	for i, field := range fields {
		key, value, isAnnotation := strings.Cut(field, "=")
		switch {
		case field == "has":
			f.hasClass(p, fields[i+1:i+5])
		case key == "class":
			p.priorityClass = value
		case key == "xdp":
			f.has.classes[len(f.has.classes)-1].xdp = value
		case key == "gro":
			f.has.classes[len(f.has.classes)-1].gro = value
		case isAnnotation && strings.Contains(key, "/"):
			p.annotations[key] = value
		case isAnnotation:
			p.annotations[prefix+key] = value
		}
	}
}

func (f *fake) hasClass(p *pod, fields []string) {
	var v values

	for i := range fields {
		value, err := parseValue(egressFloor+i, fields[i])
		if err != nil {
			panic(err)
		}
		v[egressFloor+i] = &value
	}
	handle := bpshaper.MakeHandle(1, uint16(len(f.has.classes)+1))
	f.has.floors[ifb] += *v[egressFloor]
	v[egressLatency] = bpshaper.To(uint64(10 * time.Millisecond))
	f.has.classes = append(f.has.classes, &class{number: number{ifb, handle}, has: v,
		parent: bpshaper.Root, pod: p.fullName(),
		at: owner.Place{Device: "bps-node", Class: handle.String()}})
}

// texts are what changes and what is refused, a line each.
func (f *fake) texts(conf *config) []string {
	var found []string

	changes, refused := planOf(conf, f.pods, f.has)
	for _, c := range changes {
		found = append(found, c.pod.name+": "+strings.Join(c.what, ", "))
	}
	for _, p := range f.pods {
		if r := refused[p.uid]; r != nil {
			found = append(found, fmt.Sprintf("%s! %s: %s", p.name, r.reason, r.text))
		}
	}
	return found
}

var plans = []struct {
	name  string
	lines string
	want  []string
}{
	{"nothing to do", "media/a has 0 none 2 4", nil},
	{"an annotation", "media/a has 0 none 2 4 egress-weight=3", []string{"a: egress-weight 3"}},
	{"all annotations", "media/a has 0 none 2 4 egress-floor=10mbit egress-ceil=50mbit " +
		"egress-weight=3 egress-prio=3 egress-latency=5ms", []string{"a: egress-floor 10mbit, " +
		"egress-ceil 50mbit, egress-weight 3, egress-prio 3, egress-latency 5ms"}},
	{"XDP takes packets from their sockets", "media/a has 0 none 2 4 xdp=veth7 egress-weight=3",
		[]string{"a: egress-weight 3", "a! NotHeld: XDP on veth7: the pod does not wait, and " +
			"what exceeds its limit is lost: its packets have lost their sockets"}},
	{"GRO takes TCP without TSO", "media/a has 0 none 2 4 gro=veth7", []string{"a! NotHeld: GRO on " +
		"veth7: TCP that the pod sends without TSO does not wait, and what exceeds its limit is " +
		"lost: its packets have lost their sockets"}},
	{"XDP is before GRO", "media/a has 0 none 2 4 gro=veth7 xdp=veth7", []string{"a! NotHeld: XDP " +
		"on veth7: the pod does not wait, and what exceeds its limit is lost: its packets have " +
		"lost their sockets"}},
	{"it goes again", "media/a has 10mbit 50mbit 3 3",
		[]string{"a: egress-floor 0bit, egress-ceil none, egress-weight 2, egress-prio 4"}},
	{"a PriorityClass", "system/a class=high has 0 none 1 4", []string{"a: egress-prio 1"}},
	{"a PriorityClass is cut to the bounds", "media/a class=high has 0 none 2 4",
		[]string{"a: egress-weight 5, egress-prio 2"}},
	{"of another namespace it gives nothing", "tenant/a class=high has 0 none 1 4", nil},
	{"the annotation of Kubernetes", "tenant/a has 0 none 1 4 kubernetes.io/egress-bandwidth=8M",
		[]string{"a: egress-ceil 8mbit"}},
	{"the smaller holds", "tenant/a has 0 none 1 4 egress-ceil=4mbit " +
		"kubernetes.io/egress-bandwidth=8M", []string{"a: egress-ceil 4mbit"}},
	{"prio 0 is not for all", "tenant/a has 0 none 1 4 egress-prio=0",
		[]string{"a! NotAllowed: annotation bpshaper/egress-prio 0: namespace tenant may ask " +
			"for 4 or a larger number"}},
	{"nor what the plugin gives", "tenant/a has 0 none 1 0 egress-prio=0 egress-weight=x",
		[]string{"a: egress-prio 4", "a! BadAnnotation: annotation bpshaper/egress-weight: " +
			"\"x\" must be a number from 1 to 1048576"}},
	{"what is below the default is for all", "tenant/a has 0 none 1 4 egress-prio=7",
		[]string{"a: egress-prio 7"}},
	{"a refused pod keeps what it has", "media/a has 20mbit none 8 3 egress-weight=11",
		[]string{"a! NotAllowed: annotation bpshaper/egress-weight 11: namespace media may ask " +
			"for 10 at most"}},
	{"a bound becomes smaller", "tenant/a has 20mbit none 8 3 egress-weight=8", []string{
		"a: egress-floor 0bit, egress-weight 1, egress-prio 4",
		"a! NotAllowed: annotation bpshaper/egress-weight 8: namespace tenant may ask for 1 at most"}},
}

func TestPlans(t *testing.T) {
	conf := configOf(t, configText)
	for _, p := range slices.Concat(plans, floorPlans) {
		f := fakeOf(p.lines)
		if got := f.texts(conf); !slices.Equal(got, p.want) {
			t.Errorf("%s:\n\t%s\nexpected\n\t%s", p.name, strings.Join(got, "\n\t"),
				strings.Join(p.want, "\n\t"))
		}
	}
}

const aboveRate = "b! FloorsAboveRate: annotation bpshaper/egress-floor 50mbit of system/b: floors of other " +
	"pods on this node are 60mbit and would be 110mbit, above its rate of 100mbit"

var floorPlans = []struct {
	name  string
	lines string
	want  []string
}{
	{"floors up to the rate", "media/a has 0 none 2 4 egress-floor=60mbit\n" +
		"system/b has 0 none 1 0 egress-floor=40mbit",
		[]string{"a: egress-floor 60mbit", "b: egress-floor 40mbit"}},
	{"above it", "media/a has 0 none 2 4 egress-floor=60mbit\n" +
		"system/b has 0 none 1 0 egress-floor=50mbit",
		[]string{"a: egress-floor 60mbit", aboveRate}},
	{"who has it keeps it", "system/b has 0 none 1 0 egress-floor=50mbit\n" +
		"media/a has 60mbit none 2 4 egress-floor=60mbit", []string{aboveRate}},
	{"what becomes less makes room first", "system/b has 0 none 1 0 egress-floor=50mbit\n" +
		"media/a has 60mbit none 2 4 egress-floor=50mbit",
		[]string{"a: egress-floor 50mbit", "b: egress-floor 50mbit"}},
	{"a refused pod gets nothing else", "media/a has 60mbit none 2 4 egress-floor=60mbit\n" +
		"system/b has 0 none 1 0 egress-floor=50mbit egress-prio=3", []string{aboveRate}},
	{"the sum of a namespace", "media/a has 0 none 2 4 egress-floor=40mbit\n" +
		"media/b has 0 none 2 4 egress-floor=30mbit", []string{"a: egress-floor 40mbit",
		"b! NotAllowed: annotation bpshaper/egress-floor 30mbit of media/b: floors that namespace media " +
			"asks for on this node are 40mbit and would be 70mbit, above the 60mbit that it may ask for"}},
	{"a namespace without an entry", "tenant/a has 0 none 1 4 egress-floor=1mbit",
		[]string{"a! NotAllowed: annotation bpshaper/egress-floor 1mbit of tenant/a: floors that namespace " +
			"tenant asks for on this node are 0bit and would be 1mbit, above the 0bit that it may ask for"}},
	{"what the plugin gave goes", "tenant/a has 20mbit none 1 4", []string{"a: egress-floor 0bit"}},
	{"above the ceil", "media/a has 0 none 2 4 egress-floor=20mbit egress-ceil=10mbit",
		[]string{"a! BadAnnotation: annotation bpshaper/egress-floor 20mbit: it is above the ceil " +
			"of the pod, 10mbit"}},
	{"no class", "media/a egress-floor=20mbit\nmedia/b", []string{"a! NoClass: the pod has no " +
		"class on this node: its network has no bpshaper with a node, or it was added before that had one"}},
}

// What nobody has a default of stays as it is.
func TestUnmanaged(t *testing.T) {
	conf := configOf(t, "default: { egress-weight: 1 }")
	f := fakeOf("a/a has 5mbit 50mbit 3 2\nb/b has 5mbit 50mbit 1 2 egress-floor=1mbit")
	want := []string{"a: egress-weight 1", "b! NotAllowed: annotation bpshaper/egress-floor " +
		"1mbit: the ConfigMap has no default of it"}
	if got := f.texts(conf); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// The names of some pods have no room in an alias, and some classes have no pod.
func TestNames(t *testing.T) {
	f := fakeOf("media/" + strings.Repeat("x", 250) + " has 0 none 2 4 egress-weight=3\n" +
		"media/gone has 0 none 1 1")
	f.has.classes[0].pod = aliased(f.pods[0].fullName())
	f.pods = f.pods[:1]
	if got := f.texts(configOf(t, configText)); len(got) != 1 ||
		!strings.HasSuffix(got[0], "x: egress-weight 3") {
		t.Errorf("%q", got)
	}
}

func aliased(name string) string {
	alias := owner.IdentityOf("net", "c", "eth0").Alias("net", "c", "eth0", "1:1 of bps-node", name)
	o, _, _ := owner.Of(alias)
	return o.Namespace + "/" + o.Pod
}

func TestEnds(t *testing.T) {
	conf := configOf(t, "default: { ingress-ceil: none, ingress-latency: 10ms }")
	f := fakeOf("a/a ingress-ceil=8mbit\na/b\na/c\na/d kubernetes.io/ingress-bandwidth=8M\n" +
		"a/e ingress-weight=1")
	limit := values{ingressCeil: bpshaper.To[uint64](1000000),
		ingressLatency: bpshaper.To(uint64(10 * time.Millisecond))}
	for i, p := range f.pods {
		e := &end{pod: p.fullName(), device: "veth-" + p.name, ifindex: 10 + i}
		if p.name == "c" || p.name == "d" {
			e.has = &limit
		}
		f.has.ends = append(f.has.ends, e)
	}
	want := []string{"a: ingress-ceil 8mbit, ingress-latency 10ms", "c: ingress-ceil none",
		"e! BadAnnotation: annotation bpshaper/ingress-weight: nothing divides what pods receive"}
	if got := f.texts(conf); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	changes, _ := planOf(conf, f.pods, f.has)
	if len(changes) != 2 || changes[0].verb != toAdd || changes[1].verb != toDelete {
		t.Errorf("%+v", changes)
	}
}

// many is a node with so many pods, of which each has what it shall have.
func many(count int) *fake {
	var lines strings.Builder

	for i := range count {
		fmt.Fprintf(&lines, "media/web-%d has 10kbit none 3 3 egress-floor=10kbit egress-weight=3 "+
			"egress-prio=3\n", i)
	}
	return fakeOf(lines.String())
}

func TestMany(t *testing.T) {
	conf, f := configOf(t, configText), many(1000)
	if got := f.texts(conf); got != nil {
		t.Fatalf("%q", got)
	}
	f.pods[500].annotations[prefix+"egress-weight"], f.pods[500].demand = "4", nil
	if got := f.texts(conf); !slices.Equal(got, []string{"web-500: egress-weight 4"}) {
		t.Errorf("%q", got)
	}
}

func BenchmarkPlan1000(b *testing.B) {
	conf, f := configOf(b, configText), many(1000)
	for _, p := range f.pods {
		p.created = time.Time{}
	}
	f.pods[500].annotations[prefix+"egress-weight"] = "4"
	for range b.N {
		planOf(conf, f.pods, f.has)
	}
}
