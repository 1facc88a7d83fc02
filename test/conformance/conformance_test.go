// SPDX-License-Identifier: Apache-2.0

// Package conformance replays exchanges that were recorded from a real Apache Cassandra 4.0 and compares every answer.
//
// The recordings lie beside the repository, in ../shared/conformance (ILION_CONFORMANCE names another place); without them the test is
// skipped. A difference is a defect, unless differences.txt lists the step with a reason that docs/compatibility.md explains.
package conformance

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/ilion-db/ilion"
)

var (
	against = flag.String("against", "", "host:port of a server to replay against, instead of a fresh node in this process")
	only    = flag.String("only", "", "replay only tests whose name or file contains this text")
	rewrite = flag.Bool("rewrite", false, "rewrite differences.txt: known reasons are kept, new steps get ?")
	verbose = flag.Bool("differences", false, "print every difference, the explained ones too")
)

// outside matches statements outside the language of this version (docs/compatibility.md lists them): their steps are sent, so
// that later steps find what they need, but not counted.
var outside = regexp.MustCompile(`(?is)^\s*(` +
	`(CREATE|ALTER|DROP)\s+(MATERIALIZED\s+VIEW|ROLE|USER|TRIGGER|(OR\s+REPLACE\s+)?(FUNCTION|AGGREGATE))|CREATE\s+OR\s+REPLACE|CREATE\s+CUSTOM\s+INDEX|` +
	`GRANT|REVOKE|LIST)\b`)

// result is what became of one recorded test.
type result struct {
	counted, agreed int
	differ          []difference
}

type difference struct {
	where string // file:line step
	cql   string
	lines []string
}

func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("replays for about half a minute")
	}
	dir := os.Getenv("ILION_CONFORMANCE")
	if dir == "" {
		dir = "../../../shared/conformance"
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if len(files) == 0 {
		t.Skipf("no recordings in %s", dir)
	}
	addr := *against
	if addr == "" {
		db, err := ilion.Start(t.Context(), ilion.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		addr = db.CQLAddr().String()
	}
	known := readDifferences(t, "differences.txt")
	results := replayAll(t, addr, files)
	report(t, results, known)
	if *rewrite {
		writeDifferences(t, "differences.txt", results, known)
	}
}

// replayAll runs every file on a goroutine of its own; the tests of a file run one after the other.
func replayAll(t *testing.T, addr string, files []string) map[string]*result {
	out := map[string]*result{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, f := range files {
		name := filepath.Base(f)
		recs, err := load(f, name)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			sum := &result{}
			for i := range recs {
				if *only != "" && !strings.Contains(recs[i].Test, *only) && !strings.Contains(name, *only) {
					continue
				}
				if slices.Contains(recs[i].Needs, "auth") {
					continue // roles and permissions are outside the language
				}
				replayTest(addr, &recs[i], sum)
			}
			mu.Lock()
			out[name] = sum
			mu.Unlock()
		})
	}
	wg.Wait()
	return out
}

func replayTest(addr string, rec *recording, sum *result) {
	admin, err := dial(addr)
	if err != nil {
		sum.counted++
		sum.differ = append(sum.differ, difference{where: fmt.Sprintf("%s:%d", rec.File, rec.Line), lines: []string{err.Error()}})
		return
	}
	defer admin.c.Close()
	cleanup := func() {
		for _, q := range rec.Cleanup {
			_, _ = admin.query(q) // what is to be removed need not exist
		}
	}
	cleanup()
	defer cleanup()
	r := &replay{addr: addr, rec: rec, conns: map[int]*conn{}, ids: map[int][]byte{}, cols: map[int][][2]string{}, states: map[int][]byte{}}
	defer r.close()
	for i := range rec.Steps {
		st := &rec.Steps[i]
		got, err := r.run(i)
		if outside.MatchString(st.CQL) || st.Compare == "skip" {
			continue
		}
		sum.counted++
		lines := []string{}
		if err != nil {
			lines = append(lines, err.Error())
		} else {
			lines = append(lines, compare(st, got)...)
		}
		if len(lines) == 0 {
			sum.agreed++
			continue
		}
		cql := st.CQL
		if st.Op == "execute" {
			cql = "execute: " + rec.Steps[st.Prepared].CQL
		}
		sum.differ = append(sum.differ, difference{fmt.Sprintf("%s:%d step %d", rec.File, rec.Line, i), cql, lines})
	}
}

// report prints a line a file and fails for every difference that is not explained, for an explanation that is not needed any
// more, and if fewer than 95 % of all steps, or 90 % of a file's, agree.
func report(t *testing.T, results map[string]*result, known map[string]string) {
	names := make([]string, 0, len(results))
	for n := range results {
		names = append(names, n)
	}
	sort.Strings(names)
	total, seen := result{}, map[string]bool{}
	for _, n := range names {
		r := results[n]
		total.counted += r.counted
		total.agreed += r.agreed
		if r.counted == 0 {
			continue
		}
		t.Logf("%-70s %5d of %5d steps agree", n, r.agreed, r.counted)
		if *only == "" && r.agreed*100 < r.counted*90 {
			t.Errorf("%s: %d of %d steps agree, fewer than 90 %%", n, r.agreed, r.counted)
		}
		for _, d := range r.differ {
			seen[d.where] = true
			reason := known[d.where]
			if reason != "" && reason != "?" && !*verbose {
				continue
			}
			text := fmt.Sprintf("%s: %s\n    %s", d.where, shorten(d.cql), strings.Join(d.lines, "\n    "))
			if reason != "" && reason != "?" {
				t.Logf("%s (explained: %s)", text, reason)
			} else {
				t.Error(text)
			}
		}
	}
	t.Logf("%d of %d steps agree (%.2f %%)", total.agreed, total.counted, 100*float64(total.agreed)/float64(max(total.counted, 1)))
	if *only != "" {
		return
	}
	if total.agreed*100 < total.counted*95 {
		t.Errorf("%d of %d steps agree, fewer than 95 %%", total.agreed, total.counted)
	}
	for where := range known {
		if !seen[where] && *against == "" {
			t.Errorf("differences.txt explains %s, which agrees: remove the line", where)
		}
	}
}

func shorten(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = s[:300] + "..."
	}
	return s
}

// readDifferences reads lines of the form `file:line step N | reason`.
func readDifferences(t *testing.T, path string) map[string]string {
	out := map[string]string{}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		where, reason, ok := strings.Cut(s.Text(), " | ")
		if ok && !strings.HasPrefix(where, "#") {
			out[strings.TrimSpace(where)] = strings.TrimSpace(reason)
		}
	}
	return out
}

func writeDifferences(t *testing.T, path string, results map[string]*result, known map[string]string) {
	lines := []string{}
	for _, r := range results {
		for _, d := range r.differ {
			reason := known[d.where]
			if reason == "" {
				reason = "?"
			}
			lines = append(lines, d.where+" | "+reason)
		}
	}
	sort.Strings(lines)
	head := "# Steps of the recordings whose answer differs, each with the reason that docs/compatibility.md explains.\n# file:line step N | reason\n"
	if err := os.WriteFile(path, []byte(head+strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
