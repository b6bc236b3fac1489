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
	if err == nil {
		err = a.hostFind()
		switch {
		case conf.IngressRate == 0 && !a.usesHost():
			err = nil // the pod's end does
		case err == nil && !isListed(result, a.hostLink.Attrs().Name):
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

// apply sets all limits by this kind of qdisc, in place of what an ADD has left that
// was killed. It returns the ifb that was made for the attachment.
func (a *attachment) apply(kind string) (netlink.Link, error) {
	conf := a.conf
	if err := a.remove(); err != nil {
		return nil, err
	}
	if kind == "" {
		logf("%s of %s starts without a limit, as \"missing\" says: the kernel has no bpshaper",
			a.ifname, a.container)
		return nil, nil
	}
	// First, so that DEL and GC find what an ADD has left that was killed.
	if err := a.hostMark(); err != nil {
		return nil, err
	}
	if conf.IngressRate != 0 {
		burstLog("ingress", bits(conf.IngressRate), conf.IngressBurst)
		err := a.host.rootSet(a.hostLink, kind, conf.ingressOptions())
		if err != nil {
			return nil, err
		}
	}
	if ceil, limited := conf.ceil(); limited && conf.EgressRate != 0 {
		burstLog("egress", ceil, conf.EgressBurst)
	}
	switch {
	case conf.Node != nil:
		return nil, a.nodeApply()
	case a.usesHost():
		return a.hostApply(kind)
	case conf.EgressRate == 0:
		return nil, nil
	}
	return nil, a.pod.rootSet(a.podLink, kind, conf.egressOptions())
}

// alias says what a device is for. class is "1:N of DEVICE", or empty.
func (a *attachment) alias(class string) string {
	return a.id.Alias(a.conf.Name, a.container, a.ifname, class, a.podName)
}

// hostMark names the attachment and the pod at the host's end of the veth. It is not there
// if a pod without a veth is limited in its own namespace.
func (a *attachment) hostMark() error {
	if a.hostLink == nil {
		return nil
	}
	err := a.host.endUnmark(a.hostLink)
	if err == nil {
		err = a.host.links.LinkAddAltName(a.hostLink, endName(a.id))
	}
	if err != nil {
		return fmt.Errorf("name %s: %w", a.hostLink.Attrs().Name, err)
	}
	a.hostName("")
	return nil
}

// hostName names the pod where bpshaper-exporter finds it. The limit does not depend on it.
func (a *attachment) hostName(class string) {
	attrs, alias := a.hostLink.Attrs(), a.alias(class)
	if attrs.Alias != "" && !strings.HasPrefix(attrs.Alias, owner.Prefix) {
		return
	}
	if err := a.host.links.LinkSetAlias(a.hostLink, alias); err != nil {
		logf("set the alias of %s: %v", attrs.Name, err)
	}
}

// isOfAnother says that the path of the namespace leads to another pod by now: the
// host's end has the name of another attachment.
func (a *attachment) isOfAnother() bool {
	if a.hostLink == nil {
		return false
	}
	id, named := identityOfEnd(a.hostLink.Attrs().AltNames)
	return named && id != a.id
}

// hostApply limits what the pod sends on an ifb of the host. The filter is last:
// without it the ifb has no packets.
func (a *attachment) hostApply(kind string) (netlink.Link, error) {
	ifb, err := a.host.ifbMake(ifbName(a.id), a.hostLink.Attrs().MTU, 1)
	if err != nil {
		return nil, err
	}
	if err := a.host.rootSet(ifb, kind, a.conf.egressOptions()); err != nil {
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

func (a *attachment) redirectCheck(want bpshaper.Redirect) error {
	redirects, err := a.host.tc.DeviceRedirects(want.Ifindex)
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
	if conf.missing() == missingIgnore {
		// ADD has named the end of a pod that it has limited.
		end, err := a.host.linkFind(endName(a.id))
		if err != nil || end == nil {
			return err
		}
	}
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

// remove removes whatever may be there, in whatever way the attachment was limited
// when it was added. It looks at the devices of the attachment alone, as others wait
// meanwhile. First the redirect: packets to a device that is gone would be lost. Errors do
// not stop it. A path as /proc/PID/ns/net may be that of another pod when DEL comes late.
func (a *attachment) remove() error {
	var r *bpshaper.Redirect

	end, err := a.host.linkFind(endName(a.id))
	errs, isMarked := []error{err}, end != nil
	if end == nil && !a.isOfAnother() {
		end = a.hostLink
	}
	if end != nil {
		r, err = a.host.redirectTake(end.Attrs().Index, a.id)
		errs = append(errs, err)
	}
	errs = append(errs, a.host.ifbRemove(ifbName(a.id)))
	switch {
	case r != nil && r.Class != 0:
		errs = append(errs, a.host.nodeLeave(*r))
	case r == nil && (end == nil || isMarked && a.conf.Node != nil):
		// Its veth went before, or its ADD was killed.
		errs = append(errs, a.host.nodeSweepNamed(a.conf.nodeDevice()))
	}
	switch {
	case isMarked:
		errs = append(errs, a.host.endClear(end))
	case end != nil:
		errs = append(errs, a.host.rootRemove(end.Attrs().Index))
	}
	if a.podLink != nil && !a.isOfAnother() {
		errs = append(errs, a.pod.rootRemove(a.podLink.Attrs().Index))
	}
	return errors.Join(errs...)
}

// bandwidthRemove removes the IFB of a pod that the plugin bandwidth had added before
// the configuration named this one.
func (a *attachment) bandwidthRemove() error {
	link, err := a.host.linkFind(ifbOfBandwidth(a.conf.Name, a.container))
	if err != nil || link == nil || link.Type() != "ifb" {
		return err
	}
	return gone(a.host.links.LinkDel(link))
}
