// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"bpshaper.example/tools/bpshaper"
)

// Rates are the keys of the plugin bandwidth, in bits per second and bits. The
// type must be exported for JSON to fill it where it is embedded.
type Rates struct {
	IngressRate  uint64 `json:"ingressRate"`
	IngressBurst uint64 `json:"ingressBurst"`
	EgressRate   uint64 `json:"egressRate"`
	EgressBurst  uint64 `json:"egressBurst"`
}

// Extras are the keys that bandwidth does not have.
type Extras struct {
	Latency *duration `json:"latency"`
	Attach  *string   `json:"attach"`
	Node    *node     `json:"node"`
	Floor   *bits     `json:"floor"`
	Ceil    *bits     `json:"ceil"`
	Weight  *uint32   `json:"weight"`
	Prio    *uint32   `json:"prio"`
	Missing *string   `json:"missing"`
}

type node struct {
	Rate   bits   `json:"rate"`
	Device string `json:"device"`
}

const nodeDevice = "bps-node"

// bits per second: a number, or what tc takes.
type bits uint64

func (b *bits) UnmarshalJSON(text []byte) error {
	var word string

	if json.Unmarshal(text, (*uint64)(b)) == nil {
		return nil
	}
	if err := json.Unmarshal(text, &word); err != nil {
		return fmt.Errorf("%s is no rate: expected bits per second, or a text "+
			"as \"100mbit\"", text)
	}
	rate, err := bpshaper.ParseRate(word)
	*b = bits(rate)
	return err
}

func (b bits) String() string { return bpshaper.FormatRate(uint64(b)) }

// bytes per second, rounded down as bandwidth does.
func (b bits) bytes() uint64 { return uint64(b) / 8 }

// duration has a unit: numbers alone mean different things to different people.
type duration time.Duration

func (d *duration) UnmarshalJSON(text []byte) error {
	var word string

	if err := json.Unmarshal(text, &word); err != nil {
		return fmt.Errorf("%s is no time: expected a text as \"5ms\"", text)
	}
	time, err := bpshaper.ParseTime(word)
	*d = duration(time)
	return err
}

// config is what a command gets.
type config struct {
	types.PluginConf
	*Rates
	Extras
	RuntimeConfig struct {
		Bandwidth *struct {
			Rates
			Extras
		} `json:"bandwidth"`
	} `json:"runtimeConfig"`

	limitsAll bool // it has a limit of its own, for each pod
}

// invalid gives an error the code that the specification has for it.
func invalid(err error) error {
	return types.NewError(types.ErrInvalidNetworkConfig, err.Error(), "")
}

// parseForRemoval takes what a removal needs: the name of the network, and the node's
// device if that can be read.
func parseForRemoval(stdin []byte) (*config, error) {
	var others config

	conf := config{}
	if err := json.Unmarshal(stdin, &conf.PluginConf); err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	_ = json.Unmarshal(stdin, &others)
	others.finish()
	conf.Node = others.Node
	conf.finish()
	return &conf, nil
}

// parseValid reads which attachments GC shall keep. The first texts of the
// specification 1.1.0 called the key cni.dev/attachments; runtimes by libcni pass
// both. Without either, nothing could be told from what shall be removed: null and
// an empty list say that nothing is valid.
func parseValid(stdin []byte) ([]types.GCAttachment, error) {
	var valid []types.GCAttachment
	var keys map[string]json.RawMessage

	if err := json.Unmarshal(stdin, &keys); err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	found := false
	for _, key := range []string{"cni.dev/valid-attachments", "cni.dev/attachments"} {
		var more []types.GCAttachment

		text, ok := keys[key]
		if !ok {
			continue
		}
		if err := json.Unmarshal(text, &more); err != nil {
			return nil, fmt.Errorf("read %s: %w", key, err)
		}
		valid, found = append(valid, more...), true
	}
	if !found {
		return nil, invalid(errors.New("GC needs cni.dev/valid-attachments"))
	}
	return valid, nil
}

func parseConfig(stdin []byte) (*config, error) {
	conf := config{}
	if err := json.Unmarshal(stdin, &conf); err != nil {
		return nil, invalid(fmt.Errorf("read the configuration: %w", err))
	}
	conf.finish()
	if err := conf.validate(); err != nil {
		return nil, invalid(err)
	}
	if conf.RawPrevResult == nil {
		return &conf, nil
	}
	if err := version.ParsePrevResult(&conf.PluginConf); err != nil {
		return nil, fmt.Errorf("read prevResult: %w", err)
	}
	if _, err := current.NewResultFromResult(conf.PrevResult); err != nil {
		return nil, fmt.Errorf("convert prevResult: %w", err)
	}
	return &conf, nil
}

// finish merges what is inline with what the runtime says. Any of the four keys
// of bandwidth inline hides all four of the runtime, also if it is 0. Of the
// others each stands for itself.
func (conf *config) finish() {
	conf.limitsAll = conf.Rates != nil && *conf.Rates != Rates{} || conf.Node != nil
	if runtime := conf.RuntimeConfig.Bandwidth; runtime != nil {
		if conf.Rates == nil {
			conf.Rates = &runtime.Rates
		}
		conf.Latency = or(conf.Latency, runtime.Latency)
		conf.Attach = or(conf.Attach, runtime.Attach)
		conf.Node = or(conf.Node, runtime.Node)
		conf.Floor = or(conf.Floor, runtime.Floor)
		conf.Ceil = or(conf.Ceil, runtime.Ceil)
		conf.Weight = or(conf.Weight, runtime.Weight)
		conf.Prio = or(conf.Prio, runtime.Prio)
		conf.Missing = or(conf.Missing, runtime.Missing)
	}
	if conf.Rates == nil {
		conf.Rates = &Rates{}
	}
	if conf.Node != nil && conf.Node.Device == "" {
		conf.Node.Device = nodeDevice
	}
}

func or[T any](first, second *T) *T {
	if first != nil {
		return first
	}
	return second
}

// isEmpty says that there is nothing to do. On a node with a rate each pod has a
// class.
func (conf *config) isEmpty() bool {
	return *conf.Rates == Rates{} && conf.Node == nil
}

func (conf *config) validate() error {
	return errors.Join(
		validateRate("ingress", conf.IngressRate, conf.IngressBurst),
		validateRate("egress", conf.EgressRate, conf.EgressBurst),
		conf.validateExtras(), conf.validateMissing())
}

// validateRate refuses what bandwidth refuses, and rates below a byte a second,
// which the kernel refuses.
func validateRate(direction string, rate, burst uint64) error {
	switch {
	case burst == 0 && rate != 0:
		return fmt.Errorf("if %sRate is set, %sBurst must also be set", direction,
			direction)
	case rate == 0 && burst != 0:
		return fmt.Errorf("if %sBurst is set, %sRate must also be set", direction,
			direction)
	case burst/8 >= math.MaxUint32:
		return fmt.Errorf("%sBurst cannot be more than 4 GB", direction)
	case rate != 0 && rate < 8*bpshaper.RateMin:
		return fmt.Errorf("%sRate is %d bit/s, and must be 8 or more", direction, rate)
	}
	return nil
}

func (conf *config) validateExtras() error {
	var errs []error

	refuse := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if conf.Latency != nil {
		refuse(*conf.Latency <= 0 || *conf.Latency > bpshaper.LatencyMax,
			"latency must be above 0 and at most 60s")
	}
	refuse(conf.Attach != nil && *conf.Attach != "pod" && *conf.Attach != "host",
		"attach must be \"pod\" or \"host\"")
	if conf.Node != nil {
		refuse(conf.Attach != nil && *conf.Attach == "pod",
			"with node, what pods send is limited at the host: attach cannot be \"pod\"")
		refuse(conf.Node.Rate < 8, "node needs a rate of 8 bit/s or more")
		refuse(len(conf.Node.Device) > 15 || strings.ContainsAny(conf.Node.Device, "/ :%"),
			"node: %q is no name of a device", conf.Node.Device)
		return errors.Join(append(errs, conf.validateClass())...)
	}
	refuse(conf.Floor != nil || conf.Ceil != nil || conf.Weight != nil ||
		conf.Prio != nil, "floor, ceil, weight and prio need node")
	return errors.Join(errs...)
}

func (conf *config) validateClass() error {
	ceil, limited := conf.ceil()
	switch {
	case conf.Weight != nil && (*conf.Weight < 1 || *conf.Weight > bpshaper.WeightMax):
		return fmt.Errorf("weight must be from 1 to %d", bpshaper.WeightMax)
	case conf.Prio != nil && *conf.Prio > bpshaper.PrioMax:
		return fmt.Errorf("prio must be from 0 to %d", bpshaper.PrioMax)
	case limited && ceil < 8:
		return errors.New("ceil must be 8 bit/s or more")
	case conf.Floor != nil && *conf.Floor > conf.Node.Rate:
		return fmt.Errorf("floor is %v, above the node's rate of %v", *conf.Floor,
			conf.Node.Rate)
	case conf.Floor != nil && limited && *conf.Floor > ceil:
		return fmt.Errorf("floor is %v, above ceil or egressRate, %v", *conf.Floor, ceil)
	}
	return nil
}

// ceil is the smaller of ceil and egressRate, which mean the same on a node.
func (conf *config) ceil() (ceil bits, limited bool) {
	ceil = math.MaxUint64
	if conf.Ceil != nil {
		ceil = *conf.Ceil
	}
	if conf.EgressRate != 0 {
		ceil = min(ceil, bits(conf.EgressRate))
	}
	return ceil, ceil != math.MaxUint64
}

func (conf *config) nodeDevice() string {
	if conf.Node == nil {
		return nodeDevice
	}
	return conf.Node.Device
}

func (conf *config) isAtHost() bool {
	return conf.Attach != nil && *conf.Attach == "host"
}

// needsIfb says that what a pod sends would be limited at the host.
func (conf *config) needsIfb() bool { return conf.Node != nil || conf.isAtHost() }

// rateOption is what the kernel takes, which has a bound.
func rateOption(rate bits) *uint64 {
	return bpshaper.To(min(rate.bytes(), bpshaper.RateMax))
}

// burstIsUnset knows the two bursts that runtimes pass where the user said nothing:
// an annotation has none, so Kubernetes and containerd pass the largest number.
func burstIsUnset(burst uint64) bool {
	return burst == math.MaxInt32 || burst == math.MaxUint32
}

// burstOption leaves out a burst that nobody has asked for, and one beyond what the
// rate sends in a second, which would let a pod send for minutes without a limit.
// Instead the qdisc takes its default.
func burstOption(rate bits, burst uint64) *uint32 {
	if burst == 0 || burstIsUnset(burst) || burst > uint64(rate) {
		return nil
	}
	return bpshaper.To(uint32(max(burst/8, 1)))
}

// burstLogged is the line of the log for a burst that is left out, or empty.
func burstLogged(direction string, rate bits, burst uint64) string {
	switch {
	case burst == 0 || burstOption(rate, burst) != nil:
		return ""
	case burstIsUnset(burst):
		return fmt.Sprintf("%sBurst of %d bit is what runtimes pass where none is set: "+
			"cut to the default of the qdisc", direction, burst)
	}
	return fmt.Sprintf("%sBurst of %d bit is %.1f s of %v: cut to the default of the qdisc",
		direction, burst, float64(burst)/float64(rate), rate)
}

func burstLog(direction string, rate bits, burst uint64) {
	if line := burstLogged(direction, rate, burst); line != "" {
		logf("%s", line)
	}
}

func (conf *config) latencyOption() *uint64 {
	if conf.Latency == nil {
		return nil
	}
	return bpshaper.To(uint64(*conf.Latency))
}

func (conf *config) options(rate, burst uint64) bpshaper.Options {
	return bpshaper.Options{Rate: rateOption(bits(rate)),
		Burst: burstOption(bits(rate), burst), Latency: conf.latencyOption()}
}

func (conf *config) ingressOptions() bpshaper.Options {
	return conf.options(conf.IngressRate, conf.IngressBurst)
}

func (conf *config) egressOptions() bpshaper.Options {
	return conf.options(conf.EgressRate, conf.EgressBurst)
}

func (conf *config) classOptions() bpshaper.ClassOptions {
	options := bpshaper.ClassOptions{Latency: conf.latencyOption(),
		Weight: conf.Weight, Prio: conf.Prio}
	if conf.Floor != nil {
		options.Floor = rateOption(*conf.Floor)
	}
	if ceil, limited := conf.ceil(); limited {
		options.Ceil = rateOption(ceil)
		options.Burst = burstOption(ceil, conf.EgressBurst)
	}
	return options
}
