// SPDX-License-Identifier: Apache-2.0

// Package conformance replays exchanges that were recorded from a real Apache Cassandra and compares every response.
// The recordings of roles and permissions are from version 5.0.5 (the files that end in 50). All other recordings are
// from version 4.0. TestRelease50 does the same with all recordings of 5.0.5.
//
// The scenarios written for this project are in testdata. The recordings of public test suites are outside the
// repository, because their statements must not be published here. They are in ../shared/conformance or in the
// directory that ILION_CONFORMANCE names. Without these recordings, only the scenarios are replayed. A difference is a
// defect unless differences.txt lists the step with a reason from docs/compatibility.md. With -stir=SEED, physical
// partitions split, merge, and move between the steps.
package conformance

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/testnode"
	"github.com/ilion-db/ilion/test/topochaos"
)

// target is the cluster on which recordings are replayed. target contains the addresses of the nodes. If changer is
// not nil, it changes the physical partitions before each step.
type target struct {
	addrs   []string
	changer *topochaos.Changer
}

var (
	against = flag.String("against", "",
		"host:port of a server, or of several nodes, separated by commas, instead of a new node in this process")
	cluster = flag.Int("nodes", 1,
		"number of nodes of the new cluster; with more than one, each statement of a session goes to the next node")
	pieces  = flag.Int("partitions", 1, "number of physical partitions of every table on the new node")
	only    = flag.String("only", "", "replay only tests whose name or file contains this text")
	rewrite = flag.Bool("rewrite", false, "rewrite differences.txt: keep known reasons, mark new steps with ?")
	stirBy  = flag.Uint64("stir", 0, "seed for splits, merges, and moves of physical partitions between the steps; 0 disables them")
	verbose = flag.Bool("differences", false, "print every difference, including explained differences")
)

// outside matches statements that this version does not support (docs/compatibility.md lists them). The replay sends
// these statements but does not count them. If Cassandra executes an unsupported CREATE, the rest of the test is
// skipped, because it may depend on the created object.
var outside = regexp.MustCompile(`(?is)^\s*(` +
	`(CREATE|ALTER|DROP)\s+(MATERIALIZED\s+VIEW|ROLE|USER|TRIGGER|(OR\s+REPLACE\s+)?(FUNCTION|AGGREGATE))|CREATE` +
	`\s+OR\s+REPLACE|CREATE\s+CUSTOM\s+INDEX|` +
	`GRANT|REVOKE|LIST)\b`)

var creation = regexp.MustCompile(`(?i)^\s*CREATE\b`)

// global matches statements whose response contains the keyspaces of all tests. Tests with such statements run alone.
var global = regexp.MustCompile(`(?i)^\s*DESC(RIBE)?\s+(KEYSPACES|TABLES|TYPES|SCHEMA|FULL|CLUSTER)\b|"IndexInfo"\s*$`)

// ofClusters matches the warnings of a cluster that keeps or requires more replicas than requested. The recordings
// come from one node, which does not return these warnings. peers matches statements that ask a node for its peers.
var (
	ofClusters = regexp.MustCompile(`^(The replication of keyspace \S+ is ignored: every table has \d replicas, ` +
		`and \d must acknowledge a ` +
		`write\. |Writes at consistency level \w+ are acknowledged by \d of \d replicas, )`)
	peers = regexp.MustCompile(`(?i)\bFROM\s+system\.peers(_v2)?\b`)
)

// result holds the results of the tests of one file.
type result struct {
	counted, agreed, left int
	differ                []difference
}

func (r *result) add(o *result) {
	r.counted, r.agreed, r.left, r.differ = r.counted+o.counted, r.agreed+o.agreed, r.left+o.left,
		append(r.differ, o.differ...)
}

type difference struct {
	where string // file:line step
	cql   string
	lines []string
}

func TestConformance(t *testing.T) {
	t.Parallel()
	files := recordings()
	known := readDifferences(t, "differences.txt")
	at := servers(t)
	if len(at.addrs) > 1 {
		maps.Copy(known, readDifferences(t, "differences_cluster.txt"))
	}
	results := replayAll(t, at, files, extent{lanes: 1})
	report(t, results, known, shares{95, 90})
	if *rewrite {
		writeDifferences(t, "differences.txt", results, known)
	}
}

// startCluster returns a new cluster of n nodes with the behavior of a release. If users are configured, clients log
// in. If the seed is not 0, it determines the changes of partitions. The timeouts are long because all nodes and other
// tests share one machine.
func startCluster(t *testing.T, n int, release string, users map[string]string, seed uint64) target {
	c := testnode.Start(t, testnode.Options{Nodes: n, Change: func(_ int, o *options.Options) {
		o.InitialPartitions, o.Compatibility, o.Auth.Users = *pieces, release, users
		o.Limits.ReadTimeout, o.Limits.WriteTimeout = 20*time.Second, 20*time.Second
	}})
	return target{c.Addrs(), newChanger(t, seed, c.Webs()...)}
}

// newChanger returns a changer of partitions, or nil if the seed is 0.
func newChanger(t *testing.T, seed uint64, webs ...string) *topochaos.Changer {
	if seed == 0 {
		return nil
	}
	s := topochaos.New(t, seed, webs...)
	s.User, s.Password = superuser, superuser
	return s
}

// servers returns the nodes for the replay.
func servers(t *testing.T) target {
	switch {
	case *against != "":
		return target{addrs: strings.Split(*against, ",")}
	case *cluster > 1:
		return startCluster(t, *cluster, "4.0", nil, *stirBy)
	}
	db, err := ilion.Start(t.Context(), ilion.Options{InitialPartitions: *pieces, UserDefinedFunctions: true,
		HTTPAddr:      "127.0.0.1:0",
		Compatibility: "4.0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return target{[]string{db.CQLAddr().String()}, newChanger(t, *stirBy, db.HTTPAddr().String())}
}

// TestReasons checks that the reasons in differences.txt and the headings of docs/compatibility.md are the same.
func TestReasons(t *testing.T) {
	text, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Differences\n")
	section, _, _ = strings.Cut(section, "\n## ")
	explained := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (.+)$`).FindAllStringSubmatch(section, -1) {
		explained[m[1]] = false
	}
	known := readDifferences(t, "differences.txt")
	maps.Copy(known, readDifferences(t, "differences_cluster.txt"))
	maps.Copy(known, readDifferences(t, "differences_roles.txt"))
	maps.Copy(known, readDifferences(t, "differences_guardrails.txt"))
	maps.Copy(known, readDifferences(t, "differences_50.txt"))
	maps.Copy(known, readDifferences(t, "differences_50_cluster.txt"))
	for where, reason := range known {
		if _, ok := explained[reason]; !ok {
			t.Errorf("%s: docs/compatibility.md has no heading %q", where, reason)
		}
		explained[reason] = true
	}
	for reason, used := range explained {
		if !used {
			t.Errorf("docs/compatibility.md explains %q, but no step has this difference", reason)
		}
	}
}

// extent selects the steps to replay.
type extent struct {
	// lanes is the number of concurrent tests.
	lanes int
	// whole includes unsupported steps and tests that need roles.
	whole bool
	// every restricts the replay to one in every tests. If every is 0, no tests are replayed.
	every int
}

// replayAll runs the tests of all files on up to lanes goroutines, and finally the tests that must run alone.
func replayAll(t *testing.T, at target, files []string, x extent) map[string]*result {
	out, whole, n := map[string]*result{}, x.whole, 0
	var alone []*recording
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, f := range files {
		name := filepath.Base(f)
		recs, err := load(f, name)
		if err != nil {
			t.Fatal(err)
		}
		sum := &result{}
		out[name] = sum
		next := make(chan *recording, len(recs))
		for i := range recs {
			rec := &recs[i]
			rec.Whole = whole
			n++
			switch {
			case x.every > 0 && n%x.every != 0:
			case *only != "" && !strings.Contains(rec.Test, *only) && !strings.Contains(name, *only):
			case whole && len(rec.Needs) > 0:
				alone = append(alone, rec)
			case slices.Contains(rec.Needs, "auth"):
				sum.left += len(rec.Steps) // TestRoles and TestGuardrails replay these recordings
			case slices.ContainsFunc(rec.Steps, func(s step) bool { return global.MatchString(s.CQL) }):
				alone = append(alone, rec)
			default:
				next <- rec
			}
		}
		close(next)
		for range x.lanes {
			wg.Go(func() {
				for rec := range next {
					r := replayTest(at, rec)
					mu.Lock()
					sum.add(r)
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	for _, rec := range alone {
		to := at
		if slices.ContainsFunc(rec.Needs, func(need string) bool { return need != "auth" }) {
			to = target{addrs: []string{startGuarded(t, rec.Needs)}}
		}
		out[rec.File].add(replayTest(to, rec))
	}
	return out
}

func replayTest(at target, rec *recording) *result {
	addrs := at.addrs
	sum := &result{}
	whole := rec.Whole || slices.Contains(rec.Needs, "auth")
	admin, err := dial(addrs[0])
	if err == nil && admin.refused != nil {
		err = admin.login(superuser, superuser)
	}
	if err != nil {
		sum.counted++
		sum.differ = append(sum.differ, difference{where: fmt.Sprintf("%s:%d", rec.File, rec.Line),
			lines: []string{err.Error()}})
		return sum
	}
	defer admin.c.Close()
	cleanup := func() {
		for _, q := range rec.Cleanup {
			_, _ = admin.query(q) // the object to drop may not exist
		}
	}
	cleanup()
	defer cleanup()
	r := newReplay(addrs, rec)
	defer r.close()
	for i := range rec.Steps {
		st := &rec.Steps[i]
		if at.changer != nil {
			at.changer.Change("")
		}
		got, err := r.run(i)
		if len(addrs) > 1 {
			got.Warnings = slices.DeleteFunc(got.Warnings, ofClusters.MatchString)
		}
		if !whole && outside.MatchString(st.CQL) || st.Compare == "skip" ||
			len(addrs) > 1 && peers.MatchString(st.CQL) {
			sum.left++
			if !whole && creation.MatchString(st.CQL) && st.Expect.Kind != "error" {
				sum.left += len(rec.Steps) - i - 1
				break
			}
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
	return sum
}

// shares holds the minimum percentages of matching steps, in total and in each file.
type shares struct{ all, file int }

// report prints one line per file. report fails the test for every unexplained difference and for every explanation
// without a difference. report also fails if a percentage of matching steps is too low.
func report(t *testing.T, results map[string]*result, known map[string]string, least shares) {
	names := make([]string, 0, len(results))
	for n := range results {
		names = append(names, n)
	}
	sort.Strings(names)
	total, seen := result{}, map[string]bool{}
	for _, n := range names {
		r := results[n]
		total.add(r)
		if r.counted == 0 {
			continue
		}
		t.Logf("%-82s %5d of %5d steps match, %4d skipped", n, r.agreed, r.counted, r.left)
		if *only == "" && r.agreed*100 < r.counted*least.file {
			t.Errorf("%s: %d of %d steps match, want at least %d %%", n, r.agreed, r.counted, least.file)
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
	t.Logf("%d of %d steps match (%.2f %%), %d skipped", total.agreed, total.counted,
		100*float64(total.agreed)/float64(max(total.counted, 1)), total.left)
	if *only != "" {
		return
	}
	if total.agreed*100 < total.counted*least.all {
		t.Errorf("%d of %d steps match, want at least %d %%", total.agreed, total.counted, least.all)
	}
	for where := range known {
		file, _, _ := strings.Cut(where, ":")
		if results[file] != nil && !seen[where] && *against == "" {
			t.Errorf("differences.txt explains %s, which has no difference: remove the line", where)
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
	head := "# Steps of the recordings whose response differs, each with the reason that docs/compatibility.md " +
		"explains.\n# file:line step N | reason\n"
	if err := os.WriteFile(path, []byte(head+strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
