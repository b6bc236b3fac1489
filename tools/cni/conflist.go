// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// makeEntry returns the plugin in a list, with these keys, and whether ADD needs no module.
func makeEntry(keys []byte) ([]byte, bool, error) {
	entry := map[string]any{"capabilities": map[string]bool{"bandwidth": true}}
	if err := json.Unmarshal(keys, &entry); err != nil || entry == nil {
		return nil, false, fmt.Errorf("%s is no object of JSON", keys)
	}
	entry["type"] = "bpshaper"
	text, err := json.Marshal(entry)
	if err != nil {
		return nil, false, err
	}
	entry["name"], entry["cniVersion"] = "net", "1.0.0"
	full, err := json.Marshal(entry)
	if err != nil {
		return nil, false, err
	}
	conf, err := parseConfig(full)
	if err != nil {
		return nil, false, err
	}
	return text, conf.Missing != nil && *conf.Missing != "fail", nil
}

// list is a configuration of a network. What is not known of it stays as it is.
type list struct {
	fields  map[string]json.RawMessage
	name    string
	plugins []json.RawMessage
	inlined bool // the runtime reads no other files
}

func parseList(text []byte) (*list, error) {
	var known struct {
		Name    string
		Plugins []json.RawMessage
		Inlined any `json:"loadOnlyInlinedPlugins"` // libcni takes texts as well
	}

	l := &list{}
	if err := errors.Join(json.Unmarshal(text, &l.fields), json.Unmarshal(text, &known)); err != nil {
		return nil, err
	}
	if known.Name == "" || known.Name != filepath.Base(known.Name) || known.Name[0] == '.' {
		return nil, fmt.Errorf("%q is no name of a network", known.Name)
	}
	l.name, l.plugins = known.Name, known.Plugins
	l.inlined = strings.EqualFold(fmt.Sprint(known.Inlined), "true")
	return l, nil
}

func typeOf(plugin json.RawMessage) string {
	var found struct{ Type string }

	_ = json.Unmarshal(plugin, &found)
	return found.Type
}

func (l *list) has(kind string) bool {
	return slices.ContainsFunc(l.plugins, func(p json.RawMessage) bool { return typeOf(p) == kind })
}

// with returns the plugins with these in the place of the kinds, or behind all.
func (l *list) with(plugins []json.RawMessage, kinds ...string) []json.RawMessage {
	var kept []json.RawMessage

	at := -1
	for _, plugin := range l.plugins {
		if !slices.Contains(kinds, typeOf(plugin)) {
			kept = append(kept, plugin)
		} else if at < 0 {
			at = len(kept)
		}
	}
	if at < 0 {
		at = len(kept)
	}
	return slices.Insert(kept, at, plugins...)
}

func (l *list) text(plugins []json.RawMessage) ([]byte, error) {
	fields := maps.Clone(l.fields)
	value, err := json.Marshal(plugins)
	if err != nil {
		return nil, err
	}
	fields["plugins"] = value
	text, err := json.MarshalIndent(fields, "", "  ")
	return append(text, '\n'), err
}

func isSame(a, b json.RawMessage) bool {
	var x, y bytes.Buffer

	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil &&
		bytes.Equal(x.Bytes(), y.Bytes())
}

// edited returns nil if the list is as it should be.
func (l *list) edited(entry []byte) ([]byte, error) {
	plugins := l.with([]json.RawMessage{entry}, "bpshaper", "bandwidth")
	if slices.EqualFunc(plugins, l.plugins, isSame) {
		return nil, nil
	}
	return l.text(plugins)
}

// undone gives back what the original has, but not what others have changed since. It
// returns nil if there is nothing to undo.
func (l *list) undone(original []byte) ([]byte, error) {
	var bandwidth []json.RawMessage

	if !l.has("bpshaper") {
		return nil, nil
	}
	before, err := parseList(original)
	if err != nil {
		return nil, err
	}
	for _, plugin := range before.plugins {
		if typeOf(plugin) == "bandwidth" {
			bandwidth = append(bandwidth, plugin)
		}
	}
	plugins := l.with(bandwidth, "bpshaper")
	if slices.EqualFunc(plugins, before.plugins, isSame) {
		delete(l.fields, "plugins")
		delete(before.fields, "plugins")
		if maps.EqualFunc(l.fields, before.fields, isSame) {
			return original, nil
		}
	}
	return l.text(plugins)
}

// configKind says of which kind a file is: runtimes read these three.
func configKind(name string) string {
	kind := filepath.Ext(name)
	if slices.Contains([]string{".conf", ".conflist", ".json"}, kind) {
		return kind
	}
	return ""
}

// find returns the path of the list that the runtime takes, or of the one that is meant.
func (n *installer) find() (string, error) {
	name := n.conflist
	if name == "" {
		found, err := os.ReadDir(n.netd()) // in order
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(found, func(e os.DirEntry) bool {
			return !e.IsDir() && configKind(e.Name()) != ""
		})
		if i < 0 {
			return "", errors.New("no network has a configuration in the directory " +
				"net.d: it does not run yet, or the runtime looks elsewhere")
		}
		name = found[i].Name()
	}
	if configKind(name) != ".conflist" {
		return "", fmt.Errorf("%s has no list of plugins: it must be a .conflist", name)
	}
	return filepath.Join(n.netd(), name), nil
}

const originalSuffix = ".before-bpshaper"

// state is a list as it is, and as it was.
type state struct {
	path           string
	text, original []byte
	list           *list
	mode           os.FileMode
}

func (n *installer) read(path string) (*state, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	s := &state{path: path, mode: info.Mode().Perm()}
	if s.text, err = os.ReadFile(path); err != nil {
		return nil, err
	}
	if s.list, err = parseList(s.text); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	s.original, err = os.ReadFile(path + originalSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return s, err
}

func (s *state) change(text []byte) change {
	return change{filepath.Dir(s.path), s.path, s.text, text, s.mode}
}

// planConfig is for edit and file.
func (n *installer) planConfig() ([]change, error) {
	path, err := n.find()
	if err != nil {
		return nil, err
	}
	s, err := n.read(path)
	if err != nil {
		return nil, err
	}
	if s.list.has("bpshaper") && s.original == nil {
		return nil, nil // by hand
	}
	if n.config == "file" {
		return n.planFile(s)
	}
	text, err := s.list.edited(n.entry)
	if err != nil {
		return nil, err
	}
	var changes []change
	if text != nil && !s.list.has("bpshaper") {
		changes = append(changes, change{n.netd(), path + originalSuffix, nil, s.text, s.mode})
	}
	if text != nil {
		changes = append(changes, s.change(text))
	}
	return append(changes, n.planNoFiles("")...), nil
}

// planFile is for runtimes that read the directory of the network. They do not read it for
// a list that says so, and would run bandwidth as well.
func (n *installer) planFile(s *state) ([]change, error) {
	var changes []change

	undone, err := n.planUndo(s)
	if err != nil {
		return nil, err
	}
	before := s.list
	if s.original != nil {
		if before, err = parseList(s.original); err != nil {
			return nil, err
		}
	}
	if before.inlined || before.has("bandwidth") {
		return nil, fmt.Errorf("%s has bandwidth or loadOnlyInlinedPlugins: only CONFIG=edit "+
			"does", filepath.Base(s.path))
	}
	path := filepath.Join(n.netd(), s.list.name, "bpshaper.conf")
	if found, err := os.ReadFile(path); err != nil || !bytes.Equal(found, n.entry) {
		changes = append(changes, change{n.netd(), path, nil, n.entry, 0o644})
	}
	changes = append(changes, n.planNoFiles(path)...)
	return append(changes, undone...), nil
}

// planNoFiles is for files that an earlier CONFIG=file made, but for one.
func (n *installer) planNoFiles(but string) (changes []change) {
	found, _ := filepath.Glob(filepath.Join(n.netd(), "*", "bpshaper.conf"))
	for _, path := range found {
		if path != but {
			changes = append(changes, change{dir: n.netd(), path: path})
		}
	}
	return changes
}

func (n *installer) planUndo(s *state) (changes []change, err error) {
	if s.original == nil {
		return nil, nil
	}
	text, err := s.list.undone(s.original)
	if err != nil {
		return nil, err
	}
	if text != nil {
		changes = append(changes, s.change(text))
	}
	return append(changes, change{dir: n.netd(), path: s.path + originalSuffix}), nil
}

// planRestore is for all lists that have been changed.
func (n *installer) planRestore() ([]change, error) {
	changes := n.planNoFiles("")
	originals, _ := filepath.Glob(filepath.Join(n.netd(), "*"+originalSuffix))
	for _, original := range originals {
		path := strings.TrimSuffix(original, originalSuffix)
		s, err := n.read(path)
		if errors.Is(err, fs.ErrNotExist) {
			changes = append(changes, change{dir: n.netd(), path: original})
			continue
		}
		if err != nil {
			return nil, err
		}
		more, err := n.planUndo(s)
		if err != nil {
			return nil, err
		}
		changes = append(changes, more...)
	}
	return changes, nil
}
