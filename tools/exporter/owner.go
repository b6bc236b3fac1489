// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"bpshaper.example/tools/bpshaper"
	"bpshaper.example/tools/owner"
)

// owners knows those of the devices, and of the classes, of one network
// namespace.
type owners struct {
	devices map[int]owner.Owner
	classes map[owner.Place]owner.Owner
}

// ownersOf reads the aliases. In another namespace than the host's they are
// not believed, as the pod can write there: a device has that of its peer on
// the host, where the kernel says in which namespace the other end is. The
// number of that namespace is id.
func ownersOf(devices, host []bpshaper.Device, id int) *owners {
	o := &owners{map[int]owner.Owner{}, map[owner.Place]owner.Owner{}}
	for i := range devices {
		found, class, ok := owner.Of(devices[i].Alias)
		if !ok || host != nil {
			continue
		}
		o.devices[devices[i].Ifindex] = found
		if class.Device != "" {
			o.classes[class] = found
		}
	}
	for i := range host {
		found, _, ok := owner.Of(host[i].Alias)
		if ok && id >= 0 && host[i].PeerSpace == id {
			o.devices[host[i].Peer] = found
		}
	}
	return o
}
