// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/feature"
)

// pebbleFormat is the version of Pebble's own files at a feature level: never the newest that the library has, or the
// first start of a new build would leave the old one a directory that it cannot open.
func pebbleFormat(feature.Level) pebble.FormatMajorVersion { return pebble.FormatValueSeparation }

// checkLevel refuses a directory whose level this build does not understand.
func (s *Store) checkLevel(level feature.Level) error {
	switch l := s.o.Levels; {
	case level > l.Newest:
		return newerDirectory("feature level", int(level), int(l.Oldest), int(l.Newest))
	case level < l.Oldest:
		return fmt.Errorf("it has feature level %d, this build understands %s: raise it with a build that understands both", level, l)
	}
	return nil
}

// Level is the feature level of the directory: no build that does not understand it can open the store.
func (s *Store) Level() feature.Level { return feature.Level(s.level.Load()) }

// Raise raises the level of the directory, durably; it never falls. It must be done before anything of the new level is
// written.
func (s *Store) Raise(level feature.Level) error {
	s.idMu.Lock()
	defer s.idMu.Unlock()
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
