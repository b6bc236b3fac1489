// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package bpshaper

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// liveOptions are those of the qdisc in testdata.
func liveOptions() Options {
	return Options{Rate: To[uint64](1000), Burst: To[uint32](3000),
		Latency: To[uint64](2e9), ShareMin: To[uint32](1514),
		Pacing: To(false), CEThreshold: To[uint64](5e6)}
}

// liveNamespace skips the test on a machine that does not ask for it. The
// namespace is that of the thread, which ends with the test.
func liveNamespace(t *testing.T) *Conn {
	if os.Getenv("BPSHAPER_LIVE") == "" {
		t.Skip("needs root and the module: BPSHAPER_LIVE=1, selftests/guest/go.sh")
	}
	runtime.LockOSThread()
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func record(t *testing.T, name string, messages [][]byte) {
	dir := os.Getenv("BPSHAPER_RECORD")
	if dir == "" {
		return
	}
	var text strings.Builder

	text.WriteString("# SPDX-License-Identifier: GPL-2.0-only\n")
	for _, data := range messages {
		text.WriteString(hex.EncodeToString(data) + "\n")
	}
	if err := os.WriteFile(filepath.Join(dir, name+".hex"),
		[]byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func recordDump(t *testing.T, c *Conn, name string, kind uint16) {
	messages, err := c.request(kind, unix.NLM_F_DUMP, tcmsg(1, 0, 0).data)
	if err != nil {
		t.Fatal(err)
	}
	record(t, name, messages)
}

// sendUntilThrottled fills the qdisc of lo from one socket.
func sendUntilThrottled(t *testing.T) net.Conn {
	socket, err := net.Dial("udp4", "127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		deadline := time.Now().Add(200 * time.Millisecond)
		if err := socket.SetWriteDeadline(deadline); err != nil {
			t.Fatal(err)
		}
		_, err := socket.Write(make([]byte, 1000))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return socket
		}
		// Nobody listens there.
		if err != nil && !errors.Is(err, unix.ECONNREFUSED) {
			t.Fatal(err)
		}
	}
	t.Fatal("the socket is never throttled")
	return nil
}

func watchRecord(t *testing.T) (stop func()) {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_TC)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		var messages [][]byte

		_ = socket.SetReceiveTimeout(&unix.Timeval{Usec: 200000})
		for {
			got, _, err := socket.Receive()
			if err != nil {
				break
			}
			for _, m := range got {
				kind := native.AppendUint16(nil, m.Header.Type)
				messages = append(messages, append(kind, m.Data...))
			}
		}
		socket.Close()
		record(t, "events", messages)
	}
}

func liveClasses(t *testing.T, c *Conn) {
	class := Class{Ifindex: 1, Parent: MakeHandle(0x1a, 0),
		Handle: MakeHandle(0x1a, 0x10), Options: ClassOptions{
			Floor: To[uint64](1000), Ceil: To[uint64](50000),
			Weight: To[uint32](3), Prio: To[uint32](2)}}
	other := Class{Ifindex: 1, Parent: class.Parent, Handle: MakeHandle(0x1a, 0x20)}
	if err := errors.Join(c.AddClass(class), c.AddClass(other)); err != nil {
		t.Fatal(err)
	}
	recordDump(t, c, "classes", unix.RTM_GETTCLASS)
	classes, flows, err := c.Classes(1)
	throttled := 0 // Beside it there may be an ICMP error.
	for _, f := range flows {
		if f.Parent == class.Parent && f.Stats.State == FlowThrottled {
			throttled++
		}
	}
	if err != nil || len(classes) != 2 || throttled != 1 {
		t.Fatalf("%d classes, flows %v, %v", len(classes), flows, err)
	}
	if err := c.DeleteClass(1, other.Handle); err != nil {
		t.Error(err)
	}
	class.Options.Floor = To[uint64](5000)
	if err := c.AddClass(class); !errors.Is(err, unix.EEXIST) {
		t.Errorf("a class is added twice: %v", err)
	}
	if err := c.ReplaceClass(class); err == nil ||
		!strings.Contains(err.Error(), "floor") {
		t.Errorf("a floor above the rate, and the error is %v", err)
	}
}

func TestLive(t *testing.T) {
	c := liveNamespace(t)
	stop := watchRecord(t)
	q := Qdisc{Ifindex: 1, Handle: MakeHandle(0x1a, 0), Parent: Root,
		Options: Options{Rate: To[uint64](2000)}}
	if err := c.AddQdisc(q); err != nil {
		t.Fatal(err)
	}
	if err := c.AddQdisc(q); !errors.Is(err, unix.EEXIST) {
		t.Errorf("a qdisc is added twice: %v", err)
	}
	q.Options = liveOptions()
	if err := c.ChangeQdisc(q); err != nil {
		t.Fatal(err)
	}
	if err := netlink.QdiscAdd(&netlink.GenericQdisc{QdiscType: "clsact",
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: 1, Handle: 0xffff0000,
			Parent: netlink.HANDLE_CLSACT}}); err != nil {
		t.Fatal(err)
	}
	socket := sendUntilThrottled(t)
	defer socket.Close()
	recordDump(t, c, "qdiscs", unix.RTM_GETQDISC)
	recordDump(t, c, "flows", unix.RTM_GETTCLASS)
	qdiscs, err := c.Qdiscs()
	if err != nil || len(qdiscs) != 1 || qdiscs[0].Stats.ThrottledSockets != 1 {
		t.Fatalf("qdiscs: %+v, %v", qdiscs, err)
	}
	if d := q.Options.Differences(&qdiscs[0].Options); d != nil {
		t.Errorf("options: %v", d)
	}
	_, flows, err := c.Classes(1)
	if err != nil || len(flows) != 1 || flows[0].Stats.State != FlowThrottled {
		t.Errorf("flows: %+v, %v", flows, err)
	}
	liveClasses(t, c)
	if err := c.DeleteQdisc(1, q.Handle, Root); err != nil {
		t.Error(err)
	}
	stop()
}

func TestLiveRedirect(t *testing.T) {
	c := liveNamespace(t)
	other := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "other", Index: 77}}
	if err := netlink.LinkAdd(other); err != nil {
		t.Fatal(err)
	}
	want := Redirect{Ifindex: 1, To: 77, Class: MakeHandle(1, 0x10),
		Cookie: [16]byte{1, 2, 15: 16}}
	if err := c.AddRedirect(want); err != nil {
		t.Fatal(err)
	}
	if err := c.AddRedirect(want); !errors.Is(err, unix.EEXIST) {
		t.Errorf("a redirect is added twice: %v", err)
	}
	messages, err := c.request(unix.RTM_GETTFILTER, unix.NLM_F_DUMP,
		tcmsg(1, 0, clsactIngress).data)
	if err != nil {
		t.Fatal(err)
	}
	record(t, "filters", messages)
	got, err := c.Redirects()
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("are %+v, %v", got, err)
	}
	if err := c.DeleteRedirect(1); err != nil {
		t.Error(err)
	}
	if q, err := c.DeviceQdisc(1, Ingress); err != nil || q != nil {
		t.Errorf("left: %+v, %v", q, err)
	}
}

func TestLiveDeviceQdisc(t *testing.T) {
	c := liveNamespace(t)
	for _, parent := range []Handle{Root, Ingress} {
		if q, err := c.DeviceQdisc(1, parent); err != nil || q != nil {
			t.Errorf("parent %v: nobody has added %+v, %v", parent, q, err)
		}
	}
	err := errors.Join(c.AddQdisc(Qdisc{Ifindex: 1, Handle: MakeHandle(7, 0), Parent: Root}),
		c.AddRedirect(Redirect{Ifindex: 1, To: 1}))
	if err != nil {
		t.Fatal(err)
	}
	if q, err := c.DeviceQdisc(1, Root); err != nil || q == nil || q.Kind != Kind ||
		q.Handle != MakeHandle(7, 0) || q.Parent != Root {
		t.Errorf("is %+v, %v", q, err)
	}
	if q, err := c.DeviceQdisc(1, Ingress); err != nil || q == nil || q.Kind != "clsact" {
		t.Errorf("is %+v, %v", q, err)
	}
	if q, err := c.DeviceQdisc(4711, Root); !errors.Is(err, unix.ENODEV) {
		t.Errorf("of no device: %+v, %v", q, err)
	}
}

// Devices before those with a redirect go, one after the other.
func TestLiveRedirectsWhileDevicesGo(t *testing.T) {
	const going, staying = 50, 150

	c := liveNamespace(t)
	for i := 2; i < 2+going+staying; i++ {
		device := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{
			Name: fmt.Sprint("dummy", i), Index: i}}
		err := netlink.LinkAdd(device)
		if err == nil && i >= 2+going {
			// The kernel answers in several parts.
			err = errors.Join(c.AddQdisc(Qdisc{Ifindex: i, Parent: Root}),
				c.AddRedirect(Redirect{Ifindex: i, To: 1}))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	links, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer links.Close()
	done := make(chan error)
	go func() {
		var err error

		for i := 2; i < 2+going; i++ {
			err = errors.Join(err, links.LinkDel(&netlink.Dummy{
				LinkAttrs: netlink.LinkAttrs{Index: i}}))
		}
		done <- err
	}()
	for {
		got, err := c.Redirects()
		if err != nil && !errors.Is(err, nl.ErrDumpInterrupted) {
			t.Fatal(err)
		}
		if err == nil && len(got) != staying {
			t.Fatalf("are %d, expected %d", len(got), staying)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}

func TestLiveWatch(t *testing.T) {
	c := liveNamespace(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	ns, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	events, done := make(chan Event, 10), make(chan error)
	go func() {
		done <- WatchAt(ctx, ns, func(e Event) error {
			events <- e
			return nil
		})
	}()
	q := Qdisc{Ifindex: 1, Handle: MakeHandle(0x1a, 0), Parent: Root}
	// The watcher may not be there yet.
	for seen := false; !seen; {
		if err := c.ReplaceQdisc(q); err != nil {
			t.Fatal(err)
		}
		select {
		case e := <-events:
			seen = e.Qdisc != nil && !e.Deleted && e.Qdisc.Handle == q.Handle
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("no event")
		}
	}
	if err := c.DeleteQdisc(1, q.Handle, Root); err != nil {
		t.Fatal(err)
	}
	for e := range events {
		if e.Deleted {
			break
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the watch ends with %v", err)
	}
}

func TestLiveNoModule(t *testing.T) {
	if os.Getenv("BPSHAPER_LIVE") != "nomodule" {
		t.Skip("needs a kernel without the module")
	}
	c := liveNamespace(t)
	err := c.AddQdisc(Qdisc{Ifindex: 1, Parent: Root})
	if !errors.Is(err, ErrNoModule) {
		t.Errorf("without the module: %v", err)
	}
}
