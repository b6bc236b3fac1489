// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

// Package bpshaper sets up qdiscs of kind bpshaper and their classes, reads
// their statistics, and says when they change, over rtnetlink and without tc.
//
// A Conn belongs to one network namespace:
//
//	c, err := bpshaper.Open()
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	err = c.ReplaceQdisc(bpshaper.Qdisc{
//		Ifindex: ifindex,
//		Parent:  bpshaper.Root,
//		Options: bpshaper.Options{Rate: bpshaper.To[uint64](25_000_000)},
//	})
//
// Units are those of the kernel: bytes, bytes per second, nanoseconds. ParseRate
// and ParseTime read what people write. Options and statistics are generated
// from Documentation/netlink/bpshaper.yaml; tc-bpshaper(8) has what each means, with
// ranges and defaults. What the kernel reports and this package does not know is
// left out, and what it does not report is zero.
package bpshaper

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Kind is the name of the qdisc, and of its classes.
const Kind = "bpshaper"

// Module is the name of the kernel module.
const Module = "sch_bpshaper"

// ErrNoModule says that the kernel has no bpshaper, and could not load it.
var ErrNoModule = errors.New("the kernel module " + Module +
	" is not loaded, and the kernel could not load it")

// To returns a pointer to the value, for Options.
func To[T any](value T) *T { return &value }

// Conn is a netlink socket of one network namespace. Its methods may be called
// by several goroutines at a time.
type Conn struct {
	handle *nl.SocketHandle
}

// Open opens a Conn in the network namespace of the calling thread.
func Open() (*Conn, error) { return OpenAt(netns.None()) }

// OpenPath opens a Conn in the network namespace that is mounted at a path, as
// /run/netns/NAME or /proc/PID/ns/net.
func OpenPath(path string) (*Conn, error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", path, err)
	}
	defer ns.Close()
	return OpenAt(ns)
}

// OpenAt opens a Conn in a network namespace.
func OpenAt(ns netns.NsHandle) (*Conn, error) {
	socket, err := nl.GetNetlinkSocketAt(ns, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	timeout := unix.Timeval{Sec: 60}
	if err := errors.Join(socket.SetSendTimeout(&timeout),
		socket.SetReceiveTimeout(&timeout), socket.SetExtAck(true)); err != nil {
		socket.Close()
		return nil, fmt.Errorf("set up netlink socket: %w", err)
	}
	return &Conn{&nl.SocketHandle{Socket: socket}}, nil
}

// Close closes the socket.
func (c *Conn) Close() { c.handle.Close() }

// request sends a message and returns what the kernel answers. A dump that was
// interrupted by a change is repeated.
func (c *Conn) request(kind uint16, flags int, body []byte) ([][]byte, error) {
	var answer [][]byte
	var err error

	for try := 0; try < 10; try++ {
		r := nl.NewNetlinkRequest(int(kind), flags)
		r.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: c.handle}
		r.AddRawData(body)
		answer, err = r.Execute(unix.NETLINK_ROUTE, 0)
		if !errors.Is(err, nl.ErrDumpInterrupted) {
			break
		}
	}
	return answer, err
}

// moduleError replaces the error of a kernel that does not know the qdisc, or
// adds what was being done to another one.
func moduleError(what string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, unix.ENOENT) && !Loaded() {
		return fmt.Errorf("%s: %w (%w)", what, ErrNoModule, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Loaded says whether the kernel module is loaded.
func Loaded() bool {
	_, err := os.Stat("/sys/module/" + Module)
	return err == nil
}
