// SPDX-License-Identifier: Apache-2.0

//go:build integration

// Package compat checks that tools for Cassandra work. run.sh installs and runs cqlsh, and applications that use
// drivers, object mappers, and frameworks. The tests in this package need only Go.
package compat

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }

var (
	inCode  = regexp.MustCompile("`([^`]+)`")
	isTable = regexp.MustCompile(`\b(?:system|system_auth|system_views|ilion)\.[a-z_0-9]+`)
	isGauge = regexp.MustCompile(`^(?:ilion|go)_[a-z_]+$`)
)

// nodetoolRows reads docs/nodetool.md. nodetoolRows returns the names in the first column in order, and the code in
// the second column.
func nodetoolRows(t *testing.T) (names, answers []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "nodetool.md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 2 || !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, m := range inCode.FindAllStringSubmatch(cells[0], -1) {
			names = append(names, m[1])
		}
		for _, m := range inCode.FindAllStringSubmatch(cells[1], -1) {
			answers = append(answers, m[1])
		}
	}
	slices.Sort(answers)
	return names, slices.Compact(answers)
}

// TestNodetoolPage checks that docs/nodetool.md lists every nodetool command of Cassandra 5.0.5 once. The page must
// name only existing commands, tables, and metrics. Commands of the binary must have help, and a node with release 5.0
// must be able to read the tables. Metrics must be exported or described in docs/metrics.md.
func TestNodetoolPage(t *testing.T) {
	names, answers := nodetoolRows(t)
	list, err := os.ReadFile(filepath.Join("testdata", "nodetool.txt"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if want := strings.Fields(string(list)); !slices.Equal(names, want) {
		for _, n := range names {
			if !slices.Contains(want, n) {
				t.Errorf("nodetool has no command %s", n)
			}
		}
		for _, n := range want {
			if !slices.Contains(names, n) {
				t.Errorf("the page lacks nodetool %s", n)
			}
		}
		t.Errorf("the page has %d commands, nodetool has %d", len(names), len(want))
	}

	dir := t.TempDir()
	config := filepath.Join(dir, "ilion.yaml")
	if err := os.WriteFile(config, []byte("compatibility: \"5.0\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := process.Start(t, filepath.Join(dir, "data"), "--config", config)
	c := s.Dial(t)
	defer c.Close()
	metrics := page(t, "http://"+s.HTTP+"/metrics")
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := string(b)
	var commands, tables, gauges int
	for _, a := range answers {
		for _, table := range isTable.FindAllString(a, -1) {
			tables++
			if _, err := c.Query("SELECT * FROM " + table + " LIMIT 1"); err != nil {
				t.Errorf("%s: %v", table, err)
			}
		}
		switch command, ok := strings.CutPrefix(a, "ilion "); {
		case ok:
			commands++
			args := append(strings.Fields(command), "--help")
			if out, err := process.Command(t, args...).CombinedOutput(); err != nil || command != "help" &&
				!strings.Contains(string(out), "Usage: ilion "+command) {
				t.Errorf("%s: %v: %s", a, err, out)
			}
		case isGauge.MatchString(a):
			gauges++
			if !strings.Contains(metrics, "\n# TYPE "+a+" ") && !strings.Contains(documented, "`"+a+"`") {
				t.Errorf("%s is not a known metric", a)
			}
		}
	}
	if commands < 10 || tables < 10 || gauges < 5 {
		t.Errorf("the page names %d commands, %d tables, and %d metrics: check the parsing of the page", commands, tables, gauges)
	}
}

// page returns a node's response to a GET request.
func page(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, r.Status, err)
	}
	return string(b)
}
