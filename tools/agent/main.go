// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

// bpshaper-agent puts annotations of the pods of its node into their classes, while
// they run.
//
//	main.go     options, life
//	words.go    annotations and their values
//	config.go   the ConfigMap: defaults, and who may ask for what
//	wanted.go   what a pod shall have
//	plan.go     what has to change, and who is refused
//	kernel.go   what there is, and changes
//	events.go   what the kernel says of changes
//	agent.go    when it looks again
//	api.go      pods and the ConfigMap, as the API says
//	report.go   Events and the condition
//
// It keeps nothing that it could not read again: what a pod has is in its class, and whose
// a class is in the alias of the pod's veth, by the CNI plugin. Only what somebody removes from a
// node is put back as it was read last.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Set by the Makefile.
var release = "(no version)"

type options struct {
	node      string
	namespace string // of the ConfigMap
	name      string
	server    string
}

const usage = `usage: bpshaper-agent [OPTION...]

Puts the annotations bpshaper/egress-weight and others of the pods of a node into
their classes of bpshaper, while they run.

  --node NAME                whose pods; the default is $NODE_NAME
  --config NAMESPACE/NAME    the ConfigMap; the default is kube-system/bpshaper-agent
  --server URL               the API without credentials, as that of kubectl proxy;
                             the default is that of the cluster, as a pod finds it
  --version                  print the version and exit

Annotations and the ConfigMap: Documentation/kubernetes.rst
`

// parseOptions returns nil if there is nothing more to do.
func parseOptions(arguments []string, out io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("bpshaper-agent", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.node, "node", os.Getenv("NODE_NAME"), "")
	configMap := flags.String("config", "kube-system/bpshaper-agent", "")
	flags.StringVar(&o.server, "server", "", "")
	version := flags.Bool("version", false, "")
	err := flags.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, usage)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w; see --help", err)
	case flags.NArg() != 0:
		return nil, fmt.Errorf("what is %q? See --help", flags.Arg(0))
	case *version:
		fmt.Fprintln(out, "bpshaper-agent", release)
		return nil, nil
	case o.node == "":
		return nil, errors.New("whose pods? Set --node or NODE_NAME")
	}
	var found bool

	o.namespace, o.name, found = strings.Cut(*configMap, "/")
	if !found || o.namespace == "" || o.name == "" {
		return nil, fmt.Errorf("--config is NAMESPACE/NAME, not %q", *configMap)
	}
	return o, nil
}

func main() {
	o, err := parseOptions(os.Args[1:], os.Stdout)
	if err == nil && o != nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt,
			syscall.SIGTERM)
		defer stop()
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bpshaper-agent:", err)
		os.Exit(1)
	}
}
