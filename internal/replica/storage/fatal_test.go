// SPDX-License-Identifier: Apache-2.0

//go:build integration

package storage

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/replica/diskfs"
)

// brokenOps are the operations on the log that fail in TestBrokenDisk, one after the other.
var brokenOps = map[string]errorfs.OpKind{"write": errorfs.OpFileWrite, "sync": errorfs.OpFileSyncData,
	"create": errorfs.OpCreate, "reuse": errorfs.OpRename}

// TestBrokenDisk checks that a disk that rejects writes to the log breaks the store, in every state of Pebble. The
// owner must be notified once, in one line, and must be able to end the process. Later calls must fail. Data that was
// synced before must be intact when the disk works again. Calls of a broken store never return, so the test uses a
// separate process.
func TestBrokenDisk(t *testing.T) {
	if dir := os.Getenv("ILION_BROKEN_DIR"); dir != "" {
		breakDisk(dir, brokenOps[os.Getenv("ILION_BROKEN_OP")])
		return
	}
	for name := range brokenOps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "db")
			child := exec.Command(os.Args[0], "-test.run=^TestBrokenDisk$")
			child.Env = append(os.Environ(), "ILION_BROKEN_DIR="+dir, "ILION_BROKEN_OP="+name)
			out, err := child.CombinedOutput()
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if ended := (*exec.ExitError)(nil); !errors.As(err, &ended) || ended.ExitCode() != 3 || len(lines) != 2 ||
				!strings.HasPrefix(lines[0], "told: the store has stopped: ") ||
				lines[1] != "refused: the store has stopped" {
				t.Fatalf("%v: %s", err, out)
			}
			s, err := Open(vfs.Default, dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if len(readOne(t, s, "before")) == 0 {
				t.Error("synced data is lost")
			}
		})
	}
}

// breakDisk writes until the store breaks. If the result is correct, it ends the process with code 3.
func breakDisk(dir string, kind errorfs.OpKind) {
	var broken atomic.Bool
	fs := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && op.Kind == kind && strings.HasSuffix(op.Path, diskfs.LogSuffix) {
			return errors.New("input/output error")
		}
		return nil
	}))
	told := make(failureObserver, 10)
	s, err := Open(fs, dir, Options{MemtableBytes: 1 << 20, Observer: told})
	must := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	must(err)
	must(s.Apply(mutation("before", "", 1, func(b *row.Builder) { b.Cell(1, nil, []byte("v"), 0, row.NoExpiry) })))
	must(s.Sync())
	large := mutation("after", "", 1, func(b *row.Builder) { b.Cell(1, nil, make([]byte, 50_000), 0, row.NoExpiry) })
	healthy := 1 // number of operations
	if kind == errorfs.OpRename {
		healthy = 150 // until there are logs to reuse; errorfs only lets other operations fail
	}
	for i := range 200 {
		broken.Store(i >= healthy)
		go func() {
			if s.Apply(large) == nil {
				_ = s.Sync()
			}
		}()
		time.Sleep(time.Millisecond) // wait so that memtables are flushed and their logs are reused
	}
	select {
	case err := <-told:
		fmt.Println("told:", err)
	case <-time.After(10 * time.Second):
		fmt.Println("nobody was told")
		os.Exit(1)
	}
	if err := s.Apply(large); errors.Is(err, ErrBroken) && errors.Is(s.Sync(), ErrBroken) && len(told) == 0 {
		fmt.Println("refused:", ErrBroken)
	}
	os.Exit(3)
}

// TestGivenUpCompactions checks that a compaction that stops because of an installation is not reported as a failure,
// and that a real failure is reported once.
func TestGivenUpCompactions(t *testing.T) {
	told := make(failureObserver, 10)
	s := openMem(t, Options{Observer: told})
	l := s.listener()
	broken := errors.New("the disk is broken")
	for _, err := range []error{pebble.ErrCancelledCompaction, broken, broken} {
		l.BackgroundError(err)
	}
	if len(told) != 1 {
		t.Fatalf("notified %d times", len(told))
	}
	if err := <-told; !errors.Is(err, broken) {
		t.Errorf("notified of %v", err)
	}
}
