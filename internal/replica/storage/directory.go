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

// Directory is whose data the store holds, and at which feature level. It is safe for concurrent use.
type Directory struct {
	*engine
	lock *pebble.Lock
	// mu is held while the identity changes.
	mu    sync.Mutex
	id    Identity
	level atomic.Uint32 // feature.Level, that of id
}

// claim keeps other processes out of the directory.
func (s *Directory) claim() (err error) {
	s.lock, err = pebble.LockDirectory(s.dir, s.fs)
	switch {
	case err == nil, errors.Is(err, os.ErrPermission), errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.EROFS),
		errors.Is(err, syscall.EAGAIN):
		return err // explain knows it
	}
	return fmt.Errorf("another process uses it: %w", err)
}

// identify finds out whose data there are, or prepares the identity that a new store gets.
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
		return false, errors.New("there is no data, and read-only creates none")
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

// Identity returns whose data the store holds.
func (s *Directory) Identity() Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// SetIdentity replaces the cluster and node ids, durably, when the store joins a cluster.
func (s *Directory) SetIdentity(cluster, node [16]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.id
	id.Cluster, id.Node = cluster, node
	return s.writeIdentity(id)
}

// writeIdentity replaces the identity, durably. Its caller holds mu.
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

// pebbleFormat is the version of Pebble's own files at a feature level: never the newest that the library has, or the
// first start of a new build would leave the old one a directory that it cannot open.
func pebbleFormat(feature.Level) pebble.FormatMajorVersion { return pebble.FormatValueSeparation }

// checkLevel refuses a directory whose level this build does not understand.
func (s *Directory) checkLevel(level feature.Level) error {
	switch l := s.o.Levels; {
	case level > l.Newest:
		return newerDirectory("feature level", int(level), int(l.Oldest), int(l.Newest))
	case level < l.Oldest:
		return fmt.Errorf("it has feature level %d, this build understands %s: raise it with a build that understands both", level, l)
	}
	return nil
}

// Level is the feature level of the directory: no build that does not understand it can open the store.
func (s *Directory) Level() feature.Level { return feature.Level(s.level.Load()) }

// Raise raises the level of the directory, durably; it never falls. It must be done before anything of the new level is
// written.
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
