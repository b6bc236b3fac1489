// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

// bpapi stands for the API server of Kubernetes: lists and watches of files
//
// usage: bpapi ADDRESS DIR LOG
//
// DIR/pods and DIR/configmaps have an object each file, in JSON. Every 20 ms a watch
// says what is new, other or gone there; a file is replaced, so that its directory has
// another time. Selectors are not looked at. What is written (Events, patches) is a line of LOG, and nothing else.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

type objects map[string]json.RawMessage

// read skips what is not JSON, as a file that is being written.
func read(kind string) objects {
	found := objects{}
	files, _ := filepath.Glob(filepath.Join(os.Args[2], kind, "*.json"))
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && json.Valid(data) {
			found[file] = data
		}
	}
	return found
}

func list(w http.ResponseWriter, kind string) {
	items := []json.RawMessage{}
	for _, item := range read(kind) {
		items = append(items, item)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1",
		"kind":  map[string]string{"pods": "PodList", "configmaps": "ConfigMapList"}[kind],
		"items": items})
}

// hasChanged since then, give or take a tick of the kernel.
func hasChanged(kind string, since time.Time) bool {
	info, err := os.Stat(filepath.Join(os.Args[2], kind))
	return err != nil || info.ModTime().After(since.Add(-100*time.Millisecond))
}

// watch begins with all there is: something may have changed since the list.
func watch(w http.ResponseWriter, r *http.Request, kind string) {
	var looked time.Time

	last := objects{}
	say := func(what string, object json.RawMessage) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": what, "object": object})
	}
	for r.Context().Err() == nil {
		w.(http.Flusher).Flush()
		time.Sleep(20 * time.Millisecond)
		if !hasChanged(kind, looked) {
			continue
		}
		looked = time.Now()
		now := read(kind)
		for name, object := range now {
			if before, found := last[name]; !found {
				say("ADDED", object)
			} else if !bytes.Equal(before, object) {
				say("MODIFIED", object)
			}
		}
		for name, object := range last {
			if now[name] == nil {
				say("DELETED", object)
			}
		}
		last = now
	}
}

func serve(w http.ResponseWriter, r *http.Request, log io.Writer) {
	w.Header().Set("Content-Type", "application/json")
	parts := strings.Split(r.URL.Path, "/")
	kind := parts[len(parts)-1]
	switch {
	case r.Method != http.MethodGet:
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(log, "%s %s %s\n", r.Method, r.URL.Path, bytes.TrimSpace(body))
		fmt.Fprintln(w, `{"kind": "Status", "apiVersion": "v1", "status": "Success"}`)
	case r.URL.Query().Get("watch") != "":
		watch(w, r, kind)
	default:
		list(w, kind)
	}
}

func main() {
	log, err := os.OpenFile(os.Args[3], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		err = http.ListenAndServe(os.Args[1], http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) { serve(w, r, log) }))
	}
	fmt.Fprintln(os.Stderr, "bpapi:", err)
	os.Exit(1)
}
