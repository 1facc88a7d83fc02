// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Every user with write access to a repository can also write a matching digest. The package therefore validates data
// from a repository before it becomes part of a file name, is used as an index, or is printed.

const (
	// idMax is the maximum length of IDs. nameMax is the maximum length of the names of keyspaces, tables, and builds.
	// Both lengths are in bytes.
	idMax   = 64
	nameMax = 1024
)

// ValidID reports whether id is valid as the ID of a backup or a cluster.
func ValidID(id string) bool {
	return id != "" && len(id) <= idMax && id[0] != '.' && !strings.ContainsFunc(id, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(".:+-_", r)
	})
}

// ValidName reports whether name is valid as a file name. A file name is the hexadecimal digest of the file's records.
func ValidName(name string) bool { return isHex(name, 2*sha256.Size) }

func isHex(text string, length int) bool {
	_, err := hex.DecodeString(text)
	return err == nil && len(text) == length && strings.ToLower(text) == text
}

// printable reports whether a name is short and contains no control characters.
func printable(name string) bool {
	return len(name) <= nameMax && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// check rejects a manifest that this package cannot have written.
func (m *Manifest) check() error {
	wrong := func(what, is string) error {
		return fmt.Errorf("manifest: %w: %s %.100q is not valid", ErrDamaged, what, is)
	}
	switch {
	case !ValidID(m.ID):
		return wrong("the ID", m.ID)
	case m.Cluster != "" && !ValidID(m.Cluster):
		return wrong("the cluster", m.Cluster)
	case !printable(m.Software):
		return wrong("the version", m.Software)
	}
	if m.Metadata.Name != "" { // the manifest of a single partition has no metadata file
		if err := m.Metadata.check(); err != nil {
			return fmt.Errorf("manifest: %w", err)
		}
	}
	return checkTables("manifest", m.Tables)
}

func checkTables(where string, tables []Table) error {
	for i := range tables {
		t := &tables[i]
		for _, name := range []string{t.Keyspace, t.Name} {
			if !printable(name) {
				return fmt.Errorf("%s: %w: the name %.100q is not valid", where, ErrDamaged, name)
			}
		}
		for j := range t.Partitions {
			if err := t.Partitions[j].check(); err != nil {
				return fmt.Errorf("%s: table %s.%s: %w", where, t.Keyspace, t.Name, err)
			}
		}
	}
	return nil
}

func (p *Partition) check() error {
	if !printable(p.Node) {
		return fmt.Errorf("%w: the node %.100q is not valid", ErrDamaged, p.Node)
	}
	for i := range p.Files {
		if err := p.Files[i].check(); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) check() error {
	switch {
	case !ValidName(f.Name):
		return fmt.Errorf("%w: the file name %.100q is not a digest", ErrDamaged, f.Name)
	case f.Records < 0 || f.Bytes < 0:
		return fmt.Errorf("%w: file %s has %d records of %d bytes", ErrDamaged, f.Name, f.Records, f.Bytes)
	}
	return nil
}

// check rejects a segment that this package cannot have written.
func (s *Segment) check() error {
	if len(s.RestorePoints) == 0 {
		return fmt.Errorf("segment: %w: it has no restore point", ErrDamaged)
	}
	for _, id := range []string{s.Cluster, s.MetadataFile, s.Incarnation} {
		if !printable(id) {
			return fmt.Errorf("segment: %w: the name %.100q is not valid", ErrDamaged, id)
		}
	}
	if s.Previous != "" && !isHex(s.Previous, 2*sha256.Size) {
		return fmt.Errorf("segment: %w: the digest %.100q is not valid", ErrDamaged, s.Previous)
	}
	for i := range s.RestorePoints {
		if err := checkTables("segment", s.RestorePoints[i].Tables); err != nil {
			return err
		}
	}
	for i := range s.Partitions {
		if err := s.Partitions[i].check(); err != nil {
			return fmt.Errorf("segment: %w", err)
		}
	}
	for i := range s.Files {
		if err := s.Files[i].check(); err != nil {
			return fmt.Errorf("segment: %w", err)
		}
	}
	return nil
}
