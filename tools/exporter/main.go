// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

// bpshaper-exporter gives the statistics of all bpshapers and their classes to
// Prometheus.
//
//	main.go       options, life
//	handler.go    HTTP
//	collector.go  what is read, when Prometheus asks
//	space.go      network namespaces
//	owner.go      the pod that a qdisc or class belongs to
//	metrics.go    names, units and texts
//	answer.go     values as the client library has them
//	sample.go     histograms and labels as it has them
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/exporter-toolkit/web"
)

// Set by the Makefile.
var release = "(no version)"

type options struct {
	listen string
	web    string
	netns  []string
	device *regexp.Regexp
	form   form
	once   bool
}

const usage = `usage: bpshaper-exporter [OPTION...]

Gives the statistics of all qdiscs and classes of bpshaper to Prometheus, as
http://ADDRESS/metrics.

  --listen ADDRESS   where; the default is localhost:9989. :9989 is all addresses
  --web.config.file FILE
                     TLS and passwords, as Prometheus' exporters have them
  --netns NAME       read this network namespace as well: a name in /run/netns, a
                     path, or all for those in /run/netns at each scrape; may be
                     repeated; needs CAP_SYS_ADMIN
  --device PATTERN   only devices whose whole name matches this regular expression,
                     as eth.*|bps-node
  --histograms FORM  none, native or classic; the default is native
  --once             print the metrics and exit
  --version          print the version and exit

The metrics, and alerts on them: Documentation/metrics.rst
`

// parseOptions returns nil if there is nothing more to do.
func parseOptions(arguments []string, out io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("bpshaper-exporter", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.listen, "listen", "localhost:9989", "")
	flags.StringVar(&o.web, "web.config.file", "", "")
	histograms := flags.String("histograms", "native", "")
	flags.BoolVar(&o.once, "once", false, "")
	version := flags.Bool("version", false, "")
	flags.Func("netns", "", func(name string) error {
		if name == "" {
			return errors.New("it is empty")
		}
		o.netns = append(o.netns, name)
		return nil
	})
	flags.Func("device", "", func(pattern string) (err error) {
		if pattern == "" {
			return errors.New("it is empty")
		}
		if _, err = regexp.Compile(pattern); err == nil {
			o.device, err = regexp.Compile("^(?:" + pattern + ")$")
		}
		return err
	})
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
		fmt.Fprintln(out, "bpshaper-exporter", release)
		return nil, nil
	}
	form, known := forms[*histograms]
	if !known {
		return nil, fmt.Errorf("--histograms is none, native or classic, not %q", *histograms)
	}
	o.form = form
	if err := web.Validate(o.web); err != nil {
		return nil, errors.New("--web.config.file: " + strings.ReplaceAll(err.Error(), "\n", ""))
	}
	return o, nil
}

func gathererOf(o *options) prometheus.Gatherer {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "bpshaper_exporter_info",
		Help:        "The version of the exporter; always 1.",
		ConstLabels: prometheus.Labels{"version": release}})
	build.Set(1)
	registry.MustRegister(build,
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &collector{func() []space { return spacesOf(o.netns, netnsDir) }, o.device, o.form,
		registry}
}

func printOnce(gatherer prometheus.Gatherer, out io.Writer) error {
	families, err := gatherer.Gather()
	if err != nil {
		return err
	}
	encoder := expfmt.NewEncoder(out, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return err
		}
	}
	return nil
}

// serve ends with the context.
func serve(ctx context.Context, listener net.Listener, config string, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 5 * time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := web.Serve(listener, server, &web.FlagConfig{WebConfigFile: &config}, slog.Default())
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func run(o *options) error {
	gatherer := gathererOf(o)
	if o.once {
		return printOnce(gatherer, os.Stdout)
	}
	// An answer is garbage at once, and memory of ten times the answer is
	// enough.
	debug.SetGCPercent(400)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	return serve(ctx, listener, o.web, handlerOf(gatherer))
}

func main() {
	o, err := parseOptions(os.Args[1:], os.Stdout)
	status := 2
	if err == nil && o != nil {
		status, err = 1, run(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bpshaper-exporter:", err)
		os.Exit(status)
	}
}
