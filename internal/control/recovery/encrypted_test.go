// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/replica/encryption"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// encrypt encrypts a data directory and returns its keys.
func encrypt(t *testing.T, dir string, key encryption.KeySource) *encryption.Keys {
	t.Helper()
	k, err := encryption.Open(t.Context(), vfs.Default, encryption.Options{Key: key, Rotation: time.Hour,
		Dirs: []string{dir, filepath.Join(dir, membership.LogDir)}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := storage.Open(k.FS(), dir, storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log, err := raftlog.Open(filepath.Join(dir, membership.LogDir), raftlog.Options{FS: k.FS()})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.Rewrite(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(log.Close(), store.Close()); err != nil {
		t.Fatal(err)
	}
	return k
}

// TestEncryptedDirectory checks that an encrypted directory is inspected and recovered with its key, and only with it.
// The saved state must be encrypted, because it contains the roles of the cluster.
func TestEncryptedDirectory(t *testing.T) {
	w := newTestCluster(t, 4, []int{1, 2, 3, 4})
	dir := w.directoryOf(1)
	key := encryption.KeySource{File: filepath.Join(t.TempDir(), "key")}
	made, err := encryption.MakeKey(key.File)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(dir, key, time.Now()); err == nil || !strings.Contains(err.Error(), "is not encrypted") {
		t.Errorf("a key for a directory that is not encrypted: %v", err)
	}
	k := encrypt(t, dir, key)
	if _, err := Inspect(dir, noKey, time.Now()); err == nil || !strings.Contains(err.Error(), made.Fingerprint()) {
		t.Errorf("without the key: %v", err)
	}
	s, err := Inspect(dir, key, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.plan([]int{2, 3, 4}, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := Apply(p, "digest", dir, noKey, time.Now()); err == nil {
		t.Error("the plan is applied without the key")
	}
	if err := Apply(p, "digest", dir, key, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := Apply(p, "digest", dir, key, time.Now()); !errors.Is(err, ErrDone) {
		t.Errorf("once more: %v", err)
	}
	saved, err := os.ReadFile(filepath.Join(dir, beforeFile))
	if err != nil {
		t.Fatal(err)
	}
	var open bytes.Buffer
	if damaged, err := k.Reveal(saved, &open); err != nil || damaged > 0 || bytes.Contains(saved, []byte(stateHead)) ||
		!strings.HasPrefix(open.String(), stateHead) {
		t.Errorf("the saved state: %d bytes are damaged, %v, %.40q", damaged, err, open.String())
	}
}
