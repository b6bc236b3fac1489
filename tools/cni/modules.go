// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"bpshaper.example/tools/bpshaper"
)

// ifbModules are those that a redirect to an ifb needs, in the order in which the
// kernel loads them. skbedit chooses the class of a node's pod.
func (conf *config) ifbModules() []string {
	modules := []string{"ifb", "sch_ingress", "cls_matchall"}
	if conf.Node != nil {
		modules = append(modules, "act_skbedit")
	}
	return append(modules, "act_mirred")
}

// missing says which of the modules are not loaded. One that is built in may not be
// seen here.
func missing(modules []string) []string {
	var found []string

	for _, module := range modules {
		if _, err := os.Stat("/sys/module/" + module); err != nil {
			found = append(found, module)
		}
	}
	return found
}

// explained adds to an error what to do about it. Without the module of a kind the
// kernel says EOPNOTSUPP of a device, and ENOENT of a qdisc, filter or action.
func (conf *config) explained(err error) error {
	if errors.Is(err, bpshaper.ErrNoModule) {
		return noModule(err)
	}
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOENT) {
		return err
	}
	if modules := missing(conf.ifbModules()); conf.needsIfb() && len(modules) != 0 {
		return fmt.Errorf("%w. A kernel module is missing, one of %s: install the "+
			"package that has it (kernel-modules-extra, linux-modules-extra-%s), or "+
			"use \"attach\": \"pod\" without node", err, strings.Join(modules, ", "),
			kernelRelease())
	}
	return err
}

func noModule(err error) error {
	return fmt.Errorf("%w. On Debian install bpshaper-dkms and linux-headers-%s; "+
		"elsewhere run make install of bpshaper. With Secure Boot the module must be "+
		"signed", err, kernelRelease())
}

func kernelRelease() string {
	var name unix.Utsname

	if unix.Uname(&name) != nil {
		return "$(uname -r)"
	}
	return unix.ByteSliceToString(name.Release[:])
}

// isLoaded says that ADD needs no module that is not loaded.
func (conf *config) isLoaded() bool {
	return bpshaper.Loaded() &&
		(!conf.needsIfb() || len(missing(conf.ifbModules())) == 0)
}

// probe tries in a namespace of its own what the kernel can do, which loads modules.
// The thread ends with the namespace.
func probe(try func(*space) error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("make a network namespace: %w", err)
			return
		}
		s, err := spaceOpen(netns.None())
		if err == nil {
			err = try(s)
			s.close()
		}
		result <- err
	}()
	return <-result
}

const loopback = 1

func (s *space) loopbackSet(kind string) error {
	link, err := s.links.LinkByIndex(loopback)
	if err != nil {
		return err
	}
	return s.rootSet(link, kind, bpshaper.Options{Rate: bpshaper.To[uint64](1e9)})
}

// tryAll tries all that a limit by this kind of qdisc needs.
func (conf *config) tryAll(s *space, kind string) error {
	var class bpshaper.Handle

	if conf.Node != nil {
		class = bpshaper.MakeHandle(1, 1)
	}
	if conf.needsIfb() {
		ifb, err := s.ifbMake(nodeDevice, 1500, 1)
		if err == nil {
			err = s.tc.AddRedirect(bpshaper.Redirect{Ifindex: loopback,
				To: ifb.Attrs().Index, Class: class})
		}
		if err != nil {
			return err
		}
	}
	return s.loopbackSet(kind)
}
