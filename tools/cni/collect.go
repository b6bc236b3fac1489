// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"errors"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"bpshaper.example/tools/bpshaper"
	"bpshaper.example/tools/owner"
)

// collect removes what belongs to this network and to none of its attachments,
// and what ADDs have left that were killed before they had named it. While it has
// the lock there is no ADD at work.
func collect(network string, attachments []types.GCAttachment) error {
	if err := lock(); err != nil {
		return err
	}
	host, err := spaceOpen(netns.None())
	if err != nil {
		return err
	}
	defer host.close()
	valid := map[owner.Identity]bool{}
	for _, a := range attachments {
		valid[owner.IdentityOf(network, a.ContainerID, a.IfName)] = true
	}
	isStale := func(id owner.Identity) bool {
		return id.IsOfNetwork(network) && !valid[id]
	}
	redirects, err := host.redirectsRemove(isStale)
	errs := []error{err}
	if err == nil {
		errs = append(errs, host.ifbsCollect(isStale, redirects),
			host.nodesSweep(redirects))
	}
	return errors.Join(append(errs, host.endsCollect(isStale))...)
}

// ifbsCollect leaves an ifb alone to which one of the redirects that remain points,
// whatever its alias has become: all that the pod sends would be dropped.
func (s *space) ifbsCollect(isStale func(owner.Identity) bool, redirects []bpshaper.Redirect) error {
	var errs []error

	links, err := s.ifbs()
	if err != nil {
		return err
	}
	used := map[int]bool{}
	for _, r := range redirects {
		used[r.To] = true
	}
	for _, link := range links {
		if ifbIsStale(link, isStale) && !used[link.Attrs().Index] {
			errs = append(errs, gone(s.links.LinkDel(link)))
		}
	}
	return errors.Join(errs...)
}

func ifbIsStale(link netlink.Link, isStale func(owner.Identity) bool) bool {
	if isOfNode(link) {
		return false
	}
	id, named := owner.IdentityOfAlias(link.Attrs().Alias)
	return !named || isStale(id)
}

// endsCollect removes limits and names from the host's ends of veths: there they
// outlive an attachment whose DEL did not come.
func (s *space) endsCollect(isStale func(owner.Identity) bool) error {
	var errs []error

	ends, err := s.devices(func(link netlink.Link) bool {
		id, named := identityOfEnd(link.Attrs().AltNames)
		return link.Type() == "veth" && named && isStale(id)
	})
	if err != nil {
		return err
	}
	for _, end := range ends {
		errs = append(errs, s.endClear(end))
	}
	return errors.Join(errs...)
}
