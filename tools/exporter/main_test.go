// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"--netns", "a", "--netns=all", "--listen", ":1",
		"--histograms", "none"}, io.Discard)
	if err != nil || len(o.netns) != 2 || o.listen != ":1" || o.form != nil {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range []string{"x", "--rate", "--netns=", "--histograms=no",
		"--device=", "--device=a)(b", "--histograms=both",
		"--web.config.file=/nowhere", "--web.config.file=main.go"} {
		_, err := parseOptions([]string{bad}, io.Discard)
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, done := range []string{"--help", "--version"} {
		var out bytes.Buffer
		if o, err := parseOptions([]string{done}, &out); o != nil || err != nil ||
			!strings.Contains(out.String(), "bpshaper-exporter") {
			t.Errorf("%s: %v, %v, %q", done, o, err, out.String())
		}
	}
}

func get(t testing.TB, handler http.Handler, path, accept string) *httptest.ResponseRecorder {
	request := httptest.NewRequest("GET", path, nil)
	request.Header.Set("Accept", accept)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	if answer.Code != http.StatusOK {
		t.Fatalf("%s: %d, %s", path, answer.Code, answer.Body)
	}
	return answer
}

const (
	openMetrics = "application/openmetrics-text;version=1.0.0"
	protobuf    = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;" +
		"encoding=delimited"
)

func TestFormats(t *testing.T) {
	handler := handlerOf(collectorOf(classic, space{"", opens(kernel(t)), noID}))
	for accept, want := range map[string]string{"": "text/plain", openMetrics: openMetrics[:28],
		protobuf: protobuf[:31]} {
		answer := get(t, handler, "/metrics", accept)
		if got := answer.Header().Get("Content-Type"); !strings.HasPrefix(got, want) {
			t.Errorf("%q is answered with %s", accept, got)
		}
	}
	if text := get(t, handler, "/metrics", openMetrics).Body.String(); !strings.HasSuffix(
		text, "# EOF\n") || !strings.Contains(text, `_bucket{device="lo",handle="1a:",`+
		`parent="root",le="1.024e-06"}`) {
		t.Error(text)
	}
	get(t, handler, "/", "")
}

func TestCompression(t *testing.T) {
	for accept, want := range map[string]bool{"": false, "gzip": true, "br, gzip;q=0.5": true,
		"gzip;q=0": false, "gzip; q=0.0, br": false, "x-gzip": false} {
		if takesGzip(accept) != want {
			t.Errorf("%q: %v", accept, !want)
		}
	}
	server := httptest.NewServer(handlerOf(collectorOf(classic, space{"", opens(kernel(t)), noID})))
	defer server.Close()
	// This client asks for gzip.
	answer, err := server.Client().Get(server.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || !answer.Uncompressed || !strings.Contains(string(text), "bpshaper_netns_up 1") {
		t.Errorf("%v, compressed: %v, %s", err, answer.Uncompressed, text)
	}
}

// $BPSHAPER_EXPOSE names a file for the metrics of the recorded kernel, which
// promtool checks then. Another one, with .yml behind it, is a test of promtool that asks
// the panels.
func TestExpose(t *testing.T) {
	path := os.Getenv("BPSHAPER_EXPOSE")
	if path == "" {
		path = filepath.Join(t.TempDir(), "metrics")
	}
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	r := kernel(t, recorded(t, "classes")...)
	r.devices[0].Alias = id + "eth0 of c0ffee in podnet class 1a:10 of lo pod prod/web-1"
	var text bytes.Buffer
	if err := printOnce(collectorOf(classic, space{"", opens(r), noID}),
		io.MultiWriter(out, &text)); err != nil {
		t.Error(err)
	}
	test := promtoolTest(text.String(), panels(t))
	if err := os.WriteFile(path+".yml", []byte(test), 0o600); err != nil {
		t.Error(err)
	}
}

// serving returns the address, and ends with the test.
func serving(t *testing.T, config string) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- serve(ctx, listener, config, http.HandlerFunc(
			func(http.ResponseWriter, *http.Request) {}))
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// statusOf is 0 if there is no answer.
func statusOf(client *http.Client, url string) int {
	answer, err := client.Get(url)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

func TestServe(t *testing.T) {
	if status := statusOf(http.DefaultClient, "http://"+serving(t, "")); status != http.StatusOK {
		t.Errorf("the answer is %d", status)
	}
	if run(&options{listen: "nowhere:x"}) == nil {
		t.Error("it listens nowhere")
	}
}

// tlsOf writes the files of a server for --web.config.file and returns the path, and
// a client that knows the server. The password is "secret".
func tlsOf(t *testing.T) (string, *http.Client) {
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		"key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"yml": []byte("tls_server_config: { cert_file: crt, key_file: key }\n" +
			"basic_auth_users: { me: $2a$04$joQa0Ms7orGbk5fpy9CQre9582sLwdNpJcWVPPvJd1BkE5o..C.t6 }\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "yml"), server.Client()
}

func TestTLSAndPasswords(t *testing.T) {
	config, client := tlsOf(t)
	if _, err := parseOptions([]string{"--web.config.file", config}, io.Discard); err != nil {
		t.Fatal(err)
	}
	address := serving(t, config)
	for url, want := range map[string]int{"http://": http.StatusBadRequest,
		"https://": http.StatusUnauthorized, "https://me:wrong@": http.StatusUnauthorized,
		"https://me:secret@": http.StatusOK} {
		if status := statusOf(client, url+address); status != want {
			t.Errorf("%s: %d, expected %d", url, status, want)
		}
	}
}

func TestSpaces(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "broken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// Its own namespace is there already.
	if err := os.Symlink("/proc/self/ns/net", filepath.Join(dir, "own")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range spacesOf([]string{"all", "missing", "/proc/1/ns/nothing"}, dir) {
		got = append(got, s.name)
	}
	want := ",broken,missing,/proc/1/ns/nothing"
	if strings.Join(got, ",") != want {
		t.Errorf("%q, expected %q", got, want)
	}
}

// A scrape of 1000 classes in text, as Prometheus asks for it: 100 ms at most.
func BenchmarkScrape1000(b *testing.B) {
	for name, f := range forms {
		for _, accept := range []string{"", openMetrics, protobuf} {
			b.Run(name+"/"+accept[:min(len(accept), 20)], func(b *testing.B) {
				handler := handlerOf(collectorOf(f, space{"", opens(many(b, 1000)), noID}))
				for range b.N {
					answer := get(b, handler, "/metrics", accept)
					b.ReportMetric(float64(answer.Body.Len()), "B/scrape")
				}
			})
		}
	}
}
