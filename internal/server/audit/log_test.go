// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/test/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func entry(operation string) *Entry {
	return &Entry{User: "app", Host: netip.MustParseAddrPort("10.0.0.1:9042"),
		Source: netip.MustParseAddrPort("10.0.0.7:5000"), At: time.UnixMilli(1_700_000_000_000), Type: "SELECT",
		Category: "QUERY", Keyspace: "ks", Table: "t", Operation: operation}
}

func written(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestLines checks the format of a line. Client input must not be able to start a line or a field. Constants can be
// omitted, and only the owner may be able to read the file.
func TestLines(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	for _, c := range []struct {
		o    Options
		e    func(*Entry)
		want string
	}{
		{Options{}, func(*Entry) {}, "user:app|host:10.0.0.1:9042|source:/10.0.0.7|port:5000|timestamp:1700000000000|" +
			"type:SELECT|category:QUERY|ks:ks|scope:t|outcome:ok|operation:SELECT * FROM ks.t WHERE k = 'a' AND v = 12"},
		{Options{NoLiterals: true}, func(*Entry) {}, "|operation:SELECT * FROM ks.t WHERE k = ? AND v = ?"},
		{Options{}, func(e *Entry) { e.Err = &dberr.Unauthorized{Message: "no"} }, "|outcome:0x2100|"},
		{Options{}, func(e *Entry) { e.Err = errors.New("broken") }, "|outcome:0x0000|"},
		{Options{}, func(e *Entry) { e.User, e.Operation = "a|user:root\nuser:b", "x\nuser:root|y\x00" },
			"user:a/user:root user:b|host:10.0.0.1:9042|source:/10.0.0.7|port:5000|timestamp:1700000000000|" +
				"type:SELECT|category:QUERY|ks:ks|scope:t|outcome:ok|operation:x user:root|y "},
	} {
		_ = os.RemoveAll(dir)
		l, err := Open(c.o, dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		e := entry("SELECT * FROM ks.t WHERE k = 'a' AND v = 12")
		c.e(e)
		l.Write(e)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if got := written(t, dir); !strings.Contains(got, c.want) || strings.Count(got, "\n") != 1 {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "audit.log")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestFilters checks the filters by keyspace, category, and user. They must select the included entries and omit the
// excluded entries.
func TestFilters(t *testing.T) {
	none := ""
	for _, c := range []struct {
		o    Options
		e    func(*Entry)
		want bool
	}{
		{Options{}, func(e *Entry) { e.Keyspace = "system" }, false},
		{Options{ExcludedKeyspaces: &none}, func(e *Entry) { e.Keyspace = "system" }, true},
		{Options{IncludedKeyspaces: "a, ks"}, func(*Entry) {}, true},
		{Options{IncludedKeyspaces: "a"}, func(*Entry) {}, false},
		{Options{IncludedKeyspaces: "a"}, func(e *Entry) { e.Keyspace = "" }, true},
		{Options{IncludedCategories: "DDL,QUERY"}, func(*Entry) {}, true},
		{Options{IncludedCategories: "DDL"}, func(*Entry) {}, false},
		{Options{IncludedCategories: "QUERY", ExcludedCategories: "QUERY"}, func(*Entry) {}, false},
		{Options{IncludedUsers: "root"}, func(*Entry) {}, false},
		{Options{ExcludedUsers: "app"}, func(*Entry) {}, false},
	} {
		dir := t.TempDir()
		l, err := Open(c.o, dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		e := entry("x")
		c.e(e)
		l.Write(e)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if got := written(t, dir) != ""; got != c.want {
			t.Errorf("%+v: written %v", c.o, got)
		}
	}
	for _, bad := range []Options{{Logger: "paper"}, {IncludedCategories: "QUERIES"}, {FileBytes: 1}} {
		if _, err := Open(bad, t.TempDir(), nil); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// TestRotation checks that the total size of the files stays within the limit, and that the files contain the newest
// entries.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	const total = filesMax << 10
	w, err := openFiles(dir, total, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if _, err := fmt.Fprintf(w, "line %04d %s\n", i, strings.Repeat("x", 90)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for _, f := range list {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if len(list) != filesMax || size > total || size < total/2 {
		t.Errorf("%d files of %d bytes, at most %d of %d", len(list), size, filesMax, total)
	}
	if !strings.Contains(written(t, dir), "line 0999") {
		t.Error("the newest line is not in audit.log")
	}
}

// stuck simulates a disk that blocks until free is closed.
type stuck struct {
	entered, free chan struct{}
	b             strings.Builder
}

func (s *stuck) Write(b []byte) (int, error) {
	select {
	case s.entered <- struct{}{}:
	default:
	}
	<-s.free
	return s.b.Write(b)
}

func (s *stuck) Close() error { return nil }

// TestQueue checks that writers do not wait for a blocked disk. Entries that exceed the queue must be dropped,
// counted, and recorded. If Block is set, no entry may be dropped.
func TestQueue(t *testing.T) {
	for _, block := range []bool{false, true} {
		s := &stuck{entered: make(chan struct{}, 1), free: make(chan struct{})}
		l := newLog(Options{QueueBytes: 1000, Block: block}.withDefaults(""), slog.New(slog.DiscardHandler))
		l.out = s
		go l.run()
		l.Write(entry("first"))
		<-s.entered // the disk blocks on the first entry
		all := make(chan struct{})
		go func() {
			for range 100 {
				l.Write(entry("more"))
			}
			close(all)
		}()
		if !block {
			<-all
		}
		close(s.free)
		<-all
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		lines, dropped := strings.Count(s.b.String(), "operation:"), int(l.Dropped())
		if lines+dropped != 101 || block != (dropped == 0) ||
			strings.Contains(s.b.String(), "type:DROPPED") == block {
			t.Errorf("block %v: %d lines, %d dropped", block, lines, dropped)
		}
	}
}

// broken simulates a disk that accepts a limited number of bytes until it is repaired.
type broken struct {
	takes    int
	repaired chan struct{}
	failed   chan struct{} // receives one value after a failed write
	b        strings.Builder
}

func (w *broken) Write(b []byte) (int, error) {
	select {
	case <-w.repaired:
		return w.b.Write(b)
	default:
	}
	n, _ := w.b.Write(b[:min(w.takes, len(b))])
	w.takes -= n
	if n < len(b) {
		select {
		case w.failed <- struct{}{}:
		default:
		}
		return n, errors.New("no space")
	}
	return n, nil
}

func (w *broken) Close() error { return nil }

// TestBrokenDisk checks the entries that a disk rejects. They must be counted, logged once, and recorded in the audit
// log when the disk works again. If Block is set, these entries must then be written completely and exactly once.
func TestBrokenDisk(t *testing.T) {
	for _, block := range []bool{false, true} {
		w := &broken{takes: 10, repaired: make(chan struct{}), failed: make(chan struct{}, 1)}
		var said strings.Builder
		l := newLog(Options{Block: block}.withDefaults(""), slog.New(slog.NewTextHandler(&said, nil)))
		l.out = w
		for range 10 {
			l.Write(entry("wrote"))
		}
		go l.run()
		<-w.failed
		eventually.True(t, "entries are dropped", func() bool { return block || l.Dropped() == 10 })
		close(w.repaired)
		l.Write(entry("more"))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(w.b.String(), "operation:wrote\n")
		if block && (lines != 10 || l.Dropped() != 0 || strings.Contains(w.b.String(), "DROPPED")) {
			t.Errorf("block: %d lines, %d dropped: %s", lines, l.Dropped(), w.b.String())
		}
		if !block && (lines != 0 || l.Dropped() != 10 || strings.Count(said.String(), "entries dropped") != 1 ||
			!strings.Contains(w.b.String(), "\ntimestamp:") ||
			!strings.Contains(w.b.String(), "|type:DROPPED|category:OTHER|count:10\n")) {
			t.Errorf("%d lines, %d dropped: %s; %s", lines, l.Dropped(), w.b.String(), said.String())
		}
	}
}

// reverse is a Sealer for tests: it reverses bytes, and fails while failing is set.
type reverse struct{ failing *bool }

var errSeal = errors.New("no key")

// Seal implements Sealer.
func (r reverse) Seal(b []byte) ([]byte, error) {
	if *r.failing {
		return nil, errSeal
	}
	b = bytes.Clone(b)
	slices.Reverse(b)
	return b, nil
}

// TestSealedFiles checks that the files contain only what the sealer returns, and that nothing is written if it fails.
func TestSealedFiles(t *testing.T) {
	dir, failing := t.TempDir(), false
	w, err := openFiles(dir, filesMax<<10, reverse{&failing})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := w.Write([]byte("abc\n")); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	failing = true
	if n, err := w.Write([]byte("def\n")); n != 0 || !errors.Is(err, errSeal) {
		t.Errorf("%d, %v", n, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "audit.log")); err != nil || string(b) != "\ncba" {
		t.Errorf("%q, %v", b, err)
	}
}
