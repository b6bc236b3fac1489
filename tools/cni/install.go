// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"

	"bpshaper.example/tools/bpshaper"
)

const nodeUsage = `usage: bpshaper node-install | node-check

A runtime calls this plugin without arguments. On a node of Kubernetes node-install puts
it into /node/bin and its configuration into /node/net.d, and stays, because a network may
write its own again. node-check fails where something is missing. Environment:

  CONFIG    edit (the default): bpshaper is in the list of the network's plugins, in the
            place of bandwidth; the original stays as *.before-bpshaper
            file: it is in a file of its own, which libcni reads from 1.3 on
            restore: the lists are as they were
            none: somebody else cares for them
  KEYS      JSON, the keys of the plugin for all pods, {} by default
  CONFLIST  the list that is meant, by default the first one, which the runtime takes
`

// installer is what a node shall have.
type installer struct {
	root     string // where the directories of the node are
	self     string // the plugin
	config   string
	conflist string
	entry    []byte
	missing  bool // ADD needs no module
	isLoaded func() bool
}

// nodeMain is what the plugin does for a DaemonSet.
func nodeMain(arguments []string) error {
	n := &installer{root: "/node", self: "/proc/self/exe", isLoaded: bpshaper.Loaded}
	if len(arguments) != 1 || arguments[0] != "node-install" && arguments[0] != "node-check" {
		return fmt.Errorf("what is %q?\n%s", arguments, nodeUsage)
	}
	if err := n.configure(os.Getenv); err != nil {
		return err
	}
	if arguments[0] == "node-check" {
		return n.check()
	}
	return n.stay()
}

func (n *installer) configure(getenv func(string) string) (err error) {
	n.conflist = getenv("CONFLIST")
	switch n.config = getenv("CONFIG"); n.config {
	case "":
		n.config = "edit"
	case "edit", "file", "restore", "none":
	default:
		return fmt.Errorf("CONFIG is %q: expected edit, file, restore or none", n.config)
	}
	keys := getenv("KEYS")
	if keys == "" {
		keys = "{}"
	}
	if n.entry, n.missing, err = makeEntry([]byte(keys)); err != nil {
		return fmt.Errorf("KEYS: %w", err)
	}
	return nil
}

// stay never ends well.
func (n *installer) stay() error {
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err == nil {
		_, err = unix.InotifyAddWatch(watch, n.netd(),
			unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO|unix.IN_MOVED_FROM|unix.IN_DELETE)
	}
	if err != nil {
		return fmt.Errorf("watch the configuration: %w", err)
	}
	events, last := make([]byte, 4096), ""
	for {
		said := "the plugin and its configuration are here"
		if err := n.install(); err != nil {
			said = err.Error()
		}
		if said != last {
			logf("%s", said)
			last = said
		}
		// The kernel module comes without an event.
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(watch), Events: unix.POLLIN}}, 10000)
		_, _ = unix.Read(watch, events)
	}
}

func (n *installer) netd() string { return filepath.Join(n.root, "net.d") }

// change is a file that shall be another one: new is nil if it shall go. What old says
// must still be in it, if it is not nil.
type change struct {
	dir, path string
	old, new  []byte
	mode      os.FileMode
}

var errAgain = errors.New("the network writes its configuration all the time")

// install may be killed at any point, and repeated.
func (n *installer) install() error {
	lock, err := os.Open(n.netd())
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	for _, dir := range []string{"bin", "net.d"} { // of one that was killed
		_ = os.Remove(filepath.Join(n.root, dir, temporaryName))
	}
	for range 10 {
		changes, refused := n.plan()
		err = nil
		for i := 0; i < len(changes) && err == nil; i++ {
			err = changes[i].apply()
		}
		if !errors.Is(err, errAgain) {
			return errors.Join(err, refused)
		}
	}
	return err
}

// check says what install would still have to do.
func (n *installer) check() error {
	changes, err := n.plan()
	for _, c := range changes {
		err = errors.Join(err, fmt.Errorf("%s is not as it should be yet", c.path))
	}
	return err
}

// plan says what has to change, in this order, and what cannot be done. A node without the
// module keeps its configuration, unless pods shall start without it.
func (n *installer) plan() ([]change, error) {
	changes, err := n.planPlugin()
	if err != nil || n.config == "none" {
		return changes, errors.Join(err, n.findModule())
	}
	if n.config == "restore" {
		more, err := n.planRestore()
		return append(changes, more...), err
	}
	if err := n.findModule(); err != nil && !n.missing {
		return changes, err
	}
	more, err := n.planConfig()
	return append(changes, more...), err
}

// planPlugin does not ask whether the plugin runs on this machine: it does.
func (n *installer) planPlugin() ([]change, error) {
	dir := filepath.Join(n.root, "bin")
	wanted, err := os.ReadFile(n.self)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "bpshaper")
	found, err := os.ReadFile(path)
	if err == nil && bytes.Equal(found, wanted) {
		return nil, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return []change{{dir: dir, path: path, new: wanted, mode: 0o755}}, nil
}

var moduleFile = regexp.MustCompile(`(?m)(^|/)sch_bpshaper\.ko[.a-z0-9]*(:|$)`)

// findModule looks for one that is loaded, and where the kernel finds it by itself.
// Dependencies of modules are one of their indexes.
func (n *installer) findModule() error {
	if n.isLoaded() {
		return nil
	}
	for _, index := range []string{"modules.dep", "modules.builtin"} {
		text, err := os.ReadFile(filepath.Join(n.root, "modules", kernelRelease(), index))
		if err == nil && moduleFile.Match(text) {
			return nil
		}
	}
	return noModule(errors.New("the kernel module sch_bpshaper is not there"))
}

// apply makes the change so that a reader finds the old file or the new one. A network
// that writes into the old file meanwhile has the last word: errAgain.
func (c *change) apply() error {
	if c.new == nil {
		// By this way the runtime sees that something happens in its directory.
		temporary := filepath.Join(c.dir, temporaryName)
		if err := os.Rename(c.path, temporary); err != nil {
			return err
		}
		if dir := filepath.Dir(c.path); dir != c.dir {
			_ = os.Remove(dir) // unless others have something there
		}
		return os.Remove(temporary)
	}
	if c.old == nil {
		return c.replace(c.new)
	}
	file, err := os.Open(c.path)
	if err != nil {
		return err
	}
	defer file.Close()
	if now, err := io.ReadAll(file); err != nil || !bytes.Equal(now, c.old) {
		return errors.Join(err, errAgain)
	}
	if err := c.replace(c.new); err != nil {
		return err
	}
	for range 100 {
		now, err := readAgain(file)
		if err != nil || bytes.Equal(now, c.old) {
			return err
		}
		if _, err := parseList(now); err == nil {
			newer := change{c.dir, c.path, c.new, now, c.mode}
			return errors.Join(newer.apply(), errAgain)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errAgain
}

func readAgain(file *os.File) ([]byte, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}

// No runtime takes it for a configuration, and the lock is for one at a time.
const temporaryName = ".bpshaper.tmp"

func (c *change) replace(text []byte) error {
	temporary := filepath.Join(c.dir, temporaryName)
	if err := os.MkdirAll(filepath.Dir(c.path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, c.mode)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Chmod(c.mode), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(temporary, c.path)
	}
	if err != nil {
		_ = os.Remove(temporary)
		return err
	}
	dir, err := os.Open(filepath.Dir(c.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
