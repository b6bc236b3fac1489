// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"bpshaper.example/tools/bpshaper"
)

// events is a socket to which the kernel writes each change of a class or device, and each qdisc
// that goes, before it answers who has made it.
type events struct {
	fd     int
	buffer []byte
	isRead chan struct{}
}

// event has a class, a device, or the index of a device that has lost a qdisc.
type event struct {
	deleted bool
	class   *bpshaper.Class
	device  *bpshaper.Device
	bare    int
}

func eventsOpen() (*events, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
		unix.NETLINK_ROUTE)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK,
			Groups: 1<<(unix.RTNLGRP_LINK-1) | 1<<(unix.RTNLGRP_TC-1)})
	}
	if err != nil {
		return nil, fmt.Errorf("watch the kernel: %w", err)
	}
	// The kernel has no longer message.
	return &events{fd, make([]byte, 64<<10), make(chan struct{}, 1)}, nil
}

// wait calls f when there is something to read, and again after it has been read.
func (e *events) wait(f func()) {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(e.fd), Events: unix.POLLIN}}, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			slog.Error("watching the kernel", "error", err)
			time.Sleep(time.Second)
		}
		f()
		<-e.isRead
	}
}

// read returns false if events were lost, or one is news.
func (e *events) read(isSame func(*event) bool) bool {
	isNone := true
	for {
		size, _, err := unix.Recvfrom(e.fd, e.buffer, 0)
		switch err {
		case nil:
			isNone = parseEvents(e.buffer[:size], isSame) && isNone
		case unix.EINTR:
		case unix.EAGAIN:
			wake(e.isRead)
			return isNone
		default: // ENOBUFS
			isNone = false
		}
	}
}

// parseEvents returns false if it cannot, or one is news.
func parseEvents(data []byte, isSame func(*event) bool) bool {
	messages, err := syscall.ParseNetlinkMessage(data)
	isNone := err == nil
	for i := range messages {
		e, err := parseEvent(messages[i].Header.Type, messages[i].Data)
		isNone = isNone && err == nil && (e == nil || isSame(e))
	}
	return isNone
}

// parseEvent returns nothing for what the agent does not read. A bridge says of its ports what
// is no change of a device.
func parseEvent(kind uint16, data []byte) (*event, error) {
	var err error

	e := &event{deleted: kind == unix.RTM_DELTCLASS || kind == unix.RTM_DELLINK}
	switch kind {
	case unix.RTM_NEWTCLASS, unix.RTM_DELTCLASS:
		e.class, _, err = bpshaper.ParseClass(data)
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		if len(data) == 0 || data[0] != unix.AF_UNSPEC {
			return nil, nil
		}
		e.device, err = bpshaper.ParseDevice(data)
	case unix.RTM_DELQDISC:
		if len(data) >= 8 { // struct tcmsg
			e.bare = int(binary.NativeEndian.Uint32(data[4:]))
		}
	}
	if e.class == nil && e.device == nil && e.bare == 0 {
		return nil, err
	}
	return e, err
}
