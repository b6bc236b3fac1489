// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestAlias(t *testing.T) {
	id := identityOf("net", "container", "eth0")
	// bpshaper-exporter reads this.
	pod := podOf("IgnoreUnknown=1;K8S_POD_NAMESPACE=prod;K8S_POD_NAME=web-1")
	want := fmt.Sprintf("bpshaper %x eth0 of c in net class 1:a of bps-node pod prod/web-1", id[:])
	if got := id.alias("net", "c", "eth0", "1:a of bps-node", pod); got != want {
		t.Errorf("is %q, not %q", got, want)
	}
	for _, args := range []string{"", "K8S_POD_NAME=web-1", "K8S_POD_NAMESPACE=prod",
		"K8S_POD_NAMESPACE=prod;K8S_POD_NAME=web 1", ";;=;"} {
		if got := podOf(args); got != "" {
			t.Errorf("%q names the pod %q", args, got)
		}
	}
	for _, alias := range []string{"", nodeAlias, "bpshaper", "bpshaper 00", "uplink"} {
		if _, ok := identityOfAlias(alias); ok {
			t.Errorf("%q is an identity", alias)
		}
	}
}

// An attachment as the runtime has it: the id of a sandbox, a class of the node.
func aliasOf(pod string) string {
	container := strings.Repeat("0123456789abcdef", 4)
	return identityOf("k8s-pod-network", container, "eth0").alias("k8s-pod-network", container,
		"eth0", "1:a1 of bps-node", pod)
}

// A name that has room is whole. Of one that has none the namespace is, and it has an
// end by which it is recognised, and which is another one for each pod.
func TestAliasOfLongNames(t *testing.T) {
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
		id := identityOf(network, container, "abcdefghijklmno")
		alias := func(pod string) string {
			return id.alias(network, container, "abcdefghijklmno",
				"1:ffff of abcdefghijklmno", pod)
		}
		got := alias(pod)
		if len(got) > aliasMost {
			t.Errorf("%d bytes: %q", len(got), got)
		}
		if read, ok := identityOfAlias(got); !ok || read != id {
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
