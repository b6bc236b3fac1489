// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

// The CNI plugin bpshaper limits pods, as the plugin bandwidth does and with the
// same keys, and without losing packets of local sockets.
//
//	main.go      the commands
//	config.go    what the configuration says, and which of it is refused
//	names.go     how what belongs to an attachment is recognized in the kernel
//	host.go      one network namespace: devices and qdiscs
//	modules.go   which kernel modules are needed, and what to install
//	missing.go   a kernel without bpshaper, and tbf in its place
//	apply.go     limits are set, compared and removed
//	node.go      one ifb for the node, one class for each pod
//	collect.go   what belongs to no attachment is removed
//	install.go   the plugin and its configuration on a node of Kubernetes
//	conflist.go  what that configuration is
//
// The kernel is the only memory: no file says what was set. A lock makes
// commands wait for each other.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
	"golang.org/x/sys/unix"
)

// Set by the Makefile.
var release = "(no version)"

// logf writes a line for the log of the runtime.
func logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bpshaper: "+format+"\n", args...)
}

func main() {
	// To clear a huge page takes longer than the few small ones that are used.
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)
	if len(os.Args) > 1 {
		if err := nodeMain(os.Args[1:]); err != nil {
			logf("%v", err)
			os.Exit(1)
		}
		return
	}
	skel.PluginMainFuncs(skel.CNIFuncs{
		Add:    add,
		Check:  check,
		Del:    del,
		GC:     gc,
		Status: status,
	}, version.VersionsStartingFrom("0.3.0"), "CNI plugin bpshaper "+release)
}

// chained opens the attachment of a command behind another plugin. If there is
// nothing to limit, there is none.
func chained(args *skel.CmdArgs) (*attachment, *config, error) {
	conf, err := parseConfig(args.StdinData)
	if err != nil {
		return nil, nil, err
	}
	if conf.PrevResult == nil {
		return nil, nil, invalid(errors.New("must be called as a chained plugin, " +
			"behind one that makes an interface"))
	}
	if conf.isEmpty() {
		return nil, conf, nil
	}
	a, err := attachmentOpen(conf, args)
	return a, conf, err
}

func add(args *skel.CmdArgs) error {
	a, conf, err := chained(args)
	if err != nil {
		return err
	}
	if a == nil {
		return types.PrintResult(conf.PrevResult, conf.CNIVersion)
	}
	defer a.close()
	kind, err := conf.shaper()
	if err != nil {
		return conf.explained(err)
	}
	ifb, err := a.apply(kind)
	if err != nil {
		// What was set goes again. The runtime calls DEL as well.
		if undo := a.remove(); undo != nil {
			logf("after a failed ADD: %v", undo)
		}
		return conf.explained(err)
	}
	result := a.result
	if ifb != nil {
		result.Interfaces = append(result.Interfaces, &current.Interface{
			Name: ifb.Attrs().Name, Mac: ifb.Attrs().HardwareAddr.String()})
	}
	return types.PrintResult(result, conf.CNIVersion)
}

func check(args *skel.CmdArgs) error {
	a, _, err := chained(args)
	if err != nil {
		return err
	}
	if a == nil {
		return nil
	}
	defer a.close()
	return a.check()
}

// del needs neither the pod's namespace nor prevResult, nor valid keys: what
// cannot be read is not there any more, or goes with its device.
func del(args *skel.CmdArgs) error {
	conf, err := parseForRemoval(args.StdinData)
	if err != nil {
		return err
	}
	a, err := attachmentOpenForRemoval(conf, args)
	if err != nil {
		return err
	}
	defer a.close()
	return errors.Join(a.remove(), a.bandwidthRemove())
}

func gc(args *skel.CmdArgs) error {
	conf, err := parseForRemoval(args.StdinData)
	if err != nil {
		return err
	}
	valid, err := parseValid(args.StdinData)
	if err != nil {
		return err
	}
	return collect(conf.Name, valid)
}

// status fails if ADD of any pod would, because the kernel cannot shape. A runtime keeps
// all pods from a node whose plugin fails here, also those that need no limit.
func status(args *skel.CmdArgs) error {
	conf, err := parseConfig(args.StdinData)
	if err != nil {
		return err
	}
	if !conf.limitsAll || conf.isLoaded() {
		return nil
	}
	kind, err := conf.shaper()
	if err == nil && kind != "" {
		err = probe(func(s *space) error { return conf.tryAll(s, kind) })
	}
	if err != nil {
		return types.NewError(errUnavailable, "bpshaper cannot shape",
			conf.explained(err).Error())
	}
	return nil
}
