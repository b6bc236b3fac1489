// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"bpshaper.example/tools/bpshaper"
	"bpshaper.example/tools/owner"
)

const (
	// Changes that come together cost one look.
	pause = 50 * time.Millisecond
	// What no message of the kernel or of the API has said.
	resync = time.Minute
	retry  = 5 * time.Second
)

type agent struct {
	api      *api
	kernel   *kernel
	reporter *reporter
	conf     *config // the last one that was good
	confErr  string
}

func run(ctx context.Context, o *options) error {
	changed := make(chan struct{}, 1)
	conn, err := bpshaper.Open()
	if err != nil {
		return err
	}
	defer conn.Close()
	client, err := apiOpen(o)
	if err != nil {
		return err
	}
	a := &agent{api: client, kernel: &kernel{conn}, reporter: reporterNew(client)}
	client.watch(o, func() { wake(changed) })
	slog.Info("bpshaper-agent", "version", release, "node", o.node)
	// Nothing changes before all is known.
	if !client.start(ctx) {
		return nil
	}
	go watch(ctx, func() { wake(changed) })
	go a.reporter.run(ctx)
	for {
		next := resync
		if err := a.look(); err != nil {
			slog.Error("nothing is changed", "error", err)
			next = retry
		}
		if ctx.Err() != nil {
			return nil
		}
		time.Sleep(pause)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-time.After(next):
		}
	}
}

// configure takes a ConfigMap that is good. With one that is not, or has gone, the last
// one holds.
func (a *agent) configure() bool {
	conf, err := a.api.config()
	text := ""
	if err != nil {
		text = err.Error()
	} else {
		a.conf = conf
	}
	if text != "" && text != a.confErr {
		slog.Error("the configuration is not used", "error", text)
	}
	a.confErr = text
	return a.conf != nil
}

// look puts right what differs. Commands of the plugin wait meanwhile: they may
// delete a class, and give its number to another pod.
func (a *agent) look() error {
	if !a.configure() {
		return nil
	}
	pods := a.api.allPods()
	unlock, err := owner.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	start := time.Now()
	has, err := a.kernel.read(a.conf.defaults[ingressCeil] != nil)
	if err != nil {
		return fmt.Errorf("read the kernel: %w", err)
	}
	changes, refused := planOf(a.conf, pods, has)
	for i := range changes {
		c := &changes[i]
		what := strings.Join(c.what, ", ")
		if err := a.kernel.apply(c); err != nil {
			refused[c.pod.uid] = refuse(failed, what, "%v", err)
			continue
		}
		slog.Info("changed", "pod", c.pod.fullName(), "where", c.where, "to", what)
	}
	if changes != nil {
		slog.Info("done", "changes", len(changes), "ms", time.Since(start).Milliseconds())
	}
	a.reporter.set(pods, refused)
	return nil
}
