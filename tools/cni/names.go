// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"net"
	"strings"

	"bpshaper.example/tools/owner"
)

const ifbPrefix = "bps"

// ifbName is the name of the attachment's ifb.
func ifbName(id owner.Identity) string {
	sum := sha256.Sum256(id[:])
	return ifbPrefix + hex.EncodeToString(sum[:6])
}

func isIfbName(name string) bool {
	digits, found := strings.CutPrefix(name, ifbPrefix)
	data, err := hex.DecodeString(digits)
	return found && err == nil && len(data) == 6
}

// ifbOfBandwidth is the name of the IFB that the plugin bandwidth makes for a container.
func ifbOfBandwidth(network, container string) string {
	sum := sha512.Sum512([]byte(network + container))
	return "bwp" + hex.EncodeToString(sum[:6])
}

const endPrefix = "bpshaper-"

// endName is an alternative name of the host's end of the attachment's veth. The kernel
// finds a device by it without a look at the others.
func endName(id owner.Identity) string { return endPrefix + hex.EncodeToString(id[:]) }

// identityOfEnd says which attachment a device with these alternative names belongs to.
func identityOfEnd(names []string) (id owner.Identity, ok bool) {
	for _, name := range names {
		digits, found := strings.CutPrefix(name, endPrefix)
		if id, ok = owner.ParseIdentity(digits); found && ok {
			return id, true
		}
	}
	return id, false
}

// macOf makes a device ours from the moment that it exists: an alias is set
// later, and a name alone may be anyone's.
func macOf(name string) net.HardwareAddr {
	sum := sha256.Sum256([]byte("bpshaper " + name))
	return append(net.HardwareAddr{0x02}, sum[:5]...)
}

// podOf is NAMESPACE/NAME of CNI_ARGS, which is KEY=VALUE;KEY=VALUE, or empty.
func podOf(args string) string {
	var namespace, name string

	for _, pair := range strings.Split(args, ";") {
		switch key, value, _ := strings.Cut(pair, "="); key {
		case "K8S_POD_NAMESPACE":
			namespace = value
		case "K8S_POD_NAME":
			name = value
		}
	}
	if namespace == "" || name == "" || strings.ContainsAny(namespace+name, " \t\n") {
		return ""
	}
	return namespace + "/" + name
}
