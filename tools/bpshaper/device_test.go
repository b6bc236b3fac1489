// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package bpshaper

import (
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
	if err != nil || *d != (Device{7, "veth7", "a name", 2, -1}) {
		t.Errorf("%+v, %v", d, err)
	}
	b.u32(unix.IFLA_LINK_NETNSID, 5)
	if d, err = parseDevice(b.data); err != nil || d.PeerSpace != 5 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := parseDevice(make([]byte, 15)); err == nil {
		t.Error("a short message is accepted")
	}
}
