// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"bpshaper.example/tools/bpshaper"
	"bpshaper.example/tools/owner"
)

// An ifb of a node has a class for each pod. Which one is a pod's is in the
// redirect of its veth, so a class that no redirect names belongs to nobody: its
// veth went before DEL, or its ADD was killed.

const nodeAlias = owner.Prefix + "node"

// nodeApply sets the node's rate, the pod's class, and last the redirect.
func (a *attachment) nodeApply() error {
	ifb, err := a.nodeMake()
	if err != nil {
		return err
	}
	redirects, err := a.host.tc.Redirects()
	if err != nil {
		return err
	}
	used, err := a.host.nodeSweep(ifb, redirects)
	if err != nil {
		return err
	}
	minor, err := freeMinor(used)
	if err != nil {
		return err
	}
	class := bpshaper.Class{Ifindex: ifb.Attrs().Index, Parent: owner.RootHandle,
		Handle:  bpshaper.MakeHandle(owner.RootHandle.Major(), minor),
		Options: a.conf.classOptions()}
	if err := a.host.tc.AddClass(class); err != nil {
		return fmt.Errorf("the pod's part of %s: %w", a.conf.Node.Device, err)
	}
	a.hostName(fmt.Sprintf("%s of %s", class.Handle, a.conf.Node.Device))
	return a.redirectSet(ifb, class.Handle)
}

// A bpshaper has one lock for the whole device if that has more.
const nodeQueuesMost = 1024

// nodeMake makes the node's ifb, or sets the rate of the one that is there. With a
// queue for each CPU, pods that send at once do not wait for a root lock.
func (a *attachment) nodeMake() (netlink.Link, error) {
	node := a.conf.Node
	cpus, err := cpusOnline()
	if err != nil {
		return nil, err
	}
	ifb, err := a.host.ifbMake(node.Device, a.hostLink.Attrs().MTU, min(cpus, nodeQueuesMost))
	if err != nil {
		return nil, err
	}
	options := bpshaper.Options{Rate: rateOption(node.Rate)}
	root, err := a.host.tc.DeviceQdisc(ifb.Attrs().Index, bpshaper.Root)
	switch {
	case err != nil:
		return nil, err
	case root == nil || !isOurs(root):
		if err := a.host.rootSet(ifb, bpshaper.Kind, options); err != nil {
			return nil, err
		}
	case options.Differences(&root.Options) != nil:
		if err := a.host.tc.ChangeQdisc(bpshaper.Qdisc{
			Ifindex: ifb.Attrs().Index, Handle: owner.RootHandle,
			Parent: bpshaper.Root, Options: options}); err != nil {
			return nil, fmt.Errorf("the rate of %s: %w", node.Device, err)
		}
	}
	return ifb, a.host.ifbStart(ifb, nodeAlias)
}

func freeMinor(used map[uint16]bool) (uint16, error) {
	for minor := uint16(1); minor != 0; minor++ {
		if !used[minor] {
			return minor, nil
		}
	}
	return 0, errors.New("all 65535 classes of the node are in use")
}

// nodeSweep deletes the classes that no redirect names, and returns the minor
// numbers of the others. Those of a bpshaper that somebody else has put on the ifb
// stay, as long as the ifb does.
func (s *space) nodeSweep(ifb netlink.Link, redirects []bpshaper.Redirect) (map[uint16]bool, error) {
	used := map[uint16]bool{}
	for _, r := range redirects {
		if r.To == ifb.Attrs().Index {
			used[r.Class.Minor()] = true
		}
	}
	classes, _, err := s.tc.Classes(ifb.Attrs().Index)
	if err != nil {
		return nil, err
	}
	for i := range classes {
		handle := classes[i].Handle
		if handle.Major() != owner.RootHandle.Major() || used[handle.Minor()] {
			continue
		}
		err := gone(s.tc.DeleteClass(ifb.Attrs().Index, handle))
		if err != nil {
			return nil, err
		}
	}
	return used, nil
}

// isOfNode tells the ifb of a node from that of an attachment, also if the ADD
// that made it was killed before it had an alias, or if somebody has changed that.
func isOfNode(link netlink.Link) bool {
	return link.Attrs().Alias == nodeAlias || !isIfbName(link.Attrs().Name)
}

// nodesSweep does so on each ifb of a node, and removes one that nothing uses.
func (s *space) nodesSweep(redirects []bpshaper.Redirect) error {
	var errs []error

	links, err := s.ifbs()
	if err != nil {
		return err
	}
	for _, link := range links {
		if !isOfNode(link) {
			continue
		}
		used, err := s.nodeSweep(link, redirects)
		if err == nil && len(used) == 0 {
			err = gone(s.links.LinkDel(link))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// nodeSweepNamed does so on that ifb, if there is one.
func (s *space) nodeSweepNamed(device string) error {
	link, err := s.linkFind(device)
	if err != nil || link == nil || !isOurIfb(link) {
		return err
	}
	redirects, err := s.tc.Redirects()
	if err != nil {
		return err
	}
	used, err := s.nodeSweep(link, redirects)
	if err != nil || len(used) != 0 {
		return err
	}
	return gone(s.links.LinkDel(link))
}

// nodeLeave deletes the class of a redirect that was deleted, and with the last one the
// ifb. A class that no redirect names keeps it until the DEL of whose it is.
func (s *space) nodeLeave(r bpshaper.Redirect) error {
	link, err := s.links.LinkByIndex(r.To)
	if err != nil || !isOurIfb(link) {
		return gone(err)
	}
	if err := gone(s.tc.DeleteClass(r.To, r.Class)); err != nil {
		return err
	}
	isUsed, err := classesAny(r.To)
	if err != nil || isUsed {
		return err
	}
	return gone(s.links.LinkDel(link))
}

// classesAny says that the device has a class of the plugin. It does not read all of
// them, which closes its socket.
func classesAny(ifindex int) (bool, error) {
	found := errors.New("found")

	tc, err := bpshaper.Open()
	if err != nil {
		return false, err
	}
	defer tc.Close()
	err = tc.EachClass(ifindex, func(class *bpshaper.Class) error {
		if class.Handle.Major() == owner.RootHandle.Major() {
			return found
		}
		return nil
	})
	if errors.Is(err, found) {
		return true, nil
	}
	return false, err
}

func (a *attachment) nodeCheck() error {
	ifb, err := a.host.ifbFind(a.conf.Node.Device)
	if err != nil {
		return err
	}
	err = a.host.rootCheck(ifb, bpshaper.Options{Rate: rateOption(a.conf.Node.Rate)})
	if err != nil {
		return err
	}
	redirects, err := a.host.tc.DeviceRedirects(a.hostLink.Attrs().Index)
	if err != nil {
		return err
	}
	for _, r := range redirects {
		if r == a.redirect(ifb, r.Class) && r.Class != 0 {
			return a.classCheck(ifb, r.Class)
		}
	}
	return fmt.Errorf("what arrives at %s is not redirected to %s",
		a.hostLink.Attrs().Name, a.conf.Node.Device)
}

// burstRaised takes over the burst that a class has, if the kernel has raised it: to
// two packets with their Ethernet header.
func burstRaised(want, has *uint32, mtu int) {
	if want != nil && has != nil && *want < *has && int(*has) <= 2*(mtu+14) {
		*want = *has
	}
}

func (a *attachment) classCheck(ifb netlink.Link, handle bpshaper.Handle) error {
	classes, _, err := a.host.tc.Classes(ifb.Attrs().Index)
	if err != nil {
		return err
	}
	for i := range classes {
		if classes[i].Handle != handle {
			continue
		}
		want := a.conf.classOptions()
		burstRaised(want.Burst, classes[i].Options.Burst, ifb.Attrs().MTU)
		if d := want.Differences(&classes[i].Options); d != nil {
			return fmt.Errorf("class %s of %s: %q", handle, a.conf.Node.Device, d)
		}
		return nil
	}
	return fmt.Errorf("%s has no class %s", a.conf.Node.Device, handle)
}
