// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/test/process"
)

// ilion runs the binary under test with a command, and returns what it says.
func (f *fleet) ilion(args ...string) (string, error) {
	b, err := process.Command(f.t, args...).CombinedOutput()
	return string(b), err
}

// must is ilion for a command that has to succeed.
func (f *fleet) must(args ...string) string {
	f.t.Helper()
	text, err := f.ilion(args...)
	if err != nil {
		f.t.Fatalf("ilion %s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return text
}

// refuses proves that a command fails and says why.
func (f *fleet) refuses(text string, args ...string) {
	f.t.Helper()
	said, err := f.ilion(args...)
	if err == nil || !strings.Contains(said, text) {
		f.t.Fatalf("ilion %s: %v, and %q is not in\n%s", strings.Join(args, " "), err, text, said)
	}
}

// survey surveys a node that does not run, and returns the name of the file.
func (m *member) survey() string {
	m.f.t.Helper()
	name := filepath.Join(m.f.dir, fmt.Sprintf("node%d.survey", m.index+1))
	m.f.must("recover", "survey", "--data", m.dir, name)
	return name
}

// applyKilled carries a plan out in a directory, and is killed again and again while it does.
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
			m.f.t.Logf("%s is recovered by a process that was given %s: %s", m.name(), wait, said.String())
			return
		case killed.Stop():
			m.f.t.Fatalf("%s: %v\n%s", m.name(), err, said.String())
		}
	}
}

// comesBack starts a node that was given up on its old directory: it must end, and say why.
func (m *member) comesBack(text string) {
	m.f.t.Helper()
	ready := m.launch("--internal", m.inner())
	select {
	case <-m.ended:
	case <-time.After(startTime):
		m.f.t.Fatalf("%s runs although it was given up: %s", m.name(), m.lastWords())
	}
	<-ready
	if words := m.lastWords(); !strings.Contains(words, text) {
		m.f.t.Errorf("%q is not in the last words of %s: %s", text, m.name(), words)
	}
}

// TestRecoverTwoOfFour proves that nothing that was acknowledged is lost when two of four nodes are, with their disks,
// while tables are written to and split: the survivors are recovered, by commands that are killed, and a lost node that
// comes back is refused. It proves, too, what the commands refuse.
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
	f.refuses("another process", "recover", "survey", "--data", a.dir, filepath.Join(f.dir, "running.survey"))
	a.kill()
	b.kill()
	old := filepath.Join(f.dir, "old")
	process.CopyDir(t, f.nodes[3].dir, old)
	f.nodes[2].wipe()
	f.nodes[3].wipe()

	plan := filepath.Join(f.dir, "plan")
	first, second := a.survey(), b.survey()
	f.refuses("no survey of node "+f.short(b), "recover", "plan", "--plan", plan, "--lost", lost[0], "--lost", lost[1], first)
	f.refuses(lost[1][:8], "recover", "plan", "--plan", plan, "--lost", lost[0], first, second)
	f.refuses("two surveys", "recover", "plan", "--plan", plan, "--lost", lost[0], "--lost", lost[1], first, second, second)
	said := f.must("recover", "plan", "--plan", plan, "--lost", lost[0], "--lost", lost[1], first, second)
	t.Log(said)
	if !strings.Contains(said, "Nothing that was acknowledged is lost.") {
		t.Error("the plan does not say that nothing is lost")
	}
	f.refuses("is not in the plan", "recover", "apply", "--yes", "--plan", plan, "--data", old)
	b.applyKilled(plan)
	a.applyKilled(plan)
	f.must("recover", "apply", "--yes", "--plan", plan, "--data", a.dir)
	started := time.Now()
	a.start()
	b.start()
	l.only(a, b)
	f.nodes[3].dir = old
	f.nodes[3].comesBack("was given up when the cluster was recovered")
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

// short is the name of a node that does not run, by the directory.
func (f *fleet) short(m *member) string {
	f.t.Helper()
	b, err := os.ReadFile(filepath.Join(m.dir, "ilion.id"))
	if err != nil {
		f.t.Fatal(err)
	}
	_, id, _ := strings.Cut(string(b), "\nnode ")
	return id[:8]
}
