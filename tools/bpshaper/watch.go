// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package bpshaper

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Event is a change of a bpshaper or of a class. Either Qdisc or Class is set.
type Event struct {
	Deleted bool
	Qdisc   *Qdisc
	Class   *Class
}

// ErrOverrun says that events were lost. List all, and watch on.
var ErrOverrun = errors.New("events were lost")

// Watch calls f for each change of a bpshaper, or of a class of one, in the
// network namespace of the calling thread, until ctx is done or f returns an
// error. It returns that error, ErrOverrun (and may be called again), or nil
// when ctx is done. When a device goes, or the link, the kernel does not always
// say so here: watch links as well, or list from time to time.
func Watch(ctx context.Context, f func(Event) error) error {
	return WatchAt(ctx, netns.None(), f)
}

// WatchAt does the same in another network namespace.
func WatchAt(ctx context.Context, ns netns.NsHandle, f func(Event) error) error {
	socket, err := nl.SubscribeAt(ns, netns.None(), unix.NETLINK_ROUTE,
		unix.RTNLGRP_TC)
	if err != nil {
		return fmt.Errorf("watch qdiscs: %w", err)
	}
	// Closing wakes the receiver.
	stop := context.AfterFunc(ctx, socket.Close)
	defer func() {
		if stop() {
			socket.Close()
		}
	}()
	for {
		messages, _, err := socket.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS):
			return ErrOverrun
		case err != nil:
			return fmt.Errorf("watch qdiscs: %w", err)
		}
		for _, m := range messages {
			e, err := parseEvent(m.Header.Type, m.Data)
			if err != nil {
				return fmt.Errorf("watch qdiscs: %w", err)
			}
			if e == nil {
				continue
			}
			if err := f(*e); err != nil {
				return err
			}
		}
	}
}

// parseEvent returns nothing for what is not of a bpshaper.
func parseEvent(kind uint16, data []byte) (*Event, error) {
	e := &Event{}
	switch kind {
	case unix.RTM_NEWQDISC, unix.RTM_DELQDISC:
		q, err := parseBpshaper(data)
		if err != nil || q == nil {
			return nil, err
		}
		e.Deleted, e.Qdisc = kind == unix.RTM_DELQDISC, q
	case unix.RTM_NEWTCLASS, unix.RTM_DELTCLASS:
		class, _, err := parseClass(data)
		if err != nil || class == nil {
			return nil, err
		}
		e.Deleted, e.Class = kind == unix.RTM_DELTCLASS, class
	default:
		return nil, nil
	}
	return e, nil
}
