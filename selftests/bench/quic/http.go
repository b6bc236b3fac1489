// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go/http3"
)

const httpClients = 8 // of each protocol

// httpServe answers at the TCP port and the UDP port of the address.
func httpServe(address string, took time.Duration) {
	handler := http.NewServeMux()
	handler.HandleFunc("/bulk", func(w http.ResponseWriter, _ *http.Request) {
		var err error
		for block := make([]byte, 1<<16); err == nil; {
			_, err = w.Write(block)
		}
	})
	handler.HandleFunc("/small", func(w http.ResponseWriter, _ *http.Request) {
		w.Write(make([]byte, answerBytes))
	})
	conf := &tls.Config{Certificates: []tls.Certificate{certificate()}}
	h2 := &http.Server{Addr: address, Handler: handler, TLSConfig: conf}
	h3 := &http3.Server{Addr: address, Handler: handler, TLSConfig: http3.ConfigureTLSConfig(conf)}
	go func() { must(h2.ListenAndServeTLS("", "")) }()
	go func() { must(h3.ListenAndServe()) }()
	time.Sleep(took + 3*time.Second)
}

// httpBulk reads until the time is over, and asks for small answers on the same connection.
func (s *seen) httpBulk(transport http.RoundTripper, address string, number int) {
	client := &http.Client{Transport: transport}
	bulk, err := client.Get("https://" + address + "/bulk")
	must(err)
	go func() {
		for time.Now().Before(s.until) {
			start := time.Now()
			small, err := client.Get("https://" + address + "/small")
			if err != nil {
				return
			}
			if s.isMeasured() {
				s.add(&s.requests, time.Since(start))
			}
			io.Copy(io.Discard, small.Body)
			small.Body.Close()
			time.Sleep(requestEvery)
		}
	}()
	for block := make([]byte, 1<<16); time.Now().Before(s.until); {
		n, err := bulk.Body.Read(block)
		must(err)
		if s.isMeasured() {
			s.received[number].Add(int64(n))
		}
	}
}

func httpGet(address string, took time.Duration) {
	insecure := &tls.Config{InsecureSkipVerify: true}
	transports := map[string]func() http.RoundTripper{
		"h2": func() http.RoundTripper {
			return &http.Transport{TLSClientConfig: insecure.Clone(), ForceAttemptHTTP2: true}
		},
		"h3": func() http.RoundTripper { return &http3.Transport{TLSClientConfig: insecure.Clone()} },
	}
	out, start, wait := map[string]float64{}, time.Now(), sync.WaitGroup{}
	both := map[string]*seen{}
	for name, transport := range transports {
		s := &seen{received: make([]atomic.Int64, httpClients),
			from: start.Add(took * 2 / 5), until: start.Add(took)}
		both[name] = s
		for number := range httpClients {
			wait.Go(func() { s.httpBulk(transport(), address, number) })
		}
	}
	wait.Wait()
	for name, s := range both {
		s.mu.Lock()
		for i := range s.received {
			out[name+"_mbit_per_s"] += float64(s.received[i].Load()) * 8 / 1e6 / (took * 3 / 5).Seconds()
		}
		if len(s.requests) > 0 {
			out[name+"_request_p50_ms"] = at(s.requests, .5)
			out[name+"_request_p99_ms"] = at(s.requests, .99)
		}
		s.mu.Unlock()
	}
	json.NewEncoder(os.Stdout).Encode(out)
}
