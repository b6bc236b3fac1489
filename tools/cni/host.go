// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"bpshaper.example/tools/bpshaper"
	"bpshaper.example/tools/owner"
)

// "The plugin is not available", of the CNI specification.
const errUnavailable = 50

// space is one network namespace.
type space struct {
	tc    *bpshaper.Conn
	links *netlink.Handle
}

func spaceOpen(ns netns.NsHandle) (*space, error) {
	tc, err := bpshaper.OpenAt(ns)
	if err != nil {
		return nil, err
	}
	links, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		tc.Close()
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	return &space{tc, links}, nil
}

func (s *space) close() {
	if s != nil {
		s.tc.Close()
		s.links.Close()
	}
}

// isOurs tells the qdisc that the plugin has added from one that somebody else has.
func isOurs(root *bpshaper.Qdisc) bool {
	return root.Kind == bpshaper.Kind && root.Handle == owner.RootHandle || isOurTbf(root)
}

// rootAdd adds a qdisc of this kind.
func (s *space) rootAdd(link netlink.Link, kind string, options bpshaper.Options) error {
	if kind != tbf {
		return s.tc.AddQdisc(bpshaper.Qdisc{Ifindex: link.Attrs().Index,
			Handle: owner.RootHandle, Parent: bpshaper.Root, Options: options})
	}
	return s.tbfAdd(link, options)
}

// rootSet makes the root qdisc of the device one of this kind with these options. One
// of ours is of an ADD that was killed.
func (s *space) rootSet(link netlink.Link, kind string, options bpshaper.Options) error {
	index, name := link.Attrs().Index, link.Attrs().Name
	root, err := s.tc.DeviceQdisc(index, bpshaper.Root)
	if err != nil {
		return err
	}
	if root != nil {
		if !isOurs(root) {
			return fmt.Errorf("%s has a root qdisc %s %s: is there another plugin "+
				"that limits it?", name, root.Kind, root.Handle)
		}
		if err := s.rootRemove(index); err != nil {
			return err
		}
	}
	if err := s.rootAdd(link, kind, options); err != nil {
		return fmt.Errorf("limit %s: %w", name, err)
	}
	return nil
}

// rootCheck compares. A tbf of ours was added when the kernel had no bpshaper.
func (s *space) rootCheck(link netlink.Link, options bpshaper.Options) error {
	root, err := s.tc.DeviceQdisc(link.Attrs().Index, bpshaper.Root)
	if err != nil {
		return err
	}
	if root == nil {
		return fmt.Errorf("%s has no bpshaper", link.Attrs().Name)
	}
	if isOurTbf(root) {
		return s.tbfCheck(link, options)
	}
	if !isOurs(root) {
		return fmt.Errorf("%s has %s %s, and not the bpshaper of its limit",
			link.Attrs().Name, root.Kind, root.Handle)
	}
	if d := options.Differences(&root.Options); d != nil {
		return fmt.Errorf("the bpshaper of %s: %q", link.Attrs().Name, d)
	}
	return nil
}

// rootRemove removes a qdisc that has the kind and number of ours, and nothing else.
func (s *space) rootRemove(ifindex int) error {
	root, err := s.tc.DeviceQdisc(ifindex, bpshaper.Root)
	if err != nil || root == nil || !isOurs(root) {
		return err
	}
	return gone(s.tc.DeleteQdisc(ifindex, root.Handle, bpshaper.Root))
}

// endClear removes all from the host's end of a veth that an attachment had there.
// The name is last: what is killed before is found again.
func (s *space) endClear(link netlink.Link) error {
	attrs := link.Attrs()
	errs := []error{gone(s.rootRemove(attrs.Index)), gone(s.tc.DeleteClsact(attrs.Index))}
	if strings.HasPrefix(attrs.Alias, owner.Prefix) {
		errs = append(errs, gone(s.links.LinkSetAlias(link, "")))
	}
	return errors.Join(append(errs, s.endUnmark(link))...)
}

// endUnmark removes the names of attachments.
func (s *space) endUnmark(link netlink.Link) error {
	var errs []error

	for _, name := range link.Attrs().AltNames {
		if _, is := identityOfEnd([]string{name}); is {
			errs = append(errs, gone(s.links.LinkDelAltName(link, name)))
		}
	}
	return errors.Join(errs...)
}

// redirectTake deletes the attachment's redirect from a device, and returns it.
func (s *space) redirectTake(ifindex int, id owner.Identity) (*bpshaper.Redirect, error) {
	redirects, err := s.tc.DeviceRedirects(ifindex)
	if err != nil {
		return nil, err
	}
	for i := range redirects {
		if redirects[i].Cookie != id {
			continue
		}
		if err := gone(s.tc.DeleteRedirect(ifindex)); err != nil {
			return nil, err
		}
		return &redirects[i], nil
	}
	return nil, nil
}

// redirectsRemove removes the redirects of these attachments from whatever devices
// have them. It returns those of others.
func (s *space) redirectsRemove(is func(owner.Identity) bool) ([]bpshaper.Redirect, error) {
	var others []bpshaper.Redirect
	var errs []error

	redirects, err := s.tc.Redirects()
	if err != nil {
		return nil, err
	}
	for _, r := range redirects {
		if is(r.Cookie) {
			errs = append(errs, gone(s.tc.DeleteRedirect(r.Ifindex)))
		} else {
			others = append(others, r)
		}
	}
	return others, errors.Join(errs...)
}

// gone takes it as success that something is not there.
func gone(err error) error {
	var missing netlink.LinkNotFoundError

	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) ||
		errors.As(err, &missing) {
		return nil
	}
	return err
}

// linkFind returns no link if there is none of that name.
func (s *space) linkFind(name string) (netlink.Link, error) {
	link, err := s.links.LinkByName(name)
	if gone(err) == nil && err != nil {
		return nil, nil
	}
	return link, err
}

// dumped repeats a dump that a change has interrupted.
func dumped[T any](dump func() ([]T, error)) (all []T, err error) {
	for try := 0; try < 10; try++ {
		all, err = dump()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}

// devices lists those that are of interest.
func (s *space) devices(is func(netlink.Link) bool) ([]netlink.Link, error) {
	var found []netlink.Link

	links, err := dumped(s.links.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	for _, link := range links {
		if is(link) {
			found = append(found, link)
		}
	}
	return found, nil
}

// ifbs lists those of the plugin.
func (s *space) ifbs() ([]netlink.Link, error) { return s.devices(isOurIfb) }

func isOurIfb(link netlink.Link) bool {
	return link.Type() == "ifb" &&
		link.Attrs().HardwareAddr.String() == macOf(link.Attrs().Name).String()
}

// ifbFind returns an ifb of the plugin that is up.
func (s *space) ifbFind(name string) (netlink.Link, error) {
	link, err := s.linkFind(name)
	if err != nil {
		return nil, err
	}
	if link == nil || !isOurIfb(link) {
		return nil, fmt.Errorf("there is no ifb %s", name)
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		return nil, fmt.Errorf("the ifb %s is down", name)
	}
	return link, nil
}

// ifbMake makes an ifb, or takes the one that is there, whatever queues that has. It
// is not up yet.
func (s *space) ifbMake(name string, mtu, queues int) (netlink.Link, error) {
	link, err := s.linkFind(name)
	if err != nil {
		return nil, err
	}
	if link == nil {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU, attrs.HardwareAddr = name, mtu, macOf(name)
		attrs.NumTxQueues = queues
		err := s.links.LinkAdd(&netlink.Ifb{LinkAttrs: attrs})
		if err != nil {
			return nil, fmt.Errorf("make ifb %s: %w", name, err)
		}
		return s.links.LinkByName(name)
	}
	if !isOurIfb(link) {
		return nil, fmt.Errorf("there is a device %s that is not of this plugin", name)
	}
	if link.Attrs().MTU < mtu {
		if err := s.links.LinkSetMTU(link, mtu); err != nil {
			return nil, fmt.Errorf("set the MTU of %s: %w", name, err)
		}
	}
	return link, nil
}

func (s *space) ifbStart(link netlink.Link, alias string) error {
	attrs := link.Attrs()
	if attrs.Alias != alias {
		if err := s.links.LinkSetAlias(link, alias); err != nil {
			return fmt.Errorf("set the alias of %s: %w", attrs.Name, err)
		}
	}
	if attrs.Flags&net.FlagUp == 0 {
		if err := s.links.LinkSetUp(link); err != nil {
			return fmt.Errorf("set %s up: %w", attrs.Name, err)
		}
	}
	return nil
}

// ifbRemove removes a device if it is an ifb of the plugin.
func (s *space) ifbRemove(name string) error {
	link, err := s.linkFind(name)
	if err != nil || link == nil || !isOurIfb(link) {
		return err
	}
	return gone(s.links.LinkDel(link))
}

// --- the machine

// cpusOnline counts those of the kernel, not only those that the runtime may use.
func cpusOnline() (int, error) {
	const path = "/sys/devices/system/cpu/online"

	list, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("count CPUs: %w", err)
	}
	count, err := cpusCount(string(list))
	if err != nil {
		return 0, fmt.Errorf("count CPUs: %s: %w", path, err)
	}
	return count, nil
}

// cpusCount reads a list such as "0-3,8".
func cpusCount(list string) (int, error) {
	count := 0
	for _, part := range strings.Split(strings.TrimSpace(list), ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		first, err := strconv.ParseUint(low, 10, 16)
		if err != nil {
			return 0, err
		}
		last, err := strconv.ParseUint(high, 10, 16)
		if err != nil {
			return 0, err
		}
		count += int(last) - int(first) + 1
	}
	return count, nil
}

// lock makes commands wait for each other, until the process ends.
func lock() error {
	_, err := owner.Lock()
	if errors.Is(err, owner.ErrLocked) {
		return types.NewError(types.ErrTryAgainLater, err.Error(), "")
	}
	return err
}
