// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package bpshaper

import (
	"errors"
	"testing"
)

// Each namespace has lo, and nobody needs to be root to see it.
func TestEachDevice(t *testing.T) {
	c, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want, err := c.Devices()
	if err != nil || len(want) == 0 || want[0] != (Device{Ifindex: 1, Name: "lo", PeerSpace: -1}) {
		t.Fatalf("%+v, %v", want, err)
	}
	for range 2 {
		var got []Device

		err := c.EachDevice(func(d *Device) error {
			got = append(got, *d)
			return nil
		})
		if err != nil || len(got) != len(want) || got[0] != want[0] {
			t.Errorf("%+v, %v, expected %+v", got, err, want)
		}
	}
}

// What ends a listing is called once, comes back as it is, and leaves a Conn that
// says so and never one that reads the rest as the next answer.
func TestEachEnds(t *testing.T) {
	c, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	enough, calls := errors.New("enough"), 0
	err = c.EachDevice(func(*Device) error {
		calls++
		return enough
	})
	if err != enough || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
	if devices, err := c.Devices(); err == nil {
		t.Errorf("the next listing says %+v", devices)
	}
	c.Close()
}
