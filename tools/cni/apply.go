// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"bpshaper.example/tools/bpshaper"
	"bpshaper.example/tools/owner"
)

// attachment is one interface of one pod.
type attachment struct {
	conf      *config
	result    *current.Result // what the plugins before have made
	id        owner.Identity
	container string
	ifname    string
	podName   string // NAMESPACE/NAME, if it is known
	host      *space
	namespace ns.NetNS // of the pod
	pod       *space
	podLink   netlink.Link
	hostLink  netlink.Link // the pod's veth has it as its peer
}

func attachmentNew(conf *config, args *skel.CmdArgs) (*attachment, error) {
	if err := lock(); err != nil {
		return nil, err
	}
	host, err := spaceOpen(netns.None())
	if err != nil {
		return nil, err
	}
	return &attachment{conf: conf, container: args.ContainerID, ifname: args.IfName,
		podName: podOf(args.Args), host: host,
		id: owner.IdentityOf(conf.Name, args.ContainerID, args.IfName)}, nil
}

func (a *attachment) close() {
	a.pod.close()
	a.host.close()
	if a.namespace != nil {
		a.namespace.Close()
	}
}

// podOpen sets what is known of the pod's end.
func (a *attachment) podOpen(path string) error {
	var err error

	if a.namespace, err = ns.GetNS(path); err != nil {
		return fmt.Errorf("open network namespace %q: %w", path, err)
	}
	own, err := netns.Get()
	if err != nil {
		return fmt.Errorf("open the own network namespace: %w", err)
	}
	defer own.Close()
	if own.Equal(netns.NsHandle(a.namespace.Fd())) {
		return types.NewError(types.ErrInvalidNetNS,
			fmt.Sprintf("%s is the network namespace of the host", path), "")
	}
	if a.pod, err = spaceOpen(netns.NsHandle(a.namespace.Fd())); err != nil {
		return err
	}
	if a.podLink, err = a.pod.links.LinkByName(a.ifname); err != nil {
		return fmt.Errorf("find the pod's interface %s: %w", a.ifname, err)
	}
	return nil
}

// hostFind finds the host's end. Numbers of devices repeat in other namespaces, and
// who has CAP_NET_ADMIN in the pod chooses those there. So each end must name the
// other, and the kernel says where the other end of the host's one is.
func (a *attachment) hostFind() error {
	pod := a.podLink.Attrs()
	peer := pod.ParentIndex
	if a.podLink.Type() != "veth" || peer <= 0 {
		return fmt.Errorf("the pod's interface %s is no veth", a.ifname)
	}
	link, err := a.host.links.LinkByIndex(peer)
	if err != nil {
		return fmt.Errorf("the peer of the pod's interface %s is not on the host: %w",
			a.ifname, err)
	}
	// Only now is it sure that the namespace has a number.
	number, err := a.host.links.GetNetNsIdByFd(int(a.namespace.Fd()))
	if err != nil {
		return fmt.Errorf("the number of the pod's network namespace: %w", err)
	}
	if link.Type() != "veth" || link.Attrs().ParentIndex != pod.Index ||
		number < 0 || link.Attrs().NetNsID != number {
		return fmt.Errorf("the peer of the pod's interface %s is not on the host",
			a.ifname)
	}
	a.hostLink = link
	return nil
}

func attachmentOpen(conf *config, args *skel.CmdArgs) (*attachment, error) {
	result, err := current.NewResultFromResult(conf.PrevResult)
	if err != nil {
		return nil, fmt.Errorf("convert prevResult: %w", err)
	}
	a, err := attachmentNew(conf, args)
	if err != nil {
		return nil, err
	}
	a.result = result
	err = a.podOpen(args.Netns)
	if err == nil && (conf.IngressRate != 0 || a.usesHost()) {
		err = a.hostFind()
		if err == nil && !isListed(result, a.hostLink.Attrs().Name) {
			err = fmt.Errorf("prevResult does not list %s, the host's end of %s",
				a.hostLink.Attrs().Name, a.ifname)
		}
	}
	if err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func isListed(result *current.Result, name string) bool {
	for _, i := range result.Interfaces {
		if i.Sandbox == "" && i.Name == name {
			return true
		}
	}
	return false
}

// attachmentOpenForRemoval takes what it can get.
func attachmentOpenForRemoval(conf *config, args *skel.CmdArgs) (*attachment, error) {
	a, err := attachmentNew(conf, args)
	if err != nil {
		return nil, err
	}
	if args.Netns != "" && a.podOpen(args.Netns) == nil {
		_ = a.hostFind()
	}
	return a, nil
}

// usesHost says that what the pod sends is limited at the host.
func (a *attachment) usesHost() bool {
	return a.conf.needsIfb() && (a.conf.Node != nil || a.conf.EgressRate != 0)
}

// apply sets all limits. It returns the ifb that was made for the attachment.
func (a *attachment) apply() (netlink.Link, error) {
	conf := a.conf
	// First, so that GC finds what an ADD has left that was killed.
	a.hostName("")
	if conf.IngressRate != 0 {
		burstLog("ingress", bits(conf.IngressRate), conf.IngressBurst)
		if err := a.host.rootSet(a.hostLink, conf.ingressOptions()); err != nil {
			return nil, err
		}
	}
	if ceil, limited := conf.ceil(); limited && conf.EgressRate != 0 {
		burstLog("egress", ceil, conf.EgressBurst)
	}
	switch {
	case a.usesHost():
		return a.ifbApply()
	case conf.EgressRate == 0:
		return nil, nil
	}
	return nil, a.pod.rootSet(a.podLink, conf.egressOptions())
}

// ifbApply limits what the pod sends on an ifb: the node's, or its own, which it
// returns.
func (a *attachment) ifbApply() (netlink.Link, error) {
	// What an ADD has left that was killed.
	others, err := a.redirectRemove()
	if err != nil {
		return nil, err
	}
	if a.conf.Node != nil {
		return nil, a.nodeApply(others)
	}
	return a.hostApply()
}

// alias says what a device is for. class is "1:N of DEVICE", or empty.
func (a *attachment) alias(class string) string {
	return a.id.Alias(a.conf.Name, a.container, a.ifname, class, a.podName)
}

// hostName names the pod at the host's end of its veth, where bpshaper-exporter
// finds it. The limit does not depend on it.
func (a *attachment) hostName(class string) {
	if a.hostLink == nil && a.hostFind() != nil {
		return
	}
	attrs, alias := a.hostLink.Attrs(), a.alias(class)
	if attrs.Alias != "" && !strings.HasPrefix(attrs.Alias, owner.Prefix) {
		return
	}
	if err := a.host.links.LinkSetAlias(a.hostLink, alias); err != nil {
		logf("set the alias of %s: %v", attrs.Name, err)
		return
	}
	// An ADD that fails later takes it away again.
	attrs.Alias = alias
}

// isOfAnother says that the path of the namespace leads to another pod by now: the
// host's end has the name of another attachment.
func (a *attachment) isOfAnother() bool {
	if a.hostLink == nil {
		return false
	}
	id, named := owner.IdentityOfAlias(a.hostLink.Attrs().Alias)
	return named && id != a.id
}

// hostClear removes what the attachment has at the host's end. Without its name
// there that is a limit at most.
func (a *attachment) hostClear() error {
	id, named := owner.IdentityOfAlias(a.hostLink.Attrs().Alias)
	if named && id == a.id {
		return a.host.endClear(a.hostLink)
	}
	return a.host.rootRemove(a.hostLink.Attrs().Index)
}

// hostApply limits what the pod sends on an ifb of the host. The filter is last:
// without it the ifb has no packets.
func (a *attachment) hostApply() (netlink.Link, error) {
	ifb, err := a.host.ifbMake(ifbName(a.id), a.hostLink.Attrs().MTU, 1)
	if err != nil {
		return nil, err
	}
	if err := a.host.rootSet(ifb, a.conf.egressOptions()); err != nil {
		return nil, err
	}
	if err := a.host.ifbStart(ifb, a.alias("")); err != nil {
		return nil, err
	}
	return ifb, a.redirectSet(ifb, 0)
}

func (a *attachment) redirect(ifb netlink.Link, class bpshaper.Handle) bpshaper.Redirect {
	return bpshaper.Redirect{Ifindex: a.hostLink.Attrs().Index,
		To: ifb.Attrs().Index, Class: class, Cookie: a.id}
}

func (a *attachment) redirectSet(ifb netlink.Link, class bpshaper.Handle) error {
	if err := a.host.tc.AddRedirect(a.redirect(ifb, class)); err != nil {
		return fmt.Errorf("what arrives at %s: %w", a.hostLink.Attrs().Name, err)
	}
	return nil
}

// redirectRemove removes the attachment's redirect from whatever device has it. It
// returns those of others.
func (a *attachment) redirectRemove() ([]bpshaper.Redirect, error) {
	return a.host.redirectsRemove(func(id owner.Identity) bool { return id == a.id })
}

func (a *attachment) redirectCheck(want bpshaper.Redirect) error {
	redirects, err := a.host.tc.Redirects()
	if err != nil {
		return err
	}
	for _, r := range redirects {
		if r == want {
			return nil
		}
	}
	return fmt.Errorf("what arrives at %s is not redirected to the ifb",
		a.hostLink.Attrs().Name)
}

func (a *attachment) check() error {
	conf := a.conf
	if conf.IngressRate != 0 {
		if err := a.host.rootCheck(a.hostLink, conf.ingressOptions()); err != nil {
			return err
		}
	}
	switch {
	case conf.Node != nil:
		return a.nodeCheck()
	case conf.EgressRate == 0:
		return nil
	case conf.isAtHost():
		return a.hostCheck()
	}
	return a.pod.rootCheck(a.podLink, conf.egressOptions())
}

func (a *attachment) hostCheck() error {
	ifb, err := a.host.ifbFind(ifbName(a.id))
	if err != nil {
		return err
	}
	if err := a.host.rootCheck(ifb, a.conf.egressOptions()); err != nil {
		return err
	}
	return a.redirectCheck(a.redirect(ifb, 0))
}

// remove removes whatever may be there, in whatever way the attachment was
// limited when it was added. First the redirect: packets to a device that is gone
// would be lost. Errors do not stop it. A path as /proc/PID/ns/net may be that of
// another pod when DEL comes late.
func (a *attachment) remove() error {
	others, err := a.redirectRemove()
	errs := []error{err, a.host.ifbRemove(ifbName(a.id))}
	if err == nil {
		errs = append(errs, a.host.nodesSweep(others))
	}
	if a.isOfAnother() {
		return errors.Join(errs...)
	}
	if a.hostLink != nil {
		errs = append(errs, a.hostClear())
	}
	if a.podLink != nil {
		errs = append(errs, a.pod.rootRemove(a.podLink.Attrs().Index))
	}
	return errors.Join(errs...)
}
