// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

// bpgc calls GC of a network as a runtime does, by libcni
//
// usage: bpgc NETWORK [CONTAINER...]
//
// The attachments that are valid are eth0 of these containers. cnitool of libcni has
// the command as well, but says nothing of valid ones. CNI_PATH and NETCONFPATH are
// as for cnitool.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
)

func run(network string, containers []string) error {
	list, err := libcni.LoadNetworkConf(os.Getenv("NETCONFPATH"), network)
	if err != nil {
		return err
	}
	args := &libcni.GCArgs{ValidAttachments: []types.GCAttachment{}}
	for _, container := range containers {
		args.ValidAttachments = append(args.ValidAttachments,
			types.GCAttachment{ContainerID: container, IfName: "eth0"})
	}
	cni := libcni.NewCNIConfig(filepath.SplitList(os.Getenv("CNI_PATH")), nil)
	return cni.GCNetworkList(context.Background(), list, args)
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: bpgc NETWORK [CONTAINER...]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
