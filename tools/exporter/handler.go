// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"compress/gzip"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// logger lets the client library say what was wrong with an answer.
type logger struct{}

func (logger) Println(words ...any) {
	slog.Error(strings.TrimSpace(fmt.Sprintln(words...)))
}

func handlerOf(gatherer prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", compressed(promhttp.HandlerFor(gatherer,
		promhttp.HandlerOpts{ErrorLog: logger{}, ErrorHandling: promhttp.ContinueOnError,
			EnableOpenMetrics: true, MaxRequestsInFlight: 4, DisableCompression: true})))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "bpshaper-exporter", release+": see /metrics")
	})
	return mux
}

// compressor passes on what its Writer has compressed.
type compressor struct {
	http.ResponseWriter
	to *gzip.Writer
}

func (c compressor) Write(data []byte) (int, error) { return c.to.Write(data) }

// compressed compresses at the level that is fastest: the answer becomes a
// twentieth at any, and that of the client library takes almost twice the time.
func compressed(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !takesGzip(r.Header.Get("Accept-Encoding")) {
			handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		to, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		defer to.Close()
		handler.ServeHTTP(compressor{w, to}, r)
	})
}

func takesGzip(accept string) bool {
	for _, encoding := range strings.Split(accept, ",") {
		name, quality, _ := strings.Cut(strings.ReplaceAll(encoding, " ", ""), ";")
		if name == "gzip" {
			return strings.Trim(quality, "q=0.") != "" || quality == ""
		}
	}
	return false
}
