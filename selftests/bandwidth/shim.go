// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

// Put beside the tests of the plugin bandwidth by suite: they call the program
// bpshaper, and see its qdiscs as tbf.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/vishvananda/netlink"
)

func cmdAdd(args *skel.CmdArgs) error   { return command("ADD", args) }
func cmdCheck(args *skel.CmdArgs) error { return command("CHECK", args) }
func cmdDel(args *skel.CmdArgs) error   { return command("DEL", args) }

// command runs the plugin in the namespace of this thread, with the limits where
// bandwidth has them.
func command(name string, args *skel.CmdArgs) error {
	var conf map[string]any
	var failed struct{ Msg string }

	if err := json.Unmarshal(args.StdinData, &conf); err != nil {
		return err
	}
	conf["attach"] = "host"
	stdin, err := json.Marshal(conf)
	if err != nil {
		return err
	}
	plugin := exec.Command("/opt/cni/bin/bpshaper")
	plugin.Env = append(os.Environ(), "CNI_COMMAND="+name,
		"CNI_CONTAINERID="+args.ContainerID, "CNI_NETNS="+args.Netns,
		"CNI_IFNAME="+args.IfName, "CNI_PATH=/opt/cni/bin")
	plugin.Stdin, plugin.Stderr = bytes.NewReader(stdin), os.Stderr
	stdout, err := plugin.Output()
	if err == nil {
		_, err = os.Stdout.Write(stdout)
		return err
	}
	if json.Unmarshal(stdout, &failed) != nil || failed.Msg == "" {
		return fmt.Errorf("%w: %s", err, stdout)
	}
	return errors.New(failed.Msg)
}

// ifbOf is the name of the ifb in place of bandwidth's.
func ifbOf(network, container, ifname string) string {
	a := sha256.Sum256([]byte(network))
	b := sha256.Sum256([]byte(container + "\x00" + ifname))
	sum := sha256.Sum256(append(a[:8:8], b[:8]...))
	return "bps" + hex.EncodeToString(sum[:6])
}

// qdiscList has a tbf of the same rate in place of each bpshaper.
func qdiscList(link netlink.Link) ([]netlink.Qdisc, error) {
	qdiscs, err := netlinksafe.QdiscList(link)
	for i, q := range qdiscs {
		if q.Type() != "bpshaper" {
			continue
		}
		rate, err := rateOf(link.Attrs().Name)
		if err != nil {
			return nil, err
		}
		qdiscs[i] = &netlink.Tbf{QdiscAttrs: *q.Attrs(), Rate: rate}
	}
	return qdiscs, err
}

func rateOf(device string) (uint64, error) {
	var qdiscs []struct {
		Kind    string
		Options struct{ Rate uint64 }
	}

	out, err := exec.Command("tc", "-j", "qdisc", "show", "dev", device, "root").Output()
	if err == nil {
		err = json.Unmarshal(out, &qdiscs)
	}
	if err != nil || len(qdiscs) != 1 {
		return 0, fmt.Errorf("tc says %q: %w", out, err)
	}
	return qdiscs[0].Options.Rate, nil
}
