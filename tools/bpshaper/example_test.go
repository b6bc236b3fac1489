// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package bpshaper_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"bpshaper.example/tools/bpshaper"
)

// Limit a device to 100 Mbit/s.
func ExampleConn_ReplaceQdisc() {
	device, err := net.InterfaceByName("eth0")
	if err != nil {
		log.Fatal(err)
	}
	c, err := bpshaper.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	err = c.ReplaceQdisc(bpshaper.Qdisc{
		Ifindex: device.Index,
		Parent:  bpshaper.Root,
		Options: bpshaper.Options{
			Rate:    bpshaper.To[uint64](100_000_000 / 8),
			Latency: bpshaper.To[uint64](5_000_000),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
}

// Print what each bpshaper of this network namespace counts.
func ExampleConn_Qdiscs() {
	c, err := bpshaper.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	qdiscs, err := c.Qdiscs()
	if err != nil {
		log.Fatal(err)
	}
	for _, q := range qdiscs {
		fmt.Println(q.Ifindex, q.Handle, q.Counters.Packets, "packets, p99 of the wait",
			q.Stats.DelayHist.Quantile(0.99))
		for _, m := range bpshaper.StatsMembers {
			fmt.Println(m.Name, m.Value(&q.Stats))
		}
	}
}

// A class for a container, below a qdisc with handle 1:.
func ExampleConn_AddClass() {
	c, err := bpshaper.OpenPath("/run/netns/blue")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	err = c.AddClass(bpshaper.Class{
		Ifindex: 2,
		Handle:  bpshaper.MakeHandle(1, 0x10),
		Parent:  bpshaper.MakeHandle(1, 0),
		Options: bpshaper.ClassOptions{
			Floor:  bpshaper.To[uint64](1_000_000),
			Weight: bpshaper.To[uint32](3),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
}

// Say when somebody adds, changes or deletes a bpshaper.
func ExampleWatch() {
	err := bpshaper.Watch(context.Background(), func(e bpshaper.Event) error {
		if e.Qdisc != nil {
			fmt.Println(e.Qdisc.Ifindex, e.Qdisc.Handle, "deleted:", e.Deleted)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleParseRate() {
	bits, err := bpshaper.ParseRate("1.5mbit")
	fmt.Println(bits, err)
	// Output: 1500000 <nil>
}

func ExampleHistogram_Quantile() {
	h := bpshaper.Histogram{0: 90, 3: 10}
	fmt.Println(h.Quantile(0.5), h.Quantile(0.99))
	// Output: 1.024µs 8.192µs
}
