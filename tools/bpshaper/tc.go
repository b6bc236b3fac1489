// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package bpshaper

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Handle is the number of a qdisc or class: 1:10 is 0x10010.
type Handle uint32

// Root is the parent of the root qdisc of a device, and Ingress that of a clsact or
// ingress.
const (
	Root    Handle = 0xffffffff
	Ingress Handle = 0xfffffff1
)

// MakeHandle returns major:minor.
func MakeHandle(major, minor uint16) Handle {
	return Handle(major)<<16 | Handle(minor)
}

// Major returns the number before the colon.
func (h Handle) Major() uint16 { return uint16(h >> 16) }

// Minor returns the number behind the colon.
func (h Handle) Minor() uint16 { return uint16(h) }

// String returns the number as tc has it.
func (h Handle) String() string {
	if h == Root {
		return "root"
	}
	if h.Minor() == 0 {
		return fmt.Sprintf("%x:", h.Major())
	}
	return fmt.Sprintf("%x:%x", h.Major(), h.Minor())
}

// Counters are what the kernel counts for any qdisc and class.
type Counters struct {
	Bytes      uint64 `json:"bytes"`
	Packets    uint64 `json:"packets"`
	Drops      uint32 `json:"drops"`
	Overlimits uint32 `json:"overlimits"`
	Requeues   uint32 `json:"requeues"`
	Qlen       uint32 `json:"qlen"`    // packets queued now
	Backlog    uint32 `json:"backlog"` // bytes queued now
}

// Qdisc is a qdisc of a device. Of another kind than bpshaper it has no Options
// and no Stats.
type Qdisc struct {
	Ifindex  int
	Handle   Handle // 0: the kernel chooses one
	Parent   Handle
	Kind     string
	Options  Options
	Counters Counters
	Stats    Stats
}

// Class is a class that was added.
type Class struct {
	Ifindex  int
	Handle   Handle
	Parent   Handle
	Options  ClassOptions
	Counters Counters
	Stats    ClassStats
}

// Flow is a flow with a backlog. Its Handle is that of the qdisc, Parent the class that it is
// in, or the qdisc.
type Flow struct {
	Ifindex  int
	Handle   Handle
	Parent   Handle
	Counters Counters
	Stats    FlowStats
}

// Peer is the destination of the next packet, if it is known.
func (f *Flow) Peer() (peer netip.AddrPort, ok bool) {
	switch f.Stats.PeerFamily {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(f.Stats.Peer[:4])),
			htons(f.Stats.PeerPort)), true
	case unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16(f.Stats.Peer),
			htons(f.Stats.PeerPort)), true
	}
	return peer, false
}

// String returns the name of the state.
func (s FlowState) String() string {
	if int(s) < len(flowStates) {
		return flowStates[s]
	}
	return fmt.Sprintf("state %d", uint32(s))
}

// --- requests

const (
	flagsAdd     = unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_EXCL
	flagsChange  = unix.NLM_F_ACK
	flagsReplace = unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_REPLACE
)

func tcmsg(ifindex int, handle, parent Handle) *builder {
	b := &builder{make([]byte, 4, 128)}
	b.data = native.AppendUint32(b.data, uint32(ifindex))
	b.data = native.AppendUint32(b.data, uint32(handle))
	b.data = native.AppendUint32(b.data, uint32(parent))
	b.data = native.AppendUint32(b.data, 0)
	return b
}

func (q *Qdisc) message() []byte {
	return optionsMessage(q.Ifindex, q.Handle, q.Parent, &q.Options)
}

func (c *Class) message() []byte {
	return optionsMessage(c.Ifindex, c.Handle, c.Parent, &c.Options)
}

func optionsMessage(ifindex int, handle, parent Handle, options any) []byte {
	b := tcmsg(ifindex, handle, parent)
	b.text(nl.TCA_KIND, Kind)
	b.nest(nl.TCA_OPTIONS, func(b *builder) { optionsEncode(options, b) })
	return b.data
}

func (c *Conn) qdisc(what string, flags int, q *Qdisc) error {
	_, err := c.request(unix.RTM_NEWQDISC, flags, q.message())
	return moduleError(what+" qdisc "+Kind, err)
}

// AddQdisc adds a bpshaper, and fails if there is a qdisc. Kind is not looked
// at, by none of these.
func (c *Conn) AddQdisc(q Qdisc) error { return c.qdisc("add", flagsAdd, &q) }

// ChangeQdisc changes the options that are set. No packet is lost.
func (c *Conn) ChangeQdisc(q Qdisc) error {
	return c.qdisc("change", flagsChange, &q)
}

// ReplaceQdisc changes a bpshaper, or else replaces the qdisc that is there.
func (c *Conn) ReplaceQdisc(q Qdisc) error {
	return c.qdisc("replace", flagsReplace, &q)
}

// DeleteQdisc deletes a qdisc of any kind. One that is not there is an error
// that wraps ENOENT or EINVAL.
func (c *Conn) DeleteQdisc(ifindex int, handle, parent Handle) error {
	_, err := c.request(unix.RTM_DELQDISC, unix.NLM_F_ACK,
		tcmsg(ifindex, handle, parent).data)
	if err != nil {
		return fmt.Errorf("delete qdisc %s: %w", handle, err)
	}
	return nil
}

func (c *Conn) class(what string, flags int, class *Class) error {
	_, err := c.request(unix.RTM_NEWTCLASS, flags, class.message())
	if err != nil {
		return fmt.Errorf("%s class %s: %w", what, class.Handle, err)
	}
	return nil
}

// AddClass adds a class, and fails if it is there.
func (c *Conn) AddClass(class Class) error {
	return c.class("add", flagsAdd, &class)
}

// ChangeClass changes the options that are set.
func (c *Conn) ChangeClass(class Class) error {
	return c.class("change", flagsChange, &class)
}

// ReplaceClass adds a class, or changes the one that is there.
func (c *Conn) ReplaceClass(class Class) error {
	return c.class("replace", unix.NLM_F_ACK|unix.NLM_F_CREATE, &class)
}

// DeleteClass deletes a class. Its packets are purged.
func (c *Conn) DeleteClass(ifindex int, handle Handle) error {
	_, err := c.request(unix.RTM_DELTCLASS, unix.NLM_F_ACK,
		tcmsg(ifindex, handle, 0).data)
	if err != nil {
		return fmt.Errorf("delete class %s: %w", handle, err)
	}
	return nil
}

// --- listings

// list parses each message of a listing. Nothing is listed of one without a result.
func list[T any](c *Conn, what string, kind uint16, body []byte,
	parse func([]byte) (*T, error)) ([]T, error) {
	var all []T

	answers, err := c.request(kind, unix.NLM_F_DUMP, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	for _, data := range answers {
		one, err := parse(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		if one != nil {
			all = append(all, *one)
		}
	}
	return all, nil
}

// Qdiscs lists those of kind bpshaper, of all devices of the namespace. The kernel may
// leave one out, and does not say so, if a device goes meanwhile.
func (c *Conn) Qdiscs() ([]Qdisc, error) {
	return list(c, "list qdiscs", unix.RTM_GETQDISC, tcmsg(0, 0, 0).data, parseBpshaper)
}

// DeviceQdisc returns the qdisc of any kind that somebody has added to a device
// below parent, which is Root, or Ingress for a clsact or ingress. It is nil if there
// is none. In contrast to a listing it never misses one.
func (c *Conn) DeviceQdisc(ifindex int, parent Handle) (*Qdisc, error) {
	// The answer is an echo of a notification.
	answers, err := c.request(unix.RTM_GETQDISC, unix.NLM_F_ECHO|unix.NLM_F_ACK,
		tcmsg(ifindex, 0, parent).data)
	// The kernel does not show its own ones: it gives an error, or nothing at all.
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) ||
		err == nil && len(answers) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get qdisc: %w", err)
	}
	q, err := parseQdisc(answers[0])
	if err != nil {
		return nil, fmt.Errorf("get qdisc: %w", err)
	}
	if q.Handle == 0 {
		return nil, nil
	}
	return q, nil
}

// Classes lists the classes of the bpshapers of a device, and the flows.
func (c *Conn) Classes(ifindex int) ([]Class, []Flow, error) {
	var flows []Flow

	classes, err := list(c, "list classes", unix.RTM_GETTCLASS, tcmsg(ifindex, 0, 0).data,
		func(data []byte) (*Class, error) {
			class, flow, err := parseClass(data)
			if flow != nil {
				flows = append(flows, *flow)
			}
			return class, err
		})
	return classes, flows, err
}

// message is a parsed RTM_NEWQDISC or RTM_NEWTCLASS.
type message struct {
	ifindex        int
	handle, parent Handle
	info           uint32
	kind           string
	options        []byte
	app            []byte
	counters       Counters
}

var errShort = errors.New("the kernel's message is too short")

func parseMessage(data []byte) (*message, error) {
	var m message

	if len(data) < 20 {
		return nil, errShort
	}
	m.ifindex = int(int32(native.Uint32(data[4:])))
	m.handle = Handle(native.Uint32(data[8:]))
	m.parent = Handle(native.Uint32(data[12:]))
	m.info = native.Uint32(data[16:])
	return &m, attrs(data[20:], func(number uint16, value []byte) error {
		switch number {
		case nl.TCA_KIND:
			m.kind = cString(value)
		case nl.TCA_OPTIONS:
			m.options = value
		case nl.TCA_STATS2:
			return attrs(value, m.statistics)
		}
		return nil
	})
}

// Of enum gnet_stats in linux/gen_stats.h.
const (
	statsBasic = 1
	statsQueue = 3
	statsApp   = 4
	statsPkt64 = 8
)

func (m *message) statistics(number uint16, value []byte) error {
	r := &reader{value}
	switch number {
	case statsBasic:
		m.counters.Bytes = r.u64()
		m.counters.Packets = uint64(r.u32())
	case statsPkt64:
		m.counters.Packets = r.u64()
	case statsQueue:
		m.counters.Qlen = r.u32()
		m.counters.Backlog = r.u32()
		m.counters.Drops = r.u32()
		m.counters.Requeues = r.u32()
		m.counters.Overlimits = r.u32()
	case statsApp:
		m.app = value
	}
	return nil
}

func parseQdisc(data []byte) (*Qdisc, error) {
	m, err := parseMessage(data)
	if err != nil {
		return nil, err
	}
	q := &Qdisc{Ifindex: m.ifindex, Handle: m.handle, Parent: m.parent,
		Kind: m.kind, Counters: m.counters}
	if m.kind != Kind {
		return q, nil
	}
	statsDecode(&q.Stats, m.app)
	return q, optionsDecode(&q.Options, m.options)
}

// parseBpshaper returns nothing for a qdisc of another kind.
func parseBpshaper(data []byte) (*Qdisc, error) {
	q, err := parseQdisc(data)
	if err != nil || q.Kind != Kind {
		return nil, err
	}
	return q, nil
}

// parseClass returns a class, a flow, or neither if the kind is another one.
func parseClass(data []byte) (*Class, *Flow, error) {
	m, err := parseMessage(data)
	if err != nil || m.kind != Kind {
		return nil, nil, err
	}
	if (&reader{m.app}).u32() == xstatsClass {
		f := &Flow{Ifindex: m.ifindex, Handle: m.handle, Parent: m.parent,
			Counters: m.counters}
		statsDecode(&f.Stats, m.app)
		return nil, f, nil
	}
	c := &Class{Ifindex: m.ifindex, Handle: m.handle, Parent: m.parent,
		Counters: m.counters}
	statsDecode(&c.Stats, m.app)
	return c, nil, optionsDecode(&c.Options, m.options)
}
