// SPDX-License-Identifier: GPL-2.0-only

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
	return c.each("list qdiscs", unix.RTM_GETQDISC, tcmsg(0, 0, 0).data,
		func(data []byte) error {
			q, err := parseQdisc(data)
			if err != nil || q.Kind != Kind {
				return err
			}
			return f(q)
		})
}

// EachClass does the same for the classes of the bpshapers of a device. It reads
// past flows.
func (c *Conn) EachClass(ifindex int, f func(*Class) error) error {
	return c.each("list classes", unix.RTM_GETTCLASS, tcmsg(ifindex, 0, 0).data,
		func(data []byte) error {
			class, _, err := parseClass(data)
			if err != nil || class == nil {
				return err
			}
			return f(class)
		})
}

// EachDevice does the same for the devices of the namespace.
func (c *Conn) EachDevice(f func(*Device) error) error {
	return c.each("list devices", unix.RTM_GETLINK, devicesRequest(),
		func(data []byte) error {
			d, err := parseDevice(data)
			if err != nil {
				return err
			}
			return f(d)
		})
}

// each passes on each message of a listing. nl would read all that follow the one
// that f does not like, so the socket is closed below it.
func (c *Conn) each(what string, kind uint16, body []byte, f func([]byte) error) error {
	var bad error

	r := nl.NewNetlinkRequest(int(kind), unix.NLM_F_DUMP)
	r.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: c.handle}
	r.AddRawData(body)
	err := r.ExecuteIter(unix.NETLINK_ROUTE, 0, func(data []byte) bool {
		if bad = f(data); bad != nil {
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
