// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

// Bpquic sends bulk by QUIC and says what that was like.
//
//	bpquic serve ADDRESS up|down SECONDS CONNECTIONS [GREEDY]
//	bpquic dial ADDRESS up|down SECONDS CONNECTIONS [GREEDY]
//
// Each connection of dial has a socket of its own; those of serve share one. Bulk goes up,
// from dial to serve, or down, for SECONDS; all connections start at once. On each one dial
// also asks for 100 bytes ten times a second. GREEDY UDP sockets without ECN and congestion
// control send beside them, up, to the next port. Each end prints a line of JSON about what it
// has seen after two fifths of the time:
//
//	srtt_p50_ms, srtt_max_ms	of the sender of bulk: smoothed round-trip time, as its
//					stack has it each 10 ms
//	mbit_per_s, jain		of the receiver: goodput, Jain's index of its connections
//	greedy_mbit_per_s		of serve: goodput of the others
//	request_p50_ms, request_p99_ms	of dial: from the question to the first byte
//
// What is sent beside that, or instead:
//
//	bpquic serve|dial ADDRESS call|adaptive SECONDS
//
// A call sends 1 Mbit/s of UDP up, one that is adaptive what the congestion control of WebRTC
// lets it (gcc of pion, 0.3 to 4 Mbit/s). serve prints:
//
//	media_mbit_per_s, lost_percent
//	delay_p50_ms, delay_p99_ms	from when a packet was to be sent
package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	sampleEvery  = 10 * time.Millisecond
	requestEvery = 100 * time.Millisecond
	answerBytes  = 100
	greedyBytes  = 1250 // as the packets of quic-go after a while
)

// What one end has seen.
type seen struct {
	mu       sync.Mutex
	srtt     []float64 // ms
	requests []float64 // ms
	received []atomic.Int64
	greedy   atomic.Int64
	from     time.Time
	until    time.Time
}

func (s *seen) add(to *[]float64, d time.Duration) {
	s.mu.Lock()
	*to = append(*to, float64(d)/1e6)
	s.mu.Unlock()
}

func (s *seen) isMeasured() bool {
	now := time.Now()
	return now.After(s.from) && now.Before(s.until)
}

// bulkSend writes until the time is over.
func (s *seen) bulkSend(conn *quic.Conn) {
	stream, err := conn.OpenUniStream()
	if err != nil {
		return
	}
	stop := make(chan struct{})
	go s.srttSample(conn, stop)
	block := make([]byte, 1<<16)
	stream.SetWriteDeadline(s.until)
	for err == nil {
		_, err = stream.Write(block)
	}
	close(stop)
}

func (s *seen) srttSample(conn *quic.Conn, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(sampleEvery):
		}
		if s.isMeasured() {
			s.add(&s.srtt, conn.ConnectionStats().SmoothedRTT)
		}
	}
}

func (s *seen) bulkReceive(conn *quic.Conn, number int) {
	stream, err := conn.AcceptUniStream(context.Background())
	block := make([]byte, 1<<16)
	for err == nil {
		var n int
		n, err = stream.Read(block)
		if s.isMeasured() {
			s.received[number].Add(int64(n))
		}
	}
}

func (s *seen) request(conn *quic.Conn) error {
	start := time.Now()
	stream, err := conn.OpenStream()
	if err != nil {
		return err
	}
	stream.SetDeadline(s.until.Add(time.Second))
	if _, err = stream.Write([]byte{0}); err != nil {
		return err
	}
	stream.Close()
	if _, err = io.ReadFull(stream, make([]byte, 1)); err != nil {
		return err
	}
	if s.isMeasured() {
		s.add(&s.requests, time.Since(start))
	}
	_, err = io.Copy(io.Discard, stream)
	return err
}

// ask sends a request each tenth of a second, and no second one before its answer.
func (s *seen) ask(conn *quic.Conn) {
	for time.Now().Before(s.until) && s.request(conn) == nil {
		time.Sleep(requestEvery)
	}
}

func answer(conn *quic.Conn) {
	for {
		stream, err := conn.AcceptStream(context.Background())
		if err != nil {
			return
		}
		go func() {
			io.Copy(io.Discard, stream)
			stream.Write(make([]byte, answerBytes))
			stream.Close()
		}()
	}
}

// nextPort returns the address of those that are greedy.
func nextPort(address string) *net.UDPAddr {
	addr, err := net.ResolveUDPAddr("udp", address)
	must(err)
	addr.Port++
	return addr
}

func (s *seen) greedySend(address string) {
	conn, err := net.DialUDP("udp", nil, nextPort(address))
	must(err)
	for time.Now().Before(s.until) {
		conn.Write(make([]byte, greedyBytes))
	}
}

func (s *seen) greedyReceive(address string) {
	conn, err := net.ListenUDP("udp", nextPort(address))
	must(err)
	block := make([]byte, 1<<16)
	for {
		n, err := conn.Read(block)
		must(err)
		if s.isMeasured() {
			s.greedy.Add(int64(n))
		}
	}
}

// at returns the value below which a part of the values lie.
func at(values []float64, part float64) float64 {
	slices.Sort(values)
	return values[min(int(part*float64(len(values))), len(values)-1)]
}

func (s *seen) print() {
	out := map[string]float64{}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.srtt) > 0 {
		out["srtt_p50_ms"], out["srtt_max_ms"] = at(s.srtt, .5), at(s.srtt, 1)
	}
	if len(s.requests) > 0 {
		out["request_p50_ms"], out["request_p99_ms"] = at(s.requests, .5), at(s.requests, .99)
	}
	var sum, squares float64
	for i := range s.received {
		bytes := float64(s.received[i].Load())
		sum, squares = sum+bytes, squares+bytes*bytes
	}
	if sum > 0 {
		out["mbit_per_s"] = sum * 8 / 1e6 / s.until.Sub(s.from).Seconds()
		out["jain"] = sum * sum / squares / float64(len(s.received))
	}
	if bytes := s.greedy.Load(); bytes > 0 {
		out["greedy_mbit_per_s"] = float64(bytes) * 8 / 1e6 / s.until.Sub(s.from).Seconds()
	}
	json.NewEncoder(os.Stdout).Encode(out)
}

func certificate() tls.Certificate {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	must(err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bpquic:", err)
		os.Exit(1)
	}
}

// connections sends them to the channel that it returns.
func connections(isServer bool, address string, count int) chan *quic.Conn {
	conf := &quic.Config{MaxIncomingStreams: 1 << 20, MaxIncomingUniStreams: 1 << 20}
	found := make(chan *quic.Conn, count)
	if isServer {
		listener, err := quic.ListenAddr(address, &tls.Config{
			Certificates: []tls.Certificate{certificate()}, NextProtos: []string{"bulk"}}, conf)
		must(err)
		go func() {
			for range count {
				conn, err := listener.Accept(context.Background())
				must(err)
				found <- conn
			}
		}()
		return found
	}
	for range count {
		go func() {
			conn, err := quic.DialAddr(context.Background(), address,
				&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"bulk"}}, conf)
			must(err)
			found <- conn
		}()
	}
	return found
}

func main() {
	if len(os.Args) == 5 {
		mediaMain(os.Args[1] == "serve", os.Args[2], os.Args[3], os.Args[4])
		return
	}
	if len(os.Args) < 6 || len(os.Args) > 7 {
		fmt.Fprintln(os.Stderr, "usage: bpquic serve|dial ADDRESS up|down SECONDS CONNECTIONS [GREEDY]")
		os.Exit(2)
	}
	isServer, isUp := os.Args[1] == "serve", os.Args[3] == "up"
	seconds, err := strconv.ParseFloat(os.Args[4], 64)
	must(err)
	count, err := strconv.Atoi(os.Args[5])
	must(err)
	greedy := 0
	if len(os.Args) == 7 {
		greedy, err = strconv.Atoi(os.Args[6])
		must(err)
	}
	took := time.Duration(seconds * float64(time.Second))
	s := &seen{received: make([]atomic.Int64, count)}

	found, conns := connections(isServer, os.Args[2], count), []*quic.Conn{}
	for range count {
		conns = append(conns, <-found)
	}
	start := time.Now()
	s.from, s.until = start.Add(took*2/5), start.Add(took)
	for number, conn := range conns {
		if isServer {
			go answer(conn)
		} else {
			go s.ask(conn)
		}
		if isServer == isUp {
			go s.bulkReceive(conn, number)
		} else {
			go s.bulkSend(conn)
		}
	}
	if isServer && greedy > 0 {
		go s.greedyReceive(os.Args[2])
	}
	for range greedy {
		if !isServer {
			go s.greedySend(os.Args[2])
		}
	}
	time.Sleep(time.Until(s.until.Add(time.Second)))
	s.print()
}
