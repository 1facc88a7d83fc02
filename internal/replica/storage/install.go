// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// ingestedBytes is the size of keys and values, in bytes, at which a new sstable starts.
const ingestedBytes = 64 << 20

// InstallSnapshot replaces the store's state of a partition with the snapshot in r, which was written by
// CaptureSnapshot. If change is not nil, InstallSnapshot calls it once, after all data has been read and verified.
// change may modify the meta, except the partition and the span. If change returns an error, InstallSnapshot returns
// this error. own is the previous span of the replica, whose data InstallSnapshot also removes. If the table of own is
// 0, own is empty. InstallSnapshot ignores own for keys.MetaPartition. absorbed contains partitions that own also
// covers, because the snapshot's span includes their spans. The caller must then remove the metas of these partitions.
// InstallSnapshot reads r exactly up to the end of the snapshot.
//
// When InstallSnapshot returns nil, the new state and all previously applied data are durable. After an error or a
// crash, the store has either the complete old state or the complete new state. Index entries of the old state may
// remain, because entries are hints. A crash may preserve the new state and lose data that was applied to other
// partitions during the call. The partition must not be read or written during the call.
//
// One version edit of Pebble removes the old data and ingests the new data. Pebble can excise only one span in an edit.
// If own and the snapshot's span are adjacent, the excise removes both. If the spans are not adjacent, a range deletion
// in an sstable removes own.
func (s *Snapshots) InstallSnapshot(ctx context.Context, own keys.Span, r io.Reader,
	change func(*keys.Meta) error, absorbed ...uint64) error {
	if err := s.writable(true); err != nil {
		return err
	}
	in := &install{s: s, ctx: ctx, r: streamReader{r: r}, absorbed: absorbed}
	err := in.run(own, change)
	if err = errors.Join(err, in.cleanUp()); err != nil {
		return s.check(fmt.Errorf("install snapshot of partition %d: %w", in.head.meta.Partition, err))
	}
	s.m.installed.Add(1)
	return nil
}

// install is an InstallSnapshot in progress.
type install struct {
	s    *Snapshots
	ctx  context.Context
	r    streamReader
	head streamHead
	// absorbed contains partitions that are now part of this partition. The installation also replaces their rows.
	absorbed []uint64
	// lower and upper bound the rows.
	lower, upper []byte
	sst          *sstable.Writer
	sstID        uint32
	sstBytes     int
	// files contains all complete and incomplete files.
	files []string
	// notes contains the notes of the dedupe records. TRUNCATE finds the records by these notes.
	notes [][]byte
	// last is the last key. bytes is the number of bytes written since the last check of the free disk space.
	last  []byte
	bytes int
}

func (in *install) run(own keys.Span, change func(*keys.Meta) error) error {
	if err := in.receive(); err != nil {
		return err
	}
	m := in.head.meta
	if change != nil {
		if err := change(&m); err != nil {
			return err
		}
	}
	lower, upper := rowBounds(m.Partition, m.Span)
	if m.Partition != in.head.meta.Partition || !bytes.Equal(lower, in.lower) || !bytes.Equal(upper, in.upper) {
		return errors.New("its partition or span was changed")
	}
	if err := in.s.directory.Raise(m.Feature); err != nil {
		return err
	}
	rest, err := in.hull(own)
	if err != nil {
		return err
	}
	key := keys.AppendMeta(nil, keys.PartitionID, m.Partition)
	if err := in.write(key, m.Append(nil)); err != nil {
		return err
	}
	slices.SortFunc(in.notes, bytes.Compare)
	for _, note := range slices.CompactFunc(in.notes, bytes.Equal) {
		if err := in.write(note, nil); err != nil {
			return err
		}
	}
	if rest != nil {
		if err := in.begin(keys.ID(rest[0])); err != nil {
			return err
		}
		if err := in.sst.DeleteRange(rest[0], rest[1]); err != nil {
			return err
		}
	}
	if err := in.finish(); err != nil {
		return err
	}
	return in.ingest(rest)
}

// receive reads and verifies the stream and writes it to sstables.
func (in *install) receive() error {
	if err := in.r.begin(&in.head); err != nil {
		return err
	}
	m := &in.head.meta
	if m.Partition != keys.MetaPartition && !isTable(m.Span.Table) {
		return fmt.Errorf("%w: it belongs to table %d", ErrBadSnapshot, m.Span.Table)
	}
	if in.lower, in.upper = rowBounds(m.Partition, m.Span); bytes.Compare(in.lower, in.upper) >= 0 {
		return fmt.Errorf("%w: its span is empty", ErrBadSnapshot)
	}
	if err := in.s.room(in.head.estimate); err != nil {
		return err
	}
	for more := true; more; {
		if err := in.ctx.Err(); err != nil {
			return err
		}
		var err error
		if more, err = in.r.next(in.record); err != nil {
			return err
		}
	}
	return in.finish()
}

// record processes one record of the stream. It returns an error if the key does not belong to the partition.
func (in *install) record(key, value []byte) error {
	if bytes.Compare(key, in.last) <= 0 {
		return fmt.Errorf("%w: key %x after %x", ErrBadSnapshot, key, in.last)
	}
	in.last = append(in.last[:0], key...)
	if bytes.Compare(key, in.lower) < 0 || bytes.Compare(key, in.upper) >= 0 {
		m := &in.head.meta
		if e, ok := keys.ParseIndex(key); !ok || m.Partition == keys.MetaPartition || !m.Span.Holds(e.Position()) {
			return fmt.Errorf("%w: key %x does not belong to it", ErrBadSnapshot, key)
		}
	}
	if p, ok := keys.Parse(key); ok && p.Kind == keys.Dedupe {
		if second, ok := dedupeSecond(value); ok {
			in.notes = append(in.notes, keys.AppendSweepEntry(nil, keys.SweepDedupe, dueAt(keys.SweepDedupe, second),
				key[:p.PrefixLen+1]))
		}
	}
	if in.bytes += len(key) + len(value); in.bytes >= roomEvery {
		in.bytes = 0
		if err := in.s.room(0); err != nil {
			return err
		}
	}
	return in.write(key, value)
}

// write adds a record to the sstables. Each sstable contains keys of only one ID.
func (in *install) write(key, value []byte) error {
	if id := keys.ID(key); in.sst == nil || in.sstID != id || in.sstBytes >= ingestedBytes {
		if err := in.begin(id); err != nil {
			return err
		}
	}
	in.sstBytes += len(key) + len(value)
	return in.sst.Set(key, value)
}

// begin starts an sstable.
func (in *install) begin(id uint32) error {
	if err := in.finish(); err != nil {
		return err
	}
	name := in.s.tempName(".sst")
	f, err := in.s.createTemp(name)
	if err != nil {
		return err
	}
	in.files = append(in.files, name)
	in.sst, in.sstID, in.sstBytes = sstable.NewWriter(objstorageprovider.NewFileWritable(f), in.s.tableOptions()), id, 0
	return nil
}

// finish completes and syncs the current sstable, if any.
func (in *install) finish() error {
	if in.sst == nil {
		return nil
	}
	err := in.sst.Close()
	in.sst = nil
	return err
}

// tableOptions returns the options for the sstables.
func (s *Snapshots) tableOptions() sstable.WriterOptions {
	po := pebbleOptions(s.fs, s.o)
	po.EnsureDefaults()
	o := po.MakeWriterOptions(len(po.Levels)-1, s.db.TableFormat())
	o.DisableValueBlocks = rowsAreNoVersions.DisableValueSeparationBySuffix
	return o
}

// isTable reports whether an ID belongs to a table.
func isTable(id uint32) bool {
	return id&^(keys.WideRing|keys.WholeKey) >= keys.FirstTable && id&keys.IndexSpace == 0
}

// hull checks that no other partition owns the data to be removed. It sets in.lower and in.upper to the bounds of the
// excise. It returns the bounds of the data outside the excise, or nil if the excise covers all data.
func (in *install) hull(own keys.Span) (rest [][]byte, err error) {
	partition := in.head.meta.Partition
	gone := [][][]byte{{in.lower, in.upper}}
	if own.Table != 0 && partition != keys.MetaPartition {
		if !isTable(own.Table) {
			return nil, fmt.Errorf("a replica of table %d", own.Table) // these tables contain system keys
		}
		lower, upper := own.Bounds()
		if bytes.Compare(lower, upper) < 0 {
			gone = append(gone, [][]byte{lower, upper})
		}
	}
	err = in.s.Metas(func(m keys.Meta) error {
		if m.Partition == partition || slices.Contains(in.absorbed, m.Partition) {
			return nil
		}
		lower, upper := rowBounds(m.Partition, m.Span)
		for _, g := range gone {
			if bytes.Compare(lower, g[1]) < 0 && bytes.Compare(g[0], upper) < 0 {
				return fmt.Errorf("%w: %d has %v", ErrOverlap, m.Partition, m.Span)
			}
		}
		return nil
	})
	if err != nil || len(gone) == 1 {
		return nil, err
	}
	lower, upper := gone[1][0], gone[1][1]
	if bytes.Compare(lower, in.upper) > 0 || bytes.Compare(in.lower, upper) > 0 {
		return gone[1], nil
	}
	if bytes.Compare(lower, in.lower) < 0 {
		in.lower = lower
	}
	if bytes.Compare(upper, in.upper) > 0 {
		in.upper = upper
	}
	return nil, nil
}

// ingest adds the sstables to the store. It first syncs the log, because the ingestion may become durable before older
// log records.
func (in *install) ingest(rest [][]byte) error {
	s := in.s
	if err := in.ctx.Err(); err != nil {
		return err
	}
	if err := s.mark(in.head.meta.Span.Table, in.head.flags); err != nil {
		return err
	}
	spans := [][][]byte{{in.lower, in.upper}}
	if rest != nil {
		spans = append(spans, rest)
	}
	for _, span := range spans {
		if err := s.holdRuns(span[0], span[1]); err != nil {
			return err
		}
		defer s.tombstones.release(span[0])
	}
	if err := s.Sync(); err != nil {
		return err
	}
	s.ingestMu.Lock() // sweeps must not remove ingested entries whose owner is not yet known
	defer s.ingestMu.Unlock()
	s.spans.begun.Add(1)
	defer s.spans.done.Add(1)
	excise := pebble.KeyRange{Start: in.lower, End: in.upper}
	if _, err := s.db.IngestAndExcise(context.Background(), in.files, nil, nil, excise); err != nil {
		return err
	}
	s.ann.arrive()
	s.weakened.Add(1)
	s.truncated.Store(true) // index entries of the old state remain
	s.disk.recheckSoon()
	return s.Sync() // the table's flags may not be durable yet
}

// cleanUp removes the files that were not ingested.
func (in *install) cleanUp() error {
	err := in.finish()
	for _, name := range in.files {
		if rerr := in.s.fs.Remove(name); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	return err
}
