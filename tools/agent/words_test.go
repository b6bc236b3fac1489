// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWords(t *testing.T) {
	for _, is := range []struct{ name, text, want string }{
		{"egress-floor", "1.5mbit", "1500kbit"}, {"egress-floor", "0", "0bit"},
		{"egress-ceil", "none", "none"}, {"egress-ceil", "10000000", "10mbit"},
		{"egress-weight", "1048576", "1048576"}, {"egress-prio", "7", "7"},
		{"egress-latency", "1.5ms", "1500us"}, {"ingress-latency", "7ns", "7ns"},
		{"ingress-ceil", "1mbps", "8mbit"},
	} {
		w, err := wordOf(is.name)
		if err != nil {
			t.Fatal(err)
		}
		value, err := parseValue(w, is.text)
		if got := words[w].format(value); err != nil || got != is.want {
			t.Errorf("%s %q is %s, %v, expected %s", is.name, is.text, got, err, is.want)
		}
	}
}

func TestBadAnnotations(t *testing.T) {
	for _, is := range []struct{ name, text, want string }{
		{"egress-floor", "-1mbit", `annotation bpshaper/egress-floor: "-1mbit" is no rate`},
		{"egress-floor", "", `annotation bpshaper/egress-floor: "" is no rate`},
		{"egress-floor", "100tbit", `"100tbit" must be at most `},
		{"egress-ceil", "0", `"0" must be 8bit or more, or none`},
		{"egress-weight", "0", `"0" must be a number from 1 to 1048576`},
		{"egress-weight", "+1", `"+1" must be`}, {"egress-weight", "1.5", `"1.5" must be`},
		{"egress-prio", "8", `"8" must be a number from 0 to 7`},
		{"egress-latency", "61s", `"61s" must be above 0 and at most 60s`},
		{"egress-latency", "5", `"5" is no time`},
		{"egress-wieght", "5", "annotation bpshaper/egress-wieght: there is no such word"},
		{"ingress-prio", "5", "nothing divides what pods receive"},
		{"egress-prio", strings.Repeat("0", 1000), "has 1000 letters, and may have 40"},
	} {
		_, err := parseAnnotations(map[string]string{prefix + is.name: is.text})
		if err == nil || !strings.Contains(err.Error(), is.want) {
			t.Errorf("%s %q: %v, expected %q", is.name, is.text, err, is.want)
		}
	}
	v, err := parseAnnotations(map[string]string{"other/egress-prio": "x", "bpshaper": "x"})
	if v != (values{}) || err != nil {
		t.Errorf("of others: %v, %v", v, err)
	}
}

// What somebody else writes becomes a value that is written and read again, or a text of
// one line that an Event has room for.
func FuzzAnnotations(f *testing.F) {
	for _, word := range words {
		f.Add(word.name, "10mbit")
		f.Add(word.name, "3")
		f.Add(word.name, "5ms")
	}
	f.Add("egress-ceil", none)
	f.Add("ingress-prio", "\xff\n\u2028")
	f.Fuzz(func(t *testing.T, name, text string) {
		v, err := parseAnnotations(map[string]string{prefix + name: text})
		if err != nil {
			if got := err.Error(); len(name) < 64 && (len(got) > 1000 ||
				utf8.ValidString(name) && !utf8.ValidString(got) ||
				!strings.Contains(name, "\n") && strings.Contains(got, "\n")) {
				t.Errorf("%q", got)
			}
			return
		}
		w, err := wordOf(name)
		if err != nil || v[w] == nil {
			t.Fatalf("%q is taken: %v", name, err)
		}
		again, err := parseValue(w, words[w].format(*v[w]))
		if err != nil || again != *v[w] && *v[w] < 1<<50 {
			t.Errorf("%s %q is %d, written and read %d: %v", name, text, *v[w], again, err)
		}
	})
}

func TestConfig(t *testing.T) {
	conf := configOf(t, configText)
	if bounds := conf.bounds("media"); *bounds[egressWeight] != 10 || *bounds[egressPrio] != 2 ||
		*bounds[egressFloor] != 7500000 {
		t.Errorf("media: %v", bounds)
	}
	if bounds := conf.bounds("system"); *bounds[egressWeight] != 1 || *bounds[egressPrio] != 0 {
		t.Errorf("system: %v", bounds)
	}
	for text, want := range map[string]string{
		"defaults: {}":                    `unknown field "defaults"`,
		"default: { egress-wieght: 1 }":   "default.egress-wieght: there is no such word",
		"default: { egress-weight: [1] }": "cannot unmarshal",
		"default: { egress-weight: 0 }":   `default.egress-weight: "0" must be a number`,
		"namespaces: { a: { may: { egress-prio: 0 } } }": "namespaces.a.may.egress-prio: " +
			"default does not name it",
		"default: { egress-prio: 4 }\nnamespaces: { a: { default: { egress-prio: 0 }, " +
			"may: { egress-prio: 1 } } }": "namespaces.a.default.egress-prio is more than may.egress-prio",
		"default: { egress-floor: 2mbit, egress-ceil: 1mbit }": "egress-floor is above egress-ceil",
		"default: { egress-latency: 1ms }\nnamespaces: { a: { may: { egress-latency: 1ms } } }": "a latency " +
			"has no bound",
		"default: { egress-prio: 4 }\npriorityClasses: { a: { egress-prio: 8 } }": "priorityClasses.a",
	} {
		if _, err := parseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add(configText)
	f.Fuzz(func(t *testing.T, text string) {
		conf, err := parseConfig([]byte(text))
		if err != nil {
			return
		}
		conf.bounds("media")
		fakeOf("media/a has 0 none 2 4 egress-weight=3\ntenant/b class=high has 1mbit 2mbit 1 0").
			texts(conf)
	})
}
