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

// TestUpgrade checks that a cluster can move from one build to a build of the next feature level, node by node and
// back and forth, without client errors. The level must not change until an operator requests the next level and every
// node supports it. After that, the older build must be rejected with an explanation, on a directory of this cluster
// and on an empty directory.
func TestUpgrade(t *testing.T) {
	onlyLong(t)
	newer := newerBuild(t)
	f := startFleet(t, 4, "")
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
	restart(f.nodes[1], process.Binary(t), "the build before")
	restart(f.nodes[1], newer, "the next build again")
	said := f.nodes[0].upgrade()
	if want := fmt.Sprintf("level %d", feature.Newest); !strings.Contains(said, want) {
		t.Errorf("with one node of the previous build, upgrade printed %q, want %q", said, want)
	}
	f.levels(feature.Newest)
	restart(f.nodes[3], newer, "the next build")
	f.levels(feature.Newest)
	said = f.nodes[0].upgrade()
	if want := fmt.Sprintf("level %d", feature.Newest+1); !strings.Contains(said, want) {
		t.Errorf("upgrade printed %q, want %q", said, want)
	}
	f.levels(feature.Newest + 1)
	l.mark("the next level")
	l.more(*requests / 4)
	for _, m := range f.nodes { // read all data that was stored at the next level again
		restart(m, newer, "a restart")
	}
	old := f.nodes[2]
	l.only(f.without(old)...)
	old.stop()
	old.bin = ""
	if err := old.tryStart(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf(
		"(feature level %d); this version supports %v", feature.Newest+1, feature.Known)) {
		t.Errorf("previous build on its directory: %v", err)
	}
	stranger := f.add()
	if err := stranger.tryStart(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf(
		"the cluster uses feature level %d, but", feature.Newest+1)) {
		t.Errorf("previous build on an empty directory: %v", err)
	}
	f.nodes = f.nodes[:4]
	old.bin = newer
	old.start()
	f.settle()
	l.only(f.alive()...)
	l.finish()
}
