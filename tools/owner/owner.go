// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

// Package owner says in the alias of a device whose it is, and reads that again. The
// CNI plugin writes it, where the kernel keeps it; bpshaper-exporter and
// bpshaper-agent read it.
package owner

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"bpshaper.example/tools/bpshaper"
)

// RootHandle is the number of each bpshaper of the plugin.
var RootHandle = bpshaper.MakeHandle(1, 0)

// Identity says which attachment something in the kernel belongs to: the first
// half is the network, the second the container and its interface. It is the
// cookie of a filter's action, in the alias of an ifb, and in a name of the host's end
// of a veth.
type Identity [16]byte

// IdentityOf makes that of an attachment.
func IdentityOf(network, container, ifname string) Identity {
	var id Identity

	a := sha256.Sum256([]byte(network))
	b := sha256.Sum256([]byte(container + "\x00" + ifname))
	copy(id[:8], a[:])
	copy(id[8:], b[:])
	return id
}

// IsOfNetwork says whether the attachment is one of that network.
func (id Identity) IsOfNetwork(network string) bool {
	other := IdentityOf(network, "", "")
	return bytes.Equal(id[:8], other[:8])
}

// Prefix is how each alias of the plugin begins.
const Prefix = "bpshaper "

// aliasMost is what the kernel has room for: IFALIASZ of linux/if.h, less one.
const aliasMost = 255

// Alias is for people and for programs that read it with Of, but for its second
// word, which is the plugin's. class is "1:N of DEVICE"; it and pod may be empty.
// What is before the pod has 161 bytes at most, so a namespace of 63 is whole, and
// with a usual network and class a name of 63.
func (id Identity) Alias(network, container, ifname, class, pod string) string {
	text := fmt.Sprintf("%s%x %s of %s in %s", Prefix, id[:], ifname,
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

// IsShort says whether this is what an alias has of the name.
func IsShort(short, name string) bool { return shortened(name, len(short)) == short }

// IdentityOfAlias reads the second word again. No identity: the ADD that made the
// device was killed before it had one.
func IdentityOfAlias(alias string) (id Identity, ok bool) {
	rest, found := strings.CutPrefix(alias, Prefix)
	word, _, _ := strings.Cut(rest, " ")
	id, ok = ParseIdentity(word)
	return id, ok && found
}

// ParseIdentity reads hexadecimal digits.
func ParseIdentity(digits string) (id Identity, ok bool) {
	data, err := hex.DecodeString(digits)
	if err != nil || len(data) != len(id) {
		return id, false
	}
	return Identity(data), true
}

// Owner is the pod whose traffic a qdisc or class has, as far as it is known.
type Owner struct {
	Container string
	Ifname    string
	Network   string
	Namespace string
	Pod       string
}

// Place is a class of a device.
type Place struct {
	Device, Class string
}

// Of reads an alias of the plugin:
//
//	bpshaper ID IFNAME of CONTAINER in NETWORK
//		[class CLASS of DEVICE] [pod NAMESPACE/NAME]
//
// With a class, the device is the host's end of a veth, and what the pod sends
// goes to that class of another device. A name that has no room ends with ~ and a
// hash.
func Of(alias string) (o Owner, class Place, ok bool) {
	rest, found := strings.CutPrefix(alias, Prefix)
	words := strings.Fields(rest)
	if !found || len(words) < 6 || words[2] != "of" || words[4] != "in" {
		return o, class, false
	}
	if _, err := hex.DecodeString(words[0]); err != nil {
		return o, class, false
	}
	o.Ifname, o.Container, o.Network = words[1], words[3], words[5]
	words = words[6:]
	if len(words) >= 4 && words[0] == "class" && words[2] == "of" {
		class = Place{Device: words[3], Class: words[1]}
		words = words[4:]
	}
	if len(words) >= 2 && words[0] == "pod" {
		o.Namespace, o.Pod, _ = strings.Cut(words[1], "/")
	}
	return o, class, true
}
