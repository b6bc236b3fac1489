// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package bpshaper

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Redirect is a filter that sends all that a device receives to another device,
// as one of kind ifb that shapes it. At the host's end of a veth that is what a
// container sends, and it still brings its socket along.
type Redirect struct {
	Ifindex int
	To      int      // ifindex of the other device; 0 if it has gone
	Class   Handle   // of the bpshaper there; 0 leaves it to its filters
	Cookie  [16]byte // kept by the kernel, to recognize it by
}

const (
	clsactHandle  Handle = 0xffff0000
	clsactIngress Handle = 0xfffffff2
	clsactEgress  Handle = 0xfffffff3
)

// redirectPref makes it the first filter: one before it could let packets pass.
const redirectPref = 1

// Of linux/pkt_cls.h, tc_skbedit.h and tc_mirred.h.
const (
	matchallAct       = 2
	actKind           = 1
	actOptions        = 2
	actCookie         = 6
	actPipe           = 3
	actStolen         = 4
	skbeditParameters = 2
	skbeditPriority   = 3
	mirredParameters  = 2
	mirredRedirect    = 1
)

// parameters is struct tc_gen, with which the parameters of each action begin.
func parameters(action uint32, more ...uint32) []byte {
	var data []byte

	for _, value := range append([]uint32{0, 0, action, 0, 0}, more...) {
		data = native.AppendUint32(data, value)
	}
	return data
}

// filterMessage has no handle: matchall has one filter for each preference.
func filterMessage(ifindex int, parent Handle) *builder {
	b := tcmsg(ifindex, 0, parent)
	// The preference, and ETH_P_ALL in network byte order.
	native.PutUint32(b.data[16:], redirectPref<<16|uint32(htons(unix.ETH_P_ALL)))
	return b
}

func htons(value uint16) uint16 {
	return native.Uint16([]byte{byte(value >> 8), byte(value)})
}

func (r *Redirect) encode(b *builder) {
	b.nest(matchallAct, func(b *builder) {
		number := 1
		if r.Class != 0 {
			b.nest(number, func(b *builder) {
				b.text(actKind, "skbedit")
				b.nest(actOptions, func(b *builder) {
					b.attr(skbeditParameters, parameters(actPipe))
					b.u32(skbeditPriority, uint32(r.Class))
				})
			})
			number++
		}
		b.nest(number, func(b *builder) {
			b.text(actKind, "mirred")
			b.attr(actCookie, r.Cookie[:])
			b.nest(actOptions, func(b *builder) {
				b.attr(mirredParameters, parameters(actStolen, mirredRedirect, uint32(r.To)))
			})
		})
	})
}

// AddRedirect adds a redirect, and a qdisc clsact to the device if it has none.
func (c *Conn) AddRedirect(r Redirect) error {
	clsact := tcmsg(r.Ifindex, clsactHandle, Ingress)
	clsact.text(nl.TCA_KIND, "clsact")
	_, err := c.request(unix.RTM_NEWQDISC, flagsAdd, clsact.data)
	// A qdisc ingress does as well.
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add qdisc clsact: %w%s", err, moduleHint(err, "sch_ingress"))
	}
	b := filterMessage(r.Ifindex, clsactIngress)
	b.text(nl.TCA_KIND, "matchall")
	b.nest(nl.TCA_OPTIONS, r.encode)
	_, err = c.request(unix.RTM_NEWTFILTER, flagsAdd, b.data)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EEXIST), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("redirect: %w (is there another filter with preference 1?)", err)
	case r.Class != 0:
		return fmt.Errorf("redirect: %w%s", err,
			moduleHint(err, "cls_matchall, act_mirred, act_skbedit"))
	}
	return fmt.Errorf("redirect: %w%s", err, moduleHint(err, "cls_matchall, act_mirred"))
}

// moduleHint is for the error of a kernel that does not know a qdisc, filter or action.
func moduleHint(err error, modules string) string {
	if errors.Is(err, unix.ENOENT) {
		return " (it needs the kernel modules " + modules + ")"
	}
	return ""
}

// DeleteRedirect deletes the redirect of a device, and its clsact if nothing else
// uses that.
func (c *Conn) DeleteRedirect(ifindex int) error {
	b := filterMessage(ifindex, clsactIngress)
	b.text(nl.TCA_KIND, "matchall")
	if _, err := c.request(unix.RTM_DELTFILTER, unix.NLM_F_ACK, b.data); err != nil {
		return fmt.Errorf("delete redirect: %w", err)
	}
	return c.DeleteClsact(ifindex)
}

// DeleteClsact deletes the qdisc clsact of a device, if there is one and no filter
// uses it. An AddRedirect that was killed may have left it.
func (c *Conn) DeleteClsact(ifindex int) error {
	qdisc, err := c.DeviceQdisc(ifindex, Ingress)
	if err != nil || qdisc == nil {
		return err
	}
	for _, parent := range []Handle{clsactIngress, clsactEgress} {
		others, err := c.request(unix.RTM_GETTFILTER, unix.NLM_F_DUMP,
			tcmsg(ifindex, 0, parent).data)
		if err != nil {
			return fmt.Errorf("list filters: %w", err)
		}
		if len(others) != 0 {
			return nil
		}
	}
	return c.DeleteQdisc(ifindex, clsactHandle, Ingress)
}

// Redirects lists those of all devices of the namespace that are like those of
// AddRedirect. It goes by the devices and not by the qdiscs: if a device goes while
// the kernel lists qdiscs, it leaves out one of another device and does not say so.
// Devices repeats such a listing.
func (c *Conn) Redirects() ([]Redirect, error) {
	var redirects []Redirect

	devices, err := c.Devices()
	if err != nil {
		return nil, err
	}
	for i := range devices {
		found, err := c.DeviceRedirects(devices[i].Ifindex)
		if err != nil {
			return nil, err
		}
		redirects = append(redirects, found...)
	}
	return redirects, nil
}

// DeviceRedirects lists those of one device.
func (c *Conn) DeviceRedirects(ifindex int) ([]Redirect, error) {
	found, err := list(c, "list filters", unix.RTM_GETTFILTER,
		tcmsg(ifindex, 0, clsactIngress).data, parseRedirect)
	// Nothing is listed where there is no clsact, or no device any more.
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	return found, err
}

// parseRedirect returns nothing for another filter.
func parseRedirect(data []byte) (*Redirect, error) {
	m, err := parseMessage(data)
	if err != nil || m.kind != "matchall" || m.info>>16 != redirectPref {
		return nil, err
	}
	r, found := &Redirect{Ifindex: m.ifindex}, false
	err = attrs(m.options, func(number uint16, value []byte) error {
		if number != matchallAct {
			return nil
		}
		return attrs(value, func(_ uint16, value []byte) error {
			is, err := r.action(value)
			found = found || is
			return err
		})
	})
	if err != nil || !found {
		return nil, err
	}
	return r, nil
}

// action says whether it is one that redirects.
func (r *Redirect) action(data []byte) (found bool, err error) {
	var kind string
	var cookie, options []byte

	if err := attrs(data, func(number uint16, value []byte) error {
		switch number {
		case actKind:
			kind = cString(value)
		case actOptions:
			options = value
		case actCookie:
			cookie = value
		}
		return nil
	}); err != nil {
		return false, err
	}
	err = attrs(options, func(number uint16, value []byte) error {
		switch {
		case kind == "skbedit" && number == skbeditPriority:
			r.Class = Handle((&reader{value}).u32())
		case kind == "mirred" && number == mirredParameters:
			words := reader{value}
			words.skip(20)
			if words.u32() == mirredRedirect {
				found = true
				r.To = int(words.u32())
				copy(r.Cookie[:], cookie)
			}
		}
		return nil
	})
	return found, err
}
