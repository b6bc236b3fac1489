// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

// Of a module that is not bpshaper's: run builds it there.
package main

import (
	"fmt"
	"log"

	"bpshaper.example/tools/bpshaper"
)

func main() {
	bits, err := bpshaper.ParseRate("1.5mbit")
	if err != nil {
		log.Fatal(err)
	}
	c, err := bpshaper.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err = c.Qdiscs(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(bpshaper.FormatRate(bits))
}
