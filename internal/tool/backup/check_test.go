// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/sched"
)

// TestCheckAll checks that Checker finds every backup with a missing file. Checker must read a file that several
// backups share only once. The test also checks that no data is pruned if a backup that would be kept is incomplete.
func TestCheckAll(t *testing.T) {
	ctx, target := t.Context(), open(t, &Place{Name: t.TempDir()})
	put(t, target, older, "aa")
	put(t, target, newer, "aa")
	missing := &archive.Manifest{ID: newest, Cluster: "aa", Time: time.Unix(1, 0),
		Metadata: archive.File{Name: archive.FileName([]byte("lost"))}}
	data, err := missing.Encode()
	if err == nil {
		err = target.Put(ctx, manifestName(newest), data)
	}
	if err != nil {
		t.Fatal(err)
	}
	check := &Checker{Target: target}
	for _, id := range []string{older, newer, newest} {
		m, err := Load(ctx, target, id)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the checker remembers the files that it has read
			if err := check.Check(ctx, m); (err != nil) != (id == newest) {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
	if check.progress.Files != 2 {
		t.Errorf("%d files were read, want 2", check.progress.Files)
	}
	p := &Pruner{Target: target, Clock: sched.SystemClock, KeepLast: 1}
	if err := p.Prune(ctx); err == nil || !strings.Contains(err.Error(), "Nothing was deleted") || p.Removed > 0 {
		t.Errorf("pruned despite an incomplete backup: %v, %d removed", err, p.Removed)
	}
	if err := target.Remove(ctx, manifestName(newest)); err != nil {
		t.Fatal(err)
	}
	if err := p.Prune(ctx); err != nil || p.Backups != 1 || p.Removed != 1 {
		t.Errorf("%v, %d backups and %d files were removed, want 1 and 1", err, p.Backups, p.Removed)
	}
}
