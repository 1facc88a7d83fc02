// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/test/process"
)

// halfway is the number of times that TestRecoverHalfway loses two nodes.
var halfway = flag.Int("halfway", 3, "number of node losses in the middle of splits and merges")

// ilion runs a command of the binary under test and returns its output.
func (f *fleet) ilion(args ...string) (string, error) {
	b, err := process.Command(f.t, args...).CombinedOutput()
	return string(b), err
}

// must calls ilion for a command that must succeed.
func (f *fleet) must(args ...string) string {
	f.t.Helper()
	text, err := f.ilion(args...)
	if err != nil {
		f.t.Fatalf("ilion %s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return text
}

// refuses checks that a command fails with an error that contains a text.
func (f *fleet) refuses(text string, args ...string) {
	f.t.Helper()
	said, err := f.ilion(args...)
	if err == nil || !strings.Contains(said, text) {
		f.t.Fatalf("ilion %s: %v, and %q is not in\n%s", strings.Join(args, " "), err, text, said)
	}
}

// survey inspects a stopped node and returns the name of the result file.
func (m *member) survey() string {
	m.f.t.Helper()
	name := filepath.Join(m.f.dir, fmt.Sprintf("node%d.survey", m.index+1))
	m.f.must("recover", "inspect", "--data", m.dir, name)
	return name
}

// applyKilled applies a plan to a directory. The process is killed repeatedly while it applies the plan.
func (m *member) applyKilled(plan string) {
	m.f.t.Helper()
	for wait := 5 * time.Millisecond; ; wait += wait / 2 {
		cmd := process.Command(m.f.t, "recover", "apply", "--yes", "--plan", plan, "--data", m.dir)
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			m.f.t.Fatal(err)
		}
		killed := time.AfterFunc(wait, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		switch {
		case err == nil:
			m.f.t.Logf("%s was recovered by a process with the time limit %s: %s", m.name(), wait, said.String())
			return
		case killed.Stop():
			m.f.t.Fatalf("%s: %v\n%s", m.name(), err, said.String())
		}
	}
}

// comesBack starts a node that was declared lost on its old directory. The node must exit with an explanation.
func (m *member) comesBack(text string) {
	m.f.t.Helper()
	ready := m.launch("--internal", m.inner())
	select {
	case <-m.ended:
	case <-time.After(startTime):
		m.f.t.Fatalf("%s runs although it was declared lost: %s", m.name(), m.lastLogLine())
	}
	<-ready
	if words := m.lastLogLine(); !strings.Contains(words, text) {
		m.f.t.Errorf("%q is not in the last line of %s: %s", text, m.name(), words)
	}
}

// TestRecoverTwoOfFour checks that no acknowledged write is lost when two of four nodes lose their disks. During the
// loss, clients write and split tables. The recovery commands of the survivors are killed repeatedly. A lost node that
// returns must be rejected. The test also checks the errors from the commands.
func TestRecoverTwoOfFour(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 4, "")
	l := startLoad(f, *clients, 0)
	l.more(*requests / 32)
	a, b := f.nodes[0], f.nodes[1]
	for _, table := range []string{"load.registers", "load.lists"} {
		a.split(table, a.partitionsOf(table)[0].ID, "&wait=true")
	}
	lost := []string{f.nodes[2].id(), f.nodes[3].id()}
	l.mark("two nodes are lost")
	l.tolerate(true)
	_ = a.trySplit("load.plain", a.partitionsOf("load.plain")[0].ID)
	f.nodes[2].kill()
	f.nodes[3].kill()
	f.refuses("another process", "recover", "inspect", "--data", a.dir, filepath.Join(f.dir, "running.survey"))
	a.kill()
	b.kill()
	old := filepath.Join(f.dir, "old")
	process.CopyDir(t, f.nodes[3].dir, old)
	f.nodes[2].wipe()
	f.nodes[3].wipe()

	plan := filepath.Join(f.dir, "plan")
	first, second := a.survey(), b.survey()
	f.refuses("the survey of node "+f.short(b), "recover", "plan", "--plan", plan, "--lost", lost[0], "--lost",
		lost[1], first)
	f.refuses(lost[1][:8], "recover", "plan", "--plan", plan, "--lost", lost[0], first, second)
	f.refuses("two surveys", "recover", "plan", "--plan", plan, "--lost", lost[0], "--lost", lost[1], first, second,
		second)
	said := f.must("recover", "plan", "--plan", plan, "--lost", lost[0], "--lost", lost[1], first, second)
	t.Log(said)
	if !strings.Contains(said, "No acknowledged write is lost.") {
		t.Error("the plan does not state that no data is lost")
	}
	f.refuses("is not in the plan", "recover", "apply", "--yes", "--plan", plan, "--data", old)
	a.applyKilled(plan)
	a.start()
	b.comesBack("apply it there") // this step was omitted on the node
	a.kill()
	b.applyKilled(plan)
	f.must("recover", "apply", "--yes", "--plan", plan, "--data", a.dir)
	started := time.Now()
	a.start()
	b.start()
	l.only(a, b)
	f.nodes[3].dir = old
	f.nodes[3].comesBack("was abandoned when the cluster was recovered")
	f.until("the survivors serve", settleTime, func() string {
		c := a.dial()
		defer c.Close()
		for _, table := range loadTables {
			if _, err := process.Query(c, dberr.Quorum, "SELECT * FROM load."+table+" LIMIT 1"); err != nil {
				return table + ": " + err.Error()
			}
		}
		return ""
	})
	t.Logf("the survivors serve %s after they were started", time.Since(started).Round(time.Millisecond))
	f.nodes[3].wipe()
	f.add().start()
	f.add().start()
	f.settle()
	l.only(f.alive()...)
	l.tolerate(false)
	l.mark("the cluster is whole again")
	l.more(*requests / 32)
	l.finish()
}

// short returns the name of a stopped node, derived from its directory.
func (f *fleet) short(m *member) string {
	f.t.Helper()
	b, err := os.ReadFile(filepath.Join(m.dir, "ilion.id"))
	if err != nil {
		f.t.Fatal(err)
	}
	_, id, _ := strings.Cut(string(b), "\nnode ")
	return id[:8]
}

// recoverHere recovers the given nodes, whose processes have ended, and returns the output.
func (f *fleet) recoverHere(lost []string, left ...*member) string {
	f.t.Helper()
	args := []string{"recover", "--yes", "--plan", filepath.Join(f.dir, "plan")}
	for _, id := range lost {
		args = append(args, "--lost", id)
	}
	for _, m := range left {
		args = append(args, "--data", m.dir)
	}
	return f.must(args...)
}

// TestRecoverOneOfFour checks that the last of four nodes serves all data that it had applied or logged after the
// other three nodes are lost. Only acknowledged writes after the last write that the plan names may be missing. The
// cluster must be able to grow to four nodes again.
func TestRecoverOneOfFour(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 4, "")
	a := f.nodes[0]
	a.do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}",
		"CREATE TABLE ks.t (k bigint PRIMARY KEY)")
	f.settle()
	c := a.dial()
	write := func(from, to int) {
		t.Helper()
		for k := from; k < to; k++ {
			if _, err := process.Query(c, dberr.Quorum, fmt.Sprintf("INSERT INTO ks.t (k) VALUES (%d)",
				k)); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(0, 200)
	a.split("ks.t", a.partitionsOf("ks.t")[0].ID, "&wait=true")
	write(200, 400)
	last := f.nodes[3]
	var lost []string
	for _, m := range f.nodes[:3] {
		lost = append(lost, m.id())
	}
	last.kill() // this node lacks the following writes
	write(400, 500)
	a.do("CREATE TABLE ks.later (k bigint PRIMARY KEY)", "INSERT INTO ks.later (k) VALUES (1)")
	for _, m := range f.nodes[:3] {
		m.kill()
		if err := os.RemoveAll(m.dir); err != nil {
			t.Fatal(err)
		}
	}
	said := f.recoverHere(lost, last)
	t.Log(said)
	for _, text := range []string{"BEHIND", "DATA LOSS IS POSSIBLE", "1 of 4", "the cluster metadata"} {
		if !strings.Contains(said, text) {
			t.Errorf("%q is not in the output", text)
		}
	}
	last.start()
	c = last.dial()
	r, err := process.Query(c, dberr.Quorum, "SELECT k FROM ks.t")
	if err != nil || r.RowCount < 400 || r.RowCount > 500 {
		t.Fatalf("got %d rows (%v), want the 400 rows acknowledged before the remaining node was killed", r.RowCount, err)
	}
	t.Logf("%d of 500 rows remain", r.RowCount)
	process.Do(t, c, "INSERT INTO ks.t (k) VALUES (1000)", "ALTER TABLE ks.t ADD v int",
		"UPDATE ks.t SET v = 1 WHERE k = 7",
		"CREATE TABLE ks.later (k bigint PRIMARY KEY)", "INSERT INTO ks.later (k) VALUES (2)")
	for i := range 3 {
		m := f.add()
		m.args = []string{"--join", last.inner()}
		m.start()
		t.Logf("node %d of 4 has joined", i+2)
	}
	f.settle()
	f.equal("ks", "t", "later")
	if r, err := process.Query(c, dberr.Quorum, "SELECT k FROM ks.later"); err != nil || r.RowCount != 1 {
		t.Errorf("got %d rows of a table that was created again (%v)", r.RowCount, err)
	}
}

// TestRecoverThreeOfSeven checks the loss of four of seven nodes. The lost nodes hold all replicas of a partition.
// Only the rows of that partition, which the plan names, may be missing. Afterward, the cluster must serve all tables
// and grow again.
func TestRecoverThreeOfSeven(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 7, "")
	a := f.nodes[0]
	a.do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}",
		"CREATE TABLE ks.t (k bigint PRIMARY KEY)", "CREATE TABLE ks.u (k bigint PRIMARY KEY)")
	f.still()
	c := a.dial()
	const keys = 200
	for k := range keys {
		process.Do(t, c, fmt.Sprintf("INSERT INTO ks.t (k) VALUES (%d)", k),
			fmt.Sprintf("INSERT INTO ks.u (k) VALUES (%d)", k))
	}
	f.equal("ks", "t", "u") // ensure that each replica has all rows
	s, err := a.status()
	if err != nil {
		t.Fatal(err)
	}
	gone := map[*member]bool{}
	for _, r := range a.partitionsOf("ks.t")[0].Replicas {
		gone[f.byID(s, r.Node)] = true
	}
	var lost []string
	var left []*member
	for _, m := range f.nodes {
		if gone[m] {
			lost = append(lost, m.id())
		} else {
			left = append(left, m)
		}
	}
	for _, m := range f.nodes {
		m.kill()
	}
	for m := range gone {
		if err := os.RemoveAll(m.dir); err != nil {
			t.Fatal(err)
		}
	}
	said := f.recoverHere(lost, left...)
	t.Log(said)
	if !strings.Contains(said, "GONE") {
		t.Error("the plan does not state that a partition is lost")
	}
	for _, m := range left {
		m.start()
	}
	for range 2 {
		m := f.add()
		m.args = []string{"--join", left[0].inner()}
		m.start()
	}
	f.settle()
	c = left[1].dial()
	for _, table := range []string{"t", "u"} {
		present, gone := rows(&load{t: t}, c, dberr.Quorum, "ks."+table), goneSpans(t, said, "ks."+table)
		for k := range int64(keys) {
			at := int64(token.Hash(bigint(k)[4:]))
			given := slices.ContainsFunc(gone, func(s [2]int64) bool { return s[0] <= at && at < s[1] })
			if _, ok := present[k]; ok == given {
				t.Errorf("row %d of %s at %d: exists: %t; lost ranges: %v", k, table, at, ok, gone)
			}
		}
		t.Logf("%d of %d rows of %s remain", len(present), keys, table)
	}
	f.equal("ks", "t", "u")
	left[0].do("INSERT INTO ks.t (k) VALUES (1000)", "ALTER TABLE ks.u ADD v int")
}

// goneSpans returns the token ranges of a table that a plan gives up.
func goneSpans(t *testing.T, plan, table string) (out [][2]int64) {
	t.Helper()
	_, list, _ := strings.Cut(plan, "GONE")
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		if !strings.HasPrefix(strings.TrimSpace(line), table+" ") {
			continue
		}
		s := [2]int64{0, math.MaxInt64}
		span := line[strings.Index(line, "["):]
		if n, _ := fmt.Sscanf(span, "[%d, %d)", &s[0], &s[1]); n == 0 {
			t.Fatalf("no token range in %q", line)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		t.Fatalf("no range of %s is lost: %s", table, plan)
	}
	return out
}

// TestRecoverHalfway checks that no data is lost when nodes end repeatedly during splits and merges. Each time, two of
// four nodes are lost, and two new nodes replace them.
func TestRecoverHalfway(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 4, "")
	a := f.nodes[0]
	a.do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}")
	const tables = 6
	for i := range tables {
		a.do(fmt.Sprintf("CREATE TABLE ks.t%d (k bigint PRIMARY KEY)", i))
	}
	f.settle()
	written := 0
	for round := range *halfway {
		alive := f.alive()
		c := alive[0].dial()
		for range 20 {
			for i := range tables {
				process.Do(t, c, fmt.Sprintf("INSERT INTO ks.t%d (k) VALUES (%d)", i, written))
			}
			written++
		}
		rand.Shuffle(len(alive), func(i, j int) { alive[i], alive[j] = alive[j], alive[i] })
		lost := []string{alive[2].id(), alive[3].id()}
		for i := range tables {
			name := fmt.Sprintf("ks.t%d", i)
			ps := alive[0].partitionsOf(name)
			go func() { // both changes start at about the same time, and some are rejected
				if len(ps) > 1 {
					_ = process.TryOrder(alive[0].dir,
						fmt.Sprintf("/partition/merge?table=%s&partition=%d&with=%d&now=true",
							name, ps[0].ID, ps[1].ID))
					return
				}
				_ = alive[0].trySplit(name, ps[0].ID)
			}()
		}
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond) // the time of the loss must vary
		for _, m := range []*member{alive[2], alive[3], alive[0], alive[1]} {
			m.kill()
		}
		for _, m := range alive[2:] {
			if err := os.RemoveAll(m.dir); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.RemoveAll(filepath.Join(f.dir, "plan")); err != nil {
			t.Fatal(err)
		}
		said := f.recoverHere(lost, alive[:2]...)
		if !strings.Contains(said, "No acknowledged write is lost.") {
			t.Fatalf("round %d: %s", round, said)
		}
		alive[0].start()
		alive[1].start()
		for range 2 {
			m := f.add()
			m.args = []string{"--join", alive[0].inner()}
			m.start()
		}
		f.settle()
		c = alive[0].dial()
		for i := range tables {
			r, err := process.Query(c, dberr.Quorum, fmt.Sprintf("SELECT count(*) FROM ks.t%d", i))
			if err != nil || len(r.Cells) != 12 || binary.BigEndian.Uint64(r.Cells[4:]) != uint64(written) {
				t.Fatalf("round %d: table %d has %x rows of %d (%v)\n%s", round, i, r.Cells, written, err, said)
			}
			t.Logf("round %d: table %d has %d partitions", round, i, len(alive[0].partitionsOf(fmt.Sprintf("ks.t%d",
				i))))
		}
	}
}
