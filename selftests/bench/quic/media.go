// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/gcc"
	"github.com/pion/interceptor/pkg/twcc"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
)

// A call sends 1250 bytes each 10 ms.
const (
	mediaEvery    = 10 * time.Millisecond
	mediaBytes    = 1250 // at most in a packet
	stampBytes    = 16   // number of the packet, when it was to be sent
	callRate      = 1_000_000
	adaptiveFirst = 300_000
	adaptiveMost  = 4_000_000
	reportEvery   = 50 * time.Millisecond
)

var mediaStream = interceptor.StreamInfo{SSRC: 1, RTPHeaderExtensions: []interceptor.RTPHeaderExtension{
	{ID: 1, URI: "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01"}}}

// mediaMain is `bpquic serve|dial ADDRESS call|adaptive SECONDS`.
func mediaMain(isServer bool, address, kind, seconds string) {
	number, err := strconv.ParseFloat(seconds, 64)
	must(err)
	took := time.Duration(number * float64(time.Second))
	switch kind {
	case "call", "adaptive":
		if isServer {
			mediaReceive(address, kind == "adaptive", took)
		} else {
			mediaSend(address, kind == "adaptive", took)
		}
	default:
		must(fmt.Errorf("%s is not known", kind))
	}
}

func reportsRead(conn *net.UDPConn, control *gcc.SendSideBWE) {
	for block := make([]byte, 1<<16); ; {
		n, err := conn.Read(block)
		if err != nil { // The other end may not be there yet.
			continue
		}
		reports, err := rtcp.Unmarshal(block[:n])
		must(err)
		must(control.WriteRTCP(reports, nil))
	}
}

func mediaSend(address string, isAdaptive bool, took time.Duration) {
	addr, err := net.ResolveUDPAddr("udp", address)
	must(err)
	conn, err := net.DialUDP("udp", nil, addr)
	must(err)
	rate := func() int { return callRate }
	var writer interceptor.RTPWriter = interceptor.RTPWriterFunc(
		func(h *rtp.Header, payload []byte, _ interceptor.Attributes) (int, error) {
			b, err := (&rtp.Packet{Header: *h, Payload: payload}).Marshal()
			must(err)
			return conn.Write(b)
		})
	if isAdaptive {
		control, err := gcc.NewSendSideBWE(gcc.SendSideBWEInitialBitrate(adaptiveFirst),
			gcc.SendSideBWEMaxBitrate(adaptiveMost), gcc.SendSideBWEPacer(gcc.NewNoOpPacer()))
		must(err)
		rate = control.GetTargetBitrate
		number, err := (&twcc.HeaderExtensionInterceptorFactory{}).NewInterceptor("")
		must(err)
		writer = number.BindLocalStream(&mediaStream, control.AddStream(&mediaStream, writer))
		go reportsRead(conn, control)
	}
	number, next := uint64(0), time.Now()
	for until := next.Add(took); next.Before(until); next = next.Add(mediaEvery) {
		time.Sleep(time.Until(next))
		bytes := int(float64(rate()) / 8 * mediaEvery.Seconds())
		packets := (bytes + mediaBytes - 1) / mediaBytes
		for range packets {
			payload := make([]byte, max(bytes/packets, stampBytes))
			binary.BigEndian.PutUint64(payload, number)
			binary.BigEndian.PutUint64(payload[8:], uint64(next.UnixNano()))
			number++
			// The other end may not be there yet.
			writer.Write(&rtp.Header{Version: 2, SSRC: mediaStream.SSRC}, payload, nil)
		}
	}
}

// What has arrived of what was sent after two fifths of the time.
type arrived struct {
	from, until    time.Time
	first, last, n uint64
	bytes          int
	delays         []float64 // ms
}

func (a *arrived) add(payload []byte) {
	now, number := time.Now(), binary.BigEndian.Uint64(payload)
	sent := time.Unix(0, int64(binary.BigEndian.Uint64(payload[8:])))
	if sent.Before(a.from) || sent.After(a.until) {
		return
	}
	if a.n == 0 {
		a.first = number
	}
	a.last = number
	a.n++
	a.bytes += len(payload)
	a.delays = append(a.delays, float64(now.Sub(sent))/1e6)
}

func (a *arrived) print() {
	out := map[string]float64{"lost_percent": 100}
	if a.n > 0 {
		out["lost_percent"] = 100 - 100*float64(a.n)/float64(a.last-a.first+1)
		out["media_mbit_per_s"] = float64(a.bytes) * 8 / 1e6 / a.until.Sub(a.from).Seconds()
		out["delay_p50_ms"], out["delay_p99_ms"] = at(a.delays, .5), at(a.delays, .99)
	}
	json.NewEncoder(os.Stdout).Encode(out)
}

func mediaReceive(address string, isAdaptive bool, took time.Duration) {
	addr, err := net.ResolveUDPAddr("udp", address)
	must(err)
	conn, err := net.ListenUDP("udp", addr)
	must(err)
	var chain interceptor.Interceptor = &interceptor.NoOp{}
	if isAdaptive {
		report, err := twcc.NewSenderInterceptor(twcc.SendInterval(reportEvery))
		must(err)
		chain, err = report.NewInterceptor("")
		must(err)
	}
	var peer netip.AddrPort
	reader := chain.BindRemoteStream(&mediaStream, interceptor.RTPReaderFunc(
		func(b []byte, a interceptor.Attributes) (int, interceptor.Attributes, error) {
			n, from, err := conn.ReadFromUDPAddrPort(b)
			if !peer.IsValid() {
				peer = from
			}
			return n, a, err
		}))
	chain.BindRTCPWriter(interceptor.RTCPWriterFunc(
		func(packets []rtcp.Packet, _ interceptor.Attributes) (int, error) {
			b, err := rtcp.Marshal(packets)
			must(err)
			return conn.WriteToUDPAddrPort(b, peer)
		}))
	a := &arrived{}
	conn.SetReadDeadline(time.Now().Add(took + 2*time.Second))
	for block := make([]byte, 1<<16); ; {
		n, _, err := reader.Read(block, nil)
		if err != nil {
			break
		}
		if a.from.IsZero() {
			a.from, a.until = time.Now().Add(took*2/5), time.Now().Add(took)
			conn.SetReadDeadline(a.until.Add(time.Second))
		}
		var packet rtp.Packet
		must(packet.Unmarshal(block[:n]))
		a.add(packet.Payload)
	}
	a.print()
}
