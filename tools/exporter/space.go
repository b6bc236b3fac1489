// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"bpshaper.example/tools/bpshaper"
)

// source is where qdiscs and classes come from: a network namespace, or what
// has been recorded of one. Who gets them one by one says when they are enough.
type source interface {
	EachQdisc(f func(*bpshaper.Qdisc) error) error
	EachClass(ifindex int, f func(*bpshaper.Class) error) error
	EachDevice(f func(*bpshaper.Device) error) error
	Close()
}

// space is a network namespace by its name in the label: "" is that of the
// exporter.
type space struct {
	name string
	open func() (source, error)
	id   func() int // its number in the namespace of the exporter, or -1
}

// A socket keeps its namespace alive, also that of a pod that has ended. So it
// is open only while it is read.
func here() (source, error) { return bpshaper.Open() }

const netnsDir = "/run/netns"

// spacesOf finds the namespaces that are asked for: names in /run/netns, paths,
// or "all" for those in /run/netns now. One that has several names is read
// once, by the first of them.
func spacesOf(asked []string, dir string) []space {
	var spaces []space

	own, err := netns.Get()
	seen := map[string]bool{}
	if err == nil {
		seen[own.UniqueId()] = true
		own.Close()
	}
	spaces = append(spaces, space{"", here, noID})
	for _, name := range asked {
		for _, path := range pathsOf(name, dir) {
			id, err := idOf(path)
			if err == nil && seen[id] {
				continue
			}
			// The name of one that cannot be opened is in netns_up.
			// One of all may have gone by now.
			if err != nil && name == "all" && errors.Is(err, os.ErrNotExist) {
				continue
			}
			seen[id] = err == nil
			spaces = append(spaces, space{textOf(labelOf(path, dir)),
				func() (source, error) { return bpshaper.OpenPath(path) },
				func() int { return numberOf(path) }})
		}
	}
	return spaces
}

func noID() int { return -1 }

// numberOf is -1 also if there is no device between the two namespaces.
func numberOf(path string) int {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return -1
	}
	defer ns.Close()
	id, err := netlink.GetNetNsIdByFd(int(ns))
	if err != nil {
		return -1
	}
	return id
}

func pathsOf(name, dir string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	if name != "all" {
		return []string{filepath.Join(dir, name)}
	}
	entries, _ := os.ReadDir(dir)
	paths := make([]string, 0, len(entries))
	for _, e := range entries {
		paths = append(paths, filepath.Join(dir, e.Name()))
	}
	return paths
}

func labelOf(path, dir string) string {
	if filepath.Dir(path) == dir {
		return filepath.Base(path)
	}
	return path
}

func idOf(path string) (string, error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return "", fmt.Errorf("open network namespace %s: %w", path, err)
	}
	defer ns.Close()
	return ns.UniqueId(), nil
}
