// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"testing"

	"bpshaper.example/tools/bpshaper"
)

const id = "bpshaper 00112233445566778899aabbccddeeff "

// A class of an ifb belongs to the pod whose veth names it, and the veth of a
// pod in another namespace to the one that its peer on the host names.
func TestOwners(t *testing.T) {
	node := many(t, 2)
	node.devices = []bpshaper.Device{{Ifindex: 1, Name: "node0", PeerSpace: -1},
		{Ifindex: 7, Name: "veth7", Peer: 1, PeerSpace: 5, Alias: id +
			"eth0 of c0ffee in podnet class 1a:1 of node0 pod prod/web-1"}}
	pod := kernel(t)
	lie := id + "eth0 of liar in podnet pod prod/liar"
	pod.devices = []bpshaper.Device{{Ifindex: 1, Name: "eth0", Peer: 7, Alias: lie}}
	// Its device has the same number and names the same peer.
	stranger := kernel(t)
	stranger.devices = pod.devices
	number := func(id int) func() int { return func() int { return id } }
	found := gather(t, collectorOf(native, space{"", opens(node), noID},
		space{"pod", opens(pod), number(5)}, space{"stranger", opens(stranger), number(6)},
		space{"unknown", opens(stranger), noID}))
	expect(t, found, "bpshaper_class_throttled_sockets"+
		"{class=1a:1,device=node0,pod_name=web-1,pod_namespace=prod}", 0)
	expect(t, found, "bpshaper_class_throttled_sockets{class=1a:2,device=node0}", 0)
	expect(t, found, "bpshaper_pod_info{class=1a:1,container_id=c0ffee,device=node0,"+
		"interface=eth0,network=podnet,pod_name=web-1,pod_namespace=prod}", 1)
	expect(t, found, "bpshaper_qdisc_throttled_sockets{device=eth0,handle=1a:,"+
		"netns=pod,parent=root,pod_name=web-1,pod_namespace=prod}", 1)
	expect(t, found, "bpshaper_qdisc_throttled_sockets{device=eth0,handle=1a:,"+
		"netns=stranger,parent=root}", 1)
	expect(t, found, "bpshaper_qdisc_throttled_sockets{device=eth0,handle=1a:,"+
		"netns=unknown,parent=root}", 1)
}

// A pod names its devices, and the kernel cuts an alias in the midst of a letter.
func TestNamesAreText(t *testing.T) {
	pod := many(t, 1)
	pod.devices = []bpshaper.Device{{Ifindex: 1, Name: "e\xff\"0", Alias: id +
		"eth0 of c0ffee in podnet pod prod/web\xc3"}}
	found := gather(t, collectorOf(native, space{"", opens(pod), noID}))
	value(t, found, `bpshaper_class_throttled_sockets{class=1a:1,device=e\xff\"0}`)
	expect(t, found, `bpshaper_pod_info{container_id=c0ffee,device=e\xff\"0,handle=1a:,`+
		`interface=eth0,network=podnet,parent=root,pod_name=web\xc3,pod_namespace=prod}`, 1)
}
