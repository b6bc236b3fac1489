// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const page = "../../Documentation/metrics.rst"

// question is asked by a panel of the dashboard, and by metrics.rst.
type question struct {
	title, query string
}

func text(t *testing.T, path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// panels have one query each, which is for five minutes in the tests.
func panels(t *testing.T) []question {
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	var all []question

	if err := json.Unmarshal([]byte(text(t, "../kubernetes/monitoring/dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		if len(p.Targets) != 1 {
			t.Fatalf("%q has %d queries", p.Title, len(p.Targets))
		}
		all = append(all, question{p.Title,
			strings.ReplaceAll(p.Targets[0].Expr, "$__rate_interval", "5m")})
	}
	return all
}

func TestPanelsAreTheQuestions(t *testing.T) {
	var asked []question

	_, section, _ := strings.Cut(text(t, page), "\nQuestions\n")
	for _, m := range regexp.MustCompile(`(?m)^(\S.*\?) ::\n\n((?:    .*\n)+)`).
		FindAllStringSubmatch(section, -1) {
		asked = append(asked, question{m[1],
			strings.ReplaceAll(strings.TrimSpace(m[2]), "\n    ", "")})
	}
	if got := panels(t); !slices.Equal(got, asked) || len(got) == 0 {
		t.Errorf("the panels are\n%q\nthe questions\n%q", got, asked)
	}
}

// promtoolTest has all metrics of the text as series that increase, and expects that
// each question has an answer.
func promtoolTest(metrics string, asked []question) string {
	var test strings.Builder

	test.WriteString("tests:\n  - interval: 1m\n    input_series:\n")
	for _, line := range strings.Split(metrics, "\n") {
		if strings.HasPrefix(line, "bpshaper_") {
			fmt.Fprintf(&test, "      - { series: '%s', values: '1+60x30' }\n",
				line[:strings.LastIndex(line, " ")])
		}
	}
	test.WriteString("    promql_expr_test:\n")
	for _, q := range asked {
		fmt.Fprintf(&test, "      - { expr: 'count((%s) > 0) > bool 0', eval_time: 20m,\n"+
			"          exp_samples: [ { labels: '{}', value: 1 } ] }\n", q.query)
	}
	return test.String()
}

// A runbook is the section of the alert in metrics.rst.
func TestRunbooks(t *testing.T) {
	const prefix = "https://bpshaper.example.org/Documentation/metrics.rst#"

	alerts := strings.Split(text(t, "../kubernetes/monitoring/alerts.yaml"), "- alert: ")[1:]
	for _, alert := range alerts {
		name, rest, _ := strings.Cut(alert, "\n")
		url := regexp.MustCompile(`runbook_url: (.*)`).FindStringSubmatch(rest)
		if url == nil || url[1] != prefix+strings.ToLower(name) {
			t.Errorf("the runbook of %s is %q", name, url)
		}
		if !strings.Contains(text(t, page), "\n"+name+"\n"+strings.Repeat("-", len(name))+"\n") {
			t.Errorf("%s is no section of metrics.rst", name)
		}
	}
	if len(alerts) == 0 {
		t.Error("there are no alerts")
	}
}
