// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"bpshaper.example/tools/owner"
)

const (
	// Changes that come together cost one look.
	pause = 50 * time.Millisecond
	// What no message of the kernel has said is read.
	resync = time.Minute
	retry  = 5 * time.Second
)

type agent struct {
	api      *api
	kernel   *kernel
	reporter *reporter
	conf     *config // the last one that was good
	confErr  string
	refused  map[types.UID]*refusal
}

func run(ctx context.Context, o *options) error {
	changed, moved := make(chan struct{}, 1), make(chan struct{}, 1)
	kernel, err := kernelOpen()
	if err != nil {
		return err
	}
	client, err := apiOpen(o)
	if err != nil {
		return err
	}
	a := &agent{api: client, kernel: kernel, reporter: reporterNew(client)}
	client.watch(o, func() { wake(changed) })
	slog.Info("bpshaper-agent", "version", release, "node", o.node)
	// Nothing changes before all is known.
	if !client.start(ctx) {
		return nil
	}
	go kernel.events.wait(func() { wake(moved) })
	go a.reporter.run(ctx)
	for ctx.Err() == nil {
		next := resync
		if err := a.look(); err != nil {
			slog.Error("nothing is changed", "error", err)
			next = retry
		}
		a.wait(ctx, changed, moved, time.After(next))
	}
	return nil
}

// wait returns when there may be something to do. What the kernel says is often what the agent
// has done itself.
func (a *agent) wait(ctx context.Context, changed, moved <-chan struct{}, late <-chan time.Time) {
	for {
		time.Sleep(pause)
		select {
		case <-ctx.Done():
			return
		case <-changed:
			return
		case <-moved:
			if !a.kernel.follow() {
				return
			}
		case <-late:
			return
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
	} else if conf != a.conf {
		a.conf, a.kernel.has = conf, nil
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
	a.kernel.follow()
	start := time.Now()
	for isRead := a.kernel.has == nil; ; isRead, a.kernel.has = true, nil {
		if err := a.kernel.know(a.conf.defaults[ingressCeil] != nil); err != nil {
			return fmt.Errorf("read the kernel: %w", err)
		}
		changes, refused := planOf(a.conf, pods, a.kernel.has)
		// Nobody is refused, and nothing given up, before all is read anew.
		if !isRead && a.isNews(refused) || !a.applyAll(changes, refused, isRead) && !isRead {
			continue
		}
		if changes != nil {
			slog.Info("done", "changes", len(changes), "ms", time.Since(start).Milliseconds())
		}
		a.refused = refused
		a.reporter.set(pods, refused)
		return nil
	}
}

// isNews says that somebody is refused who was not. A wrong annotation is wrong whatever the
// kernel has.
func (a *agent) isNews(refused map[types.UID]*refusal) bool {
	for uid, why := range refused {
		before := a.refused[uid]
		if why.reason != badAnnotation && (before == nil || before.reason != why.reason ||
			before.key != why.key) {
			return true
		}
	}
	return false
}

// applyAll returns false if the kernel is not as it was thought to be, and then goes on only if
// it has just been read. A pod that has gone meanwhile is no failure.
func (a *agent) applyAll(changes []change, refused map[types.UID]*refusal, isRead bool) bool {
	isDone := true
	for i := range changes {
		c := &changes[i]
		what := strings.Join(c.what, ", ")
		if err := a.kernel.apply(c); err != nil {
			if isDone = false; !isRead {
				return false
			}
			if !isGone(err) {
				refused[c.pod.uid] = refuse(failed, what, "%v", err)
			}
			continue
		}
		slog.Info("changed", "pod", c.pod.fullName(), "where", c.where, "to", what)
	}
	if !isDone {
		a.kernel.has = nil
	}
	return isDone
}
