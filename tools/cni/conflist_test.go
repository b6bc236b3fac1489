// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestEdit(t *testing.T) {
	for text, want := range map[string]string{flannel: "flannel portmap bpshaper",
		k3s: "flannel bpshaper portmap", inlined: "ptp bpshaper"} {
		n := nodeWith(t, text)
		if n.check() == nil {
			t.Error("nothing is missing before it is there")
		}
		n.must(t, "edit")
		is(t, "plugins", n.types(t), want)
		is(t, "the original", read(t, n.list()+originalSuffix), text)
		is(t, "the plugin", read(t, filepath.Join(n.root, "bin/bpshaper")), "the plugin")
		if text == flannel && !strings.Contains(read(t, n.list()), "1234567890123456789") {
			t.Error("a number has changed")
		}
		info, _ := os.Stat(n.list())
		is(t, "mode", info.Mode(), os.FileMode(0o600))
		n.must(t, "edit")
		again, _ := os.Stat(n.list())
		is(t, "twice is once", os.SameFile(info, again), true)
		n.must(t, "restore")
		is(t, "restored", read(t, n.list()), text)
		is(t, "files", n.files(t), []string{"10-a.conflist"})
	}
}

func TestEditAgain(t *testing.T) {
	n := nodeWith(t, flannel)
	n.must(t, "edit")
	n.entry, _, _ = makeEntry([]byte(`{"node": {"rate": "1gbit"}, "prio": 4}`))
	n.must(t, "edit")
	is(t, "new keys", strings.Contains(read(t, n.list()), `"rate": "1gbit"`), true)
	is(t, "the original is not the edited one", read(t, n.list()+originalSuffix), flannel)
	write(t, n.list(), k3s)
	n.must(t, "edit")
	is(t, "a new list", n.types(t), "flannel bpshaper portmap")
	is(t, "has a new original", read(t, n.list()+originalSuffix), k3s)
	write(t, n.list(), strings.Replace(read(t, n.list()), `"plugins": [`,
		`"plugins": [ { "type": "mesh" },`, 1))
	n.must(t, "edit")
	n.must(t, "restore")
	is(t, "what others add stays", n.types(t), "mesh flannel bandwidth portmap")
}

func TestByHand(t *testing.T) {
	text := `{"name": "a", "plugins": [{"type": "ptp"}, {"type": "bpshaper"}]}`
	for _, config := range []string{"edit", "file", "restore", "none"} {
		n := nodeWith(t, text)
		n.must(t, config)
		is(t, config, read(t, n.list()), text)
		is(t, "files", n.files(t), []string{"10-a.conflist"})
	}
}

func TestFile(t *testing.T) {
	n := nodeWith(t, flannel)
	n.must(t, "edit")
	watch, _ := unix.InotifyInit1(unix.IN_NONBLOCK)
	// containerd does not read its directory again for what comes, only for what goes.
	_, _ = unix.InotifyAddWatch(watch, n.netd(), unix.IN_MOVED_FROM|unix.IN_DELETE)
	seen := func() bool {
		size, _ := unix.Read(watch, make([]byte, 4096))
		return size > 0
	}
	n.must(t, "file")
	is(t, "plugins", n.types(t), "flannel portmap bpshaper")
	is(t, "the list", read(t, n.list()), flannel)
	is(t, "the runtime sees it", seen(), true)
	n.entry, _, _ = makeEntry([]byte(`{"latency": "5ms"}`))
	n.must(t, "file")
	is(t, "the runtime sees new keys", seen(), true)
	n.must(t, "restore")
	is(t, "the runtime sees that it goes", seen(), true)
	is(t, "files", n.files(t), []string{"10-a.conflist"})
	n.must(t, "file")
	n.must(t, "edit")
	is(t, "never twice", n.types(t), "flannel portmap bpshaper")
}

func TestFileRefused(t *testing.T) {
	for _, text := range []string{k3s, inlined} {
		n := nodeWith(t, text)
		n.must(t, "edit")
		edited := read(t, n.list())
		n.config = "file"
		if err := n.install(); err == nil || n.check() == nil {
			t.Error("bandwidth, or a runtime that does not read it, is no error")
		}
		is(t, "nothing changed", read(t, n.list()), edited)
	}
}
