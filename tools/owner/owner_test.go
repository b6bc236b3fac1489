// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package owner

import (
	"fmt"
	"strings"
	"testing"
)

func TestAlias(t *testing.T) {
	id := IdentityOf("net", "container", "eth0")
	want := fmt.Sprintf("bpshaper %x eth0 of c in net class 1:a of bps-node pod prod/web-1", id[:])
	if got := id.Alias("net", "c", "eth0", "1:a of bps-node", "prod/web-1"); got != want {
		t.Errorf("is %q, not %q", got, want)
	}
	for _, alias := range []string{"", "bpshaper node", "bpshaper", "bpshaper 00", "uplink"} {
		if _, ok := IdentityOfAlias(alias); ok {
			t.Errorf("%q is an identity", alias)
		}
	}
}

// An attachment as the runtime has it: the id of a sandbox, a class of the node.
func aliasOf(pod string) string {
	container := strings.Repeat("0123456789abcdef", 4)
	return IdentityOf("k8s-pod-network", container, "eth0").Alias("k8s-pod-network", container,
		"eth0", "1:a1 of bps-node", pod)
}

// A name that has room is whole. Of one that has none the namespace is, and it has an
// end by which it is recognised, and which is another one for each pod.
func TestLongNames(t *testing.T) {
	namespace, seen := strings.Repeat("n", 63), map[string]bool{}
	for _, name := range []string{"web-1", strings.Repeat("x", 63), strings.Repeat("x", 253),
		strings.Repeat("x", 252) + "y", strings.Repeat("x", 200) + "-5d8f7c9b4-x2x4z"} {
		pod := namespace + "/" + name
		alias := aliasOf(pod)
		_, got, _ := strings.Cut(alias, " pod ")
		whole := got == pod
		if !strings.Contains(alias, " of 0123456789ab in k8s-pod-network class 1:a1 ") ||
			whole != (len(name) <= 63) || !strings.HasPrefix(got, namespace+"/"+name[:5]) ||
			!whole && got[len(got)-9] != '~' {
			t.Errorf("%s is in %s", pod, alias)
		}
		if len(alias) > aliasMost || !whole && len(alias) < aliasMost {
			t.Errorf("%d bytes: %s", len(alias), alias)
		}
		if seen[got] {
			t.Errorf("another pod is %s as well", got)
		}
		seen[got] = true
	}
}

// No names, however long, make an alias that the kernel refuses, that hides what it
// lacks, or that two pods have.
func FuzzAlias(f *testing.F) {
	long := strings.Repeat("x", 400)
	f.Add("net", strings.Repeat("0123456789abcdef", 4), "prod/web-1", "prod/web-2")
	f.Add(long, long, long, long+"y")
	f.Fuzz(func(t *testing.T, network, container, pod, other string) {
		id := IdentityOf(network, container, "abcdefghijklmno")
		alias := func(pod string) string {
			return id.Alias(network, container, "abcdefghijklmno",
				"1:ffff of abcdefghijklmno", pod)
		}
		got := alias(pod)
		if len(got) > aliasMost {
			t.Errorf("%d bytes: %q", len(got), got)
		}
		if read, ok := IdentityOfAlias(got); !ok || read != id {
			t.Errorf("%q is read as %x", got, read)
		}
		if len(got) < aliasMost && !strings.HasSuffix(got, pod) {
			t.Errorf("%q lacks a part of %q", got, pod)
		}
		if pod != other && got == alias(other) {
			t.Errorf("%q and %q are both %q", pod, other, got)
		}
	})
}

const id = "bpshaper 00112233445566778899aabbccddeeff "

func TestRead(t *testing.T) {
	full := Owner{"c0ffee", "eth0", "podnet", "prod", "web-1"}
	plain := Owner{Container: "c0ffee", Ifname: "eth0", Network: "podnet"}
	class := Place{"node0", "1:10"}
	for alias, want := range map[string]struct {
		owner Owner
		class Place
		ok    bool
	}{
		id + "eth0 of c0ffee in podnet":                                    {plain, Place{}, true},
		id + "eth0 of c0ffee in podnet pod prod/web-1":                     {full, Place{}, true},
		id + "eth0 of c0ffee in podnet class 1:10 of node0 pod prod/web-1": {full, class, true},
		id + "eth0 of c0ffee in podnet class 1:10 of node0":                {plain, class, true},
		id + "eth0 of c0ffee in podnet class 1:10":                         {plain, Place{}, true},
		id + "eth0 of c0ffee in podnet pod":                                {plain, Place{}, true},
		id + "eth0 of c0ffee in":                                           {},
		"bpshaper node":                                                    {},
		"bpshaper xyz eth0 of c0ffee in podnet":                            {},
		"uplink":                                                           {},
		"":                                                                 {},
	} {
		o, place, ok := Of(alias)
		if o != want.owner || place != want.class || ok != want.ok {
			t.Errorf("%q is %+v, %v, %v", alias, o, place, ok)
		}
	}
}

// A name for which there was no room is taken as it is, at the end of the longest alias.
func TestLongNamesAreRead(t *testing.T) {
	const begin = id + "eth0 of c0ffee in podnet class 1:10 of node0 pod "
	pod := "prod/" + strings.Repeat("x", 255-len(begin)-len("prod/~0123abcd")) + "~0123abcd"
	o, class, ok := Of(begin + pod)
	if (o != Owner{"c0ffee", "eth0", "podnet", "prod", pod[len("prod/"):]}) ||
		class != (Place{"node0", "1:10"}) || !ok {
		t.Errorf("%s is %+v, %v, %v", pod, o, class, ok)
	}
}

func FuzzOf(f *testing.F) {
	f.Add(id + "eth0 of c0ffee in podnet class 1:10 of node0 pod prod/web-1")
	f.Fuzz(func(t *testing.T, alias string) {
		o, _, ok := Of(alias)
		if ok && (o.Container == "" || strings.ContainsAny(o.Pod+o.Container, " \n")) {
			t.Errorf("%q is %+v", alias, o)
		}
	})
}
