// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/test/process"
)

// newerBuild builds a binary that supports one feature level more than this build.
func newerBuild(t *testing.T) string {
	t.Helper()
	source, err := filepath.Abs("../../internal/model/feature/feature.go")
	if err != nil {
		t.Fatal(err)
	}
	return process.Altered(t, map[string]string{source: process.Edited(t, source,
		fmt.Sprintf("\tNewest Level = %d\n", feature.Newest), fmt.Sprintf("\tNewest Level = %d\n", feature.Newest+1))})
}

// levels waits until every node reports a feature level.
func (f *fleet) levels(want feature.Level) {
	f.t.Helper()
	f.until(fmt.Sprintf("feature level %d", want), settleTime, func() string {
		for _, m := range f.nodes {
			s, err := m.status()
			if err != nil {
				return err.Error()
			}
			if s.Level != uint32(want) {
				return fmt.Sprintf("%s works at %d", m.name(), s.Level)
			}
		}
		return ""
	})
}

// upgrade runs ilion upgrade on a node and returns its output.
func (m *member) upgrade() string {
	m.f.t.Helper()
	out, err := exec.Command(m.bin, "upgrade", "--yes", "--http", m.web()).CombinedOutput()
	if err != nil {
		m.f.t.Fatalf("upgrade: %v: %s", err, out)
	}
	return string(out)
}

// TestUpgrade checks that a cluster can move from this build to a build of the next feature level.
func TestUpgrade(t *testing.T) {
	onlyLong(t)
	rollingUpgrade(t, process.Binary(t), newerBuild(t),
		feature.Range{Oldest: feature.Newest, Newest: feature.Newest + 1})
}

// TestUpgradeFromOlder checks that a cluster can move from an earlier build to this build.
func TestUpgradeFromOlder(t *testing.T) {
	if *olderBin == "" {
		t.Skip("give -cluster.older PROGRAM")
	}
	rollingUpgrade(t, *olderBin, process.Binary(t), feature.Range{Newest: feature.Newest})
}

// rollingUpgrade checks that a cluster can move back and forth between two builds, node by node, without client
// errors. The level must not change until an operator requests the next level and every node supports it. After that,
// the older build must be rejected with an explanation, on a directory of this cluster and on an empty directory.
// levels.Newest is the newest level of the newer build. levels.Oldest is the level of the older build, or 0 for the
// level of a cluster that the older build creates.
func rollingUpgrade(t *testing.T, older, newer string, levels feature.Range) {
	f := newFleet(t, "")
	for range 4 {
		m := f.add()
		m.bin = older
		m.start()
	}
	f.settle()
	if levels.Oldest == 0 {
		s, err := f.nodes[0].status()
		if err != nil {
			t.Fatal(err)
		}
		levels.Oldest = feature.Level(s.Level)
	}
	t.Logf("from level %d to level %d", levels.Oldest, levels.Newest)
	l := startLoad(f, *clients, 0)
	restart := func(m *member, bin, what string) {
		t.Helper()
		l.only(f.without(m)...)
		l.mark(what + " on " + m.name())
		m.stop()
		m.bin = bin
		m.start()
		f.settle()
		l.only(f.alive()...)
		l.more(*requests / 16)
	}
	for _, m := range f.nodes[:3] {
		restart(m, newer, "the next build")
	}
	restart(f.nodes[1], older, "the build before")
	restart(f.nodes[1], newer, "the next build again")
	said := f.nodes[0].upgrade()
	if want := fmt.Sprintf("level %d", levels.Oldest); !strings.Contains(said, want) {
		t.Errorf("with one node of the previous build, upgrade printed %q, want %q", said, want)
	}
	f.levels(levels.Oldest)
	restart(f.nodes[3], newer, "the next build")
	f.levels(levels.Oldest)
	said = f.nodes[0].upgrade()
	if want := fmt.Sprintf("level %d", levels.Newest); !strings.Contains(said, want) {
		t.Errorf("upgrade printed %q, want %q", said, want)
	}
	f.levels(levels.Newest)
	l.mark("the next level")
	l.more(*requests / 4)
	for _, m := range f.nodes { // read all data that was stored at the next level again
		restart(m, newer, "a restart")
	}
	rejected(l, f.nodes[2], older, newer, levels)
	l.finish()
}

// rejected checks that the older build is rejected on the directory of a node and on an empty directory. rejected
// restarts the node with the newer build.
func rejected(l *load, m *member, older, newer string, levels feature.Range) {
	f := m.f
	f.t.Helper()
	l.only(f.without(m)...)
	m.stop()
	m.bin = older
	if err := m.tryStart(); err == nil || !levelNamed(err, levels) {
		f.t.Errorf("previous build on its directory: %v", err)
	}
	stranger := f.add()
	stranger.bin = older
	if err := stranger.tryStart(); err == nil || !levelNamed(err, levels) {
		f.t.Errorf("previous build on an empty directory: %v", err)
	}
	f.nodes = f.nodes[:4]
	m.bin = newer
	m.start()
	f.settle()
	l.only(f.alive()...)
}

// levelNamed reports whether an error names the level of the cluster and the newest level of the older build. The texts
// of earlier builds differ.
func levelNamed(err error, levels feature.Range) bool {
	return strings.Contains(err.Error(), fmt.Sprintf("feature level %d", levels.Newest)) &&
		strings.Contains(err.Error(), fmt.Sprint(levels.Oldest))
}
