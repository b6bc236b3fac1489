// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/vishvananda/netlink"

	"bpshaper.example/tools/bpshaper"
)

// What ADD does where the kernel has no bpshaper.
const (
	missingFail   = "fail"
	missingIgnore = "ignore"
	missingTbf    = "tbf"
)

func (conf *config) missing() string {
	if conf.Missing == nil {
		return missingFail
	}
	return *conf.Missing
}

func (conf *config) validateMissing() error {
	switch missing := conf.missing(); {
	case missing != missingFail && missing != missingIgnore && missing != missingTbf:
		return fmt.Errorf("missing is %q, and must be \"fail\", \"ignore\" or \"tbf\"", missing)
	case missing == missingTbf && conf.Node != nil:
		return errors.New("missing cannot be \"tbf\" with node: tbf has no classes")
	}
	return nil
}

// shaper is the kind of qdisc that limits: bpshaper, or what "missing" says where the
// kernel has none, or none at all.
func (conf *config) shaper() (kind string, err error) {
	if conf.missing() == missingFail || bpshaper.Loaded() {
		return bpshaper.Kind, nil
	}
	err = probe(func(s *space) error { return s.loopbackSet(bpshaper.Kind) })
	switch {
	case !errors.Is(err, bpshaper.ErrNoModule):
		return bpshaper.Kind, err
	case conf.missing() == missingTbf:
		return tbf, nil
	}
	return "", nil
}

const tbf = "tbf"

// tbfHandle is the number of each tbf of the plugin: 1: is one of bandwidth.
var tbfHandle = bpshaper.MakeHandle(0xb5, 0)

func isOurTbf(root *bpshaper.Qdisc) bool {
	return root.Kind == tbf && root.Handle == tbfHandle
}

// tbfOf is a tbf with these options. What it lacks is a queue of 25 ms, as bandwidth
// has, and a burst of as much; less than two packets would let none pass.
func tbfOf(link netlink.Link, options bpshaper.Options) *netlink.Tbf {
	const latencyDefault = 25e6
	attrs, rate, latency := link.Attrs(), float64(*options.Rate), float64(latencyDefault)

	if options.Latency != nil {
		latency = float64(*options.Latency)
	}
	burst := rate * latencyDefault / 1e9
	if options.Burst != nil {
		burst = float64(*options.Burst)
	}
	burst = max(burst, float64(2*(attrs.MTU+14)))
	most := float64(math.MaxUint32)
	return &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: attrs.Index,
			Handle: uint32(tbfHandle), Parent: netlink.HANDLE_ROOT},
		Rate:   *options.Rate,
		Limit:  uint32(min(rate*latency/1e9+burst, most)),
		Buffer: uint32(min(burst/rate*1e6*netlink.TickInUsec(), most)),
	}
}

func (s *space) tbfAdd(link netlink.Link, options bpshaper.Options) error {
	if err := s.links.QdiscAdd(tbfOf(link, options)); err != nil {
		return fmt.Errorf("add qdisc tbf, of the kernel module sch_tbf: %w", err)
	}
	return nil
}

func (s *space) tbfCheck(link netlink.Link, options bpshaper.Options) error {
	qdiscs, err := dumped(func() ([]netlink.Qdisc, error) { return s.links.QdiscList(link) })
	if err != nil {
		return fmt.Errorf("list qdiscs: %w", err)
	}
	want := tbfOf(link, options)
	for _, qdisc := range qdiscs {
		has, is := qdisc.(*netlink.Tbf)
		if is && has.Rate == want.Rate && has.Limit == want.Limit && has.Buffer == want.Buffer {
			return nil
		}
	}
	return fmt.Errorf("the tbf of %s has not the rate, limit and burst of its limit",
		link.Attrs().Name)
}
