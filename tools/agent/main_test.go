// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	for arguments, want := range map[string]string{
		"":                     "whose pods?",
		"--node n --config x":  `--config is NAMESPACE/NAME, not "x"`,
		"--node n --config /x": `--config is NAMESPACE/NAME, not "/x"`,
		"--node n more":        `what is "more"?`,
		"--what":               "see --help",
	} {
		o, err := parseOptions(strings.Fields(arguments), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, expected %q", arguments, o, err, want)
		}
	}
	t.Setenv("NODE_NAME", "n")
	o, err := parseOptions(nil, nil)
	if err != nil || *o != (options{"n", "kube-system", "bpshaper-agent", ""}) {
		t.Errorf("%+v, %v", o, err)
	}
	for argument, want := range map[string]string{"--version": "bpshaper-agent", "--help": "--node NAME"} {
		var out strings.Builder

		o, err := parseOptions([]string{argument}, &out)
		if o != nil || err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %q, %v", argument, out.String(), err)
		}
	}
}
