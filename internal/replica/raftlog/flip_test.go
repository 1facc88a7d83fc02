// SPDX-License-Identifier: Apache-2.0

package raftlog

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"
)

const flippedEntries = 30

// TestFlippedBits flips a bit in any file of a Raft log. The flip must either be reported in one line when the log is
// opened or read, or have no effect on the label, the groups, and their entries. No table may be deleted. The exception
// is the end of the newest write-ahead log, which its last sync wrote. A flipped bit in this part looks like an
// interrupted write, and the last batch may be missing.
func TestFlippedBits(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := open(t, fs, Options{})
	must(t, s.SetLabel([]byte("label")))
	b := s.NewBatch()
	states := []string{}
	for i := range uint64(flippedEntries) {
		must(t, b.Append(7, []*pb.Entry{newEntry(i+1, i/10+1, strings.Repeat(string(rune('a'+i%26)), 2000))}))
		must(t, b.SetHardState(7, i/10+1, 2, i))
		must(t, b.Commit(true))
		if i == 9 || i == 19 { // too few tables for a compaction, which would leave obsolete tables
			must(t, s.db.Flush())
		}
		if i >= 19 {
			states = append(states, show(t, group(t, s, 7)))
		}
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	must(t, b.Close())
	must(t, s.Close())
	files := map[string][]byte{}
	newest := ""
	names, err := crashed.List("data/log")
	must(t, err)
	slices.Sort(names)
	for _, name := range names {
		if info, err := crashed.Stat("data/log/" + name); err == nil && !info.IsDir() {
			f, err := crashed.Open("data/log/" + name)
			must(t, err)
			files[name], err = io.ReadAll(f)
			must(t, err)
			must(t, f.Close())
		}
		if strings.HasSuffix(name, ".log") {
			newest = name
		}
	}
	for name, text := range files {
		step := 1
		if len(text) >= 4<<10 || strings.HasPrefix(name, "OPTIONS-") {
			step = max(1, len(text)/80)
		}
		allowed := states[len(states)-1:]
		if name == newest {
			allowed = states[len(states)-2:]
		}
		for at := 0; at < len(text); at += step {
			if text := flipped(t, files, name, at, allowed); text != "" {
				t.Errorf("%s, byte %d of %d: %s", name, at, len(files[name]), text)
			}
		}
	}
}

// flipped opens and reads the log with one flipped bit, and returns the resulting error.
func flipped(t *testing.T, files map[string][]byte, name string, at int, allowed []string) string {
	t.Helper()
	fs := vfs.NewMem()
	must(t, fs.MkdirAll("data/log", 0o755))
	for n, text := range files {
		text = bytes.Clone(text) // with the tag invariants, Write overwrites the buffer that is passed to it
		if n == name {
			text[at] ^= 1 << (at % 8)
		}
		f, err := fs.Create("data/log/"+n, vfs.WriteCategoryUnspecified)
		must(t, err)
		_, err = f.Write(text)
		must(t, err)
		must(t, f.Close())
	}
	s, err := Open("data/log", Options{FS: fs, MemtableBytes: 1 << 20, MustExist: true})
	got := ""
	if err == nil {
		if got, err = readAll(s); err != nil && s.Failed() != nil {
			err = s.Failed() // the error that the owner of the log receives
		}
		_ = s.Close()
	}
	if err == nil {
		if !slices.Contains(allowed, got) {
			return "it holds " + got[:min(len(got), 200)]
		}
		return ""
	}
	text := err.Error()
	if strings.Contains(text, "\n") || !strings.Contains(text, "data/log") || !strings.Contains(text, name) {
		return text
	}
	for n := range files {
		if _, err := fs.Stat("data/log/" + n); err != nil && strings.HasSuffix(n, ".sst") {
			return fmt.Sprintf("refused (%v), and %s is gone", err, n)
		}
	}
	return ""
}

// readAll is like show and also returns the label. It supports a log that rejects reads.
func readAll(s *Store) (string, error) {
	label, err := s.Label()
	if err != nil {
		return "", err
	}
	ids, err := s.Groups()
	if err != nil {
		return "", err
	}
	if string(label) != "label" || len(ids) != 1 || ids[0] != 7 {
		return fmt.Sprintf("label %q, groups %d", label, ids), nil
	}
	g, err := s.Group(7)
	if err != nil {
		return "", err
	}
	hs, _, err := g.InitialState()
	if err != nil {
		return "", err
	}
	last, err := g.LastIndex()
	if err != nil {
		return "", err
	}
	entries, err := g.Entries(1, last+1, 1<<30)
	if err != nil {
		return "", err
	}
	out := fmt.Sprintf("term %d vote %d commit %d voters [] cut 0@0 last %d:", hs.GetTerm(), hs.GetVote(),
		hs.GetCommit(),
		last)
	for _, e := range entries {
		out += fmt.Sprintf(" %d@%d=%s", e.GetIndex(), e.GetTerm(), e.GetData())
	}
	return out, nil
}
