// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package bpshaper

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ErrInterrupted says that something changed while the kernel listed: what was
// listed may lack some, or have some twice. List again.
var ErrInterrupted = errors.New("a change has interrupted the listing")

// EachQdisc calls f for each qdisc of kind bpshaper of the namespace, as the kernel
// lists them, so that the list is in no memory as a whole. An error of f ends the
// listing, is returned as it is, and closes the Conn: the kernel would have to list
// all the others before it answers anything else. f must not call methods of c, which
// would wait for this one for ever. If a device goes meanwhile, the kernel may leave out
// a qdisc of another device and not say so.
func (c *Conn) EachQdisc(f func(*Qdisc) error) error {
	return each(c, "list qdiscs", unix.RTM_GETQDISC, tcmsg(0, 0, 0).data, parseBpshaper, f)
}

// EachClass does the same for the classes of the bpshapers of a device. It reads
// past flows.
func (c *Conn) EachClass(ifindex int, f func(*Class) error) error {
	return each(c, "list classes", unix.RTM_GETTCLASS, tcmsg(ifindex, 0, 0).data,
		func(data []byte) (*Class, error) {
			class, _, err := parseClass(data)
			return class, err
		}, f)
}

// EachDevice does the same for the devices of the namespace.
func (c *Conn) EachDevice(f func(*Device) error) error {
	return each(c, "list devices", unix.RTM_GETLINK, devicesRequest(), parseDevice, f)
}

// each passes on each message of a listing. nl would read all that follow the one
// that f does not like, so the socket is closed below it.
func each[T any](c *Conn, what string, kind uint16, body []byte,
	parse func([]byte) (*T, error), f func(*T) error) error {
	var bad error

	r := nl.NewNetlinkRequest(int(kind), unix.NLM_F_DUMP)
	r.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: c.handle}
	r.AddRawData(body)
	err := r.ExecuteIter(unix.NETLINK_ROUTE, 0, func(data []byte) bool {
		var one *T

		if one, bad = parse(data); bad == nil && one != nil {
			bad = f(one)
		}
		if bad != nil {
			c.Close()
		}
		return bad == nil
	})
	switch {
	case bad != nil:
		return bad
	case errors.Is(err, nl.ErrDumpInterrupted):
		return ErrInterrupted
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
