// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// These are the errors of snapshots.
var (
	// ErrNoPartition means that the partition does not exist in the store.
	ErrNoPartition = errors.New("no such partition in the store")
	// ErrNoRoom rejects a snapshot if writing or installing it would leave less free disk space than
	// Options.MinFreeDisk.
	ErrNoRoom = errors.New("not enough disk space for a snapshot")
	// ErrBadSnapshot rejects a stream that is truncated, damaged, or in a newer format.
	ErrBadSnapshot = errors.New("unusable snapshot")
	// ErrOverlap rejects a snapshot of keys that another partition in this store owns.
	ErrOverlap = errors.New("the snapshot overlaps another partition")
)

const (
	// snapshotDir contains incoming and outgoing snapshots. Open removes its contents.
	snapshotDir = "snapshots"
	// roomEvery is the number of bytes written between two checks of the free space.
	roomEvery = 32 << 20
	// tempSyncBytes is the number of bytes that are written between two syncs of a temporary file.
	tempSyncBytes = 1 << 20
	// spanTries is the maximum number of attempts to create a snapshot. An attempt fails if a split changes the span of
	// the partition.
	spanTries = 10
)

// Snapshots moves whole partitions between stores.
type Snapshots struct {
	*engine
	*rows
	*disk
	*runFinder
	*Records
	directory *Directory
	// temps is the number of temporary files that have been created.
	temps atomic.Uint64
}

// SnapshotFile is one state of a physical partition in a temporary file. ReadAt is safe for concurrent use.
type SnapshotFile struct {
	s    *Snapshots
	f    vfs.File
	name string
	meta keys.Meta
	size int64
}

// Meta returns the meta of the state. The fields Applied and Term are the log position of the state.
func (p *SnapshotFile) Meta() keys.Meta { return p.meta }

// Size returns the size of the file in bytes.
func (p *SnapshotFile) Size() int64 { return p.size }

// ReadAt implements io.ReaderAt.
func (p *SnapshotFile) ReadAt(b []byte, at int64) (int, error) { return p.f.ReadAt(b, at) }

// Close removes the file.
func (p *SnapshotFile) Close() error {
	return errors.Join(p.f.Close(), p.s.fs.Remove(p.name))
}

// emptySnapshots removes the files of an earlier process.
func (s *Snapshots) emptySnapshots() error {
	dir := s.fs.PathJoin(s.dir, snapshotDir)
	if err := makeDir(s.fs, dir); err != nil {
		return err
	}
	names, err := s.fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		number, suffix, _ := strings.Cut(name, ".")
		if _, err := strconv.ParseUint(number, 10, 64); err != nil || !slices.Contains(tempSuffixes, "."+suffix) {
			continue
		}
		if err := s.fs.Remove(s.fs.PathJoin(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// tempSuffixes are the suffixes of temporary files, which are outgoing snapshots, incoming snapshots, and sstables of
// incoming snapshots.
var tempSuffixes = []string{".out", ".in", ".sst"}

// tempName returns the name of a new temporary file.
func (s *Snapshots) tempName(suffix string) string {
	return s.fs.PathJoin(s.dir, snapshotDir, strconv.FormatUint(s.temps.Add(1), 10)+suffix)
}

// createTemp creates a temporary file that is synced gradually, so that a log sync never waits for the whole file.
func (s *Snapshots) createTemp(name string) (vfs.File, error) {
	f, err := s.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return vfs.NewSyncingFile(f, vfs.SyncingFileOptions{BytesPerSync: tempSyncBytes}), nil
}

// state is one state of a partition.
type state struct {
	snap *pebble.EventuallyFileOnlySnapshot
	meta keys.Meta
	// lower and upper are the bounds of the partition's rows. indexes contains all indexes of the partition's table
	// with IDs below known.
	lower, upper []byte
	indexes      []uint32
	known        uint32
}

// rowBounds returns the bounds of the data that a partition owns.
func rowBounds(partition uint64, span keys.Span) (lower, upper []byte) {
	if partition == keys.MetaPartition {
		lower = keys.AppendSystem(nil, keys.MetaID, nil)
		return lower, keys.After(bytes.Clone(lower))
	}
	return span.Bounds()
}

// pin captures the state of a partition. It uses an eventually file-only snapshot, because plain Pebble snapshots do
// not survive the installation of other partitions. This kind of snapshot has a fixed key range. pin therefore starts
// again if a split changes the span of the partition.
func (s *Snapshots) pin(partition uint64) (*state, error) {
	for range spanTries {
		m, ok, err := s.Meta(partition)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, ErrNoPartition
		}
		// known must be read before the indexes, because indexes are installed before known is set.
		st := &state{known: s.next.Load()}
		st.lower, st.upper = rowBounds(partition, m.Span)
		key := keys.AppendMeta(nil, keys.PartitionID, partition)
		ranges := []pebble.KeyRange{
			{Start: key, End: append(bytes.Clone(key), 0)},
			{Start: progressKey, End: append(bytes.Clone(progressKey), 0)},
			{Start: st.lower, End: st.upper},
		}
		if t := s.lookupTable(m.Span.Table).installed.Load(); t != nil && partition != keys.MetaPartition {
			for i := range t.Indexes {
				st.indexes = append(st.indexes, t.Indexes[i].ID)
				lower, upper := indexBounds(t.Indexes[i].ID)
				ranges = append(ranges, pebble.KeyRange{Start: lower, End: upper})
			}
		}
		slices.SortFunc(ranges, func(a, b pebble.KeyRange) int { return bytes.Compare(a.Start, b.Start) })
		st.snap = s.db.NewEventuallyFileOnlySnapshot(ranges)
		if st.meta, ok, err = readMeta(st.snap, partition); err == nil && !ok {
			err = ErrNoPartition
		}
		if err != nil {
			return nil, s.check(errors.Join(err, st.snap.Close()))
		}
		if st.meta.Span.Table == m.Span.Table && bytes.Equal(st.meta.Span.Begin, m.Span.Begin) &&
			bytes.Equal(st.meta.Span.End, m.Span.End) {
			return st, nil
		}
		if err := st.snap.Close(); err != nil {
			return nil, s.check(err)
		}
	}
	return nil, fmt.Errorf("partition %d is split repeatedly", partition)
}

// each calls fn for all keys of the state in ascending order.
func (st *state) each(fn func(key, value []byte) error) error {
	sections := append([]uint32{0}, st.indexes...)
	first := func(id uint32) []byte {
		if id == 0 {
			return st.lower
		}
		lower, _ := indexBounds(id)
		return lower
	}
	slices.SortFunc(sections, func(a, b uint32) int { return bytes.Compare(first(a), first(b)) })
	for _, id := range sections {
		var err error
		if id == 0 {
			err = st.rows(fn)
		} else {
			lower, upper := indexBounds(id)
			var it *pebble.Iterator
			if it, err = st.snap.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper}); err == nil {
				err = errors.Join(eachEntry(it, st.meta.Span, fn), it.Close())
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (st *state) rows(fn func(key, value []byte) error) error {
	it, err := st.snap.NewIter(&pebble.IterOptions{LowerBound: st.lower, UpperBound: st.upper})
	if err != nil {
		return err
	}
	for it.First(); it.Valid() && err == nil; it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			err = fn(it.Key(), value)
		}
	}
	return errors.Join(err, it.Error(), it.Close())
}

// CaptureSnapshot writes one state of a partition to a temporary file. The state consists of the partition's meta,
// rows, headers, dedupe records, and index entries. For keys.MetaPartition, it also includes all keys under
// keys.MetaID. The partition's table must be installed and all of its indexes must be known. Otherwise, CaptureSnapshot
// returns ErrBehind. Writes to the partition may continue during the call.
func (s *Snapshots) CaptureSnapshot(ctx context.Context, partition uint64) (*SnapshotFile, error) {
	if s.o.ReadOnly {
		return nil, ErrReadOnly
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	st, err := s.pin(partition)
	if err != nil {
		return nil, fmt.Errorf("snapshot of partition %d: %w", partition, err)
	}
	if partition != keys.MetaPartition {
		// This check must follow the capture, so that the state contains no other indexes.
		if err := s.knowsIndexes(st.known); err != nil {
			return nil, fmt.Errorf("snapshot of partition %d: %w", partition, errors.Join(err, st.snap.Close()))
		}
	}
	p, err := s.spool(ctx, st)
	if cerr := st.snap.Close(); cerr != nil && err == nil {
		err = errors.Join(cerr, p.Close())
	}
	if err != nil {
		return nil, s.check(fmt.Errorf("snapshot of partition %d: %w", partition, err))
	}
	s.m.captured.Add(1)
	return p, nil
}

// spool writes a state to a file.
func (s *Snapshots) spool(ctx context.Context, st *state) (*SnapshotFile, error) {
	estimate, err := s.db.EstimateDiskUsage(st.lower, st.upper)
	if err == nil {
		err = s.room(estimate)
	}
	if err != nil {
		return nil, err
	}
	p := &SnapshotFile{s: s, name: s.tempName(".out"), meta: st.meta}
	if p.f, err = s.createTemp(p.name); err != nil {
		return nil, err
	}
	w := streamWriter{w: p.f}
	h := streamHead{estimate: estimate, meta: st.meta}
	if st.meta.Partition != keys.MetaPartition {
		h.flags = s.lookupTable(st.meta.Span.Table).flags.Load() // flags are set before the data is written
	}
	if err = w.begin(&h); err == nil {
		err = s.spoolKeys(ctx, st, &w)
	}
	if err = errors.Join(err, p.f.Close()); err == nil {
		p.size = w.size
		p.f, err = s.fs.Open(p.name)
	}
	if err != nil {
		return nil, errors.Join(err, s.fs.Remove(p.name))
	}
	return p, nil
}

// ReceiveSnapshot stores a snapshot in a temporary file for InstallSnapshot. The snapshot must have been written by
// CaptureSnapshot on another node. ReceiveSnapshot reads r to io.EOF and verifies every byte. It rejects the snapshot
// if the disk lacks the space for the installation, because a replica that has accepted a snapshot must install it.
func (s *Snapshots) ReceiveSnapshot(ctx context.Context, r io.Reader) (*SnapshotFile, error) {
	if err := s.writable(true); err != nil {
		return nil, err
	}
	p := &SnapshotFile{s: s, name: s.tempName(".in")}
	f, err := s.createTemp(p.name)
	if err != nil {
		return nil, fmt.Errorf("receive snapshot: %w", err)
	}
	buffered := bufio.NewWriterSize(f, chunkBytes)
	if err = s.receive(ctx, p, r, buffered); err == nil {
		err = buffered.Flush()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		p.f, err = s.fs.Open(p.name)
	}
	if err != nil {
		return nil, s.check(fmt.Errorf("receive snapshot: %w", errors.Join(err, s.fs.Remove(p.name))))
	}
	return p, nil
}

// receive copies a snapshot chunk by chunk, and sets the meta and the size of p.
func (s *Snapshots) receive(ctx context.Context, p *SnapshotFile, r io.Reader, w io.Writer) error {
	in := streamReader{r: io.TeeReader(r, w)}
	var h streamHead
	if err := in.begin(&h); err != nil {
		return err
	}
	if err := s.room(h.estimate); err != nil {
		return err
	}
	looked := in.size
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if in.size-looked >= roomEvery {
			looked = in.size
			if err := s.room(0); err != nil {
				return err
			}
		}
		var err error
		if more, err = in.next(func(_, _ []byte) error { return nil }); err != nil {
			return err
		}
	}
	p.meta, p.size = h.meta, in.size
	if err := errors.Join(s.writable(true), s.room(max(h.estimate, uint64(in.size)))); err != nil {
		return err
	}
	if n, err := io.Copy(io.Discard, r); err != nil || n > 0 {
		return errors.Join(err, fmt.Errorf("%w: %d bytes follow it", ErrBadSnapshot, n))
	}
	return nil
}

func (s *Snapshots) spoolKeys(ctx context.Context, st *state, w *streamWriter) error {
	looked := w.size
	err := st.each(func(key, value []byte) error {
		full, err := w.add(key, value)
		if err != nil || !full {
			return err
		}
		if w.size-looked >= roomEvery {
			looked = w.size
			if err := s.room(0); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	return w.end()
}
