// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/feature"
)

// Directory holds the identity and the feature level of the store. It is safe for concurrent use.
type Directory struct {
	*engine
	lock *pebble.Lock
	// mu is held while the identity changes.
	mu    sync.Mutex
	id    Identity
	level atomic.Uint32 // feature.Level of id
}

// claim locks the directory against other processes.
func (s *Directory) claim() (err error) {
	s.lock, err = pebble.LockDirectory(s.dir, s.fs)
	switch {
	case err == nil, errors.Is(err, os.ErrPermission), errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.EROFS),
		errors.Is(err, syscall.EAGAIN):
		return err // explain adds a text for the administrator
	}
	return fmt.Errorf("another process uses it: %w", err)
}

// identify reads the identity of an existing store or prepares the identity of a new store.
func (s *Directory) identify() (exists bool, err error) {
	id, exists, err := readIdentity(s.fs, s.dir)
	switch want := s.o.Identity.Cluster; {
	case err != nil:
		return false, err
	case exists && want != [16]byte{} && want != id.Cluster:
		return false, fmt.Errorf("it belongs to another cluster (%x, not %x)", id.Cluster, want)
	case exists:
		err = s.checkLevel(id.Level)
	case s.o.ReadOnly:
		return false, errors.New("the directory is empty, and a read-only store cannot be created")
	default:
		id = s.o.Identity.complete(s.o.Levels.Newest)
		err = writeTemp(s.fs, s.dir, id)
	}
	if err != nil {
		return false, err
	}
	s.id = id
	s.level.Store(uint32(id.Level))
	return exists, nil
}

// Identity returns the identity of the store.
func (s *Directory) Identity() Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// SetIdentity durably replaces the cluster and node IDs when the store joins a cluster.
func (s *Directory) SetIdentity(cluster, node [16]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.id
	id.Cluster, id.Node = cluster, node
	return s.writeIdentity(id)
}

// Region returns the number of the region of the node, or 0 for the region in which the cluster was created.
func (s *Directory) Region() uint32 { return s.Identity().Region }

// SetRegion durably sets the number of the region of the node.
func (s *Directory) SetRegion(number uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id.Region == number {
		return nil
	}
	id := s.id
	id.Region = number
	return s.writeIdentity(id)
}

// writeIdentity durably replaces the identity. The caller must hold mu.
func (s *Directory) writeIdentity(id Identity) error {
	if err := writeTemp(s.fs, s.dir, id); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	if err := commitTemp(s.fs, s.dir); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	s.id = id
	return nil
}

// pebbleFormat returns the format version of Pebble's files at a feature level. The version is older than the newest
// version of the library, so that the previous build can still open the directory after an upgrade.
func pebbleFormat(feature.Level) pebble.FormatMajorVersion { return pebble.FormatValueSeparation }

// checkLevel rejects a directory whose level this build does not support.
func (s *Directory) checkLevel(level feature.Level) error {
	switch l := s.o.Levels; {
	case level > l.Newest:
		return newerDirectory("feature level", int(level), int(l.Oldest), int(l.Newest))
	case level < l.Oldest:
		return fmt.Errorf("its feature level is %d, but this version supports %s: upgrade it with a version that "+
			"supports both", level, l)
	}
	return nil
}

// Level returns the feature level of the directory. A build that does not support this level cannot open the store.
func (s *Directory) Level() feature.Level { return feature.Level(s.level.Load()) }

// Raise durably raises the level of the directory. It never lowers the level. It must be called before data in the
// format of the new level is written.
func (s *Directory) Raise(level feature.Level) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if level <= s.Level() {
		return nil
	}
	if err := s.checkLevel(level); err != nil {
		return err
	}
	id := s.id
	id.Level = level
	if err := s.writeIdentity(id); err != nil {
		return err
	}
	if err := s.db.RatchetFormatMajorVersion(pebbleFormat(level)); err != nil {
		return s.check(fmt.Errorf("raise the store to feature level %d: %w", level, err))
	}
	s.level.Store(uint32(level))
	return nil
}
