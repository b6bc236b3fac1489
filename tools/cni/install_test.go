// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
)

const (
	flannel = `{
  "name": "cbr0", "cniVersion": "0.3.1",
  "plugins": [
    { "type": "flannel", "delegate": { "hairpinMode": true, "mtu": 1234567890123456789 } },
    { "type": "portmap", "capabilities": { "portMappings": true } }
  ]
}`
	k3s = `{ "name": "cbr0", "cniVersion": "1.0.0", "disableCheck": true, "plugins": [
  { "type": "flannel" }, { "type": "bandwidth", "capabilities": {"bandwidth": true} },
  { "type": "portmap" } ] }`
	inlined = `{ "name": "a", "cniVersion": "1.1.0", "loadOnlyInlinedPlugins": true,
  "plugins": [ { "type": "ptp" } ] }`
)

// A process that installs until it is killed, for TestKilled and TestStay.
func TestMain(m *testing.M) {
	if root := os.Getenv("INSTALL_ROOT"); root != "" {
		n := &installer{root: root, self: os.Getenv("INSTALL_SELF"), isLoaded: yes}
		if err := n.configure(os.Getenv); err != nil {
			panic(err)
		}
		if os.Getenv("INSTALL_STAYS") != "" {
			panic(n.stay())
		}
		for i := 0; ; i++ {
			n.config = []string{"edit", "restore"}[i%2]
			if err := n.install(); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

func yes() bool { return true }

// nodeWith is one that has the module, and this list of a network if it is not empty.
func nodeWith(t *testing.T, text string) *installer {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"bin", "net.d", "modules"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n := &installer{root: root, self: filepath.Join(root, "self"), isLoaded: yes}
	write(t, n.self, "the plugin")
	if err := n.configure(func(string) string { return "" }); err != nil {
		t.Fatal(err)
	}
	if text != "" {
		write(t, n.list(), text)
	}
	return n
}

func (n *installer) list() string { return filepath.Join(n.netd(), "10-a.conflist") }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// files are those of the configuration.
func (n *installer) files(t *testing.T) (names []string) {
	t.Helper()
	if err := os.Chdir(n.netd()); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"*", "*/*", ".*"} {
		found, _ := filepath.Glob(pattern)
		names = append(names, found...)
	}
	return names
}

// types are the plugins that libcni runs.
func (n *installer) types(t *testing.T) string {
	t.Helper()
	conf, err := libcni.NetworkConfFromFile(n.list())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, plugin := range conf.Plugins {
		names = append(names, plugin.Network.Type)
	}
	return strings.Join(names, " ")
}

func (n *installer) must(t *testing.T, config string) {
	t.Helper()
	n.config = config
	if err := n.install(); err != nil {
		t.Fatal(err)
	}
	if err := n.check(); err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, expected %v", what, got, want)
	}
}

// A node that is not ready says why, and its configuration is as it was.
func TestNotReady(t *testing.T) {
	n := nodeWith(t, "")
	for name, text := range map[string]string{"10-a.conflist": flannel[:40], "10-a.conf": flannel,
		"10-a.json": flannel, "": "", "a.txt": flannel, "b.conflist": `{"plugins": []}`,
		"c.conflist": `{"name": "../x", "plugins": []}`} {
		if name != "" {
			write(t, filepath.Join(n.netd(), name), text)
		}
		for _, config := range []string{"edit", "file"} {
			n.config = config
			if err := n.install(); err == nil || n.check() == nil {
				t.Errorf("%s: no error", name)
			}
		}
		if name != "" {
			is(t, name, read(t, filepath.Join(n.netd(), name)), text)
			is(t, "files", n.files(t), []string{name})
			os.Remove(filepath.Join(n.netd(), name))
		}
	}
	n = nodeWith(t, flannel)
	write(t, filepath.Join(n.netd(), "00-multus.conf"), "{}")
	n.conflist = "10-a.conflist"
	n.must(t, "edit")
	is(t, "the list that is named", n.types(t), "flannel portmap bpshaper")
}

func TestModule(t *testing.T) {
	n := nodeWith(t, flannel)
	n.isLoaded = func() bool { return false }
	if err := n.install(); err == nil || !strings.Contains(err.Error(),
		"install bpshaper-dkms and linux-headers-"+kernelRelease()) {
		t.Errorf("without the module: %v", err)
	}
	is(t, "the list", read(t, n.list()), flannel)
	is(t, "the plugin", read(t, filepath.Join(n.root, "bin/bpshaper")), "the plugin")
	dir := filepath.Join(n.root, "modules", kernelRelease())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "modules.dep"), "a/sch_bpshaper2.ko:\na/not_sch_bpshaper.ko: a/b.ko\n")
	is(t, "another module", n.findModule() == nil, false)
	for _, line := range []string{"updates/dkms/sch_bpshaper.ko.xz: kernel/lib/a.ko",
		"updates/sch_bpshaper.ko:", "sch_bpshaper.ko.zst:"} {
		write(t, filepath.Join(dir, "modules.dep"), "kernel/net/sched/sch_fq.ko:\n"+line+"\n")
		is(t, line, n.findModule(), error(nil))
	}
	os.Remove(filepath.Join(dir, "modules.dep"))
	write(t, filepath.Join(dir, "modules.builtin"), "kernel/net/sched/sch_bpshaper.ko\n")
	n.must(t, "edit")
	n.must(t, "restore")
	os.Remove(filepath.Join(dir, "modules.builtin"))
	n.must(t, "restore")
	n.entry, n.missing, _ = makeEntry([]byte(`{"missing": "tbf"}`))
	n.must(t, "edit")
	is(t, "plugins", n.types(t), "flannel portmap bpshaper")
}

func TestSettings(t *testing.T) {
	for _, c := range []struct{ config, keys, want string }{
		{"", "", ""}, {"none", `{"node": {"rate": "1gbit"}, "prio": 4}`, ""},
		{"edits", "", `CONFIG is "edits"`}, {"", "{", "no object"}, {"", "null", "no object"},
		{"", `{"prio": 4}`, "need node"}, {"", `{"missing": "never"}`, "missing"},
	} {
		n := &installer{}
		err := n.configure(func(name string) string {
			return map[string]string{"CONFIG": c.config, "KEYS": c.keys}[name]
		})
		if c.want == "" && err != nil || c.want != "" && (err == nil ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s: %v", c.config, c.keys, err)
		}
	}
}

// A network that writes into its list, as cp does, has the last word.
func TestRace(t *testing.T) {
	n := nodeWith(t, k3s)
	for round := range 300 {
		last, done := "", make(chan struct{})
		go func() {
			defer close(done)
			for i := range 3 {
				last = strings.Replace(k3s, "portmap", fmt.Sprint("p", round, i), 1)
				write(t, n.list(), last)
				time.Sleep(time.Duration(rand.Intn(500)) * time.Microsecond)
			}
		}()
		for running := true; running; {
			_ = n.install() // half a list is an error
			select {
			case <-done:
				running = false
			default:
			}
		}
		n.must(t, "edit")
		is(t, "the last list", n.types(t), fmt.Sprint("flannel bpshaper p", round, 2))
		is(t, "its original", read(t, n.list()+originalSuffix), last)
	}
}

func (n *installer) start(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), append(env, "INSTALL_ROOT="+n.root,
		"INSTALL_SELF="+n.self)...)
	process.Stderr = &bytes.Buffer{}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	return process
}

func kill(t *testing.T, process *exec.Cmd) {
	t.Helper()
	_ = process.Process.Kill()
	var exit *exec.ExitError
	if err := process.Wait(); !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("%v: %s", err, process.Stderr)
	}
}

// Wherever it is killed, the runtime has the old list or the new one.
func TestKilled(t *testing.T) {
	const edited = "flannel bpshaper portmap"

	n := nodeWith(t, k3s)
	seen := map[string]bool{}
	for range 60 {
		process, another := n.start(t), n.start(t)
		for start := time.Now(); n.types(t) != edited && time.Since(start) < 10*time.Second; {
		}
		end := time.Now().Add(time.Duration(rand.Intn(20000)) * time.Microsecond)
		for time.Now().Before(end) {
			seen[n.types(t)] = true
		}
		kill(t, process)
		kill(t, another)
		seen[n.types(t)] = true
	}
	is(t, "lists", len(seen), 2)
	is(t, "edited ones", seen[edited], true)
	n.must(t, "edit")
	n.must(t, "restore")
	is(t, "restored", read(t, n.list()), k3s)
	is(t, "files", n.files(t), []string{"10-a.conflist"})
}

// What comes is edited before somebody looks for it by time, every ten seconds.
func TestStay(t *testing.T) {
	n := nodeWith(t, "")
	process := n.start(t, "INSTALL_STAYS=1")
	defer kill(t, process)
	deadline := time.Now().Add(30 * time.Second)
	for {
		if _, err := os.Stat(filepath.Join(n.root, "bin/bpshaper")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no plugin")
		}
		time.Sleep(time.Millisecond)
	}
	for _, text := range []string{flannel, k3s, flannel} {
		write(t, n.list(), text)
		start := time.Now()
		for !strings.Contains(n.types(t), "bpshaper") {
			time.Sleep(time.Millisecond)
			if time.Since(start) > 8*time.Second {
				t.Fatal("not edited")
			}
		}
	}
}
