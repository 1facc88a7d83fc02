// SPDX-License-Identifier: Apache-2.0

package diskfs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/ilion-db/ilion/test/eventually"
)

// small is a disk in memory that rejects tables while it is full.
type small struct {
	vfs.FS
	full    atomic.Bool
	free    atomic.Uint64
	refused atomic.Int64 // rejected writes
}

func newSmall() *small {
	s := &small{}
	s.free.Store(90 << 20)
	s.FS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if s.full.Load() && op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".sst") {
			s.refused.Add(1)
			return syscall.ENOSPC
		}
		return nil
	}))
	return s
}

func (s *small) usage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: s.free.Load(), TotalBytes: 100 << 20}, nil
}

// open opens a store and returns a channel with the errors of background work.
func (s *small) open(t *testing.T, o Options) (*pebble.DB, *FS, chan error) {
	t.Helper()
	o.Usage = s.usage
	g := New(s, "db", o)
	failed := make(chan error, 1000)
	db, err := pebble.Open("db", &pebble.Options{FS: g, Logger: silent{}, L0StopWritesThreshold: 1000,
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { failed <- err },
		}})
	if err != nil {
		t.Fatal(err)
	}
	g.MarkOpen()
	return db, g, failed
}

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(string, ...any) { panic("fatal") }

// unbroken fails a test whose log cannot be written.
type unbroken struct {
	silent
	t *testing.T
}

func (l unbroken) Fatalf(format string, args ...any) { l.t.Errorf("it broke: "+format, args...) }

// failures receives the errors of a log.
type failures chan string

func (failures) Infof(string, ...any)                {}
func (failures) Errorf(string, ...any)               {}
func (c failures) Fatalf(format string, args ...any) { c <- fmt.Sprintf(format, args...) }

func noise(t *testing.T, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestFlushWaits checks that a flush without enough space is retried after delays, and succeeds when space is
// available (F2). The test also checks that a store on a full disk can be closed without losing data.
func TestFlushWaits(t *testing.T) {
	s := newSmall()
	db, g, failed := s.open(t, Options{})
	if err := db.Set([]byte("k"), noise(t, 1000), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	s.full.Store(true)
	flushed, err := db.AsyncFlush()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 2 {
		if err := <-failed; !isDiskFull(err) {
			t.Errorf("a flush failed with %v", err)
		}
	}
	if took := time.Since(began); took < 2*RetryAfter {
		t.Errorf("two flushes failed within %s", took)
	}
	s.full.Store(false)
	<-flushed
	if err := db.Set([]byte("l"), noise(t, 1000), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	s.full.Store(true)
	if _, err := db.AsyncFlush(); err != nil {
		t.Fatal(err)
	}
	g.Close()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s.full.Store(false)
	db, _, _ = s.open(t, Options{})
	defer db.Close()
	for _, key := range []string{"k", "l"} {
		if _, c, err := db.Get([]byte(key)); err != nil || c.Close() != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestCompactionLeavesRoom checks that a compaction that would use the reserved space is postponed, and runs when there
// is enough space (F2, F3). Flushes must continue during that time.
func TestCompactionLeavesRoom(t *testing.T) {
	s := newSmall()
	s.free.Store(10 << 20)
	db, _, failed := s.open(t, Options{KeepFree: func() uint64 { return 10 << 20 }})
	defer db.Close()
	for range 8 {
		if err := errors.Join(db.Set([]byte("k"), noise(t, 1000), nil), db.Set([]byte("l"), noise(t, 1000), nil),
			db.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-failed; !errors.Is(err, ErrLowSpace) || !isDiskFull(err) {
		t.Errorf("a compaction without room: %v", err)
	}
	if n := db.Metrics().Levels[0].TablesCount; n < 2 {
		t.Errorf("%d tables where all should wait", n)
	}
	s.free.Store(12 << 20)
	eventually.True(t, "a compaction", func() bool { return db.Metrics().Levels[0].TablesCount <= 1 })
}

// TestLogBreaks checks that a log that cannot be written stops an open store, and that opening a store with such a log
// returns an error (F1).
func TestLogBreaks(t *testing.T) {
	var full atomic.Bool
	mem := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && strings.HasSuffix(op.Path, LogSuffix) && op.Kind == errorfs.OpFileWrite {
			return syscall.ENOSPC
		}
		return nil
	}))
	told := make(failures, 1)
	g := New(mem, "", Options{Logger: told})
	f, err := g.Create("1.log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	if _, err := f.Write([]byte("x")); !isDiskFull(err) || len(told) > 0 {
		t.Errorf("before it is open: %v", err)
	}
	g.MarkOpen()
	if _, err := f.Write([]byte("x")); !isDiskFull(err) || <-told != syscall.ENOSPC.Error() {
		t.Errorf("when it is open: %v", err)
	}
}

// TestRoom checks that a store whose log does not fit on its disk cannot be opened, and that the error contains the
// number of missing bytes.
func TestRoom(t *testing.T) {
	s := newSmall()
	f, err := s.Create("000001.log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, 3<<20)); err != nil {
		t.Fatal(err)
	}
	s.free.Store(4 << 20)
	if err := CheckFreeSpace(s, "", s.usage); err != nil {
		t.Errorf("with room: %v", err)
	}
	s.free.Store(1 << 20)
	want := "the disk is full: 1.0 MiB are free, but 4.0 MiB are required to start. No data is lost. Free at least 3.0 MiB"
	if err := CheckFreeSpace(s, "", s.usage); err == nil || err.Error() != want {
		t.Errorf("without room: %v", err)
	}
}

// TestOnlyItsOwn checks that a checkpoint that fails at any step on another disk returns an error and has no other
// effect (F4). The store must continue, and no directory that looks complete may remain.
func TestOnlyItsOwn(t *testing.T) {
	var at atomic.Int64 // number of the operation on the other disk from which all operations fail
	mem := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.HasPrefix(op.Path, "elsewhere") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite &&
			op.Kind != errorfs.OpRemove && op.Kind != errorfs.OpRemoveAll && at.Add(-1) < 0 {
			return syscall.EIO
		}
		return nil
	}))
	g := New(mem, "db", Options{Logger: unbroken{t: t}})
	db, err := pebble.Open("db", &pebble.Options{FS: g, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	g.MarkOpen()
	failed := 0
	for n := int64(0); ; n++ {
		if err := db.Set([]byte("k"), noise(t, 1000), pebble.Sync); err != nil {
			t.Fatal(err)
		}
		at.Store(n)
		if err = g.Checkpoint(db, fmt.Sprint("elsewhere/", n)); err == nil {
			break
		}
		failed++
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("operation %d: %v", n, err)
		}
		if names, _ := mem.List(fmt.Sprint("elsewhere/", n)); slices.ContainsFunc(names, func(name string) bool {
			return strings.HasPrefix(name, "marker.manifest")
		}) {
			t.Errorf("operation %d: it failed and left %v", n, names)
		}
	}
	if failed < 5 {
		t.Errorf("%d checkpoints failed", failed)
	}
}

// isDiskFull reports whether err means that the disk is full.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
