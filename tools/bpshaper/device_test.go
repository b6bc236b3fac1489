// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package bpshaper

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDevice(t *testing.T) {
	b := &builder{make([]byte, unix.SizeofIfInfomsg)}
	native.PutUint32(b.data[4:], 7)
	b.text(unix.IFLA_IFNAME, "veth7")
	b.text(unix.IFLA_IFALIAS, "a name")
	b.u32(unix.IFLA_LINK, 2)
	d, err := parseDevice(b.data)
	if err != nil || *d != (Device{Ifindex: 7, Name: "veth7", Alias: "a name", Peer: 2, PeerSpace: -1}) {
		t.Errorf("%+v, %v", d, err)
	}
	b.u32(unix.IFLA_LINK_NETNSID, 5)
	if d, err = parseDevice(b.data); err != nil || d.PeerSpace != 5 {
		t.Errorf("%+v, %v", d, err)
	}
	for attached, is := range map[byte]bool{0: false, 1: true} {
		xdp := &builder{}
		xdp.attr(xdpAttached, []byte{attached})
		one := &builder{slices.Clone(b.data)}
		one.attr(unix.IFLA_XDP|unix.NLA_F_NESTED, xdp.data)
		if d, err = parseDevice(one.data); err != nil || d.XDP != is {
			t.Errorf("%d: %+v, %v", attached, d, err)
		}
	}
	if _, err := parseDevice(make([]byte, 15)); err == nil {
		t.Error("a short message is accepted")
	}
}
