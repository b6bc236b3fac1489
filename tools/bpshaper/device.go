// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package bpshaper

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Device is what a name and an owner of a qdisc are found by.
type Device struct {
	Ifindex int
	Name    string
	Alias   string
	Peer    int // ifindex of the other end of a veth
	// PeerSpace is the network namespace of that by its number in this one, or
	// -1 if it is this one.
	PeerSpace int
	// XDP says that the device has an XDP program, which takes what arrives from
	// its socket.
	XDP bool
	// GRO is not said by netlink: see Offloads.HasGRO.
	GRO bool
}

// Of linux/rtnetlink.h. Statistics are most of what a device has to say.
const filterSkipStats = 1 << 3

// IFLA_XDP_ATTACHED, of linux/if_link.h: 0 is none.
const xdpAttached = 2

func devicesRequest() []byte {
	b := &builder{make([]byte, unix.SizeofIfInfomsg)}
	b.u32(unix.IFLA_EXT_MASK, filterSkipStats)
	return b.data
}

// Devices lists those of the namespace.
func (c *Conn) Devices() ([]Device, error) {
	return list(c, "list devices", unix.RTM_GETLINK, devicesRequest(), parseDevice)
}

func parseDevice(data []byte) (*Device, error) {
	if len(data) < unix.SizeofIfInfomsg {
		return nil, errShort
	}
	d := &Device{Ifindex: int(int32(native.Uint32(data[4:]))), PeerSpace: -1}
	return d, attrs(data[unix.SizeofIfInfomsg:], func(number uint16, value []byte) error {
		switch number {
		case unix.IFLA_IFNAME:
			d.Name = cString(value)
		case unix.IFLA_IFALIAS:
			d.Alias = cString(value)
		case unix.IFLA_LINK:
			d.Peer = int((&reader{value}).u32())
		case unix.IFLA_LINK_NETNSID:
			d.PeerSpace = int(int32((&reader{value}).u32()))
		case unix.IFLA_XDP:
			return attrs(value, func(number uint16, value []byte) error {
				if number == xdpAttached {
					d.XDP = len(value) != 0 && value[0] != 0
				}
				return nil
			})
		}
		return nil
	})
}

// Offloads asks for what ethtool says.
type Offloads struct{ fd int }

// OpenOffloads is of the network namespace of the thread.
func OpenOffloads() (*Offloads, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("ask for offloads: %w", err)
	}
	return &Offloads{fd}, nil
}

// Close ends it.
func (o *Offloads) Close() error { return unix.Close(o.fd) }

// HasGRO says that the device puts packets together that arrive, which takes TCP that was sent
// without TSO from its socket. It is false if the device does not tell.
func (o *Offloads) HasGRO(device string) bool {
	value := struct{ command, data uint32 }{command: unix.ETHTOOL_GGRO}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte // what else a struct ifreq may have
	}{data: unsafe.Pointer(&value)}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	_, _, err := unix.Syscall(unix.SYS_IOCTL, uintptr(o.fd), unix.SIOCETHTOOL,
		uintptr(unsafe.Pointer(&request)))
	return err == 0 && value.data != 0
}

// ParseDevice reads the body of an RTM_NEWLINK that was received or recorded
// elsewhere.
func ParseDevice(data []byte) (*Device, error) { return parseDevice(data) }

// ParseQdisc reads the body of an RTM_NEWQDISC.
func ParseQdisc(data []byte) (*Qdisc, error) { return parseQdisc(data) }

// ParseClass reads the body of an RTM_NEWTCLASS. It returns a class, a flow, or
// neither if the kind is another one.
func ParseClass(data []byte) (*Class, *Flow, error) { return parseClass(data) }
