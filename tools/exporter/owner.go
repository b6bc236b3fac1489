// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"encoding/hex"
	"strings"

	"bpshaper.example/tools/bpshaper"
)

// owner is the pod whose traffic a qdisc or class has, as far as it is known.
// The CNI plugin writes it into the alias of a device, where the kernel keeps
// it.
type owner struct {
	container string
	ifname    string
	network   string
	namespace string
	pod       string
}

// place is a class of a device.
type place struct {
	device, class string
}

const aliasPrefix = "bpshaper "

// ownerOfAlias reads an alias of the plugin:
//
//	bpshaper ID IFNAME of CONTAINER in NETWORK
//		[class CLASS of DEVICE] [pod NAMESPACE/NAME]
//
// With a class, the device is the host's end of a veth, and what the pod sends
// goes to that class of another device. A name that has no room ends with ~ and a
// hash.
func ownerOfAlias(alias string) (o owner, class place, ok bool) {
	rest, found := strings.CutPrefix(alias, aliasPrefix)
	words := strings.Fields(rest)
	if !found || len(words) < 6 || words[2] != "of" || words[4] != "in" {
		return o, class, false
	}
	if _, err := hex.DecodeString(words[0]); err != nil {
		return o, class, false
	}
	o.ifname, o.container, o.network = words[1], words[3], words[5]
	words = words[6:]
	if len(words) >= 4 && words[0] == "class" && words[2] == "of" {
		class = place{device: words[3], class: words[1]}
		words = words[4:]
	}
	if len(words) >= 2 && words[0] == "pod" {
		o.namespace, o.pod, _ = strings.Cut(words[1], "/")
	}
	return o, class, true
}

// owners knows those of the devices, and of the classes, of one network
// namespace.
type owners struct {
	devices map[int]owner
	classes map[place]owner
}

// ownersOf reads the aliases. In another namespace than the host's they are
// not believed, as the pod can write there: a device has that of its peer on
// the host, where the kernel says in which namespace the other end is. The
// number of that namespace is id.
func ownersOf(devices, host []bpshaper.Device, id int) *owners {
	o := &owners{map[int]owner{}, map[place]owner{}}
	for i := range devices {
		found, class, ok := ownerOfAlias(devices[i].Alias)
		if !ok || host != nil {
			continue
		}
		o.devices[devices[i].Ifindex] = found
		if class.device != "" {
			o.classes[class] = found
		}
	}
	for i := range host {
		found, _, ok := ownerOfAlias(host[i].Alias)
		if ok && id >= 0 && host[i].PeerSpace == id {
			o.devices[host[i].Peer] = found
		}
	}
	return o
}
