// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
)

// identity says which attachment something in the kernel belongs to: the first
// half is the network, the second the container and its interface. It is the
// cookie of a filter's action, and in the alias of an ifb.
type identity [16]byte

func identityOf(network, container, ifname string) identity {
	var id identity

	a := sha256.Sum256([]byte(network))
	b := sha256.Sum256([]byte(container + "\x00" + ifname))
	copy(id[:8], a[:])
	copy(id[8:], b[:])
	return id
}

func (id identity) isOfNetwork(network string) bool {
	other := identityOf(network, "", "")
	return bytes.Equal(id[:8], other[:8])
}

const ifbPrefix = "bps"

// ifbName is the name of the attachment's ifb.
func (id identity) ifbName() string {
	sum := sha256.Sum256(id[:])
	return ifbPrefix + hex.EncodeToString(sum[:6])
}

func isIfbName(name string) bool {
	digits, found := strings.CutPrefix(name, ifbPrefix)
	data, err := hex.DecodeString(digits)
	return found && err == nil && len(data) == 6
}

// macOf makes a device ours from the moment that it exists: an alias is set
// later, and a name alone may be anyone's.
func macOf(name string) net.HardwareAddr {
	sum := sha256.Sum256([]byte("bpshaper " + name))
	return append(net.HardwareAddr{0x02}, sum[:5]...)
}

const aliasPrefix = "bpshaper "

// aliasMost is what the kernel has room for: IFALIASZ of linux/if.h, less one.
const aliasMost = 255

// alias is for people and for bpshaper-exporter, but for its second word, which
// is ours. class and pod may be empty. What is before the pod has 161 bytes at most,
// so a namespace of 63 is whole, and with a usual network and class a name of 63.
func (id identity) alias(network, container, ifname, class, pod string) string {
	text := fmt.Sprintf("%s%x %s of %s in %s", aliasPrefix, id[:], ifname,
		shortID(container), shortened(network, 32))
	if class != "" {
		text += " class " + class
	}
	if pod != "" {
		text += " pod "
		text += shortened(pod, aliasMost-len(text))
	}
	return text
}

// shortID is as much of a container's id as people read and type.
func shortID(container string) string {
	data, err := hex.DecodeString(container)
	if err == nil && len(data) == 32 {
		return container[:12]
	}
	return shortened(container, 32)
}

// shortened ends with ~ and a hash if there is no room for the whole. ~ is in no
// name of Kubernetes or of CNI, and the hash tells apart what begins alike.
func shortened(name string, most int) string {
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	mark := fmt.Sprintf("~%x", sum[:4])
	return name[:most-len(mark)] + mark
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

// identityOfAlias reads it again. No identity: the ADD that made the device was
// killed before it had one.
func identityOfAlias(alias string) (id identity, ok bool) {
	rest, found := strings.CutPrefix(alias, aliasPrefix)
	word, _, _ := strings.Cut(rest, " ")
	data, err := hex.DecodeString(word)
	if !found || err != nil || len(data) != len(id) {
		return id, false
	}
	return identity(data), true
}
